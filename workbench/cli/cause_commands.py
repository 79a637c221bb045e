"""The commands that search for the cause of a failure: `bisect` in commits, `shrink` and `why` in variants."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.completions import complete_metric, complete_what
from workbench.cli.console import (
    ERRORS,
    INTERRUPTED,
    WRONG,
    graceful_interrupt,
    is_interactive,
    message,
    write_lines,
    write_record,
)
from workbench.cli.shared_options import (
    Number,
    WholeNumber,
    build_command_line,
    case_option,
    config_option,
    format_option,
    models_option,
    target_option,
)
from workbench.model.text import one_line, pluralise, redact

if TYPE_CHECKING:
    from workbench.cli.printers import ProgressPrinter
    from workbench.engine.ablation import Ablated, Ablation, AblationExecutions, BlockEffect
    from workbench.engine.case_variants import CaseData
    from workbench.engine.plan import Selection
    from workbench.engine.shrinking import Shrinker, ShrinkStep, Shrunk
    from workbench.engine.workspace import Workspace
    from workbench.report.bisect_report import BisectStep
    from workbench.store.evalsets.evalset_document import EvalSetDocument

# `workbench bisect`

_FOUND, _SEVERAL_LEFT = 0, 1


@click.command()
@click.argument("case", metavar="SET[:CASE]", shell_complete=complete_what)
@case_option
@click.option("--good", metavar="REV", help="A commit in which the case passes. Default: search back for one.")
@click.option("--bad", metavar="REV", help="A commit in which it fails. Default: HEAD.")
@click.option(
    "--repeats",
    type=WholeNumber(1, 100),
    default=1,
    show_default=True,
    help="Maximum executions in each commit, for a case that fails only sometimes.",
)
@click.option(
    "--confidence",
    type=Number(0.5, 1, min_open=True, max_open=True),
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
@target_option
@format_option
def bisect(
    *,
    case: str,
    cases: tuple[str, ...],
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
    from workbench.cli.run_commands import make_plan, open_workspace, select_cases
    from workbench.engine.case_variants import require_one_case
    from workbench.engine.plan import PlanError, RunOptions
    from workbench.model.target import ModelMode
    from workbench.report.bisect_report import CommitOutcome, SampleSource, bisect_lines, bisect_record, step_line
    from workbench.store.errors import StoreError
    from workbench.watch.bisection import Bisection, BisectOptions
    from workbench.watch.commit_verdicts import BisectInterrupted

    def show(step: BisectStep) -> None:
        if step.source is not SampleSource.KNOWN or step.outcome is CommitOutcome.SKIPPED:
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
        selections = select_cases(workspace, named, cases=cases)
        plan = make_plan(workspace, selections, run_options)
        require_one_case(plan)
        _say_cost(workspace, selections, repeats, of=" of each commit that is tried")
        options = BisectOptions(
            good=good,
            bad=bad,
            repeats=repeats,
            confidence=confidence,
            first_parent=first_parent,
            as_committed=as_committed,
        )
        bisection = Bisection(workspace, plan, options, show=show, notify=message)
        with graceful_interrupt(bisection.cancel, announce=message) as was_interrupted:
            try:
                found = bisection.run()
            except BisectInterrupted:
                return INTERRUPTED
            except (PlanError, StoreError):
                if was_interrupted():  # Ctrl-C also ends the command of Git that is running
                    return INTERRUPTED
                raise
    if report_format == "json":
        write_record(bisect_record(found))
    else:
        write_lines(bisect_lines(found))
    return _FOUND if found.found is not None else _SEVERAL_LEFT


# `workbench shrink`

_GONE = 1
"""The failure does not occur, or not each time."""


@click.command()
@click.argument("case", metavar="SET[:CASE]", shell_complete=complete_what)
@case_option
@target_option
@config_option
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_metric,
    help="Look at this failed criterion only; repeatable. Default: all that fail.",
)
@click.option(
    "--predicate",
    metavar="MODULE:FUNCTION",
    help="Function that decides whether a candidate still fails, instead of the criteria: f(instance), called for each "
    "turn as a custom metric is. Any true value or number above 0: it still fails.",
)
@click.option("--budget", type=WholeNumber(min=1), default=100, show_default=True, help="Maximum executions.")
@click.option(
    "--repeats",
    type=WholeNumber(min=1),
    default=1,
    show_default=True,
    help="Executions of each candidate, which must all fail the same way.",
)
@models_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Eval set that gets the new case, created if it is missing; implies --write. Default: the one of the case.",
)
@click.option(
    "--write",
    is_flag=True,
    help="Keep the new case without asking. Without it nothing is kept if there is no terminal to ask in.",
)
@format_option
@click.option("--plain", is_flag=True, help="No progress line.")
def shrink(
    *,
    case: str,
    cases: tuple[str, ...],
    target: str | None,
    config: Path | None,
    criteria: tuple[str, ...],
    predicate: str | None,
    budget: int,
    repeats: int,
    models: str | None,
    output: Path | None,
    write: bool,
    report_format: str,
    plain: bool,
) -> int:
    """Find the smallest conversation, state and expected calls that fail the same way.

    Leaves out turns, then sentences of the user's messages, keys of the initial session state, and expected calls, as
    long as the case fails the same way: the same criteria, by the same kinds of differences (or see --predicate). The
    result is a new case, ID-small. The agent runs for each candidate; recorded model calls are replayed where requests
    are the same. Nothing else is written: no candidate is in the history.

    Exit status: 0 done; 1 the case does not fail, or not each time; 2 the command, configuration or a file is wrong;
    3 the case ended in ERROR, at first or during the search; 130 interrupted. With --write the smallest case is also
    kept if the search ends early: the budget is used up, the agent breaks, or you press Ctrl-C.
    """
    from workbench.cli.run_commands import open_workspace, select_cases
    from workbench.engine.case_variants import CaseExecutor
    from workbench.engine.plan import PlanError, RunOptions
    from workbench.engine.shrinking import (
        CandidateOutcome,
        FailureTest,
        Shrinker,
        explain_outcome,
        make_predicate_config,
    )
    from workbench.model.target import ModelMode
    from workbench.store.errors import StoreError

    if predicate is not None and criteria:
        raise click.UsageError("--predicate and --criterion exclude each other: a predicate replaces the criteria.")
    if budget < repeats:
        raise click.UsageError(f"--budget {budget}: expected at least the --repeats ({repeats}) of the case itself.")
    own_config = None if predicate is None else make_predicate_config(predicate)
    if output is not None:
        open_output(output)  # refuses an unusable file before anything runs
    options = RunOptions.model_validate({"config": config, "models": models, "models_by_default": ModelMode.AUTO})
    workspace, named = open_workspace((case,), target=target)
    selections = select_cases(workspace, named, cases=cases)
    with workspace, CaseExecutor(workspace, selections, options, config=own_config) as executor:
        for notice in executor.notices:
            message(notice)
        _say_cost(workspace, selections, budget, of="")
        test = FailureTest(predicate=predicate is not None, criteria=criteria)
        shrinker = Shrinker(executor=executor, test=test, budget=budget, repeats=repeats)
        is_text = report_format == "text"
        found = _run_shrinker(shrinker, budget=budget, shows_steps=is_text, plain=plain)
        if is_text:
            write_lines(_format_lines(found, budget=budget, repeats=repeats))
        kept: tuple[str, str] | None = None
        status = _get_status(found)
        try:  # the result is printed in any case
            if found.is_smaller and (write or output is not None or _confirm(found)):
                kept = _keep(workspace, found, output)
        except (PlanError, StoreError) as error:
            status = _report_unkept(error, found, is_text=is_text)
        except click.Abort:
            message("interrupted")
            status = INTERRUPTED
    if not is_text:
        write_record(_make_record(found, budget=budget, repeats=repeats, kept=kept))
    elif found.outcome is CandidateOutcome.SAME:
        write_lines([_format_end(found, kept)])
    if found.outcome is not CandidateOutcome.SAME and not found.is_interrupted:
        message(explain_outcome(found, repeats=repeats))
    if found.error:
        message(f"the search stopped, because the case ended in ERROR, which it did not before: {found.error}")
        return status or ERRORS
    return status


def _say_cost(workspace: Workspace, selections: Sequence[Selection], executions: int, *, of: str) -> None:
    """Say before a search begins what its executions may cost; nothing if they cost no money."""
    from workbench.cli.run_commands import format_cost
    from workbench.engine.plan import RunOptions
    from workbench.model.target import ModelMode

    options = RunOptions(runs=executions, models_by_default=ModelMode.AUTO)
    cost = workspace.estimate(workspace.plan(selections, options))
    if cost.live_model_jobs or cost.judges or cost.users:
        message(f"at most {pluralise(executions, 'execution')}{of}:", prefix="")
        for line in format_cost(cost):
            message(f"  {line}", prefix="")


def open_output(path: Path) -> EvalSetDocument:
    """Open the eval set that gets a new case; a missing one is created when it is saved.

    Raises PlanError and StoreError.
    """
    from workbench.engine.plan import PlanError
    from workbench.store.evalsets.case_frame import DocumentFormat
    from workbench.store.evalsets.evalset_document import EvalSetDocument
    from workbench.store.evalsets.new_evalsets import make_new_set_content
    from workbench.store.files import EVAL_SET_SUFFIXES, derive_set_name

    if not path.name.endswith(EVAL_SET_SUFFIXES):
        raise PlanError(f"--output {path}: expected a name that ends with {' or '.join(EVAL_SET_SUFFIXES)}")
    if not path.parent.is_dir():
        raise PlanError(f"--output {path}: the folder {path.parent} does not exist")
    if not path.exists():
        return EvalSetDocument(path, make_new_set_content(path, derive_set_name(path)), None)
    document = EvalSetDocument.open(path)
    if document.format is not DocumentFormat.CURRENT:
        raise PlanError(f"--output {path}: it has an old format; migrate it first (workbench eval-set migrate)")
    return document


def _run_shrinker(shrinker: Shrinker, *, budget: int, shows_steps: bool, plain: bool) -> Shrunk:
    """Shrink, with a progress line. With `shows_steps` each smaller case is a line on standard output."""
    from workbench.cli.printers import ProgressPrinter

    progress = ProgressPrinter(total=budget, shown=sys.stderr.isatty() and not plain)

    smallest: list[ShrinkStep] = []

    def report(step: ShrinkStep) -> None:
        for variant in step.variants:
            progress.count_case(variant.result.status)
        if shows_steps and (step.is_smallest or step.part is None):
            progress.print_lines([_format_step(step, smallest[-1] if smallest else None)])
            smallest.append(step)

    shrinker.report, shrinker.announce = report, progress.show_case
    promise = "the result is the smallest case so far"
    with progress, graceful_interrupt(shrinker.executor.cancel, announce=progress.announce, promise=promise):
        return shrinker.shrink()


def _get_status(found: Shrunk) -> int:
    from workbench.engine.shrinking import CandidateOutcome

    if found.is_interrupted:
        return INTERRUPTED
    if found.outcome is CandidateOutcome.SAME:
        return 0
    return ERRORS if found.outcome is CandidateOutcome.ERROR else _GONE


def _confirm(found: Shrunk) -> bool:
    """Ask whether to keep the case; without a terminal it is not kept."""
    place = one_line(found.case.eval_set)
    return is_interactive() and click.confirm(f"Keep the smaller case in {place}?", default=True, err=True)


def _keep(workspace: Workspace, found: Shrunk, output: Path | None) -> tuple[str, str]:
    """Keep the smallest case. Return the eval set and the id. Raises PlanError and StoreError."""
    from workbench.engine.set_files import keep_case
    from workbench.store.evalsets.evalset_document import EvalSetDocument

    # The file may have changed meanwhile.
    document = EvalSetDocument.open(workspace.root / found.case.eval_set) if output is None else open_output(output)
    eval_id = keep_case(document, found.data, after=found.case)
    return (found.case.eval_set if output is None else str(output)), eval_id


def _report_unkept(error: Exception, found: Shrunk, *, is_text: bool) -> int:
    """Report why the smallest case could not be kept, and print it, so that the search was not in vain."""
    from workbench.report.report_formats import dump

    message(str(error))
    if is_text:
        write_lines(["", "the smaller case, which is in no file:", dump(found.data, indent=2)])
    return WRONG


def _format_step(step: ShrinkStep, before: ShrinkStep | None) -> str:
    """Format the case itself, or a candidate that is smaller than the one `before`."""
    if step.part is None or before is None:
        return f"{step.executions:>4}  the case itself: {step.outcome.value}"
    return f"{step.executions:>4}  {step.part.value}: {before.sizes[step.part]} -> {step.sizes[step.part]}"


def _format_lines(found: Shrunk, *, budget: int, repeats: int) -> Iterator[str]:
    from workbench.engine.case_variants import explain_changed_files
    from workbench.engine.shrinking import CandidateOutcome, explain_untried, format_numbers, measure_case

    if found.outcome is CandidateOutcome.SAME:
        yield ""
        yield one_line(f"{found.case} fails:")
        yield from (f"  {one_line(str(symptom))}" for symptom in sorted(found.failure.symptoms))
        before, after = measure_case(found.original), measure_case(found.data)
        for part, size in before.items():
            numbers = f"  ({format_numbers(found.turns)})" if part.value == "turns" else ""
            yield f"  {part.value:<14}  {size:>3} -> {after[part]}{numbers}"
    used = pluralise(found.executions, "execution")
    yield f"{used} of {budget}" + (f", {repeats} for each candidate" if repeats > 1 else "")
    if untried := explain_untried(found):
        yield untried
    if found.changed_files:
        yield one_line(explain_changed_files(found.changed_files))


def _format_end(found: Shrunk, kept: tuple[str, str] | None) -> str:
    """Format where the smaller case is kept, if it is."""
    if kept is not None:
        return one_line(f"kept as {kept[1]} in {kept[0]}")
    if found.is_smaller:
        return "nothing was kept; --write keeps it as a new case"
    reason = "no smaller case was found" if found.untried else "nothing can be left out"
    return f"{reason}; nothing was kept"


def _make_record(found: Shrunk, *, budget: int, repeats: int, kept: tuple[str, str] | None) -> dict[str, Any]:
    from workbench.engine.shrinking import measure_case
    from workbench.report.report_formats import SCHEMA_VERSION

    def sizes(data: CaseData) -> dict[str, int]:
        return {part.name.lower(): size for part, size in measure_case(data).items()}

    return {
        "schema_version": SCHEMA_VERSION,
        **found.case.model_dump(),
        "outcome": None if found.outcome is None else found.outcome.name.lower(),
        "failure": [symptom._asdict() for symptom in sorted(found.failure.symptoms)],
        "before": sizes(found.original),
        "after": sizes(found.data),
        "turns": [turn + 1 for turn in found.turns],
        "executions": found.executions,
        "budget": budget,
        "repeats": repeats,
        "untried": [part.name.lower() for part in found.untried],
        "interrupted": found.is_interrupted,
        "changed_files": list(found.changed_files),
        "kept_as": None if kept is None else {"eval_set": kept[0], "eval_id": kept[1]},
        "case": found.data,
        "steps": [
            {
                "part": None if step.part is None else step.part.name.lower(),
                "left_out": list(step.left_out),
                "sizes": sizes(step.data),
                "outcome": step.outcome.name.lower(),
                "executions": step.executions,
                "seconds": round(step.seconds, 3),
            }
            for step in found.steps
        ],
    }


# `workbench why`


@click.command()
@click.argument("case", metavar="SET[:CASE]", shell_complete=complete_what)
@case_option
@target_option
@config_option
@click.option("--line", "by_line", is_flag=True, help="Leave out single lines instead of paragraphs.")
@click.option("--budget", type=WholeNumber(min=2), default=60, show_default=True, help="Maximum executions.")
@click.option(
    "--repeats",
    type=WholeNumber(min=1),
    default=3,
    show_default=True,
    help="Executions with the whole instruction, and without each part while the budget suffices.",
)
@models_option
@format_option
@click.option("--plain", is_flag=True, help="No progress line.")
def why(
    *,
    case: str,
    cases: tuple[str, ...],
    target: str | None,
    config: Path | None,
    by_line: bool,
    budget: int,
    repeats: int,
    models: str | None,
    report_format: str,
    plain: bool,
) -> int:
    """Find which parts of the instruction matter for a case, by leaving out one at a time.

    The case runs with the whole instruction, then without each paragraph, or with --line without each line. A part
    matters if the verdict changes without it, a score leaves the range that the whole instruction has, or the case
    fails in another way. Instructions of ADK agents are replaced in the process of the agent. For others, and for
    computed instructions, the prompts are the text files and constants that the case used, and the agent runs in a
    temporary copy of the project. Your files do not change, and nothing is in the history.

    Exit status: 0 done; 2 the command, configuration or a file is wrong; 3 the case ended in ERROR with the whole
    instruction, at first or during the search; 130 interrupted.
    """
    from workbench.cli.printers import ProgressPrinter
    from workbench.cli.run_commands import open_workspace, select_cases
    from workbench.engine.ablation import Ablation
    from workbench.engine.case_variants import CaseExecutor
    from workbench.engine.plan import RunOptions
    from workbench.model.target import ModelMode

    if budget <= repeats:
        raise click.UsageError(f"--budget {budget}: expected more than the --repeats ({repeats}) of the case itself.")
    options = RunOptions.model_validate(
        {"config": config, "models": models, "models_by_default": ModelMode.AUTO, "isolation": "case"}
    )
    workspace, named = open_workspace((case,), target=target)
    selections = select_cases(workspace, named, cases=cases)
    with workspace, CaseExecutor(workspace, selections, options) as executor:
        for notice in executor.notices:
            message(notice)
        _say_cost(workspace, selections, budget, of="")
        progress = ProgressPrinter(total=budget, shown=sys.stderr.isatty() and not plain)
        ablation = Ablation(
            executor=executor,
            by_line=by_line,
            budget=budget,
            repeats=repeats,
            count=progress.count_case,
            announce=progress.show_case,
        )
        found = _run_ablation(ablation, progress, shows_effects=report_format == "text")
    if report_format == "text":
        write_lines(_format_closing(found, budget=budget))
    else:
        write_record(_make_ablation_record(found, budget=budget, repeats=repeats))
    if found.is_error:
        failures = [each.result.failure for each in found.whole.variants if each.result.failure is not None]
        why_not = f": {failures[0].message}" if failures else ""
        message(f"{found.case} ended in ERROR with the whole instruction{why_not}")
    if found.error:
        message(f"the search stopped, because the case ends in ERROR now, which it did not before: {found.error}")
    return INTERRUPTED if found.is_interrupted else ERRORS if found.is_error or found.error else 0


def _run_ablation(ablation: Ablation, progress: ProgressPrinter, *, shows_effects: bool) -> Ablated:
    """Run an ablation, with a progress line. With `shows_effects` each effect is printed as soon as it is known."""
    place: list[tuple[str, str]] = []

    def report_whole(whole: AblationExecutions) -> None:
        progress.print_lines([one_line(f"{ablation.executor.key}: {whole.describe_whole()}")])

    def report(effect: BlockEffect) -> None:
        heading = effect.block.agent, effect.block.field
        lines = [] if heading in place else ["", one_line(f"{heading[0]}, {heading[1]}")]
        place.append(heading)
        progress.print_lines([*lines, *_format_effect(effect)])

    if shows_effects:
        ablation.report_whole, ablation.report = report_whole, report
    promise = "the result is what is known so far"
    with progress, graceful_interrupt(ablation.executor.cancel, announce=progress.announce, promise=promise):
        return ablation.run()


def _format_effect(found: BlockEffect) -> Iterator[str]:
    from workbench.engine.ablation import Effect

    block = found.block
    lines = str(block.first_line) if block.first_line == block.last_line else f"{block.first_line}-{block.last_line}"
    first = redact(block.text).strip().split("\n")[0]
    shown = one_line(first, width=_LONGEST_LINE)
    more = " …" if block.last_line > block.first_line and not shown.endswith("…") else ""
    yield f"  {lines:>7}  {found.effect.value:<20}  {shown}{more}"
    if found.effect is Effect.UNUSED:
        return
    notes = [f"{found.without.describe()} without it"]
    if found.effect is not Effect.NONE:
        notes += map(str, sorted(found.without.symptoms))
    notes += [each.result.failure.message for each in found.without.variants[:1] if each.result.failure is not None]
    for name in found.changed:
        scores = found.without.score_ranges.get(name)
        text = "no score" if scores is None else f"{scores[0]:.2f}"
        notes.append(f"{name}: {text}" + (f" to {scores[1]:.2f}" if scores and scores[0] != scores[1] else ""))
    yield from (f"{'':11}{one_line(redact(note))}" for note in notes)


_LONGEST_LINE = 80


def _format_closing(found: Ablated, *, budget: int) -> Iterator[str]:
    from workbench.engine.case_variants import explain_changed_files

    yield ""
    yield f"{pluralise(found.executions, 'execution')} of {budget}"
    if found.untried and not found.is_error:
        yield f"not tried ({found.reason_untried}): {pluralise(found.untried, 'part')} of the instruction"
    if found.changed_files:
        yield one_line(explain_changed_files(found.changed_files))
    for sentence in found.unknown:
        yield one_line(f"not tried: {sentence}")


def _make_ablation_record(found: Ablated, *, budget: int, repeats: int) -> dict[str, Any]:
    from workbench.report.report_formats import SCHEMA_VERSION

    def describe(executions: AblationExecutions) -> dict[str, Any]:
        return {
            "executions": len(executions.variants),
            "statuses": {status.value: number for status, number in executions.statuses.items()},
            "replayed": executions.replayed,
            "scores": {name: list(scores) for name, scores in executions.score_ranges.items()},
            "failure": [symptom._asdict() for symptom in sorted(executions.symptoms)],
        }

    return {
        "schema_version": SCHEMA_VERSION,
        **found.case.model_dump(),
        "executions": found.executions,
        "budget": budget,
        "repeats": repeats,
        "interrupted": found.is_interrupted,
        "unknown": list(found.unknown),
        "changed_files": list(found.changed_files),
        "whole": describe(found.whole),
        "parts": [
            {
                **each.block._asdict(),
                "text": redact(each.block.text),
                "effect": each.effect.name.lower(),
                "changed": list(each.changed),
            }
            | {"without": describe(each.without)}
            for each in found.effects
        ],
    }
