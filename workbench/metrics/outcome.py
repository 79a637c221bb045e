"""From scores to results: the mean over turns, the verdict by the threshold, and what to say where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from workbench.model.results import InvocationScore, MetricResult, MetricStatus, Score
from workbench.model.text import redact

# Results are built without validation (`trusted`): all values are ours, and it is most of the cost of judging.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """How the results of one judge are called and decided. Compared by identity, so that results can be kept by it.

    `threshold` is None for an informational result. `missing_is_zero`: see TurnJudge.
    """

    name: str
    threshold: float | None = None
    lower_is_better: bool = False
    missing_is_zero: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def verdict(self, score: float | None) -> MetricStatus:
        """UNDEFINED without score, INFORMATIONAL without threshold, else PASSED at it or on its better side."""
        if score is None:
            return MetricStatus.UNDEFINED
        if self.threshold is None:
            return MetricStatus.INFORMATIONAL
        passed = score <= self.threshold if self.lower_is_better else score >= self.threshold
        return MetricStatus.PASSED if passed else MetricStatus.FAILED


@lru_cache(maxsize=4096)  # most cases share a handful of results, and facts are frozen
def result_of_turns(rule: Rule, scores: tuple[Score, ...]) -> MetricResult:
    """The result of a metric that scores turns: the mean of the scores that are defined."""
    values = [score.value for score in scores if score.value is not None]
    mean = sum(values) / (len(scores) if rule.missing_is_zero else len(values)) if values else None
    return MetricResult.trusted(
        name=rule.name,
        score=mean,
        threshold=rule.threshold,
        status=rule.verdict(mean),
        reason=None if values else joined(score.reason for score in scores) or "the case has no turns",
        hint=joined(score.hint for score in scores),
        scored=len(values),
        total=len(scores),
        per_invocation=tuple(
            InvocationScore.trusted(score=score.value, reason=score.reason, hint=score.hint) for score in scores
        ),
        details=dict(rule.details),
    )


def result_of_judgements(rule: Rule, scores: tuple[InvocationScore, ...]) -> MetricResult:
    """The result of a metric that asks a model: the mean of the turns, or of all rubrics of all turns where there are.

    Where a model was asked and said nothing that counts, the metric could not do its work: it is an ERROR.
    """
    asked = [score for score in scores if score.judgement is not None]
    silent = [score.reason for score in asked if score.score is None]
    rubrics = [rubric.score for score in asked if score.judgement for rubric in score.judgement.rubrics]
    values = [value for value in (rubrics or [score.score for score in scores]) if value is not None]
    mean = sum(values) / len(values) if values and not silent else None
    reasons = silent or [score.reason for score in scores]
    return MetricResult.trusted(
        name=rule.name,
        score=mean,
        threshold=rule.threshold,
        status=MetricStatus.ERROR if silent else rule.verdict(mean),
        reason=(joined(reasons) or "the case has no turns") if mean is None else None,
        hint=joined(score.hint for score in scores),
        scored=sum(score.score is not None for score in scores),
        total=len(scores),
        per_invocation=scores,
        details=dict(rule.details),
    )


def result_of_case(rule: Rule, score: Score, *, details: Mapping[str, Any] | None = None) -> MetricResult:
    """The result of a metric that scores the case as a whole."""
    if details or (score.value is not None and score.value % 1):  # seconds are never the same twice
        return _result_of_case(rule, score, details or {})
    return _result_without_details(rule, score)


@lru_cache(maxsize=4096)  # as above
def _result_without_details(rule: Rule, score: Score) -> MetricResult:
    return _result_of_case(rule, score, {})


def _result_of_case(rule: Rule, score: Score, details: Mapping[str, Any]) -> MetricResult:
    return MetricResult.trusted(
        name=rule.name,
        score=score.value,
        threshold=rule.threshold,
        status=rule.verdict(score.value),
        reason=score.reason,
        hint=score.hint,
        scored=0 if score.value is None else 1,
        total=1,
        per_invocation=(),
        details=dict(details),
    )


def result_of_error(rule: Rule, reason: str, *, total: int, details: Mapping[str, Any] | None = None) -> MetricResult:
    """The result of a metric that could not do its work on `total` turns."""
    return MetricResult.trusted(
        name=rule.name,
        score=None,
        threshold=rule.threshold,
        status=MetricStatus.ERROR,
        reason=redact(reason),
        hint=None,
        scored=0,
        total=total,
        per_invocation=(),
        details=dict(details) if details else {},
    )


def win_rates(result: MetricResult) -> list[MetricResult]:
    """What share of the turns each side of a comparison won, as results of their own: their means are the win rates."""
    scores = [turn.score for turn in result.per_invocation if turn.score is not None]
    rates = []
    for side, won in (("candidate", 1.0), ("baseline", 0.0)):
        rate = Score.undefined(result.reason or "no turn was compared")
        if result.score is not None:
            rate = Score(scores.count(won) / len(scores))
        rates.append(result_of_case(Rule(name=f"{result.name}/{side}_model_win_rate"), rate))
    return rates


def joined(texts: Iterable[str | None]) -> str | None:
    """The different texts, in order, as one; None if there is none."""
    return "; ".join(dict.fromkeys(text for text in texts if text)) or None
