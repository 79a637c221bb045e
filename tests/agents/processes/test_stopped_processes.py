"""Stopped processes (SIGSTOP) are replaced, so that no case waits for them forever."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from workbench.agents import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which processes are stopped")

AGENT = """
    import os, signal
    from pathlib import Path
    def answer(prompt):
        if prompt == "pids":
            return f"{os.getppid()} {os.getpid()}"
        if prompt == "stop the parent":
            Path("stopped").write_text("")
            os.kill(os.getppid(), signal.SIGSTOP)
        return "fine"
"""


@pytest.fixture(autouse=True)
def short_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_STOPPED_CHECK", 0.05)


@pytest.mark.parametrize("cases", [1, 3])  # forked from the first zygote, and from one that holds the agent
@pytest.mark.needs_fork
async def test_a_stopped_zygote_is_replaced(bench: Any, is_alive: Any, wait_until: Any, cases: int) -> None:
    bench.agent(AGENT)
    host = bench.host()
    host.prepare(cases=cases)
    zygote = int((await bench.talk(host, "pids")).responses[0].split()[0])

    os.kill(zygote, signal.SIGSTOP)
    talks = await asyncio.wait_for(asyncio.gather(*(bench.talk(host, "hi") for _ in range(2))), 50)
    again = await asyncio.wait_for(bench.talk(host, "hi"), 50)

    for talk in talks:  # a case assigned to it meanwhile runs again
        assert talk.responses == ["fine"] or talk.error.retry_alone
    assert again.responses == ["fine"]
    await wait_until(lambda: not is_alive(zygote))


@pytest.mark.needs_fork
async def test_a_case_ends_even_if_its_zygote_is_stopped_meanwhile(bench: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()

    talk = await asyncio.wait_for(bench.talk(host, "stop the parent"), 50)
    again = await asyncio.wait_for(bench.talk(host, "hi"), 50)

    assert (bench.folder / "stopped").exists()
    assert talk.responses == ["fine"] or "was stopped by a signal (SIGSTOP)" in talk.message
    assert again.responses == ["fine"]


async def test_a_stopped_agent_process_is_replaced_in_every_mode(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        import os, signal
        def answer(prompt):
            if prompt == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            return "fine"
    """)
    host = bench.host(**way)

    stopped = await asyncio.wait_for(bench.talk(host, "stop"), 50)
    again = await asyncio.wait_for(bench.talk(host, "hi"), 50)

    assert stopped.kind == "crash"
    assert "the agent's process was stopped by a signal (SIGSTOP)" in stopped.message
    assert again.responses == ["fine"]


async def test_only_a_stopped_process_is_killed(wait_until: Any) -> None:
    class Process:
        pid: int
        killed = False

        def kill_stopped(self) -> None:
            self.killed = True

    process = await asyncio.create_subprocess_exec("sleep", "1000")
    stoppable = Process()
    stoppable.pid = process.pid
    check = processes.StoppedCheck(lambda: [stoppable])
    check.start()

    await asyncio.sleep(0.2)
    assert not stoppable.killed
    process.send_signal(signal.SIGSTOP)
    await wait_until(lambda: stoppable.killed)

    check.close()
    process.kill()
    await process.wait()
