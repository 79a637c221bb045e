"""Progress of a run: its jobs, its failures, and their text."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from rich.cells import cell_len, set_cell_size

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricStatus, ModelCalls, ModelSpending
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CasePlaced,
    CaseStarted,
    InvocationFinished,
    ModelsAsked,
    QuotaWait,
    RunEvent,
    RunFinished,
    RunStarted,
)
from workbench.model.text import format_duration, redact
from workbench.report.run_report import describe_model_calls, format_metric_errors
from workbench.report.text_report import quota_wait_text, spending_text
from workbench.tui.state.case_status import EDITED, FAILING_STATES, CaseState, get_badge, get_state
from workbench.tui.state.text_layout import (
    Line,
    ListRows,
    RankedPart,
    Style,
    StyledText,
    fit_parts,
    format_count,
    format_time_taken,
    keep_end,
    measure_line,
    plural,
    safe_line,
    shorten,
)

# The line at the top: project, judge models, and use of models in the run.

_WIDE = 100  # minimum columns for full names of judges and for tokens
_NARROW = 60  # minimum columns for this text
_LONGEST_NAME = 22  # maximum cells of a name in a narrow window
_MOST_NAMED = 2
_SHORTEST_FOLDER = 12  # cells at its end that are always shown


def format_project_line(
    root: str, *, sets: int, cases: int, reading: int, problems: int, edited: int, width: int
) -> Line:
    """Format the folder of the project, and its number of problems, sets, cases, unsaved edits, and sets to be read.

    Without room for all, the name of the program is left out, then the number of sets, then that of cases.
    """
    title = StyledText(" workbench ", Style.STRONG)
    alerts: list[StyledText] = []
    if problems:
        alerts.append(StyledText(f" ! {plural(problems, 'problem')} ", Style.WARNING))
    if edited:
        alerts.append(StyledText(f" {EDITED.symbol} {edited:,} unsaved ", EDITED.style))
    counts = [plural(sets, "eval set"), plural(cases, "case")]
    progress = [StyledText(f" · reading {reading:,} …", Style.RUNNING)] if reading else []
    shorter = [([title, *alerts], counts), (alerts, counts), (alerts, counts[1:]), (alerts, [])]
    for before, shown in shorter:
        after = [StyledText(f"   {' · '.join(shown)}", Style.MUTED)] if shown else []
        after += progress
        # A long folder name is cut at its start, because its end says most.
        left = width - measure_line((*before, *after)) - 2
        if left >= min(_SHORTEST_FOLDER, cell_len(root)):
            break
    return (*before, StyledText(f" {keep_end(safe_line(root), max(left, _SHORTEST_FOLDER))}"), *after)


def format_judge_line(judges: Collection[str], models: Sequence[ModelSpending], *, width: int) -> Line:
    """Format the judge models of the project, and the use of `models`, for the width of the screen."""
    if width < _NARROW:
        return ()
    if not judges:
        return (StyledText(" judge: none ", Style.MUTED),)
    names = sorted(judges)
    shown = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} models"
    if width < _WIDE:
        return (StyledText(f" judge: {safe_line(shown, width=_LONGEST_NAME)} ", Style.MUTED),)
    spent = format_spending(models)
    return (StyledText(f" judge: {safe_line(shown)} ", Style.MUTED), *((StyledText(f"{spent} "),) if spent else ()))


def format_spending(models: Sequence[ModelSpending]) -> str:
    """Format the use of models: calls, cached answers, cost and tokens. Empty if there was none."""
    tokens = sum(spent.tokens for spent in models)
    return spending_text(models) + (f" {format_count(tokens)} tokens" if tokens else "")


# Failures of a run, grouped by message: "12 × agent: connection refused".

_LONGEST_MESSAGE = 300

# Parts that differ between equal messages: numbers, ids, quoted text.
_PARTICULAR = re.compile(r"""0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?|'[^']*'|"[^"]*\"""", re.IGNORECASE)


@dataclass
class FailureGroup:
    """Jobs that did not pass for the same reason. `message` is that of the first job, safe and on one line."""

    state: CaseState
    message: str
    jobs: dict[JobKey, None] = field(default_factory=dict)


