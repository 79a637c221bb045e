"""Sessions with function agents, for every way in which sessions get processes."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.conftest import ECHO
from tests.interpreters import find_interpreter
from tests.processes import find_children
from workbench.model.evalset import Content


async def test_a_session_keeps_history_and_state_and_leaks_none_into_the_next(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def answer(prompt, session):
            session.state["seen"] = [*session.state.get("seen", []), prompt]
            earlier = ",".join(turn["prompt"] + ">" + turn["response"] for turn in session.history)
            return f"{session.user_id} {len(session.history)} {earlier}"
    """)
    host = bench.host(**way)

    first = await bench.talk(host, "a", "b", state={"seen": ["start"]})
    second = await bench.talk(host, "c")

    assert first.responses == ["user 0 ", "user 1 a>user 0 "]
    assert first.end.final_state == {"seen": ["start", "a", "b"]}
    assert second.responses == ["user 0 "]
    assert second.end.final_state == {"seen": ["c"]}


async def test_no_spans_are_sent_unless_requested(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(ECHO)

    talk = await bench.talk(bench.host(**way), "hi", collect_spans=False)

    assert talk.error is None and talk.spans == []


@pytest.mark.needs_fork
async def test_the_output_of_a_case_is_reported_at_its_end_and_stdin_is_empty(bench: Any) -> None:
    bench.agent("""
        import os, subprocess, sys
        def answer(prompt):
            print("from python")
            os.write(1, b"from os.write\\n")
            subprocess.run([sys.executable, "-c", "print('from a subprocess')"])
            print("to stderr \\u2713", file=sys.stderr)
            return repr(sys.stdin.read())
    """)

    talk = await bench.talk_once("hi", mode="fork")

    assert talk.responses == ["''"]
    assert talk.end.stdout_tail == "from python\nfrom os.write\nfrom a subprocess\n"
    assert talk.end.stderr_tail == "to stderr \u2713\n"


async def test_an_agent_that_prints_100_megabytes_neither_blocks_nor_costs_memory(
    bench: Any, way: dict[str, Any]
) -> None:
    bench.agent("""
        import os
        def answer(prompt):
            for _ in range(100):
                os.write(1, b"x" * 1_000_000)
            os.write(1, b"the end")
            return "done"
    """)

    talk = await bench.talk_once("hi", **way)

    assert talk.responses == ["done"]
    if way == {"mode": "fork"}:
        assert talk.end.stdout_tail.endswith("the end")
        assert len(talk.end.stdout_tail) == 16_384


async def test_large_turns_are_sent_in_both_directions(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("def answer(prompt): return prompt * 10")
    prompt = "0123456789\u2713" * 100_000

    talk = await bench.talk_once(prompt, **way)

    assert talk.responses == [prompt * 10]


async def test_text_that_is_not_valid_utf_8_is_repaired(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(r"""
        def answer(prompt):
            return {"response": "half \ud800 and whole \ud83d\ude00", "predicted_trajectory": []}
    """)

    talk = await bench.talk_once("hi \ud800", **way)

    assert talk.responses == ["half \ufffd and whole \U0001f600"]


async def test_an_agent_runs_in_its_folder_with_its_env_file(
    bench: Any, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_TEST_SET", "from outside")
    env_file = bench.write("my.env", "WORKBENCH_TEST_SET=from file\nWORKBENCH_TEST_NEW=from file\n")
    bench.agent("""
        import os
        NEW = os.environ["WORKBENCH_TEST_NEW"]  # at import already
        def answer(prompt):
            return f"{NEW}, {os.environ['WORKBENCH_TEST_SET']}, {os.getcwd()}"
    """)

    talk = await bench.talk_once("hi", env_file=env_file, **way)

    assert talk.responses == [f"from file, from outside, {bench.folder}"]
    assert "WORKBENCH_TEST_NEW" not in os.environ


@pytest.mark.needs_fork
async def test_every_case_sees_fresh_modules_and_the_current_code(bench: Any) -> None:
    bench.agent("count = []\ndef answer(prompt):\n    count.append(1)\n    return f'one {len(count)}'")
    host = bench.host()
    first = [await bench.talk(host, "hi") for _ in range(3)]

    bench.agent("count = []\ndef answer(prompt):\n    count.append(1)\n    return f'two {len(count)}'")
    second = await bench.talk(host, "hi")

    assert [talk.responses for talk in first] == [["one 1"]] * 3
    assert second.responses == ["two 1"]


async def test_renewing_restarts_shared_processes_with_the_new_code(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("def answer(prompt): return 'old'")
    host = bench.host(**way)
    assert (await bench.talk(host, "hi")).responses == ["old"]

    bench.agent("def answer(prompt): return 'new'")
    host.renew()

    assert (await bench.talk(host, "hi")).responses == ["new"]


@pytest.mark.needs_fork
async def test_edits_of_the_agent_leave_no_processes_behind(bench: Any, wait_until: Callable[..., Any]) -> None:
    before = find_children()
    bench.write("rooms.py", "ROOMS = ('hall',)")
    host = bench.host(mode="fork")

    async def edit_and_talk(number: int) -> None:
        bench.agent(f"import rooms\ndef answer(prompt): return '{number}'")
        host.renew()
        host.prepare(cases=2)
        talks = await asyncio.gather(*[bench.talk(host, "hi") for _ in range(2)])
        assert [talk.responses for talk in talks] == [[str(number)]] * 2

    def list_descendants(pid: int) -> set[int]:
        found = find_children(pid)
        return found.union(*map(list_descendants, found))

    for number in range(3):
        await edit_and_talk(number)
    (root,) = find_children() - before
    initial_count = len(list_descendants(root))
    for number in range(3, 9):
        await edit_and_talk(number)

    await wait_until(lambda: len(list_descendants(root)) <= initial_count)


async def test_many_sessions_at_once_each_get_their_own_answers(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        import time
        def answer(prompt, session):
            time.sleep(0.01)
            return f"{prompt} {session.user_id} {len(session.history)}"
    """)
    host = bench.host(**way)
    host.prepare(cases=20)
    limit = asyncio.Semaphore(4)

    async def ask(number: int) -> list[str]:
        async with limit:
            talk = await bench.talk(host, f"p{number}", f"q{number}", user_id=f"u{number}")
            return talk.responses

    assert await asyncio.gather(*map(ask, range(20))) == [[f"p{n} u{n} 0", f"q{n} u{n} 1"] for n in range(20)]


async def test_a_session_without_turns_returns_its_initial_state(bench: Any) -> None:
    session = await bench.open(bench.host(), state={"a": 1})

    assert (await session.finish()).final_state == {"a": 1}
    await session.kill()


async def test_values_that_json_cannot_hold_become_text_in_the_final_state(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(
        "def answer(prompt, session):\n    session.state['set'] = {1}\n    session.state['it'] = 1j\n    return 'x'"
    )

    talk = await bench.talk_once("hi", **way)

    assert talk.end.final_state == {"set": [1], "it": "1j"}


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
async def test_the_agent_runs_under_its_own_interpreter(bench: Any, way: dict[str, Any], version: str) -> None:
    python = find_interpreter(version)
    bench.agent("import sys\nasync def answer(prompt, session): return '%d.%d' % sys.version_info[:2]")

    talk = await bench.talk_once("hi", "again", python=python, **way)

    assert talk.responses == [version, version], talk.error and talk.message


@pytest.mark.needs_fork
async def test_parts_without_text_do_not_disturb_the_prompt(bench: Any) -> None:
    bench.agent("def answer(prompt): return repr(prompt)")
    content = Content.model_validate(
        {"role": "user", "parts": [{"text": "a"}, {"inlineData": {"data": "x"}}, {"text": "b"}]}
    )
    session = await bench.open(bench.host())

    result = await session.turn(content, turn=0)
    await session.finish()

    assert result.invocation.final_response is not None
    assert result.invocation.final_response.text() == "'a\\nb'"


@pytest.mark.needs_fork
async def test_garbage_collection_is_enabled_in_the_agents_process(bench: Any) -> None:
    bench.agent("import gc\ndef answer(prompt): return str(gc.isenabled())")

    for isolation in ("case", "worker"):
        assert (await bench.talk_once("hi", mode="fork", isolation=isolation)).responses == ["True"]


PID = """
    import os, time
    def answer(prompt):
        if prompt == "wait":
            time.sleep(60)
        if prompt == "fail":
            raise RuntimeError("no")
        return str(os.getpid())
"""


@pytest.mark.needs_fork
@pytest.mark.parametrize("is_asked", [True, False])
async def test_a_process_serves_further_sessions_after_one_was_killed_after_its_last_turn(
    bench: Any, is_asked: bool
) -> None:
    bench.agent(PID)
    host = bench.host(isolation="worker")
    session = await bench.open(host)

    result = await session.turn(Content.of_text("hi", role="user"), turn=0, last=True)
    if is_asked:
        await asyncio.sleep(0.2)  # until the process has reported the end of the session
    await session.kill()

    later = await bench.talk(host, "hi")
    assert result.invocation.final_response is not None
    assert later.responses == [result.invocation.final_response.text()]


@pytest.mark.needs_fork
async def test_a_failed_last_turn_leaves_the_shared_process_usable(bench: Any) -> None:
    bench.agent(PID)
    host = bench.host(isolation="worker")

    first = await bench.talk(host, "hi")
    failed = await bench.talk(host, "fail")
    later = await bench.talk(host, "hi", "hi")

    assert failed.kind == "agent" and "no" in failed.message
    assert later.responses == first.responses * 2


@pytest.mark.needs_fork
async def test_a_session_that_failed_just_before_it_is_killed_leaves_the_shared_process_usable(bench: Any) -> None:
    bench.agent(PID)
    host = bench.host(isolation="worker")
    other = await bench.open(host)
    before = await other.turn(Content.of_text("hi", role="user"), turn=0)
    session = await bench.open(host)
    failing = asyncio.ensure_future(session.turn(Content.of_text("fail", role="user"), turn=0))
    for _ in range(5):  # until the turn is sent
        await asyncio.sleep(0)

    time.sleep(0.3)  # noqa: ASYNC251 - the failure is sent, and not read: a busy engine
    await session.kill()
    await asyncio.gather(failing, return_exceptions=True)

    after = await other.turn(Content.of_text("hi", role="user"), turn=1)
    assert after.invocation.final_response == before.invocation.final_response
    await other.finish()


async def test_an_announced_last_turn_ends_a_session_like_a_request(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def answer(prompt, session):
            session.state["heard"] = prompt
            print("heard", prompt)
            return prompt
    """)
    host = bench.host(**way)
    ends = []
    for last in (True, False):
        session = await bench.open(host)
        await session.turn(Content.of_text("hi", role="user"), turn=0, last=last)
        ends.append(await session.finish())
        assert session.dependencies is not None and session.dependencies.complete

    assert ends[0] == ends[1]
    assert ends[0].final_state == {"heard": "hi"}


@pytest.mark.needs_fork
async def test_a_session_that_waits_during_a_renewal_is_not_lost(bench: Any, wait_until: Any) -> None:
    bench.agent("def answer(prompt): return prompt")
    host = bench.host(mode="fork")
    host.prepare(cases=3)
    assert (await bench.talk(host, "hi")).error is None
    slots = host._launcher._slots
    slot_count = 0
    while not slots.locked():
        await slots.acquire()
        slot_count += 1
    talk = asyncio.create_task(bench.talk(host, "hi"))
    await wait_until(lambda: slots._waiters)

    host.renew()
    for _ in range(slot_count):
        slots.release()

    assert (await talk).responses == ["hi"]


@pytest.mark.needs_fork
async def test_a_lack_of_processes_fails_only_the_sessions_of_that_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    bench.agent("def answer(prompt): return prompt")
    host = bench.host(mode="fork")
    with monkeypatch.context() as patched:
        patched.setattr("workbench.agents.forked_processes.subprocess.Popen", refuse)
        host.prepare(cases=3)
        assert (await bench.talk(host, "hi")).kind == "infrastructure"

    assert (await bench.talk(host, "hi")).responses == ["hi"]
