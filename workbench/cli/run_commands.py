"""The commands `run` and `eval`."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from workbench.cli.console import graceful_interrupt, message
from workbench.cli.printers import (
    TEXT,
    DocumentPrinter,
    JsonSpool,
    LinePrinter,
    Printer,
    Progress,
    TablePrinter,
    format_for,
    require_writable,
    save_pieces,
    save_report,
    stdout_style,
    table_lines,
)
from workbench.cli.shared_options import (
    FOLDER,
    Execution,
    Tools,
    adk_options,
    case_option,
    case_options,
    config_option,
    display_options,
    execution_options,
    feature_options,
    judging_options,
    recording_options,
    tool_options,
)
from workbench.model.identity import JobKey
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CaseStarted,
    ModelsAsked,
    Notice,
    QuotaWait,
    RunFinished,
    RunStarted,
)
from workbench.report.run_report import CaseOutcome, ReportedCase, RunReport, StreamedRun, outcome_of
from workbench.report.text_report import Style, VerdictTable, quota_wait_text, width_of_names

if TYPE_CHECKING:
    from workbench.cli.arguments import Named
    from workbench.engine.plan import Plan, PlannedCase, RunOptions, Selection
    from workbench.engine.plan_cost import JudgeCost, PlanCost
    from workbench.engine.run import Run
    from workbench.engine.run_resources import Resources
    from workbench.engine.workspace import Workspace
    from workbench.model.identity import CaseInSet, CaseKey
    from workbench.store.project_discovery import Project
    from workbench.store.settings import LoadedSettings


# `workbench run`: run eval cases and report the verdicts.

_WRONG = 2
_LATEST = "latest"


class Opened(NamedTuple):
    """A project with its settings, and what of it was named."""

    project: Project
    loaded: LoadedSettings
    named: Sequence[Named]


@click.command()
@case_options
@config_option
@execution_options
@judging_options
@recording_options
@click.option("--failed", is_flag=True, help="Run only those of these cases that did not pass last time.")
@click.option(
    "--affected",
    is_flag=True,
    help="Run only cases whose last verdict is stale, because code, data or configuration changed; `workbench explain` "
    "says why. Current verdicts are reused.",
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value=_LATEST,
    metavar="[RUN]",
    help="Resume a run that was interrupted or could not reach its judges. Default: the newest. Finished cases that "
    "have not changed are reused. Without other arguments all cases of that run are selected.",
)
@tool_options
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@display_options
def run(
    *,
    what: tuple[str, ...],
    cases: tuple[str, ...],
    target: str | None,
    config: Path | None,
    execution: Execution,
    judging: Execution,
    calls: Execution,
    failed: bool,
    affected: bool,
    resume: str | None,
    tools: Tools,
    dry_run: bool,
    report_format: str | None,
    output: Path | None,
    plain: bool,
    verbose: bool,
) -> int:
    """Run eval cases and report the verdicts.

    TARGET is a name in workbench.toml. SET is an eval set; SET:CASE,CASE runs some of its cases. FOLDER runs all sets
    below it, each with the test_config.json beside it. Without arguments everything in the project around the current
    folder runs.

    Exit status: 0 all passed; 1 some case failed; 2 the command, configuration or a file is wrong; 3 none failed but
    some ended in ERROR, or lack samples with --require-all-samples; 130 interrupted.
    """
    from workbench.cli.arguments import path_exists
    from workbench.engine.plan import RunOptions

    if resume is not None and resume != _LATEST and path_exists(resume):
        what, resume = (resume, *what), _LATEST  # `--resume sets/a.evalset.json`: the value is optional
    options = RunOptions.model_validate(
        {"config": config, **execution, **tools, **judging, **calls, "resume": resume},
    )
    # Those of the last may well need no agent.
    begin = None if failed or dry_run or affected or resume is not None else partial(start_interpreters, options)
    workspace, named = open_workspace(what, target=target, begin=begin)
    with workspace:
        if dry_run:
            workspace.stay_offline()
        # Without a choice of cases, those of the run to go on with.
        chosen = bool(what or cases or target or failed) or resume is None
        selections = selections_of(workspace, named, cases=cases) if chosen else []
        meant = selections
        if failed:
            selections = list(_failed_of(workspace, selections))
        if chosen and not selections:
            from workbench.cli.console import message

            problems = _problems_of_files(workspace, meant, options)
            for problem in problems:
                message(problem)
            click.echo("nothing to run: no case failed last time", err=True)
            return _WRONG if problems else 0
        if failed and not (dry_run or affected or resume is not None):
            workspace.start_interpreters(selections, options)
        # What reports are made of takes its time to be imported, in which interpreters come up.

        options = options.model_copy(update={"command": command_line()})
        plan = plan_of(workspace, selections, options)
        if failed:  # a case that cannot be read any more did not fail last time
            known = {*plan.problems, *(case.problem.message for case in plan.cases if case.problem is not None)}
            more = [text for text in _problems_of_files(workspace, meant, options) if text not in known]
            plan = replace(plan, problems=(*plan.problems, *more))
        if affected or resume is None:
            from workbench.watch.selector import reuse_unjudged, select_affected

            plan = (select_affected if affected else reuse_unjudged)(workspace, plan)
        if dry_run:
            return _show_plan(plan, workspace.estimate(plan))
        display = Display(report_format=report_format, output=output, plain=plain, verbose=verbose)
        return carry_out(plan, workspace, display)[1]


def open_workspace(
    what: tuple[str, ...], *, target: str | None, begin: Callable[[Opened], Resources] | None = None
) -> tuple[Workspace, list[Named]]:
    """The workspace that the arguments belong to, and the arguments split.

    `begin` may start something as soon as it is known what there is.
    """
    from workbench.cli.arguments import path_exists, split_argument
    from workbench.cli.case_selection import only_target, split_names
    from workbench.engine.project_selection import root_of, with_named_sets
    from workbench.store.project_discovery import discover
    from workbench.store.settings import load_settings

    splits = (split_argument(text, exists=path_exists) for text in what)
    root = root_of([named.path for named in splits if named is not None])
    loaded = load_settings(root)
    project = discover(root, loaded)
    named = split_names(project, what)

    def narrow(project: Project) -> Project:
        if target is not None and not what:
            project = only_target(project, target)
        return with_named_sets(project, [name.path for name in named], target=target)

    project = narrow(project)
    resources = None if begin is None else begin(Opened(project, loaded, named))
    from workbench.engine.workspace import Workspace  # which takes its time to be imported

    return Workspace(project, loaded, narrow=narrow, resources=resources), named


def start_interpreters(options: RunOptions, opened: Opened) -> Resources:
    """Have the agents' interpreters come up while what plans and judges is imported; the plan says what is wrong."""
    from workbench.cli.case_selection import select
    from workbench.engine.plan import PlanError, limits_of
    from workbench.engine.run_resources import Resources, agents_of

    resources = Resources(opened.project.root)
    with contextlib.suppress(PlanError):
        agents = agents_of(opened.project, select(opened.project, opened.named))
        resources.start_interpreters(agents, limits_of(opened.loaded.settings, options))
    return resources


