"""Events and spans of ADK, converted to turns and spans of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from ...limits import MOST_STEPS, check_texts, why_cut
from ...steps import as_json

# The events of one turn as the invocation that they were.

_USER = "user"
_USAGE = {
    "prompt": "prompt_token_count",
    "tool_use_prompt": "tool_use_prompt_token_count",
    "candidates": "candidates_token_count",
    "thoughts": "thoughts_token_count",
    "cached": "cached_content_token_count",
    "total": "total_token_count",
}


class TurnEvents:
    """The google.adk `Event`s of one turn as they come, of which only what an invocation needs is kept.

    Of calls and responses of tools the first MOST_STEPS are kept.
    """

    def __init__(self) -> None:
        self.invocation_id: str | None = None
        """That of the first event; None if there was no event."""
        self.error: Any | None = None
        """The event that reports an error of the model if no content came after it; else None.

        An error that was followed by content (a plugin tried again, an agent fell back) is none, nor is an answer that
        was merely cut off.
        """
        self.authors: dict[str, None] = {}
        """Who spoke, in the order of their first events."""
        self.model_calls = 0
        """Model calls as the events alone report them, for agents that call models by themselves; `usage` likewise."""
        self.usage: dict[str, int] = {}
        self._final: Any | None = None
        self._kept: list[tuple[Any, Any]] = []  # events with what is kept of their contents
        self._calls = 0
        self._responses = 0
        self._texts = 0

    @property
    def calls_unknown(self) -> str | None:
        """Why the calls of the turn cannot be judged; None if all are kept."""
        return why_cut(self._calls, self._responses)

    def add(self, event: Any) -> None:
        """Add the next event. Raises AgentFault if the agent said more texts than are kept."""
        if self.invocation_id is None:
            self.invocation_id = event.invocation_id
        self.authors.setdefault(event.author)
        if event.usage_metadata is not None or event.model_version is not None:
            self.model_calls += 1
            add_usage(self.usage, event.usage_metadata)
        if _has_parts(event):
            self.error = None
        elif event.error_code and not _is_of_user(event):
            self.error = event
        content = self._cut(event.content) if _has_parts(event) else event.content
        if self._is_final(event):
            self._final = event
        if _is_intermediate(event) and (content is event.content or content.parts or event.grounding_metadata):
            self._kept.append((event, content))

    def invocation(self, *, user_content: Any, told_at: float, app_details: Mapping[str, Any]) -> dict[str, Any]:
        """The invocation of the turn in which the user said `user_content` at `told_at` (seconds since the epoch).

        There was an event; `app_details` is what `app_details_of` gives.
        """
        invocation: dict[str, Any] = {
            "invocation_id": self.invocation_id,
            "user_content": as_json(user_content),
            "intermediate_data": {
                "invocation_events": [
                    _invocation_event(event, content, is_final=event is self._final) for event, content in self._kept
                ]
            },
            "creation_timestamp": told_at,
            "app_details": {"agent_details": dict(app_details)},
        }
        if self._final is not None:
            invocation["final_response"] = as_json(self._final.content)
        return invocation

    def _is_final(self, event: Any) -> bool:
        """True if it holds the final response so far: the last final event with text, else the last with any part."""
        if _is_of_user(event) or not _has_parts(event) or not event.is_final_response():
            return False
        return self._final is None or not _has_text(self._final) or _has_text(event)

    def _cut(self, content: Any) -> Any:
        """The content without the calls and responses that are too many."""
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


def app_details_of(authors: Iterable[str], requests: Mapping[str, Any]) -> dict[str, Any]:
    """Instructions and tool declarations of each agent that spoke, from its first model request in the turn."""
    return {
        author: {
            "name": author,
            "instructions": _instructions(request.config.system_instruction),
            "tool_declarations": as_json(request.config.tools or []),
        }
        for author in authors
        if (request := requests.get(author)) is not None
    }


def add_usage(total: dict[str, int], usage: Any) -> None:
    """Add google.genai usage metadata to `total`; what it does not say is left alone."""
    for name, field in _USAGE.items():
        count = getattr(usage, field, None)
        if count is not None:
            total[name] = total.get(name, 0) + count


def _invocation_event(event: Any, content: Any, *, is_final: bool) -> dict[str, Any]:
    """The text of the final response is not repeated; its tool calls are, since the trajectory is read from here."""
    told: dict[str, Any] = {"author": event.author}
    if not is_final or event.get_function_calls():
        told["content"] = as_json(content)
    for field in ("grounding_metadata", "usage_metadata", "model_version"):
        value = getattr(event, field)
        if value is not None:
            told[field] = as_json(value)
    return {name: value for name, value in told.items() if value is not None}


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


def _instructions(instruction: Any) -> str:
    """ADK's instructions are text by the time they reach the model; a content is read for its text."""
    if instruction is None or isinstance(instruction, str):
        return instruction or ""
    parts = getattr(instruction, "parts", None) or ()
    return "\n".join(part.text for part in parts if getattr(part, "text", None))


# The spans of one session: opened and closed as the framework reports its steps, told as dictionaries.

_INNERMOST: ContextVar[OpenSpan | None] = ContextVar("workbench_innermost_span", default=None)
"""The span in which the current task runs; possibly closed by now, then its nearest open ancestor counts."""


