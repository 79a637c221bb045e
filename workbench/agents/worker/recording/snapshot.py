"""Whether what a process has recorded still holds: checked before each fork that copies an imported agent."""

from __future__ import annotations

import os
import time

from . import instrument
from .fingerprints import (
    ABSENT,
    digest,
    names_in,
    of_file,
    of_import,
    of_installed,
    of_mode,
    of_names,
    of_probe,
    of_time,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

    from .recorder import Recorder

_SETTLED = 2_000_000_000  # nanoseconds: a change may leave times and size as they were where it comes sooner


class Snapshot:
    """The files, folders and modules that a process has read. Environment variables cannot change from outside.

    `env_files` are files that count whether they were there or not.
    """

    def __init__(self, recorder: Recorder, *, env_files: List[str]) -> None:
        self._checks: List[Tuple[str, str, Callable[[str], str]]] = []
        self._looks: Dict[int, Tuple[Any, int]] = {}
        sources = {os.path.abspath(path): source for path, source in instrument.sources_by_path()}
        for kind, key, fingerprint in recorder.found():
            if kind == "rest":
                self._checks.append((key, digest(sources.get(key, b"")), of_file))
            elif kind == "import":
                folder, _, names = key.partition("::")
                self._checks.append((folder, fingerprint, _import_of(names.split(","))))
            elif kind == "folder":
                self._checks.append((key, fingerprint, _of_folder))
            elif kind in _COMPUTED:
                self._checks.append((key, fingerprint, _COMPUTED[kind]))
        self._checks += [(path, of_file(path), of_file) for path in env_files]

    def is_current(self) -> bool:
        """Whether everything is as it was recorded."""
        return all(self._holds(number) for number in range(len(self._checks)))

    def _holds(self, number: int) -> bool:
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


def _import_of(names: List[str]) -> Callable[[str], str]:
    return lambda folder: of_import(folder, names)


def _of_folder(path: str) -> str:
    """As `Recorder.found` has it: all names, whoever wrote them."""
    try:
        return of_names(names_in(path))
    except (OSError, ValueError):
        return ABSENT


_COMPUTED: Dict[str, Callable[[str], str]] = {
    "file": of_file,
    "probe": of_probe,
    "time": of_time,
    "mode": of_mode,
    "installed": of_installed,
}


def _look(path: str) -> Any:
    """What changes when a file is changed; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
