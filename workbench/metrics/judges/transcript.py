"""Conversations as text for judges, and the variables of judge metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic.alias_generators import to_camel

from workbench.metrics.case_view import CaseView, Turn
from workbench.model.evalset import Content, Invocation, InvocationEvents, Part
from workbench.model.results import Score
from workbench.model.trace import (
    CallEvent,
    GroundingEvent,
    ResponseEvent,
    TextEvent,
    Trajectory,
    TurnEvent,
    find_final_author,
    iterate_events,
)

# Turns and conversations as text.

# Such an id is new in each run of the agent. In a prompt it would make the cached reply useless.
_GENERATED_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def format_response(invocation: Invocation | None, *, with_intermediate: bool = False) -> str:
    """Return the text of the final response without thoughts; on request with the intermediate responses before it."""
    if invocation is None:
        return ""
    events = iterate_events(invocation) if with_intermediate else ()
    texts = [event.text for event in events if isinstance(event, TextEvent)]
    return "\n".join([*texts, _read_text(invocation.final_response)]).strip()


def format_steps(invocation: Invocation) -> str:
    """Return tool calls and tool responses, in order, as lines of JSON; empty if there were none."""
    ids: dict[str, str] = {}
    steps = [
        _describe_step(event, ids)
        for event in iterate_events(invocation)
        if isinstance(event, CallEvent | ResponseEvent)
    ]
    return "\n".join(_dump({"step": number, **step}) for number, step in enumerate(steps, start=1))


def format_grounding(invocation: Invocation) -> str:
    """Return the grounding metadata of the model's searches: a line of JSON and the agent for each."""
    return "\n".join(each.text for each in iter_events(invocation) if each.kind == "grounding")


def find_agents(turns: Iterable[Turn]) -> Mapping[str, Mapping[str, Any]]:
    """Return the details of each agent (instructions, tools) from the first turn in which it took part."""
    details: dict[str, Mapping[str, Any]] = {}
    for _, name, agent in _iter_agents(turns):
        details.setdefault(name, agent)
    return details


def list_intermediate_parts(invocation: Invocation) -> list[tuple[str, Sequence[Part]]]:
    """Return author and recorded parts of each event before the final response."""
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        return [
            (event.author, event.content.parts or ()) for event in data.invocation_events if event.content is not None
        ]
    responses = (
        [(response.author, response.parts) for response in data.intermediate_responses] if data is not None else []
    )
    return [("agent", [part for event in iterate_events(invocation) for part in _iter_tool_parts(event)]), *responses]


def format_instructions(turns: Iterable[Turn]) -> str:
    """Return the instructions of every agent that took part, if they are known.

    Instructions may change during the conversation, because their template may use the state. Each text then names its
    turns.
    """
    texts = _group_by_agent(turns, "instructions", lambda value: value if isinstance(value, str) else "")
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n\n".join(f"{label}:\n{text}" for label, text in texts.items())


def format_tools(turns: Iterable[Turn]) -> str:
    """Return the tool declarations of every agent as JSON, if they are known; with their turns if they changed."""
    declared = _group_by_agent(turns, "tool_declarations", lambda value: _dump(value) if value else "")
    return f"{{{', '.join(f'{_dump(label)}: {text}' for label, text in declared.items())}}}" if declared else ""


def format_conversation(turns: Sequence[Turn], *, with_steps: bool = True) -> str:
    """Return the conversation turn by turn: texts of user and agents and, with steps, tool calls and grounding."""
    lines: list[str] = []
    for number, turn in enumerate(turns, start=1):
        if turn.actual is None:
            continue
        lines.append(f"USER TURN {number}: {_read_text(turn.actual.user_content)}")
        for event in iter_events(turn.actual):
            agent = f"AGENT {event.author} " if event.author else ""
            if event.kind == "text":
                lines.append(f"{agent}TURN {number}: {event.text}")
            elif with_steps:
                label = "GROUNDING" if event.kind == "grounding" else "STEP"
                lines.append(f"{agent}{label} OF TURN {number}: {event.text}")
        lines.append(f"{label_final_speaker(turn.actual)} TURN {number}: {_read_text(turn.actual.final_response)}")
    return "\n".join(lines)


def label_final_speaker(invocation: Invocation) -> str:
    """Return `AGENT` and, if known, the name of the agent that gave the final response."""
    author = find_final_author(invocation)
    return f"AGENT {author}" if author else "AGENT"


class TranscriptEvent(NamedTuple):
    """One event before the final response: a text, a tool call, a tool response or grounding metadata.

    `author` is empty if it is unknown, and for tool responses.
    """

    kind: Literal["text", "call", "answer", "grounding"]
    text: str
    author: str = ""


def iter_events(invocation: Invocation) -> Iterator[TranscriptEvent]:
    """Yield the events of a turn before its final response, in order as far as the order is known."""
    ids: dict[str, str] = {}
    for event in iterate_events(invocation):
        match event:
            case TextEvent(author, text):
                yield TranscriptEvent("text", text, author)
            case GroundingEvent(author, metadata):
                yield TranscriptEvent("grounding", f"{_dump(metadata)} (of {author})", author)
            case CallEvent(author):
                yield TranscriptEvent("call", _dump(_describe_step(event, ids)), author or "")
            case ResponseEvent():
                yield TranscriptEvent("answer", _dump(_describe_step(event, ids)))


