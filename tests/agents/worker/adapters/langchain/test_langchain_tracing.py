"""Steps and tools of LangChain agents: spans, descriptions, and simulation on request of the engine."""

from __future__ import annotations

import asyncio
import textwrap
from typing import Any

import pytest

from tests.agents.worker.adapters.langchain.weather import AGENT
from workbench.llm.model_types import ModelReply, ModelRequest
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import FailureKind
from workbench.model.tool_simulation import Environment, Injection, SimulatedTool
from workbench.model.trace import SpanKind
from workbench.simulation.simulated_tools import CaseTools, ToolPlan

needs_langchain = pytest.mark.needs_langchain
pytestmark = pytest.mark.prepared("langchain")


def make_case_tools(**answers: Any) -> CaseTools:
    """Return answers that replace those of the tools with these names."""
    tools = tuple(
        SimulatedTool(name=name, injections=(Injection(response=answer),), place="here")
        for name, answer in answers.items()
    )
    key = JobKey(case=CaseKey(target="bench", eval_set="set", eval_id="one"))

    async def refuse_model_call(_: ModelRequest) -> ModelReply:
        raise AssertionError("no model is asked here")

    return CaseTools(ToolPlan(environment=Environment(tools=tools)), key, ask=refuse_model_call)


SIMULATED = """
    from langchain.agents import create_agent
    from langchain_core.tools import BaseTool
    from models import *

    @tool
    async def later(city: str, config: RunnableConfig) -> str:
        "Tell it later."
        return f"{city} later, {bool(config)}"

    class Own(BaseTool):
        name: str = "own"
        description: str = "Of a class of its own."

        def _run(self, city: str) -> str:
            return f"own {city}"

    class Choosing(Model):
        def _generate(self, messages, stop=None, run_manager=None, **options):
            if messages[-1].type == "human":
                calls = [{"name": name, "args": {"city": "Rome"}, "id": name} for name in messages[-1].content.split()]
                message = AIMessage(content="", tool_calls=calls)
            else:
                message = AIMessage(content=" ".join(m.content for m in messages if m.type == "tool"))
            return ChatResult(generations=[ChatGeneration(message=message)])

    answer = create_agent(Choosing(), [weather, later, Own()])
"""


@needs_langchain
async def test_tools_are_simulated_only_in_the_session_that_requests_it(lang: Any, way: dict[str, Any]) -> None:
    lang.agent("from langchain_core.runnables import RunnableConfig\n" + textwrap.dedent(SIMULATED))
    host = lang.langchain(**way)

    simulated, real = await asyncio.gather(
        lang.talk(host, "weather later own", tools=make_case_tools(weather={"degrees": 40}, later="now", own="other")),
        lang.talk(host, "weather later own"),
    )

    assert simulated.error is None, simulated.message
    assert simulated.responses == ['{"degrees": 40} now other']
    assert real.responses == ['{"city": "Rome", "degrees": 3} Rome later, True own Rome']
    by_name = {span.name: span for span in simulated.spans if span.kind is SpanKind.TOOL}
    assert {name: span.simulator for name, span in by_name.items()} == dict.fromkeys(
        ("weather", "later", "own"), "injected"
    )


@needs_langchain
async def test_a_simulated_tool_that_the_agent_lacks_is_reported(lang: Any) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(), "Rome", tools=make_case_tools(wheather=1))

    assert talk.error.failure.kind is FailureKind.SETUP
    assert talk.message == (
        "here: found 'wheather', expected one of the agent's tools (weather); did you mean 'weather'?"
    )


@needs_langchain
async def test_the_description_of_an_agent_includes_its_tools(lang: Any) -> None:
    lang.agent(AGENT)

    session = await lang.open(lang.langchain())
    description = await session.describe()
    await session.kill()

    (tool,) = description.agents[0].tools
    assert (tool["name"], tool["description"]) == ("weather", "Tell the weather of a city.")
    assert tool["parameters"]["required"] == ["city"]
    assert description.unknown == ("the instructions of answer are in its code",)


@needs_langchain
async def test_the_steps_of_an_agent_become_nested_spans(lang: Any) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(), "Rome", "Atlantis")

    by_id = {span.id: span for span in talk.spans}
    first = [span for span in talk.spans if span.turn == 0]
    (agent,) = (span for span in first if span.kind is SpanKind.AGENT)
    (tool,) = (span for span in first if span.kind is SpanKind.TOOL)
    models = [span for span in first if span.kind is SpanKind.MODEL]
    assert (agent.name, agent.parent_id) == ("answer", None)
    assert (tool.name, tool.request, tool.response) == (
        "weather",
        {"city": "Rome"},
        {"city": "Rome", "degrees": 3},
    )
    assert by_id[tool.parent_id].name == "tools"  # the node of the graph, inside the agent
    assert by_id[by_id[tool.parent_id].parent_id] is agent
    assert [span.attributes["usage"]["prompt"] for span in models] == [10, 20]
    assert models[1].request["messages"][-1]["content"] == '{"city": "Rome", "degrees": 3}'
    for span in first:
        assert agent.start <= span.start <= span.end <= agent.end
    failed = {span.kind: span.error for span in talk.spans if span.turn == 1 and span.error}
    assert failed[SpanKind.TOOL] == failed[SpanKind.AGENT] == "ValueError: no such city"
