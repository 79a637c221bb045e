"""What a difference cost: which criteria lost points by it, and whether those that looked at it forgave it.

A criterion says for each turn how it scored, and in its details by which rules; which of several differences of a turn
it minded follows from these. Where that cannot be known, a difference counts as one that may have cost something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.metrics.arguments import RuleError, read_argument_rules
from workbench.metrics.options import Options
from workbench.model.criteria import Criterion
from workbench.model.results import MetricResult, MetricStatus
from workbench.model.trajectory import ToolCall
from workbench.report.differences import Difference, DifferenceKind
from workbench.report.explain import relation, score_text, subjects_of
from workbench.report.turns import TurnComparison
from workbench.tui.state.pieces import Tone, safe_line

_CALLS = frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED})
_ARGUMENTS = frozenset(
    {DifferenceKind.ARGUMENT_MISSING, DifferenceKind.ARGUMENT_EXTRA, DifferenceKind.ARGUMENT_CHANGED}
)
_SUBJECTS: Mapping[DifferenceKind, str] = {
    **dict.fromkeys(_CALLS | _ARGUMENTS, "calls"),
    DifferenceKind.RESPONSE_CHANGED: "response",
    DifferenceKind.STATE_CHANGED: "state",
}
"""What a criterion has to look at to mind a difference; what is not named here no criterion of today minds."""

_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")  # also by their numbers, as ADK writes them
_FORGIVEN: Mapping[str, frozenset[DifferenceKind]] = {
    "IN_ORDER": frozenset({DifferenceKind.CALL_EXTRA}),
    "trajectory_in_order_match": frozenset({DifferenceKind.CALL_EXTRA}),
    "ANY_ORDER": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_any_order_match": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_precision": frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_MOVED}),
    "trajectory_recall": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_unordered_match": frozenset({DifferenceKind.CALL_MOVED}),
    "trajectory_subset_match": frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_MOVED}),
    "trajectory_superset_match": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
}
"""Which differences in calls a way of matching does not mind."""


@dataclass(frozen=True, slots=True)
class Note:
    """A criterion that lost points, in words for one line."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Cost:
    """What one difference cost. `notes` name the criteria whose first one it is; `is_free`: it cost nothing."""

    notes: tuple[Note, ...] = ()
    is_free: bool = False


class TurnCosts:
    """What the differences of one turn cost, or those of the final state (`turn` None), told in their order.

    `metrics` is None where nothing has been judged yet: then nothing is known to be free.
    """

    def __init__(
        self, metrics: Sequence[MetricResult] | None, turn: int | None, comparison: TurnComparison | None
    ) -> None:
        self._metrics = metrics
        self._turn = turn
        self._comparison = comparison
        self._named: set[str] = set()

    def of(self, difference: Difference) -> Cost:
        """What a difference cost."""
        if self._metrics is None:
            return Cost()
        subject = _SUBJECTS.get(difference.kind)
        judges = [metric for metric in self._metrics if subject in subjects_of(metric.name) and self._judged(metric)]
        losers = [metric for metric in judges if self._lost_by(metric, difference)]
        # A criterion of the user's own may look at anything: what it minded is not known, so it is not named.
        first = [
            metric for metric in losers if metric.name not in self._named and subjects_of(metric.name) == (subject,)
        ]
        self._named.update(metric.name for metric in first)
        return Cost(tuple(map(self._note, first)), is_free=not any(map(self._failed, losers)))

    def _score(self, metric: MetricResult) -> float | None:
        if self._turn is None or not metric.per_invocation:
            return metric.score
        return metric.per_invocation[self._turn].score if self._turn < len(metric.per_invocation) else None

    def _judged(self, metric: MetricResult) -> bool:
        return metric.status in (MetricStatus.PASSED, MetricStatus.FAILED) and self._score(metric) is not None

    def _failed(self, metric: MetricResult) -> bool:
        score, threshold = self._score(metric), metric.threshold
        return score is not None and threshold is not None and (score < threshold or metric.status is _FAILED)

    def _lost_by(self, metric: MetricResult, difference: Difference) -> bool:
        score = self._score(metric)
        if score is None or score >= 1.0:
            return False
        if difference.kind in _CALLS | _ARGUMENTS:
            return not _forgives(metric, difference, self._comparison)
        return True

    def _note(self, metric: MetricResult) -> Note:
        score, threshold = self._score(metric), metric.threshold
        assert score is not None
        assert threshold is not None
        sign = "≥" if score >= threshold else relation(score, threshold)
        text = f"{safe_line(metric.name)} {score_text(score, threshold)} {sign} {score_text(threshold, score)}"
        if score >= threshold:
            return Note(text, Tone.MUTED)
        return Note(text, Tone.FAILED if metric.status is _FAILED else Tone.WARNING)


_FAILED = MetricStatus.FAILED


def _forgives(metric: MetricResult, difference: Difference, comparison: TurnComparison | None) -> bool:
    """Whether the metric does not mind a difference in calls, by its own rules."""
    details = metric.details
    if "tool_name" in details:  # it asks whether one tool was called at all
        return difference.kind is not DifferenceKind.CALL_MISSING or difference.tool != details["tool_name"]
    if difference.kind in _ARGUMENTS:
        return bool(details.get("ignore_args")) or _arguments_fit(details, difference, comparison)
    return difference.kind in _FORGIVEN.get(_way_of_matching(metric), frozenset())


def _way_of_matching(metric: MetricResult) -> str:
    written = metric.details.get("match_type")
    if isinstance(written, int) and 0 <= written < len(_MATCH_TYPES):
        return _MATCH_TYPES[written]
    if isinstance(written, str):
        return written.strip().upper().replace("-", "_").replace(" ", "_")
    return metric.name


def _arguments_fit(details: Mapping[str, Any], difference: Difference, comparison: TurnComparison | None) -> bool:
    """Whether the rules for arguments take the two calls for the same."""
    expected, actual = difference.expected_call, difference.actual_call
    if "args_match" not in details or comparison is None or expected is None or actual is None:
        return False
    options = Options(Criterion(metric="", options={"args_match": details["args_match"]}))
    rules = read_argument_rules(options)
    wanted, given = comparison.expected.calls[expected], comparison.actual.calls[actual]
    try:
        return rules is not None and rules.fits(ToolCall(*given), ToolCall(*wanted))
    except RuleError:
        return False
