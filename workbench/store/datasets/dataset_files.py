"""Datasets read from files, addresses and values, as recorded cases, and written to files."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.facts import LazyField, LazyValue, pause_gc
from workbench.model.installation import install_command
from workbench.model.results import (
    Execution,
    TurnResult,
    make_row_case,
    make_row_execution,
    make_row_prompt,
    make_row_turn,
)
from workbench.model.text import pluralise
from workbench.store.datasets.dataset_rows import (
    ID,
    LATENCY,
    MEASURES,
    MESSAGES,
    TEXTS,
    TRAJECTORIES,
    Columns,
    Dataset,
    Record,
    Row,
    decode_rows,
    read_row,
    records_from_csv,
    records_from_json,
    records_from_lines,
    records_from_values,
    rename_columns,
)
from workbench.store.datasets.remote_data import (
    SCHEME,
    check_reachable,
    check_table_reachable,
    fetch,
    records_from_table,
    shown_address,
)
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import EVAL_SET_SUFFIXES, is_pipe, make_stamp, read_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.store.evalsets.evalset_document import EvalSetDocument


# Datasets by the suffix of their names

_Reader = Callable[[Path | str, bytes, Columns], Iterator[Record]]


def read_dataset(source: Path | str, *, columns: Columns | None = None) -> Dataset:
    """Read a dataset: a file, or an address given as text. The suffix of its name is its format (`ENDINGS`).

    Addresses are those of fsspec (`https://`, `gs://`, `s3://`, ...) and tables of BigQuery
    (`bq://project.dataset.table`). `columns` has the names of known columns in the dataset, if they differ. An invalid
    row has problems; the others are read. Raises StoreError if no row can be read.
    """
    shown = shown_address(source) if isinstance(source, str) else source
    return dataset_from_records(shown, read_records(source, columns=columns), columns=columns)


def dataset_from_records(source: Path | str, records: Iterable[Record], *, columns: Columns | None = None) -> Dataset:
    """Make a dataset of records. Raises StoreError as `read_dataset`."""
    if columns:
        records = rename_columns(records, columns, source=source)
    with pause_gc():
        rows = tuple(read_row(record, number=number) for number, record in enumerate(records, start=1))
    if rows and all(row.problems for row in rows):
        raise rows[0].problems[0]
    return Dataset(source, rows)


def read_records(source: Path | str, *, columns: Columns | None = None) -> Iterator[Record]:
    """Read the rows of a file or address, by the suffix of its name. Raises StoreError."""
    if isinstance(source, str) and source.startswith(SCHEME):
        return records_from_table(source)
    if isinstance(source, Path) and is_pipe(source):  # whose name says nothing
        data, _ = read_bytes(source)
        return _READERS.get(source.suffix.lower(), _READERS[_guess_format(data)])(source, data, columns or {})
    path = shown_address(source) if isinstance(source, str) else source
    reader = _find_reader(path)
    data = fetch(source) if isinstance(source, str) else read_bytes(source)[0]
    return reader(path, data, columns or {})


def _guess_format(data: bytes) -> str:
    """Guess the suffix of a dataset from its content."""
    start = data.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if data.startswith(b"PAR1"):
        return ".parquet"
    if start == b"[":
        return ".json"
    return ".jsonl" if start == b"{" else ".csv"


def check_dataset_reachable(address: str) -> None:
    """Check that an address can be read, and read as little of it as possible. Raises StoreError."""
    if address.startswith(SCHEME):
        check_table_reachable(address)
        return
    _find_reader(shown_address(address))
    check_reachable(address)


def _find_reader(path: Path | str) -> _Reader:
    reader = _READERS.get(PurePath(path).suffix.lower())
    if reader is None:
        raise StoreError(path, f"is not a dataset: expected a name that ends in {ENDINGS}")
    return reader


def _read_lines(path: Path | str, data: bytes, _: Columns) -> Iterator[Record]:
    return records_from_lines(path, _iter_lines(decode_rows(path, data)))


def _iter_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, without holding all of them."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _read_csv(path: Path | str, data: bytes, columns: Columns) -> Iterator[Record]:
    return records_from_csv(path, decode_rows(path, data), columns)


def _read_json(path: Path | str, data: bytes, _: Columns) -> Iterator[Record]:
    from workbench.store.evalsets.config_files import parse_json

    return records_from_json(parse_json(path, data, make_stamp(data)))


_READERS: Mapping[str, _Reader] = {
    ".jsonl": _read_lines,
    ".ndjson": _read_lines,
    ".csv": _read_csv,
    ".json": _read_json,
    ".parquet": lambda path, data, _: records_from_parquet(path, data),
}

ENDINGS = ".jsonl, .csv, .json or .parquet"
"""The suffixes of datasets, for messages."""


# Datasets in memory: pandas frames, lists of rows, and dicts of columns


def dataset_from_frame(frame: DataFrame, *, columns: Columns | None = None, name: str = "data frame") -> Dataset:
    """Make a dataset of a pandas frame, in its order and with any index.

    Values of numpy and pandas become JSON values, and missing ones (NaN, None, NA, NaT) None. `columns` as in
    `read_dataset`; `name` is the name of the frame in errors. Raises StoreError if nothing can be read.
    """
    names = [str(column) for column in frame.columns]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise StoreError(name, found=f"the column {twice[0]!r} twice", expected="columns of different names")
    labels = frame.index.tolist()
    values = [frame.iloc[:, position].tolist() for position in range(len(names))]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
    shown = [f"row {n}" if label == n - 1 else f"row {n} (index {label})" for n, label in enumerate(labels, start=1)]
    return dataset_from_records(name, records_from_values(rows, source=name, labels=shown), columns=columns)


def dataset_from_columns(
    values: Mapping[str, Sequence[Any]], *, columns: Columns | None = None, name: str = "dataset"
) -> Dataset:
    """Make a dataset of a dict of columns, each a sequence with a value for each row. See `dataset_from_frame`."""
    lengths = {key: len(column) for key, column in values.items()}
    first = next(iter(lengths.items()), ("", 0))
    for key, length in lengths.items():
        if length != first[1]:
            expected = f"{pluralise(first[1], 'row')}, as in {first[0]}"
            raise StoreError(name, place=key, found=pluralise(length, "row"), expected=expected)
    return dataset_from_rows(
        (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)), columns=columns, name=name
    )


def dataset_from_rows(
    rows: Iterable[Mapping[str, Any]], *, columns: Columns | None = None, name: str = "dataset"
) -> Dataset:
    """Make a dataset of a sequence of mappings. See `dataset_from_frame`."""
    return dataset_from_records(name, records_from_values(rows, source=name), columns=columns)


# Recorded cases: actual and expected results for scoring without running an agent

_NO_COLUMNS: Mapping[str, Any] = {"prompt": None}
"""The columns of an empty row: a case without columns would be none of a dataset, with no calls."""
_CASES = frozenset({"eval_cases", "evalCases"})


@dataclass(frozen=True, kw_only=True)
class RecordedCase:
    """One case to score, or the problem that prevents it.

    `case` is the expectation; None if there is nothing to compare with. `columns` is the row of the dataset.
    `occurrence` separates cases with the same id. `errors` are the parts of the problem of a row. `case` and
    `execution` of a row are built on each access.
    """

    eval_id: str
    occurrence: int = 0
    case: LazyField[EvalCase | None] = LazyField(None)  # noqa: RUF009 - a descriptor
    execution: LazyField[Execution] = LazyField(Execution())  # noqa: RUF009 - as above
    columns: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None
    errors: tuple[StoreError, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The content of a file of recordings. `problems` are lines about the eval sets that were read, besides those of
    cases."""

    path: Path | str
    eval_set_id: str
    cases: tuple[RecordedCase, ...]
    problems: tuple[str, ...] = ()


