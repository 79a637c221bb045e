"""Sessions with agents outside our processes, which report what they did only at the end of a turn."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..otlp import NOTES, Traces, TurnTraces
from ..responses import (
    add_reported_calls,
    make_agent_span,
    make_call_spans,
    make_turn_result,
    names_secret,
    read_answer,
    read_prompt,
    replace_cut_value,
)
from ..wire import describe, make_json_safe
from . import base
from .base import LoadError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Match

    from ..otlp_receiver import Receiver, SpanInbox


SPANS = "resourceSpans"
"""The key of an answer with OpenTelemetry spans, as in OTLP."""

WAIT_SECONDS = 2.0
"""Default time to wait for spans after an answer."""


class ExternalSession(base.Session):
    """One conversation with such an agent. `target` is the adapter's, `request` that of `Adapter.open`.

    `traces` are the spans that the agent reports in its answers or to an exporter.
    """

    def __init__(
        self,
        target: dict[str, Any],
        request: dict[str, Any],
        emit_span: base.EmitSpan,
        *,
        make_traces: Callable[[float], Traces] = lambda opened: Traces(opened=opened),
    ) -> None:
        """`make_traces` creates the traces from the opening time by the performance counter."""
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
        """Give the agent one user message with the text `prompt`.

        Return the dict of `read_answer` or `read_reported_answer`. It may also have `spans` (the spans below the
        agent's span, instead of one for each call), `attributes` (of the agent's span) and `calls_unknown_by_design`
        (see `make_turn_result`). `traceparent` identifies the trace and the turn.
        """
        raise NotImplementedError

    async def turn(self, content: dict[str, Any], index: int) -> dict[str, Any]:
        prompt = read_prompt(content)
        start = self.now()
        if self._announce_spans:
            self._emit_span(self._build_span(index, prompt, start, None))
        try:
            answer = await self.ask(content, prompt, index, self.traces.begin())
            end = self.now()
            agent = self._build_span(index, prompt, start, end, answer["response"])
            heard = await self._add_traces(answer, agent)
        except BaseException as error:  # including cancellation, which its span reports
            self.traces.close()
            if self._collect_spans:
                message = str(error) if isinstance(error, base.AgentFault) else type(error).__qualname__
                self._emit_span({**self._build_span(index, prompt, start, self.now()), "error": message})
            raise
        if answer["state"] is not None:
            self._state.update(answer["state"])
        self.history.append(
            {"prompt": prompt, "response": answer["response"], "predicted_trajectory": answer["predicted_trajectory"]}
        )
        agent["attributes"] = {**answer.get("attributes", {}), **({NOTES: heard.notes} if heard.notes else {})}
        below = answer.get("spans")
        if below is None:
            below = make_call_spans(agent, answer["tool_uses"], answer["tool_responses"])
        spans = [agent, *_drop_duplicate_calls(below, heard.spans), *heard.spans] if self._collect_spans else []
        return make_turn_result(content, answer, duration=end - start, spans=spans)

    async def _add_traces(self, answer: dict[str, Any], agent: dict[str, Any]) -> TurnTraces:
        """Return the spans of the turn that was just answered, and fill gaps of the answer from them."""
        if answer.get(SPANS) is not None:
            self.traces.add(answer[SPANS])
        else:
            await self.traces.wait_for_spans()
        heard = self.traces.take(agent)
        reports_calls = answer.get("reports_calls", True)
        if reports_calls or heard.came or heard.missing is not None:
            answer["calls_unknown_by_design"] = None
        if not reports_calls:
            add_reported_calls(answer, heard, missing=heard.missing)
        answer["usage"] = answer["usage"] or heard.usage
        answer["inference_calls"] = heard.inference_calls
        return heard

    def now(self) -> float:
        """Return the seconds since the session was opened."""
        return time.perf_counter() - self._opened

    def state(self) -> dict[str, Any]:
        plain: dict[str, Any] = make_json_safe(self._state)
        return plain

    def describe(self) -> dict[str, Any]:
        kind, location = self._target["kind"], self._target["location"]
        return {
            "agents": [{"name": self._target["name"], "type": kind}],
            "unknown": [
                f"its instructions and tools: it runs elsewhere ({kind} at {location}) and returns only answers"
            ],
        }

    async def close(self) -> dict[str, Any]:
        rest = self.traces.take_rest()
        self.traces.close()
        if self._collect_spans:
            for span in rest:
                self._emit_span(span)
        return {"final_state": self.state()}

    def _build_span(
        self, index: int, prompt: str, start: float, end: float | None, response: str | None = None
    ) -> dict[str, Any]:
        return make_agent_span(index, self._target["name"], start=start, end=end, request=prompt, response=response)


def create_receiver(target: dict[str, Any], *, port: int = 0) -> Receiver:
    """Create the receiver for spans of a target's agent. Raises LoadError if a library is missing."""
    try:
        from ..otlp_receiver import Receiver
    except ModuleNotFoundError as error:
        raise base.LoadError(
            f"{error.name} is not installed for the interpreter of target {target['name']!r}: install it there, or "
            "remove its settings for OpenTelemetry (otlp)"
        ) from None
    return Receiver(port)


