"""How long an event loop hears nothing: every callback and every step of a task on it, by the clock and in CPU time."""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from typing import Any, NamedTuple, Self


class Held(NamedTuple):
    """One callback, in seconds. CPU time is that of the loop's own thread: what other programs take is not in it."""

    cpu: float
    wall: float


class LoopLag:
    """While it is entered, notes how long each callback of the loops of this thread took."""

    def __init__(self) -> None:
        self._held: list[Held] = []
        self._run: Any = None
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        self._run = run = asyncio.events.Handle._run
        lag = self

        def timed(handle: asyncio.Handle) -> None:
            if threading.get_ident() != lag._thread:
                run(handle)
                return
            wall, cpu = time.perf_counter(), time.thread_time()
            run(handle)
            lag._held.append(Held(time.thread_time() - cpu, time.perf_counter() - wall))

        asyncio.events.Handle._run = timed  # type: ignore[method-assign,assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.events.Handle._run = self._run  # type: ignore[method-assign]

    def take(self) -> Held:
        """The longest by either since the last time."""
        held, self._held = self._held, []
        return Held(max((item.cpu for item in held), default=0.0), max((item.wall for item in held), default=0.0))
