"""Shared helpers for tests of spans from HTTP agents."""

from __future__ import annotations

from typing import Any

from workbench.model.trace import Span

NOTES = "workbench.telemetry"


def get_parent(request: Any) -> dict[str, Any]:
    """Return the trace and the span that the `traceparent` of a request names."""
    _, trace, span, _ = request.headers["traceparent"].split("-")
    return {"trace": trace, "parent": span}


def get_kinds(spans: list[Span]) -> list[tuple[str, str]]:
    return [(span.kind.value, span.name) for span in spans]
