"""Edits of a case as data: what can be done with each row, and how typed text becomes a value."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.model.evalset import PERSONAS
from workbench.tui.state.call_line import NAME_KEYS, TypedCall, format_call, read_call, replace_call
from workbench.tui.state.case_filter import find_free_name
from workbench.tui.state.case_outline import (
    ABSENT,
    Input,
    OutlineKind,
    OutlineRow,
    Place,
    find_end,
    find_spelling,
    find_value,
    get_value,
    normalize_place,
    spell_place,
)

if TYPE_CHECKING:
    from workbench.store.evalsets.evalset_document import EvalSetDocument

# Edits as data. `apply` makes an edit in a case, or in the set itself, as one step of undo.


class Impossible(Exception):
    """The operation is not possible on this row. The text is the reason, for the user."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Replace the value at a place, or add it there."""

    place: Place
    value: Any
    is_first_item: bool = field(default=False, compare=False)  # the value is a new list with one item

    @property
    def cursor_place(self) -> Place:
        """The place for the cursor after the edit: the value, or the first item of a new list."""
        return (*self.place, 0) if self.is_first_item else self.place

    def apply(self, document: EvalSetDocument, *, case: int | None) -> None:
        document.set_value(self.place, self.value, case=case)


@dataclass(frozen=True, slots=True)
class InsertItem:
    """Insert a value into the list at a place."""

    place: Place
    index: int
    value: Any

    @property
    def cursor_place(self) -> Place:
        return (*self.place, self.index)

    def apply(self, document: EvalSetDocument, *, case: int | None) -> None:
        document.insert_item(self.place, self.index, self.value, case=case)


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Remove a member or item."""

    place: Place

    @property
    def cursor_place(self) -> Place:
        """The next item, else the parent."""
        return self.place

    def apply(self, document: EvalSetDocument, *, case: int | None) -> None:
        document.remove_value(self.place, case=case)


@dataclass(frozen=True, slots=True)
class MoveItem:
    """Move an item within its list."""

    place: Place
    source: int
    target: int

    @property
    def cursor_place(self) -> Place:
        return (*self.place, self.target)

    def apply(self, document: EvalSetDocument, *, case: int | None) -> None:
        document.move_item(self.place, self.source, self.target, case=case)


@dataclass(frozen=True, slots=True)
class RenameKey:
    """Rename the key of a member. The member keeps its position."""

    place: Place
    key: str

    @property
    def cursor_place(self) -> Place:
        """The member under its new key."""
        return (*self.place[:-1], self.key)

    def apply(self, document: EvalSetDocument, *, case: int | None) -> None:
        document.rename_key(self.place, self.key, case=case)


@dataclass(frozen=True, slots=True)
class ReplaceMember:
    """Replace a member by another one, if a case may have only one of the two."""

    old: Place
    new: SetValue

    @property
    def cursor_place(self) -> Place:
        return self.new.place

    def apply(self, document: EvalSetDocument, *, case: int | None) -> None:
        with document.step(f"{self.new.place[-1]} instead of {self.old[-1]}"):
            self.new.apply(document, case=case)
            document.remove_value(self.old, case=case)


Edit = SetValue | InsertItem | RemoveValue | MoveItem | RenameKey | ReplaceMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The target of a typed value: `place`, or the item `index` of the list there.

    The value is written at `hole` in `template`; without a template it is written alone. A call is written into the
    call at `hole`, or into the existing one. `title` names the value for the user. The value replaces the member at
    `instead_of`. With `choices` (value and meaning) only these values are possible, and the user does not type.
    """

    place: Place
    title: str
    input: Input
    index: int | None = None
    template: Any = None
    hole: Place | None = None
    instead_of: Place | None = None
    choices: tuple[tuple[str, str], ...] = ()

    def edit(self, value: Any, data: Any) -> SetValue | InsertItem | ReplaceMember:
        """Return the edit that writes a typed value into this data. The first item of a list creates the list.

        Raises Impossible if the item that the value belongs to was deleted.
        """
        if self.input is Input.CALL and self.hole is None:
            call = get_value(data, self.place)
            if not isinstance(call, dict | None):
                raise Impossible("this is no longer a call with a name and arguments")
            whole = replace_call(call or {}, value)
        else:
            whole = value if self.hole is None else _fill(self.template, self.hole, value)
        if not _can_be_set(data, self.place):
            raise Impossible("the item for this text is no longer in the case")
        if self.instead_of is not None and find_value(data, self.instead_of) is not ABSENT:
            return ReplaceMember(self.instead_of, SetValue(self.place, whole))
        if self.index is None:
            return SetValue(self.place, whole)
        items = get_value(data, self.place)
        if not isinstance(items, list):
            return SetValue(self.place, [whole], is_first_item=True)
        return InsertItem(self.place, min(self.index, len(items)), whole)


