"""A case as rows: everything in it that can be edited."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel, to_snake

# Places and spellings: the format has two spellings of a key, `eval_id` and `evalId`, and an edit keeps the one in use.

Place = tuple[str | int, ...]
"""The path to a value, from the case (or from the set): keys in the spelling of the file, and indexes."""


class _Absent:
    """There is no value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""A missing value; null is a value."""


def find_spelling(written: Container[str], key: str) -> str:
    """Return the spelling of a key that is in `written`; prefer the given one, also if neither is."""
    camel = to_camel(key)
    return camel if key not in written and camel in written else key


def find_value(data: Any, place: Place) -> Any:
    """Return the value at a place, ABSENT if it is missing."""
    if not place:
        return data
    parent, step = get_value(data, place[:-1]), place[-1]
    if isinstance(parent, dict) and isinstance(step, str):
        return parent.get(find_spelling(parent, step), ABSENT)
    if isinstance(parent, list) and isinstance(step, int) and 0 <= step < len(parent):
        return parent[step]
    return ABSENT


def get_value(data: Any, place: Place) -> Any:
    """Return the value at a place, None if it is missing. Both spellings of a key are found."""
    for step in place:
        if isinstance(data, dict) and isinstance(step, str):
            data = data.get(find_spelling(data, step))
        elif isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data):
            data = data[step]
        else:
            return None
    return data


def spell_place(data: Any, place: Place) -> Place:
    """Return the place in the spelling of the data, as far as the data has it."""
    steps: list[str | int] = []
    for index, step in enumerate(place):
        spelling = find_spelling(data, step) if isinstance(data, dict) and isinstance(step, str) else step
        steps.append(spelling)
        data = get_value(data, (spelling,))
        if data is None:
            return (*steps, *place[index + 1 :])
    return tuple(steps)


def normalize_place(place: Place) -> Place:
    """Return the place with all keys in snake_case, for comparisons."""
    return tuple(to_snake(step) if isinstance(step, str) else step for step in place)


# The rows of the editor. A row shows one value of a case, or is the heading of an object or list.


class OutlineKind(StrEnum):
    """The kind of value that a row shows. It decides what can be added there."""

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
    FREE = "free"  # a value that the user defines: an argument, a state key, an unknown field
    GHOST = "ghost"  # no value: a place where one can be added


class Input(StrEnum):
    """How a value is typed."""

    LINE = "line"  # a text of one line: an id, a name
    CALL = "call"  # a tool call in one line
    TEXT = "text"
    NUMBER = "number"
    VALUE = "value"  # any JSON value; the user chooses the type
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineRow:
    """One row of the outline.

    Deleting, duplicating and moving act on `place`. Enter edits `value_place`, which may be deeper: the only text of a
    message, the name of a call. `value` is the value at `value_place`, or at `place` for a heading. The label includes
    the values at `covered`. `json_place` is edited as JSON.
    """

    place: Place
    kind: OutlineKind
    depth: int
    label: str
    value: Any
    value_place: Place | None = None
    input: Input = Input.JSON
    covered: tuple[Place, ...] = ()
    json_place: Place = ()

    @property
    def is_heading(self) -> bool:
        """Whether the row has no value of its own."""
        return self.value_place is None

    @property
    def is_item(self) -> bool:
        """Whether the row is an item of a list and can be moved."""
        return bool(self.place) and isinstance(self.place[-1], int)

    @property
    def is_key(self) -> bool:
        """Whether the user defines the key of the row and can rename it."""
        return self.kind is OutlineKind.FREE and bool(self.place) and isinstance(self.place[-1], str)


def find_end(rows: Sequence[OutlineRow], start: int) -> int:
    """Return the index after the last row inside the row at `start`."""
    depth = rows[start].depth
    return next((index for index in range(start + 1, len(rows)) if rows[index].depth <= depth), len(rows))


class JsonNode(NamedTuple):
    """A value of the case and its place."""

    value: Any
    place: Place

    def child(self, step: str | int) -> JsonNode:
        """Return the value one step below, which must exist."""
        return JsonNode(self.value[step], (*self.place, step))


class Members:
    """The members of an object, taken one by one in the order in which they are shown.

    With `skip_null`, members that are null are left out; `null_places` has their places. Some programs write every
    member of an object of the format, null or not.
    """

    def __init__(self, node: JsonNode, *, skip_null: bool = False) -> None:
        self._node = node
        self._left = [key for key, value in node.value.items() if not skip_null or value is not None]
        self.null_places = tuple((*node.place, key) for key in node.value if key not in self._left)

    def __len__(self) -> int:
        return len(self._left)

    def take(self, *keys: str) -> JsonNode | None:
        """Take the member with the first of these keys that exists, in either spelling; None if none does."""
        for key in keys:
            for spelling in (key, to_camel(key)):
                if spelling in self._left:
                    self._left.remove(spelling)
                    return self._node.child(spelling)
        return None

    def take_remaining(self) -> Iterator[JsonNode]:
        """Yield the members that were not taken."""
        for key in self._left:
            yield self._node.child(key)


# Rows of values: single fields of the format, and JSON of the user key by key.

DEEPEST = 40
"""Levels of the user's JSON with rows of their own. A deeper value is shown and edited as JSON in one row."""

