"""Spans of OpenTelemetry that an agent's code makes in a turn, as spans of ours.

The GenAI conventions (`gen_ai.*`) say what is a call of a model, a tool or an agent, and with how many tokens; those of
OpenInference are understood too. Nothing here imports OpenTelemetry: `telemetry_processor.py` does, once the agent's
code has.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextvars import ContextVar

from .values import lenient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

_API = "opentelemetry.trace"
_MOST = 5000  # spans of a turn; what an agent makes beyond is noise, and memory
_KINDS = {
    "chat": "model", "text_completion": "model", "generate_content": "model", "embeddings": "model",
    "execute_tool": "tool", "invoke_agent": "agent", "create_agent": "agent", "invoke_workflow": "agent",
    "LLM": "model", "EMBEDDING": "model", "TOOL": "tool", "AGENT": "agent",
}  # fmt: skip
_NAMES = {
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    "tool": ("gen_ai.tool.name", "tool.name"),
    "agent": ("gen_ai.agent.name", "agent.name"),
}
_REQUESTS = ("gen_ai.tool.call.arguments", "gen_ai.input.messages", "gen_ai.prompt", "input.value")
_RESPONSES = ("gen_ai.tool.call.result", "gen_ai.output.messages", "gen_ai.completion", "output.value")
_USAGE = {
    "prompt": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "candidates": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cached": ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    "total": ("gen_ai.usage.total_tokens", "llm.token_count.total"),
}

_here: ContextVar[Optional[Turn]] = ContextVar("workbench_telemetry", default=None)
_under_way: List[Turn] = []
_lock = threading.Lock()


class Turn:
    """The spans that begin while an agent answers one user content."""

    def __init__(self, index: int, *, around: Optional[str], opened: float) -> None:
        """`around` is the span that those without a parent are in; `opened` when the session was, by the performance
        counter."""
        self._index = index
        self._around = around
        self._zero = time.time_ns() - int((time.perf_counter() - opened) * 1e9)
        self._known: Dict[int, str] = {}
        self._spans: List[Dict[str, Any]] = []

    def enter(self) -> None:
        """What this task or thread, and what it starts, makes from now on belongs here."""
        _here.set(self)

    def began(self, span: Any) -> None:
        """A span of the agent's begins."""
        if len(self._known) < _MOST:
            self._known[span.context.span_id] = f"otel-{span.context.span_id:016x}"

    def ended(self, span: Any) -> None:
        """One that began here has ended."""
        if span.context.span_id in self._known:
            self._spans.append(self._told(span))

    def end(self) -> List[Dict[str, Any]]:
        """The spans that have ended. What ends later is not told."""
        with _lock:
            if self in _under_way:
                _under_way.remove(self)
        _here.set(None)
        return self._spans

    def _told(self, span: Any) -> Dict[str, Any]:
        found: Dict[str, Any] = {str(key): lenient(value) for key, value in dict(span.attributes or {}).items()}
        kind = _kind(found)
        request, response = _taken(found, _REQUESTS), _taken(found, _RESPONSES)
        usage = _usage(found)
        if usage:
            found["usage"] = usage
        call_id = found.get("gen_ai.tool.call.id")
        if kind == "tool" and call_id:
            found["function_call_id"] = call_id
        parent = None if span.parent is None else self._known.get(span.parent.span_id)
        return {
            "id": self._known[span.context.span_id],
            "parent_id": parent or self._around,
            "turn": self._index,
            "kind": kind,
            "name": next((str(found[name]) for name in _NAMES.get(kind, ()) if found.get(name)), span.name),
            "start": self._seconds(span.start_time),
            "end": self._seconds(span.end_time),
            "error": _error(span),
            "request": request,
            "response": response,
            "attributes": found,
        }

    def _seconds(self, nanoseconds: int) -> float:
        return max(0.0, round((nanoseconds - self._zero) / 1e9, 6))


def begin_turn(index: int, *, around: Optional[str], opened: float) -> Optional[Turn]:
    """Hear of the spans that this task or thread, and what it starts, makes from now on; None where the agent's code
    has nothing to do with OpenTelemetry, or its spans cannot be heard of."""
    if _API not in sys.modules:
        return None
    try:
        from .telemetry_processor import listen

        if not listen():
            return None
    except ImportError:  # the interface alone is installed: nobody makes spans
        return None
    turn = Turn(index, around=around, opened=opened)
    with _lock:
        _under_way.append(turn)
    turn.enter()
    return turn


def current() -> Optional[Turn]:
    """The turn to which a span belongs that begins here. A thread that the agent started knows none: there may be only
    one."""
    here = _here.get()
    if here is None and len(_under_way) == 1:
        return _under_way[0]
    return here


def model_calls(spans: List[Dict[str, Any]]) -> Tuple[Optional[int], Optional[Dict[str, int]]]:
    """How many models were called, and their tokens; None where no span tells of it.

    A call inside another is the same call, told by a framework and by the client that it uses.
    """
    by_id = {span["id"]: span for span in spans}
    outermost = [
        span
        for span in spans
        if span["kind"] == "model" and all(around["kind"] != "model" for around in _above(span, by_id))
    ]
    usage: Dict[str, int] = {}
    for span in outermost:
        for name, count in span["attributes"].get("usage", {}).items():
            usage[name] = usage.get(name, 0) + count
    return len(outermost) or None, usage or None


def _above(span: Dict[str, Any], by_id: Dict[str, Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
    around = by_id.get(span["parent_id"])
    while around is not None:
        yield around
        around = by_id.get(around["parent_id"])


def _kind(attributes: Dict[str, Any]) -> str:
    told = attributes.get("gen_ai.operation.name") or attributes.get("openinference.span.kind")
    found = _KINDS.get(str(told))
    if found is None and told is None and attributes.get("gen_ai.request.model"):
        return "model"  # as conventions had it before there was a name of the operation
    return found or "other"


def _taken(attributes: Dict[str, Any], names: Tuple[str, ...]) -> Any:
    """The first of some attributes, which is one no longer; JSON in it is read."""
    for name in names:
        if name in attributes:
            value = attributes.pop(name)
            if isinstance(value, str) and value[:1] in ("{", "["):
                try:
                    return json.loads(value)
                except ValueError:  # only looks like JSON, or was cut
                    return value
            return value
    return None


def _usage(attributes: Dict[str, Any]) -> Dict[str, int]:
    usage: Dict[str, int] = {}
    for name, spellings in _USAGE.items():
        found = next((attributes[spelling] for spelling in spellings if spelling in attributes), None)
        if isinstance(found, int) and not isinstance(found, bool):
            usage[name] = found
    if "total" not in usage and "prompt" in usage and "candidates" in usage:
        usage["total"] = usage["prompt"] + usage["candidates"]
    return usage


def _error(span: Any) -> Optional[str]:
    """What went wrong: the exception that was noted, else the status."""
    if getattr(span.status.status_code, "name", "") != "ERROR":
        return None
    for event in span.events:
        if event.name == "exception":
            told = dict(event.attributes or {})
            kind, text = told.get("exception.type", "exception"), told.get("exception.message", "")
            return f"{kind}: {text}" if text else str(kind)
    return str(span.status.description or "error")