def plan_of(workspace: Workspace, selections: list[Selection], options: RunOptions) -> Plan:
    """The plan; what is odd about the project is said beside it, once. Raises PlanError."""
    from workbench.cli.console import message
    from workbench.engine.plan import PlanError

    said: tuple[str, ...] = ()
    try:
        plan = workspace.plan(selections, options)
        said = plan.problems
    except PlanError as error:
        said = error.problems
        raise
    finally:
        for problem in workspace.problems:
            if problem not in said:
                message(problem)
    return plan


def selections_of(workspace: Workspace, named: list[Named], *, cases: tuple[str, ...]) -> list[Selection]:
    """The cases that the arguments mean; without any, all."""
    from workbench.cli.case_selection import only_cases, select

    selections = select(workspace.project, named)
    return only_cases(selections, cases, names_of=workspace.cases_by_name) if cases else selections


def _failed_of(workspace: Workspace, selections: list[Selection]) -> Iterator[Selection]:
    """Of these cases those whose newest verdicts are not all PASSED. A case that never ran did not fail, and what was
    only played since takes no verdict away."""
    from workbench.cli.history_commands import open_history
    from workbench.engine.plan import Selection
    from workbench.model.results import CaseStatus
    from workbench.store.errors import StoreError

    with open_history(workspace.root) as history:
        latest = {} if history is None else history.latest_judged_jobs()
    failed: dict[str, list[CaseKey]] = {}
    for key, jobs in latest.items():
        if any(job.status is not CaseStatus.PASSED for job in jobs):
            failed.setdefault(key.eval_set, []).append(key)
    for selection in selections:
        if selection.eval_set not in failed:  # nor is it looked into, which may not be possible
            continue
        keys = failed[selection.eval_set]
        named: Mapping[str, Set[CaseInSet]] = {}
        with contextlib.suppress(StoreError):  # the plan says so, and the rest runs
            named = workspace.cases_by_name(selection.eval_set)
            wanted = named if selection.cases is None else selection.cases
            meant = {case for name in wanted for case in named.get(name, ())}
            keys = [key for key in keys if (key.eval_id, key.occurrence) in meant]
        # The name of a twin may be the id of another case: both twins are run then.
        chosen = tuple(
            key.name if named.get(key.name) == {(key.eval_id, key.occurrence)} else key.eval_id for key in keys
        )
        if chosen:
            yield Selection(eval_set=selection.eval_set, cases=chosen)


