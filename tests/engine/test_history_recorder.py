"""Storage of a run: results in the history, resumed runs, and errors of the history."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project, find_result, get_statuses, turn
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


def list_calls(project: Project) -> list[str]:
    return sorted((project.root / "calls.txt").read_text().split())


def test_stored_results_come_back_unchanged(project: Project) -> None:
    project.add_set({"a": [turn("hello [bold] \u4f60\u597d"), turn("bye")]})

    run = project.run()

    with project.open_workspace().history() as history:
        stored = list(history.results(run.run_id))
        record = history.run("latest")
    assert stored == run.results()
    assert (record.run_id, record.summary, record.ended) == (run.run_id, run.summary(), True)
    assert record.criteria["set.evalset.json"].criteria[0].threshold == 1.0
    assert record.versions["workbench"]


def run_and_interrupt(project: Project, *selections: Selection) -> Run:
    """Run until the first case has finished, then cancel. A case with the prompt "wait" never finishes."""
    workspace = project.open_workspace()
    plan = workspace.plan(selections or [Selection(eval_set="set.evalset.json")], RunOptions(concurrency=1))
    run = workspace.start(plan)
    for event in run.iter_events():
        if isinstance(event, CaseFinished):
            run.cancel()
    return run


def test_a_resumed_run_finishes_the_remaining_cases(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")], "c": [turn("wait")]})
    project.add_set({"x": [turn("x")]}, name="other")
    first = run_and_interrupt(project)
    assert get_statuses(first)["c"] == "CANCELLED"
    (project.root / "mended").touch()

    resumed = project.run(resume="latest")

    assert resumed.run_id == first.run_id
    assert get_statuses(resumed) == {"a": "PASSED", "b": "PASSED", "c": "PASSED"}
    assert list_calls(project).count("a") == 1
    with project.open_workspace().history() as history:
        assert history.run("latest").summary.passed == 3
        assert len(list(history.results("latest"))) == 3


def test_resuming_keeps_the_selected_cases_of_the_run(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")], "c": [turn("wait")]})
    run_and_interrupt(project, Selection(eval_set="set.evalset.json", cases=("a", "c")))
    workspace = project.open_workspace()

    plan = workspace.plan([], RunOptions(resume="latest"))

    assert [case.key.eval_id for case in plan.cases] == ["a", "c"]


def test_a_finished_run_leaves_nothing_to_resume(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    project.run()

    with pytest.raises(PlanError, match="nothing to resume"):
        project.run(resume="latest")


def test_a_run_of_another_process_is_not_resumed(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    run = project.run()
    with project.open_workspace().history() as history:
        stored = history.run(run.run_id)
        other_process = {"process": 1, "started": None, "session": "another"}
        record = stored.model_dump(include=set(RunRecord.model_fields)) | {"options": stored.options | other_process}
        history.begin_run(RunRecord.model_validate(record))

    with pytest.raises(PlanError, match="nothing to resume"):
        project.run(resume="latest")
    with pytest.raises(PlanError, match="has not ended"):
        project.run(resume=run.run_id)


def test_a_finished_run_named_by_its_id_is_resumed_and_repeats_its_errors(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"good": [turn("good")], "bad": [turn("broken")]})
    first = project.run()
    (project.root / "mended").touch()

    resumed = project.run(resume=first.run_id)

    assert get_statuses(resumed) == {"good": "PASSED", "bad": "PASSED"}
    assert list_calls(project) == ["broken", "broken", "good"]


def test_a_resumed_run_repeats_changed_cases(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    first = project.run()
    project.add_set({"a": [turn("a", response="other")], "b": [turn("b")]})

    resumed = project.run(resume=first.run_id)

    assert list_calls(project) == ["a", "a", "b"]
    assert resumed.summary().total == 2


def test_resuming_an_unknown_run_is_refused(project: Project) -> None:
    project.add_set({"a": [turn("a")]})

    with pytest.raises(StoreError, match="there is no run 'nowhere'"):
        project.run(resume="nowhere")


def test_a_full_disk_loses_the_history_but_no_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    workspace = project.open_workspace()

    def fail(*_: Any, **__: Any) -> None:
        raise StoreError(Path("history.db"), "the disk is full")

    monkeypatch.setattr("workbench.engine.history_recorder.History.finish_jobs", fail)
    run = project.run(workspace=workspace)

    warnings = [e.message for e in run.iter_events() if isinstance(e, Notice) and e.severity == "error"]
    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert len(warnings) == 1 and "the disk is full" in warnings[0]


def list_errors(run: Run) -> list[str]:
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
                time.sleep(0.01)  # the previous case is stored a moment after its end
            connection.execute("PRAGMA user_version = 5")  # so that others read the file again
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with database.open("r+b") as file:
            file.write(b"x" * 200_000)
    response = random.Random(1).randbytes(200_000).hex() if prompt == "long" else prompt
    return {"response": response, "predicted_trajectory": []}
"""


