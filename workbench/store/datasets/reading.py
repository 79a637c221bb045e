"""Reads datasets by the ending of their names; what the formats are is left to the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath

from workbench.store.datasets.columns import Columns, with_columns
from workbench.store.datasets.csv_cells import csv_records
from workbench.store.datasets.json_rows import records_of_json, records_of_lines
from workbench.store.datasets.remote import SCHEME, fetch, reach, shown_address
from workbench.store.datasets.rows import Dataset, Record, row_of
from workbench.store.datasets.text import text_of
from workbench.store.errors import StoreError
from workbench.store.files import read_bytes, stamp_of
from workbench.store.garbage import without_collecting

_Reader = Callable[[Path | str, bytes, Columns], Iterator[Record]]


def read_dataset(source: Path | str, *, columns: Columns | None = None) -> Dataset:
    """Read a dataset: a file by the ending of its name (`ENDINGS`), or what stands at an address, which is text.

    Addresses are those of fsspec (`https://`, `gs://`, `s3://`, ...) and tables of BigQuery
    (`bq://project.dataset.table`). `columns` says for columns that are known here which names they have in the dataset,
    where those differ. A row that cannot be read has problems, and the others are read. Raises StoreError where there
    is none that can be.
    """
    shown = shown_address(source) if isinstance(source, str) else source
    return dataset_of(shown, read_records(source, columns=columns), columns=columns)


def dataset_of(source: Path | str, records: Iterable[Record], *, columns: Columns | None = None) -> Dataset:
    """The dataset that records are. Raises StoreError as `read_dataset`."""
    if columns:
        records = with_columns(records, columns, source=source)
    with without_collecting():
        rows = tuple(row_of(record, number=number) for number, record in enumerate(records, start=1))
    if rows and all(row.problems for row in rows):
        raise rows[0].problems[0]
    return Dataset(source, rows)


def read_records(source: Path | str, *, columns: Columns | None = None) -> Iterator[Record]:
    """The rows of a file as they are, by the ending of its name, or of what stands at an address. Raises StoreError."""
    if isinstance(source, str) and source.startswith(SCHEME):
        from workbench.store.datasets.bigquery import records_of_table

        return records_of_table(source)
    path = shown_address(source) if isinstance(source, str) else source
    reader = _reader_of(path)
    data = fetch(source) if isinstance(source, str) else read_bytes(source)[0]
    return reader(path, data, columns or {})


def reach_dataset(address: str) -> None:
    """See whether what stands at an address can be read, and read as little of it as can be. Raises StoreError."""
    if address.startswith(SCHEME):
        from workbench.store.datasets.bigquery import reach_table

        reach_table(address)
        return
    _reader_of(shown_address(address))
    reach(address)


def _reader_of(path: Path | str) -> _Reader:
    reader = _READERS.get(PurePath(path).suffix.lower())
    if reader is None:
        raise StoreError(path, f"is no dataset: expected a name that ends in {ENDINGS}")
    return reader


def _lines(path: Path | str, data: bytes, _: Columns) -> Iterator[Record]:
    return records_of_lines(path, text_of(path, data).split("\n"))


def _csv(path: Path | str, data: bytes, columns: Columns) -> Iterator[Record]:
    return csv_records(path, text_of(path, data), columns)


def _json(path: Path | str, data: bytes, _: Columns) -> Iterator[Record]:
    from workbench.store.documents.reader import json_in

    return records_of_json(json_in(path, data, stamp_of(data)))


def _parquet(path: Path | str, data: bytes, _: Columns) -> Iterator[Record]:
    from workbench.store.datasets.parquet import records_of_parquet

    return records_of_parquet(path, data)


_READERS: Mapping[str, _Reader] = {
    ".jsonl": _lines,
    ".ndjson": _lines,
    ".csv": _csv,
    ".json": _json,
    ".parquet": _parquet,
}

ENDINGS = ".jsonl, .csv, .json or .parquet"
"""The endings of the names of datasets, in words."""