_LABELS = {
    "creation_timestamp": "created",
    "inline_data": "inline data",
    "file_data": "file",
    "executable_code": "code",
    "code_execution_result": "result of code",
    "app_details": "app details",
    "thought_signature": "thought signature",
}

Builder = Callable[..., Iterator[OutlineRow]]
"""Builds the rows of a node: `builder(node, depth=…)`."""


def _field_rows(node: JsonNode, *, label: str, depth: int, input: Input = Input.LINE) -> Iterator[OutlineRow]:
    """Build the row of a value that the format defines. A value of another type is shown as the user's own JSON."""
    if _matches_input(input, node.value):
        yield OutlineRow(
            place=node.place,
            kind=OutlineKind.FIELD,
            depth=depth,
            label=label,
            value=node.value,
            value_place=node.place,
            input=input,
            json_place=node.place,
        )
    else:
        yield from _free_rows(node, label=label, depth=depth, kind=OutlineKind.FIELD)


def _free_rows(
    node: JsonNode, *, label: str | None = None, depth: int, kind: OutlineKind = OutlineKind.FREE, level: int = 0
) -> Iterator[OutlineRow]:
    """Build the rows of any JSON: an object key by key, a list item by item."""
    value = node.value
    has_rows = isinstance(value, dict | list) and bool(value) and level < DEEPEST
    yield OutlineRow(
        place=node.place,
        kind=kind,
        depth=depth,
        label=label if label is not None else _make_label(node.place),
        value=value,
        value_place=None if has_rows else node.place,
        input=Input.JSON if isinstance(value, dict | list) else Input.VALUE,
        json_place=node.place,
    )
    if has_rows:
        yield from _inner_rows(node, depth=depth + 1, level=level + 1)


def _inner_rows(node: JsonNode, *, depth: int, level: int = 0) -> Iterator[OutlineRow]:
    """Build the rows of what an object or list holds, without a row for itself."""
    steps: Any = node.value if isinstance(node.value, dict) else range(len(node.value))
    for step in steps:
        yield from _free_rows(node.child(step), depth=depth, level=level)


