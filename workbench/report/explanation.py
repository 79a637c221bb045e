"""Why a case did not pass: which of its differences cost points in a criterion that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workbench.metrics.call_matching import iterate_declarations
from workbench.metrics.trajectory import forgives_difference
from workbench.model.results import MetricResult, MetricStatus
from workbench.model.text import join_some, one_line
from workbench.model.trace import FRAMEWORK_CALLS, Span, SpanKind, get_trajectory
from workbench.model.turn_diff import Difference, DifferenceKind, TurnComparison, TurnSide
from workbench.report.run_report import ReportedCase, has_upper_limit

_ABOUT_CALLS = ("trajectory", "tool_call", "tool_use")
_ABOUT_RESPONSE = ("response_match", "rouge", "bleu", "exact_match")
_ABOUT_STATE = ("session_state", "final_state")

_CALLS = frozenset(
    {
        DifferenceKind.CALL_MISSING,
        DifferenceKind.CALL_EXTRA,
        DifferenceKind.CALL_MOVED,
        DifferenceKind.ARGUMENT_MISSING,
        DifferenceKind.ARGUMENT_EXTRA,
        DifferenceKind.ARGUMENT_CHANGED,
    }
)
_SUBJECTS: Mapping[DifferenceKind, str] = {
    **dict.fromkeys(_CALLS, "calls"),
    DifferenceKind.RESPONSE_CHANGED: "response",
    DifferenceKind.STATE_CHANGED: "state",
}
"""The subject that a criterion must score to lose points by a difference. Other kinds cost no points."""


def find_subjects(metric: str) -> tuple[str, ...]:
    """Return the subjects of a metric by its name. A custom metric may score any of them."""
    for subject, words in (("state", _ABOUT_STATE), ("calls", _ABOUT_CALLS), ("response", _ABOUT_RESPONSE)):
        if any(word in metric for word in words):
            return (subject,)
    return ("calls", "response", "state")


def could_judge(metrics: Iterable[MetricResult], subject: str) -> bool:
    """True if a criterion with a threshold scores a subject, which need not be expected in the case."""
    return any(
        metric.threshold is not None and not has_upper_limit(metric) and subject in find_subjects(metric.name)
        for metric in metrics
    )


def get_score(metric: MetricResult, turn: int | None) -> float | None:
    """Return the score of a turn, or of the case if `turn` is None or the metric scores whole cases."""
    if turn is None or not metric.per_invocation:
        return metric.score
    return metric.per_invocation[turn].score if turn < len(metric.per_invocation) else None


def lost_points(
    metric: MetricResult, difference: Difference, *, turn: int | None, comparison: TurnComparison | None
) -> bool:
    """True if a metric scores what differs, does not forgive it by its rules, and has less than 1 in this turn.

    `turn` is None for the final state. `comparison` is that of the turn: `forgives_difference` needs its calls.
    """
    if _SUBJECTS.get(difference.kind) not in find_subjects(metric.name) or has_upper_limit(metric):
        return False
    score = get_score(metric, turn)
    if score is None or score >= 1.0:
        return False
    return difference.kind not in _CALLS or not forgives_difference(metric, difference, comparison)


def is_about(metric: MetricResult, difference: Difference) -> bool:
    """True if a metric scores nothing but the subject of a difference, so that it is known what it lost points by."""
    return find_subjects(metric.name) == (_SUBJECTS.get(difference.kind),)


def find_reasons(case: ReportedCase) -> Iterator[tuple[int | None, Difference, Sequence[str]]]:
    """Yield each difference that cost points, with its turn (None: the final state) and the failed criteria.

    A difference that no failed criterion minds is no reason.
    """
    failed = [metric for metric in case.deciding_metrics if metric.status is MetricStatus.FAILED]
    if not failed:
        return
    turns: list[tuple[int | None, Sequence[Difference]]] = [
        *enumerate(case.differences),
        (None, case.state_differences),
    ]
    for turn, differences in turns:
        comparison = None if turn is None or not differences else _compare_calls(case, turn)
        for difference in differences:
            names = [each.name for each in failed if lost_points(each, difference, turn=turn, comparison=comparison)]
            if names:
                yield turn, difference, names


def find_causes(case: ReportedCase) -> Iterator[tuple[int, str]]:
    """Yield sentences on what happened in turns beside the verdict, with the turn of each.

    Of every case: remarks on the turn, such as an error that the framework logged. Of a failed one: a call of a tool
    that the agent does not have, a call that was made where it is no part of the trajectory, and a response that the
    model did not finish.
    """
    for number, done in enumerate(case.result.execution.turns):
        yield from ((number, note) for note in done.notes)
    last = None
    for turn, difference, _ in find_reasons(case):
        if turn is None:
            continue
        actual = case.result.execution.turns[turn].invocation
        tool = one_line(difference.tool, width=60)
        if turn != last and (end := _find_unusual_end(case.result.execution.spans, turn)):
            yield turn, f"the model stopped with {end}: the response may be cut"
        last = turn
        if difference.kind is DifferenceKind.CALL_EXTRA:
            tools = {name for name, _ in iterate_declarations(actual)}
            if tools and difference.tool not in tools | FRAMEWORK_CALLS:
                yield turn, f"{tool}: the agent has no such tool; it has {join_some(sorted(tools), _MOST_TOOLS)}"
        elif difference.kind is DifferenceKind.CALL_MISSING:
            is_made = difference.tool in {call.name for call in get_trajectory(actual)}
            is_inside = any(
                span.kind is SpanKind.TOOL and span.turn == turn and span.name == difference.tool
                for span in case.result.execution.spans
            )
            if is_inside and not is_made:
                yield turn, f"{tool} was called inside an AgentTool, whose calls are no part of the trajectory"


def _find_unusual_end(spans: Iterable[Span], turn: int) -> str:
    """Return why the last model call of a turn stopped, such as MAX_TOKENS or SAFETY; empty if it was finished."""
    calls = [span for span in spans if span.kind is SpanKind.MODEL and span.turn == turn]
    response = calls[-1].response if calls else None
    reason = _find_reason(response) if isinstance(response, dict) else None
    return "" if reason is None or reason.lower() in _USUAL_ENDS else one_line(reason, width=40)


def _find_reason(response: Mapping[str, Any]) -> str | None:
    """Return the reason of a model to stop, in the response of google-genai, OpenAI or LangChain."""
    for key in ("finish_reason", "finishReason", "stop_reason"):
        if isinstance(response.get(key), str):
            return str(response[key])
    for key in ("response_metadata", "candidates", "choices"):
        inner = response.get(key)
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and (found := _find_reason(inner)) is not None:
            return found
    return None


_USUAL_ENDS = frozenset({"stop", "tool_calls", "function_call", "tool_use", "end_turn", "finish_reason_unspecified"})
_MOST_TOOLS = 8  # in a sentence


def list_shown(case: ReportedCase) -> Sequence[tuple[int | None, Difference]]:
    """List the differences to show, with their turns: those that cost points; all if nothing was scored."""
    if case.result.metrics:
        return [(turn, difference) for turn, difference, _ in find_reasons(case)]
    turns = [(turn, each) for turn, differences in enumerate(case.differences) for each in differences]
    return [*turns, *((None, each) for each in case.state_differences)]


def _compare_calls(case: ReportedCase, turn: int) -> TurnComparison:
    conversation = (case.expected.conversation if case.expected is not None else None) or ()
    expected, actual = conversation[turn], case.result.execution.turns[turn].invocation
    return TurnComparison(TurnSide(calls=get_trajectory(expected)), TurnSide(calls=get_trajectory(actual)))
