"""Traces: spans and tool calls, and the trajectories and turns made of them."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from pydantic import Field

from workbench.model.evalset import (
    Content,
    FunctionCall,
    FunctionResponse,
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
)
from workbench.model.facts import Fact

# Trajectories: the tool calls of an invocation in order, read from any dialect


class ToolCall(NamedTuple):
    """One tool call. `args` None means that none were given, which ADK's metric distinguishes from `{}`."""

    name: str
    args: Mapping[str, Any] | None = None


Trajectory = Sequence[ToolCall]

UNNAMED_ARGUMENT = "__arg1"
"""The argument of a call whose input is no object: LangChain's name for the only argument of a tool."""

_call_of = ToolCall._make  # takes two thirds of the time, for hundreds of thousands of calls

_OBJECTS = (dict, Mapping)
"""Nearly all are dicts; the check for Mapping takes ten times as long."""

_VERTEX_KEYS = {"tool_name", "tool_input"}
_ADK_ARGUMENTS = "args"
_INPUTS = ("tool_input", _ADK_ARGUMENTS, "arguments", "input")
"""The keys of arguments of Vertex AI, ADK, OpenAI and Anthropic."""

CUSTOM = ("custom", "custom_tool_call")
"""OpenAI's types of calls with a free-form `input`: it is the only argument, and is not parsed as JSON."""


class TrajectoryError(ValueError):
    """A value is no trajectory. `place` is the path inside it, such as `[2].tool_input`."""

    def __init__(self, *, place: str, expected: str) -> None:
        super().__init__(f"{place or 'trajectory'}: expected {expected}")
        self.place = place
        self.expected = expected


def read_trajectory(value: Any) -> list[ToolCall]:
    """Read calls: a list of them, or such a list as JSON text.

    A call is `tool_name`/`tool_input`, `name`/`args`, a call of OpenAI or Anthropic, or a name. An input may be any
    JSON value or its text; a value that is no object becomes the argument UNNAMED_ARGUMENT. ADK's `args` must be an
    object. Raises TrajectoryError with the place of the fault.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise TrajectoryError(place="", expected="a list of tool calls or the JSON text of one") from None
    if not isinstance(value, list | tuple):
        raise TrajectoryError(place="", expected="a list of tool calls")
    return [_read_call(item, place=f"[{index}]") for index, item in enumerate(value)]


def _read_call(item: Any, *, place: str) -> ToolCall:
    if isinstance(item, str):
        return ToolCall(item)
    if isinstance(item, dict) and item.keys() == _VERTEX_KEYS:  # most calls of datasets, worth a fast path
        name, args = item["tool_name"], item["tool_input"]
        if isinstance(name, str) and isinstance(args, dict):
            return _call_of((name, args))
    if not isinstance(item, _OBJECTS):
        raise TrajectoryError(place=place, expected="a tool call (an object with a name, or a name alone)")
    is_custom = item.get("type") in CUSTOM
    key = "custom" if is_custom else "function"
    inner = item.get(key)
    if isinstance(inner, _OBJECTS):  # OpenAI's chat completions
        item, place = inner, f"{place}.{key}"
    name = item.get("tool_name", item.get("name"))
    if not isinstance(name, str):
        raise TrajectoryError(place=place, expected='an object with "tool_name" or "name"')
    key = next((key for key in _INPUTS if key in item), "tool_input")
    if is_custom and key == "input":
        return _call_of((name, {UNNAMED_ARGUMENT: item[key]}))
    args = _parse_text(item.get(key))
    if args is not None and not isinstance(args, _OBJECTS):
        if key == _ADK_ARGUMENTS or (isinstance(args, str) and args.lstrip().startswith("{")):
            raise TrajectoryError(place=f"{place}.{key}", expected="an object")
        args = {UNNAMED_ARGUMENT: args}
    return _call_of((name, args))


def _parse_text(value: Any) -> Any:
    """Parse text that is JSON, as Vertex AI sends inputs; return None for empty text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value or None


def dump_trajectory(calls: Trajectory) -> list[dict[str, Any]]:
    """Return the calls in Vertex AI's format: `tool_name`, and `tool_input` if there are arguments."""
    return [{"tool_name": name} | ({} if args is None else {"tool_input": dict(args)}) for name, args in calls]


def get_trajectory(invocation: Invocation) -> list[ToolCall]:
    """Return the tool calls of an invocation in order, as ADK does: its `tool_uses`, or the calls of its events."""
    data = invocation.intermediate_data
    if data is None:  # checking this first is faster: `isinstance` with a pydantic type is slow
        return []
    if isinstance(data, IntermediateData):
        return [_call_of((call.name or "", call.args)) for call in data.tool_uses]
    if isinstance(data, InvocationEvents):
        return [
            ToolCall(part.function_call.name or "", part.function_call.args)
            for event in data.invocation_events
            if event.content is not None
            for part in event.content.parts or ()
            if part.function_call is not None
        ]
    return []


# Traces: the tree of spans of one case

SIMULATED = "workbench.simulated"
"""The attribute of a tool span that names its simulator: `injected`, `model` or `replayed`."""


FRAMEWORK_CALLS = frozenset(
    {
        "transfer_to_agent",
        "set_model_response",
        "adk_request_confirmation",
        "adk_request_credential",
        "adk_request_input",
    }
)
"""Calls that google-adk itself makes, or has the model make, beside those of the agent's own tools."""


class SpanKind(StrEnum):
    """The kind of step that a span describes."""

    INVOCATION = "invocation"
    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"
    USER = "user"  # a request to the model that plays the user
    OTHER = "other"


