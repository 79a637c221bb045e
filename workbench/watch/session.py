"""Watch mode: keeps a verdict on how things are now for every case, and runs no more than that takes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path

from workbench.engine.plan import PlannedCase
from workbench.engine.run import Holds, Run
from workbench.engine.workspace import Workspace
from workbench.model.events import CaseFinished, Notice
from workbench.model.keys import JobKey
from workbench.model.results import CaseStatus
from workbench.store.errors import StoreError
from workbench.watch.affected import plan_of
from workbench.watch.events import (
    RunBegun,
    RunTold,
    WatchEvent,
    WatchStarted,
)
from workbench.watch.live import Live, LiveJob
from workbench.watch.news import News
from workbench.watch.planning import Planning
from workbench.watch.selection import Action, Decision, Place, Selector, path_of
from workbench.watch.state import State
from workbench.watch.stored import OffLoop, show_stored
from workbench.watch.watcher import Change, Watcher
from workbench.watch.work import Work

_MOMENT = 0.01  # seconds


class WatchSession:
    """One watch over one plan. Used on one event loop; `events` is read by one listener.

    Whatever takes more than a moment goes through `off_loop`, one thing at a time.
    """

    def __init__(
        self,
        workspace: Workspace,
        planning: Planning,
        watcher: Watcher,
        *,
        off_loop: OffLoop,
        catches_up: bool,
        first: Callable[[JobKey], float] = lambda _: 0,
    ) -> None:
        """`first` sorts jobs that wait: the smallest come first, after those that did not pass last time.

        With `catches_up` cases without a verdict that holds run at the start; else only when a change concerns them.
        """
        self._off_loop = off_loop
        self._catches_up = catches_up
        self._workspace = workspace
        self._planning = planning
        self._watcher = watcher
        self._verdicts = workspace.verdicts
        self._state = State(leftovers=self._verdicts.leftovers)
        self._live = Live()
        self._selector = Selector(
            self._verdicts, self._state, is_current=self._live.is_current, is_busy=lambda: bool(self._live)
        )
        self._news = News(workspace.root, self._state)
        self._work = Work(workspace, selector=self._selector, live=self._live, news=self._news, first=first)
        self._jobs: dict[JobKey, PlannedCase] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._overtaken: list[JobKey] = []
        self._is_paused = False
        self._is_gone = False  # the folder of the project
        self._saved: Change | None = None  # while paused
        self._starting = asyncio.Lock()
        self._selecting = threading.Lock()
        self._rows_watched = 0
        self._plan_files: frozenset[Path] = frozenset()

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Watch until the listener stops listening; what runs then is stopped."""
        watching = asyncio.create_task(self._watch())
        watching.add_done_callback(lambda _: self._news.end())
        try:
            async for event in self._news.events():
                yield event
            await watching
        finally:
            watching.cancel()
            self._live.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(watching, *self._tasks, return_exceptions=True)

    def pause(self) -> None:
        """Run nothing because of changes until `resume`; what runs goes on. How cases stand is told all the same."""
        self._is_paused = True

    def resume(self) -> None:
        """Make up for what changed meanwhile."""
        self._is_paused = False
        change, self._saved = self._saved, None
        if change is not None:
            self._begin(self._catch_up(change))
        if self._overtaken:
            self._begin(self._run_again())

    @property
    def is_paused(self) -> bool:
        """Whether changes are waited with."""
        return self._is_paused

    @property
    def files(self) -> int:
        """How many files are watched. Needs a watch that has begun."""
        return self._watcher.watching.files

    @property
    def state(self) -> State:
        """How things are, for reasons in words."""
        return self._state

    def run_held(self) -> None:
        """Run what a change concerned and was not run, because it was more than `[watch]` in the settings allows."""
        self._begin(self._run_held())

    def shows(self, verdicts: Mapping[JobKey, str]) -> None:
        """Whoever listens shows these verdicts, named by their runs: where others hold, those are told."""
        self._news.shown.update((job, Place(run_id, job)) for job, run_id in verdicts.items())

    def note_run(self, run_id: str, jobs: Iterable[JobKey]) -> None:
        """A run that is none of this watch begins: what it will say is about how things are now."""
        self._live.note_run(run_id, jobs)

    def look_again(self) -> None:
        """Verdicts have come from elsewhere: tell how every case stands now. Nothing is run because of that."""
        self._begin(self._look_again())

    async def _watch(self) -> None:
        async with self._watcher as watcher:  # before anything is looked at: what is saved meanwhile is seen too
            await self._replan()
            await self._watch_what_is_used()
            status = watcher.watching
            self._news.tell(
                WatchStarted(
                    total=len(self._jobs),
                    files=status.files,
                    folders=status.folders,
                    mode=status.mode,
                    reason=status.reason,
                )
            )
            await self._off_loop(self._warm_up)
            await self._catch_up(None)
            async for change in watcher.changes():
                await self._on_change(change)

    def _warm_up(self) -> None:
        self._workspace.warm_up(self._planning.named(""))

    async def _watch_what_is_used(self) -> None:
        """Files and folders that cases depend on are watched wherever they are."""
        first, self._rows_watched = self._rows_watched, self._verdicts.row_count
        rows = map(self._verdicts.row, range(first, self._rows_watched))
        paths = {Path(path) for row in rows if (path := path_of(row))}
        if paths:
            await self._watcher.add(paths)

    async def _on_change(self, change: Change) -> None:
        was_gone, self._is_gone = self._is_gone, not await self._off_loop(self._workspace.root.is_dir)
        if self._is_gone:
            if not was_gone:
                message = f"{self._workspace.root} is gone; what was known of it is kept until it is back"
                self._news.tell(Notice(severity="warning", message=message))
            return
        if was_gone:
            change = change.and_then(Change(frozenset(), True, change.at))
        if await self._off_loop(lambda: self._is_by_agents(change)):
            return
        self._live.change_came()
        self._work.change_came()
        if await self._off_loop(lambda: self._planning.concerns(change)):
            await self._replan()
        await self._catch_up(change)

    async def _replan(self) -> None:
        plan, problems = await self._off_loop(self._planning.plan)
        files = self._planning.files
        if not files <= self._plan_files:
            await self._watcher.add(files)
            if any(not file.is_relative_to(self._workspace.root) for file in files - self._plan_files):
                plan, more = await self._off_loop(self._planning.plan)  # nobody told what changed there until now
                problems += more
        self._plan_files = files
        self._news.problems += problems
        self._jobs = dict(plan.jobs)
        self._news.keep(self._jobs)

    async def _catch_up(self, change: Change | None) -> None:
        """Decide on every job anew, and do what has to be done."""
        async with self._starting:
            decisions = await self._off_loop(self._decide_all)
            is_paused = self._is_paused
            if not is_paused:
                self._stop_overtaken(decisions)
            if change is None and not self._catches_up:
                self._work.let_be(decisions)
            work = self._work.of(decisions, all_of_it=change is None)
            held = "" if change is None or is_paused else self._work.hold_back(work)
            self._news.decided(decisions, work, held=self._work.held)
            if is_paused and change is not None:
                self._saved = change if self._saved is None else self._saved.and_then(change)
            elif change is not None:
                self._news.change(change, decisions, work, held=held)
            self._news.wrong(decisions)
            await show_stored(decisions, self._news, self._workspace, off_loop=self._off_loop)
            begun = [each for each in work if each.job not in self._work.held]
            if not is_paused:
                await self._start(begun, saved_at=None if change is None else change.at)
        await self._look_when_idle()

    def _stop_overtaken(self, decisions: Iterable[Decision]) -> None:
        """Stop what runs on what is no more."""
        for decision in decisions:
            live = self._live.get(decision.job)
            if live is None:
                continue
            is_wanted = decision.action not in (Action.NOTHING, Action.WAIT)
            if not is_wanted or not live.goes_on(decision, self._selector):
                live.run.cancel(decision.job)
                self._live.end(decision.job)

    async def _run_held(self) -> None:
        async with self._starting:
            held = [job for job in self._work.held if job not in self._live]
            self._work.held.clear()
            decisions = await self._off_loop(lambda: self._decide_some(held))
            await self._start(self._work.outside_changes(decisions), saved_at=None)

    async def _look_again(self) -> None:
        async with self._starting:
            decisions = await self._off_loop(self._decide_all)
            self._news.decided(decisions, (), held=self._work.held)
            await show_stored(decisions, self._news, self._workspace, off_loop=self._off_loop)

    def _decide_all(self) -> list[Decision]:
        with self._selecting:
            self._selector.forget()
            shown = self._news.shown.get
            return [self._selector.decide(job, planned, shown=shown(job)) for job, planned in self._jobs.items()]

    def _decide(self, job: JobKey) -> Decision | None:
        planned = self._jobs.get(job)
        with self._selecting:
            return None if planned is None else self._selector.decide(job, planned)

    def _decide_some(self, jobs: Iterable[JobKey]) -> list[Decision]:
        return [each for each in map(self._decide, jobs) if each is not None]

    async def _start(self, decisions: Sequence[Decision], *, saved_at: float | None) -> None:
        """Begin a run of what has to be run or judged. Needs the lock for starting."""
        if not decisions:
            return
        ordered = self._work.in_order(decisions)
        try:
            run = await self._off_loop(lambda: self._run(ordered))
        except StoreError as error:
            self._news.tell(Notice(severity="error", message=str(error)))
            return
        for each in ordered:
            self._live.begin(each.job, LiveJob(run, each.planned, self._selector.signature(each), saved_at))
        self._work.take_up(ordered)
        self._news.tell(RunBegun(run, tuple(each.job for each in ordered), self._news.reason(ordered)))
        self._begin(self._follow(run))

    def _run(self, decisions: Sequence[Decision]) -> Run:
        plan = self._planning.named(self._news.reason(decisions))
        with self._workspace.history() as history:
            part = plan_of(plan, decisions, runs=frozenset(Action), history=history, with_stored=False)
        return self._workspace.start(part, holds=Holds.VERDICTS)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, run: Run) -> None:
        async for event in run.events():
            if isinstance(event, Notice):
                self._news.tell(event)
            elif isinstance(event, CaseFinished):
                await self._on_finished(run, event)
            self._news.tell(RunTold(run.run_id, event))
        await self._watch_what_is_used()
        await self._look_when_idle()

    async def _on_finished(self, run: Run, event: CaseFinished) -> None:
        """Show a verdict, unless a change has overtaken it."""
        job = JobKey.model_construct(case=event.case, repeat=event.repeat)
        live = self._live.get(job)
        if live is None or live.run is not run:
            return
        if event.status is CaseStatus.CANCELLED:
            await self._on_cancelled(job)
            return
        self._live.end(job)
        decision = await self._off_loop(lambda: self._decide(job))
        if decision is None or job in self._live:  # it is gone, or a change has begun it again meanwhile
            return
        if decision.action in (Action.RUN, Action.JUDGE) and self._work.may_run(decision):
            if not self._overtaken:
                self._begin(self._run_again())
            self._overtaken.append(job)
            return
        place = Place(run.run_id, job)
        holds = decision.action is Action.NOTHING
        self._news.verdict(self._jobs[job], event.result, "executed", saved_at=live.saved_at, place=place, holds=holds)

    async def _on_cancelled(self, job: JobKey) -> None:
        """Somebody else stopped it, who does not want it back before a change concerns it again."""
        decision = await self._off_loop(lambda: self._decide(job))
        if decision is not None:
            self._work.let_be([decision])
        self._live.end(job)

    async def _run_again(self) -> None:
        """Run what was overtaken by a change while it ran: all that ends within a moment together."""
        await asyncio.sleep(_MOMENT)
        async with self._starting:
            if self._is_paused:
                return
            overtaken, self._overtaken = self._overtaken, []
            decisions = await self._off_loop(lambda: self._decide_some(overtaken))
            await self._start(self._work.of(decisions, all_of_it=False), saved_at=None)

    async def _look_when_idle(self) -> None:
        """Once nothing runs, look at what could not be told while agents wrote files, and say how all cases stand."""
        if self._live or self._overtaken or self._starting.locked():
            return
        async with self._starting:
            decisions = await self._off_loop(self._decide_all)
            work = self._work.of(decisions, all_of_it=False)
            if not self._is_paused:
                work = [each for each in work if self._work.may_run(each)]
            if work and not self._is_paused:
                await self._start(work, saved_at=None)
                return
        self._news.decided(decisions, work, held=self._work.held)
        self._news.all_known(decisions)

    def _is_by_agents(self, change: Change) -> bool:
        """Whether all of it is what agents wrote while they ran."""
        if change.everything or not change.paths:
            return False
        with self._selecting:
            self._state.forget()
            are_left = {path: self._is_left(str(path)) for path in change.paths}  # every one is looked at
        return all(are_left.values())

    def _is_left(self, path: str) -> bool:
        left = self._verdicts.last_left(path)
        return self._state.has_same_names(path) if left is None else self._state.file(path) == left
