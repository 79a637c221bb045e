"""Events and spans of ADK as turns and spans of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from ...wire import explain_unfit
from ..base import MOST_STEPS, USAGE_FIELDS, check_texts, explain_truncation
from ..object_json import as_json

# Events of a turn.

_USER = "user"


_ONLY_PARTIAL = (
    "the agent sent partial events only, so the turn has no response: yield the whole text in a last event that is not "
    "partial"
)

_NOT_PARTIAL = (
    "the agent sent pieces of a text as whole responses, of which only the last counts: yield pieces with "
    "partial=True, and the whole text last"
)
_LEFT_OUT = (
    "`adk eval` of google-adk {version} judges the trajectory without {names}, which ends the turn: it counts the call "
    "from 2.0 on, as here"
)


class TurnEvents:
    """Collects the google.adk `Event`s of one turn; only what an invocation needs is kept.

    The first MOST_STEPS tool calls and tool responses are kept.
    """

    def __init__(self) -> None:
        self.invocation_id: str | None = None
        """The id of the first event; None without events."""
        self.error: Any | None = None
        """The event that reports an error of the model, if no content came after it; else None.

        Content after an error means that a plugin retried or an agent fell back. A truncated answer is no error.
        """
        self.authors: dict[str, None] = {}
        """Authors in the order of their first events."""
        self.model_calls = 0
        """Model calls according to events, for agents that call models themselves; so is `usage`."""
        self.usage: dict[str, int] = {}
        self._final: Any | None = None
        self._kept: list[tuple[Any, Any]] = []  # events with the kept part of their content
        self._calls = 0
        self._responses = 0
        self._texts = 0
        self._has_partial = False
        self._speaker = ""
        self._pieces: list[str] = []  # whole responses of one agent that followed each other

    def list_notes(self) -> list[str]:
        """Return remarks on the events of a whole turn."""
        notes = [_ONLY_PARTIAL] if self._has_partial and self._final is None else []
        pieces = self._pieces
        if len(pieces) > 1 and (
            "".join(pieces[:-1]) == pieces[-1]
            or any(one.endswith(" ") or other.startswith(" ") for one, other in pairwise(pieces))
        ):
            notes.append(_NOT_PARTIAL)
        if self._final is not None and self._final.long_running_tool_ids:
            from google.adk.version import __version__

            if __version__.startswith("1."):
                names = ", ".join(part.function_call.name for part in self._final.content.parts if part.function_call)
                notes.append(_LEFT_OUT.format(version=__version__, names=names))
        return notes

    def explain_unfit_result(self) -> str | None:
        """Name the tool whose result JSON cannot hold, and what it holds; None if every result can be sent."""
        for _, content in self._kept:
            for part in content.parts or ():
                answer = part.function_response
                problem = answer and explain_unfit(answer.response, "its result")
                if problem:
                    return f"no model can be sent what the tool {answer.name} returned: {problem}"
        return None

    @property
    def calls_unknown(self) -> str | None:
        """Why the calls of the turn cannot be judged; None if all are kept."""
        return explain_truncation(self._calls, self._responses)

    def add(self, event: Any) -> None:
        """Add the next event. Raises AgentFault if the agent said more texts than are kept."""
        if self.invocation_id is None:
            self.invocation_id = event.invocation_id
        self._has_partial = self._has_partial or bool(event.partial and _has_parts(event) and _has_text(event))
        self.authors.setdefault(event.author)
        if event.usage_metadata is not None or event.model_version is not None:
            self.model_calls += 1
            add_usage(self.usage, event.usage_metadata)
        if _has_parts(event):
            self.error = None
        elif event.error_code and not _is_of_user(event):
            self.error = event
        content = self._drop_excess(event.content) if _has_parts(event) else event.content
        self._note_piece(event)
        if self._is_final(event):
            self._final = event
        if _is_intermediate(event) and (content is event.content or content.parts or event.grounding_metadata):
            self._kept.append((event, content))

    def build_invocation(self, *, user_content: Any, sent_at: float, app_details: Mapping[str, Any]) -> dict[str, Any]:
        """Build the invocation of a turn with at least one event.

        `sent_at` is when the user sent `user_content` (seconds since the epoch); `app_details` comes from
        `build_app_details`.
        """
        invocation: dict[str, Any] = {
            "invocation_id": self.invocation_id,
            "user_content": as_json(user_content),
            "intermediate_data": {
                "invocation_events": [
                    _convert_event(event, content, is_final=event is self._final) for event, content in self._kept
                ]
            },
            "creation_timestamp": sent_at,
            "app_details": {"agent_details": dict(app_details)},
        }
        if self._final is not None:
            invocation["final_response"] = as_json(self._final.content)
        return invocation

    def _note_piece(self, event: Any) -> None:
        """Note a whole response that follows another of the same agent: it may be a piece without its flag."""
        is_text = not event.partial and _has_parts(event) and _has_text(event) and event.is_final_response()
        if not is_text or event.author != self._speaker:
            self._speaker, self._pieces = event.author, []
        if is_text:
            self._pieces.append("".join(part.text or "" for part in event.content.parts))

    def _is_final(self, event: Any) -> bool:
        """Return True if the event holds the final response so far: the last final event with text, else with any
        part."""
        if _is_of_user(event) or not _has_parts(event) or not event.is_final_response():
            return False
        return self._final is None or not _has_text(self._final) or _has_text(event)

    def _drop_excess(self, content: Any) -> Any:
        """Return the content without excess calls and responses."""
        parts = []
        for part in content.parts:
            self._calls += part.function_call is not None
            self._responses += part.function_response is not None
            self._texts += bool(part.text)
            if not (
                (part.function_call is not None and self._calls > MOST_STEPS)
                or (part.function_response is not None and self._responses > MOST_STEPS)
            ):
                parts.append(part)
        check_texts(self._texts)
        return content if len(parts) == len(content.parts) else content.model_copy(update={"parts": parts})


def build_app_details(authors: Iterable[str], requests: Mapping[str, Any]) -> dict[str, Any]:
    """Return instructions and tool declarations of each author, from its first model request in the turn."""
    return {
        author: {
            "name": author,
            "instructions": _read_instructions(request.config.system_instruction),
            "tool_declarations": as_json(request.config.tools or []),
        }
        for author in authors
        if (request := requests.get(author)) is not None
    }


def add_usage(total: dict[str, int], usage: Any) -> None:
    """Add google.genai usage metadata to `total`; missing counts are ignored."""
    for name, key in USAGE_FIELDS.items():
        count = getattr(usage, key, None)
        if count is not None:
            total[name] = total.get(name, 0) + count


def _convert_event(event: Any, content: Any, *, is_final: bool) -> dict[str, Any]:
    """Convert an event. The text of the final response is omitted, but not its tool calls, which are part of the
    trajectory."""
    converted: dict[str, Any] = {"author": event.author}
    if not is_final or event.get_function_calls():
        converted["content"] = as_json(content)
    for key in ("grounding_metadata", "usage_metadata", "model_version"):
        value = getattr(event, key)
        if value is not None:
            converted[key] = as_json(value)
    return {name: value for name, value in converted.items() if value is not None}


def _is_intermediate(event: Any) -> bool:
    if _is_of_user(event):
        return False
    if event.grounding_metadata is not None:
        return True
    return _has_parts(event) and any(
        part.function_call or part.function_response or part.text or part.inline_data for part in event.content.parts
    )


def _is_of_user(event: Any) -> bool:
    return bool((event.author or "agent").lower() == _USER)


def _has_parts(event: Any) -> bool:
    return bool(event.content and event.content.parts)


def _has_text(event: Any) -> bool:
    return any(part.text for part in event.content.parts)


def _read_instructions(instruction: Any) -> str:
    """Return the text of an instruction. ADK's instructions are usually text already."""
    if instruction is None or isinstance(instruction, str):
        return instruction or ""
    parts = getattr(instruction, "parts", None) or ()
    return "\n".join(part.text for part in parts if getattr(part, "text", None))


