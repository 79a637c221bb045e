"""Remote datasets: files through fsspec (`https://`, `gs://`, `s3://` and others), and tables of BigQuery."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import urlsplit

from workbench.model.installation import install_command
from workbench.model.text import one_line, redact
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.store.datasets.dataset_rows import Record

# Files through fsspec (the extra `fsspec`)

_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "s3": "s3fs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs"}
_CREDENTIALS = {
    "gcsfs": "sign in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    "s3fs": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
}
_DENIED = frozenset(
    {"NoCredentialsError", "DefaultCredentialsError", "PermissionError", "RefreshError", "ClientAuthenticationError"}
)
"""Names of errors for missing credentials; the packages of these clients may be missing."""

_LOUD = ("gcsfs", "s3fs", "adlfs", "fsspec", "botocore", "aiobotocore")
_SILENCE = logging.NullHandler()
_QUERY = re.compile(r"\?[^\s'\"]+")

_CONNECT_SECONDS = 10
_SILENT_SECONDS = 20

_Purpose = Literal["read", "write"]


def is_address(text: str) -> bool:
    """True if a text is the address of a remote file or table, and no path."""
    scheme, separator, _ = text.partition("://")
    try:
        urlsplit(text)
    except ValueError:  # unclosed brackets
        return False
    return bool(separator) and scheme.replace("+", "").isalnum()


def shown_address(address: str) -> str:
    """Return an address for display: without user and query, which may contain keys and signatures."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def join_address(folder: str, name: str) -> str:
    """Return the address of a file in a remote folder; a query, which may be a signature, stays at the end."""
    if urlsplit(folder).scheme not in ("http", "https"):  # other schemes allow question marks in names
        return f"{folder.rstrip('/')}/{name}"
    parts = urlsplit(folder)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def fetch(address: str) -> bytes:
    """Read a remote file. Raises StoreError with the displayed address."""
    with _open_fsspec(address, to="read") as fsspec:
        system, place = fsspec.url_to_fs(address, **_options(address))
        data = system.cat_file(place)
        if not isinstance(data, bytes):
            raise TypeError(f"its filesystem gave a {type(data).__name__}, expected bytes")
        return data


def check_reachable(address: str) -> None:
    """Open a remote file without reading it. Raises StoreError with the displayed address."""
    with _open_fsspec(address, to="read") as fsspec:
        system, place = fsspec.url_to_fs(address, **_options(address))
        if urlsplit(address).scheme in ("http", "https"):
            from fsspec.asyn import sync

            sync(system.loop, _check_reachable_by_http, system, place)
        elif system.info(place)["type"] == "directory":
            raise FileNotFoundError(place)


async def _check_reachable_by_http(system: Any, place: str) -> None:
    """Use the request that reads the file: signed addresses may refuse any other."""
    session = await system.set_session()
    async with session.get(system.encode_url(place), **system.kwargs) as response:
        response.raise_for_status()


def put(address: str, data: bytes) -> None:
    """Write or replace a remote file. Raises StoreError with the displayed address."""
    with _open_fsspec(address, to="write") as fsspec:
        system, place = fsspec.url_to_fs(address, **_options(address))
        with suppress(PermissionError):  # permission to write into a bucket does not include creating one
            system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.pipe_file(place, data)


def _options(address: str) -> dict[str, Any]:
    """Return time limits for servers that do not reply; clients of storages have their own."""
    if urlsplit(address).scheme not in ("http", "https"):
        return {}
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
    return {"client_kwargs": {"timeout": timeout}}


def check_address(address: str) -> None:
    """Raise StoreError if no installed package can write to an address. Sends no request."""
    with _open_fsspec(address, to="write") as fsspec:
        fsspec.get_filesystem_class(urlsplit(address).scheme)


@contextmanager
def _open_fsspec(address: str, *, to: _Purpose) -> Iterator[Any]:
    """Import fsspec, and raise its errors as StoreError."""
    shown = shown_address(address)
    scheme = urlsplit(address).scheme
    try:
        import fsspec
    except ImportError:
        raise StoreError(shown, f"addresses need fsspec: {install_command('fsspec')}") from None
    for loud in _LOUD:  # without a listener, their tracebacks would be printed above our message
        logging.getLogger(loud).addHandler(_SILENCE)
    try:
        yield fsspec
    except ImportError:
        raise StoreError(shown, _describe_missing_package(scheme)) from None
    except Exception as error:  # each storage raises the errors of its client library
        _raise_store_error(shown, scheme, error, to=to)


