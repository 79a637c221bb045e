"""The verdict table: a line for each case, under it what went wrong, at the end the totals.

Lines are made one case at a time, so that a table can be printed while a run goes on. Status is a sign and a word;
colour only repeats it.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.model.by_identity import by_identity
from workbench.model.criteria import EvalConfig
from workbench.model.results import CaseStatus, MetricResult, MetricStatus, were_asked_of_models
from workbench.model.text import counted, one_line, shorten
from workbench.report.explain import ShownSetupFailures, explain, explain_at_length, safe, sample_lines_of, score_text
from workbench.report.run_report import (
    NOT_GOOD,
    CaseOutcome,
    ReportedCase,
    RunFacts,
    RunReport,
    StreamedRun,
    repeats,
    shown_metrics,
)
from workbench.report.spending import spending_line
from workbench.report.wording import SYMBOLS, heading, time_taken, total_line

_WORD_WIDTH = max(map(len, CaseStatus))
_SCORE_WIDTH = 8
_NARROW = 6
"""Width of a score below a number instead of the name of its metric."""
_TIME_WIDTH = 8
_NAME_WIDTH = 100  # terminal cells of an id; longer ones lose their middle
_MOST_LISTED = 20
"""How many verdicts are listed that samples disagree on, or that lack samples."""
_MOST_HINTS = 20
_COLOURS = {
    CaseStatus.PASSED: "32",
    CaseStatus.FAILED: "31",
    CaseStatus.ERROR: "35",
    CaseStatus.NOT_EVALUATED: "33",
    CaseStatus.SKIPPED: "2",
    CaseStatus.CANCELLED: "2",
}


@dataclass(frozen=True, kw_only=True)
class Style:
    """How much to show: colours for a terminal; `verbose` adds samples of judges, tracebacks and the agent's output.

    Where the names of the metrics do not fit into `width` (terminal cells), the columns are numbered.
    """

    colour: bool = False
    verbose: bool = False
    width: int = 100

    def paint(self, text: str, code: str) -> str:
        """The text in a colour, or as it is."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


class VerdictTable:
    """Makes the lines of one run's table; the cases are given set by set."""

    def __init__(self, *, style: Style, name_width: int, criteria: Mapping[str, EvalConfig]) -> None:
        self._style = style
        self._name_width = name_width
        self._criteria = criteria
        self._group: tuple[str, str] | None = None
        self._columns: tuple[str, ...] = ()
        self._widths: list[int] = []
        self._cells_of: Callable[[tuple[MetricResult, ...]], tuple[list[str], list[str]]] = self._make_cells
        self._setup_failures = ShownSetupFailures()

    def lines(self, case: ReportedCase) -> list[str]:
        """The lines of one case, with a heading before them where another set begins."""
        group = (case.result.case.target, case.result.case.eval_set)
        heading = [] if group == self._group else self._heading(group, case)
        row, details = self._row(case), self._details(case)
        eval_set = f"{case.result.case.eval_set}:"
        shown = self._setup_failures.find(case, f"{eval_set}{row_name(case)}")
        if shown is not None:
            row, details = f"{row}  setup: see {one_line(shown.removeprefix(eval_set))}", details[1:]
        return [*heading, row, *details]

    def closing(self, report: StreamedRun | RunReport) -> list[str]:
        """The metrics over the run, the unstable cases, what models cost, the totals."""
        lines = [""] if self._group is not None else []
        lines += self._metrics(report)
        for entry in repeats(report.outcomes):
            if entry.flaky:
                lines.append(f"flaky: {one_line(entry.name)}: {entry.passed} of {entry.total} repeats passed")
        lines += _unsure_lines(report.outcomes)
        lines += _partly_judged_lines(report.outcomes)
        lines += _hint_lines(report.outcomes)
        lines += [self._style.paint(one_line(spending_line(spent)), "2") for spent in report.summary.models]
        status = _status_of_run(report)
        lines.append(self._style.paint(total_line(report), f"1;{_COLOURS[status]}"))
        return [*lines, self._style.paint(f"run {report.run_id}", "2")]

    def _heading(self, group: tuple[str, str], case: ReportedCase) -> list[str]:
        lines = [] if self._group is None else [""]
        self._group = group
        target, eval_set = group
        config = self._criteria.get(eval_set)
        wanted = [criterion.metric for criterion in config.criteria] if config is not None else []
        self._columns = tuple(metric.name for metric in self._shown(case)) or tuple(wanted)
        title = one_line(heading(target, eval_set))
        left = " " * (_WORD_WIDTH + self._name_width + 8)  # as far as the scores of a row are from its start
        heads = [one_line(name) for name in self._columns]
        legend: list[str] = []
        if (
            len(left) + sum(max(cell_length(head), _SCORE_WIDTH) + 2 for head in heads) + _TIME_WIDTH
            > self._style.width
        ):
            legend = _legend(heads, width=self._style.width)
            heads = [_number(position) for position in range(len(heads))]
        smallest = _NARROW if legend else _SCORE_WIDTH
        self._widths = [max(cell_length(head), smallest) for head in heads]
        self._cells_of = by_identity(at_most=256, but=were_asked_of_models)(self._make_cells)
        names = "  ".join(map(_pad, heads, self._widths))
        faint = [self._style.paint(line, "2") for line in (*legend, f"{left}{names}".rstrip())]
        return [*lines, self._style.paint(title, "1"), *faint]

    def _row(self, case: ReportedCase) -> str:
        result = case.result
        status = f"{SYMBOLS[result.status]} {result.status.value:<{_WORD_WIDTH}}"
        cells, others = self._cells_of(self._shown(case))
        time = f"{time_taken(result.agent_seconds):>{_TIME_WIDTH}}"
        painted = self._style.paint(status, _COLOURS[result.status])
        parts = [f"  {painted}", _pad(row_name(case), self._name_width), *cells, time, *others]
        return "  ".join(parts).rstrip()

    def _shown(self, case: ReportedCase) -> tuple[MetricResult, ...]:
        return shown_metrics(case, self._criteria.get(case.result.case.eval_set))

    def _make_cells(self, shown: tuple[MetricResult, ...]) -> tuple[list[str], list[str]]:
        """The scores of a row in the columns, and those that have none."""
        metrics = {metric.name: metric for metric in shown}
        cells = [self._cell(metrics.get(name), width) for name, width in zip(self._columns, self._widths, strict=True)]
        others = [f"{one_line(name)} {_score(metric)}" for name, metric in metrics.items() if name not in self._columns]
        return cells, others

    def _cell(self, metric: MetricResult | None, width: int) -> str:
        text = f"{'-' if metric is None else _score(metric):<{width}}"
        bad = metric is not None and metric.status in (MetricStatus.FAILED, MetricStatus.ERROR)
        return self._style.paint(text, "31") if bad else text

    def _details(self, case: ReportedCase) -> list[str]:
        is_bad = case.result.status in NOT_GOOD
        lines = explain(case) if is_bad else []
        if self._style.verbose:
            lines += sample_lines_of(case)
            lines += explain_at_length(case) if is_bad else []
        return [f"      {line}" for line in lines]

    def _metrics(self, report: StreamedRun | RunReport) -> list[str]:
        """Mean and sample deviation of each metric; of the informational ones only for those who ask."""
        if report.summary.total < 2 and not self._style.verbose:
            return []
        deciding = {name for outcome in report.outcomes for name in outcome.metrics}
        shown = {
            name: metric for name, metric in report.summary.metrics.items() if name in deciding or self._style.verbose
        }
        width = max(map(len, shown), default=0)
        lines = []
        for name, metric in shown.items():
            mean = "undefined" if metric.mean is None else f"mean {metric.mean:.4g}"
            std = "" if metric.std is None else f"  std {metric.std:.4g}"
            lines.append(f"{one_line(name):<{width}}  {mean}{std}  ({metric.scored} of {metric.total} scored)")
        return lines


