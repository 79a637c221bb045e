"""Verdicts as text: the table, explanations, and the use of models."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from workbench.model.criteria import EvalConfig
from workbench.model.facts import cache_by_identity
from workbench.model.results import (
    CaseStatus,
    Failure,
    FailureKind,
    MetricResult,
    MetricStatus,
    ModelSpending,
    has_judgements,
)
from workbench.model.text import (
    compare_with_threshold,
    format_mean,
    format_measured,
    mask_named_secrets,
    measure_common_prefix,
    neutralise,
    one_line,
    pluralise,
    redact,
    redacted_line,
    shorten,
)
from workbench.model.trace import FRAMEWORK_CALLS, ToolCall, Trajectory, get_trajectory
from workbench.model.turn_diff import (
    Difference,
    DifferenceKind,
    Path,
    align,
    find_moves,
    find_name,
    find_value_differences,
)
from workbench.report.explanation import find_causes, find_reasons, list_shown
from workbench.report.run_report import (
    NOT_GOOD,
    CaseOutcome,
    ReportedCase,
    RunFacts,
    RunReport,
    StreamedRun,
    agent_time_text,
    cost_text,
    count_repeats,
    describe_model_calls,
    failed_judging_lines,
    mark_replayed,
    name_repeat,
    quarantine_lines,
    sample_lines,
    samples_text,
    set_heading,
    shown_metrics,
    status_text,
    total_line,
)
from workbench.report.significance import format_interval, wilson_interval

# Explanations why a case did not pass, for the verdict table, JUnit and Markdown.

_WIDTH = 200
"""Maximum characters of a value in an explanation."""
_MOST_DIFFERENCES = 100
"""Maximum number of listed differences of a case."""
_CONTEXT = 40
"""Characters shown before the first difference of two long values."""

_FRAME = re.compile(r'(?P<indent>[ |]*)File "(?P<path>.*)", line \d+, in ')
_LIBRARY = re.compile(r".*[/\\](?:(?:site|dist)-packages|[Ll]ib[/\\]python3[.\d]*t?)[/\\](?P<inside>.*)")


def explain(case: ReportedCase, said: set[str] | None = None) -> list[str]:
    """Explain why a case did not pass: the failure, each metric that did not pass, and its differences.

    Hints that were `said` before are left out, and added otherwise.
    """
    differences = list(_difference_lines(case))
    more = len(differences) - _MOST_DIFFERENCES
    left_out = [f"and {more:,} more differences, in the JSON report"] if more > 0 else []
    reasons = [*quarantine_lines(case.result), *list_reasons(case, said)]
    return [*reasons, *differences[:_MOST_DIFFERENCES], *left_out, *list_causes(case)]


def list_causes(case: ReportedCase) -> list[str]:
    """Return what happened beside the verdict, each sentence once."""
    return [make_safe(cause) for cause in dict.fromkeys(cause for _, cause in find_causes(case))]


def list_reasons(case: ReportedCase, said: set[str] | None = None) -> list[str]:
    """Return the failure and each metric that did not pass, without differences. `said` as in `explain`."""
    lines = list(_failure_lines(case))
    bad = [metric for metric in case.deciding_metrics if metric.status is not MetricStatus.PASSED]
    if case.result.failure is not None:  # the failure explains undefined scores
        bad = [metric for metric in bad if metric.status is not MetricStatus.UNDEFINED]
    lines += _metric_lines(bad, said)
    if not case.deciding_metrics and case.result.failure is None:
        lines.append("no criterion gave a verdict: " + _explain_no_verdict(case))
    return [*lines, *map(make_safe, failed_judging_lines(case.deciding_metrics))]


def explain_in_one_line(case: ReportedCase) -> str:
    """Explain why a case did not pass: its failure, else the first difference that cost points, else a criterion.

    Of several criteria that failed, it is the one with the lowest score. A quarantine follows in parentheses.
    """
    notes = "".join(f" ({line})" for line in quarantine_lines(case.result))
    return f"{_find_main_reason(case)}{notes}"


def _find_main_reason(case: ReportedCase) -> str:
    result = case.result
    if result.failure is None and not result.metrics and result.status is CaseStatus.FAILED:
        return "its scores are no longer stored"
    failed = [metric for metric in case.deciding_metrics if metric.status is MetricStatus.FAILED]
    errors = [metric for metric in case.deciding_metrics if metric.status is MetricStatus.ERROR]
    if result.failure is None and errors:
        return describe_metric(errors[0])
    if result.failure is not None or not failed:
        return next(iter(list_reasons(case)), "")
    lowest = min(failed, key=lambda metric: 0.0 if metric.score is None else metric.score)
    return next(_difference_lines(case), describe_metric(lowest))


class ShownSetupFailures:
    """The setup failures shown so far. All cases of an agent have the same one, so only the first case shows it."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}  # by message

    def find(self, case: ReportedCase, place: str) -> str | None:
        """Return the place that shows the same setup failure; None if this is the first one, or no such failure."""
        failure = case.result.failure
        if failure is None or failure.kind is not FailureKind.SETUP:
            return None
        first_place = self._places.setdefault(failure.message, place)
        return None if first_place == place else first_place


