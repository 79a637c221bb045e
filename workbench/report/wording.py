"""Words and signs that every report for people shares."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from workbench.model.events import RunSummary
from workbench.model.results import CaseStatus
from workbench.model.text import counted
from workbench.report.run_report import RunFacts

if TYPE_CHECKING:
    from workbench.store.history import StoredRun

SYMBOLS = {
    CaseStatus.PASSED: "✓",
    CaseStatus.FAILED: "✗",
    CaseStatus.ERROR: "!",
    CaseStatus.NOT_EVALUATED: "?",
    CaseStatus.SKIPPED: "-",
    CaseStatus.CANCELLED: "-",
}

PARTLY_JUDGED = "judged by fewer samples than asked"
"""Of a verdict that lacks samples of a judge, where it is not said how many."""


def heading(target: str, eval_set: str) -> str:
    """What stands above the cases of a set: who ran it, and its name. A dataset that was only judged is both."""
    return " · ".join(dict.fromkeys(name for name in (target, eval_set) if name))


def total_line(report: RunFacts) -> str:
    """The run in one line, with both denominators: of all cases, and of those that could be judged."""
    summary = report.summary
    parts = [f"{counted(summary.total, 'case')}: {counts_text(summary)}"]
    judged = summary.passed + summary.failed
    if 0 < judged < summary.total:
        parts.append(f"passed {summary.passed} of {judged} judged and of {summary.total} in all")
    parts.append(f"in {duration_text(report.duration_seconds)}")
    if report.interrupted:
        parts.append("interrupted")
    return ", ".join(parts)


def counts_text(summary: RunSummary) -> str:
    """Cases by status, and those whose verdict lacks samples, leaving out what did not occur: `3 passed, 1 error`."""
    counts = {
        "passed": summary.passed,
        "failed": summary.failed,
        "error": summary.error,
        "not evaluated": summary.not_evaluated,
        "skipped": summary.skipped,
        "cancelled": summary.cancelled,
        PARTLY_JUDGED: summary.partly_judged,
    }
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none"


def duration_text(seconds: float) -> str:
    """A duration for people: `0.31 s`, `12.4 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def time_taken(seconds: float) -> str:
    """How long a case took; `-` where nothing ran that could have been timed: a row that is judged as it stands."""
    return duration_text(seconds) if seconds else "-"


def when(at: datetime) -> str:
    """A time for people, in their time zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def cut_short(run: StoredRun) -> str:
    """Why not every case of a run has run; nothing where all have."""
    if run.interrupted:
        return "interrupted"
    return "" if run.ended else "unfinished"
