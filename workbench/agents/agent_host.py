"""The engine's side of agents: sessions with an agent that lives in another process.

`host_for` gives the host of a target: it starts processes when they are needed, keeps what can be kept warm, and is
closed once. Everything here is used on one event loop. How processes talk is in PROTOCOL.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from workbench.model.evalset import Content, ConversationScenario, Invocation
from workbench.model.identity import Dependencies
from workbench.model.results import Failure, InvocationScore, TurnResult
from workbench.model.target import AgentDescription, Isolation, Target
from workbench.model.trace import Span

Mode = Literal["fork", "once"]
"""How processes are made: forked from one that is warm (Linux), or started anew and used for a batch of cases."""

OnSpan = Callable[[Span], None]

OnOpened = Callable[[], None]
"""Called at most once: the agent is imported and begins its first turn. Time limits of the agent run from then."""


@dataclass(frozen=True, slots=True)
class LeftByAgents:
    """What agents wrote in earlier cases, as names by folder: a case that lists the folder does not depend on these.

    `there` are those that are as agents left them, deleted or not; `gone` those that somebody else has deleted since.
    """

    there: Mapping[str, Collection[str]] = field(default_factory=dict)
    gone: Mapping[str, Collection[str]] = field(default_factory=dict)

    def as_message(self) -> dict[str, dict[str, list[str]]]:
        """As workers are told of it."""
        return {
            key: {folder: list(names) for folder, names in part.items()}
            for key, part in (("there", self.there), ("gone", self.gone))
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A call that an agent is about to make. `number` tells the calls of a session apart.

    `declaration` is what is known of the tool: `name`, `description`, and its parameters as its framework writes them.
    """

    number: int
    tool: str
    args: Mapping[str, Any]
    declaration: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutcome:
    """What came of a call: what the tool gave, or `error`, the exception that it raised, as data.

    `actions` is what it did besides (session state that it changed). `unfit` says why what it gave is not here: JSON
    cannot hold it.
    """

    response: Any = None
    error: Mapping[str, Any] | None = None
    actions: Mapping[str, Any] = field(default_factory=dict)
    unfit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """What to do about a call: give this in place of the tool, or call it (`source` None), and tell what it gave.

    `source` says who answered, and is shown: `injected`, `model` or `replayed`.
    """

    source: str | None = None
    outcome: ToolOutcome = ToolOutcome()
    tell: bool = False


