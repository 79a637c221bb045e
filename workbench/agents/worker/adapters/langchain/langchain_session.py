"""One conversation with a LangChain object."""

from __future__ import annotations

import time
import uuid
from collections import deque
from typing import Any

from langchain_core.messages import HumanMessage

from ...conventions import model_calls
from ...limits import MOST_STEPS, why_cut
from ...responses import turn_result
from ...telemetry import begin_turn
from ..base import AgentFault, EmitSpan, Session
from .langchain_messages import Form, is_graph, read_result, usage_of
from .langchain_tracing import Watch, args_text, description_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .langchain_tracing import ToolCalls


_NO_ID, _ANY_ID = object(), object()


class LangchainSession(Session):
    """A runnable with a thread of its own: a checkpointer keeps what it remembers under an id that no other has."""

    def __init__(
        self,
        *,
        name: str,
        runnable: Any,
        form: Form,
        request: dict[str, Any],
        emit: EmitSpan,
        calls: ToolCalls | None = None,
    ) -> None:
        """`calls`: where the engine wants to hear of calls of tools before they are made."""
        self._name = name
        self._runnable = runnable
        self._form = form
        self._calls = calls
        self._known: set[str] = set()
        self._opened = time.perf_counter()
        self._emit = emit
        self._collect_spans: bool = request.get("collect_spans", True)
        self._watch = Watch(
            emit if self._collect_spans else None,
            announce=request.get("announce_spans", False),
            name=name,
        )
        thread = str(uuid.uuid4())
        self._config = {
            "callbacks": [self._watch],
            "configurable": {"thread_id": thread, "session_id": thread, "user_id": request.get("user_id") or "user"},
        }

    async def turn(self, content: dict[str, Any], index: int) -> dict[str, Any]:
        """Run the agent on one user content. See `Session.turn`."""
        said = HumanMessage(content=_blocks(content), id=str(uuid.uuid4()))
        given = self._form.given(said, _text(content))
        self._watch.begin_turn(index)
        if self._calls is not None:
            self._calls.enter(self._watch)
        hearing = begin_turn(index, around=None, opened=self._opened)
        started = time.perf_counter()
        try:
            result = await self._form.run(given, self._config)
        finally:
            duration = time.perf_counter() - started
            self._watch.end_turn()
            heard = [] if hearing is None else self._unseen(hearing.end())
            if self._collect_spans:
                for span in heard:
                    self._emit(span)
        answer, messages = read_result(result, said=said, known=self._known, is_graph=is_graph(self._runnable))
        self._form.heard(messages, result)
        self._known.update(str(item.id) for item in messages if getattr(item, "id", None))
        _add_tools_that_ran(answer, self._watch.tools)
        if self._watch.tools_ran > MOST_STEPS:
            answer["calls_unknown"] = why_cut(max(self._watch.tools_ran, len(answer["tool_uses"])))
        # A model that was called past LangChain is not seen: how many calls there were is then not known.
        calls, usage = (self._watch.model_calls, self._watch.usage) if self._watch.model_calls else model_calls(heard)
        answer["inference_calls"] = calls
        answer["usage"] = usage or usage_of(messages) or None
        return turn_result(content, answer, duration=duration, spans=[])

    def _unseen(self, heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The spans of OpenTelemetry of which callbacks told nothing: calls of models or tools past LangChain."""
        seen = {"model": self._watch.model_calls, "tool": len(self._watch.tools)}
        left = [span for span in heard if seen.get(span["kind"]) == 0]
        ids = {span["id"] for span in left}
        for span in left:
            if span["parent_id"] not in ids:
                span["parent_id"] = self._watch.outermost
        return left

    async def state(self) -> dict[str, Any] | None:
        """The values of a graph without its messages; None for anything else. See `Session.state`."""
        return await self._form.state(self._config)

    def describe(self) -> dict[str, Any]:
        """See `Session.describe`."""
        return description_of(self._runnable, name=self._name)

    async def close(self) -> dict[str, Any]:
        """See `Session.close`."""
        if self._calls is not None:
            self._calls.close()
        return {"final_state": await self.state()}


def _add_tools_that_ran(answer: dict[str, Any], ran: list[dict[str, Any]]) -> None:
    """Add tools that ran and that nothing the agent gave tells of: called by a node, or by an agent inside a node.

    They stand where they ran: what was called before them comes first.
    """
    reported: list[dict[str, Any]] = answer["tool_uses"]
    left = _Calls(reported)
    ran_before: dict[int, list[dict[str, Any]]] = {}  # by the place of the call that came after them
    place = 0
    for tool in ran:
        if tool["is_retry"]:
            continue
        found = left.take(tool)
        if found is not None:
            place = max(place, found + 1)
            continue
        use = {"name": tool["name"], "args": tool["args"]}
        ran_before.setdefault(place, []).append(use if tool["id"] is None else {"id": tool["id"], **use})
        if tool["response"] is not None:
            told_response = {"id": tool["id"], "name": tool["name"], "response": tool["response"]}
            answer["tool_responses"].append(told_response)
    if ran_before:
        places = range(len(reported) + 1)
        answer["tool_uses"] = [use for at in places for use in (*ran_before.get(at, ()), *reported[at : at + 1])]


class _Calls:
    """Calls that a model reported, each to be found once: by name, and by id where both sides have one.

    Ids may be used again by another agent below, and names by the same one: a call with the same arguments comes first.
    """

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self._taken: set[int] = set()
        self._places: dict[tuple[str, Any, str | None], deque[int]] = {}
        for place, call in enumerate(calls):
            for call_id in (call.get("id") or _NO_ID, _ANY_ID):
                for args in (args_text(call["args"]), None):
                    self._places.setdefault((call["name"], call_id, args), deque()).append(place)

    def take(self, tool: dict[str, Any]) -> int | None:
        """The place of the first call that a tool ran for and that was not taken before; None if there is none."""
        ids = (tool["id"], _NO_ID) if tool["id"] else (_ANY_ID,)
        for args in (args_text(tool["args"]), None):
            places = [self._first((tool["name"], call_id, args)) for call_id in ids]
            found = min((place for place in places if place is not None), default=None)
            if found is not None:
                self._taken.add(found)
                return found
        return None

    def _first(self, key: tuple[str, Any, str | None]) -> int | None:
        queue = self._places.get(key, ())
        while queue and queue[0] in self._taken:
            queue.popleft()
        return queue[0] if queue else None


def _text(content: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in content.get("parts") or () if part.get("text"))


def _blocks(content: dict[str, Any]) -> Any:
    """A user content as that of a message: its text, or blocks where it holds data too. Raises AgentFault."""
    parts = [part for part in content.get("parts") or () if part]
    if all(part.get("text") is not None for part in parts):
        return _text(content)
    return [_block(part) for part in parts]


def _block(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("text") is not None:
        return {"type": "text", "text": part["text"]}
    data = part.get("inline_data") or {}
    kind = str(data.get("mime_type") or "")
    if not data.get("data"):
        raise AgentFault(
            f"the user content has a part with {', '.join(part)}, expected text or data", kind="unsupported"
        )
    family = kind.partition("/")[0]
    encoded = data["data"].replace("-", "+").replace("_", "/")  # ADK writes the alphabet of URLs
    return {"type": family if family in ("image", "audio", "video") else "file", "base64": encoded, "mime_type": kind}