class FailureGroups:
    """Failed jobs of a run by reason."""

    def __init__(self) -> None:
        self._groups: dict[tuple[CaseState, str], FailureGroup] = {}
        self._keys_by_job: dict[JobKey, tuple[CaseState, str]] = {}

    def add(self, key: JobKey, result: CaseResult) -> None:
        """Add a finished job, unless it passed."""
        reason = _format_reason(result)
        if reason is None:
            return
        standing = get_state(result)
        place = (standing, _PARTICULAR.sub("…", reason))
        group = self._groups.setdefault(place, FailureGroup(standing, reason))
        group.jobs[key] = None
        self._keys_by_job[key] = place

    def remove(self, key: JobKey) -> None:
        """Remove a job that runs again."""
        place = self._keys_by_job.pop(key, None)
        if place is None:
            return
        del self._groups[place].jobs[key]
        if not self._groups[place].jobs:
            del self._groups[place]

    def sort_by_size(self) -> Sequence[FailureGroup]:
        """Sort the groups, the largest first; equal ones in order of appearance."""
        return sorted(self._groups.values(), key=lambda group: -len(group.jobs))


def _format_reason(result: CaseResult) -> str | None:
    """Format why a job did not pass, in one safe line; None if it passed."""
    if result.failure is not None:
        return _shorten_message(f"{result.failure.kind.value}: {result.failure.message}")
    wrong = MetricStatus.ERROR if result.status is CaseStatus.ERROR else MetricStatus.FAILED
    metrics = [metric for metric in result.metrics if metric.status is wrong]
    if result.status is CaseStatus.ERROR:
        return _shorten_message(format_metric_errors(metrics))
    if result.status is CaseStatus.FAILED:
        return _shorten_message(f"failed in {', '.join(metric.name for metric in metrics)}")
    return "no criterion gave a verdict" if result.status is CaseStatus.NOT_EVALUATED else None


def _shorten_message(text: str) -> str:
    return _make_safe(text[: 4 * _LONGEST_MESSAGE])


@lru_cache(maxsize=256)  # thousands of jobs fail for the same reason
def _make_safe(text: str) -> str:
    return safe_line(redact(text), width=_LONGEST_MESSAGE)


# The jobs of one run. Every event takes constant time.


@dataclass(slots=True)
class RunningJob:
    """A running job. `began` is the start of its first attempt; `turns` is unknown (None) with a simulated user."""

    key: JobKey
    began: float
    turns: int | None
    finished_turns: int = 0
    attempt: int = 1
    node: str | None = None  # of a cluster


@dataclass(slots=True)
class NodeJobs:
    """The jobs on one node of a cluster: how many run there, and how many have ended with which state."""

    name: str
    running: int = 0
    ended: Counter[CaseState] = field(default_factory=Counter)


@dataclass(slots=True)
class FinishedJob:
    """A finished job. `number` is its index among the finished jobs."""

    key: JobKey
    number: int
    state: CaseState
    seconds: float
    is_reused: bool = False  # an earlier run's result that still counts
    node: str | None = None


