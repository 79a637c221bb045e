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


def _pick_module_with_functions(scene: Scene, *, count: int = 1) -> str | None:
    names = scene.list_sources(lambda name: name not in FRAME)
    found = [name for name in names if len(_list_functions(scene, name)) >= count]
    return scene.rng.choice(found) if found else None


def _list_functions(scene: Scene, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = scene.parse(name)
    assert tree is not None
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _find_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """Return the first line and the line after the last, including decorators, counted from 0."""
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    assert node.end_lineno is not None
    return first - 1, node.end_lineno


def function_added(scene: Scene) -> str | None:
    """Add a function that nothing calls, or that replaces an earlier one."""
    name = scene.rng.choice(scene.list_sources())
    known = [node.name for node in _list_functions(scene, name)] if name not in FRAME else []
    new = scene.rng.choice(known) if known and scene.rng.random() < 0.4 else f"added_{scene.pick_number()}"
    text = scene.read(name)
    scene.write(name, f'{text}\n\ndef {new}(n=1):\n    """New."""\n    return n + {scene.pick_number()}\n')
    return f"{name}: {new}()"


def function_deleted(scene: Scene) -> str | None:
    """Delete a function."""
    name = _pick_module_with_functions(scene)
    if name is None:
        return None
    node = scene.rng.choice(_list_functions(scene, name))
    lines = scene.read(name).splitlines(keepends=True)
    start, end = _find_lines(node)
    del lines[start:end]
    scene.write(name, "".join(lines))
    return f"{name}: {node.name}()"


def function_renamed(scene: Scene) -> str | None:
    """Rename a function, in its whole file or only in its definition."""
    name = _pick_module_with_functions(scene)
    if name is None:
        return None
    old = scene.rng.choice(_list_functions(scene, name)).name
    new, text = f"{old}_now", scene.read(name)
    is_whole_file = scene.rng.random() < 0.5
    scene.write(name, re.sub(rf"\b{old}\b" if is_whole_file else rf"(?<=def ){old}\b", new, text))
    return f"{name}: {old}() is now {new}()"


def functions_reordered(scene: Scene) -> str | None:
    """Swap two functions."""
    name = _pick_module_with_functions(scene, count=2)
    if name is None:
        return None
    functions = _list_functions(scene, name)
    index = scene.rng.randrange(len(functions) - 1)
    (start, end), (other_start, other_end) = _find_lines(functions[index]), _find_lines(functions[index + 1])
    lines = scene.read(name).splitlines(keepends=True)
    lines[start:other_end] = [*lines[other_start:other_end], *lines[end:other_start], *lines[start:end]]
    scene.write(name, "".join(lines))
    return f"{name}: {functions[index].name}() and {functions[index + 1].name}()"


def import_added(scene: Scene) -> str | None:
    """Import another module of the project at the top of a module. Its import now runs earlier, or at all."""
    name = scene.rng.choice(scene.list_sources(lambda name: not name.startswith(READ_AS_TEXT)))
    others = [other for other in scene.list_sources() if other.startswith("pack/shared/") and other != name]
    if scene.rng.random() < 0.3:
        others = [other for other in scene.list_sources() if other not in (name, *FRAME)]
    if not others:
        return None
    other = scene.rng.choice(others)
    module = _to_module_name(other)
    line = f"import {module}"
    if scene.rng.random() < 0.5:
        imported = scene.rng.choice([*(each.name for each in _list_functions(scene, other)), "missing"])
        package, _, last = module.rpartition(".")
        if package and scene.rng.random() < 0.4:
            module, imported = package, last
        if module.startswith("pack.") and name.startswith("pack/") and scene.rng.random() < 0.5:
            module = "." * name.count("/") + module.removeprefix("pack.")
        known = re.findall(r"^(?:def |class )?([A-Za-z_]\w*)", scene.read(name), flags=re.MULTILINE)
        alias = f" as {scene.rng.choice(known)}" if known and scene.rng.random() < 0.2 else ""
        line = f"from {module} import {imported}{alias}"
    start = re.match(r'("""[^"]*"""\n)?', scene.read(name))
    place = start.end() if start is not None and scene.rng.random() < 0.5 else 0
    text = scene.read(name)
    scene.write(name, f"{text[:place]}{line}\n{text[place:]}")
    return f"{name}: {line}"


def library_imported(scene: Scene) -> str | None:
    """Add or remove an import of the standard library, under its own name or one that is already in use."""
    name = scene.rng.choice(scene.list_sources(lambda name: not name.startswith(READ_AS_TEXT)))
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
    """Make a module set a constant of another module when it is imported."""
    names = scene.list_sources(lambda name: not name.startswith(READ_AS_TEXT))
    constants = [
        (name, match)
        for name in names
        if name not in FRAME and not name.endswith("__init__.py") and not name.startswith("scratch/")
        for match in re.findall(r"^([A-Za-z]\w*) = ", scene.read(name), flags=re.MULTILINE)
    ]
    if not constants:
        return None
    owner, constant = scene.rng.choice(constants)
    importers = [name for name in names if _to_module_name(owner) in scene.read(name) and name != owner]
    name = scene.rng.choice(importers or [name for name in names if name != owner])
    line = f"\n\nimport {_to_module_name(owner)} as _patched\n\n_patched.{constant} = {scene.pick_number()}\n"
    scene.write(name, scene.read(name) + line)
    return f"{name}: sets {constant} of {owner}"


def module_satisfies_import(scene: Scene) -> str | None:
    """Add a module that an optional or dynamic import looks for."""
    missing = sorted({module for name in scene.list_sources() for module in _find_optional_modules(scene, name)})
    files = [module.replace(".", "/") for module in missing]
    files = [file for file in files if not scene.has(f"{file}.py") and not scene.has(file)]
    if not files:
        return None
    file = scene.rng.choice(files)
    name = f"{file}.py" if scene.rng.random() < 0.7 else f"{file}/__init__.py"
    number = scene.pick_number()
    scene.write(name, f"NAME = {number}\n\n\ndef compute(n):\n    return n + NAME\n\n\nrun = compute\n")
    return name


def _find_optional_modules(scene: Scene, name: str) -> set[str]:
    """Find the modules that a file imports optionally."""
    found = set(re.findall(r'find_spec\("([\w.]+)"\)', scene.read(name)))
    found |= {f"pack.ways.{tool}_2" for tool in re.findall(r"pack\.ways\.(\w+)_\{", scene.read(name))}
    for node in ast.walk(scene.parse(name) or ast.Module([], [])):
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
    """Add `x/__init__.py` next to `x.py`: Python prefers the package."""

    def is_candidate(name: str) -> bool:
        is_single_file = not name.endswith("__init__.py") and name != FRAME[0] and name.startswith(("pack/", *roots))
        return is_single_file and not scene.has(name.removesuffix(".py")) and "from ." not in scene.read(name)

    roots = tuple(name for name in scene.list_python_files() if "/" not in name) or ("pack/",)
    names = scene.list_sources(is_candidate)
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
    """Add a module to the project with the name of a module of the standard library."""
    names = [f"{name}.py" for name in _LIBRARIES if not scene.has(f"{name}.py")]
    used_names = [
        name for name in names if any(f"import {name[:-3]}\n" in scene.read(other) for other in scene.list_sources())
    ]
    if not names:
        return None
    name = scene.rng.choice(used_names or names)
    scene.write(name, f"def abacus_{scene.pick_number()}(n):\n    return n\n")
    return name


def module_deleted(scene: Scene) -> str | None:
    """Delete a module, or the `__init__.py` of a package."""
    name = scene.rng.choice(_list_removable_modules(scene))
    scene.delete(name)
    return name


def module_renamed(scene: Scene) -> str | None:
    """Rename a module, but not the imports of it."""
    name = scene.rng.choice([name for name in _list_removable_modules(scene) if not name.endswith("__init__.py")])
    other = f"{name.removesuffix('.py')}_{scene.pick_number()}.py"
    scene.rename(name, other)
    return f"{name} is now {other}"


def _list_removable_modules(scene: Scene) -> list[str]:
    protected = () if scene.rng.random() < 0.1 else FRAME
    return [name for name in scene.list_python_files() if name not in protected and name != FRAME[0]]


def package_renamed(scene: Scene) -> str | None:
    """Rename a folder of modules."""
    folders = sorted(
        {name.rpartition("/")[0] for name in scene.list_python_files()} - {"", "pack", "scratch", "pack/tools"}
    )
    if not folders:
        return None
    folder = scene.rng.choice(folders)
    other = f"{folder}_{scene.pick_number()}"
    for name in sorted(scene.files):
        if name.startswith(f"{folder}/"):
            scene.rename(name, other + name.removeprefix(folder))
    return f"{folder} is now {other}"


def package_made(scene: Scene) -> str | None:
    """Add an `__init__.py` to a folder without one."""
    folders = {name.rpartition("/")[0] for name in scene.list_python_files() if name.startswith("pack/")}
    names = sorted(f"{folder}/__init__.py" for folder in folders if not scene.has(f"{folder}/__init__.py"))
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.write(name, scene.rng.choice(("", f"ADDED = {scene.pick_number()}\n", "raise RuntimeError('not ready')\n")))
    return name


def plugin_added(scene: Scene) -> str | None:
    """Add a module to a folder of plugins."""
    folders = sorted({n.rpartition("/")[0] for n in scene.list_python_files() if re.match(r"pack/plugins/\w+/", n)})
    if not folders:
        return None
    name = f"{scene.rng.choice(folders)}/{scene.rng.choice('abgz')}_{scene.pick_number()}.py"
    scene.write(name, f"NAME = {scene.pick_number()}\n\n\ndef run(n):\n    return n\n")
    return name


def unused_module(scene: Scene) -> str | None:
    """Add or edit a module that nothing imports."""
    folder = scene.rng.choice(("scratch", "pack/tools", "pack/shared", "."))
    name = "scratch/unused.py" if scene.rng.random() < 0.3 else f"{folder}/unused_{scene.pick_number()}.py"
    scene.write(name.removeprefix("./"), f"VALUE = {scene.pick_number()}\n")
    return name


def _to_module_name(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


EDITS = (
    function_added, function_deleted, function_renamed, functions_reordered, import_added, library_imported,
    patched_from_outside, module_satisfies_import, module_shadowed, library_shadowed, module_deleted, module_renamed,
    package_renamed, package_made, plugin_added,
)  # fmt: skip
NEUTRAL_EDITS = (unused_module,)