def describe_error(error: Exception) -> str:
    """Describe an error in one line, without keys and signatures."""
    return one_line(redact(_QUERY.sub("", _explain_error(error))), width=200) or type(error).__name__


def _describe_missing_package(scheme: str) -> str:
    """Return what to install for addresses of a scheme."""
    if scheme in ("http", "https"):
        return f"{scheme}:// needs aiohttp: {install_command('fsspec')}"
    package = _PACKAGES.get(scheme)
    if package is None:
        return f"{scheme}:// needs a package that is not installed; see the documentation of fsspec"
    return f"{scheme}:// needs {package}: pip install {package}"


def _explain_error(error: Exception) -> str:
    """Describe an error; messages of aiohttp, which are for programmers, are replaced."""
    if isinstance(error, TimeoutError):
        return f"no answer within {_SILENT_SECONDS} s"
    reason = getattr(error, "os_error", None)
    if not isinstance(reason, OSError):
        return str(error)
    why = os.strerror(reason.errno) if reason.errno is not None and reason.errno > 0 else reason.strerror
    return f"cannot connect to {getattr(error, 'host', '')}:{getattr(error, 'port', '')}: {why}"


def _raise_store_error(shown: str, scheme: str, error: Exception, *, to: _Purpose) -> NoReturn:
    said = describe_error(error)
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        missing = "file" if to == "read" else "bucket or folder"
        raise StoreError(shown, f"cannot {to} it: there is no such {missing}") from error
    if type(error).__name__ in _DENIED or status in (401, 403, "401", "403"):
        remedy = _CREDENTIALS.get(_PACKAGES.get(scheme, ""), "it may need a key or a signed address")
        raise StoreError(shown, f"cannot {to} it: no permission without credentials ({said}); {remedy}") from error
    if isinstance(error, ValueError) and said.startswith("Protocol not known"):
        expected = f"an address that fsspec knows{', or bq://' if to == 'read' else ''}"
        raise StoreError(shown, found=f"{scheme}://", expected=expected) from error
    raise StoreError(shown, f"cannot {to} it: {said}") from error


# Tables of BigQuery (the extra `bigquery`): `bq://project.dataset.table`

SCHEME = "bq://"
"""The scheme of BigQuery tables."""

_GOOGLE_SIGN_IN = "sign in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_BIGQUERY_SECONDS = 60.0  # seconds for one request with all retries; the client's default is ten minutes


def records_from_table(address: str) -> Iterator[Record]:
    """Read a table. Credentials come from the environment; BIGQUERY_EMULATOR_HOST needs none.

    Raises StoreError.
    """
    from workbench.store.datasets.dataset_rows import records_from_values

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
        raise StoreError(address, f"BigQuery needs google-cloud-bigquery: {install_command('bigquery')}") from None
    try:
        keyless = AnonymousCredentials() if os.environ.get("BIGQUERY_EMULATOR_HOST") else None
        client = bigquery.Client(project=project, credentials=keyless)
        retry = DEFAULT_RETRY.with_timeout(_BIGQUERY_SECONDS)
        table = client.get_table(f"{project}.{'.'.join(others)}", retry=retry, timeout=_BIGQUERY_SECONDS)
        rows = client.list_rows(table, max_results=most, retry=retry, timeout=_BIGQUERY_SECONDS)
        return [dict(row.items()) for row in rows]
    except GoogleAuthError as error:
        raise StoreError(address, f"cannot read it: {_describe_google_error(error)}; {_GOOGLE_SIGN_IN}") from error
    except RetryError as error:
        raise StoreError(address, f"cannot read it: {_describe_google_error(error.cause or error)}") from error
    except GoogleAPICallError as error:
        raise StoreError(address, f"cannot read it: {_describe_google_error(error.message)}") from error
    except (OSError, ValueError) as error:  # connection errors of requests are OSErrors
        raise StoreError(address, f"cannot read it: {_describe_google_error(error)}") from error


def _describe_google_error(error: Any) -> str:
    return one_line(redact(str(error)), width=200).rstrip(".")
