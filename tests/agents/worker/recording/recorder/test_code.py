"""Records of the code that a case ran: functions, modules, and the lookups of imports."""

from __future__ import annotations

import py_compile
from typing import Any

import pytest

from workbench.agents.worker.recording import fingerprints

pytestmark = pytest.mark.needs_fork


async def test_functions_behind_wrappers_threads_and_tasks_are_recorded(bench: Any, run: Any) -> None:
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
    names = {key.partition("::")[2] for key in record.rows("block")}
    assert names == {
        *("answer", "cached", "in_thread", "in_pool", "in_loop", "task", "stream", "generator"),
        *("Tool.size", "Tool.make", "Tool.help", "Tool.__call__", "Tool.__call__.<locals>.inner"),
        *("wrapped", "wrapped.<locals>.wrapper", "decorated"),
    }


async def test_only_the_branches_that_ran_are_recorded(bench: Any, run: Any) -> None:
    bench.agent(
        """
        X, Y, Z = 1, 2, 3
        LIMIT = 4
        OTHER = 5

        def check(n):
            if n == 1:
                return LIMIT
            elif n == 2:
                raise ValueError(OTHER)
            return sorted([n, 0])

        def answer(prompt):
            found = []
            for word in prompt.split():
                try:
                    found.append(check(int(word)))
                except ValueError:
                    found.append("no")
            match len(found):
                case 1: return str(found)
                case 2:
                    if found[0] == found[1]: return "same"
                    return str(found)
            return "many"
        """
    )

    async def find_branches(prompt: str, expected: str) -> tuple[set[str], set[str]]:
        record = await run(prompt)
        assert record.responses == [expected]
        return {key.partition("::")[2] for key in record.rows("branch")}, {
            key.partition("::")[2] for key in record.rows("name")
        }

    branches, names = await find_branches("1", "[4]")
    assert branches == {"check.<branch 1>", "answer.<branch 0>"}
    assert "LIMIT" in names and "OTHER" not in names
    branches, names = await find_branches("2", "['no']")
    assert branches == {"check.<branch 2>", "answer.<branch 0>"}
    assert "OTHER" in names and "LIMIT" not in names
    assert (await find_branches("3 4", "[[0, 3], [0, 4]]"))[0] == {
        *("check.<branch 0>", "answer.<branch 1>", "answer.<branch 1>.<branch 0>"),
    }
    assert (await find_branches("3 3 3", "many"))[0] == {"check.<branch 0>"}


async def test_a_docstring_belongs_to_the_name_of_its_function(bench: Any, run: Any) -> None:
    text = "def tool():\n    'Says {}.'\n    return 1\ndef answer(prompt): return tool.__doc__"
    bench.agent(text.format("this"))
    before = await run()
    bench.agent(text.format("that"))
    after = await run()

    assert (before.responses, after.responses) == (["Says this."], ["Says that."])
    assert before.rows("rest") == after.rows("rest") and before.rows("block") == after.rows("block")
    assert before.rows("name").keys() == after.rows("name").keys() == {"agent.py::answer", "agent.py::tool"}
    assert before.rows("name")["agent.py::tool"] != after.rows("name")["agent.py::tool"]


async def test_imports_of_every_kind_are_recorded(bench: Any, run: Any) -> None:
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
    assert record.rows("rest").keys() == {"agent.py", *files}
    assert {f"{file}::f" for file in files} < record.rows("block").keys()
    found = record.lookups()
    assert {name: found[name] for name in ("lazy", "dynamic", "pack", "optional", "sought")} == {
        "lazy": "module", "dynamic": "module", "pack": "package", "optional": "absent", "sought": "absent",
    }  # fmt: skip
    assert record.lookups("pack") == {"inner": "module", "none": "absent"}


async def test_a_new_package_that_shadows_a_module_is_noticed(bench: Any, run: Any) -> None:
    bench.write("x.py", "")
    bench.agent("import x\ndef answer(prompt): return prompt")

    record = await run()
    bench.write("x/__init__.py", "")

    (key,) = (key for key in record.rows("import") if "x" in key.partition("::")[2].split(","))
    names = key.partition("::")[2].split(",")
    assert fingerprints.of_import(str(bench.folder), names) != record.rows("import")[key]


async def test_a_file_that_would_shadow_an_early_imported_library_is_noticed(bench: Any, run: Any) -> None:
    bench.agent("import json, decimal\ndef answer(prompt): return prompt")
    host = bench.host(mode="fork")
    host.prepare(cases=3)

    records = [await run(host=host) for _ in range(3)]

    for record in records:
        found = record.lookups()
        assert (found["json"], found["decimal"]) == ("absent", "absent")
        assert "sys" not in found and "_workbench_worker" not in found


