"""The adapter for agents as Agent Engine has them, in the worker: objects with `query`, apps of ADK, deployed ones.

`location` is `module:name`, or the resource name of what is deployed: `projects/P/locations/L/reasoningEngines/ID`.
What a session is, and its spans, are those of a function that asks the object.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ...loading import find_object
from ...wire import describe
from .. import base
from ..function import Session
from .talk import ASKED, CREATES, STREAMS, Engine, Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...asking import Tools

_DEPLOYED = "projects/"
_EXPECTED = f"an object with {', '.join(ASKED[:-1])} or {ASKED[-1]}, or what makes one without arguments"


class Adapter(base.Adapter):
    """One such agent in one process."""

    def load(self) -> None:
        """Import the object and set it up, as Agent Engine does; of a deployed one nothing is asked yet."""
        location = self.target["location"]
        if location.startswith(_DEPLOYED):
            from .deployed import Deployed

            self._engine: Engine = Deployed(location)
            self._name, self._type = location.rpartition("/")[2], "deployed on Agent Engine"
            return
        found = _made(find_object(location, self.import_roots(), wanted="the agent"), location)
        if callable(getattr(found, "set_up", None)):
            found.set_up()
        self._engine = Local(found)
        self._name, self._type = location.partition(":")[2], type(found).__name__

    def open(self, session: dict[str, Any], emit_span: base.EmitSpan, tools: Tools | None = None) -> Session:
        """Open a fresh session. See `Adapter.open`."""
        interception = None
        if tools is not None:
            from ...interception import open_session

            interception = open_session(tools, self.import_roots())
        return TalkSession(
            name=self._name,
            talk=Talk(self._engine),
            request=session,
            emit_span=emit_span,
            interception=interception,
            describe=self._describe,
        )

    def _describe(self) -> dict[str, Any]:
        part = {"name": self._name, "type": self._type}
        return {"agents": [part], "untold": [f"what {self._name} is told and can call is in its code"]}


class TalkSession(Session):
    """A conversation. Only an app of ADK has a state that can be seen."""

    def __init__(self, *, talk: Talk, **options: Any) -> None:
        super().__init__(call=talk.say, **options)
        self._talk = talk

    def state(self) -> dict[str, Any] | None:
        return super().state() if self._talk.is_with_app else None


class Local(Engine):
    """An object in this process. What blocks runs in a thread: Agent Engine calls it in one, too.

    `in_thread` takes a function with its arguments and gives what comes of the call.
    """

    def __init__(self, agent: Any, *, in_thread: Callable[..., Awaitable[Any]] = asyncio.to_thread) -> None:
        self._agent = agent
        self._in_thread = in_thread

    async def parameters(self) -> dict[str, set[str]]:
        methods = {name: getattr(self._agent, name, None) for name in (*ASKED, *CREATES)}
        return {name: _parameters(method) for name, method in methods.items() if callable(method)}

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        function = getattr(self._agent, method)
        if method in STREAMS:
            function = _collect(function)
        if not method.startswith("async_") and not inspect.iscoroutinefunction(function):
            given = await self._in_thread(function, **arguments)
        else:
            given = function(**arguments)
        return await given if inspect.isawaitable(given) else given


def _collect(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives all chunks of a stream as a list, where it is called."""

    async def collect_later(stream: Any) -> list[Any]:
        return [chunk async for chunk in stream]

    def collect(**arguments: Any) -> Any:
        stream = function(**arguments)
        if hasattr(stream, "__aiter__"):
            return collect_later(stream)
        return stream if inspect.isawaitable(stream) else list(stream)

    return collect


def _parameters(method: Any) -> set[str]:
    try:
        return set(inspect.signature(method).parameters)
    except ValueError:  # one that is not written in Python tells no signature
        return set()


def _made(found: Any, location: str) -> Any:
    """The agent itself: what was found, or what that makes. Raises LoadError where it is none."""
    made, place = found, location
    if isinstance(found, type) or (callable(found) and not is_agent(found)):
        made, place = found(), f"{location}()"
    if not is_agent(made):
        raise base.LoadError(f"{place} is {describe(made)}, expected {_EXPECTED}")
    return made


def is_agent(value: Any) -> bool:
    """Whether a value has a method by which it can be asked."""
    return any(callable(getattr(value, name, None)) for name in ASKED)
