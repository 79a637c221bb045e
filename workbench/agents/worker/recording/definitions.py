"""Statements that only define names: constants, plain functions and classes, imports.

A case that does not use such a name need not run again when its definition changes. Other statements may raise or call
something during the import: `X = f()`, decorators, bases and imports that are not known to be harmless, names that such
statements bind as well. Results do not depend on the version of Python that parses. The lists of Python's own library
hold what has no side effects; all of it exists in every supported version and on every platform.
"""

from __future__ import annotations

import ast
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Iterable, Iterator

    Import = ast.Import | ast.ImportFrom
    Function = ast.FunctionDef | ast.AsyncFunctionDef


# Python's own library.

TOP_LEVEL = frozenset(
    (
        "abc", "asyncio", "base64", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal",
        "enum", "functools", "hashlib", "html", "inspect", "io", "itertools", "json", "logging", "math", "operator",
        "os", "pathlib", "random", "re", "secrets", "shutil", "statistics", "string", "sys", "tempfile", "textwrap",
        "threading", "time", "traceback", "types", "typing", "uuid", "warnings",
    )
)  # fmt: skip
"""Modules that may be imported."""

NAMES: dict[str, frozenset[str]] = {
    "abc": frozenset(("ABC", "abstractmethod")),
    "collections": frozenset(("ChainMap", "Counter", "OrderedDict", "defaultdict", "deque", "namedtuple")),
    "collections.abc": frozenset(
        (
            "AsyncGenerator", "AsyncIterable", "AsyncIterator", "Awaitable", "Callable", "Collection", "Coroutine",
            "Generator", "Hashable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Sized",
        )
    ),
    "contextlib": frozenset(
        (
            "AsyncExitStack", "ExitStack", "asynccontextmanager", "closing", "contextmanager", "nullcontext",
            "redirect_stderr", "redirect_stdout", "suppress",
        )
    ),
    "copy": frozenset(("copy", "deepcopy")),
    "dataclasses": frozenset(("asdict", "astuple", "dataclass", "field", "fields", "is_dataclass", "replace")),
    "datetime": frozenset(("date", "datetime", "time", "timedelta", "timezone", "tzinfo")),
    "decimal": frozenset(("Decimal", "InvalidOperation")),
    "enum": frozenset(("Enum", "Flag", "IntEnum", "auto", "unique")),
    "functools": frozenset(
        ("cache", "cached_property", "lru_cache", "partial", "reduce", "singledispatch", "total_ordering", "wraps")
    ),
    "io": frozenset(("BytesIO", "StringIO")),
    "itertools": frozenset(("accumulate", "chain", "count", "cycle", "groupby", "islice", "product", "repeat")),
    "json": frozenset(("JSONDecodeError", "dumps", "loads")),
    "math": frozenset(("ceil", "floor", "inf", "isclose", "isnan", "log", "pi", "sqrt")),
    "operator": frozenset(("attrgetter", "itemgetter")),
    "pathlib": frozenset(("Path", "PurePath", "PurePosixPath")),
    "random": frozenset(("Random", "choice", "randint", "sample", "shuffle")),
    "string": frozenset(("Template", "ascii_letters", "ascii_lowercase", "digits", "punctuation")),
    "textwrap": frozenset(("dedent", "indent", "shorten", "wrap")),
    "time": frozenset(("monotonic", "perf_counter", "sleep", "time")),
    "types": frozenset(("MappingProxyType", "ModuleType", "SimpleNamespace", "TracebackType")),
    "typing": frozenset(
        (
            "Annotated", "Any", "AsyncGenerator", "AsyncIterator", "Awaitable", "Callable", "ClassVar", "Dict", "Final",
            "FrozenSet", "Generator", "Generic", "Iterable", "Iterator", "List", "Literal", "Mapping",
            "MutableMapping", "NamedTuple", "NoReturn", "Optional", "Protocol", "Sequence", "Set", "TYPE_CHECKING",
            "Tuple", "Type", "TypeVar", "TypedDict", "Union", "cast", "get_args", "get_origin", "get_type_hints",
        )
    ),
    "uuid": frozenset(("UUID", "uuid4", "uuid5")),
}  # fmt: skip
"""Names that may be imported from modules."""

