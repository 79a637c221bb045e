"""The tool calls of a session that the engine wants to hear of before they are made. See PROTOCOL.md, Tools.

A tool may be called from any thread and any task, and some calls block the thread on whose event loop others wait. So
what the engine says is read in a thread of its own, which wakes whoever asked.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from concurrent.futures import Future

from .adapters.base import AgentFault, LoadError
from .loading import nearest
from .recording.recorder import quiet
from .wire import Wire, describe, lenient, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Optional

    Message = Dict[str, Any]

MARK = "workbench.simulated"
"""The attribute of a span that tells who answered in place of the tool: injected, model or replayed."""


class NotAnswered(BaseException):
    """The engine will not answer: the session is over. Not an Exception, so that an agent does not take it for one."""


class Tools:
    """What the engine wants to hear of in one session, and the way to ask it. Everything may be called from any thread.

    `told` is `tools` of the `open` message; `send` sends a message.
    """

    def __init__(self, session: int, told: Message, send: Callable[[Message], None]) -> None:
        self.names: Dict[str, Optional[str]] = told["names"]
        """Tools that are wanted: where their configuration names them, None where the agent need not have them."""
        self.functions: Dict[str, str] = told.get("functions") or {}
        """Where functions are, by the name of their tool: `module:name`."""
        self._everything: bool = bool(told.get("everything"))
        self._session = session
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: Dict[int, Future[Message]] = {}
        self._over = False
        self._lock = threading.Lock()

    def wants(self, name: str, *, is_plain: bool = True) -> bool:
        """Whether the engine is asked about a tool. One that is not plain (it runs an agent) only by its name."""
        return name in self.names or (self._everything and is_plain)

    def refuse_unknown(self, name: str, known: Iterable[str], *, expected: str) -> LoadError:
        """The error for a tool that is named and not there."""
        near = nearest(name, list(known))
        return LoadError(f"{self.names.get(name) or 'tools'}: found {name!r}, expected {expected}{near}")

    def ask(self, tool: str, args: Dict[str, Any], declaration: Dict[str, Any]) -> Message:
        """What to do about a call; blocks."""
        return self._post(tool, args, declaration).result()

    async def ask_later(self, tool: str, args: Dict[str, Any], declaration: Dict[str, Any]) -> Message:
        """The same for a coroutine."""
        import asyncio  # a coroutine that runs has imported it

        return await asyncio.wrap_future(self._post(tool, args, declaration))

    def _post(self, tool: str, args: Dict[str, Any], declaration: Dict[str, Any]) -> Future[Message]:
        number = next(self._numbers)
        answered: Future[Message] = Future()
        answered.set_running_or_notify_cancel()  # an agent that gives up waiting leaves the answer to be dropped
        with self._lock:
            if self._over:
                raise NotAnswered
            self._waiting[number] = answered
        question = {"tool": tool, "args": lenient(args), "declaration": declaration}
        try:
            self._send({"type": "ask", "session": self._session, "ask": number, **question})
        except OSError as error:
            raise AgentFault(
                f"{tool} was called in a process of the agent's own: it can be neither simulated nor recorded there",
                kind="unsupported",
            ) from error
        return answered

    def tell(self, answer: Message, **outcome: Any) -> None:
        """Tell what came of a call that was made, where the engine wants to know: `response`, `error`, `actions`.

        What JSON cannot hold is told as `unfit`, in words.
        """
        if not answer.get("tell"):
            return
        response = outcome.get("response")
        problem = unfit(response, "what the tool gave") or _changed_by_json(response, "what the tool gave")
        if problem is not None:
            outcome["response"], outcome["unfit"] = None, problem
        self._send({"type": "told", "session": self._session, "ask": answer["ask"], **outcome})

    @property
    def is_asking(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._waiting)

    def receive(self, message: Message) -> None:
        """An answer of the engine."""
        with self._lock:
            answered = self._waiting.pop(message["ask"], None)
        if answered is not None:
            answered.set_result(message)

    def abandon(self) -> None:
        """No answer will come any more; whoever waits for one gets NotAnswered."""
        with self._lock:
            self._over = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for answered in waiting:
            answered.set_exception(NotAnswered())


def _changed_by_json(value: Any, place: str) -> Optional[str]:
    """Where JSON would give something else back: keys that are no text become text. Lists for tuples will do."""
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            return f"{place} has {describe(odd)} as a key, which JSON makes a text of"
        return next((found for key, item in value.items() if (found := _changed_by_json(item, f"{place}.{key}"))), None)
    if isinstance(value, (list, tuple)):
        inner = (_changed_by_json(item, f"{place}[{index}]") for index, item in enumerate(value))
        return next((found for found in inner if found), None)
    return None


class ReadingThread:
    """Reads all that the engine says to a process of one session; answers go to who asked, the rest waits in order."""

    def __init__(self, wire: Wire, tools: Tools) -> None:
        self._wire = wire
        self._tools = tools
        self._inbox: queue.SimpleQueue[Optional[Message]] = queue.SimpleQueue()
        with quiet:
            threading.Thread(target=self._read, name="workbench-answers", daemon=True).start()

    def receive(self) -> Optional[Message]:
        """The next message that is no answer; None when the engine is gone."""
        return self._inbox.get()

    def _read(self) -> None:
        while (message := self._wire.receive()) is not None:
            if message["type"] == "answer":
                self._tools.receive(message)
            else:
                self._inbox.put(message)
        if self._tools.is_asking:
            os._exit(1)  # the agent's code waits for what will never come
        self._inbox.put(None)
