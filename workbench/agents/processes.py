"""Worker processes, and how sessions acquire them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from workbench.agents.agent_host import AgentError
from workbench.agents.channel import Channel, Message
from workbench.agents.worker.recording import fingerprints
from workbench.model.results import Failure, FailureKind
from workbench.model.target import Target
from workbench.model.text import one_line

T = TypeVar("T")

# One worker process: commands, output, end.

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_TO_CALL_IN = 0.2  # seconds
_ROUNDS = 20  # of the event loop; a connection needs three
_STOPPED_CHECK = 1.0  # seconds; a process that is stopped at two checks in a row is replaced
MARK = "WORKBENCH_PROCESS_GROUP"
"""The variable that identifies processes whose ancestors are gone; `worker.zygote` keeps it out of the records."""

_LAUNCH = Path(__file__).parent / "worker" / "launch.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """The end of a process. `code` is its exit status, a negated signal number, or None if unknown.

    `failure` is set if we ended it, or could not start it, for a reason. `stopped`: it, or the process that forked it,
    was stopped (SIGSTOP). `lost`: its machine was lost.
    """

    code: int | None = None
    stdout: str = ""
    stderr: str = ""
    failure: Failure | None = None
    stopped: bool = False
    lost: bool = False

    def describe(self) -> str:
        if self.stopped:
            return "was stopped by a signal (SIGSTOP) and then killed by workbench"
        if self.code is None:
            return "was lost"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by signal {-self.code} ({signal.Signals(-self.code).name})"
        return f"ended with exit status {self.code}"


def has_changed(environment: Mapping[str, str]) -> bool:
    """Return True if the interpreter or its libraries differ from what processes reported in their `hello`."""
    return any(fingerprints.of_environment(path) != found for path, found in environment.items())


class Child:
    """A process in which sessions run. Messages of a session go to the listener attached for its number.

    The launcher calls `attach_channel` when it connects and `set_exit` once. `end` completes when no more data can
    come.
    """

    def __init__(
        self,
        *,
        kill: Callable[[], None],
        ask_output: Callable[[], None],
        shared: bool,
        interrupt: Callable[[], None] = lambda: None,
        node: str | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.shared = shared
        self.node = node
        """The node of a cluster on which it runs; None on this machine."""
        self.started: asyncio.Future[None] = loop.create_future()
        """Completes when it has sent something, or never will."""
        self.end: asyncio.Future[Exit] = loop.create_future()
        self.opened = False
        """True when the agent's modules are imported and a session was opened."""
        self.pid: int | None = None
        self._kill = kill
        self.interrupt = interrupt
        """Makes a process of one session report its dependencies and stop at once."""
        self._ask_output = ask_output
        self._channel: Channel | None = None
        self._closed = False
        self._waiting: list[Message] = []
        self._exit: Exit | None = None
        self._output: asyncio.Future[tuple[str, str]] | None = None
        self._verdict: Failure | None = None
        self._was_stopped = False
        self._listeners: dict[int, Callable[[Message], None]] = {}
        self.on_exit: list[Callable[[Exit], None]] = []
        self.on_imported: Callable[[Message], None] = lambda _: None
        self.on_conflict: Callable[[Message], None] = lambda _: None

    def attach(self, number: int, listener: Callable[[Message], None]) -> None:
        """Deliver the messages of a session to `listener`."""
        self._listeners[number] = listener

    def detach(self, number: int) -> None:
        """Drop the messages of a session."""
        self._listeners.pop(number, None)

    @property
    def sessions(self) -> int:
        return len(self._listeners)

    def send(self, *messages: Message) -> None:
        """Send messages, or keep them until the process has connected."""
        if self._channel is None:
            self._waiting.extend(messages)
        else:
            self._channel.send(*messages)

    def kill(self, failure: Failure | None = None) -> None:
        """End the process and all it started. With `failure` its sessions fail for that reason."""
        if self._exit is None:
            self._verdict = self._verdict or failure
            self._kill()

    def kill_stopped(self) -> None:
        self._was_stopped = True
        self.kill()

    async def output(self) -> tuple[str, str]:
        """Return the tails of its output so far."""
        if self._exit is not None:
            return self._exit.stdout, self._exit.stderr
        asked = self._output
        if asked is None:
            asked = self._output = asyncio.get_running_loop().create_future()
            self._ask_output()  # some launchers answer before this returns
        return await asked

    def attach_channel(self, channel: Channel, hello: Message) -> None:
        """Take the connection of the process."""
        self.pid = hello["pid"]
        self._channel = channel
        channel.on_message = self._dispatch
        channel.on_closed = self._handle_disconnect
        if self.shared:
            resolve(self.started, None)
        channel.send(*self._waiting)
        self._waiting.clear()

    def set_output(self, stdout: str, stderr: str) -> None:
        """Take the answer to `ask_output`."""
        if self._output is not None:
            resolve(self._output, (stdout, stderr))
        self._output = None

    def set_exit(self, end: Exit) -> None:
        """Note that the process has ended. Messages that it sent may still arrive."""
        self._exit = end
        resolve(self.started, None)
        self.set_output(end.stdout, end.stderr)
        if self._channel is None and end.failure is None and end.code is not None:
            asyncio.get_running_loop().call_later(_TO_CALL_IN, self._await_connection, _ROUNDS)
        elif self._closed or self._channel is None or end.code is None:
            self._complete_end()

    def _await_connection(self, rounds: int) -> None:
        """Wait some rounds of the event loop for a connection that is not noticed yet. Its messages precede the end.

        Rounds are counted instead of time, because the machine may be busy.
        """
        if self._channel is not None:
            return
        if rounds:
            asyncio.get_running_loop().call_soon(self._await_connection, rounds - 1)
        else:
            self._complete_end()

    def _dispatch(self, message: Message) -> None:
        resolve(self.started, None)
        if message["type"] == "imported":
            self.on_imported(message)
            return
        if message["type"] == "conflict":
            self.on_conflict(message)
        self.opened = self.opened or message["type"] == "opened"
        listener = self._listeners.get(message.get("session", -1))
        if listener is not None:
            listener(message)

    def _handle_disconnect(self, problem: str | None) -> None:
        self._closed = True
        if problem is not None:
            # Its last message may be read after its end; it is still the reason.
            self._verdict = self._verdict or Failure(
                kind=FailureKind.CRASH, message=f"the agent's process sent {problem}"
            )
            self.kill()
        if self._exit is not None:
            self._complete_end()

    def _complete_end(self) -> None:
        if self.end.done() or self._exit is None:
            return
        end = self._exit
        if self._channel is not None:
            self._channel.close()
        if self._verdict is not None:
            end = replace(end, failure=self._verdict)
        if self._was_stopped:
            end = replace(end, stopped=True)
        self.end.set_result(end)
        for listener in list(self.on_exit):
            listener(end)


