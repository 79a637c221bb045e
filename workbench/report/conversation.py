"""A conversation as lines of text and as JSON: what the user and the agent said, and which tools were called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workbench.model.results import CaseResult, ConversationEnd, SimulatedConversation, TurnResult
from workbench.model.text import counted, mask_named, neutralise, one_line, redact
from workbench.model.trajectory import trajectory_of
from workbench.report.turns import said_in
from workbench.report.wording import time_taken

_NAME = 7  # columns of a speaker's name


def heading(result: CaseResult) -> str:
    """Which case it is, and who plays the user."""
    simulation = result.execution.simulation
    who = "" if simulation is None else f"  {_played_by(simulation)}"
    repeat = f" [{result.repeat + 1}]" if result.repeat else ""
    return one_line(f"── {result.case}{repeat}{who}")


def user_lines(text: str) -> Iterator[str]:
    """What the user said."""
    return _spoken("user", text)


def answer_lines(turn: TurnResult) -> Iterator[str]:
    """What the agent did and said in a turn."""
    for call in trajectory_of(turn.invocation):
        arguments = json.dumps(mask_named(call.args or {}), ensure_ascii=False, default=str)
        yield " " * _NAME + one_line(f"ƒ {call.name} {redact(arguments)}")
    for said in said_in(turn.invocation):
        yield from _spoken(said.author, said.text)
    response = turn.invocation.final_response
    yield from _spoken("agent", "(nothing)" if response is None else response.text(thoughts=False))


def ending(result: CaseResult) -> str:
    """How the conversation ended, and what it took."""
    simulation = result.execution.simulation
    parts = [counted(len(result.execution.turns), "turn")]
    if simulation is not None and simulation.calls:
        cached = f" ({simulation.cached} cached)" if simulation.cached else ""
        by = "a script" if simulation.scripted else simulation.model
        parts.append(f"{counted(simulation.calls, 'answer')} of {by}{cached}")
    parts.append(time_taken(result.agent_seconds))
    return " " * _NAME + one_line(f"{_why_ended(result)} · {' · '.join(parts)}")


def conversation_lines(result: CaseResult) -> Iterator[str]:
    """All of a conversation."""
    yield heading(result)
    for turn in result.execution.turns:
        yield from user_lines(turn.invocation.user_content.text(thoughts=False))
        yield from answer_lines(turn)
    yield ending(result)


def conversation_data(result: CaseResult) -> dict[str, Any]:
    """All of a conversation as JSON values; `ended` is stop_signal, limit or null."""
    simulation = result.execution.simulation
    return {
        "target": result.case.target,
        "eval_set": result.case.eval_set,
        "eval_id": result.case.eval_id,
        "repeat": result.repeat,
        "ended": None if simulation is None or simulation.end is None else simulation.end.value,
        "error": None if result.failure is None else redact(result.failure.message),
        "duration_seconds": result.duration_seconds,
        "agent_seconds": result.agent_seconds,
        "user": None if simulation is None else simulation.model_dump(mode="json", exclude={"end"}),
        "turns": [
            {
                "user": turn.invocation.user_content.text(thoughts=False),
                "agent": None
                if turn.invocation.final_response is None
                else turn.invocation.final_response.text(thoughts=False),
                "tool_calls": None
                if turn.calls_unknown is not None
                else [{"name": call.name, "args": call.args} for call in trajectory_of(turn.invocation)],
            }
            for turn in result.execution.turns
        ],
    }


def _played_by(simulation: SimulatedConversation) -> str:
    """Who the user is, and what plays it."""
    by = f"a script in place of {simulation.model}" if simulation.scripted else simulation.model
    return f"{simulation.persona or 'a user'}, played by {by}"


def _why_ended(result: CaseResult) -> str:
    simulation = result.execution.simulation
    if result.failure is not None:
        return f"ERROR: {redact(result.failure.message)}"
    if simulation is not None and simulation.end is ConversationEnd.LIMIT:
        return f"stopped at the limit of {counted(simulation.limit or 0, 'turn')}: the user had not finished"
    return "the user has finished" if simulation is not None else "all is said"


def _spoken(name: str, text: str) -> Iterator[str]:
    """Lines of speech, the name before the first."""
    label = one_line(name)
    for line in neutralise(redact(text)).splitlines() or [""]:
        yield f"{label:<{_NAME}}{line}"
        label = ""
