"""What an agent is made of: its sub-agents, their tools and models, told without calling any of it.

Knows nothing of google-adk: attributes are read where they are. Toolsets are not asked what they hold, which may
connect to a server; what was offered to a model is in its request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MOST_AGENTS = 200  # a graph of more could not be drawn, and is told with every turn


def structure_of(agent: Any) -> dict[str, dict[str, Any]]:
    """The agent and all below it by name, the outermost first.

    Each has `type`, and where it has them `model`, `tools` (names) and `agents` (names of those it can hand over to or
    runs, agents used as tools included).
    """
    found: dict[str, dict[str, Any]] = {}
    for item in agents_of(agent):
        told = {
            "type": type(item).__name__,
            "model": _model_name(item),
            "tools": [name for name in map(tool_name, tools_held_by(item)) if name],
            "agents": names_below(item),
        }
        found[item.name] = {name: value for name, value in told.items() if value}
    return found


def tools_of(agent: Any) -> list[Any]:
    """The tools of the agent and of all below it, toolsets as they are."""
    return [tool for item in agents_of(agent) for tool in tools_held_by(item)]


def agents_of(agent: Any) -> Iterator[Any]:
    """The agent and all below it, each once, the outermost first."""
    seen: set[str] = set()
    waiting = [agent]
    while waiting and len(seen) < _MOST_AGENTS:
        item = waiting.pop(0)
        if item.name not in seen:
            seen.add(item.name)
            yield item
            waiting += _agents_below(item)


def names_below(agent: Any) -> list[str]:
    """The names of those that it can hand over to or runs."""
    return [other.name for other in _agents_below(agent)]


def _agents_below(agent: Any) -> Iterator[Any]:
    yield from getattr(agent, "sub_agents", None) or ()
    for node in getattr(getattr(agent, "graph", None), "nodes", None) or ():
        if node.name != "__START__":
            yield node
    for tool in tools_held_by(agent):
        wrapped = getattr(tool, "agent", None)
        if hasattr(wrapped, "sub_agents"):
            yield wrapped


def tools_held_by(agent: Any) -> list[Any]:
    """The tools of this agent itself, toolsets as they are."""
    tools = getattr(agent, "tools", None)
    return list(tools) if isinstance(tools, (list, tuple)) else []


def tool_name(tool: Any) -> str:
    """What a tool is called."""
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    return name if isinstance(name, str) else type(tool).__name__


def _model_name(agent: Any) -> str | None:
    model = getattr(agent, "model", None)
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) and name else None
