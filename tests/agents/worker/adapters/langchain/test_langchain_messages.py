"""Inputs of LangChain agents, the steps of agent executors, and messages that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.worker.adapters.langchain.weather import get_calls, get_results
from workbench.agents.worker.adapters.base import AgentFault
from workbench.agents.worker.adapters.langchain.langchain_messages import read_steps
from workbench.model.trace import SpanKind

needs_langchain = pytest.mark.needs_langchain
pytestmark = pytest.mark.prepared("langchain")


@needs_langchain
async def test_an_agent_executor_reports_its_steps_and_receives_the_history(lang: Any) -> None:
    lang.agent("""
        from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
        from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
        from models import *

        prompt = ChatPromptTemplate.from_messages([
            MessagesPlaceholder("chat_history"), ("human", "{input}"), MessagesPlaceholder("agent_scratchpad"),
        ])
        answer = AgentExecutor(agent=create_tool_calling_agent(Model(), [weather], prompt), tools=[weather])
    """)

    talk = await lang.talk(lang.langchain(), "Rome", "Oslo")

    assert talk.error is None, talk.message
    assert talk.responses == [
        '3 messages, {"city": "Rome", "degrees": 3}',
        '5 messages, {"city": "Oslo", "degrees": 3}',
    ]
    assert [get_calls(turn) for turn in talk.turns] == [
        [("weather", {"city": "Rome"})],
        [("weather", {"city": "Oslo"})],
    ]
    assert get_results(talk.turns[0]) == [{"city": "Rome", "degrees": 3}]
    assert talk.end.final_state is None


@needs_langchain
async def test_a_call_of_a_missing_tool_counts_once_and_an_empty_answer_stays_empty(lang: Any) -> None:
    lang.agent("""
        from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
        from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
        from models import *

        class Wrong(Model):
            def _generate(self, messages, stop=None, run_manager=None, **options):
                calls = [{"name": "climate", "args": {"of": "moon"}, "id": "c"}] if messages[-1].type == "human" else []
                message = AIMessage(content="let me see" if calls else "", tool_calls=calls)
                return ChatResult(generations=[ChatGeneration(message=message)])

        prompt = ChatPromptTemplate.from_messages([("human", "{input}"), MessagesPlaceholder("agent_scratchpad")])
        answer = AgentExecutor(agent=create_tool_calling_agent(Wrong(), [weather], prompt), tools=[weather])
        from langchain.agents import create_agent
        graph = create_agent(Wrong(), [weather])
    """)

    executor = await lang.talk(lang.langchain(), "hi")
    graph = await lang.talk(lang.langchain(location="agent:graph"), "hi")

    for talk in (executor, graph):
        assert talk.error is None, talk.message
        assert talk.responses == [""]
        assert get_calls(talk.turns[0]) == [("climate", {"of": "moon"})]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ACTIONS = st.fixed_dictionaries(
    {"tool": st.text(min_size=1, max_size=5), "tool_input": st.dictionaries(st.text(max_size=3), JSON_VALUES)}
)


@given(st.lists(st.tuples(ACTIONS, JSON_VALUES), max_size=4), st.booleans())
def test_steps_keep_their_order_names_and_arguments(steps: list[Any], serialised: bool) -> None:
    raw_steps = [[{"lc": 1, "kwargs": action} if serialised else action, observation] for action, observation in steps]

    result = read_steps(raw_steps)

    assert [(use["name"], use["args"]) for use in result["tool_uses"]] == [
        (action["tool"], action["tool_input"]) for action, _ in steps
    ]
    assert len(result["tool_responses"]) == len(steps)


@given(JSON_VALUES)
def test_unreadable_steps_are_an_error_and_never_ignored(steps: Any) -> None:
    try:
        result = read_steps(steps)
    except AgentFault as error:
        assert "intermediate_steps" in str(error)
    else:
        assert len(result["tool_uses"]) == len(steps or ())


@needs_langchain
async def test_a_graph_without_messages_receives_the_text_and_keeps_its_state(lang: Any) -> None:
    lang.agent("""
        from typing import TypedDict
        from langgraph.graph import StateGraph
        from models import *

        class State(TypedDict, total=False):
            question: str
            seen: int
            answer: str

        def look(state):
            return {"seen": state.get("seen", 0) + 1}

        def say(state):
            found = weather.invoke({"city": state["question"]})
            return {"answer": f"{state['seen']}: {found['degrees']}"}

        graph = StateGraph(State)
        graph.add_node("look", look)
        graph.add_node("say", say)
        graph.set_entry_point("look")
        graph.add_edge("look", "say")
        answer = graph.compile()
    """)

    talk = await lang.talk(lang.langchain(), "Rome", "Oslo", state={"seen": 4})

    assert talk.error is None, talk.message
    assert talk.responses == ["5: 3", "6: 3"]
    assert [get_calls(turn) for turn in talk.turns] == [
        [("weather", {"city": "Rome"})],
        [("weather", {"city": "Oslo"})],
    ]
    assert talk.end.final_state == {"seen": 6, "answer": "6: 3"}
    assert [span.name for span in talk.spans if span.turn == 0 and span.kind is SpanKind.OTHER] == ["look", "say"]


@needs_langchain
@pytest.mark.parametrize(
    ("code", "responses"),
    [
        ("answer = RunnableLambda(str.upper)", ["A", "B"]),
        ("answer = Echo()", ["1: a", "3: b"]),
        ("def answer(): return Echo() | StrOutputParser()", ["1: a", "3: b"]),
        ("async def answer(config): return Echo()", ["1: a", "3: b"]),
        ("answer = ChatPromptTemplate.from_template('{name}? {question}') | Echo()", ["1: Human? a", "1: Human? b"]),
        (
            "answer = ChatPromptTemplate.from_messages([MessagesPlaceholder('history', optional=True),"
            " ('human', '{x}')]) | Echo()",
            ["1: a", "3: b"],
        ),
        ("answer = RunnableLambda(lambda given: {'answer': given['query'] * 2})", ["aa", "bb"]),
        ("answer = RunnableLambda(lambda text: {'city': text, 'rain': False})", ['{"city": "a", "rain": false}', None]),
    ],
)
async def test_a_runnable_gets_the_input_that_it_expects(lang: Any, code: str, responses: list[str]) -> None:
    lang.agent("""
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
        from langchain_core.runnables import RunnableLambda
        from models import *
    """)
    with (lang.folder / "agent.py").open("a") as file:
        file.write(code)

    prompts = ["a", "b"] if responses[1] is not None else ["a"]
    talk = await lang.talk(lang.langchain(), *prompts, state={"name": "Human"})

    assert talk.error is None, talk.message
    assert talk.responses == responses[: len(prompts)]


@needs_langchain
@pytest.mark.parametrize(
    "message",
    [None, {"role": "tool", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}],
)
def test_unreadable_json_messages_are_an_error_of_the_agent(message: Any) -> None:
    from langchain_core.messages import HumanMessage

    from workbench.agents.worker.adapters.langchain.langchain_messages import Known, read_result

    with pytest.raises(AgentFault, match=r"the agent's messages cannot be read: [A-Za-z]+: "):
        read_result({"messages": [message]}, said=HumanMessage("hi", id="1"), known=Known(), is_graph=True, pending=[])


@needs_langchain
async def test_structured_output_is_the_response_and_its_call_is_that_of_langchain(lang: Any) -> None:
    lang.agent("""
        from langchain.agents import create_agent
        from langchain.agents.structured_output import ToolStrategy
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage, ToolMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from models import weather
        from pydantic import BaseModel

        class Report(BaseModel):
            city: str
            sky: str | None = None

        class Scripted(BaseChatModel):
            @property
            def _llm_type(self):
                return "scripted"

            def bind_tools(self, tools, **kwargs):
                return self

            def _generate(self, messages, stop=None, run_manager=None, **kwargs):
                answered = any(isinstance(message, ToolMessage) for message in messages)
                name = "Report" if answered else "weather"
                call = {"name": name, "args": {"city": "Rome"}, "id": name, "type": "tool_call"}
                return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])

        answer = create_agent(Scripted(), [weather], response_format=ToolStrategy(Report))
    """)

    talk = await lang.talk(lang.langchain(), "Rome")

    assert talk.error is None, talk.message
    assert talk.responses == ['{"city": "Rome", "sky": null}']
    assert [name for name, *_ in get_calls(talk.turns[0])] == ["weather"]
