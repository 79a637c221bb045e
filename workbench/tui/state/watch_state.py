"""Watch mode as the screen shows it: what was saved, what that ran and why, and which verdicts are stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.run_events import Notice, RunEvent
from workbench.tui.state.browser_list import Freshness, Hashes
from workbench.tui.state.case_board import STALE, Board, CaseRecord, Look, ResultPlace, Standing, look_of, standing_of
from workbench.tui.state.problem_list import Problems
from workbench.tui.state.text_layout import (
    CursorRows,
    Line,
    Style,
    StyledText,
    cut_line,
    format_span_time,
    plural,
    safe_line,
)

if TYPE_CHECKING:
    from workbench.engine.run import Run


# What has to be said when a case that passed fails: once for each change, however many cases it broke.

_PATIENCE = 1.0  # seconds after the first case in which others may join it
_MOST_NAMED = 3


@dataclass
class Alarm:
    """The cases of one change that passed before and do not any longer.

    `is_complete`: no more will come, or none that belongs to this change.
    """

    is_complete: bool = False
    _cases: dict[CaseKey, CaseStatus] = field(default_factory=dict)
    _since: float | None = None
    _has_rung: bool = False

    def add(self, case: CaseKey, status: CaseStatus, *, now: float) -> None:
        """A case does not pass any longer."""
        self._cases[case] = status
        if self._since is None:
            self._since = now

    def due(self, *, now: float) -> str | None:
        """What is to be said now; None where nothing is, or it has been said."""
        if self._has_rung or self._since is None:
            return None
        if not self.is_complete and now - self._since < _PATIENCE:
            return None
        self._has_rung = True
        names = [safe_line(case.eval_id, width=60) for case in self._cases]
        if len(names) == 1:
            (status,) = self._cases.values()
            word = "FAILED" if status is CaseStatus.FAILED else status.value.replace("_", " ")
            return f"{names[0]} passed before and is {word} now"
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"{len(names):,} cases passed before and do not now: {', '.join(names[:_MOST_NAMED])}{more}"


# What a watch tells the screen. Reasons are in words already; they and all names may come from outside.


@dataclass(frozen=True, slots=True)
class Began:
    """Watching has begun. `reason` says why changes are looked for instead of being told by the system."""

    reason: str


@dataclass(frozen=True, slots=True)
class Concerned:
    """A job that a change concerns, and why; `is_judged` where its agent need not run."""

    job: JobKey
    why: str
    is_judged: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """A source file that cannot be compiled. `shown` is its path below the root, `line` counts from 1."""

    path: Path
    shown: str
    line: int | None
    message: str

    @property
    def where(self) -> str:
        """File and line."""
        return self.shown if self.line is None else f"{self.shown}:{self.line}"


@dataclass(frozen=True, slots=True)
class Standings:
    """How every case stands: `stale` are the jobs whose verdicts do not hold, with the reasons.

    `concerned` are those that run or are judged because of that, or wait to be; `chains` say how far each reason
    reaches. `held` wait because they are more than a change may run by itself; of `again` a verdict of an earlier run
    is the one that holds.
    """

    files: int
    total: int
    stale: Mapping[JobKey, Sequence[str]]
    concerned: Sequence[Concerned]
    chains: Sequence[str]
    broken: Sequence[Broken]
    held: frozenset[JobKey]
    again: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """Something was saved. The `Standings` before this say what it concerns; `held` why that does not run by itself.

    Of `paths` those in `gone` are there no longer.
    """

    at: datetime
    paths: Sequence[str]
    gone: frozenset[str]
    run: int
    judged: int
    waiting: int
    total: int
    reason: str
    held: str


@dataclass(frozen=True, slots=True)
class Executed:
    """A case was run on how things are now; `seconds` since the save that made work of it, where one did.

    `holds` is false where what came of it is no verdict, as where there was no answer.
    """

    result: CaseResult
    seconds: float | None
    holds: bool


@dataclass(frozen=True, slots=True)
class HoldsAgain:
    """A verdict of an earlier run is the one that holds, and was given by these hashes."""

    result: CaseResult
    stored_at: datetime
    hashes: Hashes
    place: ResultPlace


@dataclass(frozen=True, slots=True)
class BrokenTold:
    """A source file cannot be compiled any longer, and so many cases wait until it can: told once."""

    broken: Broken
    cases: int


@dataclass(frozen=True, slots=True)
class Begun:
    """The watch has begun a run."""

    run: Run
    jobs: Sequence[JobKey]
    reason: str


@dataclass(frozen=True, slots=True)
class OfRun:
    """An event of a run that the watch has begun."""

    run_id: str
    event: RunEvent


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing runs, and nothing is about to."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The watch has ended by itself."""

    problem: str


