"""`workbench dialects`: what ADK, Vertex AI and agentevals say of the same tool calls, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.history import path_option
from workbench.cli.options import FILE, case_option

if TYPE_CHECKING:
    from workbench.model.keys import CaseAt
    from workbench.report.dialects import NamedDialects

_AGREE, _DISAGREE, _UNREADABLE = 0, 1, 2


@click.command()
@click.argument("what", metavar="[DATASET|RUN]", default="latest")
@case_option
@click.option("--expected", type=FILE, help="The eval set to compare DATASET, an eval set of recorded sessions, with.")
@click.option("--disagreements", "only_disagreements", is_flag=True, help="Show only where the dialects disagree.")
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
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
    """Show what ADK, Vertex AI and agentevals say of the same tool calls.

    DATASET is that of `workbench score`: rows with predicted_trajectory and reference_trajectory, or an eval set of
    recorded sessions with --expected. RUN is the id of a run, the start of an id, or `latest`. No agent runs. The
    output has the score of each dialect and the reason for each disagreement. Below it says how each dialect treats
    duplicates, empty trajectories, arguments and several turns.

    Exit status: 0 all dialects agree; 1 some disagree; 2 the command, a file or a row is wrong.
    """
    from workbench.cli.streams import message, write_document, write_lines
    from workbench.report.dialects import dialect_lines, dialect_record
    from workbench.report.json_format import dump

    file = Path(what)
    if expected is not None and not file.is_file():
        raise click.UsageError("--expected needs an eval set of recorded sessions to hold against it.")
    unread: dict[CaseAt, str] = {}
    problems: list[str] = []
    found = list(_of_dataset(file, expected, unread, problems) if file.is_file() else _of_run(what, path))
    chosen = _chosen([*(each.at for each in found), *unread], cases, where=what)
    found = [each for each in found if each.at in chosen]
    problems += [problem for at, problem in unread.items() if at in chosen]
    for problem in problems:
        message(problem)
    if report_format == "json":
        write_document(dump(dialect_record(found), indent=2) + "\n")
    else:
        write_lines(dialect_lines(found, only_disagreements=only_disagreements))
    if problems:
        return _UNREADABLE
    return _DISAGREE if any(case.dialects.disagreements for case in found) else _AGREE


def _of_dataset(
    file: Path, expected: Path | None, unread: dict[CaseAt, str], problems: list[str]
) -> Iterator[NamedDialects]:
    """The rows that can be read; what is wrong with the others goes to `unread`, with the files to `problems`."""
    from workbench.metrics.dialects import dialects_of
    from workbench.metrics.subject import CaseView, JudgedCase
    from workbench.report.dialects import NamedDialects
    from workbench.store.datasets import read_recorded

    recorded = read_recorded(file, expected=expected)
    problems += recorded.problems
    for each in recorded.cases:
        if each.problem is not None:
            unread[each.eval_id, each.occurrence] = each.problem
            continue
        turns = (each.case.conversation if each.case is not None else None) or ()
        judged = JudgedCase(case=each.case, expected=turns, execution=each.execution, columns=each.columns)
        yield NamedDialects((each.eval_id, each.occurrence), dialects_of(CaseView(judged)))


def _of_run(run: str, path: Path) -> Iterator[NamedDialects]:
    from workbench.cli.stored import stored_report
    from workbench.metrics.dialects import dialects_of
    from workbench.metrics.subject import CaseView, JudgedCase
    from workbench.report.dialects import NamedDialects
    from workbench.store.discovery import find_root

    for case in stored_report(find_root(path), run).cases:
        turns = (case.expected.conversation if case.expected is not None else None) or ()
        result = case.result
        judged = JudgedCase(case=case.expected, expected=turns, execution=result.execution, is_row=result.is_row)
        key = case.result.case
        yield NamedDialects((key.eval_id, key.occurrence), dialects_of(CaseView(judged)), case.result.repeat)


def _chosen(found: Sequence[CaseAt], cases: tuple[str, ...], *, where: str) -> Set[CaseAt]:
    """Those that were asked for. Raises PlanError for a case that is not there."""
    from workbench.engine.plan import PlanError
    from workbench.model.keys import cases_by_name
    from workbench.model.text import did_you_mean

    if not cases:
        return frozenset(found)
    known = cases_by_name(found)
    unknown = [case for case in cases if case not in known]
    if unknown:
        raise PlanError(*(f"{where} has no case {each!r}{did_you_mean(each, known)}" for each in unknown))
    return frozenset(at for case in cases for at in known[case])
