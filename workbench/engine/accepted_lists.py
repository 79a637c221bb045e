"""Writes accepted calls, events and lists into a case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from workbench.model.evalset import Invocation, InvocationEvents
from workbench.model.trace import ToolCall
from workbench.model.turn_diff import (
    AgentMessage,
    Difference,
    DifferenceKind,
    Pair,
    TurnComparison,
    list_calls,
    list_responses,
    match_responses,
)
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.json.json_path import Place, find_key

# The rearrangement of a list with removed, moved and added items: calls, responses or messages.

_FEW = 16
"""Up to this number of edits, items are edited one by one to keep their text; more rewrite the list, for speed."""


@dataclass(frozen=True, slots=True)
class New:
    """An added item, from this position of the actual side."""

    actual: int


Key = int | New
"""An item of a changed list: its former position, or its position on the actual side."""


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A changed list: `order` holds all items, `floating` the moved and added ones."""

    order: Sequence[Key]
    floating: frozenset[Key]


def rearrange(
    rows: Sequence[Pair],
    *,
    leaving: Collection[int] = (),
    moving: Mapping[int, int] | None = None,
    coming: Iterable[int] = (),
) -> Rearrangement:
    """Arrange the expected items in the order of the rows, with removed, moved and added items.

    `moving` maps expected positions to actual ones; `coming` are actual positions.
    """
    moving = moving or {}
    row_of_actual = {row.actual: number for number, row in enumerate(rows) if row.actual is not None}
    places: list[tuple[int, Key]] = [(row_of_actual[actual], New(actual)) for actual in coming]
    floating = frozenset[Key]([*moving, *(key for _, key in places)])
    for number, row in enumerate(rows):
        if row.expected is not None and row.expected not in leaving:
            target = moving.get(row.expected)
            places.append((number if target is None else row_of_actual[target], row.expected))
    return Rearrangement([key for _, key in sorted(places, key=lambda place: place[0])], floating)


def place_floating(staying: Sequence[Key], order: Sequence[Key], floating: Collection[Key]) -> list[Key]:
    """Place each floating item after its predecessor in `order`, or else before its successor."""
    result = list(staying)
    for position, key in enumerate(order):
        if key in floating:
            result.insert(_find_position(position, order, result), key)
    return result


def write_list(
    document: EvalSetDocument,
    case: int,
    place: Place,
    *,
    items: Sequence[Any],
    arrangement: Rearrangement,
    new: Mapping[Key, Any],
) -> None:
    """Rearrange the list of `items` at a place. Items that do not move keep their text."""
    order = arrangement.order
    leaving = [index for index in range(len(items)) if index not in set(order)]
    if not leaving and not arrangement.floating:
        return
    if not items or len(leaving) + len(arrangement.floating) > _FEW:
        document.set_value(place, [items[key] if isinstance(key, int) else new[key] for key in order], case=case)
        return
    for index in reversed(leaving):
        document.remove_value((*place, index), case=case)
    current: list[Key] = [index for index in range(len(items)) if index not in leaving]
    for position, key in enumerate(order):
        if key not in arrangement.floating:
            continue
        if isinstance(key, New):
            target = _find_position(position, order, current, ignoring=arrangement.floating)
            document.insert_item(place, target, new[key], case=case)
        else:
            source = current.index(key)
            current.pop(source)
            target = _find_position(position, order, current, ignoring=arrangement.floating)
            if source != target:
                document.move_item(place, source, target, case=case)
        current.insert(target, key)


def _find_position(
    position: int, order: Sequence[Key], present: Sequence[Key], *, ignoring: Collection[Key] = ()
) -> int:
    """Find the index of the item at `position` of the order among the present items.

    It goes after its nearest predecessor; else before its nearest successor that is not ignored (because it will move
    itself); else at the end.
    """
    there = {key: index for index, key in enumerate(present)}
    before = next((there[key] for key in reversed(order[:position]) if key in there), None)
    if before is not None:
        return before + 1
    after = next((there[key] for key in order[position + 1 :] if key in there and key not in ignoring), None)
    return len(present) if after is None else after


# One turn of a document while its hunks are accepted.

_ARGUMENTS = (DifferenceKind.ARGUMENT_MISSING, DifferenceKind.ARGUMENT_EXTRA, DifferenceKind.ARGUMENT_CHANGED)


