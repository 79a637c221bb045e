"""Resources that runs share: access to models, the engine thread, agent hosts, and services of metrics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.agents.agent_host import (
    AgentError,
    AgentHost,
    CustomScoreAnswer,
    CustomScoreRequest,
    LeftByAgents,
)
from workbench.agents.installed_libraries import InstalledLibraries
from workbench.engine.plan import (
    Limits,
    Plan,
    Selection,
    read_environment,
)
from workbench.engine.plan_cost import build_prices
from workbench.llm.model_replay import CaseRequests, RequestRecording, RequestReplay, Script, read_script
from workbench.llm.model_types import Ask, ModelError, ModelReply, ModelRequest, Trouble
from workbench.llm.models import Account, Budget, Cache, ModelOptions, Models
from workbench.metrics.judges.judge_calls import MOST_SAMPLES
from workbench.metrics.text_worker import TextScorer
from workbench.model.results import ModelSpending
from workbench.model.target import AgentKind, Isolation, Target
from workbench.store.errors import StoreError
from workbench.store.project_discovery import Project
from workbench.store.settings import JudgeSettings, RaySettings

if TYPE_CHECKING:
    from workbench.agents.ray_hosts import RayCluster
    from workbench.engine.run import Run


# The models of a workspace, reached with the keys of each target. Replies are cached in the project.


class Judges:
    """Access to models, shared by all runs. Used on the engine's loop."""

    def __init__(self, root: Path, *, warn: Callable[[str], None]) -> None:
        self._cache = Cache(root, warn=warn)
        self._models: dict[tuple[frozenset[tuple[str, str]], ModelOptions, Script | None], Models] = {}

    def models_for(self, target: Target, settings: JudgeSettings) -> Models:
        """Return the models with the environment of a target. Raises StoreError if its script cannot be read."""
        options = ModelOptions(
            concurrency=settings.concurrency,
            per_minute=settings.requests_per_minute,
            tries=settings.tries,
            timeout_seconds=settings.timeout_seconds,
        )
        environment = read_environment(target)
        script = None if target.scripted_models is None else read_script(target.scripted_models)
        key = frozenset(environment.items()), options, script
        if key not in self._models:
            self._models[key] = Models(environment, options, replies=self._cache, script=script)
        return self._models[key]

    async def close(self) -> None:
        models, self._models = list(self._models.values()), {}
        await asyncio.gather(*(each.close() for each in models))
        await self._cache.close()


class RunJudges:
    """The models of one run: with its account, and with recording or replay of calls."""

    def __init__(
        self,
        plan: Plan,
        settings: JudgeSettings,
        *,
        judges: Callable[[], Judges],
        changed: Callable[[], None],
        warn: Callable[[str], None],
        waits: Callable[[str, float], None],
    ) -> None:
        """`changed` is called after each call, `waits` with a model and the seconds it waits for its quota.

        Raises StoreError if the file of calls cannot be used.
        """
        budget = Budget(calls=plan.limits.max_model_calls, cost=plan.limits.max_model_cost)
        self._account = Account(
            build_prices(settings), budget, earlier_spending=plan.spent, on_change=changed, on_stop=warn, on_wait=waits
        )
        self._settings = settings
        self._use_cache = plan.options.use_cache
        self._judgement = plan.options.judgement
        self._judges = judges
        record, replay = plan.options.judge_record, plan.options.judge_replay
        self._recording = None if record is None else RequestRecording(record)
        self._replay = None if replay is None else RequestReplay(replay)

    def get_ask(self, target: Target, *, live: bool = False) -> Ask:
        """Return the function that asks the models of a target; if `live`, without the cached replies."""
        if self._replay is not None:
            return _number_samples(self._ask_replay(self._replay), self._judgement)
        models = self._judges().models_for(target, self._settings)
        ask = partial(models.ask, use_cache=self._use_cache and not live, account=self._account)
        return _number_samples(ask if self._recording is None else self._recording.wrap(ask), self._judgement)

    async def keep(self, requests: CaseRequests, *, replaces: bool) -> None:
        """Write the requests for a repeat that has ended, if calls are recorded. See `RequestRecording.keep`."""
        if self._recording is not None:
            await self._recording.keep(requests, replaces=replaces)

    def list_spending(self) -> tuple[ModelSpending, ...]:
        """List the calls of this run, without the earlier spending of the plan."""
        return self._account.list_spending()

    def _ask_replay(self, replay: RequestReplay) -> Ask:
        async def ask(request: ModelRequest) -> ModelReply:
            reply = await replay.ask(request)
            if not request.renewed:  # a renewed request counts once
                self._account.book_replayed(request.model)
            return reply

        return ask


