"""`workbench judge`: judges the stored answers of a run again, and says how far the judgements agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.history import path_option
from workbench.cli.options import Execution, case_option, config_option, judging_options

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace
    from workbench.report.judge_agreement import Judgements

_SAME, _FLIPPED, _WRONG, _ERRORS, _INTERRUPTED = 0, 1, 2, 3, 130


@click.command()
@click.argument("run", default="latest")
@case_option
@config_option
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Number of judgements.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Maximum parallel cases.")
@judging_options
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
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
    """Judge stored answers again, and say how far the judgements agree.

    No agent runs. RUN is the id of a run, the start of an id, or `latest`. Every judgement asks the models again and is
    stored as a run. The criteria are those of the run, or of --config. For each criterion that asks a model, the output
    has the agreement of all judgements (the original one included), Cohen's kappa (Fleiss' for three or more), and the
    cases whose verdict flips. A judgement that failed has no verdict and flips nothing.

    Exit status: 0 no case flips; 1 some do; 2 the command, configuration or a file is wrong; 3 a case could not be
    judged, or not by all samples with --require-all-samples; 130 interrupted.
    """
    from workbench.cli.streams import write_document, write_lines
    from workbench.engine.workspace import Workspace
    from workbench.model.results import MetricStatus
    from workbench.report.json_format import dump
    from workbench.report.judge_agreement import agreement_lines, agreement_record, agreements

    with Workspace.open(path) as workspace:
        options = {"config": config, "concurrency": concurrency, **judging}
        judgements, interrupted, has_wrong_input = _judged(workspace, run, cases, options, repeat=repeat)
        requires_all_samples = judging["require_all_samples"] or workspace.settings.judge.require_all_samples
    found = agreements(judgements)
    if report_format == "json":
        write_document(dump(agreement_record(judgements, found), indent=2) + "\n")
    else:
        write_lines(agreement_lines(judgements, found))
    if interrupted:
        return _INTERRUPTED
    if has_wrong_input:
        return _WRONG
    anew = [metric for results in judgements.results[1:] for result in results for metric in result.metrics]
    if any(metric.status is MetricStatus.ERROR for metric in anew):
        return _ERRORS
    if requires_all_samples and any(metric.missing_samples is not None for metric in anew):
        return _ERRORS
    return _FLIPPED if any(each.flips for each in found) else _SAME


def _judged(
    workspace: Workspace, name: str, cases: Sequence[str], given: Execution, *, repeat: int
) -> tuple[Judgements, bool, bool]:
    """The judgements, the original one first; whether the user stopped, and whether a file is wrong."""
    from workbench.cli.running import command_line
    from workbench.cli.streams import message
    from workbench.engine.plan import PlanError, RunOptions
    from workbench.model.keys import cases_by_name
    from workbench.model.text import counted, did_you_mean
    from workbench.report.judge_agreement import Judgements
    from workbench.store.errors import StoreError
    from workbench.store.history.database import file_of

    if not file_of(workspace.root).exists():
        raise StoreError(file_of(workspace.root), "there are no runs yet")
    with workspace.history() as history:
        stored = history.run(name)
        results = list(history.results(stored.run_id))
    known = cases_by_name((result.case.eval_id, result.case.occurrence) for result in results)
    unknown = [case for case in cases if case not in known]
    if unknown:
        raise PlanError(*(f"run {stored.run_id} has no case {each!r}{did_you_mean(each, known)}" for each in unknown))
    chosen = {case for name in cases for case in known[name]}
    results = [each for each in results if not cases or (each.case.eval_id, each.case.occurrence) in chosen]
    options = RunOptions.model_validate({**given, "command": command_line()})
    ids, judged = [stored.run_id], [results]
    interrupted = has_wrong_input = False
    for time in range(1, repeat + 1):
        plan = workspace.plan_judging(stored, results, options, time=time)
        if time == 1:
            for text in (*plan.notices, *plan.problems):
                message(text)
            calls = sum(workspace.estimate(plan).judge_calls.values()) * repeat
            message(f"run {stored.run_id}: {counted(plan.total, 'case')} judged anew, about {counted(calls, 'call')}")
            if plan.total < len(results):
                message(f"{counted(len(results) - plan.total, 'case')} cannot be judged again: nothing of it is stored")
        run = workspace.start(plan)
        _wait(run, label=f"judgement {time} of {repeat}")
        ids.append(run.run_id)
        judged.append(run.results())
        interrupted, has_wrong_input = run.interrupted, has_wrong_input or run.has_wrong_input
        if interrupted:
            break
    return Judgements(ids, judged), interrupted, has_wrong_input


def _wait(run: Run, *, label: str) -> None:
    """Listen to a run until it ends; standard error says how far it is."""
    import sys

    from workbench.cli.interrupt import graceful_interrupt
    from workbench.cli.progress import Progress
    from workbench.cli.streams import message
    from workbench.model.events import CaseFinished, Notice
    from workbench.report.spending import spending_line

    told = {*run.plan.notices, *run.plan.problems}
    with Progress(total=run.plan.total, shown=sys.stderr.isatty()) as progress:

        def announce(text: str) -> None:
            with progress.hidden():
                message(text)

        with graceful_interrupt(run.cancel, announce=announce):
            for event in run.iter_events():
                if isinstance(event, CaseFinished):
                    progress.finished(event.status)
                elif isinstance(event, Notice) and event.message not in told:
                    announce(event.message)
    message(f"{label}: run {run.run_id}")
    for spent in run.summary().models:
        message(spending_line(spent))
