"""Which files count by where they lie: those that may be edited between two runs of a case."""

from __future__ import annotations

import os
import sys

from .fingerprints import IGNORED, LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, Iterator, List, Optional, Set

LIBRARY_FOLDERS = tuple(os.sep + name + os.sep for name in sorted(LIBRARIES))
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = (STANDARD, OURS)
_OUTSIDE = IGNORED.union(LIBRARIES)
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/") if os.sep == "/" else ()


def is_workspace(path: str) -> bool:
    """Whether a file or folder may be edited between two cases: any that is not of Python, an installed library or us.

    Not only what lies in the agent's own folder: also what `PYTHONPATH` or an editable installation brings in.
    """
    path = os.path.abspath(path) + os.sep
    return not path.startswith(_INSTALLED) and not any(folder in path for folder in LIBRARY_FOLDERS)


class Places:
    """Where the agent is at home. Elsewhere a file counts only where the agent's own code asks for it.

    At home it is in its folder, in those its imports come from, and in its repository or project, but for hidden
    folders.
    """

    def __init__(self, target_path: str) -> None:
        self._home = os.path.abspath(target_path)
        self._inside: List[str] = []
        self._added: Set[str] = set()
        # By folder, not by file: in a forked child each one that is new copies a page of memory, or several.
        self._known: Dict[str, bool] = {}
        self._elsewhere: Set[str] = set()
        prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix}
        around = _with_separator(self._home)
        outside = (*_SYSTEM, *map(_with_separator, prefixes))  # but disks are mounted below /run, too
        self._outside = (*_INSTALLED, *(folder for folder in outside if not around.startswith(folder)))
        self._edges = {folder[:-1]: False for folder in self._outside}  # folders that are not where those around are
        self._project = _project_of(self._home)
        self._to_import_from: Dict[str, str] = {}
        self.above = frozenset(_folders_above(self._home))
        """The target's folder and those that hold it: they will be there for as long as the target is."""
        self.add([self._home])

    def add(self, folders: Iterable[str]) -> None:
        """Folders that are the agent's own, too."""
        for path in folders:
            if path in self._added:
                continue
            if os.path.isabs(path):
                self._added.add(path)
            folder = _with_separator(path)
            if folder not in self._inside and is_workspace(folder):
                self._inside.append(folder)
                self._edges.setdefault(folder[:-1], True)
                self._elsewhere = set()

    def is_inside(self, path: str) -> Optional[bool]:
        """Whether a path (absolute) lies where the agent is at home; None where it lies elsewhere, but may count."""
        folder, _, name = path.rpartition(os.sep)
        if name in _OUTSIDE:
            return False
        around = self._known.get(folder)
        if around is None and folder not in self._elsewhere:
            around = self._place(folder)
            if around is None:
                self._elsewhere.add(folder)
            else:
                self._known[folder] = around
        return around if around is False else self._edges.get(path, around)

    def own_folder(self, folder: str) -> Optional[str]:
        """The absolute path of a folder to import from, where the agent is at home in it."""
        found = self._to_import_from.get(folder)
        if found is None:
            path = os.path.abspath(folder)
            inside = self.is_inside(path)
            if inside is None:
                self.add([path])
                inside = self.is_inside(path)
            found = path if inside else ""
            if os.path.isabs(folder):
                self._to_import_from[folder] = found
        return found or None

    def _place(self, folder: str) -> Optional[bool]:
        """Where what is in a folder lies, unless it is at an edge."""
        inner = folder + os.sep
        if inner.startswith(self._outside) or not _OUTSIDE.isdisjoint(folder.split(os.sep)):
            return False
        if inner.startswith(tuple(self._inside)):
            return True
        is_of_project = self._project is not None and inner.startswith(self._project)
        return True if is_of_project and os.sep + "." not in inner[len(str(self._project)) - 1 :] else None


def _project_of(home: str) -> Optional[str]:
    """The repository that a folder lies in, or else the nearest folder with settings of ours, with a separator."""
    nobodys = (os.path.abspath(os.path.expanduser("~")), os.path.abspath(os.sep))
    folders = [folder for folder in _folders_above(home) if folder not in nobodys]
    for sign in (".git", "workbench.toml"):
        for folder in folders:
            if os.path.lexists(os.path.join(folder, sign)):
                return _with_separator(folder)
    return None


def _folders_above(path: str) -> Iterator[str]:
    """A path and all folders around it, up to the root."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _with_separator(folder: str) -> str:
    path = os.path.abspath(folder)
    return path if path.endswith(os.sep) else path + os.sep