@dataclass
class RunJobs:
    """Jobs of a run, updated by its events. Times are seconds of the caller's clock."""

    waiting: dict[JobKey, None] = field(default_factory=dict)  # the next first
    running: dict[JobKey, RunningJob] = field(default_factory=dict)
    counts: Counter[CaseState] = field(default_factory=Counter)  # of those that have ended
    nodes: dict[str, NodeJobs] = field(default_factory=dict)
    _finished: dict[JobKey, FinishedJob] = field(default_factory=dict)
    _order: list[FinishedJob] = field(default_factory=list)
    _reused: int = 0
    _failures: FailureGroups = field(default_factory=FailureGroups)

    @property
    def finished(self) -> Sequence[FinishedJob]:
        """Finished jobs, in the order of their end."""
        return self._order

    @property
    def reused(self) -> int:
        """Number of jobs that need not run, because a result of an earlier run is current."""
        return self._reused

    @property
    def failures(self) -> Sequence[FailureGroup]:
        """Groups of failures, the largest first."""
        return self._failures.sort_by_size()

    def find_slowest(self, count: int) -> Sequence[FinishedJob]:
        ran = (job for job in self._order if job.seconds > 0 and not job.is_reused)
        return heapq.nlargest(count, ran, key=lambda job: job.seconds)

    def get_finished(self, key: JobKey) -> FinishedJob | None:
        return self._finished.get(key)

    def find_unfinished(self, cases: Collection[CaseKey]) -> Sequence[JobKey]:
        """Find the running and waiting jobs of these cases."""
        return [job for job in (*self.running, *self.waiting) if job.case in cases]

    def apply(self, event: RunEvent, *, now: float) -> None:
        if isinstance(event, CaseStarted):
            self._start(event, now=now)
        elif isinstance(event, CasePlaced):
            self._place(event)
        elif isinstance(event, InvocationFinished):
            running = self.running.get(_get_job_key(event))
            if running is not None:
                running.finished_turns = event.turn + 1
        elif isinstance(event, CaseFinished):
            self._finish(event)
        elif isinstance(event, RunFinished):
            for key in list(self.running):
                self._stop_running(key)
            self.waiting.clear()

    def add_waiting(self, keys: Iterable[JobKey]) -> None:
        self.waiting.update(dict.fromkeys(keys))

    def requeue(self, key: JobKey) -> None:
        """Put a job back among the waiting ones."""
        self._stop_running(key)
        self._remove_finished(key)
        self.add_waiting([key])

    def _remove_finished(self, key: JobKey) -> None:
        """Remove a job from the finished ones, because it runs again."""
        gone = self._finished.pop(key, None)
        if gone is None:
            return
        self.counts[gone.state] -= 1
        self._reused -= gone.is_reused
        if gone.node is not None:
            self._get_node(gone.node).ended[gone.state] -= 1
        self._failures.remove(key)
        del self._order[gone.number]
        for job in self._order[gone.number :]:
            job.number -= 1

    def _start(self, event: CaseStarted, *, now: float) -> None:
        key = _get_job_key(event)
        known = self.running.get(key)
        self._leave_node(known)
        self.waiting.pop(key, None)
        self._remove_finished(key)
        self.running[key] = RunningJob(key, now if known is None else known.began, event.turns, attempt=event.attempt)

    def _place(self, event: CasePlaced) -> None:
        job = self.running.get(_get_job_key(event))
        if job is not None and job.node is None:
            job.node = event.node
            self._get_node(event.node).running += 1

    def _stop_running(self, key: JobKey) -> None:
        self._leave_node(self.running.pop(key, None))

    def _leave_node(self, job: RunningJob | None) -> None:
        if job is not None and job.node is not None:
            self._get_node(job.node).running -= 1

    def _get_node(self, name: str) -> NodeJobs:
        return self.nodes.setdefault(name, NodeJobs(name))

    def _finish(self, event: CaseFinished) -> None:
        key = _get_job_key(event)
        self.waiting.pop(key, None)
        self._stop_running(key)
        self._remove_finished(key)
        is_reused = event.source == "stored"
        job = FinishedJob(
            key,
            len(self._order),
            get_state(event.result),
            event.result.agent_seconds,
            is_reused,
            None if is_reused else event.result.execution.node,
        )
        self._finished[key] = job
        self._order.append(job)
        self.counts[job.state] += 1
        self._reused += job.is_reused
        if job.node is not None:
            self._get_node(job.node).ended[job.state] += 1
        self._failures.add(key, event.result)


def _get_job_key(event: CaseStarted | CasePlaced | InvocationFinished | CaseFinished) -> JobKey:
    return JobKey(case=event.case, repeat=event.repeat)


# The progress of one run: counts, rate, remaining time.

_PROGRESS_WIDTH = 16
SHOWN_COUNTS = (
    CaseState.PASSED,
    CaseState.FAILED,
    CaseState.QUARANTINED,
    CaseState.ERROR,
    CaseState.NOT_EVALUATED,
    CaseState.SKIPPED,
    CaseState.CANCELLED,
)
"""States of finished jobs, in the order of the counts."""


