"""Results printed while a run goes on."""

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
from pathlib import Path
from typing import Protocol, Self

from workbench.cli.console import message, wants_colour, write_document, write_lines
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus, InvocationScore, ModelSpending
from workbench.model.text import neutralise, one_line, redact
from workbench.report.formats import FORMATS, write_report
from workbench.report.run_report import SYMBOLS, ReportedCase, RunReport, StreamedRun, duration_text, samples_text
from workbench.report.text_report import Style, VerdictTable, cell_length, quota_wait_text, spending_text
from workbench.report.turn_diff import format_calls

# Where the results of a run go: as they come to standard output, and as a document to a file.

TEXT = "text"
CHOICES = (TEXT, *FORMATS)

_SUFFIXES = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xml": "junit",
    ".md": "markdown",
    ".markdown": "markdown",
    ".csv": "csv",
}


class Printer(Protocol):
    """Puts the results of one run on standard output."""

    def finished(self, case: ReportedCase) -> None:
        """A case ended; cases come in the order in which they end."""

    def closed(self, report: StreamedRun | RunReport) -> None:
        """The run ended."""


class TablePrinter:
    """The verdict table: prints each case as soon as all before it (in `order`) have been printed."""

    def __init__(self, table: VerdictTable, order: list[object]) -> None:
        self._table = table
        self._order = order
        self._next = 0
        self._waiting: dict[object, ReportedCase] = {}

    def finished(self, case: ReportedCase) -> None:
        """Print what can be printed now."""
        self._waiting[job_of(case)] = case
        lines: list[str] = []
        while self._next < len(self._order) and self._order[self._next] in self._waiting:
            lines += self._table.lines(self._waiting.pop(self._order[self._next]))
            self._next += 1
        write_lines(lines)

    def closed(self, report: StreamedRun | RunReport) -> None:
        """Print the rest (a run that was ended early has gaps) and the totals."""
        rest = [self._waiting[job] for job in self._order[self._next :] if job in self._waiting]
        lines = [line for case in rest for line in self._table.lines(case)]
        write_lines([*lines, *self._table.closing(report)])


class LinePrinter:
    """JSON lines, each as its case ends."""

    def finished(self, case: ReportedCase) -> None:
        """Print the line of the case."""
        from workbench.report.report_formats import case_line

        write_document(case_line(case))

    def closed(self, report: StreamedRun | RunReport) -> None:
        """Print the line of the run."""
        from workbench.report.report_formats import run_line

        write_document(run_line(report))


class DocumentPrinter:
    """A document that can only be written when everything is known."""

    def __init__(self, report_format: str) -> None:
        self._format = report_format

    def finished(self, case: ReportedCase) -> None:
        """Nothing yet."""

    def closed(self, report: StreamedRun | RunReport) -> None:
        """Print the document."""
        assert isinstance(report, RunReport)  # `Display.needs_cases`
        write_document(write_report(report, self._format))


def job_of(case: ReportedCase) -> object:
    """What tells one result of a run from the others."""
    return case.result.case, case.result.repeat


def stdout_style(*, plain: bool, verbose: bool) -> Style:
    """How to print people's text on standard output."""
    width = shutil.get_terminal_size(fallback=(Style.width, 24)).columns
    return Style(colour=wants_colour(sys.stdout, plain=plain), verbose=verbose, width=width)


def format_for(report_format: str | None, output: Path | None) -> str:
    """The format that was asked for, else the one that the name of the file tells."""
    if report_format is not None:
        return report_format
    return _SUFFIXES.get(output.suffix.lower(), TEXT) if output is not None else TEXT


def save_report(report: RunReport, report_format: str, output: Path, *, table_text: str) -> bool:
    """Write the document to a file; says so where that is not possible, and whether it was."""
    text = table_text if report_format == TEXT else write_report(report, report_format)
    return save_pieces([text], report_format, output)


def save_pieces(pieces: Iterable[str], report_format: str, output: Path) -> bool:
    """As `save_report`, for a document that need not be in memory as a whole.

    A file is replaced as a whole or not at all; a pipe or device is written to.
    """
    from workbench.store.errors import StoreError, make_os_error
    from workbench.store.files import write_in_pieces

    encoded = (text.encode("utf-8", errors="replace") for text in pieces)
    try:
        if output.exists() and not output.is_file() and not output.is_dir():
            try:
                with output.open("wb") as file:
                    file.writelines(encoded)
            except OSError as error:
                raise make_os_error("write", output, error) from error
        else:
            write_in_pieces(output, encoded)
    except StoreError as error:
        message(f"the results could not be written: {error}")
        return False
    message(f"{report_format} written to {output}")
    return True


def require_writable(output: Path) -> None:
    """Refuse, before anything has run, a file that cannot be written afterwards. Raises PlanError."""
    from workbench.engine.plan import PlanError

    if output.is_dir():
        raise PlanError(f"--output {output}: it is a folder, expected a file")
    if not output.parent.is_dir():
        raise PlanError(f"--output {output}: there is no folder {output.parent}")


