"""What the editor has open: a case, or what a set says of itself, as it is in the document now."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.model.keys import CaseKey
from workbench.tui.state.editor.operations import Edit
from workbench.tui.state.editor.rows import Place, Row


@dataclass(frozen=True, slots=True)
class Edited:
    """What is edited: a case of a set or, without one, the set itself."""

    eval_set: str
    case: CaseKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A case or set, read and laid out in rows.

    `index` is that of the case in its document, None for the set itself. `revision` tells whether the document has
    changed since. `problem` says what is wrong with it, `note` what is to be known about it, `read_only` why it cannot
    be edited; each may be empty.
    """

    edited: Edited
    index: int | None
    data: Any
    rows: Sequence[Row]
    revision: int
    is_changed: bool
    problem: str = ""
    note: str = ""
    read_only: str = ""


def changed_places(old: Any, new: Any) -> frozenset[Place]:
    """Where new data differs from old: values that are other or new, and what something was removed from."""
    return frozenset(_differences(old, new, ()))


def became(opened: Opened, edit: Edit) -> Edited:
    """What is edited after an edit: the same case, by another id where that was changed."""
    case = opened.edited.case
    if case is None or not isinstance(opened.data, dict):
        return opened.edited
    id_key = next((key for key in ("eval_id", "evalId") if key in opened.data), "name")
    if edit.goes_to != (id_key,):
        return opened.edited
    new = edit.in_data(opened.data).get(id_key)
    if not isinstance(new, str) or new == case.eval_id:
        return opened.edited
    key = CaseKey(target=case.target, eval_set=case.eval_set, eval_id=new, occurrence=0)
    return Edited(opened.edited.eval_set, key)


def _differences(old: Any, new: Any, place: Place) -> Iterator[Place]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            if key not in old:
                yield (*place, key)
            else:
                yield from _differences(old[key], value, (*place, key))
        if any(key not in new for key in old):
            yield from _removed_from(place, new)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _differences_of_lists(old, new, place)
    elif type(old) is not type(new) or old != new:
        yield place


def _differences_of_lists(old: list[Any], new: list[Any], place: Place) -> Iterator[Place]:
    """Items are paired by what they are, so that one that was inserted does not make all after it look changed."""
    if old == new:
        return
    before, after = [json.dumps(item) for item in old], [json.dumps(item) for item in new]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "delete":
            yield from _removed_from(place, new)
        elif tag != "equal":
            for offset in range(new_end - new_start):
                here = (*place, new_start + offset)
                if old_start + offset < old_end:
                    yield from _differences(old[old_start + offset], new[new_start + offset], here)
                else:
                    yield here


def _removed_from(place: Place, left: Any) -> Iterator[Place]:
    """What is left marks that something is gone only where it is empty: else its rows would all look changed."""
    if not left:
        yield place
