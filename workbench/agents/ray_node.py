"""The node's end of the Ray executor: an actor that runs the worker processes of one target.

The engine sends the code of this module with the actor, so that a node without workbench can say so. Therefore it
imports of workbench only what it needs, when it needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.agents.processes import Child, Exit, Launcher

PROJECT = "project"
"""The folder of the project in the package that Ray unpacks: Ray imports from the package, and a module of the project
could replace one that Ray needs."""

News = tuple[Any, ...]
"""An event of a process: its kind, the number of the process, and values."""

Content = tuple[int, int, bytes | None]
"""A file: its mode, the time of its last change (ns), and its bytes; None for those in the package."""

_MOST_NEWS = 1_000  # events in one answer
_GATHER_EACH = 0.001  # seconds for each process
_MOST_GATHER = 0.03  # seconds
_PATIENCE = 5.0  # seconds without an event until `receive` returns, so that the engine notices a lost node
_NODE_CHECK = 1.0  # seconds
_FOLDER = "workbench-ray-"  # then the process id


def get_gather_seconds(processes: int) -> float:
    """Return how long to wait after a command or event for others that can share its call of Ray.

    A call costs about a millisecond of CPU at each end. One process waits for nothing; of many, others follow soon.
    """
    return min(_GATHER_EACH * processes, _MOST_GATHER)


def describe_node() -> dict[str, Any]:
    """Return the name of this node and the versions that must be the same everywhere."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        import workbench

        found: str | None = workbench.__version__
    except ImportError:
        found = None
    try:
        ray: str | None = version("ray")
    except PackageNotFoundError:
        ray = None
    return {
        "node": socket.gethostname(),
        "system": platform.system(),
        "python": platform.python_version(),
        "ray": ray,
        "workbench": found,
        "cpus": os.cpu_count() or 1,
    }


