"""Runs and results survive a round trip through the history."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from workbench.model.criteria import default_config
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    ModelCalls,
)
from workbench.model.run_events import MetricSummary, RunSummary
from workbench.store.errors import StoreError
from workbench.store.history import history_writer
from workbench.store.history.history import History
from workbench.store.history.history_queries import ResultToStore
from workbench.store.history.history_schema import SCORES_OPTION

from .conftest import make_record, make_result

StoreRun = Callable[..., str]


def test_a_run_is_stored_with_its_record_and_its_summary(history: History) -> None:
    record = make_record(
        "20261121-140207-5f3a",
        command="workbench run",
        targets=("home",),
        criteria={"sets/a.evalset.json": default_config()},
        options={"runs": 2, "config": None},
        versions={"workbench": "0.1", "python": "3.11.7"},
        total=4,
    )
    summary = RunSummary(total=4, passed=4, metrics={"m": MetricSummary(mean=0.5, std=None, scored=1, total=4)})
    history.begin_run(record)
    history.end_run(record.run_id, summary, duration_seconds=2.5, interrupted=True)

    stored = history.run(record.run_id)

    assert {name: getattr(stored, name) for name in type(record).model_fields} == dict(record)
    assert (stored.summary, stored.duration_seconds, stored.interrupted, stored.ended) == (summary, 2.5, True, True)
    assert stored.started_at.astimezone(UTC) == record.started_at


def test_an_unfinished_run_is_summarised_from_its_stored_jobs(history: History) -> None:
    history.begin_run(make_record("r", total=3))
    history.finish_job("r", make_result("a"))
    history.finish_job("r", make_result("b", status=CaseStatus.NOT_EVALUATED))

    stored = history.run("r")

    assert not stored.ended
    assert stored.summary == RunSummary(total=3, passed=1, not_evaluated=1)


def test_jobs_mark_verdicts_with_missing_samples(history: History, store_run: StoreRun) -> None:
    judgement = Judgement(model="m", prompt="p", samples=(JudgeSample(score=1.0), JudgeSample(problem="503")))
    turn = InvocationScore(score=1.0, judgement=judgement)
    metric = MetricResult(
        name="m", score=1.0, threshold=0.5, status=MetricStatus.PASSED, scored=1, total=1, per_invocation=(turn,)
    )
    history.begin_run(make_record("r", total=2))
    stored = list(history.finish_jobs("r", map(ResultToStore, [make_result("a", metrics=(metric,)), make_result("b")])))
    (a, b) = history.jobs("r")
    history.begin_run(make_record("later", total=1))
    history.reuse_results("later", {a.key: ("r", a.key)})

    assert [each.job.misses_samples for each in stored] == [a.misses_samples, b.misses_samples] == [True, False]
    assert [job.misses_samples for job in history.jobs("later")] == [True]
    assert [each.job.misses_samples for each in history.last_verdicts()] == [True, False]
    assert history.run("r").summary == RunSummary(total=2, passed=2, partly_judged=1)
    assert [part.summary.partly_judged for part in history.list_runs_of_target("t")] == [1, 1]


def test_jobs_mark_verdicts_that_rest_on_replayed_model_calls(history: History) -> None:
    execution = Execution(model_calls=ModelCalls(live=1, replayed=2))
    replayed = make_result("a").model_copy(update={"execution": execution})
    history.begin_run(make_record("r", total=2))
    stored = list(history.finish_jobs("r", map(ResultToStore, [replayed, make_result("b")])))
    (a, b) = history.jobs("r")
    history.begin_run(make_record("later", total=1))
    history.reuse_results("later", {a.key: ("r", a.key)})

    assert [each.job.is_replayed for each in stored] == [a.is_replayed, b.is_replayed] == [True, False]
    assert [job.is_replayed for job in history.jobs("later")] == [True]
    replays, live = (history.latest_jobs_by_source(is_replayed=each) for each in (True, False))
    assert {key.eval_id: [job.run_id for job in jobs] for key, jobs in replays.items()} == {"a": ["later"]}
    assert {key.eval_id: [job.run_id for job in jobs] for key, jobs in live.items()} == {"b": ["r"]}


def test_the_newest_live_jobs_of_a_case_are_found_behind_later_replays(history: History) -> None:
    execution = Execution(model_calls=ModelCalls(replayed=1))
    for run_id, replays in (("old", False), ("live", False), ("replay", True)):
        history.begin_run(make_record(run_id, total=2))
        made = [make_result("a"), make_result("a", repeat=1)]
        history.finish_jobs(
            run_id,
            [ResultToStore(each.model_copy(update={"execution": execution} if replays else {})) for each in made],
        )

    (jobs,) = history.latest_jobs_by_source(is_replayed=False).values()

    assert [(job.run_id, job.key.repeat) for job in jobs] == [("live", 0), ("live", 1)]


def test_runs_are_listed_newest_first_up_to_a_limit(history: History, store_run: StoreRun) -> None:
    for name in ("1", "2", "3"):
        store_run(name)

    assert [run.run_id for run in history.runs(limit=2)] == ["3", "2"]


def test_a_run_is_found_by_latest_or_the_start_of_its_id(history: History, store_run: StoreRun) -> None:
    with pytest.raises(StoreError, match="there are no runs yet"):
        history.run("latest")
    for name in ("20261121-1", "20261121-2", "2026"):
        store_run(name)

    assert history.run("latest").run_id == "2026"
    assert history.run("2026").run_id == "2026"
    assert history.run("20261121-1").run_id == "20261121-1"
    with pytest.raises(StoreError, match=r"'20261' matches several runs: 20261121-2, 20261121-1"):
        history.run("20261")
    with pytest.raises(StoreError, match="there is no run '%'"):
        history.run("%")
    with pytest.raises(StoreError, match="there is no run"):
        list(history.results("\ud800"))


def test_results_are_returned_in_the_order_in_which_they_ended(history: History, store_run: StoreRun) -> None:
    results = [make_result("b"), make_result("a"), make_result("a", repeat=1)]
    store_run("r", *results)

    assert list(history.results("r")) == results
    assert history.result("r", JobKey(case=results[2].case, repeat=1)) == results[2]
    assert history.result("r", JobKey(case=results[2].case, repeat=2)) is None


def test_a_failure_without_an_execution_is_stored(history: History, store_run: StoreRun) -> None:
    failure = Failure(kind=FailureKind.SETUP, message="no agent", turn=0, traceback="…")
    result = make_result(
        "a", status=CaseStatus.ERROR, failure=failure, metrics=(), execution=Execution(failure=failure, stderr_tail="x")
    )
    cancelled = make_result("b", status=CaseStatus.CANCELLED, metrics=(), execution=Execution())
    store_run("r", result, cancelled)

    assert list(history.results("r")) == [result, cancelled]
    assert [job.failure for job in history.jobs("r")] == [failure, None]


def test_a_job_that_is_finished_twice_counts_once(history: History) -> None:
    history.begin_run(make_record("r"))
    history.finish_job("r", make_result("a", answer="first"))
    history.finish_job("r", make_result("a", answer="second"))

    assert list(history.results("r")) == [make_result("a", answer="second")]


def test_jobs_are_stored_with_their_execution_and_scoring_keys(history: History) -> None:
    history.begin_run(make_record("r"))
    history.finish_jobs("r", [ResultToStore(make_result(name), f"e-{name}", f"s-{name}") for name in "ab"])

    jobs = history.jobs("r")

    assert [(job.key.case.eval_id, job.execution_key, job.scoring_key) for job in jobs] == [
        ("a", "e-a", "s-a"),
        ("b", "e-b", "s-b"),
    ]
    assert all(job.run_id == "r" and job.finished_at.tzinfo is UTC for job in jobs)


def test_only_verdicts_of_a_resumed_run_count_as_finished(history: History) -> None:
    history.begin_run(make_record("r", total=9))
    for status in CaseStatus:
        history.finish_job("r", make_result(status.value, status=status))
    history.end_run("r", RunSummary(), duration_seconds=1, interrupted=True)

    history.begin_run(make_record("r", total=9))

    assert {job.case.eval_id for job in history.finished_jobs("r")} == {"PASSED", "FAILED", "NOT_EVALUATED"}
    assert not history.run("r").ended
    assert len(history.runs()) == 1


def test_a_resumed_run_keeps_its_start_and_adds_up_its_durations(history: History) -> None:
    first = make_record("r")
    history.begin_run(first)
    history.end_run("r", RunSummary(), duration_seconds=1.5, interrupted=True)

    history.begin_run(first.model_copy(update={"started_at": first.started_at + timedelta(days=1), "command": "again"}))
    resumed = history.run("r")
    history.end_run("r", RunSummary(), duration_seconds=2, interrupted=False)

    assert (resumed.ended, resumed.duration_seconds) == (False, None)
    ended = history.run("r")
    assert (ended.started_at, ended.command, ended.duration_seconds) == (first.started_at, "again", 3.5)


def test_results_of_many_runs_are_found_in_the_order_asked_for(history: History, store_run: StoreRun) -> None:
    names = [f"case {number}" for number in range(50)]
    store_run("old", *(make_result(name, answer="old") for name in names))
    store_run("new", *(make_result(name, answer="new", repeat=1) for name in names))
    keys = {name: make_result(name).case for name in names}
    places = [("new", 1), ("old", 0)]
    wanted = [(run_id, JobKey(case=keys[name], repeat=repeat)) for name in names for run_id, repeat in places]

    found = [history.result(*job) for job in wanted]

    assert None not in found
    assert list(history.find_results(wanted)) == found
    assert list(history.find_metric_scores(wanted)) == [(("m", 1.0),)] * 100
    missing = [("old", JobKey(case=keys["case 1"], repeat=1)), ("none", wanted[0][1])]
    assert list(history.find_results(missing)) == [None, None]


def test_an_unreadable_result_hides_no_other(history: History, store_run: StoreRun) -> None:
    store_run("r", *map(make_result, "abc"))
    history._database.execute("UPDATE blob SET data = 'x' WHERE id = 2")
    history._database.execute("UPDATE score SET metrics = 'x' WHERE id = 2")
    wanted = [("r", job.key) for job in history.jobs("r")]

    assert [each and each.case.eval_id for each in history.find_results(wanted)] == ["a", None, "c"]
    assert list(history.find_metric_scores(wanted)) == [(("m", 1.0),), None, (("m", 1.0),)]


@pytest.mark.parametrize("change", ["status = 'WON'", "quarantine = '{'", "failure = 'x'", "finished_at = 1e300"])
def test_an_unreadable_verdict_is_an_error_of_one_line(history: History, store_run: StoreRun, change: str) -> None:
    store_run("r", make_result("a"))
    history._database.execute(f"UPDATE job SET {change}")

    for read in (history.latest_jobs, history.last_verdicts, lambda: list(history.numbers("r"))):
        with pytest.raises(StoreError, match=r"history.db: .* cannot be read: [^\n]+$"):
            read()


def test_unscored_results_do_not_replace_verdicts(history: History, store_run: StoreRun) -> None:
    def make_unscored_result(name: str) -> CaseResult:
        return make_result(name, answer="played", status=CaseStatus.NOT_EVALUATED, metrics=())

    store_run("1", *(make_result("a", repeat=n) for n in range(2)))
    store_run("2", make_unscored_result("a"), make_unscored_result("b"))

    a, b = make_result("a").case, make_result("b").case
    assert history.latest_results([a]) == {a: [make_unscored_result("a")]}
    assert history.latest_judged_results([a, b]) == {
        a: [make_result("a"), make_result("a", repeat=1)],
        b: [make_unscored_result("b")],
    }
    judged = history.latest_judged_jobs()
    assert {key: [job.status.value for job in jobs] for key, jobs in judged.items()} == {
        a: ["PASSED", "PASSED"],
        b: ["NOT_EVALUATED"],
    }


def test_an_error_replaces_a_verdict_unless_its_run_was_unscored(history: History, store_run: StoreRun) -> None:
    error = make_result("a", status=CaseStatus.ERROR, metrics=())  # without a key, as after an outage of a judge
    store_run("1", make_result("a"))
    history.begin_run(make_record("2", options={SCORES_OPTION: False}))
    history.finish_job("2", error, execution_key="k")

    assert history.latest_judged_results([error.case]) == {error.case: [make_result("a")]}
    assert [job.run_id for job in history.latest_judged_jobs()[error.case]] == ["1"]
    assert [job.is_from_unscored_run for job in history.latest_jobs()[error.case]] == [True]

    history.begin_run(make_record("3", options={SCORES_OPTION: True}))
    history.finish_job("3", error, execution_key="k")

    assert history.latest_judged_results([error.case]) == {error.case: [error]}
    assert [job.run_id for job in history.latest_judged_jobs()[error.case]] == ["3"]
    assert [job.is_from_unscored_run for job in history.latest_jobs()[error.case]] == [False]


def test_the_latest_results_of_a_case_are_all_repeats_of_its_newest_run(history: History, store_run: StoreRun) -> None:
    store_run("1", *(make_result(name, answer="old", repeat=n) for name in "ab" for n in range(3)))
    store_run("2", make_result("a", repeat=1), make_result("a", repeat=0), make_result("a", target="other"))
    cancelled = make_result("a", status=CaseStatus.CANCELLED, metrics=(), execution=Execution())
    store_run("3", cancelled, make_result("c", status=CaseStatus.SKIPPED))

    latest = history.latest_results()
    a, b = make_result("a").case, make_result("b").case
    other = make_result("a", target="other").case

    assert latest == {
        a: [make_result("a"), make_result("a", repeat=1)],
        b: [make_result("b", answer="old", repeat=n) for n in range(3)],
        other: [make_result("a", target="other")],
    }
    absent = CaseKey(target="t", eval_set="x", eval_id="x")
    assert history.latest_results([a, absent]) == {a: latest[a]}
    assert history.latest_results([]) == {}
    assert {key: [job.key.repeat for job in jobs] for key, jobs in history.latest_jobs().items()} == {
        a: [0, 1],
        b: [0, 1, 2],
        other: [0],
    }


def test_five_traces_per_variant_and_all_verdicts_are_kept(history: History, store_run: StoreRun) -> None:
    for number in range(7):
        store_run(str(number), make_result("a", answer=str(number)), make_result("a", repeat=1))
    store_run("other", make_result("a", answer="other"), execution_key="changed")

    with_trace = [run.run_id for run in history.runs() if next(history.results(run.run_id)).execution.turns]
    oldest_results = list(history.results("0"))

    assert with_trace == ["other", "6", "5", "4", "3", "2"]
    assert [result.repeat for result in oldest_results] == [0, 1]
    assert [result.metrics for result in oldest_results] == [make_result("a").metrics] * 2
    assert all(result.execution == Execution() for result in oldest_results)


def test_scores_of_old_executions_are_deleted_but_not_those_of_the_current_run(
    history: History, store_run: StoreRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "MAX_SCORED_EXECUTIONS", 3)
    monkeypatch.setattr(history_writer, "_AT_ONCE", 2)
    store_run("1", *(make_result(f"{n}") for n in range(3)))
    store_run("2", *(make_result(f"{n}") for n in range(5)))

    assert list(history.results("2")) == [make_result(f"{n}") for n in range(5)]
    assert [(result.status, result.metrics) for result in history.results("1")] == [(CaseStatus.PASSED, ())] * 3

    monkeypatch.setattr(history_writer, "MAX_EXECUTIONS", 3)
    store_run("3", make_result("new"))
    assert [bool(result.metrics) for result in history.results("2")] == [False, False, False, True, True]
    assert history._database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert {verdict.job.key.case.eval_id for verdict in history.last_verdicts()} == {"3", "4", "new"}


def test_the_last_two_runs_of_a_selection_keep_their_scores_but_not_their_traces(
    history: History, store_run: StoreRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "MAX_SCORED_EXECUTIONS", 3)
    options = {"selections": [{"eval_set": "sets/a.evalset.json", "cases": None}]}
    for number in range(3):
        store_run(f"{number}", *map(make_result, "abcde"), options=options)
        store_run(f"part {number}", make_result("a"), options={"selections": []})
        store_run(f"simulated {number}", make_result("b"), options={**options, "scores": False})
    others = [(f"{n}", json.dumps({"options": {"selections": [{"eval_set": f"{n}"}]}})) for n in range(10, 400)]
    history._database.execute_many("INSERT INTO run (run_id, record, summary) VALUES (?, ?, '{}')", others)
    store_run("another part", make_result("a"), options={"selections": []})
    history._database.execute("DELETE FROM run WHERE summary = '{}'")

    stored = {run.run_id: list(history.results(run.run_id)) for run in history.runs()}
    assert [len([each for each in stored[f"{n}"] if each.metrics]) for n in range(3)] == [0, 5, 5]
    assert not any(each.execution.turns for each in stored["1"])
    assert [len([each for each in stored[f"part {n}"] if each.metrics]) for n in range(3)] == [0, 0, 1]

    monkeypatch.setattr(history_writer, "MAX_EXECUTIONS", 9)
    store_run("3", *map(make_result, "abcde"), options=options)
    assert [bool(each.metrics) for each in history.results("2")] == [False] * 4 + [True]
    assert history._database.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_result_that_each_run_reuses_does_not_keep_the_others(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "MAX_SCORED_EXECUTIONS", 3)
    reused = JobKey(case=make_result("same").case, repeat=0)
    for number in range(5):
        history.begin_run(make_record(f"{number}"))
        results = [make_result(name) for name in (*"abcd", *(["same"] if number == 0 else []))]
        history.finish_jobs(f"{number}", [ResultToStore(each, each.case.eval_id) for each in reversed(results)])
        if number > 0:
            history.reuse_results(f"{number}", {reused: (f"{number - 1}", reused)})
        history.end_run(f"{number}", RunSummary(total=5), duration_seconds=1.0, interrupted=False)
        history.delete_old_results(f"{number}")

    assert [sum(bool(each.metrics) for each in history.results(f"{n}")) for n in range(5)] == [1, 1, 1, 1, 5]
    assert history._database.execute("SELECT count(*) FROM execution").fetchone() == (5,)


def test_each_run_of_a_dataset_stores_scores_and_only_the_last_two_keep_them(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "MAX_SCORED_EXECUTIONS", 3)
    rows = [make_result(name) for name in "abcde"]
    for number in range(4):
        record = make_record(f"{number}", command="workbench score rows.jsonl", options={"selections": []})
        history.begin_run(record)
        scored = rows if number < 3 else rows[:2]
        jobs = [ResultToStore(each, each.case.eval_id, "s", is_rescored=True, is_recorded=True) for each in scored]
        history.finish_jobs(f"{number}", jobs)
        history.end_run(f"{number}", RunSummary(total=5), duration_seconds=1.0, interrupted=number == 3)
        history.delete_old_results(f"{number}")

    assert [sum(bool(each.metrics) for each in history.results(f"{n}")) for n in range(4)] == [0, 5, 5, 2]
    assert history._database.execute("SELECT count(*) FROM score").fetchone() == (12,)
    assert {each.job.key.case.eval_id for each in history.last_verdicts()} == set("abcde")
    assert all(each.execution.turns for each in history.results("0"))
    reused = {JobKey(case=each.case, repeat=0): ("0", JobKey(case=each.case, repeat=0)) for each in rows}
    history.begin_run(make_record("4"))
    history.reuse_results("4", reused)  # as planned by another process before the scores were deleted
    assert not any(each.job.run_id == "4" for each in history.last_verdicts())
    assert history._database.execute("PRAGMA foreign_key_check").fetchall() == []


def test_each_case_keeps_its_newest_scores_while_others_run_often(
    history: History, store_run: StoreRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "MAX_SCORED_EXECUTIONS", 3)
    store_run("1", *(make_result(f"{n}") for n in range(3)))
    for number in range(2, 8):
        store_run(str(number), make_result("0", answer=str(number)))

    assert {verdict.job.key.case.eval_id for verdict in history.last_verdicts()} == {"0", "1", "2"}
    assert [bool(result.metrics) for result in history.results("1")] == [False, True, True]
    assert [run for run in "234567" if next(history.results(run)).metrics] == ["5", "6", "7"]


def test_names_that_are_not_utf_8_are_stored(history: History) -> None:
    key = CaseKey(target="t\udc80", eval_set="caf\udce9/a.evalset.json", eval_id="\ud800")
    result = make_result("a").model_copy(update={"case": key, "eval_set_id": "\udfff"})
    history.begin_run(make_record("r"))
    history.finish_job("r", result)

    assert list(history.results("r")) == [result]
    assert history.latest_results([key]) == {key: [result]}
    assert history.finished_jobs("r") == {JobKey(case=key)}


def test_only_the_trace_is_lost_if_it_cannot_be_stored(history: History) -> None:
    endless: list[object] = []
    endless.append(endless)
    result = make_result("a")
    execution = result.execution.model_copy(update={"final_state": {"x": endless}, "stderr_tail": "kept"})
    history.begin_run(make_record("r"))

    history.finish_job("r", result.model_copy(update={"execution": execution}))

    (stored,) = history.results("r")
    assert stored.metrics == result.metrics
    assert stored.execution == Execution(duration_seconds=0.01, stderr_tail="kept")


def test_the_history_folder_is_ignored_by_git(tmp_path: Path, history: History) -> None:
    assert (tmp_path / ".workbench" / ".gitignore").read_text() == "*\n"
    assert history.path == tmp_path / ".workbench" / "history.db"
