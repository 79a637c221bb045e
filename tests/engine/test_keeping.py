"""What a run leaves behind: results in the history, runs that go on, files for ADK; and when that is not possible."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.model.events import Notice, RunFinished
from workbench.store.errors import StoreError

from .conftest import Project, result_of, statuses, turn

COUNTING = """
import pathlib
def answer(prompt):
    with pathlib.Path("calls.txt").open("a") as calls:
        calls.write(prompt + "\\n")
    if prompt == "broken" and not pathlib.Path("mended").exists():
        raise ValueError("kaboom")
    return prompt
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


def test_a_resumed_run_does_not_repeat_verdicts_but_repeats_errors(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"good": [turn("good")], "bad": [turn("broken")]})
    project.run()
    (project.root / "mended").touch()

    resumed = project.run(resume="latest")

    assert statuses(resumed) == {"good": "PASSED", "bad": "PASSED"}
    assert calls(project) == ["broken", "broken", "good"]


def test_a_resumed_run_repeats_cases_that_have_changed(project: Project) -> None:
    project.add_agent(COUNTING)
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    project.run()
    project.add_set({"a": [turn("a", response="other")], "b": [turn("b")]})

    resumed = project.run(resume="latest")

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

    monkeypatch.setattr("workbench.engine.recorder.History.finish_jobs", full)
    run = project.run(workspace=workspace)

    warnings = [e.message for e in run.iter_events() if isinstance(e, Notice) and e.severity == "error"]
    assert statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert len(warnings) == 1 and "the disk is full" in warnings[0]


def test_a_fault_of_our_own_in_storing_costs_no_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.add_set({"a": [turn("a")], "b": [turn("b")]})
    workspace = project.workspace()

    def broken(*_: Any, **__: Any) -> None:
        raise TypeError("not what was meant")

    monkeypatch.setattr("workbench.engine.recorder.History.finish_jobs", broken)
    run = project.run(workspace=workspace)

    assert statuses(run) == {"a": "PASSED", "b": "PASSED"}
    assert any(isinstance(e, Notice) and "not what was meant" in e.message for e in run.iter_events())


@pytest.mark.parametrize("part", ["begin", "end"])
def test_a_fault_of_our_own_ends_the_run_for_its_listeners(
    project: Project, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    project.add_set({"a": [turn("a")]})
    workspace = project.workspace()

    def broken(*_: Any, **__: Any) -> None:
        raise TypeError("not what was meant")

    monkeypatch.setattr(f"workbench.engine.recorder.HistoryRecorder.{part}", broken)
    plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
    events = list(workspace.start(plan).iter_events())

    assert isinstance(events[-1], RunFinished)


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
