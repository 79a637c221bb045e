"""A failing row affects only itself and has a reason, where the original SDK crashes or loses rows."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.testing.evaluation.evaluated import CALL, PROMPTS, evaluate, find_reasons, get_column
from workbench.engine.run import Run
from workbench.model.results import CaseResult
from workbench.testing import CustomMetric, EvalTask, TrajectorySingleToolUse


def test_rows_without_a_trajectory_have_no_score_and_a_reason() -> None:
    def agent(prompt: str) -> dict[str, Any]:
        return {"response": "r"} if prompt == "two" else {"response": "r", "predicted_trajectory": [CALL]}

    result = evaluate(agent, ["trajectory_exact_match"])

    assert get_column(result, "trajectory_exact_match/score") == [1.0, None, 1.0]
    assert find_reasons(result, "trajectory_exact_match/score") == {2: "the row has no predicted_trajectory"}
    assert get_column(result, "predicted_trajectory") == [[CALL], None, [CALL]]
    assert find_reasons(result, "predicted_trajectory") == {2: "the agent gave no predicted_trajectory"}


def test_an_empty_trajectory_differs_from_a_missing_one() -> None:
    result = evaluate(
        lambda prompt: {"response": "r", "predicted_trajectory": []}, ["trajectory_recall", "trajectory_precision"]
    )

    assert get_column(result, "trajectory_recall/score") == [0.0, 0.0, 0.0]
    assert find_reasons(result, "trajectory_precision/score") == dict.fromkeys((1, 2, 3), "no tool was called")


def test_a_plain_text_is_a_response() -> None:
    result = evaluate(lambda prompt: prompt.upper(), ["exact_match"], {"prompt": ["a"], "reference": ["A"]})

    assert result.rows[0]["response"] == "A"
    assert result.summary_metrics["exact_match/mean"] == 1.0


def test_keys_of_the_environment_are_masked_in_answers_of_an_agent(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "abc-DEF-123456-ghi")
    call = {"tool_name": "send", "tool_input": {"key": "abc-DEF-123456-ghi"}}

    result = evaluate(
        lambda prompt: {"response": "with abc-DEF-123456-ghi", "predicted_trajectory": [call]},
        ["exact_match"],
        {"prompt": ["a"], "reference": ["A"]},
    )

    assert result.rows[0]["response"] == "with [redacted]"
    assert result.rows[0]["predicted_trajectory"] == [{"tool_name": "send", "tool_input": {"key": "[redacted]"}}]
    stored = list((project / ".workbench").glob("history.db*"))
    assert stored
    assert not any(b"DEF-123456" in path.read_bytes() for path in stored)


async def _answer(prompt: str) -> str:
    await asyncio.sleep(0.01)
    return prompt


class _AsyncCallable:
    async def __call__(self, prompt: str) -> str:
        return await _answer(prompt)


@pytest.mark.parametrize("agent", [_answer, _AsyncCallable(), partial(_answer)])
def test_asynchronous_agents_are_awaited(agent: Any) -> None:
    assert get_column(evaluate(agent, ["exact_match"], {"prompt": ["a"], "reference": ["a"]}), "response") == ["a"]


def test_an_agent_that_raises_or_exits_fails_only_its_row() -> None:
    def agent(prompt: str) -> str:
        if prompt == "one":
            raise ValueError("no such key")
        if prompt == "two":
            raise SystemExit(3)
        return "r"

    result = evaluate(agent, ["trajectory_exact_match"])

    assert get_column(result, "failure") == [1, 1, 0]
    assert get_column(result, "latency_in_seconds")[:2] == [None, None]
    assert find_reasons(result, "response") == {1: "ValueError: no such key", 2: "the agent called sys.exit(3)"}
    assert result.summary_metrics["failure/mean"] == pytest.approx(2 / 3)


async def _await_cancelled_task(prompt: str) -> str:
    inner = asyncio.ensure_future(asyncio.sleep(10))
    inner.cancel()
    await inner
    return prompt


async def _cancel_itself(prompt: str) -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)
    return prompt


def _interrupt(prompt: str) -> str:
    raise KeyboardInterrupt


async def _interrupt_async(prompt: str) -> str:
    raise KeyboardInterrupt


def _fail_test(prompt: str) -> str:
    pytest.fail("not good")


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (_await_cancelled_task, "CancelledError"),
        (_cancel_itself, "CancelledError"),
        (_interrupt, "KeyboardInterrupt"),
        (_interrupt_async, "KeyboardInterrupt"),
        (_fail_test, "Failed: not good"),
    ],
)
@pytest.mark.parametrize("on_callers_loop", [False, True])
async def test_any_exception_of_an_agent_or_a_metric_is_an_error_of_its_row(
    fail: Any, reason: str, on_callers_loop: bool
) -> None:
    def agent(prompt: str) -> Any:
        return fail(prompt) if prompt == "one" else prompt

    def score(row: dict[str, Any]) -> Any:
        return fail("") if row["prompt"] == "two" else 1

    async def score_later(row: dict[str, Any]) -> Any:
        return await fail("") if row["prompt"] == "two" else 1

    function = score_later if asyncio.iscoroutinefunction(fail) else score
    task = EvalTask(dataset=PROMPTS, metrics=[CustomMetric("mine", function)])
    if on_callers_loop:
        result = await task.evaluate_async(runnable=agent)
    else:
        result = await asyncio.to_thread(task.evaluate, runnable=agent)

    assert {problem.status for problem in result.problems} == {"ERROR"}
    assert find_reasons(result, "response") == {1: reason}
    assert find_reasons(result, "mine/score")[2] == f"mine: {reason}"
    assert result.summary_metrics["failure/mean"] == pytest.approx(1 / 3)
    assert get_column(result, "response")[1:] == ["two", "three"]


@pytest.mark.parametrize("answer", [7, {}, {"response": 7}, {"response": "r", "predicted_trajectory": [{"args": {}}]}])
def test_an_answer_of_the_wrong_shape_fails_only_its_row(answer: Any) -> None:
    result = evaluate(lambda prompt: "r" if prompt == "one" else answer, ["exact_match"])

    assert get_column(result, "failure") == [0, 1, 1]
    assert "expected" in find_reasons(result, "response")[2]


def test_a_metric_function_that_raises_hangs_or_lacks_a_score_fails_its_cell() -> None:
    def score(row: dict[str, Any]) -> Any:
        if row["prompt"] == "one":
            raise KeyError("tool")
        if row["prompt"] == "two":
            time.sleep(2)
        return {"other": 1, "another": 2}

    result = evaluate(lambda prompt: prompt, ["exact_match", CustomMetric("mine", score)], timeout_seconds=0.5)

    found = find_reasons(result, "mine/score")
    assert found[1] == "mine: KeyError: 'tool'"
    assert found[2] == "took longer than 0.5 s"
    assert "without the key 'mine'" in found[3]
    assert get_column(result, "response") == ["one", "two", "three"]


def test_an_exit_in_a_metric_function_is_attributed_to_the_metric() -> None:
    metric = CustomMetric("mine", lambda row: sys.exit(3))

    result = EvalTask(dataset={"response": ["a"]}, metrics=[metric]).evaluate()

    assert find_reasons(result, "mine/score") == {1: "mine: the metric called sys.exit(3)"}


def test_metric_functions_run_in_parallel_and_may_return_more_values() -> None:
    async def score(row: dict[str, Any]) -> dict[str, float]:
        await asyncio.sleep(0.2)
        return {"length": len(row["response"]), "calls": len(row["predicted_trajectory"])}

    dataset = {"response": ["ab"] * 8, "predicted_trajectory": [[CALL]] * 8}
    began = time.monotonic()
    result = EvalTask(dataset=dataset, metrics=[CustomMetric("length", score)]).evaluate()

    assert time.monotonic() - began < 8 * 0.2
    assert get_column(result, "length/score") == [2.0] * 8
    assert get_column(result, "length/calls") == [1.0] * 8


def test_every_empty_cell_has_a_reason() -> None:
    def agent(prompt: str) -> Any:
        return {"one": "r", "two": {"response": "r", "predicted_trajectory": []}}[prompt]

    def score(row: dict[str, Any]) -> dict[str, float]:
        return {"mine": 1, "more": 2} if row["prompt"] == "one" else {"mine": 1}

    metrics = ["trajectory_precision", "rouge_1", "exact_match", CustomMetric("mine", score)]
    result = evaluate(agent, metrics)

    inputs = ("prompt", "reference_trajectory")
    empty = {
        (n, name)
        for n, row in enumerate(result.rows, start=1)
        for name in row
        if row[name] is None and name not in inputs
    }
    assert {(problem.row, problem.column) for problem in result.problems} == empty
    assert all(problem.reason for problem in result.problems)


def test_several_tools_have_a_column_each_with_the_tool_name() -> None:
    metrics = [TrajectorySingleToolUse("lookup"), TrajectorySingleToolUse("search")]

    result = evaluate(lambda prompt: {"response": "r", "predicted_trajectory": [CALL]}, metrics)

    assert result.summary_metrics["trajectory_single_tool_use(lookup)/mean"] == 1.0
    assert result.summary_metrics["trajectory_single_tool_use(search)/mean"] == 0.0


def test_braces_in_a_column_are_not_part_of_the_prompt_template() -> None:
    dataset = {"a": ["{b}", "x"], "b": ["secret", "y"]}

    result = EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate(
        runnable=lambda prompt: prompt, prompt_template="{{{a}}} and {b}"
    )

    assert get_column(result, "prompt") == ["{{b}} and secret", "{x} and y"]
    assert get_column(result, "response") == get_column(result, "prompt")


@settings(max_examples=5, deadline=None)
@given(rows=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=8))
def test_prompts_are_the_template_filled_with_any_values(rows: list[tuple[str, str]]) -> None:
    result = EvalTask(
        dataset=[{"a": first, "b": second} for first, second in rows], metrics=["exact_match"], history=False
    ).evaluate(runnable=lambda prompt: "", prompt_template="<{a}|{b}>")

    assert get_column(result, "prompt") == [f"<{first}|{second}>" for first, second in rows]


def test_rows_that_cannot_be_read_fail_alone() -> None:
    dataset = [
        {"predicted_trajectory": [CALL], "reference_trajectory": [CALL]},
        {"predicted_trajectory": [{"args": {}}], "reference_trajectory": [CALL]},
        {"predicted_trajectory": float("nan"), "reference_trajectory": [CALL]},
        {"reference_trajectory": "[]", "extra": 1},
    ]

    result = EvalTask(dataset=dataset, metrics=["trajectory_any_order_match"]).evaluate()

    assert get_column(result, "trajectory_any_order_match/score") == [1.0, None, None, None]
    found = find_reasons(result, "trajectory_any_order_match/score")
    assert found[2] == (
        'dataset: row 2: predicted_trajectory[0]: found an object, expected an object with "tool_name" or "name"'
    )
    assert found[3] == found[4] == "the row has no predicted_trajectory"
    assert result.summary_metrics["row_count"] == 4


class _Unreadable:
    def __str__(self) -> str:
        raise ValueError("no text")


def test_values_that_cannot_be_read_fail_only_their_row() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    dataset = {"response": ["a", "a", "a"], "reference": ["a", "a", "a"], "extra": [_Unreadable(), nested, 1]}

    result = EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate()

    assert get_column(result, "exact_match/score") == [None, None, 1.0]
    assert find_reasons(result, "exact_match/score") == {
        1: "dataset: row 1: extra: found a _Unreadable that raises ValueError, expected a JSON value or text",
        2: "dataset: row 2: extra: found a value that is nested too deeply, expected a JSON value",
    }


@pytest.mark.needs_pandas
def test_a_filtered_frame_keeps_its_index_and_its_columns() -> None:
    import pandas as pd

    frame = pd.DataFrame({"prompt": ["a", "b", "c"], "when": pd.to_datetime(["2026-01-01"] * 3)})

    result = evaluate(lambda prompt: prompt, ["exact_match"], frame[frame["prompt"] != "a"])

    assert result.metrics_table.index.tolist() == [1, 2]
    assert result.metrics_table["response"].tolist() == ["b", "c"]
    assert result.metrics_table["when"].dtype == frame["when"].dtype


class _Engine:
    """An agent with the interface of a deployed agent."""

    def query(self, *, input: str) -> Any:
        if input == "two":
            return {"output": "o", "intermediate_steps": ["odd"]}
        action = {"kwargs": {"tool": "lookup", "tool_input": {"key": "a"}}}
        return {"output": "o", "intermediate_steps": [[action, "found"]]}


def test_objects_with_query_are_called_and_an_invalid_step_is_an_error() -> None:
    result = evaluate(_Engine(), ["trajectory_exact_match"])

    assert get_column(result, "trajectory_exact_match/score") == [1.0, None, 1.0]
    (odd,) = find_reasons(result, "response").values()
    assert odd.startswith("\"intermediate_steps[0]\" is a str ('odd'), expected ")


def find_results() -> list[Run | CaseResult]:
    return [item for item in gc.get_objects() if isinstance(item, Run | CaseResult)]


def test_an_evaluation_leaves_no_reference_cycles_behind() -> None:
    rows = [{"prompt": "hello", "predicted_trajectory": [CALL], "reference_trajectory": [CALL]}] * 3
    task = EvalTask(dataset=rows, metrics=["trajectory_exact_match"])
    gc.collect()
    gc.disable()
    of_others = find_results()  # of earlier tests in this process
    try:
        task.evaluate()

        assert [item for item in find_results() if not any(item is other for other in of_others)] == []
    finally:
        gc.enable()
