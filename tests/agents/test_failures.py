"""Everything that can go wrong with an agent: one clear message each, the other cases unharmed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.host import AgentError
from workbench.model.evalset import Content

HI = Content.of_text("hi", role="user")


async def test_an_agent_that_raises_at_the_second_turn_keeps_its_first(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def deeper(prompt):
            raise KeyError(prompt)
        def answer(prompt, session):
            print("turn", len(session.history))
            return "fine" if not session.history else deeper(prompt)
    """)

    talk = await bench.talk_once("a", "b", **way)

    failure = talk.error.failure
    assert talk.responses == ["fine"]
    assert (talk.kind, talk.message, failure.turn) == ("agent", "KeyError: 'b'", 1)
    assert "agent.py" in failure.traceback and "in deeper" in failure.traceback
    assert "workbench" not in failure.traceback.replace(str(bench.folder), "")
    assert talk.error.stdout_tail == "turn 0\nturn 1\n"
    assert talk.spans[-1].error == "KeyError"


async def test_an_async_agent_that_raises_shows_only_its_own_frames(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        import asyncio
        async def answer(prompt):
            await asyncio.sleep(0)
            raise ValueError("no")
    """)

    talk = await bench.talk_once("a", **way)

    assert (talk.kind, talk.message) == ("agent", "ValueError: no")
    assert talk.error.failure.traceback.count("File ") == 1


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("raise RuntimeError('at import')", "setup", "RuntimeError: at import"),
        ("import no_such_thing", "setup", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("def answer(prompt) return 1", "setup", "SyntaxError: "),
        ("import sys; sys.exit(4)", "setup", "the agent called sys.exit(4) while it was imported"),
        ("raise ConnectionResetError('gone')", "infrastructure", "ConnectionResetError: gone"),
        ("def anser(prompt): ...", "setup", "agent has no attribute 'answer'; did you mean 'anser'?"),
        ("answer = 'text'", "setup", "agent:answer is a str ('text'), expected a function"),
        ("def answer(): ...", "setup", "agent:answer takes (), expected f(prompt) or f(prompt, session)"),
        ("def answer(a, b, c): ...", "setup", "agent:answer takes (a, b, c), expected"),
        ("def answer(p, *, key): ...", "setup", "agent:answer needs key by keyword"),
    ],
)
async def test_an_agent_that_cannot_be_imported_says_why(
    bench: Any, way: dict[str, Any], code: str, kind: str, message: str
) -> None:
    bench.agent(code)

    talk = await bench.talk_once("hi", **way)

    assert talk.kind == kind
    assert talk.message.startswith(message)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("agnet:answer", "there is no module 'agnet' in {folder}; did you mean 'agent'?"),
        ("package.agnet:answer", "there is no module 'package.agnet' in {folder}/package; did you mean 'agent'?"),
        ("pakage.agent:answer", "there is no module 'pakage' in {folder}; did you mean 'package'?"),
        ("agent", "'agent' does not name the function of the agent: expected package.module:name"),
    ],
)
@pytest.mark.needs_fork
async def test_an_agent_that_is_not_there_is_met_with_the_nearest_name(bench: Any, location: str, message: str) -> None:
    bench.agent("def answer(prompt): return prompt")
    bench.write("package/__init__.py", "")
    bench.write("package/agent.py", "def answer(prompt): return prompt")

    talk = await bench.talk_once("hi", location=location)

    assert (talk.kind, talk.message) == ("setup", message.format(folder=bench.folder))
    assert talk.error.failure.turn is None


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("None", "the agent returned None, expected a str, or a dict with"),
        ("42", "the agent returned an int (42), expected a str"),
        ("['a']", "the agent returned a list, expected a str"),
        ("(x for x in 'ab')", "the agent returned a generator, expected a str"),
        ("{}", "the agent returned an empty dict and no response"),
        ("{'output': 'x'}", "the agent returned a dict with the keys output and no response"),
        ("{'response': 3}", '"response" is an int (3), expected a str'),
        ("{'response': 'x', 'predicted_trajectroy': []}", "did you mean 'predicted_trajectory'?"),
        ("{'response': 'x', 'trajectory': []}", "did you mean 'predicted_trajectory'?"),
        ("{'response': 'x', 'predicted_trajectory': 'roll_die'}", '"predicted_trajectory" is a str that is no JSON'),
        ("{'response': 'x', 'predicted_trajectory': [{'tool': 'a'}]}", "predicted_trajectory[0] is a dict with the"),
        ("{'response': 'x', 'predicted_trajectory': [{'name': 'a', 'args': 3}]}", "predicted_trajectory[0].args is"),
        (
            "{'response': 'x', 'predicted_trajectory': ['ok', {'name': 'a', 'args': {'b': [{1}]}}]}",
            "predicted_trajectory[1].args.b[0] is a set, which JSON cannot hold",
        ),
        (
            "{'response': 'x', 'predicted_trajectory': [{'name': 'a', 'args': {'b': float('nan')}}]}",
            "predicted_trajectory[0].args.b is nan, which JSON cannot hold",
        ),
        ("{'response': 'x', 'state': 3}", '"state" is an int (3), expected a dict'),
        ("{'response': 'x', 'usage': {'prompt_tokens': 'many'}}", "usage.prompt is a str ('many'), expected a number"),
        ("{'response': 'x', 'tool_responses': [3]}", "tool_responses[0] is an int (3), expected"),
    ],
)
@pytest.mark.needs_fork
async def test_an_answer_of_the_wrong_shape_is_told_with_what_is_expected(
    bench: Any, returned: str, found: str
) -> None:
    bench.agent(f"def answer(prompt): return {returned}")

    talk = await bench.talk_once("hi")

    assert talk.kind == "agent"
    assert found in talk.message


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


async def test_sys_exit_is_told_as_such(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("import sys\ndef answer(prompt): sys.exit('enough')")

    talk = await bench.talk_once("hi", **way)

    assert (talk.kind, talk.message) == ("agent", "the agent called sys.exit('enough')")


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
async def test_a_case_that_hangs_is_killed_with_all_it_started(
    bench: Any, code: str, running: Any, eventually: Any
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
    pid = int(await eventually(lambda: (bench.folder / "pid").exists() and (bench.folder / "pid").read_text()))

    end = await session.kill()

    assert not running(pid)
    assert end.stdout_tail == "before it hung\n"
    assert await session.kill() == end
    with pytest.raises(AgentError):
        await turn


async def test_killing_one_session_leaves_the_others_of_a_shared_process_alone(bench: Any) -> None:
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
async def test_a_session_that_is_killed_before_it_has_a_process_never_gets_far(bench: Any, isolation: str) -> None:
    bench.agent("def answer(prompt): return prompt")
    host = bench.host(isolation=isolation)
    session = await bench.open(host)
    turn = asyncio.create_task(session.turn(HI, turn=0))
    await asyncio.sleep(0)

    await session.kill()

    with pytest.raises(AgentError, match="the session was killed"):
        await turn
    assert (await bench.talk(host, "hi")).responses == ["hi"]


async def test_a_thread_that_hangs_is_left_behind_with_its_process(bench: Any, eventually: Any, running: Any) -> None:
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
    await eventually(lambda: not running(int(first.responses[0])))


async def test_a_shared_process_whose_loop_is_blocked_is_killed_and_its_other_cases_may_run_alone(bench: Any) -> None:
    bench.agent("""
        import asyncio, time
        async def answer(prompt):
            if prompt == "block":
                time.sleep(1000)
            await asyncio.sleep(1000 if prompt == "wait" else 0)
            return prompt
    """)
    host = bench.host(isolation="worker")
    waiting = asyncio.create_task(bench.talk(host, "wait"))
    await bench.talk(host, "hi")
    blocking = await bench.open(host)
    turn = asyncio.create_task(blocking.turn(Content.of_text("block", role="user"), turn=0))
    await asyncio.sleep(0.2)

    turn.cancel()
    await blocking.kill()

    victim = await waiting
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
    waiting = asyncio.create_task(bench.talk(host, "wait"))
    await asyncio.sleep(0.3)

    died = await bench.talk(host, "die")
    victim = await waiting
    alone = await bench.talk(host, "die", alone=True)

    assert died.error.retry_alone and victim.error.retry_alone
    assert "exit status 3" in victim.message
    assert not alone.error.retry_alone


async def test_an_interpreter_that_is_not_there_is_named(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("def answer(prompt): return prompt")

    talk = await bench.talk_once("hi", python=Path("/no/such/python"), **way)

    assert talk.kind == "setup"
    assert talk.message == "the interpreter of target 'bench' does not exist: /no/such/python"


async def test_an_interpreter_that_may_not_be_executed_is_named(bench: Any, way: dict[str, Any]) -> None:
    python = bench.write("python", "#!/bin/sh\n")

    talk = await bench.talk_once("hi", python=python, **way)

    assert talk.message == f"the interpreter of target 'bench' may not be executed: {python}"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script as a program")
async def test_an_interpreter_that_is_too_old_says_so(bench: Any, way: dict[str, Any]) -> None:
    launch = Path(__file__).parents[2] / "workbench/agents/worker/launch.py"
    code = "import sys, runpy; sys.version_info = (3, 8, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
    python = bench.write("python", f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)

    talk = await bench.talk_once("hi", python=python, **way)

    assert launch.exists()
    assert talk.kind == "setup"
    assert "it is Python 3.8.1, expected Python 3.10 or newer" in talk.message


async def test_a_program_that_is_no_python_is_told_from_one(bench: Any, way: dict[str, Any]) -> None:
    talk = await bench.talk_once("hi", python=Path("/bin/true"), **way)

    assert talk.kind == "setup"
    assert "does not start a worker: /bin/true ended with exit status 0" in talk.message


async def test_a_path_that_is_no_folder_is_named(bench: Any, way: dict[str, Any]) -> None:
    talk = await bench.talk_once("hi", path=bench.folder / "missing", **way)

    assert talk.message == f"the path of target 'bench' is no folder: {bench.folder / 'missing'}"


async def test_an_import_that_hangs_ends_with_the_start_timeout(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("import time\ntime.sleep(1000)")

    talk = await bench.talk_once("hi", start_timeout=1.0, **way)

    assert talk.kind == "setup"
    assert talk.message == "target 'bench' was not ready after 1 s: the import of agent:answer takes too long"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("ConnectionRefusedError()", "infrastructure"),
        ("TimeoutError()", "infrastructure"),
        ("Http(429)", "infrastructure"),
        ("Http(503)", "infrastructure"),
        ("Http(400)", "agent"),
        ("Wrapped(Http(500))", "infrastructure"),
        ("Grpc()", "infrastructure"),
        ("ValueError('429')", "agent"),
        ("FileNotFoundError()", "agent"),
    ],
)
@pytest.mark.needs_fork
async def test_only_failures_of_the_infrastructure_are_called_so(bench: Any, raised: str, kind: str) -> None:
    bench.agent(f"""
        class Http(Exception):
            def __init__(self, status):
                self.response = type("Response", (), {{"status_code": status}})()
        class Grpc(Exception):
            def code(self):
                return type("Code", (), {{"name": "RESOURCE_EXHAUSTED"}})()
        class Wrapped(Exception):
            def __init__(self, cause):
                self.__cause__ = cause
        def answer(prompt):
            raise {raised}
    """)

    assert (await bench.talk_once("hi")).kind == kind


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
async def test_what_agents_do_to_their_process_is_their_own_affair(bench: Any, way: dict[str, Any], code: str) -> None:
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
async def test_an_agent_that_kills_its_own_process_group_does_not_kill_the_zygote(bench: Any) -> None:
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
    assert talks[1].responses == talks[3].responses


@pytest.mark.needs_fork
async def test_garbage_on_the_protocol_is_a_crash_of_that_case_only(bench: Any) -> None:
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
    assert talks[0].message == "the agent's process sent something that is no message of the protocol"
    assert talks[1].responses == ["fine"]
