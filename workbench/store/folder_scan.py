"""Search of folders for agents and eval sets."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from workbench.store.files import CRITERIA_FILES, EVAL_SET_SUFFIXES, SIDECAR_SUFFIX, is_eval_set

# One walk over a project finds possible agents and eval sets

_AGENT_CONFIG = "root_agent.yaml"
AGENT_FILES = ("agent.py", "__init__.py", _AGENT_CONFIG)

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})


@dataclass
class Findings:
    """The result of a walk. `agent_files` maps a folder to its files among AGENT_FILES.

    `sidecars` are the files beside eval sets and datasets, `criteria` the files of criteria.
    """

    agent_files: dict[str, list[str]] = field(default_factory=dict)
    eval_sets: list[str] = field(default_factory=list)
    sidecars: list[str] = field(default_factory=list)
    criteria: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def walk(root: Path) -> Findings:
    """Search the folders below `root`. JSON files of other programs are ignored.

    Hidden folders (version control, caches, `.venv`, `.adk`, `.workbench`), virtual environments and installed packages
    are skipped. Links to folders outside of the root are followed, each folder once.
    """
    findings = Findings()
    seen_links: set[str] = set()
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as error:
            findings.problems.append(f"{os.path.relpath(folder, root)}: cannot be read: {error.strerror}")
            continue
        if any(entry.name == "pyvenv.cfg" for entry in found):
            continue
        for entry in found:
            name = entry.name
            if name in AGENT_FILES:
                findings.agent_files.setdefault(folder, []).append(name)
            elif name.endswith(EVAL_SET_SUFFIXES) and _is_file(entry):
                if is_eval_set(Path(entry.path)):
                    findings.eval_sets.append(entry.path)
            elif name.endswith(SIDECAR_SUFFIX) and _is_file(entry):
                findings.sidecars.append(entry.path)
            elif name in CRITERIA_FILES:
                findings.criteria.append(entry.path)
            elif not name.startswith(".") and name not in _SKIPPED and _is_new_folder(entry, str(root), seen_links):
                waiting.append(entry.path)
    findings.eval_sets.sort()
    findings.criteria.sort()
    return findings


def _is_file(entry: os.DirEntry[str]) -> bool:
    """True for a file, or a broken link, which must be reported. False for a pipe, which would never end."""
    return _check_entry(entry.is_file) or (entry.is_symlink() and not os.path.exists(entry.path))  # noqa: PTH110 - as os.scandir


def _is_new_folder(entry: os.DirEntry[str], root: str, seen_links: set[str]) -> bool:
    """True for a folder that the walk has not visited and will not visit otherwise."""
    if not _check_entry(entry.is_dir):
        return False
    if not entry.is_symlink():
        return True
    real = os.path.realpath(entry.path)
    if real in seen_links or os.path.commonpath([real, root]) in (root, real):
        return False
    seen_links.add(real)
    return True


def _check_entry(kind: Callable[[], bool]) -> bool:
    """Return False for a link that leads to itself."""
    try:
        return kind()
    except OSError:
        return False


# ADK agents in Python source, found in its syntax tree without importing it

_NAMES = ("root_agent", "app", "get_agent_async", "get_agent")
_FACTORIES = ("get_agent_async", "get_agent")
_PROMISING = re.compile(rb"agent|\bapp\b")
_BOUND_IN_BROKEN_SOURCE = re.compile(rb"^(?:root_agent\b|(?:async )?def get_agent)", re.MULTILINE)
_YAML_AGENT = re.compile(rb"^(?:agent_class|instruction|sub_agents)[ \t]*:", re.MULTILINE)
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_TRIES = 5
_MOST_MODULES = 4  # maximum length of a chain of imports: package -> agent -> factory -> ...


class InvalidSource(Exception):
    """A file is not valid Python. `is_agent`: its text looks like that of an ADK agent."""

    def __init__(self, message: str, *, is_agent: bool) -> None:
        super().__init__(message)
        self.is_agent = is_agent


@dataclass(frozen=True)
class _Imported:
    """An import. `name` is empty for `import module`; `level` counts leading dots."""

    module: str
    level: int
    name: str


@dataclass
class _Module:
    """The names of a module's top level. `values` are bound expressions, None if there is no expression."""

    path: Path
    imported: dict[str, _Imported] = field(default_factory=dict)
    values: dict[str, ast.expr | None] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    imports: set[_Imported] = field(default_factory=set)  # anywhere in the module

    @property
    def imports_adk(self) -> bool:
        names = (f"{source.module}.{source.name}." for source in self.imports if not source.level)
        return any(name.startswith("google.adk.") for name in names)


