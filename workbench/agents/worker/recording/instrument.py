"""Instrumentation of source: functions report their execution, and opaque operations are found."""

from __future__ import annotations

import ast
import builtins
import itertools
import os
import re
from functools import partial

from .blocks import cut, get_docstring, parse_source
from .definitions import find_callback_lambdas, may_have_callbacks
from .fingerprints import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Collection, Iterable, Iterator

    from .blocks import Blocks, Function


# Opaque operations in the agent's own source, by function: a case that runs such a function is opaque.

_READERS: dict[str, str | None] = {
    "annoy": None, "chromadb": None, "ctranslate2": None, "cv2": None, "duckdb": None, "fastexcel": None,
    "fasttext": None, "fiona": None, "fitz": None, "h5py": None, "hnswlib": None, "kuzu": None, "lancedb": None,
    "lightgbm": None, "llama_cpp": None, "lmdb": None, "netCDF4": None, "onnxruntime": None, "osgeo": None,
    "plyvel": None, "pyarrow": None, "pymupdf": None, "pyogrio": None, "pypdfium2": None, "pyreadstat": None,
    "python_calamine": None, "rasterio": None, "rocksdict": None, "safetensors": None, "sentencepiece": None,
    "soundfile": None, "tables": None, "tantivy": None, "tensorflow": None, "tokenizers": None, "usearch": None,
    "xgboost": None,
    "dbm": r"open|gnu|ndbm",
    "faiss": r"read_\w+",
    "geopandas": r"read_\w+",
    "lxml": r"parse|DTD|XMLSchema|RelaxNG|Schematron|XSLT|[xX][iI]nclude|load_dtd",
    "pandas": r"read_(parquet|orc|hdf)|HDFStore",
    "polars": r"(read|scan)_\w+|SQLContext|sql",
    "readline": r"read_\w+",
    "ssl": r"cafile|capath",
    "torch": r"jit|from_file",
    "xarray": r"(open|load)_\w+",
}  # fmt: skip
"""Libraries that read files natively, with the names that do so if not all do: `lxml.etree.fromstring` does not."""
_OF_CERTIFICATES = frozenset(("load_cert_chain", "load_dh_params", "load_verify_locations"))
_MENTIONED = tuple(
    name.encode() for name in (*_READERS, *_OF_CERTIFICATES, "attach ", "Attach ", "ATTACH", "_lineno", "__code__")
)
_ATTACHES = re.compile(r"(?i)(^|;)\s*ATTACH(\s+DATABASE\b|\s*[?:'\"]|\s+$)")
_ATTACHED = re.compile(r"""(?i)(?:^|;)\s*ATTACH\s*(?:DATABASE\b)?\s*(?:'([^'"]+)'|"([^'"]+)")\s*AS\b""")
_OF_CODE = frozenset(("__code__", "f_lineno", "tb_lineno"))


def find_opaque_uses(
    source: bytes, tree: ast.Module, functions: list[tuple[str, Function]]
) -> dict[str, frozenset[str]]:
    """Return the opaque operations of each function by qualified name; under an empty name those of the import.

    Calls that `NativeReads` follows are changed in the tree, and not opaque.
    """
    if not any(name in source for name in _MENTIONED):
        return {}
    reads = NativeReads(tree)
    run_on_import = list(_run_on_import(tree))
    imported = dict(_iter_reader_imports(run_on_import))
    parts = {"": _find_opaque_uses(run_on_import, imported, reads.followed)}
    for name, function in functions:  # including nested functions, which may use its imports
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        parts[name] = parts.get(name, frozenset()) | _find_opaque_uses(
            nodes, {**imported, **dict(_iter_reader_imports(nodes))}, reads.followed
        )
    reads.announce()
    return {name: used for name, used in parts.items() if used}


def _iter_reader_imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the local names of such libraries, each with the library and the imported name."""
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
    """Yield the nodes of a module outside bodies of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        inside = node.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
        waiting += [child for child in ast.iter_child_nodes(node) if child not in inside]


def _find_opaque_uses(
    nodes: Iterable[ast.AST], imported: dict[str, tuple[str, str]], followed: Collection[int]
) -> frozenset[str]:
    libraries, names, found = set(), set(), set()
    for node in nodes:
        if id(node) in followed:
            continue
        if isinstance(node, ast.Name):
            if node.id in imported:
                library, name = imported[node.id]
                libraries.add(library)
                names.add(name)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
            if node.attr in _OF_CODE:
                found.add("line numbers, or code objects")
            if node.attr in _OF_CERTIFICATES:
                found.add("ssl opens files by itself")
        elif isinstance(node, ast.keyword) and node.arg is not None:
            names.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _ATTACHES.search(node.value):
            found.add(OF_SQL)
    for library in libraries:
        reading = _READERS[library]
        if reading is None or any(re.fullmatch(reading, name) for name in names):
            found.add(f"{library} opens files by itself")
    return frozenset(found)


# Calls of such libraries that only read the file that an argument names: the argument reports itself.

