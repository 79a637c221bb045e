"""Plans: their jobs, hashes and criteria."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from tests.engine.project import Project, make_plan, turn
from workbench.engine.plan import RunOptions, Selection
from workbench.metrics import registry
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.evalset import EvalCase

SET = Selection(eval_set="set.evalset.json")
HELLO = {"a": [turn("hello")], "b": [turn("bye"), turn("again")]}


def test_a_plan_lists_every_repeat_and_counts_the_agent_turns(project: Project) -> None:
    project.add_set(HELLO)

    plan = make_plan(project, runs=2)

    assert [(key.case.eval_id, key.repeat) for key, _ in plan.jobs] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert plan.agent_turns == 6


def count_cases_in_memory() -> int:
    gc.collect()
    return sum(isinstance(item, EvalCase) for item in gc.get_objects())


def test_a_plan_keeps_no_case_in_memory_and_ignores_later_edits_of_the_file(project: Project) -> None:
    project.add_set(HELLO)

    before = count_cases_in_memory()

    plan = make_plan(project)

    assert count_cases_in_memory() == before
    project.add_set({"a": [turn("other")], "b": [turn("other")]})
    assert [case.case.eval_id for case in plan.cases if case.case is not None] == ["a", "b"]
    first = plan.cases[0].case
    assert first is not None
    assert [turn.user_content.text() for turn in first.conversation or ()] == ["hello"]


def test_the_hashes_of_a_case_change_only_with_its_content(project: Project) -> None:
    def hashes() -> tuple[str, str]:
        case = make_plan(project).cases[0]
        return case.execution_hash, case.scoring_hash

    project.add_set({"a": [turn("hello", response="hi")]})
    before = hashes()
    project.add_set({"renamed": [turn("hello", response="hi")]})
    assert hashes() == before

    project.add_set({"a": [turn("hello", response="good day")]})
    expected_changed = hashes()
    assert expected_changed[0] == before[0] and expected_changed[1] != before[1]

    project.add_set({"a": [turn("hello!", response="hi")]})
    assert hashes()[0] != before[0]


@pytest.mark.parametrize("judge", [{}, {"safety_v1": 0.5}], ids=["metric", "judge"])
def test_the_criteria_of_a_plan_are_prepared_once(
    project: Project, monkeypatch: pytest.MonkeyPatch, judge: dict[str, float]
) -> None:
    """Planning, estimating, running and judging share the criteria that the planner prepared."""
    project.add_set({"a": [turn("hello")], "b": [turn("bye")]})
    project.add_criteria(tool_trajectory_avg_score=1.0, **judge)
    prepare_counts: Counter[str] = Counter()
    prepare_criterion = registry._prepare_criterion

    def count(criterion: Criterion, config: EvalConfig) -> registry.PreparedCriterion:
        prepare_counts[criterion.metric] += 1
        return prepare_criterion(criterion, config)

    monkeypatch.setattr(registry, "_prepare_criterion", count)
    workspace = project.open_workspace()
    plan = workspace.plan([SET], RunOptions())
    workspace.estimate(plan)
    list(workspace.start(plan).iter_events())

    assert set(prepare_counts) >= {"tool_trajectory_avg_score", *judge}
    assert set(prepare_counts.values()) == {1}
