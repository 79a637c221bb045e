"""The declarations in the source of agents, read from the syntax trees of their modules without importing them.

It finds functions, agents, tools, callbacks, nodes of graphs and prompt files. A value that code computes is not found:
what frameworks report in traces completes these declarations.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from workbench.agents.worker.recording.blocks import parse_source
from workbench.agents.worker.recording.definitions import find_callback_lambdas, may_have_callbacks
from workbench.model.target import AgentKind, Target
from workbench.store.project_discovery import find_agent_folder

_CALLBACK = re.compile(r"(before|after|on)_\w+_callback")
_PROMPT_SUFFIXES = (".txt", ".md", ".prompt", ".j2", ".jinja", ".jinja2", ".mustache", ".tmpl")
_PROMPT_FOLDER = re.compile(r"prompt|instruction|template", re.IGNORECASE)
_NO_PROMPTS = re.compile(r"readme|changelog|contributing|licen[cs]e|notice|requirements|agents|claude", re.IGNORECASE)
_MOST_IMPORTS = 5  # from the use of a name to its definition
_ASK_MODELS = frozenset({"Agent", "LlmAgent"})
_DELEGATED = frozenset({"task", "single_turn"})  # modes in which ADK makes a tool of a sub-agent
_MAKES_TOOLS = frozenset({"tool", "StructuredTool", "Tool", "from_function"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Imported(NamedTuple):
    """An import; `name` is empty for `import module`."""

    module: str
    level: int
    name: str


@dataclass
class _SourceFile:
    """One parsed module: the lines of its functions by qualified name, and the names of its top level."""

    path: Path
    functions: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, list[int]] = field(default_factory=dict)  # the lines of functions with the same name
    imports: dict[str, _Imported] = field(default_factory=dict)
    modules: list[_Imported] = field(default_factory=list)  # imported anywhere
    values: dict[str, ast.expr] = field(default_factory=dict)
    calls: list[tuple[ast.Call, str]] = field(default_factory=list)  # each with the prefix of names around it
    lambdas: dict[int, tuple[str, int]] = field(default_factory=dict)  # names and lines, by the id of the node
    returned: dict[str, list[ast.expr | None]] = field(default_factory=dict)  # by function
    tools: dict[str, int] = field(default_factory=dict)  # decorated functions

    def add_function(self, node: Function, prefix: str) -> None:
        """Add a function, unless nothing in it can run."""
        if not _is_stub(node):
            name = prefix + node.name
            if name in self.functions:
                self.repeated.setdefault(name, [self.functions[name]]).append(node.lineno)
            self.functions[name] = min(node.lineno, self.functions.get(name, node.lineno))
        decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        if any(_get_last_name(each) == "tool" for each in decorators):
            self.tools[_name_decorated(node)] = node.lineno

    def add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                imported, name = _Imported(alias.name, 0, ""), alias.asname or alias.name.partition(".")[0]
            else:
                imported, name = _Imported(node.module or "", node.level, alias.name), alias.asname or alias.name
            self.modules.append(imported)
            self.imports[name] = imported

    def add_values(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Add the names that an assignment at the top binds."""
        for name in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(name, ast.Name) and node.value is not None:
                self.values[name.id] = node.value


class _Found(NamedTuple):
    """The definition of a value: the name of a function in a file, or an expression."""

    file: _SourceFile
    function: str | None = None
    value: ast.expr | None = None


class DeclaredAgent(NamedTuple):
    """An agent as its source declares it. `hands_up` and `hands_across`: its model may hand over to the agent above it,
    and to those beside it. `is_delegate`: no model hands over to it, it is a tool of the agent above it."""

    place: str
    has_instruction: bool
    tools: Sequence[str]
    agents: Sequence[str]
    asks_model: bool = False
    hands_up: bool = False
    hands_across: bool = False
    is_delegate: bool = False


class Callback(NamedTuple):
    """A callback of an agent; `function` is its key in the dependencies, None for a computed value."""

    name: str
    place: str
    function: str | None


