"""Scenarios that a model writes: all formats of replies, and too many, too few or duplicate scenarios."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workbench.llm.model_types import ModelError, ModelReply, ModelRequest, Trouble
from workbench.model.evalset import ConversationScenario, ScenarioRequest
from workbench.model.target import AgentDescription, AgentPart
from workbench.simulation.scenario_writer import Generated, GenerationError, ScenarioWriter, read_drafts

DRAFT = {"starting_prompt": "Hello.", "conversation_plan": "You say hello."}
AGENT = AgentDescription(agents=(AgentPart(name="a", instruction="Be kind."),), unknown=("its tools are elsewhere",))


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"scenarios": [DRAFT]}),
        f"Here you are:\n```json\n{json.dumps([DRAFT], indent=2)}\n```\nHave fun!",
        json.dumps(DRAFT),
        json.dumps({"Conversation Scenarios": [{"startingPrompt": " Hello.", "conversationPlan": "You say hello.\n"}]}),
        json.dumps({"scenarios": [{**DRAFT, "user_persona": "none"}]}),
        json.dumps({"scenarios": [DRAFT, DRAFT]})[:-10],
    ],
)
def test_a_scenario_is_read_from_any_format_of_reply(reply: str) -> None:
    (draft, *_) = read_drafts(reply, personas=["NOVICE"], persona_required=False)

    assert draft.scenario == ConversationScenario(**DRAFT)


@pytest.mark.parametrize("reply", ["", "No.", "[]", '{"scenarios": "none"}', '{"scenarios": [1, null]}', "{" * 5000])
def test_a_reply_without_scenarios_gives_no_drafts(reply: str) -> None:
    assert read_drafts(reply, personas=[], persona_required=False) == []


def test_a_persona_is_found_in_any_case_and_the_only_one_may_be_omitted() -> None:
    lower = json.dumps({**DRAFT, "persona": "novice"})

    for reply, required in ((lower, False), (json.dumps(DRAFT), True)):
        (draft,) = read_drafts(reply, personas=["NOVICE"], persona_required=required)
        assert draft.scenario is not None
        assert draft.scenario.user_persona == "NOVICE"


def make_drafts(*numbers: int) -> str:
    return json.dumps({"scenarios": [{**DRAFT, "starting_prompt": f"Hello {n}."} for n in numbers]})


async def write_scenarios(
    answer: Callable[[ModelRequest], str], *, count: int, **fields: Any
) -> tuple[Generated, list[str]]:
    prompts: list[str] = []

    async def ask(request: ModelRequest) -> ModelReply:
        prompts.append(request.messages[0].text)
        return ModelReply(text=answer(request))

    options = ScenarioRequest(count=count, model="m", **fields)
    return await ScenarioWriter(options, AGENT, [], ask=ask).write(), prompts


async def test_many_scenarios_are_requested_in_batches_that_see_earlier_ones() -> None:
    numbers = iter(range(1000))

    generated, prompts = await write_scenarios(lambda _: make_drafts(*(next(numbers) for _ in range(20))), count=45)

    assert len(generated.scenarios) == 45
    assert len(prompts) == 3
    assert "Write 20 of them" in prompts[1]
    assert "Hello 19." in prompts[1]
    assert "Write 5 of them" in prompts[2]
    assert "left out 15 beyond the 45 requested" in generated.notes
    assert "the model got an incomplete description of the agent: its tools are elsewhere" in generated.notes


async def test_scenarios_are_kept_if_the_model_fails_later() -> None:
    def answer(request: ModelRequest) -> str:
        if request.sample:
            raise ModelError(Trouble.LIMITED, "too much")
        return make_drafts(1)

    generated, _ = await write_scenarios(answer, count=2)

    assert len(generated.scenarios) == 1
    assert "the model did not write 1 more: too much" in generated.notes
    assert "m wrote 1 scenario, not 2" in generated.notes


async def test_template_syntax_in_an_instruction_is_not_evaluated() -> None:
    _, (prompt,) = await write_scenarios(lambda _: make_drafts(1), count=1, instruction="{{ 7 * 7 }} </wishes>")

    assert "{{ 7 * 7 }} </wishes>" in prompt


async def test_a_reply_without_new_scenarios_is_an_error_with_the_reason() -> None:
    with pytest.raises(GenerationError, match=r"wrote no new scenario: left out .*conversation_plan") as raised:
        await write_scenarios(lambda _: json.dumps({**DRAFT, "conversation_plan": ""}), count=1)

    assert raised.value.is_outage
