"""What all panes share: a title, rows, and copying."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import on
from textual.containers import Vertical
from textual.widget import Widget

from workbench.tui.screen_messages import ScreenContext
from workbench.tui.state.browser_state import Subject
from workbench.tui.widgets.row_lists import RowList, RowSource, Steerable

# What all panes have in common.


class Pane(Vertical):
    """A part of the main screen that shows what is selected, in one way.

    `TAB` is the word on its tab, `HELP` says in two or three sentences what it is for, `PLACES` which keys it has. It
    is made when it is first opened, and does nothing while it is hidden.
    """

    TAB: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    PLACES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(id=id)
        self.context = context

    def show(self, subject: Subject) -> None:
        """Show what is selected now, or what is known of it now. Only called while the pane is open."""
        raise NotImplementedError

    def focus_first(self) -> None:
        """Put the focus where the user wants it who goes into the pane."""
        raise NotImplementedError

    def hide(self) -> None:
        """The pane is no longer open: whatever goes on by itself is to stop."""

    async def may_leave(self) -> bool:
        """Ask what becomes of what would be lost by quitting, where there is anything. False where the user stays."""
        return True

    def copyable(self) -> str | None:
        """What the copy key takes: the text as it is, not made safe to be shown. None where there is nothing."""
        return None


# What panes have in common that list what goes on: the same rows, whatever is selected in the eval sets.


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


# Copying what the user sees.


def find_copyable_text(focused: Widget | None, *, otherwise: Pane) -> str | None:
    """What the pane with the focus takes for the thing to copy; `otherwise` is asked where no pane has it."""
    around = focused.ancestors_with_self if focused is not None else []
    return next((node for node in around if isinstance(node, Pane)), otherwise).copyable()
