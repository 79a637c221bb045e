"""Which certificates are trusted: read where an agent speaks TLS, and when its variables are known."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def unread_certificates() -> Iterator[None]:
    """Where aiohttp is imported: it then reads all certificates of the system, which takes longer than the rest of the
    import, and before `.env` says where others are. Its own contexts trust nobody without them.
    """
    ssl.SSLContext.set_default_verify_paths = _read_nothing  # type: ignore[method-assign]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths  # the inherited one is there again


def _read_nothing(self: ssl.SSLContext) -> None:
    pass


def trusted_for(*urls: str | None) -> Any:
    """What to trust in connections to these, as aiohttp takes it: what the environment says where one has TLS."""
    needs_tls = any(url is not None and url.lower().startswith("https://") for url in urls)
    return ssl.create_default_context() if needs_tls else True
