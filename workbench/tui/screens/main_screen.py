"""The main screen: its layout, its actions, and how it follows changes of the state."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from workbench.model.identity import CaseKey
from workbench.store.toml_files import ScreenLayout
from workbench.tui.panes.browser_pane import BrowserPane
from workbench.tui.panes.diff_pane import DiffPane
from workbench.tui.panes.drawer_panes import ProblemsPane
from workbench.tui.screen_context import (
    BranchWanted,
    CaseWanted,
    DocumentsChanged,
    Pane,
    ProjectChanged,
    RestingTimer,
    RunBegun,
    RunWanted,
    SaveWanted,
    ScreenContext,
    SessionWanted,
    TabWanted,
    find_copyable_text,
)
from workbench.tui.screens.main_frame import DRAWERS, TABS, Drawer, Frame
from workbench.tui.screens.read_controller import ReadController
from workbench.tui.screens.review_screen import ReviewScreen
from workbench.tui.screens.run_controller import RunController
from workbench.tui.screens.save_controller import SaveController
from workbench.tui.screens.screen_actions import ScreenActions
from workbench.tui.screens.watch_controller import VerdictController, WatchController
from workbench.tui.state.browser_list import RowKey
from workbench.tui.state.diff_state import ReviewWalk
from workbench.tui.state.problem_list import Severity
from workbench.tui.state.project_state import (
    CHANGING_ACTIONS,
    LEADING_ACTIONS,
    find_obstacle,
    is_available,
    is_shown_in_footer,
    leads_footer,
)
from workbench.tui.state.results_table import Scope
from workbench.tui.state.watch_state import WatchMode
from workbench.tui.widgets.key_line import KeyLine, StatusLine, TabBar, copy, is_offered, say
from workbench.tui.widgets.row_lists import CaseList

if TYPE_CHECKING:
    from workbench.tui.dialogs.results_screen import TableScreen

_TICK = 0.1  # seconds between two looks for events of the watch and of runs
_ROUNDS = 10  # maximum rounds of events in one tick, so that a tick stays short

_LONG_RUN = 10.0  # seconds after which the run pane opens by itself
_MANY_CASES = 5  # that such a run has at least
_HEIGHT_FOR_RUN = 24  # lines of the screen
_HEIGHT_FOR_BOTH = 16  # lines of the screen for a pane and half of it for the drawer

_NARROW = 72  # columns below which only the side with the focus is shown
_LEAST_LEFT, _LEAST_RIGHT = 16, 30  # columns that both sides keep


class MainScreen(ScreenActions):
    """Eval sets on the left, the panes of the selected case on the right, the drawer and the run line below."""

    AUTO_FOCUS = "CaseList"  # not the filter line, where keys typed during the start would land
    PLACES = ("screen",)

    def __init__(self, context: ScreenContext, layout: ScreenLayout) -> None:
        super().__init__()
        self.state = context.state
        self.screen_context = context
        self._layout = layout
        self._tab = layout.tab if layout.tab in TABS else "diff"
        self._drawer: str | None = None  # the pane that is open in it
        self._long_run: str | None = None  # the long run for which the drawer opened by itself
        self._closes_run_pane = False  # the user closed the run pane: it does not open by itself any more
        self._left_width: int | None = None  # None: as the stylesheet has it
        self._shown_left_width: int | None = None  # of the widget; None: as the stylesheet has it
        self._offered_actions: tuple[bool | None, ...] = ()
        self._unfinished_review: ReviewWalk | None = None
        self._begins_with_project = layout.selected is None
        self._pump: RestingTimer | None = None  # applies events
        self._catches_up = False  # a tick follows at once, because many events wait
        self._reader = ReadController(self, context)
        self._saver = SaveController(self, context)
        self._runs = RunController(
            self,
            context,
            reader=self._reader,
            saver=self._saver,
            wake=self._wake,
            find_visible_cases=self._find_visible_cases,
        )
        self._verdicts = VerdictController(self, context, on_save=self._saver.check_files)
        self._watching = WatchController(
            self,
            context,
            follow=self._runs.follow_watch,
            find_manual_runs=self._runs.list_user_runs,
            find_visible_cases=self._find_visible_cases,
            wake=self._wake,
        )

    def _find_visible_cases(self) -> Collection[CaseKey]:
        return self.query_one(CaseList).list_visible_cases()

    def compose(self) -> ComposeResult:
        yield StatusLine(id="header")
        with Horizontal(id="body"):
            yield BrowserPane(self.screen_context, id="left")
            yield Frame(self.screen_context, tab=self._tab, id="right")
        yield Drawer(self.screen_context, id="drawer")
        yield StatusLine(id="run-line")
        yield KeyLine()

    async def on_mount(self) -> None:
        """Show the saved layout and open the project."""
        self._set_left_width(self._layout.left_width)
        self._pump = RestingTimer(self, _TICK, self._pump_events)
        self._saver.start()
        self.refresh_all()
        self.state.browser.restore_view(folded=self._layout.folded, selected=self._layout.selected)
        self.query_one(CaseList).focus()
        if self._layout.drawer in DRAWERS:
            await self._toggle_drawer(self._layout.drawer)
        self._reader.open()

    async def on_unmount(self) -> None:
        """End the watch, or the observation of files that replaces it, and the searches."""
        for search in self.searches.values():
            search.close()
        await self._watching.shut_down()
        await self._verdicts.close()

    @property
    def has_opened(self) -> bool:
        """True once the project was read for the first time."""
        return self._reader.has_opened

    @property
    def has_failed(self) -> bool:
        """True if the project could not be opened."""
        return self._reader.has_failed

    @property
    def layout_now(self) -> ScreenLayout:
        """The layout to restore at the next start."""
        return ScreenLayout(
            tab=self._tab,
            drawer=None if self._long_run and self._drawer == "run" else self._drawer,
            left_width=self._left_width,
            theme=self._layout.theme,
            watching=self._watching.is_active,
            folded=tuple(self.state.browser.folded_keys),
            selected=None if self.state.shows_project else self.state.selected_key or self._layout.selected,
        )

    async def may_leave(self) -> bool:
        """Return True if quitting loses no edits, or if the user has decided what becomes of them."""
        may_leave = await self.query_one(Frame).may_leave() and await self._saver.may_leave()
        for search in self.searches.values():
            may_leave = may_leave and await search.may_leave()
        return may_leave

    # Refreshing: each method shows one part of the state.

    @on(BrowserPane.EditsRead)
    def refresh_all(self) -> None:
        """Show the whole state."""
        self.refresh_overview()
        self._refresh_detail()

    @on(RunController.Preparing)
    def refresh_overview(self) -> None:
        """Show the header, the eval sets, the run line and the keys, but not the selected row."""
        header = self.query_one("#header", StatusLine)
        header.show(self.state.header(header.size.width or self.size.width))
        self.query_one(BrowserPane).show()
        self._refresh_run_line()
        self._refresh_keys()

    def _refresh_run_line(self) -> None:
        line = self.state.run_line(now=time.monotonic(), width=self.size.width)
        self.query_one("#run-line", StatusLine).show(line)

    @on(ReadController.CaseRead)
    def _refresh_detail(self) -> None:
        """Show the selected row in the panes that are open."""
        subject = self.state.subject()
        self.query_one(Frame).show(subject, self.state.heading())
        self.query_one(Drawer).show(subject)
        self._refresh_keys()  # a result that has just been read can be accepted

    def _refresh_keys(self) -> None:
        """Show in the footer which actions are possible now."""
        offered = (
            *(self.check_action(action, ()) for action in CHANGING_ACTIONS),
            *(is_offered(self, action) for action in ("edit", "run_selected", "run_failed", "toggle_watch")),
            *(self.leads(action) for action in LEADING_ACTIONS),
            self.state.watch.mode is WatchMode.PAUSED,
        )
        if offered != self._offered_actions:
            self._offered_actions = offered
            self.refresh_bindings()

    # Both sides of the screen: which are shown, and how wide they are.

    def on_resize(self) -> None:
        self._show_sides()
        self.refresh_overview()

    def on_descendant_focus(self) -> None:
        """Show the side with the focus if there is room for one only."""
        self._show_sides()

    def _show_sides(self) -> None:
        """Show both sides, or only the one with the focus if the screen is zoomed or narrow."""
        is_zoomed, shows_one = self.has_class("-zoomed"), self._shows_one_side
        left, right, drawer = (self.query_one(selector) for selector in ("#left", "#right", "#drawer"))
        is_right, is_drawer = self._has_focus(right), is_zoomed and self._has_focus(drawer)
        left.display = not is_drawer and (not shows_one or not is_right)
        right.display = not is_drawer and (not shows_one or is_right)
        self.query_one("#body").display = not is_drawer  # an empty body would keep half of the screen
        drawer.set_class(is_drawer, "-alone")
        drawer.set_class(self.size.height < _HEIGHT_FOR_BOTH and not self._has_focus(drawer), "-low")
        self.set_class(shows_one, "-one-side")
        width = None if shows_one else self._left_width
        if width != self._shown_left_width:  # Textual lays out again even if the width is the same
            self._shown_left_width = width
            left.styles.width = left.styles.min_width = left.styles.max_width = width

    @property
    def _shows_one_side(self) -> bool:
        return self.has_class("-zoomed") or self.size.width < _NARROW

    def _set_left_width(self, width: int | None) -> None:
        """Set the columns of the left side, within limits that leave both sides some."""
        if width is None:
            return
        most = max(self.app.size.width - _LEAST_RIGHT, _LEAST_LEFT)
        self._left_width = min(max(width, _LEAST_LEFT), most)
        self._show_sides()

    def _has_focus(self, part: Widget) -> bool:
        return self.focused is not None and part in self.focused.ancestors_with_self

    # Events of the watch and of runs, applied a few times a second, in batches.

    def _wake(self) -> None:
        """Apply events soon."""
        if self._pump is not None:
            self._pump.wake()

    def _pump_events(self) -> bool:
        """Apply the events since the last tick to the state, and show what changed. Return False if nothing is left."""
        now = time.monotonic()
        update = self._watching.apply_events(now=now)
        is_news, changed = self._runs.take(now=now)
        for _ in range(_ROUNDS if update.has_more else 0):
            update = update.merge(self._watching.apply_events(now=now))
            _, more = self._runs.take(now=now)
            changed |= more
        is_news, changed = is_news or update.has_events, changed | update.changed
        if is_news:
            self._verdicts.learn_dependencies()
        if update.saved:
            self._saver.check_files()
            self._reader.reread_saved(update.saved, removed=update.removed)
        if changed or update.has_events:
            self.query_one(BrowserPane).mark_outdated()
        if is_news:
            self.refresh_overview()
            if update.has_events or self.state.shows_group or self.state.selected_case in changed:
                self._refresh_detail()
        elif self.state.is_running:
            self._refresh_run_line()
        if is_news or self.state.is_running:
            self.query_one(Drawer).show(self.state.subject())
            self._open_run_pane_if_long(now=now)
        if self._runs.has_backlog and not self._catches_up:
            self._catches_up = True
            self.call_later(self._catch_up)  # behind the keys that wait
        return self.state.is_running or self._runs.has_news or self._watching.has_news

    def _catch_up(self) -> None:
        self._catches_up = False
        self._pump_events()

    def _open_run_pane_if_long(self, *, now: float) -> None:
        """Open the run pane once a run takes long, if the drawer is free and the user has not closed it before."""
        progress = self.state.progress
        if progress is None or progress.ended is not None or progress.run_id == self._long_run:
            return
        is_long = progress.total >= _MANY_CASES and now - progress.began >= _LONG_RUN
        if is_long and not self._closes_run_pane and self._drawer is None and self.size.height >= _HEIGHT_FOR_RUN:
            self._long_run = progress.run_id
            self.call_next(self._open_run_pane)  # one after the other with the keys of the user

    async def _open_run_pane(self) -> None:
        if self._drawer is None and self.is_mounted:
            pane = await self._toggle_drawer("run")
            if pane is not None:
                pane.show(self.state.subject())

    def log_message(self, text: str, severity: Severity) -> None:
        """Add a message that the screen shows to the list of messages."""
        self.state.problems.add_message(text, severity, at=datetime.now().astimezone())
        self.query_one(Drawer).show(self.state.subject())

    # Actions: each changes the state, or passes the request to a controller.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return False to hide an action from the footer, None to dim it."""
        if action == "go_left":
            return not self.query_one(BrowserPane).has_focus_within
        if find_obstacle(action, self.state):
            return True  # so that its key can say why not
        return is_available(action, self.state)

    def offers(self, action: str) -> bool:
        """Return True if an action is useful for the selected row."""
        return is_shown_in_footer(action, self.state)

    def leads(self, action: str) -> bool:
        """Return True if the key of an action comes first: saving and undo of edits, and pausing the watch."""
        return leads_footer(action, self.state)

    def name_action(self, action: str) -> str:
        """Return what the key of the watch does now; empty for other actions."""
        if action != "toggle_watch" or not self.state.watch.is_active:
            return ""
        return "resume" if self.state.watch.mode is WatchMode.PAUSED else "pause"

    def action_run_selected(self) -> None:
        self._runs.run_row()

    def action_run_fresh(self) -> None:
        self._runs.run_row(fresh=True)

    def action_record_samples(self) -> None:
        self._runs.record_samples()

    def action_simulate(self) -> None:
        self._runs.run_row(only_plays=True)

    def action_keep_conversation(self) -> None:
        if not self.is_refused("keep_conversation"):
            self._saver.keep_conversation(self.state.subject())

    def action_plan_selected(self) -> None:
        place = self.state.selected_key
        self._runs.start(lambda: RunWanted(self.state.select_row_cases(place), ask=True))

    def action_criteria(self) -> None:
        self._runs.choose_criteria(self.state.select_row_cases(self.state.selected_key))

    def action_run_all(self) -> None:
        if not self.is_refused("run_all"):
            self._runs.start(lambda: RunWanted(self.state.select_all_cases()))

    def action_run_failed(self) -> None:
        if self.is_refused("run_failed"):
            return
        if not self.state.select_failed_cases():
            say(self, "there is nothing to run: no listed case of an agent failed", severity="warning")
            return
        self._runs.start(lambda: RunWanted(self.state.select_failed_cases()))

    def action_cancel_run(self) -> None:
        self._runs.cancel()
        self.refresh_overview()

    def action_resume_run(self) -> None:
        if not self.state.stopped:
            say(self, "there is nothing to resume: no run was stopped", severity="warning")
        else:
            stopped = self.state.stopped[-1]
            self._runs.start(lambda: RunWanted(stopped.selections, config=stopped.config, options=stopped.options))

    def action_toggle_watch(self) -> None:
        self._watching.toggle()

    def action_end_watch(self) -> None:
        self._watching.close()

    def action_run_held(self) -> None:
        self._watching.run_held()

    def action_cancel_case(self) -> None:
        self._runs.cancel_cases(self.state.marked_or_selected_cases)

    def action_back(self) -> None:
        if self.state.unpin():
            self.refresh_all()
        elif self.has_class("-zoomed"):
            self.action_zoom()
        elif not self.query_one(CaseList).has_focus:
            self.query_one(CaseList).focus()

    def action_new_case(self) -> None:
        self.query_one(BrowserPane).add_case()

    def action_new_set(self) -> None:
        self.query_one(BrowserPane).add_set()

    def action_go_left(self) -> None:
        self.query_one(BrowserPane).focus_list()

    def action_next_failing(self) -> None:
        self._go_to_failing(backwards=False)

    def action_previous_failing(self) -> None:
        self._go_to_failing(backwards=True)

    def _go_to_failing(self, *, backwards: bool) -> None:
        self.state.show_project(is_shown=False)
        self.state.select_next_failing(backwards=backwards)
        self._show_cursor_row()

    def action_step_repeat(self, by: int) -> None:
        self.state.step_repeat(by)
        self._refresh_detail()

    def action_toggle_project(self) -> None:
        self.state.show_project(is_shown=not self.state.shows_project)
        self._begins_with_project = False
        self._refresh_detail()
        if self._shows_one_side:  # otherwise the list could hide it
            self.query_one(Frame).pane.focus_first()

    async def action_open_tab(self, tab: str) -> None:
        (await self._open_tab(tab)).focus_first()

    async def action_edit(self) -> None:
        """Open the editor of the case. A case that cannot be edited is shown there too."""
        self.is_refused("edit")
        await self.action_open_tab("case")
        self._go_to_prompt(self.state.selected_case, types=False)

    async def action_accept(self) -> None:
        """Accept the difference under the cursor of the diff, or open the diff."""
        if self.is_refused("accept"):
            return
        frame = self.query_one(Frame)
        if isinstance(frame.pane, DiffPane):
            frame.pane.action_accept_hunk()
        else:
            await self.action_open_tab("diff")

    async def action_accept_case(self) -> None:
        """Open the diff, and ask whether all differences of the case are accepted."""
        if not self.is_refused("accept"):
            await self.action_open_tab("diff")
            self.query_one(DiffPane).action_accept_case()

    def action_branch(self) -> None:
        """Branch from the selected case, by default after the turn at the cursor."""
        if self.state.selected_case is None:
            say(self, "select a case to branch from", severity="warning")
        elif not self.is_refused("branch"):
            turn = self.query_one(Frame).pane.find_turn_at_cursor()
            self.post_message(BranchWanted(self.state.selected_case, turn))

    def action_review(self) -> None:
        """Review the cases that did not pass, or continue a review that was left to edit a case."""
        walk = self._unfinished_review or ReviewWalk(self.state.list_failing_cases())
        self._unfinished_review = None
        if not walk.keys:
            say(self, "no failing case is listed", severity="warning")
            return

        def leave(to_edit: CaseKey | None) -> None:
            if to_edit is not None:
                self._unfinished_review = walk
                say(self, "v continues the review")
                self.post_message(CaseWanted(to_edit, tab="case"))

        self.app.push_screen(ReviewScreen(self.screen_context, walk, self.post_message), leave)

    def action_edit_text(self) -> None:
        key = self.state.selected_case
        if key is not None and not self.is_refused("edit_text"):
            self._saver.edit_case_text(key)

    async def action_toggle_drawer(self, name: str) -> None:
        drawer = self.query_one(Drawer)
        if drawer.has_focus_within:  # a hidden widget would keep the focus
            self.query_one(CaseList).focus()
        self._closes_run_pane = self._closes_run_pane or self._drawer == "run"
        self._long_run = None
        pane = await self._toggle_drawer(name)
        if pane is not None:
            pane.show(self.state.subject())
            pane.focus_first()

    def action_zoom(self) -> None:
        self.toggle_class("-zoomed")
        self._show_sides()

    def action_widen(self, by: int) -> None:
        if not self._shows_one_side:
            self._set_left_width(self.query_one("#left").outer_size.width + by)

    def action_open_table(self) -> None:
        from workbench.tui.dialogs.results_screen import TableScreen  # seldom needed, and never at the start

        self._open_table(TableScreen(self.screen_context, scope=Scope.from_row(self.state.browser.selected_row)))

    @work(group="table", exclusive=True, description="open table")
    async def _open_table(self, table: TableScreen) -> None:
        """Show a table of results, and go to the case that is chosen there."""
        case = await self.app.push_screen_wait(table)
        if case is not None and table.search:
            self.post_message(CaseWanted(case))
            self.open_search(table.search, case)
        elif case is not None:
            branched = table.branched_row
            wanted = CaseWanted(case, tab="diff") if branched is None else BranchWanted(case, repeat=branched.repeat)
            self.post_message(wanted)

    def action_copy(self) -> None:
        """Copy the text selected with the mouse, or else what the focused pane offers."""
        copy(self, self.get_selected_text() or find_copyable_text(self.focused, otherwise=self.query_one(Frame).pane))

    def action_undo(self) -> None:
        """Undo the last edit of the selected eval set, or the last change of the files of sets."""
        self._saver.undo(self.state.selected_set)

    def action_redo(self) -> None:
        self._saver.redo(self.state.selected_set)

    def action_save(self) -> None:
        if self.state.selected_set is not None:
            self._saver.save(self.state.selected_set)

    def action_reload(self) -> None:
        if self.state.project is not None:
            self._reader.reload_with_addresses()

    async def _toggle_drawer(self, name: str) -> Pane | None:
        pane = await self.query_one(Drawer).toggle(name)
        self._drawer = name if pane is not None else None
        return pane

    async def _open_tab(self, tab: str) -> Pane:
        self.state.show_project(is_shown=False)
        before = self.query_one(Frame).pane
        had_focus = before.has_focus_within
        await self.query_one(Frame).open(tab)
        self._tab = tab
        self._refresh_detail()
        pane = self.query_one(Frame).pane
        if had_focus and pane is not before:  # a hidden widget would keep the focus
            pane.focus_first()
        self.refresh_bindings()
        return pane

    @on(BrowserPane.CursorMoved)
    def _show_cursor_row(self) -> None:
        self.state.leave_row()
        self.refresh_overview()
        self._reader.read_selected_soon()

    # What the palette goes to.

    def go_to_row(self, key: RowKey) -> None:
        """Select a row of the eval sets and focus it; a filter that hides it ends."""
        self.query_one(BrowserPane).go_to(key)
        self.query_one(BrowserPane).focus_list()

    def list_matching(self, text: str) -> None:
        """List only the cases that match a filter."""
        self.query_one(BrowserPane).list_matching(text)
        self.query_one(BrowserPane).focus_list()

    def open_run(self, run_id: str) -> None:
        """Show the results of a stored run as a table."""
        from workbench.tui.dialogs.results_screen import TableScreen  # seldom needed, and never at the start

        self._open_table(TableScreen(self.screen_context, run_id=run_id))

    # Messages of the panes.

    @on(BrowserPane.Opened)
    def _on_opened(self) -> None:
        if self.state.shows_project:
            self.state.show_project(is_shown=False)
            self._refresh_detail()
        pane = self.query_one(Frame).pane
        if pane.is_mounted:  # otherwise opening the tab focuses it
            pane.focus_first()

    @on(BrowserPane.AddressOpened)
    def _on_address_opened(self, message: BrowserPane.AddressOpened) -> None:
        self._reader.read_address(message.listed)

    @on(SaveWanted)
    def _on_save_wanted(self, message: SaveWanted) -> None:
        self._saver.save(message.eval_set)

    @on(RunWanted)
    def _on_run_wanted(self, message: RunWanted) -> None:
        self._runs.start(lambda: message)

    @on(RunBegun)
    def _on_run_begun(self, message: RunBegun) -> None:
        self._runs.follow_started(message.run, message.jobs, is_shown=message.is_shown)

    @on(CaseWanted)
    async def _show_case(self, wanted: CaseWanted) -> None:
        self.query_one(BrowserPane).select(wanted.key)
        self._show_cursor_row()
        if wanted.tab is not None:
            await self._open_tab(wanted.tab)

    @on(BranchWanted)
    async def _on_branch_wanted(self, message: BranchWanted) -> None:
        from workbench.tui.panes.chat_pane import ChatPane  # imported with its tab

        await self._show_case(CaseWanted(message.case, tab="chat"))
        self.query_one(ChatPane).branch_case(message.case, turn=message.turn, repeat=message.repeat)

    @on(TabWanted)
    async def _on_tab_wanted(self, message: TabWanted) -> None:
        await self._open_tab(message.tab)
        self._go_to_prompt(message.types_prompt_of, types=True)

    def _go_to_prompt(self, case: CaseKey | None, *, types: bool) -> None:
        from workbench.tui.panes.case_pane import CasePane  # imported with its tab

        pane = self.query_one(Frame).pane
        if case is not None and isinstance(pane, CasePane):
            pane.go_to_prompt(case, types=types)

    @on(TabBar.Chosen)
    async def _on_tab_chosen(self, message: TabBar.Chosen) -> None:
        await self._open_tab(list(TABS)[message.index])

    @on(SessionWanted)
    async def _on_session_wanted(self, message: SessionWanted) -> None:
        self.state.pinned = message.pinned
        if message.tab is not None:
            await self._open_tab(message.tab)
        self.refresh_all()

    @on(DocumentsChanged)
    def _on_documents_changed(self, message: DocumentsChanged) -> None:
        self._reader.reread_sets(message.eval_sets)
        self._runs.score_undone(message.eval_sets)
        self._verdicts.check(message.eval_sets)
        for search in self.searches.values():
            search.on_sets_changed(message.eval_sets)

    @on(ProblemsPane.ConflictOpened)
    def _on_conflict_opened(self, message: ProblemsPane.ConflictOpened) -> None:
        self._saver.decide(message.eval_set)

    @on(ProblemsPane.RecoveriesOpened)
    def _on_recoveries_opened(self) -> None:
        self._saver.offer_recoveries()

    @on(ProjectChanged)
    def _on_project_changed(self, message: ProjectChanged) -> None:
        self._reader.reload(message.select)

    # Messages of the controllers.

    @on(ReadController.Opened)
    def _on_opened_project(self) -> None:
        self._saver.offer_recoveries()
        if self._layout.watching and not self._watching.is_active:
            self._watching.toggle()
        self._start_verdict_checks()

    @on(VerdictController.Checked)
    def _on_checked(self, message: VerdictController.Checked) -> None:
        self.query_one(BrowserPane).mark_outdated()
        self.refresh_overview()
        if self.state.selected_case in message.cases:
            self._refresh_detail()
            self._reader.read_selected()
        elif self.state.shows_group:
            self._refresh_detail()

    @on(SaveController.TextsLeft)
    async def _on_texts_left(self) -> None:
        await self.query_one(Frame).prepare("case")  # the pane takes the texts over

    @on(ReadController.ProjectRead)
    def _on_project_read(self) -> None:
        if self._begins_with_project and self.state.project is not None:  # with one agent, its row says the same
            self.state.show_project(is_shown=len(self.state.project.targets) > 1)
            self._begins_with_project = False
        self.refresh_all()
        self._reader.read_selected()  # its results may have been listed after the case was read

    @on(ReadController.SetsRead)
    def _on_sets_read(self) -> None:
        self.query_one(BrowserPane).read_contents()
        self.refresh_overview()

    @on(ReadController.SelectionWanted)
    def _on_selection_wanted(self, message: ReadController.SelectionWanted) -> None:
        self.query_one(BrowserPane).select(message.place)
        self._show_cursor_row()

    @on(RunController.Prepared)
    def _on_prepared(self) -> None:
        self.refresh_overview()
        self._reader.read_selected()

    @on(RunController.Followed)
    def _on_followed(self, message: RunController.Followed) -> None:
        if self._watching.is_active:
            self._watching.note_run(message.followed.run, message.followed.jobs)

    @on(WatchController.Turned)
    def _on_turned(self) -> None:
        self.refresh_all()
        if self._watching.is_active:
            self._verdicts.stop_observing()
        else:
            self._verdicts.observe_saves()

    @on(ReadController.Reread)
    def _start_verdict_checks(self) -> None:
        """Check all verdicts now, and after each save. A watch does both itself."""
        self._verdicts.check()
        if not self._watching.is_active:
            self._verdicts.observe_saves()
