"""What the tests of spans from HTTP agents share: how a span is of a turn, and how spans are told."""

from __future__ import annotations

from typing import Any

from workbench.model.trace import Span

NOTES = "workbench.telemetry"


def parent_of(asked: Any) -> dict[str, Any]:
    """The trace and the span that a request names in its `traceparent`."""
    _, trace, span, _ = asked.headers["traceparent"].split("-")
    return {"trace": trace, "parent": span}


def kinds(spans: list[Span]) -> list[tuple[str, str]]:
    return [(span.kind.value, span.name) for span in spans]
