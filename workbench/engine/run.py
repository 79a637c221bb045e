"""`Run`: its events, its results, its summary."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from workbench.engine.plan import Plan
from workbench.model.base import cache_by_identity
from workbench.model.identity import JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    FailureKind,
    MetricResult,
    MetricScores,
    ModelSpending,
    has_judgements,
    has_missing_samples,
)
from workbench.model.run_events import MetricSummary, Notice, RunEvent, RunFinished, RunSummary

# The events of one run or chat, for any number of listeners on any thread or event loop.

E = TypeVar("E")

# A listener that is woken waits this long for more: being woken for each event would cost a busy run more than the
# event itself.
_GATHER_SECONDS = 0.005

# Unread events hold the results of whole cases.
_MOST_UNREAD = 256
_PATIENCE = 1.0  # seconds


class EventLog(Generic[E]):
    """Keeps what happened; each listener reads on from its own place, from the first event.

    Appending never waits: a listener that is slow or gone costs nothing but the memory of the log. An event
    of the type `last` ends the log for every listener.
    """

    def __init__(self, *, last: type[Any]) -> None:
        self._last = last
        self._events: list[E] = []
        self._wakers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def append(self, event: E) -> None:
        """Add an event and wake whoever waits. Thread-safe."""
        with self._lock:
            self._events.append(event)
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def let_listener_catch_up(self) -> None:
        """Wait a moment while the one listener has too much to read. A run without a listener never stops here."""

    @property
    def event_count(self) -> int:
        """How many events are in memory."""
        return len(self._events)

    async def events(self) -> AsyncIterator[E]:
        """All events from the first on, ending after the last."""
        loop = asyncio.get_running_loop()
        position = 0
        while True:
            arrived = asyncio.Event()
            batch = self._read(position, wake=lambda arrived=arrived: _wake(loop, arrived))  # type: ignore[misc]
            if not batch:
                await arrived.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                continue
            position += len(batch)
            for event in batch:
                yield event
                if isinstance(event, self._last):
                    return

    def iter_events(self) -> Iterator[E]:
        """The same for a thread without an event loop: waits where nothing has happened yet."""
        position = 0
        while True:
            arrived = threading.Event()
            batch = self._read(position, wake=arrived.set)
            if not batch:
                arrived.wait()
                time.sleep(_GATHER_SECONDS)
                continue
            position += len(batch)
            for event in batch:
                yield event
                if isinstance(event, self._last):
                    return

    def _read(self, position: int, *, wake: Callable[[], None]) -> list[E]:
        """What came after `position`; where nothing did, `wake` is called once when something does."""
        with self._lock:
            batch = self._events[position:]
            if not batch:
                self._wakers.append(wake)
            return batch


class PassingLog(EventLog[E]):
    """The same for one listener only: what it has read is let go of."""

    async def let_listener_catch_up(self) -> None:
        """See `EventLog.let_listener_catch_up`."""
        until = time.monotonic() + _PATIENCE
        while self.event_count > _MOST_UNREAD and time.monotonic() < until:  # noqa: ASYNC110 - readers may be threads
            await asyncio.sleep(_GATHER_SECONDS)

    def _read(self, position: int, *, wake: Callable[[], None]) -> list[E]:  # noqa: ARG002 - all there is, is new
        with self._lock:
            batch, self._events = self._events, []
            if not batch:
                self._wakers.append(wake)
            return batch


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> Any:
    # The listener's loop may have been closed since; the run does not care.
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrived.set)


# How a run came out, in numbers.


class Verdict(NamedTuple):
    """What of a result counts in a summary."""

    status: CaseStatus
    failure: FailureKind | None
    scores: MetricScores
    is_partly_judged: bool = False


def make_verdict(result: CaseResult) -> Verdict:
    """What counts of a result."""
    failure = None if result.failure is None else result.failure.kind
    return Verdict(result.status, failure, _list_scores(result.metrics), has_missing_samples(result.metrics))


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def _list_scores(metrics: tuple[MetricResult, ...]) -> MetricScores:
    return tuple([(sys.intern(metric.name), metric.score) for metric in metrics])


def summarise(verdicts: Iterable[Verdict]) -> RunSummary:
    """Cases by status, and each metric's mean and deviation over the cases that it could score."""
    statuses = dict.fromkeys(CaseStatus, 0)
    metrics: dict[str, _Running] = {}
    partly_judged = 0
    for verdict in verdicts:
        statuses[verdict.status] += 1
        partly_judged += verdict.is_partly_judged
        for name, score in verdict.scores:
            running = metrics.get(name)
            if running is None:
                running = metrics[name] = _Running()
            running.add(score)
    return RunSummary(
        total=sum(statuses.values()),
        passed=statuses[CaseStatus.PASSED],
        failed=statuses[CaseStatus.FAILED],
        error=statuses[CaseStatus.ERROR],
        not_evaluated=statuses[CaseStatus.NOT_EVALUATED],
        skipped=statuses[CaseStatus.SKIPPED],
        cancelled=statuses[CaseStatus.CANCELLED],
        partly_judged=partly_judged,
        metrics={name: running.summary() for name, running in metrics.items()},
    )


