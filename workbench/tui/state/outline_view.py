"""The rows of the editor as lines: texts are wrapped, long ones are cut, and the cursor stays on its row."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from workbench.tui.state.case_outline import Input, OutlineKind, OutlineRow, Place, find_end
from workbench.tui.state.text_layout import Line, Style, StyledText, measure_line, plural, safe, safe_line, wrap

MOST_LINES = 10
"""Maximum lines of a text in the outline. The rest is counted there; the text field shows all of it."""

_LONGEST_LABEL = 40  # a longer label is cut
_WIDEST_LABEL = 20  # a wider label does not widen the column of its neighbours
_LEAST_ROOM = 20
_HEADINGS = {OutlineKind.TURN, OutlineKind.SESSION, OutlineKind.SCENARIO}
_CHANGED, _DRAFTED = "*", "~"
_PROMPTS = ("user", "starting prompt")


class OutlineView:
    """The outline of one case, drawn by `RowList`. The cursor is on a row, which may have several lines."""

    def __init__(self) -> None:
        self.rows: Sequence[OutlineRow] = ()
        self._index: Mapping[Place, int] = {}
        self._changed: frozenset[int] = frozenset()
        self._drafted: frozenset[int] = frozenset()
        self._width = 80
        self._labels: Sequence[int] = ()
        self._starts: list[int] = []
        self._length = 0
        self._selected = 0

    def __len__(self) -> int:
        return self._length

    @property
    def cursor(self) -> int:
        """The first line of the selected row."""
        return self._starts[self._selected] if self._starts else 0

    @property
    def selected_index(self) -> int:
        return self._selected

    @property
    def row(self) -> OutlineRow | None:
        return self.rows[self._selected] if self.rows else None

    def show(self, rows: Sequence[OutlineRow]) -> None:
        """Show other rows. The cursor follows its value to the new row."""
        if rows is self.rows:
            return
        old, at = self.row, self._selected
        self.rows = rows
        self._index = _index_rows(rows)
        self._labels = _label_widths(rows)
        self._selected = self._find_successor(old, at)
        self._measure()

    def mark(self, *, changed: frozenset[int], drafted: frozenset[int]) -> None:
        """Set which rows are changed and which have a draft."""
        self._changed, self._drafted = changed, drafted

    def forget(self) -> None:
        """Remove the rows and put the cursor at the top, before another case is shown."""
        self.rows, self._index, self._selected = (), {}, 0
        self._measure()

    def fit(self, width: int) -> None:
        """Wrap the texts for a width in cells."""
        if width and width != self._width:
            self._width = width
            self._measure()

    def move(self, by: int) -> None:
        """Move by one row, or by several lines."""
        if abs(by) == 1:
            self._select(self._selected + by)
        else:
            self.move_to_line(self.cursor + by)

    def move_to_line(self, line: int) -> None:
        """Select the row of a line. A line past either end selects the first or last row."""
        self._select(bisect_right(self._starts, line) - 1)

    def select(self, place: Place) -> None:
        """Select the row of a place, or its nearest parent with a row."""
        index = self.find_row(place)
        if index is not None:
            self._select(index)

    def select_prompt(self) -> bool:
        """Select the first text of the user. Return False if there is none."""
        index = next((index for index, row in enumerate(self.rows) if row.label in _PROMPTS), None)
        if index is not None:
            self._select(index)
        return index is not None

    def go_on(self) -> None:
        """Select what is to be written next: the first empty row inside the selected one, else the row after it."""
        after = find_end(self.rows, self._selected)
        for index in range(self._selected + 1, min(after + 1, len(self.rows))):
            row = self.rows[index]
            is_empty_text = row.value == "" and row.input in (Input.LINE, Input.TEXT)
            if row.kind is OutlineKind.GHOST or is_empty_text:
                self._select(index)
                return

    def find_row(self, place: Place) -> int | None:
        """Return the index of the row that shows a place, or of its nearest parent with a row."""
        return next((self._index[place[:end]] for end in range(len(place), 0, -1) if place[:end] in self._index), None)

    def find_field(self, place: Place) -> tuple[int, int] | None:
        """Return the line and the column of the value of a row of one line; None for a missing or higher row."""
        index = self._index.get(place)
        if index is None or self.rows[index].place != place:
            return None
        following = self._starts[index + 1] if index + 1 < len(self.rows) else self._length
        if following - self._starts[index] > 1:
            return None
        return self._starts[index], measure_line(tuple(self._lead(index)))

    def find_rows(self, places: Iterable[Place]) -> frozenset[int]:
        """Return the indexes of the rows that show these places, and of all rows below them."""
        found: set[int] = set()
        for place in places:
            index = self.find_row(place)
            if index is None:
                continue
            found.add(index)
            row = self.rows[index]
            if place == row.place and place != row.value_place:
                for below in range(index + 1, len(self.rows)):
                    if self.rows[below].depth <= row.depth:
                        break
                    if self.rows[below].kind is not OutlineKind.GHOST:
                        found.add(below)
        return frozenset(found)

    def step(self, kind: OutlineKind, by: int) -> None:
        """Select the next (1) or previous (-1) row of a kind."""
        index = self._selected + by
        while 0 <= index < len(self.rows):
            if self.rows[index].kind is kind:
                self._select(index)
                return
            index += by

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002  # the texts are wrapped for the width of `fit`
        number = bisect_right(self._starts, index) - 1
        lead, texts = self._lead(number), self._texts(number)
        text = texts[index - self._starts[number]]
        if index > self._starts[number]:
            return (StyledText(" " * sum(cell_len(piece.text) for piece in lead)), text)
        return (*lead, text)

    def _select(self, index: int) -> None:
        self._selected = min(max(index, 0), max(len(self.rows) - 1, 0))

    def _find_successor(self, old: OutlineRow | None, at: int) -> int:
        """Find the new row for an old one: at the same place, else the nearest equal row, else the parent."""
        if old is None or not self.rows:
            return 0
        there = self._index.get(old.place)
        if there is not None and (self.rows[there].value, self.rows[there].value_place) == (old.value, old.value_place):
            return there
        shape = _shape(old)
        moved = [
            index
            for index, row in enumerate(self.rows)
            if row.label == old.label and row.value == old.value and _shape(row) == shape
        ]
        if moved and old.value not in (None, "", [], {}):
            return min(moved, key=lambda index: abs(index - at))
        if there is not None:
            return there
        above = self.find_row(old.place)
        return min(at, len(self.rows) - 1) if above is None or old.is_item else above

    def _measure(self) -> None:
        self._starts = []
        line = 0
        for number in range(len(self.rows)):
            self._starts.append(line)
            line += len(self._texts(number)) if self._may_wrap(number) else 1
        self._length = line

    def _may_wrap(self, number: int) -> bool:
        row = self.rows[number]
        value = row.value
        return isinstance(value, str) and (
            "\n" in value or len(value) * 2 + row.depth * 2 + self._labels[number] + 4 > self._width
        )

    def _lead(self, number: int) -> Line:
        row = self.rows[number]
        mark = _DRAFTED if number in self._drafted else _CHANGED if number in self._changed else " "
        label = safe_line(row.label, width=_LONGEST_LABEL)
        room = max(self._labels[number] - cell_len(label), 0)
        style = Style.MUTED if row.kind is OutlineKind.GHOST else Style.HEADING if row.kind in _HEADINGS else Style.KEY
        return (
            StyledText(mark, Style.WARNING),
            StyledText(" " * (1 + 2 * row.depth)),
            StyledText(label, style),
            StyledText(" " * (room + 2)),
        )

    def _texts(self, number: int) -> Sequence[StyledText]:
        """Return the lines after the label."""
        row = self.rows[number]
        style, text = _format_value(row)
        if not isinstance(row.value, str):
            return (StyledText(text, style),)
        room = max(self._width - 4 - 2 * row.depth - self._labels[number], _LEAST_ROOM)
        head = text[: MOST_LINES * room]
        shown = safe(head)
        spans = wrap(shown, room)
        pieces = [StyledText(shown[start:end], style) for start, end in spans[:MOST_LINES]]
        left = len(text) - len(head) + (len(shown) - spans[MOST_LINES][0] if len(spans) > MOST_LINES else 0)
        return (*pieces, StyledText(f"… {left:,} more characters", Style.MUTED)) if left else pieces


def _format_value(row: OutlineRow) -> tuple[Style, str]:
    """Return the style and text of a row's value. A heading shows the number of its parts."""
    value = row.value
    if row.kind is OutlineKind.GHOST:
        return Style.MUTED, ""
    if isinstance(value, str):
        if row.input in (Input.LINE, Input.TEXT):
            named = row.kind in (OutlineKind.CALL, OutlineKind.TOOL_RESPONSE)
            return (Style.STRONG if named else Style.TEXT, value) if value else (Style.MUTED, "empty")
        return Style.TEXT, json.dumps(value, ensure_ascii=False)
    if row.is_heading:
        return Style.MUTED, _summary(row)
    if isinstance(value, dict | list):
        words = safe_line(json.dumps(value, ensure_ascii=False)) if value else "empty"
        return Style.TEXT if value else Style.MUTED, words
    return (Style.MUTED if value is None else Style.TEXT), json.dumps(value)


