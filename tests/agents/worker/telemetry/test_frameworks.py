"""The one-liners of docs/agents/opentelemetry.md with the real frameworks, where they are installed.

They need many packages, so they may be in an interpreter of their own: `FRAMEWORKS_PYTHON=PATH pytest ...`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("FRAMEWORKS_PYTHON", sys.executable)

PYDANTIC_AI = """
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart
    from pydantic_ai.models.function import FunctionModel

    Agent.instrument_all()

    def model(messages, info):
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart) and last.content != "hello":
            return ModelResponse(parts=[ToolCallPart("weather", {"city": city}) for city in last.content.split()])
        return ModelResponse(parts=[TextPart("cold")])

    agent = Agent(FunctionModel(model), name="clerk")

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"3 degrees in {city}"

    def answer(prompt):
        return agent.run_sync(prompt).output
"""
OPENAI_AGENTS = """
    from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument()

    class Scripted(Model):
        async def get_response(self, system_instructions, input, *rest, **options):
            asked = input if isinstance(input, str) else input[-1].get("content")
            if asked and asked != "hello":
                output = [
                    ResponseFunctionToolCall(
                        type="function_call", call_id=f"c{number}", name="weather", arguments='{"city": "%s"}' % city
                    )
                    for number, city in enumerate(asked.split())
                ]
            else:
                text = ResponseOutputText(type="output_text", text="cold", annotations=[])
                output = [
                    ResponseOutputMessage(
                        id="m", type="message", role="assistant", status="completed", content=[text]
                    )
                ]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *rest, **options):
            raise NotImplementedError

    @function_tool
    def weather(city: str) -> str:
        "Weather."
        return f"3 degrees in {city}"

    agent = Agent(name="clerk", tools=[weather], model=Scripted())

    def answer(prompt):
        return Runner.run_sync(agent, prompt).final_output
"""
CREWAI = """
    import os
    os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
    os.environ["CREWAI_TRACING_ENABLED"] = "false"
    from crewai import Agent, BaseLLM, Crew, Task
    from crewai.tools import tool
    from openinference.instrumentation.crewai import CrewAIInstrumentor

    CrewAIInstrumentor().instrument()

    class Scripted(BaseLLM):
        def supports_function_calling(self):
            return True

        def call(self, messages, tools=None, available_functions=None, **options):
            asked = messages[1]["content"].split("Current Task: ")[1].splitlines()[0]
            if messages[-1]["role"] == "tool" or asked == "hello":
                return "cold"
            return [
                {"id": f"c{number}", "type": "function",
                 "function": {"name": "weather", "arguments": '{"city": "%s"}' % city}}
                for number, city in enumerate(asked.split())
            ]

    @tool("weather")
    def weather(city: str) -> str:
        "Weather in a city."
        return f"3 degrees in {city}"

    clerk = Agent(role="clerk", goal="g", backstory="b", tools=[weather], llm=Scripted(model="scripted"))
    crew = Crew(agents=[clerk], tasks=[Task(description="{prompt}", expected_output="text", agent=clerk)])

    def answer(prompt):
        return crew.kickoff({"prompt": prompt}).raw
"""


@cache
def is_installed(modules: str) -> bool:
    code = f"from importlib.util import find_spec; raise SystemExit(not all(map(find_spec, {modules.split()!r})))"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        pytest.param(PYDANTIC_AI, "pydantic_ai opentelemetry.sdk", id="pydantic-ai"),
        pytest.param(OPENAI_AGENTS, "agents openinference.instrumentation.openai_agents", id="openai-agents"),
        pytest.param(CREWAI, "crewai openinference.instrumentation.crewai", id="crewai"),
    ],
)
async def test_an_agent_of_a_framework_is_evaluated_with_one_line(bench: Any, code: str, modules: str) -> None:
    if not is_installed(modules):
        pytest.skip(f"{modules} are not installed for {PYTHON}")
    bench.agent(code)

    talk = await bench.talk_once("Rome", "hello", "Oslo", python=Path(PYTHON))

    assert talk.error is None, talk.message
    calls = [[(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses] for turn in talk.turns]
    assert calls == [[("weather", {"city": "Rome"})], [], [("weather", {"city": "Oslo"})]]
    assert talk.responses == ["cold"] * 3
    assert all(turn.calls_unknown is None for turn in talk.turns)
