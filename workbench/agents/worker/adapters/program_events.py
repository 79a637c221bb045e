"""What a program tells while it answers: calls of tools, what they gave, texts in between, and spans of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..limits import MOST_STEPS, check_texts, why_cut
from ..otlp.reading import KEYS
from . import base
from .foreign import SPANS, in_json, read_told

_KINDS = ("tool_call", "tool_response", "text", "span", SPANS)
_SPAN_KEYS = ("name", "error", "request", "response", "attributes")
_SPAN_KINDS = ("agent", "model", "tool", "other")


class Events:
    """The events of one turn. `emit_span`, where it is there, hears of calls as they begin and end."""

    def __init__(self, turn: int, *, now: Callable[[], float], emit_span: base.EmitSpan | None) -> None:
        self._turn = turn
        self._now = now
        self._emit_span = emit_span
        self._began = now()
        self._calls: list[dict[str, Any]] = []
        self._call_count = 0
        self._response_count = 0
        self._waiting: dict[str, list[dict[str, Any]]] = {}  # spans of calls without a response, by name
        self._responses: list[dict[str, Any]] = []
        self._texts: list[dict[str, Any]] = []
        self._spans: list[dict[str, Any]] = []
        self._traces: list[Any] | None = None

    def add(self, event: dict[str, Any]) -> None:
        """Take one up. Raises AgentFault where it says nothing that is known."""
        kind = next((kind for kind in _KINDS if kind in event), None)
        if kind is None:
            keys = ", ".join(key for key in event if key != "type") or "nothing"
            raise base.AgentFault(f"wrote an event with {keys}, expected one of {', '.join(_KINDS)}")
        value = event[kind]
        if kind == "text":
            self._texts.append({"author": event.get("author", "agent"), "text": value})
            check_texts(len(self._texts))
        elif kind == SPANS:
            self._traces = (self._traces or []) + _resources(value)
        elif not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise base.AgentFault(f'wrote an event whose {kind} is {in_json(value)}, expected an object with a "name"')
        elif kind == "tool_call":
            self._call(value)
        elif kind == "tool_response":
            self._respond(value)
        elif len(self._spans) < 2 * MOST_STEPS:
            self._spans.append(self._told(value))

    def complete(self, finished: dict[str, Any]) -> dict[str, Any]:
        """The answer: what the program said at the end and, where that says nothing of it, in between. Raises
        AgentFault. Spans of OpenTelemetry may be in both, and count both."""
        told = {
            "predicted_trajectory": self._calls,
            "tool_responses": self._responses,
            "intermediate_responses": self._texts,
        }
        said = {key: value for key, value in finished.items() if key not in ("type", "turn") and value is not None}
        if SPANS in said:
            self.add({SPANS: said[SPANS]})
        in_between = {key: value for key, value in told.items() if value}
        answer = read_told({**in_between, **said, SPANS: self._traces}, how="finished")
        calls = 0 if "predicted_trajectory" in said else self._call_count
        responses = 0 if "tool_responses" in said else self._response_count
        if cut := why_cut(calls, responses):
            answer["calls_unknown"] = cut
        if self._spans:
            answer["spans"] = [self._closed(span) for span in self._spans]
        return answer

    def _call(self, value: dict[str, Any]) -> None:
        self._call_count += 1
        if self._call_count > MOST_STEPS:
            return
        self._calls.append(value)
        span = {
            **self._span("tool", value["name"]),
            "start": self._now(),
            "end": None,
            "request": value.get("args"),
            "call": value.get("id"),
        }
        self._spans.append(span)
        self._waiting.setdefault(value["name"], []).append(span)
        self._announce(span)

    def _respond(self, value: dict[str, Any]) -> None:
        self._response_count += 1
        if self._response_count <= MOST_STEPS:
            self._responses.append(value)
        waiting = self._waiting.get(value["name"])
        if not waiting:
            return
        same = (place for place, span in enumerate(waiting) if span["call"] == value.get("id") is not None)
        span = waiting.pop(next(same, 0))
        span.update(end=self._now(), response=value.get("response"))
        self._announce(span)

    def _told(self, value: dict[str, Any]) -> dict[str, Any]:
        """A span of the program's own: its times are seconds since it was given the turn."""
        kind = value.get("kind")
        span = self._span(kind if kind in _SPAN_KINDS else "other", value["name"])
        span.update({key: value[key] for key in _SPAN_KEYS if value.get(key) is not None})
        for key in ("start", "end"):
            seconds = value.get(key)
            if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
                span[key] = self._began + seconds
        return span

    def _span(self, kind: str, name: str) -> dict[str, Any]:
        parent = f"agent-{self._turn}"
        return {
            "id": f"{parent}.{len(self._spans)}",
            "parent_id": parent,
            "turn": self._turn,
            "kind": kind,
            "name": name,
        }

    def _announce(self, span: dict[str, Any]) -> None:
        if self._emit_span is not None:
            self._emit_span({key: value for key, value in span.items() if key != "call"})

    def _closed(self, span: dict[str, Any]) -> dict[str, Any]:
        """A span as it is kept: a call of which no end was told has no times."""
        kept = {key: value for key, value in span.items() if key != "call"}
        return {**kept, "start": None} if kept.get("end") is None else kept


def _resources(value: Any) -> list[Any]:
    """What a document of OTLP is a list of; what is none is noted by who reads it."""
    if isinstance(value, dict):
        value = next((value[key] for key in KEYS if key in value), value)
    return value if isinstance(value, list) else [value]
