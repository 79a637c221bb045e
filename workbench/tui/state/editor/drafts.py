"""Typed text that is not applied, kept for every case until it is applied or given up."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.tui.state.editor.draft import Draft
from workbench.tui.state.editor.opened import Subject
from workbench.tui.state.editor.operations import Slot
from workbench.tui.state.editor.rows import Place, Row, folded

_Key = tuple[Place, bool, str]


class Drafts:
    """All drafts of a session, by what they are of."""

    def __init__(self) -> None:
        self._drafts: dict[Subject, dict[_Key, Draft]] = {}

    def keep(self, subject: Subject, draft: Draft) -> None:
        """Keep a draft; one to which nothing was typed is none."""
        if draft.is_untouched:
            self.drop(subject, draft.slot)
        else:
            self._drafts.setdefault(subject, {})[_key(draft.slot)] = draft

    def drop(self, subject: Subject, slot: Slot) -> None:
        """Forget what was typed for a slot."""
        kept = self._drafts.get(subject, {})
        kept.pop(_key(slot), None)
        if not kept:
            self._drafts.pop(subject, None)

    def of(self, subject: Subject, slot: Slot) -> Draft | None:
        """What was typed for a slot earlier."""
        return self._drafts.get(subject, {}).get(_key(slot))

    def follow(self, old: Subject, new: Subject) -> None:
        """The case has another id now."""
        if old in self._drafts:
            self._drafts[new] = self._drafts.pop(old)

    def count(self, subject: Subject) -> int:
        """How many there are for a case or set."""
        return len(self._drafts.get(subject, {}))

    def rows(self, subject: Subject, rows: Sequence[Row]) -> frozenset[int]:
        """The indexes of the rows that have a draft: of their value, or of something new in what they stand for."""
        found: set[int] = set()
        for place, _, _ in self._drafts.get(subject, {}):
            best, length = 0, -1
            for index, row in enumerate(rows):
                own = folded(row.edits if row.edits is not None else row.place)
                if own == place:
                    best = index
                    break
                above = folded(row.place)
                if len(above) > length and place[: len(above)] == above:
                    best, length = index, len(above)
            found.add(best)
        return frozenset(found)


def _key(slot: Slot) -> _Key:
    return folded(slot.place), slot.index is not None, slot.title
