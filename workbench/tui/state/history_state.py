"""History of one case, of a set or target, and the comparison of two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.cells import set_cell_size

from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus, MetricResult
from workbench.model.run_events import RunSummary
from workbench.model.text import format_duration, format_measured, format_score_change, redact
from workbench.report.comparison import (
    CHANGE_SYMBOLS,
    FLIPS,
    INPUT_CHANGED,
    SCORING_CHANGED,
    ComparedCase,
    RunComparison,
    RunVerdict,
    VerdictChange,
    changes_text,
    describe_run_changes,
    difference_text,
    forgotten_text,
    score_change_text,
    significance_text,
    threshold_text,
)
from workbench.report.run_report import (
    counts_text,
    describe_samples,
    explain_incomplete,
    find_live_samples,
    samples_text,
    time_text,
)
from workbench.report.significance import explain_scores
from workbench.store.history.history_queries import RunPart, StoredJob, StoredRun, StoredScores
from workbench.tui.state.case_scores import format_metric_row, format_value
from workbench.tui.state.case_status import (
    PARTLY_JUDGED,
    QUARANTINED,
    REPLAYED,
    STALE,
    ResultLocation,
    find_worst_state,
    get_badge,
    get_metric_badge,
    get_state,
)
from workbench.tui.state.criteria_choice import PICKER_SOURCE
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    add_fitting,
    bar,
    cut_line,
    cut_parts,
    format_set_name,
    format_time_taken,
    measure_line,
    plural,
    safe,
    safe_line,
    shorten_name,
    sparkline,
)

# Two runs side by side: a row for each case, and the changes of the selected one.

_TONES = {
    VerdictChange.REGRESSION: Style.FAILED,
    VerdictChange.FLAKY: Style.WARNING,
    VerdictChange.FIX: Style.PASSED,
    VerdictChange.OTHER: Style.ERROR,
    VerdictChange.NEW: Style.KEY,
    VerdictChange.GONE: Style.MUTED,
    VerdictChange.SAME: Style.MUTED,
}
_IN_BOTH = (VerdictChange.REGRESSION, VerdictChange.FIX, VerdictChange.FLAKY, VerdictChange.OTHER, VerdictChange.SAME)
"""Changes of cases in both runs, in the order of the list."""

_IN_ONE = {VerdictChange.NEW: "only in the run after", VerdictChange.GONE: "only in the run before"}
_MOST_UNFOLDED = 5  # maximum cases in only one run that are listed unfolded at first
_WORD = max(map(len, VerdictChange))
_VERDICT = 9
_WORDS_FROM = 60  # minimum cells of a row with the words of verdicts
_SCORES_FROM = 100  # minimum cells of a row with changed scores
_CHANGE = 34  # cells for the score that changed most


@dataclass(frozen=True, slots=True)
class FoldRow:
    """Row for many cases that only one of the runs has."""

    change: VerdictChange
    count: int
    is_open: bool


class ComparedCases(ItemRows[ComparedCase | FoldRow]):
    """Rows of a list: cases in both runs, then cases in only one, folded if there are many.

    With `only_flips`, only regressions, fixes and flaky cases.
    """

    def __init__(self, comparison: RunComparison, *, only_flips: bool = False) -> None:
        self.comparison = comparison
        self.only_flips = only_flips
        changes = [change for change in _IN_BOTH if change in FLIPS or not only_flips]
        ids = Counter(
            (each.case.eval_id, each.case.occurrence) for change in VerdictChange for each in comparison.select(change)
        )
        self._repeated_ids = frozenset(identity for identity, count in ids.items() if count > 1)
        self._in_both = [case for change in changes for case in comparison.select(change)]
        self._open: set[VerdictChange] = set() if self._in_both else set(_IN_ONE)
        self.rows: Sequence[ComparedCase | FoldRow] = self._build_rows()

    def line(self, index: int, width: int) -> Line:
        """Format one case: its change, id and verdicts, and changed scores if there is room."""
        case = self.rows[index]
        if isinstance(case, FoldRow):
            words = f" {'▾' if case.is_open else '▸'} {plural(case.count, 'case')} {_IN_ONE[case.change]}"
            return (StyledText(words, _TONES[case.change]),)
        style = _TONES[case.change]
        lead = StyledText(f" {CHANGE_SYMBOLS[case.change]} {case.change.value:<{_WORD}} ", style)
        verdicts = (
            *_format_verdict(case.before, width),
            StyledText("→ ", Style.MUTED),
            *_format_verdict(case.after, width),
        )
        scores = [StyledText(f" {_format_largest_change(case)}", Style.KEY)] if width >= _SCORES_FROM else []
        room = width - measure_line((lead, *verdicts, *scores))
        is_repeated = (case.case.eval_id, case.case.occurrence) in self._repeated_ids
        eval_set = format_set_name(case.case.eval_set) if is_repeated else ""
        pieces = (
            StyledText(safe_line(_format_case_name(case)), Style.STRONG),
            StyledText(f"  {eval_set}", Style.MUTED),
        )
        name = cut_line(pieces if eval_set else pieces[:1], max(room - 1, 8))
        gap = StyledText(" " * max(room - measure_line(name), 1))
        return (lead, *name, gap, *verdicts, *scores)

    @property
    def selected_case(self) -> ComparedCase | None:
        """Case under the cursor; None on a row for several cases."""
        return self.selected_row if isinstance(self.selected_row, ComparedCase) else None

    def toggle_fold(self) -> None:
        """Fold or unfold the cases of the row under the cursor."""
        row = self.selected_row
        if isinstance(row, FoldRow):
            self._open ^= {row.change}
            self.rows = self._build_rows()

    def header_lines(self) -> list[Line]:
        """Format both runs, whether they differ, and the number of cases by change."""
        return [
            (StyledText(" before  ", Style.REMOVED), *_format_run(self.comparison.before)),
            (StyledText(" after   ", Style.ADDED), *_format_run(self.comparison.after)),
            (
                StyledText(f" {difference_text(self.comparison)}", Style.STRONG),
                StyledText(f" · {changes_text(self.comparison)}"),
                StyledText(self._note_filter(), Style.MUTED),
            ),
        ]

    def blocks(self) -> list[Block]:
        """Describe the selected case, whether the runs differ, differences in criteria, then the means."""
        blocks = [] if self.selected_case is None else [*_describe_case(self.selected_case), BLANK]
        blocks += [Paragraph.from_text(significance_text(self.comparison), Style.STRONG, hang=2), BLANK]
        return [*blocks, *self._describe_differences(), *self._describe_means()]

    def _build_rows(self) -> list[ComparedCase | FoldRow]:
        rows: list[ComparedCase | FoldRow] = [*self._in_both]
        for change in () if self.only_flips else _IN_ONE:
            cases = self.comparison.select(change)
            if len(cases) > _MOST_UNFOLDED:
                rows.append(FoldRow(change, len(cases), is_open=change in self._open))
            if len(cases) <= _MOST_UNFOLDED or change in self._open:
                rows += cases
        return rows

    def _note_filter(self) -> str:
        return f"   only the {len(self):,} whose verdict flipped are listed" if self.only_flips else ""

    def _describe_differences(self) -> Iterator[Block]:
        if self.comparison.configuration_changes:
            yield Paragraph.from_text("differences in criteria", Style.HEADING)
            for sentence in self.comparison.configuration_changes:
                yield _note_change(sentence)
            yield BLANK

    def _describe_means(self) -> Iterator[Block]:
        if missing := forgotten_text(self.comparison):
            yield Paragraph.from_text(missing, Style.MUTED)
        if not self.comparison.metrics:
            return
        yield Paragraph(
            (StyledText("means", Style.HEADING), StyledText("  over the cases that both runs scored", Style.MUTED))
        )
        for name, test in self.comparison.metrics.items():
            change = format_score_change(test.before, test.after, metric=name)
            numbers = f"{change}, {plural(test.cases, 'case')}: {explain_scores(test, name)}"
            yield Paragraph.from_fact(safe_line(name), numbers, indent=2)


def _note_change(sentence: str) -> Paragraph:
    return Paragraph.from_text(f"△ {safe(sentence)}", Style.WARNING, indent=2, hang=2)


def _describe_case(case: ComparedCase) -> Iterator[Block]:
    symbol = f"{CHANGE_SYMBOLS[case.change]} {case.change.value}"
    reason = f", for {case.reason}" if case.reason else ""
    yield Paragraph(
        (
            StyledText(safe_line(_format_case_name(case)), Style.HEADING),
            StyledText(f"  {symbol}{reason}", _TONES[case.change]),
        ),
        hang=2,
    )
    yield Paragraph.from_text(safe_line(case.case.eval_set), Style.MUTED, indent=2)
    if case.has_changed_input:
        yield _note_change(INPUT_CHANGED)
    if case.has_changed_scoring:
        yield _note_change(SCORING_CHANGED)
    changed = {score.name for score in case.changed_scores}
    for score in case.scores:
        style = Style.WARNING if score.name in changed else Style.TEXT
        yield Paragraph.from_fact(safe_line(score.name), score_change_text(score), style, indent=2)
    if case.before is not None and case.after is not None:
        times = f"{format_time_taken(case.before.agent_seconds)} → {format_time_taken(case.after.agent_seconds)}"
        yield Paragraph.from_fact("duration", times, indent=2)


def _format_verdict(verdict: RunVerdict | None, width: int) -> tuple[StyledText, ...]:
    """Format a verdict in a fixed width, in a narrow row without its word."""
    has_words = width >= _WORDS_FROM
    if verdict is None:
        return (StyledText(f"{'  not run':<{_VERDICT + 2}}" if has_words else "-    ", Style.MUTED),)
    badge = get_badge(find_worst_state(verdict.statuses))
    passed = sum(status.value == "PASSED" for status in verdict.statuses)
    count = "" if len(verdict.statuses) == 1 else f"{passed}/{len(verdict.statuses)}"
    if not has_words:
        return (StyledText(f"{badge.symbol} {count:<3}", badge.style),)
    word = f"{count} passed" if count else badge.word
    partly = f" {PARTLY_JUDGED.symbol}" if verdict.has_missing_samples else ""
    return (StyledText(f"{badge.symbol} {f'{word}{partly} ':<{_VERDICT}}", badge.style),)


def _format_largest_change(case: ComparedCase) -> str:
    """Format the score that changed most, in a fixed width."""
    most = max(case.changed_scores, key=lambda score: abs(score.difference or 0.0), default=None)
    if most is None:
        return " " * _CHANGE
    change = most.difference or 0.0
    difference = f" {'-' if change < 0 else '+'}{format_measured(most.name, abs(change), 0.0)}"
    text = shorten_name(safe_line(most.name), _CHANGE - len(difference)) + difference
    return set_cell_size(text, _CHANGE)


def _format_run(run: StoredRun) -> tuple[StyledText, ...]:
    mark = f"  {explain_incomplete(run)}" if explain_incomplete(run) else ""
    return (
        StyledText(f"{safe_line(run.run_id)}", Style.STRONG),
        StyledText(f"  {time_text(run.started_at)}  {counts_text(run.summary)}"),
        StyledText(mark, Style.WARNING),
    )


def _format_case_name(case: ComparedCase) -> str:
    key = case.case
    return f"{key.eval_id}#{key.occurrence + 1}" if key.occurrence else key.eval_id


# Criteria, options and versions of a run.

_SHOWN_OPTIONS = ("runs", "concurrency", "timeout_seconds", "isolation", "retries")


def describe_criteria(config: EvalConfig | None, of: str) -> Iterator[Block]:
    """Describe the criteria of the cases `of` one or several sets, and their source."""
    if config is None:
        return
    yield BLANK
    yield Paragraph(
        (
            StyledText("criteria", Style.HEADING),
            StyledText(f"  {_format_source(config)}, of {safe_line(of)}", Style.MUTED),
        ),
        hang=2,
    )
    for criterion in config.criteria:
        yield Paragraph.from_fact(safe_line(criterion.metric), threshold_text(criterion), indent=2)
        yield from format_value(criterion.options, indent=4)


def _format_source(config: EvalConfig) -> str:
    if config.is_default:
        return "the default ones"
    return PICKER_SOURCE if config.source == PICKER_SOURCE else f"from {safe_line(config.source)}"


def describe_options(run: StoredRun) -> Iterator[Block]:
    """Describe the options that affect results, and the versions."""
    options = {name: run.options[name] for name in _SHOWN_OPTIONS if name in run.options}
    for title, values in (("options", options), ("versions", run.versions)):
        if values:
            yield BLANK
            yield Paragraph.from_text(title, Style.HEADING)
            text = "   ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
            yield Paragraph.from_text(safe(redact(text)), indent=2, hang=2)


# Executions of one case as rows, and details of the selected one.

_SHOWN_IN_LINE = 60
"""Maximum number of executions in a sparkline, the newest ones."""

CURRENT = "→"
"""Mark of the execution that gave the current verdict."""

_STORED_RESULTS = "These are stored results of a dataset; there is no eval case to run again."


class CaseHashes(NamedTuple):
    """Hashes of a case: of the agent input, and of expectations and criteria."""

    execution: str
    scoring: str


@dataclass(frozen=True)
class CaseHistory:
    """Executions of a case, newest first, with their runs by id. `current_hashes`: None if it cannot run now.

    `is_from_history`: it is a row of a dataset that only the history has, so it can never run. `is_recorded`: its
    target has recorded answers and no agent.
    """

    case: CaseKey
    executions: tuple[StoredScores, ...] = ()
    runs: Mapping[str, StoredRun] = field(default_factory=dict)
    current_hashes: CaseHashes | None = None
    is_from_history: bool = False
    is_recorded: bool = False


class ExecutionRows(ItemRows[StoredScores]):
    """Rows of a list."""

    def __init__(self, history: CaseHistory) -> None:
        self.history = history
        self.rows = history.executions
        self.marked: str | None = None  # the id of the run to compare with
        self.current: frozenset[ResultLocation] = frozenset()  # executions that gave the current verdicts
        self.is_stale = False  # whether these verdicts are stale

    def line(self, index: int, width: int) -> Line:
        """Format one execution: time, repeat, status, duration, scores with a threshold."""
        job, metrics = self.rows[index]
        badge = get_badge(get_state(job))
        mark = "●" if job.run_id == self.marked else " "
        current = CURRENT if self._is_current(job) else " "
        is_usual = job.status in (CaseStatus.PASSED, CaseStatus.FAILED)
        word = f"{'' if is_usual else f' {badge.word}'}{f' {PARTLY_JUDGED.symbol}' if job.misses_samples else ''}"
        took = f"{f'{REPLAYED.symbol} ' if job.is_replayed else ''}{format_time_taken(job.agent_seconds)}"
        repeat = f" [{job.key.repeat + 1}]" if self._has_repeats(job.run_id) else ""
        pieces = [
            StyledText(mark, Style.HEADING),
            StyledText(current, Style.KEY),
            StyledText(f"{badge.symbol} ", badge.style),
            StyledText(f"{time_text(job.finished_at)}{repeat} "),
            StyledText(f"{took:>8}", Style.MUTED),
            StyledText("  △" if self._differs_from_older(index) else "   ", Style.WARNING),
            StyledText(word, badge.style),
        ]
        scores: list[Line] = []
        for metric in metrics:
            if metric.threshold is not None:
                shown = get_metric_badge(metric.status)
                score = "no score" if metric.score is None else format_measured(metric.name, metric.score)
                scores.append((StyledText(f"  {shown.symbol} {safe_line(metric.name)} {score}", shown.style),))
        return add_fitting(tuple(pieces), scores, width)

    @property
    def selected_job(self) -> StoredJob | None:
        return None if self.selected_row is None else self.selected_row.job

    @property
    def selected_run(self) -> StoredRun | None:
        return None if self.selected_job is None else self.history.runs[self.selected_job.run_id]

    @property
    def older_run(self) -> StoredRun | None:
        """The newest run of the case before the one under the cursor."""
        older = None if self.selected_job is None else self._find_older(self.cursor)
        return None if older is None else self.history.runs[older.run_id]

    def sort_runs(self, *run_ids: str) -> list[str]:
        """Sort runs from old to new."""
        newest_first = list(self.history.runs)
        return sorted(run_ids, key=newest_first.index, reverse=True)

    def blocks(self) -> list[Block]:
        """Describe the trend of scores and durations, and the selected execution in detail."""
        job = self.selected_job
        if job is None:
            return []
        run = self.history.runs[job.run_id]
        blocks = [*self._draw_trend(), *self._describe_samples(), BLANK]
        blocks.append(
            Paragraph(
                (StyledText(f"run {safe_line(job.run_id)}", Style.HEADING), StyledText(f"  {explain_incomplete(run)}"))
            )
        )
        if self._is_current(job):
            current = f"{CURRENT} this run gave the current verdict"
            stale = StyledText(f", which is stale {STALE.symbol}", STALE.style) if self.is_stale else StyledText("")
            blocks.append(Paragraph((StyledText(current, Style.KEY), stale), indent=2, hang=2))
        if run.command:
            blocks.append(Paragraph.from_fact("command", safe(redact(run.command)), indent=2))
        if job.failure is not None:
            failure = f"! {job.failure.kind.value} error  {safe(redact(job.failure.message))}"
            blocks.append(Paragraph.from_text(failure, Style.ERROR, indent=2, hang=2))
        blocks += self._describe_changes()
        blocks += _describe_scores(self.rows[self.cursor].metrics)
        blocks += describe_criteria(run.criteria.get(self.history.case.eval_set), self.history.case.eval_set)
        return [*blocks, *describe_options(run)]

    def _draw_trend(self) -> Iterator[Block]:
        """Draw sparklines from old to new: metrics with a threshold, then durations."""
        shown = self.rows[:_SHOWN_IN_LINE][::-1]
        names = dict.fromkeys(m.name for _, metrics in shown for m in metrics if m.threshold is not None)
        yield Paragraph.from_text(f"{plural(len(self), 'execution')}, old to new", Style.HEADING)
        for name in names:
            scores = [next((m.score for m in metrics if m.name == name), None) for _, metrics in shown]
            line = sparkline(scores, lowest=0.0, highest=1.0)
            yield Paragraph((StyledText(line, Style.KEY), StyledText(f"  {safe_line(name)}", Style.MUTED)), indent=2)
        times = [job.agent_seconds or None for job, _ in shown]
        if known := [time for time in times if time is not None]:
            span = f"{format_duration(min(known))} to {format_duration(max(known))}"
            yield Paragraph(
                (StyledText(sparkline(times), Style.KEY), StyledText(f"  duration, {span}", Style.MUTED)), indent=2
            )

    def _describe_samples(self) -> Iterator[Block]:
        """Describe how the repeats of the newest run without replayed model calls differ."""
        for number, line in enumerate(describe_samples(find_live_samples(self.rows))):
            yield Paragraph.from_text(safe(line), Style.MUTED if number else Style.TEXT, indent=4 if number else 2)

    def _describe_changes(self) -> Iterator[Block]:
        """Describe the differences to the previous run, and the changes since the execution."""
        job, older = self.selected_job, self._find_older(self.cursor)
        if job is None:
            return
        keys = CaseHashes(job.execution_key, job.scoring_key)
        changes = [*self._list_differences(older, keys)] if older is not None else []
        if older is not None:
            changes += describe_run_changes(self._select_criteria(older.run_id), self._select_criteria(job.run_id))
        if changes:
            yield Paragraph.from_text("changed since the previous run", Style.HEADING)
            yield from map(_note_change, changes)
        if self.history.is_from_history:
            yield Paragraph.from_text(_STORED_RESULTS, Style.MUTED)
        elif self.history.current_hashes is None:
            recorded = self.history.is_recorded
            what = "The recording cannot be judged now" if recorded else "The case cannot run now"
            yield Paragraph.from_text(f"{what}, or no longer exists.", Style.WARNING)
        elif since := list(self._list_differences(job, self.history.current_hashes)):
            yield Paragraph.from_text("changed since this run", Style.HEADING)
            yield from map(_note_change, since)

    def _is_current(self, job: StoredJob) -> bool:
        return ResultLocation(job.run_id, job.key) in self.current

    def _select_criteria(self, run_id: str) -> StoredRun:
        run = self.history.runs[run_id]
        criteria = {name: config for name, config in run.criteria.items() if name == self.history.case.eval_set}
        return run.model_copy(update={"criteria": criteria})

    def _find_older(self, index: int) -> StoredJob | None:
        """Find the newest execution of an earlier run."""
        run_id = self.rows[index].job.run_id
        later = (stored.job for stored in self.rows[index + 1 :])
        return next((job for job in later if job.run_id != run_id), None)

    def _differs_from_older(self, index: int) -> bool:
        job, older = self.rows[index].job, self._find_older(index)
        keys = CaseHashes(job.execution_key, job.scoring_key)
        return older is not None and any(True for _ in self._list_differences(older, keys))

    def _list_differences(self, job: StoredJob, other: CaseHashes) -> Iterator[str]:
        """List what differs between two executions, by their hashes; an unknown hash differs from none."""
        rows, recordings = self.history.is_from_history, self.history.is_recorded
        if job.execution_key and other.execution and job.execution_key != other.execution:
            yield _OTHER_ROW if rows else _OTHER_RECORDING if recordings else _OTHER_INPUT
            if rows or recordings:
                return  # this hash covers the whole row or recording
        if job.scoring_key and other.scoring and job.scoring_key != other.scoring:
            yield _OTHER_REFERENCE if rows else _OTHER_CRITERIA if recordings else _OTHER_EXPECTATIONS

    def _has_repeats(self, run_id: str) -> bool:
        run = self.history.runs[run_id]
        return bool(run.options.get("runs", 1) != 1)


_OTHER_INPUT = "agent input: prompts, session or scenario of the case, or settings of the target"
_OTHER_EXPECTATIONS = "expectations of the case, or criteria"
_OTHER_ROW = "the row: its prompt, answer or reference"
_OTHER_REFERENCE = "the reference of the row, or the metrics"
_OTHER_RECORDING = "the recording: its prompt, answer or reference, or settings of the target"
_OTHER_CRITERIA = "criteria"
_SCORE_WIDTH = 16  # cells of a symbol, and of a score with its threshold


def _describe_scores(metrics: tuple[MetricResult, ...]) -> Iterator[Block]:
    yield BLANK
    yield Paragraph.from_text("scores", Style.HEADING)
    if not metrics:
        yield Paragraph.from_text("none: it was not scored, or its scores are no longer stored", Style.MUTED, indent=2)
    width = max((len(metric.name) for metric in metrics), default=0) + _SCORE_WIDTH
    for metric in metrics:
        *row, score = format_metric_row(metric, [metric.score], width=min(width, 56))
        # A blank at the end of a line that fits exactly would become a line of its own.
        yield Paragraph((*row, score._replace(text=score.text.rstrip())), indent=1)
        for text in (metric.reason, samples_text(metric)):
            if text:
                yield Paragraph.from_text(safe(redact(text)), Style.MUTED, indent=6)


# Runs of a set or target as rows, and details of the selected one.

_BAR = 10
_BAR_FROM = 60  # minimum cells of a row with a bar
_MOST_CONFIGS = 5


class GroupRuns(ItemRows[RunPart]):
    """Rows of a list. `eval_set` is None for a whole target, whose sets are `eval_sets`."""

    def __init__(
        self, parts: Sequence[RunPart], *, target: str, eval_set: str | None, eval_sets: Collection[str] = ()
    ) -> None:
        self.rows = parts
        self._eval_sets = eval_sets if eval_set is None else (eval_set,)
        self.target = target
        self.eval_set = eval_set
        self.marked: str | None = None  # the id of the run to compare with

    def line(self, index: int, width: int) -> Line:
        """Format one run: time, pass rate, counts, and whether it was cut short."""
        run, summary = self.rows[index]
        rate = calculate_pass_rate(summary)
        style = Style.PASSED if rate == 1.0 else Style.ERROR if summary.error else Style.FAILED
        mark = "●" if run.run_id == self.marked else " "
        drawn = f"  {bar(rate, width=_BAR)}" if rate is not None and width >= _BAR_FROM else ""
        share = "  no verdict" if rate is None else f"{drawn or ' '} {rate:>4.0%}"
        pieces = [
            StyledText(f"{mark} {time_text(run.started_at)}"),
            StyledText(share, style if rate is not None else Style.MUTED),
            StyledText(f"  {summary.passed:,}/{summary.total:,}"),
            StyledText(f"  ✗ {summary.failed:,}" if summary.failed else "", Style.FAILED),
            StyledText(f"  {QUARANTINED.symbol} {summary.quarantined:,}" if summary.quarantined else "", Style.WARNING),
            StyledText(f"  ! {summary.error:,}" if summary.error else "", Style.ERROR),
            StyledText(f"  ? {summary.not_evaluated:,}" if summary.not_evaluated else "", Style.WARNING),
            StyledText(f"  {explain_incomplete(run)}" if explain_incomplete(run) else "", Style.WARNING),
        ]
        return cut_parts(tuple(pieces), width)

    @property
    def selected_run(self) -> StoredRun | None:
        return None if self.selected_row is None else self.selected_row.run

    @property
    def older_run(self) -> StoredRun | None:
        """Run before the one under the cursor."""
        return self.rows[self.cursor + 1].run if self.cursor + 1 < len(self.rows) else None

    def sort_runs(self, *run_ids: str) -> list[str]:
        newest_first = [part.run.run_id for part in self.rows]
        return sorted(run_ids, key=newest_first.index, reverse=True)

    def blocks(self) -> list[Block]:
        """Describe the pass rates over time, and the selected run in detail."""
        run = self.selected_run
        if run is None:
            return []
        summary = self.rows[self.cursor].summary
        is_whole = is_whole_part(self.rows[self.cursor])
        took = f" in {format_duration(run.duration_seconds)}" if is_whole and run.duration_seconds is not None else ""
        blocks = [*self._draw_trend(), BLANK, Paragraph.from_text(f"run {safe_line(run.run_id)}", Style.HEADING)]
        others = run.summary.total - summary.total
        facts = [("result", f"{counts_text(summary)}{took}"), ("command", run.command)]
        if others:
            facts.append(("also ran", f"{plural(others, 'job')} of other sets or agents"))
        if explain_incomplete(run):
            facts.append(("ended", f"{explain_incomplete(run)}: not every case ran"))
        blocks += [Paragraph.from_fact(name, safe(redact(text)), indent=2) for name, text in facts if text]
        means = self._describe_means(run) if is_whole else ()
        return [*blocks, *means, *self._describe_criteria(run), *describe_options(run)]

    def _draw_trend(self) -> Iterator[Block]:
        rates = [calculate_pass_rate(part.summary) for part in reversed(self.rows)]
        times = [part.run.duration_seconds if is_whole_part(part) else None for part in reversed(self.rows)]
        yield Paragraph.from_text(f"{plural(len(self.rows), 'run')}, old to new", Style.HEADING)
        yield Paragraph(
            (StyledText(sparkline(rates, highest=1.0), Style.KEY), StyledText("  pass rate", Style.MUTED)), indent=2
        )
        yield Paragraph((StyledText(sparkline(times), Style.KEY), StyledText("  duration", Style.MUTED)), indent=2)

    def _describe_means(self, run: StoredRun) -> Iterator[Block]:
        means = [(name, metric, metric.mean) for name, metric in run.summary.metrics.items() if metric.mean is not None]
        if not means:
            return
        yield BLANK
        yield Paragraph((StyledText("means", Style.HEADING), StyledText("  over the whole run", Style.MUTED)))
        for name, metric, mean in means:
            std = "" if metric.std is None else f" ±{format_measured(name, metric.std)}"
            interval = metric.interval or ()
            bounds = (
                " (95 % {} to {})".format(*(format_measured(name, bound) for bound in interval)) if interval else ""
            )
            text = f"{format_measured(name, mean)}{bounds}{std}  ({metric.scored:,} of {metric.total:,} scored)"
            yield Paragraph.from_fact(safe_line(name), text, indent=2)

    def _describe_criteria(self, run: StoredRun) -> Iterator[Block]:
        """Describe the criteria of its sets, without duplicates."""
        chosen = {name: config for name, config in run.criteria.items() if name in self._eval_sets}
        shared: list[tuple[EvalConfig, list[str]]] = []
        for name, config in chosen.items():
            same = next((names for other, names in shared if other == config), None)
            if same is None:
                shared.append((config, [name]))
            else:
                same.append(name)
        for config, names in shared[:_MOST_CONFIGS]:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield from describe_criteria(config, f"{names[0]}{more}")
        if len(shared) > _MOST_CONFIGS:
            yield Paragraph.from_text(f"… and {len(shared) - _MOST_CONFIGS} more", Style.MUTED, indent=2)


def is_whole_part(part: RunPart) -> bool:
    """True if a run had no jobs of other sets or agents, so that its duration and means are those of the part."""
    return part.summary.total == part.run.summary.total


def calculate_pass_rate(summary: RunSummary) -> float | None:
    """Calculate the share of passed among passed, failed, error and not evaluated; None if there are none.

    A FAILED counts also in quarantine.
    """
    judged = summary.passed + summary.failed + summary.quarantined + summary.error + summary.not_evaluated
    return summary.passed / judged if judged else None
