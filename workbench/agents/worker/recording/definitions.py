"""Which statements of a module define one name and do nothing else: constants, plain functions and plain classes.

A case that does not use such a name need not run again when its definition changes. Everything else may raise or call
something when the module is imported: decorated functions, `X = f()`, classes with bases, names that are bound twice.
Nothing here depends on the version of Python that parses.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Dict, Iterable, Iterator, List, Optional, Set, Union

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


def defined_names(tree: ast.Module, bound: Optional[Dict[str, int]]) -> Dict[int, str]:
    """The statements that define one name each and do nothing else: positions in the body, and the names.

    `bound` is what `bound_names` gives.
    """
    found: Dict[int, str] = {}
    if bound is None:
        return found
    reader = _Reader(bound, annotations_are_text=_annotations_are_text(tree))
    for position, statement in enumerate(tree.body):
        name = DOCSTRING if position == 0 and _is_text(statement) else reader.name_defined_by(statement)
        if name is not None:
            found[position] = name
        reader.pass_over(statement, is_definition=name is not None)
    return found


class _Reader:
    """Reads the statements of a module in their order."""

    def __init__(self, bound: Dict[str, int], *, annotations_are_text: bool) -> None:
        self._bound = bound
        self._annotations_are_text = annotations_are_text
        self._earlier: Set[str] = set()
        self._types: Set[str] = set()

    def pass_over(self, statement: ast.stmt, *, is_definition: bool) -> None:
        """What follows may use what this statement binds, if it binds it in any case and nothing else does."""
        if is_definition or isinstance(statement, (ast.Import, ast.ImportFrom)):
            names = [name for name in _bound_by(statement) if self._bound[name] == 1]
            self._earlier.update(names)
            if isinstance(statement, (ast.ImportFrom, ast.ClassDef)):
                self._types.update(name for name in names if name[:1].isupper())

    def name_defined_by(self, statement: ast.stmt) -> Optional[str]:
        """The name that a statement defines, doing nothing else."""
        name, is_plain = None, False
        if isinstance(statement, FUNCTIONS):
            name, is_plain = statement.name, not statement.decorator_list and self._is_plain_function(statement)
        elif isinstance(statement, ast.ClassDef):
            name, is_plain = statement.name, self._is_plain_class(statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            name, is_plain = _assigned(statement), self._is_plain_assignment(statement)
        if name is None or not is_plain or _is_special(name) or self._bound[name] > 1:
            return None
        return name

    def _is_plain_function(self, function: Function) -> bool:
        """Whether to define it, without its decorators, cannot fail."""
        defaults = [*function.args.defaults, *function.args.kw_defaults]
        annotations = [*(argument.annotation for argument in arguments_of(function)), function.returns]
        return (
            not getattr(function, "type_params", None)
            and all(default is None or self._is_value(default) for default in defaults)
            and all(each is None or self._is_annotation(each) for each in annotations)
        )

    def _is_plain_class(self, definition: ast.ClassDef) -> bool:
        if definition.decorator_list or definition.keywords or getattr(definition, "type_params", None):
            return False
        if len(definition.bases) > 1 or not self._are_builtin(definition.bases, among={*_EXCEPTIONS, "object"}):
            return False
        names: List[Optional[str]] = []
        for statement in definition.body:
            if isinstance(statement, FUNCTIONS):
                names.append(statement.name)
                is_plain = self._is_plain_function(statement)
                is_plain = is_plain and self._are_builtin(statement.decorator_list, among=_WRAPPERS)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                names.append(_assigned(statement))
                is_plain = self._is_plain_assignment(statement)
            else:
                is_plain = isinstance(statement, ast.Pass) or _is_text(statement)
            if not is_plain:
                return False
        own = {name for name in names if name is not None and (name in _METHODS or not _is_special(name))}
        # What the class binds itself its own statements would find first.
        return len(own) == len(names) and own.isdisjoint(_used_while_made(definition))

    def _is_plain_assignment(self, statement: Union[ast.Assign, ast.AnnAssign]) -> bool:
        if isinstance(statement, ast.AnnAssign) and not self._is_annotation(statement.annotation):
            return False
        return statement.value is None or self._is_value(statement.value)

    def _is_value(self, node: ast.expr) -> bool:
        """Whether to evaluate this calls nothing and cannot fail."""
        if isinstance(node, ast.Name):
            return node.id in self._earlier or self._are_builtin([node], among=_TYPES)
        if isinstance(node, (ast.List, ast.Tuple)):
            return all(map(self._is_value, node.elts))
        if isinstance(node, ast.Set):
            return all(isinstance(each, ast.Constant) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(isinstance(key, ast.Constant) for key in node.keys) and all(map(self._is_value, node.values))
        return isinstance(node, ast.Constant) or _is_number(node)

    def _is_annotation(self, node: ast.expr) -> bool:
        """Whether an annotation cannot fail, if it is evaluated at all."""
        if self._annotations_are_text:
            return not any(
                isinstance(each, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for each in ast.walk(node)
            )
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

    def _are_builtin(self, nodes: Iterable[ast.expr], *, among: Collection[str]) -> bool:
        return all(isinstance(node, ast.Name) and node.id in among and node.id not in self._bound for node in nodes)


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


def _is_number(node: ast.expr) -> bool:
    """Whether this is arithmetic that cannot fail: numbers with their sign, sums, differences and products of them."""
    waiting = [node]  # chains of operators may be deeper than the stack
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            waiting.append(node.operand)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            waiting += [node.left, node.right]
        elif not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
            return False
    return True


def _annotations_are_text(tree: ast.Module) -> bool:
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return any(alias.name == "annotations" for node in future for alias in node.names)
