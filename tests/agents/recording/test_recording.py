"""What is recorded while a case runs: everything that the result may depend on and that may be edited, and no more."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import read_blocks
from workbench.model.dependencies import DependencyKind

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
    assert record.of("module")["helper.py"] == blocks.module
    assert record.of("block").keys() == {"agent.py::answer", "helper.py::used"}
    assert record.of("block")["helper.py::used"] == blocks.bodies["used"]
    assert record.of("file") == {"data.json": fingerprints.of_file(str(data))}
    assert record.of("probe") == {"none": "absent"}
    assert record.of("variable") == {"WB_KEY": "absent"}
    assert record.of("interpreter") == {sys.executable: fingerprints.of_interpreter()}
    assert record.looked_for()["helper"] == "module"
    (site_packages,) = record.of("installed")
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


async def test_cases_that_share_a_process_are_told_all_that_it_did(bench: Any, run: Any) -> None:
    bench.agent("def a(): return 'a'\ndef b(): return 'b'\ndef answer(prompt): return a() if prompt == 'a' else b()")
    host = bench.host(mode="once", isolation="worker")

    await run("a", host=host)
    second = await run("b", host=host)

    assert set(second.of("block")) == {"agent.py::answer", "agent.py::a", "agent.py::b"}
    assert second.dependencies.complete


async def test_what_a_later_turn_does_is_told_too(bench: Any, run: Any) -> None:
    bench.agent("def late(): return 'late'\ndef answer(prompt): return late() if prompt == 'late' else prompt")

    record = await run("hi", "late")

    assert "agent.py::late" in record.of("block")


# Code


async def test_functions_that_are_hidden_behind_others_are_seen(bench: Any, run: Any) -> None:
    bench.agent(
        """
        import asyncio, concurrent.futures, functools, threading

        @functools.lru_cache
        def cached(): return 1
        FIRST = cached()

        def in_thread(): pass
        def in_pool(): pass
        def in_loop(): pass
        async def task(): pass
        async def stream(): yield 1
        def generator(): yield 1
        def never_begun(): yield 1

        class Tool:
            @property
            def size(self): return 1
            @classmethod
            def make(cls): return cls()
            @staticmethod
            def help(): pass
            def __call__(self):
                def inner(): return 2
                return inner()

        def wrapped(f):
            @functools.wraps(f)
            def wrapper(): return f()
            return wrapper

        @wrapped
        def decorated(): pass

        async def answer(prompt):
            cached()
            thread = threading.Thread(target=in_thread); thread.start(); thread.join()
            with concurrent.futures.ThreadPoolExecutor(1) as pool: pool.submit(in_pool).result()
            await asyncio.to_thread(in_loop)
            await asyncio.gather(task())
            async for _ in stream(): pass
            list(generator()); never_begun()
            tool = Tool.make(); tool.size; tool.help(); tool(); decorated()
            return "ok"
        """
    )

    record = await run()

    assert record.responses == ["ok"]
    names = {key.partition("::")[2] for key in record.of("block")}
    assert names == {
        *("answer", "cached", "in_thread", "in_pool", "in_loop", "task", "stream", "generator"),
        *("Tool.size", "Tool.make", "Tool.help", "Tool.__call__", "Tool.__call__.<locals>.inner"),
        *("wrapped", "wrapped.<locals>.wrapper", "decorated"),
    }


async def test_a_docstring_that_nobody_called_belongs_to_the_module(bench: Any, run: Any) -> None:
    text = "def tool():\n    'Says {}.'\n    return 1\ndef answer(prompt): return tool.__doc__"
    bench.agent(text.format("this"))
    before = await run()
    bench.agent(text.format("that"))
    after = await run()

    assert (before.responses, after.responses) == (["Says this."], ["Says that."])
    assert before.of("module") != after.of("module")
    assert before.of("block") == after.of("block")


async def test_imports_of_every_kind_are_seen(bench: Any, run: Any) -> None:
    for name in ("lazy", "dynamic", "pack/__init__", "pack/inner", "by_path"):
        bench.write(f"{name}.py", "def f(): return 1\nX = f()\n")
    bench.agent(
        """
        import importlib, importlib.util
        try: import optional
        except ImportError: optional = None
        def answer(prompt):
            import lazy
            importlib.import_module("dynamic")
            from pack import inner
            importlib.util.find_spec("sought")
            try: importlib.import_module("pack.none")
            except ImportError: pass
            spec = importlib.util.spec_from_file_location("other_name", "by_path.py")
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return "ok"
        """
    )

    record = await run()

    assert record.responses == ["ok"]
    files = {"lazy.py", "dynamic.py", "pack/__init__.py", "pack/inner.py", "by_path.py"}
    assert record.of("module").keys() == {"agent.py", *files}
    assert {f"{file}::f" for file in files} < record.of("block").keys()
    found = record.looked_for()
    assert {name: found[name] for name in ("lazy", "dynamic", "pack", "optional", "sought")} == {
        "lazy": "module", "dynamic": "module", "pack": "package", "optional": "absent", "sought": "absent",
    }  # fmt: skip
    assert record.looked_for("pack") == {"inner": "module", "none": "absent"}


async def test_a_package_that_would_come_before_a_module_is_noticed(bench: Any, run: Any) -> None:
    bench.write("x.py", "")
    bench.agent("import x\ndef answer(prompt): return prompt")

    record = await run()
    bench.write("x/__init__.py", "")

    (key,) = (key for key in record.of("import") if "x" in key.partition("::")[2].split(","))
    names = key.partition("::")[2].split(",")
    assert fingerprints.of_import(str(bench.folder), names) != record.of("import")[key]


async def test_a_file_that_would_replace_a_library_that_was_imported_early_is_noticed(bench: Any, run: Any) -> None:
    bench.agent("import json, decimal\ndef answer(prompt): return prompt")
    host = bench.host(mode="fork")
    host.prepare(cases=3)

    records = [await run(host=host) for _ in range(3)]

    for record in records:
        found = record.looked_for()
        assert (found["json"], found["decimal"]) == ("absent", "absent")
        assert "sys" not in found and "_workbench_worker" not in found


async def test_source_that_is_read_as_text_counts_as_a_file(bench: Any, run: Any) -> None:
    bench.agent("import inspect\ndef tool(): return 1\ndef answer(prompt): return inspect.getsource(tool)")

    record = await run()

    assert record.responses == ["def tool(): return 1\n"]
    assert record.of("file").keys() == {"agent.py"}


async def test_source_is_only_text_where_somebody_reads_it(bench: Any, run: Any) -> None:
    bench.agent(
        """
        import warnings
        from pathlib import Path
        HERE = Path(__file__).resolve().parent
        class Tool:
            "Does it."
        def answer(prompt):
            warnings.warn("old")
            return str(HERE.name)
        """
    )

    record = await run()

    assert not record.of("file")


async def test_a_module_that_is_no_python_fails_the_case_and_is_known_as_a_file(
    bench: Any, run: Any, way: dict[str, Any]
) -> None:
    broken = bench.write("broken.py", "def f(:\n")
    bench.agent("import broken\ndef answer(prompt): return prompt")

    record = await run(**way)

    assert record.error is not None and "SyntaxError" in record.error.failure.message
    assert record.dependencies.complete
    assert record.of("file") == {"broken.py": fingerprints.of_file(str(broken))}
    assert record.of("module").keys() == {"agent.py"}
    assert record.looked_for()["broken"] == "module"


async def test_a_module_that_is_not_there_fails_the_case_and_is_looked_for(bench: Any, run: Any) -> None:
    bench.agent("import not_there\ndef answer(prompt): return prompt")

    record = await run()

    assert record.error is not None and record.dependencies.complete
    assert record.looked_for()["not_there"] == "absent"
    assert not record.of("folder") and not record.of("file")


@pytest.mark.parametrize("way_out", ["raise ValueError('no')", "import sys; sys.exit(3)"])
async def test_an_agent_that_raises_depends_on_what_it_ran_and_not_on_the_text_of_its_source(
    bench: Any, run: Any, way: dict[str, Any], way_out: str
) -> None:
    bench.agent(f"def fail():\n    {way_out}\ndef answer(prompt):\n    fail()\n")

    record = await run(**way)

    assert record.error is not None and record.dependencies.complete
    assert "fail()" in (record.error.failure.traceback or "")
    assert record.of("block").keys() == {"agent.py::answer", "agent.py::fail"}
    assert not record.of("file")


async def test_of_a_process_that_is_killed_the_record_is_not_complete(bench: Any, run: Any) -> None:
    bench.agent("import os\ndef answer(prompt): os._exit(3)")

    record = await run()

    assert record.error is not None and not record.dependencies.complete
    assert "agent.py" in record.of("module")


async def test_modules_in_any_encoding_are_run_and_cut(bench: Any, run: Any) -> None:
    (bench.folder / "latin.py").write_bytes("# coding: latin-1\ndef f(): return 'é'\n".encode("latin-1"))
    (bench.folder / "bom.py").write_bytes("\ufefffrom __future__ import annotations\ndef f(): return 'ü'\n".encode())
    bench.agent("import latin, bom\ndef answer(prompt): return latin.f() + bom.f()")

    record = await run()

    assert record.responses == ["éü"]
    assert {"latin.py::f", "bom.py::f"} < record.of("block").keys()


async def test_places_in_tracebacks_are_those_of_the_source(bench: Any, run: Any) -> None:
    bench.agent(
        '''
        def f():
            """Doc."""
            x = 1

            raise ValueError("here")

        def answer(prompt):
            try:
                f()
            except ValueError as error:
                code = f.__code__
                return f"{error.__traceback__.tb_next.tb_lineno} {code.co_firstlineno} {f.__doc__} {code.co_argcount}"
        '''
    )

    assert (await run()).responses == ["6 2 Doc. 0"]


async def test_code_for_a_compiler_that_reads_bytecode_is_left_alone(bench: Any, run: Any) -> None:
    bench.write("numba.py", "def njit(f):\n    assert f.__code__.co_names == ()\n    return f\n")
    bench.agent("import numba\n@numba.njit\ndef fast(x): return x\ndef answer(prompt): return fast(prompt)")

    record = await run()

    assert record.responses == ["hi"]
    assert record.of("file").keys() == {"agent.py"}


async def test_a_module_that_the_agent_wrote_itself_is_none_of_its_dependencies(bench: Any, run: Any) -> None:
    bench.agent(
        """
        import importlib
        def answer(prompt):
            with open("made.py", "w") as stream: stream.write("def f(): return 'made'")
            importlib.invalidate_caches()
            import made
            return made.f()
        """
    )

    record = await run()

    assert record.responses == ["made"]
    assert "made.py" not in record.of("module") and "made.py::f" not in record.of("block")
    assert "made" not in record.looked_for()
    assert record.of("written") == {"made.py": fingerprints.of_file(str(bench.folder / "made.py"))}


# Files


LOOKS = {
    "open('there')": {"file": ["there"]},
    "open('none')": {"file": ["none"]},
    "open('folder/none', 'w') if False else open(b'there')": {"file": ["there"]},
    "__import__('pathlib').Path('there').read_text()": {"file": ["there"]},
    "os.open('there', os.O_RDONLY)": {"file": ["there"]},
    "os.path.getsize('there')": {"file": ["there"]},
    "os.stat('there').st_size": {"file": ["there"]},
    "__import__('pathlib').Path('there').stat()": {"file": ["there"]},
    "__import__('_thread').start_new_thread(os.stat, ('there',)), __import__('time').sleep(0.3)": {"file": ["there"]},
    "os.path.exists('there')": {"probe": ["there"]},
    "os.path.isfile('none')": {"probe": ["none"]},
    "os.path.isdir('folder')": {"probe": ["folder"]},
    "os.path.islink('there')": {"probe": ["there"]},
    "os.path.lexists('none')": {"probe": ["none"]},
    "os.access('there', os.R_OK)": {"probe": ["there"]},
    "__import__('pathlib').Path('there').exists()": {"probe": ["there"]},
    "__import__('pathlib').Path('none').is_file()": {"probe": ["none"]},
    "__import__('pathlib').Path('folder').is_dir()": {"probe": ["folder"]},
    "os.listdir('folder')": {"folder": ["folder"]},
    "list(os.scandir('folder'))": {"folder": ["folder"]},
    "[entry.stat().st_size for entry in os.scandir('folder') if entry.name == 'b.txt']": {
        "file": ["folder/b.txt"],
        "folder": ["folder"],
    },
    "[entry.is_file() for entry in os.scandir('folder')]": {"folder": ["folder"]},
    "list(os.walk('folder'))": {"folder": ["folder", "folder/inner"]},
    "__import__('glob').glob('folder/*')": {"folder": ["folder"]},
    "list(__import__('pathlib').Path('folder').iterdir())": {"folder": ["folder"]},
    "list(__import__('pathlib').Path('folder').glob('*.txt'))": {"folder": ["folder"]},
    "os.listdir('none')": {"folder": ["none"]},
    "os.listdir()": {"folder": ["."]},
    "__import__('zipfile').is_zipfile('there')": {"file": ["there"]},
    "os.stat('/proc/self/stat'), open('/dev/null')": {},
    "__import__('shutil').which('none')": {},
}


@pytest.mark.parametrize("expression", LOOKS)
async def test_each_way_to_look_at_a_file_is_seen(bench: Any, run: Any, expression: str) -> None:
    bench.write("there", "text")
    bench.write("folder/inner/a.txt", "a")
    bench.write("folder/b.txt", "b")
    bench.agent(
        f"import os, glob, pathlib, shutil, zipfile\ndef answer(prompt):\n    try: {expression}\n"
        "    except OSError: pass\n    return 'ok'"
    )

    record = await run()

    assert record.responses == ["ok"]
    found = {kind: sorted(record.of(kind)) for kind in ("file", "folder", "probe", "opaque", "written", "state")}
    if "which" in expression:  # looks along PATH, which is another matter
        found.pop("probe")
    if "glob" in expression or "walk" in expression:  # which also ask whether folders are any
        found["probe"] = [key for key in found["probe"] if not key.startswith("folder")]
    assert {kind: keys for kind, keys in found.items() if keys} == LOOKS[expression]
    for key in record.of("folder"):
        assert record.of("folder")[key] == fingerprints.of_folder(str(bench.folder / key))


async def test_files_elsewhere_count_where_the_agents_code_asks_for_them(bench: Any, run: Any, tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).write_text(name)
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "lib.py").write_text(f"def f(path={str(tmp_path / 'theirs')!r}): return open(path).read()")
    bench.agent(
        f"import sys, json; sys.path.append({str(library)!r}); import lib\n"
        f"def answer(prompt): return lib.f() + open({str(tmp_path / 'ours')!r}).read() + lib.f('prompt.txt')"
    )
    bench.write("prompt.txt", "!")

    record = await run()

    assert record.responses == ["theirsours!"]
    assert record.of("file").keys() == {str(tmp_path / "ours"), "prompt.txt"}


async def test_folders_that_others_keep_books_in_are_never_told(bench: Any, run: Any) -> None:
    for name in (".git/HEAD", ".workbench/x", ".adk/y", "__pycache__/z"):
        bench.write(name, "")
    bench.agent(
        "import os\ndef answer(prompt):\n"
        "    [open(x) for x in ('.git/HEAD', '.workbench/x', '.adk/y', '__pycache__/z')]\n"
        "    os.listdir('.git'); os.path.exists('.adk/none'); return 'ok'"
    )

    record = await run()

    assert record.responses == ["ok"]
    assert not record.of("file") and not record.of("folder") and not record.of("probe")


async def test_a_database_is_a_file_and_what_was_left_in_it_is_state(bench: Any, run: Any) -> None:
    for name in ("read.db", "written.db", "by uri.db"):
        with sqlite3.connect(bench.folder / name) as connection:
            connection.execute("create table t (x)")
        connection.close()
    before = fingerprints.of_file(str(bench.folder / "read.db"))
    bench.agent(
        """
        import sqlite3
        def answer(prompt):
            sqlite3.connect("read.db").execute("select * from t").fetchall()
            sqlite3.connect("file:by%20uri.db?mode=ro", uri=True).execute("select * from t").fetchall()
            sqlite3.connect(":memory:").close()
            for _ in range(2):
                connection = sqlite3.connect("written.db")
                connection.execute("insert into t values (1)")
                connection.commit(); connection.close()
            return "ok"
        """
    )

    record = await run()

    assert record.responses == ["ok"]
    assert record.of("file").keys() == {"read.db", "by uri.db"}
    assert record.of("file")["read.db"] == before
    assert record.of("state") == {"written.db": fingerprints.of_file(str(bench.folder / "written.db"))}
    assert record.dependencies.tainted is None


# What agents write


async def test_what_a_case_wrote_is_told_and_none_of_its_dependencies(bench: Any, run: Any) -> None:
    bench.write("old.txt", "old")
    bench.agent(
        """
        import os, tempfile
        def answer(prompt):
            with open("new.txt", "w") as stream: stream.write("new")
            os.remove("old.txt")
            os.makedirs("made/inner", exist_ok=True)
            with open("made/inner/x", "w") as stream: stream.write("x")
            with open("temporary", "w") as stream: stream.write("t")
            os.replace("temporary", "moved")
            with tempfile.TemporaryDirectory() as folder: open(os.path.join(folder, "y"), "w").close()
            os.listdir(".")
            texts = [open(name).read() for name in ("new.txt", "made/inner/x", "moved")]
            return "".join(texts) + str(os.path.exists("old.txt"))
        """
    )
    before = fingerprints.of_folder(str(bench.folder), without={"old.txt"})

    record = await run()

    assert record.responses == ["newxtFalse"]
    assert not record.of("file")
    assert record.of("state") == {"made": "folder"}  # makedirs asks first whether it is there
    assert {key: value for key, value in record.of("written").items() if value in ("absent", "folder")} == {
        "old.txt": "absent",
        "made/inner": "folder",
    }
    assert {"new.txt", "made/inner/x", "moved"} < record.of("written").keys()
    assert "temporary" not in record.of("written")
    assert record.of("folder") == {".": before}


@pytest.mark.parametrize(
    "code",
    [
        "open('s', 'r+').write('b')",
        "open('s').read(); open('s', 'w').write('b')",
        "os.path.exists('s'); open('s', 'w').write('b')",
        "open('s', 'a').write('b'); open('s').read()",
        "open('s', 'a+').write('b')",
        "os.path.exists('s') or 0; os.remove('s')",
    ],
)
async def test_what_a_case_read_and_then_wrote_is_state(bench: Any, run: Any, code: str) -> None:
    bench.write("s", "a")
    bench.agent(f"import os\ndef answer(prompt):\n    {code}\n    return 'ok'")

    record = await run()

    assert record.responses == ["ok"]
    assert record.of("state") == {"s": fingerprints.of_file(str(bench.folder / "s"))}
    assert not record.of("written")
    assert record.dependencies.tainted is None


async def test_a_log_that_is_only_appended_to_is_written(bench: Any, run: Any) -> None:
    bench.write("log", "a")
    bench.agent("def answer(prompt):\n    open('log', 'a').write('b')\n    return 'ok'")

    record = await run()

    assert record.of("written").keys() == {"log"} and not record.of("state")


async def test_a_file_that_could_not_be_written_and_was_read_then_is_read(bench: Any, run: Any) -> None:
    bench.write("lock", "a")
    bench.agent(
        "def answer(prompt):\n    try: open('lock', 'x')\n    except FileExistsError: return open('lock').read()"
    )

    record = await run()

    assert record.responses == ["a"]
    assert record.of("file").keys() == {"lock"} and not record.of("state") and not record.of("written")


async def test_what_changed_while_it_was_read_twice_taints_the_record(bench: Any, run: Any) -> None:
    bench.write("data", "one")
    bench.write("touch.py", "")
    bench.agent("def answer(prompt): return open('data').read()")
    session = await bench.open(bench.host(mode="fork"))
    from workbench.model.evalset import Content

    await session.turn(Content.of_text("hi", role="user"), turn=0)
    bench.write("data", "two")
    await session.turn(Content.of_text("hi", role="user"), turn=1)
    await session.finish()

    assert session.dependencies.tainted == f"{bench.folder / 'data'} was read twice, and had changed in between"


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
    secret = fingerprints.secret_of(str(bench.folder))
    expected = {"WB_GET": "value", "WB_ITEM": "value", "WB_IN": "value", "WB_LOOP": "value", "WB_FILE": "from file"}
    absent = dict.fromkeys(("WB_NONE", "WB_BYTES", "WB_MISSING", "WB_AMID"), "absent")
    hashed = {name: fingerprints.of_variable(secret, value) for name, value in expected.items()}
    assert record.of("variable") == {**hashed, **absent}
    in_effect = {"WB_FILE": "from file", "WB_UNREAD": "x", "WB_SET": "y"}  # whatever the agent does to them
    assert record.of("variables") == {".env": fingerprints.of_variables(secret, in_effect)}
    assert record.of("env_files") == {".env": "-"}


async def test_values_of_variables_are_not_told(bench: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
    bench.agent("import reader\ndef answer(prompt): return reader.KEY")
    host = bench.host(mode="fork")
    host.prepare(cases=3)

    records = [await run(host=host) for _ in range(3)]

    secret = fingerprints.secret_of(str(bench.folder))
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
    "ctypes.CDLL(None)": None,
    "platform.processor(), uuid.getnode()": None,
}


@pytest.mark.parametrize("code", OPAQUE)
async def test_what_nobody_sees_into_is_opaque(bench: Any, run: Any, code: str) -> None:
    bench.agent(
        "import ctypes, multiprocessing, os, platform, subprocess, uuid\n"
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
    assert {f"{name}.py", "agent.py"} == record.of("module").keys()
