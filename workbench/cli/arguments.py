"""Arguments that name cases: `SET`, `SET:case,case`, a folder, a target."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LONGEST_NAME = 300
"""Characters of an argument that a message shows."""


@dataclass(frozen=True)
class Named:
    """An argument, split: what it names, and of that these cases: None for all, none where a colon ends it."""

    name: str
    cases: tuple[str, ...] | None = None

    @property
    def path(self) -> Path:
        """The name as a path."""
        return Path(self.name)


def path_exists(text: str) -> bool:
    """Return True if this is a path of something; a text too long for a path, such as a list of cases, is none."""
    return os.path.exists(text)  # noqa: PTH110 - Path.exists raises OSError for such a text


def is_file(text: str) -> bool:
    """As `path_exists`, for files."""
    return os.path.isfile(text)  # noqa: PTH113 - as above


def split_argument(text: str, *, exists: Callable[[str], bool]) -> Named | None:
    """Split at the last colon, only where what stands left of it exists; None where nothing of the kind exists.

    Colons are legal in file names, so a name that exists as it stands is never split. Case ids that hold a colon or a
    comma cannot be written this way: `--case` is for them.
    """
    if exists(text):
        return Named(text)
    left, colon, right = text.rpartition(":")
    if colon and exists(left):
        return Named(left, tuple(name.strip() for name in right.split(",") if name.strip()))
    return None
