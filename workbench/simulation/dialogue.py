"""A conversation so far, as the text that a simulated user sees of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.model.evalset import Content, IntermediateData, Invocation, InvocationEvents, Part
from workbench.model.results import TurnResult

_AGENT = "agent"


def history_of(turns: Sequence[TurnResult], *, with_calls: bool) -> str:
    """`user: ...` and the name of each agent that spoke, in order, a blank line between them; thoughts left out.

    `with_calls`: also which tools were called, and what they gave.
    """
    return "\n\n".join(line for turn in turns for line in _lines(turn.invocation, with_calls=with_calls))


def _lines(invocation: Invocation, *, with_calls: bool) -> Iterator[str]:
    said = invocation.user_content.text(thoughts=False)
    yield f"user: {said or _other_kinds(invocation.user_content)}"
    author = _AGENT
    for name, part in _parts(invocation.intermediate_data):
        author = name
        if part.text and not part.thought:
            yield f"{name}: {part.text}"
        elif with_calls and part.function_call is not None:
            call = part.function_call
            yield f"{name} called the tool {call.name!r} with {_json(call.args or {})}"
        elif with_calls and part.function_response is not None:
            yield f"the tool {part.function_response.name!r} gave {_json(part.function_response.response or {})}"
    if invocation.final_response is not None:
        answer = invocation.final_response.text(thoughts=False)
        yield f"{author}: {answer or _other_kinds(invocation.final_response)}"


def _parts(data: IntermediateData | InvocationEvents | None) -> Iterator[tuple[str, Part]]:
    """What happened on the way, each with the name of the agent."""
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            for part in (event.content and event.content.parts) or ():
                yield event.author, part
    elif isinstance(data, IntermediateData):
        for call in data.tool_uses:
            yield _AGENT, Part(function_call=call)
        for response in data.tool_responses:
            yield _AGENT, Part(function_response=response)
        for said in data.intermediate_responses:
            for part in said.parts:
                yield said.author, part


def _other_kinds(content: Content) -> str:
    """What stands for a message without text."""
    return "(something that is no text)" if content.parts else "(nothing)"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
