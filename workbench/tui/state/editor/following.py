"""Where a place of a case is after an edit: items move up and down, keys get other names."""

from __future__ import annotations

from collections.abc import Callable

from workbench.tui.state.editor.operations import Edit, InsertItem, MoveItem, RemoveValue, RenameKey
from workbench.tui.state.editor.rows import Place, folded


def followed(place: Place, edit: Edit) -> Place:
    """The place of the same value after an edit; where the value is gone, the place stays."""
    match edit:
        case InsertItem(place=above, index=at):
            return _with_index(place, above, lambda index: index + (index >= at))
        case RemoveValue(place=(*above, int(at))):
            return _with_index(place, tuple(above), lambda index: index - (index > at))
        case MoveItem(place=above, source=source, target=target):
            return _with_index(place, above, lambda index: _moved(index, source, target))
        case RenameKey(place=old, key=key) if _is_in(place, old):
            return (*place[: len(old) - 1], key, *place[len(old) :])
        case _:
            return place


def _with_index(place: Place, above: Place, of: Callable[[int], int]) -> Place:
    """The place with its index in the list at `above` changed, where it is in that list."""
    depth = len(above)
    if len(place) <= depth or not _is_in(place, above):
        return place
    index = place[depth]
    return (*place[:depth], of(index), *place[depth + 1 :]) if isinstance(index, int) else place


def _moved(index: int, source: int, target: int) -> int:
    if index == source:
        return target
    if source < index <= target:
        return index - 1
    return index + 1 if target <= index < source else index


def _is_in(place: Place, above: Place) -> bool:
    return folded(place)[: len(above)] == folded(above)