def _fill(template: Any, hole: Place, value: Any) -> Any:
    filled = copy.deepcopy(template)
    if isinstance(value, TypedCall):
        value = replace_call(get_value(filled, hole), value)
    if not hole:
        return value
    get_value(filled, hole[:-1])[hole[-1]] = value
    return filled


def _can_be_set(data: Any, place: Place) -> bool:
    """Whether a value exists at the place or can be added there: as a member of an object, of null, or of a new one."""
    for index, step in enumerate(place):
        below = find_value(data, (step,))
        if below is ABSENT:
            return (data is None or isinstance(data, dict)) and all(isinstance(key, str) for key in place[index:])
        data = below
    return True


_LONGEST_CALL = 1_000  # characters; of a longer one, the row edits the name only


def find_slot(row: OutlineRow, data: Any) -> Slot:
    """Return the slot that enter edits: the value of the row, or for a heading all of it as JSON."""
    if row.kind is OutlineKind.CONTENT and not _has_text(row):
        parts = find_spelling(row.value, "parts") if isinstance(row.value, dict) else "parts"
        if not isinstance(row.value, dict) or not row.value.get(parts):
            return _find_slot_of_empty_content(row, parts)
    if row.value_place is None:
        return find_json_slot(row, data)
    if row.kind is OutlineKind.CALL and row.value_place[-1] in NAME_KEYS:
        place = row.value_place[:-1]
        call = read_call(get_value(data, place))
        if call is not None and call.name and len(format_call(call.name, call.arguments or {})) <= _LONGEST_CALL:
            return Slot(place=place, title=row.label, input=Input.CALL)
    is_persona = normalize_place(row.value_place)[-1:] == ("user_persona",)
    choices = list_personas() if is_persona else ()
    return Slot(place=row.value_place, title=row.label, input=row.input, choices=choices)


def list_personas() -> tuple[tuple[str, str], ...]:
    """Return the ids and descriptions of the personas that a scenario can use."""
    return tuple((name, persona.description) for name, persona in PERSONAS.items())


def find_json_slot(row: OutlineRow, data: Any) -> Slot:
    """Return the slot that is edited as JSON: the arguments of a call, else the whole value of the row."""
    place = row.json_place
    if get_value(data, place) is None and place:
        place = row.place
    return Slot(place=place, title=f"{row.label} as JSON", input=Input.JSON)


def make_removal(row: OutlineRow) -> RemoveValue:
    """Return the edit that removes the row. Raises Impossible."""
    if not row.place:
        raise Impossible("this is the whole case; delete it in the list of cases")
    if _is_half_of_pair(row):
        raise Impossible("a sub-agent's message has both an author and parts")
    return RemoveValue(row.place)


def make_move(row: OutlineRow, data: Any, *, by: int) -> MoveItem:
    """Return the edit that moves the row in its list. Raises Impossible."""
    items = get_value(data, row.place[:-1]) if row.place else None
    if not row.is_item or not isinstance(items, list) or _is_half_of_pair(row):
        raise Impossible("only items of a list have an order: turns, calls, parts, events, rubrics …")
    source = int(row.place[-1])
    target = source + by
    if not 0 <= target < len(items):
        raise Impossible("it is the first already" if by < 0 else "it is the last already")
    return MoveItem(row.place[:-1], source, target)


def copy_item(row: OutlineRow, data: Any) -> InsertItem:
    """Return the edit that inserts a copy after an item. The copy of a rubric gets a new id. Raises Impossible."""
    if not row.is_item or _is_half_of_pair(row):
        raise Impossible("only items of a list, and keys of your own, can be duplicated")
    value = copy.deepcopy(get_value(data, row.place))
    if row.kind is OutlineKind.RUBRIC and isinstance(value, dict):
        key = find_spelling(value, "rubric_id")
        value[key] = _make_rubric_id(str(value.get(key, "rubric")), get_value(data, row.place[:-1]))
    return InsertItem(row.place[:-1], int(row.place[-1]) + 1, value)