@dataclass(frozen=True, slots=True)
class TurnEdit:
    """The edit of one turn.

    `place` is the path from the case to the turn. `expected` and `actual` are both sides before the edit, `accepted`
    the differences to remove. `has_tool_responses`: the case contains tool responses.
    """

    document: EvalSetDocument
    case: int
    place: Place
    expected: Invocation
    actual: Invocation
    comparison: TurnComparison
    accepted: Sequence[Difference]
    has_tool_responses: bool

    def of_kind(self, *kinds: DifferenceKind) -> list[Difference]:
        """Return the accepted differences of some kinds."""
        return [difference for difference in self.accepted if difference.kind in kinds]

    @property
    def arguments(self) -> list[Difference]:
        """The accepted differences within the arguments of calls that both sides made."""
        return self.of_kind(*_ARGUMENTS)

    def raw(self, *steps: str | int) -> Any:
        """Return a copy of the data at a place in the turn; None if it is missing."""
        value = self.document.raw_case(self.case)
        for step in (*self.place, *steps):
            value = member(value, step)
        return deepcopy(value)

    def write(self, steps: Place, value: Any) -> None:
        """Write data at a place in the turn, changing only the differences."""
        self.document.set_value((*self.place, *steps), value, case=self.case)

    def write_list(self, steps: Place, items: Sequence[Any], arrangement: Rearrangement, new: dict[Any, Any]) -> None:
        """Rearrange the list of `items` at a place in the turn."""
        place = (*self.place, *steps)
        write_list(self.document, self.case, place, items=items, arrangement=arrangement, new=new)

    def rearrange_calls(self) -> Rearrangement:
        """Arrange the calls by the accepted differences."""
        moving = [found.expected_call for found in self.of_kind(DifferenceKind.CALL_MOVED)]
        return rearrange(
            self.comparison.calls,
            leaving=[found.expected_call for found in self.of_kind(DifferenceKind.CALL_MISSING)],  # type: ignore[misc]
            moving={call: self.comparison.moves[call] for call in moving if call is not None},
            coming=self._list_added(DifferenceKind.CALL_EXTRA),
        )

    def rearrange_messages(self) -> Rearrangement:
        """Arrange the intermediate messages by the accepted differences."""
        leaving = [found.expected_call for found in self.of_kind(DifferenceKind.INTERMEDIATE_MISSING)]
        coming = self._list_added(DifferenceKind.INTERMEDIATE_EXTRA)
        return rearrange(self.comparison.messages, leaving=leaving, coming=coming)  # type: ignore[arg-type]

    def _list_added(self, kind: DifferenceKind) -> list[int]:
        return [found.actual_call for found in self.of_kind(kind) if found.actual_call is not None]

    def find_response(self, key: New) -> Any:
        """Return the tool response of an added call; None if it is unknown or the case has no responses."""
        return self.comparison.actual.responses[key.actual] if self.has_tool_responses else None


def member(value: Any, key: str | int) -> Any:
    """Return a member of an object, with its key in either style, or an item of a list; None if it is missing."""
    if isinstance(value, dict) and isinstance(key, str):
        spelling = find_key(value, key, free=False)
        return None if spelling is None else value[spelling]
    if isinstance(value, list) and isinstance(key, int) and -1 < key < len(value):
        return value[key]
    return None


def put(value: dict[str, Any], key: str, item: Any) -> None:
    """Set a member of an object, in its existing spelling if it has one."""
    value[find_key(value, key, free=False) or key] = item


def parts_with_text(parts: Any, text: str) -> list[Any]:
    """Replace the text of a message. Thoughts are removed; parts without text stay."""
    parts = parts if isinstance(parts, list) else []
    first = next((i for i, part in enumerate(parts) if part.get("text") and not part.get("thought")), None)
    if first is None:
        return [{"text": text}, *(part for part in parts if not part.get("text"))]
    kept = [(i, part) for i, part in enumerate(parts) if i == first or not part.get("text")]
    return [{**part, "text": text} if i == first else part for i, part in kept]


def change_arguments(call: Any, key: str, difference: Difference, given: Any) -> Any:
    """Apply one difference in arguments to a written call (`{name, args}` in any spelling, or a bare name).

    `key` is the key of its arguments; `given` are the actual arguments.
    """
    if isinstance(call, str):
        call = {"name": call}
    if not difference.path:
        spelling = find_key(call, key, free=False) or key
        rest = {name: value for name, value in call.items() if name != spelling}
        return rest if given is None else {**call, spelling: _plain(given)}
    args = member(call, key)
    _change(args, difference, given)
    return call


def _change(container: Any, difference: Difference, given: Any) -> None:
    for step in difference.path[:-1]:
        container, given = container[step], given[step]
    last = difference.path[-1]
    if difference.kind is DifferenceKind.ARGUMENT_MISSING:
        del container[last]
    else:
        container[last] = _plain(given[last])


