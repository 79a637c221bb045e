"""`workbench run`: run eval cases and report the verdicts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from workbench.cli.options import (
    Execution,
    Tools,
    case_options,
    config_option,
    display_options,
    execution_options,
    judging_options,
    recording_options,
    tool_options,
)

if TYPE_CHECKING:
    from workbench.cli.arguments import Named
    from workbench.engine.cost import JudgeCost, PlanCost
    from workbench.engine.plan import Plan, RunOptions, Selection
    from workbench.engine.resources import Resources
    from workbench.engine.workspace import Workspace
    from workbench.model.keys import CaseAt, CaseKey
    from workbench.store.discovery import Project
    from workbench.store.settings import LoadedSettings

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
            from workbench.cli.streams import message

            problems = _problems_of_files(workspace, meant, options)
            for problem in problems:
                message(problem)
            click.echo("nothing to run: no case failed last time", err=True)
            return _WRONG if problems else 0
        if failed and not (dry_run or affected or resume is not None):
            workspace.start_interpreters(selections, options)
        # What reports are made of takes its time to be imported, in which interpreters come up.
        from workbench.cli.running import Display, carry_out, command_line

        options = options.model_copy(update={"command": command_line()})
        plan = plan_of(workspace, selections, options)
        if failed:  # a case that cannot be read any more did not fail last time
            known = {*plan.problems, *(case.problem.message for case in plan.cases if case.problem is not None)}
            more = [text for text in _problems_of_files(workspace, meant, options) if text not in known]
            plan = replace(plan, problems=(*plan.problems, *more))
        if affected or resume is None:
            from workbench.watch.affected import affected_part, with_unjudged

            plan = (affected_part if affected else with_unjudged)(workspace, plan)
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
    from workbench.cli.selecting import only_target, split_names
    from workbench.engine.named import root_of, with_named_sets
    from workbench.store.discovery import discover
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
    from workbench.cli.selecting import select
    from workbench.engine.plan import PlanError, limits_of
    from workbench.engine.resources import Resources, agents_of

    resources = Resources(opened.project.root)
    with contextlib.suppress(PlanError):
        agents = agents_of(opened.project, select(opened.project, opened.named))
        resources.start_interpreters(agents, limits_of(opened.loaded.settings, options))
    return resources


def plan_of(workspace: Workspace, selections: list[Selection], options: RunOptions) -> Plan:
    """The plan; what is odd about the project is said beside it, once. Raises PlanError."""
    from workbench.cli.streams import message
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
    from workbench.cli.selecting import only_cases, select

    selections = select(workspace.project, named)
    return only_cases(selections, cases, names_of=workspace.cases_by_name) if cases else selections


def _failed_of(workspace: Workspace, selections: list[Selection]) -> Iterator[Selection]:
    """Of these cases those whose newest verdicts are not all PASSED. A case that never ran did not fail, and what was
    only played since takes no verdict away."""
    from workbench.cli.stored import open_history
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
        named: Mapping[str, Set[CaseAt]] = {}
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
    from workbench.cli.streams import message, write_lines
    from workbench.model.text import counted, one_line

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
        f"{counted(len(plan.cases), 'case')} x {limits.runs} = {plan.total}, {len(plan.stored)} kept from before; "
        f"{counted(plan.agent_turns, 'agent turn')}, {limits.concurrency} at a time, at most "
        f"{limits.timeout_seconds:g} s each, isolation by {limits.isolation}"
    )
    lines += _estimates(cost)
    lines += _on_models(plan)
    write_lines(lines)
    return _WRONG if problems else 0


def _estimates(cost: PlanCost) -> Iterator[str]:
    """What the run will take, as far as earlier ones tell, and what cannot judge."""
    from workbench.model.text import counted

    for estimate, unit in ((cost.seconds, "s"), (cost.tokens, "tokens")):
        if estimate is not None:
            known = f"from earlier runs of {estimate.known} of {counted(estimate.of, 'case')}"
            amount = f"about {estimate.amount:,.0f}" if estimate.amount >= 1 else "less than 1"
            yield f"{amount} {unit}, {known}"
    for user in cost.users:
        often = "any number of" if user.at_most is None else f"at most {user.at_most:,}"
        yield f"{often} answers of {user.model}, which plays the users of {counted(user.conversations, 'conversation')}"
    for metric, calls in cost.judge_calls.items():
        more = ", and those on conversations of any length" if cost.open_ended else ""
        yield f"about {counted(calls, 'judge call')} for {metric}{more}"
    for judge in cost.judges:
        yield from _judge_lines(judge)


def _judge_lines(judge: JudgeCost) -> Iterator[str]:
    """What one judge model will be asked, and what that takes."""
    from workbench.model.text import counted, one_line
    from workbench.report.spending import cost_text

    if judge.tokens is None:
        takes = "tokens unknown: no earlier run tells"
    else:
        known = f"from earlier runs of {judge.tokens.known} of {counted(judge.tokens.of, 'case')}"
        takes = f"about {counted(round(judge.tokens.amount), 'token')}, {known}"
    cost = "" if judge.dollars is None else f", about {cost_text(judge.dollars.amount)}"
    more = f" and those on {counted(judge.open_ended, 'scenario')}" if judge.open_ended else ""
    calls = f"about {counted(judge.calls, 'call')}{more} (known answers cost nothing)"
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
