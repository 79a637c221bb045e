"""Nothing outlives what started it, however that ended."""

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

from workbench.model.evalset import Content

pytestmark = pytest.mark.needs_fork

AGENT = """
    import os, subprocess, time
    from pathlib import Path
    def answer(prompt):
        same = subprocess.Popen(["sleep", "1000"])
        other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        Path("pids.new").write_text(f"{os.getppid()} {os.getpid()} {same.pid} {other.pid}")
        os.rename("pids.new", "pids")
        if prompt == "hang":
            time.sleep(1000)
        return "done"
"""

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


def _pids(bench: Any) -> list[int]:
    path = bench.folder / "pids"
    return [int(item) for item in path.read_text().split()] if path.exists() else []


def _all_gone(running: Any, pids: list[int]) -> bool:
    return not any(running(pid) for pid in pids)


@pytest.mark.parametrize("isolation", ["case", "worker"])
@pytest.mark.parametrize("mode", ["fork", "once"])
async def test_when_the_front_end_is_killed_nothing_is_left(
    bench: Any, running: Any, eventually: Any, isolation: str, mode: str
) -> None:
    # Where processes are not forked, one that left the process group cannot be found again.
    bench.agent(AGENT if mode == "fork" else AGENT.replace(", start_new_session=True", ""))
    front_end = bench.write("front_end.py", FRONT_END)
    temporary = bench.folder / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(  # noqa: ASYNC220 - it is killed the hard way
        [sys.executable, front_end, bench.folder, isolation, mode],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    pids = await eventually(lambda: _pids(bench))

    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    await eventually(lambda: _all_gone(running, pids))
    await eventually(lambda: not list(temporary.iterdir()))


async def test_what_a_case_leaves_behind_ends_with_it(bench: Any, running: Any, eventually: Any) -> None:
    bench.agent(AGENT)

    await bench.talk_once("hi")

    await eventually(lambda: _all_gone(running, _pids(bench)[1:]))


async def test_what_a_case_leaves_behind_ends_while_others_go_on(bench: Any, running: Any, eventually: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    other = await bench.open(host)
    await other.turn(Content.of_text("hi", role="user"), turn=0)
    others = _pids(bench)

    await bench.talk(host, "hi")

    await eventually(lambda: _all_gone(running, _pids(bench)[1:]))
    assert all(running(pid) for pid in others)
    await other.finish()


async def test_a_killed_zygote_takes_what_left_its_group_with_it(bench: Any, running: Any, eventually: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    host.prepare(cases=2)  # so that the session is not forked from the first zygote
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await eventually(lambda: _pids(bench))

    os.kill(pids[0], signal.SIGKILL)

    assert (await talk).kind == "crash"
    await eventually(lambda: _all_gone(running, pids))


@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGSTOP, signal.SIGKILL]])
async def test_the_killed_first_zygote_takes_what_left_its_group_with_it(
    bench: Any, running: Any, eventually: Any, signals: list[int]
) -> None:
    bench.agent(AGENT)
    host = bench.host()  # no cases are announced: the session is forked from the first zygote
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await eventually(lambda: _pids(bench))

    for number in signals:
        os.kill(pids[0], number)

    assert (await talk).kind == "crash"
    await eventually(lambda: _all_gone(running, pids))


async def test_the_first_zygote_that_is_killed_before_the_end_leaves_nothing(
    bench: Any, running: Any, eventually: Any
) -> None:
    bench.agent(AGENT)
    host = bench.host()
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await eventually(lambda: _pids(bench))

    os.kill(pids[0], signal.SIGKILL)
    await host.close()

    assert (await talk).error is not None  # the end of the process or of the host, whichever was seen first
    await eventually(lambda: _all_gone(running, pids))


async def test_a_killed_case_takes_what_left_its_group_with_it(bench: Any, running: Any, eventually: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    other = await bench.open(host)  # a case that goes on: the zygote is not idle
    session = await bench.open(host)
    turn = asyncio.create_task(bench_turn(session))
    pids = await eventually(lambda: _pids(bench))

    await session.kill()

    await eventually(lambda: _all_gone(running, pids[1:]))
    assert running(pids[0])
    turn.cancel()
    await other.finish()


async def bench_turn(session: Any) -> None:
    await session.turn(Content.of_text("hang", role="user"), turn=0)


async def test_closing_the_host_ends_sessions_and_processes(bench: Any, running: Any, eventually: Any) -> None:
    bench.agent(AGENT)
    host = bench.host()
    talk = asyncio.create_task(bench.talk(host, "hang"))
    pids = await eventually(lambda: _pids(bench))

    await host.close()

    assert (await talk).kind == "crash"
    await eventually(lambda: _all_gone(running, pids))


@pytest.mark.parametrize("mode", ["fork", "once"])
async def test_a_session_that_comes_after_the_end_is_refused(bench: Any, mode: str) -> None:
    bench.agent("def answer(prompt): return prompt")
    host = bench.host(mode=mode)
    starting = asyncio.create_task(bench.talk(host, "hi"))
    await asyncio.sleep(0.01)
    await host.close()

    late = await bench.talk(host, "hi")

    assert (await starting).kind == "crash"
    assert late.message == "the agent's processes were shut down"


async def test_a_killed_zygote_takes_its_children_and_theirs_along(bench: Any, running: Any, eventually: Any) -> None:
    bench.agent(AGENT.replace(", start_new_session=True", ""))
    talk = asyncio.create_task(bench.talk(bench.host(), "hang"))
    pids = await eventually(lambda: _pids(bench))

    os.kill(pids[0], signal.SIGKILL)

    assert (await talk).kind == "crash"
    await eventually(lambda: _all_gone(running, pids))


async def test_a_task_that_is_cancelled_while_it_starts_leaves_nothing(bench: Any, eventually: Any) -> None:
    bench.agent("import time\ntime.sleep(0.2)\ndef answer(prompt): return prompt")
    host = bench.host()
    for delay in (0, 0.01, 0.05, 0.1, 0.15):
        task = asyncio.create_task(bench.talk(host, "hi"))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task])

    assert (await bench.talk(host, "hi")).responses == ["hi"]


def test_a_loop_that_ends_without_close_leaves_nothing(bench_folder: Path, running: Any) -> None:
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
        if not running(int(done.stdout)):
            return
        subprocess.run(["sleep", "0.02"], check=True)
    raise AssertionError("the zygote is still there")


@pytest.fixture
def bench_folder(tmp_path: Path) -> Path:
    return tmp_path
