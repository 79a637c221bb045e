"""Errors of the store: each names its file, the place, the value that was found and the expectation."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from workbench.model.text import shorten

_SENTENCES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOENT: "there is no such file or folder",
    errno.EISDIR: "it is a folder, expected a file",
    errno.ENOTDIR: "a part of the path is a file, expected a folder",
    errno.EEXIST: "it already exists",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its symbolic links form a loop",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
}


_LONGEST_PART = 300
"""Maximum length of a key or value of a file in a message, in characters."""


class StoreError(Exception):
    """A file, or a value in it, is invalid.

    `path` is text if it is no local file: an address, or the name of a value. `place` is the JSON path of the value (""
    for the whole file). `line` and `column` count characters from 1; they are None if the place in the text is unknown.
    Pass either a `message`, or `found` and `expected`. The text of the error is one sentence such as
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
        super().__init__(self.format_with_name(shown_path(path)))

    @property
    def location(self) -> str:
        """The file, with line and column if known, in the format of links in editors and terminals."""
        return self._location(shown_path(self.path))

    def format_with_name(self, name: str) -> str:
        """Format the error with another name of its file."""
        return ": ".join(part for part in (self._location(name), self.place, self.message) if part)

    def _location(self, name: str) -> str:
        return name if self.line is None else f"{name}:{self.line}:{self.column or 1}"


_MAX_SHOWN = 10


class SeveralErrors(StoreError):
    """Several errors in one file. The text has a line for each of the first ten."""

    def __init__(self, errors: Sequence[StoreError]) -> None:
        self.errors = tuple(errors)
        first = errors[0]
        super().__init__(first.path, first.message, place=first.place, line=first.line, column=first.column)

    def format_with_name(self, name: str) -> str:
        """Format each error with another name of the file."""
        lines = [error.format_with_name(name) for error in self.errors[:_MAX_SHOWN]]
        more = len(self.errors) - _MAX_SHOWN
        return "\n".join([*lines, f"and {more:,} more"] if more > 0 else lines)


def raise_all(errors: Sequence[StoreError]) -> None:
    """Raise all errors at once, if there are any."""
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralErrors(errors)


class FileChanged(StoreError):
    """The file was not written, because it changed on disk since it was read.

    `ours` is the new content, `theirs` the content on disk (None if the file is gone).
    """

    def __init__(self, path: Path, *, ours: bytes, theirs: bytes | None) -> None:
        what = "it was deleted" if theirs is None else "it was changed by another program"
        super().__init__(path, f"{what} since it was read; nothing was written")
        self.ours = ours
        self.theirs = theirs


class DamagedFile(StoreError):
    """The file was damaged and was moved aside; opening it again creates a new one."""


class NotLoaded(StoreError):
    """An address has not been read yet: its rows are read on request."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "is an address that has not been read yet")


class IsDataset(StoreError):
    """A dataset was given instead of an eval set: its rows can be scored, but not edited here."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            path, "is a dataset, which cannot be edited; `workbench dataset convert` converts it to an eval set"
        )


def shown_path(path: Path | str) -> str:
    """Format a path relative to the working directory if it is below it."""
    if isinstance(path, str):
        return path
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


@contextmanager
def os_errors(doing: Literal["read", "write", "create", "delete"], path: Path) -> Iterator[None]:
    """Context manager: raises a StoreError for an error of the operating system inside it."""
    try:
        yield
    except OSError as error:
        raise make_os_error(doing, path, error) from error


def make_os_error(doing: Literal["read", "write", "create", "delete"], path: Path, error: OSError) -> StoreError:
    """Make the StoreError for an error of the operating system, in one sentence."""
    sentence = _SENTENCES.get(error.errno or 0) or error.strerror or str(error)
    return StoreError(path, f"cannot {doing} it: " + sentence.format(doing=doing))
