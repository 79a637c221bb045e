"""`workbench compare`: two earlier runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.history import path_option
from workbench.cli.streams import write_document, write_lines

if TYPE_CHECKING:
    from workbench.report.comparing import RunComparison

_SAME, _WORSE, _ERRORS = 0, 1, 3


@click.command()
@click.argument("before", metavar="[RUN]", required=False)
@click.argument("after", metavar="[RUN]", required=False)
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
@click.option("--all", "show_all", is_flag=True, help="List the cases that came out the same, too.")
@path_option
@click.option("--plain", is_flag=True, help="No colours.")
def compare(
    *, before: str | None, after: str | None, report_format: str, show_all: bool, path: Path, plain: bool
) -> int:
    """Compare two earlier runs: regressions, fixes, flaky cases, scores.

    The first RUN is the earlier one; the second is the newest by default. Without RUN, or with the newest run alone,
    the newest run is compared with the one before it. Runs that judged nothing (`workbench simulate`) are skipped.
    RUN is the id of a run, the start of one, or `latest`.

    Exit status: 1 if a case that passed fails now, 3 if all such cases ended in ERROR, else 0. A flaky case is no
    regression.
    """
    from workbench.cli.output import stdout_style
    from workbench.report.comparison_formats import comparison_lines, comparison_record
    from workbench.report.json_format import dump
    from workbench.store.discovery import find_root

    comparison = _compared(find_root(path), before, after)
    if report_format == "json":
        write_document(dump(comparison_record(comparison), indent=2) + "\n")
    else:
        style = stdout_style(plain=plain, verbose=False)
        write_lines(comparison_lines(comparison, style=style, show_same=show_all))
    return _exit_status(comparison)


def _compared(root: Path, before: str | None, after: str | None) -> RunComparison:
    from workbench.cli.stored import open_history
    from workbench.report.comparing import compare_stored
    from workbench.store.errors import StoreError
    from workbench.store.history.database import file_of

    with open_history(root) as history:
        if history is None:
            raise StoreError(file_of(root), "there are no runs yet")
        return compare_stored(history, before, after)


def _exit_status(comparison: RunComparison) -> int:
    from workbench.model.results import CaseStatus
    from workbench.report.comparing import Change

    worse = [case.after.status for case in comparison.of(Change.REGRESSION) if case.after is not None]
    if not worse:
        return _SAME
    return _ERRORS if all(status is CaseStatus.ERROR for status in worse) else _WORSE