def _problems_of_files(workspace: Workspace, selections: Sequence[Selection], options: RunOptions) -> Sequence[str]:
    """What is wrong with the files of these cases, whichever of them are run."""
    from workbench.engine.plan import PlanError

    try:
        plan = workspace.plan_what_is_there(selections, options)
    except PlanError as error:
        return error.problems
    return plan.file_problems


def _show_plan(plan: Plan, cost: PlanCost) -> int:
    """Print what would run. The exit status says whether all of it could."""
    from workbench.cli.console import message, write_lines
    from workbench.model.text import one_line, pluralise

    problems = plan.file_problems
    for text in (*plan.notices, *problems):
        message(text)
    sets: dict[tuple[str, str], list[str]] = {}
    criteria: dict[str, str] = {}
    for case in plan.cases:
        sets.setdefault((case.key.target, case.key.eval_set), []).append(case.key.name)
        criteria[case.key.eval_set] = ", ".join(
            name.metric if name.threshold is None else f"{name.metric} >= {name.threshold:g}"
            for name in case.config.criteria
        )
    lines = []
    for (target, eval_set), ids in sets.items():
        lines += [one_line(f"{target} · {eval_set} ({len(ids)})"), f"  criteria: {one_line(criteria[eval_set])}"]
        lines += [f"  {one_line(name)}" for name in ids]
    limits = plan.limits
    lines.append(
        f"{pluralise(len(plan.cases), 'case')} x {limits.runs} = {plan.total}, {len(plan.stored)} kept from before; "
        f"{pluralise(plan.agent_turns, 'agent turn')}, {limits.concurrency} at a time, at most "
        f"{limits.timeout_seconds:g} s each, isolation by {limits.isolation}"
    )
    lines += _estimates(cost)
    lines += _on_models(plan)
    write_lines(lines)
    return _WRONG if problems else 0


