"""The host of agents that run in worker processes."""

from __future__ import annotations

import itertools

from workbench.agents.agent_host import (
    AgentError,
    AgentSession,
    CustomScoreAnswer,
    CustomScoreRequest,
    Mode,
    OnOpened,
    OnSpan,
    SessionRequest,
)
from workbench.agents.agent_sessions import WorkerSession, score_in
from workbench.agents.channel import Listener
from workbench.agents.processes import Launcher, OwnProcess, SharedProcesses, worker_target
from workbench.agents.worker.adapters.base import LoadError
from workbench.model.target import AgentKind, Isolation, Target

# The host of a target whose agent lives in worker processes.


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
        self._shares = isolation == "worker"
        self._shared = SharedProcesses(self._launcher, at_once=None if self._shares else 1)
        self._lease = self._own if mode == "fork" and isolation == "case" else self._shared
        self._scoring = SharedProcesses(self._launcher, at_once=None)
        self._scoring_alone = OwnProcess(self._launcher, role="shared")
        self._closed = False

    def prepare(self, *, cases: int) -> None:
        """See `AgentHost.prepare`."""
        self._launcher.prepare(cases=cases)
        if self._shares:  # nothing of the agent is imported before the first session, so that it is never too early
            self._shared.prepare()

    def renew(self) -> None:
        """See `AgentHost.renew`."""
        has_changed = self._launcher.renew()
        self._shared.renew(unused_too=has_changed)
        self._scoring.renew(unused_too=has_changed)

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> AgentSession:
        """See `AgentHost.open`."""
        return WorkerSession(
            number=next(self._numbers),
            request=request,
            on_span=on_span,
            on_opened=on_opened,
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


def load_launcher(mode: Mode) -> None:
    """Import what starts processes in this mode."""
    if mode == "fork":
        import workbench.agents.forked_processes
    else:
        import workbench.agents.spawned_processes  # noqa: F401


def _launcher(
    target: Target, listener: Listener, *, start_timeout: float, concurrency: int, layers: bool, mode: Mode
) -> Launcher:
    if mode == "fork":
        from workbench.agents.forked_processes import ForkLauncher

        return ForkLauncher(target, listener, start_timeout=start_timeout, concurrency=concurrency, layers=layers)
    from workbench.agents.spawned_processes import SpawnLauncher

    return SpawnLauncher(target, listener, start_timeout=start_timeout, concurrency=concurrency)


# What is wrong in the table of settings that only one kind of agent has, told before any agent is asked.


def wrong_table(target: Target) -> str | None:
    """A template or path that its adapter would not take, beginning with its place in the settings; None for none."""
    if target.kind is not AgentKind.HTTP or not target.options:
        return None
    from workbench.agents.worker.adapters.http.reading import Reading
    from workbench.agents.worker.adapters.http.sending import Sending

    told = worker_target(target)
    try:
        Sending(told)
        Reading(told)
    except LoadError as error:
        return str(error)
    return None
