"""Which folders and files of a project are watched, and a picture of them at one moment.

Everything below the roots except what `ignoring` leaves out, through symbolic links too; and whatever cases are known
to use, wherever it lies, even where it does not exist yet. `scanner` compares the pictures.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.agents.worker.recording import fingerprints
from workbench.watch import ignoring, repositories
from workbench.watch.ignoring import Rules

if TYPE_CHECKING:
    from workbench.model.target import Target

# A file without its content: mtime_ns, ctime_ns, size, inode. Or (-1,) for a folder, or a hash of the names in one.
Signature = tuple[int, ...]
FOLDER: Signature = (-1,)
BROKEN_LINK: Signature = (-2,)
LISTING = ""  # stands for the folder itself among its files

_LINKED_FOLDERS = 2_000  # that only links lead to: one may lead to a disk full of data
_NAMES = 8  # of one folder: links may multiply them without end


@dataclass(frozen=True)
class Folders:
    """What somebody wants watched."""

    root: Path
    """The project's own folder."""
    more: tuple[Path, ...] = ()
    """Files and folders that are watched as the project is, wherever they are: import roots, `watch = [...]`."""
    used: frozenset[Path] = frozenset()
    """Files and folders that cases depend on, a folder for its names: watched even where all around is left out."""

    @classmethod
    def of(cls, root: Path, targets: Iterable[Target]) -> Folders:
        """Those of a project and of its targets."""
        more = {path for target in targets for path in (target.path, *(target.path / each for each in target.watch))}
        return cls(root, tuple(sorted(more, key=Path.as_posix)))

    def using(self, paths: Iterable[Path]) -> Folders:
        """The same, and these files and folders that cases depend on."""
        return replace(self, used=self.used.union(map(Path.absolute, paths)))


class Stopped(Exception):
    """Nobody wants the picture any more."""


@dataclass(slots=True, eq=False)
class Folder:
    """One folder as it was: all of it, or only the names in it that somebody asked for."""

    path: str  # without symbolic links
    identity: tuple[int, int]
    rules: Rules | None  # None: only `used`
    names: list[str] = field(default_factory=list)  # all the paths that lead here, first the one it was found by
    files: dict[str, Signature] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)  # names of the folders in it that are watched: their `path`
    left_out: set[str] = field(default_factory=set)  # names; those of folders end in a separator
    beside: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    listed: bool = False
    readable: bool = True

    def paths_of(self, name: str) -> Iterable[str]:
        """All the paths of a file in it, or of the folder itself."""
        return (os.path.join(above, name) if name else above for above in self.names)

    def leaves_out(self, name: str, *, folder: bool) -> bool:
        """Whether something in it is left out (known answers are kept)."""
        if folder and ignoring.is_left_out_folder(name, self.beside):
            return True
        key = name + os.sep if folder else name
        if key in self.left_out:
            return True
        if self.rules is None:
            return name not in self.used
        if not folder and (name in self.files or ignoring.is_kept_file(name)):
            return False
        path = os.path.join(self.path, name)
        if (not folder and ignoring.is_left_out_file(name)) or self.rules.leave_out(path, folder=folder):
            self.left_out.add(key)
            return True
        return False


@dataclass(slots=True, eq=False)
class Picture:
    """Everything that is watched, as it was at one moment."""

    folders: dict[str, Folder] = field(default_factory=dict)  # by their paths without symbolic links
    links: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # file: folders and names of links to it
    locks: set[str] = field(default_factory=set)  # see `repositories.lock_of`
    above: dict[str, Rules] = field(default_factory=dict)  # by root
    missing: set[str] = field(default_factory=set)  # roots
    too_much: set[str] = field(default_factory=set)  # links that are not followed any further

    def count(self) -> tuple[int, int]:
        """How many files and folders are watched."""
        whole = sum(folder.rules is not None for folder in self.folders.values())
        return sum(len(folder.files) for folder in self.folders.values()), whole


def signature(path: str) -> Signature | None:
    """A file, link or folder as it is now; None where there is nothing."""
    try:
        there = os.stat(path)
    except OSError:
        return BROKEN_LINK if os.path.islink(path) else None
    return FOLDER if stat.S_ISDIR(there.st_mode) else of_file(there)


def of_file(there: os.stat_result) -> Signature:
    """What is compared of a file: any of it that differs may mean other content, a time in the past as well."""
    return (there.st_mtime_ns, there.st_ctime_ns, there.st_size, there.st_ino)


def of_names(path: str) -> Signature | None:
    """The names in a folder, whatever they are; where libraries are installed, also what replaces one of them."""
    if fingerprints.is_library_folder(path):
        return (hash(fingerprints.of_environment(path)),)
    try:
        return (hash(frozenset(os.listdir(path))),)
    except OSError:
        return None


def take(folders: Folders, known: Picture | None, stopped: Callable[[], bool]) -> Picture:
    """What is there now. What `known` already decided is not decided again."""
    return _Walk(folders, known or Picture(), stopped).take()


