"""`workbench calibrate`: holds the judges of a run against labels that people gave."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.history import path_option
from workbench.cli.options import FILE


@click.command()
@click.argument("labels", type=FILE)
@click.option("--run", default="latest", show_default=True, help="The run whose judges are compared with the labels.")
@click.option("--criterion", metavar="NAME", help="The criterion that all labels are about; rows need not name it.")
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
@path_option
def calibrate(*, labels: Path, run: str, criterion: str | None, report_format: str, path: Path) -> int:
    """Hold the judges of a run against labels that people gave.

    LABELS is JSONL, CSV or JSON with the columns eval_id and label. The columns eval_set, repeat, turn (both counted
    from 1), criterion and rubric say more exactly what a label is about. A label is pass or fail (also valid, yes, 1
    ...), a rating, or CANDIDATE, BASELINE or TIE. The output has the confusion of labels and verdicts, precision and
    recall of the judge, Cohen's kappa, and every disagreement with the judge's reason.
    """
    from workbench.cli.stored import open_history
    from workbench.cli.streams import write_document, write_lines
    from workbench.report.calibration import calibrate as hold_against
    from workbench.report.calibration_formats import calibration_lines, calibration_record
    from workbench.report.json_format import dump
    from workbench.store.datasets.labels import read_labels
    from workbench.store.discovery import find_root
    from workbench.store.errors import StoreError
    from workbench.store.history.database import file_of

    given = read_labels(labels)
    root = find_root(path)
    with open_history(root) as history:
        if history is None:
            raise StoreError(file_of(root), "there are no runs yet")
        run_id = history.run(run).run_id
        results = list(history.results(run_id))
    found = hold_against(given, results, criterion=criterion, run_id=run_id)
    if report_format == "json":
        write_document(dump(calibration_record(run_id, found), indent=2) + "\n")
    else:
        write_lines(calibration_lines(run_id, found))
    return 0
