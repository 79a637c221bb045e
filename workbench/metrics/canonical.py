"""Canonical form of JSON values: equal values have equal, hashable forms.

Key order does not matter, list order does. Numbers are compared by value (1 is 1.0: what sends arguments as protocol
buffers makes floats of integers), booleans are no numbers, texts are compared code point by code point, and NaN equals
itself. Arguments that are absent are the same as an empty object.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Hashable
from typing import Any

from workbench.model.trajectory import ToolCall

_NO_ARGUMENTS = ("{",)
_AS_THEY_ARE = frozenset({str, int, type(None)})


def canonical(value: Any) -> Hashable:
    """The canonical form of a JSON value. Objects, lists and booleans become tagged tuples, which no other value is."""
    if isinstance(value, dict):
        # No two items have the same key, so that values, of which those of different kinds have no order, are never
        # compared. What most values are takes no call each.
        items = sorted(value.items())
        if _AS_THEY_ARE.issuperset(map(type, value.values())):
            return ("{", *items)
        return ("{", *[(key, item if type(item) in _AS_THEY_ARE else canonical(item)) for key, item in items])
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("b", value)
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
    return (call.name, _canonical_arguments(call.args) if call.args else _NO_ARGUMENTS)


_known: dict[bytes, Hashable] = {}
_KNOWN_AT_MOST = 4096
_SHORT = 1_000  # bytes
_STABLE = 2  # the version of the format without references, which depend on more than the values


def _canonical_arguments(args: Any) -> Hashable:
    """As `canonical`, which is asked once for arguments that come again and again.

    Most calls that are made were expected with the same arguments, and to tell that takes half as long.
    """
    try:
        written = marshal.dumps(args, _STABLE)
    except ValueError:  # nested deeply, or of types that are not JSON's
        return canonical(args)
    if len(written) > _SHORT:
        return canonical(args)
    known = _known.get(written)
    if known is None:
        if len(_known) >= _KNOWN_AT_MOST:
            _known.clear()
        known = _known[written] = canonical(args)
    return known
