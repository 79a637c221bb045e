"""Custom metrics: functions of the user, called in the target's worker, and what their answers become.

Two shapes are known to the worker. ADK's function decides scores and verdicts itself; Vertex's gives numbers by name,
of which the metric's own name is the score, and every other becomes an informational result called `metric/name`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from workbench.agents.host import AgentError, CustomScoreAnswer, CustomScoreRequest
from workbench.metrics.options import is_number
from workbench.metrics.outcome import Rule, result_of_case, result_of_error
from workbench.metrics.subject import CaseView
from workbench.model.criteria import Criterion, CustomMetric
from workbench.model.dependencies import Dependencies
from workbench.model.results import MetricResult, MetricStatus, Score
from workbench.model.text import redact_data

CallCustom = Callable[[CustomScoreRequest], Awaitable[CustomScoreAnswer]]

_VERDICTS = {
    "passed": MetricStatus.PASSED,
    "failed": MetricStatus.FAILED,
    "not_evaluated": MetricStatus.UNDEFINED,
}


async def judge_custom(
    view: CaseView, criterion: Criterion, metric: CustomMetric, call: CallCustom
) -> list[MetricResult]:
    """Run a custom metric on the turns that were finished. What the function raises makes the metric an ERROR."""
    rule = Rule(name=criterion.metric, threshold=criterion.threshold)
    request = _request(view, criterion, metric)
    if not request.actual:
        return [result_of_case(rule, Score.undefined("no turn was finished"))]
    try:
        answer = await call(request)
    except AgentError as error:
        details = {"traceback": error.failure.traceback} if error.failure.traceback else {}
        errored = result_of_error(rule, error.failure.message, total=len(view.turns), details=details)
        told = error.dependencies or Dependencies()
        return [errored.model_copy(update={"dependencies": told.closed()})]
    return [_main_result(answer, rule), *_further_results(answer, rule)]


def _request(view: CaseView, criterion: Criterion, metric: CustomMetric) -> CustomScoreRequest:
    subject = view.subject
    finished = [turn.result for turn in view.turns if turn.result is not None]
    actual = [result.invocation for result in finished]
    return CustomScoreRequest(
        metric=criterion.metric,
        function=metric.path,
        actual=actual,
        unknown=frozenset(index for index, result in enumerate(finished) if result.calls_unknown is not None),
        seconds=() if subject.recorded else [result.duration_seconds for result in finished],
        failure=None if subject.recorded else int(subject.execution.failure is not None),
        # Turns pair by position; the function gets no expectations for turns that the agent did not finish.
        expected=subject.expected[: len(actual)] if subject.expected else None,
        scenario=None if subject.case is None else subject.case.conversation_scenario,
        threshold=criterion.threshold,
        options=criterion.options,
        columns=subject.columns,
    )


def _main_result(answer: CustomScoreAnswer, rule: Rule) -> MetricResult:
    turns = answer.per_invocation
    score = float(answer.score) if is_number(answer.score) else None
    status = rule.verdict(score)
    if answer.verdict is not None and rule.threshold is not None:
        status = _VERDICTS[answer.verdict]
    reason = answer.reason
    if score is None or status is MetricStatus.UNDEFINED:
        reason = reason or ("the function gave no score" if answer.score is None else f"the score is {answer.score}")
    return MetricResult.trusted(
        name=rule.name,
        score=score,
        threshold=rule.threshold,
        status=status,
        reason=reason,
        hint=_contradiction(status, rule.verdict(score)),
        scored=sum(turn.score is not None for turn in turns) if turns else int(score is not None),
        total=len(turns) or 1,
        per_invocation=turns,
        details=redact_data({name: value for name, value in answer.scores.items() if not _is_score(value)}),
        dependencies=answer.dependencies,
    )


def _contradiction(verdict: MetricStatus, by_threshold: MetricStatus) -> str | None:
    """What the verdict of a function has to do with its score, where the threshold says the opposite."""
    if {verdict, by_threshold} != {MetricStatus.PASSED, MetricStatus.FAILED}:
        return None
    place = "below" if by_threshold is MetricStatus.FAILED else "not below"
    return f"the function says {verdict.value}, although its score is {place} the threshold"


def _further_results(answer: CustomScoreAnswer, rule: Rule) -> list[MetricResult]:
    """One informational result for each further number; what is no number is in the details of the main result."""
    return [
        result_of_case(Rule(name=f"{rule.name}/{name}"), Score(float(value)))
        for name, value in answer.scores.items()
        if _is_score(value)
    ]


def _is_score(value: Any) -> bool:
    return isinstance(value, bool) or is_number(value)
