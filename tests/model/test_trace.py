"""The author of a final response, the events of many calls, and trajectories in other forms."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.model.events import event, format_events, invocation
from workbench.model.trace import ResponseEvent, find_final_author, iterate_events, read_trajectory


@pytest.mark.parametrize(
    ("events", "author", "texts"),
    [
        ([event("a", "go()"), event("a", "go="), event("b")], "b", []),  # a transfer in ADK's form
        ([event("a", "Done."), event("b")], "b", ["a: Done."]),
        ([event("a", "Done.", "wait()"), event("a", "wait=")], "a", []),  # a long-running call in ADK's form
        (
            [event("a", "Done."), event("b", "Done.")],
            "b",
            ["a: Done."],
        ),  # only the event of the final response repeats it
        ([event("a", "go()"), event("b", "go=")], "a", []),
        ([], None, []),
    ],
)
def test_the_final_response_has_the_author_of_its_event_and_appears_once(
    events: list[dict[str, Any]], author: str | None, texts: list[str]
) -> None:
    turn = invocation({"invocation_events": events})

    assert find_final_author(turn) == author
    assert [line for line in format_events(turn) if ": " in line] == texts


def test_lists_of_calls_have_no_final_author() -> None:
    data = {"intermediate_responses": [["helper", [{"text": "soon"}]]]}

    assert find_final_author(invocation(data)) is None


def test_many_calls_are_paired_in_linear_time() -> None:
    names = [f"f{number}" for number in range(10_000)]
    data = {"tool_uses": names, "tool_responses": [{"name": name} for name in reversed(names)]}
    turn = invocation(data)

    began = time.process_time()
    events = list(iterate_events(turn))

    assert time.process_time() - began < 2
    assert [each.response.name for each in events if isinstance(each, ResponseEvent)] == names


def test_json_text_and_lists_of_names_are_read_as_trajectories() -> None:
    assert read_trajectory('["f", "g"]') == read_trajectory([{"name": "f"}, {"tool_name": "g"}])
