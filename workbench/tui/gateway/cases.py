"""What the browser does with the cases of an eval set: functions of a document, for `documents.edit_and_save`.

A case is named by its key; one that is gone raises StoreError, as everything does that cannot be done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.store.documents import EvalSetDocument


@dataclass(frozen=True, slots=True)
class TakenCase:
    """A case on its way to another set. `text` is given where its data would lose comments."""

    eval_id: str
    format: str
    data: Any
    text: str | None


def add_case(document: EvalSetDocument, eval_id: str, *, after: CaseKey | None) -> None:
    """Insert a case of one empty turn, behind another or at the end."""
    index = len(document) if after is None else index_of(document, after) + 1
    if _is_legacy(document):
        data: dict[str, Any] = {"name": eval_id, "data": [{"query": "", "expected_tool_use": [], "reference": ""}]}
    else:
        turn = {"user_content": {"role": "user", "parts": [{"text": ""}]}}
        data = {"eval_id": eval_id, "conversation": [turn]}
    document.insert_case(index, data)


def rename_case(document: EvalSetDocument, key: CaseKey, eval_id: str) -> None:
    """Give a case another id."""
    if document.named_by_file:
        raise StoreError(document.path, "its one case has its name from the file: rename the eval set")
    document.set_value((_name_key(document),), eval_id, case=index_of(document, key))


def duplicate_case(document: EvalSetDocument, key: CaseKey, eval_id: str) -> None:
    """Insert a copy of a case after it, under another id."""
    document.duplicate_case(index_of(document, key), eval_id=eval_id)


def delete_cases(document: EvalSetDocument, keys: Sequence[CaseKey]) -> None:
    """Remove cases."""
    document.remove_cases(_indexes_of(document, keys))


def move_case(document: EvalSetDocument, key: CaseKey, by: int) -> None:
    """Move a case up (negative) or down in its set, as far as there is room."""
    index = index_of(document, key)
    document.move_case(index, min(max(index + by, 0), len(document) - 1))


def take_cases(document: EvalSetDocument, keys: Sequence[CaseKey]) -> list[TakenCase]:
    """Cases as another set can have them, in the order of this one; they stay here."""
    taken, pieces = [], document.pieces_of_cases()
    for index in sorted(_indexes_of(document, keys)):
        strict = pieces[index].strict
        text = None if strict else document.case_text(index)
        taken.append(TakenCase(document.entries[index].eval_id, document.format, document.raw_case(index), text))
    return taken


def put_cases(document: EvalSetDocument, cases: Sequence[TakenCase]) -> None:
    """Add cases of another set at the end. Refused where an id is taken, and where the formats are not the same."""
    taken = {entry.eval_id for entry in document.entries}
    for case in cases:
        if case.eval_id in taken:
            raise StoreError(document.path, f"it has a case {case.eval_id!r} already: rename one of them first")
        if case.format != document.format:
            raise StoreError(
                document.path, found=f"the format {document.format}", expected=f"{case.format}, as the case has it"
            )
        document.insert_case(len(document), case.data)
        if case.text is not None:
            document.set_case_text(len(document) - 1, case.text)


def index_of(document: EvalSetDocument, key: CaseKey) -> int:
    """Where a case is in its file."""
    return _indexes_of(document, [key])[0]


def _indexes_of(document: EvalSetDocument, keys: Sequence[CaseKey]) -> list[int]:
    known = {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
    for key in keys:
        if (key.eval_id, key.occurrence) not in known:
            raise StoreError(document.path, f"the case {key.eval_id!r} is no longer in this file; F5 looks for changes")
    return [known[key.eval_id, key.occurrence] for key in keys]


def _is_legacy(document: EvalSetDocument) -> bool:
    return _name_key(document) == "name"


def _name_key(document: EvalSetDocument) -> str:
    from workbench.store.documents import DocumentFormat

    return "eval_id" if document.format is DocumentFormat.CURRENT else "name"