def _estimates(cost: PlanCost) -> Iterator[str]:
    """What the run will take, as far as earlier ones tell, and what cannot judge."""
    from workbench.model.text import pluralise

    for estimate, unit in ((cost.seconds, "s"), (cost.tokens, "tokens")):
        if estimate is not None:
            known = f"from earlier runs of {estimate.known} of {pluralise(estimate.of, 'case')}"
            amount = f"about {estimate.amount:,.0f}" if estimate.amount >= 1 else "less than 1"
            yield f"{amount} {unit}, {known}"
    for user in cost.users:
        often = "any number of" if user.at_most is None else f"at most {user.at_most:,}"
        conversations = pluralise(user.conversations, "conversation")
        yield f"{often} answers of {user.model}, which plays the users of {conversations}"
    for metric, calls in cost.judge_calls.items():
        more = ", and those on conversations of any length" if cost.open_ended else ""
        yield f"about {pluralise(calls, 'judge call')} for {metric}{more}"
    for judge in cost.judges:
        yield from _judge_lines(judge)


def _judge_lines(judge: JudgeCost) -> Iterator[str]:
    """What one judge model will be asked, and what that takes."""
    from workbench.model.text import one_line, pluralise
    from workbench.report.text_report import cost_text

    if judge.tokens is None:
        takes = "tokens unknown: no earlier run tells"
    else:
        known = f"from earlier runs of {judge.tokens.known} of {pluralise(judge.tokens.of, 'case')}"
        takes = f"about {pluralise(round(judge.tokens.amount), 'token')}, {known}"
    cost = "" if judge.dollars is None else f", about {cost_text(judge.dollars.amount)}"
    more = f" and those on {pluralise(judge.open_ended, 'scenario')}" if judge.open_ended else ""
    calls = f"about {pluralise(judge.calls, 'call')}{more} (known answers cost nothing)"
    yield one_line(f"judge {judge.model}: {calls}, {takes}{cost}")
    if judge.price_unknown is not None:
        yield one_line(f"  {judge.price_unknown}")


def _on_models(plan: Plan) -> Iterator[str]:
    """Within which bounds models are asked."""
    if plan.options.replay_calls is not None:
        yield f"no model is asked: {plan.options.replay_calls} has their answers"
    if plan.limits.max_model_calls is not None:
        yield f"at most {plan.limits.max_model_calls:,} model calls in all; what would ask more ends in ERROR"
    if plan.limits.max_model_cost is not None:
        yield f"at most ${plan.limits.max_model_cost:g} for models; what would cost more ends in ERROR"


# Carries out a plan for the command line: shows progress, prints results as they come, gives the exit status.

WRONG = 2
JSON = "json"


@dataclass(frozen=True, kw_only=True)
class Display:
    """How the results are to be shown, as the options say."""

    report_format: str | None = None
    output: Path | None = None
    plain: bool = False
    verbose: bool = False
    details: bool = False
    """Whether the command prints more about each case after the run."""

    @property
    def document_format(self) -> str:
        """The format of the document that is written to `output`, or else to standard output."""
        return format_for(self.report_format, self.output)

    @property
    def stdout_format(self) -> str:
        """What standard output shows: the document, unless that goes to a file."""
        return self.document_format if self.output is None else TEXT

    @property
    def needs_cases(self) -> bool:
        """Whether all cases have to be in memory at the end; otherwise each is printed and freed when it ends."""
        if self.details or self.document_format == JSON:
            return self.details
        return self.output is not None or self.stdout_format not in (TEXT, "jsonl")


def command_line() -> str:
    """The command as it was typed, to be kept with the run; addresses without what gives access to them."""
    from workbench.store.datasets.remote_data import is_address, shown_address

    return shlex.join(["workbench", *(shown_address(word) if is_address(word) else word for word in sys.argv[1:])])


