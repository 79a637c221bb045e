"""The watch: whether it is on, what it has seen, what it ran for that, and what it could not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseStatus
from workbench.tui.state.board import Board, CaseRecord
from workbench.tui.state.browser.freshness import Freshness
from workbench.tui.state.pieces import Line, Piece, Tone, plural
from workbench.tui.state.problems import Problems
from workbench.tui.state.watch.alarm import Alarm
from workbench.tui.state.watch.news import (
    Began,
    Begun,
    Broken,
    BrokenTold,
    Changed,
    Concerned,
    Executed,
    HoldsAgain,
    Standings,
    WatchNews,
)

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
        tone = Tone.WARNING if self.mode is WatchMode.PAUSED else Tone.RUNNING
        if self.mode is WatchMode.ON:
            words = f"watching {plural(self.files, 'file')}"
        shown = words if width >= _WIDE else short if width >= _NARROW else ""
        return (Piece(f" {symbol} {shown} " if shown else f" {symbol} ", tone),)

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
