"""Text of the browser: its rows, and the details of the selected set or target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from rich.cells import cell_len

from workbench.model.results import RequestDifference, has_missing_samples
from workbench.report.run_report import describe_model_calls, missing_samples_lines
from workbench.store.files import derive_set_name
from workbench.tui.state.browser_list import FETCHING, NOT_READ, READING, BrowserRow, HistoryRun, ListedSet
from workbench.tui.state.browser_state import Browser, Subject
from workbench.tui.state.case_filter import SYNTAX, Query
from workbench.tui.state.case_status import (
    EDITED,
    MARKED,
    PARTLY_JUDGED,
    QUARANTINED,
    REPLAYED,
    STALE,
    Badge,
    CaseRecord,
    CaseState,
    RepeatOutcome,
    StatusBoard,
    count_passed,
    get_badge,
    get_state,
)
from workbench.tui.state.diff_lines import StyledTexts
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Heading,
    Line,
    Paragraph,
    Side,
    SideBySide,
    Style,
    StyledText,
    format_time_taken,
    measure_line,
    plural,
    safe,
    safe_line,
    shorten,
)

# Rows as drawn: marks, label and state.

_NOTHING = StyledText("")
_TONES_OF_UNREAD = {NOT_READ: Style.MUTED, READING: Style.MUTED, FETCHING: Style.RUNNING}


@dataclass(frozen=True, slots=True)
class RowView:
    """Parts of a row as drawn.

    `flag` (one cell or empty) shows that the row is marked. `mark` (one cell) shows the state of a case, or whether a
    set or target is folded. `edited` follows the label if there are unsaved edits, `partly` if the verdict lacks judge
    samples. `right` is always shown, `more` before it if there is room.
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


def make_row_view(browser: Browser, board: StatusBoard, index: int, *, importing: Collection[str]) -> RowView:
    """Make the view of one row. `importing` are the targets whose agents are being imported."""
    row = browser.rows[index]
    edited = StyledText(f" {EDITED.symbol}", EDITED.style) if browser.is_edited(row) else _NOTHING
    if row.case is None:
        view = _make_group_view(row, browser, board.count_states(row.target, row.eval_set or None), edited)
        is_importing = row.target in importing and not row.eval_set
        return replace(view, right=StyledText("importing", Style.RUNNING), more=view.right) if is_importing else view
    record = board.get_record(row.case)
    badge = _choose_badge(row, record)
    right, more, partly = StyledText(badge.word, badge.style), _NOTHING, _NOTHING
    mark = StyledText(badge.symbol, badge.style)
    if row.problem:
        right = StyledText("broken", badge.style)
    elif record is not None and _has_verdict(record):
        right = _format_time(record)
        if record.hides_flakiness:
            passed, total = count_passed(record.live_samples)
            right = StyledText(f"{REPLAYED.symbol} ~{passed}/{total}", Style.WARNING)
        elif record.is_replayed:
            right = StyledText(f"{REPLAYED.symbol} {right.text}", right.style)
        partly = StyledText(f" {PARTLY_JUDGED.symbol}", PARTLY_JUDGED.style) if record.misses_samples else _NOTHING
        if browser.freshness.is_stale(row.case):
            mark, more = StyledText(STALE.symbol, STALE.style), right
            right = StyledText(badge.symbol, STALE.style)
    elif badge is get_badge(CaseState.NOT_RUN):
        right = _NOTHING  # the symbol says it
    if row.quarantine and badge is not QUARANTINED:  # which its symbol says
        right = StyledText(f"{QUARANTINED.symbol} {right.text or QUARANTINED.word}", QUARANTINED.style)
    flag = StyledText(MARKED.symbol, MARKED.style) if row.case in browser.marks else _NOTHING
    return RowView(row.depth, flag, mark, StyledText(row.label), edited, right, more, can_fold=False, partly=partly)


def format_border_title(browser: Browser) -> str:
    """Format the title of the list's border; with a filter it has the number of listed cases."""
    if not browser.is_filtered:
        return "eval sets"
    count = browser.count_cases()
    return f"eval sets · {count.listed:,} of {count.total:,}"


def format_border_subtitle(browser: Browser) -> str:
    """Format the subtitle of the list's border: the order, and the number of marked cases."""
    marked = f"{MARKED.symbol} {len(browser.marks):,} marked · " if len(browser.marks) else ""
    return f"{marked}{browser.order.value}"


def _choose_badge(row: BrowserRow, record: CaseRecord | None) -> Badge:
    if row.problem:
        return get_badge(CaseState.ERROR)
    return get_badge(record.state if record is not None else CaseState.NOT_RUN)


