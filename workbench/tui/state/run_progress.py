"""The progress of a run: its jobs, its failures and how they are shown."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rich.cells import cell_len, set_cell_size

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricStatus, ModelSpending
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CaseStarted,
    InvocationFinished,
    ModelsAsked,
    QuotaWait,
    RunEvent,
    RunFinished,
    RunStarted,
)
from workbench.model.text import redact
from workbench.report.text_report import quota_wait_text, spending_text
from workbench.tui.state.case_board import Standing, look_of, standing_of
from workbench.tui.state.text_layout import (
    Line,
    Style,
    StyledText,
    format_count,
    format_duration,
    format_time_taken,
    keep_end,
    plural,
    safe_line,
    shorten,
)

# What the line at the top says: the project, which judges its criteria ask, what the run has asked of models.

_WIDE = 100  # columns from which judges are named in full, and tokens are told
_NARROW = 60  # columns below which nothing is said
_LONGEST_NAME = 22  # cells for a name where there is little room
_MOST_NAMED = 2
_SHORTEST_FOLDER = 12  # cells of its end that always stay


def project_line(root: str, *, sets: int, cases: int, reading: int, problems: int, width: int) -> Line:
    """The folder of the project, how much it holds, how many of its sets are still to be read, in so many cells."""
    before = [StyledText(" workbench ", Style.STRONG)]
    if problems:
        before.append(StyledText(f" ! {plural(problems, 'problem')} ", Style.WARNING))
    after = [StyledText(f"   {plural(sets, 'eval set')} · {plural(cases, 'case')}", Style.MUTED)]
    if reading:
        after.append(StyledText(f" · reading {reading:,} …", Style.RUNNING))
    # The folder, whose name may be long, gives way to what there is to know; its end tells most.
    left = width - sum(cell_len(piece.text) for piece in (*before, *after)) - 2
    return (*before, StyledText(f" {keep_end(safe_line(root), max(left, _SHORTEST_FOLDER))}"), *after)


def judge_line(judges: Collection[str], models: Sequence[ModelSpending], *, width: int) -> Line:
    """The judges of the project, and what was asked of `models`, at this width of the screen."""
    if width < _NARROW:
        return ()
    if not judges:
        return (StyledText(" judge: none ", Style.MUTED),)
    names = sorted(judges)
    shown = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} models"
    if width < _WIDE:
        return (StyledText(f" judge: {safe_line(shown, width=_LONGEST_NAME)} ", Style.MUTED),)
    spent = asked_text(models)
    return (StyledText(f" judge: {safe_line(shown)} ", Style.MUTED), *((StyledText(f"{spent} "),) if spent else ()))


def asked_text(models: Sequence[ModelSpending]) -> str:
    """What was asked of models: calls and those whose answer was known, money, tokens. Empty where nothing was."""
    tokens = sum(spent.tokens for spent in models)
    return spending_text(models) + (f" {format_count(tokens)} tokens" if tokens else "")


# What went wrong in a run, with what is the same counted once: "12 × agent: connection refused".

_LONGEST_MESSAGE = 300

# What differs between messages that mean the same: numbers, ids, what stands in quotes.
_PARTICULAR = re.compile(r"""0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?|'[^']*'|"[^"]*\"""", re.IGNORECASE)


@dataclass
class FailureGroup:
    """Jobs that did not pass for the same reason. `message` is that of the first, safe and on one line."""

    standing: Standing
    message: str
    jobs: dict[JobKey, None] = field(default_factory=dict)