def _plain(value: Any) -> Any:
    return deepcopy(dict(value)) if isinstance(value, dict) else deepcopy(value)


# Turns with events: `intermediate_data` with `invocation_events`.

_EVENTS = ("intermediate_data", "invocation_events")
_ANYBODY = "agent"
"""The author of a call if neither side has one."""


@dataclass(slots=True, eq=False)
class _Part:
    """A part of an event. `call` identifies its call; `answers` the call that it is the response to."""

    data: dict[str, Any]
    call: Key | None = None
    answers: Key | None = None


@dataclass(slots=True, eq=False)
class _Event:
    """An event. `origin` is its former position (None: new), `said` its position among the messages."""

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
        return bool(self.parts) and all(part.answers is not None for part in self.parts)

    def write_parts(self) -> None:
        put(member(self.data, "content"), "parts", [part.data for part in self.parts])


def accept_in_events(edit: TurnEdit) -> None:
    """Accept the differences in calls, tool responses and messages."""
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
    matched = match_responses(list_calls(edit.expected), list_responses(edit.expected))
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
    """Accept differences in arguments and tool responses."""
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
    """Remove calls with their tool responses."""
    gone = {found.expected_call for found in edit.of_kind(DifferenceKind.CALL_MISSING)}
    for event in events:
        kept = [part for part in event.parts if part.call not in gone and part.answers not in gone] if gone else None
        if kept is not None and len(kept) < len(event.parts):
            event.parts, event.changed = kept, True


def _place_calls(edit: TurnEdit, events: list[_Event]) -> None:
    """Put moved and added calls, with their tool responses, into separate events in the order of the calls."""
    arrangement = edit.rearrange_calls()
    taken: dict[Key, list[_Event]] = {}
    for key in arrangement.floating:
        taken[key] = _detach(key, events) if isinstance(key, int) else _new_events(edit, key, events)
    for position, key in enumerate(arrangement.order):
        for event in taken.get(key, ()):
            if event.only_answers:
                _insert_answer(event, arrangement.order, position, events)
            else:
                _insert_call(event, arrangement.order, position, events)


def _detach(key: Key, events: Sequence[_Event]) -> list[_Event]:
    """Move a call and its response from their events to new ones."""
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
    made = [_event(author, "model", [_Part({"function_call": TOOL_USES.write_call(call)}, call=key)])]
    given = edit.find_response(key)
    if given is not None:
        response = {"function_response": {"name": call.name, "response": dict(given)}}
        made.append(_event(author, "user", [_Part(response, answers=key)]))
    return made


def _insert_call(new: _Event, order: Sequence[Key], position: int, events: list[_Event]) -> None:
    """Insert a call after its predecessor and the response to that, or else before its successor.

    Between two calls of one event it becomes a part of that event, like parallel calls.
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
    """Insert a tool response after its call and after the response to the call before.

    Responses without ids are matched by the order of their calls.
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
    """Insert added messages after their predecessor, or else before their successor, or else at the end."""
    arrangement = edit.rearrange_messages()
    for key in arrangement.order:
        if not isinstance(key, New):
            continue
        said = edit.comparison.actual.messages[key.actual]
        event = _event(said.author, "model", [_Part({"text": said.text})])
        event.said = key
        present: list[Key] = [other.said for other in events if other.said is not None]
        order = place_floating(present, arrangement.order, {key})
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


def _author(edit: TurnEdit, key: New, events: Sequence[_Event]) -> str:
    """Return the author of a call on the actual side, or else the first author in the case."""
    data = edit.actual.intermediate_data
    if isinstance(data, InvocationEvents):
        count = 0
        for event in data.invocation_events:
            for part in (event.content.parts or ()) if event.content is not None else ():
                count += part.function_call is not None
                if count > key.actual:
                    return event.author
    return events[0].author if events else _ANYBODY


# Turns with lists of calls: `intermediate_data` with `tool_uses`, and older formats.


@dataclass(frozen=True, slots=True)
class ListForm:
    """The places of the lists of a turn, and the format of their items."""

    calls: Place
    said: Place
    write_call: Callable[[ToolCall], dict[str, Any]]
    write_said: Callable[[AgentMessage], Any]
    change_said: Callable[[Any, str], Any]


def _with_args(name: str, args: str, call: ToolCall) -> dict[str, Any]:
    return {name: call.name} if call.args is None else {name: call.name, args: dict(call.args)}