WatchNews = Began | Standings | Changed | Executed | HoldsAgain | BrokenTold | Begun | OfRun | Quiet | Ended | Notice


# The watch: whether it is on, what it has seen, what it ran for that, and what it could not.

_MOST_CHANGES = 20
_MOST_CASES = 100  # of one change that are listed
_WIDE = 100  # columns from which the header says how many files are watched
_NARROW = 60  # columns below which it only has a symbol


class WatchMode(StrEnum):
    """What the watch does."""

    OFF = "off"
    STARTING = "starting"
    ON = "on"
    PAUSED = "paused"


@dataclass
class SeenChange:
    """Something that was saved, what it concerned, and what came of it.

    `concerned` are the first of the jobs that it made work of, `jobs` all of them; of `again` an earlier verdict holds
    once more. `seconds` is how long it took from the save to the first verdict, `verdicts` what came of it.
    """

    number: int
    changed: Changed
    concerned: Sequence[Concerned]
    chains: Sequence[str]
    jobs: frozenset[JobKey]
    again: int
    seconds: float | None = None
    verdicts: dict[JobKey, CaseStatus] = field(default_factory=dict)
    alarm: Alarm = field(default_factory=Alarm)

    @property
    def at(self) -> datetime:
        """When it was seen."""
        return self.changed.at


