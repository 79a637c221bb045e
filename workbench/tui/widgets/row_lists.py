"""Lists of rows and lines of text that draw only the visible part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.color import Color
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from workbench.model.identity import CaseKey
from workbench.tui.keys import KeyHolder
from workbench.tui.state.browser_rows import format_row
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import (
    Block,
    CursorRows,
    Line,
    ListRows,
    Style,
    StyledText,
    cut_line,
    measure_line,
    render_blocks,
)

# Views of lines that draw only changed lines, so that keys stay fast with thousands of rows.

Key = TypeVar("Key", bound=Hashable)

_MOST_STRIPS = 500


class DrawnView(KeyHolder, ScrollView, Generic[Key], can_focus=True, inherit_bindings=False):
    """A view of lines that keeps its drawn lines. Subclasses say what a line depends on, and draw it."""

    _focus_drawn = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys: dict[int, Key] = {}  # by line of the screen
        self._strips: dict[Key, Strip] = {}
        self._base: RichStyle | None = None

    def _make_key(self, y: int, width: int) -> Key:
        """Return everything that a line of the screen depends on, except the styles."""
        raise NotImplementedError

    def _draw(self, key: Key) -> Strip:
        raise NotImplementedError

    @property
    def base_style(self) -> RichStyle:
        """The style of the view, below that of its texts. Textual takes long to find it."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    @property
    def page_size(self) -> int:
        """Lines by which a page moves the cursor."""
        return max(self.scrollable_content_region.height - 1, 1)

    def render_line(self, y: int) -> Strip:
        """Draw one line; reuse the strip of a line with the same key."""
        key = self._keys[y] = self._make_key(y, self.scrollable_content_region.width)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= _MOST_STRIPS:
                self._strips.clear()
            strip = self._strips[key] = self._draw(key)
        return strip

    def draw_changes(self) -> None:
        """Redraw the lines of the screen whose keys changed."""
        region = self.scrollable_content_region  # Textual takes long to find it
        lines, width = range(region.height), region.width
        changed = [Region(0, y, width, 1) for y in lines if self._keys.get(y) != self._make_key(y, width)]
        if changed:
            super().refresh(*changed)

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Change the styles only of a view with a border, which shows the focus: Textual draws all its lines again."""
        if self.styles.has_rule("border_top"):
            super().watch_has_focus(_has_focus)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Redraw all lines; because the focus came or went, only those that show it."""
        is_whole = not regions and not layout and not recompose
        if is_whole and self._focus_drawn is not self.has_focus:
            self._focus_drawn = self.has_focus
            self.draw_changes()
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Redraw all lines in the new styles."""
        super().notify_style_update()
        self._keys.clear()
        self._strips.clear()
        self._base = None


def set_content_size(view: ScrollView, size: Size) -> None:
    """Set the size of the content of a view. Avoid a new layout if no scroll bar appears or disappears.

    A layout of the screen takes longer than everything else that a key press does.
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


def scroll_to_line(view: ScrollView, index: int) -> None:
    """Scroll a view of lines only as far as needed to show a line."""
    top, height = view.scroll_offset.y, view.scrollable_content_region.height
    if index < top:
        view.scroll_to(y=index, animate=False, force=True, immediate=True)
    elif height and index >= top + height:
        view.scroll_to(y=index - height + 1, animate=False, force=True, immediate=True)


# Conversion of pieces to Textual strips. Pieces become segments directly, so no text is ever parsed as markup.

STYLE_CLASSES = {f"style--{style.value}" for style in Style}
"""The component classes of the styles in the stylesheet; the application has them."""

Result = TypeVar("Result")


