"""What metrics may call on: the text helper, and the target's worker for functions of the user."""

from __future__ import annotations

from collections.abc import Callable

from workbench.agents.host import AgentHost, CustomScoreAnswer, CustomScoreRequest
from workbench.metrics.text import TextScorer


class RunServices:
    """The services of one run for the cases of one target. The host is only asked for when a function must run."""

    def __init__(self, text: TextScorer, host: Callable[[], AgentHost]) -> None:
        self.text = text
        self._host = host

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Run a metric function in the target's worker. Raises AgentError where it could not do its work."""
        return await self._host().score(request)
