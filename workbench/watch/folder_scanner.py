"""Scans folders, and compares them with the previous scan."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.agents.worker.recording import fingerprints
from workbench.watch import gitignore
from workbench.watch.gitignore import Rules

if TYPE_CHECKING:
    from workbench.model.target import Target


# The folders and files of a project that are watched, and a picture of them at one moment.

# Of a file: mtime_ns, ctime_ns, size, inode. Of a folder: (-1,). Of a list of names: its hash.
Signature = tuple[int, ...]
FOLDER: Signature = (-1,)
BROKEN_LINK: Signature = (-2,)
LISTING = ""  # key of the list of names of a folder among its files

_LINKED_FOLDERS = 2_000  # maximum of folders behind links: a link may lead to a disk full of data
_NAMES = 8  # maximum of paths to one folder: links may multiply them without end


@dataclass(frozen=True)
class Folders:
    """The folders and files to watch."""

    root: Path
    """The project's own folder."""
    more: tuple[Path, ...] = ()
    """Files and folders watched like the project, wherever they are: import roots, `watch = [...]`."""
    used: frozenset[Path] = frozenset()
    """Dependencies of cases, watched even if their surroundings are excluded. Of a folder, its existence counts."""
    listed: frozenset[Path] = frozenset()
    """Folders of which cases depend on the names."""

    @classmethod
    def from_targets(cls, root: Path, targets: Iterable[Target]) -> Folders:
        """Return the folders of a project and its targets."""
        more = {path for target in targets for path in (target.path, *(target.path / each for each in target.watch))}
        return cls(root, tuple(sorted(more, key=Path.as_posix)))

    def add_used(self, paths: Iterable[Path], *, listed: Iterable[Path] = ()) -> Folders:
        """Return these folders with further dependencies of cases. Of `listed` folders, all names count."""
        return replace(
            self,
            used=self.used.union(map(Path.absolute, paths)),
            listed=self.listed.union(map(Path.absolute, listed)),
        )


class ScanStopped(Exception):
    """The scan was stopped."""


@dataclass(slots=True, eq=False)
class Folder:
    """The state of one folder: all of it, or only the `used` names."""

    path: str  # without symbolic links
    identity: tuple[int, int]
    rules: Rules | None  # None: only `used` names are watched
    names: list[str] = field(default_factory=list)  # all paths that lead here, first the one of the scan
    files: dict[str, Signature] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)  # watched subfolders by name: their `path`
    excluded: set[str] = field(default_factory=set)  # names; those of folders end in a separator
    beside: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    listed: bool = False
    readable: bool = True

    def list_paths(self, name: str) -> Iterable[str]:
        """Return all paths of a file in the folder, or of the folder itself."""
        return (os.path.join(above, name) if name else above for above in self.names)

    def is_excluded(self, name: str, *, folder: bool) -> bool:
        """Return True if a file or folder in it is excluded. Answers are cached."""
        if folder and gitignore.is_excluded_folder(name, self.beside):
            return True
        key = name + os.sep if folder else name
        if key in self.excluded:
            return True
        if self.rules is None:
            return name not in self.used
        if not folder and (name in self.files or gitignore.is_always_watched(name)):
            return False
        path = os.path.join(self.path, name)
        if (not folder and gitignore.is_excluded_file(name)) or self.rules.is_excluded(path, folder=folder):
            self.excluded.add(key)
            return True
        return False


@dataclass(slots=True, eq=False)
class Picture:
    """The state of everything that is watched at one moment."""

    folders: dict[str, Folder] = field(default_factory=dict)  # by their paths without symbolic links
    links: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # file: folders and names of links to it
    locks: set[str] = field(default_factory=set)  # see `gitignore.find_lock`
    above: dict[str, Rules] = field(default_factory=dict)  # by root
    missing: set[str] = field(default_factory=set)  # roots
    too_much: set[str] = field(default_factory=set)  # links that are not followed

    def count(self) -> tuple[int, int]:
        """Return the numbers of watched files and folders."""
        whole = sum(folder.rules is not None for folder in self.folders.values())
        return sum(len(folder.files) for folder in self.folders.values()), whole


