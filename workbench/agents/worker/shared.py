"""A process for many sessions: one event loop, functions that block in threads, what is printed mixed.

For `--isolation worker`, for custom metrics, and where processes cannot be forked. Sessions are told apart by the
number in each message. What the engine says is read in a thread: an answer about a call of a tool must arrive even
while that call blocks the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from . import faults, interception, scoring
from .asking import Tools
from .limits import SpanLimit
from .loading import enter, make_adapter, open_path
from .preload import environment
from .recording.recorder import quiet
from .recording.telling import Teller
from .wire import Wire, connect, encode, hello, remove_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Set

    from .adapters.base import Adapter

_PATIENCE = 0.3  # seconds a cancelled session has to end


def run_spawned(config: Dict[str, Any]) -> None:
    """Be a process of its own: warm up, then serve until the engine is gone, whatever the agent is doing then."""
    lifeline = connect(config["address"])
    lifeline.sendall(encode(hello("lifeline", config["token"])))

    def watch() -> None:
        with contextlib.suppress(OSError):
            lifeline.recv(1)
        remove_socket(config["address"])
        _end_group()

    watcher = threading.Thread(target=watch, name="workbench-lifeline", daemon=True)
    watcher.start()
    adapter = make_adapter(config["target"])
    open_path()
    with contextlib.suppress(Exception):  # what does not work here, sessions meet again and report
        adapter.warm_up()
    run(adapter, config, watcher=watcher)


def run(adapter: Adapter, config: Dict[str, Any], *, watcher: Optional[threading.Thread] = None) -> None:
    """Serve sessions and metrics until the engine is gone. `config` has `address`, `token` and `threads`.

    `watcher` is the thread that ends this process when the engine is gone, where no zygote does.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    wire = Wire(config["address"])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=wire.close)  # what the agent forks is not us
    wire.send({**hello("shared", config["token"]), "environment": environment()})
    server = _Server(adapter, wire, loop, threads=config["threads"], watcher=watcher)
    server.begin()
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # of a task of the agent's; who awaits it gets it too
            continue


def _end_group() -> None:
    """End this process and all it started, now."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


class _Session:
    """One session, or the scoring of one metric: its request, and what is being done for it."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.request = request
        self.tools: Optional[Tools] = None
        self.limit = SpanLimit()
        self.session: Any = None
        self.task: Optional[asyncio.Task[None]] = None
        self.in_thread = False
        self.closing: Optional[Dict[str, Any]] = None
        """What said, while a turn was under way, that it is the last."""

    def leave_tools(self) -> None:
        """The session has ended early: nobody waits for what the engine says about tools any more."""
        if self.tools is not None:
            self.tools.abandon()
            interception.forget(self.tools)


