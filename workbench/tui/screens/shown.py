"""What the main screen shows, brought up to date from the state."""

from __future__ import annotations

import time

from textual.screen import Screen

from workbench.tui.panes.browser import BrowserPane
from workbench.tui.screens.drawer import Drawer
from workbench.tui.screens.frame import Frame
from workbench.tui.state.possible import CHANGING
from workbench.tui.state.project import ProjectState
from workbench.tui.widgets.key_line import is_offered
from workbench.tui.widgets.lines import StatusLine


class Shown:
    """The parts of the main screen. Each method asks the state anew."""

    def __init__(self, screen: Screen[None], state: ProjectState) -> None:
        self._screen = screen
        self._state = state
        self._possible: tuple[bool | None, ...] = ()

    def show_all(self) -> None:
        """Show everything."""
        self.show()
        self.show_detail()

    def show(self) -> None:
        """Show everything but the detail of the selected row."""
        self.show_header()
        self._screen.query_one(BrowserPane).show()
        self.show_run()
        self._show_possible()

    def _show_possible(self) -> None:
        """Have the line of keys say what can be done now."""
        possible = (
            *(self._screen.check_action(action, ()) for action in CHANGING),
            *(is_offered(self._screen, action) for action in ("edit", "run_selected", "run_failed", "toggle_watch")),
        )
        if possible != self._possible:
            self._possible = possible
            self._screen.refresh_bindings()

    def show_header(self) -> None:
        """Show the line at the top."""
        header = self._screen.query_one("#header", StatusLine)
        header.show(self._state.header(header.size.width or self._screen.size.width))

    def show_run(self) -> None:
        """Show how far the run is."""
        self._screen.query_one("#run-line", StatusLine).show(self._state.run_line(now=time.monotonic()))

    def show_detail(self) -> None:
        """Show the selected row in the panes that are open."""
        subject = self._state.subject()
        self._screen.query_one(Frame).show(subject, self._state.heading())
        self._screen.query_one(Drawer).show(subject)
        self._show_possible()  # a result that has just been read can be accepted

    def show_drawer(self) -> None:
        """Show what goes on, and the selected row, in the pane of the drawer."""
        self._screen.query_one(Drawer).show(self._state.subject())
