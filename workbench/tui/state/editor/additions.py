"""What can be added at a row: into what it stands for, after it, and to all that it is in, nearest first.

New content has the form that the case has already: flat lists of calls, or events; the old formats keep their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.tui.state.editor.operations import Slot, other_rubric_id
from workbench.tui.state.editor.rows import Input, Kind, Place, Row, folded, spelt, value_at

_PERSONA_TEMPLATE = {"id": "", "description": "", "behaviors": []}
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
        yield _turn(place, index, data)
    elif row.kind is Kind.CALL and _is_part(row.place):
        yield _item(
            place, index, "call", Input.LINE, {"function_call": {"name": "", "args": {}}}, "function_call", "name"
        )
    elif row.kind is Kind.CALL:
        yield _call(place, index, data)
    elif row.kind is Kind.TOOL_RESPONSE and _is_part(row.place):
        yield _tool_response_part(place, index)
    elif row.kind is Kind.TOOL_RESPONSE:
        yield _tool_response(place, index)
    elif row.kind is Kind.MESSAGE:
        yield _message(place, index, data)
    elif row.kind is Kind.EVENT:
        yield from _events(place, index, data)
    elif row.kind is Kind.PART:
        yield _text_part(place, index)
    elif row.kind is Kind.RUBRIC:
        yield _rubric(place, index, data, label="rubric")
    elif row.kind is Kind.BEHAVIOUR:
        yield _behaviour(place, index)
    elif row.kind is Kind.FIELD and row.input is Input.TEXT:
        yield _item(place, index, row.label, Input.TEXT)
    elif row.kind is Kind.FREE:
        yield _item(place, index, "item", Input.VALUE)


def _of_case(data: Any) -> Iterator[Addition]:
    if isinstance(data, list):
        yield _turn((), len(data), data)
        return
    if not isinstance(data, dict):
        return
    if _is_legacy(data):
        yield _turn(("data",), _length(data, ("data",)), data)
        yield _key(data, _legacy_state(data), "state key")
        return
    if value_at(data, ("conversation_scenario",)) is None:
        yield _turn(("conversation",), _length(data, ("conversation",)), data)
        yield _scenario()
    else:
        yield _conversation()
    yield _rubric(("rubrics",), _length(data, ("rubrics",)), data, label="rubric of the case")
    if value_at(data, ("session_input",)) is None:
        template = {"app_name": "", "user_id": "user", "state": {}}
        slot = Slot(place=("session_input",), title="app name", input=Input.LINE, template=template, hole=("app_name",))
        yield Addition(label="session", slot=slot)
    else:
        yield _key(data, ("session_input", "state"), "state key")
    yield _key(data, ("final_session_state",), "final state key")
    yield from _absent(data, (), ("creation_timestamp", "time of the case", Input.NUMBER))


def _of_turn(place: Place, data: Any) -> Iterator[Addition]:
    if _is_legacy(data):
        yield _call((*place, "expected_tool_use"), _length(data, (*place, "expected_tool_use")), data)
        said = (*place, "expected_intermediate_agent_responses")
        yield _message(said, _length(data, said), data)
        yield from _absent(data, place, ("reference", "response", Input.TEXT))
        return
    between = (*place, "intermediate_data")
    if _uses_events(data, place):
        events = (*between, "invocation_events")
        yield from _events(events, _length(data, events), data)
    else:
        yield _call((*between, "tool_uses"), _length(data, (*between, "tool_uses")), data)
        yield _tool_response((*between, "tool_responses"), _length(data, (*between, "tool_responses")))
        said = (*between, "intermediate_responses")
        yield _message(said, _length(data, said), data)
    if value_at(data, (*place, "final_response")) is None:
        yield _message_of_model((*place, "final_response"), "response")
    rubrics = (*place, "rubrics")
    yield _rubric(rubrics, _length(data, rubrics), data, label="rubric of the turn")
    yield from _absent(
        data,
        place,
        ("invocation_id", "invocation id", Input.LINE),
        ("creation_timestamp", "time of the turn", Input.NUMBER),
        ("app_details", "app details as JSON", Input.JSON),
    )


def _of_content(place: Place, data: Any) -> Iterator[Addition]:
    parts = (*place, "parts")
    if isinstance(value_at(data, parts), list):
        yield _text_part(parts, _length(data, parts))
        yield _part_as_json(parts, _length(data, parts))
        yield from _absent(data, place, ("role", "role", Input.LINE))


def _of_call(place: Place, data: Any) -> Iterator[Addition]:
    at = (*place, "function_call") if value_at(data, (*place, "function_call")) is not None else place
    held = value_at(data, at)
    if not isinstance(held, dict):
        return
    vertex = "tool_name" in held or "tool_input" in held
    yield _key(data, (*at, "tool_input" if vertex else "args"), "argument")
    if not vertex:
        yield from _absent(data, at, ("id", "call id", Input.LINE))


def _of_tool_response(place: Place, data: Any) -> Iterator[Addition]:
    at = (*place, "function_response") if value_at(data, (*place, "function_response")) is not None else place
    if isinstance(value_at(data, at), dict):
        yield _key(data, (*at, "response"), "key of the response")
        yield from _absent(data, at, ("id", "call id", Input.LINE))


def _of_message(place: Place, data: Any) -> Iterator[Addition]:
    for parts in ((*place, 1), (*place, "parts")):
        if isinstance(value_at(data, parts), list):
            yield _text_part(parts, _length(data, parts))
            yield _part_as_json(parts, _length(data, parts))


def _of_event(place: Place, data: Any) -> Iterator[Addition]:
    parts = (*place, "content", "parts")
    count = _length(data, parts)
    if value_at(data, parts) is None:
        yield _message_of_model((*place, "content"), "text")
        return
    yield _text_part(parts, count)
    yield _item(parts, count, "call", Input.LINE, {"function_call": {"name": "", "args": {}}}, "function_call", "name")
    yield _tool_response_part(parts, count)
    yield _part_as_json(parts, count)


def _of_rubric(place: Place, data: Any) -> Iterator[Addition]:
    yield from _absent(data, place, ("description", "description", Input.TEXT), ("type", "type", Input.LINE))


def _of_session(place: Place, data: Any) -> Iterator[Addition]:
    yield _key(data, (*place, "state"), "state key")
    if not _is_legacy(data):
        yield from _absent(data, place, ("session_id", "session id", Input.LINE))


def _of_scenario(place: Place, data: Any) -> Iterator[Addition]:
    persona = (*place, "user_persona")
    if value_at(data, persona) is None:
        yield Addition(label="persona by its id", slot=Slot(place=persona, title="persona", input=Input.LINE))
        slot = Slot(place=persona, title="persona", input=Input.LINE, template=_PERSONA_TEMPLATE, hole=("id",))
        yield Addition(label="persona in full", slot=slot)


def _of_persona(place: Place, data: Any) -> Iterator[Addition]:
    behaviours = (*place, "behaviors")
    if isinstance(value_at(data, place), dict):  # not where it is null, or only an id
        yield _behaviour(behaviours, _length(data, behaviours))


def _of_behaviour(place: Place, data: Any) -> Iterator[Addition]:
    for key, label in (("behavior_instructions", "instruction"), ("violation_rubrics", "violated if")):
        yield _item((*place, key), _length(data, (*place, key)), label, Input.TEXT)


def _of_free(row: Row, data: Any) -> Iterator[Addition]:
    held = value_at(data, row.place)
    if isinstance(held, dict) or (held is None and row.kind is Kind.STATE):
        yield _key(data, row.place, f"key in {row.label}")
    elif isinstance(held, list):
        yield _item(row.place, len(held), f"item of {row.label}", Input.VALUE)


def _absent(data: Any, place: Place, *fields: tuple[str, str, Input]) -> Iterator[Addition]:
    for key, label, input in fields:
        if value_at(data, (*place, key)) is None:
            yield Addition(label=label, slot=Slot(place=(*place, key), title=label, input=input))


def _item(place: Place, index: int, label: str, input: Input, template: Any = None, *hole: str | int) -> Addition:
    """A new item of the list at a place; the first one makes the list."""
    return Addition(
        label=label,
        slot=Slot(place=place, index=index, title=label, input=input, template=template, hole=hole if hole else None),
    )


def _key(data: Any, place: Place, label: str) -> Addition:
    return Addition(label=label, slot=Slot(place=spelt(data, place), title=label, input=Input.VALUE), needs_key=True)


def _turn(place: Place, index: int, data: Any) -> Addition:
    if _is_legacy(data):
        return _item(place, index, "turn", Input.TEXT, {"query": "", "expected_tool_use": [], "reference": ""}, "query")
    template = {"user_content": {"parts": [{"text": ""}], "role": "user"}}
    return _item(place, index, "turn", Input.TEXT, template, "user_content", "parts", 0, "text")


def _scenario() -> Addition:
    slot = Slot(
        place=("conversation_scenario",),
        title="starting prompt",
        input=Input.TEXT,
        template={"starting_prompt": "", "conversation_plan": ""},
        hole=("starting_prompt",),
        instead_of=("conversation",),
    )
    return Addition(label="scenario instead of the conversation", slot=slot)


def _conversation() -> Addition:
    slot = Slot(
        place=("conversation",),
        title="turn",
        input=Input.TEXT,
        template=[{"user_content": {"parts": [{"text": ""}], "role": "user"}}],
        hole=(0, "user_content", "parts", 0, "text"),
        instead_of=("conversation_scenario",),
    )
    return Addition(label="conversation instead of the scenario", slot=slot)


def _call(place: Place, index: int, data: Any) -> Addition:
    calls = value_at(data, place)
    vertex = _is_legacy(data) or (isinstance(calls, list) and any("tool_name" in call for call in calls))
    name, arguments = ("tool_name", "tool_input") if vertex else ("name", "args")
    return _item(place, index, "call", Input.LINE, {name: "", arguments: {}}, name)


def _tool_response(place: Place, index: int) -> Addition:
    return _item(place, index, "tool response", Input.LINE, {"name": "", "response": {}}, "name")


def _tool_response_part(place: Place, index: int) -> Addition:
    template = {"function_response": {"name": "", "response": {}}}
    return _item(place, index, "tool response", Input.LINE, template, "function_response", "name")


def _message(place: Place, index: int, data: Any) -> Addition:
    if _is_legacy(data):
        return _item(place, index, "sub-agent message", Input.LINE, {"author": "", "text": ""}, "author")
    return _item(place, index, "sub-agent message", Input.LINE, ["", [{"text": ""}]], 0)


def _part_as_json(place: Place, index: int) -> Addition:
    return _item(place, index, "part as JSON", Input.JSON)


def _text_part(place: Place, index: int) -> Addition:
    return _item(place, index, "text part", Input.TEXT, {"text": ""}, "text")


def _events(place: Place, index: int, data: Any) -> Iterator[Addition]:
    yield _event_call(place, index, data)
    yield _event_tool_response(place, index, data)
    yield _event_text(place, index, data)


def _event_tool_response(place: Place, index: int, data: Any) -> Addition:
    template = _event(data, place, {"function_response": {"name": "", "response": {}}}, role="user")
    hole = ("content", "parts", 0, "function_response", "name")
    return _item(place, index, "tool response, as an event", Input.LINE, template, *hole)


def _event_call(place: Place, index: int, data: Any) -> Addition:
    template = _event(data, place, {"function_call": {"name": "", "args": {}}})
    return _item(
        place, index, "call, as an event", Input.LINE, template, "content", "parts", 0, "function_call", "name"
    )


def _event_text(place: Place, index: int, data: Any) -> Addition:
    template = _event(data, place, {"text": ""})
    return _item(place, index, "message, as an event", Input.TEXT, template, "content", "parts", 0, "text")


def _event(data: Any, events: Place, part: dict[str, Any], *, role: str = "model") -> dict[str, Any]:
    """An event of the author of the last one; the name can be changed like any other."""
    author = value_at(data, (*events, max(_length(data, events) - 1, 0), "author"))
    return {"author": author or "agent", "content": {"parts": [part], "role": role}}


def _message_of_model(place: Place, label: str) -> Addition:
    template = {"parts": [{"text": ""}], "role": "model"}
    return Addition(
        label=label,
        slot=Slot(place=place, title=label, input=Input.TEXT, template=template, hole=("parts", 0, "text")),
    )


def _rubric(place: Place, index: int, data: Any, *, label: str) -> Addition:
    rubric_id = other_rubric_id(f"rubric_{index + 1}", value_at(data, place))
    template = {"rubric_id": rubric_id, "rubric_content": {"text_property": ""}}
    return _item(place, index, label, Input.TEXT, template, "rubric_content", "text_property")


def _behaviour(place: Place, index: int) -> Addition:
    return _item(place, index, "behaviour", Input.LINE, _BEHAVIOUR_TEMPLATE, "name")


def _is_part(place: Place) -> bool:
    return len(place) > 1 and place[-2] == "parts"


def _is_legacy(data: Any) -> bool:
    return isinstance(data, list) or (isinstance(data, dict) and "data" in data and "eval_id" not in data)


def _legacy_state(data: dict[str, Any]) -> Place:
    return ("initial_state",) if "initial_state" in data else ("initial_session", "state")


def _length(data: Any, place: Place) -> int:
    held = value_at(data, place)
    return len(held) if isinstance(held, list) else 0


def _uses_events(data: Any, turn: Place) -> bool:
    """Whether the turn has events or, where it has neither form, another turn of the case has."""
    own = value_at(data, (*turn, "intermediate_data"))
    if isinstance(own, dict) and own:
        return value_at(own, ("invocation_events",)) is not None
    turns = value_at(data, turn[:-1])
    return isinstance(turns, list) and any(
        value_at(other, ("intermediate_data", "invocation_events")) is not None for other in turns
    )
