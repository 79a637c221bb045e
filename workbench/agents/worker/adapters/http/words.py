"""Failures of connections, in words: what aiohttp says of them shows URLs with the keys and passwords in them."""

from __future__ import annotations

import aiohttp


def in_words(error: aiohttp.ClientError | OSError) -> str:
    """Why a request got no answer, without any URL."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}: {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy cannot be connected to: {error.os_error.strerror}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection before it had answered"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "it closed the connection in the middle of its answer"
    if isinstance(error, aiohttp.InvalidURL):
        return "found no URL, expected one once its variables are filled in"
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
