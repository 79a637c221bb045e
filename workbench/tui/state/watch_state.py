"""Watch mode as the screen shows it: changes, the cases they affect and why, and stale verdicts."""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, ModelCalls
from workbench.model.text import format_duration
from workbench.report.run_report import describe_sources, mark_replayed
from workbench.tui.state.browser_list import Freshness, Hashes
from workbench.tui.state.case_status import (
    QUARANTINED,
    STALE,
    Badge,
    CaseRecord,
    CaseState,
    ResultLocation,
    StatusBoard,
    get_badge,
    get_state,
)
from workbench.tui.state.problem_list import Problems
from workbench.tui.state.text_layout import (
    ItemRows,
    Line,
    Style,
    StyledText,
    cut_line,
    measure_line,
    plural,
    safe_line,
)

if TYPE_CHECKING:
    from workbench.watch.watch_events import ChangeSeen, SourceBroken, VerdictKnown, WatchEvent


# Alarms: one message for each change that made passing cases fail.

_PATIENCE = 1.0  # seconds to wait for further cases after the first one
_MOST_NAMED = 3


@dataclass
class Alarm:
    """The cases that passed before a change and do not any more.

    `is_complete`: no further case of this change will be added.
    """

    is_complete: bool = False
    _cases: dict[CaseKey, CaseStatus] = field(default_factory=dict)
    _since: float | None = None
    _announced: int = 0  # cases in the last announcement

    def add(self, case: CaseKey, status: CaseStatus, *, now: float) -> None:
        """Add a case that no longer passes."""
        self._cases[case] = status
        if self._since is None:
            self._since = now

    @property
    def is_waiting(self) -> bool:
        """Whether there is a message that `announce` has not returned yet."""
        return self._announced < len(self._cases)

    def announce(self, *, now: float) -> str | None:
        """Return the message when it is due, otherwise None.

        It is due soon after the first case, and again with the final count if further cases were added since.
        """
        if self._since is None or not self.is_waiting:
            return None
        if not self.is_complete and (self._announced or now - self._since < _PATIENCE):
            return None
        self._announced = len(self._cases)
        names = [safe_line(case.eval_id, width=60) for case in self._cases]
        if len(names) == 1:
            (status,) = self._cases.values()
            word = "FAILED" if status is CaseStatus.FAILED else status.value.replace("_", " ")
            return f"{names[0]} passed before and is {word} now"
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"{len(names):,} cases passed before and do not now: {', '.join(names[:_MOST_NAMED])}{more}"


# Decisions of a watch in words. Reasons and names may come from outside and are not safe to draw as they are.


@dataclass(frozen=True, slots=True)
class AffectedJob:
    """A job that a change affects, and why. `is_judged`: it is scored again without running the agent."""

    job: JobKey
    reason: str
    is_judged: bool


@dataclass(frozen=True, slots=True)
class CaseStates:
    """The state of every case, made from `DecisionsMade`.

    `stale` has the reasons of each stale job. `affected` jobs run, are scored again, or wait for that; `reaches` say
    how many cases each reason affects. `held` exceed the limits for one change. `reused` counts current verdicts of
    earlier runs.
    """

    root: Path
    files: int
    total: int
    stale: Mapping[JobKey, Sequence[str]] = field(default_factory=dict)
    affected: Sequence[AffectedJob] = ()
    reaches: Sequence[str] = ()
    broken: Sequence[SourceBroken] = ()
    held: frozenset[JobKey] = frozenset()
    reused: int = 0


@dataclass(frozen=True, slots=True)
class ReusedVerdict:
    """A verdict of an earlier run is current, for a case with these hashes."""

    result: CaseResult
    stored_at: datetime
    hashes: Hashes
    place: ResultLocation


ScreenEvent: TypeAlias = "WatchEvent | CaseStates | ReusedVerdict"
"""Events for the screen: those of the watch, with `CaseStates` and `ReusedVerdict` instead of `DecisionsMade`."""


# The state of the watch.

