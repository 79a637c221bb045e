"""The main screen: eval sets on the left, the selected case on the right, the run below.

It connects the three sides: what the user does changes the state or goes to the gateway, what comes back changes the
state, and the state is shown. Whatever arrives often is shown at most ten times a second. What its keys do is said in
`main_actions`, what is done about news of runs in `arrivals`.
"""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from workbench.model.keys import CaseKey
from workbench.store.layouts import Layout
from workbench.tui.hub import Hub
from workbench.tui.messages import (
    CaseWanted,
    DocumentsChanged,
    ProjectChanged,
    RunBegun,
    RunWanted,
    SaveWanted,
    SessionWanted,
    TabWanted,
)
from workbench.tui.panes.browser import BrowserPane
from workbench.tui.panes.problems.pane import ProblemsPane
from workbench.tui.screens.arrivals import Arrivals
from workbench.tui.screens.drawer import DRAWERS, Drawer
from workbench.tui.screens.frame import TABS, Frame
from workbench.tui.screens.keeper import Keeper
from workbench.tui.screens.main_actions import MainActions
from workbench.tui.screens.reader import Reader
from workbench.tui.screens.running import Running
from workbench.tui.screens.saved_files import SavedFiles
from workbench.tui.screens.verdict_checker import VerdictChecker
from workbench.tui.screens.watching import Watching
from workbench.tui.widgets.case_list import CaseList
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.tab_bar import TabBar

_TICK = 0.1  # seconds between two updates of what changes by itself


