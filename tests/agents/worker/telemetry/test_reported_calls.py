"""Tool calls of functions that only spans of OpenTelemetry report, in the shapes in which frameworks make them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workbench.model.results import TurnResult
from workbench.model.target import AgentKind
from workbench.model.trace import SpanKind

pytestmark = pytest.mark.prepared("nothing")

pytest.importorskip("opentelemetry.sdk")  # comes with google-adk, and with many agents

# Each function makes the spans of one run of an agent, as recorded from the framework and its instrumentation.
FRAMEWORKS = '''
    import json
    from contextlib import contextmanager
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind

    tracer = trace.get_tracer("agent")


    @contextmanager
    def span(name, _late=(), _kind="INTERNAL", **attributes):
        """`_late` are attributes that are set at the end, as openai-agents sets all of them."""
        given = {key.replace("__", "."): value for key, value in attributes.items()}
        with tracer.start_as_current_span(name, kind=SpanKind[_kind], attributes=given) as span:
            yield span
            for key, value in dict(_late).items():
                span.set_attribute(key, value)


    def ask(cities, ids):
        parts = [
            {"type": "tool_call", "id": id, "name": "weather", "arguments": {"city": city}}
            for city, id in zip(cities, ids)
        ]
        return json.dumps([{"role": "assistant", "parts": parts or [{"type": "text", "content": "Hello."}]}])


    def pydantic_ai(cities):
        """pydantic-ai 2.68"""
        ids = [f"pyd_ai_{number}" for number, _ in enumerate(cities)]
        with span("invoke_agent clerk", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="clerk"):
            model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.agent.name": "clerk"}
            with span("chat m", _late={"gen_ai.output.messages": ask(cities, ids), **model}):
                pass
            for city, id in zip(cities, ids):
                tool = {
                    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
                    "gen_ai.tool.call.id": id, "gen_ai.tool.call.arguments": json.dumps({"city": city}),
                    "gen_ai.agent.name": "clerk",
                }
                late = {"gen_ai.tool.call.result": json.dumps({"city": city, "t": 3})}
                with tracer.start_as_current_span("execute_tool weather", attributes=tool) as current:
                    current.set_attributes(late)
        return "cold"


    def pydantic_ai_1(cities):
        """pydantic-ai 1.107"""
        with span("agent run", gen_ai__operation__name="invoke_agent", agent_name="clerk"):
            for number, city in enumerate(cities):
                tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
                        "gen_ai.tool.call.id": f"c{number}", "tool_arguments": json.dumps({"city": city})}
                with tracer.start_as_current_span("running tool", attributes=tool) as current:
                    current.set_attribute("tool_response", json.dumps({"city": city, "t": 3}))
        return "cold"


    def openai_agents(cities):
        """openai-agents 0.24 with opentelemetry-instrumentation-openai-agents-v2 0.1"""
        with span("Agent workflow", _kind="SERVER", gen_ai__operation__name="invoke_agent"):
            with span("invoke_agent clerk", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="clerk"):
                with span("unknown", gen_ai__operation__name="unknown"):
                    for city in cities:
                        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
                                "gen_ai.tool.type": "function", "gen_ai.agent.name": "OpenAI Agent",
                                "gen_ai.tool.call.arguments": json.dumps({"city": city}),
                                "gen_ai.tool.call.result": json.dumps({"city": city, "t": 3})}
                        with span("execute_tool weather", _late=tool):
                            pass
        return "cold"


    def openinference(cities):
        """openai-agents 0.24 with openinference-instrumentation-openai-agents 2.6"""
        with span("Agent workflow", openinference__span__kind="AGENT"):
            with span("clerk", agent__name="clerk", openinference__span__kind="AGENT"):
                with span("turn", openinference__span__kind="CHAIN"):
                    answer = {}
                    for number, city in enumerate(cities):
                        call = f"llm.output_messages.0.message.tool_calls.{number}.tool_call"
                        answer |= {f"{call}.id": f"c{number}", f"{call}.function.name": "weather",
                                   f"{call}.function.arguments": json.dumps({"city": city})}
                    with span("response", _late={"llm.model_name": "m", "openinference.span.kind": "LLM", **answer}):
                        pass
                    for city in cities:
                        tool = {"tool.name": "weather", "input.value": json.dumps({"city": city}),
                                "input.mime_type": "application/json", "openinference.span.kind": "TOOL",
                                "output.value": json.dumps({"city": city, "t": 3})}
                        with span("weather", _late=tool):
                            pass
        return "cold"


    def crewai(cities):
        """crewai 1.15 with openinference-instrumentation-crewai 1.1"""
        with span("Crew_1.kickoff", openinference__span__kind="CHAIN"):
            with span("clerk._execute_core", openinference__span__kind="AGENT", graph__node__id="clerk"):
                for city in cities:
                    tool = {"tool.name": "weather", "input.value": json.dumps({"city": city}),
                            "openinference.span.kind": "TOOL", "output.value": json.dumps({"city": city, "t": 3})}
                    with span("weather.run", _late=tool):
                        pass
        return "cold"
'''
NAMES = ["pydantic_ai", "pydantic_ai_1", "openai_agents", "openinference", "crewai"]
BY_DESIGN = "no span of OpenTelemetry reports tools, or an agent that runs in this process"


def list_calls(turn: TurnResult) -> list[tuple[str, Any]]:
    assert turn.invocation.intermediate_data is not None, turn.calls_unknown
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def weather(*cities: str) -> list[tuple[str, Any]]:
    return [("weather", {"city": city}) for city in cities]


async def talk(bench: Any, code: str, *prompts: str, **options: Any) -> Any:
    bench.write("frameworks.py", FRAMEWORKS)
    bench.agent(code)
    held = await bench.talk_once(*prompts, **options)
    assert held.error is None, held.message
    return held


@pytest.mark.parametrize("framework", NAMES)
async def test_a_function_that_returns_text_has_the_calls_of_its_spans(bench: Any, framework: str) -> None:
    code = f"from frameworks import {framework} as run\ndef answer(prompt): return run(prompt.split())"

    held = await talk(bench, code, "Rome Oslo Rome", "Bonn", "")

    first, second, third = held.turns
    assert list_calls(first) == weather("Rome", "Oslo", "Rome")
    assert list_calls(second) == weather("Bonn")
    assert list_calls(third) == []
    results = first.invocation.intermediate_data.tool_responses
    assert [result.response for result in results] == [{"city": city, "t": 3} for city in ("Rome", "Oslo", "Rome")]
    for turn in held.turns:
        assert (turn.calls_unknown, turn.arguments_unknown, turn.calls_unknown_by_design) == (None, None, False)
    assert [span.name for span in held.spans if span.kind is SpanKind.TOOL] == ["weather"] * 4


async def test_an_object_of_agent_engine_has_the_calls_of_its_spans(bench: Any) -> None:
    code = """
        from frameworks import pydantic_ai

        class answer:
            def query(self, input):
                return {"output": pydantic_ai(input.split())}
    """

    held = await talk(bench, code, "Rome Oslo", kind=AgentKind.AGENT_ENGINE)

    assert list_calls(held.turns[0]) == weather("Rome", "Oslo")


async def test_a_returned_trajectory_is_the_one_that_counts(bench: Any) -> None:
    code = """
        from frameworks import crewai

        def answer(prompt):
            crewai(["Rome"])
            return {"response": "cold", "predicted_trajectory": [] if prompt == "none" else ["other"]}
    """

    held = await talk(bench, code, "none", "other")

    assert [list_calls(turn) for turn in held.turns] == [[], [("other", None)]]


@pytest.mark.parametrize(
    ("spans", "is_known"),
    [
        ('span("invoke_agent x", gen_ai__operation__name="invoke_agent")', True),
        ('span("execute_tool x", gen_ai__operation__name="execute_tool", gen_ai__tool__name="x")', True),
        ('span("chat m", gen_ai__operation__name="chat", gen_ai__request__model="m")', False),
        ('span("GET /", http__request__method="GET")', False),
        ('span("handoff to boss", openinference__span__kind="TOOL")', False),
        ('span("create_agent x", gen_ai__operation__name="create_agent")', False),
        ('span("invoke_agent x", _kind="CLIENT", gen_ai__operation__name="invoke_agent")', False),
        ('span("Agent workflow", _kind="SERVER", gen_ai__operation__name="invoke_agent")', False),
    ],
    ids=["agent", "tool", "model", "client", "handoff", "create", "remote", "server"],
)
async def test_only_spans_of_agents_and_tools_make_calls_known(bench: Any, spans: str, is_known: bool) -> None:
    code = f"""
        from frameworks import span

        def answer(prompt):
            with {spans}:
                return "x"
    """

    held = await talk(bench, code, "hi")

    turn = held.turns[0]
    assert turn.calls_unknown_by_design is not is_known
    assert turn.has_no_call_report is not is_known
    assert (turn.calls_unknown is None) is is_known or BY_DESIGN in turn.calls_unknown


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("chat(ask(['Rome'], ['1']))", "a model asked for weather, and no span of such a tool was made"),
        ("chat(ask(['Rome'], ['1'])); call('other')", "a model asked for weather, and no span of such a tool"),
        ("chat(ask(['Rome'], ['1'])); handoff()", None),
        ("chat(ask(['Rome'], ['1'])); handoff(gen_ai__operation__name='handoff')", None),
        ("chat(ask(['Rome'], ['1'])); chat(ask_to('boss')); handoff()", "a model asked for boss, weather, and no span"),
        ("remote()", "the agent z runs elsewhere (its span has the kind CLIENT), and its tool calls have no spans"),
        ("remote(lambda: call('x'))", None),
        ("chat(ask(['Rome'], ['1']), model_request_parameters='{\"output_tools\": [{\"name\": \"weather\"}]}')", None),
        ("chat(ask(['Rome'], ['1'])); call('weather')", None),
        ("chat(ask([], []))", None),
    ],
    ids=[
        "none-covered",
        "one-covered",
        "handoff",
        "handoff-operation",
        "handoff-and-tool",
        "remote",
        "remote-seen",
        "output",
        "covered",
        "text",
    ],
)
async def test_calls_are_unknown_if_the_instrumentation_does_not_cover_tools(
    bench: Any, code: str, reason: str | None
) -> None:
    agent = f"""
        from frameworks import ask, span

        def chat(messages, **more):
            attributes = {{"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages, **more}}
            with span("chat m", _late=attributes):
                pass

        def call(name):
            with span("execute_tool x", gen_ai__operation__name="execute_tool", gen_ai__tool__name=name):
                pass

        def ask_to(name):
            return ask(["Rome"], ["2"]).replace("weather", name)

        def handoff(**told):
            name = "unknown" if told else "handoff to boss"
            with span(name, **(told or {{"openinference__span__kind": "TOOL"}})):
                pass

        def remote(work=lambda: None):
            told = {{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "z"}}
            with span("invoke_agent z", _kind="CLIENT", _late=told):
                work()

        def answer(prompt):
            with span("invoke_agent x", gen_ai__operation__name="invoke_agent"):
                {code}
            return "x"
    """

    held = await talk(bench, agent, "hi")

    unknown = held.turns[0].calls_unknown
    assert unknown is None if reason is None else reason in unknown
    assert not held.turns[0].calls_unknown_by_design


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("span('retry wrapper')", ["x"]),
        ("span('POST /mcp', _kind='CLIENT')", ["x"]),
        ("span('invoke_agent z', gen_ai__operation__name='invoke_agent')", ["x", "x"]),
        ("span('execute_tool y', gen_ai__operation__name='execute_tool', gen_ai__tool__name='y')", ["x", "y", "x"]),
    ],
    ids=["wrapper", "client", "agent", "tool"],
)
async def test_a_call_within_the_same_call_counts_once(bench: Any, between: str, expected: list[str]) -> None:
    code = f"""
        from frameworks import span

        def call():
            return span("execute_tool x", gen_ai__operation__name="execute_tool", gen_ai__tool__name="x")

        def answer(prompt):
            with call(), {between}, call():
                return "x"
    """

    held = await talk(bench, code, "hi")

    assert [name for name, _ in list_calls(held.turns[0])] == expected


async def test_overlapping_calls_have_the_order_of_the_models_message(bench: Any) -> None:
    code = """
        import json
        import threading
        from opentelemetry import context
        from frameworks import ask, span

        def work(city, here, before, after):
            context.attach(here)
            before.wait()
            late = {"tool.name": "weather", "input.value": json.dumps({"city": city})}
            with span("weather.run", _late=late, openinference__span__kind="TOOL"):
                after.set()

        def answer(prompt):
            cities = prompt.split()
            with span("invoke_agent x", gen_ai__operation__name="invoke_agent"):
                with span("chat m", gen_ai__operation__name="chat", gen_ai__output__messages=ask(cities, cities)):
                    pass
                events = [threading.Event() for _ in range(len(cities) + 1)]
                here = context.get_current()
                threads = [
                    threading.Thread(target=work, args=(city, here, events[number + 1], events[number]))
                    for number, city in enumerate(cities)
                ]  # the last one begins first
                for thread in threads:
                    thread.start()
                events[-1].set()
                for thread in threads:
                    thread.join()
            return "x"
    """

    held = await talk(bench, code, "Rome Oslo Bonn Rome")

    assert list_calls(held.turns[0]) == weather("Rome", "Oslo", "Bonn", "Rome")


PARALLEL = """
    import asyncio
    import threading
    from opentelemetry import context
    from frameworks import {framework} as run

    async def answer(prompt):
        await asyncio.sleep(0.3)
        here = {here}

        def work():
            if here is not None:
                context.attach(here)
            run([prompt])

        with_span = __import__("frameworks").span
        with with_span("invoke_agent x", gen_ai__operation__name="invoke_agent"):
            here = {here}
            thread = threading.Thread(target=work)
            thread.start()
            while thread.is_alive():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        return "x"
"""


@pytest.mark.parametrize("framework", NAMES)
async def test_calls_of_parallel_cases_are_not_mixed(bench: Any, framework: str) -> None:
    bench.write("frameworks.py", FRAMEWORKS)
    bench.agent(PARALLEL.format(framework=framework, here="context.get_current()"))
    host = bench.host(isolation="worker")

    talks = await asyncio.gather(*(bench.talk(host, f"A{number}", f"B{number}") for number in range(4)))

    for number, held in enumerate(talks):
        assert held.error is None, held.message
        assert [list_calls(turn) for turn in held.turns] == [weather(f"A{number}"), weather(f"B{number}")]
        assert all(turn.calls_unknown is None for turn in held.turns)


async def test_calls_are_unknown_if_a_thread_belongs_to_no_case(bench: Any) -> None:
    bench.write("frameworks.py", FRAMEWORKS)
    bench.agent(PARALLEL.format(framework="crewai", here="None"))
    host = bench.host(isolation="worker")

    talks = await asyncio.gather(*(bench.talk(host, f"A{number}") for number in range(3)))

    for held in talks:
        assert "in a thread that may belong to another case of this process" in held.turns[0].calls_unknown
    alone = await bench.talk(bench.host(isolation="case"), "A")
    assert list_calls(alone.turns[0]) == weather("A")


LATE = """
    import threading
    import time
    from opentelemetry import trace
    from frameworks import span, tracer

    ends = threading.Event()

    def call(parent):
        within = None if parent is None else trace.set_span_in_context(parent)
        told = {{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "late"}}
        with tracer.start_as_current_span("execute_tool late", context=within, attributes=told):
            {end}

    def work(parent):
        ends.wait(30)
        call(parent)

    def answer(prompt):
        with span("invoke_agent x", gen_ai__operation__name="invoke_agent") as agent:
            if prompt == "first":
                thread = threading.Thread(target=work, args=({parent},))
                answer.thread = thread
                thread.start()
            elif prompt == "second":
                ends.set()
                {wait}
        return "x"
"""


@pytest.mark.parametrize("parent", ["None", "agent"])
@pytest.mark.parametrize("end", ["pass", "time.sleep(1)"], ids=["ends", "runs"])
@pytest.mark.parametrize("prompts", [[["first"], ["second"]], [["first", "second"]]], ids=["cases", "turns"])
async def test_a_thread_of_an_earlier_case_gives_no_call_to_the_next(
    bench: Any, parent: str, end: str, prompts: list[list[str]]
) -> None:
    wait = "answer.thread.join()" if end == "pass" else "time.sleep(0.3)"
    bench.write("frameworks.py", FRAMEWORKS)
    bench.agent(LATE.format(parent=parent, end=end, wait=wait))
    host = bench.host(isolation="worker")

    talks = [await bench.talk(host, *texts) for texts in prompts]
    after = await bench.talk(host, "third")

    first, second = (turn for held in talks for turn in held.turns)
    assert (list_calls(first), first.calls_unknown) == ([], None)
    if len(prompts) == 1 and parent == "None":  # the thread may have been started by any turn of its session
        assert list_calls(second) == [("late", None)]
    else:
        assert list_calls(second) == []
        assert "in a thread that may belong to another case of this process" in second.calls_unknown
    assert (list_calls(after.turns[0]), after.turns[0].calls_unknown) == ([], None)


async def test_calls_are_unknown_in_a_turn_that_sets_up_a_provider(bench: Any) -> None:
    code = """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from frameworks import crewai

        def answer(prompt):
            crewai(["Rome"])
            if prompt == "set up":
                trace.set_tracer_provider(TracerProvider())
            return "x"
    """

    held = await talk(bench, code, "hi", "set up", "hi")

    first, second, third = held.turns
    assert (first.calls_unknown, third.calls_unknown) == (None, None)
    assert "a TracerProvider was set up during the turn" in second.calls_unknown
    assert list_calls(third) == weather("Rome")


async def test_a_call_that_did_not_end_with_its_turn_counts(bench: Any) -> None:
    code = """
        from frameworks import tracer

        def answer(prompt):
            told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wait",
                    "gen_ai.tool.call.arguments": "{}"}
            tracer.start_span("execute_tool wait", attributes=told)
            return "x"
    """

    held = await talk(bench, code, "hi", "again")

    assert [list_calls(turn) for turn in held.turns] == [[("wait", {})], [("wait", {})]]


async def test_calls_without_recorded_arguments_are_known_by_name(bench: Any) -> None:
    code = """
        from frameworks import span

        def answer(prompt):
            with span("execute_tool x", gen_ai__operation__name="execute_tool", gen_ai__tool__name="x"):
                return "x"
    """

    held = await talk(bench, code, "hi")

    assert list_calls(held.turns[0]) == [("x", None)]
    assert "have no arguments" in held.turns[0].arguments_unknown


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ('{"a": 1}', "Paris", "the arguments of second are no object"),
        ('{"a": 1}', "[1, 2]", "the arguments of second are no object"),
        ('{"a": 1}', "", None),
        ('{"a": 1}', "{}", None),
        ("Paris", "[1, 2]", "have no arguments"),
    ],
)
async def test_arguments_that_are_no_object_are_unknown(
    bench: Any, first: str, second: str, reason: str | None
) -> None:
    code = f"""
        from frameworks import tracer

        def answer(prompt):
            for name, value in [("first", {first!r}), ("second", {second!r})]:
                told = {{"openinference.span.kind": "TOOL", "tool.name": name, "input.value": value}}
                with tracer.start_as_current_span(name, attributes=told):
                    pass
            return "x"
    """

    held = await talk(bench, code, "hi")

    unknown = held.turns[0].arguments_unknown
    assert unknown is None if reason is None else reason in unknown


async def test_calls_are_unknown_beyond_the_maximum_number_of_spans(bench: Any) -> None:
    code = """
        from frameworks import span

        def answer(prompt):
            for _ in range(int(prompt)):
                with span("execute_tool x", gen_ai__operation__name="execute_tool", gen_ai__tool__name="x"):
                    pass
            return "x"
    """

    held = await talk(bench, code, "5000", "5001")

    assert [turn.calls_unknown for turn in held.turns] == [None, "the turn has more than 5,000 spans"]


async def test_secrets_are_judged_but_not_shown(bench: Any) -> None:
    code = """
        from frameworks import span

        def answer(prompt):
            told = {"gen_ai.tool.call.arguments": '{"api_key": "sk-1234567890abcdef"}'}
            with span("execute_tool x", _late=told, gen_ai__operation__name="execute_tool", gen_ai__tool__name="x"):
                return "x"
    """

    held = await talk(bench, code, "hi")

    assert list_calls(held.turns[0]) == [("x", {"api_key": "sk-1234567890abcdef"})]
    (span,) = (span for span in held.spans if span.kind is SpanKind.TOOL)
    assert span.request == {"api_key": "[redacted]"}
