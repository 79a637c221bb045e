"""What went wrong with a connection, in words for people.

Libraries tell it in texts with their own objects in them, and wrap each other's errors: the one that it began with, and
the one that knows the address, are somewhere below. They are told by the names of their classes, so that no library is
imported for them.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

_LIBRARIES = frozenset({"httpx", "httpcore", "httpx2", "httpcore2", "aiohttp", "anyio", "requests", "urllib3", "http"})
_NOT_CONNECTED = frozenset(
    {"ClientConnectorError", "ConnectError", "ConnectTimeout", "ConnectionTimeoutError", "NewConnectionError"}
)
_TOO_SLOW = frozenset({"ServerTimeoutError", "TimeoutException", "ReadTimeout"})
_BROKEN_OFF = frozenset(
    {"ServerDisconnectedError", "ClientOSError", "ClientPayloadError", "NetworkError", "ProtocolError"}
)
_NO_ADDRESS = frozenset({"InvalidURL", "NonHttpUrlClientError", "UnsupportedProtocol"})
_PORTS = {"http": 80, "https": 443}
_DEEPEST = 20  # errors below one


def is_of_connection(error: BaseException) -> bool:
    """Whether an error comes from a library that connects to servers, or from the system."""
    return _library_of(error) in _LIBRARIES or isinstance(error, OSError)


def is_no_address(error: BaseException) -> bool:
    """Whether what a library was to connect to is no address of a server."""
    return _library_of(error) in _LIBRARIES and any(kind.__name__ in _NO_ADDRESS for kind in type(error).__mro__)


def said_of_connection(error: BaseException) -> str | None:
    """What kept a request from its answer: where nothing could be connected to, or what broke off; None where it was
    something else."""
    causes = list(_causes(error))
    names = {kind.__name__ for each in causes if _library_of(each) in _LIBRARIES for kind in type(each).__mro__}
    server = next(filter(None, (_server_of(each) for each in reversed(causes))), "the server")
    if names & _NOT_CONNECTED or any(isinstance(each, ConnectionRefusedError | socket.gaierror) for each in causes):
        why = _reason(causes)
        return f"cannot connect to {server}{f': {why}' if why else ''}"
    if names & _TOO_SLOW:
        return f"no answer from {server} in time"
    if names & _BROKEN_OFF or any(isinstance(each, ConnectionError) for each in causes):
        return f"{server} closed the connection before it had answered"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it came of, down to the first."""
    below: BaseException | None = error
    for _ in range(_DEEPEST):
        if below is None:
            return
        yield below
        # A group has one for each address of a name; httpcore hides the error that says why behind `from None`.
        group = below.exceptions if isinstance(below, BaseExceptionGroup) else ()
        below = group[0] if group else below.__cause__ or below.__context__


def _library_of(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _server_of(error: BaseException) -> str | None:
    """Host and port, where an error of these libraries knows them."""
    if _library_of(error) not in _LIBRARIES:
        return None
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    if isinstance(host, str) and isinstance(port, int):
        return _written(host, port)
    try:
        parts = urlsplit(str(getattr(error, "request").url))  # noqa: B009 - httpx raises where there is none
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except (AttributeError, RuntimeError, ValueError):
        return None
    return _written(host, port) if host and port else None


def _written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(causes: Sequence[BaseException]) -> str:
    """Why there was no connection, as the system or the certificate says it; empty where neither does."""
    for each in reversed(causes):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted ({each.verify_message})"
        if isinstance(each, ssl.SSLError):
            return "it does not speak TLS as expected"
        if isinstance(each, socket.gaierror):
            return "no server has that name, or names cannot be looked up"
        if isinstance(each, ConnectionResetError):
            return "the connection was closed at once"
        if isinstance(each, TimeoutError):
            return "no answer in time"
        if isinstance(each, OSError) and each.errno is not None and each.errno > 0:
            return os.strerror(each.errno).lower()
    return ""