class MainScreen(MainActions):
    """The one screen of the application."""

    AUTO_FOCUS = "CaseList"  # not the filter line, where keys typed during the start would land

    def __init__(self, hub: Hub, layout: Layout) -> None:
        super().__init__(hub, layout)
        self._arrivals = Arrivals(
            self, hub.state, watching=self._watching, runs=self._runs, reader=self._reader, shown=self._shown
        )

    def compose(self) -> ComposeResult:
        """Header, eval sets and panes, drawer, run line, footer."""
        yield StatusLine(id="header")
        with Horizontal(id="body"):
            yield BrowserPane(self._hub, id="left")
            yield Frame(self._hub, tab=self._tab, id="right")
        yield Drawer(self._hub, id="drawer")
        yield StatusLine(id="run-line")
        yield KeyLine()
        yield from (self._reader, self._keeper, self._runs, self._visits, self._watching, self._checker)
        yield self._saved_files

    @property
    def layout_now(self) -> Layout:
        """How the screen is left."""
        browser = self.state.browser
        return Layout(
            tab=self._tab,
            drawer=self._drawer,
            left_width=self._sides.left_width,
            theme=self._layout.theme,
            watching=self._watching.is_on,
            folded=tuple(browser.folded),
            selected=browser.selected.place if browser.selected is not None else self._layout.selected,
        )

    async def on_mount(self) -> None:
        """Open the project; the screen shows meanwhile that it does."""
        self._sides.set_left_width(self._layout.left_width)
        self.set_interval(_TICK, self._arrivals.take)
        self._shown.show_all()
        self.state.browser.return_to(folded=self._layout.folded, selected=self._layout.selected)
        self.query_one(CaseList).focus()
        if self._layout.drawer in DRAWERS:
            await self._toggle_drawer(self._layout.drawer)
        self._reader.open()

    def on_resize(self) -> None:
        """Rows and lines have another width now."""
        self._sides.show(is_zoomed=self.has_class("-zoomed"))
        self._shown.show()

    def on_descendant_focus(self) -> None:
        """Where there is room for one side only, it is the one with the focus."""
        self._sides.show(is_zoomed=self.has_class("-zoomed"))

    # What the panes ask for.

    @on(BrowserPane.Opened)
    def _on_opened(self) -> None:
        pane = self.query_one(Frame).pane
        if pane.is_mounted:  # else whoever opens it goes there
            pane.focus_first()

    @on(BrowserPane.AddressOpened)
    def _on_address_opened(self, message: BrowserPane.AddressOpened) -> None:
        self._reader.read_address(message.listed)

    @on(BrowserPane.CursorMoved)
    def _on_cursor_moved(self) -> None:
        self._after_cursor()

    @on(SaveWanted)
    def _on_save_wanted(self, message: SaveWanted) -> None:
        self._keeper.save_and_say(message.eval_set)

    @on(RunWanted)
    def _on_run_wanted(self, message: RunWanted) -> None:
        self._start(lambda: message)

    @on(RunBegun)
    def _on_run_begun(self, message: RunBegun) -> None:
        self._runs.follow_begun(message.run, message.jobs, is_shown=message.is_shown)

    @on(CaseWanted)
    async def _on_case_wanted(self, message: CaseWanted) -> None:
        await self._go_to(message.key, tab=message.tab)

    @on(TabWanted)
    async def _on_tab_wanted(self, message: TabWanted) -> None:
        await self._open_tab(message.tab)

    @on(TabBar.Chosen)
    async def _on_tab_chosen(self, message: TabBar.Chosen) -> None:
        await self._open_tab(list(TABS)[message.index])

    @on(SessionWanted)
    async def _on_session_wanted(self, message: SessionWanted) -> None:
        self.state.pin(message.pinned)
        if message.tab is not None:
            await self._open_tab(message.tab)
        self._shown.show_all()

    @on(DocumentsChanged)
    def _on_documents_changed(self, message: DocumentsChanged) -> None:
        self._reader.read_again(message.eval_sets)
        self._runs.score_undone(message.eval_sets)
        self._checker.check(message.eval_sets)

    @on(ProblemsPane.ConflictOpened)
    def _on_conflict_opened(self, message: ProblemsPane.ConflictOpened) -> None:
        self._keeper.decide(message.eval_set)

    @on(ProblemsPane.RecoveriesOpened)
    def _on_recoveries_opened(self) -> None:
        self._keeper.offer_recoveries()

    @on(ProjectChanged)
    def _on_project_changed(self, message: ProjectChanged) -> None:
        self._reader.reload(message.select)

    # What was read.

    @on(Reader.Opened)
    def _on_opened_project(self) -> None:
        self._keeper.offer_recoveries()
        if self._layout.watching and not self._watching.is_on:
            self._watching.toggle()
        self._check_from_now_on()

    @on(Reader.Reread)
    def _on_reread(self) -> None:
        self._check_from_now_on()

    @on(SavedFiles.Saved)
    def _on_saved_files(self) -> None:
        self._checker.check()

    @on(VerdictChecker.Checked)
    def _on_checked(self, message: VerdictChecker.Checked) -> None:
        self.query_one(BrowserPane).results_changed()
        self._shown.show()
        if self.state.selected_case in message.cases:
            self._shown.show_detail()
            self._reader.read_selected()
        elif self.state.shows_other_than_a_case:
            self._shown.show_detail()

    @on(Keeper.TextsLeft)
    async def _on_texts_left(self) -> None:
        await self.query_one(Frame).prepare("case")  # which takes them up

    @on(Reader.ProjectRead)
    def _on_project_read(self) -> None:
        self._shown.show_all()
        self._reader.read_selected()  # its results may have been listed after it was read

    @on(Reader.SetsRead)
    def _on_sets_read(self) -> None:
        self.query_one(BrowserPane).read_contents()
        self._shown.show()

    @on(BrowserPane.EditsRead)
    @on(Reader.CaseRead)
    def _on_case_read(self) -> None:
        self._shown.show_detail()

    @on(Reader.SelectionWanted)
    def _on_selection_wanted(self, message: Reader.SelectionWanted) -> None:
        self.query_one(BrowserPane).go_to(message.place)
        self._after_cursor()

    @on(Running.Prepared)
    def _on_prepared(self) -> None:
        self._shown.show()
        self._reader.read_selected()

    @on(Running.Followed)
    def _on_followed(self, message: Running.Followed) -> None:
        if self._watching.is_on:
            self._watching.note_run(message.followed.run, message.followed.jobs)

    @on(Watching.Turned)
    def _on_turned(self) -> None:
        self._shown.show_all()
        if self._watching.is_on:
            self._saved_files.stop()
        else:
            self._saved_files.observe()

    def _check_from_now_on(self) -> None:
        """Check all verdicts now, and after each save. A watch does so by itself."""
        self._checker.check()
        if not self._watching.is_on:
            self._saved_files.observe()

    async def may_leave(self) -> bool:
        """Whether nothing is lost by quitting: without unsaved edits, or once it is decided what becomes of them."""
        return await self.query_one(Frame).may_leave() and await self._keeper.may_leave()

    async def _go_to(self, key: CaseKey, *, tab: str | None) -> None:
        self.query_one(BrowserPane).go_to(key)
        self._after_cursor()
        if tab is not None:
            await self._open_tab(tab)
