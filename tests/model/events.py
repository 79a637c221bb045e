"""Short builders for turns with events, and events as text."""

from __future__ import annotations

from typing import Any

from workbench.model.evalset import Invocation
from workbench.model.trace import CallEvent, ResponseEvent, TextEvent, iterate_events


def invocation(data: dict[str, Any], final: str | None = "Done.") -> Invocation:
    response = None if final is None else {"parts": [{"text": final}]}
    return Invocation.model_validate(
        {"user_content": {"parts": [{"text": "?"}]}, "final_response": response, "intermediate_data": data}
    )


def event(author: str, *parts: Any) -> dict[str, Any]:
    """Build an event of texts, calls `f()` and responses `f=`; without parts it has no content."""

    def part(text: str) -> dict[str, Any]:
        if text.endswith("()"):
            return {"function_call": {"name": text[:-2]}}
        return {"function_response": {"name": text[:-1]}} if text.endswith("=") else {"text": text}

    return {"author": author, **({"content": {"parts": [part(each) for each in parts]}} if parts else {})}


def format_events(turn: Invocation) -> list[str]:
    def line(each: Any) -> str:
        match each:
            case TextEvent(author, text):
                return f"{author}: {text}"
            case CallEvent(author, call):
                return f"{author} {call.name}({call.id or ''})"
            case ResponseEvent(response):
                return f"{response.name}({response.id or ''}) gave {response.response}"
        raise AssertionError(each)

    return [line(each) for each in iterate_events(turn)]
