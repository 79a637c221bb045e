"""Random agent packages: the same seed makes the same bytes.

An agent is a function `pack.main:answer`. A prompt names tools and their arguments; the response lists their results.
Tools are made from the recipes in `recipes/`. Each recipe is one way in which code depends on something. Its sections
go into tool modules, helper modules, own modules, data files and `.env`.
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .cases import make_cases
from .frame import FRAMEWORK, REGISTRY, make_main, make_router

EVAL_SET = "set.evalset.json"
CRITERIA = "test_config.json"
TARGET = "pack.main:answer"
MAX_CASE_SECONDS = 4
"""Time limit of a case (seconds). Cases that end need far less, even on a busy machine."""
READ_AS_TEXT = ("pack/sources/", "pack/fragments/")
"""Folders whose Python files are read as text, so that comments count."""
LIBRARIES = ".venv/lib/python3/site-packages"
"""The folder of installed libraries; see `ENVIRONMENT`."""
ENVIRONMENT = {
    "GENERATED_FIXED": "outer",
    "PYTHONPATH": os.pathsep.join(filter(None, (LIBRARIES, os.environ.get("PYTHONPATH")))),
}
"""Variables of the process that watches or runs. `.env` cannot change them."""

TIMED = "timed/"
"""The folder of files whose times and modes count."""

_RECIPES = Path(__file__).parent / "recipes"
_WORDS = (  # noqa: SIM905 - single quotes would fill a page
    "amber basil cedar delta ember flint grove hazel ivory jade kelp lotus maple north olive pearl quartz raven "
    "sable thorn umber velvet willow yarrow zinc birch coral dune elm fern"
).split()
_VERBS = "fetch count weigh check quote find rate sort plan scan book list".split()  # noqa: SIM905
_SIGNATURES = ("n", "n", "n: int", "n=<SMALL>", "n: int = <SMALL>", 'n, extra="<W>"')
_SHADOWED = ("colorsys", "getopt", "netrc", "sched")


class Section(NamedTuple):
    """A part of a recipe. `place` is its target: tool, helper, deep, module, file, database (in SQL) or variable."""

    place: str
    name: str
    text: str


class Recipe(NamedTuple):
    """One way to depend on something."""

    name: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Package:
    """A package on disk: its tools, the recipe of each, and its files by relative path."""

    root: Path
    seed: int
    tools: tuple[str, ...]
    recipes: dict[str, str]
    files: frozenset[str]


@cache
def all_recipes() -> tuple[Recipe, ...]:
    """Read all recipes, in the order of their files."""
    return tuple(
        recipe for path in sorted(_RECIPES.glob("*.txt")) for recipe in _parse_recipes(path.read_text("utf-8"))
    )


def _parse_recipes(text: str) -> Iterator[Recipe]:
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        sections = []
        for section in re.split(r"^--- ", rest, flags=re.MULTILINE)[1:]:
            head, _, body = section.partition("\n")
            place, _, argument = head.partition(" ")
            sections.append(Section(place, argument, body.strip("\n") + "\n"))
        yield Recipe(name, tuple(sections))


def generate(
    root: Path,
    seed: int,
    *,
    tools: tuple[int, int] = (8, 14),
    cases: tuple[int, int] = (8, 24),
    recipes: Sequence[str] = (),
    without: Collection[str] = (),
    settings: str = "",
) -> Package:
    """Write a package into a new or empty folder.

    `tools` and `cases` are ranges of their numbers. `recipes` are required, those of `without` are excluded. `settings`
    are more lines for `[run]` in `workbench.toml`. The cases have no expectations; `cases.expect` adds them.
    """
    maker = _Maker(random.Random(seed))
    maker.make(tool_count=tools, required=recipes, without=without)
    texts = maker.make_texts()
    texts[EVAL_SET] = json.dumps(make_cases(maker.rng, maker.aliases, maker.places, cases), indent=2) + "\n"
    texts[CRITERIA] = json.dumps({"criteria": _make_criteria(maker.rng)}, indent=2) + "\n"
    texts["workbench.toml"] = (
        f'[targets.generated]\nkind = "function"\ntarget = "{TARGET}"\nenv_file = ".env"\neval_sets = ["{EVAL_SET}"]\n'
        f"[run]\ntimeout_seconds = {MAX_CASE_SECONDS}\n{settings}"
    )
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Package(root, seed, tuple(maker.places), dict(maker.recipes), frozenset(texts))


def _make_criteria(rng: random.Random) -> dict[str, object]:
    criteria: dict[str, object] = {"tool_trajectory_avg_score": 1.0, "exact_match": rng.choice((0.5, 1.0))}
    if rng.random() < 0.3:
        criteria["final_session_state_match"] = 1.0
    if rng.random() < 0.3:
        criteria["trajectory_precision"] = {"threshold": 0.6}
    return criteria


@dataclass
class _Module:
    imports: list[str] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Append code. Its leading imports go to the top of the module."""
        lines = text.splitlines()
        while lines and (not lines[0] or lines[0].startswith(("import ", "from "))):
            line = lines.pop(0)
            if line and line not in self.imports:
                self.imports.append(line)
        if any(lines):
            self.chunks.append("\n".join(lines).rstrip() + "\n")

    def text(self, title: str) -> str:
        imports = "".join(f"{line}\n" for line in self.imports)
        return "\n\n".join(part for part in (f'"""{title}"""\n', imports, *self.chunks) if part)


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.places: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.recipes: dict[str, str] = {}
        self._modules: dict[str, _Module] = {}
        self._files: dict[str, str | bytes] = {}
        self._variables: list[str] = ["# what the agent is told"]
        self._names = [f"{verb}_{word}" for verb in _VERBS for word in _WORDS]
        rng.shuffle(self._names)

    def make(self, *, tool_count: tuple[int, int], required: Sequence[str], without: Collection[str]) -> None:
        rng = self.rng
        words = rng.sample(_WORDS, 12)
        self._tool_modules = [f"pack/tools/{word}.py" for word in words[: rng.randint(2, 4)]]
        self._tool_modules.append(f"pack/tools/inner/{words[4]}.py")
        self._helpers = [f"pack/shared/{word}.py" for word in words[5 : rng.randint(7, 8)]]
        self._helpers += [f"pack/deep/under/{words[8]}.py", f"{words[9]}_lib.py"]
        for path in (*self._tool_modules, *self._helpers):
            self._modules[path] = _Module()
        known = {recipe.name: recipe for recipe in all_recipes()}
        chosen = [known[name] for name in required]
        more = [recipe for recipe in known.values() if recipe not in chosen and recipe.name not in without]
        chosen += rng.sample(more, min(len(more), max(0, rng.randint(*tool_count) - len(chosen))))
        for recipe in chosen:
            self._add_recipe(recipe)
        if rng.random() < 0.4:
            self._add_link()
        self._add_frame()

    def _add_recipe(self, recipe: Recipe) -> None:
        """Write the sections of a recipe to their places, with own names and numbers."""
        rng = self.rng
        tool = self._names.pop()
        module = rng.choice(self._tool_modules)
        first, second = sorted(rng.sample(range(len(self._helpers)), 2))
        values = self._choose_values(tool, module, helper=self._helpers[first], deep=self._helpers[second])
        targets = {"tool": module, "helper": self._helpers[first], "deep": self._helpers[second]}
        for section in recipe.sections:
            name, text = _fill(section.name, values), _fill(section.text, values)
            match section.place:
                case "variable":
                    if rng.random() < 0.9:
                        self._variables.append(name)
                case "file":
                    self._files[name] = text
                case "database":
                    self._files[name] = make_database(text)
                case place:
                    self._modules.setdefault(targets.get(place, name), _Module()).add(text)
        tools = [tool, *([f"{tool}_more"] if any("<T2>" in section.text for section in recipe.sections) else ())]
        for name in tools:
            self.places[name] = _to_module_name(module)
            self.recipes[name] = recipe.name
            self.aliases[name if rng.random() < 0.7 else name.replace("_", "-")] = name

    def _choose_values(self, tool: str, module: str, *, helper: str, deep: str) -> dict[str, str]:
        """Choose the value for each blank of a recipe."""
        rng = self.rng
        numbers = rng.sample(range(11, 98), 2)
        words = rng.sample(_WORDS, 6)
        depth = module.count("/")
        relative = "." * depth + _to_module_name(helper).removeprefix("pack.")
        return {
            "SIG": rng.choice(_SIGNATURES),
            "DOC": f"{words[2].capitalize()} of {words[3]}, {words[4]} or {words[5]}.",
            "T2": f"{tool}_more",
            "T": tool,
            "C": tool.title().replace("_", ""),
            "A": str(numbers[0]),
            "B": str(numbers[1]),
            "SMALL": str(rng.randint(2, 9)),
            "W": words[0],
            "V": words[1],
            "UP": ".parent" * (depth + 1),  # not a number, as an edit of it could lead out of the project
            "HELPER": _to_module_name(helper),
            "RELATIVE": relative if helper.startswith("pack/") else _to_module_name(helper),
            "DEEP": _to_module_name(deep),
            "VARIABLE": f"GENERATED_{tool.upper()}",
            "LIBRARY": rng.choice(_SHADOWED),
        }

    def _add_link(self) -> None:
        """Add a tool that calls a tool of an earlier module."""
        first, second = self._tool_modules[0], self._tool_modules[1]
        earlier = [name for name, place in self.places.items() if place == _to_module_name(first)]
        if not earlier:
            return
        other, tool = self.rng.choice(earlier), self._names.pop()
        code = f"from {_to_module_name(first)} import {other}\n\ndef {tool}(n=3):\n    return {other}(n + 2)\n"
        self._modules[second].add(code)
        self.places[tool], self.recipes[tool], self.aliases[tool] = _to_module_name(second), "link", tool

    def _add_frame(self) -> None:
        """Add the agent itself, the `__init__.py` of packages, and unused files."""
        rng = self.rng
        share = rng.choice((0.0, 0.0, 0.3, 0.6))
        used = sorted(set(self.places.values()))
        eager = [place for place in used if rng.random() < share]
        eager += sorted({self.places[n] for n, r in self.recipes.items() if r == "registered"} - set(eager))
        prompt = rng.choice((None, None, None, "late", "early"))
        if prompt is not None:
            self._files["prompts/instruction.txt"] = f"You are {rng.choice(_WORDS)}.\nBe {rng.choice(_WORDS)}.\n"
        self._files["pack/main.py"] = make_main(rng, eager=eager, prompt=prompt)
        self._files["pack/router.py"] = make_router(rng, self.places, self.aliases)
        self._files["pack/registry.py"] = REGISTRY
        self._files["pack/framework.py"] = FRAMEWORK
        self._files["pack/__init__.py"] = '"""A package of tools."""\n'
        for folder in ("tools", "tools/inner", "shared", "deep", "deep/under"):
            if rng.random() < 0.7:
                self._files[f"pack/{folder}/__init__.py"] = rng.choice(("", f'"""{folder}."""\n'))
        self._files["notes.md"] = "# Notes\n\nNobody reads this.\n"
        self._files["scratch/unused.py"] = "VALUE = 1\n\n\ndef unused(n):\n    return n + 2\n"
        self._files["data/unused.json"] = '{"nobody": "reads this"}\n'

    def make_texts(self) -> dict[str, str | bytes]:
        """Return all files by relative path, with `.env` if a variable is defined."""
        texts: dict[str, str | bytes] = {}
        for path, module in self._modules.items():
            texts[path] = module.text(f"The module {_to_module_name(path)}.") if module.chunks or module.imports else ""
        if len(self._variables) > 1 or self.rng.random() < 0.3:
            texts[".env"] = "\n".join(self._variables) + "\n"
        return texts | self._files


def make_database(script: str) -> bytes:
    """Return the bytes of a database after this script."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


def _fill(text: str, values: dict[str, str]) -> str:
    for blank in ("SIG", "DOC"):
        text = text.replace(f"<{blank}>", values[blank])
    for blank, value in values.items():
        text = text.replace(f"<{blank}>", value)
    return text


def _to_module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
