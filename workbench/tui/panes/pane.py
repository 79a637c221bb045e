"""Base classes of all panes, and copying."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import on
from textual.containers import Vertical
from textual.widget import Widget

from workbench.tui.screen_messages import ScreenContext
from workbench.tui.state.browser_state import Subject
from workbench.tui.widgets.row_lists import RowList, RowSource, Steerable

# The base class of panes.


class Pane(Vertical):
    """A part of the main screen that shows the selection in one way.

    `TAB` is the word on its tab, `HELP` explains it in two or three sentences, `PLACES` names its groups of keys. A
    pane is made when it is first opened, and does nothing while it is hidden.
    """

    TAB: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    PLACES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(id=id)
        self.context = context

    def show(self, subject: Subject) -> None:
        """Show the current selection. Only called while the pane is open."""
        raise NotImplementedError

    def focus_first(self) -> None:
        """Focus the widget that the user needs first in this pane."""
        raise NotImplementedError

    def hide(self) -> None:
        """Stop background work, because the pane is no longer open."""

    async def may_leave(self) -> bool:
        """Ask about data that quitting would lose, if any. Return False if the user stays."""
        return True

    def copyable(self) -> str | None:
        """Return the text to copy, unescaped; None if there is none."""
        return None


# The base class of panes whose rows do not depend on the selection.


class Rows(RowSource, Steerable, Protocol):
    """Rows with a cursor that the user moves."""


class RowsPane(Pane):
    """A pane with one list of `rows`, which `show_rows` updates."""

    rows: Rows

    def show_rows(self) -> None:
        """Show the current rows. Only called while the pane is mounted."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show the current rows."""
        self.show_rows()

    def show(self, subject: Subject) -> None:  # noqa: ARG002 - it is the same whatever is selected
        """Show the current rows."""
        if self.is_mounted:
            self.show_rows()

    def focus_first(self) -> None:
        """Focus the rows."""
        self.query_one(RowList).focus()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self.rows)
        self.query_one(RowList).show(self.rows)
        self.refresh_bindings()


# Copying to the clipboard.


def find_copyable_text(focused: Widget | None, *, otherwise: Pane) -> str | None:
    """Return the text to copy of the pane with the focus, or of the pane `otherwise`."""
    around = focused.ancestors_with_self if focused is not None else []
    return next((node for node in around if isinstance(node, Pane)), otherwise).copyable()
