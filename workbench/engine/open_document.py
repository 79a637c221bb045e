"""One eval set that is open: its document, and how that stands to the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.store.documents import EvalSetDocument
from workbench.store.errors import StoreError
from workbench.store.files import Signature, make_folder, signature_of

if TYPE_CHECKING:
    from workbench.engine.joint_edit import JointEdit

T = TypeVar("T")

_NOT_SEEN: Signature = (-1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStanding:
    """How an eval set stands between its file and its edits.

    `undoable` and `redoable` are what the next undo and redo would do, in words. `changed_on_disk`: there are unsaved
    edits, and the file is no longer the one they were made to. `changed_cases`: the ids of cases with unsaved edits.
    `problem`: why the file cannot be read as it is on disk now; what is shown is then its last good state.
    `revision` is another number whenever the content is another.
    """

    dirty: bool
    undoable: str | None
    redoable: str | None
    changed_on_disk: bool
    changed_cases: frozenset[str]
    problem: StoreError | None
    revision: int


class OpenDocument:
    """A document, brought to where its file is by `look` as far as no edit is lost by that."""

    def __init__(self, document: EvalSetDocument) -> None:
        self.document = document
        self.problem: StoreError | None = None  # why the file cannot be read now
        self.has_news = False  # whether a look at the file made a difference that has not been told
        self.edited_at = 0  # when it was edited, undone or redone last, in the order of its project
        self._in_conflict = False
        self._seen = _NOT_SEEN  # the file when it was looked at last
        self._saved_at_once: set[int] = set()  # steps, by their number, that went to disk when they were made
        self._joint_edits: dict[int, JointEdit] = {}  # steps, by their number, that are steps of other sets too

    @classmethod
    def open(cls, path: Path) -> OpenDocument:
        """Raises StoreError."""
        opened = cls(EvalSetDocument.open(path))
        opened._settle()
        return opened

    def look(self) -> None:
        """See what became of the file. Without unsaved edits its new content is taken, undoably where there are steps.

        With unsaved edits they stay, in conflict with the file; where it cannot be read its last good state stays.
        """
        signature = signature_of(self.document.path)
        if signature == self._seen and (self.document.dirty or not self._in_conflict):
            return
        before = self._sight()
        self._seen = signature
        self._in_conflict = self._differs()
        self.problem = None
        if self._in_conflict and not self.document.dirty:
            self._take_over()
        self.has_news = self.has_news or self._sight() != before

    def take_news(self) -> bool:
        """Look, and say whether a look made a difference to anything that can be seen since this was asked last."""
        self.look()
        had, self.has_news = self.has_news, False
        return had

    def edit(self, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """Change the document in one step; where `change` raises nothing remains of it."""
        before = self.document.steps_done
        with self.document.step(label):
            result = change(self.document)
        if self.document.steps_done > before:
            self._forget_steps_after(before)
        return result

    def edit_and_save(self, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, saved at once, as undoing and redoing it will be. Where only saving fails the edit stays."""
        before = self.document.steps_done
        result = self.edit(change, label=label)
        if self.document.steps_done > before:
            self._saved_at_once.add(self.document.steps_done)
            self.save()
        return result

    def edit_within(self, joint: JointEdit, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, as part of an edit of several sets, which saves it; undoing and redoing it are saved too."""
        before = self.document.steps_done
        result = self.edit(change, label=label)
        if self.document.steps_done > before:
            self._saved_at_once.add(self.document.steps_done)
            self._joint_edits[self.document.steps_done] = joint
        return result

    def joint_edit(self, number: int) -> JointEdit | None:
        """The edit of several sets that the step of this number is part of."""
        return self._joint_edits.get(number)

    def undo(self) -> str | None:
        """Take back the last step, and save that where the step was saved at once; gives what it was."""
        return self._step(self.document.steps_done, self.document.undo)

    def redo(self) -> str | None:
        """Do again what was undone last, and save that where it was saved at once; gives what it was."""
        return self._step(self.document.steps_done + 1, self.document.redo)

    def save(self) -> None:
        """Write unsaved edits. Raises FileChanged where the file is not what they were made to, and StoreError."""
        if self.document.dirty:
            self.document.save()
            self._settle()

    def overwrite(self) -> None:
        """Write the file, whatever is there now, with its folder where that is gone. Raises StoreError."""
        make_folder(self.document.path.parent)
        self.document.save(overwrite=True)
        self._settle()

    def save_over(self, theirs: bytes | None) -> None:
        """Write the file in place of what was seen there. Raises FileChanged where it is another again."""
        self.document.save_over(theirs)
        self._settle()

    def reload(self) -> None:
        """Take what is on disk, as a step of undo. Raises StoreError."""
        before = self.document.steps_done
        self.document.reload()
        self._forget_steps_after(before)
        self._settle()

    def take(self, recovered: EvalSetDocument) -> None:
        """Take the edits of a recovered document as a step of undo."""
        before = self.document.steps_done
        self.document.recover(recovered.content(), recovered.stamp)
        self._forget_steps_after(before)
        self._seen = _NOT_SEEN

    def move(self, path: Path) -> None:
        """The file has another name now."""
        self.document.path = path

    def standing(self) -> DocumentStanding:
        """How it stands, as of the last look."""
        document = self.document
        return DocumentStanding(
            dirty=document.dirty,
            undoable=document.undoable,
            redoable=document.redoable,
            changed_on_disk=document.dirty and self._in_conflict,
            changed_cases=document.changed_cases(),
            problem=self.problem,
            revision=document.revision,
        )

    def _sight(self) -> tuple[int, bool, str]:
        return self.document.revision, self._in_conflict, str(self.problem or "")

    def _differs(self) -> bool:
        try:
            return self.document.changed_on_disk()
        except StoreError:  # it is there and cannot be read
            return True

    def _take_over(self) -> None:
        try:
            if self.document.undoable or self.document.redoable:
                self.reload()
            else:  # nothing to undo is worth keeping the old content for
                self.document = EvalSetDocument.open(self.document.path)
                self._settle()
        except StoreError as error:
            self.problem = error
            self._in_conflict = False
            if isinstance(error.__cause__, OSError):
                self._seen = _NOT_SEEN  # a permission may be given without a trace in what we compare

    def _settle(self) -> None:
        """The document is as on disk now."""
        stamp = self.document.stamp
        self._seen = stamp.signature if stamp is not None else _NOT_SEEN
        self._in_conflict = False
        self.problem = None

    def _step(self, number: int, go: Callable[[], str | None]) -> str | None:
        save = number in self._saved_at_once and not self.document.dirty
        label = go()
        if label is not None and save:
            self.save()
        return label

    def _forget_steps_after(self, number: int) -> None:
        self._saved_at_once = {step for step in self._saved_at_once if step <= number}
        self._joint_edits = {step: joint for step, joint in self._joint_edits.items() if step <= number}
