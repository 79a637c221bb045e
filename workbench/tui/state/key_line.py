"""The line that says which keys can be pressed now: as many as there is room for, the way to help always among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from workbench.tui.state.pieces import Line, Piece, Tone

_BETWEEN = 2
"""Cells between two keys."""


@dataclass(frozen=True, slots=True)
class KeyHint:
    """A key as it is written, and what it does."""

    key: str
    what: str

    @property
    def width(self) -> int:
        """How many cells it takes."""
        return cell_len(self.key) + 1 + cell_len(self.what)


def fit_hints(hints: Sequence[KeyHint], last: Sequence[KeyHint], *, width: int) -> Sequence[KeyHint]:
    """The first of `hints` that fit beside `last`, and `last`. None is shown in part."""
    left = width - 1 - sum(hint.width + _BETWEEN for hint in last)
    fitting = []
    for hint in hints:
        left -= hint.width + _BETWEEN
        if left < 0:
            break
        fitting.append(hint)
    return (*fitting, *last)


def line_of_hints(hints: Sequence[KeyHint]) -> Line:
    """The hints as they are drawn."""
    pieces = [Piece(" ")]
    for hint in hints:
        pieces += [Piece(hint.key, Tone.KEY), Piece(f" {hint.what}{' ' * _BETWEEN}")]
    return tuple(pieces)


def hint_at(hints: Sequence[KeyHint], cell: int) -> int | None:
    """The index of the hint that is drawn at a cell; None where there is none."""
    end = 1
    for index, hint in enumerate(hints):
        start, end = end, end + hint.width + _BETWEEN
        if start <= cell < end - _BETWEEN:
            return index
    return None
