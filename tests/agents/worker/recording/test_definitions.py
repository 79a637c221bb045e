"""Definitions that are separate from the rest of a module: a change of one changes no other."""

from __future__ import annotations

import ast
import importlib
import textwrap

import pytest

from workbench.agents.worker.recording import definitions
from workbench.agents.worker.recording.blocks import EVERYTHING, EVERYWHERE, Blocks, read_blocks
from workbench.agents.worker.recording.definitions import count_bound_names, find_defined_names

HEAD = "import os\nfrom typing import Any, Optional\nfrom shop import Item, send\n"


def parse_blocks(text: str) -> Blocks:
    return read_blocks(textwrap.dedent(text).encode(), "module.py")


def find_definitions(text: str) -> set[str]:
    tree = ast.parse(textwrap.dedent(text))
    return {name for names in find_defined_names(tree, count_bound_names(tree)).values() for name in names}


@pytest.mark.parametrize(
    "text",
    [
        "X = 1",
        "X = -1.5 * (2 + 3)",
        "X: int = 1",
        "X = ['a', ('b', None), {'c': 1}, {1, 2}]",
        "X = [send, Item]",
        "X = str",
        "X = lambda a, b=1: anything(a)",
        "X = {'a': lambda: anything()}",
        "A = 2\nX = A * 60 > 100",
        "A = 'a'\nX = f'{A} b'.strip() + A",
        "import textwrap\nX = textwrap.dedent('a')",
        "X = frozenset(('a', 'b'))",
        "X = set()",
        "from functools import partial\ndef f(a): ...\nX = partial(f, a=1)",
        "import functools\n@functools.lru_cache(maxsize=None)\ndef X(): ...",
        "from functools import cache as kept\n@kept\ndef X(): ...",
        "import contextlib as c\n@c.contextmanager\ndef X(): yield",
        "import functools\nclass X:\n    @staticmethod\n    @functools.cache\n    def y(): ...",
        "X = 1\ndef X(): ...",
        "import json as X\nfrom json import loads as X",
        "@(lambda function: function)\ndef X(): ...",
        "@(lambda function: lambda *given: function(*given))\nasync def X(): ...",
        "def logged(f):\n    'Logs.'\n    def call(*a): return f(*a)\n    return call\n@logged\ndef X(): ...",
        "def logged(f): return f\nclass X:\n    @staticmethod\n    @logged\n    def y(): ...",
        "import functools\ndef logged(f, level=1):\n    @functools.wraps(f)\n    def call(): ...\n    return call\n"
        "@logged\n@functools.cache\ndef X(): ...",
        "from abc import ABC, abstractmethod\nclass X(ABC):\n    @abstractmethod\n    def y(self): ...",
        "from enum import Enum\nclass X(Enum):\n    A = 1\n    B = 'b'\n    def c(self): ...",
        "from dataclasses import dataclass\n@dataclass\nclass X:\n    a: int\n    b: str = 'c'",
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass X:\n"
        "    a: list = dataclasses.field(default_factory=list)",
        "def X(a, b=1, *c, d=(), **e): anything()",
        "def X(a: int, b: 'Later' = None) -> dict[str, int] | None: ...",
        "def X(a: Optional[Item]) -> Any: ...",
        "async def X(): yield",
        "class X: pass",
        "class X(ValueError):\n    kind: str = 'a'\n    def __init__(self): f()\n    @property\n    def y(self): ...",
    ],
)
def test_a_statement_that_only_defines_a_name_is_a_definition(text: str) -> None:
    assert "X" in find_definitions(HEAD + text)


