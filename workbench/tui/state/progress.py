"""The progress of one run: counts, rate, what is left."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.model.events import (
    AgentsImporting,
    CaseStarted,
    InvocationFinished,
    ModelsAsked,
    QuotaWait,
    RunEvent,
    RunFinished,
    RunStarted,
)
from workbench.model.spending import ModelSpending
from workbench.report.spending import quota_wait_text
from workbench.tui.state.amounts import duration, thousands
from workbench.tui.state.header import asked_text
from workbench.tui.state.pieces import Line, Piece, Tone, safe_line
from workbench.tui.state.run.jobs import RunJobs
from workbench.tui.state.standing import Standing, look_of

_BAR_WIDTH = 16
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
            self.tokens += 0 if event.result.usage is None else event.result.usage.spent
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
        filled = _BAR_WIDTH * self.done // self.total if self.total else _BAR_WIDTH
        pieces = [
            Piece(f" {self.activity}  ", Tone.STRONG),
            Piece("█" * filled, Tone.RUNNING),
            Piece("░" * (_BAR_WIDTH - filled), Tone.MUTED),
            Piece(f"  {self.done:,}/{self.total:,} "),
        ]
        for standing in SHOWN_COUNTS:
            if count := self.jobs.counts[standing]:
                look = look_of(standing)
                pieces.append(Piece(f" {look.symbol}{count:,}", look.tone))
        rate = self.rate(now=now)
        if rate is not None:
            pieces.append(Piece(f"  {rate:,.1f}/s", Tone.MUTED))
        left = self.seconds_left(now=now)
        if self.ended is not None:
            pieces.append(Piece(f"  in {duration(self.ended - self.began)}", Tone.MUTED))
            if can_resume is not None:
                which = "" if can_resume == self.run_id else " the run that was stopped before"
                pieces.append(Piece(f"  alt+x resumes{which}", Tone.KEY))
        elif left is not None:
            pieces.append(Piece(f"  eta {duration(left)}", Tone.MUTED))
        if self.ended is None and self.waits_until > now:
            pieces.append(Piece(f"  {quota_wait_text(self.waits_until - now)}", Tone.WARNING))
        if self.why:  # before what there may be no room for
            pieces.append(Piece(f"  why: {safe_line(self.why)}", Tone.KEY))
        if self.tokens:
            pieces.append(Piece(f"  {thousands(self.tokens)} tokens", Tone.MUTED))
        if self.models:
            pieces.append(Piece(f"  {asked_text(self.models)}", Tone.MUTED))
        if self.retries:
            pieces.append(Piece(f"  {self.retries:,} {'retry' if self.retries == 1 else 'retries'}", Tone.WARNING))
        pieces.append(Piece(f"  run {safe_line(self.run_id)}", Tone.MUTED))
        return tuple(pieces)

    @property
    def activity(self) -> str:
        """What the run is doing, in a word or two."""
        if self.ended is not None:
            return "cancelled" if self.interrupted else "finished"
        if self.importing and not self.cancelling:
            return f"importing {safe_line(', '.join(self.importing))}"
        return "cancelling" if self.cancelling else "running"
