"""A run as its listeners see it: what happened so far, and the handle to stop it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import NamedTuple, Protocol

from workbench.engine.event_log import EventLog, PassingLog
from workbench.engine.plan import Plan
from workbench.engine.summary import Verdict, exit_status, summarise, verdict_of
from workbench.model.events import Notice, RunEvent, RunFinished, RunSummary
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult, FailureKind
from workbench.model.spending import ModelSpending


class RunControl(Protocol):
    """What a run can be told; every method is called on the engine's loop."""

    def cancel(self, job: JobKey | None) -> None: ...

    def requeue(self, jobs: Iterable[JobKey]) -> None: ...


class Holds(Enum):
    """What a run holds in memory until it is let go of."""

    EVERYTHING = "everything"
    VERDICTS = "verdicts"  # of results what a summary needs, and only events that its one listener has not read


class _Kept(NamedTuple):
    verdict: Verdict
    result: CaseResult | None


class Run:
    """One execution of a plan. Every method may be called from any thread."""

    def __init__(
        self, run_id: str, plan: Plan, *, call_engine: Callable[..., None], holds: Holds = Holds.EVERYTHING
    ) -> None:
        self.run_id = run_id
        self.plan = plan
        self.holds = holds
        log = EventLog[RunEvent] if holds is Holds.EVERYTHING else PassingLog[RunEvent]
        self.log = log(last=RunFinished)
        self._call_engine = call_engine
        self._control: RunControl | None = None
        self._done: Future[None] | None = None
        self._kept: dict[JobKey, _Kept] = {}
        self._lock = threading.Lock()
        self.interrupted = False
        self.has_lost_results = False
        """True if results could not be stored, on a full disk for example."""
        self.models: tuple[ModelSpending, ...] = plan.spent
        """What models were asked so far. The engine sets it."""

    def attach(self, control: RunControl, done: Future[None]) -> None:
        """Connect the run to what carries it out. For the engine."""
        self._control = control
        self._done = done

    def detach(self) -> None:
        """Let go of what has carried it out and holds it: both may be large, and cycles stay long. For the engine."""
        self._control = None

    def keep(self, job: JobKey, result: CaseResult) -> None:
        """Note a result; one of the same job replaces it. For the engine."""
        with self._lock:
            self._kept[job] = _Kept(verdict_of(result), result if self.holds is Holds.EVERYTHING else None)

    def warn(self, message: str) -> None:
        """Tell every listener of something that went wrong beside the cases. For the engine. Thread-safe."""
        self.log.append(Notice(severity="error", message=message))

    def lose(self, message: str) -> None:
        """As `warn`, of results that could not be stored: a command must not end as if they were."""
        self.has_lost_results = True
        self.warn(message)

    def events(self) -> AsyncIterator[RunEvent]:
        """Every event from the first on, for listeners on any event loop (for one, where verdicts are held)."""
        return self.log.events()

    def iter_events(self) -> Iterator[RunEvent]:
        """Every event from the first on, waiting for those to come; for a thread without an event loop."""
        return self.log.iter_events()

    def cancel(self, job: JobKey | None = None) -> None:
        """Stop one job, or all that have not ended; they end CANCELLED. Returns at once."""
        if (control := self._control) is not None:
            self._call_engine(control.cancel, job)

    def requeue(self, jobs: Iterable[JobKey]) -> None:
        """Run jobs of this run again, those that are running too; nothing happens once the run is over."""
        if (control := self._control) is not None:
            self._call_engine(control.requeue, tuple(jobs))

    def results(self) -> list[CaseResult]:
        """The results so far, in the order of the plan; none where only verdicts are held."""
        with self._lock:
            return [kept.result for kept in self._in_order() if kept.result is not None]

    def summary(self) -> RunSummary:
        """The numbers so far."""
        with self._lock:
            summary = summarise(kept.verdict for kept in self._in_order())
        return summary.model_copy(update={"models": self.models})

    @property
    def exit_status(self) -> int:
        """What a command that only did this run ends with (see `summary.exit_status`)."""
        return exit_status(
            self.summary(),
            interrupted=self.interrupted,
            wrong_input=self.has_wrong_input,
            requires_all_samples=self.plan.limits.require_all_samples,
        )

    @property
    def has_wrong_input(self) -> bool:
        """Whether a file or the configuration is wrong, or results could not be stored."""
        with self._lock:
            file_problem = any(kept.verdict.failure is FailureKind.FILE for kept in self._kept.values())
        return file_problem or self.has_lost_results or bool(self.plan.problems)

    @property
    def is_over(self) -> bool:
        """Whether everything of it has ended."""
        return self._done is not None and self._done.done()

    def close(self) -> None:
        """Stop what is running and wait until everything of it has ended."""
        self.cancel()
        if self._done is not None:
            self._done.result()

    def _in_order(self) -> Iterator[_Kept]:
        """What is kept, in the order of the plan. Needs the lock."""
        jobs = self.plan.jobs
        if len(jobs) == len(self._kept) and all(key is job for key, (job, _) in zip(self._kept, jobs, strict=True)):
            return iter(self._kept.values())  # as rows end: to look up thousands takes longer than to see that
        return (kept for key, _ in jobs if (kept := self._kept.get(key)) is not None)
