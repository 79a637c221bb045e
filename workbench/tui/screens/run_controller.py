"""Starts runs, follows them and takes their results to the screen."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual import work
from textual.message import Message

from workbench.engine.plan import PlanError, Selection
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished, CaseStarted, RunEvent, RunFinished
from workbench.store.errors import StoreError
from workbench.tui.screen_messages import Faceless, RunWanted, ScreenContext
from workbench.tui.screens.plan_screen import PlanScreen
from workbench.tui.state.browser_list import Hashes
from workbench.tui.state.case_board import Standing
from workbench.tui.state.project_state import StoppedRun, why_nothing
from workbench.tui.state.run_plan import PlannedRun
from workbench.tui.state.run_progress import RunProgress
from workbench.tui.widgets.inputs import say

if TYPE_CHECKING:
    from workbench.engine.run import Run


# A run that the screen follows: what it said is taken up at once and shown at the next tick.

_MOST_EVENTS = 4_000  # taken in one tick, so that a tick stays short
_BURST = 200  # events taken up before a key press gets a word in


@dataclass
class FollowedRun:
    """`progress` is None for a run that is not shown as such, because it only scores again.

    `planned` is what the user wanted; None for a run that cannot be resumed.
    """

    run: Run
    jobs: Sequence[JobKey]
    progress: RunProgress | None = None
    planned: PlannedRun | None = None
    _events: deque[RunEvent] = field(default_factory=deque)
    _is_complete: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the last event has been taken up."""
        return self._is_complete

    @property
    def stopped(self) -> StoppedRun | None:
        """The run as it can be resumed, once it is over; None if every job came to its end."""
        if self.progress is None or self.planned is None:
            return None
        if not self.progress.interrupted and not self.progress.jobs.counts[Standing.CANCELLED]:
            return None
        options = self.planned.options.model_copy(update={"resume": self.run.run_id})
        return StoppedRun(self.planned.selections, options, self.planned.config)

    @property
    def has_news(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._events)

    def add(self, event: RunEvent) -> None:
        """Take up an event that somebody else has listened to."""
        self._events.append(event)
        self._is_complete = isinstance(event, RunFinished)

    def cancel(self) -> None:
        """Stop the run; what has finished stays."""
        if self.progress is not None:
            self.progress.cancelling = True
        self.run.cancel()

    def end(self) -> None:
        """Nobody listens to the run any longer: take it as over."""
        if not self._is_complete:
            began = self.progress.began if self.progress is not None else time.monotonic()
            self.add(
                RunFinished(
                    run_id=self.run.run_id,
                    summary=self.run.summary(),
                    duration_seconds=time.monotonic() - began,
                    interrupted=True,
                )
            )

    async def follow(self) -> None:
        """Take up events until the run is over."""
        count = 0
        async for event in self.run.events():
            self.add(event)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    def take(self) -> list[RunEvent]:
        """The events that are to be shown now."""
        return [self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))]


def has_ended(events: Sequence[RunEvent]) -> bool:
    """Whether the run is over with these events."""
    return bool(events) and isinstance(events[-1], RunFinished)


# Starts runs, follows what they say, and stops them.

_CHUNK = 1_000  # jobs taken at once


