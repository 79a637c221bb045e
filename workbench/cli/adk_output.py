"""What `adk eval` prints, for scripts and eyes that are used to it. Lines that ADK prints are the same here."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.results import CaseStatus, InvocationScore
from workbench.model.text import neutralise, redact
from workbench.report.judging import samples_text
from workbench.report.run_report import ReportedCase, RunReport, StreamedRun
from workbench.report.turns import calls_text

_STARS = "*" * 69
_DASHES = "-" * 69
_COLUMN = 28
_WIDTH = 80


def criteria_line(config: EvalConfig) -> str:
    """The line before a run: by what it is judged."""
    criteria = {
        criterion.metric: criterion.threshold
        if not criterion.options
        else {"threshold": criterion.threshold, **criterion.options}
        for criterion in config.criteria
    }
    return neutralise(f"Using evaluation criteria: {json.dumps(criteria, ensure_ascii=False)} ({config.source})")


_COUNTED_AS = {
    CaseStatus.PASSED: "passed",
    CaseStatus.CANCELLED: "not run",
    CaseStatus.SKIPPED: "not run",
}


def summary_lines(report: StreamedRun | RunReport) -> list[str]:
    """The summary after a run: a case that ran and did not pass counts as failed, as in ADK."""
    counts: dict[str, Counter[str]] = {}
    for outcome in report.outcomes:
        counts.setdefault(outcome.eval_set_id, Counter())[_COUNTED_AS.get(outcome.status, "failed")] += 1
    lines = [_STARS, "Eval Run Summary"]
    for eval_set_id, count in counts.items():
        lines += [
            neutralise(f"{eval_set_id}:"),
            f"  Tests passed: {count['passed']}",
            f"  Tests failed: {count['failed']}",
        ]
        if count["not run"]:
            lines.append(f"  Tests not run: {count['not run']}")
    return lines


def detailed_lines(cases: Iterable[ReportedCase]) -> Iterator[str]:
    """Everything about each case: `--print_detailed_results`."""
    for case in cases:
        result = case.result
        yield _STARS
        yield neutralise(f"Eval Set Id: {result.eval_set_id}")
        yield neutralise(f"Eval Id: {result.case.eval_id}")
        yield f"Overall Eval Status: {result.status.value}"
        if result.failure is not None:
            yield redact(neutralise(f"Error: {result.failure.message}"))
        for metric in result.metrics:
            yield _DASHES
            yield neutralise(
                f"Metric: {metric.name}, Status: {metric.status.value}, Score: {metric.score}, "
                f"Threshold: {metric.threshold}"
            )
            notes = (metric.reason, metric.hint, samples_text(metric))
            yield from (neutralise(redact(f"  {note}")) for note in notes if note)
        yield from _invocations(case)


def _invocations(case: ReportedCase) -> Iterator[str]:
    turns = case.result.execution.turns
    if not turns:
        return
    conversation = (case.expected.conversation if case.expected is not None else None) or []
    yield _DASHES
    yield "Invocation Details:"
    for index, turn in enumerate(turns):
        yield ""
        yield f"Invocation {index + 1} of {len(turns)}"
        expected = conversation[index] if index < len(conversation) else None
        fields = _fields(expected, turn.invocation)
        # Metrics that judge the case as a whole have no score of a turn.
        per_turn = [metric for metric in case.result.metrics if index < len(metric.per_invocation)]
        fields += [(metric.name, _score(metric.per_invocation[index])) for metric in per_turn]
        for label, value in fields:
            yield from _field_lines(label, value)
    yield ""


def _fields(expected: Invocation | None, actual: Invocation) -> list[tuple[str, str]]:
    fields = [("prompt", actual.user_content.text())]
    if expected is not None:
        fields.append(("expected_response", _response(expected)))
    fields.append(("actual_response", _response(actual)))
    if expected is not None:
        fields.append(("expected_tool_calls", calls_text(expected)))
    return [*fields, ("actual_tool_calls", calls_text(actual))]


def _response(invocation: Invocation) -> str:
    return invocation.final_response.text() if invocation.final_response is not None else ""


def _score(score: InvocationScore) -> str:
    return f"undefined: {score.reason}" if score.score is None else str(score.score)


def _field_lines(label: str, value: str) -> Iterator[str]:
    """`label: value`, its further lines below the first."""
    safe = redact(neutralise(value))
    lines = [part for line in safe.splitlines() or ["(none)"] for part in textwrap.wrap(line, _WIDTH) or [""]]
    prefix = f"  {neutralise(label)}: ".ljust(_COLUMN)
    yield prefix + lines[0]
    yield from (" " * len(prefix) + line for line in lines[1:])
