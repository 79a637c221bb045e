"""Processes forked from a process that has the agent imported (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

from workbench.agents.agent_host import AgentError
from workbench.agents.channel import Channel, ChannelListener, Message
from workbench.agents.processes import (
    MARK,
    Child,
    Exit,
    Stoppable,
    StoppedCheck,
    describe_early_end,
    describe_slow_import,
    describe_start_failure,
    has_changed,
    has_failed,
    kill_marked,
    make_shutdown_error,
    open_config_file,
    open_unnamed_file,
    resolve,
    retrieve_exception,
    wait_for_start,
    worker_command,
    worker_target,
)
from workbench.agents.worker import dotenv
from workbench.agents.worker.loading import find_shadowed_names, make_adapter
from workbench.model.results import Failure, FailureKind
from workbench.model.target import AgentKind, Target

# A zygote as the engine sees it. The other side is `worker.zygote`.


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """Imports of one zygote beyond those of its parent. `framework`: also the adapter's preloads and its warm-up."""

    framework: bool = False
    imports: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Files of the agent, compiled early and never run."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables that the agent sets, None for removed ones: modules that read another value are not imported early."""

    def without(self, other: Layer) -> Layer:
        """Return what this one has beside another."""
        imports, sources = set(other.imports), set(other.sources)
        return replace(
            self,
            imports=tuple([name for name in self.imports if name not in imports]),
            sources=tuple([path for path in self.sources if path not in sources]),
        )

    def __or__(self, other: Layer) -> Layer:
        return replace(
            self,
            imports=self.imports + other.imports,
            sources=self.sources + other.sources,
            environment={**self.environment, **other.environment},
        )


