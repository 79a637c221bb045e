"""Agents that are a Python callable: `f(prompt)` or `f(prompt, session)`, plain or async.

What it may return is in `answers.py`.
"""

from __future__ import annotations

import sys
import time
from types import FunctionType, MethodType

from ..loading import find_object
from ..responses import agent_span, call_spans, read_answer, tells_trajectory, turn_result
from ..wire import describe, lenient
from . import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple, Union

    from ..asking import Tools
    from ..interception import Session as Interception
    from ..telemetry import Turn as Hearing

_CO_VARARGS, _CO_COROUTINE = 0x04, 0x80
_SIMULATED = "workbench.simulated"  # asking.MARK, whose import costs more than a trivial agent
_UNTOLD = "the answer does not say which tools were called: it has no predicted_trajectory (an empty list says none)"
_OPEN_TELEMETRY = "opentelemetry.trace"
_INTERCEPTION = f"{__package__.rpartition('.')[0]}.interception"


class AgentSession:
    """What a function with a second parameter gets: the conversation so far, and a state that lasts as long as it."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.app_name: str = request["app_name"]
        self.user_id: str = request["user_id"]
        self.session_id: Optional[str] = request["session_id"]
        self.state: Dict[str, Any] = request["state"]
        self.history: List[Dict[str, Any]] = []
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

    def open(self, session: Dict[str, Any], emit_span: base.EmitSpan, tools: Optional[Tools] = None) -> Session:
        name = self.target["location"].partition(":")[2]
        call = self._function if self._takes_session else lambda prompt, _session: self._function(prompt)
        interception = None
        if tools is not None:
            from ..interception import open_session

            interception = open_session(tools, self.import_roots())
        return Session(
            name=name,
            call=call,
            request=session,
            emit_span=emit_span,
            interception=interception,
            describe=self._describe,
        )

    def _describe(self) -> Dict[str, Any]:
        from .function_description import description_of

        return description_of(self._function, self.target["location"], self.import_roots())


class Session(base.Session):
    """One conversation with a function."""

    def __init__(
        self,
        *,
        name: str,
        call: Callable[..., Any],
        request: Dict[str, Any],
        emit_span: base.EmitSpan,
        describe: Callable[[], Dict[str, Any]],
        interception: Optional[Interception] = None,
    ) -> None:
        """`interception` has the calls of tools that the engine was asked about; `describe` tells what the agent is."""
        self._describe = describe
        self._name = name
        self._call = call
        self._collect_spans = request["collect_spans"]
        self._announce_spans = request.get("announce_spans", False)
        self._emit_span = emit_span
        self._interception = interception
        self._session = AgentSession(request)
        self._hearing: Optional[Hearing] = None
        self._opened = time.perf_counter()

    def turn(self, content: Dict[str, Any], index: int) -> Union[Dict[str, Any], Awaitable[Dict[str, Any]]]:
        prompt = "\n".join(part["text"] for part in content.get("parts") or () if part.get("text"))
        self._hear(index)
        started = time.perf_counter()
        if self._announce_spans:
            self._emit_span(self._agent_span(index, started, None, prompt))
        try:
            self._enter()
            value = self._call(prompt, self._session)
        except BaseException as error:  # whatever the agent raises, sys.exit included: its span says so
            self._emit_failure(index, started, prompt, error)
            raise
        if hasattr(type(value), "__await__"):
            return self._await_turn(value, content, index, prompt, started)
        return self._finish_turn(value, content, index, prompt, started)

    def state(self) -> Optional[Dict[str, Any]]:
        state: Any = self._session.state
        plain: Optional[Dict[str, Any]] = lenient(state) if isinstance(state, dict) else None
        return plain

    def describe(self) -> Dict[str, Any]:
        return self._describe()

    def close(self) -> Dict[str, Any]:
        if self._interception is not None:
            self._interception.close()
        return {"final_state": self.state()}

    def _enter(self) -> None:
        """Say whose calls of tools those of this task or thread are."""
        interception = sys.modules.get(_INTERCEPTION)
        if interception is not None:
            interception.enter(self._interception)

    def _hear(self, index: int) -> None:
        """Say whose spans of OpenTelemetry those of this task or thread are."""
        if self._hearing is not None:
            self._hearing.enter()
        elif _OPEN_TELEMETRY in sys.modules:
            from ..telemetry import begin_turn

            self._hearing = begin_turn(index, around=f"agent-{index}", opened=self._opened)

    def _take_heard(self) -> List[Dict[str, Any]]:
        """The spans of OpenTelemetry of this turn."""
        hearing, self._hearing = self._hearing, None
        return [] if hearing is None else hearing.end()

    async def _await_turn(
        self, awaitable: Awaitable[Any], content: Dict[str, Any], index: int, prompt: str, started: float
    ) -> Dict[str, Any]:
        try:
            self._enter()
            self._hear(index)
            value = await awaitable
        except BaseException as error:  # whatever the agent raises, sys.exit included: its span says so
            self._emit_failure(index, started, prompt, error)
            raise
        return self._finish_turn(value, content, index, prompt, started)

    def _finish_turn(
        self, value: Any, content: Dict[str, Any], index: int, prompt: str, started: float
    ) -> Dict[str, Any]:
        ended = time.perf_counter()
        heard = self._take_heard()
        answer = read_answer(value)
        if not tells_trajectory(value):
            answer["calls_untold"] = _UNTOLD
        self._session.history.append(
            {"prompt": prompt, "response": answer["response"], "predicted_trajectory": answer["predicted_trajectory"]}
        )
        if answer["state"] is not None:
            self._session.state.update(answer["state"])
        if heard:
            from ..conventions import model_calls

            answer["inference_calls"], usage = model_calls(heard)
            answer["usage"] = answer["usage"] or usage
        agent = self._agent_span(index, started, ended, prompt, answer["response"])
        spans = [agent, *self._reported(agent, answer, heard), *heard] if self._collect_spans else []
        return turn_result(content, answer, duration=ended - started, spans=spans)

    def _reported(
        self, agent: Dict[str, Any], answer: Dict[str, Any], heard: List[Dict[str, Any]]
    ) -> List[Dict[str, Any]]:
        """The calls that the agent reported, without times where nobody saw them; those `heard` are left out."""
        made = self._take_calls()
        tools = [span for span in heard if span["kind"] == "tool"]
        spans = []
        for call, span in zip(  # noqa: B905 - there is one for each
            answer["tool_uses"], call_spans(agent, answer["tool_uses"], answer["tool_responses"])
        ):
            seen = _same_call(call, made)
            same = next((tool for tool in tools if tool["name"] == call["name"]), None)
            if seen is not None:
                made.remove(seen)
                span.update(self._seen(seen), response=span["response"] or seen["response"])
            elif same is not None:
                tools.remove(same)
                for name in ("request", "response"):
                    same[name] = span[name] if same[name] is None else same[name]
                continue
            spans.append(span)
        return [*spans, *self._unreported(agent, made)]

    def _take_calls(self) -> List[Dict[str, Any]]:
        return [] if self._interception is None else self._interception.take_calls()

    def _unreported(self, agent: Dict[str, Any], calls: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """The calls that the agent made of tools that the engine was asked about, and did not report."""
        return [
            {
                "id": f"{agent['id']}.seen{number}",
                "parent_id": agent["id"],
                "turn": agent["turn"],
                "kind": "tool",
                "name": _last_name(call["tool"]),
                "request": call["args"],
                "response": call["response"],
                **self._seen(call),
            }
            for number, call in enumerate(calls)
        ]

    def _seen(self, call: Dict[str, Any]) -> Dict[str, Any]:
        """What a span tells of a call that was seen, not only reported."""
        return {
            "start": call["start"] - self._opened,
            "end": call["end"] - self._opened,
            "error": call["error"] and call["error"]["text"],
            "attributes": {} if call["source"] is None else {_SIMULATED: call["source"]},
        }

    def _agent_span(
        self, index: int, started: float, ended: Optional[float], prompt: str, response: Optional[str] = None
    ) -> Dict[str, Any]:
        start, end = started - self._opened, None if ended is None else ended - self._opened
        return agent_span(index, self._name, start=start, end=end, request=prompt, response=response)

    def _emit_failure(self, index: int, started: float, prompt: str, error: BaseException) -> None:
        heard = self._take_heard()
        if self._collect_spans:
            for told in heard:
                self._emit_span(told)
            span = self._agent_span(index, started, time.perf_counter(), prompt)
            self._emit_span({**span, "error": type(error).__qualname__})
            for call in self._unreported(span, self._take_calls()):
                self._emit_span(call)


def _same_call(call: Dict[str, Any], made: List[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """Which of the calls that were seen a reported one is: that with the same arguments, else the first of its tool."""
    named = [seen for seen in made if _last_name(seen["tool"]) == call["name"]]
    return next((seen for seen in named if seen["args"] == call["args"]), named[0] if named else None)


def _last_name(tool: str) -> str:
    """The name of a function, without the place that may stand before it."""
    return tool.rpartition(":")[2].rpartition(".")[2]


def takes_session(function: Any, location: str) -> bool:
    """Whether a callable is called with a session too: told by a second parameter. Raises LoadError."""
    required, optional, more = positional_parameters(function, location)
    count = len(required)
    if count > 2 or count + len(optional) + more == 0:
        names = ", ".join(required)
        raise base.LoadError(f"{location} takes ({names}), expected f(prompt) or f(prompt, session)")
    return count == 2 or (required + optional)[1:2] == ["session"]


def positional_parameters(function: Any, location: str) -> Tuple[List[str], List[str], bool]:
    """Names of positional parameters without and with a default, and whether any number of them is taken.

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
    return _inspected_parameters(function, location)


def _inspected_parameters(function: Any, location: str) -> Tuple[List[str], List[str], bool]:
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables written in C tell no signature
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
    """Whether calling it only makes an awaitable: an `async def`, also behind a partial or an object."""
    while hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
        function = function.func
    for candidate in (function, getattr(type(function), "__call__", None)):  # noqa: B004
        code = getattr(getattr(candidate, "__func__", candidate), "__code__", None)
        if code is not None:
            return bool(code.co_flags & _CO_COROUTINE)
    return False