def explain_at_length(case: ReportedCase) -> list[str]:
    """Return what `explain` leaves out: tracebacks, and the standard output and error of the agent."""
    failure, execution = case.result.failure, case.result.execution
    errors = [metric for metric in case.result.metrics if metric.status is MetricStatus.ERROR]
    blocks = [
        ("traceback", fold_library_frames(failure.traceback or "") if failure is not None else None),
        *((f"traceback of {make_safe(metric.name)}", folded_details(metric).get("traceback")) for metric in errors),
        ("stderr", (failure.stderr_tail if failure is not None else None) or execution.stderr_tail),
        ("stdout", execution.stdout_tail),
    ]
    lines: list[str] = []
    for title, text in blocks:
        if text and text.strip():
            lines.append(f"{title}:")
            lines += [f"  {line}" for line in redact(neutralise(text)).rstrip().split("\n")]
    return lines


def folded_details(metric: MetricResult) -> Mapping[str, Any]:
    """Return the details of a metric; the frames of libraries in the traceback of a custom one are folded."""
    traceback = metric.details.get("traceback")
    if not isinstance(traceback, str):
        return metric.details
    return {**metric.details, "traceback": fold_library_frames(traceback)}


def fold_library_frames(traceback: str) -> str:
    """Replace consecutive frames of libraries by one line. A traceback with no other frames is unchanged."""
    lines: list[str] = []
    folded: list[str] = []  # the libraries of the frames that are being folded
    indent = ""
    has_others = False
    for line in traceback.split("\n"):
        frame = _FRAME.match(line)
        if frame is None and folded and line.startswith((indent + "  ", indent + "[Previous line")):  # its source
            continue
        library = None if frame is None else _find_library(frame["path"])
        if folded and (library is None or frame is None or frame["indent"] != indent):
            lines.append(_folded_line(indent, folded))
            folded = []
        if frame is not None and library is not None:
            indent = frame["indent"]
            folded.append(library)
        else:
            has_others = has_others or frame is not None
            lines.append(line)
    if folded:
        lines.append(_folded_line(indent, folded))
    return "\n".join(lines) if has_others else traceback


def _folded_line(indent: str, libraries: list[str]) -> str:
    count = len(libraries)
    return f"{indent}… {count} frame{'' if count == 1 else 's'} in {', '.join(dict.fromkeys(libraries))}"


def _find_library(path: str) -> str | None:
    """Return the library of a file, such as `google.adk`; None for a file of the user."""
    match = _LIBRARY.fullmatch(path)
    if match is None:
        return None
    parts = re.split(r"[/\\]", match["inside"].removesuffix(".py"))
    return ".".join(parts[: 2 if parts[0] == "google" else 1])


def failure_texts(failure: Failure, *, fold: Callable[[str], str] = fold_library_frames) -> Iterator[tuple[str, str]]:
    """Yield title and text of the traceback and of the end of stderr, if they are not empty.

    `fold` shortens the traceback.
    """
    texts = {"traceback": fold(failure.traceback or ""), "stderr, its end": failure.stderr_tail or ""}
    return ((title, text.rstrip()) for title, text in texts.items() if text.strip())


def list_sample_lines(case: ReportedCase) -> list[str]:
    return [make_safe(line) for metric in case.result.metrics for line in sample_lines(metric)]


