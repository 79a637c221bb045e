"""Agents for benchmarks."""

from __future__ import annotations

ADK = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        part = llm_request.contents[-1].parts[0]
        if part.function_response:
            answer = types.Part(text=str(part.function_response.response["result"]))
        else:
            answer = types.Part(function_call=types.FunctionCall(name="look", args={"what": part.text}))
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


def look(what: str) -> str:
    \"\"\"Look at something.\"\"\"
    return what + " 0"


root_agent = LlmAgent(name="watched", model=Scripted(), tools=[look])
"""
"""An agent that calls a tool, with a model of negligible cost."""
