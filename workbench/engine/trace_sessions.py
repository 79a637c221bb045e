"""Conversations in traces: OpenTelemetry, and exports of Langfuse and LangSmith.

A trace has model calls, tool calls and agents, but no conversation. The conversation is in the messages that went to
the last model call of each invocation; the tool calls are those of the spans, else those of the models' replies.

Sources of the shapes: GenAI semantic conventions of OpenTelemetry 1.26 to 1.40 (`gen_ai.prompt.N`, then events
`gen_ai.user.message`, then `gen_ai.input.messages`), OpenInference (`llm.input_messages.N`), google-adk 2.13
(`google/adk/telemetry/tracing.py`); Langfuse "Export a single trace or session", "Blob storage export field reference"
and `TraceWithFullDetails` of its API; LangSmith "Run data format" and `langsmith.schemas.Run`.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from workbench.agents.worker.otlp import KEYS, OtlpDocument, OtlpSpan, read_json
from workbench.agents.worker.telemetry import ReportedCalls, convert_span
from workbench.engine.conversion import build_invocation
from workbench.model.evalset import Invocation
from workbench.model.trace import ToolCall
from workbench.store.datasets.adk_sessions import NO_USER_MESSAGE, SourceSession, name_turns, parse_time
from workbench.store.datasets.message_rows import (
    PROMPT_KEYS,
    REPLY_KEYS,
    MessageConversation,
    MessageError,
    MessageTurn,
    ToolResult,
    find_messages,
    find_text,
    has_parts,
    parse_text,
    read_messages,
)
from workbench.store.json.json_path import get_spelled

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


NO_CONTENT = (
    "the trace has no messages: let the instrumentation record them in spans "
    "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only, "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental)"
)


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
_CONTEXT = "For context:"
"""How ADK begins what it shows a sub-agent of other agents, as a message of the user."""

_REMARK: Mapping[str, Any] = {"role": "assistant", "content": ""}
"""A message between two of the user, whose text is not known as it was said."""


def is_otlp(document: Any) -> bool:
    """True if a JSON value has spans in OTLP."""
    return _find_otlp(document) is not None


def _find_otlp(document: Any) -> Mapping[str, Any] | None:
    """Return the OTLP of a JSON value: itself, or inside that of Tempo (`batches`, `trace`) or Jaeger (`result`)."""
    if not isinstance(document, Mapping):
        return None
    if any(key in document for key in KEYS):
        return document
    if isinstance(document.get("batches"), list):
        return {KEYS[0]: document["batches"]}
    inner = (_find_otlp(document.get(key)) for key in ("trace", "result"))
    return next((found for found in inner if found is not None), None)


def read_otlp_steps(documents: Iterable[Any]) -> tuple[list[TraceStep], tuple[str, ...]]:
    """Return the steps of OTLP documents, and descriptions of what could not be read."""
    read = OtlpDocument()
    for document in documents:
        found = read_json(_find_otlp(document) or document, longest=None)
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
    messages, replies = next((found for found in _iter_span_messages(span) if found[0]), ([], []))
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
            find_text(span.attributes.get("input.value"), PROMPT_KEYS),
            find_text(span.attributes.get("output.value"), REPLY_KEYS),
        ),
    )


def _get_first(attributes: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(attributes[name]) for name in names if attributes.get(name)), "")


def _iter_span_messages(span: OtlpSpan) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the messages and replies that a span has in each convention, the newest first."""
    holders = [span.attributes, *(attributes for _, attributes in span.events)]

    def find(key: str) -> list[Any]:
        return next((found for each in holders if (found := find_messages(each.get(key)))), [])

    messages = [*find("gen_ai.input.messages")]
    yield [_REMARK if _is_context(each) else each for each in messages], find("gen_ai.output.messages")
    messages = find("gcp.vertex.agent.llm_request")
    yield [_REMARK if _is_context(each) else each for each in messages], find("gcp.vertex.agent.llm_response")
    yield _read_indexed(span.attributes)
    yield _read_events(span.events)
    yield find("gen_ai.prompt"), find("gen_ai.completion")
    yield find("input.value"), find("output.value")


