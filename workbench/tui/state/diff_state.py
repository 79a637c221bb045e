"""The diff as it is shown: its levels, its layout, the cursor, and the review of several cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from workbench.engine.acceptance import Hunk
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.report.text_report import describe_difference
from workbench.tui.state.diff_lines import Cost, DiffContent, DiffSource, Level
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Line,
    Paragraph,
    Style,
    StyledText,
    plural,
    render_blocks,
    safe_line,
)

# Where one is in a diff: which difference the cursor is on, how much is shown, and what one line tells of that.

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

    def find_new_source(self, source: DiffSource) -> DiffSource | None:
        """The source to show in place of this one, at the level that is chosen; None where it is shown already."""
        wanted = replace(source, level=self.level)
        return None if wanted == self.source else wanted

    def show(self, source: DiffSource, content: DiffContent, *, about: object) -> bool:
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
        return self.select(self._cursor + by)

    def select(self, hunk: int) -> bool:
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
        pieces = [StyledText(f"difference {self.cursor + 1} of {count}", Style.STRONG), StyledText("  ")]
        pieces += _describe_hunk(self.current, self.content.costs[self.cursor])
        if free and free < count:
            pieces.append(StyledText(f"  ({plural(count - free, 'difference')} that cost points)", Style.MUTED))
        return (*pieces, StyledText(f"  · {self.level.value}", Style.MUTED))

    def _without_differences(self) -> Line:
        result, has_turns = self.source.result, bool(self.source.turns)
        if self.source.case is None:
            return ()
        if result is not None and result.failure is not None:
            return (StyledText("no differences before the error", Style.MUTED),) if has_turns else ()
        if result is not None and result.status in (CaseStatus.CANCELLED, CaseStatus.SKIPPED) and not has_turns:
            return (StyledText(f"{result.status.value.lower()}: there is nothing to compare", Style.MUTED),)
        if self.source.is_scenario:  # nothing was expected, word for word
            return ()
        return (StyledText("no differences", Style.PASSED),) if has_turns or result is not None else ()


def is_large(source: DiffSource) -> bool:
    """Whether making this diff could be felt if the event loop did it."""
    weight = 0
    turns = [turn.invocation for turn in source.turns]
    for invocation in (*((source.case.conversation if source.case is not None else None) or ()), *turns):
        data = invocation.intermediate_data
        weight += 50 * sum(len(items) for items in vars(data).values() if isinstance(items, list)) if data else 0
        weight += len(invocation.final_response.text()) if invocation.final_response is not None else 0
    return weight > _LARGE


def _describe_hunk(hunk: Hunk, cost: Cost) -> Sequence[StyledText]:
    if cost.notes:
        return [StyledText(cost.notes[0].text, cost.notes[0].style)]
    if cost.is_free:
        return [StyledText("costs nothing", Style.PASSED)]
    return [StyledText(safe_line(describe_difference(hunk.difference), width=60), Style.MUTED)]


# A diff as lines, each of which knows the difference that it shows; the mark of the current one is drawn last.

GUTTER = 1
"""Cells before each line, for the mark of the current difference."""

_HERE = StyledText("▌", Style.WARNING)
_NOT_HERE = StyledText(" ")


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

    def find_lines(self, hunk: int) -> tuple[int, int] | None:
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
        made = render_blocks([block], width=width - GUTTER, side_by_side=side_by_side)
        lines += made
        owners += [owner] * len(made)
    return DiffLines(lines, owners)


# A walk through cases that did not pass: which one is looked at, what was decided, what can be taken back.


class Decision(Enum):
    """What became of a case in the walk."""

    ACCEPTED = "accepted"  # nothing of it differs any more
    PARTLY = "accepted in part"
    SKIPPED = "skipped"
    REFUSED = "refused"

    @property
    def style(self) -> Style:
        """How it is shown."""
        return {Decision.ACCEPTED: Style.PASSED, Decision.REFUSED: Style.ERROR}.get(self, Style.WARNING)


@dataclass(slots=True)
class ReviewWalk:
    """`keys` in the order of the walk; past the last of them it is over, and is summed up."""

    keys: Sequence[CaseKey]
    place: int = 0
    decisions: dict[int, Decision] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)  # why cases were refused
    accepted: list[int] = field(default_factory=list)  # one entry for each edit, the newest last

    @property
    def key(self) -> CaseKey | None:
        """The case that is looked at; None where the walk is over."""
        return self.keys[self.place] if self.place < len(self.keys) else None

    def accept(self, *, is_done: bool) -> None:
        """Something of the case was accepted; where that `is_done`, go on."""
        self.accepted.append(self.place)
        self.decisions[self.place] = Decision.ACCEPTED if is_done else Decision.PARTLY
        self.reasons.pop(self.place, None)
        if is_done:
            self.place += 1

    def refuse(self, reason: str) -> None:
        """The case could not be accepted; it stays in sight with the reason."""
        self.decisions.setdefault(self.place, Decision.REFUSED)
        self.reasons[self.place] = reason

    def skip(self) -> None:
        """Leave the case as it is, and go on."""
        if self.key is not None:
            self.decisions.setdefault(self.place, Decision.SKIPPED)
            self.place += 1

    def go_back(self) -> bool:
        """Go to the case before; False where there is none."""
        if self.place == 0:
            return False
        self.place -= 1
        return True

    def undo(self) -> CaseKey | None:
        """Go back to the case that was accepted last, as if it had not been; None where there is none."""
        if not self.accepted:
            return None
        self.place = self.accepted.pop()
        if self.place in self.accepted:
            self.decisions[self.place] = Decision.PARTLY
        else:
            del self.decisions[self.place]
        return self.keys[self.place]

    def progress(self) -> Line:
        """Where the walk is, for the line above."""
        key = self.key
        counts = Counter(self.decisions.values())
        told = ", ".join(f"{counts[decision]} {decision.value}" for decision in Decision if counts[decision])
        if key is None:
            return (StyledText("review is over", Style.STRONG), StyledText(f"  {told}"))
        decision = self.decisions.get(self.place)
        pieces = [
            StyledText(f"review {self.place + 1} of {len(self.keys)}  ", Style.STRONG),
            StyledText(safe_line(str(key))),
        ]
        if decision is not None:
            pieces.append(StyledText(f"  {decision.value}", decision.style))
        return (*pieces, StyledText(f"  · {told}" if told else "", Style.MUTED))

    def reason(self) -> str | None:
        """Why the case that is looked at was refused."""
        return self.reasons.get(self.place)

    def summary(self) -> tuple[Block, ...]:
        """What was decided, case by case."""
        of = f"{len(self.decisions)} of " if len(self.decisions) < len(self.keys) else ""
        blocks: list[Block] = [
            Paragraph.from_text(f"{of}{plural(len(self.keys), 'case')} looked through", Style.HEADING),
            BLANK,
        ]
        for place, key in enumerate(self.keys):
            decision = self.decisions.get(place)
            word = StyledText(
                f"{decision.value if decision else 'not looked at'}  ", decision.style if decision else Style.MUTED
            )
            why = f"  {safe_line(self.reasons[place])}" if place in self.reasons else ""
            blocks.append(
                Paragraph((word, StyledText(safe_line(str(key))), StyledText(why, Style.MUTED)), indent=2, hang=2)
            )
        blocks += [
            BLANK,
            Paragraph.from_text("u takes back what was accepted last; escape ends the review.", Style.MUTED),
        ]
        return tuple(blocks)
