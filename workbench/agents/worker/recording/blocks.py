"""Blocks of Python source: a fingerprint for each function's body, and several for the module.

What a function looks like from outside (name, decorators, signature, defaults, annotations, docstring, whether it is
async or a generator) belongs to the block around it, because frameworks show it to models without calling the function.
Comments and formatting are in no block. Classes and lambdas belong to the block around them. A lambda that may be a
callback of an agent has a body of its own, too, so that it is known whether it ran: see `find_callback_lambdas`.

Names that a module binds by plain definitions or imports from Python's own library (see `definitions`) have a
fingerprint each; the other statements share one. Each fingerprint comes with the names that it mentions: it depends on
their definitions.

Fingerprints do not depend on the version of Python that parses.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import re
import warnings

from .definitions import (
    BUILTINS,
    FUNCTIONS,
    count_bound_names,
    find_callback_lambdas,
    find_defined_names,
    iter_arguments,
    list_bound_names,
    may_have_callbacks,
)
from .fingerprints import ABSENT, digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Any, Collection, Iterable, Iterator

    Function = ast.FunctionDef | ast.AsyncFunctionDef

EVERYTHING = "*"
"""As a mentioned name: any name of the module."""

EVERYWHERE = "**"
"""As a mentioned name: any name of any module."""

_TRIES = 5
_LONGEST_EXPRESSION = 1_000
"""Texts up to this length may be parsed by a library as an expression with names: a type, or a query."""
_WORD = re.compile(r"[^\W\d]\w*")
_REACHES_ALL = frozenset(("globals", "locals", "vars", "dir", "eval", "exec", "__annotations__"))
_REACHES_ARGUMENT = frozenset(("vars", "dir"))
"""With an argument these read the names of that object. A module notes it when its own are read."""
_ATTRIBUTES_THAT_REACH_EVERYWHERE = frozenset(("__globals__", "f_globals", "f_locals", "f_builtins"))
_LEFT_OUT = frozenset(("ctx", "kind", "type_comment"))
_KNOWN_GENERATOR = "workbench_is_generator"
"""A cache attribute on functions: the answer is slow to find and needed twice."""

_NAMING = frozenset(
    (
        ast.Name, ast.Call, ast.Attribute, ast.Constant, ast.Global, ast.Nonlocal, ast.ImportFrom, ast.alias, ast.arg,
        ast.AnnAssign, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping, *FUNCTIONS,
    )
)  # fmt: skip
_LEAVES = frozenset((ast.Name, ast.Constant, ast.Load, ast.Store, ast.Pass))  # most nodes are one
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_CONDITIONAL = (ast.If, ast.ExceptHandler, ast.match_case)
_SPECIAL = frozenset((*FUNCTIONS, ast.ClassDef, ast.Constant, ast.JoinedStr, *_LOOPS, *_CONDITIONAL))
"""Nodes of which more, or less, than their fields is fingerprinted."""
_BOUNDARIES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


class CodeFingerprint:
    """A fingerprint, and the names of the module that its source mentions."""

    def __init__(self, fingerprint: str, mentions: AbstractSet[str]) -> None:
        self.fingerprint = fingerprint
        self.mentions = mentions


class ProjectImport:
    """An import at the top of a module that is not of Python's own library.

    `marker` is its fingerprint. `names` are the imported names: modules, or what `from` imports from `module`.
    """

    def __init__(self, marker: str, *, module: str | None, level: int, names: list[str], binds_alone: bool) -> None:
        """`module` is None for `import a.b`. `binds_alone`: no other statement binds the same names otherwise."""
        self.marker = marker
        self.module = module
        self.level = level
        self.names = names
        self.binds_alone = binds_alone


class Blocks:
    """The parts of one source: `module` is the fingerprint of everything but the bodies of functions.

    Branches of functions, such as `f.<branch 0>`, are bodies of their own: see `CodeBranch`.

    `definitions` (by name) and `rest` are the same in pieces. The fingerprint of `rest` ends with those of `imports`,
    each after a `~`. With `is_pure` it has nothing else: executing the module only imports and defines names.

    `bodies` are fingerprints of what functions execute, by qualified name, and `mentions` the names that they mention.
    Functions that share a name (two branches, a property and its setter) share one fingerprint.

    A function that is only called, `f(1)`, is mentioned as `f()`. That definition omits what calls do not depend on:
    docstring and annotations.
    """

    def __init__(
        self,
        module: str,
        *,
        rest: CodeFingerprint,
        definitions: dict[str, CodeFingerprint],
        bodies: dict[str, CodeFingerprint],
        bound: Collection[str],
        uses: Uses,
        imports: list[ProjectImport],
        is_pure: bool,
    ) -> None:
        """`bound` are all names that the module binds."""
        self.module = module
        self.rest = rest
        self.imports = imports
        self.is_pure = is_pure
        self.definitions = definitions
        self.bodies = {name: body.fingerprint for name, body in bodies.items()}
        self.mentions = {name: body.mentions for name, body in bodies.items()}
        self.uses = uses
        self._bound = bound

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Blocks:
        """Create the blocks that `print_blocks` printed, without mentions."""
        definitions = {name: CodeFingerprint(each, frozenset()) for name, each in written["definitions"].items()}
        bodies = {name: CodeFingerprint(each, frozenset()) for name, each in written["bodies"].items()}
        rest = CodeFingerprint(written["rest"], frozenset())
        bound = frozenset(written["bound"])
        imports = [ProjectImport(**each) for each in written["imports"]]
        return cls(
            written["module"],
            rest=rest,
            definitions=definitions,
            bodies=bodies,
            bound=bound,
            uses=Uses(),
            imports=imports,
            is_pure=written["is_pure"],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the fingerprints and the bound names."""
        return {
            "module": self.module,
            "rest": self.rest.fingerprint,
            "definitions": {name: part.fingerprint for name, part in self.definitions.items()},
            "bodies": self.bodies,
            "bound": sorted(self._bound),
            "imports": [vars(each) for each in self.imports],
            "is_pure": self.is_pure,
        }

    def find_added_imports(self, rest: str) -> list[ProjectImport]:
        """Return the imports that were added since `rest` had this fingerprint; empty if more has changed."""
        core, *earlier = rest.split("~")
        if core != self.rest.fingerprint.partition("~")[0]:
            return []
        added = []
        for each in self.imports:
            if earlier and each.marker == earlier[0]:
                del earlier[0]
            else:
                added.append(each)
        return [] if earlier else added

    def name(self, name: str) -> str:
        """Fingerprint the definition of a name; names that the rest binds have no fingerprint of their own.

        For a name with `?` the result is only whether it is bound.
        """
        if name.endswith("?"):
            return "bound" if self.binds(name[:-1]) else ABSENT
        definition = self.definitions.get(self.find_definition_name(name))
        if definition is not None:
            return definition.fingerprint
        return "rest" if self.binds(name) else ABSENT

    def find_definition_name(self, name: str) -> str:
        """Return the key in `definitions` for a name that may only be called: classes have no separate part for
        calls."""
        return name if name in self.definitions else name.partition("()")[0]

    def binds(self, name: str) -> bool:
        """Return True if any statement of the module may bind the name."""
        return name.partition("()")[0] in self._bound


