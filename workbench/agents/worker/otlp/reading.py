"""OTLP, as JSON and as protobuf: what comes from others, read span by span. What cannot be read costs itself alone."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import math
import re
from dataclasses import dataclass, field
from typing import Any

from ..conventions import exception_text
from ..wire import describe, lenient

KEYS = ("resourceSpans", "resource_spans")
"""How the key is spelt under which spans are in a document, by OTLP and by those who write protobuf's own names."""

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")  # the last one until OTLP 0.15
_PROTO = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
_SHAPE = 'expected OTLP: {"resourceSpans": [{"scopeSpans": [{"spans": [...]}]}]}'
_MOST_PROBLEMS = 5
_DEEPEST = 20  # values in values
_LONGEST = 256 * 1024  # characters of a text in a span: more is nothing that people read
_HEX = re.compile(r"[0-9a-fA-F]+")


class NotInstalled(Exception):
    """Nothing here reads protobuf."""


@dataclass(frozen=True)
class ForeignSpan:
    """A span as it was told. Ids are hexadecimal digits in lower case, times nanoseconds since 1970 by its clock."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: int
    end: int
    error: str | None
    attributes: dict[str, Any]


@dataclass
class Told:
    """What a document tells: its spans, and in words what in it could not be read."""

    spans: list[ForeignSpan] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def refuse(self, problem: str) -> None:
        """Note what could not be read; of many the first few."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
        elif len(self.problems) == _MOST_PROBLEMS:
            self.problems.append("and more")


def read_json(document: Any) -> Told:
    """The spans of a document: an object with `resourceSpans`, that list itself, or one of it."""
    told = Told()
    resources: Any = document
    if isinstance(document, dict):
        is_whole = not document or any(key in document for key in KEYS)
        resources = _listed(document, *KEYS) if is_whole else [document]
    if not isinstance(resources, list):
        told.refuse(f"found {describe(document)}, {_SHAPE}")
        return told
    for number, resource in enumerate(resources):
        place = f"{KEYS[0]}[{number}]"
        scopes = _listed(resource, *_SCOPES)
        if scopes is None or (resource is document and not any(key in resource for key in _SCOPES)):
            told.refuse(f"{place}: found {describe(resource)}, {_SHAPE}")
            continue
        for scope_number, scope in enumerate(scopes):
            within = f"{place}.scopeSpans[{scope_number}]"
            spans = _listed(scope, "spans")
            if spans is None:
                told.refuse(f"{within}: found {describe(scope)}, {_SHAPE}")
                continue
            for span_number, span in enumerate(spans):
                try:
                    told.spans.append(_span(span))
                except ValueError as error:
                    told.refuse(f"{within}.spans[{span_number}]: {error}")
    return told


def reads_protobuf() -> bool:
    """Whether what that needs is there."""
    try:
        return importlib.util.find_spec(_PROTO) is not None
    except ImportError:  # nor is the package around it
        return False


def read_protobuf(data: bytes) -> Told:
    """The spans of an ExportTraceServiceRequest. Raises NotInstalled where opentelemetry-proto is not there."""
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise NotInstalled from None
    try:
        message = ExportTraceServiceRequest.FromString(data)
        document = MessageToDict(message)
    except (DecodeError, ValueError, RecursionError):
        return Told(problems=["what an exporter sent as protobuf is no OTLP"])
    return read_json({KEYS[0]: [], **document})


def _listed(value: Any, *keys: str) -> list[Any] | None:
    """The list under one of the keys, an empty one where the object has none of them; None for anything else."""
    if not isinstance(value, dict):
        return None
    found: Any = next((value[key] for key in keys if value.get(key) is not None), [])
    return found if isinstance(found, list) else None


def _span(value: Any) -> ForeignSpan:
    """Raises ValueError with what was found and what expected."""
    if not isinstance(value, dict):
        raise ValueError(f"found {describe(value)}, expected a span")  # noqa: TRY004 - as for all that is no span
    status = value.get("status") or {}
    attributes = _attributes(value.get("attributes"))
    parent = _first(value, "parentSpanId", "parent_span_id")
    return ForeignSpan(
        trace_id=_identity(_first(value, "traceId", "trace_id"), "traceId", size=16),
        span_id=_identity(_first(value, "spanId", "span_id"), "spanId", size=8),
        parent_id=_identity(parent, "parentSpanId", size=8) if parent else None,
        name=str(lenient(value.get("name") or "span")),
        start=_time(_first(value, "startTimeUnixNano", "start_time_unix_nano"), "startTimeUnixNano"),
        end=_time(_first(value, "endTimeUnixNano", "end_time_unix_nano"), "endTimeUnixNano"),
        error=_error(status if isinstance(status, dict) else {}, value.get("events")),
        attributes=attributes,
    )


def _first(value: dict[str, Any], *keys: str) -> Any:
    return next((value[key] for key in keys if key in value), None)


def _identity(value: Any, key: str, *, size: int) -> str:
    """So many bytes: as hexadecimal digits, which OTLP wants, or in base 64, as protobuf has bytes in JSON."""
    if isinstance(value, str):
        if len(value) == 2 * size and _HEX.fullmatch(value):
            return value.lower()
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if len(data) == size:
            return data.hex()
    raise ValueError(f"{key} is {describe(value)}, expected {2 * size} hexadecimal digits")


def _time(value: Any, key: str) -> int:
    """Nanoseconds: a number, or one as text, as JSON carries 64 bits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**64:
        return int(value)
    raise ValueError(f"{key} is {describe(value)}, expected nanoseconds since 1970")


def _error(status: dict[str, Any], events: Any) -> str | None:
    """What went wrong: the exception that was noted, else the status."""
    if status.get("code") not in (2, "2", "STATUS_CODE_ERROR"):
        return None
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == "exception":
            return exception_text(_attributes(event.get("attributes")))
    return str(status.get("message") or "error")


def _attributes(value: Any) -> dict[str, Any]:
    """Raises ValueError where they are no list of keys with values."""
    found: dict[str, Any] = {}
    for number, item in enumerate(_list(value, "attributes")):
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            expected = '{"key": "...", "value": {...}}'
            raise ValueError(f"attributes[{number}] is {describe(item)}, expected {expected}")  # noqa: TRY004 - as above
        found[item["key"]] = _value(item.get("value"))
    return found


def _list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{place} is {describe(value)}, expected a list")  # noqa: TRY004 - as for all that is no span
    return value


def _value(told: Any, depth: int = 0) -> Any:
    """An AnyValue as plain JSON."""
    if not isinstance(told, dict) or depth > _DEEPEST:
        return lenient(told)
    for key, value in told.items():
        name = key.replace("_", "").lower()
        if name == "stringvalue" and isinstance(value, str):
            return value if len(value) <= _LONGEST else f"{value[:_LONGEST]} … ({len(value):,} characters)"
        if name == "intvalue" and isinstance(value, str):
            return int(value) if re.fullmatch(r"-?[0-9]{1,20}", value) else value
        if name == "doublevalue" and isinstance(value, float) and not math.isfinite(value):
            return repr(value)
        if name == "arrayvalue" and isinstance(value, dict):
            return [_value(item, depth + 1) for item in _list(value.get("values"), key)]
        if name == "kvlistvalue" and isinstance(value, dict):
            items = [item for item in _list(value.get("values"), key) if isinstance(item, dict)]
            return {str(item.get("key")): _value(item.get("value"), depth + 1) for item in items}
        return lenient(value)
    return None
