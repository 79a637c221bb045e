"""Eval sets as they are edited: see `engine.documents`, of which every method here is the asynchronous twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.model.text import counted
from workbench.store.errors import IsDataset, NotRead, StoreError
from workbench.tui.gateway.datasets import problems_of_rows
from workbench.tui.gateway.thread import Call
from workbench.tui.state.problems import SetProblem

if TYPE_CHECKING:
    from workbench.engine.documents import DocumentStanding, Done, FoundEdits, OpenDocuments, Versions
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import EvalCase
    from workbench.model.results import CaseResult
    from workbench.store.documents import EvalSetDocument, Recovery

T = TypeVar("T")

MOST_PROBLEMS = 1_000
"""How many problems of one eval set are listed; the others are counted."""
_CHECKED_AT_ONCE = 500
"""How many cases are checked against the rules of ADK before other work has its turn: about a tenth of a second."""


class Documents:
    """The eval sets of the project. Methods raise StoreError, and FileChanged where something would be overwritten."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.changes = 0  # how often unsaved edits may have become others: what recovery files have to follow

    async def edit(self, eval_set: str, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """Change a document in one step of undo, unsaved. `change` runs on the gateway's thread."""
        return await self._change(lambda documents: documents.edit(eval_set, change, label=label))

    async def edit_and_save(self, eval_set: str, change: Callable[[EvalSetDocument], T], *, label: str) -> T:
        """As `edit`, saved at once, as undoing and redoing it will be. Where only saving fails the edit stays."""
        return await self._change(lambda documents: documents.edit_and_save(eval_set, change, label=label))

    async def keep_conversation(self, result: CaseResult, case: EvalCase) -> str:
        """Add what a simulated user and the agent said as a fixed case to the set of the scenario; gives its id."""

        def keep(document: EvalSetDocument) -> str:
            from workbench.engine.chat_case import write_case  # with the engine: not before it is needed
            from workbench.engine.conversation_case import fixed_case

            new = fixed_case(result, case, taken={entry.eval_id for entry in document.entries})
            write_case(document, new)
            return new.eval_id

        return await self.edit_and_save(result.case.eval_set, keep, label=f"keep the conversation of {case.eval_id}")

    async def edit_together(
        self, changes: Sequence[tuple[str, Callable[[EvalSetDocument], None]]], *, label: str
    ) -> None:
        """Change several sets in one step of undo and save them; where anything fails nothing remains of it."""
        await self._change(lambda documents: documents.edit_together(changes, label=label))

    async def look(self, eval_set: str, read: Callable[[EvalSetDocument], T]) -> T:
        """Read something of a document as it is now. `read` runs on the gateway's thread."""
        return await self._ask(lambda documents: read(documents.document(eval_set)))

    async def undo(self, eval_set: str | None) -> Done | None:
        """Take back what was done last in this set, or with the files of sets; None where there is nothing."""
        return await self._change(lambda documents: documents.undo_newest(eval_set))

    async def redo(self, eval_set: str | None) -> Done | None:
        """Do again what was taken back last; None where there is nothing."""
        return await self._change(lambda documents: documents.redo_newest(eval_set))

    async def save(self, eval_set: str) -> None:
        """Write a set with unsaved edits."""
        await self._change(lambda documents: documents.save(eval_set))

    async def save_over(self, eval_set: str, theirs: bytes | None) -> None:
        """Write a set in place of what was seen on disk (None: no file)."""
        await self._change(lambda documents: documents.save_over(eval_set, theirs))

    async def reload(self, eval_set: str) -> None:
        """Take what is on disk; undo brings back the edits that were not saved."""
        await self._change(lambda documents: documents.reload(eval_set))

    async def versions(self, eval_set: str) -> Versions:
        """A set as it is here, and as it is on disk."""
        return await self._ask(lambda documents: documents.versions(eval_set))

    async def standing(self, eval_set: str) -> DocumentStanding:
        """How a set stands: unsaved edits, what can be undone, whether it changed on disk."""
        return await self._ask(lambda documents: documents.standing(eval_set))

    async def dirty(self) -> Sequence[str]:
        """The sets with unsaved edits."""
        return await self._ask(lambda documents: documents.dirty())

    async def look_again(self) -> frozenset[str]:
        """The sets that are another than they were, because of their files."""
        return await self._ask(lambda documents: documents.look_again())

    async def problems(self, eval_set: str) -> Sequence[SetProblem]:
        """What is wrong with a set, its file, and its cases."""
        return await self._call(lambda workspace: _problems(workspace, eval_set))

    async def check(self, eval_set: str) -> bool:
        """Check some more cases of a set against the rules of ADK; whether that is all, and `problems` complete."""
        return await self._call(lambda workspace: _check(workspace, eval_set))

    async def create_set(self, eval_set: str, *, eval_set_id: str) -> None:
        """Make an eval set without cases."""
        await self._change(lambda documents: documents.create_set(eval_set, eval_set_id=eval_set_id))

    async def duplicate_set(self, eval_set: str, copy: str) -> None:
        """Write a set, with its unsaved edits, under another name too."""
        await self._change(lambda documents: documents.duplicate_set(eval_set, copy))

    async def rename_set(self, eval_set: str, new: str) -> None:
        """Give the file of a set another name; unsaved edits and what can be undone go with it."""
        await self._change(lambda documents: documents.rename_set(eval_set, new))

    async def delete_set(self, eval_set: str) -> None:
        """Remove the file of a set, which undo brings back, unsaved edits too."""
        await self._change(lambda documents: documents.delete_set(eval_set))

    async def keep(self) -> None:
        """Bring the recovery files up to date."""
        await self._ask(lambda documents: documents.keep())

    async def found(self) -> Sequence[FoundEdits]:
        """What earlier sessions left unsaved, the newest first."""
        return await self._ask(lambda documents: documents.found())

    async def restore(self, recovery: Recovery) -> str:
        """Take up unsaved edits of an earlier session as one step of undo; gives the set."""
        return await self._change(lambda documents: documents.restore(recovery))

    async def discard(self, recovery: Recovery) -> None:
        """Throw away what an earlier session left."""
        await self._ask(lambda documents: documents.discard(recovery))

    async def recovered_versions(self, recovery: Recovery) -> Versions:
        """A set with the unsaved edits of an earlier session, and as it is on disk."""
        return await self._ask(lambda documents: documents.recovered_versions(recovery))

    async def _ask(self, work: Callable[[OpenDocuments], T]) -> T:
        return await self._call(lambda workspace: work(workspace.documents))

    async def _change(self, work: Callable[[OpenDocuments], T]) -> T:
        try:
            return await self._ask(work)
        finally:
            self.changes += 1


def _problems(workspace: Workspace, eval_set: str) -> Sequence[SetProblem]:
    documents = workspace.documents
    try:
        standing = documents.standing(eval_set)
    except IsDataset:
        return _problems_of_dataset(workspace, eval_set)
    except StoreError as error:
        return [_of_error(error)]
    document = documents.document(eval_set)
    found: list[SetProblem] = []
    if standing.changed_on_disk:
        found.append(
            SetProblem(
                document.path, "it changed on disk while it has unsaved edits: decide which to keep", conflict=True
            )
        )
    if standing.problem is not None:
        found.append(_of_error(standing.problem, note="; what is shown is its last good state"))
    errors = document.errors if document.check_cases(0) else document.errors_here
    for item in errors[:MOST_PROBLEMS]:
        entry = None if item.case is None else document.entries[item.case]
        case = None if entry is None else (entry.eval_id, entry.occurrence)
        found.append(
            SetProblem(document.path, item.message, place=item.place, line=item.line, column=item.column, case=case)
        )
    if len(errors) > MOST_PROBLEMS:
        found.append(SetProblem(document.path, counted(len(errors) - MOST_PROBLEMS, "more problem")))
    return found


def _check(workspace: Workspace, eval_set: str) -> bool:
    try:
        return workspace.documents.document(eval_set).check_cases(_CHECKED_AT_ONCE)
    except StoreError:  # `problems` says so
        return True


def _problems_of_dataset(workspace: Workspace, eval_set: str) -> Sequence[SetProblem]:
    try:
        found = problems_of_rows(workspace, eval_set)
    except NotRead:
        return []
    except StoreError as error:
        return [_of_error(error)]
    more = len(found) - MOST_PROBLEMS
    rest = [SetProblem(found[0].path, f"{more:,} more problems")] if more > 0 else []
    return [*found[:MOST_PROBLEMS], *rest]


def _of_error(error: StoreError, *, note: str = "") -> SetProblem:
    path = error.path if isinstance(error.path, Path) else None
    return SetProblem(path, error.message + note, place=error.place, line=error.line, column=error.column)
