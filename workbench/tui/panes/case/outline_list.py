"""The rows of a case: a row may have several lines, and the cursor is on a row."""

from __future__ import annotations

from workbench.tui.state.editor.view import OutlineView
from workbench.tui.widgets.row_list import RowList


class OutlineList(RowList):
    """Draws the outline for the width there is."""

    def __init__(self, view: OutlineView, *, id: str) -> None:
        super().__init__(id=id)
        self._view = view

    def show_view(self) -> None:
        """Draw the outline as it is now."""
        self._view.fit(self.scrollable_content_region.width)
        self.show(self._view)

    def on_resize(self) -> None:
        """Texts wrap at another width now."""
        self.show_view()
