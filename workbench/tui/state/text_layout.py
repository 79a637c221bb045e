"""Styled text: lines, blocks, columns and charts, wrapped to the available width."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import isnan
from typing import Generic, NamedTuple, TypeVar

from rich.cells import cell_len, split_graphemes

from workbench.model.text import format_duration, neutralise, one_line, pluralise

# Styled text. The state gives it to the widgets, and the stylesheet maps styles to colours.

MOST_CHARACTERS = 20_000
"""Maximum characters of one text. The characters left out are counted on the screen."""


class Style(StrEnum):
    """The meaning of a text. Each style has a component class `style--NAME` in the stylesheet."""

    TEXT = "text"
    STRONG = "strong"
    MUTED = "muted"
    HEADING = "heading"
    KEY = "key"
    REMOVED = "removed"
    ADDED = "added"
    REMOVED_WORD = "removed-word"  # a changed word in a text that is mostly unchanged
    ADDED_WORD = "added-word"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    RUNNING = "running"
    WARNING = "warning"
    TAB = "tab"
    MATCH = "match"
    CURSOR = "cursor"  # a part of a line under the cursor
    FOUND = "found"  # letters that match a typed text
    STRING = "string"  # a JSON value
    NUMBER = "number"
    CONSTANT = "constant"  # true, false, null


class StyledText(NamedTuple):
    """Text with one style. It contains no control characters except, before layout, line feeds."""

    text: str
    style: Style = Style.TEXT


Line = tuple[StyledText, ...]
"""One line of the screen."""


def safe(text: str) -> str:
    """Prepare text from outside for layout: make control characters visible, expand tabs, cut very long texts.

    A cut text ends with the number of characters that are not shown.
    """
    hidden = len(text) - MOST_CHARACTERS
    if hidden > 0:
        text = f"{text[:MOST_CHARACTERS]}\n… {pluralise(hidden, 'more character')} not shown"
    return neutralise(text).expandtabs(4)


def safe_line(text: str, *, width: int = 500) -> str:
    """Prepare text from outside for one line: a name, an id, a short message."""
    return one_line(text[: 4 * width], width=width)


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: "1 case", "2 cases"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# Blocks, the content of panes: paragraphs over the whole width, and expected beside actual.


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph over the whole width. Lines after the first have `hang` cells more indentation."""

    pieces: tuple[StyledText, ...]
    indent: int = 0
    hang: int = 0

    @classmethod
    def from_text(cls, text: str, style: Style = Style.TEXT, *, indent: int = 0, hang: int = 0) -> Paragraph:
        """Make a paragraph of one style. `text` must be safe."""
        return cls((StyledText(text, style),), indent, hang)

    @classmethod
    def from_fact(
        cls, name: str, text: str, style: Style = Style.TEXT, *, indent: int = 0, column: int = 0
    ) -> Paragraph:
        """Make a paragraph of a name and a text, which must be safe. With a `column`, the text begins at this cell."""
        lead = StyledText(f"{name:<{column}}" if column else f"{name}  ", Style.KEY)
        return cls((lead, StyledText(text, style)), indent, column or 2)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    pieces: tuple[StyledText, ...]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Expected beside actual; a missing side is None.

    `differs` marks the sides with - and +. `quiet` omits the colours, for a difference that cost no points.
    """

    expected: Side | None
    actual: Side | None
    differs: bool = False
    quiet: bool = False

    @property
    def is_same(self) -> bool:
        """Whether both sides are equal, so that one line can show them."""
        return not self.differs and self.expected == self.actual

    @property
    def has_changed_words(self) -> bool:
        """Whether single words of a side are highlighted."""
        sides = (side for side in (self.expected, self.actual) if side is not None)
        return any(piece.style in (Style.REMOVED_WORD, Style.ADDED_WORD) for side in sides for piece in side.pieces)


@dataclass(frozen=True, slots=True)
class ColumnHeadings:
    """The headings of the two sides. In one column they are a legend for the marks - and +."""

    expected: str
    actual: str


Block = Paragraph | SideBySide | ColumnHeadings

BLANK = Paragraph(())
"""An empty line."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a case or set. Each text is safe and for one line. `place` is where the title is from."""

    title: str
    status: str = ""
    place: str = ""
    ran: str = ""
    why_stale: str = ""


