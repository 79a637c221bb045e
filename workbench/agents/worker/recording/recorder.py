"""The record of what a case depends on, kept while the case runs."""

from __future__ import annotations

import os
import stat
import sys
import time
from _thread import _local
from opcode import opmap
from types import ModuleType
from weakref import ref

from . import instrument
from .blocks import EVERYTHING, EVERYWHERE, is_branch
from .definitions import DOCSTRING, TOP_LEVEL
from .fingerprints import (
    ABSENT,
    IMPORTED,
    derive_secret,
    is_library_folder,
    list_entries,
    list_importable_names,
    of_environment,
    of_file,
    of_import,
    of_installed,
    of_interpreter,
    of_mode,
    of_names,
    of_probe,
    of_time,
    of_variable,
    of_variables,
    select_variables,
)
from .scope import AgentFolders, find_package, has_caller, is_agent_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Collection, Iterable
    from weakref import ReferenceType

    from .blocks import Blocks

    Row = tuple[str, str, str]


# Names of imported modules.


class ImportedNames:
    """Names of imported modules that files of the agent would replace; hundreds, prepared before a fork.

    Touching each name in a forked child would copy most memory pages that hold them. A folder of the agent usually has
    none of them, which one set operation detects.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._sorted = sorted(names)
        self._all = frozenset(self._sorted)
        self._absent = ",".join(ABSENT for _ in self._sorted)
        self.joined = ",".join(self._sorted)

    def of_import(self, folder: str) -> str:
        """Fingerprint what an import finds in `folder` under each of the names."""
        return self._absent if self._all.isdisjoint(list_importable_names(folder)) else of_import(folder, self._sorted)


# Modules that note which of their names other code requests: `tools.LIMIT`, `from tools import refund`.

OF_IMPORTS = frozenset(
    ("__name__", "__spec__", "__file__", "__path__", "__loader__", "__package__", "__cached__", "__class__", "__dir__")
)
"""Names that every import requests; no verdict depends on them."""
_OF_ALL = frozenset(("__dict__", "__annotations__"))
_NO_NAMES = OF_IMPORTS.union((EVERYTHING, EVERYWHERE))
_NAME_TYPES = frozenset(("typing", "dataclasses", "pydantic", "annotationlib", "typing_extensions"))
"""Modules that resolve the types in annotations. The source that has the annotations mentions those types itself."""
_IMPORTERS = frozenset(("importlib", "_frozen_importlib", "_frozen_importlib_external"))
_IMPORT_FROM = opmap["IMPORT_FROM"]
_LOADS = frozenset(opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opmap)
_MOST_LOADS = 1_000
"""Requests of one name whose caller is examined: in a loop that would take long."""


class RequestedNames:
    """Names that other code requested from the modules of one source file."""

    def __init__(self) -> None:
        self.names: set[str] = set(OF_IMPORTS)
        """Names, or EVERYTHING. Names that every import requests are always included."""
        self.modules: list[ReferenceType[ModuleType]] = []
        self.imported: set[tuple[str, str]] = set()
        """Names that an `import` statement requested, each with the file of the statement."""
        self.loaded: set[tuple[str, str]] = set()
        """Names that were requested as an attribute (`tools.refund`), each with the file of the expression."""
        self.missing: set[str] = set()
        """Requested names that the module did not have. Others that its source does not bind are its modules."""
        self._loads: dict[tuple[str, int, int], CodeType] = {}  # holds the code, so that its id is not reused
        self._counts: dict[str, int] = {}

    @property
    def count(self) -> int:
        """A number that grows with each new request."""
        return len(self.names) + len(self.imported) + len(self.loaded)

    def collect_names(self) -> set[str]:
        """Return the names that were requested in any way."""
        return self.names.union(name for name, _ in (*self.imported, *self.loaded))

    def check_modules(self) -> None:
        """Assume that all names are requested if a module got another class, because requests are then no longer
        seen."""
        if any((module := each()) is not None and not _is_followed(module) for each in self.modules):
            self.names.add(EVERYTHING)

    def note(self, name: str, present: Collection[str]) -> None:
        """Note that the code two frames up requests a name. `present` are the names that the module has."""
        try:
            frame = sys._getframe(2)
        except ValueError:  # no Python code
            self.names.add(EVERYTHING if name in _OF_ALL else name)
            if name not in present:
                self.missing.add(name)
            return
        code = frame.f_code
        place = (name, id(code), frame.f_lasti)
        if place in self._loads:
            self._count(name)
            return
        asking = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name not in present and asking not in _IMPORTERS:
            self.missing.add(name)
        if name in _OF_ALL:
            # From Python 3.12 on dataclasses let `inspect` read annotations; it reads no other name of the module.
            is_annotated = name == "__dict__" and asking == "inspect" and code.co_name == "get_annotations"
            if asking not in _NAME_TYPES and asking not in _IMPORTERS and not is_annotated:
                self.names.update((EVERYTHING, name))
        elif asking == "dataclasses":  # from Python 3.15 on it looks up annotations, which the class mentions anyway
            pass
        elif (operation := code.co_code[frame.f_lasti]) == _IMPORT_FROM:
            self.imported.add((name, os.path.abspath(code.co_filename)))
        elif asking in _IMPORTERS:  # importers look names up before the statement does
            pass
        elif operation in _LOADS:
            self.loaded.add((name, os.path.abspath(code.co_filename)))
            self._loads[place] = code
            self._count(name)
        else:
            self.names.add(name)

    def _count(self, name: str) -> None:
        """Count a request. A name requested very often counts as requested by anyone, and callers are no longer
        examined."""
        self._counts[name] = count = self._counts.get(name, 0) + 1
        if count > _MOST_LOADS:
            self.names.add(name)


def make_module(name: str, asked: RequestedNames) -> ModuleType:
    """Return an empty module that notes the names requested from it."""
    known = asked.names
    note = asked.note
    get = ModuleType.__getattribute__

    class Followed(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name not in known:
                note(name, get(self, "__dict__"))
            return get(self, name)

    Followed.__name__ = Followed.__qualname__ = ModuleType.__name__
    Followed.__module__ = ModuleType.__module__
    module = Followed(name)
    asked.modules.append(ref(module))
    return module


def _is_followed(module: ModuleType) -> bool:
    asking = type(module).__getattribute__
    return getattr(asking, "__module__", None) == __name__


# The record: rows that can be compared later. `hooks` reports what happens.

_SETTLED = 2_000_000_000  # nanoseconds after which equal times and size mean equal content: clocks of disks are coarse

_READ_ONCE = frozenset(("file", "module", "rest", "name"))

_LIBRARY = ImportedNames(TOP_LEVEL.difference(sys.builtin_module_names))

_stat, _lstat = os.stat, os.lstat  # the functions that are not recorded


class Quiet(_local):
    """Context manager: actions of this thread are not recorded inside it, because they are the worker's own."""

    depth = 0
    """Number of active contexts of this thread. Reading it calls no function, unlike `bool(quiet)`."""

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1

    def __bool__(self) -> bool:
        return self.depth > 0


