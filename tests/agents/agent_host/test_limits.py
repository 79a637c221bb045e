"""Limits: open files, sizes of messages and numbers, lengths of paths."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.channel import Channel, ChannelListener

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
