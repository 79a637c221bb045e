"""multi_turn_*_v1: properties are found first, and each is judged by all samples."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelRequest
from workbench.metrics.judges.reply_parser import read_properties
from workbench.metrics.metric_types import UnreadableReply
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import MetricResult, MetricStatus

TASK = "multi_turn_task_success_v1"
NAMES = (TASK, "multi_turn_trajectory_quality_v1", "multi_turn_tool_use_quality_v1")
Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
MakeTurn = Callable[..., Invocation]
PROPERTIES = '{"properties": ["The lamp is off.", "The user was told."]}'


def criterion(name: str, samples: int = 1) -> dict[str, Any]:
    return {name: {"threshold": 0.5, "judge_model_options": {"num_samples": samples}}}


def is_preparing(request: ModelRequest) -> bool:
    return "as a list of" in request.messages[0].text and "<properties>" not in request.messages[0].text


def judge_says(services: Services, *verdicts: Mapping[str, str] | str, properties: str = PROPERTIES) -> None:
    answers = cycle(
        each if isinstance(each, str) else json.dumps({key: {"verdict": word} for key, word in each.items()})
        for each in verdicts
    )
    services.model = lambda request: properties if is_preparing(request) else next(answers)


@pytest.mark.parametrize("name", NAMES)
async def test_the_score_is_the_share_of_the_properties_on_the_last_turn(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, name: str
) -> None:
    judge_says(services, {"p1": "yes", "p2": "no"})

    result = (await judge(config(criterion(name)), actual=[turn("one"), turn("two", ["f"])]))[name]

    assert (result.score, result.scored, result.total) == (0.5, 1, 2)
    assert [each.score for each in result.per_invocation] == [None, 0.5]
    assert result.per_invocation[0].reason == "the conversation is judged as a whole, on its last turn"
    judgement = result.per_invocation[1].judgement
    assert judgement is not None
    assert [(each.text, each.score) for each in judgement.rubrics] == [
        ("The lamp is off.", 1.0),
        ("The user was told.", 0.0),
    ]
    assert judgement.preparation is not None
    assert judgement.preparation.tries[0].reply == PROPERTIES


async def test_each_property_goes_by_the_majority_of_its_samples(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    judge_says(
        services, {"p1": "yes", "p2": "yes"}, {"p1": "yes", "p2": "no"}, {"p1": "no", "p2": "not applicable"}, "prose"
    )

    result = (await judge(config(criterion(TASK, 4)), actual=[turn("one")]))[TASK]

    assert result.score == 1.0
    assert len(services.asked) == 5


async def test_properties_are_found_without_a_look_at_what_the_agent_did(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    judge_says(services, {"p1": "yes", "p2": "yes"})
    told = {"starting_prompt": "hi", "conversation_plan": "Have the {{ lamp }} off."}
    case = EvalCase.model_validate({"eval_id": "c", "conversation_scenario": told})

    await judge(config(criterion(TASK)), actual=[turn("done", [("set_lamp", {"on": False})])], case=case)

    preparing, judging = (request.messages[0].text for request in services.asked)
    assert "Have the {{ lamp }} off." in preparing
    assert "AGENT TURN 1: done" in preparing
    assert "set_lamp" not in preparing
    assert "set_lamp" in judging


@pytest.mark.parametrize("reply", ["Nothing to say.", "", '{"properties": []}', '{"properties": ["cut o'])
async def test_without_properties_there_is_an_error_and_no_score(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str
) -> None:
    judge_says(services, properties=reply)

    result = (await judge(config(criterion(TASK, 2)), actual=[turn("one")]))[TASK]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert (result.reason or "").startswith("the reply does not say a list of properties")


@pytest.mark.parametrize(
    "reply",
    [
        '{"properties": ["A.", "B."]}',
        '```json\n{"properties": [{"text": "A."}, {"text": "B."}, {"text": "A."}]}\n```',
        "Here they are:\n1. A.\n2. B.\n",
        "- A.\n* B.",
    ],
)
def test_properties_are_read_from_lists_of_all_kinds(reply: str) -> None:
    assert read_properties(reply) == ["A.", "B."]


def test_a_reply_without_a_list_has_no_properties() -> None:
    with pytest.raises(UnreadableReply):
        read_properties("The user wanted the lamp off.")
