"""Decisions on the jobs of a watch, one look at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from workbench.engine.plan import PlannedCase
from workbench.model.keys import JobKey
from workbench.watch.selection import Decision, Place, Selector


class Deciding:
    """Holds every job against how things are. For the thread on which the workspace may be used."""

    def __init__(self, selector: Selector, *, shown: Mapping[JobKey, Place]) -> None:
        """`shown` are the verdicts that were told last: of several that hold, those."""
        self._selector = selector
        self._shown = shown
        self.jobs: dict[JobKey, PlannedCase] = {}
        self.lock = threading.Lock()

    def all(self) -> list[Decision]:
        """Decide on every job anew: anything may have changed."""
        with self.lock:
            self._selector.forget()
            return [self._decide(job, planned) for job, planned in self.jobs.items()]

    def some(self, jobs: Iterable[JobKey]) -> list[Decision]:
        """Decide on those of these jobs that there still are, by what was seen last."""
        with self.lock:
            return [self._decide(job, self.jobs[job]) for job in jobs if job in self.jobs]

    def one(self, job: JobKey) -> Decision | None:
        """The same for one job; None where it is gone."""
        return next(iter(self.some([job])), None)

    def _decide(self, job: JobKey, planned: PlannedCase) -> Decision:
        return self._selector.decide(job, planned, shown=self._shown.get(job))
