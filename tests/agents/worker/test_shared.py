"""A process shared by many sessions starts before the first of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import find_children

pytestmark = pytest.mark.needs_fork
PID_AGENT = "import os\ndef answer(prompt): return f'{prompt} {os.getpid()} {os.environ.get(\"LEVEL\")}'"


async def _start_shared_process(host: Any, wait_until: Callable[..., Any]) -> int:
    """Prepare a host without any case; return the process that it starts."""
    before = find_children()
    host.prepare(cases=0)
    (zygote,) = await wait_until(lambda: find_children() - before)
    (shared,) = await wait_until(lambda: find_children(zygote))
    return int(shared)


async def test_the_first_sessions_use_the_prepared_process(bench: Any, wait_until: Callable[..., Any]) -> None:
    bench.agent(PID_AGENT)
    host = bench.host(isolation="worker")

    shared = await _start_shared_process(host, wait_until)
    host.prepare(cases=3)
    talks = [await bench.talk(host, prompt) for prompt in "ab"]

    assert [talk.responses for talk in talks] == [[f"a {shared} None"], [f"b {shared} None"]]


async def test_a_change_before_the_first_session_takes_effect(bench: Any, wait_until: Callable[..., Any]) -> None:
    bench.agent("def answer(prompt): return 'before'")
    host = bench.host(isolation="worker")

    shared = await _start_shared_process(host, wait_until)
    bench.agent(PID_AGENT)
    host.renew()

    assert (await bench.talk(host, "after")).responses == [f"after {shared} None"]


async def test_changed_variables_lead_to_a_new_process(bench: Any, wait_until: Callable[..., Any]) -> None:
    bench.agent(PID_AGENT)
    host = bench.host(isolation="worker", env_file=bench.folder / ".env")

    shared = await _start_shared_process(host, wait_until)
    bench.write(".env", "LEVEL=high\n")
    host.renew()
    (answer,) = (await bench.talk(host, "hi")).responses

    assert answer.startswith("hi ")
    assert answer.endswith(" high")
    assert str(shared) not in answer.split()


async def test_a_process_that_cannot_be_started_fails_the_sessions_that_need_it(bench: Any, tmp_path: Path) -> None:
    bench.agent(PID_AGENT)
    host = bench.host(isolation="worker", python=tmp_path / "no-python")

    host.prepare(cases=0)
    talks = [await bench.talk(host, "hi") for _ in range(2)]

    assert all("no-python" in talk.message for talk in talks)
