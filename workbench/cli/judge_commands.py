"""The commands `judge`, `calibrate` and `dialects`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.completions import complete_run
from workbench.cli.console import (
    ERRORS,
    INTERRUPTED,
    WRONG,
    LateCancel,
    graceful_interrupt,
    message,
    write_lines,
    write_record,
)
from workbench.cli.history_commands import path_option, read_report, require_history
from workbench.cli.shared_options import (
    FILE,
    Execution,
    WholeNumber,
    build_command_line,
    case_option,
    config_option,
    format_option,
    judging_options,
)
from workbench.model.text import pluralise, suggest_name

if TYPE_CHECKING:
    from workbench.engine.plan import Plan
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace
    from workbench.model.identity import CaseInSet
    from workbench.report.dialect_report import NamedDialects
    from workbench.report.judge_agreement import Judgements


_SAME, _FLIPPED = 0, 1


# `workbench judge`


@click.command()
@click.argument("run", default="latest", shell_complete=complete_run)
@case_option
@config_option
@click.option("--repeat", type=WholeNumber(min=1), default=1, show_default=True, help="Number of judgements.")
@click.option("--concurrency", type=WholeNumber(min=1), help="Maximum parallel cases.")
@judging_options
@format_option
@path_option
def judge(
    *,
    run: str,
    cases: tuple[str, ...],
    config: Path | None,
    repeat: int,
    concurrency: int | None,
    judging: Execution,
    report_format: str,
    path: Path,
) -> int:
    """Judge stored answers again, and measure how far the judgements agree.

    No agent runs. RUN is the id of a run, the start of an id, or `latest`. Every judgement asks the models again and is
    stored as a run. The criteria are those of the run, or of --config. For each criterion that uses a model, the output
    has the agreement of all judgements (the original one included), Cohen's kappa (Fleiss' for three or more), and the
    cases whose verdict flips. A judgement that failed has no verdict and flips nothing.

    Exit status: 0 no case flips; 1 some do; 2 the command, configuration or a file is wrong; 3 a case could not be
    judged, or not by all samples with --require-all-samples; 130 interrupted.
    """
    from workbench.engine.workspace import Workspace
    from workbench.model.results import MetricStatus
    from workbench.report.judge_agreement import agreement_lines, agreement_record, compute_agreements

    with Workspace.open(path) as workspace:
        options = {"config": config, "concurrency": concurrency, **judging}
        judgements, interrupted, has_wrong_input = _judge_again(workspace, run, cases, options, repeat=repeat)
        requires_all_samples = judging["require_all_samples"] or workspace.settings.judge.require_all_samples
    found = compute_agreements(judgements)
    if report_format == "json":
        write_record(agreement_record(judgements, found))
    else:
        write_lines(agreement_lines(judgements, found))
    if interrupted:
        return INTERRUPTED
    if has_wrong_input:
        return WRONG
    anew = [metric for results in judgements.results[1:] for result in results for metric in result.metrics]
    if any(metric.status is MetricStatus.ERROR for metric in anew):
        return ERRORS
    if requires_all_samples and any(metric.missing_samples is not None for metric in anew):
        return ERRORS
    return _FLIPPED if any(each.flips for each in found) else _SAME


def _judge_again(
    workspace: Workspace, name: str, cases: Sequence[str], given: Execution, *, repeat: int
) -> tuple[Judgements, bool, bool]:
    """Return the judgements, the original one first; whether the user interrupted, and whether a file is wrong."""
    from workbench.engine.plan import RunOptions
    from workbench.report.judge_agreement import Judgements

    with require_history(workspace.root) as history:
        stored = history.run(name)
        results = list(history.results(stored.run_id))
    places = [(each.case.eval_id, each.case.occurrence) for each in results]
    chosen = _choose_cases(places, cases, where=f"run {stored.run_id}")
    results = [each for each, place in zip(results, places, strict=True) if place in chosen]
    options = RunOptions.model_validate({**given, "command": build_command_line()})
    ids, judged = [stored.run_id], [results]
    interrupted = has_wrong_input = False
    for time in range(1, repeat + 1):
        plan = workspace.plan_judging(stored, results, options, time=time)
        if time == 1:
            for text in (*plan.notices, *plan.problems):
                message(text)
            calls = sum(workspace.estimate(plan).judge_calls.values()) * repeat
            message(
                f"run {stored.run_id}: {pluralise(plan.total, 'case')} judged again, about {pluralise(calls, 'call')}"
            )
            if plan.total < len(results):
                message(
                    f"{pluralise(len(results) - plan.total, 'case')} cannot be judged again: the answers are not stored"
                )
        run = _carry_out(plan, workspace, label=f"judgement {time} of {repeat}")
        ids.append(run.run_id)
        judged.append(run.results())
        interrupted, has_wrong_input = run.interrupted, has_wrong_input or run.has_wrong_input
        if interrupted:
            break
    return Judgements(ids, judged), interrupted, has_wrong_input


def _carry_out(plan: Plan, workspace: Workspace, *, label: str) -> Run:
    """Run a plan to its end; show the progress on standard error."""
    from workbench.cli.printers import ProgressPrinter
    from workbench.model.run_events import CaseFinished, Notice
    from workbench.report.text_report import spending_line

    reported, cancel = {*plan.notices, *plan.problems}, LateCancel()
    progress = ProgressPrinter(total=plan.total, shown=sys.stderr.isatty())
    with progress, graceful_interrupt(cancel, announce=progress.announce):
        run = workspace.start(plan)
        cancel.connect(run.cancel)
        for event in run.iter_events():
            if isinstance(event, CaseFinished):
                progress.count_case(event.status)
            elif isinstance(event, Notice) and event.message not in reported:
                progress.announce(event.message)
    message(f"{label}: run {run.run_id}")
    for spent in run.summary().models:
        message(spending_line(spent))
    return run


# `workbench calibrate`


@click.command()
@click.argument("labels", type=FILE)
@click.option("--run", default="latest", show_default=True, help="Run to compare with the labels.")
@click.option("--criterion", metavar="NAME", help="Criterion of all labels; rows then need no criterion column.")
@format_option
@path_option
def calibrate(*, labels: Path, run: str, criterion: str | None, report_format: str, path: Path) -> int:
    """Compare the judges of a run with human labels.

    LABELS is JSONL, CSV or JSON with the columns eval_id and label. The columns eval_set, repeat, turn (both counted
    from 1), criterion and rubric make a label more specific. A label is pass or fail (also valid, yes, 1 ...), a
    rating, or CANDIDATE, BASELINE or TIE. The output has the confusion of labels and verdicts, precision and recall of
    the judge, Cohen's kappa, and every disagreement with the judge's reason.
    """
    from workbench.report.calibration import calibrate as compare_labels
    from workbench.report.calibration import calibration_lines, calibration_record
    from workbench.store.datasets.dataset_lint import read_labels
    from workbench.store.files import find_root

    given = read_labels(labels)
    with require_history(find_root(path)) as history:
        run_id = history.run(run).run_id
        results = list(history.results(run_id))
    found = compare_labels(given, results, criterion=criterion, run_id=run_id)
    if report_format == "json":
        write_record(calibration_record(run_id, found))
    else:
        write_lines(calibration_lines(run_id, found))
    return 0


_AGREE, _DISAGREE, _UNREADABLE = 0, 1, 2


# `workbench dialects`


@click.command()
@click.argument("what", metavar="[DATASET|RUN]", default="latest", shell_complete=complete_run)
@case_option
@click.option(
    "--expected", type=FILE, help="Eval set with the expected sessions, if DATASET is an eval set of recorded sessions."
)
@click.option(
    "--disagreements", "only_disagreements", is_flag=True, help="Show only cases on which the dialects disagree."
)
@format_option
@path_option
def dialects(
    *,
    what: str,
    cases: tuple[str, ...],
    expected: Path | None,
    only_disagreements: bool,
    report_format: str,
    path: Path,
) -> int:
    """Compare the scores of ADK, Vertex AI and agentevals for the same tool calls.

    DATASET is that of `workbench score`: rows with predicted_trajectory and reference_trajectory, or an eval set of
    recorded sessions with --expected. RUN is the id of a run, the start of an id, or `latest`. No agent runs. The
    output has the score of each dialect and the reason for each disagreement. Below it says how each dialect treats
    duplicates, empty trajectories, arguments and several turns.

    Exit status: 0 all dialects agree; 1 some disagree; 2 the command, a file or a row is wrong.
    """
    from workbench.report.dialect_report import dialect_lines, dialect_record

    file = Path(what)
    if expected is not None and not file.is_file():
        raise click.UsageError("--expected needs DATASET, an eval set of recorded sessions.")
    unread: dict[CaseInSet, str] = {}
    problems: list[str] = []
    found = list(_read_dataset(file, expected, unread, problems) if file.is_file() else _read_run(what, path))
    chosen = _choose_cases([*(each.case for each in found), *unread], cases, where=what)
    found = [each for each in found if each.case in chosen]
    problems += [problem for at, problem in unread.items() if at in chosen]
    for problem in problems:
        message(problem)
    if report_format == "json":
        write_record(dialect_record(found))
    else:
        write_lines(dialect_lines(found, only_disagreements=only_disagreements))
    if problems:
        return _UNREADABLE
    return _DISAGREE if any(case.dialects.disagreements for case in found) else _AGREE


def _read_dataset(
    file: Path, expected: Path | None, unread: dict[CaseInSet, str], problems: list[str]
) -> Iterator[NamedDialects]:
    """Yield readable rows; add errors of rows to `unread`, and errors of files to `problems`."""
    from workbench.metrics.case_view import CaseView, JudgedCase
    from workbench.metrics.dialects import compare_dialects
    from workbench.report.dialect_report import NamedDialects
    from workbench.store.datasets.dataset_files import read_recorded

    recorded = read_recorded(file, expected=expected)
    problems += recorded.problems
    for each in recorded.cases:
        if each.problem is not None:
            unread[each.eval_id, each.occurrence] = each.problem
            continue
        turns = (each.case.conversation if each.case is not None else None) or ()
        judged = JudgedCase(case=each.case, expected=turns, execution=each.execution, columns=each.columns)
        yield NamedDialects((each.eval_id, each.occurrence), compare_dialects(CaseView(judged)))


def _read_run(run: str, path: Path) -> Iterator[NamedDialects]:
    from workbench.metrics.case_view import CaseView, JudgedCase
    from workbench.metrics.dialects import compare_dialects
    from workbench.report.dialect_report import NamedDialects
    from workbench.store.files import find_root

    for case in read_report(find_root(path), run).cases:
        turns = (case.expected.conversation if case.expected is not None else None) or ()
        result = case.result
        judged = JudgedCase(case=case.expected, expected=turns, execution=result.execution, is_row=result.is_row)
        key = case.result.case
        yield NamedDialects((key.eval_id, key.occurrence), compare_dialects(CaseView(judged)), case.result.repeat)


def _choose_cases(found: Sequence[CaseInSet], cases: Sequence[str], *, where: str) -> Set[CaseInSet]:
    """Return the selected cases. Raises PlanError for a case that does not exist."""
    from workbench.engine.plan import PlanError
    from workbench.model.identity import group_cases_by_name

    if not cases:
        return frozenset(found)
    known = group_cases_by_name(found)
    unknown = [case for case in cases if case not in known]
    if unknown:
        raise PlanError(*(f"{where} has no case {each!r}{suggest_name(each, known)}" for each in unknown))
    return frozenset(at for case in cases for at in known[case])
