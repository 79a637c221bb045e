"""Which files count by where they lie: those that may be edited between two runs of a case."""

from __future__ import annotations

import os
import sys

from .fingerprints import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional, Set

LIBRARY_FOLDERS = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = (STANDARD, OURS)
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/") if os.sep == "/" else ()


def is_workspace(path: str) -> bool:
    """Whether a file or folder may be edited between two cases: any that is not of Python, an installed library or us.

    Not only what lies in the agent's own folder: also what `PYTHONPATH` or an editable installation brings in.
    """
    path = os.path.abspath(path) + os.sep
    return not path.startswith(_INSTALLED) and not any(folder in path for folder in LIBRARY_FOLDERS)


class Places:
    """Where the agent is at home. Elsewhere a file counts only where the agent's own code asks for it."""

    def __init__(self, target_path: str) -> None:
        self._home = os.path.abspath(target_path)
        self._inside: List[str] = []
        self._known: Dict[str, bool] = {}  # never cleared: in a forked child that would copy many pages of memory
        self._elsewhere: Set[str] = set()
        prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix}
        around = _with_separator(self._home)
        outside = (*_SYSTEM, *map(_with_separator, prefixes))  # but disks are mounted below /run, too
        self._outside = tuple(folder for folder in outside if not around.startswith(folder))
        self.add([self._home])

    def add(self, folders: Iterable[str]) -> None:
        """Folders that are the agent's own, too."""
        for folder in map(_with_separator, folders):
            if folder not in self._inside and is_workspace(folder):
                self._inside.append(folder)
                self._elsewhere = set()

    def is_inside(self, path: str) -> Optional[bool]:
        """Whether a path (absolute) lies where the agent is at home; None where it lies elsewhere, but may count."""
        known = self._known.get(path)
        if known is not None or path in self._elsewhere:
            return known
        found = self._place(path)
        if found is None:
            self._elsewhere.add(path)
        else:
            self._known[path] = found
        return found

    def is_above(self, path: str) -> bool:
        """Whether a folder holds the target's: it will be there for as long as the target is."""
        return self._home.startswith(_with_separator(path)) or path == self._home

    def _place(self, path: str) -> Optional[bool]:
        inner = path + os.sep
        if inner.startswith(self._outside) or not is_workspace(path):
            return False
        if not IGNORED.isdisjoint(path.split(os.sep)):
            return False
        return True if inner.startswith(tuple(self._inside)) else None


def _with_separator(folder: str) -> str:
    path = os.path.abspath(folder)
    return path if path.endswith(os.sep) else path + os.sep
