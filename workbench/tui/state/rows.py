"""The rows of the browser as they are drawn: mark, label, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.tui.state.board import CaseRecord
from workbench.tui.state.browser import Row
from workbench.tui.state.pieces import Piece, Tone
from workbench.tui.state.progress import duration
from workbench.tui.state.standing import Look, Standing, look_of


@dataclass(frozen=True, slots=True)
class RowView:
    """A row as it is drawn. `mark` is one cell: how a case stands, or whether what is below the row is hidden."""

    depth: int
    mark: Piece
    label: Piece
    right: Piece
    can_fold: bool


def case_view(row: Row, record: CaseRecord | None) -> RowView:
    """A case: its symbol, and its time where it has one, else a word."""
    if row.problem:
        look = look_of(Standing.ERROR)
        right = Piece("broken", look.tone)
    else:
        look = look_of(record.standing if record is not None else Standing.NOT_RUN)
        right = _time_or_word(record, look)
    return RowView(row.depth, Piece(look.symbol, look.tone), Piece(row.label), right, can_fold=False)


def group_view(row: Row, counts: Mapping[Standing, int], *, is_folded: bool) -> RowView:
    """A target or a set: how many of its cases passed, marked by the worst of them."""
    mark = Piece("▸" if is_folded else "▾")
    return RowView(row.depth, mark, Piece(row.label, Tone.STRONG), _roll_up(row, counts), can_fold=True)


def _roll_up(row: Row, counts: Mapping[Standing, int]) -> Piece:
    if row.problem:
        return Piece(row.problem, Tone.MUTED if row.problem == "reading" else Tone.ERROR)
    total, passed = sum(counts.values()), counts.get(Standing.PASSED, 0)
    text = f"{passed:,}/{total:,}"
    for standing in (Standing.ERROR, Standing.FAILED):
        if counts.get(standing):
            return _marked(text, look_of(standing))
    return _marked(text, look_of(Standing.PASSED)) if total and passed == total else Piece(text, Tone.MUTED)


def _marked(text: str, look: Look) -> Piece:
    return Piece(f"{look.symbol} {text}", look.tone)


def _time_or_word(record: CaseRecord | None, look: Look) -> Piece:
    if record is None or record.standing not in (Standing.PASSED, Standing.FAILED):
        return Piece(look.word, look.tone)
    if record.stored_at is not None:
        return Piece("stored", Tone.MUTED)
    if len(record.outcomes) > 1:
        return Piece(f"{record.passed_repeats}/{len(record.outcomes)}", Tone.MUTED)
    return Piece(duration(record.duration_seconds or 0.0), Tone.MUTED)
