"""JSON: rows of lines, a list of rows, or an object of columns."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.model.text import counted
from workbench.store.datasets.columns import KNOWN
from workbench.store.datasets.kinds import kind_of
from workbench.store.datasets.messages import is_messages
from workbench.store.datasets.rows import MESSAGES, Fault, Record, broken_record
from workbench.store.datasets.text import no_text_in
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.store.documents import Loaded
    from workbench.store.documents.places import Place

_A_ROW = "an object, the columns of a row"


_ONCE = "it once"


class _Repeated(Exception):
    """A key occurs twice in an object."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are the same strings in all rows: there are few, a hundred thousand times."""
    made = {sys.intern(name): value for name, value in pairs}
    if len(made) != len(pairs):
        raise _Repeated
    return made


_decode = json.JSONDecoder(object_pairs_hook=_object).decode


def records_of_lines(path: Path | str, lines: Sequence[str]) -> Iterator[Record]:
    """The rows of JSON lines; a line that is none is a row with a problem."""
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        if (byte := no_text_in(line)) is not None:
            problem = StoreError(path, line=number, column=byte.offset + 1, found=byte.found, expected="UTF-8 text")
            yield broken_record(problem)
            continue
        try:
            columns = _columns_in(path, number, line)
        except StoreError as problem:
            yield broken_record(problem)
            continue
        row = {MESSAGES: columns} if is_messages(columns) else columns
        if isinstance(row, dict):
            yield Record(row, number, partial(_error_in_line, path, number, line))
        else:
            yield broken_record(StoreError(path, line=number, found=kind_of(columns), expected=_A_ROW))


def _columns_in(path: Path | str, number: int, line: str) -> Any:
    """What a line says. Raises StoreError, also for a key that occurs twice with different values."""
    try:
        return _decode(line)
    except _Repeated:
        lost = _lost_keys(line)
        if lost:
            raise _error_at(path, number, line, lost[0], found=_twice(lost[0]), expected=_ONCE) from None
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise StoreError(path, f"is not JSON: {error.msg}", line=number, column=error.pos + 1) from None
    except RecursionError:
        raise StoreError(path, "is nested too deeply", line=number) from None
    except ValueError as error:  # a number of thousands of digits
        raise StoreError(path, f"is not JSON: {error}", line=number) from None


def _lost_keys(text: str) -> list[Place]:
    """The keys that occur twice in an object with different values, of which readers take the last."""
    from workbench.store.documents.repeated import repeated_keys

    return [place for place, loses_data in repeated_keys(text) if loses_data]


def _twice(place: Place) -> str:
    return f"the key {place[-1]!r} twice, with different values"


def records_of_json(loaded: Loaded) -> Iterator[Record]:
    """The rows of a JSON file. Raises StoreError where it holds no rows at all."""
    lost = _lost_keys(loaded.text)
    is_list_of_rows = isinstance(loaded.data, list) and not _is_conversation(loaded.data)
    if lost and not is_list_of_rows:
        raise loaded.error(lost[0], found=_twice(lost[0]), expected=_ONCE)
    if _is_conversation(loaded.data) or (isinstance(loaded.data, dict) and is_messages(loaded.data.get(MESSAGES))):
        return _record_of_messages(loaded, loaded.data)
    if isinstance(loaded.data, list):
        return _records_of_list(loaded, loaded.data, {place[0]: place for place in reversed(lost)})
    if isinstance(loaded.data, dict):
        return _records_of_columns(loaded, loaded.data)
    raise loaded.error((), found=kind_of(loaded.data), expected="a list of rows, or an object of columns")


def _is_conversation(data: Any) -> bool:
    """Whether a list is the messages of one conversation, and not rows that have a role and a content besides."""
    return is_messages(data) and (not isinstance(data[0], dict) or data[0].keys().isdisjoint(KNOWN))


def _record_of_messages(loaded: Loaded, data: Any) -> Iterator[Record]:
    """The only row of a file that is one conversation: a list of messages, or an object with one."""
    if isinstance(data, list):
        yield Record({MESSAGES: data}, None, partial(_error_in_messages, loaded, ()))
    else:
        yield Record(data, None, partial(_error_in_row, loaded))


def _error_in_line(path: Path | str, number: int, line: str, fault: Fault) -> StoreError:
    from workbench.store.documents.places import parse_place

    place = (fault.column, *parse_place(fault.inner))
    return _error_at(path, number, line, place, found=fault.found, expected=fault.expected)


def _error_at(path: Path | str, number: int, line: str, place: Place, *, found: str, expected: str) -> StoreError:
    from workbench.store.documents.places import format_place, locate

    column = locate(line, place) + 1
    return StoreError(path, place=format_place(place), line=number, column=column, found=found, expected=expected)


def _records_of_list(loaded: Loaded, rows: list[Any], lost: dict[int | str, Place]) -> Iterator[Record]:
    """`lost` are the keys, by row, that occur twice with different values."""
    for index, columns in enumerate(rows):
        if index in lost:
            yield broken_record(loaded.error(lost[index], found=_twice(lost[index]), expected=_ONCE))
        elif is_messages(columns):
            yield Record({MESSAGES: columns}, None, partial(_error_in_messages, loaded, (index,)))
        elif isinstance(columns, dict):
            yield Record(columns, None, partial(_error_in_list, loaded, index))
        else:
            yield broken_record(loaded.error((index,), found=kind_of(columns), expected=_A_ROW))


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


def _error_in_messages(loaded: Loaded, above: Place, fault: Fault) -> StoreError:
    """The error in a row that is a list of messages, and not an object that has one."""
    from workbench.store.documents.places import parse_place

    return loaded.error((*above, *parse_place(fault.inner)), found=fault.found, expected=fault.expected)


def _error_in_row(loaded: Loaded, fault: Fault) -> StoreError:
    from workbench.store.documents.places import parse_place

    return loaded.error((fault.column, *parse_place(fault.inner)), found=fault.found, expected=fault.expected)


def _error_in_column(loaded: Loaded, key: int | str, fault: Fault) -> StoreError:
    from workbench.store.documents.places import parse_place

    return loaded.error((fault.column, key, *parse_place(fault.inner)), found=fault.found, expected=fault.expected)
