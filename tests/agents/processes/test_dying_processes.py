"""Processes of agents that die, hang, are killed or meddled with: one clear message each, the other cases unharmed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError
from workbench.model.evalset import Content

HI = Content.of_text("hi", role="user")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os._exit(7)", "the agent's process ended with exit status 7 before it answered"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by signal 11 (SIGSEGV)"),
        ("import ctypes; ctypes.string_at(0)", "was killed by signal 11 (SIGSEGV)"),
    ],
)
async def test_a_process_that_dies_ends_its_case_with_the_reason(
    bench: Any, way: dict[str, Any], code: str, message: str
) -> None:
    bench.agent(f"""
        import sys
        def answer(prompt):
            if prompt == "die":
                print("last words", file=sys.stderr, flush=True)
                {code}
            return "fine"
    """)
    host = bench.host(**way)

    talks = [await bench.talk(host, prompt) for prompt in ("hi", "die", "hi")]

    assert [talk.responses for talk in talks] == [["fine"], [], ["fine"]]
    assert talks[1].kind == "crash"
    assert message in talks[1].message
    assert talks[1].error.stderr_tail.startswith("last words\n")


async def test_sys_exit_is_reported(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("import sys\ndef answer(prompt): sys.exit('enough')")

    talk = await bench.talk_once("hi", **way)

    assert (talk.kind, talk.message) == ("agent", "the agent called sys.exit('enough') (agent.py:2)")


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(1000)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)",
        "import ctypes; ctypes.PyDLL(None).sleep(1000)",  # holds the GIL
        "import subprocess; subprocess.run(['sleep', '1000'])",
    ],
)
@pytest.mark.needs_fork
async def test_a_hanging_case_is_killed_and_keeps_its_output(
    bench: Any, code: str, is_alive: Any, wait_until: Any
) -> None:
    bench.agent(f"""
        import os
        from pathlib import Path
        def answer(prompt):
            print("before it hung")
            Path("pid").write_text(str(os.getpid()))
            {code}
    """)
    host = bench.host()
    session = await bench.open(host)
    turn = asyncio.create_task(session.turn(HI, turn=0))
    pid = int(await wait_until(lambda: (bench.folder / "pid").exists() and (bench.folder / "pid").read_text()))

    end = await session.kill()

    assert not is_alive(pid)
    assert end.stdout_tail == "before it hung\n"
    assert await session.kill() == end
    with pytest.raises(AgentError):
        await turn


async def test_killing_one_session_does_not_harm_others_in_its_process(bench: Any) -> None:
    bench.agent("""
        import asyncio
        async def answer(prompt):
            await asyncio.sleep(1000 if prompt == "hang" else 0)
            return prompt
    """)
    host = bench.host(isolation="worker")
    hanging = await bench.open(host)
    turn = asyncio.create_task(hanging.turn(Content.of_text("hang", role="user"), turn=0))
    other = await bench.open(host)
    await other.turn(HI, turn=0)

    turn.cancel()
    await hanging.kill()

    assert (await other.turn(HI, turn=1)).invocation.final_response is not None
    await other.finish()


@pytest.mark.parametrize("isolation", ["case", "worker"])
async def test_a_session_killed_before_it_has_a_process_runs_no_turn(bench: Any, isolation: str) -> None:
    bench.agent("def answer(prompt): return prompt")
    host = bench.host(isolation=isolation)
    session = await bench.open(host)
    turn = asyncio.create_task(session.turn(HI, turn=0))
    await asyncio.sleep(0)

    await session.kill()

    with pytest.raises(AgentError, match="the session was killed"):
        await turn
    assert (await bench.talk(host, "hi")).responses == ["hi"]


async def test_a_process_with_a_hanging_thread_is_replaced(bench: Any, wait_until: Any, is_alive: Any) -> None:
    bench.agent("""
        import os, time
        def answer(prompt):
            time.sleep(1000 if prompt == "hang" else 0)
            return str(os.getpid())
    """)
    host = bench.host(isolation="worker")
    first = await bench.talk(host, "hi")
    hanging = await bench.open(host)
    turn = asyncio.create_task(hanging.turn(Content.of_text("hang", role="user"), turn=0))
    await asyncio.sleep(0.1)

    turn.cancel()
    await hanging.kill()
    second = await bench.talk(host, "hi")

    assert first.responses != second.responses
    await wait_until(lambda: not is_alive(int(first.responses[0])))


async def test_a_shared_process_with_a_blocked_loop_is_killed_and_its_cases_may_run_alone(bench: Any) -> None:
    bench.agent("""
        import asyncio, time
        async def answer(prompt):
            if prompt == "block":
                time.sleep(1000)
            await asyncio.sleep(1000 if prompt == "wait" else 0)
            return prompt
    """)
    host = bench.host(isolation="worker")
    victim_task = asyncio.create_task(bench.talk(host, "wait"))
    await bench.talk(host, "hi")
    blocking = await bench.open(host)
    turn = asyncio.create_task(blocking.turn(Content.of_text("block", role="user"), turn=0))
    await asyncio.sleep(0.2)

    turn.cancel()
    await blocking.kill()

    victim = await victim_task
    assert victim.kind == "crash"
    assert victim.error.retry_alone
    assert (await bench.talk(host, "hi", alone=True)).responses == ["hi"]


async def test_cases_of_a_shared_process_that_dies_may_run_alone(bench: Any) -> None:
    bench.agent("""
        import asyncio, os
        async def answer(prompt):
            if prompt == "die":
                os._exit(3)
            await asyncio.sleep(1000)
    """)
    host = bench.host(isolation="worker")
    victim_task = asyncio.create_task(bench.talk(host, "wait"))
    await asyncio.sleep(0.3)

    died = await bench.talk(host, "die")
    victim = await victim_task
    alone = await bench.talk(host, "die", alone=True)

    assert died.error.retry_alone and victim.error.retry_alone
    assert "exit status 3" in victim.message
    assert not alone.error.retry_alone


@pytest.mark.parametrize(
    "way", [pytest.param({"isolation": "worker"}, marks=pytest.mark.needs_fork), {"mode": "once"}], ids=str
)
async def test_a_case_that_runs_alone_has_each_turn_once(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        import os
        def answer(prompt):
            with open("prompts.txt", "a") as stream:
                stream.write(f"{prompt}\\n")
            return os._exit(3) if prompt == "die" else prompt
    """)

    talk = await bench.talk(bench.host(**way), "hi", "die", alone=True)

    assert (talk.responses, talk.kind) == (["hi"], "crash")
    assert (bench.folder / "prompts.txt").read_text().split() == ["hi", "die"]


