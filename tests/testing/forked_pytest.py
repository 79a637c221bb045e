"""A process that has imported pytest and what the plugin uses, and forks a process for each run of pytest.

The imports of a run take several times the CPU time of the rest. A fork has its own arguments, folder and environment.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_UNUSED_PLUGINS = ("anyio", "hypothesispytest", "langsmith_plugin", "syrupy", "textual-snapshot")
PLAIN = tuple(word for name in _UNUSED_PLUGINS for word in ("-p", f"no:{name}"))
"""Options for pytest without other plugins, which dominate its start time."""

_QUIET = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
_USED_MODULES = (
    "google.genai",
    "workbench.agents.forked_processes",
    "workbench.agents.spawned_processes",
    "workbench.engine.workspace",
    "workbench.testing.agent_evaluator",
    "workbench.testing.pytest_items",
)


class ForkedPytest:
    """Runs pytest in forks of one process."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._answers = self._socket.makefile("r", encoding="utf-8")

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], outputs: Sequence[Path]
    ) -> int:
        """Run `python -m pytest` in a folder, and return its exit status. `outputs` are files for stdout and stderr.

        Its agents run in the prepared workers of the test.
        """
        request = {
            "arguments": [*_QUIET, *arguments],
            "folder": str(folder),
            "environment": {**environment},
            "outputs": [*map(str, outputs)],
        }
        from tests.prepared_workers import PreparedImports
        from workbench.agents import forked_processes

        started: Any = getattr(forked_processes, "subprocess", None)  # replaced for each test
        descriptors = [started.get_socket().fileno()] if isinstance(started, PreparedImports) else []
        data = json.dumps(request).encode()
        socket.send_fds(self._socket, [len(data).to_bytes(4, "big")], descriptors)
        self._socket.sendall(data)
        return int(self._answers.readline())

    def close(self) -> None:
        """End the process."""
        self._answers.close()
        self._socket.close()
        self._process.wait(timeout=60)


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request. Return in the forks, and exit at the end of the connection."""
    import pytest

    path = list(sys.path)
    sys.path.insert(0, str(Path(__file__).parent.parent))
    prepared_workers = importlib.import_module("prepared_workers")
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*PLAIN, "--version"])  # imports the plugins as pytest does
    sys.path[:] = path
    for name in _USED_MODULES:
        with contextlib.suppress(ModuleNotFoundError):  # of an extra
            importlib.import_module(name)
    unraisable: Any = importlib.import_module("_pytest.unraisableexception")
    if hasattr(unraisable, "gc_collect_harder"):  # at the end of each run, five times, for interpreters that need it
        unraisable.gc_collect_harder = lambda *_: gc.collect()
    gc.collect()
    gc.freeze()
    while True:
        header, descriptors, _, _ = socket.recv_fds(connection, 4, 1)
        if not header:
            sys.exit()
        data = b""
        while len(data) < (size := int.from_bytes(header, "big")):
            data += connection.recv(size - len(data))
        process = os.fork()
        if not process:
            connection.close()
            _enter(json.loads(data))
            if descriptors:
                workers = prepared_workers.PreparedImports((), started=socket.socket(fileno=descriptors[0]))
                sys.modules["workbench.agents.forked_processes"].subprocess = workers  # type: ignore[attr-defined]
            return
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(process, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _enter(request: dict[str, Any]) -> None:
    """Make this process like a new one with these arguments, folder and environment."""
    os.chdir(request["folder"])
    inherited = _list_python_path()
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:] = [
        request["folder"],
        *_list_python_path(),
        *(entry for entry in sys.path[1:] if entry not in inherited),
    ]
    sys.argv[1:] = request["arguments"]
    for number, name in enumerate(request["outputs"], start=1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)


def _list_python_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    import pytest

    sys.exit(pytest.console_main())
