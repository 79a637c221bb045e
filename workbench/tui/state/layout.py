"""From blocks to lines of a given width: wrapping, two columns or one, nothing lost.

Widths are cells of the terminal: a Chinese character takes two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len, split_graphemes

from workbench.tui.state.blocks import Block, Both, Columns, Side, Whole
from workbench.tui.state.pieces import Line, Piece, Tone

SIDE_BY_SIDE_FROM = 100
"""Columns of the screen from which expected stands beside actual."""

_SEPARATOR = "│ "
_LEAST_WIDTH = 8
_LEAST_WIDTH_OF_TWO = 24


def lay_out(blocks: Iterable[Block], *, width: int, side_by_side: bool) -> list[Line]:
    """The lines of all blocks; no line is wider than `width` (which is taken to be at least 8).

    Below 24 cells there is one column, whatever was asked for.
    """
    width = max(width, _LEAST_WIDTH)
    side_by_side = side_by_side and width >= _LEAST_WIDTH_OF_TWO
    lines: list[Line] = []
    for block in blocks:
        if isinstance(block, Whole):
            lines += _wrapped(block.pieces, width=width, first="", indent=block.indent, hang=block.hang)
        elif isinstance(block, Columns):
            lines += _headline(block, width=width, side_by_side=side_by_side)
        elif side_by_side:
            lines += _two_columns(block, width=width)
        else:
            lines += _one_column(block, width=width)
    return lines


def fit(line: Line, width: int) -> Line:
    """The line cut to `width` cells, with an ellipsis where something had to go."""
    if sum(cell_len(piece.text) for piece in line) <= width:
        return line
    pieces: list[Piece] = []
    left = max(width - 1, 0)
    for piece in line:
        text = _head(piece.text, left)
        if cell_len(text) > left:  # a wide character, and one cell left
            text = ""
        pieces.append(Piece(text, piece.tone))
        left -= cell_len(text)
        if text != piece.text:
            break
    return (*pieces, Piece("…" if width > 0 else "", Tone.MUTED))


def shorten(text: str, width: int) -> str:
    """The text in at most `width` cells, cut in the middle: ids often differ only at their ends."""
    if cell_len(text) <= width:
        return text
    end = end_of(text, max(width * 2 // 3, 1))[1:] if width > 2 else ""
    head = _head(text, max(width - 1 - cell_len(end), 0))
    return f"{head}…{end}" if width > 0 else ""


def end_of(text: str, width: int) -> str:
    """The end of a text, with an ellipsis before it where something had to go, in at most `width` cells."""
    if cell_len(text) <= width:
        return text
    end = text[-max(width - 1, 0) :] if width > 1 else ""
    while cell_len(end) > width - 1:  # wide characters
        end = end[1:]
    return f"…{end}"


def wrap(text: str, width: int, *, hang: int = 0) -> list[tuple[int, int]]:
    """Where the lines of a text begin and end: at line feeds, at blanks, and within words wider than a line.

    A blank at which a line is broken belongs to neither line. All lines but the first are narrower by `hang`.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for paragraph in text.split("\n"):
        first = width - hang if spans else width
        lines = _wrap_paragraph(paragraph, first=first, others=width - hang)
        spans += [(start + begin, start + end) for begin, end in lines]
        start += len(paragraph) + 1
    return spans


def _wrap_paragraph(text: str, *, first: int, others: int) -> Iterator[tuple[int, int]]:
    start = 0
    while True:
        width = others if start else first
        end = start + len(_head(text[start : start + width + 1], width))
        if end >= len(text):
            yield start, len(text)
            return
        break_at = _break(text, start, end)
        yield start, break_at
        start = break_at
        if text[start] == " ":
            start += 1


def _break(text: str, start: int, end: int) -> int:
    """The last place up to `end` at which a line may be broken; `end` itself where there is none."""
    if text[end] == " ":
        return end
    for index in range(end, start, -1):
        if text[index - 1] == " " and text[start:index].strip():
            return index
        if ord(text[index - 1]) >= 0x2E80:  # East Asian scripts break between any two characters
            return index
    return end


