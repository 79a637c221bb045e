"""The English of the code: words that engineers of all countries know, and functions named by verb phrases.

Counted per 10,000 words of docstrings and comments.
`python tests/test_plain_english.py [FOLDER …]` lists the places.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "workbench"

_WORDS = {
    "told, tell": re.compile(r"\b(?:untold|told|tells?|telling)\b", re.IGNORECASE),
    "stands": re.compile(r"\b(?:stands?|standing|stood)\b", re.IGNORECASE),
    "nobody, whoever, somebody": re.compile(r"\b(?:nobody|whoever|somebody|anybody|no one)\b", re.IGNORECASE),
    "goes on": re.compile(r"\b(?:goes?|going|went) on\b", re.IGNORECASE),
    "what is, what was": re.compile(r"\bwhat (?:is|was|are|were)\b", re.IGNORECASE),
    "of which, in place of, is none": re.compile(r"\b(?:of which|in place of|is none|to be had)\b"),
}
_MOST = {
    "told, tell": 4.0,
    "stands": 2.0,
    "nobody, whoever, somebody": 2.0,
    "goes on": 1.0,
    "what is, what was": 10.0,
    "of which, in place of, is none": 4.0,
}
_MOST_NAMES = 3.0  # percent of all functions

_PREPOSITIONS = frozenset(
    re.findall(
        r"\w+",
        "about after again against apart as at away back before behind beside between by down for from in "
        "into like of off on out over per since than through to together under until up upon via with within "
        "without",
    )
)
_PARTICIPLES = frozenset(
    re.findall(
        r"\w+",
        "asked begun bound broken brought built caught chosen done drawn driven fallen felt forgotten found "
        "given gone heard held hidden kept known laid left lost made meant paid said seen sent shown sold "
        "spent spoken stood struck taken taught thought thrown told understood won worn written",
    )
)
_NOT_PARTICIPLES = frozenset(
    re.findall(
        r"\w+",
        "embed exceed feed need proceed seed speed succeed",
    )
)
_NOUNS_IN_ING = frozenset(
    re.findall(
        r"\w+",
        "finding heading mapping ranking rating ring setting string warning",
    )
)


class Place(NamedTuple):
    path: Path
    line: int
    text: str


def find_prose(path: Path) -> Iterator[Place]:
    """Yield the docstrings (also of attributes) and comments of a module."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield Place(path, statement.lineno, text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Place(path, token.start[0], token.string)


def find_functions(path: Path) -> Iterator[Place]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("__"):
            yield Place(path, node.lineno, node.name)


_PRIVATE_WORDS = frozenset(("told", "untold", "nobody", "nobodys", "somebody", "whoever"))


def find_private_names(path: Path) -> Iterator[Place]:
    """Yield the names that a module gives to anything if they contain a word that is not the one of the field."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case _:
                continue
        if not _PRIVATE_WORDS.isdisjoint(name.lower().split("_")):
            yield Place(path, node.lineno, name)


def is_poor_name(name: str) -> bool:
    """Return whether a name ends with a preposition or is a single participle: `layer_of`, `kept`."""
    words = name.strip("_").split("_")
    word = words[-1]
    if word in _PREPOSITIONS:
        return True
    if len(words) > 1:
        return False
    in_ed = word.endswith("ed") and word not in _NOT_PARTICIPLES
    return in_ed or word in _PARTICIPLES or (word.endswith("ing") and word not in _NOUNS_IN_ING)


@pytest.fixture(scope="module")
def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "_bundled" not in path.parts)


def test_words_of_a_private_language_are_rare(modules: list[Path]) -> None:
    texts = [place.text for path in modules for place in find_prose(path)]
    words = sum(len(re.findall(r"[A-Za-z']+", text)) for text in texts)

    shares = {
        kind: sum(len(pattern.findall(text)) for text in texts) / words * 10_000 for kind, pattern in _WORDS.items()
    }
    assert {kind: share for kind, share in shares.items() if share > _MOST[kind]} == {}


def test_functions_are_named_by_verb_phrases(modules: list[Path]) -> None:
    names = [place.text for path in modules for place in find_functions(path)]

    assert len([name for name in names if is_poor_name(name)]) / len(names) * 100 <= _MOST_NAMES


def test_no_name_has_a_word_of_a_private_language(modules: list[Path]) -> None:
    assert [f"{path}:{line}: {name}" for each in modules for path, line, name in find_private_names(each)] == []


def test_the_counts_find_what_they_look_for(tmp_path: Path) -> None:
    module = tmp_path / "a.py"
    module.write_text('"""Nobody is told."""\n\n\ndef kept(is_told) -> None:\n    pass  # stands here\n', "utf-8")

    texts = " ".join(place.text for place in find_prose(module))
    assert [kind for kind, words in _WORDS.items() if words.search(texts)] == list(_WORDS)[:3]
    assert [is_poor_name(place.text) for place in find_functions(module)] == [True]
    assert [place.text for place in find_private_names(module)] == ["is_told"]
    assert not any(map(is_poor_name, ("feed", "find_calls", "is_shown", "open", "setting")))


def _report(folders: list[Path]) -> None:
    paths = sorted({path for folder in folders for path in (folder.rglob("*.py") if folder.is_dir() else [folder])})
    places = [place for path in paths for place in find_prose(path)]
    words = sum(len(re.findall(r"[A-Za-z']+", place.text)) for place in places) or 1
    for kind, pattern in _WORDS.items():
        hits = [(place, match) for place in places for match in pattern.finditer(place.text)]
        for place, match in hits:
            line = place.line + place.text[: match.start()].count("\n")
            around = " ".join(place.text[max(0, match.start() - 50) : match.end() + 50].split())
            print(f"{place.path}:{line}: {kind}: … {around} …")
        print(f"--- {kind}: {len(hits) / words * 10_000:.1f} (at most {_MOST[kind]})\n")
    names = [place for path in paths for place in find_functions(path)]
    poor = [place for place in names if is_poor_name(place.text)]
    for place in poor:
        print(f"{place.path}:{place.line}: {place.text}")
    print(f"--- names: {len(poor)} of {len(names)}, {len(poor) / max(1, len(names)) * 100:.1f} % (at most 3)")


if __name__ == "__main__":
    _report([Path(name) for name in sys.argv[1:]] or [PACKAGE])