def table_lines(report: RunReport, *, style: Style, name_width: int) -> list[str]:
    """The verdict table of a finished run."""
    table = VerdictTable(style=style, name_width=name_width, criteria=report.criteria)
    lines = [line for cases in report.by_eval_set().values() for case in cases for line in table.lines(case)]
    return [*lines, *table.closing(report)]


# What `adk eval` prints, for scripts and eyes that are used to it. Lines that ADK prints are the same here.

_STARS = "*" * 69
_DASHES = "-" * 69
_COLUMN = 28
_WIDTH = 80


def criteria_line(config: EvalConfig) -> str:
    """The line before a run: by what it is judged."""
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


def summary_lines(report: StreamedRun | RunReport) -> list[str]:
    """The summary after a run: a case that ran and did not pass counts as failed, as in ADK."""
    counts: dict[str, Counter[str]] = {}
    for outcome in report.outcomes:
        counts.setdefault(outcome.eval_set_id, Counter())[_COUNTED_AS.get(outcome.status, "failed")] += 1
    lines = [_STARS, "Eval Run Summary"]
    for eval_set_id, count in counts.items():
        lines += [
            neutralise(f"{eval_set_id}:"),
            f"  Tests passed: {count['passed']}",
            f"  Tests failed: {count['failed']}",
        ]
        if count["not run"]:
            lines.append(f"  Tests not run: {count['not run']}")
    return lines


def detailed_lines(cases: Iterable[ReportedCase]) -> Iterator[str]:
    """Everything about each case: `--print_detailed_results`."""
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
        yield from _invocations(case)


def _invocations(case: ReportedCase) -> Iterator[str]:
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
        fields = _fields(expected, turn.invocation)
        # Metrics that judge the case as a whole have no score of a turn.
        per_turn = [metric for metric in case.result.metrics if index < len(metric.per_invocation)]
        fields += [(metric.name, _score(metric.per_invocation[index])) for metric in per_turn]
        for label, value in fields:
            yield from _field_lines(label, value)
    yield ""


def _fields(expected: Invocation | None, actual: Invocation) -> list[tuple[str, str]]:
    fields = [("prompt", actual.user_content.text())]
    if expected is not None:
        fields.append(("expected_response", _response(expected)))
    fields.append(("actual_response", _response(actual)))
    if expected is not None:
        fields.append(("expected_tool_calls", format_calls(expected)))
    return [*fields, ("actual_tool_calls", format_calls(actual))]


def _response(invocation: Invocation) -> str:
    return invocation.final_response.text() if invocation.final_response is not None else ""


def _score(score: InvocationScore) -> str:
    return f"undefined: {score.reason}" if score.score is None else str(score.score)


def _field_lines(label: str, value: str) -> Iterator[str]:
    """`label: value`, its further lines below the first."""
    safe = redact(neutralise(value))
    lines = [part for line in safe.splitlines() or ["(none)"] for part in textwrap.wrap(line, _WIDTH) or [""]]
    prefix = f"  {neutralise(label)}: ".ljust(_COLUMN)
    yield prefix + lines[0]
    yield from (" " * len(prefix) + line for line in lines[1:])


# Documents of very many cases: each case is written to a temporary file when it ends, and read back at the end.

_PIECES = 500


class JsonSpool:
    """The document of `--format json`. It is a printer, for standard output, and gives the pieces of a file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._places: dict[JobKey, int] = {}

    def finished(self, case: ReportedCase) -> None:
        """Keep the text of a case."""
        from workbench.report.report_formats import case_text

        self._places[JobKey(case=case.result.case, repeat=case.result.repeat)] = self._file.tell()
        self._file.write(case_text(case).encode("utf-8", errors="replace") + b"\n")

    def closed(self, report: StreamedRun | RunReport) -> None:
        """Print the document."""
        for piece in self.pieces(report):
            write_document(piece)

    def pieces(self, report: StreamedRun | RunReport) -> Iterator[str]:
        """The document, with the cases in the order of the report."""
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


# The progress line: one line on a terminal's standard error, drawn a few times a second by a thread of its own.

_INTERVAL = 0.15
"""Seconds between updates."""
_BAR = 20
"""Characters of the bar."""
_COUNTED = (CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED)


class Progress:
    """Shows how far a run is, between `with` and its end. Where `shown` is false nothing is ever drawn."""

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

    def started(self, name: str) -> None:
        """This case is running now."""
        self._current = name

    def asked(self, models: Sequence[ModelSpending]) -> None:
        """Models were asked so much until now."""
        self._models = spending_text(models)

    def importing(self, targets: Sequence[str]) -> None:
        """The agents of these targets are being imported now."""
        self._importing = ", ".join(targets)

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees the line."""
        return self._thread is not None

    def waits(self, seconds: float) -> None:
        """A model is not asked for so many seconds."""
        self._waits_until = time.monotonic() + seconds

    def finished(self, status: CaseStatus) -> None:
        """One more case ended."""
        self._counts[status] += 1

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """While this is open the line is gone and something else may be printed."""
        with self._lock:
            self._clear()
            yield

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
        """The line after so many seconds."""
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
