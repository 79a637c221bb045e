"""Parts of the main screen: its frame and drawer, the sides, and what is shown and checked there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from rich.cells import cell_len
from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.panes.browser_pane import BrowserPane
from workbench.tui.panes.drawer_panes import ProblemsPane, RunPane, WatchPane
from workbench.tui.panes.pane import Pane
from workbench.tui.screen_messages import CaseWanted, Faceless, ScreenContext
from workbench.tui.screens.results_screen import ReviewScreen
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.case_board import STALE
from workbench.tui.state.diff_state import ReviewWalk
from workbench.tui.state.project_state import CHANGING, ProjectState, why_nothing
from workbench.tui.state.results_table import Scope
from workbench.tui.state.text_layout import Heading
from workbench.tui.widgets.inputs import TabBar, is_offered, say
from workbench.tui.widgets.row_lists import StatusLine

# The right side of the main screen: a frame with tabs, of which one pane is open.

TABS: dict[str, str] = {
    "case": "Case",
    "diff": "Diff",
    "trace": "Trace",
    "scores": "Scores",
    "history": "History",
    "chat": "Chat",
}
"""The words on the tabs, by the names that keys and messages use, in the order of the tabs."""

_EDITED = list(TABS).index("case")
"""The tab in which edits are made."""

_TITLE_MARGINS = 6
"""Cells of the upper border that its title cannot have: corners, a line and a blank on both sides."""


class Frame(Vertical):
    """Tabs and the pane that is open. A pane is made when it is opened for the first time."""

    def __init__(self, context: ScreenContext, *, tab: str, id: str) -> None:
        super().__init__(id=id)
        self._screen_context = context
        self.tab = tab
        self._panes: dict[str, Pane] = {}
        self._on_border = ("", "")
        self._is_bordering = False

    def compose(self) -> ComposeResult:
        """The tabs and the first pane."""
        yield TabBar(list(TABS.values()), id="tabs")
        yield Static(id="title")
        yield self._make(self.tab)

    def on_mount(self) -> None:
        """Show which tab is open."""
        self.query_one(TabBar).show(list(TABS).index(self.tab))

    @property
    def pane(self) -> Pane:
        """The pane that is open."""
        return self._panes[self.tab]

    async def open(self, tab: str) -> Pane:
        """Open a tab."""
        if tab != self.tab:
            self.pane.hide()
            self.pane.display = False
            self.tab = tab
            if tab in self._panes:
                self.pane.display = True
            else:
                await self.mount(self._make(tab))
            self.query_one(TabBar).show(list(TABS).index(tab))
        return self.pane

    async def may_leave(self) -> bool:
        """Whether nothing in any pane is lost by quitting, or the user has decided what becomes of it."""
        for pane in tuple(self._panes.values()):
            if not await pane.may_leave():
                return False
        return True

    async def prepare(self, tab: str) -> None:
        """Make the pane of a tab, which is not opened."""
        if tab not in self._panes:
            pane = self._make(tab)
            pane.display = False
            await self.mount(pane)

    def show(self, subject: Subject, heading: Heading) -> None:
        """Show what is selected in the pane that is open."""
        # How it stands comes first, for the end of a long title is cut off.
        edited = "* unsaved" if heading.is_edited else ""
        stale = f"{STALE.symbol} STALE" if heading.why_stale else ""
        parts: Sequence[str] = [part for part in (edited, stale, heading.status, heading.title) if part]
        title = " · ".join(parts)
        self._write_on_border(title, " · ".join(filter(None, (heading.why_stale, heading.ran))))
        self.query_one(TabBar).mark([_EDITED] if heading.is_edited else [])
        whole = self.query_one("#title", Static)
        whole.display = cell_len(title) > self.outer_size.width - _TITLE_MARGINS
        if whole.display:  # it lays out the screen anew, which takes longer than all else that a key press does
            whole.update(Content(title))
        if self.pane.is_mounted:  # news may come while a tab is being opened, which shows it then
            self.pane.show(subject)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """While only the border is written on, only that is drawn anew, and not all that is in the frame."""
        if self._is_bordering and not regions and not layout:
            size = self.outer_size
            rows = (Region(0, y, size.width, 1).translate(-self.content_offset) for y in (0, size.height - 1))
            regions = tuple(rows)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def _write_on_border(self, title: str, subtitle: str) -> None:
        if (title, subtitle) == self._on_border:
            return
        self._on_border = title, subtitle
        self._is_bordering = True
        try:
            self.border_title, self.border_subtitle = Content(title), Content(subtitle)
        finally:
            self._is_bordering = False

    def _make(self, tab: str) -> Pane:
        pane = self._panes[tab] = _pane_class(tab)(self._screen_context, id=f"pane-{tab}")
        return pane


def _pane_class(tab: str) -> type[Pane]:  # each is loaded when it is first wanted: the screen is there before them
    match tab:
        case "case":
            from workbench.tui.panes.case_pane import CasePane

            return CasePane
        case "trace":
            from workbench.tui.panes.trace_pane import TracePane

            return TracePane
        case "scores":
            from workbench.tui.panes.scores_pane import ScoresPane

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
"""What can be opened in the drawer, by the names that keys use."""


class Drawer(Vertical):
    """At most one pane is open. A pane is made when it is opened for the first time."""

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(id=id)
        self._screen_context = context
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
            self._panes[name] = DRAWERS[name](self._screen_context, id=f"pane-{name}")
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


# What the main screen shows, brought up to date from the state.


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


_LEAST_LEFT, _LEAST_RIGHT = 16, 30  # columns that no resizing takes away
# What of the main screen is seen: both sides, or one of them, and how wide.

_NARROW = 72  # columns below which only the side with the focus is shown


class Sides:
    """The eval sets on the left, the panes on the right, the drawer below."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self.left_width: int | None = None  # None: as the stylesheet has it

    def show(self, *, is_zoomed: bool) -> None:
        """Both sides, or the one with the focus where it is zoomed or where there is no room for both."""
        left, right, drawer = (self._screen.query_one(selector) for selector in ("#left", "#right", "#drawer"))
        only_one = is_zoomed or self._screen.size.width < _NARROW
        is_right, is_drawer = self._has_focus(right), is_zoomed and self._has_focus(drawer)
        left.display = not is_drawer and (not only_one or not is_right)
        right.display = not is_drawer and (not only_one or is_right)
        self._screen.query_one("#body").display = not is_drawer  # empty it would keep half of the screen
        drawer.set_class(is_drawer, "-alone")

    def set_left_width(self, width: int | None) -> None:
        """Give the eval sets so many columns, as far as that leaves both sides some."""
        if width is None:
            return
        most = max(self._screen.app.size.width - _LEAST_RIGHT, _LEAST_LEFT)
        self.left_width = min(max(width, _LEAST_LEFT), most)
        styles = self._screen.query_one("#left").styles
        styles.width = styles.min_width = styles.max_width = self.left_width

    def widen_left(self, by: int) -> None:
        """Give the eval sets more columns, or fewer."""
        self.set_left_width(self._screen.query_one("#left").outer_size.width + by)

    def _has_focus(self, part: Widget) -> bool:
        focused = self._screen.focused
        return focused is not None and part in focused.ancestors_with_self


