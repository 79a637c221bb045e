"""Where the original crashes or loses rows, a row that fails costs itself and says why."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.testing import (
    CustomMetric,
    EvalResult,
    EvalTask,
    EvaluationError,
    TrajectorySingleToolUse,
)

CALL = {"tool_name": "lookup", "tool_input": {"key": "a"}}
PROMPTS = {"prompt": ["one", "two", "three"], "reference_trajectory": [[CALL], [CALL], [CALL]]}


def reasons(result: EvalResult, column: str) -> dict[int, str]:
    """Why cells of a column are empty, by row."""
    return {problem.row: problem.reason for problem in result.problems if problem.column == column}


def column(result: EvalResult, name: str) -> list[Any]:
    return [row[name] for row in result.rows]


def evaluate(runnable: Any, metrics: list[Any], dataset: Any = PROMPTS, **options: Any) -> EvalResult:
    return EvalTask(dataset=dataset, metrics=metrics).evaluate(runnable=runnable, **options)


def test_rows_whose_agent_tells_no_trajectory_have_no_score_and_say_so() -> None:
    def agent(prompt: str) -> dict[str, Any]:
        return {"response": "r"} if prompt == "two" else {"response": "r", "predicted_trajectory": [CALL]}

    result = evaluate(agent, ["trajectory_exact_match"])

    assert column(result, "trajectory_exact_match/score") == [1.0, None, 1.0]
    assert reasons(result, "trajectory_exact_match/score") == {1: "the row has no predicted_trajectory"}
    assert column(result, "predicted_trajectory") == [[CALL], None, [CALL]]
    assert reasons(result, "predicted_trajectory") == {1: "the agent gave no predicted_trajectory"}


def test_an_agent_that_called_no_tool_is_not_one_that_tells_no_trajectory() -> None:
    result = evaluate(
        lambda prompt: {"response": "r", "predicted_trajectory": []}, ["trajectory_recall", "trajectory_precision"]
    )

    assert column(result, "trajectory_recall/score") == [0.0, 0.0, 0.0]
    assert reasons(result, "trajectory_precision/score") == dict.fromkeys(range(3), "no tool was called")


def test_a_plain_text_is_a_response() -> None:
    result = evaluate(lambda prompt: prompt.upper(), ["exact_match"], {"prompt": ["a"], "reference": ["A"]})

    assert result.rows[0]["response"] == "A"
    assert result.summary_metrics["exact_match/mean"] == 1.0


async def _answer(prompt: str) -> str:
    await asyncio.sleep(0.01)
    return prompt


class _Later:
    async def __call__(self, prompt: str) -> str:
        return await _answer(prompt)


@pytest.mark.parametrize("agent", [_answer, _Later(), partial(_answer)])
def test_asynchronous_agents_are_awaited(agent: Any) -> None:
    assert column(evaluate(agent, ["exact_match"], {"prompt": ["a"], "reference": ["a"]}), "response") == ["a"]


def test_an_agent_that_raises_or_leaves_costs_its_row() -> None:
    def agent(prompt: str) -> str:
        if prompt == "one":
            raise ValueError("no such key")
        if prompt == "two":
            raise SystemExit(3)
        return "r"

    result = evaluate(agent, ["trajectory_exact_match"])

    assert column(result, "failure") == [1, 1, 0]
    assert column(result, "latency_in_seconds")[:2] == [None, None]
    assert reasons(result, "response") == {0: "ValueError: no such key", 1: "the agent called sys.exit(3)"}
    assert result.summary_metrics["failure/mean"] == pytest.approx(2 / 3)


async def _awaits_what_was_cancelled(prompt: str) -> str:
    inner = asyncio.ensure_future(asyncio.sleep(10))
    inner.cancel()
    await inner
    return prompt


async def _cancels_itself(prompt: str) -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)
    return prompt


def _interrupts(prompt: str) -> str:
    raise KeyboardInterrupt


async def _interrupts_later(prompt: str) -> str:
    raise KeyboardInterrupt


def _fails_its_test(prompt: str) -> str:
    pytest.fail("not good")


@pytest.mark.parametrize(
    ("raises", "reason"),
    [
        (_awaits_what_was_cancelled, "CancelledError"),
        (_cancels_itself, "CancelledError"),
        (_interrupts, "KeyboardInterrupt"),
        (_interrupts_later, "KeyboardInterrupt"),
        (_fails_its_test, "Failed: not good"),
    ],
)
@pytest.mark.parametrize("on_callers_loop", [False, True])
async def test_whatever_an_agent_or_a_metric_raises_is_an_error_of_its_row(
    raises: Any, reason: str, on_callers_loop: bool
) -> None:
    def agent(prompt: str) -> Any:
        return raises(prompt) if prompt == "one" else prompt

    def score(row: dict[str, Any]) -> Any:
        return raises("") if row["prompt"] == "two" else 1

    async def score_later(row: dict[str, Any]) -> Any:
        return await raises("") if row["prompt"] == "two" else 1

    function = score_later if asyncio.iscoroutinefunction(raises) else score
    task = EvalTask(dataset=PROMPTS, metrics=[CustomMetric("mine", function)])
    if on_callers_loop:
        result = await task.evaluate_async(runnable=agent)
    else:
        result = await asyncio.to_thread(task.evaluate, runnable=agent)

    assert {problem.status for problem in result.problems} == {"ERROR"}
    assert reasons(result, "response") == {0: reason}
    assert reasons(result, "mine/score")[1] == f"mine: {reason}"
    assert result.summary_metrics["failure/mean"] == pytest.approx(1 / 3)
    assert column(result, "response")[1:] == ["two", "three"]


@pytest.mark.parametrize("answer", [7, {}, {"response": 7}, {"response": "r", "predicted_trajectory": [{"args": {}}]}])
def test_an_answer_of_the_wrong_shape_costs_its_row(answer: Any) -> None:
    result = evaluate(lambda prompt: "r" if prompt == "one" else answer, ["exact_match"])

    assert column(result, "failure") == [0, 1, 1]
    assert "expected" in reasons(result, "response")[1]


def test_a_hung_agent_is_an_error_of_its_row_and_the_others_go_on() -> None:
    never = threading.Event()

    def agent(prompt: str) -> str:
        if prompt == "two":
            never.wait()
        return "r"

    began = time.monotonic()
    result = evaluate(agent, ["exact_match"], timeout_seconds=0.3)
    never.set()

    assert reasons(result, "response") == {1: "took longer than 0.3 s"}
    assert time.monotonic() - began < 5


async def test_a_hung_asynchronous_agent_is_cancelled() -> None:
    cancelled = []

    async def agent(prompt: str) -> str:
        try:
            await asyncio.sleep(30 if prompt == "two" else 0)
        except asyncio.CancelledError:
            cancelled.append(prompt)
            raise
        return "r"

    result = await EvalTask(dataset=PROMPTS, metrics=["exact_match"]).evaluate_async(
        runnable=agent, timeout_seconds=0.3
    )

    assert reasons(result, "response") == {1: "took longer than 0.3 s"}
    assert cancelled == ["two"]


def test_an_asynchronous_agent_that_blocks_its_loop_costs_only_what_runs_beside_it() -> None:
    never = threading.Event()

    async def agent(prompt: str) -> str:
        if prompt == "0":
            never.wait()
        return prompt

    dataset = {"prompt": [str(number) for number in range(6)]}
    result = evaluate(agent, ["exact_match"], dataset, timeout_seconds=0.3, concurrency=2)
    never.set()

    assert set(reasons(result, "response")) <= {0, 1}
    assert column(result, "response")[2:] == ["2", "3", "4", "5"]


def test_not_more_agents_run_at_a_time_than_wanted() -> None:
    lock, running, most = threading.Lock(), 0, 0

    def agent(prompt: str) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return prompt

    evaluate(agent, ["exact_match"], {"prompt": [str(number) for number in range(12)]}, concurrency=3)

    assert most == 3


def test_a_metric_function_that_raises_hangs_or_gives_nothing_costs_its_cell() -> None:
    def score(row: dict[str, Any]) -> Any:
        if row["prompt"] == "one":
            raise KeyError("tool")
        if row["prompt"] == "two":
            time.sleep(2)
        return {"other": 1, "another": 2}

    result = evaluate(lambda prompt: prompt, ["exact_match", CustomMetric("mine", score)], timeout_seconds=0.5)

    found = reasons(result, "mine/score")
    assert found[0] == "mine: KeyError: 'tool'"
    assert found[1] == "took longer than 0.5 s"
    assert "without the key 'mine'" in found[2]
    assert column(result, "response") == ["one", "two", "three"]


def test_metric_functions_run_side_by_side_and_may_give_more_numbers() -> None:
    async def score(row: dict[str, Any]) -> dict[str, float]:
        await asyncio.sleep(0.2)
        return {"length": len(row["response"]), "calls": len(row["predicted_trajectory"])}

    dataset = {"response": ["ab"] * 8, "predicted_trajectory": [[CALL]] * 8}
    began = time.monotonic()
    result = EvalTask(dataset=dataset, metrics=[CustomMetric("length", score)]).evaluate()

    assert time.monotonic() - began < 8 * 0.2
    assert column(result, "length/score") == [2.0] * 8
    assert column(result, "length/calls") == [1.0] * 8


def test_every_empty_cell_has_a_reason() -> None:
    def agent(prompt: str) -> Any:
        return {"one": "r", "two": {"response": "r", "predicted_trajectory": []}}[prompt]

    def score(row: dict[str, Any]) -> dict[str, float]:
        return {"mine": 1, "more": 2} if row["prompt"] == "one" else {"mine": 1}

    metrics = ["trajectory_precision", "rouge_1", "exact_match", CustomMetric("mine", score)]
    result = evaluate(agent, metrics)

    own = ("prompt", "reference_trajectory")
    empty = {(n, name) for n, row in enumerate(result.rows) for name in row if row[name] is None and name not in own}
    assert {(problem.row, problem.column) for problem in result.problems} == empty
    assert all(problem.reason for problem in result.problems)


def test_several_tools_have_a_column_each_which_names_the_tool() -> None:
    metrics = [TrajectorySingleToolUse("lookup"), TrajectorySingleToolUse("search")]

    result = evaluate(lambda prompt: {"response": "r", "predicted_trajectory": [CALL]}, metrics)

    assert result.summary_metrics["trajectory_single_tool_use(lookup)/mean"] == 1.0
    assert result.summary_metrics["trajectory_single_tool_use(search)/mean"] == 0.0


def test_a_prompt_template_never_reads_what_a_column_says_as_a_template() -> None:
    dataset = {"a": ["{b}", "x"], "b": ["secret", "y"]}

    result = EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate(
        runnable=lambda prompt: prompt, prompt_template="{{{a}}} and {b}"
    )

    assert column(result, "prompt") == ["{{b}} and secret", "{x} and y"]
    assert column(result, "response") == column(result, "prompt")


@settings(max_examples=5, deadline=None)
@given(rows=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=8))
def test_prompts_are_the_template_with_the_values_whatever_they_say(rows: list[tuple[str, str]]) -> None:
    result = EvalTask(
        dataset=[{"a": first, "b": second} for first, second in rows], metrics=["exact_match"], history=False
    ).evaluate(runnable=lambda prompt: "", prompt_template="<{a}|{b}>")

    assert column(result, "prompt") == [f"<{first}|{second}>" for first, second in rows]


def test_rows_that_cannot_be_read_cost_themselves() -> None:
    dataset = [
        {"predicted_trajectory": [CALL], "reference_trajectory": [CALL]},
        {"predicted_trajectory": [{"args": {}}], "reference_trajectory": [CALL]},
        {"predicted_trajectory": float("nan"), "reference_trajectory": [CALL]},
        {"reference_trajectory": "[]", "extra": 1},
    ]

    result = EvalTask(dataset=dataset, metrics=["trajectory_any_order_match"]).evaluate()

    assert column(result, "trajectory_any_order_match/score") == [1.0, None, None, None]
    found = reasons(result, "trajectory_any_order_match/score")
    assert found[1] == (
        'dataset: row 2: predicted_trajectory[0]: found an object, expected an object with "tool_name" or "name"'
    )
    assert found[2] == found[3] == "the row has no predicted_trajectory"
    assert result.summary_metrics["row_count"] == 4


class _Unreadable:
    def __str__(self) -> str:
        raise ValueError("no text")


def test_values_that_cannot_be_read_cost_their_row() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    dataset = {"response": ["a", "a", "a"], "reference": ["a", "a", "a"], "extra": [_Unreadable(), nested, 1]}

    result = EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate()

    assert column(result, "exact_match/score") == [None, None, 1.0]
    assert reasons(result, "exact_match/score") == {
        0: "dataset: row 1: extra: found a _Unreadable that raises ValueError, expected a JSON value or text",
        1: "dataset: row 2: extra: found a value that is nested too deeply, expected a JSON value",
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
    """What a deployed agent looks like from here."""

    def query(self, *, input: str) -> Any:
        if input == "two":
            return {"output": "o", "intermediate_steps": ["odd"]}
        action = {"kwargs": {"tool": "lookup", "tool_input": {"key": "a"}}}
        return {"output": "o", "intermediate_steps": [[action, "found"]]}


def test_objects_with_query_are_asked_and_an_odd_step_is_an_error() -> None:
    result = evaluate(_Engine(), ["trajectory_exact_match"])

    assert column(result, "trajectory_exact_match/score") == [1.0, None, 1.0]
    assert reasons(result, "response") == {1: "intermediate_steps[0] is a str ('odd'), expected a step with a tool"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["trajectory_single_tool_use"]}, "expected TrajectorySingleToolUse"),
        ({"metrics": ["trajectory_precison"]}, "'trajectory_precision' (did you mean that?)"),
        ({"metrics": ["bleu", "bleu"]}, "found 'bleu' twice"),
        ({"metrics": []}, "expected a list of metrics"),
        ({"metrics": [7]}, "found a int"),
    ],
)
def test_metrics_that_cannot_be_meant_are_one_clear_message(options: Any, message: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        EvalTask(dataset=PROMPTS, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        ({"prompt": ["a"], "reference": []}, {}, "reference: found 0 rows, expected the 1 row that prompt has"),
        ([], {}, "found no rows"),
        (7, {}, "expected a file, a pandas DataFrame"),
        ("gone.jsonl", {}, "gone.jsonl: cannot read it"),
        ({"question": ["a"]}, {"runnable": str}, "expected 'prompt', or a prompt_template"),
        (PROMPTS, {"runnable": 7}, "expected a function f(prompt)"),
        (PROMPTS, {"runnable": str, "model": str}, "expected one of them"),
        (PROMPTS, {"runnable": str, "prompt_template": "{promt}"}, "did you mean 'prompt'?"),
        (PROMPTS, {"experiment_run_name": "r"}, "expected EvalTask(experiment=)"),
        (PROMPTS, {"timeout_seconds": 0}, "expected a number above 0"),
    ],
)
def test_what_cannot_be_evaluated_is_one_clear_message(dataset: Any, options: Any, message: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate(**options)
    assert message in str(raised.value)
