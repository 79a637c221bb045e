"""Judging a case: no criterion costs another one, nothing is ignored, both denominators are kept."""

from __future__ import annotations

from typing import Any

from workbench.model.criteria import default_config
from workbench.model.evalset import EvalCase
from workbench.model.results import Failure, FailureKind, MetricStatus, decide_case_status

FAILURE = Failure(kind=FailureKind.AGENT, message="boom", turn=1)


async def test_the_default_criteria_judge(judge: Any, turn: Any) -> None:
    judged = await judge(default_config(), actual=[turn("hello", ["f"])], expected=[turn("hello", ["f"])])

    assert list(judged)[:2] == ["tool_trajectory_avg_score", "response_match_score"]
    assert [result.status for result in judged.values()][:2] == [MetricStatus.PASSED] * 2


async def test_criteria_that_slipped_through_the_check_are_errors(config: Any, judge: Any, turn: Any) -> None:
    criteria = config({"exact_mach": 1, "rouge_1": {"stemer": True}}, check=False)

    judged = await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    assert {judged[name].status for name in ("exact_mach", "rouge_1")} == {MetricStatus.ERROR}


async def test_finished_turns_are_scored_although_a_later_one_failed(config: Any, judge: Any, turn: Any) -> None:
    criteria = config({"tool_trajectory_avg_score": 1.0, "rouge_1": 0.5, "exact_match": 1})
    expected = [turn("a", ["f"]), turn("b", ["g"])]

    judged = await judge(criteria, actual=[turn("a", ["f"])], expected=expected, failure=FAILURE)

    for name in ("tool_trajectory_avg_score", "rouge_1", "exact_match"):
        result = judged[name]
        assert (result.score, result.scored, result.total) == (1.0, 1, 2)
        assert result.per_invocation[1].reason == "the turn was not finished"


async def test_no_finished_turn_means_no_score_and_a_reason(judge: Any, turn: Any) -> None:
    judged = await judge(default_config(), actual=[], expected=[turn("a")], failure=FAILURE)

    assert judged["response_match_score"].status is MetricStatus.UNDEFINED
    assert judged["response_match_score"].reason == "the turn was not finished"


async def test_an_empty_conversation_is_undefined(judge: Any) -> None:
    judged = await judge(default_config(), actual=[])

    assert judged["tool_trajectory_avg_score"].reason == "the case has no turns"
    assert decide_case_status(judged.values()) == "NOT_EVALUATED"


async def test_a_simulated_conversation_has_no_reference(config: Any, judge: Any, turn: Any) -> None:
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk"}
    case = EvalCase.model_validate({"eval_id": "a", "conversation_scenario": scenario})
    criteria = config({"rouge_1": 1, "trajectory_recall": 1, "trajectory_single_tool_use": {"tool_name": "f"}})

    judged = await judge(criteria, actual=[turn("a", ["f"])], case=case)

    reason = "a conversation with a simulated user has no expected turns"
    assert judged["rouge_1"].reason == judged["trajectory_recall"].reason == reason
    assert judged["trajectory_single_tool_use"].score == 1.0


async def test_arguments_nested_beyond_measure_cost_only_their_metric(config: Any, judge: Any, turn: Any) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    actual = turn("a", [("f", {"x": 1})])
    actual.intermediate_data.tool_uses[0].args["x"] = deep

    criteria = config({"trajectory_recall": 1, "exact_match": 1})
    try:
        judged = await judge(criteria, actual=[actual], expected=[turn("a", ["f"])])
    finally:
        while deep:  # freed one by one, so that freeing does not recurse
            deep = deep.pop("a")

    assert judged["trajectory_recall"].status is MetricStatus.ERROR
    assert judged["exact_match"].status is MetricStatus.PASSED
