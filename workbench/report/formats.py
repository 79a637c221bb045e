"""The formats a run can be written in, by name."""

from __future__ import annotations

from workbench.report.run_report import RunReport

_WRITERS = {
    "json": "json_document",
    "jsonl": "json_lines",
    "junit": "junit_xml",
    "markdown": "markdown",
    "csv": "csv_table",
}

FORMATS = tuple(_WRITERS)


def write_report(report: RunReport, report_format: str) -> str:
    """The run in one of FORMATS. The writers are imported here: a run for people needs none of them."""
    from workbench.report import report_formats

    return str(getattr(report_formats, _WRITERS[report_format])(report))
