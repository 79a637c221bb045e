"""The command `bisect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.cli.console import message, write_document, write_lines
from workbench.cli.shared_options import build_command_line, models_option

if TYPE_CHECKING:
    from workbench.report.bisect_report import Step

_FOUND, _SEVERAL_LEFT = 0, 1


@click.command()
@click.argument("case", metavar="SET:CASE")
@click.option("--good", metavar="REV", help="A commit in which the case passes. Default: search back for one.")
@click.option("--bad", metavar="REV", help="A commit in which it fails. Default: HEAD.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Maximum executions in each commit, for a case that fails only sometimes.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="With --repeats: stop when a commit has this probability.",
)
@models_option
@click.option("--first-parent", is_flag=True, help="Follow only the first parent of merges.")
@click.option(
    "--as-committed",
    is_flag=True,
    help="Take the case, its criteria and the settings from each commit. Default: those of the working tree.",
)
@click.option("--target", metavar="NAME", help="The target that runs the case, if several could.")
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
def bisect(
    *,
    case: str,
    good: str | None,
    bad: str | None,
    repeats: int,
    confidence: float,
    models: str | None,
    first_parent: bool,
    as_committed: bool,
    target: str | None,
    report_format: str,
) -> int:
    """Find the commit that turned a case red.

    Commits are checked out in a git worktree of their own: your files, index and branches never change. A commit in
    which everything that a stored execution used has the same content has that verdict, and nothing runs. An ERROR is
    no verdict: such a commit is skipped. With --repeats executions are samples, and the most probable commit is found.
    With --models auto a request that the project recorded, for the same repeat of the case, costs no model call.

    The result is the commit, its diff limited to what the case used, and what the case did before and after.

    Exit status: 0 a commit was found; 1 several commits are left; 2 the command, the repository or a file is wrong;
    130 interrupted.
    """
    from workbench.cli.console import INTERRUPTED, graceful_interrupt
    from workbench.cli.run_commands import make_plan, open_workspace, select_cases
    from workbench.engine.plan import PlanError, RunOptions
    from workbench.model.target import ModelMode
    from workbench.model.text import pluralise
    from workbench.report.bisect_report import Outcome, Source, bisect_lines, bisect_record, step_line
    from workbench.report.report_formats import dump
    from workbench.watch.bisection import Bisection, BisectOptions
    from workbench.watch.commit_verdicts import BisectInterrupted

    def show(step: Step) -> None:
        if step.source is not Source.KNOWN or step.outcome is Outcome.SKIPPED:
            message(step_line(step), prefix="")

    chosen = None if models is None else ModelMode(models)
    if repeats > 1:
        if chosen not in (None, ModelMode.LIVE):
            raise click.UsageError(
                f"--models {models} and --repeats {repeats}: a recorded answer is no new sample; leave out one of them."
            )
        chosen = ModelMode.LIVE
    workspace, named = open_workspace((case,), target=target)
    with workspace:
        run_options = RunOptions(command=build_command_line(), models=chosen)
        plan = make_plan(workspace, select_cases(workspace, named, cases=()), run_options)
        if len(plan.cases) != 1:
            raise PlanError(f"{case}: found {pluralise(len(plan.cases), 'case')}, expected one; name it as SET:CASE")
        options = BisectOptions(
            good=good,
            bad=bad,
            repeats=repeats,
            confidence=confidence,
            first_parent=first_parent,
            as_committed=as_committed,
        )
        bisection = Bisection(workspace, plan, options, show=show, notify=message)
        try:
            with graceful_interrupt(bisection.cancel, announce=message):
                found = bisection.run()
        except BisectInterrupted:
            return INTERRUPTED
    if report_format == "json":
        write_document(dump(bisect_record(found), indent=2) + "\n")
    else:
        write_lines(bisect_lines(found))
    return _FOUND if found.found is not None else _SEVERAL_LEFT
