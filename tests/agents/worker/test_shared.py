"""A process that many sessions share is started before the first of them comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import children

pytestmark = pytest.mark.needs_fork
TELLS_ITS_PROCESS = "import os\ndef answer(prompt): return f'{prompt} {os.getpid()} {os.environ.get(\"LEVEL\")}'"


async def _prepared(host: Any, eventually: Callable[..., Any]) -> int:
    """The process that a host has started, all that was asked being to prepare."""
    before = children()
    host.prepare(cases=0)
    (zygote,) = await eventually(lambda: children() - before)
    (shared,) = await eventually(lambda: children(zygote))
    return int(shared)


async def test_the_first_session_gets_the_process_that_was_prepared(bench: Any, eventually: Callable[..., Any]) -> None:
    bench.agent(TELLS_ITS_PROCESS)
    host = bench.host(isolation="worker")

    shared = await _prepared(host, eventually)
    host.prepare(cases=3)
    talks = [await bench.talk(host, prompt) for prompt in "ab"]

    assert [talk.responses for talk in talks] == [[f"a {shared} None"], [f"b {shared} None"]]


async def test_what_changes_before_the_first_session_counts(bench: Any, eventually: Callable[..., Any]) -> None:
    bench.agent("def answer(prompt): return 'before'")
    host = bench.host(isolation="worker")

    shared = await _prepared(host, eventually)
    bench.agent(TELLS_ITS_PROCESS)
    host.renew()

    assert (await bench.talk(host, "after")).responses == [f"after {shared} None"]


async def test_other_variables_mean_another_process(bench: Any, eventually: Callable[..., Any]) -> None:
    bench.agent(TELLS_ITS_PROCESS)
    host = bench.host(isolation="worker", env_file=bench.folder / ".env")

    shared = await _prepared(host, eventually)
    bench.write(".env", "LEVEL=high\n")
    host.renew()
    (answer,) = (await bench.talk(host, "hi")).responses

    assert answer.startswith("hi ")
    assert answer.endswith(" high")
    assert str(shared) not in answer.split()


async def test_a_process_that_cannot_be_started_fails_the_sessions_that_need_it(bench: Any, tmp_path: Path) -> None:
    bench.agent(TELLS_ITS_PROCESS)
    host = bench.host(isolation="worker", python=tmp_path / "no-python")

    host.prepare(cases=0)
    talks = [await bench.talk(host, "hi") for _ in range(2)]

    assert all("no-python" in talk.message for talk in talks)