class StyledScreen(KeyHolder, Screen[Result]):
    """A screen that keeps the styles of all texts on it.

    The component classes of these styles belong to the application. If each screen or widget had them, Textual would
    match all of them with the stylesheet whenever it styles the screen or widget, which takes longer than to draw it.
    """

    def __init__(self, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        # The classes of a common size: otherwise the first layout would add them and style every widget again.
        super().__init__(name, id, " ".join(("-wide", "-tall", classes or "")))
        self._text_styles: dict[tuple[RichStyle, Style], RichStyle] = {}
        self._focused_frames: set[FramedBox] = set()
        self._moves_focus = False

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Keep the styles. Every widget got them when it was added; Textual would style all of them again."""
        event.refresh_styles = False

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus, and highlight the frames around it.

        With `:focus-within` in the stylesheet, Textual would style every widget in these frames again.
        """
        self._moves_focus = True
        try:
            super().set_focus(widget, scroll_visible, from_app_focus)
        finally:
            self._moves_focus = False
        around = self.focused.ancestors if self.focused is not None else ()
        frames = {node for node in around if isinstance(node, FramedBox)}
        for frame in frames ^ self._focused_frames:
            frame.show_focus(frame in frames)
        self._focused_frames = frames

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw the whole screen, but not because the focus moves: the widgets that lose and get it draw themselves."""
        if self._moves_focus and not regions and not layout and not recompose:
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._text_styles.clear()

    def get_text_style(self, base: RichStyle, style: Style) -> RichStyle:
        """Return the style of a text in a widget whose own style is `base`."""
        found = self._text_styles.get((base, style))
        if found is None:
            found = self._text_styles[base, style] = base + self._make_text_style(base, style)
        return found

    def _make_text_style(self, base: RichStyle, style: Style) -> RichStyle:
        rules = self.app.get_component_styles(f"style--{style.value}")
        own = rules.partial_rich_style
        if not rules.has_rule("color") or rules.color.a == 1:
            return own
        background = Color(0, 0, 0, 0) if base.bgcolor is None else Color.from_rich_color(base.bgcolor)
        color = background.get_contrast_text(rules.color.a) if rules.auto_color else rules.color
        return own + RichStyle.from_color((background + color).rich_color)


def make_strip(
    widget: Widget, line: Line, *, width: int, base: RichStyle | None = None, uniform: RichStyle | None = None
) -> Strip:
    """Make a strip of exactly `width` cells from a line, in the styles of `widget`, or all in the `uniform` style.

    `base` is the style of the widget if it is known. The screen of the widget is a `StyledScreen`.
    """
    line = cut_line(line, width)
    base, screen = uniform or base or widget.rich_style, widget.screen
    assert isinstance(screen, StyledScreen)
    segments = [
        Segment(piece.text, uniform or screen.get_text_style(base, piece.style)) for piece in line if piece.text
    ]
    return Strip(segments, measure_line(line)).adjust_cell_length(width, base)


# A list of rows with a cursor: only the rows on the screen are drawn.


class RowSource(Protocol):
    """Rows for a list, which only reads them. The receiver of its messages moves the cursor and calls `show` again."""

    @property
    def cursor(self) -> int:
        """Index of the selected row."""

    def __len__(self) -> int: ...

    def line(self, index: int, width: int) -> Line:
        """Format one row; the list cuts it to `width` cells."""


class NoRows:
    """An empty list."""

    cursor = 0

    def __len__(self) -> int:
        return 0

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002
        return ()


class _RowKey(NamedTuple):
    """Appearance of a screen line: its row (None if it has no row), and the style of the cursor on it."""

    line: Line | None
    cursor: str
    width: int


class RowList(DrawnView[_RowKey]):
    """Rows of one line each."""

    PLACES: ClassVar[tuple[str, ...]] = ("rows",)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"row-list--cursor", "row-list--cursor-blurred"}

    @dataclass
    class OfList(Message):
        """Base of the messages of a list."""

        list: RowList

        @property
        def control(self) -> RowList:
            """The list, for `@on` with a selector."""
            return self.list

    @dataclass
    class Steered(OfList):
        """The user moved the cursor. The receiver calls `steer` with its rows and shows them again."""

        def steer(self, rows: CursorRows) -> None:
            """Move the cursor of the rows."""
            raise NotImplementedError

    @dataclass
    class Moved(Steered):
        """The user moved the cursor by a number of rows."""

        by: int

        def steer(self, rows: CursorRows) -> None:
            rows.move(self.by)

    @dataclass
    class WentTo(Steered):
        """The user chose the row with this index; an index out of range means the first or last row."""

        index: int

        def steer(self, rows: CursorRows) -> None:
            rows.move_to(self.index)

    @dataclass
    class Entered(OfList):
        """The user opened the selected row."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source: RowSource = NoRows()

    @property
    def source(self) -> RowSource:
        return self._source

    @property
    def shows_focus(self) -> bool:
        """True if the cursor is drawn as that of the focused widget."""
        return self.has_focus

    def show(self, source: RowSource) -> None:
        """Draw the rows of `source`, with the cursor visible."""
        self._source = source
        set_content_size(self, Size(self.scrollable_content_region.width, len(source)))
        scroll_to_line(self, source.cursor)
        self.draw_changes()

    def _make_key(self, y: int, width: int) -> _RowKey:
        index = y + self.scroll_offset.y
        if index >= len(self._source):
            return _RowKey(None, "", width)
        cursor = ""
        if index == self._source.cursor:
            cursor = "row-list--cursor" if self.shows_focus else "row-list--cursor-blurred"
        return _RowKey(self._source.line(index, width), cursor, width)

    def _draw(self, look: _RowKey) -> Strip:
        if look.line is None:
            return Strip.blank(look.width, self.base_style)
        uniform = self.get_component_rich_style(look.cursor) if look.cursor else None
        return make_strip(self, look.line, width=look.width, base=self.base_style, uniform=uniform)

    def on_resize(self) -> None:
        self.show(self._source)

    def action_move(self, by: int) -> None:
        self.post_message(self.Moved(self, by))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self.page_size)

    def action_first(self) -> None:
        self._go_to(0)

    def action_last(self) -> None:
        self._go_to(len(self._source) - 1)

    def _go_to(self, index: int) -> None:
        self.post_message(self.WentTo(self, index))

    def action_enter(self) -> None:
        self.post_message(self.Entered(self))

    def find_index(self, event: events.MouseEvent) -> int | None:
        """Return the index of the row under the mouse; None if there is no row."""
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        index = offset.y + self.scroll_offset.y
        return index if index < len(self._source) else None

    def on_click(self, event: events.Click) -> None:
        """Select the row of a click; open it on a double click."""
        index = self.find_index(event)
        if index is None:
            return
        self.post_message(self.WentTo(self, index))
        if event.chain > 1:
            self.post_message(self.Entered(self))


