"""Lists of rows and lines of text: only what is on the screen is drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from workbench.model.identity import CaseKey
from workbench.tui.keys import bindings
from workbench.tui.state.browser_rows import border_subtitle, border_title, line_of
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import Block, Line, Style, cut_line, render_blocks

# Views of lines that draw no more than what looks other than before: with thousands of rows keys stay quick.

Look = TypeVar("Look", bound=Hashable)

_MOST_STRIPS = 500


class DrawnLines(Generic[Look]):
    """What stands on each line of a view, as its looks: all that the strip of a line depends on besides the styles."""

    def __init__(self, view: ScrollView) -> None:
        self._view = view
        self._looks: dict[int, Look] = {}  # by line of the screen
        self._strips: dict[Look, Strip] = {}

    def strip(self, y: int, look: Look, draw: Callable[[Look], Strip]) -> Strip:
        """The strip for a line of the screen; where it was scrolled here it is not made again."""
        self._looks[y] = look
        strip = self._strips.get(look)
        if strip is None:
            if len(self._strips) >= _MOST_STRIPS:
                self._strips.clear()
            strip = self._strips[look] = draw(look)
        return strip

    def refresh(self, look_of: Callable[[int], Look]) -> None:
        """Have those lines of the view drawn anew that look other than they were drawn."""
        region = self._view.scrollable_content_region
        lines = range(region.height)
        changed = [Region(0, y, region.width, 1) for y in lines if self._looks.get(y) != look_of(y)]
        if changed:
            self._view.refresh(*changed)

    def forget(self) -> None:
        """The styles are others now."""
        self._looks.clear()
        self._strips.clear()


def set_content_size(view: ScrollView, size: Size) -> None:
    """Say how large that is which a view shows. Where no scroll bar comes or goes nothing is laid out anew for it.

    Laying out the screen takes longer than all else that a key press does.
    """
    height = view.scrollable_content_region.height
    same_bar = height and view.show_vertical_scrollbar == (size.height > height)
    if not same_bar or size.width != view.virtual_size.width or view.styles.auto_dimensions:
        view.virtual_size = size
        return
    view.set_reactive(ScrollView.virtual_size, size)
    if view.show_vertical_scrollbar:
        view.vertical_scrollbar.window_virtual_size = size.height
    if view.scroll_offset.y > view.max_scroll_y:
        view.scroll_to(y=view.max_scroll_y, animate=False, force=True, immediate=True)


def bring_into_sight(view: ScrollView, index: int) -> None:
    """Scroll a view of lines no further than needed for one of them to be seen."""
    top, height = view.scroll_offset.y, view.scrollable_content_region.height
    if index < top:
        view.scroll_to(y=index, animate=False, force=True, immediate=True)
    elif height and index >= top + height:
        view.scroll_to(y=index - height + 1, animate=False, force=True, immediate=True)


# From pieces to what Textual draws. Pieces become segments directly, so no text is ever parsed as markup.

STYLE_CLASSES = {f"style--{style.value}" for style in Style}
"""The component classes of the styles in the stylesheet."""


def strip_of(widget: Widget, line: Line, *, width: int, uniform: RichStyle | None = None) -> Strip:
    """The line as a strip of exactly `width` cells, in the styles of `widget`, or all in `uniform`."""
    line = cut_line(line, width)
    segments = [
        Segment(piece.text, uniform or widget.get_component_rich_style(f"style--{piece.style.value}"))
        for piece in line
        if piece.text
    ]
    used = sum(cell_len(piece.text) for piece in line)
    return Strip(segments, used).adjust_cell_length(width, uniform or widget.rich_style)


class StatusLine(Widget):
    """One line of pieces."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLE_CLASSES

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._line: Line = ()

    def show(self, line: Line) -> None:
        """Replace the line."""
        if line != self._line:
            self._line = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        return strip_of(self, self._line if y == 0 else (), width=self.size.width)


# A list of rows with a cursor: only the rows on the screen are drawn, whether there are ten or ten thousand.


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


class _RowLook(NamedTuple):
    """How a line of the screen looks: the row on it (None where there is none), and the style of the cursor on it."""

    line: Line | None
    cursor: str
    width: int


