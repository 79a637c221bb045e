"""Columns of the results table: what a cell shows, what it is sorted by, and what stands below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.cells import cell_len

from workbench.tui.state.amounts import time_taken
from workbench.tui.state.pieces import Piece, Tone, safe_line
from workbench.tui.state.standing import PARTLY_JUDGED, STALE, look_of, look_of_metric
from workbench.tui.state.table.rows import TableRow

EVAL_SET = "eval_set"
"""The column that is only of use where there are several sets."""

SortValue = float | str | None


@dataclass(frozen=True)
class Column:
    """One column. `number` gives the figure that mean and deviation are taken of, where it has one."""

    id: str
    title: str
    width: int
    cell: Callable[[TableRow], Piece]
    value: Callable[[TableRow], SortValue]
    number: Callable[[TableRow], float | None] | None = None


def columns_of(metrics: Iterable[str]) -> list[Column]:
    """Those that every table has, then for each metric its score and the explanation of it."""
    return [*_FIXED, *(column for name in metrics for column in _metric_columns(name))]


def _status(row: TableRow) -> Piece:
    look = look_of(row.status)
    count = "" if row.repeats == 1 else f" {row.passed}/{row.repeats}"
    partly = f" {PARTLY_JUDGED.symbol}" if row.misses_samples else ""
    shown = STALE if row.is_stale else look
    return Piece(f"{look.symbol} {shown.word}{count}{partly}", shown.tone)


def _calls(row: TableRow) -> Piece:
    made = "?" if row.actual_calls is None else str(row.actual_calls)
    if row.expected_calls is None:
        return Piece(made)
    differs = row.expected_calls != row.actual_calls
    return Piece(f"{made}/{row.expected_calls}", Tone.WARNING if differs else Tone.TEXT)


def _latency(row: TableRow) -> float:
    return row.latency


def _set(row: TableRow) -> str:
    return safe_line(row.case.eval_set.rpartition("/")[2].partition(".")[0])


_FIXED = (
    Column(EVAL_SET, "eval set", 20, lambda row: Piece(_set(row), Tone.MUTED), lambda row: row.case.eval_set),
    Column("status", "status", 14, _status, lambda row: row.status.value),
    Column("response", "response", 40, lambda row: Piece(row.response), lambda row: row.response),
    Column("trajectory", "trajectory", 32, lambda row: Piece(row.trajectory, Tone.KEY), lambda row: row.trajectory),
    Column("calls", "calls", 9, _calls, lambda row: row.actual_calls),
    Column("latency", "latency", 10, lambda row: Piece(time_taken(row.latency)), _latency, _latency),
    Column("failure", "failure", 32, lambda row: Piece(row.failure, Tone.ERROR), lambda row: row.failure or None),
)


def _metric_columns(name: str) -> tuple[Column, Column]:
    def cell(row: TableRow) -> Piece:
        shown = row.scores.get(name)
        if shown is None:
            return Piece("-", Tone.MUTED)
        look = look_of_metric(shown.status)
        return Piece(f"{look.symbol} {'-' if shown.score is None else f'{shown.score:.4g}'}", look.tone)

    def score(row: TableRow) -> float | None:
        shown = row.scores.get(name)
        return None if shown is None else shown.score

    def why(row: TableRow) -> str:
        shown = row.scores.get(name)
        return "" if shown is None else shown.why

    title = safe_line(name)
    return (
        Column(name, title, min(max(cell_len(title) + 2, 10), 30), cell, score, score),
        Column(
            f"{name} why", f"{title} why", 34, lambda row: Piece(why(row), Tone.MUTED), lambda row: why(row) or None
        ),
    )
