"""The drawer at the bottom of the main screen: closed, or one of its panes open."""

from __future__ import annotations

from textual.containers import Vertical

from workbench.tui.hub import Hub
from workbench.tui.panes.pane import Pane
from workbench.tui.panes.problems.pane import ProblemsPane
from workbench.tui.panes.run.pane import RunPane
from workbench.tui.panes.watch.pane import WatchPane
from workbench.tui.state.subject import Subject

DRAWERS: dict[str, type[Pane]] = {"run": RunPane, "watch": WatchPane, "problems": ProblemsPane}
"""What can be opened in the drawer, by the names that keys use."""


class Drawer(Vertical):
    """At most one pane is open. A pane is made when it is opened for the first time."""

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(id=id)
        self._hub = hub
        self._panes: dict[str, Pane] = {}
        self._open: str | None = None
        self.display = False

    @property
    def pane(self) -> Pane | None:
        """The pane that is open."""
        return self._panes[self._open] if self._open is not None else None

    async def toggle(self, name: str) -> Pane | None:
        """Open this pane, or close it where it is open. Gives the one that is open then."""
        is_open = self._open == name
        self.close()
        if is_open:
            return None
        self._open = name
        self.display = True
        if name not in self._panes:
            self._panes[name] = DRAWERS[name](self._hub, id=f"pane-{name}")
            await self.mount(self._panes[name])
        self._panes[name].display = True
        self.border_title = self._panes[name].TAB
        return self._panes[name]

    def close(self) -> None:
        """Close what is open."""
        if self.pane is not None:
            self.pane.hide()
            self.pane.display = False
        self._open = None
        self.display = False

    def show(self, subject: Subject) -> None:
        """Show what is to be shown now in the pane that is open."""
        if self.pane is not None and self.pane.is_mounted:  # news may come while it is being opened
            self.pane.show(subject)
