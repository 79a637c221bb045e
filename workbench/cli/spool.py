"""Documents of very many cases: each case is written to a temporary file when it ends, and read back at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from workbench.cli.streams import write_document
from workbench.model.keys import JobKey
from workbench.report.run_report import ReportedCase, RunReport, StreamedRun

_PIECES = 500


class JsonSpool:
    """The document of `--format json`. It is a printer, for standard output, and gives the pieces of a file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._places: dict[JobKey, int] = {}

    def finished(self, case: ReportedCase) -> None:
        """Keep the text of a case."""
        from workbench.report.json_format import case_text

        self._places[JobKey(case=case.result.case, repeat=case.result.repeat)] = self._file.tell()
        self._file.write(case_text(case).encode("utf-8", errors="replace") + b"\n")

    def closed(self, report: StreamedRun | RunReport) -> None:
        """Print the document."""
        for piece in self.pieces(report):
            write_document(piece)

    def pieces(self, report: StreamedRun | RunReport) -> Iterator[str]:
        """The document, with the cases in the order of the report."""
        from workbench.report.json_format import json_pieces

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
