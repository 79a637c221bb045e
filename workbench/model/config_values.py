"""Reading values of a configuration: what is wrong is said with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.model.text import shorten

_LONGEST_PART = 300
"""How many characters of a key or value from a file a message repeats."""


class InvalidConfig(ValueError):
    """A value of a configuration that cannot be used.

    `place` is the JSON path of the value, such as `criteria.response_match_score.threshold`.
    """

    def __init__(self, *, place: str, found: str, expected: str) -> None:
        found, expected = shorten(found, _LONGEST_PART), shorten(expected, _LONGEST_PART)
        super().__init__(f"{shorten(place, _LONGEST_PART)}: found {found}, expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


def object_in(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The object under one of these keys, empty where there is none. Raises InvalidConfig for any other value."""
    value = member(data, *names)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidConfig(place=names[0], found=kind_of(value), expected="an object")
    return value


def member(data: Mapping[str, Any], *names: str) -> Any:
    """The value under the first of these keys that is there."""
    return next((data[name] for name in names if name in data), None)


def kind_of(value: Any) -> str:
    """What a value is, in the words of JSON, short enough for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