def open_inbox(receiver: Receiver, target: dict[str, Any]) -> SpanInbox:
    """Open an inbox for the spans of one conversation. Raises AgentFault if the port is in use."""
    try:
        return receiver.inbox()
    except OSError as error:
        raise base.AgentFault(
            f"targets.{target['name']}: cannot listen for spans on port {receiver.port} ({error.strerror}): another "
            "run, or a collector, may listen there",
            kind="infrastructure",
        ) from None


def read_reported_answer(answer: dict[str, Any], *, how: str) -> dict[str, Any]:
    """Read an answer like `read_answer`, with `resourceSpans` (or None) and `reports_calls`: whether it reports tool
    calls.

    Raises AgentFault; `how` is the verb of its message.
    """
    response = answer.get("response")
    if response is None and not answer.get("predicted_trajectory"):
        raise base.AgentFault(f"{how} with neither a response nor tool calls")
    if response is not None and not isinstance(response, str):
        raise base.AgentFault(f"{how} with {describe_json(response)} as response, expected text")
    spans, reports_calls = answer.get(SPANS), answer.get("predicted_trajectory") is not None
    try:
        return {**read_answer(answer), SPANS: spans, "reports_calls": reports_calls}
    except base.AgentFault as error:
        raise base.AgentFault(f"{how} with an invalid value: {error}") from None


def describe_json(value: Any) -> str:
    """Describe a JSON value in the words of JSON."""
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


def _drop_duplicate_calls(spans: list[dict[str, Any]], heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop spans of tool calls that other spans report too."""
    names = [span["name"] for span in heard if span["kind"] == "tool"]
    left = []
    for span in spans:
        if span["kind"] == "tool" and span["name"] in names:
            names.remove(span["name"])
        else:
            left.append(span)
    return left


# Variables in settings: looked up late, never shown.

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PARAMETER = re.compile(r"[?&]([^?&=]+)=[^&]*$")  # of a URL, up to a variable in it
_SHORTEST_SECRET = 8  # characters: shorter values occur in other words by chance


class Variables:
    """Replaces `${NAME}` in the settings of one target, and removes the values from texts that are shown or stored."""

    def __init__(self, target: dict[str, Any]) -> None:
        self._target = target
        self._values: dict[str, str] = {}  # the replacement of each value
        self._secrets: set[str] = set()

    def fill(self, text: str, *, key: str) -> str:
        """Replace names by values; `key` is the place in the settings. Raises LoadError."""

        def resolve(match: Match[str]) -> str:
            value = os.environ.get(match[1])
            if not value:
                raise self._make_error(key, f"the environment variable {match[1]} is not set")
            self._values[value] = match[0]
            parameter = _PARAMETER.search(text[: match.start()])
            names = (match[1], key.rpartition(".")[2], parameter[1] if parameter else "")
            if any(names_secret(name) for name in names):
                self._secrets.add(value)
            return value

        filled = _VARIABLE.sub(resolve, text)
        if not filled.isprintable():
            raise self._make_error(key, "a variable in it holds a line break or another control character")
        return filled

    def headers(self) -> dict[str, str]:
        """Return the headers of the target, with values filled in. Raises LoadError."""
        headers: dict[str, str] = self._target["options"].get("headers", {})
        filled = {
            name: self.fill(value, key=f"{self._target['kind']}.headers.{name}") for name, value in headers.items()
        }
        for name, value in filled.items():
            if names_secret(name):
                words = value.split()  # such as Bearer and a token
                self._secrets.update(words)
                for word in words:
                    self._values.setdefault(word, "[redacted]")
        return filled

    def conceal(self, text: str) -> str:
        """Replace values in the text of a failure by `${NAME}`, even if the text was cut within a value."""
        text = self._replace_values(self._values, text)
        for value in self._values:
            if len(value) >= _SHORTEST_SECRET:
                text = replace_cut_value(text, value, self._values[value])
        return text

    def conceal_secrets(self, value: Any) -> Any:
        """Replace secrets in the texts of a judged JSON value by `${NAME}`.

        The name of the variable, header or parameter decides what is a secret: other values may be part of a correct
        answer.
        """
        if isinstance(value, str):
            return self._replace_values(self._secrets, value)
        if isinstance(value, dict):
            return {key: self.conceal_secrets(item) for key, item in value.items()}
        return [self.conceal_secrets(item) for item in value] if isinstance(value, list) else value

    def _replace_values(self, values: Iterable[str], text: str) -> str:
        for value in sorted(values, key=len, reverse=True):  # one may contain another
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, self._values[value])
        return text

    def _make_error(self, key: str, message: str) -> LoadError:
        return LoadError(f"targets.{self._target['name']}.{key}: {message}")