def _head(text: str, width: int) -> str:
    """As much of the text as fits, at least one character of it where a line cannot hold any."""
    if text.isascii():
        return text[:width]
    used = 0
    for start, end, cells in split_graphemes(text)[0]:
        if used + cells > width:
            return text[: max(start, end if used == 0 and width > 0 else 0)]
        used += cells
    return text


def _wrapped(
    pieces: tuple[Piece, ...], *, width: int, first: str, indent: int, hang: int = 0, tone: Tone = Tone.TEXT
) -> list[Line]:
    """Wrap pieces; `first` stands before the first line, blanks of its width before the others."""
    indent = min(indent, max(width - cell_len(first) - hang - _LEAST_WIDTH, 0))
    margin = cell_len(first) + indent
    text = "".join(piece.text for piece in pieces)
    spans = wrap(text, max(width - margin, 2), hang=hang)
    lines: list[Line] = []
    for number, cut in enumerate(_cuts(pieces, spans)):
        lead = f"{first}{' ' * indent}" if number == 0 else " " * (margin + hang)
        head = (Piece(lead, tone),) if lead else ()
        lines.append((*head, *cut))
    return lines


def _cuts(pieces: tuple[Piece, ...], spans: Iterable[tuple[int, int]]) -> Iterator[Line]:
    """The parts of the joined pieces within these spans, which come in order; in one pass over both."""
    index = position = 0  # of the first piece that reaches into the span, and where it begins
    for start, end in spans:
        while index < len(pieces) and position + len(pieces[index].text) <= start:
            position += len(pieces[index].text)
            index += 1
        cut: list[Piece] = []
        place, number = position, index
        while number < len(pieces) and place < end:
            piece = pieces[number]
            text = piece.text[max(start - place, 0) : end - place]
            if text:
                cut.append(Piece(text, piece.tone))
            place += len(piece.text)
            number += 1
        yield tuple(cut)


def _headline(block: Columns, *, width: int, side_by_side: bool) -> Iterator[Line]:
    if side_by_side:
        expected, actual = (Side((Piece(title, Tone.HEADING),)) for title in (block.expected, block.actual))
        yield from _two_columns(Both(expected, actual), width=width)
    else:
        pieces = (Piece(f"- {block.expected}", Tone.REMOVED), Piece("  "), Piece(f"+ {block.actual}", Tone.ADDED))
        yield from _wrapped(pieces, width=width, first="", indent=0)


def _one_column(block: Both, *, width: int) -> Iterator[Line]:
    if block.is_same and block.expected is not None:
        yield from _side(block.expected, width=width, mark=" ", tone=Tone.TEXT)
        return
    if block.expected is not None:
        mark = "-" if block.differs else " "
        yield from _side(block.expected, width=width, mark=mark, tone=_tone(block, Tone.REMOVED))
    if block.actual is not None:
        mark = "+" if block.differs else " "
        yield from _side(block.actual, width=width, mark=mark, tone=_tone(block, Tone.ADDED))


def _two_columns(block: Both, *, width: int) -> Iterator[Line]:
    left_width = (width - len(_SEPARATOR)) // 2
    right_width = width - len(_SEPARATOR) - left_width
    left = _column(
        block.expected, width=left_width, mark="-" if block.differs else " ", tone=_tone(block, Tone.REMOVED)
    )
    right = _column(block.actual, width=right_width, mark="+" if block.differs else " ", tone=_tone(block, Tone.ADDED))
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else ()
        other = right[number] if number < len(right) else ()
        gap = left_width - sum(cell_len(piece.text) for piece in one)
        yield (*one, Piece(" " * gap), Piece(_SEPARATOR, Tone.MUTED), *other)


def _tone(block: Both, loud: Tone) -> Tone:
    return Tone.MUTED if block.quiet else loud


def _column(side: Side | None, *, width: int, mark: str, tone: Tone) -> list[Line]:
    return [] if side is None else _side(side, width=width - 1, mark=mark, tone=tone)


def _side(side: Side, *, width: int, mark: str, tone: Tone) -> list[Line]:
    pieces = side.pieces
    if mark != " ":  # what differs stands out in the colour of its side
        pieces = tuple(Piece(piece.text, tone if piece.tone is Tone.TEXT else piece.tone) for piece in pieces)
    return _wrapped(pieces, width=width, first=f"{mark} ", indent=side.indent, tone=tone)
