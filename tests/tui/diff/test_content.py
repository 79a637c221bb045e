"""Expected beside actual."""

from __future__ import annotations

from typing import Any

from workbench.model.results import CaseStatus, Failure, FailureKind, InvocationScore, MetricResult, MetricStatus
from workbench.tui.state.blocks import Block
from workbench.tui.state.diff.content import case_blocks
from workbench.tui.state.layout import lay_out


def _shown(blocks: Any, *, width: int = 70, side_by_side: bool = True) -> list[str]:
    found: list[Block] = list(blocks)
    return [
        "".join(piece.text for piece in line).rstrip()
        for line in lay_out(found, width=width, side_by_side=side_by_side)
    ]


def _compared(make: Any, expected: dict[str, Any], actual: dict[str, Any], **more: Any) -> list[str]:
    result = make.result(make.key("a"), CaseStatus.FAILED, actual, metrics=[])
    return _shown(case_blocks(make.case("a", expected), turns=result.execution.turns, result=result), **more)


def test_arguments_are_compared_key_by_key(make: Any) -> None:
    expected = make.turn("Turn it off", "Done.", ("set", {"where": "Bedroom", "id": "d2", "old": 1}))
    actual = make.turn("Turn it off", "Done!", ("set", {"where": "Bedroom", "id": "d3", "new": None}))

    assert _compared(make, expected, actual) == [
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


def test_only_what_differs_inside_a_nested_argument_is_marked(make: Any) -> None:
    expected = make.turn("Go", None, ("plan", {"at": {"from": 23, "to": 8}, "days": [1, 2]}))
    actual = make.turn("Go", None, ("plan", {"at": {"from": 23, "to": 9}, "days": [1, 2]}))

    assert _compared(make, expected, actual, side_by_side=False) == [
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


def test_calls_that_were_not_made_not_expected_or_made_elsewhere_say_so(make: Any) -> None:
    expected = make.turn("Go", None, ("a", {}), ("b", {"n": 1}), ("c", {}))
    actual = make.turn("Go", None, ("b", {"n": 1}), ("a", {}), ("d", {}))

    shown = "\n".join(_compared(make, expected, actual))

    assert "- c (not made)" in shown
    assert "+ d (not expected)" in shown
    assert "(made as call 2)" in shown
    assert "(expected as call 1)" in shown


def test_a_case_that_has_not_run_shows_what_is_expected(make: Any) -> None:
    case = make.case("a", make.turn("Go", "Gone.", ("go", {})))

    assert _shown(case_blocks(case, turns=(), result=None)) == [
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

    shown = _shown(case_blocks(case, turns=result.execution.turns, result=result))

    assert shown[:6] == [
        "! agent error at turn 2  KeyError: 'lamp'",
        "traceback",
        "  Traceback ...",
        "    agent.py:3",
        "stderr, its end",
        "  api_key=[redacted]",
    ]
    assert "  the agent did not finish this turn" in shown
    assert "  ␛[31mred" in shown


def test_metrics_show_score_threshold_reason_hint_and_turns(make: Any) -> None:
    metrics = [
        MetricResult(
            name="response_match_score",
            score=0.5,
            threshold=0.8,
            status=MetricStatus.FAILED,
            hint="both texts are short",
            per_invocation=(InvocationScore(score=1.0), InvocationScore(score=None, reason="no words")),
        ),
        MetricResult(name="bleu", score=None, threshold=None, status=MetricStatus.UNDEFINED, reason="0/0"),
    ]
    result = make.result(make.key("a"), CaseStatus.FAILED, metrics=metrics)

    assert _shown(case_blocks(make.case("a"), turns=(), result=result)) == [
        "scores",
        "  ✗ failed  response_match_score  0.5  threshold 0.8",
        "    hint  both texts are short",
        "    turn 1  1",
        "    turn 2  no score  no words",
        "  ? undefined  bleu  no score",
        "    why  0/0",
    ]


def test_turns_that_were_not_expected_are_shown_too(make: Any) -> None:
    result = make.result(make.key("a"), CaseStatus.PASSED, make.turn("Hi", "Hello"), metrics=[])
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Greet and leave."}
    case = make.case("a").model_validate({"eval_id": "a", "conversation_scenario": scenario})

    shown = _shown(case_blocks(case, turns=result.execution.turns, result=result))

    assert "  plan  Greet and leave." in shown
    assert any("EXPECTED (nothing)" in line for line in shown)
    assert any(line.endswith("Hello") for line in shown)


def test_the_final_state_is_compared_where_one_is_expected(make: Any) -> None:
    case = make.case("a", make.turn("Hi", "Hello"), final_session_state={"lamp": {"on": True}})
    result = make.result(make.key("a"), CaseStatus.FAILED, make.turn("Hi", "Hello"), metrics=[])

    shown = "\n".join(_shown(case_blocks(case, turns=result.execution.turns, result=result)))

    assert "final session state" in shown
    assert '-   lamp  {"on": true}' in shown
