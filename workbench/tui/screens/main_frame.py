"""The frame of the main screen: tabs with their panes, and the drawer below."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult

from workbench.tui.panes.drawer_panes import ProblemsPane, RunPane, WatchPane
from workbench.tui.panes.scores_pane import DashboardPane, ScoresPane
from workbench.tui.screen_context import Pane, ScreenContext
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.case_status import STALE
from workbench.tui.state.text_layout import Heading, shorten
from workbench.tui.widgets.key_line import TabBar
from workbench.tui.widgets.row_lists import FramedBox

# The right side of the main screen: a frame with tabs and one open pane.

TABS: dict[str, str] = {
    "case": "Case",
    "diff": "Diff",
    "trace": "Trace",
    "scores": "Scores",
    "history": "History",
    "chat": "Chat",
}
"""Titles of the tabs in order, by the names that keys and messages use."""

_ABOUT_CASES = ("diff", "trace")
"""Tabs that show one case; for a set or an agent they show the dashboard."""

_TITLE_MARGINS = 6
"""Cells of the upper border that the title cannot use: corners, a line and a blank on both sides."""


class Frame(FramedBox):
    """Tabs and the open pane. A pane is created when it is first opened."""

    def __init__(self, context: ScreenContext, *, tab: str, id: str) -> None:
        super().__init__(id=id)
        self._screen_context = context
        self.tab = tab
        self._panes: dict[str, Pane] = {}
        self._dashboard = DashboardPane(context, id="dashboard")
        self._shows_dashboard = False
        self._heading = Heading("")

    def compose(self) -> ComposeResult:
        yield TabBar(list(TABS.values()), id="tabs")
        yield self._make(self.tab)
        yield self._dashboard

    def on_mount(self) -> None:
        self.query_one(TabBar).show(list(TABS).index(self.tab))
        self._dashboard.display = False

    @property
    def pane(self) -> Pane:
        """The open pane, or the dashboard in its place."""
        return self._dashboard if self._shows_dashboard else self._panes[self.tab]

    async def open(self, tab: str) -> Pane:
        """Open a tab. Return its pane; `show` may then put the dashboard in its place."""
        if tab != self.tab:
            self.pane.hide()
            self.pane.display = False
            self.tab, self._shows_dashboard = tab, False
            if tab in self._panes:
                self.pane.display = True
            else:
                await self.mount(self._make(tab))
            self.query_one(TabBar).show(list(TABS).index(tab))
        return self.pane

    async def may_leave(self) -> bool:
        """Return True if quitting loses nothing in any pane, or if the user accepts the loss."""
        for pane in tuple(self._panes.values()):
            if not await pane.may_leave():
                return False
        return True

    async def prepare(self, tab: str) -> None:
        """Create the pane of a tab without opening it."""
        if tab not in self._panes:
            pane = self._make(tab)
            pane.display = False
            await self.mount(pane)

    def show(self, subject: Subject, heading: Heading) -> None:
        """Show the selection in the open pane."""
        if not (self.pane.is_mounted and self.pane.must_stay):
            self._heading = heading
            self._write_heading()
            self._choose_pane(subject)
        if self.pane.is_mounted:  # a pane that is being opened shows the selection itself
            self.pane.show(subject)

    def _choose_pane(self, subject: Subject) -> None:
        """Show the dashboard instead of a pane about one case if no case is selected, or of any pane."""
        shows_dashboard = subject.is_project or (subject.key is None and self.tab in _ABOUT_CASES)
        self.query_one(TabBar).show(None if subject.is_project else list(TABS).index(self.tab))
        if shows_dashboard == self._shows_dashboard:
            return
        had_focus = self.pane.has_focus_within
        self.pane.hide()
        self.pane.display = False
        self._shows_dashboard = shows_dashboard
        self.pane.display = True
        if had_focus:  # a hidden widget would keep the focus
            self.pane.focus_first()

    def on_resize(self) -> None:
        self._write_heading()

    def _write_heading(self) -> None:
        """Write the heading on the border. The status comes first, and without room the set is left out."""
        heading = self._heading
        stale = f"{STALE.symbol} STALE" if heading.why_stale else ""
        lead = "".join(f"{part} · " for part in (stale, heading.status) if part)
        room = self.outer_size.width - _TITLE_MARGINS - cell_len(lead)
        title = f"{heading.title} · {heading.place}" if heading.place else heading.title
        if cell_len(title) > room > 0:  # a hidden frame has no width
            title = shorten(heading.title, room)
        self.write_on_border(lead + title, " · ".join(filter(None, (heading.why_stale, heading.ran))))

    def _make(self, tab: str) -> Pane:
        pane = self._panes[tab] = _pane_class(tab)(self._screen_context, id=f"pane-{tab}")
        return pane


def _pane_class(tab: str) -> type[Pane]:  # imported when first opened, so that the screen appears earlier
    match tab:
        case "case":
            from workbench.tui.panes.case_pane import CasePane

            return CasePane
        case "trace":
            from workbench.tui.panes.trace_pane import TracePane

            return TracePane
        case "scores":
            return ScoresPane
        case "history":
            from workbench.tui.panes.history_pane import HistoryPane

            return HistoryPane
        case "chat":
            from workbench.tui.panes.chat_pane import ChatPane

            return ChatPane
        case _:
            from workbench.tui.panes.diff_pane import DiffPane

            return DiffPane


# The drawer at the bottom of the main screen: closed, or one of its panes open.

DRAWERS: dict[str, type[Pane]] = {"run": RunPane, "watch": WatchPane, "problems": ProblemsPane}
"""Panes of the drawer, by the names that keys use."""


class Drawer(FramedBox):
    """Shows at most one pane. A pane is created when it is first opened."""

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(id=id)
        self._screen_context = context
        self._panes: dict[str, Pane] = {}
        self._open: str | None = None
        self.display = False

    @property
    def pane(self) -> Pane | None:
        """The open pane; None if the drawer is closed."""
        return self._panes[self._open] if self._open is not None else None

    async def toggle(self, name: str) -> Pane | None:
        """Open this pane, or close it if it is open. Return the open pane."""
        is_open = self._open == name
        self.close()
        if is_open:
            return None
        self._open = name
        self.display = True
        if name not in self._panes:
            self._panes[name] = DRAWERS[name](self._screen_context, id=f"pane-{name}")
            await self.mount(self._panes[name])
        self._panes[name].display = True
        self.write_on_border(self._panes[name].TAB, "")
        return self._panes[name]

    def close(self) -> None:
        if self.pane is not None:
            self.pane.hide()
            self.pane.display = False
        self._open = None
        self.display = False

    def show(self, subject: Subject) -> None:
        """Show the selection in the open pane."""
        if self.pane is not None and self.pane.is_mounted:  # updates may come while it is being opened
            self.pane.show(subject)
