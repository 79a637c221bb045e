"""Agents on the nodes of a Ray cluster: the connection, and the launcher of processes there.

Sessions stay with the engine. A process on a node is a `Child` like a local one; an actor on the node (`ray_node`)
starts it and passes its messages on. Ray places the actors, carries the messages and the project, and notices lost
nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import platform
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import __version__
from workbench.agents import ray_node
from workbench.agents.agent_host import AgentError
from workbench.agents.channel import PROTOCOL, Channel, Message, encode
from workbench.agents.processes import (
    Child,
    Exit,
    make_setup_failure,
    make_shutdown_error,
    retrieve_exception,
    worker_target,
)
from workbench.agents.ray_project import ProjectFile, Shipment, list_project, pack_project, read_content
from workbench.agents.worker import dotenv
from workbench.agents.worker.loading import make_adapter
from workbench.model.installation import install_command
from workbench.model.results import Failure, FailureKind
from workbench.model.target import Target
from workbench.model.text import one_line, pluralise

if TYPE_CHECKING:
    from workbench.store.settings import RaySettings

# The connection to the cluster: one for a process, because Ray has only one.

_CONNECT_SECONDS = 30.0
_PROBE_SECONDS = 3.0
_AUTO_CONNECT = "RAY_ENABLE_AUTO_CONNECT"  # read when Ray is imported
_MOST_DIRECT = 4_000_000
"""Bytes that hosts get as changed files: only without a package Ray uses a process that is ready."""


class RayCluster:
    """The cluster of the settings, with the project in its package store. Connected on first use."""

    def __init__(self, root: Path, settings: RaySettings) -> None:
        self.root = root
        self.settings = settings
        self._connecting: asyncio.Task[None] | None = None
        self._packed: Mapping[str, ProjectFile] = {}
        self._is_connected = False
        self.pinned: str | None = None
        """The id of the node that gets all actors; None if Ray places them."""

    async def describe_nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """Ask each node for its name and versions, by its id; `lacks` are resources that hosts claim.

        Raises AgentError.
        """
        await self.connect()
        import ray
        from ray.exceptions import RayError

        ask = ray.remote(ray_node.describe_node)
        nodes = await asyncio.to_thread(list_nodes)
        answers = [ask.options(num_cpus=0, scheduling_strategy=_pin(node["NodeID"])).remote() for node in nodes]
        try:
            found = zip(nodes, await asyncio.gather(*map(_wait_for, answers)), strict=True)
        except RayError as error:
            raise AgentError(_describe_failed_actor(error)) from error
        resources = self.settings.resources
        return {node["NodeID"]: {**description, "lacks": _list_lacking(node, resources)} for node, description in found}

    def pin(self, node: str) -> RayCluster:
        """Return the connected cluster for hosts on one node."""
        pinned = copy.copy(self)
        pinned.pinned = node
        return pinned

    async def connect(self) -> None:
        """Connect, unless connected. Raises AgentError; the next call after `forget_failure` tries again."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(asyncio.to_thread(self._connect))
            self._connecting.add_done_callback(retrieve_exception)
        await asyncio.shield(self._connecting)

    def forget_failure(self) -> None:
        """Let the next call of `connect` try again if the last one failed."""
        if self._connecting is not None and self._connecting.done() and self._connecting.exception() is not None:
            self._connecting = None

    async def list_project(self) -> Shipment:
        """List the project as it is now. Raises AgentError."""
        files = await asyncio.to_thread(list_project, self.root, self.settings.excludes)
        return Shipment(files=files, packed=self._packed)

    async def close(self) -> None:
        """Disconnect. Actors end with the connection."""
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
        if self._is_connected:
            import ray

            self._is_connected = False
            await asyncio.to_thread(ray.shutdown)

    def _connect(self) -> None:
        ray = import_ray()
        if ray.is_initialized():
            raise AgentError(make_setup_failure("this process is already connected to a Ray cluster; disconnect it"))
        files = list_project(self.root, self.settings.excludes)
        address = self.settings.address
        if (problem := _probe(address)) is not None:
            raise AgentError(_make_connection_failure(address, problem))
        environment = dict(self.settings.shipped_environment)
        is_packed = bool(environment) or sum(file.size for file in files.values()) > _MOST_DIRECT
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            if is_packed:
                package = Path(folder) / "project.zip"
                pack_project(self.root, list(files), package)
                environment["working_dir"] = str(package)
            try:
                ray.init(
                    address=address,
                    runtime_env=environment or None,
                    namespace="workbench",
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                )
            except Exception as error:  # Ray raises errors of many kinds without a common class
                raise AgentError(_make_connection_failure(address, str(error))) from error
        self._is_connected = True
        self._packed = files if is_packed else {}