quiet = Quiet()

_ALL, _PROXIES = "*all", "*proxies"  # what `note_variables` reads


class Recorder:
    """The record of one process. All methods may be called from any thread."""

    def __init__(self, target_path: str, *, home: str) -> None:
        """`home` is the path on the engine's machine, which compares the fingerprints."""
        self.places = AgentFolders(target_path)
        self.tainted: str | None = None
        self._secret = derive_secret(home)
        self._kind_of_variable = "early_variable"
        self._values: dict[str, str] = {}
        """Variables when the agent took over, without those that this process had set."""
        self._defined: frozenset[str] = frozenset()
        self._inherited: frozenset[str] = frozenset()
        self._set_before: set[str] = set()
        self._read_at_once: set[str] = set()
        self._own_variables: set[str] = set()
        self.known_variables: set[str] = set()
        """Variables that are recorded already."""
        self._read_by_libraries: set[str] | None = None  # variables read since `begin_libraries`
        self.known_probes: set[str] = set(self.places.above)
        """Paths whose existence is recorded already."""
        self._found: dict[tuple[str, str], str] = {}
        self._rows: list[Row] = []
        self.edition = 0
        """Incremented whenever rows change that may have been sent already."""
        self._signatures: dict[str, tuple[Any, int]] = {}
        self._imports: dict[tuple[str, str], str] = {}
        self._top_level_lookups: set[str] = set()
        self._lookups: list[tuple[str, str]] = []
        self._listings: list[tuple[str, list[str]]] = []
        self._databases: dict[str, None] = {}
        self._written: dict[str, Any] = {}  # with its signature before, because the write may fail
        self._appended: set[str] = set()
        self._created_folders: tuple[str, ...] = ()  # folders, each with a trailing separator
        self._own_folders: dict[str, None] = {}  # created folders that were listed
        self._agent_writes: dict[str, set[str]] = {}  # by folder
        self._deleted: dict[str, set[str]] = {}
        self._settled_functions: set[int] = set()
        self._sources: dict[str, instrument.Compiled] = {}
        self._unfinished: dict[str, None] = {}  # modules whose import is not complete, or failed
        self._requested: dict[str, RequestedNames] = {}  # by module
        self._requested_count = 0  # the count when requests were last settled
        self._uses_all_names = False
        self._created_modules: set[str] = set()  # modules that were created and not yet executed
        self._used_names: set[tuple[str, str]] = set()
        self._module_count = 0
        self._last_module = ""
        self._packages: dict[str, set[str]] = {}
        self.environment: dict[str, str] = {}
        """State of the interpreter and of installed libraries when this process began, by path."""

    # Called by the worker

    def begin(self, path: Iterable[str]) -> None:
        """Record what holds for the whole process. `path` is `sys.path` before the agent's folders are added."""
        executable, settings = os.path.abspath(sys.executable), os.path.join(sys.prefix, "pyvenv.cfg")
        installed = [settings, *(folder for folder in map(os.path.abspath, path) if is_library_folder(folder))]
        self.environment = {place: of_environment(place) for place in (executable, *installed)}
        self._note("interpreter", executable, of_interpreter())
        for place in installed:
            self._note("installed", place, of_installed(place))
        self.places.add(path)
        self._inherited = frozenset(os.environ)
        self.note_variable("PYTHONPATH", os.environ.get("PYTHONPATH"))

    def ignore_variable(self, name: str) -> None:
        """Ignore a variable from now on, because this process set it."""
        self._own_variables.add(name)
        self.known_variables.add(name)

    def begin_libraries(self) -> None:
        """Note which variables are read from now on: the libraries of the agent are imported before it."""
        self._read_by_libraries = self._read_by_libraries or set()
        self.known_variables.intersection_update(self._own_variables)

    def select_read_by_libraries(self, names: Iterable[str]) -> list[str]:
        """Return those of the variables that libraries have read since `begin_libraries`."""
        read = self._read_by_libraries or set()
        return sorted(
            name
            for name in set(names)
            if name in read or _ALL in read or (_PROXIES in read and name.lower().endswith("_proxy"))
        )

    def add_agent_writes(self, there: dict[str, list[str]], *, gone: dict[str, list[str]]) -> None:
        """Ignore names that agents wrote earlier when their folder is listed, except those in `gone`: others deleted
        them since."""
        for left, known, other in (
            (there, self._agent_writes, self._deleted),
            (gone, self._deleted, self._agent_writes),
        ):
            for folder, names in left.items():
                known.setdefault(folder, set()).update(names)
                other.get(folder, set()).difference_update(names)

    def enter(
        self, roots: Iterable[str], *, env_files: list[str], defined: Collection[str], imported: ImportedNames
    ) -> None:
        """Note that the process runs the agent from now on.

        `defined` are the variables that the loaded `.env` files define. `imported` are top-level modules that a file in
        one of the `roots` would replace.
        """
        roots = list(roots)
        self.places.add([*roots, *sys.path])
        self._values = {name: value for name, value in os.environ.items() if name not in self._own_variables}
        self._defined = frozenset(defined)
        self._set_before = self._own_variables & self._inherited.union(defined)
        self._correct_early(defined)
        self._kind_of_variable = "variable"
        self.note_variables("locale")
        self.known_variables.intersection_update(self._own_variables)
        if env_files:
            self._note("env_files", "\0".join(os.path.abspath(file) for file in env_files), "-")
        for root in roots:
            if imported.joined and self.places.is_inside(root):
                self._note("import", f"{root}::{imported.joined}", imported.of_import(root))

    def _correct_early(self, defined: Collection[str]) -> None:
        """Correct the fingerprints of variables that were read before `.env` files were loaded: the values in effect
        count."""
        early = [name for name in defined if ("early_variable", name) in self._found]
        for name in early:
            self._found["early_variable", name] = of_variable(self._secret, os.environ.get(name))
        if early:
            self.edition += 1
            self._rows = [(kind, key, self._found.get((kind, key), value)) for kind, key, value in self._rows]

    # Called by hooks

    def create_module(self, name: str, path: str) -> ModuleType:
        """Create the empty module for a source that is about to be imported. It notes which of its names are
        requested."""
        path = os.path.abspath(path)
        self._created_modules.add(path)
        return make_module(name, self._requested.setdefault(path, RequestedNames()))

    def note_import(self, compiled: instrument.Compiled) -> None:
        """Note that a module is about to run. The folder of a package counts as the agent's own from then on."""
        path = compiled.path
        is_followed = path in self._created_modules
        self._created_modules.discard(path)
        if self._is_own(path) or self.places.is_inside(path) is False:
            return
        if self.places.is_inside(path) is None and os.path.basename(path) == "__init__.py":
            self.places.add([os.path.dirname(path)])
        blocks = compiled.blocks
        if blocks is None:
            self._note("file", path, compiled.fingerprint())
            return
        known = self._sources.get(path)
        if known is not None and known.source != compiled.source:
            self._taint(path)
        self._sources[path] = compiled
        self._note("rest", path, blocks.rest.fingerprint)
        self._use_names(compiled, blocks.rest.mentions if is_followed else [EVERYTHING])
        if compiled.reports_end:
            self._unfinished[path] = None

    def note_module_end(self, compiled: instrument.Compiled) -> None:
        """Note that a module has run to its end.

        If its names were requested earlier, the requests saw the bindings of that time, so all names count.
        """
        if self._is_name_requested(compiled):
            self._requested[compiled.path].names.add(EVERYTHING)

    def _is_name_requested(self, compiled: instrument.Compiled) -> bool:
        """Return True if anything requested a name that the module defines."""
        asked, blocks = self._requested.get(compiled.path), compiled.blocks
        return asked is not None and blocks is not None and not asked.collect_names().isdisjoint(blocks.definitions)

    def note_load(self, path: str, fingerprint: str) -> None:
        """Note a module that is not, or cannot be, compiled by us. It counts as a whole."""
        path = os.path.abspath(path)
        if not self._is_own(path) and self.places.is_inside(path) is not False:
            self._note("file", path, fingerprint)

    def note_top_level_lookup(self, folder: str) -> None:
        """Note that top-level modules are looked up in a folder, including those that Python's own library provides."""
        if folder in self._top_level_lookups:
            return
        self._top_level_lookups.add(folder)
        own = self.places.find_own_folder(folder)
        if own is not None:
            found = _LIBRARY.of_import(own)
            self._note("import", f"{own}::{_LIBRARY.joined}", found)
            if not IMPORTED.isdisjoint(found.split(",")):
                self._uses_all_names = True  # an import that someone adds to a module may do anything

    def note_lookup(self, folder: str, name: str) -> str | None:
        """Note that a module was looked up in a folder. Return the finding, or None if the folder is not recorded."""
        own = self.places.find_own_folder(folder)
        if own is None:
            return None
        folder = own
        known = self._imports.get((folder, name))
        if known is not None:
            return known
        found = of_import(folder, [name])
        if not self._is_own(os.path.join(folder, name)) and not self._is_own(os.path.join(folder, f"{name}.py")):
            self._imports[folder, name] = found
            self._lookups.append((folder, name))
        return found

    def note_read(self, path: str) -> None:
        """Note that the content or existence of a file (absolute path) was read."""
        if path in self._appended and self._is_written(path):
            self._found["file", path] = ""  # reported at the end, as state
        if self._is_ignored(path):
            return
        look = _stat_signature(path)
        known = self._signatures.get(path)
        if known is not None and look is not None and known[0] == look and max(look[0], look[1]) < known[1] - _SETTLED:
            return
        now = time.time_ns()
        self._note("file", path, of_file(path))
        self._signatures[path] = (look, now)

    def note_probe(self, path: str) -> None:
        """Note that the existence of a file or folder (absolute path) was checked."""
        if path not in self.known_probes and not self._is_ignored(path):
            self.known_probes.add(path)
            self._note("probe", path, of_probe(path))

    def note_metadata(self, path: str, kinds: Iterable[str]) -> None:
        """Note that the agent read metadata of a file (absolute path); `kinds` as `find_requested_metadata` returns
        them."""
        for kind in kinds:
            if (kind, path) in self._found or self._is_ignored(path):
                continue
            if kind == "mode":
                self._note(kind, path, of_mode(path))
            elif os.path.isdir(path):
                self.note_listing(path)  # a changed listing changes its time
            elif os.path.basename(path) not in self._agent_writes.get(os.path.dirname(path), ()):
                self._note(kind, path, of_time(path))

    def note_listing(self, path: str) -> None:
        """Note that a folder (absolute path) was listed."""
        if self._is_written(path) and self.places.is_inside(path):
            self._own_folders[path] = None  # reported at the end: it may be removed by then
        if ("folder", path) in self._found or self._is_ignored(path):
            return
        try:
            names = list_entries(path)
        except (OSError, ValueError):
            self._note("folder", path, ABSENT)
            return
        self._found["folder", path] = ""  # reported later, without what this process writes there
        self._listings.append((path, names))

    def note_distribution_listing(self, path: str) -> None:
        """Note that a folder was searched for installed distributions only."""
        if ("installed", path) not in self._found and not self._is_ignored(path):
            self._note("installed", path, of_installed(path))

    def note_database(self, path: str) -> None:
        """Note that a database was opened. Its reads and writes happen in native code and cannot be seen."""
        for part in (path, f"{path}-wal"):  # the latest writes may still be in the log file
            if part not in self._databases and not self._is_ignored(part):
                self._note("file", part, of_file(part))
                self._databases[part] = None

    def note_write(self, path: str, *, keeps: bool = False) -> None:
        """Note that a file (absolute path) is about to be written, moved or removed. With `keeps` it keeps its old
        content."""
        if path not in self._written:
            self._written[path] = _stat_signature(path)
            if keeps:
                self._appended.add(path)

    def note_removal(self, path: str) -> None:
        """Note that a file or folder (absolute path) is about to be removed, which fails if it does not exist."""
        if _stat_signature(path) is None:
            self.note_probe(path)
        self.note_write(path)

    def note_creation(self, path: str) -> None:
        """Note that a file (absolute path) is about to be created, which fails if it exists."""
        if self.places.is_inside(path) and not has_caller("tempfile", within=3):  # which invents new names
            self.note_probe(path)
            self.note_parent_probe(path)
        self.note_write(path)

    def note_parent_probe(self, path: str) -> None:
        """Note whether the folder of a file (absolute path) exists: without it nothing can be written."""
        self.note_probe(os.path.dirname(path))

    def note_move(self, source: str, target: str) -> None:
        """Note that a file or folder is about to be moved."""
        if os.path.isdir(source):
            self._created_folders += (target + os.sep,)
        elif not self._is_ignored(source):
            self.note_read(source)
        self.note_parent_probe(target)
        self.note_write(source)
        self.note_write(target)

    def note_folder_creation(self, path: str) -> None:
        """Note that a folder is about to be created. Its content will be this process's own."""
        is_new = _stat_signature(path) is None
        self.note_creation(path)
        if is_new:
            self._created_folders += (path + os.sep,)

    def note_variable(self, name: str, value: str | None) -> None:
        """Note that a variable was read; `value` is None if it is not set."""
        if name not in self.known_variables:
            self.known_variables.add(name)
            self._note(self._kind_of_variable, name, of_variable(self._secret, value))
            self._note_early_read(name)

    def note_variables(self, what: str = "all") -> None:
        """Note that several variables were read at once; `what` as in `fingerprints.select_variables`."""
        self._note_early_read(f"*{what}")
        if self._kind_of_variable != "variable" or what in self._read_at_once:
            return
        self._read_at_once.add(what)
        own = select_variables(what, dict.fromkeys(self._set_before, ""), defined=self._defined)
        values = select_variables(what, self._values, defined=self._defined)
        self._note("variables", "\0".join([what, *sorted(own)]), of_variables(self._secret, values))

    def _note_early_read(self, name: str) -> None:
        if self._read_by_libraries is not None and self._kind_of_variable == "early_variable":
            self._read_by_libraries.add(name)

    def note_opaque(self, why: str) -> None:
        """Note an action that may read or run anything."""
        self._note("opaque", why, "-")

    # Rows

    @property
    def written_files(self) -> set[str]:
        """Files that this process created, changed or removed, and databases that it opened.

        Files that it created and removed again are left out.
        """
        return {path for path in self._written if self._is_written(path)}.union(self._databases)

    def get_current_rows(self) -> list[Row]:
        """Return everything read so far as rows. All names in a folder count, including those that agents wrote."""
        self._settle_code()
        rows = [(*what, value) for what, value in self._found.items() if what[0] != "folder" or value == ABSENT]
        return [*rows, *(("folder", folder, of_names(names)) for folder, names in self._listings)]

    def get_rows_before_fork(self) -> tuple[list[Row], int]:
        """Return the rows that all children share, and the position from which a child reads more.

        Folders are left to the children, because the names that count differ from case to case.
        """
        self._settle_code()
        return list(self._rows), len(self._rows)

    def read_rows(self, position: int) -> tuple[list[Row], int]:
        """Return the rows since `position` (0 at first), and the position to continue from."""
        self.settle()
        end = len(self._rows)
        return self._rows[position:end], end

    def build_final_rows(self) -> list[Row]:
        """Return rows about written files: their final content is known only at the end."""
        rows = []
        for path in list(self._databases):
            if path not in self._written and of_file(path) != self._found["file", path]:
                self._written[path] = ()  # equals no signature
        for path in list(self._written):
            if self.places.is_inside(path) and self._is_written(path):
                is_asked = ("file", path) in self._found or ("probe", path) in self._found
                rows.append(("state" if is_asked else "written", path, of_file(path)))
        for folder in list(self._own_folders):
            if os.path.isdir(folder):
                rows.append(self._build_listing_row(folder, list_entries(folder)))
        return rows

    def settle(self) -> None:
        """Turn everything recorded in a shorter form into rows."""
        self._settle_code()
        listings, self._listings = self._listings, []
        self._rows += [self._build_listing_row(folder, entries) for folder, entries in listings]

    def _build_listing_row(self, folder: str, entries: list[str]) -> Row:
        gone = self._deleted.get(folder, set())
        written = [path for path in list(self._written) if os.path.dirname(path) == folder]
        own = [os.path.basename(path) for path in written if self._written[path] is None or self._is_written(path)]
        without = {*own, *self._agent_writes.get(folder, ()), *gone}
        gone = gone.difference(own, [entry.rstrip("/") for entry in entries])
        return "folder", folder, of_names(entries, without=without, gone=gone)

    def _settle_code(self) -> None:
        """Turn executed functions and imports into rows. Done before a fork, it need not be done in each child."""
        for number in sorted(instrument.ran_functions - self._settled_functions):
            self._settled_functions.add(number)
            compiled, name = instrument.functions_by_number[number]
            if compiled.blocks is None or ("rest", compiled.path) not in self._found:
                continue  # written by this process
            for what in compiled.opaque.get(name, ()):
                self.note_opaque(what)
            if not name:
                self._unfinished.pop(compiled.path, None)
                continue
            kind = "branch" if is_branch(name) else "block"
            self._note(kind, f"{compiled.path}::{name}", compiled.blocks.bodies[name])
            self._use_names(compiled, compiled.blocks.mentions[name])
        # A module whose import failed fails in the same way until the statements change that do more than define names,
        # unless its names were requested meanwhile: then their order counts.
        for path in list(self._unfinished):
            if self._is_name_requested(self._sources[path]):
                self._use_names(self._sources[path], [EVERYTHING])
        self._settle_requested()
        for path in list(self._sources if self._uses_all_names else ()):
            self._use_names(self._sources[path], [EVERYTHING])
        sought, self._lookups = self._lookups, []
        folders: dict[str, list[str]] = {}
        for folder, name in sought:
            folders.setdefault(folder, []).append(name)
        for folder, names in folders.items():
            names.sort()
            states = ",".join(self._imports[folder, name] for name in names)
            self._note("import", f"{folder}::{','.join(names)}", states)
        self._settle_libraries()

    def _settle_libraries(self) -> None:
        """Note the installed packages that this process imported from since the last call. The engine adds their
        state."""
        found: dict[str, set[str]] = {}
        for path in self._list_new_modules():
            package = find_package(path)
            if package is not None:
                found.setdefault(package[0], set()).add(package[1])
        for folder, names in found.items():
            new = names - self._packages.get(folder, set())
            if new:
                self._packages[folder] = self._packages.get(folder, set()) | new
                self._note("libraries", f"{folder}::{','.join(sorted(new))}", "-")

    def _list_new_modules(self) -> list[str]:
        """Return the files of modules that were imported since the last call, without touching the other modules."""
        new: list[str] = []
        try:
            for name in reversed(sys.modules):
                if name == self._last_module:
                    break
                new.append(name)
        except RuntimeError:  # another thread imports
            new = []
        if len(new) < len(sys.modules) - self._module_count:
            new = list(sys.modules)  # some were removed and imported again
        if new:
            self._last_module, self._module_count = new[0], len(sys.modules)
        return [path for path in map(_find_module_file, new) if path]

    def _settle_requested(self) -> None:
        """Turn the names that were requested from modules into rows."""
        for asked in list(self._requested.values()):
            asked.check_modules()
        while (count := self._count_requested()) != self._requested_count:  # used definitions may use imported names
            self._requested_count = count
            self._use_requested()

    def _count_requested(self) -> int:
        """Return a number that grows with each request and each newly used name."""
        return len(self._sources) + len(self._used_names) + sum(asked.count for asked in list(self._requested.values()))

    def _use_requested(self) -> None:
        for path, asked in list(self._requested.items()):
            compiled = self._sources.get(path)
            if compiled is None or compiled.blocks is None:
                continue
            names = list(asked.names)
            names += [self._describe_use(*imported) for imported in list(asked.imported)]
            names += [self._use_as_attribute(*loaded) for loaded in list(asked.loaded)]
            self._use_names(compiled, [_describe_module(name, asked, compiled.blocks) for name in names])

    def _describe_use(self, name: str, importer: str) -> str:
        """Return how a module uses a name that it imports: `name()` if it only calls it, `name?` if nothing uses it
        yet."""
        compiled, asked = self._sources.get(importer), self._requested.get(importer)
        if compiled is None or compiled.blocks is None or asked is None:
            return name
        aliases = compiled.blocks.uses.only_bound(name)
        if aliases and not any((importer, alias) in self._used_names for alias in (*aliases, EVERYTHING)):
            return f"{name}?"
        return f"{name}()" if compiled.blocks.uses.are_calls(name, asked=asked.collect_names()) else name

    def _use_as_attribute(self, name: str, asking: str) -> str:
        """Return how a module uses an attribute of another module: `name()` if it only calls it, else the name."""
        compiled = self._sources.get(asking)
        if compiled is None or compiled.blocks is None:
            return name
        return f"{name}()" if compiled.blocks.uses.are_calls_of_attribute(name) else name

    def _use_names(self, compiled: instrument.Compiled, names: Iterable[str]) -> None:
        """Note that names of a module are used, and with them the names that their definitions mention."""
        path, blocks = compiled.path, compiled.blocks
        assert blocks is not None
        waiting = list(names)
        while waiting:
            name = blocks.find_definition_name(waiting.pop())
            if (path, name) in self._used_names:
                continue
            self._used_names.add((path, name))
            definition = blocks.definitions.get(name)
            if name == EVERYTHING:
                self._note("module", path, blocks.module)
            elif name == EVERYWHERE:
                self._uses_all_names = True
            elif definition is not None:
                self._note("name", f"{path}::{name}", definition.fingerprint)
                waiting += definition.mentions
            elif name.endswith("?") or (not blocks.binds(name) and name not in OF_IMPORTS):
                self._note("name", f"{path}::{name}", blocks.name(name))

    def _note(self, kind: str, key: str, fingerprint: str) -> None:
        what = (kind, key)
        known = self._found.get(what)
        if known is None:
            self._found[what] = fingerprint
            self._rows.append((kind, key, fingerprint))
        elif known != fingerprint and kind in _READ_ONCE and key not in self._databases:
            self._taint(key)

    def _taint(self, path: str) -> None:
        self.tainted = self.tainted or f"{path} changed between two reads"

    def _is_ignored(self, path: str) -> bool:
        """Return True if a file does not count: this process wrote it, or it lies outside the agent's folders."""
        if self._is_written(path):
            return True
        inside = self.places.is_inside(path)
        if self._is_own(path):  # in a folder that this process created
            if inside and _stat_signature(path) is None:
                return False
            if inside:  # written by native code
                self._note("probe", path, ABSENT)
                self._written[path] = None
            return True
        return not (is_agent_request() if inside is None else inside)

    def _is_written(self, path: str) -> bool:
        """Return True if this process changed the file: it started to write, and the file differs from before."""
        return path in self._written and _stat_signature(path) != self._written[path]

    def _is_own(self, path: str) -> bool:
        """Return True if this process wrote the file, or created a folder that contains it."""
        if self._is_written(path):
            return True
        within = path + os.sep
        return within.startswith(self._created_folders) and any(
            within.startswith(made) and self._is_written(made[:-1]) for made in self._created_folders
        )


def _find_module_file(name: str) -> str:
    """Return the file of an imported module, or an empty string. Modules that are loaded at first use stay unloaded."""
    try:
        spec = object.__getattribute__(sys.modules[name], "__dict__").get("__spec__")
    except (AttributeError, KeyError):
        return ""
    return str(spec.origin) if getattr(spec, "has_location", False) else ""


def _describe_module(name: str, asked: RequestedNames, blocks: Blocks) -> str:
    """Return `name?` for a module that was requested from its package, else the name."""
    plain = name.rstrip("?()")
    is_bound = blocks.binds(plain) or plain == DOCSTRING  # which every module has
    is_module = plain not in asked.missing and not is_bound and plain not in _NO_NAMES
    return f"{plain}?" if is_module else name


def _stat_signature(path: str) -> Any:
    """Return values that change when a file is changed or a folder replaced; None if it does not exist."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        try:
            found = _lstat(path)
        except (OSError, ValueError):
            return None
    if stat.S_ISDIR(found.st_mode):
        return 0, 0, 0, found.st_ino
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
