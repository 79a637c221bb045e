"""Judging a case: criteria are independent, none is ignored, and both denominators are stored."""

from __future__ import annotations

from typing import Any

from workbench.model.criteria import default_config
from workbench.model.evalset import EvalCase
from workbench.model.results import Failure, FailureKind, MetricStatus, decide_case_status

FAILURE = Failure(kind=FailureKind.AGENT, message="boom", turn=1)


async def test_the_default_criteria_give_verdicts(judge: Any, turn: Any) -> None:
    results = await judge(default_config(), actual=[turn("hello", ["f"])], expected=[turn("hello", ["f"])])

    assert list(results)[:2] == ["tool_trajectory_avg_score", "response_match_score"]
    assert [result.status for result in results.values()][:2] == [MetricStatus.PASSED] * 2


async def test_invalid_criteria_that_were_not_checked_are_errors(config: Any, judge: Any, turn: Any) -> None:
    criteria = config({"exact_mach": 1, "rouge_1": {"stemer": True}}, check=False)

    results = await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    assert {results[name].status for name in ("exact_mach", "rouge_1")} == {MetricStatus.ERROR}


async def test_finished_turns_are_scored_if_a_later_turn_fails(config: Any, judge: Any, turn: Any) -> None:
    criteria = config({"tool_trajectory_avg_score": 1.0, "rouge_1": 0.5, "exact_match": 1})
    expected = [turn("a", ["f"]), turn("b", ["g"])]

    results = await judge(criteria, actual=[turn("a", ["f"])], expected=expected, failure=FAILURE)

    for name in ("tool_trajectory_avg_score", "rouge_1", "exact_match"):
        result = results[name]
        assert (result.score, result.scored, result.total) == (1.0, 1, 2)
        assert result.per_invocation[1].reason == "the turn was not finished"


async def test_a_case_without_a_finished_turn_has_a_reason_and_no_score(judge: Any, turn: Any) -> None:
    results = await judge(default_config(), actual=[], expected=[turn("a")], failure=FAILURE)

    assert results["response_match_score"].status is MetricStatus.UNDEFINED
    assert results["response_match_score"].reason == "the turn was not finished"


async def test_an_empty_conversation_is_undefined(judge: Any) -> None:
    results = await judge(default_config(), actual=[])

    assert results["tool_trajectory_avg_score"].reason == "the case has no turns"
    assert decide_case_status(results.values()) == "NOT_EVALUATED"


async def test_a_simulated_conversation_has_no_reference(config: Any, judge: Any, turn: Any) -> None:
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk"}
    case = EvalCase.model_validate({"eval_id": "a", "conversation_scenario": scenario})
    criteria = config({"rouge_1": 1, "trajectory_recall": 1, "trajectory_single_tool_use": {"tool_name": "f"}})

    results = await judge(criteria, actual=[turn("a", ["f"])], case=case)

    reason = "a conversation with a simulated user has no expected turns"
    assert results["rouge_1"].reason == results["trajectory_recall"].reason == reason
    assert results["trajectory_single_tool_use"].score == 1.0


async def test_extremely_nested_arguments_are_an_error_of_their_metric_only(config: Any, judge: Any, turn: Any) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    actual = turn("a", [("f", {"x": 1})])
    actual.intermediate_data.tool_uses[0].args["x"] = deep

    criteria = config({"trajectory_recall": 1, "exact_match": 1})
    try:
        results = await judge(criteria, actual=[actual], expected=[turn("a", ["f"])])
    finally:
        while deep:  # free one level at a time, so that freeing does not recurse
            deep = deep.pop("a")

    assert results["trajectory_recall"].status is MetricStatus.ERROR
    assert results["exact_match"].status is MetricStatus.PASSED
