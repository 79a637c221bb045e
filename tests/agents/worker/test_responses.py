"""Answers with too many tool calls: they are cut, and a reason replaces the verdict on them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from workbench.agents.worker.adapters.base import MOST_STEPS, AgentFault
from workbench.agents.worker.responses import make_agent_span, make_call_spans, make_turn_result, read_answer


def make_answer(calls: int, **more: Any) -> dict[str, Any]:
    trajectory = [{"tool_name": f"t{number}", "tool_input": {}} for number in range(calls)]
    return read_answer({"response": "x", "predicted_trajectory": trajectory, **more})


def make_result(answer: dict[str, Any]) -> dict[str, Any]:
    return make_turn_result({"parts": [{"text": "hi"}]}, answer, duration=0.1, spans=[])


def test_the_tool_calls_of_a_huge_answer_are_cut_and_not_judged() -> None:
    whole, cut = make_result(make_answer(MOST_STEPS)), make_result(make_answer(MOST_STEPS + 1))

    assert whole["calls_unknown"] is None
    assert len(cut["invocation"]["intermediate_data"]["tool_uses"]) == MOST_STEPS
    assert cut["calls_unknown"] == "the agent made 10,001 tool calls in one turn; only the first 10,000 are kept"


def test_calls_from_other_sources_are_cut_too() -> None:
    merged_answer = {**make_answer(0), "tool_uses": make_answer(MOST_STEPS)["tool_uses"] * 2}

    cut = make_result(merged_answer)

    assert len(cut["invocation"]["intermediate_data"]["tool_uses"]) == MOST_STEPS
    assert "20,000 tool calls" in cut["calls_unknown"]


def test_too_many_tool_responses_are_cut_and_not_judged() -> None:
    responses = [{"name": "t0", "response": {}}] * (MOST_STEPS + 1)
    merged_answer = {
        **make_answer(1),
        "tool_responses": make_answer(0, tool_responses=responses[1:])["tool_responses"] + responses[:1],
    }

    for cut in (make_result(make_answer(1, tool_responses=responses)), make_result(merged_answer)):
        assert len(cut["invocation"]["intermediate_data"]["tool_responses"]) == MOST_STEPS
        assert cut["calls_unknown"] == "the tools gave 10,001 responses in one turn; only the first 10,000 are kept"
    assert make_result(make_answer(1, tool_responses=responses[1:]))["calls_unknown"] is None


def test_too_many_intermediate_responses_are_an_error() -> None:
    with pytest.raises(AgentFault, match='"intermediate_responses" has 100,001 items, expected at most 100,000'):
        make_answer(1, intermediate_responses=["hm"] * 100_001)


def test_tool_responses_are_matched_by_id_or_else_in_order() -> None:
    calls: list[dict[str, Any]] = [
        {"name": "a", "args": {}},
        {"name": "a", "args": {}, "id": "1"},
        {"name": "a", "args": {}},
        {"name": "b", "args": {}},
    ]
    responses = [{"name": "a", "response": {"n": 1}, "id": "1"}, {"name": "a", "response": {"n": 2}}]
    agent = make_agent_span(0, "x", start=0.0, end=1.0, request="hi")

    # The first call has no id and takes the first response of its name; the second takes the other one.
    assert [span["response"] for span in make_call_spans(agent, calls, responses)] == [{"n": 1}, {"n": 2}, None, None]
    assert [span["response"] for span in make_call_spans(agent, calls[1:], responses)] == [{"n": 1}, {"n": 2}, None]


def test_many_calls_with_responses_take_linear_time() -> None:
    calls = [{"name": "a", "args": {}, "id": str(number)} for number in range(MOST_STEPS)]
    responses = [{"name": "a", "response": {"n": call["id"]}, "id": call["id"]} for call in reversed(calls)]
    start = time.process_time()

    spans = make_call_spans(make_agent_span(0, "x", start=0.0, end=1.0, request="hi"), calls, responses)

    assert all(span["response"] == {"n": str(number)} for number, span in enumerate(spans))
    assert time.process_time() - start < 2.0  # quadratic time would be more than ten seconds
