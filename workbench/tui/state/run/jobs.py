"""The jobs of one run: which are under way and how far, which have ended and how. Every event costs the same."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from workbench.model.events import CaseFinished, CaseStarted, InvocationFinished, RunEvent, RunFinished
from workbench.model.keys import CaseKey, JobKey
from workbench.tui.state.run.failures import FailureGroup, FailureGroups
from workbench.tui.state.standing import Standing, standing_of


@dataclass(slots=True)
class RunningJob:
    """A job under way. `began` is when its first try did; `turns` is None where a simulated user decides."""

    key: JobKey
    began: float
    turns: int | None
    finished_turns: int = 0
    attempt: int = 1


@dataclass(slots=True)
class FinishedJob:
    """A job that has ended. `number` is its place among those that have, from 0."""

    key: JobKey
    number: int
    standing: Standing
    seconds: float
    is_kept: bool = False  # an earlier run's result that still counts


@dataclass
class RunJobs:
    """The jobs of a run as its events tell. Times are seconds of the clock that the caller reads."""

    waiting: dict[JobKey, None] = field(default_factory=dict)  # the next first
    running: dict[JobKey, RunningJob] = field(default_factory=dict)
    counts: Counter[Standing] = field(default_factory=Counter)  # of those that have ended
    _finished: dict[JobKey, FinishedJob] = field(default_factory=dict)
    _order: list[FinishedJob] = field(default_factory=list)
    _kept: int = 0
    _failures: FailureGroups = field(default_factory=FailureGroups)

    @property
    def finished(self) -> Sequence[FinishedJob]:
        """Those that have ended, in the order in which they did."""
        return self._order

    @property
    def kept(self) -> int:
        """How many need not run, because an earlier run's result still counts."""
        return self._kept

    @property
    def failures(self) -> Sequence[FailureGroup]:
        """What went wrong, the most frequent first."""
        return self._failures.largest_first()

    def slowest(self, count: int) -> Sequence[FinishedJob]:
        """Those that took longest, the longest first."""
        ran = (job for job in self._order if job.seconds > 0 and not job.is_kept)
        return heapq.nlargest(count, ran, key=lambda job: job.seconds)

    def finished_job(self, key: JobKey) -> FinishedJob | None:
        """How a job ended; None where it has not."""
        return self._finished.get(key)

    def unfinished(self, cases: Collection[CaseKey]) -> Sequence[JobKey]:
        """The jobs of these cases that run or wait."""
        return [job for job in (*self.running, *self.waiting) if job.case in cases]

    def apply(self, event: RunEvent, *, now: float) -> None:
        """Take one event of the run."""
        if isinstance(event, CaseStarted):
            self._start(event, now=now)
        elif isinstance(event, InvocationFinished):
            running = self.running.get(_key(event))
            if running is not None:
                running.finished_turns = event.turn + 1
        elif isinstance(event, CaseFinished):
            self._finish(event)
        elif isinstance(event, RunFinished):
            self.running.clear()
            self.waiting.clear()

    def expect(self, keys: Iterable[JobKey]) -> None:
        """These jobs are part of the run, and wait until they begin."""
        self.waiting.update(dict.fromkeys(keys))

    def requeue(self, key: JobKey) -> None:
        """The user wants a job again: it waits until it begins."""
        self.running.pop(key, None)
        self._forget(key)
        self.expect([key])

    def _forget(self, key: JobKey) -> None:
        """A job that runs again has not ended."""
        gone = self._finished.pop(key, None)
        if gone is None:
            return
        self.counts[gone.standing] -= 1
        self._kept -= gone.is_kept
        self._failures.forget(key)
        del self._order[gone.number]
        for job in self._order[gone.number :]:
            job.number -= 1

    def _start(self, event: CaseStarted, *, now: float) -> None:
        key = _key(event)
        known = self.running.get(key)
        self.waiting.pop(key, None)
        self._forget(key)
        self.running[key] = RunningJob(key, now if known is None else known.began, event.turns, attempt=event.attempt)

    def _finish(self, event: CaseFinished) -> None:
        key = _key(event)
        self.waiting.pop(key, None)
        self.running.pop(key, None)
        self._forget(key)
        job = FinishedJob(
            key, len(self._order), standing_of([event.status]), event.result.agent_seconds, event.source == "stored"
        )
        self._finished[key] = job
        self._order.append(job)
        self.counts[job.standing] += 1
        self._kept += job.is_kept
        self._failures.add(key, event.result)


def _key(event: CaseStarted | InvocationFinished | CaseFinished) -> JobKey:
    return JobKey(case=event.case, repeat=event.repeat)