def read_signature(path: str) -> Signature | None:
    """Return the signature of a file, link or folder; None if it does not exist."""
    try:
        there = os.stat(path)
    except OSError:
        return BROKEN_LINK if os.path.islink(path) else None
    return FOLDER if stat.S_ISDIR(there.st_mode) else make_file_signature(there)


def make_file_signature(there: os.stat_result) -> Signature:
    """Return the signature of a file. Any difference may mean new content, also a time in the past."""
    return (there.st_mtime_ns, there.st_ctime_ns, there.st_size, there.st_ino)


def read_names_signature(path: str) -> Signature | None:
    """Return a hash of the names in a folder; for installed libraries, also of what replaces one of them."""
    if fingerprints.is_library_folder(path):
        return (hash(fingerprints.of_environment(path)),)
    try:
        return (hash(frozenset(os.listdir(path))),)
    except OSError:
        return None


def scan_folders(folders: Folders, known: Picture | None, stopped: Callable[[], bool]) -> Picture:
    """Scan the folders. Decisions of a `known` picture are reused."""
    return _Walk(folders, known or Picture(), stopped).scan()


class _Walk:
    def __init__(self, folders: Folders, known: Picture, stopped: Callable[[], bool]) -> None:
        self._folders = folders
        self._known = known
        self._stopped = stopped
        self._picture = Picture()
        self._by_identity: dict[tuple[int, int], Folder] = {}
        self._reached_again: list[tuple[Folder, str]] = []  # through a further path
        self._links: deque[tuple[str, str]] = deque()  # a link to a folder, and the folder
        self._roots: list[str] = []
        self._linked = 0
        self._real: dict[str, str] = {}

    def scan(self) -> Picture:
        asked = [os.path.abspath(path) for path in (self._folders.root, *self._folders.more)]
        wanted = [os.path.abspath(path) for path in self._folders.used | self._folders.listed]
        for path in dict.fromkeys(asked):
            real = os.path.realpath(path)
            if os.path.isdir(real):
                self._roots.append(real)
                wanted += self._scan_root(path, real)
                continue
            wanted.append(path)
            if not os.path.exists(real):
                self._picture.missing.add(path)
        while self._links:
            link, real = self._links.popleft()
            self._scan_linked_folder(link, real)
        for path in wanted:
            self._watch_path(path)
        for path in map(os.path.abspath, self._folders.listed):
            if os.path.isdir(path):
                self._watch_name(path, LISTING)
        for target in [
            target for target in self._picture.links if os.path.dirname(target) not in self._picture.folders
        ]:
            self._watch_path(target)
        for folder, path in self._reached_again:
            self._add_name(folder, path, ())
        for folder in self._picture.folders.values():
            if folder.path not in folder.names:
                folder.names.append(folder.path)
        return self._picture

    def _scan_root(self, path: str, real: str) -> list[str]:
        top = gitignore.find_work_tree(real)
        above, files = gitignore.read_parent_rules(real, top)
        if above.is_equivalent(self._known.above.get(path)):
            above = self._known.above[path]
        self._picture.above[path] = above
        if top is not None and (lock := gitignore.find_lock(top)):
            self._picture.locks.add(lock)
        self._scan_tree(path, real, above, asked=True)
        return files

    def _scan_linked_folder(self, link: str, real: str) -> None:
        if self._linked >= _LINKED_FOLDERS:
            self._picture.too_much.add(link)
            return
        self._scan_tree(link, real, Rules(real, b"", None), asked=False)

    def _scan_tree(self, path: str, real: str, above: Rules, *, asked: bool) -> None:
        """Scan a folder and its subfolders; collect links for later."""
        waiting = [(path, real, above)]
        linked = not asked
        while waiting:
            path, real, above = waiting.pop()
            folder = self._scan_folder(path, real, above, asked=asked)
            asked = False
            if folder is None or folder.rules is None:
                continue
            if linked:
                self._linked += 1
                if self._linked >= _LINKED_FOLDERS:
                    self._picture.too_much.add(path)
                    return
            for name, below in folder.inner.items():
                if below == os.path.join(real, name):
                    waiting.append((os.path.join(path, name), below, folder.rules))
                else:
                    self._links.append((os.path.join(path, name), below))

    def _is_inside(self, real: str) -> bool:
        return any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots)

    def _scan_folder(self, path: str, real: str, above: Rules, *, asked: bool) -> Folder | None:
        """Scan one folder; return None if it is excluded or was scanned through another path."""
        if self._stopped():
            raise ScanStopped
        try:
            there = os.stat(real)
            identity = (there.st_dev, there.st_ino)
            if identity in self._by_identity:
                self._reached_again.append((self._by_identity[identity], path))
                return None
            with os.scandir(real) as found:
                entries = {entry.name: entry for entry in found}
        except PermissionError:
            entries = None
        except OSError:
            return None
        if entries is not None and not asked and gitignore.is_environment_or_cache(entries):
            return None
        known = self._known.folders.get(real)
        folder = Folder(real, identity, above, names=[path])
        self._by_identity[identity] = self._picture.folders[real] = folder
        if entries is None:
            folder.readable = False
        else:
            self._read_entries(folder, entries, known, above)
        return folder

    def _read_entries(
        self, folder: Folder, entries: dict[str, os.DirEntry[str]], known: Folder | None, above: Rules
    ) -> None:
        if ".git" in entries and (lock := gitignore.find_lock(folder.path)):
            if folder.path not in self._roots:
                above = Rules(folder.path, b"", None)  # a repository in another one has its own rules
            self._picture.locks.add(lock)
        text = gitignore.read_bytes(entries[".gitignore"].path) if ".gitignore" in entries else b""
        rules = above.extend(folder.path, text, known.rules if known else None)
        folder.rules = rules
        folder.beside = gitignore.MARKERS & entries.keys()
        kept: dict[str, Signature] = {}
        if known is not None and known.rules is rules:
            folder.excluded = {key for key in known.excluded if key.rstrip(os.sep) in entries}
            kept = known.files if not known.used else {n: s for n, s in known.files.items() if n not in known.used}
        for name, entry in entries.items():
            if entry.is_dir(follow_symlinks=False):
                if not folder.is_excluded(name, folder=True):
                    folder.inner[name] = os.path.join(folder.path, name)
            elif entry.is_symlink():
                self._add_link(folder, name)
            elif (name in kept or not folder.is_excluded(name, folder=False)) and entry.is_file():
                try:
                    folder.files[name] = make_file_signature(entry.stat(follow_symlinks=False))
                except OSError:
                    continue

    def _add_link(self, folder: Folder, name: str) -> None:
        path = os.path.join(folder.path, name)
        there = read_signature(path)
        if there is None or folder.is_excluded(name, folder=there == FOLDER):
            return
        target = os.path.realpath(path)
        if there == FOLDER:
            if not gitignore.is_excluded_folder(os.path.basename(target), ()):
                folder.inner[name] = target
            return
        folder.files[name] = there
        if target != path:
            self._picture.links.setdefault(target, set()).add((folder.path, name))

    def _watch_path(self, path: str) -> None:
        """Watch a requested file or folder by its name, and the names of its parents."""
        while True:
            above, name = os.path.split(path)
            if not name:
                return
            there = self._watch_name(above, name) if os.path.isdir(above) else None
            # Inside the roots every parent is watched for its name; outside only the nearest existing one.
            if there is not None and (there.rules is not None or not self._is_inside(there.path)):
                return
            path = above

    def _watch_name(self, path: str, name: str) -> Folder | None:
        """Watch one name in a folder, or its list of names if the name is empty."""
        real = self._real.get(path) or self._real.setdefault(path, os.path.realpath(path))
        folder = self._picture.folders.get(real)
        if folder is None:
            try:
                there = os.stat(real)
            except OSError:
                return None
            identity = (there.st_dev, there.st_ino)
            folder = self._by_identity.get(identity)
            if folder is None:
                folder = Folder(real, identity, None, names=[path], readable=os.access(real, os.R_OK))
                self._by_identity[identity] = self._picture.folders[real] = folder
        if path not in folder.names:
            folder.names.append(path)
        if not name:
            folder.listed = True
            found = read_names_signature(real)
        else:
            folder.used.add(name)
            found = None if name in folder.files or name in folder.inner else read_signature(os.path.join(real, name))
        if found is not None:
            folder.files[name] = found
            target = os.path.join(real, name)
            if name and found != FOLDER and os.path.islink(target):
                self._picture.links.setdefault(os.path.realpath(target), set()).add((real, name))
        return folder

    def _add_name(self, folder: Folder, path: str, trail: tuple[Folder, ...]) -> None:
        """Add a path that leads to a folder, and to its subfolders. Stop at links to a parent."""
        if folder in trail or len(folder.names) >= _NAMES:
            return
        if path not in folder.names:
            folder.names.append(path)
        for name, below in folder.inner.items():
            inner = self._picture.folders.get(below)
            if inner is not None and os.path.join(path, name) not in inner.names:
                self._add_name(inner, os.path.join(path, name), (*trail, folder))


