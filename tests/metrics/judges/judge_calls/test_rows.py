"""Rows of a dataset without the column that a judge reads: no model is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Content, Invocation, Part
from workbench.model.results import MetricResult, MetricStatus

Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
RUBRICS = {"rubrics": [{"rubric_id": "short", "rubric_content": {"text_property": "It is short."}}]}
PROMPT = Content(role="user", parts=(Part(text="Lights on"),))
ANSWER = Content(role="model", parts=(Part(text="They are on."),))


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("final_response_match_v2", {}, "the row has no response"),
        ("safety_v1", {}, "the row has no response"),
        ("safety_v1", {"scorer": "vertex"}, "the row has no response"),
        ("response_evaluation_score", {}, "the row has no response"),
        ("hallucinations_v1", {}, "the row has no response"),
        ("rubric_based_final_response_quality_v1", RUBRICS, "the row has no response"),
        ("rubric_based_tool_use_quality_v1", RUBRICS, "the row has no predicted_trajectory"),
        ("multi_turn_tool_use_quality_v1", {}, "the row has no predicted_trajectory"),
        ("multi_turn_task_success_v1", {}, "the row has no response and no predicted_trajectory"),
    ],
)
async def test_no_model_is_called_for_a_row_without_the_judged_column(
    config: Config, judge: Judge, services: Services, name: str, options: dict[str, Any], reason: str
) -> None:
    row = Invocation(user_content=PROMPT)
    expected = Invocation(user_content=PROMPT, final_response=ANSWER)

    results = await judge(
        config({name: {"threshold": 0.5, **options}}),
        actual=[row],
        expected=[expected],
        columns={"prompt": "Lights on", "reference": "They are on."},
        recorded=True,
    )

    assert results[name].status is MetricStatus.UNDEFINED
    assert results[name].reason == reason
    assert services.requests == []


async def test_no_template_is_filled_in_for_a_row_without_a_response(
    config: Config, judge: Judge, services: Services
) -> None:
    fluency = {"metric_prompt_template": "Rate this: {response}"}

    results = await judge(
        config({"fluent": 0.5}, judges={"fluent": fluency}),
        actual=[Invocation(user_content=PROMPT)],
        columns={"prompt": "Lights on"},
        recorded=True,
    )

    assert results["fluent"].reason == "the row has no response"
    assert services.requests == []


async def test_an_agent_that_ran_for_a_row_without_a_response_is_judged(
    config: Config, judge: Judge, services: Services
) -> None:
    services.model = lambda _: '{"reasoning": "silence", "verdict": "invalid"}'
    expected = Invocation(user_content=PROMPT, final_response=ANSWER)

    results = await judge(
        config({"final_response_match_v2": 0.5}),
        actual=[Invocation(user_content=PROMPT)],
        expected=[expected],
        columns={"prompt": "Lights on"},
    )

    assert results["final_response_match_v2"].status is MetricStatus.FAILED
