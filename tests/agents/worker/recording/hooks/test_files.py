"""Records of file access: contents, folders, existence, and writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.worker.recording import fingerprints

pytestmark = pytest.mark.needs_fork


ACCESSES = {
    "open('there')": {"file": ["there"]},
    "open('none')": {"file": ["none"]},
    "open('folder/none', 'w') if False else open(b'there')": {"file": ["there"]},
    "__import__('pathlib').Path('there').read_text()": {"file": ["there"]},
    "os.open('there', os.O_RDONLY)": {"file": ["there"]},
    "os.open('b.txt', os.O_RDONLY, dir_fd=os.open('folder', os.O_RDONLY))": {
        "file": ["b.txt", "folder", "folder/b.txt"],
    },
    "open(b'not utf-8 \\xff')": {"file": ["not utf-8 \udcff"]},
    "os.path.getsize('there')": {"file": ["there"]},
    "os.stat('there').st_size": {"file": ["there"]},
    "__import__('pathlib').Path('there').stat()": {"file": ["there"], "time": ["there"], "mode": ["there"]},
    "__import__('pathlib').Path('there').stat().st_size": {"file": ["there"]},
    "__import__('pathlib').Path('there').stat().st_mtime": {"file": ["there"], "time": ["there"]},
    "max(['there'], key=os.path.getmtime)": {"file": ["there"], "time": ["there"]},
    "os.path.getmtime('none')": {"file": ["none"], "time": ["none"]},
    "os.path.getmtime('folder')": {"file": ["folder"], "folder": ["folder"]},
    "os.lstat('there').st_ctime_ns": {"file": ["there"], "time": ["there"], "mode": ["there"]},
    "os.stat('there').st_mode & 0o111": {"file": ["there"], "mode": ["there"]},
    "os.fstat(os.open('there', os.O_RDONLY)).st_mtime": {"file": ["there"], "time": ["there"]},
    "__import__('filecmp').cmp('there', 'folder/b.txt')": {
        "file": ["folder/b.txt", "there"],
        "time": ["folder/b.txt", "there"],
    },
    "__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(os.path.getmtime, 'there').result()": {
        "file": ["there"],
        "time": ["there"],
    },
    "__import__('shutil').copy2('there', 'copy')": {"file": ["there"], "probe": ["there"], "state": ["copy"]},
    "__import__('linecache').getlines('there')": {"file": ["there"]},
    "os.readlink('link')": {"probe": ["link"]},
    "__import__('pathlib').Path('link').readlink()": {"probe": ["link"]},
    "os.listxattr('there')": {"opaque": ["extended attributes of there"]},
    "__import__('_thread').start_new_thread(os.stat, ('there',)), __import__('time').sleep(0.3)": {
        "file": ["there"],
        "time": ["there"],
        "mode": ["there"],
    },
    "os.path.exists('there')": {"probe": ["there"]},
    "os.path.isfile('none')": {"probe": ["none"]},
    "os.path.isdir('folder')": {"probe": ["folder"]},
    "os.path.islink('there')": {"probe": ["there"]},
    "os.path.lexists('none')": {"probe": ["none"]},
    "os.access('there', os.R_OK)": {"probe": ["there"], "mode": ["there"]},
    "os.access('there', os.F_OK)": {"probe": ["there"]},
    "__import__('pathlib').Path('there').exists()": {"probe": ["there"]},
    "__import__('pathlib').Path('none').is_file()": {"probe": ["none"]},
    "__import__('pathlib').Path('folder').is_dir()": {"probe": ["folder"]},
    "os.listdir('folder')": {"folder": ["folder"]},
    "list(os.scandir('folder'))": {"folder": ["folder"]},
    "[entry.stat().st_size for entry in os.scandir('folder') if entry.name == 'b.txt']": {
        "file": ["folder/b.txt"],
        "folder": ["folder"],
    },
    "max(os.scandir('folder'), key=lambda entry: entry.is_file() and entry.stat().st_mtime)": {
        "file": ["folder/b.txt"],
        "folder": ["folder"],
        "time": ["folder/b.txt"],
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


KINDS = ("file", "folder", "probe", "time", "mode", "opaque", "written", "state")


@pytest.mark.parametrize("expression", ACCESSES)
async def test_each_kind_of_file_access_is_recorded(bench: Any, run: Any, expression: str) -> None:
    bench.write("there", "text")
    bench.write("folder/inner/a.txt", "a")
    bench.write("folder/b.txt", "b")
    (bench.folder / "link").symlink_to("there")
    bench.agent(
        f"import os, glob, pathlib, shutil, zipfile\ndef answer(prompt):\n    try: {expression}\n"
        "    except OSError: pass\n    return 'ok'"
    )

    record = await run()

    assert record.responses == ["ok"]
    found = {kind: sorted(record.rows(kind)) for kind in KINDS}
    if "which" in expression:  # searches PATH, which this test does not cover
        found.pop("probe")
    if "glob" in expression or "walk" in expression:  # these also probe whether folders exist
        found["probe"] = [key for key in found["probe"] if not key.startswith("folder")]
    assert {kind: keys for kind, keys in found.items() if keys} == ACCESSES[expression]
    for key in record.rows("folder"):
        assert record.rows("folder")[key] == fingerprints.of_folder(str(bench.folder / key))


async def test_file_times_that_only_libraries_read_do_not_count(bench: Any, run: Any) -> None:
    bench.write("hello.txt", "hi {{ who }}")
    bench.write("own.txt", "")
    bench.agent(
        """
        import jinja2, os
        prompts = jinja2.Environment(loader=jinja2.FileSystemLoader("."))
        def answer(prompt):
            first = os.path.getmtime("own.txt")
            open("own.txt", "a").write("x")
            return prompts.get_template("hello.txt").render(who=prompt)
        """
    )

    record = await run("one", "two")

    assert record.responses == ["hi one", "hi two"]
    assert "hello.txt" in record.rows("file")
    assert not record.rows("time") and not record.rows("mode")
    assert record.rows("state").keys() == {"own.txt"}


async def test_files_outside_the_project_count_if_the_agents_own_code_reads_them(
    bench: Any, run: Any, tmp_path: Path
) -> None:
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
    assert record.rows("file").keys() == {str(tmp_path / "ours"), "prompt.txt"}


async def test_files_of_the_repository_count_whichever_code_reads_them(bench: Any, run: Any, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("prompts/hello.txt", "common/words.py", ".cache/model"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("WORD = 'hi'" if name.endswith(".py") else "{{ word }}")
    bench.agent(
        f"""
        import sys, jinja2
        prompts = jinja2.Environment(loader=jinja2.FileSystemLoader({str(tmp_path)!r}))
        def answer(prompt):
            sys.path.append({str(tmp_path / "common")!r})
            import words
            prompts.get_template(".cache/model")
            return prompts.get_template("prompts/hello.txt").render(word=words.WORD)
        """
    )

    record = await run()

    assert record.responses == ["hi"]
    assert str(tmp_path / "prompts" / "hello.txt") in record.rows("file")
    assert str(tmp_path / ".cache" / "model") not in record.rows("file")
    assert str(tmp_path / "common" / "words.py") in record.rows("rest")
    assert record.lookups(str(tmp_path / "common"))["words"] == "module"


async def test_folders_of_other_tools_are_never_reported(bench: Any, run: Any) -> None:
    for name in (".git/HEAD", ".workbench/x", ".adk/y", "__pycache__/z"):
        bench.write(name, "")
    bench.agent(
        "import os\ndef answer(prompt):\n"
        "    [open(x) for x in ('.git/HEAD', '.workbench/x', '.adk/y', '__pycache__/z')]\n"
        "    os.listdir('.git'); os.path.exists('.adk/none'); return 'ok'"
    )

    record = await run()

    assert record.responses == ["ok"]
    assert not record.rows("file") and not record.rows("folder") and not record.rows("probe")


async def test_a_database_is_a_file_and_becomes_state_if_it_is_written(bench: Any, run: Any) -> None:
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
    files = record.rows("file")
    assert files.keys() == {"read.db", "by uri.db", "read.db-wal", "by uri.db-wal", "written.db-wal"}
    assert files["read.db-wal"] == "absent"
    assert record.rows("file")["read.db"] == before
    assert record.rows("state") == {"written.db": fingerprints.of_file(str(bench.folder / "written.db"))}
    assert record.dependencies.tainted is None


# What agents write


async def test_a_temporary_file_makes_no_dependency_on_its_folder(bench: Any, run: Any) -> None:
    bench.write("made/x.txt", "x")
    bench.agent(
        """
        import tempfile
        def answer(prompt):
            with tempfile.NamedTemporaryFile(dir="made") as named, tempfile.TemporaryFile(dir="made") as nameless:
                named.write(b"a"), nameless.write(b"b")
            return "done"
        """
    )

    record = await run()

    assert record.responses == ["done"]
    assert [record.rows(kind) for kind in ("file", "mode", "folder")] == [{}, {}, {}]


async def test_written_files_are_reported_but_are_not_dependencies(bench: Any, run: Any) -> None:
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
    assert not record.rows("file")
    assert record.rows("state") == {"made": "folder", "made/inner": "folder"}  # `exist_ok`: they may have existed
    assert {key: value for key, value in record.rows("written").items() if value in ("absent", "folder")} == {
        "old.txt": "absent"
    }
    assert {"new.txt", "made/inner/x", "moved"} < record.rows("written").keys()
    assert "temporary" not in record.rows("written")
    assert record.rows("folder") == {".": before}


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
async def test_a_file_that_a_case_reads_and_writes_is_state(bench: Any, run: Any, code: str) -> None:
    bench.write("s", "a")
    bench.agent(f"import os\ndef answer(prompt):\n    {code}\n    return 'ok'")

    record = await run()

    assert record.responses == ["ok"]
    assert record.rows("state") == {"s": fingerprints.of_file(str(bench.folder / "s"))}
    assert not record.rows("written")
    assert record.dependencies.tainted is None


@pytest.mark.parametrize(
    ("code", "state", "others"),
    [
        ("os.makedirs('m', exist_ok=True); os.path.exists('m/x')", {"m"}, {("probe", "m/x", "absent")}),
        ("os.mkdir('m'); os.path.exists('m/x') or open('m/x', 'w').write('b')", {"m", "m/x"}, set()),
        ("os.mkdir('m'); ctypes.CDLL(None).mkfifo(b'm/x', 0o600); os.path.exists('m/x')", {"m", "m/x"}, set()),
        (
            "os.mkdir('m'); os.listdir('m'); open('m/x', 'w').write('b')",
            {"m"},
            {("folder", "m", fingerprints.of_names([]))},
        ),
        ("os.mkdir('m'); os.listdir('m'); os.rmdir('m')", set(), {("probe", "m", "absent")}),
        ("open('x', 'x').write('b')", {"x"}, set()),
        ("open('x', 'a').write('b'); open('x').read()", {"x"}, set()),
        ("os.symlink('data', 'x')", {"x"}, set()),
    ],
)
async def test_a_created_file_or_folder_counts_as_absent_before(
    bench: Any, run: Any, code: str, state: set[str], others: set[tuple[str, str, str]]
) -> None:
    bench.write("data", "a")
    bench.agent(f"import ctypes, os\ndef answer(prompt):\n    {code}\n    return 'ok'")

    record = await run()

    assert record.responses == ["ok"], record.error
    assert record.rows("state").keys() == state
    found = {(kind, *row) for kind in ("probe", "file", "folder") for row in record.rows(kind).items()}
    assert found == others


@pytest.mark.parametrize(
    ("code", "learnt"),
    [
        ("os.mkdir('data')", ("probe", "data", "file")),
        ("os.mkdir('none/m')", ("probe", "none", "absent")),
        ("open('none/x', 'w')", ("probe", "none", "absent")),
        ("os.rename('none', 'x')", ("file", "none", "absent")),
        ("os.rename('data', 'none/x')", ("probe", "none", "absent")),
        ("os.remove('none')", ("probe", "none", "absent")),
        ("os.rmdir('none')", ("probe", "none", "absent")),
        ("os.symlink('x', 'data')", ("probe", "data", "file")),
        ("os.link('agent.py', 'data')", ("probe", "data", "file")),
        ("os.truncate('none', 0)", ("file", "none", "absent")),
    ],
)
async def test_a_failed_write_hides_no_dependencies(
    bench: Any, run: Any, code: str, learnt: tuple[str, str, str]
) -> None:
    bench.write("data", "a")
    bench.agent(
        f"""
        import os
        def answer(prompt):
            try: {code}
            except OSError: pass
            for name in ("data", "x", "none", "m", "none/x"): os.path.isfile(name) and open(name).read()
            return 'ok'
        """
    )

    record = await run()

    assert record.responses == ["ok"], record.error
    assert not record.rows("state") and not record.rows("written")
    kind, key, value = learnt
    assert record.rows(kind)[key] == value
    assert record.rows("file")["data"] == fingerprints.of_file(str(bench.folder / "data"))
    assert record.rows("probe")["x"] == "absent"


@pytest.mark.needs_permissions
@pytest.mark.parametrize(("name", "code"), [("data", "open('data', 'w')"), ("there", "open('there/x', 'a')")])
async def test_a_forbidden_write_depends_on_the_mode_of_the_path(bench: Any, run: Any, name: str, code: str) -> None:
    bench.write("data", "a").chmod(0o400)
    (bench.write("there/other", "a").parent).chmod(0o500)
    bench.agent(
        f"""
        def answer(prompt):
            try: {code}
            except PermissionError: return 'no'
        """
    )

    record = await run()

    assert record.responses == ["no"], record.error
    assert record.rows("mode") == {name: fingerprints.of_mode(str(bench.folder / name))}
    assert not record.rows("state") and not record.rows("written")


@pytest.mark.parametrize(
    "code",
    ["open('there/x', 'w')", "open('there/x', 'a')", "os.rename('data', 'there/x')", "os.symlink('x', 'there/x')"],
)
async def test_a_write_depends_on_the_existence_of_its_folder(bench: Any, run: Any, code: str) -> None:
    bench.write("data", "a")
    bench.write("there/other", "a")
    bench.agent(f"import os\ndef answer(prompt):\n    {code}\n    return 'ok'")

    record = await run()

    assert record.responses == ["ok"], record.error
    assert record.rows("probe")["there"] == "folder"


async def test_a_file_that_is_only_appended_to_counts_as_written(bench: Any, run: Any) -> None:
    bench.write("log", "a")
    bench.agent("def answer(prompt):\n    open('log', 'a').write('b')\n    return 'ok'")

    record = await run()

    assert record.rows("written").keys() == {"log"} and not record.rows("state")


async def test_a_file_read_after_a_failed_write_counts_as_read(bench: Any, run: Any) -> None:
    bench.write("lock", "a")
    bench.agent(
        "def answer(prompt):\n    try: open('lock', 'x')\n    except FileExistsError: return open('lock').read()"
    )

    record = await run()

    assert record.responses == ["a"]
    assert record.rows("file").keys() == {"lock"} and not record.rows("state") and not record.rows("written")


async def test_a_file_that_changes_between_two_reads_taints_the_record(bench: Any, run: Any) -> None:
    bench.write("data", "one")
    bench.write("touch.py", "")
    bench.agent("def answer(prompt): return open('data').read()")
    session = await bench.open(bench.host(mode="fork"))
    from workbench.model.evalset import Content

    await session.turn(Content.of_text("hi", role="user"), turn=0)
    bench.write("data", "two")
    await session.turn(Content.of_text("hi", role="user"), turn=1)
    await session.finish()

    assert session.dependencies.tainted == f"{bench.folder / 'data'} changed between two reads"