def _summary(row: OutlineRow) -> str:
    if row.kind is OutlineKind.CONTENT and isinstance(row.value, dict):
        parts: Any = row.value.get("parts")
        return plural(len(parts), "part") if parts else "empty"
    if isinstance(row.value, list):
        return plural(len(row.value), "item")
    return "" if row.value else "empty"


def _label_widths(rows: Sequence[OutlineRow]) -> Sequence[int]:
    """Compute the width of each label: the values of one object are aligned in a column."""
    widths = [0] * len(rows)
    columns: list[list[int]] = []  # the rows so far of the current object at each depth
    for index, row in enumerate(rows):
        del columns[row.depth + 1 :]
        while len(columns) <= row.depth:
            columns.append([])
        if row.is_heading or row.kind in _TITLED:
            widths[index] = cell_len(safe_line(row.label, width=_LONGEST_LABEL))
            continue
        columns[row.depth].append(index)
        own = cell_len(safe_line(row.label, width=_LONGEST_LABEL))
        widths[index] = max(widths[columns[row.depth][0]], own)
        if _WIDEST_LABEL >= own > widths[columns[row.depth][0]]:
            for other in columns[row.depth]:
                widths[other] = max(widths[other], own)
    return widths


_TITLED = {
    OutlineKind.CALL,
    OutlineKind.TOOL_RESPONSE,
    OutlineKind.MESSAGE,
    OutlineKind.EVENT,
    OutlineKind.RUBRIC,
    OutlineKind.PERSONA,
    OutlineKind.BEHAVIOUR,
}
"""Rows with a title, which follows the label directly."""


def _index_rows(rows: Sequence[OutlineRow]) -> Mapping[Place, int]:
    """Map each place to the first row that shows it."""
    found: dict[Place, int] = {}
    for index, row in enumerate(rows):
        for place in (row.place, row.value_place or row.place, *row.covered):
            found.setdefault(place, index)
    return found


def _shape(row: OutlineRow) -> tuple[Any, ...]:
    return tuple(step if isinstance(step, str) else 0 for step in row.place)
