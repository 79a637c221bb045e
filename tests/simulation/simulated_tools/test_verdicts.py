"""Verdicts on simulated tools: they hold as long as what is simulated does, and are none on the real tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulation.simulated_tools.conftest import Project, said
from tests.watch.watched import watching
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


def decided(project: Project, **options: Any) -> tuple[Action, Why | None]:
    with Workspace.open(project.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options))
        (decision,) = decide_plan(workspace, plan)
        return decision.action, decision.reasons[0].why if decision.reasons else None


def test_a_verdict_holds_exactly_as_long_as_what_is_simulated(project: Project) -> None:
    project.run()
    assert decided(project) == (Action.NOTHING, None)

    project.environment(OTHER)
    assert decided(project) == (Action.RUN, Why.TOOLS_CHANGED)

    project.write("environment.json", "// a note\n" + json.dumps({"toolSimulationConfigs": [SIMULATED]}, indent=2))
    assert decided(project) == (Action.NOTHING, None)


def test_a_verdict_on_simulated_tools_is_none_on_real_or_replayed_ones(project: Project) -> None:
    project.run()
    project.run(record_tools=project.root / "calls.jsonl")  # what records changes no answer
    assert decided(project) == (Action.NOTHING, None)
    assert decided(project, replay_tools=project.root / "calls.jsonl") == (Action.RUN, Why.TOOLS_CHANGED)

    project.settings()
    assert decided(project) == (Action.RUN, Why.CASE_CHANGED)


def test_what_is_scored_again_without_its_simulation_is_no_verdict_on_the_real_tools(project: Project) -> None:
    simulated = project.run()
    project.settings()

    with Workspace.open(project.root) as workspace:
        plan = workspace.plan_rescoring(simulated.results(), judged={}, criteria={})
        list(workspace.start(plan).iter_events())

    assert decided(project)[0] is Action.RUN
    assert project.called == []


async def test_a_save_of_the_file_runs_the_cases_again(project: Project) -> None:
    async with watching(project.root) as watched:
        await watched.until_quiet()

        told = await watched.after(lambda: project.environment(OTHER))

        assert list(told.verdicts) == ["one"]
        assert told.change.reason == "the case or its simulated tools changed"
        unrelated = await watched.after(lambda: project.write("notes.txt", "x"))
        assert unrelated.verdicts == {}
    assert project.called == []
    assert said(project.run()) == ['{"status": "OTHER"}']
