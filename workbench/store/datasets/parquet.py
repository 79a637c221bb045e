"""Parquet files (the extra `pandas`, whose pyarrow reads and writes them)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.store.datasets.rows import Record
from workbench.store.datasets.values import records_of_values
from workbench.store.errors import StoreError

_MISSING = "Parquet needs pyarrow: pip install 'agent-eval-workbench[pandas]'"
_INDEX = re.compile(r"__index_level_\d+__")  # so pandas calls the column of an index without a name


def records_of_parquet(path: Path | str, data: bytes) -> Iterator[Record]:
    """The rows of a Parquet file. Raises StoreError.

    Parquet gives each object of a column the keys of all of them, with null where one had none: such keys are left out,
    so that a call has the arguments that it had.
    """
    pyarrow = _pyarrow(path)
    from pyarrow import parquet

    try:
        table = parquet.read_table(pyarrow.BufferReader(data))
    except (pyarrow.ArrowException, OSError) as error:
        raise StoreError(path, f"is no Parquet file that can be read: {str(error).splitlines()[0]}") from None
    columns = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    return records_of_values(_rows(table.select(columns)), source=path)


def parquet_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A Parquet file of rows; lists and objects are JSON text in it, which keeps them as they are.

    Raises StoreError, also for a column that holds numbers in one row and text in another.
    """
    pyarrow = _pyarrow(path)
    from pyarrow import parquet

    names = dict.fromkeys(name for row in rows for name in row)
    cells = {name: [_cell(row.get(name)) for row in rows] for name in names}
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


def _pyarrow(path: Path | str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise StoreError(path, _MISSING) from None
    return pyarrow


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield {name: _without_nulls(value) for name, value in row.items()}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