class AgentNode:
    """The worker processes of one target on this node, with a copy of the project of their own.

    Methods are called by one engine. Messages between it and the processes are passed on as they are, except that paths
    of the project, the interpreter and its libraries are those of the engine's machine there and those of this node
    here.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        """`setup`: `target` (JSON) with the engine's paths, `root` of its project, `prefixes` of its interpreter,
        `variables` to set, `needed` names of variables, and the arguments of the launcher."""
        self._setup = setup
        self._package = Path.cwd() / PROJECT
        self._folder = Path()
        self._launcher: Launcher | None = None
        self._close_listener: Callable[[], Any] | None = None
        self._paths: list[tuple[str, str]] = []  # of this node and of the engine's machine, the longest first
        self._children: dict[int, Child] = {}
        self._launching: set[int] = set()
        self._news: list[News] = []
        self._has_news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False

    async def describe(self) -> dict[str, Any]:
        """Describe this node, with the names of needed variables that are not set here (`missing`)."""
        import ray

        os.environ.update(self._setup["variables"])
        missing = [name for name in self._setup["needed"] if name not in os.environ]
        return {**describe_node(), "id": ray.get_runtime_context().get_node_id(), "missing": missing}

    # The project

    async def update(self, files: Mapping[str, Content], removed: Sequence[str]) -> None:
        """Write changed files of the project, and let new processes run the current code.

        The first call gets every file, and prepares the launcher.
        """
        if self._launcher is None:
            await asyncio.to_thread(self._create_folder)
            await asyncio.to_thread(self._write, files, removed)
            self._launcher = self._create_launcher()
            self._check_node(os.getppid())
        else:
            await asyncio.to_thread(self._write, files, removed)
            self._launcher.renew()

    def _create_folder(self) -> None:
        """Create the folder of the project, and remove those of hosts that were killed."""
        for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
            owner = folder.name.removeprefix(_FOLDER).partition("-")[0]
            if owner.isdecimal() and not _is_running(int(owner)):
                shutil.rmtree(folder, ignore_errors=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-")).resolve()

    def _write(self, files: Mapping[str, Content], removed: Sequence[str]) -> None:
        root = self._folder / PROJECT
        root.mkdir(exist_ok=True)
        for name in removed:
            path = root / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        for name, (mode, changed_at, content) in files.items():
            path = root / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                shutil.copyfile(self._package / name, path)
            else:
                path.write_bytes(content)
            path.chmod(mode)
            os.utime(path, ns=(changed_at, changed_at))

    def _create_launcher(self) -> Launcher:
        from workbench.agents.channel import ChannelListener
        from workbench.agents.forked_processes import ForkLauncher
        from workbench.model.target import Target

        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray blocks signals, which processes would inherit
        root, project = self._setup["root"], str(self._folder / PROJECT)
        prefixes = zip((sys.prefix, sys.base_prefix), self._setup["prefixes"], strict=True)
        self._paths = sorted([(project, root), *prefixes], key=lambda pair: len(pair[0]), reverse=True)
        search = [self._to_node(entry) for entry in self._setup["python_path"].split(os.pathsep)]
        os.environ.pop("PYTHONPATH", None)  # the package of Ray
        if any(search):
            os.environ["PYTHONPATH"] = os.pathsep.join(search)
        target = Target.model_validate_json(self._setup["target"])
        paths = {name: getattr(target, name) for name in ("path", "env_file")}
        moved = {name: Path(self._to_node(str(path))) for name, path in paths.items() if path is not None}
        python = None if target.python is None else Path(self._to_node(str(target.python)))
        listener = ChannelListener()
        self._close_listener = listener.close
        return ForkLauncher(
            target.model_copy(update={**moved, "python": python}),
            listener,
            start_timeout=self._setup["start_timeout"],
            concurrency=self._setup["concurrency"],
            layers=self._setup["layers"],
            home=target.path,
        )

    def _check_node(self, raylet: int) -> None:
        """End everything when Ray's process on this node is gone: the engine then runs these cases elsewhere."""
        if os.getppid() == raylet:
            asyncio.get_running_loop().call_later(_NODE_CHECK, self._check_node, raylet)
        else:
            self._is_ending = True
            self._start(self._end())

    async def _end(self) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.close(), _PATIENCE)
        os._exit(1)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Processes

    async def send(self, commands: Sequence[News]) -> None:
        """Carry out commands: `prepare`, `launch`, `messages`, `kill`, `interrupt`, `output`."""
        for kind, number, *values in commands:
            if kind == "prepare":
                assert self._launcher is not None
                self._launcher.prepare(cases=number)
            elif kind == "launch":
                self._start(self._launch(number, *values))
            elif kind == "kill" and number in self._launching:
                self._launching.discard(number)
            elif (child := self._children.get(number)) is None:
                continue  # it has ended
            elif kind == "messages":
                child.send(*self._attach_sessions(number, child, *values))
            elif kind == "kill":
                child.kill()
            elif kind == "interrupt":
                child.interrupt()
            else:
                self._start(self._report_output(number, child))

    async def receive(self) -> list[News]:
        """Return the next events of the processes, in their order; none after some seconds without any."""
        if not self._news:
            self._has_news.clear()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._has_news.wait()
            except TimeoutError:
                return []
            await asyncio.sleep(get_gather_seconds(len(self._children) + len(self._launching)))
        news, self._news = self._news[:_MOST_NEWS], self._news[_MOST_NEWS:]
        return news

    async def close(self) -> None:
        """End all processes, and remove the copy of the project."""
        if self._launcher is not None:
            await self._launcher.close()
        if self._close_listener is not None:
            await self._close_listener()
        if self._folder.name:
            await asyncio.to_thread(shutil.rmtree, self._folder, True)

    async def _launch(self, number: int, role: str, lines: bytes) -> None:
        from workbench.agents.agent_host import AgentError

        def attach(child: Child) -> None:
            self._children[number] = child
            self._attach_sessions(number, child, lines)
            child.on_exit.append(lambda end: self._report_exit(number, end))
            self._report("launched", number)

        assert self._launcher is not None
        self._launching.add(number)
        try:
            child = await self._launcher.launch(role, self._parse(lines), attach)
            if number not in self._launching:
                child.kill()
        except AgentError as error:
            self._report("failed", number, error.failure.model_dump_json(), error.stdout_tail, error.stderr_tail)
        finally:
            self._launching.discard(number)

    def _attach_sessions(self, number: int, child: Child, lines: bytes) -> list[dict[str, Any]]:
        """Pass on what the process sends for the sessions that these messages open; return the messages."""
        messages = self._parse(lines)
        for message in messages:
            if message["type"] in ("open", "score"):
                child.attach(message["session"], lambda reply: self._report_message(number, reply))
        return messages

    def _parse(self, lines: bytes) -> list[dict[str, Any]]:
        return [self._translate_request(json.loads(line)) for line in lines.splitlines()]

    def _report_message(self, number: int, message: dict[str, Any]) -> None:
        from workbench.agents.channel import encode

        self._report("messages", number, encode(self._translate_reply(message)))

    async def _report_output(self, number: int, child: Child) -> None:
        self._report("output", number, *(await child.output()))

    def _report_exit(self, number: int, end: Exit) -> None:
        self._children.pop(number, None)
        failure = None if end.failure is None else end.failure.model_dump_json()
        fields = {"code": end.code, "stdout": end.stdout, "stderr": end.stderr, "stopped": end.stopped}
        self._report("exit", number, {**fields, "failure": failure})

    def _report(self, *news: Any) -> None:
        if self._is_ending:  # the processes did not end by themselves: the engine learns that the node is lost
            return
        self._news.append(news)
        self._has_news.set()

    # Paths

    def _to_node(self, path: str) -> str:
        return replace_prefix(path, [(there, here) for here, there in self._paths])

    def _to_engine(self, text: str) -> str:
        return replace_prefix(text, self._paths)

    def _translate_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Replace the engine's paths: folders with files that agents wrote earlier."""
        if "left" in message:
            message["left"] = {
                part: {self._to_node(folder): names for folder, names in folders.items()}
                for part, folders in message["left"].items()
            }
        return message

    def _translate_reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Replace this node's paths: keys of dependencies, and the project in the text of a failure."""
        if message["type"] == "dependencies":
            rows = [
                (kind, "\0".join(map(self._to_engine, key.split("\0"))), value) for kind, key, value in message["rows"]
            ]
            return {**message, "rows": rows}
        if message["type"] == "failed":
            here, there = str(self._folder / PROJECT), self._setup["root"]
            texts = {
                name: text.replace(here, there)
                for name, text in message.items()
                if name in ("message", "traceback") and text
            }
            if message["kind"] == "setup":  # what may differ from node to node
                texts["message"] = f"node {socket.gethostname()}: {texts['message']}"
            return {**message, **texts}
        return message


def replace_prefix(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Replace the first folder of `pairs` that contains the path; what follows the path may be anything."""
    for old, new in pairs:
        if path.startswith(old) and path[len(old) : len(old) + 1] in ("", "/", ":"):
            return new + path[len(old) :]
    return path


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # other errors: it exists, but belongs to another user
    return True
