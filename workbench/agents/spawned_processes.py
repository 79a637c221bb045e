"""Processes started anew, where forking is not safe (macOS) or not available (Windows).

A start costs an interpreter and the import of the framework. One process is therefore always kept ready, and processes
serve case after case (see `SharedProcesses`). The other side is `worker.shared`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from workbench.agents.agent_host import AgentError
from workbench.agents.channel import Channel, ChannelListener, Message
from workbench.agents.processes import (
    Child,
    Exit,
    StoppedCheck,
    describe_early_end,
    describe_start_failure,
    has_changed,
    has_failed,
    make_shutdown_error,
    open_config_file,
    resolve,
    wait_for_start,
    worker_command,
    worker_target,
)
from workbench.model.target import Target

_TAIL = 16_384  # bytes of output kept for each stream


class _Spawned(asyncio.SubprocessProtocol):
    """One process: collects the tails of its output, and reports to `child` how it ended."""

    def __init__(self) -> None:
        self._tails = {1: b"", 2: b""}
        self._transport: asyncio.SubprocessTransport | None = None
        self._open = 2
        self._ended = False
        self.gone = asyncio.get_running_loop().create_future()
        self.child = Child(kill=self.kill, ask_output=self._report_output, shared=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._tails[fd] = (self._tails[fd] + data)[-_TAIL:]

    def process_exited(self) -> None:
        assert self._transport is not None
        self._kill_group()  # its children may keep the pipes open
        asyncio.get_running_loop().call_later(0.1, self._end)

    def connection_lost(self, _: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ended and self._transport is not None:
            self._ended = True
            code = self._transport.get_returncode()
            self._transport.close()
            self.child.set_exit(Exit(code=code, stdout=self._decode_tail(1), stderr=self._decode_tail(2)))
            self.gone.set_result(None)

    def _decode_tail(self, fd: int) -> str:
        return self._tails[fd].decode("utf-8", "replace")

    def _report_output(self) -> None:
        self.child.set_output(self._decode_tail(1), self._decode_tail(2))

    def kill(self) -> None:
        """End the process and what it started."""
        if self._transport is None or self._transport.get_returncode() is not None:
            return
        if sys.platform == "win32":
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()
        else:  # the transport's own kill makes the event loop lose the exit status
            self._kill_group()

    def _kill_group(self) -> None:
        if sys.platform != "win32" and self._transport is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)


class SpawnLauncher:
    """Starts the processes of one target, each with its own interpreter."""

    def __init__(self, target: Target, listener: ChannelListener, *, start_timeout: float, concurrency: int) -> None:
        self._target = target
        self._listener = listener
        self._start_timeout = start_timeout
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(os.cpu_count() or 1)  # starting more at once only delays all
        self._all: set[_Spawned] = set()
        self._spare: asyncio.Task[Child] | None = None
        self._stopped_check = StoppedCheck(lambda: [spawned.child for spawned in self._all])
        self._environment: dict[str, str] = {}  # what a process found or imported of libraries, by path
        self._closed = False

    async def explain_imports(self) -> list[str]:
        """Return nothing: no process is forked from one that has imported something."""
        return []

    def renew(self) -> bool:
        """Drop the spare process if other packages are installed. See `Launcher.renew`."""
        if not has_changed(self._environment):
            return False
        self._environment = {}
        if self._spare is not None:
            self._spare.add_done_callback(_kill)
            self._spare = None
        return True

    def prepare(self, *, cases: int) -> None:
        """Keep one process ready."""
        if cases:
            self._ensure_spare()

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Return a process that is ready, and start another. See `Launcher.launch`."""
        assert role == "shared" and not messages
        while True:
            self._ensure_spare()
            assert self._spare is not None
            spare = self._spare
            child = await wait_for_start(spare, is_closed=lambda: self._closed)
            if self._spare is spare:
                self._spare = None
                if not child.end.done():
                    break
        attach(child)
        self._ensure_spare()
        return child

    def _ensure_spare(self) -> None:
        if self._closed:
            raise make_shutdown_error()
        if self._spare is None or has_failed(self._spare):
            self._spare = asyncio.create_task(self._spawn())

    async def _spawn(self) -> Child:
        """Start a process and wait until it has warmed up. Raises AgentError."""
        if not self._listener.address:
            await self._listener.start()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        token = self._listener.token()
        spawned = _Spawned()
        self._listener.expect(token, lambda channel, hello: self._greet(spawned.child, ready, channel, hello))
        config = {
            "role": "shared",
            "address": self._listener.address,
            "token": token,
            "target": worker_target(self._target),
            "threads": self._concurrency,
        }
        async with self._slots:
            try:
                await self._start(spawned, config)
            except BaseException:  # it will not connect
                self._listener.forget(token)
                raise
            spawned.gone.add_done_callback(lambda _: self._listener.forget(token))
            ends: list[asyncio.Future[Any]] = [ready, spawned.child.end]
            try:
                await asyncio.wait(ends, timeout=self._start_timeout, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                spawned.kill()
                raise
        if not ready.done():
            spawned.kill()
            end = spawned.child.end.result() if spawned.child.end.done() else Exit()
            raise AgentError(describe_early_end(self._target, code=end.code, stderr=end.stderr), stderr_tail=end.stderr)
        return spawned.child

    async def _start(self, spawned: _Spawned, config: Message) -> None:
        try:
            with open_config_file(config) as stdin:
                await asyncio.get_running_loop().subprocess_exec(
                    lambda: spawned,
                    *worker_command(self._target),
                    stdin=stdin,
                    cwd=self._target.path,
                    start_new_session=True,
                )
        except OSError as error:
            raise AgentError(describe_start_failure(self._target, error)) from error
        self._all.add(spawned)
        self._stopped_check.start()
        spawned.gone.add_done_callback(lambda _: self._all.discard(spawned))

    async def close(self) -> None:
        self._closed = True
        self._stopped_check.close()
        if self._spare is not None:
            self._spare.cancel()
            await asyncio.wait([self._spare])
        for spawned in list(self._all):
            spawned.kill()
        if self._all:
            await asyncio.wait([spawned.gone for spawned in self._all], timeout=5.0)

    def _greet(self, child: Child, ready: asyncio.Future[None], channel: Channel, hello: Message) -> None:
        """Take its two connections: one whose end tells it that the engine is gone, and one for messages."""
        if hello["role"] == "shared":
            self._environment = {**hello["environment"], **self._environment}  # the first state counts
            child.attach_channel(channel, hello)
            resolve(ready, None)


def _kill(starting: asyncio.Task[Child]) -> None:
    """End a process that will not be used."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().kill()
