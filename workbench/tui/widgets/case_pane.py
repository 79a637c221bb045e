"""The case pane: expected beside actual where the screen is wide enough, below each other where it is not."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from workbench.tui.keymap import bindings
from workbench.tui.state.blocks import BLANK, Detail, Whole
from workbench.tui.state.layout import SIDE_BY_SIDE_FROM, lay_out
from workbench.tui.state.pieces import Line, Tone
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of

_TITLE_MARGINS = 6
"""Cells of the upper border that its title cannot have: corners, a line and a blank on both sides."""


class CasePane(ScrollView, can_focus=True):
    """The detail of the selected row, wrapped to the width there is."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = bindings("pane")
    ALLOW_SELECT = False

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._detail = Detail(title="")
        self._lines: list[Line] = []

    def show(self, detail: Detail) -> None:
        """Replace what is shown; the place stays where the same thing is shown again."""
        if detail == self._detail:
            return
        is_other = detail.title != self._detail.title
        self._detail = detail
        # How it stands comes first, for the end of a long title is cut off.
        self.border_title = Content(self._title)
        self.border_subtitle = Content(detail.ran)
        self._lay_out()
        if is_other:
            self.scroll_home(animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        return strip_of(self, line, width=self.scrollable_content_region.width)

    def on_resize(self) -> None:
        """Lay out again for the new width."""
        self._lay_out()

    @property
    def _title(self) -> str:
        return f"{self._detail.status} · {self._detail.title}" if self._detail.status else self._detail.title

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        blocks = self._detail.blocks
        if cell_len(self._title) > self.outer_size.width - _TITLE_MARGINS:
            blocks = (Whole.of(self._detail.title, Tone.STRONG), BLANK, *blocks)
        side_by_side = self.screen.size.width >= SIDE_BY_SIDE_FROM
        self._lines = lay_out(blocks, width=width, side_by_side=side_by_side)
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()
