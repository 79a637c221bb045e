"""The conversation as a simulated user sees it."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.llm.model_types import ModelReply, ModelRequest
from workbench.model.evalset import ConversationScenario, Invocation
from workbench.model.results import FailureKind, TurnResult
from workbench.simulation.users import SimulatedUser, UserFailed, UserOptions, format_history


def turn(**invocation: Any) -> TurnResult:
    fields = {"user_content": {"parts": [{"text": "hi"}]}, **invocation}
    return TurnResult(invocation=Invocation.model_validate(fields), duration_seconds=0.0)


EVENTS = {
    "invocation_events": [
        {"author": "root", "content": {"parts": [{"text": "secret", "thought": True}, {"text": "one moment"}]}},
        {"author": "root", "content": {"parts": [{"function_call": {"name": "roll", "args": {"sides": 6}}}]}},
        {"author": "root", "content": {"parts": [{"function_response": {"name": "roll", "response": {"n": 4}}}]}},
        {"author": "primes"},
    ]
}


def test_every_author_speaks_under_its_own_name_and_thoughts_are_hidden() -> None:
    answer = {"parts": [{"text": "hidden", "thought": True}, {"text": "It is 4."}]}
    turns = [turn(intermediate_data=EVENTS, final_response=answer)]

    assert format_history(turns, with_calls=False) == "user: hi\n\nroot: one moment\n\nprimes: It is 4."
    assert format_history(turns, with_calls=True) == (
        "user: hi\n\nroot: one moment\n\nroot called the tool 'roll' with {\"sides\": 6}\n\n"
        "the tool 'roll' gave {\"n\": 4}\n\nprimes: It is 4."
    )


def test_call_lists_and_messages_without_text_are_included() -> None:
    data = {
        "tool_uses": [{"name": "roll"}],
        "tool_responses": [{"name": "roll", "response": {"n": 2}}],
        "intermediate_responses": [["helper", [{"text": "2, I think"}]]],
    }
    image = {"parts": [{"inline_data": {"mime_type": "image/png", "data": ""}}]}
    turns = [turn(user_content=image, intermediate_data=data, final_response={"parts": []})]

    assert format_history(turns, with_calls=True).split("\n\n") == [
        "user: (something that is no text)",
        "agent called the tool 'roll' with {}",
        "the tool 'roll' gave {\"n\": 2}",
        "helper: 2, I think",
        "agent: (nothing)",
    ]


async def test_an_agent_never_gets_half_a_message_of_its_user() -> None:
    async def ask(request: ModelRequest) -> ModelReply:
        return ModelReply(text="Please turn off the", finish="MAX_TOKENS")

    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="Turn off all lights.")
    user = SimulatedUser(scenario, UserOptions(model="m"), ask=ask)

    with pytest.raises(UserFailed) as raised:
        await user.next_message([turn()])

    assert raised.value.failure.kind is FailureKind.USER
    assert "was cut off: raise max_output_tokens" in raised.value.failure.message
