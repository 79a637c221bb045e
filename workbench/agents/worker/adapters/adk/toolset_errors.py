"""Toolsets that google-adk could not load.

google-adk 2 logs the error and runs the agent without the tools, so that its answer says nothing about the agent under
test; older versions raise it. Imported when a turn begins: `logging` imports `threading`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

_LOGGER = "google_adk.google.adk.agents.llm_agent"

_lost_toolsets: ContextVar[list[str]] = ContextVar("lost_toolsets")


class _ToolsetErrors(logging.Handler):
    """Notes the errors of toolsets for the turn that they belong to."""

    def emit(self, record: logging.LogRecord) -> None:
        message, lost = record.getMessage(), _lost_toolsets.get(None)
        if lost is None or "toolset" not in message:
            return
        error = record.exc_info[1] if record.exc_info else None
        is_silent = error is not None and not str(error)
        lost.append(f"{message}{type(error).__name__}" if is_silent else message)


_handler = _ToolsetErrors(logging.ERROR)


def collect_lost_toolsets() -> list[str]:
    """Return the list that gets a sentence for each toolset that this turn cannot load."""
    logging.getLogger(_LOGGER).addHandler(_handler)  # a handler that is there already is not added again
    lost: list[str] = []
    _lost_toolsets.set(lost)
    return lost
