"""Tables of BigQuery (the extra `bigquery`): `bq://project.dataset.table`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from workbench.model.text import one_line, redact
from workbench.store.datasets.remote import SCHEME
from workbench.store.datasets.rows import Record
from workbench.store.datasets.values import records_of_values
from workbench.store.errors import StoreError

_MISSING = "BigQuery needs google-cloud-bigquery: pip install 'agent-eval-workbench[bigquery]'"
_SIGN_IN = "sign in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_PATIENCE = 60.0  # seconds for one request with all its tries; the client's own default is ten minutes


def records_of_table(address: str) -> Iterator[Record]:
    """The rows of a table. Credentials are those of the environment; BIGQUERY_EMULATOR_HOST needs none.

    Raises StoreError.
    """
    return records_of_values(_rows(address), source=address)


def reach_table(address: str) -> None:
    """Read one row of a table, which needs the same permission as all. Raises StoreError."""
    _rows(address, most=1)


def _rows(address: str, *, most: int | None = None) -> list[dict[str, Any]]:
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
        raise StoreError(address, _MISSING) from None
    try:
        keyless = AnonymousCredentials() if os.environ.get("BIGQUERY_EMULATOR_HOST") else None
        client = bigquery.Client(project=project, credentials=keyless)
        retry = DEFAULT_RETRY.with_timeout(_PATIENCE)
        table = client.get_table(f"{project}.{'.'.join(others)}", retry=retry, timeout=_PATIENCE)
        rows = client.list_rows(table, max_results=most, retry=retry, timeout=_PATIENCE)
        return [dict(row.items()) for row in rows]
    except GoogleAuthError as error:
        raise StoreError(address, f"cannot read it: {_said(error)}; {_SIGN_IN}") from error
    except RetryError as error:
        raise StoreError(address, f"cannot read it: {_said(error.cause or error)}") from error
    except GoogleAPICallError as error:
        raise StoreError(address, f"cannot read it: {_said(error.message)}") from error
    except (OSError, ValueError) as error:  # requests' own errors of connections are OSErrors
        raise StoreError(address, f"cannot read it: {_said(error)}") from error


def _said(error: Any) -> str:
    return one_line(redact(str(error)), width=200).rstrip(".")
