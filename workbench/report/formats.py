"""The names of the report formats. The writers are in `report_formats`, which is imported when needed."""

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
    """Write the run in one of FORMATS. The import is lazy, because text output needs none of the writers."""
    from workbench.report import report_formats

    return str(getattr(report_formats, _WRITERS[report_format])(report))
