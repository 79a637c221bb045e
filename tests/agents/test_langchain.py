"""Agents of LangChain and LangGraph, with the real frameworks and a chat model that makes up its answers."""

from __future__ import annotations

import asyncio
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.agents.host import AgentHost
from workbench.agents.worker.adapters.base import AgentFault
from workbench.agents.worker.steps import read_steps
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.model.environment import Environment, Injection, SimulatedTool
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import FailureKind
from workbench.model.target import AgentKind
from workbench.model.trace import SpanKind
from workbench.simulation.tools.desk import CaseTools
from workbench.simulation.tools.plan import ToolPlan

needs_langchain = pytest.mark.needs_langchain

MODELS = '''
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool


    class Model(BaseChatModel):
        """Calls the tool `weather` for what a user says, then tells how many messages it saw and what the tool gave."""

        model: str = "made-up"

        @property
        def _llm_type(self):
            return "made-up"

        def bind_tools(self, tools, **options):
            return self.bind(tools=[tool.name for tool in tools], **options)

        def _generate(self, messages, stop=None, run_manager=None, **options):
            last = messages[-1]
            if last.type == "human":
                calls = [{"name": "weather", "args": {"city": last.content}, "id": "call-1"}]
                message = AIMessage(content="let me see", tool_calls=calls, usage_metadata=usage(10, 3))
            else:
                message = AIMessage(content=f"{len(messages)} messages, {last.content}", usage_metadata=usage(20, 5))
            return ChatResult(generations=[ChatGeneration(message=message)])


    class Echo(Model):
        """Says what it was told, and how many messages there were."""

        def _generate(self, messages, stop=None, run_manager=None, **options):
            message = AIMessage(content=f"{len(messages)}: {messages[-1].content}", usage_metadata=usage(1, 1))
            return ChatResult(generations=[ChatGeneration(message=message)])


    def usage(given, made):
        return {
            "input_tokens": given, "output_tokens": made, "total_tokens": given + made,
            "input_token_details": {"cache_read": 2}, "output_token_details": {"reasoning": 1},
        }


    class Busy(Exception):
        status_code = 429


    @tool
    def weather(city: str) -> dict:
        """Tell the weather of a city."""
        if city == "Atlantis":
            raise ValueError("no such city")
        if city == "Limbo":
            raise Busy("too many requests")
        return {"city": city, "degrees": 3}
'''


@pytest.fixture
def lang(bench: Any) -> Any:
    """A folder with models to import, where agents are LangChain's."""
    bench.write("models.py", MODELS)
    bench.langchain = lambda **options: bench.host(
        kind=AgentKind.LANGCHAIN, **{"mode": "fork", "isolation": "worker", **options}
    )
    return bench


def calls_of(turn: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def results_of(turn: Any) -> list[Any]:
    return [item.response for item in turn.invocation.intermediate_data.tool_responses]


AGENT = """
    from langchain.agents import create_agent
    from models import *

    answer = create_agent(Model(), [weather], system_prompt="Be brief.")
"""


@needs_langchain
async def test_an_agent_s_turn_has_its_calls_results_texts_and_tokens(lang: Any, way: dict[str, Any]) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(**way), "Rome", "Oslo")

    assert talk.error is None, talk.message
    assert talk.responses == [
        '4 messages, {"city": "Rome", "degrees": 3}',
        '8 messages, {"city": "Oslo", "degrees": 3}',
    ]
    first, second = talk.turns
    assert (calls_of(first), calls_of(second)) == ([("weather", {"city": "Rome"})], [("weather", {"city": "Oslo"})])
    assert results_of(second) == [{"city": "Oslo", "degrees": 3}]
    between = first.invocation.intermediate_data.intermediate_responses
    assert [item.parts[0].text for item in between] == ["let me see"]
    assert first.inference_calls == 2
    assert first.usage.model_dump(exclude_none=True) == {
        "prompt": 30,
        "candidates": 6,
        "thoughts": 2,
        "cached": 4,
        "total": 38,
    }


@needs_langchain
async def test_its_steps_are_spans_inside_one_another(lang: Any) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(), "Rome", "Atlantis")

    by_id = {span.id: span for span in talk.spans}
    first = [span for span in talk.spans if span.turn == 0]
    (agent,) = (span for span in first if span.kind is SpanKind.AGENT)
    (tool,) = (span for span in first if span.kind is SpanKind.TOOL)
    models = [span for span in first if span.kind is SpanKind.MODEL]
    assert (agent.name, agent.parent_id) == ("answer", None)
    assert (tool.name, tool.request, tool.response) == (
        "weather",
        {"city": "Rome"},
        {"city": "Rome", "degrees": 3},
    )
    assert by_id[tool.parent_id].name == "tools"  # the node of the graph, inside the agent
    assert by_id[by_id[tool.parent_id].parent_id] is agent
    assert [span.attributes["usage"]["prompt"] for span in models] == [10, 20]
    assert models[1].request["messages"][-1]["content"] == '{"city": "Rome", "degrees": 3}'
    for span in first:
        assert agent.start <= span.start <= span.end <= agent.end
    failed = {span.kind: span.error for span in talk.spans if span.turn == 1 and span.error}
    assert failed[SpanKind.TOOL] == failed[SpanKind.AGENT] == "ValueError: no such city"


