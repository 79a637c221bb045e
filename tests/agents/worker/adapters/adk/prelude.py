"""The beginning of each ADK agent of the tests: imports, and a model with scripted answers."""

from __future__ import annotations

PRELUDE = '''
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps.app import App
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import AgentTool, LongRunningFunctionTool, ToolContext
from google.genai import types


def say(text, role="model"):
    return types.Content(role=role, parts=[types.Part(text=text)])


def call(name, **args):
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


class Scripted(BaseLlm):
    """Gives its answers one after the other: a text, a list of calls, an LlmResponse, or an error to raise."""

    model: str = "scripted"
    answers: list = []

    async def generate_content_async(self, llm_request, stream=False):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            answer = say(answer)
        if isinstance(answer, list):
            answer = types.Content(role="model", parts=answer)
        if not isinstance(answer, LlmResponse):
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=10, candidates_token_count=2, total_token_count=12
            )
            answer = LlmResponse(content=answer, usage_metadata=usage, model_version="scripted-1")
        yield answer


def llm_agent(name, *answers, **options):
    return LlmAgent(name=name, model=Scripted(answers=list(answers)), **options)
'''
"""Code that every agent of these tests may use."""
