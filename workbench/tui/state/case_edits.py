"""Edits of a case as data: what can be done with each row, and how typed text becomes a value."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.model.evalset import PERSONAS
from workbench.tui.state.case_outline import (
    ABSENT,
    Input,
    Kind,
    Place,
    Row,
    folded,
    found_at,
    spelling_of,
    spelt,
    value_at,
)

# Edits of a case as data: what is replaced, inserted, removed, moved or renamed, each one step of undo.


class Document(Protocol):
    """What an edit needs of a document."""

    def set_value(self, place: Place, value: Any, *, case: int | None = None) -> None: ...

    def insert_item(self, place: Place, index: int, value: Any, *, case: int | None = None) -> None: ...

    def remove_value(self, place: Place, *, case: int | None = None) -> None: ...

    def move_item(self, place: Place, source: int, target: int, *, case: int | None = None) -> None: ...

    def rename_key(self, place: Place, key: str, *, case: int | None = None) -> None: ...

    def step(self, label: str) -> AbstractContextManager[None]: ...


class Impossible(Exception):
    """The operation makes no sense on this row; the text says why, for the user."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Replace the value at a place, or add it there."""

    place: Place
    value: Any

    @property
    def goes_to(self) -> Place:
        """Where the user wants to be afterwards."""
        return self.place

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.set_value(self.place, self.value, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data. Raises Impossible."""
        if not self.place:
            return copy.deepcopy(self.value)
        data = copy.deepcopy(data)
        above = data
        *steps, last = spelt(data, self.place)
        try:
            for step in steps:
                if isinstance(above, dict) and above.get(step) is None:
                    above[step] = {}
                above = above[step]
            above[last] = copy.deepcopy(self.value)
        except (LookupError, TypeError) as error:  # typed for an item that is gone, or for something that is text now
            raise Impossible("what this was typed for is no longer in the case") from error
        return data


@dataclass(frozen=True, slots=True)
class InsertItem:
    """Insert a value into the list at a place."""

    place: Place
    index: int
    value: Any

    @property
    def goes_to(self) -> Place:
        """The new item."""
        return (*self.place, self.index)

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.insert_item(self.place, self.index, self.value, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        value_at(data, self.place).insert(self.index, copy.deepcopy(self.value))
        return data


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Remove a member or item."""

    place: Place

    @property
    def goes_to(self) -> Place:
        """What comes after it, else what it was in."""
        return self.place

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.remove_value(self.place, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        place = spelt(data, self.place)
        del value_at(data, place[:-1])[place[-1]]
        return data


@dataclass(frozen=True, slots=True)
class MoveItem:
    """Move an item within its list."""

    place: Place
    source: int
    target: int

    @property
    def goes_to(self) -> Place:
        """Where the item stands afterwards."""
        return (*self.place, self.target)

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.move_item(self.place, self.source, self.target, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        items = value_at(data, self.place)
        items.insert(self.target, items.pop(self.source))
        return data


@dataclass(frozen=True, slots=True)
class RenameKey:
    """Give a member another key; it keeps its place among the others."""

    place: Place
    key: str

    @property
    def goes_to(self) -> Place:
        """The member under its new key."""
        return (*self.place[:-1], self.key)

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.rename_key(self.place, self.key, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        held = value_at(data, self.place[:-1])
        members = [(self.key if key == self.place[-1] else key, value) for key, value in held.items()]
        held.clear()
        held.update(members)
        return data


@dataclass(frozen=True, slots=True)
class PutInstead:
    """Add a member in place of another, where a case may have only one of them."""

    old: Place
    new: SetValue

    @property
    def goes_to(self) -> Place:
        """The new member."""
        return self.new.place

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        with document.step(f"{self.new.place[-1]} instead of {self.old[-1]}"):
            self.new.make(document, case=case)
            document.remove_value(self.old, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        return RemoveValue(self.old).in_data(self.new.in_data(data))


Edit = SetValue | InsertItem | RemoveValue | MoveItem | RenameKey | PutInstead


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a typed value goes: to `place`, or into the list there as the item `index`.

    What is put there is `template` with the typed value at `hole`; without a template it is the value itself. `title`
    says in words what is typed, `instead_of` what goes when it comes. With `choices`, each a value and what it means,
    nothing else can be there, and nothing need be typed.
    """

    place: Place
    title: str
    input: Input
    index: int | None = None
    template: Any = None
    hole: Place | None = None
    instead_of: Place | None = None
    choices: tuple[tuple[str, str], ...] = ()

    def edit(self, value: Any, data: Any) -> SetValue | InsertItem | PutInstead:
        """The edit that puts a typed value where it goes in this data. The first item of a list makes the list."""
        whole = value if self.hole is None else SetValue(self.hole, value).in_data(self.template)
        if self.instead_of is not None and found_at(data, self.instead_of) is not ABSENT:
            return PutInstead(self.instead_of, SetValue(self.place, whole))
        if self.index is None:
            return SetValue(self.place, whole)
        held = value_at(data, self.place)
        if not isinstance(held, list):
            return SetValue(self.place, [whole])
        return InsertItem(self.place, min(self.index, len(held)), whole)


def slot_of(row: Row, data: Any) -> Slot:
    """What enter edits: the value of the row, or the whole of it as JSON where it only holds others."""
    if row.kind is Kind.CONTENT and not _has_text(row):
        parts = spelling_of(row.value, "parts") if isinstance(row.value, dict) else "parts"
        if not isinstance(row.value, dict) or not row.value.get(parts):
            return _slot_of_empty_content(row, parts)
    if row.edits is None:
        return slot_as_json(row, data)
    is_persona = folded(row.edits)[-1:] == ("user_persona",)
    return Slot(place=row.edits, title=row.label, input=row.input, choices=persona_choices() if is_persona else ())


def persona_choices() -> tuple[tuple[str, str], ...]:
    """The personas that a scenario may name."""
    return tuple((name, persona.description) for name, persona in PERSONAS.items())


def slot_as_json(row: Row, data: Any) -> Slot:
    """What is edited as JSON: the arguments of a call, else all that the row stands for."""
    place = row.json
    if value_at(data, place) is None and place:
        place = row.place
    return Slot(place=place, title=f"{row.label} as JSON", input=Input.JSON)


def removal(row: Row) -> RemoveValue:
    """Removing what the row stands for. Raises Impossible."""
    if not row.place:
        raise Impossible("this is the whole case; it is deleted in the list of cases")
    if _is_half_of_a_pair(row):
        raise Impossible("a sub-agent's message has both an author and parts")
    return RemoveValue(row.place)


def move(row: Row, data: Any, *, by: int) -> MoveItem:
    """Moving the row among the items of its list. Raises Impossible."""
    above = value_at(data, row.place[:-1]) if row.place else None
    if not row.is_item or not isinstance(above, list) or _is_half_of_a_pair(row):
        raise Impossible("only items of a list have an order: turns, calls, parts, events, rubrics …")
    source = int(row.place[-1])
    target = source + by
    if not 0 <= target < len(above):
        raise Impossible("it is the first already" if by < 0 else "it is the last already")
    return MoveItem(row.place[:-1], source, target)


def copy_of_item(row: Row, data: Any) -> InsertItem:
    """A copy of an item after it; of ids that must differ the copy gets another. Raises Impossible."""
    if not row.is_item or _is_half_of_a_pair(row):
        raise Impossible("only items of a list, and keys of your own, can be duplicated")
    value = copy.deepcopy(value_at(data, row.place))
    if row.kind is Kind.RUBRIC and isinstance(value, dict):
        key = spelling_of(value, "rubric_id")
        value[key] = other_rubric_id(str(value.get(key, "rubric")), value_at(data, row.place[:-1]))
    return InsertItem(row.place[:-1], int(row.place[-1]) + 1, value)


def copy_under_key(row: Row, data: Any, key: str) -> SetValue:
    """A copy of a member of the user's under another key."""
    return SetValue((*row.place[:-1], key), copy.deepcopy(value_at(data, row.place)))


def problem_of_key(key: str, data: Any, place: Place) -> str | None:
    """What keeps the object at a place from getting a member of this key; None where nothing does."""
    held = value_at(data, place)
    if not key:
        return "expected a name"
    return f"there is {key!r} already" if isinstance(held, dict) and key in held else None


def other_rubric_id(rubric_id: str, rubrics: Any) -> str:
    """An id like this one that no rubric of a list has."""
    known = {value_at(rubric, ("rubric_id",)) for rubric in rubrics} if isinstance(rubrics, list) else set()
    number = 2
    while f"{rubric_id}_{number}" in known:
        number += 1
    return f"{rubric_id}_{number}" if rubric_id in known else rubric_id


def _has_text(row: Row) -> bool:
    return row.edits is not None and row.input is Input.TEXT


def _slot_of_empty_content(row: Row, parts: str) -> Slot:
    """A message that is not there yet, or has no parts, gets one of text."""
    if isinstance(row.value, dict):
        return Slot(
            place=(*row.place, parts), title=row.label, input=Input.TEXT, template=[{"text": ""}], hole=(0, "text")
        )
    role = "user" if row.label == "user" else "model"
    template = {"parts": [{"text": ""}], "role": role}
    return Slot(place=row.place, title=row.label, input=Input.TEXT, template=template, hole=("parts", 0, "text"))


def _is_half_of_a_pair(row: Row) -> bool:
    """Whether the row is the author, or the parts, of a pair that the format writes as a list."""
    return len(row.place) > 2 and row.place[-3] in ("intermediate_responses", "intermediateResponses")


# New things for a case, each with the slot in which what is typed goes, in the form that the case has already.

_BEHAVIOUR_TEMPLATE = {"name": "", "description": "", "behavior_instructions": [], "violation_rubrics": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Something to add. `slot` says where it goes; with `needs_key` its last step is a key still to be chosen."""

    label: str
    slot: Slot
    needs_key: bool = False

    def with_key(self, key: str) -> Slot:
        """Where it goes once the key is known."""
        return Slot(place=(*self.slot.place, key), title=key, input=self.slot.input)


def item(place: Place, index: int, label: str, input: Input, template: Any = None, *hole: str | int) -> Addition:
    """A new item of the list at a place; the first one makes the list."""
    return Addition(
        label=label,
        slot=Slot(place=place, index=index, title=label, input=input, template=template, hole=hole if hole else None),
    )


def member(data: Any, place: Place, label: str) -> Addition:
    return Addition(label=label, slot=Slot(place=spelt(data, place), title=label, input=Input.VALUE), needs_key=True)


def new_turn(place: Place, index: int, data: Any) -> Addition:
    if is_legacy(data):
        return item(place, index, "turn", Input.TEXT, {"query": "", "expected_tool_use": [], "reference": ""}, "query")
    template = {"user_content": {"parts": [{"text": ""}], "role": "user"}}
    return item(place, index, "turn", Input.TEXT, template, "user_content", "parts", 0, "text")


def new_scenario() -> Addition:
    slot = Slot(
        place=("conversation_scenario",),
        title="starting prompt",
        input=Input.TEXT,
        template={"starting_prompt": "", "conversation_plan": ""},
        hole=("starting_prompt",),
        instead_of=("conversation",),
    )
    return Addition(label="scenario instead of the conversation", slot=slot)


def new_conversation() -> Addition:
    slot = Slot(
        place=("conversation",),
        title="turn",
        input=Input.TEXT,
        template=[{"user_content": {"parts": [{"text": ""}], "role": "user"}}],
        hole=(0, "user_content", "parts", 0, "text"),
        instead_of=("conversation_scenario",),
    )
    return Addition(label="conversation instead of the scenario", slot=slot)


def new_call(place: Place, index: int, data: Any) -> Addition:
    calls = value_at(data, place)
    vertex = is_legacy(data) or (isinstance(calls, list) and any("tool_name" in call for call in calls))
    name, arguments = ("tool_name", "tool_input") if vertex else ("name", "args")
    return item(place, index, "call", Input.LINE, {name: "", arguments: {}}, name)


def new_tool_response(place: Place, index: int) -> Addition:
    return item(place, index, "tool response", Input.LINE, {"name": "", "response": {}}, "name")


def new_tool_response_part(place: Place, index: int) -> Addition:
    template = {"function_response": {"name": "", "response": {}}}
    return item(place, index, "tool response", Input.LINE, template, "function_response", "name")


def new_message(place: Place, index: int, data: Any) -> Addition:
    if is_legacy(data):
        return item(place, index, "sub-agent message", Input.LINE, {"author": "", "text": ""}, "author")
    return item(place, index, "sub-agent message", Input.LINE, ["", [{"text": ""}]], 0)


def new_part_as_json(place: Place, index: int) -> Addition:
    return item(place, index, "part as JSON", Input.JSON)


def new_text_part(place: Place, index: int) -> Addition:
    return item(place, index, "text part", Input.TEXT, {"text": ""}, "text")


def new_events(place: Place, index: int, data: Any) -> Iterator[Addition]:
    yield _event_call(place, index, data)
    yield _event_tool_response(place, index, data)
    yield _event_text(place, index, data)


def _event_tool_response(place: Place, index: int, data: Any) -> Addition:
    template = _event(data, place, {"function_response": {"name": "", "response": {}}}, role="user")
    hole = ("content", "parts", 0, "function_response", "name")
    return item(place, index, "tool response, as an event", Input.LINE, template, *hole)


def _event_call(place: Place, index: int, data: Any) -> Addition:
    template = _event(data, place, {"function_call": {"name": "", "args": {}}})
    return item(place, index, "call, as an event", Input.LINE, template, "content", "parts", 0, "function_call", "name")


def _event_text(place: Place, index: int, data: Any) -> Addition:
    template = _event(data, place, {"text": ""})
    return item(place, index, "message, as an event", Input.TEXT, template, "content", "parts", 0, "text")


def _event(data: Any, events: Place, part: dict[str, Any], *, role: str = "model") -> dict[str, Any]:
    """An event of the author of the last one; the name can be changed like any other."""
    author = value_at(data, (*events, max(length(data, events) - 1, 0), "author"))
    return {"author": author or "agent", "content": {"parts": [part], "role": role}}


def new_message_of_model(place: Place, label: str) -> Addition:
    template = {"parts": [{"text": ""}], "role": "model"}
    return Addition(
        label=label,
        slot=Slot(place=place, title=label, input=Input.TEXT, template=template, hole=("parts", 0, "text")),
    )


def new_rubric(place: Place, index: int, data: Any, *, label: str) -> Addition:
    rubric_id = other_rubric_id(f"rubric_{index + 1}", value_at(data, place))
    template = {"rubric_id": rubric_id, "rubric_content": {"text_property": ""}}
    return item(place, index, label, Input.TEXT, template, "rubric_content", "text_property")


def new_behaviour(place: Place, index: int) -> Addition:
    return item(place, index, "behaviour", Input.LINE, _BEHAVIOUR_TEMPLATE, "name")


def is_legacy(data: Any) -> bool:
    return isinstance(data, list) or (isinstance(data, dict) and "data" in data and "eval_id" not in data)


def length(data: Any, place: Place) -> int:
    held = value_at(data, place)
    return len(held) if isinstance(held, list) else 0


def absent_fields(data: Any, place: Place, *fields: tuple[str, str, Input]) -> Iterator[Addition]:
    for key, label, input in fields:
        if value_at(data, (*place, key)) is None:
            yield Addition(label=label, slot=Slot(place=(*place, key), title=label, input=input))


# What can be added at a row: into what it stands for, after it, and to all that it is in, nearest first.

_PERSONA_TEMPLATE = {"id": "", "description": "", "behaviors": []}


def additions(rows: Sequence[Row], index: int, data: Any) -> Sequence[Addition]:
    """What can be added with the cursor on a row, each once, nearest first."""
    found: dict[tuple[Place, str], Addition] = {}
    for row in _with_ancestors(rows, index):
        for addition in _at(row, data):
            found.setdefault((folded(addition.slot.place), addition.label), addition)
    for addition in _of_case(data):
        found.setdefault((folded(addition.slot.place), addition.label), addition)
    return list(found.values())


def additions_to_set(header: dict[str, Any]) -> Sequence[Addition]:
    """What a set can say of itself and does not yet."""
    return [
        Addition(label=label, slot=Slot(place=(key,), title=label, input=input))
        for key, label, input in (
            ("eval_set_id", "eval set id", Input.LINE),
            ("name", "name", Input.LINE),
            ("description", "description", Input.TEXT),
            ("creation_timestamp", "created", Input.NUMBER),
        )
        if value_at(header, (key,)) is None
    ]


def _with_ancestors(rows: Sequence[Row], index: int) -> Iterator[Row]:
    if not rows:
        return
    row = rows[index]
    yield row
    depth = row.depth
    for above in reversed(rows[:index]):
        if above.depth < depth:
            yield above
            depth = above.depth


def _at(row: Row, data: Any) -> Iterator[Addition]:
    inside = {
        Kind.TURN: _of_turn,
        Kind.CONTENT: _of_content,
        Kind.CALL: _of_call,
        Kind.TOOL_RESPONSE: _of_tool_response,
        Kind.MESSAGE: _of_message,
        Kind.EVENT: _of_event,
        Kind.RUBRIC: _of_rubric,
        Kind.SESSION: _of_session,
        Kind.SCENARIO: _of_scenario,
        Kind.PERSONA: _of_persona,
        Kind.BEHAVIOUR: _of_behaviour,
    }.get(row.kind)
    if inside is not None:
        yield from inside(row.place, data)
    elif row.kind in (Kind.FREE, Kind.STATE):
        yield from _of_free(row, data)
    if row.is_item:
        yield from _after(row, data)


def _after(row: Row, data: Any) -> Iterator[Addition]:
    """The same kind of thing after an item."""
    place, index = row.place[:-1], int(row.place[-1]) + 1
    if row.kind is Kind.TURN:
        yield new_turn(place, index, data)
    elif row.kind is Kind.CALL and _is_part(row.place):
        yield item(
            place, index, "call", Input.LINE, {"function_call": {"name": "", "args": {}}}, "function_call", "name"
        )
    elif row.kind is Kind.CALL:
        yield new_call(place, index, data)
    elif row.kind is Kind.TOOL_RESPONSE and _is_part(row.place):
        yield new_tool_response_part(place, index)
    elif row.kind is Kind.TOOL_RESPONSE:
        yield new_tool_response(place, index)
    elif row.kind is Kind.MESSAGE:
        yield new_message(place, index, data)
    elif row.kind is Kind.EVENT:
        yield from new_events(place, index, data)
    elif row.kind is Kind.PART:
        yield new_text_part(place, index)
    elif row.kind is Kind.RUBRIC:
        yield new_rubric(place, index, data, label="rubric")
    elif row.kind is Kind.BEHAVIOUR:
        yield new_behaviour(place, index)
    elif row.kind is Kind.FIELD and row.input is Input.TEXT:
        yield item(place, index, row.label, Input.TEXT)
    elif row.kind is Kind.FREE:
        yield item(place, index, "item", Input.VALUE)


def _of_case(data: Any) -> Iterator[Addition]:
    if isinstance(data, list):
        yield new_turn((), len(data), data)
        return
    if not isinstance(data, dict):
        return
    if is_legacy(data):
        yield new_turn(("data",), length(data, ("data",)), data)
        yield member(data, _legacy_state(data), "state key")
        return
    if value_at(data, ("conversation_scenario",)) is None:
        yield new_turn(("conversation",), length(data, ("conversation",)), data)
        yield new_scenario()
    else:
        yield new_conversation()
    yield new_rubric(("rubrics",), length(data, ("rubrics",)), data, label="rubric of the case")
    if value_at(data, ("session_input",)) is None:
        template = {"app_name": "", "user_id": "user", "state": {}}
        slot = Slot(place=("session_input",), title="app name", input=Input.LINE, template=template, hole=("app_name",))
        yield Addition(label="session", slot=slot)
    else:
        yield member(data, ("session_input", "state"), "state key")
    yield member(data, ("final_session_state",), "final state key")
    yield from absent_fields(data, (), ("creation_timestamp", "time of the case", Input.NUMBER))


def _of_turn(place: Place, data: Any) -> Iterator[Addition]:
    if is_legacy(data):
        yield new_call((*place, "expected_tool_use"), length(data, (*place, "expected_tool_use")), data)
        said = (*place, "expected_intermediate_agent_responses")
        yield new_message(said, length(data, said), data)
        yield from absent_fields(data, place, ("reference", "response", Input.TEXT))
        return
    between = (*place, "intermediate_data")
    if _uses_events(data, place):
        events = (*between, "invocation_events")
        yield from new_events(events, length(data, events), data)
    else:
        yield new_call((*between, "tool_uses"), length(data, (*between, "tool_uses")), data)
        yield new_tool_response((*between, "tool_responses"), length(data, (*between, "tool_responses")))
        said = (*between, "intermediate_responses")
        yield new_message(said, length(data, said), data)
    if value_at(data, (*place, "final_response")) is None:
        yield new_message_of_model((*place, "final_response"), "response")
    rubrics = (*place, "rubrics")
    yield new_rubric(rubrics, length(data, rubrics), data, label="rubric of the turn")
    yield from absent_fields(
        data,
        place,
        ("invocation_id", "invocation id", Input.LINE),
        ("creation_timestamp", "time of the turn", Input.NUMBER),
        ("app_details", "app details as JSON", Input.JSON),
    )


def _of_content(place: Place, data: Any) -> Iterator[Addition]:
    parts = (*place, "parts")
    if isinstance(value_at(data, parts), list):
        yield new_text_part(parts, length(data, parts))
        yield new_part_as_json(parts, length(data, parts))
        yield from absent_fields(data, place, ("role", "role", Input.LINE))


def _of_call(place: Place, data: Any) -> Iterator[Addition]:
    at = (*place, "function_call") if value_at(data, (*place, "function_call")) is not None else place
    held = value_at(data, at)
    if not isinstance(held, dict):
        return
    vertex = "tool_name" in held or "tool_input" in held
    yield member(data, (*at, "tool_input" if vertex else "args"), "argument")
    if not vertex:
        yield from absent_fields(data, at, ("id", "call id", Input.LINE))


def _of_tool_response(place: Place, data: Any) -> Iterator[Addition]:
    at = (*place, "function_response") if value_at(data, (*place, "function_response")) is not None else place
    if isinstance(value_at(data, at), dict):
        yield member(data, (*at, "response"), "key of the response")
        yield from absent_fields(data, at, ("id", "call id", Input.LINE))


def _of_message(place: Place, data: Any) -> Iterator[Addition]:
    for parts in ((*place, 1), (*place, "parts")):
        if isinstance(value_at(data, parts), list):
            yield new_text_part(parts, length(data, parts))
            yield new_part_as_json(parts, length(data, parts))


def _of_event(place: Place, data: Any) -> Iterator[Addition]:
    parts = (*place, "content", "parts")
    count = length(data, parts)
    if value_at(data, parts) is None:
        yield new_message_of_model((*place, "content"), "text")
        return
    yield new_text_part(parts, count)
    yield item(parts, count, "call", Input.LINE, {"function_call": {"name": "", "args": {}}}, "function_call", "name")
    yield new_tool_response_part(parts, count)
    yield new_part_as_json(parts, count)


def _of_rubric(place: Place, data: Any) -> Iterator[Addition]:
    yield from absent_fields(data, place, ("description", "description", Input.TEXT), ("type", "type", Input.LINE))


def _of_session(place: Place, data: Any) -> Iterator[Addition]:
    yield member(data, (*place, "state"), "state key")
    if not is_legacy(data):
        yield from absent_fields(data, place, ("session_id", "session id", Input.LINE))


def _of_scenario(place: Place, data: Any) -> Iterator[Addition]:
    persona = (*place, "user_persona")
    if value_at(data, persona) is None:
        choices = persona_choices()
        slot = Slot(place=persona, title="persona", input=Input.LINE, choices=choices)
        yield Addition(label=f"persona: {', '.join(name for name, _ in choices)}", slot=slot)
        slot = Slot(place=persona, title="persona", input=Input.LINE, template=_PERSONA_TEMPLATE, hole=("id",))
        yield Addition(label="persona in full", slot=slot)


def _of_persona(place: Place, data: Any) -> Iterator[Addition]:
    behaviours = (*place, "behaviors")
    if isinstance(value_at(data, place), dict):  # not where it is null, or only an id
        yield new_behaviour(behaviours, length(data, behaviours))


def _of_behaviour(place: Place, data: Any) -> Iterator[Addition]:
    for key, label in (("behavior_instructions", "instruction"), ("violation_rubrics", "violated if")):
        yield item((*place, key), length(data, (*place, key)), label, Input.TEXT)


def _of_free(row: Row, data: Any) -> Iterator[Addition]:
    held = value_at(data, row.place)
    if isinstance(held, dict) or (held is None and row.kind is Kind.STATE):
        yield member(data, row.place, f"key in {row.label}")
    elif isinstance(held, list):
        yield item(row.place, len(held), f"item of {row.label}", Input.VALUE)


def _is_part(place: Place) -> bool:
    return len(place) > 1 and place[-2] == "parts"


def _legacy_state(data: dict[str, Any]) -> Place:
    return ("initial_state",) if "initial_state" in data else ("initial_session", "state")


def _uses_events(data: Any, turn: Place) -> bool:
    """Whether the turn has events or, where it has neither form, another turn of the case has."""
    own = value_at(data, (*turn, "intermediate_data"))
    if isinstance(own, dict) and own:
        return value_at(own, ("invocation_events",)) is not None
    turns = value_at(data, turn[:-1])
    return isinstance(turns, list) and any(
        value_at(other, ("intermediate_data", "invocation_events")) is not None for other in turns
    )
