"""`workbench score`: judges what was recorded; no agent runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import (
    FILE,
    Execution,
    columns_option,
    dataset_argument,
    display_options,
    judging_options,
    recording_options,
)

if TYPE_CHECKING:
    from workbench.model.criteria import Criterion, EvalConfig


@click.command()
@dataset_argument
@click.option(
    "--metric",
    "--metrics",
    "metrics",
    multiple=True,
    metavar="NAME[=THRESHOLD],...",
    help="Metrics to judge by; repeatable. A metric without a threshold is reported and decides nothing.",
)
@click.option("--config", type=FILE, help="File of criteria to judge by.")
@click.option("--expected", type=FILE, help="The eval set to compare DATASET, an eval set of recorded sessions, with.")
@columns_option
@judging_options
@recording_options
@display_options
def score(
    *,
    dataset: Path | str,
    metrics: tuple[str, ...],
    config: Path | None,
    expected: Path | None,
    columns: dict[str, str],
    judging: Execution,
    calls: Execution,
    report_format: str | None,
    output: Path | None,
    plain: bool,
    verbose: bool,
) -> int:
    """Judge recorded responses and trajectories; no agent runs.

    DATASET is JSONL, CSV, JSON or Parquet with the columns prompt, response, reference, predicted_trajectory and
    reference_trajectory, as many as the metrics need, or an eval set of recorded sessions with --expected. It may also
    be elsewhere: https://, gs://, s3://, or bq://PROJECT.DATASET.TABLE. A row that cannot be read is an ERROR.

    Exit status: that of `workbench run`. Without any metric that has a threshold nothing is judged; the status is 1.
    """
    from workbench.cli.running import Display, carry_out, command_line
    from workbench.engine.named import root_of
    from workbench.engine.plan import RunOptions
    from workbench.engine.workspace import Workspace
    from workbench.store.discovery import Project
    from workbench.store.settings import load_settings

    if metrics and config is not None:
        raise click.UsageError("--metrics and --config exclude each other.")
    criteria = config_of(metrics) if metrics else None
    source = dataset.resolve() if isinstance(dataset, Path) else dataset
    root = root_of([source] if isinstance(source, Path) else [])
    options = RunOptions.model_validate({"config": config, **judging, **calls, "command": command_line()})
    # Nothing is discovered: what the project holds besides does not matter here.
    with Workspace(Project(root=root, targets={}, eval_sets=()), load_settings(root)) as workspace:
        plan = workspace.plan_recorded(source, options, expected=expected, columns=columns, config=criteria)
        display = Display(report_format=report_format, output=output, plain=plain, verbose=verbose)
        return carry_out(plan, workspace, display)[1]


def config_of(metrics: Iterable[str]) -> EvalConfig:
    """The criteria of `--metrics NAME[=THRESHOLD],...`. Raises InvalidConfig for a threshold that is none."""
    from workbench.model.criteria import EvalConfig, read_criterion

    criteria: list[Criterion] = []
    for text in (each for given in metrics for each in given.split(",") if each.strip()):
        name, equals, threshold = text.partition("=")
        if any(criterion.metric == name.strip() for criterion in criteria):
            raise click.UsageError(f"the metric {name.strip()} is given twice.")
        criteria.append(read_criterion(name.strip(), threshold.strip() if equals else None))
    return EvalConfig(criteria=tuple(criteria), source="--metrics")
