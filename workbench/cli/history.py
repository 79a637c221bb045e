"""`workbench history` and `workbench report`: earlier runs, listed, shown and written in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import FOLDER
from workbench.cli.streams import write_document, write_lines

if TYPE_CHECKING:
    from workbench.store.history import StoredRun

_WRONG = 2

path_option = click.option(
    "--path", type=FOLDER, default=Path(), help="A folder of the project; by default the current one."
)


@click.command()
@click.argument("run", required=False)
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of runs.")
@path_option
@click.option("--plain", is_flag=True, help="No colours.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Show tracebacks, what agents wrote to stdout and stderr, and the samples of judges.",
)
def history(*, run: str | None, report_format: str, limit: int, path: Path, plain: bool, verbose: bool) -> int:
    """List earlier runs, or show one of them.

    RUN is the id of a run, the start of one, or `latest`.
    """
    from workbench.cli.output import stdout_style, table_lines
    from workbench.cli.stored import stored_report, stored_runs
    from workbench.report.formats import write_report
    from workbench.report.table import row_name, width_of_names
    from workbench.store.discovery import find_root

    root = find_root(path)
    if run is None:
        runs = stored_runs(root, limit=limit)
        if report_format == "json":
            write_document(_list_as_json(runs))
        else:
            write_lines(_list(runs))
        return 0
    shown = stored_report(root, run)
    if report_format == "json":
        write_document(write_report(shown, "json"))
    else:
        style = stdout_style(plain=plain, verbose=verbose)
        write_lines(
            table_lines(shown, style=style, name_width=width_of_names([row_name(case) for case in shown.cases]))
        )
    return 0


@click.command()
@click.argument("run", default="latest")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["json", "jsonl", "junit", "markdown", "csv"]),
    help="Default: json, or the format that the name of --output ends with.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@path_option
def report(*, run: str, report_format: str | None, output: Path | None, path: Path) -> int:
    """Write an earlier run as JSON, JUnit XML, Markdown or CSV.

    RUN is the id of a run, the start of one, or `latest`, the default. Differences are held against the eval sets as
    they are now.
    """
    from workbench.cli.output import TEXT, format_for, save_report
    from workbench.cli.stored import stored_report
    from workbench.report.formats import write_report
    from workbench.store.discovery import find_root

    chosen = format_for(report_format, output)
    chosen = "json" if chosen == TEXT else chosen
    shown = stored_report(find_root(path), run)
    if output is None:
        write_document(write_report(shown, chosen))
    elif not save_report(shown, chosen, output, table_text=""):
        write_document(write_report(shown, chosen))
        return _WRONG
    return 0


def _list(runs: list[StoredRun]) -> list[str]:
    from workbench.model.text import counted, one_line
    from workbench.report.wording import counts_text, duration_text, when

    if not runs:
        return ["no runs yet"]
    width = max(len(run.run_id) for run in runs)
    lines = []
    for run in runs:
        duration = "unfinished" if run.duration_seconds is None else duration_text(run.duration_seconds)
        counts = counts_text(run.summary) + (", interrupted" if run.interrupted else "")
        lines.append(
            one_line(
                f"{run.run_id:<{width}}  {when(run.started_at)}  {counted(run.total, 'case')}: {counts}, {duration}"
            )
        )
        lines.append(f"  {one_line(run.command)}")
    return lines


def _list_as_json(runs: list[StoredRun]) -> str:
    from workbench.report.json_format import SCHEMA_VERSION, dump, summary_record

    entries = [
        {
            "run_id": run.run_id,
            "started_at": run.started_at.isoformat(),
            "duration_seconds": run.duration_seconds,
            "interrupted": run.interrupted,
            "ended": run.ended,
            "command": run.command,
            "targets": list(run.targets),
            "summary": summary_record(run.summary),
        }
        for run in runs
    ]
    return dump({"schema_version": SCHEMA_VERSION, "runs": entries}, indent=2) + "\n"
