"""The state of the case editor: the open case, the cursor, and typed text that is not applied yet."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn

from workbench.model.identity import CaseKey
from workbench.model.text import is_valid_utf8, neutralise, one_line
from workbench.tui.state.call_line import NAME_KEYS, InvalidCall, format_call, parse_call, read_call
from workbench.tui.state.case_edits import (
    Addition,
    Edit,
    InsertItem,
    MoveItem,
    RemoveValue,
    RenameKey,
    SetValue,
    Slot,
    add_ghost_rows,
    add_typing_row,
    find_ghost_addition,
    find_typing_row,
    list_additions,
    list_set_additions,
)
from workbench.tui.state.case_outline import (
    ABSENT,
    Input,
    OutlineKind,
    OutlineRow,
    Place,
    find_value,
    get_value,
    normalize_place,
    spell_place,
)
from workbench.tui.state.outline_view import OutlineView

# Typed text and its value: which types a value may have, and error messages for text that is no such value.

MOST_TYPED = 20_000
"""Maximum characters for the text field, which is slow with more. The user edits longer texts in $EDITOR."""


class TextForm(StrEnum):
    """How typed text is read."""

    TEXT = "text"
    NUMBER = "number"
    TRUTH = "true or false"
    NULL = "null"
    JSON = "JSON"
    CALL = "call"


_FORMS = {
    Input.LINE: (TextForm.TEXT, TextForm.JSON),
    Input.CALL: (TextForm.CALL,),
    Input.TEXT: (TextForm.TEXT, TextForm.JSON),
    Input.NUMBER: (TextForm.NUMBER,),
    Input.VALUE: (TextForm.TEXT, TextForm.NUMBER, TextForm.TRUTH, TextForm.NULL, TextForm.JSON),
    Input.JSON: (TextForm.JSON,),
}

_EXPECTED = {
    "Expecting value": "a value",
    "Extra data": "nothing after the value",
    "Expecting ',' delimiter": "a comma or the closing bracket",
    "Expecting ':' delimiter": "a colon after the key",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Illegal trailing comma before end of object": "a key in double quotes",
    "Illegal trailing comma before end of array": "a value",
    "Unterminated string starting at": "a closing quote",
    "Invalid control character at": "no raw control character in a text; a line break is written \\n",
}
"""The expectations behind the messages of the standard library's JSON decoder."""


class Invalid(Exception):
    """The typed text is not a valid value for its slot. The message says where and why."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Text that was typed for a slot and is not applied yet.

    `original` is the value of the slot when typing began, ABSENT for a new value.
    """

    slot: Slot
    form: TextForm
    text: str
    original: Any

    @classmethod
    def begin(cls, slot: Slot, value: Any) -> Draft:
        """Return the draft for a value before anything is typed. It is empty if the value is ABSENT."""
        form = _choose_form(value, slot.input)
        return cls(slot, form, format_value(value, form), value)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was typed, so that discarding the draft loses nothing."""
        begun = Draft.begin(self.slot, self.original)
        return (self.text, self.form) == (begun.text, begun.form)

    @property
    def is_new(self) -> bool:
        """Whether applying the draft adds a value, even if nothing was typed."""
        return self.original is ABSENT

    @property
    def is_one_line(self) -> bool:
        """Whether the value has one line."""
        if self.form is TextForm.JSON:
            return self.slot.input is Input.LINE
        if self.form is TextForm.TEXT:
            return self.slot.input is not Input.TEXT and "\n" not in self.text
        return True

    @property
    def is_too_long(self) -> bool:
        """Whether the text is too long for the text field."""
        return len(self.text) > MOST_TYPED

    @property
    def problem(self) -> str | None:
        """The error in the text itself, without a look at the case; None if there is no error."""
        try:
            self.value()
        except Invalid as invalid:
            return str(invalid)
        return None

    def with_text(self, text: str) -> Draft:
        return replace(self, text=text)

    def next_form(self) -> Draft:
        """Return the draft with the next type that the slot allows. The text is converted if possible."""
        forms = _FORMS[self.slot.input]
        form = forms[(forms.index(self.form) + 1) % len(forms)]
        return replace(self, form=form, text=_convert_text(self.text, self.form, form))

    def value(self) -> Any:
        """Return the typed value. Raises Invalid."""
        value = read(self.text, self.form)
        if self.slot.input in (Input.LINE, Input.TEXT) and not isinstance(value, str):
            raise Invalid('expected a text, in quotes: "…"')
        if self.slot.input is Input.LINE and "\n" in value and self.form is TextForm.TEXT:
            raise Invalid("expected one line")
        return value


def read(text: str, form: TextForm) -> Any:
    """Parse a text as a value. Raises Invalid."""
    match form:
        case TextForm.TEXT:
            return text
        case TextForm.NUMBER:
            return _number(text)
        case TextForm.TRUTH:
            if text.strip() not in ("true", "false"):
                raise Invalid(f"found {_quote(text)}, expected true or false")
            return text.strip() == "true"
        case TextForm.NULL:
            if text.strip() not in ("", "null"):
                raise Invalid(f"found {_quote(text)}, expected null")
            return None
        case TextForm.JSON:
            return _json(text)
        case TextForm.CALL:
            try:
                return parse_call(text)
            except InvalidCall as error:
                raise Invalid(str(error)) from error


def format_value(value: Any, form: TextForm) -> str:
    if value is ABSENT:
        return ""
    if form is TextForm.TEXT:
        return value if isinstance(value, str) else ""
    if form is TextForm.CALL:
        call = read_call(value)
        return "" if call is None else format_call(call.name, call.arguments or {})
    if form is TextForm.JSON or not isinstance(value, str):
        return json_text(value)
    return value


def json_text(value: Any) -> str:
    """Return indented JSON to read and edit. Control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if neutralise(text) == text else json.dumps(value, indent=2)


