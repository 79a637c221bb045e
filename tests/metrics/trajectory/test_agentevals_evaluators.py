"""The evaluators of agentevals, as functions."""

from __future__ import annotations

import json
import operator
import re
from typing import Annotated, Any, TypedDict

import pytest

from workbench.testing import (
    aextract_langgraph_trajectory_from_thread,
    create_trajectory_match_evaluator,
    extract_langgraph_trajectory_from_thread,
    graph_trajectory_strict_match,
)


def ask(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a message of a model with calls, in the form of OpenAI."""
    functions = [{"function": {"name": name, "arguments": json.dumps(args)}} for name, args in calls]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def is_match(actual: Any, expected: Any, **options: Any) -> bool:
    result = create_trajectory_match_evaluator(**options)(outputs=actual, reference_outputs=expected)
    assert result["key"] == f"trajectory_{options.get('trajectory_match_mode', 'strict')}_match"
    return bool(result["score"])


A, B, C = ("f", {"x": 1}), ("g", {"y": 2}), ("f", {"x": 3})
SAID = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("actual", "expected", "modes"),
    [
        ([A, B], [A, B], {"strict", "unordered", "subset", "superset"}),
        ([B, A], [A, B], {"strict", "unordered", "subset", "superset"}),  # calls of one message have no order
        ([A], [A, B], {"subset"}),
        ([A, B], [A], {"superset"}),
        ([A, A], [A], {"superset"}),
        ([C], [A], set()),
        ([], [], {"strict", "unordered", "subset", "superset"}),
    ],
)
def test_a_mode_compares_the_calls(actual: Any, expected: Any, modes: set[str]) -> None:
    found = {
        mode
        for mode in ("strict", "unordered", "subset", "superset")
        if is_match([SAID, ask(*actual)], [SAID, ask(*expected)], trajectory_match_mode=mode)
    }

    assert found == modes


def test_only_strict_compares_messages() -> None:
    two, one = [SAID, ask(A), ask(B)], [SAID, ask(A, B)]

    assert not is_match(two, one)
    assert not is_match([ask(A)], [{**ask(A), "role": "user"}])
    assert is_match(two, one, trajectory_match_mode="unordered")


@pytest.mark.parametrize(
    ("rule", "actual", "expected", "fits"),
    [
        (["x"], {"x": 1, "z": 1}, {"x": 1, "z": 2}, True),
        (["x"], {"x": 1}, {"x": 2}, False),
        (["x"], {"x": None}, {}, True),
        (["x"], {"x": 1}, {}, False),
        (["time.start", "x"], {"time": {"start": 1, "end": 2}}, {"time": {"start": 1, "end": 3}}, True),
        (["time.start"], {"time": {"start": 1}}, {"time": {"start": 2}}, False),
        (["time.start"], {"time": 1}, {"time": 2}, True),  # neither has it
        (["a.b", "a.b.c"], {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}, True),
        ("ignore", {"x": 1}, {}, True),
        ("subset", {"x": 1}, {"x": 1, "z": 2}, True),
        ("superset", {"x": 1}, {"x": 1, "z": 2}, False),
        (lambda actual, expected: actual["x"].lower() == expected["x"], {"x": "A"}, {"x": "a"}, True),
        (lambda actual, expected: actual["x"].lower() == expected["x"], {"x": "a"}, {"x": "A"}, False),
    ],
)
@pytest.mark.parametrize("mode", ["strict", "unordered", "subset", "superset"])
def test_overrides_compare_arguments_by_tool(mode: str, rule: Any, actual: Any, expected: Any, fits: bool) -> None:
    options = {"trajectory_match_mode": mode, "tool_args_match_overrides": {"f": rule}}

    assert is_match([ask(("f", actual))], [ask(("f", expected))], **options) is fits
    assert not is_match([ask(("g", {"x": 1}))], [ask(("g", {}))], **options)  # other tools: exact


def test_calls_get_the_best_assignment_not_the_first() -> None:
    actual, expected = [("f", {}), ("f", {"x": 1})], [("f", {"x": 1}), ("f", {})]

    assert is_match([ask(*actual)], [ask(*expected)], tool_args_match_mode="subset")


def test_messages_may_be_of_langchain_or_a_state() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    made = [
        messages.HumanMessage("hi"),
        messages.AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "1"}]),
        messages.ToolMessage("done", tool_call_id="1"),
        messages.AIMessage("bye"),
    ]
    expected = [SAID, ask(A), {"role": "tool", "content": ""}, {"role": "assistant", "content": "bye"}]

    assert is_match(made, expected)
    assert is_match({"messages": made}, {"messages": expected})
    assert not is_match(made[:2], expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trajectory_match_mode": "near"}, "trajectory_match_mode: found 'near', expected one of strict, unordered"),
        ({"trajectory_match_mode": ["strict"]}, "trajectory_match_mode: found a list, expected one of strict"),
        ({"tool_args_match_overrides": ["f"]}, "tool_args_match_overrides: found a list, expected an object"),
        ({"tool_args_match_mode": ["x"]}, r"tool_args_match_mode: found a list, expected one of exact"),
        ({"tool_args_match_overrides": {"f": 1}}, r"tool_args_match_overrides\['f'\]: found 1, expected one of exact"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_trajectory_match_evaluator(**options)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ("text", "outputs: found 'text', expected a list of messages"),
        ([{"content": "x"}], r"outputs\[0\]: found an object, expected a message with a role"),
        ([{"role": "assistant", "tool_calls": 5}], r"outputs\[0\].tool_calls: found 5, expected a list"),
        ([{"role": "assistant", "tool_calls": [1]}], r"outputs\[0\].tool_calls: found 1"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
            "the arguments of f are not JSON",
        ),
    ],
)
def test_unreadable_messages_are_refused(outputs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_trajectory_match_evaluator()(outputs=outputs, reference_outputs=[])


# Graph trajectories.


@pytest.mark.parametrize(
    ("steps", "score"),
    [
        ([["__start__", "agent"], ["agent"]], True),
        ([["agent", "__start__"], ["agent"]], False),
        ([["__start__", "agent"]], False),
        ([["__start__"], ["agent", "agent"]], False),
    ],
)
def test_steps_of_a_graph_are_compared_turn_by_turn(steps: list[list[str]], score: bool) -> None:
    reference = {"inputs": ["a", "b"], "results": [{}, {}], "steps": [["__start__", "agent"], ["agent"]]}

    result = graph_trajectory_strict_match(outputs={"results": [], "steps": steps}, reference_outputs=reference)

    assert result == {"key": "graph_trajectory_strict_match", "score": score, "comment": None, "metadata": None}


def test_an_extracted_trajectory_may_be_given_whole() -> None:
    extracted = {"inputs": [], "outputs": {"inputs": [], "results": [], "steps": [["a"]]}}

    assert graph_trajectory_strict_match(outputs=extracted, reference_outputs=extracted["outputs"])["score"]


@pytest.mark.parametrize("value", [None, [["a"]], {"steps": "a"}, {"steps": ["a"]}, {"outputs": {"results": []}}])
def test_a_value_without_steps_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"outputs: found .*, expected \{\"results\""):
        graph_trajectory_strict_match(outputs=value, reference_outputs={"steps": []})


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


def build_graph(*, last: Any = None) -> Any:
    """Build a graph whose second node asks the user. `last` is its last node."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import interrupt

    graph = StateGraph(State)
    graph.add_node("first", lambda _state: {"messages": ["first"]})
    graph.add_node("ask", lambda _state: {"messages": [interrupt("Really?")]})
    graph.add_node("last", last or (lambda _state: {"messages": ["last"]}))
    graph.add_edge(START, "first").add_edge("first", "ask").add_edge("ask", "last").add_edge("last", END)
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.needs_langchain
async def test_the_trajectory_of_a_thread_has_its_turns_and_interrupts() -> None:
    pytest.importorskip("langgraph")
    from langgraph.types import Command

    graph, config = build_graph(), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": ["hi"]}, config)
    stopped = extract_langgraph_trajectory_from_thread(graph, config)
    graph.invoke(Command(resume="yes"), config)
    graph.invoke({"messages": ["again"]}, config)

    found = extract_langgraph_trajectory_from_thread(graph, config)

    way = ["__start__", "first", "ask", "__interrupt__"]
    hi, again = ({"__start__": {"messages": [text]}} for text in ("hi", "again"))
    assert stopped == {"inputs": [hi], "outputs": {"inputs": [], "results": [{}], "steps": [way]}}
    assert found == {
        "inputs": [hi, "__resuming__", again],
        "outputs": {"inputs": [], "results": [{}, {"messages": ["last"]}, {}], "steps": [way, ["last"], way]},
    }
    assert await aextract_langgraph_trajectory_from_thread(graph, config) == found
    assert graph_trajectory_strict_match(outputs=found, reference_outputs={"steps": [way, ["last"], way]})["score"]
    assert not graph_trajectory_strict_match(outputs=found, reference_outputs=stopped)["score"]


@pytest.mark.needs_langchain
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, 'config: found an object, expected {"configurable": {"thread_id"'),
        ({"configurable": {}}, 'config: found an object, expected {"configurable": {"thread_id"'),
        (None, 'config: found null, expected {"configurable": {"thread_id"'),
        ({"configurable": {"thread_id": "other"}}, "snapshots: found none, expected those of a thread"),
    ],
)
async def test_a_thread_that_cannot_be_found_is_refused(config: Any, message: str) -> None:
    pytest.importorskip("langgraph")
    graph = build_graph()

    with pytest.raises(ValueError, match=re.escape(message)):
        extract_langgraph_trajectory_from_thread(graph, config)
    with pytest.raises(ValueError, match=re.escape(message)):
        await aextract_langgraph_trajectory_from_thread(graph, config)


