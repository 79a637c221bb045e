"""The eval-set tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.message import Message

from workbench.model.keys import CaseKey
from workbench.tui.state.pieces import Line
from workbench.tui.state.project import ProjectState
from workbench.tui.state.rows import border_subtitle, border_title, line_of
from workbench.tui.widgets.row_list import RowList


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
