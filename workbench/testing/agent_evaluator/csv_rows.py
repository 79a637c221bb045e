"""The CSV file of `output_file`: ADK's columns, a row for each metric of each turn of each run."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workbench.model.evalset import Invocation
from workbench.model.results import CaseStatus, MetricResult, MetricStatus
from workbench.report.csv_format import cell_text
from workbench.report.run_report import ReportedCase
from workbench.report.turns import calls_text
from workbench.store.errors import cannot

_COLUMNS = (
    "eval_set_id", "eval_id", "metric_name", "threshold", "score", "eval_status", "prompt", "expected_response",
    "actual_response", "expected_tool_calls", "actual_tool_calls",
)  # fmt: skip

_Row = tuple[str | float | None, ...]


def append_csv(file: Path, cases: Iterable[ReportedCase]) -> None:
    """Add the rows of these cases to a file, begun with the names of the columns. Raises StoreError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        begins = not file.exists() or not file.stat().st_size
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            if begins:
                writer.writerow(_COLUMNS)
            for case in cases:
                writer.writerows(_rows(case))
    except OSError as error:
        raise cannot("write", file, error) from error


def _rows(case: ReportedCase) -> Iterator[_Row]:
    result = case.result
    head = (cell_text(result.eval_set_id), cell_text(result.case.eval_id))
    turns = [turn.invocation for turn in result.execution.turns]
    expected = list((case.expected.conversation if case.expected is not None else None) or ())
    for metric in result.metrics:
        per_turn = [score.score for score in metric.per_invocation]
        for number, score in enumerate(per_turn or [metric.score]):
            of_turn = slice(number, number + 1) if per_turn else slice(None)
            judged = (cell_text(metric.name), metric.threshold, score, _status(metric, score))
            yield (*head, *judged, *_told(expected[of_turn], turns[of_turn]))
    if result.failure is not None:
        yield (*head, "", None, None, CaseStatus.ERROR.value, *_told(expected, turns))


def _status(metric: MetricResult, score: float | None) -> str:
    """How one turn came out, in ADK's words and ERROR."""
    if metric.status is MetricStatus.ERROR:
        return metric.status.value
    if metric.threshold is None:
        return MetricStatus.INFORMATIONAL.value
    if score is None or metric.score is None:
        return CaseStatus.NOT_EVALUATED.value
    better_low = metric.score != metric.threshold and (metric.status is MetricStatus.PASSED) is (
        metric.score < metric.threshold
    )
    passed = score <= metric.threshold if better_low else score >= metric.threshold
    return (MetricStatus.PASSED if passed else MetricStatus.FAILED).value


def _told(expected: Sequence[Invocation], actual: Sequence[Invocation]) -> Iterator[str]:
    yield _text(turn.user_content.text(thoughts=False) for turn in actual or expected)
    yield _text(_response(turn) for turn in expected)
    yield _text(_response(turn) for turn in actual)
    yield _text(calls_text(turn) for turn in expected)
    yield _text(calls_text(turn) for turn in actual)


def _text(texts: Iterable[str]) -> str:
    return cell_text("\n".join(texts))


def _response(turn: Invocation) -> str:
    return "" if turn.final_response is None else turn.final_response.text(thoughts=False)
