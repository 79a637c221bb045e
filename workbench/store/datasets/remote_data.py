"""Files elsewhere, through fsspec (the extra `fsspec`): `https://`, `gs://`, `s3://` and whatever else it knows."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, NoReturn
from urllib.parse import urlsplit

from workbench.model.text import one_line, redact
from workbench.store.errors import StoreError

SCHEME = "bq://"
"""How addresses of BigQuery's tables begin."""

_MISSING = "addresses need fsspec: pip install 'agent-eval-workbench[fsspec]'"
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "s3": "s3fs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs"}
_CREDENTIALS = {
    "gcsfs": "sign in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    "s3fs": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
}
_DENIED = frozenset(
    {"NoCredentialsError", "DefaultCredentialsError", "PermissionError", "RefreshError", "ClientAuthenticationError"}
)
"""Errors of the clients that say that somebody has to sign in; their packages may not be there."""

_LOUD = ("gcsfs", "s3fs", "adlfs", "fsspec", "botocore", "aiobotocore")
_SILENCE = logging.NullHandler()
_QUERY = re.compile(r"\?[^\s'\"]+")

_CONNECT_SECONDS = 10
_SILENT_SECONDS = 20

_Purpose = Literal["read", "write"]


def is_address(text: str) -> bool:
    """Whether a text is the address of a file or table elsewhere, and no path."""
    scheme, separator, _ = text.partition("://")
    try:
        urlsplit(text)
    except ValueError:  # brackets without an end
        return False
    return bool(separator) and scheme.replace("+", "").isalnum()


def shown_address(address: str) -> str:
    """An address as people may see it: without the user and the query, which hold keys and signatures."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def join_address(folder: str, name: str) -> str:
    """The address of a file in a folder elsewhere; a query, which may be a signature, stays behind it."""
    if urlsplit(folder).scheme not in ("http", "https"):  # elsewhere names may hold a question mark
        return f"{folder.rstrip('/')}/{name}"
    parts = urlsplit(folder)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def fetch(address: str) -> bytes:
    """The content of a file elsewhere. Raises StoreError, in which the address is the shown one."""
    with _open_fsspec(address, to="read") as fsspec:
        system, place = fsspec.url_to_fs(address, **_options(address))
        data = system.cat_file(place)
        if not isinstance(data, bytes):
            raise TypeError(f"its filesystem gave a {type(data).__name__}, expected bytes")
        return data


def check_reachable(address: str) -> None:
    """Open a file elsewhere and read nothing of it. Raises StoreError, in which the address is the shown one."""
    with _open_fsspec(address, to="read") as fsspec:
        system, place = fsspec.url_to_fs(address, **_options(address))
        if urlsplit(address).scheme in ("http", "https"):
            from fsspec.asyn import sync

            sync(system.loop, _check_reachable_by_http, system, place)
        elif system.info(place)["type"] == "directory":
            raise FileNotFoundError(place)


async def _check_reachable_by_http(system: Any, place: str) -> None:
    """By the request that reads it, as signed addresses may refuse any other."""
    session = await system.set_session()
    async with session.get(system.encode_url(place), **system.kwargs) as response:
        response.raise_for_status()


def put(address: str, data: bytes) -> None:
    """Write a file elsewhere, over what is there. Raises StoreError, in which the address is the shown one."""
    with _open_fsspec(address, to="write") as fsspec:
        system, place = fsspec.url_to_fs(address, **_options(address))
        with suppress(PermissionError):  # who may write into a bucket may not be allowed to make one
            system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.pipe_file(place, data)


def _options(address: str) -> dict[str, Any]:
    """How patient to be with a server that says nothing; clients of storages have limits of their own."""
    if urlsplit(address).scheme not in ("http", "https"):
        return {}
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
    return {"client_kwargs": {"timeout": timeout}}


def check_address(address: str) -> None:
    """Raise StoreError where nothing that is installed can write to an address. Nobody is asked."""
    with _open_fsspec(address, to="write") as fsspec:
        fsspec.get_filesystem_class(urlsplit(address).scheme)


@contextmanager
def _open_fsspec(address: str, *, to: _Purpose) -> Iterator[Any]:
    """fsspec, and what goes wrong with it as a StoreError."""
    shown = shown_address(address)
    scheme = urlsplit(address).scheme
    try:
        import fsspec
    except ImportError:
        raise StoreError(shown, _MISSING) from None
    for loud in _LOUD:  # where nobody listens to their logs, tracebacks would stand above our message
        logging.getLogger(loud).addHandler(_SILENCE)
    try:
        yield fsspec
    except ImportError:
        raise StoreError(shown, _describe_missing_package(scheme)) from None
    except Exception as error:  # each storage raises what its client library does
        _raise_store_error(shown, scheme, error, to=to)


def describe_error(error: Exception) -> str:
    """What an error of reading or writing an address says, in one line and without keys and signatures."""
    return one_line(redact(_QUERY.sub("", _explain_error(error))), width=200) or type(error).__name__


def _describe_missing_package(scheme: str) -> str:
    """What to install for addresses of a kind."""
    if scheme in ("http", "https"):
        return f"{scheme}:// needs aiohttp: pip install 'agent-eval-workbench[fsspec]'"
    package = _PACKAGES.get(scheme)
    if package is None:
        return f"{scheme}:// needs a package that is not installed; see the documentation of fsspec"
    return f"{scheme}:// needs {package}: pip install {package}"


def _explain_error(error: Exception) -> str:
    """What went wrong; of aiohttp, whose words are for programmers, in others."""
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