class Span(Fact):
    """One step of a case, with or without times.

    `start` and `end` are seconds since the case's session was opened. Both are None if the agent reported no times;
    a running step has no `end`. `turn` counts from 0. `request` and `response` are JSON values: those
    of the model for a model call, arguments and result for a tool call.
    """

    id: str
    parent_id: str | None = None
    turn: int = 0
    kind: SpanKind = SpanKind.OTHER
    name: str = ""
    start: float | None = None
    end: float | None = None
    error: str | None = None
    request: Any = None
    response: Any = None
    attributes: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        """True if the step has started and not ended."""
        return self.start is not None and self.end is None

    @property
    def simulator(self) -> str | None:
        """The simulator that replied instead of the tool; None if the tool was called, or the span is no tool span."""
        source = self.attributes.get(SIMULATED)
        return source if isinstance(source, str) else None

    @property
    def duration(self) -> float | None:
        """Duration in seconds; None without times."""
        return None if self.start is None or self.end is None else self.end - self.start


def find_simulators(spans: Iterable[Span], calls: Sequence[ToolCall], *, turn: int) -> list[str | None]:
    """Return for each call of a turn the simulator that replied; None if the tool itself was called.

    Calls and spans come from different sources. They are matched by name and arguments first, then by name.
    """
    unmatched = [span for span in spans if span.kind is SpanKind.TOOL and span.turn == turn]
    if not any(span.simulator for span in unmatched):
        return [None] * len(calls)
    simulators: list[str | None] = []
    for call in calls:
        with_same_name = [span for span in unmatched if span.name == call.name]
        candidates = [span for span in with_same_name if span.request == call.args] or with_same_name
        if candidates:
            unmatched.remove(candidates[0])
        simulators.append(candidates[0].simulator if candidates else None)
    return simulators


# Events of a turn before its final response, in one form and order for all recordings


class TextEvent(NamedTuple):
    """Text of an agent before the final response, without thoughts."""

    author: str
    text: str


class CallEvent(NamedTuple):
    """A tool call; `author`: None if the recording does not name it."""

    author: str | None
    call: FunctionCall


class ResponseEvent(NamedTuple):
    """The response of a tool."""

    response: FunctionResponse


class GroundingEvent(NamedTuple):
    """Grounding metadata of an event: the results of the model's own search."""

    author: str
    metadata: Mapping[str, Any]


TurnEvent = TextEvent | CallEvent | ResponseEvent | GroundingEvent


def iterate_events(invocation: Invocation) -> Iterator[TurnEvent]:
    """Yield the events before the final response.

    The newer form has an order, which is kept part by part. In the older form each call is followed by its response,
    and texts come last. A final response that its event repeats is left out.
    """
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        final = _find_final_event(data)
        for event in data.invocation_events:
            is_repeated = event is final and _get_text(event.content) == _get_text(invocation.final_response)
            yield from _iterate_parts(event, with_text=not is_repeated)
    elif isinstance(data, IntermediateData):
        yield from _pair_calls_with_responses(data)
        for response in data.intermediate_responses:
            if text := _get_text(Content(parts=response.parts)):
                yield TextEvent(response.author, text)


def find_final_author(invocation: Invocation) -> str | None:
    """Return the name of the agent that gave the final response; None if the recording does not name it."""
    data = invocation.intermediate_data
    event = _find_final_event(data) if isinstance(data, InvocationEvents) else None
    return None if event is None else event.author


def _find_final_event(data: InvocationEvents) -> InvocationEvent | None:
    """Return the event of the final response: ADK writes it without content unless it has calls.

    Other recorders do not write this event; then it is the last event with text or a call.
    """
    events = list(reversed(data.invocation_events))
    without_content = (event for event in events if event.content is None or not event.content.parts)
    return next(without_content, next(filter(_has_text_or_call, events), None))


def _has_text_or_call(event: InvocationEvent) -> bool:
    parts = () if event.content is None else event.content.parts or ()
    return any(part.function_call is not None or part.text for part in parts)


def _iterate_parts(event: InvocationEvent, *, with_text: bool) -> Iterator[TurnEvent]:
    extra = event.model_extra or {}
    grounding = extra.get("grounding_metadata") or extra.get("groundingMetadata")
    if grounding:
        yield GroundingEvent(event.author, grounding)
    parts = () if event.content is None else event.content.parts or ()
    for is_text, group in groupby(parts, key=lambda part: bool(part.text)):
        if is_text:
            text = _get_text(Content(parts=list(group)))
            if text and with_text:
                yield TextEvent(event.author, text)
            continue
        for part in group:
            if part.function_call is not None:
                yield CallEvent(event.author, part.function_call)
            elif part.function_response is not None:
                yield ResponseEvent(part.function_response)


def _pair_calls_with_responses(data: IntermediateData) -> Iterator[TurnEvent]:
    """Pair calls and responses by id, or by name where neither has one."""
    unpaired = dict(enumerate(data.tool_responses))
    numbers: defaultdict[tuple[bool, str | None], deque[int]] = defaultdict(deque)
    for number, response in unpaired.items():
        numbers[_get_pairing_key(response)].append(number)
    for call in data.tool_uses:
        yield CallEvent(None, call)
        response_numbers = numbers[_get_pairing_key(call)]
        for _ in range(len(response_numbers) if call.id else min(len(response_numbers), 1)):
            yield ResponseEvent(unpaired.pop(response_numbers.popleft()))
    yield from map(ResponseEvent, unpaired.values())


def _get_pairing_key(item: FunctionCall | FunctionResponse) -> tuple[bool, str | None]:
    """Return the key that a call shares with its response: the id, or the name if there is no id."""
    return (True, item.id) if item.id else (False, item.name)


def _get_text(content: Content | None) -> str:
    return "" if content is None else content.text(thoughts=False)
