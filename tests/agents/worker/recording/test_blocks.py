"""Blocks of source: an edit changes only the fingerprint of the block whose behaviour it may change."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workbench.agents.worker.recording import blocks as blocks_module
from workbench.agents.worker.recording.blocks import Blocks, read_blocks


def parse_blocks(text: str) -> Blocks:
    return read_blocks(textwrap.dedent(text).encode(), "module.py")


def find_changed_blocks(before: str, after: str) -> set[str]:
    """Return the names of the blocks that differ; the module itself is `module`."""
    one, two = parse_blocks(before), parse_blocks(after)
    names = {name for name in {*one.bodies, *two.bodies} if one.bodies.get(name) != two.bodies.get(name)}
    return names | ({"module"} if one.module != two.module else set())


FUNCTION = """
    import os

    LIMIT = 3

    def outer(a: int = 1) -> str:
        'What it does.'
        x = a + 1
        def inner(b):
            return b * 2
        return inner(x)

    class Thing:
        size = 1

        def method(self):
            return self.size
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a + 1", "a + 2", {"outer"}),
        ("b * 2", "b * 3", {"outer.<locals>.inner"}),
        ("self.size", "self.size + 1", {"Thing.method"}),
        ("What it does.", "What it did.", {"module"}),
        ("a: int = 1", "a: int = 2", {"module"}),
        ("a: int", "a: float", {"module"}),
        ("-> str", "-> int", {"module"}),
        ("def outer", "async def outer", {"module"}),
        ("def outer", "@staticmethod\n    def outer", {"module"}),
        ("inner(b)", "inner(b=1)", {"outer"}),
        ("        return b * 2", "        'Doc.'\n            return b * 2", {"outer"}),
        ("return b * 2", "yield b * 2", {"outer", "outer.<locals>.inner"}),
        ("return inner(x)", "yield inner(x)", {"module", "outer"}),
        ("size = 1", "size = 2", {"module"}),
        ("def method", "def other", {"module", "Thing.method", "Thing.other"}),
        ("LIMIT = 3", "LIMIT = 4", {"module"}),
        ("a + 1", "(  a\n    +1  ) # why", set()),
        ("LIMIT = 3", "# none\n    LIMIT=3;", set()),
        ("'What it does.'", '"What it does."', set()),
    ],
)
def test_an_edit_changes_only_the_block_that_contains_it(old: str, new: str, expected: set[str]) -> None:
    assert old in FUNCTION
    assert find_changed_blocks(FUNCTION, FUNCTION.replace(old, new, 1)) == expected


def test_constants_of_different_types_have_different_fingerprints() -> None:
    values = ["1", "1.0", "True", "'1'", "b'1'", "1j", "...", "None", "0x1_0", "-1", "0.0", "()", "''", "f''", "f'{1}'"]

    fingerprints = {value: parse_blocks(f"x = {value}").module for value in values}

    assert len(set(fingerprints.values())) == len(values)


def test_functions_of_the_same_name_share_a_fingerprint() -> None:
    text = "if x:\n    def f(): return 1\nelse:\n    def f(): return 2\n"

    assert find_changed_blocks(text, text.replace("return 2", "return 3")) == {"f"}
    assert find_changed_blocks(text, text.replace("return 1", "return 3")) == {"f"}
    assert set(parse_blocks(text).bodies) == {"f"}


def test_a_property_and_its_setter_share_a_fingerprint() -> None:
    text = """
        class A:
            @property
            def x(self): return 1
            @x.setter
            def x(self, value): self.y = value
    """

    assert find_changed_blocks(text, text.replace("self.y", "self.z")) == {"A.x"}


def test_a_lambda_and_a_class_belong_to_the_enclosing_block() -> None:
    text = "f = lambda: 1\ndef g():\n    h = lambda: 2\n    class A:\n        b = 3\n    return h, A"

    assert find_changed_blocks(text, text.replace("lambda: 1", "lambda: 0")) == {"module"}
    assert find_changed_blocks(text, text.replace("lambda: 2", "lambda: 0")) == {"g"}
    assert find_changed_blocks(text, text.replace("b = 3", "b = 0")) == {"g"}


