"""Conversations in traces: OpenTelemetry, and exports of Langfuse and LangSmith.

A trace has model calls, tool calls and agents, but no conversation. The conversation is in the messages that went to
the last model call of each invocation; the tool calls are those of the spans, else those of the models' replies.

Sources of the shapes: GenAI semantic conventions of OpenTelemetry 1.26 to 1.40 (`gen_ai.prompt.N`, then events
`gen_ai.user.message`, then `gen_ai.input.messages`), OpenInference (`llm.input_messages.N`), google-adk 2.13
(`google/adk/telemetry/tracing.py`); Langfuse "Export a single trace or session", "Blob storage export field reference"
and `TraceWithFullDetails` of its API; LangSmith "Run data format" and `langsmith.schemas.Run`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from workbench.agents.worker.otlp import KEYS, OtlpDocument, OtlpSpan, read_json
from workbench.agents.worker.telemetry import ReportedCalls, convert_span
from workbench.engine.conversion import build_invocation
from workbench.model.evalset import Invocation
from workbench.model.trace import ToolCall
from workbench.store.datasets.adk_sessions import NO_USER_MESSAGE, SourceSession, parse_time
from workbench.store.datasets.message_rows import (
    Conversation,
    MessageError,
    ToolResult,
    Turn,
    is_messages,
    read_messages,
)

# Steps: the spans of all sources in one form


@dataclass
class TraceStep:
    """A step of a trace. `span` has the form of `convert_span`, with the time in seconds since 1970.

    `messages` went to a model or an agent, and `replies` came back; `texts` are a prompt and a reply without roles.
    """

    trace_id: str
    span: dict[str, Any]
    session: str = ""
    user: str = ""
    app: str = ""
    messages: list[Any] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    texts: tuple[str | None, str | None] = (None, None)

    @property
    def kind(self) -> str:
        """The kind of the step: model, tool, agent or other."""
        return str(self.span["kind"])

    @property
    def has_messages(self) -> bool:
        """True if the step has messages of a conversation."""
        return bool(self.messages)


NO_CONTENT = (
    "the trace has no messages: let the instrumentation record them in spans "
    "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only, "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental)"
)


def find_messages(value: Any, depth: int = 0) -> list[Any]:
    """Return the messages in a value of a trace: a list of them, one, or an object or a JSON text that contains some.

    Return an empty list if there are none. Parts of the GenAI conventions become those of message lists.
    """
    if isinstance(value, str):
        document = _parse_text(value)
        return [] if document is value else find_messages(document, depth)
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        if is_messages([value[0] if value else None]) or (value and _has_parts(value[0])):
            return [_convert_message(each) for each in value]
        return find_messages(value[0], depth + 1) if len(value) == 1 else []
    if not isinstance(value, Mapping):
        return []
    for key in ("messages", "contents", "choices", "generations"):
        if found := _find_in(value.get(key), depth):
            return found
    if is_messages([value]) or _has_parts(value):
        return [_convert_message(value)]
    for key in ("message", "content", "input", "output", "inputs", "outputs", "return_value"):
        if found := find_messages(value.get(key), depth + 1):
            return found
    return []


_DEEPEST = 6


def _find_in(value: Any, depth: int) -> list[Any]:
    """Return the messages of a list whose items are messages, or have one each as the choices of OpenAI do."""
    if not isinstance(value, list):
        return []
    if found := find_messages(value, depth + 1):
        return found
    return find_messages(value[0], depth + 1) if value else []


def _has_parts(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("parts"), list) and isinstance(value.get("role"), str)


def _convert_message(message: Any) -> Any:
    """Convert a message of the GenAI conventions: its parts have `content` where lists of messages have `text`."""
    if not isinstance(message, Mapping) or not isinstance(message.get("parts"), list):
        return message
    return {**message, "parts": [_convert_part(part) for part in message["parts"]]}


def _convert_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("content"), str):
        return {"type": "text", "text": part["content"]}
    if kind == "tool_call_response":
        return {**part, "type": "tool_result"}
    return {"type": "media"} if kind in ("blob", "uri", "file") else part


def _parse_text(text: str) -> Any:
    """Return the value of a JSON text, the text itself if it is none."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_PROMPTS = ("input", "question", "query", "prompt", "text", "message", "user_input", "user_message")
_REPLIES = ("output", "answer", "response", "text", "result", "content", "return_value")


