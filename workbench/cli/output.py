"""Where the results of a run go: as they come to standard output, and as a document to a file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from workbench.cli.streams import message, wants_colour, write_document, write_lines
from workbench.report.formats import FORMATS, write_report
from workbench.report.run_report import ReportedCase, RunReport, StreamedRun
from workbench.report.table import Style, VerdictTable

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
        from workbench.report.json_format import case_line

        write_document(case_line(case))

    def closed(self, report: StreamedRun | RunReport) -> None:
        """Print the line of the run."""
        from workbench.report.json_format import run_line

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
    from workbench.store.errors import StoreError, cannot
    from workbench.store.files import write_in_pieces

    encoded = (text.encode("utf-8", errors="replace") for text in pieces)
    try:
        if output.exists() and not output.is_file() and not output.is_dir():
            try:
                with output.open("wb") as file:
                    file.writelines(encoded)
            except OSError as error:
                raise cannot("write", output, error) from error
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