def _has_verdict(record: CaseRecord) -> bool:
    return bool(record.outcomes) and record.state not in (CaseState.WAITING, CaseState.RUNNING)


def _format_time(record: CaseRecord) -> StyledText:
    """Format the duration; for several repeats how many passed; a word if it neither passed nor failed."""
    badge = get_badge(record.state)
    if record.state not in (CaseState.PASSED, CaseState.FAILED, CaseState.QUARANTINED):
        return StyledText(badge.word, badge.style)
    if len(record.verdicts) > 1:
        return StyledText(f"{record.passed_repeats}/{len(record.verdicts)}", Style.MUTED)
    return StyledText(format_time_taken(record.agent_seconds or 0.0), Style.MUTED)


def _make_group_view(row: BrowserRow, browser: Browser, counts: Mapping[CaseState, int], edited: StyledText) -> RowView:
    """Make the view of a target or set: how many cases passed, the badge of the worst state, and the stale ones."""
    fold = StyledText("▸" if browser.is_folded(row) else "▾")
    stale = browser.freshness.count_stale(row.target, row.eval_set)
    right = _summarize_counts(row, counts, is_broken=any(each.problem for each in browser.list_sets(row.target)))
    if stale:
        right = StyledText(f"{STALE.symbol}{stale:,} {right.text}", STALE.style)
    return RowView(
        row.depth, _NOTHING, fold, StyledText(row.label, Style.STRONG), edited, right, _NOTHING, can_fold=True
    )


def _summarize_counts(row: BrowserRow, counts: Mapping[CaseState, int], *, is_broken: bool) -> StyledText:
    """Format how many cases passed. `is_broken`: a set of the target is broken, so that not all its cases are known."""
    if row.problem:
        return StyledText(row.problem, _TONES_OF_UNREAD.get(row.problem, Style.ERROR))
    total, passed = sum(counts.values()), counts.get(CaseState.PASSED, 0)
    text = f"{passed:,}/{total:,}"
    for state in (CaseState.ERROR, CaseState.FAILED, CaseState.QUARANTINED):
        if counts.get(state) or (state is CaseState.ERROR and is_broken and not row.eval_set):
            return _format_badge(text, get_badge(state))
    return (
        _format_badge(text, get_badge(CaseState.PASSED)) if total and passed == total else StyledText(text, Style.MUTED)
    )


def _format_badge(text: str, badge: Badge) -> StyledText:
    return StyledText(f"{badge.symbol} {text}", badge.style)


def format_row(view: RowView, width: int) -> Line:
    """Format a row: label on the left, duration or word on the right. Without room, optional parts go first; then the
    label is cut.
    """
    lead = "  " * view.depth
    if view.flag.text:
        lead = lead[:-1]
    marks = (view.edited, view.partly)
    width_of_marks = measure_line(marks)
    fixed = len(lead) + cell_len(view.flag.text) + 2 + width_of_marks + cell_len(view.right.text) + 2
    room = width - fixed
    extra = (view.more, StyledText(" " if view.right.text else "")) if view.more.text else ()
    width_of_extra = measure_line(extra)
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


# Details of the selected set or target, and notes above a case.

_NOT_STORED = "The reference of this row is not stored; below are its answer and its scores."


def describe_unjudged(subject: Subject) -> str:
    """Describe a conversation that was not scored; empty for all others."""
    record = subject.record
    if subject.pinned is not None or subject.is_live or record is None or not record.is_only_played:
        return ""
    earlier = "; the verdict is from an earlier run" if record.reused_verdicts else ""
    if record.has_failed_to_play:
        return f"only played, with an error; r runs it again{earlier}"
    return f"only played; r judges it{earlier}"


def describe_flakiness(subject: Subject) -> str:
    """Describe how live samples of a case differ if the shown result is replayed; empty if they do not."""
    record, result = subject.record, subject.result
    if subject.pinned is not None or record is None or result is None or not result.execution.is_replayed:
        return ""
    passed, total = count_passed(record.live_samples)
    text = f"~ flaky: {passed} of {plural(total, 'live sample')} passed; this one is replayed"
    return text if record.hides_flakiness else ""