def test_a_run_is_stored_in_a_new_file_if_the_history_is_deleted_meanwhile(project: Project) -> None:
    project.add_agent(SPOILING)
    project.add_set({"a": [turn("a")], "b": [turn("remove")], "c": [turn("c")]})
    project.run()

    run = project.run(concurrency=1)

    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED", "c": "PASSED"}
    assert run.exit_status == 0
    (message,) = list_errors(run)
    assert "was deleted or replaced during this run: the run is stored in a new file" in message
    with project.open_workspace().history() as history:
        assert [stored.run_id for stored in history.runs()] == [run.run_id]
        assert list(history.results(run.run_id)) == run.results()
        assert history.run("latest").ended


def test_a_history_damaged_during_a_run_is_moved_aside_and_recreated(project: Project) -> None:
    project.add_agent(SPOILING)
    project.add_set({"a": [turn("a")], "b": [turn("damage")], "c": [turn("c")]})

    run = project.run(concurrency=1)

    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED", "c": "PASSED"}
    assert run.exit_status == 2
    damage_message, loss_message = list_errors(run)
    assert "was damaged: it was moved to history.db.corrupt-1, and a new one was created" in damage_message
    assert "the earlier results of this run are in the damaged history" in loss_message
    assert (project.root / ".workbench" / "history.db.corrupt-1").exists()
    with project.open_workspace().history() as history:
        stored_cases = {job.key.case.eval_id for job in history.jobs(run.run_id)}
        assert "c" in stored_cases and "a" not in stored_cases


def damage_tables(project: Project, *tables: str) -> None:
    """Damage the pages of these tables in the history file, and nothing else."""
    file = project.root / ".workbench" / "history.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        query = f"SELECT rootpage FROM sqlite_master WHERE name IN ({', '.join('?' * len(tables))})"
        pages = [page for (page,) in connection.execute(query, tables)]
    with file.open("r+b") as stream:
        for page in pages:
            stream.seek((page - 1) * size)
            stream.write(b"x" * size)


def test_damage_from_outside_is_noticed_at_the_end_of_the_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_set({"a": [turn("a")]})
    end_run = History.end_run

    def end_and_damage(history: History, *arguments: Any, **options: Any) -> None:
        end_run(history, *arguments, **options)
        damage_tables(project, "run")

    monkeypatch.setattr(History, "end_run", end_and_damage)
    run = project.run()

    assert run.exit_status == 2
    (message,) = list_errors(run)
    assert "not stored in the history: " in message and "has been moved to history.db.corrupt-1" in message


