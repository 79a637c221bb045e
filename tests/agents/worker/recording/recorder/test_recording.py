"""The record of a case: everything editable that the result may depend on, and nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import read_blocks
from workbench.model.evalset import Content
from workbench.model.identity import DependencyKind

pytestmark = pytest.mark.needs_fork


async def test_code_files_variables_and_environment_are_recorded_in_every_mode(
    bench: Any, run: Any, way: dict[str, Any]
) -> None:
    helper = bench.write("helper.py", "def used():\n    'Doc.'\n    return 1\ndef unused():\n    return 2\n")
    data = bench.write("data.json", "{}")
    bench.agent(
        """
        import json, os, helper
        def answer(prompt):
            json.load(open("data.json"))
            os.path.exists("none")
            return str(helper.used()) + os.environ.get("WB_KEY", "")
        """
    )

    record = await run(**way)

    assert record.error is None
    assert record.dependencies.complete and record.dependencies.tainted is None
    blocks = read_blocks(helper.read_bytes(), "helper.py")
    assert record.rows("rest")["helper.py"] == blocks.rest.fingerprint
    assert record.rows("name")["helper.py::used()"] == blocks.name("used()")
    assert record.rows("block").keys() == {"agent.py::answer", "helper.py::used"}
    assert record.rows("block")["helper.py::used"] == blocks.bodies["used"]
    assert record.rows("file") == {"data.json": fingerprints.of_file(str(data))}
    assert record.rows("probe") == {"none": "absent"}
    assert record.rows("variable") == {"WB_KEY": "absent"}
    assert record.rows("interpreter") == {sys.executable: fingerprints.of_interpreter()}
    assert record.lookups()["helper"] == "module"
    settings, site_packages = sorted(record.rows("installed"), key=lambda path: path.endswith("packages"))
    assert settings == str(Path(sys.prefix, "pyvenv.cfg"))
    assert record.rows("installed")[site_packages] == fingerprints.of_installed(site_packages)
    assert not record.rows("opaque") and not record.rows("written")
    assert {row.kind for row in record.dependencies.rows} <= set(DependencyKind)


async def test_cases_in_separate_processes_report_only_the_code_that_they_ran(bench: Any, run: Any) -> None:
    bench.agent("def a(): return 'a'\ndef b(): return 'b'\ndef answer(prompt): return a() if prompt == 'a' else b()")
    host = bench.host(mode="fork")
    host.prepare(cases=4)

    records = [await run(prompt, host=host) for prompt in "abab"]

    blocks = [set(record.rows("block")) for record in records]
    assert blocks == [{"agent.py::answer", "agent.py::a"}, {"agent.py::answer", "agent.py::b"}] * 2


async def test_cases_that_share_a_process_get_all_its_dependencies(bench: Any, run: Any) -> None:
    bench.agent("def a(): return 'a'\ndef b(): return 'b'\ndef answer(prompt): return a() if prompt == 'a' else b()")
    host = bench.host(mode="once", isolation="worker")

    await run("a", host=host)
    second = await run("b", host=host)

    assert set(second.rows("block")) == {"agent.py::answer", "agent.py::a", "agent.py::b"}
    assert second.dependencies.complete


async def test_dependencies_of_later_turns_are_reported(bench: Any, run: Any) -> None:
    bench.agent("def late(): return 'late'\ndef answer(prompt): return late() if prompt == 'late' else prompt")

    record = await run("hi", "late")

    assert "agent.py::late" in record.rows("block")


# What the recorder cannot follow


OPAQUE = {
    "subprocess.run(['/bin/true'])": "subprocess true",
    "subprocess.run('true | cat', shell=True)": "subprocess sh",
    "os.system('true')": "os.system",
    "os.waitpid(os.fork() or os._exit(0), 0)": "os.fork",
    "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)": "os.posix_spawn true",
    "ctypes.CDLL('libm.so.6')": "ctypes libm.so.6",
    "multiprocessing.get_context('fork').Process(target=int).start()": "os.fork",
    "multiprocessing.get_context('spawn').Process(target=int).start()": "multiprocessing.popen_spawn_posix",
    "ctypes.CDLL(None).getpid()": "ctypes getpid",
    "ctypes.pythonapi.Py_GetVersion": "ctypes Py_GetVersion",
    "sys.audit('sqlite3.enable_load_extension', None, True)": "extensions of SQLite",
    "ctypes.CDLL(None)": None,
    "platform.processor(), uuid.getnode()": None,
}


@pytest.mark.parametrize("code", OPAQUE)
async def test_operations_that_cannot_be_followed_are_opaque(bench: Any, run: Any, code: str) -> None:
    bench.agent(
        "import ctypes, multiprocessing, os, platform, subprocess, sys, uuid\n"
        f"def answer(prompt):\n    {code}\n    return 'ok'"
    )

    record = await run()

    assert record.responses == ["ok"]
    reasons = set(record.rows("opaque"))
    assert reasons == set() if OPAQUE[code] is None else OPAQUE[code] in reasons
    assert record.dependencies.is_opaque == bool(reasons)


async def test_asyncio_subprocesses_are_opaque(bench: Any, run: Any) -> None:
    bench.agent(
        "import asyncio\nasync def answer(prompt):\n"
        "    process = await asyncio.create_subprocess_exec('true')\n    await process.wait()\n    return 'ok'"
    )

    assert (await run()).rows("opaque") == {"subprocess true": "-"}


async def test_extension_modules_of_the_agent_are_opaque(
    bench: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    for name in (f"site-packages/installed{EXTENSION_SUFFIXES[0]}", f"{bench.folder.name}/own{EXTENSION_SUFFIXES[0]}"):
        (tmp_path / name).write_bytes(b"")  # importing it fails, which counts as well
    bench.agent(
        "def answer(prompt):\n    try:\n        __import__(prompt)\n"
        "    except ImportError as error:\n        return error.path.rpartition('/')[2].partition('.')[0]"
    )

    installed, own = await run("installed"), await run("own")

    assert [*installed.responses, *own.responses] == ["installed", "own"]
    assert installed.rows("opaque") == {}
    assert own.rows("opaque") == {"extension module own": "-"}


async def test_a_library_that_runs_a_program_at_import_is_not_opaque(
    bench: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "lib.py").write_text("import subprocess\ndef f(): subprocess.run(['true'])\nf()\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    bench.agent("import lib\ndef answer(prompt):\n    if prompt == 'run': lib.f()\n    return prompt")

    assert not (await run("hi")).rows("opaque")
    assert (await run("run")).rows("opaque") == {"subprocess true": "-"}


# Wrapped functions behave as before


async def test_wrapped_functions_behave_like_the_originals(bench: Any, run: Any) -> None:
    bench.agent(
        """
        import os, pickle, shutil, tempfile
        class Accessor:
            stat = os.stat
        def answer(prompt):
            assert pickle.loads(pickle.dumps(os.stat)) is os.stat
            assert os.stat in os.supports_dir_fd and os.stat in os.supports_fd
            assert shutil._use_fd_functions and shutil.rmtree.avoids_symlink_attacks
            assert Accessor().stat(".").st_mode == os.stat(".").st_mode == os.stat(path=".").st_mode
            descriptor = os.open(".", os.O_RDONLY)
            assert os.stat(descriptor).st_ino == os.stat("agent.py", dir_fd=None).st_ino or True
            assert os.stat("agent.py", dir_fd=descriptor).st_size == os.path.getsize("agent.py")
            for wrong in (lambda: os.stat(), lambda: os.stat(1.5), lambda: os.stat("a", no=1), lambda: open(1.5)):
                try: wrong()
                except TypeError: continue
                raise AssertionError
            with os.scandir() as entries: found = {entry.name: entry for entry in entries}
            assert isinstance(found["agent.py"], os.DirEntry) and os.path.samefile(found["agent.py"], "agent.py")
            assert found["agent.py"].is_file() and not found["agent.py"].is_dir()
            assert {entry.name for entry in os.scandir(descriptor)} == {*found} == {*next(os.walk("."))[2]} | {
                *next(os.walk("."))[1]}
            try: next(iter(os.scandir(tempfile.mkdtemp())))
            except StopIteration: pass
            try: os.environ["WB_NONE"]
            except KeyError as error: assert error.args == ("WB_NONE",)
            try: os.stat("none")
            except FileNotFoundError as error: assert error.filename == "none"
            folder = tempfile.mkdtemp(); open(os.path.join(folder, "a"), "w").close(); shutil.rmtree(folder)
            return "ok"
        """
    )

    record = await run()

    assert record.responses == ["ok"], record.error
    assert not record.rows("opaque")


async def test_a_recursion_error_in_the_recorder_does_not_break_the_case(bench: Any, run: Any) -> None:
    bench.agent(
        """
        import sys
        def answer(prompt):
            def deep(n):
                try: return deep(n + 1)
                except RecursionError: return open("x" * (n % 7) + "y") if n % 3 else None
            try: deep(0)
            except (OSError, RecursionError): pass
            return "ok"
        """
    )

    record = await run()

    assert record.responses == ["ok"]
    assert record.dependencies.complete


async def test_a_signal_that_arrives_during_recording_reaches_the_agent(bench: Any, run: Any) -> None:
    with (bench.folder / "large").open("wb") as stream:
        stream.truncate(60 * 1024 * 1024)
    bench.agent(
        """
        import signal
        class Late(Exception): pass
        def late(*_): raise Late
        def answer(prompt):
            signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            try:
                with open("large", "rb"): pass
                signal.pause()
            except Late:
                return "late"
        """
    )

    assert (await run()).responses == ["late"]


@pytest.mark.parametrize(
    ("hangs", "options"),
    [
        ("while True: pass", {}),
        ("time.sleep(1000)", {}),
        ("threading.Event().wait()", {}),
        ("pair = socket.socketpair(); pair[0].recv(1)", {}),
        ("asyncio.run(asyncio.sleep(1000))", {}),
        ("asyncio.run(asyncio.to_thread(time.sleep, 1000))", {}),
        ("time.sleep(1000)", {"isolation": "worker"}),
    ],
)
async def test_a_stopped_case_reports_what_it_used(bench: Any, hangs: str, options: dict[str, Any]) -> None:
    bench.agent(
        f"""
        import asyncio, socket, threading, time
        def hang():
            open("written", "w").write("x")
            {hangs}
        def answer(prompt):
            open("data").read()
            hang()
        """
    )
    bench.write("data", "x")
    session = await bench.open(bench.host(mode="fork", **options))
    content = Content.of_text("hi", role="user")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.turn(content, turn=0), 1.0)

    start = time.monotonic()
    await session.stop()

    assert time.monotonic() - start < 1.0
    assert session.dependencies is not None and session.dependencies.complete
    keys = {(row.kind, row.key.removeprefix(f"{bench.folder}/")) for row in session.dependencies.rows}
    assert {("block", "agent.py::hang"), ("file", "data"), ("written", "written")} <= keys
    assert not session.dependencies.is_opaque


async def test_a_process_that_died_has_unknown_dependencies(bench: Any) -> None:
    bench.agent("import os\ndef answer(prompt): os._exit(3)")
    session = await bench.open(bench.host(mode="fork"))
    with pytest.raises(AgentError):
        await session.turn(Content.of_text("hi", role="user"), turn=0)

    assert session.dependencies is not None
    assert session.dependencies.close().is_opaque and not session.dependencies.is_opaque


async def test_files_that_threads_read_concurrently_are_all_recorded(bench: Any, run: Any) -> None:
    for number in range(40):
        bench.write(f"data/{number}", str(number))
    bench.agent(
        """
        from concurrent.futures import ThreadPoolExecutor
        def read(number): return open(f"data/{number % 40}").read()
        def answer(prompt):
            with ThreadPoolExecutor(8) as pool: return str(len(list(pool.map(read, range(800)))))
        """
    )

    record = await run()

    assert record.responses == ["800"]
    assert len(record.rows("file")) == 40 and record.dependencies.tainted is None


@pytest.mark.parametrize("name", ["ast", "hashlib", "hmac", "warnings", "enum"])
async def test_a_module_of_the_agent_may_have_the_name_of_a_recorder_import(
    bench: Any, run: Any, way: dict[str, Any], name: str
) -> None:
    source = Path(os.__file__).with_name(f"{name}.py").read_text() if name in ("warnings", "enum") else ""
    bench.write(f"{name}.py", f"{source}\nWHO = 'mine'\n")
    bench.agent(f"import {name}\nasync def answer(prompt): return {name}.WHO + open('agent.py').read()[:6]")

    record = await run(**way)

    assert record.responses == ["mineimport"], record.error
    assert {f"{name}.py", "agent.py"} == record.rows("rest").keys()
