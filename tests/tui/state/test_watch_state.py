"""Watch mode as the screen shows it: which changes it lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.watch_state import WatchRows, WatchState, explain_empty
from workbench.watch.watch_events import ChangeSeen


def note_change(path: str, *, second: int = 0, run: int = 0, is_used: bool = True) -> ChangeSeen:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    reason = "it changed" if run else ""
    return ChangeSeen(
        at=at, paths=(path,), run=run, judged=0, waiting=0, total=5, reason=reason, is_used=is_used or bool(run)
    )


def list_rows(changes: Sequence[ChangeSeen]) -> list[str]:
    """Return the rows of a watch that saw these changes, newest first, without the times."""
    state = ProjectState(find_key=str)
    watch = state.watch
    for change in changes:
        watch.apply(change, now=0.0)
    rows = WatchRows(str)
    rows.show(watch, state.board)
    return [row.partition("  ")[2] for row in rows.text.splitlines()]


def test_equal_changes_without_effect_are_one_row_with_a_count_and_the_last_time() -> None:
    state = ProjectState(find_key=str)
    for second in range(12):
        state.watch.apply(note_change("noise.log", second=second, is_used=False), now=0.0)
        state.watch.apply(note_change("other.log", second=second, is_used=False), now=0.0)
    rows = WatchRows(str)
    rows.show(state.watch, state.board)

    assert [row[3:] for row in rows.text.splitlines()] == [
        "00:11  other.log  affects none of 5 cases, 12 times",
        "00:11  noise.log  affects none of 5 cases, 12 times",
    ]


def test_a_change_with_an_effect_begins_a_new_count() -> None:
    noise, effect = note_change("noise.py"), note_change("agent.py", run=2)

    assert list_rows([noise, noise, effect, noise]) == [
        "noise.py  affects none of 5 cases",
        "agent.py  2 of 5 run",
        "noise.py  affects none of 5 cases, 2 times",
    ]


def test_unused_files_outside_of_the_project_are_not_listed() -> None:
    outside = note_change("/tmp/noise", is_used=False)

    assert list_rows([note_change("/tmp/data.json"), outside]) == ["/tmp/data.json  affects none of 5 cases"]


def test_changes_without_effect_do_not_push_others_out() -> None:
    effects = [note_change(f"agent_{number}.py", run=1) for number in range(15)]
    noises = [note_change(f"noise_{number}.py") for number in range(40)]

    rows = list_rows([*effects, *noises])

    assert sum("1 of 5 run" in row for row in rows) == 15
    assert [row for row in rows if "noise" in row] == [
        f"noise_{number}.py  affects none of 5 cases" for number in range(39, 34, -1)
    ]


def test_a_change_without_effect_does_not_complete_the_alarm_of_another() -> None:
    watch: WatchState = ProjectState(find_key=str).watch
    for change in (note_change("agent.py", run=2), note_change("noise.py")):
        watch.apply(change, now=0.0)

    assert not watch.changes[1].alarm.is_complete
    watch.apply(note_change("agent.py", run=1), now=0.0)
    assert watch.changes[2].alarm.is_complete


def test_the_texts_of_the_watch_and_of_runs_name_the_keys_that_are_set() -> None:
    state = ProjectState(find_key=lambda action: f"<{action}>")
    assert explain_empty(state.watch, state.find_key).startswith("<watch> turns watch on.")

    options: Any = SimpleNamespace(options=SimpleNamespace(resume="run"))
    state.stopped.append(options)
    assert "<resume_run> resumes the last run" in "".join(piece.text for piece in state.run_line(now=0.0, width=200))
    state.begin_run("run", total=1, now=0.0).ended = 1.0
    assert "<resume_run> resumes" in "".join(piece.text for piece in state.run_line(now=1.0, width=200))
