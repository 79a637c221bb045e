"""The names of its modules that a case uses: mentions in its code, and access from other modules."""

from __future__ import annotations

from typing import Any

import pytest

TOOLS = """
    LIMIT = 1
    OTHER = 2

    def refund(n: int = 3):
        'Gives money back.'
        return n + LIMIT

    def unused():
        return OTHER

    def same(function):
        return function

    class Order:
        size = 1
        def price(self):
            return self.size * RATE

    RATE = 5
"""
"""A module; each test uses some of its names."""


async def find_used_names(bench: Any, run: Any, code: str, *, tools: str = TOOLS) -> set[str]:
    """Return the names of `tools.py` that a case uses with this code as its agent."""
    bench.write("tools.py", tools)
    bench.agent(code)
    record = await run()
    assert record.error is None, record.error
    names = {key.partition("::")[2] for key in record.rows("name") if key.startswith("tools.py::")}
    all_names = {"*"} if "tools.py" in record.rows("module") else set()
    assert "tools.py" in record.rows("rest")
    return names | all_names


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import tools\ndef answer(p): return str(tools.OTHER)", {"OTHER"}),
        ("from tools import OTHER as o\ndef answer(p): return str(o)", {"OTHER"}),
        ("def answer(p):\n    import tools\n    return str(getattr(tools, 'OT' + 'HER'))", {"OTHER"}),
        ("import tools\ndef answer(p): return str(hasattr(tools, 'missing'))", {"missing"}),
        ("from tools import refund\ndef answer(p): return str(refund())", {"refund()", "LIMIT"}),
        ("from tools import refund\ndef answer(p): return refund.__doc__", {"refund"}),
        ("import tools\ndef answer(p): return str(tools.__doc__)", {"__doc__"}),
        ("import tools\ndef answer(p): return str(tools.refund(1))", {"refund()", "LIMIT"}),
        ("import tools\ndef answer(p): return str(tools.refund(1)) + tools.refund.__doc__", {"refund", "LIMIT"}),
        (
            "import tools\ndef answer(p): return str((tools.refund(1), getattr(tools, 're' 'fund')))",
            {"refund", "LIMIT"},
        ),
        ("import tools\ndef answer(p): return str(eval('tools.refund')())", {"refund", "LIMIT"}),
        ("import tools\n@tools.same\ndef five(): ...\ndef answer(p): return 'ok'", {"same"}),
        ("import tools\nfor _ in range(2000): tools.refund()\ndef answer(p): return 'ok'", {"refund", "LIMIT"}),
        ("from tools import Order\ndef answer(p): return str(Order().size)", {"Order"}),
        ("from tools import Order\ndef answer(p): return str(Order().price())", {"Order", "RATE"}),
        ("import tools\ndef answer(p): return str(sorted(vars(tools)))", {"*"}),
        ("import tools\ndef answer(p): return str(dir(tools))", {"*"}),
        ("import tools\nlook = vars\ndef answer(p): return str(look(tools))", {"*"}),
        ("import tools, inspect\ndef answer(p): return str(len(inspect.getmembers(tools)))", {"*"}),
        ("import tools\ndef answer(p): return str(tools.refund.__globals__.keys())", {"*"}),
        ("import importlib\ndef answer(p): return str(importlib.import_module('tools').RATE)", {"RATE"}),
        ("import sys, tools\ndef answer(p): return str(sys.modules['tools'].RATE)", {"RATE"}),
        ("import tools\ndef answer(p): return 'ok'", set()),
    ],
)
async def test_names_that_other_modules_access_are_recorded(
    bench: Any, run: Any, code: str, expected: set[str]
) -> None:
    found = await find_used_names(bench, run, code)

    assert expected <= found
    assert not found & ({"unused", "OTHER", "LIMIT", "RATE"} - expected) or "*" in expected or "LIMIT" in expected


REEXPORTS = "from tools import OTHER, refund, same as alike\n"


