"""OpenTelemetry spans of agents, read with the real SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workbench.model.target import AgentKind
from workbench.model.trace import Span, SpanKind

pytestmark = pytest.mark.prepared("nothing")

pytest.importorskip("opentelemetry.sdk")  # comes with google-adk, and with many agents

EMITTING = '''
    import json
    from opentelemetry import trace

    tracer = trace.get_tracer("agent")


    def think(prompt, *, within=None):
        """A call of a model as a framework tells it, and inside it the same as its client does."""
        asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
        with tracer.start_as_current_span("chat m-1", attributes=asked) as span:
            with tracer.start_as_current_span("chat m-1", attributes=asked) as inner:
                inner.set_attribute("gen_ai.usage.input_tokens", 7)
                inner.set_attribute("gen_ai.usage.output_tokens", 2)
            span.set_attribute("gen_ai.input.messages", json.dumps([{"role": "user", "content": prompt}]))
            span.set_attribute("gen_ai.usage.input_tokens", 7)
            span.set_attribute("gen_ai.usage.output_tokens", 2)


    def look(at):
        told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c1"}
        with tracer.start_as_current_span("execute_tool look", attributes=told) as span:
            if at == "sun":
                raise ValueError("too bright")
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"at": at}))
            span.set_attribute("gen_ai.tool.call.result", json.dumps({"seen": at}))


    def work(prompt):
        with tracer.start_as_current_span("database"):
            think(prompt)
        look(prompt)
        think("again")
        return {"response": prompt, "predicted_trajectory": [{"tool_name": "look", "tool_input": {"at": prompt}}]}
'''
PROVIDER = """
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    trace.set_tracer_provider(TracerProvider())
"""


def index_by_id(spans: list[Span]) -> dict[str, Span]:
    return {span.id: span for span in spans}


@pytest.mark.parametrize("provider", [PROVIDER, ""], ids=["own-provider", "interface-alone"])
@pytest.mark.parametrize("head", ["def", "async def"])
async def test_spans_of_the_agents_code_become_its_trace(
    bench: Any, way: dict[str, Any], provider: str, head: str
) -> None:
    bench.write("provider.py", provider)
    bench.write("emitting.py", EMITTING)
    bench.agent(f"""
        import provider
        from emitting import work

        {head} answer(prompt):
            return work(prompt)
    """)

    talk = await bench.talk_once("moon", **way)

    assert talk.error is None, talk.message
    spans_by_id = index_by_id(talk.spans)
    agent, *descendants = talk.spans
    assert agent.kind is SpanKind.AGENT
    assert sorted((span.kind.value, span.name) for span in descendants) == [
        ("model", "m-1"),
        ("model", "m-1"),
        ("model", "m-1"),
        ("model", "m-1"),
        ("other", "database"),
        ("tool", "look"),
    ]
    (tool,) = (
        span for span in descendants if span.kind is SpanKind.TOOL
    )  # only once, although the agent reported it too
    assert (tool.request, tool.response, tool.parent_id) == ({"at": "moon"}, {"seen": "moon"}, agent.id)
    assert tool.attributes["function_call_id"] == "c1"
    model_span = next(span for span in descendants if span.request)
    assert model_span.request == [{"role": "user", "content": "moon"}]
    assert spans_by_id[model_span.parent_id].name == "database"
    assert all(agent.start <= span.start <= span.end <= agent.end + 0.001 for span in descendants)
    assert talk.turns[0].inference_calls == 2  # a nested model span is the same call
    assert talk.turns[0].usage.model_dump(exclude_none=True) == {"prompt": 14, "candidates": 4, "total": 18}


async def test_sessions_in_one_process_get_only_their_own_spans(bench: Any) -> None:
    bench.write("emitting.py", EMITTING)
    bench.agent("""
        import asyncio
        from emitting import look

        async def answer(prompt):
            await asyncio.sleep(0.2)
            await asyncio.to_thread(look, prompt)
            return prompt
    """)
    host = bench.host(isolation="worker")

    talks = await asyncio.gather(*(bench.talk(host, f"{number}a", f"{number}b") for number in range(3)))

    for number, talk in enumerate(talks):
        requests = [(span.turn, span.request) for span in talk.spans if span.kind is SpanKind.TOOL]
        assert requests == [(0, {"at": f"{number}a"}), (1, {"at": f"{number}b"})]


async def test_spans_of_a_failed_turn_have_its_error(bench: Any) -> None:
    bench.write("emitting.py", EMITTING)
    bench.agent("from emitting import work as answer")

    talk = await bench.talk_once("sun")

    assert talk.message.startswith("ValueError: too bright (emitting.py:")
    failed = {span.name: span.error for span in talk.spans if span.error}
    assert failed == {"look": "ValueError: too bright", "answer": "ValueError"}


async def test_an_agent_without_telemetry_imports_no_telemetry_modules(bench: Any) -> None:
    bench.agent("""
        import sys

        def answer(prompt):
            return str([name for name in sys.modules if "telemetry" in name])
    """)

    assert (await bench.talk_once("x", mode="fork")).responses == ["[]"]


@pytest.mark.needs_langchain
async def test_only_spans_missing_from_langchain_callbacks_are_added(bench: Any) -> None:
    bench.write("emitting.py", EMITTING)
    bench.agent("""
        from emitting import look, think
        from langchain_core.runnables import RunnableLambda
        from langchain_core.tools import tool

        @tool
        def peek(at: str) -> str:
            "Look at something."
            look(at)
            return "seen"

        def work(prompt):
            think(prompt)
            return peek.invoke({"at": prompt})

        answer = RunnableLambda(work)
    """)

    talk = await bench.talk_once("moon", kind=AgentKind.LANGCHAIN)

    assert talk.error is None, talk.message
    assert sorted((span.kind.value, span.name) for span in talk.spans) == [
        ("agent", "answer"),
        ("model", "m-1"),
        ("model", "m-1"),
        ("tool", "peek"),
    ]
    assert talk.turns[0].inference_calls == 1
    assert talk.turns[0].usage.total == 9
    spans_by_id = index_by_id(talk.spans)
    assert {spans_by_id[span.parent_id].name for span in talk.spans if span.parent_id} == {"answer", "m-1"}


async def test_spans_of_agent_engine_agents_are_collected(bench: Any) -> None:
    bench.write("emitting.py", EMITTING)
    bench.agent("""
        from emitting import think

        class answer:
            def query(self, input):
                think(input)
                return {"output": input}
    """)

    talk = await bench.talk_once("moon", kind=AgentKind.AGENT_ENGINE)

    assert talk.turns[0].inference_calls == 1
    assert [span.kind for span in talk.spans] == [SpanKind.AGENT, SpanKind.MODEL, SpanKind.MODEL]
