"""Agents that are a Python callable: which callables count, and how their answers are read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.conftest import ECHO
from workbench.model.evalset import IntermediateData
from workbench.model.trace import SpanKind


async def test_an_answer_becomes_an_invocation_with_its_calls(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(ECHO)

    talk = await bench.talk_once("hi", **way)

    invocation = talk.turns[0].invocation
    assert talk.responses == ["HI"]
    assert invocation.user_content.text() == "hi"
    assert isinstance(invocation.intermediate_data, IntermediateData)
    assert [(call.name, call.args) for call in invocation.intermediate_data.tool_uses] == [("shout", {"n": 1})]
    assert talk.turns[0].duration_seconds >= 0
    assert talk.turns[0].inference_calls is None


@pytest.mark.parametrize(
    ("answer", "is_known"),
    [
        ('"a"', False),
        ('{"response": "a"}', False),
        ('{"response": "a", "predicted_trajectory": None}', False),
        ('{"response": "a", "predicted_trajectory": []}', True),
    ],
)
async def test_an_answer_without_a_trajectory_leaves_the_calls_unknown(bench: Any, answer: str, is_known: bool) -> None:
    bench.agent(f"def answer(prompt): return {answer}")

    talk = await bench.talk_once("hi")

    turn = talk.turns[0]
    reason = "the answer does not say which tools were called: it has no predicted_trajectory (an empty list says none)"
    reason += ", and no span of OpenTelemetry reports tools, or an agent that runs in this process"
    assert turn.calls_unknown == (None if is_known else reason)
    assert (turn.invocation.intermediate_data is not None) is is_known


async def test_intermediate_responses_without_calls_are_kept(bench: Any) -> None:
    bench.agent("def answer(prompt): return {'response': 'a', 'intermediate_responses': ['looking']}")

    talk = await bench.talk_once("hi")

    data = talk.turns[0].invocation.intermediate_data
    assert [step.parts[0].text for step in data.intermediate_responses] == ["looking"]
    assert talk.turns[0].calls_unknown is not None
    assert talk.turns[0].has_no_call_report


async def test_tool_responses_prove_that_tools_were_called(bench: Any) -> None:
    bench.agent("def answer(prompt): return {'response': 'a', 'tool_responses': [{'name': 'ring', 'response': {}}]}")

    talk = await bench.talk_once("hi")

    assert talk.turns[0].calls_unknown is not None
    assert not talk.turns[0].has_no_call_report


@pytest.mark.parametrize(
    "code",
    [
        "async def answer(prompt): return prompt + '!'",
        "async def answer(prompt, session):\n    import asyncio\n    await asyncio.sleep(0)\n    return prompt + '!'",
        "def answer(prompt):\n    async def later(): return prompt + '!'\n    return later()",
        "class Agent:\n    def __call__(self, prompt): return prompt + '!'\nanswer = Agent()",
        "class Agent:\n    async def __call__(self, prompt): return prompt + '!'\nanswer = Agent()",
        "class Agent:\n    def say(self, prompt): return prompt + '!'\nclass answer:\n    said = Agent().say\n"
        "answer = answer.said",
        "import functools\ndef f(end, prompt): return prompt + end\nanswer = functools.partial(f, '!')",
        "import functools\nasync def f(end, prompt): return prompt + end\nanswer = functools.partial(f, '!')",
        "def answer(prompt, temperature=0.2): return prompt + ('!' if temperature == 0.2 else '?')",
        "def answer(prompt, session=None): return prompt + ('!' if session.history == [] else '?')",
        "def answer(*args): return args[0] + '!' * len(args)",
        "def answer(prompt, **options): return prompt + '!'",
        "def answer(prompt):\n    yield prompt\n    yield '!'",
        "async def answer(prompt):\n    yield prompt\n    yield '!'",
        "async def answer(prompt): return iter([prompt, '!'])",
    ],
)
@pytest.mark.needs_fork
async def test_any_callable_with_one_or_two_parameters_is_an_agent(bench: Any, code: str) -> None:
    bench.agent("")
    (bench.folder / "agent.py").write_text(code)

    for isolation in ("case", "worker"):
        talk = await bench.talk_once("hi", mode="fork", isolation=isolation)
        assert talk.error is None, talk.message
        assert talk.responses == ["hi!"]


async def test_a_piece_of_a_response_that_is_no_text_is_refused(bench: Any) -> None:
    bench.agent("def answer(prompt):\n    yield 'a'\n    yield {'response': 'b'}")

    talk = await bench.talk_once("hi")

    assert talk.message.startswith("the agent yielded a dict with the keys response as piece 2, expected a str")


@pytest.mark.needs_fork
async def test_a_dotted_attribute_names_an_agent_inside_a_class(bench: Any) -> None:
    bench.agent("class Home:\n    class Kitchen:\n        @staticmethod\n        def answer(prompt): return 'kitchen'")

    talk = await bench.talk_once("hi", location="agent:Home.Kitchen.answer")

    assert talk.responses == ["kitchen"]


async def test_the_agent_is_a_timed_span_with_its_reported_calls_below_it(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def answer(prompt):
            calls = [{"tool_name": "a", "tool_input": {"x": 1}}, "b"]
            return {"response": "ok", "predicted_trajectory": calls, "tool_responses": [{"name": "b", "response": 7}]}
    """)

    talk = await bench.talk_once("hi", **way)

    agent, first, second = talk.spans
    assert (agent.kind, agent.name, agent.request, agent.response) == (SpanKind.AGENT, "answer", "hi", "ok")
    assert agent.start is not None and agent.duration is not None and agent.duration >= 0
    assert (first.kind, first.name, first.parent_id, first.request, first.start) == (
        SpanKind.TOOL,
        "a",
        agent.id,
        {"x": 1},
        None,
    )
    assert (second.name, second.request, second.response) == ("b", None, {"result": 7})
