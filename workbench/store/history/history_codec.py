"""Results as the database has them."""

from __future__ import annotations

import json
import sys
import zlib
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from workbench.model.base import cache_by_identity
from workbench.model.evalset import Content, EvalCase, IntermediateData, Invocation, InvocationEvents
from workbench.model.results import (
    Execution,
    Failure,
    MetricResult,
    MetricScores,
    TurnResult,
    case_of_turn,
    execution_of_turn,
    has_judgements,
    is_made_of_row,
    prompt_of_row,
    turn_of_row,
)
from workbench.model.trace import ToolCall

# Rows of datasets as data: what they said, which is far less than the turns that are made of it.


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
    return all(each is None for each in told) and not turn.calls_unknown_by_design


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


# Results as JSON and back, exactly. What nobody set is left out: it is by default what it was.

_encode = json.JSONEncoder(separators=(",", ":"), default=repr, check_circular=False).encode
_decode_at = json.JSONDecoder().raw_decode
_METRICS = TypeAdapter(tuple[MetricResult, ...])
_dump_execution = Execution.__pydantic_serializer__.to_python
_dump_metric = MetricResult.__pydantic_serializer__.to_python

UNREADABLE = (ValueError, KeyError, TypeError, zlib.error)
"""What reading back raises where the text is not one of ours."""

_ROW = "row"
"""In place of what an agent did: what a row said that it had done."""

_EXPECTED = "expected"
"""Beside what an agent did: what the row of a dataset expected."""

# Large traces compress well even so. Small ones, which come by the ten thousand, would take longer to be compressed
# than all else that storing them takes.
_COMPRESSION_LEVEL = 1
_SMALL = 2_000  # bytes
_LARGE = 4_000  # bytes; up to there a small window finds all there is, and setting it up takes a third of the time
_WINDOW, _MEMORY = 12, 5  # as zlib counts them
_JSON = (b"{", b"[")  # what no compressed text begins with


def execution_to_json(execution: Execution, expected_by_row: EvalCase | None = None) -> bytes:
    """An execution with its turns and spans, and what a row expected; without them where they are no JSON or nested too
    deeply to be stored."""
    row = execution_to_row(execution)
    data = _dump_execution(execution, exclude_unset=True) if row is None else {_ROW: row}
    if expected_by_row is not None:
        data[_EXPECTED] = expected_to_row(expected_by_row)
    try:
        return _to_json(data)
    except (TypeError, ValueError, RecursionError):
        bare = execution.model_copy(update={"turns": (), "spans": (), "final_state": None})
        return _encode(_dump_execution(bare, exclude_unset=True)).encode()


def _to_json(data: Any) -> bytes:
    try:
        return to_json(data, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, RecursionError):
        return _encode(data).encode()  # lone surrogates, which Python's own JSON can hold


def to_blob(text: bytes) -> bytes:
    """JSON from here as it is stored: made smaller where that is worth its time."""
    if len(text) <= _SMALL:
        return text
    if len(text) > _LARGE:
        return zlib.compress(text, _COMPRESSION_LEVEL)
    press = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return press.compress(text) + press.flush()


def _from_blob(blob: bytes) -> Any:
    return json.loads(_text_of(blob))


def _text_of(blob: bytes) -> bytes:
    return blob if blob.startswith(_JSON) else zlib.decompress(blob)


def execution_from_blob(blob: bytes, *, eval_id: str) -> tuple[Execution, EvalCase | None]:
    """The execution that was stored, and what the row with this id expected, where it was one and did."""
    data = _from_blob(blob)
    expected, row = data.pop(_EXPECTED, None), data.pop(_ROW, None)
    execution = Execution.model_validate(data) if row is None else execution_of_row(row)
    return execution, None if expected is None else expected_of_row(expected, eval_id)


def tell_the_same(one: bytes, other: bytes) -> bool:
    """Whether two blobs are the same execution and expectation, in whatever form; False where one cannot be read."""
    try:
        return execution_from_blob(one, eval_id="") == execution_from_blob(other, eval_id="")
    except UNREADABLE:
        return False


# Cases that were scored alike share their results, all or most of them, and may do so by the thousand.


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def metrics_to_blob(metrics: tuple[MetricResult, ...]) -> bytes:
    """The metrics of a case."""
    return to_blob(b"[" + b",".join([_metric_to_json(metric) for metric in metrics]) + b"]")


@cache_by_identity(maxsize=256, skip_if=lambda metric: has_judgements((metric,)))
def _metric_to_json(metric: MetricResult) -> bytes:
    return _to_json(_dump_metric(metric, exclude_defaults=True))


def metrics_from_blob(blob: bytes) -> tuple[MetricResult, ...]:
    """The metrics of a case: the same ones for the same text, all or each by itself, unless the blob is large."""
    return _metrics_of_small(blob) if len(blob) <= _LARGE else _METRICS.validate_python(_from_blob(blob))


@lru_cache(maxsize=256)
def _metrics_of_small(blob: bytes) -> tuple[MetricResult, ...]:
    text, end = _text_of(blob).decode(), 0
    metrics: list[MetricResult] = []
    while text[end : end + 2] not in ("[]", "]"):  # what is before a metric is one character
        start = end + 1
        _, end = _decode_at(text, start)
        metrics.append(_metric_of(text[start:end]))
    return tuple(metrics)


@lru_cache(maxsize=1024)
def _metric_of(text: str) -> MetricResult:
    return MetricResult.model_validate(json.loads(text))


def scores_from_blob(blob: bytes) -> MetricScores:
    """What the metrics of a case scored."""
    return tuple((sys.intern(metric["name"]), metric.get("score")) for metric in _from_blob(blob))


def failure_to_text(failure: Failure | None) -> str | None:
    """Why a case ended in ERROR."""
    return None if failure is None else _encode(failure.model_dump())


def failure_from_text(text: str | None) -> Failure | None:
    """Why a case ended in ERROR."""
    return None if text is None else Failure.model_validate(json.loads(text))


def fact_to_text(fact: BaseModel) -> str:
    """A record or summary; paths and times in it become text."""
    return _encode(fact.model_dump(mode="json"))


def fact_data(text: str) -> dict[str, Any]:
    """The data of a record or summary."""
    return dict(json.loads(text))


def name_to_sql(name: str) -> str | bytes:
    """A name as SQLite can hold it: one with lone surrogates, from a file name that is no UTF-8, becomes bytes."""
    if name.isascii():  # nearly always, and then in half the time
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")
    return name


def name_from_sql(value: str | bytes) -> str:
    """The name that was stored."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
