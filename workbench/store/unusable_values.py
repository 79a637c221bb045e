"""Values that a file can hold and nothing else: half of a surrogate pair, which has no UTF-8, and huge integers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

HALF_PAIR = re.compile("[\ud800-\udfff]")
# Two patterns: to look for either at every place takes five times as long as to look for one and then for the other.
_SUSPECTS = (re.compile(r"\\u[dD][89a-fA-F]"), re.compile(r"[0-9]{309}"))
_LARGEST = int(1.7976931348623157e308)


class Unusable(NamedTuple):
    """A value at a place of the data that cannot be used, in the words of a message."""

    place: tuple[str | int, ...]
    found: str
    expected: str


def may_be_unusable(text: str) -> bool:
    """Whether the text of a JSON or TOML file may hold such values: most do not, and need not be searched."""
    return any(suspect.search(text) for suspect in _SUSPECTS)


def find_unusable(data: Any, place: tuple[str | int, ...] = ()) -> Iterator[Unusable]:
    """Such values in the data of a file, in its order."""
    if isinstance(data, str):
        if HALF_PAIR.search(data):
            yield Unusable(place, "half of a surrogate pair", "whole characters")
    elif isinstance(data, dict):
        for key, value in data.items():
            if HALF_PAIR.search(key):
                yield Unusable(place, "half of a surrogate pair in a key", "whole characters")
            yield from find_unusable(value, (*place, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from find_unusable(item, (*place, index))
    elif isinstance(data, int) and abs(data) > _LARGEST:
        digits = int(math.log10(abs(data) >> 64) + 64 * math.log10(2)) + 1
        yield Unusable(place, f"an integer of about {digits} digits", "one of at most 308 digits")
