"""Ctrl-C: the first stops a run so that nothing finished is lost, the second ends everything at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


@contextmanager
def graceful_interrupt(cancel: Callable[[], None], *, announce: Callable[[str], None]) -> Iterator[None]:
    """While this is open, SIGINT and SIGTERM call `cancel` (on a thread of its own); a second one ends the process.

    `announce` and `cancel` run on another thread because a signal handler may interrupt the main thread while it holds
    the very lock that they take.
    """
    received = 0

    def stop() -> None:
        announce("interrupted: stopping; finished results are kept (once more to end at once)")
        cancel()

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            threading.Thread(target=stop, daemon=True).start()
        else:
            if os.isatty(2):
                os.write(2, b"\r\x1b[K")
            os._exit(INTERRUPTED)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
