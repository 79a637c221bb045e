"""New things for a case, each with the slot in which what is typed goes, in the form that the case has already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.tui.state.editor.operations import Slot, other_rubric_id
from workbench.tui.state.editor.rows import Input, Place, spelt, value_at

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
