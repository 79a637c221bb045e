"""Agents of frameworks as `runnable`: they run in this process and provide trajectory and text."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from workbench.testing import EvalResult, EvalTask, EvaluationError

CALL = {"tool_name": "weather", "tool_input": {"city": "Rome"}}
DATASET = {"prompt": ["Rome", "Atlantis"], "reference_trajectory": [[CALL], [CALL]], "reference": ["sunny in Rome"] * 2}


def evaluate(runnable: Any, **options: Any) -> EvalResult:
    task = EvalTask(dataset=DATASET, metrics=["trajectory_exact_match", "exact_match"])
    return task.evaluate(runnable=runnable, **options)


def make_langchain_tool() -> Any:
    from langchain_core.tools import tool

    @tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """Return the weather of a city."""
        if city == "Atlantis":
            raise ValueError("no such city")
        return f"sunny in {city}"

    return weather


def check(result: EvalResult) -> None:
    """Check that the first prompt has its call and answer, and the second one failed."""
    first, second = result.rows
    assert first["predicted_trajectory"] == [CALL]
    assert first["response"] == "sunny in Rome"
    assert first["trajectory_exact_match/score"] == 1.0
    assert (second["failure"], second["response"]) == (1, None)
    assert {problem.reason for problem in result.problems} == {"ValueError: no such city"}


@pytest.mark.needs_langchain
def test_a_compiled_graph_runs_asynchronously_if_possible() -> None:
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    threads = set[str]()

    async def model(state: Any) -> Any:
        threads.add(threading.current_thread().name)
        last = state["messages"][-1]
        if last.type == "tool":
            return {"messages": [AIMessage(content=last.content)]}
        call = {"name": "weather", "args": {"city": last.content}, "id": "c"}
        return {"messages": [AIMessage(content="", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([make_langchain_tool()], handle_tool_errors=False))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")

    check(evaluate(graph.compile()))
    assert len(threads) == 1  # the thread of the event loop


@pytest.mark.needs_langchain
def test_a_row_whose_graph_stops_at_an_interrupt_is_an_error_with_the_question() -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import interrupt

    def answer(state: Any) -> Any:
        city = state["messages"][-1].content
        return {"messages": [AIMessage(f"sunny in {city if city == 'Rome' else interrupt('Which sea?')}")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")

    result = evaluate(graph.compile(checkpointer=InMemorySaver()))

    answered, asked = result.rows
    assert answered["exact_match/score"] == 1.0
    assert (asked["failure"], asked["response"]) == (1, None)
    assert (asked["exact_match/score"], asked["trajectory_exact_match/score"]) == (None, None)
    assert {(problem.row, problem.status, problem.reason) for problem in result.problems} == {
        (2, "ERROR", "the agent waits for an answer, which a row cannot give; it asks: Which sea?")
    }


@pytest.mark.needs_langchain
def test_an_uncompiled_graph_is_refused_with_advice() -> None:
    from langgraph.graph import MessagesState, StateGraph

    with pytest.raises(EvaluationError, match="StateGraph that was not compiled"):
        evaluate(StateGraph(MessagesState))


@pytest.mark.needs_langchain
def test_an_agent_executor_returns_its_steps_by_default() -> None:
    from langchain_classic.agents import AgentExecutor, BaseSingleActionAgent
    from langchain_core.agents import AgentAction, AgentFinish

    class Planner(BaseSingleActionAgent):
        @property
        def input_keys(self) -> list[str]:
            return ["input"]

        def plan(self, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
            if intermediate_steps:
                return AgentFinish({"output": intermediate_steps[-1][1]}, "")
            return AgentAction("weather", {"city": inputs["input"]}, "")

        async def aplan(self, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
            return self.plan(intermediate_steps, callbacks, **inputs)

    check(evaluate(AgentExecutor(agent=Planner(), tools=[make_langchain_tool()])))


@pytest.mark.needs_langchain
def test_a_chain_receives_the_prompt() -> None:
    from langchain_core.runnables import RunnableLambda

    result = evaluate(RunnableLambda(str.upper))

    assert [row["response"] for row in result.rows] == ["ROME", "ATLANTIS"]


@pytest.mark.needs_langchain
def test_blocking_chains_delay_no_other_rows_and_do_not_keep_the_program_alive() -> None:
    code = """
