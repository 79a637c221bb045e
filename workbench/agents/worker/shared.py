"""A process for many sessions: one event loop, and threads for functions that block.

Used for `--isolation worker`, for custom metrics, and where processes cannot be forked. Output of sessions is mixed.
The number in each message identifies the session. A thread reads messages: an answer about a tool call must arrive even
while that call blocks the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from . import faults, model_clients, model_interception, scoring, tool_interception
from .adapters.base import SpanLimit
from .agent_import import describe_environment
from .loading import enter, import_model_libraries, make_adapter, restore_path
from .model_interception import InterceptedModels
from .recording.recorder import quiet
from .tool_interception import Questions, Tools
from .wire import DependencyReporter, Wire, connect, encode, hello, remove_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .adapters.base import Adapter

_PATIENCE = 0.3  # seconds a cancelled session has to end


def run_spawned(config: dict[str, Any]) -> None:
    """Run as a spawned process: warm up, then serve until the engine is gone, whatever the agent does then."""
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
    restore_path()
    with contextlib.suppress(Exception):  # sessions get the same error and report it
        adapter.run_warmup()
    run(adapter, config, watcher=watcher)


def run(adapter: Adapter, config: dict[str, Any], *, watcher: threading.Thread | None = None) -> None:
    """Serve sessions and metrics until the engine is gone. `config` has `address`, `token` and `threads`.

    `watcher` is the thread that ends this process when the engine is gone, if there is no zygote.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    wire = Wire(config["address"])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=wire.close)  # forks of the agent must not use it
    wire.send({**hello("shared", config["token"]), "environment": describe_environment()})
    server = _Server(adapter, wire, loop, threads=config["threads"], watcher=watcher)
    server.begin()
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # raised by a task of the agent; its waiter gets it too
            continue


def _end_group() -> None:
    """End this process and all it started, immediately."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


class _Session:
    """One session, or the scoring of one metric: its request and its current work."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.questions: Questions | None = None
        self.tools: Tools | None = None
        self.models: InterceptedModels | None = None
        self.limit = SpanLimit()
        self.session: Any = None
        self.task: asyncio.Task[None] | None = None
        self.in_thread = False
        self.closing: dict[str, Any] | None = None
        """The `close` message that arrived during a turn: the turn is the last."""

    def release_calls(self) -> None:
        """End waiting calls of tools and models, because the session has ended early."""
        if self.questions is not None:
            self.questions.abandon()
        if self.tools is not None:
            tool_interception.forget(self.tools)
        if self.models is not None:
            model_interception.forget(self.models)