def _is_context(message: Any) -> bool:
    """True for what ADK shows an agent of others: an introduction, and parts such as `[home] said: …`."""
    parts = message.get("parts") if isinstance(message, Mapping) else None
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    first, second = (str(text) for text in [*texts, "", ""][:2])
    return first.startswith(_CONTEXT) and second.startswith("[")


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
    messages, replies = (
        [{"role": role, "content": None, **found[side][number]} for number in sorted(found[side])]
        for side, role in (("input", "user"), ("output", "assistant"))
    )
    return messages, replies


def _parse_content(value: Any) -> Any:
    """Return a content; parts that are not text are recorded as JSON text of a list."""
    parsed = parse_text(value)
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
    calls = parse_text(attributes.get("tool_calls"))
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
    names_session = any(get_spelled(item, name) for name in ("session_id", "user_id", "html_path", "project_id"))
    names_session = names_session or get_spelled(item, "observation_count") is not None  # as exported
    return bool(get_spelled(item, "trace_id") and get_spelled(item, "start_time") and "type" in item) or bool(
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
                    steps += _read_trace({**trace, "session_id": get_spelled(trace, "session_id") or item.get("id")})
        elif isinstance(item.get("trace"), Mapping):
            steps += _read_trace({**item["trace"], "observations": item.get("observations")})
        elif get_spelled(item, "trace_id"):
            steps.append(_make_observation_step(item, str(get_spelled(item, "trace_id")), item))
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
        parent=get_spelled(item, "parent_observation_id"),
        kind=_OBSERVATION_KINDS.get(str(item.get("type")).upper(), "other"),
        name=str(item.get("name") or ""),
        times=(get_spelled(item, "start_time"), get_spelled(item, "end_time")),
        asked=item.get("input"),
        replied=item.get("output"),
        error=(get_spelled(item, "status_message") or "error") if item.get("level") == "ERROR" else None,
        session=str(get_spelled(trace, "session_id") or ""),
        user=str(get_spelled(trace, "user_id") or ""),
        app=str(get_spelled(trace, "trace_name") or trace.get("name") or ""),
    )


# LangSmith: runs, alone or with their child runs

_RUN_KINDS = {"llm": "model", "tool": "tool"}
_THREADS = ("session_id", "thread_id", "conversation_id")
"""The keys of a run's metadata that join traces to a thread (LangSmith: "Configure threads")."""


def is_langsmith(item: Any) -> bool:
    """True if an item of an export is a run of LangSmith."""
    return isinstance(item, Mapping) and isinstance(item.get("run_type"), str) and "id" in item


def read_langsmith_steps(items: Iterable[Any]) -> list[TraceStep]:
    steps: list[TraceStep] = []
    pending = [item for item in items if is_langsmith(item)]
    while pending:
        run = pending.pop()
        children = run.get("child_runs")
        pending += [child for child in children if is_langsmith(child)] if isinstance(children, list) else []
        extra = parse_text(run.get("extra"))
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
                asked=_read_inputs(run),
                error=run.get("error"),
                replied=_unwrap_result(parse_text(run.get("outputs"))),
                session=_get_first(known, _THREADS),
                user=_get_first(known, ("user_id", "ls_user_id")),
                app="" if run.get("parent_run_id") else str(run.get("name") or ""),
            )
        )
    return steps


def _read_inputs(run: Mapping[str, Any]) -> Any:
    """Return the inputs of a run. LangChain records those of a tool as the text of an object, in JSON or Python."""
    inputs = parse_text(run.get("inputs"))
    text = inputs.get("input") if isinstance(inputs, Mapping) and len(inputs) == 1 else None
    if run["run_type"] != "tool" or not isinstance(text, str):
        return inputs
    document = parse_text(text)
    try:
        return ast.literal_eval(text) if document is text else document
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text  # the name of the argument is unknown