def add_existence_forms(names: set[str]) -> set[str]:
    """Add the existence form of each name, which may be recorded before the name is used."""
    return names | {f"{name.removesuffix('()').removesuffix('?')}?" for name in names}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {"OTHER?", "refund?", "same?"}),
        ("def unused(): return OTHER", {"OTHER?", "refund?", "same?"}),
        ("def used(): return alike(OTHER)\nused()", {"OTHER", "refund?", "same()"}),
        ("X = [refund].pop()", {"OTHER?", "refund", "same?"}),
        ("def unused(n=OTHER): ...", {"OTHER?", "refund?", "same?"}),
        ("def used(n=OTHER): ...\nused()", {"OTHER", "refund?", "same?"}),
        ("def unused(n: OTHER): ...", {"OTHER", "refund?", "same?"}),
        ("class Unused(refund and object): ...", {"OTHER?", "refund", "same?"}),
        ("vars()", {"OTHER", "refund", "same"}),
        ("try:\n    from tools import OTHER\nexcept ImportError: ...", {"OTHER", "refund?", "same?"}),
    ],
)
async def test_an_unused_import_depends_only_on_the_existence_of_its_names(
    bench: Any, run: Any, more: str, expected: set[str]
) -> None:
    bench.write("handing_on.py", REEXPORTS + more)

    assert (
        expected
        <= await find_used_names(bench, run, "import handing_on\ndef answer(p): return 'ok'")
        <= add_existence_forms(expected)
    )


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("from handing_on import OTHER\ndef answer(p): return 'ok'", {"OTHER?", "refund?", "same?"}),
        ("from handing_on import OTHER\ndef answer(p): return str(OTHER)", {"OTHER", "refund?", "same?"}),
        ("import handing_on\ndef answer(p): return str(handing_on.OTHER)", {"OTHER", "refund?", "same?"}),
        ("import handing_on\ndef answer(p): return str(vars(handing_on))", {"OTHER", "refund", "same"}),
        ("from handing_on import *\ndef answer(p): return 'ok'", {"OTHER", "refund", "same"}),
    ],
)
async def test_a_reexported_name_counts_only_where_a_module_uses_it(
    bench: Any, run: Any, use: str, expected: set[str]
) -> None:
    bench.write("handing_on.py", REEXPORTS)

    assert expected <= await find_used_names(bench, run, use) <= add_existence_forms(expected)


async def test_reading_all_names_through_a_function_depends_on_all_names(bench: Any, run: Any) -> None:
    code = "from helper import names\nimport tools\ndef answer(p): return str(names(tools.refund))"
    bench.write("helper.py", "def names(function): return sorted(function.__globals__)")

    assert "*" in await find_used_names(
        bench, run, code, tools=TOOLS + "\n    def every(): return globals()\n    every()\n"
    )


async def test_a_library_that_resolves_types_does_not_use_all_names(bench: Any, run: Any) -> None:
    tools = """
        from __future__ import annotations
        import dataclasses, typing

        SIZE = 1

        class Item:
            pass

        class Other:
            pass

        @dataclasses.dataclass
        class Order:
            item: Item | None = None
    """

    found = await find_used_names(bench, run, "import tools\ndef answer(p): return str(tools.Order())", tools=tools)

    assert found == {"Order", "Item", "dataclasses"}


async def test_looking_at_another_object_uses_no_names_of_the_own_module(bench: Any, run: Any) -> None:
    tools = """
        import sys
        def look(it): return sorted(vars(it)), dir(it)
        def own(): return vars(sys.modules[__name__])
    """

    assert await find_used_names(
        bench, run, "import tools, json\ndef answer(p): return str(tools.look(json))", tools=tools
    ) == {"look()"}
    assert "*" in await find_used_names(bench, run, "import tools\ndef answer(p): return str(tools.own())", tools=tools)


async def test_an_empty_module_is_complete(bench: Any, run: Any) -> None:
    assert "*" not in await find_used_names(bench, run, "import tools\ndef answer(p): return 'ok'", tools="")
    assert "*" not in await find_used_names(bench, run, "import tools\ndef answer(p): return 'ok'", tools="'Doc.'\n")


