"""The layout of the package: names of modules and classes, imports, and private names of other packages."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp

PACKAGE = Path(__file__).parent.parent / "workbench"


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
    """Imports inside of functions and imports for type checkers count, too."""
    graph = grimp.build_graph("workbench", cache_dir=None)
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


def test_test_modules_import_nothing_from_each_other() -> None:
    """Expect shared helpers in a module of their own, or in the `conftest.py` of the folder or of one above it."""
    tests = Path(__file__).parent
    found = set()
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("tests")):
                names = (node.module or "").split(".")[-1], *(alias.name for alias in node.names)
                is_foreign = tests.parent.joinpath(*(node.module or "").split(".")[:-1]) not in path.parents
                if any(name.startswith("test_") for name in names) or (names[0] == "conftest" and is_foreign):
                    found.add(f"{path.relative_to(tests)}:{node.lineno}")

    assert found == set()


_PRIVATE_NAMES = {
    ("__init__", "_ensure_litellm_imported"): "imports LiteLLM before the fork in the mode in which google-adk does",
    # The recorder observes the imports of an agent.
    ("hooks", "_imp"): "whether a module is frozen, at every import; the public way makes a specification",
    ("hooks", "_thread._local"): "`threading` must not be imported before the agent imports it",
    ("recorder", "_thread._local"): "`threading` must not be imported before the agent imports it",
    ("hooks", "_NormalAccessor"): "what `pathlib` of Python 3.10 calls",
    # What an agent sends to models and tools is observed where all public methods lead.
    ("langchain_tracing", "_run"): "documented for tools of one's own; gets validated arguments",
    ("langchain_tracing", "_arun"): "documented for tools of one's own; gets validated arguments",
    ("model_clients", "_request"): "not all versions of aiohttp have middlewares; without it, calls are announced",
    ("model_clients", "_headers"): "of replayed answers; the public attribute is read-only",
    ("model_clients", "_raw_headers"): "of replayed answers; the public attribute is read-only",
    ("model_clients", "_base_url"): "aiohttp has no public attribute",
    ("model_clients", "_value"): "of a payload of aiohttp, whose public methods may consume it",
    ("model_clients", "_tunnel_host"): "`http.client` has no public attribute",
    ("model_clients", "_tunnel_port"): "`http.client` has no public attribute",
    ("telemetry", "_TRACER_PROVIDER"): "the public function works once, and the agent may call it later",
    # Google ADK and Ray.
    ("adk_agents", "google.adk.flows.llm_flows.agent_transfer._get_transfer_targets"): "ADK decides it itself",
    ("adk_plugin", "_invocation_context"): "the public getter returns copies, which do not identify a run",
    ("adk_plugin", "_additional_args"): "arguments for LiteLLM, which have no public attribute",
    ("ray_hosts", "_private"): "it prints about lost nodes in spite of `log_to_driver=False`",
    ("ray_hosts", "_worker_logs_enabled"): "it prints about lost nodes in spite of `log_to_driver=False`",
    # Libraries of the interface.
    ("file_watcher", "watchfiles._rust_notify"): "documented; `watchfiles.watch` starts too late and may end early",
    ("app", "textual._context"): "no public way to what runs now",
    ("app", "_compositor"): "Textual exports pictures as SVG only",
    ("app", "_display"): "no public hook before the screen is drawn",
    ("app", "_handle_exception"): "no public hook for exceptions that end the application",
    ("app", "_file"): "a driver cannot be given its output",
    ("dialogs", "_pruning"): "public attributes do not say that a widget is being removed",
    ("watch_controller", "_driver"): "no public way to write a sequence to the terminal",
}
"""Private names of other packages that `workbench/` uses because there is no public way, by module, with the reason.