class CodeBranch:
    """A part of a function that may be skipped: the statements of `container` from `first` to its end.

    These are the branches of `if`, `except` and `match`, and what follows a condition that may leave the function.
    Branches inside loops are not separate, because each report of their execution takes time.
    """

    def __init__(self, name: str, container: list[ast.stmt], first: ast.stmt) -> None:
        self.name = name
        self.container = container
        self._first = first

    def list_statements(self) -> list[ast.stmt]:
        return self.container[self.find_start() :]

    def find_start(self) -> int:
        """Return the position of the first statement."""
        return next(index for index, each in enumerate(self.container) if each is self._first)


def is_branch(name: str) -> bool:
    """Return True if a name among the bodies is that of a branch."""
    return name.endswith(">")


class Uses:
    """How a source uses its imports from other modules."""

    def __init__(self) -> None:
        self._aliases: dict[str, set[str]] = {}
        self._values: set[str] = set()
        self._attributes: set[str] = set()
        self._in_annotations: set[str] = set()
        self._elsewhere: set[str] = set()
        self._at_top: set[int] = set()

    def begin(self, tree: ast.Module) -> None:
        self._at_top = {id(statement) for statement in tree.body}

    def add_import(self, statement: ast.ImportFrom) -> None:
        """Add an import, possibly under other names."""
        for alias in statement.names:
            self._aliases.setdefault(alias.name, set()).add(alias.asname or alias.name)
            if id(statement) not in self._at_top:
                self._elsewhere.add(alias.name)

    def add_annotation(self, name: str) -> None:
        """Add a name in an annotation: evaluating it may fail for any user of the annotated object."""
        self._in_annotations.add(name)

    def only_bound(self, name: str) -> AbstractSet[str]:
        """Return the names under which a name is imported, if it is only imported at the top; else an empty set.

        As long as nothing uses these names, only the success of the import matters.
        """
        aliases = self._aliases.get(name, set())
        return aliases if name not in self._elsewhere and aliases.isdisjoint(self._in_annotations) else set()

    def add_value(self, name: str) -> None:
        """Add a name that is used other than to call it."""
        self._values.add(name)

    def add_attribute(self, name: str) -> None:
        """Add an attribute that is used other than to call it."""
        self._attributes.add(name)

    def are_calls_of_attribute(self, name: str) -> bool:
        """Return True if each `x.name` in the source is a call: `x.name(...)`."""
        return name not in self._attributes

    def are_calls(self, name: str, *, asked: Collection[str]) -> bool:
        """Return True if an imported name is only called, and nothing has requested it from this module (`asked`)."""
        aliases = self._aliases.get(name)
        if aliases is None or EVERYTHING in self._values or EVERYTHING in asked:
            return False
        return self._values.isdisjoint(aliases) and aliases.isdisjoint(asked)


