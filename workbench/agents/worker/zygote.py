"""The fork server (Linux), and the process that it forks for each session.

The zygote imports what children need, then waits for the engine with one thread and no event loop. For each child it
drains stdout and stderr, kills on request, and reports the end. When the engine is gone it kills everything below it
and ends. It also adopts processes that its children leave behind, so that nothing outlives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys

from . import agent_import, dotenv, faults, loading
from .adapters.base import SpanLimit
from .agent_import import (
    Conflict,
    Unsafe,
    begin_libraries,
    describe_environment,
    freeze_memory,
    has_lasting_threads,
    preload,
    report_imports,
)
from .loading import compile_early, enter, make_adapter
from .recording import hooks
from .recording.recorder import quiet
from .wire import DependencyReporter, Wire, encode, hello, remove_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .adapters.base import Adapter
    from .tool_interception import Tools


# The process for one session.

INTERRUPT = getattr(signal, "SIGRTMAX", 64) - 1
"""Signal to a process whose case is given up. Programs rarely use the last real-time signals."""


def run_session(adapter: Adapter, address: list[Any], start: dict[str, Any]) -> None:
    """Run the session that `start` describes, until it is closed, the agent fails, or the engine is gone."""
    wire = Wire(address, first=start["messages"])
    os.register_at_fork(after_in_child=wire.close)  # what the agent forks is not us
    wire.queue(hello("session", start["token"]))
    _SessionProcess(adapter, wire, scout=start["scout"]).serve()


class _SessionProcess:
    """A process for one session. It has one thread, and an event loop only if the agent needs one."""

    def __init__(self, adapter: Adapter, wire: Wire, *, scout: bool) -> None:
        self._adapter = adapter
        self._wire = wire
        self._scout = scout
        self._loop: Any = None
        self._reporter = DependencyReporter()
        self._receive = wire.receive
        self._limit = SpanLimit()
        self._unsent: list[bytes] = []
        """Reported imports that an earlier `_stop` could not send."""

    def serve(self) -> None:
        request = self._wire.receive()
        if request is None or not self._open(request):
            return
        while (message := self._receive()) is not None and self._answer(message):
            pass

    def _open(self, request: dict[str, Any]) -> bool:
        self._id = request["session"]
        self._reporter.add_agent_writes(request)
        signal.signal(INTERRUPT, self._stop)
        tools = self._open_questions(request)
        with quiet:
            self._modules = set(sys.modules) if self._scout else set()
            self._variables = dotenv.effective(self._adapter.env_files(), os.environ)
        imported = agent_import.get_agent_import()
        if imported is not None and imported.failure is not None:
            self._report_failure(imported.failure, turn=None)
            return False
        try:
            if imported is None:
                self._import_agent()
            if request.get("models"):
                self._adapter.intercept_models()
            self._session = self._settle(self._adapter.open(request, self._emit_span, tools))
        except Conflict as conflict:  # another process will do it
            self._wire.send({"type": "conflict", "session": self._id, "conflict": conflict.variables})
            return False
        except BaseException as error:  # including sys.exit
            self._fail(error, loading=True)
            return False
        self._report_imports()
        self._report_dependencies()
        self._wire.send({"type": "opened", "session": self._id})
        return True

    def _import_agent(self) -> None:
        """Import the agent. Raises Conflict, also if the import fails: a library may have read a wrong value."""
        try:
            enter(self._adapter)
            self._adapter.load()
        finally:
            agent_import.check_conflicts(self._variables)

    def _open_questions(self, request: dict[str, Any]) -> Tools | None:
        """Intercept tools and model calls, if the engine decides about them."""
        if not (request.get("tools") or request.get("models")):
            return None
        with quiet:
            from . import model_clients, model_interception, tool_interception

        questions = tool_interception.Questions(request["session"], self._wire.send)
        self._receive = tool_interception.MessageInbox(self._wire, questions).receive
        if request.get("models"):
            models = model_interception.InterceptedModels(questions, request["models"], self._adapter)
            model_clients.open_session(models)
        return tool_interception.Tools(questions, request["tools"]) if request.get("tools") else None

    def _answer(self, message: dict[str, Any]) -> bool:
        """Handle a message of the engine; return False if the session has ended."""
        turn, is_end = message.get("turn"), message["type"] == "close"
        try:
            result = self._ask_session(message)
        except BaseException as error:  # including sys.exit; objects of the agent may raise anything
            self._fail(error, turn=turn)
            return False
        for span in filter(None, map(self._limit.admit, () if turn is None else result.pop("spans", ()))):
            self._wire.queue({"type": "span", "session": self._id, "span": span})
        if is_end:
            self._report_imports()
        self._report_dependencies(complete=is_end)
        self._wire.send({"type": "finished", "session": self._id, "turn": turn, "result": result})
        return not is_end

    def _ask_session(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["type"] == "turn":
            return self._settle(self._session.turn(message["content"], message["turn"]))  # type: ignore[no-any-return]
        if message["type"] == "describe":
            return self._session.describe()  # type: ignore[no-any-return]
        if message["type"] == "state":
            return {"state": self._settle(self._session.state())}
        return self._settle(self._session.close())  # type: ignore[no-any-return]

    def _stop(self, *_: Any) -> None:
        """Report the dependencies so far and stop: the process is killed next.

        Runs between any two instructions of the main thread. The engine repeats the signal if that was a bad moment.
        """
        if quiet.depth:
            return
        self._unsent += self._encode_imports()
        lines = [*self._unsent, *self._reporter.encode_messages(self._id, complete=True)]
        if self._wire.try_send(lines):
            os.kill(os.getpid(), signal.SIGSTOP)

    def _report_imports(self) -> None:
        """As the scout, report imports that later children may find done. Sent twice, because some come late."""
        for line in self._encode_imports():
            self._wire.queue_line(line)

    def _encode_imports(self) -> list[bytes]:
        if not self._scout:
            return []
        with quiet:
            report = report_imports(self._adapter, self._modules, self._variables)
        return [encode({"type": "imported", **report})]

    def _report_dependencies(self, *, complete: bool = False) -> None:
        for line in self._reporter.encode_messages(self._id, complete=complete):
            self._wire.queue_line(line)

    def _emit_span(self, span: dict[str, Any]) -> None:
        admitted = self._limit.admit(span)
        if admitted is not None:
            self._wire.send({"type": "span", "session": self._id, "span": admitted})

    def _fail(self, error: BaseException, *, turn: int | None = None, loading: bool = False) -> None:
        self._report_failure(faults.describe_failure(error, loading=loading), turn=turn)

    def _report_failure(self, failure: dict[str, Any], *, turn: int | None) -> None:
        self._report_dependencies(complete=True)
        self._wire.send({"type": "failed", "session": self._id, "turn": turn, **failure})

    def _settle(self, value: Any) -> Any:
        """Return the value, or the result of awaiting it."""
        if not hasattr(type(value), "__await__"):
            return value
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(value)


# The fork server.

with quiet:  # ctypes calls of the agent are recorded as opaque
    _LIBC = ctypes.CDLL(None)
    _prctl, _fflush = _LIBC.prctl, _LIBC.fflush
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MARK = "WORKBENCH_PROCESS_GROUP"  # as `agents.processes.MARK`
_TAIL = 16_384  # bytes of output kept for each stream
_READ = 65_536  # bytes read from a pipe at a time: what a pipe holds
_LAST_READS = 32  # for remaining output: the largest pipe holds 1 MB, which may arrive in halves


def run(config: dict[str, Any]) -> None:
    """Run as the first zygote, which imports nothing of the agent. Children and other zygotes are forked from it."""
    with quiet:
        _support_forks_in_grpc()
        _ignore_variable(_MARK)  # it differs in each process
    adapter = make_adapter(config["target"])
    loading.import_libraries(adapter)
    if adapter.waits_only:  # its sessions share a process, which is started next
        from . import shared  # noqa: F401
    address = config["address"]
    wire = Wire(address)
    greeting = {**hello("zygote", config["token"]), "environment": describe_environment()}
    if not _serve(adapter, wire, address, greeting):
        remove_socket(address)


def _support_forks_in_grpc() -> None:
    if "GRPC_ENABLE_FORK_SUPPORT" not in os.environ:
        os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "1"
        _ignore_variable("GRPC_ENABLE_FORK_SUPPORT")


def _ignore_variable(name: str) -> None:
    recorder = hooks.get_recorder()
    if recorder is not None:
        recorder.ignore_variable(name)


def _run_warm(adapter: Any, address: list[Any], start: dict[str, Any]) -> None:
    """Run as a zygote that first imports what its children need."""
    wire = Wire(address)
    greeting = hello("zygote", start["token"])
    try:
        if start["agent"]:
            greeting["imported"] = agent_import.import_agent(adapter)
        else:
            _prepare(adapter, start)
            greeting["names"] = loading.list_imported_names()
    except Unsafe as unsafe:
        wire.send({**greeting, "unsafe": unsafe.package, "reason": unsafe.reason})
    except Conflict as conflict:
        wire.send({**greeting, "conflict": conflict.variables})
    except agent_import.Unshared as unshared:
        wire.send({**greeting, "unshared": unshared.reason, "imported": unshared.learned})
    else:
        _serve(adapter, wire, address, {**greeting, "environment": describe_environment()})


def _serve(adapter: Any, wire: Wire, address: list[Any], greeting: dict[str, Any]) -> bool:
    """Serve until the end; return True if the engine continues without this zygote."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    loading.cache_imported_names()
    freeze_memory()
    wire.send(greeting)
    zygote = _Zygote(adapter, wire, address)
    zygote.serve()
    return zygote.is_retired


