"""Which spans belong to which turn of a conversation, and what they say of it.

An agent is told the trace of its conversation (`traceparent`, W3C Trace Context), with another span for each turn. What
it makes below that span is that turn's; what does not go on with the trace is the turn's in whose time it began.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..conventions import MOST, model_calls, span_of, without_secrets
from .reading import ForeignSpan, Told, read_json

if TYPE_CHECKING:
    from .receiver import Inbox

NOTES = "workbench.telemetry"
"""The attribute of the agent's span that says what of its spans could not be read, or never came."""

_NO_ARGUMENTS = "the spans of the agent tell no arguments of its calls (gen_ai.tool.call.arguments, as an object)"
_MOST_NOTES = 10
_EARLIER = 100_000_000  # nanoseconds by which the span around all may end before its answer is here
_SLACK = 1_000_000_000  # nanoseconds by which a clock may differ before it is taken for a wrong one


@dataclass
class TurnTraces:
    """What the spans of one turn say: themselves, and in the shape of an answer what was called and what it cost.

    `spans` are for the trace: without what is under names of secrets. `calls` and `responses` are those of tools, in
    the order in which they began, with all values, for they are judged; `usage` and `inference_calls` are None
    where no span tells of a model. `came`: there are spans of the turn. `missing` says why there are none, where an
    exporter was to send some or those of the answer cannot be read; `arguments_unknown` is said where there are calls,
    and none with arguments: most instrumentations leave them out unless they are told otherwise.
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


class Traces:
    """The spans of one conversation. `opened` is when it was, by the performance counter.

    `inbox` is where an exporter's spans arrive, for `wait_seconds` after each answer; None where there is none. An
    exporter that is known not to wait has sent all when nothing came for `settled_seconds`. `conceal` takes secrets out
    of what is told.
    """

    def __init__(
        self,
        *,
        opened: float,
        inbox: Inbox | None = None,
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
        self._turns: list[tuple[str, int]] = []  # the span of each turn, and when it began
        self._turn_of: dict[str, int] = {}  # by the ids of spans
        self._left: dict[str, ForeignSpan] = {}  # those that nobody was told of, by id
        self._told_ids: set[str] = set()
        self._shift = 0  # nanoseconds to add to the agent's times
        self._problems: list[str] = []
        if inbox is not None:
            inbox.belongs_to(self.trace_id)

    def begin(self) -> str:
        """A turn begins: the `traceparent` to give to the agent."""
        span_id = secrets.token_hex(8)
        self._turn_of[span_id] = len(self._turns)
        self._turns.append((span_id, time.time_ns()))
        return f"00-{self.trace_id}-{span_id}-01"

    def add(self, document: Any) -> None:
        """Take the spans that the answer of the newest turn holds, as OTLP in JSON."""
        told = read_json(document)
        for span in told.spans:
            self._turn_of.setdefault(span.span_id, len(self._turns) - 1)
        self._take(told)

    async def arrived(self) -> None:
        """Wait until an exporter has sent what the newest turn made, as long as that may take. It has just answered."""
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
            self._problems.append(f"no span came within {self._wait_seconds:g} s of the answer{self._inbox.others()}")

    def _has_some_of_turn(self) -> bool:
        """Whether any span of the newest turn came; those of earlier ones may come late."""
        newest = len(self._turns) - 1
        return any(self._find_turn(span, self._left)[0] == newest for span in self._left.values())

    def _has_whole_turn(self, answered: int) -> bool:
        """Whether the span came that is around all that the agent did: it ends with the answer, and is sent last."""
        around, began = self._turns[-1]
        outermost = [span for span in self._left.values() if span.parent_id == around]
        if not outermost:
            return False
        shift = _shift_into(began, answered, outermost, slack=_EARLIER)
        return any(span.end + shift >= answered - _EARLIER for span in outermost)

    def take(self, around: dict[str, Any]) -> TurnTraces:
        """What the newest turn has made so far, of which `around` is the agent's span."""
        told = self._told(within=(around["start"], around["end"]))
        found = TurnTraces(spans=[without_secrets(span) for span in told])
        found.notes, self._problems = self._conceal(list(dict.fromkeys(self._problems))[:_MOST_NOTES]), []
        by_id = {span["id"]: span for span in told}
        of_turn = [span for span in told if span["turn"] == around["turn"]]
        found.came = bool(of_turn)
        tools = [span for span in sorted(of_turn, key=lambda span: span["start"]) if _is_outer_call(span, by_id)]
        without = [span["name"] for span in tools if not isinstance(span["request"], dict)]
        untold = sorted(set(without))
        if tools and len(without) == len(tools):
            found.arguments_unknown = _NO_ARGUMENTS
        for span in tools:
            call_id = span["attributes"].get("function_call_id")
            named = {"name": span["name"], **({"id": str(call_id)} if call_id else {})}
            found.calls.append({**named, "args": span["request"] if isinstance(span["request"], dict) else None})
            if span["response"] is not None:
                response = span["response"]
                result = response if isinstance(response, dict) else {"result": response}
                found.responses.append({"id": None, **named, "response": result})
        if untold:
            names = ", ".join(untold)
            found.notes.append(f"arguments are not told of {names}, or are no object (gen_ai.tool.call.arguments)")
        found.inference_calls, found.usage = model_calls(of_turn)
        if not of_turn and (self._inbox is not None or found.notes):
            found.missing = "; ".join(found.notes) or "no span came"
        return found

    def rest(self) -> list[dict[str, Any]]:
        """What has come since: spans of any turn."""
        if self._inbox is not None:
            self._take(self._inbox.take())
        return [without_secrets(span) for span in self._told()]

    def close(self) -> None:
        """Nobody waits for more."""
        if self._inbox is not None:
            self._inbox.close()

    def _take(self, told: Told) -> None:
        new = [span for span in told.spans if span.span_id not in self._told_ids]  # exporters may send again
        room = MOST - len(self._left)
        self._left.update((span.span_id, span) for span in new[:room])
        self._problems += told.problems
        if len(new) > room:
            self._problems.append(f"of more than {MOST:,} spans of a turn the rest was left out")

    def _told(self, *, within: tuple[float, float] | None = None) -> list[dict[str, Any]]:
        """The spans that came since, as ours; `within` is the time of the newest turn, where it has just ended."""
        came, self._left = _without_circles(self._left), {}
        self._told_ids.update(came)
        for span in came.values():
            turn, path = self._find_turn(span, came)
            self._turn_of.update(dict.fromkeys(path, turn))
        newest = [span for span in came.values() if self._turn_of[span.span_id] == len(self._turns) - 1]
        if within is not None and newest:
            self._look_at_clock(newest, within)
        told: list[dict[str, Any]] = self._conceal([self._ours(span) for span in came.values()])
        return told

    def _ours(self, span: ForeignSpan) -> dict[str, Any]:
        turn = self._turn_of[span.span_id]
        return span_of(
            dict(span.attributes),
            span_id=f"otel-{span.span_id}",
            parent_id=f"otel-{span.parent_id}" if span.parent_id in self._told_ids else f"agent-{turn}",
            turn=turn,
            name=span.name,
            start=self._seconds(span.start + self._shift),
            end=self._seconds(max(span.start, span.end) + self._shift),
            error=span.error,
        )

    def _find_turn(self, span: ForeignSpan, came: dict[str, ForeignSpan]) -> tuple[int, set[str]]:
        """The turn of a span, and the ids on the way to what tells it: what it is below, else when it began."""
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

    def _look_at_clock(self, newest: list[ForeignSpan], within: tuple[float, float]) -> None:
        """Find what to add to times of a clock that is wrong."""
        begin, end = (self._zero + int(seconds * 1e9) for seconds in within)
        shift = _shift_into(begin, end, newest, slack=_SLACK)
        if shift:
            self._shift = shift
            self._problems.append(f"the agent's clock differs: its times are moved by {shift / 1e9:+.3f} s")

    def _seconds(self, nanoseconds: int) -> float:
        return max(0.0, round((nanoseconds - self._zero) / 1e9, 6))


def _shift_into(begin: int, end: int, spans: list[ForeignSpan], *, slack: int) -> int:
    """What to add to the times of spans of a turn: 0 where they lie in it, as a right clock has them. What a wrong one
    measured is to lie in the middle."""
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    if begin - slack <= first and last <= end + slack:
        return 0
    return (begin + end) // 2 - (first + last) // 2


def _without_circles(spans: dict[str, ForeignSpan]) -> dict[str, ForeignSpan]:
    """The spans, of which none is below itself: whoever follows parents upwards must come to an end."""
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


def _is_outer_call(span: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> bool:
    """Whether it is a call of a tool, and not the same one told from inside, by a client that a framework uses."""
    around = by_id.get(span["parent_id"])
    is_same = around is not None and around["kind"] == "tool" and around["name"] == span["name"]
    return span["kind"] == "tool" and not is_same
