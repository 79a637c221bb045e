"""What happened, as text for judges: the steps of a turn, and a whole conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from workbench.metrics.subject import Turn
from workbench.model.evalset import Content, IntermediateData, Invocation, InvocationEvents, Part


def response_of(invocation: Invocation | None, *, with_intermediate: bool = False) -> str:
    """The text of the final response, thoughts left out; on request after what was said on the way to it."""
    if invocation is None:
        return ""
    said = [text for _, text in _texts(invocation)] if with_intermediate else []
    return "\n".join([*said, _text(invocation.final_response)]).strip()


def steps_of(invocation: Invocation) -> str:
    """Tool calls and what the tools answered, in order, as lines of JSON; empty where there were none."""
    steps = list(_steps(invocation))
    return "\n".join(_json({"step": number, **step}) for number, step in enumerate(steps, start=1))


def agents_of(turns: Iterable[Turn]) -> Mapping[str, Mapping[str, Any]]:
    """What agents tell of themselves (instructions, tools), each as it was when it first took part."""
    told: dict[str, Mapping[str, Any]] = {}
    for details in _details(turns):
        for name, agent in details.items():
            told.setdefault(name, agent)
    return told


def happening_parts_of(invocation: Invocation) -> list[tuple[str, Sequence[Part]]]:
    """What happened before the final response, part by part as it was recorded, each event with its author."""
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        return [
            (event.author, event.content.parts or ()) for event in data.invocation_events if event.content is not None
        ]
    said = [(response.author, response.parts) for response in data.intermediate_responses] if data is not None else []
    return [("agent", list(_parts(invocation))), *said]


def instructions_of(turns: Iterable[Turn]) -> str:
    """The instructions of every agent that took part, as far as the agent tells them."""
    told: dict[str, str] = {}
    for details in _details(turns):
        for name, agent in details.items():
            text = agent.get("instructions")
            if isinstance(text, str) and text:
                told.setdefault(name, text)
    if len(told) == 1:
        return next(iter(told.values()))
    return "\n\n".join(f"{name}:\n{text}" for name, text in told.items())


def tools_of(turns: Iterable[Turn]) -> str:
    """The tools that every agent had, as JSON, as far as the agent tells them."""
    declared: dict[str, Any] = {}
    for details in _details(turns):
        for name, agent in details.items():
            if agent.get("tool_declarations"):
                declared.setdefault(name, agent["tool_declarations"])
    return _json(declared) if declared else ""


def conversation_of(turns: Sequence[Turn], *, with_steps: bool = True) -> str:
    """What the user and the agents said and did, turn by turn; without steps only what they said."""
    lines: list[str] = []
    for number, turn in enumerate(turns, start=1):
        if turn.actual is None:
            continue
        lines.append(f"USER TURN {number}: {_text(turn.actual.user_content)}")
        for author, text in _texts(turn.actual):
            lines.append(f"AGENT {author} TURN {number}: {text}")
        if with_steps:
            lines += [f"STEP OF TURN {number}: {_json(step)}" for step in _steps(turn.actual)]
        lines.append(f"AGENT TURN {number}: {_text(turn.actual.final_response)}")
    return "\n".join(lines)


class Happening(NamedTuple):
    """One thing on the way to a final response: something said, a tool call, its answer, what a search brought up."""

    kind: Literal["said", "call", "answer", "grounding"]
    text: str
    author: str = ""


def happenings_of(invocation: Invocation) -> Iterator[Happening]:
    """What happened in a turn before its final response, in order as far as the order is known."""
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        final = _text(invocation.final_response)
        for event in data.invocation_events:
            extra = event.model_extra or {}
            grounding = extra.get("grounding_metadata") or extra.get("groundingMetadata")
            if grounding:
                yield Happening("grounding", _json(grounding), event.author)
            text = _text(event.content)
            if text and text != final:  # which some recorders repeat
                yield Happening("said", text, event.author)
            if event.content is not None:
                yield from _tool_happenings(event.content.parts or ())
        return
    yield from _tool_happenings(_parts(invocation))
    for author, text in _texts(invocation):
        yield Happening("said", text, author)


def _tool_happenings(parts: Iterable[Part]) -> Iterator[Happening]:
    for step in _steps_in(parts):
        yield Happening("call" if "tool" in step else "answer", _json(step))


def _details(turns: Iterable[Turn]) -> Iterator[dict[str, dict[str, Any]]]:
    for turn in turns:
        details = (turn.actual.app_details or {}) if turn.actual is not None else {}
        agents = details.get("agent_details") or details.get("agentDetails")
        if isinstance(agents, dict):
            yield {str(name): agent for name, agent in agents.items() if isinstance(agent, dict)}


def _steps(invocation: Invocation) -> Iterator[dict[str, Any]]:
    return _steps_in(_parts(invocation))


def _steps_in(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if part.function_call is not None:
            yield {"tool": part.function_call.name, "arguments": part.function_call.args}
        elif part.function_response is not None:
            yield {"answer_of": part.function_response.name, "response": part.function_response.response}


def _parts(invocation: Invocation) -> Iterator[Part]:
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            if event.content is not None:
                yield from event.content.parts or ()
    elif isinstance(data, IntermediateData):
        answers = {response.id: response for response in data.tool_responses if response.id}
        unnamed = [response for response in data.tool_responses if not response.id]
        for call in data.tool_uses:
            yield Part(function_call=call)
            answer = answers.pop(call.id, None) if call.id else None
            if answer is not None:
                yield Part(function_response=answer)
        for response in (*answers.values(), *unnamed):
            yield Part(function_response=response)


def _texts(invocation: Invocation) -> Iterator[tuple[str, str]]:
    """What agents said on the way, each with its author."""
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            if text := _text(event.content):
                yield event.author, text
    elif isinstance(data, IntermediateData):
        for response in data.intermediate_responses:
            if text := _text(Content(parts=response.parts)):
                yield response.author, text


def _text(content: Content | None) -> str:
    return "" if content is None else content.text(thoughts=False)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
