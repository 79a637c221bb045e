"""A case as rows: everything in it that can be edited."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel, to_snake

# Keys of the format are written in two styles, `eval_id` and `evalId`; the one that is there is kept.


def spelling_of(written: Container[str], key: str) -> str:
    """The key as it is written there, or as it is given where it is not; of both styles the given one counts."""
    camel = to_camel(key)
    return camel if key not in written and camel in written else key


# The rows of the editor: each stands for one value of a case, or for a part of it that holds others.

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


# Rows of values: single fields of the format, and the user's own JSON key by key.

DEEPEST = 40
"""How many levels of the user's JSON have rows of their own. What is deeper is shown and edited as JSON in one row."""

_WORDS = {
    "creation_timestamp": "created",
    "inline_data": "inline data",
    "file_data": "file",
    "executable_code": "code",
    "code_execution_result": "result of code",
    "app_details": "app details",
    "thought_signature": "thought signature",
}


def field(spot: Spot, *, label: str, depth: int, input: Input) -> Iterator[Row]:
    """A value that the format defines; shown as the user's own JSON where it is of another type than it should be."""
    if _fits(spot.value, input):
        yield Row(
            place=spot.place,
            kind=Kind.FIELD,
            depth=depth,
            label=label,
            value=spot.value,
            edits=spot.place,
            input=input,
            json=spot.place,
        )
    else:
        yield from free(spot, label=label, depth=depth, kind=Kind.FIELD)


def free(spot: Spot, *, label: str | None = None, depth: int, kind: Kind = Kind.FREE, level: int = 0) -> Iterator[Row]:
    """The user's own JSON: an object key by key, a list item by item."""
    value = spot.value
    shown = label if label is not None else label_of(spot.place)
    has_rows = isinstance(value, dict | list) and bool(value) and level < DEEPEST
    yield Row(
        place=spot.place,
        kind=kind,
        depth=depth,
        label=shown,
        value=value,
        edits=None if has_rows else spot.place,
        input=Input.JSON if isinstance(value, dict | list) else Input.VALUE,
        json=spot.place,
    )
    if has_rows:
        yield from members(spot, depth=depth + 1, level=level + 1)


def members(spot: Spot, *, depth: int, level: int = 0) -> Iterator[Row]:
    """What an object or list of the user's holds, without a row for itself."""
    steps: Any = spot.value if isinstance(spot.value, dict) else range(len(spot.value))
    for step in steps:
        yield from free(spot.at(step), depth=depth, level=level)


def texts(spot: Spot, *, label: str, noun: str, depth: int) -> Iterator[Row]:
    """A list of texts, each a row."""
    if not isinstance(spot.value, list) or not spot.value:
        yield from free(spot, label=label, depth=depth, kind=Kind.FIELD)
        return
    for index in range(len(spot.value)):
        yield from field(spot.at(index), label=noun, depth=depth, input=Input.TEXT)


def label_of(place: Place) -> str:
    """What to call a value by its last step: items count from 1."""
    step = place[-1]
    return f"[{step + 1}]" if isinstance(step, int) else _WORDS.get(step, step)


def _fits(value: Any, input: Input) -> bool:
    if input is Input.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


# Rows of messages, and of what an agent did on the way: parts, tool calls, tool responses, sub-agents, events.

_CALL_NAMES = ("name", "tool_name")
_CALL_ARGUMENTS = ("args", "tool_input")


def content(spot: Spot, *, label: str, role: str, depth: int) -> Iterator[Row]:
    """A message. One of a single text is one row; `role` is the one that the label says already."""
    if not isinstance(spot.value, dict):
        kind = Kind.CONTENT if spot.value is None else Kind.FIELD
        yield from free(spot, label=label, depth=depth, kind=kind)
        return
    taken = Members(spot, said=True)
    parts, said_by, rest = taken.take("parts"), taken.take("role"), list(taken.rest())
    is_role_known = said_by is None or said_by.value == role
    also = taken.unsaid if said_by is None or not is_role_known else (*taken.unsaid, said_by.place)
    heading = Row(
        place=spot.place, kind=Kind.CONTENT, depth=depth, label=label, value=spot.value, also=also, json=spot.place
    )
    only = _only_text(parts) if not rest and is_role_known else None
    if only is not None:
        text, unsaid = only
        yield replace(heading, value=text.value, edits=text.place, input=Input.TEXT, also=(*also, *unsaid))
        return
    if parts is not None and parts.value == []:
        heading = replace(heading, also=(*also, parts.place))
    yield heading
    if said_by is not None and not is_role_known:
        yield from field(said_by, label="role", depth=depth + 1, input=Input.LINE)
    if parts is not None and parts.value != []:
        yield from parts_of(parts, depth=depth + 1)
    for spot_of_rest in rest:
        yield from free(spot_of_rest, depth=depth + 1)