# What covers the main screen for a while and tells where to go on: the review, the table of results, new scenarios.


class Visits(Faceless):
    """Opens them, and posts what they lead to."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self._screen_context = context
        self._left: ReviewWalk | None = None  # a review that was left for the editor

    def review(self) -> None:
        """Go through the cases that did not pass; a review that was left for the editor is gone on with."""
        walk = self._left or ReviewWalk(self._screen_context.state.failing_cases())
        self._left = None
        if not walk.keys:
            say(self, "no case that did not pass is listed", severity="warning")
            return

        def leave(to_edit: CaseKey | None) -> None:
            if to_edit is not None:
                self._left = walk
                say(self, "v goes on with the review")
                self.post_message(CaseWanted(to_edit, tab="case"))

        self.app.push_screen(ReviewScreen(self._screen_context, walk, self.post_message), leave)

    @work(group="generate", exclusive=True)
    async def generate(self) -> None:
        """Have a model write scenarios for the selected set or agent, look through them, and save those to keep."""
        from workbench.tui.screens.scenarios_screen import generate  # seldom needed, and with the engine

        state = self._screen_context.state
        row = state.browser.selected
        if row is None or not row.target or state.browser.is_kept(row.target, row.eval_set):
            say(self, f"no scenarios can be written: {why_nothing(state)}", severity="warning")
            return
        await generate(self, self._screen_context, row)

    @work(group="new_target", exclusive=True)
    async def add_target(self) -> None:
        """Add an agent to the settings of the project."""
        from workbench.tui.dialogs.dialogs import add_target  # seldom needed

        await add_target(self, self._screen_context)

    @work(group="table", exclusive=True)
    async def open_table(self) -> None:
        """Show the newest results as a table, and go to the case that is chosen there."""
        from workbench.tui.screens.results_screen import TableScreen  # seldom needed, and never at the start

        scope = Scope.around(self._screen_context.state.browser.selected)
        case = await self.app.push_screen_wait(TableScreen(self._screen_context, scope=scope))
        if case is not None:
            self.post_message(CaseWanted(case, tab="diff"))


# Keeps up which of the shown verdicts hold while no watch does: checks them at start, on reload and after saves.

_BETWEEN = 1.0  # seconds between two messages: showing ten thousand cases anew takes its time
_CALM = 0.3  # seconds without another change before the check begins


class VerdictChecker(Faceless):
    """Checks in the background; a later check takes over what an earlier one has left."""

    @dataclass
    class Checked(Message):
        """The verdicts of these cases have become stale, or current."""

        cases: Collection[CaseKey]

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self._screen_context = context
        self._state = context.state
        self._left: set[str] = set()  # eval sets that are still to be checked

    def check(self, eval_sets: Collection[str] | None = None) -> None:
        """Check the verdicts of these eval sets, by default of all. A watch needs no check: it says so by itself."""
        if self._state.watch.is_active:
            self._left.clear()
            return
        self._left.update({each.relative for each in self._state.browser.files} if eval_sets is None else eval_sets)
        self._check()

    @work(group="check", exclusive=True)
    async def _check(self) -> None:
        await asyncio.sleep(_CALM)
        shown = self._state.board.shown_verdicts(
            key for listed in self._state.browser.files if listed.relative in self._left for key in listed.keys
        )
        if shown:
            ended = {key: record.ended for key in shown if (record := self._state.board.record(key)) is not None}
            changed, told = set[CaseKey](), time.monotonic()
            with contextlib.suppress(StoreError):  # whatever shows the stored results has reported it
                async for checked in self._screen_context.backend.verdict_check.check(shown):
                    if self._state.watch.is_active:
                        return
                    changed |= self._state.take_checked(checked, ended=ended)
                    if changed and time.monotonic() - told > _BETWEEN:
                        self.post_message(self.Checked(changed))
                        changed, told = set(), time.monotonic()
            if changed:
                self.post_message(self.Checked(changed))
        self._left.clear()


# Says that files were saved, while no watch does, so that the shown verdicts are checked.


class SavedFiles(Faceless):
    """Observes the files of the project, which a watch does by itself."""

    class Saved(Message):
        """Files were saved, or may have been while nothing observed them."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self._screen_context = context
        self._observing: Worker[None] | None = None

    async def on_unmount(self) -> None:
        """The screen is closed: nothing of the observing is left behind."""
        self.stop()
        if self._observing is not None:
            with contextlib.suppress(WorkerCancelled, WorkerFailed):
                await self._observing.wait()

    def observe(self) -> None:
        """Observe what there is now."""
        self._observing = self._observe()

    def stop(self) -> None:
        """Leave it to the watch."""
        self.workers.cancel_group(self, "saved")

    @work(group="saved", exclusive=True)
    async def _observe(self) -> None:
        # A history that cannot be read was reported already; without observing there are F5 and the next start.
        with contextlib.suppress(StoreError, OSError):
            await self._screen_context.backend.saved_files.observe(lambda: self.post_message(self.Saved()))