BRANCHES = """
    def f(a):
        if a == 1:
            return 10
        elif a == 2:
            b = 20
        else:
            b = 30
            if b:
                b = 40
        try:
            c = 50
            for i in a:
                if i:
                    c = 60
        except KeyError:
            c = 70
        except OSError as error:
            raise ValueError(80) from error
        match a:
            case [x] if x > 85:
                c = 90
        with a:
            if a:
                def inner():
                    return 100
        class Local:
            if a:
                x = 110
        return 120
"""
"""Each number is in one block."""


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, "f"),
        (2, "f"),
        (10, "f.<branch 1>"),
        (20, "f.<branch 2>"),
        (30, "f.<branch 3>"),
        (40, "f.<branch 3>.<branch 0>"),
        (50, "f.<branch 0>"),  # what follows a condition that may return
        (60, "f.<branch 0>"),  # in a loop
        (70, "f.<branch 0>.<branch 1>"),
        (80, "f.<branch 0>.<branch 2>"),
        (85, "f.<branch 0>.<branch 0>"),  # what follows a handler that may raise
        (90, "f.<branch 0>.<branch 0>.<branch 0>"),
        (100, "f.<locals>.inner"),
        (110, "f.<branch 0>.<branch 0>"),
        (120, "f.<branch 0>.<branch 0>"),
    ],
)
def test_a_branch_is_a_block_of_its_own(number: int, expected: str) -> None:
    edited = re.sub(rf"\b{number}\b", "99", BRANCHES)

    assert edited != BRANCHES
    assert find_changed_blocks(BRANCHES, edited) == {expected}


@pytest.mark.parametrize(
    ("statement", "is_of_function"),
    [
        ("b = 5", False),  # local already
        ("z = 5", True),
        ("print(z)", False),
        ("import z", True),
        ("del z", True),
        ("global z", True),
        ("[z for z in b]", True),  # no name of the function, but a name in it
        ("(z := 5)", True),
        ("def z(): pass", True),
        ("with b as z: pass", True),
        ("try: pass\n            except b as z: pass", True),
        ("match b:\n                case [*z]: pass", True),
        ("yield b", False),
    ],
)
def test_a_name_that_a_branch_binds_is_local_to_the_whole_function(statement: str, is_of_function: bool) -> None:
    found = find_changed_blocks(BRANCHES, BRANCHES.replace("b = 20", f"b = 20\n            {statement}"))

    assert "f.<branch 2>" in found
    assert ("f" in found) is is_of_function
    assert ("module" in found) is ("yield" in statement)


def test_all_branches_belong_to_a_function_that_looks_at_its_local_names() -> None:
    text = "def f(a):\n    if a:\n        b = 1\n    else:\n        return {0}\n    return {0}"

    for look, expected in (("a", {"f.<branch 1>"}), ("locals()", {"f", "f.<branch 1>"})):
        assert find_changed_blocks(text.format(look), text.format(look).replace("b = 1", "b = 2")) == expected


def test_branches_of_functions_of_the_same_name_share_a_fingerprint() -> None:
    text = "if A:\n    def f(a):\n        if a: return 1\nelse:\n    def f(a):\n        if a: return 2"

    assert find_changed_blocks(text, text.replace("return 1", "return 3")) == {"f.<branch 0>"}
    assert find_changed_blocks(text, text.replace("return 2", "return 3")) == {"f.<branch 0>"}


def test_a_branch_has_mentions_of_its_own() -> None:
    found = parse_blocks("X = 1\nY = 2\ndef f(a):\n    z = X\n    if a:\n        return Y, z\n")

    assert found.mentions["f"] == {"X"} and found.mentions["f.<branch 0>"] == {"Y"}


def test_a_yield_belongs_to_the_block_that_evaluates_it() -> None:
    plain = "def f():\n    def g(x=1): pass\n    class A(B): pass\n    h = lambda: 1"

    assert "module" in find_changed_blocks(plain, plain.replace("x=1", "x=(yield)"))
    assert "module" in find_changed_blocks(plain, plain.replace("A(B)", "A((yield))"))
    assert "module" not in find_changed_blocks(plain, plain.replace("lambda: 1", "lambda: (yield)"))