class FailureGroups:
    """The reasons for which jobs of a run did not pass."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Standing, str], FailureGroup] = {}
        self._group_of: dict[JobKey, tuple[Standing, str]] = {}

    def add(self, key: JobKey, result: CaseResult) -> None:
        """A job has ended; nothing happens where it did not fall short."""
        reason = _reason(result)
        if reason is None:
            return
        standing = standing_of([result.status])
        place = (standing, _PARTICULAR.sub("…", reason))
        group = self._groups.setdefault(place, FailureGroup(standing, reason))
        group.jobs[key] = None
        self._group_of[key] = place

    def forget(self, key: JobKey) -> None:
        """A job runs again."""
        place = self._group_of.pop(key, None)
        if place is None:
            return
        del self._groups[place].jobs[key]
        if not self._groups[place].jobs:
            del self._groups[place]

    def largest_first(self) -> Sequence[FailureGroup]:
        """All groups; of equal ones the one that came first."""
        return sorted(self._groups.values(), key=lambda group: -len(group.jobs))


def _reason(result: CaseResult) -> str | None:
    """Why a job did not pass, in one safe line."""
    if result.failure is not None:
        return _line(f"{result.failure.kind.value}: {result.failure.message}")
    wrong = MetricStatus.ERROR if result.status is CaseStatus.ERROR else MetricStatus.FAILED
    metrics = [metric for metric in result.metrics if metric.status is wrong]
    if result.status is CaseStatus.ERROR:
        return _line("; ".join(f"{metric.name}: {metric.reason}" for metric in metrics))
    if result.status is CaseStatus.FAILED:
        return _line(f"fell short in {', '.join(metric.name for metric in metrics)}")
    return "nothing could be judged" if result.status is CaseStatus.NOT_EVALUATED else None


def _line(text: str) -> str:
    return safe_line(redact(text[: 4 * _LONGEST_MESSAGE]), width=_LONGEST_MESSAGE)


# The jobs of one run: which are under way and how far, which have ended and how. Every event costs the same.


@dataclass(slots=True)
class RunningJob:
    """A job under way. `began` is when its first try did; `turns` is None where a simulated user decides."""

    key: JobKey
    began: float
    turns: int | None
    finished_turns: int = 0
    attempt: int = 1


@dataclass(slots=True)
class FinishedJob:
    """A job that has ended. `number` is its place among those that have, from 0."""

    key: JobKey
    number: int
    standing: Standing
    seconds: float
    is_kept: bool = False  # an earlier run's result that still counts


@dataclass
class RunJobs:
    """The jobs of a run as its events tell. Times are seconds of the clock that the caller reads."""

    waiting: dict[JobKey, None] = field(default_factory=dict)  # the next first
    running: dict[JobKey, RunningJob] = field(default_factory=dict)
    counts: Counter[Standing] = field(default_factory=Counter)  # of those that have ended
    _finished: dict[JobKey, FinishedJob] = field(default_factory=dict)
    _order: list[FinishedJob] = field(default_factory=list)
    _kept: int = 0
    _failures: FailureGroups = field(default_factory=FailureGroups)

    @property
    def finished(self) -> Sequence[FinishedJob]:
        """Those that have ended, in the order in which they did."""
        return self._order

    @property
    def kept(self) -> int:
        """How many need not run, because an earlier run's result still counts."""
        return self._kept

    @property
    def failures(self) -> Sequence[FailureGroup]:
        """What went wrong, the most frequent first."""
        return self._failures.largest_first()

    def slowest(self, count: int) -> Sequence[FinishedJob]:
        """Those that took longest, the longest first."""
        ran = (job for job in self._order if job.seconds > 0 and not job.is_kept)
        return heapq.nlargest(count, ran, key=lambda job: job.seconds)

    def finished_job(self, key: JobKey) -> FinishedJob | None:
        """How a job ended; None where it has not."""
        return self._finished.get(key)

    def unfinished(self, cases: Collection[CaseKey]) -> Sequence[JobKey]:
        """The jobs of these cases that run or wait."""
        return [job for job in (*self.running, *self.waiting) if job.case in cases]

    def apply(self, event: RunEvent, *, now: float) -> None:
        """Take one event of the run."""
        if isinstance(event, CaseStarted):
            self._start(event, now=now)
        elif isinstance(event, InvocationFinished):
            running = self.running.get(_key(event))
            if running is not None:
                running.finished_turns = event.turn + 1
        elif isinstance(event, CaseFinished):
            self._finish(event)
        elif isinstance(event, RunFinished):
            self.running.clear()
            self.waiting.clear()

    def expect(self, keys: Iterable[JobKey]) -> None:
        """These jobs are part of the run, and wait until they begin."""
        self.waiting.update(dict.fromkeys(keys))

    def requeue(self, key: JobKey) -> None:
        """The user wants a job again: it waits until it begins."""
        self.running.pop(key, None)
        self._forget(key)
        self.expect([key])

    def _forget(self, key: JobKey) -> None:
        """A job that runs again has not ended."""
        gone = self._finished.pop(key, None)
        if gone is None:
            return
        self.counts[gone.standing] -= 1
        self._kept -= gone.is_kept
        self._failures.forget(key)
        del self._order[gone.number]
        for job in self._order[gone.number :]:
            job.number -= 1

    def _start(self, event: CaseStarted, *, now: float) -> None:
        key = _key(event)
        known = self.running.get(key)
        self.waiting.pop(key, None)
        self._forget(key)
        self.running[key] = RunningJob(key, now if known is None else known.began, event.turns, attempt=event.attempt)

    def _finish(self, event: CaseFinished) -> None:
        key = _key(event)
        self.waiting.pop(key, None)
        self.running.pop(key, None)
        self._forget(key)
        job = FinishedJob(
            key, len(self._order), standing_of([event.status]), event.result.agent_seconds, event.source == "stored"
        )
        self._finished[key] = job
        self._order.append(job)
        self.counts[job.standing] += 1
        self._kept += job.is_kept
        self._failures.add(key, event.result)


