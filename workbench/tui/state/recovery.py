"""Unsaved edits that an earlier session left behind, as a list to decide about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from workbench.engine.documents import FoundEdits
from workbench.tui.state.blocks import Block, Whole
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line


@dataclass
class RecoveryList(CursorRows):
    """What was found, the newest first, and which of it is selected. `now` is when it is looked at."""

    found: Sequence[FoundEdits]
    now: datetime

    def __len__(self) -> int:
        return len(self.found)

    @property
    def selected(self) -> FoundEdits | None:
        """What is under the cursor."""
        return self.found[self.cursor] if self.found else None

    def remove_selected(self) -> None:
        """It was decided about what is under the cursor."""
        self.found = [*self.found[: self.cursor], *self.found[self.cursor + 1 :]]
        self.move_to(self.cursor)

    def line(self, index: int, width: int) -> Line:
        """One row."""
        found = self.found[index]
        written = found.recovery.written_at.astimezone(self.now.tzinfo)
        pieces = (
            Piece(f" {written:%Y-%m-%d %H:%M}", Tone.MUTED),
            Piece(f"   {_how_many(found)}   "),
            Piece(safe_line(found.eval_set), Tone.KEY),
        )
        return fit(pieces, width)

    def detail(self) -> tuple[Block, ...]:
        """The selected edits in words."""
        found = self.selected
        if found is None:
            return (Whole.of("Nothing is left to decide about."),)
        if found.problem:
            return (Whole.of(safe(f"These edits cannot be read: {found.problem}"), Tone.ERROR),)
        if found.differences is None:
            text = "The file is gone or broken. Restored, these edits can be saved in its place."
            return (Whole.of(text, Tone.WARNING),)
        named = ", ".join(f"{safe_line(item.eval_id)} ({item.how})" for item in found.differences[:20])
        more = len(found.differences) - 20
        return (Whole.of(named + (f", {more:,} more" if more > 0 else "")),)


def _how_many(found: FoundEdits) -> str:
    if found.problem:
        return "cannot be read"
    if found.differences is None:
        return "the file is gone or broken"
    count = len(found.differences)
    return f"{plural(count, 'case')} differ{'s' if count == 1 else ''}" if count else "no case differs"