@pytest.mark.parametrize(
    "code",
    [
        "for fd in (0, 1, 2): os.close(fd)",
        "os.chdir('/')",
        "threading.Thread(target=time.sleep, args=(1000,)).start()",
        "subprocess.Popen(['sleep', '1000'])",
        "print('x' * 10); sys.stdout = None",
        "sys.stdout.close()",
        "os.environ.clear(); sys.path.clear()",
        "multiprocessing.get_context('fork').Process(target=print, args=('hi',)).start()",
        "multiprocessing.get_context('fork').Pool(1).map(abs, [1])",
        "gc.collect()",
        "logging.warning('x')",
    ],
)
async def test_an_agent_may_change_its_process_and_still_answer(bench: Any, way: dict[str, Any], code: str) -> None:
    bench.agent(f"""
        import gc, logging, multiprocessing, os, signal, subprocess, sys, threading, time
        def answer(prompt):
            {code}
            return "done"
    """)
    talk = await bench.talk_once("hi", **way)

    assert talk.error is None, talk.message
    assert talk.responses == ["done"]


@pytest.mark.needs_fork
async def test_an_agent_in_its_own_process_runs_in_the_main_thread_and_may_set_signals(bench: Any) -> None:
    bench.agent("import signal\ndef answer(p): signal.signal(signal.SIGCHLD, signal.SIG_IGN); return 'done'")

    assert (await bench.talk_once("hi", mode="fork")).responses == ["done"]


@pytest.mark.needs_fork
async def test_an_agent_that_forks_and_returns_twice_answers_once(bench: Any) -> None:
    bench.agent("import os\ndef answer(prompt): return 'child' if os.fork() == 0 else 'parent'")

    talk = await bench.talk_once("hi", "again", mode="fork")

    assert talk.responses == ["parent", "parent"]


@pytest.mark.needs_fork
async def test_an_agent_that_kills_the_zygote_crashes_and_the_next_case_gets_another(bench: Any) -> None:
    bench.agent("""
        import os, signal, time
        def answer(prompt):
            if prompt == "kill":
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(1000)
            return "fine"
    """)
    host = bench.host(mode="fork")

    talks = [await bench.talk(host, prompt) for prompt in ("hi", "kill", "hi")]

    assert talks[1].kind == "crash"
    assert talks[1].message == "the agent's process was lost before it answered"
    assert talks[0].responses == talks[2].responses == ["fine"]


@pytest.mark.needs_fork
async def test_an_agent_that_kills_its_own_process_group_does_not_kill_the_zygote(bench: Any, is_alive: Any) -> None:
    bench.agent("""
        import os, signal
        def answer(prompt):
            if prompt == "kill":
                os.killpg(0, signal.SIGKILL)
            return str(os.getppid())
    """)
    host = bench.host(mode="fork")

    talks = [await bench.talk(host, prompt) for prompt in ("first", "hi", "kill", "hi")]

    assert "SIGKILL" in talks[2].message
    assert talks[3].error is None
    assert all(is_alive(int(talk.responses[0])) for talk in (talks[0], talks[1], talks[3]))


@pytest.mark.needs_fork
async def test_invalid_protocol_data_is_a_crash_of_that_case_only(bench: Any) -> None:
    bench.agent("""
        import os, stat
        def answer(prompt):
            if prompt == "garbage":
                for fd in range(3, 64):
                    try:
                        if stat.S_ISSOCK(os.fstat(fd).st_mode):
                            os.write(fd, b"garbage\\n")
                    except OSError:
                        pass
            return "fine"
    """)
    host = bench.host(mode="fork")

    talks = [await bench.talk(host, prompt) for prompt in ("garbage", "hi")]

    assert talks[0].kind == "crash"
    assert talks[0].message == "the agent's process sent data that is not a protocol message"
    assert talks[1].responses == ["fine"]