class _Server:
    def __init__(
        self,
        adapter: Adapter,
        wire: Wire,
        loop: asyncio.AbstractEventLoop,
        *,
        threads: int,
        watcher: threading.Thread | None,
    ) -> None:
        self._adapter = adapter
        self._wire = wire
        self._watcher = watcher
        self._loop = loop
        self._sessions: dict[int, _Session] = {}
        self._leaving: set[asyncio.Task[None]] = set()  # the loop holds only weak references
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="session")
        self._entered = False
        self._loaded: dict[str, Any] | None = None  # the failure; {} after success
        self._reporter = DependencyReporter()
        self._will_flush = False
        self._serves_metrics = False

    def begin(self) -> None:
        """Start to read messages: on the loop if nothing blocks it, which costs far less than a thread."""
        if self._adapter.waits_only:
            gc.set_threshold(20_000, 20, 100)  # all objects are ours, and few are garbage
            with contextlib.suppress(NotImplementedError):  # the loop of Windows
                self._loop.add_reader(self._wire.fileno(), self._read)
                return
        with quiet:
            threading.Thread(target=self._listen, name="workbench-listener", daemon=True).start()

    def _read(self) -> None:
        is_there = self._wire.fill()
        for message in self._wire.take_received():
            self._loop.call_soon(self._handle_message, message)
        if not is_there:
            self._end_process()

    def _listen(self) -> None:
        while (message := self._wire.receive()) is not None:
            if message["type"] == "answer":
                item = self._sessions.get(message["session"])
                if item is not None and item.questions is not None:
                    item.questions.receive(message)
            else:
                self._loop.call_soon_threadsafe(self._handle_message, message)
        self._end_process()

    def _end_process(self) -> None:
        """End the process, because the engine is gone."""
        if self._watcher is not None:
            self._watcher.join(_PATIENCE)  # it removes the socket first
        _end_group()

    def _send(self, message: dict[str, Any]) -> None:
        if self._serves_metrics or not self._adapter.waits_only:
            with contextlib.suppress(OSError):  # the engine is gone, and this process soon
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

    def _queue_dependencies(self, number: int, *, complete: bool = False) -> None:
        """Queue a report of the new dependencies of a session, if there are any."""
        message = self._reporter.build_message(number, complete=complete)
        if complete or message["rows"] or message["tainted"]:
            self._wire.queue(message)

    def _handle_message(self, message: dict[str, Any]) -> None:
        kind, number = message["type"], message["session"]
        if kind in ("open", "score"):
            self._reporter.add_agent_writes(message)
        if kind == "open":
            opened = self._sessions[number] = _Session(message)
            if message.get("tools") or message.get("models"):
                opened.questions = Questions(number, self._send)
            if opened.questions is not None and message.get("tools"):
                opened.tools = Tools(opened.questions, message["tools"])
            if opened.questions is not None and message.get("models"):
                opened.models = InterceptedModels(opened.questions, message["models"], self._adapter)
                model_clients.open_session(opened.models)
            return
        if kind == "score":
            self._sessions[number] = _Session(message)
        item = self._sessions.get(number)
        if item is None:  # it has failed or was cancelled
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
        model_interception.enter(item.models)  # the task gets a copy of the context
        item.task = self._loop.create_task(self._answer_safely(work(item, message), item, message))

    async def _answer_safely(self, work: Any, item: _Session, message: dict[str, Any]) -> None:
        """Do one thing for a session and answer, whatever happens."""
        answer = {"session": message["session"], "turn": message.get("turn")}
        whose = "the metric" if message["type"] == "score" else "the agent"
        try:
            self._answer(item, answer, await work)
            if item.closing is not None and self._sessions.get(message["session"]) is item:
                closing, item.closing = item.closing, None
                await self._answer_safely(self._close(item, closing), item, closing)
        except asyncio.CancelledError as error:
            if self._sessions.get(message["session"]) is not item:
                return  # by the engine
            self._fail(answer, faults.describe_failure(error, raised_by=whose))
        except BaseException as error:  # including sys.exit
            self._fail(answer, faults.describe_failure(error, raised_by=whose))

    def _answer(self, item: _Session, answer: dict[str, Any], result: dict[str, Any] | None) -> None:
        """Send the result of a turn, unless the session is over or was answered already."""
        if self._sessions.get(answer["session"]) is item and result is not None:
            for span in filter(None, map(item.limit.admit, result.pop("spans", ()))):
                self._wire.queue({"type": "span", "session": answer["session"], "span": span})
            self._queue_dependencies(answer["session"])
            self._send({"type": "finished", **answer, "result": result})

    def _fail(self, answer: dict[str, Any], failure: dict[str, Any]) -> None:
        item = self._sessions.pop(answer["session"], None)
        if item is not None:
            item.release_calls()
            self._queue_dependencies(answer["session"], complete=True)
            self._send({"type": "failed", **answer, **failure})

    async def _turn(self, item: _Session, message: dict[str, Any]) -> dict[str, Any] | None:
        if not await self._is_open(item, message["session"]):
            return None
        arguments = (message["content"], message["turn"])
        if self._adapter.blocking:
            return await self._run_in_thread(item, item.session.turn, *arguments)  # type: ignore[no-any-return]
        return await self._settle(item.session.turn(*arguments))  # type: ignore[no-any-return]

    async def _is_open(self, item: _Session, number: int) -> bool:
        """Open the session if necessary; return False if that failed."""
        if item.session is None:
            if not self._load():
                self._fail({"session": number, "turn": None}, dict(self._loaded or {}))
                return False
            if item.models is not None:
                import_model_libraries(self._adapter)
                self._adapter.intercept_models()
            emit = self._make_span_sender(number, item.limit)
            item.session = await self._settle(self._adapter.open(item.request, emit, item.tools))
            self._queue_dependencies(number)
            self._send({"type": "opened", "session": number})
        return True

    async def _describe(self, item: _Session, message: dict[str, Any]) -> dict[str, Any] | None:
        if not await self._is_open(item, message["session"]):
            return None
        return item.session.describe()  # type: ignore[no-any-return]

    async def _state(self, item: _Session, _: dict[str, Any]) -> dict[str, Any] | None:
        return {"state": await self._settle(item.session.state())}

    async def _close(self, item: _Session, message: dict[str, Any]) -> dict[str, Any] | None:
        result: dict[str, Any] = await self._settle(item.session.close())
        if self._sessions.get(message["session"]) is not item:
            return None
        self._end(message["session"], result)
        return None

    async def _score(self, item: _Session, message: dict[str, Any]) -> dict[str, Any] | None:
        self._enter()
        if not self._serves_metrics:
            self._serves_metrics = True
            self._adapter.prepare_for_metrics()
        metric = scoring.find(message["function"], self._adapter)
        if metric.is_async:
            result = await self._settle(metric.score(message))
        else:
            result = await self._run_in_thread(item, metric.score, message)
        if self._sessions.get(message["session"]) is item:
            self._end(message["session"], result)
        return None

    def _end(self, number: int, result: dict[str, Any]) -> None:
        """Send the result of a session and forget the session."""
        self._queue_dependencies(number, complete=True)
        self._send({"type": "finished", "session": number, "result": result})
        models = self._sessions.pop(number).models
        if models is not None:
            model_interception.forget(models)

    def _enter(self) -> None:
        if not self._entered:
            enter(self._adapter)
            self._entered = True

    def _load(self) -> bool:
        """Import the agent, once for all sessions; return False if that failed."""
        if self._loaded is None:
            try:
                self._enter()
                self._adapter.load()
                self._loaded = {}
            except BaseException as error:  # including sys.exit
                self._loaded = faults.describe_failure(error, loading=True)
        return not self._loaded

    async def _run_in_thread(self, item: _Session, call: Callable[..., Any], *arguments: Any) -> Any:
        item.in_thread = True
        try:
            context = contextvars.copy_context()
            value = await self._loop.run_in_executor(self._pool, context.run, call, *arguments)
        finally:
            item.in_thread = False
        return await self._settle(value)

    async def _settle(self, value: Any) -> Any:
        return await value if hasattr(type(value), "__await__") else value

    def _make_span_sender(self, number: int, limit: SpanLimit) -> Callable[[dict[str, Any]], None]:
        def emit(span: dict[str, Any]) -> None:
            admitted = limit.admit(span)
            if admitted is not None:
                self._send({"type": "span", "session": number, "span": admitted})

        return emit

    def _cancel(self, number: int, item: _Session) -> None:
        """End a session, and report whether it really ended: a thread cannot be stopped, and a task may refuse."""
        del self._sessions[number]
        self._queue_dependencies(number, complete=True)
        item.release_calls()
        task = item.task
        is_reported = False

        def tell(clean: bool) -> None:
            nonlocal is_reported
            if not is_reported:
                is_reported = True
                self._send({"type": "cancelled", "session": number, "clean": clean})

        if item.in_thread:
            tell(False)
            return
        if task is not None and not task.done():
            task.cancel()
        elif item.session is not None:  # between turns: close it, so that its resources are released
            task = self._loop.create_task(self._close_abandoned(item.session))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        else:
            tell(True)
            return
        task.add_done_callback(lambda _: tell(True))
        self._loop.call_later(_PATIENCE, tell, False)

    async def _close_abandoned(self, session: Any) -> None:
        with contextlib.suppress(Exception):  # the result is not needed
            await self._settle(session.close())
