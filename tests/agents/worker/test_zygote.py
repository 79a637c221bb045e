"""The fork server: its children are independent, and end with their processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents.conftest import collect_answers
from tests.agents.orphans import AGENT, have_ended, read_pids
from workbench.model.evalset import Content

pytestmark = pytest.mark.needs_fork


async def test_forked_processes_do_not_share_random_numbers(bench: Any) -> None:
    bench.agent("import random, uuid\ndef answer(prompt): return f'{random.random()} {uuid.uuid4()}'")

    answers = await collect_answers(bench)

    assert len(set(answers)) == len(answers)


async def test_leftover_processes_of_a_case_end_with_it(bench: Any, is_alive: Any, wait_until: Any) -> None:
    bench.agent(AGENT)

    await bench.talk_once("hi")

    await wait_until(lambda: have_ended(is_alive, read_pids(bench)[1:]))


async def test_leftover_processes_of_a_case_end_while_another_case_runs(
    bench: Any, is_alive: Any, wait_until: Any
) -> None:
    bench.agent(AGENT)
    host = bench.host()
    other = await bench.open(host)
    await other.turn(Content.of_text("hi", role="user"), turn=0)
    other_pids = read_pids(bench)

    await bench.talk(host, "hi")

    await wait_until(lambda: have_ended(is_alive, read_pids(bench)[1:]))
    assert all(is_alive(pid) for pid in other_pids)
    await other.finish()


async def test_killing_a_case_ends_processes_that_left_its_group(bench: Any, is_alive: Any, wait_until: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    other = await bench.open(host)  # another case keeps the zygote busy
    session = await bench.open(host)
    turn = asyncio.create_task(run_hanging_turn(session))
    pids = await wait_until(lambda: read_pids(bench))

    await session.kill()

    await wait_until(lambda: have_ended(is_alive, pids[1:]))
    assert is_alive(pids[0])
    turn.cancel()
    await other.finish()


async def run_hanging_turn(session: Any) -> None:
    await session.turn(Content.of_text("hang", role="user"), turn=0)
