"""Rows of BigQuery and of Parquet files (extras)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.model.text import one_line, redact
from workbench.store.datasets.dataset_rows import Record, records_from_values
from workbench.store.datasets.remote_data import SCHEME
from workbench.store.errors import StoreError

# Tables of BigQuery (the extra `bigquery`): `bq://project.dataset.table`

_NO_BIGQUERY = "BigQuery needs google-cloud-bigquery: pip install 'agent-eval-workbench[bigquery]'"
_SIGN_IN = "sign in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_PATIENCE = 60.0  # seconds for one request with all retries; the client's default is ten minutes


def records_from_table(address: str) -> Iterator[Record]:
    """Read a table. Credentials come from the environment; BIGQUERY_EMULATOR_HOST needs none.

    Raises StoreError.
    """
    return records_from_values(_read_table(address), source=address)


def check_table_reachable(address: str) -> None:
    """Read one row of a table, which needs the same permission as reading all. Raises StoreError."""
    _read_table(address, most=1)


def _read_table(address: str, *, most: int | None = None) -> list[dict[str, Any]]:
    project, *others = address.removeprefix(SCHEME).split(".")
    if not project or len(others) != 2 or not all(others):
        raise StoreError(address, found=f"{address!r}", expected=f"{SCHEME}PROJECT.DATASET.TABLE")
    try:
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.credentials import AnonymousCredentials
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import bigquery
        from google.cloud.bigquery.retry import DEFAULT_RETRY
    except ImportError:
        raise StoreError(address, _NO_BIGQUERY) from None
    try:
        keyless = AnonymousCredentials() if os.environ.get("BIGQUERY_EMULATOR_HOST") else None
        client = bigquery.Client(project=project, credentials=keyless)
        retry = DEFAULT_RETRY.with_timeout(_PATIENCE)
        table = client.get_table(f"{project}.{'.'.join(others)}", retry=retry, timeout=_PATIENCE)
        rows = client.list_rows(table, max_results=most, retry=retry, timeout=_PATIENCE)
        return [dict(row.items()) for row in rows]
    except GoogleAuthError as error:
        raise StoreError(address, f"cannot read it: {_describe_error(error)}; {_SIGN_IN}") from error
    except RetryError as error:
        raise StoreError(address, f"cannot read it: {_describe_error(error.cause or error)}") from error
    except GoogleAPICallError as error:
        raise StoreError(address, f"cannot read it: {_describe_error(error.message)}") from error
    except (OSError, ValueError) as error:  # connection errors of requests are OSErrors
        raise StoreError(address, f"cannot read it: {_describe_error(error)}") from error


def _describe_error(error: Any) -> str:
    return one_line(redact(str(error)), width=200).rstrip(".")


# Parquet files (the extra `pandas`, whose pyarrow reads and writes them)

_NO_PARQUET = "Parquet needs pyarrow: pip install 'agent-eval-workbench[pandas]'"
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
        raise StoreError(path, f"is no Parquet file that can be read: {str(error).splitlines()[0]}") from None
    columns = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    return records_from_values(_iterate_batches(table.select(columns)), source=path)


def encode_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Encode rows as Parquet; lists and objects become JSON text, which preserves them.

    Raises StoreError, also for a column with numbers in one row and text in another.
    """
    pyarrow = _import_pyarrow(path)
    from pyarrow import parquet

    names = dict.fromkeys(name for row in rows for name in row)
    cells = {name: [_format_cell(row.get(name)) for row in rows] for name in names}
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
        raise StoreError(path, _NO_PARQUET) from None
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


def _format_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