_MOST_CHANGES = 20
_MOST_CASES = 100  # that are listed for one change
_WIDE = 100  # columns from which the header says how many files are watched
_NARROW = 60  # columns below which the header has only a symbol


class WatchMode(StrEnum):
    """What the watch does."""

    OFF = "off"
    STARTING = "starting"
    ON = "on"
    PAUSED = "paused"


@dataclass
class SeenChange:
    """A change, the cases it affects, and their results.

    `affected` are the first jobs that run because of it, `jobs` all of them. `reused` counts earlier verdicts that are
    current again. `seconds` is the time from the save to the first verdict. `model_calls` are those of jobs whose agent
    called a model.
    """

    number: int
    event: ChangeSeen
    affected: Sequence[AffectedJob]
    reaches: Sequence[str]
    jobs: frozenset[JobKey]
    reused: int
    seconds: float | None = None
    verdicts: dict[JobKey, CaseState] = field(default_factory=dict)
    model_calls: dict[JobKey, ModelCalls] = field(default_factory=dict)
    alarm: Alarm = field(default_factory=Alarm)

    @property
    def has_effect(self) -> bool:
        """Whether it changed or restored a verdict, or would."""
        return self.event.has_effect or bool(self.reused)


class WatchState:
    """What the screen knows of the watch. The screen changes it only through these methods."""

    def __init__(self, board: StatusBoard, freshness: Freshness, problems: Problems) -> None:
        self.mode = WatchMode.OFF
        self.root = Path()
        self.files = 0
        self.total = 0
        self.scan_reason = ""  # why files are compared because there are no events
        self.failure = ""  # why the watch ended by itself
        self.changes: list[SeenChange] = []  # newest first
        self.broken: Sequence[SourceBroken] = ()
        self.pending: Sequence[AffectedJob] = ()  # while paused
        self.held: frozenset[JobKey] = frozenset()
        self._board = board
        self._freshness = freshness
        self._problems = problems
        self._stale: set[JobKey] = set()
        self._stale_jobs: Counter[CaseKey] = Counter()  # of each case
        self._states: CaseStates | None = None
        self._passed: set[CaseKey] = set()  # before the current run
        self._seen = 0
        self._reused = 0  # verdicts that became current again since the last change

    @property
    def is_active(self) -> bool:
        """Whether there is a watch, paused or not."""
        return self.mode is not WatchMode.OFF

    @property
    def stale(self) -> int:
        return len(self._stale)

    def start(self) -> None:
        """Note that the user turned the watch on."""
        self.mode, self.failure, self.scan_reason, self._reused = WatchMode.STARTING, "", "", 0

    def pause(self) -> None:
        self.mode, self._reused = WatchMode.PAUSED, 0

    def resume(self) -> None:
        self.mode, self.pending = WatchMode.ON, ()

    def end(self, failure: str = "") -> None:
        """Note that the watch ended, by the user or by a failure. Known reasons of stale verdicts remain."""
        self.mode, self.failure = WatchMode.OFF, failure
        self.broken, self.pending, self.held = (), (), frozenset()
        self._set_stale({})
        self._problems.set_broken_sources([])
        self._freshness.end_watch()

    def apply(self, event: ScreenEvent, *, now: float) -> Iterable[CaseKey]:
        """Apply an event of the watch, but not of its runs. Return the cases whose status changed."""
        from workbench.watch.watch_events import ChangeSeen, VerdictKnown, WatchRunStarted, WatchStarted

        match event:
            case WatchStarted():
                self.scan_reason = event.reason
                if self.mode is WatchMode.STARTING:
                    self.mode = WatchMode.ON
            case CaseStates():
                self._set_states(event)
            case ChangeSeen():
                self._add_change(event)
            case WatchRunStarted():
                self._note_passed(event.jobs)
            case VerdictKnown():
                self._add_verdict(event, now=now)
            case ReusedVerdict():
                return self._show_reused(event)
        return ()

    def announce_alarm(self, *, now: float) -> tuple[str, str] | None:
        """Return the message and the reason of an alarm that is due; otherwise None."""
        for change in self.changes:
            words = change.alarm.announce(now=now)
            if words is not None:
                return words, change.event.reason
        return None

    @property
    def has_alarm(self) -> bool:
        """Whether an alarm is due, now or later."""
        return any(change.alarm.is_waiting for change in self.changes)

    def complete_alarms(self) -> None:
        """Note that no further results of the changes will come."""
        for change in self.changes:
            change.alarm.is_complete = True

    def header(self, width: int) -> Line:
        """Return the part of the top line for the watch, for a screen of this width."""
        if self.mode is WatchMode.OFF:
            return ()
        symbol, words, short = _LOOKS[self.mode]
        style = Style.WARNING if self.mode is WatchMode.PAUSED else Style.RUNNING
        if self.mode is WatchMode.ON:
            words = f"watching {plural(self.files, 'file')}"
        shown = words if width >= _WIDE else short if width >= _NARROW else ""
        return (StyledText(f" {symbol} {shown} " if shown else f" {symbol} ", style),)

    def _set_states(self, states: CaseStates) -> None:
        self._states = states
        self.root, self.files, self.total, self.held = states.root, states.files, states.total, states.held
        self._reused += states.reused
        self._set_stale(states.stale)
        self._freshness.set_watch_findings(_group_by_case(states.stale))
        if tuple(states.broken) != tuple(self.broken):
            self.broken = tuple(states.broken)
            self._problems.set_broken_sources(
                [(self.root / each.path, each.path, each.line, each.message) for each in self.broken]
            )
        if self.mode is WatchMode.PAUSED:
            self.pending = states.affected

    def _set_stale(self, stale: Iterable[JobKey]) -> None:
        self._stale = set(stale)
        self._stale_jobs = Counter(job.case for job in self._stale)

    def _mark_current(self, job: JobKey) -> bool:
        """Mark a job as current. Return True if all repeats of its case are."""
        if job in self._stale:
            self._stale.discard(job)
            self._stale_jobs[job.case] -= 1
        return not self._stale_jobs[job.case]

    def _add_change(self, event: ChangeSeen) -> None:
        affected = self._states.affected if self._states is not None else ()
        has_effect = event.has_effect or bool(self._reused)
        if not has_effect and not event.is_used and all(map(os.path.isabs, event.paths)):
            return  # outside of the project, for example in a folder for temporary files
        same = None if has_effect else self._pop_equal_change(event)
        if same is not None:
            same.event = event.model_copy(update={"times": same.event.times + 1})
            self.changes.insert(0, same)
            return
        self._seen += 1
        seen = SeenChange(
            number=self._seen,
            event=event,
            affected=affected[:_MOST_CASES],
            reaches=self._states.reaches if self._states is not None else (),
            jobs=frozenset(each.job for each in affected),
            reused=self._reused,
        )
        self._reused = 0
        if has_effect:
            for earlier in self.changes:  # further results belong to the new change
                earlier.alarm.is_complete = True
        self.changes.insert(0, seen)
        if len(self.changes) > _MOST_CHANGES:
            oldest_first = range(_MOST_CHANGES, 0, -1)
            del self.changes[next((i for i in oldest_first if not self.changes[i].has_effect), _MOST_CHANGES)]

    def _pop_equal_change(self, event: ChangeSeen) -> SeenChange | None:
        """Remove and return a change of the same paths, if no change since then had an effect."""
        for index, change in enumerate(self.changes):
            if change.has_effect:
                return None
            if change.event.paths == event.paths:
                return self.changes.pop(index)
        return None

    def _note_passed(self, jobs: Iterable[JobKey]) -> None:
        for case in {job.case for job in jobs}:
            record = self._board.get_record(case)
            if record is not None and _has_passed(record):
                self._passed.add(case)
            elif record is not None and (record.outcomes or record.previous_outcomes):
                self._passed.discard(case)

    def _add_verdict(self, event: VerdictKnown, *, now: float) -> None:
        result = event.result
        job = JobKey(case=result.case, repeat=result.repeat)
        if event.holds and self._mark_current(job):
            self._freshness.mark_current(job.case)
        change = next((each for each in self.changes if job in each.jobs), None)
        if change is None:
            return
        change.verdicts[job] = get_state(result)
        if result.execution.model_calls:
            change.model_calls[job] = result.execution.model_calls
        if change.seconds is None:
            change.seconds = event.seconds_since_save
        is_good = result.status is CaseStatus.PASSED or result.is_quarantined
        if not is_good and result.case in self._passed:
            change.alarm.add(result.case, result.status, now=now)

    def _show_reused(self, event: ReusedVerdict) -> Iterable[CaseKey]:
        result = event.result
        if self._mark_current(JobKey(case=result.case, repeat=result.repeat)):
            self._freshness.mark_current(result.case, event.hashes)
        return self._board.restore_result(result, stored_at=event.stored_at, place=event.place)


