"""The state of the diff view: detail level, cursor, layout; the review of several cases; two versions of a set."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice, zip_longest

from rich.cells import cell_len

from workbench.engine.acceptance import Hunk
from workbench.engine.set_files import Merge, VersionPart, Versions
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.report.text_report import describe_difference
from workbench.store.evalsets.new_evalsets import DifferenceKind
from workbench.tui.state.diff_lines import Cost, DiffContent, DiffSource, Level
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ColumnHeadings,
    Line,
    Paragraph,
    Side,
    SideBySide,
    Style,
    StyledText,
    plural,
    render_blocks,
    safe,
    safe_line,
    shorten_name,
)

# The view of a diff: the cursor, the detail level, and the status line.

_LEVELS = tuple(Level)
_LARGE = 20_000
"""Size of a diff from which it is made in a thread, in characters; a call counts as 50. About 50 ms of work."""


class DiffState:
    """The view of one diff at a time."""

    def __init__(self) -> None:
        self.level = Level.FOLDED
        self.source = DiffSource(case=None)
        self.content = DiffContent()
        self._about: object = None
        self._cursor = 0
        self._is_selected = False

    def find_new_source(self, source: DiffSource) -> DiffSource | None:
        """Return the source with the current level; None if it is shown already."""
        wanted = replace(source, level=self.level)
        return None if wanted == self.source else wanted

    def show(self, source: DiffSource, content: DiffContent, *, about: object, stays: bool = False) -> bool:
        """Show other content. Return whether it is about the same as before.

        The cursor is at the first difference that cost points, until the user selects one. Then it keeps its place
        while `about` is the same, as it does with `stays`.
        """
        is_same = about == self._about
        self.source, self.content, self._about = source, content, about
        self._is_selected = is_same and (self._is_selected or stays)
        costly = next((index for index, cost in enumerate(content.costs) if not cost.is_free), 0)
        self._cursor = min(self._cursor, max(len(content.hunks) - 1, 0)) if self._is_selected else costly
        return is_same

    @property
    def hunks(self) -> Sequence[Hunk]:
        """All differences, in the order on the screen."""
        return self.content.hunks

    @property
    def cursor(self) -> int | None:
        """The index of the difference at the cursor; None without differences."""
        return self._cursor if self.content.hunks else None

    @property
    def current(self) -> Hunk | None:
        return None if self.cursor is None else self.content.hunks[self.cursor]

    def step(self, by: int) -> bool:
        """Go to the next (1) or previous (-1) difference. Return False if there is no other one."""
        return self.select(self._cursor + by)

    def select(self, hunk: int) -> bool:
        """Select a difference by its index. Return False if the index is invalid."""
        if not 0 <= hunk < len(self.content.hunks):
            return False
        self._cursor, self._is_selected = hunk, True
        return True

    def cycle_level(self) -> Level:
        """Select the next level: more or fewer of the equal parts."""
        self.level = _LEVELS[(_LEVELS.index(self.level) + 1) % len(_LEVELS)]
        return self.level

    def status(self, width: int) -> Line:
        """Return the status line above the diff. The name of a criterion is shortened by whole words."""
        if self.current is None or self.cursor is None:
            return self._without_differences()
        count = len(self.content.hunks)
        free = sum(cost.is_free for cost in self.content.costs)
        number = f"{self.cursor + 1} of {count}"
        pieces = _describe_hunk(number, self.current, self.content.costs[self.cursor], width)
        if free and free < count:
            costly = f"{count - free} of {count} {'costs' if count - free == 1 else 'cost'} points"
            pieces.append(StyledText(f"  ({costly})", Style.MUTED))
        return (*pieces, StyledText(f"  · {self.level.value}", Style.MUTED))

    def _without_differences(self) -> Line:
        result, has_turns = self.source.result, bool(self.source.turns)
        if self.source.case is None:
            return ()
        if result is not None and result.failure is not None:
            return (StyledText("no differences before the error", Style.MUTED),) if has_turns else ()
        if result is not None and result.status in (CaseStatus.CANCELLED, CaseStatus.SKIPPED) and not has_turns:
            return (StyledText(f"{result.status.value.lower()}: there is nothing to compare", Style.MUTED),)
        if self.source.is_scenario:  # a scenario has no expected texts
            return ()
        return (StyledText("no differences", Style.PASSED),) if has_turns or result is not None else ()


def is_large(source: DiffSource) -> bool:
    """Whether making this diff would noticeably block the event loop."""
    weight = 0
    turns = [turn.invocation for turn in source.turns]
    for invocation in (*((source.case.conversation if source.case is not None else None) or ()), *turns):
        data = invocation.intermediate_data
        weight += 50 * sum(len(items) for items in vars(data).values() if isinstance(items, list)) if data else 0
        weight += len(invocation.response_text() or "")
    return weight > _LARGE


def _describe_hunk(number: str, hunk: Hunk, cost: Cost, width: int) -> list[StyledText]:
    lead = StyledText(f"difference {number}", Style.STRONG)
    if cost.notes:
        note = cost.notes[0]
        room = width - cell_len(number) - 2
        for words in (note.text, note.criterion, shorten_name(note.criterion, room)):
            for first in (lead, StyledText(number, Style.STRONG)):
                if cell_len(first.text) + 2 + cell_len(words) <= width:
                    return [first, StyledText(f"  {words}", note.style)]
        return [lead]
    if cost.is_free:
        return [lead, StyledText("  costs nothing", Style.PASSED)]
    return [lead, StyledText(f"  {safe_line(describe_difference(hunk.difference), width=60)}", Style.MUTED)]


# A diff as lines. Each line has the index of its difference; the current difference is marked when it is drawn.

_HERE = StyledText("▌", Style.WARNING)
_NOT_HERE = StyledText(" ")
_MOST_LETTERS = 3  # in the gutter


@dataclass(frozen=True, slots=True)
class DiffLines:
    """Lines of a diff. `owners` has the index of each line's difference or None; `current` is the one at the cursor.

    The first cell of a line is for the mark of the current difference.
    """

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
        """Return the same lines with the cursor on another difference."""
        return DiffLines(self.lines, self.owners, current)

    def find_lines(self, hunk: int) -> tuple[int, int] | None:
        """Return the first and last line of a difference, at its first place."""
        try:
            first = self.owners.index(hunk)
        except ValueError:
            return None
        last = first
        while last + 1 < len(self.owners) and self.owners[last + 1] == hunk:
            last += 1
        return first, last


def lay_out_diff(content: DiffContent, *, width: int, side_by_side: bool) -> DiffLines:
    """Return the lines of a diff for `width` cells, each after its gutter. This takes long for a large diff."""
    lines: list[Line] = []
    owners: list[int | None] = []
    letters = min(max(map(len, content.marks), default=0), _MOST_LETTERS)
    gutter = letters + 1 if letters else 0
    empty = StyledText(" " * gutter)
    for block, owner, mark in zip(content.blocks, content.owners, content.marks, strict=True):
        made = render_blocks([block], width=width - len(_HERE.text) - gutter, side_by_side=side_by_side)
        for number, line in enumerate(made):
            shown = mark if len(mark) <= letters else f"{mark[: letters - 1]}…"
            lines.append((StyledText(f"{shown:<{gutter}}", Style.MUTED) if number == 0 and mark else empty, *line))
        owners += [owner] * len(made)
    return DiffLines(lines, owners)


# A review of the cases that did not pass: the current case, the decisions, and undo.


class DiffDecision(Enum):
    """The decision on a case."""

    ACCEPTED = "accepted"  # no difference is left
    PARTLY = "accepted in part"
    SKIPPED = "skipped"
    REFUSED = "refused"

    @property
    def style(self) -> Style:
        return {DiffDecision.ACCEPTED: Style.PASSED, DiffDecision.REFUSED: Style.ERROR}.get(self, Style.WARNING)


@dataclass(slots=True)
class ReviewWalk:
    """A review of the cases `keys`, in this order. After the last one it shows a summary."""

    keys: Sequence[CaseKey]
    place: int = 0
    decisions: dict[int, DiffDecision] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)  # reasons for refusals
    accepted: list[int] = field(default_factory=list)  # one entry for each edit, the newest last

    @property
    def key(self) -> CaseKey | None:
        """The current case; None if the review is over."""
        return self.keys[self.place] if self.place < len(self.keys) else None

    def accept(self, *, is_done: bool) -> None:
        """Record an acceptance. If no difference of the case is left (`is_done`), go to the next case."""
        self.accepted.append(self.place)
        self.decisions[self.place] = DiffDecision.ACCEPTED if is_done else DiffDecision.PARTLY
        self.reasons.pop(self.place, None)
        if is_done:
            self.place += 1

    def refuse(self, reason: str) -> None:
        """Record that the case could not be accepted. It stays the current one, with the reason."""
        self.decisions.setdefault(self.place, DiffDecision.REFUSED)
        self.reasons[self.place] = reason

    def skip(self) -> None:
        """Skip the case, and go to the next one."""
        if self.key is not None:
            self.decisions.setdefault(self.place, DiffDecision.SKIPPED)
            self.place += 1

    def go_back(self) -> bool:
        """Go to the previous case. Return False at the first one."""
        if self.place == 0:
            return False
        self.place -= 1
        return True

    def undo(self) -> CaseKey | None:
        """Undo the last acceptance and go to its case. Return None if nothing was accepted."""
        if not self.accepted:
            return None
        self.place = self.accepted.pop()
        if self.place in self.accepted:
            self.decisions[self.place] = DiffDecision.PARTLY
        else:
            del self.decisions[self.place]
        return self.keys[self.place]

    def progress(self) -> Line:
        key = self.key
        counts = Counter(self.decisions.values())
        decisions_text = ", ".join(
            f"{counts[decision]} {decision.value}" for decision in DiffDecision if counts[decision]
        )
        if key is None:
            return (StyledText("review is over", Style.STRONG), StyledText(f"  {decisions_text}"))
        decision = self.decisions.get(self.place)
        pieces = [
            StyledText(f"review {self.place + 1} of {len(self.keys)}  ", Style.STRONG),
            StyledText(safe_line(key.name)),
        ]
        if decision is not None:
            pieces.append(StyledText(f"  {decision.value}", decision.style))
        pieces += [StyledText(f"  · {decisions_text}", Style.MUTED)] if decisions_text else []
        return (*pieces, StyledText(f"  {safe_line(key.eval_set)}", Style.MUTED))

    def reason(self) -> str | None:
        """Return why the current case was refused, None if it was not."""
        return self.reasons.get(self.place)

    def summary(self) -> tuple[Block, ...]:
        """List the decisions by case."""
        of = f"{len(self.decisions)} of " if len(self.decisions) < len(self.keys) else ""
        blocks: list[Block] = [
            Paragraph.from_text(f"{of}{plural(len(self.keys), 'case')} reviewed", Style.HEADING),
            BLANK,
        ]
        for place, key in enumerate(self.keys):
            decision = self.decisions.get(place)
            word = StyledText(
                f"{decision.value if decision else 'not reviewed'}  ", decision.style if decision else Style.MUTED
            )
            why = f"  {safe_line(self.reasons[place])}" if place in self.reasons else ""
            blocks.append(
                Paragraph((word, StyledText(safe_line(str(key))), StyledText(why, Style.MUTED)), indent=2, hang=2)
            )
        blocks += [
            BLANK,
            Paragraph.from_text("u undoes the last acceptance; escape ends the review.", Style.MUTED),
        ]
        return tuple(blocks)


# Two versions of an eval set as blocks: a diff of their texts, part by part.

_CONTEXT = 2  # equal lines shown before and after a difference
_MOST_SHOWN = 1_500  # blocks, each at least a line; more would delay the screen
_MOST_COMPARED = 4_000_000  # pairs of lines; texts with more are one change, without a comparison
_MOST_NAMED = 12  # cases named in the summary

Run = tuple[Sequence[str], Sequence[str], bool]
"""Lines of theirs, lines of ours, and whether they are equal."""


def version_blocks(versions: Versions, *, ours: str, theirs: str) -> tuple[Block, ...]:
    """Return the diff of two versions, theirs left or first. `ours` and `theirs` are the names of the versions."""
    parts = list(islice(_parts(versions), _MOST_SHOWN + 1))
    more = (
        [Paragraph.from_text("… there is more; your editor shows all of it", Style.MUTED)]
        if len(parts) > _MOST_SHOWN
        else []
    )
    return (*_summary(versions), BLANK, *_columns(versions, ours, theirs), *parts[:_MOST_SHOWN], *more)


def merged_text(versions: Versions, *, ours: str, theirs: str) -> str:
    """Merge both versions into one text. Differences are between conflict markers, as in version control."""
    other = (versions.theirs or b"").decode("utf-8", errors="replace")
    lines: list[str] = []
    for theirs_lines, ours_lines, same in runs(other.split("\n"), versions.ours.decode().split("\n")):
        if same:
            lines += ours_lines
        else:
            lines += [f"{_MARKS[0]} {ours}", *ours_lines, _MARKS[1], *theirs_lines, f"{_MARKS[2]} {theirs}"]
    return "\n".join(lines)


def find_merge_mark(text: str) -> str | None:
    """Return a message with the first conflict marker that is left in a text; None if there are none."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith((f"{_MARKS[0]} ", f"{_MARKS[2]} ")) or line == _MARKS[1]:
            return f"line {number}: remove the mark {line.split(' ')[0]} and keep one of the two versions around it"
    return None


