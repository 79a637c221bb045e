"""Loading of an agent's code: its own names, its newest source, and libraries imported once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    "name", ["json", "socket", "protocol", "wire", "child", "values", "main", "adapters", "selectors"]
)
async def test_a_file_of_the_agent_may_have_any_name(bench: Any, way: dict[str, Any], name: str) -> None:
    bench.write(f"{name}.py", f"WHO = 'my {name}'")
    bench.agent(f"import {name}\nasync def answer(prompt): return {name}.WHO")

    talk = await bench.talk_once("hi", **way)

    assert talk.error is None, talk.message
    assert talk.responses == [f"my {name}"]


async def test_an_agent_may_live_in_a_file_named_like_a_standard_module(bench: Any, way: dict[str, Any]) -> None:
    bench.write("json.py", "def answer(prompt): return prompt")

    talk = await bench.talk_once("hi", location="json:answer", **way)

    assert talk.error is None, talk.message
    assert talk.responses == ["hi"]


async def test_pythonpath_applies_to_the_agent_but_not_to_the_worker(
    bench: Any, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("elsewhere/values.py", "WHO = 'their values'")
    bench.write("elsewhere/selectors.py", "raise RuntimeError('not for us')")
    monkeypatch.setenv("PYTHONPATH", str(bench.folder / "elsewhere"))
    bench.agent("import values\ndef answer(prompt): return values.WHO")

    talk = await bench.talk_once("hi", **way)

    assert talk.error is None, talk.message
    assert talk.responses == ["their values"]


@pytest.mark.needs_fork
async def test_stale_bytecode_is_never_run_and_no_bytecode_is_written(bench: Any) -> None:
    bench.agent("import helper\ndef answer(prompt): return helper.WORD")
    helper = bench.write("helper.py", "WORD = 'old'")
    stamp = 1_700_000_000
    os.utime(helper, (stamp, stamp))
    import py_compile

    py_compile.compile(str(helper))
    helper.write_text("WORD = 'new'")
    os.utime(helper, (stamp, stamp))  # same size, same second: the bytecode looks fresh
    before = sorted(bench.folder.rglob("*.pyc"))

    talk = await bench.talk_once("hi")

    assert talk.responses == ["new"]
    assert sorted(bench.folder.rglob("*.pyc")) == before


LIBRARY = """
    import os
    PID = os.getpid()
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PYTHONPATH; its name makes the worker take its modules for installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


async def _collect_answers(bench: Any, count: int = 5) -> list[str]:
    host = bench.host(mode="fork")
    host.prepare(cases=count)
    talks = [await bench.talk(host, "hi") for _ in range(count)]
    assert all(talk.error is None for talk in talks), [talk.error for talk in talks]
    return [talk.responses[0] for talk in talks]


@pytest.mark.needs_fork
async def test_a_library_is_imported_once_even_if_each_case_imports_the_agent(bench: Any, library: Path) -> None:
    (library / "heavy.py").write_text("import os\nPID = os.getpid()\n")
    bench.agent("import heavy\nopened = open(__file__)\ndef answer(prompt): return str(heavy.PID)")

    assert len(set(await _collect_answers(bench))) == 1


@pytest.mark.needs_fork
async def test_a_library_imported_during_a_turn_is_imported_once(bench: Any, library: Path) -> None:
    (library / "heavy.py").write_text("import os\nPID = os.getpid()\n")
    bench.agent("def answer(prompt):\n    import heavy\n    return str(heavy.PID)")

    _, *later_pids = await _collect_answers(bench)

    assert len(set(later_pids)) == 1


@pytest.mark.needs_fork
async def test_the_agents_own_modules_are_imported_once_for_all_cases(bench: Any) -> None:
    bench.write("own/__init__.py", "import os\nPID = os.getpid()\n")
    bench.agent("import own\ndef answer(prompt): return str(own.PID)")

    assert len(set(await _collect_answers(bench))) == 1


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

    assert len(set(await _collect_answers(bench, 3))) == 3


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

    answers = [text.split() for text in await _collect_answers(bench, 3)]

    assert len({pid for pid, _ in answers}) == 1
    assert len({number for _, number in answers}) == 3


@pytest.mark.needs_fork
async def test_an_agent_is_imported_once_even_if_libraries_have_no_bytecode(
    bench: Any, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(library))  # empty, as after some installers
    bench.agent("import os\nPID = os.getpid()\ndef answer(prompt): return str(PID)")

    assert len(set(await _collect_answers(bench, 3))) == 1
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

    assert len(set(await _collect_answers(bench, 3))) == 1


@pytest.mark.needs_fork
async def test_each_case_starts_with_the_memory_right_after_the_import(bench: Any) -> None:
    bench.agent("count = []\ndef answer(prompt):\n    count.append(prompt)\n    return str(len(count))")

    assert await _collect_answers(bench) == ["1"] * 5


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


@pytest.mark.needs_fork
async def test_a_library_that_starts_threads_is_imported_in_each_case(bench: Any, library: Path) -> None:
    (library / "plain.py").write_text("import os\nPID = os.getpid()\n")
    (library / "threaded.py").write_text(
        "import os, threading, time\nPID = os.getpid()\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    )
    bench.agent("import plain, threaded\ndef answer(prompt): return f'{plain.PID} {threaded.PID}'")

    answers = [answer.split() for answer in (await _collect_answers(bench))[1:]]

    assert len({plain for plain, _ in answers}) == 1
    assert len({threaded for _, threaded in answers}) == 4


@pytest.mark.needs_fork
async def test_a_library_that_reads_env_file_variables_is_imported_in_each_case(bench: Any, library: Path) -> None:
    (library / "reader.py").write_text("import os\nKEY = os.environ.get('WORKBENCH_TEST_KEY')\nPID = os.getpid()\n")
    env_file = bench.write(".env", "WORKBENCH_TEST_KEY=secret")
    bench.agent("import reader\nopened = open(__file__)\ndef answer(prompt): return f'{reader.KEY} {reader.PID}'")
    host = bench.host(mode="fork", env_file=env_file)
    host.prepare(cases=4)

    answers = [(await bench.talk(host, "hi")).responses[0].split() for _ in range(4)]

    assert {key for key, _ in answers} == {"secret"}
    assert len({pid for _, pid in answers}) == 4


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


@pytest.mark.needs_fork
async def test_forked_processes_do_not_share_random_numbers(bench: Any) -> None:
    bench.agent("import random, uuid\ndef answer(prompt): return f'{random.random()} {uuid.uuid4()}'")

    answers = await _collect_answers(bench)

    assert len(set(answers)) == len(answers)


@pytest.mark.needs_fork
def test_a_worker_imports_no_heavy_standard_modules(tmp_path: Path) -> None:
    """Every start of a worker pays for each module that the zygote imports."""
    import json
    import subprocess

    launch = Path(__file__).parents[3] / "workbench/agents/worker/launch.py"
    code = (
        "import sys; before = set(sys.modules); from importlib.machinery import SourceFileLoader as Loader\n"
        f"Loader('launch', {str(launch)!r}).load_module()._load_worker({str(launch.parent)!r})\n"
        "import _workbench_worker.zygote, _workbench_worker.adapters.function, json\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    modules = set(json.loads(done.stdout))
    assert not modules & {"asyncio", "typing", "inspect", "pydantic", "workbench", "subprocess", "traceback"}
