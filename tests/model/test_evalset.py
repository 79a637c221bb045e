"""The ordered events of a turn."""

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


def test_events_keep_the_order_of_their_parts() -> None:
    events = [event("a", "One,", "two", "f()", "three"), event("a", "f="), event("b", "four")]

    assert format_events(invocation({"invocation_events": events})) == [
        "a: One,\ntwo",
        "a f()",
        "a: three",
        "f() gave None",
        "b: four",
    ]


def test_responses_in_lists_follow_their_calls() -> None:
    data = {
        "tool_uses": [{"name": "f", "id": "1"}, {"name": "f", "id": "2"}, {"name": "g"}],
        "tool_responses": [
            {"name": "g", "response": {"x": 0}},
            {"name": "f", "id": "2", "response": {"x": 2}},
            {"name": "f", "id": "1", "response": {"x": 1}},
            {"name": "f", "id": "1", "response": {"x": 3}},
            {"name": "h", "response": {"x": 4}},
        ],
        "intermediate_responses": [["helper", [{"text": "soon"}]]],
    }

    assert format_events(invocation(data)) == [
        "None f(1)",
        "f(1) gave {'x': 1}",
        "f(1) gave {'x': 3}",
        "None f(2)",
        "f(2) gave {'x': 2}",
        "None g()",
        "g() gave {'x': 0}",
        "h() gave {'x': 4}",
        "helper: soon",
    ]
