"""final_response_match_v2: the prompt of the judge, and the score from its samples."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelError, ModelRequest, Trouble, make_model_error
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Content, Invocation
from workbench.model.results import MetricResult, MetricStatus

NAME = "final_response_match_v2"
Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
MakeTurn = Callable[..., Invocation]
DOWN = make_model_error(Trouble.UNAVAILABLE, "m", "503")


def format_verdict(word: str) -> str:
    return f'{{"reasoning": "because {word}", "verdict": "{word}"}}'


def script_judge(services: Services, *replies: str | ModelError) -> None:
    """Let the samples cycle through the replies."""
    answers = cycle(replies)
    services.model = lambda _: next(answers)


def make_criterion(samples: int = 5, **options: Any) -> dict[str, Any]:
    return {NAME: {"threshold": 0.5, "judge_model_options": {"num_samples": samples, **options}}}


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        (["valid"] * 5, 1.0),
        (["valid", "valid", "valid", "invalid", "invalid"], 1.0),
        (["valid", "valid", "invalid", "invalid", "invalid"], 0.0),
        (["valid", "invalid"], 0.0),  # a tie
        (["valid", "?", "?"], None),  # one of three gives no verdict
        (["valid", "invalid", "?"], 0.0),
        (["valid", "down", "down"], None),
        (["valid", "valid", "down"], 1.0),
        (["invalid", "down"], 0.0),
    ],
)
async def test_the_majority_of_readable_samples_decides(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, replies: list[str], score: float | None
) -> None:
    script_judge(
        services, *[DOWN if word == "down" else "hm" if word == "?" else format_verdict(word) for word in replies]
    )

    results = await judge(config(make_criterion(len(replies))), actual=[turn("12 EUR")], expected=[turn("12 euros")])

    assert results[NAME].score == score
    status = {1.0: MetricStatus.PASSED, 0.0: MetricStatus.FAILED, None: MetricStatus.ERROR}
    assert results[NAME].status is status[score]
    judgement = results[NAME].per_invocation[0].judgement
    assert judgement is not None
    assert len(judgement.samples) == len(replies)
    assert [sample.problem is None for sample in judgement.samples] == [
        word in ("valid", "invalid") for word in replies
    ]


@pytest.mark.parametrize("reply", ["I cannot say.", DOWN, make_model_error(Trouble.BLOCKED, "m", "SAFETY")])
async def test_a_judge_without_a_verdict_is_an_error_not_a_zero(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str | ModelError
) -> None:
    script_judge(services, reply)

    result = (await judge(config(make_criterion()), actual=[turn("a")], expected=[turn("b")]))[NAME]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert (result.reason or "").startswith(("the reply does not say", "m: "))
    assert result.has_outage == isinstance(reply, ModelError)


async def test_a_turn_without_a_verdict_leaves_the_case_without_a_score(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = lambda request: format_verdict("valid") if "alpha" in request.messages[0].text else DOWN
    turns = [turn("alpha"), turn("beta")]

    result = (await judge(config(make_criterion()), actual=turns, expected=turns))[NAME]

    assert (result.status, result.score, result.scored) == (MetricStatus.ERROR, None, 1)
    assert [score.score for score in result.per_invocation] == [1.0, None]


async def test_the_score_of_a_case_is_the_mean_of_its_turns_with_a_reference(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = lambda request: format_verdict(
        "valid" if "<agent_answer>\ngood" in request.messages[0].text else "invalid"
    )

    actual, expected = [turn("good"), turn("bad"), turn("good")], [turn("a"), turn("b"), turn(None)]
    result = (await judge(config(make_criterion(1)), actual=actual, expected=expected))[NAME]

    assert (result.score, result.scored, result.total) == (0.5, 2, 3)
    assert result.per_invocation[2].reason == "the case has no expected response"
    assert len(services.requests) == 2


async def test_the_judge_receives_both_responses_and_the_options(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, format_verdict("valid"))
    options = {"judge_model": "gemini-x", "judge_model_config": {"temperature": 0.1}}

    await judge(
        config(make_criterion(2, **options)),
        actual=[turn("{{ 7 * 7 }} </agent_answer>", thought="secret thought")],
        expected=[turn("{% raw %}12")],
    )

    assert [request.sample for request in services.requests] == [0, 1]
    (model,), (prompt,) = ({r.model for r in services.requests}, {r.messages[0].text for r in services.requests})
    assert model == "gemini-x"
    assert services.requests[0].config == {"temperature": 0.1}
    assert "{{ 7 * 7 }} </agent_answer>" in prompt  # data is never expanded as a template
    assert "{% raw %}12" in prompt
    assert "secret thought" not in prompt


async def test_the_model_of_the_settings_is_the_default_judge(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, format_verdict("valid"))
    plan = config({NAME: 0.5}).model_copy(update={"judge": "of-the-settings"})

    await judge(plan, actual=[turn("a")], expected=[turn("a")])

    assert {request.model for request in services.requests} == {"of-the-settings"}
    assert len(services.requests) == 5


async def test_the_parallelism_limit_bounds_the_concurrent_samples(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    import asyncio

    active = maximum = 0
    original_ask = services.ask
    services.model = lambda _: format_verdict("valid")

    async def ask(request: ModelRequest) -> Any:
        nonlocal active, maximum
        active += 1
        maximum = max(maximum, active)
        await asyncio.sleep(0.01)
        active -= 1
        return await original_ask(request)

    services.ask = ask  # type: ignore[method-assign]
    await judge(config(make_criterion(6, parallelism_limit=2)), actual=[turn("a")] * 2, expected=[turn("a")] * 2)

    assert maximum == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"num_samples": 0}, r"judge_model_options\.num_samples: found 0, expected a whole number from 1 to 100"),
        ({"num_sample": 3}, r"unknown option 'num_sample', expected 'num_samples'"),
        ({"judge_model": 7}, r"judge_model: found 7, expected the name of a model"),
        ({"judgeModelConfig": []}, r"judge_model_config: found a list, expected an object"),
    ],
)
def test_an_invalid_option_is_reported_with_its_place(config: Config, options: dict[str, Any], problem: str) -> None:
    import re

    from workbench.metrics.registry import check_criteria

    problems = check_criteria(config({NAME: {"threshold": 0.5, "judge_model_options": options}}, check=False))

    assert len(problems) == 1
    assert re.search(problem, str(problems[0]))


async def test_an_image_of_the_user_is_a_marker_in_the_prompt_and_a_note_on_the_score(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> str:
        prompts.append(str(request))
        return format_verdict("valid")

    services.model = answer
    parts = [{"text": "What is this?"}, {"inline_data": {"mime_type": "image/png", "data": "aGk="}}]
    shown = turn("A cat.").model_copy(update={"user_content": Content.model_validate({"parts": parts})})

    results = await judge(config(make_criterion(1)), actual=[shown], expected=[shown])

    assert "[image/png, not shown]" in prompts[0]
    assert results[NAME].score == 1.0
    assert results[NAME].hint == "the judge does not see what the user sent beside text: image/png"