def describe_metric(metric: MetricResult, said: set[str] | None = None) -> str:
    """Describe a metric in one line: score and threshold, or why there is no score. `said` as in `explain`."""
    name = make_safe(metric.name)
    if metric.status is MetricStatus.ERROR or metric.score is None:
        return f"{name}: {_explain_no_score(metric)}"
    hint = None if metric.hint in (said or ()) else metric.hint
    if hint and said is not None:
        said.add(hint)
    notes = [make_safe(note) for note in (metric.reason, hint, samples_text(metric)) if note]
    counted = f" ({metric.scored} of {metric.total} turns scored)" if metric.scored < metric.total else ""
    score = format_measured(metric.name, metric.score)
    if metric.threshold is not None:
        score = compare_with_threshold(metric.score, metric.threshold, metric=metric.name)
    return f"{name}: {score}{counted}" + "".join(f"; {note}" for note in notes)


def _metric_lines(metrics: list[MetricResult], said: set[str] | None) -> Iterator[str]:
    """Yield a line for each metric. Metrics without score for the same reason share a line."""
    groups: dict[str, list[MetricResult]] = {}
    for metric in metrics:
        has_score = metric.score is not None and metric.status is not MetricStatus.ERROR
        groups.setdefault(metric.name if has_score else _explain_no_score(metric), []).append(metric)
    for reason, group in groups.items():
        names = make_safe(", ".join(metric.name for metric in group))
        yield describe_metric(group[0], said) if len(group) == 1 else f"{names}: {reason}"


def _explain_no_score(metric: MetricResult) -> str:
    word = "could not be computed" if metric.status is MetricStatus.ERROR else "undefined"
    # The error of a custom function starts with the name of the metric.
    return f"{word}: {make_safe((metric.reason or 'no reason given').removeprefix(f'{metric.name}: '))}"


def describe_difference(difference: Difference) -> str:
    """Describe a difference in one line: `set_device_info: device_id: expected "device_2", got "device_3"`."""
    tool = make_safe(difference.tool)
    path, name = f"{tool}: {format_path(difference.path)}", find_name(difference.path)
    match difference.kind:
        case DifferenceKind.CALL_MISSING:
            return f"missing call {_position_text(difference.expected_call)}: {_call_text(tool, difference.expected)}"
        case DifferenceKind.CALL_EXTRA:
            by = " (a call of the framework itself)" if difference.tool in FRAMEWORK_CALLS else ""
            call = _call_text(tool, difference.actual)
            return f"unexpected call {_position_text(difference.actual_call)}: {call}{by}"
        case DifferenceKind.CALL_MOVED:
            position, actual_position = _position_text(difference.expected_call), _position_text(difference.actual_call)
            call = _call_text(tool, difference.expected)
            return f"call out of order: {call}: expected as call {position}, made as call {actual_position}"
        case DifferenceKind.ARGUMENT_MISSING:
            return f"{path}: expected {format_value(difference.expected, name)}, but the argument is missing"
        case DifferenceKind.ARGUMENT_EXTRA:
            return f"{path}: unexpected argument {format_value(difference.actual, name)}"
        case DifferenceKind.ARGUMENT_CHANGED if not difference.path:
            expected_text, actual_text = _arguments_text(difference.expected), _arguments_text(difference.actual)
            return f"{tool}: expected {expected_text}, got {actual_text}"
        case DifferenceKind.ARGUMENT_CHANGED:
            return f"{path}: {_describe_both(difference)}"
        case DifferenceKind.STATE_CHANGED if difference.is_unexpected:
            return f"state {format_path(difference.path)}: unexpected value {format_value(difference.actual, name)}"
        case DifferenceKind.STATE_CHANGED if difference.actual is None:  # a missing key, or null
            expected_text = format_value(difference.expected, name)
            return f"state {format_path(difference.path)}: expected {expected_text}, got no value"
        case DifferenceKind.STATE_CHANGED:
            return f"state {format_path(difference.path)}: {_describe_both(difference)}"
        case _:
            return _describe_words(difference)


