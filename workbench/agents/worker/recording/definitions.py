"""Which statements of a module define names and do nothing else: constants, plain functions and classes, imports.

A case that does not use such a name need not run again when its definition changes. Everything else may raise or call
something when the module is imported: `X = f()`, decorators, bases and imports that are not known to be harmless, names
that are bound twice.
Nothing here depends on the version of Python that parses.
"""

from __future__ import annotations

import ast

from . import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

    Import = Union[ast.Import, ast.ImportFrom]

    Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
DOCSTRING = "__doc__"

_EXCEPTIONS = frozenset(
    (
        "ArithmeticError", "AssertionError", "AttributeError", "ConnectionError", "EOFError", "Exception",
        "FileExistsError", "FileNotFoundError", "ImportError", "IndexError", "KeyError", "LookupError",
        "NameError", "NotImplementedError", "OSError", "PermissionError", "RuntimeError", "StopIteration",
        "TimeoutError", "TypeError", "UserWarning", "ValueError", "Warning",
    )
)  # fmt: skip
_TYPES = _EXCEPTIONS.union(
    (
        "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object", "set",
        "str", "tuple", "type",
    )
)  # fmt: skip
BUILTINS = _TYPES.union(
    (
        "Ellipsis", "abs", "all", "any", "ascii", "bin", "breakpoint", "callable", "chr", "classmethod",
        "compile", "delattr", "dir", "divmod", "enumerate", "eval", "exec", "exit", "filter", "format",
        "getattr", "globals", "hasattr", "hash", "help", "hex", "id", "input", "isinstance", "issubclass",
        "iter", "len", "locals", "map", "max", "memoryview", "min", "next", "oct", "open", "ord", "pow",
        "print", "property", "quit", "range", "repr", "reversed", "round", "setattr", "slice", "sorted",
        "staticmethod", "sum", "super", "vars", "zip",
    )
)  # fmt: skip
"""Names that a module finds without binding them."""

_GENERIC = frozenset(("list", "dict", "set", "frozenset", "tuple", "type"))
_PARAMETERS = {
    **dict.fromkeys(("Optional", "List", "Set", "FrozenSet", "Sequence", "Iterable", "Iterator"), 1),
    **dict.fromkeys(("Dict", "Mapping", "MutableMapping"), 2),
}
_EFFECTS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OF_TEXTS = frozenset(("strip", "lstrip", "rstrip", "lower", "upper", "title"))
"""Methods of texts that cannot fail where they are called without arguments."""
_OF_DATACLASSES = frozenset(("frozen", "kw_only", "order", "repr"))
_NOT_OF_ENUMS = frozenset(("mro", "name", "value"))
_WRAPPERS = frozenset(("staticmethod", "classmethod", "property"))
_METHODS = frozenset(
    (
        "__init__", "__repr__", "__str__", "__call__", "__len__", "__iter__", "__next__", "__enter__",
        "__exit__", "__aenter__", "__aexit__", "__getitem__", "__setitem__", "__contains__", "__bool__",
        "__await__",
    )
)  # fmt: skip
"""Special names that mean nothing to the making of a class."""


def bound_names(tree: ast.Module) -> Optional[Dict[str, int]]:
    """How many statements of a module may bind each name. None where nobody can tell: after `from x import *`."""
    counts: Dict[str, int] = {}
    for statement in tree.body:
        for name in set(_bound_by(statement)):
            counts[name] = counts.get(name, 0) + 1
    return None if "*" in counts else counts


def defined_names(tree: ast.Module, bound: Optional[Dict[str, int]]) -> Dict[int, List[str]]:
    """The statements that define names and do nothing else: positions in the body, and the names.

    An import may define several, in its order; everything else defines one. `bound` is what `bound_names` gives.
    """
    found: Dict[int, List[str]] = {}
    if bound is None:
        return found
    reader = _Reader(bound, annotations_are_text=_annotations_are_text(tree))
    for position, statement in enumerate(tree.body):
        names = [DOCSTRING] if position == 0 and _is_text(statement) else reader.names_defined_by(statement)
        if names:
            found[position] = names
        reader.pass_over(statement, is_definition=bool(names))
    return found