def _key(event: CaseStarted | InvocationFinished | CaseFinished) -> JobKey:
    return JobKey(case=event.case, repeat=event.repeat)


# The progress of one run: counts, rate, what is left.

_PROGRESS_WIDTH = 16
SHOWN_COUNTS = (
    Standing.PASSED,
    Standing.FAILED,
    Standing.ERROR,
    Standing.NOT_EVALUATED,
    Standing.SKIPPED,
    Standing.CANCELLED,
)
"""How jobs end, in the order in which that is counted up."""


@dataclass(slots=True)
class RunProgress:
    """How far a run is. Times are seconds of one monotonic clock, which the caller reads.

    `tokens` are those of the turns that this run has seen end, whatever became of their case; `retries` counts tries
    after the first. `why` is what the watch runs it for; None for a run of the user's. `models` is what models that
    judge or play users were asked, `importing` the targets whose agents are being imported. Until `waits_until` one of
    the models is not asked, for the sake of its quota.
    """

    run_id: str
    total: int
    began: float
    ended: float | None = None
    tokens: int = 0
    retries: int = 0
    cancelling: bool = False
    interrupted: bool = False
    jobs: RunJobs = field(default_factory=RunJobs)
    why: str | None = None
    models: tuple[ModelSpending, ...] = ()
    importing: tuple[str, ...] = ()
    waits_until: float = 0.0

    @property
    def done(self) -> int:
        """How many jobs have come to an end of their own."""
        return len(self.jobs.finished) - self.jobs.counts[Standing.CANCELLED]

    @property
    def left(self) -> int:
        """How many jobs have not ended."""
        return max(self.total - len(self.jobs.finished), 0)

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        return max(self.left - len(self.jobs.running), 0)

    def apply(self, event: RunEvent, *, now: float) -> None:
        """Take one event of the run."""
        self.jobs.apply(event, now=now)
        if isinstance(event, RunStarted):
            self.total, self.began = event.total, now
        elif isinstance(event, CaseStarted):
            self.retries += event.attempt > 1
        elif isinstance(event, InvocationFinished):
            self.tokens += 0 if event.result.usage is None else event.result.usage.total_tokens
        elif isinstance(event, ModelsAsked):
            self.models = event.models
        elif isinstance(event, AgentsImporting):
            self.importing = event.targets
        elif isinstance(event, QuotaWait):
            self.waits_until = now + event.seconds
        elif isinstance(event, RunFinished):
            self.ended, self.interrupted = self.began + event.duration_seconds, event.interrupted

    def elapsed(self, *, now: float) -> float:
        """Seconds since it began, or that it took."""
        return (now if self.ended is None else self.ended) - self.began

    def rate(self, *, now: float) -> float | None:
        """Jobs a second so far; None before the first has ended. Results of earlier runs were there at once."""
        elapsed = self.elapsed(now=now)
        ran = self.done - self.jobs.kept
        return ran / elapsed if ran > 0 and elapsed > 0 else None

    def seconds_left(self, *, now: float) -> float | None:
        """How long the rest will take at the rate so far; None before the first job has ended."""
        rate = self.rate(now=now)
        return self.left / rate if rate else None

    def line(self, *, now: float, can_resume: str | None = None) -> Line:
        """The progress in one line, the most important first. `can_resume` is the stopped run that can be resumed."""
        filled = _PROGRESS_WIDTH * self.done // self.total if self.total else _PROGRESS_WIDTH
        pieces = [
            StyledText(f" {self.activity}  ", Style.STRONG),
            StyledText("█" * filled, Style.RUNNING),
            StyledText("░" * (_PROGRESS_WIDTH - filled), Style.MUTED),
            StyledText(f"  {self.done:,}/{self.total:,} "),
        ]
        for standing in SHOWN_COUNTS:
            if count := self.jobs.counts[standing]:
                look = look_of(standing)
                pieces.append(StyledText(f" {look.symbol}{count:,}", look.style))
        rate = self.rate(now=now)
        if rate is not None:
            pieces.append(StyledText(f"  {rate:,.1f}/s", Style.MUTED))
        left = self.seconds_left(now=now)
        if self.ended is not None:
            pieces.append(StyledText(f"  in {format_duration(self.ended - self.began)}", Style.MUTED))
            if can_resume is not None:
                which = "" if can_resume == self.run_id else " the run that was stopped before"
                pieces.append(StyledText(f"  alt+x resumes{which}", Style.KEY))
        elif left is not None:
            pieces.append(StyledText(f"  eta {format_duration(left)}", Style.MUTED))
        if self.ended is None and self.waits_until > now:
            pieces.append(StyledText(f"  {quota_wait_text(self.waits_until - now)}", Style.WARNING))
        if self.why:  # before what there may be no room for
            pieces.append(StyledText(f"  why: {safe_line(self.why)}", Style.KEY))
        if self.tokens:
            pieces.append(StyledText(f"  {format_count(self.tokens)} tokens", Style.MUTED))
        if self.models:
            pieces.append(StyledText(f"  {asked_text(self.models)}", Style.MUTED))
        if self.retries:
            pieces.append(
                StyledText(f"  {self.retries:,} {'retry' if self.retries == 1 else 'retries'}", Style.WARNING)
            )
        pieces.append(StyledText(f"  run {safe_line(self.run_id)}", Style.MUTED))
        return tuple(pieces)

    @property
    def activity(self) -> str:
        """What the run is doing, in a word or two."""
        if self.ended is not None:
            return "cancelled" if self.interrupted else "finished"
        if self.importing and not self.cancelling:
            return f"importing {safe_line(', '.join(self.importing))}"
        return "cancelling" if self.cancelling else "running"