def _prepare(adapter: Any, start: dict[str, Any]) -> None:
    excluded = set(start["excluded"])
    if start["warm"]:
        preload(adapter, adapter.preload, excluded=excluded, variables={}, patience=start["patience"])
    if start["imports"]:
        variables = start["environment"]
        begin_libraries(adapter, variables)
        preload(adapter, start["imports"], excluded=excluded, variables=variables, patience=start["patience"])
        agent_import.take_snapshot()
    compile_early(start["sources"])
    if start["warm"] and adapter.preload and not {name.split(".", 1)[0] for name in adapter.preload} & excluded:
        _run_warmup(adapter)


def _run_warmup(adapter: Any) -> None:
    try:
        adapter.run_warmup()
    except Exception:  # children get the same error and report it
        return
    if has_lasting_threads(patience=0.0):
        raise Unsafe(adapter.preload[0].split(".", 1)[0], "starts a thread")


class _ForkedChild:
    """A child as the zygote sees it: its process, the read ends of its pipes, and the tails of its output."""

    def __init__(self, number: int, pid: int, stdout: int, stderr: int) -> None:
        imported = agent_import.get_agent_import()
        printed = (b"", b"") if imported is None else imported.output
        self.number = number
        self.pid = pid
        self.tails = {stdout: printed[0], stderr: printed[1]}
        self.open = [stdout, stderr]

    def output(self) -> dict[str, str]:
        texts = [_decode_tail(tail) for tail in self.tails.values()]
        return {"stdout": texts[0], "stderr": texts[1]}


