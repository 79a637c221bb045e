"""The dialogue as a judge sees it."""

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

# What happened, as text for judges: the steps of a turn, and a whole conversation.

# A new one each time the agent runs: shown as it is, it would make a new question of what was asked before.
_GENERATED_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def format_response(invocation: Invocation | None, *, with_intermediate: bool = False) -> str:
    """The text of the final response, thoughts left out; on request after what was said on the way to it."""
    if invocation is None:
        return ""
    events = iterate_events(invocation) if with_intermediate else ()
    said = [event.text for event in events if isinstance(event, TextEvent)]
    return "\n".join([*said, _read_text(invocation.final_response)]).strip()


def format_steps(invocation: Invocation) -> str:
    """Tool calls and what the tools answered, in order, as lines of JSON; empty where there were none."""
    ids: dict[str, str] = {}
    steps = [
        _describe_step(event, ids)
        for event in iterate_events(invocation)
        if isinstance(event, CallEvent | ResponseEvent)
    ]
    return "\n".join(_dump({"step": number, **step}) for number, step in enumerate(steps, start=1))


def format_grounding(invocation: Invocation) -> str:
    """What searches of the model brought up, a line of JSON and the agent for each; empty where there were none."""
    return "\n".join(each.text for each in iter_events(invocation) if each.kind == "grounding")


def find_agents(turns: Iterable[Turn]) -> Mapping[str, Mapping[str, Any]]:
    """What agents tell of themselves (instructions, tools), each as it was when it first took part."""
    told: dict[str, Mapping[str, Any]] = {}
    for _, name, agent in _iter_agents(turns):
        told.setdefault(name, agent)
    return told


def list_intermediate_parts(invocation: Invocation) -> list[tuple[str, Sequence[Part]]]:
    """What happened before the final response, part by part as it was recorded, each event with its author."""
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        return [
            (event.author, event.content.parts or ()) for event in data.invocation_events if event.content is not None
        ]
    said = [(response.author, response.parts) for response in data.intermediate_responses] if data is not None else []
    return [("agent", [part for event in iterate_events(invocation) for part in _iter_tool_parts(event)]), *said]


def format_instructions(turns: Iterable[Turn]) -> str:
    """The instructions of every agent that took part, as far as the agent tells them.

    Instructions that changed in the conversation (a template may name the state) are shown with their turns.
    """
    told = _group_by_agent(turns, "instructions", lambda value: value if isinstance(value, str) else "")
    if len(told) == 1:
        return next(iter(told.values()))
    return "\n\n".join(f"{label}:\n{text}" for label, text in told.items())


def format_tools(turns: Iterable[Turn]) -> str:
    """The tools that every agent had, as JSON, as far as the agent tells them; with their turns where they changed."""
    declared = _group_by_agent(turns, "tool_declarations", lambda value: _dump(value) if value else "")
    return f"{{{', '.join(f'{_dump(label)}: {text}' for label, text in declared.items())}}}" if declared else ""


def format_conversation(turns: Sequence[Turn], *, with_steps: bool = True) -> str:
    """What the user and the agents said and did, turn by turn, in order; without steps only what they said."""
    lines: list[str] = []
    for number, turn in enumerate(turns, start=1):
        if turn.actual is None:
            continue
        lines.append(f"USER TURN {number}: {_read_text(turn.actual.user_content)}")
        for happening in iter_events(turn.actual):
            agent = f"AGENT {happening.author} " if happening.author else ""
            if happening.kind == "said":
                lines.append(f"{agent}TURN {number}: {happening.text}")
            elif with_steps:
                what = "GROUNDING" if happening.kind == "grounding" else "STEP"
                lines.append(f"{agent}{what} OF TURN {number}: {happening.text}")
        lines.append(f"{label_final_speaker(turn.actual)} TURN {number}: {_read_text(turn.actual.final_response)}")
    return "\n".join(lines)


def label_final_speaker(invocation: Invocation) -> str:
    """`AGENT` with the name of the agent that gave the final response, as far as it is known."""
    author = find_final_author(invocation)
    return f"AGENT {author}" if author else "AGENT"


class TranscriptEvent(NamedTuple):
    """One thing on the way to a final response: something said, a tool call, its answer, what a search brought up.

    `author` is empty where it is not known, and of answers.
    """

    kind: Literal["said", "call", "answer", "grounding"]
    text: str
    author: str = ""


def iter_events(invocation: Invocation) -> Iterator[TranscriptEvent]:
    """What happened in a turn before its final response, in order as far as the order is known."""
    ids: dict[str, str] = {}
    for event in iterate_events(invocation):
        match event:
            case TextEvent(author, text):
                yield TranscriptEvent("said", text, author)
            case GroundingEvent(author, metadata):
                yield TranscriptEvent("grounding", f"{_dump(metadata)} (of {author})", author)
            case CallEvent(author):
                yield TranscriptEvent("call", _dump(_describe_step(event, ids)), author or "")
            case ResponseEvent():
                yield TranscriptEvent("answer", _dump(_describe_step(event, ids)))