def carry_out(plan: Plan, workspace: Workspace, display: Display) -> tuple[StreamedRun | RunReport, int]:
    """Run a plan to its end. Returns what happened, with its cases only if `display` needs them, and the exit status.

    Raises PlanError where the results could not be written to where they are to go.
    """
    from workbench.engine.run import Holds

    if display.output is not None:
        require_writable(display.output)
    names = [name_of(case, repeat) for case, repeat in _rows(plan)]
    printer = _printer(plan, display, names=names)
    spool = JsonSpool() if display.output is not None and display.document_format == JSON else None
    progress = Progress(total=plan.total, shown=sys.stderr.isatty() and not display.plain)
    run = workspace.start(plan, holds=Holds.VERDICTS)
    report = _follow(run, printer, progress, keeps_cases=display.needs_cases, spool=spool)
    status = run.exit_status
    if spool is not None:
        assert display.output is not None
        if not save_pieces(spool.pieces(report), JSON, display.output):
            status = WRONG
    elif display.output is not None:
        assert isinstance(report, RunReport)
        style = Style(verbose=display.verbose)
        table = "\n".join(table_lines(report, style=style, name_width=width_of_names(names))) + "\n"
        if not save_report(report, display.document_format, display.output, table_text=table):
            status = WRONG
    return report, status


def _facts_of(run: Run, *, started_at: datetime | None, finished: RunFinished) -> dict[str, Any]:
    """The fields of RunFacts for a finished run."""
    from workbench.engine.history_recorder import versions

    return {
        "run_id": run.run_id,
        "started_at": started_at,
        "duration_seconds": finished.duration_seconds,
        "interrupted": finished.interrupted,
        "command": run.plan.options.command,
        "summary": finished.summary,
        "criteria": {case.key.eval_set: case.config for case in run.plan.cases},
        "options": run.plan.limits.model_dump(mode="json"),
        "versions": versions(),
    }


def name_of(case: PlannedCase, repeat: int) -> str:
    """What the row of a planned case is called."""
    return case.key.name + (f" [{repeat + 1}]" if repeat else "")


def _follow(
    run: Run, printer: Printer, progress: Progress, *, keeps_cases: bool, spool: JsonSpool | None
) -> StreamedRun | RunReport:
    """Listen to a run until it ends."""
    collected = _Collected(run.plan, keeps_cases=keeps_cases)
    started_at: datetime | None = None
    finished: RunFinished | None = None

    def announce(text: str) -> None:
        with progress.hidden():
            message(text)

    with progress, graceful_interrupt(run.cancel, announce=announce):
        for event in run.iter_events():
            match event:
                case RunStarted():
                    started_at = event.at
                case Notice():
                    announce(event.message)
                case CaseStarted():
                    progress.started(str(event.case))
                case AgentsImporting():
                    progress.importing(event.targets)
                case ModelsAsked():
                    progress.asked(event.models)
                case QuotaWait():
                    progress.waits(event.seconds)
                    if not progress.is_shown:
                        announce(f"{event.model}: {quota_wait_text(event.seconds)}")
                case CaseFinished():
                    case = collected.add(event)
                    with progress.hidden():
                        printer.finished(case)
                    if spool is not None:
                        spool.finished(case)
                    progress.finished(event.status)
                case RunFinished():
                    finished = event
    assert finished is not None  # the last event of every run
    report = collected.report(_facts_of(run, started_at=started_at, finished=finished))
    printer.closed(report)
    return report


class _Collected:
    """What the report of a run needs of the cases that ended: with `keeps_cases` all of it, else their outcomes."""

    def __init__(self, plan: Plan, *, keeps_cases: bool) -> None:
        self._plan = plan
        self._keeps_cases = keeps_cases
        self._planned = {case.key: case for case in plan.cases}
        self._cases: dict[JobKey, ReportedCase] = {}
        self._outcomes: dict[JobKey, CaseOutcome] = {}

    def add(self, event: CaseFinished) -> ReportedCase:
        """Collect a case that ended, and return it to be printed."""
        job = JobKey(case=event.case, repeat=event.repeat)
        planned = self._planned[event.case]
        # What a row expected comes with its result, and need not be made again.
        case = ReportedCase(event.result, event.result.expected_by_row or planned.case)
        if self._keeps_cases:
            self._cases[job] = case
        else:
            self._outcomes[job] = outcome_of(case, planned.config)
        return case

    def report(self, facts: Mapping[str, Any]) -> StreamedRun | RunReport:
        """The report of the run, in the order of the plan; `facts` are the fields of RunFacts."""
        jobs = [job for job, _ in self._plan.jobs]
        if self._keeps_cases:
            return RunReport(**facts, cases=[self._cases[job] for job in jobs if job in self._cases])
        return StreamedRun(**facts, outcomes=[self._outcomes[job] for job in jobs if job in self._outcomes])


