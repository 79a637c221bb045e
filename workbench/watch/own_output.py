"""The files that what we print goes to: a watch must not take its own lines for something that somebody saved."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_STREAMS = (1, 2)


class FileId(NamedTuple):
    """What tells a file from all others, whatever its name."""

    device: int
    inode: int


def own_output() -> frozenset[FileId]:
    """Files that standard output and error lead to: by themselves, or (on Linux) through a pipe, as into `tee`."""
    found: set[FileId] = set()
    for stream in _STREAMS:
        with contextlib.suppress(OSError):
            there = os.fstat(stream)
            if stat.S_ISREG(there.st_mode):
                found.add(_id_of(there))
            elif stat.S_ISFIFO(there.st_mode):
                found.update(_written_by_readers_of(_id_of(there)))
    return frozenset(found)


def is_own_output(path: Path, own: frozenset[FileId]) -> bool:
    """Whether a path leads to one of these files."""
    if not own:
        return False
    with contextlib.suppress(OSError):
        return _id_of(path.stat()) in own
    return False


def _written_by_readers_of(pipe: FileId) -> Iterator[FileId]:
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        if descriptors.parent.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):  # of somebody else, or over by now
            if _id_of((descriptors / "0").stat()) == pipe:
                yield from _written_files(descriptors)


def _written_files(descriptors: Path) -> Iterator[FileId]:
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(OSError):
            there = descriptor.stat()
            may_write = descriptor.lstat().st_mode & stat.S_IWUSR
            if stat.S_ISREG(there.st_mode) and may_write:
                yield _id_of(there)


def _id_of(there: os.stat_result) -> FileId:
    return FileId(there.st_dev, there.st_ino)
