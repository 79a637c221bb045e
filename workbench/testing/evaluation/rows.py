"""The rows of a task: a dataset of any kind, its prompts, and its rows as the cases that the engine judges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from workbench.metrics.judges.variables import fill_in, names_in, text_of
from workbench.model.text import did_you_mean
from workbench.store.datasets import (
    Dataset,
    Recorded,
    Row,
    dataset_of_columns,
    dataset_of_frame,
    dataset_of_rows,
    is_address,
    read_dataset,
    rows_as_recorded,
)
from workbench.store.errors import StoreError, shown_path
from workbench.store.names import EVAL_SET_SUFFIXES
from workbench.testing.evaluation.problems import EvaluationError

RESPONSE, TRAJECTORY, LATENCY, FAILURE = "response", "predicted_trajectory", "latency_in_seconds", "failure"
OUTPUTS = (RESPONSE, LATENCY, FAILURE, TRAJECTORY)
"""The columns that an agent fills, in the order in which they stand in tables."""

_IN_MEMORY = "dataset"


@dataclass(frozen=True)
class Rows:
    """What is to be judged. `frame` is the pandas frame that the rows came from, if they did, without the columns that
    have become others since; `source` names the dataset in messages."""

    source: Path | str
    rows: tuple[Row, ...]
    frame: Any = None

    @cached_property
    def columns(self) -> dict[str, None]:
        """The names of all columns, in the order in which they appear."""
        return dict.fromkeys(name for row in self.rows for name in row.columns)

    @property
    def name(self) -> str:
        """The name of the dataset, without its folder."""
        return PurePath(self.source).name

    @property
    def place(self) -> str:
        """Where the dataset is, for people."""
        return "in memory" if self.source == _IN_MEMORY else shown_path(self.source)

    def with_prompts(self, template: str) -> Rows:
        """The rows with prompts made of their columns. Raises EvaluationError for a variable that is no column."""
        known = self.columns
        variables = names_in(template)
        for variable in variables:
            if variable not in known:
                expected = f"a column of the dataset{did_you_mean(variable, known)}"
                raise EvaluationError(f"prompt_template: found the variable {variable!r}, expected {expected}")
        rows = tuple(_with_prompt(row, template, variables, self.source) for row in self.rows)
        return replace(self, rows=rows, frame=_without(self.frame, ["prompt"]))

    def to_ask(self) -> Rows:
        """The rows without what agents answered to them before. Raises EvaluationError where they have no prompts."""
        if "prompt" not in self.columns:
            found = ", ".join(list(self.columns)[:8]) or "none"
            expected = "'prompt', or a prompt_template that makes one"
            raise EvaluationError(f"{self.source}: found the columns {found}, expected {expected}")
        rows = tuple(_to_ask(row, self.source) for row in self.rows)
        return replace(self, rows=rows, frame=_without(self.frame, OUTPUTS))

    def without_scores(self, metrics: Collection[str]) -> Rows:
        """The rows without the columns of these metrics, such as the table of an earlier result has them."""
        prefixes = tuple(f"{metric}/" for metric in metrics)
        scores = [name for name in self.columns if name.startswith(prefixes)]
        if not scores:
            return self
        rows = tuple(
            row._replace(columns={name: value for name, value in row.columns.items() if name not in scores})
            for row in self.rows
        )
        return replace(self, rows=rows, frame=_without(self.frame, scores))

    def with_column(self, name: str, values: Sequence[Any]) -> Rows:
        """The rows with one more column."""
        pairs = zip(self.rows, values, strict=True)
        rows = tuple(row._replace(columns={**row.columns, name: value}) for row, value in pairs)
        return replace(self, rows=rows, frame=_without(self.frame, [name]))

    def as_recorded(self) -> Recorded:
        """The rows as cases."""
        return Recorded(self.source, self.name, rows_as_recorded(Dataset(self.source, self.rows)))


def read_rows(dataset: Any, mapping: Mapping[str, str]) -> Rows:
    """The rows of a file, a pandas frame, a dict of columns or a list of rows.

    `mapping` says for columns that have a meaning which names they have in the dataset. Raises EvaluationError.
    """
    columns = {known: name for known, name in mapping.items() if known != name}
    try:
        if isinstance(dataset, str | Path):
            return _of(_read(dataset, columns))
        if hasattr(dataset, "iloc") and hasattr(dataset, "columns"):
            rows = _of(dataset_of_frame(dataset, columns=columns, name=_IN_MEMORY))
            return replace(rows, frame=_without(dataset.copy(deep=False), columns))
        if isinstance(dataset, Mapping):
            return _of(dataset_of_columns(_listed(dataset), columns=columns, name=_IN_MEMORY))
        if isinstance(dataset, Sequence):
            return _of(dataset_of_rows(dataset, columns=columns, name=_IN_MEMORY))
    except StoreError as error:
        raise EvaluationError(str(error)) from None
    expected = "a file, a pandas DataFrame, a dict of columns or a list of rows"
    raise EvaluationError(f"dataset: found a {type(dataset).__name__}, expected {expected}")


def _read(source: str | Path, columns: Mapping[str, str]) -> Dataset:
    if isinstance(source, str) and is_address(source):
        return read_dataset(source, columns=columns)
    path = Path(source)
    if path.name.endswith(EVAL_SET_SUFFIXES):
        raise StoreError(path, "is an eval set, expected a dataset; `workbench run` runs eval sets")
    return read_dataset(path, columns=columns)


def _of(dataset: Dataset) -> Rows:
    if not dataset.rows:
        raise EvaluationError(f"{dataset.source}: found no rows, expected at least one")
    return Rows(dataset.source, dataset.rows)


def _listed(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns of any kind that can be gone through, such as a pandas series."""
    listed = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise EvaluationError(
                f"dataset: {name}: found a {type(values).__name__}, expected a list with a value for each row"
            )
        listed[str(name)] = list(values)
    return listed


def _without(frame: Any, names: Iterable[str]) -> Any:
    return None if frame is None else frame.drop(columns=list(names), errors="ignore")


def _with_prompt(row: Row, template: str, variables: Sequence[str], source: Path | str) -> Row:
    missing = [name for name in variables if row.columns.get(name) is None]
    if missing:
        error = StoreError(source, place=f"row {row.number}: {missing[0]}", found="nothing", expected="a value")
        return row._replace(problems=(*row.problems, error))
    prompt = fill_in(template, {name: text_of(row.columns[name]) for name in variables})
    return row._replace(prompt=prompt, columns={**row.columns, "prompt": prompt})


def _to_ask(row: Row, source: Path | str) -> Row:
    problems = row.problems
    if row.prompt is None and not problems:
        problems = (StoreError(source, place=f"row {row.number}: prompt", found="nothing", expected="text"),)
    columns = {name: value for name, value in row.columns.items() if name not in OUTPUTS}
    return row._replace(response=None, predicted_trajectory=None, columns=columns, problems=problems)
