"""A text of lines, laid out for the width there is: only what is on the screen is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol

from rich.cells import cell_len
from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from workbench.tui.keys import bindings
from workbench.tui.state.blocks import Block
from workbench.tui.state.layout import fit, lay_out
from workbench.tui.state.pieces import Line
from workbench.tui.widgets.drawn_lines import DrawnLines, bring_into_sight, set_content_size
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of


class LineSource(Protocol):
    """Lines that may be made when they are asked for: a list of lines is one too."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Line: ...


LayOut = Callable[[int], LineSource]
"""Makes the lines for a width in cells."""


class _Look(NamedTuple):
    """How a line of the screen looks: which line stands on it, and whether the cursor is there."""

    number: int
    line: Line
    is_cursor: bool
    width: int


class LinesView(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines to read. The mouse selects text in them."""

    PLACES: ClassVar[tuple[str, ...]] = ("lines",)
    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES, "lines-view--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("lines")]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lay_out: LayOut = _nothing
        self._lines: LineSource = ()
        self._cursor: int | None = None
        self._drawn: DrawnLines[_Look] = DrawnLines(self)

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
        self.show(lambda width: lay_out(blocks, width=width, side_by_side=False), from_top=from_top)

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

    def _draw(self, look: _Look) -> Strip:
        uniform = self.get_component_rich_style("lines-view--cursor") if look.is_cursor else None
        return strip_of(self, look.line, width=look.width, uniform=uniform)

    def _look_of(self, y: int) -> _Look:
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        return _Look(index, line, index == self._cursor, self.scrollable_content_region.width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that the mouse has selected, as it is laid out."""
        width = self.scrollable_content_region.width
        lines = (self._lines[index] for index in range(len(self._lines)))
        text = "\n".join("".join(piece.text for piece in fit(line, width)) for line in lines)
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
