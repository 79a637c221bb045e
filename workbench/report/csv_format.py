"""Runs as CSV, for spreadsheets: a row for each case and repeat, whatever has structure as JSON in its cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from workbench.model.text import neutralise, redact
from workbench.report.json_format import difference_records, dump, error_record, turn_record
from workbench.report.run_report import ReportedCase, RunReport

COLUMNS = (
    "run_id", "target", "eval_set", "eval_set_id", "eval_id", "occurrence", "repeat", "status", "error",
    "duration_seconds", "agent_seconds", "prompts", "expected_responses", "responses", "trajectories", "differences",
)  # fmt: skip

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Text that begins like this would be run as a formula by a spreadsheet; it gets an apostrophe in front."""


def csv_table(report: RunReport) -> str:
    """The run as CSV: the fixed columns, then those of each metric.

    They are `NAME`, `NAME.status`, and if a judge gave samples `NAME.judged_by`: how many of them its verdict rests on.
    """
    metrics: dict[str, bool] = {}  # whether a judge gave samples, by name
    for case in report.cases:
        for metric in case.result.metrics:
            metrics[metric.name] = metrics.get(metric.name, False) or metric.fewest_samples is not None
    columns = [
        f"{name}{kind}"
        for name, has_samples in metrics.items()
        for kind in ("", ".status", *([".judged_by"] if has_samples else []))
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *map(cell_text, columns)])
    for case in report.cases:
        writer.writerow(_row(report, case, metrics))
    return out.getvalue()


def _row(report: RunReport, case: ReportedCase, metrics: Mapping[str, bool]) -> list[Any]:
    result = case.result
    turns = [turn_record(turn, result) for turn in result.execution.turns]
    expected = (case.expected.conversation if case.expected is not None else None) or []
    error = error_record(result)
    row: list[Any] = [
        report.run_id,
        cell_text(result.case.target),
        cell_text(result.case.eval_set),
        cell_text(result.eval_set_id),
        cell_text(result.case.eval_id),
        result.case.occurrence,
        result.repeat,
        result.status.value,
        cell_text(error["message"]) if error is not None else "",
        f"{result.duration_seconds:.6f}",
        f"{result.agent_seconds:.6f}",
        dump([turn["user"] for turn in turns]),
        dump([turn.final_response.text() if turn.final_response is not None else None for turn in expected]),
        dump([turn["response"] for turn in turns]),
        dump([turn["trajectory"] for turn in turns]),
        dump(difference_records(case)),
    ]
    scores = {metric.name: metric for metric in result.metrics}
    for name, has_samples in metrics.items():
        metric = scores.get(name)
        row += ["", ""] if metric is None else ["" if metric.score is None else metric.score, metric.status.value]
        if has_samples:
            count = None if metric is None else metric.fewest_samples
            row.append("" if count is None else f"{count.read} of {count.asked}")
    return row


def cell_text(text: str) -> str:
    """Text as a cell may hold it: no keys, nothing that a terminal or a spreadsheet would obey."""
    safe = neutralise(redact(text))
    return f"'{safe}" if safe.startswith(_FORMULA_STARTS) else safe
