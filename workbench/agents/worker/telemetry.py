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

from .responses import may_be_secret, order_like_messages
from .wire import explain_unfit, make_json_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator


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
# `tool_arguments` and `tool_response` are those of pydantic-ai before its version 2.
_REQUESTS = ("gen_ai.tool.call.arguments", "tool_arguments", "gen_ai.input.messages", "gen_ai.prompt", "input.value")
_RESPONSES = ("gen_ai.tool.call.result", "tool_response", "gen_ai.output.messages", "gen_ai.completion", "output.value")
_HANDOFF = "handoff to "
"""How OpenInference names the span of a handoff between agents, which has the kind of a tool and no name of one."""
_OPERATIONS = ("gen_ai.operation.name", "openinference.span.kind")
_SPAN_KIND = "span.kind"
"""The attribute in which the kind of an agent's span is kept unless it is internal, as Jaeger and Zipkin name it."""
_USAGE = {
    "prompt": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "candidates": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cached": ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    "total": ("gen_ai.usage.total_tokens", "llm.token_count.total"),
}
_NO_OBJECT = "the arguments of {names} are no object in the spans of the agent's tool calls"
_NO_TOOLS = "a model asked for {names}, and no span of such a tool was made: the instrumentation may not cover tools"
_REMOTE = "the agent {name} runs elsewhere (its span has the kind CLIENT), and its tool calls have no spans here"
_NO_ARGUMENTS = "the spans of the agent's tool calls have no arguments (gen_ai.tool.call.arguments, as an object)"
_REQUESTED = re.compile(
    r"llm\.output_messages\.(\d+)\.message\.tool_calls\.(\d+)\.tool_call\.(id|function\.name|function\.arguments)"
)
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
    span_kind: str,
    start: float | None,
    end: float | None,
    error: str | None,
) -> dict[str, Any]:
    """Build a span of ours. `attributes` are JSON values and become its own; times are seconds since the session was
    opened. `span_kind` is that of OpenTelemetry in lower case, such as `client`.

    The span is complete, because judged values are taken from it. `redact_span` returns the part that may be stored.
    """
    kind = _classify(attributes)
    if kind == "tool" and name.startswith(_HANDOFF) and not any(attributes.get(key) for key in _NAMES["tool"]):
        kind = "other"
    request, response = _pop_first(attributes, _REQUESTS), _pop_first(attributes, _RESPONSES)
    usage = _read_usage(attributes)
    found = dict(attributes)
    if usage:
        found["usage"] = usage
    call_id = found.get("gen_ai.tool.call.id")
    if kind == "tool" and call_id:
        found["function_call_id"] = call_id
    if kind == "agent" and span_kind != "internal":
        found[_SPAN_KIND] = span_kind
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


class ReportedCalls:
    """The tool calls that the spans of a turn report, with all values, because they are judged.

    `calls` and `responses` have the order in which the calls began. Calls that overlap have that of the model's
    message, if its span has one. `are_shown` is False if the spans do not show whether tools were called: they are
    neither of tools nor of an agent that runs where its spans are made. `incomplete` says why calls may be missing.

    `arguments_unknown` is set if no call has arguments, because most instrumentations record them only on request, or
    if arguments are no object. `without_arguments` are the names of the tools whose arguments are missing.
    """

    def __init__(self, spans: list[dict[str, Any]], *, others: list[dict[str, Any]] | None = None) -> None:
        """`others` are spans of other turns that may be around these."""
        by_id = {span["id"]: span for span in (*(others or ()), *spans)}
        self.calls: list[dict[str, Any]] = []
        self.responses: list[dict[str, Any]] = []
        tools = sorted((span for span in spans if _is_outer_call(span, by_id)), key=lambda span: span["start"])
        models = sorted((span for span in spans if span["kind"] == "model"), key=lambda span: span["end"])
        for span in _sort_like_models(tools, models):
            call_id = span["attributes"].get("function_call_id")
            named = {"name": span["name"], **({"id": str(call_id)} if call_id else {})}
            self.calls.append({**named, "args": span["request"] if isinstance(span["request"], dict) else None})
            if span["response"] is not None:
                response = span["response"]
                result = response if isinstance(response, dict) else {"result": response}
                self.responses.append({"id": None, **named, "response": result})
        remote = _find_remote_agent(spans, by_id)
        self.are_shown = bool(tools) or any(map(_is_local_agent, spans))
        self.incomplete = remote or _find_missing_call(spans, tools, models)
        without = [call["name"] for call in self.calls if call["args"] is None]
        self.without_arguments = sorted(set(without))
        unread = sorted({span["name"] for span in tools if _has_other_arguments(span)})
        self.arguments_unknown: str | None = None
        if without and len(without) == len(self.calls):
            self.arguments_unknown = _NO_ARGUMENTS
        elif unread:
            self.arguments_unknown = _NO_OBJECT.format(names=", ".join(unread))