def test_source_is_decoded_as_python_decodes_it() -> None:
    plain = parse_blocks("x = 'é'").module

    assert read_blocks("x = 'é'".encode("utf-8-sig"), "m.py").module == plain
    assert read_blocks("# coding: latin-1\nx = 'é'".encode("latin-1"), "m.py").module == plain
    assert read_blocks(b"x = 1\r\ny = 2\r\n", "m.py").module == read_blocks(b"x = 1\ny = 2\n", "m.py").module


@pytest.mark.parametrize("source", [b"def f(:", b"x = '\xff'", b"x = 1\0", b"# coding: nonsense\n", b"return ((("])
def test_source_that_is_not_python_raises_an_error(source: bytes) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        read_blocks(source, "module.py")


def test_long_chains_and_large_numbers_have_a_fingerprint() -> None:
    chain = " + ".join(["x"] * 2000)

    assert find_changed_blocks(f"y = {chain}", f"y = {chain} + x") == {"module"}
    assert find_changed_blocks(f"y = 0x{'f' * 9000}", f"y = 0x{'f' * 9001}") == {"module"}


def test_reading_blocks_prints_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    parse_blocks(r"x = '\d'")

    assert not list(recwarn)


# Generated modules. Each edit has one block that it should change; a layout is one way to format the same code.


@dataclass(frozen=True)
class Function:
    name: str
    number: int  # what its body does
    default: int = 0
    annotation: str = "int"
    decorator: str = ""
    docstring: str = ""
    is_async: bool = False
    is_generator: bool = False
    inside: tuple[Function | Class, ...] = field(default=())


@dataclass(frozen=True)
class Class:
    name: str
    number: int
    inside: tuple[Function | Class, ...] = field(default=())


@dataclass(frozen=True)
class Layout:
    comment: str
    blank_lines: int
    spaces: int
    indent: int
    quote: str

    def lines(self, items: tuple[Function | Class, ...], depth: int = 0) -> list[str]:
        found: list[str] = []
        for item in items:
            found += self._class(item, depth) if isinstance(item, Class) else self._function(item, depth)
        return found

    def text(self, items: tuple[Function | Class, ...], number: int) -> str:
        return "\n".join([self._line(0, f"x={self._gap}{number}"), *self.lines(items)]) + "\n"

    @property
    def _gap(self) -> str:
        return " " * self.spaces

    def _line(self, depth: int, text: str) -> str:
        blank = "\n" * self.blank_lines
        comment = f"{self._gap}# {self.comment}" if self.comment else ""
        return f"{blank}{' ' * self.indent * depth}{text}{comment}"

    def _class(self, item: Class, depth: int) -> list[str]:
        return [
            self._line(depth, f"class {item.name}{self._gap}:"),
            self._line(depth + 1, f"size{self._gap}={item.number}"),
            *self.lines(item.inside, depth + 1),
        ]

    def _function(self, item: Function, depth: int) -> list[str]:
        head = f"{'async ' if item.is_async else ''}def {item.name}("
        parameters = f"a{self._gap}:{item.annotation}{self._gap}={self._gap}{item.default}"
        return [
            *([self._line(depth, f"@{item.decorator}")] if item.decorator else []),
            self._line(depth, f"{head}{self._gap}{parameters}{self._gap}):"),
            *([self._line(depth + 1, f"{self.quote}{item.docstring}{self.quote}")] if item.docstring else []),
            self._line(depth + 1, f"y{self._gap}={self._gap}{item.number}"),
            *self.lines(item.inside, depth + 1),
            *([self._line(depth + 1, "yield")] if item.is_generator else []),
        ]


words = st.text("abcdefg", min_size=1, max_size=4)
layouts = st.builds(
    Layout, st.sampled_from(["", "why", "'\""]), st.integers(0, 2), st.integers(0, 2), st.integers(1, 4), st.just('"')
) | st.builds(Layout, st.just(""), st.just(0), st.just(1), st.just(4), st.just("'''"))