def read_blocks(source: bytes, path: str) -> Blocks:
    """Return the blocks of a source text, including BOM and coding cookie. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user sees it when the code runs
        try:
            return cut(parse_source(source, path), lambdas=may_have_callbacks(source))[0]
        except (RecursionError, MemoryError) as error:
            raise ValueError(f"{path} is nested too deeply") from error


def print_blocks(path: str) -> None:
    """Print the blocks of a file as JSON for another interpreter, or the line that cannot be compiled."""
    with open(path, "rb") as stream:
        source = stream.read()
    try:
        blocks = read_blocks(source, path)
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        print(json.dumps({"line": error.lineno or None, "message": error.msg}))
    else:
        print(json.dumps(blocks.as_json()))


def parse_source(source: bytes, path: str) -> ast.Module:
    """Parse without the flags of this module. Raises what `compile` raises.

    Python 3.11 counts the depth of all threads together and may raise SystemError if two threads parse at the same
    time.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(SystemError):
            return _parse(source, path)
    return _parse(source, path)


def _parse(source: bytes, path: str) -> ast.Module:
    tree: ast.Module = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)  # type: ignore[assignment]
    return tree


def cut(tree: ast.Module, *, lambdas: bool = False) -> tuple[Blocks, list[tuple[str, Function]], list[CodeBranch]]:
    """Return the blocks of a parsed module, all its functions with their qualified names, and their branches.

    With `lambdas`, those that may be callbacks have bodies.
    """
    functions: list[tuple[str, Function]] = []
    branches: list[CodeBranch] = []
    counts = count_bound_names(tree)
    defined, bound = find_defined_names(tree, counts), counts or {}
    definitions: dict[str, CodeFingerprint] = {}
    others: list[str] = []
    imports: list[ProjectImport] = []
    packages = _count_packages(tree)
    is_pure = counts is not None
    uses = Uses()
    uses.begin(tree)
    names = _Names(uses)
    whole: list[str] = []
    effects = 0
    for position, statement in enumerate(tree.body):
        own_names = defined.get(position)
        read = names if own_names is None else _Names(uses)
        fingerprint = _fingerprint([statement], "", functions, read)
        whole.append(fingerprint)
        if _is_constant(statement) and own_names is None:  # it has no effect
            continue
        if own_names is None:
            imported = _read_import(statement, f"{fingerprint}@{effects}", packages, bound)
            if imported is not None:
                imports.append(imported)
                continue
            others.append(fingerprint)
            is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
            is_pure = is_pure and is_import
            effects += not is_import
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            module = statement.module if isinstance(statement, ast.ImportFrom) else ""
            for name, alias in zip(own_names, statement.names, strict=True):
                _add_part(definitions, name, CodeFingerprint(f"import {module}:{alias.name}@{effects}", frozenset()))
        else:
            # Statements that run during the import may use earlier definitions.
            _add_part(definitions, own_names[0], CodeFingerprint(f"{fingerprint}@{effects}", read.list_mentions(bound)))
            if isinstance(statement, FUNCTIONS) and len(own_names) > 1:
                called = _Names(Uses())
                fingerprint = _fingerprint([_without_words(statement)], "", [], called)
                definitions[own_names[1]] = CodeFingerprint(f"{fingerprint}@{effects}", called.list_mentions(bound))
    shadowed = sorted(BUILTINS.intersection(definitions))
    rest = CodeFingerprint(
        "~".join([digest("+".join([*others, *shadowed]).encode()), *(each.marker for each in imports)]),
        frozenset((EVERYTHING,)) if counts is None else names.list_mentions(bound),
    )
    bodies = _bodies(functions, branches, bound, uses)
    for name, function in find_callback_lambdas(tree).items() if lambdas else ():
        # The block around it ran before, and mentions its names.
        statement = ast.Expr(value=function)
        bodies[name] = CodeFingerprint(_fingerprint([statement], "", [], _Names(Uses())), frozenset())
    blocks = Blocks(
        digest("+".join(whole).encode()),
        rest=rest,
        definitions=definitions,
        bodies=bodies,
        bound=bound,
        uses=uses,
        imports=imports,
        is_pure=is_pure,
    )
    return blocks, functions, branches


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _read_import(
    statement: ast.stmt, fingerprint: str, packages: dict[str, int], bound: dict[str, int]
) -> ProjectImport | None:
    """Return an import apart from `from __future__` and `from x import *`; None for other statements."""
    if isinstance(statement, ast.ImportFrom):
        if statement.module == "__future__" or statement.names[0].name == "*":
            return None
        module, level = statement.module or "", statement.level
    elif isinstance(statement, ast.Import):
        module, level = None, 0
    else:
        return None
    binds_alone = True
    for alias in statement.names:
        name = alias.asname or alias.name.partition(".")[0]
        # `import a.b` and `import a.c` bind `a` to the same module.
        is_package = module is None and alias.asname is None
        same = packages.get(name) if is_package else 1
        binds_alone = binds_alone and bound.get(name) == same and name not in BUILTINS
    return ProjectImport(
        digest(fingerprint.encode())[:8],
        module=module,
        level=level,
        names=[alias.name for alias in statement.names],
        binds_alone=binds_alone,
    )