def _unsure_lines(outcomes: Sequence[CaseOutcome]) -> list[str]:
    """The cases on which the samples of a judge disagree."""
    texts = [f"{_name_of(outcome)}: {one_line(text)}" for outcome in outcomes for text in outcome.unsure]
    return _listed("unsure", texts)


def _partly_judged_lines(outcomes: Sequence[CaseOutcome]) -> list[str]:
    """The verdicts that rest on fewer samples of a judge than were asked for."""
    texts = [f"{_name_of(outcome)}: {text}" for outcome in outcomes for text in outcome.partly_judged]
    return _listed("samples missing", texts)


def _listed(title: str, texts: Sequence[str]) -> list[str]:
    more = len(texts) - _MOST_LISTED
    lines = [f"{title}: {text}" for text in texts[:_MOST_LISTED]]
    return lines if more <= 0 else [*lines, f"{title}: and {more} more"]


def _hint_lines(outcomes: Sequence[CaseOutcome]) -> list[str]:
    """The hints on criteria that passed, once each; the other hints are shown with their case."""
    counts = Counter(hint for outcome in outcomes for hint in outcome.hints)
    lines = [f"hint: {safe(text)} ({counted(count, 'case')})" for text, count in counts.most_common(_MOST_HINTS)]
    more = len(counts) - len(lines)
    return [*lines, f"hint: and {more} more"] if more else lines


def row_name(case: ReportedCase) -> str:
    """What a row is called: the id of its case, and which repeat it is."""
    return _row_name(case.name, case.result.repeat)


def _name_of(outcome: CaseOutcome) -> str:
    return _row_name(outcome.case.name, outcome.repeat)


def _row_name(name: str, repeat: int) -> str:
    return _shorten_name(one_line(f"{name} [{repeat + 1}]" if repeat else name))


def width_of_names(names: Sequence[str]) -> int:
    """The terminal cells that a column of these names needs, long ones shortened."""
    return max((cell_length(_shorten_name(name)) for name in names), default=0)


def _shorten_name(name: str) -> str:
    length = len(name)
    while (cells := cell_length(shown := shorten(name, length))) > _NAME_WIDTH:
        length = length * _NAME_WIDTH // cells
    return shown


def cell_length(text: str) -> int:
    """How many terminal cells the text takes: Chinese characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # rich costs start-up time, and most ids are ASCII

    return cell_len(text)


def _pad(text: str, width: int) -> str:
    return text + " " * max(width - cell_length(text), 0)


def _number(position: int) -> str:
    return f"({position + 1})"


def _legend(names: Sequence[str], *, width: int) -> list[str]:
    """Which metric has which number, in lines that break between metrics only."""
    items = [f"{_number(position)}\u00a0{name}" for position, name in enumerate(names)]
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


def _score(metric: MetricResult) -> str:
    if metric.score is None:
        return "error" if metric.status is MetricStatus.ERROR else "undef."
    return score_text(metric.score, metric.threshold)


def _status_of_run(report: RunFacts) -> CaseStatus:
    summary = report.summary
    if summary.failed or summary.not_evaluated or not summary.passed:
        return CaseStatus.FAILED
    return CaseStatus.ERROR if summary.error else CaseStatus.PASSED
