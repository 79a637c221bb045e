"""Informational measures are always present and fail a case only if a criterion sets a limit. The state is compared."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import judge_case
from workbench.metrics.registry import prepare
from workbench.model.evalset import EvalCase, InvocationEvents
from workbench.model.results import Execution, Failure, FailureKind, MetricStatus, TokenUsage, TurnResult

ALWAYS = ("latency", "failure", "tool_call_count_v1", "inference_call_count_v1", "token_usage_v1")


async def test_measures_follow_the_criteria_of_every_case(config: Any, judge: Any, turn: Any) -> None:
    usage = TokenUsage(prompt=10, tool_use_prompt=1, candidates=4, thoughts=2, cached=8, total=99)

    results = await judge(
        config({"exact_match": 1.0}),
        actual=[turn("a", ["f", "g"]), turn("b", [])],
        expected=[turn("a"), turn("b")],
        inference_calls=3,
        usage=usage,
    )

    assert tuple(results) == ("exact_match", *ALWAYS)
    assert {name: results[name].score for name in ALWAYS} == {
        "latency": 0.5,
        "failure": 0.0,
        "tool_call_count_v1": 1.0,
        "inference_call_count_v1": 3.0,
        "token_usage_v1": 17.0,
    }
    assert {results[name].status for name in ALWAYS} == {MetricStatus.INFORMATIONAL}


async def test_unreported_measures_are_null_not_zero(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(config({"exact_match": 1.0}), actual=[turn("a")], expected=[turn("a")])

    assert results["token_usage_v1"].score is None
    assert results["token_usage_v1"].reason == "tokens were not reported"
    assert results["inference_call_count_v1"].reason == "model calls were not reported"


async def test_model_calls_and_tokens_are_read_from_events_if_nothing_else_reports_them(
    config: Any, services: Any, turn: Any
) -> None:
    counts = {"prompt_token_count": 6, "candidates_token_count": 3, "thoughts_token_count": 1, "total_token_count": 99}
    camel = {"author": "a", "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5}}
    events = [{"author": "a", "usage_metadata": counts}, camel, {"author": "a", "model_version": "m"}, {"author": "b"}]
    invocation = turn("a").model_copy(update={"intermediate_data": InvocationEvents(invocation_events=events)})
    subject = JudgedCase(
        case=None, expected=[], execution=Execution(turns=(TurnResult(invocation=invocation, duration_seconds=0.1),))
    )

    results = {
        result.name: result for result in await judge_case(subject, prepare(config({"exact_match": 1})), services)
    }

    assert results["inference_call_count_v1"].score == 3.0
    assert results["token_usage_v1"].score == 15.0


async def test_a_turn_without_token_counts_adds_zero_to_the_mean_as_in_adk(
    config: Any, services: Any, turn: Any
) -> None:
    turns = (
        TurnResult(invocation=turn("a"), duration_seconds=0.1, usage=TokenUsage(prompt=6, candidates=4)),
        TurnResult(invocation=turn("b"), duration_seconds=0.1),
    )
    subject = JudgedCase(case=None, expected=[], execution=Execution(turns=turns))

    results = {
        result.name: result for result in await judge_case(subject, prepare(config({"exact_match": 1})), services)
    }

    assert results["token_usage_v1"].score == 5.0
    assert (results["token_usage_v1"].scored, results["token_usage_v1"].total) == (1, 2)


@pytest.mark.parametrize(("limit", "status"), [(0.25, "PASSED"), (0.2, "FAILED")])
async def test_the_threshold_of_a_measure_is_a_maximum(
    *, limit: float, status: str, config: Any, judge: Any, turn: Any
) -> None:
    criteria = {"latency": limit, "invocation_duration_v1": limit}

    results = await judge(config(criteria), actual=[turn("a")])

    assert [results[name].status for name in criteria] == [status, status]
    assert sorted(results) == sorted({*ALWAYS, "invocation_duration_v1"})


async def test_a_failed_case_has_failure_one_and_no_latency(config: Any, judge: Any, turn: Any) -> None:
    failure = Failure(kind=FailureKind.AGENT, message="boom", turn=1)

    results = await judge(config({"failure": 0}), actual=[turn("a", ["f"])], expected=[turn(), turn()], failure=failure)

    assert (results["failure"].score, results["failure"].status) == (1.0, MetricStatus.FAILED)
    assert results["latency"].reason == "the agent did not finish"
    assert (results["tool_call_count_v1"].score, results["tool_call_count_v1"].scored) == (1.0, 1)
    assert results["tool_call_count_v1"].total == 2


async def test_measures_of_recorded_rows_come_only_from_their_columns(config: Any, judge: Any, turn: Any) -> None:
    criteria = config({"exact_match": 1})

    known = await judge(criteria, actual=[turn("a")], columns={"latency_in_seconds": 1.5, "failure": 0}, recorded=True)
    unknown = await judge(criteria, actual=[turn("a")], columns={"response": "a"}, recorded=True)

    assert (known["latency"].score, known["failure"].score) == (1.5, 0.0)
    assert unknown["latency"].reason == "no agent ran, and the row has no latency_in_seconds"
    assert unknown["failure"].score is None


# The final session state, compared with the expected state of the case.

STATE_MATCH = "final_session_state_match"


def make_state_case(state: dict[str, Any] | None) -> EvalCase:
    return EvalCase(eval_id="a", conversation=[], final_session_state=state)


@pytest.mark.parametrize(
    ("options", "actual", "score"),
    [
        ({}, {"order": {"id": 1}, "user": "x"}, 1),
        ({}, {"order": {"id": 1.0}}, 1),
        ({}, {"order": {"id": True}}, 0),
        ({}, {}, 0),
        ({"match": "exact"}, {"order": {"id": 1}, "user": "x"}, 0),
        ({"match": "exact"}, {"order": {"id": 1}}, 1),
        ({"match": "exact"}, {"order": {"id": 1}, "__llm_request_key__": "k"}, 1),
        ({"match": "exact", "ignore": ["user"]}, {"order": {"id": 1}, "user": "x"}, 1),
        ({"ignore": "order"}, {}, 1),
    ],
)
async def test_expected_keys_must_be_present(*, options: Any, actual: Any, score: int, config: Any, judge: Any) -> None:
    results = await judge(
        config({STATE_MATCH: options}), actual=[], case=make_state_case({"order": {"id": 1}}), final_state=actual
    )

    assert results[STATE_MATCH].score == score


async def test_differences_are_listed_by_key(config: Any, judge: Any) -> None:
    results = await judge(
        config({STATE_MATCH: {"threshold": 1, "match": "exact"}}),
        actual=[],
        case=make_state_case({"a": 1, "b": 2, "c": 3}),
        final_state={"a": 1, "b": 9, "d": 4},
    )

    assert results[STATE_MATCH].status is MetricStatus.FAILED
    assert results[STATE_MATCH].details["differences"] == [
        {"key": "b", "kind": "different", "expected": 2, "actual": 9},
        {"key": "c", "kind": "missing", "expected": 3},
        {"key": "d", "kind": "unexpected", "actual": 4},
    ]
    assert results[STATE_MATCH].hint == "The state has keys that are not expected: d."


async def test_an_empty_expected_state_expects_no_key(config: Any, judge: Any) -> None:
    for state, score in (({}, 1.0), ({"a": 1}, 0.0)):
        results = await judge(config({STATE_MATCH: 1}), actual=[], case=make_state_case({}), final_state=state)

        assert results[STATE_MATCH].score == score


async def test_a_case_that_expects_no_state_is_undefined(config: Any, judge: Any) -> None:
    results = await judge(config({STATE_MATCH: 1}), actual=[], case=make_state_case(None), final_state={"a": 1})

    assert results[STATE_MATCH].status is MetricStatus.UNDEFINED
    assert results[STATE_MATCH].reason == "the case expects no final_session_state"


async def test_an_agent_without_state_fails_and_a_failed_session_is_undefined(config: Any, judge: Any) -> None:
    without_state = await judge(config({STATE_MATCH: 1}), actual=[], case=make_state_case({"a": 1}))
    failure = Failure(kind=FailureKind.AGENT, message="boom")
    with_failure = await judge(config({STATE_MATCH: 1}), actual=[], case=make_state_case({"a": 1}), failure=failure)

    assert (without_state[STATE_MATCH].status, without_state[STATE_MATCH].hint) == (
        MetricStatus.FAILED,
        "The agent reported no session state.",
    )
    assert with_failure[STATE_MATCH].reason == "the session did not end"
