"""Metrics on a tool call that a model wrote as text in its response, compared with one in the reference.

Definitions: Vertex AI documentation, "Tool use and function calling". Both texts are JSON with `content` and
`tool_calls`, a list or the JSON text of a list; only the first call counts. The documentation does not define these
cases, so they are our choice:
- The "total number of parameters" counts the parameters of either call, so that 1 means the same parameters.
- Values are compared in canonical form.
- An unreadable response has no call: the score is 0.
- There is no score without a readable reference, or if neither call has a parameter.

Parity with the service is not claimed, because it cannot be tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.metrics.case_view import Turn, is_same
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options, TurnJudge
from workbench.model.evalset import Invocation
from workbench.model.results import Score


class WrittenCall(NamedTuple):
    """A call in the text of a response."""

    name: str
    arguments: Mapping[str, Any]


class NoCall(ValueError):
    """A text has no call. The message describes the problem."""


def read_call(text: str) -> WrittenCall:
    """Read the first call in the text of a response. Raises NoCall."""
    response = _read_json(text)
    if not isinstance(response, dict) or "tool_calls" not in response:
        raise NoCall('is not a JSON object with "content" and "tool_calls"')
    calls = _read_json(response["tool_calls"])
    if not isinstance(calls, list) or not calls:
        raise NoCall('has no call in "tool_calls"')
    call = calls[0]
    name, arguments = (call.get("name"), _read_json(call.get("arguments"))) if isinstance(call, dict) else (None, None)
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise NoCall('has a first call without "name" and "arguments"')
    return WrittenCall(name, arguments)


def call_valid(turn: Turn) -> Score:
    """Return 1 if the response has a call with a name and arguments, else 0."""
    if turn.actual is None or turn.actual.final_response is None:
        return _explain_no_response(turn)
    try:
        read_call(_text(turn.actual))
    except NoCall as problem:
        return Score(0.0, hint=f"The response {problem}.")
    return Score(1.0)


def name_match(predicted: WrittenCall, reference: WrittenCall) -> Score:
    """Return 1 if both calls are of the same tool, else 0."""
    return Score(float(predicted.name == reference.name))


def parameter_key_match(predicted: WrittenCall, reference: WrittenCall) -> Score:
    """Return the share of the parameters of either call that both have, in [0, 1]."""
    return _compute_share(_list_shared_parameters(predicted, reference), predicted, reference)


def parameter_kv_match(predicted: WrittenCall, reference: WrittenCall) -> Score:
    """Return the share of the parameters of either call that both have with the same value, in [0, 1]."""
    both = _list_shared_parameters(predicted, reference)
    equal = [name for name in both if is_same(predicted.arguments[name], reference.arguments[name])]
    return _compute_share(equal, predicted, reference)


def _list_shared_parameters(predicted: WrittenCall, reference: WrittenCall) -> list[str]:
    return [name for name in predicted.arguments if name in reference.arguments]


def _compute_share(names: Sequence[str], predicted: WrittenCall, reference: WrittenCall) -> Score:
    every = {*predicted.arguments, *reference.arguments}
    return Score(len(names) / len(every)) if every else Score.undefined("neither call has a parameter")


def _compare_calls(turn: Turn, formula: Callable[[WrittenCall, WrittenCall], Score]) -> Score:
    if turn.expected is None or turn.expected.final_response is None:
        return Score.undefined("the row has no reference" if turn.is_row else "the case expects no response")
    if turn.actual is None or turn.actual.final_response is None:
        return _explain_no_response(turn)
    try:
        reference = read_call(_text(turn.expected))
    except NoCall as problem:
        return Score.undefined(f"the reference {problem}")
    try:
        return formula(read_call(_text(turn.actual)), reference)
    except NoCall as problem:
        return Score(0.0, hint=f"The response {problem}.")


def _explain_no_response(turn: Turn) -> Score:
    return Score.undefined("the row has no response" if turn.is_recorded else "the agent gave no response")


def _text(invocation: Invocation) -> str:
    return "" if invocation.final_response is None else invocation.final_response.text(thoughts=False)


def _read_json(value: Any) -> Any:
    """Return a value that may be written as JSON text; None if the text is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _define(name: str, score: Callable[[Turn], Score], *, purpose: str, needs_reference: bool = True) -> Definition:
    def prepare(options: Options) -> Sequence[Judge]:
        return [TurnJudge(name=options.metric, score=score)]

    when = "A model writes its call as JSON into its response."
    info = MetricInfo(name=name, family="response", purpose=purpose, when=when, needs_reference=needs_reference)
    return Definition(info=info, prepare=prepare)


METRICS = (
    _define(
        "tool_call_valid",
        call_valid,
        purpose="Whether the response is JSON with a tool call.",
        needs_reference=False,
    ),
    _define(
        "tool_name_match",
        lambda turn: _compare_calls(turn, name_match),
        purpose="Whether the call in the response is of the expected tool.",
    ),
    _define(
        "tool_parameter_key_match",
        lambda turn: _compare_calls(turn, parameter_key_match),
        purpose="Share of the parameters that the written and the expected call have in common.",
    ),
    _define(
        "tool_parameter_kv_match",
        lambda turn: _compare_calls(turn, parameter_kv_match),
        purpose="Share of the parameters that have the same value in the written and the expected call.",
    ),
)
