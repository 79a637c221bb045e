"""Prints the results of a run, and its progress."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from workbench.cli.console import message, wants_colour, write_document, write_lines
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus, InvocationScore, ModelSpending
from workbench.model.text import neutralise, one_line, redact
from workbench.model.turn_diff import format_calls
from workbench.report.run_report import SYMBOLS, ReportedCase, RunReport, StreamedRun, duration_text, samples_text
from workbench.report.text_report import TableStyle, VerdictTable, cell_length, quota_wait_text, spending_text

# Results as they arrive on standard output, and as a document in a file.

TEXT = "text"
JSON = "json"

_SUFFIXES = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xml": "junit",
    ".md": "markdown",
    ".markdown": "markdown",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
}


class Printer(Protocol):
    """Prints the results of one run."""

    def print_cases(self, cases: Sequence[ReportedCase]) -> None:
        """Print cases. They come in the order in which they end."""

    def print_report(self, report: StreamedRun | RunReport) -> None:
        """Print the rest, at the end of the run."""


class TablePrinter:
    """Prints the verdict table: each case as soon as all cases before it in `order` are printed."""

    def __init__(self, table: VerdictTable, order: list[object]) -> None:
        self._table = table
        self._order = order
        self._next = 0
        self._waiting: dict[object, ReportedCase] = {}

    def print_cases(self, cases: Sequence[ReportedCase]) -> None:
        """Print the cases and their successors if their turn has come."""
        lines: list[str] = []
        for case in cases:
            job = get_job(case)
            if self._order[self._next : self._next + 1] != [job]:
                self._waiting[job] = case
                continue
            lines += self._table.lines(case)
            self._next += 1
            while self._waiting and self._next < len(self._order) and self._order[self._next] in self._waiting:
                lines += self._table.lines(self._waiting.pop(self._order[self._next]))
                self._next += 1
        if lines:
            write_lines(lines)

    def print_report(self, report: StreamedRun | RunReport) -> None:
        """Print the remaining cases (an interrupted run has gaps) and the totals."""
        rest = [self._waiting[job] for job in self._order[self._next :] if job in self._waiting]
        lines = [line for case in rest for line in self._table.lines(case)]
        write_lines([*lines, *self._table.closing_lines(report)])


class LinePrinter:
    """Prints JSON lines, each as its case ends."""

    def print_cases(self, cases: Sequence[ReportedCase]) -> None:
        from workbench.report.report_formats import case_line

        write_document("".join(map(case_line, cases)))

    def print_report(self, report: StreamedRun | RunReport) -> None:
        from workbench.report.report_formats import run_line

        write_document(run_line(report))


class DocumentPrinter:
    """Prints a document at the end of the run."""

    def __init__(self, report_format: str) -> None:
        self._format = report_format

    def print_cases(self, cases: Sequence[ReportedCase]) -> None:
        """Print nothing yet."""

    def print_report(self, report: StreamedRun | RunReport) -> None:
        from workbench.report.report_formats import write_report

        assert isinstance(report, RunReport)  # `Display.needs_cases`
        write_document(write_report(report, self._format))


def get_job(case: ReportedCase) -> object:
    """Return what identifies a result within its run."""
    return case.result.case, case.result.repeat


def stdout_style(*, plain: bool, verbose: bool) -> TableStyle:
    """Return the style of text on standard output."""
    width = shutil.get_terminal_size(fallback=(TableStyle.width, 24)).columns
    return TableStyle(colour=wants_colour(sys.stdout, plain=plain), verbose=verbose, width=width)


def choose_format(report_format: str | None, output: Path | None) -> str:
    """Return the requested format, else that of the file name, else text."""
    if report_format is not None:
        return report_format
    return _SUFFIXES.get(output.suffix.lower(), TEXT) if output is not None else TEXT


@dataclass(frozen=True, kw_only=True)
class Display:
    """How to show the results, from the options."""

    report_format: str | None = None
    output: Path | None = None
    plain: bool = False
    verbose: bool = False
    details: bool = False
    """True if the command prints details of each case after the run."""

    @property
    def document_format(self) -> str:
        """The format of the document, in `output` or on standard output."""
        return choose_format(self.report_format, self.output)

    @property
    def stdout_format(self) -> str:
        """The format of standard output: that of the document, or text if the document goes to a file."""
        return self.document_format if self.output is None else TEXT

    @property
    def needs_cases(self) -> bool:
        """Whether all cases must be in memory at the end; otherwise each is freed when it is printed."""
        if self.details or self.document_format == JSON:
            return self.details
        return self.output is not None or self.stdout_format not in (TEXT, "jsonl")

    def save(self, report: RunReport, *, name_width: int) -> bool:
        """Write a report to `output`, if it is given. Return False, with a message, if that fails."""
        if self.output is None:
            return True
        if self.document_format == TEXT:
            style = TableStyle(verbose=self.verbose)
            document = "\n".join(table_lines(report, style=style, name_width=name_width)) + "\n"
        else:
            from workbench.report.report_formats import write_report

            document = write_report(report, self.document_format)
        return save_pieces([document], self.document_format, self.output)


def output_document(document: str, report_format: str, output: Path | None) -> bool:
    """Write a document to a file, or to standard output without a file or if that fails. Return False if it fails."""
    is_saved = output is not None and save_pieces([document], report_format, output)
    if not is_saved:
        write_document(document)
    return is_saved or output is None


def save_pieces(pieces: Iterable[str], report_format: str, output: Path) -> bool:
    """Write a document in pieces to a file. Return False, with a message, if that fails.

    A file is replaced as a whole or not at all; a pipe or device is written directly.
    """
    from workbench.store.errors import StoreError
    from workbench.store.files import write_directly, write_in_pieces

    encoded = (text.encode("utf-8", errors="replace") for text in pieces)
    try:
        if output.exists() and not output.is_file() and not output.is_dir():
            write_directly(output, encoded, announce=message)
        else:
            write_in_pieces(output, encoded)
    except StoreError as error:
        message(f"the results could not be written: {error}")
        return False
    message(f"{report_format} written to {output}")
    return True


def require_writable(output: Path | None) -> None:
    """Raise PlanError before the run if the output file, if any, cannot be written afterwards."""
    from workbench.engine.plan import PlanError

    if output is None:
        return
    if output.is_dir():
        raise PlanError(f"--output {output}: it is a folder, expected a file")
    if not output.parent.is_dir():
        raise PlanError(f"--output {output}: the folder {output.parent} does not exist")


def table_lines(report: RunReport, *, style: TableStyle, name_width: int) -> list[str]:
    """Return the verdict table of a finished run."""
    table = VerdictTable(style=style, name_width=name_width, criteria=report.criteria)
    lines = [line for cases in report.by_eval_set().values() for case in cases for line in table.lines(case)]
    return [*lines, *table.closing_lines(report)]


# The output of `workbench eval`. Lines that `adk eval` prints too are the same.

_STARS = "*" * 69
_DASHES = "-" * 69
_COLUMN = 28
_WIDTH = 80


def format_criteria(config: EvalConfig) -> str:
    """Return the line with the criteria, printed before a run."""
    criteria = {
        criterion.metric: criterion.threshold
        if not criterion.options
        else {"threshold": criterion.threshold, **criterion.options}
        for criterion in config.criteria
    }
    return neutralise(f"Using evaluation criteria: {json.dumps(criteria, ensure_ascii=False)} ({config.source})")


_COUNTED_AS = {
    CaseStatus.PASSED: "passed",
    CaseStatus.CANCELLED: "not run",
    CaseStatus.SKIPPED: "not run",
}


def format_summary(report: StreamedRun | RunReport) -> list[str]:
    """Return the summary of a run. A case that ran and did not pass counts as failed, as in ADK."""
    counts: dict[str, Counter[str]] = {}
    for outcome in report.outcomes:
        word = "quarantined" if outcome.is_quarantined else _COUNTED_AS.get(outcome.status, "failed")
        counts.setdefault(outcome.eval_set_id, Counter())[word] += 1
    lines = [_STARS, "Eval Run Summary"]
    for eval_set_id, count in counts.items():
        lines += [
            neutralise(f"{eval_set_id}:"),
            f"  Tests passed: {count['passed']}",
            f"  Tests failed: {count['failed']}",
        ]
        if count["quarantined"]:
            lines.append(f"  Tests in quarantine: {count['quarantined']}")
        if count["not run"]:
            lines.append(f"  Tests not run: {count['not run']}")
    return lines


def format_details(cases: Iterable[ReportedCase]) -> Iterator[str]:
    """Yield everything about each case, for `--print_detailed_results`."""
    for case in cases:
        result = case.result
        yield _STARS
        yield neutralise(f"Eval Set Id: {result.eval_set_id}")
        yield neutralise(f"Eval Id: {result.case.eval_id}")
        yield f"Overall Eval Status: {result.status.value}"
        if result.failure is not None:
            yield redact(neutralise(f"Error: {result.failure.message}"))
        for metric in result.metrics:
            yield _DASHES
            yield neutralise(
                f"Metric: {metric.name}, Status: {metric.status.value}, Score: {metric.score}, "
                f"Threshold: {metric.threshold}"
            )
            notes = (metric.reason, metric.hint, samples_text(metric))
            yield from (neutralise(redact(f"  {note}")) for note in notes if note)
        yield from _format_invocations(case)


def _format_invocations(case: ReportedCase) -> Iterator[str]:
    turns = case.result.execution.turns
    if not turns:
        return
    conversation = (case.expected.conversation if case.expected is not None else None) or []
    yield _DASHES
    yield "Invocation Details:"
    for index, turn in enumerate(turns):
        yield ""
        yield f"Invocation {index + 1} of {len(turns)}"
        expected = conversation[index] if index < len(conversation) else None
        fields = _list_fields(expected, turn.invocation)
        # Metrics of whole cases have no scores of turns.
        per_turn = [metric for metric in case.result.metrics if index < len(metric.per_invocation)]
        fields += [(metric.name, _format_score(metric.per_invocation[index])) for metric in per_turn]
        for label, value in fields:
            yield from _format_field(label, value)
    yield ""


def _list_fields(expected: Invocation | None, actual: Invocation) -> list[tuple[str, str]]:
    fields = [("prompt", actual.user_content.text())]
    if expected is not None:
        fields.append(("expected_response", expected.response_text() or ""))
    fields.append(("actual_response", actual.response_text() or ""))
    if expected is not None:
        fields.append(("expected_tool_calls", format_calls(expected)))
    return [*fields, ("actual_tool_calls", format_calls(actual))]


def _format_score(score: InvocationScore) -> str:
    return f"undefined: {score.reason}" if score.score is None else str(score.score)


def _format_field(label: str, value: str) -> Iterator[str]:
    """Yield `label: value`, with further lines indented."""
    safe = redact(neutralise(value))
    lines = [part for line in safe.splitlines() or ["(none)"] for part in textwrap.wrap(line, _WIDTH) or [""]]
    prefix = f"  {neutralise(label)}: ".ljust(_COLUMN)
    yield prefix + lines[0]
    yield from (" " * len(prefix) + line for line in lines[1:])


# Documents of many cases: each case is kept in a temporary file until the end.

_PIECES = 500


class JsonSpool:
    """Collects the document of `--format json`. It is a printer, and returns the pieces for a file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._places: dict[JobKey, int] = {}

    def print_cases(self, cases: Sequence[ReportedCase]) -> None:
        """Store the texts of the cases."""
        from workbench.report.report_formats import case_text

        for case in cases:
            self._places[JobKey(case=case.result.case, repeat=case.result.repeat)] = self._file.tell()
            self._file.write(case_text(case).encode("utf-8", errors="replace") + b"\n")

    def print_report(self, report: StreamedRun | RunReport) -> None:
        for piece in self.pieces(report):
            write_document(piece)

    def pieces(self, report: StreamedRun | RunReport) -> Iterator[str]:
        """Yield the document, with cases in the order of the report."""
        from workbench.report.report_formats import json_pieces

        gathered: list[str] = []
        for piece in json_pieces(report, self._texts(report)):
            gathered.append(piece)
            if len(gathered) >= _PIECES:
                yield "".join(gathered)
                gathered = []
        yield "".join(gathered)

    def _texts(self, report: StreamedRun | RunReport) -> Iterator[str]:
        for outcome in report.outcomes:
            self._file.seek(self._places[JobKey(case=outcome.case, repeat=outcome.repeat)])
            yield self._file.readline().decode().rstrip("\n")