def import_ray() -> Any:
    """Import Ray without its messages. Raises AgentError if the extra is missing."""
    connects = os.environ.get(_AUTO_CONNECT)
    os.environ[_AUTO_CONNECT] = "0"  # else a call without a connection starts a cluster
    try:
        import ray
    except ImportError:
        raise AgentError(make_setup_failure(f"the executor ray needs an extra: {install_command('ray')}")) from None
    finally:
        del os.environ[_AUTO_CONNECT]
        if connects is not None:
            os.environ[_AUTO_CONNECT] = connects
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    logging.getLogger("ray.util.client.logsclient").disabled = True  # has a level of its own
    with contextlib.suppress(AttributeError):  # private: no setting prevents that it prints about lost nodes to stdout
        ray._private.worker._worker_logs_enabled = False
    ray.cloudpickle.register_pickle_by_value(ray_node)  # so that a node without workbench can say so
    return ray


def _probe(address: str) -> str | None:
    """Return why nothing listens at an address; Ray itself would wait for a minute."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS).close()
    except OSError as error:
        return f"{error.strerror or error}"
    return None


def _make_connection_failure(address: str, problem: str) -> Failure:
    if "version mismatch" in problem.lower():
        text = f"the Ray cluster at {address!r} needs the same versions: {one_line(problem, width=400)}"
        return make_setup_failure(text)
    reason = one_line(problem, width=300).rstrip(".")
    return make_setup_failure(
        f"no Ray cluster at {address!r}: {reason}. Start one (`ray start --head`), or set address in [run.ray]"
    )


# The processes on one node.


class _Wire(asyncio.Transport):
    """The engine's end of the connection of one process, whose messages an actor passes on."""

    def __init__(self, node: _Node, number: int) -> None:
        super().__init__()
        self._node = node
        self._number = number

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._node.command("messages", self._number, bytes(data))

    def abort(self) -> None:
        """The process is killed by its own command."""

    def pause_reading(self) -> None:
        self._node.paused.add(self._number)

    def resume_reading(self) -> None:
        self._node.paused.discard(self._number)
        self._node.resumed.set()


@dataclass(slots=True)
class _Process:
    """A process on the node: while it is launched `attach` waits for it."""

    child: Child
    channel: Channel
    launched: asyncio.Future[None]
    attach: Callable[[Child], None]


