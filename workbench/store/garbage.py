"""Reading a great many values at once, without the garbage collector in the way."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """For making very many values, all of which stay: searching them for garbage would take most of the time.

    Afterwards the collector passes over everything that is there by then. It is still freed when nobody refers to it
    any more; only cycles would stay, of which our values have none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
