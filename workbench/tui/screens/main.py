"""The main screen: eval sets on the left, the selected case on the right, the run below.

It connects the three sides: what the user does changes the state or goes to the gateway, what comes back changes the
state, and the state is shown. Whatever arrives often is shown at most ten times a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from workbench.engine.plan import PlanError, Selection
from workbench.engine.run import Run
from workbench.model.events import RunEvent
from workbench.store.errors import StoreError
from workbench.tui.gateway import Gateway
from workbench.tui.keymap import bindings
from workbench.tui.state.browser import ListedSet
from workbench.tui.state.pieces import safe
from workbench.tui.state.project import OpenedProject, ProjectState
from workbench.tui.widgets.case_list import CaseList
from workbench.tui.widgets.case_pane import CasePane
from workbench.tui.widgets.filter_input import FilterInput, FilterLine
from workbench.tui.widgets.lines import StatusLine

_TICK = 0.1  # seconds between two updates of what changes by itself
_SETTLE = 0.03  # seconds the cursor rests before the case under it is read
_PATIENCE = 0.15  # seconds after which reading a case is shown as such
_CHUNK = 1_000  # of what comes by the ten thousand, taken at once
_MOST_EVENTS = 4_000  # taken in one tick, so that a tick stays short


class MainScreen(Screen[None]):
    """The one screen of the application."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("screen")

    @dataclass
    class OpenFailed(Message):
        """The project could not be opened."""

        reason: str

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self.state = ProjectState()
        self._gateway = gateway
        self._run: Run | None = None
        self._events: deque[RunEvent] = deque()
        self._changed = False
        self._settling: Timer | None = None
        self._possible: tuple[bool | None, ...] = ()

    def compose(self) -> ComposeResult:
        """Header, list and pane, run line, footer."""
        yield StatusLine(id="header")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield FilterLine(id="filter")
                yield CaseList(id="case-list")
            yield CasePane(id="case-pane")
        yield StatusLine(id="run-line")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Open the project; the screen shows meanwhile that it does."""
        self.set_interval(_TICK, self._tick)
        self._show()
        self._show_detail()
        self.query_one(CaseList).focus()
        self._open()

    def on_resize(self) -> None:
        """Rows and lines have another width now."""
        self._show()

    # What the user did in the list.

    @on(CaseList.Moved)
    def _on_moved(self, message: CaseList.Moved) -> None:
        self.state.browser.move(message.by)
        self._after_cursor()

    @on(CaseList.WentTo)
    def _on_went_to(self, message: CaseList.WentTo) -> None:
        self.state.browser.move_to(message.index)
        self._after_cursor()

    @on(CaseList.Folded)
    def _on_folded(self) -> None:
        self.state.browser.fold()
        self._after_cursor()

    @on(CaseList.Unfolded)
    def _on_unfolded(self) -> None:
        self.state.browser.unfold()
        self._after_cursor()

    @on(CaseList.Toggled)
    def _on_toggled(self) -> None:
        self.state.browser.toggle()
        self._after_cursor()

    @on(CaseList.Entered)
    def _on_entered(self) -> None:
        self.query_one(CasePane).focus()

    @on(FilterInput.Changed)
    def _on_filter_changed(self, message: FilterInput.Changed) -> None:
        self.state.filter(message.value)
        self._after_cursor()

    @on(FilterInput.Submitted)
    @on(FilterInput.Left)
    def _on_filter_left(self) -> None:
        self.query_one(CaseList).focus()

    # What the keys of the screen do.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Which actions make sense now: False hides one from the footer, None shows it dimmed."""
        if action in ("run_selected", "run_all", "run_failed"):
            return True if self._can_run(action) else None
        if action == "cancel_run":
            return self.state.is_running
        if action == "filter":
            return not isinstance(self.focused, FilterInput)
        if action in ("next_failing", "previous_failing"):
            return self.state.has_failing
        return True

    def action_run_selected(self) -> None:
        """Run the selected case, set or target."""
        place = self.state.selected_place
        self._start(lambda: self.state.selections_at(place))

    def action_run_all(self) -> None:
        """Run every case that can run."""
        self._start(self.state.all_selections)

    def action_run_failed(self) -> None:
        """Run the cases that did not pass when they last ran."""
        self._start(self.state.failed_selections)

    def action_cancel_run(self) -> None:
        """Stop the run; what has finished stays."""
        if self._run is not None and self.state.progress is not None:
            self.state.progress.cancelling = True
            self._run.cancel()
            self._show()

    def action_next_failing(self) -> None:
        """Go to the next case that did not pass."""
        self.state.go_to_failing()
        self._after_cursor()

    def action_previous_failing(self) -> None:
        """Go to the previous case that did not pass."""
        self.state.go_to_failing(backwards=True)
        self._after_cursor()

    def action_filter(self) -> None:
        """List only some cases."""
        self.query_one(FilterLine).open()

    def action_reload(self) -> None:
        """Look again which eval sets there are and what is in them."""
        if self.state.project is not None:
            self._reload()

    # What goes to the gateway and comes back.

    @work(group="open")
    async def _open(self) -> None:
        try:
            project = await self._gateway.open()
        except (StoreError, PlanError) as error:
            self.post_message(self.OpenFailed(str(error)))
            return
        await self._list(project)

    @work(group="open", exclusive=True)
    async def _reload(self) -> None:
        try:
            project = await self._gateway.reload()
        except StoreError as error:
            self._say(str(error), severity="error")
            return
        await self._list(project)

    async def _list(self, project: OpenedProject) -> None:
        self.state.open(project)
        for problem in project.problems:
            self._say(problem, severity="warning")
        self._show()
        self._show_detail()
        await self._read_sets(project.sets)
        self._show()
        await self._show_stored()

    async def _read_sets(self, sets: Sequence[ListedSet]) -> None:
        """Read what is in these sets, as far as they have changed since they were read last."""
        for listed in sets:
            read = await self._gateway.list_set(listed)
            if read is not listed:
                self.state.list_set(read)
                self._changed = True

    async def _show_stored(self) -> None:
        """Show how cases ended in earlier sessions, and the selected row with all that is known of it."""
        try:
            stored = await self._gateway.stored_jobs()
        except StoreError as error:
            self._say(f"earlier results cannot be shown: {error}", severity="warning")
            stored = {}
        cases = list(stored)
        for start in range(0, len(cases), _CHUNK):
            self.state.show_stored({key: stored[key] for key in cases[start : start + _CHUNK]})
            await asyncio.sleep(0)
        self._changed = True
        self._read_selected()

    def _start(self, select: Callable[[], Sequence[Selection]]) -> None:
        self.app.clear_notifications()  # what earlier runs had to say
        self.state.is_preparing = True
        self._show()
        self._follow(select)

    @work(group="run")
    async def _follow(self, select: Callable[[], Sequence[Selection]]) -> None:
        """Start a run of what is to be run once the files are read again, and take its events, which `_tick` shows."""
        try:
            await self._read_sets(self.state.browser.sets)
            self._read_selected()
            run, jobs = await self._gateway.start(select())
        except (PlanError, StoreError) as error:
            self._say(str(error), severity="error")
            return
        finally:
            self.state.is_preparing = False
            self._changed = True
        self._run = run
        for problem in run.plan.problems:
            self._say(problem, severity="error")
        self.state.begin_run(total=len(jobs), now=time.monotonic())
        for start in range(0, len(jobs), _CHUNK):
            self.state.expect(jobs[start : start + _CHUNK])
            await asyncio.sleep(0)
        count = 0
        async for event in run.events():
            self._events.append(event)
            count += 1
            if count % 200 == 0:
                await asyncio.sleep(0)  # a long burst of events must not hold up a key press

    @work(group="read", exclusive=True)
    async def _read_selected(self) -> None:
        """Read the case under the cursor and show it; a later call replaces an earlier one."""
        key = self.state.selected_case
        if key is not None and not self.state.has_read(key):
            waiting = self.set_timer(_PATIENCE, self._show_detail)
            try:
                self.state.show_case(await self._gateway.read_case(key, stored=self.state.lacks_results(key)))
            finally:
                waiting.stop()
        self._show_detail()

    # Showing.

    def _tick(self) -> None:
        """Take what arrived since the last tick and show it."""
        taken = [self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))]
        now = time.monotonic()
        applied = self.state.apply(taken, now=now)
        for notice in applied.notices:
            self._say(notice.message, severity=notice.severity)
        if taken or self._changed:
            self._changed = False
            self._show()
            if self.state.shows_other_than_a_case or self.state.selected_case in applied.changed:
                self._show_detail()
        elif self.state.is_running:
            self.query_one("#run-line", StatusLine).show(self.state.run_line(now=now))

    def _after_cursor(self) -> None:
        self._show()
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(_SETTLE, self._read_selected)

    def _show(self) -> None:
        """Show everything but the detail of the selected row."""
        self.query_one("#header", StatusLine).show(self.state.header())
        self.query_one(CaseList).show(self.state)
        self.query_one("#run-line", StatusLine).show(self.state.run_line(now=time.monotonic()))
        possible = tuple(self.check_action(action, ()) for action in _CHANGING_ACTIONS)
        if possible != self._possible:
            self._possible = possible
            self.refresh_bindings()

    def _show_detail(self) -> None:
        self.query_one(CasePane).show(self.state.detail())

    def _say(self, message: str, *, severity: str) -> None:
        """A short message over the screen. Its text may come from outside."""
        self.notify(safe(message), severity=severity, markup=False, timeout=10)  # type: ignore[arg-type]

    def _can_run(self, action: str) -> bool:
        if self.state.is_running or self.state.is_preparing:
            return False
        if action == "run_failed":
            return self.state.has_failing
        return self.state.has_agents if action == "run_all" else self.state.has_agent_selected


_CHANGING_ACTIONS = ("run_selected", "run_all", "run_failed", "cancel_run", "next_failing")
