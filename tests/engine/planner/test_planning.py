"""Plans: what will run, judged by what, and what is refused before anything runs."""

from __future__ import annotations

import gc
import json
from collections import Counter

import pytest

from tests.engine.conftest import Project, turn
from workbench.engine.plan import Plan, PlanError, RunOptions, Selection
from workbench.metrics import registry
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.results import FailureKind

SET = Selection(eval_set="set.evalset.json")
HELLO = {"a": [turn("hello")], "b": [turn("bye"), turn("again")]}


def plan(project: Project, *selections: Selection, **options: object) -> Plan:
    return project.workspace().plan(selections or [SET], RunOptions.model_validate(options))


def refusal(project: Project, *selections: Selection, **options: object) -> str:
    with pytest.raises(PlanError) as refused:
        plan(project, *selections, **options)
    return str(refused.value)


def test_cases_times_repeats_and_what_they_will_cost(project: Project) -> None:
    project.add_set(HELLO)

    made = plan(project, runs=2)

    assert [(key.case.eval_id, key.repeat) for key, _ in made.jobs] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert made.agent_turns == 6


def held_cases() -> int:
    gc.collect()
    return sum(isinstance(held, EvalCase) for held in gc.get_objects())


def test_a_plan_holds_no_case_and_keeps_what_it_was_when_the_file_changes(project: Project) -> None:
    project.add_set(HELLO)

    before = held_cases()

    made = plan(project)

    assert held_cases() == before
    project.add_set({"a": [turn("other")], "b": [turn("other")]})
    assert [case.case.eval_id for case in made.cases if case.case is not None] == ["a", "b"]
    assert made.cases[0].expected_turns[0].user_content.text() == "hello"


def test_the_same_set_named_twice_runs_the_union(project: Project) -> None:
    project.add_set({**HELLO, "c": [turn("x")]})
    one, two = (Selection(eval_set="set.evalset.json", cases=(name,)) for name in "ab")

    made = plan(project, one, two, one)

    assert [case.key.eval_id for case in made.cases] == ["a", "b"]
    assert not made.whole_sets


def test_a_misspelt_criterion_is_refused_with_the_nearest_known_name(project: Project) -> None:
    project.add_set(HELLO)
    project.add_criteria(tool_trajectory_average_score=1.0)

    message = refusal(project)

    assert "tool_trajectory_average_score" in message
    assert "tool_trajectory_avg_score" in message
    assert "test_config.json" in message


@pytest.mark.parametrize("content", ["", '{"criteria": {}}', "{}"])
def test_without_criteria_the_default_ones_hold_and_that_is_said(project: Project, content: str) -> None:
    project.add_set(HELLO)
    config = project.root / "test_config.json"
    config.unlink()
    if content:
        config.write_text(content)

    made = plan(project)

    assert {c.metric: c.threshold for c in made.cases[0].config.criteria} == {
        "tool_trajectory_avg_score": 1.0,
        "response_match_score": 0.8,
    }
    assert "default" in made.notices[0] and "set.evalset.json" in made.notices[0]


def test_a_config_that_does_not_exist_is_an_error_and_not_the_default(project: Project) -> None:
    project.add_set(HELLO)

    assert "nowhere.json" in refusal(project, config=project.root / "nowhere.json")


def test_a_threshold_that_is_no_number_is_placed(project: Project) -> None:
    project.add_set(HELLO)
    (project.root / "test_config.json").write_text('{\n  "criteria": {\n    "response_match_score": "high"\n  }\n}')

    message = refusal(project)

    assert "test_config.json:3" in message
    assert "criteria.response_match_score" in message and "'high'" in message and "number" in message


def test_an_unknown_case_or_set_is_refused_with_the_nearest_name(project: Project) -> None:
    project.add_set({"device_on": [turn("x")]})

    assert "did you mean 'device_on'" in refusal(project, Selection(eval_set="set.evalset.json", cases=("device_no",)))
    assert "did you mean 'set.evalset.json'" in refusal(project, Selection(eval_set="sets.evalset.json"))


