"""The formats a run can be written in, by name."""

from __future__ import annotations

from importlib import import_module

from workbench.report.run_report import RunReport

_WRITERS = {
    "json": ("json_format", "json_document"),
    "jsonl": ("json_format", "json_lines"),
    "junit": ("junit", "junit_xml"),
    "markdown": ("markdown", "markdown"),
    "csv": ("csv_format", "csv_table"),
}

FORMATS = tuple(_WRITERS)


def write_report(report: RunReport, report_format: str) -> str:
    """The run in one of FORMATS. Only that format's module is imported: a run for people needs none of them."""
    module, function = _WRITERS[report_format]
    return str(getattr(import_module(f"workbench.report.{module}"), function)(report))
