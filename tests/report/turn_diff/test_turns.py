"""What differs in a turn besides calls and response: what tools gave back, what sub-agents said."""

from __future__ import annotations

from typing import Any

from workbench.model.evalset import Invocation
from workbench.report.turn_diff import (
    AgentMessage,
    DifferenceKind,
    compare_turn,
    find_differences,
    list_messages,
    make_side,
)


def flat(*, calls: Any = (), gave: Any = (), said: Any = ()) -> Invocation:
    """A turn in the older form: calls by name, what they gave as (id, name, response), what was said by author."""
    return Invocation.model_validate(
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "intermediate_data": {
                "tool_uses": [{"id": name, "name": name[0], "args": {}} for name in calls],
                "tool_responses": [{"id": key, "name": name, "response": given} for key, name, given in gave],
                "intermediate_responses": [[author, [{"text": text}]] for author, text in said],
            },
        }
    )


def kinds(expected: Invocation, actual: Invocation) -> list[str]:
    return [found.kind.value for found in compare_turn(expected, actual).differences]


def test_responses_of_tools_belong_to_calls_by_id_else_by_name_and_order() -> None:
    turn = flat(calls=["f1", "f2", "g"], gave=[(None, "f", {"n": 1}), (None, "g", {"n": 3}), ("f1", "f", {"n": 2})])

    assert make_side(turn).responses == [{"n": 2}, {"n": 1}, {"n": 3}]


def test_responses_of_tools_differ_only_where_both_sides_have_one() -> None:
    expected = flat(calls=["f"], gave=[(None, "f", {"ok": True})])

    assert kinds(expected, flat(calls=["f"])) == []
    assert kinds(flat(calls=["f"]), expected) == []
    assert kinds(expected, flat(calls=["f"], gave=[(None, "f", {"ok": False})])) == ["tool_response_changed"]


def test_what_sub_agents_say_is_aligned_by_author() -> None:
    expected = flat(said=[("cook", "One moment."), ("waiter", "Coming.")])
    actual = flat(said=[("host", "Welcome!"), ("cook", "Two moments.")])

    found = {d.kind: (d.tool, d.expected, d.actual) for d in compare_turn(expected, actual).differences}

    assert found == {
        DifferenceKind.INTERMEDIATE_EXTRA: ("host", None, "Welcome!"),
        DifferenceKind.INTERMEDIATE_CHANGED: ("cook", "One moment.", "Two moments."),
        DifferenceKind.INTERMEDIATE_MISSING: ("waiter", "Coming.", None),
    }


def test_a_case_that_expects_nothing_of_sub_agents_leaves_open_what_they_say() -> None:
    assert kinds(flat(), flat(said=[("cook", "One moment.")])) == []


def test_events_tell_what_was_said_without_thoughts_and_calls() -> None:
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


def test_thoughts_are_no_part_of_the_response() -> None:
    expected = Invocation.model_validate({"user_content": {}, "final_response": {"parts": [{"text": "4"}]}})
    thoughtful = {"parts": [{"text": "2+2", "thought": True}, {"text": "4"}]}
    actual = Invocation.model_validate({"user_content": {}, "final_response": thoughtful})

    assert find_differences(expected, actual) == ()