@dataclass
class AgentSource:
    """The declarations in the modules of an agent. `files` are its functions with their lines, by path."""

    files: dict[str, Mapping[str, int]] = field(default_factory=dict)
    agents: dict[str, DeclaredAgent] = field(default_factory=dict)
    callbacks: list[Callback] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    prompt_files: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def list_transfers(self) -> Iterator[tuple[str, str]]:
        """Yield the transfers to agents above and beside that ADK offers to the models of these agents."""
        for above, parent in self.agents.items():
            for name in parent.agents if parent.asks_model else ():
                agent = self.agents.get(name)
                if agent is None or not agent.asks_model:
                    continue
                if agent.hands_up:
                    yield name, above
                for beside in parent.agents if agent.hands_across else ():
                    if beside != name and not (beside in self.agents and self.agents[beside].is_delegate):
                        yield name, beside


def read_agent_source(target: Target, *, root: Path, recorded: Collection[str] = ()) -> AgentSource:
    """Read the modules of an agent: its own, those that they import, and `recorded` ones, which a case imported."""
    return _SourceReader(target, root=root).read(recorded)


class _SourceReader:
    def __init__(self, target: Target, *, root: Path) -> None:
        self._target = target
        self._root = root
        self._folder = find_agent_folder(target)
        self._files: dict[Path, _SourceFile | None] = {}
        self._source = AgentSource()

    def read(self, recorded: Collection[str]) -> AgentSource:
        waiting = [*self._find_entries(), *(Path(path) for path in recorded)]
        while waiting:
            path = waiting.pop()
            if path not in self._files and self._is_own(path) and path.is_file():
                file = self._files[path] = self._parse(path)
                if file is not None:
                    waiting += [found for each in file.modules for found in self._find_modules(each, path)]
        files = [self._files[path] for path in sorted(self._files)]
        for file in [each for each in files if each is not None]:
            self._source.files[str(file.path)] = file.functions
            for function, lines in file.repeated.items():
                shown = ", ".join(map(str, sorted(lines)))
                self._source.problems.append(
                    f"{self._relative(file.path)}: {function} is defined in several places (lines {shown}), "
                    "which count as one function"
                )
            for name, line in file.tools.items():
                self._source.tools[name] = self._make_place(file, line)
            for call, prefix in file.calls:
                self._read_call(file, call, prefix)
        self._source.prompt_files = sorted(self._find_prompt_files())
        return self._source

    def _find_entries(self) -> list[Path]:
        target = self._target
        if target.kind is AgentKind.ADK and self._folder is not None:
            return [self._folder / name for name in ("agent.py", "__init__.py", "agent/__init__.py", "agent/agent.py")]
        if self._folder is None or not target.runs_in_worker:
            return []
        module = target.path.joinpath(*target.location.split(":")[0].split("."))
        return [module.with_name(f"{module.name}.py"), module / "__init__.py"]

    def _is_own(self, path: Path) -> bool:
        """Return whether a file belongs to the project: neither installed nor hidden."""
        bases = [base for base in (self._root, self._target.path) if path.is_relative_to(base)]
        folders = path.relative_to(bases[0]).parts[:-1] if bases else ()
        hidden = any(name.startswith(".") or name in ("site-packages", "node_modules", "venv") for name in folders)
        return bool(bases) and not hidden and path.suffix == ".py"

    def _parse(self, path: Path) -> _SourceFile | None:
        try:
            source = path.read_bytes()
            tree = parse_source(source, str(path))
        except SyntaxError as error:
            self._source.problems.append(
                f"{self._relative(path)}:{error.lineno}: {error.msg}; its functions and agents are unknown"
            )
        except (OSError, ValueError, RecursionError, MemoryError, SystemError) as error:
            self._source.problems.append(f"{self._relative(path)}: cannot be read: {error}")
        else:
            return _read_tree(path, tree, lambdas=find_callback_lambdas(tree) if may_have_callbacks(source) else {})
        return None

    def _find_modules(self, imported: _Imported, importer: Path) -> Iterator[Path]:
        """Yield the files that an import may run, as far as they belong to the project."""
        if imported.level:
            folder = importer.parent
            for _ in range(imported.level - 1):
                folder = folder.parent
            bases = [folder]
        else:
            bases = list(dict.fromkeys([self._target.path, *([self._folder] if self._folder else []), self._root]))
        for base in bases:
            place = base.joinpath(*imported.module.split(".")) if imported.module else base
            found = [place.with_name(f"{place.name}.py"), place / "__init__.py"]
            if imported.name:
                found += [place / f"{imported.name}.py", place / imported.name / "__init__.py"]
            inner = place.parent
            while imported.module and inner != base:  # packages around it are imported as well
                found.append(inner / "__init__.py")
                inner = inner.parent
            existing = [path for path in found if self._is_own(path) and path.is_file()]
            if existing:
                yield from existing
                return

    def _resolve(self, file: _SourceFile, value: ast.expr | None, *, left: int = _MOST_IMPORTS) -> _Found | None:
        """Follow a value to its definition."""
        if not left or value is None:
            return None
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            imported = file.imports.get(value.value.id)
            method = self._resolve_method(file, value)
            if imported is None or method is not None:
                return method
            module = _Imported(".".join(filter(None, (imported.module, imported.name))), imported.level, "")
            return self._resolve_in(module, file, value.attr, left)
        if isinstance(value, ast.Attribute):
            return self._resolve_method(file, value)
        if not isinstance(value, ast.Name):
            return _Found(file, value=value)
        if value.id in file.functions:
            return _Found(file, function=value.id)
        if value.id in file.values:
            return self._resolve(file, file.values[value.id], left=left - 1)
        imported = file.imports.get(value.id)
        return None if imported is None else self._resolve_in(imported, file, imported.name, left)

    def _resolve_method(self, file: _SourceFile, value: ast.Attribute) -> _Found | None:
        """Follow `Desk.open`, `Desk().open`, and `desk.open` of an instance, to the method of a class."""
        owner = value.value
        if isinstance(owner, ast.Name):
            owner = file.values.get(owner.id, owner)
        if isinstance(owner, ast.Call):
            owner = owner.func
        if not isinstance(owner, ast.Name):
            return None
        if (name := f"{owner.id}.{value.attr}") in file.functions:
            return _Found(file, function=name)
        imported = file.imports.get(owner.id)
        for path in () if imported is None else self._find_modules(imported, file.path):
            other = self._files.get(path)
            if imported is not None and other is not None and f"{imported.name}.{value.attr}" in other.functions:
                return _Found(other, function=f"{imported.name}.{value.attr}")
        return None

    def _resolve_in(self, module: _Imported, importer: _SourceFile, name: str, left: int) -> _Found | None:
        for path in self._find_modules(module, importer.path):
            file = self._files.get(path)
            if file is not None and (name in file.functions or name in file.values or name in file.imports):
                return self._resolve(file, ast.Name(id=name, ctx=ast.Load()), left=left - 1)
        return None

    def _read_call(self, file: _SourceFile, call: ast.Call, prefix: str) -> None:
        keywords = _get_keywords(call)
        called = _get_last_name(call.func)
        named = self._resolve(file, keywords.get("name"))
        owner = None if named is None else get_text(named.value)
        for keyword, value in keywords.items():
            if _CALLBACK.fullmatch(keyword):
                for each in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
                    self._read_callback(file, f"{owner or called}.{keyword}", each, prefix)
        if self._target.kind is AgentKind.LANGCHAIN:
            self._read_graph_call(file, call, called)
        elif self._target.kind is AgentKind.ADK and owner is not None and called.endswith("Agent"):
            self._source.agents[owner] = DeclaredAgent(
                place=self._make_place(file, call.lineno),
                has_instruction=not keywords.keys().isdisjoint(("instruction", "static_instruction")),
                tools=self._name_items(file, keywords.get("tools")),
                agents=self._name_items(file, keywords.get("sub_agents")),
                asks_model=called in _ASK_MODELS,
                hands_up=_is_not_set(keywords.get("disallow_transfer_to_parent")),
                hands_across=_is_not_set(keywords.get("disallow_transfer_to_peers")),
                is_delegate=get_text(keywords.get("mode")) in _DELEGATED,
            )

    def _read_graph_call(self, file: _SourceFile, call: ast.Call, called: str) -> None:
        """Read a node of a graph, or the tools of an agent of LangChain."""
        place = self._make_place(file, call.lineno)
        if called == "add_node" and call.args:
            name = get_text(call.args[0]) or self._name(file, call.args[0])
            if name is not None:
                self._source.nodes[name] = place
            else:
                self._source.problems.append(f"{place}: the name of this node is computed: it is known once it ran")
        names = self._name_items(file, _get_keywords(call).get("tools"))
        if called in _MAKES_TOOLS:
            names += [name for name in [self._name(file, call)] if name is not None]
        for name in names:
            self._source.tools.setdefault(name, place)

    def _name_items(self, file: _SourceFile, value: ast.expr | None) -> list[str]:
        """Return the names of the tools or agents in a literal list, or in one that is assigned to a name."""
        found = self._resolve(file, value)
        if found is None or not isinstance(found.value, ast.List | ast.Tuple):
            return []
        return [name for item in found.value.elts if (name := self._name(found.file, item)) is not None]

    def _name(self, file: _SourceFile, value: ast.expr, *, left: int = _MOST_IMPORTS) -> str | None:
        """Return the name of an agent or tool: its `name`, or that of the function or agent that it is made of."""
        found = self._resolve(file, value)
        if found is not None and found.function is not None:
            return found.function.rpartition(".")[2]
        if found is None or not isinstance(found.value, ast.Call) or not left:  # `x = wrap(x)` has no end
            return None
        keywords = _get_keywords(found.value)
        inner = keywords.get("func") or keywords.get("agent") or next(iter(found.value.args), None)
        return get_text(keywords.get("name")) or (
            None if inner is None else self._name(found.file, inner, left=left - 1)
        )

    def _read_callback(self, file: _SourceFile, name: str, value: ast.expr, prefix: str) -> None:
        found = self._find_inner(file, value, prefix) or self._resolve(file, value)
        left = _MOST_IMPORTS
        while found is not None and isinstance(found.value, ast.Call) and left:
            left -= 1
            call = found.value
            if _get_last_name(call.func) == "partial" and call.args:
                first = call.args[0]
                found = self._find_inner(found.file, first, prefix) or self._resolve(found.file, first)
            else:
                found = self._find_made(self._resolve(found.file, call.func))
        if found is not None and found.function is not None:
            place = self._make_place(found.file, found.file.functions[found.function])
            key = f"{found.file.path}::{found.function}"
            self._source.callbacks.append(Callback(f"{name}: {found.function}", place, key))
        elif found is not None and id(found.value) in found.file.lambdas:
            lambda_name, line = found.file.lambdas[id(found.value)]
            key = f"{found.file.path}::{lambda_name}"
            self._source.callbacks.append(Callback(f"{name}: lambda", self._make_place(found.file, line), key))
        elif not (isinstance(value, ast.Constant) and value.value is None):
            self._source.callbacks.append(Callback(name, self._make_place(file, value.lineno), None))

    def _find_inner(self, file: _SourceFile, value: ast.expr | None, prefix: str) -> _Found | None:
        """Follow a name to a function that is defined in the functions around it; the innermost one counts."""
        parts = prefix.split(".<locals>.")[:-1]
        for count in range(len(parts), 0, -1):
            around = ".<locals>.".join(parts[:count])
            if isinstance(value, ast.Name) and (name := f"{around}.<locals>.{value.id}") in file.functions:
                return _Found(file, function=name)
        return None

    def _find_made(self, maker: _Found | None) -> _Found | None:
        """Return the function or lambda that a function makes, if it always returns the same one."""
        if maker is None or maker.function is None:
            return None
        returned = maker.file.returned.get(maker.function, [])
        if len(returned) != 1:
            return None
        inner = self._find_inner(maker.file, returned[0], f"{maker.function}.<locals>.")
        is_lambda = id(returned[0]) in maker.file.lambdas
        return inner or (_Found(maker.file, value=returned[0]) if is_lambda else None)

    def _find_prompt_files(self) -> Iterator[str]:
        """Yield text files in the agent's folder, and below its folders of prompts."""
        if self._folder is None or not self._folder.is_dir():
            return
        folders = [self._folder]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in found:
                is_inside = folder != self._folder or _PROMPT_FOLDER.search(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    folders += [Path(entry.path)] if is_inside and not entry.name.startswith(".") else []
                elif is_prompt_file(entry.name) and not _NO_PROMPTS.match(entry.name):
                    yield entry.path

    def _make_place(self, file: _SourceFile, line: int) -> str:
        return f"{self._relative(file.path)}:{line}"

    def _relative(self, path: Path) -> str:
        return make_relative(str(path), self._root)


def _read_tree(path: Path, tree: ast.Module, *, lambdas: Mapping[str, ast.Lambda]) -> _SourceFile:
    file = _SourceFile(path)
    for name, function in lambdas.items():
        file.lambdas[id(function)] = (name, function.lineno)
    waiting: list[tuple[ast.AST, str, bool]] = [(tree, "", True)]
    while waiting:
        node, prefix, is_top = waiting.pop()
        if isinstance(node, Function):
            file.add_function(node, prefix)
            prefix, is_top = f"{prefix}{node.name}.<locals>.", False
        elif isinstance(node, ast.ClassDef):
            prefix, is_top = f"{prefix}{node.name}.", False
        elif isinstance(node, ast.Import | ast.ImportFrom):
            file.add_import(node)
        elif isinstance(node, ast.Call):
            file.calls.append((node, prefix))
        elif isinstance(node, ast.Return) and prefix.endswith(".<locals>."):
            file.returned.setdefault(prefix.removesuffix(".<locals>."), []).append(node.value)
        elif is_top and isinstance(node, ast.Assign | ast.AnnAssign):
            file.add_values(node)
        waiting += [(child, prefix, is_top) for child in ast.iter_child_nodes(node)]
    file.calls.sort(key=lambda each: (each[0].lineno, each[0].col_offset))
    file.functions = dict(sorted(file.functions.items(), key=lambda item: item[1]))
    return file


def _is_stub(function: Function) -> bool:
    """Return True if nothing in a function can run: a docstring or an ellipsis only."""
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in function.body)


def _name_decorated(function: Function) -> str:
    calls = [each for each in function.decorator_list if isinstance(each, ast.Call) and each.args]
    return next((name for each in calls if (name := get_text(each.args[0]))), function.name)


def _get_keywords(call: ast.Call) -> Mapping[str, ast.expr]:
    return {each.arg: each.value for each in call.keywords if each.arg is not None}


def _get_last_name(value: ast.expr) -> str:
    return value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""


def _is_not_set(value: ast.expr | None) -> bool:
    """Return True if a setting is left out, or false. A computed one is unknown."""
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def get_text(value: ast.expr | None) -> str | None:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def is_prompt_file(path: str) -> bool:
    """Return whether a file may hold a prompt, by its name and folder."""
    folder = os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120 - thousands of them
    return path.endswith(_PROMPT_SUFFIXES) or (
        path.endswith((".yaml", ".yml", ".json")) and bool(_PROMPT_FOLDER.search(folder))
    )


def make_relative(path: str, root: Path) -> str:
    """Return a path relative to the project, if it is below it."""
    return path.removeprefix(f"{root}{os.sep}").replace(os.sep, "/")
