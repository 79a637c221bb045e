"""Traces: the tree of spans that one case leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from workbench.model.base import Fact


class SpanKind(StrEnum):
    """What a span stands for."""

    INVOCATION = "invocation"
    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"
    USER = "user"  # a model that plays the user is asked what to say
    OTHER = "other"


class Span(Fact):
    """One timed (or only reported) step of a case.

    `start` and `end` are seconds since the case's session was opened; both are None for a step that the agent reported
    without times, and `end` alone for one that is still going on. `turn` counts from 0. `request` and `response` are
    what went in and came out as JSON values: for a model call the request and response of the model, for a tool call
    its arguments and result.
    """

    id: str
    parent_id: str | None = None
    turn: int = 0
    kind: SpanKind = SpanKind.OTHER
    name: str = ""
    start: float | None = None
    end: float | None = None
    error: str | None = None
    request: Any = None
    response: Any = None
    attributes: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_under_way(self) -> bool:
        """Whether the step has begun and not ended."""
        return self.start is not None and self.end is None

    @property
    def duration(self) -> float | None:
        """Seconds, or None where the step was only reported."""
        return None if self.start is None or self.end is None else self.end - self.start
