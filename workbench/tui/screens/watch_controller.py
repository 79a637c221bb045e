"""Starts the watch and takes what it reports to the screen."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from textual import work
from textual.app import App
from textual.message import Message

from workbench.engine.plan import PlanError
from workbench.model.identity import CaseKey, JobKey
from workbench.model.run_events import Notice
from workbench.model.text import one_line
from workbench.store.errors import StoreError
from workbench.tui.backend.watch_calls import Watch
from workbench.tui.screen_messages import Faceless, ScreenContext
from workbench.tui.screens.run_controller import FollowedRun
from workbench.tui.state.text_layout import safe
from workbench.tui.state.watch_state import (
    Begun,
    BrokenTold,
    Changed,
    Ended,
    HoldsAgain,
    OfRun,
    Quiet,
    WatchMode,
    WatchNews,
)
from workbench.tui.widgets.inputs import say

if TYPE_CHECKING:
    from workbench.engine.run import Run


# Says that something has gone wrong to somebody who may be looking elsewhere: in the editor, or at another window.

How = Literal["desktop", "bell", "toast", "off"]

_WIDTH = 200


def alert(app: App[object], message: str, reason: str, *, how: How) -> None:
    """Show a message with its reason; the terminal's bell and a notification of the desktop besides, as it is wanted.

    The text may come from outside.
    """
    if how == "off":
        return
    text = f"{message}: {reason}" if reason else message
    app.notify(safe(text), severity="error", markup=False, timeout=15)
    if how == "toast":
        return
    app.bell()
    if how == "desktop":
        _write(app, notification(text, in_tmux="TMUX" in os.environ))


def notification(text: str, *, in_tmux: bool) -> str:
    """What makes terminals that can (OSC 9) show a notification of the desktop; others pass it over.

    Tmux only lets it through where it is wrapped, and allowed to. The text never begins with a number, which some
    terminals would take for another order.
    """
    sequence = f"\x1b]9;workbench: {one_line(text, width=_WIDTH)}\x07"
    if not in_tmux:
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _write(app: App[object], sequence: str) -> None:
    """Past what is drawn; Textual itself does so for its bell, and has no public way for others."""
    if app._driver is not None and not app.is_headless:
        app._driver.write(sequence)


# Turns the watch on and off, takes up what it tells, and has its runs followed.

_PATIENCE = 3.0  # seconds in which what runs has to end when the watch is turned off
_MOMENT = 0.02  # seconds; ticks take up what ends the runs
_AGAIN = 1.0  # seconds between two looks at which verdicts hold, while the user's run brings new ones


class Follow(Protocol):
    """Begins to follow a run of the watch, whose events are added to what it gives."""

    def __call__(self, run: Run, jobs: Sequence[JobKey], *, why: str) -> FollowedRun: ...


@dataclass
class Taken:
    """What the watch told: whether anything, which cases stand otherwise now, which files were saved, which are gone.

    With `has_more` the rest comes once what its runs said so far is shown: it is told in the order in which it is true.
    """

    is_news: bool = False
    changed: set[CaseKey] = field(default_factory=set)
    saved: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    has_more: bool = False

    def and_then(self, later: Taken) -> Taken:
        """Both in one."""
        gone = (self.gone - later.saved) | later.gone
        return Taken(self.is_news or later.is_news, self.changed | later.changed, self.saved | later.saved, gone)


class Watching(Faceless):
    """The watch. It never keeps the user's runs waiting, nor they it: both go on side by side."""

    @dataclass
    class Turned(Message):
        """It was turned on, off, paused or resumed."""

    def __init__(
        self,
        context: ScreenContext,
        *,
        follow: Follow,
        going_on: Callable[[], Sequence[FollowedRun]],
        in_sight: Callable[[], Collection[CaseKey]],
    ) -> None:
        """`going_on` gives the user's runs, `in_sight` the cases that are on the screen, which run before others."""
        super().__init__()
        self._screen_context = context
        self._state = context.state
        self._follow = follow
        self._going_on = going_on
        self._in_sight = in_sight
        self._sight: Collection[CaseKey] = ()
        self._watch: Watch | None = None
        self._runs: dict[str, FollowedRun] = {}
        self._untaken: deque[WatchNews] = deque()
        self._looked_at = 0.0

    @property
    def is_on(self) -> bool:
        """Whether it is on, paused or not."""
        return self._state.watch.is_on

    async def on_unmount(self) -> None:
        """The screen is closed: nothing of the watch is left behind."""
        if self._watch is not None:
            await self._watch.close()

    def toggle(self) -> None:
        """Turn it on; once it is on, pause or resume it."""
        watch = self._state.watch
        if watch.mode is WatchMode.OFF:
            watch.start()
            self._open()
        elif self._watch is None:
            return  # it is being opened or closed
        elif watch.mode is WatchMode.PAUSED:
            watch.resume()
            self._watch.resume()
        else:
            watch.pause()
            self._watch.pause()
        self.post_message(self.Turned())

    def turn_off(self) -> None:
        """End it, and what it runs."""
        if self._watch is not None:
            self._close(self._watch)

    def run_held(self) -> None:
        """Run what was more than a change may run by itself."""
        if self._watch is not None:
            self._watch.run_held()

    def note_run(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """A run of the user's goes on, and these jobs of it have not begun."""
        if self._watch is not None:
            self._watch.note_run(run, jobs)

    def take(self, *, now: float) -> Taken:
        """Put what it told since the last time into the state."""
        taken = Taken()
        if self._watch is None:
            return taken
        for run_id, events in self._state.told_elsewhere:
            self._watch.note_events(run_id, events)
        self._state.told_elsewhere.clear()
        self._sight = self._in_sight()
        self._untaken.extend(self._watch.take())
        while self._untaken and not taken.has_more:
            taken.is_news = True
            if isinstance(self._untaken[0], HoldsAgain | Begun) and any(run.has_news for run in self._runs.values()):
                taken.has_more = True
            else:
                self._take(self._untaken.popleft(), taken, now=now)
        if self._watch is None:  # it has ended by itself
            return taken
        ringing = self._state.watch.alarm(now=now)
        if ringing is not None:
            alert(self.app, *ringing, how=self._watch.settings.notify)
        self._look_at_results(now=now)
        return taken

    def _take(self, news: WatchNews, taken: Taken, *, now: float) -> None:
        match news:
            case OfRun():
                followed = self._runs.get(news.run_id)
                if followed is not None:
                    followed.add(news.event)
                return
            case Notice():
                for notice in self._state.apply([news], now=now).notices:
                    say(self, notice.message, severity=notice.severity)
                return
            case Ended():
                self._end(news.problem)
                say(self, f"the watch ended: {news.problem}", severity="error")
                return
        taken.changed.update(self._state.watch.take(news, now=now))
        match news:
            case Begun():
                self._runs[news.run.run_id] = self._follow(news.run, news.jobs, why=news.reason)
            case BrokenTold():
                say(self, f"{news.broken.where} cannot be compiled: {news.broken.message}", severity="warning")
            case Changed():
                taken.saved.update(news.paths)
                taken.gone.difference_update(news.paths)
                taken.gone.update(news.gone)
                if news.held:
                    say(self, f"{news.held}: they are not run by themselves, alt+r runs them", severity="warning")
            case Quiet():
                self._state.watch.let_alarms_ring()
                self._runs = {name: run for name, run in self._runs.items() if not run.is_complete}

    def _look_at_results(self, *, now: float) -> None:
        """Let the watch say which of the results of the user's runs hold."""
        results = self._state.results_elsewhere
        if self._watch is None or not results or now - self._looked_at < _AGAIN:
            return
        self._looked_at = now
        self._watch.note_results(dict(results))
        results.clear()

    @work(group="watch")
    async def _open(self) -> None:
        try:
            watch = await self._screen_context.backend.watching.open(
                shown=self._state.board.places(), first=self._place_of
            )
        except (PlanError, StoreError) as error:
            self._state.watch.end(str(error))
            say(self, f"it cannot be watched: {error}", severity="error")
        else:
            self._state.results_elsewhere.clear()
            self._state.told_elsewhere.clear()
            self._watch = watch
            for followed in self._going_on():
                if followed.progress is not None:
                    watch.note_run(followed.run, tuple(followed.progress.jobs.waiting))
            if self._state.watch.mode is WatchMode.PAUSED:
                watch.pause()
        self.post_message(self.Turned())

    @work(group="watch")
    async def _close(self, watch: Watch) -> None:
        watch.pause()
        for followed in self._runs.values():
            followed.cancel()
        until = time.monotonic() + _PATIENCE
        while not all(run.is_complete for run in self._runs.values()) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(_MOMENT)
        if self._watch is watch:
            self._end("")
        await watch.close()
        self.post_message(self.Turned())

    def _end(self, problem: str) -> None:
        self._watch = None
        self._untaken.clear()
        for followed in self._runs.values():
            followed.end()
        self._runs.clear()
        self._state.watch.end(problem)
        self.post_message(self.Turned())

    def _place_of(self, job: JobKey) -> float:
        """The smallest first: the selected case, what is on the screen, the rest."""
        if job.case == self._state.selected_case:
            return 0
        return 1 if job.case in self._sight else 2
