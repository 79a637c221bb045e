"""What the keys of the main screen do: each changes the state, or asks it of the part whose work it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.screen import Screen

from workbench.store.layouts import Layout
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.messages import RunWanted
from workbench.tui.panes.browser import BrowserPane
from workbench.tui.panes.copying import copy, copyable_at
from workbench.tui.panes.diff.pane import DiffPane
from workbench.tui.panes.pane import Pane
from workbench.tui.screens.drawer import Drawer
from workbench.tui.screens.frame import TABS, Frame
from workbench.tui.screens.keeper import Keeper
from workbench.tui.screens.reader import Reader
from workbench.tui.screens.running import Running
from workbench.tui.screens.saved_files import SavedFiles
from workbench.tui.screens.shown import Shown
from workbench.tui.screens.sides import Sides
from workbench.tui.screens.verdict_checker import VerdictChecker
from workbench.tui.screens.visits import Visits
from workbench.tui.screens.watching import Watching
from workbench.tui.state.possible import is_worth_offering, makes_sense, why_not, why_nothing
from workbench.tui.widgets.case_list import CaseList
from workbench.tui.widgets.saying import say


class MainActions(Screen[None]):
    """The parts that work for the main screen, and its actions. What is on it, and what its panes ask, is elsewhere."""

    PLACES: ClassVar[tuple[str, ...]] = ("screen",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("screen")]

    def __init__(self, hub: Hub, layout: Layout) -> None:
        super().__init__()
        self._layout = layout
        self._tab = layout.tab if layout.tab in TABS else "diff"
        self.state = hub.state
        self._hub = hub
        self._reader = Reader(hub)
        self._keeper = Keeper(hub)
        self._runs = Running(
            hub,
            read_sets=self._reader.read_all_sets,
            read_addresses=self._reader.read_addresses,
            save=self._keeper.save_these,
            played=self._reader.read_verdicts,
        )
        self._visits = Visits(hub)
        self._watching = Watching(
            hub,
            follow=self._runs.follow_watch,
            going_on=self._runs.going_on,
            in_sight=lambda: self.query_one(CaseList).cases_in_sight(),
        )
        self._checker = VerdictChecker(hub)
        self._saved_files = SavedFiles(hub)
        self._sides = Sides(self)
        self._shown = Shown(self, hub.state)
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
        self._watching.turn_off()

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
