"""OpenTelemetry spans that agents in other processes report, in their answers or through an exporter.

The first part reads OTLP (JSON and protobuf); the second assigns spans to the turns of a conversation.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib.util
import math
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .telemetry import MOST, ReportedCalls, convert_span, count_model_calls, format_exception, redact_span
from .wire import describe, make_json_safe

# OTLP.

KEYS = ("resourceSpans", "resource_spans")
"""Spellings of the key of spans in a document: OTLP's, and protobuf's own names."""

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")  # the last one until OTLP 0.15
_PROTO = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
_SHAPE = 'expected OTLP: {"resourceSpans": [{"scopeSpans": [{"spans": [...]}]}]}'
_MOST_PROBLEMS = 5
_DEEPEST = 20  # values in values
_LONGEST = 256 * 1024  # characters of a text in a span
_SPAN_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
_MESSAGE_EVENTS = "gen_ai."
_HEX = re.compile(r"[0-9a-fA-F]+")


class NotInstalled(Exception):
    """No library that reads protobuf is installed."""


@dataclass(frozen=True)
class OtlpSpan:
    """A span as received. Ids are lower-case hexadecimal digits, times are nanoseconds since 1970 by its clock.

    `events` are those of the GenAI conventions, which had the messages of a model call before its attributes had them.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: int
    end: int
    error: str | None
    attributes: dict[str, Any]
    kind: str
    events: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass
class OtlpDocument:
    """The spans of a document, and descriptions of the parts that could not be read."""

    spans: list[OtlpSpan] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def refuse(self, problem: str) -> None:
        """Note a part that could not be read; only the first few are kept."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
        elif len(self.problems) == _MOST_PROBLEMS:
            self.problems.append("and more")


def read_json(document: Any, *, longest: int | None = _LONGEST) -> OtlpDocument:
    """Read the spans of a document: an object with `resourceSpans`, that list itself, or one item of it.

    Texts of more than `longest` characters are cut; None keeps them whole.
    """
    read = OtlpDocument()
    resources: Any = document
    if isinstance(document, dict):
        is_whole = not document or any(key in document for key in KEYS)
        resources = _get_list(document, *KEYS) if is_whole else [document]
    if not isinstance(resources, list):
        read.refuse(f"found {describe(document)}, {_SHAPE}")
        return read
    for number, resource in enumerate(resources):
        place = f"{KEYS[0]}[{number}]"
        scopes = _get_list(resource, *_SCOPES)
        if scopes is None or (resource is document and not any(key in resource for key in _SCOPES)):
            read.refuse(f"{place}: found {describe(resource)}, {_SHAPE}")
            continue
        for scope_number, scope in enumerate(scopes):
            within = f"{place}.scopeSpans[{scope_number}]"
            spans = _get_list(scope, "spans")
            if spans is None:
                read.refuse(f"{within}: found {describe(scope)}, {_SHAPE}")
                continue
            for span_number, span in enumerate(spans):
                try:
                    read.spans.append(_parse_span(span, longest))
                except ValueError as error:
                    read.refuse(f"{within}.spans[{span_number}]: {error}")
    return read


def can_read_protobuf() -> bool:
    try:
        return importlib.util.find_spec(_PROTO) is not None
    except ImportError:  # the package around it is missing
        return False


def read_protobuf(data: bytes) -> OtlpDocument:
    """Read the spans of an ExportTraceServiceRequest. Raises NotInstalled without opentelemetry-proto."""
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
        return OtlpDocument(problems=["an exporter sent protobuf that is not OTLP"])
    return read_json({KEYS[0]: [], **document})


def _get_list(value: Any, *keys: str) -> list[Any] | None:
    """Return the list under one of the keys, an empty list if the object has none of them, None for anything else."""
    if not isinstance(value, dict):
        return None
    found: Any = next((value[key] for key in keys if value.get(key) is not None), [])
    return found if isinstance(found, list) else None


def _parse_span(value: Any, longest: int | None) -> OtlpSpan:
    """Parse a span. Raises ValueError with the actual and the expected value."""
    if not isinstance(value, dict):
        raise ValueError(f"found {describe(value)}, expected a span")  # noqa: TRY004 - as for all that is no span
    status = value.get("status") or {}
    attributes = _parse_attributes(value.get("attributes"), longest)
    parent = _get_first(value, "parentSpanId", "parent_span_id")
    return OtlpSpan(
        trace_id=_parse_id(_get_first(value, "traceId", "trace_id"), "traceId", size=16),
        span_id=_parse_id(_get_first(value, "spanId", "span_id"), "spanId", size=8),
        parent_id=_parse_id(parent, "parentSpanId", size=8) if parent else None,
        name=str(make_json_safe(value.get("name") or "span")),
        start=_parse_time(_get_first(value, "startTimeUnixNano", "start_time_unix_nano"), "startTimeUnixNano"),
        end=_parse_time(_get_first(value, "endTimeUnixNano", "end_time_unix_nano"), "endTimeUnixNano"),
        error=_find_error(status if isinstance(status, dict) else {}, value.get("events")),
        attributes=attributes,
        kind=_parse_kind(value.get("kind")),
        events=_parse_events(value.get("events"), longest),
    )


def _parse_events(value: Any, longest: int | None) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Parse the events of the GenAI conventions; leave out all others."""
    return tuple(
        (event["name"], _parse_attributes(event.get("attributes"), longest))
        for event in (value if isinstance(value, list) else ())
        if isinstance(event, dict) and str(event.get("name")).startswith(_MESSAGE_EVENTS)
    )


