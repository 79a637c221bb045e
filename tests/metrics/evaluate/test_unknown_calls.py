"""Turns of which nobody knows what tools were called: an outage of what tells it is no bad answer."""

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
from workbench.report.turn_diff import DifferenceKind, find_differences

NO_ARGUMENTS = "the spans of the agent's tool calls have no arguments"
REASON = "no span arrived within 2 s of the answer"
KNOWS_CALLS = ("tool_trajectory_avg_score", "trajectory_exact_match", "trajectory_precision", "trajectory_strict_match")


def subject(turn: Any) -> JudgedCase:
    """Two turns, of which the calls of the second are not known."""
    turns = (
        TurnResult(invocation=turn("a", ["f"]), duration_seconds=0.1),
        TurnResult(invocation=turn("b"), duration_seconds=0.1, calls_unknown=REASON),
    )
    return JudgedCase(case=None, expected=[turn("a", ["f"]), turn("b", ["g"])], execution=Execution(turns=turns))


async def judged(turn: Any, config: Any, services: Any, *names: str) -> dict[str, MetricResult]:
    results = await judge_case(subject(turn), prepare(config(dict.fromkeys(names, 1.0))), services)
    return {result.name: result for result in results}


@pytest.mark.parametrize("name", KNOWS_CALLS)
async def test_what_needs_to_know_the_calls_is_an_error(name: str, turn: Any, config: Any, services: Any) -> None:
    found = await judged(turn, config, services, name)

    assert (found[name].status, found[name].score, found[name].reason) == (MetricStatus.ERROR, None, REASON)


@pytest.mark.parametrize("name", KNOWS_CALLS)
@pytest.mark.parametrize(
    ("expected", "status"), [((), MetricStatus.UNDEFINED), (("g",), MetricStatus.ERROR)], ids=["none", "some"]
)
async def test_an_agent_that_never_tells_of_calls_has_no_score_where_none_was_expected(
    name: str, expected: tuple[str, ...], status: MetricStatus, turn: Any, config: Any, services: Any
) -> None:
    untold = turn("a").model_copy(update={"intermediate_data": None})
    result = TurnResult(invocation=untold, duration_seconds=0.1, calls_unknown=REASON)
    case = JudgedCase(case=None, expected=[turn("a", expected)], execution=Execution(turns=(result,)))

    found = {each.name: each for each in await judge_case(case, prepare(config({name: 1.0})), services)}

    assert (found[name].status, found[name].score, found[name].reason) == (status, None, REASON)


@pytest.mark.parametrize(
    ("untold", "status"), [(True, MetricStatus.UNDEFINED), (False, MetricStatus.ERROR)], ids=["never", "lost"]
)
async def test_what_is_told_beside_calls_makes_no_outage_of_an_agent_that_never_tells_of_them(
    untold: bool, status: MetricStatus, turn: Any, config: Any, services: Any
) -> None:
    said = {"intermediate_responses": [["agent", [{"text": "looking"}]]]}
    told = Invocation.model_validate({**turn("a").model_dump(), "intermediate_data": said})
    result = TurnResult(invocation=told, duration_seconds=0.1, calls_unknown=REASON, calls_unknown_by_design=untold)
    case = JudgedCase(case=None, expected=[turn("a")], execution=Execution(turns=(result,)))

    found = {each.name: each for each in await judge_case(case, prepare(config({KNOWS_CALLS[0]: 1.0})), services)}

    assert found[KNOWS_CALLS[0]].status is status


async def test_what_does_not_counts_and_measures_fail_nothing(turn: Any, config: Any, services: Any) -> None:
    found = await judged(turn, config, services, "exact_match")

    assert found["exact_match"].score == 1.0
    assert found["tool_call_count_v1"].score == 1.0  # of the turn that is known
    assert (found["tool_call_count_v1"].scored, found["tool_call_count_v1"].total) == (1, 2)
    assert decide_case_status(tuple(found.values())) == "PASSED"


async def test_a_custom_metric_is_told_of_which_turns_nobody_knows_the_calls(
    turn: Any, config: Any, services: Any
) -> None:
    asked: list[CustomScoreRequest] = []

    def score(request: CustomScoreRequest) -> CustomScoreAnswer:
        asked.append(request)
        return CustomScoreAnswer(score=1.0)

    services.function = score
    own = config({"mine": 1.0}, custom={"mine": {"code_config": {"name": "metrics.f"}}})
    await judge_case(subject(turn), prepare(own), services)

    assert [request.unknown for request in asked] == [{1}]


def test_dialects_compare_the_turns_that_are_known(turn: Any) -> None:
    compared = compare_dialects(CaseView(subject(turn)))

    assert [bool(of_turn) for of_turn in compared.turns] == [True, False]


def test_dialects_compare_no_arguments_that_nobody_knows(turn: Any) -> None:
    result = TurnResult(invocation=turn("a", ["f"]), duration_seconds=0.1, arguments_unknown=NO_ARGUMENTS)
    subject = JudgedCase(case=None, expected=[turn("a", [("f", {"x": 1})])], execution=Execution(turns=(result,)))

    assert compare_dialects(CaseView(subject)).reason == NO_ARGUMENTS


def test_no_call_is_missing_where_none_is_known(turn: Any) -> None:
    expected, actual = turn("b", ["g"]), turn("c")

    assert {each.kind for each in find_differences(expected, actual, calls_known=False)} == {
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


async def judged_by_names(
    config: Any, services: Any, criteria: dict[str, Any], *, predicted: Any, expected: Any
) -> dict[str, MetricResult]:
    """The results of a turn of which only the names of the calls are known."""
    result = TurnResult(invocation=predicted, duration_seconds=0.1, arguments_unknown=NO_ARGUMENTS)
    subject = JudgedCase(case=None, expected=[expected], execution=Execution(turns=(result,)))
    return {each.name: each for each in await judge_case(subject, prepare(config(criteria)), services)}


@pytest.mark.parametrize("name", BY_ARGUMENTS)
async def test_arguments_that_nobody_knows_fail_no_case(name: str, turn: Any, config: Any, services: Any) -> None:
    found = await judged_by_names(
        config, services, {name: 1.0}, predicted=turn("a", ["f", "g"]), expected=turn("a", [("f", {"x": 1}), "g"])
    )

    assert (found[name].status, found[name].score, found[name].reason) == (MetricStatus.ERROR, None, NO_ARGUMENTS)


@pytest.mark.parametrize("name", BY_ARGUMENTS)
async def test_what_no_arguments_could_make_good_is_failed(name: str, turn: Any, config: Any, services: Any) -> None:
    found = await judged_by_names(
        config, services, {name: 1.0}, predicted=turn("a", ["h"]), expected=turn("a", [("f", {"x": 1})])
    )

    assert (found[name].status, found[name].score) == (MetricStatus.FAILED, 0.0)


async def test_what_needs_names_alone_counts_without_arguments(turn: Any, config: Any, services: Any) -> None:
    criteria = {
        "tool_trajectory_avg_score": {"threshold": 1.0, "ignore_args": True},
        "trajectory_exact_match": {"threshold": 1.0, "args_match": "ignore"},
        "trajectory_single_tool_use": {"threshold": 1.0, "tool_name": "f"},
    }

    found = await judged_by_names(
        config, services, criteria, predicted=turn("a", ["f"]), expected=turn("a", [("f", {"x": 1})])
    )

    assert {name: found[name].status for name in criteria} == dict.fromkeys(criteria, MetricStatus.PASSED)
    assert found["tool_call_count_v1"].score == 1.0
