"""The rows of the run pane, without a screen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from workbench.model.identity import JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, FailureKind
from workbench.model.run_events import (
    CaseFinished,
    CasePlaced,
    CaseStarted,
    InvocationFinished,
    RunFinished,
    RunStarted,
    RunSummary,
)
from workbench.tui.state.run_progress import RunProgress, RunRows, format_summary


class RunWithRows:
    """A run with events from the test, and its rows."""

    def __init__(self, make: Any, *, total: int) -> None:
        self.make = make
        self.now = 100.0
        self.progress = RunProgress("r1", total=total, began=self.now)
        self.rows = RunRows()
        self._apply(RunStarted(run_id="r1", total=total, at=datetime(2026, 1, 1, tzinfo=UTC)))

    def start(self, eval_id: str, *, turns: int | None = 1, attempt: int = 1) -> None:
        self._apply(CaseStarted(case=self.make.key(eval_id), repeat=0, turns=turns, attempt=attempt))

    def place(self, eval_id: str, node: str) -> None:
        self._apply(CasePlaced(case=self.make.key(eval_id), repeat=0, node=node))

    def turn(self, eval_id: str, number: int) -> None:
        result = self.make.turn_result(self.make.turn("hi", "hello"))
        self._apply(InvocationFinished(case=self.make.key(eval_id), repeat=0, turn=number, result=result))

    def finish(
        self,
        eval_id: str,
        status: CaseStatus = CaseStatus.PASSED,
        *,
        message: str = "no",
        took: float = 0.25,
        node: str | None = None,
        source: str = "executed",
    ) -> None:
        key = self.make.key(eval_id)
        failure = Failure(kind=FailureKind.INFRASTRUCTURE, message=message) if status is CaseStatus.ERROR else None
        metrics = self.make.result(key, status).metrics if failure is None else ()
        result = CaseResult(
            case=key,
            eval_set_id="s",
            status=status,
            agent_seconds=took,
            failure=failure,
            metrics=metrics,
            execution=Execution(node=node),
        )
        facts = {
            "case": key,
            "repeat": 0,
            "status": status,
            "duration_seconds": took,
            "result": result,
            "source": source,
        }
        self._apply(CaseFinished(**facts, failure=failure))

    def end(self) -> None:
        self._apply(RunFinished(run_id="r1", summary=RunSummary(), duration_seconds=5.0))

    def lines(self, width: int = 100) -> list[str]:
        self.rows.update(self.progress, now=self.now)
        return ["".join(piece.text for piece in self.rows.line(i, width)).rstrip() for i in range(len(self.rows))]

    def row(self, text: str) -> int:
        return next(index for index, line in enumerate(self.lines()) if text in line)

    def _apply(self, event: Any) -> None:
        self.progress.apply(event, now=self.now)


def test_a_running_job_shows_its_turn_its_attempt_and_its_duration(make: Any) -> None:
    run = RunWithRows(make, total=4)
    run.start("fixed", turns=3)
    run.turn("fixed", 0)
    run.start("open", turns=None)
    run.turn("open", 0)
    run.start("tried", turns=1, attempt=1)
    run.now += 2
    run.start("tried", turns=1, attempt=3)
    run.start("scored", turns=1)
    run.turn("scored", 0)

    lines = run.lines()

    assert "running 4, 0 waiting" in lines[0]
    assert "turn 2 of 3" in lines[1] and lines[1].endswith("2.00 s")
    assert "turn 2 " in lines[2] and "of" not in lines[2].split("turn 2")[1]
    assert "retry 2" in lines[3] and lines[3].endswith("2.00 s")
    assert "judging" in lines[4]


def test_equal_failures_are_counted_in_one_row_and_selected_together(make: Any) -> None:
    run = RunWithRows(make, total=5)
    for number in range(3):
        run.finish(f"e{number}", CaseStatus.ERROR, message=f"connection refused: 10.0.0.{number} 'case {number}'")
    run.finish("other", CaseStatus.ERROR, message="503")
    run.finish("low", CaseStatus.FAILED)

    start = run.row("failures by kind")
    lines = run.lines()

    assert lines[start + 1] == "  ! 3 × infrastructure: connection refused: 10.0.0.0 'case 0'"
    assert lines[start + 2] == "  ! 1 × infrastructure: 503"
    assert lines[start + 3] == "  ✗ 1 × failed in tool_trajectory_avg_score"
    run.rows.move_to(start + 1)
    assert [key.case.eval_id for key in run.rows.selected_failures] == ["e0", "e1", "e2"]


def test_a_case_that_passes_when_rerun_no_longer_counts_as_a_failure(make: Any) -> None:
    run = RunWithRows(make, total=1)
    run.finish("a", CaseStatus.FAILED)
    run.progress.jobs.requeue(JobKey(case=make.key("a")))
    assert run.progress.waiting == 1

    run.start("a")
    run.finish("a")

    assert not any("failures by kind" in line for line in run.lines())
    assert run.progress.done == 1


def test_the_cursor_stays_on_its_job_when_it_ends_and_others_start(make: Any) -> None:
    run = RunWithRows(make, total=9)
    for eval_id in "abc":
        run.start(eval_id)
    run.rows.move_to(run.row(" b  "))

    run.finish("a")
    run.lines()
    assert run.rows.selected_job.case.eval_id == "b" and run.rows.is_stoppable

    run.finish("b")
    run.finish("c")
    run.lines()
    assert run.rows.selected_job.case.eval_id == "b" and not run.rows.is_stoppable


def test_after_the_run_the_slowest_cases_come_first(make: Any) -> None:
    run = RunWithRows(make, total=3)
    for eval_id, took in (("quick", 0.1), ("slow", 9.0), ("middle", 1.0)):
        run.finish(eval_id, took=took)
    run.end()

    start = run.row("slowest")

    assert [line.split()[1] for line in run.lines()[start + 1 : start + 4]] == ["slow", "middle", "quick"]
    assert "ended 3, newest first" in run.lines()[start + 4]


def test_at_the_end_of_the_run_its_summary_is_visible(make: Any) -> None:
    run = RunWithRows(make, total=2)
    run.start("a")
    run.finish("b", CaseStatus.FAILED)
    run.rows.move_to(run.row(" a  "))
    run.finish("a")
    run.end()

    assert "failures by kind" in run.lines()[0] and run.rows.cursor == 0

    run.rows.move_to(run.row(" a  "))
    run.lines()
    assert run.rows.selected_job.case.eval_id == "a"


def test_tokens_and_retries_are_shown(make: Any) -> None:
    run = RunWithRows(make, total=1)
    run.start("a", attempt=2)
    run.turn("a", 0)

    counts = format_summary(run.progress, now=run.now, width=80)[1]

    assert "".join(piece.text for piece in counts).endswith("  10 tokens  1 retry")


def test_the_summary_counts_in_words_and_says_what_remains(make: Any) -> None:
    run = RunWithRows(make, total=6)
    run.start("a")
    run.now += 2
    run.finish("b")
    run.finish("c", CaseStatus.FAILED)

    how_far, counts = format_summary(run.progress, now=run.now, width=120)

    text = "".join(piece.text for piece in how_far)
    assert "2 of 6 · 2.00 s elapsed · about 4.00 s left · 1.0/s" in text
    words = "".join(piece.text for piece in counts)
    assert words == " ◐ 1 running  ◌ 3 waiting  ✓ 1 passed  ✗ 1 failed "


def test_external_text_cannot_break_the_rows(make: Any) -> None:
    run = RunWithRows(make, total=2)
    run.start("[b]\x1b[2J两盏灯\u202e" + "x" * 300)
    run.finish("e", CaseStatus.ERROR, message="line 1\nline 2 \x07 api_key=sk-abcdefghijklmnopqrstuv")

    for line in run.lines(60):
        assert "\x1b" not in line and "\n" not in line and "\x07" not in line and "abcdefghijklmnop" not in line


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_row_fits_its_width(make: Any, width: int) -> None:
    from rich.cells import cell_len

    run = RunWithRows(make, total=2)
    run.start("很长的名字" * 20, turns=12)

    assert cell_len(run.lines(width)[1]) <= max(width, 53)


def list_nodes(run: RunWithRows) -> list[str]:
    """Return the rows of the section of nodes."""
    lines = run.lines()
    start = next(index for index, line in enumerate(lines) if line.startswith(" nodes"))
    rows = lines[start + 1 :]
    return [" ".join(line.split()) for line in rows[: next(i for i, line in enumerate(rows) if line[1] != " ")]]


def test_jobs_are_counted_by_the_node_of_the_cluster_on_which_they_run(make: Any) -> None:
    run = RunWithRows(make, total=9)
    for eval_id, node in [("a", "n2"), ("b", "n1"), ("c", "n1"), ("d", "n1")]:
        run.start(eval_id)
        run.place(eval_id, node)
    run.finish("b", node="n1")
    run.finish("c", CaseStatus.FAILED, node="n1")
    run.finish("stored", node="n3", source="stored")  # in an earlier run

    assert list_nodes(run) == ["n1 ◐ 1 ✓ 1 ✗ 1", "n2 ◐ 1"]


def test_a_job_whose_node_was_lost_counts_where_it_runs_again(make: Any) -> None:
    run = RunWithRows(make, total=2)
    run.start("a")
    run.place("a", "n1")
    run.start("b")
    run.start("a", attempt=2)

    assert list(run.progress.jobs.running) == [JobKey(case=make.key(name), repeat=0) for name in "ab"]
    run.place("a", "n2")
    run.finish("b", node="n2")
    assert list_nodes(run) == ["n1", "n2 ◐ 1 ✓ 1"]
    run.end()
    assert list_nodes(run) == ["n1", "n2 ✓ 1"]


def test_without_a_cluster_there_are_no_nodes(make: Any) -> None:
    run = RunWithRows(make, total=2)
    run.start("a")
    run.finish("a")

    assert not any(line.startswith(" nodes") for line in run.lines())


def test_the_cursor_stays_on_its_node(make: Any) -> None:
    run = RunWithRows(make, total=9)
    for eval_id, node in [("a", "n1"), ("b", "n2")]:
        run.start(eval_id)
        run.place(eval_id, node)
    run.rows.move_to(run.row("n2"))
    run.start("c")
    run.place("c", "n0")

    row = run.row("n2")
    assert run.rows.cursor == row
    assert run.rows.selected_job is None