def _unwrap_result(outputs: Any) -> Any:
    """Return the result of a tool of LangChain, which is a message in an object; all other outputs unchanged."""
    output = outputs.get("output") if isinstance(outputs, Mapping) and len(outputs) == 1 else None
    return output["content"] if isinstance(output, Mapping) and output.get("type") == "tool" else outputs


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
    error: Any,
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
            "error": str(error) if error else None,
            "request": parse_text(asked),
            "response": parse_text(replied),
            "attributes": {"gen_ai.operation.name": "invoke_agent"} if kind == "agent" else {},
        },
        session=session,
        user=user,
        app=app,
        messages=find_messages(asked) if kind != "tool" else [],
        replies=find_messages(replied) if kind != "tool" else [],
        texts=(find_text(asked, PROMPT_KEYS), find_text(replied, REPLY_KEYS)) if kind != "tool" else (None, None),
    )


# From steps to sessions

_BEFORE_USER = "what the agent said before the first message of the user is left out"


def build_sessions(steps: Iterable[TraceStep]) -> list[SourceSession]:
    """Join the steps of each session; a trace without the id of one is a session of its own.

    A session belongs to one user: equal ids of other users are other sessions.
    """
    traces: defaultdict[str, dict[str, TraceStep]] = defaultdict(dict)
    for step in steps:
        traces[step.trace_id][step.span["id"]] = step
    by_session: defaultdict[str, defaultdict[str, list[list[TraceStep]]]] = defaultdict(lambda: defaultdict(list))
    for trace_id, by_id in traces.items():
        of_trace = sorted(by_id.values(), key=lambda step: step.span["start"])
        session_id = next((step.session for step in of_trace if step.session), trace_id)
        by_session[session_id][next((step.user for step in of_trace if step.user), "")].append(of_trace)
    sessions = []
    for session_id, by_user in by_session.items():
        if len(by_user) == 2 and "" in by_user:  # traces that do not name the user
            named = next(user for user in by_user if user)
            by_user[named] += by_user.pop("")
        sessions += [_build_session(session_id, of_session) for of_session in by_user.values()]
    return sessions


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
    turns: list[MessageTurn] = []
    try:
        for trace in traces:
            for steps in _split_invocations(trace):
                _add_turns(turns, _read_invocation(steps))
    except MessageError as error:
        return replace(session, problem=f"the messages cannot be read: {error}")
    except RecursionError:
        return replace(session, problem="the messages are nested too deeply")
    if any(_LONGER_PROMPT in turn.notes for turn in turns) and _LONGER_PROMPT not in turns[-1].notes:
        turns[-1].notes.append(_MAYBE_LONGER)
    return make_session(session, MessageConversation(turns=turns), problem=None if turns else NO_CONTENT)


def make_session(
    session: SourceSession, conversation: MessageConversation, *, problem: str | None = None
) -> SourceSession:
    """Return a session with the turns of a conversation; it has a problem if no user speaks in it."""
    turns = [turn for turn in conversation.turns if turn.prompt is not None]
    general = [] if len(turns) == len(conversation.turns) else [_BEFORE_USER]
    found: defaultdict[str, list[int]] = defaultdict(list)
    built: list[Invocation] = []
    for number, turn in enumerate(turns, start=1):
        calls = turn.calls
        if calls is None:
            found["tool calls are unknown, so none are expected or excluded"].append(number)
        elif any(call.args is None for call in calls):
            found["arguments of tool calls are unknown, so no calls are expected"].append(number)
            calls = None
        for kind in sorted(set(turn.left_out)):
            found[f"a part that is no text is left out: {kind}"].append(number)
        for note in dict.fromkeys(turn.notes):
            found[note].append(number)
        data = build_invocation(replace(turn, calls=calls))
        built.append(Invocation.model_validate({"invocation_id": f"turn_{number}", **data}))
    if problem is None and not built:
        problem = NO_USER_MESSAGE
    notes = [*general, *(f"{name_turns(numbers)}: {note}" for note, numbers in found.items())]
    return replace(session, turns=tuple(built), notes=(*session.notes, *notes), problem=problem)


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
        spoken = [turns for step in group if step.messages and (turns := read_messages(step.messages).turns)]
        if not spoken:
            continue
        prompt = spoken[-1][-1].prompt
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