_LOOKS = {
    WatchMode.STARTING: ("◌", "watch is starting …", "watch …"),
    WatchMode.ON: ("◉", "watching", "watching"),
    WatchMode.PAUSED: ("◌", "watch paused", "paused"),
}


def _group_by_case(stale: Mapping[JobKey, Sequence[str]]) -> Mapping[CaseKey, Sequence[str]]:
    """Return the reasons of the first stale job of each case."""
    found: dict[CaseKey, Sequence[str]] = {}
    for job, why in stale.items():
        found.setdefault(job.case, why)
    return found


def _has_passed(record: CaseRecord) -> bool:
    """Return True if the case passed when it last ran to its end."""
    for outcomes in (record.verdicts, record.previous_outcomes):
        ended = [each.status for each in outcomes.values() if each.status is not CaseStatus.CANCELLED]
        if ended:
            return all(status is CaseStatus.PASSED for status in ended)
    return False


# The rows of the watch pane: waiting jobs first, then the changes, newest first, with the cases they affect.

_MOST_PATHS = 3
_CASE_WIDTH = 36
_WIDE = 100  # cells from which there is room for all words


@dataclass(frozen=True, slots=True)
class WatchEntry:
    """A row: a line, text at its right end (with a `short` form for narrow screens), and the item it is about."""

    line: Line
    right: Line = ()
    short: Line = ()
    job: JobKey | None = None
    broken: SourceBroken | None = None
    identity: tuple[object, ...] = ()