def _printer(plan: Plan, display: Display, *, names: Sequence[str]) -> Printer:
    match display.stdout_format:
        case "text":
            criteria = {case.key.eval_set: case.config for case in plan.cases}
            style = stdout_style(plain=display.plain, verbose=display.verbose)
            table = VerdictTable(style=style, name_width=width_of_names(names), criteria=criteria)
            return TablePrinter(table, [(case.key, repeat) for case, repeat in _rows(plan)])
        case "jsonl":
            return LinePrinter()
        case "json":
            return JsonSpool()
        case other:
            return DocumentPrinter(other)


def _rows(plan: Plan) -> list[tuple[PlannedCase, int]]:
    """The rows of the table: set by set, the repeats of a case below each other."""
    sets: dict[str, list[PlannedCase]] = {}
    for case in plan.cases:
        sets.setdefault(case.key.eval_set, []).append(case)
    return [
        (case, repeat)
        for cases in sets.values()
        for case in cases
        for repeat in (range(plan.limits.runs) if case.repeat is None else (case.repeat,))
    ]


# `workbench eval`: the arguments of `adk eval`. `docs/differences.md` lists where its decisions differ.


@click.command("eval")
@click.argument("agent", type=FOLDER, metavar="AGENT_DIR")
@click.argument("sets", nargs=-1, metavar="[EVAL_SET_FILE_OR_ID[:ID,ID]]...")
@click.option("--config_file_path", type=click.Path(path_type=Path), help="The criteria; without it, test_config.json.")
@click.option("--print_detailed_results", is_flag=True, help="Print every turn of every case.")
@case_option
@adk_options
@feature_options
@execution_options
@judging_options
@recording_options
@display_options
def evaluate(
    *,
    agent: Path,
    sets: tuple[str, ...],
    config_file_path: Path | None,
    print_detailed_results: bool,
    cases: tuple[str, ...],
    enable_features: tuple[str, ...],
    disable_features: tuple[str, ...],
    execution: Execution,
    judging: Execution,
    calls: Execution,
    report_format: str | None,
    output: Path | None,
    plain: bool,
    verbose: bool,
) -> int:
    """Evaluate an agent: the arguments and flags of `adk eval`.

    AGENT_DIR is the folder of the agent. If the first eval set exists as a file all are files, otherwise all are ids
    of sets in AGENT_DIR (`ID.evalset.json`). After a colon the ids of cases run only those.

    Exit status: 0 all passed; 1 some case failed; 2 the command, configuration or a file is wrong; 3 none failed but
    some ended in ERROR, or lack samples with --require-all-samples; 130 interrupted.
    """
    from workbench.cli.case_selection import only_cases, select
    from workbench.engine.plan import PlanError, RunOptions
    from workbench.engine.project_selection import project_of

    if not sets:
        raise PlanError(f"no eval set is named: give a file, or the id of a set in {agent}")
    _switch_features(enable=enable_features, disable=disable_features)
    named = named_sets(agent, sets)
    project, loaded = project_of(agent, [name.path for name in named])
    options = RunOptions.model_validate({"config": config_file_path, **execution, **judging, **calls})
    resources = start_interpreters(options, Opened(project, loaded, named))
    # What follows takes its time to be imported, in which the interpreter comes up.
    from workbench.cli.console import write_lines
    from workbench.cli.printers import criteria_line, detailed_lines, summary_lines
    from workbench.engine.workspace import Workspace
    from workbench.report.run_report import RunReport

    with Workspace(project, loaded, resources=resources) as workspace:
        selections = select(project, named)
        if cases:
            selections = only_cases(selections, cases, names_of=workspace.cases_by_name)
        options = options.model_copy(update={"command": command_line()})
        plan = workspace.plan(selections, options)
        display = Display(
            report_format=report_format, output=output, plain=plain, verbose=verbose, details=print_detailed_results
        )
        as_text = display.stdout_format == "text"
        if as_text:
            configs = {case.config.source: case.config for case in plan.cases}
            write_lines(map(criteria_line, configs.values()))
        report, status = carry_out(plan, workspace, display)
    if as_text:
        write_lines(summary_lines(report))
        if print_detailed_results and isinstance(report, RunReport):
            write_lines(detailed_lines(report.cases))
    return status


