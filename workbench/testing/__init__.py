"""What tests are written with.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.testing.agent_evaluator.evaluator import AgentEvaluator
    from workbench.testing.agent_evaluator.verdicts import EvaluationIncomplete

_MODULES = {
    "AgentEvaluator": "agent_evaluator.evaluator",
    "EvaluationIncomplete": "agent_evaluator.verdicts",
}

__all__ = [
    "AgentEvaluator",
    "EvaluationIncomplete",
]


def __getattr__(name: str) -> Any:
    """A name of the API, imported now."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """What can be imported from here."""
    return sorted(__all__)
