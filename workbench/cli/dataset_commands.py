"""The command `dataset`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import click

from workbench.cli.console import message, write_document, write_lines
from workbench.cli.shared_options import SummaryGroup, columns_option, dataset_argument

if TYPE_CHECKING:
    from workbench.engine.conversion import Form, Side
    from workbench.store.datasets.dataset_lint import Finding
    from workbench.store.datasets.dataset_rows import Dataset
    from workbench.store.project_discovery import EvalSetEntry


# `workbench dataset`

_FOUND = 1
_UNREAD = 1
SCHEMA_VERSION = 1


@click.group(cls=SummaryGroup)
def dataset() -> None:
    """Check and convert datasets."""


@dataset.command()
@dataset_argument
@columns_option
@click.option("--agent", metavar="TARGET", help="Also report tools that this agent does not have.")
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the findings."
)
def lint(*, dataset: Path | str, columns: dict[str, str], agent: str | None, report_format: str) -> int:
    """Report rows of a dataset that are probably wrong, and why.

    Reported are unreadable rows, missing references, empty trajectories, values in Python syntax, duplicate rows and
    ids, tools that the agent does not have, and tools whose name occurs once and is almost that of another tool.

    Exit status: 0 nothing found; 1 something found; 2 the dataset cannot be read.
    """
    from workbench.model.text import neutralise, pluralise, redact
    from workbench.store.datasets.dataset_files import read_dataset
    from workbench.store.datasets.dataset_lint import lint as look_through

    read = read_dataset(dataset, columns=columns)
    found = look_through(read, tools=None if agent is None else _read_tools(agent, dataset))
    if report_format == "json":
        write_document(_format_json(read, found))
    else:
        write_lines(redact(neutralise(_format_finding(read, finding))) for finding in found)
        rows = len({finding.row for finding in found if finding.row is not None})
        message(
            f"{pluralise(len(read.rows), 'row')}: "
            + (f"{pluralise(len(found), 'finding')} in {pluralise(rows, 'row')}" if found else "nothing found")
        )
    return _FOUND if found else 0


@dataset.command()
@dataset_argument
@click.argument("to", type=click.Path(dir_okay=False, path_type=Path))
@columns_option
@click.option(
    "--to",
    "form",
    type=click.Choice(["rows", "evalset", "openai", "langchain"]),
    help="Content of the new file. Default: from its name. Messages become a column of rows.",
)
@click.option(
    "--side",
    type=click.Choice(["reference", "response"]),
    help="Side of the rows to convert to an eval set or messages: expected or actual.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file; DATASET itself only if nothing is lost.")
def convert(
    *, dataset: Path | str, to: Path, columns: dict[str, str], form: Form | None, side: Side | None, force: bool
) -> int:
    """Write a dataset, or an eval set, in another format, chosen by the name of TO.

    Rows are .jsonl, .csv, .json or .parquet, eval sets *.evalset.json or *.test.json; with --to openai or langchain the
    rows are lists of messages. Values that the new format cannot contain are reported.

    Exit status: 0 done; 1 unreadable rows or cases were skipped, and the others written; 2 nothing was written.
    """
    from workbench.engine.conversion import convert as converted
    from workbench.engine.conversion import guess_form
    from workbench.model.text import neutralise, pluralise
    from workbench.store.files import write_atomic, write_new

    if to.exists() and not force:
        raise click.UsageError(f"{to} already exists; --force overwrites it.")
    result = converted(dataset, to, form=form or guess_form(to), side=side, columns=columns)
    if result.losses and isinstance(dataset, Path) and to.exists() and to.samefile(dataset):
        raise click.UsageError(f"{to} is the dataset itself; name another file. Data would be lost: {result.losses[0]}")
    if force:
        write_atomic(to, result.content)
    else:
        write_new(to, result.content)
    write_lines([neutralise(f"{to}: {pluralise(result.number, 'case')} written")])
    for line in result.losses:
        message(f"lost: {line}", prefix="")
    return _UNREAD if result.unread else 0


def _read_tools(agent: str, dataset: Path | str) -> frozenset[str]:
    from workbench.engine.project_selection import find_common_root
    from workbench.engine.workspace import Workspace

    with Workspace.open(find_common_root([dataset.resolve()] if isinstance(dataset, Path) else [])) as workspace:
        return workspace.list_tools(agent)


def _format_finding(read: Dataset, finding: Finding) -> str:
    from workbench.store.errors import shown_path

    place = shown_path(read.source)
    if finding.line is not None:
        place += f":{finding.line}:{finding.column or 1}"
    row = "" if finding.row is None else f"row {finding.row}: "
    return f"{place}: {row}{finding.rule}: {finding.message}"


def _format_json(read: Dataset, found: list[Finding]) -> str:
    from dataclasses import asdict

    from workbench.report.report_formats import dump
    from workbench.store.errors import shown_path

    record = {
        "schema_version": SCHEMA_VERSION,
        "dataset": shown_path(read.source),
        "rows": len(read.rows),
        "findings": [asdict(finding) for finding in found],
    }
    return dump(record, indent=2) + "\n"


# Remote datasets, checked by `workbench doctor --check`.

_PATIENCE = 10.0  # seconds; all datasets are checked in parallel


def check_remote_datasets(entries: Iterable[EvalSetEntry]) -> Mapping[str, str | None]:
    """Return by name why a remote dataset cannot be read; None if it can."""
    addresses = {entry.relative: entry.address for entry in entries if entry.address is not None}
    answers: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
    for name, address in addresses.items():
        # Storage clients cannot be interrupted: a thread that hangs is abandoned.
        threading.Thread(target=_check_dataset, args=(name, address, answers), daemon=True).start()
    no_answer = f"cannot read it: no answer within {_PATIENCE:g} s"
    found: dict[str, str | None] = {name: f"{name}: {no_answer}" for name in addresses}
    until = time.monotonic() + _PATIENCE
    for _ in addresses:
        try:
            name, problem = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        found[name] = problem
    return found


def _check_dataset(name: str, address: str, answers: SimpleQueue[tuple[str, str | None]]) -> None:
    from workbench.store.datasets.dataset_files import check_dataset_reachable
    from workbench.store.datasets.remote_data import describe_error
    from workbench.store.errors import StoreError

    problem = None
    try:
        check_dataset_reachable(address)
    except StoreError as error:
        problem = error.format_with_name(name)
    except Exception as error:  # storage clients raise many types
        problem = f"{name}: cannot read it: {describe_error(error)}"
    answers.put((name, problem))