# Some disks store times in full seconds (or two): a file can change twice and have the same signature. Others are as
# precise as the clock of the system. For this long after a change, content is compared too.
_COARSE_SECONDS, _FINE_SECONDS = 2.1, 0.1
_MOST_COMPARED, _LARGEST_COMPARED = 500, 1_000_000


# Differences between two scans, by times, size and inode of every file.


@dataclass(frozen=True)
class EventEffect:
    """The result of one event."""

    paths: frozenset[str] = frozenset()
    """Paths that may have changed."""
    needs_scan: bool = False
    """True if folders were added or removed, so that only a scan finds all changes."""
    is_unrelated: bool = False
    """True for a name that no case uses, in a folder of which only single names are watched, such as `/tmp`."""


@dataclass(frozen=True)
class _RecentFile:
    """A file that changed so recently that a further change may keep its signature."""

    since: float
    signature: Signature
    content: bytes


class Scanner:
    """Keeps a picture of the watched files, and finds what changed."""

    def __init__(self, folders: Folders, stopped: Callable[[], bool] = lambda: False) -> None:
        self._folders = folders
        self._stopped = stopped
        self.picture = Picture()
        self._recent: dict[tuple[str, str], _RecentFile] = {}

    def start(self) -> None:
        """Take the first picture."""
        self.picture = scan_folders(self._folders, None, self._stopped)
        now = time.time()
        self._remember_contents(
            (folder.path, name)
            for folder in self.picture.folders.values()
            for name, there in folder.files.items()
            if len(there) > 1 and abs(now - max(there[0], there[1]) / 1e9) < _COARSE_SECONDS
        )

    def scan(self, folders: Folders | None = None) -> frozenset[str]:
        """Scan everything; return the paths that changed since the last scan or event.

        New `folders` replace the present ones. Paths that this adds or drops are no changes, unless they are watched
        for another reason too.
        """
        before, was = self.picture, self._folders
        if folders is not None:
            self._folders = folders
        self.picture = scan_folders(self._folders, before, self._stopped)
        paths, files = _compare(before, self.picture)
        paths |= self._compare_contents()
        self._remember_contents(files)
        wanted, unwanted = (each.used | each.listed for each in (self._folders, was))
        if wanted != unwanted:
            added, gone = wanted - unwanted, unwanted - wanted
            added = added.union(map(Path, map(os.path.realpath, added)))  # targets of links are watched too
            paths -= {path for path in _add_parents(added) if not _is_watched(before, path)}
            paths -= {path for path in _add_parents(gone) if not _is_watched(self.picture, path)}
        return frozenset(paths)

    def apply_event(self, path: str) -> EventEffect:
        """Apply an event of a path. The kind of an event is not reliable and not used."""
        if path in self.picture.folders:
            return EventEffect(frozenset(self.picture.folders[path].names), needs_scan=True)
        above, name = os.path.split(path)
        folder = self.picture.folders.get(above)
        if folder is None:
            return EventEffect(needs_scan=True)
        paths = set(self._update_links(path))
        listed = self._update_listing(folder) if folder.listed else set()
        there = read_signature(path)
        is_folder = there == FOLDER
        if name not in folder.used and folder.is_excluded(name, folder=is_folder):
            paths |= listed
            is_unrelated = folder.rules is None and not paths
            return EventEffect(frozenset(paths), needs_scan=name in gitignore.MARKERS, is_unrelated=is_unrelated)
        if is_folder or name in folder.inner or os.path.islink(path):
            return EventEffect(frozenset(paths | listed | set(folder.list_paths(name))), needs_scan=True)
        if there is None and name not in folder.files:
            return EventEffect(frozenset(paths | listed))  # a temporary file of an editor
        if (there is None) != (name not in folder.files):
            paths.update(folder.names)
        if there is None:
            folder.files.pop(name, None)
        else:
            folder.files[name] = there
        paths.update(folder.list_paths(name), listed)
        return EventEffect(frozenset(paths), needs_scan=name in gitignore.MARKERS)

    def _update_links(self, path: str) -> Iterable[str]:
        for above, name in self.picture.links.get(path, ()):
            folder = self.picture.folders[above]
            there = read_signature(os.path.join(above, name))
            if there is not None:
                folder.files[name] = there
            yield from folder.list_paths(name)

    def _update_listing(self, folder: Folder) -> set[str]:
        names = read_names_signature(folder.path)
        if names is None or names == folder.files.get(LISTING):
            return set()
        folder.files[LISTING] = names
        return set(folder.names)

    def _remember_contents(self, files: Iterable[tuple[str, str]]) -> None:
        now = time.monotonic()
        for above, name in files:
            folder = self.picture.folders.get(above)
            there = folder.files.get(name) if folder is not None else None
            if there is None or len(there) == 1 or there[2] > _LARGEST_COMPARED:
                continue
            if len(self._recent) >= _MOST_COMPARED:
                return
            self._recent[above, name] = _RecentFile(now, there, _hash_content(os.path.join(above, name)))

    def _compare_contents(self) -> set[str]:
        """Return the paths of recent files whose content changed and whose signature did not."""
        paths: set[str] = set()
        now = time.monotonic()
        for (above, name), young in list(self._recent.items()):
            del self._recent[above, name]
            folder = self.picture.folders.get(above)
            if folder is None or folder.files.get(name) != young.signature:
                continue  # the signature changed too
            content = _hash_content(os.path.join(above, name))
            since = young.since
            if content != young.content:
                paths.update(folder.list_paths(name))
                since = now
            age = _FINE_SECONDS if young.signature[0] % 1_000_000 else _COARSE_SECONDS
            if now - since < age:
                self._recent[above, name] = _RecentFile(since, young.signature, content)
        return paths