def parts_of(spot: Spot, *, depth: int) -> Iterator[Row]:
    """The parts of a message."""
    if not isinstance(spot.value, list) or not spot.value:
        yield from free(spot, label="parts", depth=depth, kind=Kind.FIELD)
        return
    for index in range(len(spot.value)):
        yield from _part(spot.at(index), depth=depth)


def call(spot: Spot, *, depth: int, place: Place | None = None, also: tuple[Place, ...] = ()) -> Iterator[Row]:
    """A tool call: its name, then each argument. `place` is what is deleted with it, the part that it is in."""
    yield from _named(
        spot,
        kind=Kind.CALL,
        label="call",
        names=_CALL_NAMES,
        bodies=_CALL_ARGUMENTS,
        body="arguments",
        depth=depth,
        place=place if place is not None else spot.place,
        also=also,
    )


def tool_response(spot: Spot, *, depth: int, place: Place | None = None, also: tuple[Place, ...] = ()) -> Iterator[Row]:
    """What a tool gave back: its name, then the response key by key."""
    yield from _named(
        spot,
        kind=Kind.TOOL_RESPONSE,
        label="tool response",
        names=("name",),
        bodies=("response",),
        body="response",
        depth=depth,
        place=place if place is not None else spot.place,
        also=also,
    )


def message(spot: Spot, *, depth: int) -> Iterator[Row]:
    """What a sub-agent said: the pair of author and parts, or an object with author and parts, or with a text."""
    value = spot.value
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        yield _message_row(spot, author=spot.at(0), depth=depth)
        yield from parts_of(spot.at(1), depth=depth + 1)
        return
    author = Members(spot).take("author") if isinstance(value, dict) else None
    if author is None or not isinstance(author.value, str):
        yield from free(spot, label="sub-agent", depth=depth, kind=Kind.MESSAGE)
        return
    yield _message_row(spot, author=author, depth=depth)
    for member in _without(spot, "author"):
        if member.place[-1] == "parts":
            yield from parts_of(member, depth=depth + 1)
        elif member.place[-1] == "text":
            yield from field(member, label="text", depth=depth + 1, input=Input.TEXT)
        else:
            yield from free(member, depth=depth + 1)


def event(spot: Spot, *, depth: int) -> Iterator[Row]:
    """One event of an agent: its author, then its parts."""
    taken = Members(spot) if isinstance(spot.value, dict) else None
    author = taken.take("author") if taken is not None else None
    if taken is None or author is None or not isinstance(author.value, str):
        yield from free(spot, label="event", depth=depth, kind=Kind.EVENT)
        return
    body = taken.take("content")
    rows, also = _event_body(body, depth=depth + 1)
    yield Row(
        place=spot.place,
        kind=Kind.EVENT,
        depth=depth,
        label="event",
        value=author.value,
        edits=author.place,
        input=Input.LINE,
        also=also,
        json=spot.place,
    )
    yield from rows
    for member in taken.rest():
        yield from free(member, depth=depth + 1)


def _event_body(spot: Spot | None, *, depth: int) -> tuple[list[Row], tuple[Place, ...]]:
    """The rows of an event's content, and the places that need none because they say what is so anyway."""
    if spot is None:
        return [], ()
    if not isinstance(spot.value, dict):
        return list(free(spot, depth=depth, kind=Kind.FIELD)), ()
    if not spot.value:
        return [], (spot.place,)
    taken = Members(spot)
    parts, role = taken.take("parts"), taken.take("role")
    also: tuple[Place, ...] = ()
    rows: list[Row] = []
    if role is not None and role.value in ("model", "user"):
        also = (role.place,)
    elif role is not None:
        rows += field(role, label="role", depth=depth, input=Input.LINE)
    if parts is not None:
        rows += parts_of(parts, depth=depth)
    for member in taken.rest():
        rows += free(member, depth=depth)
    return rows, also