def explain_missing_agent(folder: Path) -> str | None:
    """Explain what the files in a folder lack for an ADK agent; None if no file looks like an agent."""
    for name in ("agent.py", "__init__.py"):
        path = folder / name
        try:
            module = _parse(path, path.read_bytes())
        except InvalidSource as broken:
            return f"{name}:{broken}"
        except OSError:  # missing
            continue
        if not module.imports_adk and name != "agent.py":
            continue
        bound = sorted({*module.values, *module.functions})
        near = next((close for known in _NAMES for close in get_close_matches(known, bound, n=1, cutoff=0.8)), None)
        if near is not None and near not in _NAMES:
            wanted = get_close_matches(near, _NAMES, n=1, cutoff=0.8)[0]
            return f"{name} defines {near!r}, expected {wanted!r}"
        if not module.imports_adk:
            return f"{name} imports nothing from google.adk, so it is not an ADK agent"
        return f"{name} defines none of {', '.join(_NAMES)}: expected an agent named root_agent, or an App named app"
    return _find_misspelt_file(folder)


def _find_misspelt_file(folder: Path) -> str | None:
    """Return how to fix a file that holds an agent under a wrong name; None if there is no such file."""
    paths: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        paths = {path.name.lower(): path for path in folder.iterdir()}
    for name in get_close_matches("agent.py", [name for name in paths if name.endswith(".py")], cutoff=0.8):
        with contextlib.suppress(OSError, InvalidSource):
            module = _parse(paths[name], paths[name].read_bytes())
            if module.imports_adk and not {*module.values, *module.functions}.isdisjoint(_NAMES):
                return f"{paths[name].name} is not read: rename it to agent.py"
    texts = [name for name in paths if name.endswith((".yaml", ".yml"))]
    for name in get_close_matches(_AGENT_CONFIG, texts, n=1, cutoff=0.85) or ["agent.yaml", "agent.yml"]:
        with contextlib.suppress(KeyError, OSError):
            if name.startswith("root_") or _YAML_AGENT.search(paths[name].read_bytes()):
                return f"{paths[name].name} is not read: rename it to {_AGENT_CONFIG}"
    return None


def holds_adk_agent(path: Path, *, root: Path) -> bool:
    """True if the module at `path` binds an ADK agent, itself or by importing one from another module below `root`.

    An agent config always is one. Raises InvalidSource if the file is not valid Python, OSError if it cannot be read.
    """
    if path.name == _AGENT_CONFIG:
        return True
    data = path.read_bytes()
    if not _PROMISING.search(data):
        return False
    module = _parse(path, data)
    return any(_binds_agent(module, name, root, depth=1) for name in _NAMES) or _is_in_imported_module(module, root)


def _is_in_imported_module(module: _Module, root: Path) -> bool:
    """True if the package imports another of its modules as `agent`: `from . import some_module as agent`."""
    source = module.imported.get("agent")
    if module.path.name != "__init__.py" or source is None:
        return False
    agent = _load(_find_file(module, _Imported(_join_names(source.module, source.name), source.level, ""), root))
    return agent is not None and any(_binds_agent(agent, name, root, depth=2) for name in _NAMES)


def _binds_agent(module: _Module, name: str, root: Path, *, depth: int) -> bool:
    if name in module.imported:
        source = module.imported[name]
        origin = _load(_find_file(module, source, root)) if depth < _MOST_MODULES else None
        if origin is not None:
            return _binds_agent(origin, source.name, root, depth=depth + 1)
        return name == "root_agent" and module.imports_adk
    if name in module.functions:
        return name != "app" and _reaches_adk(module, root, depth=depth)
    if name not in module.values or name in _FACTORIES:
        return False
    if name == "app":
        return _is_adk_app(module, module.values[name])
    return _reaches_adk(module, root, depth=depth)


