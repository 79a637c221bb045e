"""No process outlives the one that started it, however that one ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.agents.orphans import AGENT, have_ended, read_pids

pytestmark = pytest.mark.needs_fork


FRONT_END = """
    import asyncio, sys
    from pathlib import Path
    from workbench.agents.agent_host import SessionRequest
    from workbench.agents.worker_host import create_host
    from workbench.model.evalset import Content
    from workbench.model.target import AgentKind, Target

    async def main():
        target = Target(name="t", kind=AgentKind.FUNCTION, location="agent:answer", path=Path(sys.argv[1]))
        host = create_host(target, isolation=sys.argv[2], concurrency=2, mode=sys.argv[3])
        session = await host.open(SessionRequest(app_name="a", user_id="u"), on_span=lambda span: None)
        await session.turn(Content.of_text("hang", role="user"), turn=0)

    asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ["case", "worker"])
@pytest.mark.parametrize("mode", ["fork", "once"])
async def test_killing_the_front_end_leaves_no_processes_or_temporary_files(
    bench: Any, is_alive: Any, wait_until: Any, isolation: str, mode: str
) -> None:
    # Without forks, a process that left its group cannot be found again.
    bench.agent(AGENT if mode == "fork" else AGENT.replace(", start_new_session=True", ""))
    front_end = bench.write("front_end.py", FRONT_END)
    temporary = bench.folder / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(  # noqa: ASYNC220 - the test kills it with SIGKILL
        [sys.executable, front_end, bench.folder, isolation, mode],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    pids = await wait_until(lambda: read_pids(bench))

    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    await wait_until(lambda: have_ended(is_alive, pids))
    await wait_until(lambda: not list(temporary.iterdir()))


async def test_killing_a_zygote_ends_processes_that_left_its_group(bench: Any, is_alive: Any, wait_until: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    host.prepare(cases=2)  # so that the session is not forked from the first zygote
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await wait_until(lambda: read_pids(bench))

    os.kill(pids[0], signal.SIGKILL)

    assert (await talk).kind == "crash"
    await wait_until(lambda: have_ended(is_alive, pids))


@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGSTOP, signal.SIGKILL]])
async def test_killing_the_first_zygote_ends_processes_that_left_its_group(
    bench: Any, is_alive: Any, wait_until: Any, signals: list[int]
) -> None:
    bench.agent(AGENT)
    host = bench.host()  # no cases are announced: the session is forked from the first zygote
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await wait_until(lambda: read_pids(bench))

    for number in signals:
        os.kill(pids[0], number)

    assert (await talk).kind == "crash"
    await wait_until(lambda: have_ended(is_alive, pids))


async def test_killing_the_first_zygote_before_the_host_closes_leaves_no_processes(
    bench: Any, is_alive: Any, wait_until: Any
) -> None:
    bench.agent(AGENT)
    host = bench.host()
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await wait_until(lambda: read_pids(bench))

    os.kill(pids[0], signal.SIGKILL)
    await host.close()

    assert (await talk).error is not None  # the end of the process or of the host, whichever came first
    await wait_until(lambda: have_ended(is_alive, pids))


async def test_closing_the_host_ends_sessions_and_processes(bench: Any, is_alive: Any, wait_until: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await wait_until(lambda: read_pids(bench))

    await host.close()

    assert (await talk).kind == "crash"
    await wait_until(lambda: have_ended(is_alive, pids))


@pytest.mark.parametrize("mode", ["fork", "once"])
async def test_a_session_opened_after_the_host_closed_is_refused(bench: Any, mode: str) -> None:
    bench.agent("def answer(prompt): return prompt")
    host = bench.host(mode=mode)
    first = asyncio.create_task(bench.talk(host, "hi"))
    await asyncio.sleep(0.01)
    await host.close()

    late = await bench.talk(host, "hi")

    assert (await first).kind == "crash"
    assert late.message == "the agent's processes were shut down"


async def test_killing_a_zygote_ends_all_its_descendants(bench: Any, is_alive: Any, wait_until: Any) -> None:
    bench.agent(AGENT.replace(", start_new_session=True", ""))
    talk = asyncio.create_task(bench.talk(bench.host(), "hang"))
    pids = await wait_until(lambda: read_pids(bench))

    os.kill(pids[0], signal.SIGKILL)

    assert (await talk).kind == "crash"
    await wait_until(lambda: have_ended(is_alive, pids))


async def test_a_task_cancelled_while_starting_leaves_the_host_usable(bench: Any, wait_until: Any) -> None:
    bench.agent("import time\ntime.sleep(0.2)\ndef answer(prompt): return prompt")
    host = bench.host()
    for delay in (0, 0.01, 0.05, 0.1, 0.15):
        task = asyncio.create_task(bench.talk(host, "hi"))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task])

    assert (await bench.talk(host, "hi")).responses == ["hi"]


def test_a_loop_that_ends_without_close_leaves_no_zygote(bench_folder: Path, is_alive: Any) -> None:
    (bench_folder / "agent.py").write_text("def answer(prompt): return str(__import__('os').getppid())")
    code = textwrap.dedent(FRONT_END).replace(
        'await session.turn(Content.of_text("hang", role="user"), turn=0)',
        'print((await session.turn(Content.of_text("x", role="user"), turn=0)).invocation.final_response.text())',
    )

    done = subprocess.run(
        [sys.executable, "-c", code, bench_folder, "case", "fork"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )

    for _ in range(500):
        if not is_alive(int(done.stdout)):
            return
        subprocess.run(["sleep", "0.02"], check=True)
    raise AssertionError("the zygote is still there")


@pytest.fixture
def bench_folder(tmp_path: Path) -> Path:
    return tmp_path