@needs_langchain
@pytest.mark.parametrize(("city", "kind"), [("Atlantis", FailureKind.AGENT), ("Limbo", FailureKind.INFRASTRUCTURE)])
async def test_what_a_tool_raises_is_an_error_with_its_traceback(lang: Any, city: str, kind: FailureKind) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(), city)

    assert talk.error.failure.kind is kind
    assert talk.message in ("ValueError: no such city", "Busy: too many requests")
    assert "models.py" in talk.error.failure.traceback


@needs_langchain
async def test_a_checkpointer_keeps_each_session_apart(lang: Any) -> None:
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
async def test_a_graph_without_messages_gets_the_text_and_carries_its_state(lang: Any) -> None:
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
    assert [calls_of(turn) for turn in talk.turns] == [[("weather", {"city": "Rome"})], [("weather", {"city": "Oslo"})]]
    assert talk.end.final_state == {"seen": 6, "answer": "6: 3"}
    assert [span.name for span in talk.spans if span.turn == 0 and span.kind is SpanKind.OTHER] == ["look", "say"]


@needs_langchain
async def test_tools_of_agents_inside_nodes_stand_where_they_ran(lang: Any) -> None:
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
    assert calls_of(talk.turns[0]) == [("weather", {"city": "Rome"}), ("note", {"text": "done"})]
    assert results_of(talk.turns[0]) == [{"city": "Rome", "degrees": 3}, {"result": "kept"}]


@needs_langchain
async def test_a_graph_that_waits_at_an_interrupt_is_an_error_that_says_so(lang: Any) -> None:
    lang.agent("""
        from langgraph.graph import MessagesState, StateGraph
        from langgraph.types import interrupt

        graph = StateGraph(MessagesState)
        graph.add_node("ask", lambda state: {"messages": [interrupt({"question": "Really?"})]})
        graph.set_entry_point("ask")
        answer = graph.compile()
    """)

    talk = await lang.talk(lang.langchain(), "hi")

    assert talk.error.failure.kind is FailureKind.UNSUPPORTED
    assert "stopped at an interrupt" in talk.message
    assert '{"question": "Really?"}' in talk.message


@needs_langchain
async def test_an_agent_executor_tells_its_steps_and_gets_the_history(lang: Any) -> None:
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
    assert [calls_of(turn) for turn in talk.turns] == [[("weather", {"city": "Rome"})], [("weather", {"city": "Oslo"})]]
    assert results_of(talk.turns[0]) == [{"city": "Rome", "degrees": 3}]
    assert talk.end.final_state is None


@needs_langchain
async def test_a_tool_that_an_executor_has_not_is_called_once_and_an_empty_end_is_no_response(lang: Any) -> None:
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
        assert calls_of(talk.turns[0]) == [("climate", {"of": "moon"})]


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
async def test_a_runnable_gets_what_it_takes(lang: Any, code: str, responses: list[str]) -> None:
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
    ("code", "message"),
    [
        ("answer = 3", "agent:answer is an int (3), expected a Runnable"),
        ("def answer(): return 'x'", "agent:answer() gave a str ('x'), expected a Runnable"),
        ("def answer(a, b): pass", "agent:answer is a function that wants several arguments"),
        (
            "from langgraph.graph import MessagesState, StateGraph\nanswer = StateGraph(MessagesState)",
            "agent:answer is a graph that was not compiled, expected the result of its .compile()",
        ),
        (
            "from langchain_core.prompts import PromptTemplate\nanswer = PromptTemplate.from_template('{a} {b}')",
            "what the user says has no place in the agent's input: found the keys a, b, expected messages, one text",
        ),
    ],
)
async def test_what_is_no_agent_is_named_with_what_was_expected(lang: Any, code: str, message: str) -> None:
    lang.write("agent.py", code)

    talk = await lang.talk(lang.langchain(), "hi")

    assert talk.error.failure.kind is FailureKind.SETUP
    assert message in talk.message


async def test_without_langchain_the_message_names_the_extra(bench: Any) -> None:
    bench.write("langchain_core/__init__.py", "raise ModuleNotFoundError(name='langchain_core')")

    talk = await bench.talk_once("hi", kind=AgentKind.LANGCHAIN)

    assert talk.error.failure.kind is FailureKind.SETUP
    assert "langchain-core is not installed for this interpreter" in talk.message
    assert "the extra `langchain` of the workbench" in talk.message