def named_sets(agent: Path, sets: Iterable[str]) -> list[Named]:
    """The sets by path, split from their cases. Raises PlanError for one that does not exist."""
    from workbench.cli.arguments import LONGEST_NAME, Named, is_file, path_exists, split_argument
    from workbench.engine.plan import PlanError
    from workbench.model.text import shorten, suggest_name
    from workbench.store.filetypes import EVAL_SET_SUFFIX, derive_set_name

    def path_of(text: str) -> Path:
        return agent / f"{text}{EVAL_SET_SUFFIX}"

    def is_id(text: str) -> bool:
        return bool(text) and "/" not in text and "\\" not in text and is_file(str(path_of(text)))

    arguments = list(sets)
    by_path = split_argument(arguments[0], exists=path_exists) is not None
    found: list[Named] = []
    problems = []
    for text in arguments:
        named = split_argument(text, exists=is_file if by_path else is_id)
        if named is not None:
            cases = named.cases or None  # nothing after the colon means all, as in ADK
            found.append(Named(named.name if by_path else str(path_of(named.name)), cases))
        elif (other := split_argument(text, exists=is_id if by_path else is_file)) is not None:
            wanted = str(path_of(other.name)) if by_path else derive_set_name(other.path)
            first = f"the first eval set, {arguments[0]}, is {'a file' if by_path else 'an id'}"
            problems.append(f"{text}: files and ids cannot be mixed, and {first}; did you mean {wanted!r}?")
        elif by_path and path_exists(text) and Path(text).is_dir():
            problems.append(
                f"{text}: it is a folder, expected an eval-set file (`workbench run {text}` runs all below)"
            )
        else:
            name = text.rpartition(":")[0] or text
            place = "" if by_path else shorten(f", nor an eval set {path_of(name)}", LONGEST_NAME)
            is_mixed = by_path and Path(name).name == name and not name.endswith(".json")  # an id among files
            nearest = str(path_of(name)) if is_mixed else name
            known = [str(file) for file in Path(nearest).parent.glob("*.json")]
            if not by_path:
                known += [derive_set_name(file) for file in agent.glob(f"*{EVAL_SET_SUFFIX}")]
            shown = shorten(text, LONGEST_NAME)
            problems.append(f"{shown}: there is no such eval-set file{place}{suggest_name(nearest, known)}")
    if problems:
        raise PlanError(*problems)
    return found


def _switch_features(*, enable: Iterable[str], disable: Iterable[str]) -> None:
    """Hand ADK's switches to the agents' processes, in the variables that ADK reads; report unknown ones."""
    given = [("ENABLE", name) for name in _names_in(enable)] + [("DISABLE", name) for name in _names_in(disable)]
    if not given:
        return
    from workbench.cli.console import message
    from workbench.cli.doctor_command import unknown_features

    for word, name in given:
        os.environ[f"ADK_{word}_{name}"] = "1"
    for sentence in unknown_features(dict.fromkeys(name for _, name in given)):
        message(sentence)


def _names_in(lists: Iterable[str]) -> list[str]:
    return [name.strip() for text in lists for name in text.split(",") if name.strip()]