def _find_text(value: Any, keys: Sequence[str]) -> str | None:
    """Return the text of an input or output without messages; None if it is not certain which text that is."""
    if isinstance(value, str):
        document = _parse_text(value)
        return (value or None) if document is value else _find_text(document, keys)
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("args"), list) and "kwargs" in value:  # what decorators record of a call
        given = [*value["args"], *(value["kwargs"].values() if isinstance(value["kwargs"], Mapping) else ())]
        return given[0] if len(given) == 1 and isinstance(given[0], str) else None
    texts = [value[key] for key in keys if isinstance(value.get(key), str)]
    return texts[0] if len(texts) == 1 else None


# OpenTelemetry

_SESSIONS = ("gen_ai.conversation.id", "gcp.vertex.agent.session_id", "session.id", "langfuse.session.id")
_USERS = ("user.id", "enduser.id", "langfuse.user.id")
_INDEXED = re.compile(r"(?:gen_ai\.(prompt|completion)|llm\.(input|output)_messages)\.(\d+)\.(?:message\.)?(.+)")
_INDEXED_CALL = re.compile(r"tool_calls\.(\d+)\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)")
_INDEXED_TEXT = re.compile(r"contents\.(\d+)\.message_content\.text")
_EVENT_ROLES = {
    "gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}  # fmt: skip
_ADK = "gcp.vertex.agent."
_CONTEXT = "For context:"
"""How ADK begins what it shows a sub-agent of other agents, as a message of the user."""

_REMARK: Mapping[str, Any] = {"role": "assistant", "content": ""}
"""A message between two of the user, whose text is not known as it was said."""


def is_otlp(document: Any) -> bool:
    """True if a JSON value has spans in OTLP."""
    return isinstance(document, Mapping) and any(key in document for key in KEYS)


def read_otlp_steps(documents: Iterable[Any]) -> tuple[list[TraceStep], tuple[str, ...]]:
    """Return the steps of OTLP documents, and descriptions of what could not be read."""
    read = OtlpDocument()
    for document in documents:
        found = read_json(document, longest=None)
        read.spans += found.spans
        for problem in found.problems:
            read.refuse(problem)
    unique = {(span.trace_id, span.span_id): span for span in read.spans}  # exporters may repeat spans
    steps = [_make_otlp_step(span) for span in unique.values() if span.name != "execute_tool (merged)"]
    return steps, tuple(read.problems)


def _make_otlp_step(span: OtlpSpan) -> TraceStep:
    attributes = dict(span.attributes)
    for own, common in (("tool_call_args", "gen_ai.tool.call.arguments"), ("tool_response", "gen_ai.tool.call.result")):
        if common not in attributes and f"gcp.vertex.agent.{own}" in attributes:
            attributes[common] = attributes[f"gcp.vertex.agent.{own}"]
    messages, replies = _find_span_messages(span)
    return TraceStep(
        trace_id=span.trace_id,
        span=convert_span(
            attributes,
            span_id=span.span_id,
            parent_id=span.parent_id,
            turn=0,
            name=span.name,
            span_kind=span.kind,
            start=span.start / 1e9,
            end=max(span.start, span.end) / 1e9,
            error=span.error,
        ),
        session=_get_first(span.attributes, _SESSIONS),
        user=_get_first(span.attributes, _USERS),
        app=str(span.attributes.get("gen_ai.agent.name") or ""),
        messages=messages,
        replies=replies,
        texts=(
            _find_text(span.attributes.get("input.value"), _PROMPTS),
            _find_text(span.attributes.get("output.value"), _REPLIES),
        ),
    )


def _get_first(attributes: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(attributes[name]) for name in names if attributes.get(name)), "")


def _find_span_messages(span: OtlpSpan) -> tuple[list[Any], list[Any]]:
    """Return the messages and replies of a span, in the newest convention that it uses."""
    holders = [span.attributes, *(attributes for _, attributes in span.events)]
    for asked, replied in (
        ("gen_ai.input.messages", "gen_ai.output.messages"),
        ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"),
    ):
        messages = next((found for each in holders if (found := find_messages(each.get(asked)))), [])
        if messages:
            replies = next((found for each in holders if (found := find_messages(each.get(replied)))), [])
            is_adk = any(key.startswith(_ADK) for key in span.attributes)
            return [_REMARK if is_adk and _is_context(each) else each for each in messages], replies
    messages, replies = _read_indexed(span.attributes)
    if messages:
        return messages, replies
    messages, replies = _read_events(span.events)
    if messages:
        return messages, replies
    for asked, replied in (("gen_ai.prompt", "gen_ai.completion"), ("input.value", "output.value")):
        messages = next((found for each in holders if (found := find_messages(each.get(asked)))), [])
        if messages:
            return messages, next((found for each in holders if (found := find_messages(each.get(replied)))), [])
    return [], []


