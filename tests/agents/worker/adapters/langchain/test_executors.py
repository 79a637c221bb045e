"""LangChain agent executors: their steps and their final responses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.worker.adapters.langchain.weather import get_calls, get_results
from workbench.agents.worker.adapters.base import AgentFault
from workbench.agents.worker.adapters.langchain.langchain_messages import read_steps

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
