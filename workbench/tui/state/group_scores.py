"""Scores of all cases of a set, target or project, and their distribution."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import fmean, quantiles, stdev
from typing import NamedTuple

from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus, MetricResult, is_unsure
from workbench.model.text import format_measured, format_threshold, score_text
from workbench.report.significance import mean_interval
from workbench.store.history.history_queries import RunPart, StoredRun, StoredScores
from workbench.tui.state.case_scores import describe_metric, find_metric_info
from workbench.tui.state.case_status import STALE, find_worst_state, get_badge
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    bar,
    compute_share,
    fill_line,
    histogram,
    plural,
    safe_line,
    sparkline,
)

# Statistics of each metric: mean, deviation, distribution and worst cases.

BINS = 10
WORST = 10
"""Number of worst cases for each metric."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """A case with a low score (a high one, if lower is better)."""

    case: CaseKey
    repeat: int
    score: float


@dataclass(frozen=True, slots=True)
class GroupMetric:
    """Statistics of one metric over cases and repeats: `scored` of `total` have a score, `failed` are below the
    threshold. `middle` are the bounds of the middle half of the scores, of fewer than four those of all. `interval` is
    the 95 % interval of the mean, see `mean_interval`.
    """

    name: str
    threshold: float | None  # None if it is only reported, or if thresholds differ
    mean: float | None
    std: float | None  # of the sample; None for fewer than two scores
    scored: int
    total: int
    passed: int
    failed: int
    errors: int
    unsure: int  # results with judge samples that disagree
    lowest: float
    highest: float
    middle: tuple[float, float] | None  # None without scores
    bins: tuple[int, ...]
    worst: tuple[WorstCase, ...]
    decides: bool
    interval: tuple[float, float] | None = None


class MeasuredCase(NamedTuple):
    """A case with what its agent needed: seconds, or tokens. Of several repeats it is the mean."""

    case: CaseKey
    amount: float


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Statuses of the newest results of a set or target, and its metrics, those with a threshold first.

    `slowest` and `costliest` are the first three cases by seconds and by tokens of the agent; cases whose seconds or
    tokens are unknown are left out.
    """

    statuses: Counter[CaseStatus]
    metrics: tuple[GroupMetric, ...]
    slowest: tuple[MeasuredCase, ...] = ()
    costliest: tuple[MeasuredCase, ...] = ()


def summarize_scores(scores: Iterable[StoredScores]) -> GroupSummary:
    collector = ScoreCollector()
    collector.add(scores)
    return collector.summarize()


# What the history knows of a set, an agent or the project.

