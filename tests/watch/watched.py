"""A watched project with real files, the real watcher and real processes."""

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
        """Save a file atomically, as editors do: write a temporary file, then rename it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp~")
        temporary.write_text(dedent(text), encoding="utf-8")
        temporary.replace(path)
        return path

    def cases(self, *, name: str = "set", **prompts: str) -> None:
        """Write the eval set. Each case expects its prompt as the response."""
        eval_cases = [{"eval_id": eval_id, "conversation": [turn(prompt)]} for eval_id, prompt in prompts.items()]
        self.write(f"{name}.evalset.json", json.dumps({"eval_set_id": name, "eval_cases": eval_cases}))

    def criteria(self, **criteria: Any) -> None:
        self.write("test_config.json", json.dumps({"criteria": criteria}))


def turn(prompt: str) -> dict[str, Any]:
    """Return a turn whose expected response is the prompt."""
    content = {"parts": [{"text": prompt}]}
    return {"user_content": {"role": "user", **content}, "final_response": {"role": "model", **content}}


class WatchListener:
    """Collects the events of a watch, and waits for more."""

    def __init__(self, session: WatchSession, workspace: Workspace) -> None:
        self.session = session
        self.workspace = workspace
        self.events: list[WatchEvent] = []
        self._statuses: dict[str, str] = {}
        self._new_event = asyncio.Event()

    async def listen(self) -> None:
        """Collect events."""
        async for event in self.session.events():
            self.events.append(event)
            if isinstance(event, VerdictKnown):
                self._statuses[event.case.eval_id] = event.result.status.value
            elif isinstance(event, VerdictsReused):
                self._statuses.update(_read_statuses(event))
            self._new_event.set()

    def get_statuses(self) -> dict[str, str]:
        """Return the last reported status of each case."""
        return dict(self._statuses)

    async def wait_for_statuses(self, **statuses: str) -> None:
        """Wait until these are the last reported statuses."""
        await self._wait_until(lambda: statuses.items() <= self._statuses.items())

    async def wait_until_quiet(self) -> Round:
        """Wait until nothing runs or waits; return the events since the last call."""
        await self._wait_until(lambda: any(isinstance(event, AllKnown) for event in self.events))
        end = next(i for i, event in enumerate(self.events) if isinstance(event, AllKnown)) + 1
        events, self.events[:] = self.events[:end], self.events[end:]
        return Round(events)

    async def apply(self, change: Callable[[], object]) -> Round:
        """Make a change, and wait until the watch has handled it."""
        self.events.clear()
        change()
        await self._wait_until(lambda: any(isinstance(event, ChangeSeen) for event in self.events))
        first = next(i for i, event in enumerate(self.events) if isinstance(event, ChangeSeen))
        del self.events[:first]
        return await self.wait_until_quiet()

    async def start_manual_run(self, *cases: str) -> ManualRun:
        """Start a manual run of these cases, one after the other, and report it to the watch."""
        plan = self.workspace.plan(
            [Selection(eval_set="set.evalset.json", cases=cases)], RunOptions(adk_results=False, concurrency=1)
        )
        run = await asyncio.to_thread(self.workspace.start, plan)
        self.session.note_run(run, [job for job, _ in plan.jobs])
        return ManualRun(run, self.session)

    async def wait_for(self, kind: type[T]) -> T:
        """Wait for an event of a kind."""
        await self._wait_until(lambda: any(isinstance(event, kind) for event in self.events))
        return next(event for event in self.events if isinstance(event, kind))

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._new_event.clear()
                await self._new_event.wait()


class ManualRun:
    """A manual run whose events are reported to a watch until it ends."""

    def __init__(self, run: Run, session: WatchSession) -> None:
        self.run = run
        self._session = session
        self._begin_events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._task = asyncio.create_task(self._report_events())

    async def wait_until_begun(self, eval_id: str) -> None:
        """Wait until a case of the run has begun and the watch knows it."""
        async with asyncio.timeout(PATIENCE):
            await self._begin_events[eval_id].wait()
        await asyncio.sleep(0.2)

    async def wait_until_over(self) -> None:
        """Wait until the run has ended."""
        async with asyncio.timeout(PATIENCE):
            await self._task

    async def _report_events(self) -> None:
        async for event in self.run.events():
            self._session.note_events(self.run.run_id, [event])
            if isinstance(event, CaseStarted):
                self._begin_events[event.case.eval_id].set()


class Round:
    """The events from a change until nothing runs or waits."""

    def __init__(self, events: Sequence[WatchEvent]) -> None:
        self.events = events

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdicts of agents that ran, by case."""
        results = [event.result for event in self.events if isinstance(event, VerdictKnown)]
        return {result.case.eval_id: result.status.value for result in results}

    @property
    def stored_verdicts(self) -> dict[str, str]:
        """The verdicts reused from earlier runs, by case."""
        groups = [_read_statuses(event) for event in self.events if isinstance(event, VerdictsReused)]
        return {eval_id: status for group in groups for eval_id, status in group.items()}

    @property
    def change(self) -> ChangeSeen:
        """The event of the change."""
        return self.first(ChangeSeen)

    def first(self, kind: type[T]) -> T:
        """Return the first event of a kind."""
        return next(event for event in self.events if isinstance(event, kind))

    def has(self, kind: type[object]) -> bool:
        """Return whether an event of a kind occurred."""
        return any(isinstance(event, kind) for event in self.events)


def _read_statuses(event: VerdictsReused) -> dict[str, str]:
    return {job.case.eval_id: verdict.job.status.value for job, verdict in event.verdicts.items()}


@asynccontextmanager
async def watch_project(root: Path, *, catches_up: bool = True, **options: Any) -> AsyncIterator[WatchListener]:
    """Watch all cases of a project until the block ends."""

    async def run_off_loop(function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    def select_all(workspace: Workspace) -> Sequence[Selection]:
        return [Selection(eval_set=entry.relative) for entry in workspace.project.eval_sets]

    workspace = await asyncio.to_thread(Workspace.open, root)
    try:
        run_options = RunOptions(adk_results=False, **options)
        session = WatchSession(workspace, select_all, run_options, off_loop=run_off_loop, catches_up=catches_up)
        listener = WatchListener(session, workspace)
        listen_task = asyncio.create_task(listener.listen())
        try:
            yield listener
        finally:
            listen_task.cancel()
            await asyncio.gather(listen_task, return_exceptions=True)
    finally:
        await asyncio.to_thread(workspace.close)
