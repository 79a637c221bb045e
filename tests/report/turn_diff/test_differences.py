"""Differences between two turns, per call and argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.model.evalset import Invocation
from workbench.model.trace import ToolCall
from workbench.model.turn_diff import (
    Difference,
    DifferenceKind,
    align,
    find_call_differences,
    find_differences,
    find_state_differences,
)
from workbench.report.text_report import describe_difference

CALLS = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from("abc"),
        st.one_of(st.none(), st.dictionaries(st.sampled_from("xy"), st.integers(0, 2))),
    ),
    max_size=7,
)


def parse_calls(text: str) -> list[ToolCall]:
    """Parse calls: `a1 b` is a call of a with x=1 and one of b without arguments."""
    return [ToolCall(word[0], {"x": int(word[1:])} if word[1:] else {}) for word in text.split()]


def describe_differences(expected: str, actual: str) -> list[str]:
    found = find_call_differences(parse_calls(expected), parse_calls(actual))
    return [f"{d.kind.value} {d.tool}" + (f" {d.expected}>{d.actual}" if d.path else "") for d in found]


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ("a1 b", "a1 b", []),
        ("a1", "a2", ["argument_changed a 1>2"]),
        ("a1 b", "a1", ["call_missing b"]),
        ("a1", "a1 b", ["call_extra b"]),
        ("a b", "b a", ["call_moved a"]),
        ("a1 a2", "a2", ["call_missing a"]),
        ("a1 b c3", "a1 c4", ["call_missing b", "argument_changed c 3>4"]),
        ("a", "b", ["call_missing a", "call_extra b"]),
        ("", "a b", ["call_extra a", "call_extra b"]),
        ("a", "a1", ["argument_extra a None>1"]),
        ("a1", "a", ["argument_missing a 1>None"]),
    ],
)
def test_calls_are_aligned_at_the_least_cost(expected: str, actual: str, found: list[str]) -> None:
    assert describe_differences(expected, actual) == found


def test_a_moved_call_has_both_positions() -> None:
    (moved,) = find_call_differences(parse_calls("a1 b c"), parse_calls("b c a1"))

    assert (moved.kind, moved.expected_call, moved.actual_call) == (DifferenceKind.CALL_MOVED, 0, 2)


def test_nested_arguments_are_compared_value_by_value() -> None:
    expected = [ToolCall("f", {"updates": {"on": [1, 2], "off": 3}, "list": [1]})]
    actual = [ToolCall("f", {"updates": {"on": [1, 5], "off": 3}, "list": [1, 2]})]

    assert [(d.path, d.expected, d.actual) for d in find_call_differences(expected, actual)] == [
        (("updates", "on", 1), 2, 5),
        (("list",), [1], [1, 2]),
    ]


def test_absent_arguments_differ_from_an_empty_object_as_in_adk() -> None:
    (found,) = find_call_differences([ToolCall("f", None)], [ToolCall("f", {})])

    assert (found.kind, found.path, found.expected, found.actual) == (DifferenceKind.ARGUMENT_CHANGED, (), None, {})


def test_a_response_differs_only_if_one_was_expected(make_invocation: Callable[..., Invocation]) -> None:
    given_response = make_invocation(response="bye")

    assert find_differences(make_invocation(response=None), given_response) == ()
    assert find_differences(make_invocation(response="hello"), given_response) == (
        Difference(kind=DifferenceKind.RESPONSE_CHANGED, expected="hello", actual="bye"),
    )
    assert find_differences(make_invocation(response="hello"), make_invocation(response=None))[0].actual is None


def test_additional_keys_of_the_actual_state_are_not_a_difference() -> None:
    found = find_state_differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}, "more": 4})

    assert [(d.path, d.expected, d.actual) for d in found] == [(("b", "c"), 2, 3)]


def test_a_missing_key_of_the_state_is_not_described_as_null() -> None:
    (missing,) = find_state_differences({"z": None}, {})

    assert describe_difference(missing) == "state z: expected null, got no value"


def test_texts_that_differ_in_blanks_only_are_described_differently() -> None:
    (changed,) = find_state_differences({"z": "a  b"}, {"z": "a b"})

    assert describe_difference(changed) == 'state z: expected "a \\u0020b", got "a b"'


@given(CALLS, CALLS)
def test_no_call_is_lost_or_counted_twice(expected: list[ToolCall], actual: list[ToolCall]) -> None:
    rows = align(expected, actual)

    assert [row.expected for row in rows if row.expected is not None] == list(range(len(expected)))
    assert [row.actual for row in rows if row.actual is not None] == list(range(len(actual)))
    assert all(
        expected[row.expected].name == actual[row.actual].name
        for row in rows
        if row.expected is not None and row.actual is not None
    )


@given(CALLS, CALLS)
def test_calls_have_no_differences_if_and_only_if_they_are_equal(
    expected: list[ToolCall], actual: list[ToolCall]
) -> None:
    assert (not list(find_call_differences(expected, actual))) == (expected == actual)


def test_thousands_of_calls_are_aligned_by_their_common_calls() -> None:
    expected: list[Any] = [ToolCall("step", {"n": n}) for n in range(3000)]
    actual = [
        *expected[:1500],
        ToolCall("odd", {}),
        *expected[1500:2990],
        ToolCall("step", {"n": -1}),
        *expected[2991:],
    ]

    found = list(find_call_differences(expected, actual))

    assert [d.kind for d in found] == [DifferenceKind.CALL_EXTRA, DifferenceKind.ARGUMENT_CHANGED]
