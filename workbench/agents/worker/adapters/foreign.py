"""Sessions with agents that run in no process of ours, and tell what they did only when a turn is over.

What asks them is in `http` and `command`; what becomes of their answers is the same.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..otlp.traces import NOTES, Traces, TurnTraces
from ..responses import agent_span, call_spans, read_answer, turn_result
from ..wire import describe, lenient
from . import base

if TYPE_CHECKING:
    from ..otlp.receiver import Inbox, Receiver

SPANS = "resourceSpans"
"""The key of an answer under which agents tell of their spans, as OTLP has them."""

WAIT_SECONDS = 2.0
"""How long spans are waited for after an answer where the settings say nothing of it."""


class ForeignSession(base.Session):
    """One conversation with such an agent. `target` is as the adapter got it, `request` as `Adapter.open` got it.

    `traces` are the spans that the agent tells of, which it may do in its answers or to an exporter.
    """

    def __init__(
        self,
        target: dict[str, Any],
        request: dict[str, Any],
        emit_span: base.EmitSpan,
        *,
        make_traces: Callable[[float], Traces] = lambda opened: Traces(opened=opened),
    ) -> None:
        """`make_traces` makes its traces of when it was opened, by the performance counter."""
        self._target = target
        self._collect_spans: bool = request["collect_spans"]
        self._announce_spans: bool = request.get("announce_spans", False)
        self._emit_span = emit_span
        self._opened = time.perf_counter()
        self.traces = make_traces(self._opened)
        self.app_name: str = request["app_name"]
        self.user_id: str = request["user_id"]
        self.session_id: str = request["session_id"] or uuid.uuid4().hex
        self._state: dict[str, Any] = request["state"]
        self.history: list[dict[str, Any]] = []
        """Earlier turns, each with `prompt`, `response` and `predicted_trajectory`."""

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:
        """Give the agent one user content, of which `prompt` is the text.

        Returns what `answers.read_answer` or `read_told` does. Beside that it may have `spans` (what happened below the
        agent's span, in place of a span for each call), `attributes` of the agent's span, and `calls_untold`, see
        `reported.turn_result`. `traceparent` is what tells the agent of the trace.
        """
        raise NotImplementedError

    async def turn(self, content: dict[str, Any], index: int) -> dict[str, Any]:
        """See `base.Session.turn`."""
        prompt = "\n".join(part["text"] for part in content.get("parts") or () if part.get("text"))
        start = self.now()
        if self._announce_spans:
            self._emit_span(self._span(index, prompt, start, None))
        try:
            answer = await self.ask(content, prompt, index, self.traces.begin())
            end = self.now()
            agent = self._span(index, prompt, start, end, answer["response"])
            heard = await self._heard(answer, agent)
        except BaseException as error:  # a turn that is cancelled included: its span says so
            self.traces.close()
            if self._collect_spans:
                message = str(error) if isinstance(error, base.AgentFault) else type(error).__qualname__
                self._emit_span({**self._span(index, prompt, start, self.now()), "error": message})
            raise
        if answer["state"] is not None:
            self._state.update(answer["state"])
        self.history.append(
            {"prompt": prompt, "response": answer["response"], "predicted_trajectory": answer["predicted_trajectory"]}
        )
        agent["attributes"] = {**answer.get("attributes", {}), **({NOTES: heard.notes} if heard.notes else {})}
        below = answer.get("spans")
        if below is None:
            below = call_spans(agent, answer["tool_uses"], answer["tool_responses"])
        spans = [agent, *_unheard(below, heard.spans), *heard.spans] if self._collect_spans else []
        return turn_result(content, answer, duration=end - start, spans=spans)

    async def _heard(self, answer: dict[str, Any], agent: dict[str, Any]) -> TurnTraces:
        """The spans of the turn that has just been answered; what the answer leaves out is taken from them."""
        if answer.get(SPANS) is not None:
            self.traces.add(answer[SPANS])
        else:
            await self.traces.arrived()
        heard = self.traces.take(agent)
        tells_calls = answer.get("tells_calls", True)
        if tells_calls or heard.came or heard.missing is not None:
            answer["calls_untold"] = None
        if not tells_calls:
            answer["tool_uses"], answer["tool_responses"] = heard.calls, answer["tool_responses"] or heard.responses
            answer["predicted_trajectory"] = [
                {"tool_name": call["name"], "tool_input": call["args"]} for call in heard.calls
            ]
            answer["calls_unknown"] = answer.get("calls_unknown") or heard.missing
            answer["arguments_unknown"] = heard.arguments_unknown
        answer["usage"] = answer["usage"] or heard.usage
        answer["inference_calls"] = heard.inference_calls
        return heard

    def now(self) -> float:
        """Seconds since the session was opened."""
        return time.perf_counter() - self._opened

    def state(self) -> dict[str, Any]:
        """See `base.Session.state`."""
        plain: dict[str, Any] = lenient(self._state)
        return plain

    def describe(self) -> dict[str, Any]:
        """See `base.Session.describe`."""
        kind, location = self._target["kind"], self._target["location"]
        return {
            "agents": [{"name": self._target["name"], "type": kind}],
            "untold": [
                f"what it is and which tools it has: it is reached as {kind} at {location}, and tells only answers"
            ],
        }

    async def close(self) -> dict[str, Any]:
        """See `base.Session.close`."""
        rest = self.traces.rest()
        self.traces.close()
        if self._collect_spans:
            for span in rest:
                self._emit_span(span)
        return {"final_state": self.state()}

    def _span(
        self, index: int, prompt: str, start: float, end: float | None, response: str | None = None
    ) -> dict[str, Any]:
        return agent_span(index, self._target["name"], start=start, end=end, request=prompt, response=response)


def receiver_for(target: dict[str, Any], *, port: int = 0) -> Receiver:
    """What listens for spans of a target's agent. Raises LoadError where it cannot."""
    try:
        from ..otlp.receiver import Receiver
    except ModuleNotFoundError as error:
        raise base.LoadError(
            f"{error.name} is not installed for the interpreter of target {target['name']!r}: install it there, or "
            "leave out what is said of OpenTelemetry (otlp)"
        ) from None
    return Receiver(port)


def open_inbox(receiver: Receiver, target: dict[str, Any]) -> Inbox:
    """A place for the spans of one conversation. Raises AgentFault where the port cannot be listened on."""
    try:
        return receiver.inbox()
    except OSError as error:
        raise base.AgentFault(
            f"targets.{target['name']}: cannot listen for spans on port {receiver.port} ({error.strerror}): another "
            "run, or a collector, may listen there",
            kind="infrastructure",
        ) from None


def read_told(told: dict[str, Any], *, how: str) -> dict[str, Any]:
    """An answer as `answers.read_answer` gives it, with `resourceSpans` (None where it has none) and `tells_calls`:
    whether it says which tools were called. Raises AgentFault; `how` is what the agent did with it."""
    response = told.get("response")
    if response is None and not told.get("predicted_trajectory"):
        raise base.AgentFault(f"{how} with neither a response nor calls of tools")
    if response is not None and not isinstance(response, str):
        raise base.AgentFault(f"{how} with {in_json(response)} as response, expected text")
    spans, tells_calls = told.get(SPANS), told.get("predicted_trajectory") is not None
    try:
        return {**read_answer(told), SPANS: spans, "tells_calls": tells_calls}
    except base.AgentFault as error:
        raise base.AgentFault(f"{how} with what cannot be taken: {error}") from None


def in_json(value: Any) -> str:
    """What a JSON value is, in the words of JSON."""
    if isinstance(value, dict):
        keys = ", ".join(list(value)[:12])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the number {str(value)[:40]}"
    return "null" if value is None else describe(value)


def _unheard(told: list[dict[str, Any]], heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the spans that were told some other way those that are not the same call of a tool as one that was heard."""
    names = [span["name"] for span in heard if span["kind"] == "tool"]
    left = []
    for span in told:
        if span["kind"] == "tool" and span["name"] in names:
            names.remove(span["name"])
        else:
            left.append(span)
    return left
