"""How many requests a model gets at a time: as many as the settings allow, fewer as long as it says it is too much."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator

from aiolimiter import AsyncLimiter

_LONGEST_PAUSE = 60.0
_TOGETHER = 1.0  # seconds in which requests were sent together: of their refusals one counts


class AdaptiveLimit:
    """The limit of one model, shared by all that ask it. Used on one event loop.

    Too many requests (429) halve what is allowed at a time and have everybody wait as long as the service wants; each
    answer allows a little more again (additive increase, multiplicative decrease, as TCP does it).
    """

    def __init__(self, at_a_time: int, *, per_minute: int | None = None) -> None:
        self._most = at_a_time
        self._allowed = float(at_a_time)
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._halved_at = -_TOGETHER
        self._rate = None if per_minute is None else AsyncLimiter(max(1, per_minute // 6), 10.0)

    @property
    def allowed(self) -> int:
        """How many may run at a time now."""
        return max(1, int(self._allowed))

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn."""
        await self._take()
        try:
            await self._pause()
            if self._rate is not None:
                await self._rate.acquire()
            yield
        finally:
            self._running -= 1
            self._wake()

    def answered(self) -> None:
        """A request went well."""
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)
        self._wake()

    def too_many(self, *, retry_after: float | None) -> None:
        """The service had too many requests."""
        now = time.monotonic()
        if now - self._halved_at >= _TOGETHER:
            self._halved_at = now
            self._allowed = max(1.0, self._allowed / 2)
        self._paused_until = max(self._paused_until, now + min(retry_after or 0.0, _LONGEST_PAUSE))

    async def _pause(self) -> None:
        left = self._paused_until - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
            await self._pause()  # it may have become longer

    async def _take(self) -> None:
        if self._running < self.allowed and not self._waiting:
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came in the same moment
                self._running -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self._running < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