_MARKS = ("<<<<<<<", "=======", ">>>>>>>")


def runs(theirs: Sequence[str], ours: Sequence[str]) -> Iterator[Run]:
    """Cut both texts into runs of equal lines and runs of different lines, in order."""
    start = _count_shared_lines(theirs, ours)
    end = _count_shared_lines(theirs[start:][::-1], ours[start:][::-1])
    left, right = theirs[start : len(theirs) - end], ours[start : len(ours) - end]
    if start:
        yield theirs[:start], ours[:start], True
    if len(left) * len(right) > _MOST_COMPARED:
        yield left, right, False
    else:
        matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
        for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
            yield left[left_start:left_end], right[right_start:right_end], tag == "equal"
    if end:
        yield theirs[len(theirs) - end :], ours[len(ours) - end :], True


def _count_shared_lines(one: Sequence[str], other: Sequence[str]) -> int:
    most = min(len(one), len(other))
    return next((index for index in range(most) if one[index] != other[index]), most)


def _summary(versions: Versions) -> Iterator[Block]:
    if versions.theirs is None:
        yield Paragraph.from_text("On disk the file no longer exists.", Style.ERROR)
    elif versions.problem:
        yield Paragraph.from_text(safe(f"The file on disk is not a valid eval set: {versions.problem}"), Style.ERROR)
    if versions.differences is None:
        return
    if not versions.differences:
        yield Paragraph.from_text(
            "The cases are the same in both versions." if versions.parts else "Both versions are the same."
        )
        return
    if versions.merge is not None:
        yield from _merge_blocks(versions.merge)
        return
    named = [f"{safe_line(item.eval_id)} ({item.how})" for item in versions.differences]
    yield Paragraph.from_text(f"{plural(len(versions.differences), 'case')} different: {_join_names(named)}")


