"""Interrupts of LangGraph: the graph stops and asks, and the next turn of the conversation resumes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import FailureKind, TurnResult
from workbench.simulation.simulated_tools import CaseTools, ToolPlan

pytestmark = [pytest.mark.needs_langchain, pytest.mark.prepared("langchain")]

MAIL = """
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Command, interrupt
    from models import Model, ChatGeneration, ChatResult

    def call(name, id, **args):
        return {"name": name, "args": args, "id": id}

    class Script(Model):
        "Gives the next of its messages."
        messages: list

        def _generate(self, messages, stop=None, run_manager=None, **options):
            said = sum(message.type == "ai" for message in messages)
            return ChatResult(generations=[ChatGeneration(message=self.messages[said])])

    @tool
    def send(to: str) -> str:
        "Send a mail."
        return f"sent to {to}"

    @tool
    def look(at: str) -> str:
        "Look at something."
        return f"saw {at}"

    @tool
    def ask(question: str) -> str:
        "Ask the user."
        return f"the user said {interrupt(question)}"
"""
REVIEWED = """
    from mail import *

    answer = create_agent(
        Script(messages=[
            AIMessage("I will.", tool_calls=[call("look", "1", at="list"), call("send", "2", to="bob")]),
            AIMessage("Done."),
            AIMessage("Bye."),
        ]),
        [look, send],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send": True})],
        checkpointer=InMemorySaver(),
    )
