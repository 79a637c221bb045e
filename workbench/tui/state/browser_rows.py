"""The rows of the browser as they are drawn, and the details of the selected one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from rich.cells import cell_len

from workbench.model.results import has_missing_samples
from workbench.report.run_report import missing_samples_lines
from workbench.store.filetypes import derive_set_name
from workbench.tui.state.browser_list import FETCHING, NOT_READ, READING, KeptRun, ListedSet, Row
from workbench.tui.state.browser_state import Browser, Subject
from workbench.tui.state.case_board import (
    EDITED,
    MARKED,
    PARTLY_JUDGED,
    STALE,
    Board,
    CaseRecord,
    Look,
    Outcome,
    Standing,
    look_of,
    standing_of,
)
from workbench.tui.state.case_filter import SYNTAX, Query
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Heading,
    Line,
    Paragraph,
    Style,
    StyledText,
    format_time_taken,
    safe,
    safe_line,
    shorten,
)

# The rows of the browser as they are drawn: marks, label, and how it stands.

_NOTHING = StyledText("")
_TONES_OF_UNREAD = {NOT_READ: Style.MUTED, READING: Style.MUTED, FETCHING: Style.RUNNING}


@dataclass(frozen=True, slots=True)
class RowView:
    """A row as it is drawn.

    `flag` is one cell, or nothing: whether the row is marked. `mark` is one cell: how a case stands, or whether what is
    below the row is hidden. `edited` follows the label where there are unsaved edits, `partly` where the verdict lacks
    samples of a judge. `right` is always shown, `more` stands before it where there is room.
    """

    depth: int
    flag: StyledText
    mark: StyledText
    label: StyledText
    edited: StyledText
    right: StyledText
    more: StyledText
    can_fold: bool
    partly: StyledText = _NOTHING


def row_view(browser: Browser, board: Board, index: int, *, importing: Collection[str]) -> RowView:
    """One row as it is drawn now; `importing` are the targets whose agents are being imported."""
    row = browser.rows[index]
    edited = StyledText(f" {EDITED.symbol}", EDITED.style) if browser.is_edited(row) else _NOTHING
    if row.case is None:
        view = _group_view(row, browser, board.counts(row.target, row.eval_set or None), edited)
        is_importing = row.target in importing and not row.eval_set
        return replace(view, right=StyledText("importing", Style.RUNNING), more=view.right) if is_importing else view
    record = board.record(row.case)
    look = _look(row, record)
    right, more, partly = StyledText(look.word, look.style), _NOTHING, _NOTHING
    mark = StyledText(look.symbol, look.style)
    if row.problem:
        right = StyledText("broken", look.style)
    elif record is not None and _is_verdict(record):
        right = _time(record)
        more = StyledText("stored", Style.MUTED) if record.stored_at is not None else _NOTHING
        partly = StyledText(f" {PARTLY_JUDGED.symbol}", PARTLY_JUDGED.style) if record.misses_samples else _NOTHING
        if browser.freshness.is_stale(row.case):
            mark, more, right = (
                StyledText(STALE.symbol, STALE.style),
                right,
                StyledText(f"{look.symbol} {STALE.word}", STALE.style),
            )
    elif look is look_of(Standing.NOT_RUN):
        right, more = _NOTHING, right  # the symbol says it too
    flag = StyledText(MARKED.symbol, MARKED.style) if row.case in browser.marks else _NOTHING
    return RowView(row.depth, flag, mark, StyledText(row.label), edited, right, more, can_fold=False, partly=partly)


def border_title(browser: Browser) -> str:
    """What the frame of the list says above it: how many cases are listed where a filter hides others."""
    if not browser.is_filtered:
        return "eval sets"
    listed, total = (sum(1 for _ in rows) for rows in (browser.listed_case_rows(), browser.case_rows()))
    return f"eval sets · {listed:,} of {total:,}"


def border_subtitle(browser: Browser) -> str:
    """What the frame of the list says below it: the order, and how many cases are marked."""
    marked = f"{MARKED.symbol} {len(browser.marks):,} marked · " if len(browser.marks) else ""
    return f"{marked}{browser.order.value}"


def _look(row: Row, record: CaseRecord | None) -> Look:
    if row.problem:
        return look_of(Standing.ERROR)
    return look_of(record.standing if record is not None else Standing.NOT_RUN)


def _is_verdict(record: CaseRecord) -> bool:
    return bool(record.outcomes) and record.standing not in (Standing.WAITING, Standing.RUNNING)


def _time(record: CaseRecord) -> StyledText:
    """How long it took; of several repeats how many passed; a word where it did neither pass nor fail."""
    look = look_of(record.standing)
    if record.standing not in (Standing.PASSED, Standing.FAILED):
        return StyledText(look.word, look.style)
    if len(record.verdicts) > 1:
        return StyledText(f"{record.passed_repeats}/{len(record.verdicts)}", Style.MUTED)
    return StyledText(format_time_taken(record.agent_seconds or 0.0), Style.MUTED)


def _group_view(row: Row, browser: Browser, counts: Mapping[Standing, int], edited: StyledText) -> RowView:
    """A target or a set: how many of its cases passed, marked by the worst of them, and how many are stale."""
    fold = StyledText("▸" if browser.is_folded(row) else "▾")
    stale = browser.freshness.count(row.target, row.eval_set)
    right = _roll_up(row, counts)
    if stale:
        right = StyledText(f"{STALE.symbol}{stale:,} {right.text}", STALE.style)
    return RowView(
        row.depth, _NOTHING, fold, StyledText(row.label, Style.STRONG), edited, right, _NOTHING, can_fold=True
    )


def _roll_up(row: Row, counts: Mapping[Standing, int]) -> StyledText:
    if row.problem:
        return StyledText(row.problem, _TONES_OF_UNREAD.get(row.problem, Style.ERROR))
    total, passed = sum(counts.values()), counts.get(Standing.PASSED, 0)
    text = f"{passed:,}/{total:,}"
    for standing in (Standing.ERROR, Standing.FAILED):
        if counts.get(standing):
            return _marked(text, look_of(standing))
    return _marked(text, look_of(Standing.PASSED)) if total and passed == total else StyledText(text, Style.MUTED)


def _marked(text: str, look: Look) -> StyledText:
    return StyledText(f"{look.symbol} {text}", look.style)


def line_of(view: RowView, width: int) -> Line:
    """Label on the left, time or word on the right; what can be left out is, then the label is cut."""
    lead = "  " * view.depth
    if view.flag.text:
        lead = lead[:-1]
    marks = (view.edited, view.partly)
    width_of_marks = sum(cell_len(piece.text) for piece in marks)
    fixed = len(lead) + cell_len(view.flag.text) + 2 + width_of_marks + cell_len(view.right.text) + 2
    room = width - fixed
    extra = (view.more, StyledText(" " if view.right.text else "")) if view.more.text else ()
    width_of_extra = sum(cell_len(piece.text) for piece in extra)
    if cell_len(view.label.text) + width_of_extra <= room:
        room -= width_of_extra
    else:
        extra = ()
    label = [StyledText(shorten(view.label.text, max(room, 4)), view.label.style)]
    gap = max(room - sum(cell_len(piece.text) for piece in label), 0)
    return (
        StyledText(lead), view.flag, view.mark, StyledText(" "), *label, *marks, StyledText(" " * (gap + 1)), *extra,
        view.right, StyledText(" "),
    )  # fmt: skip


# What there is to say of the selected row besides a case: of an eval set, a target, or that there is nothing.

_NOT_STORED = "No reference of this row is stored: here is what was answered, and how it was judged."


def played_note(subject: Subject) -> str:
    """What there is to say of a conversation that nothing has judged; empty of any other."""
    record = subject.record
    if subject.pinned is not None or subject.is_live or record is None or not record.is_only_played:
        return ""
    earlier = "; the verdict is that on an earlier one" if record.judged else ""
    if record.has_failed_to_play:
        return f"only played, and that failed, r runs it again{earlier}"
    return f"only played, r judges it{earlier}"


def case_head(subject: Subject) -> list[Block]:
    """What is to be said before a case: what is wrong with it, which repeat is looked at, what is still to come."""
    if subject.is_kept:
        told = [Paragraph.from_text(_NOT_STORED, Style.MUTED), BLANK] if subject.lacks_expected else []
        return [*told, *_what_is_not_kept(subject)]
    if subject.pinned is not None:
        return []
    row, record, read = subject.row, subject.record, subject.read
    unpaired = "no agent was found for this eval set; select the set to see what to do"
    problems = [unpaired if row is not None and not row.target else "", row.problem if row is not None else ""]
    problems.append(read.problem if read is not None else "")
    blocks: list[Block] = []
    for text in dict.fromkeys(filter(None, problems)):
        blocks += [Paragraph.from_text(f"! {safe(text)}", Style.ERROR), BLANK]
    if subject.is_stale:
        blocks += [
            Paragraph.from_text(f"{STALE.symbol} stale: {safe_line(why)}", STALE.style) for why in subject.why_stale
        ]
        blocks.append(BLANK)
    if note := played_note(subject):
        blocks += [Paragraph.from_text(note, Style.WARNING), BLANK]
    missing = missing_samples_lines(subject.result.metrics) if subject.result is not None else []
    if missing:
        blocks += [Paragraph.from_text(f"{PARTLY_JUDGED.symbol} {safe(line)}", PARTLY_JUDGED.style) for line in missing]
        blocks.append(BLANK)
    if record is not None and subject.repeat is not None:
        blocks += _repeat_line(record, subject.repeat)
    if read is None:
        blocks.append(Paragraph.from_text("reading the case …", Style.MUTED))
    elif record is not None and subject.repeat in record.outcomes and not subject.is_live:
        blocks += _what_is_not_stored(record.outcomes[subject.repeat])
    return blocks


def set_detail(listed: ListedSet, counts: Mapping[Standing, int], *, stale: int) -> tuple[Block, ...]:
    """An eval set: where it is, how its cases stand, and what is wrong with it."""
    blocks: list[Block] = []
    if listed.kept is None:
        kind = "address" if listed.is_address else "dataset" if listed.is_dataset else "file"
        blocks.append(_fact(kind, listed.relative))
    if listed.kept is not None:
        blocks += _kept_facts(listed, listed.kept)
    elif listed.target:
        blocks.append(_fact("agent", listed.target))
    if listed.config:
        blocks.append(_fact("criteria", listed.config))
    blocks += [BLANK, *_count_blocks(counts, stale=stale)]
    if listed.cases == ():
        empty = "It has no rows." if listed.is_dataset else "It has no cases yet: N adds one, chats can be saved to it."
        blocks.append(Paragraph.from_text(empty, Style.WARNING))
    if listed.is_to_be_read and not listed.problem:
        blocks.append(
            Paragraph.from_text("Nothing is read from an address unasked: enter reads its rows, r judges them.")
        )
    elif listed.is_being_fetched:
        blocks.append(Paragraph.from_text("fetching its rows …", Style.RUNNING))
    elif listed.cases is None and not listed.problem:
        what = "rows" if listed.kept or listed.is_dataset else "file"
        blocks.append(Paragraph.from_text(f"reading the {what} …", Style.MUTED))
    if listed.problem:
        what = "these results" if listed.kept else "this dataset" if listed.is_dataset else "this file"
        blocks += [
            Paragraph.from_text(f"! {what} could not be read", Style.ERROR),
            Paragraph.from_text(safe(listed.problem), indent=2),
            *([Paragraph.from_text("enter tries it again.", Style.MUTED)] if listed.is_address else []),
            BLANK,
        ]
    if listed.unpaired:
        blocks += [
            Paragraph.from_text("! no agent was found for this eval set", Style.ERROR),
            *_what_to_pair(listed),
            BLANK,
        ]
    problems = [case for case in listed.cases or () if case.problem]
    if problems:
        blocks.append(Paragraph.from_text(f"! {len(problems)} of its cases cannot run", Style.ERROR))
        blocks += [
            Paragraph((StyledText(f"{case.label}  ", Style.KEY), StyledText(case.problem)), indent=2)
            for case in problems[:50]
        ]
        if len(problems) > 50:
            blocks.append(Paragraph.from_text(f"… and {len(problems) - 50} more", Style.MUTED, indent=2))
    return tuple(blocks)


def target_detail(
    target: str,
    facts: Iterable[tuple[str, str]],
    sets: Sequence[ListedSet],
    counts: Mapping[Standing, int],
    *,
    stale: int,
) -> tuple[Block, ...]:
    """A target: what it is and how its cases stand."""
    blocks: list[Block] = [_fact(name, value) for name, value in facts]
    if not target:
        blocks.append(
            Paragraph.from_text("These eval sets belong to no agent that was found; select one to see what to do.")
        )
    elif not sets:
        blocks += [
            BLANK,
            Paragraph.from_text("No eval set belongs to this agent.", Style.WARNING),
            Paragraph.from_text(
                "Put a *.evalset.json or *.test.json file beside it, or name its files in workbench.toml: "
                "[targets.NAME] eval_sets."
            ),
        ]
    blocks += [BLANK, *_count_blocks(counts, stale=stale)]
    return tuple(blocks)


def empty_detail(root: str, targets: Sequence[str], problems: Sequence[str]) -> tuple[Block, ...]:
    """A project without eval sets: what was looked for, and what to do."""
    agents = ", ".join(safe_line(target) for target in targets) or "none"
    blocks: list[Block] = [
        Paragraph.from_text("No eval sets were found.", Style.STRONG),
        BLANK,
        _fact("looked in", root),
        _fact("looked for", "files named *.evalset.json or *.test.json, in every folder but hidden and installed ones"),
        _fact("agents found", agents),
        BLANK,
        Paragraph.from_text("What to do", Style.HEADING),
        Paragraph.from_text("· open another folder:  workbench PATH", indent=2, hang=2),
        Paragraph.from_text("· make an eval set here:  ctrl+n", indent=2, hang=2),
        Paragraph.from_text(
            "· make an eval set beside an agent:  workbench eval-set create AGENT_FOLDER NAME", indent=2, hang=2
        ),
        Paragraph.from_text("· see how it looks with sample agents:  workbench demo", indent=2, hang=2),
    ]
    if problems:
        blocks += [BLANK, Paragraph.from_text("Problems", Style.HEADING)]
        blocks += [Paragraph.from_text(f"! {safe(problem)}", Style.WARNING, indent=2) for problem in problems]
    return tuple(blocks)


def nothing_listed_detail(query: Query) -> tuple[Block, ...]:
    """No case is what is filtered by."""
    wanted = f'No case has "{safe_line(query.text)}" in its id, in what the user says, or in the names of its tools.'
    if query.problems:
        blocks = [Paragraph.from_text(f"! {problem}", Style.WARNING) for problem in query.problems]
    else:
        blocks = [Paragraph.from_text(wanted if query.words else f"No case is {safe_line(query.text)}.", Style.STRONG)]
    return (
        *blocks,
        BLANK,
        Paragraph((StyledText("The filter takes  ", Style.KEY), StyledText(SYNTAX)), hang=2),
        BLANK,
        Paragraph.from_text("escape in the filter line lists all cases again.", Style.MUTED),
    )


def heading_of(subject: Subject) -> Heading:
    """What stands in the frame around the panes."""
    if subject.pinned is not None:
        result = subject.pinned.result
        status = _status(standing_of([result.status]), partly=has_missing_samples(result.metrics))
        return Heading(subject.pinned.title, status, format_time_taken(result.agent_seconds))
    row = subject.row
    if row is None:
        return Heading("nothing is listed")
    if row.case is not None:
        name = row.eval_set if subject.is_kept else derive_set_name(PurePosixPath(row.eval_set))
        title = f"{row.label} · {safe_line(name)}"
        why = f"stale: {safe_line(subject.why_stale[0])}" if subject.is_stale else ""
        standing = subject.record.standing if subject.record is not None else Standing.NOT_RUN
        partly = subject.record is not None and subject.record.misses_samples
        return Heading(title, _status(standing, partly=partly), _ran(subject.record), why_stale=why)
    return Heading(safe_line(row.eval_set or row.target) or "eval sets without an agent")


def _kept_facts(listed: ListedSet, kept: KeptRun) -> Iterator[Block]:
    yield _fact("dataset", safe_line(listed.relative))
    yield _fact("run", safe_line(kept.run_id))
    yield _fact("began", f"{kept.began.astimezone():%Y-%m-%d %H:%M}")
    if kept.command:
        yield _fact("by", safe_line(kept.command))
    if not kept.has_ended:
        yield Paragraph.from_text("It goes on, or was interrupted: F5 looks for more results.", Style.WARNING)
    yield Paragraph.from_text(
        "Results of the newest run as the history keeps them; the project has no such target.", Style.MUTED
    )


def _what_is_not_kept(subject: Subject) -> Iterator[Block]:
    if subject.result is not None and not subject.turns and subject.result.failure is None:
        yield Paragraph.from_text("What the agent did then is no longer stored.", Style.WARNING)
        yield BLANK


def _what_is_not_stored(outcome: Outcome) -> Iterator[Block]:
    result = outcome.result
    turns = result.execution.turns if result is not None else ()
    if outcome.stored_at is not None and not turns and (result is None or result.failure is None):
        yield Paragraph.from_text(
            "What the agent did then is no longer stored; run the case again to see it.", Style.WARNING
        )
        yield BLANK


def _repeat_line(record: CaseRecord, repeat: int) -> Iterator[Block]:
    total = len(record.outcomes) + len(record.turns)
    if total > 1:
        passed = "" if record.is_only_played else f", {record.passed_repeats} passed"
        yield Paragraph.from_text(f"repeat {repeat + 1} of {total}{passed}", Style.MUTED)
        yield BLANK


def _status(standing: Standing, *, partly: bool) -> str:
    """How it stands, marked if the verdict is `partly` that of a judge whose samples are missing."""
    look = look_of(standing)
    return f"{look.symbol} {look.word.upper()}{f' {PARTLY_JUDGED.symbol}' if partly else ''}"


def _ran(record: CaseRecord | None) -> str:
    if record is None or record.agent_seconds is None:
        return ""
    stored = f", stored {record.stored_at.astimezone():%Y-%m-%d %H:%M}" if record.stored_at is not None else ""
    return f"{format_time_taken(record.agent_seconds)}{stored}"


def _count_blocks(counts: Mapping[Standing, int], *, stale: int) -> Iterator[Block]:
    total = sum(counts.values())
    yield _fact("cases", f"{total:,}")
    for standing in Standing:
        if count := counts.get(standing, 0):
            look = look_of(standing)
            yield Paragraph(
                (StyledText(f"{look.symbol} {look.word}  ", look.style), StyledText(f"{count:,}")), indent=2
            )
    if stale:
        yield Paragraph(
            (StyledText(f"{STALE.symbol} {STALE.word}  ", STALE.style), StyledText(f"{stale:,} of these")), indent=2
        )
    yield BLANK


def _what_to_pair(listed: ListedSet) -> Iterator[Block]:
    yield Paragraph.from_text(safe(listed.unpaired), indent=2)
    yield Paragraph.from_text(f'[targets.NAME]\neval_sets = ["{safe_line(listed.relative)}"]', Style.KEY, indent=4)


def _fact(name: str, value: str) -> Paragraph:
    return Paragraph((StyledText(f"{name}  ", Style.KEY), StyledText(safe(value))), hang=2)
