"""Recovery of unsaved edits and typed text after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.store.errors import StoreError, os_errors
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.files import (
    PRIVATE,
    SESSION,
    Stamp,
    is_running,
    make_private_folder,
    make_session_mark,
    read_bytes,
    real_path,
    write_atomic,
)

# Recovery files: unsaved edits in `.workbench/recovery/` of the project

_FOLDER = Path(".workbench") / "recovery"
_RECOVERY_SUFFIX = ".recovery"


def recovery_folder(root: Path, *, make: bool = False) -> Path:
    """Return the recovery folder of a project; `make` creates it with a `.gitignore`. Raises StoreError."""
    folder = root / _FOLDER
    if make:
        make_private_folder(folder.parent)
        make_private_folder(folder)
        ignore = folder.parent / ".gitignore"
        if not ignore.exists():
            write_atomic(ignore, b"*\n", mode=PRIVATE)
    return folder


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Unsaved edits on disk: their document, and when they were written."""

    file: Path
    document: Path
    written_at: datetime
    stamp: Stamp | None


class RecoveryFolder:
    """The recovery files of a project."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = recovery_folder(root)

    def write(self, document: EvalSetDocument) -> None:
        """Write the unsaved edits of a document; without any, delete its recovery file. Raises StoreError."""
        if not document.is_dirty:
            self.discard(document)
            return
        recovery_folder(self._root, make=True)
        head = {
            "version": 1,
            "document": self._name(document.path),
            "written_at": datetime.now(UTC).isoformat(),
            **make_session_mark(),
            "stamp": None if document.stamp is None else asdict(document.stamp),
        }
        content = json.dumps(head).encode() + b"\n" + document.content()
        write_atomic(self._file(document.path), content, mode=PRIVATE)

    def discard(self, of: EvalSetDocument | Recovery) -> None:
        """Delete a recovery file, if it exists. Raises StoreError."""
        file = of.file if isinstance(of, Recovery) else self._file(of.path)
        with os_errors("delete", file):
            file.unlink(missing_ok=True)

    def list_recoveries(self) -> list[Recovery]:
        """List the recovery files of ended sessions, newest first."""
        found = []
        for file in sorted(self._folder.glob(f"*{_RECOVERY_SUFFIX}")):
            head = _read_head(file)
            if head is not None and not is_running(head):
                found.append(self._recovery(file, head))
        return sorted(found, key=lambda recovery: recovery.written_at, reverse=True)

    def load(self, recovery: Recovery) -> EvalSetDocument:
        """Open the document with the recovered edits as one step of undo after the content on disk.

        Saving it raises FileChanged if the file has changed since those edits began. Raises StoreError.
        """
        content = read_bytes(recovery.file)[0].partition(b"\n")[2]
        try:
            document = EvalSetDocument(recovery.document, read_bytes(recovery.document)[0], recovery.stamp)
        except StoreError:  # gone or broken meanwhile: only the recovered text is left
            document = EvalSetDocument(recovery.document, content, recovery.stamp)
        document.recover(content, recovery.stamp)
        return document

    def _file(self, document: Path) -> Path:
        name = self._name(document)
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self._folder / f"{digest}-{SESSION}{_RECOVERY_SUFFIX}"

    def _name(self, document: Path) -> str:
        """Return the path relative to the project, so that the project may be moved; absolute outside of it."""
        try:
            return real_path(document).relative_to(real_path(self._root)).as_posix()
        except ValueError:
            return str(real_path(document))

    def _recovery(self, file: Path, head: dict[str, Any]) -> Recovery:
        stamp = head["stamp"]
        return Recovery(
            file=file,
            document=self._root / head["document"],
            written_at=datetime.fromisoformat(head["written_at"]),
            stamp=None if stamp is None else Stamp(**stamp),
        )


def _read_head(file: Path) -> dict[str, Any] | None:
    """Read the head of a recovery file; None if it is unreadable, for example of a later version."""
    try:
        with file.open("rb") as opened:
            head = json.loads(opened.readline())
    except (OSError, ValueError):
        return None
    return head if isinstance(head, dict) and head.get("version") == 1 else None


# Typed text that is not applied yet, in `.workbench/recovery/`

_VERSION = 1
_TYPED_SUFFIX = ".typed"


class TypedTexts:
    """The typed texts of a project. Each is a JSON value with a meaning for the caller only."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, texts: Sequence[Any]) -> None:
        """Write these, replacing those of this session. Raises StoreError."""
        if not texts:
            self._delete(self._own)
            return
        content = {"version": _VERSION, **make_session_mark(), "texts": list(texts)}
        recovery_folder(self._root, make=True)
        write_atomic(self._own, json.dumps(content).encode(), mode=PRIVATE)

    def has_abandoned(self) -> bool:
        """True if ended sessions left any."""
        return any(_read_abandoned_texts(file) for file in self._files())

    def adopt_abandoned(self) -> list[Any]:
        """Take over the texts of ended sessions, oldest first; they belong to this session from now on.

        Unreadable files, for example of a later version, stay where they are. Raises StoreError.
        """
        left = [(file, texts) for file in self._files() if (texts := _read_abandoned_texts(file)) is not None]
        found = [text for _, texts in left for text in texts]
        if found:
            self.write(found)
        for file, _ in left:
            self._delete(file)
        return found

    @property
    def _own(self) -> Path:
        return recovery_folder(self._root) / f"{SESSION}{_TYPED_SUFFIX}"

    def _files(self) -> list[Path]:
        found = []
        for file in recovery_folder(self._root).glob(f"*{_TYPED_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another session has just taken it over
                found.append((file.stat().st_mtime_ns, file))
        return [file for _, file in sorted(found)]

    def _delete(self, file: Path) -> None:
        with os_errors("delete", file):
            file.unlink(missing_ok=True)


def _read_abandoned_texts(file: Path) -> list[Any] | None:
    """Read the texts of an ended session; None if the session is running, or the file is unreadable."""
    try:
        content = json.loads(read_bytes(file)[0])
    except (StoreError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("version") != _VERSION or is_running(content):
        return None
    texts = content.get("texts")
    return texts if isinstance(texts, list) else None
