"""Typed text that is not applied, kept for every case until it is applied or given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.tui.state.editor.draft import Draft
from workbench.tui.state.editor.following import followed
from workbench.tui.state.editor.opened import Edited
from workbench.tui.state.editor.operations import Edit, Slot
from workbench.tui.state.editor.rows import Place, folded

_Key = tuple[Place, bool, str]


class Drafts:
    """All drafts of a session, by what they are of."""

    def __init__(self) -> None:
        self._drafts: dict[Edited, dict[_Key, Draft]] = {}

    def keep(self, edited: Edited, draft: Draft) -> None:
        """Keep a draft; one to which nothing was typed is none."""
        if draft.is_untouched:
            self.drop(edited, draft.slot)
        else:
            self._drafts.setdefault(edited, {})[_key(draft.slot)] = draft

    def drop(self, edited: Edited, slot: Slot) -> None:
        """Forget what was typed for a slot."""
        kept = self._drafts.get(edited, {})
        kept.pop(_key(slot), None)
        if not kept:
            self._drafts.pop(edited, None)

    def of(self, edited: Edited, slot: Slot) -> Draft | None:
        """What was typed for a slot earlier."""
        return self._drafts.get(edited, {}).get(_key(slot))

    def follow(self, old: Edited, new: Edited) -> None:
        """The case has another id now."""
        if old in self._drafts:
            self._drafts[new] = self._drafts.pop(old)

    def after(self, edited: Edited, edit: Edit) -> None:
        """What was typed goes with the values that it was typed for, as an edit moves them."""
        kept = self._drafts.pop(edited, {})
        for draft in kept.values():
            slot = replace(draft.slot, place=followed(draft.slot.place, edit))
            self._drafts.setdefault(edited, {})[_key(slot)] = replace(draft, slot=slot)

    @property
    def all(self) -> Sequence[tuple[Edited, Draft]]:
        """Every draft, and what it is of."""
        return [(edited, draft) for edited, kept in self._drafts.items() for draft in kept.values()]

    def count(self, edited: Edited) -> int:
        """How many there are for a case or set."""
        return len(self._drafts.get(edited, {}))

    def kept(self, edited: Edited) -> Sequence[Draft]:
        """What was typed for a case or set."""
        return list(self._drafts.get(edited, {}).values())


def _key(slot: Slot) -> _Key:
    return folded(slot.place), slot.index is not None, slot.title
