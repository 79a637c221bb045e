"""`tool_trajectory_avg_score`: the scores and spellings of ADK, and hints for misleading scores."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.results import MetricStatus

NAME = "tool_trajectory_avg_score"


@pytest.mark.parametrize(
    ("actual", "expected", "exact", "in_order", "any_order"),
    [
        ("ab", "ab", 1, 1, 1),
        ("axb", "ab", 0, 1, 1),
        ("ba", "ab", 0, 0, 1),
        ("a", "aa", 0, 0, 0),
        ("aa", "a", 0, 1, 1),
        ("a", "", 0, 1, 1),
        ("", "", 1, 1, 1),
        ("", "a", 0, 0, 0),
    ],
)
async def test_each_match_type_gives_its_score(
    *, actual: str, expected: str, exact: int, in_order: int, any_order: int, config: Any, judge: Any, turn: Any
) -> None:
    scores = []
    for match_type in ("EXACT", "IN_ORDER", "ANY_ORDER"):
        criteria = {NAME: {"threshold": 1.0, "match_type": match_type}}
        results = await judge(
            config(criteria), actual=[turn(calls=list(actual))], expected=[turn(calls=list(expected))]
        )
        scores.append(results[NAME].score)

    assert scores == [exact, in_order, any_order]


@pytest.mark.parametrize("spelling", ["IN_ORDER", "in_order", "In Order", " in-order ", 1])
@pytest.mark.parametrize("key", ["match_type", "matchType"])
async def test_the_match_type_is_read_in_all_spellings_of_adk(
    spelling: Any, key: str, config: Any, judge: Any, turn: Any
) -> None:
    criteria = {NAME: {"threshold": 1.0, key: spelling}}

    results = await judge(config(criteria), actual=[turn(calls=["a", "x"])], expected=[turn(calls=["a"])])

    assert results[NAME].status is MetricStatus.PASSED


@pytest.mark.parametrize(
    ("actual", "expected", "score"),
    [
        (None, {}, 0),
        ({}, {}, 1),
        (None, None, 1),
        ({"x": 1}, {"x": 1.0}, 1),
        ({"x": 1}, {"x": True}, 1),
        ({"x": 1}, {"x": "1"}, 0),
        ({"x": None}, {}, 0),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, 1),
        ({"x": [1, 2]}, {"x": [2, 1]}, 0),
        ({"x": "A"}, {"x": "a"}, 0),
    ],
)
async def test_arguments_are_compared_as_in_adk(
    *, actual: Any, expected: Any, score: int, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(
        config({NAME: 1.0}), actual=[turn(calls=[("f", actual)])], expected=[turn(calls=[("f", expected)])]
    )

    assert results[NAME].score == score


@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER", "ANY_ORDER"])
async def test_a_hint_says_that_only_absent_arguments_differ(
    match_type: str, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(
        config({NAME: {"threshold": 1.0, "match_type": match_type}}),
        actual=[turn(calls=[("f", {"x": 1}), ("g", None)])],
        expected=[turn(calls=[("f", {"x": 1}), ("g", {})])],
    )

    assert results[NAME].score == 0.0
    assert "absent on one side" in results[NAME].hint


@pytest.mark.parametrize(
    ("actual", "expected", "hint"),
    [
        (["pay", "transfer_to_agent"], ["pay"], "ignore_tools leaves out transfer_to_agent."),
        (["pay", "adk_request_confirmation"], ["pay"], '"name": "adk_request_confirmation", "response": {"confirmed"'),
        (["a", "x", "b"], ["a", "b"], "match_type IN_ORDER allows that"),
        (["b", "a"], ["a", "b"], "match_type ANY_ORDER allows that"),
        ([("f", {"q": "the weather"})], [("f", {"q": "weather now"})], "args_match says which arguments count"),
    ],
)
async def test_a_hint_names_the_option_that_a_failure_is_made_for(
    actual: Any, expected: Any, hint: str, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(config({NAME: 1.0}), actual=[turn(calls=actual)], expected=[turn(calls=expected)])

    assert hint in results[NAME].hint


async def test_there_is_no_hint_if_the_calls_differ_otherwise(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(config({NAME: 1.0}), actual=[turn(calls=[("g", None)])], expected=[turn(calls=[("h", {})])])

    assert results[NAME].hint is None


async def test_ignore_args_compares_only_names(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config({NAME: {"threshold": 1.0, "ignoreArgs": True}}),
        actual=[turn(calls=[("f", {"x": 1})])],
        expected=[turn(calls=[("f", {"x": 2})])],
    )

    assert results[NAME].score == 1.0


async def test_calls_may_be_events_on_either_side(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config({NAME: 1.0}),
        actual=[turn(calls=[("f", {"x": 1}), ("g", {})], events=True)],
        expected=[turn(calls=[("f", {"x": 1}), ("g", {})])],
    )

    assert results[NAME].score == 1.0


async def test_the_score_of_a_case_is_the_mean_of_its_turns(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config({NAME: 0.5}),
        actual=[turn(calls=["a"]), turn(calls=["b"])],
        expected=[turn(calls=["a"]), turn(calls=["a"])],
    )

    assert (results[NAME].score, results[NAME].status) == (0.5, MetricStatus.PASSED)
    assert [score.score for score in results[NAME].per_invocation] == [1.0, 0.0]