DECORATORS = frozenset(
    (
        "abc.abstractmethod", "contextlib.asynccontextmanager", "contextlib.contextmanager", "functools.cache",
        "functools.cached_property", "functools.lru_cache",
    )
)  # fmt: skip
"""Decorators that only wrap a function."""


# Statements.

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
"""Names that a module can use without binding them."""

_GENERIC = frozenset(("list", "dict", "set", "frozenset", "tuple", "type"))
_PARAMETERS = {
    **dict.fromkeys(("Optional", "List", "Set", "FrozenSet", "Sequence", "Iterable", "Iterator"), 1),
    **dict.fromkeys(("Dict", "Mapping", "MutableMapping"), 2),
}
_EFFECTS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OF_TEXTS = frozenset(("strip", "lstrip", "rstrip", "lower", "upper", "title"))
"""String methods that cannot fail without arguments."""
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
"""Special names that have no effect on the creation of a class."""


def count_bound_names(tree: ast.Module) -> dict[str, int] | None:
    """Count the statements of a module that may bind each name. None if unknown, after `from x import *`."""
    counts: dict[str, int] = {}
    for statement in tree.body:
        for name in set(_iter_bound_names(statement)):
            counts[name] = counts.get(name, 0) + 1
    return None if "*" in counts else counts


def find_defined_names(tree: ast.Module, bound: dict[str, int] | None) -> dict[int, list[str]]:
    """Return the statements that only define names: positions in the body, and the names.

    An import may define several names, in its order; other statements define one. A function that looks the same to
    callers whatever its docstring and annotations are has a second name, `f()`. `bound` comes from `count_bound_names`.
    """
    found: dict[int, list[str]] = {}
    if bound is None:
        return found
    reader = _Reader(tree, bound)
    for position, statement in enumerate(tree.body):
        names = [DOCSTRING] if position == 0 and _is_text(statement) else reader.list_defined_names(statement)
        if names:
            found[position] = names
        reader.note_statement(statement, is_definition=bool(names))
    _drop_partly_defined_names(found, bound)
    return found


def _drop_partly_defined_names(found: dict[int, list[str]], bound: dict[str, int]) -> None:
    """Drop the statements that define a name which another statement binds in another way."""
    while True:
        counts: dict[str, int] = {}
        for name in (name for names in found.values() for name in names):
            counts[name] = counts.get(name, 0) + 1
        partly = {name for name, count in counts.items() if count < bound.get(name, 0)}
        dropped = [position for position, names in found.items() if not partly.isdisjoint(names)]
        if not dropped:
            return
        for position in dropped:
            del found[position]


