"""The scores of many cases, gathered: mean, deviation, distribution and worst cases of each metric.

Gathered one result at a time and off the event loop: there may be ten thousand.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from workbench.model.agreement import is_unsure
from workbench.model.keys import CaseKey
from workbench.model.results import CaseStatus, MetricResult
from workbench.store.history import StoredScores
from workbench.tui.state.charts import histogram
from workbench.tui.state.scores.meaning import info_of

BINS = 10
WORST = 10
"""How many of the worst cases are kept for each metric."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """A case that scored low (or high, where low is good)."""

    case: CaseKey
    repeat: int
    score: float


@dataclass(frozen=True, slots=True)
class MetricSpread:
    """One metric over cases (and their repeats): `scored` of `total` have a score, `failed` fell short."""

    name: str
    threshold: float | None  # None where it only is reported, or where thresholds differ
    mean: float | None
    std: float | None  # of the sample; None below two scores
    scored: int
    total: int
    failed: int
    errors: int
    unsure: int  # results on which the samples of a judge disagree
    lowest: float
    highest: float
    bins: tuple[int, ...]
    worst: tuple[WorstCase, ...]
    decides: bool


@dataclass(frozen=True, slots=True)
class GroupSpread:
    """A set or target: how its cases ended in the newest run of each, and its metrics, those that decide first."""

    statuses: Counter[CaseStatus]
    metrics: tuple[MetricSpread, ...]


def spread_of(scores: Iterable[StoredScores]) -> GroupSpread:
    """Gather the scores of these jobs."""
    statuses: Counter[CaseStatus] = Counter()
    gathered: dict[str, _Gathered] = {}
    for job, metrics in scores:
        statuses[job.status] += 1
        for metric in metrics:
            if metric.name not in gathered:
                gathered[metric.name] = _Gathered(metric.name)
            gathered[metric.name].add(job.case, job.key.repeat, metric)
    found = [one.spread() for one in gathered.values()]
    return GroupSpread(statuses, tuple(sorted(found, key=lambda metric: not metric.decides)))


class _Gathered:
    def __init__(self, name: str) -> None:
        self._name = name
        info = info_of(name)
        self._info = info
        self._lower_is_better = info is not None and info.lower_is_better
        self._cases: list[tuple[CaseKey, int]] = []
        self._scores: list[float] = []
        self._thresholds: set[float | None] = set()
        self._statuses: Counter[str] = Counter()
        self._unsure = 0

    def add(self, case: CaseKey, repeat: int, metric: MetricResult) -> None:
        self._statuses[metric.status.value] += 1
        self._thresholds.add(metric.threshold)
        self._unsure += is_unsure(metric)
        if metric.score is not None:
            self._cases.append((case, repeat))
            self._scores.append(metric.score)

    def spread(self) -> MetricSpread:
        scores = self._scores
        lowest, highest = self._bounds()
        thresholds = self._thresholds - {None}
        return MetricSpread(
            name=self._name,
            threshold=next(iter(thresholds)) if len(thresholds) == 1 else None,
            mean=fmean(scores) if scores else None,
            std=stdev(scores) if len(scores) > 1 else None,
            scored=len(scores),
            total=sum(self._statuses.values()),
            failed=self._statuses["FAILED"],
            errors=self._statuses["ERROR"],
            unsure=self._unsure,
            lowest=lowest,
            highest=highest,
            bins=tuple(histogram(scores, lowest=lowest, highest=highest, bins=BINS)),
            worst=self._worst(),
            decides=bool(thresholds),
        )

    def _bounds(self) -> tuple[float, float]:
        """Those of the metric; where it has none, those of the scores."""
        scores: Sequence[float] = self._scores or (0.0,)
        info = self._info
        lowest = info.lowest if info is not None and info.lowest is not None else min(scores)
        highest = info.highest if info is not None and info.highest is not None else max(scores)
        return lowest, highest

    def _worst(self) -> tuple[WorstCase, ...]:
        sign = -1.0 if self._lower_is_better else 1.0
        numbered = ((sign * score, place) for place, score in enumerate(self._scores))
        return tuple(
            WorstCase(*self._cases[place], self._scores[place]) for _, place in heapq.nsmallest(WORST, numbered)
        )
