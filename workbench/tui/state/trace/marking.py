"""Letting what was searched for stand out in a line."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.tui.state.pieces import Line, Piece, Tone


def marked(line: Line, needle: str) -> Line:
    """The line with every occurrence of a text in another tone, whatever its case. Those across two pieces are not."""
    return tuple(part for piece in line for part in _parts(piece, needle.casefold()))


def _parts(piece: Piece, needle: str) -> Iterator[Piece]:
    folded = piece.text.casefold()
    if not needle or len(folded) != len(piece.text):  # some characters fold into two: places would not fit
        yield piece
        return
    end = 0
    while (start := folded.find(needle, end)) >= 0:
        if start > end:
            yield Piece(piece.text[end:start], piece.tone)
        yield Piece(piece.text[start : start + len(needle)], Tone.MATCH)
        end = start + len(needle)
    if end < len(piece.text):
        yield Piece(piece.text[end:], piece.tone)
