"""Datasets that were judged by themselves (`EvalTask`, `workbench score`), as far as the history keeps them.

The project has no target and no file for them: what is shown is what the newest run of each stored, with what the
rows expected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.store.errors import StoreError
from workbench.store.garbage import without_collecting
from workbench.store.history.database import file_of
from workbench.tui.state.browser import ListedSet, case_row
from workbench.tui.state.browser.content import CaseContent, content_of
from workbench.tui.state.browser.listed import KEPT_READ_ONLY, KeptRun
from workbench.tui.state.browser.order import natural
from workbench.tui.state.editor.opened import Edited, Opened
from workbench.tui.state.editor.outline import case_rows
from workbench.tui.state.subject import ReadCase

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.store.discovery import EvalSetEntry
    from workbench.store.history import History

_SAYS_NOTHING = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)


def is_kept(workspace: Workspace, key: CaseKey) -> bool:
    """Whether a case is a row of such a dataset."""
    if key.target != key.eval_set:
        return False
    return not any((entry.target, entry.relative) == (key.target, key.eval_set) for entry in _entries(workspace))


def kept_sets(workspace: Workspace) -> Sequence[ListedSet]:
    """The datasets, the newest first; none where the history cannot be read, which is told where it is read for all."""
    if not file_of(workspace.root).exists():
        return ()  # opening it would make one, and looking at a project must not write to it
    try:
        with workspace.history() as history:
            found = history.newest_of_datasets()
    except StoreError:
        return ()
    there = {(entry.target, entry.relative) for entry in _entries(workspace)}
    return [
        ListedSet(name, name, kept=KeptRun(run.run_id, run.started_at, run.command, run.ended))
        for name, run in found
        if (name, name) not in there
    ]


def list_kept(workspace: Workspace, listed: ListedSet, kept: KeptRun) -> ListedSet:
    """The dataset with the rows of its run as cases; the same object where they are known. Raises StoreError."""
    if listed.cases is not None:
        return listed
    with workspace.history() as history, without_collecting():
        jobs = history.jobs(kept.run_id)
    # They are stored as they ended, which with several at a time is in no order.
    keys = dict.fromkeys(job.case for job in jobs if _is_of(listed, job.case) and job.status not in _SAYS_NOTHING)
    rows = sorted((case_row(key) for key in keys), key=lambda row: natural(row.label))
    return ListedSet(listed.relative, listed.target, tuple(rows), kept=kept)


def read_kept(key: CaseKey, results: Sequence[CaseResult]) -> ReadCase:
    """What there is of a row: its results, and what it expected then."""
    expected = results[0].expected_by_row if results else None
    return ReadCase(key, expected, stored=results, is_kept=True)


def open_kept(workspace: Workspace, edited: Edited, key: CaseKey) -> Opened:
    """What was asked in a row and what it expected, for looking at. Raises StoreError."""
    with workspace.history() as history:
        results = history.latest_results([key]).get(key, ())
    case = results[0].expected_by_row if results else None
    note = ""
    if case is None:
        turns = results[0].execution.turns if results else ()
        asked = [Invocation(user_content=turn.invocation.user_content) for turn in turns]
        case = EvalCase(eval_id=key.eval_id, conversation=asked)
        note = "what was asked; no reference of the row is stored"
    data = case.model_dump(mode="json", exclude_defaults=True)
    return Opened(
        edited=edited,
        index=None,
        data=data,
        rows=case_rows(data),
        revision=0,
        is_changed=False,
        note=note,
        read_only=KEPT_READ_ONLY,
    )


class ReadingKept:
    """The way through the rows of a run, for what they can be found by. `close` is to be called."""

    def __init__(self, history: History, listed: ListedSet, kept: KeptRun) -> None:
        self._history = history
        self._listed = listed
        self._results = self._of_set(history.results(kept.run_id))

    def step(self, *, seconds: float) -> Sequence[CaseContent]:
        """The next rows, as many as there is time for; nothing at the end. Raises StoreError."""
        found: list[CaseContent] = []
        until = time.monotonic() + seconds
        for result in self._results:
            turns = [turn.invocation for turn in result.execution.turns]
            found.append(content_of(result.case, EvalCase(eval_id=result.case.eval_id, conversation=turns)))
            if time.monotonic() >= until:
                break
        return found

    def close(self) -> None:
        """Let go of the history."""
        self._history.close()

    def _of_set(self, results: Iterator[CaseResult]) -> Iterator[CaseResult]:
        return (result for result in results if _is_of(self._listed, result.case))


def _is_of(listed: ListedSet, key: CaseKey) -> bool:
    return (key.target, key.eval_set) == listed.place


def _entries(workspace: Workspace) -> Sequence[EvalSetEntry]:
    return workspace.project.eval_sets
