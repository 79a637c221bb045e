"""The final session state, compared with the expected state of the case."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.evalset import EvalCase
from workbench.model.results import Failure, FailureKind, MetricStatus

NAME = "final_session_state_match"


def make_case(state: dict[str, Any] | None) -> EvalCase:
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
    results = await judge(config({NAME: options}), actual=[], case=make_case({"order": {"id": 1}}), final_state=actual)

    assert results[NAME].score == score


async def test_differences_are_listed_by_key(config: Any, judge: Any) -> None:
    results = await judge(
        config({NAME: {"threshold": 1, "match": "exact"}}),
        actual=[],
        case=make_case({"a": 1, "b": 2, "c": 3}),
        final_state={"a": 1, "b": 9, "d": 4},
    )

    assert results[NAME].status is MetricStatus.FAILED
    assert results[NAME].details["differences"] == [
        {"key": "b", "kind": "different", "expected": 2, "actual": 9},
        {"key": "c", "kind": "missing", "expected": 3},
        {"key": "d", "kind": "unexpected", "actual": 4},
    ]


@pytest.mark.parametrize("state", [None, {}])
async def test_a_case_that_expects_no_state_is_undefined(*, state: Any, config: Any, judge: Any) -> None:
    results = await judge(config({NAME: 1}), actual=[], case=make_case(state), final_state={"a": 1})

    assert results[NAME].status is MetricStatus.UNDEFINED
    assert results[NAME].reason == "the case expects no final_session_state"


async def test_an_agent_without_state_fails_and_a_failed_session_is_undefined(config: Any, judge: Any) -> None:
    without_state = await judge(config({NAME: 1}), actual=[], case=make_case({"a": 1}))
    failure = Failure(kind=FailureKind.AGENT, message="boom")
    with_failure = await judge(config({NAME: 1}), actual=[], case=make_case({"a": 1}), failure=failure)

    assert (without_state[NAME].status, without_state[NAME].hint) == (
        MetricStatus.FAILED,
        "The agent reported no session state.",
    )
    assert with_failure[NAME].reason == "the session did not end"
