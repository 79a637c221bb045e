"""Text with styles: pieces, lines, blocks, columns and charts, wrapped to the width that is there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import isnan
from typing import NamedTuple

from rich.cells import cell_len, split_graphemes

from workbench.model.text import neutralise, one_line, pluralise

# Text with a meaning: what the state hands to the widgets in place of colours and markup.

MOST_CHARACTERS = 20_000
"""How much of one text is laid out. What is left out is counted, so that nothing is cut off unseen."""


class Style(StrEnum):
    """What a piece of text means. Each has a component class `style--NAME` in the stylesheet."""

    TEXT = "text"
    STRONG = "strong"
    MUTED = "muted"
    HEADING = "heading"
    KEY = "key"
    REMOVED = "removed"
    ADDED = "added"
    REMOVED_WORD = "removed-word"  # what makes the difference in a text of which most stayed the same
    ADDED_WORD = "added-word"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    RUNNING = "running"
    WARNING = "warning"
    TAB = "tab"
    MATCH = "match"


class StyledText(NamedTuple):
    """A run of text with one style. It holds no control character except, before layout, line feeds."""

    text: str
    style: Style = Style.TEXT


Line = tuple[StyledText, ...]
"""One line of the screen."""


def safe(text: str) -> str:
    """Text from outside, ready to be laid out: control characters visible, tabs as spaces, very long texts shortened.

    A shortened text ends by saying how many characters are not shown.
    """
    hidden = len(text) - MOST_CHARACTERS
    if hidden > 0:
        text = f"{text[:MOST_CHARACTERS]}\n… {pluralise(hidden, 'more character')} not shown"
    return neutralise(text).expandtabs(4)


def safe_line(text: str, *, width: int = 500) -> str:
    """Text from outside for one line: a name, an id, a short message."""
    return one_line(text[: 4 * width], width=width)


def plural(count: int, noun: str) -> str:
    """A count and its noun: "1 case", "2 cases"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# What panes show, as blocks: lines over the whole width, and expected beside actual.


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph over the whole width. Lines after the first are indented by `hang` more than the first."""

    pieces: tuple[StyledText, ...]
    indent: int = 0
    hang: int = 0

    @classmethod
    def from_text(cls, text: str, style: Style = Style.TEXT, *, indent: int = 0, hang: int = 0) -> Paragraph:
        """A paragraph of one style; `text` must be safe."""
        return cls((StyledText(text, style),), indent, hang)


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a comparison has to show."""

    pieces: tuple[StyledText, ...]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Expected beside actual; None where a side has nothing.

    `differs` marks the sides with - and +; `quiet` then leaves out the colours, for a difference that cost nothing.
    """

    expected: Side | None
    actual: Side | None
    differs: bool = False
    quiet: bool = False

    @property
    def is_same(self) -> bool:
        """Whether one line can stand for both sides."""
        return not self.differs and self.expected == self.actual


@dataclass(frozen=True, slots=True)
class Columns:
    """What the two sides are called, above them; in one column, which mark stands for which side."""

    expected: str
    actual: str


Block = Paragraph | SideBySide | Columns

BLANK = Paragraph(())
"""An empty line."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What is shown, how it stands, when it ran, why that no longer holds: safe text for one line each; and whether it
    has unsaved edits.
    """

    title: str
    status: str = ""
    ran: str = ""
    is_edited: bool = False
    why_stale: str = ""


# From blocks to lines of a given width: wrapping, two columns or one, nothing lost.

SIDE_BY_SIDE_FROM = 100
"""Columns of the screen from which expected stands beside actual."""

_SEPARATOR = "│ "
_LEAST_WIDTH = 8
_LEAST_WIDTH_OF_TWO = 24


def render_blocks(blocks: Iterable[Block], *, width: int, side_by_side: bool) -> list[Line]:
    """The lines of all blocks; no line is wider than `width` (which is taken to be at least 8).

    Below 24 cells there is one column, whatever was asked for.
    """
    width = max(width, _LEAST_WIDTH)
    side_by_side = side_by_side and width >= _LEAST_WIDTH_OF_TWO
    lines: list[Line] = []
    for block in blocks:
        if isinstance(block, Paragraph):
            lines += _wrap_pieces(block.pieces, width=width, first="", indent=block.indent, hang=block.hang)
        elif isinstance(block, Columns):
            lines += _headline_lines(block, width=width, side_by_side=side_by_side)
        elif side_by_side:
            lines += _two_column_lines(block, width=width)
        else:
            lines += _one_column_lines(block, width=width)
    return lines


def cut_line(line: Line, width: int) -> Line:
    """The line cut to `width` cells, with an ellipsis where something had to go."""
    if sum(cell_len(piece.text) for piece in line) <= width:
        return line
    pieces: list[StyledText] = []
    left = max(width - 1, 0)
    for piece in line:
        text = _cut_text(piece.text, left)
        if cell_len(text) > left:  # a wide character, and one cell left
            text = ""
        pieces.append(StyledText(text, piece.style))
        left -= cell_len(text)
        if text != piece.text:
            break
    return (*pieces, StyledText("…" if width > 0 else "", Style.MUTED))


def shorten(text: str, width: int) -> str:
    """The text in at most `width` cells, cut in the middle: ids often differ only at their ends."""
    if cell_len(text) <= width:
        return text
    end = keep_end(text, max(width * 2 // 3, 1))[1:] if width > 2 else ""
    head = _cut_text(text, max(width - 1 - cell_len(end), 0))
    return f"{head}…{end}" if width > 0 else ""


def keep_end(text: str, width: int) -> str:
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
        end = start + len(_cut_text(text[start : start + width + 1], width))
        if end >= len(text):
            yield start, len(text)
            return
        break_at = _find_break(text, start, end)
        yield start, break_at
        start = break_at
        if text[start] == " ":
            start += 1


def _find_break(text: str, start: int, end: int) -> int:
    """The last place up to `end` at which a line may be broken; `end` itself where there is none."""
    if text[end] == " ":
        return end
    for index in range(end, start, -1):
        if text[index - 1] == " " and text[start:index].strip():
            return index
        if ord(text[index - 1]) >= 0x2E80:  # East Asian scripts break between any two characters
            return index
    return end


def _cut_text(text: str, width: int) -> str:
    """As much of the text as fits, at least one character of it where a line cannot hold any."""
    if text.isascii():
        return text[:width]
    used = 0
    for start, end, cells in split_graphemes(text)[0]:
        if used + cells > width:
            return text[: max(start, end if used == 0 and width > 0 else 0)]
        used += cells
    return text


def _wrap_pieces(
    pieces: tuple[StyledText, ...], *, width: int, first: str, indent: int, hang: int = 0, style: Style = Style.TEXT
) -> list[Line]:
    """Wrap pieces; `first` stands before the first line, blanks of its width before the others."""
    indent = min(indent, max(width - cell_len(first) - hang - _LEAST_WIDTH, 0))
    margin = cell_len(first) + indent
    text = "".join(piece.text for piece in pieces)
    spans = wrap(text, max(width - margin, 2), hang=hang)
    lines: list[Line] = []
    for number, cut in enumerate(_cut_pieces(pieces, spans)):
        lead = f"{first}{' ' * indent}" if number == 0 else " " * (margin + hang)
        head = (StyledText(lead, style),) if lead else ()
        lines.append((*head, *cut))
    return lines


def _cut_pieces(pieces: tuple[StyledText, ...], spans: Iterable[tuple[int, int]]) -> Iterator[Line]:
    """The parts of the joined pieces within these spans, which come in order; in one pass over both."""
    index = position = 0  # of the first piece that reaches into the span, and where it begins
    for start, end in spans:
        while index < len(pieces) and position + len(pieces[index].text) <= start:
            position += len(pieces[index].text)
            index += 1
        cut: list[StyledText] = []
        place, number = position, index
        while number < len(pieces) and place < end:
            piece = pieces[number]
            text = piece.text[max(start - place, 0) : end - place]
            if text:
                cut.append(StyledText(text, piece.style))
            place += len(piece.text)
            number += 1
        yield tuple(cut)


def _headline_lines(block: Columns, *, width: int, side_by_side: bool) -> Iterator[Line]:
    if side_by_side:
        expected, actual = (Side((StyledText(title, Style.HEADING),)) for title in (block.expected, block.actual))
        yield from _two_column_lines(SideBySide(expected, actual), width=width)
    else:
        pieces = (
            StyledText(f"- {block.expected}", Style.REMOVED),
            StyledText("  "),
            StyledText(f"+ {block.actual}", Style.ADDED),
        )
        yield from _wrap_pieces(pieces, width=width, first="", indent=0)


def _one_column_lines(block: SideBySide, *, width: int) -> Iterator[Line]:
    if block.is_same and block.expected is not None:
        yield from _side_lines(block.expected, width=width, mark=" ", style=Style.TEXT)
        return
    if block.expected is not None:
        mark = "-" if block.differs else " "
        yield from _side_lines(block.expected, width=width, mark=mark, style=_choose_style(block, Style.REMOVED))
    if block.actual is not None:
        mark = "+" if block.differs else " "
        yield from _side_lines(block.actual, width=width, mark=mark, style=_choose_style(block, Style.ADDED))


def _two_column_lines(block: SideBySide, *, width: int) -> Iterator[Line]:
    left_width = (width - len(_SEPARATOR)) // 2
    right_width = width - len(_SEPARATOR) - left_width
    left = _column_lines(
        block.expected, width=left_width, mark="-" if block.differs else " ", style=_choose_style(block, Style.REMOVED)
    )
    right = _column_lines(
        block.actual, width=right_width, mark="+" if block.differs else " ", style=_choose_style(block, Style.ADDED)
    )
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else ()
        other = right[number] if number < len(right) else ()
        gap = left_width - sum(cell_len(piece.text) for piece in one)
        yield (*one, StyledText(" " * gap), StyledText(_SEPARATOR, Style.MUTED), *other)


def _choose_style(block: SideBySide, loud: Style) -> Style:
    return Style.MUTED if block.quiet else loud


def _column_lines(side: Side | None, *, width: int, mark: str, style: Style) -> list[Line]:
    return [] if side is None else _side_lines(side, width=width - 1, mark=mark, style=style)


def _side_lines(side: Side, *, width: int, mark: str, style: Style) -> list[Line]:
    pieces = side.pieces
    if mark != " ":  # what differs stands out in the colour of its side
        pieces = tuple(StyledText(piece.text, style if piece.style is Style.TEXT else piece.style) for piece in pieces)
    return _wrap_pieces(pieces, width=width, first=f"{mark} ", indent=side.indent, style=style)


# Numbers as pictures of characters.

_HEIGHTS = "▁▂▃▄▅▆▇█"
_ABSENT = "·"


def bar(share: float, *, width: int, mark: float | None = None) -> str:
    """A bar of `width` cells, filled to `share` of it; `mark` is a share at which a line stands, as for a threshold."""
    filled = round(_clamp(share) * width)
    cells = ["█" if cell < filled else "░" for cell in range(width)]
    if mark is not None and width:
        cells[min(int(_clamp(mark) * width), width - 1)] = "┃"
    return "".join(cells)


def sparkline(values: Sequence[float | None], *, lowest: float = 0.0, highest: float | None = None) -> str:
    """One character for each value, the higher the greater it is; a point where there is none.

    Without `highest` the greatest value is as high as can be.
    """
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) if highest is None else highest
    spread = top - lowest
    return "".join(
        _ABSENT if value is None else _HEIGHTS[_step(value - lowest, spread, steps=len(_HEIGHTS))] for value in values
    )


def compute_share(score: float, lowest: float | None, highest: float | None) -> float | None:
    """Where a score lies between the bounds of its metric, in [0, 1]; None where it has no bounds."""
    if lowest is None or highest is None or highest <= lowest:
        return None
    return _clamp((score - lowest) / (highest - lowest))


def histogram(values: Sequence[float], *, lowest: float, highest: float, bins: int) -> list[int]:
    """How many values lie in each of `bins` equal parts; those beyond the bounds count in the part at that end."""
    counts = [0] * bins
    for value in values:
        counts[_step(value - lowest, highest - lowest, steps=bins)] += 1
    return counts


def _step(value: float, spread: float, *, steps: int) -> int:
    if spread <= 0:
        return steps - 1 if value > 0 else 0
    return min(int(_clamp(value / spread) * steps), steps - 1)


def _clamp(share: float) -> float:
    return 0.0 if isnan(share) else min(max(share, 0.0), 1.0)


# A cursor over the rows of a list, of which some may only separate others.


class CursorRows(ABC):
    """Rows with a cursor on one of them; at 0 where there are none."""

    cursor: int = 0

    @abstractmethod
    def __len__(self) -> int: ...

    def move(self, by: int) -> None:
        """Move the cursor by so many rows, past rows on which it cannot stand; it stays where there is no other."""
        self.cursor = self._find_row(self.cursor + by, onward=1 if by >= 0 else -1, otherwise=self.cursor)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, past either end on the row there; where it cannot stand there, on the next one."""
        self.cursor = self._find_row(index, onward=1, otherwise=0)

    def _can_select(self, index: int) -> bool:  # noqa: ARG002 - on every row, unless the rows say otherwise
        return True

    def _find_row(self, index: int, *, onward: int, otherwise: int) -> int:
        """The nearest place to stand, looked for `onward` first."""
        count = len(self)
        index = min(max(index, 0), count - 1)
        below, above = range(max(index, 0), count), range(index, -1, -1)
        places = chain(below, above) if onward > 0 else chain(above, below)
        return next(filter(self._can_select, places), otherwise)


