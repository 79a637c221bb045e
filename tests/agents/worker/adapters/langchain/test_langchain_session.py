"""Sessions with agents, graphs and runnables of LangChain and LangGraph."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.worker.adapters.langchain.weather import AGENT, get_calls, get_results
from workbench.agents.agent_host import AgentHost
from workbench.model.results import FailureKind
from workbench.model.target import AgentKind
from workbench.model.trace import SpanKind

needs_langchain = pytest.mark.needs_langchain
pytestmark = pytest.mark.prepared("langchain")


@needs_langchain
async def test_the_turn_of_an_agent_has_its_calls_results_texts_and_tokens(lang: Any, way: dict[str, Any]) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(**way), "Rome", "Oslo")

    assert talk.error is None, talk.message
    assert talk.responses == [
        '4 messages, {"city": "Rome", "degrees": 3}',
        '8 messages, {"city": "Oslo", "degrees": 3}',
    ]
    first, second = talk.turns
    assert (get_calls(first), get_calls(second)) == ([("weather", {"city": "Rome"})], [("weather", {"city": "Oslo"})])
    assert get_results(second) == [{"city": "Oslo", "degrees": 3}]
    responses = first.invocation.intermediate_data.intermediate_responses
    assert [item.parts[0].text for item in responses] == ["let me see"]
    assert first.inference_calls == 2
    assert first.usage.model_dump(exclude_none=True) == {
        "prompt": 30,
        "candidates": 6,
        "thoughts": 2,
        "cached": 4,
        "total": 38,
    }


@needs_langchain
@pytest.mark.parametrize(("city", "kind"), [("Atlantis", FailureKind.AGENT), ("Limbo", FailureKind.INFRASTRUCTURE)])
async def test_an_exception_in_a_tool_is_an_error_with_its_traceback(lang: Any, city: str, kind: FailureKind) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(), city)

    assert talk.error.failure.kind is kind
    assert talk.message.partition(" (models.py:")[0] in ("ValueError: no such city", "Busy: too many requests")
    assert "models.py" in talk.error.failure.traceback


@needs_langchain
async def test_a_checkpointer_keeps_sessions_apart(lang: Any) -> None:
    lang.agent("""
        from langchain.agents import AgentState, create_agent
        from langgraph.checkpoint.memory import InMemorySaver
        from models import *

        class State(AgentState):
            mood: str

        answer = create_agent(Model(), [weather], state_schema=State, checkpointer=InMemorySaver())
    """)
    host: AgentHost = lang.langchain()

    first = await lang.talk(host, "Rome", "Oslo", state={"mood": "good", "unknown": 1})
    second = await lang.talk(host, "Bern")

    assert [text.split(",")[0] for text in (*first.responses, *second.responses)] == [
        "3 messages",
        "7 messages",
        "3 messages",
    ]
    assert first.end.final_state == {"mood": "good"}
    assert second.end.final_state == {}


@needs_langchain
async def test_calls_of_agents_inside_nodes_are_in_the_order_of_execution(lang: Any) -> None:
    lang.agent("""
        from langchain.agents import create_agent
        from langgraph.graph import MessagesState, StateGraph
        from models import *

        inner = create_agent(Model(), [weather])

        @tool
        def note(text: str) -> str:
            "Keep a note."
            return "kept"

        def ask(state):  # gives back only the last message: the call inside shows in no message
            return {"messages": inner.invoke({"messages": state["messages"][-1:]})["messages"][-1:]}

        def keep(state):
            note.invoke({"text": "done"})
            return {"messages": [AIMessage("all done")]}

        graph = StateGraph(MessagesState)
        graph.add_node("ask", ask)
        graph.add_node("keep", keep)
        graph.set_entry_point("ask")
        graph.add_edge("ask", "keep")
        answer = graph.compile()
    """)

    talk = await lang.talk(lang.langchain(), "Rome")

    assert talk.responses == ["all done"]
    assert get_calls(talk.turns[0]) == [("weather", {"city": "Rome"}), ("note", {"text": "done"})]
    assert get_results(talk.turns[0]) == [{"city": "Rome", "degrees": 3}, {"result": "kept"}]


@needs_langchain
async def test_calls_of_one_message_inside_a_node_are_in_the_order_of_the_message(lang: Any) -> None:
    lang.agent("""
        import time
        from langchain.agents import create_agent
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langchain_core.tools import StructuredTool, tool
        from langgraph.graph import END, START, MessagesState, StateGraph
        from models import Model

        class Late(StructuredTool):
            def invoke(self, *arguments, **options):  # begins after the others of the same message
                time.sleep(0.2)
                return super().invoke(*arguments, **options)

        class Two(Model):
            def _generate(self, messages, stop=None, run_manager=None, **options):
                asked = [item for item in messages if item.type == "tool"]
                if len(asked) < 4:
                    names = ["late", "soon"] if not asked else ["soon", "late"]
                    x = len(asked)
                    calls = [{"name": name, "args": {"x": x}, "id": f"{name}-{x}"} for name in names]
                    message = AIMessage(content="", tool_calls=calls)
                else:
                    message = AIMessage(content="done")
                return ChatResult(generations=[ChatGeneration(message=message)])

        def late(x: int) -> int:
            "Late."
            return x

        @tool
        def soon(x: int) -> int:
            "Soon."
            return x

        inner = create_agent(Two(), [Late.from_function(late), soon])

        def node(state):
            result = inner.invoke({"messages": state["messages"]})
            return {"messages": [AIMessage(content=result["messages"][-1].content)]}

        answer = StateGraph(MessagesState).add_node(node).add_edge(START, "node").add_edge("node", END).compile()
    """)

    talk = await lang.talk(lang.langchain(), "hi")

    calls = [(name, args["x"]) for name, args in get_calls(talk.turns[0])]
    assert calls == [("late", 0), ("soon", 0), ("soon", 2), ("late", 2)]


@needs_langchain
async def test_calls_with_a_reused_id_count_separately_but_retries_do_not(lang: Any) -> None:
    lang.agent("""
        from langchain.agents import create_agent
        from langchain.agents.middleware import wrap_tool_call
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langgraph.graph import END, START, MessagesState, StateGraph
        from models import Model, tool

        class Numbered(Model):
            def _generate(self, messages, stop=None, run_manager=None, **options):
                asked = [item for item in messages if item.type == "tool"]
                calls = [{"name": "look", "args": {"x": len(asked)}, "id": "call-0"}] if len(asked) < 2 else []
                return ChatResult(generations=[ChatGeneration(message=AIMessage(content="done", tool_calls=calls))])

        tries = []

        @tool
        def look(x: int) -> int:
            "Look."
            tries.append(x)
            if tries == [0]:
                raise ConnectionError("try again")
            return x

        @wrap_tool_call
        def insist(request, handler):
            try:
                return handler(request)
            except ConnectionError:
                return handler(request)

        inner = create_agent(Numbered(), [look], middleware=[insist])

        def node(state):
            result = inner.invoke({"messages": state["messages"][:1]})
            return {"messages": [AIMessage(content=result["messages"][-1].content)]}

        graph = StateGraph(MessagesState).add_node("one", node).add_node("two", node)
        answer = graph.add_edge(START, "one").add_edge("one", "two").add_edge("two", END).compile()
    """)

    talk = await lang.talk(lang.langchain(), "hi")

    assert [args["x"] for _, args in get_calls(talk.turns[0])] == [0, 1, 0, 1]


@needs_langchain
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("answer = 3", "agent:answer is an int (3), expected a Runnable"),
        ("def answer(): return 'x'", "agent:answer() gave a str ('x'), expected a Runnable"),
        ("def answer(a, b): pass", "agent:answer is a function that takes several arguments"),
        (
            "from langgraph.graph import MessagesState, StateGraph\nanswer = StateGraph(MessagesState)",
            "agent:answer is a graph that was not compiled, expected the result of its .compile()",
        ),
        (
            "from langchain_core.prompts import PromptTemplate\nanswer = PromptTemplate.from_template('{a} {b}')",
            "the agent's input has no key for the user's text: found the keys a, b, expected messages, one text",
        ),
    ],
)
async def test_an_object_that_is_not_an_agent_is_reported_with_the_expected_type(
    lang: Any, code: str, message: str
) -> None:
    lang.write("agent.py", code)

    talk = await lang.talk(lang.langchain(), "hi")

    assert talk.error.failure.kind is FailureKind.SETUP
    assert message in talk.message


async def test_a_missing_langchain_is_reported_with_the_extra_to_install(bench: Any) -> None:
    bench.write("langchain_core/__init__.py", "raise ModuleNotFoundError(name='langchain_core')")

    talk = await bench.talk_once("hi", kind=AgentKind.LANGCHAIN)

    assert talk.error.failure.kind is FailureKind.SETUP
    assert "langchain-core is not installed for this interpreter" in talk.message
    assert "the extra `langchain` of the workbench" in talk.message


@needs_langchain
@pytest.mark.parametrize("has_ids", [True, False])
async def test_too_many_tool_calls_are_cut_and_not_judged(lang: Any, has_ids: bool) -> None:
    lang.agent(f"""
        from langchain_core.messages import AIMessage, ToolMessage
        from langgraph.graph import END, START, MessagesState, StateGraph

        def work(state):
            ids = [str(number) if {has_ids} else None for number in range(30_000)]
            calls = [{{"name": "look", "args": {{"at": at}}, "id": each}} for at, each in enumerate(ids)]
            given = [ToolMessage("seen", name="look", tool_call_id=str(each)) for each in ids]
            return {{"messages": [AIMessage("", tool_calls=calls), *given, AIMessage("at last")]}}

        graph = StateGraph(MessagesState)
        graph.add_node("work", work)
        graph.add_edge(START, "work")
        graph.add_edge("work", END)
        answer = graph.compile()
    """)

    talk = await lang.talk(lang.langchain(), "look")

    assert talk.error is None, talk.message
    assert talk.responses == ["at last"]
    assert [args["at"] for _, args in get_calls(talk.turns[0])] == list(range(10_000))
    assert len(get_results(talk.turns[0])) == 10_000
    assert talk.turns[0].calls_unknown == "the agent made 30,000 tool calls in one turn; only the first 10,000 are kept"


@needs_langchain
async def test_too_many_tool_runs_take_linear_time(lang: Any) -> None:
    lang.agent("""
        from models import *
        from langchain_core.runnables import RunnableLambda

        @tool
        def look(at: int) -> str:
            \"""Look.\"""
            return "seen"

        def work(text, config):
            for at in range(12_000):
                look.invoke({"at": at}, config)
            return "at last"

        answer = RunnableLambda(work)
    """)

    talk = await lang.talk(lang.langchain(), "look")

    assert talk.error is None, talk.message
    assert len(get_calls(talk.turns[0])) == 10_000
    assert talk.turns[0].calls_unknown == "the agent made 12,000 tool calls in one turn; only the first 10,000 are kept"
    assert len([span for span in talk.spans if span.kind is SpanKind.TOOL]) == 10_000
    (outermost,) = [span for span in talk.spans if span.parent_id is None]
    assert outermost.attributes["workbench.spans_left_out"] == 2_000
