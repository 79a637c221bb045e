"""Reading a great many values at once, without the garbage collector in the way."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_MANY = 20_000
"""Fewer new objects than these are searched for garbage in a few milliseconds: they stay with the collector."""
_ROUNDS = 16
"""After so many large readings the objects that the collector passes over are counted, which takes milliseconds."""


class _PassedOver:
    """The objects that the collector passes over, with garbage that was among them or has become so since."""

    def __init__(self) -> None:
        self._rounds = 0
        self._count = 0

    def add_everything(self) -> None:
        """Have the collector pass over all objects that exist, but search them first once they have doubled."""
        gc.freeze()
        self._rounds += 1
        if self._rounds % _ROUNDS:
            return
        count = gc.get_freeze_count()
        if self._count and count > 2 * self._count:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._count = gc.get_freeze_count()
        self._count = self._count or count


_passed_over = _PassedOver()


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """For making very many values, all of which stay: searching them for garbage would take most of the time.

    If there are many, the collector passes over everything that exists afterwards. It is still freed when nothing
    refers to it any more. Cycles, of which our values have none, are freed when a process that reads again and again
    (`watch`, the screen) has collected too many objects.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    made_before = gc.get_count()[0]
    try:
        yield
    finally:
        if was_enabled:
            # While the collector is off, its first count is that of the objects made and not freed.
            if gc.get_count()[0] - made_before >= _MANY:
                _passed_over.add_everything()
            gc.enable()
