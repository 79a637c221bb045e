"""The record of what a case depends on: kept while the case runs, told to the engine when it ends."""

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
from .blocks import EVERYTHING, EVERYWHERE
from .fingerprints import (
    ABSENT,
    IMPORTED,
    is_library_folder,
    may_import,
    names_in,
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
    secret_of,
    which_count,
)
from .library import TOP_LEVEL
from .scope import Places, is_asked_by_agent, is_called_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Collection, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

    Row = Tuple[str, str, str]
    from types import CodeType
    from typing import Tuple
    from weakref import ReferenceType


# Names of modules that are imported already, made ready before a fork.


class Names:
    """Hundreds of names, of which a folder of the agent has none as a rule.

    To touch each of them in a forked child would copy most pages of memory that they are on.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._sorted = sorted(names)
        self._all = frozenset(self._sorted)
        self._absent = ",".join(ABSENT for _ in self._sorted)
        self.joined = ",".join(self._sorted)

    def of_import(self, folder: str) -> str:
        """The fingerprint of that name: what an import finds in a folder under each of them."""
        return self._absent if self._all.isdisjoint(may_import(folder)) else of_import(folder, self._sorted)


# Modules that note which of their names are asked for from outside: `tools.LIMIT`, `from tools import refund`.

OF_IMPORTS = frozenset(
    ("__name__", "__spec__", "__file__", "__path__", "__loader__", "__package__", "__cached__", "__class__", "__dir__")
)
"""Names that every import asks for; no verdict depends on them."""
_OF_ALL = frozenset(("__dict__", "__annotations__"))
_NAME_TYPES = frozenset(("typing", "dataclasses", "pydantic", "annotationlib", "typing_extensions"))
"""These look for the types that annotations name, and the source of what has the annotations mentions those."""
_IMPORTERS = frozenset(("importlib", "_frozen_importlib", "_frozen_importlib_external"))
_IMPORT_FROM = opmap["IMPORT_FROM"]
_LOADS = frozenset(opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opmap)
_MOST_LOADS = 1_000
"""How often each name is looked at: where one is asked for in a loop, that would take long."""


class Asked:
    """What was asked of the modules of one source file."""

    def __init__(self) -> None:
        self.names: Set[str] = set(OF_IMPORTS)
        """Names, and EVERYTHING; those that every import asks for are always among them."""
        self.modules: List[ReferenceType[ModuleType]] = []
        self.imported: Set[Tuple[str, str]] = set()
        """Names that an `import` statement asked for, with the file that it is in."""
        self.loaded: Set[Tuple[str, str]] = set()
        """Names that were asked for as an attribute, `tools.refund`, with the file that this is in."""
        self._loads: Dict[Tuple[str, int, int], CodeType] = {}  # the code is kept: another one might get its number
        self._counts: Dict[str, int] = {}

    @property
    def count(self) -> int:
        """Greater, the more was asked."""
        return len(self.names) + len(self.imported) + len(self.loaded)

    def all_names(self) -> Set[str]:
        """The names that were asked for in any way."""
        return self.names.union(name for name, _ in (*self.imported, *self.loaded))

    def look_at_modules(self) -> None:
        """A module that has been given another class tells nothing any more: all of its names may be asked for."""
        if any((module := each()) is not None and not _tells(module) for each in self.modules):
            self.names.add(EVERYTHING)

    def note(self, name: str) -> None:
        """A name is asked for, by the code that called who calls this."""
        try:
            frame = sys._getframe(2)
        except ValueError:  # no Python code
            self.names.add(EVERYTHING if name in _OF_ALL else name)
            return
        code = frame.f_code
        place = (name, id(code), frame.f_lasti)
        if place in self._loads:
            self._count(name)
            return
        asking = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name in _OF_ALL:
            if asking not in _NAME_TYPES and asking not in _IMPORTERS:
                self.names.update((EVERYTHING, name))
        elif (operation := code.co_code[frame.f_lasti]) == _IMPORT_FROM:
            self.imported.add((name, os.path.abspath(code.co_filename)))
        elif asking in _IMPORTERS:  # these look for it before a statement asks
            pass
        elif operation in _LOADS:
            self.loaded.add((name, os.path.abspath(code.co_filename)))
            self._loads[place] = code
            self._count(name)
        else:
            self.names.add(name)

    def _count(self, name: str) -> None:
        """Of what is asked for all the time it is no longer found out who asks."""
        self._counts[name] = count = self._counts.get(name, 0) + 1
        if count > _MOST_LOADS:
            self.names.add(name)


def make_module(name: str, asked: Asked) -> ModuleType:
    """An empty module that notes what is asked of it."""
    known = asked.names
    note = asked.note
    get = ModuleType.__getattribute__

    class Followed(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name not in known:
                note(name)
            return get(self, name)

    Followed.__name__ = Followed.__qualname__ = ModuleType.__name__
    Followed.__module__ = ModuleType.__module__
    module = Followed(name)
    asked.modules.append(ref(module))
    return module


def _tells(module: ModuleType) -> bool:
    asking = type(module).__getattribute__
    return getattr(asking, "__module__", None) == __name__


# What this process has depended on so far, as rows that can be compared later. `hooks` tells it what happens.

_SETTLED = (
    2_000_000_000  # nanoseconds after which the same times and size mean the same content: disks' clocks are coarse
)

_READ_ONCE = frozenset(("file", "module", "rest", "name"))

_LIBRARY = Names(TOP_LEVEL.difference(sys.builtin_module_names))

_stat, _lstat = os.stat, os.lstat  # without the recorder's own eyes


class Quiet(_local):
    """Within it nothing that this thread does is recorded: what we do for ourselves."""

    depth = 0
    """How often this thread has entered it. To ask for this calls no function, as to ask for its truth does."""

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1

    def __bool__(self) -> bool:
        return self.depth > 0


quiet = Quiet()


class Recorder:
    """The record of a process. Everything may be called from any thread."""

    def __init__(self, target_path: str) -> None:
        self.places = Places(target_path)
        self.tainted: Optional[str] = None
        self._secret = secret_of(target_path)
        self._kind_of_variable = "early_variable"
        self._values: Dict[str, str] = {}
        """The variables when the agent's turn came, but for those that this process had set."""
        self._defined: FrozenSet[str] = frozenset()
        self._inherited: FrozenSet[str] = frozenset()
        self._set_before: Set[str] = set()
        self._read_at_once: Set[str] = set()
        self._own_variables: Set[str] = set()
        self.known_variables: Set[str] = set()
        """Names of which nothing is learnt where they are read again."""
        self.known_probes: Set[str] = set(self.places.above)
        """Paths of which nothing is learnt where somebody asks again whether they are there."""
        self._found: Dict[Tuple[str, str], str] = {}
        self._told: List[Row] = []
        self.edition = 0
        """Raised by one whenever rows that may have been told already change."""
        self._looks: Dict[str, Tuple[Any, int]] = {}
        self._imports: Dict[Tuple[str, str], str] = {}
        self._sought_at_top: Set[str] = set()
        self._sought: List[Tuple[str, str]] = []
        self._listings: List[Tuple[str, List[str]]] = []
        self._databases: Dict[str, None] = {}
        self._written: Dict[str, Any] = {}  # with a look at it before: the write may fail
        self._appended: Set[str] = set()
        self._made: Tuple[str, ...] = ()  # folders, each with a separator behind it
        self._own_folders: Dict[str, None] = {}  # those of them that were listed
        self._left_by_others: Dict[str, Set[str]] = {}  # by folder
        self._gone: Dict[str, Set[str]] = {}
        self._ran: Set[int] = set()
        self._sources: Dict[str, instrument.Compiled] = {}
        self._unfinished: Dict[str, None] = {}  # modules that are being imported, or could not be
        self._asked: Dict[str, Asked] = {}  # by module
        self._asked_before = 0  # how much that was
        self._uses_all_names = False
        self._awaited: Set[str] = set()  # modules that were made, and have yet to be filled
        self._named: Set[Tuple[str, str]] = set()
        self.environment: Dict[str, str] = {}
        """How the interpreter and what is installed for it were when this process began, by path."""

    # What the worker tells

    def begin(self, path: Iterable[str]) -> None:
        """Note what holds for the whole process; `path` is its `sys.path` before the agent's folders are on it."""
        executable, settings = os.path.abspath(sys.executable), os.path.join(sys.prefix, "pyvenv.cfg")
        installed = [settings, *(folder for folder in map(os.path.abspath, path) if is_library_folder(folder))]
        self.environment = {place: of_environment(place) for place in (executable, *installed)}
        self._note("interpreter", executable, of_interpreter())
        for place in installed:
            self._note("installed", place, of_installed(place))
        self.places.add(path)
        self._inherited = frozenset(os.environ)
        self.variable_read("PYTHONPATH", os.environ.get("PYTHONPATH"))

    def own_variable(self, name: str) -> None:
        """A variable that this process has set: what it is then is nobody's business."""
        self._own_variables.add(name)
        self.known_variables.add(name)

    def left_by_others(self, there: Dict[str, List[str]], *, gone: Dict[str, List[str]]) -> None:
        """What agents wrote before does not count where its folder is listed, unless somebody else has deleted it."""
        for left, known, other in ((there, self._left_by_others, self._gone), (gone, self._gone, self._left_by_others)):
            for folder, names in left.items():
                known.setdefault(folder, set()).update(names)
                other.get(folder, set()).difference_update(names)

    def enter(self, roots: Iterable[str], *, env_files: List[str], defined: Collection[str], imported: Names) -> None:
        """The process is the agent's from now on.

        `defined` are the variables that the `.env` files define; they are loaded. `imported` are top-level modules that
        a file in one of the `roots` would replace.
        """
        roots = list(roots)
        self.places.add([*roots, *sys.path])
        self._values = {name: value for name, value in os.environ.items() if name not in self._own_variables}
        self._defined = frozenset(defined)
        self._set_before = self._own_variables & self._inherited.union(defined)
        self._correct_early(defined)
        self._kind_of_variable = "variable"
        self.variables_read("locale")
        self.known_variables.intersection_update(self._own_variables)
        if env_files:
            self._note("env_files", "\0".join(os.path.abspath(file) for file in env_files), "-")
        for root in roots:
            if imported.joined and self.places.is_inside(root):
                self._note("import", f"{root}::{imported.joined}", imported.of_import(root))

    def _correct_early(self, defined: Collection[str]) -> None:
        """What was read before `.env` files had their say is compared by what is in effect, as everything else is."""
        early = [name for name in defined if ("early_variable", name) in self._found]
        for name in early:
            self._found["early_variable", name] = of_variable(self._secret, os.environ.get(name))
        if early:
            self.edition += 1
            self._told = [(kind, key, self._found.get((kind, key), value)) for kind, key, value in self._told]

    # What hooks tell

    def module_for(self, name: str, path: str) -> ModuleType:
        """The empty module for a source that is about to be imported: it notes which of its names are asked for."""
        path = os.path.abspath(path)
        self._awaited.add(path)
        return make_module(name, self._asked.setdefault(path, Asked()))

    def imported(self, compiled: instrument.Compiled) -> None:
        """A module is about to run. In a package the agent is at home, however it was found."""
        path = compiled.path
        is_followed = path in self._awaited
        self._awaited.discard(path)
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
        self._unfinished[path] = None

    def module_ended(self, compiled: instrument.Compiled) -> None:
        """A module has run to its end. Who asked for its names before then got what was there by then."""
        asked, blocks = self._asked.get(compiled.path), compiled.blocks
        if asked is not None and blocks is not None and not asked.all_names().isdisjoint(blocks.definitions):
            asked.names.add(EVERYTHING)

    def loaded(self, path: str, fingerprint: str) -> None:
        """A module that is not compiled, or cannot be: it counts as a whole."""
        path = os.path.abspath(path)
        if not self._is_own(path) and self.places.is_inside(path) is not False:
            self._note("file", path, fingerprint)

    def sought_at_top(self, folder: str) -> None:
        """Modules that are in no package are looked for in a folder, also those that are taken for Python's own."""
        if folder in self._sought_at_top:
            return
        self._sought_at_top.add(folder)
        own = self.places.own_folder(folder)
        if own is not None:
            found = _LIBRARY.of_import(own)
            self._note("import", f"{own}::{_LIBRARY.joined}", found)
            if not IMPORTED.isdisjoint(found.split(",")):
                self._uses_all_names = True  # what an import does that is added to a module, nobody knows

    def sought(self, folder: str, name: str) -> Optional[str]:
        """A module was looked for in a folder. Gives what is there; None where that is not recorded."""
        own = self.places.own_folder(folder)
        if own is None:
            return None
        folder = own
        known = self._imports.get((folder, name))
        if known is not None:
            return known
        found = of_import(folder, [name])
        if not self._is_own(os.path.join(folder, name)) and not self._is_own(os.path.join(folder, f"{name}.py")):
            self._imports[folder, name] = found
            self._sought.append((folder, name))
        return found

    def read(self, path: str) -> None:
        """What a file (absolute) holds, or whether it is there, was asked for."""
        if path in self._appended and self._is_written(path):
            self._found["file", path] = ""  # told at the end, as state
        if self._is_ours_to_ignore(path):
            return
        look = _look(path)
        known = self._looks.get(path)
        if known is not None and look is not None and known[0] == look and _is_settled(look, known[1]):
            return
        now = time.time_ns()
        self._note("file", path, of_file(path))
        self._looks[path] = (look, now)

    def probed(self, path: str) -> None:
        """Whether a file or folder (absolute) is there was asked."""
        if path not in self.known_probes and not self._is_ours_to_ignore(path):
            self.known_probes.add(path)
            self._note("probe", path, of_probe(path))

    def asked_about(self, path: str, kinds: Iterable[str]) -> None:
        """The agent wants to know more of a file (absolute) than what it holds; see `kinds_asked`."""
        for kind in kinds:
            if (kind, path) in self._found or self._is_ours_to_ignore(path):
                continue
            if kind == "mode":
                self._note(kind, path, of_mode(path))
            elif os.path.isdir(path):
                self.listed(path)  # what changes its time
            elif os.path.basename(path) not in self._left_by_others.get(os.path.dirname(path), ()):
                self._note(kind, path, of_time(path))

    def listed(self, path: str) -> None:
        """The names in a folder (absolute) were asked for."""
        if self._is_written(path) and self.places.is_inside(path):
            self._own_folders[path] = None  # told at the end: it may be gone by then
        if ("folder", path) in self._found or self._is_ours_to_ignore(path):
            return
        try:
            names = names_in(path)
        except (OSError, ValueError):
            self._note("folder", path, ABSENT)
            return
        self._found["folder", path] = ""  # told later: what this process writes there does not count
        self._listings.append((path, names))

    def listed_for_distributions(self, path: str) -> None:
        """A folder was searched for installed distributions, and nothing else."""
        if ("installed", path) not in self._found and not self._is_ours_to_ignore(path):
            self._note("installed", path, of_installed(path))

    def connected(self, path: str) -> None:
        """A database was opened, by code whose reading and writing nobody sees."""
        for part in (path, f"{path}-wal"):  # what is written last may be in another file yet
            if part not in self._databases and not self._is_ours_to_ignore(part):
                self._note("file", part, of_file(part))
                self._databases[part] = None

    def wrote(self, path: str, *, keeps: bool = False) -> None:
        """A file (absolute) is about to be written, moved or removed. What it `keeps` was not this process's doing."""
        if path not in self._written:
            self._written[path] = _look(path)
            if keeps:
                self._appended.add(path)

    def removed(self, path: str) -> None:
        """A file or folder (absolute) is about to be removed, which fails if it is not there."""
        if _look(path) is None:
            self.probed(path)
        self.wrote(path)

    def created(self, path: str) -> None:
        """A file (absolute) is about to be created, which fails if something is there."""
        if self.places.is_inside(path) and not is_called_by("tempfile", within=3):  # that makes up new names
            self.probed(path)
            self.probed_above(path)
        self.wrote(path)

    def probed_above(self, path: str) -> None:
        """Note whether the folder of a file (absolute) is there: else nothing can be written."""
        self.probed(os.path.dirname(path))

    def moved(self, source: str, target: str) -> None:
        """A file or folder is about to get another place."""
        if os.path.isdir(source):
            self._made += (target + os.sep,)
        elif not self._is_ours_to_ignore(source):
            self.read(source)
        self.probed_above(target)
        self.wrote(source)
        self.wrote(target)

    def made_folder(self, path: str) -> None:
        """A folder is about to be made; what is in it will be this process's own."""
        is_new = _look(path) is None
        self.created(path)
        if is_new:
            self._made += (path + os.sep,)

    def variable_read(self, name: str, value: Optional[str]) -> None:
        """A variable was read; None where it is not set."""
        if name not in self.known_variables:
            self.known_variables.add(name)
            self._note(self._kind_of_variable, name, of_variable(self._secret, value))

    def variables_read(self, what: str = "all") -> None:
        """Several variables were read: `what` as in `fingerprints.which_count`."""
        if self._kind_of_variable != "variable" or what in self._read_at_once:
            return
        self._read_at_once.add(what)
        own = which_count(what, dict.fromkeys(self._set_before, ""), defined=self._defined)
        values = which_count(what, self._values, defined=self._defined)
        self._note("variables", "\0".join([what, *sorted(own)]), of_variables(self._secret, values))

    def opaque(self, why: str) -> None:
        """Something was done that may read or run anything."""
        self._note("opaque", why, "-")

    # What is told of it

    @property
    def written(self) -> Set[str]:
        """The files that this process has made, changed or removed, and the databases that it has opened.

        Files that it made and removed again are left out.
        """
        return {path for path in self._written if self._is_written(path)}.union(self._databases)

    def found(self) -> List[Row]:
        """What was read so far, as rows. Of a folder all names count, whoever wrote them."""
        self._settle_code()
        rows = [(*what, value) for what, value in self._found.items() if what[0] != "folder" or value == ABSENT]
        return [*rows, *(("folder", folder, of_names(names)) for folder, names in self._listings)]

    def rows_before_fork(self) -> Tuple[List[Row], int]:
        """Rows that all children share, and the position from which a child asks for more.

        Folders are left to the children: which names count differs from case to case.
        """
        self._settle_code()
        return list(self._told), len(self._told)

    def rows_since(self, position: int) -> Tuple[List[Row], int]:
        """Rows that are new since a position, and the position to ask from next. The first one is 0."""
        self.settle()
        end = len(self._told)
        return self._told[position:end], end

    def rows_at_the_end(self) -> List[Row]:
        """Rows about what was written: only the end tells what remains of it."""
        rows = []
        for path in list(self._databases):
            if path not in self._written and of_file(path) != self._found["file", path]:
                self._written[path] = ()  # no look is like this
        for path in list(self._written):
            if self.places.is_inside(path) and self._is_written(path):
                is_asked = ("file", path) in self._found or ("probe", path) in self._found
                rows.append(("state" if is_asked else "written", path, of_file(path)))
        for folder in list(self._own_folders):
            if os.path.isdir(folder):
                rows.append(self._row_of_listing(folder, names_in(folder)))
        return rows

    def settle(self) -> None:
        """Make rows of what is recorded in shorter form."""
        self._settle_code()
        listings, self._listings = self._listings, []
        self._told += [self._row_of_listing(folder, entries) for folder, entries in listings]

    def _row_of_listing(self, folder: str, entries: List[str]) -> Row:
        gone = self._gone.get(folder, set())
        written = [path for path in list(self._written) if os.path.dirname(path) == folder]
        own = [os.path.basename(path) for path in written if self._written[path] is None or self._is_written(path)]
        without = {*own, *self._left_by_others.get(folder, ()), *gone}
        gone = gone.difference(own, [entry.rstrip("/") for entry in entries])
        return "folder", folder, of_names(entries, without=without, gone=gone)

    def _settle_code(self) -> None:
        """Do that for functions and imports. Done before a fork it need not be done in each child."""
        for number in sorted(instrument.ran - self._ran):
            self._ran.add(number)
            compiled, name = instrument.numbered[number]
            if compiled.blocks is None or ("rest", compiled.path) not in self._found:
                continue  # this process wrote it
            for what in compiled.opaque.get(name, ()):
                self.opaque(what)
            if not name:
                self._unfinished.pop(compiled.path, None)
                continue
            self._note("block", f"{compiled.path}::{name}", compiled.blocks.bodies[name])
            self._use_names(compiled, compiled.blocks.mentions[name])
        # Whatever is changed of a module whose import failed, it may be imported then.
        for path in list(self._unfinished):
            self._use_names(self._sources[path], [EVERYTHING])
        self._settle_asked()
        for path in list(self._sources if self._uses_all_names else ()):
            self._use_names(self._sources[path], [EVERYTHING])
        sought, self._sought = self._sought, []
        folders: Dict[str, List[str]] = {}
        for folder, name in sought:
            folders.setdefault(folder, []).append(name)
        for folder, names in folders.items():
            names.sort()
            states = ",".join(self._imports[folder, name] for name in names)
            self._note("import", f"{folder}::{','.join(names)}", states)

    def _settle_asked(self) -> None:
        """Do that for the names that modules were asked for from outside."""
        for asked in list(self._asked.values()):
            asked.look_at_modules()
        while (count := self._count_asked()) != self._asked_before:  # what is used may use what is imported
            self._asked_before = count
            self._use_asked()

    def _count_asked(self) -> int:
        """Greater, the more was asked, and the more is known of what is used."""
        return len(self._sources) + len(self._named) + sum(asked.count for asked in list(self._asked.values()))

    def _use_asked(self) -> None:
        for path, asked in list(self._asked.items()):
            compiled = self._sources.get(path)
            if compiled is None:
                continue
            self._use_names(compiled, list(asked.names))
            self._use_names(compiled, [self._use_of(*imported) for imported in list(asked.imported)])
            self._use_names(compiled, [self._use_as_attribute(*loaded) for loaded in list(asked.loaded)])

    def _use_of(self, name: str, importer: str) -> str:
        """What a module needs of a name that it imports.

        Only to call it, if nothing else is done with it there; only that it is there, if nobody has used it yet.
        """
        compiled, asked = self._sources.get(importer), self._asked.get(importer)
        if compiled is None or compiled.blocks is None or asked is None:
            return name
        aliases = compiled.blocks.uses.only_bound(name)
        if aliases and not any((importer, alias) in self._named for alias in (*aliases, EVERYTHING)):
            return f"{name}?"
        return f"{name}()" if compiled.blocks.uses.are_calls(name, asked=asked.all_names()) else name

    def _use_as_attribute(self, name: str, asking: str) -> str:
        """The same of a name that it asks a module for as an attribute."""
        compiled = self._sources.get(asking)
        if compiled is None or compiled.blocks is None:
            return name
        return f"{name}()" if compiled.blocks.uses.are_calls_of_attribute(name) else name

    def _use_names(self, compiled: instrument.Compiled, names: Iterable[str]) -> None:
        """Names of a module are used, and with them those that their definitions mention."""
        path, blocks = compiled.path, compiled.blocks
        assert blocks is not None
        waiting = list(names)
        while waiting:
            name = blocks.defined_as(waiting.pop())
            if (path, name) in self._named:
                continue
            self._named.add((path, name))
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
            self._told.append((kind, key, fingerprint))
        elif known != fingerprint and kind in _READ_ONCE and key not in self._databases:
            self._taint(key)

    def _taint(self, path: str) -> None:
        self.tainted = self.tainted or f"{path} was read twice, and had changed in between"

    def _is_ours_to_ignore(self, path: str) -> bool:
        """Whether what a file holds is this process's own doing, or no business of anybody's."""
        if self._is_written(path):
            return True
        inside = self.places.is_inside(path)
        if self._is_own(path):  # in a folder that was not there before
            if inside and _look(path) is None:
                return False
            if inside:  # written by code that nobody sees
                self._note("probe", path, ABSENT)
                self._written[path] = None
            return True
        return not (is_asked_by_agent() if inside is None else inside)

    def _is_written(self, path: str) -> bool:
        """Whether this process has written a file: it has set out to, and something came of it."""
        return path in self._written and _look(path) != self._written[path]

    def _is_own(self, path: str) -> bool:
        """The same, or it is in a folder that this process has made."""
        if self._is_written(path):
            return True
        within = path + os.sep
        return within.startswith(self._made) and any(
            within.startswith(made) and self._is_written(made[:-1]) for made in self._made
        )


def _look(path: str) -> Any:
    """What changes when a file is changed, or a folder is replaced; None where there is none."""
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


def _is_settled(look: Any, at: int) -> bool:
    return max(look[0], look[1]) < at - _SETTLED  # type: ignore[no-any-return]
