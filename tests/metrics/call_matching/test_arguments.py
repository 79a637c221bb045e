"""Argument rules by tool: the option `args_match`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workbench.metrics import call_matching
from workbench.metrics.registry import check_criteria
from workbench.model.results import MetricStatus

NAME = "tool_trajectory_avg_score"
EXPECTED = {"location": "Bedroom", "temperature": 20, "tags": ["a", "b"], "options": {"fan": "on", "mode": 1}}


@pytest.fixture
def match(config: Any, judge: Any, turn: Any) -> Any:
    async def run(args_match: Any, actual: list[Any], expected: list[Any], *, match_type: str = "EXACT") -> float:
        criteria = {NAME: {"threshold": 1.0, "match_type": match_type, "args_match": args_match}}
        results = await judge(config(criteria), actual=[turn(calls=actual)], expected=[turn(calls=expected)])
        assert results[NAME].status is not MetricStatus.ERROR, results[NAME].reason
        return results[NAME].score

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
async def test_each_mode_compares_arguments_by_its_rule(mode: str, actual: Any, fits: bool, match: Any) -> None:
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
async def test_a_rule_for_one_argument_decides_whether_it_fits(
    argument: str, rule: Any, value: Any, fits: bool, match: Any
) -> None:
    args_match = {"tools": {"set": {"arguments": {argument: rule}}}}

    assert await match(args_match, [("set", {**EXPECTED, argument: value})], [("set", EXPECTED)]) == fits


async def test_the_rule_ignore_allows_a_missing_argument_and_any_does_not(match: Any) -> None:
    incomplete = {key: value for key, value in EXPECTED.items() if key != "tags"}

    for rule, fits in (("ignore", True), ("any", False)):
        args_match = {"default": {"arguments": {"tags": rule}}}
        assert await match(args_match, [("set", incomplete)], [("set", EXPECTED)]) == fits


async def test_the_rule_of_a_tool_takes_precedence_over_the_default(match: Any) -> None:
    args_match = {"default": "ignore", "tools": {"set": "exact"}}

    assert await match(args_match, [("set", {"x": 1}), ("log", {"y": 1})], [("set", {"x": 1}), ("log", {})]) == 1.0
    assert await match(args_match, [("set", {"x": 2}), ("log", {"y": 1})], [("set", {"x": 1}), ("log", {})]) == 0.0


@pytest.mark.parametrize(
    ("names", "actual", "expected", "fits"),
    [
        (["x"], {"x": 1, "y": 1}, {"x": 1, "y": 2}, True),
        (["x"], {"x": 2, "y": 1}, {"x": 1, "y": 1}, False),
        (["x"], {"x": 1}, {}, False),
        (["x"], {"x": None, "y": 1}, {"y": 2}, True),
        (["t.start", "x"], {"t": {"start": 1, "end": 2}}, {"t": {"start": 1}}, True),
        (["t.start"], {"t": {"start": 1}}, {"t": {"start": 2}}, False),
        (["t.start"], {"t.start": 1}, {"t.start": 1, "x": 1}, True),
    ],
)
async def test_a_list_of_names_compares_only_these_arguments(
    names: list[str], actual: Any, expected: Any, fits: bool, match: Any
) -> None:
    assert await match({"tools": {"f": names}}, [("f", actual)], [("f", expected)]) == fits


async def test_a_rule_treats_absent_arguments_as_empty(match: Any) -> None:
    assert await match("exact", [("f", None)], [("f", {})]) == 1.0


async def test_calls_get_the_best_assignment_not_a_greedy_one(match: Any) -> None:
    """The first expected call fits both actual calls, the second only one. A greedy choice would fail."""
    expected = [("f", {"x": 1}), ("f", {"x": 1, "y": 2})]
    actual = [("f", {"x": 1, "y": 2}), ("f", {"x": 1, "z": 3})]

    assert await match("superset", actual, expected, match_type="ANY_ORDER") == 1.0
    assert await match("superset", list(reversed(actual)), expected, match_type="ANY_ORDER") == 1.0
    assert await match("superset", list(reversed(actual)), expected, match_type="IN_ORDER") == 1.0
    assert await match("superset", actual, expected, match_type="IN_ORDER") == 0.0


async def test_argument_rules_apply_to_recall(config: Any, judge: Any, turn: Any) -> None:
    criteria = {"trajectory_recall": {"args_match": {"tools": {"f": {"arguments": {"x": {"absolute": 1}}}}}}}

    results = await judge(
        config(criteria),
        actual=[turn(calls=[("f", {"x": 1}), ("f", {"x": 3})])],
        expected=[turn(calls=[("f", {"x": 2}), ("f", {"x": 0})])],
    )

    assert results["trajectory_recall"].score == 1.0


async def test_an_expected_value_that_is_not_a_pattern_is_an_error_of_the_metric(
    config: Any, judge: Any, turn: Any
) -> None:
    criteria = {NAME: {"threshold": 1, "args_match": {"default": {"arguments": {"x": "regex"}}}}}

    results = await judge(
        config(criteria), actual=[turn(calls=[("f", {"x": "a"})])], expected=[turn(calls=[("f", {"x": "("})])]
    )

    assert results[NAME].status is MetricStatus.ERROR
    assert "'('" in results[NAME].reason
    assert results["latency"].score == 0.25


async def test_too_many_calls_to_compare_by_rules_are_an_error(config: Any, judge: Any, turn: Any) -> None:
    criteria = {NAME: {"threshold": 1, "match_type": "ANY_ORDER", "args_match": "exact"}, "trajectory_recall": 1}
    calls = ["f"] * 1001

    results = await judge(config(criteria), actual=[turn(calls=calls)], expected=[turn(calls=calls)])

    assert "cannot compare 1,001 calls with 1,001" in results[NAME].reason
    assert results["trajectory_recall"].score == 1.0


@pytest.mark.parametrize(
    ("options", "place", "expected"),
    [
        ({"args_match": "sub"}, "args_match.default", "superset"),
        ({"args_match": 3}, "args_match", "a mode"),
        ({"args_match": {"tool": {}}}, "args_match.tool", "tools"),
        ({"args_match": {"tools": []}}, "args_match.tools", "an object"),
        ({"args_match": {"tools": {"f": {"mode": "near"}}}}, "args_match.tools.f.mode", "exact"),
        ({"args_match": {"tools": {"f": []}}}, "args_match.tools.f", "names of arguments"),
        ({"args_match": {"tools": {"f": ["x", 1]}}}, "args_match.tools.f", "names of arguments"),
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
def test_a_wrong_option_is_reported_with_its_place(options: Any, place: str, expected: str, config: Any) -> None:
    (problem,) = check_criteria(config({NAME: {"threshold": 1, **options}}, check=False))

    assert problem.place == f"criteria.{NAME}.{place}"
    assert expected in problem.expected


TIME = {"time": {"start": 9, "end": 10}, "room": "hall"}


@pytest.mark.parametrize(
    ("rule", "actual", "fits"),
    [
        ({"arguments": {"time.start": "any"}}, {"time": {"start": 8, "end": 10}, "room": "hall"}, True),
        ({"arguments": {"time.start": "any"}}, {"time": {"start": 9, "end": 11}, "room": "hall"}, False),
        ({"arguments": {"time.start": "any"}}, {"time": {"end": 10}, "room": "hall"}, False),
        ({"arguments": {"time.start": "ignore"}}, {"time": {"end": 10}, "room": "hall"}, True),
        ({"arguments": {"time.start": {"absolute": 1}}}, {"time": {"start": 10, "end": 10}, "room": "hall"}, True),
        ({"arguments": {"time.start": {"absolute": 1}}}, {"time": {"start": 12, "end": 10}, "room": "hall"}, False),
        ({"mode": "ignore", "arguments": {"time.start": "exact"}}, {"time": {"start": 9}}, True),
        ({"mode": "ignore", "arguments": {"time.start": "exact"}}, {"time": {"start": 8}, "room": "hall"}, False),
        ({"arguments": {"time": "ignore", "time.start": "exact"}}, {"time": {"start": 9}, "room": "hall"}, True),
        ({"arguments": {"time": "ignore", "time.start": "exact"}}, {"time": {"start": 8}, "room": "hall"}, False),
        ({"arguments": {"time.start": "ignore", "time.end": "ignore"}}, {"room": "hall"}, True),
    ],
)
async def test_a_dotted_name_is_a_path_into_objects(rule: Any, actual: Any, fits: bool, match: Any) -> None:
    assert await match({"tools": {"set": rule}}, [("set", actual)], [("set", TIME)]) == fits


async def test_an_argument_with_a_dotted_name_takes_precedence_over_the_path(match: Any) -> None:
    rule = {"tools": {"set": {"arguments": {"a.b": {"absolute": 1}}}}}

    assert await match(rule, [("set", {"a.b": 2, "a": {"b": 5}})], [("set", {"a.b": 1, "a": {"b": 5}})]) == 1.0
    assert await match(rule, [("set", {"a.b": 2, "a": {"b": 6}})], [("set", {"a.b": 1, "a": {"b": 5}})]) == 0.0


def _add_declaration(invocation: Any, schema: Any, name: str = "set") -> Any:
    tools = [{"function_declarations": [{"name": name, "parameters": schema}]}]
    details = {"agent_details": {"home": {"name": "home", "tool_declarations": tools}}}
    return invocation.model_copy(update={"app_details": details})


@pytest.fixture
def judge_rule(config: Any, judge: Any, turn: Any) -> Any:
    """Judge one call of `set` by a rule; `schema` declares its arguments."""

    async def run(rule: Any, actual: Any, expected: Any, *, schema: Any = None) -> Any:
        criteria = {NAME: {"threshold": 1.0, "args_match": {"tools": {"set": rule}}}}
        actual_turn = turn(calls=[("set", actual)])
        actual_turn = actual_turn if schema is None else _add_declaration(actual_turn, schema)
        return (await judge(config(criteria), actual=[actual_turn], expected=[turn(calls=[("set", expected)])]))[NAME]

    return run


@pytest.mark.parametrize("name", ["tiem", "time.strat"])
async def test_rules_that_compare_nothing_are_an_error(name: str, judge_rule: Any) -> None:
    result = await judge_rule({"mode": "ignore", "arguments": {name: "exact"}}, {"time": {"start": 1}}, TIME)

    assert result.status is MetricStatus.ERROR
    assert result.score is None
    assert f"args_match.tools.set compares nothing: no call has {name!r}" in result.reason
    assert "did you mean 'time" in result.reason


async def test_an_argument_name_that_no_call_has_is_reported(judge_rule: Any) -> None:
    result = await judge_rule({"arguments": {"time.strat": {"absolute": 1}}}, TIME, TIME)

    assert result.status is MetricStatus.PASSED
    assert result.hint == (
        "args_match.tools.set.arguments.time.strat: no call has this argument; did you mean 'time.start'?"
    )


@pytest.mark.parametrize("name", ["request_id", "tiem.start"])
@pytest.mark.parametrize("passes", [True, False])
async def test_an_ignored_argument_that_no_call_has_is_reported(name: str, passes: bool, judge_rule: Any) -> None:
    result = await judge_rule({"arguments": {name: "ignore"}}, TIME if passes else {"room": "hall"}, TIME)

    assert result.status is (MetricStatus.PASSED if passes else MetricStatus.FAILED)
    assert f"{name}: no call has this argument" in result.hint


async def test_an_ignored_argument_that_only_one_call_has_is_not_reported(judge_rule: Any) -> None:
    result = await judge_rule({"arguments": {"request_id": "ignore"}}, {**TIME, "request_id": 7}, TIME)

    assert result.status is MetricStatus.PASSED
    assert result.hint is None


@pytest.mark.parametrize(
    ("name", "is_declared"), [("limit", True), ("time.start", True), ("limt", False), ("time.x", False)]
)
async def test_the_declaration_of_a_tool_defines_its_arguments(name: str, is_declared: bool, judge_rule: Any) -> None:
    time = {"type": "OBJECT", "properties": {"start": {"type": "STRING"}}}
    schema = {"type": "OBJECT", "properties": {"limit": {"type": "INTEGER"}, "time": time}}

    result = await judge_rule({"arguments": {name: "any"}}, {"room": "x"}, {"room": "x"}, schema=schema)

    assert result.hint is None
    assert result.status is (MetricStatus.PASSED if is_declared else MetricStatus.ERROR)
    assert is_declared or f"args_match.tools.set.arguments.{name}: the tool has no such argument" in result.reason


async def test_an_open_schema_declares_every_argument(judge_rule: Any) -> None:
    schema = {"type": "OBJECT", "properties": {"filter": {"type": "OBJECT"}}}

    assert (await judge_rule({"arguments": {"filter.x": "any"}}, {}, {}, schema=schema)).hint is None


async def test_a_name_that_neither_an_open_schema_nor_a_call_has_is_reported(judge_rule: Any) -> None:
    schema = {"type": "OBJECT", "properties": {"filter": {"type": "OBJECT"}}}
    call = {"filter": {"color": "red"}}

    known = await judge_rule({"arguments": {"filter.color": "any"}}, call, call, schema=schema)
    unknown = await judge_rule({"arguments": {"filter.colour": "any"}}, call, call, schema=schema)

    assert known.hint is None
    assert unknown.status is MetricStatus.PASSED
    assert unknown.hint == (
        "args_match.tools.set.arguments.filter.colour: no call has this argument, and the tool does not declare it; "
        "did you mean 'filter.color'?"
    )


@pytest.mark.parametrize("kind", ["INTEGER", "string", ["integer", "null"]])
async def test_a_path_into_a_declared_scalar_is_refused(judge_rule: Any, kind: Any) -> None:
    schema = {"type": "OBJECT", "properties": {"sides": {"type": kind}}}

    result = await judge_rule({"arguments": {"sides.x": "any"}}, {"sides": 6}, {"sides": 6}, schema=schema)

    assert result.status is MetricStatus.ERROR
    assert "args_match.tools.set.arguments.sides.x: the tool has no such argument" in result.reason


async def test_a_misspelt_tool_is_reported(config: Any, judge: Any, turn: Any) -> None:
    rules = {"tools": {"serach": "ignore", "unrelated": "ignore"}}
    calls = [turn(calls=[("search", {"x": 1})])]

    results = await judge(config({NAME: {"threshold": 1, "args_match": rules}}), actual=calls, expected=calls)

    assert results[NAME].hint == "args_match.tools.serach: no tool of this name was called; did you mean 'search'?"


@pytest.mark.parametrize("rule", ["regex", {"regex": "(a+)+$"}])
async def test_nested_repetitions_in_a_pattern_do_not_block(rule: Any, match: Any) -> None:
    args_match = {"default": {"arguments": {"x": rule}}}

    assert await match(args_match, [("f", {"x": "a" * 40 + "!"})], [("f", {"x": "(a+)+$"})]) == 0.0


async def test_a_slow_pattern_is_an_error_and_does_not_block_the_event_loop(config: Any, judge: Any, turn: Any) -> None:
    criteria = {NAME: {"threshold": 1, "args_match": {"default": {"arguments": {"x": "regex"}}}}}
    actual, expected = [turn(calls=[("f", {"x": "a" * 80 + "!"})])], [turn(calls=[("f", {"x": "(a|aa)+$"})])]
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.001)

    heart = asyncio.create_task(beat())
    results = await judge(config(criteria), actual=actual, expected=expected)
    heart.cancel()

    assert results[NAME].status is MetricStatus.ERROR
    assert "'(a|aa)+$' needs more than" in results[NAME].reason
    assert beats > 20


@pytest.mark.parametrize("pattern", [r"(?<=a)b(?!c)|(\w)\1", "(" * 2000, "a" * 20_000, r"\L<x>"])
def test_patterns_have_the_syntax_of_python(pattern: str, config: Any) -> None:
    criteria = {NAME: {"threshold": 1, "args_match": {"default": {"arguments": {"x": {"regex": pattern}}}}}}

    problems = check_criteria(config(criteria, check=False))

    assert (not problems) == pattern.startswith("(?<=a)")


async def test_comparing_the_calls_of_a_turn_has_a_time_limit(
    config: Any, judge: Any, turn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_matching, "SECONDS_AT_MOST", 0.0)
    calls = [turn(calls=[("f", {"x": "a"})] * 3)]

    results = await judge(config({NAME: {"threshold": 1, "args_match": "exact"}}), actual=calls, expected=calls)

    assert "to compare the calls of one turn" in results[NAME].reason
