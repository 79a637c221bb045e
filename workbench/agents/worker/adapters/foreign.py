"""Sessions with agents that run in no process of ours, and tell what they did only when a turn is over.

What asks them is in `http` and `command`; what becomes of their answers is the same.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from ..answers import read_answer
from ..reported import agent_span, call_spans, turn_result
from ..values import describe, lenient
from . import base


class ForeignSession(base.Session):
    """One conversation with such an agent. `target` is as the adapter got it, `request` as `Adapter.open` got it."""

    def __init__(self, target: dict[str, Any], request: dict[str, Any], emit_span: base.EmitSpan) -> None:
        self._target = target
        self._collect_spans: bool = request["collect_spans"]
        self._announce_spans: bool = request.get("announce_spans", False)
        self._emit_span = emit_span
        self._opened = time.perf_counter()
        self.app_name: str = request["app_name"]
        self.user_id: str = request["user_id"]
        self.session_id: str = request["session_id"] or uuid.uuid4().hex
        self._state: dict[str, Any] = request["state"]
        self.history: list[dict[str, Any]] = []
        """Earlier turns, each with `prompt`, `response` and `predicted_trajectory`."""

    async def ask(self, content: dict[str, Any], prompt: str, index: int) -> dict[str, Any]:
        """Give the agent one user content, of which `prompt` is the text.

        Returns what `answers.read_answer` does. Beside that it may have `spans` (what happened below the agent's span,
        in place of a span for each call) and `attributes` of the agent's span.
        """
        raise NotImplementedError

    async def turn(self, content: dict[str, Any], index: int) -> dict[str, Any]:
        """See `base.Session.turn`."""
        prompt = "\n".join(part["text"] for part in content.get("parts") or () if part.get("text"))
        start = self.now()
        if self._announce_spans:
            self._emit_span(self._span(index, prompt, start, None))
        try:
            answer = await self.ask(content, prompt, index)
        except BaseException as error:  # a turn that is cancelled included: its span says so
            if self._collect_spans:
                message = str(error) if isinstance(error, base.AgentFault) else type(error).__qualname__
                self._emit_span({**self._span(index, prompt, start, self.now()), "error": message})
            raise
        end = self.now()
        if answer["state"] is not None:
            self._state.update(answer["state"])
        self.history.append(
            {"prompt": prompt, "response": answer["response"], "predicted_trajectory": answer["predicted_trajectory"]}
        )
        agent = self._span(index, prompt, start, end, answer["response"])
        agent["attributes"] = answer.get("attributes", {})
        below = answer.get("spans")
        if below is None:
            below = call_spans(agent, answer["tool_uses"], answer["tool_responses"])
        spans = [agent, *below] if self._collect_spans else []
        return turn_result(content, answer, duration=end - start, spans=spans)

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
        return {"final_state": self.state()}

    def _span(
        self, index: int, prompt: str, start: float, end: float | None, response: str | None = None
    ) -> dict[str, Any]:
        return agent_span(index, self._target["name"], start=start, end=end, request=prompt, response=response)


def read_told(told: dict[str, Any], *, how: str) -> dict[str, Any]:
    """An answer as `answers.read_answer` gives it. Raises AgentFault; `how` is what the agent did with it."""
    response = told.get("response")
    if response is None and not told.get("predicted_trajectory"):
        raise base.AgentFault(f"{how} with neither a response nor calls of tools")
    if response is not None and not isinstance(response, str):
        raise base.AgentFault(f"{how} with {in_json(response)} as response, expected text")
    try:
        return read_answer(told)
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
