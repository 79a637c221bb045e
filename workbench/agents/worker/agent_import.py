"""The import of the agent before the fork: once for all cases that run the same code.

A process that has imported the agent serves as a zygote only while a copy of it is as good as an import of its own:
one thread, no open files or connections, no child processes, nothing written, no seeded random numbers. Otherwise
`Unshared` says why, and each case imports the agent itself.
"""

from __future__ import annotations

import os
import re
import signal
import sys

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

_TAIL = 16_384  # bytes of output kept for each stream
_HARMLESS = ("/dev/null", "/dev/urandom", "/dev/random")

# A seed set by the import would be lost: generators are seeded anew in each child. Generators without a seed would give
# every child the same numbers.
_SEEDS = re.compile(rb"seed(?:_all|_everything)?\s*\(|\b(?:Random|RandomState|default_rng)\s*\(\s*\)")


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
        reason = _why_unshared(files)
        if reason is None and failure is not None and failure["kind"] == "infrastructure":
            raise Unshared(failure["message"])
        if reason is not None:
            raise Unshared(reason, learned=learned)
        recorder = hooks.active()
        assert recorder is not None, "a process records before it serves"
        _active = AgentImport(failure, output.tails, Snapshot(recorder, env_files=env_files))
    return learned


def _why_unshared(files_before: Set[str]) -> Optional[str]:
    """Why a copy of this process is not as good as an import of its own; None where it is."""
    if count_threads() > 1:
        return "its import starts threads"
    opened = _open_files() - files_before
    if opened:
        return f"its import leaves {sorted(opened)[0].partition(' ')[2] or 'a file'} open"
    if _has_children():
        return "its import starts processes"
    if signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, None):
        return "its import handles SIGCHLD"
    recorder = hooks.active()
    if recorder is not None and recorder.has_written:
        return "its import writes files"
    if any(_SEEDS.search(source) for _, source in instrument.sources_by_path()):
        return "its import may seed random numbers"
    return None


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
        _flush()
        self._kept = [os.dup(number) for number in (1, 2)]
        self._caught = [os.memfd_create("output") for _ in self._kept]
        for number, caught in zip((1, 2), self._caught, strict=True):
            os.dup2(caught, number)
        return self

    def __exit__(self, *error: object) -> None:
        _flush()
        tails: List[bytes] = []
        for number, kept, caught in zip((1, 2), self._kept, self._caught, strict=True):
            os.dup2(kept, number)
            size = os.fstat(caught).st_size
            tails.append(os.pread(caught, _TAIL, max(size - _TAIL, 0)))
            os.close(kept)
            os.close(caught)
        self.tails = (tails[0], tails[1])


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:  # closed or replaced by the agent
            continue
