"""What judges and simulated users are shown, beside what ADK shows its own: each field holds a word of its own."""

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


def word(*names: object) -> str:
    return f"W{''.join(map(str, names))}W"


def call(turn: int, name: str) -> dict[str, Any]:
    words = {part: word(turn, name, part) for part in ("name", "arg", "value", "id")}
    return {"function_call": {"name": words["name"], "args": {words["arg"]: words["value"]}, "id": words["id"]}}


def response(turn: int, name: str) -> dict[str, Any]:
    given = {word(turn, name, "key"): word(turn, name, "given")}
    return {"function_response": {"name": word(turn, name, "name"), "response": given, "id": word(turn, name, "id")}}


def details(turn: int, agent: str) -> dict[str, Any]:
    declaration = {
        "name": word(turn, agent, "toolname"),
        "description": word(turn, agent, "toolabout"),
        "parameters_json_schema": {"type": "object", "properties": {word(turn, agent, "toolarg"): {"type": "string"}}},
    }
    return {
        "name": word(agent),
        "instructions": f"{word(turn, agent, 'told')}: the balance is {turn}.",
        "tool_declarations": [{"function_declarations": [declaration]}],
    }


def grounding(turn: int) -> dict[str, Any]:
    return {"grounding_chunks": [{"web": {"uri": word(turn, "uri"), "title": word(turn, "title")}}]}


def invocation(turn: int) -> dict[str, Any]:
    """A turn in which one agent calls a tool twice at once and hands over to another, which searches and answers."""
    root, helper = word("root"), word("helper")
    events = [
        {"author": root, "content": {"role": "model", "parts": [{"text": word(turn, "early")}, call(turn, "a")]}},
        {"author": root, "content": {"role": "user", "parts": [response(turn, "a")]}},
        {"author": root, "content": {"role": "model", "parts": [call(turn, "b"), call(turn, "c")]}},
        {"author": root, "content": {"role": "user", "parts": [response(turn, "c"), response(turn, "b")]}},
        {"author": helper, "content": {"role": "model", "parts": [{"text": word(turn, "late")}]}},
        {"author": helper, "grounding_metadata": grounding(turn)},
    ]
    return {
        "invocation_id": word(turn, "invocation"),
        "user_content": {"role": "user", "parts": [{"text": word(turn, "user")}]},
        "final_response": {"role": "model", "parts": [{"text": word(turn, "final")}]},
        "intermediate_data": {"invocation_events": events},
        "app_details": {"agent_details": {word(name): details(turn, name) for name in ("root", "helper")}},
    }


TURNS = [invocation(turn) for turn in (1, 2, 3)]


def words_in(*texts: str) -> set[str]:
    return {found for text in texts for found in re.findall(r"W\w*?W", text)}


def criterion_of(**options: Any) -> dict[str, Any]:
    return {"threshold": 0.5, "judge_model_options": {"num_samples": 1}, **options}


def reply(request: ModelRequest) -> str:
    """Whatever the metric: sentences, properties, labels, verdicts."""
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
    """The prompts of a metric, in the order of the turns."""

    async def collect(metric: str, **options: Any) -> list[str]:
        services.model = reply
        scenario: dict[str, Any] = (
            {"conversation_scenario": SCENARIO} if metric == USER_QUALITY else {"conversation": []}
        )
        await judge(
            config({metric: criterion_of(**options)}),
            actual=[Invocation.model_validate(turn) for turn in TURNS],
            expected=[Invocation.model_validate(turn) for turn in TURNS],
            case=EvalCase.model_validate({"eval_id": "c", **scenario}),
        )
        asked = [request.messages[0].text for request in services.asked]
        return sorted(asked, key=lambda text: max(int(number) for number in re.findall(r"W(\d)user", text) or [0]))

    return collect


def adk_invocations() -> list[Any]:
    from google.adk.evaluation.eval_case import Invocation as AdkInvocation
    from google.genai import types

    turns = [AdkInvocation.model_validate(turn) for turn in TURNS]
    for turn in turns:  # as a run has them
        for agent in turn.app_details.agent_details.values():
            agent.tool_declarations = [types.Tool.model_validate(tool) for tool in agent.tool_declarations]
    return turns


