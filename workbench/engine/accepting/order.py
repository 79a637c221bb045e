"""Where the items of a list go when some of them leave, move or come: shared by calls, responses and what was said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.report.differences import Pair
from workbench.store.documents import EvalSetDocument, Place

_FEW = 16
"""Edits of a list that are made one by one, each keeping the text of the item; more are made at once, for speed."""


@dataclass(frozen=True, slots=True)
class New:
    """An item that the list does not have yet: the one at this position of the actual side."""

    actual: int


Key = int | New
"""An item of a list that is changed: its position before, or the position on the other side that it comes from."""


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A list after the change: `order` holds all its items; `floating` are those that moved or came."""

    order: Sequence[Key]
    floating: frozenset[Key]


def rearranged(
    rows: Sequence[Pair],
    *,
    leaving: Collection[int] = (),
    moving: Mapping[int, int] | None = None,
    coming: Iterable[int] = (),
) -> Rearrangement:
    """The expected items in the order of the rows, after some have left, or moved to where they were made, or come.

    `moving` leads from expected positions to actual ones; `coming` are actual positions.
    """
    moving = moving or {}
    row_of_actual = {row.actual: number for number, row in enumerate(rows) if row.actual is not None}
    places: list[tuple[int, Key]] = [(row_of_actual[actual], New(actual)) for actual in coming]
    floating = frozenset[Key]([*moving, *(key for _, key in places)])
    for number, row in enumerate(rows):
        if row.expected is not None and row.expected not in leaving:
            target = moving.get(row.expected)
            places.append((number if target is None else row_of_actual[target], row.expected))
    return Rearrangement([key for _, key in sorted(places, key=lambda place: place[0])], floating)


def settled(staying: Sequence[Key], order: Sequence[Key], floating: Collection[Key]) -> list[Key]:
    """A list in which each floating item stands behind the one that precedes it in `order`, else before the next."""
    result = list(staying)
    for position, key in enumerate(order):
        if key in floating:
            result.insert(_place_for(position, order, result), key)
    return result


def write_list(
    document: EvalSetDocument,
    case: int,
    place: Place,
    *,
    items: Sequence[Any],
    arrangement: Rearrangement,
    new: Mapping[Key, Any],
) -> None:
    """Give the list at a place, which has `items`, another order; what stays where it is keeps its text."""
    order = arrangement.order
    leaving = [index for index in range(len(items)) if index not in set(order)]
    if not leaving and not arrangement.floating:
        return
    if not items or len(leaving) + len(arrangement.floating) > _FEW:
        document.set_value(place, [items[key] if isinstance(key, int) else new[key] for key in order], case=case)
        return
    for index in reversed(leaving):
        document.remove_value((*place, index), case=case)
    current: list[Key] = [index for index in range(len(items)) if index not in leaving]
    for position, key in enumerate(order):
        if key not in arrangement.floating:
            continue
        if isinstance(key, New):
            target = _place_for(position, order, current, ignoring=arrangement.floating)
            document.insert_item(place, target, new[key], case=case)
        else:
            source = current.index(key)
            current.pop(source)
            target = _place_for(position, order, current, ignoring=arrangement.floating)
            if source != target:
                document.move_item(place, source, target, case=case)
        current.insert(target, key)


def _place_for(position: int, order: Sequence[Key], present: Sequence[Key], *, ignoring: Collection[Key] = ()) -> int:
    """Where the item at `position` of the order belongs among those present.

    Behind the nearest one before it; there being none, before the nearest one after it that is not to be ignored (since
    it will itself be moved); else at the end.
    """
    there = {key: index for index, key in enumerate(present)}
    before = next((there[key] for key in reversed(order[:position]) if key in there), None)
    if before is not None:
        return before + 1
    after = next((there[key] for key in order[position + 1 :] if key in there and key not in ignoring), None)
    return len(present) if after is None else after
