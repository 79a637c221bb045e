"""The interface to agents: hosts, sessions, and what they take and return.

`worker_host.create_host` returns the host of a target. A host starts processes when they are needed, keeps them warm,
and is closed once. Everything is used on one event loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from workbench.model.evalset import Content, ConversationScenario, Invocation
from workbench.model.identity import Dependencies
from workbench.model.results import Failure, FailureKind, InvocationScore, TurnResult
from workbench.model.target import AgentDescription
from workbench.model.trace import Span

Mode = Literal["fork", "once"]
"""How processes are started: forked from a warm process (Linux), or started anew and used for a batch of cases."""

OnSpan = Callable[[Span], None]

OnOpened = Callable[[], None]
"""Called at most once, when the agent is imported and begins its first turn. Time limits of the agent start then."""


@dataclass(frozen=True, slots=True)
class LeftByAgents:
    """Names that agents wrote in earlier cases, by folder: a case that lists the folder does not depend on them.

    `there` are those that are as agents left them, deleted or not. `gone` are those that others deleted since.
    """

    there: Mapping[str, Collection[str]] = field(default_factory=dict)
    gone: Mapping[str, Collection[str]] = field(default_factory=dict)

    def as_message(self) -> dict[str, dict[str, list[str]]]:
        """Return the value for messages to workers."""
        return {
            key: {folder: list(names) for folder, names in part.items()}
            for key, part in (("there", self.there), ("gone", self.gone))
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingToolCall:
    """A call that an agent is about to make. `number` identifies it within the session.

    `declaration` describes the tool: `name`, `description`, and its parameters as its framework writes them.
    """

    number: int
    tool: str
    args: Mapping[str, Any]
    declaration: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutcome:
    """The result of a call: the response, or `error`, the exception as data.

    `actions` are side effects, such as changed session state. `unfit` says why JSON cannot hold the response.
    """

    response: Any = None
    error: Mapping[str, Any] | None = None
    actions: Mapping[str, Any] = field(default_factory=dict)
    unfit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """The decision about a call: return `outcome` instead of calling the tool, or call it (`source` is None).

    `source` says who answers, and is shown: `injected`, `model` or `replayed`. With `wants_outcome` the worker reports
    the result of the call.
    """

    source: str | None = None
    outcome: ToolOutcome = ToolOutcome()
    wants_outcome: bool = False


class ToolResponder(Protocol):
    """Decides about the tool calls of one session."""

    @property
    def interception(self) -> Mapping[str, Any]:
        """The calls to intercept: `tools` of the message `open` in PROTOCOL.md."""

    async def answer(self, call: PendingToolCall) -> ToolAnswer:
        """Decide about a call. Raises AgentError if there is no answer: the session then fails with it."""

    def record_outcome(self, number: int, outcome: ToolOutcome) -> None:
        """Take the result of a call that was made."""


class ModelResponder(Protocol):
    """Decides about the model calls of one session: replayed from a recording, or made and perhaps recorded.

    Requests, responses and outcomes are those of `ask`, `answer` and `outcome` in PROTOCOL.md, Models.
    """

    @property
    def interception(self) -> Mapping[str, Any]:
        """The calls to intercept: `models` of the message `open`."""

    def begin_turn(self, turn: int) -> None:
        """Assign the calls that follow to a turn."""

    async def answer(self, number: int, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the recorded response to a request, or None: the model is asked.

        Raises AgentError if there is no response and the model may not be asked: the session then fails with it.
        """

    def record_outcome(self, number: int, outcome: Mapping[str, Any]) -> None:
        """Take the outcome of a call that was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """Parameters of a new session. With `alone` it gets its own process, whatever the isolation.

    With `announce_spans` a span is also sent when its step begins, with a start and no end, and again when it ends.
    `tools` decides about tool calls before they are made, `models` about model calls. `instructions` replace those of
    the agents of these names, by the names of the fields in their `AgentPart.instructions`.
    """

    app_name: str
    user_id: str
    session_id: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    collect_spans: bool = True
    announce_spans: bool = False
    alone: bool = False
    left: LeftByAgents = LeftByAgents()
    tools: ToolResponder | None = None
    models: ModelResponder | None = None
    instructions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class HeldUp(StrEnum):
    """When a blocked event loop stopped an agent. A turn that had not begun can be repeated once."""

    BEFORE_IT_BEGAN = "another case blocked the event loop before it began"
    WHILE_IT_RAN = "it, or another case, blocked the event loop"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionEnd:
    """The end of a session: its final state and the tails of its process's output (at most 16 KB each).

    If cases share a process, the tails are empty, because output cannot be assigned to cases. `held_up`: the session
    was killed while something blocked the event loop that it shares with others.
    """

    final_state: dict[str, Any] | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    held_up: HeldUp | None = None


class AgentError(Exception):
    """The agent, its process or a custom metric failed; `failure` is shown.

    With `retry_alone` another case killed the shared process: run the case again, alone, once. With `retry_elsewhere`
    the machine of the process was lost. `dependencies` are those of a custom metric; a session reports its own.
    """

    def __init__(
        self,
        failure: Failure,
        *,
        retry_alone: bool = False,
        retry_elsewhere: bool = False,
        stdout_tail: str = "",
        stderr_tail: str = "",
        dependencies: Dependencies | None = None,
    ) -> None:
        super().__init__(failure.message)
        self.dependencies = dependencies
        self.failure = failure
        self.retry_alone = retry_alone
        self.retry_elsewhere = retry_elsewhere
        self.stdout_tail = stdout_tail
        self.stderr_tail = stderr_tail


class HostSession(Protocol):
    """One conversation with the agent."""

    @property
    def dependencies(self) -> Dependencies | None:
        """Its dependencies so far, and all of them after its end; None if its process reported nothing."""

    @property
    def node(self) -> str | None:
        """The node of a cluster on which it runs; None on this machine, and before the first turn."""

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:
        """Send a user message and wait for the answer; `turn` counts from 0. After an AgentError the session is over.

        With `last` only `finish` or `kill` follows, so the agent can already end the conversation.
        """

    async def state(self) -> dict[str, Any] | None:
        """Return the session state between turns; None if the agent has none, or before the first turn."""

    async def describe(self) -> AgentDescription:
        """Describe the agent without running it, before a turn or between two. Raises AgentError."""

    async def finish(self) -> SessionEnd:
        """End the conversation and its process. Raises AgentError if the agent fails to end it."""

    async def stop(self) -> SessionEnd:
        """Like `kill`, but give the process a second to report its dependencies first."""

    async def kill(self) -> SessionEnd:
        """End the session at once, with every process that it started. Safe at any time and any number of times.

        Return the output of its process, which may be that of other sessions in a shared process. The final state is
        unknown.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomScoreRequest:
    """One custom metric on one case. `function` is a dotted path; `columns` is the row if a dataset is scored.

    `unknown` are the turns of `actual`, counted from 0, whose tool calls are unknown. `seconds` are the durations of
    the turns, empty if no agent ran. `failure` is 1 if the agent did not finish the case, 0 if it did, None if no agent
    ran.
    """

    metric: str
    function: str
    actual: Sequence[Invocation]
    unknown: Set[int] = frozenset()
    seconds: Sequence[float] = ()
    failure: int | None = None
    expected: Sequence[Invocation] | None = None
    scenario: ConversationScenario | None = None
    threshold: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    left: LeftByAgents = LeftByAgents()


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomScoreAnswer:
    """The result of a custom metric.

    `verdict` is the function's own, if it returns one (ADK's shape); with None the threshold decides. `scores` are
    further values by name. `dependencies` are those of its process.
    """

    score: float | None
    reason: str | None = None
    verdict: Literal["passed", "failed", "not_evaluated"] | None = None
    per_invocation: tuple[InvocationScore, ...] = ()
    scores: Mapping[str, Any] = field(default_factory=dict)
    dependencies: Dependencies | None = None


def make_metric_timeout(seconds: float, *, dependencies: Dependencies | None = None) -> AgentError:
    """Make the error of a metric that took too long. `dependencies` is what it used until then."""
    failure = Failure(kind=FailureKind.TIMEOUT, message=f"took longer than {seconds:g} s")
    return AgentError(failure, dependencies=dependencies)


class AgentHost(Protocol):
    """Opens the sessions of one target."""

    def prepare(self, *, cases: int) -> None:
        """Start what `cases` sessions will need, without waiting. Call it as soon as the number is known."""

    def renew(self) -> None:
        """Use current code for new sessions. Call it when a run starts."""

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> HostSession:
        """Open a session. Returns at once; errors appear at the first turn."""

    async def score(self, request: CustomScoreRequest, *, timeout_seconds: float = math.inf) -> CustomScoreAnswer:
        """Run a custom metric in a process that can import the agent's code. Raises AgentError.

        If another metric ends its process, it starts once more and has the whole time again.
        """

    async def explain_imports(self) -> list[str]:
        """Import the agent once for many cases. Return why each case has to import it, or a library, again: a sentence
        for each; none if no case has to.

        Raises AgentError.
        """

    async def close(self) -> None:
        """End every process. Open sessions fail."""
