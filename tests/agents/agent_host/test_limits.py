"""Limits: open files, message sizes, timeouts; and code in unusual places."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.agent_host import SessionRequest
from workbench.agents.channel import Channel, ChannelListener
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.target import AgentKind, Target

HI = Content.of_text("hi", role="user")

MANY_AT_ONCE = """
import asyncio, resource, sys
from pathlib import Path
from workbench.agents.agent_host import AgentError, SessionRequest
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.target import AgentKind, Target

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

async def one(host):
    session = await host.open(SessionRequest(app_name="app", user_id="user"), on_span=lambda _: None)
    try:
        await session.turn(Content.of_text("hi", role="user"), turn=0)
        await session.finish()
        return "answered"
    except AgentError as error:
        return str(error.failure.kind)
    finally:
        await session.kill()

async def main():
    target = Target(name="bench", kind=AgentKind.FUNCTION, location="agent:answer", path=Path(sys.argv[1]))
    host = create_host(target, isolation="case", concurrency=60, mode=sys.argv[2])
    print(*await asyncio.gather(*(one(host) for _ in range(60))))
    print(await one(host))
    await host.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", [pytest.param("fork", marks=pytest.mark.needs_fork), "once"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_lack_of_open_files_fails_single_cases_that_may_be_retried(bench: Any, mode: str) -> None:
    bench.agent("import time\ndef answer(prompt):\n    time.sleep(0.2)\n    return prompt\n")

    command = [sys.executable, "-c", MANY_AT_ONCE, str(bench.folder), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    first, last_outcome = done.stdout.splitlines()
    ends = Counter(first.split())
    assert ends["answered"] > 5
    assert set(ends) <= {"answered", "infrastructure"}
    assert last_outcome == "answered"


async def test_numbers_too_long_for_json_are_reported_with_their_position(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def answer(prompt):
            call = {"tool_name": "count", "tool_input": {"to": 10**5000}}
            return {"response": "done", "predicted_trajectory": [call]}
    """)

    talk = await bench.talk_once("a", **way)

    assert talk.kind == "agent"
    assert talk.message.startswith("predicted_trajectory[0].tool_input.to is an int of more than 14000 bits")


async def test_numbers_too_long_for_json_become_text_in_the_state(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def answer(prompt, session):
            session.state[10**5000] = session.state["long"] = 10**5000
            return prompt
    """)

    talk = await bench.talk_once("a", **way)

    assert talk.responses == ["a"]
    assert talk.end.final_state["long"].startswith("0x")


async def test_waiting_for_other_sessions_does_not_count_as_start_time(bench: Any) -> None:
    bench.agent("import time\nasync def answer(prompt):\n    time.sleep(0.2)\n    return prompt\n")
    host = bench.host(isolation="worker", concurrency=20, start_timeout=2)

    talks = await asyncio.gather(*(bench.talk(host, str(number)) for number in range(20)))

    assert [talk.responses for talk in talks] == [[str(number)] for number in range(20)]


@pytest.mark.needs_fork
async def test_a_case_ends_although_a_leftover_process_writes_endlessly(bench: Any) -> None:
    bench.agent("""
        import subprocess, sys
        def answer(prompt):
            subprocess.Popen([sys.executable, "-c", "while True: print('x' * 60000)"], start_new_session=True)
            return prompt
    """)
    host = bench.host(mode="fork")

    talks = [await asyncio.wait_for(bench.talk(host, prompt), 60) for prompt in "abc"]

    assert [talk.responses for talk in talks] == [["a"], ["b"], ["c"]]


@pytest.mark.needs_fork
async def test_a_session_cancelled_while_finishing_leaves_no_process_in_the_host(bench: Any, wait_until: Any) -> None:
    bench.agent("""
        import sys, time
        class Slow:
            def write(self, text): ...
            def flush(self): time.sleep(0.3)
        def answer(prompt):
            sys.stdout = Slow()
            return prompt
    """)
    session = await bench.open(bench.host(mode="fork"))
    await session.turn(HI, turn=0)
    child = session._child
    task = asyncio.create_task(session.finish())
    await wait_until(lambda: child.sessions == 0)  # it has answered, and its process is about to end

    task.cancel()
    await asyncio.wait([task])

    await wait_until(child.end.done)
    assert not child.end.cancelled()


async def test_changed_code_outside_the_agents_folder_is_used_after_a_renewal(
    bench: Any, way: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "elsewhere"
    library.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(library))
    bench.agent("import shared_code\ndef answer(prompt): return shared_code.VALUE\n")
    host = bench.host(**way)
    host.prepare(cases=10)
    (library / "shared_code.py").write_text("VALUE = 'one'\n")
    before = [(await bench.talk(host, "a")).responses for _ in range(3)]

    (library / "shared_code.py").write_text("VALUE = 'two'\n")
    host.renew()
    after = [(await bench.talk(host, "a")).responses for _ in range(2)]

    assert before == [["one"]] * 3
    assert after == [["two"]] * 2


@pytest.mark.parametrize("mode", [pytest.param("fork", marks=pytest.mark.needs_fork), "once"])
async def test_closing_does_not_wait_for_a_starting_interpreter(
    bench: Any, mode: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Any, is_alive: Any
) -> None:
    pid_file = bench.folder / "started"
    site = bench.folder / "site"
    site.mkdir()
    text = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    (site / "sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(site))
    host = bench.host(mode=mode)
    host.prepare(cases=1)
    pid = int(await wait_until(lambda: pid_file.exists() and pid_file.read_text()))

    await host.close()

    await wait_until(lambda: not is_alive(pid))
    assert not is_alive(pid)


@pytest.mark.needs_fork
async def test_closing_during_an_unneeded_import_prints_no_warning(bench: Any) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    bench.agent("def answer(prompt): return prompt")
    host = bench.host()
    host.prepare(cases=2)
    talks = [asyncio.create_task(bench.talk(host, "hi")) for _ in range(2)]
    await asyncio.sleep(0.02)  # the interpreter starts

    for talk in talks:
        talk.cancel()
    await asyncio.wait(talks)
    await host.close()
    bench._hosts.clear()
    del host, talk, talks

    gc.collect()
    assert problems == []


async def test_a_worker_that_connects_before_its_start_returns_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(prompt): return prompt\n")
    target = Target(name="bench", kind=AgentKind.FUNCTION, location="agent:answer", path=tmp_path)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    host = create_host(target, isolation="case", concurrency=8, mode="once")

    async def ask_once() -> str:
        session = await host.open(SessionRequest(app_name="app", user_id="user"), on_span=lambda _: None)
        result = await session.turn(HI, turn=0)
        await session.finish()
        assert result.invocation.final_response is not None
        return result.invocation.final_response.text()

    try:
        assert await asyncio.gather(*(ask_once() for _ in range(30))) == ["hi"] * 30
    finally:
        await host.close()
    assert problems == []


async def test_a_message_without_required_fields_ends_only_its_connection() -> None:
    close_reasons: list[str | None] = []
    listener = ChannelListener()
    await listener.start()

    def greet(channel: Channel, hello: dict[str, Any]) -> None:
        channel.on_closed = close_reasons.append
        channel.on_message = lambda message: message["number"] + 1

    listener.expect("token", greet)
    try:
        reader, writer = await asyncio.open_unix_connection(listener.address[1])
        writer.write(b'{"type":"hello","protocol":2,"token":"token"}\n{"type":"output"}\n')
        assert await reader.read() == b""
        writer.close()
    except ConnectionError:
        pass
    finally:
        await listener.close()

    assert close_reasons == ["an invalid message (KeyError: 'number')"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets")
async def test_a_temporary_folder_too_deep_for_a_socket_stays_empty(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    bench.agent("def answer(prompt): return prompt\n")

    talk = await bench.talk_once("a")

    assert talk.responses == ["a"]
    assert list(deep.iterdir()) == []