def _describe_step(event: CallEvent | ResponseEvent, ids: dict[str, str]) -> dict[str, Any]:
    """Describe a call or its response, with the id that pairs them. `ids` maps the ids of the turn to shown ids."""
    if isinstance(event, CallEvent):
        call_id = event.call.id
        step = {"tool": event.call.name, "arguments": event.call.args}
    else:
        call_id = event.response.id
        step = {"answer_of": event.response.name, "response": event.response.response}
    if not call_id:
        return step
    is_generated = _GENERATED_ID.search(call_id) is not None
    return {**step, "id": ids.setdefault(call_id, f"call-{len(ids) + 1}" if is_generated else call_id)}


def _iter_tool_parts(event: TurnEvent) -> Iterator[Part]:
    if isinstance(event, CallEvent):
        yield Part(function_call=event.call)
    elif isinstance(event, ResponseEvent):
        yield Part(function_response=event.response)


def _group_by_agent(turns: Iterable[Turn], field: str, read_text: Callable[[Any], str]) -> dict[str, str]:
    """Return a text field of the agents by agent name; with turn numbers if an agent has several texts."""
    by_agent: dict[str, dict[str, list[int]]] = {}
    for number, name, agent in _iter_agents(turns):
        if text := read_text(agent.get(field, agent.get(to_camel(field)))):
            by_agent.setdefault(name, {}).setdefault(text, []).append(number)
    return {
        name if len(versions) == 1 else f"{name} ({_label_turns(numbers)})": text
        for name, versions in by_agent.items()
        for text, numbers in versions.items()
    }


def _label_turns(numbers: Sequence[int]) -> str:
    return f"turn{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def _iter_agents(turns: Iterable[Turn]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield turn number (from 1), name and recorded details of each agent."""
    for number, turn in enumerate(turns, start=1):
        details = (turn.actual.app_details or {}) if turn.actual is not None else {}
        agents = details.get("agent_details") or details.get("agentDetails")
        for name, agent in agents.items() if isinstance(agents, dict) else ():
            if isinstance(agent, dict):
                yield number, str(name), agent


def _read_text(content: Content | None) -> str:
    return "" if content is None else content.text_with_markers(thoughts=False)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# Variables of configured judge metrics.

# As in str.format, two braces are an escaped brace. Any other brace is text, so that a template can show JSON.
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


class Variable(NamedTuple):
    """The meaning of a variable, and the function that finds its text in a turn (None if there is none)."""

    meaning: str
    find: Callable[[Turn, CaseView], str | None]


def _find_prompt(turn: Turn, view: CaseView) -> str | None:
    del view
    return None if turn.actual is None else turn.actual.user_content.text_with_markers() or None


def _find_response(turn: Turn, view: CaseView) -> str | None:
    return format_response(turn.actual) if view.is_recorded("response", turn) else None


def _find_reference(turn: Turn, view: CaseView) -> str | None:
    del view
    return None if turn.expected is None or turn.expected.final_response is None else format_response(turn.expected)


def _find_history(turn: Turn, view: CaseView) -> str | None:
    earlier_turns = view.turns[: next(index for index, each in enumerate(view.turns) if each is turn)]
    return format_conversation(earlier_turns)


def _format_trajectory(calls: Trajectory | None) -> str | None:
    if calls is None:
        return None
    return format_value([{"tool_name": call.name, "tool_input": call.args} for call in calls])


VARIABLES: Mapping[str, Variable] = MappingProxyType(
    {
        "prompt": Variable("the message of the user in the turn", _find_prompt),
        "response": Variable("the final response of the agent", _find_response),
        "reference": Variable("the expected answer", _find_reference),
        "predicted_trajectory": Variable(
            "the tool calls of the turn, as JSON", lambda turn, _: _format_trajectory(turn.predicted)
        ),
        "reference_trajectory": Variable(
            "the expected tool calls, as JSON", lambda turn, _: _format_trajectory(turn.reference)
        ),
        "steps": Variable(
            "the tool calls with their results, one line of JSON each",
            lambda turn, _: None if turn.actual is None else format_steps(turn.actual),
        ),
        "history": Variable("the conversation before the turn", _find_history),
        "instructions": Variable(
            "the instructions of the agents that took part", lambda turn, _: format_instructions([turn])
        ),
        "tools": Variable("the tools of these agents, as JSON", lambda turn, _: format_tools([turn])),
    }
)
"""The variables of every case. Columns of a dataset are further variables."""

_MISSING = {
    "prompt": "the turn has no prompt",
    "reference": "the case has no expected response",
    "reference_trajectory": "the expected tool calls are unknown",
}


def find_variables(template: str) -> tuple[str, ...]:
    """Return the names of the variables in a template, sorted and without duplicates."""
    return tuple(sorted({match[1] for match in _PLACE.finditer(template) if match[1] is not None}))


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replace every variable by its value in one pass: a value that looks like a variable stays as it is."""
    return _PLACE.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], template)


def find_values(names: Iterable[str], turn: Turn, view: CaseView) -> dict[str, str] | Score:
    """Return the texts of these variables in a turn, or an undefined score if one has no text."""
    values: dict[str, str] = {}
    for name in names:
        value = find_value(name, turn, view)
        if value is None:
            why = f"the row has no {name}" if turn.is_row else _MISSING.get(name, f"the case has no {name}")
            return Score.undefined(why)
        values[name] = value
    return values


def find_value(name: str, turn: Turn, view: CaseView) -> str | None:
    """Return the text of a variable: the column of the dataset row, else the value of the turn."""
    column = view.subject.columns.get(name)
    if column is not None:
        return format_value(column)
    variable = VARIABLES.get(name)
    return None if variable is None else variable.find(turn, view)


def format_value(value: Any) -> str:
    """Return the value of a column as text: a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
