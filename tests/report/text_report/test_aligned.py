"""Expected and actual turns as lines of a diff."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, TurnResult
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import aligned_lines

KEY = CaseKey(target="t", eval_set="s.evalset.json", eval_id="c")
Call = tuple[str, dict[str, Any] | None]
Calls = list[Call]


def invocation(calls: Calls, response: str | None) -> dict[str, Any]:
    final_response = None if response is None else {"role": "model", "parts": [{"text": response}]}
    return {
        "user_content": {"role": "user", "parts": [{"text": "go"}]},
        "final_response": final_response,
        "intermediate_data": {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
    }


def format_lines(
    expected: Calls,
    actual: Calls,
    *,
    responses: tuple[str | None, str | None] = (None, None),
    unknown: str | None = None,
) -> list[str]:
    expected_case = EvalCase.model_validate({"eval_id": "c", "conversation": [invocation(expected, responses[0])]})
    actual_case = EvalCase.model_validate({"eval_id": "c", "conversation": [invocation(actual, responses[1])]})
    turns = tuple(
        TurnResult(invocation=turn, duration_seconds=0.0, calls_unknown=unknown)
        for turn in actual_case.conversation or ()
    )
    result = CaseResult(case=KEY, eval_set_id="s", status=CaseStatus.FAILED, execution=Execution(turns=turns))
    return list(aligned_lines(ReportedCase(result, expected_case)))


def test_arguments_are_listed_key_by_key() -> None:
    same = {"room": "hall", "light": {"id": 1, "on": True}}

    assert format_lines(
        [("set", same)], [("set", {"room": "attic", "light": {"id": 1, "on": False}, "now": True})]
    ) == [
        "turn 1: go",
        "    set",
        '  -   room: "hall"',
        '  +   room: "attic"',
        "  -   light.on: true",
        "  +   light.on: false",
        "  +   now: true",
    ]


def test_missing_extra_and_moved_calls_are_labelled() -> None:
    a: Call = ("a", {"x": 1})
    b: Call = ("b", {})
    c: Call = ("c", {})

    assert format_lines([a, b], [b, c, a]) == [
        "turn 1: go",
        "  - a (made as call 3)",
        "  -   x: 1",
        "    b",
        "  + c (not expected)",
        "  + a (expected as call 1)",
        "  +   x: 1",
    ]
    assert format_lines([b, c], [b])[2:] == ["  - c (not made)"]


def test_unknown_calls_are_not_reported_as_missing() -> None:
    assert format_lines([("a", {})], [], responses=("yes", "no"), unknown="it never tells") == [
        "turn 1: go",
        '  - response: "yes"',
        '  + response: "no"',
    ]


def test_absent_arguments_differ_from_empty_arguments() -> None:
    assert format_lines([("set", None)], [("set", {})])[2:] == ["  -   no arguments written (args absent)", "  +   {}"]


def test_responses_are_compared_only_if_one_is_expected() -> None:
    assert format_lines([], [], responses=("It is off.", "It is on.")) == [
        "turn 1: go",
        '  - response: "It is off."',
        '  + response: "It is on."',
    ]
    assert format_lines([], [], responses=("It is off.", None))[-1] == "  + response: (none)"
    assert format_lines([], [], responses=(None, "anything")) == []


def test_long_responses_are_shown_from_their_first_difference() -> None:
    diff_lines = format_lines([], [], responses=("x" * 500 + " off", "x" * 500 + " on"))

    assert [line[-5:] for line in diff_lines[1:]] == [' off"', 'x on"']


@given(st.text(alphabet="a\x1b\x9b\u202e\n\r-+"))
def test_lines_contain_no_terminal_commands(text: str) -> None:
    diff_lines = format_lines([("set", {text: text})], [(text, {"k": [text]})], responses=(text, text + "!"))

    assert not [line for line in diff_lines if any(sign in line for sign in "\x1b\x9b\u202e\n\r")]


def test_an_expected_turn_has_no_lines() -> None:
    call: Calls = [("set", {"x": 1})]

    assert format_lines(call, call, responses=("a", "a")) == []


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_an_unknown_response_of_a_row_is_not_a_missing_response(seconds: float) -> None:
    expected_case = EvalCase.model_validate({"eval_id": "c", "conversation": [invocation([], "a")]})
    actual_case = Invocation.model_validate(invocation([], "") | {"final_response": None})
    turn = TurnResult(invocation=actual_case, duration_seconds=seconds)
    execution = Execution(turns=(turn,), duration_seconds=seconds)
    row = CaseResult(
        case=KEY, eval_set_id="s", status=CaseStatus.FAILED, execution=execution, expected_by_row=expected_case
    )

    is_agent_run = seconds > 0
    assert ("  + response: (none)" in aligned_lines(ReportedCase(row, expected_case))) is is_agent_run
    assert bool(ReportedCase(row, expected_case).differences[0]) is is_agent_run


@pytest.mark.parametrize("has_expected_calls", [True, False])
@pytest.mark.parametrize("has_actual_calls", [True, False])
def test_calls_of_a_row_differ_only_if_both_sides_are_known(has_expected_calls: bool, has_actual_calls: bool) -> None:
    def side(call: str, *, has_calls: bool) -> Any:
        return invocation([(call, {})], call) | ({} if has_calls else {"intermediate_data": None})

    conversation = [side("wanted", has_calls=has_expected_calls)]
    expected_case = EvalCase.model_validate({"eval_id": "c", "conversation": conversation})
    actual_case = EvalCase.model_validate({"eval_id": "c", "conversation": [side("given", has_calls=has_actual_calls)]})
    assert actual_case.conversation is not None
    execution = Execution(turns=(TurnResult(invocation=actual_case.conversation[0], duration_seconds=0.0),))
    status = CaseStatus.FAILED

    row = CaseResult(case=KEY, eval_set_id="s", status=status, execution=execution, expected_by_row=expected_case)
    eval_set_result = row.model_copy(update={"expected_by_row": None})

    assert ("  - wanted (not made)" in aligned_lines(ReportedCase(row, expected_case))) is (
        has_expected_calls and has_actual_calls
    )
    assert ("  + given (not expected)" in aligned_lines(ReportedCase(row, expected_case))) is (
        has_expected_calls and has_actual_calls
    )
    assert (
        "  - wanted (not made)" in aligned_lines(ReportedCase(eval_set_result, expected_case))
    ) is has_expected_calls
    assert (
        "  + given (not expected)" in aligned_lines(ReportedCase(eval_set_result, expected_case))
    ) is has_actual_calls


def test_secret_arguments_are_masked_by_name_at_any_depth() -> None:
    expected = {"password": "pw1", "headers": {"X-Api-Key": "kk1"}, "secret": ["s1", "s2"], "room": "hall"}
    actual = {"password": "pw2", "headers": {"X-Api-Key": "kk1"}, "secret": ["s1", "s3"], "room": "hall"}

    assert format_lines([("set", expected)], [("set", actual)]) == [
        "turn 1: go",
        "    set",
        '  -   password: "[redacted]"',
        '  +   password: "[redacted]"',
        '      headers: {"X-Api-Key": "[redacted]"}',
        '  -   secret[1]: "[redacted]"',
        '  +   secret[1]: "[redacted]"',
        '      room: "hall"',
    ]


def test_secret_arguments_of_extra_calls_are_masked_by_name() -> None:
    args = {"authorization": "Bearer abc", "api_key": "kk9", "headers": {"Proxy-Authorization": "pp2"}, "pin": 1}

    assert format_lines([], [("f", args)]) == [
        "turn 1: go",
        "  + f (not expected)",
        '  +   authorization: "[redacted]"',
        '  +   api_key: "[redacted]"',
        '  +   headers: {"Proxy-Authorization": "[redacted]"}',
        "  +   pin: 1",
    ]
