"""What nobody can follow, found in the agent's own source, by function: a case that runs such a function is opaque.

Libraries in other languages open files by themselves, and no audit event tells which. Numbers of lines and code objects
change with what is in no block that ran.
"""

from __future__ import annotations

import ast
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, FrozenSet, Iterable, Iterator, List, Optional, Tuple

    from .blocks import Function

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
