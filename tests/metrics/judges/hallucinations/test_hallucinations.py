"""hallucinations_v1: what is checked against what, and how labels become scores."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelError, ModelRequest, Trouble, make_model_error
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.results import Judgement, MetricResult, MetricStatus

NAME = "hallucinations_v1"
Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
MakeTurn = Callable[..., Invocation]
DOWN = make_model_error(Trouble.UNAVAILABLE, "m", "503")


def criterion(samples: int = 1, **options: Any) -> dict[str, Any]:
    return {NAME: {"threshold": 0.5, "judge_model_options": {"num_samples": samples}, **options}}


def split(request: ModelRequest) -> str:
    """Sentences end with a full stop."""
    responses = re.findall(r'<response number="\d+">\n(.*?)\n</response>', request.messages[0].text, re.DOTALL)
    return json.dumps(
        {
            "responses": [
                {"number": number, "sentences": re.findall(r"[^.]+\.", text)}
                for number, text in enumerate(responses, start=1)
            ]
        }
    )


def labels(*said: str) -> str:
    return json.dumps(
        {"sentences": [{"number": n, "label": word, "rationale": f"r{n}"} for n, word in enumerate(said, start=1)]}
    )


def is_split(request: ModelRequest) -> bool:
    return "<response number=" in request.messages[0].text


def judge_says(services: Services, *replies: str | ModelError) -> None:
    """Responses are split by full stops; samples answer one after the other, over and over."""
    answers = cycle(replies)
    services.model = lambda request: split(request) if is_split(request) else next(answers)


def judgement_of(result: MetricResult, turn: int = 0) -> Judgement:
    judgement = result.per_invocation[turn].judgement
    assert judgement is not None
    return judgement


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (["supported", "supported"], 1.0),
        (["supported", "not_applicable"], 1.0),
        (["supported", "unsupported"], 0.5),
        (["contradictory", "disputed"], 0.0),
    ],
)
async def test_the_score_is_the_share_of_sentences_that_may_stand(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, said: Sequence[str], score: float
) -> None:
    judge_says(services, labels(*said))

    result = (await judge(config(criterion()), actual=[turn("One. Two.")]))[NAME]

    assert result.score == score
    sentences = judgement_of(result).sentences
    assert [(each.sentence.strip(), each.label, each.rationale) for each in sentences] == [
        ("One.", said[0], "r1"),
        ("Two.", said[1], "r2"),
    ]


@pytest.mark.parametrize(
    ("replies", "label", "score"),
    [
        (["supported", "supported", "unsupported"], "supported", 1.0),
        (["supported", "unsupported", "contradictory"], "unsupported", 0.0),
        (["supported", "unsupported"], "unsupported", 0.0),  # a tie
        (["disputed", "contradictory", "contradictory", "supported", "supported"], "contradictory", 0.0),
        (["supported", "?", "?"], "supported", None),  # one of three is no verdict
        (["supported", "?", "supported"], "supported", 1.0),
        (["supported", "down", "unsupported"], "unsupported", 0.0),
    ],
)
async def test_each_sentence_goes_by_the_majority_of_its_samples(
    config: Config,
    judge: Judge,
    turn: MakeTurn,
    services: Services,
    replies: list[str],
    label: str,
    score: float | None,
) -> None:
    judge_says(services, *[DOWN if word == "down" else "hm" if word == "?" else labels(word) for word in replies])

    result = (await judge(config(criterion(len(replies))), actual=[turn("One.")]))[NAME]

    assert result.score == score
    (sentence,) = judgement_of(result).sentences
    assert sentence.label == label
    assert sum(sentence.votes.values()) == sum(word not in ("?", "down") for word in replies)
    assert len(services.asked) == 1 + len(replies)  # split once, so that all samples are about the same sentences


async def test_how_far_samples_are_apart_is_kept(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    judge_says(services, labels("supported", "supported"), labels("supported", "unsupported"))

    result = (await judge(config(criterion(2)), actual=[turn("One. Two.")]))[NAME]

    assert [sample.score for sample in judgement_of(result).samples] == [1.0, 0.5]
    assert judgement_of(result).spread == pytest.approx(0.3535, abs=1e-3)


async def test_prompts_and_replies_of_both_steps_are_kept(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    judge_says(services, labels("supported"))

    judgement = judgement_of((await judge(config(criterion()), actual=[turn("One.")]))[NAME])

    assert judgement.preparation is not None
    assert '<response number="1">\nOne.' in judgement.preparation.prompt
    assert json.loads(judgement.preparation.tries[0].reply)["responses"][0]["sentences"] == ["One."]
    assert "[1] One." in judgement.prompt
    assert json.loads(judgement.samples[0].reply)["sentences"][0]["label"] == "supported"


async def test_what_was_said_in_earlier_turns_is_part_of_the_context(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    judge_says(services, labels("supported"))
    first = turn("Hello.", [("look_up", {"what": "price"})]).model_copy(
        update={"user_content": turn("My name is Bo.").final_response}
    )

    await judge(config(criterion()), actual=[first, turn("You are Bo.")])

    prompt = services.asked[-1].messages[0].text
    context = prompt[prompt.index("<context>") : prompt.index("</context>")].splitlines()[1:]
    assert context == [
        "TURN 1 USER: My name is Bo.",
        'TURN 1 TOOL CALL: {"tool": "look_up", "arguments": {"what": "price"}}',
        "TURN 1 AGENT: Hello.",
        "TURN 2 USER: ?",
        "TURN 2 RESPONSE 1 WAS GIVEN HERE",
    ]


def on_the_way() -> Invocation:
    events = [
        {"author": "root", "content": {"parts": [{"text": "I look."}, {"function_call": {"name": "f", "args": {}}}]}},
        {"author": "root", "content": {"parts": [{"function_response": {"name": "f", "response": {"x": 1}}}]}},
        {"author": "root", "grounding_metadata": {"chunks": ["web"]}},
    ]
    return Invocation.model_validate(
        {
            "user_content": {"parts": [{"text": "?"}]},
            "final_response": {"parts": [{"text": "hidden", "thought": True}, {"text": "It is 1. It is 2."}]},
            "intermediate_data": {"invocation_events": events},
            "app_details": {"agent_details": {"root": {"instructions": "Be {{ brief }}."}}},
        }
    )


async def test_what_was_said_on_the_way_is_checked_where_that_is_wanted(
    config: Config, judge: Judge, services: Services
) -> None:
    judge_says(services, labels("not_applicable", "supported", "unsupported"))

    result = (await judge(config(criterion(evaluate_intermediate_nl_responses=True)), actual=[on_the_way()]))[NAME]

    assert result.score == 0.75  # the mean of two responses, not of three sentences
    assert [each.response for each in judgement_of(result).sentences] == [1, 2, 2]
    prompt = judgement_of(result).prompt
    assert prompt.index("RESPONSE 1 WAS") < prompt.index("TOOL ANSWER") < prompt.index("RESPONSE 2 WAS")
    for shown in ("Be {{ brief }}.", 'TURN 1 GROUNDING: {"chunks": ["web"]}', "(response 2) It is 1."):
        assert shown in prompt
    assert "hidden" not in prompt


async def test_otherwise_it_is_no_evidence_and_not_checked(config: Config, judge: Judge, services: Services) -> None:
    judge_says(services, labels("supported", "unsupported"))

    result = (await judge(config(criterion()), actual=[on_the_way()]))[NAME]

    assert result.score == 0.5
    assert "TURN 1 AGENT root: I look." in judgement_of(result).prompt


async def test_the_case_is_the_mean_of_its_turns_with_words(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = lambda request: (
        split(request)
        if is_split(request)
        else labels(*["supported"] * 3)
        if "[3]" in request.messages[0].text
        else labels("unsupported")
    )

    result = (await judge(config(criterion()), actual=[turn("A. B. C."), turn("D."), turn("!"), turn(None)]))[NAME]

    assert (result.score, result.scored, result.total) == (0.5, 2, 4)
    assert result.per_invocation[2].reason == "the responses of the turn have no text to check"


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (["I cannot say."], "the reply does not say a label for each sentence: I cannot say."),
        ([labels("supported")], "no sample of the judge says anything about the sentences 2"),
        ([DOWN], "m: the service cannot be reached"),
    ],
)
async def test_a_sentence_that_no_sample_labels_is_an_error_and_no_zero(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, replies: list[str | ModelError], reason: str
) -> None:
    judge_says(services, *replies)

    result = (await judge(config(criterion(2)), actual=[turn("One. Two.")]))[NAME]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert (result.reason or "").startswith(reason)
    assert result.has_outage == (replies == [DOWN])


async def test_a_split_that_is_no_use_is_asked_for_again_as_often_as_there_are_samples(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    splits: Iterator[Any] = cycle(
        ["prose", make_model_error(Trouble.EMPTY, "m", ""), '{"responses": [{"number": 1, "sentences": ["One."]}]}']
    )
    services.model = lambda request: next(splits) if is_split(request) else labels("supported")

    result = (await judge(config(criterion(3)), actual=[turn("One.")]))[NAME]

    assert result.score == 1.0
    preparation = judgement_of(result).preparation
    assert preparation is not None
    assert [each.problem is None for each in preparation.tries] == [False, False, True]
    assert [request.sample for request in services.asked if is_split(request)] == [0, 1, 2]


@pytest.mark.parametrize(("reply", "tries"), [("prose", 2), (DOWN, 1), (make_model_error(Trouble.NO_KEY, "m", ""), 1)])
async def test_without_a_split_there_is_an_error_that_keeps_what_was_said(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str | ModelError, tries: int
) -> None:
    services.model = lambda _: reply

    result = (await judge(config(criterion(2)), actual=[turn("One.")]))[NAME]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert result.has_outage == isinstance(reply, ModelError)
    preparation = judgement_of(result).preparation
    assert preparation is not None
    assert len(preparation.tries) == tries
