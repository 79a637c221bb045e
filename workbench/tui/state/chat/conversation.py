"""One session with an agent as its events tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from workbench.model.chat import ChatEnded, ChatEvent, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.evalset import Content, SessionInput
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, TurnResult
from workbench.model.trace import Span, SpanKind


class Phase(StrEnum):
    """How far a turn has come."""

    UNDER_WAY = "under way"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "stopped"


@dataclass(slots=True)
class ChatTurn:
    """One turn. `began` is of the caller's monotonic clock; `version` grows with every change.

    `steps` are the agent's, by their id, in the order in which they began; `state` is what the session held afterwards.
    """

    number: int
    content: Content
    at: datetime
    began: float
    phase: Phase = Phase.UNDER_WAY
    steps: dict[str, Span] = field(default_factory=dict)
    result: TurnResult | None = None
    failure: Failure | None = None
    duration_seconds: float | None = None
    state: dict[str, Any] | None = None
    version: int = 0

    @property
    def tool_under_way(self) -> str:
        """The tool that works now, the innermost; empty where none is seen to."""
        tools = [step.name for step in self.steps.values() if step.kind is SpanKind.TOOL and step.is_under_way]
        return tools[-1] if tools else ""


@dataclass
class Conversation:
    """A session from its first turn to its end, as far as it has come. `session_input` is how it started."""

    target: str
    number: int
    session_input: SessionInput
    turns: list[ChatTurn] = field(default_factory=list)
    ended: ChatEnded | None = None
    _waiting: list[Content] = field(default_factory=list)  # told, and not yet begun

    def tell(self, content: Content) -> None:
        """This is to be said after what is to be said already."""
        self._waiting.append(content)

    def take(self, event: ChatEvent, *, now: float) -> None:
        """Take one event of the session."""
        if isinstance(event, TurnBegan):
            if self._waiting:
                self._waiting.pop(0)
            self.turns.append(ChatTurn(event.turn, event.content, event.at, now))
        elif isinstance(event, StepSeen):
            self._turn(event.span.turn).steps[event.span.id] = event.span
        elif isinstance(event, TurnAnswered):
            turn = self._turn(event.turn)
            turn.phase, turn.result = Phase.ANSWERED, event.result
            turn.duration_seconds = event.result.duration_seconds
        elif isinstance(event, StateSeen):
            self._turn(event.turn).state = event.state
        elif isinstance(event, TurnFailed):
            turn = self._turn(event.turn)
            turn.phase = Phase.CANCELLED if event.status is CaseStatus.CANCELLED else Phase.FAILED
            turn.failure, turn.duration_seconds = event.failure, event.duration_seconds
        else:
            self.ended = event

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return self.ended is None and (bool(self._waiting) or self.under_way is not None)

    @property
    def under_way(self) -> ChatTurn | None:
        """The turn that the agent is working on."""
        return self.turns[-1] if self.turns and self.turns[-1].phase is Phase.UNDER_WAY else None

    @property
    def waiting(self) -> int:
        """How many turns are still to be said."""
        return len(self._waiting)

    @property
    def said(self) -> Sequence[Content]:
        """Everything that was said or was to be said, in order."""
        return [*(turn.content for turn in self.turns), *self._waiting]

    @property
    def answered(self) -> Sequence[ChatTurn]:
        """The turns that have an answer: all but perhaps the last."""
        return [turn for turn in self.turns if turn.phase is Phase.ANSWERED]

    @property
    def lost(self) -> ChatTurn | None:
        """The turn that ended without an answer, and the session with it."""
        last = self.turns[-1] if self.turns else None
        return last if last is not None and last.phase in (Phase.FAILED, Phase.CANCELLED) else None

    def state_before(self, number: int) -> dict[str, Any]:
        """What the session held before a turn."""
        if number == 0:
            return self.session_input.state
        return self.turns[number - 1].state or {}

    @property
    def final_state(self) -> dict[str, Any] | None:
        """What the session held after the last answer."""
        answered = self.answered
        return answered[-1].state if answered else None

    def result(self) -> CaseResult:
        """The session as the result of a case that no file has."""
        lost = self.lost
        ended = self.ended or ChatEnded()
        seconds = sum(turn.duration_seconds or 0.0 for turn in self.turns)
        failure = lost.failure if lost is not None else ended.failure
        return CaseResult(
            case=CaseKey(target=self.target, eval_set="", eval_id=f"chat {self.number}"),
            eval_set_id="",
            status=CaseStatus.NOT_EVALUATED,
            duration_seconds=seconds,
            agent_seconds=seconds,
            failure=failure,
            execution=Execution(
                turns=tuple(turn.result for turn in self.answered if turn.result is not None),
                spans=tuple(step for turn in self.turns for step in turn.steps.values() if not step.is_under_way),
                final_state=self.final_state,
                failure=failure,
                duration_seconds=seconds,
                stdout_tail=ended.stdout_tail,
                stderr_tail=ended.stderr_tail,
            ),
        )

    def _turn(self, number: int) -> ChatTurn:
        turn = self.turns[number]
        turn.version += 1
        return turn
