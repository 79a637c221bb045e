"""Processes started anew: a worker may connect before its start returns, and its processes end with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from workbench.agents.agent_host import SessionRequest
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.target import AgentKind, Target

HI = Content.of_text("hi", role="user")


async def test_a_worker_that_connects_before_its_start_returns_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(prompt): return prompt\n")
    target = Target(name="bench", kind=AgentKind.FUNCTION, location="agent:answer", path=tmp_path)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    host = create_host(target, isolation="case", concurrency=8, mode="once")

    async def ask_once() -> str:
        session = await host.open(SessionRequest(app_name="app", user_id="user"), on_span=lambda _: None)
        result = await session.turn(HI, turn=0)
        await session.finish()
        assert result.invocation.final_response is not None
        return result.invocation.final_response.text()

    try:
        assert await asyncio.gather(*(ask_once() for _ in range(30))) == ["hi"] * 30
    finally:
        await host.close()
    assert problems == []
