"""Agents that hang or block cost their own row, and no more of them run at a time than wanted."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from tests.testing.evaluation.evaluated import PROMPTS, column, evaluate, reasons
from workbench.testing import EvalTask


def test_a_hung_agent_is_an_error_of_its_row_and_the_others_go_on() -> None:
    never = threading.Event()

    def agent(prompt: str) -> str:
        if prompt == "two":
            never.wait()
        return "r"

    began = time.monotonic()
    result = evaluate(agent, ["exact_match"], timeout_seconds=0.3)
    never.set()

    assert reasons(result, "response") == {2: "took longer than 0.3 s"}
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

    assert reasons(result, "response") == {2: "took longer than 0.3 s"}
    assert cancelled == ["two"]


@pytest.mark.parametrize("concurrency", [2, 6])
def test_an_asynchronous_agent_that_blocks_its_loop_costs_its_row(
    concurrency: int, recwarn: pytest.WarningsRecorder
) -> None:
    never = threading.Event()
    asked = []

    async def agent(prompt: str) -> str:
        asked.append(prompt)
        if prompt == "0":
            never.wait()
        return prompt

    dataset = {"prompt": [str(number) for number in range(6)]}
    result = evaluate(agent, ["exact_match"], dataset, timeout_seconds=0.5, concurrency=concurrency)
    never.set()
    gc.collect()

    blocked = "took longer than 0.5 s: it, or another case, blocked the event loop"
    assert reasons(result, "response") == {1: blocked}
    assert column(result, "response")[1:] == ["1", "2", "3", "4", "5"]
    assert sorted(asked) == ["0", "1", "2", "3", "4", "5"]
    assert [warning for warning in recwarn if warning.category is RuntimeWarning] == []  # "was never awaited"


def test_of_several_rows_that_block_the_loop_each_costs_itself() -> None:
    never = threading.Event()

    async def agent(prompt: str) -> str:
        if prompt in ("one", "three"):
            never.wait()
        return prompt

    result = evaluate(agent, ["exact_match"], timeout_seconds=0.5)
    never.set()

    assert set(reasons(result, "response")) == {1, 3}


async def test_rows_that_the_callers_own_loop_held_up_run_once_it_is_free() -> None:
    async def agent(prompt: str) -> str:
        if prompt == "one":
            threading.Event().wait(1)
        return prompt

    task = EvalTask(dataset=PROMPTS, metrics=["exact_match"])
    result = await task.evaluate_async(runnable=agent, timeout_seconds=0.7)

    assert column(result, "response")[1:] == ["two", "three"]


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
