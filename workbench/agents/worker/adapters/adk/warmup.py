"""A run of the framework on a dummy: what google-adk imports on a first run is then imported before processes fork."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

from .adk_session import open_session


class _DummyModel(BaseLlm):  # type: ignore[misc]  # google.adk is untyped here: it may not be installed
    """Calls the tool, then answers. No network."""

    model: str = "dummy"

    async def generate_content_async(self, llm_request: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        called = any(part.function_response for content in llm_request.contents for part in content.parts or ())
        call = types.Part(function_call=types.FunctionCall(name="dummy_tool", args={"number": 1}))
        part = types.Part(text="done") if called else call
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=1)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


async def dummy_tool(number: int) -> dict[str, int]:
    """Give back the number."""
    return {"number": number}


def run_dummy() -> None:
    """Run one turn of an agent with a model and a tool, on an event loop that is closed again."""
    asyncio.run(_run_dummy())


async def _run_dummy() -> None:
    agent = LlmAgent(name="dummy", model=_DummyModel(), tools=[dummy_tool])
    session = await open_session({"app_name": "dummy"}, _drop, app=None, agent=agent, release=lambda: True, stack=None)
    await session.turn({"role": "user", "parts": [{"text": "hello"}]}, 0)
    await session.close()


def _drop(_span: dict[str, Any]) -> None:
    """Spans are emitted, so that this way has been gone, too."""