class Running(Faceless):
    """The runs that go on: the one that the run line shows, and those that only score again."""

    @dataclass
    class Prepared(Message):
        """A run was planned, and has begun or not."""

    @dataclass
    class Followed(Message):
        """A run of the user's has begun and is followed."""

        followed: FollowedRun

    def __init__(
        self,
        context: ScreenContext,
        *,
        read_sets: Callable[[], Awaitable[None]],
        read_addresses: Callable[[Collection[str]], Awaitable[None]],
        save: Callable[[Collection[str]], Awaitable[bool]],
        played: Callable[[Collection[CaseKey]], object],
    ) -> None:
        """`read_sets` reads every eval set again, `read_addresses` those of these that are elsewhere and not read yet;
        `save` writes these where they have unsaved edits, unless refused.

        `played` hears of cases that a run, now over, has only played.
        """
        super().__init__()
        self._screen_context = context
        self._state = context.state
        self._read_sets = read_sets
        self._read_addresses = read_addresses
        self._save = save
        self._played = played
        self._followed: list[FollowedRun] = []

    def start(self, want: Callable[[], RunWanted]) -> None:
        """Run what is wanted once the files are read again. What the watch runs goes on beside it."""
        if self._state.is_busy:
            say(self, "a run is going on; x stops it", severity="warning")
            return
        self.app.clear_notifications()  # what earlier runs had to say
        self._state.is_preparing = True
        self._prepare(want)

    @work(group="criteria", exclusive=True)
    async def choose_criteria(self, selections: Sequence[Selection]) -> None:
        """Let the user choose what these cases are judged by, and run them where that is wanted."""
        from workbench.tui.screens.plan_screen import CriteriaScreen  # which brings the metrics

        if not selections:
            say(self, f"there is nothing to judge: {why_nothing(self._state)}", severity="warning")
            return
        chosen = await self.app.push_screen_wait(CriteriaScreen(self._screen_context, selections))
        if chosen is not None:
            self.start(lambda: RunWanted(selections, config=chosen.config))

    def cancel(self) -> None:
        """Stop all that runs but what only scores again; what has finished stays."""
        for followed in self._followed:
            if followed.progress is not None:
                followed.cancel()

    def cancel_cases(self, cases: Collection[CaseKey]) -> None:
        """Stop what runs or waits of these cases."""
        shown = [followed.progress for followed in self._followed if followed.progress is not None]
        unfinished = [(progress.run_id, job) for progress in shown for job in progress.jobs.unfinished(cases)]
        if not unfinished:
            say(self, "nothing of what is selected runs or waits", severity="warning")
        for run_id, job in unfinished:
            self._screen_context.backend.runs.cancel(run_id, job)

    def follow(self, followed: FollowedRun) -> None:
        """Take up what a run says, for `take`. From now on it can be stopped."""
        self._followed.append(followed)
        self.post_message(self.Followed(followed))
        self._take_up(followed)

    @work(group="follow")
    async def _take_up(self, followed: FollowedRun) -> None:
        self._state.browser.freshness.planned(_hashes(followed.run))
        for start in range(0, len(followed.jobs), _CHUNK):
            chunk = followed.jobs[start : start + _CHUNK]
            self._state.expect(chunk)
            if followed.progress is not None:
                followed.progress.jobs.expect(chunk)
            await asyncio.sleep(0)
        await followed.follow()

    def follow_begun(self, run: Run, jobs: Sequence[JobKey], *, is_shown: bool) -> None:
        """Follow a run that nobody prepared; one that is shown can be stopped."""
        progress = self._state.begin_run(run.run_id, total=len(jobs), now=time.monotonic()) if is_shown else None
        if progress is not None:
            self._screen_context.backend.runs.adopt(run)
        self.follow(FollowedRun(run, jobs, progress))

    def follow_watch(self, run: Run, jobs: Sequence[JobKey], *, why: str) -> FollowedRun:
        """Show a run of the watch, which adds what the run says. It counts at once, among what else the watch says."""
        self._screen_context.backend.runs.adopt(run)
        progress = self._state.begin_run(run.run_id, total=len(jobs), now=time.monotonic(), why=why)
        followed = FollowedRun(run, jobs, progress)
        self._state.browser.freshness.planned(_hashes(run))
        self._state.expect(jobs)
        progress.jobs.expect(jobs)
        self._followed.append(followed)
        return followed

    @work(group="score")
    async def score_undone(self, eval_sets: Collection[str]) -> None:
        """Score anew what was accepted in these sets and is so no longer, or is so again."""
        for begun in await self._screen_context.backend.accepting.score_undone(eval_sets):
            self.follow(FollowedRun(begun.run, begun.jobs))

    def going_on(self) -> Sequence[FollowedRun]:
        """The user's runs that are not over."""
        return [followed for followed in self._followed if not _is_of_watch(followed)]

    def take(self, *, now: float) -> tuple[bool, set[CaseKey]]:
        """Put what runs said since the last time into the state: whether there was anything, and the changed cases."""
        is_news, changed = False, set[CaseKey]()
        for followed in tuple(self._followed):
            events = followed.take()
            applied = self._state.apply(events, progress=followed.progress, run_id=followed.run.run_id, now=now)
            is_news = is_news or bool(events)
            self._note_results(followed, events)
            changed |= applied.changed
            for notice in applied.notices:
                say(self, notice.message, severity=notice.severity)
            if has_ended(events):
                self._followed.remove(followed)
                if followed.planned is not None:
                    self._state.note_ended(followed.planned, followed.stopped)
                changed.update(self._state.board.settle(_left_of(followed)))
                if played := self._state.board.only_played(job.case for job in followed.jobs):
                    self._played(played)
        self._state.show_next_run()
        return is_news, changed

    def _note_results(self, followed: FollowedRun, events: Iterable[RunEvent]) -> None:
        """The watch, where there is one, does not know of what the user's runs say."""
        if not self._state.watch.is_active or _is_of_watch(followed):
            return
        told = [event for event in events if isinstance(event, CaseStarted | CaseFinished | RunFinished)]
        if told:
            self._state.told_elsewhere.append((followed.run.run_id, told))
        for event in events:
            if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
                job = JobKey(case=event.case, repeat=event.repeat)
                self._state.results_elsewhere[job] = followed.run.run_id

    @work(group="run")
    async def _prepare(self, want: Callable[[], RunWanted]) -> None:
        try:
            planned = await self._planned(want)
            started = await self._screen_context.backend.runs.start(planned) if planned is not None else None
        except (PlanError, StoreError) as error:
            say(self, str(error), severity="error")
            return
        finally:
            self._state.is_preparing = False
            self.post_message(self.Prepared())
        if started is not None:
            run, jobs = started
            for problem in run.plan.problems:
                say(self, problem, severity="error")
            progress = self._state.begin_run(run.run_id, total=len(jobs), now=time.monotonic())
            self.follow(FollowedRun(run, jobs, progress, planned))

    async def _planned(self, want: Callable[[], RunWanted]) -> PlannedRun | None:
        """The plan of what is wanted, None where the user was asked about it and said no."""
        await self._read_sets()
        wanted = want()
        if not await self._save({item.eval_set for item in wanted.selections}):
            return None
        await self._read_addresses({item.eval_set for item in wanted.selections})
        runs = self._screen_context.backend.runs
        planned = await runs.plan(
            wanted.selections, wanted.options, wanted.config, ask=wanted.ask, only_plays=wanted.only_plays
        )
        return await self._asked_about(planned) if planned.asks else planned

    async def _asked_about(self, planned: PlannedRun) -> PlannedRun | None:
        self._state.is_asked = True
        self.post_message(self.Prepared())
        try:
            return await self.app.push_screen_wait(PlanScreen(self._screen_context, planned))
        finally:
            self._state.is_asked = False


def _left_of(followed: FollowedRun) -> Sequence[CaseKey]:
    """The cases of jobs whose end a run that is over has not told; those that ended may be in another run by now."""
    ended = followed.progress.jobs.finished_job if followed.progress is not None else lambda _: None
    return [job.case for job in followed.jobs if ended(job) is None]


def _is_of_watch(followed: FollowedRun) -> bool:
    return followed.progress is not None and followed.progress.why is not None


def _hashes(run: Run) -> dict[CaseKey, Hashes]:
    """What the cases of a run are judged by."""
    return {case.key: (case.execution_hash, case.scoring_hash) for case in run.plan.cases}
