"""Edits of installed libraries: files that differ from what their installation recorded in `RECORD`.

A worker reports from which packages its process imported, as rows of the kind `libraries`. Their fingerprint is added
here, on the machine that compares it later. Installing the same versions again, also elsewhere, does not change it.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import math
import os
import stat
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from workbench.agents.worker.recording import fingerprints
from workbench.model.identity import Dependencies, Dependency, DependencyKind

_AGE = 1.0  # seconds for which the state of a package counts as current, unless its folders are watched
_SHARE = 50  # and at least as many times what it took to find out
_COARSE_NS = 10_000_000  # nanoseconds by which the clock of a disk may be behind
_LARGE = 4 * 1024 * 1024  # bytes; of larger files only size and time are compared
_INSTALLING_NS = 60_000_000_000  # nanoseconds until `RECORD` follows a large file
_MOST_NAMED = 40  # edited files in a fingerprint; further ones are part of a hash
_AS_INSTALLED = "as installed"
_CHANGED = "changed at "
_UNKNOWN = "-"  # as workers report it
_SOURCE = ".py"
_NOT_COUNTED = (".pyc", ".pyo")


class Package(NamedTuple):
    """A top-level package, or module, in a folder of installed libraries. `name` is relative: `google/adk`, `six.py`"""

    folder: str
    name: str

    @property
    def path(self) -> str:
        """Its folder or file."""
        return os.path.join(self.folder, self.name)


def parse_packages(row: Dependency) -> list[Package]:
    """Return the packages of a row of the kind `libraries`."""
    folder, _, names = row.key.rpartition("::")
    return [Package(folder, name) for name in names.split(",")]


def find_changed_files(before: str, now: str) -> list[str]:
    """Return which files, relative to the folder of libraries, differ between two fingerprints. Empty if unknown."""
    if before.startswith(_CHANGED):
        return []
    parts = [dict(part.rpartition("=")[::2] for part in text.split("\0") if "=" in part) for text in (before, now)]
    return sorted(name for name in {*parts[0], *parts[1]} if parts[0].get(name) != parts[1].get(name))


def _is_incomplete(row: Dependency) -> bool:
    return row.kind == DependencyKind.LIBRARIES and row.fingerprint == _UNKNOWN


class _RecordedFile(NamedTuple):
    """A file as it was installed. `digest` is that of `RECORD`; without it all of its content counts."""

    method: str
    digest: str
    size: int
    recorded_ns: int
    """When `RECORD` was written."""


_NOT_RECORDED = _RecordedFile("sha256", "", -1, 0)


class _PackageState(NamedTuple):
    edits: tuple[str, ...]
    changed_ns: int  # the newest change of any file
    changed_file: str
    mark: int  # differs if any file was touched
    found_at: float  # monotonic
    cost: float  # seconds


class InstalledLibraries:
    """The state of the packages that agents import. Thread-safe; methods that look at files block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, list[str]]] = {}  # by folder: RECORD files by how paths in them start
        self._files: dict[Package, dict[str, _RecordedFile]] = {}
        self._states: dict[Package, _PackageState] = {}
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}  # of files that changed after their installation
        self._watched: frozenset[Package] = frozenset()
        self._watched_by: dict[object, frozenset[Package]] = {}

    async def complete(self, recorded: Dependencies | None, *, loaded_ns: int) -> Dependencies | None:
        """Add the state of the packages that a process imported from.

        `loaded_ns` is a time (nanoseconds since 1970) at which everything loaded so far was as on the disk. If a file
        has changed since, what the process loaded is unknown, and the fingerprint equals no state.
        """
        rows = () if recorded is None else [row for row in recorded.rows if _is_incomplete(row)]
        if recorded is None or not rows:
            return recorded
        if all(self._get_known_state(package) for row in rows for package in parse_packages(row)):
            complete = self._complete_rows(rows, loaded_ns)
        else:
            complete = await asyncio.to_thread(self._complete_rows, rows, loaded_ns)
        return recorded.model_copy(update={"rows": recorded.rows.difference(rows).union(complete)})

    def _complete_rows(self, rows: Iterable[Dependency], loaded_ns: int) -> list[Dependency]:
        return [row._replace(fingerprint=self._describe(parse_packages(row), loaded_ns)) for row in rows]

    def fingerprint(self, row: Dependency) -> str:
        """Return the present fingerprint of a row."""
        return self._describe(parse_packages(row))

    def _describe(self, packages: Iterable[Package], loaded_ns: float = math.inf) -> str:
        states = self._find_states(packages)
        newest = max((state.changed_ns for state in states), default=0)
        if newest + _COARSE_NS > loaded_ns:
            return f"{_CHANGED}{newest}"
        edits = sorted(edit for state in states for edit in state.edits)
        named, others = edits[:_MOST_NAMED], edits[_MOST_NAMED:]
        if others:
            named.append(fingerprints.digest("\0".join(others).encode("utf-8", "surrogateescape")))
        return "\0".join(named) or _AS_INSTALLED

    def list_folders(self, packages: Iterable[Package]) -> set[str]:
        """Return the existing folders that hold files of packages."""
        with self._lock:
            files = [os.path.join(package.folder, name) for package in packages for name in self._list_files(package)]
        return {folder for folder in map(os.path.dirname, dict.fromkeys(files)) if os.path.isdir(folder)}

    def is_counted(self, path: str, packages: Iterable[Package]) -> bool:
        """Return True if a file belongs to one of the packages: data that programs leave there does not count."""
        for package in packages:
            if path == package.path or path.startswith(package.path + os.sep):
                with self._lock:
                    files = self._list_files(package)
                return path.endswith(_SOURCE) or os.path.relpath(path, package.folder) in files
        return False

    def get_mark(self, package: Package) -> int | None:
        """Return a number for the last look at a package that differs if a file was touched; None without a look."""
        known = self._states.get(package)
        return None if known is None else known.mark

    def get_changed_file(self, package: Package) -> str:
        """Return the path of the file that changed last, as of the last look."""
        known = self._states.get(package)
        return package.path if known is None else known.changed_file

    def refresh_watched(self, packages: Collection[Package], *, watcher: object) -> dict[Package, int]:
        """Look at these packages, and then only at the next call: `watcher` notices changes of these and no others.

        Return their marks, see `get_mark`.
        """
        with self._lock:
            self._watched_by[watcher] = frozenset(packages)
            self._watched = frozenset().union(*self._watched_by.values())
            return {package: self._read_state(package).mark for package in packages}

    def end_watch(self, watcher: object) -> None:
        """Forget that a watcher notices changes."""
        with self._lock:
            self._watched_by.pop(watcher, None)
            self._watched = frozenset().union(*self._watched_by.values())

    def forget_unwatched(self) -> None:
        """Forget the states of packages of which no watcher notices changes: they may have been edited."""
        with self._lock:
            for package in self._states.keys() - self._watched:
                del self._states[package]

    def forget(self) -> None:
        """Forget everything: other libraries may have been installed."""
        with self._lock:
            self._states.clear()
            self._files.clear()
            self._records.clear()

    def _find_states(self, packages: Iterable[Package]) -> list[_PackageState]:
        states = [(package, self._get_known_state(package)) for package in packages]
        if all(state for _, state in states):
            return [state for _, state in states if state]
        with self._lock:
            return [self._get_known_state(package) or self._read_state(package) for package, _ in states]

    def _get_known_state(self, package: Package) -> _PackageState | None:
        """Return the state unless it may be outdated."""
        known = self._states.get(package)
        if known is None:
            return None
        age = math.inf if package in self._watched else max(_AGE, _SHARE * known.cost)
        return known if time.monotonic() - known.found_at < age else None

    # All that follows needs the lock.

    def _read_state(self, package: Package) -> _PackageState:
        began = time.monotonic()
        edits: list[str] = []
        changed_ns, changed_file, marks = 0, package.path, []
        files = self._list_files(package)
        for name, recorded in (*files.items(), *_list_added_modules(package, files)):
            path = os.path.join(package.folder, name)
            try:
                found = os.stat(path)
            except OSError:
                edits.append(f"{_escape(name)}={fingerprints.ABSENT}")
                changed_ns, changed_file = max((changed_ns, changed_file), (_find_removal_ns(path), path))
                continue
            marks.append((name, found.st_ctime_ns, found.st_size))
            changed_ns, changed_file = max((changed_ns, changed_file), (found.st_ctime_ns, path))
            if found.st_ctime_ns > recorded.recorded_ns and (edit := self._find_edit(path, found, recorded)):
                edits.append(f"{_escape(name)}={edit}")
        now = time.monotonic()
        mark = hash((tuple(marks), tuple(edits)))
        state = _PackageState(tuple(edits), changed_ns, changed_file, mark, now, now - began)
        self._states[package] = state
        return state

    def _find_edit(self, path: str, found: os.stat_result, recorded: _RecordedFile) -> str:
        """Return the fingerprint of a file that was edited; empty if it is as it was installed."""
        if not stat.S_ISREG(found.st_mode):  # reading a pipe may wait for ever
            return "special"
        if found.st_size > _LARGE:
            is_later = found.st_mtime_ns > recorded.recorded_ns + _INSTALLING_NS
            is_same = found.st_size == recorded.size and not is_later
            return "" if is_same else f"{found.st_size}:{found.st_mtime_ns}"
        look = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        known = self._digests.get(path)
        if known is None or known[0] != look:
            known = self._digests[path] = look, _hash_file(path, recorded.method)
        return "" if known[1] == recorded.digest else known[1][:16]

    def _list_files(self, package: Package) -> dict[str, _RecordedFile]:
        """Return the files of a package by their paths relative to the folder of libraries."""
        known = self._files.get(package)
        if known is None:
            start = "/".join(package.name.split("/")[:2])
            records = self._list_records(package.folder).get(start, ())
            looks = [(record, look) for record in records if (look := _look_at(record)) is not None]
            files = {name: file for record, look in looks for name, file in _read_record(record, look, package)}
            known = self._files[package] = files or _list_unrecorded_files(package)
        return known

    def _list_records(self, folder: str) -> dict[str, list[str]]:
        """Return the `RECORD` files of a folder of libraries, by the first one and two parts of the paths in them."""
        known = self._records.get(folder)
        if known is None:
            known = self._records[folder] = {}
            for name in _list_names(folder):
                record = os.path.join(folder, name, "RECORD")
                if name.endswith(".dist-info") and (look := _look_at(record)) is not None:
                    for start in _list_starts(record, look):
                        known.setdefault(start, []).append(record)
        return known