def _describe_words(difference: Difference) -> str:
    """Describe a difference in the response, in a message of a sub-agent, or in a tool response."""
    tool = make_safe(difference.tool)
    match difference.kind:
        case DifferenceKind.INTERMEDIATE_MISSING:
            return f"{tool}: expected {format_value(difference.expected)}, but the message is missing"
        case DifferenceKind.INTERMEDIATE_EXTRA:
            return f"{tool}: unexpected message {format_value(difference.actual)}"
        case DifferenceKind.RESPONSE_CHANGED if difference.actual is None:
            return f"response: expected {format_value(difference.expected)}, got no response"
        case DifferenceKind.RESPONSE_CHANGED:
            return f"response: {_describe_both(difference)}"
        case DifferenceKind.TOOL_RESPONSE_CHANGED:
            return f"response of {tool}: {_describe_both(difference)}"
        case _:
            return f"{tool}: {_describe_both(difference)}"


def format_value(value: Any, name: str = "") -> str:
    """Format a value as JSON on one line, cut if it is long, and masked if `name`, its key, is that of a secret."""
    return make_safe(json.dumps(mask_named_secrets(value, name), ensure_ascii=False, default=repr))


def _describe_both(difference: Difference) -> str:
    expected, actual = format_both(difference.expected, difference.actual, find_name(difference.path))
    return f"expected {expected}, got {actual}"


def format_both(expected: Any, actual: Any, name: str = "") -> tuple[str, str]:
    """Format two different values as JSON, each on one line; masked if `name`, their key, is that of a secret.

    Values that would look equal, because they are cut or have similar characters, are escaped and begin just before
    the first difference.
    """
    expected_text, actual_text = format_value(expected, name), format_value(actual, name)
    if normalize("NFC", expected_text) == normalize("NFC", actual_text):
        texts = [redact(json.dumps(mask_named_secrets(value, name), default=repr)) for value in (expected, actual)]
        texts = [text.replace("  ", " \\u0020") for text in texts]  # one_line joins blanks
        start = max(measure_common_prefix(*texts) - _CONTEXT, 0)
        cut = "..." if start else ""
        expected_text, actual_text = (cut + one_line(text[start:], width=_WIDTH) for text in texts)
    return expected_text, actual_text


def format_path(path: Path) -> str:
    """Format a path into arguments: `updates.status` or `items[2].id`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return make_safe(text)


def make_safe(text: str) -> str:
    """Make untrusted text safe to print on one line: visible control characters, no secrets, shortened."""
    return redacted_line(text, width=_WIDTH)


def _failure_lines(case: ReportedCase) -> Iterator[str]:
    failure = case.result.failure
    if failure is not None:
        turn = f", turn {failure.turn + 1}" if failure.turn is not None else ""
        yield f"{failure.kind.value}{turn}: {redacted_line(failure.message, width=4 * _WIDTH)}"


def _explain_no_verdict(case: ReportedCase) -> str:
    if case.expected is not None and case.expected.conversation == []:
        return "the conversation is empty"
    return "no criterion has a threshold" if case.result.execution.turns else "no turn was finished"


def _difference_lines(case: ReportedCase) -> Iterator[str]:
    """List the differences that cost points."""
    single = len(case.differences) == 1
    for turn, difference, _ in find_reasons(case):
        place = "" if single or turn is None else f"turn {turn + 1}: "
        yield f"{place}{describe_difference(difference)}"


def _position_text(position: int | None) -> str:
    return "?" if position is None else str(position + 1)


def _call_text(tool: str, args: Mapping[str, Any] | None) -> str:
    arguments = ", ".join(f"{key}={format_value(value, key)}" for key, value in (args or {}).items())
    return one_line(f"{tool}({arguments})", width=_WIDTH)


def _arguments_text(args: Mapping[str, Any] | None) -> str:
    """Format arguments. Absent `args` are not `{}` for ADK, so they have a text of their own."""
    return "no arguments written (args absent)" if args is None else format_value(args)


# Calls and costs of judge and user models.


def spending_line(spending: ModelSpending) -> str:
    """Return a line about one model: `model gemini-2.5-flash: 20 calls, 240 tokens, $0.0012; 4 answers cached`."""
    parts = [pluralise(spending.calls, "call")]
    if spending.failed:
        parts.append(f"{spending.failed:,} {'try' if spending.failed == 1 else 'tries'} without an answer")
    if spending.calls:
        parts.append(
            pluralise(spending.tokens, "token")
            + (
                f" plus an unknown number in {spending.calls_without_usage:,} calls"
                if spending.calls_without_usage
                else ""
            )
        )
        parts.append(cost_text(spending.cost))
    reason = f" ({spending.cost_unknown})" if spending.cost_unknown is not None else ""
    free = ((spending.cached, "cached"), (spending.replayed, "replayed"))
    answers = (f"; {pluralise(count, 'answer')} {source}" for count, source in free if count)
    return f"model {spending.model}: {', '.join(parts)}{reason}{''.join(answers)}"


def spending_text(models: Iterable[ModelSpending]) -> str:
    """Summarise all models: `20 judge calls (+4 cached) $0.0012`."""
    spendings = list(models)
    calls = sum(spending.calls for spending in spendings)
    free = (
        (sum(spending.cached for spending in spendings), "cached"),
        (sum(spending.replayed for spending in spendings), "replayed"),
    )
    cost = f" {cost_text(_sum_costs(spendings))}" if calls else ""
    more = ", ".join(f"+{count:,} {source}" for count, source in free if count)
    more = f" ({more})" if more else ""
    return f"{calls:,} judge {'call' if calls == 1 else 'calls'}{more}{cost}" if spendings else ""


def quota_wait_text(seconds: float) -> str:
    """Say how long calls of a model are paused: `waiting 40 s for quota`."""
    return f"waiting {math.ceil(seconds)} s for quota"


def _sum_costs(models: Iterable[ModelSpending]) -> float | None:
    costs = [spending.cost for spending in models]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


# The verdict table: a line for each case with its explanation, and the totals at the end.

_WORD_WIDTH = max(map(len, CaseStatus))
_SCORE_WIDTH = 8
_NARROW = 6
"""Width of a score in a column with a number as heading."""
_TIME_WIDTH = 8
_NAME_WIDTH = 100  # terminal cells of an id; longer ones lose their middle
_MOST_LISTED = 20
"""Maximum number of listed hints, and of verdicts with disagreeing, or with missing samples."""
_COLOURS = {
    CaseStatus.PASSED: "32",
    CaseStatus.FAILED: "31",
    CaseStatus.ERROR: "35",
    CaseStatus.NOT_EVALUATED: "33",
    CaseStatus.SKIPPED: "2",
    CaseStatus.CANCELLED: "2",
}


@dataclass(frozen=True, kw_only=True)
class TableStyle:
    """The style of a table: `colour` for terminals; `verbose` adds samples, tracebacks and the agent's output.

    If the names of the metrics do not fit into `width` (terminal cells), the columns are numbered.
    """

    colour: bool = False
    verbose: bool = False
    width: int = 100

    def paint(self, text: str, code: str) -> str:
        """Colour the text if the style has colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


