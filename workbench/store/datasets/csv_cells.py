"""CSV: rows of text, whose cells with trajectories or other values are JSON."""

from __future__ import annotations

import ast
import csv
import io
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from workbench.model.text import counted
from workbench.store.datasets.rows import ID, TEXTS, TRAJECTORIES, Fault, Record
from workbench.store.errors import StoreError

_REMEDY = "JSON: write the cells with json.dumps (pandas.DataFrame.to_csv does not), or the dataset as .jsonl"
_PLAIN = frozenset((*TEXTS, ID))


def csv_records(path: Path, text: str) -> Iterator[Record]:
    """The rows of a CSV file with a header.

    Cells of `prompt`, `response`, `reference` and `eval_id` are text. Cells of trajectories are JSON; other cells are
    where they look like an object or a list. An empty cell is a missing value. Raises StoreError.
    """
    csv.field_size_limit(sys.maxsize if sys.maxsize < 2**31 else 2**31 - 1)
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = _header(path, lines)
    while True:
        line = lines.line_num + 1
        try:
            cells = next(lines, None)
        except csv.Error as error:
            raise StoreError(path, f"is not CSV: {error}", line=line) from None
        if cells is None:
            return
        if not cells:
            continue
        if len(cells) != len(header):
            raise StoreError(
                path, line=line, found=counted(len(cells), "cell"), expected=f"{len(header)} as in the header"
            )
        columns = {name: _value(path, line, name, cell) for name, cell in zip(header, cells, strict=True)}
        yield Record(columns, line, partial(_error, path, line))


def _header(path: Path, lines: Iterator[list[str]]) -> list[str]:
    try:
        header = next(lines, [])
    except csv.Error as error:
        raise StoreError(path, f"is not CSV: {error}", line=1) from None
    if not header:
        raise StoreError(path, line=1, found="nothing", expected="a header with the names of the columns")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise StoreError(path, line=1, found=f"the column {twice[0]!r} twice", expected="columns of different names")
    return header


def _value(path: Path, line: int, column: str, cell: str) -> Any:
    if cell == "":
        return None
    if column in _PLAIN or (column not in TRAJECTORIES and cell[0] not in "[{"):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        if _is_python(cell):
            raise _error(path, line, Fault(column, "a value as Python prints it", _REMEDY)) from None
        if column in TRAJECTORIES:
            fault = Fault(column, "text that is no JSON", f"a list of tool calls as JSON ({error})")
            raise _error(path, line, fault) from None
        return cell


def _is_python(cell: str) -> bool:
    try:
        ast.literal_eval(cell)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True


def _error(path: Path, line: int, fault: Fault) -> StoreError:
    place = f"{fault.column}{fault.inner}"
    return StoreError(path, place=place, line=line, found=fault.found, expected=fault.expected)
