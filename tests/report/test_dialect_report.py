"""Comparisons of dialects: what is not compared, and the policy of each."""

from __future__ import annotations

from tests.metrics.dialects import compare_turns, make_calls, make_invocation
from workbench.metrics.case_view import CaseView, JudgedCase
from workbench.metrics.dialects import (
    CaseDialects,
    compare_dialects,
)
from workbench.model.evalset import EvalCase
from workbench.model.results import Execution, TurnResult
from workbench.report.dialect_report import POLICIES


def test_too_many_calls_are_not_compared() -> None:
    many = make_calls("a" * 1_001)
    expected = [make_invocation(many)]
    actual_turns = (TurnResult(invocation=make_invocation(many), duration_seconds=0.0),)
    case = EvalCase(eval_id="case", conversation=expected)

    case_dialects = compare_dialects(
        CaseView(JudgedCase(case=case, expected=expected, execution=Execution(turns=actual_turns)))
    )

    assert case_dialects == CaseDialects(reason="too many calls to compare quickly")


def test_a_case_without_a_finished_turn_has_no_comparison() -> None:
    expected = [make_invocation(make_calls("a"))]
    case = EvalCase(eval_id="case", conversation=expected)

    case_dialects = compare_dialects(CaseView(JudgedCase(case=case, expected=expected, execution=Execution())))

    assert case_dialects == CaseDialects(reason="the agent finished no turn")


def test_each_compared_dialect_has_a_policy() -> None:
    dialects = {reading.dialect for comparison in compare_turns(([], [])).whole_case for reading in comparison.readings}

    assert dialects == {policy.dialect for policy in POLICIES}
