"""Edits of a case as data: what is replaced, inserted, removed, moved or renamed, each one step of undo.

An edit is made twice: in the data, to see whether what comes of it can be read, and then in the text of the document.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.model.personas import PERSONAS
from workbench.tui.state.editor.rows import ABSENT, Input, Kind, Place, Row, folded, found_at, spelt, value_at
from workbench.tui.state.spelling import spelling_of


class Document(Protocol):
    """What an edit needs of a document."""

    def set_value(self, place: Place, value: Any, *, case: int | None = None) -> None: ...

    def insert_item(self, place: Place, index: int, value: Any, *, case: int | None = None) -> None: ...

    def remove_value(self, place: Place, *, case: int | None = None) -> None: ...

    def move_item(self, place: Place, source: int, target: int, *, case: int | None = None) -> None: ...

    def rename_key(self, place: Place, key: str, *, case: int | None = None) -> None: ...

    def step(self, label: str) -> AbstractContextManager[None]: ...


class Impossible(Exception):
    """The operation makes no sense on this row; the text says why, for the user."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Replace the value at a place, or add it there."""

    place: Place
    value: Any

    @property
    def goes_to(self) -> Place:
        """Where the user wants to be afterwards."""
        return self.place

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.set_value(self.place, self.value, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data. Raises Impossible."""
        if not self.place:
            return copy.deepcopy(self.value)
        data = copy.deepcopy(data)
        above = data
        *steps, last = spelt(data, self.place)
        try:
            for step in steps:
                if isinstance(above, dict) and above.get(step) is None:
                    above[step] = {}
                above = above[step]
            above[last] = copy.deepcopy(self.value)
        except (LookupError, TypeError) as error:  # typed for an item that is gone, or for something that is text now
            raise Impossible("what this was typed for is no longer in the case") from error
        return data


@dataclass(frozen=True, slots=True)
class InsertItem:
    """Insert a value into the list at a place."""

    place: Place
    index: int
    value: Any

    @property
    def goes_to(self) -> Place:
        """The new item."""
        return (*self.place, self.index)

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.insert_item(self.place, self.index, self.value, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        value_at(data, self.place).insert(self.index, copy.deepcopy(self.value))
        return data


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Remove a member or item."""

    place: Place

    @property
    def goes_to(self) -> Place:
        """What comes after it, else what it was in."""
        return self.place

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.remove_value(self.place, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        place = spelt(data, self.place)
        del value_at(data, place[:-1])[place[-1]]
        return data


@dataclass(frozen=True, slots=True)
class MoveItem:
    """Move an item within its list."""

    place: Place
    source: int
    target: int

    @property
    def goes_to(self) -> Place:
        """Where the item stands afterwards."""
        return (*self.place, self.target)

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.move_item(self.place, self.source, self.target, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        items = value_at(data, self.place)
        items.insert(self.target, items.pop(self.source))
        return data


@dataclass(frozen=True, slots=True)
class RenameKey:
    """Give a member another key; it keeps its place among the others."""

    place: Place
    key: str

    @property
    def goes_to(self) -> Place:
        """The member under its new key."""
        return (*self.place[:-1], self.key)

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        document.rename_key(self.place, self.key, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        data = copy.deepcopy(data)
        held = value_at(data, self.place[:-1])
        members = [(self.key if key == self.place[-1] else key, value) for key, value in held.items()]
        held.clear()
        held.update(members)
        return data


@dataclass(frozen=True, slots=True)
class PutInstead:
    """Add a member in place of another, where a case may have only one of them."""

    old: Place
    new: SetValue

    @property
    def goes_to(self) -> Place:
        """The new member."""
        return self.new.place

    def make(self, document: Document, *, case: int | None) -> None:
        """Make the edit in the text."""
        with document.step(f"{self.new.place[-1]} instead of {self.old[-1]}"):
            self.new.make(document, case=case)
            document.remove_value(self.old, case=case)

    def in_data(self, data: Any) -> Any:
        """What the edit makes of the data."""
        return RemoveValue(self.old).in_data(self.new.in_data(data))


Edit = SetValue | InsertItem | RemoveValue | MoveItem | RenameKey | PutInstead


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a typed value goes: to `place`, or into the list there as the item `index`.

    What is put there is `template` with the typed value at `hole`; without a template it is the value itself. `title`
    says in words what is typed, `instead_of` what goes when it comes. With `choices`, each a value and what it means,
    nothing else can be there, and nothing need be typed.
    """

    place: Place
    title: str
    input: Input
    index: int | None = None
    template: Any = None
    hole: Place | None = None
    instead_of: Place | None = None
    choices: tuple[tuple[str, str], ...] = ()

    def edit(self, value: Any, data: Any) -> SetValue | InsertItem | PutInstead:
        """The edit that puts a typed value where it goes in this data. The first item of a list makes the list."""
        whole = value if self.hole is None else SetValue(self.hole, value).in_data(self.template)
        if self.instead_of is not None and found_at(data, self.instead_of) is not ABSENT:
            return PutInstead(self.instead_of, SetValue(self.place, whole))
        if self.index is None:
            return SetValue(self.place, whole)
        held = value_at(data, self.place)
        if not isinstance(held, list):
            return SetValue(self.place, [whole])
        return InsertItem(self.place, min(self.index, len(held)), whole)


def slot_of(row: Row, data: Any) -> Slot:
    """What enter edits: the value of the row, or the whole of it as JSON where it only holds others."""
    if row.kind is Kind.CONTENT and not _has_text(row):
        parts = spelling_of(row.value, "parts") if isinstance(row.value, dict) else "parts"
        if not isinstance(row.value, dict) or not row.value.get(parts):
            return _slot_of_empty_content(row, parts)
    if row.edits is None:
        return slot_as_json(row, data)
    is_persona = folded(row.edits)[-1:] == ("user_persona",)
    return Slot(place=row.edits, title=row.label, input=row.input, choices=persona_choices() if is_persona else ())


def persona_choices() -> tuple[tuple[str, str], ...]:
    """The personas that a scenario may name."""
    return tuple((name, persona.description) for name, persona in PERSONAS.items())


def slot_as_json(row: Row, data: Any) -> Slot:
    """What is edited as JSON: the arguments of a call, else all that the row stands for."""
    place = row.json
    if value_at(data, place) is None and place:
        place = row.place
    return Slot(place=place, title=f"{row.label} as JSON", input=Input.JSON)


def removal(row: Row) -> RemoveValue:
    """Removing what the row stands for. Raises Impossible."""
    if not row.place:
        raise Impossible("this is the whole case; it is deleted in the list of cases")
    if _is_half_of_a_pair(row):
        raise Impossible("a sub-agent's message has both an author and parts")
    return RemoveValue(row.place)


def move(row: Row, data: Any, *, by: int) -> MoveItem:
    """Moving the row among the items of its list. Raises Impossible."""
    above = value_at(data, row.place[:-1]) if row.place else None
    if not row.is_item or not isinstance(above, list) or _is_half_of_a_pair(row):
        raise Impossible("only items of a list have an order: turns, calls, parts, events, rubrics …")
    source = int(row.place[-1])
    target = source + by
    if not 0 <= target < len(above):
        raise Impossible("it is the first already" if by < 0 else "it is the last already")
    return MoveItem(row.place[:-1], source, target)


def copy_of_item(row: Row, data: Any) -> InsertItem:
    """A copy of an item after it; of ids that must differ the copy gets another. Raises Impossible."""
    if not row.is_item or _is_half_of_a_pair(row):
        raise Impossible("only items of a list, and keys of your own, can be duplicated")
    value = copy.deepcopy(value_at(data, row.place))
    if row.kind is Kind.RUBRIC and isinstance(value, dict):
        key = spelling_of(value, "rubric_id")
        value[key] = other_rubric_id(str(value.get(key, "rubric")), value_at(data, row.place[:-1]))
    return InsertItem(row.place[:-1], int(row.place[-1]) + 1, value)


def copy_under_key(row: Row, data: Any, key: str) -> SetValue:
    """A copy of a member of the user's under another key."""
    return SetValue((*row.place[:-1], key), copy.deepcopy(value_at(data, row.place)))


def problem_of_key(key: str, data: Any, place: Place) -> str | None:
    """What keeps the object at a place from getting a member of this key; None where nothing does."""
    held = value_at(data, place)
    if not key:
        return "expected a name"
    return f"there is {key!r} already" if isinstance(held, dict) and key in held else None


def other_rubric_id(rubric_id: str, rubrics: Any) -> str:
    """An id like this one that no rubric of a list has."""
    known = {value_at(rubric, ("rubric_id",)) for rubric in rubrics} if isinstance(rubrics, list) else set()
    number = 2
    while f"{rubric_id}_{number}" in known:
        number += 1
    return f"{rubric_id}_{number}" if rubric_id in known else rubric_id


def _has_text(row: Row) -> bool:
    return row.edits is not None and row.input is Input.TEXT


def _slot_of_empty_content(row: Row, parts: str) -> Slot:
    """A message that is not there yet, or has no parts, gets one of text."""
    if isinstance(row.value, dict):
        return Slot(
            place=(*row.place, parts), title=row.label, input=Input.TEXT, template=[{"text": ""}], hole=(0, "text")
        )
    role = "user" if row.label == "user" else "model"
    template = {"parts": [{"text": ""}], "role": role}
    return Slot(place=row.place, title=row.label, input=Input.TEXT, template=template, hole=("parts", 0, "text"))


def _is_half_of_a_pair(row: Row) -> bool:
    """Whether the row is the author, or the parts, of a pair that the format writes as a list."""
    return len(row.place) > 2 and row.place[-3] in ("intermediate_responses", "intermediateResponses")