def is_plain(text: str) -> bool:
    """Whether a text field keeps a text unchanged: it has no control characters except tabs and line feeds."""
    return "\r" not in text and neutralise(text) == text


def _choose_form(value: Any, input: Input) -> TextForm:
    if input is Input.JSON:
        return TextForm.JSON
    if input is Input.NUMBER:
        return TextForm.NUMBER
    if input is Input.CALL:
        return TextForm.CALL
    if isinstance(value, str):
        return TextForm.TEXT if is_plain(value) and (input is not Input.LINE or "\n" not in value) else TextForm.JSON
    if value is None:
        return TextForm.NULL
    if isinstance(value, bool):
        return TextForm.TRUTH
    if isinstance(value, int | float):
        return TextForm.NUMBER
    return TextForm.TEXT if value is ABSENT else TextForm.JSON


def _convert_text(text: str, old: TextForm, new: TextForm) -> str:
    """Convert a text to another type; return it unchanged if its value is not of that type."""
    try:
        value = read(text, old)
    except Invalid:
        return text
    if new is TextForm.JSON:
        return json_text(value)
    if new is TextForm.TEXT and isinstance(value, str):
        return value if is_plain(value) else text
    if new is TextForm.NULL:
        return text if text.strip() else "null"
    return text


def _number(text: str) -> int | float:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"found {_quote(text)}, expected a number such as 3 or -0.5")
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_reject_duplicate_keys)
    except json.JSONDecodeError as error:
        raise Invalid(f"line {error.lineno}, column {error.colno}: {_describe_error(error)}") from error
    except RecursionError as error:
        raise Invalid("the JSON is nested too deeply") from error


def _reject_constant(name: str) -> NoReturn:
    raise Invalid(f"found {name}, expected a JSON number")


