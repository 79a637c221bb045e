"""Accepting in a project: the result is checked, saved, and rescored without the agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project, get_statuses, turn
from workbench.engine.acceptance import Acceptance, AcceptanceRefused, find_hunks
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.identity import JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, MetricResult, MetricStatus

AGENT = """
import pathlib
def answer(prompt):
    with open(pathlib.Path(__file__).parent / "told.txt", "a") as file: file.write(prompt + "\\n")
    if prompt == "die": raise ValueError("no")
    return {"response": prompt.upper(), "predicted_trajectory": [{"tool_name": "shout", "tool_input": {"n": 1}}]}
"""


RUBRICS = [{"rubric_id": "a", "rubric_content": {"text_property": "It is kind."}}]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    project.add_agent(AGENT)
    project.add_criteria(tool_trajectory_avg_score=1.0, exact_match=1.0)
    project.add_set({"a": [turn("hi", calls=[{"name": "shout", "args": {"n": 2}}])], "b": [turn("die")]})
    yield project
    project.close()


def run_case(project: Project, eval_id: str = "a", **options: Any) -> tuple[Workspace, CaseResult]:
    workspace = project.open_workspace()
    run = project.run(workspace=workspace, **options)
    return workspace, next(result for result in run.results() if result.case.eval_id == eval_id)


def get_shown_case(workspace: Workspace, result: CaseResult) -> EvalCase:
    document = workspace.document(result.case.eval_set)
    return next(document.case(entry.index) for entry in document.entries if entry.eval_id == result.case.eval_id)


def make_acceptance(
    workspace: Workspace, result: CaseResult, *, some: slice = slice(None), is_whole: bool = True
) -> Acceptance:
    case = get_shown_case(workspace, result)
    return Acceptance(shown=case, result=result, hunks=find_hunks(case, result.execution)[some], is_whole=is_whole)


def rescore(workspace: Workspace, result: CaseResult, judged: EvalCase) -> Run:
    run = workspace.start(workspace.acceptances.plan_rescoring(result, judged=judged))
    list(run.iter_events())
    return run


def test_an_accepted_result_passes_without_another_agent_run(project: Project) -> None:
    workspace, result = run_case(project)
    assert result.status is CaseStatus.FAILED
    prompts_before = (project.root / "told.txt").read_text()
    acceptance = make_acceptance(workspace, result)

    after = workspace.acceptances.accept(acceptance, label="accept everything")
    run = rescore(workspace, result, acceptance.shown)

    assert json.loads((project.root / "set.evalset.json").read_text())["eval_cases"][0] == {
        "eval_id": "a",
        "conversation": [turn("hi", response="HI", calls=[{"name": "shout", "args": {"n": 1}}])],
    }
    assert find_hunks(after, result.execution) == ()
    assert get_statuses(run) == {"a": "PASSED"}
    assert run.results()[0].execution == result.execution
    assert (project.root / "told.txt").read_text() == prompts_before
    with workspace.history() as history:
        assert history.latest_results([result.case])[result.case][0].status is CaseStatus.PASSED
        assert history.run("latest").command == "scored again"


def test_hunks_can_be_accepted_one_after_the_other_without_waiting_for_scores(project: Project) -> None:
    workspace, result = run_case(project)

    workspace.acceptances.accept(make_acceptance(workspace, result, some=slice(1), is_whole=False), label="one")
    workspace.acceptances.accept(make_acceptance(workspace, result, some=slice(1), is_whole=False), label="two")

    assert find_hunks(get_shown_case(workspace, result), result.execution) == ()
    assert [workspace.documents.undo("set.evalset.json") for _ in range(3)] == ["two", "one", None]


def test_an_undone_acceptance_is_planned_for_rescoring(project: Project) -> None:
    workspace, result = run_case(project)
    before = (project.root / "set.evalset.json").read_bytes()
    acceptance = make_acceptance(workspace, result)
    workspace.acceptances.accept(acceptance, label="all")
    assert list(workspace.acceptances.plans_after_undo(["set.evalset.json"])) == []

    workspace.documents.undo("set.evalset.json")
    assert list(workspace.acceptances.plans_after_undo(["other.evalset.json"])) == []
    (plan,) = workspace.acceptances.plans_after_undo(["set.evalset.json"])

    assert (project.root / "set.evalset.json").read_bytes() == before
    assert not any(case.needs_agent for case in plan.cases)
    assert list(workspace.acceptances.plans_after_undo(["set.evalset.json"])) == []
    workspace.documents.redo("set.evalset.json")
    assert len(list(workspace.acceptances.plans_after_undo(["set.evalset.json"]))) == 1


def test_an_edit_that_keeps_the_accepted_result_is_not_rescored(project: Project) -> None:
    workspace, result = run_case(project)
    workspace.acceptances.accept(make_acceptance(workspace, result), label="all")

    workspace.documents.edit(
        "set.evalset.json", lambda document: document.set_value(("rubrics",), [], case=0), label="by hand"
    )

    assert list(workspace.acceptances.plans_after_undo(["set.evalset.json"])) == []


def test_all_repeats_are_rescored(project: Project) -> None:
    workspace, result = run_case(project, runs=3)
    acceptance = make_acceptance(workspace, result)
    workspace.acceptances.accept(acceptance, label="all")

    run = rescore(workspace, result, acceptance.shown)

    assert [(found.repeat, found.status.value) for found in run.results()] == [(n, "PASSED") for n in range(3)]


def test_shown_repeats_of_an_earlier_run_are_rescored_too(project: Project) -> None:
    workspace = project.open_workspace()
    earlier, newest = (project.run(workspace=workspace, runs=count) for count in (2, 1))
    result = next(found for found in newest.results() if found.case.eval_id == "a")
    shown = {n: (run.run_id, JobKey(case=result.case, repeat=n)) for n, run in enumerate((newest, earlier))}
    acceptance = make_acceptance(workspace, result)
    workspace.acceptances.accept(acceptance, label="all")

    plan = workspace.acceptances.plan_rescoring(result, judged=acceptance.shown, repeats=shown)
    run = workspace.start(plan)
    list(run.iter_events())

    assert {found.repeat: found.status for found in run.results()} == dict.fromkeys((0, 1), CaseStatus.PASSED)


def test_accepting_an_error_is_refused(project: Project) -> None:
    workspace, result = run_case(project, "b")

    with pytest.raises(AcceptanceRefused, match="ended in an error"):
        workspace.acceptances.accept(make_acceptance(workspace, result), label="all")


def test_calls_with_unknown_arguments_are_refused_and_the_file_stays_unchanged(project: Project) -> None:
    workspace, result = run_case(project)
    turn = result.execution.turns[0].model_copy(update={"arguments_unknown": "no span tells any"})
    execution = result.execution.model_copy(update={"turns": (turn,)})
    result = result.model_copy(update={"execution": execution})
    before = (project.root / "set.evalset.json").read_bytes()

    with pytest.raises(
        AcceptanceRefused, match="the arguments of the tool calls of turn 1 are unknown: no span tells any"
    ):
        workspace.acceptances.accept(make_acceptance(workspace, result), label="all")

    assert (project.root / "set.evalset.json").read_bytes() == before


def test_a_case_that_changed_since_it_was_judged_is_refused_in_every_session(project: Project) -> None:
    _, result = run_case(project)
    path = project.root / "set.evalset.json"
    path.write_text(path.read_text().replace('"n": 2', '"n": 3'))

    for workspace in (project.open_workspace(), project.open_workspace()):
        with pytest.raises(AcceptanceRefused, match="changed since it was judged"):
            workspace.acceptances.accept(make_acceptance(workspace, result), label="all")
    assert '"n": 3' in path.read_text()


def test_a_case_that_changed_since_it_was_shown_is_refused(project: Project) -> None:
    workspace, result = run_case(project)
    acceptance = make_acceptance(workspace, result)
    path = project.root / "set.evalset.json"
    path.write_text(path.read_text().replace('"n": 2', '"n": 3'))

    with pytest.raises(AcceptanceRefused, match="changed since it was shown"):
        workspace.acceptances.accept(acceptance, label="all")


def test_a_case_that_only_moved_in_its_file_is_accepted(project: Project) -> None:
    workspace, result = run_case(project)
    path = project.root / "set.evalset.json"
    data = json.loads(path.read_text())
    data["eval_cases"].reverse()
    path.write_text(json.dumps(data))

    workspace.acceptances.accept(make_acceptance(workspace, result), label="all")

    assert find_hunks(get_shown_case(workspace, result), result.execution) == ()


def test_accepting_is_refused_while_the_set_has_unsaved_edits(project: Project) -> None:
    workspace, result = run_case(project)
    acceptance = make_acceptance(workspace, result)
    workspace.documents.edit("set.evalset.json", lambda document: document.remove_case(1), label="remove")

    with pytest.raises(AcceptanceRefused, match="unsaved edits"):
        workspace.acceptances.accept(acceptance, label="all")


def test_results_without_a_stored_execution_cannot_be_rescored(project: Project) -> None:
    workspace, result = run_case(project)

    with pytest.raises(PlanError, match="no longer stored"):
        workspace.plan_rescoring([result.model_copy(update={"execution": Execution()})], judged={}, criteria={})


def make_judged_result(project: Project, **criteria: Any) -> tuple[Workspace, CaseResult, EvalConfig]:
    """Return a result with these criteria, each judged with 0.9, and one criterion without a judge."""
    workspace, result = run_case(project)
    project.add_criteria(tool_trajectory_avg_score=1.0, **criteria)
    metrics = [
        MetricResult(name=name, score=0.9, threshold=0.5, status=MetricStatus.PASSED, scored=1, total=1)
        for name in criteria
    ]
    workspace.refresh()
    config = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()).cases[0].config
    return workspace, result.model_copy(update={"metrics": (*metrics, *result.metrics)}), config


def rescore_result(workspace: Workspace, result: CaseResult, **known: Any) -> dict[str, Any]:
    run = workspace.start(workspace.plan_rescoring([result], **known))
    list(run.iter_events())
    (found,) = run.results()
    return {metric.name: (metric.score, metric.status.value) for metric in found.metrics[:3]}


def test_a_judgement_is_reused_only_if_its_reference_is_unchanged(project: Project) -> None:
    workspace, result, config = make_judged_result(project, safety_v1=0.5, final_response_match_v2=0.5)
    criteria = {result.case.eval_set: config}

    same_reference = rescore_result(
        workspace, result, judged={result.case: get_shown_case(workspace, result)}, criteria=criteria
    )
    unknown_reference = rescore_result(workspace, result, judged={}, criteria=criteria)

    expected = {"safety_v1": (0.9, "PASSED"), "tool_trajectory_avg_score": (0.0, "FAILED")}
    assert same_reference == {**expected, "final_response_match_v2": (0.9, "PASSED")}
    assert unknown_reference == {**expected, "final_response_match_v2": (None, "UNDEFINED")}


@pytest.mark.parametrize(
    "changed",
    [
        {"threshold": 0.5, "rubrics": [{"rubric_id": "a", "rubric_content": {"text_property": "It is loud."}}]},
        {"threshold": 0.5, "rubrics": RUBRICS, "judge_model_options": {"num_samples": 3}},
        {"threshold": 0.5, "rubrics": RUBRICS, "judge_model_options": {"judge_model": "gemini-other"}},
        {"threshold": 0.4, "rubrics": RUBRICS},
    ],
    ids=["rubrics", "options", "model", "threshold"],
)
def test_a_judgement_is_not_reused_for_a_changed_criterion_of_the_same_name(
    project: Project, changed: dict[str, Any]
) -> None:
    name = "rubric_based_final_response_quality_v1"
    workspace, result, config = make_judged_result(project, **{name: {"threshold": 0.5, "rubrics": RUBRICS}})
    known = {"judged": {result.case: get_shown_case(workspace, result)}, "criteria": {result.case.eval_set: config}}
    assert rescore_result(workspace, result, **known)[name] == (0.9, "PASSED")

    project.add_criteria(tool_trajectory_avg_score=1.0, **{name: changed})
    workspace.refresh()

    assert rescore_result(workspace, result, **known)[name] == (None, "UNDEFINED")


def test_a_run_that_only_rescores_cannot_be_resumed(project: Project) -> None:
    workspace, result = run_case(project)

    plan = workspace.plan_rescoring([result], judged={}, criteria={})

    assert plan.selections == ()
    assert plan.whole_sets == frozenset()
