"""A case as rows, in the order in which people think of it; every value of the file has its row.

What is not as the format has it is shown as the JSON that it is, so that nothing of a file is hidden or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench.tui.state.editor.contents import call, content, event, message, tool_response
from workbench.tui.state.editor.rows import Input, Kind, Members, Row, Spot
from workbench.tui.state.editor.values import field, free, texts

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
