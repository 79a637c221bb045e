"""Source compiled with announcements: which functions are executed, and what in them cannot be followed."""

from __future__ import annotations

import ast
import builtins
import itertools
import os
import re

from .blocks import cut, docstring, parse_source
from .fingerprints import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Set, Tuple

    from workbench.agents.worker.recording.blocks import Blocks, Function


# What nobody can follow, found in the agent's own source, by function: a case that runs such a function is opaque.

_READERS: Dict[str, Optional[str]] = {
    "chromadb": None, "cv2": None, "duckdb": None, "fiona": None, "fitz": None, "h5py": None, "lancedb": None,
    "netCDF4": None, "pyarrow": None, "pymupdf": None, "pyogrio": None, "pypdfium2": None, "rasterio": None,
    "sentencepiece": None, "soundfile": None, "tables": None, "tokenizers": None,
    "dbm": r"open|gnu|ndbm",
    "faiss": r"read_\w+",
    "geopandas": r"read_\w+",
    "lxml": r"parse|DTD|XMLSchema|RelaxNG|Schematron|XSLT|[xX][iI]nclude|load_dtd",
    "pandas": r"read_(parquet|orc|hdf)|HDFStore",
    "polars": r"(read|scan)_\w+|SQLContext|sql",
    "readline": r"read_\w+",
    "ssl": r"cafile|capath",
    "xarray": r"(open|load)_\w+",
}  # fmt: skip
"""The names under which a library reads, where it does more than that: others, like `lxml.etree.fromstring`, do not."""
_OF_CERTIFICATES = frozenset(("load_cert_chain", "load_dh_params", "load_verify_locations"))
_MENTIONED = tuple(
    name.encode() for name in (*_READERS, *_OF_CERTIFICATES, "attach ", "Attach ", "ATTACH", "_lineno", "__code__")
)
_ATTACHES = re.compile(r"(?i)(^|;)\s*ATTACH(\s+DATABASE\b|\s*[?:'\"]|\s+$)")
_OF_CODE = frozenset(("__code__", "f_lineno", "tb_lineno"))


def opaque_uses(source: bytes, tree: ast.Module, functions: List[Tuple[str, Function]]) -> Dict[str, FrozenSet[str]]:
    """What each function uses that is opaque, by qualified name; under an empty name what runs on import does."""
    if not any(name in source for name in _MENTIONED):
        return {}
    run_on_import = list(_run_on_import(tree))
    imported = dict(_imported(run_on_import))
    parts = {"": _used(run_on_import, imported)}
    for name, function in functions:  # with those inside: these may use what it has imported
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        parts[name] = parts.get(name, frozenset()) | _used(nodes, {**imported, **dict(_imported(nodes))})
    return {name: used for name, used in parts.items() if used}


def _imported(nodes: Iterable[ast.AST]) -> Iterator[Tuple[str, Tuple[str, str]]]:
    """Names that such libraries are imported under: each with the library, and the name that it has there."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                library = alias.name.partition(".")[0]
                if library in _READERS:
                    yield alias.asname or library, (library, "")
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
            library = node.module.partition(".")[0]
            if library in _READERS:
                for alias in node.names:
                    yield alias.asname or alias.name, (library, alias.name)


def _run_on_import(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module but for those in bodies of functions."""
    waiting: List[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        inside = node.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
        waiting += [child for child in ast.iter_child_nodes(node) if child not in inside]


def _used(nodes: Iterable[ast.AST], imported: Dict[str, Tuple[str, str]]) -> FrozenSet[str]:
    libraries, names, found = set(), set(), set()
    for node in nodes:
        if isinstance(node, ast.Name):
            if node.id in imported:
                library, name = imported[node.id]
                libraries.add(library)
                names.add(name)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
            if node.attr in _OF_CODE:
                found.add("numbers of lines, or code objects")
            if node.attr in _OF_CERTIFICATES:
                found.add("ssl opens files by itself")
        elif isinstance(node, ast.keyword) and node.arg is not None:
            names.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _ATTACHES.search(node.value):
            found.add("ATTACH in SQL")
    for library in libraries:
        reading = _READERS[library]
        if reading is None or any(re.fullmatch(reading, name) for name in names):
            found.add(f"{library} opens files by itself")
    return frozenset(found)


# Source of the workspace, compiled so that every function says that it ran.

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