def _count_packages(tree: ast.Module) -> dict[str, int]:
    """Count the imports of modules that bind only their package under a name, by that name."""
    counts: dict[str, int] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            renamed = {alias.asname for alias in statement.names}
            for name in {alias.name.partition(".")[0] for alias in statement.names if alias.asname is None} - renamed:
                counts[name] = counts.get(name, 0) + 1
    return counts


def _add_part(definitions: dict[str, CodeFingerprint], name: str, part: CodeFingerprint) -> None:
    """Add a definition of a name; the last of several counts, but earlier ones may be used before it."""
    earlier = definitions.get(name)
    if earlier is None:
        definitions[name] = part
    elif earlier.fingerprint != part.fingerprint:
        fingerprint = f"{earlier.fingerprint}+{part.fingerprint}"
        definitions[name] = CodeFingerprint(fingerprint, earlier.mentions | part.mentions)


def _without_words(function: Function) -> Function:
    """Return a function as callers see it: without docstring, annotations and body."""
    _is_generator(function)  # computed first, because the copy has no body
    made = copy.copy(function)
    made.args = copy.copy(function.args)
    made.returns = None
    for name in ("posonlyargs", "args", "kwonlyargs"):
        setattr(made.args, name, [ast.arg(arg=each.arg) for each in getattr(function.args, name)])
    for name in ("vararg", "kwarg"):
        given = getattr(function.args, name)
        setattr(made.args, name, None if given is None else ast.arg(arg=given.arg))
    made.body = [ast.Pass()]
    return made


