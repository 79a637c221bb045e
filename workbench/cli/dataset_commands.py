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


# `workbench dataset ...`: look through datasets, and convert them.

_FOUND = 1
_UNREAD = 1
SCHEMA_VERSION = 1


@click.group(cls=SummaryGroup)
def dataset() -> None:
    """Look through datasets, and convert them."""


@dataset.command()
@dataset_argument
@columns_option
@click.option("--agent", metavar="TARGET", help="Also name tools that this agent does not have.")
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of what is found."
)
def lint(*, dataset: Path | str, columns: dict[str, str], agent: str | None, report_format: str) -> int:
    """Name the rows of a dataset that are probably not meant, and why.

    Found are rows that cannot be read, missing references, empty trajectories, values as Python prints them, rows and
    ids that stand twice, tools that the agent does not have, and tools of one trajectory alone with almost the name of
    another.

    Exits with 1 where something was found, with 2 where nothing of the dataset can be read.
    """
    from workbench.model.text import neutralise, pluralise, redact
    from workbench.store.datasets.dataset_lint import lint as look_through
    from workbench.store.datasets.dataset_reader import read_dataset

    read = read_dataset(dataset, columns=columns)
    found = look_through(read, tools=None if agent is None else _tools_of(agent, dataset))
    if report_format == "json":
        write_document(_as_json(read, found))
    else:
        write_lines(redact(neutralise(_line(read, finding))) for finding in found)
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
    help="Content of the new file if its name does not say: messages are a column of rows.",
)
@click.option(
    "--side",
    type=click.Choice(["reference", "response"]),
    help="Side of the rows to write as eval set or messages: the expected or the actual one.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file; DATASET itself only if nothing is lost.")
def convert(
    *, dataset: Path | str, to: Path, columns: dict[str, str], form: Form | None, side: Side | None, force: bool
) -> int:
    """Write a dataset, or an eval set, in another format: the name of TO tells which.

    Rows are .jsonl, .csv, .json or .parquet, eval sets *.evalset.json or *.test.json; with --to openai or langchain the
    rows are lists of messages. What the new format cannot hold is reported.

    Exits with 1 where rows or cases were left out because they cannot be read; the others are written.
    """
    from workbench.engine.conversion import convert as converted
    from workbench.engine.conversion import form_of
    from workbench.model.text import neutralise, pluralise
    from workbench.store.files import write_atomic, write_new

    if to.exists() and not force:
        raise click.UsageError(f"{to} is there already; --force overwrites it.")
    result = converted(dataset, to, form=form or form_of(to), side=side, columns=columns)
    if result.losses and isinstance(dataset, Path) and to.exists() and to.samefile(dataset):
        raise click.UsageError(f"{to} is the dataset itself; name another file. It would lose this: {result.losses[0]}")
    if force:
        write_atomic(to, result.content)
    else:
        write_new(to, result.content)
    write_lines([neutralise(f"{to}: {pluralise(result.number, 'case')} written")])
    for line in result.losses:
        message(f"lost: {line}", prefix="")
    return _UNREAD if result.unread else 0


def _tools_of(agent: str, dataset: Path | str) -> frozenset[str]:
    from workbench.engine.project_selection import root_of
    from workbench.engine.workspace import Workspace

    with Workspace.open(root_of([dataset.resolve()] if isinstance(dataset, Path) else [])) as workspace:
        return workspace.tools_of(agent)


def _line(read: Dataset, finding: Finding) -> str:
    from workbench.store.errors import shown_path

    place = shown_path(read.source)
    if finding.line is not None:
        place += f":{finding.line}:{finding.column or 1}"
    row = "" if finding.row is None else f"row {finding.row}: "
    return f"{place}: {row}{finding.rule}: {finding.message}"


def _as_json(read: Dataset, found: list[Finding]) -> str:
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


# What `workbench doctor --check` says of datasets elsewhere: whether they can be opened.

_PATIENCE = 10.0  # seconds for all of them: they are asked at the same time


def reach_addresses(entries: Iterable[EvalSetEntry]) -> Mapping[str, str | None]:
    """Why a set that is an address cannot be read, by what the set is called; None where it can be."""
    addresses = {entry.relative: entry.address for entry in entries if entry.address is not None}
    answers: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
    for name, address in addresses.items():
        # Clients of storages cannot be interrupted: one that hangs is left behind.
        threading.Thread(target=_reach, args=(name, address, answers), daemon=True).start()
    silent = f"cannot read it: no answer within {_PATIENCE:g} s"
    found: dict[str, str | None] = {name: f"{name}: {silent}" for name in addresses}
    until = time.monotonic() + _PATIENCE
    for _ in addresses:
        try:
            name, problem = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        found[name] = problem
    return found


def _reach(name: str, address: str, answers: SimpleQueue[tuple[str, str | None]]) -> None:
    from workbench.store.datasets.dataset_reader import check_dataset_reachable
    from workbench.store.datasets.remote_data import describe_error
    from workbench.store.errors import StoreError

    problem = None
    try:
        check_dataset_reachable(address)
    except StoreError as error:
        problem = error.format_with_name(name)
    except Exception as error:  # clients of storages raise what they like
        problem = f"{name}: cannot read it: {describe_error(error)}"
    answers.put((name, problem))
