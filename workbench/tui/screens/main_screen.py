"""The main screen: its panes, what they show, and how one moves between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from workbench.model.identity import CaseKey
from workbench.store.settings import FILE_NAME
from workbench.store.toml_files import Layout
from workbench.tui.keys import bindings
from workbench.tui.panes.browser_pane import BrowserPane
from workbench.tui.panes.diff_pane import DiffPane
from workbench.tui.panes.drawer_panes import ProblemsPane
from workbench.tui.panes.pane import Pane, copy, copyable_at
from workbench.tui.screen_messages import (
    CaseWanted,
    DocumentsChanged,
    ProjectChanged,
    RunBegun,
    RunWanted,
    SaveWanted,
    ScreenContext,
    SessionWanted,
    TabWanted,
)
from workbench.tui.screens.main_parts import (
    DRAWERS,
    TABS,
    Drawer,
    Frame,
    SavedFiles,
    Shown,
    Sides,
    VerdictChecker,
    Visits,
)
from workbench.tui.screens.read_controller import Reader
from workbench.tui.screens.run_controller import Running
from workbench.tui.screens.save_controller import Keeper
from workbench.tui.screens.watch_controller import WatchController
from workbench.tui.state.project_state import ProjectState, is_worth_offering, makes_sense, why_not, why_nothing
from workbench.tui.widgets.inputs import KeyLine, TabBar, say
from workbench.tui.widgets.row_lists import CaseList, StatusLine

# What the keys of the main screen do: each changes the state, or asks it of the part whose work it is.


class MainActions(Screen[None]):
    """The parts that work for the main screen, and its actions. What is on it, and what its panes ask, is elsewhere."""

    PLACES: ClassVar[tuple[str, ...]] = ("screen",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("screen")]

    def __init__(self, context: ScreenContext, layout: Layout) -> None:
        super().__init__()
        self._layout = layout
        self._tab = layout.tab if layout.tab in TABS else "diff"
        self.state = context.state
        self._screen_context = context
        self._reader = Reader(context)
        self._keeper = Keeper(context)
        self._runs = Running(
            context,
            read_sets=self._reader.read_all_sets,
            read_addresses=self._reader.read_addresses,
            save=self._keeper.save_these,
            played=self._reader.read_verdicts,
        )
        self._visits = Visits(context)
        self._watching = WatchController(
            context,
            follow=self._runs.follow_watch,
            find_manual_runs=self._runs.going_on,
            find_visible_cases=lambda: self.query_one(CaseList).cases_in_sight(),
        )
        self._checker = VerdictChecker(context)
        self._saved_files = SavedFiles(context)
        self._sides = Sides(self)
        self._shown = Shown(self, context.state)
        self._drawer: str | None = None  # what is open in it

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Which actions make sense now: False hides one from the footer, None shows it dimmed."""
        if action == "go_left":
            return not self.query_one(BrowserPane).has_focus_within
        if why_not(action, self.state):
            return True  # its key is heard, so that it can say so
        return makes_sense(action, self.state)

    def offers(self, action: str) -> bool:
        """Whether an action has a use for what is selected."""
        return is_worth_offering(action, self.state)

    def _refuses(self, action: str) -> bool:
        """Whether an action has no use for what is selected; says why."""
        reason = why_not(action, self.state)
        if reason:
            say(self, reason, severity="warning")
        return bool(reason)

    def action_run_selected(self) -> None:
        """Run the selected case, set or target."""
        self._start_selected()

    def action_simulate(self) -> None:
        """Play the scenarios of the selected case, set or target, and judge nothing."""
        self._start_selected(only_plays=True)

    def action_keep_conversation(self) -> None:
        """Keep the conversation that a simulated user has held as a fixed case."""
        if self._refuses("keep_conversation"):
            return
        self._keeper.keep_conversation(self.state.subject())

    def action_generate(self) -> None:
        """Have a model write scenarios for the selected set or agent."""
        if self._refuses("generate"):
            return
        self._visits.generate()

    def action_add_target(self) -> None:
        """Add an agent to workbench.toml."""
        self._visits.add_target()

    def action_plan_selected(self) -> None:
        """See the plan of a run of the selected case, set or target."""
        self._start_selected(ask=True)

    def action_criteria(self) -> None:
        """Choose what the selected case, set or target is judged by."""
        self._runs.choose_criteria(self.state.selections_at(self.state.selected_place))

    def action_run_all(self) -> None:
        """Run every case that can run."""
        if not self._refuses("run_all"):
            self._start(lambda: RunWanted(self.state.all_selections()))

    def action_run_failed(self) -> None:
        """Run the cases that did not pass when they last ran."""
        if self._refuses("run_failed"):
            return
        if not self.state.failed_selections():
            say(self, "there is nothing to run: no listed case of an agent fell short", severity="warning")
            return
        self._start(lambda: RunWanted(self.state.failed_selections()))

    def action_cancel_run(self) -> None:
        """Stop the run; what has finished stays."""
        self._runs.cancel()
        self._shown.show()

    def action_resume_run(self) -> None:
        """Continue the run that was stopped last."""
        if not self.state.stopped:
            say(self, "there is nothing to resume: no run was stopped", severity="warning")
        else:
            stopped = self.state.stopped[-1]
            self._start(lambda: RunWanted(stopped.selections, config=stopped.config, options=stopped.options))

    def action_toggle_watch(self) -> None:
        """Turn the watch on; once it is on, pause or resume it."""
        self._watching.toggle()

    def action_end_watch(self) -> None:
        """Turn the watch off, and stop what it runs."""
        self._watching.close()

    def action_run_held(self) -> None:
        """Run what the watch holds back."""
        self._watching.run_held()

    def action_cancel_case(self) -> None:
        """Stop the marked cases, else the selected one; the others go on."""
        self._runs.cancel_cases(self.state.wanted_cases)

    def action_back(self) -> None:
        """One step back: to the newest result, to all panes, to the eval sets."""
        if self.state.unpin():
            self._shown.show_all()
        elif self.has_class("-zoomed"):
            self.action_zoom()
        elif not self.query_one(CaseList).has_focus:
            self.query_one(CaseList).focus()

    def action_go_left(self) -> None:
        """Go back to the eval sets."""
        self.query_one(BrowserPane).focus_list()

    def action_next_failing(self) -> None:
        """Go to the next case that did not pass."""
        self.state.go_to_failing()
        self._after_cursor()

    def action_previous_failing(self) -> None:
        """Go to the previous case that did not pass."""
        self.state.go_to_failing(backwards=True)
        self._after_cursor()

    def action_step_repeat(self, by: int) -> None:
        """Look at another repeat of the case."""
        self.state.step_repeat(by)
        self._shown.show_detail()

    async def action_open_tab(self, tab: str) -> None:
        """Open a tab and go there."""
        (await self._open_tab(tab)).focus_first()

    async def action_edit(self) -> None:
        """Edit the case; what is not edited is shown all the same."""
        self._refuses("edit")
        await self.action_open_tab("case")

    async def action_accept(self) -> None:
        """Accept the difference under the cursor of the diff; elsewhere, go there first."""
        if self._refuses("accept"):
            return
        frame = self.query_one(Frame)
        if isinstance(frame.pane, DiffPane):
            frame.pane.action_accept_hunk()
        else:
            await self.action_open_tab("diff")

    def action_review(self) -> None:
        """Go through the cases that did not pass; a review that was left for the editor is gone on with."""
        self._visits.review()

    def action_edit_text(self) -> None:
        """Edit the text of the case in the user's editor."""
        key = self.state.selected_case
        if key is not None and not self._refuses("edit_text"):
            self._keeper.edit_case_text(key)

    async def action_toggle_drawer(self, name: str) -> None:
        """Show or hide what is in the drawer."""
        drawer = self.query_one(Drawer)
        if drawer.has_focus_within:  # what is hidden leaves no focus behind
            self.query_one(CaseList).focus()
        pane = await self._toggle_drawer(name)
        if pane is not None:
            pane.show(self.state.subject())
            pane.focus_first()

    def action_zoom(self) -> None:
        """Give the focused part the whole screen, or end that."""
        self.toggle_class("-zoomed")
        self._sides.show(is_zoomed=self.has_class("-zoomed"))

    def action_widen(self, by: int) -> None:
        """Give the eval sets more columns, or fewer."""
        self._sides.widen_left(by)

    def action_open_table(self) -> None:
        """Show the newest results as a table, and go to the case that is chosen there."""
        self._visits.open_table()

    def action_copy(self) -> None:
        """Copy what the mouse has selected, else what the focused pane takes for the thing to copy."""
        copy(self, self.get_selected_text() or copyable_at(self.focused, otherwise=self.query_one(Frame).pane))

    def action_undo(self) -> None:
        """Take back the last edit of the selected eval set, or what was done last with the files of sets."""
        self._keeper.undo(self.state.selected_set)

    def action_redo(self) -> None:
        """Do again what was taken back last."""
        self._keeper.redo(self.state.selected_set)

    def action_save(self) -> None:
        """Save the edits of the selected eval set."""
        if self.state.selected_set is not None:
            self._keeper.save_and_say(self.state.selected_set)

    def action_reload(self) -> None:
        """Look again which eval sets there are and what is in them."""
        if self.state.project is not None:
            self._reader.reload_anew()

    def _start_selected(self, *, ask: bool = False, only_plays: bool = False) -> None:
        place = self.state.selected_place
        if not self.state.selections_at(place):
            say(self, f"there is nothing to run: {why_nothing(self.state)}", severity="warning")
            return
        self._start(lambda: RunWanted(self.state.selections_at(place), ask=ask, only_plays=only_plays))

    def _start(self, want: Callable[[], RunWanted]) -> None:
        self._runs.start(want)
        self._shown.show()

    async def _toggle_drawer(self, name: str) -> Pane | None:
        pane = await self.query_one(Drawer).toggle(name)
        self._drawer = name if pane is not None else None
        return pane

    async def _open_tab(self, tab: str) -> Pane:
        before = self.query_one(Frame).pane
        had_focus = before.has_focus_within
        pane = await self.query_one(Frame).open(tab)
        self._tab = tab
        self._shown.show_detail()
        if had_focus and pane is not before:  # what is hidden leaves no focus behind
            pane.focus_first()
        self.refresh_bindings()
        return pane

    def _after_cursor(self) -> None:
        self.state.leave_row()
        self._shown.show()
        self._reader.read_selected_soon()