@st.composite
def modules(draw: st.DrawFn) -> tuple[Function | Class, ...]:
    count = 0

    def items(depth: int) -> tuple[Function | Class, ...]:
        return tuple(item(depth) for _ in range(draw(st.integers(1 if depth == 0 else 0, 3 - depth))))

    def item(depth: int) -> Function | Class:
        nonlocal count
        count += 1
        name, number = f"n{count}", draw(st.integers(0, 9))
        inside = items(depth + 1) if depth < 3 else ()
        if draw(st.booleans()) and draw(st.booleans()):
            return Class(name, number, inside)
        return Function(
            name,
            number,
            draw(st.integers(0, 9)),
            draw(st.sampled_from(["int", "str"])),
            draw(st.sampled_from(["", "tool"])),
            draw(st.just("") | words),
            draw(st.booleans()),
            draw(st.booleans()),
            inside,
        )

    return items(0)


@dataclass(frozen=True)
class Place:
    """An item: the path to it, its own block and the enclosing block."""

    path: tuple[int, ...]
    item: Function | Class
    own_block: str
    enclosing_block: str


def places(
    items: tuple[Function | Class, ...], path: tuple[int, ...] = (), prefix: str = "", enclosing_block: str = "module"
) -> list[Place]:
    found = []
    for index, item in enumerate(items):
        name = prefix + item.name
        item_path = (*path, index)
        if isinstance(item, Class):
            found += [
                Place(item_path, item, enclosing_block, enclosing_block),
                *places(item.inside, item_path, f"{name}.", enclosing_block),
            ]
        else:
            found += [
                Place(item_path, item, name, enclosing_block),
                *places(item.inside, item_path, f"{name}.<locals>.", name),
            ]
    return found


def with_item(
    items: tuple[Function | Class, ...], path: tuple[int, ...], new: Function | Class
) -> tuple[Function | Class, ...]:
    index, *rest = path
    old = items[index]
    new_item = replace(old, inside=with_item(old.inside, tuple(rest), new)) if rest else new
    return (*items[:index], new_item, *items[index + 1 :])


@given(modules(), layouts, layouts)
def test_formatting_and_comments_change_no_fingerprint(
    items: tuple[Function | Class, ...], one: Layout, two: Layout
) -> None:
    assert find_changed_blocks(one.text(items, 1), two.text(items, 1)) == set()


@given(modules(), layouts, layouts, st.data())
def test_an_edit_of_executed_code_changes_exactly_its_block(
    items: tuple[Function | Class, ...], one: Layout, two: Layout, data: st.DataObject
) -> None:
    place = data.draw(st.sampled_from(places(items)))

    edited = with_item(items, place.path, replace(place.item, number=place.item.number + 1))

    assert find_changed_blocks(one.text(items, 1), two.text(edited, 1)) == {place.own_block}
    assert find_changed_blocks(one.text(items, 1), two.text(items, 2)) == {"module"}


@given(modules(), layouts, layouts, st.data())
def test_an_edit_of_a_functions_interface_changes_exactly_the_enclosing_block(
    items: tuple[Function | Class, ...], one: Layout, two: Layout, data: st.DataObject
) -> None:
    found = [place for place in places(items) if isinstance(place.item, Function)]
    assume(found)
    place = data.draw(st.sampled_from(found))
    old = place.item
    assert isinstance(old, Function)
    variants: list[Function] = [
        replace(old, default=old.default + 1),
        replace(old, annotation="float"),
        replace(old, decorator=f"{old.decorator}s"),
        replace(old, docstring=f"{old.docstring}s"),
        replace(old, is_async=not old.is_async),
    ]

    edited = with_item(items, place.path, data.draw(st.sampled_from(variants)))

    assert find_changed_blocks(one.text(items, 1), two.text(edited, 1)) == {place.enclosing_block}


def test_parsing_is_retried_if_python_fails_during_concurrent_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_blocks(b"def f(): return 1", "a.py").bodies
    parse, failures = blocks_module._parse, [SystemError("AST constructor recursion depth mismatch")] * 2

    def parse_or_fail(source: bytes, path: str) -> ast.Module:
        if failures:
            raise failures.pop()
        return parse(source, path)

    monkeypatch.setattr(blocks_module, "_parse", parse_or_fail)

    assert read_blocks(b"def f(): return 1", "a.py").bodies == expected
    assert not failures