class WatchRows(ItemRows[WatchEntry]):
    """Rows for a list. The cursor stays on its row while rows are added; at the top it stays at the top."""

    def __init__(self, find_key: Callable[[str], str]) -> None:
        self._find_key = find_key
        self.rows: list[WatchEntry] = []
        self._is_moved = False  # away from the top

    @property
    def selected_case(self) -> CaseKey | None:
        entry = self.selected_row
        return entry.job.case if entry is not None and entry.job is not None else None

    @property
    def selected_broken(self) -> SourceBroken | None:
        """The source file of the row under the cursor, if it does not compile."""
        return self.selected_row.broken if self.selected_row is not None else None

    @property
    def text(self) -> str:
        return "\n".join("".join(piece.text for piece in (*each.line, *each.right)).strip() for each in self.rows)

    def show(self, watch: WatchState, board: StatusBoard) -> None:
        selected = self.selected_row
        self.rows = list(_entries(watch, board, self._find_key))
        super().move_to(self._find_index(selected) if self._is_moved else 0)

    def move(self, by: int) -> None:
        super().move(by)
        self._note_position()

    def move_to(self, index: int) -> None:
        """Move the cursor to a row, at most to the first or last one."""
        super().move_to(index)
        self._note_position()

    def line(self, index: int, width: int) -> Line:
        entry = self.rows[index]
        right = entry.right if width >= _WIDE else entry.short or entry.right
        if not right:
            return cut_line(entry.line, width)
        room = width - measure_line(right) - 1
        left = cut_line(entry.line, max(room - 1, 10))
        gap = StyledText(" " * max(room - measure_line(left), 1))
        return cut_line((*left, gap, *right), width)

    def _note_position(self) -> None:
        first = self._find_row(0, onward=1, otherwise=0)
        self._is_moved = self.cursor != first

    def _find_index(self, entry: WatchEntry | None) -> int:
        if entry is None:
            return 0
        return next((i for i, each in enumerate(self.rows) if each.identity == entry.identity), self.cursor)

    def can_select(self, index: int) -> bool:
        return bool(self.rows[index].identity)