def _has_other_arguments(tool: dict[str, Any]) -> bool:
    """Return True for arguments that are no object, so that those of the call are unknown."""
    return not isinstance(tool["request"], dict) and tool["request"] not in (None, "", [])


def _is_outer_call(span: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> bool:
    """Return True for a tool call that does not repeat the call around it, as clients inside frameworks do.

    Calls of an agent that is used as a tool are its own.
    """
    if span["kind"] != "tool":
        return False
    around = next((each for each in _walk_parents(span, by_id) if each["kind"] in ("tool", "agent")), None)
    return around is None or around["kind"] != "tool" or around["name"] != span["name"]


def _is_invocation(span: dict[str, Any]) -> bool:
    return _find_operation(span["attributes"]) in ("invoke_agent", "AGENT")


def _is_local_agent(span: dict[str, Any]) -> bool:
    """Return True for an agent whose tools run where its spans are made."""
    return _is_invocation(span) and _SPAN_KIND not in span["attributes"]


def _find_remote_agent(spans: list[dict[str, Any]], by_id: dict[str, dict[str, Any]]) -> str | None:
    """Name an agent that was called elsewhere, and whose models and tools have no spans here; None if there is none."""
    inner = {
        around["id"] for span in spans if span["kind"] in ("model", "tool") for around in _walk_parents(span, by_id)
    }
    for span in spans:
        if _is_invocation(span) and span["attributes"].get(_SPAN_KIND) == "client" and span["id"] not in inner:
            return _REMOTE.format(name=span["name"])
    return None


def _find_missing_call(
    spans: list[dict[str, Any]], tools: list[dict[str, Any]], models: list[dict[str, Any]]
) -> str | None:
    """Name the tools that a model asked for and that have no span; None if there are none.

    Models ask for handoffs as for tools, with names of any form.
    """
    called = {tool["name"] for tool in tools}
    asked = {request[1] for model in models for request in _read_requests(model) if request is not None}
    handoffs = {span["name"] for span in spans if _is_handoff(span)}
    missing = sorted(asked - called)
    return _NO_TOOLS.format(names=", ".join(missing)) if len(missing) > len(handoffs) else None


def _is_handoff(span: dict[str, Any]) -> bool:
    named: str = span["name"]
    return named.startswith(_HANDOFF) or bool(_find_operation(span["attributes"]) == "handoff")


def _sort_like_models(tools: list[dict[str, Any]], models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tool spans with those of one model message in its order: their threads begin in any order."""
    requests = [_read_requests(model) for model in models]
    places: dict[int, list[tuple[int, int]]] = {}  # by model: the place in its message, and among the tools
    for number, tool in enumerate(tools):
        for index in range(len(models) - 1, -1, -1):
            if models[index]["end"] > tool["start"]:
                continue
            place = _find_request(requests[index], tool)
            if place is not None:
                requests[index][place] = None
                places.setdefault(index, []).append((place, number))
                break
    return order_like_messages(tools, places)


def _find_request(requests: list[tuple[Any, str, Any] | None], tool: dict[str, Any]) -> int | None:
    """Return the place of the request for a tool span: by its id, else by its name and arguments."""
    call_id = tool["attributes"].get("function_call_id")
    for place, request in enumerate(requests):
        if request is None or request[1] != tool["name"]:
            continue
        if request[0] == call_id if call_id and request[0] else request[2] == tool["request"]:
            return place
    return None


def _read_requests(model: dict[str, Any]) -> list[tuple[Any, str, Any] | None]:
    """Read the calls that a model asked for from its span: id, name and arguments of each.

    Calls by which a model only gives its output to the framework are left out.
    """
    found: list[tuple[Any, str, Any] | None] = []
    for message in model["response"] if isinstance(model["response"], list) else ():
        parts = message.get("parts") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "tool_call":
                found.append((part.get("id"), str(part.get("name")), _read_arguments(part.get("arguments"))))
    called: dict[tuple[int, int], dict[str, Any]] = {}
    for key, value in model["attributes"].items():
        match = _REQUESTED.fullmatch(key)
        if match is not None:
            called.setdefault((int(match[1]), int(match[2])), {})[match[3]] = value
    for place in sorted(called):
        call = called[place]
        found.append((call.get("id"), str(call.get("function.name")), _read_arguments(call.get("function.arguments"))))
    parameters = model["attributes"].get("model_request_parameters")  # of pydantic-ai
    document = _read(parameters) if isinstance(parameters, str) else None
    outputs = document.get("output_tools") if isinstance(document, dict) else None
    names = [tool.get("name") for tool in outputs or () if isinstance(tool, dict)]
    return [call for call in found if call is not None and call[1] not in names]


def _read_arguments(value: Any) -> Any:
    document = _read(value) if isinstance(value, str) else value
    return value if document is None else document


def _walk_parents(span: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    around = by_id.get(span["parent_id"])
    while around is not None:
        yield around
        around = by_id.get(around["parent_id"])


def _find_operation(attributes: dict[str, Any]) -> Any:
    return next((attributes[key] for key in _OPERATIONS if attributes.get(key)), None)


def _classify(attributes: dict[str, Any]) -> str:
    operation = _find_operation(attributes)
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
_CHANGED = "a TracerProvider was set up during the turn: set it up when the agent's module is imported"
_SHARED = (
    "a span of a tool was made in a thread that may belong to another case of this process: run the work of the thread "
    "in contextvars.copy_context(), or run the cases with --isolation case (of workbench run)"
)
_here: ContextVar[TurnSpans | None] = ContextVar("workbench_telemetry", default=None)
_open_turns: list[TurnSpans] = []
_sessions: set[float] = set()  # when each session of this process that had a turn was opened
_past_spans: set[int] = set()  # of the only session: its spans of ended turns and of no turn
_lock = threading.Lock()


class TurnSpans:
    """The spans that begin while an agent answers one user message."""

    def __init__(self, index: int, *, around: str | None, opened: float) -> None:
        """`around` is the parent of spans without one. `opened` is when the session was opened, by the performance
        counter."""
        self._index = index
        self._around = around
        self._zero = time.time_ns() - int((time.perf_counter() - opened) * 1e9)
        self._known: dict[int, str] = {}
        self._strays: list[Any] = []
        self._running: dict[int, Any] = {}
        self._spans: list[dict[str, Any]] = []
        self._lost: str | None = None
        self.is_open = True

    def enter(self) -> None:
        """Assign the spans of this task or thread, and of those it starts, to this turn."""
        _here.set(self)

    def has_span(self, span_id: int) -> bool:
        """Return True if a span belongs to this turn."""
        return span_id in self._known

    def note_start(self, span: Any) -> None:
        """Note that a span of the agent begins."""
        if len(self._known) < MOST:
            self._known[span.context.span_id] = f"otel-{span.context.span_id:016x}"
            self._running[span.context.span_id] = span
        else:
            self._lost = f"the turn has more than {MOST:,} spans"

    def note_stray(self, span: Any) -> None:
        """Note that a span began in this turn, and that it is unknown whether it belongs to it."""
        if len(self._strays) < MOST:
            self._strays.append(span)
        else:
            self.note_loss(_SHARED)

    def note_end(self, span: Any) -> None:
        """Note that a span that began in this turn has ended."""
        if self._running.pop(span.context.span_id, None) is not None:
            self._spans.append(self._convert_span(span))

    def note_loss(self, reason: str) -> None:
        """Note why calls of this turn may be missing among its spans."""
        self._lost = self._lost or reason

    def end(self) -> list[dict[str, Any]]:
        """Return the spans that have ended, without secrets. Later ones are dropped."""
        with _lock:
            if self in _open_turns:
                _open_turns.remove(self)
            _note_past(self._known)
        self.is_open = False
        _here.set(None)
        if not _is_observed():
            self.note_loss(_CHANGED)
        return [redact_span(span) for span in self._spans]

    def read_calls(self) -> tuple[ReportedCalls, str | None] | None:
        """Return the calls that the spans report, with the reason if they may be incomplete.

        None if the spans do not show whether tools were called.
        """
        if any(_classify(dict(span.attributes or {})) == "tool" for span in self._strays):
            self.note_loss(_SHARED)
        running = [self._convert_span(span) for span in list(self._running.values())]
        reported = ReportedCalls([*self._spans, *(span for span in running if span["kind"] == "tool")])
        if not reported.are_shown and self._lost != _SHARED:
            return None
        return reported, self._lost or reported.incomplete

    def _convert_span(self, span: Any) -> dict[str, Any]:
        found: dict[str, Any] = {str(key): make_json_safe(value) for key, value in dict(span.attributes or {}).items()}
        parent = None if span.parent is None else self._known.get(span.parent.span_id)
        return convert_span(
            found,
            span_id=self._known[span.context.span_id],
            parent_id=parent or self._around,
            turn=self._index,
            name=span.name,
            span_kind=span.kind.name.lower(),
            start=self._convert_time(span.start_time),
            end=None if span.end_time is None else self._convert_time(span.end_time),
            error=_find_error(span),
        )

    def _convert_time(self, nanoseconds: int) -> float:
        return max(0.0, round((nanoseconds - self._zero) / 1e9, 6))


def begin_turn(index: int, *, around: str | None, opened: float) -> TurnSpans | None:
    """Collect the spans of this task or thread, and of those it starts; None if the agent does not use
    OpenTelemetry."""
    if _API not in sys.modules:
        return None
    try:
        if not listen():
            return None
    except ImportError:  # only the API is installed, so there are no spans
        return None
    turn = TurnSpans(index, around=around, opened=opened)
    with _lock:
        _open_turns.append(turn)
        _sessions.add(opened)
    turn.enter()
    return turn


def find_turn(span: Any) -> TurnSpans | None:
    """Return the turn of a span that begins here: that of its parent, else of this task or thread.

    A thread started by the agent has none, unless the process had no other session: then it is the only open turn. A
    thread or task of an ended turn has none.
    """
    turns = list(_open_turns)
    if span.parent is not None:
        for turn in turns:
            if turn.has_span(span.parent.span_id):
                return turn
    here = _here.get()
    if here is not None:
        return here if here.is_open else None
    is_late = span.parent is not None and span.parent.span_id in _past_spans
    return turns[0] if len(turns) == 1 and len(_sessions) == 1 and not is_late else None


def _note_past(span_ids: Iterable[int]) -> None:
    """Note spans that belong to no turn that is open. With several sessions, no turn is found by them."""
    if len(_sessions) == 1:
        _past_spans.update(span_ids)
    else:
        _past_spans.clear()


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
            self._turns: dict[int, TurnSpans] = {}

        def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002
            turn = find_turn(span)
            if turn is not None:
                self._turns[span.context.span_id] = turn
                turn.note_start(span)
                return
            _note_past([span.context.span_id])
            for turn in list(_open_turns):
                turn.note_stray(span)

        def on_end(self, span: Any) -> None:
            turn = self._turns.pop(span.context.span_id, None)
            try:
                if turn is not None:
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


def _is_observed() -> bool:
    """Return True if the current provider has a processor of ours."""
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    return any(provider is known for known in _observed_providers)


def _install_provider() -> Any:
    """Return a provider for code that makes spans without setting up a provider.

    It is installed without `set_tracer_provider`, which works only once: the agent can still set up its own later.
    A version of OpenTelemetry without the private variable leaves it unused, which `Turn.end` reports.
    """
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    if hasattr(trace, "_TRACER_PROVIDER"):
        trace._TRACER_PROVIDER = provider
    return provider
