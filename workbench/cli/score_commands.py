"""The commands `score` and `demo`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench import __version__
from workbench.cli.console import message, write_lines
from workbench.cli.shared_options import (
    FILE,
    Execution,
    columns_option,
    dataset_argument,
    display_options,
    judging_options,
    recording_options,
)

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.model.criteria import Criterion, EvalConfig
    from workbench.report.run_report import RunReport, StreamedRun


# `workbench score`: judges what was recorded; no agent runs.


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
    from workbench.cli.run_commands import Display, carry_out, command_line
    from workbench.engine.plan import RunOptions
    from workbench.engine.project_selection import root_of
    from workbench.engine.workspace import Workspace
    from workbench.store.project_discovery import Project
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


# `workbench demo`: the sample agents, in the terminal application or headless.

_EXPECTED = "expected.json"
_NOT_COPIED = ("__pycache__", ".workbench", ".adk", ".gitkeep", ".pytest_cache")
_INTERRUPTED = 130


@click.command()
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), help="Folder for the samples.")
@click.option("--plain", is_flag=True, help="No colours, no progress line.")
@click.option("--headless", is_flag=True, help="Run the samples and print the verdicts, in a terminal too.")
def demo(*, path: Path | None, plain: bool, headless: bool) -> int:
    """Try the sample agents.

    In a terminal this opens the application on a copy of them. Without one it runs all their eval sets, prints the
    verdicts, and exits with 0 when they are as the samples are meant to come out, designed failures included.
    """
    folder = sample_folder(path)
    message(f"the sample agents are in {folder}")
    if sys.stdin.isatty() and sys.stdout.isatty() and not headless:
        from workbench.cli.main import open_screen

        return open_screen(folder)
    return _run_all(folder, plain=plain)


def sample_folder(path: Path | None) -> Path:
    """A copy of the samples that may be changed: in `path`, else in the user's cache.

    An existing copy is kept as it is; a new version of the samples goes to a folder of its own.
    """
    from workbench.cli.main import bundled_folder
    from workbench.store.errors import make_os_error

    source = bundled_folder("sample_agents")
    if path is None:
        from platformdirs import user_cache_path

        path = user_cache_path("workbench", appauthor=False) / f"demo-{__version__}-{_digest(source)}"
    if (path / "workbench.toml").exists():
        return path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".workbench-demo-") as temporary:
            copy = Path(temporary) / "samples"
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
            # A folder that appears at once: nobody ever sees half of it.
            copy.rename(path)
    except OSError as error:
        if (path / "workbench.toml").exists():  # another demo was faster
            return path.resolve()
        raise make_os_error("create", path, error) from error
    return path.resolve()


def _digest(folder: Path) -> str:
    """A short hash of all files of a folder that are copied."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not set(file.relative_to(folder).parts) & set(_NOT_COPIED):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def _run_all(folder: Path, *, plain: bool) -> int:
    from workbench.cli.run_commands import Display, carry_out, command_line
    from workbench.engine.plan import RunOptions, Selection
    from workbench.engine.workspace import Workspace

    with Workspace.open(folder) as workspace:
        for problem in workspace.problems:
            message(problem)
        left_out = _left_out(workspace)
        chosen = [
            Selection(eval_set=entry.relative)
            for entry in workspace.project.eval_sets
            if entry.target is not None and entry.relative not in left_out
        ]
        plan = workspace.plan(chosen, RunOptions(command=command_line()))
        report, _ = carry_out(plan, workspace, Display(plain=plain))
    for eval_set, reason in left_out.items():
        write_lines([f"skipped: {eval_set}: {reason}"])
    if report.interrupted:
        return _INTERRUPTED
    return _compare(folder, report, left_out)


def _left_out(workspace: Workspace) -> dict[str, str]:
    """Eval sets whose agent needs an extra or a program that is not installed, with the reason."""
    from workbench.cli.doctor_command import missing_extra
    from workbench.model.target import AgentKind

    reasons: dict[AgentKind, str] = {}
    if not _is_installed("google.adk"):
        reasons[AgentKind.ADK] = f"the extra adk is {missing_extra('adk')}"
    if shutil.which("node") is None:
        reasons[AgentKind.COMMAND] = "the program node is not installed"
    targets = workspace.project.targets
    return {
        entry.relative: reasons[targets[entry.target].kind]
        for entry in workspace.project.eval_sets
        if entry.target is not None and targets[entry.target].kind in reasons
    }


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package around it is missing
        return False


def _compare(folder: Path, report: StreamedRun | RunReport, left_out: dict[str, str]) -> int:
    """Say whether every verdict is as meant; the exit status."""
    meant = _meant_verdicts(folder)
    came_out = {(outcome.case.eval_set, outcome.case.eval_id): outcome.status.value for outcome in report.outcomes}
    wrong = [
        f"not as meant: {eval_set}:{eval_id}: expected {status}, got {came_out.get((eval_set, eval_id), 'no verdict')}"
        for (eval_set, eval_id), status in meant.items()
        if eval_set not in left_out and came_out.get((eval_set, eval_id)) != status
    ]
    wrong += [
        f"not as meant: {eval_set}:{eval_id}: nothing is said about it"
        for eval_set, eval_id in came_out.keys() - meant.keys()
    ]
    if wrong:
        write_lines(
            [*wrong, f"{len(wrong)} verdicts are not as the samples mean them; was something changed in {folder}?"]
        )
        return 1
    failing = sum(status != "PASSED" for status in came_out.values())
    write_lines(
        [f"all {len(came_out)} verdicts are as the samples mean them, {failing} designed failures and errors included"]
    )
    return 0


def _meant_verdicts(folder: Path) -> dict[tuple[str, str], str]:
    """What the expected.json of each sample says, by eval set (relative to the folder) and case."""
    meant: dict[tuple[str, str], str] = {}
    for file in sorted(folder.rglob(_EXPECTED)):
        for name, cases in json.loads(file.read_text(encoding="utf-8")).items():
            eval_set = Path(os.path.relpath(file.parent / name, folder)).as_posix()
            meant.update({(eval_set, eval_id): status for eval_id, status in cases.items()})
    return meant
