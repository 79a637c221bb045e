"""Scope of recording: which callers and which paths count."""

from __future__ import annotations

import os
import sys

from .fingerprints import ABSENT, IGNORED, LIBRARIES, of_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Iterable, Iterator


# Paths: files that may be edited between two runs of a case count.

LIBRARY_FOLDERS = tuple(os.sep + name + os.sep for name in sorted(LIBRARIES))
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = (STANDARD, OURS)
_OUTSIDE = IGNORED.union(LIBRARIES)
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/") if os.sep == "/" else ()


def is_workspace(path: str) -> bool:
    """Return True if a file or folder may be edited between two cases: not part of Python, an installed library or the
    worker.

    `PYTHONPATH` and editable installations may bring in more than the agent's own folder.
    """
    path = os.path.abspath(path) + os.sep
    return not path.startswith(_INSTALLED) and not any(folder in path for folder in LIBRARY_FOLDERS)


_regular: dict[str, bool] = {}
"""Whether folders of libraries are packages, not namespaces of several ones."""


def find_package(path: str) -> tuple[str, str] | None:
    """Return the folder of libraries that holds a file, and its package there: `google/adk`, `yaml`, `six.py`.

    None if the file is not part of an installed library.
    """
    if path.startswith(OURS):
        return None
    for within in LIBRARY_FOLDERS:
        folder, found, inside = path.partition(within)
        if found:
            folder += within[:-1]
            parts = inside.split(os.sep)
            count = 1
            while count < len(parts) and not _is_regular(os.sep.join((folder, *parts[:count]))):
                count += 1
            return folder, "/".join(parts[:count])
    return None


def _is_regular(folder: str) -> bool:
    known = _regular.get(folder)
    if known is None:
        known = _regular[folder] = of_probe(os.path.join(folder, "__init__.py")) != ABSENT
    return known


class AgentFolders:
    """Folders that count as the agent's own. Elsewhere a file counts only if the agent's own code reads it.

    They are the agent's folder, the folders its imports come from, and its repository or project without hidden
    folders.
    """

    def __init__(self, target_path: str) -> None:
        self._home = os.path.abspath(target_path)
        self._inside: list[str] = []
        self._added: set[str] = set()
        # By folder, not by file: each new entry copies memory pages in a forked child.
        self._known: dict[str, bool] = {}
        self._elsewhere: set[str] = set()
        prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix}
        around = _add_separator(self._home)
        outside = (*_SYSTEM, *map(_add_separator, prefixes))  # disks may be mounted below /run
        self._outside = (*_INSTALLED, *(folder for folder in outside if not around.startswith(folder)))
        self._edges = {
            folder[:-1]: False for folder in self._outside
        }  # folders that differ from the folder around them
        self._project = _find_project(self._home)
        self._to_import_from: dict[str, str] = {}
        self.above = frozenset(_walk_up(self._home))
        """The target's folder and those above it, which exist as long as the target does."""
        self.add([self._home])

    def add(self, folders: Iterable[str]) -> None:
        """Add folders that are the agent's own."""
        for path in folders:
            if path in self._added:
                continue
            if os.path.isabs(path):
                self._added.add(path)
            folder = _add_separator(path)
            if folder not in self._inside and is_workspace(folder):
                self._inside.append(folder)
                self._edges.setdefault(folder[:-1], True)
                self._elsewhere = set()

    def is_inside(self, path: str) -> bool | None:
        """Return whether an absolute path lies in the agent's folders; None if it lies elsewhere but may count."""
        folder, _, name = path.rpartition(os.sep)
        if name in _OUTSIDE:
            return False
        around = self._known.get(folder)
        if around is None and folder not in self._elsewhere:
            around = self._classify_folder(folder)
            if around is None:
                self._elsewhere.add(folder)
            else:
                self._known[folder] = around
        return around if around is False else self._edges.get(path, around)

    def find_own_folder(self, folder: str) -> str | None:
        """Return the absolute path of a folder to import from if it is the agent's own, else None."""
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

    def _classify_folder(self, folder: str) -> bool | None:
        """Return where the content of a folder lies, like `is_inside`; nested exceptions are not considered."""
        inner = folder + os.sep
        if inner.startswith(self._outside) or not _OUTSIDE.isdisjoint(folder.split(os.sep)):
            return False
        if inner.startswith(tuple(self._inside)):
            return True
        is_of_project = self._project is not None and inner.startswith(self._project)
        return True if is_of_project and os.sep + "." not in inner[len(str(self._project)) - 1 :] else None


def _find_project(home: str) -> str | None:
    """Return the repository that contains a folder, else the nearest folder with workbench.toml; with a trailing
    separator."""
    too_wide = (os.path.abspath(os.path.expanduser("~")), os.path.abspath(os.sep))
    folders = [folder for folder in _walk_up(home) if folder not in too_wide]
    for sign in (".git", "workbench.toml"):
        for folder in folders:
            if os.path.lexists(os.path.join(folder, sign)):
                return _add_separator(folder)
    return None


