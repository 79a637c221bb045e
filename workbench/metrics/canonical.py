"""Canonical form of JSON values: equal values have equal, hashable forms.

Key order does not matter, list order does. Numbers are compared by value (1 is 1.0: what sends arguments as protocol
buffers makes floats of integers), booleans are no numbers, texts are compared code point by code point, and NaN equals
itself. Arguments that are absent are the same as an empty object.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from workbench.model.trajectory import ToolCall

_NO_ARGUMENTS = ("{",)
_AS_THEY_ARE = frozenset({str, int, type(None)})


def canonical(value: Any) -> Hashable:
    """The canonical form of a JSON value. Objects, lists and booleans become tagged tuples, which no other value is."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, dict):
        # Sorted by keys alone: values of different kinds have no order. What most values are takes no call each.
        return (
            "{",
            *[(key, item if type(item := value[key]) in _AS_THEY_ARE else canonical(item)) for key in sorted(value)],
        )
    if isinstance(value, list | tuple):
        return ("[", *map(canonical, value))
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    return value  # type: ignore[no-any-return]


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal in canonical form."""
    return canonical(left) == canonical(right)


def call_key(call: ToolCall) -> tuple[str, Hashable]:
    """The canonical form of a tool call: its name and its arguments."""
    return (call.name, canonical(call.args) if call.args else _NO_ARGUMENTS)