def _escape(name: str) -> str:
    """Return a name that can be stored, whatever bytes it has."""
    return name.encode("utf-8", "backslashreplace").decode()


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


class _Look(NamedTuple):
    """Identifies a state of a `RECORD`, to read it once: environments have hundreds of them, and few change."""

    ctime_ns: int
    mtime_ns: int
    size: int
    inode: int


def _look_at(record: str) -> _Look | None:
    """Return the state of a `RECORD`; None if there is none."""
    try:
        found = os.stat(record)
    except OSError:
        return None
    return _Look(found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=4096)
def _list_starts(record: str, _look: _Look) -> frozenset[str]:
    """Return the first part, and the first two parts, of all paths in a `RECORD`."""
    starts = set()
    for line in _read_lines(record):
        path = line.split(",", 1)[0].lstrip('"')
        first = path.find("/")
        if first < 0:
            starts.add(path)
            continue
        second = path.find("/", first + 1)
        starts.add(path[:first])
        starts.add(path if second < 0 else path[:second])
    return frozenset(starts)


def _read_lines(record: str) -> list[str]:
    try:
        with open(record, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


@lru_cache(maxsize=512)
def _read_record(record: str, look: _Look, package: Package) -> tuple[tuple[str, _RecordedFile], ...]:
    """Return the files of a package in a `RECORD`. It is CSV: path, `METHOD=DIGEST` in base64, size (PEP 376, 427)."""
    inside = package.name + "/"
    starts = (inside, f'"{inside}', package.name + ",")
    try:
        rows = list(csv.reader(line for line in _read_lines(record) if line.startswith(starts)))
    except csv.Error:
        return ()
    files = []
    for name, digest, size in (row for row in rows if len(row) == 3):
        if digest and not name.endswith(_NOT_COUNTED) and "\0" not in name:
            method, _, value = digest.partition("=")
            is_usable = value and method in hashlib.algorithms_available
            number = int(size) if size.isdecimal() else -1
            files.append((name, _RecordedFile(method, value, number, look.ctime_ns) if is_usable else _NOT_RECORDED))
    return tuple(files)


def _list_added_modules(package: Package, recorded: Collection[str]) -> Iterator[tuple[str, _RecordedFile]]:
    """Yield modules that were added to a package: its own modules may import them."""
    folders = {os.path.dirname(name) for name in recorded if name != package.name}
    for folder in folders:
        for name in _list_names(os.path.join(package.folder, folder)):
            if name.endswith(_SOURCE) and (inside := f"{folder}/{name}") not in recorded:
                yield inside, _NOT_RECORDED


def _list_unrecorded_files(package: Package) -> dict[str, _RecordedFile]:
    """Return the files of a package that no tool has recorded: all of their contents count."""
    if not os.path.isdir(package.path):
        return {package.name: _NOT_RECORDED}
    files = {}
    for folder, folders, names in os.walk(package.path):
        folders[:] = [name for name in folders if name not in fingerprints.IGNORED]
        within = os.path.relpath(folder, package.folder)
        files.update({f"{within}/{name}": _NOT_RECORDED for name in names if not name.endswith(_NOT_COUNTED)})
    return files


def _hash_file(path: str, method: str) -> str:
    """Return the digest of a file as `RECORD` has it: base64 for URLs without padding."""
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, method)
    except OSError:
        return "unreadable"
    return base64.urlsafe_b64encode(found.digest()).rstrip(b"=").decode()


def _find_removal_ns(path: str) -> int:
    """Return a time not before the removal of a file: the last change of the folder that held it."""
    folder = os.path.dirname(path)
    while True:
        try:
            return os.stat(folder).st_ctime_ns
        except OSError:
            if folder == os.path.dirname(folder):
                return 0
            folder = os.path.dirname(folder)
