"""What a run leaves behind: results in the history, runs that go on, files for ADK; and when that is not possible."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Project, result_of, statuses, turn
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.run import Run
from workbench.model.run_events import CaseFinished, Notice, RunFinished
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunRecord

COUNTING = """
import pathlib, time
def answer(prompt):
    with pathlib.Path("calls.txt").open("a") as calls:
        calls.write(prompt + "\\n")
    mended = pathlib.Path("mended").exists()
    if prompt == "broken" and not mended:
        raise ValueError("kaboom")
    if prompt == "wait" and not mended:
        time.sleep(1000)
    return {"response": prompt, "predicted_trajectory": []}
"""


def calls(project: Project) -> list[str]:
    return sorted((project.root / "calls.txt").read_text().split())


def test_results_come_back_as_they_were(project: Project) -> None:
    project.add_set({"a": [turn("hello [bold] \u4f60\u597d"), turn("bye")]})

    run = project.run()

    with project.workspace().history() as history:
        stored = list(history.results(run.run_id))
        record = history.run("latest")
    assert stored == run.results()
    assert (record.run_id, record.summary, record.ended) == (run.run_id, run.summary(), True)
    assert record.criteria["set.evalset.json"].criteria[0].threshold == 1.0
    assert record.versions["workbench"]


def interrupted(project: Project, *selections: Selection) -> Run:
    """A run that is stopped when its first case has finished; one that says "wait" never does."""
    workspace = project.workspace()
    plan = workspace.plan(selections or [Selection(eval_set="set.evalset.json")], RunOptions(concurrency=1))
    run = workspace.start(plan)
    for event in run.iter_events():
        if isinstance(event, CaseFinished):
            run.cancel()
    return run


def test_a_resumed_run_does_what_the_interrupted_one_had_left(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")], "c": [turn("wait")]})
    project.add_set({"x": [turn("x")]}, name="other")
    first = interrupted(project)
    assert statuses(first)["c"] == "CANCELLED"
    (project.root / "mended").touch()

    resumed = project.run(resume="latest")

    assert resumed.run_id == first.run_id
    assert statuses(resumed) == {"a": "PASSED", "b": "PASSED", "c": "PASSED"}
    assert calls(project).count("a") == 1
    with project.workspace().history() as history:
        assert history.run("latest").summary.passed == 3
        assert len(list(history.results("latest"))) == 3


def test_resuming_names_the_run_only_by_what_it_was_to_do(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")], "c": [turn("wait")]})
    interrupted(project, Selection(eval_set="set.evalset.json", cases=("a", "c")))
    workspace = project.workspace()

    plan = workspace.plan([], RunOptions(resume="latest"))

    assert [case.key.eval_id for case in plan.cases] == ["a", "c"]


def test_a_run_that_ended_leaves_nothing_to_resume(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    project.run()

    with pytest.raises(PlanError, match="nothing to resume"):
        project.run(resume="latest")


def test_a_run_that_another_process_carries_out_is_not_resumed(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    run = project.run()
    with project.workspace().history() as history:
        stored = history.run(run.run_id)
        another = {"process": 1, "started": None, "session": "another"}
        record = stored.model_dump(include=set(RunRecord.model_fields)) | {"options": stored.options | another}
        history.begin_run(RunRecord.model_validate(record))

    with pytest.raises(PlanError, match="nothing to resume"):
        project.run(resume="latest")
    with pytest.raises(PlanError, match="has not ended"):
        project.run(resume=run.run_id)


def test_a_named_run_is_resumed_though_it_ended_and_repeats_its_errors(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"good": [turn("good")], "bad": [turn("broken")]})
    first = project.run()
    (project.root / "mended").touch()

    resumed = project.run(resume=first.run_id)

    assert statuses(resumed) == {"good": "PASSED", "bad": "PASSED"}
    assert calls(project) == ["broken", "broken", "good"]


def test_a_resumed_run_repeats_cases_that_have_changed(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    first = project.run()
    project.add_set({"a": [turn("a", response="other")], "b": [turn("b")]})

    resumed = project.run(resume=first.run_id)

    assert calls(project) == ["a", "a", "b"]
    assert resumed.summary().total == 2


def test_a_run_to_resume_that_does_not_exist_is_refused(project: Project) -> None:
    project.add_set({"a": [turn("a")]})

    with pytest.raises(StoreError, match="there is no run 'nowhere'"):
        project.run(resume="nowhere")


def test_a_full_disk_costs_the_history_and_no_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    workspace = project.workspace()

    def full(*_: Any, **__: Any) -> None:
        raise StoreError(Path("history.db"), "the disk is full")

    monkeypatch.setattr("workbench.engine.history_recorder.History.finish_jobs", full)
    run = project.run(workspace=workspace)

    warnings = [e.message for e in run.iter_events() if isinstance(e, Notice) and e.severity == "error"]
    assert statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert len(warnings) == 1 and "the disk is full" in warnings[0]


def errors_of(run: Run) -> list[str]:
    return [event.message for event in run.iter_events() if isinstance(event, Notice) and event.severity == "error"]


SPOILING = """
import contextlib, pathlib, random, shutil, sqlite3, time
def answer(prompt):
    database = pathlib.Path(".workbench/history.db")
    if prompt == "remove":
        shutil.rmtree(".workbench")
    if prompt == "damage":
        with contextlib.closing(sqlite3.connect(database)) as connection:
            while not connection.execute("SELECT count(*) FROM job").fetchone()[0]:
                time.sleep(0.01)  # the case before is stored a moment after its end
            connection.execute("PRAGMA user_version = 5")  # so that others read the file again
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with database.open("r+b") as file:
            file.write(b"x" * 200_000)
    response = random.Random(1).randbytes(200_000).hex() if prompt == "long" else prompt
    return {"response": response, "predicted_trajectory": []}