def _read_invocation(steps: Sequence[TraceStep]) -> list[MessageTurn]:
    """Return the turns that an invocation shows: earlier ones as its messages have them, and its own as the last."""
    by_id = {step.span["id"]: step for step in steps}
    models = [step for step in steps if step.kind == "model" and step.messages and read_messages(step.messages).turns]
    if not models:
        turns = _read_outermost(steps)
        if turns:
            _settle_calls(turns[-1], steps, by_id, is_known=bool(turns[-1].calls))
    else:
        turns = _read_models(steps, models, by_id)
    if turns:
        _note_failures(turns[-1], steps, by_id)
    return turns


def _read_models(
    steps: Sequence[TraceStep], models: list[TraceStep], by_id: Mapping[str, TraceStep]
) -> list[MessageTurn]:
    """Return the turns in the messages of model calls."""
    shown = _read_shown(steps)
    last, others, is_certain = _find_conversation(models, shown, by_id)
    models = [step for step in models if step not in others]
    newest = max(models, key=lambda step: step.span["start"])
    turns = read_messages([*last.messages, *last.replies]).turns
    turn = turns[-1]
    if not is_certain:
        turn.notes.append(_OTHER_CALLS)
    replies = [(step, read_messages(step.replies).turns[-1]) for step in _list_outermost(models, by_id) if step.replies]
    if shown.answer and any(reply.answer == shown.answer for _, reply in replies):
        turn.answer = shown.answer
    elif newest is not last and newest.replies:  # another agent gave the response
        turn.answer = read_messages(newest.replies).turns[-1].answer or turn.answer
    turn.answer = turn.answer or shown.answer
    said = [
        text
        for step, reply in replies
        if not any(each.kind == "tool" for each in _walk_up(step, by_id))
        for text in (*reply.said, *([reply.answer] if reply.answer else ()))
    ]
    if turn.answer in said:
        del said[len(said) - 1 - said[::-1].index(turn.answer)]
    if len(said) > len(turn.said):  # the messages of one agent do not have the texts of another
        turn.said = said
    replied = [call for _, reply in replies for call in reply.calls or ()]
    if len(replied) > len(turn.calls or ()):
        turn.calls = replied
    is_known = all(step.replies or step.span["error"] for step in (last, newest))
    _settle_calls(turn, [step for step in steps if step not in others], by_id, is_known=is_known)
    return turns


@dataclass(frozen=True)
class _Shown:
    """What the outermost step of an invocation says of it; None if it is unknown."""

    prompt: str | None = None
    answer: str | None = None


_OTHER_CALLS = "the model also got other messages, which seem to be no part of the conversation: check the message"


def _read_shown(steps: Sequence[TraceStep]) -> _Shown:
    """Return the prompt and the answer of the outermost step that is neither a model nor a tool."""
    for step in steps:
        if step.kind in ("model", "tool") or not (step.messages or step.texts[0]):
            continue
        prompt, answer = step.texts
        try:
            if step.messages and (turns := read_messages(step.messages).turns):
                prompt = turns[-1].prompt
            if step.replies and (turns := read_messages(step.replies).turns):
                answer = turns[-1].answer
        except MessageError:
            return _Shown()
        return _Shown(prompt, answer)
    return _Shown()


