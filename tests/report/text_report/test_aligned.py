"""Expected and actual as lines of a diff."""

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
    said = None if response is None else {"role": "model", "parts": [{"text": response}]}
    return {
        "user_content": {"role": "user", "parts": [{"text": "go"}]},
        "final_response": said,
        "intermediate_data": {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
    }


def lines(
    expected: Calls, actual: Calls, *, says: tuple[str | None, str | None] = (None, None), unknown: str | None = None
) -> list[str]:
    wanted = EvalCase.model_validate({"eval_id": "c", "conversation": [invocation(expected, says[0])]})
    given_ = EvalCase.model_validate({"eval_id": "c", "conversation": [invocation(actual, says[1])]})
    turns = tuple(
        TurnResult(invocation=turn, duration_seconds=0.0, calls_unknown=unknown) for turn in given_.conversation or ()
    )
    result = CaseResult(case=KEY, eval_set_id="s", status=CaseStatus.FAILED, execution=Execution(turns=turns))
    return list(aligned_lines(ReportedCase(result, wanted)))


def test_arguments_stand_below_each_other_key_by_key() -> None:
    same = {"room": "hall", "light": {"id": 1, "on": True}}

    assert lines([("set", same)], [("set", {"room": "attic", "light": {"id": 1, "on": False}, "now": True})]) == [
        "turn 1: go",
        "    set",
        '  -   room: "hall"',
        '  +   room: "attic"',
        "  -   light.on: true",
        "  +   light.on: false",
        "  +   now: true",
    ]


def test_calls_that_one_side_has_or_has_elsewhere_say_so() -> None:
    a: Call = ("a", {"x": 1})
    b: Call = ("b", {})
    c: Call = ("c", {})

    assert lines([a, b], [b, c, a]) == [
        "turn 1: go",
        "  - a (made as call 3)",
        "  -   x: 1",
        "    b",
        "  + c (not expected)",
        "  + a (expected as call 1)",
        "  +   x: 1",
    ]
    assert lines([b, c], [b])[2:] == ["  - c (not made)"]


def test_of_calls_that_nobody_knows_none_is_said_not_to_be_made() -> None:
    assert lines([("a", {})], [], says=("yes", "no"), unknown="it never tells") == [
        "turn 1: go",
        '  - response: "yes"',
        '  + response: "no"',
    ]


def test_arguments_that_are_not_written_are_not_empty_ones() -> None:
    assert lines([("set", None)], [("set", {})])[2:] == ["  -   no arguments written (args absent)", "  +   {}"]


def test_responses_are_compared_where_one_is_expected() -> None:
    assert lines([], [], says=("It is off.", "It is on.")) == [
        "turn 1: go",
        '  - response: "It is off."',
        '  + response: "It is on."',
    ]
    assert lines([], [], says=("It is off.", None))[-1] == "  + response: (none)"
    assert lines([], [], says=(None, "anything")) == []


def test_long_responses_are_shown_from_where_they_part() -> None:
    shown = lines([], [], says=("x" * 500 + " off", "x" * 500 + " on"))

    assert [line[-5:] for line in shown[1:]] == [' off"', 'x on"']


@given(st.text(alphabet="a\x1b\x9b\u202e\n\r-+"))
def test_nothing_in_it_commands_a_terminal(text: str) -> None:
    shown = lines([("set", {text: text})], [(text, {"k": [text]})], says=(text, text + "!"))

    assert not [line for line in shown if any(sign in line for sign in "\x1b\x9b\u202e\n\r")]


def test_what_is_as_expected_is_left_out() -> None:
    call: Calls = [("set", {"x": 1})]

    assert lines(call, call, says=("a", "a")) == []


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_response_that_a_row_does_not_tell_was_not_withheld_by_an_agent(seconds: float) -> None:
    wanted = EvalCase.model_validate({"eval_id": "c", "conversation": [invocation([], "a")]})
    done = Invocation.model_validate(invocation([], "") | {"final_response": None})
    turn = TurnResult(invocation=done, duration_seconds=seconds)
    execution = Execution(turns=(turn,), duration_seconds=seconds)
    row = CaseResult(case=KEY, eval_set_id="s", status=CaseStatus.FAILED, execution=execution, expected_by_row=wanted)

    asked = seconds > 0
    assert ("  + response: (none)" in aligned_lines(ReportedCase(row, wanted))) is asked
    assert bool(ReportedCase(row, wanted).differences[0]) is asked


@pytest.mark.parametrize("expects", [True, False])
@pytest.mark.parametrize("tells", [True, False])
def test_of_a_row_calls_differ_only_where_both_sides_tell_of_them(expects: bool, tells: bool) -> None:
    def side(call: str, *, has_calls: bool) -> Any:
        return invocation([(call, {})], call) | ({} if has_calls else {"intermediate_data": None})

    conversation = [side("wanted", has_calls=expects)]
    wanted = EvalCase.model_validate({"eval_id": "c", "conversation": conversation})
    done = EvalCase.model_validate({"eval_id": "c", "conversation": [side("given", has_calls=tells)]})
    assert done.conversation is not None
    execution = Execution(turns=(TurnResult(invocation=done.conversation[0], duration_seconds=0.0),))
    status = CaseStatus.FAILED

    row = CaseResult(case=KEY, eval_set_id="s", status=status, execution=execution, expected_by_row=wanted)
    of_eval_set = row.model_copy(update={"expected_by_row": None})

    assert ("  - wanted (not made)" in aligned_lines(ReportedCase(row, wanted))) is (expects and tells)
    assert ("  + given (not expected)" in aligned_lines(ReportedCase(row, wanted))) is (expects and tells)
    assert ("  - wanted (not made)" in aligned_lines(ReportedCase(of_eval_set, wanted))) is expects
    assert ("  + given (not expected)" in aligned_lines(ReportedCase(of_eval_set, wanted))) is tells


def test_arguments_are_masked_by_their_names_at_any_depth() -> None:
    expected = {"password": "pw1", "headers": {"X-Api-Key": "kk1"}, "secret": ["s1", "s2"], "room": "hall"}
    actual = {"password": "pw2", "headers": {"X-Api-Key": "kk1"}, "secret": ["s1", "s3"], "room": "hall"}

    assert lines([("set", expected)], [("set", actual)]) == [
        "turn 1: go",
        "    set",
        '  -   password: "[redacted]"',
        '  +   password: "[redacted]"',
        '      headers: {"X-Api-Key": "[redacted]"}',
        '  -   secret[1]: "[redacted]"',
        '  +   secret[1]: "[redacted]"',
        '      room: "hall"',
    ]


def test_arguments_of_calls_that_one_side_has_are_masked_by_their_names() -> None:
    args = {"authorization": "Bearer abc", "api_key": "kk9", "headers": {"Proxy-Authorization": "pp2"}, "pin": 1}

    assert lines([], [("f", args)]) == [
        "turn 1: go",
        "  + f (not expected)",
        '  +   authorization: "[redacted]"',
        '  +   api_key: "[redacted]"',
        '  +   headers: {"Proxy-Authorization": "[redacted]"}',
        "  +   pin: 1",
    ]
