"""Pausing the garbage collector during a read does not leak garbage."""

from __future__ import annotations

import gc
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


def test_garbage_is_freed_after_the_objects_have_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_frozen_objects", facts._FrozenObjects())
    monkeypatch.setattr(facts, "_ROUNDS", 2)
    cycle = Cycle()
    reference = weakref.ref(cycle)
    with pause_gc():
        objects = [[number] for number in range(2 * facts._MANY)]
    del cycle
    at_most = len(objects) + 4 * gc.get_freeze_count()

    while reference() is not None:
        assert len(objects) < at_most
        with pause_gc():
            objects += [[number] for number in range(4 * facts._MANY)]
