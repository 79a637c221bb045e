"""A list of rows with a cursor: only the rows on the screen are drawn, whether there are ten or ten thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from workbench.tui.keys import bindings
from workbench.tui.state.pieces import Line
from workbench.tui.widgets.drawn_lines import DrawnLines, bring_into_sight, set_content_size
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of


class RowSource(Protocol):
    """What is listed. The widget only reads it; whoever hears its messages moves the cursor and shows it again."""

    @property
    def cursor(self) -> int:
        """The index of the selected row."""

    def __len__(self) -> int: ...

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now; cut where it is wider than `width` cells."""


class Steerable(Protocol):
    """What has a cursor that the user moves."""

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; past either end means the row there."""


class NoRows:
    """Nothing to list."""

    cursor = 0

    def __len__(self) -> int:
        return 0

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002
        """There is no row."""
        return ()


class _Look(NamedTuple):
    """How a line of the screen looks: the row on it (None where there is none), and the style of the cursor on it."""

    line: Line | None
    cursor: str
    width: int


class RowList(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of one line each."""

    PLACES: ClassVar[tuple[str, ...]] = ("rows",)
    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES, "row-list--cursor", "row-list--cursor-blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("rows")]

    @dataclass
    class _OfList(Message):
        """Something that the user did in a list."""

        list: RowList

        @property
        def control(self) -> RowList:
            """The list, for `@on` with a selector."""
            return self.list

    @dataclass
    class Steered(_OfList):
        """The user moved or went to a row. Whoever hears it steers what is listed, and shows it again."""

        def steer(self, rows: Steerable) -> None:
            """Move the cursor of the rows as the user wants it."""
            raise NotImplementedError

    @dataclass
    class Moved(Steered):
        """The user moved by so many rows."""

        by: int

        def steer(self, rows: Steerable) -> None:
            """Move the cursor by these rows."""
            rows.move(self.by)

    @dataclass
    class WentTo(Steered):
        """The user chose the row with this index; past either end means the row there."""

        index: int

        def steer(self, rows: Steerable) -> None:
            """Put the cursor on this row."""
            rows.move_to(self.index)

    @dataclass
    class Entered(_OfList):
        """The user wants to open the selected row."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source: RowSource = NoRows()
        self._drawn: DrawnLines[_Look] = DrawnLines(self)

    @property
    def source(self) -> RowSource:
        """What is listed."""
        return self._source

    def show(self, source: RowSource) -> None:
        """Draw the rows of `source` as they are now, with the cursor in sight."""
        self._source = source
        set_content_size(self, Size(self.scrollable_content_region.width, len(source)))
        bring_into_sight(self, source.cursor)
        self._drawn.refresh(self._look_of)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        return self._drawn.strip(y, self._look_of(y), self._draw)

    def notify_style_update(self) -> None:
        """Rows look other than before."""
        super().notify_style_update()
        self._drawn.forget()

    def _look_of(self, y: int) -> _Look:
        index, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if index >= len(self._source):
            return _Look(None, "", width)
        cursor = ""
        if index == self._source.cursor:
            cursor = "row-list--cursor" if self.has_focus else "row-list--cursor-blurred"
        return _Look(self._source.line(index, width), cursor, width)

    def _draw(self, look: _Look) -> Strip:
        if look.line is None:
            return Strip.blank(look.width, self.rich_style)
        uniform = self.get_component_rich_style(look.cursor) if look.cursor else None
        return strip_of(self, look.line, width=look.width, uniform=uniform)

    def on_resize(self) -> None:
        """The rows have another width, and the cursor may be out of sight."""
        self.show(self._source)

    def action_move(self, by: int) -> None:
        """Say that the user moved."""
        self.post_message(self.Moved(self, by))

    def action_page(self, pages: int) -> None:
        """Say that the user moved by screenfuls."""
        self.post_message(self.Moved(self, pages * max(self.scrollable_content_region.height - 1, 1)))

    def action_first(self) -> None:
        """Say that the user went to the first row."""
        self.post_message(self.WentTo(self, 0))

    def action_last(self) -> None:
        """Say that the user went to the last row."""
        self.post_message(self.WentTo(self, len(self._source) - 1))

    def action_enter(self) -> None:
        """Say that the user opens the selected row."""
        self.post_message(self.Entered(self))

    def index_at(self, event: events.MouseEvent) -> int | None:
        """The row that the mouse is on; None where there is none."""
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        index = offset.y + self.scroll_offset.y
        return index if index < len(self._source) else None

    def on_click(self, event: events.Click) -> None:
        """A click selects a row, a second one opens it."""
        index = self.index_at(event)
        if index is None:
            return
        self.post_message(self.WentTo(self, index))
        if event.chain > 1:
            self.post_message(self.Entered(self))