"""


def list_calls(turn: TurnResult) -> list[tuple[str, Any]]:
    assert turn.invocation.intermediate_data is not None
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def list_results(turn: TurnResult) -> list[tuple[str, Any]]:
    return [(item.name, item.response) for item in turn.invocation.intermediate_data.tool_responses]


async def talk(lang: Any, code: str, *prompts: str, **options: Any) -> Any:
    lang.write("mail.py", MAIL)
    lang.agent(code)
    return await lang.talk(lang.langchain(), *prompts, **options)


async def test_a_reviewed_call_counts_in_the_turn_in_which_it_is_approved(lang: Any) -> None:
    held = await talk(lang, REVIEWED, "write to bob", "approve", "thanks")

    assert held.error is None, held.message
    first, second, third = held.turns
    assert held.responses == [
        "Tool execution requires approval\n\nTool: send\nArgs: {'to': 'bob'}", "Done.", "Bye."
    ]  # fmt: skip
    assert (list_calls(first), list_results(first)) == ([], [])
    texts = [item.parts[0].text for item in first.invocation.intermediate_data.intermediate_responses]
    assert texts == ["I will."]
    assert list_calls(second) == [("look", {"at": "list"}), ("send", {"to": "bob"})]
    assert list_results(second) == [("look", {"result": "saw list"}), ("send", {"result": "sent to bob"})]
    assert list_calls(third) == []


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("Approve.", [{"to": "bob"}]),
        ("reject", []),
        ("reject: not him", []),
        ('{"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"to": "al"}}}]}', [{"to": "al"}]),
    ],
)
async def test_only_calls_that_were_made_count_with_their_arguments(lang: Any, answer: str, calls: list[Any]) -> None:
    held = await talk(lang, REVIEWED, "write to bob", answer)

    assert held.error is None, held.message
    made = list_calls(held.turns[1])
    assert made == [("look", {"at": "list"}), *[("send", args) for args in calls]]
    assert len(list_results(held.turns[1])) == len(made)
    assert held.responses[1] == "Done."


async def test_the_reason_of_a_refusal_reaches_the_agent(lang: Any) -> None:
    code = (
        REVIEWED
        + """
    class Reason(Script):
        def _generate(self, messages, stop=None, run_manager=None, **options):
            if messages[-1].type == "tool":
                said = " / ".join(item.content for item in messages if item.type == "tool")
                return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])
            return super()._generate(messages)

    answer = create_agent(
        Reason(messages=[AIMessage("", tool_calls=[call("send", "1", to="bob")])]),
        [send],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send": True})],
        checkpointer=InMemorySaver(),
    )
    """
    )

    held = await talk(lang, code, "write to bob", "reject: not him")

    assert "not him" in held.responses[1]


async def test_an_unclear_answer_to_a_review_approves_nothing(lang: Any) -> None:
    held = await talk(lang, REVIEWED, "write to bob", "well, perhaps")

    assert held.kind == FailureKind.AGENT
    assert "the agent waits for the review of 1 call: found" in held.message
    assert "expected approve, reject, reject: REASON, or the JSON of the decisions" in held.message


async def test_a_tool_that_asks_counts_once_when_it_has_its_answer(lang: Any) -> None:
    code = """
        from mail import *

        answer = create_agent(
            Script(messages=[
                AIMessage("", tool_calls=[call("look", "1", at="x"), call("ask", "2", question="Sure?")]),
                AIMessage("Fine."),
            ]),
            [look, ask],
            checkpointer=InMemorySaver(),
        )
    """

    held = await talk(lang, code, "go", "yes, 100 %")

    assert held.responses == ["Sure?", "Fine."]
    assert [turn.pending for turn in held.turns] == ["Sure?", None]
    first, second = held.turns
    assert list_calls(first) == [("look", {"at": "x"})]
    assert list_results(first) == [("look", {"result": "saw x"})]
    assert list_calls(second) == [("ask", {"question": "Sure?"})]
    assert list_results(second) == [("ask", {"result": "the user said yes, 100 %"})]
    stopped = [span for span in held.spans if span.attributes.get("workbench.interrupted")]
    assert {span.name for span in stopped} >= {"ask"}
    assert all(span.error is None and span.turn == 0 for span in stopped)


async def test_a_tool_that_asks_is_recorded_once_with_its_result(lang: Any, tmp_path: Path) -> None:
    code = """
        from mail import *

        answer = create_agent(
            Script(messages=[AIMessage("", tool_calls=[call("ask", "1", question="Sure?")]), AIMessage("Fine.")]),
            [ask],
            checkpointer=InMemorySaver(),
        )
    """

    async def refuse_model_call(_: Any) -> Any:
        raise AssertionError("no model is asked here")

    job = JobKey(case=CaseKey(target="bench", eval_set="set", eval_id="one"))
    tools = CaseTools(ToolPlan(record=tmp_path / "tools.json"), job, ask=refuse_model_call)

    held = await talk(lang, code, "go", "yes", tools=tools)

    assert held.error is None, held.message
    recorded = [(call.tool, call.response, call.error) for call in tools.build_recording().calls]
    assert recorded == [("ask", "the user said yes", None)]


TWO = """
    from mail import *

    def one(state):
        return {"messages": [AIMessage(f"one: {interrupt('First?')!r}")]}

    def two(state):
        return {"messages": [AIMessage(f"two: {interrupt({'question': 'Second?'})!r}, {interrupt('Third?')!r}")]}

    graph = StateGraph(MessagesState).add_node("one", one).add_node("two", two)
    graph = graph.add_edge(START, "one").add_edge(START, "two").add_edge("one", END).add_edge("two", END)
    answer = graph.compile(checkpointer=InMemorySaver())
