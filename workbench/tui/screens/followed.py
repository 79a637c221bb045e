"""A run that the screen follows: what it said is taken up at once and shown at the next tick."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.model.events import RunEvent, RunFinished
from workbench.model.keys import JobKey
from workbench.tui.state.progress import RunProgress
from workbench.tui.state.project import StoppedRun
from workbench.tui.state.run.planned import PlannedRun
from workbench.tui.state.standing import Standing

if TYPE_CHECKING:
    from workbench.engine.run import Run

_MOST_EVENTS = 4_000  # taken in one tick, so that a tick stays short
_BURST = 200  # events taken up before a key press gets a word in


@dataclass
class FollowedRun:
    """`progress` is None for a run that is not shown as such, because it only scores again.

    `planned` is what the user wanted; None for a run that cannot be resumed.
    """

    run: Run
    jobs: Sequence[JobKey]
    progress: RunProgress | None = None
    planned: PlannedRun | None = None
    _events: deque[RunEvent] = field(default_factory=deque)
    _is_complete: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the last event has been taken up."""
        return self._is_complete

    @property
    def stopped(self) -> StoppedRun | None:
        """The run as it can be resumed, once it is over; None if every job came to its end."""
        if self.progress is None or self.planned is None:
            return None
        if not self.progress.interrupted and not self.progress.jobs.counts[Standing.CANCELLED]:
            return None
        options = self.planned.options.model_copy(update={"resume": self.run.run_id})
        return StoppedRun(self.planned.selections, options, self.planned.config)

    @property
    def has_news(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._events)

    def add(self, event: RunEvent) -> None:
        """Take up an event that somebody else has listened to."""
        self._events.append(event)
        self._is_complete = isinstance(event, RunFinished)

    def cancel(self) -> None:
        """Stop the run; what has finished stays."""
        if self.progress is not None:
            self.progress.cancelling = True
        self.run.cancel()

    def end(self) -> None:
        """Nobody listens to the run any longer: take it as over."""
        if not self._is_complete:
            began = self.progress.began if self.progress is not None else time.monotonic()
            self.add(
                RunFinished(
                    run_id=self.run.run_id,
                    summary=self.run.summary(),
                    duration_seconds=time.monotonic() - began,
                    interrupted=True,
                )
            )

    async def follow(self) -> None:
        """Take up events until the run is over."""
        count = 0
        async for event in self.run.events():
            self.add(event)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    def take(self) -> list[RunEvent]:
        """The events that are to be shown now."""
        return [self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))]


def has_ended(events: Sequence[RunEvent]) -> bool:
    """Whether the run is over with these events."""
    return bool(events) and isinstance(events[-1], RunFinished)