# Layout: from blocks to lines of a given width, in one or two columns, without loss of text.

SIDE_BY_SIDE_FROM = 100
"""Minimum width of the screen, in cells, for expected and actual side by side."""

_SEPARATOR = "│ "
_LEAST_WIDTH = 8
_LEAST_WIDTH_OF_TWO = 24


def render_blocks(blocks: Iterable[Block], *, width: int, side_by_side: bool) -> list[Line]:
    """Return the lines of all blocks. No line is wider than `width` cells; a width below 8 counts as 8.

    Below 24 cells there is always one column.
    """
    width = max(width, _LEAST_WIDTH)
    side_by_side = side_by_side and width >= _LEAST_WIDTH_OF_TWO
    lines: list[Line] = []
    for block in blocks:
        if isinstance(block, Paragraph):
            lines += _wrap_pieces(block.pieces, width=width, first="", indent=block.indent, hang=block.hang)
        elif isinstance(block, ColumnHeadings):
            lines += _headline_lines(block, width=width, side_by_side=side_by_side)
        elif side_by_side:
            lines += _two_column_lines(block, width=width)
        else:
            lines += _one_column_lines(block, width=width)
    return lines


def measure_line(line: Line) -> int:
    """Return the number of cells of a line."""
    return sum(cell_len(piece.text) for piece in line)


def cut_line(line: Line, width: int) -> Line:
    """Cut a line to `width` cells. A cut line ends with an ellipsis, unless only blanks at its end are cut."""
    too_long = measure_line(line) - width
    if too_long <= 0:
        return line
    end = line[-1].text if line else ""
    if end.endswith(" " * too_long):
        return (*line[:-1], StyledText(end[:-too_long], line[-1].style))
    pieces: list[StyledText] = []
    left = max(width - 1, 0)
    for piece in line:
        text = _cut_text(piece.text, left)
        if cell_len(text) > left:  # one cell left for a wide character
            text = ""
        pieces.append(StyledText(text, piece.style))
        left -= cell_len(text)
        if text != piece.text:
            break
    return (*pieces, StyledText("…" if width > 0 else "", Style.MUTED))


def fill_line(line: Line, width: int) -> Line:
    """Cut a line to `width` cells, or append blanks up to this width."""
    gap = width - measure_line(line)
    return (*line, StyledText(" " * gap)) if gap > 0 else cut_line(line, width)


def add_fitting(line: Line, parts: Iterable[Line], width: int) -> Line:
    """Append parts to a line, each with its own blanks before it, up to the first that does not fit."""
    left = width - measure_line(line)
    for part in parts:
        left -= measure_line(part)
        if left < 0:
            break
        line = (*line, *part)
    return line


_SHORT_PART = 30  # most cells of a part that is left out as a whole
_CUT_PART = 20  # least cells of a longer part that is cut


def cut_parts(line: Line, width: int) -> Line:
    """Cut a line of parts to `width` cells. A part begins at a piece that starts with two blanks.

    Short parts are left out as a whole, from the first that does not fit. A longer part is cut, and so is the first.
    """
    parts: list[list[StyledText]] = []
    for piece in line:
        if not parts or piece.text.startswith("  "):
            parts.append([])
        parts[-1].append(piece)
    shown: list[StyledText] = []
    left = width
    for part in parts:
        length = measure_line(tuple(part))
        if length > left:
            is_cut = not shown or (length > _SHORT_PART and left >= _CUT_PART)
            return (*shown, *cut_line(tuple(part), left)) if is_cut else tuple(shown)
        shown += part
        left -= length
    return line


class RankedPart(NamedTuple):
    """A part of a line, with the blanks before it. Parts of a higher rank are left out first."""

    rank: int
    pieces: Line


def fit_parts(parts: Sequence[RankedPart], width: int) -> Line:
    """Join the parts of least rank that fit into `width` cells. The first that does not fit is cut if it is long.

    The line begins with one blank.
    """
    shown: dict[int, Line] = {}
    left = width
    for index in sorted(range(len(parts)), key=lambda index: parts[index].rank):
        pieces = parts[index].pieces
        length = measure_line(pieces)
        if length > left:
            if not shown or (length > _SHORT_PART and left >= _CUT_PART):
                shown[index] = cut_line(pieces, left)
            break
        shown[index] = pieces
        left -= length
    line = [piece for index in sorted(shown) for piece in shown[index]]
    return (line[0]._replace(text=f" {line[0].text.lstrip()}"), *line[1:]) if line else ()


