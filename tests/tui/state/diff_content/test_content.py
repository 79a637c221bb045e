"""Expected beside actual."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tui.state.differences import make_difference, render
from workbench.model.results import (
    CaseStatus,
    ConversationEnd,
    Failure,
    FailureKind,
    InvocationScore,
    MetricResult,
    MetricStatus,
    SimulatedConversation,
)
from workbench.tui.state.diff_content import make_diff
from workbench.tui.state.diff_lines import DiffSource, Level
from workbench.tui.state.diff_state import DiffState, lay_out_diff
from workbench.tui.state.text_layout import Style, render_blocks


def make_blocks(case: Any, **source: Any) -> Any:
    return make_diff(DiffSource(case=case, **source)).blocks


def render_comparison(make: Any, expected: dict[str, Any], actual: dict[str, Any], **more: Any) -> list[str]:
    result = make.result(make.key("a"), CaseStatus.FAILED, actual, metrics=[])
    return render(make_blocks(make.case("a", expected), turns=result.execution.turns, result=result), **more)


def test_unknown_calls_are_shown_as_an_error(make: Any) -> None:
    result = make.result(make.key("a"), CaseStatus.FAILED, make.turn("Hi", "Hello"), metrics=[])
    turns = tuple(
        turn.model_copy(update={"calls_unknown": "no span arrived\x1b[2J"}) for turn in result.execution.turns
    )

    lines = render(make_blocks(make.case("a", make.turn("Hi", "Hello")), turns=turns, result=result))

    assert any("tool calls are unknown: no span arrived" in line and "\x1b" not in line for line in lines)


def test_an_agent_without_call_reports_passes_a_turn_without_expected_calls(make: Any) -> None:
    message = [make.turn("Hi", "Hello"), make.turn("Bye", "Gone")]
    result = make.result(make.key("a"), CaseStatus.FAILED, *message, metrics=[])
    turns = tuple(
        turn.model_copy(
            update={
                "calls_unknown": "it never tells",
                "invocation": turn.invocation.model_copy(update={"intermediate_data": None}),
            }
        )
        for turn in result.execution.turns
    )

    case = make.case("a", message[0], make.turn("Bye", "Farewell"))
    lines = render(make_blocks(case, turns=turns, result=result, level=Level.FOLDED))

    assert lines[0] == "turn 1 · user  Hi  as expected (calls unknown)"
    assert lines[2:6] == [
        "turn 2 · user  Bye",
        "  EXPECTED                        │   ACTUAL",
        "  calls unknown",
        "- Farewell                        │ + Gone",
    ]


def test_unknown_calls_are_not_shown_as_missing(make: Any) -> None:
    result = make.result(make.key("a"), CaseStatus.FAILED, make.turn("Hi", "Hello"), metrics=[])
    turns = tuple(turn.model_copy(update={"calls_unknown": "no span arrived"}) for turn in result.execution.turns)

    lines = render(make_blocks(make.case("a", make.turn("Hi", "Hello", ("greet", {}))), turns=turns, result=result))

    assert lines == [
        "turn 1 · user  Hi",
        "  EXPECTED                        │   ACTUAL",
        "  tool calls are unknown: no span arrived",
        "  greet                           │",
        "  Hello                           │   Hello",
        "",
    ]


def test_arguments_are_compared_key_by_key(make: Any) -> None:
    expected = make.turn("Turn it off", "Done.", ("set", {"where": "Bedroom", "id": "d2", "old": 1}))
    actual = make.turn("Turn it off", "Done!", ("set", {"where": "Bedroom", "id": "d3", "new": None}))

    assert render_comparison(make, expected, actual) == [
        "turn 1 · user  Turn it off",
        "  EXPECTED                        │   ACTUAL",
        "  set                             │   set",
        '    where  "Bedroom"              │     where  "Bedroom"',
        '-   id  "d2"                      │ +   id  "d3"',
        "-   old  1                        │",
        "                                  │ +   new  null",
        "- Done.                           │ + Done!",
        "",
    ]


def test_only_the_difference_inside_a_nested_argument_is_marked(make: Any) -> None:
    expected = make.turn("Go", None, ("plan", {"at": {"from": 23, "to": 8}, "days": [1, 2]}))
    actual = make.turn("Go", None, ("plan", {"at": {"from": 23, "to": 9}, "days": [1, 2]}))

    assert render_comparison(make, expected, actual, side_by_side=False) == [
        "turn 1 · user  Go",
        "- EXPECTED  + ACTUAL",
        "  plan",
        "    at",
        "      from  23",
        "-     to  8",
        "+     to  9",
        "    days  [1, 2]",
        "",
    ]


def test_missing_unexpected_and_moved_calls_are_labelled(make: Any) -> None:
    expected = make.turn("Go", None, ("a", {}), ("b", {"n": 1}), ("c", {}))
    actual = make.turn("Go", None, ("b", {"n": 1}), ("a", {}), ("d", {}))

    lines = "\n".join(render_comparison(make, expected, actual))

    assert "- c (not made)" in lines
    assert "+ d (not expected)" in lines
    assert "(made as call 2)" in lines
    assert "(expected as call 1)" in lines


def test_a_case_that_has_not_run_shows_its_expectation(make: Any) -> None:
    case = make.case("a", make.turn("Go", "Gone.", ("go", {})))

    assert render(make_blocks(case, turns=(), result=None)) == [
        "turn 1 · user  Go",
        "  EXPECTED                        │   ACTUAL (none yet)",
        "  go                              │",
        "  Gone.                           │",
        "",
    ]


def test_a_failure_comes_first_with_the_end_of_stderr_and_without_secrets(make: Any) -> None:
    failure = Failure(
        kind=FailureKind.AGENT,
        message="KeyError: 'lamp'",
        turn=1,
        traceback="Traceback ...\n  agent.py:3",
        stderr_tail="api_key=supersecretvalue\n\x1b[31mred",
    )
    case = make.case("a", make.turn("One", "1"), make.turn("Two", "2"))
    result = make.result(make.key("a"), CaseStatus.ERROR, make.turn("One", "1"), failure=failure, metrics=[])

    lines = render(make_blocks(case, turns=result.execution.turns, result=result))

    assert lines[:6] == [
        "! agent error at turn 2  KeyError: 'lamp'",
        "traceback",
        "  Traceback ...",
        "    agent.py:3",
        "stderr, its end",
        "  api_key=[redacted]",
    ]
    assert "  the agent did not finish this turn" in lines
    assert "  ␛[31mred" in lines


def test_an_unreadable_case_is_not_reported_as_unfinished(make: Any) -> None:
    failure = Failure(kind=FailureKind.FILE, message="rows.jsonl:3:1: is not JSON")
    case = make.case("a", make.turn("One", "1"))
    result = make.result(make.key("a"), CaseStatus.ERROR, failure=failure, metrics=[])

    lines = render(make_blocks(case, result=result))

    assert lines[0] == "! file error  rows.jsonl:3:1: is not JSON"
    assert "did not finish" not in "\n".join(lines)


def test_criteria_that_decide_show_score_threshold_reason_hint_and_turns(make: Any) -> None:
    metrics = [
        MetricResult(
            name="response_match_score",
            score=0.5,
            threshold=0.8,
            status=MetricStatus.FAILED,
            hint="both texts are short",
            per_invocation=(InvocationScore(score=1.0), InvocationScore(score=None, reason="no words")),
        ),
        MetricResult(name="bleu", score=None, threshold=0.5, status=MetricStatus.UNDEFINED, reason="0/0"),
        MetricResult(name="latency", score=0.5, threshold=None, status=MetricStatus.INFORMATIONAL),
    ]
    result = make.result(make.key("a"), CaseStatus.FAILED, metrics=metrics)

    assert render(make_blocks(make.case("a"), turns=(), result=result)) == [
        "scores",
        "  ✗ response_match_score  0.50 < 0.80",
        "    hint  both texts are short",
        "    turn 1  1.00",
        "    turn 2  no score  no words",
        "  ? bleu  no score",
        "    why  0/0",
    ]


def test_a_conversation_with_a_simulated_user_has_the_whole_width(make: Any) -> None:
    result = make.result(make.key("a"), CaseStatus.PASSED, make.turn("Hi", "Hello", ("find", {"n": 1})), metrics=[])
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Greet and leave."}
    case = make.case("a").model_validate({"eval_id": "a", "conversation_scenario": scenario})
    simulation = SimulatedConversation(model="gemini-x", end=ConversationEnd.LIMIT, limit=1, calls=3, cached=1)
    played = result.model_copy(update={"execution": result.execution.model_copy(update={"simulation": simulation})})

    lines = render(make_blocks(case, turns=result.execution.turns, result=played))

    assert "  plan  Greet and leave." in lines
    assert "  played by  gemini-x, 3 answers, 1 of them cached" in lines
    assert not any("EXPECTED" in line for line in lines)
    assert 'ƒ find {"n": 1}' in "\n".join(lines)
    assert "agent  Hello" in lines
    assert any("stopped at the limit of 1 turn" in line for line in lines)


def test_the_final_state_is_compared_if_one_is_expected(make: Any) -> None:
    case = make.case("a", make.turn("Hi", "Hello"), final_session_state={"lamp": {"on": True}})
    result = make.result(make.key("a"), CaseStatus.FAILED, make.turn("Hi", "Hello"), metrics=[])

    lines = "\n".join(render(make_blocks(case, turns=result.execution.turns, result=result)))

    assert "final session state" in lines
    assert '-   lamp  {"on": true}' in lines


def test_items_of_lists_that_look_alike_are_still_compared(make: Any) -> None:
    expected = {"users": [{"password": "aaa"}, {"password": "bbb"}]}
    case = make.case("a", make.turn("Hi", "Hello"), final_session_state=expected)
    result = make.result(make.key("a"), CaseStatus.FAILED, make.turn("Hi", "Hello"), metrics=[])
    execution = result.execution.model_copy(
        update={"final_state": {"users": [{"password": "aaa"}, {"password": "xxx"}, {"password": "yyy"}]}}
    )
    result = result.model_copy(update={"execution": execution})

    lines = render(make_blocks(case, turns=result.execution.turns, result=result), width=110)
    assert not any(secret in "".join(lines) for secret in ("aaa", "bbb", "xxx", "yyy"))
    rows = [line for line in lines if "redacted" in line]
    assert [("-" in row.split("│")[0], "+" in row) for row in rows] == [(False, False), (True, True), (False, True)]


def test_equal_numbers_in_lists_are_no_difference(make: Any) -> None:
    expected, actual = (make.turn("Go", "x", ("f", {"n": numbers})) for numbers in ([1, 2], [1.0, 2, 3]))

    lines = render(make_difference(make, expected, actual).blocks, width=100)

    at = next(index for index, line in enumerate(lines) if "[0]" in line)
    assert [line.split()[0] for line in lines[at : at + 2]] == ["[0]", "[1]"]
    assert "+" in lines[at + 2]


def test_turns_as_expected_are_folded_and_differences_can_be_shown_alone(make: Any) -> None:
    same = make.turn("Hello", "Hi.", ("greet", {}))
    expected = make.turn("Go", "Gone.", ("a", {}), ("b", {"n": 1, "same": [1, 2]}))
    actual = make.turn("Go", "Gone.", ("a", {}), ("b", {"n": 2, "same": [1, 2]}))

    folded = render(make_difference(make, [same, expected], [same, actual], level=Level.FOLDED).blocks)
    alone = render(make_difference(make, [same, expected], [same, actual], level=Level.DIFFERENCES).blocks)

    assert folded[0] == "turn 1 · user  Hello  as expected (1 call)"
    assert any("same" in line for line in folded)
    assert [line for line in alone if "…" in line] == [
        "  … 1 call as expected",
        "    … 1 argument as expected",
        "  … the response is as expected",
    ]


def test_a_case_without_differences_is_never_folded_completely(make: Any) -> None:
    turn = make.turn("Hello", "Hi.", ("greet", {}))

    assert "Hi." in "\n".join(render(make_difference(make, [turn, turn], [turn, turn], level=Level.DIFFERENCES).blocks))


def test_changed_words_are_highlighted_if_most_words_are_equal(make: Any) -> None:
    diff = make_difference(make, make.turn("Go", "I turned the lamp off."), make.turn("Go", "I turned the stove off."))

    words = {
        piece.style: piece.text
        for line in render_blocks(diff.blocks, width=90, side_by_side=True)
        for piece in line
        if piece.style in (Style.REMOVED_WORD, Style.ADDED_WORD)
    }
    assert words == {Style.REMOVED_WORD: "lamp", Style.ADDED_WORD: "stove"}
    others = {
        piece.style
        for line in render_blocks(diff.blocks, width=90, side_by_side=True)
        for piece in line
        if "turned" in piece.text
    }
    assert others == {Style.TEXT}


def test_items_of_lists_are_aligned(make: Any) -> None:
    before = ["milk", "butter", "bread", {"name": "eggs", "count": 6}]
    after = ["milk", "bread", {"name": "eggs", "count": 3}, "salt", "oil"]

    diff = make_difference(
        make, make.turn("Go", "x", ("order", {"items": before})), make.turn("Go", "x", ("order", {"items": after}))
    )

    lines = render(diff.blocks, width=100)
    at = next(index for index, line in enumerate(lines) if "items" in line)
    rows = [[side.strip() for side in line.split("│")] for line in lines[at : at + 7]]
    assert rows == [
        ["items", "items"],
        ['[0]  "milk"', '[0]  "milk"'],
        ['-     [1]  "butter"', ""],
        ['[2]  "bread"', '[1]  "bread"'],
        ['-     [3]  {"name": "eggs", "count": 6}', '+     [2]  {"name": "eggs", "count": 3}'],
        ["", '+     [3]  "salt"'],
        ["", '+     [4]  "oil"'],
    ]
    assert len(diff.hunks) == 1 and {diff.owners[index] for index in range(len(diff.owners))} == {None, 0}


def test_long_runs_of_equal_items_are_counted_if_only_differences_are_shown(make: Any) -> None:
    numbers = list(range(2_000))

    def draw(count: int, level: Level) -> str:
        before, after = ({"n": numbers[:count]}, {"n": [*numbers[:count], "x"]})
        expected, actual = (make.turn("Go", "x", ("f", args)) for args in (before, after))
        return "\n".join(render(make_difference(make, expected, actual, level=level).blocks, width=100))

    assert "… 100 items as expected" in draw(100, Level.DIFFERENCES)
    assert "[99]  99" in draw(100, Level.EVERYTHING)
    assert "items as expected" not in draw(2_000, Level.DIFFERENCES)  # too long to be aligned


def test_texts_of_sub_agents_and_tool_responses_are_compared_if_expected(make: Any) -> None:
    def turn(said: str, gave: int) -> dict[str, Any]:
        data = make.turn("Go", "Gone.", ("a", {}))
        data["intermediate_data"]["tool_responses"] = [{"name": "a", "response": {"n": gave}}]
        data["intermediate_data"]["intermediate_responses"] = [["cook", [{"text": said}]]]
        return data

    lines = "\n".join(render(make_difference(make, turn("One moment.", 1), turn("Two moments.", 2)).blocks))

    assert '-   gave  {"n": 1}' in lines
    assert '+   gave  {"n": 2}' in lines
    assert "- cook  One moment." in lines
    assert "cook  Two moments." in lines


def test_a_thousand_calls_and_a_response_of_200_kB_are_compared_completely(make: Any) -> None:
    calls = [(f"call_{number % 7}", {"n": number, "deep": {"a": [number]}}) for number in range(1_000)]
    expected = make.turn("Go", "a word " * 30_000, *calls)
    actual = make.turn("Go", "a word " * 29_000 + "b" + " a word" * 1_000, *calls[:500], *calls[510:])

    diff = make_difference(make, expected, actual)

    assert [h.difference.kind.value for h in diff.hunks] == ["call_missing"] * 10 + ["response_changed"]


def test_lines_know_their_difference_and_the_mark_is_drawn_at_the_current_one(make: Any) -> None:
    expected = make.turn("Go", "a", ("f", {"n": 1, "m": 2}))
    diff = make_difference(make, expected, make.turn("Go", "b", ("f", {"n": 3, "m": 4})))

    lines = lay_out_diff(diff, width=60, side_by_side=True)
    marked = [index for index, line in enumerate(lines.with_cursor(1)) if line[0].text == "▌"]

    assert lines.find_lines(1) == (marked[0], marked[-1])
    assert "m  2" in "".join(piece.text for piece in lines[marked[0]])
    assert lines.find_lines(7) is None


def test_frames_of_libraries_are_folded(make: Any) -> None:
    library = 'File "/venv/lib/python3.11/site-packages/google/adk/runners.py", line 5, in run\n    step()'
    traceback = f'Traceback (most recent call last):\n  {library}\n  File "/home/me/agent.py", line 3, in look_up'
    failure = Failure(kind=FailureKind.AGENT, message="no", traceback=traceback)
    result = make.result(make.key("a"), CaseStatus.ERROR, failure=failure, metrics=[])

    lines = render(make_blocks(make.case("a", make.turn("hi", "hello")), result=result))

    start = lines.index("traceback  W or enter shows all frames")
    assert lines[start + 1 : start + 4] == [
        "  Traceback (most recent call last):",
        "    … 1 frame in google.adk",
        '    File "/home/me/agent.py", line 3, in look_up',
    ]


def test_the_whole_text_has_all_frames(make: Any) -> None:
    library = 'File "/venv/lib/python3.11/site-packages/google/adk/runners.py", line 5, in run'
    traceback = f'Traceback (most recent call last):\n  {library}\n  File "/home/me/agent.py", line 3, in look_up'
    failure = Failure(kind=FailureKind.AGENT, message="no", traceback=traceback)
    result = make.result(make.key("a"), CaseStatus.ERROR, failure=failure, metrics=[])
    source = DiffSource(case=make.case("a", make.turn("hi", "hello")), result=result, most=None)

    lines = render(make_diff(source).blocks, width=120)

    assert "traceback" in lines and f"    {library}" in lines


@pytest.mark.parametrize("status", [CaseStatus.CANCELLED, CaseStatus.SKIPPED])
def test_a_case_that_did_not_run_is_not_reported_as_equal(make: Any, status: CaseStatus) -> None:
    state = DiffState()
    source = DiffSource(case=make.case("a", make.turn("hi", "hello")), result=make.result(make.key("a"), status))
    state.show(source, make_diff(source), about="a")

    (message,) = state.status(80)

    assert message.text == f"{status.value.lower()}: there is nothing to compare"
