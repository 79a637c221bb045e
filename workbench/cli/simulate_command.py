"""The command `simulate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.console import ERRORS, INTERRUPTED, WRONG
from workbench.cli.shared_options import (
    Execution,
    Tools,
    build_command_line,
    case_options,
    config_option,
    execution_options,
    judging_options,
    recording_options,
    tool_options,
)

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.model.run_events import RunEvent


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
    from workbench.cli.console import graceful_interrupt, message
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
        run = workspace.start(plan)
        with graceful_interrupt(run.cancel, announce=message):
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
    from workbench.cli.console import message, write_document, write_lines
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
    from workbench.model.text import one_line
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
    from workbench.cli.console import message
    from workbench.engine.chat_session import save_conversations
    from workbench.model.text import pluralise

    cases = {planned.key: planned.case for planned in run.plan.cases if planned.case is not None}
    kept = save_conversations(path, run.results(), cases)
    message(f"{pluralise(len(kept), 'conversation')} kept in {path}{': ' if kept else ''}{', '.join(kept)}")
