"""The layout of the package: length and names of modules, circular imports, and the location of tests."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import grimp

PACKAGE = Path(__file__).parent.parent / "workbench"
_LONGEST = 800  # lines
_MOST = 294  # modules, except `__init__.py` files with only a docstring; 260 before the commands that search for causes


def test_modules_are_short_and_few() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}

    assert not [f"{path}: {length} lines" for path, length in lengths.items() if length > _LONGEST]
    assert sum(path.name != "__init__.py" or length > 10 for path, length in lengths.items()) <= _MOST


def test_module_names_are_unique() -> None:
    paths = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        name = path.parent.name if path.name == "__init__.py" else path.stem
        if name != "workbench" and "_bundled" not in path.parts:
            paths[name].append(path)
    # Packages that contain a module of the same name, and the module that has the name of the SDK's.
    for name in ("backend", "dialogs", "history", "metrics"):
        paths.pop(name)

    assert not {name for name, found in paths.items() if len(found) > 1}


def test_class_names_are_unique() -> None:
    """A class is found by its name in a search, a traceback and a log. Private names and nested classes are exempt."""
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    # One interface, which the worker finds by this name in the module of each kind of agent.
    places.pop("Adapter")
    # Names of the Vertex SDK in `workbench.testing`: ADK has the same names in its files, and the SDK uses two of them
    # both for a class and for a group of constants.
    for name in ("Dataset", "EvalCase", "Metric", "MetricResult"):
        places[name] = [path for path in places[name] if not path.startswith("testing/")]

    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_imports_are_not_circular() -> None:
    graph = grimp.build_graph("workbench", exclude_type_checking_imports=True, cache_dir=None)
    downstream = {module: graph.find_downstream_modules(module) for module in graph.modules}
    circles = {
        frozenset(
            other.removeprefix("workbench.") for other in {module} | {o for o in found if module in downstream[o]}
        )
        for module, found in downstream.items()
    }

    assert not {circle for circle in circles if len(circle) > 1}


def test_module_names_in_strings_exist() -> None:
    graph = grimp.build_graph("workbench", cache_dir=None)
    layers = "agents|cli|engine|llm|metrics|model|report|simulation|store|testing|tui|watch"
    module_name = re.compile(rf"workbench\.(?:{layers})(?:\.\w+)*")
    strings = [
        node.value.partition(":")[0]
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    assert not {text for text in strings if module_name.fullmatch(text)} - graph.modules


def test_test_files_mirror_the_modules_they_test() -> None:
    """Expect `tests/a/test_b.py` or `tests/a/b/test_….py` for `workbench/a/b.py`."""
    tests = Path(__file__).parent
    layers = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    misplaced = []
    for path in tests.rglob("test_*.py"):
        place = path.relative_to(tests)
        if place.parts[0] not in layers or "generated" in place.parts:
            continue
        folder, name = PACKAGE / place.parent, place.stem.removeprefix("test_")
        is_of_adapter = folder.parent.name == "adapters" and folder.is_dir()  # tested as a whole
        is_of_folder = folder.with_suffix(".py").exists()
        if not (is_of_adapter or is_of_folder or (folder / name).exists() or (folder / f"{name}.py").exists()):
            misplaced.append(str(place))

    assert misplaced == []
