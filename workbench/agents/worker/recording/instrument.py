"""Source of the workspace, compiled so that every function says that it ran.

A call is put in front of what a function executes, behind its docstring: `__workbench_ran__(number)`, the `add` of a
set in the builtins. It has the place of the statement behind it: tracebacks, debuggers, `inspect` see no difference.
Another call, `__workbench_ended__(number)`, stands at the end of the module: where it never comes, the import failed.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import os

from .blocks import cut, docstring, parse_source
from .fingerprints import digest
from .opaque import opaque_uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

    from .blocks import Blocks

NAME = "__workbench_ran__"
NAME_AT_END = "__workbench_ended__"

ran: Set[int] = set()
"""The numbers of the functions that have run in this process."""

numbered: Dict[int, Tuple[Compiled, str]] = {}
"""The source and qualified name of each function, by its number; without a name the end of the module."""

at_end: List[Callable[[Compiled], None]] = []
"""Called with each module that has run to its end."""


def _end(number: int) -> None:
    ran.add(number)
    for tell in at_end:
        tell(numbered[number][0])


setattr(builtins, NAME_AT_END, _end)
setattr(builtins, NAME, ran.add)  # early: where names are added later, all code that has run looks builtins up anew

_next_number = itertools.count().__next__  # threads may import at the same time


class Compiled:
    """What became of a source file. Without `blocks` it counts as a whole: its functions do not say that they ran."""

    def __init__(self, path: str, source: bytes, blocks: Optional[Blocks] = None) -> None:
        self.path = os.path.abspath(path)
        self.source = source
        self.blocks = blocks
        self.code: Any = None
        self.opaque: Dict[str, FrozenSet[str]] = {}
        """What it uses that cannot be followed, by the function that does; see `opaque.py`."""

    def fingerprint(self) -> str:
        """The fingerprint of the file."""
        return digest(self.source)


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
        made = Compiled(path, source)
        made.code = compile(source, path, "exec", dont_inherit=True)
    _compiled[path] = made
    return made


def _instrumented(path: str, source: bytes, tree: ast.Module) -> Optional[Compiled]:
    """None where the tree is too deep for what Python does with trees."""
    try:
        blocks, functions = cut(tree)
        made = Compiled(path, source, blocks)
        made.opaque = opaque_uses(source, tree, functions)
        for name, function in functions:
            _announce(function.body, _number_of(made, name), behind=0 if docstring(function) is None else 1)
        if tree.body:
            _announce(tree.body, _number_of(made, ""), behind=len(tree.body), name=NAME_AT_END)
        made.code = compile(tree, path, "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        return None
    return made


def _number_of(compiled: Compiled, name: str) -> int:
    number = _next_number()
    numbered[number] = compiled, name
    return number


def _announce(body: List[ast.stmt], number: int, *, behind: int, name: str = NAME) -> None:
    """Put the call behind so many statements."""
    place = body[min(behind, len(body) - 1)]
    call = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[ast.Constant(value=number)], keywords=[])
    statement = ast.Expr(value=call)
    for node in (statement, call, call.func, *call.args):
        ast.copy_location(node, place)
    body.insert(behind, statement)


def _is_read_by_others(tree: ast.Module) -> bool:
    """Whether functions may be translated from their bytecode by a compiler that knows no function of ours (Numba)."""
    return any(
        name.split(".", 1)[0] == "numba"
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    )
