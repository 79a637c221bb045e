"""Edits that add, remove, rename and move functions and modules."""

from __future__ import annotations

import ast
import re

from .packages import READ_AS_TEXT
from .scene import FRAME, Scene

_LIBRARIES = ("colorsys", "getopt", "netrc", "sched")
_IMPORTS = (
    "import json\n", "import re\n", "import os\n", "import functools\n", "import csv\n", "import asyncio\n",
    "from typing import Any\n", "from pathlib import Path\n", "from functools import lru_cache, partial\n",
)  # fmt: skip
_HANDLERS = ("ImportError", "ModuleNotFoundError")


def _with_functions(scene: Scene, *, count: int = 1) -> str | None:
    names = scene.sources(lambda name: name not in FRAME)
    found = [name for name in names if len(_functions(scene, name)) >= count]
    return scene.rng.choice(found) if found else None


def _functions(scene: Scene, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = scene.tree(name)
    assert tree is not None
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """First line and the line after the last, decorators included, counted from 0."""
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    assert node.end_lineno is not None
    return first - 1, node.end_lineno


def function_added(scene: Scene) -> str | None:
    """A new function that nothing calls yet, or that hides an earlier one."""
    name = scene.rng.choice(scene.sources())
    known = [node.name for node in _functions(scene, name)] if name not in FRAME else []
    new = scene.rng.choice(known) if known and scene.rng.random() < 0.4 else f"added_{scene.number()}"
    text = scene.read(name)
    scene.write(name, f'{text}\n\ndef {new}(n=1):\n    """New."""\n    return n + {scene.number()}\n')
    return f"{name}: {new}()"


def function_deleted(scene: Scene) -> str | None:
    """A function taken away."""
    name = _with_functions(scene)
    if name is None:
        return None
    node = scene.rng.choice(_functions(scene, name))
    lines = scene.read(name).splitlines(keepends=True)
    start, end = _lines_of(node)
    del lines[start:end]
    scene.write(name, "".join(lines))
    return f"{name}: {node.name}()"


def function_renamed(scene: Scene) -> str | None:
    """Another name for a function, in its file or only where it is defined."""
    name = _with_functions(scene)
    if name is None:
        return None
    old = scene.rng.choice(_functions(scene, name)).name
    new, text = f"{old}_now", scene.read(name)
    whole = scene.rng.random() < 0.5
    scene.write(name, re.sub(rf"\b{old}\b" if whole else rf"(?<=def ){old}\b", new, text))
    return f"{name}: {old}() is now {new}()"


def functions_reordered(scene: Scene) -> str | None:
    """Two functions in the other order."""
    name = _with_functions(scene, count=2)
    if name is None:
        return None
    functions = _functions(scene, name)
    index = scene.rng.randrange(len(functions) - 1)
    (start, end), (other_start, other_end) = _lines_of(functions[index]), _lines_of(functions[index + 1])
    lines = scene.read(name).splitlines(keepends=True)
    lines[start:other_end] = [*lines[other_start:other_end], *lines[end:other_start], *lines[start:end]]
    scene.write(name, "".join(lines))
    return f"{name}: {functions[index].name}() and {functions[index + 1].name}()"


def import_added(scene: Scene) -> str | None:
    """One more import at the top of a module: what it does when it is imported happens earlier, or at all."""
    name = scene.rng.choice(scene.sources(lambda name: not name.startswith(READ_AS_TEXT)))
    others = [other for other in scene.sources() if other.startswith("pack/shared/") and other != name]
    if not others:
        return None
    other = _dotted(scene.rng.choice(others))
    scene.write(name, f"import {other}\n{scene.read(name)}")
    return f"{name}: import {other}"


def library_imported(scene: Scene) -> str | None:
    """An import of Python's own library more, under a name of its own or one that is used already, or one less."""
    name = scene.rng.choice(scene.sources(lambda name: not name.startswith(READ_AS_TEXT)))
    text = scene.read(name)
    lines = [line for line in re.findall(r"^(?:import|from) .*\n", text, flags=re.MULTILINE) if line in _IMPORTS]
    if lines and scene.rng.random() < 0.4:
        line = scene.rng.choice(lines)
        scene.write(name, text.replace(line, "", 1))
        return f"{name}: without {line.strip()}"
    names = re.findall(r"^(?:def |class )?([A-Za-z_]\w*)", text, flags=re.MULTILINE)
    line = scene.rng.choice(_IMPORTS)
    if scene.rng.random() < 0.3:
        line = f"import json as {scene.rng.choice(names or ['json'])}\n"
    start = re.match(r'("""[^"]*"""\n)?\s*(from __future__ .*\n)?', text)
    assert start is not None
    scene.write(name, f"{start[0]}{line}{text[start.end() :]}")
    return f"{name}: {line.strip()}"


def patched_from_outside(scene: Scene) -> str | None:
    """A module that sets a constant of another when it is imported."""
    names = scene.sources(lambda name: not name.startswith(READ_AS_TEXT))
    constants = [
        (name, match)
        for name in names
        if name not in FRAME and not name.endswith("__init__.py") and not name.startswith("scratch/")
        for match in re.findall(r"^([A-Za-z]\w*) = ", scene.read(name), flags=re.MULTILINE)
    ]
    if not constants:
        return None
    owner, constant = scene.rng.choice(constants)
    importers = [name for name in names if _dotted(owner) in scene.read(name) and name != owner]
    name = scene.rng.choice(importers or [name for name in names if name != owner])
    line = f"\n\nimport {_dotted(owner)} as _patched\n\n_patched.{constant} = {scene.number()}\n"
    scene.write(name, scene.read(name) + line)
    return f"{name}: sets {constant} of {owner}"


def module_satisfies_import(scene: Scene) -> str | None:
    """A module that an optional or dynamic import was looking for."""
    missing = sorted({module for name in scene.sources() for module in _wanted(scene, name)})
    files = [module.replace(".", "/") for module in missing]
    files = [file for file in files if not scene.has(f"{file}.py") and not scene.has(file)]
    if not files:
        return None
    file = scene.rng.choice(files)
    name = f"{file}.py" if scene.rng.random() < 0.7 else f"{file}/__init__.py"
    number = scene.number()
    scene.write(name, f"NAME = {number}\n\n\ndef compute(n):\n    return n + NAME\n\n\nrun = compute\n")
    return name


def _wanted(scene: Scene, name: str) -> set[str]:
    """Modules that a file can do without."""
    found = set(re.findall(r'find_spec\("([\w.]+)"\)', scene.read(name)))
    found |= {f"pack.ways.{tool}_2" for tool in re.findall(r"pack\.ways\.(\w+)_\{", scene.read(name))}
    for node in ast.walk(scene.tree(name) or ast.Module([], [])):
        if isinstance(node, ast.Try) and any(
            isinstance(handler.type, ast.Name) and handler.type.id in _HANDLERS for handler in node.handlers
        ):
            for item in node.body:
                if isinstance(item, ast.Import):
                    found |= {alias.name for alias in item.names}
                elif isinstance(item, ast.ImportFrom) and item.module and not item.level:
                    found.add(item.module)
    return found


def module_shadowed(scene: Scene) -> str | None:
    """`x/__init__.py` beside `x.py`: the package comes first."""

    def fits(name: str) -> bool:
        stands_alone = not name.endswith("__init__.py") and name != FRAME[0] and name.startswith(("pack/", *roots))
        return stands_alone and not scene.has(name.removesuffix(".py")) and "from ." not in scene.read(name)

    roots = tuple(name for name in scene.pythons() if "/" not in name) or ("pack/",)
    names = scene.sources(fits)
    if not names:
        return None
    name = scene.rng.choice(names)
    text = scene.read(name)
    if scene.rng.random() < 0.7:
        text = re.sub(r"\b\d\d\b", lambda match: str(int(match[0]) + 1), text)
    other = f"{name.removesuffix('.py')}/__init__.py"
    scene.write(other, text)
    return other


def library_shadowed(scene: Scene) -> str | None:
    """A module of the project with the name of one of Python's."""
    names = [f"{name}.py" for name in _LIBRARIES if not scene.has(f"{name}.py")]
    used = [name for name in names if any(f"import {name[:-3]}\n" in scene.read(other) for other in scene.sources())]
    if not names:
        return None
    name = scene.rng.choice(used or names)
    scene.write(name, f"def abacus_{scene.number()}(n):\n    return n\n")
    return name


def module_deleted(scene: Scene) -> str | None:
    """A module, or the `__init__.py` of a package, taken away."""
    name = scene.rng.choice(_removable(scene))
    scene.delete(name)
    return name


def module_renamed(scene: Scene) -> str | None:
    """Another name for a module, nothing else being told."""
    name = scene.rng.choice([name for name in _removable(scene) if not name.endswith("__init__.py")])
    other = f"{name.removesuffix('.py')}_{scene.number()}.py"
    scene.rename(name, other)
    return f"{name} is now {other}"


def _removable(scene: Scene) -> list[str]:
    rarely = () if scene.rng.random() < 0.1 else FRAME
    return [name for name in scene.pythons() if name not in rarely and name != FRAME[0]]


def package_renamed(scene: Scene) -> str | None:
    """Another name for a folder of modules."""
    folders = sorted({name.rpartition("/")[0] for name in scene.pythons()} - {"", "pack", "scratch", "pack/tools"})
    if not folders:
        return None
    folder = scene.rng.choice(folders)
    other = f"{folder}_{scene.number()}"
    for name in sorted(scene.files):
        if name.startswith(f"{folder}/"):
            scene.rename(name, other + name.removeprefix(folder))
    return f"{folder} is now {other}"


def package_made(scene: Scene) -> str | None:
    """An `__init__.py` for a folder that had none."""
    folders = {name.rpartition("/")[0] for name in scene.pythons() if name.startswith("pack/")}
    names = sorted(f"{folder}/__init__.py" for folder in folders if not scene.has(f"{folder}/__init__.py"))
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.write(name, scene.rng.choice(("", f"ADDED = {scene.number()}\n", "raise RuntimeError('not ready')\n")))
    return name


def plugin_added(scene: Scene) -> str | None:
    """A module in a folder whose modules are looked for."""
    folders = sorted({n.rpartition("/")[0] for n in scene.pythons() if re.match(r"pack/plugins/\w+/", n)})
    if not folders:
        return None
    name = f"{scene.rng.choice(folders)}/{scene.rng.choice('abgz')}_{scene.number()}.py"
    scene.write(name, f"NAME = {scene.number()}\n\n\ndef run(n):\n    return n\n")
    return name


def unused_module(scene: Scene) -> str | None:
    """A module that nothing imports, new or edited."""
    folder = scene.rng.choice(("scratch", "pack/tools", "pack/shared", "."))
    name = "scratch/unused.py" if scene.rng.random() < 0.3 else f"{folder}/unused_{scene.number()}.py"
    scene.write(name.removeprefix("./"), f"VALUE = {scene.number()}\n")
    return name


def _dotted(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


EDITS = (
    function_added, function_deleted, function_renamed, functions_reordered, import_added, library_imported,
    patched_from_outside, module_satisfies_import, module_shadowed, library_shadowed, module_deleted, module_renamed,
    package_renamed, package_made, plugin_added,
)  # fmt: skip
NEUTRAL_EDITS = (unused_module,)
