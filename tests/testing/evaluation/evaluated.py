"""Shared helpers of tests of `EvalTask`."""

from __future__ import annotations

from typing import Any

from workbench.testing import EvalResult, EvalTask

CALL = {"tool_name": "lookup", "tool_input": {"key": "a"}}
PROMPTS = {"prompt": ["one", "two", "three"], "reference_trajectory": [[CALL], [CALL], [CALL]]}


def find_reasons(result: EvalResult, column: str) -> dict[int, str]:
    """Return the reasons for empty cells of a column, by row."""
    return {problem.row: problem.reason for problem in result.problems if problem.column == column}


def get_column(result: EvalResult, name: str) -> list[Any]:
    return [row[name] for row in result.rows]


def evaluate(runnable: Any, metrics: list[Any], dataset: Any = PROMPTS, **options: Any) -> EvalResult:
    return EvalTask(dataset=dataset, metrics=metrics).evaluate(runnable=runnable, **options)