class _Walk:
    def __init__(self, folders: Folders, known: Picture, stopped: Callable[[], bool]) -> None:
        self._folders = folders
        self._known = known
        self._stopped = stopped
        self._picture = Picture()
        self._by_identity: dict[tuple[int, int], Folder] = {}
        self._reached_again: list[tuple[Folder, str]] = []  # by one more path
        self._links: deque[tuple[str, str]] = deque()  # a link to a folder, and the folder
        self._roots: list[str] = []
        self._linked = 0
        self._real: dict[str, str] = {}

    def take(self) -> Picture:
        asked = [os.path.abspath(path) for path in (self._folders.root, *self._folders.more)]
        wanted = [os.path.abspath(path) for path in self._folders.used]
        for path in dict.fromkeys(asked):
            real = os.path.realpath(path)
            if os.path.isdir(real):
                self._roots.append(real)
                wanted += self._root(path, real)
                continue
            wanted.append(path)
            if not os.path.exists(real):
                self._picture.missing.add(path)
        while self._links:
            link, real = self._links.popleft()
            self._linked_folder(link, real)
        for path in wanted:
            self._want(path)
        for target in [
            target for target in self._picture.links if os.path.dirname(target) not in self._picture.folders
        ]:
            self._want(target)
        for folder, path in self._reached_again:
            self._name(folder, path, ())
        for folder in self._picture.folders.values():
            if folder.path not in folder.names:
                folder.names.append(folder.path)
        return self._picture

    def _root(self, path: str, real: str) -> list[str]:
        top = repositories.top_of(real)
        above, files = repositories.rules_above(real, top)
        if above.says_as(self._known.above.get(path)):
            above = self._known.above[path]
        self._picture.above[path] = above
        if top is not None and (lock := repositories.lock_of(top)):
            self._picture.locks.add(lock)
        self._tree(path, real, above, asked=True)
        return files

    def _linked_folder(self, link: str, real: str) -> None:
        if self._linked >= _LINKED_FOLDERS:
            self._picture.too_much.add(link)
            return
        self._tree(link, real, Rules(real, b"", None), asked=False)

    def _tree(self, path: str, real: str, above: Rules, *, asked: bool) -> None:
        """Look at a folder and all below, without following links."""
        waiting = [(path, real, above)]
        linked = not asked
        while waiting:
            path, real, above = waiting.pop()
            folder = self._folder(path, real, above, asked=asked)
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

    def _folder(self, path: str, real: str, above: Rules, *, asked: bool) -> Folder | None:
        """Look at one folder, unless that was done, by another path perhaps; None where it is not to be watched."""
        if self._stopped():
            raise Stopped
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
        if entries is not None and not asked and ignoring.is_environment_or_cache(entries):
            return None
        known = self._known.folders.get(real)
        folder = Folder(real, identity, above, names=[path])
        self._by_identity[identity] = self._picture.folders[real] = folder
        if entries is None:
            folder.readable = False
        else:
            self._fill(folder, entries, known, above)
        return folder

    def _fill(self, folder: Folder, entries: dict[str, os.DirEntry[str]], known: Folder | None, above: Rules) -> None:
        if ".git" in entries and (lock := repositories.lock_of(folder.path)):
            if folder.path not in self._roots:
                above = Rules(folder.path, b"", None)  # a repository in another one has its own rules
            self._picture.locks.add(lock)
        text = repositories.read(entries[".gitignore"].path) if ".gitignore" in entries else b""
        rules = above.below(folder.path, text, known.rules if known else None)
        folder.rules = rules
        folder.beside = ignoring.MARKERS & entries.keys()
        kept: dict[str, Signature] = {}
        if known is not None and known.rules is rules:
            folder.left_out = {key for key in known.left_out if key.rstrip(os.sep) in entries}
            kept = known.files if not known.used else {n: s for n, s in known.files.items() if n not in known.used}
        for name, entry in entries.items():
            if entry.is_dir(follow_symlinks=False):
                if not folder.leaves_out(name, folder=True):
                    folder.inner[name] = os.path.join(folder.path, name)
            elif entry.is_symlink():
                self._link(folder, name)
            elif (name in kept or not folder.leaves_out(name, folder=False)) and entry.is_file():
                try:
                    folder.files[name] = of_file(entry.stat(follow_symlinks=False))
                except OSError:
                    continue

    def _link(self, folder: Folder, name: str) -> None:
        path = os.path.join(folder.path, name)
        there = signature(path)
        if there is None or folder.leaves_out(name, folder=there == FOLDER):
            return
        target = os.path.realpath(path)
        if there == FOLDER:
            if not ignoring.is_left_out_folder(os.path.basename(target), ()):
                folder.inner[name] = target
            return
        folder.files[name] = there
        if target != path:
            self._picture.links.setdefault(target, set()).add((folder.path, name))

    def _want(self, path: str) -> None:
        """Watch one file or folder that somebody asked for, and the way to it."""
        if os.path.isdir(path):
            self._part(path, LISTING)
        while True:
            above, name = os.path.split(path)
            if not name:
                return
            there = self._part(above, name) if os.path.isdir(above) else None
            # Inside the roots each folder above is watched for its name; elsewhere only the one that exists is.
            if there is not None and (there.rules is not None or not self._is_inside(there.path)):
                return
            path = above

    def _part(self, path: str, name: str) -> Folder | None:
        """Watch one name in a folder, or with no name the names in it."""
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
            found = of_names(real)
        else:
            folder.used.add(name)
            found = None if name in folder.files or name in folder.inner else signature(os.path.join(real, name))
        if found is not None:
            folder.files[name] = found
            target = os.path.join(real, name)
            if name and found != FOLDER and os.path.islink(target):
                self._picture.links.setdefault(os.path.realpath(target), set()).add((real, name))
        return folder

    def _name(self, folder: Folder, path: str, trail: tuple[Folder, ...]) -> None:
        """Note one more path that leads to a folder, and with it to all below. A link to a folder above ends here."""
        if folder in trail or len(folder.names) >= _NAMES:
            return
        if path not in folder.names:
            folder.names.append(path)
        for name, below in folder.inner.items():
            inner = self._picture.folders.get(below)
            if inner is not None and os.path.join(path, name) not in inner.names:
                self._name(inner, os.path.join(path, name), (*trail, folder))
