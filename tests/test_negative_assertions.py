"""An assertion that a text is absent must name a text that the program or the test data can show.

Otherwise a reworded message leaves behind an assertion that can never fail.
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
_FOREIGN_TEXTS = frozenset(("Traceback", "Do you want to quit?"))
"""Texts of Python and Textual."""


class Absence(NamedTuple):
    """A text that a test expects not to be shown."""

    place: str
    text: str


def test_texts_asserted_absent_can_be_shown() -> None:
    unknown = [
        absence
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for tree in [_parse(path)]
        for absence in _find_absences(path, tree)
        if not (_is_text_of_program(absence.text) or _is_test_data(tree, absence.text))
    ]

    assert not unknown, "\n".join(f"{place}: {text!r} can never be shown" for place, text in unknown)


def test_a_text_that_no_message_contains_is_found() -> None:
    tree = ast.parse('assert "zebras never dance" not in screen.text')

    assert [text for _, text in _find_absences(ROOT / "tests" / "test_x.py", tree)] == ["zebras never dance"]
    assert not _is_text_of_program("zebras " + "never dance")
    assert not _is_test_data(tree, "zebras never dance")


def _find_absences(path: Path, tree: ast.Module) -> Iterator[Absence]:
    for node in ast.walk(tree):
        text: ast.expr | None = None
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
            text = node.left if _SHOWN.search(ast.unparse(node.comparators[0])) else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "until_gone":
            text = node.args[0]
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and _find_longest_words(text.value):
            yield Absence(f"{path.relative_to(ROOT)}:{text.lineno}", text.value)


def _find_longest_words(text: str) -> str:
    """Return the longest run of words in a text: the rest, such as numbers, may be inserted at run time."""
    return max((found.group() for found in _PROSE.finditer(text)), key=len, default="")


def _is_text_of_program(text: str) -> bool:
    return text in _FOREIGN_TEXTS or _read_program_texts().can_make(text)


class Texts:
    """The constants of sources, and their f-strings as patterns with the number of constant letters."""

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
        """Return whether a constant contains the words of a text, or an f-string at least a third of it."""
        words = _find_longest_words(text)
        return any(words in constant for constant in self._constants) or any(
            3 * letters >= len(text) and pattern.search(text) for letters, pattern in self._patterns
        )


@cache
def _read_program_texts() -> Texts:
    sources = [path.read_text("utf-8") for path in (ROOT / "workbench").rglob("*.py")]
    return Texts(node for source in sources for node in ast.walk(ast.parse(source)))


def _is_test_data(tree: ast.Module, text: str) -> bool:
    """Return whether the test also uses the text, or its words, outside assertions of absence."""
    absent = {id(part) for node in ast.walk(tree) for part in _find_absent_texts(node)}
    return Texts(node for node in ast.walk(tree) if id(node) not in absent).can_make(text)


def _find_absent_texts(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
        yield node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "until_gone":
        yield node.args[0]


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))
