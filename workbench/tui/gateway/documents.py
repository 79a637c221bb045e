"""Eval sets as they are edited: see `engine.documents`, of which every method here is the asynchronous twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.documents import DocumentStanding, Done
    from workbench.store.documents import EvalSetDocument

T = TypeVar("T")


class Documents:
    """The eval sets of the project. Methods raise StoreError, and FileChanged where something would be overwritten."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def edit(self, eval_set: str, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """Change a document in one step of undo, unsaved. `change` runs on the gateway's thread."""
        return await self._call(lambda workspace: workspace.documents.edit(eval_set, change, label=label))

    async def edit_and_save(self, eval_set: str, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, saved at once. Where only saving fails the edit stays, unsaved."""
        return await self._call(lambda workspace: workspace.documents.edit_and_save(eval_set, change, label=label))

    async def look(self, eval_set: str, read: Callable[[EvalSetDocument], T]) -> T:
        """Read something of a document as it is now. `read` runs on the gateway's thread."""
        return await self._call(lambda workspace: read(workspace.documents.document(eval_set)))

    async def undo(self, eval_set: str | None) -> Done | None:
        """Take back what was done last in this set, or with the files of sets; None where there is nothing."""
        return await self._call(lambda workspace: workspace.documents.undo_newest(eval_set))

    async def redo(self, eval_set: str | None) -> Done | None:
        """Do again what was taken back last; None where there is nothing."""
        return await self._call(lambda workspace: workspace.documents.redo_newest(eval_set))

    async def save(self, eval_set: str, *, overwrite: bool = False) -> None:
        """Write a set with unsaved edits."""
        await self._call(lambda workspace: workspace.documents.save(eval_set, overwrite=overwrite))

    async def standing(self, eval_set: str) -> DocumentStanding:
        """How a set stands: unsaved edits, what can be undone, whether it changed on disk."""
        return await self._call(lambda workspace: workspace.documents.standing(eval_set))
