"""Which files count: those that may be edited between two runs of a case, and who asked for them."""

from __future__ import annotations

import os
import sys

from .fingerprints import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Dict, Iterable, List, Optional, Set, Tuple

_LIBRARY_FOLDERS = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = (_STANDARD, _OURS)
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/") if os.sep == "/" else ()

_PROBES = frozenset(
    (
        "exists", "lexists", "isfile", "isdir", "islink", "ismount", "isjunction", "samefile", "realpath",
        "_joinrealpath", "resolve", "is_file", "is_dir", "is_symlink", "is_mount", "is_junction",
    )
)  # fmt: skip
_PATH_MODULES = ("genericpath", "posixpath", "ntpath", "pathlib")
_PACKAGES = ("importlib", "ctypes")
_NO_READER, _WORKSPACE, _LIBRARY = range(3)
_RECORDING = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_workspace(path: str) -> bool:
    """Whether a file or folder may be edited between two cases: any that is not of Python, an installed library or us.

    Not only what lies in the agent's own folder: also what `PYTHONPATH` or an editable installation brings in.
    """
    path = os.path.abspath(path) + os.sep
    return not path.startswith(_INSTALLED) and not any(folder in path for folder in _LIBRARY_FOLDERS)


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

    def counts(self, path: str) -> bool:
        """Whether what happens to a file (absolute) is to be recorded, given who asks for it now."""
        inside = self.is_inside(path)
        return inside if inside is not None else is_asked_by_agent()

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


_readers: Dict[str, int] = {}


def _reader(filename: str) -> int:
    """Whose code a file is. Python's own, and what was made from text, reads for somebody else."""
    try:
        return _readers[filename]
    except KeyError:
        if filename.startswith(("<", _STANDARD)) and not any(folder in filename for folder in _LIBRARY_FOLDERS):
            found = _NO_READER
        elif filename.startswith(_OURS) or is_workspace(filename):
            found = _WORKSPACE
        else:
            found = _LIBRARY
        _readers[filename] = found
        return found


def is_asked_by_agent() -> bool:
    """Whether the nearest caller that is not Python's own is code of the workspace (or ours, in its place)."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_RECORDING):
            reader = _reader(name)
            if reader != _NO_READER:
                return reader == _WORKSPACE
        frame = frame.f_back
    return False


def is_raised_by_others(error: BaseException) -> bool:
    """Whether it was code of neither ours nor Python's that raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    name = place.tb_frame.f_code.co_filename
    return not name.startswith(_OURS) and _reader(name) != _NO_READER


def is_import_of_library() -> bool:
    """Whether a library is being imported, and nothing of the agent has been called for it."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith(_RECORDING) and _reader(name) == _WORKSPACE:
            return False
        frame = frame.f_back
    return False


def is_probe() -> bool:
    """Whether whoever asks about a file only wants to know what it is: a function such as `os.path.exists`."""
    frame = caller()
    while frame is not None and _module(frame.f_code.co_filename) in _PATH_MODULES:
        if frame.f_code.co_name in _PROBES:
            return True
        frame = frame.f_back
    return False


def is_view() -> bool:
    """Whether a mapping is read by a view that runs over all of it."""
    frame = caller()
    code = None if frame is None else frame.f_code
    return code is not None and code.co_name == "__iter__" and _module(code.co_filename) == "_collections_abc"


def instruction() -> Optional[Tuple[int, int]]:
    """Which call of the nearest caller outside `collections` this is: the same one for all that `dict(x)` does."""
    frame = caller()
    while frame is not None and _module(frame.f_code.co_filename) == "_collections_abc":
        frame = frame.f_back
    return None if frame is None else (id(frame), frame.f_lasti)


def is_called_by(*modules: str, within: int = 1) -> bool:
    """Whether one of the nearest callers is in one of these modules, of Python's own or installed."""
    frame = caller()
    for _ in range(within):
        if frame is None:
            return False
        if _module(frame.f_code.co_filename) in modules:
            return True
        frame = frame.f_back
    return False


def caller() -> Optional[FrameType]:
    """The nearest caller that does not record."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_RECORDING):
        frame = frame.f_back
    return frame


_modules: Dict[str, str] = {}


def _module(filename: str) -> str:
    """The name of a module by its file, below some packages dotted; nothing where it is of the workspace."""
    try:
        return _modules[filename]
    except KeyError:
        found = _modules[filename] = _module_name(filename)
        return found


def _module_name(filename: str) -> str:
    if filename.startswith("<"):
        return filename[8:-1] if filename.startswith("<frozen ") else ""
    if is_workspace(filename):
        return ""
    parts = os.path.splitext(filename)[0].split(os.sep)
    if parts[-1] == "__init__":
        del parts[-1]
    if parts[-2] == "pathlib":  # a package in some versions
        return "pathlib"
    return ".".join(parts[-2:]) if parts[-2] in _PACKAGES else parts[-1]
