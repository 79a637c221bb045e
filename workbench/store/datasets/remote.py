"""Files elsewhere, through fsspec (the extra `fsspec`): `https://`, `gs://`, `s3://` and whatever else it knows."""

from __future__ import annotations

import logging
import re
from typing import NoReturn
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


def fetch(address: str) -> bytes:
    """The content of a file elsewhere. Raises StoreError, in which the address is the shown one."""
    shown = shown_address(address)
    scheme = urlsplit(address).scheme
    try:
        import fsspec
    except ImportError:
        raise StoreError(shown, _MISSING) from None
    for loud in _LOUD:  # where nobody listens to their logs, tracebacks would stand above our message
        logging.getLogger(loud).addHandler(_SILENCE)
    try:
        system, place = fsspec.url_to_fs(address)
        data = system.cat_file(place)
    except ImportError:
        raise StoreError(shown, _needs(scheme)) from None
    except Exception as error:  # each storage raises what its client library does
        _refuse(shown, scheme, error)
    assert isinstance(data, bytes)
    return data


def _needs(scheme: str) -> str:
    """What to install for addresses of a kind."""
    if scheme in ("http", "https"):
        return f"{scheme}:// needs aiohttp: pip install 'agent-eval-workbench[fsspec]'"
    package = _PACKAGES.get(scheme)
    if package is None:
        return f"{scheme}:// needs a package that is not installed; see the documentation of fsspec"
    return f"{scheme}:// needs {package}: pip install {package}"


def _refuse(shown: str, scheme: str, error: Exception) -> NoReturn:
    said = redact(one_line(_QUERY.sub("", str(error)), width=200)) or type(error).__name__
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        raise StoreError(shown, "cannot read it: there is no such file") from error
    if type(error).__name__ in _DENIED or status in (401, 403, "401", "403"):
        remedy = _CREDENTIALS.get(_PACKAGES.get(scheme, ""), "it may need a key or a signed address")
        raise StoreError(shown, f"cannot read it: no permission without credentials ({said}); {remedy}") from error
    if isinstance(error, ValueError) and said.startswith("Protocol not known"):
        raise StoreError(shown, found=f"{scheme}://", expected="an address that fsspec knows, or bq://") from error
    raise StoreError(shown, f"cannot read it: {said}") from error