class _Running:
    """Mean and sample deviation of the scores seen; those that do not exist count in the total only.

    Welford's method: stable for many numbers that lie close together.
    """

    __slots__ = ("_mean", "_scored", "_squares", "_total")

    def __init__(self) -> None:
        self._total = 0
        self._scored = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, score: float | None) -> None:
        self._total += 1
        if score is None:
            return
        self._scored += 1
        delta = score - self._mean
        self._mean += delta / self._scored
        self._squares += delta * (score - self._mean)

    def summary(self) -> MetricSummary:
        return MetricSummary(
            mean=None if not self._scored else self._mean if self._scored == 1 else _round_noise(self._mean),
            std=_round_noise(math.sqrt(self._squares / (self._scored - 1))) if self._scored > 1 else None,
            scored=self._scored,
            total=self._total,
        )


def _round_noise(value: float) -> float:
    """The number without the error of adding binary fractions: 0.3, not 0.30000000000000004, and 2/3 as it is."""
    short = float(f"{value:.15g}")
    return short if len(repr(short)) + _NOISE_DIGITS < len(repr(value)) else value


_NOISE_DIGITS = 3
"""More digits than these that rounding the last two away saves are zeros or nines, which no quotient has by chance."""

PASSED, FAILED, WRONG_INPUT, ERRORS, INTERRUPTED = 0, 1, 2, 3, 130


def exit_status(
    summary: RunSummary, *, interrupted: bool = False, wrong_input: bool = False, requires_all_samples: bool = False
) -> int:
    """What a command that ran this ends with.

    130 interrupted; 2 a file or configuration is wrong, or results could not be stored (`wrong_input`); 1 some case
    FAILED, or nothing was evaluated; 3 none failed but some ended in ERROR, or with `requires_all_samples` some were
    judged by fewer samples than asked for; 0 all passed.
    """
    if interrupted:
        return INTERRUPTED
    if wrong_input:
        return WRONG_INPUT
    if summary.failed:
        return FAILED
    if summary.error or (requires_all_samples and summary.partly_judged):
        return ERRORS
    return PASSED if summary.passed and summary.passed + summary.skipped == summary.total else FAILED


# A run as its listeners see it: what happened so far, and the handle to stop it.


class RunControl(Protocol):
    """What a run can be told; every method is called on the engine's loop."""

    def cancel(self, job: JobKey | None) -> None: ...

    def requeue(self, jobs: Iterable[JobKey]) -> None: ...


class Holds(Enum):
    """What a run holds in memory until it is let go of."""

    EVERYTHING = "everything"
    VERDICTS = "verdicts"  # of results what a summary needs, and only events that its one listener has not read


class _Entry(NamedTuple):
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
        self._kept: dict[JobKey, _Entry] = {}
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

    def add_result(self, job: JobKey, result: CaseResult) -> None:
        """Note a result; one of the same job replaces it. For the engine."""
        with self._lock:
            self._kept[job] = _Entry(make_verdict(result), result if self.holds is Holds.EVERYTHING else None)

    def warn(self, message: str) -> None:
        """Tell every listener of something that went wrong beside the cases. For the engine. Thread-safe."""
        self.log.append(Notice(severity="error", message=message))

    def report_lost_results(self, message: str) -> None:
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
            return [kept.result for kept in self._list_entries() if kept.result is not None]

    def summary(self) -> RunSummary:
        """The numbers so far."""
        with self._lock:
            summary = summarise(kept.verdict for kept in self._list_entries())
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

    def _list_entries(self) -> Iterator[_Entry]:
        """What is kept, in the order of the plan. Needs the lock."""
        jobs = self.plan.jobs
        if len(jobs) == len(self._kept) and all(key is job for key, (job, _) in zip(self._kept, jobs, strict=True)):
            return iter(self._kept.values())  # as rows end: to look up thousands takes longer than to see that
        return (kept for key, _ in jobs if (kept := self._kept.get(key)) is not None)
