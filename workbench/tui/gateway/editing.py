"""Cases and sets as the editor has them open: read into rows, judged before an edit, edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.store.errors import IsDataset, StoreError
from workbench.tui.gateway.datasets import open_row
from workbench.tui.gateway.documents import Documents
from workbench.tui.gateway.kept import is_kept, open_kept
from workbench.tui.gateway.thread import Call
from workbench.tui.state.editor.opened import Edited, Opened
from workbench.tui.state.editor.operations import Edit
from workbench.tui.state.editor.outline import case_rows, legacy_rows, set_rows
from workbench.tui.state.editor.rows import Place, folded, value_at

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.store.documents import EvalSetDocument

_OLD_FORMAT = "an old format, edited with its own keys; `workbench eval-set migrate` writes it in the current one"


class Refused(Exception):
    """The edit would leave something that cannot be read; the text says where and why. Nothing was changed."""


class Outdated(Exception):
    """The document is another than the one that the user looked at. Nothing was changed."""


class Editing:
    """What the editor asks. Methods raise StoreError."""

    def __init__(self, call: Call, documents: Documents) -> None:
        self._call = call
        self._documents = documents

    async def open(self, edited: Edited, known: Opened | None) -> Opened:
        """A case or set as it is now, unsaved edits included; what is `known` where nothing has changed."""
        return await self._call(lambda workspace: _open(workspace, edited, known))

    async def fault(self, opened: Opened, edit: Edit) -> str | None:
        """What would be wrong after an edit, with its place; None where nothing would."""
        return await self._call(lambda workspace: _fault(_document(workspace, opened), opened, edit))

    async def make(self, opened: Opened, edit: Edit, *, label: str) -> None:
        """Make an edit, as one step of undo, unsaved. Raises Refused and Outdated."""

        def change(document: EvalSetDocument) -> None:
            if document.revision != opened.revision:
                raise Outdated
            fault = _fault(document, opened, edit)
            if fault is not None:
                raise Refused(fault)
            edit.make(document, case=opened.index)

        await self._documents.edit(opened.edited.eval_set, change, label=label)


def _document(workspace: Workspace, opened: Opened) -> EvalSetDocument:
    return workspace.documents.document(opened.edited.eval_set)


def _open(workspace: Workspace, edited: Edited, known: Opened | None) -> Opened:
    if edited.case is not None and is_kept(workspace, edited.case):
        return open_kept(workspace, edited, edited.case)
    try:
        document = workspace.documents.document(edited.eval_set)
    except IsDataset:
        return open_row(workspace, edited, known)
    is_changed = _is_changed(document, edited)
    now = (edited, document.revision, is_changed)
    if known is not None and (known.edited, known.revision, known.is_changed) == now:
        return known
    if edited.case is None:
        return _open_set(document, edited)
    index = document.index_of(edited.case.eval_id, occurrence=edited.case.occurrence)
    return _open_case(document, edited, index)


def _open_set(document: EvalSetDocument, edited: Edited) -> Opened:
    current = _is_current(document)
    header = _header(document)
    return Opened(
        edited=edited,
        index=None,
        data=header,
        rows=set_rows(header) if current else (),
        revision=document.revision,
        is_changed=document.dirty,
        note="" if current else "an old format, in which a set says nothing of itself",
    )


def _open_case(document: EvalSetDocument, edited: Edited, index: int) -> Opened:
    is_changed = _is_changed(document, edited)
    current = _is_current(document)
    try:
        data = document.raw_case(index)
    except StoreError as error:
        problem = f"{error}; its JSON can only be mended as text"
        return Opened(
            edited=edited,
            index=index,
            data=None,
            rows=(),
            revision=document.revision,
            is_changed=is_changed,
            problem=problem,
        )
    fault = document.fault_of(data)
    return Opened(
        edited=edited,
        index=index,
        data=data,
        rows=case_rows(data) if current else legacy_rows(data),
        revision=document.revision,
        is_changed=is_changed,
        problem=_problem_among_others(document, index)
        if fault is None
        else _sentence(fault.place, fault.found, fault.expected),
        note="" if current else _OLD_FORMAT,
    )


def _problem_among_others(document: EvalSetDocument, index: int) -> str:
    """What is wrong with a case that is sound by itself: results cannot be told apart where two cases have one id."""
    eval_id = document.entries[index].eval_id
    if any(entry.eval_id == eval_id for entry in document.entries if entry.index != index):
        return f"{eval_id!r} is the id of another case of this set too: give one of them another"
    return ""


def _is_changed(document: EvalSetDocument, edited: Edited) -> bool:
    if edited.case is None:
        return document.dirty
    return document.dirty and edited.case.eval_id in document.changed_cases()


def _header(document: EvalSetDocument) -> dict[str, Any]:
    return {key: value for key, value in document.header.items() if key != document.cases_key}


def _fault(document: EvalSetDocument, opened: Opened, edit: Edit) -> str | None:
    """What an edit would make wrong. A fault that is there already keeps nobody from mending other things."""
    if opened.index is None:
        after = edit.in_data(_header(document))
        set_id = value_at(after, ("eval_set_id",))
        is_new = set_id != value_at(_header(document), ("eval_set_id",))
        if is_new and (not isinstance(set_id, str) or not set_id.strip()):
            return "eval_set_id: expected an id, which a set must have"
        return None
    data = document.raw_case(opened.index)
    after = edit.in_data(data)
    id_fault = _fault_of_id(document, opened.index, data, after)
    if id_fault is not None:
        return id_fault
    fault = document.fault_of(after)
    if fault is None:
        return None
    before = document.fault_of(data)
    if before is not None and (fault == before or not _meet(fault.place, edit.goes_to)):
        return None
    return _sentence(fault.place, fault.found, fault.expected)


def _fault_of_id(document: EvalSetDocument, index: int, data: Any, after: Any) -> str | None:
    """What is wrong with a new id of a case: every case needs one of its own."""
    key = "eval_id" if _is_current(document) else "name"
    new = value_at(after, (key,))
    if document.named_by_file or new == value_at(data, (key,)):
        return None
    if not isinstance(new, str) or not new.strip():
        return f"{key}: expected an id, which a case must have"
    if any(entry.eval_id == new for entry in document.entries if entry.index != index):
        return f"{key}: {new!r} is the id of another case of this set"
    return None


def _is_current(document: EvalSetDocument) -> bool:
    from workbench.store.documents import DocumentFormat  # the screen is there before what reads files

    return document.format is DocumentFormat.CURRENT


def _meet(one: Place, other: Place) -> bool:
    """Whether one of two places is in the other."""
    shorter = min(len(one), len(other))
    return folded(one)[:shorter] == folded(other)[:shorter]


def _sentence(place: Place, found: str, expected: str) -> str:
    from workbench.store.documents import format_place

    where = format_place(place)
    return f"{where}: found {found}, expected {expected}" if where else f"found {found}, expected {expected}"