Each use of a library has a guard for versions without the name.
"""

# In spite of the underscore.
_DOCUMENTED = {"_asdict", "_exit", "_fields", "_getframe", "_make", "_replace", "_thread.allocate_lock"}
_BY_NAME = ("delattr", "getattr", "hasattr", "setattr", "object.__setattr__")


def test_private_names_of_other_packages_are_listed() -> None:
    modules = {path: _list_nodes(ast.parse(path.read_text("utf-8"))) for path in PACKAGE.rglob("*.py")}
    ours = {path: _find_definitions(nodes) for path, nodes in modules.items()}
    anywhere = set().union(*ours.values())
    found = {
        (path.stem, name)
        for path, nodes in modules.items()
        for name in {
            *_find_private_imports(nodes),
            *(name for is_own, name in _find_private_uses(nodes) if name not in (anywhere if is_own else ours[path])),
            *(_find_private_overrides(path, nodes) if "tui" in path.parts else ()),
        }
    }

    assert found - _PRIVATE_NAMES.keys() == set(), "use public names, or list these with a reason"
    assert _PRIVATE_NAMES.keys() - found == set(), "no longer used"


def _list_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return the parts of a piece of code that may define or use names, except for variables that are read."""
    kinds = ast.Attribute, ast.Call, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]


def _is_private(name: str) -> bool:
    return name[:1] == "_" and name[1:2] not in ("", "_") and name not in _DOCUMENTED


def _find_definitions(nodes: list[ast.AST]) -> set[str]:
    """Return the private names that are defined: functions, classes, variables and attributes of `self`."""
    found = _find_attributes(nodes)
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return set(filter(_is_private, found))


def _find_attributes(nodes: list[ast.AST]) -> set[str]:
    """Return the attributes that are set on `self`."""
    attributes = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in attributes if _is_self(node.value)}


def _is_self(owner: ast.expr) -> bool:
    match owner:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
        case _:
            return False


def _find_private_imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            is_private = any(map(_is_private, node.module.split(".")[1:]))
            names = [node.module] if is_private else [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            is_own = name.split(".")[0] in ("workbench", "_workbench_worker")  # its name in the process of an agent
            if not is_own and name not in _DOCUMENTED and any(map(_is_private, name.split("."))):
                yield name


def _find_private_uses(nodes: list[ast.AST]) -> Iterator[tuple[bool, str]]:
    """Yield the private attributes that are used, and whether they are attributes of `self`."""
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if _is_private(node.attr):
                yield _is_self(node.value), node.attr
        elif isinstance(node, ast.Call):
            match node.args:
                case [owner, ast.Constant(value=str(name)), *_] if _is_private(name):
                    if ast.unparse(node.func) in _BY_NAME:
                        yield _is_self(owner), name


def _find_private_overrides(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the private names of other packages' classes that classes derived from them use or define."""
    module = importlib.import_module(".".join(("workbench", *path.relative_to(PACKAGE).with_suffix("").parts)))
    known = dict(vars(module))
    for node in nodes:
        if (
            isinstance(node, ast.ImportFrom) and node.module is not None and "driver" in node.module
        ):  # inside a function
            known |= vars(importlib.import_module(node.module))
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            mro = [each for base in node.bases for each in _resolve_mro(base, known)]
            theirs = set().union(*(_find_private_names(each) for each in mro))
            if theirs:
                inside = _list_nodes(node)
                used = {name for is_own, name in _find_private_uses(inside) if is_own}
                yield from theirs & (used | _find_definitions(inside))


def _resolve_mro(base: ast.expr, names: dict[str, Any]) -> tuple[type, ...]:
    """Return the classes of a base; none if it is defined inside of another class."""
    name, *inner = ast.unparse(base).partition("[")[0].split(".")
    kind = functools.reduce(lambda owner, attribute: getattr(owner, attribute, None), inner, names.get(name))
    return getattr(kind, "__mro__", ())


@functools.cache
def _find_private_names(kind: type) -> set[str]:
    """Return the private names that a class of another package defines."""
    package = kind.__module__.partition(".")[0]
    if package == "workbench" or package in sys.stdlib_module_names:
        return set()
    definitions = (node for node in ast.walk(_parse(inspect.getfile(kind))) if isinstance(node, ast.ClassDef))
    attributes = (_find_attributes(_list_nodes(node)) for node in definitions if node.name == kind.__name__)
    return set(filter(_is_private, set(vars(kind)).union(*attributes)))


@functools.cache
def _parse(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text("utf-8"))
