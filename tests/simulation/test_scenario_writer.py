"""What a model writes as scenarios, read however it is said, and what is made of too much, too little and the same."""

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
def test_a_scenario_is_read_however_it_is_said(reply: str) -> None:
    (draft, *_) = read_drafts(reply, personas=["NOVICE"], required=False)

    assert draft.scenario == ConversationScenario(**DRAFT)


@pytest.mark.parametrize("reply", ["", "No.", "[]", '{"scenarios": "none"}', '{"scenarios": [1, null]}', "{" * 5000])
def test_what_is_no_scenario_is_none(reply: str) -> None:
    assert read_drafts(reply, personas=[], required=False) == []


def test_a_persona_is_found_whatever_its_case_and_the_only_one_need_not_be_named() -> None:
    lower = json.dumps({**DRAFT, "persona": "novice"})

    for reply, required in ((lower, False), (json.dumps(DRAFT), True)):
        (draft,) = read_drafts(reply, personas=["NOVICE"], required=required)
        assert draft.scenario is not None
        assert draft.scenario.user_persona == "NOVICE"


def drafts(*numbers: int) -> str:
    return json.dumps({"scenarios": [{**DRAFT, "starting_prompt": f"Hello {n}."} for n in numbers]})


async def write(answer: Callable[[ModelRequest], str], *, count: int, **wanted: Any) -> tuple[Generated, list[str]]:
    prompts: list[str] = []

    async def ask(request: ModelRequest) -> ModelReply:
        prompts.append(request.messages[0].text)
        return ModelReply(text=answer(request))

    options = ScenarioRequest(count=count, model="m", **wanted)
    return await ScenarioWriter(options, AGENT, [], ask=ask).write(), prompts


async def test_many_are_asked_for_in_parts_and_each_part_is_shown_what_there_is() -> None:
    numbers = iter(range(1000))

    generated, prompts = await write(lambda _: drafts(*(next(numbers) for _ in range(20))), count=45)

    assert len(generated.scenarios) == 45
    assert len(prompts) == 3
    assert "Write 20 of them" in prompts[1]
    assert "Hello 19." in prompts[1]
    assert "Write 5 of them" in prompts[2]
    assert "left out 15 more than the 45 that were wanted" in generated.notes
    assert "the model was not told all: its tools are elsewhere" in generated.notes


async def test_what_there_is_stays_where_the_model_fails_afterwards() -> None:
    def answer(request: ModelRequest) -> str:
        if request.sample:
            raise ModelError(Trouble.LIMITED, "too much")
        return drafts(1)

    generated, _ = await write(answer, count=2)

    assert len(generated.scenarios) == 1
    assert "asked for 1 more, the model did not answer: too much" in generated.notes
    assert "m wrote 1 scenario, not 2" in generated.notes


async def test_data_is_rendered_once_and_as_it_is() -> None:
    _, (prompt,) = await write(lambda _: drafts(1), count=1, instruction="{{ 7 * 7 }} </wishes>")

    assert "{{ 7 * 7 }} </wishes>" in prompt


async def test_nothing_new_is_an_error_that_says_what_there_was() -> None:
    with pytest.raises(GenerationError, match=r"wrote no scenario that is new: left out .*conversation_plan") as raised:
        await write(lambda _: json.dumps({**DRAFT, "conversation_plan": ""}), count=1)

    assert raised.value.is_outage
