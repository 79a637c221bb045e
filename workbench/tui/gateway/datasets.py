"""Datasets that a recorded target claims, as the screen shows them: their rows are cases that nobody edits here.

Asking for the document of a dataset raises IsDataset; these are the answers to the same questions then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.model.keys import CaseKey
from workbench.tui.state.browser import ListedSet, case_row
from workbench.tui.state.browser.content import CaseContent, content_of, content_of_broken
from workbench.tui.state.editor.opened import Edited, Opened
from workbench.tui.state.editor.outline import case_rows
from workbench.tui.state.problems import SetProblem

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.store.datasets import RecordedCase

_READ_ONLY = "a dataset is shown and judged here, and not edited; `workbench dataset convert` makes an eval set of it"


def revision_of(workspace: Workspace, eval_set: str) -> int:
    """Another number after every change of the rows. Raises StoreError."""
    return workspace.recordings.revision(eval_set)


def list_rows(workspace: Workspace, listed: ListedSet) -> ListedSet:
    """The set with the rows of its dataset as cases; the same object where nothing has changed. Raises StoreError."""
    found = workspace.recordings.of(listed.relative).cases
    rows = tuple(case_row(_key(listed, item), item.problem or "") for item in found)
    if listed.cases == rows and listed.is_dataset and not listed.problem:
        return listed
    return replace(listed, problem="", cases=rows, is_dataset=True)


def find_row(workspace: Workspace, key: CaseKey) -> RecordedCase | None:
    """The row of a case. Raises StoreError."""
    cases = workspace.recordings.of(key.eval_set).cases
    return next((item for item in cases if (item.eval_id, item.occurrence) == (key.eval_id, key.occurrence)), None)


def contents_of_rows(workspace: Workspace, listed: ListedSet) -> Sequence[CaseContent]:
    """What the rows can be found by. Raises StoreError."""
    found = []
    for item in workspace.recordings.of(listed.relative).cases:
        key = _key(listed, item)
        found.append(content_of_broken(key, item.problem or "") if item.case is None else content_of(key, item.case))
    return found


def open_row(workspace: Workspace, edited: Edited, known: Opened | None) -> Opened:
    """A row, or the dataset itself, for looking at. Raises StoreError."""
    revision = revision_of(workspace, edited.eval_set)
    if known is not None and (known.edited, known.revision) == (edited, revision):
        return known
    item = None if edited.case is None else find_row(workspace, edited.case)
    data = {} if item is None or item.case is None else item.case.model_dump(mode="json", exclude_defaults=True)
    return Opened(
        edited=edited,
        index=None,
        data=data,
        rows=case_rows(data) if data else (),
        revision=revision,
        is_changed=False,
        problem="" if item is None else item.problem or "",
        read_only=_READ_ONLY,
    )


def problems_of_rows(workspace: Workspace, eval_set: str) -> Sequence[SetProblem]:
    """What is wrong with the rows. Raises StoreError."""
    from workbench.store.datasets import is_address  # the screen is there before what reads files

    path = None if is_address(eval_set) else Path(workspace.root / eval_set)
    return [
        SetProblem(
            path, error.message, place=error.place, line=error.line, column=error.column,
            case=(item.eval_id, item.occurrence),
        )
        for item in workspace.recordings.of(eval_set).cases
        for error in item.errors
    ]  # fmt: skip


def _key(listed: ListedSet, item: RecordedCase) -> CaseKey:
    return CaseKey(target=listed.target, eval_set=listed.relative, eval_id=item.eval_id, occurrence=item.occurrence)
