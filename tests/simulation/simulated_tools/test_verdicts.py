"""Verdicts with simulated tools: current until the simulation changes, and never valid for the real tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulation.simulated_tools.conftest import Project, get_responses
from tests.watch.watched import watch_project
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.watch.selector import Action, Why, decide_plan

GET_7 = 'get_order {"order_id": "7"}'
SIMULATED = {"tool_name": "get_order", "injection_configs": [{"injected_response": {"status": "MADE UP"}}]}
OTHER = {"tool_name": "get_order", "injection_configs": [{"injected_response": {"status": "OTHER"}}]}

pytestmark = pytest.mark.needs_fork


@pytest.fixture
def project(project: Project) -> Project:
    project.settings('simulate_tools = "environment.json"\ntools = ["shop.tools:get_order"]')
    project.environment(SIMULATED)
    project.cases(one=GET_7)
    return project


def decide(project: Project, **options: Any) -> tuple[Action, Why | None]:
    with Workspace.open(project.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options))
        (decision,) = decide_plan(workspace, plan)
        return decision.action, decision.reasons[0].why if decision.reasons else None


def test_a_verdict_becomes_stale_only_when_the_simulation_changes(project: Project) -> None:
    project.run()
    assert decide(project) == (Action.NOTHING, None)

    project.environment(OTHER)
    assert decide(project) == (Action.RUN, Why.TOOLS_CHANGED)

    project.write("environment.json", "// a note\n" + json.dumps({"toolSimulationConfigs": [SIMULATED]}, indent=2))
    assert decide(project) == (Action.NOTHING, None)


def test_a_verdict_with_simulated_tools_is_stale_for_real_or_replayed_ones(project: Project) -> None:
    project.run()
    project.run(record_tools=project.root / "calls.jsonl")  # recording changes no answer
    assert decide(project) == (Action.NOTHING, None)
    assert decide(project, replay_tools=project.root / "calls.jsonl") == (Action.RUN, Why.TOOLS_CHANGED)

    project.settings()
    assert decide(project) == (Action.RUN, Why.CASE_CHANGED)


def test_rescoring_a_simulated_run_gives_no_verdict_on_the_real_tools(project: Project) -> None:
    simulated = project.run()
    project.settings()

    with Workspace.open(project.root) as workspace:
        plan = workspace.plan_rescoring(simulated.results(), judged={}, criteria={})
        list(workspace.start(plan).iter_events())

    assert decide(project)[0] is Action.RUN
    assert project.real_calls == []


async def test_a_save_of_the_environment_file_reruns_the_cases(project: Project) -> None:
    async with watch_project(project.root) as watch:
        await watch.wait_until_quiet()

        update = await watch.apply(lambda: project.environment(OTHER))

        assert list(update.verdicts) == ["one"]
        assert update.change.reason == "the case or its simulated tools changed"
        unrelated = await watch.apply(lambda: project.write("notes.txt", "x"))
        assert unrelated.verdicts == {}
    assert project.real_calls == []
    assert get_responses(project.run()) == ['{"status": "OTHER"}']
