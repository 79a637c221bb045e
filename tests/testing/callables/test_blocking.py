"""Agents that hang or block: only their own rows fail, and the concurrency limit holds."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from tests.testing.evaluation.evaluated import PROMPTS, evaluate, find_reasons, get_column
from workbench.testing import EvalTask


def test_a_hung_agent_fails_only_its_row() -> None:
    never = threading.Event()

    def agent(prompt: str) -> str:
        if prompt == "two":
            never.wait()
        return "r"

    began = time.monotonic()
    result = evaluate(agent, ["exact_match"], timeout_seconds=0.3)
    never.set()

    assert find_reasons(result, "response") == {2: "took longer than 0.3 s"}
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

    assert find_reasons(result, "response") == {2: "took longer than 0.3 s"}
    assert cancelled == ["two"]


@pytest.mark.parametrize("concurrency", [2, 6])
def test_an_async_agent_that_blocks_its_loop_fails_only_its_row(
    concurrency: int, recwarn: pytest.WarningsRecorder
) -> None:
    never = threading.Event()
    prompts = []

    async def agent(prompt: str) -> str:
        prompts.append(prompt)
        if prompt == "0":
            never.wait()
        return prompt

    dataset = {"prompt": [str(number) for number in range(6)]}
    result = evaluate(agent, ["exact_match"], dataset, timeout_seconds=0.5, concurrency=concurrency)
    never.set()
    gc.collect()

    blocked = "took longer than 0.5 s: it, or another case, blocked the event loop"
    assert find_reasons(result, "response") == {1: blocked}
    assert get_column(result, "response")[1:] == ["1", "2", "3", "4", "5"]
    assert sorted(prompts) == ["0", "1", "2", "3", "4", "5"]
    assert [warning for warning in recwarn if warning.category is RuntimeWarning] == []  # "was never awaited"


def test_several_rows_that_block_the_loop_fail_alone() -> None:
    never = threading.Event()

    async def agent(prompt: str) -> str:
        if prompt in ("one", "three"):
            never.wait()
        return prompt

    result = evaluate(agent, ["exact_match"], timeout_seconds=0.5)
    never.set()

    assert set(find_reasons(result, "response")) == {1, 3}


async def test_rows_delayed_by_the_callers_blocked_loop_run_afterwards() -> None:
    async def agent(prompt: str) -> str:
        if prompt == "one":
            threading.Event().wait(1)
        return prompt

    task = EvalTask(dataset=PROMPTS, metrics=["exact_match"])
    result = await task.evaluate_async(runnable=agent, timeout_seconds=0.7)

    assert get_column(result, "response")[1:] == ["two", "three"]


def test_the_number_of_parallel_agents_is_limited() -> None:
    lock, running, max_running = threading.Lock(), 0, 0

    def agent(prompt: str) -> str:
        nonlocal running, max_running
        with lock:
            running += 1
            max_running = max(max_running, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return prompt

    evaluate(agent, ["exact_match"], {"prompt": [str(number) for number in range(12)]}, concurrency=3)

    assert max_running == 3
