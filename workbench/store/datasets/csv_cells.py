"""CSV: rows of text, whose cells with trajectories or other values are JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.text import counted
from workbench.store.datasets.columns import Columns
from workbench.store.datasets.rows import (
    AS_PYTHON_PRINTS,
    ID,
    MEASURES,
    REMEDY,
    TEXTS,
    TRAJECTORIES,
    Fault,
    Record,
    broken_record,
    is_python,
)
from workbench.store.datasets.text import no_text_in
from workbench.store.errors import StoreError

_PLAIN = frozenset((*TEXTS, ID))


class _Column(NamedTuple):
    """A column by its name in the file, and by the name that is known here."""

    name: str
    meaning: str


def csv_records(path: Path | str, text: str, columns: Columns) -> Iterator[Record]:
    """The rows of a CSV file with a header.

    Cells of `prompt`, `response`, `reference` and `eval_id` are text, those of `latency_in_seconds` and `failure`
    numbers. Cells of trajectories are JSON; other cells are where they look like an object or a list. An empty cell is
    a missing value. `columns` tells which those are where they have other names. Raises StoreError where there is no
    header.
    """
    csv.field_size_limit(sys.maxsize if sys.maxsize < 2**31 else 2**31 - 1)
    lines = list(io.StringIO(text, newline=""))
    names, line = _header(path, lines)
    known = {name: column for column, name in columns.items()}
    header = [_Column(name, known.get(name, name)) for name in names]
    while line < len(lines):
        line = yield from _rows(path, header, lines, line)


def _rows(path: Path | str, header: list[_Column], lines: list[str], start: int) -> Generator[Record, None, int]:
    """The rows from a line on (lines count from 0); gives the line from which to read on.

    A quotation mark without an end takes the lines behind it, up to the next one or all: what is no CSV ends the
    reading here, which goes on in the line after the one in which the row began.
    """
    reader = csv.reader(map(lines.__getitem__, range(start, len(lines))), strict=True)
    while True:
        first = start + reader.line_num
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield broken_record(StoreError(path, f"is not CSV: {error}", line=first + 1))
            return first + 1
        if cells is None:
            return len(lines)
        if cells:
            yield _record(path, header, cells, line=first + 1)


def _record(path: Path | str, header: list[_Column], cells: list[str], *, line: int) -> Record:
    if len(cells) != len(header):
        found, expected = counted(len(cells), "cell"), f"{len(header)} as in the header"
        return broken_record(StoreError(path, line=line, found=found, expected=expected))
    columns: dict[str, Any] = {}
    problems = []
    for column, cell in zip(header, cells, strict=True):
        value = _value(column, cell)
        if isinstance(value, Fault):
            problems.append(_error(path, line, value))
            value = None  # the column is there
        columns[column.name] = value
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


def _value(column: _Column, cell: str) -> Any:
    """What a cell says, or the Fault that it is."""
    if (byte := no_text_in(cell)) is not None:
        return Fault(column.name, byte.found, "UTF-8 text")
    if cell == "":
        return None
    if column.meaning in MEASURES:
        return _number(cell)
    if column.meaning in _PLAIN or (column.meaning not in TRAJECTORIES and cell[0] not in "[{"):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        if column.meaning not in TRAJECTORIES:
            return cell  # nobody but the user knows what it should be
        if is_python(cell):
            return Fault(column.name, AS_PYTHON_PRINTS, REMEDY)
        return Fault(column.name, "text that is no JSON", f"a list of tool calls as JSON ({error})")


def _number(cell: str) -> float | str:
    """The number that a cell is; text that is none stays, as in other formats, and is no measure."""
    try:
        number = int(cell) if cell.isdecimal() else float(cell)
    except ValueError:
        return cell
    return number if math.isfinite(number) else cell


def _error(path: Path | str, line: int, fault: Fault) -> StoreError:
    place = f"{fault.column}{fault.inner}"
    return StoreError(path, place=place, line=line, found=fault.found, expected=fault.expected)