def _number_samples(ask: Ask, judgement: int) -> Ask:
    """Return `ask` with the sample numbers of a judgement, so that each judgement has its own cached replies."""

    async def ask_numbered(request: ModelRequest) -> ModelReply:
        return await ask(request.model_copy(update={"sample": request.sample + judgement * MOST_SAMPLES}))

    return ask_numbered if judgement else ask


# Access to models inside and outside runs.


def open_lazily(open_models: Callable[[], Ask]) -> Ask:
    """Return a function that calls `open_models` for the first request.

    A StoreError of `open_models` becomes a ModelError.
    """
    opened: Ask | None = None

    async def ask(request: ModelRequest) -> ModelReply:
        nonlocal opened
        if opened is None:
            try:
                opened = open_models()
            except StoreError as error:
                raise ModelError(Trouble.NOT_RECORDED, str(error)) from error
        return await opened(request)

    return ask


def open_standalone_ask(target: Target, settings: JudgeSettings, *, judges: Callable[[], Judges]) -> Ask:
    """Return a function that asks the models of a target, with its own budget from the settings."""
    account = Account(build_prices(settings), Budget(calls=settings.max_calls, cost=settings.max_cost))
    return open_lazily(lambda: partial(judges().models_for(target, settings).ask, account=account))


# Problems of the cache of replies, which all runs of a project share.


class CacheWarnings:
    """Reports problems of the shared cache to the current run, or else to the next run that asks models."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._pending: list[str] = []

    def report(self, message: str) -> None:
        """Report a problem to the current run, or keep it for the next."""
        if self._run is None or self._run.is_over:
            self._pending.append(message)
        else:
            self._run.warn(message)

    def attach(self, run: Run) -> None:
        """Set the current run, and report pending problems to it."""
        self._run = run
        pending, self._pending = self._pending, []
        for message in pending:
            run.warn(message)


# The agent hosts of a workspace, started on first use and kept warm between runs.

_MOST_WARM = 4  # agents that are imported before they have to run: each keeps its libraries in memory
_ROUNDS_TO_START = 3  # of the event loop: begin, listen for workers, start the process


class Hosts:
    """One host for each target, isolation and concurrency. Used on the engine's loop."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the project, which travels to the nodes of a cluster."""
        self._root = root
        self.libraries = InstalledLibraries()
        self._hosts: dict[tuple[Target, Isolation, int, bool], AgentHost] = {}
        self._cluster: RayCluster | None = None
        self._warming: asyncio.Task[None] | None = None

    def get_plan_host(self, target: Target, plan: Plan) -> AgentHost:
        """Return the host of a target within the limits of a plan."""
        limits = plan.limits
        return self.get_host(target, isolation=limits.isolation, concurrency=limits.concurrency, ray=limits.ray)

    def get_host(self, target: Target, *, isolation: Isolation, concurrency: int, ray: RaySettings | None) -> AgentHost:
        """Return the host of a target, on the cluster `ray` or on this machine."""
        key = (target, isolation, concurrency, ray is not None)
        if key not in self._hosts:
            from workbench.agents.worker_host import create_host

            self._hosts[key] = create_host(
                target,
                isolation=isolation,
                concurrency=concurrency,
                cluster=None if ray is None else self._get_cluster(ray),
                libraries=self.libraries,
            )
        return self._hosts[key]

    def _get_cluster(self, settings: RaySettings) -> RayCluster:
        if self._cluster is None:
            from workbench.agents.ray_hosts import RayCluster

            self._cluster = RayCluster(self._root, settings)
        return self._cluster

    async def start_interpreters(self, targets: Iterable[Target], limits: Limits) -> None:
        """Start the interpreters of these agents in advance. Returns before they are ready."""
        for target in targets:
            host = self.get_host(target, isolation=limits.isolation, concurrency=limits.concurrency, ray=limits.ray)
            host.prepare(cases=0)
        for _ in range(_ROUNDS_TO_START):
            await asyncio.sleep(0)

    def prepare(self, plan: Plan) -> None:
        """Start the processes of a plan. They run the current code of agents and of the user's metrics."""
        unfinished = [planned for key, planned in plan.jobs if not plan.stored or key not in plan.stored]
        cases = dict.fromkeys({id(planned.target): planned.target for planned in unfinished}.values(), 0)
        for planned in unfinished:
            if planned.needs_agent:
                cases[planned.target] += 1
        for target, count in cases.items():
            host = self.get_plan_host(target, plan)
            host.renew()
            if count:
                host.prepare(cases=count)

    def warm(self, plan: Plan) -> None:
        """Begin to import the agents of a plan, one after the other, so that its runs start at once."""
        targets = {id(planned.target): planned.target for _, planned in plan.jobs if planned.needs_agent}
        if self._warming is not None:
            self._warming.cancel()
        self._warming = asyncio.create_task(self._warm([self.get_plan_host(each, plan) for each in targets.values()]))

    async def _warm(self, hosts: Sequence[AgentHost]) -> None:
        for host in hosts:
            host.renew()
            host.prepare(cases=0)
        for host in hosts[:_MOST_WARM]:
            with contextlib.suppress(AgentError):  # a run of its cases says why
                await host.explain_imports()

    async def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
        hosts, self._hosts = list(self._hosts.values()), {}
        await asyncio.gather(*(host.close() for host in hosts))
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.close()


