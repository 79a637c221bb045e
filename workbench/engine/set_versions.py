"""Two versions of an eval set side by side: the one that is edited here, and the one that is on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.engine.merging import Merge, merge
from workbench.store.documents import CaseDifference, EvalSetDocument, differing_cases
from workbench.store.errors import StoreError

MOST_PARTS = 200
"""How many parts that differ are held side by side; the others are only named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionPart:
    """A part of the file that differs, as text; None where a version does not have it."""

    title: str
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """`theirs` is the content of the file on disk, None where there is none.

    `differences` are the cases that differ, None where theirs is no eval set, which `problem` then explains. `parts`
    are the first of what differs, the whole file where theirs is no eval set. `merge` says who did what, None where it
    is not known what both began from.
    """

    ours: bytes
    theirs: bytes | None
    differences: tuple[CaseDifference, ...] | None
    parts: tuple[VersionPart, ...]
    merge: Merge | None = None
    problem: str = ""


def compare_versions(ours: EvalSetDocument, theirs: bytes | None) -> Versions:
    """Compare a document with the content of its file."""
    content = ours.content()
    if theirs is None:
        return Versions(ours=content, theirs=None, differences=None, parts=(), problem="there is no such file any more")
    try:
        other = EvalSetDocument(ours.path, theirs, None)
    except StoreError as error:
        whole = VersionPart(
            title="the whole file", ours=content.decode(), theirs=theirs.decode("utf-8", errors="replace")
        )
        return Versions(ours=content, theirs=theirs, differences=None, parts=(whole,), problem=str(error))
    differences = tuple(differing_cases(ours, other))
    parts = (*_around_cases(ours, other), *_cases(ours, other, differences))[:MOST_PARTS]
    base = ours.as_saved() if ours.dirty else None
    merged = merge(base, ours, other) if base is not None else None
    return Versions(ours=content, theirs=theirs, differences=differences, parts=parts, merge=merged)


def _around_cases(ours: EvalSetDocument, theirs: EvalSetDocument) -> Iterator[VersionPart]:
    mine, other = ours.text_around_cases(), theirs.text_around_cases()
    if mine != other:
        yield VersionPart(title="the eval set itself", ours=mine, theirs=other)


def _cases(
    ours: EvalSetDocument, theirs: EvalSetDocument, differences: tuple[CaseDifference, ...]
) -> Iterator[VersionPart]:
    mine, other = _indices(ours), _indices(theirs)
    for difference in differences[:MOST_PARTS]:
        if difference.how != "moved":
            key = difference.eval_id, difference.occurrence
            yield VersionPart(
                title=difference.eval_id,
                ours=ours.case_text(mine[key]) if key in mine else None,
                theirs=theirs.case_text(other[key]) if key in other else None,
            )


def _indices(document: EvalSetDocument) -> dict[tuple[str, int], int]:
    return {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