def _is_context(message: Any) -> bool:
    parts = message.get("parts") if isinstance(message, Mapping) else None
    first = parts[0] if isinstance(parts, list) and parts else None
    return isinstance(first, Mapping) and str(first.get("text")).startswith(_CONTEXT)


def _read_indexed(attributes: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Read messages that have an attribute for each field."""
    found: dict[str, dict[int, dict[str, Any]]] = {"input": {}, "output": {}}
    calls: dict[tuple[str, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    texts: dict[tuple[str, int], dict[int, Any]] = defaultdict(dict)
    for key, value in attributes.items():
        match = _INDEXED.fullmatch(key)
        if match is None:
            continue
        side = "output" if "completion" in (match[1] or "") or match[2] == "output" else "input"
        number, name = int(match[3]), match[4]
        message = found[side].setdefault(number, {})
        if (call := _INDEXED_CALL.fullmatch(name)) is not None:
            calls[side, number].setdefault(int(call[1]), {})[call[2]] = value
        elif (text := _INDEXED_TEXT.fullmatch(name)) is not None:
            texts[side, number][int(text[1])] = value
        elif name in ("role", "content", "tool_call_id", "name"):
            message[name] = _parse_content(value) if name == "content" else value
    for (side, number), by_number in calls.items():
        found[side][number]["tool_calls"] = [by_number[place] for place in sorted(by_number)]
    for (side, number), by_place in texts.items():
        found[side][number].setdefault("content", "\n".join(str(by_place[place]) for place in sorted(by_place)))
    default = {"input": "user", "output": "assistant"}
    return (
        [{"role": default["input"], "content": None, **found["input"][number]} for number in sorted(found["input"])],
        [{"role": default["output"], "content": None, **found["output"][number]} for number in sorted(found["output"])],
    )


def _parse_content(value: Any) -> Any:
    """Return a content; parts that are not text are recorded as JSON text of a list."""
    parsed = _parse_text(value) if isinstance(value, str) else value
    is_parts = isinstance(parsed, list) and all(isinstance(each, Mapping) and "type" in each for each in parsed)
    return parsed if is_parts else value


def _read_events(events: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[list[Any], list[Any]]:
    """Read messages that are events of the span, each with its fields as attributes or as JSON text."""
    messages: list[Any] = []
    replies: list[Any] = []
    for name, attributes in events:
        if name == "gen_ai.choice":
            replies += find_messages(attributes.get("message")) or [_read_event(attributes, "assistant")]
        elif name in _EVENT_ROLES:
            messages.append(_read_event(attributes, _EVENT_ROLES[name]))
    return messages, replies


def _read_event(attributes: Mapping[str, Any], role: str) -> dict[str, Any]:
    message = {"role": role, "content": attributes.get("content")}
    calls = attributes.get("tool_calls")
    calls = _parse_text(calls) if isinstance(calls, str) else calls
    if isinstance(calls, list):
        message["tool_calls"] = calls
    if role == "tool":
        message["tool_call_id"] = attributes.get("id")
    return message


# Langfuse: traces with observations, sessions with traces, or rows of observations

_OBSERVATION_KINDS = {"GENERATION": "model", "EMBEDDING": "model", "TOOL": "tool", "AGENT": "agent"}


def is_langfuse(item: Any) -> bool:
    """True if an item of an export is a trace, an observation or a session of Langfuse."""
    if not isinstance(item, Mapping):
        return False
    if isinstance(item.get("observations"), list) and ("trace" in item or "id" in item):
        return True
    if isinstance(item.get("traces"), list):
        return True
    has_trace_fields = "timestamp" in item and {"input", "output"}.intersection(item)
    names_session = any(_get(item, name) for name in ("session_id", "user_id", "html_path", "project_id"))
    return bool(_get(item, "trace_id") and _get(item, "start_time") and "type" in item) or bool(
        has_trace_fields and "id" in item and names_session
    )


def read_langfuse_steps(items: Iterable[Any]) -> list[TraceStep]:
    """Return the steps of an export of Langfuse: one for each trace, and one for each observation."""
    steps: list[TraceStep] = []
    for item in items:
        if not isinstance(item, Mapping):
            continue
        if isinstance(item.get("traces"), list):
            for trace in item["traces"]:
                if isinstance(trace, Mapping):
                    steps += _read_trace({**trace, "sessionId": _get(trace, "session_id") or item.get("id")})
        elif isinstance(item.get("trace"), Mapping):
            steps += _read_trace({**item["trace"], "observations": item.get("observations")})
        elif _get(item, "trace_id"):
            steps.append(_make_observation_step(item, str(_get(item, "trace_id")), item))
        else:
            steps += _read_trace(item)
    return steps


def _read_trace(trace: Mapping[str, Any]) -> Iterator[TraceStep]:
    trace_id = str(trace.get("id"))
    observations = trace.get("observations")
    known = [each for each in observations if isinstance(each, Mapping)] if isinstance(observations, list) else []
    yield _make_observation_step(
        {**trace, "id": f"trace-{trace_id}", "type": "TRACE", "startTime": trace.get("timestamp")}, trace_id, trace
    )
    for observation in known:
        yield _make_observation_step(observation, trace_id, trace)


def _make_observation_step(item: Mapping[str, Any], trace_id: str, trace: Mapping[str, Any]) -> TraceStep:
    return _make_step(
        trace_id=trace_id,
        span_id=str(item.get("id")),
        parent=_get(item, "parent_observation_id"),
        kind=_OBSERVATION_KINDS.get(str(item.get("type")).upper(), "other"),
        name=str(item.get("name") or ""),
        times=(_get(item, "start_time"), _get(item, "end_time")),
        asked=item.get("input"),
        replied=item.get("output"),
        session=str(_get(trace, "session_id") or ""),
        user=str(_get(trace, "user_id") or ""),
        app=str(_get(trace, "trace_name") or trace.get("name") or ""),
    )


# LangSmith: runs, alone or with their child runs

_RUN_KINDS = {"llm": "model", "tool": "tool"}
_THREADS = ("session_id", "thread_id", "conversation_id")
"""The keys of a run's metadata that join traces to a thread (LangSmith: "Configure threads")."""


def is_langsmith(item: Any) -> bool:
    """True if an item of an export is a run of LangSmith."""
    return isinstance(item, Mapping) and isinstance(item.get("run_type"), str) and "id" in item


def read_langsmith_steps(items: Iterable[Any]) -> list[TraceStep]:
    """Return the steps of runs of LangSmith."""
    steps: list[TraceStep] = []
    pending = [item for item in items if is_langsmith(item)]
    while pending:
        run = pending.pop()
        children = run.get("child_runs")
        pending += [child for child in children if is_langsmith(child)] if isinstance(children, list) else []
        extra = _parse_field(run.get("extra"))
        metadata = extra.get("metadata") if isinstance(extra, Mapping) else None
        known = metadata if isinstance(metadata, Mapping) else {}
        steps.append(
            _make_step(
                trace_id=str(run.get("trace_id") or run["id"]),
                span_id=str(run["id"]),
                parent=run.get("parent_run_id"),
                kind=_RUN_KINDS.get(str(run["run_type"]), "other"),
                name=str(run.get("name") or ""),
                times=(run.get("start_time"), run.get("end_time")),
                asked=_parse_field(run.get("inputs")),
                replied=_unwrap_result(_parse_field(run.get("outputs"))),
                session=_get_first(known, _THREADS),
                user=_get_first(known, ("user_id", "ls_user_id")),
                app="" if run.get("parent_run_id") else str(run.get("name") or ""),
            )
        )
    return steps


def _unwrap_result(outputs: Any) -> Any:
    """Return the result of a tool of LangChain, which is a message in an object; all other outputs unchanged."""
    output = outputs.get("output") if isinstance(outputs, Mapping) and len(outputs) == 1 else None
    return output["content"] if isinstance(output, Mapping) and output.get("type") == "tool" else outputs


def _parse_field(value: Any) -> Any:
    return _parse_text(value) if isinstance(value, str) else value


def _make_step(
    *,
    trace_id: str,
    span_id: str,
    parent: Any,
    kind: str,
    name: str,
    times: tuple[Any, Any],
    asked: Any,
    replied: Any,
    session: str,
    user: str,
    app: str,
) -> TraceStep:
    start, end = (parse_time(value) for value in times)
    began = 0.0 if start is None else start.timestamp()
    return TraceStep(
        trace_id=trace_id,
        span={
            "id": span_id,
            "parent_id": None if not parent else str(parent),
            "turn": 0,
            "kind": kind,
            "name": name,
            "start": began,
            "end": began if end is None else end.timestamp(),
            "error": None,
            "request": _parse_field(asked),
            "response": _parse_field(replied),
            "attributes": {"gen_ai.operation.name": "invoke_agent"} if kind == "agent" else {},
        },
        session=session,
        user=user,
        app=app,
        messages=find_messages(asked) if kind != "tool" else [],
        replies=find_messages(replied) if kind != "tool" else [],
        texts=(_find_text(asked, _PROMPTS), _find_text(replied, _REPLIES)) if kind != "tool" else (None, None),
    )


def _get(data: Mapping[str, Any], name: str) -> Any:
    """Return a value by its name in snake case, which APIs write in camel case."""
    if name in data:
        return data[name]
    first, *rest = name.split("_")
    return data.get(first + "".join(word.capitalize() for word in rest))


# From steps to sessions


def build_sessions(steps: Iterable[TraceStep]) -> list[SourceSession]:
    """Join the steps of each session; a trace without the id of one is a session of its own."""
    traces: defaultdict[str, list[TraceStep]] = defaultdict(list)
    for step in steps:
        traces[step.trace_id].append(step)
    by_session: defaultdict[str, list[list[TraceStep]]] = defaultdict(list)
    for trace_id, of_trace in traces.items():
        of_trace.sort(key=lambda step: step.span["start"])
        by_session[next((step.session for step in of_trace if step.session), trace_id)].append(of_trace)
    return [_build_session(session_id, of_session) for session_id, of_session in by_session.items()]


def _build_session(session_id: str, traces: list[list[TraceStep]]) -> SourceSession:
    traces.sort(key=lambda trace: trace[0].span["start"])
    everything = [step for trace in traces for step in trace]
    start = everything[0].span["start"]
    session = SourceSession(
        id=session_id,
        app=next((step.app for step in everything if step.app), ""),
        user=next((step.user for step in everything if step.user), ""),
        began=datetime.fromtimestamp(start, UTC) if start else None,
    )
    turns: list[Turn] = []
    notes: dict[str, None] = {}
    try:
        for trace in traces:
            for steps in _split_invocations(trace):
                new = _read_invocation(steps)
                turns += new[_count_known(turns, new) :]
    except MessageError as error:
        return replace(session, problem=f"the messages cannot be read: {error}")
    except RecursionError:
        return replace(session, problem="the messages are nested too deeply")
    return make_session(session, Conversation(turns=turns), notes=notes, problem=None if turns else NO_CONTENT)


def make_session(
    session: SourceSession, conversation: Conversation, *, notes: Iterable[str] = (), problem: str | None = None
) -> SourceSession:
    """Return a session with the turns of a conversation; it has a problem if no user speaks in it."""
    turns = [turn for turn in conversation.turns if turn.prompt is not None]
    found = dict.fromkeys(notes)
    if len(turns) < len(conversation.turns):
        found["what the agent said before the first message of the user is left out"] = None
    built: list[Invocation] = []
    for number, turn in enumerate(turns, start=1):
        calls = turn.calls
        if calls is None:
            found[f"turn {number}: tool calls are unknown, so none are expected or excluded"] = None
        elif any(call.args is None for call in calls):
            found[f"turn {number}: arguments of tool calls are unknown, so no calls are expected"] = None
            calls = None
        for kind in sorted(set(turn.left_out)):
            found[f"turn {number}: a part that is no text is left out: {kind}"] = None
        data = build_invocation(replace(turn, calls=calls))
        built.append(Invocation.model_validate({"invocation_id": f"turn_{number}", **data}))
    if problem is None and not built:
        problem = NO_USER_MESSAGE
    return replace(session, turns=tuple(built), notes=(*session.notes, *found), problem=problem)


def _split_invocations(trace: Sequence[TraceStep]) -> list[list[TraceStep]]:
    """Split a trace at its outermost agents; a trace without several is one invocation.

    An agent that answers the same message as the one before it got a handoff and belongs to its invocation. Raises
    MessageError.
    """
    by_id = {step.span["id"]: step for step in trace}
    groups: dict[str, list[TraceStep]] = {}
    for step in trace:
        agents = [each for each in _walk_up(step, by_id) if each.kind == "agent"]
        if agents:
            groups.setdefault(agents[-1].span["id"], []).append(step)
    invocations: list[list[TraceStep]] = []
    last: str | None = None
    for group in groups.values():
        speaking = [step for step in group if step.has_messages]
        if not speaking:
            continue
        prompt = read_messages(speaking[-1].messages).turns[-1].prompt
        if invocations and prompt == last:
            invocations[-1] += group
        else:
            invocations.append(group)
        last = prompt
    return invocations if len(invocations) > 1 else [list(trace)]


def _walk_up(step: TraceStep, by_id: Mapping[str, TraceStep]) -> Iterator[TraceStep]:
    """Yield a step and those around it; a circle of parents ends."""
    seen: set[str] = set()
    here: TraceStep | None = step
    while here is not None and here.span["id"] not in seen:
        seen.add(here.span["id"])
        yield here
        here = by_id.get(here.span["parent_id"])


def _read_invocation(steps: Sequence[TraceStep]) -> list[Turn]:
    """Return the turns that an invocation shows: earlier ones as its messages have them, and its own as the last."""
    by_id = {step.span["id"]: step for step in steps}
    models = [step for step in steps if step.kind == "model" and step.has_messages]
    if not models:
        return _read_outermost(steps)
    depth = {step.span["id"]: sum(each.kind == "agent" for each in _walk_up(step, by_id)) for step in models}
    top = min(depth.values())
    last = max((step for step in models if depth[step.span["id"]] == top), key=lambda step: step.span["start"])
    newest = max(models, key=lambda step: step.span["start"])
    turns = read_messages([*last.messages, *last.replies]).turns
    turn = turns[-1]
    if newest is not last and newest.replies:  # another agent gave the response
        reply = read_messages(newest.replies).turns[-1]
        if reply.answer:
            turn.answer = reply.answer
    reported = _find_reported_calls(steps, by_id)
    if reported is not None:
        turn.calls, turn.results = reported
    else:
        replied = [call for model in _list_outermost(models, by_id) for call in _read_calls(model)]
        if len(replied) > len(turn.calls or ()):  # the messages of one agent do not have the calls of another
            turn.calls = replied
    return turns


def _read_outermost(steps: Sequence[TraceStep]) -> list[Turn]:
    """Return the turns of an invocation whose model calls have no messages: what went into its outermost step."""
    by_id = {step.span["id"]: step for step in steps}
    for step in steps:
        if not step.has_messages and step.texts[0] is None:
            continue
        if step.has_messages:
            turns = read_messages([*step.messages, *step.replies]).turns
        else:
            turns = [Turn(prompt=step.texts[0], calls=None)]
        turns[-1].answer = turns[-1].answer or step.texts[1]
        reported = _find_reported_calls(steps, by_id)
        if reported is not None:
            turns[-1].calls, turns[-1].results = reported
        return turns
    return []


def _find_reported_calls(
    steps: Sequence[TraceStep], by_id: Mapping[str, TraceStep]
) -> tuple[list[ToolCall], list[ToolResult]] | None:
    """Return the calls of the spans with their results; None if they do not report all calls and arguments."""
    sound = [
        step.span if step.span["parent_id"] in by_id else {**step.span, "parent_id": None}
        for step in steps
        if _ends(step, by_id)
    ]
    reported = ReportedCalls(sound)
    tools = [step for step in steps if step.kind == "tool"]
    if not tools or reported.incomplete or reported.without_arguments:
        return None
    results = [ToolResult(each["name"], json.dumps(each["response"])) for each in reported.responses]
    return [ToolCall(call["name"], call["args"]) for call in reported.calls], results


def _ends(step: TraceStep, by_id: Mapping[str, TraceStep]) -> bool:
    """False for a step in a circle of parents."""
    *_, outermost = _walk_up(step, by_id)
    return outermost.span["parent_id"] not in by_id


def _list_outermost(models: Sequence[TraceStep], by_id: Mapping[str, TraceStep]) -> list[TraceStep]:
    """Return the model calls without those inside another: clients report the calls of frameworks again."""
    own = {step.span["id"] for step in models}
    return [
        step for step in models if own.isdisjoint(each.span["id"] for each in _walk_up(step, by_id) if each is not step)
    ]


def _read_calls(model: TraceStep) -> Iterator[ToolCall]:
    if model.replies:
        yield from read_messages(model.replies).calls or ()


def _count_known(known: Sequence[Turn], new: Sequence[Turn]) -> int:
    """Return how many of the new turns repeat the end of the known ones, as the history of a conversation does."""
    for number in range(min(len(known), len(new) - 1), 0, -1):
        if [turn.prompt for turn in known[-number:]] == [turn.prompt for turn in new[:number]]:
            return number
    return 0