def _describe_step(event: CallEvent | ResponseEvent, ids: dict[str, str]) -> dict[str, Any]:
    """A call or its answer with the id that pairs them; `ids` are those of the turn, as they are shown."""
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


def _group_by_agent(turns: Iterable[Turn], field: str, text_of: Callable[[Any], str]) -> dict[str, str]:
    """The texts of a field of the agents, by the agent's name; with the numbers of the turns where there are several
    of one agent."""
    told: dict[str, dict[str, list[int]]] = {}
    for number, name, agent in _iter_agents(turns):
        if text := text_of(agent.get(field, agent.get(to_camel(field)))):
            told.setdefault(name, {}).setdefault(text, []).append(number)
    return {
        name if len(versions) == 1 else f"{name} ({_label_turns(numbers)})": text
        for name, versions in told.items()
        for text, numbers in versions.items()
    }


def _label_turns(numbers: Sequence[int]) -> str:
    return f"turn{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def _iter_agents(turns: Iterable[Turn]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """What agents tell of themselves, with the number of the turn and the agent's name."""
    for number, turn in enumerate(turns, start=1):
        details = (turn.actual.app_details or {}) if turn.actual is not None else {}
        agents = details.get("agent_details") or details.get("agentDetails")
        for name, agent in agents.items() if isinstance(agents, dict) else ():
            if isinstance(agent, dict):
                yield number, str(name), agent


def _read_text(content: Content | None) -> str:
    return "" if content is None else content.text(thoughts=False)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# The variables that a judge metric of a configuration may show the judge, and what they stand for in a turn.

# As in str.format, two braces stand for one. Any other brace is text, so that a template can show JSON.
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


class Variable(NamedTuple):
    """What a variable means, and how its text is found; None where the turn has none."""

    meaning: str
    find: Callable[[Turn, CaseView], str | None]


def _find_prompt(turn: Turn, view: CaseView) -> str | None:
    del view
    return None if turn.actual is None else turn.actual.user_content.text() or None


def _find_response(turn: Turn, view: CaseView) -> str | None:
    return format_response(turn.actual) if view.is_recorded("response", turn) else None


def _find_reference(turn: Turn, view: CaseView) -> str | None:
    del view
    return None if turn.expected is None or turn.expected.final_response is None else format_response(turn.expected)


def _find_history(turn: Turn, view: CaseView) -> str | None:
    before = view.turns[: next(index for index, each in enumerate(view.turns) if each is turn)]
    return format_conversation(before)


def _format_trajectory(calls: Trajectory | None) -> str | None:
    if calls is None:
        return None
    return format_value([{"tool_name": call.name, "tool_input": call.args} for call in calls])


VARIABLES: Mapping[str, Variable] = MappingProxyType(
    {
        "prompt": Variable("what the user said in the turn", _find_prompt),
        "response": Variable("what the agent answered in the end", _find_response),
        "reference": Variable("the expected answer", _find_reference),
        "predicted_trajectory": Variable(
            "the tool calls of the turn, as JSON", lambda turn, _: _format_trajectory(turn.predicted)
        ),
        "reference_trajectory": Variable(
            "the expected tool calls, as JSON", lambda turn, _: _format_trajectory(turn.reference)
        ),
        "steps": Variable(
            "the tool calls with what the tools answered, a line of JSON each",
            lambda turn, _: None if turn.actual is None else format_steps(turn.actual),
        ),
        "history": Variable("the conversation before the turn", _find_history),
        "instructions": Variable(
            "the instructions of the agents that took part", lambda turn, _: format_instructions([turn])
        ),
        "tools": Variable("the tools that they had, as JSON", lambda turn, _: format_tools([turn])),
    }
)
"""Those that every case has; the columns of a dataset are variables besides."""

_MISSING = {
    "prompt": "the turn has no prompt",
    "reference": "the case has no expected response",
    "reference_trajectory": "nothing is known of the expected tool calls",
}


def find_variables(template: str) -> tuple[str, ...]:
    """The variables that a template names, each once, in alphabetical order."""
    return tuple(sorted({match[1] for match in _PLACE.finditer(template) if match[1] is not None}))


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """The template with every variable replaced by its value, in one go: what a value says is never looked at."""
    return _PLACE.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], template)


def find_values(names: Iterable[str], turn: Turn, view: CaseView) -> dict[str, str] | Score:
    """The texts of these variables in a turn; a score that does not exist, where the turn has none of one."""
    values: dict[str, str] = {}
    for name in names:
        value = find_value(name, turn, view)
        if value is None:
            why = f"the row has no {name}" if turn.is_row else _MISSING.get(name, f"the case has no {name}")
            return Score.undefined(why)
        values[name] = value
    return values


def find_value(name: str, turn: Turn, view: CaseView) -> str | None:
    """The text of a variable: what the row of a dataset says, else what the turn was."""
    column = view.subject.columns.get(name)
    if column is not None:
        return format_value(column)
    known = VARIABLES.get(name)
    return None if known is None else known.find(turn, view)


def format_value(value: Any) -> str:
    """The text of the value of a column: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
