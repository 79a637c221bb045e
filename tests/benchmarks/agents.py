"""Agents for benchmarks, and eval sets for them."""

from __future__ import annotations

import json

FUNCTION_AGENT = """
def answer(prompt):
    return {"response": prompt, "predicted_trajectory": [{"tool_name": "echo", "tool_input": {"text": prompt}}]}
"""


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


def make_eval_set(cases: int, *, tool: bool) -> str:
    def case(number: int) -> dict[str, object]:
        text = f"hello {number}"
        calls = [{"name": "echo", "args": {"text": text}}] if tool else []
        return {
            "eval_id": f"case_{number}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": text}]},
                    "final_response": {"role": "model", "parts": [{"text": text}]},
                    "intermediate_data": {"tool_uses": calls},
                }
            ],
        }

    return json.dumps({"eval_set_id": f"set_{cases}", "eval_cases": [case(n) for n in range(cases)]})