def _message_row(spot: Spot, *, author: Spot, depth: int) -> Row:
    return Row(
        place=spot.place,
        kind=Kind.MESSAGE,
        depth=depth,
        label="sub-agent",
        value=author.value,
        edits=author.place,
        input=Input.LINE,
        json=spot.place,
    )


def _part(spot: Spot, *, depth: int) -> Iterator[Row]:
    """A part is named by what it is: a text, a thought, a call, a tool's response, a file."""
    if not isinstance(spot.value, dict):
        yield from free(spot, label="part", depth=depth, kind=Kind.PART)
        return
    taken = Members(spot, said=True)
    count, unsaid = len(taken), taken.unsaid
    text, thought = taken.take("text"), taken.take("thought")
    requested, answered, rest = taken.take("function_call"), taken.take("function_response"), list(taken.rest())
    if text is not None and isinstance(text.value, str) and count == 1 + (thought is not None):
        is_thought = thought is not None and thought.value is True
        if thought is None or is_thought:
            yield Row(
                place=spot.place,
                kind=Kind.PART,
                depth=depth,
                label="thought" if is_thought else "text",
                value=text.value,
                edits=text.place,
                input=Input.TEXT,
                also=(*unsaid, thought.place) if thought is not None else unsaid,
                json=spot.place,
            )
            return
    if count == 1 and requested is not None and isinstance(requested.value, dict):
        yield from call(requested, depth=depth, place=spot.place, also=unsaid)
        return
    if count == 1 and answered is not None and isinstance(answered.value, dict):
        yield from tool_response(answered, depth=depth, place=spot.place, also=unsaid)
        return
    yield Row(
        place=spot.place, kind=Kind.PART, depth=depth, label="part", value=spot.value, also=unsaid, json=spot.place
    )
    if text is not None:
        yield from field(text, label="text", depth=depth + 1, input=Input.TEXT)
    if thought is not None:
        yield from free(thought, label="thought", depth=depth + 1)
    if requested is not None:
        yield from call(requested, depth=depth + 1)
    if answered is not None:
        yield from tool_response(answered, depth=depth + 1)
    for member in rest:
        yield from free(member, depth=depth + 1)


def _named(
    spot: Spot, *, kind: Kind, label: str, names: tuple[str, ...], bodies: tuple[str, ...], body: str, depth: int,
    place: Place, also: tuple[Place, ...],
) -> Iterator[Row]:  # fmt: skip
    """A call or a tool's response: a name, and an object of the user's. `also` are other places that need no row."""
    if not spot.value:
        also = (*also, spot.place)
    row = Row(place=place, kind=kind, depth=depth, label=label, value=spot.value, also=also, json=spot.place)
    if isinstance(spot.value, str) and kind is Kind.CALL:
        yield replace(row, edits=spot.place, input=Input.LINE)
        return
    if not isinstance(spot.value, dict):
        yield from free(spot, label=label, depth=depth, kind=kind)
        return
    taken = Members(spot, said=True)
    row = replace(row, also=(*also, *taken.unsaid))
    name = next((found for key in names if (found := taken.take(key)) is not None), None)
    held = next((found for key in bodies if (found := taken.take(key)) is not None), None)
    rows: list[Row] = []
    if name is None or isinstance(name.value, str):
        row = replace(row, value=name.value if name is not None else "", input=Input.LINE)
        row = replace(row, edits=name.place if name is not None else (*spot.place, names[0]))
    else:
        rows += free(name, depth=depth + 1, kind=Kind.FIELD)
    if held is not None and isinstance(held.value, dict):
        row = replace(row, json=held.place, also=row.also if held.value else (*row.also, held.place))
        rows += members(held, depth=depth + 1)
    elif held is not None:
        rows += free(held, label=body, depth=depth + 1, kind=Kind.FIELD)
    yield row
    yield from rows
    call_id = taken.take("id")
    if call_id is not None:
        yield from field(call_id, label="call id", depth=depth + 1, input=Input.LINE)
    for member in taken.rest():
        yield from free(member, depth=depth + 1, kind=Kind.FIELD)


