"""Two runs side by side: which cases came out otherwise, by how much scores moved, and what was judged differently.

A case is taken with all its repeats: it passes where each of them does. Repeats that never ran say nothing, and a case
of which no repeat ran counts as not in that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from workbench.model.keys import CaseKey
from workbench.model.results import CaseStatus
from workbench.report.criteria_changes import run_changes
from workbench.store.errors import StoreError
from workbench.store.history import History, StoredJob, StoredRun, StoredScores
from workbench.store.history.runs import LATEST

RUNS_LOOKED_BACK = 10
"""How many runs before the earlier one are asked whether a case goes back and forth."""

_NEVER_RAN = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)
_WORST_FIRST = (CaseStatus.ERROR, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED, CaseStatus.PASSED)
_SAME_SCORE = 1e-9


class Change(StrEnum):
    """What became of a case from the earlier run to the later one, the most urgent first."""

    REGRESSION = "regression"  # passed, and does not any longer
    FLAKY = "flaky"  # its repeats disagree, or it went back and forth in the runs before as well
    FIX = "fix"  # did not pass, and does now
    OTHER = "changed"  # passes in neither, but not in the same way: FAILED became ERROR
    NEW = "new"  # only the later run has it
    GONE = "gone"  # only the earlier run has it
    SAME = "same"


FLIPS = (Change.REGRESSION, Change.FLAKY, Change.FIX)
"""Changes of the verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one case came out in one run: over its repeats, in their order."""

    statuses: tuple[CaseStatus, ...]
    scores: Mapping[str, float]  # the mean of each metric over the repeats that have it
    deciding: frozenset[str]  # the metrics with a threshold; the others are only reported
    duration_seconds: float  # the mean, as of agent_seconds
    agent_seconds: float
    execution_key: str
    scoring_key: str
    misses_samples: bool  # whether one of them rests on fewer samples of a judge than were asked for

    @property
    def status(self) -> CaseStatus:
        """The worst of the repeats."""
        return next(status for status in _WORST_FIRST if status in self.statuses)

    @property
    def passed(self) -> bool:
        """Whether every repeat passed."""
        return self.status is CaseStatus.PASSED

    @property
    def disagrees(self) -> bool:
        """Whether some repeats passed, and some did not."""
        return CaseStatus.PASSED in self.statuses and not self.passed


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A metric of a case; None where that run has no score of it."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """By how much the score rose."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """One case in both runs; None where a run does not have it."""

    case: CaseKey
    before: Verdict | None
    after: Verdict | None
    change: Change
    reason: str = ""  # why it counts as flaky

    @property
    def scores(self) -> tuple[ScoreChange, ...]:
        """Every metric that either run has."""
        before = self.before.scores if self.before is not None else {}
        after = self.after.scores if self.after is not None else {}
        return tuple(ScoreChange(name, before.get(name), after.get(name)) for name in {**before, **after})

    @property
    def changed_scores(self) -> tuple[ScoreChange, ...]:
        """Metrics that decide, have a score in both runs, and not the same."""
        deciding = {name for verdict in (self.before, self.after) if verdict is not None for name in verdict.deciding}
        return tuple(
            score for score in self.scores if abs(score.difference or 0.0) > _SAME_SCORE and score.name in deciding
        )

    @property
    def asks_otherwise(self) -> bool:
        """Whether what reaches the agent (the case's prompts, the target's settings) is not what it was."""
        return _differs(self.before, self.after, lambda verdict: verdict.execution_key)

    @property
    def judged_otherwise(self) -> bool:
        """Whether what it was held against (the case's expectations, the criteria) is not what it was."""
        return _differs(self.before, self.after, lambda verdict: verdict.scoring_key)


@dataclass(frozen=True, slots=True)
class MetricChange:
    """The mean of a metric over the `cases` that have a score of it in both runs."""

    name: str
    before: float
    after: float
    cases: int

    @property
    def difference(self) -> float:
        """By how much the mean rose."""
        return self.after - self.before


@dataclass(frozen=True)
class RunComparison:
    """Two runs. `cases` are sorted by how urgent their change is, then by set and id."""

    before: StoredRun
    after: StoredRun
    cases: Sequence[ComparedCase]
    judged_differently: Sequence[str] = ()  # criteria, versions and options that differ, in sentences
    counts: Mapping[Change, int] = field(default_factory=dict)

    @cached_property
    def metrics(self) -> tuple[MetricChange, ...]:
        """The means over the cases that both runs have scored, so that a case more or less moves none."""
        pairs: dict[str, list[tuple[float, float]]] = {}
        for case in self.cases:
            for score in case.scores:
                if score.before is not None and score.after is not None:
                    pairs.setdefault(score.name, []).append((score.before, score.after))
        return tuple(_means(name, scores) for name, scores in pairs.items())

    def of(self, *changes: Change) -> list[ComparedCase]:
        """The cases with one of these changes."""
        return [case for case in self.cases if case.change in changes]


Earlier = Callable[[CaseKey], Sequence[Sequence[CaseStatus]]]
"""Gives how a case ended in the runs up to the earlier one, the newest first: the statuses of its repeats."""


def compare_stored(history: History, before: str | None = None, after: str | None = None) -> RunComparison:
    """Two runs of a history by their ids, the starts of them, or "latest".

    Without `after` it is the newest run that judged a case; without `before`, or if that is the same run, the one
    before that judged cases of the same sets. Raises StoreError, also if both names are those of one run.
    """
    newest = history.newest_judged_run() if after is None else None
    second = newest or history.run(LATEST if after is None else after)
    first = None if before is None else history.run(before)
    if first is not None and first.run_id == second.run_id:
        if after is not None:
            raise StoreError(history.path, f"both runs are {second.run_id}; name two runs, or only the earlier one")
        first = None
    if first is None:
        first = history.run_before(second.run_id)
    if first is None:
        problem = f"no run before {second.run_id} judged cases of its sets; run them again, or name two runs"
        raise StoreError(history.path, problem)

    def earlier(case: CaseKey) -> Sequence[Sequence[CaseStatus]]:
        return history.earlier_statuses(case, first.run_id, limit=RUNS_LOOKED_BACK)

    return compare(
        first,
        second,
        verdicts(history.scores(first.run_id)),
        verdicts(history.scores(second.run_id)),
        earlier=earlier,
    )


def compare(
    before: StoredRun,
    after: StoredRun,
    verdicts_before: Mapping[CaseKey, Verdict],
    verdicts_after: Mapping[CaseKey, Verdict],
    *,
    earlier: Earlier,
) -> RunComparison:
    """Two runs, from the verdicts of each; `earlier` is only asked about cases whose verdict flipped."""
    keys = {**dict.fromkeys(verdicts_before), **dict.fromkeys(verdicts_after)}
    cases = [_compared(key, verdicts_before.get(key), verdicts_after.get(key), earlier) for key in keys]
    order = {change: place for place, change in enumerate(Change)}
    cases.sort(key=lambda item: (order[item.change], item.case.target, item.case.eval_set, item.case.eval_id))
    counts = dict.fromkeys(Change, 0)
    for case in cases:
        counts[case.change] += 1
    return RunComparison(before, after, cases, run_changes(before, after), counts)


def verdicts(scores: Iterable[StoredScores]) -> dict[CaseKey, Verdict]:
    """What a run says of each of its cases, in the order in which they ended."""
    repeats: dict[CaseKey, list[_Repeat]] = {}
    for job, metrics in scores:
        if job.status not in _NEVER_RAN:
            numbers = {metric.name: metric.score for metric in metrics if metric.score is not None}
            deciding = frozenset(metric.name for metric in metrics if metric.threshold is not None)
            repeats.setdefault(job.case, []).append(_Repeat(job.key.repeat, job, numbers, deciding))
    return {case: _verdict(sorted(found, key=lambda repeat: repeat.number)) for case, found in repeats.items()}


class _Repeat(NamedTuple):
    """What is kept of one repeat: its metrics are large, and there are thousands of them."""

    number: int
    job: StoredJob
    scores: Mapping[str, float]
    deciding: frozenset[str]


def _verdict(repeats: Sequence[_Repeat]) -> Verdict:
    scores: dict[str, list[float]] = {}
    for repeat in repeats:
        for name, score in repeat.scores.items():
            scores.setdefault(name, []).append(score)
    newest = repeats[-1].job
    return Verdict(
        statuses=tuple(repeat.job.status for repeat in repeats),
        scores={name: sum(values) / len(values) for name, values in scores.items()},
        deciding=frozenset().union(*(repeat.deciding for repeat in repeats)),
        duration_seconds=sum(repeat.job.duration_seconds for repeat in repeats) / len(repeats),
        agent_seconds=sum(repeat.job.agent_seconds for repeat in repeats) / len(repeats),
        execution_key=newest.execution_key,
        scoring_key=newest.scoring_key,
        misses_samples=any(repeat.job.misses_samples for repeat in repeats),
    )


def _compared(case: CaseKey, before: Verdict | None, after: Verdict | None, earlier: Earlier) -> ComparedCase:
    if before is None:
        return ComparedCase(case, before, after, Change.NEW)
    if after is None:
        return ComparedCase(case, before, after, Change.GONE)
    if before.disagrees or after.disagrees:
        return ComparedCase(case, before, after, Change.FLAKY, "its repeats disagree")
    if before.passed is after.passed:
        change = Change.SAME if before.status is after.status else Change.OTHER
        return ComparedCase(case, before, after, change)
    if goes_back_and_forth([before.passed, *_passed(earlier(case))]):
        return ComparedCase(case, before, after, Change.FLAKY, "it went back and forth in the runs before, too")
    return ComparedCase(case, before, after, Change.FIX if after.passed else Change.REGRESSION)


def goes_back_and_forth(passed: Sequence[bool]) -> bool:
    """Whether verdicts, one a run, changed both ways: a case that was broken once and mended once is not flaky yet."""
    changes = sum(one is not other for one, other in pairwise(passed))
    return changes >= 2


def _passed(runs: Sequence[Sequence[CaseStatus]]) -> list[bool]:
    return [all(status is CaseStatus.PASSED for status in statuses) for statuses in runs]


def _differs(before: Verdict | None, after: Verdict | None, key: Callable[[Verdict], str]) -> bool:
    if before is None or after is None:
        return False
    return bool(key(before) and key(after)) and key(before) != key(after)


def _means(name: str, scores: Sequence[tuple[float, float]]) -> MetricChange:
    count = len(scores)
    return MetricChange(name, sum(one for one, _ in scores) / count, sum(other for _, other in scores) / count, count)
