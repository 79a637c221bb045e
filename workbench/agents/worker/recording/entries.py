"""What `os.scandir` gives, with eyes: an entry tells the size of a file or what it is without asking `os` for it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Entries:
    """Stands for the iterator."""

    def __init__(self, real: Any, folder: str, looked: Callable[[str], None]) -> None:
        self._real = real
        self._folder = folder
        self._looked = looked
        self.close = real.close

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> Entry:
        return Entry(next(self._real), self._folder, self._looked)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Entry:
    """Stands for an `os.DirEntry`. That the names of folders count as such in a listing says what `is_dir` gives."""

    __class__ = property(lambda _: os.DirEntry)  # what `isinstance` is told

    def __init__(self, real: Any, folder: str, looked: Callable[[str], None]) -> None:
        self._real = real
        self._folder = folder
        self._looked = looked
        self.name, self.path = real.name, real.path
        self.inode, self.is_dir, self.is_file, self.is_symlink = real.inode, real.is_dir, real.is_file, real.is_symlink
        self.is_junction = getattr(real, "is_junction", _no)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """As with `os.stat`."""
        self._looked(os.path.join(self._folder, os.fsdecode(self.name)))
        return self._real.stat(follow_symlinks=follow_symlinks)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return repr(self._real)


def _no() -> bool:
    return False