import threading, time
from langchain_core.runnables import RunnableLambda
from workbench.testing import EvalTask

def answer(prompt):
    time.sleep(0.5)
    return prompt if prompt == "a" else threading.Event().wait()

task = EvalTask(dataset={"prompt": ["a"] * 40 + ["b"], "reference": ["a"] * 41}, metrics=["exact_match"])
started = time.perf_counter()
result = task.evaluate(runnable=RunnableLambda(answer), concurrency=41, timeout_seconds=4)
print(time.perf_counter() - started < 12, result.summary_metrics["exact_match/mean"], result.rows[40]["failure"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["True", "1.0", "1"]


@pytest.mark.needs_adk
@pytest.mark.parametrize("is_app", [False, True])
def test_an_adk_agent_runs_with_a_session_for_each_prompt(is_app: bool) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class Model(BaseLlm):
        model: str = "made-up"

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            part = llm_request.contents[-1].parts[-1]
            if part.function_response is not None:
                part_of_reply = types.Part(text=part.function_response.response["result"])
            else:
                part_of_reply = types.Part(function_call=types.FunctionCall(name="weather", args={"city": part.text}))
            yield LlmResponse(content=types.Content(role="model", parts=[part_of_reply]))

    def weather(city: str) -> str:
        """Return the weather of a city."""
        if city == "Atlantis":
            raise ValueError("no such city")
        return f"sunny in {city}"

    agent = LlmAgent(name="forecaster", model=Model(), tools=[weather])

    check(evaluate(App(name="forecasts", root_agent=agent) if is_app else agent))


class _Engine:
    """An agent like a local one of `reasoning_engines`."""

    def query(self, *, input: str, config: Any = None) -> Any:
        time.sleep(0.2)
        if input == "Atlantis":
            raise ValueError("no such city")
        step = [{"lc": 1, "kwargs": {"tool": "weather", "tool_input": {"city": input}}}, "sunny"]
        return {"output": f"sunny in {input}", "intermediate_steps": [step]}


def test_objects_with_query_are_agent_engine_agents_and_run_in_parallel() -> None:
    check(evaluate(_Engine()))

    class Meeting:
        """An agent that answers only after all parallel queries have arrived."""

        def __init__(self) -> None:
            self.all_there = threading.Barrier(8)

        def query(self, *, input: str) -> Any:
            self.all_there.wait(60)
            return {"output": "all there"}

    task = EvalTask(dataset={"prompt": ["Rome"] * 8, "reference": ["all there"] * 8}, metrics=["exact_match"])
    result = task.evaluate(runnable=Meeting(), concurrency=8)

    assert result.summary_metrics["exact_match/mean"] == 1


def test_an_answer_without_steps_has_no_trajectory() -> None:
    class Silent:
        def query(self, *, input: str) -> Any:
            return {"output": input}

    assert [row.get("predicted_trajectory") for row in evaluate(Silent()).rows] == [None, None]


FAILING = """
import logging, sys
from google.adk.agents import LlmAgent
from workbench.testing import EvalTask


def evaluate():
    agent = LlmAgent(name="keyless", model="gemini-2.5-flash")
    task = EvalTask(dataset={"prompt": ["one"], "reference": ["one"]}, metrics=["exact_match"])
    print(task.evaluate(runnable=agent).problems[0].reason)


evaluate()
logging.basicConfig(format="heard %(name)s")
print("listening", file=sys.stderr)
evaluate()
"""


@pytest.mark.needs_adk
def test_log_records_of_a_failing_adk_agent_appear_only_with_a_log_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FAILING], check=False, capture_output=True, text=True, timeout=120
    )

    missing = "google.genai finds no key: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment"
    assert [line.startswith(missing) for line in done.stdout.splitlines()] == [True, True]
    before, _, heard = done.stderr.partition("listening\n")
    assert "heard google_adk." not in before and "Traceback" not in before
    assert "heard google_adk." in heard and "Traceback" in heard
