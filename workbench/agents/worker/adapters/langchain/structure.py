"""The tools that a runnable is made of, found by looking: nothing of it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

# Where chains, executors and graphs hold what they are made of.
_PARTS = (
    "agent", "bound", "branches", "default", "deps", "fallbacks", "nodes", "runnable", "runnables", "steps", "steps__",
    "subgraphs", "tools", "_tools_by_name", "tools_by_name",
)  # fmt: skip
_MOST = 5000  # objects that are looked at: more than any agent is made of


def tools_of(runnable: Any) -> list[Any]:
    """The tools below a runnable, each once; those that only a function of the user's knows are not seen."""
    found: dict[int, Any] = {}
    for item in _parts_of(runnable):
        if isinstance(item, BaseTool):
            found.setdefault(id(item), item)
    return list(found.values())


def _parts_of(runnable: Any) -> Iterator[Any]:
    seen: dict[int, Any] = {}  # held, so that identities stay unique
    waiting = [runnable]
    while waiting and len(seen) < _MOST:
        item = waiting.pop(0)
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
        elif isinstance(item, BaseTool):
            yield item
        elif isinstance(item, Runnable) or type(item).__module__.split(".")[0].startswith(("langchain", "langgraph")):
            for name in _PARTS:
                try:
                    waiting.append(getattr(item, name, None))
                except Exception:  # a property of the user's
                    continue
