"""Starts runs, follows their events, and applies the events to the state."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget

from workbench.engine.plan import PlanError, PlannedCase, Selection
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished, CaseStarted, RunEvent, RunFinished
from workbench.store.errors import StoreError
from workbench.tui.dialogs.dialogs import AskScreen
from workbench.tui.screen_context import Controller, RunWanted, ScreenContext, background
from workbench.tui.screens.plan_screen import CriteriaScreen, PlanScreen
from workbench.tui.screens.read_controller import ReadController
from workbench.tui.screens.save_controller import SaveController
from workbench.tui.state.browser_list import Hashes
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.project_state import StoppedRun, explain_empty_selection
from workbench.tui.state.run_plan import PlannedRun, check_setting, sort_by_list
from workbench.tui.state.run_progress import RunProgress
from workbench.tui.widgets.key_line import say

if TYPE_CHECKING:
    from workbench.engine.run import Run


# A run that the screen follows: its events are collected at once, and applied at the next tick.

_MOST_EVENTS = 1_000  # maximum in one tick, so that a tick stays short
_BURST = 200  # events collected before key presses are processed


_SAMPLES = 3
"""Samples to record unless the user types another number."""


@dataclass
class FollowedRun:
    """A run with its collected events. `progress` is None for a run that only rescores, which is not shown.

    `planned` is the plan of the user; None for a run that cannot be resumed.
    """

    run: Run
    jobs: Sequence[JobKey]
    progress: RunProgress | None = None
    planned: PlannedRun | None = None
    on_event: Callable[[], None] = lambda: None
    _events: deque[RunEvent] = field(default_factory=deque)
    _is_complete: bool = False

    @property
    def is_complete(self) -> bool:
        """True if the last event was collected."""
        return self._is_complete

    @property
    def resumable(self) -> StoppedRun | None:
        """The run to resume after its end; None if every job finished."""
        if self.progress is None or self.planned is None:
            return None
        if not self.progress.interrupted and not self.progress.jobs.counts[CaseState.CANCELLED]:
            return None
        options = self.planned.options.model_copy(update={"resume": self.run.run_id})
        return StoppedRun(self.planned.selections, options, self.planned.config)

    @property
    def has_news(self) -> bool:
        """True if `take` would return events."""
        return bool(self._events)

    @property
    def has_backlog(self) -> bool:
        """True if there are more events than `take` returns at once."""
        return len(self._events) >= _MOST_EVENTS

    def add(self, event: RunEvent) -> None:
        """Add an event that another listener received."""
        self._events.append(event)
        self._is_complete = isinstance(event, RunFinished)
        self.on_event()

    def cancel(self) -> None:
        """Stop the run; finished results stay."""
        if self.progress is not None:
            self.progress.cancelling = True
        self.run.cancel()

    def end(self) -> None:
        """Mark the run as interrupted, because its events no longer arrive."""
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
        """Collect events until the run ends."""
        count = 0
        async for event in self.run.events():
            self.add(event)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    def take(self) -> list[RunEvent]:
        """Remove and return the next events to apply."""
        return [self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))]


def has_ended(events: Sequence[RunEvent]) -> bool:
    """Return True if these events end the run."""
    return bool(events) and isinstance(events[-1], RunFinished)


# The controller.

_CHUNK = 1_000  # jobs added at once


class RunController(Controller):
    """Controls active runs: the one in the run line, and those that only rescore."""

    class Preparing(Message):
        """A run is being planned."""

    class Prepared(Message):
        """A run was planned. It has started, or the user cancelled it, or it could not start."""

    @dataclass
    class Followed(Message):
        """The screen follows a run that the user started."""

        followed: FollowedRun

    def __init__(
        self,
        widget: Widget,
        context: ScreenContext,
        *,
        reader: ReadController,
        saver: SaveController,
        wake: Callable[[], None],
        find_visible_cases: Callable[[], Collection[CaseKey]],
    ) -> None:
        """`wake` has `take` called soon. Visible cases run first."""
        super().__init__(widget, context)
        self._reader = reader
        self._saver = saver
        self._wake = wake
        self._find_visible_cases = find_visible_cases
        self._followed: list[FollowedRun] = []

    @property
    def has_news(self) -> bool:
        """True if `take` would apply events."""
        return any(followed.has_news for followed in self._followed)

    @property
    def has_backlog(self) -> bool:
        """True if `take` should be called again before the next tick."""
        return any(followed.has_backlog for followed in self._followed)

    def start(self, request: Callable[[], RunWanted]) -> None:
        """Start a run. `request` is called again after the files were read, because that may change the selection."""
        wanted = request()
        if not wanted.selections:
            say(self.widget, f"there is nothing to run: {explain_empty_selection(self.state)}", severity="warning")
            return
        if self.state.is_busy:
            say(self.widget, "a run is in progress; x stops it", severity="warning")
            return
        self.app.clear_notifications()  # those of earlier runs
        self.state.is_preparing = True
        self.post_message(self.Preparing())
        self._run(request)

    def run_row(self, *, fresh: bool = False, only_plays: bool = False) -> None:
        """Run the selected case, set or target. The options are those of `RunWanted`."""
        place = self.state.selected_key
        self.start(lambda: RunWanted(self.state.select_row_cases(place), fresh=fresh, only_plays=only_plays))

    @background(group="samples", exclusive=True)
    async def record_samples(self) -> None:
        """Ask for a number, and run the selected case, set or target so many times without replaying model calls."""
        place = self.state.selected_key
        question = "Record how many samples? The agents' models are asked anew for each."
        number = await self.app.push_screen_wait(
            AskScreen(question, value=str(_SAMPLES), check=partial(check_setting, "runs"))
        )
        if number is not None:
            runs = int(number)
            self.start(lambda: RunWanted(self.state.select_row_cases(place), fresh=True, runs=runs))

    @background(group="criteria", exclusive=True)
    async def choose_criteria(self, selections: Sequence[Selection]) -> None:
        """Let the user choose the criteria of these cases, and run the cases if the user asks for that."""
        if not selections:
            say(self.widget, f"there is nothing to judge: {explain_empty_selection(self.state)}", severity="warning")
            return
        chosen = await self.app.push_screen_wait(CriteriaScreen(self.context, selections))
        if chosen is not None:
            self.start(lambda: RunWanted(selections, config=chosen.config))

    def cancel(self) -> None:
        """Stop all runs except those that only rescore; finished results stay."""
        for followed in self._followed:
            if followed.progress is not None:
                followed.cancel()

    def cancel_cases(self, cases: Collection[CaseKey]) -> None:
        """Stop the running and waiting jobs of these cases."""
        shown = [followed.progress for followed in self._followed if followed.progress is not None]
        unfinished = [(progress.run_id, job) for progress in shown for job in progress.jobs.find_unfinished(cases)]
        if not unfinished:
            say(self.widget, "no selected case is running or waiting", severity="warning")
        for run_id, job in unfinished:
            self.backend.runs.cancel(run_id, job)

    def follow(self, followed: FollowedRun) -> None:
        """Collect the events of a run for `take`, and let the user stop it."""
        self._add(followed)
        self.post_message(self.Followed(followed))
        self._collect_events(followed)

    def _add(self, followed: FollowedRun) -> None:
        followed.on_event = self._wake
        self._followed.append(followed)
        self._wake()

    @background(group="follow")
    async def _collect_events(self, followed: FollowedRun) -> None:
        cases = followed.run.plan.cases
        for start in range(0, len(cases), _CHUNK):
            self.state.browser.freshness.set_planned_hashes(_map_hashes(cases[start : start + _CHUNK]))
            await asyncio.sleep(0)
        for start in range(0, len(followed.jobs), _CHUNK):
            chunk = followed.jobs[start : start + _CHUNK]
            self.state.board.begin_jobs(chunk)
            if followed.progress is not None:
                followed.progress.jobs.add_waiting(chunk)
            await asyncio.sleep(0)
        await followed.follow()

    def follow_started(self, run: Run, jobs: Sequence[JobKey], *, is_shown: bool) -> None:
        """Follow a run that another part of the screen started. The user can stop it if it is shown."""
        progress = self.state.begin_run(run.run_id, total=len(jobs), now=time.monotonic()) if is_shown else None
        if progress is not None:
            self.backend.runs.track(run)
        self.follow(FollowedRun(run, jobs, progress))

    def follow_watch(self, run: Run, jobs: Sequence[JobKey], *, why: str) -> FollowedRun:
        """Show a run of the watch, which adds the events of the run. Its jobs count at once."""
        self.backend.runs.track(run)
        progress = self.state.begin_run(run.run_id, total=len(jobs), now=time.monotonic(), why=why)
        followed = FollowedRun(run, jobs, progress)
        self.state.browser.freshness.set_planned_hashes(_map_hashes(run.plan.cases))
        self.state.board.begin_jobs(jobs, kept_below=run.plan.limits.runs)
        progress.jobs.add_waiting(jobs)
        self._add(followed)
        return followed

    @background(group="score")
    async def score_undone(self, eval_sets: Collection[str]) -> None:
        """Rescore the cases of these sets whose acceptance was undone or redone."""
        for begun in await self.backend.accepting.score_undone(eval_sets):
            self.follow(FollowedRun(begun.run, begun.jobs))

    def list_user_runs(self) -> Sequence[FollowedRun]:
        """Return the active runs of the user."""
        return [followed for followed in self._followed if not _is_of_watch(followed)]

    def take(self, *, now: float) -> tuple[bool, set[CaseKey]]:
        """Apply the events since the last call to the state. Return whether there were any, and the changed cases."""
        is_news, changed = False, set[CaseKey]()
        for followed in tuple(self._followed):
            events = followed.take()
            applied = self.state.apply(events, progress=followed.progress, run_id=followed.run.run_id, now=now)
            is_news = is_news or bool(events)
            self._note_results(followed, events)
            changed |= applied.changed
            for notice in applied.notices:
                say(self.widget, notice.message, severity=notice.severity)
            if has_ended(events):
                self._followed.remove(followed)
                if followed.planned is not None:
                    self.state.record_end(followed.planned, followed.resumable)
                changed.update(self.state.board.end_run(_find_unfinished_cases(followed)))
                if played := self.state.board.find_only_played(job.case for job in followed.jobs):
                    self._reader.read_verdicts(played)
        self.state.show_next_run()
        return is_news, changed

    def _note_results(self, followed: FollowedRun, events: Iterable[RunEvent]) -> None:
        """Record the events and results of a manual run for the watch."""
        if not self.state.watch.is_active or _is_of_watch(followed):
            return
        relevant = [event for event in events if isinstance(event, CaseStarted | CaseFinished | RunFinished)]
        if relevant:
            self.state.events_elsewhere.append((followed.run.run_id, relevant))
        for event in events:
            if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
                job = JobKey(case=event.case, repeat=event.repeat)
                self.state.results_elsewhere[job] = followed.run.run_id

    @background(group="run")
    async def _run(self, request: Callable[[], RunWanted]) -> None:
        try:
            wanted = await self._read_and_save(request)
            if wanted is None:
                return
            planned = await self.backend.runs.plan(
                wanted.selections,
                wanted.options,
                wanted.config,
                ask=wanted.ask,
                only_plays=wanted.only_plays,
                fresh=wanted.fresh,
                runs=wanted.runs,
            )
            confirmed = await self._confirm(planned) if planned.asks else planned
            if confirmed is None:
                return
            confirmed = self._sort_cases(confirmed)
            run, jobs = await self.backend.runs.start(confirmed)
        except (PlanError, StoreError) as error:
            say(self.widget, str(error), severity="error")
            return
        finally:
            self.state.is_preparing = False
            self.post_message(self.Prepared())
        for problem in run.plan.problems:
            say(self.widget, problem, severity="error")
        progress = self.state.begin_run(run.run_id, total=len(jobs), now=time.monotonic())
        self.follow(FollowedRun(run, jobs, progress, confirmed))

    def _sort_cases(self, planned: PlannedRun) -> PlannedRun:
        """Return the plan with its cases in the order of the list, the visible ones first."""
        cases = sort_by_list(planned.plan.cases, self.state.browser, first=self._find_visible_cases())
        return replace(planned, plan=replace(planned.plan, cases=cases))

    async def _read_and_save(self, request: Callable[[], RunWanted]) -> RunWanted | None:
        """Read changed files and save edits, so that the run sees both. Return None if a set could not be saved."""
        await self._reader.read_all_sets()
        wanted = request()
        eval_sets = {selection.eval_set for selection in wanted.selections}
        if not await self._saver.save_sets(eval_sets):
            return None
        await self._reader.read_addresses(eval_sets)
        return wanted

    async def _confirm(self, planned: PlannedRun) -> PlannedRun | None:
        """Show the plan. Return the plan as the user changed it, or None if the user cancelled."""
        self.state.is_asked = True
        self.post_message(self.Prepared())
        try:
            return await self.app.push_screen_wait(PlanScreen(self.context, planned))
        finally:
            self.state.is_asked = False


def _find_unfinished_cases(followed: FollowedRun) -> Sequence[CaseKey]:
    """Return the cases of the unfinished jobs of an ended run. Finished ones may already be in another run."""
    ended = followed.progress.jobs.get_finished if followed.progress is not None else lambda _: None
    return [job.case for job in followed.jobs if ended(job) is None]


def _is_of_watch(followed: FollowedRun) -> bool:
    return followed.progress is not None and followed.progress.why is not None


def _map_hashes(cases: Iterable[PlannedCase]) -> dict[CaseKey, Hashes]:
    """Return the execution and scoring hashes of planned cases."""
    return {case.key: (case.execution_hash, case.scoring_hash) for case in cases}