"""


async def test_several_interrupts_are_answered_one_a_turn(lang: Any) -> None:
    held = await talk(lang, TWO, "hi", "a", '{"b": [1]}', "false", "and now?", "x")

    assert held.error is None, held.message
    assert held.responses == [
        'First?\n\n{"question": "Second?"}',
        '{"question": "Second?"}',
        "Third?",
        "two: {'b': [1]}, False",
        'First?\n\n{"question": "Second?"}',  # a message of the user starts the graph again
        '{"question": "Second?"}',
    ]


async def test_a_conversation_may_end_at_an_interrupt(lang: Any) -> None:
    held = await talk(lang, TWO, "hi")

    assert held.error is None, held.message
    assert held.responses == ['First?\n\n{"question": "Second?"}']
    assert held.turns[0].pending == 'First?\n\n{"question": "Second?"}'


async def test_messages_without_ids_are_not_counted_again(lang: Any) -> None:
    code = """
        import operator
        from typing import Annotated, TypedDict
        from mail import *

        class State(TypedDict):
            messages: Annotated[list, operator.add]

        def plan(state):
            return {"messages": [AIMessage("", tool_calls=[call("weigh", "1", kg=3)])]}

        def work(state):
            return {"messages": [ToolMessage(interrupt("Ok?"), tool_call_id="1"), AIMessage("Done.")]}

        graph = StateGraph(State).add_node("plan", plan).add_node("work", work)
        graph = graph.add_edge(START, "plan").add_edge("plan", "work").add_edge("work", END)
        answer = graph.compile(checkpointer=InMemorySaver())
    """

    held = await talk(lang, code, "hi", "ok")

    assert held.error is None, held.message
    assert [list_calls(turn) for turn in held.turns] == [[], [("weigh", {"kg": 3})]]
    assert held.responses == ["Ok?", "Done."]


HUMAN = """
    from mail import *

    def plan(state):
        if state["messages"][-1].type == "human":
            return {"messages": [AIMessage("", tool_calls=[call("CALLED", "1", to="bob")])]}
        return {"messages": [AIMessage(state["messages"][-1].content)]}

    def review(state):
        message = state["messages"][-1]
        answer = interrupt("Ok?")
        if answer == "yes":
            return Command(goto="work")
        if isinstance(answer, dict):
            changed = [call(answer["name"], answer["id"], **answer["args"])] if answer else []
            kept = {"id": message.id} if answer.get("replace", True) else {}
            return Command(goto="work", update={"messages": [AIMessage("", tool_calls=changed, **kept)]})
        refusal = ToolMessage("Refused.", tool_call_id=message.tool_calls[0]["id"])
        return Command(goto="plan", update={"messages": [refusal]})

    def post(to):
        return f"posted to {to}"

    def run(name, args):
        return send.invoke(args) if name == "send" else post(**args)

    def work(state):
        calls = state["messages"][-1].tool_calls
        made = [ToolMessage(run(item["name"], item["args"]), tool_call_id=item["id"]) for item in calls]
        return {"messages": made or [AIMessage("Nothing to do.")]}

    graph = StateGraph(MessagesState).add_node("plan", plan).add_node("work", work)
    graph = graph.add_node("review", review, destinations=("plan", "work")).add_edge(START, "plan")
    graph = graph.add_conditional_edges("plan", lambda state: "NEXT" if state["messages"][-1].tool_calls else END)
    graph = graph.add_conditional_edges("work", lambda state: "plan" if state["messages"][-1].type == "tool" else END)
    answer = graph.compile(checkpointer=InMemorySaver(), interrupt_before=BREAKPOINTS)
