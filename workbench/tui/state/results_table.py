"""The results of many cases as a table: a row for each case, or for each repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from rich.cells import cell_len

from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus, has_missing_samples
from workbench.model.text import redact
from workbench.model.trace import get_trajectory
from workbench.report.run_report import samples_text
from workbench.tui.state.browser_list import Row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_board import PARTLY_JUDGED, STALE, Standing, look_of, look_of_metric, standing_of
from workbench.tui.state.text_layout import (
    CursorRows,
    Line,
    Style,
    StyledText,
    cut_line,
    format_time_taken,
    plural,
    safe_line,
    shorten,
)

# Rows of the results table: what is kept of a result to be shown in one line, and that is little.

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
    calls = [call.name for turn in turns for call in get_trajectory(turn)]
    unknown = not all(map(result.has_known_calls, result.execution.turns))
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
        expected_calls=None if wanted is None else sum(len(get_trajectory(turn)) for turn in wanted),
        latency=result.agent_seconds,
        failure=failure,
        scores={metric.name: _shown(metric) for metric in result.metrics},
        misses_samples=has_missing_samples(result.metrics),
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


# Columns of the results table: what a cell shows, what it is sorted by, and what stands below it.

EVAL_SET = "eval_set"
"""The column that is only of use where there are several sets."""

SortValue = float | str | None


@dataclass(frozen=True)
class Column:
    """One column. `number` gives the figure that mean and deviation are taken of, where it has one."""

    id: str
    title: str
    width: int
    cell: Callable[[TableRow], StyledText]
    value: Callable[[TableRow], SortValue]
    number: Callable[[TableRow], float | None] | None = None


def columns_of(metrics: Iterable[str]) -> list[Column]:
    """Those that every table has, then for each metric its score and the explanation of it."""
    return [*_FIXED, *(column for name in metrics for column in _metric_columns(name))]


def _status(row: TableRow) -> StyledText:
    look = look_of(row.status)
    count = "" if row.repeats == 1 else f" {row.passed}/{row.repeats}"
    partly = f" {PARTLY_JUDGED.symbol}" if row.misses_samples else ""
    shown = STALE if row.is_stale else look
    return StyledText(f"{look.symbol} {shown.word}{count}{partly}", shown.style)


def _calls(row: TableRow) -> StyledText:
    made = "?" if row.actual_calls is None else str(row.actual_calls)
    if row.expected_calls is None:
        return StyledText(made)
    differs = row.expected_calls != row.actual_calls
    return StyledText(f"{made}/{row.expected_calls}", Style.WARNING if differs else Style.TEXT)


def _latency(row: TableRow) -> float:
    return row.latency


def _set(row: TableRow) -> str:
    return safe_line(row.case.eval_set.rpartition("/")[2].partition(".")[0])


_FIXED = (
    Column(EVAL_SET, "eval set", 20, lambda row: StyledText(_set(row), Style.MUTED), lambda row: row.case.eval_set),
    Column("status", "status", 14, _status, lambda row: row.status.value),
    Column("response", "response", 40, lambda row: StyledText(row.response), lambda row: row.response),
    Column(
        "trajectory", "trajectory", 32, lambda row: StyledText(row.trajectory, Style.KEY), lambda row: row.trajectory
    ),
    Column("calls", "calls", 9, _calls, lambda row: row.actual_calls),
    Column("latency", "latency", 10, lambda row: StyledText(format_time_taken(row.latency)), _latency, _latency),
    Column("failure", "failure", 32, lambda row: StyledText(row.failure, Style.ERROR), lambda row: row.failure or None),
)


def _metric_columns(name: str) -> tuple[Column, Column]:
    def cell(row: TableRow) -> StyledText:
        shown = row.scores.get(name)
        if shown is None:
            return StyledText("-", Style.MUTED)
        look = look_of_metric(shown.status)
        return StyledText(f"{look.symbol} {'-' if shown.score is None else f'{shown.score:.4g}'}", look.style)

    def score(row: TableRow) -> float | None:
        shown = row.scores.get(name)
        return None if shown is None else shown.score

    def why(row: TableRow) -> str:
        shown = row.scores.get(name)
        return "" if shown is None else shown.why

    title = safe_line(name)
    return (
        Column(name, title, min(max(cell_len(title) + 2, 10), 30), cell, score, score),
        Column(
            f"{name} why",
            f"{title} why",
            34,
            lambda row: StyledText(why(row), Style.MUTED),
            lambda row: why(row) or None,
        ),
    )


# Whose newest results a table shows: an eval set, an agent, or everything.


@dataclass(frozen=True, slots=True)
class Scope:
    """`eval_set` is empty for all sets of the target, `target` None for everything.

    `narrowest` is the eval set to come back to after everything.
    """

    target: str | None
    eval_set: str = ""
    narrowest: tuple[str | None, str] = (None, "")

    @classmethod
    def around(cls, row: Row | None) -> Scope:
        """The eval set of a row, the target where the row is one, everything where there is none."""
        if row is None:
            return cls(None)
        return cls(row.target, row.eval_set, (row.target, row.eval_set))

    @property
    def title(self) -> str:
        """What it is called, safe to show."""
        if self.target is None:
            return "everything"
        return safe_line(self.eval_set or self.target or "sets without an agent")

    def wider(self) -> Scope:
        """From a set to its target, to everything, and back to where it began."""
        if self.eval_set:
            return Scope(self.target, "", self.narrowest)
        if self.target is not None:
            return Scope(None, "", self.narrowest)
        return Scope(*self.narrowest, self.narrowest)

    def cases(self, browser: Browser) -> list[CaseKey]:
        """Its cases, in the order of their files."""
        sets = browser.sets if self.target is None else browser.sets_of(self.target)
        chosen = (listed for listed in sets if self.eval_set in ("", listed.relative))
        return [key for listed in chosen for key in listed.keys]


# The results table: rows that come in stretches, sorted and filtered, in columns that scroll.

_ID_WIDTH = 30
_LEAST_ID_WIDTH = 14
_AROUND_NAME = 3  # blanks before and behind it


class ResultTable(CursorRows):
    """Rows for a list, with a column under a second cursor."""

    def __init__(self) -> None:
        self.by_repeat = False
        self.filtered_by = ""
        self.sorted_by: str | None = None
        self.is_descending = False
        self.hidden: set[str] = set()
        self.column = 0
        self._offset = 0  # the first column that is drawn
        self._all: list[TableRow] = []
        self._sets: set[str] = set()
        self._metrics: dict[str, None] = {}
        self.all_columns: list[Column] = columns_of(())
        self._found: list[TableRow] = []  # what is listed, in the order of the files
        self._rows: list[TableRow] = []
        self._has_repeats = False
        self._longest_name = 0  # in cells
        self._standings: Counter[Standing] = Counter()
        self._stale = 0  # rows that are listed
        self._figures: dict[str, tuple[float | None, float | None]] = {}  # mean and deviation by column

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Sequence[TableRow]:
        """What is listed, in its order."""
        return self._rows

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to list, whatever the filter."""
        return not self._all

    @property
    def selected(self) -> TableRow | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    @property
    def columns(self) -> list[Column]:
        """The columns that are not hidden; that of the eval set where there are several."""
        unwanted = self.hidden if len(self._sets) > 1 else {*self.hidden, EVAL_SET}
        return [column for column in self.all_columns if column.id not in unwanted]

    def take_over(self, other: ResultTable) -> None:
        """Show rows as another table does: the same columns, order and filter."""
        self.by_repeat, self.filtered_by = other.by_repeat, other.filtered_by
        self.sorted_by, self.is_descending = other.sorted_by, other.is_descending
        self.hidden, self.column = other.hidden, min(other.column, len(self.columns) - 1)

    def add(self, rows: Iterable[TableRow]) -> None:
        """Take more rows; `arrange` lists them."""
        before = len(self._metrics)
        for row in rows:
            self._all.append(row)
            self._sets.add(row.case.eval_set)
            self._has_repeats = self._has_repeats or bool(row.repeat)
            self._longest_name = max(self._longest_name, cell_len(row.name))
            self._metrics.update(dict.fromkeys(row.scores))
        if len(self._metrics) != before:
            self.all_columns = columns_of(self._metrics)

    def mark_stale(self, stale: Collection[CaseKey]) -> bool:
        """Mark the rows of these cases, and no others, for `arrange`. Return False if they were marked before."""
        changed = [index for index, row in enumerate(self._all) if row.is_stale != (row.case in stale)]
        for index in changed:
            self._all[index] = replace(self._all[index], is_stale=not self._all[index].is_stale)
        return bool(changed)

    def arrange(self) -> None:
        """List what there is now: one row a case or a repeat, filtered and sorted. The same row stays selected."""
        selected = self.selected
        rows = self._all if self.by_repeat or not self._has_repeats else merged(self._all)
        words = self.filtered_by.casefold().split()
        if words:
            rows = [row for row in rows if all(word in row.searched for word in words)]
        self._found = list(rows)
        self._standings = Counter(row.status for row in rows)
        self._stale = sum(row.is_stale for row in rows)
        self._figures.clear()
        self._order(selected)

    def move_column(self, by: int) -> None:
        """Move the cursor to another column."""
        self.column = min(max(self.column + by, 0), len(self.columns) - 1)

    def sort(self) -> None:
        """Sort by the column under the cursor; again, the other way round; a third time, not at all."""
        chosen = self.columns[self.column].id
        if self.sorted_by != chosen:
            self.sorted_by, self.is_descending = chosen, False
        elif not self.is_descending:
            self.is_descending = True
        else:
            self.sorted_by, self.is_descending = None, False
        self._order(self.selected)

    def toggle_column(self, column: str) -> None:
        """Hide a column, or show it again; one column always stays."""
        if column in self.hidden or len(self.columns) > 1:
            self.hidden ^= {column}
        self.move_column(0)

    def fit_columns(self, width: int) -> None:
        """Scroll the columns so that the one under the cursor is drawn in rows of this width."""
        room = width - self._id_width(width)
        self._offset = min(self._offset, self.column)
        columns = self.columns
        while self._offset < self.column and _width(columns[self._offset : self.column + 1]) > room:
            self._offset += 1

    def head(self, width: int) -> Line:
        """The titles of the columns."""
        cells = []
        for index, column in self._drawn(width):
            arrow = "" if column.id != self.sorted_by else " ▼" if self.is_descending else " ▲"
            title = cut_line((StyledText(column.title),), column.width - 2 - len(arrow))
            text = "".join(piece.text for piece in title) + arrow
            cells.append((StyledText(text, Style.TAB if index == self.column else Style.HEADING), column.width))
        return self._line(StyledText("case", Style.HEADING), cells, width=width)

    def line(self, index: int, width: int) -> Line:
        """One row."""
        row = self._rows[index]
        cells = [(column.cell(row), column.width) for _, column in self._drawn(width)]
        return self._line(
            StyledText(shorten(row.name, self._id_width(width) - _AROUND_NAME), Style.STRONG), cells, width=width
        )

    def feet(self, width: int) -> list[Line]:
        """Mean and deviation of what is listed, below the columns that have figures."""
        figures = [(column.width, *self._figures_of(column)) for _, column in self._drawn(width)]
        means = [(StyledText("" if mean is None else f"{mean:.4g}"), cells) for cells, mean, _ in figures]
        deviations = [
            (StyledText("" if std is None else f"±{std:.4g}", Style.MUTED), cells) for cells, _, std in figures
        ]
        return [
            self._line(StyledText("mean", Style.KEY), means, width=width),
            self._line(StyledText("deviation", Style.KEY), deviations, width=width),
        ]

    def counts(self) -> list[StyledText]:
        """How many rows are listed, and how they stand."""
        pieces = [StyledText(plural(len(self._rows), "row"), Style.STRONG)]
        if self._stale:
            pieces.append(StyledText(f"   {STALE.symbol} {self._stale:,} {STALE.word}", STALE.style))
        for standing in Standing:
            count = self._standings[standing]
            if count:
                look = look_of(standing)
                pieces.append(StyledText(f"   {look.symbol} {count:,} {look.word}", look.style))
        return pieces

    def text_of(self, row: TableRow) -> str:
        """A row as text to copy: its cells with their titles."""
        cells = [f"{column.title}: {column.cell(row).text}" for column in self.columns if column.cell(row).text]
        return "\n".join([f"case: {row.case}", *cells])

    def _order(self, selected: TableRow | None) -> None:
        """Sort what was found. The cursor stays on the row `selected`, else on one of its case, else where it is."""
        self._rows = self._sorted(self._found)
        if selected is not None:
            same = [index for index, row in enumerate(self._rows) if row.case is selected.case]
            exact = (index for index in same if self._rows[index].repeat == selected.repeat)
            nearest = same[0] if same else min(self.cursor, max(len(self._rows) - 1, 0))
            self.cursor = next(exact, nearest)

    def _sorted(self, rows: list[TableRow]) -> list[TableRow]:
        column = next((column for column in self.all_columns if column.id == self.sorted_by), None)
        if column is None:
            return rows
        known: list[tuple[float | str, TableRow]] = []
        absent: list[TableRow] = []
        for row in rows:
            value = column.value(row)
            if value is None:
                absent.append(row)
            else:
                known.append((value, row))
        known.sort(key=_first, reverse=self.is_descending)
        return [*(row for _, row in known), *absent]

    def _figures_of(self, column: Column) -> tuple[float | None, float | None]:
        """Mean and sample deviation of what is listed, reckoned once: there may be ten thousand rows."""
        if column.id not in self._figures:
            number = column.number
            values = [] if number is None else [one for row in self._rows if (one := number(row)) is not None]
            mean = sum(values) / len(values) if values else None
            squares = 0.0 if mean is None else sum((value - mean) ** 2 for value in values)
            self._figures[column.id] = mean, sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
        return self._figures[column.id]

    def _drawn(self, width: int) -> list[tuple[int, Column]]:
        """The columns that stand in rows of this width, the last of them perhaps in part, with their places."""
        drawn: list[tuple[int, Column]] = []
        used = self._id_width(width)
        for place, column in list(enumerate(self.columns))[self._offset :]:
            if used >= width:
                break
            drawn.append((place, column))
            used += column.width
        return drawn

    def _id_width(self, width: int) -> int:
        """Enough for every name, as far as that leaves two thirds of the width to other columns."""
        usual = min(max(width // 4, _LEAST_ID_WIDTH), _ID_WIDTH)
        return max(usual, min(self._longest_name + _AROUND_NAME, width // 3))

    def _line(self, name: StyledText, cells: Iterable[tuple[StyledText, int]], *, width: int) -> Line:
        """The name, which stays where it is, and cells beside it."""
        pieces = [StyledText(" "), *_cell(name, self._id_width(width) - 1)]
        for piece, cell_width in cells:
            pieces += _cell(piece, cell_width)
        return cut_line(tuple(pieces), width)


def _cell(piece: StyledText, width: int) -> list[StyledText]:
    shown = cut_line((piece,), width - 2)
    return [*shown, StyledText(" " * (width - sum(cell_len(part.text) for part in shown)))]


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns)


def _first(pair: tuple[float | str, TableRow]) -> float | str:
    return pair[0]