class PickList(RowList, can_focus=False):
    """Rows below an input that keeps the focus. A click on a row opens it."""

    @property
    def shows_focus(self) -> bool:
        """Return True: the keys of the input move the cursor."""
        return True

    def on_click(self, event: events.Click) -> None:
        """Open the row of a click."""
        event.prevent_default()
        index = self.find_index(event)
        if index is not None:
            self.post_message(self.WentTo(self, index))
            self.post_message(self.Entered(self))


# The eval-set tree.


class FramedBox(Vertical):
    """Widgets in a frame with texts on its border. Only the border is redrawn while only its texts or colours change.

    The stylesheet has no colour for the title with the focus: Textual would redraw all widgets in the frame.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._on_border = ("", "")
        self._is_bordering = False
        self._has_focus_colours = False

    def write_on_border(self, title: str, subtitle: str) -> None:
        """Replace the texts on the upper and the lower border."""
        if (title, subtitle) == self._on_border:
            return
        self._on_border = title, subtitle
        self._is_bordering = True
        try:
            self._write_title()
            self.border_subtitle = Content(subtitle)
        finally:
            self._is_bordering = False

    def show_focus(self, has_focus: bool) -> None:
        """Draw the frame in the colours for the focus, or without them."""
        self._is_bordering, self._has_focus_colours = True, has_focus
        try:
            self.set_class(has_focus, "-focused", update=False)
            self.app.stylesheet.update_nodes((self,), animate=True)
            self._write_title()
        finally:
            self._is_bordering = False

    def _write_title(self) -> None:
        title = Content(self._on_border[0])
        self.border_title = title.stylize("bold $primary") if self._has_focus_colours else title

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Redraw only the border while only its texts or colours change."""
        if self._is_bordering and not regions and not layout:
            width, height = self.outer_size
            rows = (Region(0, y, width, 1) for y in (0, height - 1))
            columns = (Region(x, 0, 1, height) for x in (0, width - 1))
            regions = tuple(edge.translate(-self.content_offset) for edge in (*rows, *columns))
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


