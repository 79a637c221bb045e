"""Reads datasets: JSON lines, CSV, and JSON as a list of rows or as columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.model.text import counted
from workbench.store.datasets.csv_cells import csv_records
from workbench.store.datasets.rows import TEXTS, TRAJECTORIES, Dataset, Fault, Record, kind_of, row_of
from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8, read_bytes
from workbench.store.garbage import without_collecting

if TYPE_CHECKING:
    from workbench.store.documents import Loaded


def read_dataset(path: Path) -> Dataset:
    """Read a dataset by the ending of its name: `.jsonl`, `.csv` or `.json`.

    Every row must have at least one of the columns that metrics know. Raises StoreError with line and column.
    """
    with without_collecting():
        rows = tuple(row_of(record, number=number) for number, record in enumerate(read_records(path), start=1))
    named = (*TEXTS, *TRAJECTORIES)
    known = {name for row in rows for name in row.columns}
    if rows and known.isdisjoint(named):
        found = ", ".join(sorted(known)[:5]) or "none"
        raise StoreError(path, found=f"the columns {found}", expected=f"at least one of {', '.join(named)}")
    return Dataset(path, rows)


def read_records(path: Path) -> Iterator[Record]:
    """The rows of a file as they are, by the ending of its name. Raises StoreError."""
    readers: Mapping[str, Callable[[Path], Iterator[Record]]] = {
        ".jsonl": _records_of_lines,
        ".ndjson": _records_of_lines,
        ".csv": lambda path: csv_records(path, _text_of(path)),
        ".json": _records_of_json,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise StoreError(path, "is no dataset: expected a name that ends in .jsonl, .csv or .json")
    return reader(path)


def _text_of(path: Path) -> str:
    data, _ = read_bytes(path)
    return decode_utf8(path, data).removeprefix("\ufeff")


def _records_of_lines(path: Path) -> Iterator[Record]:
    for number, line in enumerate(_text_of(path).split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            columns = json.loads(line)
        except json.JSONDecodeError as error:
            raise StoreError(path, f"is not JSON: {error.msg}", line=number, column=error.pos + 1) from None
        except RecursionError:
            raise StoreError(path, "is nested too deeply", line=number) from None
        if not isinstance(columns, dict):
            raise StoreError(path, line=number, found=kind_of(columns), expected="an object, the columns of a row")
        yield Record(columns, number, partial(_error_in_line, path, number, line))


def _error_in_line(path: Path, number: int, line: str, fault: Fault) -> StoreError:
    from workbench.store.documents.places import format_place, locate, parse_place

    place = (fault.column, *parse_place(fault.inner))
    return StoreError(
        path,
        place=format_place(place),
        line=number,
        column=locate(line, place) + 1,
        found=fault.found,
        expected=fault.expected,
    )


def _records_of_json(path: Path) -> Iterator[Record]:
    from workbench.store.documents import read_json

    loaded = read_json(path)
    if isinstance(loaded.data, list):
        return _records_of_list(loaded, loaded.data)
    if isinstance(loaded.data, dict):
        return _records_of_columns(loaded, loaded.data)
    raise loaded.error((), found=kind_of(loaded.data), expected="a list of rows, or an object of columns")


def _records_of_list(loaded: Loaded, rows: list[Any]) -> Iterator[Record]:
    for index, columns in enumerate(rows):
        if not isinstance(columns, dict):
            raise loaded.error((index,), found=kind_of(columns), expected="an object, the columns of a row")
        yield Record(columns, None, partial(_error_in_list, loaded, index))


def _records_of_columns(loaded: Loaded, columns: dict[str, Any]) -> Iterator[Record]:
    """Rows of `{"column": [values]}` or of pandas' `{"column": {"0": value}}`: all columns have the same rows."""
    by_index: dict[str, dict[int | str, Any]] = {}
    for name, values in columns.items():
        if not isinstance(values, list | dict):
            raise loaded.error((name,), found=kind_of(values), expected="a list with a value for each row")
        by_index[name] = dict(enumerate(values)) if isinstance(values, list) else values
    first, *others = by_index.items() if by_index else [("", {})]
    for name, indexed in others:
        if indexed.keys() != first[1].keys():
            raise loaded.error(
                (name,),
                found=counted(len(indexed), "row"),
                expected=f"the {counted(len(first[1]), 'row')} that {first[0]} has",
            )
    for key in first[1]:
        row = {name: values[key] for name, values in by_index.items()}
        yield Record(row, None, partial(_error_in_column, loaded, key))


def _error_in_list(loaded: Loaded, index: int, fault: Fault) -> StoreError:
    from workbench.store.documents.places import parse_place

    return loaded.error((index, fault.column, *parse_place(fault.inner)), found=fault.found, expected=fault.expected)


def _error_in_column(loaded: Loaded, key: int | str, fault: Fault) -> StoreError:
    from workbench.store.documents.places import parse_place

    return loaded.error((fault.column, key, *parse_place(fault.inner)), found=fault.found, expected=fault.expected)
