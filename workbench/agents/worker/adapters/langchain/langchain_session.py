"""Sessions with LangChain objects."""

from __future__ import annotations

import time
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import HumanMessage

from ...responses import make_turn_result, read_prompt
from ...telemetry import begin_turn, count_model_calls
from ..base import MOST_STEPS, AgentFault, EmitSpan, Session, explain_truncation
from .langchain_messages import Known, RunnableForm, WaitingCalls, is_graph, read_result, sum_usage
from .langchain_tracing import CallbackTracer, describe_agent, format_args, list_seen_tools, list_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .langchain_tracing import LangchainToolCalls


_NO_ID, _ANY_ID = object(), object()


class LangchainSession(Session):
    """A runnable with its own thread id, under which a checkpointer stores its state."""

    def __init__(
        self,
        *,
        name: str,
        runnable: Any,
        form: RunnableForm,
        request: dict[str, Any],
        emit: EmitSpan,
        calls: LangchainToolCalls | None = None,
        roots: Sequence[str] = (),
    ) -> None:
        """`calls` intercepts tool calls, if set. `roots` are the folders of the agent's modules."""
        self._name = name
        self._runnable = runnable
        self._form = form
        self._calls = calls
        self._known = Known()
        self._roots = roots
        self._waits = False  # the last turn ended at an interrupt
        self._waiting = WaitingCalls()
        self._inner: set[Any] = set()  # ids of calls that wait in subgraphs
        self._was_asked = False  # the calls wait for an answer, which may refuse them; at a breakpoint nothing can
        self._opened = time.perf_counter()
        self._emit = emit
        self._collect_spans: bool = request.get("collect_spans", True)
        self._watch = CallbackTracer(
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
        from ...logged_errors import collect_logged_errors

        logged = collect_logged_errors()
        said = HumanMessage(content=_convert_content(content), id=str(uuid.uuid4()))
        given = self._form.build_input(said, read_prompt(content))
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
            heard = [] if hearing is None else self._select_unseen(hearing.end())
            if self._collect_spans:
                for span in heard:
                    self._emit(span)
        pending = await self._form.find_pending(result, self._config)
        answer, messages = read_result(
            result, said=said, known=self._known, is_graph=is_graph(self._runnable), pending=pending
        )
        self._form.add_turn(messages, result)
        self._known.add_turn(messages, result)
        self._count_calls(answer, messages, result, is_waiting=bool(pending))
        if self._watch.tools_ran > MOST_STEPS:
            answer["calls_unknown"] = explain_truncation(max(self._watch.tools_ran, len(answer["tool_uses"])))
        # Calls outside LangChain are invisible, so the number of model calls is then unknown.
        calls, usage = (
            (self._watch.model_calls, self._watch.usage) if self._watch.model_calls else count_model_calls(heard)
        )
        answer["inference_calls"] = calls
        answer["usage"] = usage or sum_usage(messages) or None
        answer["notes"] = logged.list_notes()
        return make_turn_result(content, answer, duration=duration, spans=[])

    def _count_calls(self, answer: dict[str, Any], messages: list[Any], result: Any, *, is_waiting: bool) -> None:
        """Set the calls of a turn to those that were made in it.

        Calls that a model asked for before an interrupt wait. They count in the turn in which their tool runs. If it is
        not a tool of LangChain, it is unknown whether it ran: its result may be the answer to a refused call.
        """
        if not is_waiting and not self._waits:
            _add_tools_that_ran(answer, self._watch.tools)
            return
        was_waiting, self._waits = self._waits, is_waiting
        new = answer["tool_uses"]
        again = self._waiting.update(messages, result) | self._inner
        earlier = self._waiting.calls
        resumed = {id(use) for use in (*earlier, *(use for use in new if use.get("id") in again))}
        answer["tool_uses"] = [*earlier, *new]
        ran = _add_tools_that_ran(answer, [tool for tool in self._watch.tools if not tool["is_waiting"]])
        results = {item["id"]: item["response"] for item in answer["tool_responses"]}
        tools = {tool.name: tool for tool in list_tools(self._runnable)}
        seen = tools.keys() | list_seen_tools(self._roots)
        asked = {call.get("id") for item in messages for call in getattr(item, "tool_calls", None) or ()}
        made, waiting, unclear = [], [], []
        for use in answer["tool_uses"]:
            tool, response, is_resumed = ran.get(id(use)), results.get(use.get("id")), id(use) in resumed
            if tool is not None:
                made.append(_correct_args(use, tool, tools.get(use["name"])))
                if response is None and tool["response"] is not None:
                    answer["tool_responses"].append({key: tool[key] for key in ("id", "name", "response")})
            elif is_waiting and response is None and (is_resumed or use.get("id") in asked):
                waiting.append(use)
            elif not was_waiting or use["name"] not in seen:
                made.append(use)
                if is_resumed and self._was_asked:
                    unclear.append(use["name"])
        if unclear:
            names = ", ".join(dict.fromkeys(unclear))
            answer["calls_unknown"] = (
                f"it is unknown whether {names} ran or was refused after an interrupt: LangChain reported no run"
            )
        self._waiting.keep(waiting, messages)
        self._inner = self._form.inner
        self._was_asked = bool(waiting or self._inner) and (self._was_asked or self._form.asks)
        answer["tool_uses"] = made
        names_of = {use.get("id"): use["name"] for use in made}  # other results are of refused calls or earlier turns
        answer["tool_responses"] = [
            {**item, "name": item["name"] or names_of[item["id"]]}
            for item in answer["tool_responses"]
            if item["id"] in names_of
        ]

    def _select_unseen(self, heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return OpenTelemetry spans without callbacks: calls of models or tools outside LangChain."""
        seen = {"model": self._watch.model_calls, "tool": len(self._watch.tools)}
        left = [span for span in heard if seen.get(span["kind"]) == 0]
        ids = {span["id"] for span in left}
        for span in left:
            if span["parent_id"] not in ids:
                span["parent_id"] = self._watch.outermost
        return left

    async def state(self) -> dict[str, Any] | None:
        """Return the values of a graph without its messages; None for anything else. See `Session.state`."""
        return await self._form.state(self._config)

    def describe(self) -> dict[str, Any]:
        return describe_agent(self._runnable, name=self._name)

    async def close(self) -> dict[str, Any]:
        if self._calls is not None:
            self._calls.close()
        return {"final_state": await self.state()}


def _add_tools_that_ran(answer: dict[str, Any], ran: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Add tools that ran but are missing from the result: called by a node, or by an agent inside a node.

    They are inserted where they ran, after earlier calls. Return the tool that ran for each call, by the call's `id()`.
    """
    reported: list[dict[str, Any]] = answer["tool_uses"]
    tools: dict[int, dict[str, Any]] = {}
    left = _Calls(reported)
    # A result without a call: an earlier turn has the call, and its tool runs again after an interrupt.
    results = Counter(item["id"] for item in answer["tool_responses"])
    results.subtract(use.get("id") for use in reported)
    ran_before: dict[int, list[dict[str, Any]]] = {}  # by the place of the call that came after them
    place = 0
    for tool in ran:
        if tool["is_retry"]:
            continue
        found = left.take(tool)
        if found is not None:
            tools[id(reported[found])] = tool
            place = max(place, found + 1)
            continue
        use = {"name": tool["name"], "args": tool["args"]}
        use = use if tool["id"] is None else {"id": tool["id"], **use}
        tools[id(use)] = tool
        ran_before.setdefault(place, []).append(use)
        if tool["id"] is not None and results[tool["id"]] > 0:
            results[tool["id"]] -= 1
        elif tool["response"] is not None:
            response = {"id": tool["id"], "name": tool["name"], "response": tool["response"]}
            answer["tool_responses"].append(response)
    if ran_before:
        places = range(len(reported) + 1)
        answer["tool_uses"] = [use for at in places for use in (*ran_before.get(at, ()), *reported[at : at + 1])]
    return tools


def _correct_args(use: dict[str, Any], tool: dict[str, Any], declared: Any) -> dict[str, Any]:
    """Return a call with the arguments with which its tool ran: the user may have changed them."""
    names = tool["args"] if declared is None else declared.args  # without injected arguments
    return {**use, "args": {name: value for name, value in tool["args"].items() if name in names}}


class _Calls:
    """Calls that a model reported, each matched once: by name, and by id if both sides have one.

    Ids and names may repeat, so a call with equal arguments is preferred.
    """

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self._taken: set[int] = set()
        self._places: dict[tuple[str, Any, str | None], deque[int]] = {}
        for place, call in enumerate(calls):
            for call_id in (call.get("id") or _NO_ID, _ANY_ID):
                for args in (format_args(call["args"]), None):
                    self._places.setdefault((call["name"], call_id, args), deque()).append(place)

    def take(self, tool: dict[str, Any]) -> int | None:
        """Return the position of the first unmatched call for a tool that ran, or None."""
        ids = (tool["id"], _NO_ID) if tool["id"] else (_ANY_ID,)
        for args in (format_args(tool["args"]), None):
            places = [self._find_first((tool["name"], call_id, args)) for call_id in ids]
            found = min((place for place in places if place is not None), default=None)
            if found is not None:
                self._taken.add(found)
                return found
        return None

    def _find_first(self, key: tuple[str, Any, str | None]) -> int | None:
        queue = self._places.get(key, ())
        while queue and queue[0] in self._taken:
            queue.popleft()
        return queue[0] if queue else None


def _convert_content(content: dict[str, Any]) -> Any:
    """Convert a user content to that of a message: its text, or blocks if it contains data. Raises AgentFault."""
    parts = [part for part in content.get("parts") or () if part]
    if all(part.get("text") is not None for part in parts):
        return read_prompt(content)
    return [_convert_part(part) for part in parts]


def _convert_part(part: dict[str, Any]) -> dict[str, Any]:
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