async def test_source_that_is_read_as_text_counts_as_a_file(bench: Any, run: Any) -> None:
    bench.agent("import inspect\ndef tool(): return 1\ndef answer(prompt): return inspect.getsource(tool)")

    record = await run()

    assert record.responses == ["def tool(): return 1\n"]
    assert record.rows("file").keys() == {"agent.py"}


async def test_source_counts_as_a_file_only_if_it_is_read_as_text(bench: Any, run: Any) -> None:
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

    assert not record.rows("file")


async def test_a_module_with_a_syntax_error_fails_the_case_and_counts_as_a_file(
    bench: Any, run: Any, way: dict[str, Any]
) -> None:
    broken = bench.write("broken.py", "def f(:\n")
    bench.agent("import broken\ndef answer(prompt): return prompt")

    record = await run(**way)

    assert record.error is not None and "SyntaxError" in record.error.failure.message
    assert record.dependencies.complete
    assert record.rows("file") == {"broken.py": fingerprints.of_file(str(broken))}
    assert record.rows("rest").keys() == {"agent.py"}
    assert record.lookups()["broken"] == "module"


async def test_a_missing_module_fails_the_case_and_its_lookup_is_recorded(bench: Any, run: Any) -> None:
    bench.agent("import not_there\ndef answer(prompt): return prompt")

    record = await run()

    assert record.error is not None and record.dependencies.complete
    assert record.lookups()["not_there"] == "absent"
    assert not record.rows("folder") and not record.rows("file")


@pytest.mark.parametrize("way_out", ["raise ValueError('no')", "import sys; sys.exit(3)"])
async def test_an_agent_that_raises_depends_on_executed_code_but_not_on_source_text(
    bench: Any, run: Any, way: dict[str, Any], way_out: str
) -> None:
    bench.agent(f"def fail():\n    {way_out}\ndef answer(prompt):\n    fail()\n")

    record = await run(**way)

    assert record.error is not None and record.dependencies.complete
    assert "fail()" in (record.error.failure.traceback or "")
    assert record.rows("block").keys() == {"agent.py::answer", "agent.py::fail"}
    assert not record.rows("file")


async def test_the_record_of_a_killed_process_is_incomplete(bench: Any, run: Any) -> None:
    bench.agent("import os\ndef answer(prompt): os._exit(3)")

    record = await run()

    assert record.error is not None and not record.dependencies.complete
    assert "agent.py" in record.rows("rest")


async def test_modules_in_any_encoding_run_and_are_split_into_blocks(bench: Any, run: Any) -> None:
    (bench.folder / "latin.py").write_bytes("# coding: latin-1\ndef f(): return 'é'\n".encode("latin-1"))
    (bench.folder / "bom.py").write_bytes("\ufefffrom __future__ import annotations\ndef f(): return 'ü'\n".encode())
    bench.agent("import latin, bom\ndef answer(prompt): return latin.f() + bom.f()")

    record = await run()

    assert record.responses == ["éü"]
    assert {"latin.py::f", "bom.py::f"} < record.rows("block").keys()


async def test_tracebacks_show_the_line_numbers_of_the_source(bench: Any, run: Any) -> None:
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


async def test_code_for_a_compiler_that_reads_bytecode_is_not_instrumented(bench: Any, run: Any) -> None:
    bench.write("numba.py", "def njit(f):\n    assert f.__code__.co_names == ()\n    return f\n")
    bench.agent("import numba\n@numba.njit\ndef fast(x): return x\ndef answer(prompt): return fast(prompt)")

    record = await run()

    assert record.responses == ["hi"]
    assert record.rows("file").keys() == {"agent.py"}


async def test_a_module_that_the_agent_wrote_itself_is_not_a_dependency(bench: Any, run: Any) -> None:
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
    assert "made.py" not in record.rows("rest") and "made.py::f" not in record.rows("block")
    assert "made" not in record.lookups()
    assert record.rows("written") == {"made.py": fingerprints.of_file(str(bench.folder / "made.py"))}


async def test_a_module_without_source_counts_as_a_file(bench: Any, run: Any) -> None:
    source = bench.write("source.txt", "def used(): return 'ok'")
    py_compile.compile(str(source), cfile=str(bench.folder / "helper.pyc"), doraise=True)
    (bench.folder / "package").mkdir()
    py_compile.compile(str(source), cfile=str(bench.folder / "package/__init__.pyc"), doraise=True)
    bench.agent("import helper, package\ndef answer(prompt): return helper.used() + package.used()")

    record = await run()

    assert record.responses == ["okok"], record.error
    assert record.rows("file") == {
        name: fingerprints.of_file(str(bench.folder / name)) for name in ("helper.pyc", "package/__init__.pyc")
    }
    lookups = record.lookups()
    assert (lookups["helper"], lookups["package"]) == ("bytecode", "bytecode package")
    bench.write("helper.py", "")
    bench.write("package/__init__.py", "")
    assert fingerprints.of_import(str(bench.folder), ["helper", "package"]) == "module,package"
