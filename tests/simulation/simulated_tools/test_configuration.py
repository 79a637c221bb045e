"""Configurations of simulated tools in a project: which one applies, and mistakes in it."""

from __future__ import annotations

import pytest

from tests.simulation.simulated_tools.conftest import Project, get_responses
from workbench.engine.plan import PlanError
from workbench.store.errors import StoreError


def test_all_mistakes_are_reported_before_anything_runs(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment(
        {"tool_name": "a", "injection_configs": [{"injected_response": 1}]},
        {"tool_name": "a", "mock_strategy_type": "MOCK_STRATEGY_TOOLSPEC"},
        {"tool_name": "b"},
    )
    project.cases(one='get_order {"order_id": "7"}')

    with pytest.raises(PlanError) as caught:
        project.run()

    messages = "\n".join(caught.value.problems)
    assert 'mock_strategy_type: found "MOCK_STRATEGY_TOOLSPEC", expected MOCK_STRATEGY_TOOL_SPEC (or 1)' in messages
    assert "found 'a', expected each tool once ('a' is number 0 already)" in messages
    assert "tool_simulation_configs[2]: found neither injection_configs nor a mock_strategy_type" in messages
    assert project.real_calls == []


def test_a_missing_or_malformed_file_is_reported(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.cases(one='get_order {"order_id": "7"}')

    with pytest.raises(PlanError, match=r"environment.json: cannot read it: there is no such file"):
        project.run()
    project.write("environment.json", "{")
    with pytest.raises(PlanError, match=r"environment.json:1:2: found the end of the file, expected "):
        project.run()


def test_the_command_line_takes_precedence_over_the_settings(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order", "injection_configs": [{"injected_response": "settings"}]})
    project.write(
        "other.json",
        '{"toolSimulationConfigs": [{"toolName": "get_order", "injectionConfigs": [{"injectedResponse": "command"}]}]}',
    )
    project.cases(one='get_order {"order_id": "7"}')

    assert get_responses(project.run()) == ['"settings"']
    assert get_responses(project.run(simulate_tools=project.root / "other.json")) == ['"command"']


def test_the_setting_for_tools_is_valid_only_for_function_agents(project: Project) -> None:
    project.settings('tools = ["shop.tools:get_order"]', kind="adk", target="agent")
    with pytest.raises(StoreError, match=r"targets.sample.tools: .* only targets of kind function need it"):
        project.run()
    project.settings('tools = ["a:get", "b:get"]\nsimulate_tools = "environment.json"')
    project.environment({"tool_name": "get", "injection_configs": [{"injected_response": 1}]})
    project.cases(one="go")
    with pytest.raises(
        PlanError, match=r"targets.sample.tools: found 'a:get' and 'b:get', expected one tool called get"
    ):
        project.run()
    project.settings('tools = ["get_order"]')
    with pytest.raises(StoreError, match=r"expected a list of module:function"):
        project.run()
