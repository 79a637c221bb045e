"""Comparisons of short turns by all dialects."""

from __future__ import annotations

from typing import Any

from workbench.metrics.case_view import CaseView, JudgedCase
from workbench.metrics.dialects import CaseDialects, compare_dialects
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import Execution, TurnResult

Calls = list[tuple[str, dict[str, Any] | None]]


def make_invocation(calls: Calls) -> Invocation:
    uses = [{"name": name, "args": args} for name, args in calls]
    return Invocation.model_validate({"user_content": {"parts": []}, "intermediate_data": {"tool_uses": uses}})


def compare_turns(*turns: tuple[Calls, Calls]) -> CaseDialects:
    """Compare turns, given as pairs (actual, expected)."""
    expected = [make_invocation(expected_calls) for _, expected_calls in turns]
    actual_turns = tuple(TurnResult(invocation=make_invocation(calls), duration_seconds=0.0) for calls, _ in turns)
    case = EvalCase(eval_id="case", conversation=expected)
    return compare_dialects(CaseView(JudgedCase(case=case, expected=expected, execution=Execution(turns=actual_turns))))


def make_calls(text: str) -> Calls:
    return [(letter, {}) for letter in text]