class VerdictTable:
    """Formats the table of one run. The cases must be grouped by set."""

    def __init__(self, *, style: TableStyle, name_width: int, criteria: Mapping[str, EvalConfig]) -> None:
        self._style = style
        self._name_width = name_width
        self._criteria = criteria
        self._group: tuple[str, str] | None = None
        self._columns: tuple[str, ...] = ()
        self._widths: list[int] = []
        self._format_cells: Callable[[tuple[MetricResult, ...]], tuple[list[str], list[str]]] = self._make_cells
        self._setup_failures = ShownSetupFailures()
        self._said_hints: set[str] = set()

    def lines(self, case: ReportedCase) -> list[str]:
        """Return the lines of one case, after a heading if a new set starts."""
        group = (case.result.case.target, case.result.case.eval_set)
        heading = [] if group == self._group else self._heading_lines(group, case)
        name = row_name(case)
        row, details = self._format_row(case, name), self._detail_lines(case)
        eval_set = f"{case.result.case.eval_set}:"
        first_place = self._setup_failures.find(case, f"{eval_set}{name}")
        if first_place is not None:
            row, details = f"{row}  setup: see {one_line(first_place.removeprefix(eval_set))}", details[1:]
        return [*heading, row, *details]

    def closing_lines(self, report: StreamedRun | RunReport) -> list[str]:
        """Return metrics over the run, flaky and unsure cases, hints, model costs and totals."""
        lines = [""] if self._group is not None else []
        lines += self._metric_summary_lines(report)
        for entry in count_repeats(report.outcomes):
            if entry.is_flaky:
                bounds = format_interval(wilson_interval(entry.passed, entry.total), ".0%")
                repeats = f"{entry.passed} of {entry.total} repeats passed{bounds}"
                lines.append(f"flaky: {one_line(entry.name)}: {repeats}")
        lines += _limit_lines("unsure", _list_by_case((each, each.unsure) for each in report.outcomes))
        lines += _limit_lines("samples missing", _list_by_case((each, each.partly_judged) for each in report.outcomes))
        hints = (make_safe(hint) for each in report.outcomes for hint in each.hints)  # on criteria that did not fail
        lines += _limit_lines("hint", _count_texts(hints))
        lines += [self._style.paint(one_line(spending_line(spending)), "2") for spending in report.summary.models]
        calls = report.summary.model_calls
        if calls:
            lines.append(self._style.paint(describe_model_calls(calls), "2"))
            reasons = _count_texts(one_line(each.asked_live) for each in report.outcomes if each.asked_live is not None)
            lines += [self._style.paint(line, "2") for line in _limit_lines("models asked live", reasons)]
        status = _decide_run_status(report)
        lines.append(self._style.paint(total_line(report), f"1;{_COLOURS[status]}"))
        return [*lines, self._style.paint(f"run {report.run_id}", "2")]

    def _heading_lines(self, group: tuple[str, str], case: ReportedCase) -> list[str]:
        lines = [] if self._group is None else [""]
        self._group = group
        target, eval_set = group
        config = self._criteria.get(eval_set)
        criterion_names = [criterion.metric for criterion in config.criteria] if config is not None else []
        self._columns = tuple(metric.name for metric in self._select_shown(case)) or tuple(criterion_names)
        title = one_line(set_heading(target, eval_set, config))
        indent = " " * (_WORD_WIDTH + self._name_width + 8)  # the indentation of the scores in a row
        heads = [one_line(name) for name in self._columns]
        legend: list[str] = []
        if (
            len(indent) + sum(max(cell_length(head), _SCORE_WIDTH) + 2 for head in heads) + _TIME_WIDTH
            > self._style.width
        ):
            legend = _legend(heads, width=self._style.width)
            heads = [_column_number(position) for position in range(len(heads))]
        smallest = _NARROW if legend else _SCORE_WIDTH
        self._widths = [max(cell_length(head), smallest) for head in heads]
        self._format_cells = cache_by_identity(maxsize=256, skip_if=has_judgements)(self._make_cells)
        names = "  ".join(map(_pad, heads, self._widths))
        faint = [self._style.paint(line, "2") for line in (*legend, f"{indent}{names}".rstrip())]
        return [*lines, self._style.paint(title, "1"), *faint]

    def _format_row(self, case: ReportedCase, name: str) -> str:
        result = case.result
        status = f"{status_text(result.status, result.quarantine):<{_WORD_WIDTH + 2}}"
        colour = _COLOURS[CaseStatus.NOT_EVALUATED if result.is_quarantined else result.status]
        cells, others = self._format_cells(self._select_shown(case))
        time = f"{agent_time_text(result.agent_seconds):>{_TIME_WIDTH}}"
        painted = self._style.paint(status, colour)
        replayed = mark_replayed(result.execution.model_calls)
        marks = [self._style.paint(replayed, "2")] if replayed else []
        parts = [f"  {painted}", _pad(name, self._name_width), *cells, time, *marks, *others]
        return "  ".join(parts).rstrip()

    def _select_shown(self, case: ReportedCase) -> tuple[MetricResult, ...]:
        return shown_metrics(case, self._criteria.get(case.result.case.eval_set))

    def _make_cells(self, shown: tuple[MetricResult, ...]) -> tuple[list[str], list[str]]:
        """Return the scores of a row by column, and those without a column."""
        metrics = {metric.name: metric for metric in shown}
        cells = [self._cell(metrics.get(name), width) for name, width in zip(self._columns, self._widths, strict=True)]
        others = [
            f"{one_line(name)} {_score_cell(metric)}" for name, metric in metrics.items() if name not in self._columns
        ]
        return cells, others

    def _cell(self, metric: MetricResult | None, width: int) -> str:
        text = f"{'-' if metric is None else _score_cell(metric):<{width}}"
        is_bad = metric is not None and metric.status in (MetricStatus.FAILED, MetricStatus.ERROR)
        return self._style.paint(text, "31") if is_bad else text

    def _detail_lines(self, case: ReportedCase) -> list[str]:
        is_bad = case.result.status in NOT_GOOD
        lines = explain(case, self._said_hints) if is_bad else [*quarantine_lines(case.result), *list_causes(case)]
        if self._style.verbose:
            lines += list_sample_lines(case)
            lines += explain_at_length(case) if is_bad else []
        return [f"      {line}" for line in lines]

    def _metric_summary_lines(self, report: StreamedRun | RunReport) -> list[str]:
        """Return mean and sample deviation of each metric; informational metrics only with `verbose`."""
        if report.summary.total < 2 and not self._style.verbose:
            return []
        deciding = {name for outcome in report.outcomes for name in outcome.metrics}
        shown = {
            name: metric for name, metric in report.summary.metrics.items() if name in deciding or self._style.verbose
        }
        width = max(map(len, shown), default=0)
        lines = []
        for name, metric in shown.items():
            mean = "undefined" if metric.mean is None else f"mean {format_mean(name, metric.mean)}"
            std = "" if metric.std is None else f"  std {format_mean(name, metric.std)}"
            bounds = ""
            if metric.interval is not None:
                low, high = (format_mean(name, bound) for bound in metric.interval)
                bounds = f" (95 % {low} to {high})"
            lines.append(f"{one_line(name):<{width}}  {mean}{bounds}{std}  ({metric.scored} of {metric.total} scored)")
        return lines