def test_cases_with_the_same_id_do_not_run_and_their_neighbours_do(project: Project) -> None:
    cases = [{"eval_id": name, "conversation": [turn(name)]} for name in ("a", "b", "a")]
    (project.root / "set.evalset.json").write_text(json.dumps({"eval_set_id": "set", "eval_cases": cases}))

    made = plan(project)

    problems = {(c.key.eval_id, c.key.occurrence): c.problem for c in made.cases}
    assert problems["b", 0] is None
    for occurrence in (0, 1):
        problem = problems["a", occurrence]
        assert problem is not None and problem.kind is FailureKind.FILE and "2 times" in problem.message


def test_what_is_kept_of_a_broken_case_names_its_file_from_the_project(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "set.evalset.json").write_text('{"eval_cases": [{"eval_id": "a", "conversation": [1]}]}')
    monkeypatch.chdir(project.root.parent)

    problem = plan(project).cases[0].problem

    assert problem is not None and problem.message.startswith("set.evalset.json:1:")


def test_a_broken_case_does_not_hide_its_neighbours(project: Project) -> None:
    both = {"conversation": [turn("x")], "conversation_scenario": {"starting_prompt": "x", "conversation_plan": "y"}}
    project.add_set({"good": [turn("x")], "both": both})

    made = plan(project)

    problem = made.cases[1].problem
    assert made.cases[0].problem is None
    assert problem is not None and problem.kind is FailureKind.FILE
    assert "set.evalset.json:1:" in problem.message and "exactly one of" in problem.message


def test_one_broken_file_of_several_is_named_and_the_others_run(project: Project) -> None:
    project.add_set(HELLO)
    (project.root / "broken.evalset.json").write_text("not JSON at all")

    made = plan(project, SET, Selection(eval_set="broken.evalset.json"))

    assert len(made.cases) == 2
    assert len(made.problems) == 1 and made.problems[0].startswith(str(project.root / "broken.evalset.json") + ":1:")


def test_a_config_that_cannot_be_used_costs_only_its_own_sets(project: Project) -> None:
    project.add_set(HELLO)
    (project.root / "other").mkdir()
    project.add_set(HELLO, name="other/set")
    (project.root / "other" / "test_config.json").write_text('{"criteria": {"no_such_metric": 1.0}}')

    run = project.run(Selection(eval_set="set.evalset.json"), Selection(eval_set="other/set.evalset.json"))

    assert {result.case.eval_set for result in run.results()} == {"set.evalset.json"}
    assert len(run.plan.problems) == 1 and "no_such_metric" in run.plan.problems[0]
    assert run.exit_status == 2


def test_a_set_that_belongs_to_no_agent_says_what_to_do(project: Project) -> None:
    (project.root / "workbench.toml").unlink()
    project.add_set(HELLO)

    assert "set.evalset.json" in refusal(project)


@pytest.mark.parametrize("options", [{"runs": 0}, {"concurrency": 0}, {"timeout_seconds": 0.0}])
def test_options_that_make_no_sense_are_refused(project: Project, options: dict[str, float]) -> None:
    project.add_set(HELLO)

    assert "more than 0" in refusal(project, **options)


def test_a_stored_verdict_is_of_the_same_case_only_while_its_content_is_the_same(project: Project) -> None:
    def hashes() -> tuple[str, str]:
        case = plan(project).cases[0]
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
    """Planning, estimating, running and judging share what the planner has prepared."""
    project.add_set({"a": [turn("hello")], "b": [turn("bye")]})
    project.add_criteria(tool_trajectory_avg_score=1.0, **judge)
    prepared: Counter[str] = Counter()
    prepare_criterion = registry._prepare_criterion

    def count(criterion: Criterion, config: EvalConfig) -> registry.PreparedCriterion:
        prepared[criterion.metric] += 1
        return prepare_criterion(criterion, config)

    monkeypatch.setattr(registry, "_prepare_criterion", count)
    workspace = project.workspace()
    plan = workspace.plan([SET], RunOptions())
    workspace.estimate(plan)
    list(workspace.start(plan).iter_events())

    assert set(prepared) >= {"tool_trajectory_avg_score", *judge}
    assert set(prepared.values()) == {1}