_FOLLOWED: dict[str, tuple[int, frozenset[str]]] = {
    "cv2.imread": (1, frozenset(("filename",))),
    "lxml.etree.parse": (1, frozenset(("source",))),
    "pandas.read_orc": (1, frozenset(("path",))),
    "pandas.read_parquet": (1, frozenset(("path",))),
    "polars.read_csv": (1, frozenset(("source",))),
    "polars.read_ipc": (1, frozenset(("source",))),
    "polars.read_json": (1, frozenset(("source",))),
    "polars.read_ndjson": (1, frozenset(("source",))),
    "polars.read_parquet": (1, frozenset(("source",))),
    "pyarrow.parquet.ParquetFile": (1, frozenset(("source",))),
    "pyarrow.parquet.read_table": (1, frozenset(("source",))),
    "readline.read_history_file": (1, frozenset()),
    "soundfile.read": (1, frozenset(("file",))),
    "ssl.create_default_context": (3, frozenset(("cafile", "capath"))),
    "tokenizers.Tokenizer.from_file": (1, frozenset(("path",))),
}  # fmt: skip
"""Functions, each with the number of its first arguments that may name a file, and the keywords that may."""
_FOLLOWED_METHODS: dict[str, tuple[int, frozenset[str]]] = {
    "load_cert_chain": (2, frozenset(("certfile", "keyfile"))),
    "load_verify_locations": (2, frozenset(("cafile", "capath"))),
}
"""Methods of any object, as above."""
_WITHOUT_FILES = frozenset(("ssl.create_default_context", *_FOLLOWED_METHODS))
"""Those that need not name a file."""
OF_SQL = "ATTACH in SQL"


class NativeReads:
    """The calls in a module that can be followed, because an argument names everything that they read.

    Such an argument is passed through a function that reports it; see `native_read_listeners`.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.followed: set[int] = set()
        """The ids of the nodes that are no longer opaque."""
        self._arguments: list[tuple[ast.expr, str, Callable[[ast.expr], None]]] = []
        nodes = list(ast.walk(tree))
        self._imported: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._add_import(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._add_call(node)

    def announce(self) -> None:
        """Let the arguments report themselves."""
        for value, library, put in self._arguments:
            call = ast.Call(
                func=ast.Name(id=NAME_OF_READ, ctx=ast.Load()),
                args=[value, ast.Constant(value=library)],
                keywords=[],
            )
            for node in (call, call.func, call.args[1]):
                ast.copy_location(node, value)
            put(call)

    def _add_import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom):
                module = statement.module if statement.module and not statement.level else ""
                name, meant = alias.asname or alias.name, f"{module}.{alias.name}"
            else:
                name = alias.asname or alias.name.partition(".")[0]
                meant = alias.name if alias.asname else name
            self._imported.setdefault(name, set()).add(meant)

    def _add_call(self, call: ast.Call) -> None:
        is_plain = not any(isinstance(each, ast.Starred) for each in call.args)
        if not is_plain or any(each.arg is None for each in call.keywords):
            return
        self._add_sql(call)
        chain = list(_iter_chain(call.func))
        name = self._resolve(chain)
        known = _FOLLOWED.get(name)
        if known is None and isinstance(call.func, ast.Attribute):
            name = call.func.attr
            known, chain = _FOLLOWED_METHODS.get(name), [call.func]
        if known is None:
            return
        positions, keywords = known
        naming = [each for each in call.keywords if each.arg in keywords]
        if not (call.args[:positions] or naming or name in _WITHOUT_FILES):
            return  # a file that the library chooses
        library = "ssl" if name in _WITHOUT_FILES else name.partition(".")[0]
        self.followed.update(map(id, (*chain, *naming)))
        for position, value in enumerate(call.args[:positions]):
            self._arguments.append((value, library, _make_setter(call.args, position)))
        for keyword in naming:
            self._arguments.append((keyword.value, library, partial(setattr, keyword, "value")))

    def _add_sql(self, call: ast.Call) -> None:
        """Add arguments that are SQL with ATTACH. Values in it are known when it runs."""
        for position, value in enumerate(call.args):
            texts = value.values if isinstance(value, ast.JoinedStr) else [value]
            found = [
                each
                for each in texts
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and _ATTACHES.search(each.value)
            ]
            if found:
                self.followed.update(map(id, found))
                self._arguments.append((value, OF_SQL, _make_setter(call.args, position)))

    def _resolve(self, chain: list[ast.expr]) -> str:
        """Return the dotted name that a callee means; an empty string if unknown."""
        first = chain[-1]
        meant = self._imported.get(first.id, set()) if isinstance(first, ast.Name) else set()
        if len(meant) != 1:
            return ""
        attributes = [each.attr for each in chain if isinstance(each, ast.Attribute)]
        return ".".join([*meant, *reversed(attributes)])


def _make_setter(items: list[ast.expr], position: int) -> Callable[[ast.expr], None]:
    return partial(items.__setitem__, position)


def _iter_chain(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the nodes of a dotted name from its end."""
    while isinstance(node, ast.Attribute):
        yield node
        node = node.value
    yield node