def read_recorded(path: Path | str, *, expected: Path | None = None, columns: Columns | None = None) -> Recorded:
    """Read a dataset (an address is text), or an eval set of recorded sessions and the expected set.

    Sessions are paired by eval id and turns by position. A session without partner, or with another number of turns, is
    a case with a problem. Without `expected` there is nothing to compare sessions with. `columns` of a dataset as in
    `read_dataset`. Raises StoreError if a file cannot be read at all, or has no known column.
    """
    with pause_gc():
        if isinstance(path, Path) and not is_dataset(path):
            if columns:
                raise StoreError(path, "is an eval set: only datasets have columns to map")
            return _read_sessions(path, expected)
        if expected is not None:
            raise StoreError(
                path, f"is not an eval set: only recorded sessions can be compared with {shown_path(expected)}"
            )
        dataset = read_dataset(path, columns=columns)
        refuse_without_known_columns(dataset)
        return Recorded(dataset.source, PurePath(dataset.source).stem, make_recorded_cases(dataset))


def refuse_without_known_columns(dataset: Dataset) -> None:
    """Raise StoreError if no row has a column that workbench knows."""
    named = (*TEXTS, *TRAJECTORIES, MESSAGES)
    known = {name for row in dataset.rows for name in row.columns}
    if dataset.rows and known.isdisjoint(named):
        found = ", ".join(sorted(known)[:5]) or "none"
        expected = f"at least one of {', '.join(named)}, or columns mapped to them: response=answer"
        raise StoreError(dataset.source, found=f"the columns {found}", expected=expected)


