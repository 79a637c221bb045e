"""The rows of the run pane: what is under way, what went wrong, what took longest, what has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rich.cells import cell_len, set_cell_size

from workbench.model.keys import JobKey
from workbench.tui.state.amounts import duration, thousands, time_taken
from workbench.tui.state.header import asked_text
from workbench.tui.state.layout import shorten
from workbench.tui.state.pieces import Line, Piece, Tone, safe_line
from workbench.tui.state.progress import SHOWN_COUNTS, RunProgress
from workbench.tui.state.run.failures import FailureGroup
from workbench.tui.state.run.jobs import FinishedJob, RunningJob
from workbench.tui.state.standing import Standing, look_of

_BAR_WIDTH = 30
_MOST_SLOWEST = 5
_MOST_FAILURES = 20
_MOST_WAITING = 50
_FACTS_WIDTH = 32  # cells at the end of a row for how far a job is, or how long it took
_LEAST_TITLE = 16


@dataclass(frozen=True, slots=True)
class _Heading:
    """The name of the section below it."""

    text: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that has not begun."""

    key: JobKey


Entry = _Heading | RunningJob | _Waiting | FinishedJob | FailureGroup


Identity = JobKey | tuple[Standing, str]
"""What a row is about: a job, or a kind of failure."""


@dataclass(frozen=True)
class _Section:
    """Rows of one kind under a heading. `find` gives the place of what a row is about."""

    name: str
    heading: str
    entries: Sequence[Entry]
    find: Callable[[Identity], int | None]


class RunRows:
    """The rows of one run, for a `RowList`: as they were when `show` was called last.

    The cursor stays with its job while rows come and go around it.
    """

    def __init__(self) -> None:
        self._sections: Sequence[_Section] = ()
        self._now = 0.0
        self._cursor = 0
        self._selected: tuple[str, Identity] | None = None  # the section and what the row there is about
        self._repeats = False
        self._has_ended = False

    @property
    def cursor(self) -> int:
        """The index of the selected row."""
        return self._cursor

    @property
    def selected_job(self) -> JobKey | None:
        """The job that the selected row is about; of failures the first."""
        entry = self._at(self._cursor)[1]
        if isinstance(entry, FailureGroup):
            return next(iter(entry.jobs), None)
        return _job_of(entry)

    @property
    def selected_failures(self) -> Sequence[JobKey]:
        """The jobs of the selected row, where it stands for what went wrong."""
        entry = self._at(self._cursor)[1]
        return tuple(entry.jobs) if isinstance(entry, FailureGroup) else ()

    @property
    def is_stoppable(self) -> bool:
        """Whether the selected row is a job that has not ended."""
        return isinstance(self._at(self._cursor)[1], RunningJob | _Waiting)

    @property
    def is_on_waiting(self) -> bool:
        """Whether the selected row is a job that has not begun."""
        return isinstance(self._at(self._cursor)[1], _Waiting)

    def show(self, progress: RunProgress, *, now: float) -> None:
        """Take the rows of a run as it is now."""
        self._now = now
        self._repeats = self._repeats or any(key.repeat for key in progress.jobs.running)
        self._sections = [section for section in _sections(progress) if section.entries]
        if progress.ended is not None and not self._has_ended:
            self._has_ended = True
            self.move_to(0)  # what the run came to stands at the top
        self._follow_selected()

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        self.move_to(self._cursor + by)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; past either end means the row there."""
        self._cursor = min(max(index, 0), max(len(self) - 1, 0))
        section, entry = self._at(self._cursor)
        self._selected = None
        if isinstance(entry, FailureGroup):
            self._selected = section, (entry.standing, entry.message)
        elif (job := _job_of(entry)) is not None:
            self._selected = section, job

    def __len__(self) -> int:
        return sum(len(section.entries) + 1 for section in self._sections)

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now."""
        entry = self._at(index)[1]
        if entry is None:
            return ()
        if isinstance(entry, _Heading):
            return (Piece(f" {entry.text}", Tone.HEADING),)
        if isinstance(entry, FailureGroup):
            look = look_of(entry.standing)
            return (Piece(f"  {look.symbol} {len(entry.jobs):,} × ", look.tone), Piece(entry.message))
        if isinstance(entry, RunningJob):
            return self._job_line(entry.key, Standing.RUNNING, _running_facts(entry, self._now), width)
        if isinstance(entry, _Waiting):
            return self._job_line(entry.key, Standing.WAITING, (), width)
        word = look_of(entry.standing).word
        facts = (Piece(f"{word:<22}", Tone.MUTED), Piece(f"{time_taken(entry.seconds):>9}"))
        return self._job_line(entry.key, entry.standing, facts, width)

    def _job_line(self, key: JobKey, standing: Standing, facts: Line, width: int) -> Line:
        look = look_of(standing)
        repeat = f" repeat {key.repeat + 1}" if self._repeats or key.repeat else ""
        room = max(width - _FACTS_WIDTH - 5, _LEAST_TITLE)
        title = shorten(safe_line(f"{key.case.eval_id}{repeat}"), room)
        where = _shortened(f"  {safe_line(key.case.eval_set)}", room - cell_len(title))
        gap = " " * max(room - cell_len(title) - cell_len(where), 0)
        return (
            Piece(f"  {look.symbol} ", look.tone),
            Piece(title),
            Piece(where + gap, Tone.MUTED),
            Piece(" "),
            *facts,
        )

    def _at(self, index: int) -> tuple[str, Entry | None]:
        """The section and the row with this index."""
        for section in self._sections:
            if index == 0:
                return section.name, _Heading(section.heading)
            if index <= len(section.entries):
                return section.name, section.entries[index - 1]
            index -= len(section.entries) + 1
        return "", None

    def _follow_selected(self) -> None:
        """Keep the cursor on what it was on, in whichever section that is now; else where it was."""
        if self._selected is None:
            self._cursor = min(self._cursor, max(len(self) - 1, 0))
            return
        name, identity = self._selected
        elsewhere = None
        start = 0
        for section in self._sections:
            place = section.find(identity)
            if place is not None:
                elsewhere = start + 1 + place
                if section.name == name:
                    break
            start += len(section.entries) + 1
        self.move_to(self._cursor if elsewhere is None else elsewhere)


