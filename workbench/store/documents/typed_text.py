"""Text that is typed into the editor and not applied yet: kept in `.workbench/recovery/` so that it outlives a crash.

A session has one file, with all that it has of it. What sessions left that are no more, the next one takes over.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.store.documents.recovery import recovery_folder
from workbench.store.errors import StoreError, cannot
from workbench.store.files import PRIVATE, read_bytes, write_atomic
from workbench.store.sessions import SESSION, is_running, session_mark

_VERSION = 1
_SUFFIX = ".typed"


class TypedTexts:
    """The typed texts of a project. What one is is up to the caller: a JSON value."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def keep(self, texts: Sequence[Any]) -> None:
        """Keep these in place of what this session kept before. Raises StoreError."""
        if not texts:
            self._delete(self._own)
            return
        content = {"version": _VERSION, **session_mark(), "texts": list(texts)}
        recovery_folder(self._root, make=True)
        write_atomic(self._own, json.dumps(content).encode(), mode=PRIVATE)

    def are_left(self) -> bool:
        """Whether sessions that are no more left any."""
        return any(_texts_left(file) for file in self._files())

    def take_over(self) -> list[Any]:
        """What sessions left that are no more, the oldest first: kept by this session from now on.

        Files that cannot be read, such as those of a later version, stay where they are. Raises StoreError.
        """
        left = [(file, texts) for file in self._files() if (texts := _texts_left(file)) is not None]
        found = [text for _, texts in left for text in texts]
        if found:
            self.keep(found)
        for file, _ in left:
            self._delete(file)
        return found

    @property
    def _own(self) -> Path:
        return recovery_folder(self._root) / f"{SESSION}{_SUFFIX}"

    def _files(self) -> list[Path]:
        found = []
        for file in recovery_folder(self._root).glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another session has just taken it over
                found.append((file.stat().st_mtime_ns, file))
        return [file for _, file in sorted(found)]

    def _delete(self, file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise cannot("delete", file, error) from error


def _texts_left(file: Path) -> list[Any] | None:
    """What is in a file that nobody has any more; None where it is somebody's, or cannot be read."""
    try:
        content = json.loads(read_bytes(file)[0])
    except (StoreError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("version") != _VERSION or is_running(content):
        return None
    texts = content.get("texts")
    return texts if isinstance(texts, list) else None
