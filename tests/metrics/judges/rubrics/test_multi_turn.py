"""multi_turn_*_v1: the model finds properties first, then all samples judge each of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelReply, ModelRequest
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


def make_criterion(name: str, samples: int = 1) -> dict[str, Any]:
    return {name: {"threshold": 0.5, "judge_model_options": {"num_samples": samples}}}


def is_preparation(request: ModelRequest) -> bool:
    return "as a list of" in request.messages[0].text and "<properties>" not in request.messages[0].text


def script_judge(services: Services, *verdicts: Mapping[str, str] | str, properties: str = PROPERTIES) -> None:
    answers = cycle(
        verdict if isinstance(verdict, str) else json.dumps({key: {"verdict": word} for key, word in verdict.items()})
        for verdict in verdicts
    )
    services.model = lambda request: properties if is_preparation(request) else next(answers)


@pytest.mark.parametrize("name", NAMES)
async def test_the_last_turn_scores_the_share_of_fulfilled_properties(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, name: str
) -> None:
    script_judge(services, {"p1": "yes", "p2": "no"})

    result = (await judge(config(make_criterion(name)), actual=[turn("one"), turn("two", ["f"])]))[name]

    assert (result.score, result.scored, result.total) == (0.5, 1, 2)
    assert [score.score for score in result.per_invocation] == [None, 0.5]
    assert result.per_invocation[0].reason == "the conversation is judged as a whole, on its last turn"
    judgement = result.per_invocation[1].judgement
    assert judgement is not None
    assert [(score.text, score.score) for score in judgement.rubrics] == [
        ("The lamp is off.", 1.0),
        ("The user was told.", 0.0),
    ]
    assert judgement.preparation is not None
    assert judgement.preparation.tries[0].reply == PROPERTIES


async def test_the_majority_of_samples_decides_each_property(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(
        services, {"p1": "yes", "p2": "yes"}, {"p1": "yes", "p2": "no"}, {"p1": "no", "p2": "not applicable"}, "prose"
    )

    result = (await judge(config(make_criterion(TASK, 4)), actual=[turn("one")]))[TASK]

    assert result.score == 1.0
    assert len(services.requests) == 5


async def test_the_prompt_that_finds_properties_hides_the_tool_calls(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, {"p1": "yes", "p2": "yes"})
    scenario = {"starting_prompt": "hi", "conversation_plan": "Have the {{ lamp }} off."}
    case = EvalCase.model_validate({"eval_id": "c", "conversation_scenario": scenario})

    await judge(config(make_criterion(TASK)), actual=[turn("done", [("set_lamp", {"on": False})])], case=case)

    preparation_prompt, judgement_prompt = (request.messages[0].text for request in services.requests)
    assert "Have the {{ lamp }} off." in preparation_prompt
    assert "AGENT TURN 1: done" in preparation_prompt
    assert "set_lamp" not in preparation_prompt
    assert "set_lamp" in judgement_prompt


@pytest.mark.parametrize("reply", ["Nothing to say.", "", '{"properties": []}', '{"properties": ["cut o'])
async def test_a_reply_without_properties_is_an_error_without_a_score(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str
) -> None:
    script_judge(services, properties=reply)

    result = (await judge(config(make_criterion(TASK, 2)), actual=[turn("one")]))[TASK]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert (result.reason or "").startswith("the reply does not say a list of properties")


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("1. The lamp is off.\n2. The user was told.\n3. The do", MetricStatus.ERROR),
        ('{"properties": [{"text": "The lamp is off.", "rooms": ["hall"]}, {"te', MetricStatus.ERROR),
        (PROPERTIES + "\n\n\n", MetricStatus.PASSED),
    ],
)
async def test_a_list_of_properties_that_was_cut_off_is_no_shorter_list(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str, status: MetricStatus
) -> None:
    cut_off = ModelReply(text=reply, finish="MAX_TOKENS")
    verdicts = '{"p1": {"verdict": "yes"}, "p2": {"verdict": "yes"}}'
    services.model = lambda request: cut_off if is_preparation(request) else verdicts

    result = (await judge(config(make_criterion(TASK)), actual=[turn("one")]))[TASK]

    assert result.status is status, result.reason
    assert status is MetricStatus.PASSED or "(the reply was cut off: raise max_output_tokens)" in (result.reason or "")


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
