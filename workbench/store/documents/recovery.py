"""Recovery files: unsaved edits that outlive a crash, in `.workbench/recovery/` of the project.

A session writes one for each document with unsaved edits and discards it when they are saved or given up. What the
next start finds there, written by a process that is no more, is offered to the user.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.store.documents.evalset_document import EvalSetDocument
from workbench.store.errors import StoreError, cannot
from workbench.store.files import PRIVATE, Stamp, make_private_folder, read_bytes, write_atomic
from workbench.store.sessions import SESSION, is_running, session_mark

_FOLDER = Path(".workbench") / "recovery"
_SUFFIX = ".recovery"


def recovery_folder(root: Path, *, make: bool = False) -> Path:
    """Where a project keeps what outlives a crash, which git is told to ignore. Raises StoreError."""
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
    """Unsaved edits found on disk: of which document, and when they were written."""

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
        """Keep the unsaved edits of a document; one without any loses its recovery file. Raises StoreError."""
        if not document.dirty:
            self.discard(document)
            return
        recovery_folder(self._root, make=True)
        head = {
            "version": 1,
            "document": self._name(document.path),
            "written_at": datetime.now(UTC).isoformat(),
            **session_mark(),
            "stamp": None if document.stamp is None else asdict(document.stamp),
        }
        content = json.dumps(head).encode() + b"\n" + document.content()
        write_atomic(self._file(document.path), content, mode=PRIVATE)

    def discard(self, of: EvalSetDocument | Recovery) -> None:
        """Remove a recovery file, where there is one. Raises StoreError."""
        file = of.file if isinstance(of, Recovery) else self._file(of.path)
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise cannot("delete", file, error) from error

    def found(self) -> list[Recovery]:
        """What earlier sessions left behind, the newest first. Files of sessions that still run are not listed."""
        found = []
        for file in sorted(self._folder.glob(f"*{_SUFFIX}")):
            head = _read_head(file)
            if head is not None and not is_running(head):
                found.append(self._recovery(file, head))
        return sorted(found, key=lambda recovery: recovery.written_at, reverse=True)

    def load(self, recovery: Recovery) -> EvalSetDocument:
        """The document with the recovered edits as one step of undo over what is on disk.

        Saving it raises FileChanged where the file changed after those edits began. Raises StoreError.
        """
        content = read_bytes(recovery.file)[0].partition(b"\n")[2]
        try:
            document = EvalSetDocument(recovery.document, read_bytes(recovery.document)[0], recovery.stamp)
        except StoreError:  # gone, or broken meanwhile: the recovered text is all there is
            document = EvalSetDocument(recovery.document, content, recovery.stamp)
        document.recover(content, recovery.stamp)
        return document

    def _file(self, document: Path) -> Path:
        name = self._name(document)
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self._folder / f"{digest}-{SESSION}{_SUFFIX}"

    def _name(self, document: Path) -> str:
        """The document's path relative to the project, so that a project may be moved; absolute outside of it."""
        try:
            return document.resolve().relative_to(self._root.resolve()).as_posix()
        except ValueError:
            return str(document.resolve())

    def _recovery(self, file: Path, head: dict[str, Any]) -> Recovery:
        stamp = head["stamp"]
        return Recovery(
            file=file,
            document=self._root / head["document"],
            written_at=datetime.fromisoformat(head["written_at"]),
            stamp=None if stamp is None else Stamp(**stamp),
        )


def _read_head(file: Path) -> dict[str, Any] | None:
    """What a recovery file says of itself; None for one that cannot be read, such as of a later version."""
    try:
        with file.open("rb") as opened:
            head = json.loads(opened.readline())
    except (OSError, ValueError):
        return None
    return head if isinstance(head, dict) and head.get("version") == 1 else None
