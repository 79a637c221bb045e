"""Metrics scored by the evaluation service of Vertex AI, if a criterion or the settings request it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelError, Trouble, make_model_error
from workbench.metrics.judges.judge_calls import read_service_reply
from workbench.metrics.registry import check_criteria, with_scorer
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.results import MetricResult, MetricStatus

SAFE, COHERENCE, TASK = "safety_v1", "response_evaluation_score", "multi_turn_task_success_v1"
Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
MakeTurn = Callable[..., Invocation]
VERTEX = {"threshold": 0.5, "scorer": "vertex"}


def format_score(score: Any, **fields: Any) -> str:
    return json.dumps({"score": score, "explanation": "because", **fields})


@pytest.mark.parametrize(("metric", "model"), [(SAFE, "safety_v1"), (COHERENCE, "coherence")])
async def test_each_turn_is_scored_once_and_the_result_names_the_model(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, metric: str, model: str
) -> None:
    services.model = lambda _: format_score(1)

    result = (await judge(config({metric: VERTEX}), actual=[turn("a"), turn("b")], expected=[turn("x")]))[metric]

    assert (result.score, result.scored) == (1.0, 2)
    assert len(services.requests) == 2
    judgement = result.per_invocation[0].judgement
    assert judgement is not None
    assert judgement.model == f"vertex-evaluation/{model}"
    assert judgement.samples[0].rationale == "because"
    assert json.loads(judgement.prompt) == {
        "metric": model,
        "instance": {"prompt": "?", "response": "a", "reference": "x"},
    }


async def test_a_conversation_is_sent_as_it_happened_and_scored_on_its_last_turn(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = lambda _: format_score(0.5)
    tools = [{"function_declarations": [{"name": "f"}]}]
    details = {"agentDetails": {"root": {"instructions": "Be brief.", "toolDeclarations": tools}}}
    first = turn("a", [("f", {"x": 1})], thought="hidden").model_copy(update={"app_details": details})

    result = (await judge(config({TASK: VERTEX}), actual=[first, turn("b", [("g", {})], events=True)]))[TASK]

    assert [score.score for score in result.per_invocation] == [None, 0.5]
    (request,) = services.requests
    data = json.loads(request.messages[0].text)["instance"]["agent_data"]
    assert data["agents"] == {"root": {"agent_id": "root", "instruction": "Be brief.", "tools": tools}}
    sent_events = [[(event["author"], event["content"]["parts"]) for event in turn["events"]] for turn in data["turns"]]
    assert sent_events == [
        [
            ("user", [{"text": "?"}]),
            ("agent", [{"function_call": {"name": "f", "args": {"x": 1}}}]),
            ("agent", [{"text": "a"}]),
        ],
        [
            ("user", [{"text": "?"}]),
            ("agent", [{"function_call": {"name": "g", "args": {}}}]),
            ("agent", [{"text": "b"}]),
        ],
    ]


@pytest.mark.parametrize(
    ("service_reply", "is_outage"),
    [
        (make_model_error(Trouble.NO_LIBRARY, "v", ""), True),
        (make_model_error(Trouble.UNAVAILABLE, "v", "503"), True),
        (format_score(None), False),
        ("?", False),
    ],
)
async def test_a_reply_without_a_score_is_an_error(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, service_reply: str | ModelError, is_outage: bool
) -> None:
    services.model = lambda _: service_reply

    result = (await judge(config({SAFE: VERTEX}), actual=[turn("a")]))[SAFE]

    assert (result.status, result.score, result.has_outage) == (MetricStatus.ERROR, None, is_outage)
    assert result.reason


def test_the_rationale_contains_the_verdicts_on_rubrics() -> None:
    rubrics = [{"text": "On.", "met": True, "reasoning": "r"}, {"text": "Told.", "met": False, "reasoning": ""}]

    opinion = read_service_reply(format_score(0.5, rubrics=rubrics))

    assert (opinion.score, opinion.rationale) == (0.5, "because; met: On. (r); not met: Told.")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"scorer": "vertx"}, "scorer"),
        ({"scorer": "vertex", "judge_model_options": {"num_samples": 3}}, "judge_model_options"),
    ],
)
def test_an_invalid_option_is_reported_with_its_place(config: Config, options: dict[str, Any], place: str) -> None:
    (problem,) = check_criteria(config({SAFE: {"threshold": 1, **options}}, check=False))

    assert problem.place == f"criteria.{SAFE}.{place}"


def test_the_scorer_of_the_settings_applies_to_criteria_without_their_own(config: Config) -> None:
    base_config = config(
        {
            SAFE: 1,
            COHERENCE: {"threshold": 3, "scorer": "judge"},
            TASK: {"threshold": 1, "judge_model_options": {"judge_model": "m"}},
            "hallucinations_v1": 1,
        }
    )

    service_config = with_scorer(base_config, "vertex")

    assert {
        criterion.metric for criterion in service_config.criteria if criterion.options.get("scorer") == "vertex"
    } == {SAFE}
    assert check_criteria(service_config) == []
    assert with_scorer(base_config, "judge") == base_config
