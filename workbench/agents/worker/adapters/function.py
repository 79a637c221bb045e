"""Agents that are a Python callable: `f(prompt)` or `f(prompt, session)`, plain or async.

It may yield its response in pieces. `responses.py` describes the possible return values.
"""

from __future__ import annotations

import sys
import time
from types import FunctionType, MethodType

from ..loading import find_object
from ..responses import (
    add_reported_calls,
    has_trajectory,
    join_pieces,
    make_agent_span,
    make_call_spans,
    make_turn_result,
    read_answer,
    read_prompt,
)
from ..wire import describe, make_json_safe
from . import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Awaitable, Callable

    from ..telemetry import TurnSpans
    from ..tool_interception import InterceptedCalls

_CO_VARARGS, _CO_COROUTINE, _CO_ASYNC_GENERATOR = 0x04, 0x80, 0x200
_SIMULATED = "workbench.simulated"  # as `tool_interception.MARK`, whose import costs more than a trivial agent
_CALLS_UNKNOWN = (
    "the answer does not say which tools were called: it has no predicted_trajectory (an empty list says none), and no "
    "span of OpenTelemetry reports tools, or an agent that runs in this process"
)
_OPEN_TELEMETRY = "opentelemetry.trace"
_INTERCEPTION = f"{__package__.rpartition('.')[0]}.tool_interception"


