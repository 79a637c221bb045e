"""OpenTelemetry spans as ours: the attribute conventions, and the spans that an agent's code makes in this process.

The GenAI conventions (`gen_ai.*`) identify calls of models, tools and agents, and token counts; those of OpenInference
are understood too. OpenTelemetry itself is imported only after the agent's code has imported it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from contextvars import ContextVar

from .responses import may_be_secret
from .wire import explain_unfit, make_json_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


# Attribute conventions.

MOST = 5000
"""Maximum number of spans of a turn."""

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
_REDACTED = "[redacted]"
# A key and its value in a text that is not valid JSON. The end of an object or list in it is unknown.
_KEY = re.compile(r"""(?P<quote>["'])(?P<name>[^"'\\\s]{1,100})(?P=quote)\s*:\s*""")
_PLAIN = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_VALUE = re.compile(r""""(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[\[{(].*|[^\s,}\])]*""", re.DOTALL)


def convert_span(
    attributes: dict[str, Any],
    *,
    span_id: str,
    parent_id: str | None,
    turn: int,
    name: str,
    start: float | None,
    end: float | None,
    error: str | None,
) -> dict[str, Any]:
    """Build a span of ours. `attributes` are JSON values and become its own; times are seconds since the session was
    opened.

    The span is complete, because judged values are taken from it. `redact_span` returns the part that may be stored.
    """
    kind = _classify(attributes)
    request, response = _pop_first(attributes, _REQUESTS), _pop_first(attributes, _RESPONSES)
    usage = _read_usage(attributes)
    found = dict(attributes)
    if usage:
        found["usage"] = usage
    call_id = found.get("gen_ai.tool.call.id")
    if kind == "tool" and call_id:
        found["function_call_id"] = call_id
    return {
        "id": span_id,
        "parent_id": parent_id,
        "turn": turn,
        "kind": kind,
        "name": next((str(found[key]) for key in _NAMES.get(kind, ()) if found.get(key)), name),
        "start": start,
        "end": end,
        "error": error,
        "request": request,
        "response": response,
        "attributes": found,
    }


def redact_span(span: dict[str, Any]) -> dict[str, Any]:
    """Return a span without values under names of secrets: an instrumented client may record its headers.

    Attributes, request and response are searched to their innermost keys, including JSON in texts.
    """
    return {**span, **{key: _redact_value(span[key]) for key in ("request", "response", "attributes")}}


def _redact_value(value: Any) -> Any:
    """Return a JSON value without the secrets under their names."""
    if isinstance(value, dict):
        return {key: _REDACTED if may_be_secret(key, item) else _redact_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_redact_value(item) for item in value]
    if not isinstance(value, str) or not _looks_like_json(value):
        return value
    document = _read(value)
    if document is None:  # such as cut text or Python's notation
        return _redact_text(value)
    redacted = _redact_value(document)
    return value if redacted == document else json.dumps(redacted, ensure_ascii=False)


def _redact_text(text: str) -> str:
    pieces, here = [], 0
    for key in _KEY.finditer(text):
        value = _VALUE.match(text, key.end())
        if key.start() >= here and may_be_secret(key["name"], _read_plain(value[0] if value else "")):
            pieces += [text[here : key.end()], _REDACTED]
            here = value.end() if value else key.end()
    return "".join([*pieces, text[here:]])


def _read_plain(text: str) -> Any:
    """Parse a number, boolean or null as written in JSON or Python; return any other text unchanged."""
    if text in _PLAIN:
        return _PLAIN[text]
    try:
        return float(text)
    except ValueError:
        return text


def count_model_calls(spans: list[dict[str, Any]]) -> tuple[int | None, dict[str, int] | None]:
    """Count model calls and their tokens; None if no span reports them.

    A call inside another is the same call, reported by a framework and by the client that it uses.
    """
    by_id = {span["id"]: span for span in spans}
    outermost = [
        span
        for span in spans
        if span["kind"] == "model" and all(around["kind"] != "model" for around in _walk_parents(span, by_id))
    ]
    usage: dict[str, int] = {}
    for span in outermost:
        for name, count in span["attributes"].get("usage", {}).items():
            usage[name] = usage.get(name, 0) + count
    return len(outermost) or None, usage or None


def _walk_parents(span: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    around = by_id.get(span["parent_id"])
    while around is not None:
        yield around
        around = by_id.get(around["parent_id"])


def _classify(attributes: dict[str, Any]) -> str:
    operation = attributes.get("gen_ai.operation.name") or attributes.get("openinference.span.kind")
    found = _KINDS.get(str(operation))
    if found is None and operation is None and attributes.get("gen_ai.request.model"):
        return "model"  # earlier conventions have no operation name
    return found or "other"


def _pop_first(attributes: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Remove and return the first of some attributes, with JSON in it parsed."""
    for name in names:
        if name in attributes:
            value = attributes.pop(name)
            document = _read(value) if isinstance(value, str) and _looks_like_json(value) else None
            return value if document is None else document
    return None


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _read(text: str) -> Any:
    """Parse an object or list; None if the text is no JSON, was cut, or is nested too deeply."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if explain_unfit(document, "it") is None else None


def _read_usage(attributes: dict[str, Any]) -> dict[str, int]:
    usage: dict[str, int] = {}
    for name, spellings in _USAGE.items():
        found = next((attributes[spelling] for spelling in spellings if spelling in attributes), None)
        if isinstance(found, int) and not isinstance(found, bool):
            usage[name] = found
    if "total" not in usage and "prompt" in usage and "candidates" in usage:
        usage["total"] = usage["prompt"] + usage["candidates"]
    return usage


def format_exception(attributes: dict[str, Any]) -> str:
    """Return the text of an exception event."""
    kind, text = attributes.get("exception.type", "exception"), attributes.get("exception.message", "")
    return f"{kind}: {text}" if text else str(kind)


# Turns in this process.

_API = "opentelemetry.trace"
_here: ContextVar[Turn | None] = ContextVar("workbench_telemetry", default=None)
_open_turns: list[Turn] = []
_lock = threading.Lock()


class Turn:
    """The spans that begin while an agent answers one user message."""

    def __init__(self, index: int, *, around: str | None, opened: float) -> None:
        """`around` is the parent of spans without one. `opened` is when the session was opened, by the performance
        counter."""
        self._index = index
        self._around = around
        self._zero = time.time_ns() - int((time.perf_counter() - opened) * 1e9)
        self._known: dict[int, str] = {}
        self._spans: list[dict[str, Any]] = []

    def enter(self) -> None:
        """Assign the spans of this task or thread, and of those it starts, to this turn."""
        _here.set(self)

    def note_start(self, span: Any) -> None:
        """Note that a span of the agent begins."""
        if len(self._known) < MOST:
            self._known[span.context.span_id] = f"otel-{span.context.span_id:016x}"

    def note_end(self, span: Any) -> None:
        """Note that a span that began in this turn has ended."""
        if span.context.span_id in self._known:
            self._spans.append(self._convert_span(span))

    def end(self) -> list[dict[str, Any]]:
        """Return the spans that have ended. Later ones are dropped."""
        with _lock:
            if self in _open_turns:
                _open_turns.remove(self)
        _here.set(None)
        return self._spans

    def _convert_span(self, span: Any) -> dict[str, Any]:
        found: dict[str, Any] = {str(key): make_json_safe(value) for key, value in dict(span.attributes or {}).items()}
        parent = None if span.parent is None else self._known.get(span.parent.span_id)
        converted = convert_span(
            found,
            span_id=self._known[span.context.span_id],
            parent_id=parent or self._around,
            turn=self._index,
            name=span.name,
            start=self._convert_time(span.start_time),
            end=self._convert_time(span.end_time),
            error=_find_error(span),
        )
        return redact_span(converted)

    def _convert_time(self, nanoseconds: int) -> float:
        return max(0.0, round((nanoseconds - self._zero) / 1e9, 6))


def begin_turn(index: int, *, around: str | None, opened: float) -> Turn | None:
    """Collect the spans of this task or thread, and of those it starts; None if the agent does not use
    OpenTelemetry."""
    if _API not in sys.modules:
        return None
    try:
        if not listen():
            return None
    except ImportError:  # only the API is installed, so there are no spans
        return None
    turn = Turn(index, around=around, opened=opened)
    with _lock:
        _open_turns.append(turn)
    turn.enter()
    return turn


def get_current_turn() -> Turn | None:
    """Return the turn of a span that begins here. A thread started by the agent has none, unless only one is open."""
    here = _here.get()
    if here is None and len(_open_turns) == 1:
        return _open_turns[0]
    return here


def _find_error(span: Any) -> str | None:
    """Return the recorded exception, else the status, of a failed span; None without an error."""
    if getattr(span.status.status_code, "name", "") != "ERROR":
        return None
    for event in span.events:
        if event.name == "exception":
            return format_exception(dict(event.attributes or {}))
    return str(span.status.description or "error")


# The span processor, which needs the SDK.

_observed_providers: list[Any] = []  # providers that have a processor of ours


def listen() -> bool:
    """Attach a span processor to the current provider; return False if that is not possible. Raises ImportError without
    the SDK."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor

    class Processor(SpanProcessor):  # type: ignore[misc]  # opentelemetry is untyped here: it may not be installed
        """Passes spans to the turns in which they begin."""

        def __init__(self) -> None:
            self._turns: dict[int, Turn] = {}

        def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002
            turn = get_current_turn()
            if turn is not None:
                self._turns[span.context.span_id] = turn
                turn.note_start(span)

        def on_end(self, span: Any) -> None:
            turn = self._turns.pop(span.context.span_id, None)
            if turn is not None:
                try:
                    turn.note_end(span)
                except Exception:  # a malformed span must not affect the agent's run
                    sys.stderr.write(f"workbench: the span {span.name!r} could not be read\n")

    with _lock:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = _install_provider()
        if any(provider is known for known in _observed_providers):
            return True
        if not hasattr(provider, "add_span_processor"):
            return False
        provider.add_span_processor(Processor())
        _observed_providers.append(provider)
        return True


def _install_provider() -> Any:
    """Return a provider for code that makes spans without setting up a provider.

    It is installed without `set_tracer_provider`, which works only once: the agent can still set up its own later.
    """
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    if hasattr(trace, "_TRACER_PROVIDER"):
        trace._TRACER_PROVIDER = provider
    return provider
