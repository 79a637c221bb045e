"""The process that forks one child for each case (Linux).

It imports what children would all import, then waits for the engine with one thread and no event loop. For each child
it drains the pipes behind stdout and stderr, kills on request, and reports how it ended. When the engine is gone it
kills everything below it and ends. It also adopts what its children leave behind, so that nothing outlives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys

from . import agent_import, child, loading
from .loading import compile_early, make_adapter
from .preload import Unsafe, count_threads, environment, preload, settle
from .recording import hooks
from .recording.recorder import quiet
from .wire import Wire, hello, remove_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, NoReturn

with quiet:  # what the agent calls is opaque
    _LIBC = ctypes.CDLL(None)
    _prctl, _fflush = _LIBC.prctl, _LIBC.fflush
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MARK = "WORKBENCH_PROCESS_GROUP"  # as `agents.processes.MARK`
_TAIL = 16_384  # bytes of output kept for each stream
_READ = 65_536  # bytes read from a pipe at a time: what a pipe holds
_LAST_READS = 32  # for what a dead process left: the largest pipe holds 1 MB, and readers may get it in halves


def run(config: Dict[str, Any]) -> None:
    """Be the first zygote, which imports nothing of the agent's: children, and zygotes that do, are forked from it."""
    with quiet:
        _support_forks_in_grpc()
        _hide_mark()
    adapter = make_adapter(config["target"])
    loading.import_own(adapter)
    if adapter.waits_only:  # its sessions share a process, which is wanted as soon as this one is up
        from . import shared  # noqa: F401
    address = config["address"]
    wire = Wire(address)
    greeting = {**hello("zygote", config["token"]), "environment": environment()}
    if not _serve(adapter, wire, address, greeting):
        remove_socket(address)


def _support_forks_in_grpc() -> None:
    if "GRPC_ENABLE_FORK_SUPPORT" not in os.environ:
        os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "1"
        recorder = hooks.active()
        if recorder is not None:
            recorder.own_variable("GRPC_ENABLE_FORK_SUPPORT")


def _hide_mark() -> None:
    """The engine's mark differs in each process: no result may depend on it."""
    recorder = hooks.active()
    if recorder is not None:
        recorder.own_variable(_MARK)


def _run_warm(adapter: Any, address: List[Any], start: Dict[str, Any]) -> None:
    """Be a zygote that imports first what its children would."""
    wire = Wire(address)
    greeting = hello("zygote", start["token"])
    try:
        if start["agent"]:
            greeting["imported"] = agent_import.import_agent(adapter)
        else:
            _prepare(adapter, start)
            greeting["names"] = loading.imported_names()
    except Unsafe as unsafe:
        wire.send({**greeting, "unsafe": unsafe.package})
    except agent_import.Unshared as unshared:
        wire.send({**greeting, "unshared": unshared.reason, "imported": unshared.learned})
    else:
        _serve(adapter, wire, address, {**greeting, "environment": environment()})