class _Zygote:
    def __init__(self, adapter: Any, wire: Wire, address: list[Any]) -> None:
        self._adapter = adapter
        self._wire = wire
        self._address = address
        self._children: dict[int, _ForkedChild] = {}  # by process id
        self._pipes: dict[int, _ForkedChild] = {}  # by read end
        self._poll = select.epoll()
        self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.is_retired = False
        """True if the engine ended only this zygote."""

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for descriptor in (self._wire.fileno(), self._wakeup[0]):
            self._poll.register(descriptor, select.EPOLLIN)
        try:
            while self._serve_once():
                pass
        except ConnectionError:  # the engine is gone
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
            elif descriptor == self._wire.fileno() and not self._handle_messages():
                return False
        if ended:
            self._reap()
        return True

    def _handle_messages(self) -> bool:
        if not self._wire.fill():
            return False
        for message in self._wire.take_received():
            if message["type"] == "start":
                self._start(message)
            elif message["type"] == "end":
                self.is_retired = True
                return False
            elif message["type"] == "check":
                self._wire.send({"type": "checked", "current": agent_import.are_imports_current()})
            else:
                for item in self._children.values():
                    if item.number != message["child"]:
                        continue
                    if message["type"] == "kill":
                        _kill_tree(item.pid)
                    elif message["type"] == "interrupt":
                        _signal(item.pid, INTERRUPT)
                    else:  # output
                        self._wire.send({"type": "output", "child": item.number, **item.output()})
        return True

    def _start(self, message: dict[str, Any]) -> None:
        if any(each.get("models") for each in message.get("messages", ())):
            with quiet:  # once, not in each child
                from . import model_clients, tool_interception  # noqa: F401
            loading.import_model_libraries(self._adapter)
        zygote = os.getpid()
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            with quiet:
                pid = os.fork()
        except OSError as error:  # such as too many processes or open files
            for descriptor in pipes:
                os.close(descriptor)
            self._wire.send({"type": "exited", "child": message["child"], "error": f"cannot fork: {error.strerror}"})
            return
        out_read, out_write, err_read, err_write = pipes
        if pid == 0:
            self._run_child(message, zygote, (out_read, out_write, err_read, err_write))
        os.close(out_write)
        os.close(err_write)
        born = _ForkedChild(message["child"], pid, out_read, err_read)
        self._children[pid] = born
        for descriptor in born.open:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.EPOLLIN)
            self._pipes[descriptor] = born

    def _run_child(self, message: dict[str, Any], zygote: int, pipes: tuple[int, int, int, int]) -> NoReturn:
        try:
            os.setpgid(0, 0)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # Processes that it abandons stay below it: they are killed with it, and not taken for another case's.
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
            self._run_role(message)
            status = 0
        except BaseException:  # nothing may return into the zygote's loop
            status = 70
            sys.excepthook(*sys.exc_info())
        finally:
            agent_import.flush_streams()
            _fflush(None)
            os._exit(status)

    def _run_role(self, message: dict[str, Any]) -> None:
        if message["role"] == "session":
            run_session(self._adapter, self._address, message)
        elif message["role"] == "zygote":
            _run_warm(self._adapter, self._address, message)
        else:
            from . import shared

            shared.run(self._adapter, {**message, "address": self._address})

    def _drain(self, descriptor: int, *, reads: int = 1) -> None:
        """Read a pipe, at most `reads` times because some programs write forever; close it at its end."""
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
        """Reap ended children with their process groups, and report how they ended."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                break
            ended = self._children.pop(found.si_pid, None)
            if ended is not None:
                _kill_group(ended.pid)  # before the process id can be reused
            _, status = os.waitpid(found.si_pid, 0)
            if ended is not None:
                self._report(ended, status)
        for pid in _list_children(os.getpid()):
            if pid not in self._children:  # left behind by an ended case, or by a killed zygote
                _kill_tree(pid)

    def _report(self, ended: _ForkedChild, status: int) -> None:
        for descriptor in list(ended.open):
            self._drain(descriptor, reads=_LAST_READS)
        for descriptor in list(ended.open):  # kept open by a process outside the group
            self._close_pipe(descriptor)
        code = os.waitstatus_to_exitcode(status)
        self._wire.send({"type": "exited", "child": ended.number, "code": code, **ended.output()})

    def _end(self) -> None:
        """Kill everything below this process."""
        for pid in list(self._children):
            _kill_tree(pid)
        while True:  # children of killed processes become ours
            for pid in _list_children(os.getpid()):
                _kill_tree(pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break


def _renew_randomness() -> None:
    """Reseed NumPy's global generator, which would give every child the same numbers. The standard library does it
    itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _list_children(pid: int) -> list[int]:
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as stream:
                found += [int(item) for item in stream.read().split()]
    except OSError:  # it has ended
        pass
    return found


def _kill_tree(pid: int) -> None:
    """Kill a process, its group, and its descendants with theirs. They are stopped first, so that none starts
    unseen."""
    tree = [pid]
    for member in tree:
        _signal(member, signal.SIGSTOP)
        tree += _list_children(member)
    for member in tree:
        _kill_group(member)
        _signal(member, signal.SIGKILL)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(OSError):  # no such group
        os.killpg(leader, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it is gone, or belongs to another user
        os.kill(pid, number)


def _decode_tail(tail: bytes) -> str:
    if len(tail) == _TAIL:  # cut, possibly inside a character
        while tail and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]
    return tail.decode("utf-8", "replace")