def _change_pair(pair: Any, text: str) -> Any:
    """Change the text of a message, written as `[author, parts]` or as an object with both."""
    if isinstance(pair, list):
        return [pair[0], parts_with_text(pair[1], text)]
    put(pair, "parts", parts_with_text(member(pair, "parts"), text))
    return pair


TOOL_USES = ListForm(
    calls=("intermediate_data", "tool_uses"),
    said=("intermediate_data", "intermediate_responses"),
    write_call=lambda call: _with_args("name", "args", call),
    write_said=lambda said: [said.author, [{"text": said.text}]],
    change_said=_change_pair,
)
LEGACY = ListForm(
    calls=("expected_tool_use",),
    said=("expected_intermediate_agent_responses",),
    write_call=lambda call: _with_args("tool_name", "tool_input", call),
    write_said=lambda said: {"author": said.author, "text": said.text},
    change_said=lambda item, text: {**item, "text": text},
)
_RESPONSES = ("intermediate_data", "tool_responses")


def accept_in_lists(edit: TurnEdit, form: ListForm) -> None:
    """Accept the differences in calls, tool responses and messages."""
    _accept_calls(edit, form)
    if form is TOOL_USES:
        _accept_responses(edit)
    _accept_said(edit, form)


def _accept_calls(edit: TurnEdit, form: ListForm) -> None:
    calls = edit.raw(*form.calls) or []
    for found in edit.arguments:
        assert found.expected_call is not None
        assert found.actual_call is not None
        given = edit.comparison.actual.calls[found.actual_call].args
        written = calls[found.expected_call]
        calls[found.expected_call] = change_arguments(written, _arguments_key(written), found, given)
    if edit.arguments:
        edit.write(form.calls, calls)
    arrangement = edit.rearrange_calls()
    write = form.write_call
    if any(isinstance(call, dict) and "tool_name" in call for call in calls):
        write = LEGACY.write_call  # some files use the newer format with the older keys
    edit.write_list(form.calls, calls, arrangement, _new(arrangement, lambda i: write(edit.comparison.actual.calls[i])))


def _accept_responses(edit: TurnEdit) -> None:
    """Remove, move and add tool responses with their calls."""
    written = edit.raw(*_RESPONSES) or []
    owners = {
        index: call
        for call, index in enumerate(match_responses(list_calls(edit.expected), list_responses(edit.expected)))
        if index is not None
    }
    changed = edit.of_kind(DifferenceKind.TOOL_RESPONSE_CHANGED)
    for found in changed:
        index = next(index for index, call in owners.items() if call == found.expected_call)
        put(written[index], "response", dict(found.actual))
    if changed:
        edit.write(_RESPONSES, written)
    edit.write_list(_RESPONSES, written, *_rearrange_responses(edit, owners, length=len(written)))


def _rearrange_responses(
    edit: TurnEdit, owners: dict[int, int], *, length: int
) -> tuple[Rearrangement, dict[Any, Any]]:
    """Arrange the responses in the order of changed calls; also return the added ones."""
    calls = edit.rearrange_calls()
    new = {
        key: {"name": edit.comparison.actual.calls[key.actual].name, "response": dict(given)}
        for key in calls.order
        if isinstance(key, New) and (given := edit.find_response(key)) is not None
    }
    response_of: dict[Key, Key] = {call: index for index, call in owners.items()} | {key: key for key in new}
    staying: list[Key] = [
        index
        for index in range(length)
        if index not in owners or (owners[index] in calls.order and owners[index] not in calls.floating)
    ]
    floating = frozenset(response_of[call] for call in calls.floating if call in response_of)
    order = [response_of[call] for call in calls.order if call in response_of]
    return Rearrangement(place_floating(staying, order, floating), floating), new


def _accept_said(edit: TurnEdit, form: ListForm) -> None:
    said = edit.raw(*form.said) or []
    changed = edit.of_kind(DifferenceKind.INTERMEDIATE_CHANGED)
    for found in changed:
        assert found.expected_call is not None
        said[found.expected_call] = form.change_said(said[found.expected_call], found.actual)
    if changed:
        edit.write(form.said, said)
    arrangement = edit.rearrange_messages()
    new = _new(arrangement, lambda i: form.write_said(edit.comparison.actual.messages[i]))
    edit.write_list(form.said, said, arrangement, new)


def _new(arrangement: Rearrangement, write: Callable[[int], Any]) -> dict[Any, Any]:
    return {key: write(key.actual) for key in arrangement.order if isinstance(key, New)}


def _arguments_key(call: Any) -> str:
    return "tool_input" if isinstance(call, dict) and ("tool_input" in call or "tool_name" in call) else "args"
