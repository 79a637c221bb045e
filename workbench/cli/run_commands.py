"""The commands `run` and `eval`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from workbench.cli.completions import complete_what
from workbench.cli.console import WRONG, LateCancel, graceful_interrupt, message, write_lines
from workbench.cli.printers import (
    JSON,
    Display,
    DocumentPrinter,
    JsonSpool,
    LinePrinter,
    Printer,
    ProgressPrinter,
    TablePrinter,
    choose_format,
    format_criteria,
    format_details,
    format_summary,
    require_writable,
    save_pieces,
    stdout_style,
)
from workbench.cli.shared_options import (
    FOLDER,
    LONGEST_NAME,
    DisplayOptions,
    Execution,
    NamedArgument,
    Tools,
    adk_options,
    build_command_line,
    case_option,
    case_options,
    config_option,
    display_options,
    execution_options,
    is_file,
    judging_options,
    path_exists,
    recording_options,
    report_unknown_features,
    shard_option,
    split_argument,
    tool_options,
)
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CaseStarted,
    ModelsAsked,
    Notice,
    QuotaWait,
    RunEvent,
    RunFinished,
    RunStarted,
)
from workbench.model.text import one_line, pluralise, shorten, suggest_name
from workbench.report.run_report import (
    REPLAY_MARK,
    CaseOutcome,
    ReportedCase,
    RunReport,
    StreamedRun,
    cost_text,
    describe_quarantine,
    name_repeat,
    set_heading,
    summarise_case,
)
from workbench.report.text_report import VerdictTable, quota_wait_text, width_of_names

if TYPE_CHECKING:
    from workbench.engine.plan import Plan, PlannedCase, RunOptions, Selection
    from workbench.engine.plan_cost import JudgeCost, PlanCost
    from workbench.engine.run import Run
    from workbench.engine.run_resources import Resources
    from workbench.engine.workspace import Workspace
    from workbench.model.criteria import Criterion, EvalConfig
    from workbench.model.identity import CaseInSet, CaseKey
    from workbench.store.history.history_queries import StoredJob
    from workbench.store.project_discovery import Project
    from workbench.store.settings import LoadedSettings


# `workbench run`

_LATEST = "latest"


class CommandProject(NamedTuple):
    """A project with its settings, and the split arguments of the command."""

    project: Project
    loaded: LoadedSettings
    named: Sequence[NamedArgument]


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
    "have not changed are reused. Without other arguments all cases of that run are selected. --runs and --timeout "
    "are kept unless they are given.",
)
@tool_options
@shard_option
@click.option("--dry-run", is_flag=True, help="Show the plan of the run; run nothing.")
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
    shard: tuple[int, int] | None,
    dry_run: bool,
    display: DisplayOptions,
) -> int:
    """Run eval cases and report the verdicts.

    TARGET is a name in workbench.toml. SET is an eval set; SET:CASE,CASE runs some of its cases. FOLDER runs all sets
    below it. Without arguments everything in the project around the current folder runs. The criteria of a set are in
    the nearest test_config.json or eval_config.json: beside the set, or in a folder above it.

    Exit status: 0 all passed; 1 some case failed; 2 the command, configuration or a file is wrong; 3 none failed but
    some ended in ERROR, or lack samples with --require-all-samples; 130 interrupted.
    """
    from workbench.engine.plan import RunOptions

    if resume is not None and resume != _LATEST and path_exists(resume):
        what, resume = (resume, *what), _LATEST  # `--resume sets/a.evalset.json`: not a run, but an eval set
    if resume is not None and shard is not None:
        raise click.UsageError("--resume and --shard exclude each other: a resumed shard stays the same shard.")
    options = RunOptions.model_validate(
        {"config": config, **execution, **tools, **judging, **calls, "resume": resume},
    )
    # With these options the cases may need no agent.
    begin = None if failed or dry_run or affected or resume is not None else partial(start_interpreters, options)
    workspace, named = open_workspace(what, target=target, begin=begin)
    with workspace:
        if dry_run:
            workspace.stay_offline()
        # `--resume` without a selection means the cases of that run.
        chosen = bool(what or cases or target or failed) or resume is None
        selections = select_cases(workspace, named, cases=cases) if chosen else []
        meant = selections
        if failed:
            selections = list(select_failed(workspace, selections))
        if chosen and not selections:
            problems = find_file_problems(workspace, meant, options)
            for problem in problems:
                message(problem)
            click.echo("nothing to run: no case failed last time", err=True)
            return WRONG if problems else 0
        if failed and not (dry_run or affected or resume is not None):
            workspace.start_interpreters(selections, options)
        # Interpreters start while the modules below are imported.
        options = options.model_copy(update={"command": build_command_line()})
        plan = make_plan(workspace, selections, options)
        if failed:  # unreadable cases are not among the failed ones
            known = {*plan.problems, *(case.problem.message for case in plan.cases if case.problem is not None)}
            more = [text for text in find_file_problems(workspace, meant, options) if text not in known]
            plan = replace(plan, problems=(*plan.problems, *more))
        if shard is not None:
            plan = workspace.take_shard(plan, *shard)
        if affected or resume is None:
            from workbench.watch.selector import reuse_unjudged, select_affected

            plan = (select_affected if affected else reuse_unjudged)(workspace, plan)
        if dry_run:
            show = _print_plan_record if choose_format(display["report_format"], None) == JSON else _show_plan
            return show(plan, workspace.estimate(plan))
        return execute_plan(plan, workspace, Display(**display))[1]


def open_workspace(
    what: tuple[str, ...], *, target: str | None, begin: Callable[[CommandProject], Resources] | None = None
) -> tuple[Workspace, list[NamedArgument]]:
    """Open the workspace that the arguments belong to; return it with the split arguments.

    `begin` can start processes as soon as the project is known, before slow imports.
    """
    from workbench.cli.case_selection import only_target, split_names
    from workbench.engine.project_selection import add_sets, find_common_root
    from workbench.store.project_discovery import discover
    from workbench.store.settings import load_settings

    splits = (split_argument(text, exists=path_exists) for text in what)
    root = find_common_root([named.path for named in splits if named is not None])
    loaded = load_settings(root)
    project = discover(root, loaded)
    named = split_names(project, what)

    def narrow(project: Project) -> Project:
        if target is not None and not what:
            project = only_target(project, target)
        return add_sets(project, [name.path for name in named], target=target)

    project = narrow(project)
    resources = None if begin is None else begin(CommandProject(project, loaded, named))
    from workbench.engine.workspace import Workspace  # a slow import

    return Workspace(project, loaded, narrow=narrow, resources=resources), named


def start_interpreters(options: RunOptions, opened: CommandProject) -> Resources:
    """Start the interpreters of the agents, to use the time of imports. The plan reports errors."""
    from workbench.cli.case_selection import select
    from workbench.engine.plan import PlanError, resolve_limits
    from workbench.engine.run_resources import Resources, find_agents

    resources = Resources(opened.project.root)
    with contextlib.suppress(PlanError):
        agents = find_agents(opened.project, select(opened.project, opened.named))
        resources.start_interpreters(agents, resolve_limits(opened.loaded.settings, options))
    return resources


def make_plan(workspace: Workspace, selections: list[Selection], options: RunOptions) -> Plan:
    """Make the plan, and print problems of the project that the plan does not report. Raises PlanError."""
    from workbench.engine.plan import PlanError

    reported: tuple[str, ...] = ()
    try:
        plan = workspace.plan(selections, options)
        reported = plan.problems
    except PlanError as error:
        reported = error.problems
        raise
    finally:
        for problem in workspace.problems:
            if problem not in reported:
                message(problem)
    return plan


def select_cases(workspace: Workspace, named: list[NamedArgument], *, cases: tuple[str, ...]) -> list[Selection]:
    """Return the cases that the arguments name; without arguments, all."""
    from workbench.cli.case_selection import only_cases, select

    selections = select(workspace.project, named)
    return only_cases(selections, cases, names_of=workspace.cases_by_name) if cases else selections


def select_failed(workspace: Workspace, selections: list[Selection]) -> Iterator[Selection]:
    """Select cases whose newest verdicts are not all PASSED.

    A case that never ran did not fail. A later simulation does not replace a verdict. Raises PlanError if none of these
    eval sets has a verdict, for example because CI lost its history: nothing to run would look like a success.
    """
    from workbench.cli.history_commands import open_history
    from workbench.engine.plan import PlanError, Selection
    from workbench.store.errors import StoreError

    with open_history(workspace.root) as history:
        latest: dict[CaseKey, Sequence[StoredJob]] = {}
        if history is not None:
            chosen_sets = {selection.eval_set for selection in selections}
            latest = {key: jobs for key, jobs in history.latest_judged_jobs().items() if key.eval_set in chosen_sets}
            latest |= workspace.find_renamed_jobs(history, latest)
    if selections and not latest:
        raise PlanError("no verdict is stored yet, so no case failed last time: first run all cases")
    failed: dict[str, list[CaseKey]] = {}
    for key, jobs in latest.items():
        if any(job.status is not CaseStatus.PASSED for job in jobs):
            failed.setdefault(key.eval_set, []).append(key)
    for selection in selections:
        if selection.eval_set not in failed:  # not read, because it may be unreadable
            continue
        keys = failed[selection.eval_set]
        named: Mapping[str, Set[CaseInSet]] = {}
        with contextlib.suppress(StoreError):  # the plan reports it, and the rest runs
            named = workspace.cases_by_name(selection.eval_set)
            wanted = named if selection.cases is None else selection.cases
            meant = {case for name in wanted for case in named.get(name, ())}
            keys = [key for key in keys if (key.eval_id, key.occurrence) in meant]
        # The name of a duplicate may be the id of another case: then both duplicates run.
        chosen = tuple(
            key.name if named.get(key.name) == {(key.eval_id, key.occurrence)} else key.eval_id for key in keys
        )
        if chosen:
            yield Selection(eval_set=selection.eval_set, cases=chosen)


def find_file_problems(workspace: Workspace, selections: Sequence[Selection], options: RunOptions) -> Sequence[str]:
    """Return problems of the files of these cases, whether they run or not."""
    from workbench.engine.plan import PlanError

    try:
        plan = workspace.plan_existing_cases(selections, options)
    except PlanError as error:
        return error.problems
    return plan.file_problems


def _show_plan(plan: Plan, cost: PlanCost) -> int:
    """Print the plan. Return the exit status, which says whether everything can run."""
    problems = plan.file_problems
    for text in (*plan.notices, *problems):
        message(text)
    sets: dict[tuple[str, str], list[PlannedCase]] = {}
    criteria: dict[str, str] = {}
    for case in plan.cases:
        sets.setdefault((case.key.target, case.key.eval_set), []).append(case)
        criteria[case.key.eval_set] = ", ".join(
            _format_criterion(criterion, case.config) for criterion in case.config.criteria
        )
    lines = []
    for (target, eval_set), cases in sets.items():
        title = set_heading(target, eval_set, cases[0].config)
        lines += [one_line(f"{title} ({len(cases)})"), f"  criteria: {one_line(criteria[eval_set])}"]
        for case in cases:
            lines.append(f"  {one_line(case.key.name)}")
            if (quarantine := case.current_quarantine) is not None:
                lines.append(f"    {describe_quarantine(None, quarantine)}")
    limits = plan.limits
    lines.append(
        f"{pluralise(len(plan.cases), 'case')} x {limits.runs} = {plan.total}, {len(plan.stored)} reused; "
        f"{pluralise(plan.agent_turns, 'agent turn')}, {limits.concurrency} at a time, at most "
        f"{limits.timeout_seconds:g} s each, isolation by {limits.isolation}"
    )
    lines += format_cost(cost)
    lines += _format_model_limits(plan)
    write_lines(lines)
    return WRONG if problems else 0


def _format_criterion(criterion: Criterion, config: EvalConfig) -> str:
    from workbench.metrics.registry import find_info

    info = find_info(criterion.metric, config)
    sign = "<=" if info is not None and info.lower_is_better else ">="
    return criterion.metric if criterion.threshold is None else f"{criterion.metric} {sign} {criterion.threshold:g}"


def _print_plan_record(plan: Plan, cost: PlanCost) -> int:
    """Print the plan as JSON. Return the exit status, as `_show_plan` does."""
    from workbench.report.report_formats import SCHEMA_VERSION, dump, model_record

    problems = plan.file_problems
    record = {
        "schema_version": SCHEMA_VERSION,
        "cases": [
            {**case.key.model_dump(), "quarantine": model_record(case.current_quarantine)} for case in plan.cases
        ],
        "limits": plan.limits.model_dump(mode="json"),
        "cost": asdict(cost),
        "notices": list(plan.notices),
        "problems": list(problems),
    }
    write_lines([dump(record, indent=2)])
    return WRONG if problems else 0


def format_cost(cost: PlanCost) -> Iterator[str]:
    """Yield what is replayed, and the estimated time and cost of the run, from earlier runs of the same kind."""
    parts = [(cost.live_jobs, "s", cost.seconds, ""), (cost.live_model_jobs, "tokens", cost.tokens, "")]
    if cost.replays is not None:
        yield f"{REPLAY_MARK} {cost.replays}"
        parts = [(jobs, unit, estimate, "live ") for jobs, unit, estimate, _ in parts]
        parts.append((cost.replays.recorded, "s", cost.replayed_seconds, "replayed "))
    for jobs, unit, estimate, kind in parts:
        if estimate is not None:
            known = f"from earlier {kind}runs of {estimate.known} of {pluralise(estimate.of, 'case')}"
            amount = f"about {estimate.amount:,.0f}" if estimate.amount >= 1 else "less than 1"
            yield f"{amount} {unit}, {known}"
        elif jobs:
            what = "time" if unit == "s" else unit
            yield f"no estimate of the {what}: no earlier {kind}run of these cases"
    for user in cost.users:
        limit = "any number of" if user.at_most is None else f"at most {user.at_most:,}"
        conversations = pluralise(user.conversations, "conversation")
        yield f"{limit} replies of {user.model} as the user of {conversations}"
    for metric, calls in cost.judge_calls.items():
        more = ", plus calls for conversations of unknown length" if cost.open_ended else ""
        yield f"about {pluralise(calls, 'judge call')} for {metric}{more}"
    for judge in cost.judges:
        yield from _format_judge_cost(judge)


def _format_judge_cost(judge: JudgeCost) -> Iterator[str]:
    """Yield the estimated calls of a judge model and their cost."""
    if judge.tokens is None:
        takes = "tokens unknown: no earlier run"
    else:
        known = f"from earlier runs of {judge.tokens.known} of {pluralise(judge.tokens.of, 'case')}"
        takes = f"about {pluralise(round(judge.tokens.amount), 'token')}, {known}"
    cost = "" if judge.dollars is None else f", about {cost_text(judge.dollars.amount)}"
    more = f" plus those for {pluralise(judge.open_ended, 'scenario')}" if judge.open_ended else ""
    calls = f"about {pluralise(judge.calls, 'call')}{more} (cached answers cost nothing)"
    yield one_line(f"judge {judge.model}: {calls}, {takes}{cost}")
    if judge.price_unknown is not None:
        yield one_line(f"  {judge.price_unknown}")


def _format_model_limits(plan: Plan) -> Iterator[str]:
    """Yield the limits of calls to judge and user models."""
    if (replay := plan.options.judge_replay) is not None:
        yield f"no judge or user model is called: answers come from {replay}"
    if plan.limits.max_model_calls is not None:
        yield f"at most {plan.limits.max_model_calls:,} model calls in total; metrics beyond it end in ERROR"
    if plan.limits.max_model_cost is not None:
        yield f"at most ${plan.limits.max_model_cost:g} for models; metrics beyond it end in ERROR"


# Execution of a plan: progress, results, exit status.


def execute_plan(plan: Plan, workspace: Workspace, display: Display) -> tuple[StreamedRun | RunReport, int]:
    """Run a plan to its end. Return the report, with cases only if `display` needs them, and the exit status.

    Raises PlanError before the run if the output cannot be written.
    """
    from workbench.engine.run import Holds

    require_writable(display.output)
    rows = _list_rows(plan)
    name_width = width_of_names([name_row(case, repeat) for case, repeat in rows])
    printer = _make_printer(plan, display, rows=rows, name_width=name_width)
    spool = JsonSpool() if display.output is not None and display.document_format == JSON else None
    progress = ProgressPrinter(total=plan.total, shown=sys.stderr.isatty() and not display.plain)
    collected = _CaseCollector(plan, keeps_cases=display.needs_cases)
    run, report = _follow(partial(workspace.start, plan, holds=Holds.VERDICTS), printer, progress, collected, spool)
    status = run.exit_status
    if spool is not None:
        assert display.output is not None
        if not save_pieces(spool.pieces(report), JSON, display.output):
            status = WRONG
    elif isinstance(report, RunReport) and not display.save(report, name_width=name_width):
        status = WRONG
    return report, status


def _collect_facts(run: Run, *, started_at: datetime | None, finished: RunFinished) -> dict[str, Any]:
    """Return the fields of RunFacts for a finished run."""
    from workbench.engine.history_recorder import find_versions

    return {
        "run_id": run.run_id,
        "started_at": started_at,
        "duration_seconds": finished.duration_seconds,
        "interrupted": finished.interrupted,
        "command": run.plan.options.command,
        "summary": finished.summary,
        "criteria": {case.key.eval_set: case.config for case in run.plan.cases},
        "options": run.plan.limits.model_dump(mode="json"),
        "versions": find_versions(),
    }


def name_row(case: PlannedCase, repeat: int) -> str:
    return name_repeat(case.key.name, repeat)


def _follow(
    start: Callable[[], Run],
    printer: Printer,
    progress: ProgressPrinter,
    collected: _CaseCollector,
    spool: JsonSpool | None,
) -> tuple[Run, StreamedRun | RunReport]:
    """Start a run and print its events until it ends; return it and the report. Ctrl-C may come while it starts."""
    started_at: datetime | None = None
    finished: RunFinished | None = None

    cancel = LateCancel()
    with progress, graceful_interrupt(cancel, announce=progress.announce):
        run = start()
        cancel.connect(run.cancel)
        for events in run.iter_batches():
            ended: list[ReportedCase] = []
            for event in events:
                match event:
                    case CaseFinished():
                        ended.append(collected.add(event))
                        progress.count_case(event.status)
                    case RunStarted():
                        started_at = event.at
                    case RunFinished():
                        finished = event
                    case other:
                        _show_progress(other, progress)
            if ended:  # written together: one by one takes longer than judging
                with progress.pause():
                    printer.print_cases(ended)
                if spool is not None:
                    spool.print_cases(ended)
    assert finished is not None  # the last event of every run
    report = collected.report(_collect_facts(run, started_at=started_at, finished=finished))
    printer.print_report(report)
    return run, report


def _show_progress(event: RunEvent, progress: ProgressPrinter) -> None:
    """Show an event of a running case or of the whole run."""
    match event:
        case Notice():
            progress.announce(event.message)
        case CaseStarted():
            progress.show_case(str(event.case))
        case AgentsImporting():
            progress.show_imports(event.targets)
        case ModelsAsked():
            progress.show_spending(event.models)
        case QuotaWait():
            progress.show_wait(event.seconds)
            if not progress.is_shown:
                progress.announce(f"{event.model}: {quota_wait_text(event.seconds)}")


class _CaseCollector:
    """Collects finished cases for the report: whole cases with `keeps_cases`, otherwise their outcomes."""

    def __init__(self, plan: Plan, *, keeps_cases: bool) -> None:
        self._plan = plan
        self._keeps_cases = keeps_cases
        self._configs = {case.key.eval_set: case.config for case in plan.cases}
        self._cases: dict[JobKey, ReportedCase] = {}
        self._outcomes: dict[JobKey, CaseOutcome] = {}

    def add(self, event: CaseFinished) -> ReportedCase:
        """Collect a case, and return it to be printed."""
        job = JobKey(case=event.case, repeat=event.repeat)
        # The result of a dataset row contains the expected case.
        case = ReportedCase(event.result, event.result.expected_by_row or self._planned[event.case].case)
        if self._keeps_cases:
            self._cases[job] = case
        else:
            self._outcomes[job] = summarise_case(case, self._configs[event.case.eval_set])
        return case

    @cached_property
    def _planned(self) -> Mapping[CaseKey, PlannedCase]:
        return {case.key: case for case in self._plan.cases}

    def report(self, facts: Mapping[str, Any]) -> StreamedRun | RunReport:
        """Return the report, in the order of the plan; `facts` are the fields of RunFacts."""
        jobs = [job for job, _ in self._plan.jobs]
        if self._keeps_cases:
            return RunReport(**facts, cases=[self._cases[job] for job in jobs if job in self._cases])
        found = map(self._outcomes.get, jobs)
        return StreamedRun(**facts, outcomes=[outcome for outcome in found if outcome is not None])


def _make_printer(plan: Plan, display: Display, *, rows: Sequence[tuple[PlannedCase, int]], name_width: int) -> Printer:
    match display.stdout_format:
        case "text":
            criteria = {case.key.eval_set: case.config for case in plan.cases}
            style = stdout_style(plain=display.plain, verbose=display.verbose)
            table = VerdictTable(style=style, name_width=name_width, criteria=criteria)
            return TablePrinter(table, [(case.key, repeat) for case, repeat in rows])
        case "jsonl":
            return LinePrinter()
        case "json":
            return JsonSpool()
        case other:
            return DocumentPrinter(other)


def _list_rows(plan: Plan) -> list[tuple[PlannedCase, int]]:
    """Return the rows of the table: set by set, with the repeats of a case next to each other."""
    sets: dict[str, list[PlannedCase]] = {}
    for case in plan.cases:
        sets.setdefault(case.key.eval_set, []).append(case)
    return [
        (case, repeat)
        for cases in sets.values()
        for case in cases
        for repeat in (range(plan.limits.runs) if case.repeat is None else (case.repeat,))
    ]


# `workbench eval`: the arguments of `adk eval`. `docs/differences.md` lists different decisions.


@click.command("eval")
@click.argument("agent", type=FOLDER, metavar="AGENT_DIR")
@click.argument("sets", nargs=-1, metavar="[EVAL_SET_FILE_OR_ID[:ID,ID]]...", shell_complete=complete_what)
@click.option("--config_file_path", type=click.Path(path_type=Path), help="Criteria. Default: test_config.json.")
@click.option("--print_detailed_results", is_flag=True, help="Print every turn of every case.")
@case_option
@adk_options
@click.option("--enable_features", multiple=True, help="Comma-separated features of ADK to enable.")
@click.option("--disable_features", multiple=True, help="Comma-separated features of ADK to disable.")
@execution_options
@judging_options
@recording_options
@shard_option
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
    shard: tuple[int, int] | None,
    display: DisplayOptions,
) -> int:
    """Evaluate an agent: the arguments and flags of `adk eval`.

    AGENT_DIR is the folder of the agent. If the first eval set exists as a file all are files, otherwise all are ids
    of sets in AGENT_DIR (`ID.evalset.json`). After a colon the ids of cases run only those.

    Exit status: 0 all passed; 1 some case failed; 2 the command, configuration or a file is wrong; 3 none failed but
    some ended in ERROR, or lack samples with --require-all-samples; 130 interrupted.
    """
    from workbench.cli.case_selection import only_cases, select
    from workbench.engine.plan import PlanError, RunOptions
    from workbench.engine.project_selection import make_project

    if not sets:
        raise PlanError(f"no eval set given: name a file, or the id of a set in {agent}")
    _switch_features(enable=enable_features, disable=disable_features)
    named = find_named_sets(agent, sets)
    project, loaded = make_project(agent, [name.path for name in named])
    options = RunOptions.model_validate({"config": config_file_path, **execution, **judging, **calls})
    resources = start_interpreters(options, CommandProject(project, loaded, named))
    # The interpreter starts while these modules are imported.
    from workbench.engine.workspace import Workspace

    with Workspace(project, loaded, resources=resources) as workspace:
        selections = select(project, named)
        if cases:
            selections = only_cases(selections, cases, names_of=workspace.cases_by_name)
        options = options.model_copy(update={"command": build_command_line(), "adk_results": True})
        plan = workspace.plan(selections, options)
        if shard is not None:
            plan = workspace.take_shard(plan, *shard)
        shown = Display(**display, details=print_detailed_results)
        as_text = shown.stdout_format == "text"
        if as_text:
            configs = {case.config.source: case.config for case in plan.cases}
            write_lines(map(format_criteria, configs.values()))
        report, status = execute_plan(plan, workspace, shown)
    if as_text:
        write_lines(format_summary(report))
        if print_detailed_results and isinstance(report, RunReport):
            write_lines(format_details(report.cases))
    return status


def find_named_sets(agent: Path, sets: Iterable[str]) -> list[NamedArgument]:
    """Return the eval sets by path, split from their cases. Raises PlanError for one that does not exist."""
    from workbench.engine.plan import PlanError
    from workbench.store.files import EVAL_SET_SUFFIX, derive_set_name

    def build_path(text: str) -> Path:
        return agent / f"{text}{EVAL_SET_SUFFIX}"

    def is_id(text: str) -> bool:
        return bool(text) and "/" not in text and "\\" not in text and is_file(str(build_path(text)))

    arguments = list(sets)
    by_path = split_argument(arguments[0], exists=path_exists) is not None
    found: list[NamedArgument] = []
    problems = []
    for text in arguments:
        named = split_argument(text, exists=is_file if by_path else is_id)
        if named is not None:
            cases = named.cases or None  # an empty list means all, as in ADK
            found.append(NamedArgument(named.name if by_path else str(build_path(named.name)), cases))
        elif (other := split_argument(text, exists=is_id if by_path else is_file)) is not None:
            wanted = str(build_path(other.name)) if by_path else derive_set_name(other.path)
            first = f"the first eval set, {arguments[0]}, is {'a file' if by_path else 'an id'}"
            problems.append(f"{text}: files and ids cannot be mixed, and {first}; did you mean {wanted!r}?")
        elif by_path and path_exists(text) and Path(text).is_dir():
            problems.append(
                f"{text}: it is a folder, expected an eval-set file (`workbench run {text}` runs all below)"
            )
        else:
            name = text.rpartition(":")[0] or text
            place = "" if by_path else shorten(f", nor an eval set {build_path(name)}", LONGEST_NAME)
            is_mixed = by_path and Path(name).name == name and not name.endswith(".json")  # an id among files
            nearest = str(build_path(name)) if is_mixed else name
            known = [str(file) for file in Path(nearest).parent.glob("*.json")]
            if not by_path:
                known += [derive_set_name(file) for file in agent.glob(f"*{EVAL_SET_SUFFIX}")]
            shown = shorten(text, LONGEST_NAME)
            problems.append(f"{shown}: no such eval-set file{place}{suggest_name(nearest, known)}")
    if problems:
        raise PlanError(*problems)
    return found


def _switch_features(*, enable: Iterable[str], disable: Iterable[str]) -> None:
    """Pass features of ADK to agent processes, in the variables that ADK reads; report unknown ones."""
    given = [("ENABLE", name) for name in _split_names(enable)] + [("DISABLE", name) for name in _split_names(disable)]
    if not given:
        return

    for word, name in given:
        os.environ[f"ADK_{word}_{name}"] = "1"
    for sentence in report_unknown_features(dict.fromkeys(name for _, name in given)):
        message(sentence)


def _split_names(lists: Iterable[str]) -> list[str]:
    return [name.strip() for text in lists for name in text.split(",") if name.strip()]