def cut_to_rows(text: str, width: int, *, rows: int) -> str:
    """Wrap a text to at most `rows` rows of `width` cells, joined by line feeds. A longer text is cut in its middle."""
    text = " ".join(text.split())
    rooms = range(width * rows, 0, -1)  # a row that ends with a whole word may be shorter than its width
    wrapped = ((cut, wrap(cut, width)) for cut in (shorten(text, room) for room in rooms))
    cut, spans = next(pair for pair in wrapped if len(pair[1]) <= rows)
    return "\n".join(cut[start:end].rstrip() for start, end in spans)


def shorten(text: str, width: int) -> str:
    """Cut a text in the middle to at most `width` cells, because ids often differ only at their ends."""
    if cell_len(text) <= width:
        return text
    end = keep_end(text, max(width * 2 // 3, 1))[1:] if width > 2 else ""
    head = _cut_text(text, max(width - 1 - cell_len(end), 0))
    return f"{head}…{end}" if width > 0 else ""


def shorten_name(name: str, width: int) -> str:
    """Leave words out of the middle of a name such as `tool_trajectory_avg_score` until it fits into `width` cells.

    A name whose last word does not fit is cut in the middle.
    """
    if cell_len(name) <= width:
        return name
    words = name.split("_")
    last = len(words) - 1
    shorter = (
        "_".join((*words[:start], "…", *words[-end:])) for end in range(1, last + 1) for start in range(last - end + 1)
    )
    return max((text for text in shorter if cell_len(text) <= width), key=cell_len, default=shorten(name, width))


def format_set_name(eval_set: str) -> str:
    """Format the path of an eval set as its name: without folder and ending."""
    return safe_line(eval_set.rpartition("/")[2].partition(".")[0])


def keep_end(text: str, width: int) -> str:
    """Cut a text at its beginning to at most `width` cells. A cut text begins with an ellipsis."""
    if cell_len(text) <= width:
        return text
    end = text[-max(width - 1, 0) :] if width > 1 else ""
    while cell_len(end) > width - 1:  # wide characters
        end = end[1:]
    return f"…{end}"


def wrap(text: str, width: int, *, hang: int = 0) -> list[tuple[int, int]]:
    """Return the start and end of each line: broken at line feeds, at blanks, and within words wider than a line.

    A blank at a break belongs to neither line. All lines but the first are narrower by `hang` cells. However narrow,
    each line has at least one character.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for paragraph in text.split("\n"):
        others = max(width - hang, 1)
        lines = _wrap_paragraph(paragraph, first=others if spans else max(width, 1), others=others)
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
    """Return the last possible line break up to `end`, else `end` itself. A comparison is broken only if it must be."""
    if text[end] == " " and not _is_in_comparison(text, end):
        return end
    within = 0
    for index in range(end, start, -1):
        if text[index - 1] == " " and text[start:index].strip():
            if not _is_in_comparison(text, index - 1):
                return index
            within = within or index
        if ord(text[index - 1]) >= 0x2E80:  # East Asian scripts break between any two characters
            return index
    return end if text[end] == " " else within or end


_COMPARISONS = (" < ", " > ", " ≤ ", " ≥ ")


def _is_in_comparison(text: str, blank: int) -> bool:
    """Return True for a blank before or after a sign such as in `0.50 < 0.80`."""
    return text.startswith(_COMPARISONS, blank) or text.startswith(_COMPARISONS, max(blank - 2, 0))


def _cut_text(text: str, width: int) -> str:
    """Return as much of the text as fits, and at least one character if the width is not 0."""
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
    """Wrap styled texts. The first line begins with `first`, the others with blanks of the same width."""
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
    """Cut the joined pieces into these spans, which are in order, in one pass over both."""
    index = position = 0  # index and start of the first piece that overlaps the span
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


def _headline_lines(block: ColumnHeadings, *, width: int, side_by_side: bool) -> Iterator[Line]:
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
        yield from _side_lines(block, block.expected, width=width, mark=" ", style=Style.TEXT)
        return
    if block.expected is not None:
        yield from _side_lines(block, block.expected, width=width, mark="-", style=Style.REMOVED)
    if block.actual is not None:
        yield from _side_lines(block, block.actual, width=width, mark="+", style=Style.ADDED)


def _two_column_lines(block: SideBySide, *, width: int) -> Iterator[Line]:
    side_width = (width - 1 - len(_SEPARATOR)) // 2  # the same for both; an odd cell stays empty at the end
    left, right = (
        [] if side is None else _side_lines(block, side, width=side_width, mark=mark, style=style)
        for side, mark, style in ((block.expected, "-", Style.REMOVED), (block.actual, "+", Style.ADDED))
    )
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else ()
        other = right[number] if number < len(right) else ()
        yield (*fill_line(one, side_width + 1), StyledText(_SEPARATOR, Style.MUTED), *other)


def _side_lines(block: SideBySide, side: Side, *, width: int, mark: str, style: Style) -> list[Line]:
    """Return the lines of one side. If it differs, its text has the colour of the side, or only its changed words."""
    pieces = side.pieces
    style = Style.MUTED if block.quiet else style
    if block.differs and not block.has_changed_words:
        pieces = tuple(StyledText(piece.text, style if piece.style is Style.TEXT else piece.style) for piece in pieces)
    return _wrap_pieces(
        pieces, width=width, first=f"{mark if block.differs else ' '} ", indent=side.indent, style=style
    )


# Charts of characters.

_HEIGHTS = "▁▂▃▄▅▆▇█"
_ABSENT = "·"


def bar(share: float, *, width: int, mark: float | None = None) -> str:
    """Draw a bar of `width` cells, filled to `share`. `mark` is the share of a vertical line, such as a threshold."""
    filled = round(_clamp(share) * width)
    cells = ["█" if cell < filled else "░" for cell in range(width)]
    if mark is not None and width:
        cells[min(int(_clamp(mark) * width), width - 1)] = "┃"
    return "".join(cells)


class TrackMark(NamedTuple):
    """A mark on a track: its place from 0 to 1, its symbol of one cell, and its style."""

    share: float
    symbol: str
    style: Style


def draw_track(length: int, *, marks: Iterable[TrackMark], find_band: Callable[[float], Style | None]) -> Line:
    """Draw a range as a line of `length` cells, with marks on it; later marks cover earlier ones.

    `find_band` returns the style of the line at a place from 0 to 1, where the line is heavy; None where it is light.
    """
    last = max(length - 1, 1)
    covered = {round(_clamp(mark.share) * last): StyledText(mark.symbol, mark.style) for mark in marks}
    cells: list[StyledText] = []
    for cell in range(length):
        band = find_band(cell / last)
        piece = covered.get(cell, StyledText("─", Style.MUTED) if band is None else StyledText("━", band))
        if cells and cells[-1].style is piece.style:
            cells[-1] = StyledText(cells[-1].text + piece.text, piece.style)
        else:
            cells.append(piece)
    return tuple(cells)


def sparkline(values: Sequence[float | None], *, lowest: float = 0.0, highest: float | None = None) -> str:
    """Draw one character for each value, higher for greater values; a missing value is a point.

    Without `highest`, the greatest value has the full height.
    """
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) if highest is None else highest
    spread = top - lowest
    return "".join(
        _ABSENT if value is None else _HEIGHTS[_step(value - lowest, spread, steps=len(_HEIGHTS))] for value in values
    )


def compute_share(score: float, lowest: float | None, highest: float | None) -> float | None:
    """Return the position of a score between the bounds of its metric, in [0, 1]; None without bounds."""
    if lowest is None or highest is None or highest <= lowest:
        return None
    return _clamp((score - lowest) / (highest - lowest))


def histogram(values: Sequence[float], *, lowest: float, highest: float, bins: int) -> list[int]:
    """Count the values in each of `bins` equal bins. Values beyond a bound count in the bin at that end."""
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


# A cursor over the rows of a list. Separator rows cannot be selected.


class CursorRows(ABC):
    """Rows with a cursor on one of them; 0 without rows."""

    cursor: int = 0

    @abstractmethod
    def __len__(self) -> int: ...

    def move(self, by: int) -> None:
        """Move the cursor by a number of rows, past separators. It stays if there is no other row."""
        self.cursor = self._find_row(self.cursor + by, onward=1 if by >= 0 else -1, otherwise=self.cursor)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, or on the next one that can be selected. Beyond an end, use the row at that end."""
        self.cursor = self._find_row(index, onward=1, otherwise=0)

    def can_select(self, index: int) -> bool:  # noqa: ARG002 - subclasses exclude separators
        """Return False for a separator."""
        return True

    def _find_row(self, index: int, *, onward: int, otherwise: int) -> int:
        """Return the nearest row that can be selected, in the direction `onward` first."""
        count = len(self)
        index = min(max(index, 0), count - 1)
        below, above = range(max(index, 0), count), range(index, -1, -1)
        places = chain(below, above) if onward > 0 else chain(above, below)
        return next(filter(self.can_select, places), otherwise)


class ListRows(CursorRows):
    """Rows of a list with a cursor, perhaps with details of the row under it."""

    @abstractmethod
    def line(self, index: int, width: int) -> Line:
        """Format one row; the list cuts it to `width` cells."""

    def blocks(self) -> Sequence[Block]:
        """Describe the row under the cursor."""
        return ()


Row = TypeVar("Row")


class ItemRows(ListRows, Generic[Row]):
    """Rows of a list, each for one of the items `rows`."""

    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def selected_row(self) -> Row | None:
        """Item under the cursor; None if there are no rows."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None


class MarkedRows(ItemRows[Row]):
    """Rows that the user marks, for example those to save."""

    def __init__(self, marked: Iterable[int] = ()) -> None:
        self.marked = set(marked)

    @property
    def marked_rows(self) -> Sequence[Row]:
        """The marked items, in their order."""
        return [self.rows[index] for index in sorted(self.marked)]

    @abstractmethod
    def header_line(self) -> Line:
        """Say what the rows are, and how many are marked."""

    def can_mark(self, index: int) -> bool:  # noqa: ARG002 - subclasses exclude rows
        """Return False for a row that cannot be marked."""
        return True

    def toggle(self) -> bool:
        """Mark the row under the cursor, or remove its mark. Return False if it cannot be marked."""
        if not len(self) or not self.can_mark(self.cursor):
            return False
        self.marked ^= {self.cursor}
        return True

    def toggle_all(self, indexes: Iterable[int]) -> None:
        """Mark these rows; if all of them are marked, none."""
        wanted = {index for index in indexes if self.can_mark(index)}
        self.marked = self.marked - wanted if wanted <= self.marked else self.marked | wanted


# The key line: the current keys, as many as fit, and always the key for help.

_BETWEEN = 2
"""Cells between two keys."""


@dataclass(frozen=True, slots=True)
class KeyHint:
    """A key and its action."""

    key: str
    what: str

    @property
    def width(self) -> int:
        return cell_len(self.key) + 1 + cell_len(self.what)


def fit_hints(hints: Sequence[KeyHint], last: Sequence[KeyHint], *, width: int) -> Sequence[KeyHint]:
    """Return the first of `hints` that fit before `last`, and `last`. No hint is cut."""
    left = width - 1 - sum(hint.width + _BETWEEN for hint in last)
    fitting = []
    for hint in hints:
        left -= hint.width + _BETWEEN
        if left < 0:
            break
        fitting.append(hint)
    return (*fitting, *last)


def make_hint_line(hints: Sequence[KeyHint]) -> Line:
    pieces = [StyledText(" ")]
    for hint in hints:
        pieces += [StyledText(hint.key, Style.KEY), StyledText(f" {hint.what}{' ' * _BETWEEN}")]
    return tuple(pieces)


def find_hint(hints: Sequence[KeyHint], cell: int) -> int | None:
    """Return the index of the hint at a cell, None if there is no hint."""
    end = 1
    for index, hint in enumerate(hints):
        start, end = end, end + hint.width + _BETWEEN
        if start <= cell < end - _BETWEEN:
            return index
    return None


# Short texts for times and counts.


def format_time_taken(seconds: float) -> str:
    """Format the duration of a case; `-` for a row that was scored without an agent run."""
    return format_duration(seconds) if seconds else "-"


def format_count(count: float) -> str:
    """Format a count: exact below a thousand, then in thousands or millions."""
    if count < 1000:
        return f"{count:.0f}"
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:,.1f}M"
