"""Trajectories: the tool calls of an invocation, in order, in whatever dialect they were written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workbench.model.evalset import IntermediateData, Invocation, InvocationEvents


class ToolCall(NamedTuple):
    """One tool call; `args` is None where none were written, which is not the same as `{}` to ADK's metric."""

    name: str
    args: Mapping[str, Any] | None = None


Trajectory = Sequence[ToolCall]

UNNAMED_ARGUMENT = "__arg1"
"""The argument of a call whose input is no object: LangChain's name for the one of a tool that has no names."""

_call_of = ToolCall._make  # takes two thirds of the time, and calls come by the hundred thousand

_OBJECTS = (dict, Mapping)
"""Nearly all are the first; to be told that of the second takes ten times as long."""

_OF_ADK = "args"
_INPUTS = ("tool_input", _OF_ADK, "arguments", "input")
"""What the arguments of a call are called by Vertex AI, ADK, OpenAI and Anthropic."""

CUSTOM = ("custom", "custom_tool_call")
"""OpenAI's types of calls whose `input` is text in no format, the one argument: it is not read as JSON."""


class TrajectoryError(ValueError):
    """A value that is no trajectory; `place` is the path inside it, such as `[2].tool_input`."""

    def __init__(self, *, place: str, expected: str) -> None:
        super().__init__(f"{place or 'trajectory'}: expected {expected}")
        self.place = place
        self.expected = expected


def read_trajectory(value: Any) -> list[ToolCall]:
    """Read calls: a list of them, or such a list as JSON text.

    A call is `tool_name`/`tool_input` or `name`/`args`, what OpenAI or Anthropic write, or a name alone. An input may
    be any JSON value, or its text; what is no object becomes the argument UNNAMED_ARGUMENT. ADK's `args` must be an
    object. Raises TrajectoryError with the place that could not be read.
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
        if key == _OF_ADK or (isinstance(args, str) and args.lstrip().startswith("{")):
            raise TrajectoryError(place=f"{place}.{key}", expected="an object")
        args = {UNNAMED_ARGUMENT: args}
    return _call_of((name, args))


def _parse_text(value: Any) -> Any:
    """Replace text that is JSON by what it says, as Vertex AI sends inputs, and empty text by None."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value or None


def written(calls: Trajectory) -> list[dict[str, Any]]:
    """The calls as Vertex has them in datasets: `tool_name`, and `tool_input` where arguments were written."""
    return [{"tool_name": name} | ({} if args is None else {"tool_input": dict(args)}) for name, args in calls]


def trajectory_of(invocation: Invocation) -> list[ToolCall]:
    """The tool calls of an invocation: its `tool_uses`, or the function calls of its events in order, as in ADK."""
    data = invocation.intermediate_data
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
