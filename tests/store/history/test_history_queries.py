"""One case over many runs, and the scores of one run, as comparisons need them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.history.conftest import make_record, make_result
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.model.run_events import RunSummary
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.store.history.history_queries import ResultToStore

StoreRun = Callable[..., str]
FAILED = CaseStatus.FAILED


def test_the_executions_of_a_case_come_newest_first_with_scores_and_keys(history: History) -> None:
    for run_id in ("1", "2"):
        history.begin_run(make_record(run_id))
        results = [make_result("a"), make_result("a", repeat=1, status=FAILED), make_result("b")]
        history.finish_jobs(run_id, [ResultToStore(result, f"e{run_id}", f"s{run_id}") for result in results])

    found = history.list_executions(make_result("a").case)

    assert [(job.run_id, job.key.repeat, job.status.value, job.execution_key) for job, _ in found] == [
        ("2", 1, "FAILED", "e2"),
        ("2", 0, "PASSED", "e2"),
        ("1", 1, "FAILED", "e1"),
        ("1", 0, "PASSED", "e1"),
    ]
    assert all([metric.name for metric in metrics] == ["m"] for _, metrics in found)
    assert [job.run_id for job, _ in history.list_executions(make_result("a").case, limit=1)] == ["2"]
    assert history.list_executions(make_result("c").case) == []


def test_an_execution_without_scores_is_listed_with_none(history: History, store_run: StoreRun) -> None:
    store_run("r", make_result("a", status=CaseStatus.ERROR, metrics=(), execution=Execution()))

    assert [metrics for _, metrics in history.list_executions(make_result("a").case)] == [()]


def test_runs_of_a_target_count_only_its_cases(history: History, store_run: StoreRun) -> None:
    store_run("1", make_result("a"), make_result("b", status=FAILED), make_result("x", target="other"))
    store_run("2", make_result("x", target="other"))
    store_run("3", make_result("a"))

    parts = history.list_runs_of_target("t")

    assert [(part.run.run_id, part.summary) for part in parts] == [
        ("3", RunSummary(total=1, passed=1)),
        ("1", RunSummary(total=2, passed=1, failed=1)),
    ]
    assert [part.run.run_id for part in history.list_runs_of_target("t", limit=1)] == ["3"]
    assert len(history.list_runs_of_target("t", "sets/a.evalset.json")) == 2
    assert history.list_runs_of_target("t", "sets/b.evalset.json") == []
    accepted = history.list_runs_of_target("t", limit=1, accept=lambda run: run.run_id != "3")
    assert [part.run.run_id for part in accepted] == ["1"]


def test_runs_of_a_command_are_left_out_before_runs_are_counted(
    history: History, store_run: StoreRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.store.history.history._RUNS_SEEN", 2)
    store_run("1", make_result("a"))
    store_run("2", make_result("a"), command="run")
    for number, command in enumerate(("watch", "watch: a.py", "watch"), start=3):
        store_run(str(number), make_result("a"), command=command)

    runs = history.list_runs_of_target("t", unless_command="watch")

    assert [part.run.run_id for part in runs] == ["2", "1"]
    assert [part.run.run_id for part in history.list_runs_of_target("t")] == ["5", "4"]


def test_the_scores_of_a_run_are_listed_by_case(history: History, store_run: StoreRun) -> None:
    store_run("r", make_result("b"), make_result("a"))

    assert [(job.case.eval_id, metrics[0].score) for job, metrics in history.scores("r")] == [("b", 1.0), ("a", 1.0)]


def test_earlier_statuses_are_those_of_previous_runs(history: History, store_run: StoreRun) -> None:
    store_run("1", make_result("a", status=FAILED), make_result("a", repeat=1))
    store_run("2", make_result("a"))
    store_run("3", make_result("a", status=CaseStatus.SKIPPED, metrics=(), execution=Execution()))
    store_run("4", make_result("a", status=FAILED))
    case = make_result("a").case

    assert [sorted(statuses) for statuses in history.earlier_statuses(case, "4")] == [["PASSED"], ["FAILED", "PASSED"]]
    assert len(history.earlier_statuses(case, "4", limit=1)) == 1
    assert history.earlier_statuses(case, "1") == []


def test_undecodable_scores_are_an_error_with_the_case(tmp_path: Path, history: History, store_run: StoreRun) -> None:
    store_run("r", make_result("a"))
    history._database.execute("UPDATE score SET metrics = x'00'")

    with pytest.raises(StoreError, match=r"the scores of sets/a\.evalset\.json:a cannot be read"):
        history.list_executions(make_result("a").case)


def test_the_newest_run_of_a_dataset_is_the_last_with_a_verdict_on_it(history: History, store_run: StoreRun) -> None:
    def row(name: str, status: CaseStatus = CaseStatus.PASSED) -> CaseResult:
        key = CaseKey(target=name, eval_set=name, eval_id="row_1")
        return make_result("row_1", status=status).model_copy(update={"case": key})

    store_run("r1", row("lights"), row("\udcff"))
    store_run("r2", row("lights"), make_result("of an eval set"))
    store_run("r3", row("lights", CaseStatus.CANCELLED))

    found = [(name, run.run_id) for name, run in history.list_dataset_runs()]
    assert found == [("lights", "r2"), ("\udcff", "r1")]
