"""hallucinations_v1: the checked text, its context, and scores from labels."""

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


def make_criterion(samples: int = 1, **options: Any) -> dict[str, Any]:
    return {NAME: {"threshold": 0.5, "judge_model_options": {"num_samples": samples}, **options}}


def split_responses(request: ModelRequest) -> str:
    """Return a reply that splits the responses at full stops."""
    responses = re.findall(r'<response number="\d+">\n(.*?)\n</response>', request.messages[0].text, re.DOTALL)
    return json.dumps(
        {
            "responses": [
                {"number": number, "sentences": re.findall(r"[^.]+\.", text)}
                for number, text in enumerate(responses, start=1)
            ]
        }
    )


def format_labels(*words: str) -> str:
    return json.dumps(
        {"sentences": [{"number": n, "label": word, "rationale": f"r{n}"} for n, word in enumerate(words, start=1)]}
    )


def is_split(request: ModelRequest) -> bool:
    return "<response number=" in request.messages[0].text


def script_judge(services: Services, *replies: str | ModelError) -> None:
    """Split responses at full stops; the samples cycle through the replies."""
    answers = cycle(replies)
    services.model = lambda request: split_responses(request) if is_split(request) else next(answers)


def get_judgement(result: MetricResult, turn: int = 0) -> Judgement:
    judgement = result.per_invocation[turn].judgement
    assert judgement is not None
    return judgement


@pytest.mark.parametrize(
    ("labels", "score"),
    [
        (["supported", "supported"], 1.0),
        (["supported", "not_applicable"], 1.0),
        (["supported", "unsupported"], 0.5),
        (["contradictory", "disputed"], 0.0),
    ],
)
async def test_the_score_is_the_share_of_supported_sentences(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, labels: Sequence[str], score: float
) -> None:
    script_judge(services, format_labels(*labels))

    result = (await judge(config(make_criterion()), actual=[turn("One. Two.")]))[NAME]

    assert result.score == score
    sentences = get_judgement(result).sentences
    assert [(sentence.sentence.strip(), sentence.label, sentence.rationale) for sentence in sentences] == [
        ("One.", labels[0], "r1"),
        ("Two.", labels[1], "r2"),
    ]


@pytest.mark.parametrize(
    ("replies", "label", "score"),
    [
        (["supported", "supported", "unsupported"], "supported", 1.0),
        (["supported", "unsupported", "contradictory"], "unsupported", 0.0),
        (["supported", "unsupported"], "unsupported", 0.0),  # a tie
        (["disputed", "contradictory", "contradictory", "supported", "supported"], "contradictory", 0.0),
        (["supported", "?", "?"], "supported", None),  # one of three gives no verdict
        (["supported", "?", "supported"], "supported", 1.0),
        (["supported", "down", "unsupported"], "unsupported", 0.0),
    ],
)
async def test_the_majority_of_samples_decides_each_sentence(
    config: Config,
    judge: Judge,
    turn: MakeTurn,
    services: Services,
    replies: list[str],
    label: str,
    score: float | None,
) -> None:
    script_judge(
        services, *[DOWN if word == "down" else "hm" if word == "?" else format_labels(word) for word in replies]
    )

    result = (await judge(config(make_criterion(len(replies))), actual=[turn("One.")]))[NAME]

    assert result.score == score
    (sentence,) = get_judgement(result).sentences
    assert sentence.label == label
    assert sum(sentence.votes.values()) == sum(word not in ("?", "down") for word in replies)
    assert len(services.requests) == 1 + len(replies)  # one split, so that all samples judge the same sentences


async def test_the_spread_of_the_samples_is_stored(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, format_labels("supported", "supported"), format_labels("supported", "unsupported"))

    result = (await judge(config(make_criterion(2)), actual=[turn("One. Two.")]))[NAME]

    assert [sample.score for sample in get_judgement(result).samples] == [1.0, 0.5]
    assert get_judgement(result).spread == pytest.approx(0.3535, abs=1e-3)


async def test_prompts_and_replies_of_both_steps_are_stored(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, format_labels("supported"))

    judgement = get_judgement((await judge(config(make_criterion()), actual=[turn("One.")]))[NAME])

    assert judgement.preparation is not None
    assert '<response number="1">\nOne.' in judgement.preparation.prompt
    assert json.loads(judgement.preparation.tries[0].reply)["responses"][0]["sentences"] == ["One."]
    assert "[1] One." in judgement.prompt
    assert json.loads(judgement.samples[0].reply)["sentences"][0]["label"] == "supported"