def make_case_notes(subject: Subject) -> list[Block]:
    """Make the notes above a case: problems, stale reasons, the shown repeat, and missing data."""
    if subject.is_from_history:
        notes = [Paragraph.from_text(_NOT_STORED, Style.MUTED), BLANK] if subject.lacks_reference else []
        return [*notes, *_note_missing_execution(subject)]
    if subject.pinned is not None:
        return []
    row, record, read = subject.row, subject.record, subject.loaded
    unpaired = "no agent was found for this eval set; select the set to see what to do"
    problems = [unpaired if row is not None and not row.target else "", row.problem if row is not None else ""]
    problems.append(read.problem if read is not None else "")
    blocks: list[Block] = []
    for text in dict.fromkeys(filter(None, problems)):
        blocks += [Paragraph.from_text(f"! {safe(text)}", Style.ERROR), BLANK]
    if row is not None and row.quarantine:
        blocks += [Paragraph.from_text(f"{QUARANTINED.symbol} {row.quarantine}", QUARANTINED.style), BLANK]
    if subject.is_stale:
        blocks += [
            Paragraph.from_text(f"{STALE.symbol} stale: {safe_line(why)}", STALE.style) for why in subject.stale_reasons
        ]
        blocks.append(BLANK)
    if note := describe_unjudged(subject):
        blocks += [Paragraph.from_text(note, Style.WARNING), BLANK]
    missing = missing_samples_lines(subject.result.metrics) if subject.result is not None else []
    if missing:
        blocks += [Paragraph.from_text(f"{PARTLY_JUDGED.symbol} {safe(line)}", PARTLY_JUDGED.style) for line in missing]
        blocks.append(BLANK)
    calls = subject.result.execution.model_calls if subject.result is not None else None
    if calls:
        blocks.append(Paragraph.from_text(describe_model_calls(calls), Style.MUTED))
        if note := describe_flakiness(subject):
            blocks.append(Paragraph.from_text(note, Style.WARNING))
        blocks += [] if calls.difference is None else _describe_difference(calls.difference)
        blocks.append(BLANK)
    if record is not None and subject.repeat is not None:
        blocks += _format_repeat(record, subject.repeat)
    if read is None:
        blocks.append(Paragraph.from_text("reading the case …", Style.MUTED))
    elif record is not None and subject.repeat in record.outcomes and not subject.is_live:
        blocks += _note_expired_execution(record.outcomes[subject.repeat])
    return blocks


def _describe_difference(difference: RequestDifference) -> Iterator[Block]:
    """Describe a request that differs from the recording, with the changed words."""
    yield Paragraph.from_text(safe(difference.heading), Style.MUTED)
    before, now = difference.before, difference.now
    texts = StyledTexts()
    if before is not None and now is not None:
        old, new = map(Side, texts.style_both(before, now))
        yield SideBySide(old, new, differs=True)
    elif before is not None or now is not None:
        old_side, new_side = (None if text is None else Side(texts.style(text)) for text in (before, now))
        yield SideBySide(old_side, new_side, differs=True)
    if difference.hint is not None:
        yield Paragraph.from_text(safe(difference.hint), Style.MUTED)


def describe_set(listed: ListedSet, counts: Mapping[CaseState, int], *, stale: int) -> tuple[Block, ...]:
    """Describe an eval set: path, number of cases by state, and problems."""
    blocks: list[Block] = []
    if listed.history_run is None:
        kind = "address" if listed.is_address else "dataset" if listed.is_dataset else "file"
        blocks.append(Paragraph.from_fact(kind, safe(listed.relative)))
    if listed.history_run is None and listed.target:
        blocks.append(Paragraph.from_fact("agent", safe(listed.target)))
    if listed.config:
        blocks.append(Paragraph.from_fact("criteria", safe(listed.config)))
    blocks += [BLANK, *_format_counts(counts, stale=stale)]
    if listed.cases == () and not listed.problem:
        empty = "It has no rows." if listed.is_dataset else "It has no cases yet: N adds one, chats can be saved to it."
        blocks.append(Paragraph.from_text(empty, Style.WARNING))
    return (*blocks, *make_set_notes(listed))


