"""How a case stands, and how that is shown: a symbol, a word and a tone, never a colour alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from workbench.model.results import CaseStatus, MetricStatus
from workbench.tui.state.pieces import Tone


class Standing(StrEnum):
    """How a case stands now: the outcome of its newest results, or what a run is doing with it."""

    NOT_RUN = "not run"
    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_EVALUATED = "not evaluated"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Look:
    """How something is shown: the symbol is one cell wide."""

    symbol: str
    word: str
    tone: Tone


_LOOKS = {
    Standing.NOT_RUN: Look("○", "not run", Tone.MUTED),
    Standing.WAITING: Look("○", "waiting", Tone.RUNNING),
    Standing.RUNNING: Look("◐", "running", Tone.RUNNING),
    Standing.PASSED: Look("✓", "passed", Tone.PASSED),
    Standing.FAILED: Look("✗", "failed", Tone.FAILED),
    Standing.ERROR: Look("!", "error", Tone.ERROR),
    Standing.NOT_EVALUATED: Look("?", "not evaluated", Tone.WARNING),
    Standing.SKIPPED: Look("-", "skipped", Tone.MUTED),
    Standing.CANCELLED: Look("-", "cancelled", Tone.WARNING),
}

_METRIC_LOOKS = {
    MetricStatus.PASSED: Look("✓", "passed", Tone.PASSED),
    MetricStatus.FAILED: Look("✗", "failed", Tone.FAILED),
    MetricStatus.ERROR: Look("!", "error", Tone.ERROR),
    MetricStatus.UNDEFINED: Look("?", "undefined", Tone.WARNING),
    MetricStatus.INFORMATIONAL: Look("·", "informational", Tone.MUTED),
}

_WORST_FIRST = (
    CaseStatus.ERROR,
    CaseStatus.FAILED,
    CaseStatus.NOT_EVALUATED,
    CaseStatus.CANCELLED,
    CaseStatus.SKIPPED,
    CaseStatus.PASSED,
)

STALE = Look("●", "stale", Tone.WARNING)
"""How a case is shown whose verdict no longer holds: it or its criteria have changed since."""

MARKED = Look("◆", "marked", Tone.HEADING)
"""How a case is shown that the user has marked."""

EDITED = Look("*", "unsaved edits", Tone.WARNING)
"""How a case or an eval set is shown that has edits which are not in its file."""

PARTLY_JUDGED = Look("†", "judged by fewer samples than asked", Tone.WARNING)
"""How a case is shown whose verdict lacks samples of a judge."""

FALLS_SHORT = frozenset({Standing.FAILED, Standing.ERROR, Standing.NOT_EVALUATED})
"""Standings of a finished case that did not pass: what "run failed" runs and "next failing" finds."""


def look_of(standing: Standing) -> Look:
    """How a standing is shown."""
    return _LOOKS[standing]


def look_of_metric(status: MetricStatus) -> Look:
    """How the outcome of a metric is shown."""
    return _METRIC_LOOKS[status]


def standing_of(statuses: Iterable[CaseStatus]) -> Standing:
    """How a case stands whose repeats ended so: as its worst repeat, for it passes only where all do."""
    found = set(statuses)
    worst = next((status for status in _WORST_FIRST if status in found), None)
    return Standing.NOT_RUN if worst is None else Standing[worst.name]
