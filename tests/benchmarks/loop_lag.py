"""Measure how long callbacks and task steps block an event loop, in wall time and CPU time."""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from typing import Any, NamedTuple, Self


class Blocked(NamedTuple):
    """The duration of one callback in seconds. CPU time is that of the loop's thread only."""

    cpu: float
    wall: float


class LoopLag:
    """Measures, inside its context, each callback of the event loops of this thread."""

    def __init__(self) -> None:
        self._durations: list[Blocked] = []
        self._run: Any = None
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        self._run = run = asyncio.events.Handle._run
        lag = self

        def run_timed(handle: asyncio.Handle) -> None:
            if threading.get_ident() != lag._thread:
                run(handle)
                return
            wall, cpu = time.perf_counter(), time.thread_time()
            run(handle)
            lag._durations.append(Blocked(time.thread_time() - cpu, time.perf_counter() - wall))

        asyncio.events.Handle._run = run_timed  # type: ignore[method-assign,assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.events.Handle._run = self._run  # type: ignore[method-assign]

    def take_longest(self) -> Blocked:
        """Return the longest wall and CPU times since the last call."""
        durations, self._durations = self._durations, []
        return Blocked(
            max((item.cpu for item in durations), default=0.0), max((item.wall for item in durations), default=0.0)
        )