@pytest.mark.parametrize(
    "text",
    [
        "X = f()",
        "X = os.environ",
        "X = 1 / 0",
        "X = {[]: 1}",
        "X = f'{1}'",
        "X = later\nlater = 1",
        "X = unknown",
        "X = Y = 1",
        "X, Y = 1, 2",
        "X = 1\ndel X",
        "X = 1\nX = send()",
        "X = 1\nX += 1",
        "import json, X",
        "import json as X\nX = send()",
        "X = 1\nX = 2\nY = X\nX = Y",
        "if os.name:\n    X = 1\nX = 2",
        "for X in []: pass\nX = 1",
        "import X\ndef X(): ...",
        "@send\ndef X(): ...",
        "def X(a=send()): ...",
        "def X(a: list[unknown]): ...",
        "def X(a: 'A' | None): ...",
        "def X(a: os.name): ...",
        "def X(a: Optional[1]): ...",
        "class X(Item): ...",
        "class X(metaclass=Item): ...",
        "class X:\n    y = send()",
        "class X:\n    @send\n    def y(self): ...",
        "class X:\n    y = 1\n    z = y",
        "class X:\n    __slots__ = ('y',)\n    y = 1",
        "class X:\n    def __init_subclass__(cls): ...",
        "class X:\n    y = 1\n    y = 2",
        "class X(str): ...",
        "str = 1\nclass X:\n    def y(self, z: str): ...",
        "from shop import *\nX = 1",
        "__all__ = ['X']",
        "def __getattr__(name): ...",
        "X = lambda a=send(): a",
        "X = 1 < 'a'",
        "X = f'{send}'",
        "A = 'a'\nX = f'{A:d}'",
        "X = 'a'.encode('no')",
        "X = 'a' + 1",
        "X = frozenset(([],))",
        "from functools import partial\nX = partial(send)",
        "def partial(f): ...\nX = partial(send)",
        "import functools\n@functools.lru_cache('a')\ndef X(): ...",
        "import functools\n@functools.lru_cache(maxsize='a')\ndef X(): ...",
        "import functools\n@functools.wraps(send)\ndef X(): ...",
        "@(lambda function: send(function))\ndef X(): ...",
        "@(lambda function, more: function)\ndef X(): ...",
        "@(lambda: send)\ndef X(): ...",
        "@(lambda *, function: function)\ndef X(): ...",
        "@(lambda function, more=send(): function)\ndef X(): ...",
        "@(lambda function: lambda a=send(): a)\ndef X(): ...",
        "def logged(f):\n    print(f)\n    return f\n@logged\ndef X(): ...",
        "def logged(f):\n    return send\n@logged\ndef X(): ...",
        "def logged(f):\n    def call(a=send()): ...\n    return call\n@logged\ndef X(): ...",
        "def logged(f):\n    @send\n    def call(): ...\n    return call\n@logged\ndef X(): ...",
        "def logged(f):\n    def call(): ...\n@logged\ndef X(): ...",
        "def logged(str):\n    def call(a: str | None): ...\n    return call\n@logged\ndef X(): ...",
        "async def logged(f): return f\n@logged\ndef X(): ...",
        "@send\ndef logged(f): return f\n@logged\ndef X(): ...",
        "def logged(f): return f\nlogged = 1\n@logged\ndef X(): ...",
        "@logged\ndef X(): ...\ndef logged(f): return f",
        "def logged(f): return f\ndef g():\n    global logged\n    logged = send\ng()\n@logged\ndef X(): ...",
        "import functools\n@functools.cache\n@functools.cached_property\ndef X(): ...",
        "from shop import cache\n@cache\ndef X(): ...",
        "from .functools import cache\n@cache\ndef X(): ...",
        "if os.name:\n    import functools\n@functools.cache\ndef X(): ...",
        "from abc import ABC, abstractmethod\nclass X(ABC):\n    @abstractmethod\n    @property\n    def y(self): ...",
        "class A: ...\nclass X(A): ...",
        "from enum import Enum\nclass A(Enum):\n    B = 1\nclass X(A): ...",
        "from enum import Enum\nclass X(Enum):\n    A = 1\n    def __init__(self, a): ...",
        "from enum import Enum\nclass X(Enum):\n    _a_ = 1",
        "from dataclasses import dataclass\n@dataclass\nclass X:\n    a: int = 1\n    b: int",
        "from dataclasses import dataclass\n@dataclass\nclass X:\n    a: list = []",
        "from dataclasses import dataclass\n@dataclass(order=send)\nclass X:\n    a: int",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int = 1\n@dataclass\nclass X(A):\n    b: int",
        "from json import nothing as X",
        "from .json import loads as X",
        "import unknown as X",
    ],
)
def test_a_statement_that_may_have_other_effects_is_not_a_definition(text: str) -> None:
    assert "X" not in find_definitions(HEAD + text) and not any(
        name.startswith("__") for name in find_definitions(HEAD + text)
    )


@pytest.mark.parametrize("module", sorted({*definitions.TOP_LEVEL, *definitions.NAMES}))
def test_the_listed_names_of_the_standard_library_exist(module: str) -> None:
    assert definitions.NAMES.get(module, frozenset()) <= set(dir(importlib.import_module(module)))
    assert module.partition(".")[0] in definitions.TOP_LEVEL


