"""The engine's own thread and event loop, so that a front end that is busy never holds up a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class EngineThread:
    """An event loop that runs in a thread of its own until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="workbench-engine", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there; the future is this side's handle on it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function there soon; nothing happens where the loop has been closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def close(self, *, patience: float | None = None) -> None:
        """Stop the loop and wait for the thread; after `patience` (seconds) it is left alone, whatever holds it up."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(patience)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
