"""Imports before a fork: libraries that children need, and the agent itself.

A process that has imported something serves as a zygote only if a copy of it is as good as an import of its own. For
libraries: one thread, no open files or connections, and no variable read that the agent sets. Otherwise `Unsafe` names
the package, and each case imports it itself. For the agent also: no child processes, no timers or blocked signals,
nothing written, no random numbers drawn or seeded. Otherwise `Unshared` gives the reason, and each case imports the
agent itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import time
import warnings

from . import dotenv, faults
from .loading import compiled_here, enter, find_shadowed_names, has_entered, restore_path
from .recording import hooks, instrument
from .recording.fingerprints import (
    ABSENT,
    digest,
    list_entries,
    of_environment,
    of_file,
    of_import,
    of_installed,
    of_mode,
    of_names,
    of_probe,
    of_time,
)
from .recording.recorder import quiet
from .recording.scope import LIBRARY_FOLDERS, is_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Mapping

    from .adapters.base import Adapter
    from .recording.recorder import Recorder


# Preloading of libraries.

_HOLES = 32_768  # bytes for each allocation size of Python, 16 to 512; a process of 50 MB has less free memory
_BYTES_HEADER = sys.getsizeof(b"")
_filling: list[list[object]] = []


class Unsafe(Exception):
    """A package that must not be imported before the fork. `reason` is the rest of a sentence about its import."""

    def __init__(self, package: str, reason: str) -> None:
        super().__init__(package, reason)
        self.package = package
        self.reason = reason


class Conflict(Exception):
    """The agent sets variables that libraries read when they were imported before the agent. `variables` has their
    values, None for removed ones."""

    def __init__(self, variables: dict[str, str | None]) -> None:
        super().__init__(variables)
        self.variables = variables


def report_imports(adapter: Adapter, modules: set[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what this process imported and others may import before they are forked: the message `imported`.

    `modules` and `variables` are those before it. A second report has what came since the first.
    """
    imports = _list_new_imports(modules, adapter.import_roots())
    late = [name for name in adapter.late_imports() if name not in sys.modules and name not in modules]
    modules.update(imports, late)
    sources = list(compiled_here)
    compiled_here.clear()
    return {"imports": imports, "late": late, "sources": sources, "environment": _find_changed_variables(variables)}


