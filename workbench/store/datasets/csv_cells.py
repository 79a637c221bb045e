"""CSV: rows of text, whose cells with trajectories or other values are JSON."""

from __future__ import annotations

import ast
import csv
import io
import json
import sys
from collections.abc import Generator, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from workbench.model.text import counted
from workbench.store.datasets.rows import ID, TEXTS, TRAJECTORIES, Fault, Record, broken_record
from workbench.store.datasets.text import no_text_in
from workbench.store.errors import StoreError

_REMEDY = "JSON: write the cells with json.dumps (pandas.DataFrame.to_csv does not), or the dataset as .jsonl"
_PLAIN = frozenset((*TEXTS, ID))


def csv_records(path: Path | str, text: str) -> Iterator[Record]:
    """The rows of a CSV file with a header.

    Cells of `prompt`, `response`, `reference` and `eval_id` are text. Cells of trajectories are JSON; other cells are
    where they look like an object or a list. An empty cell is a missing value. Raises StoreError where there is no
    header.
    """
    csv.field_size_limit(sys.maxsize if sys.maxsize < 2**31 else 2**31 - 1)
    lines = list(io.StringIO(text, newline=""))
    header, line = _header(path, lines)
    while line < len(lines):
        line = yield from _rows(path, header, lines, line)


def _rows(path: Path | str, header: list[str], lines: list[str], start: int) -> Generator[Record, None, int]:
    """The rows from a line on (lines count from 0); gives the line from which to read on.

    A quotation mark without an end takes everything behind it: reading goes on in the next line then.
    """
    reader = csv.reader(islice(lines, start, None), strict=True)
    while True:
        first = start + reader.line_num
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield broken_record(StoreError(path, f"is not CSV: {error}", line=first + 1))
            if start + reader.line_num >= len(lines):
                return first + 1
            continue
        if cells is None:
            return len(lines)
        if cells:
            yield _record(path, header, cells, line=first + 1)


def _record(path: Path | str, header: list[str], cells: list[str], *, line: int) -> Record:
    if len(cells) != len(header):
        found, expected = counted(len(cells), "cell"), f"{len(header)} as in the header"
        return broken_record(StoreError(path, line=line, found=found, expected=expected))
    columns: dict[str, Any] = {}
    problems = []
    for name, cell in zip(header, cells, strict=True):
        value = _value(name, cell)
        if isinstance(value, Fault):
            problems.append(_error(path, line, value))
        else:
            columns[name] = value
    return Record(columns, line, partial(_error, path, line), tuple(problems))


def _header(path: Path | str, lines: list[str]) -> tuple[list[str], int]:
    """The names of the columns, and the number of lines that they take."""
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise StoreError(path, f"is not CSV: {error}", line=1) from None
    if not header:
        raise StoreError(path, line=1, found="nothing", expected="a header with the names of the columns")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise StoreError(path, line=1, found=f"the column {twice[0]!r} twice", expected="columns of different names")
    return header, reader.line_num


def _value(column: str, cell: str) -> Any:
    """What a cell says, or the Fault that it is."""
    if (byte := no_text_in(cell)) is not None:
        return Fault(column, byte.found, "UTF-8 text")
    if cell == "":
        return None
    if column in _PLAIN or (column not in TRAJECTORIES and cell[0] not in "[{"):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        if _is_python(cell):
            return Fault(column, "a value as Python prints it", _REMEDY)
        if column in TRAJECTORIES:
            return Fault(column, "text that is no JSON", f"a list of tool calls as JSON ({error})")
        return cell


def _is_python(cell: str) -> bool:
    try:
        ast.literal_eval(cell)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True


def _error(path: Path | str, line: int, fault: Fault) -> StoreError:
    place = f"{fault.column}{fault.inner}"
    return StoreError(path, place=place, line=line, found=fault.found, expected=fault.expected)