GroupKey = tuple[str | None, str]
"""Target and eval set; an empty eval set means all sets of the target, and None instead of a target all targets."""
MOST_FAILING = 20
"""Maximum number of failing cases with a reason."""
MOST_WHOLE_RUNS = 40
"""Maximum number of whole runs, the newest ones."""
WATCH_COMMAND = "watch"
"""The command of a run that a watch started; a colon and the reason may follow."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """Scores of a set, agent or project. `reasons` say why the first failing cases did not pass, in list order.

    `dollars` are what the models of the costliest cases cost, of several repeats the mean, where that is known.
    `runs` are the whole runs of the set or agent, or the newest runs of the project, newest first.
    """

    summary: GroupSummary
    reasons: Mapping[CaseKey, str] = field(default_factory=dict)
    runs: Sequence[RunPart] = ()
    dollars: Mapping[CaseKey, Decimal] = field(default_factory=dict)


def is_whole_run(run: StoredRun, cases: Mapping[str, Collection[str]]) -> bool:
    """True if a run ran and scored all these cases, which are ids by eval set.

    Interrupted runs, runs of a watch, and runs that only played are not whole. A run of whole sets is, whatever cases
    the sets had then.
    """
    from workbench.engine.earlier_runs import get_selections  # loads the planner

    if not run.ended or run.interrupted or not run.options.get("scores", True):
        return False
    if run.command.partition(":")[0] == WATCH_COMMAND:
        return False
    selected = {each.eval_set: each.cases for each in get_selections(run)}
    if not selected:  # recorded data: there is no selection
        return run.total >= sum(map(len, cases.values())) * int(run.options.get("runs", 1))
    return all(
        eval_set in selected and (selected[eval_set] is None or set(ids) <= set(selected[eval_set] or ()))
        for eval_set, ids in cases.items()
    )


# How scores are collected.

_FAILING = frozenset({CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED})
_TOKENS = "token_usage_v1"
_MOST_MEASURED = 3


class ScoreCollector:
    """Collects the scores of jobs, in any number of parts. `failing` are the cases that did not pass."""

    def __init__(self) -> None:
        self.failing: set[CaseKey] = set()
        self._statuses: Counter[CaseStatus] = Counter()
        self._metrics: dict[str, _MetricCollector] = {}
        self._seconds: dict[CaseKey, list[float]] = {}
        self._tokens: dict[CaseKey, list[float]] = {}

    def add(self, scores: Iterable[StoredScores]) -> None:
        for job, metrics in scores:
            self._statuses[job.status] += 1
            if job.status in _FAILING:
                self.failing.add(job.case)
            if job.agent_seconds:  # otherwise no agent ran
                self._seconds.setdefault(job.case, []).append(job.agent_seconds)
            for metric in metrics:
                if metric.name not in self._metrics:
                    self._metrics[metric.name] = _MetricCollector(metric.name)
                self._metrics[metric.name].add(job.case, job.key.repeat, metric)
                if metric.name == _TOKENS and metric.score is not None:
                    used = sum(turn.score or 0.0 for turn in metric.per_invocation)
                    self._tokens.setdefault(job.case, []).append(used)

    def summarize(self) -> GroupSummary:
        found = [one.summarize() for one in self._metrics.values()]
        return GroupSummary(
            self._statuses,
            tuple(sorted(found, key=lambda metric: not metric.decides)),
            _find_largest(self._seconds),
            _find_largest(self._tokens),
        )


def _find_largest(amounts: Mapping[CaseKey, Sequence[float]]) -> tuple[MeasuredCase, ...]:
    means = (MeasuredCase(case, fmean(each)) for case, each in amounts.items())
    return tuple(heapq.nlargest(_MOST_MEASURED, means, key=lambda measured: measured.amount))


class _MetricCollector:
    def __init__(self, name: str) -> None:
        self._name = name
        info = find_metric_info(name)
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

    def summarize(self) -> GroupMetric:
        scores = self._scores
        lowest, highest = self._find_bounds()
        thresholds = self._thresholds - {None}
        return GroupMetric(
            name=self._name,
            threshold=next(iter(thresholds)) if len(thresholds) == 1 else None,
            mean=fmean(scores) if scores else None,
            std=stdev(scores) if len(scores) > 1 else None,
            scored=len(scores),
            total=sum(self._statuses.values()),
            passed=self._statuses["PASSED"],
            failed=self._statuses["FAILED"],
            errors=self._statuses["ERROR"],
            unsure=self._unsure,
            lowest=lowest,
            highest=highest,
            middle=_find_middle(scores),
            bins=tuple(histogram(scores, lowest=lowest, highest=highest, bins=BINS)),
            worst=self._find_worst(),
            decides=bool(thresholds),
            interval=self._find_interval(),
        )

    def _find_interval(self) -> tuple[float, float] | None:
        cases: dict[CaseKey, tuple[float, int]] = {}
        for (case, _), score in zip(self._cases, self._scores, strict=True):
            total, count = cases.get(case, (0.0, 0))
            cases[case] = total + score, count + 1
        return mean_interval([*cases.values()])

    def _find_bounds(self) -> tuple[float, float]:
        """Return the bounds of the metric; without bounds, the lowest and highest score."""
        scores: Sequence[float] = self._scores or (0.0,)
        info = self._info
        lowest = info.lowest if info is not None and info.lowest is not None else min(scores)
        highest = info.highest if info is not None and info.highest is not None else max(scores)
        return lowest, highest

    def _find_worst(self) -> tuple[WorstCase, ...]:
        sign = -1.0 if self._lower_is_better else 1.0
        numbered = ((sign * score, place) for place, score in enumerate(self._scores))
        return tuple(
            WorstCase(*self._cases[place], self._scores[place]) for _, place in heapq.nsmallest(WORST, numbered)
        )


def _find_middle(scores: Sequence[float]) -> tuple[float, float] | None:
    """Return the first and the third quartile; of fewer than four scores the lowest and the highest."""
    if len(scores) < 4:
        return (min(scores), max(scores)) if scores else None
    first, _, third = quantiles(scores, n=4, method="inclusive")
    return first, third


# Metrics of a set or target as rows, with their worst cases below if unfolded.

_NUMBERS = 23
_BAR = 12
_BAR_FROM = 58


@dataclass(frozen=True, slots=True)
class _Row:
    """A metric, one of its worst cases, or (without a metric) the heading of the metrics that are only reported."""

    metric: GroupMetric | None = None
    worst: WorstCase | None = None


class GroupScores(ItemRows[_Row]):
    """Rows for a list."""

    def __init__(self, spread: GroupSummary, *, stale: int) -> None:
        """Make the rows. `stale` is the number of cases with a stale verdict."""
        self.summary = spread
        self._stale = stale
        self._unfolded: set[str] = set()
        self.rows: list[_Row] = []
        self._rebuild_rows()

    def line(self, index: int, width: int) -> Line:
        row = self.rows[index]
        if row.metric is None:
            return (StyledText(" only reported, no influence on the verdict", Style.MUTED),)
        if row.worst is not None:
            return _format_worst(row.worst, width=width)
        return _format_metric(row.metric, is_unfolded=row.metric.name in self._unfolded, width=width)

    def update(self, spread: GroupSummary, *, stale: int) -> None:
        """Update the statistics of the same set or target. Cursor and folds stay."""
        self.summary, self._stale = spread, stale
        self._rebuild_rows()
        self.move_to(self.cursor)

    @property
    def selected_metric(self) -> GroupMetric | None:
        """Metric under the cursor, or that of the case there."""
        return None if self.selected_row is None else self.selected_row.metric

    @property
    def selected_case(self) -> WorstCase | None:
        return None if self.selected_row is None else self.selected_row.worst

    def toggle(self) -> None:
        """Fold or unfold the metric under the cursor."""
        if self.selected_metric is not None:
            self._unfolded ^= {self.selected_metric.name}
            self._rebuild_rows()

    def blocks(self) -> list[Block]:
        """Describe the results, and the selected metric with its distribution."""
        blocks: list[Block] = [self._format_counts()]
        metric = self.selected_metric
        if metric is None:
            return [*blocks, BLANK, Paragraph.from_text("Nothing has been scored yet.", Style.MUTED)]
        blocks += [BLANK, Paragraph.from_text(safe_line(metric.name), Style.HEADING), *_describe_numbers(metric)]
        if metric.scored:
            blocks += [BLANK, Paragraph.from_text("distribution", Style.HEADING), *_draw_histogram(metric)]
        return [*blocks, BLANK, Paragraph.from_text("about the metric", Style.HEADING), *describe_metric(metric.name)]

    def text(self) -> str:
        rows = ["metric\tmean\tstd\tscored\ttotal"]
        for metric in self.summary.metrics:
            numbers = ("" if value is None else str(value) for value in (metric.mean, metric.std))
            rows.append("\t".join([metric.name, *numbers, str(metric.scored), str(metric.total)]))
        return "\n".join(rows)

    def _format_counts(self) -> Block:
        pieces = [StyledText(plural(self.summary.statuses.total(), "result"), Style.STRONG)]
        for status in CaseStatus:
            if count := self.summary.statuses[status]:
                badge = get_badge(find_worst_state([status]))
                pieces.append(StyledText(f"   {badge.symbol} {count:,} {badge.word}", badge.style))
        if self._stale:
            pieces.append(StyledText(f"   {STALE.symbol} {plural(self._stale, 'case')} {STALE.word}", STALE.style))
        return Paragraph(tuple(pieces))

    def _rebuild_rows(self) -> None:
        self.rows = []
        for metric in self.summary.metrics:
            if not metric.decides and not any(row.metric is None for row in self.rows):
                self.rows.append(_Row())
            self.rows.append(_Row(metric))
            if metric.name in self._unfolded:
                self.rows += [_Row(metric, worst) for worst in metric.worst]
        if self.rows and not self.can_select(self.cursor):
            self.move_to(self.cursor)

    def can_select(self, index: int) -> bool:
        return 0 <= index < len(self.rows) and self.rows[index].metric is not None


def _format_metric(metric: GroupMetric, *, is_unfolded: bool, width: int) -> Line:
    lead = f" {'▾' if is_unfolded else '▸'} "
    style = Style.ERROR if metric.errors else Style.FAILED if metric.failed else Style.PASSED
    style = style if metric.decides else Style.TEXT
    numbers = f"{_format_mean(metric):>{_NUMBERS}} "
    picture = ""
    if width >= _BAR_FROM:
        share = None if metric.mean is None else compute_share(metric.mean, metric.lowest, metric.highest)
        mark = None if metric.threshold is None else compute_share(metric.threshold, metric.lowest, metric.highest)
        picture = f"  {' ' * _BAR if share is None else bar(share, width=_BAR, mark=mark)}"
    room = max(width - len(lead) - len(numbers) - len(picture), 8)
    short = f"  ✗ {metric.failed:,}" if metric.failed else ""
    errors = f"  ! {metric.errors:,}" if metric.errors else ""
    name = StyledText(safe_line(metric.name)), StyledText(short, Style.FAILED), StyledText(errors, Style.ERROR)
    return (StyledText(lead), *fill_line(name, room), StyledText(picture, style), StyledText(numbers, style))


def _format_worst(worst: WorstCase, *, width: int) -> Line:
    name = str(worst.case) + (f" [{worst.repeat + 1}]" if worst.repeat else "")
    score = f"{score_text(worst.score)} "
    room = max(width - len(score) - 5, 8)
    return (StyledText("     "), *fill_line((StyledText(safe_line(name)),), room), StyledText(score, Style.KEY))


def _format_mean(metric: GroupMetric) -> str:
    if metric.mean is None:
        return "no score"
    std = "" if metric.std is None else f" ±{format_measured(metric.name, metric.std)}"
    return f"{format_measured(metric.name, metric.mean)}{std}"


def _describe_numbers(metric: GroupMetric) -> list[Block]:
    facts = [("mean", "no score" if metric.mean is None else f"{metric.mean:.6g}")]
    if metric.interval is not None:
        facts.append(("95 % of the mean", "{:.4g} to {:.4g}".format(*metric.interval)))
    if metric.std is not None:
        facts.append(("deviation", f"{metric.std:.6g}, of the sample"))
    facts.append(("scored", f"{metric.scored:,} of {metric.total:,}"))
    if metric.threshold is not None:
        facts.append(("threshold", format_threshold(metric.threshold)))
    if metric.decides:
        facts.append(("failed", f"{metric.failed:,}"))
    if metric.errors:
        facts.append(("errors", f"{metric.errors:,}"))
    if metric.unsure:
        facts.append(("unsure", f"{metric.unsure:,}, on which the samples of the judge disagree"))
    return [Paragraph.from_fact(name, value, indent=2) for name, value in facts]


def _draw_histogram(metric: GroupMetric) -> list[Block]:
    step = (metric.highest - metric.lowest) / len(metric.bins)
    if not step:
        return [
            Paragraph.from_text(f"all {metric.scored:,} are {format_measured(metric.name, metric.lowest)}", indent=2)
        ]
    most = max(metric.bins)
    blocks: list[Block] = [Paragraph.from_text(sparkline([float(count) for count in metric.bins]), Style.KEY, indent=2)]
    for place, count in enumerate(metric.bins):
        low = metric.lowest + place * step
        label = f"{low:>8.3g} – {low + step:<8.3g}"
        filled = "█" * (round(count / most * 24) or (1 if count else 0))
        blocks.append(
            Paragraph(
                (StyledText(label, Style.KEY), StyledText(f"{filled} ", Style.TEXT), StyledText(f"{count:,}")), indent=2
            )
        )
    return blocks
