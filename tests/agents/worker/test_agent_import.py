"""Imports before a fork: libraries and agents are imported once where a fork can copy them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import collect_answers


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


@pytest.mark.needs_fork
async def test_a_library_that_starts_threads_is_imported_in_each_case(bench: Any, library: Path) -> None:
    (library / "plain.py").write_text("import os\nPID = os.getpid()\n")
    (library / "threaded.py").write_text(
        "import os, threading, time\nPID = os.getpid()\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    )
    bench.agent("import plain, threaded\ndef answer(prompt): return f'{plain.PID} {threaded.PID}'")

    answers = [answer.split() for answer in (await collect_answers(bench))[1:]]

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