def _bodies(
    functions: list[tuple[str, Function]], branches: list[CodeBranch], bound: Collection[str], uses: Uses
) -> dict[str, CodeFingerprint]:
    """Return the bodies of functions, and of their branches, which are added to `branches`."""
    prints: dict[str, list[str]] = {}
    names: dict[str, _Names] = {}
    for name, function in functions:  # grows while bodies are read
        own = names.get(name)
        if own is None:
            own = names[name] = _Names(uses, around=names.get(name.rpartition(".<locals>.")[0]))
        own.bind(argument.arg for argument in iter_arguments(function))
        statements = list_executed(function)
        waiting = [CodeBranch(name, function.body, statements[0])] if statements else []
        parts: list[str] = [] if statements else [digest(b"")]
        scope: set[str] = set()
        looks_at_all = False
        for branch in waiting:  # the function itself, then its branches; grows
            is_function = branch is waiting[0]
            read = own if is_function else names.setdefault(branch.name, _Names(uses, around=own))
            inner = _Branches(branch)
            part = _fingerprint(branch.list_statements(), f"{name}.<locals>.", functions, read, inner)
            parts.append(part)
            looks_at_all = looks_at_all or read.reaches_all()
            if not is_function:
                prints.setdefault(branch.name, []).append(part)
                scope |= read.list_scope()
            waiting += inner.found
        own.bind(scope)
        branches += waiting[1:]
        # What a branch binds is local to the whole function, whether the branch runs or not.
        counted = parts if looks_at_all else parts[:1]
        prints.setdefault(name, []).append(digest("+".join([*counted, *sorted(scope)]).encode()))
    return {
        name: CodeFingerprint(
            each[0] if len(each) == 1 else digest("+".join(each).encode()), names[name].list_mentions(bound)
        )
        for name, each in prints.items()
    }


