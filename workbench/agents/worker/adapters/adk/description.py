"""What an ADK agent and those below it are told and can call, read from the objects: nothing of them runs."""

from __future__ import annotations

import inspect
from typing import Any

from ...plain import as_json
from .structure import agents_of, names_below, tool_name, tools_held_by
from .tools import declaration_of

_INSTRUCTIONS = ("global_instruction", "static_instruction", "instruction")


def description_of(agent: Any) -> dict[str, Any]:
    """The agent and all below it, as the answer to `describe`."""
    untold: list[str] = []
    parts = [_part(item, untold) for item in agents_of(agent)]
    return {"agents": parts, "untold": untold}


def _part(agent: Any, untold: list[str]) -> dict[str, Any]:
    told = {
        "type": type(agent).__name__,
        "description": _text(getattr(agent, "description", None)),
        "instruction": _instruction(agent, untold),
        "tools": _declarations(agent, untold),
        "agents": names_below(agent),
    }
    return {"name": agent.name, **{name: value for name, value in told.items() if value}}


def _instruction(agent: Any, untold: list[str]) -> str:
    texts = []
    for name in _INSTRUCTIONS:
        value = getattr(agent, name, None)
        if callable(value):
            untold.append(f"{name} of {agent.name} is made by a function when a model is asked")
            value = inspect.getdoc(value)
        texts.append(_text(value))
    return "\n\n".join(text for text in texts if text)


def _text(value: Any) -> str:
    """A text, or those in a content of google.genai; what holds none has none."""
    if isinstance(value, str):
        return value
    parts = getattr(value, "parts", None) or ([value] if hasattr(value, "text") else value)
    if not isinstance(parts, (list, tuple)):
        return ""
    texts = (part if isinstance(part, str) else getattr(part, "text", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _declarations(agent: Any, untold: list[str]) -> list[dict[str, Any]]:
    told = []
    for tool in tools_held_by(agent):
        if hasattr(tool, "get_tools"):
            untold.append(f"{type(tool).__name__} of {agent.name} was not asked which tools it holds")
            continue
        try:
            told.append(as_json(declaration_of(_as_tool(tool))))
        except Exception:  # a tool of the user's own making; its name is all that is known
            told.append({"name": tool_name(tool)})
    return told


def _as_tool(tool: Any) -> Any:
    """A function among the tools as ADK makes a tool of it."""
    if hasattr(tool, "_get_declaration"):
        return tool
    from google.adk.tools.function_tool import FunctionTool

    return FunctionTool(func=tool)
