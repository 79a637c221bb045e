"""Fixtures of benchmarks that run the screen in their own process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def gc_settings_of_program() -> Iterator[None]:
    """Use the thresholds of the garbage collector of the installed program."""
    thresholds = gc.get_threshold()
    gc.set_threshold(5_000, 10, 1_000)
    yield
    gc.set_threshold(*thresholds)
