"""The events of a turn before its final response, in one form and one order, whichever form they were recorded in."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from workbench.model.evalset import (
    Content,
    FunctionCall,
    FunctionResponse,
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
)


class SaidText(NamedTuple):
    """Text that an agent wrote on the way; thoughts are left out."""

    author: str
    text: str


class MadeCall(NamedTuple):
    """A tool call; `author` is None if the recording does not name it."""

    author: str | None
    call: FunctionCall


class GotResponse(NamedTuple):
    """What a tool returned."""

    response: FunctionResponse


class FoundGrounding(NamedTuple):
    """Grounding metadata of an event: what a search of the model's own brought up."""

    author: str
    metadata: Mapping[str, Any]


TurnEvent = SaidText | MadeCall | GotResponse | FoundGrounding


def events_of(invocation: Invocation) -> Iterator[TurnEvent]:
    """Yield what happened before the final response.

    The newer form has an order, which is kept, part by part. The older form has none: each call is followed by its
    response, and the texts come last. A final response that its event repeats is left out.
    """
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        final = _final_event(data)
        for event in data.invocation_events:
            is_repeated = event is final and _text_of(event.content) == _text_of(invocation.final_response)
            yield from _events_of_event(event, with_text=not is_repeated)
    elif isinstance(data, IntermediateData):
        yield from _calls_with_responses(data)
        for said in data.intermediate_responses:
            if text := _text_of(Content(parts=said.parts)):
                yield SaidText(said.author, text)


def final_author_of(invocation: Invocation) -> str | None:
    """Return the name of the agent that gave the final response; None if the recording does not name it."""
    data = invocation.intermediate_data
    event = _final_event(data) if isinstance(data, InvocationEvents) else None
    return None if event is None else event.author


def _final_event(data: InvocationEvents) -> InvocationEvent | None:
    """Return the event of the final response: ADK writes it without content unless it has calls.

    Recorders that write no such event leave the agent that spoke or called last.
    """
    events = list(reversed(data.invocation_events))
    without_content = (event for event in events if event.content is None or not event.content.parts)
    return next(without_content, next(filter(_has_text_or_call, events), None))


def _has_text_or_call(event: InvocationEvent) -> bool:
    parts = () if event.content is None else event.content.parts or ()
    return any(part.function_call is not None or part.text for part in parts)


def _events_of_event(event: InvocationEvent, *, with_text: bool) -> Iterator[TurnEvent]:
    extra = event.model_extra or {}
    grounding = extra.get("grounding_metadata") or extra.get("groundingMetadata")
    if grounding:
        yield FoundGrounding(event.author, grounding)
    parts = () if event.content is None else event.content.parts or ()
    for is_text, group in groupby(parts, key=lambda part: bool(part.text)):
        if is_text:
            text = _text_of(Content(parts=list(group)))
            if text and with_text:
                yield SaidText(event.author, text)
            continue
        for part in group:
            if part.function_call is not None:
                yield MadeCall(event.author, part.function_call)
            elif part.function_response is not None:
                yield GotResponse(part.function_response)


def _calls_with_responses(data: IntermediateData) -> Iterator[TurnEvent]:
    """Pair calls and responses by id, or by name where neither has one."""
    left = dict(enumerate(data.tool_responses))
    numbers: defaultdict[tuple[bool, str | None], deque[int]] = defaultdict(deque)
    for number, response in left.items():
        numbers[_pair_of(response)].append(number)
    for call in data.tool_uses:
        yield MadeCall(None, call)
        own = numbers[_pair_of(call)]
        for _ in range(len(own) if call.id else min(len(own), 1)):
            yield GotResponse(left.pop(own.popleft()))
    yield from map(GotResponse, left.values())


def _pair_of(item: FunctionCall | FunctionResponse) -> tuple[bool, str | None]:
    """Return what a call and its response have in common: the id, or the name where there is none."""
    return (True, item.id) if item.id else (False, item.name)


def _text_of(content: Content | None) -> str:
    return "" if content is None else content.text(thoughts=False)
