"""Simulated tools of sessions, for every way in which sessions get processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workbench.llm.model_types import ModelReply, ModelRequest
from workbench.model.evalset import Content
from workbench.model.identity import CaseKey, JobKey
from workbench.model.tool_simulation import Environment, Injection, SimulatedTool
from workbench.simulation.simulated_tools import CaseTools, ToolPlan

BLOCKING = """
def tool(name):
    return "real " + name

HEAD answer(prompt):
    return tool(prompt)
"""


async def refuse_model_call(_: ModelRequest) -> ModelReply:
    raise AssertionError("no model is asked here")


def make_case_tools(answer: Any, *, seconds: float = 0.0) -> CaseTools:
    """Return answers that replace those of `tool`."""
    injection = Injection(response=answer, latency_seconds=seconds)
    environment = Environment(tools=(SimulatedTool(name="tool", injections=(injection,), place="here"),))
    key = CaseKey(target="bench", eval_set="set", eval_id="one")
    return CaseTools(ToolPlan(environment=environment), JobKey(case=key), ask=refuse_model_call)


@pytest.mark.parametrize("head", ["def", "async def"])
async def test_each_session_gets_its_own_simulated_answers(bench: Any, way: dict[str, Any], head: str) -> None:
    bench.agent(BLOCKING.replace("HEAD", head))
    host = bench.host(**way)

    simulated, other, real = await asyncio.gather(
        bench.talk(host, "a", "b", tools=make_case_tools("simulated")),
        bench.talk(host, "c", tools=make_case_tools("other")),
        bench.talk(host, "d"),
    )

    assert simulated.responses == ["simulated", "simulated"]
    assert other.responses == ["other"]
    assert real.responses == ["real d"]


async def test_a_session_killed_while_waiting_for_a_tool_does_not_harm_others(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(BLOCKING.replace("HEAD", "def"))
    host = bench.host(**way)
    session = await bench.open(host, tools=make_case_tools("late", seconds=100))
    turn = asyncio.ensure_future(session.turn(Content.of_text("a", role="user"), turn=0))
    await asyncio.sleep(1.0)
    await session.kill()
    await asyncio.wait([turn], timeout=10)

    assert turn.done() and turn.exception() is not None
    assert (await bench.talk(host, "b", tools=make_case_tools("prompt"))).responses == ["prompt"]


async def test_an_agent_without_simulated_tools_loads_no_interception(bench: Any) -> None:
    bench.agent("""
        import sys, threading

        def answer(prompt):
            ours = [name for name in sys.modules if name.endswith(".tool_interception")]
            return f"{ours} {threading.active_count()}"
    """)

    assert (await bench.talk_once("x", mode="fork")).responses == ["[] 1"]
