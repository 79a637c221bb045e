"""Functions whose tool calls only spans of OpenTelemetry report."""

from __future__ import annotations

import contextvars
import json
import threading
import time
from typing import Any

import pytest

from workbench.testing import EvalTask

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Any:
    provider = sdk.TracerProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return provider.get_tracer("agent")


def test_the_calls_of_rows_in_parallel_are_those_of_their_spans(tracer: Any) -> None:
    def agent(prompt: str) -> str:
        with tracer.start_as_current_span("run", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for city in prompt.split():
                arguments = json.dumps({"city": city})
                attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
                with tracer.start_as_current_span(
                    "execute_tool", attributes={**attributes, "gen_ai.tool.call.arguments": arguments}
                ):
                    time.sleep(0.02)
        return "cold"

    prompts = [f"A{number} B{number}" for number in range(8)] + [""]
    expected = [[{"tool_name": "weather", "tool_input": {"city": city}} for city in text.split()] for text in prompts]
    task = EvalTask(
        dataset={"prompt": prompts, "reference_trajectory": expected}, metrics=["trajectory_exact_match"], history=False
    )

    result = task.evaluate(runnable=agent, concurrency=4)

    assert [row["trajectory_exact_match/score"] for row in result.rows] == [1.0] * 9
    assert [row["predicted_trajectory"] for row in result.rows] == expected


def test_calls_are_unknown_without_spans_of_agents_or_tools(tracer: Any) -> None:
    def agent(prompt: str) -> str:
        with tracer.start_as_current_span("GET /"):
            return prompt

    task = EvalTask(
        dataset={"prompt": ["a"], "reference_trajectory": [[{"tool_name": "f", "tool_input": {}}]]},
        metrics=["trajectory_exact_match"],
        history=False,
    )

    result = task.evaluate(runnable=agent)

    assert result.rows[0]["trajectory_exact_match/score"] is None


@pytest.mark.parametrize("is_expected", [False, True])
@pytest.mark.parametrize("is_passed_on", [False, True])
def test_rows_say_why_the_calls_of_their_spans_are_unknown(tracer: Any, is_passed_on: bool, is_expected: bool) -> None:
    def call(prompt: str) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": prompt,
            "gen_ai.tool.call.arguments": "{}",
        }
        with tracer.start_as_current_span("execute_tool", attributes=attributes):
            pass

    def agent(prompt: str) -> str:
        with tracer.start_as_current_span("run", attributes={"gen_ai.operation.name": "invoke_agent"}):
            context = contextvars.copy_context() if is_passed_on else contextvars.Context()
            thread = threading.Thread(target=context.run, args=(call, prompt))
            thread.start()
            thread.join()
        return prompt

    expected: list[list[dict[str, Any]]] = [[{"tool_name": name, "tool_input": {}}] for name in ("a", "b")]
    task = EvalTask(
        dataset={"prompt": ["a", "b"], "reference_trajectory": expected if is_expected else [[], []]},
        metrics=["trajectory_exact_match"],
        history=False,
    )

    result = task.evaluate(runnable=agent, concurrency=1)

    row = result.rows[1]
    if is_passed_on:
        assert (row["predicted_trajectory"], row["trajectory_exact_match/score"]) == (expected[1], float(is_expected))
        assert not result.problems
    else:
        assert (row.get("predicted_trajectory"), row["trajectory_exact_match/score"]) == (None, None)
        reasons = [(problem.status, problem.reason) for problem in result.problems if problem.row == 2]
        wanted = "run the work of the thread in contextvars.copy_context()"
        assert any(status == "ERROR" and wanted in reason for status, reason in reasons)