async def test_a_module_whose_import_fails_counts_as_a_whole_if_its_names_were_requested(bench: Any, run: Any) -> None:
    code = """
        try:
            import tools
        except ValueError:
            tools = None
        def answer(p):
            return str(tools)
    """
    bench.write("other.py", "import tools\nSEEN = getattr(tools, 'X', 'too early')")

    assert await find_used_names(bench, run, code, tools="X = '1'\nint('no')\nY = 2\n") == set()
    assert await find_used_names(bench, run, code, tools="X = 'no'\nint(X)\nY = 2\n") == {"X"}
    assert "*" in await find_used_names(bench, run, code, tools="import other\nX = 'no'\nint('no')\nY = 2\n")


async def test_access_during_a_circular_import_depends_on_the_whole_module(bench: Any, run: Any) -> None:
    bench.write("other.py", "import tools\nSEEN = getattr(tools, 'X', 'too early')")
    code = "import tools\ndef answer(p): return tools.other.SEEN"

    assert "*" in await find_used_names(bench, run, code, tools="import other\nX = 1\n")


async def test_a_reloaded_or_directly_run_module_counts_as_a_whole(bench: Any, run: Any) -> None:
    code = "import runpy\ndef answer(p): return str(runpy.run_path('tools.py')['X'])"
    found = await find_used_names(
        bench, run, "import tools, importlib\nimportlib.reload(tools)\ndef answer(p): return 'ok'"
    )
    assert "*" in found

    bench.write("tools.py", "X = 1\n")
    bench.agent(code)
    record = await run()
    assert record.responses == ["1"]
    assert "tools.py" in {**record.rows("module"), **record.rows("file")}


async def test_a_module_with_a_replaced_class_counts_as_a_whole(bench: Any, run: Any) -> None:
    tools = "import sys, types\nX = 1\nclass Mine(types.ModuleType): pass\n"
    tools += "setattr(sys.modules[__name__], '__class__', Mine)"

    assert "*" in await find_used_names(bench, run, "import tools\ndef answer(p): return str(tools.X)", tools=tools)


async def test_reloading_a_changed_module_taints_the_record(bench: Any, run: Any) -> None:
    bench.write("tools.py", "X = 1\n")
    bench.agent(
        """
        import importlib, subprocess, sys, tools
        def answer(p):
            before = tools.X
            subprocess.run([sys.executable, "-c", "open('tools.py', 'w').write('X = 22')"], check=True)
            importlib.reload(tools)
            return str([before, tools.X])
        """
    )

    record = await run()

    assert record.responses == ["[1, 22]"]
    assert record.dependencies.tainted is not None and "tools.py" in record.dependencies.tainted


async def test_recorded_modules_behave_like_plain_modules(bench: Any, run: Any) -> None:
    bench.write("tools.py", "X = 1\ndef __getattr__(name): return name\n")
    bench.agent(
        """
        import copy, inspect, types, tools
        def answer(p):
            tools.y = 2
            del tools.y
            return str([type(tools).__name__, inspect.ismodule(tools), isinstance(tools, types.ModuleType),
                        repr(tools).startswith("<module 'tools' from"), tools.anything, tools.X])
        """
    )

    record = await run()

    assert record.error is None
    assert record.responses == ["['module', True, True, True, 'anything', 1]"]


async def test_a_file_that_shadows_a_standard_module_makes_each_import_count(bench: Any, run: Any) -> None:
    bench.agent("import sys, tools\nsys.path.insert(0, 'more')\nimport other\ndef answer(p): return 'ok'")
    bench.write("tools.py", "import json\n")
    bench.write("more/other.py", "")

    before = await run()
    assert "tools.py" not in before.rows("module")
    assert (before.lookups()["csv"], before.lookups("more")["csv"]) == ("absent", "absent")

    bench.write("more/csv.py", "print('something else')")
    after = await run()
    assert after.lookups("more")["csv"] == "module"
    assert "tools.py" in after.rows("module")
