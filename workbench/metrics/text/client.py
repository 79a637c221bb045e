"""The text helper as the engine uses it: one process for a run, started early or when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from workbench.metrics.text.helper import Helper, HelperDied
from workbench.metrics.text_helper.tasks import TextScore, TextTask

_IN_FLIGHT = 8  # batches; the helper works on one at a time, more would only fill the pipe

_STARTS_AT_MOST = 3


class TextError(Exception):
    """Texts could not be compared; the message says why."""


class TextScorer:
    """Compares texts in a helper process. Used on one event loop; costs nothing until it is started.

    Where the helper dies or does not answer in time, a new one is started and whatever was under way is tried once
    more, each batch in a process of its own: texts that kill the helper cost only their own case. Where it is killed
    while it starts, another one is started, at most twice in a row. One that cannot start is not tried again.
    """

    def __init__(self) -> None:
        self._starting: asyncio.Task[Helper] | None = None
        self._unusable: str | None = None
        self._failed_starts: list[HelperDied] = []
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._second_try = asyncio.Lock()

    def start(self) -> None:
        """Start the helper without waiting for it, so that it is ready when the first agent is done."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(Helper.start())

    async def score(self, tasks: Sequence[TextTask]) -> list[TextScore]:
        """The score of each task, in order. Raises TextError where one of them has none."""
        if not tasks:
            return []
        answers = await self._answers(tasks)
        scores = [answer for answer in answers if isinstance(answer, TextScore)]
        if len(scores) < len(tasks):
            raise TextError(next((answer for answer in answers if isinstance(answer, str)), "too few answers"))
        return scores

    async def _answers(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        while True:
            try:
                async with self._slots:
                    answers = await (await self._living_helper()).ask(tasks)
            except HelperDied as death:
                self._note_death(death)
                if death.was_ready:
                    return await self._ask_alone(tasks)
            else:
                self._failed_starts.clear()
                return answers

    async def close(self) -> None:
        """End the helper. What is under way, or comes later, fails."""
        self._unusable = self._unusable or "the text helper was closed"
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        try:
            await (await starting).close()
        except HelperDied:
            return  # it never lived

    async def _living_helper(self) -> Helper:
        if self._unusable is not None:
            raise TextError(self._unusable)
        starting = self._starting
        if starting is not None and starting.done() and (starting.exception() or starting.result().is_dead):
            self._starting = None
        self.start()
        assert self._starting is not None
        return await asyncio.shield(self._starting)

    async def _ask_alone(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        async with self._second_try:
            for left in reversed(range(_STARTS_AT_MOST)):
                try:
                    return await self._ask_own(tasks)
                except HelperDied as death:
                    if death.was_ready or not death.was_killed or not left:
                        raise TextError(f"{death} while comparing these texts") from death
        raise AssertionError("unreachable")

    async def _ask_own(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        """Ask a helper of its own. Raises HelperDied."""
        helper = await Helper.start()
        try:
            return await helper.ask(tasks)
        finally:
            await helper.close()

    def _note_death(self, death: HelperDied) -> None:
        """Give up after too many failed starts, one of which several batches may wait for. Raises TextError."""
        if not death.was_ready and all(death is not each for each in self._failed_starts):
            self._failed_starts.append(death)
        if self._unusable is None and self._failed_starts and not self._failed_starts[-1].was_killed:
            self._unusable = str(death)
        if self._unusable is None and len(self._failed_starts) >= _STARTS_AT_MOST:
            self._unusable = f"{death} ({_STARTS_AT_MOST} times)"
        if self._unusable is not None:
            raise TextError(self._unusable) from death
