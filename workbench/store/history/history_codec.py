"""Results as data of the database."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, from_json, to_json

from workbench.model.evalset import Content, EvalCase, IntermediateData, Invocation, InvocationEvents, Quarantine
from workbench.model.facts import cache_by_identity
from workbench.model.results import (
    Execution,
    Failure,
    MetricResult,
    MetricScores,
    TurnResult,
    has_judgements,
    is_row_execution,
    make_row_case,
    make_row_execution,
    make_row_prompt,
    make_row_turn,
)
from workbench.model.trace import ToolCall

# Rows of datasets as data, which is much smaller than their turns


def dump_row(execution: Execution) -> dict[str, Any] | None:
    """Return the data of a row if the execution is exactly the one made from it; else None."""
    if not is_row_execution(execution) and not _is_like_row(execution):
        return None
    turn = execution.turns[0]
    data = _dump_turn(turn.invocation)
    if turn.duration_seconds:
        data["seconds"] = turn.duration_seconds
    return data


def load_row(data: dict[str, Any]) -> Execution:
    """Return the execution of data from `dump_row`. Raises TypeError or ValueError for other data."""
    seconds = data.get("seconds", 0.0)
    if not isinstance(seconds, int | float):
        raise TypeError(f"seconds: found {seconds!r}, expected a number")
    return make_row_execution(_load_turn(data), seconds=seconds)


def dump_expected(case: EvalCase) -> dict[str, Any]:
    """Return the data of what a row expects."""
    return _dump_turn((case.conversation or [])[0])


def load_expected(data: dict[str, Any], eval_id: str) -> EvalCase:
    """Return the case of data from `dump_expected`. Raises TypeError or ValueError for other data."""
    return make_row_case(eval_id, _load_turn(data))


def _dump_turn(turn: Invocation) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if turn.user_content.parts:
        data["prompt"] = turn.user_content.text()
    if turn.final_response is not None:
        data["response"] = turn.final_response.text()
    if isinstance(turn.intermediate_data, IntermediateData):
        data["calls"] = [(call.name or "", call.args) for call in turn.intermediate_data.tool_uses]
    return data


def _is_like_row(execution: Execution) -> bool:
    """True if the execution has exactly what a row can have."""
    if len(execution.turns) != 1 or not _has_only_turns(execution):
        return False
    (turn,) = execution.turns
    said, answer = turn.invocation.user_content, turn.invocation.final_response
    return (
        _has_only_invocation(turn)
        and _has_only_words_and_calls(turn.invocation)
        and (_is_without_prompt(said) or _is_one_text(said, role="user"))
        and (answer is None or _is_one_text(answer, role="model"))
        and _has_only_calls(turn.invocation.intermediate_data)
    )


def _has_only_turns(execution: Execution) -> bool:
    return (
        execution.final_state is None
        and not execution.spans
        and not execution.duration_seconds
        and not execution.unfinished_seconds
        and execution.failure is None
        and not execution.stdout_tail
        and not execution.stderr_tail
        and execution.simulation is None
        and execution.model_calls is None
        and execution.node is None
    )


def _has_only_invocation(turn: TurnResult) -> bool:
    optional = (turn.inference_calls, turn.usage, turn.calls_unknown, turn.arguments_unknown, turn.pending)
    return all(each is None for each in optional) and not turn.calls_unknown_by_design and not turn.notes


def _has_only_words_and_calls(invocation: Invocation) -> bool:
    return (
        not invocation.invocation_id
        and not invocation.creation_timestamp
        and invocation.rubrics is None
        and invocation.app_details is None
        and not invocation.model_extra
    )


def _is_without_prompt(content: Content) -> bool:
    """True for the content of a row without prompt."""
    return content.parts == [] and content.role == "user" and not content.model_extra


def _is_one_text(content: Content, *, role: str) -> bool:
    if content.role != role or content.model_extra or content.parts is None or len(content.parts) != 1:
        return False
    (part,) = content.parts
    others = (part.thought, part.function_call, part.function_response)
    return part.text is not None and not part.model_extra and all(other is None for other in others)


def _has_only_calls(data: IntermediateData | InvocationEvents | None) -> bool:
    if data is None:
        return True
    if isinstance(data, InvocationEvents) or data.tool_responses or data.intermediate_responses or data.model_extra:
        return False
    return all(call.id is None and call.name is not None and not call.model_extra for call in data.tool_uses)


def _load_turn(data: dict[str, Any]) -> Invocation:
    prompt, response, calls = _read_text(data, "prompt"), _read_text(data, "response"), data.get("calls")
    return make_row_turn(
        make_row_prompt(prompt), response, None if calls is None else [_read_call(*call) for call in calls]
    )


def _read_text(data: dict[str, Any], name: str) -> str | None:
    text = data.get(name)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name}: found {text!r}, expected text")
    return text


def _read_call(name: Any, args: Any) -> ToolCall:
    if not isinstance(name, str) or not (args is None or isinstance(args, dict)):
        raise TypeError(f"calls: found {name!r} with {args!r}, expected a name and an object")
    return ToolCall(name, args)


# Results as JSON and back, exactly. Unset fields are left out; their defaults do not change

_Model = TypeVar("_Model", bound=BaseModel)

_encode = json.JSONEncoder(separators=(",", ":"), default=repr, check_circular=False).encode
_METRICS = TypeAdapter(tuple[MetricResult, ...])
_dump_execution = Execution.__pydantic_serializer__.to_python
_dump_metric = MetricResult.__pydantic_serializer__.to_python

UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, zlib.error)
"""Errors of reading data that this program did not write."""

_ROW = "row"
"""The key for the data of a row, which replace those of an execution."""

_EXPECTED = "expected"
"""The key for what the row of a dataset expected, besides the execution."""

_MARK_OF_ROW, _MARK_OF_EXPECTED = b'"row":', b'"expected":'
"""One of them is in every text with these keys. Other texts may contain it, too."""

# Large traces compress well even at this level. Compressing small ones, which come by the ten thousand, would take
# longer than all other work of storing them.
_COMPRESSION_LEVEL = 1
_SMALL = 2_000  # bytes
_SMALL_METRICS = 500  # bytes; thousands of cases share their metrics, which are compressed once
_LARGE = 4_000  # bytes; up to here a small window suffices, whose setup takes a third of the time
_WINDOW, _MEMORY = 12, 5  # as zlib counts them
_JSON = (b"{", b"[")  # no compressed text starts with these


def execution_to_json(execution: Execution, expected_by_row: EvalCase | None = None) -> bytes:
    """Encode an execution and what a row expected.

    Turns, spans and final state are left out if they are no JSON, or nested too deeply to be stored.
    """
    row = dump_row(execution)
    data = _dump_execution(execution, exclude_unset=True) if row is None else {_ROW: row}
    if expected_by_row is not None:
        data[_EXPECTED] = dump_expected(expected_by_row)
    try:
        return _to_json(data)
    except (TypeError, ValueError, RecursionError):
        bare = execution.model_copy(update={"turns": (), "spans": (), "final_state": None})
        return _encode(_dump_execution(bare, exclude_unset=True)).encode()


def _to_json(data: Any) -> bytes:
    try:
        return to_json(data, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, RecursionError):
        return _encode(data).encode()  # lone surrogates, which Python's own JSON can encode


def to_blob(text: bytes) -> bytes:
    """Compress JSON if it is worth the time."""
    return _compress(text) if len(text) > _SMALL else text


def _compress(text: bytes) -> bytes:
    if len(text) > _LARGE:
        return zlib.compress(text, _COMPRESSION_LEVEL)
    press = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return press.compress(text) + press.flush()


def _decompress(blob: bytes) -> bytes:
    return blob if blob.startswith(_JSON) else zlib.decompress(blob)


def execution_from_blob(blob: bytes, *, eval_id: str) -> tuple[Execution, EvalCase | None]:
    """Decode an execution, and what the row with this id expected, if any."""
    text = _decompress(blob)
    if _MARK_OF_ROW not in text and _MARK_OF_EXPECTED not in text:
        return _load_model(Execution, text), None
    data = json.loads(text)
    expected, row = data.pop(_EXPECTED, None), data.pop(_ROW, None)
    execution = Execution.model_validate(data) if row is None else load_row(row)
    return execution, None if expected is None else load_expected(expected, eval_id)


def data_from_blob(blob: bytes) -> dict[str, Any]:
    """Decode an execution as JSON data. Raises ValueError if it is no object."""
    data = _read_json(_decompress(blob))
    if not isinstance(data, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - as for other unreadable data
    return data


def _read_json(text: bytes) -> Any:
    try:
        return from_json(text)
    except ValueError:  # lone surrogates
        return json.loads(text)


def _load_model(model: type[_Model], text: str | bytes) -> _Model:
    """Decode and validate at once, which takes half of the time."""
    try:
        return model.model_validate_json(text)
    except ValueError:  # lone surrogates, and deep nesting, which Python's own JSON can decode
        return model.model_validate(json.loads(text))


def is_same_execution(one: bytes, other: bytes) -> bool:
    """True if two blobs are the same execution and expectation in any encoding; False if one is unreadable."""
    try:
        return execution_from_blob(one, eval_id="") == execution_from_blob(other, eval_id="")
    except UNREADABLE:
        return False


# Thousands of cases with the same scores share their results, all or most of them


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def metrics_to_blob(metrics: tuple[MetricResult, ...]) -> bytes:
    text = b"[" + b",".join([_metric_to_json(metric) for metric in metrics]) + b"]"
    return _compress(text) if len(text) > _SMALL_METRICS else text


@cache_by_identity(maxsize=256, skip_if=lambda metric: has_judgements((metric,)))
def _metric_to_json(metric: MetricResult) -> bytes:
    return _to_json(_dump_metric(metric, exclude_defaults=True))


def metrics_from_blob(blob: bytes) -> tuple[MetricResult, ...]:
    """Decode the metrics of a case. Equal text gives the same objects, unless the blob is large."""
    return _load_small_metrics(blob) if len(blob) <= _LARGE else _METRICS.validate_python(json.loads(_decompress(blob)))


@lru_cache(maxsize=256)
def _load_small_metrics(blob: bytes) -> tuple[MetricResult, ...]:
    text = _decompress(blob)
    try:
        return tuple(map(_load_metric, _split_metrics(text)))
    except ValueError:
        return _METRICS.validate_python(json.loads(text))


@lru_cache(maxsize=1024)
def _load_metric(part: bytes) -> MetricResult:
    return _load_model(MetricResult, _BEFORE_METRIC + part + b"}")


_BEFORE_METRIC = b'{"name":'


def _split_metrics(text: bytes) -> list[bytes]:
    """Split a list of metrics into objects without decoding it, which takes far longer.

    The parts lack `{"name":` and the last `}`. Text in quotation marks cannot contain what is between them. A list of
    such objects within a metric can: then the first part is no JSON, because a bracket is open. Raises ValueError for
    other text.
    """
    if text == b"[]":
        return []
    if not text.startswith(b"[" + _BEFORE_METRIC) or not text.endswith(b"}]"):
        raise ValueError("expected a list of metrics")
    return text[1 + len(_BEFORE_METRIC) : -2].split(b"}," + _BEFORE_METRIC)


class MetricNumbers(NamedTuple):
    """What decides on a case in the result of a metric. `status` is the text of a MetricStatus."""

    name: str
    status: str
    score: float | None
    threshold: float | None


def numbers_from_blob(blob: bytes) -> list[MetricNumbers]:
    """Decode only what decides on a case, which takes half of the time."""
    return [
        MetricNumbers(sys.intern(metric["name"]), metric["status"], metric["score"], metric["threshold"])
        for metric in _read_json(_decompress(blob))
    ]


def scores_from_blob(blob: bytes) -> MetricScores:
    """Decode only the scores of metrics."""
    text = _decompress(blob)
    try:
        return tuple(map(_load_score, _split_metrics(text)))
    except ValueError:
        return tuple(map(_get_score, _read_json(text)))


@lru_cache(maxsize=1024)
def _load_score(part: bytes) -> tuple[str, float | None]:
    return _get_score(_read_json(_BEFORE_METRIC + part + b"}"))


def _get_score(metric: Mapping[str, Any]) -> tuple[str, float | None]:
    return sys.intern(metric["name"]), metric.get("score")


def failure_to_text(failure: Failure | None) -> str | None:
    """Why a case ended in ERROR."""
    return None if failure is None else _encode(failure.model_dump())


def failure_from_text(text: str | None) -> Failure | None:
    """Why a case ended in ERROR."""
    return None if text is None else Failure.model_validate(json.loads(text))


def quarantine_from_text(text: str | None) -> Quarantine | None:
    return None if text is None else _load_quarantine(text)


@lru_cache(maxsize=256)
def _load_quarantine(text: str) -> Quarantine:
    return Quarantine.model_validate_json(text)


def fact_to_text(fact: BaseModel) -> str:
    """Encode a record or summary; paths and times become text."""
    return _encode(fact.model_dump(mode="json"))


def load_fact(text: str) -> dict[str, Any]:
    return dict(json.loads(text))


def name_to_sql(name: str) -> str | bytes:
    """Encode a name for SQLite: lone surrogates (from file names that are not UTF-8) become bytes."""
    if name.isascii():  # nearly always, and twice as fast
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")
    return name


def name_from_sql(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