def _serve(adapter: Any, wire: Wire, address: List[Any], greeting: Dict[str, Any]) -> bool:
    """Serve until the end; whether the engine goes on then."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    loading.settle()
    settle()
    wire.send(greeting)
    zygote = _Zygote(adapter, wire, address)
    zygote.serve()
    return zygote.is_retired


def _prepare(adapter: Any, start: Dict[str, Any]) -> None:
    excluded = set(start["excluded"])
    if start["warm"]:
        preload(adapter.preload, excluded=excluded, keys=start["environment"])
    preload(start["imports"], excluded=excluded, keys=start["environment"])
    compile_early(start["sources"])
    if start["warm"] and adapter.preload and not {name.split(".", 1)[0] for name in adapter.preload} & excluded:
        _warm_up(adapter)


def _warm_up(adapter: Any) -> None:
    try:
        adapter.warm_up()
    except Exception:  # what does not work here, children meet again and report
        return
    if count_threads() > 1:
        raise Unsafe(adapter.preload[0].split(".", 1)[0])


class _Child:
    """A child as the zygote sees it: its process, the read ends of its pipes, and the ends of what came out of them."""

    def __init__(self, number: int, pid: int, stdout: int, stderr: int) -> None:
        imported = agent_import.active()
        printed = (b"", b"") if imported is None else imported.output
        self.number = number
        self.pid = pid
        self.tails = {stdout: printed[0], stderr: printed[1]}
        self.open = [stdout, stderr]

    def output(self) -> Dict[str, str]:
        texts = [_decode_tail(tail) for tail in self.tails.values()]
        return {"stdout": texts[0], "stderr": texts[1]}


class _Zygote:
    def __init__(self, adapter: Any, wire: Wire, address: List[Any]) -> None:
        self._adapter = adapter
        self._wire = wire
        self._address = address
        self._children: Dict[int, _Child] = {}  # by process id
        self._pipes: Dict[int, _Child] = {}  # by read end
        self._poll = select.epoll()
        self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.is_retired = False
        """Whether it was told to end, while the engine goes on."""

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for descriptor in (self._wire.fileno(), self._wakeup[0]):
            self._poll.register(descriptor, select.EPOLLIN)
        try:
            while self._serve_once():
                pass
        except ConnectionError:  # the engine went while we told it something
            pass
        finally:
            self._end()

    def _serve_once(self) -> bool:
        ended = False
        for descriptor, _ in self._poll.poll():
            if descriptor == self._wakeup[0]:
                os.read(descriptor, _READ)
                ended = True
            elif descriptor in self._pipes:
                self._drain(descriptor)
            elif descriptor == self._wire.fileno() and not self._obey():
                return False
        if ended:
            self._reap()
        return True

    def _obey(self) -> bool:
        if not self._wire.fill():
            return False
        for message in self._wire.received():
            if message["type"] == "start":
                self._start(message)
            elif message["type"] == "end":
                self.is_retired = True
                return False
            elif message["type"] == "check":
                imported = agent_import.active()
                self._wire.send({"type": "checked", "current": imported is None or imported.is_current()})
            else:
                found = [item for item in self._children.values() if item.number == message["child"]]
                if message["type"] == "kill":
                    for item in found:
                        _kill_tree(item.pid)
                elif message["type"] == "interrupt":
                    for item in found:
                        _signal(item.pid, child.INTERRUPT)
                else:  # output
                    for item in found:
                        self._wire.send({"type": "output", "child": item.number, **item.output()})
        return True

    def _start(self, message: Dict[str, Any]) -> None:
        zygote = os.getpid()
        pipes: List[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            with quiet:
                pid = os.fork()
        except OSError as error:  # too many processes or open files, no memory
            for descriptor in pipes:
                os.close(descriptor)
            self._wire.send({"type": "exited", "child": message["child"], "error": f"cannot fork: {error.strerror}"})
            return
        out_read, out_write, err_read, err_write = pipes
        if pid == 0:
            self._be_child(message, zygote, (out_read, out_write, err_read, err_write))
        os.close(out_write)
        os.close(err_write)
        born = _Child(message["child"], pid, out_read, err_read)
        self._children[pid] = born
        for descriptor in born.open:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.EPOLLIN)
            self._pipes[descriptor] = born

    def _be_child(self, message: Dict[str, Any], zygote: int, pipes: tuple[int, int, int, int]) -> NoReturn:
        try:
            os.setpgid(0, 0)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # What it starts and lets go stays below it: killed with it, and never taken for another case's.
            _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            if os.getppid() != zygote:
                os._exit(0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(pipes[1], 1)
            os.dup2(pipes[3], 2)
            for descriptor in (*pipes, *self._wakeup, *self._pipes):
                os.close(descriptor)
            self._poll.close()
            self._wire.close()
            gc.enable()
            _renew_randomness()
            self._play(message)
            status = 0
        except BaseException:  # nothing may return into the zygote's loop
            status = 70
            sys.excepthook(*sys.exc_info())
        finally:
            agent_import.flush()
            _fflush(None)
            os._exit(status)

    def _play(self, message: Dict[str, Any]) -> None:
        if message["role"] == "session":
            child.run(self._adapter, self._address, message)
        elif message["role"] == "zygote":
            _run_warm(self._adapter, self._address, message)
        else:
            from . import shared

            shared.run(self._adapter, {**message, "address": self._address})

    def _drain(self, descriptor: int, *, reads: int = 1) -> None:
        """Read what is in a pipe; close it at its end. Never more than `reads` times: some write without end."""
        owner = self._pipes[descriptor]
        for _ in range(reads):
            try:
                data = os.read(descriptor, _READ)
            except BlockingIOError:
                return
            if not data:
                self._close_pipe(descriptor)
                return
            owner.tails[descriptor] = (owner.tails[descriptor] + data)[-_TAIL:]

    def _close_pipe(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        os.close(descriptor)
        self._pipes.pop(descriptor).open.remove(descriptor)

    def _reap(self) -> None:
        """Bury those that ended, with their whole process group, and tell the engine how they ended."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                break
            ended = self._children.pop(found.si_pid, None)
            if ended is not None:
                _kill_group(ended.pid)  # before the process id is free for others
            _, status = os.waitpid(found.si_pid, 0)
            if ended is not None:
                self._report(ended, status)
        for pid in _children_of(os.getpid()):
            if pid not in self._children:  # left behind by a case that is over, or by a zygote that was killed
                _kill_tree(pid)

    def _report(self, ended: _Child, status: int) -> None:
        for descriptor in list(ended.open):
            self._drain(descriptor, reads=_LAST_READS)
        for descriptor in list(ended.open):  # held by a process that left the group
            self._close_pipe(descriptor)
        code = os.waitstatus_to_exitcode(status)
        self._wire.send({"type": "exited", "child": ended.number, "code": code, **ended.output()})

    def _end(self) -> None:
        """Kill everything below this process."""
        for pid in list(self._children):
            _kill_tree(pid)
        while True:  # what is killed hands its own children to us
            for pid in _children_of(os.getpid()):
                _kill_tree(pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break


def _renew_randomness() -> None:
    """NumPy's global generator would give every child the same numbers; the standard library sees to its own."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _children_of(pid: int) -> List[int]:
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as stream:
                found += [int(item) for item in stream.read().split()]
    except OSError:  # it ended meanwhile
        pass
    return found


def _kill_tree(pid: int) -> None:
    """Kill a process, its group, and its descendants with theirs. Stopped first, so that none is born unseen."""
    tree = [pid]
    for member in tree:
        _signal(member, signal.SIGSTOP)
        tree += _children_of(member)
    for member in tree:
        _kill_group(member)
        _signal(member, signal.SIGKILL)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(OSError):  # leads no group, or all are gone
        os.killpg(leader, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # gone, or another user's
        os.kill(pid, number)


def _decode_tail(tail: bytes) -> str:
    if len(tail) == _TAIL:  # cut, perhaps inside a character
        while tail and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]
    return tail.decode("utf-8", "replace")
