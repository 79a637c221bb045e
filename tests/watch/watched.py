"""A project under watch: real files, the real watcher, real processes."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.run_events import CaseStarted
from workbench.watch.watch_events import AllKnown, ChangeSeen, VerdictKnown, VerdictsReused, WatchEvent
from workbench.watch.watch_session import WatchSession

T = TypeVar("T")
PATIENCE = 30.0
AGENT = """
import tools

def answer(prompt):
    return tools.upper(prompt) if prompt.startswith("up") else tools.lower(prompt)
"""
TOOLS = """
PREFIX = ""

def upper(text):
    return PREFIX + text

def lower(text):
    return PREFIX + text
"""


class Folder:
    """A folder with the function agent `agent.answer` and the eval set `set.evalset.json`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write(
            "workbench.toml",
            '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n',
        )
        self.criteria(exact_match=1.0)

    def write(self, name: str, text: str) -> Path:
        """Save a file as editors do: all of it at once, under its name only when it is whole."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.tmp~")
        beside.write_text(dedent(text), encoding="utf-8")
        beside.replace(path)
        return path

    def cases(self, *, name: str = "set", **prompts: str) -> None:
        """Write the eval set: for each case what is said, which is also the response that is expected."""
        written = [{"eval_id": eval_id, "conversation": [turn(prompt)]} for eval_id, prompt in prompts.items()]
        self.write(f"{name}.evalset.json", json.dumps({"eval_set_id": name, "eval_cases": written}))

    def criteria(self, **criteria: Any) -> None:
        """Write the criteria."""
        self.write("test_config.json", json.dumps({"criteria": criteria}))


def turn(prompt: str) -> dict[str, Any]:
    """A turn whose expected response is the prompt."""
    content = {"parts": [{"text": prompt}]}
    return {"user_content": {"role": "user", **content}, "final_response": {"role": "model", **content}}


class Watched:
    """The events of a watch, and ways to wait for more."""

    def __init__(self, session: WatchSession, workspace: Workspace) -> None:
        self.session = session
        self.workspace = workspace
        self.events: list[WatchEvent] = []
        self._shown: dict[str, str] = {}
        self._news = asyncio.Event()

    async def listen(self) -> None:
        """Collect events."""
        async for event in self.session.events():
            self.events.append(event)
            if isinstance(event, VerdictKnown):
                self._shown[event.case.eval_id] = event.result.status.value
            elif isinstance(event, VerdictsReused):
                self._shown.update(_statuses(event))
            self._news.set()

    def shown(self) -> dict[str, str]:
        """Return the last reported status of each case."""
        return dict(self._shown)

    async def until_shown(self, **statuses: str) -> None:
        """Wait until these are the last reported statuses."""
        await self._until(lambda: statuses.items() <= self._shown.items())

    async def until_quiet(self) -> Round:
        """Wait until nothing runs or waits; return the events since the last call."""
        await self._until(lambda: any(isinstance(event, AllKnown) for event in self.events))
        end = next(i for i, event in enumerate(self.events) if isinstance(event, AllKnown)) + 1
        told, self.events[:] = self.events[:end], self.events[end:]
        return Round(told)

    async def after(self, change: Callable[[], object]) -> Round:
        """Make a change, and wait until it has been dealt with."""
        self.events.clear()
        change()
        await self._until(lambda: any(isinstance(event, ChangeSeen) for event in self.events))
        first = next(i for i, event in enumerate(self.events) if isinstance(event, ChangeSeen))
        del self.events[:first]
        return await self.until_quiet()

    async def run_by_hand(self, *cases: str) -> ByHand:
        """Start a manual run of these cases, one by one, and report it to the watch."""
        plan = self.workspace.plan(
            [Selection(eval_set="set.evalset.json", cases=cases)], RunOptions(adk_results=False, concurrency=1)
        )
        run = await asyncio.to_thread(self.workspace.start, plan)
        self.session.note_run(run, [job for job, _ in plan.jobs])
        return ByHand(run, self.session)

    async def until(self, kind: type[T]) -> T:
        """Wait for an event of a kind."""
        await self._until(lambda: any(isinstance(event, kind) for event in self.events))
        return next(event for event in self.events if isinstance(event, kind))

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()


class ByHand:
    """A manual run whose events are reported to a watch until it ends."""

    def __init__(self, run: Run, session: WatchSession) -> None:
        self.run = run
        self._session = session
        self._begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._task = asyncio.create_task(self._tell())

    async def until_begun(self, eval_id: str) -> None:
        """Wait until a case of it has begun, and the watch has had time to hear that."""
        async with asyncio.timeout(PATIENCE):
            await self._begun[eval_id].wait()
        await asyncio.sleep(0.2)

    async def until_over(self) -> None:
        """Wait for its end."""
        async with asyncio.timeout(PATIENCE):
            await self._task

    async def _tell(self) -> None:
        async for event in self.run.events():
            self._session.note_events(self.run.run_id, [event])
            if isinstance(event, CaseStarted):
                self._begun[event.case.eval_id].set()


class Round:
    """The events from a change until nothing runs or waits."""

    def __init__(self, events: Sequence[WatchEvent]) -> None:
        self.events = events

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdicts of agents that ran, by case."""
        told = [event.result for event in self.events if isinstance(event, VerdictKnown)]
        return {result.case.eval_id: result.status.value for result in told}

    @property
    def stored(self) -> dict[str, str]:
        """The verdicts of earlier runs that hold, by case."""
        told = [_statuses(event) for event in self.events if isinstance(event, VerdictsReused)]
        return {eval_id: status for each in told for eval_id, status in each.items()}

    @property
    def change(self) -> ChangeSeen:
        """The event of the change."""
        return self.first(ChangeSeen)

    def first(self, kind: type[T]) -> T:
        """The first event of a kind."""
        return next(event for event in self.events if isinstance(event, kind))

    def has(self, kind: type[object]) -> bool:
        """Whether there was an event of a kind."""
        return any(isinstance(event, kind) for event in self.events)


def _statuses(event: VerdictsReused) -> dict[str, str]:
    return {job.case.eval_id: verdict.job.status.value for job, verdict in event.verdicts.items()}


@asynccontextmanager
async def watching(root: Path, *, catches_up: bool = True, **options: Any) -> AsyncIterator[Watched]:
    """Watch all cases of a project, from the first look until the block ends."""

    async def off_loop(function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    def everything(workspace: Workspace) -> Sequence[Selection]:
        return [Selection(eval_set=entry.relative) for entry in workspace.project.eval_sets]

    workspace = await asyncio.to_thread(Workspace.open, root)
    try:
        run_options = RunOptions(adk_results=False, **options)
        session = WatchSession(workspace, everything, run_options, off_loop=off_loop, catches_up=catches_up)
        watched = Watched(session, workspace)
        listening = asyncio.create_task(watched.listen())
        try:
            yield watched
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
    finally:
        await asyncio.to_thread(workspace.close)
