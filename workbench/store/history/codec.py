"""Results as JSON and back, exactly.

The JSON is ASCII: lone surrogates, NaN and infinities come back as they were, which pydantic's own JSON does not
promise. Values of unknown types, which only a mistake could bring here, are kept as their `repr`.
"""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

from pydantic import BaseModel, TypeAdapter

from workbench.model.results import Execution, Failure, MetricResult, MetricScores

_encode = json.JSONEncoder(separators=(",", ":"), default=repr, check_circular=False).encode
_METRICS = TypeAdapter(tuple[MetricResult, ...])
_dump_execution = Execution.__pydantic_serializer__.to_python
_dump_metrics = _METRICS.serializer.to_python

_BLOBS_AT_MOST = 256
_blobs: dict[tuple[int, ...], tuple[tuple[MetricResult, ...], bytes]] = {}

UNREADABLE = (ValueError, KeyError, TypeError, zlib.error)
"""What reading back raises where the text is not one of ours."""

# Large traces compress well even so; small ones are most of what there is.
_COMPRESSION_LEVEL = 1


def execution_to_text(execution: Execution) -> str:
    """An execution with its turns and spans; without them where they are no JSON or nested too deeply to be stored."""
    try:
        return _encode(_dump_execution(execution))
    except (TypeError, ValueError, RecursionError):
        return _encode(_dump_execution(execution.model_copy(update={"turns": (), "spans": (), "final_state": None})))


EMPTY_EXECUTION = execution_to_text(Execution())


def compress(text: str) -> bytes:
    """Text from here, made small."""
    return zlib.compress(text.encode(), _COMPRESSION_LEVEL)


def execution_from_blob(blob: bytes) -> Execution:
    """The execution that was compressed."""
    return Execution.model_validate(json.loads(zlib.decompress(blob)))


def metrics_to_blob(metrics: tuple[MetricResult, ...]) -> bytes:
    """The metrics of a case."""
    # Cases that were scored alike share their results, and may do so by the thousand.
    alike = tuple(map(id, metrics))
    known = _blobs.get(alike)
    if known is None:
        if len(_blobs) >= _BLOBS_AT_MOST:
            _blobs.clear()
        # The results are kept alive beside their blob, so that no others get their ids.
        known = _blobs[alike] = metrics, compress(_encode(_dump_metrics(metrics)))
    return known[1]


def metrics_from_blob(blob: bytes) -> tuple[MetricResult, ...]:
    """The metrics of a case."""
    return _METRICS.validate_python(json.loads(zlib.decompress(blob)))


def scores_from_blob(blob: bytes) -> MetricScores:
    """What the metrics of a case scored."""
    return tuple((sys.intern(metric["name"]), metric["score"]) for metric in json.loads(zlib.decompress(blob)))


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
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")
    return name


def name_from_sql(value: str | bytes) -> str:
    """The name that was stored."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
