"""An agent that asks for the weather, and what it is seen to have done."""

from __future__ import annotations

from typing import Any


def calls_of(turn: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def results_of(turn: Any) -> list[Any]:
    return [item.response for item in turn.invocation.intermediate_data.tool_responses]


AGENT = """
    from langchain.agents import create_agent
    from models import *

    answer = create_agent(Model(), [weather], system_prompt="Be brief.")
"""
