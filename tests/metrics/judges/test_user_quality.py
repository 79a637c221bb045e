"""per_turn_user_simulator_quality_v1: valid messages of a simulated user, and a timely end."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelError, ModelRequest, Trouble, make_model_error
from workbench.metrics.judges.user_quality import read_violations
from workbench.metrics.registry import check_criteria
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Content, EvalCase, Invocation
from workbench.model.results import (
    ConversationEnd,
    Failure,
    FailureKind,
    MetricResult,
    MetricStatus,
    SimulatedConversation,
)

NAME = "per_turn_user_simulator_quality_v1"
Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
DOWN = make_model_error(Trouble.UNAVAILABLE, "m", "503")
VALID = '{"reasoning": "fine", "violations": [], "verdict": "valid"}'
INVALID = '{"reasoning": "no", "violations": [{"number": 1, "evidence": "e"}], "verdict": "invalid"}'


def make_criterion(samples: int = 1, **options: Any) -> dict[str, Any]:
    return {NAME: {"threshold": 0.5, "judge_model_options": {"num_samples": samples}, **options}}


def make_scenario(persona: Any = None) -> EvalCase:
    scenario_data = {
        "starting_prompt": " Hi! ",
        "conversation_plan": "Switch the lamp {{ off }}.",
        "user_persona": persona,
    }
    return EvalCase.model_validate({"eval_id": "c", "conversation_scenario": scenario_data})


def make_turn(user: str, agent: str = "ok") -> Invocation:
    return Invocation(
        user_content=Content.of_text(user, role="user"), final_response=Content.of_text(agent, role="model")
    )


def get_message(request: ModelRequest) -> str:
    prompt = request.messages[0].text
    return prompt[prompt.index("<next_message>\n") + 15 : prompt.index("\n</next_message>")]


def script_judge(services: Services, **replies: str | ModelError) -> None:
    """Set the replies by message; other messages are valid. `end` is the stop signal."""
    services.model = lambda request: replies.get(get_message(request).replace("</finished>", "end"), VALID)


@pytest.mark.parametrize(
    ("first", "replies", "scores", "score"),
    [
        ("Hi!", {}, [1, 1, 1], 1.0),
        ("  Hi!\n", {}, [1, 1, 1], 1.0),
        ("hi!", {}, [0, 1, 1], 2 / 3),
        ("Hi!", {"two": INVALID}, [1, 0, 1], 2 / 3),
        ("Hi!", {"end": INVALID}, [1, 1, 0], 2 / 3),
        ("Hi!", {"three": INVALID, "end": INVALID}, [1, 1, 0], 2 / 3),
        ("Hallo", {"two": INVALID, "three": INVALID}, [0, 0, 0], 0.0),
    ],
)
async def test_the_score_is_the_share_of_valid_messages_and_the_last_includes_the_end(
    config: Config, judge: Judge, services: Services, first: str, replies: Any, scores: list[int], score: float
) -> None:
    script_judge(services, **replies)

    turns = [make_turn(first), make_turn("two"), make_turn("three")]
    result = (await judge(config(make_criterion()), actual=turns, case=make_scenario()))[NAME]

    assert [score_of_turn.score for score_of_turn in result.per_invocation] == scores
    assert result.score == pytest.approx(score)
    assert sorted(map(get_message, services.requests)) == [
        "</finished>",
        "three",
        "two",
    ]  # the first message needs no model


async def test_a_premature_end_is_given_as_the_reason(config: Config, judge: Judge, services: Services) -> None:
    script_judge(services, end=INVALID)

    result = (await judge(config(make_criterion()), actual=[make_turn("Hi!")], case=make_scenario()))[NAME]

    assert result.score == 0.0
    assert result.hint == "the end of the conversation is judged on its last turn"
    judgement = result.per_invocation[0].judgement
    assert judgement is not None
    assert "<next_message>\n</finished>\n</next_message>" in judgement.prompt


async def test_the_end_is_not_judged_if_the_agent_failed(config: Config, judge: Judge, services: Services) -> None:
    script_judge(services, end=INVALID)
    failure = Failure(kind=FailureKind.AGENT, message="boom", turn=1)

    result = (await judge(config(make_criterion()), actual=[make_turn("Hi!")], case=make_scenario(), failure=failure))[
        NAME
    ]

    assert result.score == 1.0
    assert not services.requests


async def test_the_end_is_not_judged_if_the_turn_limit_was_reached(
    config: Config, judge: Judge, services: Services
) -> None:
    script_judge(services, end=INVALID)
    simulation = SimulatedConversation(model="m", end=ConversationEnd.LIMIT, limit=1)

    result = (
        await judge(config(make_criterion()), actual=[make_turn("Hi!")], case=make_scenario(), simulation=simulation)
    )[NAME]

    assert result.score == 1.0


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        ([VALID, VALID, INVALID], 1.0),
        ([VALID, INVALID], 0.0),  # a tie
        ([VALID, "?"], 1.0),
        ([INVALID, DOWN, DOWN], None),
        (["?", DOWN], None),
    ],
)
async def test_the_majority_of_samples_decides_each_message(
    config: Config, judge: Judge, services: Services, replies: list[str | ModelError], score: float | None
) -> None:
    answers = cycle(replies)
    services.model = lambda request: VALID if "finished" in get_message(request) else next(answers)

    turns = [make_turn("Hi!"), make_turn("two")]
    result = (await judge(config(make_criterion(len(replies))), actual=turns, case=make_scenario()))[NAME]

    assert result.per_invocation[1].score == score
    assert (result.status is MetricStatus.ERROR) == (score is None)


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        (VALID, 1.0),
        (INVALID, 0.0),
        ('{"violations": [], "verdict": "INVALID"}', 0.0),
        ('{"violations": [{"number": 2, "evidence": "e"}], "verdict": "valid"}', 0.0),  # a single violation
        ('{"violations": [{"number": "[2]"}], "verdict": "valid"}', 0.0),
        ('{"violations": [2], "verdict": "valid"}', 0.0),
        ('{"violations": [{"number": "2 (gives a name)"}], "verdict": "valid"}', 0.0),
        ('{"violations": ["violation 2: gives a name"], "verdict": "valid"}', 0.0),
        ('{"violations": [], "verdict": "invalid - it repeats"}', 0.0),
        ('{"violations": [], "verdict": "valid", "is_valid": false}', None),
        ('{"violations": [{"number": 9}], "verdict": "valid"}', 1.0),  # no violation has this number
        ('{"is_valid": true}', 1.0),
        ('```json\n{"is_valid": "False"}\n```', 0.0),
        ("**Verdict:** Valid", 1.0),
        ('{"violations": [{"number": 2, "evid', None),
        ("The message is fine.", None),
        ("Gültig.", None),
        ("", None),
    ],
)
def test_any_single_violation_makes_a_message_invalid(reply: str, score: float | None) -> None:
    opinion = read_violations(reply, {1: "It repeats.", 2: "It makes things up."})

    assert opinion.score == score
    assert (opinion.problem is None) == (score is not None)


def test_the_violations_are_given_as_the_reason() -> None:
    assert read_violations(INVALID, {1: "It repeats."}).rationale == "It repeats. (e)"


async def test_a_persona_is_judged_by_the_violations_of_its_behaviours(
    config: Config, judge: Judge, services: Services
) -> None:
    script_judge(services)
    persona = {
        "id": "IMPATIENT",
        "description": "Cannot {{ wait }}.",
        "behaviors": [
            {
                "name": "Hurry",
                "description": "d",
                "behavior_instructions": ["i"],
                "violation_rubrics": ["It is patient.", "It goes on without `{{ stop_signal }}`."],
            }
        ],
    }

    turns = [make_turn("Hi!", "hello"), make_turn("two {{ 7 * 7 }}")]
    await judge(config(make_criterion(stop_signal="BYE")), actual=turns, case=make_scenario(persona))

    prompt = next(request for request in services.requests if get_message(request) != "BYE").messages[0].text
    for text in (
        "Cannot {{ wait }}.",
        "# Hurry\n[1] It is patient.\n[2] It goes on without `BYE`.",
        "Switch the lamp {{ off }}.",
        "user: Hi!\n\nagent: hello",
        "two {{ 7 * 7 }}",
    ):
        assert text in prompt
    assert "It sounds like a person" not in prompt


@pytest.mark.parametrize("persona", ["EXPERT", "NOVICE", "EVALUATOR"])
async def test_the_builtin_personas_can_be_judged(
    config: Config, judge: Judge, services: Services, persona: str
) -> None:
    script_judge(services)

    result = (
        await judge(config(make_criterion()), actual=[make_turn("Hi!"), make_turn("b")], case=make_scenario(persona))
    )[NAME]

    assert result.score == 1.0
    assert "{{" not in services.requests[0].messages[0].text.replace("{{ off }}", "")


@pytest.mark.parametrize(
    ("persona", "reason"),
    [
        ("EXPRT", "there is no persona 'EXPRT'"),
        (
            {
                "id": "P",
                "description": "d",
                "behaviors": [
                    {
                        "name": "B",
                        "description": "d",
                        "behavior_instructions": [],
                        "violation_rubrics": ["{{ stop"],
                    }
                ],
            },
            "the persona 'P', behavior 'B': the violation rubric '{{ stop' is not a template",
        ),
    ],
)
async def test_an_unusable_persona_is_an_error_that_names_it(
    config: Config, judge: Judge, services: Services, persona: Any, reason: str
) -> None:
    result = (
        await judge(config(make_criterion()), actual=[make_turn("Hi!"), make_turn("b")], case=make_scenario(persona))
    )[NAME]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert reason in (result.reason or "")


async def test_a_case_without_a_scenario_is_undefined(config: Config, judge: Judge, services: Services) -> None:
    case = EvalCase.model_validate({"eval_id": "c", "conversation": []})

    result = (await judge(config(make_criterion()), actual=[make_turn("Hi!"), make_turn("b")], case=case))[NAME]

    assert (result.status, result.score) == (MetricStatus.UNDEFINED, None)
    assert "the case has no scenario" in (result.reason or "")
    assert not services.requests


@pytest.mark.parametrize("signal", ["", "  ", 7])
def test_an_invalid_stop_signal_is_reported_with_its_place(config: Config, signal: Any) -> None:
    (problem,) = check_criteria(config(make_criterion(stop_signal=signal), check=False))

    assert problem.place == f"criteria.{NAME}.stop_signal"


async def test_the_schema_of_the_reply_requires_all_its_keys(config: Config, judge: Judge, services: Services) -> None:
    script_judge(services)

    await judge(config(make_criterion()), actual=[make_turn("Hi!"), make_turn("b")], case=make_scenario())

    schema = services.requests[0].reply_schema
    assert schema is not None
    assert set(json.loads(VALID)) == set(schema["required"])