def test_each_import_from_the_standard_library_is_a_definition() -> None:
    one, two = parse_blocks("import json, re as r\nsend()\n"), parse_blocks("import json, re as r, csv\nsend()\n")

    assert two.definitions.keys() == {"json", "r", "csv"}
    assert one.rest.fingerprint == two.rest.fingerprint
    assert {name: one.name(name) for name in ("json", "r")} == {name: two.name(name) for name in ("json", "r")}
    late_import = parse_blocks("import r\nsend()\nimport json")
    assert late_import.name("json") != one.name("json")  # `send` would not find it


def test_annotations_stored_as_text_cannot_fail() -> None:
    text = "def X(a: list[unknown]): ..."

    assert find_definitions(f"from __future__ import annotations\n{text}") == {"X", "X()"}
    assert find_definitions(f"from __future__ import annotations\n{text.replace('unknown', '(y := 1)')}") == set()


BEFORE = """
    'Doc.'
    import os

    LIMIT = 1

    def helper(n: int = LIMIT):
        'Helps.'
        return n

    def unused():
        return 1

    def refund(n: 'Order'):
        return helper(n)

    class Order:
        size = 1

    agent = make(tools=[refund])
"""


def find_changed_definitions(old: str, new: str) -> set[str]:
    """Return the definitions that differ, and `rest` if the other code differs."""
    assert old in BEFORE
    one, two = parse_blocks(BEFORE), parse_blocks(BEFORE.replace(old, new, 1))
    names = {name for name in {*one.definitions, *two.definitions} if one.name(name) != two.name(name)}
    return names | ({"rest"} if one.rest.fingerprint != two.rest.fingerprint else set())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("LIMIT = 1", "LIMIT = 2", {"LIMIT"}),
        ("'Doc.'", "'Another.'", {"__doc__"}),
        ("'Helps.'", "'Helps more.'", {"helper"}),
        ("n: int", "n: float", {"helper"}),
        ("n: int = LIMIT", "n: int = 5", {"helper", "helper()"}),
        ("helper(n: int = LIMIT)", "helper(m: int = LIMIT)", {"helper", "helper()"}),
        ("        return n\n", "        yield n\n", {"helper", "helper()"}),
        ("size = 1", "size = 2", {"Order"}),
        ("def unused", "def other", {"unused", "unused()", "other", "other()"}),
        ("    def unused():\n        return 1\n", "", {"unused", "unused()"}),
        ("    agent =", "    def new(): ...\n    agent =", {"new", "new()"}),
        ("    agent =", "    def len(n): ...\n    agent =", {"rest", "len", "len()"}),
        ("import os", "import os, sys", {"sys"}),
        ("import os", "import os, shop", {"rest", "os"}),
        ("tools=[refund]", "tools=[]", {"rest"}),
        ("return n", "return n + 1", set()),
    ],
)
def test_an_edit_changes_only_the_definitions_that_contain_it(old: str, new: str, expected: set[str]) -> None:
    assert find_changed_definitions(old, new) == expected


def test_the_order_of_definitions_counts_only_relative_to_executed_statements() -> None:
    unused = "    def unused():\n        return 1\n\n"
    assert unused in BEFORE
    remaining_text = BEFORE.replace(unused, "")

    moved_up = remaining_text.replace("    LIMIT = 1\n", f"{unused}    LIMIT = 1\n")
    moved_behind = f"{remaining_text}\n{unused}"

    fingerprints = {name: part.fingerprint for name, part in parse_blocks(BEFORE).definitions.items()}
    assert {name: part.fingerprint for name, part in parse_blocks(moved_up).definitions.items()} == fingerprints
    assert parse_blocks(moved_behind).name("unused") != fingerprints["unused"]
    assert parse_blocks(moved_up).module != parse_blocks(BEFORE).module


def test_a_name_that_is_defined_twice_depends_on_both_definitions() -> None:
    once, twice = parse_blocks("def f(): ...\nsend()"), parse_blocks("def f(): ...\nsend()\ndef f(a): ...")

    assert once.rest.fingerprint == twice.rest.fingerprint
    assert once.name("f()") != twice.name("f()") == twice.name("f") != once.name("f")
    assert parse_blocks("def f(): ...\nX = 1").name("f") == parse_blocks("X = 1\ndef f(): ...").name("f")
    assert parse_blocks("f = 1\nf = 2").name("f") != parse_blocks("f = 2\nf = 1").name("f")
    assert parse_blocks("import json\nimport json").name("json") == parse_blocks("import json").name("json")
    assert parse_blocks("A = 1\nB = 2\nf = [A]\nf = [B]").definitions["f"].mentions == {"f", "A", "B"}


