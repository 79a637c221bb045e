"""Worker processes, and who may use them."""

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
from typing import IO, Any, Protocol

from workbench.agents.agent_host import AgentError
from workbench.agents.channel import Channel, Message
from workbench.agents.worker.recording import fingerprints
from workbench.model.results import Failure, FailureKind
from workbench.model.target import Target
from workbench.model.text import one_line

# Worker processes as the engine sees them: how one is launched, what it can be told, how it ended.

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_TO_CALL_IN = 0.2  # seconds
_ROUNDS = 20  # of the event loop: a connection takes three to be accepted and heard
_STOPPED_CHECK = 1.0  # seconds; a process that is stopped at two checks in a row is replaced
MARK = "WORKBENCH_PROCESS_GROUP"
"""The variable by which processes are found whose ancestors are gone; `worker.zygote` hides it from the records."""

_LAUNCH = Path(__file__).parent / "worker" / "launch.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a process ended. `code` is its exit status, or a signal's number negated; None where nobody knows.

    `failure` is set where we ended it, or could not start it, for a reason. `stopped`: it was stopped (SIGSTOP), or the
    process that it was forked from.
    """

    code: int | None = None
    stdout: str = ""
    stderr: str = ""
    failure: Failure | None = None
    stopped: bool = False

    def why(self) -> str:
        """How it ended, in words."""
        if self.stopped:
            return "was stopped by a signal (SIGSTOP) and then killed by workbench"
        if self.code is None:
            return "was lost"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by signal {-self.code} ({signal.Signals(-self.code).name})"
        return f"ended with exit status {self.code}"


def has_changed(environment: Mapping[str, str]) -> bool:
    """Whether the interpreter or its libraries are others than processes found, which tell it in their `hello`."""
    return any(fingerprints.of_environment(path) != found for path, found in environment.items())


class Child:
    """A process in which sessions live. Messages of a session go to whoever attached its number.

    Whoever launches it feeds it: `connected` with its connection, `exited` once. `end` completes when it is certain
    that nothing more will come from it.
    """

    def __init__(
        self,
        *,
        kill: Callable[[], None],
        ask_output: Callable[[], None],
        shared: bool,
        interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.shared = shared
        self.started: asyncio.Future[None] = loop.create_future()
        """Completes when it has said something, or never will."""
        self.end: asyncio.Future[Exit] = loop.create_future()
        self.opened = False
        """Whether the agent's modules are imported, and a session was opened."""
        self.pid: int | None = None
        self._kill = kill
        self.interrupt = interrupt
        """Has a process of one session report what it has used, and stop, whatever it is doing."""
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

    def attach(self, number: int, listener: Callable[[Message], None]) -> None:
        """Give the messages of a session to `listener`."""
        self._listeners[number] = listener

    def detach(self, number: int) -> None:
        """Drop the messages of a session."""
        self._listeners.pop(number, None)

    @property
    def sessions(self) -> int:
        """How many sessions are attached."""
        return len(self._listeners)

    def send(self, *messages: Message) -> None:
        """Send messages, or keep them until the process has called in."""
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
        """See `Stoppable.kill_stopped`."""
        self._was_stopped = True
        self.kill()

    async def output(self) -> tuple[str, str]:
        """The ends of what it has printed so far, and whatever it prints later not."""
        if self._exit is not None:
            return self._exit.stdout, self._exit.stderr
        asked = self._output
        if asked is None:
            asked = self._output = asyncio.get_running_loop().create_future()
            self._ask_output()  # some answer before this returns
        return await asked

    def connected(self, channel: Channel, hello: Message) -> None:
        """The process has called in."""
        self.pid = hello["pid"]
        self._channel = channel
        channel.on_message = self._dispatch
        channel.on_closed = self._disconnected
        if self.shared:
            self._start_is_over()
        channel.send(*self._waiting)
        self._waiting.clear()

    def told_output(self, stdout: str, stderr: str) -> None:
        """The answer to `ask_output`."""
        if self._output is not None and not self._output.done():
            self._output.set_result((stdout, stderr))
        self._output = None

    def exited(self, end: Exit) -> None:
        """The process has ended. What it sent before may still be on its way."""
        self._exit = end
        self._start_is_over()
        self.told_output(end.stdout, end.stderr)
        if self._channel is None and end.failure is None and end.code is not None:
            asyncio.get_running_loop().call_later(_TO_CALL_IN, self._await_call, _ROUNDS)
        elif self._closed or self._channel is None or end.code is None:
            self._settle()

    def _await_call(self, rounds: int) -> None:
        """It may have called in without our having noticed yet. What it sent then comes before its end.

        Where the machine is busy that is a matter of rounds of the event loop, and not of time.
        """
        if self._channel is not None:
            return
        if rounds:
            asyncio.get_running_loop().call_soon(self._await_call, rounds - 1)
        else:
            self._settle()

    def _start_is_over(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def _dispatch(self, message: Message) -> None:
        self._start_is_over()
        if message["type"] == "imported":
            self.on_imported(message)
            return
        self.opened = self.opened or message["type"] == "opened"
        listener = self._listeners.get(message.get("session", -1))
        if listener is not None:
            listener(message)

    def _disconnected(self, problem: str | None) -> None:
        self._closed = True
        if problem is not None:
            # What it sent is read after its end has been told, where it ends at once: that is the reason all the same.
            self._verdict = self._verdict or Failure(
                kind=FailureKind.CRASH, message=f"the agent's process sent {problem}"
            )
            self.kill()
        if self._exit is not None:
            self._settle()

    def _settle(self) -> None:
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
    """A process that may get stopped, by a user or another program."""

    @property
    def pid(self) -> int | None:
        """Its number; None before it has called in."""

    def kill_stopped(self) -> None:
        """End it because it is stopped. What it served fails for that reason."""


class StoppedCheck:
    """Ends processes that are stopped (SIGSTOP): they answer nothing, so that their cases would wait forever.

    It sees them on Linux only. Elsewhere the time limits of the cases apply.
    """

    def __init__(self, processes: Callable[[], Iterable[Stoppable]]) -> None:
        self._processes = processes
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to check, once."""
        if self._task is None and sys.platform == "linux":
            self._task = asyncio.create_task(self._check_repeatedly())

    def close(self) -> None:
        """Check no more."""
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
    return status.rpartition(b")")[2].split()[:1] == [b"T"]  # the name before it may hold anything


def kill_marked(mark: str) -> None:
    """Kill all processes that have this value of `MARK` in the environment they were started with (Linux)."""
    wanted = f"{MARK}={mark}".encode()
    killed: set[int] = set()
    while found := _processes_with(wanted) - killed:  # again for those that were started meanwhile
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _processes_with(variable: bytes) -> set[int]:
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names are all that is needed
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if variable in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.add(int(name))
    return found


def worker_target(target: Target) -> dict[str, Any]:
    """What a worker is told about its target."""
    return {
        "kind": str(target.kind),
        "name": target.name,
        "location": target.location,
        "path": str(target.path),
        "env_file": None if target.env_file is None else str(target.env_file),
        "sub_agent": target.sub_agent,
        "options": target.options,
    }


def command(target: Target) -> list[str]:
    """The command line of a worker process: the target's interpreter, and the worker by path."""
    return [str(target.python or sys.executable), str(_LAUNCH)]


def config_file(config: Message) -> IO[bytes]:
    """What a worker reads on stdin, as a file without a name: a pipe could fill, and arguments are seen by others."""
    file = unnamed_file()
    file.write(json.dumps(config).encode())
    file.seek(0)
    return file


def unnamed_file() -> IO[bytes]:
    """A file without a name, in memory where the system has that: the disk may be full. The caller closes it."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("workbench"), "w+b")
    return tempfile.TemporaryFile()


def start_failure(target: Target, error: OSError) -> Failure:
    """Why the interpreter could not be started."""
    interpreter = command(target)[0]
    if not target.path.is_dir():
        return setup_failure(f"the path of target {target.name!r} is no folder: {target.path}")
    if error.errno in _EXHAUSTED:
        message = f"no process can be started for target {target.name!r}: {error.strerror}"
        return Failure(kind=FailureKind.INFRASTRUCTURE, message=message)
    found = {
        FileNotFoundError: "does not exist",
        PermissionError: "may not be executed",
    }.get(type(error), f"cannot be started: {error.strerror}")
    if isinstance(error, FileNotFoundError) and Path(interpreter).exists():
        found = "needs a program that does not exist (the one that its first line names, or that loads it)"
    return setup_failure(f"the interpreter of target {target.name!r} {found}: {interpreter}")


def early_end(target: Target, *, code: int | None, stderr: str) -> Failure:
    """Why a process is gone that never called in."""
    interpreter = command(target)[0]
    last = one_line(stderr.strip().rpartition("\n")[2], width=300)
    return setup_failure(
        f"the interpreter of target {target.name!r} does not start a worker: {interpreter} "
        f"{Exit(code=code).why()}{': ' + last if last else ''}",
        stderr=stderr,
    )


def slow_import(target: Target, *, seconds: float) -> Failure:
    """The import of the agent was not over in time."""
    return setup_failure(
        f"target {target.name!r} was not ready after {seconds:g} s: the import of {target.location} takes too long"
    )


def shut_down() -> AgentError:
    """What sessions get that come too late."""
    return AgentError(Failure(kind=FailureKind.CRASH, message="the agent's processes were shut down"))


def setup_failure(message: str, *, stderr: str = "") -> Failure:
    """A failure to find, import or start the agent."""
    return Failure(kind=FailureKind.SETUP, message=message, stderr_tail=stderr or None)


# Which process a session gets: one of its own, or a place in one that serves many.


class Launcher(Protocol):
    """Makes worker processes."""

    def prepare(self, *, cases: int) -> None:
        """Start early what `cases` sessions will need."""

    def renew(self) -> bool:
        """What the agent's environment is may have changed: processes started from now on are to know it.

        Whether it has, so that those that are there may not.
        """

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process; `attach` gets it before it can say anything. Raises AgentError."""

    async def close(self) -> None:
        """End all processes."""


class Lease(Protocol):
    """How a session gets a process, and gives it back."""

    async def take(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """A process, with `messages` sent to it. Raises AgentError."""

    def give_back(self, child: Child, *, reusable: bool) -> None:
        """The session needs it no longer; `reusable` where nothing is left of the session in it."""


class OwnProcess:
    """A lease of a new process for each session, which ends with it."""

    def __init__(self, launcher: Launcher, *, role: str = "session") -> None:
        self._launcher = launcher
        self._role = role

    async def take(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """See `Lease.take`."""
        child = await self._launcher.launch(self._role, messages, attach)
        if child.shared:
            child.send(*messages)
        return child

    def give_back(self, child: Child, *, reusable: bool) -> None:  # noqa: ARG002 - never used again
        """See `Lease.give_back`. One that is for a single session has ended, or ends by itself."""
        if child.shared:
            child.kill()


class SharedProcesses:
    """A lease of processes that serve one session after another, `at_once` of them at a time.

    A process in which something of a session may be left, and after `renew` any process that has had one, gets no new
    sessions, and ends with the last it has.
    """

    def __init__(self, launcher: Launcher, *, at_once: int | None) -> None:
        self._launcher = launcher
        self._at_once = at_once
        self._processes: list[Child] = []
        self._load: dict[Child, int] = {}
        self._unused: set[Child] = set()
        self._starting: asyncio.Task[Child] | None = None

    def prepare(self) -> None:
        """Start a process where there is none, without waiting for it."""
        if not self._processes:
            self._begin_start()

    def renew(self, *, unused_too: bool) -> None:
        """Give no new sessions to the processes there are, `unused_too` also not to those that never had one."""
        for child in list(self._processes):
            if unused_too or child not in self._unused:
                self._retire(child)

    async def take(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """See `Lease.take`."""
        child = await self._free_process()
        attach(child)
        child.send(*messages)
        return child

    def give_back(self, child: Child, *, reusable: bool) -> None:
        """See `Lease.give_back`."""
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

    async def _free_process(self) -> Child:
        """A process with room, reserved for the caller."""
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
        """What starts a process; one that failed before anybody asked for it is tried again."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_heed)
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


def _heed(task: asyncio.Task[Child]) -> None:
    """Whoever needed the process is told that it could not be started; where nobody did, nobody need be."""
    if not task.cancelled():
        task.exception()