def make_set_notes(listed: ListedSet) -> tuple[Block, ...]:
    """Describe what is wrong with an eval set or not known of it yet, and where stored results come from.

    Empty for most sets.
    """
    blocks: list[Block] = []
    if listed.history_run is not None:
        blocks += [*_describe_history_run(listed, listed.history_run), BLANK]
    if listed.can_be_fetched and not listed.problem:
        blocks.append(
            Paragraph.from_text("Remote rows are read only on request: enter reads them, r reads and scores them.")
        )
    elif listed.is_being_fetched:
        blocks.append(Paragraph.from_text("fetching its rows …", Style.RUNNING))
    elif listed.cases is None and not listed.problem:
        what = "rows" if listed.history_run or listed.is_dataset else "file"
        blocks.append(Paragraph.from_text(f"reading the {what} …", Style.MUTED))
    if listed.problem:
        what = "these results" if listed.history_run else "this dataset" if listed.is_dataset else "this file"
        wrong = "could not be read" if listed.cases is None else "is broken: cases may be missing"
        blocks += [
            Paragraph.from_text(f"! {what} {wrong}", Style.ERROR),
            Paragraph.from_text(safe(listed.problem), indent=2),
            *([Paragraph.from_text("enter tries again", Style.MUTED)] if listed.is_address else []),
            BLANK,
        ]
    if listed.pairing_problem:
        blocks += [
            Paragraph.from_text("! no agent was found for this eval set", Style.ERROR),
            *_suggest_pairing(listed),
            BLANK,
        ]
    problems = [case for case in listed.cases or () if case.problem]
    if problems:
        blocks.append(Paragraph.from_text(f"! {len(problems)} of its cases cannot run", Style.ERROR))
        blocks += [Paragraph.from_fact(case.label, case.problem, indent=2) for case in problems[:50]]
        if len(problems) > 50:
            blocks.append(Paragraph.from_text(f"… and {len(problems) - 50} more", Style.MUTED, indent=2))
    return tuple(blocks)


def describe_target(
    target: str,
    facts: Iterable[tuple[str, str]],
    sets: Sequence[ListedSet],
    counts: Mapping[CaseState, int],
    *,
    stale: int,
) -> tuple[Block, ...]:
    """Describe a target: its facts, and the number of its cases by state."""
    return (
        *(Paragraph.from_fact(name, safe(value)) for name, value in facts),
        *make_target_notes(target, sets),
        BLANK,
        *_format_counts(counts, stale=stale),
    )


def make_target_notes(target: str, sets: Sequence[ListedSet]) -> tuple[Block, ...]:
    """Describe what a target lacks: an agent, or eval sets; empty for most targets."""
    if not target:
        return (Paragraph.from_text("No agent was found for these eval sets; select one to see what to do."),)
    if sets:
        return ()
    return (
        BLANK,
        Paragraph.from_text("No eval set belongs to this agent.", Style.WARNING),
        Paragraph.from_text(
            "Put a *.evalset.json or *.test.json file next to it, or list its files in workbench.toml: "
            "[targets.NAME] eval_sets."
        ),
    )


def describe_empty_project(
    root: str, targets: Sequence[str], problems: Sequence[str], *, find_key: Callable[[str], str]
) -> tuple[Block, ...]:
    """Describe a project without eval sets: where it was searched, and what to do."""
    agents = ", ".join(safe_line(target) for target in targets) or "none"
    chat, save = find_key("tab_chat"), find_key("chat_save")
    talking = f"· talk to the agent:  {chat}, saved by {save}"
    blocks: list[Block] = [
        Paragraph.from_text("No eval sets were found.", Style.STRONG),
        BLANK,
        Paragraph.from_fact("looked in", safe(root)),
        Paragraph.from_fact(
            "looked for", "*.evalset.json and *.test.json, except in hidden folders and installed packages"
        ),
        Paragraph.from_fact("agents found", agents),
        BLANK,
        Paragraph.from_text("What to do", Style.HEADING),
        *([Paragraph.from_text(talking, indent=2, hang=2)] if targets else []),
        Paragraph.from_text(f"· create an eval set here:  {find_key('new_set')}", indent=2, hang=2),
        Paragraph.from_text(
            "· create an eval set next to an agent:  workbench eval-set create AGENT_FOLDER NAME", indent=2, hang=2
        ),
        Paragraph.from_text("· take a tour with sample agents:  workbench tour, or workbench demo", indent=2, hang=2),
        *([] if targets else [Paragraph.from_text("· open another folder:  workbench PATH", indent=2, hang=2)]),
    ]
    if problems:
        blocks += [BLANK, Paragraph.from_text("Problems", Style.HEADING)]
        blocks += [Paragraph.from_text(f"! {safe(problem)}", Style.WARNING, indent=2) for problem in problems]
    return tuple(blocks)


def describe_no_matches(query: Query) -> tuple[Block, ...]:
    """Describe that no case matches the filter, and its syntax."""
    wanted = f'No case has "{safe_line(query.text)}" in its id, user messages or tool names.'
    if query.problems:
        blocks = [Paragraph.from_text(f"! {problem}", Style.WARNING) for problem in query.problems]
    else:
        blocks = [
            Paragraph.from_text(
                wanted if query.words and not query.places else f"No case matches {safe_line(query.text)}.",
                Style.STRONG,
            )
        ]
    return (
        *blocks,
        BLANK,
        Paragraph.from_fact("The filter takes", SYNTAX),
        BLANK,
        Paragraph.from_text("escape in the filter line lists all cases again.", Style.MUTED),
    )


