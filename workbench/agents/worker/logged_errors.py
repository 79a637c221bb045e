"""Errors that a framework logs without raising them.

google-adk 2 logs that a toolset could not be loaded and runs the agent without the tools, so that its answer says
nothing about the agent under test; older versions raise it. Imported when a turn begins: `logging` imports `threading`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from .faults import cut_addresses

_LOGGERS = ("google_adk", "google_genai", "langchain", "langchain_core", "langgraph", "mcp", "LiteLLM")
_OF_TOOLSETS = "google_adk.google.adk.agents.llm_agent"
_MOST = 5  # errors of a turn
_LONGEST = 500  # characters of an error


class LoggedErrors:
    """What frameworks log as errors in one turn: toolsets that could not be loaded, and others, as sentences."""

    def __init__(self) -> None:
        self.lost_toolsets: list[str] = []
        self.others: list[str] = []

    def list_notes(self) -> list[str]:
        """Return the other errors as remarks on the turn."""
        return [f"logged as an error, and the agent went on: {text}" for text in self.others]


_errors: ContextVar[LoggedErrors] = ContextVar("logged_errors")


class _Handler(logging.Handler):
    """Notes the errors for the turn that they belong to."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _errors.get(None)
        if found is None:
            return
        try:
            self._note(record, found)
        except Exception:  # of the record, such as one argument too many: the agent must not fail by it
            self.handleError(record)

    @staticmethod
    def _note(record: logging.LogRecord, found: LoggedErrors) -> None:
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and str(error) not in message:
            message = f"{message}: {type(error).__name__}: {error}"
        elif error is not None and not str(error):
            message = f"{message}{type(error).__name__}"
        message = cut_addresses(message)
        is_lost = record.name == _OF_TOOLSETS and "toolset" in message
        texts = found.lost_toolsets if is_lost else found.others
        if len(texts) < _MOST and message not in texts:
            texts.append(message[:_LONGEST])


_handler = _Handler(logging.ERROR)


def collect_logged_errors() -> LoggedErrors:
    """Return the object that gets what the frameworks log as errors during this turn."""
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(_handler)  # a handler that is there already is not added again
    found = LoggedErrors()
    _errors.set(found)
    return found
