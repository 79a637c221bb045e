"""What panes have in common that list what goes on: the same rows, whatever is selected in the eval sets."""

from __future__ import annotations

from typing import Protocol

from textual import on

from workbench.tui.panes.pane import Pane
from workbench.tui.state.subject import Subject
from workbench.tui.widgets.row_list import RowList, RowSource, Steerable


class Rows(RowSource, Steerable, Protocol):
    """What is listed, with a cursor that the user moves."""


class RowsPane(Pane):
    """A pane with one list of rows. `rows` is what is listed, and `show_rows` brings it up to date."""

    rows: Rows

    def show_rows(self) -> None:
        """Show everything as it is now. Only called while the pane is mounted."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show what there is."""
        self.show_rows()

    def show(self, subject: Subject) -> None:  # noqa: ARG002 - it is the same whatever is selected
        """Show what goes on as it is now."""
        if self.is_mounted:
            self.show_rows()

    def focus_first(self) -> None:
        """The rows."""
        self.query_one(RowList).focus()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self.rows)
        self.query_one(RowList).show(self.rows)
        self.refresh_bindings()
