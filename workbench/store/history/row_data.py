"""Rows of datasets as data: what they said, which is far less than the turns that are made of it.

They come by the ten thousand, and to write out turns takes twice the time, and the space, of what their rows said.
"""

from __future__ import annotations

from typing import Any

from workbench.model.evalset import Content, EvalCase, IntermediateData, Invocation, InvocationEvents
from workbench.model.results import Execution, TurnResult
from workbench.model.row_turns import case_of_turn, execution_of_turn, prompt_of_row, turn_of_row
from workbench.model.trajectory import ToolCall


def execution_to_row(execution: Execution) -> dict[str, Any] | None:
    """What a row said, where the execution is exactly what is made of it, else None."""
    if len(execution.turns) != 1 or not _has_turns_alone(execution):
        return None
    turn = execution.turns[0]
    invocation = turn.invocation
    if not _has_invocation_alone(turn) or not _has_words_and_calls_alone(invocation):
        return None
    data: dict[str, Any] = {}
    try:
        if not _is_silent(invocation.user_content):
            data["prompt"] = _said(invocation.user_content, role="user")
        if invocation.final_response is not None:
            data["response"] = _said(invocation.final_response, role="model")
        if invocation.intermediate_data is not None:
            data["calls"] = _calls_of(invocation.intermediate_data)
    except _NotOfARow:
        return None
    if turn.duration_seconds:
        data["seconds"] = turn.duration_seconds
    return data


def execution_of_row(data: dict[str, Any]) -> Execution:
    """The execution of which `execution_to_row` gave this. Raises TypeError or ValueError where it is anything else."""
    seconds = data.get("seconds", 0.0)
    if not isinstance(seconds, int | float):
        raise TypeError(f"seconds: found {seconds!r}, expected a number")
    return execution_of_turn(_turn_of(data), seconds=seconds)


def expected_to_row(case: EvalCase) -> dict[str, Any]:
    """What a row said that it expected."""
    turn = (case.conversation or [])[0]
    data: dict[str, Any] = {}
    if turn.user_content.parts:
        data["prompt"] = turn.user_content.text()
    if turn.final_response is not None:
        data["response"] = turn.final_response.text()
    if isinstance(turn.intermediate_data, IntermediateData):
        data["calls"] = [(call.name or "", call.args) for call in turn.intermediate_data.tool_uses]
    return data


def expected_of_row(data: dict[str, Any], eval_id: str) -> EvalCase:
    """The case of which `expected_to_row` gave this. Raises TypeError or ValueError where it is something else."""
    return case_of_turn(eval_id, _turn_of(data))


class _NotOfARow(Exception):
    """There is more, or less, to it than rows say."""


def _has_turns_alone(execution: Execution) -> bool:
    return (
        execution.final_state is None
        and not execution.spans
        and not execution.duration_seconds
        and execution.failure is None
        and not execution.stdout_tail
        and not execution.stderr_tail
        and execution.simulation is None
    )


def _has_invocation_alone(turn: TurnResult) -> bool:
    told = (turn.inference_calls, turn.usage, turn.calls_unknown, turn.arguments_unknown)
    return all(each is None for each in told)


def _has_words_and_calls_alone(invocation: Invocation) -> bool:
    return (
        not invocation.invocation_id
        and not invocation.creation_timestamp
        and invocation.rubrics is None
        and invocation.app_details is None
        and not invocation.model_extra
    )


def _is_silent(content: Content) -> bool:
    """Whether it is what is made of a row without prompt."""
    return content.parts == [] and content.role == "user" and not content.model_extra


def _said(content: Content, *, role: str) -> str:
    """The one text of a content."""
    if content.role != role or content.model_extra or content.parts is None or len(content.parts) != 1:
        raise _NotOfARow
    part = content.parts[0]
    if part.text is None or part.thought is not None or part.model_extra:
        raise _NotOfARow
    if part.function_call is not None or part.function_response is not None:
        raise _NotOfARow
    return part.text


def _calls_of(data: IntermediateData | InvocationEvents) -> list[tuple[str, Any]]:
    if isinstance(data, InvocationEvents) or data.tool_responses or data.intermediate_responses or data.model_extra:
        raise _NotOfARow
    calls = []
    for call in data.tool_uses:
        if call.id is not None or call.name is None or call.model_extra:
            raise _NotOfARow
        calls.append((call.name, call.args))
    return calls


def _turn_of(data: dict[str, Any]) -> Invocation:
    prompt, response, calls = _text(data, "prompt"), _text(data, "response"), data.get("calls")
    return turn_of_row(prompt_of_row(prompt), response, None if calls is None else [_call(*call) for call in calls])


def _text(data: dict[str, Any], name: str) -> str | None:
    text = data.get(name)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name}: found {text!r}, expected text")
    return text


def _call(name: Any, args: Any) -> ToolCall:
    if not isinstance(name, str) or not (args is None or isinstance(args, dict)):
        raise TypeError(f"calls: found {name!r} with {args!r}, expected a name and an object")
    return ToolCall(name, args)
