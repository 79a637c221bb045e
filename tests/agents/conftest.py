"""Shared fixtures for tests of agents: a folder with an agent, and a host that runs it in real processes."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.processes import is_running
from workbench.agents.agent_host import AgentError, AgentHost, HostSession, SessionEnd, SessionRequest
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.results import TurnResult
from workbench.model.target import AgentKind, Target
from workbench.model.trace import Span

ECHO = """
    def answer(prompt):
        return {"response": prompt.upper(), "predicted_trajectory": [{"tool_name": "shout", "tool_input": {"n": 1}}]}
"""


@dataclass
class Talk:
    """The outcome of one session: its turns, its end or error, and its spans."""

    turns: list[TurnResult] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    end: SessionEnd | None = None
    error: AgentError | None = None

    @property
    def responses(self) -> list[str]:
        return [turn.invocation.final_response.text() if turn.invocation.final_response else "" for turn in self.turns]

    @property
    def message(self) -> str:
        assert self.error is not None, f"expected a failure, got {self.responses}"
        return self.error.failure.message

    @property
    def kind(self) -> str:
        assert self.error is not None, f"expected a failure, got {self.responses}"
        return str(self.error.failure.kind)


class Bench:
    """A folder with an agent in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hosts: list[AgentHost] = []

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def agent(self, text: str) -> None:
        """Write `agent.py`; its function `answer` is the agent."""
        self.write("agent.py", text)

    def target(self, **changes: Any) -> Target:
        fields = {"name": "bench", "kind": AgentKind.FUNCTION, "location": "agent:answer", "path": self.folder}
        return Target(**{**fields, **changes})

    def host(
        self,
        *,
        isolation: Any = "case",
        mode: Any = None,
        concurrency: int = 4,
        start_timeout: float = 60.0,
        **target: Any,
    ) -> AgentHost:
        host = create_host(
            self.target(**target), isolation=isolation, concurrency=concurrency, mode=mode, start_timeout=start_timeout
        )
        self._hosts.append(host)
        return host

    async def open(self, host: AgentHost, **request: Any) -> HostSession:
        fields = {"app_name": "app", "user_id": "user"}
        on_span = request.pop("on_span", lambda _: None)
        return await host.open(SessionRequest(**{**fields, **request}), on_span=on_span)

    async def talk(self, host: AgentHost, *prompts: str, **request: Any) -> Talk:
        """Hold one session like the engine: turn by turn, and killed after a failure."""
        talk = Talk()
        session = await self.open(host, on_span=talk.spans.append, **request)
        try:
            for turn, prompt in enumerate(prompts):
                content, is_last = Content.of_text(prompt, role="user"), turn + 1 == len(prompts)
                talk.turns.append(await session.turn(content, turn=turn, last=is_last))
            talk.end = await session.finish()
        except AgentError as error:
            talk.error = error
        finally:
            await session.kill()
        return talk

    async def talk_once(self, *prompts: str, **host: Any) -> Talk:
        return await self.talk(self.host(**host), *prompts)

    async def close(self) -> None:
        for host in self._hosts:
            await host.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    folder = tmp_path / "project"
    folder.mkdir()
    bench = Bench(folder)
    yield bench
    await bench.close()


@pytest.fixture(
    params=[
        pytest.param({"mode": "fork"}, id="fork", marks=pytest.mark.needs_fork),
        pytest.param({"mode": "fork", "isolation": "worker"}, id="worker", marks=pytest.mark.needs_fork),
        pytest.param({"mode": "once"}, id="once"),
        pytest.param({"mode": "once", "isolation": "worker"}, id="once-worker"),
    ]
)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of a host, one for each way in which sessions get processes."""
    way: dict[str, Any] = request.param
    return way


@pytest.fixture
def wait_until() -> Callable[[Callable[[], Any]], Any]:
    """Return a function that waits until a condition holds. No machine is slow enough to reach its timeout."""

    async def wait(condition: Callable[[], Any]) -> Any:
        for _ in range(1500):
            value = condition()
            if value:
                return value
            await asyncio.sleep(0.02)
        raise AssertionError("it never came to be so")

    return wait


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    return is_running


async def collect_answers(bench: Any, count: int = 5) -> list[str]:
    host = bench.host(mode="fork")
    host.prepare(cases=count)
    talks = [await bench.talk(host, "hi") for _ in range(count)]
    assert all(talk.error is None for talk in talks), [talk.error for talk in talks]
    return [talk.responses[0] for talk in talks]
