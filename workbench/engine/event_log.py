"""The events of one run or chat, for any number of listeners on any thread or event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

E = TypeVar("E")

# A listener that is woken waits this long for more: being woken for each event would cost a busy run more than the
# event itself.
_GATHER_SECONDS = 0.005

# Unread events hold the results of whole cases.
_MOST_UNREAD = 256
_PATIENCE = 1.0  # seconds


class EventLog(Generic[E]):
    """Keeps what happened; each listener reads on from its own place, from the first event.

    Appending never waits: a listener that is slow or gone costs nothing but the memory of the log. An event
    of the type `last` ends the log for every listener.
    """

    def __init__(self, *, last: type[Any]) -> None:
        self._last = last
        self._events: list[E] = []
        self._wakers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def append(self, event: E) -> None:
        """Add an event and wake whoever waits. Thread-safe."""
        with self._lock:
            self._events.append(event)
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def let_listener_catch_up(self) -> None:
        """Wait a moment while the one listener has too much to read. A run without a listener never stops here."""

    @property
    def held(self) -> int:
        """How many events are in memory."""
        return len(self._events)

    async def events(self) -> AsyncIterator[E]:
        """All events from the first on, ending after the last."""
        loop = asyncio.get_running_loop()
        position = 0
        while True:
            arrived = asyncio.Event()
            batch = self._read(position, wake=lambda arrived=arrived: _wake(loop, arrived))  # type: ignore[misc]
            if not batch:
                await arrived.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                continue
            position += len(batch)
            for event in batch:
                yield event
                if isinstance(event, self._last):
                    return

    def iter_events(self) -> Iterator[E]:
        """The same for a thread without an event loop: waits where nothing has happened yet."""
        position = 0
        while True:
            arrived = threading.Event()
            batch = self._read(position, wake=arrived.set)
            if not batch:
                arrived.wait()
                time.sleep(_GATHER_SECONDS)
                continue
            position += len(batch)
            for event in batch:
                yield event
                if isinstance(event, self._last):
                    return

    def _read(self, position: int, *, wake: Callable[[], None]) -> list[E]:
        """What came after `position`; where nothing did, `wake` is called once when something does."""
        with self._lock:
            batch = self._events[position:]
            if not batch:
                self._wakers.append(wake)
            return batch


class PassingLog(EventLog[E]):
    """The same for one listener only: what it has read is let go of."""

    async def let_listener_catch_up(self) -> None:
        """See `EventLog.let_listener_catch_up`."""
        until = time.monotonic() + _PATIENCE
        while self.held > _MOST_UNREAD and time.monotonic() < until:  # noqa: ASYNC110 - readers may be threads
            await asyncio.sleep(_GATHER_SECONDS)

    def _read(self, position: int, *, wake: Callable[[], None]) -> list[E]:  # noqa: ARG002 - all there is, is new
        with self._lock:
            batch, self._events = self._events, []
            if not batch:
                self._wakers.append(wake)
            return batch


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> Any:
    # The listener's loop may have been closed since; the run does not care.
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrived.set)