class RowList(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of one line each."""

    PLACES: ClassVar[tuple[str, ...]] = ("rows",)
    COMPONENT_CLASSES: ClassVar[set[str]] = {*STYLE_CLASSES, "row-list--cursor", "row-list--cursor-blurred"}
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
        self._drawn: DrawnLines[_RowLook] = DrawnLines(self)

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

    def _look_of(self, y: int) -> _RowLook:
        index, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if index >= len(self._source):
            return _RowLook(None, "", width)
        cursor = ""
        if index == self._source.cursor:
            cursor = "row-list--cursor" if self.has_focus else "row-list--cursor-blurred"
        return _RowLook(self._source.line(index, width), cursor, width)

    def _draw(self, look: _RowLook) -> Strip:
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


# The eval-set tree.


class CaseList(RowList):
    """Targets, their eval sets and their cases."""

    PLACES: ClassVar[tuple[str, ...]] = ("list", "rows")

    @dataclass
    class Toggled(Message):
        """The user wants the selected row folded where it is unfolded, and the other way round."""

    @dataclass
    class Marked(Message):
        """The user marks the selected row."""

    def __init__(self, *, id: str, go: Callable[[int], None]) -> None:
        """`go` puts the cursor on a row at once: a key typed ahead must find it where the keys before it led."""
        super().__init__(id=id)
        self._go = go
        self._frame = ("", "")  # what its border says

    def show_state(self, state: ProjectState) -> None:
        """Draw the rows of `state` as they are now, with the cursor in sight."""
        frame = border_title(state.browser), border_subtitle(state.browser)
        if frame != self._frame:
            self._frame = frame
            self.border_title, self.border_subtitle = map(Content, frame)
        self.show(_Rows(state))

    def cases_in_sight(self) -> frozenset[CaseKey]:
        """The cases whose rows are on the screen."""
        if not isinstance(self.source, _Rows):
            return frozenset()
        first, count = self.scroll_offset.y, self.scrollable_content_region.height
        rows = self.source.state.browser.rows[first : first + count]
        return frozenset(row.case for row in rows if row.case is not None)

    def action_move(self, by: int) -> None:
        """Move by so many rows."""
        self._go(self.source.cursor + by)

    def action_page(self, pages: int) -> None:
        """Move by screenfuls."""
        self._go(self.source.cursor + pages * max(self.scrollable_content_region.height - 1, 1))

    def action_first(self) -> None:
        """Go to the first row."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the last row."""
        self._go(len(self.source) - 1)

    def on_click(self, event: events.Click) -> None:
        """On the mark of a row that can be folded a click folds, with ctrl held down it marks."""
        super().on_click(event)
        event.prevent_default()
        index, offset = self.index_at(event), event.get_content_offset(self)
        if index is None or offset is None or not isinstance(self.source, _Rows):
            return
        view = self.source.state.row_view(index)
        if event.ctrl:
            self.post_message(self.Marked())
        elif view.can_fold and event.chain == 1 and offset.x <= 2 * view.depth + 1:
            self.post_message(self.Toggled())


class _Rows:
    """The rows of the browser, as a list draws them."""

    def __init__(self, state: ProjectState) -> None:
        self.state = state

    @property
    def cursor(self) -> int:
        """The index of the selected row."""
        return self.state.browser.cursor

    def __len__(self) -> int:
        return len(self.state.browser.rows)

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now."""
        return line_of(self.state.row_view(index), width)


# A text of lines, laid out for the width there is: only what is on the screen is drawn.


class LineSource(Protocol):
    """Lines that may be made when they are asked for: a list of lines is one too."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Line: ...


LayOut = Callable[[int], LineSource]
"""Makes the lines for a width in cells."""


class _LinesLook(NamedTuple):
    """How a line of the screen looks: which line stands on it, and whether the cursor is there."""

    number: int
    line: Line
    is_cursor: bool
    width: int


class LinesView(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines to read. The mouse selects text in them."""

    PLACES: ClassVar[tuple[str, ...]] = ("lines",)
    COMPONENT_CLASSES: ClassVar[set[str]] = {*STYLE_CLASSES, "lines-view--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("lines")]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lay_out: LayOut = _nothing
        self._lines: LineSource = ()
        self._cursor: int | None = None
        self._drawn: DrawnLines[_LinesLook] = DrawnLines(self)

    def show(self, lay_out: LayOut, *, from_top: bool, cursor: int | None = None) -> None:
        """Replace what is shown; `cursor` is a line to stand out, which is brought into sight."""
        self._lay_out = lay_out
        self._cursor = cursor
        self._refresh_lines()
        if from_top:
            self.scroll_home(animate=False, immediate=True)
        if cursor is not None:
            self.bring_into_sight(cursor)

    def show_blocks(self, blocks: Sequence[Block], *, from_top: bool) -> None:
        """Show blocks in one column."""
        self.show(lambda width: render_blocks(blocks, width=width, side_by_side=False), from_top=from_top)

    @property
    def lines(self) -> LineSource:
        """The lines as they are laid out now."""
        return self._lines

    def bring_into_sight(self, index: int) -> None:
        """Scroll no further than needed for a line to be seen."""
        bring_into_sight(self, index)

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        look = self._look_of(y)
        strip = self._drawn.strip(y, look, self._draw)
        return self._with_selection(strip, look.number).apply_offsets(0, look.number)

    def notify_style_update(self) -> None:
        """Lines look other than before."""
        super().notify_style_update()
        self._drawn.forget()

    def _draw(self, look: _LinesLook) -> Strip:
        uniform = self.get_component_rich_style("lines-view--cursor") if look.is_cursor else None
        return strip_of(self, look.line, width=look.width, uniform=uniform)

    def _look_of(self, y: int) -> _LinesLook:
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        return _LinesLook(index, line, index == self._cursor, self.scrollable_content_region.width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that the mouse has selected, as it is laid out."""
        width = self.scrollable_content_region.width
        lines = (self._lines[index] for index in range(len(self._lines)))
        text = "\n".join("".join(piece.text for piece in cut_line(line, width)) for line in lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        """Show what is selected now."""
        self.refresh()

    def on_resize(self) -> None:
        """Lay out again for the new width."""
        self._refresh_lines()

    def _refresh_lines(self) -> None:
        width = self.scrollable_content_region.width
        if not width:
            return  # before the first layout
        self._lines = self._lay_out(width)
        set_content_size(self, Size(width, len(self._lines)))
        self._drawn.refresh(self._look_of)

    def _with_selection(self, strip: Strip, index: int) -> Strip:
        selection = self.text_selection
        span = None if selection is None else selection.get_span(index)
        if span is None:
            return strip
        # Offsets count characters, strips are cut by cells.
        start, end = (cell_len(strip.text[:place]) if place != -1 else strip.cell_length for place in span)
        before, chosen, after = strip.divide([start, max(start, end), strip.cell_length])
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([before, chosen.apply_style(style), after])


def _nothing(width: int) -> LineSource:  # noqa: ARG001
    return ()


# Lines of which each can be clicked on.


class ClickableLines(LinesView):
    """A text that says which of its lines was clicked on."""

    @dataclass
    class Clicked(Message):
        """The user clicked on a line, counted from the first."""

        line: int

    def on_click(self, event: events.Click) -> None:
        """Say which line it was, unless text was selected."""
        offset = event.get_content_offset(self)
        if offset is not None and self.text_selection is None:
            self.post_message(self.Clicked(offset.y + self.scroll_offset.y))


# Rows above, and what there is to say about the row under the cursor below.


class DetailedRows(RowSource, Steerable, Protocol):
    """Rows with a cursor that can be moved, and text about the row that it is on."""

    def blocks(self) -> Sequence[Block]:
        """What there is to say about the row under the cursor."""


class RowsAndText(Vertical):
    """A list that moves its own cursor, and a text that follows it. `RowList.Entered` is for those around."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: DetailedRows | None = None
        self._stands_in = False  # whether the text has the focus only because there is no list

    def compose(self) -> ComposeResult:
        """List and text."""
        yield RowList()
        yield LinesView()

    def show(self, rows: DetailedRows, *, from_top: bool) -> None:
        """Show rows, and the text about the one under the cursor: from its top where it is about something else."""
        self._rows = rows
        rows_list = self.query_one(RowList)
        rows_list.display = True
        rows_list.styles.height = max(len(rows), 1)
        rows_list.show(rows)
        if self._stands_in and self.query_one(LinesView).has_focus:
            rows_list.focus()
        self._stands_in = False
        self._show_text(rows.blocks(), from_top=from_top)

    def show_text(self, blocks: Sequence[Block]) -> None:
        """Show a text alone."""
        rows_list = self.query_one(RowList)
        had_focus = rows_list.has_focus
        self._rows = None
        rows_list.display = False
        rows_list.show(NoRows())
        self._show_text(blocks, from_top=True)
        if had_focus:
            self.focus_first()

    def focus_first(self) -> None:
        """The list; the text as long as there is no list."""
        rows_list = self.query_one(RowList)
        self._stands_in = not rows_list.display
        (self.query_one(LinesView) if self._stands_in else rows_list).focus()

    def focus_text(self) -> None:
        """The text."""
        self.query_one(LinesView).focus()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.stop()
        if self._rows is not None:
            message.steer(self._rows)
            self.query_one(RowList).show(self._rows)
            self._show_text(self._rows.blocks(), from_top=True)

    def _show_text(self, blocks: Sequence[Block], *, from_top: bool) -> None:
        self.query_one(LinesView).show_blocks(blocks, from_top=from_top)