class Stoppable(Protocol):
    """A process that a user or another program may stop (SIGSTOP)."""

    @property
    def pid(self) -> int | None:
        """Its process id; None before it has connected."""

    def kill_stopped(self) -> None:
        """End it because it is stopped. Its sessions fail for that reason."""


class StoppedCheck:
    """Ends stopped processes (SIGSTOP), whose cases would wait forever.

    It detects them only on Linux. Elsewhere the time limits of the cases apply.
    """

    def __init__(self, processes: Callable[[], Iterable[Stoppable]]) -> None:
        self._processes = processes
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None and sys.platform == "linux":
            self._task = asyncio.create_task(self._check_repeatedly())

    def close(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()

    async def _check_repeatedly(self) -> None:
        suspects: set[int] = set()
        while True:
            await asyncio.sleep(_STOPPED_CHECK)
            found = [(item, item.pid) for item in self._processes() if item.pid is not None and _is_stopped(item.pid)]
            for item, pid in found:
                if pid in suspects:
                    item.kill_stopped()
            suspects = {pid for _, pid in found}


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # it has ended
        return False
    return status.rpartition(b")")[2].split()[:1] == [b"T"]  # the name before it may contain anything


def kill_marked(mark: str) -> None:
    """Kill all processes that were started with this value of `MARK` (Linux)."""
    wanted = f"{MARK}={mark}".encode()
    killed: set[int] = set()
    while found := _find_processes(wanted) - killed:  # repeat for processes started meanwhile
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _find_processes(variable: bytes) -> set[int]:
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names are all that is needed
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if variable in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.add(int(name))
    return found


def worker_target(target: Target) -> dict[str, Any]:
    """Return what a worker needs to know about its target."""
    return {
        "kind": str(target.kind),
        "name": target.name,
        "location": target.location,
        "path": str(target.path),
        "env_file": None if target.env_file is None else str(target.env_file),
        "sub_agent": target.sub_agent,
        "options": target.options,
    }


def worker_command(target: Target) -> list[str]:
    """Return the command line of a worker: the target's interpreter and the path of the worker."""
    return [str(target.python or sys.executable), str(_LAUNCH)]


def open_config_file(config: Message) -> IO[bytes]:
    """Return the stdin of a worker as an unnamed file: a pipe may fill up, and others can read arguments."""
    file = open_unnamed_file()
    file.write(json.dumps(config).encode())
    file.seek(0)
    return file


def open_unnamed_file() -> IO[bytes]:
    """Open an unnamed file, in memory if possible because the disk may be full. The caller closes it."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("workbench"), "w+b")
    return tempfile.TemporaryFile()


def describe_start_failure(target: Target, error: OSError) -> Failure:
    """Return why the interpreter could not be started."""
    interpreter = worker_command(target)[0]
    if not target.path.is_dir():
        return make_setup_failure(f"the path of target {target.name!r} is not a folder: {target.path}")
    if error.errno in _EXHAUSTED:
        message = f"no process can be started for target {target.name!r}: {error.strerror}"
        return Failure(kind=FailureKind.INFRASTRUCTURE, message=message)
    found = {
        FileNotFoundError: "does not exist",
        PermissionError: "may not be executed",
    }.get(type(error), f"cannot be started: {error.strerror}")
    if isinstance(error, FileNotFoundError) and Path(interpreter).exists():
        found = "needs a program that does not exist (named in its first line, or its loader)"
    return make_setup_failure(f"the interpreter of target {target.name!r} {found}: {interpreter}")


def describe_early_end(target: Target, *, code: int | None, stderr: str) -> Failure:
    """Return why a process ended before it connected."""
    interpreter = worker_command(target)[0]
    last = one_line(stderr.strip().rpartition("\n")[2], width=300)
    return make_setup_failure(
        f"the interpreter of target {target.name!r} does not start a worker: {interpreter} "
        f"{Exit(code=code).describe()}{': ' + last if last else ''}",
        stderr=stderr,
    )


def describe_slow_import(target: Target, *, seconds: float) -> Failure:
    """Return the failure for an import of the agent that takes too long."""
    return make_setup_failure(
        f"target {target.name!r} was not ready after {seconds:g} s: the import of {target.location} takes too long"
    )


def make_shutdown_error() -> AgentError:
    """Return the error for sessions that are opened during shutdown."""
    return AgentError(Failure(kind=FailureKind.CRASH, message="the agent's processes were shut down"))


def make_setup_failure(message: str, *, stderr: str = "") -> Failure:
    """Return a failure to find, import or start the agent."""
    return Failure(kind=FailureKind.SETUP, message=message, stderr_tail=stderr or None)


# Leases: a process of its own for a session, or a place in a shared one.


class Launcher(Protocol):
    """Starts worker processes."""

    def prepare(self, *, cases: int) -> None:
        """Start early what `cases` sessions will need."""

    def renew(self) -> bool:
        """Start new processes in the current environment of the agent. Return True if the environment changed."""

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process; `attach` gets it before it can send anything. Raises AgentError.

        A `session` begins with `messages`. To a `shared` process the caller sends its messages itself.
        """

    async def explain_imports(self) -> list[str]:
        """See `AgentHost.explain_imports`."""

    async def close(self) -> None:
        """End all processes."""


class Lease(Protocol):
    """How a session acquires a process and releases it."""

    async def acquire(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Return a process that got `messages`. Raises AgentError."""

    def release(self, child: Child, *, reusable: bool) -> None:
        """Release the process; `reusable` if nothing of the session is left in it."""


class OwnProcess:
    """A lease of a new process for each session, which ends with it."""

    def __init__(self, launcher: Launcher, *, role: str = "session") -> None:
        self._launcher = launcher
        self._role = role

    async def acquire(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        if self._role == "session":
            return await self._launcher.launch("session", messages, attach)
        child = await self._launcher.launch("shared", (), attach)
        child.send(*messages)
        return child

    def release(self, child: Child, *, reusable: bool) -> None:  # noqa: ARG002 - never used again
        """See `Lease.release`. A process for a single session ends by itself."""
        if child.shared:
            child.kill()


class SharedProcesses:
    """A lease of processes that serve one session after another, `at_once` of them at a time.

    A process that may contain remains of a session gets no new sessions and ends with its last one. So does, after
    `renew`, any process that has served a session.
    """

    def __init__(self, launcher: Launcher, *, at_once: int | None) -> None:
        self._launcher = launcher
        self._at_once = at_once
        self._processes: list[Child] = []
        self._load: dict[Child, int] = {}
        self._unused: set[Child] = set()
        self._starting: asyncio.Task[Child] | None = None

    def prepare(self) -> None:
        """Start a process unless one exists, without waiting for it."""
        if not self._processes:
            self._begin_start()

    def renew(self, *, unused_too: bool) -> None:
        """Stop giving new sessions to existing processes; with `unused_too` also to those that never served one."""
        for child in list(self._processes):
            if unused_too or child not in self._unused:
                self._retire(child)

    async def acquire(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        child = await self._acquire_free_process()
        attach(child)
        child.send(*messages)
        return child

    def release(self, child: Child, *, reusable: bool) -> None:
        self._load[child] -= 1
        if not reusable or child not in self._processes:
            self._retire(child)

    def _retire(self, child: Child) -> None:
        if child in self._processes:
            self._processes.remove(child)
        if not self._load[child]:
            del self._load[child]
            self._unused.discard(child)
            child.kill()

    async def _acquire_free_process(self) -> Child:
        """Return a process with a free place, reserved for the caller."""
        while True:
            for child in self._processes:
                if self._at_once is None or self._load[child] < self._at_once:
                    self._load[child] += 1
                    self._unused.discard(child)
                    return child
            starting = self._begin_start()
            try:
                await asyncio.shield(starting)
            finally:
                if self._starting is starting and starting.done():
                    self._starting = None

    def _begin_start(self) -> asyncio.Task[Child]:
        """Return the task that starts a process. A start that failed earlier is repeated."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(retrieve_exception)
        return self._starting

    async def _start(self) -> Child:
        child = await self._launcher.launch("shared", (), lambda _: None)
        self._load[child] = 0
        self._unused.add(child)
        self._processes.append(child)
        child.on_exit.append(lambda _: self._forget(child))
        return child

    def _forget(self, child: Child) -> None:
        if child in self._processes:
            self._retire(child)


def resolve(future: asyncio.Future[T], value: T) -> None:
    """Set the result of a future, unless it has one or its waiter was cancelled."""
    if not future.done():
        future.set_result(value)


def has_failed(task: asyncio.Task[Any]) -> bool:
    """Return True if a task ended without a result."""
    return task.done() and (task.cancelled() or task.exception() is not None)


async def wait_for_start(task: asyncio.Task[T], *, is_closed: Callable[[], bool]) -> T:
    """Wait for a start that others may wait for, too. Raises AgentError if a shutdown cancelled it."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if is_closed():
            raise make_shutdown_error() from None
        raise


def retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception so that asyncio does not warn; waiters receive it themselves."""
    if not task.cancelled():
        task.exception()
