"""Events of runs and of chats."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from workbench.model.evalset import Content
from workbench.model.facts import Fact
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Failure, MetricResult, ModelCalls, ModelSpending, TurnResult
from workbench.model.trace import Span

# Events of a run, in the order in which they happened


class MetricSummary(Fact):
    """One metric over a run: `scored` of `total` cases. `std` is the sample standard deviation (None below two).

    `interval` is the 95 % interval of the mean, in which the repeats of a case count together; None for fewer than 10
    cases, or if all scores are equal.
    """

    mean: float | None
    std: float | None
    scored: int
    total: int
    interval: tuple[float, float] | None = None


class RunSummary(Fact):
    """The outcome of a run: jobs (cases times repeats) by status, metrics, and calls of models.

    `quarantined` counts jobs that FAILED in quarantine; they are not in `failed`. `partly_judged` counts jobs with a
    verdict that has fewer samples of a judge than requested. `models` are those of judges and users; `model_calls`
    counts calls of the agents' models, None if they were not intercepted.
    """

    total: int = 0
    passed: int = 0
    failed: int = 0
    quarantined: int = 0
    error: int = 0
    not_evaluated: int = 0
    skipped: int = 0
    cancelled: int = 0
    partly_judged: int = 0
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    models: tuple[ModelSpending, ...] = ()
    model_calls: ModelCalls | None = None


class RunStarted(Fact):
    """A run started: sent once, first."""

    kind: Literal["run_started"] = "run_started"
    run_id: str
    total: int
    at: datetime


class CaseStarted(Fact):
    """The agent's session for a case was opened: sent again for each retry (`attempt` counts from 1)."""

    kind: Literal["case_started"] = "case_started"
    case: CaseKey
    repeat: int
    turns: int | None  # the number of turns; None if a simulated user decides
    attempt: int = 1


class CasePlaced(Fact):
    """The agent of a case runs on this node of a cluster: sent again for each retry there."""

    kind: Literal["case_placed"] = "case_placed"
    case: CaseKey
    repeat: int
    node: str


class AgentsImporting(Fact):
    """The targets whose agents are being imported, if this takes a moment: sent again when they change.

    Time limits of cases are paused meanwhile.
    """

    kind: Literal["agents_importing"] = "agents_importing"
    targets: tuple[str, ...]


class UserSpoke(Fact):
    """A simulated user sent a message to the agent: sent for every turn of a scenario."""

    kind: Literal["user_spoke"] = "user_spoke"
    case: CaseKey
    repeat: int
    turn: int
    content: Content


class InvocationFinished(Fact):
    """A turn ended without an error."""

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
    """A case was scored: sent before its CaseFinished, if anything could be scored."""

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
    failure: Failure | None = None  # set if the status is ERROR because the case could not run
    result: CaseResult
    source: Literal["executed", "stored"] = "executed"  # "stored": a current result of an earlier run
    in_history: bool = False  # the result can be read from the history and need not stay in memory
    is_judged: bool = True  # False: a run without scoring


class ModelsAsked(Fact):
    """The calls of judge and user models so far: sent a few times a second at most."""

    kind: Literal["models_asked"] = "models_asked"
    models: tuple[ModelSpending, ...]


class QuotaWait(Fact):
    """Requests to a judge or user model are paused for some seconds, because its quota is exceeded."""

    kind: Literal["quota_wait"] = "quota_wait"
    model: str
    seconds: float


class Notice(Fact):
    """Information for the user that belongs to no case, such as the default criteria."""

    kind: Literal["notice"] = "notice"
    severity: Literal["information", "warning", "error"] = "information"
    message: str


class RunFinished(Fact):
    """The run ended: sent once, last. `interrupted`: it was cancelled before all cases had run."""

    kind: Literal["run_finished"] = "run_finished"
    run_id: str
    summary: RunSummary
    duration_seconds: float
    interrupted: bool = False


RunEvent = Annotated[
    RunStarted
    | CaseStarted
    | CasePlaced
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


# Events of a chat, in the order in which they happened


class TurnBegan(Fact):
    """A message was sent to the agent. Turns count from 0. `is_replayed`: it belongs to the begin of a branch."""

    kind: Literal["turn_began"] = "turn_began"
    turn: int
    content: Content
    at: datetime
    is_replayed: bool = False


class StepSeen(Fact):
    """A step of the agent started or ended (see `Span.is_running`); a step that was sent at its start is sent again."""

    kind: Literal["step_seen"] = "step_seen"
    span: Span


class TurnAnswered(Fact):
    """A turn ended without an error. `live_parts` say which parts of a replayed turn were not replayed, and why."""

    kind: Literal["turn_answered"] = "turn_answered"
    turn: int
    result: TurnResult
    live_parts: tuple[str, ...] = ()


class StateSeen(Fact):
    """The session state after a turn; None if the agent has no state."""

    kind: Literal["state_seen"] = "state_seen"
    turn: int
    state: dict[str, Any] | None


class TurnFailed(Fact):
    """A turn ended without an answer: ERROR with its failure, or CANCELLED without one.

    `live_parts` are those of `TurnAnswered`.
    """

    kind: Literal["turn_failed"] = "turn_failed"
    turn: int
    status: Literal[CaseStatus.ERROR, CaseStatus.CANCELLED]
    duration_seconds: float
    failure: Failure | None = None
    live_parts: tuple[str, ...] = ()


class ChatEnded(Fact):
    """The session ended and its process is gone: sent once, last.

    `failure` is set if the session ended unexpectedly between two turns. `unsaid` are the messages that were not sent.
    """

    kind: Literal["chat_ended"] = "chat_ended"
    failure: Failure | None = None
    unsaid: tuple[Content, ...] = ()
    stdout_tail: str = ""
    stderr_tail: str = ""


ChatEvent = TurnBegan | StepSeen | TurnAnswered | StateSeen | TurnFailed | ChatEnded
