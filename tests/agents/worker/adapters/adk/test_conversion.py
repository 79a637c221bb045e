"""The invocation of a turn equals the one that google-adk's own evaluation makes of the same events."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.worker.adapters.adk.conftest import Agents
from workbench.agents.worker.adapters.adk.adk_tracing import TurnEvents

pytestmark = pytest.mark.needs_adk


def _random_part(chance: random.Random) -> Any:
    from google.genai import types

    makers: list[Callable[[], Any]] = [
        lambda: types.Part(text=chance.choice(["hello", "", "olá", "你好 😀"])),
        lambda: types.Part(text="thinking", thought=True),
        lambda: types.Part(function_call=types.FunctionCall(name="f", args={"x": chance.choice([1, None, {"y": 2}])})),
        lambda: types.Part(function_call=types.FunctionCall(id="c1", name="g")),
        lambda: types.Part(function_response=types.FunctionResponse(id="c1", name="g", response={"r": None})),
        lambda: types.Part(inline_data=types.Blob(data=b"\xff\xfe\x00", mime_type="image/png")),
        lambda: types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="1")),
        lambda: types.Part(file_data=types.FileData(file_uri="gs://x/y")),
    ]
    return chance.choice(makers)()


def _random_event(chance: random.Random) -> Any:
    from google.adk.events import Event, EventActions
    from google.genai import types

    parts = [_random_part(chance) for _ in range(chance.randint(0, 3))]
    content = types.Content(role=chance.choice(["model", "user"]), parts=parts) if chance.random() < 0.85 else None
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=chance.randint(0, 9))
    return Event(
        invocation_id="e-1",
        author=chance.choice(["root", "sub", "Sub2"]),
        content=content,
        partial=chance.choice([None, None, None, True, False]),
        actions=EventActions(skip_summarization=chance.choice([None, None, None, True])),
        long_running_tool_ids=chance.choice([None, None, None, {"c1"}]),
        error_code=chance.choice([None, None, None, None, "503"]),
        grounding_metadata=chance.choice([None, None, types.GroundingMetadata(web_search_queries=["q"])]),
        usage_metadata=chance.choice([None, usage]),
        model_version=chance.choice([None, "m-1"]),
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_events_become_the_same_invocation_as_in_adk(seed: int) -> None:
    from google.adk.evaluation.eval_case import Invocation
    from google.adk.evaluation.evaluation_generator import EvaluationGenerator
    from google.adk.events import Event
    from google.genai import types

    chance = random.Random(seed)
    content = types.Content(role="user", parts=[types.Part(text="question")])
    for _ in range(100):
        events = [_random_event(chance) for _ in range(chance.randint(1, 6))]
        user_event = Event(invocation_id="e-1", author="user", content=content, timestamp=5.0)

        (adk_invocation,) = EvaluationGenerator.convert_events_to_eval_invocations([user_event, *events])
        turn = TurnEvents()
        for event in events:
            turn.add(event)
        invocation = turn.build_invocation(user_content=content, sent_at=5.0, app_details={})

        del invocation["app_details"]
        assert Invocation.model_validate(invocation) == adk_invocation


AGENTS = {
    "a tool": """
        def add(a: int, b: int | None = None) -> dict:
            return {"sum": a}

        root_agent = llm_agent("root", [call("add", a=1, b=None)], "3", "again", tools=[add], instruction="Add.")
    """,
    "a transfer": """
        sub = llm_agent("sub", "hello from sub", "still", description="other", instruction="Be the other.")
        root_agent = llm_agent("root", [call("transfer_to_agent", agent_name="sub")], sub_agents=[sub], instruction="I")
    """,
    "an agent as a tool": """
        expert = llm_agent("expert", "rain", instruction="Know.")
        tools = [AgentTool(expert)]
        root_agent = llm_agent("root", [call("expert", request="?")], "it rains", "yes", tools=tools)
    """,
    "a sequence": """
        pair = ParallelAgent(name="pair", sub_agents=[llm_agent("left", "l", "l2")])
        root_agent = SequentialAgent(name="root", sub_agents=[llm_agent("first", "f", "f2"), pair])
    """,
    "callbacks": """
        def reply(callback_context, llm_request):
            return LlmResponse(content=say("cached"))

        inner = llm_agent("inner", "x", "y", after_agent_callback=lambda callback_context: say("after"))
        root_agent = SequentialAgent(name="root", sub_agents=[llm_agent("cached", before_model_callback=reply), inner])
    """,
    "an agent without a model": """
        class Echo(BaseAgent):
            async def _run_async_impl(self, ctx):
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=say("thinking"), partial=True)
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=ctx.user_content)

        root_agent = Echo(name="echo")
    """,
}


@pytest.mark.parametrize("code", AGENTS.values(), ids=AGENTS.keys())
async def test_a_conversation_has_the_same_invocations_as_in_adk(agents: Agents, code: str) -> None:
    from google.adk.evaluation.eval_case import Invocation

    turns = (await agents.talk_to(code, "first", "second", state={"k": 1})).turns
    agents.write_agent("same_agent", code)
    agents.adapter("same_agent").load()
    adk_invocations = await _infer_with_adk("same_agent", "first", "second")

    assert len(turns) == len(adk_invocations) == 2
    for turn, adk_invocation in zip(turns, adk_invocations, strict=True):
        dumped = turn.invocation.model_dump(mode="json", exclude_none=True)
        assert _remove_ids_and_times(Invocation.model_validate(dumped)) == _remove_ids_and_times(adk_invocation)


async def _infer_with_adk(name: str, *prompts: str) -> list[Any]:
    import importlib

    from google.adk.evaluation.eval_case import Invocation, SessionInput
    from google.adk.evaluation.evaluation_generator import EvaluationGenerator
    from google.adk.evaluation.simulation.static_user_simulator import StaticUserSimulator
    from google.genai import types

    conversation = [
        Invocation(user_content=types.Content(role="user", parts=[types.Part(text=prompt)])) for prompt in prompts
    ]
    return await EvaluationGenerator._generate_inferences_from_root_agent(
        root_agent=importlib.import_module(f"{name}.agent").root_agent,
        user_simulator=StaticUserSimulator(static_conversation=conversation),
        initial_session=SessionInput(app_name="app", user_id="user", state={"k": 1}),
    )


def _remove_ids_and_times(invocation: Any) -> dict[str, Any]:
    """Return the invocation without ids and times, which differ between runs."""
    data = invocation.model_dump(mode="json", exclude_none=True)
    for name in ("invocation_id", "creation_timestamp", "duration", "model_duration", "tool_duration"):
        data.pop(name, None)

    def remove_ids(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: remove_ids(item) for key, item in value.items() if key != "id"}
        return [remove_ids(item) for item in value] if isinstance(value, list) else value

    return remove_ids(data)