def test_a_decorated_function_is_more_than_its_calls_to_a_wrapper() -> None:
    wrapped = parse_blocks("def logged(f): return f\n@logged\ndef g(): 'Doc.'")
    other_text = parse_blocks("def logged(f): return f\n@logged\ndef g(): 'Other.'")

    assert wrapped.name("g()") == wrapped.name("g") != other_text.name("g()")  # the wrapper may read the docstring
    assert wrapped.definitions["g"].mentions == {"logged"}
    cached = [parse_blocks(f"import functools\n@functools.cache\ndef g(): '{text}'") for text in ("Doc.", "Other.")]
    assert cached[0].name("g()") == cached[1].name("g()") and cached[0].name("g") != cached[1].name("g")


def test_mentions_are_found_for_each_definition() -> None:
    found = parse_blocks(BEFORE)

    assert found.rest.mentions == {"agent", "make()", "refund"}
    assert found.definitions["helper"].mentions == {"LIMIT"}
    assert found.definitions["refund"].mentions == {"Order"}  # in a quoted annotation
    assert found.definitions["refund()"].mentions == frozenset()
    assert found.mentions["refund"] == {"helper()"}
    assert found.mentions["helper"] == frozenset()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return X(1)", {"X()"}),
        ("return X(X)", {"X", "X()"}),
        ("return X.y", {"X"}),
        ("global X; X = 1", {"X"}),
        ("return [later() for item in ()]", {"later()"}),
        ("return len(n)", set()),
        ("n = 1; return n", set()),
        ("import y; return y", set()),
        ("return globals()['X']", {EVERYTHING, "X"}),
        ("return eval('X')", {EVERYTHING, "X"}),
        ("return vars()", {EVERYTHING}),
        ("return vars(n), dir(n)", set()),
        ("return vars(*n)", {EVERYTHING}),
        ("return list(map(dir, n))", {EVERYTHING}),
        ("return f.__globals__", {EVERYWHERE, "f"}),
        ("return 'X'", {"X"}),
        ("return 'unknown'", set()),
        ("return n.query('price > @X')", {"X"}),
        ("def g():\n        return n, X\n    return g", set()),
    ],
)
def test_mentions_are_found_in_the_body_of_a_function(body: str, expected: set[str]) -> None:
    found = parse_blocks(f"X = 1\n\ndef f(n):\n    {body}\n")

    assert found.mentions["f"] == expected


def test_nested_functions_have_mentions_of_their_own() -> None:
    found = parse_blocks("X = 1\n\ndef f(n):\n    m = 1\n    def g():\n        return n, m, X\n    return g\n")

    assert found.mentions["f.<locals>.g"] == {"X"}


def test_a_module_with_a_star_import_has_no_separate_definitions() -> None:
    found = parse_blocks("from shop import *\nX = 1\ndef f(): return X\n")

    assert not found.definitions and found.rest.mentions == {EVERYTHING}
    assert parse_blocks("'Doc.'").rest.mentions == parse_blocks("").rest.mentions == frozenset()


@pytest.mark.parametrize(
    ("use", "asked", "are_calls"),
    [
        ("f(1)", set(), True),
        ("", set(), True),
        ("g = f", set(), False),
        ("f.x", set(), False),
        ("f(1)", {"f"}, False),
        ("f(1)", {EVERYTHING}, False),
        ("f(1); globals()", set(), False),
        ("f(1); vars()['f']", set(), False),
    ],
)
def test_an_import_that_is_only_called_is_recognised(use: str, asked: set[str], are_calls: bool) -> None:
    assert parse_blocks(f"from a import f\n{use}\n").uses.are_calls("f", asked=asked) is are_calls


def test_uses_of_an_import_are_found_under_its_alias() -> None:
    uses = parse_blocks("def g():\n    from a import f as h\n    return h(1)\n\nk = f\n").uses

    assert uses.are_calls("f", asked=())
    assert not uses.are_calls("unknown", asked=())
