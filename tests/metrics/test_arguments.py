"""Argument rules by tool: the option `args_match`."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.metrics.registry import check_criteria
from workbench.model.results import MetricStatus

NAME = "tool_trajectory_avg_score"
EXPECTED = {"location": "Bedroom", "temperature": 20, "tags": ["a", "b"], "options": {"fan": "on", "mode": 1}}


@pytest.fixture
def match(config: Any, judge: Any, turn: Any) -> Any:
    async def run(args_match: Any, actual: list[Any], expected: list[Any], *, match_type: str = "EXACT") -> float:
        criteria = {NAME: {"threshold": 1.0, "match_type": match_type, "args_match": args_match}}
        judged = await judge(config(criteria), actual=[turn(calls=actual)], expected=[turn(calls=expected)])
        assert judged[NAME].status is not MetricStatus.ERROR, judged[NAME].reason
        return judged[NAME].score

    return run


@pytest.mark.parametrize(
    ("mode", "actual", "fits"),
    [
        ("exact", EXPECTED, True),
        ("exact", {**EXPECTED, "temperature": 20.0}, True),
        ("exact", {**EXPECTED, "more": 1}, False),
        ("ignore", {}, True),
        ("subset", {"location": "Bedroom"}, True),
        ("subset", {"location": "Kitchen"}, False),
        ("subset", {**EXPECTED, "more": 1}, False),
        ("superset", {**EXPECTED, "more": 1}, True),
        ("superset", {"location": "Bedroom"}, False),
    ],
)
async def test_modes(mode: str, actual: Any, fits: bool, match: Any) -> None:
    assert await match(mode, [("set", actual)], [("set", EXPECTED)]) == fits


@pytest.mark.parametrize(
    ("argument", "rule", "value", "fits"),
    [
        ("location", "exact", "bedroom", False),
        ("location", "any", "anywhere", True),
        ("location", {"regex": "(?i)bed.*"}, "BEDROOM 1", True),
        ("location", {"regex": "bed"}, "bedroom", False),
        ("location", "regex", "Bedroom", True),
        ("temperature", {"absolute": 0.5}, 20.5, True),
        ("temperature", {"absolute": 0.5}, 20.6, False),
        ("temperature", {"relative": 0.1}, 18, True),
        ("temperature", {"relative": 0.1}, 17.9, False),
        ("temperature", {"absolute": 5, "relative": 0.01}, 24, True),
        ("temperature", {"absolute": 5}, "20", False),
        ("temperature", {"absolute": 1}, True, False),
        ("temperature", {"regex": "2[0-9]"}, 23, True),
        ("tags", "subset", ["b"], True),
        ("tags", "subset", ["b", "b"], False),
        ("tags", "superset", ["c", "b", "a"], True),
        ("tags", "superset", ["a"], False),
        ("options", "subset", {"fan": "on"}, True),
        ("options", "superset", {"fan": "on", "mode": 1.0, "x": 2}, True),
        ("options", "superset", {"fan": "off", "mode": 1}, False),
    ],
)
async def test_rules_for_single_arguments(argument: str, rule: Any, value: Any, fits: bool, match: Any) -> None:
    args_match = {"tools": {"set": {"arguments": {argument: rule}}}}

    assert await match(args_match, [("set", {**EXPECTED, argument: value})], [("set", EXPECTED)]) == fits


async def test_an_ignored_argument_may_be_missing_and_any_may_not(match: Any) -> None:
    without = {key: value for key, value in EXPECTED.items() if key != "tags"}

    for rule, fits in (("ignore", True), ("any", False)):
        args_match = {"default": {"arguments": {"tags": rule}}}
        assert await match(args_match, [("set", without)], [("set", EXPECTED)]) == fits


async def test_a_tool_s_own_rule_goes_before_the_default(match: Any) -> None:
    args_match = {"default": "ignore", "tools": {"set": "exact"}}

    assert await match(args_match, [("set", {"x": 1}), ("log", {"y": 1})], [("set", {"x": 1}), ("log", {})]) == 1.0
    assert await match(args_match, [("set", {"x": 2}), ("log", {"y": 1})], [("set", {"x": 1}), ("log", {})]) == 0.0


async def test_absent_arguments_are_empty_ones_under_a_rule(match: Any) -> None:
    assert await match("exact", [("f", None)], [("f", {})]) == 1.0


async def test_calls_are_assigned_not_taken_greedily(match: Any) -> None:
    """The first expected call fits both actual ones, the second only one: taking the first that fits would fail."""
    expected = [("f", {"x": 1}), ("f", {"x": 1, "y": 2})]
    actual = [("f", {"x": 1, "y": 2}), ("f", {"x": 1, "z": 3})]

    assert await match("superset", actual, expected, match_type="ANY_ORDER") == 1.0
    assert await match("superset", list(reversed(actual)), expected, match_type="ANY_ORDER") == 1.0
    assert await match("superset", list(reversed(actual)), expected, match_type="IN_ORDER") == 1.0
    assert await match("superset", actual, expected, match_type="IN_ORDER") == 0.0


async def test_rules_serve_precision_and_recall_too(config: Any, judge: Any, turn: Any) -> None:
    criteria = {"trajectory_recall": {"args_match": {"tools": {"f": {"arguments": {"x": {"absolute": 1}}}}}}}

    judged = await judge(
        config(criteria),
        actual=[turn(calls=[("f", {"x": 1}), ("f", {"x": 3})])],
        expected=[turn(calls=[("f", {"x": 2}), ("f", {"x": 0})])],
    )

    assert judged["trajectory_recall"].score == 1.0


async def test_an_expected_value_that_is_no_pattern_is_an_error_of_the_metric(
    config: Any, judge: Any, turn: Any
) -> None:
    criteria = {NAME: {"threshold": 1, "args_match": {"default": {"arguments": {"x": "regex"}}}}}

    judged = await judge(
        config(criteria), actual=[turn(calls=[("f", {"x": "a"})])], expected=[turn(calls=[("f", {"x": "("})])]
    )

    assert judged[NAME].status is MetricStatus.ERROR
    assert "'('" in judged[NAME].reason
    assert judged["latency"].score == 0.25


async def test_more_calls_than_rules_can_compare_are_an_error(config: Any, judge: Any, turn: Any) -> None:
    criteria = {NAME: {"threshold": 1, "match_type": "ANY_ORDER", "args_match": "exact"}, "trajectory_recall": 1}
    calls = ["f"] * 1001

    judged = await judge(config(criteria), actual=[turn(calls=calls)], expected=[turn(calls=calls)])

    assert "cannot compare 1,001 calls with 1,001" in judged[NAME].reason
    assert judged["trajectory_recall"].score == 1.0


@pytest.mark.parametrize(
    ("options", "place", "expected"),
    [
        ({"args_match": "sub"}, "args_match.default", "superset"),
        ({"args_match": 3}, "args_match", "a mode"),
        ({"args_match": {"tool": {}}}, "args_match.tool", "tools"),
        ({"args_match": {"tools": []}}, "args_match.tools", "an object"),
        ({"args_match": {"tools": {"f": {"mode": "near"}}}}, "args_match.tools.f.mode", "exact"),
        ({"args_match": {"tools": {"f": {"args": {}}}}}, "args_match.tools.f.args", "arguments"),
        ({"args_match": {"tools": {"f": {"arguments": {"x": "fuzzy"}}}}}, "args_match.tools.f.arguments.x", "regex"),
        (
            {"args_match": {"tools": {"f": {"arguments": {"x": {"regex": "("}}}}}},
            "args_match.tools.f.arguments.x.regex",
            "a regular expression",
        ),
        (
            {"args_match": {"default": {"arguments": {"x": {"absolute": -1}}}}},
            "args_match.default.arguments.x.absolute",
            "at least 0",
        ),
        ({"args_match": "exact", "ignore_args": True}, "args_match", "one of them"),
        ({"match_type": "IN_ANY"}, "match_type", "EXACT, IN_ORDER, ANY_ORDER"),
        ({"match_type": True}, "match_type", "EXACT"),
        ({"ignore_args": "yes"}, "ignore_args", "true or false"),
        ({"ignore_arg": True}, "ignore_arg", "'ignore_args'"),
    ],
)
def test_a_wrong_option_is_named_with_its_place(options: Any, place: str, expected: str, config: Any) -> None:
    (problem,) = check_criteria(config({NAME: {"threshold": 1, **options}}, check=False))

    assert problem.place == f"criteria.{NAME}.{place}"
    assert expected in problem.expected
