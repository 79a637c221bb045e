"""Merging edits with what became of their file meanwhile, where the two are about different cases.

The changes of one side are made again, case by case, on the other side. That they are all of them is proved by making
them on what both began from first: only where that gives the one side byte for byte, nothing of it can be lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.store.documents import CaseDifference, EvalSetDocument, differing_cases
from workbench.store.errors import StoreError

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What each side did to what both began from, and both in one.

    In the differences "only in ours" is a case that the side added, "only in theirs" one that it removed. `in_both` are
    the ids of the cases that both sides changed, each in its own way. `content` is None where there is no telling what
    the file would have to be.
    """

    ours: tuple[CaseDifference, ...]
    theirs: tuple[CaseDifference, ...]
    in_both: tuple[str, ...]
    content: bytes | None


def merge(base: EvalSetDocument, ours: EvalSetDocument, theirs: EvalSetDocument) -> Merge:
    """Merge two versions of an eval set that both began from `base`."""
    mine, other = differing_cases(ours, base), differing_cases(theirs, base)
    texts = [_texts(document) for document in (ours, theirs)]
    changed_by_others = {_key(item) for item in other}
    in_both = tuple(
        item.eval_id
        for item in mine
        if _key(item) in changed_by_others and texts[0].get(_key(item)) != texts[1].get(_key(item))
    )
    content = None
    if not in_both and not any(item.occurrence for item in (*mine, *other)):  # the second of an id may become the first
        content = _made_again(mine, ours, base, theirs) or _made_again(other, theirs, base, ours)
    return Merge(ours=tuple(mine), theirs=tuple(other), in_both=in_both, content=content)


def _made_again(
    changes: list[CaseDifference], side: EvalSetDocument, base: EvalSetDocument, onto: EvalSetDocument
) -> bytes | None:
    """The changes of a side, made on another document; None where case by case they are not all that the side did."""
    try:
        if _with(changes, side, base) != side.content():
            return None
        return _with(changes, side, onto)
    except StoreError:  # something in the text around a case leaves no safe place for it
        return None


def _with(changes: list[CaseDifference], side: EvalSetDocument, onto: EvalSetDocument) -> bytes:
    document = EvalSetDocument(onto.path, onto.content(), None)
    texts = _texts(side)
    places = _places(document)
    gone = []
    for change in changes:
        key = _key(change)
        if change.how == "changed":
            document.set_case_text(places[key], texts[key])
        elif change.how == "only in theirs" and key in places:
            gone.append(places[key])
    if gone:
        document.remove_cases(gone)
    order = list(texts)
    for change in changes:
        key = _key(change)
        if change.how == "only in ours" and key not in _places(document):
            _insert(document, side, key, after=order[: order.index(key)])
    return document.content()


def _insert(document: EvalSetDocument, side: EvalSetDocument, key: _Key, *, after: list[_Key]) -> None:
    """Insert a case of a side after the nearest of those before it that the document has."""
    places = _places(document)
    index = next((places[before] + 1 for before in reversed(after) if before in places), 0)
    source = _places(side)[key]
    document.insert_case(index, side.raw_case(source))
    document.set_case_text(index, side.case_text(source))


def _texts(document: EvalSetDocument) -> dict[_Key, str]:
    return {key: document.case_text(index) for key, index in _places(document).items()}


def _places(document: EvalSetDocument) -> dict[_Key, int]:
    return {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}


def _key(difference: CaseDifference) -> _Key:
    return difference.eval_id, difference.occurrence
