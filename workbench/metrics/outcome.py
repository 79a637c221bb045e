"""From scores to results: the mean over turns, the verdict by the threshold, and what to say where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from workbench.model.criteria import Criterion
from workbench.model.results import InvocationScore, MetricResult, MetricStatus, Score

# Results are built without validation (`model_construct`): all values are ours, and it is most of the cost of judging.


@lru_cache(maxsize=4096)  # most turns of most runs share a handful of scores, and facts are frozen
def invocation_score(score: Score) -> InvocationScore:
    """The score of one turn as a fact."""
    return InvocationScore.model_construct(score=score.value, reason=score.reason, hint=score.hint)


def verdict(score: float | None, *, threshold: float | None, lower_is_better: bool = False) -> MetricStatus:
    """UNDEFINED without score, INFORMATIONAL without threshold, else PASSED at the threshold or on its better side."""
    if score is None:
        return MetricStatus.UNDEFINED
    if threshold is None:
        return MetricStatus.INFORMATIONAL
    passed = score <= threshold if lower_is_better else score >= threshold
    return MetricStatus.PASSED if passed else MetricStatus.FAILED


def result_of_turns(
    name: str,
    scores: Sequence[Score],
    *,
    criterion: Criterion,
    lower_is_better: bool = False,
    missing_is_zero: bool = False,
    details: Mapping[str, Any] | None = None,
) -> MetricResult:
    """The result of a metric that scores turns: the mean of the scores that are defined (see TurnJudge)."""
    values = [score.value for score in scores if score.value is not None]
    mean = sum(values) / (len(scores) if missing_is_zero else len(values)) if values else None
    return MetricResult.model_construct(
        name=name,
        score=mean,
        threshold=criterion.threshold,
        status=verdict(mean, threshold=criterion.threshold, lower_is_better=lower_is_better),
        reason=None if values else _joined([score.reason for score in scores]) or "the case has no turns",
        hint=_joined([score.hint for score in scores]),
        scored=len(values),
        total=len(scores),
        per_invocation=tuple(map(invocation_score, scores)),
        details=dict(details) if details else {},
    )


def result_of_case(
    name: str,
    score: Score,
    *,
    criterion: Criterion,
    lower_is_better: bool = False,
    details: Mapping[str, Any] | None = None,
) -> MetricResult:
    """The result of a metric that scores the case as a whole."""
    return MetricResult.model_construct(
        name=name,
        score=score.value,
        threshold=criterion.threshold,
        status=verdict(score.value, threshold=criterion.threshold, lower_is_better=lower_is_better),
        reason=score.reason,
        hint=score.hint,
        scored=0 if score.value is None else 1,
        total=1,
        per_invocation=(),
        details=dict(details) if details else {},
    )


def result_of_error(
    name: str, reason: str, *, criterion: Criterion, total: int, details: Mapping[str, Any] | None = None
) -> MetricResult:
    """The result of a metric that could not do its work on `total` turns."""
    return MetricResult.model_construct(
        name=name,
        score=None,
        threshold=criterion.threshold,
        status=MetricStatus.ERROR,
        reason=reason,
        hint=None,
        scored=0,
        total=total,
        per_invocation=(),
        details=dict(details) if details else {},
    )


def _joined(texts: Iterable[str | None]) -> str | None:
    """The different texts, in order, as one."""
    given = [text for text in texts if text]
    return "; ".join(dict.fromkeys(given)) if given else None
