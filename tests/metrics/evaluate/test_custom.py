"""Custom metrics: the request to the worker, and the results of its answer."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.agents.agent_host import AgentError, CustomScoreAnswer, CustomScoreRequest
from workbench.model.evalset import EvalCase
from workbench.model.results import Failure, FailureKind, InvocationScore, MetricStatus

CUSTOM = {"mine": {"code_config": {"name": "checks.mine"}}}


@pytest.fixture
def judge_answer(config: Any, judge: Any, services: Any, turn: Any) -> Any:
    async def run(answer: CustomScoreAnswer, *, threshold: float | None = 0.5) -> Any:
        services.function = lambda request: answer
        criteria = config({"mine": threshold, "exact_match": 1}, custom=CUSTOM)
        return await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    return run


async def test_the_function_gets_the_case(config: Any, judge: Any, services: Any, turn: Any) -> None:
    requests: list[CustomScoreRequest] = []
    services.function = lambda request: requests.append(request) or CustomScoreAnswer(score=1.0)
    criteria = config({"mine": {"threshold": 0.5, "strict": True}}, custom=CUSTOM)
    actual, expected = [turn("a"), turn("b")], [turn("a"), turn("b"), turn("c")]

    await judge(criteria, actual=actual, expected=expected, columns={"row": 1})

    (request,) = requests
    assert (request.metric, request.function, request.threshold) == ("mine", "checks.mine", 0.5)
    assert (list(request.actual), list(request.expected or ())) == (actual, expected[:2])
    assert (request.options, request.columns) == ({"strict": True}, {"row": 1})


async def test_a_scenario_has_no_expectations(config: Any, judge: Any, services: Any, turn: Any) -> None:
    requests: list[CustomScoreRequest] = []
    services.function = lambda request: requests.append(request) or CustomScoreAnswer(score=1.0)
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk"}
    case = EvalCase.model_validate({"eval_id": "a", "conversation_scenario": scenario})

    await judge(config({"mine": 0.5}, custom=CUSTOM), actual=[turn("a")], case=case)

    assert requests[0].expected is None
    assert requests[0].scenario == case.conversation_scenario


async def test_named_numbers_become_informational_results(judge_answer: Any) -> None:
    results = await judge_answer(CustomScoreAnswer(score=0.75, scores={"length": 3, "short": True, "why": "brief"}))

    assert (results["mine"].score, results["mine"].status) == (0.75, MetricStatus.PASSED)
    assert (results["mine/length"].score, results["mine/length"].status) == (3.0, MetricStatus.INFORMATIONAL)
    assert results["mine/short"].score == 1.0
    assert results["mine"].details == {"why": "brief"}


async def test_an_adk_function_decides_the_verdict_itself(judge_answer: Any) -> None:
    turns = (InvocationScore(score=0.0), InvocationScore(score=None, reason="not evaluated"))

    results = await judge_answer(CustomScoreAnswer(score=0.0, verdict="passed", per_invocation=turns))

    assert (results["mine"].status, results["mine"].score) == (MetricStatus.PASSED, 0.0)
    assert (results["mine"].scored, results["mine"].total) == (1, 2)
    assert results["mine"].per_invocation == turns


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
async def test_a_verdict_that_contradicts_the_threshold_gets_a_hint(
    judge_answer: Any, verdict: Any, score: float, hint: str | None
) -> None:
    results = await judge_answer(CustomScoreAnswer(score=score, verdict=verdict))

    assert results["mine"].hint == hint


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (None, "the function gave no score"),
        (0.75, "the function returned the score 0.75, but overall_eval_status is NOT_EVALUATED: set it"),
    ],
)
async def test_a_function_that_did_not_evaluate_is_undefined_with_a_reason(
    judge_answer: Any, score: float | None, reason: str
) -> None:
    results = await judge_answer(CustomScoreAnswer(score=score, verdict="not_evaluated"))

    assert results["mine"].status is MetricStatus.UNDEFINED
    assert results["mine"].reason == reason


async def test_a_score_of_nan_is_undefined(judge_answer: Any) -> None:
    results = await judge_answer(CustomScoreAnswer(score=float("nan")))

    assert (results["mine"].score, results["mine"].status) == (None, MetricStatus.UNDEFINED)
    assert results["mine"].reason == "the score is nan"


async def test_without_threshold_a_custom_metric_is_informational(judge_answer: Any) -> None:
    results = await judge_answer(CustomScoreAnswer(score=0.0, verdict="failed"), threshold=None)

    assert results["mine"].status is MetricStatus.INFORMATIONAL


async def test_an_exception_is_an_error_of_its_metric_only(config: Any, judge: Any, services: Any, turn: Any) -> None:
    def fail(request: CustomScoreRequest) -> CustomScoreAnswer:
        raise AgentError(Failure(kind=FailureKind.METRIC, message="KeyError: 'x'", traceback="Traceback ..."))

    services.function = fail
    criteria = config({"mine": 0.5, "exact_match": 1}, custom=CUSTOM)

    results = await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    assert (results["mine"].status, results["mine"].reason) == (MetricStatus.ERROR, "KeyError: 'x'")
    assert results["mine"].details == {"traceback": "Traceback ..."}
    assert results["exact_match"].status is MetricStatus.PASSED


async def test_a_custom_metric_may_have_the_name_of_a_builtin_metric(
    config: Any, judge: Any, services: Any, turn: Any
) -> None:
    services.function = lambda request: CustomScoreAnswer(score=0.25)
    criteria = config({"exact_match": 1}, custom={"exact_match": "checks.mine"})

    results = await judge(criteria, actual=[turn("a")], expected=[turn("a")])

    assert results["exact_match"].score == 0.25


async def test_the_function_does_not_run_without_a_finished_turn(
    config: Any, judge: Any, services: Any, turn: Any
) -> None:
    results = await judge(config({"mine": 0.5}, custom=CUSTOM), actual=[], expected=[turn("a")])

    assert results["mine"].reason == "no turn was finished"
