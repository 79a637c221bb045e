"""The user of a case with a fixed conversation."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model.evalset import Content, Invocation
from workbench.model.results import TurnResult
from workbench.simulation.user import UserCall


class FixedConversation:
    """Says the user contents of a case's conversation one after the other, whatever the agent answers."""

    calls: Sequence[UserCall] = ()

    def __init__(self, conversation: Sequence[Invocation]) -> None:
        self._contents = tuple(invocation.user_content for invocation in conversation)

    @property
    def turns(self) -> int:
        """How many turns the conversation will have."""
        return len(self._contents)

    async def next_message(self, turns: Sequence[TurnResult]) -> Content | None:
        """What the user says after these turns; None where the conversation is over."""
        return self._contents[len(turns)] if len(turns) < len(self._contents) else None

    def told(self) -> None:
        """Nobody played this user."""
