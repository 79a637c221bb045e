"""Where one is in a diff: which difference the cursor is on, how much is shown, and what one line tells of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.engine.accepting import Hunk
from workbench.model.results import CaseStatus
from workbench.report.explain import describe
from workbench.tui.state.diff.costs import Cost
from workbench.tui.state.diff.source import DiffContent, DiffSource, Level
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line

_LEVELS = tuple(Level)
_LARGE = 20_000
"""Characters and calls (fifty each) from which on a diff is made off the event loop: some 50 ms."""


class DiffState:
    """The view of one diff after the other."""

    def __init__(self) -> None:
        self.level = Level.FOLDED
        self.source = DiffSource(case=None)
        self.content = DiffContent()
        self._about: object = None
        self._cursor = 0

    def wants(self, source: DiffSource) -> DiffSource | None:
        """The source to show in place of this one, at the level that is chosen; None where it is shown already."""
        wanted = replace(source, level=self.level)
        return None if wanted == self.source else wanted

    def take(self, source: DiffSource, content: DiffContent, *, about: object) -> bool:
        """Show another content; the cursor keeps its place where it is still `about` the same. Gives whether it is."""
        stays = about == self._about
        self.source, self.content, self._about = source, content, about
        self._cursor = min(self._cursor, max(len(content.hunks) - 1, 0)) if stays else 0
        return stays

    @property
    def hunks(self) -> Sequence[Hunk]:
        """All differences in the order in which they are shown."""
        return self.content.hunks

    @property
    def cursor(self) -> int | None:
        """The difference that the cursor is on; None where there is none."""
        return self._cursor if self.content.hunks else None

    @property
    def current(self) -> Hunk | None:
        """The same as a hunk."""
        return None if self.cursor is None else self.content.hunks[self.cursor]

    def step(self, by: int) -> bool:
        """Go to another difference; False where there is none in that direction."""
        return self.go_to(self._cursor + by)

    def go_to(self, hunk: int) -> bool:
        """Go to a difference; False where there is no such one."""
        if not 0 <= hunk < len(self.content.hunks):
            return False
        self._cursor = hunk
        return True

    def cycle_level(self) -> Level:
        """Show more or less of what is as expected."""
        self.level = _LEVELS[(_LEVELS.index(self.level) + 1) % len(_LEVELS)]
        return self.level

    def status(self) -> Line:
        """The line above the diff."""
        if self.current is None or self.cursor is None:
            return self._without_differences()
        count = len(self.content.hunks)
        free = sum(cost.is_free for cost in self.content.costs)
        pieces = [Piece(f"difference {self.cursor + 1} of {count}", Tone.STRONG), Piece("  ")]
        pieces += _told(self.current, self.content.costs[self.cursor])
        if free and free < count:
            pieces.append(Piece(f"  ({plural(count - free, 'difference')} that cost points)", Tone.MUTED))
        return (*pieces, Piece(f"  · {self.level.value}", Tone.MUTED))

    def _without_differences(self) -> Line:
        result, has_turns = self.source.result, bool(self.source.turns)
        if self.source.case is None:
            return ()
        if result is not None and result.failure is not None:
            return (Piece("no differences before the error", Tone.MUTED),) if has_turns else ()
        if result is not None and result.status in (CaseStatus.CANCELLED, CaseStatus.SKIPPED) and not has_turns:
            return (Piece(f"{result.status.value.lower()}: there is nothing to compare", Tone.MUTED),)
        if self.source.is_scenario:  # nothing was expected, word for word
            return ()
        return (Piece("no differences", Tone.PASSED),) if has_turns or result is not None else ()


def is_large(source: DiffSource) -> bool:
    """Whether making this diff could be felt if the event loop did it."""
    weight = 0
    turns = [turn.invocation for turn in source.turns]
    for invocation in (*((source.case.conversation if source.case is not None else None) or ()), *turns):
        data = invocation.intermediate_data
        weight += 50 * sum(len(items) for items in vars(data).values() if isinstance(items, list)) if data else 0
        weight += len(invocation.final_response.text()) if invocation.final_response is not None else 0
    return weight > _LARGE


def _told(hunk: Hunk, cost: Cost) -> Sequence[Piece]:
    if cost.notes:
        return [Piece(cost.notes[0].text, cost.notes[0].tone)]
    if cost.is_free:
        return [Piece("costs nothing", Tone.PASSED)]
    return [Piece(safe_line(describe(hunk.difference), width=60), Tone.MUTED)]
