"""What happened in a turn, in one order, and who spoke last."""

from __future__ import annotations

import time
from typing import Any

import pytest

from workbench.model.evalset import Invocation
from workbench.model.trace import CallEvent, ResponseEvent, TextEvent, find_final_author, iterate_events


def invocation(data: dict[str, Any], final: str | None = "Done.") -> Invocation:
    response = None if final is None else {"parts": [{"text": final}]}
    return Invocation.model_validate(
        {"user_content": {"parts": [{"text": "?"}]}, "final_response": response, "intermediate_data": data}
    )


def event(author: str, *parts: Any) -> dict[str, Any]:
    """Texts, calls as `f()`, responses as `f=`; without parts the event has no content."""

    def part(given: str) -> dict[str, Any]:
        if given.endswith("()"):
            return {"function_call": {"name": given[:-2]}}
        return {"function_response": {"name": given[:-1]}} if given.endswith("=") else {"text": given}

    return {"author": author, **({"content": {"parts": [part(each) for each in parts]}} if parts else {})}


def told(given: Invocation) -> list[str]:
    def line(each: Any) -> str:
        match each:
            case TextEvent(author, text):
                return f"{author}: {text}"
            case CallEvent(author, call):
                return f"{author} {call.name}({call.id or ''})"
            case ResponseEvent(response):
                return f"{response.name}({response.id or ''}) gave {response.response}"
        raise AssertionError(each)

    return [line(each) for each in iterate_events(given)]


def test_events_keep_the_order_of_their_parts() -> None:
    events = [event("a", "One,", "two", "f()", "three"), event("a", "f="), event("b", "four")]

    assert told(invocation({"invocation_events": events})) == [
        "a: One,\ntwo",
        "a f()",
        "a: three",
        "f() gave None",
        "b: four",
    ]


def test_lists_of_calls_have_each_response_behind_its_call() -> None:
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

    assert told(invocation(data)) == [
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


@pytest.mark.parametrize(
    ("events", "author", "said"),
    [
        ([event("a", "go()"), event("a", "go="), event("b")], "b", []),  # as ADK writes a transfer
        ([event("a", "Done."), event("b")], "b", ["a: Done."]),
        ([event("a", "Done.", "wait()"), event("a", "wait=")], "a", []),  # as ADK writes a call that takes long
        ([event("a", "Done."), event("b", "Done.")], "b", ["a: Done."]),  # repeated once, by the event of the response
        ([event("a", "go()"), event("b", "go=")], "a", []),
        ([], None, []),
    ],
)
def test_the_final_response_is_of_its_event_and_not_told_twice(
    events: list[dict[str, Any]], author: str | None, said: list[str]
) -> None:
    given = invocation({"invocation_events": events})

    assert find_final_author(given) == author
    assert [line for line in told(given) if ": " in line] == said


def test_lists_of_calls_do_not_tell_who_spoke_last() -> None:
    data = {"intermediate_responses": [["helper", [{"text": "soon"}]]]}

    assert find_final_author(invocation(data)) is None


def test_many_calls_are_paired_in_linear_time() -> None:
    names = [f"f{number}" for number in range(10_000)]
    data = {"tool_uses": names, "tool_responses": [{"name": name} for name in reversed(names)]}
    given = invocation(data)

    began = time.process_time()
    events = list(iterate_events(given))

    assert time.process_time() - began < 2
    assert [each.response.name for each in events if isinstance(each, ResponseEvent)] == names
