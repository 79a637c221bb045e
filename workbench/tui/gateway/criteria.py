"""Criteria of eval sets: read from their files, kept there, and taken back; and what the cases have to be judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.model.criteria import Criterion
from workbench.store.discovery.project import CRITERIA_FILE
from workbench.store.errors import IsDataset, StoreError
from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.plan import Selection
    from workbench.engine.workspace import Workspace
    from workbench.metrics.fitting import CaseFacts
    from workbench.store.documents import ConfigDocument
    from workbench.tui.state.run.criteria_view import CriteriaFile

_CASES_AT_ONCE = 250  # so that whatever else waits for the thread gets its turn


class Criteria:
    """The criteria files of a project. Methods raise StoreError."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._documents: dict[Path, ConfigDocument] = {}

    async def read(self, eval_sets: Sequence[str]) -> CriteriaFile:
        """The file by which the first of these sets is judged, as it is now, or the one that would be."""

        def read(workspace: Workspace) -> CriteriaFile:
            document = self._document(workspace, eval_sets[0])
            document.reload()
            return _file_of(workspace, document, eval_sets)

        return await self._call(read)

    async def keep(self, eval_sets: Sequence[str], criteria: Sequence[Criterion]) -> CriteriaFile:
        """Write criteria into the file that was read. Raises FileChanged where it has changed since."""

        def keep(workspace: Workspace) -> CriteriaFile:
            document = self._document(workspace, eval_sets[0])
            existed = document.exists
            document.keep_criteria(criteria)
            if document.exists != existed:
                workspace.refresh()
            return _file_of(workspace, document, eval_sets)

        return await self._call(keep)

    async def undo(self, eval_sets: Sequence[str]) -> CriteriaFile:
        """Take back what was written last into the file. Raises FileChanged where it has changed since."""

        def undo(workspace: Workspace) -> CriteriaFile:
            document = self._document(workspace, eval_sets[0])
            existed = document.exists
            if document.undoable:
                document.undo()
            if document.exists != existed:
                workspace.refresh()
            return _file_of(workspace, document, eval_sets)

        return await self._call(undo)

    async def facts(self, selections: Sequence[Selection]) -> CaseFacts:
        """What the selected cases have to be judged by. Cases that cannot be read are left out."""
        from workbench.metrics.fitting import CaseFacts

        total = CaseFacts()
        for selection in selections:
            start: int | None = 0
            while start is not None:
                facts, start = await self._call(_counting(selection, start))
                total += facts
        return total

    def _document(self, workspace: Workspace, eval_set: str) -> ConfigDocument:
        path = _path_of(workspace, eval_set)
        if path not in self._documents:
            from workbench.store.documents import ConfigDocument  # the screen is there before what reads files

            self._documents[path] = ConfigDocument.open(path)
        return self._documents[path]


def _path_of(workspace: Workspace, eval_set: str) -> Path:
    entry = next((entry for entry in workspace.project.eval_sets if entry.relative == eval_set), None)
    if entry is None:
        raise StoreError(workspace.root / eval_set, "there is no such eval set any longer")
    return entry.config or entry.path.parent / CRITERIA_FILE


def _file_of(workspace: Workspace, document: ConfigDocument, eval_sets: Sequence[str]) -> CriteriaFile:
    from workbench.tui.state.run.criteria_view import CriteriaFile

    paths = {entry.relative: entry.config or entry.path.parent / CRITERIA_FILE for entry in workspace.project.eval_sets}
    selected = {path for name, path in paths.items() if name in set(eval_sets)}
    path = document.path
    return CriteriaFile(
        path=str(path.relative_to(workspace.root) if path.is_relative_to(workspace.root) else path),
        exists=document.exists,
        config=document.config,
        also_judges=sum(file == path and name not in eval_sets for name, file in paths.items()),
        other_files=len(selected - {path}),
        undoable=document.undoable,
    )


def _counting(selection: Selection, start: int) -> Callable[[Workspace], tuple[CaseFacts, int | None]]:
    """Counts the next cases of a selection; gives with them where to go on, None at the end."""

    def count(workspace: Workspace) -> tuple[CaseFacts, int | None]:
        from workbench.metrics.fitting import CaseFacts

        facts = CaseFacts()
        try:
            document = workspace.document(selection.eval_set)
        except IsDataset:
            return _facts_of_rows(workspace, selection), None
        except StoreError:
            return facts, None
        wanted = None if selection.cases is None else set(selection.cases)
        entries = document.entries[start : start + _CASES_AT_ONCE]
        for entry in entries:
            if wanted is not None and entry.eval_id not in wanted:
                continue
            try:
                facts += CaseFacts.of(document.case(entry.index))
            except StoreError:
                continue  # its row in the browser says what is wrong with it
        end = start + _CASES_AT_ONCE
        return facts, end if end < len(document.entries) else None

    return count


def _facts_of_rows(workspace: Workspace, selection: Selection) -> CaseFacts:
    """Of the rows of a dataset, which are all read at once."""
    from workbench.metrics.fitting import CaseFacts

    rows = workspace.recordings.of(selection.eval_set).cases
    wanted = [row.case for row in rows if selection.cases is None or row.eval_id in selection.cases]
    return sum((CaseFacts.of(case) for case in wanted if case is not None), CaseFacts())
