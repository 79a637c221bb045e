"""What lies before the user of the editor: one case, where the cursor is in it, and what is being typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from workbench.model.text import one_line
from workbench.tui.state.editor.additions import additions, additions_to_set
from workbench.tui.state.editor.draft import Draft, Form, is_whole, json_text
from workbench.tui.state.editor.drafts import Drafts
from workbench.tui.state.editor.new_items import Addition
from workbench.tui.state.editor.opened import Edited, Opened, changed_places
from workbench.tui.state.editor.operations import Edit, Slot
from workbench.tui.state.editor.rows import ABSENT, Input, Place, Row, found_at, spelt, value_at
from workbench.tui.state.editor.view import OutlineView

_SHOWN = 40  # characters of a value that would be replaced


class Desk:
    """One case or set at a time; drafts are kept for all of them."""

    def __init__(self) -> None:
        self.view = OutlineView()
        self.opened: Opened | None = None
        self.typing: Draft | None = None
        self._drafts = Drafts()
        self._saved: dict[Edited, Any] = {}  # of what has unsaved edits: the data before them
        self._goes_to: Place | None = None

    @property
    def row(self) -> Row | None:
        """The selected row."""
        return self.view.row if self.opened is not None else None

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said about what is open."""
        if self.opened is None:
            return ()
        notes = [self.opened.problem and f"! {self.opened.problem}", self.opened.note, self.opened.read_only]
        if self.opened.is_changed:
            notes.append("* unsaved edits")
        if count := self._drafts.count(self.opened.edited):
            notes.append(f"~ {count} typed, not applied: enter goes on with it")
        return [note for note in notes if note]

    def open(self, opened: Opened) -> None:
        """Show a case, or what has become of the one that is shown; text being typed stays."""
        if self.opened is None or self.opened.edited != opened.edited:
            self.close()
        if not opened.is_changed:
            self._saved[opened.edited] = opened.data
        self.opened = opened
        self.view.show(opened.rows)
        self._mark(opened)
        if self._goes_to is not None:
            self.view.select(_nearest(opened.data, spelt(opened.data, self._goes_to)))
            self._goes_to = None

    def close(self) -> None:
        """Nothing is open; what is being typed is kept as a draft."""
        self.leave()
        if self.opened is not None and not self.opened.is_changed:
            self._saved.pop(self.opened.edited, None)
        self.opened = None
        self.view.forget()

    def begin(self, slot: Slot) -> Draft:
        """Begin to type, or go on where that was begun earlier."""
        if self.opened is None:
            raise RuntimeError("nothing is open to be edited")
        self.leave()
        self.typing = self._drafts.of(self.opened.edited, slot) or Draft.of(slot, _value_of(slot, self.opened.data))
        return self.typing

    def type(self, text: str) -> Draft | None:
        """The text is another now; the draft, where one is being typed."""
        if self.typing is not None:
            self.typing = self.typing.typed(text)
        return self.typing

    def next_form(self) -> None:
        """Read what is typed as another type of value."""
        if self.typing is not None:
            self.typing = self.typing.next_form()

    def restore(self) -> None:
        """Type anew, from the value as it is."""
        if self.typing is not None and self.opened is not None:
            slot, self.typing = self.typing.slot, None
            self._drafts.drop(self.opened.edited, slot)
            self.begin(slot)

    def take(self, draft: Draft) -> None:
        """Keep a draft that was typed elsewhere."""
        self.typing = draft
        self.leave()

    def take_up(self, drafts: Iterable[tuple[Edited, Draft]]) -> None:
        """Keep drafts of an earlier session; of two for the same the later counts."""
        for edited, draft in drafts:
            self._drafts.keep(edited, draft)
        if self.opened is not None:
            self._mark(self.opened)

    def leave(self) -> bool:
        """Stop typing; gives whether something was typed, which is kept as a draft."""
        if self.typing is None or self.opened is None:
            return False
        draft, self.typing = self.typing, None
        self._drafts.keep(self.opened.edited, draft)
        self._mark(self.opened)
        return not draft.is_untouched

    def put(self, edited: Edited, slot: Slot | None, edit: Edit, *, now: Edited) -> None:
        """An edit was made to this, open or not any more, of a draft where there is a slot.

        It may have changed the id of the case.
        """
        is_open = self.opened is not None and self.opened.edited == edited
        if slot is not None:
            self._drafts.drop(edited, slot)
            if is_open and self.typing is not None and self.typing.slot == slot:
                self.typing = None
        if is_open:
            self._goes_to = edit.goes_to
        self._drafts.after(edited, edit)
        if now != edited:
            self._drafts.follow(edited, now)
            if edited in self._saved:
                self._saved[now] = self._saved.pop(edited)

    @property
    def was_changed_meanwhile(self) -> bool:
        """Whether the value that is being typed is no longer the one that the typing began from."""
        draft = self.typing
        if draft is None or self.opened is None:
            return False
        return bool(_value_of(draft.slot, self.opened.data) != draft.begun_from)

    def replaces(self, draft: Draft) -> str:
        """What else than the draft began from it would replace, in words; empty where it replaces nothing of others."""
        value = ABSENT if self.opened is None else _value_of(draft.slot, self.opened.data)
        if value is ABSENT or value == draft.begun_from:
            return ""
        return one_line(json_text(value), width=_SHOWN)

    def go_on(self, draft: Draft) -> None:
        """The user knows what the draft would replace: from now on it counts as begun from that."""
        if self.typing == draft and self.opened is not None:
            self.typing = replace(draft, begun_from=_value_of(draft.slot, self.opened.data))

    @property
    def unapplied(self) -> Sequence[tuple[Edited, Draft]]:
        """Everything that is typed and not applied, what is being typed too."""
        typing = self.typing
        if typing is None or typing.is_untouched or self.opened is None:
            return self._drafts.all
        edited = self.opened.edited
        others = [item for item in self._drafts.all if item != (edited, self._drafts.of(edited, typing.slot))]
        return [*others, (edited, typing)]

    def waiting(self, slot: Slot) -> Sequence[Draft]:
        """The drafts on the selected row but that of this slot: of what was to be added there, or changed as JSON."""
        if self.opened is None:
            return ()
        edited, own = self.opened.edited, self._drafts.of(self.opened.edited, slot)
        selected = self.view.selected
        return [draft for draft in self._drafts.kept(edited) if draft != own and self._index_of(draft) == selected]

    def additions(self) -> Sequence[Addition]:
        """What can be added where the cursor is."""
        if self.opened is None:
            return ()
        if self.opened.index is None:
            return additions_to_set(self.opened.data) if self.opened.rows else ()
        return additions(self.opened.rows, self.view.selected, self.opened.data)

    def draft_for_editor(self, slot: Slot) -> Draft:
        """What goes into the user's own editor: a text as it is, if a file can hold it, else JSON."""
        draft = self.begin(slot)
        self.typing = None
        is_text = isinstance(draft.begun_from, str) and draft.is_untouched
        if is_text and slot.input is not Input.JSON and is_whole(draft.begun_from):
            return Draft(slot, Form.TEXT, draft.begun_from, draft.begun_from)
        return draft

    def _mark(self, opened: Opened) -> None:
        """Mark the rows that have unsaved edits, and those with typed text."""
        changed: frozenset[Place] = frozenset()
        if opened.is_changed and opened.edited in self._saved:
            changed = changed_places(self._saved[opened.edited], opened.data)
        drafted = frozenset(self._index_of(draft) for draft in self._drafts.kept(opened.edited))
        self.view.mark(changed=self.view.indexes_of(changed), drafted=drafted)

    def _index_of(self, draft: Draft) -> int:
        """The row that a draft is marked on: what it is of, else what that is in, else the first."""
        data = self.opened.data if self.opened is not None else None
        return self.view.index_of(spelt(data, draft.slot.place)) or 0


def _value_of(slot: Slot, data: Any) -> Any:
    """What is there already where a typed value goes; ABSENT where it makes something new."""
    return ABSENT if slot.index is not None or slot.hole is not None else found_at(data, slot.place)


def _nearest(data: Any, place: Place) -> Place:
    """The place or, where the last item of a list is gone, the one that is last now."""
    if place and isinstance(place[-1], int) and place[-1] > 0:
        held = value_at(data, place[:-1])
        if isinstance(held, list) and place[-1] >= len(held) > 0:
            return (*place[:-1], len(held) - 1)
    return place