def _parse_kind(value: Any) -> str:
    """Parse the kind of a span: a number, or its name in protobuf. A missing one means internal, as in OTLP."""
    if isinstance(value, str) and value.startswith("SPAN_KIND_"):
        kind = value.removeprefix("SPAN_KIND_").lower()
    else:
        kind = _SPAN_KINDS[value] if value in range(len(_SPAN_KINDS)) else "unspecified"
    return "internal" if kind == "unspecified" else kind


def _get_first(value: dict[str, Any], *keys: str) -> Any:
    return next((value[key] for key in keys if key in value), None)


def _parse_id(value: Any, key: str, *, size: int) -> str:
    """Parse `size` bytes: hexadecimal digits as in OTLP, or base64 as protobuf writes bytes in JSON."""
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


def _parse_time(value: Any, key: str) -> int:
    """Parse nanoseconds: a number, or text, because JSON writes 64-bit integers as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**64:
        return int(value)
    raise ValueError(f"{key} is {describe(value)}, expected nanoseconds since 1970")


def _find_error(status: dict[str, Any], events: Any) -> str | None:
    """Return the recorded exception, else the status, of a failed span; None without an error."""
    if status.get("code") not in (2, "2", "STATUS_CODE_ERROR"):
        return None
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == "exception":
            return format_exception(_parse_attributes(event.get("attributes"), _LONGEST))
    return str(status.get("message") or "error")


def _parse_attributes(value: Any, longest: int | None) -> dict[str, Any]:
    """Parse a list of keys with values. Raises ValueError for anything else."""
    found: dict[str, Any] = {}
    for number, item in enumerate(_require_list(value, "attributes")):
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            expected = '{"key": "...", "value": {...}}'
            raise ValueError(f"attributes[{number}] is {describe(item)}, expected {expected}")  # noqa: TRY004 - as above
        found[item["key"]] = _parse_value(item.get("value"), longest)
    return found


def _require_list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{place} is {describe(value)}, expected a list")  # noqa: TRY004 - as for all that is no span
    return value


def _parse_value(data: Any, longest: int | None, depth: int = 0) -> Any:
    """Convert an AnyValue to plain JSON."""
    if not isinstance(data, dict) or depth > _DEEPEST:
        return make_json_safe(data)
    for key, value in data.items():
        name = key.replace("_", "").lower()
        if name == "stringvalue" and isinstance(value, str):
            if longest is None or len(value) <= longest:
                return value
            return f"{value[:longest]} … ({len(value):,} characters)"
        if name == "intvalue" and isinstance(value, str):
            return int(value) if re.fullmatch(r"-?[0-9]{1,20}", value) else value
        if name == "doublevalue" and isinstance(value, float) and not math.isfinite(value):
            return repr(value)
        if name == "arrayvalue" and isinstance(value, dict):
            return [_parse_value(item, longest, depth + 1) for item in _require_list(value.get("values"), key)]
        if name == "kvlistvalue" and isinstance(value, dict):
            items = [item for item in _require_list(value.get("values"), key) if isinstance(item, dict)]
            return {str(item.get("key")): _parse_value(item.get("value"), longest, depth + 1) for item in items}
        return make_json_safe(value)
    return None


# Spans of a conversation.

NOTES = "workbench.telemetry"
"""The attribute of the agent's span that lists problems with its spans."""

_NOT_SHOWN = "no span of the turn is one of a tool, or of an agent whose tools run where its spans are made"
_MOST_NOTES = 10
_EARLIER = 100_000_000  # nanoseconds by which the outermost span may end before its answer arrives
_SLACK = 1_000_000_000  # nanoseconds by which a clock may differ