# What the watch and the runs have told, taken up now and then and shown: it may be more than anybody could see.

_ROUNDS = 10  # in which what the watch and its runs told is taken at one time
_SETS = (".evalset.json", ".test.json")
_AGENTS = ("agent.py", "__init__.py", "root_agent.yaml")


class Arrivals:
    """Takes up what has arrived for the main screen. `take` is for a timer."""

    def __init__(
        self,
        screen: Screen[None],
        state: ProjectState,
        *,
        watching: WatchController,
        runs: Running,
        reader: Reader,
        shown: Shown,
    ) -> None:
        self._screen = screen
        self._state = state
        self._watching = watching
        self._runs = runs
        self._reader = reader
        self._shown = shown

    def take(self) -> None:
        """Take what arrived since the last time and show it."""
        now = time.monotonic()
        update = self._watching.apply_events(now=now)
        is_news, changed = self._runs.take(now=now)
        for _ in range(_ROUNDS if update.has_more else 0):
            update = update.merge(self._watching.apply_events(now=now))
            _, more = self._runs.take(now=now)
            changed |= more
        is_news, changed = is_news or update.has_events, changed | update.changed
        if update.saved:
            self._read_saved(update.saved, removed=update.removed)
        if changed or update.has_events:
            self._screen.query_one(BrowserPane).results_changed()
        if is_news:
            self._shown.show()
            if update.has_events or self._state.shows_other_than_a_case or self._state.selected_case in changed:
                self._shown.show_detail()
        elif self._state.is_running:
            self._shown.show_run()
        if is_news or self._state.is_running:
            self._shown.show_drawer()

    def _read_saved(self, paths: Collection[str], *, removed: Collection[str]) -> None:
        """Files were saved that say what there is or what it is judged by: show what they say now."""
        known = {listed.relative for listed in self._state.browser.files}
        is_less = any(path in known or path.endswith(_AGENTS) for path in removed)
        if is_less or FILE_NAME in paths or self._may_get_agents(paths):
            self._reader.reload(None)
        elif known.issuperset(path for path in paths if path.endswith(_SETS)):
            if not known.isdisjoint(paths):
                self._reader.read_again(frozenset(known.intersection(paths)))
            elif any(path.endswith(".json") for path in paths):  # criteria, it may be
                self._reader.read_again(frozenset())
        else:
            self._reader.reload(None)

    def _may_get_agents(self, paths: Collection[str]) -> bool:
        """Whether a set that had no agent may have one now."""
        return any(path.endswith(_AGENTS) for path in paths) and not all(
            listed.target for listed in self._state.browser.files
        )


