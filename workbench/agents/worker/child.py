"""A process for one session: forked, used once, gone. One thread, and an event loop only where the agent needs one."""

from __future__ import annotations

import os
import signal
import sys

from . import agent_import, faults
from .limits import SpanLimit
from .loading import compiled_here, enter
from .preload import changed_keys, imported_since
from .recording.recorder import quiet
from .recording.telling import Teller
from .wire import Wire, hello

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .adapters.base import Adapter
    from .asking import Tools


INTERRUPT = getattr(signal, "SIGRTMAX", 64) - 1
"""Sent to a process whose case is given up. Programs use the first real-time signals, if any."""


def run(adapter: Adapter, address: List[Any], start: Dict[str, Any]) -> None:
    """Hold the session that `start` describes, until the engine closes it, the agent fails, or the engine is gone."""
    wire = Wire(address, first=start["messages"])
    os.register_at_fork(after_in_child=wire.close)  # what the agent forks is not us
    wire.queue(hello("session", start["token"]))
    _Child(adapter, wire, scout=start["scout"]).serve()


class _Child:
    def __init__(self, adapter: Adapter, wire: Wire, *, scout: bool) -> None:
        self._adapter = adapter
        self._wire = wire
        self._scout = scout
        self._loop: Any = None
        self._teller = Teller()
        self._receive = wire.receive
        self._limit = SpanLimit()

    def serve(self) -> None:
        request = self._wire.receive()
        if request is None or not self._open(request):
            return
        while (message := self._receive()) is not None:
            if message["type"] == "close":
                self._close()
                return
            if not self._answer(message):
                return

    def _open(self, request: Dict[str, Any]) -> bool:
        self._id = request["session"]
        self._teller.heed(request)
        signal.signal(INTERRUPT, self._stop)
        tools = self._tools(request)
        with quiet:
            self._modules, self._variables = (set(sys.modules), dict(os.environ)) if self._scout else (set(), {})
        imported = agent_import.active()
        if imported is not None and imported.failure is not None:
            self._tell_failure(imported.failure, turn=None)
            return False
        try:
            if imported is None:
                enter(self._adapter)
                self._adapter.load()
            self._session = self._settle(self._adapter.open(request, self._emit_span, tools))
        except BaseException as error:  # whatever the agent's modules raise, sys.exit included
            self._fail(error, loading=True)
            return False
        self._tell_imports()
        self._tell_dependencies()
        self._wire.send({"type": "opened", "session": self._id})
        return True

    def _tools(self, request: Dict[str, Any]) -> Optional[Tools]:
        """What the engine wants to hear of calls of tools; from now on what it says is read in another thread."""
        if not request.get("tools"):
            return None
        with quiet:
            from . import asking, interception  # noqa: F401 - while names still mean the standard library's modules

        tools = asking.Tools(request["session"], request["tools"], self._wire.send)
        self._receive = asking.ReadingThread(self._wire, tools).receive
        return tools

    def _answer(self, message: Dict[str, Any]) -> bool:
        """Do what the engine asks for; whether the session goes on."""
        if message["type"] == "turn":
            return self._turn(message)
        if message["type"] == "describe":
            return self._tell(self._session.describe)
        return self._tell(lambda: {"state": self._settle(self._session.state())})

    def _turn(self, message: Dict[str, Any]) -> bool:
        turn = message["turn"]
        try:
            result = self._settle(self._session.turn(message["content"], turn))
        except BaseException as error:  # whatever the agent raises, sys.exit included
            self._fail(error, turn=turn)
            return False
        for span in filter(None, map(self._limit.admit, result.pop("spans", ()))):
            self._wire.queue({"type": "span", "session": self._id, "span": span})
        self._tell_dependencies()
        self._wire.send({"type": "finished", "session": self._id, "turn": turn, "result": result})
        return True

    def _tell(self, ask: Callable[[], Dict[str, Any]]) -> bool:
        try:
            result = ask()
        except BaseException as error:  # what is asked about is the agent's, and so are the objects in it
            self._fail(error)
            return False
        self._tell_dependencies()
        self._wire.send({"type": "finished", "session": self._id, "result": result})
        return True

    def _close(self) -> None:
        try:
            result = self._settle(self._session.close())
        except BaseException as error:  # the adapter may run the agent's code to close it
            self._fail(error)
            return
        self._tell_imports()
        self._tell_dependencies(complete=True)
        self._wire.send({"type": "finished", "session": self._id, "result": result})

    def _stop(self, *_: Any) -> None:
        """Report what was used so far, and do nothing more: the process is killed next.

        Runs between any two instructions of the main thread. The engine asks again if that was a bad moment.
        """
        if quiet.depth:
            return
        if self._wire.try_send(self._teller.lines(self._id, complete=True)):
            os.kill(os.getpid(), signal.SIGSTOP)

    def _tell_imports(self) -> None:
        """As the scout: what later children may find imported. Told twice, as some things are imported late."""
        if not self._scout:
            return
        with quiet:
            imports = imported_since(self._modules, self._adapter.import_roots())
            environment = changed_keys(self._variables)
        self._modules.update(imports)
        told = {"imports": imports, "sources": list(compiled_here), "environment": environment}
        compiled_here.clear()
        self._wire.queue({"type": "imported", **told})

    def _tell_dependencies(self, *, complete: bool = False) -> None:
        for line in self._teller.lines(self._id, complete=complete):
            self._wire.queue_line(line)

    def _emit_span(self, span: Dict[str, Any]) -> None:
        admitted = self._limit.admit(span)
        if admitted is not None:
            self._wire.send({"type": "span", "session": self._id, "span": admitted})

    def _fail(self, error: BaseException, *, turn: int | None = None, loading: bool = False) -> None:
        self._tell_failure(faults.describe_failure(error, loading=loading), turn=turn)

    def _tell_failure(self, failure: Dict[str, Any], *, turn: int | None) -> None:
        self._tell_dependencies(complete=True)
        self._wire.send({"type": "failed", "session": self._id, "turn": turn, **failure})

    def _settle(self, value: Any) -> Any:
        """The value itself, or what it gives when awaited."""
        if not hasattr(type(value), "__await__"):
            return value
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(value)
