"""How many requests a model gets at a time: as many as the settings allow, fewer as long as it says it is too much."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable

from aiolimiter import AsyncLimiter

from workbench.llm.trouble import LONGEST_WAIT

_LONGEST_WITHOUT_ANSWER = 120.0  # seconds of refusals, one wait after another
_BACKOFF = 4.0  # each wait is so many times as long as the one before: a quota per minute is over after four
_SLOWLY = 10  # near the number that was refused, growing by one takes so many times as many answers


class AdaptiveLimit:
    """The limit of one model, shared by all that ask it. Used on one event loop.

    A refusal (429) allows no more at a time than are being answered, and each answer allows a little more again
    (additive increase). Everybody waits where the service says for how long, and where it refused although nothing else
    was under way.
    """

    def __init__(self, at_a_time: int, *, per_minute: int | None = None, first_wait_seconds: float = 1.0) -> None:
        self._most = at_a_time
        self._first_wait_seconds = first_wait_seconds
        self._allowed = float(at_a_time)
        self._refused_at = math.inf  # so many at a time were too many
        self._running = 0
        self._under_way = 0  # of those running, without those that wait for the pause to end
        self._answers = 0
        self._fruitless = 0  # refusals since the last answer while nothing else was under way
        self._fruitless_since = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._rate = None if per_minute is None else AsyncLimiter(max(1, per_minute // 6), 10.0)

    @property
    def allowed(self) -> int:
        """How many may run at a time now."""
        return max(1, int(self._allowed))

    @contextlib.asynccontextmanager
    async def slot(
        self, *, ended: asyncio.Event | None = None, waits: Callable[[float], None] = lambda _: None
    ) -> AsyncIterator[int]:
        """Wait for a turn. Gives the number of answers so far, which `refused` wants to know.

        `waits` is called with the seconds of a pause that has to be waited for; `ended` cuts that short.
        """
        await self._take()
        try:
            await self._pause(ended or asyncio.Event(), waits)
            if self._rate is not None:
                await self._rate.acquire()
            self._under_way += 1
            try:
                yield self._answers
            finally:
                self._under_way -= 1
        finally:
            self._running -= 1
            self._wake()

    def answered(self) -> None:
        """A request went well."""
        self._answers += 1
        self._fruitless = 0
        slowly = _SLOWLY if self._allowed + 1 >= self._refused_at else 1
        self._allowed = min(self._most, self._allowed + 1 / (slowly * self._allowed))
        if self._allowed > self._refused_at:
            self._refused_at = math.inf
        self._wake()

    def refused(self, *, answers: int, retry_after: float | None, most: int) -> bool:
        """The service refused, for having too many requests, one that was sent after so many answers. Called in its
        slot. Returns whether to try again, which waits as long as it takes.

        Not where that is over a minute, and not after `most` refusals in a row while nothing else was under way.
        """
        others = self._under_way - 1
        self._refused_at = others + 1
        self._allowed = max(1.0, min(self._allowed, others))
        now = time.monotonic()
        wait = retry_after or 0.0
        if not others and self._answers == answers:
            if not self._fruitless:
                self._fruitless_since = now
            self._fruitless += 1
            wait = self._backoff() if retry_after is None else retry_after
            lasts = now + wait - self._fruitless_since
            if self._fruitless >= most or lasts > _LONGEST_WITHOUT_ANSWER:
                self._fruitless = 0  # the next request tries anew
                return False
        if wait > LONGEST_WAIT:
            return False
        self._paused_until = max(self._paused_until, now + wait)
        return True

    def _backoff(self) -> float:
        longest = self._first_wait_seconds * _BACKOFF ** (self._fruitless - 1)
        return min(longest, LONGEST_WAIT) * random.uniform(0.75, 1.0)

    async def _pause(self, ended: asyncio.Event, waits: Callable[[float], None]) -> None:
        while (left := self._paused_until - time.monotonic()) > 0 and not ended.is_set():  # it may become longer
            waits(left)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await ended.wait()

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
