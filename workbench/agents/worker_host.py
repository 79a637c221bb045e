"""The host of a target whose agent lives in worker processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from workbench.agents.channel import Listener
from workbench.agents.host import (
    AgentError,
    AgentSession,
    CustomScoreAnswer,
    CustomScoreRequest,
    Mode,
    OnSpan,
    SessionEnd,
    SessionRequest,
)
from workbench.agents.scores import score_in
from workbench.agents.sessions import Launcher, OwnProcess, SharedProcesses, WorkerSession
from workbench.model.evalset import Content
from workbench.model.results import Failure, FailureKind, TurnResult
from workbench.model.target import Isolation, Target


class WorkerHost:
    """Gives each session a process of its own, or a place in one that is shared. See `host.AgentHost`."""

    def __init__(
        self, target: Target, *, isolation: Isolation, concurrency: int, start_timeout: float, mode: Mode
    ) -> None:
        self._target = target
        self._start_timeout = start_timeout
        self._listener = Listener()
        self._numbers = itertools.count(1)
        self._launcher = _launcher(
            target,
            self._listener,
            start_timeout=start_timeout,
            concurrency=concurrency,
            layers=isolation == "case",
            mode=mode,
        )
        self._own = OwnProcess(self._launcher, role="session" if mode == "fork" and isolation == "case" else "shared")
        self._shared = SharedProcesses(self._launcher, at_once=None if isolation == "worker" else 1)
        self._lease = self._own if mode == "fork" and isolation == "case" else self._shared
        self._scoring = SharedProcesses(self._launcher, at_once=None)
        self._scoring_alone = OwnProcess(self._launcher, role="shared")
        self._closed = False

    def prepare(self, *, cases: int) -> None:
        """See `AgentHost.prepare`."""
        self._launcher.prepare(cases=cases)

    def renew(self) -> None:
        """See `AgentHost.renew`."""
        self._shared.renew()
        self._scoring.renew()

    async def open(self, request: SessionRequest, *, on_span: OnSpan) -> AgentSession:
        """See `AgentHost.open`."""
        return WorkerSession(
            number=next(self._numbers),
            request=request,
            on_span=on_span,
            lease=self._own if request.alone else self._lease,
            target=self._target,
            timeout=self._start_timeout,
        )

    async def score(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """See `AgentHost.score`. A metric that was in a process which died is tried again, alone, once."""
        try:
            return await score_in(self._scoring, self._numbers, request, alone=False)
        except AgentError as error:
            if not error.retry_alone:
                raise
        return await score_in(self._scoring_alone, self._numbers, request, alone=True)

    async def close(self) -> None:
        """See `AgentHost.close`."""
        if not self._closed:
            self._closed = True
            await self._launcher.close()
            await self._listener.close()


def _launcher(
    target: Target, listener: Listener, *, start_timeout: float, concurrency: int, layers: bool, mode: Mode
) -> Launcher:
    if mode == "fork":
        from workbench.agents.forking import ForkLauncher

        return ForkLauncher(target, listener, start_timeout=start_timeout, concurrency=concurrency, layers=layers)
    from workbench.agents.spawning import SpawnLauncher

    return SpawnLauncher(target, listener, start_timeout=start_timeout, concurrency=concurrency)


class RecordedHost(WorkerHost):
    """Replays what was recorded; only custom metrics need a process. See `host.AgentHost`."""

    def __init__(
        self,
        target: Target,
        *,
        find: Callable[[SessionRequest], Sequence[TurnResult]],
        concurrency: int,
        start_timeout: float,
        mode: Mode,
    ) -> None:
        super().__init__(target, isolation="worker", concurrency=concurrency, start_timeout=start_timeout, mode=mode)
        self._find = find

    def prepare(self, *, cases: int) -> None:
        """Nothing to prepare: most recordings need no process."""

    async def open(self, request: SessionRequest, *, on_span: OnSpan) -> AgentSession:  # noqa: ARG002 - there are none
        """A session that gives the recorded turns in order. Nothing is known of its spans."""
        return _RecordedSession(self._find(request))


class _RecordedSession:
    def __init__(self, turns: Sequence[TurnResult]) -> None:
        self._turns = turns

    async def turn(self, content: Content, *, turn: int) -> TurnResult:  # noqa: ARG002 - the answer is fixed
        """The recorded turn. AgentError where there are not so many."""
        if turn < len(self._turns):
            return self._turns[turn]
        found = f"the recording has {len(self._turns)} turns, turn {turn + 1} was expected"
        raise AgentError(Failure(kind=FailureKind.AGENT, message=found, turn=turn))

    async def finish(self) -> SessionEnd:
        """Recordings hold no state."""
        return SessionEnd(final_state=None)

    async def kill(self) -> SessionEnd:
        """Nothing runs."""
        return SessionEnd()
