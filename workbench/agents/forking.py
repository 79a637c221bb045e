"""Processes forked from a zygote (Linux): one start of the interpreter and of the framework serves all cases.

The first zygote imports nothing. Where many cases come, others are forked from it that import what the children would
all import: first the framework, then what a first child, the scout, told that it imported. Children come from the
latest. A zygote that turns out to be unsafe (a package starts threads) is dropped and made again without that package.
The other side is `worker.zygote`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO, Any

from workbench.agents.channel import Channel, Listener, Message
from workbench.agents.host import AgentError
from workbench.agents.processes import (
    Child,
    Exit,
    command,
    config_file,
    early_end,
    shut_down,
    start_failure,
    unnamed_file,
    worker_target,
)
from workbench.agents.worker import dotenv
from workbench.agents.worker.loading import make_adapter
from workbench.agents.zygotes import Layer, Zygote
from workbench.model.target import AgentKind, Target

_Call = tuple[Channel, Message]

_GRACE = 5.0  # seconds a zygote has to end before it is killed


class ForkLauncher:
    """Makes the processes of one target by forking. With `layers`, zygotes that import what many cases need."""

    def __init__(
        self, target: Target, listener: Listener, *, start_timeout: float, concurrency: int, layers: bool
    ) -> None:
        self._target = target
        self._listener = listener
        self._start_timeout = start_timeout
        self._concurrency = concurrency
        self._layers = layers
        self._slots = asyncio.Semaphore(len(os.sched_getaffinity(0)))  # starting more at once only delays all
        self._processes: list[subprocess.Popen[bytes]] = []
        self._zygotes: list[Zygote] = []
        self._current: asyncio.Task[Zygote] | None = None
        self._todo: list[Layer] = []
        self._learned: list[Layer] = []
        self._scouted = False
        self._excluded: set[str] = set()
        self._scouting: asyncio.Future[None] | None = None
        self._expected = 0  # cases that were announced and have not come yet
        self._waiting = 0  # launches that have no process yet
        self._number = 0
        self._generation = 0
        self._defined: frozenset[str] = frozenset()
        self._closed = False

    def renew(self) -> bool:
        """Where `.env` files define other variables than before, begin again with a zygote that imports nothing.

        Libraries that were imported early may have looked at one of them. What has a process goes on in it. See
        `leases.Launcher.renew`.
        """
        if self._current is None or self._defined_now() == self._defined:
            return False
        self._generation += 1
        self._current, self._todo, self._learned, self._scouted = None, [], [], False
        self._close_retired()
        return True

    def _defined_now(self) -> frozenset[str]:
        with contextlib.suppress(OSError):
            return frozenset(dotenv.effective(make_adapter(worker_target(self._target)).env_files(), {}))
        return frozenset()

    def _close_retired(self) -> None:
        """End generations of zygotes that serve no case any more."""
        for generation in {zygote.generation for zygote in self._zygotes} - {self._generation}:
            members = [zygote for zygote in self._zygotes if zygote.generation == generation]
            if not any(zygote.busy for zygote in members):
                for zygote in members:
                    zygote.retire()
                    self._zygotes.remove(zygote)
        self._processes = [process for process in self._processes if process.poll() is None]

    def prepare(self, *, cases: int) -> None:
        """Start the interpreter now, and have imported what many cases need."""
        self._expected = cases
        self._begin()

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process for a `session` or `shared` by many. `attach` gets it before it can say anything.

        Raises AgentError.
        """
        self._expected = max(self._expected - 1, 0)
        self._waiting += 1
        try:
            if self._current is None:
                await asyncio.sleep(0)  # lets those that come at the same time be counted
            async with self._slot() as slot:
                scouts = role == "session" and self._layers and await self._scout_or_wait()
                try:
                    zygote = await self._zygote()
                    child = self._fork(zygote, role, messages=messages, scout=scouts, threads=self._concurrency)
                except BaseException:  # the next one is to be the scout, whyever this one is not
                    if scouts:
                        self._end_scouting()
                    raise
                slot.keep_until(child.started)
                if scouts:
                    child.on_imported = self._learn
                    child.started.add_done_callback(lambda _: self._end_scouting())
                attach(child)
                return child
        finally:
            self._waiting -= 1

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[_Slot]:
        await self._slots.acquire()
        slot = _Slot(self._slots)
        try:
            yield slot
        finally:
            slot.leave()

    def _fork(self, zygote: Zygote, role: str, **more: Any) -> Child:
        self._number += 1
        token = self._listener.token()
        child = zygote.fork(self._number, {"role": role, "token": token, **more}, shared=role == "shared")
        self._listener.expect(token, child.connected)
        child.on_exit.append(lambda _: self._listener.forget(token))
        child.on_exit.append(lambda _: self._close_retired())
        return child

    async def _scout_or_wait(self) -> bool:
        """Whether this child is the scout. Until the scout has told what it imports, the others wait."""
        while not self._scouted:
            if self._scouting is None:
                self._scouting = asyncio.get_running_loop().create_future()
                return True
            await asyncio.shield(self._scouting)
        return False

    def _learn(self, message: Message) -> None:
        """What the scout told: once when it was ready, once at its end."""
        self._scouted = True
        if message["imports"] or message["sources"]:
            layer = Layer(
                imports=tuple(message["imports"]),
                sources=tuple(message["sources"]),
                environment=tuple(message["environment"]),
            )
            self._learned.append(layer)
            self._todo.append(layer)

    def _end_scouting(self) -> None:
        if self._scouting is not None:
            self._scouting.set_result(None)
            self._scouting = None

    async def _zygote(self) -> Zygote:
        """The zygote to fork from now."""
        while True:
            try:
                zygote = await asyncio.shield(self._begin())
            except asyncio.CancelledError:
                if self._closed:
                    raise shut_down() from None
                raise
            if zygote.alive:
                return zygote
            self._current = None  # killed: start again from nothing

    def _begin(self) -> asyncio.Task[Zygote]:
        """Have the zygote made that is needed and not there."""
        if self._closed:
            raise shut_down()
        if self._current is None or _has_failed(self._current):
            self._defined = self._defined_now()
            self._current = asyncio.create_task(self._start_root())
            framework = [Layer(framework=True)] if self._target.kind == AgentKind.ADK else []
            self._todo = framework + self._learned
        if self._todo and self._layers and (self._expected + self._waiting > 1 or self._number):
            self._current = asyncio.create_task(self._grow(self._current, self._todo))
            self._todo = []
        return self._current

    async def _grow(self, base: asyncio.Task[Zygote], layers: list[Layer]) -> Zygote:
        zygote = await base
        for layer in layers:
            if zygote.generation != self._generation:  # nobody waits for it any more
                break
            zygote = await self._fork_zygote(zygote, layer)
        return zygote

    async def _fork_zygote(self, base: Zygote, layer: Layer) -> Zygote:
        """A zygote with one layer more; the one below where that cannot be: children meet the trouble themselves."""
        while base.alive:
            ready: asyncio.Future[_Call | None] = asyncio.get_running_loop().create_future()
            token = self._listener.token()
            self._listener.expect(token, _resolver(ready))
            self._number += 1
            child = base.fork(
                self._number,
                {
                    "role": "zygote",
                    "token": token,
                    "warm": layer.framework,
                    "imports": layer.imports,
                    "sources": layer.sources,
                    "environment": layer.environment,
                    "excluded": sorted(self._excluded),
                },
            )
            child.on_exit.append(_none_resolver(ready))
            try:
                async with asyncio.timeout(self._start_timeout):
                    call = await ready
            except TimeoutError:
                child.kill()
                return base
            finally:
                self._listener.forget(token)
            if call is None:
                return base
            channel, hello = call
            if "unsafe" not in hello:
                return self._adopt(channel, hello, generation=base.generation)
            self._excluded.add(hello["unsafe"])
        return base

    def _adopt(self, channel: Channel, hello: Message, *, generation: int) -> Zygote:
        zygote = Zygote(channel, hello["pid"], generation=generation)
        self._zygotes.append(zygote)
        return zygote

    async def _start_root(self) -> Zygote:
        """Start the target's interpreter. Raises AgentError."""
        generation = self._generation
        ready: asyncio.Future[_Call | None] = asyncio.get_running_loop().create_future()
        if not self._listener.address:
            await self._listener.start()
        token = self._listener.token()
        self._listener.expect(token, _resolver(ready))
        config = {
            "role": "zygote",
            "address": self._listener.address,
            "token": token,
            "target": worker_target(self._target),
        }
        try:
            with unnamed_file() as stderr:
                process = self._spawn(config, stderr)
                try:
                    channel, hello = await self._first_words(process, ready, stderr)
                except asyncio.CancelledError:  # closed before it was there
                    _kill_group(process)
                    raise
        finally:
            self._listener.forget(token)
        return self._adopt(channel, hello, generation=generation)

    def _spawn(self, config: Message, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            with config_file(config) as stdin:
                process = subprocess.Popen(
                    command(self._target),
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    cwd=self._target.path,
                    start_new_session=True,  # Ctrl-C in the terminal is for the engine
                )
        except OSError as error:
            raise AgentError(start_failure(self._target, error)) from error
        self._processes.append(process)
        return process

    async def _first_words(
        self, process: subprocess.Popen[bytes], ready: asyncio.Future[_Call | None], stderr: IO[bytes]
    ) -> _Call:
        """Wait until the process calls in. Raises AgentError where it ends or takes too long."""
        deadline = asyncio.get_running_loop().time() + self._start_timeout
        while True:
            await asyncio.wait([ready], timeout=0.02)
            call = ready.result() if ready.done() else None
            if call is not None:
                return call
            code = process.poll()
            if code is None and asyncio.get_running_loop().time() < deadline:
                continue
            if code is None:
                _kill_group(process)
            stderr.seek(0)
            text = stderr.read()[-16_384:].decode("utf-8", "replace")
            raise AgentError(early_end(self._target, code=code, stderr=text), stderr_tail=text)

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        if self._current is not None:
            self._current.cancel()
        for zygote in self._zygotes:
            zygote.close()
        await asyncio.gather(*(self._end(process) for process in self._processes))

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a zygote has ended all that is below it and itself."""
        for _ in range(int(_GRACE / 0.005)):
            if process.poll() is not None:
                return
            await asyncio.sleep(0.005)
        _kill_group(process)
        process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it has started: the interpreter may be a script, and Python run below that."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


class _Slot:
    """A place among those that start at the same time: given back when what started is ready."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._kept = False

    def keep_until(self, ready: asyncio.Future[Any]) -> None:
        """Leave when `ready` is done, and not before."""
        self._kept = True
        ready.add_done_callback(lambda _: self._slots.release())

    def leave(self) -> None:
        """Leave now, unless it is kept."""
        if not self._kept:
            self._slots.release()


def _resolver(ready: asyncio.Future[_Call | None]) -> Callable[[Channel, Message], None]:
    def resolve(channel: Channel, hello: Message) -> None:
        if not ready.done():
            ready.set_result((channel, hello))

    return resolve


def _none_resolver(ready: asyncio.Future[_Call | None]) -> Callable[[Exit], None]:
    def resolve(_: Exit) -> None:
        if not ready.done():
            ready.set_result(None)

    return resolve


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
