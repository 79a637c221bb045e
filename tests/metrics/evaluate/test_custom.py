"""Custom metrics: what the worker is asked, and what its answers become."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.agents.agent_host import AgentError, CustomScoreAnswer, CustomScoreRequest
from workbench.metrics.registry import check_criteria
from workbench.model.criteria import read_config
from workbench.model.evalset import EvalCase
from workbench.model.results import Failure, FailureKind, InvocationScore, MetricStatus

CUSTOM = {"mine": {"code_config": {"name": "checks.mine"}}}


@pytest.fixture
def answer(config: Any, judge: Any, services: Any, turn: Any) -> Any:
    async def run(answer: CustomScoreAnswer, *, threshold: float | None = 0.5) -> Any:
        services.function = lambda request: answer
        criteria = config({"mine": threshold, "exact_match": 1}, custom=CUSTOM)
        return await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    return run


async def test_the_function_gets_the_case(config: Any, judge: Any, services: Any, turn: Any) -> None:
    asked: list[CustomScoreRequest] = []
    services.function = lambda request: asked.append(request) or CustomScoreAnswer(score=1.0)
    criteria = config({"mine": {"threshold": 0.5, "strict": True}}, custom=CUSTOM)
    actual, expected = [turn("a"), turn("b")], [turn("a"), turn("b"), turn("c")]

    await judge(criteria, actual=actual, expected=expected, columns={"row": 1})

    (request,) = asked
    assert (request.metric, request.function, request.threshold) == ("mine", "checks.mine", 0.5)
    assert (list(request.actual), list(request.expected or ())) == (actual, expected[:2])
    assert (request.options, request.columns) == ({"strict": True}, {"row": 1})


async def test_a_scenario_has_no_expectations(config: Any, judge: Any, services: Any, turn: Any) -> None:
    asked: list[CustomScoreRequest] = []
    services.function = lambda request: asked.append(request) or CustomScoreAnswer(score=1.0)
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk"}
    case = EvalCase.model_validate({"eval_id": "a", "conversation_scenario": scenario})

    await judge(config({"mine": 0.5}, custom=CUSTOM), actual=[turn("a")], case=case)

    assert asked[0].expected is None
    assert asked[0].scenario == case.conversation_scenario


async def test_numbers_by_name_are_the_score_and_informational_results(answer: Any) -> None:
    judged = await answer(CustomScoreAnswer(score=0.75, scores={"length": 3, "short": True, "why": "brief"}))

    assert (judged["mine"].score, judged["mine"].status) == (0.75, MetricStatus.PASSED)
    assert (judged["mine/length"].score, judged["mine/length"].status) == (3.0, MetricStatus.INFORMATIONAL)
    assert judged["mine/short"].score == 1.0
    assert judged["mine"].details == {"why": "brief"}


async def test_adk_s_function_decides_the_verdict_itself(answer: Any) -> None:
    turns = (InvocationScore(score=0.0), InvocationScore(score=None, reason="not evaluated"))

    judged = await answer(CustomScoreAnswer(score=0.0, verdict="passed", per_invocation=turns))

    assert (judged["mine"].status, judged["mine"].score) == (MetricStatus.PASSED, 0.0)
    assert (judged["mine"].scored, judged["mine"].total) == (1, 2)
    assert judged["mine"].per_invocation == turns


@pytest.mark.parametrize(
    ("verdict", "score", "hint"),
    [
        ("passed", 0.2, "the function says PASSED, although its score is below the threshold"),
        ("failed", 0.9, "the function says FAILED, although its score is not below the threshold"),
        ("passed", 0.9, None),
        ("failed", 0.2, None),
        ("not_evaluated", 0.2, None),
        (None, 0.2, None),
    ],
)
async def test_a_verdict_against_the_threshold_is_said(
    answer: Any, verdict: Any, score: float, hint: str | None
) -> None:
    judged = await answer(CustomScoreAnswer(score=score, verdict=verdict))

    assert judged["mine"].hint == hint


async def test_a_function_that_did_not_evaluate_is_undefined_with_a_reason(answer: Any) -> None:
    judged = await answer(CustomScoreAnswer(score=None, verdict="not_evaluated"))

    assert judged["mine"].status is MetricStatus.UNDEFINED
    assert judged["mine"].reason == "the function gave no score"


async def test_a_score_that_is_no_number_is_undefined(answer: Any) -> None:
    judged = await answer(CustomScoreAnswer(score=float("nan")))

    assert (judged["mine"].score, judged["mine"].status) == (None, MetricStatus.UNDEFINED)
    assert judged["mine"].reason == "the score is nan"


async def test_without_threshold_a_custom_metric_is_informational(answer: Any) -> None:
    judged = await answer(CustomScoreAnswer(score=0.0, verdict="failed"), threshold=None)

    assert judged["mine"].status is MetricStatus.INFORMATIONAL


async def test_an_exception_is_an_error_of_this_metric_alone(config: Any, judge: Any, services: Any, turn: Any) -> None:
    def fail(request: CustomScoreRequest) -> CustomScoreAnswer:
        raise AgentError(Failure(kind=FailureKind.METRIC, message="KeyError: 'x'", traceback="Traceback ..."))

    services.function = fail
    criteria = config({"mine": 0.5, "exact_match": 1}, custom=CUSTOM)

    judged = await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    assert (judged["mine"].status, judged["mine"].reason) == (MetricStatus.ERROR, "KeyError: 'x'")
    assert judged["mine"].details == {"traceback": "Traceback ..."}
    assert judged["exact_match"].status is MetricStatus.PASSED


async def test_a_custom_metric_may_take_the_name_of_a_known_one(
    config: Any, judge: Any, services: Any, turn: Any
) -> None:
    services.function = lambda request: CustomScoreAnswer(score=0.25)
    criteria = config({"exact_match": 1}, custom={"exact_match": "checks.mine"})

    judged = await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    assert judged["exact_match"].score == 0.25


def test_a_judge_metric_must_not_be_called_like_a_known_one() -> None:
    own = {"exact_match": {"metric_prompt_template": "Rate {response}"}}
    config = read_config({"criteria": {"exact_match": 1}, "judge_metrics": own}, source="test_config.json")

    (problem,) = check_criteria(config)

    assert str(problem) == "judge_metrics.exact_match: found the name of a built-in metric, expected a name of its own"


async def test_no_function_runs_where_no_turn_was_finished(config: Any, judge: Any, services: Any, turn: Any) -> None:
    judged = await judge(config({"mine": 0.5}, custom=CUSTOM), actual=[], expected=[turn("a")])

    assert judged["mine"].reason == "no turn was finished"