def is_dataset(path: Path) -> bool:
    """True if a file is a dataset and no eval set, by its name, or for other JSON files by its content.

    Raises StoreError if it cannot be read.
    """
    if path.suffix.lower() != ".json" or path.name.endswith(EVAL_SET_SUFFIXES):
        return not path.name.endswith(EVAL_SET_SUFFIXES)
    from workbench.store.evalsets.config_files import read_json

    data = read_json(path).data
    return not isinstance(data, dict) or _CASES.isdisjoint(data)


def make_recorded_cases(dataset: Dataset) -> tuple[RecordedCase, ...]:
    """Make cases of one turn from the rows."""
    with pause_gc():
        return tuple(_iterate_cases(dataset))


def _iterate_cases(dataset: Dataset) -> Iterator[RecordedCase]:
    seen: Counter[str] = Counter()
    for row in dataset.rows:
        occurrence = seen[row.eval_id]
        seen[row.eval_id] += 1
        yield RecordedCase(
            eval_id=row.eval_id,
            occurrence=occurrence,
            case=LazyValue(_make_expected_case, row),
            execution=LazyValue(_make_actual_execution, row),
            columns=row.columns or _NO_COLUMNS,
            problem="; ".join(map(str, row.problems)) if row.problems else None,
            errors=row.problems,
        )


def _make_expected_case(row: Row) -> EvalCase:
    expected = make_row_turn(make_row_prompt(row.prompt), row.reference, row.reference_trajectory)
    return make_row_case(row.eval_id, expected)


def _make_actual_execution(row: Row) -> Execution:
    actual = make_row_turn(make_row_prompt(row.prompt), row.response, row.predicted_trajectory)
    return make_row_execution(actual, seconds=_read_latency(row))


def _read_latency(row: Row) -> float:
    """Return the duration of the turn in seconds, if the row has it; else 0."""
    seconds = row.columns.get(LATENCY)
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        return float(seconds)
    return 0.0


