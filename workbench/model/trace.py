"""Traces: the tree of spans that one case leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from pydantic import Field

from workbench.model.base import Fact
from workbench.model.trajectory import ToolCall

SIMULATED = "workbench.simulated"
"""The attribute of a tool's span that says who answered in its place: `injected`, `model` or `replayed`."""


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
    def simulated_by(self) -> str | None:
        """Who answered in place of the tool; None where the tool itself was called, or it is no tool's span."""
        source = self.attributes.get(SIMULATED)
        return source if isinstance(source, str) else None

    @property
    def duration(self) -> float | None:
        """Seconds, or None where the step was only reported."""
        return None if self.start is None or self.end is None else self.end - self.start


def simulated_calls(spans: Iterable[Span], calls: Sequence[ToolCall], *, turn: int) -> list[str | None]:
    """For each call of a turn who answered it in place of its tool, None where nobody did.

    Calls and spans are told by different sides: they belong together where name and arguments are the same, the rest by
    name.
    """
    left = [span for span in spans if span.kind is SpanKind.TOOL and span.turn == turn]
    if not any(span.simulated_by for span in left):
        return [None] * len(calls)
    found: list[str | None] = []
    for call in calls:
        named = [span for span in left if span.name == call.name]
        same = [span for span in named if span.request == call.args] or named
        if same:
            left.remove(same[0])
        found.append(same[0].simulated_by if same else None)
    return found