# The main screen: eval sets on the left, the selected case on the right, the run below.

_TICK = 0.1  # seconds between two updates of what changes by itself


class MainScreen(MainActions):
    """The one screen of the application."""

    AUTO_FOCUS = "CaseList"  # not the filter line, where keys typed during the start would land

    def __init__(self, context: ScreenContext, layout: Layout) -> None:
        super().__init__(context, layout)
        self._arrivals = Arrivals(
            self, context.state, watching=self._watching, runs=self._runs, reader=self._reader, shown=self._shown
        )

    def compose(self) -> ComposeResult:
        """Header, eval sets and panes, drawer, run line, footer."""
        yield StatusLine(id="header")
        with Horizontal(id="body"):
            yield BrowserPane(self._screen_context, id="left")
            yield Frame(self._screen_context, tab=self._tab, id="right")
        yield Drawer(self._screen_context, id="drawer")
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
            watching=self._watching.is_active,
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
        if self._layout.watching and not self._watching.is_active:
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
        if self._watching.is_active:
            self._watching.note_run(message.followed.run, message.followed.jobs)

    @on(WatchController.Turned)
    def _on_turned(self) -> None:
        self._shown.show_all()
        if self._watching.is_active:
            self._saved_files.stop()
        else:
            self._saved_files.observe()

    def _check_from_now_on(self) -> None:
        """Check all verdicts now, and after each save. A watch does so by itself."""
        self._checker.check()
        if not self._watching.is_active:
            self._saved_files.observe()

    async def may_leave(self) -> bool:
        """Whether nothing is lost by quitting: without unsaved edits, or once it is decided what becomes of them."""
        return await self.query_one(Frame).may_leave() and await self._keeper.may_leave()

    async def _go_to(self, key: CaseKey, *, tab: str | None) -> None:
        self.query_one(BrowserPane).go_to(key)
        self._after_cursor()
        if tab is not None:
            await self._open_tab(tab)
