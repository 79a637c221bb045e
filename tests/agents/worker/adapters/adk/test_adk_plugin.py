"""The plugin that observes a run, and the identity of the requests that it intercepts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.worker.adapters.adk.conftest import TOOL_AGENT, Agents
from workbench.model.trace import SpanKind

pytestmark = pytest.mark.needs_adk


def test_parameters_of_the_model_and_the_request_belong_to_the_identity() -> None:
    from google.adk.models import BaseLlm, LlmRequest

    from workbench.agents.worker.adapters.adk.adk_plugin import _describe_request

    class Model(BaseLlm):
        temperature: float = 0.0
        api_key: str = ""

        async def generate_content_async(self, *_: Any) -> Any:
            raise NotImplementedError

    def describe(**fields: Any) -> Any:
        model = Model(model="m", **{name: value for name, value in fields.items() if name in Model.model_fields})
        return _describe_request(model, LlmRequest(model="m"), stream=False)

    assert describe() == describe(api_key="AIzaSyAveryverysecretkey0123456789abcd")
    assert describe() != describe(temperature=0.5)


async def test_a_model_answer_from_a_callback_is_marked(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def reply(callback_context, llm_request):
            return LlmResponse(content=say("cached"))

        root_agent = llm_agent("root", before_model_callback=reply)
        """,
        "hi",
    )

    model = conversation.find_span(SpanKind.MODEL)
    assert model.attributes["answered_by"] == "callback"
    assert model.response["content"]["parts"][0]["text"] == "cached"
    assert conversation.turns[0].inference_calls == 0


async def test_model_calls_are_counted_even_without_spans(agents: Agents) -> None:
    conversation = await agents.talk_to(TOOL_AGENT, "1 + 2?", collect_spans=False)

    assert conversation.spans == []
    assert conversation.turns[0].inference_calls == 2


async def test_a_model_call_without_an_event_is_emitted(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def forget(callback_context, llm_response):
            return LlmResponse(custom_metadata={"seen": True})

        root_agent = LlmAgent(name="root", model=Scripted(answers=["hello"]), after_model_callback=forget)
        """,
        "hi",
    )

    model = conversation.find_span(SpanKind.MODEL)
    assert model.response["content"]["parts"][0]["text"] == "hello"
    assert "event_id" not in model.attributes


async def test_an_app_runs_with_its_plugins_and_stays_unchanged(agents: Agents) -> None:
    agents.write_agent(
        "with_app",
        """
        class Shout(BasePlugin):
            closed = 0

            async def after_model_callback(self, *, callback_context, llm_response):
                return LlmResponse(content=say(llm_response.content.parts[0].text.upper()))

            async def close(self):
                Shout.closed += 1

        root_agent = llm_agent("ignored", "not me")
        app = App(name="shouting", root_agent=llm_agent("root", "hello"), plugins=[Shout(name="shout")])
        """,
    )

    conversation = await agents.talk("with_app", "hi")

    from with_app import agent

    assert conversation.text == "HELLO"
    assert [plugin.name for plugin in agent.app.plugins] == ["shout"]
    assert agent.Shout.closed == 1


async def test_callbacks_can_replace_answers_of_model_tool_and_agent(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def lamp() -> dict:
            raise AssertionError("never called")

        cached = llm_agent(
            "cached", before_model_callback=lambda callback_context, llm_request: LlmResponse(content=say("cached"))
        )
        lit = lambda tool, args, tool_context: {"lit": 1}
        guarded = llm_agent("guarded", [call("lamp")], "lit", tools=[lamp], before_tool_callback=lit)
        closed = llm_agent("closed", before_agent_callback=lambda callback_context: say("closed today"))
        root_agent = SequentialAgent(name="root", sub_agents=[cached, guarded, closed])
        """,
        "hi",
    )

    assert conversation.error is None
    assert conversation.calls == [("lamp", {})]
    assert conversation.text == "closed today"
    assert conversation.turns[0].inference_calls == 2