def _reject_duplicate_keys(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in members:
        if key in found:
            raise Invalid(f"duplicate key {_quote(key)} in an object; make it unique")
        found[key] = value
    return found


def _describe_error(error: json.JSONDecodeError) -> str:
    found = error.doc[error.pos : error.pos + 1]
    expected = _EXPECTED.get(error.msg, error.msg)
    return f"found {_quote(found) if found else 'the end'}, expected {expected}"


def _quote(text: str) -> str:
    return f'"{one_line(text, width=30)}"' if text.strip() else "nothing"


# How an edit changes places: it moves items up and down, and renames keys.


def follow_place(place: Place, edit: Edit) -> Place:
    """Return the place of the same value after an edit; the same place if the edit removed the value."""
    match edit:
        case InsertItem(place=above, index=at):
            return _with_index(place, above, lambda index: index + (index >= at))
        case RemoveValue(place=(*above, int(at))):
            return _with_index(place, tuple(above), lambda index: index - (index > at))
        case MoveItem(place=above, source=source, target=target):
            return _with_index(place, above, lambda index: _move_index(index, source, target))
        case RenameKey(place=old, key=key) if _starts_with(place, old):
            return (*place[: len(old) - 1], key, *place[len(old) :])
        case _:
            return place


def _with_index(place: Place, above: Place, of: Callable[[int], int]) -> Place:
    """Change the index in the list at `above`, if the place is in that list."""
    depth = len(above)
    if len(place) <= depth or not _starts_with(place, above):
        return place
    index = place[depth]
    return (*place[:depth], of(index), *place[depth + 1 :]) if isinstance(index, int) else place


def _move_index(index: int, source: int, target: int) -> int:
    if index == source:
        return target
    if source < index <= target:
        return index - 1
    return index + 1 if target <= index < source else index


def _starts_with(place: Place, above: Place) -> bool:
    return normalize_place(place)[: len(above)] == normalize_place(above)


# The open case or set, in the current state of its document.


@dataclass(frozen=True, slots=True)
class Edited:
    """The edited case, or the eval set itself if `case` is None."""

    eval_set: str
    case: CaseKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDocument:
    """A case or set with its rows.

    `index` is the position of the case in its document, None for the set itself. A new `revision` of the document means
    that it may have changed. `problem` is an error in the data, `note` a remark, `read_only` the reason against edits;
    each may be empty.
    """

    edited: Edited
    index: int | None
    data: Any
    rows: Sequence[OutlineRow]
    revision: int
    is_changed: bool
    problem: str = ""
    note: str = ""
    read_only: str = ""


def changed_places(old: Any, new: Any) -> frozenset[Place]:
    """Return the places that differ in new data: changed and added values, and objects or lists left empty."""
    return frozenset(_differences(old, new, ()))


def find_edited(opened: OpenedDocument, edit: Edit) -> Edited:
    """Return the edited case after an edit, with the new id if the edit changed the id."""
    case = opened.edited.case
    if case is None or not isinstance(opened.data, dict):
        return opened.edited
    id_key = next((key for key in ("eval_id", "evalId") if key in opened.data), "name")
    if edit.cursor_place != (id_key,):
        return opened.edited
    match edit:
        case SetValue(value=new):
            pass
        case RenameKey(place=place):
            new = get_value(opened.data, place)
        case _:
            return opened.edited
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
            yield from _mark_if_empty(place, new)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _differences_of_lists(old, new, place)
    elif type(old) is not type(new) or old != new:
        yield place


def _differences_of_lists(old: list[Any], new: list[Any], place: Place) -> Iterator[Place]:
    """Compare items by content, so that an inserted item does not mark all later items as changed."""
    if old == new:
        return
    before, after = [json.dumps(item) for item in old], [json.dumps(item) for item in new]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "delete":
            yield from _mark_if_empty(place, new)
        elif tag != "equal":
            for offset in range(new_end - new_start):
                here = (*place, new_start + offset)
                if old_start + offset < old_end:
                    yield from _differences(old[old_start + offset], new[new_start + offset], here)
                else:
                    yield here


def _mark_if_empty(place: Place, left: Any) -> Iterator[Place]:
    """Yield the place of an object or list only if a removal left it empty; else all its rows would be marked."""
    if not left:
        yield place


# Drafts of all cases, until they are applied or discarded.

_Key = tuple[Place, bool, str]


class Drafts:
    """All drafts of a session, by case or set."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._drafts: dict[Edited, dict[_Key, Draft]] = {}
        self._on_change = on_change

    def keep(self, edited: Edited, draft: Draft) -> None:
        """Store a draft. An untouched draft is dropped."""
        if draft.is_untouched:
            self.drop(edited, draft.slot)
        else:
            self._drafts.setdefault(edited, {})[_key(draft.slot)] = draft
            self._on_change()

    def drop(self, edited: Edited, slot: Slot) -> None:
        kept = self._drafts.get(edited, {})
        kept.pop(_key(slot), None)
        if not kept:
            self._drafts.pop(edited, None)
        self._on_change()

    def get(self, edited: Edited, slot: Slot) -> Draft | None:
        """Return the draft of a slot, None if it has no draft."""
        return self._drafts.get(edited, {}).get(_key(slot))

    def follow_id(self, old: Edited, new: Edited) -> None:
        """Move the drafts of a case to its new id."""
        if old in self._drafts:
            self._drafts[new] = self._drafts.pop(old)
            self._on_change()

    def follow_edit(self, edited: Edited, edit: Edit) -> None:
        """Move drafts with their values when an edit moves the values."""
        kept = self._drafts.pop(edited, {})
        for draft in kept.values():
            slot = replace(draft.slot, place=follow_place(draft.slot.place, edit))
            self._drafts.setdefault(edited, {})[_key(slot)] = replace(draft, slot=slot)
            self._on_change()

    @property
    def all(self) -> Sequence[tuple[Edited, Draft]]:
        """Every draft with its case or set."""
        return [(edited, draft) for edited, kept in self._drafts.items() for draft in kept.values()]

    def count(self, edited: Edited) -> int:
        """Return the number of drafts of a case or set."""
        return len(self._drafts.get(edited, {}))

    def list_drafts(self, edited: Edited) -> Sequence[Draft]:
        return list(self._drafts.get(edited, {}).values())


def _key(slot: Slot) -> _Key:
    return normalize_place(slot.place), slot.index is not None, slot.title


def describe_drafts(drafts: Sequence[tuple[Edited, Draft]]) -> str:
    """Name the case and title of the first draft, and count the others."""
    edited, draft = drafts[0]
    more = f" and {len(drafts) - 1:,} more" if len(drafts) > 1 else ""
    return f"{edited.case.eval_id if edited.case is not None else edited.eval_set}: {draft.slot.title}{more}"


# The editor: one open case, its cursor, and the draft that is being typed.

_SHOWN = 40  # characters of a replaced value in a message


class CaseEditor:
    """Edits one case or set at a time, and keeps the drafts of all."""

    def __init__(self) -> None:
        self.view = OutlineView()
        self.opened: OpenedDocument | None = None
        self._typing: Draft | None = None
        self._drafts = Drafts(self._note_change)
        self.on_drafts_changed: Callable[[], None] = lambda: None
        self._saved: dict[Edited, Any] = {}  # of what has unsaved edits: the data before them
        self._goes_to: Place | None = None
        self._goes_on = False  # from there to the next value to write
        self._rows: tuple[Sequence[OutlineRow], Sequence[OutlineRow]] = (
            (),
            (),
        )  # those of the case, and with its ghost rows
        self._typing_row: OutlineRow | None = None

    @property
    def typing(self) -> Draft | None:
        return self._typing

    @typing.setter
    def typing(self, draft: Draft | None) -> None:
        self._typing = draft
        self._note_change()

    def _note_change(self) -> None:
        self.on_drafts_changed()

    @property
    def row(self) -> OutlineRow | None:
        return self.view.row if self.opened is not None else None

    @property
    def notes(self) -> Sequence[str]:
        """The remarks about the open case or set."""
        if self.opened is None:
            return ()
        notes = [self.opened.problem and f"! {self.opened.problem}", self.opened.note, self.opened.read_only]
        if count := self._drafts.count(self.opened.edited):
            notes.append(f"~ {count} typed, not applied: enter continues it")
        return [note for note in notes if note]

    def open(self, opened: OpenedDocument) -> None:
        """Show a case, or the new state of the open one. The draft that is being typed stays."""
        if self.opened is None or self.opened.edited != opened.edited:
            self.close()
        if not opened.is_changed:
            self._saved[opened.edited] = opened.data
        self.opened = opened
        if opened.rows is not self._rows[0]:
            can_add = opened.index is not None and not opened.read_only
            self._rows = opened.rows, add_ghost_rows(opened.rows, opened.data) if can_add else opened.rows
        self._show_rows()
        if self._goes_to is not None:
            self.view.select(_nearest(opened.data, spell_place(opened.data, self._goes_to)))
            self._goes_to = None
            if self._goes_on:
                self.view.go_on()

    def close(self) -> None:
        """Close the case. The text that is being typed is kept as a draft."""
        self.stop_typing()
        if self.opened is not None and not self.opened.is_changed:
            self._saved.pop(self.opened.edited, None)
        self.opened = None
        self.view.forget()

    def begin(self, slot: Slot) -> Draft:
        """Begin to type, or continue the draft of the slot."""
        if self.opened is None:
            raise RuntimeError("nothing is open to be edited")
        self.stop_typing()
        draft = self.typing = self._make_draft(self.opened, slot)
        self._show_rows()
        if self._typing_row is not None:
            self.view.select(self._typing_row.place)
        return draft

    @property
    def typing_place(self) -> Place | None:
        """The place of the row in which the value is typed; None if it has no row."""
        return self._typing_row.place if self._typing_row is not None else None

    def _make_draft(self, opened: OpenedDocument, slot: Slot) -> Draft:
        """Return the draft of a slot, or a new one of its current value."""
        return self._drafts.get(opened.edited, slot) or Draft.begin(slot, _get_slot_value(slot, opened.data))

    def _show_rows(self) -> None:
        """Show the rows of the case. A new value that is typed has a row before it is in the case."""
        if self.opened is None:
            return
        rows, self._typing_row = self._rows[1], None
        if self._typing is not None:
            slot = self._typing.slot
            self._typing_row = find_typing_row(rows, slot, self.opened.data)
            if self._typing_row is None and self._typing.is_new and slot.input is not Input.JSON:
                rows, self._typing_row = add_typing_row(rows, slot)
        self.view.show(rows)
        self._mark(self.opened)

    def set_text(self, text: str) -> Draft | None:
        """Change the text of the draft that is being typed, and return the draft."""
        if self.typing is not None:
            self.typing = self.typing.with_text(text)
        return self.typing

    def next_form(self) -> None:
        """Change the type of the value that is being typed."""
        if self.typing is not None:
            self.typing = self.typing.next_form()

    def restore(self) -> None:
        """Discard the typed text and begin again from the current value."""
        if self.typing is not None and self.opened is not None:
            slot, self.typing = self.typing.slot, None
            self._drafts.drop(self.opened.edited, slot)
            self.begin(slot)

    def keep_draft(self, edited: Edited, draft: Draft) -> None:
        """Keep a draft that was typed in another editor, for a case that need not be open any more."""
        self._drafts.keep(edited, draft)
        self._show_rows()

    def keep_recovered(self, drafts: Iterable[tuple[Edited, Draft]]) -> None:
        """Keep drafts of an earlier session. If two have the same slot, the later one is kept."""
        for edited, draft in drafts:
            self._drafts.keep(edited, draft)
        if self.opened is not None:
            self._mark(self.opened)

    def stop_typing(self) -> bool:
        """Stop typing and keep the draft. Return whether something was typed."""
        if self.typing is None or self.opened is None:
            return False
        draft, self.typing = self.typing, None
        self._drafts.keep(self.opened.edited, draft)
        self._show_rows()
        return not draft.is_untouched

    def record_edit(self, edited: Edited, slot: Slot | None, edit: Edit, *, now: Edited) -> None:
        """Update drafts and cursor after an edit of a case, which need not be open any more.

        `slot` is that of the applied draft. `now` is the edited case with its new id, if the edit changed the id.
        """
        is_open = self.opened is not None and self.opened.edited == edited
        if slot is not None:
            self._drafts.drop(edited, slot)
            if is_open and self.typing is not None and self.typing.slot == slot:
                self.typing = None
        if is_open:
            self._goes_to, self._goes_on = edit.cursor_place, slot is not None
        self._drafts.follow_edit(edited, edit)
        if now != edited:
            self._drafts.follow_id(edited, now)
            if edited in self._saved:
                self._saved[now] = self._saved.pop(edited)

    @property
    def was_changed_meanwhile(self) -> bool:
        """Whether the value in the case has changed since typing began."""
        draft = self.typing
        if draft is None or self.opened is None:
            return False
        return bool(_get_slot_value(draft.slot, self.opened.data) != draft.original)

    def describe_replaced(self, draft: Draft) -> str:
        """Describe the value that the draft would replace; empty if it is the original."""
        value = ABSENT if self.opened is None else _get_slot_value(draft.slot, self.opened.data)
        if value is ABSENT or value == draft.original:
            return ""
        return one_line(json_text(value), width=_SHOWN)

    def confirm_replacing(self, draft: Draft) -> None:
        """Take the current value as the original: the user knows that the draft replaces it."""
        if self.typing == draft and self.opened is not None:
            self.typing = replace(draft, original=_get_slot_value(draft.slot, self.opened.data))

    @property
    def unapplied_drafts(self) -> Sequence[tuple[Edited, Draft]]:
        """All drafts, including the one that is being typed."""
        typing = self.typing
        if typing is None or typing.is_untouched or self.opened is None:
            return self._drafts.all
        edited = self.opened.edited
        others = [item for item in self._drafts.all if item != (edited, self._drafts.get(edited, typing.slot))]
        return [*others, (edited, typing)]

    def list_drafts(self, slot: Slot) -> Sequence[Draft]:
        """Return the other drafts of the selected row, besides this slot's: additions, and its value as JSON."""
        if self.opened is None:
            return ()
        edited, own = self.opened.edited, self._drafts.get(self.opened.edited, slot)
        selected = self.view.selected_index
        return [
            draft for draft in self._drafts.list_drafts(edited) if draft != own and self._find_row(draft) == selected
        ]

    def list_additions(self) -> Sequence[Addition]:
        """Return what can be added at the cursor."""
        if self.opened is None:
            return ()
        if self.opened.index is None:
            return list_set_additions(self.opened.data) if self.opened.rows else ()
        before = sum(row.kind is not OutlineKind.GHOST for row in self.view.rows[: self.view.selected_index + 1])
        return list_additions(self.opened.rows, max(before - 1, 0), self.opened.data)

    def find_ghost_addition(self) -> Addition | None:
        """Return what the ghost row at the cursor adds; None on another row."""
        if self.row is None or self.opened is None or self.row.kind is not OutlineKind.GHOST:
            return None
        return find_ghost_addition(self.row, self.opened.data)

    def draft_for_editor(self, slot: Slot) -> Draft:
        """Return the draft for the user's own editor: plain text if UTF-8 can encode it, else JSON."""
        if self.opened is None:
            raise RuntimeError("nothing is open to be edited")
        self.stop_typing()
        draft = self._make_draft(self.opened, slot)
        is_text = isinstance(draft.original, str) and draft.is_untouched
        if is_text and slot.input is not Input.JSON and is_valid_utf8(draft.original):
            return Draft(slot, TextForm.TEXT, draft.original, draft.original)
        return draft

    def _mark(self, opened: OpenedDocument) -> None:
        """Mark the rows with unsaved edits and those with drafts."""
        changed: frozenset[Place] = frozenset()
        if opened.is_changed and opened.edited in self._saved:
            changed = changed_places(self._saved[opened.edited], opened.data)
        drafted = frozenset(self._find_row(draft) for draft in self._drafts.list_drafts(opened.edited))
        self.view.mark(changed=self.view.find_rows(changed), drafted=drafted)

    def _find_row(self, draft: Draft) -> int:
        """Return the row that marks a draft: the row of its place, else the nearest parent, else the first row."""
        data = self.opened.data if self.opened is not None else None
        return self.view.find_row(spell_place(data, draft.slot.place)) or 0


def _get_slot_value(slot: Slot, data: Any) -> Any:
    """Return the value that the slot edits, ABSENT if the slot adds a new one."""
    return ABSENT if slot.index is not None or slot.hole is not None else find_value(data, slot.place)


def _nearest(data: Any, place: Place) -> Place:
    """Return the place, or the last item of the list if the place is past its end."""
    if place and isinstance(place[-1], int) and place[-1] > 0:
        held = get_value(data, place[:-1])
        if isinstance(held, list) and place[-1] >= len(held) > 0:
            return (*place[:-1], len(held) - 1)
    return place


# Drafts as JSON, stored so that a crash does not lose them.


def dump_draft(edited: Edited, draft: Draft) -> dict[str, Any]:
    """Return a draft and its case as JSON. A new value has no `begun_from`."""
    kept = {
        "eval_set": edited.eval_set,
        "case": edited.case.model_dump() if edited.case is not None else None,
        "slot": asdict(draft.slot),
        "form": draft.form.value,
        "text": draft.text,
    }
    return kept if draft.is_new else {**kept, "begun_from": draft.original}


def load_draft(kept: Any) -> tuple[Edited, Draft] | None:
    """Parse a draft and its case from JSON; return None if it is invalid."""
    try:
        slot = kept["slot"]
        case = CaseKey.model_validate(kept["case"]) if kept["case"] is not None else None
        draft = Draft(
            slot=Slot(
                place=tuple(slot["place"]),
                title=slot["title"],
                input=Input(slot["input"]),
                index=slot["index"],
                template=slot["template"],
                hole=_place(slot["hole"]),
                instead_of=_place(slot["instead_of"]),
            ),
            form=TextForm(kept["form"]),
            text=kept["text"],
            original=kept.get("begun_from", ABSENT),
        )
        return Edited(kept["eval_set"], case), _convert_name_draft(draft)
    except (KeyError, TypeError, ValueError):
        return None


def _convert_name_draft(draft: Draft) -> Draft:
    """Convert the draft of a new call of an earlier version, in which only the name was typed."""
    slot = draft.slot
    if slot.input is not Input.LINE or not slot.hole or slot.hole[-1] not in NAME_KEYS or slot.title != "call":
        return draft
    return replace(draft, slot=replace(slot, input=Input.CALL, hole=slot.hole[:-1]), form=TextForm.CALL)


def _place(steps: Any) -> Place | None:
    return None if steps is None else tuple(steps)
