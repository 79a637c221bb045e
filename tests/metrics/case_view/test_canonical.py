"""Equality of tool calls, independent of the order of comparison."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.case_view import call_key
from workbench.model.trace import ToolCall

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5, math.nan, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)


def is_equal(left: Any, right: Any) -> bool:
    """Compare by the definition, without canonical forms."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


@given(arguments, arguments)
def test_calls_are_equal_exactly_if_their_arguments_are_equal(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert (call_key(ToolCall("f", left)) == call_key(ToolCall("f", right))) == is_equal(left, right)
    assert call_key(ToolCall("f", left)) == call_key(ToolCall("f", dict(reversed(left.items()))))
    assert call_key(ToolCall("f", left)) != call_key(ToolCall("g", left))


@pytest.mark.parametrize("size", [10, 100_000])
def test_short_and_long_arguments_are_compared_by_the_same_rules(size: int) -> None:
    text = "x" * size

    assert call_key(ToolCall("f", {"text": text, "n": 1})) == call_key(ToolCall("f", {"n": 1.0, "text": text}))
    assert call_key(ToolCall("f", {"text": text, "n": 1})) != call_key(ToolCall("f", {"n": True, "text": text}))
    assert call_key(ToolCall("f", {"text": text})) != call_key(ToolCall("f", {"text": text + "y"}))
