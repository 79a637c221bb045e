"""The commands `score`, which runs no agent, `simulate`, which judges nothing, and `demo` and `tour`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench import __version__
from workbench.cli.completions import complete_metric
from workbench.cli.console import (
    ERRORS,
    INTERRUPTED,
    WRONG,
    LateCancel,
    graceful_interrupt,
    message,
    write_document,
    write_lines,
)
from workbench.cli.shared_options import (
    FILE,
    DisplayOptions,
    Execution,
    Tools,
    build_command_line,
    case_options,
    columns_option,
    config_option,
    dataset_argument,
    display_options,
    execution_options,
    judging_options,
    recording_options,
    tool_options,
)
from workbench.model.text import one_line, pluralise
from workbench.store.errors import make_os_error, os_errors
from workbench.store.files import is_pipe, real_path

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace
    from workbench.model.criteria import Criterion, EvalConfig
    from workbench.model.run_events import RunEvent
    from workbench.report.run_report import RunReport, StreamedRun


# `workbench score`


@click.command()
@dataset_argument
@click.option(
    "--metric",
    "--metrics",
    "metrics",
    multiple=True,
    metavar="NAME[=THRESHOLD],...",
    shell_complete=complete_metric,
    help="Metrics; repeatable. A metric without a threshold is reported and does not affect verdicts.",
)
@click.option("--config", type=FILE, help="File of criteria.")
@click.option(
    "--expected", type=FILE, help="Eval set with the expected sessions, if DATASET is an eval set of recorded sessions."
)
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
    display: DisplayOptions,
) -> int:
    """Judge recorded responses and trajectories; no agent runs.

    DATASET is JSONL, CSV, JSON or Parquet with the columns prompt, response, reference, predicted_trajectory and
    reference_trajectory, as far as the metrics need them, or an eval set of recorded sessions with --expected. It may
    also be remote: https://, gs://, s3://, or bq://PROJECT.DATASET.TABLE, or a pipe such as /dev/stdin. A row that
    cannot be read is an ERROR.

    The FAILED of a case in quarantine is reported and does not fail the command. Quarantines are in the file beside
    DATASET, such as rows.jsonl.workbench.json, and beside the eval set of --expected; remote datasets have none.

    Exit status: that of `workbench run`. Without a metric with a threshold there are no verdicts; the status is 1.
    """
    from workbench.cli.printers import Display
    from workbench.cli.run_commands import execute_plan
    from workbench.engine.plan import RunOptions
    from workbench.engine.project_selection import find_common_root
    from workbench.engine.workspace import Workspace
    from workbench.store.project_discovery import Project
    from workbench.store.settings import load_settings

    if metrics and config is not None:
        raise click.UsageError("--metrics and --config exclude each other.")
    criteria = parse_metrics(metrics) if metrics else None
    source = real_path(dataset) if isinstance(dataset, Path) else dataset
    root = find_common_root([source] if isinstance(source, Path) and not is_pipe(source) else [])
    options = RunOptions.model_validate({"config": config, **judging, **calls, "command": build_command_line()})
    # The project is not read: only the dataset matters.
    with Workspace(Project(root=root, targets={}, eval_sets=()), load_settings(root)) as workspace:
        plan = workspace.plan_recorded(source, options, expected=expected, columns=columns, config=criteria)
        return execute_plan(plan, workspace, Display(**display))[1]


def parse_metrics(metrics: Iterable[str]) -> EvalConfig:
    """Parse `--metrics NAME[=THRESHOLD],...`. Raises InvalidConfig for an invalid threshold."""
    from workbench.model.criteria import EvalConfig, read_criterion

    criteria: list[Criterion] = []
    for text in (each for given in metrics for each in given.split(",") if each.strip()):
        name, equals, threshold = text.partition("=")
        if any(criterion.metric == name.strip() for criterion in criteria):
            raise click.UsageError(f"duplicate metric {name.strip()!r}; give it once.")
        criteria.append(read_criterion(name.strip(), threshold.strip() if equals else None))
    return EvalConfig(criteria=tuple(criteria), source="--metrics")


# `workbench simulate`


@click.command()
@case_options
@config_option
@execution_options
@judging_options
@recording_options
@tool_options
@click.option(
    "--keep-in",
    type=click.Path(path_type=Path),
    metavar="SET",
    help="Add each finished conversation to this eval set as a fixed case that expects what the agent did. The set is "
    "created if it is missing.",
)
@click.option(
    "--format", "report_format", type=click.Choice(("text", "jsonl")), default="text", help="Format of the output."
)
def simulate(
    *,
    what: tuple[str, ...],
    cases: tuple[str, ...],
    target: str | None,
    config: Path | None,
    execution: Execution,
    judging: Execution,
    calls: Execution,
    tools: Tools,
    keep_in: Path | None,
    report_format: str,
) -> int:
    """Play conversation scenarios without judging them.

    A model plays the user of each scenario, by its plan and persona, until the plan is done or the limit of turns is
    reached. A single conversation is shown live, several are shown as they end. Conversations are stored in the
    history, and the next `workbench run` judges them.

    Exit status: 0 all came to an end; 2 the command, configuration or a file is wrong; 3 some ended in ERROR;
    130 interrupted.
    """
    from workbench.cli.run_commands import make_plan, open_workspace, select_cases
    from workbench.engine.plan import RunOptions, select_scenarios
    from workbench.model.results import CaseStatus
    from workbench.report.text_report import spending_line

    workspace, named = open_workspace(what, target=target)
    with workspace:
        asked = {**execution, **judging, **calls, **tools}
        options = RunOptions.model_validate(
            {"config": config, **asked, "scores": False, "adk_results": False, "command": build_command_line()}
        )
        plan = select_scenarios(make_plan(workspace, select_cases(workspace, named, cases=cases), options))
        cancel = LateCancel()
        with graceful_interrupt(cancel, announce=message):
            run = workspace.start(plan)
            cancel.connect(run.cancel)
            _follow(run, is_live=plan.total == 1 and report_format == "text", as_json=report_format == "jsonl")
        for spent in run.summary().models:
            message(spending_line(spent))
        results = run.results()
        if keep_in is not None:
            _save_conversations(run, keep_in)
        if run.interrupted:
            return INTERRUPTED
        if run.has_wrong_input:
            return WRONG
        return ERRORS if any(result.status is CaseStatus.ERROR for result in results) else 0


def _follow(run: Run, *, is_live: bool, as_json: bool) -> None:
    from workbench.model.results import CaseStatus
    from workbench.model.run_events import CaseFinished, Notice
    from workbench.report.report_formats import dump
    from workbench.report.run_report import conversation_data, conversation_lines, ending_line

    for event in run.iter_events():
        if isinstance(event, Notice):
            message(event.message)
        elif isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
            if as_json:
                write_document(dump(conversation_data(event.result)) + "\n")
            else:
                write_lines([ending_line(event.result)] if is_live else conversation_lines(event.result))
        elif is_live:
            write_lines(_format_event(event))


def _format_event(event: RunEvent) -> Iterator[str]:
    from workbench.model.run_events import CaseStarted, InvocationFinished, UserSpoke
    from workbench.report.run_report import answer_lines, user_lines

    match event:
        case CaseStarted():
            again = f" (try {event.attempt})" if event.attempt > 1 else ""
            yield one_line(f"── {event.case}{again}")
        case UserSpoke():
            yield from user_lines(event.content.text(thoughts=False))
        case InvocationFinished():
            yield from answer_lines(event.result)


def _save_conversations(run: Run, path: Path) -> None:
    """Add the finished conversations to an eval set. Raises StoreError."""
    from workbench.engine.chat_session import save_conversations

    cases = {planned.key: planned.case for planned in run.plan.cases if planned.case is not None}
    kept = save_conversations(path, run.results(), cases)
    message(f"{pluralise(len(kept), 'conversation')} kept in {path}{': ' if kept else ''}{', '.join(kept)}")


# `workbench demo`

_EXPECTED = "expected.json"
_NOT_COPIED = ("__pycache__", ".workbench", ".adk", ".gitkeep", ".pytest_cache")


@click.command()
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), help="Folder for the samples.")
@click.option("--plain", is_flag=True, help="No colours, no progress line.")
@click.option("--headless", is_flag=True, help="Run the samples and print the verdicts, in a terminal too.")
def demo(*, path: Path | None, plain: bool, headless: bool) -> int:
    """Try the sample agents.

    In a terminal this opens the application on a copy of them. Without one it runs all their eval sets and prints the
    verdicts. Exit status 0: all verdicts are as expected, intended failures included.
    """
    folder = sample_folder(path)
    message(f"the sample agents are in {folder}")
    from workbench.cli.main import has_terminal, open_screen

    if has_terminal() and not headless:
        return open_screen(folder)
    return _run_all(folder, plain=plain)


def sample_folder(path: Path | None, *, purpose: str = "demo") -> Path:
    """Return a copy of the samples that may be edited: in `path`, else in the cache of the user, one for each purpose.

    An existing copy is not changed; a new version of the samples gets a new folder.
    """
    from workbench.cli.main import find_bundled_folder

    source = find_bundled_folder("sample_agents")
    if path is None:
        from platformdirs import user_cache_path

        path = user_cache_path("workbench", appauthor=False) / f"{purpose}-{__version__}-{_digest(source)}"
    if (path / "workbench.toml").exists():
        return real_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".workbench-demo-") as temporary:
            copy = Path(temporary) / "samples"
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
            # The folder appears complete.
            copy.rename(path)
    except OSError as error:
        if (path / "workbench.toml").exists():  # another demo was faster
            return real_path(path)
        raise make_os_error("create", path, error) from error
    return real_path(path)


def _digest(folder: Path) -> str:
    """Return a short hash of the files that are copied."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not set(file.relative_to(folder).parts) & set(_NOT_COPIED):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def _run_all(folder: Path, *, plain: bool) -> int:
    from workbench.cli.printers import Display
    from workbench.cli.run_commands import execute_plan
    from workbench.engine.plan import RunOptions, Selection
    from workbench.engine.workspace import Workspace

    with Workspace.open(folder) as workspace:
        for problem in workspace.problems:
            message(problem)
        left_out = _find_skipped_sets(workspace)
        chosen = [
            Selection(eval_set=entry.relative)
            for entry in workspace.project.eval_sets
            if entry.target is not None and entry.relative not in left_out
        ]
        plan = workspace.plan(chosen, RunOptions(command=build_command_line()))
        report, _ = execute_plan(plan, workspace, Display(plain=plain))
    for eval_set, reason in left_out.items():
        write_lines([f"skipped: {eval_set}: {reason}"])
    if report.interrupted:
        return INTERRUPTED
    return _check_verdicts(folder, report, left_out)


