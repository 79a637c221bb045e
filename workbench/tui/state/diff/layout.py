"""A diff as lines, each of which knows the difference that it shows; the mark of the current one is drawn last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.tui.state.diff.source import DiffContent
from workbench.tui.state.layout import lay_out
from workbench.tui.state.pieces import Line, Piece, Tone

GUTTER = 1
"""Cells before each line, for the mark of the current difference."""

_HERE = Piece("▌", Tone.WARNING)
_NOT_HERE = Piece(" ")


@dataclass(frozen=True, slots=True)
class DiffLines:
    """Laid-out lines. `owners` has the difference of each line (None: of none), `current` is that under the cursor."""

    lines: Sequence[Line] = ()
    owners: Sequence[int | None] = ()
    current: int | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int, /) -> Line:
        owner = self.owners[index]
        return (_HERE if owner is not None and owner == self.current else _NOT_HERE, *self.lines[index])

    def __iter__(self) -> Iterator[Line]:
        return (self[index] for index in range(len(self)))

    def with_cursor(self, current: int | None) -> DiffLines:
        """The same lines with the cursor on another difference."""
        return DiffLines(self.lines, self.owners, current)

    def span_of(self, hunk: int) -> tuple[int, int] | None:
        """The first and the last line of a difference, where it first stands."""
        try:
            first = self.owners.index(hunk)
        except ValueError:
            return None
        last = first
        while last + 1 < len(self.owners) and self.owners[last + 1] == hunk:
            last += 1
        return first, last


def lay_out_diff(content: DiffContent, *, width: int, side_by_side: bool) -> DiffLines:
    """The lines of a diff within `width` cells. Takes time where there is much to lay out."""
    lines: list[Line] = []
    owners: list[int | None] = []
    for block, owner in zip(content.blocks, content.owners, strict=True):
        made = lay_out([block], width=width - GUTTER, side_by_side=side_by_side)
        lines += made
        owners += [owner] * len(made)
    return DiffLines(lines, owners)
