"""Assertions that a text is absent name a text that the program, or the data of the test, can show.

Who rewords a message would otherwise leave such an assertion behind that cannot fail any more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_SHOWN = re.compile(r"\b(text|footer|shown|out|err|output|stdout|stderr|said|told|lines?|printed|screen|report|page)\b")
_PROSE = re.compile(r"[A-Za-z][A-Za-z'’]*(?:[ ,;:\-][ ]?[A-Za-z][A-Za-z'’]*)*")
_OF_OTHERS = frozenset(("Traceback", "Do you want to quit?"))
"""What Python and Textual say."""


class Absence(NamedTuple):
    """A text that a test expects not to be shown."""

    place: str
    text: str


def test_what_must_not_be_shown_can_be_shown() -> None:
    unknown = [
        absence
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for tree in [_tree(path)]
        for absence in _absences(path, tree)
        if not (_is_said_by_the_program(absence.text) or _is_data_of(tree, absence.text))
    ]

    assert not unknown, "\n".join(f"{place}: {text!r} can never be shown" for place, text in unknown)


def test_a_text_that_no_message_has_is_found() -> None:
    tree = ast.parse('assert "zebras never dance" not in screen.text')

    assert [text for _, text in _absences(ROOT / "tests" / "test_x.py", tree)] == ["zebras never dance"]
    assert not _is_said_by_the_program("zebras " + "never dance")
    assert not _is_data_of(tree, "zebras never dance")


def _absences(path: Path, tree: ast.Module) -> Iterator[Absence]:
    for node in ast.walk(tree):
        text: ast.expr | None = None
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
            text = node.left if _SHOWN.search(ast.unparse(node.comparators[0])) else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "until_gone":
            text = node.args[0]
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and _prose(text.value):
            yield Absence(f"{path.relative_to(ROOT)}:{text.lineno}", text.value)


def _prose(text: str) -> str:
    """The longest run of words in a text: what stands around it may come from elsewhere, such as numbers."""
    return max((found.group() for found in _PROSE.finditer(text)), key=len, default="")


def _is_said_by_the_program(text: str) -> bool:
    return text in _OF_OTHERS or _texts_of_the_program().can_make(text)


class Texts:
    """The constants of sources, and their f-strings as patterns, each with the letters that it is sure of."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self._constants: list[str] = []
        self._patterns: list[tuple[int, re.Pattern[str]]] = []
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._constants.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                constants = [
                    str(part.value).strip() if isinstance(part, ast.Constant) else None for part in node.values
                ]
                pattern = r"\s*".join(".+" if each is None else re.escape(each) for each in constants)
                letters = sum(len(each) for each in constants if each is not None)
                self._patterns.append((letters, re.compile(pattern, re.DOTALL)))

    def can_make(self, text: str) -> bool:
        """Whether the words of a text are in a constant, or a third of it at least in an f-string that makes it."""
        words = _prose(text)
        return any(words in constant for constant in self._constants) or any(
            3 * letters >= len(text) and pattern.search(text) for letters, pattern in self._patterns
        )


@cache
def _texts_of_the_program() -> Texts:
    sources = [path.read_text("utf-8") for path in (ROOT / "workbench").rglob("*.py")]
    return Texts(node for source in sources for node in ast.walk(ast.parse(source)))


def _is_data_of(tree: ast.Module, text: str) -> bool:
    """Whether the test has the text, or its words, for something else than its absence."""
    absent = {id(part) for node in ast.walk(tree) for part in _parts_of_absence(node)}
    return Texts(node for node in ast.walk(tree) if id(node) not in absent).can_make(text)


def _parts_of_absence(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
        yield node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "until_gone":
        yield node.args[0]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))