# The line that says which keys can be pressed now: as many as there is room for, the way to help always among them.

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


def make_hint_line(hints: Sequence[KeyHint]) -> Line:
    """The hints as they are drawn."""
    pieces = [StyledText(" ")]
    for hint in hints:
        pieces += [StyledText(hint.key, Style.KEY), StyledText(f" {hint.what}{' ' * _BETWEEN}")]
    return tuple(pieces)


def find_hint(hints: Sequence[KeyHint], cell: int) -> int | None:
    """The index of the hint that is drawn at a cell; None where there is none."""
    end = 1
    for index, hint in enumerate(hints):
        start, end = end, end + hint.width + _BETWEEN
        if start <= cell < end - _BETWEEN:
            return index
    return None


# Times and counts in the words of the screen, where they share a line with much else.


def format_duration(seconds: float) -> str:
    """How long a case or run takes: milliseconds below a hundredth of a second, minutes from a hundred seconds on."""
    if 0 < seconds < 0.01:
        return f"{max(seconds * 1000, 1):.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_time_taken(seconds: float) -> str:
    """How long a case took; `-` where nothing ran that could have been timed: a row that is judged as it stands."""
    return format_duration(seconds) if seconds else "-"


def format_span_time(seconds: float) -> str:
    """A time in a trace, where every millisecond counts: "8.1 µs", "0.4 ms", "12 ms", "1.25 s", "2 min 5 s"."""
    if 0 < seconds < 0.00005:  # agents that are plain functions: in milliseconds it would be 0.0
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_count(count: float) -> str:
    """A large count for people: exact below a thousand, then in thousands or millions."""
    if count < 1000:
        return f"{count:.0f}"
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:,.1f}M"
