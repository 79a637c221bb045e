"""ADK agents in real worker processes: forked for each case, or shared by all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.agents.worker.adapters.adk.conftest import Agents
from workbench.agents.agent_host import AgentError, AgentHost, SessionRequest
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.results import FailureKind, TurnResult
from workbench.model.target import AgentKind, Isolation, Target
from workbench.model.trace import Span, SpanKind

pytestmark = [pytest.mark.needs_adk, pytest.mark.needs_fork]

MOODY = """
from google.genai.errors import ClientError

busy = ClientError(429, {"error": {"message": "quota", "status": "RESOURCE_EXHAUSTED"}})


def count(tool_context: ToolContext) -> dict:
    tool_context.state["count"] = tool_context.state.get("count", 0) + 1
    return {"count": tool_context.state["count"]}


class Model(BaseLlm):
    model: str = "moody"

    async def generate_content_async(self, llm_request, stream=False):
        texts = [part.text for content in llm_request.contents for part in content.parts if part.text]
        if texts[-1] == "boom":
            raise ValueError("kaboom")
        if texts[-1] == "busy":
            raise busy
        answered = llm_request.contents[-1].parts[0].function_response
        yield LlmResponse(content=say(texts[-1]) if answered else types.Content(role="model", parts=[call("count")]))


root_agent = LlmAgent(name="moody", model=Model(), tools=[count])
"""


def make_target(agents: Agents, name: str) -> Target:
    return Target(name=name, kind=AgentKind.ADK, location=name, path=agents.folder)


@asynccontextmanager
async def open_host(agents: Agents, name: str, isolation: Isolation) -> AsyncIterator[AgentHost]:
    host = create_host(make_target(agents, name), isolation=isolation, concurrency=4)
    host.prepare(cases=3)
    try:
        yield host
    finally:
        await host.close()


async def talk(host: AgentHost, *prompts: str, **options: Any) -> tuple[list[TurnResult], Any, list[Span]]:
    spans: list[Span] = []
    request = SessionRequest(app_name="app", user_id="user", **options)
    session = await host.open(request, on_span=spans.append)
    turns: list[TurnResult] = []
    try:
        for index, prompt in enumerate(prompts):
            turns.append(await session.turn(Content.of_text(prompt, role="user"), turn=index))
        end: Any = await session.finish()
    except AgentError as error:
        end = error
        await session.kill()
    return turns, end, spans


@pytest.mark.parametrize("isolation", ["case", "worker"])
async def test_concurrent_conversations_have_the_right_results(agents: Agents, isolation: Isolation) -> None:
    agents.write_agent("moody", MOODY)
    async with open_host(agents, "moody", isolation) as host:
        outcomes = await asyncio.gather(*(talk(host, f"a{i}", f"b{i}", state={"count": i}) for i in range(4)))

    for number, (turns, end, spans) in enumerate(outcomes):
        assert [turn.invocation.final_response.text() for turn in turns] == [f"a{number}", f"b{number}"]
        assert end.final_state == {"count": number + 2}
        assert [span.response["count"] for span in spans if span.kind is SpanKind.TOOL] == [number + 1, number + 2]
        assert [turn.inference_calls for turn in turns] == [2, 2]


@pytest.mark.parametrize("isolation", ["case", "worker"])
async def test_an_error_keeps_the_earlier_turns_and_has_a_kind(agents: Agents, isolation: Isolation) -> None:
    agents.write_agent("moody", MOODY)
    async with open_host(agents, "moody", isolation) as host:
        (turns, failed, spans), (_, busy, _), (_, fine, _) = await asyncio.gather(
            talk(host, "hello", "boom"), talk(host, "busy"), talk(host, "hello")
        )

    assert [turn.invocation.final_response.text() for turn in turns] == ["hello"]
    assert (failed.failure.kind, failed.failure.turn) == (FailureKind.AGENT, 1)
    assert "ValueError: kaboom" in failed.failure.message
    assert "agent.py" in failed.failure.traceback
    assert "ValueError: kaboom" in {span.error for span in spans if span.turn == 1 and span.kind is SpanKind.MODEL}
    assert busy.failure.kind is FailureKind.INFRASTRUCTURE
    assert fine.final_state == {"count": 1}


async def test_a_missing_agent_is_reported_before_anything_runs(agents: Agents) -> None:
    agents.write("empty", {"README.md": "nothing"})
    async with open_host(agents, "empty", "case") as host:
        _, end, _ = await talk(host, "hello")

    assert end.failure.kind is FailureKind.SETUP
    assert "agent.py or __init__.py" in end.failure.message


async def test_agents_with_absolute_imports_and_factories_run_in_workers(agents: Agents) -> None:
    agents.write_agent(
        "my_agent",
        """
        import os

        from my_agent.words import WORD

        async def get_agent_async():
            return llm_agent("root", f"{WORD} {os.environ['GREETED']}"), None
        """,
    )
    agents.write("my_agent", {"words.py": "WORD = 'hello'", ".env": "GREETED=world"})
    async with open_host(agents, "my_agent", "case") as host:
        turns, end, _ = await talk(host, "hi")

    assert turns[0].invocation.final_response.text() == "hello world"
    assert end.final_state == {}
