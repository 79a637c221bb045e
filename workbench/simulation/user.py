"""What a user is, whoever plays it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workbench.llm.requests import ModelReply
from workbench.model.evalset import Content
from workbench.model.results import Failure, SimulatedConversation, TurnResult


class UserFailed(Exception):
    """The user cannot go on, through no fault of the agent."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class UserCall:
    """One message that a model was asked for: what it was shown, and what it said, which may be the end."""

    model: str
    prompt: str
    reply: ModelReply | None
    problem: str | None = None


class User(Protocol):
    """Talks to the agent in one conversation."""

    @property
    def turns(self) -> int | None:
        """How many turns the conversation will have; None where the user decides as it goes."""

    @property
    def calls(self) -> Sequence[UserCall]:
        """What a model was asked so far."""

    async def next_message(self, turns: Sequence[TurnResult]) -> Content | None:
        """What the user says after these turns; None where the conversation is over. Raises UserFailed."""

    def told(self) -> SimulatedConversation | None:
        """How a model played the user so far; None where none did."""