def draw_status(watch: WatchState) -> Line:
    """Draw the line above the rows."""
    if watch.mode is WatchMode.OFF:
        return (StyledText(" watch is off", Style.MUTED),)
    pieces = [*watch.header(200)]
    if watch.stale:
        pieces += [StyledText(" "), StyledText(f"{STALE.symbol} {watch.stale:,} of {watch.total:,} stale", STALE.style)]
    if watch.scan_reason:
        pieces.append(
            StyledText(f"   no file events, files are compared: {safe_line(watch.scan_reason)}", Style.WARNING)
        )
    return tuple(pieces)


def explain_empty(watch: WatchState, find_key: Callable[[str], str]) -> str:
    """Return the text to show if there are no rows."""
    key = find_key("watch")
    ended = f"It ended: {safe_line(watch.failure)}. " if watch.failure else ""
    if watch.mode is WatchMode.OFF:
        return (
            f"{ended}{key} turns watch on. Every save of agent code, of files the agent reads, of eval sets and "
            "criteria then runs the cases it affects, and no others. This pane lists each save, the cases that ran, "
            "and why."
        )
    if watch.mode is WatchMode.STARTING:
        return "Reading the project …"
    verb = "resumes" if watch.mode is WatchMode.PAUSED else "pauses"
    keys = f"{key} {verb}, {find_key('watch_off')} turns it off."
    if not watch.total:
        return f"There are no eval cases yet. The first saved case with an agent runs automatically. {keys}"
    return f"No change since then. Edit the agent, and the affected cases run automatically. {keys}"


def _entries(watch: WatchState, board: StatusBoard, find_key: Callable[[str], str]) -> Iterator[WatchEntry]:
    for broken in watch.broken:
        text = f" ! {safe_line(broken.place)} cannot be compiled: {safe_line(broken.message)}"
        waiting = StyledText(f"{plural(broken.cases, 'case')} {'waits' if broken.cases == 1 else 'wait'}", Style.MUTED)
        identity = ("broken", broken.place, broken.message)
        yield WatchEntry((StyledText(text, Style.ERROR),), (waiting,), broken=broken, identity=identity)
    if watch.held:
        cases = len({job.case for job in watch.held})
        text = f" {plural(cases, 'case')} {'is' if cases == 1 else 'are'} held back: {find_key('run_held')} runs "
        yield WatchEntry((StyledText(f"{text}{'it' if cases == 1 else 'them'} anyway", Style.WARNING),))
    if watch.mode is WatchMode.PAUSED and watch.pending:
        yield WatchEntry(
            (
                StyledText(
                    f" {plural(len(watch.pending), 'case')} to run or judge when {find_key('watch')} resumes",
                    Style.WARNING,
                ),
            )
        )
        pending = [(each, STALE) for each in watch.pending[:_MOST_PENDING]]
        yield from _case_entries(pending, ("pending",), {}, with_reasons=True)
        yield from _count_entry(len(watch.pending) - _MOST_PENDING)
    for change in watch.changes:
        yield from _change_entries(change, board)


_MOST_PENDING = 100


