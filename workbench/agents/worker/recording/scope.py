"""Which callers and which paths count."""

from __future__ import annotations

import os
import sys

from .fingerprints import IGNORED, LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Dict, FrozenSet, Iterable, Iterator, List, Optional, Set, Tuple


# Which files count by where they lie: those that may be edited between two runs of a case.

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


# Who asks: what the frames of those who called tell of why something is done.

_PROBES = frozenset(
    (
        "exists", "lexists", "isfile", "isdir", "islink", "ismount", "isjunction", "samefile", "realpath",
        "_joinrealpath", "resolve", "is_file", "is_dir", "is_symlink", "is_mount", "is_junction",
    )
)  # fmt: skip
_TIMES = frozenset(("getmtime", "getctime", "getatime"))
_PATH_MODULES = ("genericpath", "posixpath", "ntpath", "pathlib")
_PACKAGES = ("importlib", "ctypes")
_ALL_KINDS = frozenset(("time", "mode"))
_KINDS_OF_NAMES = {
    "st_mtime": ("time",), "st_atime": ("time",), "st_birth": ("time",), "st_ctime": ("time", "mode"),
    "st_mode": ("mode",), "st_uid": ("mode",), "st_gid": ("mode",),
}  # fmt: skip
_NO_READER, _WORKSPACE, _LIBRARY = range(3)
_RECORDING = os.path.dirname(os.path.abspath(__file__)) + os.sep

_readers: Dict[str, int] = {}


def _reader(filename: str) -> int:
    """Whose code a file is. Python's own, and what was made from text, reads for somebody else."""
    try:
        return _readers[filename]
    except KeyError:
        if filename.startswith(("<", STANDARD)) and not any(folder in filename for folder in LIBRARY_FOLDERS):
            found = _NO_READER
        elif filename.startswith(OURS) or is_workspace(filename):
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


def kinds_asked() -> FrozenSet[str]:
    """What the agent wants to know of a file besides what it holds: its `time`, its `mode`.

    Names in the agent's code tell, as `st_mtime`. Where there are none it hands on what it was given: any of it counts.
    """
    asked: Optional[FrozenSet[str]] = None
    frame = caller()
    while frame is not None:
        code = frame.f_code
        reader = _reader(code.co_filename)
        if reader == _LIBRARY or code.co_filename.startswith(OURS):
            return frozenset()
        if asked is None:
            asked = _kinds_in(code, _module(code.co_filename))
        if asked is not None and not asked:
            return asked
        if reader == _WORKSPACE:
            return _ALL_KINDS if asked is None else asked
        frame = frame.f_back
    return _ALL_KINDS if asked is None else asked  # a thread of somebody


def _kinds_in(code: CodeType, module: str) -> Optional[FrozenSet[str]]:
    """What code asks of a file by the names in it; None where it does not tell."""
    if (module == "genericpath" and code.co_name in _TIMES) or module == "filecmp":
        return frozenset(("time",))
    if module in ("thread", "threading") or (module == "pathlib" and code.co_name in ("stat", "lstat")):
        return None  # gives its own caller all
    if module == "pathlib" and code.co_name in ("owner", "group"):
        return frozenset(("mode",))
    if module:
        return frozenset()  # Python's own, for reasons of its own
    names = [name for name in code.co_names if name.startswith("st_")]
    return frozenset().union(*(_KINDS_OF_NAMES.get(name[:8], ()) for name in names)) if names else None


def is_raised_by_others(error: BaseException) -> bool:
    """Whether it was code of neither ours nor Python's that raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    name = place.tb_frame.f_code.co_filename
    return not name.startswith(OURS) and _reader(name) != _NO_READER


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


def is_probe(frame: Optional[FrameType]) -> bool:
    """Whether this caller, who asks about a file, only wants to know what it is: a function like `os.path.exists`."""
    while frame is not None and _module(frame.f_code.co_filename) in _PATH_MODULES:
        if frame.f_code.co_name in _PROBES:
            return True
        frame = frame.f_back
    return False


def is_for_warning(path: str) -> bool:
    """Whether a source is only read to show a line of it in a warning."""
    return path.endswith(".py") and is_called_by("linecache", within=2) and is_called_by("warnings", within=8)


def is_view() -> bool:
    """Whether a mapping is read by a view that runs over all of it."""
    frame = caller()
    code = None if frame is None else frame.f_code
    return code is not None and code.co_name == "__iter__" and _module(code.co_filename) == "_collections_abc"


def is_for_proxies() -> bool:
    """Whether a mapping is read by `urllib`, which looks for the variables of proxies in it."""
    frame = _caller_beyond_mappings()
    return frame is not None and frame.f_code.co_name == "getproxies_environment"


def instruction() -> Optional[Tuple[int, int]]:
    """Which call of the nearest caller outside `collections` this is: the same one for all that `dict(x)` does."""
    frame = _caller_beyond_mappings()
    return None if frame is None else (id(frame), frame.f_lasti)


def _caller_beyond_mappings() -> Optional[FrameType]:
    frame = caller()
    while frame is not None and _module(frame.f_code.co_filename) == "_collections_abc":
        frame = frame.f_back
    return frame


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
