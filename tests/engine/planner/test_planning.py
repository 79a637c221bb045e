"""Plans: the cases to run, their criteria, and errors that are refused before a run."""

from __future__ import annotations

import json

import pytest

from tests.engine.project import SET, Project, make_plan, turn
from workbench.engine.plan import PlanError, Selection
from workbench.model.results import FailureKind

HELLO = {"a": [turn("hello")], "b": [turn("bye"), turn("again")]}


def get_refusal(project: Project, *selections: Selection, **options: object) -> str:
    with pytest.raises(PlanError) as error:
        make_plan(project, *selections, **options)
    return str(error.value)


def test_two_selections_of_the_same_set_run_their_union(project: Project) -> None:
    project.add_set({**HELLO, "c": [turn("x")]})
    one, two = (Selection(eval_set="set.evalset.json", cases=(name,)) for name in "ab")

    plan = make_plan(project, one, two, one)

    assert [case.key.eval_id for case in plan.cases] == ["a", "b"]
    assert not plan.whole_sets


def test_a_misspelt_criterion_is_refused_with_the_nearest_known_name(project: Project) -> None:
    project.add_set(HELLO)
    project.add_criteria(tool_trajectory_average_score=1.0)

    message = get_refusal(project)

    assert "tool_trajectory_average_score" in message
    assert "tool_trajectory_avg_score" in message
    assert "test_config.json" in message


@pytest.mark.parametrize("content", ["", '{"criteria": {}}', "{}"])
def test_the_default_criteria_apply_without_a_config_and_a_notice_says_so(project: Project, content: str) -> None:
    project.add_set(HELLO)
    config = project.root / "test_config.json"
    config.unlink()
    if content:
        config.write_text(content)

    plan = make_plan(project)

    assert {c.metric: c.threshold for c in plan.cases[0].config.criteria} == {
        "tool_trajectory_avg_score": 1.0,
        "response_match_score": 0.8,
    }
    assert "default" in plan.notices[0] and "set.evalset.json" in plan.notices[0]


def test_a_missing_config_file_is_refused_by_its_name(project: Project) -> None:
    project.add_set(HELLO)

    assert "nowhere.json" in get_refusal(project, config=project.root / "nowhere.json")


def test_a_threshold_that_is_not_a_number_is_refused_with_its_place(project: Project) -> None:
    project.add_set(HELLO)
    (project.root / "test_config.json").write_text('{\n  "criteria": {\n    "response_match_score": "high"\n  }\n}')

    message = get_refusal(project)

    assert "test_config.json:3" in message
    assert "criteria.response_match_score" in message and "'high'" in message and "number" in message


def test_an_unknown_case_or_set_is_refused_with_the_nearest_name(project: Project) -> None:
    project.add_set({"device_on": [turn("x")]})

    assert "did you mean 'device_on'" in get_refusal(
        project, Selection(eval_set="set.evalset.json", cases=("device_no",))
    )
    assert "did you mean 'set.evalset.json'" in get_refusal(project, Selection(eval_set="sets.evalset.json"))


def test_cases_with_duplicate_ids_do_not_run_but_the_others_do(project: Project) -> None:
    cases = [{"eval_id": name, "conversation": [turn(name)]} for name in ("a", "b", "a")]
    (project.root / "set.evalset.json").write_text(json.dumps({"eval_set_id": "set", "eval_cases": cases}))

    plan = make_plan(project)

    problems = {(c.key.eval_id, c.key.occurrence): c.problem for c in plan.cases}
    assert problems["b", 0] is None
    for occurrence in (0, 1):
        problem = problems["a", occurrence]
        assert problem is not None and problem.kind is FailureKind.FILE and "2 times" in problem.message


def test_the_problem_of_a_broken_case_names_its_file_relative_to_the_project(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "set.evalset.json").write_text('{"eval_cases": [{"eval_id": "a", "conversation": [1]}]}')
    monkeypatch.chdir(project.root.parent)

    problem = make_plan(project).cases[0].problem

    assert problem is not None and problem.message.startswith("set.evalset.json:1:")


def test_a_broken_case_does_not_hide_the_other_cases(project: Project) -> None:
    ambiguous_case = {
        "conversation": [turn("x")],
        "conversation_scenario": {"starting_prompt": "x", "conversation_plan": "y"},
    }
    project.add_set({"good": [turn("x")], "both": ambiguous_case})

    plan = make_plan(project)

    problem = plan.cases[1].problem
    assert plan.cases[0].problem is None
    assert problem is not None and problem.kind is FailureKind.FILE
    assert "set.evalset.json:1:" in problem.message and "exactly one of" in problem.message


def test_one_broken_file_of_several_is_named_and_the_others_run(project: Project) -> None:
    project.add_set(HELLO)
    (project.root / "broken.evalset.json").write_text("not JSON at all")

    plan = make_plan(project, SET, Selection(eval_set="broken.evalset.json"))

    assert len(plan.cases) == 2
    assert len(plan.problems) == 1 and plan.problems[0].startswith(str(project.root / "broken.evalset.json") + ":1:")


def test_an_unusable_config_affects_only_its_own_sets(project: Project) -> None:
    project.add_set(HELLO)
    (project.root / "other").mkdir()
    project.add_set(HELLO, name="other/set")
    (project.root / "other" / "test_config.json").write_text('{"criteria": {"no_such_metric": 1.0}}')

    run = project.run(Selection(eval_set="set.evalset.json"), Selection(eval_set="other/set.evalset.json"))

    assert {result.case.eval_set for result in run.results()} == {"set.evalset.json"}
    assert len(run.plan.problems) == 1 and "no_such_metric" in run.plan.problems[0]
    assert run.exit_status == 2


def test_a_set_that_belongs_to_no_agent_is_refused_by_its_name(project: Project) -> None:
    (project.root / "workbench.toml").unlink()
    project.add_set(HELLO)

    assert "set.evalset.json" in get_refusal(project)


@pytest.mark.parametrize("options", [{"runs": 0}, {"concurrency": 0}, {"timeout_seconds": 0.0}])
def test_options_that_are_not_positive_are_refused(project: Project, options: dict[str, float]) -> None:
    project.add_set(HELLO)

    assert "more than 0" in get_refusal(project, **options)
