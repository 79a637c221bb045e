"""An agent that uses a weather tool, and helpers that read its calls."""

from __future__ import annotations

from typing import Any


def get_calls(turn: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def get_results(turn: Any) -> list[Any]:
    return [item.response for item in turn.invocation.intermediate_data.tool_responses]


AGENT = """
    from langchain.agents import create_agent
    from models import *

    answer = create_agent(Model(), [weather], system_prompt="Be brief.")
"""
