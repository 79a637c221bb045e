"""The eval-set tree: only the rows on the screen are drawn, whether there are ten or ten thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from workbench.tui.keymap import bindings
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece
from workbench.tui.state.project import ProjectState
from workbench.tui.state.rows import RowView
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of


class CaseList(ScrollView, can_focus=True):
    """Targets, their eval sets and their cases."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES, "case-list--cursor", "case-list--cursor-blurred"}
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    @dataclass
    class Moved(Message):
        """The user moved by so many rows."""

        by: int

    @dataclass
    class WentTo(Message):
        """The user chose the row with this index; past either end means the row there."""

        index: int

    @dataclass
    class Folded(Message):
        """The user wants what is below the selected row hidden, or to go up."""

    @dataclass
    class Unfolded(Message):
        """The user wants what is below the selected row shown, or to go into it."""

    @dataclass
    class Toggled(Message):
        """The user wants the selected row folded where it is unfolded, and the other way round."""

    @dataclass
    class Entered(Message):
        """The user wants to look at the selected row."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._state = ProjectState()
        self.border_title = Content("eval sets")

    def show(self, state: ProjectState) -> None:
        """Draw the rows of `state` as they are now, with the cursor in sight."""
        self._state = state
        self.virtual_size = Size(self.scrollable_content_region.width, len(state.browser.rows))
        self._keep_in_sight(state.browser.cursor)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        width = self.scrollable_content_region.width
        index = y + self.scroll_offset.y
        if index >= len(self._state.browser.rows):
            return Strip.blank(width, self.rich_style)
        line = _row_line(self._state.row_view(index), width)
        if index != self._state.browser.cursor:
            return strip_of(self, line, width=width)
        cursor = "case-list--cursor" if self.has_focus else "case-list--cursor-blurred"
        return strip_of(self, line, width=width, uniform=self.get_component_rich_style(cursor))

    def action_move(self, by: int) -> None:
        """Say that the user moved."""
        self.post_message(self.Moved(by))

    def action_page(self, pages: int) -> None:
        """Say that the user moved by screenfuls."""
        self.post_message(self.Moved(pages * max(self.scrollable_content_region.height - 1, 1)))

    def action_first(self) -> None:
        """Say that the user went to the first row."""
        self.post_message(self.WentTo(0))

    def action_last(self) -> None:
        """Say that the user went to the last row."""
        self.post_message(self.WentTo(len(self._state.browser.rows) - 1))

    def action_fold(self) -> None:
        """Say that the user folds."""
        self.post_message(self.Folded())

    def action_unfold(self) -> None:
        """Say that the user unfolds."""
        self.post_message(self.Unfolded())

    def action_toggle_fold(self) -> None:
        """Say that the user folds or unfolds."""
        self.post_message(self.Toggled())

    def action_enter(self) -> None:
        """Say that the user looks at the selected row."""
        self.post_message(self.Entered())

    def on_click(self, event: events.Click) -> None:
        """A click selects a row; on the mark of a row that can be folded it folds as well."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = offset.y + self.scroll_offset.y
        if index >= len(self._state.browser.rows):
            return
        self.post_message(self.WentTo(index))
        view = self._state.row_view(index)
        if view.can_fold and offset.x <= 2 * view.depth + 1:
            self.post_message(self.Toggled())

    def _keep_in_sight(self, index: int) -> None:
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if index < top:
            self.scroll_to(y=index, animate=False, force=True, immediate=True)
        elif height and index >= top + height:
            self.scroll_to(y=index - height + 1, animate=False, force=True, immediate=True)


def _row_line(view: RowView, width: int) -> Line:
    """Label on the left, time or word on the right; where there is no room for both the label is cut."""
    lead = "  " * view.depth
    room = width - cell_len(lead) - 2 - cell_len(view.right.text) - 2
    label = fit((view.label,), max(room, 4))
    gap = max(room - sum(cell_len(piece.text) for piece in label), 0)
    return (Piece(lead), view.mark, Piece(" "), *label, Piece(" " * (gap + 1)), view.right, Piece(" "))
