"""The rows of the editor: each stands for one value of a case, or for a part of it that holds others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel, to_snake

from workbench.tui.state.spelling import spelling_of

Place = tuple[str | int, ...]
"""Where a value is, counted from the case (or from the set): keys as the file spells them, and indexes."""


class Kind(StrEnum):
    """What a row stands for, which decides what can be added to it."""

    TURN = "turn"
    CONTENT = "content"
    PART = "part"
    CALL = "call"
    TOOL_RESPONSE = "tool response"
    MESSAGE = "sub-agent message"
    EVENT = "event"
    RUBRIC = "rubric"
    SESSION = "session"
    STATE = "state"
    SCENARIO = "scenario"
    PERSONA = "persona"
    BEHAVIOUR = "behaviour"
    FIELD = "field"  # a value that the format defines
    FREE = "free"  # a value that belongs to the user: an argument, a state key, a field that nobody knows


class Input(StrEnum):
    """How a value is typed."""

    LINE = "line"  # a text of one line: an id, a name
    TEXT = "text"
    NUMBER = "number"
    VALUE = "value"  # any JSON value, of which the user chooses the type
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the outline.

    `place` is what deleting, duplicating and moving act on. Enter edits `edits`, which may lie deeper: the only text of
    a message, the name of a call. `value` is what is at `edits`, or at `place` where there is nothing to type. `also`
    are the places of values that the label says already, `json` is what is edited as JSON.
    """

    place: Place
    kind: Kind
    depth: int
    label: str
    value: Any
    edits: Place | None = None
    input: Input = Input.JSON
    also: tuple[Place, ...] = ()
    json: Place = ()

    @property
    def is_heading(self) -> bool:
        """Whether the row only holds others."""
        return self.edits is None

    @property
    def is_item(self) -> bool:
        """Whether the row is an item of a list, so that it can be moved."""
        return bool(self.place) and isinstance(self.place[-1], int)

    @property
    def is_key(self) -> bool:
        """Whether the row has a key that belongs to the user, so that it can be renamed."""
        return self.kind is Kind.FREE and bool(self.place) and isinstance(self.place[-1], str)


class Spot(NamedTuple):
    """A value of the case and where it is."""

    value: Any
    place: Place

    def at(self, step: str | int) -> Spot:
        """What is one step below; there must be something."""
        return Spot(self.value[step], (*self.place, step))


class Members:
    """The members of an object, to be taken one by one in the order in which they are shown.

    With `said` only those that are not null: `unsaid` are the places of the others. Some programs write every member
    that an object of the format could have.
    """

    def __init__(self, spot: Spot, *, said: bool = False) -> None:
        self._spot = spot
        self._left = [key for key, value in spot.value.items() if not said or value is not None]
        self.unsaid = tuple((*spot.place, key) for key in spot.value if key not in self._left)

    def __len__(self) -> int:
        return len(self._left)

    def take(self, key: str) -> Spot | None:
        """The member with a key of the format, in either spelling; None where there is none."""
        for spelling in (key, to_camel(key)):
            if spelling in self._left:
                self._left.remove(spelling)
                return self._spot.at(spelling)
        return None

    def rest(self) -> Iterator[Spot]:
        """What was not taken."""
        for key in self._left:
            yield self._spot.at(key)


class _Absent:
    """There is no value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""Stands for a value where there is none; null is a value."""


def found_at(data: Any, place: Place) -> Any:
    """The value at a place, ABSENT where there is none."""
    if not place:
        return data
    held, step = value_at(data, place[:-1]), place[-1]
    if isinstance(held, dict) and isinstance(step, str):
        return held.get(spelling_of(held, step), ABSENT)
    if isinstance(held, list) and isinstance(step, int) and 0 <= step < len(held):
        return held[step]
    return ABSENT


def value_at(data: Any, place: Place) -> Any:
    """The value at a place, None where there is none. Keys of the format are found in either spelling."""
    for step in place:
        if isinstance(data, dict) and isinstance(step, str):
            data = data.get(spelling_of(data, step))
        elif isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data):
            data = data[step]
        else:
            return None
    return data


def spelt(data: Any, place: Place) -> Place:
    """The place with its keys spelt as the data has them, as far as the data reaches."""
    steps: list[str | int] = []
    for index, step in enumerate(place):
        step_there = spelling_of(data, step) if isinstance(data, dict) and isinstance(step, str) else step
        steps.append(step_there)
        data = value_at(data, (step_there,))
        if data is None:
            return (*steps, *place[index + 1 :])
    return tuple(steps)


def folded(place: Place) -> Place:
    """The place in one spelling, for comparing."""
    return tuple(to_snake(step) if isinstance(step, str) else step for step in place)
