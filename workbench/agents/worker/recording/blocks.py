"""Python source, cut into what is executed together: a fingerprint for the module and one for each function's body.

What a function looks like from outside (name, decorators, signature, defaults, annotations, docstring, whether it is
async or a generator) belongs to the block around it: frameworks tell it to models without calling the function.
Comments and formatting are in no block. A class belongs to the block around it, a lambda too.

What is hashed does not depend on the version of Python that parses.
"""

from __future__ import annotations

import ast
import contextlib
import warnings

from .fingerprints import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple, Union

    Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_TRIES = 5
_LEFT_OUT = frozenset(("ctx", "kind", "type_comment"))
_BOUNDARIES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


class Blocks:
    """The fingerprints of one source: `module`, and `bodies` by the functions' qualified names.

    Functions that share a name (two branches, a property and its setter) share one fingerprint.
    """

    def __init__(self, module: str, bodies: Dict[str, str]) -> None:
        self.module = module
        self.bodies = bodies


def read_blocks(source: bytes, path: str) -> Blocks:
    """The blocks of a source text, BOM and coding cookie included. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever runs the code is told
        try:
            return blocks_of(parse_source(source, path))
        except (RecursionError, MemoryError) as error:
            raise ValueError(f"{path} is nested too deeply") from error


def parse_source(source: bytes, path: str) -> ast.Module:
    """Parse, without the flags of this module. Raises what `compile` raises.

    Python 3.11 counts the depth of all threads together and may raise SystemError if two parse at the same moment.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(SystemError):
            return _parse(source, path)
    return _parse(source, path)


def _parse(source: bytes, path: str) -> ast.Module:
    tree: ast.Module = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)  # type: ignore[assignment]
    return tree


def blocks_of(tree: ast.Module) -> Blocks:
    """The blocks of a module that is parsed already."""
    return cut(tree)[0]


def cut(tree: ast.Module) -> Tuple[Blocks, List[Tuple[str, Function]]]:
    """The blocks of a module that is parsed already, and all its functions by their qualified names."""
    functions: List[Tuple[str, Function]] = []
    module = _fingerprint(tree.body, "", functions)
    found: Dict[str, List[str]] = {}
    for name, function in functions:  # grows while bodies are read
        found.setdefault(name, []).append(_fingerprint(executed(function), f"{name}.<locals>.", functions))
    bodies = {
        name: prints[0] if len(prints) == 1 else digest("+".join(prints).encode()) for name, prints in found.items()
    }
    return Blocks(module, bodies), functions


def executed(function: Function) -> List[ast.stmt]:
    """The statements of a function that run: all but its docstring."""
    return function.body[1:] if docstring(function) is not None else function.body


def docstring(function: Function) -> Union[str, None]:
    """The docstring as it stands in the source."""
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value.value
    return None


class _Within:
    """Says, among what is still to be written, that from here on functions have this in front of their names."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix


def _fingerprint(body: List[ast.stmt], prefix: str, functions: List[Tuple[str, Function]]) -> str:
    """The fingerprint of statements. The functions among them are added to `functions`, by name.

    Not recursive: chains of operators may be deeper than the stack.
    """
    written: List[str] = []
    write = written.append
    waiting: List[Any] = [*reversed(body)]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is str:
            write(item)
        elif kind is list:
            waiting.append("]")
            waiting += reversed(item)
            write("[")
        elif kind is _Within:
            prefix = item.prefix
        elif isinstance(item, ast.AST):
            fields: List[Any] = [f"({kind.__name__}"]
            if isinstance(item, FUNCTIONS):
                functions.append((prefix + item.name, item))
                fields += _header(item)
            elif isinstance(item, ast.ClassDef):
                fields.append(_Within(f"{prefix}{item.name}."))
                fields += _fields(item)
                fields.append(_Within(prefix))
            elif isinstance(item, ast.Constant):
                fields.append(_constant(item.value))
            elif isinstance(item, ast.JoinedStr):
                fields.append(_parts(item))
            else:
                fields += _fields(item)
            fields.append(")")
            waiting += reversed(fields)
        else:
            write(_constant(item))
    return digest("".join(written).encode())


def _fields(node: ast.AST) -> Iterator[Any]:
    """Names and values of what a node has. Absent and empty are the same: later versions have fields more."""
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
    text = docstring(function)
    if text is not None:
        yield f" docstring={_constant(text)}"
    if _is_generator(function):
        yield " generator"


def _constant(value: Any) -> str:
    """A constant as text, its type included."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"<int {value:x}>"  # in digits it may be longer than Python is willing to write
    return f"<{type(value).__name__} {value!a}>"  # !a: what is printable depends on the version


def _parts(text: ast.JoinedStr) -> List[Any]:
    """The parts of an f-string, literal text in one piece: versions differ in where they cut it."""
    parts: List[Any] = []
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
    waiting: List[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        waiting += _evaluated_outside(node) if isinstance(node, _BOUNDARIES) else ast.iter_child_nodes(node)
    return False


def _evaluated_outside(node: Any) -> Iterator[ast.AST]:
    """What of a function or class is evaluated where it is defined: decorators, defaults, bases."""
    yield from getattr(node, "decorator_list", ())
    yield from getattr(node, "bases", ())
    yield from getattr(node, "keywords", ())
    arguments = getattr(node, "args", None)
    if arguments is not None:
        yield from arguments.defaults
        yield from (default for default in arguments.kw_defaults if default is not None)
