"""Which cases two versions of an eval set do not have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.store.documents.document_view import DocumentView

How = Literal["changed", "only in ours", "only in theirs", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDifference:
    """A case that is not the same in both versions: another text, another place, or absent from one of them."""

    eval_id: str
    occurrence: int
    how: How


def differing_cases(ours: DocumentView, theirs: DocumentView) -> list[CaseDifference]:
    """The cases that differ, in the order of ours, then those that only theirs has. Cases are told apart by their ids.

    A case counts as moved where its text is the same, but the order of the cases that both have is another.
    """
    mine, other = _texts(ours), _texts(theirs)
    shared = [key for key in mine if key in other]
    order = {key: place for place, key in enumerate(key for key in other if key in mine)}
    found = []
    for key, text in mine.items():
        how: How | None = None
        if key not in other:
            how = "only in ours"
        elif other[key] != text:
            how = "changed"
        elif shared[order[key]] != key:
            how = "moved"
        if how is not None:
            found.append(CaseDifference(eval_id=key[0], occurrence=key[1], how=how))
    return found + [
        CaseDifference(eval_id=key[0], occurrence=key[1], how="only in theirs") for key in other if key not in mine
    ]


def _texts(document: DocumentView) -> dict[tuple[str, int], bytes]:
    pieces = document.pieces_of_cases()
    return {(entry.eval_id, entry.occurrence): pieces[entry.index].data for entry in document.entries}
