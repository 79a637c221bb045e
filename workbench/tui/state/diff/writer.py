"""Collects the blocks of a diff, and which difference each of them shows."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.engine.accepting import Hunk
from workbench.report.differences import Difference
from workbench.tui.state.blocks import Block, Both, Side, Whole
from workbench.tui.state.diff.costs import Cost, TurnCosts
from workbench.tui.state.diff.source import DiffContent
from workbench.tui.state.diff.texts import Texts
from workbench.tui.state.pieces import Piece, Tone


class Writer:
    """The blocks so far."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self._blocks: list[Block] = []
        self._owners: list[int | None] = []
        self._hunks: list[Hunk] = []
        self._costs: list[Cost] = []
        self._places: dict[int, int] = {}  # of differences, by identity: each is one object

    def add(self, *blocks: Block) -> None:
        """Add blocks that show no difference."""
        self.extend(blocks)

    def extend(self, blocks: Iterable[Block], owner: int | None = None) -> None:
        """Add blocks, of the difference at a place where `owner` is given."""
        for block in blocks:
            self._blocks.append(block)
            self._owners.append(owner)

    def both(self, expected: Side | None, actual: Side | None) -> None:
        """Add two sides that do not differ, or are not compared."""
        self.add(Both(expected, actual))

    def difference(
        self, turn: int | None, found: Difference, costs: TurnCosts, rows: Iterable[tuple[Side | None, Side | None]]
    ) -> None:
        """Add a difference as rows of both sides, and the criteria that lost points by it.

        One that is shown in two places, as a call that moved, is told of once.
        """
        place = self._places.get(id(found))
        if place is None:
            place = self._places[id(found)] = len(self._hunks)
            self._hunks.append(Hunk(turn=turn, difference=found))
            self._costs.append(costs.of(found))
            notes = self._costs[place].notes
        else:
            notes = ()
        cost = self._costs[place]
        self.extend((Both(left, right, differs=True, quiet=cost.is_free) for left, right in rows), place)
        self.extend((Whole.of(f"↳ {note.text}", note.tone, indent=2, hang=2) for note in notes), place)

    def content(self) -> DiffContent:
        """All of it."""
        return DiffContent(tuple(self._blocks), tuple(self._owners), tuple(self._hunks), tuple(self._costs))


def name_side(name: str, note: str = "") -> Side:
    """A side that names a call or an author; both must be safe."""
    return Side((Piece(name, Tone.STRONG), Piece(note, Tone.MUTED)))