def _change_entries(change: SeenChange, board: StatusBoard) -> Iterator[WatchEntry]:
    event = change.event
    shown = ", ".join(safe_line(path, width=60) for path in event.paths[:_MOST_PATHS]) or "the project"
    more = f" and {len(event.paths) - _MOST_PATHS:,} more" if len(event.paths) > _MOST_PATHS else ""
    line = (
        StyledText(f" {event.at.astimezone():%H:%M:%S}  ", Style.MUTED),
        StyledText(f"{shown}{more}", Style.STRONG),
        StyledText(f"  {_describe_effect(change)}"),
    )
    took = "" if change.seconds is None else f"after {format_duration(change.seconds)}"
    right, short = ((StyledText(f"{lead}{took}", Style.MUTED),) if took else () for lead in ("first verdict ", ""))
    yield WatchEntry(line, right, short, identity=("change", change.number))
    if event.held:
        yield WatchEntry((StyledText(f"   not run automatically: {safe_line(event.held)}", Style.WARNING),))
    for words in event.quarantines[:_MOST_CASES]:
        yield WatchEntry((StyledText(f"   {QUARANTINED.symbol} {safe_line(words)}", QUARANTINED.style),))
    yield from _count_entry(len(event.quarantines) - _MOST_CASES)
    for reach in change.reaches:
        yield WatchEntry((StyledText(f"   {safe_line(reach)}", Style.KEY),))
    affected = [(each, _find_look(each.job, change, board)) for each in change.affected]
    place = ("change", change.number)
    yield from _case_entries(affected, place, change.model_calls, with_reasons=len(change.reaches) != 1)
    yield from _count_entry(len(change.jobs) - len(change.affected))


def _describe_effect(change: SeenChange) -> str:
    event, parts = change.event, []
    if event.run:
        parts.append(f"{event.run:,} of {event.total:,} {'to run' if event.held else 'run'}")
    if event.judged:
        parts.append(f"{event.judged:,} judged again")
    if event.waiting:
        parts.append(f"{event.waiting:,} wait")
    if change.reused:
        parts.append(f"{change.reused:,} with a current stored verdict")
    if event.quarantines:
        parts.append(f"quarantine of {plural(len(event.quarantines), 'case')} changed")
    if not parts:
        parts.append(f"affects none of {plural(event.total, 'case')}")
        parts += [f"{event.times:,} times"] if event.times > 1 else []
    return ", ".join(parts)


def _find_look(job: JobKey, change: SeenChange, board: StatusBoard) -> Badge:
    """Return the look of the result that a change caused, or of the job while it waits or runs."""
    state = change.verdicts.get(job)
    if state is not None:
        return get_badge(state)
    record = board.get_record(job.case)
    is_under_way = record is not None and record.state in (CaseState.WAITING, CaseState.RUNNING)
    return get_badge(record.state if record is not None and is_under_way else CaseState.NOT_RUN)


def _case_entries(
    affected: Sequence[tuple[AffectedJob, Badge]],
    place: tuple[object, ...],
    model_calls: Mapping[JobKey, ModelCalls],
    *,
    with_reasons: bool,
) -> Iterator[WatchEntry]:
    for each, badge in affected:
        repeat = f" repeat {each.job.repeat + 1}" if each.job.repeat else ""
        name = safe_line(f"{each.job.case.eval_id}{repeat}", width=60)
        gap = " " * max(_CASE_WIDTH - cell_len(name), 2)
        facts = ["judged again" if each.is_judged else "", safe_line(each.reason) if with_reasons else ""]
        line = (
            StyledText(f"   {badge.symbol} ", badge.style),
            StyledText(f"{name}{gap}"),
            StyledText(": ".join(filter(None, facts)), Style.MUTED),
        )
        calls = model_calls.get(each.job)
        asked = () if calls is None else (StyledText(describe_sources(calls), Style.MUTED),)
        short = () if calls is None else (StyledText(mark_replayed(calls) or "live", Style.MUTED),)
        yield WatchEntry(line, asked, short, job=each.job, identity=(*place, each.job))


def _count_entry(count: int) -> Iterator[WatchEntry]:
    if count > 0:
        yield WatchEntry((StyledText(f"     and {count:,} more", Style.MUTED),))
