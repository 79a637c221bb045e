"""How a run came out, in numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import NamedTuple

from workbench.model.by_identity import by_identity
from workbench.model.events import MetricSummary, RunSummary
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    FailureKind,
    MetricResult,
    MetricScores,
    misses_samples,
    were_asked_of_models,
)


class Verdict(NamedTuple):
    """What of a result counts in a summary."""

    status: CaseStatus
    failure: FailureKind | None
    scores: MetricScores
    is_partly_judged: bool = False


def verdict_of(result: CaseResult) -> Verdict:
    """What counts of a result."""
    failure = None if result.failure is None else result.failure.kind
    return Verdict(result.status, failure, _scores_of(result.metrics), misses_samples(result.metrics))


@by_identity(at_most=256, but=were_asked_of_models)
def _scores_of(metrics: tuple[MetricResult, ...]) -> MetricScores:
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
            mean=None if not self._scored else self._mean if self._scored == 1 else _without_noise(self._mean),
            std=_without_noise(math.sqrt(self._squares / (self._scored - 1))) if self._scored > 1 else None,
            scored=self._scored,
            total=self._total,
        )


def _without_noise(value: float) -> float:
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