def test_a_run_is_stored_in_a_new_history_if_the_old_one_is_damaged_at_its_start(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    project.run()
    damage_tables(project, "sqlite_autoindex_run_1")

    run = project.run()

    (message,) = list_errors(run)
    assert "was damaged: it was moved to history.db.corrupt-1, and a new one was created" in message
    assert run.exit_status == 0
    with project.open_workspace().history() as history:
        assert list(history.results(run.run_id)) == run.results()


def test_damage_that_a_silent_reader_finds_is_reported_by_the_run(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    project.run()
    damage_tables(project, "job")

    run = project.run()

    assert any("was damaged: it was moved to history.db.corrupt-1" in message for message in list_errors(run))
    with project.open_workspace().history() as history:
        assert list(history.results(run.run_id)) == run.results()


def test_damage_found_after_a_run_does_not_lose_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_set({"a": [turn("a")]})
    delete_old_results = History.delete_old_results

    def find_damage(history: History, run_id: str) -> None:
        damage = sqlite3.DatabaseError("malformed")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT

        def fail(*_: Any) -> None:
            raise damage

        monkeypatch.setattr(history._database, "execute", fail)
        delete_old_results(history, run_id)

    monkeypatch.setattr(History, "delete_old_results", find_damage)
    run = project.run()
    monkeypatch.undo()

    with project.open_workspace().history() as history:
        assert list(history.results(run.run_id)) == run.results()


def test_unstored_results_end_the_run_with_status_2(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_agent(SPOILING)
    project.add_set({"a": [turn("a")], "b": [turn("long", response=random.Random(1).randbytes(200_000).hex())]})
    begin_run = History.begin_run

    def begin_on_a_small_disk(history: History, record: RunRecord) -> None:
        begin_run(history, record)
        history._database.execute("PRAGMA max_page_count = 40")

    monkeypatch.setattr(History, "begin_run", begin_on_a_small_disk)
    run = project.run(concurrency=1)

    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert [message for message in list_errors(run) if "the disk is full" in message]
    assert run.exit_status == 2


def test_an_internal_error_while_storing_loses_no_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    workspace = project.open_workspace()

    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("not what was meant")

    monkeypatch.setattr("workbench.engine.history_recorder.History.finish_jobs", fail)
    run = project.run(workspace=workspace)

    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert any(isinstance(e, Notice) and "not what was meant" in e.message for e in run.iter_events())


@pytest.mark.parametrize("part", ["begin", "end", "tidy"])
def test_an_internal_error_of_the_recorder_ends_the_run_for_its_listeners(
    project: Project, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    project.add_set({"a": [turn("a")]})
    workspace = project.open_workspace()

    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("not what was meant")

    monkeypatch.setattr(f"workbench.engine.history_recorder.HistoryRecorder.{part}", fail)
    plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
    run = workspace.start(plan)
    events = list(run.iter_events())
    run.close()

    assert isinstance(events[-1], RunFinished)


@pytest.mark.parametrize("part", ["runner.Runner._report_spending", "run._Running.summary"])
def test_an_internal_error_at_the_end_of_a_run_ends_it_with_a_message(
    project: Project, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    project.add_set({"a": [turn("a", calls=[])]})
    workspace = project.open_workspace()

    def fail(*_: Any, **__: Any) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(f"workbench.engine.{part}", fail)
    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
    events = list(run.iter_events())
    run.close()

    assert isinstance(events[-1], RunFinished)
    assert events[-1].summary.total == events[-1].summary.passed == 1
    assert any(isinstance(each, Notice) and "too large" in each.message for each in events)
    assert run.exit_status == 2


def test_old_executions_are_deleted_after_a_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.store.history.history_writer.MAX_TRACES_PER_VARIANT", 1)
    project.add_set({"a": [turn("a")]})

    runs = [project.run() for _ in range(3)]
    for run in runs:
        run.close()

    with project.open_workspace().history() as history:
        turn_counts = [len(next(history.results(run.run_id)).execution.turns) for run in runs]
    assert turn_counts == [0, 0, 1]


def test_each_of_several_equal_cases_keeps_its_newest_execution(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.store.history.history_writer.MAX_TRACES_PER_VARIANT", 1)
    monkeypatch.setattr("workbench.store.history.history._VERDICTS_KEPT", 1)
    project.add_set({name: [turn("same")] for name in ("a", "b", "c")})

    first = project.run()
    second = project.run(Selection(eval_set="set.evalset.json", cases=("c",)))
    for run in (first, second):
        run.close()

    with project.open_workspace().history() as history:
        turn_counts = {result.case.eval_id: len(result.execution.turns) for result in history.results(first.run_id)}
        assert turn_counts == {"a": 1, "b": 1, "c": 0}
        assert [len(result.execution.turns) for result in history.results(second.run_id)] == [1]
        last_verdicts = [(verdict.job.run_id, verdict.job.case.eval_id) for verdict in history.last_verdicts()]
    assert sorted(last_verdicts) == sorted([(first.run_id, "a"), (first.run_id, "b"), (second.run_id, "c")])


def test_a_reader_in_another_program_does_not_stop_a_run(project: Project) -> None:
    project.add_set({"a": [turn("a")]})
    first = project.run()
    reader = sqlite3.connect(project.root / ".workbench" / "history.db")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM job").fetchone()

    second = project.run()
    reader.close()

    with project.open_workspace().history() as history:
        assert {run.run_id for run in history.runs()} == {first.run_id, second.run_id}


def test_cancelled_cases_are_not_stored(project: Project) -> None:
    project.add_agent("import time\ndef answer(prompt):\n    time.sleep(1000)")
    project.add_set({"a": [turn("a")]})
    workspace = project.open_workspace()

    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
    run.cancel()
    list(run.iter_events())

    assert find_result(run, "a").status.value == "CANCELLED"
    with workspace.history() as history:
        assert history.jobs(run.run_id) == []
