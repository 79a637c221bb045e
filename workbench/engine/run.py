"""`Run`: its events, its results, its summary."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from workbench.engine.plan import Plan
from workbench.model.facts import cache_by_identity
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    FailureKind,
    MetricResult,
    MetricScores,
    ModelCalls,
    ModelSpending,
    has_judgements,
    has_missing_samples,
)
from workbench.model.run_events import MetricSummary, Notice, RunEvent, RunFinished, RunSummary
from workbench.report.significance import mean_interval

# The events of a run or chat, for listeners on any thread or event loop.

E = TypeVar("E")

# A woken listener waits this long to collect more events: waking it for each event would cost a busy run more than the
# event itself.
_MOST_AT_ONCE = 256  # events, so that output begins soon
_GATHER_SECONDS = 0.005

# Unread events hold the results of whole cases.
_MOST_UNREAD = 256
_PATIENCE = 1.0  # seconds


class EventLog(Generic[E]):
    """A log of events. Each listener reads from the first event at its own pace.

    Appending never waits, even if a listener is slow or gone. An event of the type `last` ends the log.
    """

    def __init__(self, *, last: type[Any]) -> None:
        self._last = last
        self._events: list[E] = []
        self._wakers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def append(self, event: E) -> None:
        """Add an event and wake the waiting listeners. Thread-safe."""
        self.extend((event,))

    def extend(self, events: Iterable[E]) -> None:
        """Do as `append` for several events."""
        with self._lock:
            self._events.extend(events)
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def let_listener_catch_up(self) -> None:
        """Do nothing; `PassingLog` waits for a slow listener here."""

    @property
    def event_count(self) -> int:
        return len(self._events)

    async def events(self) -> AsyncIterator[E]:
        """Yield all events from the first to the last."""
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
        """Yield the same events to a thread without an event loop, waiting for new ones."""
        for batch in self.iter_batches():
            yield from batch

    def iter_batches(self) -> Iterator[Sequence[E]]:
        """Do as `iter_events`, with up to some hundred events at once that have come."""
        position = 0
        while True:
            arrived = threading.Event()
            batch = self._read(position, wake=arrived.set)
            if not batch:
                arrived.wait()
                if self._count_unread(position) < _MOST_AT_ONCE:
                    time.sleep(_GATHER_SECONDS)
                continue
            position += len(batch)
            for start in range(0, len(batch), _MOST_AT_ONCE):
                part = batch[start : start + _MOST_AT_ONCE]
                for count, event in enumerate(part, start=1):
                    if isinstance(event, self._last):
                        yield part[:count]
                        return
                yield part

    def _count_unread(self, position: int) -> int:
        return len(self._events) - position

    def _read(self, position: int, *, wake: Callable[[], None]) -> list[E]:
        """Return the events from `position` on. If there are none, `wake` is called once for the next."""
        with self._lock:
            batch = self._events[position:]
            if not batch:
                self._wakers.append(wake)
            return batch


class PassingLog(EventLog[E]):
    """A log for a single listener. Events are dropped once read."""

    async def let_listener_catch_up(self) -> None:
        """Wait a moment, at most a second, while the listener has too much to read."""
        until = time.monotonic() + _PATIENCE
        while self.event_count > _MOST_UNREAD and time.monotonic() < until:  # noqa: ASYNC110 - readers may be threads
            await asyncio.sleep(_GATHER_SECONDS)

    def _count_unread(self, position: int) -> int:  # noqa: ARG002 - all there is, is new
        return len(self._events)

    def _read(self, position: int, *, wake: Callable[[], None]) -> list[E]:  # noqa: ARG002 - all there is, is new
        with self._lock:
            batch, self._events = self._events, []
            if not batch:
                self._wakers.append(wake)
            return batch


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> Any:
    # The loop of the listener may be closed by now.
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrived.set)


# The summary of a run.


class Verdict(NamedTuple):
    """The part of a result that counts in a summary."""

    status: CaseStatus
    failure: FailureKind | None
    scores: MetricScores
    is_partly_judged: bool = False
    is_quarantined: bool = False
    case: CaseKey | None = None  # whose repeats count together


def make_verdict(result: CaseResult) -> Verdict:
    failure = None if result.failure is None else result.failure.kind
    scores, has_missing = _list_scores(result.metrics), has_missing_samples(result.metrics)
    return Verdict(result.status, failure, scores, has_missing, result.is_quarantined, result.case)


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def _list_scores(metrics: tuple[MetricResult, ...]) -> MetricScores:
    return tuple([(sys.intern(metric.name), metric.score) for metric in metrics])


def summarise(verdicts: Iterable[Verdict]) -> RunSummary:
    """Count cases by status, and compute mean and deviation of each metric over the cases that have a score."""
    statuses = dict.fromkeys(CaseStatus, 0)
    metrics: dict[str, _Running] = {}
    numbers: dict[CaseKey | None, int] = {}  # of cases, which are looked up faster
    partly_judged = quarantined = 0
    for verdict in verdicts:
        statuses[verdict.status] += 1
        quarantined += verdict.is_quarantined
        partly_judged += verdict.is_partly_judged
        number = numbers.setdefault(verdict.case, len(numbers))
        for name, score in verdict.scores:
            running = metrics.get(name)
            if running is None:
                running = metrics[name] = _Running()
            running.add(score, number)
    return RunSummary(
        total=sum(statuses.values()),
        passed=statuses[CaseStatus.PASSED],
        failed=statuses[CaseStatus.FAILED] - quarantined,
        quarantined=quarantined,
        error=statuses[CaseStatus.ERROR],
        not_evaluated=statuses[CaseStatus.NOT_EVALUATED],
        skipped=statuses[CaseStatus.SKIPPED],
        cancelled=statuses[CaseStatus.CANCELLED],
        partly_judged=partly_judged,
        metrics={name: running.summary() for name, running in metrics.items()},
    )


class _Running:
    """Running mean and sample deviation. Undefined scores count in the total only.

    Welford's method, which is numerically stable for many close numbers.
    """

    __slots__ = ("_cases", "_mean", "_scored", "_squares", "_total")

    def __init__(self) -> None:
        self._total = 0
        self._scored = 0
        self._mean = 0.0
        self._squares = 0.0
        self._cases: dict[int, tuple[float, int]] = {}  # by number; the sum and the number of scores

    def add(self, score: float | None, case: int) -> None:
        self._total += 1
        if score is None:
            return
        so_far, count = self._cases.get(case, (0.0, 0))
        self._cases[case] = so_far + score, count + 1
        self._scored += 1
        delta = score - self._mean
        self._mean += delta / self._scored
        self._squares += delta * (score - self._mean)

    def summary(self) -> MetricSummary:
        variance = self._squares / (self._scored - 1) if self._scored > 1 else math.nan
        return MetricSummary(
            mean=None if not self._scored else self._mean if self._scored == 1 else _round_noise(self._mean),
            std=_round_noise(math.sqrt(variance)) if math.isfinite(variance) else None,  # 1e200 has no square
            scored=self._scored,
            total=self._total,
            interval=mean_interval([*self._cases.values()]),
        )


def _round_noise(value: float) -> float:
    """Round away the error of binary fractions: 0.3 for 0.30000000000000004; 2/3 stays unchanged."""
    short = float(f"{value:.15g}")
    return short if len(repr(short)) + _NOISE_DIGITS < len(repr(value)) else value


_NOISE_DIGITS = 3
"""If rounding two digits shortens the number by more than this, the digits were zeros or nines: an error."""

PASSED, FAILED, WRONG_INPUT, ERRORS, INTERRUPTED = 0, 1, 2, 3, 130


def exit_status(
    summary: RunSummary,
    *,
    interrupted: bool = False,
    wrong_input: bool = False,
    requires_all_samples: bool = False,
    may_be_empty: bool = False,
) -> int:
    """Return the exit status of a command.

    130: interrupted. 2: a file or configuration is wrong, or results could not be stored (`wrong_input`). 1: a case
    FAILED, or nothing was evaluated. 3: no case failed but some ended in ERROR, or `requires_all_samples` and some were
    judged by too few samples. 0: all passed, or there are no cases and there may be none (`may_be_empty`). A FAILED in
    quarantine counts as passed.
    """
    if interrupted:
        return INTERRUPTED
    if wrong_input:
        return WRONG_INPUT
    if summary.failed:
        return FAILED
    if summary.error or (requires_all_samples and summary.partly_judged):
        return ERRORS
    if may_be_empty and not summary.total:
        return PASSED
    good = summary.passed + summary.quarantined
    return PASSED if good and good + summary.skipped == summary.total else FAILED


# The run: its events and results so far, and its control.


class RunControl(Protocol):
    """Commands to a run. Every method is called on the engine's loop."""

    def cancel(self, job: JobKey | None) -> None: ...

    def requeue(self, jobs: Iterable[JobKey]) -> None: ...


