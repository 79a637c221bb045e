"""The certificates of the system, which aiohttp reads when it is imported: left for when they are needed."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator

_without: list[ssl.SSLContext] = []
"""Contexts that have no certificates yet, and trust nobody."""


@contextlib.contextmanager
def unread_certificates() -> Iterator[None]:
    """Where aiohttp is imported. To read certificates takes longer than the rest of the import, most agents behind HTTP
    need none, and `.env`, which may say where others are, is not known yet."""
    kept = ssl.SSLContext.__dict__.get(_READ)
    setattr(ssl.SSLContext, _READ, _read_later)
    try:
        yield
    finally:
        if kept is None:
            delattr(ssl.SSLContext, _READ)  # what it inherits is there again
        else:
            setattr(ssl.SSLContext, _READ, kept)


_READ = "set_default_verify_paths"


def _read_later(context: ssl.SSLContext) -> None:
    _without.append(context)


def read_certificates() -> None:
    """Have aiohttp's contexts trust whom the environment says, as of now."""
    while _without:
        _without.pop().set_default_verify_paths()
