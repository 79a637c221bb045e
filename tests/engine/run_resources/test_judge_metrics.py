"""Judge metrics of a configuration: judged by a server, compared with earlier runs, and refused if wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.run_resources.loudness import LOUDER, answer
from tests.llm.servers import Server, run_server
from tests.watch.watched import Folder
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult, CaseStatus
from workbench.watch.selector import Action, Reason, Why, decide_plan, select_affected

SET = Selection(eval_set="set.evalset.json")
LOUD = {"criteria": {"Loud": "Is it loud?"}, "rating_rubric": {"1": "loud", "0": "not"}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with run_server(answer) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", "def answer(prompt): return prompt")
    project.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        "[judge]\ntries = 1\n",
    )
    project.cases(one="one", two="TWO")
    return project


def write_metrics(folder: Folder, **metrics: Any) -> None:
    criteria = {name: {"threshold": 0.5, "judge_model_options": {"num_samples": 2}} for name in metrics}
    folder.write("test_config.json", json.dumps({"criteria": criteria, "judge_metrics": metrics}))


def run(folder: Folder) -> tuple[str, dict[str, CaseResult]]:
    with Workspace.open(folder.root) as workspace:
        judged_run = workspace.start(workspace.plan([SET], RunOptions()))
        list(judged_run.iter_events())
        return judged_run.run_id, {result.case.eval_id: result for result in judged_run.results()}


def get_scores(results: dict[str, CaseResult], metric: str = "own") -> dict[str, float | None]:
    return {
        name: next(each.score for each in result.metrics if each.name == metric) for name, result in results.items()
    }


def test_a_rating_decides_the_status_of_a_case(folder: Folder, server: Server) -> None:
    write_metrics(folder, own=LOUD)

    _, results = run(folder)

    assert {name: result.status for name, result in results.items()} == {
        "one": CaseStatus.FAILED,
        "two": CaseStatus.PASSED,
    }
    assert len(server.calls) == 4


def test_a_changed_metric_definition_rescores_stored_executions(folder: Folder, server: Server) -> None:
    write_metrics(folder, own=LOUD)
    run(folder)

    assert decide_actions(folder) == {Action.NOTHING}
    write_metrics(folder, own={**LOUD, "criteria": {"Loud": "Is it really loud?"}})
    assert decide_actions(folder) == {Action.JUDGE}


def test_a_newer_baseline_run_alone_rescores_nothing(folder: Folder, server: Server) -> None:
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    run(folder)

    assert decide_actions(folder) == {Action.NOTHING}


def test_a_case_judged_without_a_baseline_run_is_rescored_once_one_exists(folder: Folder, server: Server) -> None:
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    first_actions = decide_actions(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    run(folder)
    second_actions = decide_actions(folder)
    folder.write("agent.py", "def answer(prompt): return prompt")

    assert (first_actions, second_actions) == ({Action.NOTHING}, {Action.NOTHING})
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))
        assert {(each.action, each.reasons) for each in decisions} == {(Action.JUDGE, (Reason(Why.NEWER_RUN),))}
        second_run = workspace.start(select_affected(workspace, workspace.plan([SET], RunOptions())))
        list(second_run.iter_events())
        assert get_scores({result.case.eval_id: result for result in second_run.results()}) == {"one": 0.0, "two": 0.5}
    assert decide_actions(folder) == {Action.NOTHING}


def test_repeats_of_one_run_are_not_compared_with_each_other(folder: Folder, server: Server) -> None:
    folder.write("agent.py", "import os\ndef answer(prompt):\n    return f'{prompt} {os.urandom(8).hex()}'\n")
    write_metrics(folder, own=LOUD)
    with Workspace.open(folder.root) as workspace:
        list(workspace.start(workspace.plan([SET], RunOptions(runs=2))).iter_events())
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})

    with Workspace.open(folder.root) as workspace:
        part = select_affected(workspace, workspace.plan([SET], RunOptions(runs=2)))
        second_run = workspace.start(part)
        list(second_run.iter_events())

    assert not any(case.needs_agent for case in part.cases)
    assert {result.status for result in second_run.results()} == {CaseStatus.NOT_EVALUATED}


def decide_actions(folder: Folder) -> set[Action]:
    with Workspace.open(folder.root) as workspace:
        return {each.action for each in decide_plan(workspace, workspace.plan([SET], RunOptions()))}


def test_results_are_compared_with_the_latest_run_or_the_named_run(folder: Folder, server: Server) -> None:
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})

    first, first_results = run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    _, louder = run(folder)
    write_metrics(folder, own={**LOUDER, "baseline": {"run": first}})
    folder.write("agent.py", "def answer(prompt): return prompt.lower()")
    _, against_first = run(folder)

    assert get_scores(first_results) == {"one": None, "two": None}
    assert {result.status for result in first_results.values()} == {CaseStatus.NOT_EVALUATED}
    assert get_scores(louder) == {"one": 1.0, "two": 0.5}
    assert get_scores(against_first) == {"one": 0.5, "two": 0.0}
    assert get_scores(against_first, "own/baseline_model_win_rate") == {"one": 0.0, "two": 1.0}


def test_the_win_rates_of_a_run_are_in_its_summary(folder: Folder, server: Server) -> None:
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    run(folder)

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        metrics = history.run("latest").summary.metrics

    assert metrics["own/candidate_model_win_rate"].mean == 0.5
    assert metrics["own/baseline_model_win_rate"].mean == 0.0
    assert metrics["own"].mean == 0.75


def test_responses_are_compared_with_a_column_of_the_dataset(folder: Folder, server: Server) -> None:
    write_metrics(folder, own=LOUDER)
    rows = [
        {"eval_id": "a", "prompt": "p", "response": "LOUD", "baseline_model_response": "low"},
        {"eval_id": "b", "prompt": "p", "response": "low"},
    ]
    folder.write("rows.jsonl", "\n".join(map(json.dumps, rows)))

    with Workspace.open(folder.root) as workspace:
        options = RunOptions(config=folder.root / "test_config.json")
        judged_run = workspace.start(workspace.plan_recorded(folder.root / "rows.jsonl", options))
        list(judged_run.iter_events())
        results = {result.case.eval_id: result for result in judged_run.results()}

    assert get_scores(results) == {"a": 1.0, "b": None}
    assert results["b"].metrics[0].reason == "the row has no baseline_model_response"


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ({**LOUD, "input_variables": ["promt"]}, "found the unknown variable 'promt', expected 'prompt'"),
        (LOUDER, "found the column 'baseline_model_response', which the cases do not have"),
        ({**LOUDER, "baseline": {"run": "nobody"}}, "found the run 'nobody'"),
    ],
)
def test_missing_inputs_of_a_judge_metric_are_refused_before_the_run(
    folder: Folder, server: Server, metric: dict[str, Any], problem: str
) -> None:
    write_metrics(folder, own=metric)

    with Workspace.open(folder.root) as workspace, pytest.raises(PlanError, match=problem):
        workspace.plan([SET], RunOptions())
    assert server.calls == []


def test_an_unknown_baseline_run_is_refused_by_its_name(folder: Folder, server: Server) -> None:
    write_metrics(folder, own=LOUD)
    run(folder)
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "nobody"}})

    with Workspace.open(folder.root) as workspace, pytest.raises(PlanError, match="there is no run 'nobody'"):
        workspace.plan([SET], RunOptions())


def test_a_run_that_is_judged_again_is_compared_with_the_latest_run_of_its_time(folder: Folder, server: Server) -> None:
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    louder, _ = run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper() + '!'")
    run(folder)

    with Workspace.open(folder.root) as workspace:
        with workspace.history() as history:
            stored, results = history.run(louder), list(history.results(louder))
        second_run = workspace.start(workspace.plan_judging(stored, results, RunOptions()))
        list(second_run.iter_events())
        judged_results = {result.case.eval_id: result for result in second_run.results()}

    assert get_scores(judged_results) == {"one": 1.0, "two": 0.5}


def test_rescoring_lists_win_rates_next_to_their_metric_and_calls_no_judge(folder: Folder, server: Server) -> None:
    write_metrics(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    louder, results = run(folder)
    call_count = len(server.calls)

    with Workspace.open(folder.root) as workspace:
        with workspace.history() as history:
            criteria = history.run(louder).criteria
        second_run = workspace.start(workspace.plan_rescoring(list(results.values()), judged={}, criteria=criteria))
        list(second_run.iter_events())
        names = [metric.name for metric in second_run.results()[0].metrics]

    assert names[:3] == ["own", "own/candidate_model_win_rate", "own/baseline_model_win_rate"]
    assert len(server.calls) == call_count
