"""Rows of datasets: their columns, and how they are read from JSON lines, JSON, CSV and Python values."""

from __future__ import annotations

import ast
import base64
import csv
import io
import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.model.text import pluralise, suggest_name
from workbench.model.trace import ToolCall, TrajectoryError, dump_trajectory, read_trajectory
from workbench.store.datasets.message_rows import MessageError, describe_kind, is_messages, read_messages
from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8

if TYPE_CHECKING:
    from workbench.store.evalsets.config_files import JsonFile
    from workbench.store.json.json_path import Place


# Rows: a prompt with actual and expected results, independent of the file format

TEXTS = ("prompt", "response", "reference")
TRAJECTORIES = ("predicted_trajectory", "reference_trajectory")
ID = "eval_id"
LATENCY = "latency_in_seconds"
FAILURE = "failure"
MEASURES = (LATENCY, FAILURE)
"""The columns with numbers."""

MESSAGES = "messages"
CONTENTS = "contents"  # Gemini's name
REFERENCE_MESSAGES = "reference_messages"
REQUEST = "request"
_ANSWERS = {"candidates": "content", "choices": "message"}
"""By the list of answers in a reply of Gemini or OpenAI, the key of the message of an answer."""

PYTHON_REPR = "the repr of a Python value"
_MOST_CALLS = 10_000  # the limit for a turn of an agent (see limits.py of the worker)
_LONGEST_PYTHON = 1_000_000  # characters: Python's parser needs hundreds of times the memory of a text
REMEDY = "JSON: write the cells with json.dumps (pandas.DataFrame.to_csv does not), or the dataset as .jsonl"


