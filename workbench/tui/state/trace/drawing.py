"""One row of the span tree as a line: name, marks, time, tokens and the bar."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from workbench.model.text import redact
from workbench.tui.state.amounts import time_text
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line
from workbench.tui.state.trace.bars import Axis
from workbench.tui.state.trace.facts import SYMBOLS
from workbench.tui.state.trace.tree import Node, TurnNode

EVENT_MARK = "»"
"""Behind the name of a span that became an event."""
SLOW_MARK = "◷"
ERROR_MARK = "!"
RUNNING_MARK = "…"

_TIME = 9  # cells of the column, with the gap before it
_TOKENS = 8
_TOKENS_FROM = 64  # cells of a row from which tokens have a column
_LEAST_BAR = 10
_LEAST_NAME = 16
_DEEPEST = 10  # levels that are indented; deeper ones say how deep they are


class Columns(NamedTuple):
    """Cells of each column of a row; 0 for one that there is no room for."""

    name: int
    time: int
    tokens: int
    bar: int

    @classmethod
    def of(cls, width: int, *, tokens_known: bool) -> Columns:
        """How a row of this width is divided; no column for tokens where no step told of any."""
        tokens = _TOKENS if tokens_known and width >= _TOKENS_FROM else 0
        time = _TIME if width >= _LEAST_NAME + _TIME else 0
        left = width - tokens - time
        bar = left * 2 // 5 if left - _LEAST_BAR >= _LEAST_NAME else 0
        return cls(name=max(left - bar, 0), time=time, tokens=tokens, bar=bar)


def turn_row(turn: TurnNode, message: str, *, columns: Columns, folded: bool, axis: Axis | None) -> Line:
    """The row of a turn: the user's message (safe, one line), its time and tokens."""
    errors = f"{ERROR_MARK} {turn.errors} " if turn.errors else ""
    head = (
        Piece("▸ " if folded else "▾ ", Tone.MUTED),
        Piece(f"turn {turn.index + 1} ", Tone.HEADING),
        Piece(errors, Tone.ERROR),
        Piece(f"user {message}", Tone.STRONG),
    )
    bar = ""
    if axis is not None and turn.start is not None and turn.end is not None:
        bar = axis.bar(turn.start, turn.end, fill="╌")
    return (*_name(head, columns.name), *_figures(turn.seconds, turn.tokens, columns), Piece(bar, Tone.MUTED))


def span_row(
    node: Node, *, columns: Columns, folded: bool, flat: bool, linked: bool, slowest: bool, axis: Axis | None
) -> Line:
    """The row of a span. Where the list is `flat`, it says what the span was inside of in place of indenting it."""
    span = node.span
    fold = ("▸ " if folded else "▾ ") if node.children and not flat else "  "
    head = (
        Piece(_indent(0 if flat else node.depth + 1, columns.name), Tone.MUTED),
        Piece(fold, Tone.MUTED),
        _status(node, slowest=slowest),
        Piece(f"{SYMBOLS[span.kind]} ", Tone.KEY),
        Piece(redact(safe_line(span.name or span.id)), Tone.ERROR if span.error is not None else Tone.TEXT),
        Piece(f" {EVENT_MARK}" if linked else "", Tone.KEY),
        Piece(f" simulated: {safe_line(span.simulated_by)}" if span.simulated_by else "", Tone.WARNING),
        *_behind(node, folded=folded, flat=flat, slowest=slowest),
    )
    return (*_name(head, columns.name), *_figures(span.duration, node.tokens, columns), *_bar(node, axis, columns))


def _status(node: Node, *, slowest: bool) -> Piece:
    if node.span.error is not None:
        return Piece(f"{ERROR_MARK} ", Tone.ERROR)
    if node.span.is_under_way:
        return Piece(f"{RUNNING_MARK} ", Tone.RUNNING)
    return Piece(f"{SLOW_MARK} ", Tone.WARNING) if slowest or node.slow else Piece("  ")


def _behind(node: Node, *, folded: bool, flat: bool, slowest: bool) -> Line:
    pieces = [Piece(" slowest", Tone.WARNING)] if slowest else []
    if folded:
        errors = f", {plural(node.errors_below, 'error')}" if node.errors_below else ""
        pieces.append(Piece(f" +{node.below:,}{errors}", Tone.ERROR if errors else Tone.MUTED))
    if flat and node.parent is not None:
        pieces.append(Piece(f" in {safe_line(node.parent.span.name)}", Tone.MUTED))
    return tuple(pieces)


def _indent(depth: int, width: int) -> str:
    deepest = max(min(_DEEPEST, width // 4), 1)
    return "  " * depth if depth <= deepest else f"{depth}›".rjust(2 * deepest)


def _name(pieces: Line, width: int) -> Line:
    line = fit(tuple(piece for piece in pieces if piece.text), width)
    used = sum(cell_len(piece.text) for piece in line)
    return (*line, Piece(" " * max(width - used, 0)))


def _figures(seconds: float | None, tokens: int | None, columns: Columns) -> Line:
    time = "–" if seconds is None else time_text(seconds)
    spent = "" if tokens is None else f"{tokens:,} t" if tokens < 100_000 else f"{tokens / 1e3:,.0f}k t"
    return (
        Piece(f"{time} ".rjust(columns.time) if columns.time else ""),
        Piece(f"{spent} ".rjust(columns.tokens) if columns.tokens else "", Tone.MUTED),
    )


def _bar(node: Node, axis: Axis | None, columns: Columns) -> Line:
    span = node.span
    if not columns.bar or axis is None:
        return ()
    if span.start is None:
        return (Piece(fit((Piece("no times reported"),), columns.bar)[0].text, Tone.MUTED),)
    if span.end is None:
        return (Piece(axis.bar(span.start, axis.end, fill="░"), Tone.RUNNING),)
    fill = "━" if node.children else "█"
    tone = Tone.ERROR if span.error is not None else Tone.WARNING if node.slow else Tone.PASSED
    return (Piece(axis.bar(span.start, span.end, fill=fill), tone),)