"""


def test_a_history_that_is_deleted_during_a_run_keeps_that_run_in_a_new_file(project: Project) -> None:
    project.add_agent(SPOILING)
    project.add_set({"a": [turn("a")], "b": [turn("remove")], "c": [turn("c")]})
    project.run()

    run = project.run(concurrency=1)

    assert statuses(run) == {"a": "PASSED", "b": "PASSED", "c": "PASSED"}
    assert run.exit_status == 0
    (message,) = errors_of(run)
    assert "was deleted or replaced during this run: the run is kept in a new file" in message
    with project.workspace().history() as history:
        assert [stored.run_id for stored in history.runs()] == [run.run_id]
        assert list(history.results(run.run_id)) == run.results()
        assert history.run("latest").ended


def test_a_history_that_proves_damaged_during_a_run_is_moved_aside_and_begun_anew(project: Project) -> None:
    project.add_agent(SPOILING)
    project.add_set({"a": [turn("a")], "b": [turn("damage")], "c": [turn("c")]})

    run = project.run(concurrency=1)

    assert statuses(run) == {"a": "PASSED", "b": "PASSED", "c": "PASSED"}
    assert run.exit_status == 2
    damaged, lost = errors_of(run)
    assert "was damaged: it was moved to history.db.corrupt-1, and a new one was created" in damaged
    assert "the results of this run until now are in the damaged history" in lost
    assert (project.root / ".workbench" / "history.db.corrupt-1").exists()
    with project.workspace().history() as history:
        kept = {job.key.case.eval_id for job in history.jobs(run.run_id)}
        assert "c" in kept and "a" not in kept


def spoil(project: Project, *tables: str) -> None:
    """Damage what tables of the history hold, and nothing else of the file."""
    file = project.root / ".workbench" / "history.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        query = f"SELECT rootpage FROM sqlite_master WHERE name IN ({', '.join('?' * len(tables))})"
        pages = [page for (page,) in connection.execute(query, tables)]
    with file.open("r+b") as opened:
        for page in pages:
            opened.seek((page - 1) * size)
            opened.write(b"x" * size)


def test_damage_from_outside_is_noticed_at_the_end_of_the_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_set({"a": [turn("a")]})
    end_run = History.end_run

    def end_and_spoil(history: History, *arguments: Any, **named: Any) -> None:
        end_run(history, *arguments, **named)
        spoil(project, "run")

    monkeypatch.setattr(History, "end_run", end_and_spoil)
    run = project.run()

    assert run.exit_status == 2
    (message,) = errors_of(run)
    assert "not kept in the history: " in message and "has been moved to history.db.corrupt-1" in message


def test_a_run_that_finds_the_history_damaged_at_its_begin_is_kept_in_a_new_one(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    project.run()
    spoil(project, "sqlite_autoindex_run_1")

    run = project.run()

    (message,) = errors_of(run)
    assert "was damaged: it was moved to history.db.corrupt-1, and a new one was created" in message
    assert run.exit_status == 0
    with project.workspace().history() as history:
        assert list(history.results(run.run_id)) == run.results()


def test_damage_that_a_silent_reader_finds_is_reported_by_the_run(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    project.run()
    spoil(project, "job")

    run = project.run()

    assert any("was damaged: it was moved to history.db.corrupt-1" in message for message in errors_of(run))
    with project.workspace().history() as history:
        assert list(history.results(run.run_id)) == run.results()


def test_damage_that_is_found_when_a_run_is_over_does_not_take_the_run_away(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_set({"a": [turn("a")]})
    forget = History.delete_old_results

    def find_damage(history: History, run_id: str) -> None:
        damage = sqlite3.DatabaseError("malformed")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT

        def fail(*_: Any) -> None:
            raise damage

        monkeypatch.setattr(history._database, "execute", fail)
        forget(history, run_id)

    monkeypatch.setattr(History, "delete_old_results", find_damage)
    run = project.run()
    monkeypatch.undo()

    with project.workspace().history() as history:
        assert list(history.results(run.run_id)) == run.results()


def test_results_that_are_not_kept_end_the_run_with_status_2(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_agent(SPOILING)
    project.add_set({"a": [turn("a")], "b": [turn("long", response=random.Random(1).randbytes(200_000).hex())]})
    begin = History.begin_run

    def begin_on_a_small_disk(history: History, record: RunRecord) -> None:
        begin(history, record)
        history._database.execute("PRAGMA max_page_count = 40")

    monkeypatch.setattr(History, "begin_run", begin_on_a_small_disk)
    run = project.run(concurrency=1)

    assert statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert [message for message in errors_of(run) if "the disk is full" in message]
    assert run.exit_status == 2


def test_a_fault_of_our_own_in_storing_costs_no_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    workspace = project.workspace()

    def broken(*_: Any, **__: Any) -> None:
        raise TypeError("not what was meant")

    monkeypatch.setattr("workbench.engine.history_recorder.History.finish_jobs", broken)
    run = project.run(workspace=workspace)

    assert statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert any(isinstance(e, Notice) and "not what was meant" in e.message for e in run.iter_events())


@pytest.mark.parametrize("part", ["begin", "end", "tidy"])
def test_a_fault_of_our_own_ends_the_run_for_its_listeners(
    project: Project, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    project.add_set({"a": [turn("a")]})
    workspace = project.workspace()

    def broken(*_: Any, **__: Any) -> None:
        raise TypeError("not what was meant")

    monkeypatch.setattr(f"workbench.engine.history_recorder.HistoryRecorder.{part}", broken)
    plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
    run = workspace.start(plan)
    events = list(run.iter_events())
    run.close()

    assert isinstance(events[-1], RunFinished)


def test_what_is_old_is_forgotten_after_a_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.store.history.history_writer.MAX_TRACES_PER_VARIANT", 1)
    project.add_set({"a": [turn("a")]})

    runs = [project.run() for _ in range(3)]
    for run in runs:
        run.close()

    with project.workspace().history() as history:
        kept = [len(next(history.results(run.run_id)).execution.turns) for run in runs]
    assert kept == [0, 0, 1]


def test_of_cases_that_ask_the_same_each_keeps_what_its_agent_did_last(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.store.history.history_writer.MAX_TRACES_PER_VARIANT", 1)
    monkeypatch.setattr("workbench.store.history.history._VERDICTS_KEPT", 1)
    project.add_set({name: [turn("same")] for name in ("a", "b", "c")})

    first = project.run()
    second = project.run(Selection(eval_set="set.evalset.json", cases=("c",)))
    for run in (first, second):
        run.close()

    with project.workspace().history() as history:
        kept = {result.case.eval_id: len(result.execution.turns) for result in history.results(first.run_id)}
        assert kept == {"a": 1, "b": 1, "c": 0}
        assert [len(result.execution.turns) for result in history.results(second.run_id)] == [1]
        known = [(verdict.job.run_id, verdict.job.case.eval_id) for verdict in history.last_verdicts()]
    assert sorted(known) == sorted([(first.run_id, "a"), (first.run_id, "b"), (second.run_id, "c")])


def test_another_program_that_holds_the_history_does_not_stop_a_run(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    first = project.run()
    reader = sqlite3.connect(project.root / ".workbench" / "history.db")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM job").fetchone()

    second = project.run()
    reader.close()

    with project.workspace().history() as history:
        assert {run.run_id for run in history.runs()} == {first.run_id, second.run_id}


def test_cancelled_cases_leave_the_last_verdict_standing(project: Project) -> None:
    project.add_agent("import time\ndef answer(prompt):\n    time.sleep(1000)")
    project.add_set({"a": [turn("a")]})
    workspace = project.workspace()

    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
    run.cancel()
    list(run.iter_events())

    assert result_of(run, "a").status.value == "CANCELLED"
    with workspace.history() as history:
        assert history.jobs(run.run_id) == []