def _limit_lines(title: str, texts: Sequence[str]) -> list[str]:
    more = len(texts) - _MOST_LISTED
    lines = [f"{title}: {text}" for text in texts[:_MOST_LISTED]]
    return lines if more <= 0 else [*lines, f"{title}: and {more} more"]


def _list_by_case(texts: Iterable[tuple[CaseOutcome, Iterable[str]]]) -> list[str]:
    return [f"{_row_name(each.case.name, each.repeat)}: {one_line(text)}" for each, lines in texts for text in lines]


def _count_texts(texts: Iterable[str]) -> list[str]:
    """Return each text once, the most frequent first, with the number of its cases."""
    return [f"{text} ({pluralise(count, 'case')})" for text, count in Counter(texts).most_common()]


def row_name(case: ReportedCase) -> str:
    """Return the name of a row: the id of its case, and the repeat."""
    return _row_name(case.name, case.result.repeat)


def _row_name(name: str, repeat: int) -> str:
    return _shorten_name(one_line(name_repeat(name, repeat)))


def width_of_names(names: Sequence[str]) -> int:
    """Return the width of a column of these names, in terminal cells, after long names were shortened."""
    return max((cell_length(_shorten_name(name)) for name in names), default=0)


def _shorten_name(name: str) -> str:
    length = len(name)
    while (cells := cell_length(shown := shorten(name, length))) > _NAME_WIDTH:
        length = length * _NAME_WIDTH // cells
    return shown


