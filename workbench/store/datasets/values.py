"""Datasets that are in memory: pandas frames, lists of rows, and dicts of columns."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.model.text import counted
from workbench.store.datasets.columns import Columns
from workbench.store.datasets.reading import dataset_of
from workbench.store.datasets.rows import Dataset, Fault, Record, broken_record
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from pandas import DataFrame


_PLAIN = frozenset((type(None), bool, str, int, float))


def dataset_of_frame(frame: DataFrame, *, columns: Columns | None = None, name: str = "data frame") -> Dataset:
    """The rows of a pandas frame, in its order and whatever its index.

    Values of numpy and pandas become JSON values, and what is missing (NaN, None, NA, NaT) None. `columns` as in
    `read_dataset`; `name` is what errors call the frame. Raises StoreError where nothing can be read.
    """
    names = [str(column) for column in frame.columns]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise StoreError(name, found=f"the column {twice[0]!r} twice", expected="columns of different names")
    labels = frame.index.tolist()
    values = [frame.iloc[:, position].tolist() for position in range(len(names))]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
    shown = [f"row {n}" if label == n - 1 else f"row {n} (index {label})" for n, label in enumerate(labels, start=1)]
    return dataset_of(name, _records(rows, shown, source=name), columns=columns)


def dataset_of_columns(
    values: Mapping[str, Sequence[Any]], *, columns: Columns | None = None, name: str = "dataset"
) -> Dataset:
    """The rows of a dict of columns, each a sequence with a value for each row. As `dataset_of_frame` otherwise."""
    lengths = {key: len(column) for key, column in values.items()}
    first = next(iter(lengths.items()), ("", 0))
    for key, length in lengths.items():
        if length != first[1]:
            expected = f"the {counted(first[1], 'row')} that {first[0]} has"
            raise StoreError(name, place=key, found=counted(length, "row"), expected=expected)
    return dataset_of_rows(
        (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)), columns=columns, name=name
    )


def dataset_of_rows(
    rows: Iterable[Mapping[str, Any]], *, columns: Columns | None = None, name: str = "dataset"
) -> Dataset:
    """The rows of a sequence of mappings. As `dataset_of_frame` otherwise."""
    return dataset_of(name, records_of_values(rows, source=name), columns=columns)


def records_of_values(rows: Iterable[Any], *, source: Path | str) -> Iterator[Record]:
    """Rows of Python values as records; one that is no mapping is a row with a problem."""
    return _records(rows, (f"row {number}" for number in count(1)), source=source)


def json_value(value: Any) -> Any:
    """A value of Python, numpy or pandas as JSON has it; what JSON has no word for as text.

    Raises RecursionError for one that is nested too deeply, and what the methods of the value raise.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    # Most values are plain, or these with plain ones in them, by the hundred thousand: those take no call each, and no
    # comprehension, which is one before Python 3.12.
    if kind is dict:
        made = {}
        for key, item in value.items():
            made[key if type(key) is str else str(key)] = item if type(item) in _PLAIN else json_value(item)
        return made
    if kind is list:
        return [item if type(item) in _PLAIN else json_value(item) for item in value]
    return _foreign_value(value)


def _foreign_value(value: Any) -> Any:
    for kind in (str, int, float):  # also those of numpy that are one, as plain ones
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if type(value).__name__ in ("NaTType", "NAType"):  # what pandas has for a missing time, or value
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    for as_python in ("tolist", "model_dump"):  # of numpy; of pydantic, such as LangChain's messages
        if callable(convert := getattr(value, as_python, None)):
            return json_value(convert())
    return str(value)


def _records(rows: Iterable[Any], labels: Iterable[str], *, source: Path | str) -> Iterator[Record]:
    for label, row in zip(labels, rows, strict=False):
        if isinstance(row, Mapping):
            yield _record(row, partial(_error, source, label))
        else:
            found = type(row).__name__
            yield broken_record(
                StoreError(source, place=label, found=found, expected="a mapping, the columns of a row")
            )


def _record(row: Mapping[Any, Any], error: Callable[[Fault], StoreError]) -> Record:
    columns: dict[str, Any] = {}
    problems = []
    for key, value in row.items():
        try:
            columns[str(key)] = json_value(value)
        except RecursionError:
            problems.append(error(Fault(str(key), "a value that is nested too deeply", "a JSON value")))
        except Exception as failure:  # values are of any type, whose methods may raise anything
            found = f"a {type(value).__name__} that raises {type(failure).__name__}"
            problems.append(error(Fault(str(key), found, "a JSON value or text")))
    return Record(columns, None, error, tuple(problems))


def _error(source: Path | str, label: str, fault: Fault) -> StoreError:
    place = f"{label}: {fault.column}{fault.inner}"
    return StoreError(source, place=place, found=fault.found, expected=fault.expected)
