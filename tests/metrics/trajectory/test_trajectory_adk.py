"""`tool_trajectory_avg_score`: ADK's scores, ADK's spellings, and hints where its scores mislead."""

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
async def test_match_types(
    *, actual: str, expected: str, exact: int, in_order: int, any_order: int, config: Any, judge: Any, turn: Any
) -> None:
    found = []
    for match_type in ("EXACT", "IN_ORDER", "ANY_ORDER"):
        criteria = {NAME: {"threshold": 1.0, "match_type": match_type}}
        judged = await judge(config(criteria), actual=[turn(calls=list(actual))], expected=[turn(calls=list(expected))])
        found.append(judged[NAME].score)

    assert found == [exact, in_order, any_order]


@pytest.mark.parametrize("spelling", ["IN_ORDER", "in_order", "In Order", " in-order ", 1])
@pytest.mark.parametrize("key", ["match_type", "matchType"])
async def test_match_type_is_read_as_adk_spells_it(spelling: Any, key: str, config: Any, judge: Any, turn: Any) -> None:
    criteria = {NAME: {"threshold": 1.0, key: spelling}}

    judged = await judge(config(criteria), actual=[turn(calls=["a", "x"])], expected=[turn(calls=["a"])])

    assert judged[NAME].status is MetricStatus.PASSED


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
    judged = await judge(
        config({NAME: 1.0}), actual=[turn(calls=[("f", actual)])], expected=[turn(calls=[("f", expected)])]
    )

    assert judged[NAME].score == score


@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER", "ANY_ORDER"])
async def test_a_hint_says_that_only_absent_arguments_made_the_difference(
    match_type: str, config: Any, judge: Any, turn: Any
) -> None:
    judged = await judge(
        config({NAME: {"threshold": 1.0, "match_type": match_type}}),
        actual=[turn(calls=[("f", {"x": 1}), ("g", None)])],
        expected=[turn(calls=[("f", {"x": 1}), ("g", {})])],
    )

    assert judged[NAME].score == 0.0
    assert "absent on one side" in judged[NAME].hint


async def test_there_is_no_hint_where_the_calls_differ_otherwise(config: Any, judge: Any, turn: Any) -> None:
    judged = await judge(config({NAME: 1.0}), actual=[turn(calls=[("g", None)])], expected=[turn(calls=[("h", {})])])

    assert judged[NAME].hint is None


async def test_ignore_args_compares_names_alone(config: Any, judge: Any, turn: Any) -> None:
    judged = await judge(
        config({NAME: {"threshold": 1.0, "ignoreArgs": True}}),
        actual=[turn(calls=[("f", {"x": 1})])],
        expected=[turn(calls=[("f", {"x": 2})])],
    )

    assert judged[NAME].score == 1.0


async def test_calls_may_be_events_on_either_side(config: Any, judge: Any, turn: Any) -> None:
    judged = await judge(
        config({NAME: 1.0}),
        actual=[turn(calls=[("f", {"x": 1}), ("g", {})], events=True)],
        expected=[turn(calls=[("f", {"x": 1}), ("g", {})])],
    )

    assert judged[NAME].score == 1.0


async def test_the_case_takes_the_mean_of_its_turns(config: Any, judge: Any, turn: Any) -> None:
    judged = await judge(
        config({NAME: 0.5}),
        actual=[turn(calls=["a"]), turn(calls=["b"])],
        expected=[turn(calls=["a"]), turn(calls=["a"])],
    )

    assert (judged[NAME].score, judged[NAME].status) == (0.5, MetricStatus.PASSED)
    assert [score.score for score in judged[NAME].per_invocation] == [1.0, 0.0]
