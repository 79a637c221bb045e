"""Open eval sets: edits, undo, saving and recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from workbench.engine.set_files import Done, SetOperations, Versions, compare_versions
from workbench.store.datasets.remote_data import is_address
from workbench.store.errors import IsDataset, StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import CaseDifference, find_differing_cases
from workbench.store.evalsets.quarantine import move_quarantines, rename_case_of_file, rename_quarantines
from workbench.store.evalsets.recovery import Recovery, RecoveryFolder
from workbench.store.files import (
    Signature,
    get_sidecar_path,
    is_dataset_name,
    is_missing,
    make_folder,
    make_relative_name,
    read_bytes,
    read_signature,
)

# The open eval sets of a project: read on first use, and kept for undo.

T = TypeVar("T")

Renames = Sequence[tuple[str, str]]
"""Old and new ids of the cases of a set that were renamed, in this order."""

_NOT_SEEN: Signature = (-1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStatus:
    """The status of an open eval set.

    `undoable` and `redoable` describe the next undo and redo. `changed_on_disk`: there are unsaved edits, and the file
    changed since; `deleted_on_disk`: it is gone. `changed_cases`: the ids of cases with unsaved edits. `problem`: why
    the file cannot be read now; its last good state is then shown. `revision` changes with the content.
    """

    dirty: bool
    undoable: str | None
    redoable: str | None
    changed_on_disk: bool
    deleted_on_disk: bool
    changed_cases: frozenset[str]
    problem: StoreError | None
    revision: int


class OpenDocument:
    """A document that `refresh` keeps in step with its file without losing edits."""

    def __init__(self, document: EvalSetDocument, *, note_renames: Callable[[Path, Renames], None]) -> None:
        """`note_renames` is called after a save with the path and the cases that were renamed since the last one."""
        self.document = document
        self._note_renames = note_renames
        self.problem: StoreError | None = None  # why the file cannot be read now
        self.has_news = False  # whether a refresh found a change that was not polled yet
        self.edited_at = 0  # the order number of the last edit, undo or redo
        self._in_conflict = False
        self._is_deleted = False  # whether the conflict is that the file is gone
        self._seen = _NOT_SEEN  # the signature of the file at the last refresh
        self._saved_at_once: set[int] = set()  # numbers of steps that were saved when they were made
        self._joint_edits: dict[int, Transaction] = {}  # transactions by the number of their step

    @classmethod
    def open(cls, path: Path, *, note_renames: Callable[[Path, Renames], None]) -> OpenDocument:
        """Open a file. Raises StoreError."""
        opened = cls(EvalSetDocument.open(path), note_renames=note_renames)
        opened._mark_saved()
        return opened

    def refresh(self) -> None:
        """Read the file if it changed. Without unsaved edits, take its content, as a step of undo if there are steps.

        Unsaved edits stay, in conflict with the file. If the file cannot be read, its last good state stays.
        """
        signature = read_signature(self.document.path)
        if signature == self._seen and (self.document.is_dirty or not self._in_conflict):
            return
        before = self._sight()
        self._seen = signature
        self._in_conflict = self._differs()
        self._is_deleted = self._in_conflict and is_missing(self.document.path)
        self.problem = None
        if self._in_conflict and not self.document.is_dirty:
            self._load_file()
        self.has_news = self.has_news or self._sight() != before

    def poll_changed(self) -> bool:
        """Refresh, and return whether anything visible changed since the last call."""
        self.refresh()
        had, self.has_news = self.has_news, False
        return had

    def edit(self, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """Change the document in one step of undo. If `change` raises, the document is unchanged."""
        before = self.document.steps_done
        with self.document.step(label):
            result = change(self.document)
        if self.document.steps_done > before:
            self._forget_steps_after(before)
        return result

    def edit_and_save(self, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, and save; undo and redo save too. If only saving fails, the edit stays."""
        before = self.document.steps_done
        result = self.edit(change, label=label)
        if self.document.steps_done > before:
            self._saved_at_once.add(self.document.steps_done)
            self.save()
        return result

    def edit_as_part(self, joint: Transaction, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, as part of a transaction, which saves it; undo and redo save too."""
        before = self.document.steps_done
        result = self.edit(change, label=label)
        if self.document.steps_done > before:
            self._saved_at_once.add(self.document.steps_done)
            self._joint_edits[self.document.steps_done] = joint
        return result

    def joint_edit(self, number: int) -> Transaction | None:
        """Return the transaction of a step; None if it has none."""
        return self._joint_edits.get(number)

    def undo(self) -> str | None:
        """Undo the last step, and save if the step was saved; return its label."""
        return self._step(self.document.steps_done, self.document.undo)

    def redo(self) -> str | None:
        """Redo the step undone last, and save if the step was saved; return its label."""
        return self._step(self.document.steps_done + 1, self.document.redo)

    def save(self) -> None:
        """Save edits. Raises FileChanged if the file changed since they were made, and StoreError."""
        if self.document.is_dirty:
            path = self.document.path
            before = self.document.get_saved_version() if get_sidecar_path(path).exists() else None
            with self._noting_renames():
                self.document.save()
            self._mark_saved()
            if before is not None:
                with suppress(StoreError):  # each run names the quarantines of cases that the set does not have
                    rename_quarantines(before, self.document, path)

    def overwrite(self) -> None:
        """Overwrite the file, and create its folder if it is missing. Raises StoreError."""
        make_folder(self.document.path.parent)
        with self._noting_renames():
            self.document.save(overwrite=True)
        self._mark_saved()

    def overwrite_version(self, theirs: bytes | None) -> None:
        """Overwrite the version of the file that was shown. Raises FileChanged if it changed again."""
        with self._noting_renames():
            self.document.replace_on_disk(theirs)
        self._mark_saved()

    def reload(self) -> None:
        """Load the file as a step of undo. Raises StoreError."""
        before = self.document.steps_done
        self.document.reload()
        self._forget_steps_after(before)
        self._mark_saved()

    def take(self, recovered: EvalSetDocument) -> None:
        """Take the edits of a recovered document as a step of undo."""
        before = self.document.steps_done
        self.document.recover(recovered.content(), recovered.stamp)
        self._forget_steps_after(before)
        self._seen = _NOT_SEEN

    def move(self, path: Path) -> None:
        """Follow a rename of the file."""
        self.document.path = path

    def get_status(self) -> DocumentStatus:
        """Return the status as of the last refresh."""
        document = self.document
        return DocumentStatus(
            dirty=document.is_dirty,
            undoable=document.undo_label,
            redoable=document.redo_label,
            changed_on_disk=document.is_dirty and self._in_conflict,
            deleted_on_disk=document.is_dirty and self._in_conflict and self._is_deleted,
            changed_cases=document.list_changed_cases(),
            problem=self.problem,
            revision=document.revision,
        )

    def _sight(self) -> tuple[int, bool, bool, str]:
        return self.document.revision, self._in_conflict, self._is_deleted, str(self.problem or "")

    def _differs(self) -> bool:
        try:
            return self.document.has_changed_on_disk()
        except StoreError:  # it exists and cannot be read
            return True

    def _load_file(self) -> None:
        try:
            if self.document.undo_label or self.document.redo_label:
                self.reload()
            else:  # without steps of undo, the old content is not needed
                self.document = EvalSetDocument.open(self.document.path)
                self._mark_saved()
        except StoreError as error:
            self.problem = StoreError(self.document.path, "it was deleted") if self._is_deleted else error
            self._in_conflict = False
            if isinstance(error.__cause__, OSError):
                self._seen = _NOT_SEEN  # a new permission does not change the signature

    @contextmanager
    def _noting_renames(self) -> Iterator[None]:
        """Note the cases that a save within the context renames in the file."""
        renames = self.document.list_unsaved_renames()
        yield
        if renames:
            self._note_renames(self.document.path, renames)

    def _mark_saved(self) -> None:
        """Note that the document equals its file."""
        stamp = self.document.stamp
        self._seen = stamp.signature if stamp is not None else _NOT_SEEN
        self._in_conflict = False
        self.problem = None

    def _step(self, number: int, go: Callable[[], str | None]) -> str | None:
        save = number in self._saved_at_once and not self.document.is_dirty
        label = go()
        if label is not None and save:
            self.save()
        return label

    def _forget_steps_after(self, number: int) -> None:
        self._saved_at_once = {step for step in self._saved_at_once if step <= number}
        self._joint_edits = {step: joint for step, joint in self._joint_edits.items() if step <= number}


# Transactions: edits of several eval sets, such as moving a case, that are saved, undone and redone together.

Change = Callable[[EvalSetDocument], Any]


class Transaction:
    """One step of undo in each of several open documents, which are undone together."""

    def __init__(self) -> None:
        self._steps: list[tuple[OpenDocument, int]] = []

    @property
    def documents(self) -> Sequence[OpenDocument]:
        """The edited documents, in the order of the edits."""
        return [opened for opened, _ in self._steps]

    def make(self, changes: Sequence[tuple[OpenDocument, Change]], *, label: str) -> None:
        """Make the edits and save them in this order. If any fails, all are undone.

        Raises StoreError, and FileChanged before any edit if a set is in conflict with its file.
        """
        for opened, _ in changes:
            if opened.get_status().changed_on_disk:
                opened.save()  # raises FileChanged
        try:
            for opened, change in changes:
                opened.edit_as_part(self, change, label=label)
                number = opened.document.steps_done
                if opened.joint_edit(number) is self:  # the edit changed something
                    self._steps.append((opened, number))
            with _moving_quarantines(self.documents):
                for opened, _ in changes:
                    opened.save()
        except StoreError:
            for opened, number in reversed(self._steps):
                if opened.document.steps_done == number:
                    opened.undo()
            raise

    def undo(self) -> None:
        """Undo the edits, the last one first. Raises StoreError before any if a document was edited since."""
        for opened, number in self._steps:
            self._check(opened, number, now=opened.document.steps_done)
        with _moving_quarantines(self.documents):
            for opened, _ in reversed(self._steps):
                opened.undo()

    def redo(self) -> None:
        """Redo the edits. Raises StoreError before any if one cannot be redone."""
        for opened, number in self._steps:
            self._check(opened, number, now=opened.document.steps_done + 1)
        with _moving_quarantines(self.documents):
            for opened, _ in self._steps:
                opened.redo()

    def _check(self, opened: OpenDocument, number: int, *, now: int) -> None:
        opened.refresh()
        path = opened.document.path
        if opened.joint_edit(number) is not self or now != number:
            raise StoreError(path, "this file is part of the same step and was edited later: undo that edit first")
        if is_missing(path):
            raise StoreError(path, "this file is part of the same step and was deleted: restore it first")
        if opened.get_status().changed_on_disk or opened.problem is not None:
            raise StoreError(path, "this file is part of the same step and changed on disk: resolve that first")


@contextmanager
def _moving_quarantines(documents: Sequence[OpenDocument]) -> Iterator[None]:
    """Move the quarantines of the cases that saves within the context move from one document to another."""
    before: list[EvalSetDocument | None] = []
    if any(get_sidecar_path(opened.document.path).exists() for opened in documents):
        before = [opened.document.get_saved_version() for opened in documents]
    yield
    pairs = zip(before, documents, strict=False)
    move_quarantines([(old, opened.document) for old, opened in pairs if old is not None])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEdits:
    """Unsaved edits of an earlier session, and the cases that differ from the file.

    `differences` is None if the file is missing or broken. `problem` says why the edits cannot be read.
    """

    recovery: Recovery
    eval_set: str
    differences: tuple[CaseDifference, ...] | None
    problem: str = ""


class OpenDocuments:
    """The documents of one project, by path relative to its root. Used from one thread at a time."""

    def __init__(
        self,
        root: Path,
        *,
        is_dataset: Callable[[str], bool] = is_dataset_name,
        note_renames: Callable[[str, Renames], None] = lambda *_: None,
    ) -> None:
        """`is_dataset` is True if the entry is a dataset, not an eval set. It may raise StoreError.

        `note_renames` is called with a set and the cases that were renamed in it, after they are saved.
        """
        self._root = root
        self._is_dataset = is_dataset
        self._note_renames = lambda path, renames: note_renames(make_relative_name(path, root), renames)
        self._open: dict[str, OpenDocument] = {}
        self._unreadable: dict[str, Signature] = {}  # sets that could not be read, with the signature of the file
        self._sidecars: dict[str, Signature] = {}  # the signatures of the files beside sets that were opened
        self._gone: dict[int, OpenDocument] = {}  # documents whose files were deleted, by number of the operation
        self._operations = SetOperations(root)
        self._recovery = RecoveryFolder(root)
        self._kept: dict[Path, int] = {}  # documents with a recovery file, and its revision
        self._order = 0

    def document(self, eval_set: str) -> EvalSetDocument:
        """Return an eval set with its unsaved edits, or as it is on disk.

        If the file can no longer be read, returns the last good state, and `get_status` has the problem. Raises
        StoreError if there is no good state.
        """
        return self._look(eval_set).document

    def document_on_disk(self, eval_set: str) -> EvalSetDocument:
        """As `document`, but raise StoreError if the file cannot be read now."""
        opened = self._look(eval_set)
        if opened.problem is not None:
            raise opened.problem
        return opened.document

    def saved_document(self, eval_set: str) -> EvalSetDocument:
        """As `document_on_disk`, but without unsaved edits."""
        document = self.document_on_disk(eval_set)
        return EvalSetDocument.open(document.path) if document.is_dirty else document

    def edit(self, eval_set: str, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """Change a document in one step of undo, unsaved. If `change` raises, it is unchanged."""
        with self._changing(eval_set) as opened:
            return opened.edit(change, label=label)

    def edit_and_save(self, eval_set: str, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, and save; undo and redo save too. Raises FileChanged and StoreError.

        If only saving fails, the edit stays, unsaved.
        """
        with self._changing(eval_set) as opened:
            return opened.edit_and_save(change, label=label)

    def edit_together(self, changes: Sequence[tuple[str, Change]], *, label: str) -> None:
        """Change several sets in one step and save them, in this order. If any fails, all are undone.

        Raises StoreError, and FileChanged if one of them is in conflict with its file.
        """
        joint = Transaction()
        joint.make([(self._look(eval_set), change) for eval_set, change in changes], label=label)
        self._note_edited(joint)

    def undo(self, eval_set: str) -> str | None:
        """Undo the last step of a set, in all sets of its transaction; return its label.

        If the step was saved, saves the undo too. Raises StoreError if another set prevents it.
        """
        done = self._undo(eval_set)
        return done.label if done is not None else None

    def redo(self, eval_set: str) -> str | None:
        """Redo the step of a set undone last, in all sets of its transaction; saves as `undo` does."""
        done = self._redo(eval_set)
        return done.label if done is not None else None

    def undo_newest(self, eval_set: str | None) -> Done | None:
        """Undo the newest edit of this set or operation on files. Returns None without one."""
        opened = self._open.get(eval_set) if eval_set is not None else None
        edited_at = opened.edited_at if opened is not None and opened.document.undo_label else 0
        if self._operations.undo_order > edited_at:
            return self.undo_operation()
        return self._undo(eval_set) if eval_set is not None else None

    def redo_newest(self, eval_set: str | None) -> Done | None:
        """Redo the newest undo in this set or of an operation on files. Returns None without one."""
        opened = self._open.get(eval_set) if eval_set is not None else None
        edited_at = opened.edited_at if opened is not None and opened.document.redo_label else 0
        if self._operations.redo_order > edited_at:
            return self.redo_operation()
        return self._redo(eval_set) if eval_set is not None else None

    def save(self, eval_set: str, *, overwrite: bool = False) -> None:
        """Save a set. Raises FileChanged if the file changed, and StoreError.

        With `overwrite`, writes the file in any case, and creates its folder if it is missing.
        """
        opened = self._look(eval_set)
        if overwrite:
            opened.overwrite()
        else:
            opened.save()
        self._discard_recovery(opened)

    def overwrite_version(self, eval_set: str, theirs: bytes | None) -> None:
        """Overwrite the shown version of the file (None: no file). Raises FileChanged if it changed again."""
        opened = self._look(eval_set)
        opened.overwrite_version(theirs)
        self._discard_recovery(opened)

    def versions(self, eval_set: str) -> Versions:
        """Compare a set with its file. Raises StoreError if the file exists and cannot be read."""
        document = self.document(eval_set)
        path = document.path
        return compare_versions(document, read_bytes(path)[0] if path.exists() else None)

    def find_changed_sets(self) -> frozenset[str]:
        """Return the sets that changed through their files, or the files beside them, since the last call.

        Reads only file signatures, and only those of sets that were opened.
        """
        sidecars = {name: self._read_sidecar(name) for name in self._sidecars}
        requarantined = [name for name, signature in sidecars.items() if signature != self._sidecars[name]]
        self._sidecars = sidecars
        now = {name: read_signature(self._root / name) for name in self._unreadable}
        others = [name for name, signature in now.items() if signature != self._unreadable[name]]
        self._unreadable = now
        return frozenset(
            [name for name, opened in self._open.items() if opened.poll_changed()] + others + requarantined
        )

    def reload(self, eval_set: str) -> None:
        """Load the file; undo restores the unsaved edits. Raises StoreError."""
        with self._changing(eval_set) as opened:
            opened.reload()
            self._discard_recovery(opened)

    def get_status(self, eval_set: str) -> DocumentStatus:
        """Return the status of a set. Raises StoreError if it could never be read."""
        return self._look(eval_set).get_status()

    def dirty(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, opened in self._open.items() if opened.document.is_dirty))

    # Operations on files.

    def create_set(self, eval_set: str, *, eval_set_id: str) -> None:
        """Create an eval set without cases. Raises StoreError, also if the file exists."""
        self._operations.create(eval_set, eval_set_id=eval_set_id, at=self._next())

    def duplicate_set(self, eval_set: str, copy: str) -> None:
        """Write a copy of a set with its unsaved edits; the new name becomes its id. Raises StoreError."""
        self._operations.duplicate(self.document(eval_set), eval_set, copy, at=self._next())

    def rename_set(self, eval_set: str, new: str) -> None:
        """Rename the file of a set; its unsaved edits and steps of undo stay. Raises StoreError."""
        opened = self._open.get(eval_set)
        if opened is not None and opened.document.is_dirty and opened.document.is_named_by_file:
            raise StoreError(
                opened.document.path, "its case has its id from the file name: save its edits before renaming it"
            )
        self._follow(self._operations.rename(eval_set, new, at=self._next()))

    def delete_set(self, eval_set: str) -> None:
        """Delete the file of a set. Undo restores it with its unsaved edits. Raises StoreError."""
        self._follow(self._operations.delete(eval_set, at=self._next()))

    def undo_operation(self) -> Done | None:
        """Undo the last operation on files. Raises StoreError if that would lose later changes."""
        return self._follow(self._operations.undo(self._next()))

    def redo_operation(self) -> Done | None:
        """Redo the operation on files undone last. Raises StoreError as `undo_operation` does."""
        return self._follow(self._operations.redo(self._next()))

    # Recovery after a crash.

    def write_recovery_files(self) -> None:
        """Update the recovery files, one for each set with unsaved edits. Raises StoreError."""
        for opened in self._open.values():
            document = opened.document
            if not document.is_dirty:
                self._discard_recovery(opened)
            elif self._kept.get(document.path) != document.revision:
                self._recovery.write(document)
                self._kept[document.path] = document.revision

    def find_recoveries(self) -> list[FoundEdits]:
        """Find the unsaved edits of earlier sessions, the newest first."""
        return [self._compare_recovery(recovery) for recovery in self._recovery.list_recoveries()]

    def restore(self, recovery: Recovery) -> str:
        """Restore unsaved edits of an earlier session as one step of undo; return the set. Raises StoreError.

        The old recovery file is deleted only after this session has written its own.
        """
        eval_set = self._name(recovery)
        recovered = self._recovery.load(recovery)
        opened = self._open.get(eval_set)
        if opened is None:
            opened = self._open[eval_set] = OpenDocument(recovered, note_renames=self._note_renames)
        else:
            opened.take(recovered)
        opened.edited_at = self._next()
        opened.refresh()
        self.write_recovery_files()
        self._recovery.discard(recovery)
        return eval_set

    def recovered_versions(self, recovery: Recovery) -> Versions:
        """Compare the unsaved edits of an earlier session with the file. Raises StoreError."""
        path = recovery.document
        return compare_versions(self._recovery.load(recovery), read_bytes(path)[0] if path.exists() else None)

    def discard(self, recovery: Recovery) -> None:
        """Discard the unsaved edits of an earlier session. Raises StoreError."""
        self._recovery.discard(recovery)

    def _undo(self, eval_set: str) -> Done | None:
        with self._changing(eval_set) as opened:
            label, joint = opened.document.undo_label, opened.joint_edit(opened.document.steps_done)
            if joint is not None:
                joint.undo()
                return self._finish_transaction(label, joint)
            return _make_result(opened.undo(), eval_set)

    def _redo(self, eval_set: str) -> Done | None:
        with self._changing(eval_set) as opened:
            label, joint = opened.document.redo_label, opened.joint_edit(opened.document.steps_done + 1)
            if joint is not None:
                joint.redo()
                return self._finish_transaction(label, joint)
            return _make_result(opened.redo(), eval_set)

    def _finish_transaction(self, label: str | None, joint: Transaction) -> Done | None:
        self._note_edited(joint)
        return _make_result(label, *(name for name, opened in self._open.items() if opened in joint.documents))

    def _note_edited(self, joint: Transaction) -> None:
        at = self._next()
        for opened in joint.documents:
            opened.edited_at = at

    def _read_sidecar(self, eval_set: str) -> Signature:
        return read_signature(get_sidecar_path(self._root / eval_set))

    def _look(self, eval_set: str) -> OpenDocument:
        if eval_set not in self._sidecars:
            self._sidecars[eval_set] = self._read_sidecar(eval_set)
        opened = self._open.get(eval_set)
        if opened is not None:
            opened.refresh()
            return opened
        path = self._root / eval_set
        signature = read_signature(path)
        try:
            if self._is_dataset(eval_set):
                raise IsDataset(eval_set if is_address(eval_set) else path)
            opened = self._open[eval_set] = OpenDocument.open(path, note_renames=self._note_renames)
        except StoreError:
            self._unreadable.setdefault(eval_set, signature)  # `find_changed_sets` compares with it
            raise
        opened.has_news = self._unreadable.pop(eval_set, None) is not None
        return opened

    @contextmanager
    def _changing(self, eval_set: str) -> Iterator[OpenDocument]:
        opened = self._look(eval_set)
        before = opened.document.steps_done
        try:
            yield opened
        finally:
            if opened.document.steps_done != before:
                opened.edited_at = self._next()

    def _next(self) -> int:
        self._order += 1
        return self._order

    def _follow(self, done: Done | None) -> Done | None:
        """Update the open documents after an operation on files."""
        if done is None:
            return None
        if done.before is not None and done.after is not None:
            with suppress(StoreError):  # as for cases that are renamed in their set
                rename_case_of_file(self._root / done.before, self._root / done.after)
        opened = self._gone.pop(done.number, None)
        if done.before is not None:
            opened = self._open.pop(done.before, opened)
        if opened is None:
            return done
        self._discard_recovery(opened)
        if done.after is None:
            self._gone[done.number] = opened
        elif done.before is None or not opened.document.is_named_by_file:
            opened.move(self._root / done.after)
            self._open[done.after] = opened
        return done

    def _discard_recovery(self, opened: OpenDocument) -> None:
        if self._kept.pop(opened.document.path, None) is not None:
            self._recovery.discard(opened.document)

    def _compare_recovery(self, recovery: Recovery) -> FoundEdits:
        eval_set = self._name(recovery)
        try:
            recovered = self._recovery.load(recovery)
        except StoreError as error:
            return FoundEdits(recovery=recovery, eval_set=eval_set, differences=None, problem=str(error))
        try:
            differences = tuple(find_differing_cases(recovered, EvalSetDocument.open(recovery.document)))
        except StoreError:
            return FoundEdits(recovery=recovery, eval_set=eval_set, differences=None)
        return FoundEdits(recovery=recovery, eval_set=eval_set, differences=differences)

    def _name(self, recovery: Recovery) -> str:
        return make_relative_name(recovery.document, self._root)


def _make_result(label: str | None, *eval_sets: str) -> Done | None:
    return None if label is None else Done(label=label, eval_sets=eval_sets)