def adk_evaluator(evaluator: type[Any], criterion: type[Any], metric: str, **options: Any) -> Any:
    from google.adk.evaluation.eval_metrics import EvalMetric

    given = criterion.model_validate(criterion_of(**options))
    return evaluator(EvalMetric(metric_name=metric, threshold=0.5, criterion=given))


def adk_rubrics(evaluator: type[Any], metric: str, **options: Any) -> Any:
    from google.adk.evaluation.eval_metrics import RubricsBasedCriterion

    return adk_evaluator(evaluator, RubricsBasedCriterion, metric, rubrics=[RUBRIC], **options)


@pytest.mark.parametrize("with_intermediate", [False, True])
async def test_the_judge_of_answers_sees_what_that_of_adk_sees(
    prompts: Callable[..., Awaitable[list[str]]], with_intermediate: bool
) -> None:
    from google.adk.evaluation.rubric_based_final_response_quality_v1 import RubricBasedFinalResponseQualityV1Evaluator

    options = {"include_intermediate_responses_in_final": with_intermediate}
    adk = adk_rubrics(RubricBasedFinalResponseQualityV1Evaluator, ANSWER, **options)
    theirs = [adk.format_auto_rater_prompt(turn, None) for turn in adk_invocations()]

    ours = await prompts(ANSWER, rubrics=[RUBRIC], **options)

    assert_shown(theirs, ours)
    answers = [words_in(re.findall(r"<final_answer>(.*?)</final_answer>", text, re.DOTALL)[-1]) for text in ours]
    assert answers == [
        {word(turn, "final"), *([word(turn, "early"), word(turn, "late")] if with_intermediate else [])}
        for turn in (1, 2, 3)
    ]


async def test_the_judge_of_the_use_of_tools_sees_what_that_of_adk_sees(
    prompts: Callable[..., Awaitable[list[str]]],
) -> None:
    from google.adk.evaluation.rubric_based_tool_use_quality_v1 import RubricBasedToolUseV1Evaluator

    adk = adk_rubrics(RubricBasedToolUseV1Evaluator, TOOLS)

    ours = await prompts(TOOLS, rubrics=[RUBRIC])

    assert_shown([adk.format_auto_rater_prompt(turn, None) for turn in adk_invocations()], ours)


async def test_the_judge_of_conversations_sees_what_that_of_adk_sees(
    prompts: Callable[..., Awaitable[list[str]]],
) -> None:
    from google.adk.evaluation.rubric_based_multi_turn_trajectory_evaluator import (
        RubricBasedMultiTurnTrajectoryEvaluator,
    )

    adk = adk_rubrics(RubricBasedMultiTurnTrajectoryEvaluator, CONVERSATION)
    invocations = adk_invocations()
    adk._assemble_dialogue_history(invocations)
    theirs = [adk.format_auto_rater_prompt(invocations[-1], None)]

    ours = await prompts(CONVERSATION, rubrics=[RUBRIC])

    assert_shown(theirs, ours)
    assert happened_in(ours[0]) == happened_in(theirs[0])


@pytest.mark.parametrize("metric", OF_CONVERSATION)
async def test_judges_that_find_properties_see_the_instructions_and_tools_of_every_turn(
    prompts: Callable[..., Awaitable[list[str]]], metric: str
) -> None:
    preparing, judging = await prompts(metric)

    said = {word(turn, name) for turn in (1, 2, 3) for name in ("user", "early", "late", "final")}
    told = words_in(*(json.dumps(turn["app_details"]) for turn in TURNS))
    assert words_in(preparing) >= said | told
    assert words_in(judging) >= said | told | {word(turn, "bgiven") for turn in (1, 2, 3)}
    assert happened_in(judging) == [name for turn in (1, 2, 3) for name in order_of(turn)]


@pytest.mark.parametrize("on_the_way", [False, True])
async def test_the_judge_of_hallucinations_sees_what_that_of_adk_sees_and_earlier_turns(
    prompts: Callable[..., Awaitable[list[str]]], on_the_way: bool
) -> None:
    from google.adk.evaluation.eval_metrics import HallucinationsCriterion
    from google.adk.evaluation.hallucinations_v1 import HallucinationsV1Evaluator

    options = {"evaluate_intermediate_nl_responses": on_the_way}
    adk = adk_evaluator(HallucinationsV1Evaluator, HallucinationsCriterion, HALLUCINATIONS, **options)
    theirs = [
        "\n".join(step.context + step.nl_response for step in adk._get_steps_to_evaluate(turn))
        for turn in adk_invocations()
    ]

    ours = [text for text in await prompts(HALLUCINATIONS, **options) if "<sentences>" in text]

    assert_shown(theirs, ours)
    for turn, text in enumerate(ours, start=1):  # what was true in another turn is no evidence in this one
        instructions, tools = (between(text, mark) for mark in ("agent_instructions", "available_tools"))
        assert words_in(instructions, tools) == words_in(json.dumps(TURNS[turn - 1]["app_details"]))