class Zygote:
    """A zygote that is ready: forks children on request and reports how they ended."""

    def __init__(self, channel: Channel, pid: int, *, generation: int, agent: int | None = None) -> None:
        self._channel = channel
        self.pid = pid
        self.generation = generation
        self.agent = agent
        """The number of the import of the agent that it holds; None if it holds none."""
        self.busy = 0
        """Number of its children that serve cases."""
        self._children: dict[int, Child] = {}
        self._checks: deque[asyncio.Future[bool]] = deque()
        self.alive = True
        self._was_stopped = False
        self.on_lost: Callable[[], None] = lambda: None
        channel.on_message = self._handle_message
        channel.on_closed = lambda _: self._handle_loss()

    def fork(self, number: int, message: Message, *, shared: bool = False) -> Child:
        """Fork a child for the role in `message`."""
        child = Child(
            shared=shared,
            kill=lambda: self._channel.send({"type": "kill", "child": number}),
            interrupt=lambda: self._channel.send({"type": "interrupt", "child": number}),
            ask_output=lambda: self._channel.send({"type": "output", "child": number}),
        )
        self._children[number] = child
        if message["role"] != "zygote":
            self.busy += 1
            child.on_exit.append(self._count_finished)
        self._channel.send({"type": "start", "child": number, **message})
        return child

    async def is_current(self) -> bool:
        """Return True if everything that the import of the agent read is unchanged; False if the zygote is gone."""
        if not self.alive:
            return False
        checked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._checks.append(checked)
        self._channel.send({"type": "check"})
        return await checked

    @property
    def children(self) -> Collection[Child]:
        """Its children that have not ended."""
        return list(self._children.values())

    def kill_stopped(self) -> None:
        self._was_stopped = True
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the connection, which ends it and all its children."""
        self._channel.close()

    def retire(self) -> None:
        """End it while the engine continues. It forks no more."""
        self.alive = False
        self._channel.send({"type": "end"})

    def _count_finished(self, _: Exit) -> None:
        self.busy -= 1

    def _handle_message(self, message: Message) -> None:
        if message["type"] == "checked":
            resolve(self._checks.popleft(), message["current"])
            return
        child = self._children.get(message["child"])
        if child is None:
            return
        if message["type"] == "output":
            child.set_output(message["stdout"], message["stderr"])
            return
        del self._children[message["child"]]
        error = message.get("error")
        if error is not None:
            child.set_exit(Exit(failure=Failure(kind=FailureKind.INFRASTRUCTURE, message=error)))
        else:
            child.set_exit(Exit(code=message["code"], stdout=message["stdout"], stderr=message["stderr"]))

    def _handle_loss(self) -> None:
        """The zygote and its children are gone. Kill the process groups that they may have left."""
        self.alive = False
        while self._checks:
            resolve(self._checks.popleft(), False)
        for child in self._children.values():
            if child.pid is not None:
                with contextlib.suppress(OSError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.set_exit(Exit(stopped=self._was_stopped))
        self._children.clear()
        self.on_lost()


# The launcher: the interpreter and the framework start once for all cases.

_Call = tuple[Channel, Message]
T = TypeVar("T")

_GRACE = 5.0  # seconds a zygote has to end before it is killed
_STARTS_THREAD = "starts a thread"  # a reason of the worker
_PATIENCE = 10.0  # seconds for threads of a library to end: offline LiteLLM asks for prices three times
_AGENT_IMPORTS = 3  # imports for a session while files change, before it imports the agent itself


class ForkLauncher:
    """Forks the processes of one target. With `layers`, further zygotes import what many cases need."""

    def __init__(
        self,
        target: Target,
        listener: ChannelListener,
        *,
        start_timeout: float,
        concurrency: int,
        layers: bool,
        home: Path | None = None,
    ) -> None:
        """`home` is the target's path on the engine's machine, if the process runs on a node of a cluster."""
        self._target = target
        self._home = home or target.path
        self._listener = listener
        self._start_timeout = start_timeout
        self._concurrency = concurrency
        self._layers = layers
        self._slots = asyncio.Semaphore(len(os.sched_getaffinity(0)))  # starting more at once only delays all
        self._processes: list[subprocess.Popen[bytes]] = []
        self._marks: dict[int, str] = {}  # by process id
        self._zygotes: list[Zygote] = []
        self._current: asyncio.Task[Zygote] | None = None
        self._growing: asyncio.Task[Zygote] | None = None  # replaces the current one when it is ready
        self._learned = Layer()
        self._todo = Layer()  # what of it no zygote has yet
        self._scouted = False
        self._excluded: dict[str, str] = {}  # packages, and why each case imports them itself
        self._set_by_agent: dict[str, str | None] = {}  # variables that libraries read before the agent set them
        self._scouting: asyncio.Future[None] | None = None
        self._expected = 0  # announced cases that have not started yet
        self._waiting = 0  # launches without a process yet
        self._number = 0
        self._generation = 0
        self._agent: asyncio.Task[Zygote | None] | None = None  # the import of the agent for all sessions
        self._agent_number = 0
        self._unshared = ""  # why each case imports the agent itself
        self._agent_is_scouted = False
        self._importing = asyncio.Lock()  # held by the import of an agent: an outdated one ends before the next
        self._defined: dict[str, str] = {}  # variables of `.env` files
        self._shadowed: frozenset[str] = frozenset()
        self._names: set[str] = set()  # of modules that zygotes have imported
        self._is_shadowed = False  # whether one of these is the agent's own in the agent's process
        self._environment: dict[str, str] = {}  # what zygotes found or imported of libraries, by path
        self._stopped_check = StoppedCheck(self._iter_processes)
        self._closed = False

    def renew(self) -> bool:
        """Import the agent again for new sessions.

        Start again with an empty zygote if other packages are installed, if variables of `.env` files changed, or if
        the names that the agent's folders shadow changed: libraries imported early may be outdated, or may have read
        one of these. Running sessions keep their processes. See `Launcher.renew`.
        """
        self._forget_agent()
        if self._current is None or not (
            has_changed(self._environment)
            or self._read_defined_variables() != self._defined
            or not (self._find_shadowed_names() ^ self._shadowed).isdisjoint(self._names)
        ):
            return False
        self._start_anew()
        return True

    def _start_anew(self, *, set_by_agent: Mapping[str, str | None] | None = None) -> None:
        """Forget what was imported early. Running sessions keep their processes.

        Libraries that read one of the variables `set_by_agent` are not imported early again.
        """
        self._set_by_agent = {**self._set_by_agent, **set_by_agent} if set_by_agent else {}
        self._environment, self._names, self._is_shadowed = {}, set(), False
        self._generation += 1
        self._unshared, self._excluded = "", {}
        self._current, self._growing, self._todo, self._learned, self._scouted = None, None, Layer(), Layer(), False
        self._forget_agent()

    def _read_defined_variables(self) -> dict[str, str]:
        with contextlib.suppress(OSError):
            return dotenv.effective(make_adapter(worker_target(self._target)).env_files(), {})
        return {}

    def _find_shadowed_names(self) -> frozenset[str]:
        """Return the names of modules in the agent's folders: they replace libraries of the same name."""
        with contextlib.suppress(OSError):
            return frozenset(find_shadowed_names(make_adapter(worker_target(self._target)).import_roots()))
        return frozenset()

    def _forget_agent(self) -> None:
        """Import the agent again before the next session. Running sessions keep their processes."""
        self._agent = None
        self._agent_number += 1
        self._agent_is_scouted = False
        self._close_retired()

    def _close_retired(self) -> None:
        """End zygotes of earlier generations, and of earlier imports of the agent, that serve no cases."""
        groups = {(zygote.generation, zygote.agent) for zygote in self._zygotes}
        for generation, agent in groups:
            if generation == self._generation and agent in (None, self._agent_number):
                continue
            members = [
                zygote
                for zygote in self._zygotes
                if zygote.generation == generation and (agent is None or zygote.agent == agent)
            ]
            if not any(zygote.busy for zygote in members):
                for zygote in members:
                    self._retire(zygote)
        self._forget_ended()

    def _retire(self, zygote: Zygote) -> None:
        zygote.retire()
        self._zygotes.remove(zygote)

    def _forget_ended(self) -> None:
        """Forget root zygotes that have ended. Kill the remaining descendants of one that was killed."""
        ended = [process for process in self._processes if process.poll() is not None]
        self._processes = [process for process in self._processes if process not in ended]
        for process in ended:
            mark = self._marks.pop(process.pid)
            if process.returncode:
                kill_marked(mark)

    def prepare(self, *, cases: int) -> None:
        """Start the interpreter now, and import what many cases need."""
        self._expected = cases
        self._ensure_zygote()
        if self._is_for_many:
            self._start_growing()

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process for a `session`, or one `shared` by many. `attach` gets it before it can send anything.

        Raises AgentError.
        """
        self._expected = max(self._expected - 1, 0)
        self._waiting += 1
        try:
            if self._current is None:
                await asyncio.sleep(0)  # so that simultaneous launches are counted
            is_replaying = any(message.get("models") for message in messages)  # it may never ask a model itself
            is_shared = role == "session" and self._layers
            zygote = await self._get_agent_zygote(waits=not is_replaying) if is_shared else None
            await self._slots.acquire()  # the import above needs no slot: others start meanwhile
            try:
                if zygote is not None and zygote.alive:
                    child = self._fork_from_agent(zygote, messages)
                else:
                    child = await self._fork_alone(role, messages)
            except BaseException:  # also if it is cancelled: nothing was started that would release the slot
                self._slots.release()
                raise
            child.started.add_done_callback(lambda _: self._slots.release())
            attach(child)
            return child
        finally:
            self._waiting -= 1

    def _fork_from_agent(self, zygote: Zygote, messages: Sequence[Message]) -> Child:
        """Fork a session with the agent imported. The first one reports its late imports."""
        scouts, self._agent_is_scouted = not self._agent_is_scouted, True
        child = self._fork(zygote, "session", messages=messages, scout=scouts)
        if scouts:
            child.on_imported = lambda message: self._learn_late(zygote, message)
        return child

    async def _fork_alone(self, role: str, messages: Sequence[Message]) -> Child:
        """Fork a process that imports the agent itself."""
        scouts = role == "session" and self._layers and await self._become_scout_or_wait()
        try:
            zygote = await self._get_zygote()
            child = self._fork(zygote, role, messages=messages, scout=scouts, threads=self._concurrency)
        except BaseException:  # the next child is the scout
            if scouts:
                self._end_scouting()
            raise
        if scouts:
            child.on_imported = lambda message: self._learn(zygote, message)
            child.started.add_done_callback(lambda _: self._end_scouting())
        return child

    def _fork(self, zygote: Zygote, role: str, **more: Any) -> Child:
        self._number += 1
        token = self._listener.token()
        child = zygote.fork(self._number, {"role": role, "token": token, **more}, shared=role == "shared")
        self._listener.expect(token, child.attach_channel)
        child.on_conflict = lambda message: self._handle_conflict(zygote, message["conflict"])
        child.on_exit.append(lambda _: self._listener.forget(token))
        child.on_exit.append(lambda _: self._handle_child_exit())
        return child

    def _handle_child_exit(self) -> None:
        self._close_retired()
        if not (self._closed or self._is_for_many or any(zygote.busy for zygote in self._zygotes)):
            self._start_growing()  # the next run finds it ready

    async def _become_scout_or_wait(self) -> bool:
        """Return True if this child is the scout. Others wait until the scout has reported its imports."""
        while not self._scouted:
            if self._scouting is None:
                self._scouting = asyncio.get_running_loop().create_future()
                return True
            await asyncio.shield(self._scouting)
        return False

    def _learn(self, zygote: Zygote, message: Message) -> None:
        """Take a report of a scout below a zygote, which it sends when it is ready and at its end."""
        if zygote.generation == self._generation:
            self._scouted = True
            self._learn_layer(message)

    def _learn_layer(self, message: Message) -> Layer:
        """Plan a zygote for imports that none has yet. Each is a lasting process, and agents are edited often."""
        layer = _parse_layer(message)
        new = layer.without(self._learned)
        if new.imports or new.sources:
            self._learned |= new
            self._todo |= new
        return layer

    def _learn_late(self, zygote: Zygote, message: Message) -> None:
        """Take the late imports of a session: new sessions find them done."""
        if not message["imports"] or zygote.generation != self._generation:
            return
        layer = self._learn_layer(message)
        # Variables that are set late are not set yet in the zygote.
        if self._agent is not None and zygote.agent == self._agent_number and not layer.environment:
            self._agent = self._watch(self._grow_agent(self._agent, layer.imports))

    async def _grow_agent(self, base: asyncio.Task[Zygote | None], imports: Sequence[str]) -> Zygote | None:
        zygote = await asyncio.shield(base)
        return None if zygote is None else await self._fork_zygote(zygote, Layer(imports=tuple(imports)))

    async def _get_agent_zygote(self, *, even_for_one: bool = False, waits: bool = True) -> Zygote | None:
        """Return the zygote with the current agent; None if each session has to import it. Raises AgentError.

        `waits` says whether sessions wait for a library that the agent imports at its first call.
        """
        for _ in range(_AGENT_IMPORTS):
            if self._agent is None:
                if self._unshared or not (self._is_for_many or even_for_one):
                    return None
                self._agent = self._watch(self._import_agent(waits=waits))
            agent = self._agent
            try:
                zygote = await wait_for_start(agent, is_closed=lambda: self._closed)
            except AgentError as error:
                if error.failure.kind == FailureKind.INFRASTRUCTURE and self._agent is agent:
                    self._agent = None  # the next session tries again
                raise
            if (zygote is None and self._agent is agent) or (zygote is not None and await zygote.is_current()):
                return zygote
            if self._agent is agent:
                self._forget_agent()
        return None

    async def _import_agent(self, *, waits: bool) -> Zygote | None:
        """Return a zygote that has imported the agent; None if it cannot be shared. Raises AgentError."""
        number = self._agent_number
        async with self._importing:
            while number == self._agent_number:
                base = await self._get_zygote()
                call = await self._call_zygote(base, {"agent": True})
                if call is None:  # it died: each session gets the same error and reports it
                    return None
                channel, hello = call
                if "conflict" in hello:
                    self._handle_conflict(base, hello["conflict"])
                    return None
                if "unshared" in hello:
                    if hello["imported"] is not None:
                        self._unshared = hello["unshared"]
                        self._learn(base, hello["imported"])
                    return None
                zygote = self._adopt(channel, hello, generation=base.generation, agent=number)
                if base.generation == self._generation:
                    self._learn_layer(hello["imported"])
                growing = self._start_growing() if hello["imported"]["late"] else None
                if growing is None:
                    return zygote
                if not waits:  # sessions that begin later find the library imported
                    growing.add_done_callback(lambda _: self._forget_agent() if number == self._agent_number else None)
                    return zygote
                # Each session would import a large library at its first call: once below the agent is sooner for all.
                self._retire(zygote)
                await wait_for_start(growing, is_closed=lambda: self._closed)
        return None

    def _handle_conflict(self, zygote: Zygote, variables: Mapping[str, str | None]) -> None:
        """Import libraries anew, without those that read variables which the agent sets now."""
        if zygote.generation == self._generation:
            self._start_anew(set_by_agent=variables)

    def _end_scouting(self) -> None:
        if self._scouting is not None:
            self._scouting.set_result(None)
            self._scouting = None

    @property
    def _is_for_many(self) -> bool:
        return self._expected + self._waiting > 1

    async def _get_zygote(self) -> Zygote:
        """Return the zygote to fork from now. Many sessions wait for one that has imported more."""
        while True:
            if self._current is not None and self._read_defined_variables() != self._defined:
                self._start_anew()
            current = self._ensure_zygote()
            growing = self._start_growing() if self._is_for_many else None
            zygote = await wait_for_start(growing or current, is_closed=lambda: self._closed)
            if not zygote.alive:  # killed: start a new one, unless another session has
                if self._current in (current, growing):
                    self._current = self._growing = None
            elif await zygote.is_current():
                return zygote
            elif zygote.generation == self._generation:
                self._start_anew()

    def _ensure_zygote(self) -> asyncio.Task[Zygote]:
        """Start the interpreter, and import the framework, unless that was done."""
        if self._closed:
            raise make_shutdown_error()
        if self._current is None or has_failed(self._current):
            self._defined, self._shadowed = self._read_defined_variables(), self._find_shadowed_names()
            self._current, self._growing, self._todo = self._watch(self._start_root()), None, self._learned
            if self._target.kind == AgentKind.ADK and self._layers:
                # A single session imports the framework as well; the session of the next run then does not.
                self._current = self._watch(self._grow(self._current, Layer(framework=True)))
        return self._current

    def _start_growing(self) -> asyncio.Task[Zygote] | None:
        """Begin to import what was learned, in one more zygote, and return it; None if nothing is missing.

        Until it is ready, a single session does not wait.
        """
        base, todo = self._growing or self._current, self._todo
        if base is not None and (todo.imports or todo.sources) and self._layers and not self._is_shadowed:
            self._growing, self._todo = self._watch(self._grow(base, todo)), Layer()
            self._growing.add_done_callback(self._use_grown)
        return self._growing

    def _use_grown(self, grown: asyncio.Task[Zygote]) -> None:
        if grown is self._growing:
            self._growing = None
            if not has_failed(grown):
                self._current = grown
                if self._unshared:  # what stood in the way may be imported now
                    self._unshared, self._agent = "", None

    @staticmethod
    def _watch(start: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that may fail after its last waiter is gone."""
        task = asyncio.create_task(start)
        task.add_done_callback(retrieve_exception)
        return task

    async def _grow(self, base: asyncio.Task[Zygote], layer: Layer) -> Zygote:
        zygote = await base
        is_wanted = zygote.generation == self._generation and not self._is_shadowed
        return await self._fork_zygote(zygote, layer) if is_wanted else zygote

    async def _fork_zygote(self, base: Zygote, layer: Layer) -> Zygote:
        """Fork a zygote with one more layer; return `base` if that fails, because children then report the problem."""
        while base.alive:
            wanted = {
                "agent": False,
                "warm": layer.framework,
                "imports": layer.imports,
                "sources": layer.sources,
                "environment": {**self._set_by_agent, **layer.environment},
                "excluded": sorted(self._excluded),
                "patience": 0.0 if _STARTS_THREAD in self._excluded.values() else _PATIENCE,
            }
            try:
                call = await self._call_zygote(base, wanted)
            except AgentError:  # it took too long
                return base
            if call is None:
                return base
            channel, hello = call
            if "conflict" in hello:
                self._handle_conflict(base, hello["conflict"])
                return base
            if "unsafe" not in hello:
                zygote = self._adopt(channel, hello, generation=base.generation, agent=base.agent)
                is_wrong = not layer.framework and self._has_wrong_libraries(zygote, hello)
                return base if is_wrong else zygote
            self._excluded[hello["unsafe"]] = hello["reason"]
        return base

    def _has_wrong_libraries(self, zygote: Zygote, hello: Message) -> bool:
        """Return True, and end the zygote, if its libraries use modules that the agent's folders replace.

        A framework is imported before the agent's folders count, as by its own tools.
        """
        if zygote.agent is not None or zygote.generation != self._generation:
            return False
        self._names.update(hello["names"])
        self._is_shadowed = not self._shadowed.isdisjoint(hello["names"])
        if self._is_shadowed:
            self._retire(zygote)
        return self._is_shadowed

    async def _call_zygote(self, base: Zygote, wanted: Message) -> _Call | None:
        """Fork a zygote and wait for its hello; None if it died. Raises AgentError if it takes too long."""
        ready: asyncio.Future[_Call | None] = asyncio.get_running_loop().create_future()
        token = self._listener.token()
        self._listener.expect(token, lambda channel, hello: resolve(ready, (channel, hello)))
        self._number += 1
        child = base.fork(self._number, {"role": "zygote", "token": token, **wanted})
        child.on_exit.append(lambda _: resolve(ready, None))
        try:
            async with asyncio.timeout(self._start_timeout):
                return await ready
        except TimeoutError:
            child.kill()
            raise AgentError(describe_slow_import(self._target, seconds=self._start_timeout)) from None
        finally:
            self._listener.forget(token)

    def _adopt(self, channel: Channel, hello: Message, *, generation: int, agent: int | None = None) -> Zygote:
        if generation == self._generation:
            self._environment = {**hello["environment"], **self._environment}  # the first state counts
        zygote = Zygote(channel, hello["pid"], generation=generation, agent=agent)
        self._zygotes.append(zygote)
        return zygote

    async def _start_root(self) -> Zygote:
        """Start the target's interpreter. Raises AgentError."""
        generation = self._generation
        ready: asyncio.Future[_Call | None] = asyncio.get_running_loop().create_future()
        if not self._listener.address:
            await self._listener.start()
        token = self._listener.token()
        self._listener.expect(token, lambda channel, hello: resolve(ready, (channel, hello)))
        config = {
            "role": "zygote",
            "address": self._listener.address,
            "token": token,
            "target": worker_target(self._target),
            "home": str(self._home),
        }
        try:
            with open_unnamed_file() as stderr:
                process = self._spawn(config, stderr)
                try:
                    channel, hello = await self._await_hello(process, ready, stderr)
                except asyncio.CancelledError:  # closed before it connected
                    _kill_group(process)
                    raise
        finally:
            self._listener.forget(token)
        zygote = self._adopt(channel, hello, generation=generation)
        mark = self._marks[process.pid]
        zygote.on_lost = lambda: self._handle_root_loss(zygote, mark)
        return zygote

    def _handle_root_loss(self, zygote: Zygote, mark: str) -> None:
        """Kill the descendants of a killed root: processes that left their group outlive it."""
        if not self._closed and zygote in self._zygotes:  # otherwise it ends everything itself
            kill_marked(mark)

    def _spawn(self, config: Message, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        mark = secrets.token_hex(16)
        try:
            with open_config_file(config) as stdin:
                process = subprocess.Popen(
                    worker_command(self._target),
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    cwd=self._target.path,
                    env={**os.environ, MARK: mark},
                    start_new_session=True,  # Ctrl-C in the terminal must reach only the engine
                )
        except OSError as error:
            raise AgentError(describe_start_failure(self._target, error)) from error
        self._processes.append(process)
        self._marks[process.pid] = mark
        self._stopped_check.start()
        return process

    def _iter_processes(self) -> Iterator[Stoppable]:
        for zygote in self._zygotes:
            if zygote.alive:
                yield zygote
                yield from zygote.children

    async def _await_hello(
        self, process: subprocess.Popen[bytes], ready: asyncio.Future[_Call | None], stderr: IO[bytes]
    ) -> _Call:
        """Wait until the process connects. Raises AgentError if it ends or takes too long."""
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
            raise AgentError(describe_early_end(self._target, code=code, stderr=text), stderr_tail=text)

    async def explain_imports(self) -> list[str]:
        """See `AgentHost.explain_imports`."""
        await self._get_agent_zygote(even_for_one=True, waits=False)
        growing = self._start_growing()
        if growing is not None:
            await wait_for_start(growing, is_closed=lambda: self._closed)
            await self._get_agent_zygote(even_for_one=True)
        libraries = [f"{name} is not imported early: its import {reason}" for name, reason in self._excluded.items()]
        if self._is_shadowed:
            names = ", ".join(sorted(self._shadowed & self._names))
            libraries.append(f"no library is imported early: files of the agent have names that libraries use: {names}")
        return [*libraries, *([f"each case imports the agent: {self._unshared}"] if self._unshared else [])]

    async def close(self) -> None:
        self._closed = True
        self._stopped_check.close()
        tasks = [task for task in (self._current, self._growing, self._agent) if task is not None]
        for task in tasks:
            task.cancel()
        for zygote in self._zygotes:
            zygote.close()
        await asyncio.gather(*(self._end(process) for process in self._processes))
        await asyncio.gather(*tasks, return_exceptions=True)  # waiting sessions get the same exceptions
        self._forget_ended()

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a zygote has ended everything below it and itself."""
        for _ in range(int(_GRACE / 0.005)):
            if process.poll() is not None:
                return
            await asyncio.sleep(0.005)
        _kill_group(process)
        process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it has started: the interpreter may be a script that runs Python."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _parse_layer(message: Message) -> Layer:
    """Return the layer for imports that were reported."""
    return Layer(
        imports=(*message["imports"], *message["late"]),
        sources=tuple(message["sources"]),
        environment=message["environment"],
    )