class _Names:
    """The names that statements mention, and those that they bind locally if they belong to a function."""

    def __init__(self, uses: Uses, *, around: _Names | None = None) -> None:
        self._uses = uses
        self._around = around
        self._used: set[str] = set()
        self._called: set[str] = set()
        self._callees: set[int] = set()
        self._with_argument: set[int] = set()  # callees with exactly one argument
        self._texts: set[str] = set()
        self._bound: set[str] = set()
        self._declared: set[str] = set()

    def bind(self, names: Iterable[str]) -> None:
        """Add local names of the function."""
        self._bound.update(names)

    def list_scope(self) -> set[str]:
        """Return the names that the statements bind or declare for the whole function."""
        return self._bound | self._declared

    def reaches_all(self) -> bool:
        """Return True if the statements read names by looking at all of them."""
        return not self._used.isdisjoint((EVERYTHING, EVERYWHERE))

    def read(self, node: ast.AST) -> None:
        """Note the names that a node mentions or binds itself."""
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                self._bound.add(node.id)
            if node.id in _REACHES_ALL and not (node.id in _REACHES_ARGUMENT and id(node) in self._with_argument):
                self._reach(EVERYTHING)
            elif id(node) in self._callees:
                self._called.add(node.id)
            else:
                self._used.add(node.id)
                self._uses.add_value(node.id)
        elif isinstance(node, ast.Call):
            self._callees.add(id(node.func))
            if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
                self._with_argument.add(id(node.func))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and len(node.value) <= _LONGEST_EXPRESSION:
                self._texts.update(_WORD.findall(node.value))
        elif isinstance(node, ast.Attribute):
            self._read_attribute(node)
        else:
            self._bound.update(list_bound_names(node))
            self._read_statement(node)

    def _read_attribute(self, node: ast.Attribute) -> None:
        if node.attr in _ATTRIBUTES_THAT_REACH_EVERYWHERE:
            self._reach(EVERYWHERE)
        elif node.attr == "__class__" and not isinstance(node.ctx, ast.Load):
            self._reach(EVERYTHING)
        if id(node) not in self._callees:
            self._uses.add_attribute(node.attr)

    def _read_statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.ImportFrom):
            self._uses.add_import(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self._used.update(node.names)
            self._declared.update(f"{type(node).__name__} {name}" for name in node.names)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            self._read_annotation(node.annotation)
        elif isinstance(node, FUNCTIONS):
            self._read_annotation(node.returns)

    def list_mentions(self, bound: Collection[str]) -> AbstractSet[str]:
        """Return the mentioned names that may be the module's: bound there, or bound nowhere."""
        found = {name for name in self._used if self._is_of_module(name, bound)}
        found.update(self._texts.intersection(bound))
        found.update(f"{name}()" for name in self._called if self._is_of_module(name, bound))
        return frozenset(found)

    def _reach(self, what: str) -> None:
        self._used.add(what)
        self._uses.add_value(EVERYTHING)

    def _is_of_module(self, name: str, bound: Collection[str]) -> bool:
        return name in bound or not (name in BUILTINS or self._is_own(name))

    def _is_own(self, name: str) -> bool:
        return name in self._bound or (self._around is not None and self._around._is_own(name))

    def _read_annotation(self, annotation: ast.expr | None) -> None:
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._used.update(_WORD.findall(node.value))
            elif isinstance(node, ast.Name):
                self._uses.add_annotation(node.id)


def list_executed(function: Function) -> list[ast.stmt]:
    """Return the statements of a function that run: all but its docstring."""
    return function.body[1:] if get_docstring(function) is not None else function.body


def get_docstring(function: Function) -> str | None:
    """Return the docstring as written in the source."""
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value.value
    return None


class _Branches:
    """The branches in the statements of one function or branch. Each leaves a marker where it was."""

    def __init__(self, within: CodeBranch) -> None:
        self.within = within
        self.found: list[CodeBranch] = []

    def split(self, statements: list[Any], *, container: list[ast.stmt]) -> list[Any]:
        """Split off what follows a condition that may leave the function."""
        end = _find_end_of_conditions(statements)
        return [*statements[:end], self._add(container, statements[end])] if end else statements

    def split_condition(self, node: ast.AST) -> Iterator[Any]:
        """Yield the fields of a condition with its branches split off."""
        for value in _fields(node):
            yield self._add(value, value[0]) if _is_branch(value) else value

    def _add(self, container: list[ast.stmt], first: ast.stmt) -> str:
        self.found.append(CodeBranch(f"{self.within.name}.<branch {len(self.found)}>", container, first))
        return f"(branch {len(self.found)})"


class _Within:
    """A marker among pending items: following functions get this prefix, and branches are split off if possible."""

    def __init__(self, prefix: str, branches: _Branches | None) -> None:
        self.prefix = prefix
        self.branches = branches


def _fingerprint(
    body: list[ast.stmt],
    prefix: str,
    functions: list[tuple[str, Function]],
    names: _Names,
    branches: _Branches | None = None,
) -> str:
    """Fingerprint statements. Functions in them are added to `functions`; `names` reads all nodes.

    With `branches`, branches in the statements are added to it and not read. Not recursive, because chains of operators
    may be deeper than the stack.
    """
    written: list[str] = []
    write = written.append
    items: list[Any] = body if branches is None else branches.split(body, container=branches.within.container)
    waiting = [*reversed(items)]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is str:
            write(item)
        elif kind is list:
            waiting.append("]")
            waiting += reversed(item if branches is None else branches.split(item, container=item))
            write("[")
        elif kind is _Within:
            prefix, branches = item.prefix, item.branches
        elif isinstance(item, ast.AST):
            if kind in _NAMING:
                names.read(item)
            if isinstance(item, FUNCTIONS):
                functions.append((prefix + item.name, item))
            parts = _list_parts(item, prefix, branches) if kind in _SPECIAL else _fields(item)
            fields = [f"({kind.__name__}", *parts, ")"]
            waiting += reversed(fields)
        else:
            write(_constant(item))
    return digest("".join(written).encode())


def _list_parts(node: ast.AST, prefix: str, branches: _Branches | None) -> Iterable[Any]:
    """Return what is to be fingerprinted of a node of a special kind, in order."""
    if isinstance(node, FUNCTIONS):
        return _header(node)
    if isinstance(node, ast.ClassDef):
        return [_Within(f"{prefix}{node.name}.", None), *_fields(node), _Within(prefix, branches)]
    if isinstance(node, ast.Constant):
        return (_constant(node.value),)
    if isinstance(node, ast.JoinedStr):
        return (_parts(node),)
    if branches is not None and isinstance(node, _LOOPS):
        return [_Within(prefix, None), *_fields(node), _Within(prefix, branches)]
    if branches is not None and isinstance(node, _CONDITIONAL):
        return branches.split_condition(node)
    return _fields(node)


def _is_branch(value: Any) -> bool:
    """Return True for the statements of a condition, but not for `elif`: it is part of the same condition."""
    return isinstance(value, list) and not (len(value) == 1 and isinstance(value[0], ast.If))


def _find_end_of_conditions(statements: list[Any]) -> int:
    """Return the position after the first condition that may leave the function, if more statements follow, else 0."""
    for position, statement in enumerate(statements[:-1]):
        if isinstance(statement, ast.If):
            bodies = [statement.body, statement.orelse]
        elif isinstance(statement, ast.Try):
            bodies = [handler.body for handler in statement.handlers]
        else:
            continue
        if any(body and isinstance(body[-1], (ast.Return, ast.Raise)) for body in bodies):
            return position + 1
    return 0


def _fields(node: ast.AST) -> Iterator[Any]:
    """Yield names and values of the fields of a node. Missing and empty fields are equal: later versions have more
    fields."""
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or value == [] or name in _LEFT_OUT:
            continue
        yield f" {name}="
        yield value if isinstance(value, (ast.AST, list)) else _constant(value)


def _header(function: Function) -> Iterator[Any]:
    for name, value in ast.iter_fields(function):
        if name != "body" and name not in _LEFT_OUT and value is not None and value != []:
            yield f" {name}="
            yield value if isinstance(value, (ast.AST, list)) else _constant(value)
    text = get_docstring(function)
    if text is not None:
        yield f" docstring={_constant(text)}"
    if _is_generator(function):
        yield " generator"


def _constant(value: Any) -> str:
    """Return a constant as text, including its type."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"<int {value:x}>"  # Python refuses to write very long numbers in digits
    return f"<{type(value).__name__} {value!a}>"  # !a: printable characters depend on the version


def _parts(text: ast.JoinedStr) -> list[Any]:
    """Return the parts of an f-string with literal text joined: versions split it differently."""
    parts: list[Any] = []
    literal = ""
    for part in text.values:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            literal += part.value
            continue
        if literal:
            parts.append(_constant(literal))
        literal = ""
        parts.append(part)
    if literal:
        parts.append(_constant(literal))
    return parts


def _is_generator(function: Function) -> bool:
    known = getattr(function, _KNOWN_GENERATOR, None)
    if known is None:
        known = _yields(function.body)
        setattr(function, _KNOWN_GENERATOR, known)
    return bool(known)


def _yields(body: list[ast.stmt]) -> bool:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if type(node) in _LEAVES:
            continue
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        waiting += _evaluated_outside(node) if isinstance(node, _BOUNDARIES) else ast.iter_child_nodes(node)
    return False


def _evaluated_outside(node: Any) -> Iterator[ast.AST]:
    """Yield the parts of a function or class that are evaluated where it is defined: decorators, defaults, bases."""
    yield from getattr(node, "decorator_list", ())
    yield from getattr(node, "bases", ())
    yield from getattr(node, "keywords", ())
    arguments = getattr(node, "args", None)
    if arguments is not None:
        yield from arguments.defaults
        yield from (default for default in arguments.kw_defaults if default is not None)