class Row(NamedTuple):
    """One row. Missing values are None; an empty trajectory means no calls.

    `number` counts rows from 1. `line` is the first line of the row (None for formats without lines). `columns` has all
    columns as JSON values, also those that a list of messages supplies. `problems` prevent scoring the row; everything
    else that is readable is set.
    """

    number: int
    line: int | None
    eval_id: str
    prompt: str | None
    response: str | None
    reference: str | None
    predicted_trajectory: list[ToolCall] | None
    reference_trajectory: list[ToolCall] | None
    columns: Mapping[str, Any]
    problems: tuple[StoreError, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """The rows of a file; `source` is text if they come from elsewhere, as in StoreError."""

    source: Path | str
    rows: tuple[Row, ...]


class ValueFault(NamedTuple):
    """A fault in a value of a row. `inner` is the place inside the value, such as `[2].tool_input`."""

    column: str
    found: str
    expected: str
    inner: str = ""


class Record(NamedTuple):
    """A row as read from its format. `error` makes the StoreError of a fault in it.

    `problems` are faults of the format; a column with such a fault is missing.
    """

    columns: dict[str, Any]
    line: int | None
    error: Callable[[ValueFault], StoreError]
    problems: tuple[StoreError, ...] = ()


def make_broken_record(problem: StoreError) -> Record:
    """Make a row without any readable value."""
    return Record({}, problem.line, lambda _: problem, (problem,))


def read_row(record: Record, *, number: int) -> Row:
    """Read the known columns of a row; faults in them are problems of the row."""
    columns = record.columns
    problems = list(record.problems)
    for name, value in columns.items():
        if isinstance(value, float) and math.isnan(value):
            columns[name] = None  # how pandas writes missing values
    if MESSAGES not in columns and is_messages(columns.get(CONTENTS)):
        columns[MESSAGES] = columns[CONTENTS]
    if columns.get("prompt") is None and columns.get(MESSAGES) is None:
        _read_exchange(columns)
    _read_conversation(record, MESSAGES, problems, prompt="prompt", answer="response", calls="predicted_trajectory")
    _read_conversation(
        record, REFERENCE_MESSAGES, problems, prompt="prompt", answer="reference", calls="reference_trajectory"
    )
    return Row(
        number,
        record.line,
        _read_id(record, problems) or f"row_{number}",
        _read_text(record, "prompt", problems),
        _read_answer(record, "response", problems),
        _read_answer(record, "reference", problems),
        _read_trajectory(record, "predicted_trajectory", problems),
        _read_trajectory(record, "reference_trajectory", problems),
        columns,
        tuple(problems),
    )


def _read_exchange(columns: dict[str, Any]) -> None:
    """Make messages of a request to Gemini or OpenAI and its reply, as batch predictions have them, if it is one.

    The reply is replaced by its text, as every response is. An error, or a reply without an answer, is no response.
    """
    request, reply = (_parse_object(columns.get(name)) for name in (REQUEST, "response"))
    if isinstance(request, str):
        columns["prompt"] = request
        return
    messages = request.get(CONTENTS) or request.get(MESSAGES) if isinstance(request, dict) else None
    if not isinstance(messages, list):
        return
    # Gemini takes a content without a role for the user's.
    messages = [{"role": "user", **each} if isinstance(each, dict) else each for each in messages]
    if not is_messages(messages):
        return
    columns[MESSAGES] = messages
    if not isinstance(reply, dict):
        return
    if not reply or not reply.keys().isdisjoint((*_ANSWERS, "error")):
        columns["response"] = None
    for key, content in _ANSWERS.items():
        answers = reply.get(key)
        first = answers[0] if isinstance(answers, list) and answers else None
        if isinstance(first, dict) and first.get(content):
            messages.append(first[content])


def _parse_object(value: Any) -> Any:
    """Parse JSON text of an object; return any other value unchanged."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def is_python_literal(text: str) -> bool:
    """True if a text is a list, dict or tuple as printed by Python; False for a text that is too long to be parsed."""
    if text[:1] not in ("[", "{", "(") or len(text) > _LONGEST_PYTHON:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the text
            ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True


def _read_conversation(
    record: Record, column: str, problems: list[StoreError], *, prompt: str, answer: str, calls: str
) -> None:
    """Fill missing columns from a list of messages.

    A column that is no such list is ignored, unless all other columns are missing. JSON text of a list is parsed, also
    in the columns.
    """
    columns = record.columns
    value = columns.get(column)
    if value is None:
        return
    if isinstance(value, str):
        value = columns[column] = _parse_messages(value)
    if not (is_messages(value) or all(columns.get(name) is None for name in (prompt, answer, calls))):
        return
    try:
        conversation = read_messages(value)
    except MessageError as error:
        problems.append(record.error(ValueFault(column, error.found, error.expected, inner=error.place)))
        return
    known = conversation.calls
    said = (conversation.prompt, conversation.answer, None if known is None else dump_trajectory(known))
    for name, found in zip((prompt, answer, calls), said, strict=True):
        if columns.get(name) is None:
            columns[name] = found


def _parse_messages(text: str) -> Any:
    """Parse a text that is a list of messages; return other text unchanged."""
    if not text.lstrip().startswith("["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if is_messages(value) else text


def _read_id(record: Record, problems: list[StoreError]) -> str | None:
    value = record.columns.get(ID)
    if isinstance(value, dict | list):
        problems.append(record.error(ValueFault(ID, describe_kind(value), "text or a number")))
        return None
    return None if value is None else str(value)


def _read_text(record: Record, column: str, problems: list[StoreError]) -> str | None:
    value = record.columns.get(column)
    if value is None or isinstance(value, str):
        return value
    problems.append(record.error(ValueFault(column, describe_kind(value), "text")))
    return None


def _read_answer(record: Record, column: str, problems: list[StoreError]) -> str | None:
    """Read the text of a response; a number, boolean or object (structured output) becomes JSON."""
    value = record.columns.get(column)
    if isinstance(value, int | float | dict):
        return json.dumps(value, ensure_ascii=False)
    return _read_text(record, column, problems)


def _read_trajectory(record: Record, column: str, problems: list[StoreError]) -> list[ToolCall] | None:
    """Read calls; JSON text is replaced in the columns by its value.

    Too many calls are a problem of the row, and are dropped.
    """
    value = record.columns.get(column)
    if value is None or value == "":
        return None
    try:
        calls = None if isinstance(value, list) and len(value) > _MOST_CALLS else read_trajectory(value)
    except TrajectoryError as error:
        if isinstance(value, str) and not error.place and is_python_literal(value):
            problems.append(record.error(ValueFault(column, PYTHON_REPR, REMEDY)))
            return None
        found = describe_kind(_get_value(error.place, value))
        problems.append(record.error(ValueFault(column, found, error.expected, inner=error.place)))
        return None
    if calls is None or len(calls) > _MOST_CALLS:
        count = len(value if calls is None else calls)
        value = calls = record.columns[column] = None  # freed before the text is parsed again for the place
        problems.append(record.error(ValueFault(column, f"{count:,} calls", f"at most {_MOST_CALLS:,}")))
        return None
    if isinstance(value, str):
        record.columns[column] = json.loads(value)
    return calls


def _get_value(place: str, value: Any) -> Any:
    """Return the value at a place inside another; JSON text is parsed."""
    from workbench.store.json.json_path import parse_place

    for step in parse_place(place):
        value = json.loads(value)[step] if isinstance(value, str) else value[step]
    return value


# Columns under other names

KNOWN = (*TEXTS, *TRAJECTORIES, ID, LATENCY, MESSAGES, REFERENCE_MESSAGES)
"""The columns with a meaning for workbench; metrics may use others."""

Columns = Mapping[str, str]
"""For known columns, their names in the dataset, such as `{"response": "answer"}`."""


class InvalidColumns(ValueError):
    """Invalid columns; the message is the expected value."""


def read_columns(texts: Iterable[str]) -> dict[str, str]:
    """Read columns from the command line: `response=answer,reference=ground_truth`. Raises InvalidColumns."""
    columns: dict[str, str] = {}
    for pair in (pair.strip() for text in texts for pair in text.split(",") if pair.strip()):
        known, equals, name = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise InvalidColumns("COLUMN=NAME, such as response=answer")
        if known in columns:
            raise InvalidColumns(f"{known} once")
        columns[known] = name
    check_columns(columns)
    return columns


def check_columns(columns: Columns) -> None:
    """Raise InvalidColumns for an unknown column."""
    for known in columns:
        if known not in KNOWN:
            raise InvalidColumns(f"one of {', '.join(KNOWN)} before '='{suggest_name(known, KNOWN)}")


def rename_columns(records: Iterable[Record], columns: Columns, *, source: Path | str) -> Iterator[Record]:
    """Add the known columns to records that have them under other names.

    Raises StoreError at the end if no record has a named column.
    """
    seen: set[str] = set()
    for record in records:
        seen.update(record.columns)
        found = {known: record.columns[name] for known, name in columns.items() if name in record.columns}
        yield record._replace(columns={**record.columns, **found}, error=partial(_column_error, record, columns))
    missing = [(known, name) for known, name in columns.items() if name not in seen]
    if seen and missing:
        known, name = missing[0]
        raise StoreError(
            source,
            found=f"the columns {', '.join(sorted(seen)[:8])}",
            expected=f"{name!r}, which is mapped to {known}{suggest_name(name, seen)}",
        )


def _column_error(record: Record, columns: Columns, fault: ValueFault) -> StoreError:
    """Make the error with the column's name in the dataset."""
    return record.error(fault._replace(column=columns.get(fault.column, fault.column)))


# Decoding of files: a row with invalid bytes does not hide the others

_NO_TEXT = re.compile("[\udc80-\udcff]")


def decode_rows(path: Path | str, data: bytes) -> str:
    """Decode a file of rows; invalid UTF-8 bytes become characters that `find_invalid_byte` finds.

    Raises StoreError if the whole file is of another type.
    """
    try:
        text = decode_utf8(path, data)
    except StoreError as error:
        if error.line is None:
            raise
        text = data.decode("utf-8", "surrogateescape")
    return text.removeprefix("\ufeff")


class InvalidByte(NamedTuple):
    """A byte that is not UTF-8: its offset in the text, and its description."""

    offset: int
    found: str


def find_invalid_byte(text: str) -> InvalidByte | None:
    """Return the first byte of a text that is not UTF-8."""
    match = None if text.isascii() else _NO_TEXT.search(text)
    return None if match is None else InvalidByte(match.start(), f"the byte 0x{ord(match[0]) - 0xDC00:02x}")


# CSV: rows of text; cells with trajectories or other values are JSON

_PLAIN = frozenset((*TEXTS, ID))


class _Column(NamedTuple):
    """A column: its name in the file and its known name."""

    name: str
    meaning: str


def records_from_csv(path: Path | str, text: str, columns: Columns) -> Iterator[Record]:
    """Yield the rows of a CSV file with a header.

    Cells of `prompt`, `response`, `reference` and `eval_id` are text, those of `latency_in_seconds` and `failure`
    numbers. Cells of trajectories are JSON; other cells are JSON if they look like an object or list. An empty cell is
    a missing value. `columns` has other names of these columns. Raises StoreError without a header.
    """
    csv.field_size_limit(sys.maxsize if sys.maxsize < 2**31 else 2**31 - 1)
    lines = list(io.StringIO(text, newline=""))
    names, line = _read_header(path, lines)
    known = {name: column for column, name in columns.items()}
    header = [_Column(name, known.get(name, name)) for name in names]
    while line < len(lines):
        line = yield from _read_rows(path, header, lines, line)


def _read_rows(path: Path | str, header: list[_Column], lines: list[str], start: int) -> Generator[Record, None, int]:
    """Yield the rows from a line on (counted from 0); return the line to continue from.

    An unclosed quotation mark swallows the following lines. After such a row, reading continues in the line after its
    first one.
    """
    reader = csv.reader(map(lines.__getitem__, range(start, len(lines))), strict=True)
    while True:
        first = start + reader.line_num
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield make_broken_record(StoreError(path, f"is not CSV: {error}", line=first + 1))
            return first + 1
        if cells is None:
            return len(lines)
        if cells:
            yield _read_record(path, header, cells, line=first + 1)


def _read_record(path: Path | str, header: list[_Column], cells: list[str], *, line: int) -> Record:
    if len(cells) != len(header):
        found, expected = pluralise(len(cells), "cell"), f"{len(header)} as in the header"
        return make_broken_record(StoreError(path, line=line, found=found, expected=expected))
    columns: dict[str, Any] = {}
    problems = []
    for column, cell in zip(header, cells, strict=True):
        value = _read_cell(column, cell)
        if isinstance(value, ValueFault):
            problems.append(_cell_error(path, line, value))
            value = None  # the column exists
        columns[column.name] = value
    return Record(columns, line, partial(_cell_error, path, line), tuple(problems))


def _read_header(path: Path | str, lines: list[str]) -> tuple[list[str], int]:
    """Read the names of the columns, and the number of lines of the header."""
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


def _read_cell(column: _Column, cell: str) -> Any:
    """Read the value of a cell, or return its ValueFault."""
    if (byte := find_invalid_byte(cell)) is not None:
        return ValueFault(column.name, byte.found, "UTF-8 text")
    if cell == "":
        return None
    if column.meaning in MEASURES:
        return _read_number(cell)
    if column.meaning in _PLAIN or (column.meaning not in TRAJECTORIES and cell[0] not in "[{"):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        if column.meaning not in TRAJECTORIES:
            return cell  # only the user knows the intended value
        if is_python_literal(cell):
            return ValueFault(column.name, PYTHON_REPR, REMEDY)
        return ValueFault(column.name, "text that is not JSON", f"a list of tool calls as JSON ({error})")


def _read_number(cell: str) -> float | str:
    """Read a number; other text is kept, as in other formats, and is no measure."""
    try:
        number = int(cell) if cell.isdecimal() else float(cell)
    except ValueError:
        return cell
    return number if math.isfinite(number) else cell


def _cell_error(path: Path | str, line: int, fault: ValueFault) -> StoreError:
    place = f"{fault.column}{fault.inner}"
    return StoreError(path, place=place, line=line, found=fault.found, expected=fault.expected)


# JSON: rows in lines, a list of rows, or an object of columns

_A_ROW = "an object, the columns of a row"

_ONCE = "it once"


class _Repeated(Exception):
    """A key is duplicate in an object."""


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object with interned names: there are few names, in hundreds of thousands of rows."""
    made = {sys.intern(name): value for name, value in pairs}
    if len(made) != len(pairs):
        raise _Repeated
    return made


_BLANKS = " \t\r"
_decoder = json.JSONDecoder(object_pairs_hook=_make_object)


def records_from_lines(path: Path | str, lines: Iterable[str]) -> Iterator[Record]:
    """Yield the rows of JSON lines; an invalid line is a row with a problem."""
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        if (byte := find_invalid_byte(line)) is not None:
            problem = StoreError(path, line=number, column=byte.offset + 1, found=byte.found, expected="UTF-8 text")
            yield make_broken_record(problem)
            continue
        try:
            columns = _parse_line(path, number, line)
        except StoreError as problem:
            yield make_broken_record(problem)
            continue
        row = {MESSAGES: columns} if is_messages(columns) else columns
        if isinstance(row, dict):
            yield Record(row, number, partial(_error_in_line, path, number, line))
        else:
            yield make_broken_record(StoreError(path, line=number, found=describe_kind(columns), expected=_A_ROW))


def _parse_line(path: Path | str, number: int, line: str) -> Any:
    """Parse a line. Raises StoreError, also for a duplicate key with different values."""
    try:
        if line[0] in _BLANKS:
            return _decoder.decode(line)
        value, end = _decoder.raw_decode(line)  # does not look for blanks around the value
        return value if end == len(line) else _decoder.decode(line)
    except _Repeated:
        lost = _find_lost_keys(line)
        if lost:
            raise _make_line_error(
                path, number, line, lost[0], found=_describe_duplicate(lost[0]), expected=_ONCE
            ) from None
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise StoreError(path, f"is not JSON: {error.msg}", line=number, column=error.pos + 1) from None
    except RecursionError:
        raise StoreError(path, "is nested too deeply", line=number) from None
    except ValueError as error:  # a number with thousands of digits
        raise StoreError(path, f"is not JSON: {error}", line=number) from None


def _find_lost_keys(text: str) -> list[Place]:
    """Return the duplicate keys with different values: readers take the last one."""
    from workbench.store.json.json_path import find_repeated_keys

    return [place for place, loses_data in find_repeated_keys(text) if loses_data]


def _describe_duplicate(place: Place) -> str:
    return f"the key {place[-1]!r} twice, with different values"


def records_from_json(loaded: JsonFile) -> Iterator[Record]:
    """Read the rows of a JSON file. Raises StoreError if it has no rows at all."""
    lost = _find_lost_keys(loaded.text)
    is_list_of_rows = isinstance(loaded.data, list) and not _is_conversation(loaded.data)
    if lost and not is_list_of_rows:
        raise loaded.error(lost[0], found=_describe_duplicate(lost[0]), expected=_ONCE)
    if _is_conversation(loaded.data) or (isinstance(loaded.data, dict) and is_messages(loaded.data.get(MESSAGES))):
        return _records_from_conversation(loaded, loaded.data)
    if isinstance(loaded.data, list):
        return _records_from_list(loaded, loaded.data, {place[0]: place for place in reversed(lost)})
    if isinstance(loaded.data, dict):
        return _records_from_columns(loaded, loaded.data)
    raise loaded.error((), found=describe_kind(loaded.data), expected="a list of rows, or an object of columns")


def _is_conversation(data: Any) -> bool:
    """True if a list is one conversation, and no rows with columns `role` and `content`."""
    return is_messages(data) and (not isinstance(data[0], dict) or data[0].keys().isdisjoint(KNOWN))


def _records_from_conversation(loaded: JsonFile, data: Any) -> Iterator[Record]:
    """Yield the only row of a file with one conversation: a list of messages, or an object with one."""
    if isinstance(data, list):
        yield Record({MESSAGES: data}, None, partial(_error_in_messages, loaded, ()))
    else:
        yield Record(data, None, partial(_error_in_column, loaded, (), ()))


def _error_in_line(path: Path | str, number: int, line: str, fault: ValueFault) -> StoreError:
    from workbench.store.json.json_path import parse_place

    place = (fault.column, *parse_place(fault.inner))
    return _make_line_error(path, number, line, place, found=fault.found, expected=fault.expected)


def _make_line_error(
    path: Path | str, number: int, line: str, place: Place, *, found: str, expected: str
) -> StoreError:
    from workbench.store.json.json_path import find_offset, format_place

    column = find_offset(line, place) + 1
    return StoreError(path, place=format_place(place), line=number, column=column, found=found, expected=expected)


def _records_from_list(loaded: JsonFile, rows: list[Any], lost: dict[int | str, Place]) -> Iterator[Record]:
    """`lost` are duplicate keys with different values, by row."""
    for index, columns in enumerate(rows):
        if index in lost:
            yield make_broken_record(loaded.error(lost[index], found=_describe_duplicate(lost[index]), expected=_ONCE))
        elif is_messages(columns):
            yield Record({MESSAGES: columns}, None, partial(_error_in_messages, loaded, (index,)))
        elif isinstance(columns, dict):
            yield Record(columns, None, partial(_error_in_column, loaded, (index,), ()))
        else:
            yield make_broken_record(loaded.error((index,), found=describe_kind(columns), expected=_A_ROW))


def _records_from_columns(loaded: JsonFile, columns: dict[str, Any]) -> Iterator[Record]:
    """Yield rows of `{"column": [values]}` or of pandas' `{"column": {"0": value}}`; all columns have the same rows."""
    by_index: dict[str, dict[int | str, Any]] = {}
    for name, values in columns.items():
        if not isinstance(values, list | dict):
            raise loaded.error((name,), found=describe_kind(values), expected="a list with a value for each row")
        by_index[name] = dict(enumerate(values)) if isinstance(values, list) else values
    first, *others = by_index.items() if by_index else [("", {})]
    for name, indexed in others:
        if indexed.keys() != first[1].keys():
            raise loaded.error(
                (name,),
                found=pluralise(len(indexed), "row"),
                expected=f"{pluralise(len(first[1]), 'row')}, as in {first[0]}",
            )
    for key in first[1]:
        row = {name: values[key] for name, values in by_index.items()}
        yield Record(row, None, partial(_error_in_column, loaded, (), (key,)))


def _error_in_messages(loaded: JsonFile, above: Place, fault: ValueFault) -> StoreError:
    """Make the error in a row that is a list of messages itself."""
    from workbench.store.json.json_path import parse_place

    return loaded.error((*above, *parse_place(fault.inner)), found=fault.found, expected=fault.expected)


def _error_in_column(loaded: JsonFile, above: Place, below: Place, fault: ValueFault) -> StoreError:
    """Make the error in a value; `above` and `below` are the steps to the row before and after the name of a column."""
    from workbench.store.json.json_path import parse_place

    place = (*above, fault.column, *below, *parse_place(fault.inner))
    return loaded.error(place, found=fault.found, expected=fault.expected)


# Values of Python, numpy and pandas

_JSON_SCALARS = frozenset((type(None), bool, str, int, float))


def records_from_values(
    rows: Iterable[Any], *, source: Path | str, labels: Iterable[str] | None = None
) -> Iterator[Record]:
    """Yield Python values as records; a value that is no mapping is a row with a problem."""
    for label, row in zip(labels or (f"row {number}" for number in count(1)), rows, strict=False):
        if isinstance(row, Mapping):
            yield _record_from_mapping(row, partial(_error_in_row_of_values, source, label))
        else:
            found, expected = type(row).__name__, "a mapping, the columns of a row"
            yield make_broken_record(StoreError(source, place=label, found=found, expected=expected))


def to_json_value(value: Any) -> Any:
    """Convert a value of Python, numpy or pandas to JSON; values without a JSON type become text.

    Raises RecursionError for deep nesting, and any error of the value's methods.
    """
    kind = type(value)
    if kind in _JSON_SCALARS:
        return value
    # Most values are plain, or contain plain ones, by the hundred thousand: these avoid a call, and a comprehension,
    # which is a call before Python 3.12.
    if kind is dict:
        made = {}
        for key, item in value.items():
            made[key if type(key) is str else str(key)] = item if type(item) in _JSON_SCALARS else to_json_value(item)
        return made
    if kind is list:
        return [item if type(item) in _JSON_SCALARS else to_json_value(item) for item in value]
    return _convert_foreign_value(value)


def _convert_foreign_value(value: Any) -> Any:
    for kind in (str, int, float):  # also their subclasses in numpy, converted to plain ones
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_value(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if type(value).__name__ in ("NaTType", "NAType"):  # pandas' missing time or value
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    for as_python in ("tolist", "model_dump"):  # numpy; pydantic, such as LangChain's messages
        if callable(convert := getattr(value, as_python, None)):
            return to_json_value(convert())
    return str(value)


def _record_from_mapping(row: Mapping[Any, Any], error: Callable[[ValueFault], StoreError]) -> Record:
    columns: dict[str, Any] = {}
    problems = []
    for key, value in row.items():
        try:
            columns[str(key)] = to_json_value(value)
        except RecursionError:
            problems.append(error(ValueFault(str(key), "a value that is nested too deeply", "a JSON value")))
        except Exception as failure:  # values have any type, whose methods may raise anything
            found = f"a {type(value).__name__} that raises {type(failure).__name__}"
            problems.append(error(ValueFault(str(key), found, "a JSON value or text")))
    return Record(columns, None, error, tuple(problems))


def _error_in_row_of_values(source: Path | str, label: str, fault: ValueFault) -> StoreError:
    place = f"{label}: {fault.column}{fault.inner}"
    return StoreError(source, place=place, found=fault.found, expected=fault.expected)