class CaseList(RowList):
    """Targets, their eval sets and their cases."""

    PLACES = ("list", "rows")
    BINDINGS: ClassVar[list[BindingType]] = []  # its pane performs the actions

    @dataclass
    class Toggled(Message):
        """The user folds or unfolds the selected row."""

    @dataclass
    class Marked(Message):
        """The user marks the selected row."""

    def __init__(self, *, id: str, go: Callable[[int], None]) -> None:
        """Make the list. `go` moves the cursor at once, because keys typed ahead need the new position."""
        super().__init__(id=id)
        self._go = go

    def _make_key(self, y: int, width: int) -> _RowKey:
        if y or len(self.source) or not isinstance(self.source, _BrowserRows) or self.source.state.project is None:
            return super()._make_key(y, width)
        state = self.source.state
        none_yet = f"none yet; {state.find_key('new_set')} adds one"
        lack = f" {state.browser.describe_no_match() if state.browser.is_filtered else none_yet}"
        return _RowKey((StyledText(lack, Style.MUTED),), "", width)

    def show_state(self, state: ProjectState) -> None:
        """Draw the rows of `state`, with the cursor visible."""
        self.show(_BrowserRows(state))

    def list_visible_cases(self) -> frozenset[CaseKey]:
        """List the cases whose rows are on the screen."""
        if not isinstance(self.source, _BrowserRows):
            return frozenset()
        first, count = self.scroll_offset.y, self.scrollable_content_region.height
        rows = self.source.state.browser.rows[first : first + count]
        return frozenset(row.case for row in rows if row.case is not None)

    def action_move(self, by: int) -> None:
        self._go(self.source.cursor + by)

    def _go_to(self, index: int) -> None:
        self._go(index)

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold a row by a click on its symbol; mark it by a click with ctrl."""
        super().on_click(event)
        event.prevent_default()
        index, offset = self.find_index(event), event.get_content_offset(self)
        if index is None or offset is None or not isinstance(self.source, _BrowserRows):
            return
        view = self.source.state.row_view(index)
        if event.ctrl:
            self.post_message(self.Marked())
        elif view.can_fold and event.chain == 1 and offset.x <= 2 * view.depth + 1:
            self.post_message(self.Toggled())


class _BrowserRows:
    """Rows of the browser as the source of a list."""

    def __init__(self, state: ProjectState) -> None:
        self.state = state

    @property
    def cursor(self) -> int:
        return self.state.browser.cursor

    def __len__(self) -> int:
        return len(self.state.browser.rows)

    def line(self, index: int, width: int) -> Line:
        return format_row(self.state.row_view(index), width)


# A text of lines, laid out for the width of the widget: only lines on the screen are drawn.


class LineSource(Protocol):
    """Lines of a text, perhaps made on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Line: ...


LayOut = Callable[[int], LineSource]
"""Makes the lines for a width in cells."""


class _LineKey(NamedTuple):
    """Appearance of a screen line: number and content of its text line, and whether the cursor is on it."""

    number: int
    line: Line
    is_cursor: bool
    width: int