"""


def make_reviewing_graph(called: str, *, breakpoints: tuple[str, ...] = ()) -> str:
    """Return a graph whose review node needs an answer before a tool runs; breakpoints replace that node."""
    code = HUMAN.replace("CALLED", called).replace("BREAKPOINTS", repr(list(breakpoints)))
    return code.replace("NEXT", "work" if breakpoints else "review")


async def test_a_refused_tool_that_a_node_would_invoke_is_no_call(lang: Any) -> None:
    held = await talk(lang, make_reviewing_graph("send"), "write to bob", "no", "write to bob", "yes")

    assert held.error is None, held.message
    assert held.responses == ["Ok?", "Refused.", "Ok?", "sent to bob"]
    assert [list_calls(turn) for turn in held.turns] == [[], [], [], [("send", {"to": "bob"})]]
    assert list_results(held.turns[1]) == []
    assert list_results(held.turns[3]) == [("send", {"result": "sent to bob"})]
    assert [turn.calls_unknown for turn in held.turns] == [None] * 4


@pytest.mark.parametrize(("said", "response"), [("no", "Refused."), ("yes", "posted to bob")])
async def test_it_is_unknown_whether_a_plain_function_ran_after_an_answer(lang: Any, said: str, response: str) -> None:
    held = await talk(lang, make_reviewing_graph("post"), "write to bob", said, "write to al")

    assert held.error is None, held.message
    assert held.responses == ["Ok?", response, "Ok?"]
    unknown = "it is unknown whether post ran or was refused after an interrupt: LangChain reported no run"
    assert [turn.calls_unknown for turn in held.turns] == [None, unknown, None]
    assert list_results(held.turns[1]) == [("post", {"result": response})]


async def test_it_is_unknown_whether_a_plain_function_ran_in_a_subgraph(lang: Any) -> None:
    code = (
        make_reviewing_graph("post")
        .replace("answer = graph.compile(", "inner = graph.compile(")
        .replace("checkpointer=InMemorySaver(), ", "")
    )
    code += """
    outer = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")
    answer = outer.compile(checkpointer=InMemorySaver())
    """

    held = await talk(lang, code, "write to bob", "no")

    assert held.error is None, held.message
    assert held.responses == ["Ok?", "Refused."]
    unknown = "it is unknown whether post ran or was refused after an interrupt: LangChain reported no run"
    assert [turn.calls_unknown for turn in held.turns] == [None, unknown]


async def test_a_plain_function_runs_after_a_breakpoint_because_nothing_can_refuse_it(lang: Any) -> None:
    held = await talk(lang, make_reviewing_graph("post", breakpoints=("work",)), "write to bob", "continue")

    assert held.error is None, held.message
    assert held.responses[1] == "posted to bob"
    assert [list_calls(turn) for turn in held.turns] == [[], [("post", {"to": "bob"})]]
    assert [turn.calls_unknown for turn in held.turns] == [None, None]


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ('{"name": "post", "id": "1", "args": {"to": "al"}}', [("post", {"to": "al"})]),
        ('{"name": "post", "id": "2", "args": {"to": "al"}}', [("post", {"to": "al"})]),
        ('{"name": "post", "id": "1", "args": {"to": "al"}, "replace": false}', [("post", {"to": "al"})]),
        ("{}", []),
    ],
)
async def test_a_graph_may_change_a_call_while_it_waits(lang: Any, answer: str, calls: list[Any]) -> None:
    held = await talk(lang, make_reviewing_graph("post"), "write to bob", answer)

    assert held.error is None, held.message
    assert held.responses == ["Ok?", "posted to al" if calls else "Nothing to do."]
    assert list_calls(held.turns[1]) == calls


async def test_a_rejected_call_of_an_agent_inside_a_graph_does_not_count(lang: Any) -> None:
    code = (
        REVIEWED.replace("answer =", "inner =").replace("checkpointer=InMemorySaver(),", "")
        + """
    graph = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")
    answer = graph.compile(checkpointer=InMemorySaver())
    """
    )

    held = await talk(lang, code, "write to bob", "reject")

    assert held.error is None, held.message
    assert [list_calls(turn) for turn in held.turns] == [[], [("look", {"at": "list"})]]
    assert list_results(held.turns[1]) == [("look", {"result": "saw list"})]


async def test_a_node_that_runs_again_calls_its_tools_again_with_one_result_each(lang: Any) -> None:
    code = """
        from langgraph.prebuilt import ToolNode
        from mail import *

        def plan(state):
            if state["messages"][-1].type == "tool":
                return {"messages": [AIMessage("Fine.")]}
            calls = [call("look", "1", at="x"), call("ask", "2", question="Sure?")]
            return {"messages": [AIMessage("", tool_calls=calls)]}

        graph = StateGraph(MessagesState).add_node("plan", plan).add_node("tools", ToolNode([look, ask]))
        graph = graph.add_edge(START, "plan").add_edge("tools", "plan")
        graph = graph.add_conditional_edges("plan", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        answer = graph.compile(checkpointer=InMemorySaver())
    """

    held = await talk(lang, code, "go", "yes")

    assert held.error is None, held.message
    first, second = held.turns
    assert list_calls(first) == [("look", {"at": "x"})]
    assert list_results(first) == [("look", {"result": "saw x"})]
    assert list_calls(second) == [("look", {"at": "x"}), ("ask", {"question": "Sure?"})]
    assert list_results(second) == [("look", {"result": "saw x"}), ("ask", {"result": "the user said yes"})]


async def test_a_breakpoint_is_continued_by_the_next_turn(lang: Any) -> None:
    code = """
        from mail import *

        answer = create_agent(
            Script(messages=[AIMessage("", tool_calls=[call("send", "1", to="bob")]), AIMessage("Done.")]),
            [send],
            checkpointer=InMemorySaver(),
            interrupt_before=["tools"],
        )
    """

    held = await talk(lang, code, "write to bob", "continue")

    assert held.error is None, held.message
    assert held.responses == ["The graph stopped at tools. The next turn continues it.", "Done."]
    assert [list_calls(turn) for turn in held.turns] == [[], [("send", {"to": "bob"})]]


@pytest.mark.parametrize("node", ["draft", "lambda state: draft.invoke(state)"])
async def test_a_breakpoint_of_a_subgraph_is_continued_by_the_next_turn(lang: Any, node: str) -> None:
    code = """
        from mail import *

        def say(text):
            return lambda state: {"messages": [AIMessage(text)]}

        draft = StateGraph(MessagesState).add_node("write", say("drafted")).add_node("post", say("sent"))
        draft = draft.add_edge(START, "write").add_edge("write", "post").compile(interrupt_before=["post"])
        graph = StateGraph(MessagesState).add_node("plan", say("planned")).add_node("draft", NODE)
        answer = graph.add_edge(START, "plan").add_edge("plan", "draft").compile(checkpointer=InMemorySaver())
    """

    held = await talk(lang, code.replace("NODE", node), "write to bob", "continue", "again")

    assert held.error is None, held.message
    stopped = "The graph stopped at draft. The next turn continues it."
    assert held.responses == [stopped, "sent", stopped]


async def test_a_graph_with_one_text_is_resumed(lang: Any) -> None:
    code = """
        from typing import TypedDict
        from mail import *

        class State(TypedDict):
            question: str
            answer: str

        graph = StateGraph(State).add_node("ask", lambda state: {"answer": state["question"] + interrupt("Name?")})
        answer = graph.add_edge(START, "ask").add_edge("ask", END).compile(checkpointer=InMemorySaver())
    """

    held = await talk(lang, code, "hi ", "al")

    assert held.error is None, held.message
    assert held.responses == ["Name?", "hi al"]


async def test_an_interrupt_without_a_checkpointer_is_an_error_that_says_so(lang: Any) -> None:
    held = await talk(lang, TWO.replace("checkpointer=InMemorySaver()", ""), "hi")

    assert held.kind == FailureKind.UNSUPPORTED
    assert "cannot resume it without a checkpointer" in held.message
    assert "it asks: First?" in held.message


@pytest.mark.parametrize("node", ["say", "graph.compile(interrupt_after=['say'])"])
async def test_a_breakpoint_without_a_checkpointer_is_an_error_that_says_so(lang: Any, node: str) -> None:
    code = """
        from mail import *

        def say(state):
            return {"messages": [AIMessage("said")]}

        graph = StateGraph(MessagesState).add_node("say", say).add_edge(START, "say")
        outer = StateGraph(MessagesState).add_node("say", NODE).add_node("end", say).add_edge(START, "say")
        answer = outer.add_edge("say", "end").compile(BREAKPOINT)
    """
    code = code.replace("NODE", node).replace("BREAKPOINT", "interrupt_before='*'" if node == "say" else "")

    held = await talk(lang, code, "hi", "again")

    assert held.kind == FailureKind.UNSUPPORTED
    assert "cannot continue it without a checkpointer" in held.message
    assert ("at every node" if node == "say" else "at say,") in held.message