class ToolDesk(Protocol):
    """Who decides about the calls of tools in one session."""

    @property
    def wanted(self) -> Mapping[str, Any]:
        """Which calls it wants to hear of, as workers are told: `tools` of the message `open` in PROTOCOL.md."""

    async def answer(self, call: ToolCall) -> ToolAnswer:
        """What to do about a call. Raises AgentError where that cannot be said: the session then fails so."""

    def told(self, number: int, outcome: ToolOutcome) -> None:
        """What the tool gave where it was called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """How a session starts. With `alone` it gets a process of its own, whatever the isolation.

    With `announce_spans` steps are told when they begin too: a span with a start and no end, and again when it ends.
    `tools` is asked before tools are called.
    """

    app_name: str
    user_id: str
    session_id: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    collect_spans: bool = True
    announce_spans: bool = False
    alone: bool = False
    left: LeftByAgents = LeftByAgents()
    tools: ToolDesk | None = None


class HeldUp(StrEnum):
    """When an agent could not go on, as its event loop was blocked. What had not begun can be asked once more."""

    BEFORE_IT_BEGAN = "another blocked the event loop before it began"
    WHILE_IT_RAN = "it, or another beside it, blocked the event loop"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionEnd:
    """How a session ended: the state of the session, and the ends of what its process printed (16 KB each at most).

    Where cases share a process the tails are empty, as nobody can say which case printed what. `held_up`: it was
    killed while something blocked the event loop that it shares with others.
    """

    final_state: dict[str, Any] | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    held_up: HeldUp | None = None


class AgentError(Exception):
    """The agent, its process or a custom metric could not do its work; `failure` is what to show.

    With `retry_alone` it was not this case's doing (a process shared with others died): run it again, alone, once.
    `dependencies` is what a custom metric depended on; a session tells its own.
    """

    def __init__(
        self,
        failure: Failure,
        *,
        retry_alone: bool = False,
        stdout_tail: str = "",
        stderr_tail: str = "",
        dependencies: Dependencies | None = None,
    ) -> None:
        super().__init__(failure.message)
        self.dependencies = dependencies
        self.failure = failure
        self.retry_alone = retry_alone
        self.stdout_tail = stdout_tail
        self.stderr_tail = stderr_tail


class AgentSession(Protocol):
    """One conversation with the agent."""

    @property
    def dependencies(self) -> Dependencies | None:
        """What it has depended on so far, and after its end in all; None where its process told nothing."""

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:
        """Say something and wait for the answer; `turn` counts from 0. After an AgentError the session is over.

        With `last` nothing but `finish` or `kill` follows, so that the agent can end the conversation meanwhile.
        """

    async def state(self) -> dict[str, Any] | None:
        """The state of the session between turns; None where the agent keeps none, or no turn has begun it."""

    async def describe(self) -> AgentDescription:
        """What the agent is, told without running it, before a turn or between two. Raises AgentError."""

    async def finish(self) -> SessionEnd:
        """End the conversation and its process. Raises AgentError where the agent fails in that."""

    async def stop(self) -> SessionEnd:
        """Like `kill`, but let the process report first what it has used, if it can within a second."""

    async def kill(self) -> SessionEnd:
        """End the session at once, with every process it started. Safe at any time and any number of times.

        Gives what its process had printed; where others share it, that may be theirs. The final state is unknown.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomScoreRequest:
    """One custom metric on one case. `function` is a dotted path, `columns` the row where a dataset is scored.

    `unknown` are the turns of `actual`, counted from 0, whose tool calls are unknown. `seconds` is how long each turn
    took, empty where no agent ran; `failure` is 1 where the agent did not finish the case, 0 where it did, and None
    where no agent ran.
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
    """What a custom metric gave.

    `verdict` is the function's own, where it gives one (ADK's shape); None leaves the verdict to the threshold.
    `scores` are further numbers that came with the score, by name. `dependencies` is what its process had depended on.
    """

    score: float | None
    reason: str | None = None
    verdict: Literal["passed", "failed", "not_evaluated"] | None = None
    per_invocation: tuple[InvocationScore, ...] = ()
    scores: Mapping[str, Any] = field(default_factory=dict)
    dependencies: Dependencies | None = None


class AgentHost(Protocol):
    """Where the sessions of one target come from."""

    def prepare(self, *, cases: int) -> None:
        """Start what `cases` sessions will need, without waiting for it. Call it as early as the number is known."""

    def renew(self) -> None:
        """Code may have changed: sessions opened from now on see it as it is then. Call it when a run starts."""

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> AgentSession:
        """Open a session. Returns at once: what goes wrong shows at the first turn."""

    async def score(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Run a custom metric where the agent's code can be imported. Raises AgentError."""

    async def close(self) -> None:
        """End every process. Sessions that are still open fail."""


def host_for(
    target: Target,
    *,
    isolation: Isolation,
    concurrency: int,
    start_timeout: float = 60.0,
    mode: Mode | None = None,
) -> AgentHost:
    """The host of a target. No process is started before `prepare` or the first turn.

    `concurrency` is how many sessions are open at the same time at most: so many threads a shared process may have for
    functions that block. Cases of an agent that runs elsewhere share a process whatever the `isolation`: there is
    nothing of it that a process of its own could keep apart. `start_timeout` is in seconds, for the interpreter and,
    apart from it, for the import of the agent. `mode` is for tests: by default processes are forked where that is safe
    (Linux).
    """
    from workbench.agents.worker_host import WorkerHost

    return WorkerHost(
        target,
        isolation="worker" if target.is_remote else isolation,
        concurrency=concurrency,
        start_timeout=start_timeout,
        mode=mode or _default_mode(),
    )


def load_hosts() -> None:
    """Import what hosts are made of, which takes a tenth of a second: for those who must not wait for it later."""
    from workbench.agents import worker_host

    worker_host.load_launcher(_default_mode())


def _default_mode() -> Mode:
    return "fork" if sys.platform == "linux" else "once"
