"""What metrics may call on: the text helper, and the target's worker for functions of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from workbench.agents.host import AgentError, AgentHost, CustomScoreAnswer, CustomScoreRequest, LeftByAgents
from workbench.engine.asking import opened_when_asked
from workbench.llm.requests import Ask, ModelReply, ModelRequest
from workbench.metrics.text import TextScorer
from workbench.model.results import Failure, FailureKind


class RunServices:
    """The services of one run for the cases of one target. The host is only asked for when a function must run."""

    def __init__(
        self,
        text: TextScorer,
        host: Callable[[], AgentHost],
        *,
        timeout_seconds: float,
        left: Callable[[], LeftByAgents],
        ask: Callable[[], Ask],
    ) -> None:
        """`left` gives what agents had left when the run began; `ask` gives what asks models, when one is needed."""
        self.text = text
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._left = left
        self._ask = opened_when_asked(ask)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask a model, or whoever answers in its place. Raises ModelError."""
        return await self._ask(request)

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Run a metric function in the target's worker, for as long as a case may take.

        Raises AgentError where it could not do its work.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds) as deadline:
                return await self._host().score(replace(request, left=self._left()))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            message = f"took longer than {self._timeout_seconds:g} s"
            raise AgentError(Failure(kind=FailureKind.METRIC, message=message)) from error