@pytest.mark.needs_langchain
def test_nodes_of_a_subgraph_have_its_name_as_in_agentevals() -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command

    inner = StateGraph(State).add_node("deep", lambda _state: {"messages": ["deep"]})
    inner = inner.add_edge(START, "deep").add_edge("deep", END)
    graph, config = build_graph(last=inner.compile()), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": ["hi"]}, config)
    graph.invoke(Command(resume="yes"), config)

    steps = extract_langgraph_trajectory_from_thread(graph, config)["outputs"]["steps"]

    # agentevals takes the end of the subgraph for the end of a turn. Trajectories that it extracted stay comparable.
    assert steps == [["__start__", "first", "ask", "__interrupt__"], ["last", "last:__start__", "last:deep"], []]


@pytest.mark.needs_langchain
def test_the_result_of_a_turn_is_the_last_message_in_the_form_of_openai() -> None:
    pytest.importorskip("langgraph")
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    said = AIMessage("bye", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "1"}])
    graph = StateGraph(MessagesState).add_node("say", lambda _state: {"messages": [said]})
    compiled = graph.add_edge(START, "say").add_edge("say", END).compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    compiled.invoke({"messages": [("user", "hi")]}, config)

    (result,) = extract_langgraph_trajectory_from_thread(compiled, config)["outputs"]["results"]

    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}
    assert result == {"messages": [{"role": "assistant", "content": "bye", "tool_calls": [call]}]}
