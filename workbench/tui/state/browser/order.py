"""In which order the cases of a set are listed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from workbench.tui.state.board import Board, CaseRecord
from workbench.tui.state.browser.listed import Row
from workbench.tui.state.standing import Standing


class Order(StrEnum):
    """An order, by what the user reads of it."""

    FILE = "file order"
    ID = "by id"
    STATUS = "worst first"
    DURATION = "slowest first"
    NEWEST = "newest first"

    @property
    def needs_results(self) -> bool:
        """Whether what a run does may change it."""
        return self not in (Order.FILE, Order.ID)

    @property
    def following(self) -> Order:
        """The order that comes after this one where a key goes through them."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


_WORST_FIRST = (
    Standing.ERROR,
    Standing.FAILED,
    Standing.NOT_EVALUATED,
    Standing.CANCELLED,
    Standing.RUNNING,
    Standing.WAITING,
    Standing.SKIPPED,
    Standing.NOT_RUN,
    Standing.PASSED,
)
_RANKS = {standing: rank for rank, standing in enumerate(_WORST_FIRST)}
_DIGITS = re.compile(r"(\d{1,18})")


def in_order(rows: Sequence[Row], order: Order, board: Board) -> Sequence[Row]:
    """The rows of cases in an order; what is the same in it stays in that of the file."""
    if order is Order.FILE:
        return rows
    if order is Order.ID:
        return sorted(rows, key=lambda row: natural(row.label))
    measure = _MEASURES[order]
    return sorted(rows, key=lambda row: measure(None if row.case is None else board.record(row.case)))


def natural(label: str) -> list[Any]:
    """So that `case_2` comes before `case_10`."""
    parts: list[Any] = _DIGITS.split(label.casefold())
    parts[1::2] = map(int, parts[1::2])
    return parts


def _badness(record: CaseRecord | None) -> Any:
    return _RANKS[Standing.NOT_RUN if record is None else record.standing]


def _slowness(record: CaseRecord | None) -> Any:
    duration = None if record is None else record.agent_seconds
    return 1.0 if duration is None else -duration  # those without a time come last


def _age(record: CaseRecord | None) -> Any:
    if record is None:
        return 0, 0.0
    stored_at = record.stored_at
    return -record.ended, 0.0 if stored_at is None else -stored_at.timestamp()


_MEASURES: dict[Order, Callable[[CaseRecord | None], Any]] = {
    Order.STATUS: _badness,
    Order.DURATION: _slowness,
    Order.NEWEST: _age,
}