class WatchState:
    """What is known of the watch. The screen changes it only through these methods."""

    def __init__(self, board: Board, freshness: Freshness, problems: Problems) -> None:
        self.mode = WatchMode.OFF
        self.files = 0
        self.total = 0
        self.looking = ""  # why changes are looked for
        self.ended = ""  # why it ended by itself
        self.changes: list[SeenChange] = []  # the newest first
        self.broken: Sequence[Broken] = ()
        self.pending: Sequence[Concerned] = ()  # while paused
        self.held: frozenset[JobKey] = frozenset()
        self._board = board
        self._freshness = freshness
        self._problems = problems
        self._waiting: dict[Broken, int] = {}
        self._stale: set[JobKey] = set()
        self._stale_jobs: Counter[CaseKey] = Counter()  # of each case
        self._decided: Standings | None = None
        self._passed: set[CaseKey] = set()  # before the run that goes on
        self._seen = 0
        self._again = 0  # verdicts that hold again since the last change was told

    @property
    def is_on(self) -> bool:
        """Whether there is a watch, paused or not."""
        return self.mode is not WatchMode.OFF

    @property
    def stale(self) -> int:
        """How many jobs have a verdict that does not hold."""
        return len(self._stale)

    def waiting_for(self, broken: Broken) -> int:
        """How many cases wait until this file can be compiled again."""
        return self._waiting.get(broken, 0)

    def start(self) -> None:
        """The user turned it on."""
        self.mode, self.ended, self.looking, self._again = WatchMode.STARTING, "", "", 0

    def pause(self) -> None:
        """The user paused it."""
        self.mode, self._again = WatchMode.PAUSED, 0

    def resume(self) -> None:
        """The user resumed it."""
        self.mode, self.pending = WatchMode.ON, ()

    def end(self, problem: str = "") -> None:
        """It is over: turned off, or ended by a problem. What it said last of the verdicts stays."""
        self.mode, self.ended = WatchMode.OFF, problem
        self.broken, self.pending, self.held = (), (), frozenset()
        self._set_stale({})
        self._problems.show_broken([])
        self._freshness.end_watching()

    def take(self, news: WatchNews, *, now: float) -> Iterable[CaseKey]:
        """Take what it told, but for what its runs say. Gives the cases that stand otherwise now."""
        match news:
            case Began():
                self.looking = news.reason
                if self.mode is WatchMode.STARTING:
                    self.mode = WatchMode.ON
            case Standings():
                self._decide(news)
            case Changed():
                self._change(news)
            case Begun():
                self._note_passed(news.jobs)
            case Executed():
                self._executed(news, now=now)
            case HoldsAgain():
                return self._holds_again(news)
            case BrokenTold():
                self._waiting[news.broken] = news.cases
        return ()

    def alarm(self, *, now: float) -> tuple[str, str] | None:
        """What has failed that passed before, once for each change: a sentence, and the reason."""
        for change in self.changes:
            words = change.alarm.due(now=now)
            if words is not None:
                return words, change.changed.reason
        return None

    def let_alarms_ring(self) -> None:
        """Nothing more will come of what was saved."""
        for change in self.changes:
            change.alarm.is_complete = True

    def header(self, width: int) -> Line:
        """What the line at the top says of it, at this width of the screen."""
        if self.mode is WatchMode.OFF:
            return ()
        symbol, words, short = _LOOKS[self.mode]
        style = Style.WARNING if self.mode is WatchMode.PAUSED else Style.RUNNING
        if self.mode is WatchMode.ON:
            words = f"watching {plural(self.files, 'file')}"
        shown = words if width >= _WIDE else short if width >= _NARROW else ""
        return (StyledText(f" {symbol} {shown} " if shown else f" {symbol} ", style),)

    def _decide(self, standings: Standings) -> None:
        self._decided = standings
        self.files, self.total, self.held = standings.files, standings.total, standings.held
        self._again += standings.again
        self._set_stale(standings.stale)
        self._freshness.watched(_by_case(standings.stale))
        if tuple(standings.broken) != tuple(self.broken):
            self.broken = tuple(standings.broken)
            self._problems.show_broken([(each.path, each.shown, each.line, each.message) for each in self.broken])
        if self.mode is WatchMode.PAUSED:
            self.pending = standings.concerned

    def _set_stale(self, stale: Iterable[JobKey]) -> None:
        self._stale = set(stale)
        self._stale_jobs = Counter(job.case for job in self._stale)

    def _is_fresh_with(self, job: JobKey) -> bool:
        """Whether the verdicts of all repeats of a case hold, now that this one's does."""
        if job in self._stale:
            self._stale.discard(job)
            self._stale_jobs[job.case] -= 1
        return not self._stale_jobs[job.case]

    def _change(self, changed: Changed) -> None:
        decided = self._decided
        concerned = decided.concerned if decided is not None else ()
        self._seen += 1
        seen = SeenChange(
            number=self._seen,
            changed=changed,
            concerned=concerned[:_MOST_CASES],
            chains=decided.chains if decided is not None else (),
            jobs=frozenset(each.job for each in concerned),
            again=self._again,
        )
        self._again = 0
        for earlier in self.changes:  # what comes of it now comes of this one
            earlier.alarm.is_complete = True
        self.changes = [seen, *self.changes[: _MOST_CHANGES - 1]]

    def _note_passed(self, jobs: Iterable[JobKey]) -> None:
        for case in {job.case for job in jobs}:
            record = self._board.record(case)
            if record is not None and _passed(record):
                self._passed.add(case)
            elif record is not None and (record.outcomes or record.former):
                self._passed.discard(case)

    def _executed(self, news: Executed, *, now: float) -> None:
        result = news.result
        job = JobKey(case=result.case, repeat=result.repeat)
        if news.holds and self._is_fresh_with(job):
            self._freshness.holds(job.case)
        change = next((each for each in self.changes if job in each.jobs), None)
        if change is None:
            return
        change.verdicts[job] = result.status
        if change.seconds is None:
            change.seconds = news.seconds
        if result.status is not CaseStatus.PASSED and result.case in self._passed:
            change.alarm.add(result.case, result.status, now=now)

    def _holds_again(self, news: HoldsAgain) -> Iterable[CaseKey]:
        result = news.result
        if self._is_fresh_with(JobKey(case=result.case, repeat=result.repeat)):
            self._freshness.holds(result.case, news.hashes)
        return self._board.show_again(result, stored_at=news.stored_at, place=news.place)


_LOOKS = {
    WatchMode.STARTING: ("◌", "watch is starting …", "watch …"),
    WatchMode.ON: ("◉", "watching", "watching"),
    WatchMode.PAUSED: ("◌", "watch paused", "paused"),
}


def _by_case(stale: Mapping[JobKey, Sequence[str]]) -> Mapping[CaseKey, Sequence[str]]:
    found: dict[CaseKey, Sequence[str]] = {}
    for job, why in stale.items():
        found.setdefault(job.case, why)
    return found


