"""Events of runs and of chats."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from workbench.model.base import Fact
from workbench.model.evalset import Content
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Failure, MetricResult, ModelSpending, TurnResult
from workbench.model.trace import Span

# RunEvents: what a run tells whoever listens, in the order in which it became true.


class MetricSummary(Fact):
    """One metric over a run: `scored` of `total` cases. `std` is the sample standard deviation, null below two."""

    mean: float | None
    std: float | None
    scored: int
    total: int


class RunSummary(Fact):
    """How a run came out: cases (times repeats) by status, each metric, and what models it has asked.

    `partly_judged` counts those with a verdict that rests on fewer samples of a judge than were asked for.
    """

    total: int = 0
    passed: int = 0
    failed: int = 0
    error: int = 0
    not_evaluated: int = 0
    skipped: int = 0
    cancelled: int = 0
    partly_judged: int = 0
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    models: tuple[ModelSpending, ...] = ()


class RunStarted(Fact):
    """A run began: sent once, first."""

    kind: Literal["run_started"] = "run_started"
    run_id: str
    total: int
    at: datetime


class CaseStarted(Fact):
    """An agent's session for a case was opened: sent again when the case is tried again (`attempt` counts from 1)."""

    kind: Literal["case_started"] = "case_started"
    case: CaseKey
    repeat: int
    turns: int | None  # how many turns it will have; None where a simulated user decides
    attempt: int = 1


class AgentsImporting(Fact):
    """The targets whose agents are being imported now, where that takes a moment: sent again when they change.

    Time limits of cases do not run meanwhile.
    """

    kind: Literal["agents_importing"] = "agents_importing"
    targets: tuple[str, ...]


class UserSpoke(Fact):
    """A simulated user said something to the agent, which answers now: sent for every turn of a scenario."""

    kind: Literal["user_spoke"] = "user_spoke"
    case: CaseKey
    repeat: int
    turn: int
    content: Content


class InvocationFinished(Fact):
    """A turn ended well."""

    kind: Literal["invocation_finished"] = "invocation_finished"
    case: CaseKey
    repeat: int
    turn: int
    result: TurnResult


class SpanFinished(Fact):
    """A step of the agent ended."""

    kind: Literal["span_finished"] = "span_finished"
    case: CaseKey
    repeat: int
    span: Span


class CaseScored(Fact):
    """The metrics of a case are known: sent before its CaseFinished, where anything could be scored."""

    kind: Literal["case_scored"] = "case_scored"
    case: CaseKey
    repeat: int
    metrics: tuple[MetricResult, ...]


class CaseFinished(Fact):
    """A case ended, whatever its status: sent once for each case and repeat, after its result was stored."""

    kind: Literal["case_finished"] = "case_finished"
    case: CaseKey
    repeat: int
    status: CaseStatus
    duration_seconds: float
    failure: Failure | None = None  # set where status is ERROR because the case could not run
    result: CaseResult
    source: Literal["executed", "stored"] = "executed"  # "stored": an earlier run's result that still counts
    in_history: bool = False  # whether the result can be read from the history: it need not be held until it is needed
    is_judged: bool = True  # False: it was only played, and nothing was to judge it


class ModelsAsked(Fact):
    """Models that judge or play users were asked: what of each until now, sent a few times a second at most."""

    kind: Literal["models_asked"] = "models_asked"
    models: tuple[ModelSpending, ...]


class QuotaWait(Fact):
    """A model that judges or plays users is not asked for so many seconds, because its service has had enough."""

    kind: Literal["quota_wait"] = "quota_wait"
    model: str
    seconds: float


class Notice(Fact):
    """Something the user should know that belongs to no case, such as which criteria were assumed."""

    kind: Literal["notice"] = "notice"
    severity: Literal["information", "warning", "error"] = "information"
    message: str


class RunFinished(Fact):
    """The run is over: sent once, last. `interrupted` where it was cancelled before all cases had run."""

    kind: Literal["run_finished"] = "run_finished"
    run_id: str
    summary: RunSummary
    duration_seconds: float
    interrupted: bool = False


RunEvent = Annotated[
    RunStarted
    | CaseStarted
    | AgentsImporting
    | UserSpoke
    | InvocationFinished
    | SpanFinished
    | CaseScored
    | CaseFinished
    | ModelsAsked
    | QuotaWait
    | Notice
    | RunFinished,
    Field(discriminator="kind"),
]


# What a conversation by hand tells whoever listens, in the order in which it became true.


class TurnBegan(Fact):
    """The agent was told something. Turns count from 0."""

    kind: Literal["turn_began"] = "turn_began"
    turn: int
    content: Content
    at: datetime


class StepSeen(Fact):
    """A step of the agent began or ended (see `Span.is_running`); one that was seen to begin comes again."""

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
