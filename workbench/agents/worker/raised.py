"""Exceptions of tools as data, and back: what a tool raised once is raised again where its calls are replayed."""

from __future__ import annotations

import importlib

from .adapters.base import AgentFault
from .faults import summary
from .values import unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def as_data(error: BaseException) -> Dict[str, Any]:
    """What is needed to raise the same: where its class is, its arguments and its attributes.

    Where those are no JSON there are none, only the `text`.
    """
    kind = type(error)
    data: Dict[str, Any] = {"text": summary(error)}
    parts = {"args": list(error.args), "state": dict(vars(error))}
    if unfit(parts, "") is None:
        data.update(parts, type=f"{kind.__module__}:{kind.__qualname__}")
    return data


def made_of(data: Dict[str, Any], tool: str) -> BaseException:
    """The exception that `as_data` told of; AgentFault where it cannot be made any more."""
    module, _, name = str(data.get("type", "")).partition(":")
    try:
        kind: Any = importlib.import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        error: BaseException = kind.__new__(kind, *data["args"])
        error.args = tuple(data["args"])
        vars(error).update(data["state"])
    except Exception as problem:  # whatever becomes of a class of the agent's
        text = data.get("text", "an exception")
        return AgentFault(
            f"{tool} raised {text} when its calls were recorded, which cannot be raised again: {summary(problem)}",
            kind="unsupported",
        )
    return error
