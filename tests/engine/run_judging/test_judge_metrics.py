"""Judge metrics of a configuration in a run: asked at a server, compared with earlier runs, refused where wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Call, Said, Server, gemini, serving
from tests.watch.watched import Folder
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult, CaseStatus
from workbench.watch.selector import Action, Reason, Why, decide_plan, select_affected

SET = Selection(eval_set="set.evalset.json")
LOUD = {"criteria": {"Loud": "Is it loud?"}, "rating_rubric": {"1": "loud", "0": "not"}}
LOUDER = {
    "kind": "pairwise",
    "criteria": {"Loud": "Is it loud?"},
    "rating_rubric": {"A": "A is louder.", "B": "B is louder."},
}


def between(text: str, name: str) -> str:
    return text.split(f"<{name}>\n")[1].split(f"\n</{name}>", maxsplit=1)[0]


def answer(call: Call) -> Said:
    """What is written in capitals is loud."""
    text = call.body["contents"][0]["parts"][0]["text"]
    if "<response_a>" in text:
        loud = [between(text, name).isupper() for name in ("response_a", "response_b")]
        choice = "SAME" if loud[0] == loud[1] else "A" if loud[0] else "B"
        return gemini(json.dumps({"explanation": "e", "pairwise_choice": choice}))
    return gemini(json.dumps({"explanation": "e", "score": int(between(text, "response").isupper())}))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(answer) as started:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", started.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", "def answer(prompt): return prompt")
    made.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        "[judge]\ntries = 1\n",
    )
    made.cases(one="one", two="TWO")
    return made


def judged_by(folder: Folder, **metrics: Any) -> None:
    criteria = {name: {"threshold": 0.5, "judge_model_options": {"num_samples": 2}} for name in metrics}
    folder.write("test_config.json", json.dumps({"criteria": criteria, "judge_metrics": metrics}))


def run(folder: Folder) -> tuple[str, dict[str, CaseResult]]:
    with Workspace.open(folder.root) as workspace:
        started = workspace.start(workspace.plan([SET], RunOptions()))
        list(started.iter_events())
        return started.run_id, {result.case.eval_id: result for result in started.results()}


def scores(results: dict[str, CaseResult], metric: str = "own") -> dict[str, float | None]:
    return {
        name: next(each.score for each in result.metrics if each.name == metric) for name, result in results.items()
    }


def test_a_rating_decides_a_case(folder: Folder, server: Server) -> None:
    judged_by(folder, own=LOUD)

    _, results = run(folder)

    assert {name: result.status for name, result in results.items()} == {
        "one": CaseStatus.FAILED,
        "two": CaseStatus.PASSED,
    }
    assert len(server.calls) == 4


def test_a_changed_definition_judges_again_what_the_agent_did(folder: Folder, server: Server) -> None:
    judged_by(folder, own=LOUD)
    run(folder)

    assert decided(folder) == {Action.NOTHING}
    judged_by(folder, own={**LOUD, "criteria": {"Loud": "Is it really loud?"}})
    assert decided(folder) == {Action.JUDGE}


def test_that_there_is_a_newer_run_to_compare_with_judges_nothing_again(folder: Folder, server: Server) -> None:
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    run(folder)

    assert decided(folder) == {Action.NOTHING}


def test_what_had_no_run_to_compare_with_is_judged_again_once_there_is_one(folder: Folder, server: Server) -> None:
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    alone = decided(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    run(folder)
    compared = decided(folder)
    folder.write("agent.py", "def answer(prompt): return prompt")

    assert (alone, compared) == ({Action.NOTHING}, {Action.NOTHING})
    with Workspace.open(folder.root) as workspace:
        undone = decide_plan(workspace, workspace.plan([SET], RunOptions()))
        assert {(each.action, each.reasons) for each in undone} == {(Action.JUDGE, (Reason(Why.NEWER_RUN),))}
        again = workspace.start(select_affected(workspace, workspace.plan([SET], RunOptions())))
        list(again.iter_events())
        assert scores({result.case.eval_id: result for result in again.results()}) == {"one": 0.0, "two": 0.5}
    assert decided(folder) == {Action.NOTHING}


def test_repeats_of_one_run_are_not_compared_with_each_other(folder: Folder, server: Server) -> None:
    folder.write("agent.py", "import os\ndef answer(prompt):\n    return f'{prompt} {os.urandom(8).hex()}'\n")
    judged_by(folder, own=LOUD)
    with Workspace.open(folder.root) as workspace:
        list(workspace.start(workspace.plan([SET], RunOptions(runs=2))).iter_events())
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})

    with Workspace.open(folder.root) as workspace:
        part = select_affected(workspace, workspace.plan([SET], RunOptions(runs=2)))
        again = workspace.start(part)
        list(again.iter_events())

    assert not any(case.needs_agent for case in part.cases)
    assert {result.status for result in again.results()} == {CaseStatus.NOT_EVALUATED}


def decided(folder: Folder) -> set[Action]:
    with Workspace.open(folder.root) as workspace:
        return {each.action for each in decide_plan(workspace, workspace.plan([SET], RunOptions()))}


def test_the_latest_run_is_what_is_compared_with(folder: Folder, server: Server) -> None:
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})

    first, nothing = run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    _, louder = run(folder)
    judged_by(folder, own={**LOUDER, "baseline": {"run": first}})
    folder.write("agent.py", "def answer(prompt): return prompt.lower()")
    _, against_first = run(folder)

    assert scores(nothing) == {"one": None, "two": None}
    assert {result.status for result in nothing.values()} == {CaseStatus.NOT_EVALUATED}
    assert scores(louder) == {"one": 1.0, "two": 0.5}
    assert scores(against_first) == {"one": 0.5, "two": 0.0}
    assert scores(against_first, "own/baseline_model_win_rate") == {"one": 0.0, "two": 1.0}


def test_the_win_rates_of_a_run_are_in_its_summary(folder: Folder, server: Server) -> None:
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    run(folder)

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        metrics = history.run("latest").summary.metrics

    assert metrics["own/candidate_model_win_rate"].mean == 0.5
    assert metrics["own/baseline_model_win_rate"].mean == 0.0
    assert metrics["own"].mean == 0.75


def test_a_column_of_a_dataset_is_compared_with(folder: Folder, server: Server) -> None:
    judged_by(folder, own=LOUDER)
    rows = [
        {"eval_id": "a", "prompt": "p", "response": "LOUD", "baseline_model_response": "low"},
        {"eval_id": "b", "prompt": "p", "response": "low"},
    ]
    folder.write("rows.jsonl", "\n".join(map(json.dumps, rows)))

    with Workspace.open(folder.root) as workspace:
        options = RunOptions(config=folder.root / "test_config.json")
        started = workspace.start(workspace.plan_recorded(folder.root / "rows.jsonl", options))
        list(started.iter_events())
        results = {result.case.eval_id: result for result in started.results()}

    assert scores(results) == {"a": 1.0, "b": None}
    assert results["b"].metrics[0].reason == "the row has no baseline_model_response"


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ({**LOUD, "input_variables": ["promt"]}, "found the unknown variable 'promt', expected 'prompt'"),
        (LOUDER, "found the column 'baseline_model_response', which the cases do not have"),
        ({**LOUDER, "baseline": {"run": "nobody"}}, "found the run 'nobody'"),
    ],
)
def test_what_the_judge_cannot_be_shown_is_said_before_the_run(
    folder: Folder, server: Server, metric: dict[str, Any], problem: str
) -> None:
    judged_by(folder, own=metric)

    with Workspace.open(folder.root) as workspace, pytest.raises(PlanError, match=problem):
        workspace.plan([SET], RunOptions())
    assert server.calls == []


def test_a_run_that_is_not_in_the_history_is_named(folder: Folder, server: Server) -> None:
    judged_by(folder, own=LOUD)
    run(folder)
    judged_by(folder, own={**LOUDER, "baseline": {"run": "nobody"}})

    with Workspace.open(folder.root) as workspace, pytest.raises(PlanError, match="there is no run 'nobody'"):
        workspace.plan([SET], RunOptions())


def test_judged_again_a_run_is_compared_with_what_was_the_latest_one_then(folder: Folder, server: Server) -> None:
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    louder, _ = run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper() + '!'")
    run(folder)

    with Workspace.open(folder.root) as workspace:
        with workspace.history() as history:
            stored, results = history.run(louder), list(history.results(louder))
        again = workspace.start(workspace.plan_judging(stored, results, RunOptions()))
        list(again.iter_events())
        judged = {result.case.eval_id: result for result in again.results()}

    assert scores(judged) == {"one": 1.0, "two": 0.5}


def test_scored_again_win_rates_stand_with_their_metric_and_nobody_is_asked(folder: Folder, server: Server) -> None:
    judged_by(folder, own={**LOUDER, "baseline": {"run": "latest"}})
    run(folder)
    folder.write("agent.py", "def answer(prompt): return prompt.upper()")
    louder, results = run(folder)
    asked = len(server.calls)

    with Workspace.open(folder.root) as workspace:
        with workspace.history() as history:
            criteria = history.run(louder).criteria
        again = workspace.start(workspace.plan_rescoring(list(results.values()), judged={}, criteria=criteria))
        list(again.iter_events())
        names = [metric.name for metric in again.results()[0].metrics]

    assert names[:3] == ["own", "own/candidate_model_win_rate", "own/baseline_model_win_rate"]
    assert len(server.calls) == asked