def _find_skipped_sets(workspace: Workspace) -> dict[str, str]:
    """Return eval sets whose agent needs a missing extra or program, with the reason."""
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


def _check_verdicts(folder: Path, report: StreamedRun | RunReport, left_out: dict[str, str]) -> int:
    """Print whether every verdict is as expected; return the exit status."""
    expected = _read_expected_verdicts(folder)
    came_out = {(outcome.case.eval_set, outcome.case.eval_id): outcome.status.value for outcome in report.outcomes}
    wrong = [
        f"unexpected: {eval_set}:{eval_id}: expected {status}, got {came_out.get((eval_set, eval_id), 'no verdict')}"
        for (eval_set, eval_id), status in expected.items()
        if eval_set not in left_out and came_out.get((eval_set, eval_id)) != status
    ]
    wrong += [
        f"unexpected: {eval_set}:{eval_id}: expected.json does not list this case"
        for eval_set, eval_id in came_out.keys() - expected.keys()
    ]
    if wrong:
        write_lines([*wrong, f"{len(wrong)} verdicts are not as expected; was a file changed in {folder}?"])
        return 1
    failing = sum(status != "PASSED" for status in came_out.values())
    write_lines([f"all {len(came_out)} verdicts are as expected, including {failing} intended failures and errors"])
    return 0