class _Reader:
    """Reads the statements of a module in order."""

    def __init__(self, tree: ast.Module, bound: dict[str, int]) -> None:
        self._tree = tree
        self._bound = bound
        self._annotations_are_text = _annotations_are_text(tree)
        self._global_names: set[str] | None = None
        self._earlier: set[str] = set()
        self._types: set[str] = set()
        self._functions: set[str] = set()
        self._wrappers: set[str] = set()
        self._numbers: set[str] = set()
        self._texts: set[str] = set()
        self._library: dict[str, str] = {}  # dotted names of imports from Python's own library

    def note_statement(self, statement: ast.stmt, *, is_definition: bool) -> None:
        """Note the names that a statement certainly binds alone: later statements may use them."""
        if not is_definition and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            return
        names = [name for name in _iter_bound_names(statement) if self._bound[name] == 1]
        self._earlier.update(names)
        if isinstance(statement, (ast.ImportFrom, ast.ClassDef)):
            self._types.update(name for name in names if name[:1].isupper())
        if not is_definition:
            return
        if isinstance(statement, FUNCTIONS) and not statement.decorator_list:
            self._functions.update(names)
            if self._is_wrapper(statement):
                self._wrappers.update(names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for known, is_such in ((self._numbers, self._is_number), (self._texts, self._is_made_text)):
                if is_such(statement.value):
                    known.update(names)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            from_module = "" if isinstance(statement, ast.Import) else f"{statement.module}."
            aliases = ((alias.asname or alias.name, from_module + alias.name) for alias in statement.names)
            self._library.update((name, dotted) for name, dotted in aliases if name in names)

    def list_defined_names(self, statement: ast.stmt) -> list[str]:
        """Return the names that a statement defines, if it does nothing else."""
        names: list[str] = []
        if isinstance(statement, FUNCTIONS):
            decorators = statement.decorator_list
            if self._is_plain_function(statement) and self._are_harmless(decorators):
                names = [statement.name]
                if self._bound[statement.name] == 1 and not any(map(self._is_wrapping, decorators)):
                    names.append(f"{statement.name}()")
        elif isinstance(statement, ast.ClassDef):
            if self._is_plain_class(statement):
                names = [statement.name]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            name = _assigned_name(statement)
            if name is not None and self._is_plain_assignment(statement):
                names = [name]
        elif isinstance(statement, (ast.Import, ast.ImportFrom)) and _is_of_library(statement):
            names = [alias.asname or alias.name for alias in statement.names]
        return [] if any(map(_is_special, names)) else names

    def _is_plain_function(self, function: Function) -> bool:
        """Return True if defining the function, without its decorators, cannot fail."""
        annotations = [*(argument.annotation for argument in iter_arguments(function)), function.returns]
        return (
            not getattr(function, "type_params", None)
            and self._have_plain_defaults(function.args)
            and all(each is None or self._is_annotation(each) for each in annotations)
        )

    def _have_plain_defaults(self, arguments: ast.arguments) -> bool:
        return all(each is None or self._is_value(each) for each in (*arguments.defaults, *arguments.kw_defaults))

    def _are_harmless(self, decorators: list[ast.expr]) -> bool:
        """Return True if the decorators only wrap a function. Several of the library may be incompatible."""
        decorators = [each for each in decorators if not self._is_wrapping(each)]
        if not decorators:
            return True
        called, keywords = _call(decorators[0])
        name = self._in_library(called)
        return (
            len(decorators) == 1
            and name in DECORATORS
            and (called is decorators[0] or name == "functools.lru_cache")
            and all(
                each.arg in ("maxsize", "typed")
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, (int, type(None)))
                for each in keywords
            )
        )

    def _is_wrapping(self, decorator: ast.expr) -> bool:
        """Return True for a lambda or function of the module that only makes another function of the given one."""
        if isinstance(decorator, ast.Lambda):
            return self._is_wrapper(decorator)
        return isinstance(decorator, ast.Name) and decorator.id in self._wrappers and not self._is_global(decorator.id)

    def _is_global(self, name: str) -> bool:
        """Return True if a function may bind a name of the module."""
        if self._global_names is None:
            declared = (node for node in ast.walk(self._tree) if isinstance(node, ast.Global))
            self._global_names = {name for node in declared for name in node.names}
        return name in self._global_names

    def _is_wrapper(self, function: Function | ast.Lambda) -> bool:
        """Return True if a call with one argument only makes functions, and returns one of them or the argument."""
        parameters = [*function.args.posonlyargs, *function.args.args]
        if not parameters or len(parameters) > 1 + len(function.args.defaults) or None in function.args.kw_defaults:
            return False
        given = parameters[0].arg
        made = {given}
        result: ast.expr | None = None
        if isinstance(function, ast.AsyncFunctionDef):
            return False
        if isinstance(function, ast.Lambda):
            if not self._have_plain_defaults(function.args):
                return False
            result = function.body
        else:
            for statement in function.body[1:] if _is_text(function.body[0]) else function.body:
                if result is not None:
                    return False
                if isinstance(statement, FUNCTIONS) and self._is_made_function(statement, given=given):
                    made.add(statement.name)
                elif isinstance(statement, ast.Return):
                    result = statement.value
                else:
                    return False
        hidden = made.union(argument.arg for argument in iter_arguments(function))
        if any(name in self._bound or name in BUILTINS for name in hidden):  # annotations inside may mean it
            return False
        if isinstance(result, ast.Lambda):
            return self._have_plain_defaults(result.args)
        return isinstance(result, ast.Name) and result.id in made

    def _is_made_function(self, function: Function, *, given: str) -> bool:
        """Return True if a function inside a decorator is plain, apart from `functools.wraps(given)`."""
        return function.name != given and self._is_plain_function(function) and all(
            isinstance(each, ast.Call)
            and self._in_library(each.func) == "functools.wraps"
            and not each.keywords
            and len(each.args) == 1
            and isinstance(each.args[0], ast.Name)
            and each.args[0].id == given
            for each in function.decorator_list
        )  # fmt: skip

    def _is_plain_class(self, definition: ast.ClassDef) -> bool:
        if definition.keywords or getattr(definition, "type_params", None) or not self._has_plain_bases(definition):
            return False
        names: list[str | None] = []
        for statement in definition.body:
            if isinstance(statement, FUNCTIONS):
                names.append(statement.name)
                is_plain = self._is_plain_function(statement)
                decorators = list(statement.decorator_list)
                while decorators and self._are_builtin(decorators[:1], among=_WRAPPERS):
                    del decorators[0]
                is_plain = is_plain and self._are_harmless(decorators)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                names.append(_assigned_name(statement))
                is_plain = self._is_plain_assignment(statement)
            else:
                is_plain = isinstance(statement, ast.Pass) or _is_text(statement)
            if not is_plain:
                return False
        own = {name for name in names if name is not None and (name in _METHODS or not _is_special(name))}
        # Statements of a class find its own names first.
        if len(own) != len(names) or not own.isdisjoint(_used_while_made(definition)):
            return False
        if any(self._in_library(base) == "enum.Enum" for base in definition.bases):
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

    def _is_plain_dataclass(self, definition: ast.ClassDef) -> bool:
        """Return True if a decorated class is a dataclass with compatible fields."""
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
        """Return True for a dataclass field with a default factory."""
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

    def _is_plain_assignment(self, statement: ast.Assign | ast.AnnAssign) -> bool:
        if isinstance(statement, ast.AnnAssign) and not self._is_annotation(statement.annotation):
            return False
        return statement.value is None or self._is_value(statement.value)

    def _is_value(self, node: ast.expr) -> bool:
        """Return True if evaluating this has no side effects and cannot fail."""
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
        """Return True for a call that only creates a value: `set()`, `frozenset(("a", "b"))`, `functools.partial(f,
        1)`."""
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
        """Return True for arithmetic that cannot fail: sums, differences and products of signed numbers."""
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
        """Return True for a text that cannot fail to be built: from literals and earlier texts and numbers."""
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
        """Return True if an annotation cannot fail, should it be evaluated."""
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

    def _in_library(self, node: ast.expr) -> str | None:
        """Return the dotted name in Python's own library that a name refers to."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self._library.get(node.value.id)
            return None if module is None else f"{module}.{node.attr}"
        return self._library.get(node.id) if isinstance(node, ast.Name) else None

    def _are_builtin(self, nodes: Iterable[ast.expr], *, among: Collection[str]) -> bool:
        return all(isinstance(node, ast.Name) and node.id in among and node.id not in self._bound for node in nodes)


def _call(decorator: ast.expr) -> tuple[ast.expr, list[ast.keyword]]:
    """Return what a decorator calls, and its keywords; the decorator itself if it is no call with keywords only."""
    if isinstance(decorator, ast.Call) and not decorator.args:
        return decorator.func, decorator.keywords
    return decorator, []


def _is_of_library(statement: Import) -> bool:
    """Return True if an import only binds names of Python's own library."""
    if isinstance(statement, ast.Import):
        return all(alias.name in TOP_LEVEL for alias in statement.names)
    known = NAMES.get(statement.module or "", ())
    return not statement.level and all(alias.name in known for alias in statement.names)