class _Reader:
    """Reads the statements of a module in their order."""

    def __init__(self, bound: Dict[str, int], *, annotations_are_text: bool) -> None:
        self._bound = bound
        self._annotations_are_text = annotations_are_text
        self._earlier: Set[str] = set()
        self._types: Set[str] = set()
        self._functions: Set[str] = set()
        self._numbers: Set[str] = set()
        self._texts: Set[str] = set()
        self._library: Dict[str, str] = {}  # what names stand for that are imported from Python's own

    def pass_over(self, statement: ast.stmt, *, is_definition: bool) -> None:
        """What follows may use what this statement binds, if it binds it in any case and nothing else does."""
        if not is_definition and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            return
        names = [name for name in _bound_by(statement) if self._bound[name] == 1]
        self._earlier.update(names)
        if isinstance(statement, (ast.ImportFrom, ast.ClassDef)):
            self._types.update(name for name in names if name[:1].isupper())
        if not is_definition:
            return
        if isinstance(statement, FUNCTIONS) and not statement.decorator_list:
            self._functions.update(names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for known, is_such in ((self._numbers, self._is_number), (self._texts, self._is_made_text)):
                if is_such(statement.value):
                    known.update(names)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            from_module = "" if isinstance(statement, ast.Import) else f"{statement.module}."
            self._library.update((alias.asname or alias.name, from_module + alias.name) for alias in statement.names)

    def names_defined_by(self, statement: ast.stmt) -> List[str]:
        """The names that a statement defines, doing nothing else."""
        names: List[str] = []
        if isinstance(statement, FUNCTIONS):
            if self._is_plain_function(statement) and self._are_harmless(statement.decorator_list):
                names = [statement.name]
        elif isinstance(statement, ast.ClassDef):
            if self._is_plain_class(statement):
                names = [statement.name]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            name = _assigned(statement)
            if name is not None and self._is_plain_assignment(statement):
                names = [name]
        elif isinstance(statement, (ast.Import, ast.ImportFrom)) and _is_of_library(statement):
            names = [alias.asname or alias.name for alias in statement.names]
        return [] if any(_is_special(name) or self._bound[name] > 1 for name in names) else names

    def _is_plain_function(self, function: Function) -> bool:
        """Whether to define it, without its decorators, cannot fail."""
        annotations = [*(argument.annotation for argument in arguments_of(function)), function.returns]
        return (
            not getattr(function, "type_params", None)
            and self._have_plain_defaults(function.args)
            and all(each is None or self._is_annotation(each) for each in annotations)
        )

    def _have_plain_defaults(self, arguments: ast.arguments) -> bool:
        return all(each is None or self._is_value(each) for each in (*arguments.defaults, *arguments.kw_defaults))

    def _are_harmless(self, decorators: List[ast.expr]) -> bool:
        """Whether decorators only wrap a function. Several of them may not go together."""
        if not decorators:
            return True
        called, keywords = _call(decorators[0])
        name = self._in_library(called)
        return (
            len(decorators) == 1
            and name in library.DECORATORS
            and (called is decorators[0] or name == "functools.lru_cache")
            and all(each.arg in ("maxsize", "typed") and _is_whole_number(each.value) for each in keywords)
        )

    def _is_plain_class(self, definition: ast.ClassDef) -> bool:
        if definition.keywords or getattr(definition, "type_params", None) or not self._has_plain_bases(definition):
            return False
        names: List[Optional[str]] = []
        for statement in definition.body:
            if isinstance(statement, FUNCTIONS):
                names.append(statement.name)
                is_plain = self._is_plain_function(statement)
                decorators = list(statement.decorator_list)
                while decorators and self._are_builtin(decorators[:1], among=_WRAPPERS):
                    del decorators[0]
                is_plain = is_plain and self._are_harmless(decorators)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                names.append(_assigned(statement))
                is_plain = self._is_plain_assignment(statement)
            else:
                is_plain = isinstance(statement, ast.Pass) or _is_text(statement)
            if not is_plain:
                return False
        own = {name for name in names if name is not None and (name in _METHODS or not _is_special(name))}
        # What the class binds itself its own statements would find first.
        if len(own) != len(names) or not own.isdisjoint(_used_while_made(definition)):
            return False
        if self._is_enum(definition):
            return _has_plain_members(definition) and not definition.decorator_list
        return not definition.decorator_list or self._is_plain_dataclass(definition)

    def _has_plain_bases(self, definition: ast.ClassDef) -> bool:
        bases = definition.bases
        return not bases or (
            len(bases) == 1
            and (
                self._are_builtin(bases, among={*_EXCEPTIONS, "object"})
                or self._in_library(bases[0]) in ("abc.ABC", "enum.Enum")
            )
        )

    def _is_enum(self, definition: ast.ClassDef) -> bool:
        return any(self._in_library(base) == "enum.Enum" for base in definition.bases)

    def _is_plain_dataclass(self, definition: ast.ClassDef) -> bool:
        """Whether a class with decorators is a dataclass with fields that go together."""
        decorator, *others = definition.decorator_list
        called, keywords = _call(decorator)
        if others or self._in_library(called) != "dataclasses.dataclass":
            return False
        if any(each.arg not in _OF_DATACLASSES or not isinstance(each.value, ast.Constant) for each in keywords):
            return False
        if not self._are_builtin(definition.bases, among=_TYPES):
            return False
        has_default = False
        for field in definition.body:
            if isinstance(field, ast.AnnAssign):
                if field.value is None and has_default:
                    return False
                has_default = field.value is not None
                if field.value is not None and not (
                    isinstance(field.value, ast.Constant) or self._is_field(field.value)
                ):
                    return False
        return True

    def _is_field(self, node: ast.expr) -> bool:
        """Whether this is the description of a field with a default that is made when it is needed."""
        return (
            isinstance(node, ast.Call)
            and self._in_library(node.func) == "dataclasses.field"
            and not node.args
            and [each.arg for each in node.keywords] == ["default_factory"]
            and (
                isinstance(node.keywords[0].value, ast.Lambda)
                or self._are_builtin([node.keywords[0].value], among=_TYPES)
            )
            and self._is_value(node.keywords[0].value)
        )

    def _is_plain_assignment(self, statement: Union[ast.Assign, ast.AnnAssign]) -> bool:
        if isinstance(statement, ast.AnnAssign) and not self._is_annotation(statement.annotation):
            return False
        return statement.value is None or self._is_value(statement.value)

    def _is_value(self, node: ast.expr) -> bool:
        """Whether to evaluate this calls nothing, or nothing that does more than to give a value, and cannot fail."""
        if isinstance(node, ast.Name):
            return node.id in self._earlier or self._are_builtin([node], among=_TYPES)
        if isinstance(node, (ast.List, ast.Tuple)):
            return all(map(self._is_value, node.elts))
        if isinstance(node, ast.Set):
            return all(isinstance(each, ast.Constant) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(isinstance(key, ast.Constant) for key in node.keys) and all(map(self._is_value, node.values))
        if isinstance(node, ast.Lambda):
            return self._have_plain_defaults(node.args)
        if isinstance(node, ast.Compare):
            numbers = [node.left, *node.comparators]
            return all(isinstance(each, _COMPARISONS) for each in node.ops) and all(map(self._is_number, numbers))
        if isinstance(node, ast.Call) and self._is_call_for_value(node):
            return True
        return isinstance(node, ast.Constant) or self._is_number(node) or self._is_made_text(node)

    def _is_call_for_value(self, call: ast.Call) -> bool:
        """Whether this only makes a value: `set()`, `frozenset(("a", "b"))`, `functools.partial(f, 1)`."""
        if any(each.arg is None for each in call.keywords):
            return False
        values = [*call.args, *(each.value for each in call.keywords)]
        if self._are_builtin([call.func], among=("set", "frozenset", "tuple", "list", "dict")):
            return not values or (
                len(values) == len(call.args) == 1
                and not self._are_builtin([call.func], among=("dict",))
                and isinstance(values[0], (ast.List, ast.Tuple, ast.Set))
                and all(isinstance(each, ast.Constant) for each in values[0].elts)
            )
        if self._in_library(call.func) == "functools.partial":
            function = call.args[0] if call.args else None
            return (
                isinstance(function, ast.Name) and function.id in self._functions and all(map(self._is_value, values))
            )
        return self._is_field(call)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether this is arithmetic that cannot fail: sums, differences and products of numbers with their signs."""
        waiting = [node]  # chains of operators may be deeper than the stack
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
                waiting.append(node.operand)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
                waiting += [node.left, node.right]
            elif isinstance(node, ast.Name):
                if node.id not in self._numbers:
                    return False
            elif not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
                return False
        return True

    def _is_made_text(self, node: ast.expr) -> bool:
        """Whether this makes a text in a way that cannot fail: of literals and earlier texts and numbers."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                waiting += [node.left, node.right]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
                if not node.args and node.func.attr in _OF_TEXTS:
                    waiting.append(node.func.value)
                elif len(node.args) == 1 and self._in_library(node.func) == "textwrap.dedent":
                    waiting.append(node.args[0])
                else:
                    return False
            elif isinstance(node, ast.JoinedStr):
                if not all(map(self._is_part_of_text, node.values)):
                    return False
            elif isinstance(node, ast.Name):
                if node.id not in self._texts:
                    return False
            elif not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                return False
        return True

    def _is_part_of_text(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.FormattedValue):
            return isinstance(node, ast.Constant)
        name = node.value.id if isinstance(node.value, ast.Name) else None
        return node.format_spec is None and (name in self._texts or name in self._numbers)

    def _is_annotation(self, node: ast.expr) -> bool:
        """Whether an annotation cannot fail, if it is evaluated at all."""
        if self._annotations_are_text:
            return not any(isinstance(each, _EFFECTS) for each in ast.walk(node))
        return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or self._is_type(node)

    def _is_type(self, node: ast.expr) -> bool:
        while isinstance(node, ast.BinOp):
            if not isinstance(node.op, ast.BitOr) or not self._is_type(node.right):
                return False
            node = node.left
        if isinstance(node, ast.Name):
            return node.id in self._types or self._are_builtin([node], among=_TYPES)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            is_known = self._are_builtin([node.value], among=_GENERIC) or (
                node.value.id in self._types and _PARAMETERS.get(node.value.id) == len(inside)
            )
            return is_known and all(map(self._is_type, inside))
        return isinstance(node, ast.Constant) and node.value is None

    def _in_library(self, node: ast.expr) -> Optional[str]:
        """What of Python's own library a name stands for, dotted."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self._library.get(node.value.id)
            return None if module is None else f"{module}.{node.attr}"
        return self._library.get(node.id) if isinstance(node, ast.Name) else None

    def _are_builtin(self, nodes: Iterable[ast.expr], *, among: Collection[str]) -> bool:
        return all(isinstance(node, ast.Name) and node.id in among and node.id not in self._bound for node in nodes)


def _call(decorator: ast.expr) -> Tuple[ast.expr, List[ast.keyword]]:
    """What a decorator calls to be made, and with what keywords; itself where it calls nothing by names alone."""
    if isinstance(decorator, ast.Call) and not decorator.args:
        return decorator.func, decorator.keywords
    return decorator, []


def _is_whole_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, type(None)))


def _is_of_library(statement: Import) -> bool:
    """Whether an import only gives names of Python's own library."""
    if isinstance(statement, ast.Import):
        return all(alias.name in library.TOP_LEVEL for alias in statement.names)
    known = library.NAMES.get(statement.module or "", ())
    return not statement.level and all(alias.name in known for alias in statement.names)


def _has_plain_members(definition: ast.ClassDef) -> bool:
    """Whether the members and methods of an enumeration make nothing but it."""
    for statement in definition.body:
        if isinstance(statement, FUNCTIONS):
            name: Optional[str] = statement.name
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            name = _assigned(statement)
            if not isinstance(statement.value, ast.Constant):
                return False
        else:
            continue
        if name is None or name.startswith("_") or name in _NOT_OF_ENUMS:
            return False
    return True


def _assigned(statement: Union[ast.Assign, ast.AnnAssign]) -> Optional[str]:
    """The one name that is assigned to; None where it is something else."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def arguments_of(function: Function) -> Iterator[ast.arg]:
    """The parameters of a function, of every kind."""
    arguments = function.args
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module may bind or unbind there; `*` for any."""
    waiting: List[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield from names_bound_by(node)
        if not isinstance(node, _SCOPES):  # what decorators and defaults bind, nobody writes
            waiting += ast.iter_child_nodes(node)


def names_bound_by(node: ast.AST) -> List[str]:
    """The names that a node binds or unbinds by itself, where it stands."""
    name = None
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        name = node.name
    elif isinstance(node, ast.Name):
        name = None if isinstance(node.ctx, ast.Load) else node.id
    elif isinstance(node, ast.alias):
        name = (node.asname or node.name).partition(".")[0]
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.MatchMapping):
        name = node.rest
    return [] if name is None else [name]


def _used_while_made(definition: ast.ClassDef) -> Set[str]:
    """The names that the statements of a class use while it is made."""
    nodes: List[ast.AST] = []
    for statement in definition.body:
        if isinstance(statement, FUNCTIONS):
            nodes += [*statement.decorator_list, statement.args, *([statement.returns] if statement.returns else [])]
        else:
            nodes.append(statement)
    names = (node for each in nodes for node in ast.walk(each) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _annotations_are_text(tree: ast.Module) -> bool:
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return any(alias.name == "annotations" for node in future for alias in node.names)
