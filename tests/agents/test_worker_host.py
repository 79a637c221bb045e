"""The host of agents in worker processes: waiting for its sessions, and closing."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from workbench.model.evalset import Content

HI = Content.of_text("hi", role="user")


async def test_waiting_for_other_sessions_does_not_count_as_start_time(bench: Any) -> None:
    bench.agent("import time\nasync def answer(prompt):\n    time.sleep(0.2)\n    return prompt\n")
    host = bench.host(isolation="worker", concurrency=20, start_timeout=2)

    talks = await asyncio.gather(*(bench.talk(host, str(number)) for number in range(20)))

    assert [talk.responses for talk in talks] == [[str(number)] for number in range(20)]


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
