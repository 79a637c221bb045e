"""What metrics may call on: the text helper, and the target's worker for functions of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.agents.host import AgentError, AgentHost, CustomScoreAnswer, CustomScoreRequest, LeftByAgents
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble
from workbench.metrics.text import TextScorer
from workbench.model.results import Failure, FailureKind
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.llm.models import Models


class RunServices:
    """The services of one run for the cases of one target. The host is only asked for when a function must run."""

    def __init__(
        self,
        text: TextScorer,
        host: Callable[[], AgentHost],
        *,
        timeout_seconds: float,
        left: Callable[[], LeftByAgents],
        models: Callable[[], Models],
        use_cache: bool,
    ) -> None:
        """`left` gives what agents had left when the run began, `models` is asked for when the first model is needed.

        `use_cache`: earlier answers of models will do.
        """
        self.text = text
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._left = left
        self._open_models = models
        self._models: Models | None = None
        self._use_cache = use_cache

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask a model, or the cache. Raises ModelError."""
        if self._models is None:
            try:
                self._models = self._open_models()
            except StoreError as error:
                raise ModelError(Trouble.NOT_RECORDED, str(error)) from error
        return await self._models.ask(request, use_cache=self._use_cache)

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
