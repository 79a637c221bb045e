"""What is recorded while a case runs: everything that the result may depend on and that may be edited, and no more."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import read_blocks
from workbench.model.evalset import Content
from workbench.model.identity import DependencyKind

pytestmark = pytest.mark.needs_fork


async def test_each_way_of_running_tells_code_files_variables_and_surroundings(
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
    assert record.of("rest")["helper.py"] == blocks.rest.fingerprint
    assert record.of("name")["helper.py::used()"] == blocks.name("used()")
    assert record.of("block").keys() == {"agent.py::answer", "helper.py::used"}
    assert record.of("block")["helper.py::used"] == blocks.bodies["used"]
    assert record.of("file") == {"data.json": fingerprints.of_file(str(data))}
    assert record.of("probe") == {"none": "absent"}
    assert record.of("variable") == {"WB_KEY": "absent"}
    assert record.of("interpreter") == {sys.executable: fingerprints.of_interpreter()}
    assert record.looked_for()["helper"] == "module"
    settings, site_packages = sorted(record.of("installed"), key=lambda path: path.endswith("packages"))
    assert settings == str(Path(sys.prefix, "pyvenv.cfg"))
    assert record.of("installed")[site_packages] == fingerprints.of_installed(site_packages)
    assert not record.of("opaque") and not record.of("written")
    assert {row.kind for row in record.dependencies.rows} <= set(DependencyKind)


async def test_cases_in_processes_of_their_own_tell_only_what_they_ran(bench: Any, run: Any) -> None:
    bench.agent("def a(): return 'a'\ndef b(): return 'b'\ndef answer(prompt): return a() if prompt == 'a' else b()")
    host = bench.host(mode="fork")
    host.prepare(cases=4)

    records = [await run(prompt, host=host) for prompt in "abab"]

    blocks = [set(record.of("block")) for record in records]
    assert blocks == [{"agent.py::answer", "agent.py::a"}, {"agent.py::answer", "agent.py::b"}] * 2


async def test_cases_that_share_a_process_get_all_its_dependencies(bench: Any, run: Any) -> None:
    bench.agent("def a(): return 'a'\ndef b(): return 'b'\ndef answer(prompt): return a() if prompt == 'a' else b()")
    host = bench.host(mode="once", isolation="worker")

    await run("a", host=host)
    second = await run("b", host=host)

    assert set(second.of("block")) == {"agent.py::answer", "agent.py::a", "agent.py::b"}
    assert second.dependencies.complete


async def test_dependencies_of_later_turns_are_reported(bench: Any, run: Any) -> None:
    bench.agent("def late(): return 'late'\ndef answer(prompt): return late() if prompt == 'late' else prompt")

    record = await run("hi", "late")

    assert "agent.py::late" in record.of("block")


# Variables


async def test_variables_are_known_by_how_they_were_read(bench: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WB_GET", "WB_ITEM", "WB_IN", "WB_OTHER", "WB_LOOP"):
        monkeypatch.setenv(name, "value")
    env_file = bench.write(".env", "WB_FILE=from file\nWB_UNREAD=x\nWB_SET=y\n")
    bench.agent(
        """
        import os
        os.environ["WB_SET"] = "own"
        def answer(prompt):
            os.environ.get("WB_GET"); os.getenv("WB_NONE"); os.environ["WB_ITEM"]; "WB_IN" in os.environ
            os.getenvb(b"WB_BYTES"); os.environ["WB_SET"]
            try: os.environ["WB_MISSING"]
            except KeyError: pass
            dict(os.environ); {**os.environ}; os.environ.copy(); list(os.environ.items()); os.environ | {}
            for name in os.environ:
                if name == "WB_LOOP": os.environ[name]
            for name, value in os.environ.items(): os.environ.get("WB_AMID")
            return os.environ["WB_FILE"]
        """
    )

    record = await run(env_file=env_file)

    assert record.responses == ["from file"]
    secret = fingerprints.derive_secret(str(bench.folder))
    expected = {"WB_GET": "value", "WB_ITEM": "value", "WB_IN": "value", "WB_LOOP": "value", "WB_FILE": "from file"}
    absent = dict.fromkeys(("WB_NONE", "WB_BYTES", "WB_MISSING", "WB_AMID"), "absent")
    hashed = {name: fingerprints.of_variable(secret, value) for name, value in expected.items()}
    assert record.of("variable") == {**hashed, **absent}
    in_effect = {"WB_FILE": "from file", "WB_UNREAD": "x", "WB_SET": "y"}  # whatever the agent does to them
    counted = fingerprints.select_variables("all", {**os.environ, **in_effect}, defined=in_effect)
    assert record.of("variables")["all"] == fingerprints.of_variables(secret, counted)
    assert record.of("env_files") == {".env": "-"}


@pytest.mark.needs_fork
async def test_the_mark_of_its_processes_is_no_dependency(bench: Any, run: Any) -> None:
    bench.agent("""
        import os
        def answer(prompt):
            return str([name for name in os.environ if os.environ[name] and name == "WORKBENCH_PROCESS_GROUP"])
    """)

    record = await run()

    assert record.responses == ["['WORKBENCH_PROCESS_GROUP']"]
    assert "PATH" in record.of("variable")
    assert "WORKBENCH_PROCESS_GROUP" not in record.of("variable")


async def test_values_of_variables_are_not_reported(bench: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WB_KEY", "very-secret")
    bench.agent("import os\ndef answer(prompt): return str(len(os.environ['WB_KEY']))")

    record = await run()

    assert record.responses == ["11"]
    assert "very-secret" not in repr(record.dependencies)


async def test_a_variable_that_a_library_read_before_the_env_file_was_loaded_is_an_early_one(
    bench: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "reader.py").write_text("import os\nKEY = os.environ.get('WB_EARLY')\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.setenv("WB_EARLY", "plain")
    bench.agent("import reader\nopened = open(__file__)\ndef answer(prompt): return reader.KEY")
    host = bench.host(mode="fork")
    records = [await run(host=host)]
    host.prepare(cases=2)

    records += [await run(host=host) for _ in range(2)]

    secret = fingerprints.derive_secret(str(bench.folder))
    assert records[0].of("variable")["WB_EARLY"] == fingerprints.of_variable(secret, "plain")
    assert records[2].of("early_variable")["WB_EARLY"] == fingerprints.of_variable(secret, "plain")
    assert "WB_EARLY" not in records[2].of("variable")


# What cannot be followed


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
async def test_invisible_operations_are_opaque(bench: Any, run: Any, code: str) -> None:
    bench.agent(
        "import ctypes, multiprocessing, os, platform, subprocess, sys, uuid\n"
        f"def answer(prompt):\n    {code}\n    return 'ok'"
    )

    record = await run()

    assert record.responses == ["ok"]
    reasons = set(record.of("opaque"))
    assert reasons == set() if OPAQUE[code] is None else OPAQUE[code] in reasons
    assert record.dependencies.is_opaque == bool(reasons)


async def test_asyncio_subprocesses_are_opaque(bench: Any, run: Any) -> None:
    bench.agent(
        "import asyncio\nasync def answer(prompt):\n"
        "    process = await asyncio.create_subprocess_exec('true')\n    await process.wait()\n    return 'ok'"
    )

    assert (await run()).of("opaque") == {"subprocess true": "-"}


async def test_a_library_that_runs_a_program_while_it_is_imported_is_not_opaque(
    bench: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "lib.py").write_text("import subprocess\ndef f(): subprocess.run(['true'])\nf()\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    bench.agent("import lib\ndef answer(prompt):\n    if prompt == 'run': lib.f()\n    return prompt")

    assert not (await run("hi")).of("opaque")
    assert (await run("run")).of("opaque") == {"subprocess true": "-"}


# What is wrapped behaves as before


async def test_functions_that_are_watched_behave_as_before(bench: Any, run: Any) -> None:
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
    assert not record.of("opaque")


async def test_a_recorder_in_trouble_says_that_anything_may_have_been_read(bench: Any, run: Any) -> None:
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


async def test_a_signal_that_comes_while_something_is_recorded_reaches_the_agent(bench: Any, run: Any) -> None:
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
async def test_a_case_that_is_given_up_tells_what_it_used(bench: Any, hangs: str, options: dict[str, Any]) -> None:
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
    said = Content.of_text("hi", role="user")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.turn(said, turn=0), 1.0)

    began = time.monotonic()
    await session.stop()

    assert time.monotonic() - began < 1.0
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


async def test_threads_may_read_at_the_same_time(bench: Any, run: Any) -> None:
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
    assert len(record.of("file")) == 40 and record.dependencies.tainted is None


@pytest.mark.parametrize("name", ["ast", "hashlib", "hmac", "warnings", "enum"])
async def test_what_the_recorder_imports_may_be_a_name_of_the_agents(
    bench: Any, run: Any, way: dict[str, Any], name: str
) -> None:
    source = Path(os.__file__).with_name(f"{name}.py").read_text() if name in ("warnings", "enum") else ""
    bench.write(f"{name}.py", f"{source}\nWHO = 'mine'\n")
    bench.agent(f"import {name}\nasync def answer(prompt): return {name}.WHO + open('agent.py').read()[:6]")

    record = await run(**way)

    assert record.responses == ["mineimport"], record.error
    assert {f"{name}.py", "agent.py"} == record.of("rest").keys()
