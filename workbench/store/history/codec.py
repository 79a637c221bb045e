"""Results as JSON and back, exactly. What nobody set is left out: it is by default what it was.

Lone surrogates, NaN and infinities come back as they were. Values that JSON has not, which only a mistake could bring
here, are kept as what is nearest, or as their `repr`.
"""

from __future__ import annotations

import json
import sys
import zlib
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from workbench.model.by_identity import by_identity
from workbench.model.evalset import EvalCase
from workbench.model.results import Execution, Failure, MetricResult, MetricScores, were_asked_of_models
from workbench.store.history import row_data

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
    row = row_data.execution_to_row(execution)
    data = _dump_execution(execution, exclude_unset=True) if row is None else {_ROW: row}
    if expected_by_row is not None:
        data[_EXPECTED] = row_data.expected_to_row(expected_by_row)
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
    execution = Execution.model_validate(data) if row is None else row_data.execution_of_row(row)
    return execution, None if expected is None else row_data.expected_of_row(expected, eval_id)


def tell_the_same(one: bytes, other: bytes) -> bool:
    """Whether two blobs are the same execution and expectation, in whatever form; False where one cannot be read."""
    try:
        return execution_from_blob(one, eval_id="") == execution_from_blob(other, eval_id="")
    except UNREADABLE:
        return False


# Cases that were scored alike share their results, all or most of them, and may do so by the thousand.


@by_identity(at_most=256, but=were_asked_of_models)
def metrics_to_blob(metrics: tuple[MetricResult, ...]) -> bytes:
    """The metrics of a case."""
    return to_blob(b"[" + b",".join([_metric_to_json(metric) for metric in metrics]) + b"]")


@by_identity(at_most=256, but=lambda metric: were_asked_of_models((metric,)))
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
