"""What answers prompts: functions, and objects that are asked through a method, as one kind of function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench.agents.worker.adapters.base import AgentFault
from workbench.agents.worker.values import describe
from workbench.testing.evaluation.problems import EvaluationError

Agent = Callable[[str], Any]
"""Gives for a prompt what `answers.read_answer` reads, or an awaitable of it."""

_SHAPE = 'a str, or a dict with "output" and "intermediate_steps"'


def agent_of(runnable: Any) -> Agent:
    """The agent that a `runnable` is: a function `f(prompt)`, or an object with `query(input=)`.

    Raises EvaluationError.
    """
    query = getattr(runnable, "query", None)
    if callable(query) and not isinstance(runnable, type):
        return partial(_query, query)
    if callable(runnable):
        return runnable  # type: ignore[no-any-return]
    raise EvaluationError(
        f"runnable: found {describe(runnable)}, expected a function f(prompt) or an object with query"
    )


def agent_of_model(model: Any) -> Agent:
    """The agent that a `model` is: a function `f(prompt)`, or an object with `generate_content(prompt)`.

    Raises EvaluationError.
    """
    generate = getattr(model, "generate_content", None)
    if callable(generate) and not isinstance(model, type):
        return partial(_generate, generate)
    if callable(model):
        return model  # type: ignore[no-any-return]
    expected = "a function f(prompt) or an object with generate_content"
    raise EvaluationError(f"model: found {describe(model)}, expected {expected}")


def _generate(generate: Callable[[str], Any], prompt: str) -> str:
    reply = generate(prompt)
    text = getattr(reply, "text", None)
    if not isinstance(text, str):
        raise AgentFault(f"the model gave {describe(reply)} without text")
    return text


def _query(query: Callable[..., Any], prompt: str) -> Any:
    value = query(input=prompt)
    return _read_later(value) if hasattr(type(value), "__await__") else _read(value)


async def _read_later(value: Any) -> Any:
    return _read(await value)


def _read(value: Any) -> Any:
    """What `query` gave, in the shape that functions give. Raises AgentFault."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or not ("output" in value or "response" in value):
        raise AgentFault(f"query(input=) returned {describe(value)}, expected {_SHAPE}")
    if "output" not in value:
        return value
    answer = {"response": value["output"]}
    steps = value.get("intermediate_steps")
    if steps is not None:
        if not isinstance(steps, list | tuple):
            raise AgentFault(f'"intermediate_steps" is {describe(steps)}, expected a list')
        answer["predicted_trajectory"] = [_call_of(step, number) for number, step in enumerate(steps)]
    return answer


def _call_of(step: Any, number: int) -> dict[str, Any]:
    """The call of a step `[action, observation]`: the action is an object with `tool`, or `{"kwargs": {"tool"}}`."""
    action = step[0] if isinstance(step, list | tuple) and step else step
    if isinstance(action, Mapping):
        action = action.get("kwargs", action)
        tool, given = (action.get("tool"), action.get("tool_input")) if isinstance(action, Mapping) else (None, None)
    else:
        tool, given = getattr(action, "tool", None), getattr(action, "tool_input", None)
    if not isinstance(tool, str):
        raise AgentFault(f"intermediate_steps[{number}] is {describe(step)}, expected a step with a tool")
    return {"tool_name": tool, "tool_input": _arguments(given)}


def _arguments(given: Any) -> Any:
    """The arguments of a call. A tool of one argument may have been given just that, which has no name then."""
    if not isinstance(given, str) or not given:
        return given
    try:
        read = json.loads(given)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"input": given}