@pytest.mark.parametrize("with_intermediate", [False, True])
async def test_the_judge_of_matches_sees_what_that_of_adk_sees(
    prompts: Callable[..., Awaitable[list[str]]], with_intermediate: bool
) -> None:
    from google.adk.evaluation.eval_metrics import LlmAsAJudgeCriterion
    from google.adk.evaluation.final_response_match_v2 import FinalResponseMatchV2Evaluator

    options = {"include_intermediate_responses_in_final": with_intermediate}
    adk = adk_evaluator(FinalResponseMatchV2Evaluator, LlmAsAJudgeCriterion, MATCH, **options)

    ours = await prompts(MATCH, **options)

    assert_shown([adk.format_auto_rater_prompt(turn, turn) for turn in adk_invocations()], ours)


async def test_the_judge_of_users_sees_what_that_of_adk_sees(prompts: Callable[..., Awaitable[list[str]]]) -> None:
    from google.adk.evaluation.conversation_scenarios import ConversationScenario
    from google.adk.evaluation.eval_metrics import LlmBackedUserSimulatorCriterion
    from google.adk.evaluation.simulation.per_turn_user_simulator_quality_v1 import PerTurnUserSimulatorQualityV1

    adk = adk_evaluator(PerTurnUserSimulatorQualityV1, LlmBackedUserSimulatorCriterion, USER_QUALITY)
    scenario, invocations = ConversationScenario.model_validate(SCENARIO), adk_invocations()
    theirs = [adk._format_llm_prompt(invocations[at], scenario, invocations[:at]) for at in (1, 2)]

    ours = await prompts(USER_QUALITY)

    assert_shown(theirs, ours[:2])


@pytest.mark.parametrize("with_calls", [False, True])
def test_simulated_users_see_what_those_of_adk_see(with_calls: bool) -> None:
    from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulator

    theirs = LlmBackedUserSimulator._summarize_conversation(list(adk_events()), with_calls)

    ours = format_history(
        [TurnResult(invocation=Invocation.model_validate(turn), duration_seconds=0.0) for turn in TURNS],
        with_calls=with_calls,
    )

    assert_shown([theirs], [ours])
    spoken = r"^(\w+): (\w+)$"
    assert re.findall(spoken, ours, re.MULTILINE) == re.findall(spoken, theirs, re.MULTILINE)


def adk_events() -> Iterable[Any]:
    """The events of which ADK makes the invocations: the last one of a turn is its final response."""
    from google.genai import types

    for turn in TURNS:
        events = [("user", turn["user_content"])]
        events += [(each["author"], each.get("content")) for each in turn["intermediate_data"]["invocation_events"]]
        events[-1] = (events[-1][0], turn["final_response"])
        for author, content in events:
            yield SimpleNamespace(author=author, content=types.Content.model_validate(content))


def assert_shown(theirs: list[str], ours: list[str]) -> None:
    assert len(theirs) == len(ours)
    for number, (adk, workbench) in enumerate(zip(theirs, ours, strict=True), start=1):
        assert words_in(adk), "ADK shows something"
        assert words_in(adk) - words_in(workbench) == set(), f"prompt {number}"


def between(text: str, mark: str) -> str:
    return text.split(f"<{mark}>\n", 1)[1].split(f"\n</{mark}>", 1)[0]


def happened_in(text: str) -> list[str]:
    """Words for what was said, called and answered, in the order of the text."""
    return re.findall(r"W\d(?:user|early|late|final|[abc](?:value|given))W", text)


def order_of(turn: int) -> list[str]:
    names = ["user", "early", "avalue", "agiven", "bvalue", "cvalue", "cgiven", "bgiven", "late", "final"]
    return [word(turn, name) for name in names]
