"""Rows above, and what there is to say about the row under the cursor below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from workbench.tui.state.blocks import Block
from workbench.tui.widgets.lines_view import LinesView
from workbench.tui.widgets.row_list import NoRows, RowList, RowSource, Steerable


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