@dataclass(slots=True)
class RunProgress:
    """Progress of a run. Times are seconds of the caller's monotonic clock.

    `tokens` counts finished turns, whatever the status of their case. `retries` counts attempts after the first. `why`
    is the reason of a run of the watch, None for the user's. `models` is the use of judge and user models,
    `model_calls` are the calls of the agents' models that were recorded or replayed, `importing` the targets whose
    agents are being imported. Until `waits_until` calls of a model wait for its quota. At `last_finish` a job ended.
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
    model_calls: ModelCalls = field(default_factory=ModelCalls)
    importing: tuple[str, ...] = ()
    waits_until: float = 0.0
    last_finish: float = 0.0

    @property
    def done(self) -> int:
        """Number of finished jobs that were not cancelled."""
        return len(self.jobs.finished) - self.jobs.counts[CaseState.CANCELLED]

    @property
    def remaining(self) -> int:
        """Number of unfinished jobs."""
        return max(self.total - len(self.jobs.finished), 0)

    @property
    def waiting(self) -> int:
        """Number of jobs that have not started."""
        return max(self.remaining - len(self.jobs.running), 0)

    def apply(self, event: RunEvent, *, now: float) -> None:
        self.jobs.apply(event, now=now)
        if isinstance(event, CaseFinished):
            self.last_finish = now
        if isinstance(event, RunStarted):
            self.total, self.began = event.total, now
        elif isinstance(event, CaseStarted):
            self.retries += event.attempt > 1
        elif isinstance(event, InvocationFinished):
            self.tokens += 0 if event.result.usage is None else event.result.usage.total_tokens
        elif isinstance(event, CaseFinished) and event.source == "executed":
            calls = event.result.execution.model_calls
            self.model_calls = self.model_calls if calls is None else self.model_calls.add(calls)
        elif isinstance(event, ModelsAsked):
            self.models = event.models
        elif isinstance(event, AgentsImporting):
            self.importing = event.targets
        elif isinstance(event, QuotaWait):
            self.waits_until = now + event.seconds
        elif isinstance(event, RunFinished):
            self.ended, self.interrupted = self.began + event.duration_seconds, event.interrupted

    def calculate_elapsed(self, *, now: float) -> float:
        """Calculate the seconds since the start, or the duration of a finished run."""
        return (now if self.ended is None else self.ended) - self.began

    def calculate_rate(self, *, now: float) -> float | None:
        """Calculate the jobs per second; None before the first one finished. Reused results do not count."""
        elapsed = self.calculate_elapsed(now=now)
        ran = self.done - self.jobs.reused
        return ran / elapsed if ran > 0 and elapsed > 0 else None

    def estimate_remaining(self, *, now: float) -> float | None:
        """Estimate the remaining seconds at the current rate; None before the first job finished.

        Also None if no job has finished for longer than this and a second: those that run are slower than the others.
        """
        rate = self.calculate_rate(now=now)
        left = self.remaining / rate if rate else None
        return None if left is None or now - self.last_finish > left + 1 else left

    def format_line(self, *, now: float, width: int, can_resume: str | None = None, resume_key: str = "") -> Line:
        """Format the progress in one line of at most `width` cells. `can_resume` is the id of a stopped run, if any.

        `resume_key` resumes it.

        Without room for all, what matters least is left out; the counts of cases that did not pass are left out last.
        """
        return fit_parts(list(self._make_parts(now, can_resume, resume_key)), width)

    def _make_parts(self, now: float, can_resume: str | None, resume_key: str) -> Iterator[RankedPart]:
        filled = _PROGRESS_WIDTH * self.done // self.total if self.total else _PROGRESS_WIDTH
        yield RankedPart(1, (StyledText(f" {self.activity}", Style.STRONG),))
        progress = StyledText("█" * filled, Style.RUNNING), StyledText("░" * (_PROGRESS_WIDTH - filled), Style.MUTED)
        yield RankedPart(6, (StyledText("  "), *progress))
        yield RankedPart(2, (StyledText(f"  {self.done:,}/{self.total:,}"),))
        counts = [(state, self.jobs.counts[state]) for state in SHOWN_COUNTS if self.jobs.counts[state]]
        for index, (state, count) in enumerate(counts):
            badge = get_badge(state)
            lead = " " if index else "  "
            yield RankedPart(
                0 if state in FAILING_STATES else 3, (StyledText(f"{lead}{badge.symbol}{count:,}", badge.style),)
            )
        rate, left = self.calculate_rate(now=now), self.estimate_remaining(now=now)
        if rate is not None:
            yield RankedPart(8, (StyledText(f"  {rate:,.1f}/s", Style.MUTED),))
        if self.ended is not None:
            yield RankedPart(5, (StyledText(f"  in {format_duration(self.ended - self.began)}", Style.MUTED),))
            if can_resume is not None:
                which = "" if can_resume == self.run_id else " the run that was stopped earlier"
                yield RankedPart(4, (StyledText(f"  {resume_key} resumes{which}", Style.KEY),))
        elif left is not None:
            yield RankedPart(5, (StyledText(f"  eta {format_duration(left)}", Style.MUTED),))
        if self.ended is None and self.waits_until > now:
            yield RankedPart(4, (StyledText(f"  {quota_wait_text(self.waits_until - now)}", Style.WARNING),))
        if self.why:
            yield RankedPart(7, (StyledText(f"  why: {safe_line(self.why)}", Style.KEY),))
        others = [
            (describe_model_calls(self.model_calls) if self.model_calls.replayed else "", Style.MUTED),
            (f"{format_count(self.tokens)} tokens" if self.tokens else "", Style.MUTED),
            (format_spending(self.models) if self.models else "", Style.MUTED),
            (_format_retries(self.retries) if self.retries else "", Style.WARNING),
            (f"run {safe_line(self.run_id)}", Style.MUTED),
        ]
        yield from (RankedPart(9, (StyledText(f"  {text}", style),)) for text, style in others if text)

    @property
    def activity(self) -> str:
        """What the run is doing, in one or two words."""
        if self.ended is not None:
            return "cancelled" if self.interrupted else "finished"
        if self.importing and not self.cancelling:
            return f"importing {safe_line(', '.join(self.importing))}"
        return "cancelling" if self.cancelling else "running"


# The rows of the run pane: running, failed, waiting, slowest and finished jobs.

_JOB_BAR_WIDTH = 30
_MOST_SLOWEST = 5
_MOST_FAILURES = 20
_MOST_WAITING = 50
_FACTS_WIDTH = 32  # cells at the end of a row for progress or duration
_LEAST_TITLE = 16


@dataclass(frozen=True, slots=True)
class _Heading:
    """Heading of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that has not started."""

    key: JobKey


Entry = _Heading | RunningJob | _Waiting | FinishedJob | FailureGroup | NodeJobs

Identity = JobKey | tuple[CaseState, str] | str
"""Identity of a row: a job, a group of failures, or the name of a node."""


@dataclass(frozen=True)
class _Section:
    """Rows of one kind under a heading. `find` returns the index of the row with an identity."""

    name: str
    heading: str
    entries: Sequence[Entry]
    find: Callable[[Identity], int | None]


class RunRows(ListRows):
    """Rows of one run for a `RowList`, as of the last `update`.

    The cursor stays on its job while rows appear and disappear.
    """

    def __init__(self) -> None:
        self._sections: Sequence[_Section] = ()
        self._now = 0.0
        self._selected: tuple[str, Identity] | None = None  # section and identity of the selected row
        self._repeats = False
        self._has_ended = False

    @property
    def selected_job(self) -> JobKey | None:
        """Job of the selected row; the first one of a group of failures."""
        entry = self._find_entry(self.cursor)[1]
        if isinstance(entry, FailureGroup):
            return next(iter(entry.jobs), None)
        return _get_job(entry)

    @property
    def selected_failures(self) -> Sequence[JobKey]:
        entry = self._find_entry(self.cursor)[1]
        return tuple(entry.jobs) if isinstance(entry, FailureGroup) else ()

    @property
    def is_stoppable(self) -> bool:
        """True if the selected row is an unfinished job."""
        return isinstance(self._find_entry(self.cursor)[1], RunningJob | _Waiting)

    @property
    def is_waiting(self) -> bool:
        """True if the selected row is a job that has not started."""
        return isinstance(self._find_entry(self.cursor)[1], _Waiting)

    def update(self, progress: RunProgress, *, now: float) -> None:
        self._now = now
        self._repeats = self._repeats or any(key.repeat for key in progress.jobs.running)
        self._sections = [section for section in _make_sections(progress) if section.entries]
        if progress.ended is not None and not self._has_ended:
            self._has_ended = True
            self.move_to(0)  # the outcome of the run is at the top
        self._restore_cursor()

    def move(self, by: int) -> None:
        self.move_to(self.cursor + by)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, or on the first or last row if the index is out of range."""
        self.cursor = min(max(index, 0), max(len(self) - 1, 0))
        section, entry = self._find_entry(self.cursor)
        self._selected = None
        if isinstance(entry, FailureGroup):
            self._selected = section, (entry.state, entry.message)
        elif isinstance(entry, NodeJobs):
            self._selected = section, entry.name
        elif (job := _get_job(entry)) is not None:
            self._selected = section, job

    def __len__(self) -> int:
        return sum(len(section.entries) + 1 for section in self._sections)

    def line(self, index: int, width: int) -> Line:
        entry = self._find_entry(index)[1]
        if entry is None:
            return ()
        if isinstance(entry, _Heading):
            return (StyledText(f" {entry.text}", Style.HEADING),)
        if isinstance(entry, FailureGroup):
            badge = get_badge(entry.state)
            return (StyledText(f"  {badge.symbol} {len(entry.jobs):,} × ", badge.style), StyledText(entry.message))
        if isinstance(entry, NodeJobs):
            return tuple(_format_node(entry, width))
        if isinstance(entry, RunningJob):
            return self._format_job(entry.key, CaseState.RUNNING, _format_running(entry, self._now), width)
        if isinstance(entry, _Waiting):
            return self._format_job(entry.key, CaseState.WAITING, (), width)
        word = get_badge(entry.state).word
        facts = (StyledText(f"{word:<22}", Style.MUTED), StyledText(f"{format_time_taken(entry.seconds):>9}"))
        return self._format_job(entry.key, entry.state, facts, width)

    def _format_job(self, key: JobKey, standing: CaseState, facts: Line, width: int) -> Line:
        badge = get_badge(standing)
        repeat = f" repeat {key.repeat + 1}" if self._repeats or key.repeat else ""
        room = max(width - _FACTS_WIDTH - 5, _LEAST_TITLE)
        title = shorten(safe_line(f"{key.case.eval_id}{repeat}"), room)
        where = _cut_text(f"  {safe_line(key.case.eval_set)}", room - cell_len(title))
        gap = " " * max(room - cell_len(title) - cell_len(where), 0)
        return (
            StyledText(f"  {badge.symbol} ", badge.style),
            StyledText(title),
            StyledText(where + gap, Style.MUTED),
            StyledText(" "),
            *facts,
        )

    def _find_entry(self, index: int) -> tuple[str, Entry | None]:
        for section in self._sections:
            if index == 0:
                return section.name, _Heading(section.heading)
            if index <= len(section.entries):
                return section.name, section.entries[index - 1]
            index -= len(section.entries) + 1
        return "", None

    def _restore_cursor(self) -> None:
        """Keep the cursor on its job or group, perhaps in another section; else at its index."""
        if self._selected is None:
            self.cursor = min(self.cursor, max(len(self) - 1, 0))
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
        self.move_to(self.cursor if elsewhere is None else elsewhere)