class OpenSpan:
    """A step that has begun."""

    __slots__ = ("attributes", "error", "id", "is_open", "kind", "last", "name", "owner", "parent", "request", "start")

    def __init__(self, *, owner: Any, number: int, kind: str, name: str, parent: OpenSpan | None, start: float) -> None:
        self.owner = owner  # what the framework hands to begin and end alike; held, so that its identity stays unique
        self.id = f"s{number}"
        self.kind = kind
        self.name = name
        self.parent = parent
        self.start = start
        self.last = start
        self.request: Any = None
        self.error: str | None = None
        self.attributes: dict[str, Any] = {}
        self.is_open = True


class _Held(NamedTuple):
    """A step that has ended and whose event is about to come."""

    span: OpenSpan
    end: float
    response: Any


class Trace:
    """What happened in one session, turn by turn.

    `emit` gets each span when it has ended; None where nobody wants spans, only the sums of the turn. With `announce`
    it gets those that have begun too, without an end. Times are seconds since the trace was made.
    """

    def __init__(self, emit: Callable[[dict[str, Any]], None] | None, *, announce: bool = False) -> None:
        self._emit = emit
        self._announce = announce
        self._zero = time.perf_counter()
        self._count = 0
        self._open: dict[tuple[str, int], OpenSpan] = {}
        self._held: list[_Held] = []
        self.turn = 0
        self.inference_calls = 0
        self.usage: dict[str, int] = {}
        self.requests: dict[str, Any] = {}  # the first model request of each agent in this turn

    @property
    def wants_details(self) -> bool:
        """Whether requests and responses of spans are worth turning into JSON."""
        return self._emit is not None

    def begin_turn(self, turn: int) -> None:
        """Start over with the sums of a turn. Call it in the task that will run the agent."""
        self.turn = turn
        self.inference_calls = 0
        self.usage = {}
        self.requests = {}
        _INNERMOST.set(None)

    def end_turn(self) -> None:
        """Close what is still open, innermost first."""
        for span in reversed(list(self._open.values())):
            self._close(span, end=span.last)
        self._release(within=None)

    def begin(self, kind: str, name: str, *, owner: object, within: object = None) -> OpenSpan:
        """A step of `kind` begins: inside the agent's step of `within`, else inside the innermost open step here."""
        parent = self._open.get(("agent", id(within))) or self._enclosing()
        if parent is not None:
            self._release(within=parent)  # whatever came before it had its chance
        self._count += 1
        span = OpenSpan(owner=owner, number=self._count, kind=kind, name=name, parent=parent, start=self._now())
        self._open[(kind, id(owner))] = span
        if kind != "model":
            _INNERMOST.set(span)
        return span

    def announce(self, span: OpenSpan, *, request: Any = None) -> None:
        """Tell that a step has begun, with what went into it, where that is wanted."""
        if self._announce:
            self._tell(span, request=request)

    def find(self, kind: str, owner: object) -> OpenSpan | None:
        """The open step of `kind` that began with `owner`."""
        return self._open.get((kind, id(owner)))

    def open_spans(self, kind: str) -> Iterator[OpenSpan]:
        """The open steps of `kind`, the newest first."""
        return (span for span in reversed(list(self._open.values())) if span.kind == kind)

    def touch(self, span: OpenSpan) -> None:
        """Something happened inside the step just now."""
        now = self._now()
        inside: OpenSpan | None = span
        while inside is not None:
            inside.last = now
            inside = inside.parent

    def end(self, span: OpenSpan, *, response: Any = None, error: str | None = None) -> None:
        """The step ends now, with what came out of it."""
        self.touch(span)
        span.error = error or span.error
        self._close(span, end=span.last, response=response)

    def end_until_event(self, span: OpenSpan, *, response: Any = None, error: str | None = None) -> None:
        """The step ends now; it is told once `note_event` adds what became of it, or the step around it ends."""
        self.touch(span)
        span.error = error or span.error
        self._forget(span)
        self._held.append(_Held(span, end=span.last, response=response))

    def note_event(self, agent: str, invocation_id: str, attributes: dict[str, Any]) -> bool:
        """An event came of the oldest step of `agent` that is waiting for one. False where none is."""
        for held in self._held:
            known = held.span.attributes
            if (known.get("agent"), known.get("invocation_id")) == (agent, invocation_id):
                known.update(attributes)
                self._held.remove(held)
                self._tell_ended(held.span, end=held.end, response=held.response)
                return True
        return False

    def count_model_call(self, agent: str, request: Any, usage: Any) -> None:
        """A model answered `agent`."""
        self.inference_calls += 1
        self.requests.setdefault(agent, request)
        if usage is not None:
            add_usage(self.usage, usage)

    def _close(self, span: OpenSpan, *, end: float, response: Any = None) -> None:
        self._release(within=span)
        self._forget(span)
        self._tell_ended(span, end=end, response=response)

    def _forget(self, span: OpenSpan) -> None:
        self._open.pop((span.kind, id(span.owner)), None)
        span.is_open = False
        span.owner = None

    def _release(self, *, within: OpenSpan | None) -> None:
        """Tell of the steps directly inside that waited in vain for an event; None: of all that did."""
        for held in [held for held in self._held if within is None or held.span.parent is within]:
            self._held.remove(held)
            self._tell_ended(held.span, end=held.end, response=held.response)

    def _tell_ended(self, span: OpenSpan, *, end: float, response: Any) -> None:
        self._tell(span, request=span.request, end=round(end, 6), response=response)

    def _tell(self, span: OpenSpan, *, request: Any, end: float | None = None, response: Any = None) -> None:
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

    def _enclosing(self) -> OpenSpan | None:
        span = _INNERMOST.get()
        while span is not None and not span.is_open:
            span = span.parent
        return span

    def _now(self) -> float:
        return time.perf_counter() - self._zero
