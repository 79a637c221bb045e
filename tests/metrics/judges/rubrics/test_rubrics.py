"""The rubric metrics: the rubrics of a turn, the prompt of the judge, and scores from its verdicts."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelError, ModelRequest, Trouble
from workbench.metrics.registry import check_criteria
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import MetricResult, MetricStatus

ANSWER = "rubric_based_final_response_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
CONVERSATION = "rubric_based_multi_turn_trajectory_quality_v1"
Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
MakeTurn = Callable[..., Invocation]


def make_rubric(rubric_id: str, text: str = "", kind: str | None = None) -> dict[str, Any]:
    return {"rubric_id": rubric_id, "rubric_content": {"text_property": text or f"It is {rubric_id}."}, "type": kind}


def make_criterion(metric: str, *rubrics: dict[str, Any], samples: int = 1) -> dict[str, Any]:
    return {
        metric: {"threshold": 0.7, "rubrics": list(rubrics), "judge_model_options": {"num_samples": samples}},
    }


def format_reply(**verdicts: str) -> str:
    return json.dumps({"properties": [{"id": k, "rationale": f"{k}: {v}", "verdict": v} for k, v in verdicts.items()]})


def answer_by_rubric(**verdicts: str) -> Callable[[ModelRequest], str]:
    """Return a judge that gives a rubric the same verdict in every prompt."""
    return lambda request: format_reply(**{k: v for k, v in verdicts.items() if f"[{k}]" in request.messages[0].text})


async def test_the_score_is_the_share_of_fulfilled_rubrics(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = answer_by_rubric(a="yes", b="no", c="not applicable")

    result = (await judge(config(make_criterion(ANSWER, *map(make_rubric, "abc"))), actual=[turn("hello")]))[ANSWER]

    assert result.score == pytest.approx(2 / 3)
    assert result.status is MetricStatus.FAILED
    judgement = result.per_invocation[0].judgement
    assert judgement is not None
    assert [
        (rubric_score.rubric_id, rubric_score.score, rubric_score.rationale) for rubric_score in judgement.rubrics
    ] == [
        ("a", 1.0, "a: yes"),
        ("b", 0.0, "b: no"),
        ("c", 1.0, "c: not applicable"),
    ]


async def test_the_majority_of_samples_decides_each_rubric_and_a_tie_is_no(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    answers = cycle(
        [
            format_reply(a="yes", b="yes"),
            format_reply(a="yes", b="no"),
            format_reply(a="no", b="yes"),
            format_reply(b="no"),
            "prose",
        ]
    )
    services.model = lambda _: next(answers)

    result = (await judge(config(make_criterion(ANSWER, *map(make_rubric, "ab"), samples=5)), actual=[turn("hello")]))[
        ANSWER
    ]

    judgement = result.per_invocation[0].judgement
    assert judgement is not None
    assert [(rubric_score.score, rubric_score.yes, rubric_score.no) for rubric_score in judgement.rubrics] == [
        (1.0, 2, 1),
        (0.0, 2, 2),
    ]
    assert judgement.rubrics[1].rationale == "b: no"
    assert result.score == 0.5


async def test_a_no_with_an_explanation_counts_as_a_vote(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    block = "ID: a\nRationale: r\nVerdict: {}"
    replies = cycle(block.format(verdict) for verdict in ("No, it is not short.", "No, it is not short.", "yes"))
    services.model = lambda _: next(replies)

    result = (await judge(config(make_criterion(ANSWER, make_rubric("a"), samples=3)), actual=[turn("hello")]))[ANSWER]

    assert (result.score, result.status) == (0.0, MetricStatus.FAILED)


@pytest.mark.parametrize(
    ("quorum", "samples", "readable", "is_judged"),
    [
        *(
            (0.5, 3, 1, False),
            (0.5, 3, 2, True),
            (0.5, 4, 2, True),
            (0.5, 5, 2, False),
            (0.5, 2, 1, True),
            (0.5, 1, 1, True),
        ),
        *((1.0, 3, 2, False), (1.0, 3, 3, True), (0.1, 3, 1, True), (0.07, 100, 7, True)),
    ],
)
async def test_a_verdict_needs_a_quorum_of_samples(
    config: Config,
    judge: Judge,
    turn: MakeTurn,
    services: Services,
    quorum: float,
    samples: int,
    readable: int,
    is_judged: bool,
) -> None:
    outage = ModelError(Trouble.UNAVAILABLE, "503 from the model")
    services.model = lambda request: format_reply(a="yes") if request.sample < readable else outage
    criteria = config(make_criterion(ANSWER, make_rubric("a"), samples=samples)).model_copy(update={"quorum": quorum})

    result = (await judge(criteria, actual=[turn("hello")]))[ANSWER]

    assert result.status is (MetricStatus.PASSED if is_judged else MetricStatus.ERROR)
    assert result.has_outage is not is_judged
    if not is_judged:
        start = f"not judged: {readable} of {samples} samples could be read, needs "
        assert result.reason is not None
        assert result.reason.startswith(start)
        assert result.reason.endswith(": 503 from the model")
    elif readable < samples:
        assert result.missing_samples == (readable, samples, 1)
    else:
        assert result.missing_samples is None


async def test_each_rubric_needs_a_quorum(config: Config, judge: Judge, turn: MakeTurn, services: Services) -> None:
    answers = cycle([format_reply(a="yes", b="yes"), format_reply(a="yes"), format_reply(a="yes")])
    services.model = lambda _: next(answers)

    result = (await judge(config(make_criterion(ANSWER, *map(make_rubric, "ab"), samples=3)), actual=[turn("hello")]))[
        ANSWER
    ]

    assert (result.status, result.reason) == (
        MetricStatus.ERROR,
        "not judged: 1 of 3 samples could be read, needs 2",
    )


async def test_a_rubric_without_any_verdict_is_an_error(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = answer_by_rubric(a="yes")

    result = (await judge(config(make_criterion(ANSWER, *map(make_rubric, "ab"), samples=2)), actual=[turn("hello")]))[
        ANSWER
    ]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert result.reason == "no sample of the judge says anything about 'b'"
    assert not result.has_outage


async def test_each_turn_is_judged_by_rubrics_of_criterion_case_and_turn(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = answer_by_rubric(own="yes", case="yes", first="no", second="yes")
    first = turn("1").model_copy(update={"rubrics": read_rubrics(make_rubric("first", kind="TOOL_USE_QUALITY"))})
    second = turn("2").model_copy(update={"rubrics": read_rubrics(make_rubric("second", kind="tool_use_quality"))})
    case = EvalCase.model_validate({
        "eval_id": "c", "conversation": [],
        "rubrics": [make_rubric("case", kind="TOOL_USE_QUALITY"), make_rubric("other", kind="FINAL_RESPONSE_QUALITY")],
    })  # fmt: skip

    results = await judge(
        config(make_criterion(TOOLS, make_rubric("own"))),
        actual=[turn("1"), turn("2")],
        expected=[first, second],
        case=case,
    )

    result = results[TOOLS]
    assert [_list_rubric_ids(score) for score in result.per_invocation] == [
        ["own", "case", "first"],
        ["own", "case", "second"],
    ]
    assert result.score == pytest.approx(5 / 6)  # the mean of all rubrics, whichever turn they belong to


async def test_a_conversation_is_judged_once_and_as_a_whole(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = answer_by_rubric(a="yes")

    result = (
        await judge(config(make_criterion(CONVERSATION, make_rubric("a"))), actual=[turn("one"), turn("two", ["f"])])
    )[CONVERSATION]

    assert len(services.requests) == 1
    prompt = services.requests[0].messages[0].text
    assert "AGENT TURN 1: one" in prompt
    assert 'STEP OF TURN 2: {"tool": "f"' in prompt
    assert [score.score for score in result.per_invocation] == [None, 1.0]
    assert result.score == 1.0


async def test_the_judge_sees_instructions_tools_calls_and_response(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    services.model = answer_by_rubric(a="yes")
    details = {"agent_details": {"root": {"instructions": "Be brief.", "tool_declarations": [{"name": "look_up"}]}}}
    invocation = turn("12 EUR", [("look_up", {"what": "price"})]).model_copy(update={"app_details": details})

    await judge(config(make_criterion(TOOLS, make_rubric("a", "It looks the price up."))), actual=[invocation])

    prompt = services.requests[0].messages[0].text
    for text in ("Be brief.", '"look_up"', '{"step": 1, "tool": "look_up", "arguments": {"what": "price"}}', "12 EUR"):
        assert text in prompt
    assert "[a] It looks the price up." in prompt


async def test_call_ids_that_differ_between_runs_do_not_change_the_prompt(
    config: Config, judge: Judge, services: Services
) -> None:
    services.model = answer_by_rubric(a="yes")

    def make_invocation() -> Invocation:
        first, second = (f"adk-{uuid.uuid4()}" for _ in range(2))
        calls = [{"function_call": {"name": "f", "args": {}, "id": call_id}} for call_id in (first, second)]
        answers = [{"function_response": {"name": "f", "response": {}, "id": call_id}} for call_id in (second, first)]
        events = [{"author": "root", "content": {"parts": parts}} for parts in (calls, answers)]
        user_content = {"parts": [{"text": "?"}]}
        return Invocation.model_validate(
            {"user_content": user_content, "intermediate_data": {"invocation_events": events}}
        )

    for _ in range(2):
        await judge(config(make_criterion(TOOLS, make_rubric("a"))), actual=[make_invocation()])

    first, second = (request.messages[0].text for request in services.requests)
    assert first == second
    assert re.findall(r'"step": (\d), .*"id": "([^"]*)"', first) == [
        ("1", "call-1"),
        ("2", "call-2"),
        ("3", "call-2"),
        ("4", "call-1"),
    ]


async def test_without_rubrics_the_reason_says_where_to_add_them(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    result = (await judge(config({ANSWER: 0.5}), actual=[turn("x")]))[ANSWER]

    assert (result.status, result.score) == (MetricStatus.UNDEFINED, None)
    assert "add one to the criterion, or one of type FINAL_RESPONSE_QUALITY to the case or the turn" in (
        result.reason or ""
    )
    assert not services.requests


async def test_rubrics_with_the_same_id_are_an_error(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    case = EvalCase.model_validate(
        {"eval_id": "c", "conversation": [], "rubrics": [make_rubric("a", kind="FINAL_RESPONSE_QUALITY")]}
    )

    result = (await judge(config(make_criterion(ANSWER, make_rubric("a"))), actual=[turn("x")], case=case))[ANSWER]

    assert result.status is MetricStatus.ERROR
    assert "duplicate rubric_id 'a'" in (result.reason or "")


@pytest.mark.parametrize(
    ("rubrics", "problem"),
    [
        ("x", "rubrics: found 'x', expected a list of rubrics"),
        ([{"rubric_id": "a"}], "rubrics[0]: found an object, expected an object with"),
        ([{"rubric_id": "a", "rubric_content": {}}], "rubrics[0].rubric_content.text_property: found no text"),
        ([make_rubric("a"), make_rubric("a")], "rubrics[1].rubric_id: found 'a' once more"),
    ],
)
def test_an_invalid_rubric_is_reported_with_its_place(config: Config, rubrics: Any, problem: str) -> None:
    (reported,) = check_criteria(config({ANSWER: {"threshold": 0.5, "rubrics": rubrics}}, check=False))

    assert problem in str(reported)


def read_rubrics(*rubrics: dict[str, Any]) -> Any:
    return EvalCase.model_validate({"eval_id": "c", "conversation": [], "rubrics": list(rubrics)}).rubrics


def _list_rubric_ids(score: Any) -> list[str]:
    return [rubric_score.rubric_id for rubric_score in score.judgement.rubrics]