def format_summary(progress: RunProgress, *, now: float, width: int) -> tuple[Line, Line]:
    """Format the two lines above the rows: the progress, and the counts of states with the use of models."""
    bar = min(_JOB_BAR_WIDTH, max(width // 5, 8))
    filled = bar * progress.done // progress.total if progress.total else bar
    rate, left = progress.calculate_rate(now=now), progress.estimate_remaining(now=now)
    took = format_duration(progress.calculate_elapsed(now=now))
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
    return head, tuple(_format_counts(progress))


def _format_counts(progress: RunProgress) -> Iterator[StyledText]:
    counts = [(standing, progress.jobs.counts[standing]) for standing in SHOWN_COUNTS]
    if progress.ended is None:
        counts = [
            (CaseState.RUNNING, len(progress.jobs.running)),
            (CaseState.WAITING, progress.waiting),
            *counts,
        ]
    for standing, count in counts:
        if count:
            badge = get_badge(standing)
            yield StyledText(f" {badge.symbol} {count:,} {badge.word} ", badge.style)
    if progress.why:
        yield StyledText(f" why: {safe_line(progress.why)}  ", Style.KEY)
    if progress.tokens:
        yield StyledText(f"  {format_count(progress.tokens)} tokens", Style.MUTED)
    if progress.models:
        yield StyledText(f"  {format_spending(progress.models)}", Style.MUTED)
    if progress.retries:
        yield StyledText(f"  {_format_retries(progress.retries)}", Style.WARNING)


def _format_retries(count: int) -> str:
    return f"{count:,} {'retry' if count == 1 else 'retries'}"


def _make_sections(progress: RunProgress) -> Iterator[_Section]:
    jobs = progress.jobs
    running = list(jobs.running.values())
    heading = f"running {len(running):,}, {progress.waiting:,} waiting"
    yield _Section("running", heading, running, lambda identity: _find_index(running, identity))
    nodes = sorted(jobs.nodes.values(), key=lambda node: node.name)
    yield _Section("nodes", f"nodes {len(nodes):,}", nodes, lambda identity: _find_index(nodes, identity))
    kinds = jobs.failures
    failures, more = kinds[:_MOST_FAILURES], max(len(kinds) - _MOST_FAILURES, 0)
    heading = f"failures by kind{f' (and {more:,} more kinds)' if more else ''}"
    yield _Section("failures", heading, failures, lambda identity: _find_index(failures, identity))
    waiting = [_Waiting(key) for key in islice(jobs.waiting, _MOST_WAITING)]
    only = f", the next {_MOST_WAITING}" if len(jobs.waiting) > _MOST_WAITING else ""
    heading = f"waiting {len(jobs.waiting):,}{only}"
    yield _Section("waiting", heading, waiting, lambda identity: _find_index(waiting, identity))
    if progress.ended is not None:
        slowest = jobs.find_slowest(_MOST_SLOWEST)
        yield _Section("slowest", "slowest", slowest, lambda identity: _find_index(slowest, identity))
    ended = _Reversed(jobs.finished)

    def find_ended(identity: Identity) -> int | None:
        job = jobs.get_finished(identity) if isinstance(identity, JobKey) else None
        return None if job is None else len(ended) - 1 - job.number

    yield _Section("ended", f"ended {len(ended):,}, newest first", ended, find_ended)


def _get_job(entry: Entry | None) -> JobKey | None:
    """Return the job of a row; None for headings and failures."""
    return entry.key if isinstance(entry, RunningJob | _Waiting | FinishedJob) else None


def _find_index(entries: Sequence[Entry], identity: Identity) -> int | None:
    return next((index for index, entry in enumerate(entries) if _has_identity(entry, identity)), None)


def _has_identity(entry: Entry, identity: Identity) -> bool:
    if isinstance(entry, FailureGroup):
        return (entry.state, entry.message) == identity
    if isinstance(entry, NodeJobs):
        return entry.name == identity
    return _get_job(entry) == identity


def _format_node(node: NodeJobs, width: int) -> Iterator[StyledText]:
    room = max(width - _FACTS_WIDTH - 5, _LEAST_TITLE)
    name = shorten(safe_line(node.name), room)
    yield StyledText("    " + name + " " * max(room - cell_len(name), 0))
    counts = [(CaseState.RUNNING, node.running), *((state, node.ended[state]) for state in SHOWN_COUNTS)]
    for state, count in counts:
        if count:
            yield StyledText(f" {get_badge(state).symbol} {count:,}", get_badge(state).style)


def _format_running(job: RunningJob, now: float) -> Line:
    """Format the progress of a job: its turn, its attempt, its duration."""
    if job.turns is None:
        turn = f"turn {job.finished_turns + 1}"
    elif job.finished_turns < job.turns:
        turn = f"turn {job.finished_turns + 1} of {job.turns}"
    else:
        turn = "judging"
    retry = f"retry {job.attempt - 1}" if job.attempt > 1 else ""
    elapsed = format_duration(max(now - job.began, 0.0))
    return StyledText(f"{turn:<13}"), StyledText(f"{retry:<9}", Style.WARNING), StyledText(f"{elapsed:>9}", Style.MUTED)


def _cut_text(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis at its end."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0)).rstrip()}…"[: max(width, 0)]


class _Reversed(Sequence[Entry]):
    """Jobs from the last to the first, without a copy of the list."""

    def __init__(self, jobs: Sequence[FinishedJob]) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, index: int) -> FinishedJob:  # type: ignore[override]
        return self.jobs[len(self.jobs) - 1 - index]
