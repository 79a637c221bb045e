"""What the watch is running now, and how things were when that began."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.engine.plan import PlannedCase
from workbench.engine.run import Run
from workbench.model.events import CaseFinished, CaseStarted
from workbench.model.keys import JobKey
from workbench.store.history import StoredVerdict
from workbench.watch.selection import Decision, Place, Selector, place_of

_LATELY = 1.0  # seconds in which the watcher tells of what was written
_DYING = 0.1  # seconds in which processes end, and the clock of a disk may be late


@dataclass(frozen=True)
class LiveJob:
    """A job that is running, and how things were when it began."""

    run: Run
    planned: PlannedCase
    signature: int | None
    saved_at: float | None

    def goes_on(self, decision: Decision, selector: Selector) -> bool:
        """Whether it may end, by what is decided now: nothing that it is known to need has changed since it began."""
        same_question = self.planned.execution_hash == decision.planned.execution_hash
        return same_question and self.signature == selector.signature(decision)

    @property
    def ends_with_its_processes(self) -> bool:
        """Whether nothing of it can write any more once it has ended."""
        return self.run.plan.limits.isolation == "case" and self.planned.target.runs_in_worker


@dataclass(frozen=True)
class _End:
    """When a job ended, by the clock of files, and whether its processes did."""

    at: float
    is_of_processes: bool


def job_of(event: CaseStarted | CaseFinished) -> JobKey:
    """The job that an event is about."""
    return JobKey(case=event.case, repeat=event.repeat)


class Live:
    """The jobs that run for the watch, by generation: a change makes a new one."""

    def __init__(self) -> None:
        self.generation = 0
        self._jobs: dict[JobKey, LiveJob] = {}
        self._waiting: set[JobKey] = set()  # of them, those that have not begun
        self._ran_in: dict[Place, int] = {}
        self._ended: dict[JobKey, _End] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, job: JobKey) -> bool:
        return job in self._jobs

    def get(self, job: JobKey) -> LiveJob | None:
        """The job as it runs; None where it does not."""
        return self._jobs.get(job)

    def begin(self, job: JobKey, live: LiveJob) -> None:
        """It waits in a run, and runs."""
        self._jobs[job] = live
        self._waiting.add(job)
        self.note_run(live.run.run_id, [job])

    def note_begun(self, run: Run, job: JobKey) -> None:
        """A job of a run waits no longer."""
        live = self._jobs.get(job)
        if live is not None and live.run is run:
            self._waiting.discard(job)

    def is_waiting(self, job: JobKey) -> bool:
        """Whether it is to run and has not begun."""
        return job in self._waiting

    def end(self, job: JobKey) -> None:
        """It does not run any longer, or nobody waits for what it says."""
        live = self._jobs.pop(job, None)
        self._waiting.discard(job)
        self._ended[job] = _End(time.time(), is_of_processes=live is not None and live.ends_with_its_processes)

    def may_have_written(self, job: JobKey, written_at: float | None) -> bool:
        """Whether a change may be the work of a job: it runs, or ended so lately that it is only seen now.

        `written_at` is when the last of it was written, None where that is not known.
        """
        ended = self._ended.get(job)
        if job in self._jobs or ended is None:
            return job in self._jobs
        if ended.is_of_processes and written_at is not None and written_at > ended.at + _DYING:
            return False
        return time.time() - ended.at < _LATELY

    def cancel(self) -> None:
        """Stop all of it."""
        for live in self._jobs.values():
            live.run.cancel()

    def change_came(self) -> None:
        """From now on how things were when something began is not known to be how they are."""
        self.generation += 1
        self._ran_in.clear()

    def note_run(self, run_id: str, jobs: Iterable[JobKey]) -> None:
        """A run begins, of the watch or not: what it will say is about how things are now."""
        self._ran_in.update((Place(run_id, job), self.generation) for job in jobs)

    def is_current(self, verdict: StoredVerdict) -> bool:
        """Whether nothing at all has changed since it began to run."""
        return self._ran_in.get(place_of(verdict)) == self.generation
