"""Keeps the shown verdicts current: starts the watch and applies its events, or checks verdicts while no watch runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal, Protocol

from textual.app import App
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from workbench.engine.plan import PlanError
from workbench.model.identity import CaseKey, JobKey
from workbench.model.run_events import Notice
from workbench.model.text import one_line
from workbench.store.errors import StoreError, shown_path
from workbench.tui.backend.watch_calls import Watch
from workbench.tui.screen_context import Controller, ScreenContext, background
from workbench.tui.screens.plan_screen import PlanScreen
from workbench.tui.screens.run_controller import FollowedRun
from workbench.tui.state.browser_state import select_all
from workbench.tui.state.case_status import ResultLocation
from workbench.tui.state.watch_state import ReusedVerdict, WatchMode
from workbench.tui.widgets.key_line import say

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.tui.state.watch_state import ScreenEvent


# Without a watch: checks of the shown verdicts, at start, on reload and after saves.

_BETWEEN = 1.0  # seconds between two messages, because many cases take long to show
_CALM = 0.3  # seconds without another change before the check begins
_LOOK = 5.0  # seconds between two looks for verdicts of other processes
_CHUNK = 500  # cases that are looked up before key presses are processed


class VerdictController(Controller):
    """Checks verdicts in the background. A later check includes what an earlier one has not checked yet."""

    @dataclass
    class Checked(Message):
        """The verdicts of these cases have become stale, or current."""

        cases: Collection[CaseKey]

    def __init__(self, widget: Widget, context: ScreenContext, *, on_save: Callable[[], None]) -> None:
        """`on_save` is called for each observed save."""
        super().__init__(widget, context)
        self._on_save = on_save
        self._pending: set[str] = set()  # eval sets
        self._check_worker: Worker[None] | None = None
        self._observer: Worker[None] | None = None
        self._timer: Timer | None = None

    def check(self, eval_sets: Collection[str] | None = None) -> None:
        """Check the verdicts of these eval sets, by default of all. Do nothing under watch, which checks itself."""
        if self.state.watch.is_active:
            self._pending.clear()
            return
        self._pending.update(
            {each.relative for each in self.state.browser.file_sets} if eval_sets is None else eval_sets
        )
        self._check_worker = self._check()

    @background(group="check_verdicts", exclusive=True)
    async def _check(self) -> None:
        await asyncio.sleep(_CALM)
        board, ended = self.state.board, dict[CaseKey, int]()
        shown = dict[CaseKey, Mapping[int, ResultLocation | None]]()
        sets = (each.case_keys for each in self.state.browser.file_sets if each.relative in self._pending)
        remaining = chain.from_iterable(sets)
        while keys := list(islice(remaining, _CHUNK)):
            some = board.find_verdicts_by_case(keys)
            shown.update(some)
            ended.update({key: record.result_number for key in some if (record := board.get_record(key)) is not None})
            await asyncio.sleep(0)
        if shown:
            changed, reported = set[CaseKey](), time.monotonic()
            with contextlib.suppress(StoreError):  # the reader of the stored results has reported it
                async for checked in self.backend.verdict_check.check(shown):
                    if self.state.watch.is_active:
                        return
                    changed |= self.state.apply_check(checked, ended=ended)
                    if changed and time.monotonic() - reported > _BETWEEN:
                        self.post_message(self.Checked(changed))
                        changed, reported = set(), time.monotonic()
            if changed:
                self.post_message(self.Checked(changed))
        self._pending.clear()

    def observe_saves(self) -> None:
        """Check after each save, and after runs of other processes, until `stop_observing`."""
        self._observer = self._observe()
        if self._timer is None:
            self._timer = self.widget.set_interval(_LOOK, self._look_for_verdicts)
        self._timer.resume()

    def stop_observing(self) -> None:
        """Leave the files to the watch."""
        if self._observer is not None:
            self._observer.cancel()
        if self._timer is not None:
            self._timer.pause()

    async def close(self) -> None:
        """Stop observing, and wait until no thread of the observer is left."""
        self.stop_observing()
        if self._observer is not None:
            with contextlib.suppress(WorkerCancelled, WorkerFailed):
                await self._observer.wait()

    @background(group="observe_saves", exclusive=True)
    async def _observe(self) -> None:
        # A history that cannot be read was reported already. F5 and the next start check without observing.
        with contextlib.suppress(StoreError, OSError):
            await self.backend.saved_files.observe(self._check_after_save)

    @background(group="read_verdicts", exclusive=True)
    async def _look_for_verdicts(self) -> None:
        if self._check_worker is not None and not self._check_worker.is_finished:
            return  # the next look finds them: a check would begin again and again while another program runs cases
        with contextlib.suppress(StoreError):  # as above
            if await self.backend.verdict_check.read_new():
                self.check()

    def learn_dependencies(self) -> None:
        """Observe the files soon that runs have used since."""
        self.backend.saved_files.learn()

    def _check_after_save(self) -> None:
        self._on_save()
        self.check()


# Alerts: a failure must be noticed by a user who is in the editor or in another window.

How = Literal["desktop", "bell", "toast", "off"]

_WIDTH = 200


def alert(app: App[object], message: str, reason: str, *, how: How) -> None:
    """Show a message with its reason; also ring the bell or notify the desktop, depending on `how`.

    The text may come from outside.
    """
    if how == "off":
        return
    text = f"{message}: {reason}" if reason else message
    say(app, text, severity="error")
    if how == "toast":
        return
    app.bell()
    if how == "desktop":
        _write(app, notification(text, in_tmux="TMUX" in os.environ))


def notification(text: str, *, in_tmux: bool) -> str:
    """Return the sequence (OSC 9) that shows a desktop notification; terminals without support ignore it.

    Tmux passes it only if it is wrapped, and its settings allow that. The text never begins with a number, which some
    terminals would take for another command.
    """
    sequence = f"\x1b]9;workbench: {one_line(text, width=_WIDTH)}\x07"
    if not in_tmux:
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _write(app: App[object], sequence: str) -> None:
    """Write to the terminal directly, as Textual does for its bell.

    It has no public way. Without the private one, the message and the bell remain.
    """
    driver: Driver | None = getattr(app, "_driver", None)
    if driver is not None and not app.is_headless:
        driver.write(sequence)


# The controller.

_PATIENCE = 3.0  # seconds for runs to end when the watch is turned off
_POLL_INTERVAL = 0.02  # seconds
_VISIBLE_SECONDS = 0.1  # for which the visible cases are known
_REFRESH_INTERVAL = 1.0  # seconds between two checks of verdicts that manual runs bring


class Follow(Protocol):
    """Starts to follow a run of the watch. The caller adds the events of the run to the result."""

    def __call__(self, run: Run, jobs: Sequence[JobKey], *, why: str) -> FollowedRun: ...


@dataclass
class WatchUpdate:
    """Effects of applied events: cases whose status changed, files that were saved, and those that were removed.

    `has_more`: further events wait until the screen has processed the events of runs that precede them.
    """

    has_events: bool = False
    changed: set[CaseKey] = field(default_factory=set)
    saved: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    has_more: bool = False

    def merge(self, later: WatchUpdate) -> WatchUpdate:
        """Return both updates as one."""
        removed = (self.removed - later.saved) | later.removed
        return WatchUpdate(
            self.has_events or later.has_events, self.changed | later.changed, self.saved | later.saved, removed
        )


class WatchController(Controller):
    """Controls the watch. The watch and manual runs never wait for each other."""

    @dataclass
    class Turned(Message):
        """The watch was turned on or off, paused or resumed."""

    def __init__(
        self,
        widget: Widget,
        context: ScreenContext,
        *,
        follow: Follow,
        find_manual_runs: Callable[[], Sequence[FollowedRun]],
        find_visible_cases: Callable[[], Collection[CaseKey]],
        wake: Callable[[], None],
    ) -> None:
        """Visible cases run before others. `wake` has `apply_events` called soon."""
        super().__init__(widget, context)
        self._follow = follow
        self._find_manual_runs = find_manual_runs
        self._find_visible_cases = find_visible_cases
        self._wake = wake
        self._visible: Collection[CaseKey] = ()
        self._visible_at = 0.0
        self._watch: Watch | None = None
        self._runs: dict[str, FollowedRun] = {}
        self._refreshed_at = 0.0

    @property
    def is_active(self) -> bool:
        return self.state.watch.is_active

    @property
    def has_news(self) -> bool:
        """True if `apply_events` has something to do, now or at a certain time."""
        if self._watch is None:
            return False
        waiting = (self._watch.events, self.state.events_elsewhere, self.state.results_elsewhere)
        return any(waiting) or self.state.watch.has_alarm

    async def shut_down(self) -> None:
        """Close the watch with the screen."""
        if self._watch is not None:
            await self._watch.close()

    def toggle(self) -> None:
        """Turn the watch on; pause or resume it if it is on."""
        watch = self.state.watch
        if watch.mode is WatchMode.OFF:
            judges, sets = self.state.browser.judges, self.state.browser.file_sets
            if any(judges.values()) or any(each.relative not in judges for each in sets):  # or not known yet
                self._ask_and_start()
            else:
                self._start()
            return
        if self._watch is None:
            return  # it is being opened or closed
        if watch.mode is WatchMode.PAUSED:
            watch.resume()
            self._watch.session.resume()
        else:
            watch.pause()
            self._watch.session.pause()
        self.post_message(self.Turned())

    def _start(self) -> None:
        self.state.watch.start()
        self._open()
        self.post_message(self.Turned())

    @background(group="ask_watch", exclusive=True)
    async def _ask_and_start(self) -> None:
        """Show what all cases may cost before the first judge is asked; then turn the watch on if the user wants it."""
        browser = self.state.browser
        remote = {listed.relative for listed in browser.file_sets if listed.is_address}  # which no watch reads
        watched = [each for each in select_all(browser) if each.eval_set not in remote]
        try:
            planned = await self.backend.runs.plan(watched)
        except (PlanError, StoreError):
            planned = None  # the watch says why
        if planned is not None and planned.asks and planned.cost is not None and planned.cost.judges:
            title = "watch? each save runs those of these cases that it affects"
            if await self.app.push_screen_wait(PlanScreen(self.context, planned, title=title, enter="watch")) is None:
                return
        if self.state.watch.mode is WatchMode.OFF:
            self._start()

    def close(self) -> None:
        """Turn the watch off, and end its runs."""
        if self._watch is not None:
            self._close(self._watch)

    def run_held(self) -> None:
        """Run the jobs that exceed the limits for one change."""
        if self._watch is not None:
            self._watch.session.run_held()

    def note_run(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """Note that a manual run is in progress, and that these jobs of it have not started."""
        if self._watch is not None:
            self._watch.session.note_run(run, jobs)

    def apply_events(self, *, now: float) -> WatchUpdate:
        """Apply the events since the last call to the state."""
        update = WatchUpdate()
        if self._watch is None:
            return update
        for run_id, run_events in self.state.events_elsewhere:
            self._watch.session.note_events(run_id, run_events)
        self.state.events_elsewhere.clear()
        events = self._watch.events
        while events and not update.has_more:
            update.has_events = True
            if self._must_wait(events[0]):
                update.has_more = True
            else:
                self._apply(events.popleft(), update, now=now)
        if not events and (failure := self._watch.find_failure()):
            update.has_events = True
            self._end(failure)
            say(self.widget, f"the watch ended: {failure}", severity="error")
            return update
        if (alarm := self.state.watch.announce_alarm(now=now)) is not None:
            alert(self.app, *alarm, how=self._watch.settings.notify)
        self._refresh_verdicts(now=now)
        return update

    def _must_wait(self, event: ScreenEvent) -> bool:
        """Return True if the screen has to process events of runs first, to show all events in their order."""
        from workbench.watch.watch_events import WatchRunStarted

        return isinstance(event, ReusedVerdict | WatchRunStarted) and any(run.has_news for run in self._runs.values())

    def _apply(self, event: ScreenEvent, update: WatchUpdate, *, now: float) -> None:
        from workbench.watch.watch_events import AllKnown, ChangeSeen, SourceBroken, WatchRunEvent, WatchRunStarted

        broken = {each.path for each in self.state.watch.broken}
        update.changed.update(self.state.watch.apply(event, now=now))
        for path in sorted(broken.difference(each.path for each in self.state.watch.broken)):
            say(self.widget, f"no case waits for {path} any more")
        match event:
            case WatchRunEvent():
                followed = self._runs.get(event.run_id)
                if followed is not None and not isinstance(event.event, Notice):  # notices also come on their own
                    followed.add(event.event)
            case Notice():
                for notice in self.state.apply([event], now=now).notices:
                    say(self.widget, notice.message, severity=notice.severity)
            case WatchRunStarted():
                self._runs[event.run.run_id] = self._follow(event.run, event.jobs, why=event.reason)
            case SourceBroken():
                say(self.widget, f"{event.place} cannot be compiled: {event.message}", severity="warning")
            case ChangeSeen():
                shown = [shown_path(self.state.watch.root / path) for path in event.paths]
                self.state.problems.drop_run_problems([*event.paths, *shown])
                update.saved.update(event.paths)
                update.removed.difference_update(event.paths)
                update.removed.update(event.removed)
                if event.held:
                    say(
                        self.widget,
                        f"{event.held}: not run automatically, {self.state.find_key('run_held')} runs them",
                        severity="warning",
                        needs_decision=True,
                    )
            case AllKnown():
                self.state.watch.complete_alarms()
                self._runs = {name: run for name, run in self._runs.items() if not run.is_complete}

    def _refresh_verdicts(self, *, now: float) -> None:
        """Let the watch report which results of manual runs are current."""
        results = self.state.results_elsewhere
        if self._watch is None or not results or now - self._refreshed_at < _REFRESH_INTERVAL:
            return
        self._refreshed_at = now
        self._watch.note_results(dict(results))
        results.clear()

    @background(group="watch")
    async def _open(self) -> None:
        try:
            watch = await self.backend.watching.open(
                shown=self.state.board.find_verdict_locations(), priority=self._compute_priority, on_event=self._wake
            )
        except (PlanError, StoreError) as error:
            self.state.watch.end(str(error))
            say(self.widget, f"it cannot be watched: {error}", severity="error")
        else:
            self.state.results_elsewhere.clear()
            self.state.events_elsewhere.clear()
            self._watch = watch
            for followed in self._find_manual_runs():
                if followed.progress is not None:
                    watch.session.note_run(followed.run, tuple(followed.progress.jobs.waiting))
            if self.state.watch.mode is WatchMode.PAUSED:
                watch.session.pause()
            self._wake()
        self.post_message(self.Turned())

    @background(group="watch")
    async def _close(self, watch: Watch) -> None:
        watch.session.pause()
        for followed in self._runs.values():
            followed.cancel()
        until = time.monotonic() + _PATIENCE
        while not all(run.is_complete for run in self._runs.values()) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_INTERVAL)
        if self._watch is watch:
            self._end("")
        await watch.close()
        self.post_message(self.Turned())

    def _end(self, failure: str) -> None:
        self._watch = None
        for followed in self._runs.values():
            followed.end()
        self._runs.clear()
        self.state.watch.end(failure)
        self.post_message(self.Turned())

    def _compute_priority(self, job: JobKey) -> float:
        """Return the smallest number for the selected case, then visible cases, then the rest."""
        if job.case == self.state.selected_case:
            return 0
        if time.monotonic() - self._visible_at > _VISIBLE_SECONDS:
            with contextlib.suppress(NoMatches):  # the screen is being closed
                self._visible, self._visible_at = self._find_visible_cases(), time.monotonic()
        return 1 if job.case in self._visible else 2