def _merge_blocks(merge: Merge) -> Iterator[Block]:
    """List the changes of each side against their common origin, and say whether they can be merged."""
    for who, differences in (("you", merge.ours), ("another program", merge.theirs)):
        for how, word in _DONE.items():
            ids = [safe_line(item.eval_id) for item in differences if item.how == how]
            if ids:
                yield Paragraph((StyledText(f"{word} by {who}: ", Style.MUTED), StyledText(_join_names(ids))))
    if merge.in_both:
        ids = [safe_line(eval_id) for eval_id in merge.in_both]
        yield Paragraph((StyledText("changed differently by both: ", Style.WARNING), StyledText(_join_names(ids))))
    elif merge.content is not None:
        yield Paragraph.from_text("No case was changed by both; the versions can be merged.", Style.PASSED)


_DONE: Mapping[DifferenceKind, str] = {
    "changed": "changed",
    "only in ours": "added",
    "only in theirs": "removed",
    "moved": "moved",
}
"""The change of a case by one side, for each kind of difference from the common origin."""


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join([*names[:_MOST_NAMED], f"{more:,} more"] if more > 0 else names)


def _columns(versions: Versions, ours: str, theirs: str) -> Iterator[Block]:
    if versions.parts:
        yield ColumnHeadings(theirs, ours)


