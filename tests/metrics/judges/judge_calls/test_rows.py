"""Rows of a dataset that lack what a judge looks at: nobody is asked about them."""

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
SAYS = Content(role="user", parts=(Part(text="Lights on"),))
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
async def test_nobody_is_asked_about_a_row_without_the_column_that_a_metric_judges(
    config: Config, judge: Judge, services: Services, name: str, options: dict[str, Any], reason: str
) -> None:
    row = Invocation(user_content=SAYS)
    expected = Invocation(user_content=SAYS, final_response=ANSWER)

    results = await judge(
        config({name: {"threshold": 0.5, **options}}),
        actual=[row],
        expected=[expected],
        columns={"prompt": "Lights on", "reference": "They are on."},
        recorded=True,
    )

    assert results[name].status is MetricStatus.UNDEFINED
    assert results[name].reason == reason
    assert services.asked == []


async def test_a_template_is_not_filled_in_for_a_row_without_a_response(
    config: Config, judge: Judge, services: Services
) -> None:
    fluency = {"metric_prompt_template": "Rate this: {response}"}

    results = await judge(
        config({"fluent": 0.5}, judges={"fluent": fluency}),
        actual=[Invocation(user_content=SAYS)],
        columns={"prompt": "Lights on"},
        recorded=True,
    )

    assert results["fluent"].reason == "the row has no response"
    assert services.asked == []


async def test_an_agent_that_was_asked_about_a_row_and_says_nothing_is_judged_by_that(
    config: Config, judge: Judge, services: Services
) -> None:
    services.model = lambda _: '{"reasoning": "silence", "verdict": "invalid"}'
    expected = Invocation(user_content=SAYS, final_response=ANSWER)

    results = await judge(
        config({"final_response_match_v2": 0.5}),
        actual=[Invocation(user_content=SAYS)],
        expected=[expected],
        columns={"prompt": "Lights on"},
    )

    assert results["final_response_match_v2"].status is MetricStatus.FAILED