def list_attached(sql: str) -> list[str] | None:
    """Return the databases that SQL attaches; None if it may attach others."""
    found = [first or second for first, second in _ATTACHED.findall(sql)]
    return found if found and len(found) == len(_ATTACHES.findall(sql)) else None


# Source of the workspace, compiled so that every function reports its execution.

NAME = "__workbench_ran__"
NAME_AT_END = "__workbench_ended__"
NAME_OF_READ = "__workbench_reads__"

ran_functions: set[int] = set()
"""The numbers of the functions that have run in this process."""

functions_by_number: dict[int, tuple[Compiled, str]] = {}
"""Source and qualified name of each function by its number; an empty name is the end of the module."""

module_end_listeners: list[Callable[[Compiled], None]] = []
"""Called with each module that has run to its end."""

native_read_listeners: list[Callable[[Any, str], None]] = []
"""Called with each argument that may name a file which a library is about to read, and with the library."""


def _report_read(argument: Any, library: str) -> Any:
    for tell in native_read_listeners:
        tell(argument, library)
    return argument


def _end(number: int) -> None:
    ran_functions.add(number)
    for tell in module_end_listeners:
        tell(functions_by_number[number][0])


setattr(builtins, NAME_AT_END, _end)
setattr(builtins, NAME_OF_READ, _report_read)
setattr(builtins, NAME, ran_functions.add)  # set early: later changes of builtins invalidate caches of executed code

_next_number = itertools.count().__next__  # threads may import at the same time


class Compiled:
    """A compiled source file. Without `blocks` it counts as a whole: its functions do not report their execution."""

    def __init__(self, path: str, source: bytes, blocks: Blocks | None = None) -> None:
        self.path = os.path.abspath(path)
        self.source = source
        self.blocks = blocks
        self.code: Any = None
        self.reports_end = False
        """Whether the code reports that the module has run to its end. An empty module does not."""
        self.opaque: dict[str, frozenset[str]] = {}
        """Opaque operations by function; see `find_opaque_uses`."""

    def fingerprint(self) -> str:
        return digest(self.source)


_compiled: dict[str, Compiled] = {}


def get_compiled(path: str, source: bytes) -> Compiled | None:
    """Return the result of compiling exactly this text before, or None."""
    found = _compiled.get(path)
    return found if found is not None and found.source == source else None


def list_sources() -> Iterable[tuple[str, bytes]]:
    """Return the compiled files and their text."""
    return [(path, compiled.source) for path, compiled in _compiled.items()]


def compile_source(path: str, source: bytes) -> Compiled:
    """Compile and remember a source. Raises what `compile` raises."""
    tree = parse_source(source, path)
    made = None if _is_read_by_others(tree) else _instrument(path, source, tree)
    if made is None:
        made = Compiled(path, source)
        made.code = compile(source, path, "exec", dont_inherit=True)
    _compiled[path] = made
    return made


def _instrument(path: str, source: bytes, tree: ast.Module) -> Compiled | None:
    """Compile with instrumentation; None if the tree is too deep for Python."""
    try:
        has_callbacks = may_have_callbacks(source)
        blocks, functions, branches = cut(tree, lambdas=has_callbacks)
        made = Compiled(path, source, blocks)
        made.opaque = find_opaque_uses(source, tree, functions)
        for name, function in functions:
            _announce(function.body, _assign_number(made, name), behind=0 if get_docstring(function) is None else 1)
        for branch in branches:
            _announce(branch.container, _assign_number(made, branch.name), behind=branch.find_start())
        for name, each in find_callback_lambdas(tree).items() if has_callbacks else ():
            _announce_lambda(each, _assign_number(made, name))
        if tree.body:
            _announce(tree.body, _assign_number(made, ""), behind=len(tree.body), name=NAME_AT_END)
            made.reports_end = True
        made.code = compile(tree, path, "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        return None
    return made


def _assign_number(compiled: Compiled, name: str) -> int:
    number = _next_number()
    functions_by_number[number] = compiled, name
    return number


def _announce(body: list[ast.stmt], number: int, *, behind: int, name: str = NAME) -> None:
    """Insert the reporting call after `behind` statements."""
    place = body[min(behind, len(body) - 1)]
    call = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[ast.Constant(value=number)], keywords=[])
    statement = ast.Expr(value=call)
    for node in (statement, call, call.func, *call.args):
        ast.copy_location(node, place)
    body.insert(behind, statement)


def _announce_lambda(function: ast.Lambda, number: int) -> None:
    """Insert the reporting call before the value of a lambda: `(report(number), value)[1]`."""
    call = ast.Call(func=ast.Name(id=NAME, ctx=ast.Load()), args=[ast.Constant(value=number)], keywords=[])
    both = ast.Tuple(elts=[call, function.body], ctx=ast.Load())
    value = ast.Subscript(value=both, slice=ast.Constant(value=1), ctx=ast.Load())
    for node in (value, value.slice, both, call, call.func, *call.args):
        ast.copy_location(node, function.body)
    function.body = value


def _is_read_by_others(tree: ast.Module) -> bool:
    """Return True if functions may be compiled from bytecode by Numba, which does not know our functions."""
    return any(
        name.split(".", 1)[0] == "numba"
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    )
