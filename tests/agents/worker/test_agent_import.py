"""Imports before a fork: libraries and agents are imported once where a fork can copy them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import collect_answers
from workbench.agents.agent_host import AgentError
from workbench.model.evalset import Content
from workbench.model.target import AgentKind


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PYTHONPATH; its name makes the worker take its modules for installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.mark.needs_fork
async def test_a_library_is_imported_once_even_if_each_case_imports_the_agent(bench: Any, library: Path) -> None:
    (library / "heavy.py").write_text("import os\nPID = os.getpid()\n")
    bench.agent("import heavy\nopened = open(__file__)\ndef answer(prompt): return str(heavy.PID)")

    assert len(set(await collect_answers(bench))) == 1


@pytest.mark.needs_fork
async def test_a_library_imported_during_a_turn_is_imported_once(bench: Any, library: Path) -> None:
    (library / "heavy.py").write_text("import os\nPID = os.getpid()\n")
    bench.agent("def answer(prompt):\n    import heavy\n    return str(heavy.PID)")

    _, *later_pids = await collect_answers(bench)

    assert len(set(later_pids)) == 1


@pytest.mark.needs_fork
async def test_the_agents_own_modules_are_imported_once_for_all_cases(bench: Any) -> None:
    bench.write("own/__init__.py", "import os\nPID = os.getpid()\n")
    bench.agent("import own\ndef answer(prompt): return str(own.PID)")

    assert len(set(await collect_answers(bench))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
        "opened = open(__file__)",
        "import socket; opened = socket.socket()",
        "import subprocess; started = subprocess.Popen(['sleep', '1000'])",
        "open('log', 'w').close()",
        "import signal; signal.signal(signal.SIGCHLD, lambda *_: None)",
        "import random; random.seed(42)",
        "import random; generator = random.Random()",
        "import uuid\nids = dict(\n    session=uuid.uuid4(),\n)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 1000)",
    ],
)
@pytest.mark.needs_fork
async def test_an_agent_whose_import_a_fork_cannot_copy_is_imported_in_each_case(bench: Any, code: str) -> None:
    bench.agent(f"import os\n{code}\nPID = os.getpid()\ndef answer(prompt): return str(PID)")

    assert len(set(await collect_answers(bench, 3))) == 3


@pytest.mark.needs_fork
async def test_an_agent_with_threads_that_end_at_a_fork_is_imported_once(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")  # with one CPU numpy would start no threads
    bench.agent("""
        import os
        import numpy
        PID = os.getpid()
        THREADS = len(os.listdir("/proc/self/task"))
        def answer(prompt):
            ones = numpy.ones((300, 300))
            assert (ones @ ones).sum() == 300 ** 3
            assert THREADS == 2, THREADS
            return f"{PID} {numpy.random.random()}"
    """)

    answers = [text.split() for text in await collect_answers(bench, 3)]

    assert len({pid for pid, _ in answers}) == 1
    assert len({number for _, number in answers}) == 3


@pytest.mark.needs_fork
async def test_an_agent_is_imported_once_even_if_libraries_have_no_bytecode(
    bench: Any, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(library))  # empty, as after some installers
    bench.agent("import os\nPID = os.getpid()\ndef answer(prompt): return str(PID)")

    assert len(set(await collect_answers(bench, 3))) == 1
    assert any(library.iterdir())


@pytest.mark.needs_fork
async def test_temporary_files_and_uuids_outside_the_import_allow_a_single_import(bench: Any) -> None:
    bench.agent("""
        import os, tempfile, uuid
        tempfile.gettempdir()  # writes a file, and removes it
        PID = os.getpid()
        class Session:
            id = uuid.uuid4()
        def answer(prompt):
            assert uuid.uuid4()
            return str(PID)
        if __name__ == "__main__":
            print(uuid.uuid4())
    """)

    assert len(set(await collect_answers(bench, 3))) == 1


@pytest.mark.needs_fork
async def test_each_case_starts_with_the_memory_right_after_the_import(bench: Any) -> None:
    bench.agent("count = []\ndef answer(prompt):\n    count.append(prompt)\n    return str(len(count))")

    assert await collect_answers(bench) == ["1"] * 5


@pytest.mark.needs_fork
@pytest.mark.parametrize(
    ("change", "reads"),
    [
        (lambda folder: (folder / "own.py").write_text("VALUE = 'new!'"), "import own; value = own.VALUE"),
        (lambda folder: (folder / "prompt").write_text("new!"), "value = open('prompt').read()"),
        (lambda folder: (folder / "texts/new!").touch(), "import os; value = sorted(os.listdir('texts'))[0]"),
        (lambda folder: (folder / "flag").touch(), "import os; value = 'new!' if os.path.exists('flag') else 'old!'"),
    ],
)
async def test_each_case_sees_the_current_state_of_files_read_at_import(
    bench: Any, change: Callable[[Path], None], reads: str
) -> None:
    bench.write("own.py", "VALUE = 'old!'")
    bench.write("prompt", "old!")
    bench.write("texts/old!", "")
    bench.agent(f"{reads}\ndef answer(prompt): return value")
    host = bench.host(mode="fork")
    host.prepare(cases=9)
    before = [(await bench.talk(host, "hi")).responses for _ in range(2)]

    change(bench.folder)

    assert before == [["old!"]] * 2
    assert [(await bench.talk(host, "hi")).responses for _ in range(2)] == [["new!"]] * 2


@pytest.mark.needs_fork
async def test_output_printed_during_the_import_is_reported_with_each_case(bench: Any) -> None:
    bench.agent("import os\nprint('imported', os.getpid())\ndef answer(prompt):\n    print('hi')\n    return prompt")
    host = bench.host(mode="fork")
    host.prepare(cases=3)

    ends = [(await bench.talk(host, "hi")).end for _ in range(3)]

    assert len({end.stdout_tail for end in ends}) == 1
    assert re.fullmatch(r"imported \d+\nhi\n", ends[0].stdout_tail)


@pytest.mark.needs_fork
async def test_a_failed_import_is_tried_once_and_fails_every_case(bench: Any) -> None:
    bench.agent("import os\nprint('loading')\nraise ValueError(f'process {os.getpid()}')")
    host = bench.host(mode="fork")
    host.prepare(cases=3)

    talks = [await bench.talk(host, "hi") for _ in range(3)]

    assert len({talk.message for talk in talks}) == 1
    assert {talk.kind for talk in talks} == {"setup"}
    assert all(talk.error.stdout_tail == "loading\n" for talk in talks)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
            "starts a thread",
        ),
        ("opened = open(__file__)", "leaves {file} open"),
    ],
)
@pytest.mark.needs_fork
async def test_a_library_that_a_fork_cannot_copy_is_imported_in_each_case_and_named(
    bench: Any, library: Path, code: str, reason: str
) -> None:
    (library / "plain.py").write_text("import os\nPID = os.getpid()\n")
    (library / "special.py").write_text(f"{code}\nimport os\nPID = os.getpid()\n")
    bench.agent("import plain, special\ndef answer(prompt): return f'{plain.PID} {special.PID}'\n")
    host = bench.host(mode="fork")

    reasons = await host.explain_imports()
    answers = [(await bench.talk(host, "hi")).responses[0].split() for _ in range(3)]

    assert reasons[0] == f"special is not imported early: its import {reason.format(file=library / 'special.py')}"
    assert len({plain for plain, _ in answers}) == 1
    assert len({special for _, special in answers}) == 3


@pytest.mark.parametrize("read", ["os.environ.get('MODE')", "dict(os.environ).get('MODE')"])
@pytest.mark.needs_fork
async def test_a_library_that_reads_a_variable_of_the_agent_is_imported_after_it_and_named(
    bench: Any, library: Path, read: str
) -> None:
    (library / "reader.py").write_text(f"import os\nMODE = {read}\n")
    code = "import os\nos.environ['MODE'] = 'NEW'\nimport reader\ndef answer(prompt): return reader.MODE"
    bench.agent(code.replace("NEW", "a"))
    host = bench.host(mode="fork")

    reasons = await host.explain_imports()
    bench.agent(code.replace("NEW", "b"))
    host.renew()
    answers = [(await bench.talk(host, "hi")).responses[0] for _ in range(3)]

    assert reasons == ["reader is not imported early: its import reads MODE, which the agent or another library sets"]
    assert answers == ["b"] * 3


@pytest.mark.needs_fork
async def test_a_library_whose_thread_ends_is_imported_once(bench: Any, library: Path) -> None:
    (library / "asking.py").write_text(
        "import os, threading, time\nPID = os.getpid()\nthreading.Thread(target=time.sleep, args=(0.5,)).start()\n"
    )
    bench.agent("import asking\ndef answer(prompt): return str(asking.PID)")
    host = bench.host(mode="fork")

    assert await host.explain_imports() == []
    assert len({(await bench.talk(host, "hi")).responses[0] for _ in range(3)}) == 1


@pytest.mark.needs_fork
async def test_a_library_that_reads_env_file_variables_is_imported_once(bench: Any, library: Path) -> None:
    (library / "reader.py").write_text("import os\nKEY = os.environ.get('WORKBENCH_TEST_KEY')\nPID = os.getpid()\n")
    env_file = bench.write(".env", "WORKBENCH_TEST_KEY=secret")
    bench.agent("import reader\nopened = open(__file__)\ndef answer(prompt): return f'{reader.KEY} {reader.PID}'")
    host = bench.host(mode="fork", env_file=env_file)

    reasons = await host.explain_imports()
    answers = [(await bench.talk(host, "hi")).responses[0].split() for _ in range(3)]

    assert reasons == [f"each case imports the agent: its import leaves {bench.folder / 'agent.py'} open"]
    assert {key for key, _ in answers} == {"secret"}
    assert len({pid for _, pid in answers}) == 1


@pytest.mark.parametrize("cases", [1, 3])
@pytest.mark.parametrize("more", ["", "opened = open(__file__)\n"])  # with it each case imports the agent
@pytest.mark.parametrize("read", ["os.environ.get('MODE', 'none')", "os.environ.setdefault('MODE', 'none')"])
@pytest.mark.needs_fork
async def test_a_library_imported_early_sees_a_variable_that_the_agent_sets_later(
    *, bench: Any, library: Path, cases: int, more: str, read: str
) -> None:
    (library / "reader.py").write_text(f"import os\nMODE = {read}\n")
    code = f"import reader\n{more}def answer(prompt): return reader.MODE\n"
    bench.agent(code)
    host = bench.host(mode="fork")
    await host.explain_imports()
    before = await bench.talk(host, "hi")

    bench.agent(f"import os\nos.environ['MODE'] = 'set'\n{code}")
    host.renew()
    host.prepare(cases=cases)
    after = [await bench.talk(host, "hi") for _ in range(cases)]

    assert before.responses == ["none"]
    assert [talk.responses for talk in after] == [["set"]] * cases


@pytest.mark.parametrize("cases", [1, 2])
@pytest.mark.needs_fork
async def test_values_of_the_env_file_are_those_of_the_start_of_each_session(
    bench: Any, library: Path, cases: int
) -> None:
    """A chat, or a description for the screen, renews nothing."""
    (library / "reader.py").write_text("import os\nKEY = os.environ.get('WORKBENCH_TEST_KEY')\n")
    env_file = bench.write(".env", "WORKBENCH_TEST_KEY=old")
    bench.agent("import reader\ndef answer(prompt): return reader.KEY")
    host = bench.host(mode="fork", env_file=env_file)
    await host.explain_imports()
    host.renew()
    host.prepare(cases=cases)
    before = await bench.talk(host, "hi")

    bench.write(".env", "WORKBENCH_TEST_KEY=new")
    after = [await bench.talk(host, "hi", alone=True) for _ in range(2)]

    assert before.responses == ["old"]
    assert [talk.responses for talk in after] == [["new"], ["new"]]


@pytest.mark.needs_fork
async def test_a_library_imported_early_is_imported_again_when_a_file_that_it_read_changes(
    bench: Any, library: Path
) -> None:
    settings = bench.write("settings.ini", "old")
    (library / "reader.py").write_text(f"TEXT = open({str(settings)!r}).read()\n")
    bench.agent("import reader\ndef answer(prompt): return reader.TEXT")
    host = bench.host(mode="fork")
    await host.explain_imports()
    before = await bench.talk(host, "hi")

    settings.write_text("new")
    host.renew()
    after = await bench.talk(host, "hi")

    assert (before.responses, after.responses) == (["old"], ["new"])


@pytest.mark.needs_fork
async def test_imports_of_a_session_that_is_given_up_are_done_for_the_next(
    bench: Any, library: Path, wait_until: Any
) -> None:
    """Saves that come faster than an import must not make every case begin it anew."""
    (library / "heavy.py").write_text("import os, time\nPID = os.getpid()\ntime.sleep(0.5)\n")
    (library / "first.py").write_text("")
    bench.agent(
        "import os, time\n"
        "def answer(prompt):\n"
        "    import first, heavy\n"
        "    open(f'{prompt}-{heavy.PID}', 'w').close()\n"
        "    time.sleep(1000 if prompt == 'wait' else 0)\n"
        "    return str(heavy.PID)\n"
    )
    host = bench.host(mode="fork")
    session = await bench.open(host)
    turn = asyncio.create_task(session.turn(Content.of_text("wait", role="user"), turn=0))
    await wait_until(lambda: list(bench.folder.glob("wait-*")))
    await session.stop()
    with contextlib.suppress(AgentError):
        await turn

    await host.explain_imports()
    host.renew()
    answers = {(await bench.talk(host, "hi")).responses[0] for _ in range(3)}

    assert len(answers) == 1


@pytest.mark.needs_fork
@pytest.mark.needs_adk
@pytest.mark.needs_litellm
async def test_litellm_is_imported_once_for_all_sessions_and_saves_of_an_adk_agent(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network
    bench.write("home/__init__.py", "from . import agent\n")
    code = """
        import sys

        from google.adk.agents import Agent
        from google.adk.models.lite_llm import LiteLlm


        def answer(callback_context):
            return types.Content(role="model", parts=[types.Part(text=f"{NUMBER} {os.getpid()} {FOUND}")])


        FOUND = "litellm" in sys.modules
        root_agent = Agent(name="home", model=LiteLlm(model="openai/m"), before_agent_callback=answer)
    """
    code = f"import os\nfrom google.genai import types\n{textwrap.dedent(code)}"
    bench.write("home/agent.py", f"NUMBER = 1\n{code}")
    host = bench.host(kind=AgentKind.ADK, location="home", mode="fork")
    reasons = await host.explain_imports()

    bench.write("home/agent.py", f"NUMBER = 2\n{code}")
    host.renew()
    talks = [await bench.talk(host, "hi") for _ in range(2)]

    assert reasons == []
    assert [talk.responses[0].split()[::2] for talk in talks] == [["2", "True"]] * 2
    assert len({talk.responses[0].split()[1] for talk in talks}) == 2


@pytest.mark.needs_fork
async def test_a_library_that_the_agents_folder_shadows_is_not_imported_early(bench: Any, library: Path) -> None:
    (library / "both.py").write_text("WHO = 'library'")
    bench.agent("import both\ndef answer(prompt): return both.WHO")
    host = bench.host(mode="fork")
    host.prepare(cases=4)
    first = [(await bench.talk(host, "hi")).responses[0] for _ in range(3)]

    bench.write("both.py", "WHO = 'own'")
    host.renew()
    second = await bench.talk(host, "hi")

    assert first == ["library"] * 3
    assert second.responses == ["own"]