def _passed(record: CaseRecord) -> bool:
    """Whether the case passed when it last ran to its end."""
    for outcomes in (record.verdicts, record.former):
        ended = [each.status for each in outcomes.values() if each.status is not CaseStatus.CANCELLED]
        if ended:
            return all(status is CaseStatus.PASSED for status in ended)
    return False


# The rows of the watch pane: what waits, then what was saved, the newest first, with what that concerned and why.

_MOST_PATHS = 3
_CASE_WIDTH = 36
_WIDE = 100  # cells from which there is room for all words


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: a line that is cut at the end, what follows at the right end, shorter where it is narrow, and what it is
    about.
    """

    line: Line
    right: Line = ()
    short: Line = ()
    job: JobKey | None = None
    broken: Broken | None = None
    identity: tuple[object, ...] = ()


class WatchRows(CursorRows):
    """Rows for a list. The cursor stays with its row while others come; at the top it stays with the newest."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._stays = False  # on its row

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def selected_case(self) -> CaseKey | None:
        """The case of the row under the cursor."""
        entry = self._selected
        return entry.job.case if entry is not None and entry.job is not None else None

    @property
    def selected_broken(self) -> Broken | None:
        """The file of the row under the cursor, where it is about one that cannot be compiled."""
        return self._selected.broken if self._selected is not None else None

    @property
    def text(self) -> str:
        """All rows, to copy."""
        return "\n".join("".join(piece.text for piece in (*each.line, *each.right)).strip() for each in self._entries)

    def show(self, watch: WatchState, board: Board) -> None:
        """Take the rows as they are now."""
        selected = self._selected
        self._entries = list(_entries(watch, board))
        super().move_to(self._place_of(selected) if self._stays else 0)

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        super().move(by)
        self._note_place()

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; past either end means the row there."""
        super().move_to(index)
        self._note_place()

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now."""
        entry = self._entries[index]
        right = entry.right if width >= _WIDE else entry.short or entry.right
        if not right:
            return cut_line(entry.line, width)
        taken = sum(cell_len(piece.text) for piece in right)
        left = cut_line(entry.line, max(width - taken - 2, 10))
        gap = max(width - taken - 1 - sum(cell_len(piece.text) for piece in left), 1)
        return cut_line((*left, StyledText(" " * gap), *right), width)

    @property
    def _selected(self) -> Entry | None:
        return self._entries[self.cursor] if self._entries else None

    def _note_place(self) -> None:
        first = self._find_row(0, onward=1, otherwise=0)
        self._stays = self.cursor != first

    def _place_of(self, entry: Entry | None) -> int:
        if entry is None:
            return 0
        return next((i for i, each in enumerate(self._entries) if each.identity == entry.identity), self.cursor)

    def _can_stand(self, index: int) -> bool:
        return bool(self._entries[index].identity)


def how_line(watch: WatchState) -> Line:
    """The line above the rows: what the watch does."""
    if watch.mode is WatchMode.OFF:
        return (StyledText(" watch is off", Style.MUTED),)
    pieces = [*watch.header(200)]
    if watch.stale:
        pieces += [StyledText(" "), StyledText(f"{STALE.symbol} {watch.stale:,} of {watch.total:,} stale", STALE.style)]
    if watch.looking:
        pieces.append(StyledText(f"   it looks again and again: {safe_line(watch.looking)}", Style.WARNING))
    return tuple(pieces)


def nothing_text(watch: WatchState) -> str:
    """What stands in place of the rows."""
    ended = f"It ended: {safe_line(watch.ended)}. " if watch.ended else ""
    if watch.mode is WatchMode.OFF:
        return (
            f"{ended}w turns watch on: from then on every save of the agent's code, of what it reads, of eval sets and "
            "criteria runs the cases that it affects, and no others. What was saved and what that ran then stands "
            "here, and why."
        )
    if watch.mode is WatchMode.STARTING:
        return "It looks at what there is …"
    waits = "w resumes, alt+w turns it off." if watch.mode is WatchMode.PAUSED else "w pauses, alt+w turns it off."
    if not watch.total:
        return f"There are no eval cases yet. The first one that is saved and has an agent runs by itself. {waits}"
    return f"Nothing has been saved since. Edit the agent, and the cases that it affects run by themselves. {waits}"