def _hash_content(path: str) -> bytes:
    try:
        return blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except OSError:
        return b""


def _compare(before: Picture, now: Picture) -> tuple[set[str], list[tuple[str, str]]]:
    """Return the changed paths, and those of them that are existing files, as folder and name."""
    paths: set[str] = set()
    files: list[tuple[str, str]] = []
    for path in before.folders.keys() | now.folders.keys():
        old, new = before.folders.get(path), now.folders.get(path)
        if old is None or new is None:
            one = old or new
            assert one is not None
            if one.rules is not None:
                paths.update(one.names)
            paths.update(full for name in one.files for full in one.list_paths(name))
            if new is not None:
                files += [(path, name) for name in new.files]
            continue
        names = old.files.keys() | new.files.keys()
        if old.listed != new.listed:  # its earlier list of names is unknown
            names = names - {LISTING}
        if old.files != new.files:
            other = {name for name in names if old.files.get(name) != new.files.get(name)}
            paths.update(full for name in other for full in new.list_paths(name))
            files += [(path, name) for name in other]
        whole = old.rules is not None and new.rules is not None
        came_or_went = any((name in old.files) != (name in new.files) for name in names)
        if whole and (came_or_went or old.identity != new.identity or old.inner != new.inner):
            paths.update(new.names)
        if old.inner != new.inner:
            paths.update(full for name in old.inner.keys() ^ new.inner.keys() for full in new.list_paths(name))
        if old.names != new.names:
            for name in set(old.names) ^ set(new.names):
                paths.add(name)
                paths.update(os.path.join(name, file) for file in old.files.keys() | new.files.keys() if file)
    return paths, files


def _add_parents(paths: Iterable[Path]) -> set[str]:
    """Return the paths and all their parents."""
    found: set[str] = set()
    for path in paths:
        above = os.path.abspath(path)
        while above not in found:
            found.add(above)
            above = os.path.dirname(above)
    return found


def _is_watched(picture: Picture, path: str) -> bool:
    above, name = os.path.split(path)
    folder = picture.folders.get(above) or picture.folders.get(os.path.realpath(above))
    return folder is not None and (name in folder.used or not folder.is_excluded(name, folder=os.path.isdir(path)))
