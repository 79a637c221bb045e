"""Prompts of judges and simulated users, compared with those of ADK. Each field holds a unique word."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.metrics.conftest import Services
from workbench.llm.model_types import ModelRequest
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import MetricResult, TurnResult
from workbench.simulation.users import format_history

pytestmark = pytest.mark.needs_adk

ANSWER = "rubric_based_final_response_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
CONVERSATION = "rubric_based_multi_turn_trajectory_quality_v1"
HALLUCINATIONS = "hallucinations_v1"
MATCH = "final_response_match_v2"
USER_QUALITY = "per_turn_user_simulator_quality_v1"
OF_CONVERSATION = ("multi_turn_task_success_v1", "multi_turn_trajectory_quality_v1", "multi_turn_tool_use_quality_v1")

Config = Callable[..., EvalConfig]
Judge = Callable[..., Awaitable[Mapping[str, MetricResult]]]

RUBRIC = {"rubric_id": "WrubricidW", "rubric_content": {"text_property": "WrubrictextW holds."}}
SCENARIO = {"starting_prompt": "W1userW", "conversation_plan": "WplanW"}


def make_word(*names: object) -> str:
    return f"W{''.join(map(str, names))}W"


def make_call(turn: int, name: str) -> dict[str, Any]:
    words = {part: make_word(turn, name, part) for part in ("name", "arg", "value", "id")}
    return {"function_call": {"name": words["name"], "args": {words["arg"]: words["value"]}, "id": words["id"]}}


def make_response(turn: int, name: str) -> dict[str, Any]:
    result = {make_word(turn, name, "key"): make_word(turn, name, "given")}
    return {
        "function_response": {
            "name": make_word(turn, name, "name"),
            "response": result,
            "id": make_word(turn, name, "id"),
        }
    }


def make_details(turn: int, agent: str) -> dict[str, Any]:
    declaration = {
        "name": make_word(turn, agent, "toolname"),
        "description": make_word(turn, agent, "toolabout"),
        "parameters_json_schema": {
            "type": "object",
            "properties": {make_word(turn, agent, "toolarg"): {"type": "string"}},
        },
    }
    return {
        "name": make_word(agent),
        "instructions": f"{make_word(turn, agent, 'told')}: the balance is {turn}.",
        "tool_declarations": [{"function_declarations": [declaration]}],
    }


def make_grounding(turn: int) -> dict[str, Any]:
    return {"grounding_chunks": [{"web": {"uri": make_word(turn, "uri"), "title": make_word(turn, "title")}}]}


def make_invocation(turn: int) -> dict[str, Any]:
    """Return a turn: one agent makes two parallel calls and transfers to another, which searches and answers."""
    root, helper = make_word("root"), make_word("helper")
    events = [
        {
            "author": root,
            "content": {"role": "model", "parts": [{"text": make_word(turn, "early")}, make_call(turn, "a")]},
        },
        {"author": root, "content": {"role": "user", "parts": [make_response(turn, "a")]}},
        {"author": root, "content": {"role": "model", "parts": [make_call(turn, "b"), make_call(turn, "c")]}},
        {"author": root, "content": {"role": "user", "parts": [make_response(turn, "c"), make_response(turn, "b")]}},
        {"author": helper, "content": {"role": "model", "parts": [{"text": make_word(turn, "late")}]}},
        {"author": helper, "grounding_metadata": make_grounding(turn)},
    ]
    return {
        "invocation_id": make_word(turn, "invocation"),
        "user_content": {"role": "user", "parts": [{"text": make_word(turn, "user")}]},
        "final_response": {"role": "model", "parts": [{"text": make_word(turn, "final")}]},
        "intermediate_data": {"invocation_events": events},
        "app_details": {"agent_details": {make_word(name): make_details(turn, name) for name in ("root", "helper")}},
    }


TURNS = [make_invocation(turn) for turn in (1, 2, 3)]


def find_words(*texts: str) -> set[str]:
    return {word for text in texts for word in re.findall(r"W\w*?W", text)}


def make_criterion(**options: Any) -> dict[str, Any]:
    return {"threshold": 0.5, "judge_model_options": {"num_samples": 1}, **options}


def make_reply(request: ModelRequest) -> str:
    """Answer the prompt of any metric: with sentences, properties, labels or verdicts."""
    responses = re.findall(r'<response number="(\d+)">\n(.*?)\n</response>', request.messages[0].text, re.DOTALL)
    rubric = {"id": "WrubricidW", "verdict": "yes", "rationale": ""}
    if responses:
        return json.dumps({"responses": [{"number": int(n), "sentences": [text]} for n, text in responses]})
    if "<sentences>" in request.messages[0].text:
        return json.dumps({"sentences": [{"number": number, "label": "supported"} for number in range(1, 5)]})
    if "<properties>" in request.messages[0].text:
        return json.dumps({"properties": [rubric, {**rubric, "id": "p1"}]})
    return json.dumps({"properties": ["WfoundW"], "verdict": "valid"})


@pytest.fixture
def prompts(config: Config, judge: Judge, services: Services) -> Callable[..., Awaitable[list[str]]]:
    """Return a function that collects the prompts of a metric in the order of the turns."""

    async def collect(metric: str, **options: Any) -> list[str]:
        services.model = make_reply
        scenario: dict[str, Any] = (
            {"conversation_scenario": SCENARIO} if metric == USER_QUALITY else {"conversation": []}
        )
        await judge(
            config({metric: make_criterion(**options)}),
            actual=[Invocation.model_validate(turn) for turn in TURNS],
            expected=[Invocation.model_validate(turn) for turn in TURNS],
            case=EvalCase.model_validate({"eval_id": "c", **scenario}),
        )
        texts = [request.messages[0].text for request in services.requests]
        return sorted(texts, key=lambda text: max(int(number) for number in re.findall(r"W(\d)user", text) or [0]))

    return collect


def make_adk_invocations() -> list[Any]:
    from google.adk.evaluation.eval_case import Invocation as AdkInvocation
    from google.genai import types

    turns = [AdkInvocation.model_validate(turn) for turn in TURNS]
    for turn in turns:  # as in a run
        for agent in turn.app_details.agent_details.values():
            agent.tool_declarations = [types.Tool.model_validate(tool) for tool in agent.tool_declarations]
    return turns


def make_adk_evaluator(evaluator: type[Any], criterion: type[Any], metric: str, **options: Any) -> Any:
    from google.adk.evaluation.eval_metrics import EvalMetric

    adk_criterion = criterion.model_validate(make_criterion(**options))
    return evaluator(EvalMetric(metric_name=metric, threshold=0.5, criterion=adk_criterion))


def make_adk_rubric_evaluator(evaluator: type[Any], metric: str, **options: Any) -> Any:
    from google.adk.evaluation.eval_metrics import RubricsBasedCriterion

    return make_adk_evaluator(evaluator, RubricsBasedCriterion, metric, rubrics=[RUBRIC], **options)


@pytest.mark.parametrize("with_intermediate", [False, True])
async def test_the_judge_of_answers_sees_everything_that_adk_shows(
    prompts: Callable[..., Awaitable[list[str]]], with_intermediate: bool
) -> None:
    from google.adk.evaluation.rubric_based_final_response_quality_v1 import RubricBasedFinalResponseQualityV1Evaluator

    options = {"include_intermediate_responses_in_final": with_intermediate}
    adk = make_adk_rubric_evaluator(RubricBasedFinalResponseQualityV1Evaluator, ANSWER, **options)
    adk_prompts = [adk.format_auto_rater_prompt(turn, None) for turn in make_adk_invocations()]

    own_prompts = await prompts(ANSWER, rubrics=[RUBRIC], **options)

    assert_shown(adk_prompts, own_prompts)
    answers = [
        find_words(re.findall(r"<final_answer>(.*?)</final_answer>", text, re.DOTALL)[-1]) for text in own_prompts
    ]
    assert answers == [
        {make_word(turn, "final"), *([make_word(turn, "early"), make_word(turn, "late")] if with_intermediate else [])}
        for turn in (1, 2, 3)
    ]


async def test_the_judge_of_tool_use_sees_everything_that_adk_shows(
    prompts: Callable[..., Awaitable[list[str]]],
) -> None:
    from google.adk.evaluation.rubric_based_tool_use_quality_v1 import RubricBasedToolUseV1Evaluator

    adk = make_adk_rubric_evaluator(RubricBasedToolUseV1Evaluator, TOOLS)

    own_prompts = await prompts(TOOLS, rubrics=[RUBRIC])

    assert_shown([adk.format_auto_rater_prompt(turn, None) for turn in make_adk_invocations()], own_prompts)


async def test_the_judge_of_conversations_sees_everything_that_adk_shows(
    prompts: Callable[..., Awaitable[list[str]]],
) -> None:
    from google.adk.evaluation.rubric_based_multi_turn_trajectory_evaluator import (
        RubricBasedMultiTurnTrajectoryEvaluator,
    )

    adk = make_adk_rubric_evaluator(RubricBasedMultiTurnTrajectoryEvaluator, CONVERSATION)
    invocations = make_adk_invocations()
    adk._assemble_dialogue_history(invocations)
    adk_prompts = [adk.format_auto_rater_prompt(invocations[-1], None)]

    own_prompts = await prompts(CONVERSATION, rubrics=[RUBRIC])

    assert_shown(adk_prompts, own_prompts)
    assert list_events(own_prompts[0]) == list_events(adk_prompts[0])


@pytest.mark.parametrize("metric", OF_CONVERSATION)
async def test_judges_that_find_properties_see_the_instructions_and_tools_of_every_turn(
    prompts: Callable[..., Awaitable[list[str]]], metric: str
) -> None:
    preparation, judgement = await prompts(metric)

    messages = {make_word(turn, name) for turn in (1, 2, 3) for name in ("user", "early", "late", "final")}
    agent_words = find_words(*(json.dumps(turn["app_details"]) for turn in TURNS))
    assert find_words(preparation) >= messages | agent_words
    assert find_words(judgement) >= messages | agent_words | {make_word(turn, "bgiven") for turn in (1, 2, 3)}
    assert list_events(judgement) == [name for turn in (1, 2, 3) for name in list_expected_events(turn)]


@pytest.mark.parametrize("with_intermediate", [False, True])
async def test_the_judge_of_hallucinations_sees_everything_that_adk_shows(
    prompts: Callable[..., Awaitable[list[str]]], with_intermediate: bool
) -> None:
    from google.adk.evaluation.eval_metrics import HallucinationsCriterion
    from google.adk.evaluation.hallucinations_v1 import HallucinationsV1Evaluator

    options = {"evaluate_intermediate_nl_responses": with_intermediate}
    adk = make_adk_evaluator(HallucinationsV1Evaluator, HallucinationsCriterion, HALLUCINATIONS, **options)
    adk_prompts = [
        "\n".join(step.context + step.nl_response for step in adk._get_steps_to_evaluate(turn))
        for turn in make_adk_invocations()
    ]

    own_prompts = [text for text in await prompts(HALLUCINATIONS, **options) if "<sentences>" in text]

    assert_shown(adk_prompts, own_prompts)
    for turn, text in enumerate(own_prompts, start=1):  # facts of other turns are not evidence in this turn
        instructions, tools = (extract_section(text, mark) for mark in ("agent_instructions", "available_tools"))
        assert find_words(instructions, tools) == find_words(json.dumps(TURNS[turn - 1]["app_details"]))


@pytest.mark.parametrize("with_intermediate", [False, True])
async def test_the_judge_of_matches_sees_everything_that_adk_shows(
    prompts: Callable[..., Awaitable[list[str]]], with_intermediate: bool
) -> None:
    from google.adk.evaluation.eval_metrics import LlmAsAJudgeCriterion
    from google.adk.evaluation.final_response_match_v2 import FinalResponseMatchV2Evaluator

    options = {"include_intermediate_responses_in_final": with_intermediate}
    adk = make_adk_evaluator(FinalResponseMatchV2Evaluator, LlmAsAJudgeCriterion, MATCH, **options)

    own_prompts = await prompts(MATCH, **options)

    assert_shown([adk.format_auto_rater_prompt(turn, turn) for turn in make_adk_invocations()], own_prompts)


async def test_the_judge_of_users_sees_everything_that_adk_shows(prompts: Callable[..., Awaitable[list[str]]]) -> None:
    from google.adk.evaluation.conversation_scenarios import ConversationScenario
    from google.adk.evaluation.eval_metrics import LlmBackedUserSimulatorCriterion
    from google.adk.evaluation.simulation.per_turn_user_simulator_quality_v1 import PerTurnUserSimulatorQualityV1

    adk = make_adk_evaluator(PerTurnUserSimulatorQualityV1, LlmBackedUserSimulatorCriterion, USER_QUALITY)
    scenario, invocations = ConversationScenario.model_validate(SCENARIO), make_adk_invocations()
    adk_prompts = [adk._format_llm_prompt(invocations[index], scenario, invocations[:index]) for index in (1, 2)]

    own_prompts = await prompts(USER_QUALITY)

    assert_shown(adk_prompts, own_prompts[:2])


@pytest.mark.parametrize("with_calls", [False, True])
def test_simulated_users_see_everything_that_adk_shows(with_calls: bool) -> None:
    from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulator

    adk_history = LlmBackedUserSimulator._summarize_conversation(list(make_adk_events()), with_calls)

    own_history = format_history(
        [TurnResult(invocation=Invocation.model_validate(turn), duration_seconds=0.0) for turn in TURNS],
        with_calls=with_calls,
    )

    assert_shown([adk_history], [own_history])
    pattern = r"^(\w+): (\w+)$"
    assert re.findall(pattern, own_history, re.MULTILINE) == re.findall(pattern, adk_history, re.MULTILINE)


def make_adk_events() -> Iterable[Any]:
    """Yield the events that ADK turns into invocations; the last event of a turn is its final response."""
    from google.genai import types

    for turn in TURNS:
        events = [("user", turn["user_content"])]
        events += [(event["author"], event.get("content")) for event in turn["intermediate_data"]["invocation_events"]]
        events[-1] = (events[-1][0], turn["final_response"])
        for author, content in events:
            yield SimpleNamespace(author=author, content=types.Content.model_validate(content))


def assert_shown(adk_prompts: list[str], own_prompts: list[str]) -> None:
    assert len(adk_prompts) == len(own_prompts)
    for number, (adk, workbench) in enumerate(zip(adk_prompts, own_prompts, strict=True), start=1):
        assert find_words(adk), "ADK shows something"
        assert find_words(adk) - find_words(workbench) == set(), f"prompt {number}"


def extract_section(text: str, mark: str) -> str:
    return text.split(f"<{mark}>\n", 1)[1].split(f"\n</{mark}>", 1)[0]


def list_events(text: str) -> list[str]:
    """Return the words of messages, calls and responses in the order of the text."""
    return re.findall(r"W\d(?:user|early|late|final|[abc](?:value|given))W", text)


def list_expected_events(turn: int) -> list[str]:
    names = ["user", "early", "avalue", "agiven", "bvalue", "cvalue", "cgiven", "bgiven", "late", "final"]
    return [make_word(turn, name) for name in names]