# The progress line: one line on standard error, drawn several times a second by a thread.

_INTERVAL = 0.15
"""Seconds between updates."""
_BAR = 20
"""Characters of the bar."""
_COUNTED = (CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED)


class ProgressPrinter:
    """Shows the progress of a run within `with`. Draws nothing if `shown` is false."""

    def __init__(self, *, total: int, shown: bool) -> None:
        self._total = total
        self._counts = dict.fromkeys(CaseStatus, 0)
        self._current = ""
        self._models = ""
        self._importing = ""
        self._waits_until = 0.0
        self._started = time.monotonic()
        self._visible = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_the_end, daemon=True) if shown and total else None

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._clear()

    def show_case(self, name: str) -> None:
        """Show a case as the present one."""
        self._current = name

    def show_spending(self, models: Sequence[ModelSpending]) -> None:
        """Show the spending on models so far."""
        self._models = spending_text(models)

    def show_imports(self, targets: Sequence[str]) -> None:
        """Show that the agents of these targets are being imported."""
        self._importing = ", ".join(targets)

    @property
    def is_shown(self) -> bool:
        """Whether the line is drawn."""
        return self._thread is not None

    def show_wait(self, seconds: float) -> None:
        """Show that calls wait for this many seconds."""
        self._waits_until = time.monotonic() + seconds

    def count_case(self, status: CaseStatus) -> None:
        self._counts[status] += 1

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Hide the line in this context, so that other text can be printed."""
        with self._lock:
            self._clear()
            yield

    def announce(self, text: str) -> None:
        """Print a message on standard error instead of the line."""
        with self.pause():
            message(text)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines on standard output, which may be the same terminal."""
        with self.pause():
            write_lines(lines)

    def _draw_until_the_end(self) -> None:
        while not self._ended.wait(_INTERVAL):
            with self._lock:
                self._draw(one_line(self.text(time.monotonic() - self._started)))

    def _draw(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        while cell_length(text) > room:
            text = text[:-1]
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()
        self._visible = True

    def _clear(self) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._visible = False

    def text(self, elapsed: float) -> str:
        """Return the line after `elapsed` seconds."""
        done = sum(self._counts.values())
        filled = _BAR * done // self._total
        counts = [f"{SYMBOLS[status]}{self._counts[status]}" for status in _COUNTED if self._counts[status]]
        parts = ["█" * filled + "░" * (_BAR - filled), f"{done}/{self._total}", *counts, duration_text(elapsed)]
        if 0 < done < self._total and elapsed > 0:
            parts.append(f"{done / elapsed:.1f}/s  eta {elapsed / done * (self._total - done):.0f} s")
        if (left := self._waits_until - time.monotonic()) > 0:
            parts.append(quota_wait_text(left))
        if self._models:
            parts.append(self._models)
        return "  ".join([*parts, f"importing {self._importing}" if self._importing else self._current])