class AgentSession:
    """The second argument of an agent: the conversation so far, and a state that lasts as long as the conversation."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.app_name: str = request["app_name"]
        self.user_id: str = request["user_id"]
        self.session_id: str | None = request["session_id"]
        self.state: dict[str, Any] = request["state"]
        self.history: list[dict[str, Any]] = []
        """Earlier turns, each with `prompt`, `response` and `predicted_trajectory`."""


class Adapter(base.Adapter):
    """A callable as an agent."""

    def load(self) -> None:
        location = self.target["location"]
        self._function = find_object(location, self.import_roots(), wanted="the function of the agent")
        if not callable(self._function):
            raise base.LoadError(f"{location} is {describe(self._function)}, expected a function")
        self._takes_session = takes_session(self._function, location)
        self.blocking = not is_async(self._function)
        if not self.blocking:
            import asyncio  # noqa: F401 - needed at the first turn; here it is seen, and imported before the next fork

    def open(
        self, session: dict[str, Any], emit_span: base.EmitSpan, tools: base.InterceptedTools | None = None
    ) -> FunctionSession:
        name = self.target["location"].partition(":")[2]
        call = self._function if self._takes_session else lambda prompt, _session: self._function(prompt)
        interception = None
        if tools is not None:
            from ..tool_interception import open_session

            interception = open_session(tools, self.import_roots())
        return FunctionSession(
            name=name,
            call=call,
            request=session,
            emit_span=emit_span,
            interception=interception,
            describe=self._describe,
        )

    def _describe(self) -> dict[str, Any]:
        from ..tool_interception import describe_agent

        return describe_agent(self._function, self.target["location"], self.import_roots())


class FunctionSession(base.Session):
    """One conversation with a function."""

    def __init__(
        self,
        *,
        name: str,
        call: Callable[..., Any],
        request: dict[str, Any],
        emit_span: base.EmitSpan,
        describe: Callable[[], dict[str, Any]],
        interception: InterceptedCalls | None = None,
    ) -> None:
        """`interception` has the intercepted tool calls; `describe` describes the agent."""
        self._describe = describe
        self._name = name
        self._call = call
        self._collect_spans = request["collect_spans"]
        self._announce_spans = request.get("announce_spans", False)
        self._emit_span = emit_span
        self._interception = interception
        self._session = AgentSession(request)
        self._telemetry: TurnSpans | None = None
        self._opened = time.perf_counter()

    def turn(self, content: dict[str, Any], index: int) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        prompt = read_prompt(content)
        self._begin_telemetry(index)
        started = time.perf_counter()
        if self._announce_spans:
            self._emit_span(self._make_agent_span(index, started, None, prompt))
        try:
            self._enter_interception()
            value = self._call(prompt, self._session)
            if hasattr(type(value), "__next__"):
                value = join_pieces(value)
        except BaseException as error:  # including sys.exit, which the span reports
            self._emit_failure(index, started, prompt, error)
            raise
        if hasattr(type(value), "__await__") or hasattr(type(value), "__anext__"):
            return self._await_turn(value, content, index, prompt, started)
        return self._finish_turn(value, content, index, prompt, started)

    def state(self) -> dict[str, Any] | None:
        state: Any = self._session.state
        plain: dict[str, Any] | None = make_json_safe(state) if isinstance(state, dict) else None
        return plain

    def describe(self) -> dict[str, Any]:
        return self._describe()

    def close(self) -> dict[str, Any]:
        if self._interception is not None:
            self._interception.close()
        return {"final_state": self.state()}

    def _enter_interception(self) -> None:
        """Assign tool calls of this task or thread to this session."""
        interception = sys.modules.get(_INTERCEPTION)
        if interception is not None:
            interception.enter(self._interception)

    def _begin_telemetry(self, index: int) -> None:
        """Assign OpenTelemetry spans of this task or thread to this turn."""
        if self._telemetry is not None:
            self._telemetry.enter()
        elif _OPEN_TELEMETRY in sys.modules:
            from ..telemetry import begin_turn

            self._telemetry = begin_turn(index, around=f"agent-{index}", opened=self._opened)

    def _take_telemetry(self) -> tuple[TurnSpans | None, list[dict[str, Any]]]:
        """Return the telemetry of this turn, and its OpenTelemetry spans."""
        hearing, self._telemetry = self._telemetry, None
        return hearing, [] if hearing is None else hearing.end()

    async def _await_turn(
        self, value: Any, content: dict[str, Any], index: int, prompt: str, started: float
    ) -> dict[str, Any]:
        try:
            self._enter_interception()
            self._begin_telemetry(index)
            if hasattr(type(value), "__await__"):
                value = await value
            if hasattr(type(value), "__anext__"):
                value = join_pieces([piece async for piece in value])
            elif hasattr(type(value), "__next__"):
                value = join_pieces(value)
        except BaseException as error:  # including sys.exit, which the span reports
            self._emit_failure(index, started, prompt, error)
            raise
        return self._finish_turn(value, content, index, prompt, started)

    def _finish_turn(
        self, value: Any, content: dict[str, Any], index: int, prompt: str, started: float
    ) -> dict[str, Any]:
        ended = time.perf_counter()
        hearing, heard = self._take_telemetry()
        answer = read_answer(value)
        if not has_trajectory(value):
            _add_calls(answer, hearing)
        self._session.history.append(
            {"prompt": prompt, "response": answer["response"], "predicted_trajectory": answer["predicted_trajectory"]}
        )
        if answer["state"] is not None:
            self._session.state.update(answer["state"])
        if heard:
            from ..telemetry import count_model_calls

            answer["inference_calls"], usage = count_model_calls(heard)
            answer["usage"] = answer["usage"] or usage
        agent = self._make_agent_span(index, started, ended, prompt, answer["response"])
        spans = [agent, *self._build_call_spans(agent, answer, heard), *heard] if self._collect_spans else []
        return make_turn_result(content, answer, duration=ended - started, spans=spans)

    def _build_call_spans(
        self, agent: dict[str, Any], answer: dict[str, Any], heard: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Build the spans of reported calls, with times if the calls were intercepted; calls in `heard` are left
        out."""
        made = self._take_calls()
        tools = [span for span in heard if span["kind"] == "tool"]
        spans = []
        for call, span in zip(  # noqa: B905 - there is one for each
            answer["tool_uses"], make_call_spans(agent, answer["tool_uses"], answer["tool_responses"])
        ):
            seen = _find_same_call(call, made)
            same = next((tool for tool in tools if tool["name"] == call["name"]), None)
            if seen is not None:
                made.remove(seen)
                span.update(self._describe_seen_call(seen), response=span["response"] or seen["response"])
            elif same is not None:
                tools.remove(same)
                for name in ("request", "response"):
                    same[name] = span[name] if same[name] is None else same[name]
                continue
            spans.append(span)
        return [*spans, *self._build_unreported_spans(agent, made)]

    def _take_calls(self) -> list[dict[str, Any]]:
        return [] if self._interception is None else self._interception.take_calls()

    def _build_unreported_spans(self, agent: dict[str, Any], calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Build the spans of intercepted calls that the agent did not report."""
        return [
            {
                "id": f"{agent['id']}.seen{number}",
                "parent_id": agent["id"],
                "turn": agent["turn"],
                "kind": "tool",
                "name": _get_last_name(call["tool"]),
                "request": call["args"],
                "response": call["response"],
                **self._describe_seen_call(call),
            }
            for number, call in enumerate(calls)
        ]

    def _describe_seen_call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return the span fields that only an intercepted call has."""
        return {
            "start": call["start"] - self._opened,
            "end": call["end"] - self._opened,
            "error": call["error"] and call["error"]["text"],
            "attributes": {} if call["source"] is None else {_SIMULATED: call["source"]},
        }

    def _make_agent_span(
        self, index: int, started: float, ended: float | None, prompt: str, response: str | None = None
    ) -> dict[str, Any]:
        start, end = started - self._opened, None if ended is None else ended - self._opened
        return make_agent_span(index, self._name, start=start, end=end, request=prompt, response=response)

    def _emit_failure(self, index: int, started: float, prompt: str, error: BaseException) -> None:
        _, heard = self._take_telemetry()
        if self._collect_spans:
            for item in heard:
                self._emit_span(item)
            span = self._make_agent_span(index, started, time.perf_counter(), prompt)
            self._emit_span({**span, "error": type(error).__qualname__})
            for call in self._build_unreported_spans(span, self._take_calls()):
                self._emit_span(call)


def _add_calls(answer: dict[str, Any], hearing: TurnSpans | None) -> None:
    """Set the calls of an answer that reports none to those of the spans, if these report calls."""
    reported = None if hearing is None else hearing.read_calls()
    if reported is None:
        answer["calls_unknown_by_design"] = _CALLS_UNKNOWN
        return
    found, lost = reported
    add_reported_calls(answer, found, missing=lost)


def _find_same_call(call: dict[str, Any], made: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the intercepted call for a reported one: with the same arguments, else the first of its tool."""
    named = [seen for seen in made if _get_last_name(seen["tool"]) == call["name"]]
    return next((seen for seen in named if seen["args"] == call["args"]), named[0] if named else None)


def _get_last_name(tool: str) -> str:
    """Return the name of a function without its location."""
    return tool.rpartition(":")[2].rpartition(".")[2]


def takes_session(function: Any, location: str) -> bool:
    """Return True if a callable takes a session as its second parameter. Raises LoadError."""
    required, optional, more = read_positional_parameters(function, location)
    count = len(required)
    if count > 2 or count + len(optional) + more == 0:
        names = ", ".join(required)
        raise base.LoadError(f"{location} takes ({names}), expected f(prompt) or f(prompt, session)")
    return count == 2 or (required + optional)[1:2] == ["session"]


def read_positional_parameters(function: Any, location: str) -> tuple[list[str], list[str], bool]:
    """Return the positional parameters without and with a default, and whether any number of them is accepted.

    Plain functions are read without `inspect`, whose import costs more than a trivial agent.
    """
    if type(function) in (FunctionType, MethodType) and not hasattr(function, "__wrapped__"):
        plain = function.__func__ if isinstance(function, MethodType) else function
        code = getattr(plain, "__code__", None)
        if code is not None and not (
            code.co_kwonlyargcount and len(plain.__kwdefaults__ or ()) < code.co_kwonlyargcount
        ):
            names = list(code.co_varnames[: code.co_argcount])[1 if isinstance(function, MethodType) else 0 :]
            split = len(names) - min(len(plain.__defaults__ or ()), len(names))
            return names[:split], names[split:], bool(code.co_flags & _CO_VARARGS)
    return _inspect_parameters(function, location)


def _inspect_parameters(function: Any, location: str) -> tuple[list[str], list[str], bool]:
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables written in C have no signature
        return ["prompt"], [], False
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    for item in parameters:
        if item.kind is item.KEYWORD_ONLY and item.default is item.empty:
            raise base.LoadError(
                f"{location} needs {item.name} by keyword, expected f(prompt) or f(prompt, session), by position"
            )
    return (
        [item.name for item in positional if item.default is item.empty],
        [item.name for item in positional if item.default is not item.empty],
        any(item.kind is item.VAR_POSITIONAL for item in parameters),
    )


def is_async(function: Any) -> bool:
    """Return True if an event loop runs it: an `async def`, also behind a partial or an object."""
    while hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
        function = function.func
    for candidate in (function, getattr(type(function), "__call__", None)):  # noqa: B004
        code = getattr(getattr(candidate, "__func__", candidate), "__code__", None)
        if code is not None:
            return bool(code.co_flags & (_CO_COROUTINE | _CO_ASYNC_GENERATOR))
    return False
