"""`workbench history` and `workbench report`: earlier runs, listed, shown and written in other formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import FOLDER
from workbench.cli.output import save_report, stdout_style, table_lines
from workbench.cli.streams import message, write_document, write_lines

if TYPE_CHECKING:
    from workbench.model.evalset import EvalCase
    from workbench.model.keys import CaseKey
    from workbench.report.run_report import RunReport

_WRONG = 2


@click.command()
@click.argument("run", required=False)
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the list."
)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="List so many runs at most.")
@click.option("--path", type=FOLDER, default=Path(), help="A folder of the project; by default the current one.")
@click.option("--plain", is_flag=True, help="No colours.")
@click.option("--verbose", is_flag=True, help="Show tracebacks and what agents wrote to stdout and stderr.")
def history(run: str | None, report_format: str, limit: int, path: Path, plain: bool, verbose: bool) -> int:
    """List earlier runs, newest first; with RUN (an id, the start of one, or `latest`) show that one."""
    if run is None:
        _list_runs(path, limit=limit, as_json=report_format == "json")
        return 0
    report = stored_report(path, run)
    if report_format == "json":
        _write(report, "json")
    else:
        write_lines(_table(report, plain=plain, verbose=verbose))
    return 0


@click.command()
@click.argument("run", default="latest")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["json", "jsonl", "junit", "markdown", "csv"]),
    help="By default json, or what the name of --output tells.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.option("--path", type=FOLDER, default=Path(), help="A folder of the project; by default the current one.")
def report(run: str, report_format: str | None, output: Path | None, path: Path) -> int:
    """Write an earlier run as a document.

    Differences are held against the eval sets as they are now.
    """
    from workbench.cli.output import TEXT, format_for

    chosen = format_for(report_format, output)
    chosen = "json" if chosen == TEXT else chosen
    document = stored_report(path, run)
    if output is None:
        _write(document, chosen)
    elif not save_report(document, chosen, output, table_text=""):
        _write(document, chosen)
        return _WRONG
    return 0
