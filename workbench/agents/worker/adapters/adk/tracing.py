"""The spans of one session: opened and closed as the framework reports its steps, told as dictionaries.

Knows nothing of google-adk: `plugin.py` translates its callbacks into the calls of `Trace`. Not every step that begins
is seen to end (an agent that hands over is left without a word, a callback answers in place of a model): such spans are
closed with the turn, at the time of the last thing that happened inside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from .conversion import add_usage

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
