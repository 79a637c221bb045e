"""A run that the screen follows: what it said is taken up at once and shown at the next tick."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.model.events import RunEvent, RunFinished
from workbench.model.keys import JobKey
from workbench.tui.state.progress import RunProgress

if TYPE_CHECKING:
    from workbench.engine.run import Run

_MOST_EVENTS = 4_000  # taken in one tick, so that a tick stays short
_BURST = 200  # events taken up before a key press gets a word in


@dataclass
class FollowedRun:
    """`progress` is None for a run that is not shown as such, because it only scores again."""

    run: Run
    jobs: Sequence[JobKey]
    progress: RunProgress | None = None
    _events: deque[RunEvent] = field(default_factory=deque)

    async def follow(self) -> None:
        """Take up events until the run is over."""
        count = 0
        async for event in self.run.events():
            self._events.append(event)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    def take(self) -> list[RunEvent]:
        """The events that are to be shown now."""
        return [self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))]


def has_ended(events: Sequence[RunEvent]) -> bool:
    """Whether the run is over with these events."""
    return bool(events) and isinstance(events[-1], RunFinished)