class LinesView(DrawnView[_LineKey]):
    """Text of lines. The mouse selects text."""

    PLACES: ClassVar[tuple[str, ...]] = ("lines",)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines-view--cursor"}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lay_out: LayOut = lambda _width: ()
        self._lines: LineSource = ()
        self._cursor: int | None = None

    def show(self, lay_out: LayOut, *, from_top: bool, cursor: int | None = None) -> None:
        """Replace the text. `cursor` is a line to highlight and make visible."""
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
        """Lines in their current layout."""
        return self._lines

    def bring_into_sight(self, index: int) -> None:
        """Scroll only as far as needed to show a line."""
        scroll_to_line(self, index)

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        return self._with_selection(super().render_line(y), number).apply_offsets(0, number)

    def _draw(self, look: _LineKey) -> Strip:
        uniform = self.get_component_rich_style("lines-view--cursor") if look.is_cursor else None
        return make_strip(self, look.line, width=look.width, base=self.base_style, uniform=uniform)

    def _make_key(self, y: int, width: int) -> _LineKey:
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        return _LineKey(index, line, index == self._cursor, width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that the mouse has selected."""
        width = self.scrollable_content_region.width
        lines = (self._lines[index] for index in range(len(self._lines)))
        text = "\n".join("".join(piece.text for piece in cut_line(line, width)) for line in lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        """Redraw the selection."""
        self.refresh()

    def on_resize(self) -> None:
        self._refresh_lines()

    def _refresh_lines(self) -> None:
        width = self.scrollable_content_region.width
        if not width:
            return  # before the first layout
        self._lines = self._lay_out(width)
        set_content_size(self, Size(width, len(self._lines)))
        self.draw_changes()

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


# Lines that react to clicks.


class ClickableLines(LinesView):
    """A text that reports clicks on its lines."""

    @dataclass
    class Clicked(Message):
        """The user clicked on a line, counted from the first, at a cell of it."""

        line: int
        cell: int

    def on_click(self, event: events.Click) -> None:
        """Post the number of the line, unless text is selected."""
        offset = event.get_content_offset(self)
        if offset is not None and self.text_selection is None:
            self.post_message(self.Clicked(offset.y + self.scroll_offset.y, offset.x))


class FollowingLines(ClickableLines):
    """Clickable lines, as of a conversation. They follow new lines until the user scrolls away from the end."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._is_following = False  # new lines and new wrapping then scroll to the end

    def show(self, lay_out: LayOut, *, from_top: bool, cursor: int | None = None) -> None:
        """Replace the lines; from the top, they do not follow new ones."""
        if from_top:
            self._is_following = False
        super().show(lay_out, from_top=from_top, cursor=cursor)

    def go_to_end(self) -> None:
        """Scroll to the last line and follow new ones."""
        self.scroll_end(animate=False, force=True, immediate=True)
        self._is_following = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end only if the user scrolled there; new lines alone change nothing."""
        super().watch_scroll_y(old_value, new_value)
        self._is_following = new_value >= self.max_scroll_y

    def _refresh_lines(self) -> None:
        super()._refresh_lines()
        if self._is_following:
            self.go_to_end()


# Rows, with details of the selected one below.


class RowsAndText(Vertical):
    """A list that moves its own cursor, with the details of the selected row. The parent handles `RowList.Entered`.

    Keys typed before there is anything to show have their effect on the first rows.
    """

    def __init__(self, can_open: Callable[[], bool] = lambda: True) -> None:
        """Make it empty. `can_open` says whether the enter key opens the selected row."""
        super().__init__()
        self._can_open = can_open
        self._rows: ListRows | None = None
        self._early: list[RowList.Steered | RowList.Entered] | None = []  # typed before the first rows
        self._stands_in = False  # whether the text has the focus because there is no list

    def compose(self) -> ComposeResult:
        yield RowList()
        yield LinesView()

    def show(self, rows: ListRows, *, from_top: bool) -> None:
        """Show rows, and the details of the selected one; from its top if `from_top`."""
        had_rows, self._rows = self.has_rows, rows
        if self.has_rows != had_rows:
            self.screen.refresh_bindings()
        rows_list = self.query_one(RowList)
        rows_list.display = True
        rows_list.styles.height = max(len(rows), 1)
        rows_list.show(rows)
        if self._stands_in and self.query_one(LinesView).has_focus:
            rows_list.focus()
        self._stands_in = False
        self._show_text(rows.blocks(), from_top=from_top)
        early, self._early = self._early or (), None
        for message in early:
            rows_list.post_message(replace(message))

    def show_text(self, blocks: Sequence[Block]) -> None:
        """Show a text alone."""
        rows_list = self.query_one(RowList)
        had_focus = rows_list.has_focus
        self._rows = self._early = None
        self.screen.refresh_bindings()
        rows_list.display = False
        rows_list.show(NoRows())
        self._show_text(blocks, from_top=True)
        if had_focus:
            self.focus_first()

    @property
    def has_rows(self) -> bool:
        """Whether there is a row that the enter key can open."""
        return self._rows is not None and len(self._rows) > 0 and self._can_open()

    def focus_first(self) -> None:
        """Focus the list, or the text if there is no list."""
        rows_list = self.query_one(RowList)
        self._stands_in = not rows_list.display
        (self.query_one(LinesView) if self._stands_in else rows_list).focus()

    def focus_text(self) -> None:
        self.query_one(LinesView).focus()

    @on(RowList.Steered)
    def steer_rows(self, message: RowList.Steered) -> None:
        message.stop()
        if self._rows is not None:
            message.steer(self._rows)
            self.query_one(RowList).show(self._rows)
            self._show_text(self._rows.blocks(), from_top=True)
            self.screen.refresh_bindings()  # some depend on the row
        elif self._early is not None:
            self._early.append(message)

    @on(RowList.Entered)
    def _keep_early(self, message: RowList.Entered) -> None:
        if self._early is not None:
            message.stop()
            self._early.append(message)

    def _show_text(self, blocks: Sequence[Block], *, from_top: bool) -> None:
        self.query_one(LinesView).show_blocks(blocks, from_top=from_top)
