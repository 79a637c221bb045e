"""The text helper as the engine uses it: one process for a run, started early or when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from workbench.metrics.text.helper import Helper, HelperDied
from workbench.metrics.text_helper.tasks import TextScore, TextTask

_IN_FLIGHT = 8  # batches; the helper works on one at a time, more would only fill the pipe


class TextError(Exception):
    """Texts could not be compared; the message says why."""


class TextScorer:
    """Compares texts in a helper process. Used on one event loop; costs nothing until it is started.

    Where the helper dies, a new one is started and whatever was under way is tried once more, each batch in a process
    of its own: texts that kill the helper cost only their own case. A helper that cannot even start is not tried again.
    """

    def __init__(self) -> None:
        self._starting: asyncio.Task[Helper] | None = None
        self._unusable: str | None = None
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
        try:
            async with self._slots:
                answers = await (await self._living_helper()).ask(tasks)
        except HelperDied as death:
            self._give_up_where_it_cannot_work(death)
            answers = await self._ask_alone(tasks)
        scores = [answer for answer in answers if isinstance(answer, TextScore)]
        if len(scores) < len(tasks):
            raise TextError(next((answer for answer in answers if isinstance(answer, str)), "too few answers"))
        return scores

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
        if self._starting is not None and self._starting.done() and (await self._starting).is_dead:
            self._starting = None
        self.start()
        assert self._starting is not None
        return await asyncio.shield(self._starting)

    async def _ask_alone(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        async with self._second_try:
            try:
                helper = await Helper.start()
            except HelperDied as death:
                raise TextError(str(death)) from death
            try:
                return await helper.ask(tasks)
            except HelperDied as death:
                raise TextError(f"{death} while comparing these texts") from death
            finally:
                await helper.close()

    def _give_up_where_it_cannot_work(self, death: HelperDied) -> None:
        if self._unusable is None and not death.was_ready:
            self._unusable = str(death)
        if self._unusable is not None:
            raise TextError(self._unusable) from death