# Spans of a session.

_INNERMOST: ContextVar[OpenSpan | None] = ContextVar("workbench_innermost_span", default=None)
"""The span in which the current task runs. If it is closed, its nearest open ancestor counts."""


@dataclass(eq=False, kw_only=True)
class OpenSpan:
    """A step that has begun."""

    owner: Any  # the same object at begin and end; kept so that its id stays unique
    id: str
    kind: str
    name: str
    parent: OpenSpan | None
    start: float
    last: float
    request: Any = None
    error: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    is_open: bool = True


class _EndedSpan(NamedTuple):
    """A step that has ended and waits for its event."""

    span: OpenSpan
    end: float
    response: Any


class Trace:
    """The spans of one session, turn by turn.

    `emit` gets each span when it has ended; None if only the sums of the turn are needed. With `announce` it also gets
    spans when they begin, without an end. Times are seconds since the trace was created.
    """

    def __init__(self, emit: Callable[[dict[str, Any]], None] | None, *, announce: bool = False) -> None:
        self._emit = emit
        self._announce = announce
        self._zero = time.perf_counter()
        self._count = 0
        self._open: dict[tuple[str, int], OpenSpan] = {}
        self._waiting: list[_EndedSpan] = []
        self.turn = 0
        self.inference_calls = 0
        self.usage: dict[str, int] = {}
        self.requests: dict[str, Any] = {}  # the first model request of each agent in this turn

    @property
    def wants_details(self) -> bool:
        """True if requests and responses of spans are to be converted to JSON."""
        return self._emit is not None

    def begin_turn(self, turn: int) -> None:
        """Reset the sums of a turn. Call it in the task that will run the agent."""
        self.turn = turn
        self.inference_calls = 0
        self.usage = {}
        self.requests = {}
        _INNERMOST.set(None)

    def end_turn(self) -> None:
        """Close open spans, the innermost first."""
        for span in reversed(list(self._open.values())):
            self._close(span, end=span.last)
        self._emit_waiting(within=None)

    def begin(self, kind: str, name: str, *, owner: object, within: object = None) -> OpenSpan:
        """Begin a step of `kind`, inside the agent's step of `within`, else inside the innermost open step."""
        parent = self._open.get(("agent", id(within))) or self._find_open_parent()
        if parent is not None:
            self._emit_waiting(within=parent)  # earlier steps get no more events
        self._count += 1
        now = self._get_time()
        span = OpenSpan(owner=owner, id=f"s{self._count}", kind=kind, name=name, parent=parent, start=now, last=now)
        self._open[(kind, id(owner))] = span
        if kind != "model":
            _INNERMOST.set(span)
        return span

    def announce(self, span: OpenSpan, *, request: Any = None) -> None:
        """Emit a span that has begun, with its request, if announcements are wanted."""
        if self._announce:
            self._emit_span(span, request=request)

    def find(self, kind: str, owner: object) -> OpenSpan | None:
        """Return the open step of `kind` that began with `owner`."""
        return self._open.get((kind, id(owner)))

    def open_spans(self, kind: str) -> Iterator[OpenSpan]:
        """Yield the open steps of `kind`, the newest first."""
        return (span for span in reversed(list(self._open.values())) if span.kind == kind)

    def touch(self, span: OpenSpan) -> None:
        """Note activity inside the step just now."""
        now = self._get_time()
        inside: OpenSpan | None = span
        while inside is not None:
            inside.last = now
            inside = inside.parent

    def end(self, span: OpenSpan, *, response: Any = None, error: str | None = None) -> None:
        self.touch(span)
        span.error = error or span.error
        self._close(span, end=span.last, response=response)

    def end_until_event(self, span: OpenSpan, *, response: Any = None, error: str | None = None) -> None:
        """End the step now; it is emitted when `note_event` adds its event, or the step around it ends."""
        self.touch(span)
        span.error = error or span.error
        self._forget(span)
        self._waiting.append(_EndedSpan(span, end=span.last, response=response))

    def note_event(self, agent: str, invocation_id: str, attributes: dict[str, Any]) -> bool:
        """Add an event to the oldest waiting step of `agent`. Return False if none waits."""
        for ended in self._waiting:
            known = ended.span.attributes
            if (known.get("agent"), known.get("invocation_id")) == (agent, invocation_id):
                known.update(attributes)
                self._waiting.remove(ended)
                self._emit_ended(*ended)
                return True
        return False

    def count_model_call(self, agent: str, request: Any, usage: Any) -> None:
        self.inference_calls += 1
        self.requests.setdefault(agent, request)
        if usage is not None:
            add_usage(self.usage, usage)

    def _close(self, span: OpenSpan, *, end: float, response: Any = None) -> None:
        self._emit_waiting(within=span)
        self._forget(span)
        self._emit_ended(span, end, response)

    def _forget(self, span: OpenSpan) -> None:
        self._open.pop((span.kind, id(span.owner)), None)
        span.is_open = False
        span.owner = None

    def _emit_waiting(self, *, within: OpenSpan | None) -> None:
        """Emit the steps directly inside `within` that wait for an event; all of them if it is None."""
        for ended in [ended for ended in self._waiting if within is None or ended.span.parent is within]:
            self._waiting.remove(ended)
            self._emit_ended(*ended)

    def _emit_ended(self, span: OpenSpan, end: float, response: Any) -> None:
        self._emit_span(span, request=span.request, end=round(end, 6), response=response)

    def _emit_span(self, span: OpenSpan, *, request: Any, end: float | None = None, response: Any = None) -> None:
        if self._emit is None:
            return
        self._emit(
            {
                "id": span.id,
                "parent_id": span.parent.id if span.parent else None,
                "turn": self.turn,
                "kind": span.kind,
                "name": span.name,
                "start": round(span.start, 6),
                "end": end,
                "error": span.error,
                "request": request,
                "response": response,
                "attributes": span.attributes,
            }
        )

    def _find_open_parent(self) -> OpenSpan | None:
        span = _INNERMOST.get()
        while span is not None and not span.is_open:
            span = span.parent
        return span

    def _get_time(self) -> float:
        return time.perf_counter() - self._zero