class _Node:
    """The host of one target on one node. Commands are sent one call after another, and events received likewise."""

    def __init__(self, actor: Any, description: Mapping[str, Any], on_lost: Callable[[_Node], None]) -> None:
        self._actor = actor
        self.id = str(description["id"])
        self.name = str(description["node"])
        self._cpus = int(description["cpus"])
        self._on_lost = on_lost
        self._numbers = 0
        self._processes: dict[int, _Process] = {}
        self._commands: list[ray_node.News] = []
        self._sending: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._updating = asyncio.Lock()
        self._sent: Mapping[str, ProjectFile] | None = None
        self._current: Shipment | None = None
        self.paused: set[int] = set()
        """Processes whose messages wait, because the engine is slower."""
        self.resumed = asyncio.Event()
        self.is_lost = False
        self._loss = Failure(kind=FailureKind.INFRASTRUCTURE, message=f"node {self.name} of the Ray cluster was lost")

    @property
    def load(self) -> float:
        """Processes for each CPU."""
        return len(self._processes) / self._cpus

    async def update(self, root: Path, shipment: Shipment) -> None:
        """Let new processes run this state of the project. Raises AgentError if the node is lost."""
        async with self._updating:
            if self._current is shipment:
                return
            sent, files = self._sent, shipment.files
            known = shipment.packed if sent is None else sent
            contents = {
                name: (file.mode, file.changed_at, None if sent is None and known.get(name) == file else file)
                for name, file in files.items()
                if sent is None or known.get(name) != file
            }
            changed = await asyncio.to_thread(
                lambda: {
                    name: (mode, at, None if file is None or name.endswith("/") else read_content(root / name))
                    for name, (mode, at, file) in contents.items()
                }
            )
            removed = [] if sent is None else [name for name in sent if name not in files]
            await self._call(self._actor.update, changed, removed)
            self._sent, self._current = files, shipment
            if self._receiving is None:
                self._receiving = asyncio.create_task(self._receive())

    async def _call(self, method: Any, *values: Any) -> Any:
        """Call the actor. Raises AgentError if it is lost."""
        from ray.exceptions import RayTaskError

        try:
            return await _wait_for(method.remote(*values))
        except Exception as error:  # Ray raises errors of many kinds without a common class
            if isinstance(error, RayTaskError):  # a bug of workbench, or a full disk
                text = f"the agent host on node {self.name} of the Ray cluster failed: {error.cause!r}"
                self._loss = Failure(kind=FailureKind.CRASH, message=text)
            self.lose()
            raise self._make_error() from error

    def _make_error(self) -> AgentError:
        return AgentError(self._loss, retry_elsewhere=self._loss.kind is FailureKind.INFRASTRUCTURE)

    def command(self, *command: Any) -> None:
        """Send a command soon, together with those that follow while the last call is on its way."""
        self._commands.append(command)
        if self._sending is None and not self.is_lost:
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        with contextlib.suppress(AgentError):  # `lose` has ended everything
            while self._commands:
                await asyncio.sleep(ray_node.get_gather_seconds(len(self._processes)))
                commands, self._commands = self._commands, []
                await self._call(self._actor.send, commands)
        self._sending = None

    async def _receive(self) -> None:
        with contextlib.suppress(AgentError):
            while True:
                for kind, number, *values in await self._call(self._actor.receive):
                    process = self._processes.get(number)
                    if process is not None:
                        getattr(self, f"_handle_{kind}")(number, process, *values)
                while self.paused:  # the node keeps what the engine cannot handle yet
                    self.resumed.clear()
                    await self.resumed.wait()

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process on the node. See `Launcher.launch`."""
        self._numbers += 1
        number = self._numbers
        child = Child(
            shared=role == "shared",
            kill=lambda: self.command("kill", number),
            interrupt=lambda: self.command("interrupt", number),
            ask_output=lambda: self.command("output", number),
            node=self.name,
        )
        launched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        process = _Process(child, Channel(child.attach_channel), launched, attach)
        self._processes[number] = process
        self.command("launch", number, role, b"".join(map(encode, messages)))
        try:
            await launched
        except asyncio.CancelledError:
            self.command("kill", number)
            raise
        return child

    def _handle_launched(self, number: int, process: _Process) -> None:
        if process.launched.cancelled():
            return
        process.attach(process.child)
        process.channel.connection_made(_Wire(self, number))
        hello = {"type": "hello", "protocol": PROTOCOL, "pid": None}
        process.channel.data_received(encode(hello))
        process.launched.set_result(None)

    def _handle_failed(self, number: int, process: _Process, failure: str, stdout: str, stderr: str) -> None:
        del self._processes[number]
        if not process.launched.done():
            found = Failure.model_validate_json(failure)
            found = found.model_copy(update={"message": f"node {self.name}: {found.message}"})
            process.launched.set_exception(AgentError(found, stdout_tail=stdout, stderr_tail=stderr))

    def _handle_messages(self, _: int, process: _Process, lines: bytes) -> None:
        process.channel.data_received(lines)

    def _handle_output(self, _: int, process: _Process, stdout: str, stderr: str) -> None:
        process.child.set_output(stdout, stderr)

    def _handle_exit(self, number: int, process: _Process, end: Mapping[str, Any]) -> None:
        failure = None if end["failure"] is None else Failure.model_validate_json(end["failure"])
        self._end(number, process, Exit(**{**end, "failure": failure}))

    def _end(self, number: int, process: _Process, end: Exit) -> None:
        del self._processes[number]
        if number in self.paused:
            self.paused.discard(number)
            self.resumed.set()
        process.channel.connection_lost(None)
        process.child.set_exit(end)

    def lose(self) -> None:
        """End everything on the node: it does not answer any more."""
        if self.is_lost:
            return
        self.is_lost = True

        _kill(self._actor)
        for number, process in list(self._processes.items()):
            if process.launched.done():
                is_elsewhere = self._loss.kind is FailureKind.INFRASTRUCTURE
                self._end(number, process, Exit(failure=self._loss, lost=is_elsewhere))
            else:
                del self._processes[number]
                process.launched.set_exception(self._make_error())
        self._on_lost(self)

    async def close(self) -> None:
        """End the processes on the node and the actor."""
        for task in (self._sending, self._receiving):
            if task is not None:
                task.cancel()

        with contextlib.suppress(Exception):  # it is gone, or too slow: Ray ends it
            await asyncio.wait_for(_wait_for(self._actor.close.remote()), _CLOSE_SECONDS)
        _kill(self._actor)
        for number, process in list(self._processes.items()):
            if process.launched.done():
                self._end(number, process, Exit())


_CLOSE_SECONDS = 8.0
_NODE_SECONDS = 60.0  # that sessions wait for a first node, which the cluster may have to start
_ASK_AGAIN = 1.0  # seconds


class RayLauncher:
    """Starts the processes of one target on the nodes of a cluster. See `Launcher`.

    Ray places one actor for each node, or as many as the settings say. A process starts on the node that is least
    loaded. A lost actor is replaced by another one, on any node that has the resources.
    """

    def __init__(
        self, target: Target, cluster: RayCluster, *, start_timeout: float, concurrency: int, layers: bool
    ) -> None:
        self._target = target
        self._cluster = cluster
        self._start_timeout = start_timeout
        self._concurrency = concurrency
        self._layers = layers
        self._nodes: list[_Node] = []
        self._starting: dict[asyncio.Task[None], str] = {}  # with the node for which an actor starts, if any
        self._beginning: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[Shipment] | None = None
        self._problem: AgentError | None = None  # of the last start of an actor
        self._deadline: float | None = None  # until which sessions wait for a node
        self._changed = asyncio.Event()
        self._closed = False

    def prepare(self, *, cases: int) -> None:
        """Connect, and start the actors. See `Launcher.prepare`."""
        self._begin()
        for node in self._nodes:
            node.command("prepare", -(-cases // len(self._nodes)))

    async def explain_imports(self) -> list[str]:
        """Return nothing: the nodes are not asked."""
        return []

    def renew(self) -> bool:
        """Send the current project before the next process starts. See `Launcher.renew`."""
        self._listing = None
        self._problem = None
        self._cluster.forget_failure()
        if self._beginning is not None and self._beginning.done():
            self._beginning = None
        return True

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process on the least loaded node. See `Launcher.launch`."""
        while True:
            node = await self._find_node()
            shipment = await self._list_project()
            await node.update(self._cluster.root, shipment)
            if node in self._nodes:
                return await node.launch(role, messages, attach)

    async def _list_project(self) -> Shipment:
        if self._listing is None:
            self._listing = asyncio.create_task(self._cluster.list_project())
        return await asyncio.shield(self._listing)

    async def _find_node(self) -> _Node:
        """Return the least loaded node. Waits for one to start. Raises AgentError."""
        loop = asyncio.get_running_loop()
        while not self._nodes:
            if self._closed:
                raise make_shutdown_error()
            beginning = self._begin()
            if not beginning.done():
                await asyncio.shield(asyncio.wait([beginning]))
                continue
            beginning.result()  # raises its error
            if self._problem is not None and not self._starting:
                raise self._problem
            self._deadline = self._deadline or loop.time() + _NODE_SECONDS
            if loop.time() > self._deadline:
                raise AgentError(await self._explain_no_node())
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _ASK_AGAIN)
        self._deadline = None
        return min(self._nodes, key=lambda node: node.load)

    async def _explain_no_node(self) -> Failure:
        wanted = _format_resources(self._cluster.settings.resources)
        nodes = await asyncio.to_thread(list_nodes)
        return Failure(
            kind=FailureKind.INFRASTRUCTURE,
            message=f"no node of the Ray cluster could host target {self._target.name!r} within "
            f"{_NODE_SECONDS:g} s: it needs {wanted}, and the cluster has {pluralise(len(nodes), 'node')}",
        )

    def _begin(self) -> asyncio.Task[None]:
        """Start the actors that are missing."""
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._start_actors())
            self._beginning.add_done_callback(retrieve_exception)
        return self._beginning

    async def _start_actors(self) -> None:
        _check_inside(self._target, self._cluster.root)
        variables, needed = self._read_variables()
        await self._cluster.connect()
        settings = self._cluster.settings
        nodes = await asyncio.to_thread(list_nodes)
        able = [node["NodeID"] for node in nodes if not _list_lacking(node, settings.resources)]
        if self._cluster.pinned is not None:
            able = [self._cluster.pinned]
        wanted = max(len(able), 1) if self._cluster.pinned or settings.max_workers is None else settings.max_workers
        used = {*(node.id for node in self._nodes), *self._starting.values()}
        free = [node for node in able if node not in used]
        for index in range(wanted - len(self._nodes) - len(self._starting)):
            self._start_actor(variables, needed, free[index] if index < len(free) else "")

    def _read_variables(self) -> tuple[dict[str, str], list[str]]:
        """Return the variables to send, and the names that the nodes must have. Raises AgentError."""
        files = make_adapter(worker_target(self._target)).env_files()
        names, values = self._cluster.settings.variable_names, dotenv.effective(files, os.environ)
        unset = [name for name in names if name not in values]
        if unset:
            raise AgentError(
                make_setup_failure(f"not set here: {', '.join(unset)}, named in [run.ray] runtime_env.env_vars")
            )
        return {name: values[name] for name in names}, sorted(set(dotenv.effective(files, {})) - set(names))

    def _start_actor(self, variables: Mapping[str, str], needed: Sequence[str], place: str) -> None:
        """Start an actor on the node with the id `place`, or where Ray places it if that is empty."""
        setup = {
            "target": self._target.model_dump_json(),
            "root": str(self._cluster.root),
            "prefixes": (sys.prefix, sys.base_prefix),
            "python_path": os.environ.get("PYTHONPATH", ""),
            "variables": variables,
            "needed": needed,
            "start_timeout": self._start_timeout,
            "concurrency": self._concurrency,
            "layers": self._layers,
        }
        task = asyncio.create_task(self._start_node(setup, place))
        self._starting[task] = place
        task.add_done_callback(self._starting.pop)

    async def _start_node(self, setup: Mapping[str, Any], place: str) -> None:
        """Start an actor, and add its node when it answers."""
        import ray

        actor = None
        try:
            actor = ray.remote(ray_node.AgentNode).options(**_claim(self._cluster, place)).remote(setup)
            description = await _wait_for(actor.describe.remote())
            _check_node(description)
            node = _Node(actor, description, self._replace)
            await node.update(self._cluster.root, await self._list_project())
        except Exception as error:  # Ray raises errors of many kinds without a common class
            _kill(actor)
            self._problem = error if isinstance(error, AgentError) else AgentError(_describe_failed_actor(error))
        except asyncio.CancelledError:
            _kill(actor)
            raise
        else:
            self._problem = None
            self._nodes.append(node)
        self._changed.set()

    def _replace(self, node: _Node) -> None:
        """Start another actor in place of a lost one."""
        if node in self._nodes:
            self._nodes.remove(node)
            if not self._closed:
                self._beginning = None
                self._begin()

    async def close(self) -> None:
        self._closed = True
        for task in (*self._starting, *([self._beginning] if self._beginning is not None else [])):
            task.cancel()
        self._changed.set()
        await asyncio.gather(*self._starting, return_exceptions=True)
        nodes, self._nodes = self._nodes, []
        await asyncio.gather(*(node.close() for node in nodes))


