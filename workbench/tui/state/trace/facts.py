"""What can be said of one span: its symbol, the name of its kind, its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.model.trace import Span, SpanKind

SYMBOLS: Mapping[SpanKind, str] = {
    SpanKind.INVOCATION: "◎",
    SpanKind.AGENT: "◆",
    SpanKind.MODEL: "✦",
    SpanKind.TOOL: "ƒ",
    SpanKind.USER: "☺",
    SpanKind.OTHER: "·",
}
"""One cell for each kind."""

KIND_NAMES: Mapping[SpanKind, str] = {
    SpanKind.INVOCATION: "invocation",
    SpanKind.AGENT: "agent",
    SpanKind.MODEL: "model call",
    SpanKind.TOOL: "tool call",
    SpanKind.USER: "simulated user",
    SpanKind.OTHER: "other step",
}

_TOTALS = ("total", "total_token_count", "totalTokenCount", "total_tokens")
_PARTS = (
    "prompt_token_count", "tool_use_prompt_token_count", "candidates_token_count", "thoughts_token_count",
    "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
    "prompt", "tool_use_prompt", "candidates", "thoughts",
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens",
)  # fmt: skip
_OPEN_TELEMETRY = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")


def tokens_of(span: Span) -> int | None:
    """The tokens that this step alone spent; None where nothing was told, which is not 0."""
    for place in _usages(span):
        for name in _TOTALS:
            if (total := _count(place.get(name))) is not None:
                return total
        told = [count for name in _PARTS if (count := _count(place.get(name))) is not None]
        if told:
            return sum(told)
    told = [count for name in _OPEN_TELEMETRY if (count := _count(span.attributes.get(name))) is not None]
    return sum(told) if told else None


def _usages(span: Span) -> list[Mapping[str, Any]]:
    places = [span.attributes.get("usage")]
    if isinstance(span.response, dict):
        places += [span.response.get(name) for name in ("usage_metadata", "usageMetadata", "usage")]
    return [place for place in places if isinstance(place, dict)]


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
