"""Judge metrics of a configuration: the prompt of the judge, and scores from ratings and choices."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelError, Trouble, make_model_error
from workbench.metrics.judges.transcript import VARIABLES
from workbench.metrics.registry import check_criteria, check_inputs, collect_needs, find_info
from workbench.model.criteria import EvalConfig, InvalidConfig
from workbench.model.evalset import Invocation
from workbench.model.results import Execution, Judgement, MetricResult, MetricStatus, TurnResult

Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]
MakeTurn = Callable[..., Invocation]

TWO = {"1": "It is polite.", "0": "It is not."}
FIVE = {str(number): f"{number} of 5" for number in range(1, 6)}
POLITE = {"criteria": {"Politeness": "Says please."}, "rating_rubric": TWO}
BETTER = {
    "kind": "pairwise",
    "criteria": {"Politeness": "Says please."},
    "rating_rubric": {"A": "A is more polite.", "SAME": "Both are.", "B": "B is more polite."},
}
DOWN = make_model_error(Trouble.UNAVAILABLE, "m", "503")


def script_judge(services: Services, *replies: Any) -> None:
    """Let the samples cycle through the replies: ratings, texts or outages."""
    answers = cycle(replies)

    def answer(_: object) -> str | ModelError:
        reply = next(answers)
        if isinstance(reply, int | float):
            return json.dumps({"explanation": f"because {reply}", "score": reply})
        assert isinstance(reply, str | ModelError)
        return reply

    services.model = answer


def make_criteria(name: str = "own", samples: int = 5, threshold: float | None = 0.5) -> dict[str, Any]:
    return {name: {"threshold": threshold, "judge_model_options": {"num_samples": samples}}}


def get_judgement(result: MetricResult) -> Judgement:
    judgement = result.per_invocation[0].judgement
    assert judgement is not None
    return judgement


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        ([1, 1, 0], 1.0),
        ([1, 0, 0], 0.0),
        ([1, 0], 0.0),  # a tie
        ([1, "?"], 1.0),
        ([1, 7, 1], 1.0),  # 7 is not a rating of the rubric, so its sample is ignored
    ],
)
async def test_the_majority_decides_between_two_ratings(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, replies: list[Any], score: float
) -> None:
    script_judge(services, *replies)

    result = (await judge(config(make_criteria(samples=len(replies)), judges={"own": POLITE}), actual=[turn("x")]))[
        "own"
    ]

    assert result.score == score
    assert result.status is (MetricStatus.PASSED if score else MetricStatus.FAILED)


async def test_graded_ratings_are_averaged(config: Config, judge: Judge, turn: MakeTurn, services: Services) -> None:
    script_judge(services, 5, 4, 2, "It deserves a 3, or more.")
    graded_config = config(make_criteria(samples=4, threshold=3.5), judges={"own": {**POLITE, "rating_rubric": FIVE}})

    result = (await judge(graded_config, actual=[turn("x")]))["own"]

    assert result.score == pytest.approx(11 / 3)
    assert result.status is MetricStatus.PASSED
    judgement = get_judgement(result)
    assert (judgement.lowest, judgement.best) == (1.0, 5.0)
    assert judgement.spread == pytest.approx(1.5275, abs=0.001)
    assert [sample.score for sample in judgement.samples] == [5.0, 4.0, 2.0, None]
    info = find_info("own", graded_config)
    assert info is not None
    assert (info.lowest, info.highest) == (1.0, 5.0)


@pytest.mark.parametrize(
    "reply",
    [
        '{"explanation": "e", "score": 4}',
        '```json\n{"score": "4"}\n```',
        '{"Rating": "**4**"}',
        "The tone is fine.\nScore: 4",
        "**Rating:** 4/5",
        "4",
        "4 out of 5",
    ],
)
async def test_a_rating_is_read_in_every_format(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str
) -> None:
    script_judge(services, reply)
    graded_config = config(make_criteria(samples=1), judges={"own": {**POLITE, "rating_rubric": FIVE}})

    assert (await judge(graded_config, actual=[turn("x")]))["own"].score == 4.0


@pytest.mark.parametrize("reply", ["", "I cannot say.", "Score: 4. No, score: 2", '{"score": 9}', '{"score": true}'])
async def test_a_reply_without_a_rating_is_an_error_not_a_zero(
    config: Config, judge: Judge, turn: MakeTurn, services: Services, reply: str
) -> None:
    script_judge(services, reply)
    graded_config = config(make_criteria(samples=1), judges={"own": {**POLITE, "rating_rubric": FIVE}})

    result = (await judge(graded_config, actual=[turn("x")]))["own"]

    assert (result.status, result.score) == (MetricStatus.ERROR, None)
    assert "the reply does not say one of the ratings 1, 2, 3, 4, 5" in (result.reason or "")


async def test_the_prompt_has_all_parts_and_its_inputs_in_a_fixed_order(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, 1)
    metric: dict[str, Any] = {
        **POLITE,
        "instruction": "INSTRUCTION",
        "metric_definition": "DEFINITION",
        "evaluation_steps": {"Step 2": "SECOND", "Step 10": "TENTH"},
        "few_shot_examples": ["EXAMPLE"],
        "input_variables": ["tone", "prompt", "predicted_trajectory", "reference"],
        "system_instruction": "SYSTEM",
    }
    reordered_metric = {**metric, "input_variables": list(reversed(metric["input_variables"]))}
    judge_arguments = {
        "actual": [turn("RESPONSE", [("f", {"x": 1})])],
        "expected": [turn("REFERENCE")],
        "columns": {"tone": {"de": "höflich"}, "predicted_trajectory": [{"tool_name": "f", "tool_input": {"x": 1}}]},
    }

    result = (await judge(config(make_criteria(samples=1), judges={"own": metric}), **judge_arguments))["own"]
    second_result = (
        await judge(config(make_criteria(samples=1), judges={"own": reordered_metric}), **judge_arguments)
    )["own"]

    prompt = get_judgement(result).prompt
    expected_texts = (
        "INSTRUCTION", "DEFINITION", "Politeness: Says please.", "1: It is polite.", "SECOND", "TENTH", "EXAMPLE",
        '<predicted_trajectory>\n[{"tool_name": "f", "tool_input": {"x": 1}}]\n</predicted_trajectory>',
        "<prompt>\n?\n</prompt>", "<reference>\nREFERENCE\n</reference>", '<tone>\n{"de": "höflich"}\n</tone>',
        "<response>\nRESPONSE\n</response>", '"score": 1 or 0',
    )  # fmt: skip
    assert [text for text in expected_texts if text not in prompt] == []
    assert sorted(expected_texts, key=prompt.index) == list(expected_texts)
    assert get_judgement(second_result).prompt == prompt
    assert services.requests[0].system == get_judgement(result).system == "SYSTEM"


async def test_a_value_is_never_expanded_as_a_variable_or_template(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, 1)
    nasty = "{reference} {{ 7 * 7 }} {% if x %} {"
    template = 'Rate {response} beside {reference}, {{as is}}, like {"score": 1}.'

    result = (
        await judge(
            config(
                make_criteria(samples=1), judges={"own": {"metric_prompt_template": template, "rating_rubric": TWO}}
            ),
            actual=[turn(nasty)],
            expected=[turn("REF")],
        )
    )["own"]

    first, *_ = get_judgement(result).prompt.splitlines()
    assert first == f'Rate {nasty} beside REF, {{as is}}, like {{"score": 1}}.'


async def test_a_template_without_a_rubric_accepts_any_number(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, 70, 75.5)
    own = config(
        make_criteria(samples=2, threshold=72), judges={"own": {"metric_prompt_template": "0 to 100: {response}"}}
    )

    result = (await judge(own, actual=[turn("x")]))["own"]

    assert (result.score, result.status) == (72.75, MetricStatus.PASSED)


async def test_every_documented_variable_has_a_value_or_the_score_is_undefined(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, 1)
    all_variables = config(make_criteria(samples=1), judges={"own": {**POLITE, "input_variables": list(VARIABLES)}})
    turns = [turn("one", ["f"]), turn("two")]

    with_reference = (await judge(all_variables, actual=turns, expected=turns))["own"]
    without_reference = (await judge(all_variables, actual=turns))["own"]

    assert with_reference.score == 1.0
    second = with_reference.per_invocation[1].judgement
    assert second is not None
    assert "<history>\nUSER TURN 1: ?" in second.prompt
    assert "AGENT TURN 1: one" in second.prompt
    assert (without_reference.status, without_reference.reason) == (
        MetricStatus.UNDEFINED,
        "the case has no expected response",
    )


def test_an_unknown_variable_is_reported_with_the_nearest_known_one(config: Config) -> None:
    metric = {**POLITE, "input_variables": ["prompt", "referense", "tone"]}
    own = config(make_criteria(), judges={"own": metric, "unused": {**POLITE, "input_variables": ["nothing"]}})

    assert [str(problem) for problem in check_inputs(own, ["tone"])] == [
        "judge_metrics.own.input_variables: found the unknown variable 'referense', "
        "expected 'reference' (did you mean that?)"
    ]
    assert [problem.found for problem in check_inputs(own, [])] == [
        "the unknown variable 'referense'",
        "the unknown variable 'tone'",
    ]
    template = config(make_criteria(), judges={"own": {"metric_prompt_template": "{respons}"}})
    (problem,) = check_inputs(template, [])
    assert problem.place == "judge_metrics.own.metric_prompt_template"
    assert "'response'" in problem.expected


def test_a_pairwise_metric_needs_a_baseline(config: Config) -> None:
    own = config(make_criteria(samples=4), judges={"own": BETTER})
    earlier = config(make_criteria(samples=4), judges={"own": {**BETTER, "baseline": {"run": "latest"}}})

    misnamed = config(make_criteria(samples=4), judges={"own": {**BETTER, "baseline": {"column": "answer_befor"}}})

    (no_baseline,) = check_inputs(own, [])
    (misspelt,) = check_inputs(misnamed, ["answer_before"])

    assert '"baseline": {"run": "latest"}' in no_baseline.expected
    assert misspelt.expected == "'answer_before' (did you mean that?)"
    assert check_inputs(own, ["baseline_model_response"]) == check_inputs(earlier, []) == []
    # A missing default column is reported with the columns that other metrics lack; see the tests of fitting.
    assert check_inputs(own, ["response"]) == []


@pytest.mark.parametrize(
    ("choices", "score", "wins"),
    [
        ("BABA", 1.0, (1.0, 0.0)),  # every second sample swaps A and B: all four prefer the candidate
        ("ABAB", 0.0, (0.0, 1.0)),
        ("BBBB", 0.5, (0.0, 0.0)),  # whichever response is second
        ("SBBS", 0.5, (0.0, 0.0)),
        ("SSSA", 1.0, (1.0, 0.0)),
    ],
)
async def test_the_response_that_most_samples_prefer_wins_in_any_position(
    config: Config,
    judge: Judge,
    turn: MakeTurn,
    services: Services,
    choices: str,
    score: float,
    wins: tuple[float, ...],
) -> None:
    names = {"A": "A", "B": "B", "S": "SAME"}
    script_judge(services, *[json.dumps({"explanation": "e", "pairwise_choice": names[choice]}) for choice in choices])

    results = await judge(
        config(make_criteria(samples=4), judges={"own": BETTER}),
        actual=[turn("NEW")],
        columns={"baseline_model_response": "OLD", "response": "NEW"},
    )

    assert results["own"].score == score
    rates = [results[f"own/{side}_model_win_rate"] for side in ("candidate", "baseline")]
    assert tuple(rate.score for rate in rates) == wins
    assert {rate.status for rate in rates} == {MetricStatus.INFORMATIONAL}
    judgement = get_judgement(results["own"])
    straight, flipped = "<response_a>\nOLD\n</response_a>", "<response_a>\nNEW\n</response_a>"
    prompts = [request.messages[0].text for request in services.requests]
    assert [straight in text for text in prompts] == [True, False, True, False]
    assert [flipped in text for text in prompts] == [False, True, False, True]
    assert [sample.prompt for sample in judgement.samples] == [None, prompts[1], None, prompts[3]]
    assert {sample.label for sample in judgement.samples} <= {"CANDIDATE", "BASELINE", "TIE"}


async def test_without_flipping_the_baseline_is_always_first(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, "Winner: B")
    own = config(make_criteria(samples=3), judges={"own": {**BETTER, "flip": False, "baseline": {"column": "old"}}})

    results = await judge(own, actual=[turn("NEW")], columns={"old": "OLD", "response": "NEW"})

    assert results["own"].score == 1.0
    assert all("<response_a>\nOLD" in request.messages[0].text for request in services.requests)


async def test_the_responses_in_a_template_are_flipped_too(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, '{"pairwise_choice": "CANDIDATE"}', '{"pairwise_choice": "BASELINE"}')
    template = "First: {baseline_model_response} Second: {response}"
    own = config(make_criteria(samples=2), judges={"own": {"kind": "pairwise", "metric_prompt_template": template}})

    results = await judge(own, actual=[turn("NEW")], columns={"baseline_model_response": "OLD", "response": "NEW"})

    assert results["own"].score == 1.0
    assert [request.messages[0].text.splitlines()[0] for request in services.requests] == [
        "First: OLD Second: NEW",
        "First: NEW Second: OLD",
    ]


async def test_a_run_is_compared_with_an_earlier_run_but_never_with_itself(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, "B", "A")
    own = config(make_criteria(samples=2), judges={"own": {**BETTER, "baseline": {"run": "latest"}}})
    actual = [turn("new 1"), turn("new 2")]
    itself = Execution(turns=tuple(TurnResult(invocation=invocation, duration_seconds=0.25) for invocation in actual))
    before = Execution(turns=(TurnResult(invocation=turn("old 1"), duration_seconds=1.0),))

    with_earlier_run = await judge(own, actual=actual, baselines={"own": [itself, before]})
    with_itself_only = await judge(own, actual=actual, baselines={"own": [itself]})

    first, second = with_earlier_run["own"].per_invocation
    assert (first.score, second.score) == (1.0, None)
    assert second.reason == "the earlier run has no turn 2"
    assert (with_itself_only["own"].status, with_itself_only["own"].score) == (MetricStatus.UNDEFINED, None)
    assert "no earlier run" in (with_itself_only["own"].reason or "")
    assert with_itself_only["own/candidate_model_win_rate"].score is None


def test_flipping_needs_an_even_number_of_samples(config: Config) -> None:
    (problem,) = check_criteria(config(make_criteria(samples=5), judges={"own": BETTER}, check=False))

    assert problem.place == "criteria.own.judge_model_options.num_samples"
    assert "an even number" in problem.expected


async def test_a_pairwise_metric_has_four_samples_by_default(
    config: Config, judge: Judge, turn: MakeTurn, services: Services
) -> None:
    script_judge(services, "SAME")
    own = config({"own": 0.5}, judges={"own": BETTER})

    await judge(own, actual=[turn("x")], columns={"baseline_model_response": "y"})

    assert len(services.requests) == 4
    assert collect_needs(own) == {"judge"}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ({"metric_prompt_template": "Is it good? {{response}}"}, "{response} where the text belongs"),
        ({"kind": "pairwise", "metric_prompt_template": "{response}"}, "{baseline_model_response} where"),
    ],
)
def test_a_template_without_the_responses_is_refused(config: Config, metric: dict[str, Any], expected: str) -> None:
    (problem,) = check_criteria(config({"own": 0.5}, judges={"own": metric}, check=False))

    assert problem.place == "judge_metrics.own.metric_prompt_template"
    assert expected in problem.expected


def test_camel_case_is_read_too(config: Config) -> None:
    metric = {"criteria": {"a": "b"}, "ratingRubric": TWO, "inputVariables": ["response"]}

    assert config({"own": 0.5}, judges={"own": metric}).judge_metrics["own"].input_variables == ("response",)


def test_a_misspelt_criterion_finds_the_judge_metric(config: Config) -> None:
    (problem,) = check_criteria(config({"politness": 0.5}, judges={"politeness": POLITE}, check=False))

    assert "'politeness'" in problem.expected


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ("text", "judge_metrics.own: found 'text', expected an object that defines a judge metric"),
        ({}, "judge_metrics.own.criteria: found nothing, expected criteria and rating_rubric, or"),
        ({**POLITE, "rating_rubric": {}}, "judge_metrics.own.rating_rubric: found an empty object"),
        ({"criteria": {"a": "b"}}, "judge_metrics.own.rating_rubric: found nothing"),
        ({**POLITE, "rating_rubic": {}}, "unknown key 'rating_rubic', expected one of .*did you mean 'rating_rubric'"),
        ({**POLITE, "rating_rubric": {"good": "g", "1": "b"}}, "rating_rubric.good: found 'good', expected a number"),
        ({**POLITE, "rating_rubric": {"1": "g"}}, "found 1 rating, expected at least two"),
        ({**POLITE, "rating_rubric": {"1": "g", "1.0": "b"}}, "rating_rubric.1.0: found '1' once more"),
        ({**POLITE, "criteria": {"a": ""}}, "judge_metrics.own.criteria.a: found '', expected a text"),
        ({**POLITE, "criteria": []}, "judge_metrics.own.criteria: found a list, expected an object with a text"),
        ({**POLITE, "input_variables": "prompt"}, "input_variables: found 'prompt', expected a list of texts"),
        ({**POLITE, "kind": "listwise"}, "own.kind: found 'listwise', expected \"pointwise\" or \"pairwise\""),
        ({**POLITE, "flip": True}, "own.flip: found True, expected this key only if \"kind\" is \"pairwise\""),
        ({**POLITE, "metric_prompt_template": "{response}"}, "found both criteria and metric_prompt_template"),
        ({**BETTER, "rating_rubric": {"1": "x"}}, "rating_rubric.1: found '1', expected one of A, SAME, B"),
        ({**BETTER, "baseline": "latest"}, "own.baseline: found 'latest', expected {\"column\""),
        ({**BETTER, "baseline": {"run": 7}}, "own.baseline: found run: 7"),
        ({**BETTER, "flip": "yes"}, "own.flip: found 'yes', expected true or false"),
    ],
)  # fmt: skip
def test_an_invalid_definition_is_reported_with_its_place(config: Config, metric: Any, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        config({"own": 0.5}, judges={"own": metric})


def test_a_name_may_be_defined_only_once(config: Config) -> None:
    with pytest.raises(InvalidConfig, match=r"judge_metrics\.own: found the name of a custom metric"):
        config({"own": 0.5}, judges={"own": POLITE}, custom={"own": "pkg.own"})