def _find_conversation(
    models: Sequence[TraceStep], shown: _Shown, by_id: Mapping[str, TraceStep]
) -> tuple[TraceStep, list[TraceStep], bool]:
    """Return the last call of the conversation, the calls of its agent that are no part of it, and if that is certain.

    Agents also ask models for titles, checks or better queries. If the trace does not say what the user wrote, the
    conversation is the one with the most calls, then the one whose prompt does not quote that of another.
    """
    agents = {
        step.span["id"]: [each.span["id"] for each in _walk_up(step, by_id) if each.kind == "agent"] for step in models
    }
    prompts = {step.span["id"]: [turn.prompt for turn in read_messages(step.messages).turns] for step in models}
    asked = [step for step in models if shown.prompt and prompts[step.span["id"]][-1] == shown.prompt]
    candidates = asked or models
    top = min(len(agents[step.span["id"]]) for step in candidates)
    level = sorted(
        (step for step in models if len(agents[step.span["id"]]) == top), key=lambda step: step.span["start"]
    )
    threads: list[list[TraceStep]] = []
    for step in level:
        own = prompts[step.span["id"]]
        for thread in reversed(threads):
            before = prompts[thread[-1].span["id"]]
            if before[-1] == own[-1] or (before == own[: len(before)] and step not in asked):
                thread.append(step)
                break
        else:
            threads.append([step])
    own_agent = agents[level[0].span["id"]][:1]
    if not asked:
        threads = [thread for thread in threads if agents[thread[0].span["id"]][:1] == own_agent] or threads
    known = [thread for thread in threads if any(step in asked for step in thread)]
    if not known and shown.answer:
        known = [thread for thread in threads if _gives(thread[-1], shown.answer)]

    def rank(thread: Sequence[TraceStep]) -> tuple[int, bool, float]:
        said = prompts[thread[-1].span["id"]][-1] or ""
        quoted = [prompts[each[-1].span["id"]][-1] for each in threads if each is not thread]
        is_own = not any(other and other != said and other in said for other in quoted)
        return len(thread), is_own, thread[-1].span["start"]

    chosen = max(known or threads, key=rank)
    others = [step for thread in threads if thread is not chosen for step in thread]
    last = next((step for step in reversed(chosen) if step in asked), chosen[-1])
    return last, others, len(known) == 1 or len({tuple(prompts[step.span["id"]][-1:]) for step in level}) == 1


def _gives(step: TraceStep, answer: str) -> bool:
    return bool(step.replies) and read_messages(step.replies).turns[-1].answer == answer


def _read_outermost(steps: Sequence[TraceStep]) -> list[MessageTurn]:
    """Return the turns of an invocation whose model calls have no messages: what went into its outermost step.

    Its input and output do not show whether tools were called in between.
    """
    for step in steps:
        if not step.messages and step.texts[0] is None:
            continue
        if step.messages:
            asked, replied = (read_messages(each).turns for each in (step.messages, step.replies))
            # The state that a graph returns has all messages, also those that it got, unless it removes old ones.
            is_state = bool(asked and replied) and None is not replied[-1].prompt == asked[-1].prompt
            whole = [*asked[: -len(replied)], *replied] if is_state else None
            turns = whole or read_messages([*step.messages, *step.replies]).turns
        else:
            turns = [MessageTurn(prompt=step.texts[0], calls=None)]
        if turns:
            turns[-1].answer = turns[-1].answer or step.texts[1]
        return turns
    return []