def _read_expected_verdicts(folder: Path) -> dict[tuple[str, str], str]:
    """Read the expected.json of each sample, by eval set (relative to the folder) and case."""
    expected: dict[tuple[str, str], str] = {}
    for file in sorted(folder.rglob(_EXPECTED)):
        for name, cases in json.loads(file.read_text(encoding="utf-8")).items():
            eval_set = Path(os.path.relpath(file.parent / name, folder)).as_posix()
            expected.update({(eval_set, eval_id): status for eval_id, status in cases.items()})
    return expected


# `workbench tour`


@click.command()
@click.option("--restart", is_flag=True, help="Begin with the first step and a fresh copy of the sample agents.")
def tour(*, restart: bool) -> int:
    """Learn the screen in two minutes, on the sample agents.

    A panel names the next key while you run cases, read a difference, accept, edit, and watch. It needs neither account
    nor network. The next call continues at the step that you reached.
    """
    from workbench.cli.main import has_terminal, open_screen

    if not has_terminal():
        raise click.ClickException(
            "the tour needs a terminal, but standard input or output is not one. "
            "Without one, `workbench demo` runs the sample agents and prints the verdicts."
        )
    return open_screen(_tour_folder(restart=restart), "workbench.tui.tour_app")


def _tour_folder(*, restart: bool) -> Path:
    """Return the copy of the samples for the tour, with the layout for its begin if the tour has not begun."""
    from workbench.store.toml_files import Layouts

    folder = sample_folder(None, purpose="tour")
    if restart:
        with os_errors("delete", folder):
            shutil.rmtree(folder)
        folder = sample_folder(None, purpose="tour")
    layouts = Layouts()
    if restart or not layouts.load(folder).tour:
        from workbench.store.settings import load_settings
        from workbench.tui.state.tour import make_first_layout

        targets = load_settings(folder).settings.targets
        layouts.save(folder, make_first_layout({name: target.eval_sets or () for name, target in targets.items()}))
    return folder
