"""Results of many cases as a table: a row for each case, or for each repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isfinite, nan, sqrt
from operator import attrgetter, itemgetter
from statistics import fmean
from typing import NamedTuple

from rich.cells import cell_len

from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus, ModelCalls, has_missing_samples
from workbench.model.text import redact, score_text
from workbench.model.trace import get_trajectory
from workbench.report.run_report import samples_text
from workbench.tui.state.browser_list import BrowserRow
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_status import (
    PARTLY_JUDGED,
    REPLAYED,
    STALE,
    CaseState,
    are_flaky,
    count_passed,
    find_worst_state,
    get_badge,
    get_metric_badge,
    make_count_parts,
)
from workbench.tui.state.finder import FinderPattern
from workbench.tui.state.text_layout import (
    ItemRows,
    Line,
    RankedPart,
    Style,
    StyledText,
    cut_line,
    fill_line,
    fit_parts,
    format_set_name,
    format_time_taken,
    plural,
    safe_line,
    shorten,
    shorten_name,
)

# Rows of the results table. A row has only the text of one line, not the whole result.

_WIDTH = 200
"""Maximum characters of a text: more than a cell can show."""


class TableScore(NamedTuple):
    """One metric of a row; `why` explains it in one safe line, or is empty."""

    score: float | None
    status: MetricStatus
    why: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """One case, or one repeat of it. All text is safe and on one line; `latency` is in seconds.

    `actual_calls`: None if the tool calls are unknown. `expected_calls`: None without a reference. `repeat`: None for
    a row of several repeats, whose numbers are `repeat_numbers`; `passed` of them passed. `misses_samples`: a verdict
    rests on fewer judge samples than requested. `model_calls` are those of the agent, None if unknown. `search_text`
    is made once, because a filter reads it with every key. `live_samples` are the repeats of the newest run that asked
    the models, if the row is replayed and if they are more than one. `is_stale`: the verdict is stale.
    `is_quarantined`: the row is FAILED, which fails no run.
    """

    case: CaseKey
    repeat: int | None
    status: CaseState
    passed: int
    repeat_numbers: tuple[int, ...]
    response: str
    trajectory: str
    actual_calls: int | None
    expected_calls: int | None
    latency: float
    failure: str
    scores: Mapping[str, TableScore]
    misses_samples: bool
    model_calls: ModelCalls | None
    search_text: str
    live_samples: Sequence[CaseStatus] = ()
    is_stale: bool = False
    is_quarantined: bool = False

    @property
    def state(self) -> CaseState:
        """The status, or that the case FAILED in quarantine."""
        return CaseState.QUARANTINED if self.is_quarantined else self.status

    @property
    def name(self) -> str:
        """Id of the case, with its repeat."""
        return _format_name(self.case, self.repeat)

    @property
    def repeats(self) -> int:
        return len(self.repeat_numbers)


def make_table_row(result: CaseResult, expected: EvalCase | None, live_samples: Sequence[CaseStatus] = ()) -> TableRow:
    """Make the row of one result. `expected` is the current case; None if it no longer exists.

    `live_samples` are those of the case.
    """
    turns = [turn.invocation for turn in result.execution.turns]
    calls = [call.name for turn in turns for call in get_trajectory(turn)]
    unknown = not all(map(result.has_known_calls, result.execution.turns))
    wanted = expected.conversation if expected is not None else None
    if result.is_row and any(turn.intermediate_data is None for turn in wanted or ()):
        wanted = None
    responses = [turn.final_response.text() for turn in turns if turn.final_response is not None]
    response, trajectory = _shorten(" ⏎ ".join(responses)), _shorten(", ".join(calls))
    failure = _shorten(result.failure.message) if result.failure is not None else ""
    status = find_worst_state([result.status])
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
        scores={metric.name: _make_score(metric) for metric in result.metrics},
        misses_samples=has_missing_samples(result.metrics),
        model_calls=result.execution.model_calls,
        search_text=_make_search_text(_format_name(result.case, result.repeat), status, response, trajectory, failure),
        live_samples=live_samples if result.execution.is_replayed and len(live_samples) > 1 else (),
        is_quarantined=result.is_quarantined,
    )


def merge_repeats(rows: Iterable[TableRow]) -> list[TableRow]:
    """Merge the rows of each case: the worst status, means of scores and latency, texts of the first repeat."""
    cases: dict[CaseKey, list[TableRow]] = {}
    for row in rows:
        cases.setdefault(row.case, []).append(row)
    return [_merge_rows(repeats) for repeats in cases.values()]


def _merge_rows(rows: Sequence[TableRow]) -> TableRow:
    first = rows[0]
    if len(rows) == 1:
        return first
    names = dict.fromkeys(name for row in rows for name in row.scores)
    status = find_worst_state(CaseStatus[row.status.name] for row in rows)
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
        model_calls=_add_calls(row.model_calls for row in rows),
        search_text=_make_search_text(
            _format_name(first.case, None), status, first.response, first.trajectory, failure
        ),
        live_samples=next((row.live_samples for row in rows if row.live_samples), ()),
        is_stale=first.is_stale,
        is_quarantined=status is CaseState.FAILED
        and all(row.is_quarantined for row in rows if row.status is CaseState.FAILED),
    )


def _add_calls(calls: Iterable[ModelCalls | None]) -> ModelCalls | None:
    known = [each for each in calls if each is not None]
    return reduce(ModelCalls.add, known) if known else None


_WORST_FIRST = (
    MetricStatus.ERROR,
    MetricStatus.FAILED,
    MetricStatus.UNDEFINED,
    MetricStatus.PASSED,
    MetricStatus.INFORMATIONAL,
)


def _merge_scores(scores: Sequence[TableScore]) -> TableScore:
    known = [one.score for one in scores if one.score is not None]
    worst = min(scores, key=lambda one: _WORST_FIRST.index(one.status))
    return TableScore(fmean(known) if known else None, worst.status, worst.why)


def _make_score(metric: MetricResult) -> TableScore:
    notes = [metric.reason, metric.hint, samples_text(metric), *(turn.reason for turn in metric.per_invocation)]
    why = "; ".join(dict.fromkeys(note for note in notes if note))
    return TableScore(metric.score, metric.status, _shorten(why))


def _format_name(case: CaseKey, repeat: int | None) -> str:
    number = f"#{case.occurrence + 1}" if case.occurrence else ""
    return safe_line(f"{case.eval_id}{number}{f' [{repeat + 1}]' if repeat else ''}")


def _make_search_text(name: str, status: CaseState, *texts: str) -> str:
    return " ".join([name, status.value, *texts]).casefold()


def _shorten(text: str) -> str:
    return safe_line(redact(text[: 4 * _WIDTH]), width=_WIDTH) if text else ""


# Columns of the results table: cell, sort value, and number for statistics.

EVAL_SET = "eval_set"
STATUS = "status"
"""Id of a column that is only shown for several sets."""

LIVE_SAMPLES = "live_samples"
"""Id of a column that is only shown if a replayed row has live samples."""

MODEL_CALLS = "model_calls"
"""Id of a column that is only shown if model calls were recorded or replayed."""

SortValue = float | str | None


@dataclass(frozen=True)
class Column:
    """One column. `number` returns the value for mean and deviation, if it has one, and `form` formats these."""

    id: str
    title: str
    width: int
    cell: Callable[[TableRow], StyledText]
    value: Callable[[TableRow], SortValue]
    number: Callable[[TableRow], float | None] | None = None
    form: Callable[[float], str] = score_text


_DECIDING = frozenset({MetricStatus.PASSED, MetricStatus.FAILED, MetricStatus.ERROR})
_DECIDING_ROOM = 60  # cells that the scores of all deciding criteria share; 140 columns then show them all


def make_columns(metrics: Mapping[str, bool]) -> list[Column]:
    """Make the columns: set, status, deciding scores, facts, explanations of these scores, then the other metrics.

    `metrics` says of each metric, in the order of the criteria, whether it decides on the verdict.
    """
    deciding = [name for name, decides in metrics.items() if decides]
    most = min(max(_DECIDING_ROOM // max(len(deciding), 1), _LEAST_SCORE_WIDTH), _MOST_SCORE_WIDTH)
    others = (name for name, decides in metrics.items() if not decides)
    return [
        *_LEADING,
        *(_make_score_column(name, most) for name in deciding),
        *_FACTS,
        *map(_make_reason_column, deciding),
        *(column for name in others for column in (_make_score_column(name), _make_reason_column(name))),
    ]


def _format_status(row: TableRow) -> StyledText:
    badge = get_badge(row.state)
    count = "" if row.repeats == 1 else f" {row.passed}/{row.repeats}"
    partly = f" {PARTLY_JUDGED.symbol}" if row.misses_samples else ""
    if are_flaky(row.live_samples):
        passed, total = count_passed(row.live_samples)
        symbol = STALE.symbol if row.is_stale else badge.symbol
        return StyledText(f"{symbol}{partly} {REPLAYED.symbol} ~{passed}/{total}", Style.WARNING)
    replayed = f" {REPLAYED.symbol}" if row.model_calls is not None and row.model_calls.replayed else ""
    shown = STALE if row.is_stale else badge
    is_long = bool(count and (partly or replayed))
    word = "" if is_long and not row.is_stale else f" {shown.word}"  # the symbol says it too
    return StyledText(f"{badge.symbol}{word}{count}{partly}{replayed}", shown.style)


def _format_model_calls(row: TableRow) -> StyledText:
    calls = row.model_calls
    if not calls:
        return StyledText("")
    if not calls.replayed:
        return StyledText(f"{calls.live:,} live")
    return StyledText(f"{calls.replayed:,} of {calls.live + calls.replayed:,} replayed", Style.MUTED)


def _format_live_samples(row: TableRow) -> StyledText:
    if not row.live_samples:
        return StyledText("")
    passed, total = count_passed(row.live_samples)
    is_flaky = are_flaky(row.live_samples)
    return StyledText(
        f"{'~ ' if is_flaky else ''}{passed} of {total} passed", Style.WARNING if is_flaky else Style.TEXT
    )


def _get_share_passed(row: TableRow) -> float | None:
    passed, total = count_passed(row.live_samples)
    return passed / total if total else None


def _format_calls(row: TableRow) -> StyledText:
    made = "?" if row.actual_calls is None else str(row.actual_calls)
    if row.expected_calls is None:
        return StyledText(made)
    differs = row.expected_calls != row.actual_calls
    return StyledText(f"{made}/{row.expected_calls}", Style.WARNING if differs else Style.TEXT)


_LEADING = (
    Column(
        EVAL_SET,
        "eval set",
        20,
        lambda row: StyledText(format_set_name(row.case.eval_set), Style.MUTED),
        lambda row: row.case.eval_set,
    ),
    Column(STATUS, "status", 14, _format_status, lambda row: row.status.value),
)
_FACTS = (
    Column("response", "response", 40, lambda row: StyledText(row.response), lambda row: row.response),
    Column(
        "trajectory", "trajectory", 32, lambda row: StyledText(row.trajectory, Style.KEY), lambda row: row.trajectory
    ),
    Column("calls", "calls", 9, _format_calls, lambda row: row.actual_calls),
    Column(
        "latency",
        "latency",
        10,
        lambda row: StyledText(format_time_taken(row.latency)),
        attrgetter("latency"),
        attrgetter("latency"),
        format_time_taken,
    ),
    Column(
        MODEL_CALLS,
        "model calls",
        20,
        _format_model_calls,
        lambda row: row.model_calls.live if row.model_calls else None,
    ),
    Column(LIVE_SAMPLES, "live samples", 20, _format_live_samples, _get_share_passed),
    Column("failure", "failure", 32, lambda row: StyledText(row.failure, Style.ERROR), lambda row: row.failure or None),
)


_LEAST_WIDTH = 12  # cells of the last column, if it is narrower than its usual width
_LEAST_SCORE_WIDTH, _MOST_SCORE_WIDTH = 10, 30


def _make_score_column(name: str, most: int = _MOST_SCORE_WIDTH) -> Column:
    def cell(row: TableRow) -> StyledText:
        shown = row.scores.get(name)
        if shown is None:
            return StyledText("-", Style.MUTED)
        badge = get_metric_badge(shown.status)
        return StyledText(f"{badge.symbol} {'-' if shown.score is None else score_text(shown.score)}", badge.style)

    def score(row: TableRow) -> float | None:
        shown = row.scores.get(name)
        return None if shown is None else shown.score

    title = safe_line(name)
    width = min(max(cell_len(title) + 2, _LEAST_SCORE_WIDTH), most)
    return Column(name, title, width, cell, score, score)


def _make_reason_column(name: str) -> Column:
    def why(row: TableRow) -> str:
        shown = row.scores.get(name)
        return "" if shown is None else shown.why

    return Column(
        f"{name} why",
        f"{safe_line(name)} why",
        34,
        lambda row: StyledText(why(row), Style.MUTED),
        lambda row: why(row) or None,
    )


# Scope of a table: an eval set, an agent, or everything.


@dataclass(frozen=True, slots=True)
class Scope:
    """Scope of a table. `eval_set` is empty for all sets of the target, `target` None for everything.

    `narrowest` is the scope to return to after everything.
    """

    target: str | None
    eval_set: str = ""
    narrowest: tuple[str | None, str] = (None, "")

    @classmethod
    def from_row(cls, row: BrowserRow | None) -> Scope:
        """Make the scope of a row: its eval set, its target, or everything without a row."""
        if row is None:
            return cls(None)
        return cls(row.target, row.eval_set, (row.target, row.eval_set))

    @property
    def title(self) -> str:
        if self.target is None:
            return "everything"
        return safe_line(self.eval_set or self.target or "sets without an agent")

    def widen(self) -> Scope:
        """Widen a set to its target, a target to everything, and return to the narrowest scope after that."""
        if self.eval_set:
            return Scope(self.target, "", self.narrowest)
        if self.target is not None:
            return Scope(None, "", self.narrowest)
        return Scope(*self.narrowest, self.narrowest)

    def list_cases(self, browser: Browser) -> list[CaseKey]:
        """List its cases in the order of their files."""
        sets = browser.sets if self.target is None else browser.list_sets(self.target)
        chosen = (listed for listed in sets if self.eval_set in ("", listed.relative))
        return [key for listed in chosen for key in listed.case_keys]


# The results table: sorted and filtered rows, and columns that scroll.

_ID_WIDTH = 30
_LEAST_ID_WIDTH = 14
_AROUND_NAME = 3  # blanks before and after the name


class ResultTable(ItemRows[TableRow]):
    """Rows of a list, with a second cursor on a column."""

    def __init__(self) -> None:
        self.by_repeat = False
        self.filtered_by = ""
        self.sorted_by: str | None = None
        self.is_descending = False
        self.hidden: set[str] = set()
        self._column_id = STATUS  # of the column under the cursor
        self._offset = 0  # index of the first visible column
        self._all: list[TableRow] = []
        self._sets: set[str] = set()
        self._metrics: dict[str, bool] = {}  # whether they decide
        self.all_columns: list[Column] = make_columns(self._metrics)
        self._matching_rows: list[TableRow] = []  # listed rows in file order
        self.rows: list[TableRow] = []  # listed rows in their order
        self._has_repeats = False
        self._has_model_calls = False
        self._has_live_samples = False
        self._longest_name = 0  # in cells
        self._states: Counter[CaseState] = Counter()
        self._stale: Counter[CaseState] = Counter()  # of listed rows with stale verdicts
        self._statistics: dict[str, tuple[float | None, float | None]] = {}  # mean and deviation by column

    @property
    def is_empty(self) -> bool:
        """True if there are no rows, even without a filter."""
        return not self._all

    @property
    def columns(self) -> list[Column]:
        """Visible columns; that of the eval set only for several sets, those of replays only if they are not empty."""
        has_content = {
            EVAL_SET: len(self._sets) > 1,
            MODEL_CALLS: self._has_model_calls,
            LIVE_SAMPLES: self._has_live_samples,
        }
        empty = {name for name, is_shown in has_content.items() if not is_shown}
        return [column for column in self.all_columns if column.id not in self.hidden | empty]

    @property
    def column(self) -> int:
        """Index of the column under the cursor; the first one while its column is not shown."""
        return next((place for place, column in enumerate(self.columns) if column.id == self._column_id), 0)

    @column.setter
    def column(self, place: int) -> None:
        self._column_id = self.columns[place].id

    def copy_view(self, other: ResultTable) -> None:
        """Copy columns, order and filter of another table."""
        self.by_repeat, self.filtered_by = other.by_repeat, other.filtered_by
        self.sorted_by, self.is_descending = other.sorted_by, other.is_descending
        self.hidden, self._column_id = other.hidden, other._column_id

    def add(self, rows: Iterable[TableRow]) -> None:
        """Add rows; `arrange` lists them."""
        before = dict(self._metrics)
        for row in rows:
            self._all.append(row)
            self._sets.add(row.case.eval_set)
            self._has_repeats = self._has_repeats or bool(row.repeat)
            self._has_model_calls = self._has_model_calls or bool(row.model_calls)
            self._has_live_samples = self._has_live_samples or bool(row.live_samples)
            self._longest_name = max(self._longest_name, cell_len(row.name))
            for name, score in row.scores.items():
                self._metrics[name] = score.status in _DECIDING or self._metrics.get(name, False)
        if self._metrics != before:
            self.all_columns = make_columns(self._metrics)

    def mark_stale(self, stale: Collection[CaseKey]) -> bool:
        """Mark the rows of exactly these cases as stale, for `arrange`. Return False if nothing changed."""
        changed = [index for index, row in enumerate(self._all) if row.is_stale != (row.case in stale)]
        for index in changed:
            self._all[index] = replace(self._all[index], is_stale=not self._all[index].is_stale)
        return bool(changed)

    def arrange(self) -> None:
        """List one row for each case or repeat, filtered and sorted. The same row stays selected."""
        selected = self.selected_row
        rows = self._all if self.by_repeat or not self._has_repeats else merge_repeats(self._all)
        pattern = FinderPattern(self.filtered_by)
        if pattern.words:
            rows = [row for row in rows if pattern.matches_text(row.search_text)]
        self._matching_rows = list(rows)
        self._states = Counter(row.state for row in rows)
        self._stale = Counter(row.state for row in rows if row.is_stale)
        self._statistics.clear()
        self._apply_order(selected)

    def move_column(self, by: int) -> None:
        self.column = min(max(self.column + by, 0), len(self.columns) - 1)

    def sort(self) -> None:
        """Sort by the column under the cursor: ascending, then descending, then not at all."""
        chosen = self.columns[self.column].id
        if self.sorted_by != chosen:
            self.sorted_by, self.is_descending = chosen, False
        elif not self.is_descending:
            self.is_descending = True
        else:
            self.sorted_by, self.is_descending = None, False
        self._apply_order(self.selected_row)

    def toggle_column(self, column: str) -> None:
        """Hide or show a column; the last visible one stays."""
        place = self.column
        if column in self.hidden or len(self.columns) > 1:
            self.hidden ^= {column}
        self.column = min(place, len(self.columns) - 1)

    def fit_columns(self, width: int) -> None:
        """Scroll the columns so that the one under the cursor is visible at this width."""
        room = width - self._find_id_width(width)
        self._offset = min(self._offset, self.column)
        columns = self.columns
        while self._offset < self.column and sum(each.width for each in columns[self._offset : self.column + 1]) > room:
            self._offset += 1

    def format_titles(self, width: int) -> Line:
        cells = []
        for index, column in self._find_visible_columns(width):
            arrow = "" if column.id != self.sorted_by else " ▼" if self.is_descending else " ▲"
            text = shorten_name(column.title, column.width - 2 - len(arrow)) + arrow
            cells.append((StyledText(text, Style.TAB if index == self.column else Style.HEADING), column.width))
        return self._format_line(StyledText("case", Style.HEADING), cells, width=width)

    def line(self, index: int, width: int) -> Line:
        row = self.rows[index]
        cells = [(column.cell(row), column.width) for _, column in self._find_visible_columns(width)]
        return self._format_line(
            StyledText(shorten(row.name, self._find_id_width(width) - _AROUND_NAME), Style.STRONG), cells, width=width
        )

    def format_statistics(self, width: int) -> list[Line]:
        """Format mean and deviation of the listed rows; no line if no visible column has a mean."""
        means, deviations = [], []
        statistics = [(column, *self._calculate_statistics(column)) for _, column in self._find_visible_columns(width)]
        if all(mean is None for _, mean, _ in statistics):
            return []
        for column, mean, std in statistics:
            means.append((StyledText("" if mean is None else column.form(mean)), column.width))
            deviations.append((StyledText("" if std is None else f"±{column.form(std)}", Style.MUTED), column.width))
        return [
            self._format_line(StyledText("mean", Style.KEY), means, width=width),
            self._format_line(StyledText("deviation", Style.KEY), deviations, width=width),
        ]

    def format_title(self, name: str, note: StyledText, width: int) -> Line:
        """Format the line at the top: a name, a note, and the number of listed rows and of their states."""
        rows = StyledText(f"   {plural(len(self.rows), 'row')}", Style.STRONG)
        counts = make_count_parts(self._states, self._stale, width=width)
        title = [RankedPart(5, (StyledText(" results of"),)), RankedPart(2, (StyledText(f" {name}", Style.STRONG),))]
        return fit_parts([*title, RankedPart(4, (rows,)), *counts, RankedPart(1, (note,))], width)

    def format_row(self, row: TableRow) -> str:
        """Format a row as text to copy: its cells with their titles."""
        cells = [f"{column.title}: {column.cell(row).text}" for column in self.columns if column.cell(row).text]
        return "\n".join([f"case: {row.case}", *cells])

    def _apply_order(self, selected: TableRow | None) -> None:
        """Sort the matching rows. The cursor stays on the row `selected`, else on one of its case, else at its
        index.
        """
        self.rows = self._sort_rows(self._matching_rows)
        if selected is not None:
            same = [index for index, row in enumerate(self.rows) if row.case is selected.case]
            exact = (index for index in same if self.rows[index].repeat == selected.repeat)
            nearest = same[0] if same else min(self.cursor, max(len(self.rows) - 1, 0))
            self.cursor = next(exact, nearest)

    def _sort_rows(self, rows: list[TableRow]) -> list[TableRow]:
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
        known.sort(key=itemgetter(0), reverse=self.is_descending)
        return [*(row for _, row in known), *absent]

    def _calculate_statistics(self, column: Column) -> tuple[float | None, float | None]:
        """Calculate mean and sample deviation of the listed rows, cached because there may be ten thousand."""
        if column.id not in self._statistics:
            number = column.number
            values = [] if number is None else [one for row in self.rows if (one := number(row)) is not None]
            mean = sum(values) / len(values) if values else None
            distances = [] if mean is None else [value - mean for value in values]
            variance = sum(each * each for each in distances) / (len(values) - 1) if len(values) > 1 else nan
            self._statistics[column.id] = mean, sqrt(variance) if isfinite(variance) else None
        return self._statistics[column.id]

    def _find_visible_columns(self, width: int) -> list[tuple[int, Column]]:
        """Return the columns visible at this width with their indexes; the last may be narrower, never a sliver."""
        drawn: list[tuple[int, Column]] = []
        left = width - self._find_id_width(width)
        for place, column in list(enumerate(self.columns))[self._offset :]:
            if drawn and left < min(column.width, _LEAST_WIDTH):
                break
            drawn.append((place, replace(column, width=min(column.width, max(left, 3)))))
            left -= column.width
        return drawn

    def _find_id_width(self, width: int) -> int:
        """Return a width that shows every name, but at most a third of the total width."""
        usual = min(max(width // 4, _LEAST_ID_WIDTH), _ID_WIDTH)
        return max(usual, min(self._longest_name + _AROUND_NAME, width // 3))

    def _format_line(self, name: StyledText, cells: Iterable[tuple[StyledText, int]], *, width: int) -> Line:
        """Format the name, which does not scroll, and the cells."""
        pieces = [StyledText(" "), *_pad_cell(name, self._find_id_width(width) - 1)]
        for piece, cell_width in cells:
            pieces += _pad_cell(piece, cell_width)
        return cut_line(tuple(pieces), width)


def _pad_cell(piece: StyledText, width: int) -> Line:
    return fill_line(cut_line((piece,), width - 2), width)
