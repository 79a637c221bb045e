"""The rows of the browser as they are drawn: marks, label, and how it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from rich.cells import cell_len

from workbench.tui.state.amounts import time_taken
from workbench.tui.state.board import Board, CaseRecord
from workbench.tui.state.browser import Browser, Row
from workbench.tui.state.browser.listed import FETCHING, NOT_READ, READING
from workbench.tui.state.layout import shorten
from workbench.tui.state.pieces import Line, Piece, Tone
from workbench.tui.state.standing import EDITED, MARKED, PARTLY_JUDGED, STALE, Look, Standing, look_of

_NOTHING = Piece("")
_TONES_OF_UNREAD = {NOT_READ: Tone.MUTED, READING: Tone.MUTED, FETCHING: Tone.RUNNING}


@dataclass(frozen=True, slots=True)
class RowView:
    """A row as it is drawn.

    `flag` is one cell, or nothing: whether the row is marked. `mark` is one cell: how a case stands, or whether what is
    below the row is hidden. `edited` follows the label where there are unsaved edits, `partly` where the verdict lacks
    samples of a judge. `right` is always shown, `more` stands before it where there is room.
    """

    depth: int
    flag: Piece
    mark: Piece
    label: Piece
    edited: Piece
    right: Piece
    more: Piece
    can_fold: bool
    partly: Piece = _NOTHING


def row_view(browser: Browser, board: Board, index: int, *, importing: Collection[str]) -> RowView:
    """One row as it is drawn now; `importing` are the targets whose agents are being imported."""
    row = browser.rows[index]
    edited = Piece(f" {EDITED.symbol}", EDITED.tone) if browser.is_edited(row) else _NOTHING
    if row.case is None:
        view = _group_view(row, browser, board.counts(row.target, row.eval_set or None), edited)
        is_importing = row.target in importing and not row.eval_set
        return replace(view, right=Piece("importing", Tone.RUNNING), more=view.right) if is_importing else view
    record = board.record(row.case)
    look = _look(row, record)
    right, more, partly = Piece(look.word, look.tone), _NOTHING, _NOTHING
    mark = Piece(look.symbol, look.tone)
    if row.problem:
        right = Piece("broken", look.tone)
    elif record is not None and _is_verdict(record):
        right = _time(record)
        more = Piece("stored", Tone.MUTED) if record.stored_at is not None else _NOTHING
        partly = Piece(f" {PARTLY_JUDGED.symbol}", PARTLY_JUDGED.tone) if record.misses_samples else _NOTHING
        if browser.freshness.is_stale(row.case):
            mark, more, right = Piece(STALE.symbol, STALE.tone), right, Piece(f"{look.symbol} {STALE.word}", STALE.tone)
    elif look is look_of(Standing.NOT_RUN):
        right, more = _NOTHING, right  # the symbol says it too
    flag = Piece(MARKED.symbol, MARKED.tone) if row.case in browser.marks else _NOTHING
    return RowView(row.depth, flag, mark, Piece(row.label), edited, right, more, can_fold=False, partly=partly)


def border_title(browser: Browser) -> str:
    """What the frame of the list says above it: how many cases are listed where a filter hides others."""
    if not browser.is_filtered:
        return "eval sets"
    listed, total = (sum(1 for _ in rows) for rows in (browser.listed_case_rows(), browser.case_rows()))
    return f"eval sets · {listed:,} of {total:,}"


def border_subtitle(browser: Browser) -> str:
    """What the frame of the list says below it: the order, and how many cases are marked."""
    marked = f"{MARKED.symbol} {len(browser.marks):,} marked · " if len(browser.marks) else ""
    return f"{marked}{browser.order.value}"


def _look(row: Row, record: CaseRecord | None) -> Look:
    if row.problem:
        return look_of(Standing.ERROR)
    return look_of(record.standing if record is not None else Standing.NOT_RUN)


def _is_verdict(record: CaseRecord) -> bool:
    return bool(record.outcomes) and record.standing not in (Standing.WAITING, Standing.RUNNING)


def _time(record: CaseRecord) -> Piece:
    """How long it took; of several repeats how many passed; a word where it did neither pass nor fail."""
    look = look_of(record.standing)
    if record.standing not in (Standing.PASSED, Standing.FAILED):
        return Piece(look.word, look.tone)
    if len(record.verdicts) > 1:
        return Piece(f"{record.passed_repeats}/{len(record.verdicts)}", Tone.MUTED)
    return Piece(time_taken(record.agent_seconds or 0.0), Tone.MUTED)


def _group_view(row: Row, browser: Browser, counts: Mapping[Standing, int], edited: Piece) -> RowView:
    """A target or a set: how many of its cases passed, marked by the worst of them, and how many are stale."""
    fold = Piece("▸" if browser.is_folded(row) else "▾")
    stale = browser.freshness.count(row.target, row.eval_set)
    right = _roll_up(row, counts)
    if stale:
        right = Piece(f"{STALE.symbol}{stale:,} {right.text}", STALE.tone)
    return RowView(row.depth, _NOTHING, fold, Piece(row.label, Tone.STRONG), edited, right, _NOTHING, can_fold=True)


def _roll_up(row: Row, counts: Mapping[Standing, int]) -> Piece:
    if row.problem:
        return Piece(row.problem, _TONES_OF_UNREAD.get(row.problem, Tone.ERROR))
    total, passed = sum(counts.values()), counts.get(Standing.PASSED, 0)
    text = f"{passed:,}/{total:,}"
    for standing in (Standing.ERROR, Standing.FAILED):
        if counts.get(standing):
            return _marked(text, look_of(standing))
    return _marked(text, look_of(Standing.PASSED)) if total and passed == total else Piece(text, Tone.MUTED)


def _marked(text: str, look: Look) -> Piece:
    return Piece(f"{look.symbol} {text}", look.tone)


def line_of(view: RowView, width: int) -> Line:
    """Label on the left, time or word on the right; what can be left out is, then the label is cut."""
    lead = "  " * view.depth
    if view.flag.text:
        lead = lead[:-1]
    marks = (view.edited, view.partly)
    width_of_marks = sum(cell_len(piece.text) for piece in marks)
    fixed = len(lead) + cell_len(view.flag.text) + 2 + width_of_marks + cell_len(view.right.text) + 2
    room = width - fixed
    extra = (view.more, Piece(" " if view.right.text else "")) if view.more.text else ()
    width_of_extra = sum(cell_len(piece.text) for piece in extra)
    if cell_len(view.label.text) + width_of_extra <= room:
        room -= width_of_extra
    else:
        extra = ()
    label = [Piece(shorten(view.label.text, max(room, 4)), view.label.tone)]
    gap = max(room - sum(cell_len(piece.text) for piece in label), 0)
    return (
        Piece(lead), view.flag, view.mark, Piece(" "), *label, *marks, Piece(" " * (gap + 1)), *extra, view.right,
        Piece(" "),
    )  # fmt: skip
