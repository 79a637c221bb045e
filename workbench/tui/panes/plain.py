"""A pane that only shows blocks."""

from __future__ import annotations

from textual.app import ComposeResult

from workbench.tui.hub import Hub
from workbench.tui.panes.pane import Pane
from workbench.tui.state.blocks import Detail
from workbench.tui.state.browser import Place
from workbench.tui.state.layout import SIDE_BY_SIDE_FROM, lay_out
from workbench.tui.state.pieces import Line
from workbench.tui.state.subject import Pinned, Subject
from workbench.tui.widgets.lines_view import LinesView


class PlainPane(Pane):
    """The selected row as blocks."""

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self._detail: Detail | None = None
        self._shown: tuple[Place | None, Pinned | None] | None = None

    def compose(self) -> ComposeResult:
        """One text."""
        yield LinesView()

    def show(self, subject: Subject) -> None:
        """Lay out what is selected; the place stays where the same row is shown again."""
        detail = self.hub.state.detail()
        if detail == self._detail:
            return
        shown = (subject.row.place if subject.row is not None else None, subject.pinned)
        from_top = shown != self._shown
        self._detail, self._shown = detail, shown

        def lay_out_blocks(width: int) -> list[Line]:
            side_by_side = self.screen.size.width >= SIDE_BY_SIDE_FROM
            return lay_out(detail.blocks, width=width, side_by_side=side_by_side)

        self.query_one(LinesView).show(lay_out_blocks, from_top=from_top)

    def focus_first(self) -> None:
        """The text."""
        self.query_one(LinesView).focus()