def _settle_calls(
    turn: MessageTurn, steps: Sequence[TraceStep], by_id: Mapping[str, TraceStep], *, is_known: bool
) -> None:
    """Take the calls of the spans with their results if these report all of them, else those of the messages.

    `is_known` is False if the messages may lack calls. Calls are unknown if spans show more than the messages.
    """
    reported = ReportedCalls([_prepare_span(step, by_id) for step in steps if _ends(step, by_id)])
    if reported.calls and not reported.incomplete and not reported.without_arguments:
        turn.calls = [ToolCall(call["name"], call["args"]) for call in reported.calls]
        called, returned = (Counter(each["name"] for each in side) for side in (reported.calls, reported.responses))
        turn.results = [
            ToolResult(each["name"], json.dumps(each["response"]))
            for each in reported.responses
            if called[each["name"]] == returned[each["name"]]  # else it is unknown which call this result is of
        ]
    elif not is_known or len(reported.calls) > len(turn.calls or ()):
        turn.calls = None


def _prepare_span(step: TraceStep, by_id: Mapping[str, TraceStep]) -> dict[str, Any]:
    """Return a span with what `ReportedCalls` needs: parents that exist, results of failures, calls in replies."""
    span = step.span if step.span["parent_id"] in by_id else {**step.span, "parent_id": None}
    if step.kind == "tool" and span["response"] is None and span["error"]:
        return {**span, "response": {"error": span["error"]}}
    if step.kind == "model" and step.replies:
        calls = read_messages(step.replies).calls or ()
        parts = [{"type": "tool_call", "name": call.name, "arguments": call.args} for call in calls]
        response = span["response"]
        is_read = isinstance(response, list) and any(map(has_parts, response))
        if parts and not is_read and not any(map(_is_request, span["attributes"])):
            return {**span, "response": [{"parts": parts}]}
    return span


def _is_request(key: str) -> bool:
    return key.startswith("llm.output_messages.") and ".tool_calls." in key


def _note_failures(turn: MessageTurn, steps: Sequence[TraceStep], by_id: Mapping[str, TraceStep]) -> None:
    """Note what failed. Calls that a failed run did not reach are unknown."""
    errors = [str(step.span["error"]) for step in steps if step.span["error"]]
    outermost = [
        str(step.span["error"]) for step in steps if step.span["error"] and step.span["parent_id"] not in by_id
    ]
    if outermost or (errors and not turn.answer):
        turn.notes.append(f"the run failed: {(outermost or errors[-1:])[0]}")
        turn.calls = turn.calls or None
    if not turn.answer:
        turn.notes.append("no response is known, so none is expected")
    failed = dict.fromkeys(step.span["name"] for step in steps if step.kind == "tool" and step.span["error"])
    if failed:
        turn.notes.append(f"calls failed: {', '.join(failed)}")


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


_LONGER_PROMPT = "the message is as later messages repeat it; the model got more text with it"
_MAYBE_LONGER = "no later message repeats the message, which may have text that the user did not write"
_OTHER_HISTORY = "the earlier messages that the model got differ from the turns before it, and are left out"


def _add_turns(known: list[MessageTurn], new: Sequence[MessageTurn]) -> None:
    """Add the turns that an invocation shows to those known from earlier ones, which its history may repeat.

    A history has what the user wrote, where the call of the model itself may have more, such as documents.
    """
    for number in range(min(len(known), len(new) - 1), 0, -1):
        pairs = [*zip(known[-number:], new[:number], strict=True)]
        if all(_repeats(later, earlier) for earlier, later in pairs):
            for earlier, later in pairs:
                if later.prompt != earlier.prompt and later.prompt and later.prompt in (earlier.prompt or ""):
                    earlier.prompt = later.prompt
                    earlier.notes.append(_LONGER_PROMPT)
            known += new[number:]
            return
    if known and len(new) > 1:
        new[-1].notes.append(_OTHER_HISTORY)
        new = new[-1:]
    known += new


def _repeats(later: MessageTurn, earlier: MessageTurn) -> bool:
    """True if a turn of a history is an earlier turn."""
    if later.prompt == earlier.prompt:
        return True
    is_part = later.prompt is not None and later.prompt in (earlier.prompt or "")
    return (is_part and later.prompt != "") or bool(later.answer and later.answer == earlier.answer)