def copy_under_key(row: OutlineRow, data: Any, key: str) -> SetValue:
    """Return the edit that copies a member of the user's JSON to another key."""
    return SetValue((*row.place[:-1], key), copy.deepcopy(get_value(data, row.place)))


def check_key(key: str, data: Any, place: Place) -> str | None:
    """Return why the object at a place cannot get a member of this key; None if it can."""
    parent = get_value(data, place)
    if not key:
        return "expected a name"
    return f"the key {key!r} already exists" if isinstance(parent, dict) and key in parent else None


def _make_rubric_id(rubric_id: str, rubrics: Any) -> str:
    """Return the id, with a number if a rubric of the list has it already."""
    known = {get_value(rubric, ("rubric_id",)) for rubric in rubrics} if isinstance(rubrics, list) else set()
    return find_free_name(rubric_id, known)


def _has_text(row: OutlineRow) -> bool:
    return row.value_place is not None and row.input is Input.TEXT


def _find_slot_of_empty_content(row: OutlineRow, parts: str) -> Slot:
    """Return the slot for the first text of a message that is missing or has no parts."""
    if isinstance(row.value, dict):
        return Slot(
            place=(*row.place, parts), title=row.label, input=Input.TEXT, template=[{"text": ""}], hole=(0, "text")
        )
    role = "user" if row.label == "user" else "model"
    return _make_message(row.label, role=role).as_addition(row.place).slot


def _is_half_of_pair(row: OutlineRow) -> bool:
    """Whether the row is the author or the parts of a message that the format writes as a list of these two."""
    return len(row.place) > 2 and row.place[-3] in ("intermediate_responses", "intermediateResponses")