async def test_earlier_turns_are_part_of_the_context(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, format_labels("supported"))
    first = turn("Hello.", [("look_up", {"what": "price"})]).model_copy(
        update={"user_content": turn("My name is Bo.").final_response}
    )

    await judge(config(make_criterion()), actual=[first, turn("You are Bo.")])

    prompts = [request.messages[0].text for request in services.requests]  # in any order
    [prompt] = [prompt for prompt in prompts if "TURN 2 RESPONSE 1" in prompt]
    context = prompt[prompt.index("<context>") : prompt.index("</context>")].splitlines()[1:]
    assert context == [
        "TURN 1 USER: My name is Bo.",
        'TURN 1 TOOL CALL: {"tool": "look_up", "arguments": {"what": "price"}}',
        "TURN 1 AGENT: Hello.",
        "TURN 2 USER: ?",
        "TURN 2 RESPONSE 1 WAS GIVEN HERE",
    ]


def make_turn_with_steps() -> Invocation:
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


async def test_intermediate_responses_are_checked_on_request(config: Config, judge: Judge, services: Services) -> None:
    script_judge(services, format_labels("not_applicable", "supported", "unsupported"))

    result = (
        await judge(config(make_criterion(evaluate_intermediate_nl_responses=True)), actual=[make_turn_with_steps()])
    )[NAME]

    assert result.score == 0.75  # the mean of two responses, not of three sentences
    assert [sentence.response for sentence in get_judgement(result).sentences] == [1, 2, 2]
    prompt = get_judgement(result).prompt
    assert prompt.index("RESPONSE 1 WAS") < prompt.index("TOOL ANSWER") < prompt.index("RESPONSE 2 WAS")
    for text in ("Be {{ brief }}.", 'TURN 1 GROUNDING: {"chunks": ["web"]}', "(response 2) It is 1."):
        assert text in prompt
    assert "hidden" not in prompt


async def test_intermediate_responses_are_not_checked_by_default(
    config: Config, judge: Judge, services: Services
) -> None:
    script_judge(services, format_labels("supported", "unsupported"))

    result = (await judge(config(make_criterion()), actual=[make_turn_with_steps()]))[NAME]

    assert result.score == 0.5
    assert "TURN 1 AGENT root: I look." in get_judgement(result).prompt


async def test_the_score_of_a_case_is_the_mean_of_its_turns_with_text(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = lambda request: (
        split_responses(request)
        if is_split(request)
        else format_labels(*["supported"] * 3)
        if "[3]" in request.messages[0].text
        else format_labels("unsupported")
    )

    result = (await judge(config(make_criterion()), actual=[turn("A. B. C."), turn("D."), turn("!"), turn(None)]))[NAME]

    assert (result.score, result.scored, result.total) == (0.5, 2, 4)
    assert result.per_invocation[2].reason == "the responses of the turn have no text to check"


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (["I cannot say."], "the reply does not say a label for each sentence: I cannot say."),
        ([format_labels("supported")], "no sample of the judge says anything about the sentences 2"),
        ([DOWN], "m: the service cannot be reached"),
    ],
)
async def test_a_sentence_without_a_label_is_an_error_not_a_zero(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, replies: list[str | ModelError], reason: str
) -> None:
    script_judge(services, *replies)

    result = (await judge(config(make_criterion(2)), actual=[turn("One. Two.")]))[NAME]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert (result.reason or "").startswith(reason)
    assert result.has_outage == (replies == [DOWN])


async def test_an_unusable_split_is_requested_again_once_per_sample(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    splits: Iterator[Any] = cycle(
        ["prose", make_model_error(Trouble.EMPTY, "m", ""), '{"responses": [{"number": 1, "sentences": ["One."]}]}']
    )
    services.model = lambda request: next(splits) if is_split(request) else format_labels("supported")

    result = (await judge(config(make_criterion(3)), actual=[turn("One.")]))[NAME]

    assert result.score == 1.0
    preparation = get_judgement(result).preparation
    assert preparation is not None
    assert [attempt.problem is None for attempt in preparation.tries] == [False, False, True]
    assert [request.sample for request in services.requests if is_split(request)] == [0, 1, 2]


@pytest.mark.parametrize(("reply", "tries"), [("prose", 2), (DOWN, 1), (make_model_error(Trouble.NO_KEY, "m", ""), 1)])
async def test_without_a_split_the_result_is_an_error_with_the_replies(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str | ModelError, tries: int
) -> None:
    services.model = lambda _: reply

    result = (await judge(config(make_criterion(2)), actual=[turn("One.")]))[NAME]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert result.has_outage == isinstance(reply, ModelError)
    preparation = get_judgement(result).preparation
    assert preparation is not None
    assert len(preparation.tries) == tries
