"""What all panes have in common."""

from __future__ import annotations

from typing import ClassVar

from textual.containers import Vertical

from workbench.tui.hub import Hub
from workbench.tui.state.subject import Subject


class Pane(Vertical):
    """A part of the main screen that shows what is selected, in one way.

    `TAB` is the word on its tab, `HELP` says in two or three sentences what it is for, `PLACES` which keys it has. It
    is made when it is first opened, and does nothing while it is hidden.
    """

    TAB: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    PLACES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(id=id)
        self.hub = hub

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
