"""What benchmarks of the screen share that run it in their own process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def collecting_as_the_program() -> Iterator[None]:
    """Garbage is collected as seldom as where the program is started from the command line."""
    thresholds = gc.get_threshold()
    gc.set_threshold(5_000, 10, 1_000)
    yield
    gc.set_threshold(*thresholds)
