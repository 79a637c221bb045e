"""What a conversation by hand tells whoever listens, in the order in which it became true.

For each turn TurnBegan, its StepSeen, then TurnAnswered and StateSeen, or TurnFailed; ChatEnded last, whatever
happened. After a turn that failed or was cancelled the session is over: a conversation goes on in another one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from workbench.model.base import Fact
from workbench.model.evalset import Content
from workbench.model.results import CaseStatus, Failure, TurnResult
from workbench.model.trace import Span


class TurnBegan(Fact):
    """The agent was told something. Turns count from 0."""

    kind: Literal["turn_began"] = "turn_began"
    turn: int
    content: Content
    at: datetime


class StepSeen(Fact):
    """A step of the agent began or ended (see `Span.is_under_way`); one that was seen to begin comes again."""

    kind: Literal["step_seen"] = "step_seen"
    span: Span


class TurnAnswered(Fact):
    """A turn ended well."""

    kind: Literal["turn_answered"] = "turn_answered"
    turn: int
    result: TurnResult


class StateSeen(Fact):
    """What the state of the session is after a turn; None where the agent keeps none."""

    kind: Literal["state_seen"] = "state_seen"
    turn: int
    state: dict[str, Any] | None


class TurnFailed(Fact):
    """A turn ended without an answer: ERROR with its failure, or CANCELLED without one."""

    kind: Literal["turn_failed"] = "turn_failed"
    turn: int
    status: Literal[CaseStatus.ERROR, CaseStatus.CANCELLED]
    duration_seconds: float
    failure: Failure | None = None


class ChatEnded(Fact):
    """The session is over and its process gone: sent once, last.

    `failure` is set where the session ended by itself between two turns. `unsaid` is what was still to be said.
    """

    kind: Literal["chat_ended"] = "chat_ended"
    failure: Failure | None = None
    unsaid: tuple[Content, ...] = ()
    stdout_tail: str = ""
    stderr_tail: str = ""


ChatEvent = TurnBegan | StepSeen | TurnAnswered | StateSeen | TurnFailed | ChatEnded
