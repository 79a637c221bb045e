"""A row of a dataset as what it stands for: a case of one turn, and what an agent did in it.

Rows come by the ten thousand, and what is in them has been read already: nothing is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.model.base import trusted_maker
from workbench.model.evalset import Content, EvalCase, FunctionCall, IntermediateData, Invocation, Part
from workbench.model.results import Execution, TurnResult
from workbench.model.trajectory import ToolCall

_OF_TURN = {"user_content", "final_response", "intermediate_data"}
_OF_EXECUTION = {"turns"}

_case = trusted_maker(EvalCase, {"eval_id", "conversation"})
_invocation = trusted_maker(Invocation, _OF_TURN)
_content = trusted_maker(Content, {"parts", "role"})
_part = trusted_maker(Part, {"text"})
_data = trusted_maker(IntermediateData, {"tool_uses"})
_call = trusted_maker(FunctionCall, {"name", "args"})
_result = trusted_maker(TurnResult, {"invocation", "duration_seconds"})
_execution = trusted_maker(Execution, _OF_EXECUTION)


def prompt_of_row(prompt: str | None) -> Content:
    """What the user said; without parts where the row has no prompt."""
    return _content({"parts": [] if prompt is None else [_part({"text": prompt})], "role": "user"})


def turn_of_row(user_content: Content, answer: str | None, calls: Iterable[ToolCall] | None) -> Invocation:
    """One of the two sides of a row with this prompt of `prompt_of_row`.

    None is what the row does not say, which no calls are not.
    """
    said = None if answer is None else _content({"parts": [_part({"text": answer})], "role": "model"})
    done = None
    if calls is not None:
        done = _data({"tool_uses": [_call({"id": None, "name": name, "args": args}) for name, args in calls]})
    return _invocation({"user_content": user_content, "final_response": said, "intermediate_data": done})


def case_of_turn(eval_id: str, expected: Invocation) -> EvalCase:
    """What was expected."""
    return _case({"eval_id": eval_id, "conversation": [expected]})


def execution_of_turn(actual: Invocation, *, seconds: float) -> Execution:
    """What the agent did, in so many seconds."""
    return _execution({"turns": (_result({"invocation": actual, "duration_seconds": seconds}),)})


def is_made_of_row(execution: Execution) -> bool:
    """Whether nothing but a row is in it, as `execution_of_turn` was given what `turn_of_row` made.

    False says nothing: what was copied, or read back, may be the same.
    """
    if execution.model_fields_set is not _OF_EXECUTION:
        return False
    return execution.turns[0].invocation.model_fields_set is _OF_TURN