class Holds(Enum):
    """What a run keeps in memory while it exists."""

    EVERYTHING = "everything"
    VERDICTS = "verdicts"  # only verdicts, and the events that its single listener has not read


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
        self._counted: RunSummary | None = None  # of these results
        self._lock = threading.Lock()
        self.interrupted = False
        self.has_lost_results = False
        """True if results could not be stored, for example on a full disk."""
        self.models: tuple[ModelSpending, ...] = plan.spent
        self.model_calls: ModelCalls | None = None
        """The calls to models so far. The engine sets it."""

    def attach(self, control: RunControl, done: Future[None]) -> None:
        """Connect the run to its runner. For the engine."""
        self._control = control
        self._done = done

    def detach(self) -> None:
        """Drop the runner to break a reference cycle: both may be large. For the engine."""
        self._control = None

    def add_results(self, results: Iterable[tuple[JobKey, CaseResult]]) -> None:
        """Add results, or replace those of the same jobs. For the engine."""
        keeps_results = self.holds is Holds.EVERYTHING
        with self._lock:
            for job, result in results:
                self._kept[job] = _Entry(make_verdict(result), result if keeps_results else None)
            self._counted = None

    def drop_scores(self) -> None:
        """Count verdicts only from now on. For the engine."""
        with self._lock:
            self._kept = {
                job: entry._replace(verdict=entry.verdict._replace(scores=())) for job, entry in self._kept.items()
            }
            self._counted = None

    def warn(self, message: str) -> None:
        """Report a problem outside the cases to every listener. For the engine. Thread-safe."""
        self.log.append(Notice(severity="error", message=message))

    def report_lost_results(self, message: str) -> None:
        """Report results that could not be stored, which changes the exit status."""
        self.has_lost_results = True
        self.warn(message)

    def events(self) -> AsyncIterator[RunEvent]:
        """Yield every event from the first on, on any event loop. With VERDICTS, for one listener only."""
        return self.log.events()

    def iter_events(self) -> Iterator[RunEvent]:
        """Yield every event from the first on and wait for new ones, on a thread without an event loop."""
        return self.log.iter_events()

    def iter_batches(self) -> Iterator[Sequence[RunEvent]]:
        """Do as `iter_events`, with up to some hundred events at once that have come."""
        return self.log.iter_batches()

    def cancel(self, job: JobKey | None = None) -> None:
        """Cancel one job, or all that have not ended. Returns at once."""
        if (control := self._control) is not None:
            self._call_engine(control.cancel, job)

    def requeue(self, jobs: Iterable[JobKey]) -> None:
        """Run jobs again, including running ones. Does nothing once the run is over."""
        if (control := self._control) is not None:
            self._call_engine(control.requeue, tuple(jobs))

    def results(self) -> list[CaseResult]:
        """Return the results so far, in the order of the plan; empty with VERDICTS."""
        with self._lock:
            return [kept.result for kept in self._list_entries() if kept.result is not None]

    def summary(self) -> RunSummary:
        with self._lock:
            if self._counted is None:
                self._counted = summarise(kept.verdict for kept in self._list_entries())
            summary = self._counted
        return summary.model_copy(update={"models": self.models, "model_calls": self.model_calls})

    @property
    def exit_status(self) -> int:
        return exit_status(
            self.summary(),
            interrupted=self.interrupted,
            wrong_input=self.has_wrong_input,
            requires_all_samples=self.plan.limits.require_all_samples,
            may_be_empty=self.plan.shard is not None,
        )

    @property
    def has_wrong_input(self) -> bool:
        """Whether a file or the configuration is wrong, or results could not be stored."""
        with self._lock:
            file_problem = any(kept.verdict.failure is FailureKind.FILE for kept in self._kept.values())
        return file_problem or self.has_lost_results or bool(self.plan.problems)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended completely."""
        return self._done is not None and self._done.done()

    def close(self) -> None:
        """Cancel the run and wait for its end."""
        self.cancel()
        if self._done is not None:
            self._done.result()

    def _list_entries(self) -> Iterator[_Entry]:
        """Return the entries in the order of the plan. Needs the lock."""
        jobs = self.plan.jobs
        if len(jobs) == len(self._kept) and all(key is job for key, (job, _) in zip(self._kept, jobs, strict=True)):
            return iter(self._kept.values())  # already in order, as for rows; faster than thousands of lookups
        return (kept for key, _ in jobs if (kept := self._kept.get(key)) is not None)