class _Server:
    def __init__(
        self,
        adapter: Adapter,
        wire: Wire,
        loop: asyncio.AbstractEventLoop,
        *,
        threads: int,
        watcher: Optional[threading.Thread],
    ) -> None:
        self._adapter = adapter
        self._wire = wire
        self._watcher = watcher
        self._loop = loop
        self._sessions: Dict[int, _Session] = {}
        self._leaving: Set[asyncio.Task[None]] = set()  # the loop itself does not hold on to tasks
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="session")
        self._entered = False
        self._loaded: Optional[Dict[str, Any]] = None  # the failure, {} when it went well
        self._teller = Teller()
        self._will_flush = False
        self._serves_metrics = False

    def begin(self) -> None:
        """Begin to read what the engine says: on the loop where nothing holds that up, which costs far less."""
        if self._adapter.waits_only:
            gc.set_threshold(20_000, 20, 100)  # all there is is ours, and hardly any of it garbage
            with contextlib.suppress(NotImplementedError):  # by the loop, on Windows
                self._loop.add_reader(self._wire.fileno(), self._read)
                return
        with quiet:
            threading.Thread(target=self._listen, name="workbench-listener", daemon=True).start()

    def _read(self) -> None:
        is_there = self._wire.fill()
        for message in self._wire.received():
            self._loop.call_soon(self._obey, message)
        if not is_there:
            self._end_process()

    def _listen(self) -> None:
        while (message := self._wire.receive()) is not None:
            if message["type"] == "answer":
                item = self._sessions.get(message["session"])
                if item is not None and item.tools is not None:
                    item.tools.receive(message)
            else:
                self._loop.call_soon_threadsafe(self._obey, message)
        self._end_process()

    def _end_process(self) -> None:
        """The engine is gone."""
        if self._watcher is not None:
            self._watcher.join(_PATIENCE)  # it tidies up first
        _end_group()

    def _send(self, message: Dict[str, Any]) -> None:
        if self._serves_metrics or not self._adapter.waits_only:
            with contextlib.suppress(OSError):  # the engine is gone, and we in a moment
                self._wire.send(message)
            return
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)
        self._wire.queue(message)

    def _flush(self) -> None:
        self._will_flush = False
        with contextlib.suppress(OSError):  # as above
            self._wire.flush()

    def _tell(self, number: int, *, complete: bool = False) -> None:
        """Have told with the next message what a session has depended on, where that is more than was told before."""
        message = self._teller.message(number, complete=complete)
        if complete or message["rows"] or message["tainted"]:
            self._wire.queue(message)

    def _obey(self, message: Dict[str, Any]) -> None:
        kind, number = message["type"], message["session"]
        if kind in ("open", "score"):
            self._teller.heed(message)
        if kind == "open":
            opened = self._sessions[number] = _Session(message)
            if message.get("tools"):
                opened.tools = Tools(number, message["tools"], self._send)
            return
        if kind == "score":
            self._sessions[number] = _Session(message)
        item = self._sessions.get(number)
        if item is None:  # failed or cancelled meanwhile
            return
        if kind == "cancel":
            self._cancel(number, item)
            return
        if kind == "close" and item.task is not None and not item.task.done():
            item.closing = message
            return
        work = {
            "turn": self._turn,
            "state": self._state,
            "describe": self._describe,
            "close": self._close,
            "score": self._score,
        }[kind]
        item.task = self._loop.create_task(self._guard(work(item, message), item, message))

    async def _guard(self, work: Any, item: _Session, message: Dict[str, Any]) -> None:
        """Do one thing for a session and answer, whatever happens."""
        answer = {"session": message["session"], "turn": message.get("turn")}
        whose = "the metric" if message["type"] == "score" else "the agent"
        try:
            self._answer(item, answer, await work)
            if item.closing is not None and self._sessions.get(message["session"]) is item:
                closing, item.closing = item.closing, None
                await self._guard(self._close(item, closing), item, closing)
        except asyncio.CancelledError as error:
            if self._sessions.get(message["session"]) is not item:
                return  # by the engine
            self._fail(answer, faults.describe_failure(error, raised_by=whose))
        except BaseException as error:  # whatever the agent raises, sys.exit included
            self._fail(answer, faults.describe_failure(error, raised_by=whose))

    def _answer(self, item: _Session, answer: Dict[str, Any], result: Optional[Dict[str, Any]]) -> None:
        """Tell what came of a turn, unless that is done or nobody waits for it any more."""
        if self._sessions.get(answer["session"]) is item and result is not None:
            for span in filter(None, map(item.limit.admit, result.pop("spans", ()))):
                self._wire.queue({"type": "span", "session": answer["session"], "span": span})
            self._tell(answer["session"])
            self._send({"type": "finished", **answer, "result": result})

    def _fail(self, answer: Dict[str, Any], failure: Dict[str, Any]) -> None:
        item = self._sessions.pop(answer["session"], None)
        if item is not None:
            item.leave_tools()
            self._tell(answer["session"], complete=True)
            self._send({"type": "failed", **answer, **failure})

    async def _turn(self, item: _Session, message: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        if not await self._is_open(item, message["session"]):
            return None
        arguments = (message["content"], message["turn"])
        if self._adapter.blocking:
            return await self._in_thread(item, item.session.turn, *arguments)  # type: ignore[no-any-return]
        return await self._settle(item.session.turn(*arguments))  # type: ignore[no-any-return]

    async def _is_open(self, item: _Session, number: int) -> bool:
        """Open the session where that was not done yet; whether that went well."""
        if item.session is None:
            if not self._load():
                self._fail({"session": number, "turn": None}, dict(self._loaded or {}))
                return False
            emit = self._span_sender(number, item.limit)
            item.session = await self._settle(self._adapter.open(item.request, emit, item.tools))
            self._tell(number)
            self._send({"type": "opened", "session": number})
        return True

    async def _describe(self, item: _Session, message: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        if not await self._is_open(item, message["session"]):
            return None
        return item.session.describe()  # type: ignore[no-any-return]

    async def _state(self, item: _Session, _: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        return {"state": await self._settle(item.session.state())}

    async def _close(self, item: _Session, message: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        result: Dict[str, Any] = await self._settle(item.session.close())
        if self._sessions.get(message["session"]) is not item:
            return None
        self._end(message["session"], result)
        return None

    async def _score(self, item: _Session, message: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        self._enter()
        if not self._serves_metrics:
            self._serves_metrics = True
            self._adapter.make_room()
        metric = scoring.find(message["function"], self._adapter)
        if metric.is_async:
            result = await self._settle(metric.score(message))
        else:
            result = await self._in_thread(item, metric.score, message)
        if self._sessions.get(message["session"]) is item:
            self._end(message["session"], result)
        return None

    def _end(self, number: int, result: Dict[str, Any]) -> None:
        """Tell what came of a session, after which there is no more of it."""
        self._tell(number, complete=True)
        self._send({"type": "finished", "session": number, "result": result})
        del self._sessions[number]

    def _enter(self) -> None:
        if not self._entered:
            enter(self._adapter)
            self._entered = True

    def _load(self) -> bool:
        """Import the agent, once for all sessions; whether that went well."""
        if self._loaded is None:
            try:
                self._enter()
                self._adapter.load()
                self._loaded = {}
            except BaseException as error:  # whatever the agent's modules raise, sys.exit included
                self._loaded = faults.describe_failure(error, loading=True)
        return not self._loaded

    async def _in_thread(self, item: _Session, call: Callable[..., Any], *arguments: Any) -> Any:
        item.in_thread = True
        try:
            value = await self._loop.run_in_executor(self._pool, call, *arguments)
        finally:
            item.in_thread = False
        return await self._settle(value)

    async def _settle(self, value: Any) -> Any:
        return await value if hasattr(type(value), "__await__") else value

    def _span_sender(self, number: int, limit: SpanLimit) -> Callable[[Dict[str, Any]], None]:
        def emit(span: Dict[str, Any]) -> None:
            admitted = limit.admit(span)
            if admitted is not None:
                self._send({"type": "span", "session": number, "span": admitted})

        return emit

    def _cancel(self, number: int, item: _Session) -> None:
        """End a session, and tell whether it did end: a thread cannot be made to, a task may refuse."""
        del self._sessions[number]
        self._tell(number, complete=True)
        item.leave_tools()
        task = item.task
        told = False

        def tell(clean: bool) -> None:
            nonlocal told
            if not told:
                told = True
                self._send({"type": "cancelled", "session": number, "clean": clean})

        if item.in_thread:
            tell(False)
            return
        if task is not None and not task.done():
            task.cancel()
        elif item.session is not None:  # between turns: nobody else would have it leave what it holds open
            task = self._loop.create_task(self._leave(item.session))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        else:
            tell(True)
            return
        task.add_done_callback(lambda _: tell(True))
        self._loop.call_later(_PATIENCE, tell, False)

    async def _leave(self, session: Any) -> None:
        """Close a session that is given up."""
        with contextlib.suppress(Exception):  # nobody waits for what comes of it
            await self._settle(session.close())
