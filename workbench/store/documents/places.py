"""Places in a JSON document: how they are written for people, and where they are in the text.

A place is a tuple of keys and indexes. A key of the format may be given in either style and is found in either
(`user_content`, `userContent`); below values that belong to the user (arguments, states) keys are found as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from workbench.store.documents.adk_schema import FORMAT_FIELDS
from workbench.store.documents.jsontext import decode_at, skip_space

Place = tuple[str | int, ...]

_FREE_FIELDS = frozenset(
    {"args", "response", "state", "final_session_state", "tool_declarations", "agent_details", "custom_metadata"}
)
"""Fields of the format below which keys are the user's own."""

_LINE_END = re.compile(r"\n")
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
_STEP = re.compile(r"""\[(\d+)\]|\["(.*?)"\]|([^.\[\]]+)""")
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SNAKE_STEP = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


class Member(NamedTuple):
    """A member of an object or an element of a list: offsets of its key (-1 for elements) and of its value."""

    key: str | int
    key_start: int
    start: int
    end: int


def format_place(place: Place) -> str:
    """The place as `eval_cases[3].conversation[0].user_content`; keys that are no words stand as `["a key"]`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def parse_place(text: str) -> Place:
    """The place that `format_place` wrote; words in parentheses, such as `(top level)`, stand for the whole file."""
    if text.startswith("("):
        return ()
    steps: list[str | int] = []
    for match in _STEP.finditer(text):
        index, quoted, key = match.groups()
        steps.append(int(index) if index is not None else (quoted if quoted is not None else key))
    return tuple(steps)


@lru_cache(maxsize=1024)
def to_snake(key: str) -> str:
    """The key in snake_case."""
    return _CAMEL_HUMP.sub(lambda match: "_" + match.group(1).lower(), key)


@lru_cache(maxsize=1024)
def to_camel(key: str) -> str:
    """The key in camelCase."""
    return _SNAKE_STEP.sub(lambda match: match.group(1).upper(), key)


def is_format_key(key: str) -> bool:
    """Whether a key, in either style, is one that the format defines."""
    return to_snake(key) in FORMAT_FIELDS


def is_free(key: str | int) -> bool:
    """Whether what lies below this key belongs to the user, as below all keys that the format does not define."""
    return isinstance(key, str) and (to_snake(key) in _FREE_FIELDS or not is_format_key(key))


def same_key(key: str, other: str, *, free: bool) -> bool:
    """Whether two keys name the same field: the same text or, for a field of the format, the other style."""
    return key == other or (not free and is_format_key(key) and to_snake(key) == to_snake(other))


def find_key(keys: Mapping[str, Any], key: str, *, free: bool) -> str | None:
    """The spelling under which an object has a key, None where it has none."""
    if key in keys:
        return key
    if free or not is_format_key(key):
        return None
    wanted = to_snake(key)
    return next((name for name in keys if to_snake(name) == wanted), None)


def members(text: str, start: int) -> tuple[list[Member], int]:
    """The members of the object or list whose bracket is at `start`, and the offset of its closing bracket.

    The text is strict (masked) JSON; raises BrokenJson otherwise.
    """
    found: list[Member] = []
    is_object = text[start] == "{"
    position = skip_space(text, start + 1)
    while text[position] not in "]}":
        key: str | int = len(found)
        key_start = -1
        if is_object:
            key_start = position
            key, position = decode_at(text, position)
            position = skip_space(text, skip_space(text, position) + 1)
        end = decode_at(text, position).end
        found.append(Member(key, key_start, position, end))
        position = skip_space(text, end)
        if text[position] == ",":
            position = skip_space(text, position + 1)
    return found, position


def member_at(found: list[Member], step: str | int, *, free: bool) -> Member | None:
    """The member that a step of a place names. Of keys that stand twice the last counts, as for every JSON reader."""
    if isinstance(step, int):
        return found[step] if -1 < step < len(found) and found[step].key_start < 0 else None
    exact = [member for member in found if member.key == step]
    if exact:
        return exact[-1]
    alike = [member for member in found if isinstance(member.key, str) and same_key(member.key, step, free=free)]
    return alike[-1] if alike else None


def locate(text: str, place: Place) -> int:
    """The offset of the value at a place or, where it is absent, of the nearest one above it that is there."""
    return Locator(text).offset_of(place)


class Position(NamedTuple):
    """A place in a text for people: line and column in characters, both from 1."""

    line: int
    column: int


class Locator:
    """Finds places in one text; what it has looked through is kept, as a text may have thousands of faults."""

    def __init__(self, text: str) -> None:
        """The text must be strict (masked) JSON, but for `position_at`."""
        self._text = text
        self._members: dict[int, dict[str | int, Member]] = {}  # by the offset of their object or list

    def offset_of(self, place: Place) -> int:
        """The offset of the value at a place or, where it is absent, of the nearest one above it that is there."""
        position = skip_space(self._text, 0)
        free = False
        for step in place:
            if self._text[position : position + 1] not in ("{", "["):
                return position
            member = self._member(position, step, free=free)
            if member is None:
                return position
            position = member.start
            free = free or is_free(step)
        return position

    def position_at(self, offset: int) -> Position:
        """The line and column of an offset."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def position_of(self, place: Place) -> Position:
        """The line and column of a place, as `offset_of` finds it."""
        return self.position_at(self.offset_of(place))

    def _member(self, start: int, step: str | int, *, free: bool) -> Member | None:
        found = self._members.get(start)
        if found is None:  # of keys that occur twice the last counts, as for every JSON reader
            found = self._members[start] = {member.key: member for member in members(self._text, start)[0]}
        return found.get(step) or member_at(list(found.values()), step, free=free)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self._text))]


def positions_of(text: str, offsets: Iterable[int]) -> Iterator[Position]:
    """The lines and columns of offsets in ascending order, in one pass over the text."""
    line, line_start, last = 1, 0, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        line_start = max(line_start, text.rfind("\n", last, offset) + 1)
        last = offset
        yield Position(line, offset - line_start + 1)


def position_of(text: str, offset: int) -> Position:
    """The line and column of an offset."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