def _entries(watch: WatchState, board: Board) -> Iterator[Entry]:
    for broken in watch.broken:
        text = f" ! {safe_line(broken.where)} cannot be compiled: {safe_line(broken.message)}"
        waiting = watch.waiting_for(broken)
        right = (StyledText(f"{plural(waiting, 'case')} {'waits' if waiting == 1 else 'wait'}", Style.MUTED),)
        yield Entry(
            (StyledText(text, Style.ERROR),), right if waiting else (), broken=broken, identity=("broken", broken)
        )
    if watch.held:
        cases = len({job.case for job in watch.held})
        text = f" {plural(cases, 'case')} {'is' if cases == 1 else 'are'} held back: alt+r runs "
        yield Entry((StyledText(f"{text}{'it' if cases == 1 else 'them'} all the same", Style.WARNING),))
    if watch.mode is WatchMode.PAUSED and watch.pending:
        yield Entry(
            (StyledText(f" {plural(len(watch.pending), 'case')} to run or judge when w resumes", Style.WARNING),)
        )
        pending = [(each, STALE) for each in watch.pending[:_MOST_PENDING]]
        yield from _cases(pending, ("pending",), with_reasons=True)
        yield from _more(len(watch.pending) - _MOST_PENDING)
    for change in watch.changes:
        yield from _of_change(change, board)


_MOST_PENDING = 100


def _of_change(change: SeenChange, board: Board) -> Iterator[Entry]:
    changed = change.changed
    shown = ", ".join(safe_line(path, width=60) for path in changed.paths[:_MOST_PATHS]) or "the project"
    more = f" and {len(changed.paths) - _MOST_PATHS:,} more" if len(changed.paths) > _MOST_PATHS else ""
    line = (
        StyledText(f" {_clock(change.at)}  ", Style.MUTED),
        StyledText(f"{shown}{more}", Style.STRONG),
        StyledText(f"  {_what_it_did(change)}"),
    )
    took = "" if change.seconds is None else f"after {format_span_time(change.seconds)}"
    right, short = ((StyledText(f"{lead}{took}", Style.MUTED),) if took else () for lead in ("first verdict ", ""))
    yield Entry(line, right, short, identity=("change", change.number))
    if changed.held:
        yield Entry((StyledText(f"   not run by itself: {safe_line(changed.held)}", Style.WARNING),))
    for chain in change.chains:
        yield Entry((StyledText(f"   {safe_line(chain)}", Style.KEY),))
    concerned = [(each, _look(each.job, change, board)) for each in change.concerned]
    yield from _cases(concerned, ("change", change.number), with_reasons=len(change.chains) != 1)
    yield from _more(len(change.jobs) - len(change.concerned))


def _what_it_did(change: SeenChange) -> str:
    changed, parts = change.changed, []
    if changed.run:
        parts.append(f"{changed.run:,} of {changed.total:,} {'to run' if changed.held else 'run'}")
    if changed.judged:
        parts.append(f"{changed.judged:,} judged again")
    if changed.waiting:
        parts.append(f"{changed.waiting:,} wait")
    if change.again:
        parts.append(f"of {change.again:,} a stored verdict holds")
    return ", ".join(parts) or f"concerns none of {plural(changed.total, 'case')}"


def _look(job: JobKey, change: SeenChange, board: Board) -> Look:
    """How the case of a change ended because of it, or what is going on with it."""
    status = change.verdicts.get(job)
    if status is not None:
        return look_of(standing_of([status]))
    record = board.record(job.case)
    is_under_way = record is not None and record.standing in (Standing.WAITING, Standing.RUNNING)
    return look_of(record.standing if record is not None and is_under_way else Standing.NOT_RUN)


def _cases(
    concerned: Sequence[tuple[Concerned, Look]], place: tuple[object, ...], *, with_reasons: bool
) -> Iterator[Entry]:
    for each, look in concerned:
        repeat = f" repeat {each.job.repeat + 1}" if each.job.repeat else ""
        name = safe_line(f"{each.job.case.eval_id}{repeat}", width=60)
        gap = " " * max(_CASE_WIDTH - cell_len(name), 2)
        facts = ["judged again" if each.is_judged else "", safe_line(each.why) if with_reasons else ""]
        line = (
            StyledText(f"   {look.symbol} ", look.style),
            StyledText(f"{name}{gap}"),
            StyledText(": ".join(filter(None, facts)), Style.MUTED),
        )
        yield Entry(line, job=each.job, identity=(*place, each.job))


def _more(count: int) -> Iterator[Entry]:
    if count > 0:
        yield Entry((StyledText(f"     and {count:,} more", Style.MUTED),))


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"