# The thread and event loop of the engine, so that a busy front end does not block runs.

T = TypeVar("T")


_LAST_SECONDS = 1.0  # for tasks that are cancelled at the end


class EngineThread:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="workbench-engine", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function on the loop soon; do nothing if the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def close(self, *, patience: float | None = None) -> None:
        """Stop the loop and wait for the thread, at most `patience` seconds."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(patience)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)  # of libraries, such as LiteLLM; asyncio would complain of each
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=_LAST_SECONDS))


# The shared resources of a project.


def find_agents(project: Project, selections: Iterable[Selection]) -> list[Target]:
    """Find the targets of these cases that have an agent."""
    wanted = {selection.eval_set for selection in selections}
    named = {entry.target for entry in project.eval_sets if entry.relative in wanted}
    targets = [target for name, target in project.targets.items() if name in named]
    return [target for target in targets if target.kind is not AgentKind.RECORDED]


class Resources:
    """Created on first use and kept until `close`, which ends all processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._thread: EngineThread | None = None
        self._judges: Judges | None = None
        self.hosts = Hosts(root)
        self.text = TextScorer()
        self.cache_warnings = CacheWarnings()

    @property
    def thread(self) -> EngineThread:
        """The engine thread. Hosts and judges may only be used on it."""
        if self._thread is None:
            self._thread = EngineThread()
        return self._thread

    @property
    def are_idle(self) -> bool:
        """Whether nothing was started."""
        return self._thread is None

    def start_interpreters(self, agents: Collection[Target], limits: Limits) -> None:
        """Start the interpreters of these agents in advance. No code of the agents runs.

        Waits until the processes are started, because planning would then block the engine thread.
        """
        if agents:
            from workbench.agents.worker_host import preload_host_modules

            preload_host_modules()
            self.thread.submit(self.hosts.start_interpreters(agents, limits)).result()

    def prepare_text(self, plan: Plan) -> None:
        """Start the slow text process in advance if the criteria need it."""
        if any("text" in criteria.needs for criteria in plan.criteria):
            self.text.start()

    def open_judges(self) -> Judges:
        """Return the access to models, created on first use."""
        if self._judges is None:
            self._judges = Judges(self._root, warn=self.cache_warnings.report)
        return self._judges

    def close(self) -> None:
        """End every process. Blocking; call it after all runs have ended."""
        if self._thread is None:
            return
        self._thread.submit(self._close_processes()).result()
        self._thread.close()
        self._thread = None

    async def _close_processes(self) -> None:
        await self.hosts.close()
        await self.text.close()
        judges, self._judges = self._judges, None
        if judges is not None:
            await judges.close()


# Services for metrics: the text process, models, and the worker for functions of the user.


class RunServices:
    """The services of one run for the cases of one target. The host is created when a function must run."""

    def __init__(
        self,
        text: TextScorer,
        host: Callable[[], AgentHost],
        *,
        timeout_seconds: float,
        left: Callable[[], LeftByAgents],
        ask: Callable[[], Ask],
    ) -> None:
        """`left` returns the files that agents wrote before the run; `ask` opens the access to models."""
        self.text = text
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._left = left
        self._ask = open_lazily(ask)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask a model, a recording or a script. Raises ModelError."""
        return await self._ask(request)

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Run a metric function in the target's worker, with the timeout of a case. Raises AgentError."""
        return await self._host().score(replace(request, left=self._left()), timeout_seconds=self._timeout_seconds)