def _parts(versions: Versions) -> Iterator[Block]:
    for part in versions.parts:
        yield Paragraph.from_text(safe_line(part.title), Style.HEADING)
        yield from _part(part)


def _part(part: VersionPart) -> Iterator[Block]:
    cut = list(runs(_lines(part.theirs), _lines(part.ours)))
    for number, (left, right, same) in enumerate(cut):
        if same:
            before, after = (0 if number == 0 else _CONTEXT), (0 if number == len(cut) - 1 else _CONTEXT)
            yield from _same(right, before, after)
        else:
            yield from (_both(one, other) for one, other in zip_longest(left, right))


def _same(lines: Sequence[str], before: int, after: int) -> Iterator[Block]:
    if len(lines) <= before + after + 1:
        yield from (_both(line, line) for line in lines)
        return
    yield from (_both(line, line) for line in lines[:before])
    yield Paragraph.from_text(f"  … {len(lines) - before - after:,} lines are the same", Style.MUTED)
    yield from (_both(line, line) for line in lines[len(lines) - after :])


def _both(theirs: str | None, ours: str | None) -> SideBySide:
    left, right = (None if line is None else Side((StyledText(safe(line)),)) for line in (theirs, ours))
    return SideBySide(left, right, differs=theirs != ours)


def _lines(text: str | None) -> list[str]:
    """Split a text into lines as an editor counts them; no lines if the version lacks this part."""
    return [] if text is None else [line.removesuffix("\r") for line in text.split("\n")]
