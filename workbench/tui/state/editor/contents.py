"""Rows of messages, and of what an agent did on the way: parts, tool calls, tool responses, sub-agents, events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from workbench.tui.state.editor.rows import Input, Kind, Members, Place, Row, Spot
from workbench.tui.state.editor.values import field, free, members

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