def _is_adk_app(module: _Module, value: ast.expr | None) -> bool:
    """True for a call of google.adk's App, or of a function of a module that imports it."""
    if not isinstance(value, ast.Call):
        return False
    called = _format_dotted_name(value.func)
    first = called.split(".", 1)[0]
    if first in module.imported:
        source = module.imported[first]
        called = _join_names(source.module, source.name) + called.removeprefix(first)
        return called.startswith("google.adk.") and called.endswith(".App")
    if first in module.functions:
        source = module.imported.get("App", _Imported("", 0, ""))
        return source.module.startswith("google.adk")
    return called.startswith("google.adk.") and called.endswith(".App")


def _reaches_adk(module: _Module, root: Path, *, depth: int) -> bool:
    """True if the module imports google.adk, or a module below the root that does."""
    if module.imports_adk:
        return True
    if depth >= _MOST_MODULES:
        return False
    files = {_find_file(module, source, root) for source in module.imports}
    return any(origin is not None and _reaches_adk(origin, root, depth=depth + 1) for origin in map(_load, files))


def _find_file(module: _Module, source: _Imported, root: Path) -> Path | None:
    """Return the file of an import if it is below the root (for relative imports: beside the module)."""
    folder = module.path.parent
    if source.level:
        bases = [folder, *folder.parents][source.level - 1 : source.level]
    else:
        bases = [base for base in (folder, *folder.parents) if base == root or base.is_relative_to(root)]
    names = [*source.module.split(".")] if source.module else []
    for base in bases:
        place = base.joinpath(*names)
        candidates = [place / f"{source.name}.py", place / source.name / "__init__.py"] if source.name else []
        candidates += [place.with_name(f"{place.name}.py")] if names else []
        for file in (*candidates, place / "__init__.py"):
            if file != module.path and file.is_file():
                return file
    return None


def _load(path: Path | None) -> _Module | None:
    """Parse another module; None if it is missing or broken, which its own folder reports."""
    if path is None:
        return None
    try:
        return _parse(path, path.read_bytes())
    except (OSError, InvalidSource):
        return None


@lru_cache(maxsize=64)
def _parse(path: Path, data: bytes) -> _Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the user's strings
            tree = _parse_source(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        looks_like_one = bool(_BOUND_IN_BROKEN_SOURCE.search(data)) and b"google.adk" in data
        line = f"{error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else " "
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise InvalidSource(f"{line}not readable as Python: {reason}", is_agent=looks_like_one) from None
    module = _Module(path)
    for statement in _iterate_top_level(tree.body):
        _note_bindings(module, statement)
    for node in ast.walk(tree):
        _note_imports(module, node)
    return module


def _parse_source(data: bytes) -> ast.Module:
    """Parse source. In Python 3.11 `ast.parse` may raise SystemError if two threads parse at the same time."""
    for _ in range(_TRIES):
        with contextlib.suppress(SystemError):
            return ast.parse(data)
    return ast.parse(data)


def _iterate_top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run on import, including those inside `if`, `try`, `with` and loops."""
    waiting: list[ast.AST] = list(reversed(body))  # no recursion: a long chain of `elif` is deeply nested
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = [part for name in _BLOCKS for part in getattr(node, name, [])]
            waiting.extend(reversed(inside))


def _note_bindings(module: _Module, statement: ast.stmt) -> None:
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        module.values[name.id] = value if name is target else None
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            module.values[name] = value
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.functions.add(name)
        case ast.Import(names=aliases):
            for alias in aliases:
                if alias.asname:
                    module.imported[alias.asname] = _Imported(alias.name, 0, "")
        case ast.ImportFrom(module=source, names=aliases, level=level):
            for alias in aliases:
                module.imported[alias.asname or alias.name] = _Imported(source or "", level, alias.name)
        case _:
            pass


def _note_imports(module: _Module, node: ast.AST) -> None:
    match node:
        case ast.Import(names=aliases):
            module.imports.update(_Imported(alias.name, 0, "") for alias in aliases)
        case ast.ImportFrom(module=source, names=aliases, level=level):
            module.imports.update(_Imported(source or "", level, alias.name) for alias in aliases)
        case _:
            pass


def _join_names(module: str, name: str) -> str:
    return f"{module}.{name}" if module and name else module or name


def _format_dotted_name(function: ast.expr) -> str:
    """Format a dotted name as written; empty for any other expression."""
    names: list[str] = []
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    return ".".join([function.id, *reversed(names)]) if isinstance(function, ast.Name) else ""
