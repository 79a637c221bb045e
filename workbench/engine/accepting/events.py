"""Accepting in a turn that holds its agents' events: `intermediate_data` with `invocation_events`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.engine.accepting.order import Key, New, Rearrangement, settled
from workbench.engine.accepting.turn_edit import TurnEdit, change_arguments, member, parts_with_text, put
from workbench.model.evalset import InvocationEvents
from workbench.model.trajectory import ToolCall
from workbench.report.differences import DifferenceKind
from workbench.report.turns import calls_of, match_responses, responses_of

_EVENTS = ("intermediate_data", "invocation_events")
_ANYBODY = "agent"
"""The author of a call where neither side says who made it."""


@dataclass(slots=True, eq=False)
class _Part:
    """A part of an event; `call` and `answers` say which call it is, or gives the response of."""

    data: dict[str, Any]
    call: Key | None = None
    answers: Key | None = None


@dataclass(slots=True, eq=False)
class _Event:
    """An event; `origin` is its position before the edit (None: it is new), `said` its place among what was said."""

    origin: int | None
    data: dict[str, Any]
    parts: list[_Part] = field(default_factory=list)
    said: Key | None = None
    changed: bool = False

    @property
    def author(self) -> str:
        return str(member(self.data, "author") or _ANYBODY)

    @property
    def only_answers(self) -> bool:
        """Whether it does nothing but give what tools gave back."""
        return bool(self.parts) and all(part.answers is not None for part in self.parts)

    def write_parts(self) -> None:
        """Have the data of the event say which parts it has now."""
        put(member(self.data, "content"), "parts", [part.data for part in self.parts])


def accept_in_events(edit: TurnEdit) -> None:
    """Accept the differences in calls, in what tools gave back and in what was said."""
    events = _read(edit)
    raw = [event.data for event in events]  # those that change are changed in place
    _change_parts(edit, events)
    _change_said(edit, events)
    _remove_calls(edit, events)
    _place_calls(edit, events)
    _place_said(edit, events)
    left = [event for event in events if event.parts or not event.changed]
    changed = [event for event in left if event.changed and event.origin is not None]
    for event in changed:
        event.write_parts()
    if changed:
        edit.write(_EVENTS, raw)
    _write_order(edit, raw, left)


def _read(edit: TurnEdit) -> list[_Event]:
    matched = match_responses(calls_of(edit.expected), responses_of(edit.expected))
    call_of_response = {response: call for call, response in enumerate(matched) if response is not None}
    calls = responses = said = 0
    events: list[_Event] = []
    for origin, data in enumerate(edit.raw(*_EVENTS) or []):
        event = _Event(origin, data)
        for part in member(member(data, "content"), "parts") or []:
            read = _Part(part)
            if member(part, "function_call") is not None:
                read.call, calls = calls, calls + 1
            elif member(part, "function_response") is not None:
                read.answers, responses = call_of_response.get(responses, -1), responses + 1
            event.parts.append(read)
        if any(part.data.get("text") and not part.data.get("thought") for part in event.parts):
            event.said, said = said, said + 1
        events.append(event)
    return events


def _change_parts(edit: TurnEdit, events: Sequence[_Event]) -> None:
    """Arguments, and what tools gave back."""
    arguments: dict[Key, list[Any]] = {}
    for found in edit.arguments:
        assert found.expected_call is not None
        arguments.setdefault(found.expected_call, []).append(found)
    gave = {found.expected_call: found.actual for found in edit.of_kind(DifferenceKind.TOOL_RESPONSE_CHANGED)}
    for event, part in _all_parts(events):
        if part.call is not None:
            for found in arguments.get(part.call, ()):
                given = edit.comparison.actual.calls[found.actual_call].args
                call = change_arguments(member(part.data, "function_call"), "args", found, given)
                put(part.data, "function_call", call)
                event.changed = True
        elif part.answers in gave:
            put(member(part.data, "function_response"), "response", dict(gave[part.answers]))
            event.changed = True


def _change_said(edit: TurnEdit, events: Sequence[_Event]) -> None:
    texts = {found.expected_call: found.actual for found in edit.of_kind(DifferenceKind.INTERMEDIATE_CHANGED)}
    gone = {found.expected_call for found in edit.of_kind(DifferenceKind.INTERMEDIATE_MISSING)}
    for event in events:
        if event.said in texts:
            by_data = {id(part.data): part for part in event.parts}
            kept = parts_with_text([part.data for part in event.parts], texts[event.said])
            event.parts = [by_data.get(id(data)) or _Part(data) for data in kept]
        elif event.said is not None and event.said in gone:
            event.parts = [part for part in event.parts if not part.data.get("text")]
            event.said = None
        else:
            continue
        event.changed = True


def _remove_calls(edit: TurnEdit, events: Sequence[_Event]) -> None:
    """Calls that leave go with what their tools gave back."""
    gone = {found.expected_call for found in edit.of_kind(DifferenceKind.CALL_MISSING)}
    for event in events:
        kept = [part for part in event.parts if part.call not in gone and part.answers not in gone] if gone else None
        if kept is not None and len(kept) < len(event.parts):
            event.parts, event.changed = kept, True


def _place_calls(edit: TurnEdit, events: list[_Event]) -> None:
    """Calls that moved or came get events of their own, with what their tools gave back, in the order of the calls."""
    arrangement = edit.rearranged_calls()
    taken: dict[Key, list[_Event]] = {}
    for key in arrangement.floating:
        taken[key] = _take_out(key, events) if isinstance(key, int) else _new_events(edit, key, events)
    for position, key in enumerate(arrangement.order):
        for event in taken.get(key, ()):
            if event.only_answers:
                _insert_answer(event, arrangement.order, position, events)
            else:
                _insert_call(event, arrangement.order, position, events)


def _take_out(key: Key, events: Sequence[_Event]) -> list[_Event]:
    """Events of their own for a call and its response, which leave the events that they are in."""
    taken = []
    for event in events:
        mine = [part for part in event.parts if key in (part.call, part.answers)]
        if mine:
            event.parts = [part for part in event.parts if part not in mine]
            event.changed = True
            role = member(member(event.data, "content"), "role")
            taken.append(_event(event.author, role, mine))
    return taken


def _new_events(edit: TurnEdit, key: New, events: Sequence[_Event]) -> list[_Event]:
    call = edit.comparison.actual.calls[key.actual]
    author = _author(edit, key, events)
    made = [_event(author, "model", [_Part({"function_call": _written(call)}, call=key)])]
    given = edit.given_back(key)
    if given is not None:
        response = {"function_response": {"name": call.name, "response": dict(given)}}
        made.append(_event(author, "user", [_Part(response, answers=key)]))
    return made


def _insert_call(new: _Event, order: Sequence[Key], position: int, events: list[_Event]) -> None:
    """Put a call behind the one before it and what that gave back, else before the next one.

    Between two calls of one event it becomes a part of that event, as calls made side by side are.
    """
    places = {part.call: number for number, event in enumerate(events) for part in event.parts if part.call is not None}
    before, after = _neighbours(order, position, places)
    if before is not None and after is not None and places[before] == places[after]:
        event = events[places[before]]
        _join(event, new, behind=next(part for part in event.parts if part.call == before))
        return
    if before is None:
        at = len(events) if after is None else places[after]
    else:
        at = places[before] + 1
        while at < len(events) and events[at].only_answers:
            at += 1
    events.insert(at, new)


def _insert_answer(new: _Event, order: Sequence[Key], position: int, events: list[_Event]) -> None:
    """Put what a tool gave back behind its call and behind what the call before it gave back.

    So answers without ids keep the order of their calls, by which they are told apart.
    """
    call = next(number for number, event in enumerate(events) if any(p.call == order[position] for p in event.parts))
    places = {
        part.answers: number for number, event in enumerate(events) for part in event.parts if part.answers is not None
    }
    before, after = _neighbours(order, position, places)
    if before is not None and after is not None and places[before] == places[after]:
        event = events[places[before]]
        _join(event, new, behind=next(part for part in event.parts if part.answers == before))
        return
    events.insert(max(call, -1 if before is None else places[before]) + 1, new)


def _neighbours(order: Sequence[Key], position: int, places: Mapping[Key, int]) -> tuple[Key | None, Key | None]:
    before = next((key for key in reversed(order[:position]) if key in places), None)
    return before, next((key for key in order[position + 1 :] if key in places), None)


def _join(event: _Event, new: _Event, *, behind: _Part) -> None:
    at = event.parts.index(behind) + 1
    event.parts[at:at] = new.parts
    event.changed = True


def _place_said(edit: TurnEdit, events: list[_Event]) -> None:
    """What comes stands behind what was said before it, else before what was said next, else at the end."""
    arrangement = edit.rearranged_said()
    for key in arrangement.order:
        if not isinstance(key, New):
            continue
        said = edit.comparison.actual.said[key.actual]
        event = _event(said.author, "model", [_Part({"text": said.text})])
        event.said = key
        present: list[Key] = [other.said for other in events if other.said is not None]
        order = settled(present, arrangement.order, {key})
        at = order.index(key)
        if at > 0:
            place = next(number for number, other in enumerate(events) if other.said == order[at - 1]) + 1
        elif len(order) > 1:
            place = next(number for number, other in enumerate(events) if other.said == order[1])
        else:
            place = len(events)
        events.insert(place, event)


def _write_order(edit: TurnEdit, raw: Sequence[Any], events: Sequence[_Event]) -> None:
    new: dict[Any, Any] = {}
    order: list[Key] = []
    for number, event in enumerate(events):
        if event.origin is None:
            key = New(number)
            event.write_parts()
            new[key] = event.data
            order.append(key)
        else:
            order.append(event.origin)
    edit.write_list(_EVENTS, raw, Rearrangement(order, frozenset(new)), new)


def _all_parts(events: Sequence[_Event]) -> Iterator[tuple[_Event, _Part]]:
    for event in events:
        for part in event.parts:
            yield event, part


def _event(author: str, role: Any, parts: list[_Part]) -> _Event:
    content: dict[str, Any] = {"parts": [part.data for part in parts]}
    if role is not None:
        content["role"] = role
    return _Event(None, {"author": author, "content": content}, parts)


def _written(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name} if call.args is None else {"name": call.name, "args": dict(call.args)}


def _author(edit: TurnEdit, key: New, events: Sequence[_Event]) -> str:
    """Who made the call, as the actual side says; else whoever speaks in the case."""
    data = edit.actual.intermediate_data
    if isinstance(data, InvocationEvents):
        count = 0
        for event in data.invocation_events:
            for part in (event.content.parts or ()) if event.content is not None else ():
                count += part.function_call is not None
                if count > key.actual:
                    return event.author
    return events[0].author if events else _ANYBODY
