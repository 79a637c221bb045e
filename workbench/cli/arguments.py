"""Arguments that name cases: `SET`, `SET:case,case`, a folder, a target."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LONGEST_NAME = 300
"""Characters of an argument that a message shows."""


@dataclass(frozen=True)
class NamedArgument:
    """An argument, split into a name and its cases. `cases`: None means all; empty if nothing follows the colon."""

    name: str
    cases: tuple[str, ...] | None = None

    @property
    def path(self) -> Path:
        """The name as a path."""
        return Path(self.name)


def path_exists(text: str) -> bool:
    """Return True if a path exists; False also for a text that is too long for a path, such as a list of cases."""
    return os.path.exists(text)  # noqa: PTH110 - Path.exists raises OSError for such a text


def is_file(text: str) -> bool:
    """As `path_exists`, for files."""
    return os.path.isfile(text)  # noqa: PTH113 - as above


def split_argument(text: str, *, exists: Callable[[str], bool]) -> NamedArgument | None:
    """Split at the last colon if the part before it exists; return None if nothing exists.

    Colons are legal in file names, so an existing name is never split. Ids of cases with a colon or comma cannot be
    written this way; use `--case` for them.
    """
    if exists(text):
        return NamedArgument(text)
    left, colon, right = text.rpartition(":")
    if colon and exists(left):
        return NamedArgument(left, tuple(name.strip() for name in right.split(",") if name.strip()))
    return None