def _item_rows(node: JsonNode, item: Builder, *, label: str, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of the items of a list. An empty list, or a value that is no list, is one row."""
    if not isinstance(node.value, list) or not node.value:
        yield from _free_rows(node, label=label, depth=depth, kind=OutlineKind.FIELD)
        return
    for index in range(len(node.value)):
        yield from item(node.child(index), depth=depth)


def _member_rows(
    members: Members, builders: Mapping[str, Builder], *, depth: int, unknown: OutlineKind = OutlineKind.FIELD
) -> Iterator[OutlineRow]:
    """Build the rows of members: those with a builder in the order of the builders, then the unknown ones."""
    for key, build in builders.items():
        if (found := members.take(key)) is not None:
            yield from build(found, depth=depth)
    for node in members.take_remaining():
        yield from _free_rows(node, depth=depth, kind=unknown)


def _make_label(place: Place) -> str:
    """Return the name of a value by its last step. Items count from 0, as in paths of differences and problems."""
    step = place[-1]
    return f"[{step}]" if isinstance(step, int) else _LABELS.get(step, step)


def _matches_input(input: Input, value: Any) -> bool:
    if input is Input.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _titled_row(
    node: JsonNode, title: JsonNode, *, kind: OutlineKind, label: str, depth: int, covered: tuple[Place, ...] = ()
) -> OutlineRow:
    """Build the heading of an object that shows one of its texts."""
    return OutlineRow(
        place=node.place,
        kind=kind,
        depth=depth,
        label=label,
        value=title.value,
        value_place=title.place,
        input=Input.LINE,
        covered=covered,
        json_place=node.place,
    )


def _field(label: str, input: Input = Input.LINE) -> Builder:
    return partial(_field_rows, label=label, input=input)


def _list(item: Builder, *, label: str) -> Builder:
    return partial(_item_rows, item=item, label=label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The outline of an object of the format: a heading, and below it the members in the order of `builders`.

    The heading shows the text at the key `title`. Unknown members get rows of the kind `unknown`. An object without its
    title, or another value, is shown as the user's own JSON of the kind `otherwise`.
    """

    kind: OutlineKind
    label: str
    builders: Mapping[str, Builder]
    title: str | None = None
    unknown: OutlineKind = OutlineKind.FIELD
    otherwise: OutlineKind | None = None
    is_numbered: bool = False  # whether the label ends with the position in the list

    def rows(self, node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
        """Build the rows of an object."""
        label = f"{self.label} {int(node.place[-1]) + 1}" if self.is_numbered else self.label
        members = Members(node) if isinstance(node.value, dict) else None
        title = members.take(self.title) if members is not None and self.title is not None else None
        if members is None or (self.title is not None and (title is None or not isinstance(title.value, str))):
            yield from _free_rows(node, label=label, depth=depth, kind=self.otherwise or self.kind)
            return
        if title is not None:
            yield _titled_row(node, title, kind=self.kind, label=label, depth=depth)
        else:
            yield OutlineRow(
                place=node.place, kind=self.kind, depth=depth, label=label, value=node.value, json_place=node.place
            )
        yield from _member_rows(members, self.builders, depth=depth + 1, unknown=self.unknown)


# Rows of messages, and of the steps of an agent: parts, tool calls, tool responses, sub-agents, events.

_CALL_NAMES = ("name", "tool_name")
_CALL_ARGUMENTS = ("args", "tool_input")


def _content_rows(node: JsonNode, *, label: str, role: str, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of a message. A message of one text is one row. The label implies the role `role`."""
    if not isinstance(node.value, dict):
        kind = OutlineKind.CONTENT if node.value is None else OutlineKind.FIELD
        yield from _free_rows(node, label=label, depth=depth, kind=kind)
        return
    members = Members(node, skip_null=True)
    parts, own_role, unknown = members.take("parts"), members.take("role"), list(members.take_remaining())
    is_role_implied = own_role is None or own_role.value == role
    covered = members.null_places
    if own_role is not None and is_role_implied:
        covered = (*covered, own_role.place)
    heading = OutlineRow(
        place=node.place,
        kind=OutlineKind.CONTENT,
        depth=depth,
        label=label,
        value=node.value,
        covered=covered,
        json_place=node.place,
    )
    only = _find_only_text(parts) if not unknown and is_role_implied else None
    if only is not None:
        text, null_places = only
        covered = (*covered, *null_places)
        yield replace(heading, value=text.value, value_place=text.place, input=Input.TEXT, covered=covered)
        return
    if parts is not None and parts.value == []:
        heading = replace(heading, covered=(*covered, parts.place))
    yield heading
    if own_role is not None and not is_role_implied:
        yield from _field_rows(own_role, label="role", depth=depth + 1)
    if parts is not None and parts.value != []:
        yield from _parts_rows(parts, depth=depth + 1)
    for member in unknown:
        yield from _free_rows(member, depth=depth + 1)


def _find_only_text(parts: JsonNode | None) -> tuple[JsonNode, tuple[Place, ...]] | None:
    """Return the text of parts that are a single text, and the places of its null members."""
    if parts is None or not isinstance(parts.value, list) or len(parts.value) != 1:
        return None
    part = parts.child(0)
    if not isinstance(part.value, dict):
        return None
    members = Members(part, skip_null=True)
    text = members.take("text") if len(members) == 1 else None
    return (text, members.null_places) if text is not None and isinstance(text.value, str) else None


def _part_rows(node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of a part, labelled by its content: a text, a thought, a call, a tool response, a file."""
    if not isinstance(node.value, dict):
        yield from _free_rows(node, label="part", depth=depth, kind=OutlineKind.PART)
        return
    members = Members(node, skip_null=True)
    count, covered = len(members), members.null_places
    text, thought = members.take("text"), members.take("thought")
    call, response = members.take("function_call"), members.take("function_response")
    row = OutlineRow(
        place=node.place,
        kind=OutlineKind.PART,
        depth=depth,
        label="part",
        value=node.value,
        covered=covered,
        json_place=node.place,
    )
    is_text = text is not None and isinstance(text.value, str) and count == 1 + (thought is not None)
    if text is not None and is_text and (thought is None or thought.value is True):
        label = "text" if thought is None else "thought"
        row = replace(row, label=label, value=text.value, value_place=text.place, input=Input.TEXT)
        yield row if thought is None else replace(row, covered=(*covered, thought.place))
        return
    for found, build in ((call, _call_rows), (response, _tool_response_rows)):
        if count == 1 and found is not None and isinstance(found.value, dict):
            yield from build(found, depth=depth, place=node.place, covered=covered)
            return
    yield row
    if text is not None:
        yield from _field_rows(text, label="text", depth=depth + 1, input=Input.TEXT)
    if thought is not None:
        yield from _free_rows(thought, label="thought", depth=depth + 1)
    if call is not None:
        yield from _call_rows(call, depth=depth + 1)
    if response is not None:
        yield from _tool_response_rows(response, depth=depth + 1)
    for member in members.take_remaining():
        yield from _free_rows(member, depth=depth + 1)


_parts_rows = _list(_part_rows, label="parts")


def _named_rows(
    node: JsonNode, *, kind: OutlineKind, label: str, names: tuple[str, ...], bodies: tuple[str, ...], body_label: str,
    depth: int, place: Place | None = None, covered: tuple[Place, ...] = (),
) -> Iterator[OutlineRow]:  # fmt: skip
    """Build the rows of a call or a tool response: its name, then the user's object key by key.

    `place` is deleted with it: the part that it is in.
    """
    if not node.value:
        covered = (*covered, node.place)
    row = OutlineRow(
        place=place if place is not None else node.place,
        kind=kind,
        depth=depth,
        label=label,
        value=node.value,
        covered=covered,
        json_place=node.place,
    )
    if isinstance(node.value, str) and kind is OutlineKind.CALL:
        yield replace(row, value_place=node.place, input=Input.LINE)
        return
    if not isinstance(node.value, dict):
        yield from _free_rows(node, label=label, depth=depth, kind=kind)
        return
    members = Members(node, skip_null=True)
    row = replace(row, covered=(*covered, *members.null_places))
    name, body = members.take(*names), members.take(*bodies)
    rows: list[OutlineRow] = []
    if name is None or isinstance(name.value, str):
        row = replace(row, value=name.value if name is not None else "", input=Input.LINE)
        row = replace(row, value_place=name.place if name is not None else (*node.place, names[0]))
    else:
        rows += _free_rows(name, depth=depth + 1, kind=OutlineKind.FIELD)
    if body is not None and isinstance(body.value, dict):
        row = replace(row, json_place=body.place, covered=row.covered if body.value else (*row.covered, body.place))
        rows += _inner_rows(body, depth=depth + 1)
    elif body is not None:
        rows += _free_rows(body, label=body_label, depth=depth + 1, kind=OutlineKind.FIELD)
    yield row
    yield from rows
    yield from _member_rows(members, {"id": _field("call id")}, depth=depth + 1)


_call_rows = partial(
    _named_rows, kind=OutlineKind.CALL, label="call", names=_CALL_NAMES, bodies=_CALL_ARGUMENTS, body_label="arguments"
)
_tool_response_rows = partial(
    _named_rows,
    kind=OutlineKind.TOOL_RESPONSE,
    label="tool response",
    names=("name",),
    bodies=("response",),
    body_label="response",
)


def _message_rows(node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of a sub-agent's message: a pair of author and parts, or an object with author, parts and text."""
    value = node.value
    title = partial(_titled_row, node, kind=OutlineKind.MESSAGE, label="sub-agent", depth=depth)
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        yield title(node.child(0))
        yield from _parts_rows(node.child(1), depth=depth + 1)
        return
    members = Members(node) if isinstance(value, dict) else None
    author = members.take("author") if members is not None else None
    if members is None or author is None or not isinstance(author.value, str):
        yield from _free_rows(node, label="sub-agent", depth=depth, kind=OutlineKind.MESSAGE)
        return
    yield title(author)
    builders: dict[str | int, Builder] = {"parts": _parts_rows, "text": _field("text", Input.TEXT)}
    for member in members.take_remaining():  # in the order of the file
        build: Builder = builders.get(member.place[-1], _free_rows)
        yield from build(member, depth=depth + 1)


def _event_rows(node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of an event: its author, then its parts."""
    members = Members(node) if isinstance(node.value, dict) else None
    author = members.take("author") if members is not None else None
    if members is None or author is None or not isinstance(author.value, str):
        yield from _free_rows(node, label="event", depth=depth, kind=OutlineKind.EVENT)
        return
    rows, covered = _event_body(members.take("content"), depth=depth + 1)
    yield _titled_row(node, author, kind=OutlineKind.EVENT, label="event", depth=depth, covered=covered)
    yield from rows
    yield from _member_rows(members, {}, depth=depth + 1, unknown=OutlineKind.FREE)


def _event_body(node: JsonNode | None, *, depth: int) -> tuple[list[OutlineRow], tuple[Place, ...]]:
    """Build the rows of an event's content; also return the places that need no row, as their values are implied."""
    if node is None:
        return [], ()
    if not isinstance(node.value, dict):
        return list(_free_rows(node, depth=depth, kind=OutlineKind.FIELD)), ()
    if not node.value:
        return [], (node.place,)
    members = Members(node)
    parts, role = members.take("parts"), members.take("role")
    covered: tuple[Place, ...] = ()
    rows: list[OutlineRow] = []
    if role is not None and role.value in ("model", "user"):
        covered = (role.place,)
    elif role is not None:
        rows += _field_rows(role, label="role", depth=depth)
    if parts is not None:
        rows += _parts_rows(parts, depth=depth)
    rows += _member_rows(members, {}, depth=depth, unknown=OutlineKind.FREE)
    return rows, covered


# The format as shapes: the order in which members are shown, and how. Every value of the file has its row.


def _intermediate_rows(node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of what happens before the response: calls, tool responses and sub-agents, or the events."""
    if isinstance(node.value, dict) and node.value:
        yield from _member_rows(Members(node), _INTERMEDIATE, depth=depth)
    else:
        yield from _free_rows(node, label="intermediate data", depth=depth, kind=OutlineKind.FIELD)


def _rubric_content_rows(node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
    text = Members(node).take("text_property") if isinstance(node.value, dict) else None
    if text is not None and len(node.value) == 1:
        yield from _field_rows(text, label="says", depth=depth, input=Input.TEXT)
    else:
        yield from _free_rows(node, label="content", depth=depth, kind=OutlineKind.FIELD)


def _persona_rows(node: JsonNode, *, depth: int) -> Iterator[OutlineRow]:
    """Build the rows of a persona: its id alone, or the whole persona."""
    is_id = isinstance(node.value, str)
    yield from _field_rows(node, label="persona", depth=depth) if is_id else _PERSONA.rows(node, depth=depth)


_INTERMEDIATE = {
    "tool_uses": _list(_call_rows, label="calls"),
    "tool_responses": _list(_tool_response_rows, label="tool responses"),
    "intermediate_responses": _list(_message_rows, label="sub-agents"),
    "invocation_events": _list(_event_rows, label="events"),
}
_RUBRIC = Shape(
    kind=OutlineKind.RUBRIC,
    label="rubric",
    title="rubric_id",
    builders={
        "rubric_content": _rubric_content_rows,
        "description": _field("description", Input.TEXT),
        "type": _field("type"),
    },
)
_TURN = Shape(
    kind=OutlineKind.TURN,
    label="turn",
    is_numbered=True,
    builders={
        "user_content": partial(_content_rows, label="user", role="user"),
        "intermediate_data": _intermediate_rows,
        "final_response": partial(_content_rows, label="response", role="model"),
        "rubrics": _list(_RUBRIC.rows, label="rubrics"),
        "invocation_id": _field("invocation id"),
        "creation_timestamp": _field("created", Input.NUMBER),
    },
)
_BEHAVIOUR = Shape(
    kind=OutlineKind.BEHAVIOUR,
    label="behaviour",
    title="name",
    builders={
        "description": _field("description", Input.TEXT),
        "behavior_instructions": _list(_field("instruction", Input.TEXT), label="instructions"),
        "violation_rubrics": _list(_field("violated if", Input.TEXT), label="violations"),
    },
)
_PERSONA = Shape(
    kind=OutlineKind.PERSONA,
    label="persona",
    title="id",
    builders={
        "description": _field("description", Input.TEXT),
        "behaviors": _list(_BEHAVIOUR.rows, label="behaviours"),
    },
)
_SCENARIO = Shape(
    kind=OutlineKind.SCENARIO,
    label="scenario",
    otherwise=OutlineKind.FIELD,
    builders={
        "starting_prompt": _field("starting prompt", Input.TEXT),
        "conversation_plan": _field("plan", Input.TEXT),
        "user_persona": _persona_rows,
    },
)
_SESSION = Shape(
    kind=OutlineKind.SESSION,
    label="session",
    unknown=OutlineKind.FREE,
    builders={
        "app_name": _field("app name"),
        "user_id": _field("user id"),
        "session_id": _field("session id"),
        "state": partial(_free_rows, label="state", kind=OutlineKind.STATE),
    },
)
_CASE: Mapping[str, Builder] = {
    "eval_id": _field("eval id"),
    "conversation": _list(_TURN.rows, label="conversation"),
    "conversation_scenario": _SCENARIO.rows,
    "session_input": _SESSION.rows,
    "final_session_state": partial(_free_rows, label="final state", kind=OutlineKind.STATE),
    "rubrics": _list(_RUBRIC.rows, label="rubrics"),
    "creation_timestamp": _field("created", Input.NUMBER),
}
_EVAL_SET: Mapping[str, Builder] = {
    "eval_set_id": _field("eval set id"),
    "name": _field("name"),
    "description": _field("description", Input.TEXT),
    "creation_timestamp": _field("created", Input.NUMBER),
}
_LEGACY_TURN = Shape(
    kind=OutlineKind.TURN,
    label="turn",
    is_numbered=True,
    builders={
        "query": _field("user", Input.TEXT),
        "expected_tool_use": _list(_call_rows, label="calls"),
        "expected_intermediate_agent_responses": _list(_message_rows, label="sub-agents"),
        "reference": _field("response", Input.TEXT),
    },
)
_LEGACY_CASE: Mapping[str, Builder] = {
    "name": _field("eval id"),
    "data": _list(_LEGACY_TURN.rows, label="turns"),
    "initial_session": _SESSION.rows,
    "initial_state": partial(_free_rows, label="state", kind=OutlineKind.STATE),
}


def case_rows(data: Any) -> Sequence[OutlineRow]:
    """Build the rows of a case of the current format."""
    if not isinstance(data, dict) or not data:
        return list(_free_rows(JsonNode(data, ()), label="case", depth=0, kind=OutlineKind.FIELD))
    return list(_member_rows(Members(JsonNode(data, ())), _CASE, depth=0, unknown=OutlineKind.FREE))


def set_rows(header: dict[str, Any]) -> Sequence[OutlineRow]:
    """Build the rows of an eval set without its cases."""
    return list(_member_rows(Members(JsonNode(header, ())), _EVAL_SET, depth=0, unknown=OutlineKind.FREE))


def legacy_rows(data: Any) -> Sequence[OutlineRow]:
    """Build the rows of a case of an old format: a list of turns, or a named eval with its turns."""
    if isinstance(data, list) and data:
        return list(_item_rows(JsonNode(data, ()), _LEGACY_TURN.rows, label="turns", depth=0))
    if not isinstance(data, dict):
        return list(_free_rows(JsonNode(data, ()), label="turns", depth=0, kind=OutlineKind.FIELD))
    return list(_member_rows(Members(JsonNode(data, ())), _LEGACY_CASE, depth=0, unknown=OutlineKind.FREE))
