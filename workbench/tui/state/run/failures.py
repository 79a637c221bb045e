"""What went wrong in a run, with what is the same counted once: "12 × agent: connection refused"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.model.keys import JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricStatus
from workbench.model.text import redact
from workbench.tui.state.pieces import safe_line
from workbench.tui.state.standing import Standing, standing_of

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
