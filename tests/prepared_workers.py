"""Worker processes that are forked from a process which has imported a framework.

An import of google-adk or LangChain takes a second, and a test of something else should not pay for it. A test gets
such workers by the marker `prepared`. The code of the worker is the same from its configuration on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

_KINDS = ("a2a", "adk", "langchain")
_LAUNCH = Path(__file__).parent.parent / "workbench/agents/worker/launch.py"


class PreparedImports:
    """Replaces the module `subprocess` where workers are started.

    The process that is prepared is started with the first worker. It imports `modules`, and what agents of the kinds
    among them need.
    """

    DEVNULL = subprocess.DEVNULL

    def __init__(self, modules: Sequence[str], *, started: socket.socket | None = None) -> None:
        """`started` is the connection to a prepared process that another process has started."""
        self._modules = modules
        self._template: subprocess.Popen[bytes] | None = None
        self._socket = started

    def Popen(self, command: Sequence[str], **options: Any) -> Any:
        """Start a worker, as a fork of the prepared process if it has the interpreter of the tests."""
        if list(command) != [sys.executable, str(_LAUNCH)]:
            return subprocess.Popen(command, **options)
        return _Worker(self.get_socket(), **options)

    def close(self) -> None:
        """End the prepared process."""
        if self._template is not None and self._socket is not None:
            self._socket.close()
            self._template.wait(timeout=60)

    def get_socket(self) -> socket.socket:
        """Return the connection to the prepared process."""
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._template = subprocess.Popen(
                    [sys.executable, __file__, str(theirs.fileno()), *self._modules],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                )  # fmt: skip
        return self._socket


class _Worker:
    """A forked worker, with the interface of `subprocess.Popen`."""

    def __init__(
        self,
        template: socket.socket,
        *,
        stdin: IO[bytes],
        stdout: int,
        stderr: IO[bytes],
        cwd: Path,
        env: Mapping[str, str],
        start_new_session: bool,
    ) -> None:
        assert start_new_session and stdout == subprocess.DEVNULL
        Path(cwd).stat()  # raises OSError, as the original does
        self._status, theirs = socket.socketpair()
        self.returncode: int | None = None
        data = json.dumps({"folder": str(cwd), "environment": {**env}}).encode()
        with theirs:
            descriptors = [stdin.fileno(), stderr.fileno(), theirs.fileno()]
            socket.send_fds(template, [len(data).to_bytes(4, "big")], descriptors)
            template.sendall(data)
        self.pid = int.from_bytes(self._status.recv(4), "big")
        assert self.pid, "the prepared process has ended"

    def poll(self) -> int | None:
        with contextlib.suppress(BlockingIOError):
            self._receive(socket.MSG_DONTWAIT)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._status.settimeout(timeout)
        try:
            self._receive(0)
        except TimeoutError:
            raise subprocess.TimeoutExpired(str(_LAUNCH), timeout or 0) from None
        assert self.returncode is not None
        return self.returncode

    def _receive(self, flags: int) -> None:
        if self.returncode is None:
            data = self._status.recv(4, flags)
            self.returncode = int.from_bytes(data, "big", signed=True) if data else -signal.SIGKILL
            self._status.close()


# The prepared process.


def _serve(requests: socket.socket, launch: Any) -> None:
    """Fork a worker for each request until the end of the connection. Never returns in a worker."""
    wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup[1], warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    workers: dict[int, int] = {}  # the descriptor for the status of each, by process id
    while True:
        ready, _, _ = select.select([requests.fileno(), wakeup[0]], [], [])
        if wakeup[0] in ready:
            os.read(wakeup[0], 4096)
            _report_ended(workers)
        if requests.fileno() not in ready:
            continue
        header, descriptors, _, _ = socket.recv_fds(requests, 4, 3)
        if not header:
            return
        data = b""
        while len(data) < (size := int.from_bytes(header, "big")):
            data += requests.recv(size - len(data))
        stdin, stderr, status = descriptors
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            for descriptor in (*wakeup, *workers.values(), status):
                os.close(descriptor)
            _work(json.loads(data), stdin=stdin, stderr=stderr, launch=launch)
        os.close(stdin)
        os.close(stderr)
        workers[pid] = status
        os.write(status, pid.to_bytes(4, "big"))


def _report_ended(workers: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            descriptor = workers.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # its host is closed
                os.write(descriptor, os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
            os.close(descriptor)


def _work(request: dict[str, Any], *, stdin: int, stderr: int, launch: Any) -> NoReturn:
    """Run as the worker that `launch.py` starts."""
    code = 1
    try:
        os.setsid()
        os.chdir(request["folder"])
        inherited = _list_python_path()
        os.environ.clear()
        os.environ.update(request["environment"])
        for descriptor, number in ((stdin, 0), (stderr, 2)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        path = [entry for entry in sys.path if entry not in inherited]
        sys.path[:] = path
        gc.enable()
        launch._run([*_list_python_path(), *path])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _list_python_path() -> list[str]:
    return [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _prepare(modules: Sequence[str]) -> Any:
    """Import what workers need, and return the module `launch`."""
    sys.path.remove(str(Path(__file__).parent))
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("launch", _LAUNCH)
    assert spec is not None and spec.loader is not None
    launch = module_from_spec(spec)
    spec.loader.exec_module(launch)
    launch._load_worker(str(_LAUNCH.parent))
    for name in ("zygote", "recording.hooks", "recording.recorder"):
        importlib.import_module(f"_workbench_worker.{name}")
    loading = importlib.import_module("_workbench_worker.loading")
    for name in modules:
        with contextlib.suppress(Exception):  # usually the extra is missing; workers report what they need
            if name not in _KINDS:
                importlib.import_module(name)
                continue
            adapter = loading.make_adapter({"kind": name, "name": name, "location": "", "path": "/", "env_file": None})
            adapter.import_libraries()
            for module in adapter.preload:
                importlib.import_module(module)
            adapter.run_warmup()
    gc.collect()
    gc.freeze()
    return launch


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), _prepare(sys.argv[2:]))