def _find_changed_variables(before: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that this process set, changed or removed (None)."""
    now = dict(os.environ)
    return {key: now.get(key) for key in sorted({*before, *now}) if before.get(key) != now.get(key)}


def _list_new_imports(before: Iterable[str], roots: list[str]) -> list[str]:
    """List the libraries that this process imported and its parent may import, in the order of their import."""
    shadowed = find_shadowed_names(roots)
    names = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or name in before or name.split(".", 1)[0] in shadowed:
            continue
        if spec.origin is None or (spec.has_location and is_workspace(spec.origin)):
            continue
        names.append(name)
    return names


def preload(
    adapter: Adapter,
    names: Iterable[str],
    *,
    excluded: Iterable[str],
    variables: Mapping[str, str | None],
    patience: float,
) -> None:
    """Import modules. An import that fails is left to the children. Raises Unsafe at the first unsafe package.

    `variables` are those that the agent sets: a module that reads one during its import would see another value here.
    Once `begin_libraries` was called, all reads count. `patience` is the time in seconds for threads to end.
    """
    barred, files, thread_count = set(excluded), _open_files(), 1
    if not has_entered():
        restore_path()
    for name in names:
        package = name.split(".", 1)[0]
        if package in barred or name in sys.modules:
            continue
        with contextlib.suppress(BaseException):  # the child gets the same error and reports it
            adapter.import_library(name)
        with quiet:
            if count_threads() > thread_count and has_lasting_threads(patience):
                raise Unsafe(package, "starts a thread")
            thread_count = count_threads()
            if read := _find_conflicts(variables):
                raise Unsafe(package, f"reads {min(read)}, which the agent or another library sets")
            if opened := _open_files() - files:
                raise Unsafe(package, f"leaves {_name_file(opened)} open")


def begin_libraries(adapter: Adapter, variables: Mapping[str, str | None]) -> None:
    """Prepare for imports of libraries that the agent uses. Raises Conflict if earlier ones have read one of the
    variables that the agent sets."""
    if has_entered():
        return
    with quiet:
        dotenv.load(adapter.env_files())  # libraries may read its variables
        _get_recorder().begin_libraries()
        conflicts = _find_conflicts(variables)
    if conflicts:
        raise Conflict(conflicts)


def _find_conflicts(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return those of the agent's variables that have another value here, and that libraries have read."""
    read = _get_recorder().select_read_by_libraries(variables)
    return {name: variables[name] for name in read if os.environ.get(name) != variables[name]}


def check_conflicts(before: Mapping[str, str]) -> None:
    """Raise Conflict if the agent, which was imported, has set variables that libraries had read before it."""
    with quiet:
        changed = _find_changed_variables(before)
        read = _get_recorder().select_read_by_libraries(changed)
    if read:
        raise Conflict({name: changed[name] for name in read})


def _get_recorder() -> Recorder:
    recorder = hooks.get_recorder()
    assert recorder is not None, "a process records before it serves"
    return recorder


def describe_environment() -> dict[str, str]:
    """Return the state of the interpreter and of installed libraries when this process began or imported them."""
    recorder = hooks.get_recorder()
    if recorder is None:
        return {}
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    origins = [str(getattr(spec, "origin", "")) for spec in specs if getattr(spec, "has_location", False)]
    files = [path for path in origins if any(folder in path for folder in LIBRARY_FOLDERS)]
    with quiet:
        return {**{path: of_environment(path) for path in files}, **recorder.environment}


def count_threads() -> int:
    """Count the threads of this process, including those that Python does not know."""
    return len(os.listdir("/proc/self/task"))


def freeze_memory() -> None:
    """Prepare memory for sharing: without garbage collection nothing is written to pages that children inherit."""
    gc.collect()
    _fill_holes()
    gc.disable()
    gc.freeze()


def _fill_holes() -> None:
    """Allocate the free memory between objects for good.

    Otherwise new objects of children would land on shared pages, each of which is then copied for a few objects. In new
    memory they lie next to each other.
    """
    _filling.append([object() for _ in range(_HOLES // 16)])
    _filling.append([complex(number) for number in range(_HOLES // 32)])
    _filling.extend([bytes(size - _BYTES_HEADER) for _ in range(_HOLES // size)] for size in range(48, 513, 16))


# Snapshots, checked before each fork that copies an imported agent.

_SETTLED = 2_000_000_000  # nanoseconds; an earlier change may leave times and size equal


class ImportSnapshot:
    """Fingerprints of the files, folders and modules that a process has read. Its environment variables cannot change.

    `env_files` count whether they existed or not, with their fingerprints before they were loaded.
    """

    def __init__(self, recorder: Recorder, *, env_files: Mapping[str, str]) -> None:
        self._checks: list[tuple[str, str, Callable[[str], str]]] = []
        self._looks: dict[int, tuple[Any, int]] = {}
        sources = {os.path.abspath(path): source for path, source in instrument.list_sources()}
        written = recorder.written_files  # such as a settings file that a library keeps
        for kind, key, fingerprint in recorder.get_current_rows():
            if kind == "rest":
                self._checks.append((key, digest(sources.get(key, b"")), of_file))
            elif kind == "import":
                folder, _, names = key.partition("::")
                self._checks.append((folder, fingerprint, _make_import_check(names.split(","))))
            elif kind == "folder":
                self._checks.append((key, fingerprint, _fingerprint_folder))
            elif kind in _COMPUTED and key not in written:
                self._checks.append((key, fingerprint, _COMPUTED[kind]))
        self._checks += [(path, fingerprint, of_file) for path, fingerprint in env_files.items()]

    def is_current(self) -> bool:
        """Return True if everything is as it was recorded."""
        return all(self._is_check_current(number) for number in range(len(self._checks)))

    def _is_check_current(self, number: int) -> bool:
        path, fingerprint, compute = self._checks[number]
        look = None if compute not in (of_file, of_installed) else _look(path)
        known = self._looks.get(number)
        if look is not None and known is not None and known[0] == look and max(look[:2]) < known[1] - _SETTLED:
            return True
        now = time.time_ns()
        if compute(path) != fingerprint:
            return False
        self._looks[number] = (look, now)
        return True


def _make_import_check(names: list[str]) -> Callable[[str], str]:
    return lambda folder: of_import(folder, names)


def _fingerprint_folder(path: str) -> str:
    """Fingerprint a folder like `Recorder.get_current_rows`: all names count."""
    try:
        return of_names(list_entries(path))
    except (OSError, ValueError):
        return ABSENT


_COMPUTED: dict[str, Callable[[str], str]] = {
    "file": of_file,
    "probe": of_probe,
    "time": of_time,
    "mode": of_mode,
    "installed": of_installed,
}


def _look(path: str) -> Any:
    """Return values that change when a file is changed; None if it does not exist."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


# The import of the agent.

_PAUSE = 0.01  # seconds
_TRIES = 10
_TAIL = 16_384  # bytes of output kept for each stream
_HARMLESS = ("/dev/null", "/dev/urandom", "/dev/random")

# A seed set by the import would be lost: generators are seeded anew in each child. Generators without a seed would give
# every child the same numbers.
_SEEDS = re.compile(rb"seed(?:_all|_everything)?\s*\(|\b(?:Random|RandomState|default_rng)\s*\(\s*\)")

# Values drawn by the import, such as a session id, would be equal in all cases. Of a module only statements that are no
# definitions run during its import.
_STATEMENTS = re.compile(rb"^(?!(?:async\s+def|class|def|if\s+__name__)\b)[^\s#@].*(?:\n(?:[ \t].*)?)*", re.MULTILINE)
_DRAWS = re.compile(
    rb"\b(?:uuid[1-8]|urandom|token_(?:bytes|hex|urlsafe)|randint|randrange|random\.(?!default_rng)[a-z]\w*)\s*\("
)


class Unshared(Exception):
    """The agent cannot be shared: each case has to import it itself."""

    def __init__(self, reason: str, *, learned: dict[str, Any] | None = None) -> None:
        """`learned` are the imports; None if another try may succeed."""
        super().__init__(reason)
        self.reason = reason
        self.learned = learned


class AgentImport:
    """A completed import: its failure (None if it succeeded) and its output as bytes."""

    def __init__(self, failure: dict[str, Any] | None, output: tuple[bytes, bytes]) -> None:
        self.failure = failure
        self.output = output


_active: AgentImport | None = None
_snapshot: ImportSnapshot | None = None


_env_files: dict[str, str] = {}


def take_snapshot() -> None:
    """Remember what the imports of this process have read."""
    global _snapshot  # noqa: PLW0603 - there is one process
    with quiet:
        _snapshot = ImportSnapshot(_get_recorder(), env_files=_env_files)


def are_imports_current() -> bool:
    """Return True if everything that the imports of this process have read is unchanged."""
    with quiet:
        return _snapshot is None or _snapshot.is_current()


def get_agent_import() -> AgentImport | None:
    """Return the import that was done before this process was forked; None if it has to import the agent itself."""
    return _active


def import_agent(adapter: Adapter) -> dict[str, Any]:
    """Import the agent in this process. Return its imports, as in the message `imported`. Raises Unshared, Conflict.

    A failed import is kept: every case fails with the same message without another try.
    """
    global _active  # noqa: PLW0603 - there is one process
    with quiet:
        from . import tool_interception  # noqa: F401 - while names still mean the standard library's modules

        env_files = adapter.env_files()
        _env_files.update({path: of_file(path) for path in env_files})
        modules, variables, files = set(sys.modules), dotenv.effective(env_files, os.environ), _open_files()
        recorder = _get_recorder()
        written = recorder.written_files  # such as bytecode of new libraries
    failure = None
    with _Output() as output:
        try:
            enter(adapter)
            adapter.load()
        except BaseException as error:  # including sys.exit
            failure = faults.describe_failure(error, loading=True)
    with quiet:
        learned = report_imports(adapter, modules, variables)
        check_conflicts(variables)
        reason = _explain_unshared(files, recorder.written_files - written)
        if reason is None and failure is not None and failure["kind"] == "infrastructure":
            raise Unshared(failure["message"])
        if reason is not None:
            raise Unshared(reason, learned=learned)
        _active = AgentImport(failure, output.tails)
        take_snapshot()
    return learned


def _explain_unshared(files_before: set[str], written: set[str]) -> str | None:
    """Return why a copy of this process is not as good as an import of its own; None if it is.

    `files_before` are the descriptors open before the import, `written` the files that it wrote.
    """
    if count_threads() > 1 and not _has_threads_ended_by_fork():
        return "its import starts threads"
    opened = _open_files() - files_before
    if opened:
        return f"its import leaves {_name_file(opened)} open"
    if _has_children():
        return "its import starts processes"
    if signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, None):
        return "its import handles SIGCHLD"
    if written:
        return f"its import writes {min(written)}"
    if signal.pthread_sigmask(signal.SIG_BLOCK, ()) or any(signal.getitimer(signal.ITIMER_REAL)):
        return "its import blocks signals or starts a timer"  # children inherit no timers
    sources = [source for _, source in instrument.list_sources()]
    if any(_SEEDS.search(source) for source in sources):
        return "its import may seed random numbers"
    if any(_DRAWS.search(statement[0]) for source in sources for statement in _STATEMENTS.finditer(source)):
        return "its import may draw random numbers"
    return None


def has_lasting_threads(patience: float) -> bool:
    """Return True if a fork loses threads. Threads that end within `patience` seconds are waited for, such as one that
    repeats a download."""
    deadline = time.monotonic() + patience
    while count_threads() > 1 and _count_python_threads() > 1 and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return count_threads() > 1 and not _has_threads_ended_by_fork()


def _count_python_threads() -> int:
    threading = sys.modules.get("threading")
    return 1 if threading is None else threading.active_count()


def _has_threads_ended_by_fork() -> bool:
    """Return True if a fork leaves one thread: OpenBLAS, which numpy loads, ends its threads at a fork."""
    if _count_python_threads() > 1:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a fork with threads, since Python 3.12
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    for _ in range(_TRIES):  # the system lists a thread for a moment after its end
        if count_threads() == 1:
            return True
        time.sleep(0.001)
    return False


def _name_file(opened: set[str]) -> str:
    return min(opened).partition(" ")[2] or "a file"


def _open_files() -> set[str]:
    """Return the descriptors of this process and their targets."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the listing itself
            continue
        if target not in _HARMLESS:
            found.add(f"{name} {target}")
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class _Output:
    """Captures output while it is entered: every case gets it as if it had imported the agent itself."""

    tails: tuple[bytes, bytes] = (b"", b"")

    def __enter__(self) -> _Output:
        flush_streams()
        self._kept = [os.dup(number) for number in (1, 2)]
        self._caught = [os.memfd_create("output") for _ in self._kept]
        for number, caught in zip((1, 2), self._caught, strict=True):
            os.dup2(caught, number)
        return self

    def __exit__(self, *error: object) -> None:
        flush_streams()
        tails: list[bytes] = []
        for number, kept, caught in zip((1, 2), self._kept, self._caught, strict=True):
            os.dup2(kept, number)
            size = os.fstat(caught).st_size
            tails.append(os.pread(caught, _TAIL, max(size - _TAIL, 0)))
            os.close(kept)
            os.close(caught)
        self.tails = (tails[0], tails[1])


def flush_streams() -> None:
    """Flush Python's output streams."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:  # closed or replaced by the agent
            continue