# Additions: new values for a case, in the form that the case uses already.


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A value to add at `slot`. With `needs_key`, the user must choose a key, which becomes the last step."""

    label: str
    slot: Slot
    needs_key: bool = False

    def with_key(self, key: str) -> Slot:
        """Return the slot for a chosen key."""
        return Slot(place=(*self.slot.place, key), title=key, input=self.slot.input)


@dataclass(frozen=True, slots=True)
class _NewValue:
    """A kind of value to add: the text that the user types is written at `hole` in `template`."""

    label: str
    input: Input
    template: Any = None
    hole: Place | None = None

    def as_addition(self, place: Place, index: int | None = None) -> Addition:
        """Add it at a place, or as an item of the list there. The first item creates the list."""
        slot = Slot(
            place=place, index=index, title=self.label, input=self.input, template=self.template, hole=self.hole
        )
        return Addition(label=self.label, slot=slot)

    def as_last_item(self, place: Place, data: Any) -> Addition:
        """Add it at the end of the list at a place."""
        return self.as_addition(place, _count_items(data, place))


def _make_message(label: str, *, role: str) -> _NewValue:
    return _NewValue(label, Input.TEXT, {"parts": [{"text": ""}], "role": role}, ("parts", 0, "text"))


_NEW_CALL = {"name": "", "args": {}}
_NEW_RESPONSE = {"name": "", "response": {}}
_NEW_USER_TURN = {"user_content": {"parts": [{"text": ""}], "role": "user"}}

_TURN = _NewValue("turn", Input.TEXT, _NEW_USER_TURN, ("user_content", "parts", 0, "text"))
_LEGACY_TURN = _NewValue("turn", Input.TEXT, {"query": "", "expected_tool_use": [], "reference": ""}, ("query",))
_CALL = _NewValue("call", Input.CALL, _NEW_CALL, ())
_VERTEX_CALL = _NewValue("call", Input.CALL, {"tool_name": "", "tool_input": {}}, ())
_CALL_PART = _NewValue("call", Input.CALL, {"function_call": _NEW_CALL}, ("function_call",))
_RESPONSE = _NewValue("tool response", Input.LINE, _NEW_RESPONSE, ("name",))
_RESPONSE_PART = _NewValue(
    "tool response", Input.LINE, {"function_response": _NEW_RESPONSE}, ("function_response", "name")
)
_MESSAGE = _NewValue("sub-agent message", Input.LINE, ["", [{"text": ""}]], (0,))
_LEGACY_MESSAGE = _NewValue("sub-agent message", Input.LINE, {"author": "", "text": ""}, ("author",))
_TEXT_PART = _NewValue("text part", Input.TEXT, {"text": ""}, ("text",))
_JSON_PART = _NewValue("part as JSON", Input.JSON)
_BEHAVIOUR = _NewValue(
    "behaviour",
    Input.LINE,
    {"name": "", "description": "", "behavior_instructions": [], "violation_rubrics": []},
    ("name",),
)
_PERSONA = _NewValue("persona", Input.LINE, {"id": "", "description": "", "behaviors": []}, ("id",))
_SESSION = _NewValue("app name", Input.LINE, {"app_name": "", "user_id": "user", "state": {}}, ("app_name",))


def list_additions(rows: Sequence[OutlineRow], index: int, data: Any) -> Sequence[Addition]:
    """Return what can be added with the cursor on a row: in it, after it, and in all its ancestors, nearest first."""
    found: dict[tuple[Place, str], Addition] = {}
    for row in _with_ancestors(rows, index):
        for addition in _list_row_additions(row, data):
            found.setdefault((normalize_place(addition.slot.place), addition.label), addition)
    for addition in _list_case_additions(data):
        found.setdefault((normalize_place(addition.slot.place), addition.label), addition)
    return list(found.values())


def add_ghost_rows(rows: Sequence[OutlineRow], data: Any) -> Sequence[OutlineRow]:
    """Return the rows with a ghost row wherever a first call, a response or another turn can be added."""
    turns = [index for index, row in enumerate(rows) if row.kind is OutlineKind.TURN and row.is_item]
    if not turns:
        return rows
    shown: list[OutlineRow] = list(rows[: turns[0]])
    for start, following in zip(turns, [*turns[1:], len(rows)], strict=True):
        turn = rows[start]
        end = find_end(rows, start)
        shown += rows[start:end]
        has_steps = any(row.kind in (OutlineKind.CALL, OutlineKind.EVENT) for row in rows[start:end])
        labels = [addition.label for addition in _list_turn_additions(turn.place, data)]
        shown += [
            _make_ghost(turn, label, depth=turn.depth + 1)
            for label in labels
            if label == "response" or (label == "call" and not has_steps)
        ]
        if start == turns[-1]:
            shown.append(_make_ghost(turn, "turn", depth=turn.depth))
        shown += rows[end:following]
    return shown


def find_ghost_addition(ghost: OutlineRow, data: Any) -> Addition | None:
    """Return what a ghost row adds."""
    place, label = ghost.place[:-1], ghost.label.removeprefix("+ ")
    if label == "turn":
        return _choose_turn(data).as_addition(place[:-1], int(place[-1]) + 1)
    return next((each for each in _list_turn_additions(place, data) if each.label == label), None)


def find_typing_row(rows: Sequence[OutlineRow], slot: Slot, data: Any) -> OutlineRow | None:
    """Return the row in which the value of a slot is typed; None if it has no row."""
    for row in rows:
        if row.kind is OutlineKind.GHOST:
            turn = row.place[:-1]
            if slot.place == turn[:-1] or slot.place[: len(turn)] == turn:
                addition = find_ghost_addition(row, data)
                if addition is not None and addition.slot == slot:
                    return row
        elif slot.place[: len(row.place)] == row.place and find_slot(row, data) == slot:
            return row
    return None


def add_typing_row(rows: Sequence[OutlineRow], slot: Slot) -> tuple[Sequence[OutlineRow], OutlineRow]:
    """Return the rows with a ghost row for a new value, after the item before it or at the end of its parent."""
    before = (*slot.place, slot.index - 1) if slot.index else None
    near = before or slot.place[:-1]
    above = [index for index, row in enumerate(rows) if near[: len(row.place)] == row.place]
    start = max(above, key=lambda index: (len(rows[index].place), -index), default=None)
    depth, end = 0, len(rows)
    if start is not None:
        depth, end = rows[start].depth + (rows[start].place != before), find_end(rows, start)
    label = f"+ {slot.title}"
    new = OutlineRow(place=(*slot.place, label), kind=OutlineKind.GHOST, depth=depth, label=label, value=None)
    return (*rows[:end], new, *rows[end:]), new


def _make_ghost(turn: OutlineRow, label: str, *, depth: int) -> OutlineRow:
    label = f"+ {label}"
    return OutlineRow(place=(*turn.place, label), kind=OutlineKind.GHOST, depth=depth, label=label, value=None)


def list_set_additions(header: dict[str, Any]) -> Sequence[Addition]:
    """Return the fields that can be added to an eval set."""
    return list(
        _missing_fields(
            header,
            (),
            ("eval_set_id", "eval set id", Input.LINE),
            ("name", "name", Input.LINE),
            ("description", "description", Input.TEXT),
            ("creation_timestamp", "created", Input.NUMBER),
        )
    )


def _with_ancestors(rows: Sequence[OutlineRow], index: int) -> Iterator[OutlineRow]:
    if not rows:
        return
    row = rows[index]
    yield row
    depth = row.depth
    for above in reversed(rows[:index]):
        if above.depth < depth:
            yield above
            depth = above.depth


def _list_row_additions(row: OutlineRow, data: Any) -> Iterator[Addition]:
    inner = _INNER_ADDITIONS.get(row.kind)
    if inner is not None:
        yield from inner(row.place, data)
    elif row.kind in (OutlineKind.FREE, OutlineKind.STATE):
        yield from _list_free_additions(row, data)
    if row.is_item:
        place, index = row.place[:-1], int(row.place[-1]) + 1
        for new in _siblings(row, data):
            yield new.as_addition(place, index)


def _siblings(row: OutlineRow, data: Any) -> Sequence[_NewValue]:
    """Return the new values that can follow an item: values of its own kind."""
    is_part = len(row.place) > 1 and row.place[-2] == "parts"
    place = row.place[:-1]
    match row.kind:
        case OutlineKind.TURN:
            return [_choose_turn(data)]
        case OutlineKind.CALL:
            return [_CALL_PART if is_part else _choose_call(data, place)]
        case OutlineKind.TOOL_RESPONSE:
            return [_RESPONSE_PART if is_part else _RESPONSE]
        case OutlineKind.MESSAGE:
            return [_choose_message(data)]
        case OutlineKind.EVENT:
            return _make_events(data, place)
        case OutlineKind.PART:
            return [_TEXT_PART]
        case OutlineKind.RUBRIC:
            return [_make_rubric("rubric", data, place, int(row.place[-1]) + 1)]
        case OutlineKind.BEHAVIOUR:
            return [_BEHAVIOUR]
        case OutlineKind.FIELD if row.input is Input.TEXT:
            return [_NewValue(row.label, Input.TEXT)]
        case OutlineKind.FREE:
            return [_NewValue("item", Input.VALUE)]
        case _:
            return []


def _choose_turn(data: Any) -> _NewValue:
    return _LEGACY_TURN if _is_legacy(data) else _TURN


def _choose_message(data: Any) -> _NewValue:
    return _LEGACY_MESSAGE if _is_legacy(data) else _MESSAGE


def _choose_call(data: Any, place: Place) -> _NewValue:
    calls = get_value(data, place)
    is_vertex = _is_legacy(data) or (isinstance(calls, list) and any("tool_name" in call for call in calls))
    return _VERTEX_CALL if is_vertex else _CALL


def _make_rubric(label: str, data: Any, place: Place, index: int) -> _NewValue:
    rubric_id = _make_rubric_id(f"rubric_{index + 1}", get_value(data, place))
    template = {"rubric_id": rubric_id, "rubric_content": {"text_property": ""}}
    return _NewValue(label, Input.TEXT, template, ("rubric_content", "text_property"))


def _make_events(data: Any, events: Place) -> list[_NewValue]:
    """Return a new call, tool response and message as events, by the author of the last event."""
    author = get_value(data, (*events, max(_count_items(data, events) - 1, 0), "author")) or "agent"

    def make(label: str, part: _NewValue, role: str) -> _NewValue:
        template = {"author": author, "content": {"parts": [part.template], "role": role}}
        return _NewValue(f"{label}, as an event", part.input, template, ("content", "parts", 0, *(part.hole or ())))

    return [
        make("call", _CALL_PART, "model"),
        make("tool response", _RESPONSE_PART, "user"),
        make("message", _TEXT_PART, "model"),
    ]


def _list_case_additions(data: Any) -> Iterator[Addition]:
    if isinstance(data, list):
        yield _LEGACY_TURN.as_last_item((), data)
        return
    if not isinstance(data, dict):
        return
    if _is_legacy(data):
        yield _LEGACY_TURN.as_last_item(("data",), data)
        state = ("initial_state",) if "initial_state" in data else ("initial_session", "state")
        yield _make_member(data, state, "state key")
        return
    if get_value(data, ("conversation_scenario",)) is None:
        yield _TURN.as_last_item(("conversation",), data)
        yield _make_scenario()
    else:
        yield _make_conversation()
    rubrics: Place = ("rubrics",)
    yield _make_rubric("rubric of the case", data, rubrics, _count_items(data, rubrics)).as_last_item(rubrics, data)
    if get_value(data, ("session_input",)) is None:
        yield Addition(label="session", slot=_SESSION.as_addition(("session_input",)).slot)
    else:
        yield _make_member(data, ("session_input", "state"), "state key")
    yield _make_member(data, ("final_session_state",), "final state key")
    yield from _missing_fields(data, (), ("creation_timestamp", "time of the case", Input.NUMBER))


def _make_scenario() -> Addition:
    slot = Slot(
        place=("conversation_scenario",),
        title="starting prompt",
        input=Input.TEXT,
        template={"starting_prompt": "", "conversation_plan": ""},
        hole=("starting_prompt",),
        instead_of=("conversation",),
    )
    return Addition(label="scenario instead of the conversation", slot=slot)


def _make_conversation() -> Addition:
    slot = Slot(
        place=("conversation",),
        title="turn",
        input=Input.TEXT,
        template=[_NEW_USER_TURN],
        hole=(0, "user_content", "parts", 0, "text"),
        instead_of=("conversation_scenario",),
    )
    return Addition(label="conversation instead of the scenario", slot=slot)


def _list_turn_additions(place: Place, data: Any) -> Iterator[Addition]:
    if _is_legacy(data):
        calls = (*place, "expected_tool_use")
        yield _choose_call(data, calls).as_last_item(calls, data)
        yield _LEGACY_MESSAGE.as_last_item((*place, "expected_intermediate_agent_responses"), data)
        yield from _missing_fields(data, place, ("reference", "response", Input.TEXT))
        return
    steps = (*place, "intermediate_data")
    if _uses_events(data, place):
        events = (*steps, "invocation_events")
        for new in _make_events(data, events):
            yield new.as_last_item(events, data)
    else:
        calls = (*steps, "tool_uses")
        yield _choose_call(data, calls).as_last_item(calls, data)
        yield _RESPONSE.as_last_item((*steps, "tool_responses"), data)
        yield _MESSAGE.as_last_item((*steps, "intermediate_responses"), data)
    response = (*place, "final_response")
    if get_value(data, response) is None:
        yield _make_message("response", role="model").as_addition(response)
    rubrics = (*place, "rubrics")
    yield _make_rubric("rubric of the turn", data, rubrics, _count_items(data, rubrics)).as_last_item(rubrics, data)
    yield from _missing_fields(
        data,
        place,
        ("invocation_id", "invocation id", Input.LINE),
        ("creation_timestamp", "time of the turn", Input.NUMBER),
        ("app_details", "app details as JSON", Input.JSON),
    )


def _list_content_additions(place: Place, data: Any) -> Iterator[Addition]:
    parts = (*place, "parts")
    if isinstance(get_value(data, parts), list):
        yield _TEXT_PART.as_last_item(parts, data)
        yield _JSON_PART.as_last_item(parts, data)
        yield from _missing_fields(data, place, ("role", "role", Input.LINE))


def _list_call_additions(place: Place, data: Any) -> Iterator[Addition]:
    at = (*place, "function_call") if get_value(data, (*place, "function_call")) is not None else place
    call = get_value(data, at)
    if not isinstance(call, dict):
        return
    is_vertex = "tool_name" in call or "tool_input" in call
    yield _make_member(data, (*at, "tool_input" if is_vertex else "args"), "argument")
    if not is_vertex:
        yield from _missing_fields(data, at, ("id", "call id", Input.LINE))


def _list_tool_response_additions(place: Place, data: Any) -> Iterator[Addition]:
    at = (*place, "function_response") if get_value(data, (*place, "function_response")) is not None else place
    if isinstance(get_value(data, at), dict):
        yield _make_member(data, (*at, "response"), "key of the response")
        yield from _missing_fields(data, at, ("id", "call id", Input.LINE))


def _list_message_additions(place: Place, data: Any) -> Iterator[Addition]:
    for parts in ((*place, 1), (*place, "parts")):
        if isinstance(get_value(data, parts), list):
            yield _TEXT_PART.as_last_item(parts, data)
            yield _JSON_PART.as_last_item(parts, data)


def _list_event_additions(place: Place, data: Any) -> Iterator[Addition]:
    parts = (*place, "content", "parts")
    if get_value(data, parts) is None:
        yield _make_message("text", role="model").as_addition((*place, "content"))
        return
    for new in (_TEXT_PART, _CALL_PART, _RESPONSE_PART, _JSON_PART):
        yield new.as_last_item(parts, data)


def _list_rubric_additions(place: Place, data: Any) -> Iterator[Addition]:
    yield from _missing_fields(data, place, ("description", "description", Input.TEXT), ("type", "type", Input.LINE))


def _list_session_additions(place: Place, data: Any) -> Iterator[Addition]:
    yield _make_member(data, (*place, "state"), "state key")
    if not _is_legacy(data):
        yield from _missing_fields(data, place, ("session_id", "session id", Input.LINE))


def _list_scenario_additions(place: Place, data: Any) -> Iterator[Addition]:
    persona = (*place, "user_persona")
    if get_value(data, persona) is None:
        choices = list_personas()
        slot = Slot(place=persona, title="persona", input=Input.LINE, choices=choices)
        yield Addition(label=f"persona: {', '.join(name for name, _ in choices)}", slot=slot)
        yield Addition(label="persona in full", slot=_PERSONA.as_addition(persona).slot)


def _list_persona_additions(place: Place, data: Any) -> Iterator[Addition]:
    if isinstance(get_value(data, place), dict):  # it may also be null or only an id
        yield _BEHAVIOUR.as_last_item((*place, "behaviors"), data)


def _list_behaviour_additions(place: Place, data: Any) -> Iterator[Addition]:
    for key, label in (("behavior_instructions", "instruction"), ("violation_rubrics", "violated if")):
        yield _NewValue(label, Input.TEXT).as_last_item((*place, key), data)


_INNER_ADDITIONS: dict[OutlineKind, Callable[[Place, Any], Iterator[Addition]]] = {
    OutlineKind.TURN: _list_turn_additions,
    OutlineKind.CONTENT: _list_content_additions,
    OutlineKind.CALL: _list_call_additions,
    OutlineKind.TOOL_RESPONSE: _list_tool_response_additions,
    OutlineKind.MESSAGE: _list_message_additions,
    OutlineKind.EVENT: _list_event_additions,
    OutlineKind.RUBRIC: _list_rubric_additions,
    OutlineKind.SESSION: _list_session_additions,
    OutlineKind.SCENARIO: _list_scenario_additions,
    OutlineKind.PERSONA: _list_persona_additions,
    OutlineKind.BEHAVIOUR: _list_behaviour_additions,
}


def _list_free_additions(row: OutlineRow, data: Any) -> Iterator[Addition]:
    value = get_value(data, row.place)
    if isinstance(value, dict) or (value is None and row.kind is OutlineKind.STATE):
        yield _make_member(data, row.place, f"key in {row.label}")
    elif isinstance(value, list):
        yield _NewValue(f"item of {row.label}", Input.VALUE).as_last_item(row.place, data)


def _make_member(data: Any, place: Place, label: str) -> Addition:
    """Return the addition of a member whose key the user chooses."""
    slot = Slot(place=spell_place(data, place), title=label, input=Input.VALUE)
    return Addition(label=label, slot=slot, needs_key=True)


def _missing_fields(data: Any, place: Place, *fields: tuple[str, str, Input]) -> Iterator[Addition]:
    for key, label, input in fields:
        if get_value(data, (*place, key)) is None:
            yield _NewValue(label, input).as_addition((*place, key))


def _is_legacy(data: Any) -> bool:
    return isinstance(data, list) or (isinstance(data, dict) and "data" in data and "eval_id" not in data)


def _count_items(data: Any, place: Place) -> int:
    items = get_value(data, place)
    return len(items) if isinstance(items, list) else 0


def _uses_events(data: Any, turn: Place) -> bool:
    """Whether the steps of the turn are events. If it has no steps, the other turns of the case decide."""
    own = get_value(data, (*turn, "intermediate_data"))
    if isinstance(own, dict) and own:
        return get_value(own, ("invocation_events",)) is not None
    turns = get_value(data, turn[:-1])
    return isinstance(turns, list) and any(
        get_value(other, ("intermediate_data", "invocation_events")) is not None for other in turns
    )
