"""OpenTelemetry spans as agents send them: OTLP in JSON, written by hand."""

from __future__ import annotations

import secrets
import time
from typing import Any

import aiohttp

Json = Any


def attributes(values: dict[str, Any]) -> list[Json]:
    def encode_value(value: Any) -> Json:
        if isinstance(value, bool):
            return {"boolValue": value}
        if isinstance(value, dict):
            return {"kvlistValue": {"values": attributes(value)}}
        if isinstance(value, list):
            return {"arrayValue": {"values": [encode_value(item) for item in value]}}
        if isinstance(value, float):
            return {"doubleValue": value}
        return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}

    return [{"key": key, "value": encode_value(value)} for key, value in values.items()]


def span(name: str, *, parent: str = "", trace: str = "ab" * 16, seconds: float = 0.01, **changes: Any) -> Json:
    """Return a span that has just ended; pass its `attributes` as a plain dict."""
    now = time.time_ns()
    fields = {
        "traceId": trace,
        "spanId": secrets.token_hex(8),
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(now - int(seconds * 1e9)),
        "endTimeUnixNano": str(now),
        **changes,
    }
    return {**fields, "attributes": attributes(changes.get("attributes", {}))}


def model(*, tokens: tuple[int, int] = (7, 2), **changes: Any) -> Json:
    values = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
    }
    return span("chat m-1", attributes=values, **changes)


def agent(operation: str = "invoke_agent", **changes: Any) -> Json:
    return span(operation, attributes={"gen_ai.operation.name": operation, "gen_ai.agent.name": "clerk"}, **changes)


def tool(name: str, *, arguments: str | None = "{}", result: str | None = None, **changes: Any) -> Json:
    values: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    if arguments is not None:
        values["gen_ai.tool.call.arguments"] = arguments
    if result is not None:
        values["gen_ai.tool.call.result"] = result
    return span(f"execute_tool {name}", attributes=values, **changes)


def resource_spans(*spans: Json) -> list[Json]:
    return [{"resource": {}, "scopeSpans": [{"scope": {"name": "agent"}, "spans": list(spans)}]}]


async def export(port: int, *spans: Any, path: str = "") -> int:
    """Send spans like an exporter; return the status of the answer."""
    document = {"resourceSpans": resource_spans(*spans)}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{port}{path}/v1/traces", json=document) as response,
    ):
        return response.status