def _walk_up(path: str) -> Iterator[str]:
    """Yield a path and all folders above it, up to the root."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _add_separator(folder: str) -> str:
    path = os.path.abspath(folder)
    return path if path.endswith(os.sep) else path + os.sep


# Callers: their frames reveal the purpose of a call.

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

_readers: dict[str, int] = {}


def _classify_reader(filename: str) -> int:
    """Return whose code a file is. Python's own code and generated code act for their caller."""
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


def is_agent_request() -> bool:
    """Return True if the nearest caller outside Python's own code is the workspace's (or ours on its behalf)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_RECORDING):
            reader = _classify_reader(name)
            if reader != _NO_READER:
                return reader == _WORKSPACE
        frame = frame.f_back
    return False


def find_requested_metadata() -> frozenset[str]:
    """Return the metadata of a file that the agent reads besides its content: `time`, `mode`.

    Names such as `st_mtime` in the agent's code reveal it. Code without such names may pass on the result: all of it
    counts.
    """
    asked: frozenset[str] | None = None
    frame = caller()
    while frame is not None:
        code = frame.f_code
        reader = _classify_reader(code.co_filename)
        if reader == _LIBRARY or code.co_filename.startswith(OURS):
            return frozenset()
        if asked is None:
            asked = _read_metadata_kinds(code, _get_module_name(code.co_filename))
        if asked is not None and not asked:
            return asked
        if reader == _WORKSPACE:
            return _ALL_KINDS if asked is None else asked
        frame = frame.f_back
    return _ALL_KINDS if asked is None else asked  # a thread


def _read_metadata_kinds(code: CodeType, module: str) -> frozenset[str] | None:
    """Return the metadata that a piece of code reads, by the names in it; None if they do not reveal it."""
    if (module == "genericpath" and code.co_name in _TIMES) or module == "filecmp":
        return frozenset(("time",))
    if module in ("thread", "threading") or (module == "pathlib" and code.co_name in ("stat", "lstat")):
        return None  # passes everything on to its caller
    if module == "pathlib" and code.co_name in ("owner", "group"):
        return frozenset(("mode",))
    if module:
        return frozenset()  # Python's own purposes
    names = [name for name in code.co_names if name.startswith("st_")]
    return frozenset().union(*(_KINDS_OF_NAMES.get(name[:8], ()) for name in names)) if names else None


def is_raised_by_others(error: BaseException) -> bool:
    """Return True if the exception comes from code that is neither ours nor Python's."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    name = place.tb_frame.f_code.co_filename
    return not name.startswith(OURS) and _classify_reader(name) != _NO_READER


def is_import_of_library() -> bool:
    """Return True if a library is being imported and no code of the agent was called on the way."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith(_RECORDING) and _classify_reader(name) == _WORKSPACE:
            return False
        frame = frame.f_back
    return False


def is_probe(frame: FrameType | None) -> bool:
    """Return True if the caller only checks what a path is, with a function such as `os.path.exists`."""
    while frame is not None and _get_module_name(frame.f_code.co_filename) in _PATH_MODULES:
        if frame.f_code.co_name in _PROBES:
            return True
        frame = frame.f_back
    return False


_WARNINGS = ("warnings", "_py_warnings")  # from Python 3.14 on the second


def is_for_warning(path: str) -> bool:
    """Return True if a source is read only to show a line of it in a warning."""
    return path.endswith(".py") and has_caller("linecache", within=2) and has_caller(*_WARNINGS, within=8)


def is_view() -> bool:
    """Return True if a mapping is read by a view that iterates over all of it."""
    frame = caller()
    code = None if frame is None else frame.f_code
    return code is not None and code.co_name == "__iter__" and _get_module_name(code.co_filename) == "_collections_abc"


def is_for_proxies() -> bool:
    """Return True if `urllib` reads a mapping to find the variables of proxies."""
    frame = _find_caller_outside_mappings()
    return frame is not None and frame.f_code.co_name == "getproxies_environment"


def get_call_site() -> tuple[int, int] | None:
    """Return the call of the nearest caller outside `collections`. It is the same for all reads of one `dict(x)`."""
    frame = _find_caller_outside_mappings()
    return None if frame is None else (id(frame), frame.f_lasti)


def _find_caller_outside_mappings() -> FrameType | None:
    frame = caller()
    while frame is not None and _get_module_name(frame.f_code.co_filename) == "_collections_abc":
        frame = frame.f_back
    return frame


def has_caller(*modules: str, within: int = 1) -> bool:
    """Return True if one of the nearest callers is in one of these modules of Python's own or installed."""
    frame = caller()
    for _ in range(within):
        if frame is None:
            return False
        if _get_module_name(frame.f_code.co_filename) in modules:
            return True
        frame = frame.f_back
    return False


def caller() -> FrameType | None:
    """Return the nearest frame outside the recorder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_RECORDING):
        frame = frame.f_back
    return frame


_modules: dict[str, str] = {}


def _get_module_name(filename: str) -> str:
    """Return the name of a module by its file, dotted below some packages; empty for the workspace."""
    try:
        return _modules[filename]
    except KeyError:
        found = _modules[filename] = _derive_module_name(filename)
        return found


def _derive_module_name(filename: str) -> str:
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