@dataclass
class TurnTraces:
    """The spans of one turn, and the calls and costs that they report.

    `spans` are for the trace, without values under names of secrets. `calls`, `responses` and `arguments_unknown` are
    those of `ReportedCalls`. `usage` and `inference_calls` are None if no
    span reports a model. `came` is True if there are spans of the turn. `missing` says why they do not report all
    calls, or why there are none, if an exporter was expected to send some or those of the answer cannot be read.
    """

    spans: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    responses: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, int] | None = None
    inference_calls: int | None = None
    notes: list[str] = field(default_factory=list)
    came: bool = False
    missing: str | None = None
    arguments_unknown: str | None = None


class SpanSource(Protocol):
    """Where the spans arrive that an exporter sends for one conversation."""

    def claim_trace(self, trace_id: str) -> None:
        """Receive the spans of this trace, too."""

    def take(self) -> OtlpDocument:
        """Return what arrived since the last call."""

    async def wait(self) -> None:
        """Wait until something has arrived."""

    def describe_unclaimed(self) -> str:
        """Describe spans that arrived since and belong to no conversation; empty if there are none."""

    def close(self) -> None:
        """Stop receiving."""


class Traces:
    """The spans of one conversation. `opened` is when it was opened, by the performance counter.

    `inbox` receives the spans of an exporter, for `wait_seconds` after each answer; None if there is no exporter. After
    `settled_seconds` without new spans, an exporter that does not delay them has sent all. `conceal` removes secrets.
    """

    def __init__(
        self,
        *,
        opened: float,
        inbox: SpanSource | None = None,
        wait_seconds: float = 0.0,
        settled_seconds: float | None = None,
        conceal: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.trace_id = secrets.token_hex(16)
        self._zero = time.time_ns() - int((time.perf_counter() - opened) * 1e9)
        self._inbox = inbox
        self._wait_seconds = wait_seconds
        self._settled_seconds = settled_seconds
        self._conceal = conceal
        self._turns: list[tuple[str, int]] = []  # span and start time of each turn
        self._turn_of: dict[str, int] = {}  # by span id
        self._pending: dict[str, OtlpSpan] = {}  # spans not returned yet, by id
        self._returned_ids: set[str] = set()
        self._shift = 0  # nanoseconds to add to the agent's times
        self._problems: list[str] = []
        if inbox is not None:
            inbox.claim_trace(self.trace_id)

    def begin(self) -> str:
        """Begin a turn: return the `traceparent` for the agent."""
        span_id = secrets.token_hex(8)
        self._turn_of[span_id] = len(self._turns)
        self._turns.append((span_id, time.time_ns()))
        return f"00-{self.trace_id}-{span_id}-01"

    def add(self, document: Any) -> None:
        """Add the spans in the answer of the newest turn, as OTLP in JSON."""
        added = read_json(document)
        for span in added.spans:
            self._turn_of.setdefault(span.span_id, len(self._turns) - 1)
        self._take(added)

    async def wait_for_spans(self) -> None:
        """Wait until an exporter has sent the spans of the newest turn, which was just answered."""
        if self._inbox is None:
            return
        answered = time.time_ns()
        until = time.monotonic() + self._wait_seconds
        while True:
            self._take(self._inbox.take())
            left = until - time.monotonic()
            if left <= 0 or self._has_whole_turn(answered):
                break
            settled = self._settled_seconds if self._has_some_of_turn() else None
            try:
                await asyncio.wait_for(self._inbox.wait(), left if settled is None else min(left, settled))
            except asyncio.TimeoutError:
                break
        if not self._problems and not self._has_some_of_turn():
            self._problems.append(
                f"no span arrived within {self._wait_seconds:g} s of the answer{self._inbox.describe_unclaimed()}"
            )

    def _has_some_of_turn(self) -> bool:
        """Return True if any span of the newest turn arrived. Spans of earlier turns may be late."""
        newest = len(self._turns) - 1
        return any(self._find_turn(span, self._pending)[0] == newest for span in self._pending.values())

    def _has_whole_turn(self, answered: int) -> bool:
        """Return True if the outermost span arrived: it ends with the answer, and is sent last."""
        around, began = self._turns[-1]
        outermost = [span for span in self._pending.values() if span.parent_id == around]
        if not outermost:
            return False
        shift = _compute_shift(began, answered, outermost, slack=_EARLIER)
        return any(span.end + shift >= answered - _EARLIER for span in outermost)

    def take(self, around: dict[str, Any]) -> TurnTraces:
        """Return what the newest turn reported so far; `around` is the agent's span."""
        spans = self._convert_spans(within=(around["start"], around["end"]))
        found = TurnTraces(spans=[redact_span(span) for span in spans])
        found.notes, self._problems = self._conceal(list(dict.fromkeys(self._problems))[:_MOST_NOTES]), []
        of_turn = [span for span in spans if span["turn"] == around["turn"]]
        found.came = bool(of_turn)
        reported = ReportedCalls(of_turn, others=spans)
        found.calls, found.responses = reported.calls, reported.responses
        found.arguments_unknown = reported.arguments_unknown
        if reported.without_arguments:
            names = ", ".join(reported.without_arguments)
            found.notes.append(f"no arguments, or no object, for {names} (gen_ai.tool.call.arguments)")
        found.inference_calls, found.usage = count_model_calls(of_turn)
        if of_turn:
            found.missing = reported.incomplete if reported.are_shown else _NOT_SHOWN
        elif self._inbox is not None or found.notes:
            found.missing = "; ".join(found.notes) or "no span arrived"
        return found

    def take_rest(self) -> list[dict[str, Any]]:
        """Return spans of any turn that arrived since."""
        if self._inbox is not None:
            self._take(self._inbox.take())
        return [redact_span(span) for span in self._convert_spans()]

    def close(self) -> None:
        if self._inbox is not None:
            self._inbox.close()

    def _take(self, document: OtlpDocument) -> None:
        new = [span for span in document.spans if span.span_id not in self._returned_ids]  # exporters may repeat spans
        room = MOST - len(self._pending)
        self._pending.update((span.span_id, span) for span in new[:room])
        self._problems += document.problems
        if len(new) > room:
            self._problems.append(f"only the first {MOST:,} spans of a turn are kept")

    def _convert_spans(self, *, within: tuple[float, float] | None = None) -> list[dict[str, Any]]:
        """Convert the spans that arrived since; `within` is the time of the newest turn if it has just ended."""
        came, self._pending = _break_circles(self._pending), {}
        self._returned_ids.update(came)
        for span in came.values():
            turn, path = self._find_turn(span, came)
            self._turn_of.update(dict.fromkeys(path, turn))
        newest = [span for span in came.values() if self._turn_of[span.span_id] == len(self._turns) - 1]
        if within is not None and newest:
            self._adjust_clock(newest, within)
        converted: list[dict[str, Any]] = self._conceal([self._convert_span(span) for span in came.values()])
        return converted

    def _convert_span(self, span: OtlpSpan) -> dict[str, Any]:
        turn = self._turn_of[span.span_id]
        return convert_span(
            dict(span.attributes),
            span_id=f"otel-{span.span_id}",
            parent_id=f"otel-{span.parent_id}" if span.parent_id in self._returned_ids else f"agent-{turn}",
            turn=turn,
            name=span.name,
            span_kind=span.kind,
            start=self._convert_time(span.start + self._shift),
            end=self._convert_time(max(span.start, span.end) + self._shift),
            error=span.error,
        )

    def _find_turn(self, span: OtlpSpan, came: dict[str, OtlpSpan]) -> tuple[int, set[str]]:
        """Return the turn of a span, and the ids on the way to its parent: by the parent, else by its start time."""
        path: set[str] = set()
        above: str | None = span.span_id
        while above in came and above not in self._turn_of and above not in path:
            path.add(above)
            above = came[above].parent_id
        turn = self._turn_of.get(above or "")
        if turn is None:
            began = [number for number, (_, start) in enumerate(self._turns) if start <= span.start]
            turn = began[-1] if began else 0
        return turn, path

    def _adjust_clock(self, newest: list[OtlpSpan], within: tuple[float, float]) -> None:
        """Compute the correction for a wrong clock."""
        begin, end = (self._zero + int(seconds * 1e9) for seconds in within)
        shift = _compute_shift(begin, end, newest, slack=_SLACK)
        if shift:
            self._shift = shift
            self._problems.append(f"the agent's clock differs: its times are shifted by {shift / 1e9:+.3f} s")

    def _convert_time(self, nanoseconds: int) -> float:
        return max(0.0, round((nanoseconds - self._zero) / 1e9, 6))


def _compute_shift(begin: int, end: int, spans: list[OtlpSpan], *, slack: int) -> int:
    """Return the offset for spans of a turn: 0 if they fit into it. Otherwise they are centred in it."""
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    if begin - slack <= first and last <= end + slack:
        return 0
    return (begin + end) // 2 - (first + last) // 2


def _break_circles(spans: dict[str, OtlpSpan]) -> dict[str, OtlpSpan]:
    """Remove circles of parents, so that following parents ends."""
    sound = dict(spans)
    looked_at: set[str] = set()
    for start in spans:
        path: set[str] = set()
        here: str | None = start
        while here in sound and here not in looked_at:
            path.add(here)
            above = sound[here].parent_id
            if above in path:
                sound[here] = replace(sound[here], parent_id=None)
                break
            here = above
        looked_at |= path
    return sound
