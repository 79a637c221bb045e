"""Two versions of an eval set as blocks: a diff of their texts, part by part."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest

from workbench.engine.set_files import Merge, VersionPart, Versions
from workbench.store.evalsets.new_evalsets import DifferenceKind
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Columns,
    Paragraph,
    Side,
    SideBySide,
    Style,
    StyledText,
    plural,
    safe,
    safe_line,
)

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
    if versions.problem:
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
        yield Columns(theirs, ours)


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
