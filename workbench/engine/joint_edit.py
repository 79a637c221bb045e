"""An edit of several eval sets at once, such as moving a case: saved as one, undone and done again as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.engine.open_document import OpenDocument
from workbench.store.documents import EvalSetDocument
from workbench.store.errors import StoreError

Change = Callable[[EvalSetDocument], Any]


class JointEdit:
    """One step of undo in each of several open documents; none of them is taken back without the others."""

    def __init__(self) -> None:
        self._steps: list[tuple[OpenDocument, int]] = []

    @property
    def documents(self) -> Sequence[OpenDocument]:
        """What was edited, in the order of the edits."""
        return [opened for opened, _ in self._steps]

    def make(self, changes: Sequence[tuple[OpenDocument, Change]], *, label: str) -> None:
        """Make the edits and save them in this order. Where anything fails nothing remains of it.

        Raises StoreError, and FileChanged before anything is edited where a set is in conflict with its file.
        """
        for opened, _ in changes:
            if opened.standing().changed_on_disk:
                opened.save()  # raises FileChanged
        try:
            for opened, change in changes:
                opened.edit_within(self, change, label=label)
                number = opened.document.steps_done
                if opened.joint_edit(number) is self:  # the edit changed something
                    self._steps.append((opened, number))
            for opened, _ in changes:
                opened.save()
        except StoreError:
            for opened, number in reversed(self._steps):
                if opened.document.steps_done == number:
                    opened.undo()
            raise

    def undo(self) -> None:
        """Take back the edits, the last one first. Raises StoreError, before any, where one was edited since."""
        for opened, number in self._steps:
            self._check(opened, number, now=opened.document.steps_done)
        for opened, _ in reversed(self._steps):
            opened.undo()

    def redo(self) -> None:
        """Make the edits again. Raises StoreError, before any, where that can no longer be in one of the documents."""
        for opened, number in self._steps:
            self._check(opened, number, now=opened.document.steps_done + 1)
        for opened, _ in self._steps:
            opened.redo()

    def _check(self, opened: OpenDocument, number: int, *, now: int) -> None:
        opened.look()
        path = opened.document.path
        if opened.joint_edit(number) is not self or now != number:
            raise StoreError(path, "this is a step there too, and it was edited since: take that back first")
        if opened.standing().changed_on_disk or opened.problem is not None or not path.exists():
            raise StoreError(path, "this is a step there too, and its file was changed since: decide on that first")
