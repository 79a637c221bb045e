"""Operations on the files of eval sets, each of which can be taken back until the end of the session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.store.documents import DocumentFormat, EvalSetDocument, content_of_new_set
from workbench.store.names import name_of_file
from workbench.store.set_files import KeptFile, SetFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Something was undone or done again: what, and where the file of the set was and is, where that changed.

    `before` is None where no file was there, `after` where none is now; both are None for an edit inside sets, which
    are named by `eval_sets`. `number` stays with an operation when it is undone and redone, 0 for an edit inside a set.
    """

    label: str
    number: int = 0
    before: str | None = None
    after: str | None = None
    eval_sets: tuple[str, ...] = ()


@dataclass
class _Operation:
    """A file came (`before` is None), went (`after` is None) or got another name. `kept` is what came or went."""

    label: str
    before: str | None
    after: str | None
    kept: KeptFile | None
    number: int  # when it was done first, in the order of the project
    at: int  # when it was done, undone or redone last

    def done(self, before: str | None, after: str | None) -> Done:
        """What carrying it out in one direction came to."""
        return Done(label=self.label, number=self.number, before=before, after=after)


class SetOperations:
    """What was done with the files below a folder, and how to go back."""

    def __init__(self, root: Path) -> None:
        self._files = SetFiles(root)
        self._done: list[_Operation] = []
        self._undone: list[_Operation] = []

    @property
    def undoable_at(self) -> int:
        """The order of the operation that the next undo takes back; 0 where there is none."""
        return self._done[-1].at if self._done else 0

    @property
    def redoable_at(self) -> int:
        """The order of the undo that the next redo reverts; 0 where there is none."""
        return self._undone[-1].at if self._undone else 0

    def create(self, eval_set: str, *, eval_set_id: str, at: int) -> None:
        """Make an eval set without cases. Raises StoreError."""
        content = content_of_new_set(self._files.path_of(eval_set), eval_set_id)
        self._put(f"create {eval_set}", eval_set, content, at)

    def duplicate(self, document: EvalSetDocument, eval_set: str, copy: str, *, at: int) -> None:
        """Write what a document is now under another name, with that name as its id. Raises StoreError."""
        path = self._files.path_of(copy)
        duplicate = EvalSetDocument(path, document.content(), None)
        if duplicate.format is DocumentFormat.CURRENT:
            duplicate.set_value(("eval_set_id",), name_of_file(path))
        self._put(f"duplicate {eval_set}", copy, duplicate.content(), at)

    def rename(self, eval_set: str, new: str, *, at: int) -> Done:
        """Give a file another name. Raises StoreError."""
        self._files.move(eval_set, new)
        return self._note(_Operation(f"rename {eval_set}", eval_set, new, None, at, at))

    def delete(self, eval_set: str, *, at: int) -> Done:
        """Remove a file. Raises StoreError."""
        kept = self._files.take(eval_set)
        return self._note(_Operation(f"delete {eval_set}", eval_set, None, kept, at, at))

    def undo(self, at: int) -> Done | None:
        """Take back the last operation; None where there is none. Raises StoreError, and stays as it was."""
        if not self._done:
            return None
        operation = self._done[-1]
        self._carry_out(operation, operation.after, operation.before)
        operation.at = at
        self._undone.append(self._done.pop())
        return operation.done(operation.after, operation.before)

    def redo(self, at: int) -> Done | None:
        """Do the operation again that was undone last; None where there is none. Raises StoreError."""
        if not self._undone:
            return None
        operation = self._undone[-1]
        self._carry_out(operation, operation.before, operation.after)
        operation.at = at
        self._done.append(self._undone.pop())
        return operation.done(operation.before, operation.after)

    def _put(self, label: str, eval_set: str, content: bytes, at: int) -> None:
        kept = KeptFile(data=content)
        self._files.put(eval_set, kept)
        self._note(_Operation(label, None, eval_set, kept, at, at))

    def _note(self, operation: _Operation) -> Done:
        self._done.append(operation)
        self._undone.clear()
        return operation.done(operation.before, operation.after)

    def _carry_out(self, operation: _Operation, before: str | None, after: str | None) -> None:
        if before is not None and after is not None:
            self._files.move(before, after)
        elif after is not None and operation.kept is not None:
            self._files.put(after, operation.kept)
        elif before is not None and operation.kept is not None:
            operation.kept = self._files.take(before, expect=operation.kept.data)