def _check_inside(target: Target, root: Path) -> None:
    if not target.path.is_relative_to(root):
        raise AgentError(
            make_setup_failure(
                f"the path of target {target.name!r} is outside the project, and only the project travels to the nodes "
                f"of a Ray cluster: found {target.path}, expected a folder in {root}"
            )
        )


def _pin(node: str, *, soft: bool = False) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=soft)


def _claim(cluster: RayCluster, node: str) -> dict[str, Any]:
    """Return the options of an actor: the resources that it claims, and its node, or another if that is lost."""
    resources = cluster.settings.resources
    known = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options = {known[name]: count for name, count in resources.items() if name in known}
    others = {name: count for name, count in resources.items() if name not in known}
    place = _pin(node, soft=cluster.pinned is None) if node else "SPREAD"
    return {"num_cpus": 0, **options, "resources": others, "scheduling_strategy": place, "max_restarts": 0}


def _list_lacking(node: Mapping[str, Any], resources: Mapping[str, float]) -> str:
    """Return the resources that a node does not have, in words."""
    return _format_resources(
        {name: count for name, count in resources.items() if node["Resources"].get(name, 0) < count}
    )


def _format_resources(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {count:g}" for name, count in resources.items())


def list_nodes() -> list[Mapping[str, Any]]:
    """List the living nodes of the cluster. Blocking. Raises AgentError if the connection is lost."""
    import ray

    try:
        return [node for node in ray.nodes() if node["Alive"]]
    except Exception as error:  # of many kinds without a common class, also without a connection
        text = f"the connection to the Ray cluster was lost: {one_line(str(error), width=300)}"
        raise AgentError(Failure(kind=FailureKind.INFRASTRUCTURE, message=text)) from error


def _kill(actor: Any) -> None:
    import ray

    with contextlib.suppress(Exception):  # it is gone already, or the connection to it is
        ray.kill(actor)


def find_node_problem(description: Mapping[str, Any]) -> str | None:
    """Return why a node cannot run agents of this engine; None if it can."""
    node = f"node {description['node']}"
    if description["workbench"] is None:
        return f'{node} lacks workbench {__version__}: install it there, or name it in [run.ray] runtime_env ("pip")'
    if description["workbench"] != __version__:
        return f"{node} has workbench {description['workbench']}, expected {__version__} as here"
    for name, here in (("python", platform.python_version()), ("ray", version("ray"))):
        if description[name].split(".")[:2] != here.split(".")[:2]:
            return f"{node} has {name.capitalize()} {description[name]}, expected {here} as here"
    if description["system"] != "Linux":
        return f"{node} runs {description['system']}, expected Linux"
    if description.get("missing"):
        return (
            f"{node} lacks the variables {', '.join(description['missing'])}, which a .env file sets here: name them "
            "in [run.ray] runtime_env.env_vars, or set them there"
        )
    return None


def _check_node(description: Mapping[str, Any]) -> None:
    if (problem := find_node_problem(description)) is not None:
        raise AgentError(make_setup_failure(problem))


def _describe_failed_actor(error: Exception) -> Failure:
    text = str(error).strip()
    reason = next((line for line in reversed(text.splitlines()) if line.strip()), type(error).__name__)
    return make_setup_failure(
        f"the agent host did not start on a node of the Ray cluster: {one_line(reason, width=400)}"
    )


async def _wait_for(answer: Any) -> Any:
    """Wait for the answer of Ray to a call. Ray's client prints a traceback for a future that was cancelled."""
    future = asyncio.wrap_future(answer.future())
    future.add_done_callback(retrieve_exception)
    return await asyncio.shield(future)
