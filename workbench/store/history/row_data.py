"""Rows of datasets as data: what they said, which is far less than the turns that are made of it.

They come by the ten thousand, and to write out turns takes twice the time, and the space, of what their rows said.
"""

from __future__ import annotations

from typing import Any

from workbench.model.evalset import Content, EvalCase, IntermediateData, Invocation, InvocationEvents
from workbench.model.results import Execution, TurnResult
from workbench.model.row_turns import case_of_turn, execution_of_turn, is_made_of_row, prompt_of_row, turn_of_row
from workbench.model.trajectory import ToolCall


def execution_to_row(execution: Execution) -> dict[str, Any] | None:
    """What a row said, where the execution is exactly what is made of it, else None."""
    if not is_made_of_row(execution) and not _could_be_of_row(execution):
        return None
    turn = execution.turns[0]
    data = _said_in(turn.invocation)
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
    return _said_in((case.conversation or [])[0])


def expected_of_row(data: dict[str, Any], eval_id: str) -> EvalCase:
    """The case of which `expected_to_row` gave this. Raises TypeError or ValueError where it is something else."""
    return case_of_turn(eval_id, _turn_of(data))


def _said_in(turn: Invocation) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if turn.user_content.parts:
        data["prompt"] = turn.user_content.text()
    if turn.final_response is not None:
        data["response"] = turn.final_response.text()
    if isinstance(turn.intermediate_data, IntermediateData):
        data["calls"] = [(call.name or "", call.args) for call in turn.intermediate_data.tool_uses]
    return data


def _could_be_of_row(execution: Execution) -> bool:
    """Whether there is neither more nor less to it than rows say."""
    if len(execution.turns) != 1 or not _has_turns_alone(execution):
        return False
    (turn,) = execution.turns
    said, answer = turn.invocation.user_content, turn.invocation.final_response
    return (
        _has_invocation_alone(turn)
        and _has_words_and_calls_alone(turn.invocation)
        and (_is_silent(said) or _is_one_text(said, role="user"))
        and (answer is None or _is_one_text(answer, role="model"))
        and _are_calls_alone(turn.invocation.intermediate_data)
    )


def _has_turns_alone(execution: Execution) -> bool:
    return (
        execution.final_state is None
        and not execution.spans
        and not execution.duration_seconds
        and not execution.unfinished_seconds
        and execution.failure is None
        and not execution.stdout_tail
        and not execution.stderr_tail
        and execution.simulation is None
    )


def _has_invocation_alone(turn: TurnResult) -> bool:
    told = (turn.inference_calls, turn.usage, turn.calls_unknown, turn.arguments_unknown)
    return all(each is None for each in told) and not turn.calls_untold


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


def _is_one_text(content: Content, *, role: str) -> bool:
    if content.role != role or content.model_extra or content.parts is None or len(content.parts) != 1:
        return False
    (part,) = content.parts
    others = (part.thought, part.function_call, part.function_response)
    return part.text is not None and not part.model_extra and all(other is None for other in others)


def _are_calls_alone(data: IntermediateData | InvocationEvents | None) -> bool:
    if data is None:
        return True
    if isinstance(data, InvocationEvents) or data.tool_responses or data.intermediate_responses or data.model_extra:
        return False
    return all(call.id is None and call.name is not None and not call.model_extra for call in data.tool_uses)


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