# The rows of the run pane: what is under way, what went wrong, what took longest, what has ended.

_JOB_BAR_WIDTH = 30
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
            return (StyledText(f" {entry.text}", Style.HEADING),)
        if isinstance(entry, FailureGroup):
            look = look_of(entry.standing)
            return (StyledText(f"  {look.symbol} {len(entry.jobs):,} × ", look.style), StyledText(entry.message))
        if isinstance(entry, RunningJob):
            return self._job_line(entry.key, Standing.RUNNING, _running_facts(entry, self._now), width)
        if isinstance(entry, _Waiting):
            return self._job_line(entry.key, Standing.WAITING, (), width)
        word = look_of(entry.standing).word
        facts = (StyledText(f"{word:<22}", Style.MUTED), StyledText(f"{format_time_taken(entry.seconds):>9}"))
        return self._job_line(entry.key, entry.standing, facts, width)

    def _job_line(self, key: JobKey, standing: Standing, facts: Line, width: int) -> Line:
        look = look_of(standing)
        repeat = f" repeat {key.repeat + 1}" if self._repeats or key.repeat else ""
        room = max(width - _FACTS_WIDTH - 5, _LEAST_TITLE)
        title = shorten(safe_line(f"{key.case.eval_id}{repeat}"), room)
        where = _shortened(f"  {safe_line(key.case.eval_set)}", room - cell_len(title))
        gap = " " * max(room - cell_len(title) - cell_len(where), 0)
        return (
            StyledText(f"  {look.symbol} ", look.style),
            StyledText(title),
            StyledText(where + gap, Style.MUTED),
            StyledText(" "),
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
    bar = min(_JOB_BAR_WIDTH, max(width // 5, 8))
    filled = bar * progress.done // progress.total if progress.total else bar
    rate, left = progress.rate(now=now), progress.seconds_left(now=now)
    took = format_duration(progress.elapsed(now=now))
    facts = [
        f"{progress.done:,} of {progress.total:,}",
        f"took {took}" if progress.ended is not None else f"{took} elapsed",
    ]
    if progress.ended is None and left is not None:
        facts.append(f"about {format_duration(left)} left")
    if rate is not None:
        facts.append(f"{rate:,.1f}/s")
    head = (
        StyledText(f" {progress.activity} ", Style.STRONG),
        StyledText("█" * filled, Style.RUNNING),
        StyledText("░" * (bar - filled), Style.MUTED),
        StyledText("  " + " · ".join(facts)),
    )
    return head, tuple(_counts(progress))


def _counts(progress: RunProgress) -> Iterator[StyledText]:
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
            yield StyledText(f" {look.symbol} {count:,} {look.word} ", look.style)
    if progress.why:
        yield StyledText(f" why: {safe_line(progress.why)}  ", Style.KEY)
    if progress.tokens:
        yield StyledText(f"  {format_count(progress.tokens)} tokens", Style.MUTED)
    if progress.models:
        yield StyledText(f"  {asked_text(progress.models)}", Style.MUTED)
    if progress.retries:
        yield StyledText(f"  {progress.retries:,} {'retry' if progress.retries == 1 else 'retries'}", Style.WARNING)


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
    elapsed = format_duration(max(now - job.began, 0.0))
    return StyledText(f"{turn:<13}"), StyledText(f"{retry:<9}", Style.WARNING), StyledText(f"{elapsed:>9}", Style.MUTED)


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
