"""Results of jobs on their way: gathered, stored together, and shown once they are stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from workbench.engine.job_results import finished_event, without_dependencies
from workbench.engine.plan import PlannedCase
from workbench.engine.run import Run
from workbench.model.events import RunFinished
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult, CaseStatus

_TOGETHER_SECONDS = 0.01

# Enough to make the cost of a transaction small, unless that would hold up who waits for results.
_ENOUGH = 1024
_LONG_SECONDS = 0.2

Ended = tuple[JobKey, PlannedCase, CaseResult]


class Recorder(Protocol):
    """Keeps results where the next start finds them. What cannot be kept is said once, as a notice."""

    def begin(self, run: Run) -> None: ...

    def keep_unjudged(self, results: Iterable[tuple[PlannedCase, CaseResult]]) -> None: ...

    def keep(self, results: Sequence[Ended]) -> Sequence[bool]:
        """Whether it has kept each of these."""

    def end(self, run: Run, finished: RunFinished) -> None: ...

    def tidy(self) -> None:
        """Whatever takes its time and nobody waits for. The last that is asked."""


class Finishing:
    """The results of one run that are not shown yet. Used on the engine's loop."""

    def __init__(self, run: Run, recorder: Recorder) -> None:
        self._run = run
        self._recorder = recorder
        self._ended: list[Ended] = []
        self._unjudged: dict[JobKey, tuple[PlannedCase, CaseResult]] = {}
        self._stored_at = time.perf_counter()

    def add(self, key: JobKey, planned: PlannedCase, result: CaseResult) -> None:
        """A job has ended: it is stored soon."""
        self._store_soon()
        self._ended.append((key, planned, result))

    def add_unjudged(self, key: JobKey, planned: PlannedCase, result: CaseResult) -> None:
        """An agent has done its work: asking judges takes its time, and what ends that must not cost the work."""
        self._store_soon()
        self._unjudged[key] = planned, result

    def add_batch(self, ended: Iterable[Ended]) -> None:
        """As `add` for jobs that end by the thousand: `store` has to be called after the last batch."""
        self._ended += ended
        if len(self._ended) >= _ENOUGH or time.perf_counter() - self._stored_at > _LONG_SECONDS:
            self.store()

    def store(self) -> None:
        """Store what there is, then show it."""
        self._stored_at = time.perf_counter()
        ended, self._ended = self._ended, []
        if self._unjudged:
            self._store_unjudged({key for key, _, result in ended if result.status is not CaseStatus.CANCELLED})
        if not ended:
            return
        are_kept: Sequence[bool] = [False] * len(ended)
        try:
            are_kept = self._recorder.keep(ended)
        except Exception as error:  # a fault of our own: whatever it is, the verdicts must still be shown
            self._run.lose(f"results could not be stored because workbench itself failed: {error!r}")
        is_judged = self._run.plan.options.scores
        for (key, _, stored), is_kept in zip(ended, are_kept, strict=True):
            result = without_dependencies(stored)
            self._run.keep(key, result)
            event = finished_event(key, result, source="executed", in_history=is_kept, is_judged=is_judged)
            self._run.log.append(event)

    def _store_soon(self) -> None:
        """Whatever comes in the next few milliseconds is stored together, in one transaction."""
        if not self._ended and not self._unjudged:
            asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self.store)

    def _store_unjudged(self, judged: Collection[JobKey]) -> None:
        unjudged, self._unjudged = self._unjudged, {}
        left = [noted for key, noted in unjudged.items() if key not in judged]
        if left:
            try:
                self._recorder.keep_unjudged(left)
            except Exception as error:  # as in `store`
                self._run.lose(f"what agents did could not be stored because workbench itself failed: {error!r}")
