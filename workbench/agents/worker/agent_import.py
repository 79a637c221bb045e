"""The import of the agent before the fork: once for all cases that run the same code.

A process that has imported the agent serves as a zygote only while a copy of it is as good as an import of its own:
one thread, no open files or connections, no child processes, no timers or blocked signals, nothing written, no random
numbers drawn or seeded. Otherwise `Unshared` says why, and each case imports the agent itself.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import warnings

from . import faults
from .loading import compiled_here, enter
from .preload import changed_keys, count_threads, imported_since
from .recording import hooks, instrument
from .recording.recorder import quiet
from .recording.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple

    from .adapters.base import Adapter

_TRIES = 10
_TAIL = 16_384  # bytes of output kept for each stream
_HARMLESS = ("/dev/null", "/dev/urandom", "/dev/random")

# A seed set by the import would be lost: generators are seeded anew in each child. Generators without a seed would give
# every child the same numbers.
_SEEDS = re.compile(rb"seed(?:_all|_everything)?\s*\(|\b(?:Random|RandomState|default_rng)\s*\(\s*\)")

# What the import draws would be the same in every case: an id of a session, a name of a database. Only statements of a
# module that are no definitions run while it is imported.
_STATEMENTS = re.compile(rb"^(?!(?:async\s+def|class|def|if\s+__name__)\b)[^\s#@].*(?:\n(?:[ \t].*)?)*", re.MULTILINE)
_DRAWS = re.compile(
    rb"\b(?:uuid[1-8]|urandom|token_(?:bytes|hex|urlsafe)|randint|randrange|random\.(?!default_rng)[a-z]\w*)\s*\("
)


class Unshared(Exception):
    """Each case has to import the agent itself."""

    def __init__(self, reason: str, *, learned: Optional[Dict[str, Any]] = None) -> None:
        """`learned` is what was imported; None where another try may go better."""
        super().__init__(reason)
        self.reason = reason
        self.learned = learned


class AgentImport:
    """An import that was done: how it failed (None where it did not) and what it printed, as bytes."""

    def __init__(self, failure: Optional[Dict[str, Any]], output: Tuple[bytes, bytes], snapshot: Snapshot) -> None:
        self.failure = failure
        self.output = output
        self._snapshot = snapshot

    def is_current(self) -> bool:
        """Whether all that the import read is still as it was."""
        with quiet:
            return self._snapshot.is_current()


_active: Optional[AgentImport] = None


def active() -> Optional[AgentImport]:
    """The import that was done before this process was forked; None where it has to import the agent itself."""
    return _active


def import_agent(adapter: Adapter) -> Dict[str, Any]:
    """Import the agent in this process. Returns what it imported, as in the message `imported`. Raises Unshared.

    An import that fails is kept too: every case then fails with the same message, without another try.
    """
    global _active  # noqa: PLW0603 - there is one process
    with quiet:
        from . import asking, interception  # noqa: F401 - while names still mean the standard library's modules

        modules, variables, files = set(sys.modules), dict(os.environ), _open_files()
        env_files = adapter.env_files()
        recorder = hooks.active()
        assert recorder is not None, "a process records before it serves"
        written = recorder.written  # such as the bytecode of libraries that were new
    failure = None
    with _Output() as output:
        try:
            enter(adapter)
            adapter.load()
        except BaseException as error:  # whatever the agent's modules raise, sys.exit included
            failure = faults.describe_failure(error, loading=True)
    with quiet:
        learned = {
            "imports": imported_since(modules, adapter.import_roots()),
            "sources": list(compiled_here),
            "environment": changed_keys(variables),
        }
        compiled_here.clear()
        reason = _why_unshared(files, recorder.written - written)
        if reason is None and failure is not None and failure["kind"] == "infrastructure":
            raise Unshared(failure["message"])
        if reason is not None:
            raise Unshared(reason, learned=learned)
        _active = AgentImport(failure, output.tails, Snapshot(recorder, env_files=env_files))
    return learned


def _why_unshared(files_before: Set[str], written: Set[str]) -> Optional[str]:
    """Why a copy of this process is not as good as an import of its own; None where it is.

    `files_before` are the descriptors that were open before the import, `written` the files that it has written.
    """
    if count_threads() > 1 and not _threads_end_at_a_fork():
        return "its import starts threads"
    opened = _open_files() - files_before
    if opened:
        return f"its import leaves {sorted(opened)[0].partition(' ')[2] or 'a file'} open"
    if _has_children():
        return "its import starts processes"
    if signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, None):
        return "its import handles SIGCHLD"
    if written:
        return f"its import writes {min(written)}"
    if signal.pthread_sigmask(signal.SIG_BLOCK, ()) or any(signal.getitimer(signal.ITIMER_REAL)):
        return "its import blocks signals or starts a timer"  # children inherit no timers
    sources = [source for _, source in instrument.sources_by_path()]
    if any(_SEEDS.search(source) for source in sources):
        return "its import may seed random numbers"
    if any(_DRAWS.search(statement[0]) for source in sources for statement in _STATEMENTS.finditer(source)):
        return "its import may draw random numbers"
    return None


def _threads_end_at_a_fork() -> bool:
    """Whether a fork leaves one thread here: OpenBLAS, which numpy brings, ends its threads then."""
    if "threading" in sys.modules and sys.modules["threading"].active_count() > 1:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads, from Python 3.12 on
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    for _ in range(_TRIES):  # the system lists a thread for a moment after its end
        if count_threads() == 1:
            return True
        time.sleep(0.001)
    return False


def _open_files() -> Set[str]:
    """Descriptors of this process and what they lead to."""
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
    """Catches what is printed while it is entered: every case gets it, as if it had imported the agent itself."""

    tails: Tuple[bytes, bytes] = (b"", b"")

    def __enter__(self) -> _Output:
        flush()
        self._kept = [os.dup(number) for number in (1, 2)]
        self._caught = [os.memfd_create("output") for _ in self._kept]
        for number, caught in zip((1, 2), self._caught, strict=True):
            os.dup2(caught, number)
        return self

    def __exit__(self, *error: object) -> None:
        flush()
        tails: List[bytes] = []
        for number, kept, caught in zip((1, 2), self._kept, self._caught, strict=True):
            os.dup2(kept, number)
            size = os.fstat(caught).st_size
            tails.append(os.pread(caught, _TAIL, max(size - _TAIL, 0)))
            os.close(kept)
            os.close(caught)
        self.tails = (tails[0], tails[1])


def flush() -> None:
    """Write out what Python's streams hold."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:  # closed or replaced by the agent
            continue