def cell_length(text: str) -> int:
    """Return the terminal cells of a text: two for Chinese characters, none for combining marks."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # rich costs start-up time, and most ids are ASCII

    return cell_len(text)


def _pad(text: str, width: int) -> str:
    return text + " " * max(width - cell_length(text), 0)


def _column_number(position: int) -> str:
    return f"({position + 1})"


def _legend(names: Sequence[str], *, width: int) -> list[str]:
    """Return the numbers of the metrics, in lines that break between metrics only."""
    items = [f"{_column_number(position)}\u00a0{name}" for position, name in enumerate(names)]
    indent = "  "
    wrapped = textwrap.wrap(
        "  ".join(items),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\u00a0", " ") for line in wrapped]


def _score_cell(metric: MetricResult) -> str:
    if metric.score is None:
        return "error" if metric.status is MetricStatus.ERROR else "undef."
    return format_measured(metric.name, metric.score, metric.threshold)


def _decide_run_status(report: RunFacts) -> CaseStatus:
    summary = report.summary
    if summary.failed or summary.not_evaluated or not summary.passed + summary.quarantined:
        return CaseStatus.FAILED
    return CaseStatus.ERROR if summary.error else CaseStatus.PASSED


_BOTH, _EXPECTED, _ACTUAL = "    ", "  - ", "  + "


# The diff as text, with `-` for expected and `+` for actual, for reports without columns.


def aligned_lines(case: ReportedCase) -> Iterator[str]:
    """Return the diff of the turns with differences that cost points, and of the final state if it has some.

    Of a case that was not scored, all differences are shown.

    Unfinished turns, and cases without expectations, have no lines.
    """
    conversation = (case.expected.conversation if case.expected is not None else None) or ()
    reasons = list_shown(case)
    costly = {turn for turn, _ in reasons}
    for index, (expected_turn, turn) in enumerate(zip(conversation, case.result.execution.turns, strict=False)):
        if index in costly:
            yield f"turn {index + 1}: {make_safe(expected_turn.user_content.text_with_markers(thoughts=False))}"
            if case.can_compare_calls(expected_turn, turn):
                costly_calls = {(each.expected_call, each.actual_call) for place, each in reasons if place == index}
                yield from _call_lines(get_trajectory(expected_turn), get_trajectory(turn.invocation), costly_calls)
            for place, difference in reasons:
                if place == index and difference.kind is DifferenceKind.RESPONSE_CHANGED:
                    yield from _side_lines("response", difference)
    if None in costly:
        yield "final state"
        for place, difference in reasons:
            if place is None:
                yield from _side_lines(format_path(difference.path), difference)


def _call_lines(
    expected: Trajectory, actual: Trajectory, costly: Collection[tuple[int | None, int | None]]
) -> Iterator[str]:
    """Return the lines of all calls. A difference that costs no points, by its pair of positions, has no sign."""
    rows = align(expected, actual)
    moved_to = find_moves(rows, expected, actual)
    moved_from = {new: old for old, new in moved_to.items()}
    for row in rows:
        if row.expected is not None and row.actual is not None:
            one, other = expected[row.expected], actual[row.actual]
            if one == other or (row.expected, row.actual) in costly:
                yield from _matched_call_lines(one, other)
            else:
                yield f"{_BOTH}{make_safe(one.name)} (other arguments, which cost no points)"
        elif row.expected is not None:
            target = moved_to.get(row.expected) if row.moved else None
            note = "not made" if target is None else f"made as call {target + 1}"
            is_costly = (row.expected, target) in costly
            yield from _one_sided_call_lines(_EXPECTED, expected[row.expected], note, is_costly=is_costly)
        elif row.actual is not None:
            source = moved_from.get(row.actual) if row.moved else None
            note = "not expected" if source is None else f"expected as call {source + 1}"
            is_costly = (source, row.actual) in costly
            yield from _one_sided_call_lines(_ACTUAL, actual[row.actual], note, is_costly=is_costly)


def _one_sided_call_lines(sign: str, call: ToolCall, note: str, *, is_costly: bool) -> Iterator[str]:
    if not is_costly:
        sign, note = _BOTH, f"{note}, which costs no points"
    yield f"{sign}{make_safe(call.name)} ({note})"
    for key, value in (call.args or {}).items():
        yield f"{sign}  {make_safe(key)}: {format_value(value, key)}"


def _matched_call_lines(expected: ToolCall, actual: ToolCall) -> Iterator[str]:
    """Return the lines of a call of both sides: its arguments key by key, inside them only differences."""
    yield _BOTH + make_safe(expected.name)
    if expected.args is None or actual.args is None:
        for sign, args in ((_EXPECTED, expected.args), (_ACTUAL, actual.args)):
            if expected.args != actual.args:
                yield f"{sign}  {_arguments_text(args)}"
        return
    differences_by_key: dict[str | int, list[Difference]] = {}
    for kind, path, expected_value, actual_value in find_value_differences(expected.args, actual.args):
        differences_by_key.setdefault(path[0], []).append(
            Difference(kind=kind, path=path, expected=expected_value, actual=actual_value)
        )
    for key in (*expected.args, *(key for key in actual.args if key not in expected.args)):
        if key not in differences_by_key:
            yield f"{_BOTH}  {make_safe(key)}: {format_value(expected.args[key], key)}"
        for difference in differences_by_key.get(key, ()):
            yield from _side_lines(f"  {format_path(difference.path)}", difference)


def _side_lines(name: str, difference: Difference) -> Iterator[str]:
    expected, actual = format_both(difference.expected, difference.actual, find_name(difference.path))
    if difference.kind is not DifferenceKind.ARGUMENT_EXTRA:
        yield f"{_EXPECTED}{name}: {expected}"
    if difference.kind is DifferenceKind.ARGUMENT_MISSING:
        return
    has_no_response = difference.kind is DifferenceKind.RESPONSE_CHANGED and difference.actual is None
    yield f"{_ACTUAL}{name}: {'(none)' if has_no_response else actual}"