def _only_text(parts: Spot | None) -> tuple[Spot, tuple[Place, ...]] | None:
    """The text of parts that are nothing but one text, and the places beside it that are null."""
    if parts is None or not isinstance(parts.value, list) or len(parts.value) != 1:
        return None
    part = parts.at(0)
    if not isinstance(part.value, dict):
        return None
    taken = Members(part, said=True)
    text = taken.take("text") if len(taken) == 1 else None
    return (text, taken.unsaid) if text is not None and isinstance(text.value, str) else None


def _without(spot: Spot, key: str) -> Iterator[Spot]:
    taken = Members(spot)
    taken.take(key)
    yield from taken.rest()


# A case as rows, in the order in which people think of it; every value of the file has its row.

Items = Callable[..., Iterator[Row]]


def case_rows(data: Any) -> Sequence[Row]:
    """A case of the current format."""
    if not isinstance(data, dict) or not data:
        return list(free(Spot(data, ()), label="case", depth=0, kind=Kind.FIELD))
    rows: list[Row] = []
    taken = Members(Spot(data, ()))
    if (eval_id := taken.take("eval_id")) is not None:
        rows += field(eval_id, label="eval id", depth=0, input=Input.LINE)
    if (conversation := taken.take("conversation")) is not None:
        rows += _items(conversation, _turn, label="conversation", depth=0)
    if (scenario := taken.take("conversation_scenario")) is not None:
        rows += _scenario(scenario)
    if (session := taken.take("session_input")) is not None:
        rows += session_rows(session)
    if (state := taken.take("final_session_state")) is not None:
        rows += free(state, label="final state", depth=0, kind=Kind.STATE)
    if (rubrics := taken.take("rubrics")) is not None:
        rows += _items(rubrics, _rubric, label="rubrics", depth=0)
    if (created := taken.take("creation_timestamp")) is not None:
        rows += field(created, label="created", depth=0, input=Input.NUMBER)
    for spot in taken.rest():
        rows += free(spot, depth=0)
    return rows


def set_rows(header: dict[str, Any]) -> Sequence[Row]:
    """What a set says of itself."""
    rows: list[Row] = []
    taken = Members(Spot(header, ()))
    if (set_id := taken.take("eval_set_id")) is not None:
        rows += field(set_id, label="eval set id", depth=0, input=Input.LINE)
    if (name := taken.take("name")) is not None:
        rows += field(name, label="name", depth=0, input=Input.LINE)
    if (description := taken.take("description")) is not None:
        rows += field(description, label="description", depth=0, input=Input.TEXT)
    if (created := taken.take("creation_timestamp")) is not None:
        rows += field(created, label="created", depth=0, input=Input.NUMBER)
    for spot in taken.rest():
        rows += free(spot, depth=0)
    return rows


def session_rows(spot: Spot) -> Iterator[Row]:
    """How the session starts."""
    if not isinstance(spot.value, dict):
        yield from free(spot, label="session", depth=0, kind=Kind.SESSION)
        return
    yield Row(place=spot.place, kind=Kind.SESSION, depth=0, label="session", value=spot.value, json=spot.place)
    taken = Members(spot)
    for key, label in (("app_name", "app name"), ("user_id", "user id"), ("session_id", "session id")):
        if (found := taken.take(key)) is not None:
            yield from field(found, label=label, depth=1, input=Input.LINE)
    if (state := taken.take("state")) is not None:
        yield from free(state, label="state", depth=1, kind=Kind.STATE)
    for member in taken.rest():
        yield from free(member, depth=1)


def _items(spot: Spot, item: Items, *, label: str, depth: int) -> Iterator[Row]:
    """The items of a list; a list that is empty, or none at all, has one row that says so."""
    if not isinstance(spot.value, list) or not spot.value:
        yield from free(spot, label=label, depth=depth, kind=Kind.FIELD)
        return
    for index in range(len(spot.value)):
        yield from item(spot.at(index), depth=depth)