def summary_lines(progress: RunProgress, *, now: float, width: int) -> tuple[Line, Line]:
    """The two lines above the rows: how far the run is, and how its jobs ended and what they have used."""
    bar = min(_BAR_WIDTH, max(width // 5, 8))
    filled = bar * progress.done // progress.total if progress.total else bar
    rate, left = progress.rate(now=now), progress.seconds_left(now=now)
    took = duration(progress.elapsed(now=now))
    facts = [
        f"{progress.done:,} of {progress.total:,}",
        f"took {took}" if progress.ended is not None else f"{took} elapsed",
    ]
    if progress.ended is None and left is not None:
        facts.append(f"about {duration(left)} left")
    if rate is not None:
        facts.append(f"{rate:,.1f}/s")
    head = (
        Piece(f" {progress.activity} ", Tone.STRONG),
        Piece("█" * filled, Tone.RUNNING),
        Piece("░" * (bar - filled), Tone.MUTED),
        Piece("  " + " · ".join(facts)),
    )
    return head, tuple(_counts(progress))


def _counts(progress: RunProgress) -> Iterator[Piece]:
    counts = [(standing, progress.jobs.counts[standing]) for standing in SHOWN_COUNTS]
    if progress.ended is None:
        counts = [
            (Standing.RUNNING, len(progress.jobs.running)),
            (Standing.WAITING, progress.waiting),
            *counts,
        ]
    for standing, count in counts:
        if count:
            look = look_of(standing)
            yield Piece(f" {look.symbol} {count:,} {look.word} ", look.tone)
    if progress.why:
        yield Piece(f" why: {safe_line(progress.why)}  ", Tone.KEY)
    if progress.tokens:
        yield Piece(f"  {thousands(progress.tokens)} tokens", Tone.MUTED)
    if progress.models:
        yield Piece(f"  {asked_text(progress.models)}", Tone.MUTED)
    if progress.retries:
        yield Piece(f"  {progress.retries:,} {'retry' if progress.retries == 1 else 'retries'}", Tone.WARNING)


def _sections(progress: RunProgress) -> Iterator[_Section]:
    jobs = progress.jobs
    running = list(jobs.running.values())
    heading = f"running {len(running):,}, {progress.waiting:,} waiting"
    yield _Section("running", heading, running, lambda identity: _index(running, identity))
    kinds = jobs.failures
    failures, more = kinds[:_MOST_FAILURES], max(len(kinds) - _MOST_FAILURES, 0)
    heading = f"went wrong, by kind{f' (and {more:,} more kinds)' if more else ''}"
    yield _Section("failures", heading, failures, lambda identity: _index(failures, identity))
    waiting = [_Waiting(key) for key in islice(jobs.waiting, _MOST_WAITING)]
    only = f", the next {_MOST_WAITING}" if len(jobs.waiting) > _MOST_WAITING else ""
    heading = f"waiting {len(jobs.waiting):,}{only}"
    yield _Section("waiting", heading, waiting, lambda identity: _index(waiting, identity))
    if progress.ended is not None:
        slowest = jobs.slowest(_MOST_SLOWEST)
        yield _Section("slowest", "slowest", slowest, lambda identity: _index(slowest, identity))
    ended = _Reversed(jobs.finished)

    def find_ended(identity: Identity) -> int | None:
        job = jobs.finished_job(identity) if isinstance(identity, JobKey) else None
        return None if job is None else len(ended) - 1 - job.number

    yield _Section("ended", f"ended {len(ended):,}, newest first", ended, find_ended)


def _job_of(entry: Entry | None) -> JobKey | None:
    """The job that a row is about; None for headings and for what went wrong."""
    return entry.key if isinstance(entry, RunningJob | _Waiting | FinishedJob) else None


def _index(entries: Sequence[Entry], identity: Identity) -> int | None:
    return next((index for index, entry in enumerate(entries) if _is_about(entry, identity)), None)


def _is_about(entry: Entry, identity: Identity) -> bool:
    if isinstance(entry, FailureGroup):
        return (entry.standing, entry.message) == identity
    return _job_of(entry) == identity


def _running_facts(job: RunningJob, now: float) -> Line:
    """How far a job is: its turn, its try, how long it has been going on."""
    if job.turns is None:
        turn = f"turn {job.finished_turns + 1}"
    elif job.finished_turns < job.turns:
        turn = f"turn {job.finished_turns + 1} of {job.turns}"
    else:
        turn = "judging"
    retry = f"retry {job.attempt - 1}" if job.attempt > 1 else ""
    elapsed = duration(max(now - job.began, 0.0))
    return Piece(f"{turn:<13}"), Piece(f"{retry:<9}", Tone.WARNING), Piece(f"{elapsed:>9}", Tone.MUTED)


def _shortened(text: str, width: int) -> str:
    """As much of a text as fits, its end cut off with an ellipsis."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0)).rstrip()}…"[: max(width, 0)]


class _Reversed(Sequence[Entry]):
    """Jobs from the last to the first, without a copy of the list."""

    def __init__(self, jobs: Sequence[FinishedJob]) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, index: int) -> FinishedJob:  # type: ignore[override]
        return self.jobs[len(self.jobs) - 1 - index]