def _read_sessions(path: Path, expected: Path | None) -> Recorded:
    from workbench.store.evalsets.evalset_document import EvalSetDocument

    actual = EvalSetDocument.open(path)
    sessions = _read_cases(actual)
    problems = _list_set_problems(actual)
    if expected is None:
        cases = [_pair_session(eval_id, session, None) for eval_id, session in sessions.items()]
        return Recorded(path, actual.eval_set_id, tuple(cases), problems)
    document = EvalSetDocument.open(expected)
    wanted = _read_cases(document)
    cases = []
    for eval_id in dict.fromkeys((*wanted, *sessions)):
        if eval_id not in sessions:
            cases.append(
                RecordedCase(eval_id=eval_id, problem=f"{shown_path(path)}: no session of {eval_id!r} is recorded")
            )
        elif eval_id not in wanted:
            cases.append(RecordedCase(eval_id=eval_id, problem=f"{shown_path(expected)}: there is no case {eval_id!r}"))
        else:
            cases.append(_pair_session(eval_id, sessions[eval_id], wanted[eval_id]))
    return Recorded(path, actual.eval_set_id, tuple(cases), (*problems, *_list_set_problems(document)))


def _list_set_problems(document: EvalSetDocument) -> tuple[str, ...]:
    """Return the errors of a set except those that stop a case, which the case reports."""
    from workbench.store.evalsets.adk_rules import format_problems

    return tuple(format_problems(error for error in document.errors if not error.stops_case))


def _read_cases(document: EvalSetDocument) -> dict[str, EvalCase | str]:
    """Return the cases by id; a text is the problem of a case."""
    counts = Counter(entry.eval_id for entry in document.entries)
    cases: dict[str, EvalCase | str] = {}
    for entry in document.entries:
        if counts[entry.eval_id] > 1:
            cases[entry.eval_id] = (
                f"{shown_path(document.path)}: duplicate eval_id {entry.eval_id!r} ({counts[entry.eval_id]} times); "
                "make it unique"
            )
            continue
        try:
            cases[entry.eval_id] = document.case(entry.index)
        except StoreError as error:
            cases[entry.eval_id] = str(error)
    return cases


def _pair_session(eval_id: str, session: EvalCase | str, wanted: EvalCase | str | None) -> RecordedCase:
    for side in (session, wanted):
        if isinstance(side, str):
            return RecordedCase(eval_id=eval_id, problem=side)
    assert isinstance(session, EvalCase)
    assert not isinstance(wanted, str)
    if session.conversation is None:
        return RecordedCase(eval_id=eval_id, problem=f"{eval_id!r} is a scenario, expected a recorded conversation")
    turns = None if wanted is None else wanted.conversation
    if turns is not None and len(turns) != len(session.conversation):
        return RecordedCase(
            eval_id=eval_id,
            case=wanted,
            problem=f"{eval_id!r}: found {pluralise(len(session.conversation), 'turn')}, expected {len(turns)}",
        )
    return RecordedCase(eval_id=eval_id, case=wanted, execution=_make_execution(session, session.conversation))


def _make_execution(session: EvalCase, conversation: list[Invocation]) -> Execution:
    turns = tuple(TurnResult(invocation=invocation, duration_seconds=0.0) for invocation in conversation)
    return Execution(turns=turns, final_state=session.final_session_state)


# Parquet files (the extra `pandas`, whose pyarrow reads and writes them)

_INDEX = re.compile(r"__index_level_\d+__")  # pandas' name of the column of an unnamed index


def records_from_parquet(path: Path | str, data: bytes) -> Iterator[Record]:
    """Read a Parquet file. Raises StoreError.

    Parquet gives each object of a column the keys of all of them, with null for missing ones. Such keys are left out,
    so that calls keep their own arguments.
    """
    pyarrow = _import_pyarrow(path)
    from pyarrow import parquet

    try:
        table = parquet.read_table(pyarrow.BufferReader(data))
    except (pyarrow.ArrowException, OSError) as error:
        raise StoreError(path, f"is not a readable Parquet file: {str(error).splitlines()[0]}") from None
    columns = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    return records_from_values(_iterate_batches(table.select(columns)), source=path)