def _turn(spot: Spot, *, depth: int) -> Iterator[Row]:
    label = f"turn {int(spot.place[-1]) + 1}"
    if not isinstance(spot.value, dict):
        yield from free(spot, label=label, depth=depth, kind=Kind.TURN)
        return
    yield Row(place=spot.place, kind=Kind.TURN, depth=depth, label=label, value=spot.value, json=spot.place)
    depth += 1
    taken = Members(spot)
    if (user := taken.take("user_content")) is not None:
        yield from content(user, label="user", role="user", depth=depth)
    if (between := taken.take("intermediate_data")) is not None:
        yield from _intermediate(between, depth=depth)
    if (response := taken.take("final_response")) is not None:
        yield from content(response, label="response", role="model", depth=depth)
    if (rubrics := taken.take("rubrics")) is not None:
        yield from _items(rubrics, _rubric, label="rubrics", depth=depth)
    if (invocation_id := taken.take("invocation_id")) is not None:
        yield from field(invocation_id, label="invocation id", depth=depth, input=Input.LINE)
    if (created := taken.take("creation_timestamp")) is not None:
        yield from field(created, label="created", depth=depth, input=Input.NUMBER)
    for member in taken.rest():
        yield from free(member, depth=depth, kind=Kind.FIELD)


def _intermediate(spot: Spot, *, depth: int) -> Iterator[Row]:
    """What happens before the response: calls, tools' responses and sub-agents' messages, or the events."""
    if not isinstance(spot.value, dict) or not spot.value:
        yield from free(spot, label="intermediate data", depth=depth, kind=Kind.FIELD)
        return
    taken = Members(spot)
    lists: tuple[tuple[str, str, Items], ...] = (
        ("tool_uses", "calls", call),
        ("tool_responses", "tool responses", tool_response),
        ("intermediate_responses", "sub-agents", message),
        ("invocation_events", "events", event),
    )
    for key, label, item in lists:
        if (found := taken.take(key)) is not None:
            yield from _items(found, item, label=label, depth=depth)
    for member in taken.rest():
        yield from free(member, depth=depth, kind=Kind.FIELD)


def _rubric(spot: Spot, *, depth: int) -> Iterator[Row]:
    taken = Members(spot) if isinstance(spot.value, dict) else None
    rubric_id = taken.take("rubric_id") if taken is not None else None
    if taken is None or rubric_id is None or not isinstance(rubric_id.value, str):
        yield from free(spot, label="rubric", depth=depth, kind=Kind.RUBRIC)
        return
    yield _titled(spot, rubric_id, kind=Kind.RUBRIC, label="rubric", depth=depth)
    if (held := taken.take("rubric_content")) is not None:
        text = Members(held).take("text_property") if isinstance(held.value, dict) else None
        if text is not None and len(held.value) == 1:
            yield from field(text, label="says", depth=depth + 1, input=Input.TEXT)
        else:
            yield from free(held, label="content", depth=depth + 1, kind=Kind.FIELD)
    if (description := taken.take("description")) is not None:
        yield from field(description, label="description", depth=depth + 1, input=Input.TEXT)
    if (of_type := taken.take("type")) is not None:
        yield from field(of_type, label="type", depth=depth + 1, input=Input.LINE)
    for member in taken.rest():
        yield from free(member, depth=depth + 1, kind=Kind.FIELD)


def _scenario(spot: Spot) -> Iterator[Row]:
    if not isinstance(spot.value, dict):
        yield from free(spot, label="scenario", depth=0, kind=Kind.FIELD)
        return
    yield Row(place=spot.place, kind=Kind.SCENARIO, depth=0, label="scenario", value=spot.value, json=spot.place)
    taken = Members(spot)
    if (prompt := taken.take("starting_prompt")) is not None:
        yield from field(prompt, label="starting prompt", depth=1, input=Input.TEXT)
    if (plan := taken.take("conversation_plan")) is not None:
        yield from field(plan, label="plan", depth=1, input=Input.TEXT)
    if (persona := taken.take("user_persona")) is not None:
        yield from _persona(persona)
    for member in taken.rest():
        yield from free(member, depth=1, kind=Kind.FIELD)


