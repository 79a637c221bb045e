"""The host of agents in worker processes."""

from __future__ import annotations

import itertools
import math
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from workbench.agents.agent_host import (
    AgentError,
    AgentHost,
    CustomScoreAnswer,
    CustomScoreRequest,
    HostSession,
    Mode,
    OnOpened,
    OnSpan,
    SessionRequest,
)
from workbench.agents.agent_sessions import CompleteRecord, WorkerSession, run_custom_metric
from workbench.agents.channel import ChannelListener
from workbench.agents.installed_libraries import InstalledLibraries
from workbench.agents.processes import Launcher, OwnProcess, SharedProcesses, worker_target
from workbench.agents.worker.adapters.base import LoadError
from workbench.model.target import AgentKind, Isolation, Target

if TYPE_CHECKING:
    from workbench.agents.ray_hosts import RayCluster


class WorkerHost:
    """Gives each session its own process, or a place in a shared one. See `AgentHost`."""

    def __init__(
        self,
        target: Target,
        *,
        isolation: Isolation,
        concurrency: int,
        start_timeout: float,
        mode: Mode,
        cluster: RayCluster | None,
        libraries: InstalledLibraries,
    ) -> None:
        self._target = target
        self._libraries = libraries
        self._renewed_ns = time.time_ns()  # what processes have loaded was on the disk then, or they began later
        self._start_timeout = start_timeout
        self._listener = ChannelListener()
        self._numbers = itertools.count(1)
        self._launcher = _create_launcher(
            target,
            self._listener,
            start_timeout=start_timeout,
            concurrency=concurrency,
            layers=isolation == "case",
            mode=mode,
            cluster=cluster,
        )
        self._own = OwnProcess(self._launcher, role="session" if mode == "fork" and isolation == "case" else "shared")
        self._shares = isolation == "worker"
        self._shared = SharedProcesses(self._launcher, at_once=None if self._shares else 1)
        self._lease = self._own if mode == "fork" and isolation == "case" else self._shared
        self._scoring = SharedProcesses(self._launcher, at_once=None)
        self._scoring_alone = OwnProcess(self._launcher, role="shared")
        self._closed = False

    def prepare(self, *, cases: int) -> None:
        self._launcher.prepare(cases=cases)
        if self._shares:  # safe: the agent is imported at the first session
            self._shared.prepare()

    def renew(self) -> None:
        self._renewed_ns = time.time_ns()
        has_changed = self._launcher.renew()
        self._shared.renew(unused_too=has_changed)
        self._scoring.renew(unused_too=has_changed)

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> HostSession:
        return WorkerSession(
            number=next(self._numbers),
            request=request,
            on_span=on_span,
            on_opened=on_opened,
            lease=self._own if request.alone else self._lease,
            target=self._target,
            timeout=self._start_timeout,
            complete=self._make_completion(),
        )

    def _make_completion(self) -> CompleteRecord:
        """Return what adds the state of installed libraries to the record of a process that is acquired later."""
        return partial(self._libraries.complete, loaded_ns=self._renewed_ns)

    async def score(self, request: CustomScoreRequest, *, timeout_seconds: float = math.inf) -> CustomScoreAnswer:
        """See `AgentHost.score`. If the process of a metric dies, the metric is tried once more, alone."""
        run = partial(
            run_custom_metric,
            numbers=self._numbers,
            request=request,
            timeout_seconds=timeout_seconds,
            complete=self._make_completion(),
        )
        try:
            return await run(self._scoring, alone=False)
        except AgentError as error:
            if not error.retry_alone:
                raise
        return await run(self._scoring_alone, alone=True)

    async def explain_imports(self) -> list[str]:
        return [] if self._shares else await self._launcher.explain_imports()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._launcher.close()
            await self._listener.close()


def _create_launcher(
    target: Target,
    listener: ChannelListener,
    *,
    start_timeout: float,
    concurrency: int,
    layers: bool,
    mode: Mode,
    cluster: RayCluster | None,
) -> Launcher:
    if cluster is not None:
        from workbench.agents.ray_hosts import RayLauncher

        return RayLauncher(target, cluster, start_timeout=start_timeout, concurrency=concurrency, layers=layers)
    if mode == "fork":
        from workbench.agents.forked_processes import ForkLauncher

        return ForkLauncher(target, listener, start_timeout=start_timeout, concurrency=concurrency, layers=layers)
    from workbench.agents.spawned_processes import SpawnLauncher

    return SpawnLauncher(target, listener, start_timeout=start_timeout, concurrency=concurrency)


def create_host(
    target: Target,
    *,
    isolation: Isolation,
    concurrency: int,
    start_timeout: float = 60.0,
    mode: Mode | None = None,
    cluster: RayCluster | None = None,
    libraries: InstalledLibraries | None = None,
) -> AgentHost:
    """Create the host of a target. No process is started before `prepare` or the first turn.

    `concurrency` is the maximum number of open sessions, and of threads for blocking functions in a shared process.
    Cases of an agent that runs elsewhere share a process whatever the `isolation`, because there is nothing to isolate.
    `start_timeout` is in seconds, for the interpreter and separately for the import of the agent. `mode` is for tests:
    by default processes are forked where that is safe (Linux). With `cluster` they run on its nodes, which run Linux.
    """
    return WorkerHost(
        target,
        isolation="worker" if target.is_remote else isolation,
        concurrency=concurrency,
        start_timeout=start_timeout,
        mode="fork" if cluster is not None else mode or choose_mode(),
        cluster=cluster,
        libraries=libraries or InstalledLibraries(),
    )


def preload_host_modules() -> None:
    """Import the modules of hosts, which takes a tenth of a second, for callers that must not wait later."""
    if choose_mode() == "fork":
        import workbench.agents.forked_processes
    else:
        import workbench.agents.spawned_processes  # noqa: F401


def choose_mode() -> Mode:
    """Return how cases are isolated here: by forks, or by processes that run once. Forks are safe on Linux only."""
    return "fork" if sys.platform == "linux" else "once"


# Errors in the settings of one kind of agent, found before any agent is called.


def find_table_error(target: Target) -> str | None:
    """Return the error in a template or path of the settings, with its place; None if the adapter accepts all."""
    if target.kind is not AgentKind.HTTP or not target.options:
        return None
    from workbench.agents.worker.adapters.http.http_mapping import AnswerMapping, RequestMapping

    settings = worker_target(target)
    try:
        RequestMapping(settings)
        AnswerMapping(settings)
    except LoadError as error:
        return str(error)
    return None
