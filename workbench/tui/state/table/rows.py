"""Rows of the results table: what is kept of a result to be shown in one line, and that is little."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus, misses_samples
from workbench.model.text import redact
from workbench.model.trajectory import trajectory_of
from workbench.report.judging import samples_text
from workbench.tui.state.pieces import safe_line
from workbench.tui.state.standing import Standing, standing_of

_WIDTH = 200
"""Characters kept of one text: more than a cell can show."""


class ShownScore(NamedTuple):
    """One metric of a row; `why` is the safe line that explains it, empty where nothing does."""

    score: float | None
    status: MetricStatus
    why: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """One case, or one repeat of it. All text is safe and on one line; `latency` is in seconds.

    `actual_calls` is None where nobody knows which tools were called, `expected_calls` where nothing was expected.
    `passed` repeats passed; `repeat` is None for a row that stands for several repeats of its case, which
    `repeat_numbers` names. `misses_samples`: a verdict rests on fewer samples of a judge than it asked for. `searched`
    is what a filter looks in, made once: it is read with every key that the user writes. `is_stale`: the verdict no
    longer holds.
    """

    case: CaseKey
    repeat: int | None
    status: Standing
    passed: int
    repeat_numbers: tuple[int, ...]
    response: str
    trajectory: str
    actual_calls: int | None
    expected_calls: int | None
    latency: float
    failure: str
    scores: Mapping[str, ShownScore]
    misses_samples: bool
    searched: str
    is_stale: bool = False

    @property
    def name(self) -> str:
        """The id of the case, and which repeat it is."""
        return _name(self.case, self.repeat)

    @property
    def repeats(self) -> int:
        """How many repeats it stands for."""
        return len(self.repeat_numbers)


def table_row(result: CaseResult, expected: EvalCase | None) -> TableRow:
    """The row of one result; `expected` is the case as it is now, None where it is gone."""
    turns = [turn.invocation for turn in result.execution.turns]
    calls = [call.name for turn in turns for call in trajectory_of(turn)]
    unknown = not all(map(result.knows_calls, result.execution.turns))
    wanted = expected.conversation if expected is not None else None
    if result.is_row and any(turn.intermediate_data is None for turn in wanted or ()):
        wanted = None
    responses = [turn.final_response.text() for turn in turns if turn.final_response is not None]
    response, trajectory = _short(" ⏎ ".join(responses)), _short(", ".join(calls))
    failure = _short(result.failure.message) if result.failure is not None else ""
    status = standing_of([result.status])
    return TableRow(
        case=result.case,
        repeat=result.repeat,
        status=status,
        passed=int(result.status is CaseStatus.PASSED),
        repeat_numbers=(result.repeat,),
        response=response,
        trajectory=trajectory,
        actual_calls=None if unknown else len(calls),
        expected_calls=None if wanted is None else sum(len(trajectory_of(turn)) for turn in wanted),
        latency=result.agent_seconds,
        failure=failure,
        scores={metric.name: _shown(metric) for metric in result.metrics},
        misses_samples=misses_samples(result.metrics),
        searched=_searched(_name(result.case, result.repeat), status, response, trajectory, failure),
    )


def merged(rows: Iterable[TableRow]) -> list[TableRow]:
    """One row for each case: the worst status, means of scores and latency, texts of the first repeat."""
    cases: dict[CaseKey, list[TableRow]] = {}
    for row in rows:
        cases.setdefault(row.case, []).append(row)
    return [_merge(repeats) for repeats in cases.values()]


def _merge(rows: Sequence[TableRow]) -> TableRow:
    first = rows[0]
    if len(rows) == 1:
        return first
    names = dict.fromkeys(name for row in rows for name in row.scores)
    status = standing_of(CaseStatus[row.status.name] for row in rows)
    failure = next((row.failure for row in rows if row.failure), "")
    return TableRow(
        case=first.case,
        repeat=None,
        status=status,
        passed=sum(row.passed for row in rows),
        repeat_numbers=tuple(number for row in rows for number in row.repeat_numbers),
        response=first.response,
        trajectory=first.trajectory,
        actual_calls=first.actual_calls,
        expected_calls=first.expected_calls,
        latency=fmean(row.latency for row in rows),
        failure=failure,
        scores={name: _merge_scores([row.scores[name] for row in rows if name in row.scores]) for name in names},
        misses_samples=any(row.misses_samples for row in rows),
        searched=_searched(_name(first.case, None), status, first.response, first.trajectory, failure),
        is_stale=first.is_stale,
    )


_WORST_FIRST = (
    MetricStatus.ERROR,
    MetricStatus.FAILED,
    MetricStatus.UNDEFINED,
    MetricStatus.PASSED,
    MetricStatus.INFORMATIONAL,
)


def _merge_scores(scores: Sequence[ShownScore]) -> ShownScore:
    known = [one.score for one in scores if one.score is not None]
    worst = min(scores, key=lambda one: _WORST_FIRST.index(one.status))
    return ShownScore(fmean(known) if known else None, worst.status, worst.why)


def _shown(metric: MetricResult) -> ShownScore:
    notes = [metric.reason, metric.hint, samples_text(metric), *(turn.reason for turn in metric.per_invocation)]
    why = "; ".join(dict.fromkeys(note for note in notes if note))
    return ShownScore(metric.score, metric.status, _short(why))


def _name(case: CaseKey, repeat: int | None) -> str:
    number = f"#{case.occurrence + 1}" if case.occurrence else ""
    return safe_line(f"{case.eval_id}{number}{f' [{repeat + 1}]' if repeat else ''}")


def _searched(name: str, status: Standing, *texts: str) -> str:
    return " ".join([name, status.value, *texts]).casefold()


def _short(text: str) -> str:
    return safe_line(redact(text[: 4 * _WIDTH]), width=_WIDTH) if text else ""
