"""What the user runs beside the watch: a case whose verdict comes from there is not run by the watch too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.engine.plan import PlannedCase
from workbench.engine.run import Run
from workbench.model.events import CaseFinished, CaseStarted, RunEvent, RunFinished
from workbench.model.keys import JobKey
from workbench.model.results import CaseStatus
from workbench.watch.deciding import Deciding
from workbench.watch.live import Live, job_of
from workbench.watch.news import News
from workbench.watch.selection import Action, Decision, Place, Selector, place_of
from workbench.watch.stored import OffLoop


@dataclass
class _OtherRun:
    """The jobs of a run: those that wait will run on how things are then, the others began with a signature."""

    planned: Mapping[JobKey, PlannedCase]
    waiting: set[JobKey]
    running: dict[JobKey, int | None] = field(default_factory=dict)

    def brings(self, decision: Decision, selector: Selector) -> bool:
        """Whether it will say what is asked, on how things are now."""
        job = decision.job
        if job not in self.waiting and job not in self.running:
            return False
        if self.planned[job].execution_hash != decision.planned.execution_hash:
            return False
        return job in self.waiting or self.running[job] == selector.signature(decision)


class Elsewhere:
    """The user's runs that go on, as far as one is told of them, and which of their verdicts the watch waits for."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._runs: dict[str, _OtherRun] = {}
        self._awaited: dict[JobKey, float | None] = {}

    def __bool__(self) -> bool:
        """Whether the watch waits for anything."""
        return bool(self._awaited)

    def begin(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """A run goes on in which these jobs wait; those that only judge again bring nothing on the agent."""
        planned = {job: each for job, each in run.plan.jobs if each.executed is None}
        self._runs[run.run_id] = _OtherRun(planned, {job for job in jobs if job in planned})

    def started(self, run_id: str, decisions: Iterable[Decision]) -> None:
        """Jobs of a run have begun, on how things are now."""
        run = self._runs.get(run_id)
        if run is None:
            return
        for each in decisions:
            if each.job in run.planned:
                run.waiting.discard(each.job)
                run.running[each.job] = self._selector.signature(each)

    def ended(self, run_id: str, job: JobKey) -> None:
        """A job of a run has ended, however it did."""
        run = self._runs.get(run_id)
        if run is not None:
            run.waiting.discard(job)
            run.running.pop(job, None)

    def over(self, run_id: str) -> None:
        """A run is over."""
        self._runs.pop(run_id, None)

    def ours(self, work: Sequence[Decision], *, saved_at: float | None) -> list[Decision]:
        """Of this work, what no such run is about to say. For the rest the watch waits; a save made work of it then."""
        ours = []
        for each in work:
            if any(run.brings(each, self._selector) for run in self._runs.values()):
                self._awaited[each.job] = saved_at or self._awaited.get(each.job)
            else:
                self._awaited.pop(each.job, None)
                ours.append(each)
        return ours

    def expect_only(self, jobs: Iterable[JobKey]) -> None:
        """All others need no verdict any longer."""
        self._awaited = {job: self._awaited[job] for job in jobs if job in self._awaited}

    def awaits(self, job: JobKey) -> bool:
        """Whether the watch waits for a verdict on a job."""
        return job in self._awaited

    def take(self, job: JobKey) -> float | None:
        """A verdict that was waited for has come, or will not: when the save was seen that made work of it."""
        return self._awaited.pop(job)

    def lost(self) -> list[JobKey]:
        """What the watch waits for though no run has it any longer."""
        there = {job for run in self._runs.values() for job in (*run.waiting, *run.running)}
        return [job for job in self._awaited if job not in there]


class ElsewhereTold:
    """Takes up what the user's runs tell, in the order in which it was told."""

    def __init__(
        self,
        elsewhere: Elsewhere,
        deciding: Deciding,
        live: Live,
        news: News,
        *,
        off_loop: OffLoop,
        run_soon: Callable[[JobKey], None],
    ) -> None:
        """`run_soon` has a case decided on once more, and run where that is needed."""
        self._elsewhere = elsewhere
        self._deciding = deciding
        self._live = live
        self._news = news
        self._off_loop = off_loop
        self._run_soon = run_soon
        self._order = asyncio.Lock()

    async def take_up(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """What a run has told since the last time."""
        async with self._order:
            jobs = [job_of(event) for event in events if isinstance(event, CaseStarted)]
            self._elsewhere.started(run_id, await self._off_loop(lambda: self._deciding.some(jobs)))
            for event in events:
                if isinstance(event, CaseFinished):
                    await self._on_finished(run_id, event)
                elif isinstance(event, RunFinished):
                    self._elsewhere.over(run_id)
                    for job in self._elsewhere.lost():
                        self._elsewhere.take(job)
                        self._run_soon(job)

    async def _on_finished(self, run_id: str, event: CaseFinished) -> None:
        """Tell a verdict that was waited for; where it is none on how things are now, the case is run after all."""
        job, place = job_of(event), Place(run_id, job_of(event))
        self._elsewhere.ended(run_id, job)
        if not self._elsewhere.awaits(job):
            return
        decision = await self._off_loop(lambda: self._deciding.one(job))
        if decision is None or not self._elsewhere.awaits(job) or job in self._live:
            return  # a change has come meanwhile
        saved_at = self._elsewhere.take(job)
        if event.status is CaseStatus.CANCELLED or decision.action in (Action.RUN, Action.JUDGE):
            self._run_soon(job)
        elif decision.verdict is not None and place_of(decision.verdict) == place:
            holds = decision.action is Action.NOTHING
            self._news.verdict(decision.planned, event.result, saved_at=saved_at, place=place, holds=holds)