def make_heading(subject: Subject) -> Heading:
    """Make the heading in the border around the panes."""
    if subject.pinned is not None:
        result = subject.pinned.result
        status = _format_status(get_state(result), partly=has_missing_samples(result.metrics))
        mark = f"{REPLAYED.symbol} " if result.execution.is_replayed else ""
        return Heading(subject.pinned.title, status, ran=f"{mark}{format_time_taken(result.agent_seconds)}")
    row = subject.row
    if row is None:
        return Heading("nothing is listed")
    if row.case is not None:
        name = row.eval_set if subject.is_from_history else derive_set_name(PurePosixPath(row.eval_set))
        why = f"stale: {safe_line(subject.stale_reasons[0])}" if subject.is_stale else ""
        state = subject.record.state if subject.record is not None else CaseState.NOT_RUN
        partly = subject.record is not None and subject.record.misses_samples
        status = _format_status(state, partly=partly)
        return Heading(row.label, status, safe_line(name), _format_run_time(subject.record), why_stale=why)
    return Heading(safe_line(row.eval_set or row.target) or "eval sets without an agent")


def _describe_history_run(listed: ListedSet, kept: HistoryRun) -> Iterator[Block]:
    yield Paragraph.from_fact("dataset", safe_line(listed.relative))
    yield Paragraph.from_fact("run", safe_line(kept.run_id))
    yield Paragraph.from_fact("began", f"{kept.began.astimezone():%Y-%m-%d %H:%M}")
    if kept.command:
        yield Paragraph.from_fact("by", safe_line(kept.command))
    if not kept.has_ended:
        yield Paragraph.from_text("The run is in progress or was interrupted; F5 reads new results.", Style.WARNING)
    yield Paragraph.from_text(
        "Stored results of the newest run; the project has no target for this dataset.", Style.MUTED
    )


def _note_missing_execution(subject: Subject) -> Iterator[Block]:
    if subject.result is not None and not subject.turns and subject.result.failure is None:
        yield Paragraph.from_text("The trace and answers of this run are no longer stored.", Style.WARNING)
        yield BLANK


def _note_expired_execution(outcome: RepeatOutcome) -> Iterator[Block]:
    result = outcome.result
    turns = result.execution.turns if result is not None else ()
    if outcome.stored_at is not None and not turns and (result is None or result.failure is None):
        yield Paragraph.from_text(
            "The trace and answers of this run are no longer stored; r runs the case again.", Style.WARNING
        )
        yield BLANK


def _format_repeat(record: CaseRecord, repeat: int) -> Iterator[Block]:
    total = len(record.outcomes) + len(record.turns)
    if total > 1:
        passed = "" if record.is_only_played else f", {record.passed_repeats} passed"
        yield Paragraph.from_text(f"repeat {repeat + 1} of {total}{passed}", Style.MUTED)
        yield BLANK


def _format_status(state: CaseState, *, partly: bool) -> str:
    """Format a state, with a mark if the verdict is `partly` that of a judge whose samples are missing."""
    badge = get_badge(state)
    return f"{badge.symbol} {badge.word.upper()}{f' {PARTLY_JUDGED.symbol}' if partly else ''}"


def _format_run_time(record: CaseRecord | None) -> str:
    if record is None or record.agent_seconds is None:
        return ""
    stored = f", stored {record.stored_at.astimezone():%Y-%m-%d %H:%M}" if record.stored_at is not None else ""
    mark = f"{REPLAYED.symbol} " if record.is_replayed else ""
    return f"{mark}{format_time_taken(record.agent_seconds)}{stored}"


def _format_counts(counts: Mapping[CaseState, int], *, stale: int) -> Iterator[Block]:
    total = sum(counts.values())
    yield Paragraph.from_fact("cases", f"{total:,}")
    for state in CaseState:
        if count := counts.get(state, 0):
            badge = get_badge(state)
            yield Paragraph(
                (StyledText(f"{badge.symbol} {badge.word}  ", badge.style), StyledText(f"{count:,}")), indent=2
            )
    if stale:
        yield Paragraph(
            (StyledText(f"{STALE.symbol} {STALE.word}  ", STALE.style), StyledText(f"{stale:,} of these")), indent=2
        )
    yield BLANK


def _suggest_pairing(listed: ListedSet) -> Iterator[Block]:
    yield Paragraph.from_text(safe(listed.pairing_problem), indent=2)
    yield Paragraph.from_text(f'[targets.NAME]\neval_sets = ["{safe_line(listed.relative)}"]', Style.KEY, indent=4)
