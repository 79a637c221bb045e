"""The process from which tests fork pytest."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.testing.forked_pytest import ForkedPytest


@pytest.fixture(scope="session")
def forked_pytest() -> Iterator[ForkedPytest | None]:
    """Return None where processes are not forked: each run starts a new interpreter."""
    if sys.platform != "linux":
        yield None
        return
    forked = ForkedPytest()
    yield forked
    forked.close()
