"""Turns of which nobody knows what tools were called: an outage of what tells it is no bad answer."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.metrics.dialects import dialects_of
from workbench.metrics.judge import JudgedCase, judge_case
from workbench.metrics.subject import CaseView
from workbench.model.results import Execution, MetricResult, MetricStatus, TurnResult, status_of_case
from workbench.report.differences import DifferenceKind, differences

REASON = "no span came within 2 s of the answer"
KNOWS_CALLS = ("tool_trajectory_avg_score", "trajectory_exact_match", "trajectory_precision", "trajectory_strict_match")


def subject(turn: Any) -> JudgedCase:
    """Two turns, of which the calls of the second are not known."""
    turns = (
        TurnResult(invocation=turn("a", ["f"]), duration_seconds=0.1),
        TurnResult(invocation=turn("b"), duration_seconds=0.1, calls_unknown=REASON),
    )
    return JudgedCase(case=None, expected=[turn("a", ["f"]), turn("b", ["g"])], execution=Execution(turns=turns))


async def judged(turn: Any, config: Any, services: Any, *names: str) -> dict[str, MetricResult]:
    results = await judge_case(subject(turn), config(dict.fromkeys(names, 1.0)), services)
    return {result.name: result for result in results}


@pytest.mark.parametrize("name", KNOWS_CALLS)
async def test_what_needs_to_know_the_calls_is_an_error(name: str, turn: Any, config: Any, services: Any) -> None:
    found = await judged(turn, config, services, name)

    assert (found[name].status, found[name].score, found[name].reason) == (MetricStatus.ERROR, None, REASON)


async def test_what_does_not_counts_and_measures_fail_nothing(turn: Any, config: Any, services: Any) -> None:
    found = await judged(turn, config, services, "exact_match")

    assert found["exact_match"].score == 1.0
    assert found["tool_call_count_v1"].score == 1.0  # of the turn that is known
    assert (found["tool_call_count_v1"].scored, found["tool_call_count_v1"].total) == (1, 2)
    assert status_of_case(found.values()) == "PASSED"


def test_dialects_compare_the_turns_that_are_known(turn: Any) -> None:
    compared = dialects_of(CaseView(subject(turn)))

    assert [bool(of_turn) for of_turn in compared.turns] == [True, False]


def test_no_call_is_missing_where_none_is_known(turn: Any) -> None:
    expected, actual = turn("b", ["g"]), turn("c")

    assert {each.kind for each in differences(expected, actual, calls_known=False)} == {DifferenceKind.RESPONSE_CHANGED}
