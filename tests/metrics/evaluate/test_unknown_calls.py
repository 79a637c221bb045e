"""Turns with unknown tool calls: an outage of the reporting is not a bad answer."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.agents.agent_host import CustomScoreAnswer, CustomScoreRequest
from workbench.metrics.case_view import CaseView, JudgedCase
from workbench.metrics.dialects import compare_dialects
from workbench.metrics.evaluate import judge_case
from workbench.metrics.registry import prepare
from workbench.model.evalset import Invocation
from workbench.model.results import Execution, MetricResult, MetricStatus, TurnResult, decide_case_status
from workbench.model.turn_diff import DifferenceKind, find_differences

NO_ARGUMENTS = "the spans of the agent's tool calls have no arguments"
REASON = "no span arrived within 2 s of the answer"
KNOWS_CALLS = ("tool_trajectory_avg_score", "trajectory_exact_match", "trajectory_precision", "trajectory_strict_match")


def make_case(turn: Any) -> JudgedCase:
    """Return a case of two turns; the calls of the second are unknown."""
    turns = (
        TurnResult(invocation=turn("a", ["f"]), duration_seconds=0.1),
        TurnResult(invocation=turn("b"), duration_seconds=0.1, calls_unknown=REASON),
    )
    return JudgedCase(case=None, expected=[turn("a", ["f"]), turn("b", ["g"])], execution=Execution(turns=turns))


async def judge_metrics(turn: Any, config: Any, services: Any, *names: str) -> dict[str, MetricResult]:
    results = await judge_case(make_case(turn), prepare(config(dict.fromkeys(names, 1.0))), services)
    return {result.name: result for result in results}


@pytest.mark.parametrize("name", KNOWS_CALLS)
async def test_unknown_calls_are_an_error_of_metrics_that_need_them(
    name: str, turn: Any, config: Any, services: Any
) -> None:
    results = await judge_metrics(turn, config, services, name)

    assert (results[name].status, results[name].score, results[name].reason) == (MetricStatus.ERROR, None, REASON)


@pytest.mark.parametrize("name", KNOWS_CALLS)
@pytest.mark.parametrize(
    ("expected", "status"), [((), MetricStatus.UNDEFINED), (("g",), MetricStatus.ERROR)], ids=["none", "some"]
)
async def test_unknown_calls_are_undefined_if_no_calls_were_expected(
    name: str, expected: tuple[str, ...], status: MetricStatus, turn: Any, config: Any, services: Any
) -> None:
    invocation = turn("a").model_copy(update={"intermediate_data": None})
    turn_result = TurnResult(invocation=invocation, duration_seconds=0.1, calls_unknown=REASON)
    case = JudgedCase(case=None, expected=[turn("a", expected)], execution=Execution(turns=(turn_result,)))

    results = {result.name: result for result in await judge_case(case, prepare(config({name: 1.0})), services)}

    assert (results[name].status, results[name].score, results[name].reason) == (status, None, REASON)


@pytest.mark.parametrize(
    ("by_design", "status"), [(True, MetricStatus.UNDEFINED), (False, MetricStatus.ERROR)], ids=["never", "lost"]
)
async def test_calls_that_are_unknown_by_design_are_undefined_not_an_error(
    by_design: bool, status: MetricStatus, turn: Any, config: Any, services: Any
) -> None:
    data = {"intermediate_responses": [["agent", [{"text": "looking"}]]]}
    invocation = Invocation.model_validate({**turn("a").model_dump(), "intermediate_data": data})
    turn_result = TurnResult(
        invocation=invocation, duration_seconds=0.1, calls_unknown=REASON, calls_unknown_by_design=by_design
    )
    case = JudgedCase(case=None, expected=[turn("a")], execution=Execution(turns=(turn_result,)))

    results = {
        result.name: result for result in await judge_case(case, prepare(config({KNOWS_CALLS[0]: 1.0})), services)
    }

    assert results[KNOWS_CALLS[0]].status is status


async def test_unknown_calls_affect_neither_other_metrics_nor_measures(turn: Any, config: Any, services: Any) -> None:
    results = await judge_metrics(turn, config, services, "exact_match")

    assert results["exact_match"].score == 1.0
    assert results["tool_call_count_v1"].score == 1.0  # from the turn with known calls
    assert (results["tool_call_count_v1"].scored, results["tool_call_count_v1"].total) == (1, 2)
    assert decide_case_status(tuple(results.values())) == "PASSED"


async def test_a_custom_metric_receives_the_turns_with_unknown_calls(turn: Any, config: Any, services: Any) -> None:
    requests: list[CustomScoreRequest] = []

    def score(request: CustomScoreRequest) -> CustomScoreAnswer:
        requests.append(request)
        return CustomScoreAnswer(score=1.0)

    services.function = score
    own = config({"mine": 1.0}, custom={"mine": {"code_config": {"name": "metrics.f"}}})
    await judge_case(make_case(turn), prepare(own), services)

    assert [request.unknown for request in requests] == [{1}]


def test_dialects_compare_only_turns_with_known_calls(turn: Any) -> None:
    comparison = compare_dialects(CaseView(make_case(turn)))

    assert [bool(turn_comparison) for turn_comparison in comparison.turns] == [True, False]


def test_dialects_do_not_compare_unknown_arguments(turn: Any) -> None:
    result = TurnResult(invocation=turn("a", ["f"]), duration_seconds=0.1, arguments_unknown=NO_ARGUMENTS)
    case = JudgedCase(case=None, expected=[turn("a", [("f", {"x": 1})])], execution=Execution(turns=(result,)))

    assert compare_dialects(CaseView(case)).reason == NO_ARGUMENTS


def test_unknown_calls_are_not_reported_as_missing(turn: Any) -> None:
    expected, actual = turn("b", ["g"]), turn("c")

    assert {result.kind for result in find_differences(expected, actual, calls_known=False)} == {
        DifferenceKind.RESPONSE_CHANGED
    }


BY_ARGUMENTS = (
    "tool_trajectory_avg_score",
    "trajectory_exact_match",
    "trajectory_in_order_match",
    "trajectory_any_order_match",
    "trajectory_precision",
    "trajectory_recall",
    "trajectory_strict_match",
    "trajectory_superset_match",
)


async def judge_by_names(
    config: Any, services: Any, criteria: dict[str, Any], *, predicted: Any, expected: Any
) -> dict[str, MetricResult]:
    """Judge a turn whose calls are known only by name."""
    turn_result = TurnResult(invocation=predicted, duration_seconds=0.1, arguments_unknown=NO_ARGUMENTS)
    case = JudgedCase(case=None, expected=[expected], execution=Execution(turns=(turn_result,)))
    return {result.name: result for result in await judge_case(case, prepare(config(criteria)), services)}


@pytest.mark.parametrize("name", BY_ARGUMENTS)
async def test_unknown_arguments_are_an_error_not_a_failure(name: str, turn: Any, config: Any, services: Any) -> None:
    results = await judge_by_names(
        config, services, {name: 1.0}, predicted=turn("a", ["f", "g"]), expected=turn("a", [("f", {"x": 1}), "g"])
    )

    assert (results[name].status, results[name].score, results[name].reason) == (MetricStatus.ERROR, None, NO_ARGUMENTS)


@pytest.mark.parametrize("name", [*BY_ARGUMENTS, "trajectory_unordered_match", "trajectory_subset_match"])
@pytest.mark.parametrize(
    ("predicted", "expected"),
    [(["f"], [("f", {})]), (["f"], ["f"]), ([("f", {"x": 1}), "g"], [("f", {"x": 1}), ("g", {})])],
    ids=["empty", "names", "one-of-two"],
)
async def test_unknown_arguments_do_not_match_absent_or_empty_ones(
    name: str, predicted: Any, expected: Any, turn: Any, config: Any, services: Any
) -> None:
    results = await judge_by_names(
        config, services, {name: 1.0}, predicted=turn("a", predicted), expected=turn("a", expected)
    )

    assert (results[name].status, results[name].score, results[name].reason) == (MetricStatus.ERROR, None, NO_ARGUMENTS)


@pytest.mark.parametrize("name", BY_ARGUMENTS)
async def test_calls_that_no_arguments_could_make_equal_are_failed(
    name: str, turn: Any, config: Any, services: Any
) -> None:
    results = await judge_by_names(
        config, services, {name: 1.0}, predicted=turn("a", ["h"]), expected=turn("a", [("f", {"x": 1})])
    )

    assert (results[name].status, results[name].score) == (MetricStatus.FAILED, 0.0)


async def test_metrics_that_compare_only_names_need_no_arguments(turn: Any, config: Any, services: Any) -> None:
    criteria = {
        "tool_trajectory_avg_score": {"threshold": 1.0, "ignore_args": True},
        "trajectory_exact_match": {"threshold": 1.0, "args_match": "ignore"},
        "trajectory_single_tool_use": {"threshold": 1.0, "tool_name": "f"},
    }

    results = await judge_by_names(
        config, services, criteria, predicted=turn("a", ["f"]), expected=turn("a", [("f", {"x": 1})])
    )

    assert {name: results[name].status for name in criteria} == dict.fromkeys(criteria, MetricStatus.PASSED)
    assert results["tool_call_count_v1"].score == 1.0