def _persona(spot: Spot) -> Iterator[Row]:
    """A persona by its id, or in full."""
    if isinstance(spot.value, str):
        yield from field(spot, label="persona", depth=1, input=Input.LINE)
        return
    taken = Members(spot) if isinstance(spot.value, dict) else None
    persona_id = taken.take("id") if taken is not None else None
    if taken is None or persona_id is None or not isinstance(persona_id.value, str):
        yield from free(spot, label="persona", depth=1, kind=Kind.PERSONA)
        return
    yield _titled(spot, persona_id, kind=Kind.PERSONA, label="persona", depth=1)
    if (description := taken.take("description")) is not None:
        yield from field(description, label="description", depth=2, input=Input.TEXT)
    if (behaviours := taken.take("behaviors")) is not None:
        yield from _items(behaviours, _behaviour, label="behaviours", depth=2)
    for member in taken.rest():
        yield from free(member, depth=2, kind=Kind.FIELD)


def _behaviour(spot: Spot, *, depth: int) -> Iterator[Row]:
    taken = Members(spot) if isinstance(spot.value, dict) else None
    name = taken.take("name") if taken is not None else None
    if taken is None or name is None or not isinstance(name.value, str):
        yield from free(spot, label="behaviour", depth=depth, kind=Kind.BEHAVIOUR)
        return
    yield _titled(spot, name, kind=Kind.BEHAVIOUR, label="behaviour", depth=depth)
    if (description := taken.take("description")) is not None:
        yield from field(description, label="description", depth=depth + 1, input=Input.TEXT)
    if (instructions := taken.take("behavior_instructions")) is not None:
        yield from texts(instructions, label="instructions", noun="instruction", depth=depth + 1)
    if (violations := taken.take("violation_rubrics")) is not None:
        yield from texts(violations, label="violations", noun="violated if", depth=depth + 1)
    for member in taken.rest():
        yield from free(member, depth=depth + 1, kind=Kind.FIELD)


def _titled(spot: Spot, title: Spot, *, kind: Kind, label: str, depth: int) -> Row:
    """The row of an object that is known by one of its texts."""
    return Row(
        place=spot.place,
        kind=kind,
        depth=depth,
        label=label,
        value=title.value,
        edits=title.place,
        input=Input.LINE,
        json=spot.place,
    )


def legacy_rows(data: Any) -> Sequence[Row]:
    """A case of an old format, with the keys of that format: a list of turns, or a named eval with its turns."""
    if isinstance(data, list) and data:
        return [row for index in range(len(data)) for row in _legacy_turn(Spot(data, ()).at(index), depth=0)]
    if not isinstance(data, dict):
        return list(free(Spot(data, ()), label="turns", depth=0, kind=Kind.FIELD))
    rows: list[Row] = []
    taken = Members(Spot(data, ()))
    if (name := taken.take("name")) is not None:
        rows += field(name, label="eval id", depth=0, input=Input.LINE)
    if (turns := taken.take("data")) is not None:
        rows += _items(turns, _legacy_turn, label="turns", depth=0)
    if (session := taken.take("initial_session")) is not None:
        rows += session_rows(session)
    if (state := taken.take("initial_state")) is not None:
        rows += free(state, label="state", depth=0, kind=Kind.STATE)
    for spot in taken.rest():
        rows += free(spot, depth=0)
    return rows


def _legacy_turn(spot: Spot, *, depth: int) -> Iterator[Row]:
    label = f"turn {int(spot.place[-1]) + 1}"
    if not isinstance(spot.value, dict):
        yield from free(spot, label=label, depth=depth, kind=Kind.TURN)
        return
    yield Row(place=spot.place, kind=Kind.TURN, depth=depth, label=label, value=spot.value, json=spot.place)
    taken = Members(spot)
    if (query := taken.take("query")) is not None:
        yield from field(query, label="user", depth=depth + 1, input=Input.TEXT)
    if (calls := taken.take("expected_tool_use")) is not None:
        yield from _items(calls, call, label="calls", depth=depth + 1)
    if (said := taken.take("expected_intermediate_agent_responses")) is not None:
        yield from _items(said, message, label="sub-agents", depth=depth + 1)
    if (reference := taken.take("reference")) is not None:
        yield from field(reference, label="response", depth=depth + 1, input=Input.TEXT)
    for member in taken.rest():
        yield from free(member, depth=depth + 1, kind=Kind.FIELD)