def encode_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Encode rows as Parquet; lists and objects become JSON text, which preserves them.

    Raises StoreError, also for a column with numbers in one row and text in another.
    """
    pyarrow = _import_pyarrow(path)
    from pyarrow import parquet

    names = dict.fromkeys(name for row in rows for name in row)
    cells = {name: [_format_parquet_cell(row.get(name)) for row in rows] for name in names}
    arrays = {}
    for name, column in cells.items():
        try:
            arrays[name] = pyarrow.array(column)
        except (pyarrow.ArrowException, OverflowError):
            raise StoreError(
                path, place=name, found="values of several kinds", expected="one kind for Parquet"
            ) from None
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(arrays), sink)
    return bytes(sink.getvalue())


def _import_pyarrow(path: Path | str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise StoreError(path, f"Parquet needs pyarrow: {install_command('pandas')}") from None
    return pyarrow


def _iterate_batches(table: Any) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield {name: _remove_nulls(value) for name, value in row.items()}


def _remove_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _remove_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_remove_nulls(item) for item in value]
    return value


def _format_parquet_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


# Datasets written in each format that can be read.
#
# NaN and infinities become null. Lone surrogates, which JSON can escape and UTF-8 cannot encode, become question marks.

Rows = Sequence[Mapping[str, Any]]
Loss = tuple[str, int]
"""What a format cannot represent of a row, in words, and the number of the row from 1."""


def encode_rows(path: Path, rows: Rows) -> bytes:
    """Encode rows in the format of the file's suffix. Raises StoreError for an unknown suffix or an invalid value."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise StoreError(path, f"is not a dataset: expected a name that ends in {', '.join(_WRITERS)}")
    return writer(path, [replace_unwritable(row) for row in rows])


def replace_unwritable(value: Any) -> Any:
    """Replace everything in a JSON value that JSON and UTF-8 cannot represent."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    return json.loads(text, parse_constant=lambda _: None)


def find_json_losses(value: Any) -> Iterator[str]:
    """Yield descriptions of the changes by `replace_unwritable`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        yield "NaN and Infinity become null"
        text = json.dumps(value, ensure_ascii=False)
    if not text.isascii() and text != text.encode("utf-8", "replace").decode():
        yield "halves of surrogate pairs become question marks"


def find_losses(path: Path, rows: Rows) -> Iterator[Loss]:
    """Yield the losses of writing these rows and reading them again."""
    suffix = path.suffix.lower()
    for number, row in enumerate(rows, start=1):
        for name, value in row.items():
            yield from ((f"{what}: {replace_unwritable(name)}", number) for what in find_json_losses({name: value}))
            if suffix == ".csv":
                yield from ((what, number) for what in _find_csv_losses(name, value))
            elif suffix == ".parquet" and isinstance(value, list | dict) and not _is_read_from_text(name):
                yield f"lists and objects become text: {name}", number


def _find_csv_losses(name: str, value: Any) -> Iterator[str]:
    if value == "":
        yield f"empty text becomes a missing value: {name}"
    elif isinstance(value, bool | int | float) and name != ID and (name not in MEASURES or isinstance(value, bool)):
        yield f"numbers and booleans become text: {name}"
    elif (
        isinstance(value, str) and name not in (*TEXTS, ID) and value[:1] in ("[", "{") and not _is_read_from_text(name)
    ):
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return
        yield f"text that is JSON becomes a JSON value: {name}"


def _is_read_from_text(name: str) -> bool:
    """True if JSON text of a list is read as a list."""
    return name.endswith(("trajectory", "messages"))


def _encode_lines(_: Path, rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def _encode_json(_: Path, rows: Rows) -> bytes:
    return (json.dumps(rows, ensure_ascii=False, indent=2) + "\n").encode()


def _encode_csv(_: Path, rows: Rows) -> bytes:
    stream = io.StringIO(newline="")
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(stream)  # ends lines as RFC 4180: with "\n" alone, a "\r" in a cell would not be quoted
    writer.writerow(names)
    for row in rows:
        cells = [_format_csv_cell(row.get(name)) for name in names]
        writer.writerow(cells)
    return stream.getvalue().encode()


def _format_csv_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_WRITERS: Mapping[str, Callable[[Path, Rows], bytes]] = {
    ".jsonl": _encode_lines,
    ".csv": _encode_csv,
    ".json": _encode_json,
    ".parquet": encode_parquet,
}
