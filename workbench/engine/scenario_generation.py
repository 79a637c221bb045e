"""Descriptions of agents, and scenarios generated for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from workbench.agents.agent_host import AgentError, AgentHost, HostSession, SessionRequest
from workbench.engine.case_run import DEFAULT_USER
from workbench.engine.plan_cost import build_prices
from workbench.engine.run_resources import EngineThread, Hosts, Judges, open_lazily
from workbench.llm.model_replay import RequestRecording, RequestReplay
from workbench.llm.model_types import Ask
from workbench.llm.models import Account, Budget
from workbench.model.evalset import ConversationScenario, ScenarioRequest
from workbench.model.results import ModelSpending
from workbench.model.target import AgentDescription, AgentKind, AgentPart, Target
from workbench.model.text import suggest_name
from workbench.simulation.scenario_writer import Generated, GenerationError, ScenarioWriter
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.settings import Settings

# The description of an agent by its process, without a run.

_HANDS_OVER = "transfer_to_agent"
"""The tool by which an ADK agent transfers to a sub-agent; it has no declaration."""


class NotDescribed(Exception):
    """An agent could not be described; the text gives the reason."""


async def describe_agent(target: Target, host: AgentHost, *, timeout_seconds: float) -> AgentDescription:
    """Describe an agent in its own process, which then ends. Raises NotDescribed."""
    request = SessionRequest(app_name=target.name, user_id=DEFAULT_USER, collect_spans=False, alone=True)
    session: HostSession | None = None
    try:
        async with asyncio.timeout(None) as deadline:  # the import of the agent has its own limit

            def begin() -> None:
                deadline.reschedule(asyncio.get_running_loop().time() + timeout_seconds)

            session = await host.open(request, on_span=lambda _: None, on_opened=begin)
            return _select_tools(target, await session.describe())
    except AgentError as error:
        raise NotDescribed(f"{target.name}: {error.failure.message}") from error
    except TimeoutError:
        raise NotDescribed(f"{target.name} did not describe itself within {timeout_seconds:g} s") from None
    finally:
        if session is not None:
            await session.kill()


def list_tools(description: AgentDescription) -> frozenset[str]:
    """List the names of all tools of an agent and its sub-agents. Raises NotDescribed if it lists none."""
    tools = frozenset(str(tool["name"]) for part in description.agents for tool in part.tools if "name" in tool)
    if not tools:
        name = description.agents[0].name
        raise NotDescribed(f"{name}: the tools of the agent are unknown: list them as tools of the target")
    return tools | ({_HANDS_OVER} if any(part.agents for part in description.agents) else frozenset())


def _select_tools(target: Target, description: AgentDescription) -> AgentDescription:
    """Keep only the functions that the target declares as tools, if it declares any."""
    names = {each.rpartition(":")[2].rpartition(".")[2] for each in target.tools}
    if not names:
        return description

    def with_these(part: AgentPart) -> AgentPart:
        return part.model_copy(update={"tools": tuple(tool for tool in part.tools if tool.get("name") in names)})

    return description.model_copy(update={"agents": tuple(map(with_these, description.agents))})


# Scenarios written by a model from the description of an agent.

_IN_INSTRUCTION = re.compile(r"{(\w+)}")


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """Options of the calls to the model: cache, and files to record or replay them."""

    use_cache: bool = True
    record: Path | None = None
    replay: Path | None = None


class Generation:
    """A running generation of scenarios. Every method may be called from any thread."""

    def __init__(self, work: _Work, thread: EngineThread) -> None:
        self._work = work
        self._call_engine = thread.call
        self.done: Future[Generated | None] = thread.submit(work.carry_out())
        """The result, None if it was cancelled. Raises GenerationError."""

    @property
    def progress(self) -> str:
        """The current step, in a few words."""
        return self._work.progress

    def cancel(self) -> None:
        """Cancel the generation. Returns at once."""
        self._call_engine(self._work.cancel)

    def close(self) -> None:
        """Cancel the generation and wait for its end."""
        self.cancel()
        wait([self.done])

    def list_spending(self) -> tuple[ModelSpending, ...]:
        """List the calls to the model so far, with their cost."""
        return self._work.account.list_spending()


def start_generation(
    targets: Mapping[str, Target],
    name: str,
    wanted: ScenarioRequest,
    known: Sequence[ConversationScenario],
    *,
    hosts: Hosts,
    judges: Callable[[], Judges],
    settings: Settings,
    options: AskOptions,
    thread: EngineThread,
) -> Generation:
    """Start to generate scenarios for a target, other than the `known` ones.

    Raises GenerationError if there is no such target, and StoreError if the file of calls cannot be used.
    """
    target = targets.get(name)
    if target is None:
        raise GenerationError(f"there is no target {name!r}{suggest_name(name, targets)}", is_outage=False)
    budget = Budget(calls=settings.judge.max_calls, cost=settings.judge.max_cost)
    account = Account(build_prices(settings.judge), budget)
    recording = None if options.record is None else RequestRecording(options.record)
    replay = None if options.replay is None else RequestReplay(options.replay)

    def open_models() -> Ask:
        if replay is not None:
            return replay.ask
        models = judges().models_for(target, settings.judge)
        asked = partial(models.ask, use_cache=options.use_cache, account=account)
        return asked if recording is None else recording.wrap(asked)

    async def write(progress: Callable[[str], None]) -> Generated:
        progress(f"asking {target.name} for its description")
        run = settings.run
        host = hosts.get_host(target, isolation=run.isolation, concurrency=run.concurrency, ray=run.cluster)
        try:
            description = await describe_agent(target, host, timeout_seconds=run.timeout_seconds)
        except NotDescribed as error:
            raise GenerationError(str(error), is_outage=True) from error
        progress(f"{wanted.model} is writing")

        def count(found: int) -> None:
            progress(f"{wanted.model} is writing: {found} of {wanted.count}")

        writer = ScenarioWriter(wanted, description, known, ask=open_lazily(open_models), progress=count)
        try:
            generated = await writer.write()
        finally:
            if recording is not None:
                await recording.close()
        if target.kind is not AgentKind.ADK:
            return generated
        return replace(generated, state=dict.fromkeys(_find_state_keys(description), ""))

    return Generation(_Work(write, account), thread)


def known_scenarios(document: EvalSetDocument) -> Sequence[ConversationScenario]:
    """Return the scenarios in a set, without unreadable cases."""
    cases = (document.case(entry.index) for entry in document.entries if entry.problem is None)
    return [case.conversation_scenario for case in cases if case.conversation_scenario is not None]


class _Work:
    """The generation on the engine's loop."""

    def __init__(self, write: Callable[[Callable[[str], None]], Awaitable[Generated]], account: Account) -> None:
        self._write = write
        self._task: asyncio.Task[Generated] | None = None
        self._is_cancelled = False
        self.account = account
        self.progress = ""

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def carry_out(self) -> Generated | None:
        if self._is_cancelled:
            return None
        self._task = asyncio.ensure_future(self._write(self._report_progress))
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    def _report_progress(self, progress: str) -> None:
        self.progress = progress


def _find_state_keys(description: AgentDescription) -> list[str]:
    """Find the state keys in instructions, without which ADK refuses to run."""
    return [key for part in description.agents for key in _IN_INSTRUCTION.findall(part.instruction)]
