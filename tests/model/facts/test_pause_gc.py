"""Reading without the collector in the way leaves no garbage behind for ever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from workbench.model import facts
from workbench.model.facts import pause_gc


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.myself = self


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as tests/conftest.py leaves it


def test_a_small_reading_keeps_no_garbage() -> None:
    frozen = gc.get_freeze_count()
    cycle = Cycle()
    kept = weakref.ref(cycle)

    with pause_gc():
        del cycle
    gc.collect()

    assert kept() is None
    assert gc.get_freeze_count() <= frozen


def test_a_large_reading_is_passed_over_by_the_collector() -> None:
    frozen = gc.get_freeze_count()

    with pause_gc():
        many = [[number] for number in range(2 * facts._MANY)]

    assert gc.get_freeze_count() >= frozen + len(many)


def test_garbage_is_freed_once_the_objects_have_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_frozen_objects", facts._FrozenObjects())
    monkeypatch.setattr(facts, "_ROUNDS", 2)
    cycle = Cycle()
    kept = weakref.ref(cycle)
    with pause_gc():
        many = [[number] for number in range(2 * facts._MANY)]
    del cycle
    at_most = len(many) + 4 * gc.get_freeze_count()

    while kept() is not None:
        assert len(many) < at_most
        with pause_gc():
            many += [[number] for number in range(4 * facts._MANY)]