def _has_plain_members(definition: ast.ClassDef) -> bool:
    """Return True if the members and methods of an enumeration create nothing else."""
    for statement in definition.body:
        if isinstance(statement, FUNCTIONS):
            name: str | None = statement.name
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            name = _assigned_name(statement)
            if not isinstance(statement.value, ast.Constant):
                return False
        else:
            continue
        if name is None or name.startswith("_") or name in _NOT_OF_ENUMS:
            return False
    return True


def _assigned_name(statement: ast.Assign | ast.AnnAssign) -> str | None:
    """Return the only name that is assigned; None for other targets."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def iter_arguments(function: Function | ast.Lambda) -> Iterator[ast.arg]:
    """Yield the parameters of a function, of every kind."""
    arguments = function.args
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _iter_bound_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module may bind or unbind there; `*` for any name."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield from list_bound_names(node)
        if not isinstance(node, _SCOPES):  # decorators and defaults bind no names in practice
            waiting += ast.iter_child_nodes(node)


def list_bound_names(node: ast.AST) -> list[str]:
    """Return the names that a node itself binds or unbinds."""
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


def _used_while_made(definition: ast.ClassDef) -> set[str]:
    """Return the names that the statements of a class use during its creation."""
    nodes: list[ast.AST] = []
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


# Callbacks of agents that are lambdas.

_CALLBACK = re.compile(r"(before|after|on)_\w+_callback")


def may_have_callbacks(source: bytes) -> bool:
    """Return whether a source may set callbacks of agents: lambdas in other sources are not looked for."""
    return b"_callback" in source and b"lambda" in source


def find_callback_lambdas(tree: ast.Module) -> dict[str, ast.Lambda]:
    """Return the lambdas that may be callbacks of agents, by names that do not depend on lines.

    These are values of `before_…_callback` and the like, values that are assigned at the top, and returned values.
    """
    found: list[tuple[str, ast.expr | None]] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, prefix = waiting.pop()
        if isinstance(node, FUNCTIONS):
            prefix = f"{prefix}{node.name}."
        elif isinstance(node, ast.Call):
            owner = next((_get_text(each.value) for each in node.keywords if each.arg == "name"), "")
            for keyword in node.keywords:
                if keyword.arg is not None and _CALLBACK.fullmatch(keyword.arg):
                    given = keyword.value
                    values = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
                    found += [(f"{owner}.{keyword.arg}", each) for each in values]
        elif isinstance(node, ast.Assign) and not prefix:
            found += [(each.id, node.value) for each in node.targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.Return):
            found.append((f"{prefix}return", node.value))
        waiting += [(child, prefix) for child in ast.iter_child_nodes(node)]
    lambdas: dict[str, ast.Lambda] = {}
    known: set[int] = set()
    values_by_line = sorted(found, key=lambda each: (getattr(each[1], "lineno", 0), getattr(each[1], "col_offset", 0)))
    for name, value in values_by_line:
        if isinstance(value, ast.Lambda) and id(value) not in known:
            known.add(id(value))
            unique, number = f"<lambda>.{name}", 1
            while unique in lambdas:
                number += 1
                unique = f"<lambda>.{name}.{number}"
            lambdas[unique] = value
    return lambdas


def _get_text(value: ast.expr) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
