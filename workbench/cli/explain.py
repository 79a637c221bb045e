"""`workbench explain`: why a case would run after the last changes, or would not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from workbench.cli.options import case_options

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.model.dependencies import Dependency
    from workbench.watch.selection import Decision

_WRONG = 2


@click.command()
@case_options
@click.option("--verbose", is_flag=True, help="List everything that the verdict depends on.")
def explain(*, what: tuple[str, ...], cases: tuple[str, ...], target: str | None, verbose: bool) -> int:
    """Say why a case would run after the last changes, or would not.

    The arguments are those of `workbench run`. Nothing runs. A verdict stays current until something changes that the
    case used: code that ran, modules, files, folders, environment variables, packages, or the case itself.
    """
    from workbench.cli.run import open_workspace, plan_of, selections_of
    from workbench.cli.streams import message, write_lines
    from workbench.engine.plan import RunOptions
    from workbench.watch.affected import decide_plan

    workspace, named = open_workspace(what, target=target)
    with workspace:
        workspace.stay_offline()
        plan = plan_of(workspace, selections_of(workspace, named, cases=cases), RunOptions())
        problems = plan.file_problems
        for text in (*plan.notices, *problems):
            message(text)
        for decision in decide_plan(workspace, plan):
            write_lines(_lines(workspace, decision, verbose=verbose))
    return _WRONG if problems else 0


def _lines(workspace: Workspace, decision: Decision, *, verbose: bool) -> Iterator[str]:
    from workbench.model.text import neutralise
    from workbench.report.wording import PARTLY_JUDGED
    from workbench.watch.reasons import words_of
    from workbench.watch.selection import Action
    from workbench.watch.state import State

    does = {
        Action.NOTHING: "would not run: its verdict holds",
        Action.JUDGE: "would only be judged again",
        Action.RUN: "would run",
        Action.WAIT: "waits until its source can be compiled",
        Action.LEAVE: "would not run in watch mode; `workbench run --affected` runs it",
    }
    state = State()
    repeat = f" [{decision.job.repeat + 1}]" if decision.job.repeat else ""
    is_recorded = decision.planned.is_recorded
    would = "would be judged" if is_recorded and decision.action is Action.JUDGE else does[decision.action]
    yield neutralise(f"{decision.job.case}{repeat}: {would}")
    for reason in decision.reasons:
        yield neutralise(f"  because {words_of(reason, root=workspace.root, state=state)}")
    verdict = decision.verdict
    if verdict is None:
        return
    ended = f"{verdict.job.finished_at.astimezone():%Y-%m-%d %H:%M:%S}"
    partly = f", {PARTLY_JUDGED}" if verdict.job.misses_samples else ""
    yield neutralise(f"  last verdict: {verdict.job.status.value}, {ended}, run {verdict.job.run_id}{partly}")
    number = verdict.scored_with if is_recorded else verdict.dependencies
    rows = () if number is None else workspace.verdicts.rows_of(number)
    nothing = "nothing but what was recorded and its criteria" if is_recorded else "nothing that is known"
    yield from _dependencies(workspace, rows, nothing=nothing, verbose=verbose)


def _dependencies(workspace: Workspace, rows: Sequence[int], *, nothing: str, verbose: bool) -> Iterator[str]:
    """How many rows of each kind there are, and with `verbose` all of them."""
    from workbench.model.text import neutralise
    from workbench.watch.reasons import noun_of

    found = sorted((workspace.verdicts.row(row) for row in rows), key=lambda row: (noun_of(row.kind), row.key))
    counts = Counter(noun_of(row.kind) for row in found)
    kinds_of = {noun_of(row.kind): row.kind for row in found}
    kinds = ", ".join(f"{count} {noun_of(kinds_of[noun], count=count)}" for noun, count in sorted(counts.items()))
    yield f"  it depends on: {kinds or nothing}"
    if verbose:
        prefix = f"{workspace.root}/"
        width = max(map(len, counts), default=0)
        yield from (neutralise(f"    {noun_of(row.kind):<{width}}  {_shown_key(row, prefix)}") for row in found)


def _shown_key(row: Dependency, prefix: str) -> str:
    from workbench.model.dependencies import DependencyKind

    key = row.key.replace(prefix, "")
    if row.kind != DependencyKind.IMPORT:
        return key
    folder, _, names = key.rpartition("::")
    return f"{names.replace(',', ', ')} looked for in {folder}"
