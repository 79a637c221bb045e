"""What can be added at a row: into what it stands for, after it, and to all that it is in, nearest first.

New content has the form that the case has already: flat lists of calls, or events; the old formats keep their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workbench.tui.state.editor.new_items import (
    Addition,
    absent_fields,
    is_legacy,
    item,
    length,
    member,
    new_behaviour,
    new_call,
    new_conversation,
    new_events,
    new_message,
    new_message_of_model,
    new_part_as_json,
    new_rubric,
    new_scenario,
    new_text_part,
    new_tool_response,
    new_tool_response_part,
    new_turn,
)
from workbench.tui.state.editor.operations import Slot, persona_choices
from workbench.tui.state.editor.rows import Input, Kind, Place, Row, folded, value_at

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
