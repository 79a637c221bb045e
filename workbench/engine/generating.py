"""Scenarios written by a model for one agent: the agent's process tells what it is, the model writes.

`Generation` is what a front end holds; nothing is saved here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from workbench.agents.host import AgentError, AgentHost, SessionRequest
from workbench.engine.asking import opened_when_asked
from workbench.engine.case import DEFAULT_USER
from workbench.engine.cost import prices_of
from workbench.engine.hosts import Hosts
from workbench.engine.judges import Judges
from workbench.engine.thread import EngineThread
from workbench.llm.account import Account, Budget
from workbench.llm.recording import Recording, Replay
from workbench.llm.requests import Ask
from workbench.model.agent import AgentDescription, AgentPart
from workbench.model.evalset import ConversationScenario
from workbench.model.generation import WantedScenarios
from workbench.model.spending import ModelSpending
from workbench.model.target import AgentKind, Target
from workbench.model.text import did_you_mean
from workbench.simulation.generating.writing import Generated, GenerationError, ScenarioWriter
from workbench.store.documents import EvalSetDocument
from workbench.store.settings import Settings

_IN_INSTRUCTION = re.compile(r"{(\w+)}")


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """How the model is asked: through the cache or anew, with what it answers written to a file or taken from one."""

    use_cache: bool = True
    record: Path | None = None
    replay: Path | None = None


class Generation:
    """Scenarios that are being written. Every method may be called from any thread."""

    def __init__(self, work: _Work, thread: EngineThread) -> None:
        self._work = work
        self._call_engine = thread.call
        self.done: Future[Generated | None] = thread.submit(work.carry_out())
        """What comes of it, None where it was cancelled. Raises GenerationError."""

    @property
    def progress(self) -> str:
        """What is going on, in a few words."""
        return self._work.progress

    def cancel(self) -> None:
        """Stop it. Returns at once."""
        self._call_engine(self._work.cancel)

    def close(self) -> None:
        """Stop it, and wait until nothing of it is left."""
        self.cancel()
        wait([self.done])

    def spending(self) -> tuple[ModelSpending, ...]:
        """What the model was asked so far, and what that cost."""
        return self._work.account.spending()


def start_generation(
    targets: Mapping[str, Target],
    name: str,
    wanted: WantedScenarios,
    known: Sequence[ConversationScenario],
    *,
    hosts: Hosts,
    judges: Callable[[], Judges],
    settings: Settings,
    options: AskOptions,
    thread: EngineThread,
) -> Generation:
    """Have scenarios written for the target of this name that are not among `known`.

    Raises GenerationError where there is no such target, and StoreError where the file of calls will not do.
    """
    target = targets.get(name)
    if target is None:
        raise GenerationError(f"there is no target {name!r}{did_you_mean(name, targets)}", is_outage=False)
    budget = Budget(calls=settings.judge.max_calls, cost=settings.judge.max_cost)
    account = Account(prices_of(settings.judge), budget)
    recording = None if options.record is None else Recording(options.record)
    replay = None if options.replay is None else Replay(options.replay)

    def open_models() -> Ask:
        if replay is not None:
            return replay.ask
        models = judges().models_for(target, settings.judge)
        asked = partial(models.ask, use_cache=options.use_cache, account=account)
        return asked if recording is None else recording.of(asked)

    async def write(progress: Callable[[str], None]) -> Generated:
        progress(f"asking {target.name} what it is")
        run = settings.run
        host = hosts.host(target, isolation=run.isolation, concurrency=run.concurrency)
        description = await _described(target, host, timeout_seconds=run.timeout_seconds)
        progress(f"{wanted.model} is writing")

        def count(found: int) -> None:
            progress(f"{wanted.model} is writing: {found} of {wanted.count}")

        writer = ScenarioWriter(wanted, description, known, ask=opened_when_asked(open_models), progress=count)
        generated = await writer.write()
        if target.kind is not AgentKind.ADK:
            return generated
        return replace(generated, state=dict.fromkeys(_keys_in(description), ""))

    return Generation(_Work(write, account), thread)


def known_scenarios(document: EvalSetDocument) -> Sequence[ConversationScenario]:
    """The scenarios in a set; cases that cannot be read have none."""
    cases = (document.case(entry.index) for entry in document.entries if entry.problem is None)
    return [case.conversation_scenario for case in cases if case.conversation_scenario is not None]


class _Work:
    """The engine's side of it; used on its loop."""

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
        self._task = asyncio.ensure_future(self._write(self._tell))
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    def _tell(self, progress: str) -> None:
        self.progress = progress


async def _described(target: Target, host: AgentHost, *, timeout_seconds: float) -> AgentDescription:
    """What the agent says of itself, in a process that ends with that. Raises GenerationError."""
    request = SessionRequest(app_name=target.name, user_id=DEFAULT_USER, collect_spans=False, alone=True)
    session = await host.open(request, on_span=lambda _: None)
    try:
        async with asyncio.timeout(timeout_seconds):
            return _with_tools_of(target, await session.describe())
    except AgentError as error:
        raise GenerationError(f"{target.name}: {error.failure.message}", is_outage=True) from error
    except TimeoutError:
        message = f"{target.name} did not tell what it is within {timeout_seconds:g} s"
        raise GenerationError(message, is_outage=True) from None
    finally:
        await session.kill()


def _with_tools_of(target: Target, description: AgentDescription) -> AgentDescription:
    """Of the functions of the agent's modules those alone that the target says are its tools, where it says so."""
    names = {each.rpartition(":")[2].rpartition(".")[2] for each in target.tools}
    if not names:
        return description

    def with_these(part: AgentPart) -> AgentPart:
        return part.model_copy(update={"tools": tuple(tool for tool in part.tools if tool.get("name") in names)})

    return description.model_copy(update={"agents": tuple(map(with_these, description.agents))})


def _keys_in(description: AgentDescription) -> list[str]:
    """The keys of the state that instructions name: ADK refuses to run where one is missing."""
    return [key for part in description.agents for key in _IN_INSTRUCTION.findall(part.instruction)]
