"""Errors of the store: each names its file, the place in it, what was found and what was expected."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from workbench.model.text import shorten

_SENTENCES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to {doing} it",
    errno.EPERM: "no permission to {doing} it",
    errno.ENOENT: "there is no such file or folder",
    errno.EISDIR: "it is a folder, expected a file",
    errno.ENOTDIR: "a part of the path is a file, expected a folder",
    errno.EEXIST: "it exists already",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its symbolic links lead in a circle",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
}


_LONGEST_PART = 300
"""How many characters of a key or value from a file a message repeats."""


class StoreError(Exception):
    """Something in a file, or the file itself, is not as it must be.

    `path` is text where that is no file of this machine: the address of one elsewhere, or what a value is called.
    `place` is the JSON path of the value ("" for the file as a whole); `line` and `column` count characters from 1 and
    are None where the error has no place in the text. Give either a `message` or `found` and `expected`. The text of
    the error is one sentence such as
    `sets/a.evalset.json:12:7: eval_cases[3].conversation: found null, expected a list`.
    """

    def __init__(
        self,
        path: Path | str,
        message: str | None = None,
        *,
        place: str = "",
        line: int | None = None,
        column: int | None = None,
        found: str | None = None,
        expected: str | None = None,
    ) -> None:
        self.path = path
        self.place = shorten(place, _LONGEST_PART)
        self.line = line
        self.column = column
        self.found = None if found is None else shorten(found, _LONGEST_PART)
        self.expected = None if expected is None else shorten(expected, _LONGEST_PART)
        self.message = message if message is not None else f"found {self.found}, expected {self.expected}"
        super().__init__(self.format_for(shown_path(path)))

    @property
    def location(self) -> str:
        """The file, with line and column where they are known, as editors and terminals link it."""
        return self._location(shown_path(self.path))

    def format_for(self, name: str) -> str:
        """The text of the error with another name of its file: one that means the same in every folder."""
        return ": ".join(part for part in (self._location(name), self.place, self.message) if part)

    def _location(self, name: str) -> str:
        return name if self.line is None else f"{name}:{self.line}:{self.column or 1}"


_MAX_SHOWN = 10


class SeveralErrors(StoreError):
    """Several things in one file are not as they must be. Its text has a line for each, the first ten of them."""

    def __init__(self, errors: Sequence[StoreError]) -> None:
        self.errors = tuple(errors)
        first = errors[0]
        super().__init__(first.path, first.message, place=first.place, line=first.line, column=first.column)

    def said_of(self, name: str) -> str:
        """The text of each with another name of the file."""
        lines = [error.format_for(name) for error in self.errors[:_MAX_SHOWN]]
        more = len(self.errors) - _MAX_SHOWN
        return "\n".join([*lines, f"and {more:,} more"] if more > 0 else lines)


def raise_all(errors: Sequence[StoreError]) -> None:
    """Raise what is wrong with a file, all of it at once; nothing happens where nothing is."""
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralErrors(errors)


class FileChanged(StoreError):
    """The file on disk is not the one that was read, so it was not written.

    `ours` is what was to be written, `theirs` what is there now (None where the file is gone).
    """

    def __init__(self, path: Path, *, ours: bytes, theirs: bytes | None) -> None:
        what = "it was deleted" if theirs is None else "it was changed by another program"
        super().__init__(path, f"{what} since it was read; nothing was written")
        self.ours = ours
        self.theirs = theirs


class DamagedFile(StoreError):
    """The file was damaged and has been moved aside: opening it again begins a new one."""


class NotLoaded(StoreError):
    """Nothing was read yet from this address: that is done when somebody wants its rows, and not before."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "is an address that has not been read yet")


class IsDataset(StoreError):
    """What was asked for as an eval set is a dataset: its rows can be judged, and are not edited here."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            path, "is a dataset, which is not edited here; `workbench dataset convert` makes an eval set of it"
        )


def shown_path(path: Path | str) -> str:
    """The path as people see it: relative to the working directory where it lies below that."""
    if isinstance(path, str):
        return path
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def make_os_error(doing: Literal["read", "write", "create", "delete"], path: Path, error: OSError) -> StoreError:
    """The StoreError that says in one sentence why the system refused to do something with a file."""
    sentence = _SENTENCES.get(error.errno or 0) or error.strerror or str(error)
    return StoreError(path, f"cannot {doing} it: " + sentence.format(doing=doing))
