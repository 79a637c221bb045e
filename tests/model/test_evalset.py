"""The ordered events of a turn."""

from __future__ import annotations

from tests.model.events import event, format_events, invocation


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
