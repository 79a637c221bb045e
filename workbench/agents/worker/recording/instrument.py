"""Source of the workspace, compiled so that every function says that it ran.

A call is put in front of what a function executes, behind its docstring: `__workbench_ran__(number)`, the `add` of a
set in the builtins. It has the place of the statement behind it: tracebacks, debuggers, `inspect` see no difference.
"""

from __future__ import annotations

import ast
import builtins
import itertools

from .blocks import cut, docstring, parse_source
from .fingerprints import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Dict, Iterable, Optional, Set, Tuple

    from .blocks import Function

NAME = "__workbench_ran__"

ran: Set[int] = set()
"""The numbers of the functions that have run in this process."""

numbered: Dict[int, Tuple[str, str, str]] = {}
"""Path, qualified name and fingerprint of each function, by its number."""

setattr(builtins, NAME, ran.add)  # early: where names are added later, all code that has run looks builtins up anew

_next_number = itertools.count().__next__  # threads may import at the same time


class Compiled:
    """What became of a source file. Without `module` it counts as a whole: its functions do not say that they ran."""

    def __init__(self, source: bytes, code: CodeType, *, module: Optional[str] = None) -> None:
        self.source = source
        self.code = code
        self.module = module

    def fingerprint(self) -> str:
        """The fingerprint of the module block, or of the file."""
        return digest(self.source) if self.module is None else self.module


_compiled: Dict[str, Compiled] = {}


def known(path: str, source: bytes) -> Optional[Compiled]:
    """What was compiled before from the same text, to the byte."""
    found = _compiled.get(path)
    return found if found is not None and found.source == source else None


def sources_by_path() -> Iterable[Tuple[str, bytes]]:
    """The files that were compiled, and their text."""
    return [(path, compiled.source) for path, compiled in _compiled.items()]


def compile_source(path: str, source: bytes) -> Compiled:
    """Compile and remember. Raises what `compile` raises."""
    tree = parse_source(source, path)
    made = None if _is_read_by_others(tree) else _instrumented(path, source, tree)
    if made is None:
        made = Compiled(source, compile(source, path, "exec", dont_inherit=True))
    _compiled[path] = made
    return made


def _instrumented(path: str, source: bytes, tree: ast.Module) -> Optional[Compiled]:
    """None where the tree is too deep for what Python does with trees."""
    try:
        blocks, functions = cut(tree)
        for name, function in functions:
            number = _next_number()
            numbered[number] = (path, name, blocks.bodies[name])
            _announce(function, number)
        return Compiled(source, compile(tree, path, "exec", dont_inherit=True), module=blocks.module)
    except (RecursionError, MemoryError):
        return None


def _announce(function: Function, number: int) -> None:
    behind = 0 if docstring(function) is None else 1
    place = function.body[min(behind, len(function.body) - 1)]
    call = ast.Call(func=ast.Name(id=NAME, ctx=ast.Load()), args=[ast.Constant(value=number)], keywords=[])
    statement = ast.Expr(value=call)
    for node in (statement, call, call.func, *call.args):
        ast.copy_location(node, place)
    function.body.insert(behind, statement)


def _is_read_by_others(tree: ast.Module) -> bool:
    """Whether functions may be translated from their bytecode by a compiler that knows no function of ours (Numba)."""
    return any(
        name.split(".", 1)[0] == "numba"
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    )
