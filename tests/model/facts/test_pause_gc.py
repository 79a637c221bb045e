"""Pausing the garbage collector during a read does not leak garbage."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from workbench.model import facts
from workbench.model.facts import pause_gc


class Cycle:
    """A reference cycle, which only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _unfreeze_afterwards() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # the state that tests/conftest.py sets up


def test_a_small_read_leaks_no_garbage() -> None:
    frozen = gc.get_freeze_count()
    cycle = Cycle()
    reference = weakref.ref(cycle)

    with pause_gc():
        del cycle
    gc.collect()

    assert reference() is None
    assert gc.get_freeze_count() <= frozen


def test_the_collector_skips_the_objects_of_a_large_read() -> None:
    frozen = gc.get_freeze_count()

    with pause_gc():
        objects = [[number] for number in range(2 * facts._MANY)]

    assert gc.get_freeze_count() >= frozen + len(objects)


DOUBLING = """
import gc, weakref
from workbench.model import facts

class Cycle:
    def __init__(self):
        self.itself = self

facts._ROUNDS = 2
cycle = Cycle()
reference = weakref.ref(cycle)
with facts.pause_gc():
    objects = [[number] for number in range(2 * facts._MANY)]
del cycle
at_most = len(objects) + 4 * gc.get_freeze_count()
while reference() is not None:
    assert len(objects) < at_most
    with facts.pause_gc():
        objects += [[number] for number in range(4 * facts._MANY)]
print("freed")
"""


def test_garbage_is_freed_after_the_objects_have_doubled() -> None:
    """In a new process, because this one has millions of objects."""
    done = subprocess.run([sys.executable, "-c", DOUBLING], capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.stderr) == ("freed\n", "")
