"""What differs between two moments, seen without events: by time of change, size and inode of every file.

Needed where events do not arrive, after a folder came or went (events of what is made in it at once are lost), and now
and then to be sure. Times are compared for being other, never for being later: clocks jump.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from workbench.watch import folders as watched
from workbench.watch import ignoring
from workbench.watch.folders import FOLDER, LISTING, Folder, Folders, Picture, Signature

# Where times are stored in full seconds (or every two), a file can change twice and look the same. Elsewhere they are
# as fine as the system's clock ticks. For so long after a change, content is compared as well.
_COARSE_SECONDS, _FINE_SECONDS = 2.1, 0.1
_MOST_COMPARED, _LARGEST_COMPARED = 500, 1_000_000


@dataclass(frozen=True)
class Seen:
    """What one event or one look tells."""

    paths: frozenset[str] = frozenset()
    """What may be other than before."""
    look: bool = False
    """Whether folders came or went: then only a look at everything tells."""


@dataclass(frozen=True)
class _Young:
    """A file that changed so recently that another change may not show."""

    since: float
    signature: Signature
    content: bytes


class Scanner:
    """Knows how everything was that is watched, and finds what is other."""

    def __init__(self, folders: Folders, stopped: Callable[[], bool] = lambda: False) -> None:
        self._folders = folders
        self._stopped = stopped
        self.picture = Picture()
        self._young: dict[tuple[str, str], _Young] = {}

    def start(self) -> None:
        """Look for the first time."""
        self.picture = watched.take(self._folders, None, self._stopped)
        now = time.time()
        self._watch_closely(
            (folder.path, name)
            for folder in self.picture.folders.values()
            for name, there in folder.files.items()
            if len(there) > 1 and abs(now - max(there[0], there[1]) / 1e9) < _COARSE_SECONDS
        )

    def look(self, folders: Folders | None = None) -> frozenset[str]:
        """Look at everything; the paths that differ from the last look or event.

        With other `folders`, what they add has no before, and what they leave out no after: either is told only where
        it is watched for another reason.
        """
        before, was = self.picture, self._folders.used
        if folders is not None:
            self._folders = folders
        self.picture = watched.take(self._folders, before, self._stopped)
        paths, files = _compare(before, self.picture)
        paths |= self._look_closely()
        self._watch_closely(files)
        if self._folders.used != was:
            added, gone = self._folders.used - was, was - self._folders.used
            added = added.union(map(Path, map(os.path.realpath, added)))  # where links lead is watched with them
            paths -= {path for path in _and_above(added) if not _is_watched(before, path)}
            paths -= {path for path in _and_above(gone) if not _is_watched(self.picture, path)}
        return frozenset(paths)

    def touch(self, path: str) -> Seen:
        """Take in what an event says: that there was something about a path. Which kind of event says nothing more."""
        if path in self.picture.folders:
            return Seen(frozenset(self.picture.folders[path].names), look=True)
        above, name = os.path.split(path)
        folder = self.picture.folders.get(above)
        if folder is None:
            return Seen(look=True)
        paths = set(self._links_to(path))
        listed = self._listing(folder) if folder.listed else set()
        there = watched.signature(path)
        is_folder = there == FOLDER
        if name not in folder.used and folder.leaves_out(name, folder=is_folder):
            return Seen(frozenset(paths | listed), look=name in ignoring.MARKERS)
        if is_folder or name in folder.inner or os.path.islink(path):
            return Seen(frozenset(paths | listed | set(folder.paths_of(name))), look=True)
        if there is None and name not in folder.files:
            return Seen(frozenset(paths | listed))  # came and went: an editor's own business
        if (there is None) != (name not in folder.files):
            paths.update(folder.names)
        if there is None:
            folder.files.pop(name, None)
        else:
            folder.files[name] = there
        paths.update(folder.paths_of(name), listed)
        return Seen(frozenset(paths), look=name in ignoring.MARKERS)

    def _links_to(self, path: str) -> Iterable[str]:
        for above, name in self.picture.links.get(path, ()):
            folder = self.picture.folders[above]
            there = watched.signature(os.path.join(above, name))
            if there is not None:
                folder.files[name] = there
            yield from folder.paths_of(name)

    def _listing(self, folder: Folder) -> set[str]:
        names = watched.of_names(folder.path)
        if names is None or names == folder.files.get(LISTING):
            return set()
        folder.files[LISTING] = names
        return set(folder.names)

    def _watch_closely(self, files: Iterable[tuple[str, str]]) -> None:
        now = time.monotonic()
        for above, name in files:
            folder = self.picture.folders.get(above)
            there = folder.files.get(name) if folder is not None else None
            if there is None or len(there) == 1 or there[2] > _LARGEST_COMPARED:
                continue
            if len(self._young) >= _MOST_COMPARED:
                return
            self._young[above, name] = _Young(now, there, _content(os.path.join(above, name)))

    def _look_closely(self) -> set[str]:
        """The paths of young files whose content changed though nothing else of them did."""
        paths: set[str] = set()
        now = time.monotonic()
        for (above, name), young in list(self._young.items()):
            del self._young[above, name]
            folder = self.picture.folders.get(above)
            if folder is None or folder.files.get(name) != young.signature:
                continue  # seen without this
            content = _content(os.path.join(above, name))
            since = young.since
            if content != young.content:
                paths.update(folder.paths_of(name))
                since = now
            age = _FINE_SECONDS if young.signature[0] % 1_000_000 else _COARSE_SECONDS
            if now - since < age:
                self._young[above, name] = _Young(since, young.signature, content)
        return paths


def _content(path: str) -> bytes:
    try:
        return blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except OSError:
        return b""


def _compare(before: Picture, now: Picture) -> tuple[set[str], list[tuple[str, str]]]:
    """The paths that differ, and the files that are there now among them, as folder and name."""
    paths: set[str] = set()
    files: list[tuple[str, str]] = []
    for path in before.folders.keys() | now.folders.keys():
        old, new = before.folders.get(path), now.folders.get(path)
        if old is None or new is None:
            one = old or new
            assert one is not None
            if one.rules is not None:
                paths.update(one.names)
            paths.update(full for name in one.files for full in one.paths_of(name))
            if new is not None:
                files += [(path, name) for name in new.files]
            continue
        names = old.files.keys() | new.files.keys()
        if old.listed != new.listed:  # nobody knows what its listing was before
            names = names - {LISTING}
        if old.files != new.files:
            other = {name for name in names if old.files.get(name) != new.files.get(name)}
            paths.update(full for name in other for full in new.paths_of(name))
            files += [(path, name) for name in other]
        whole = old.rules is not None and new.rules is not None
        came_or_went = any((name in old.files) != (name in new.files) for name in names)
        if whole and (came_or_went or old.identity != new.identity or old.inner != new.inner):
            paths.update(new.names)
        if old.inner != new.inner:
            paths.update(full for name in old.inner.keys() ^ new.inner.keys() for full in new.paths_of(name))
        if old.names != new.names:
            for name in set(old.names) ^ set(new.names):
                paths.add(name)
                paths.update(os.path.join(name, file) for file in old.files.keys() | new.files.keys() if file)
    return paths, files


def _and_above(paths: Iterable[Path]) -> set[str]:
    """The paths and all folders above them."""
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
    return folder is not None and (name in folder.used or not folder.leaves_out(name, folder=os.path.isdir(path)))
