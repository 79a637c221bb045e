"""Differences of a turn in tool responses and messages of sub-agents."""

from __future__ import annotations

from typing import Any

from workbench.model.evalset import Invocation
from workbench.model.turn_diff import (
    AgentMessage,
    DifferenceKind,
    compare_turn,
    find_differences,
    list_messages,
    make_side,
)


def make_older_turn(*, calls: Any = (), responses: Any = (), messages: Any = ()) -> Invocation:
    """Build a turn in the older form: calls by name, tool responses (id, name, response), messages (author, text)."""
    return Invocation.model_validate(
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "intermediate_data": {
                "tool_uses": [{"id": name, "name": name[0], "args": {}} for name in calls],
                "tool_responses": [{"id": key, "name": name, "response": given} for key, name, given in responses],
                "intermediate_responses": [[author, [{"text": text}]] for author, text in messages],
            },
        }
    )


def find_kinds(expected: Invocation, actual: Invocation) -> list[str]:
    return [found.kind.value for found in compare_turn(expected, actual).differences]


def test_tool_responses_are_assigned_to_calls_by_id_or_by_name_and_order() -> None:
    turn = make_older_turn(
        calls=["f1", "f2", "g"], responses=[(None, "f", {"n": 1}), (None, "g", {"n": 3}), ("f1", "f", {"n": 2})]
    )

    assert make_side(turn).responses == [{"n": 2}, {"n": 1}, {"n": 3}]


def test_tool_responses_differ_only_if_both_sides_have_one() -> None:
    expected = make_older_turn(calls=["f"], responses=[(None, "f", {"ok": True})])

    assert find_kinds(expected, make_older_turn(calls=["f"])) == []
    assert find_kinds(make_older_turn(calls=["f"]), expected) == []
    assert find_kinds(expected, make_older_turn(calls=["f"], responses=[(None, "f", {"ok": False})])) == [
        "tool_response_changed"
    ]


def test_messages_of_sub_agents_are_aligned_by_author() -> None:
    expected = make_older_turn(messages=[("cook", "One moment."), ("waiter", "Coming.")])
    actual = make_older_turn(messages=[("host", "Welcome!"), ("cook", "Two moments.")])

    found = {d.kind: (d.tool, d.expected, d.actual) for d in compare_turn(expected, actual).differences}

    assert found == {
        DifferenceKind.INTERMEDIATE_EXTRA: ("host", None, "Welcome!"),
        DifferenceKind.INTERMEDIATE_CHANGED: ("cook", "One moment.", "Two moments."),
        DifferenceKind.INTERMEDIATE_MISSING: ("waiter", "Coming.", None),
    }


def test_a_case_without_expected_messages_accepts_any_message() -> None:
    assert find_kinds(make_older_turn(), make_older_turn(messages=[("cook", "One moment.")])) == []


def test_pieces_of_a_streamed_text_are_no_messages() -> None:
    def event(text: str) -> dict[str, Any]:
        return {"author": "bot", "content": {"role": "model", "parts": [{"text": text}]}}

    events = [event(text) for text in ("I look.", "It ", "is ", "dark.")]
    turn = Invocation.model_validate(
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "final_response": {"parts": [{"text": "It is dark."}]},
            "intermediate_data": {"invocation_events": events},
        }
    )

    assert [message.text for message in list_messages(turn)] == ["I look."]


def test_messages_of_events_exclude_thoughts_and_calls() -> None:
    turn = Invocation.model_validate(
        {
            "user_content": {"parts": []},
            "intermediate_data": {
                "invocation_events": [
                    {"author": "a", "content": {"parts": [{"text": "hm", "thought": True}, {"text": "Let me see"}]}},
                    {"author": "a", "content": {"parts": [{"function_call": {"name": "f"}}]}},
                    {"author": "a"},
                ]
            },
        }
    )

    assert list_messages(turn) == [AgentMessage("a", "Let me see")]


def test_thoughts_are_not_part_of_the_response() -> None:
    expected = Invocation.model_validate({"user_content": {}, "final_response": {"parts": [{"text": "4"}]}})
    thoughtful = {"parts": [{"text": "2+2", "thought": True}, {"text": "4"}]}
    actual = Invocation.model_validate({"user_content": {}, "final_response": thoughtful})

    assert find_differences(expected, actual) == ()