@needs_langchain
@pytest.mark.parametrize(
    "message",
    [None, {"role": "tool", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}],
)
def test_messages_as_json_that_cannot_be_read_are_an_error_of_the_agent(message: Any) -> None:
    from langchain_core.messages import HumanMessage

    from workbench.agents.worker.adapters.langchain.reading import read_result

    with pytest.raises(AgentFault, match=r"the agent's messages cannot be read: [A-Za-z]+: "):
        read_result({"messages": [message]}, said=HumanMessage("hi", id="1"), known=set(), is_graph=True)


def desk(**answers: Any) -> CaseTools:
    """Answers in place of tools."""
    tools = tuple(
        SimulatedTool(name=name, injections=(Injection(response=answer),), place="here")
        for name, answer in answers.items()
    )
    key = JobKey(case=CaseKey(target="bench", eval_set="set", eval_id="one"))

    async def nobody(_: ModelRequest) -> ModelReply:
        raise AssertionError("no model is asked here")

    return CaseTools(ToolPlan(environment=Environment(tools=tools)), key, ask=nobody)


SIMULATED = """
    from langchain.agents import create_agent
    from langchain_core.tools import BaseTool
    from models import *

    @tool
    async def later(city: str, config: RunnableConfig) -> str:
        "Tell it later."
        return f"{city} later, {bool(config)}"

    class Own(BaseTool):
        name: str = "own"
        description: str = "Of a class of its own."

        def _run(self, city: str) -> str:
            return f"own {city}"

    class Choosing(Model):
        def _generate(self, messages, stop=None, run_manager=None, **options):
            if messages[-1].type == "human":
                calls = [{"name": name, "args": {"city": "Rome"}, "id": name} for name in messages[-1].content.split()]
                message = AIMessage(content="", tool_calls=calls)
            else:
                message = AIMessage(content=" ".join(m.content for m in messages if m.type == "tool"))
            return ChatResult(generations=[ChatGeneration(message=message)])

    answer = create_agent(Choosing(), [weather, later, Own()])
"""


@needs_langchain
async def test_tools_are_answered_for_where_the_engine_says_so(lang: Any, way: dict[str, Any]) -> None:
    lang.agent("from langchain_core.runnables import RunnableConfig\n" + textwrap.dedent(SIMULATED))
    host = lang.langchain(**way)

    simulated, real = await asyncio.gather(
        lang.talk(host, "weather later own", tools=desk(weather={"degrees": 40}, later="now", own="other")),
        lang.talk(host, "weather later own"),
    )

    assert simulated.error is None, simulated.message
    assert simulated.responses == ['{"degrees": 40} now other']
    assert real.responses == ['{"city": "Rome", "degrees": 3} Rome later, True own Rome']
    by_name = {span.name: span for span in simulated.spans if span.kind is SpanKind.TOOL}
    assert {name: span.simulated_by for name, span in by_name.items()} == dict.fromkeys(
        ("weather", "later", "own"), "injected"
    )


@needs_langchain
async def test_a_simulated_tool_that_the_agent_has_not_is_named(lang: Any) -> None:
    lang.agent(AGENT)

    talk = await lang.talk(lang.langchain(), "Rome", tools=desk(wheather=1))

    assert talk.error.failure.kind is FailureKind.SETUP
    assert talk.message == (
        "here: found 'wheather', expected one of the agent's tools (weather); did you mean 'weather'?"
    )


@needs_langchain
async def test_what_an_agent_is_is_told_by_its_tools(lang: Any) -> None:
    lang.agent(AGENT)

    session = await lang.open(lang.langchain())
    told = await session.describe()
    await session.kill()

    (tool,) = told.agents[0].tools
    assert (tool["name"], tool["description"]) == ("weather", "Tell the weather of a city.")
    assert tool["parameters"]["required"] == ["city"]
    assert told.untold == ("the instructions of answer are in its code",)


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
    told = [[{"lc": 1, "kwargs": action} if serialised else action, given] for action, given in steps]

    read = read_steps(told)

    assert [(use["name"], use["args"]) for use in read["tool_uses"]] == [
        (action["tool"], action["tool_input"]) for action, _ in steps
    ]
    assert len(read["tool_responses"]) == len(steps)


@given(JSON_VALUES)
def test_steps_that_cannot_be_read_are_an_error_and_never_nothing(steps: Any) -> None:
    try:
        read = read_steps(steps)
    except AgentFault as error:
        assert "intermediate_steps" in str(error)
    else:
        assert len(read["tool_uses"]) == len(steps or ())
