"""The present state: the fingerprint that a dependency row would get if it were recorded now."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workbench.agents import worker
from workbench.agents.installed_libraries import InstalledLibraries, find_changed_files
from workbench.agents.worker import dotenv
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import Blocks, ProjectImport, read_blocks
from workbench.engine.verdict_index import AgentWrittenFiles, fingerprint_of_tree
from workbench.model.identity import Dependency, DependencyKind

_SETTLED = 2.0  # seconds after which equal times and size mean equal content; clocks of disks are coarse
_ASK_VERSION = "import sys; print('.'.join(str(part) for part in sys.version_info[:3]))"
_READ_SOURCE = """
import sys
sys.path.insert(0, sys.argv[1])
from recording.blocks import print_blocks
print_blocks(sys.argv[2])
"""
_WORKER = str(Path(worker.__file__).parent)
_UNPARSABLE = "unparsable"
_LOOKED_UP_AT_TOP = frozenset(("typing", "uuid", "warnings"))
"""Modules that are looked up in all folders of the import path, and not together in others."""

Kind = DependencyKind
SOURCE_KINDS = frozenset({Kind.MODULE, Kind.REST, Kind.NAME, Kind.BLOCK, Kind.BRANCH})
"""Kinds of rows about Python source."""
_OF_PARTS = frozenset({Kind.NAME, Kind.BLOCK, Kind.BRANCH})
_OF_ENVIRONMENT = frozenset({Kind.VARIABLE, Kind.VARIABLES, Kind.EARLY_VARIABLE})


@dataclass(frozen=True)
class Surroundings:
    """Context of rows about variables: the target's folder, and its `.env` files in order."""

    target_path: str
    env_files: tuple[str, ...]


class Question(NamedTuple):
    """A row without its fingerprint. `around` is set only if the answer depends on it."""

    kind: str
    key: str
    around: Surroundings | None


class BrokenSource(NamedTuple):
    """A source file that does not compile. `line` counts from 1; None if unknown."""

    path: str
    line: int | None
    message: str


def make_question(row: Dependency, around: Surroundings) -> Question:
    """Return the question whose answer is the present fingerprint of a row."""
    return Question(row.kind, row.key, around if row.kind in _OF_ENVIRONMENT else None)


class Snapshot:
    """Answers questions, each once until `forget`. Reads files again only if their times or sizes changed."""

    def __init__(
        self,
        *,
        leftovers: Callable[[], AgentWrittenFiles] = lambda: AgentWrittenFiles({}),
        environment: Mapping[str, str] | None = None,
        locate: Callable[[str], str] = str,
        libraries: InstalledLibraries | None = None,
    ) -> None:
        """`leftovers` returns agent-written files to ignore in listings; `environment` is ours by default.

        `locate` returns where a path is read, for the state of a commit that is checked out elsewhere.
        """
        self._find_leftovers = leftovers
        self._locate = locate
        self._libraries = libraries or InstalledLibraries()
        self._environment = os.environ if environment is None else environment
        self._answers: dict[Question, str] = {}
        self._files: dict[str, _KnownFile] = {}
        self._blocks: dict[str, tuple[str, Blocks | BrokenSource]] = {}  # by path, with the fingerprint of the file
        self._effective: dict[Surroundings, dict[str, str]] = {}
        self._versions: dict[tuple[str, _FileStat], str] = {}
        self._interpreters: set[str] = set()
        self._leftovers: AgentWrittenFiles | None = None
        self._names: dict[str, str] = {}
        self._listings: dict[str, str] = {}

    def forget(self) -> None:
        """Forget all answers: anything may have changed."""
        self._answers.clear()
        self._effective.clear()
        self._names.clear()
        self._leftovers = None
        self._libraries.forget_unwatched()

    def add_interpreter(self, interpreter: str) -> None:
        """Add an interpreter of agents. If it is newer than ours, it reads source that ours cannot compile."""
        if interpreter in self._interpreters or interpreter == sys.executable:
            return
        self._interpreters.add(interpreter)
        for path in [path for path, (_, found) in self._blocks.items() if isinstance(found, BrokenSource)]:
            del self._blocks[path]

    def answer(self, question: Question) -> str:
        """Return the present fingerprint; empty for unknown kinds and kinds without one."""
        known = self._answers.get(question)
        if known is None:
            known = self._answers[question] = self._answer(question)
        return known

    def find_broken_source(self, path: str) -> BrokenSource | None:
        """Return why a source file does not compile; None if it does or does not exist."""
        found = self._read_blocks(path)
        return found if isinstance(found, BrokenSource) else None

    def read_blocks(self, path: str) -> Blocks | None:
        """Return the blocks of a source file; None if it does not exist or does not compile."""
        found = self._read_blocks(path)
        return found if isinstance(found, Blocks) else None

    def find_added_imports(self, path: str, recorded: str) -> list[ProjectImport]:
        """Return the imports that were added to a source file since its `rest` was recorded; empty if more changed."""
        blocks = self.read_blocks(path)
        return [] if blocks is None else blocks.find_added_imports(recorded)

    def fingerprint_file(self, path: str) -> str:
        """Return the fingerprint of the content of a file."""
        path = self._locate(path)
        now = _stat_file(path)
        known = self._files.get(path)
        if known is not None and known.look == now and known.is_settled:
            return known.fingerprint
        fingerprint = fingerprints.of_file(path)
        is_settled = now is not None and time.time() - max(now.changed_ns, now.modified_ns) / 1e9 > _SETTLED
        self._files[path] = _KnownFile(now, fingerprint, is_settled=is_settled)
        return fingerprint

    def fingerprint_names(self, folder: str) -> str:
        """Return the fingerprint of the names in a folder, without files that agents ever wrote there."""
        known = self._names.get(folder)
        if known is None:
            written = self._get_leftovers().list_written(folder)
            known = fingerprints.of_folder(self._locate(folder), without=written)
            self._names[folder] = known
        return known

    def has_unchanged_names(self, folder: str) -> bool:
        """Return True if the names in a folder, except those written by agents, are those of the last call."""
        before, now = self._listings.get(folder), self.fingerprint_names(folder)
        self._listings[folder] = now
        return now == before and now != fingerprints.ABSENT

    def _answer(self, question: Question) -> str:
        kind, key, around = question
        if kind in SOURCE_KINDS:
            path, _, name = key.rpartition("::") if kind in _OF_PARTS else (key, "", "")
            blocks = self._read_blocks(path)
            return _find_fingerprint(blocks, kind, name) if isinstance(blocks, Blocks) else _fingerprint_missing(blocks)
        if kind in (Kind.FILE, Kind.STATE):
            return self.fingerprint_file(key)
        if kind == Kind.FOLDER:
            left = self._get_leftovers().names(key)
            return fingerprints.of_folder(self._locate(key), without=left.there, gone=left.gone)
        if kind == Kind.PROBE:
            return fingerprints.of_probe(self._locate(key))
        if kind == Kind.TIME:
            return fingerprints.of_time(self._locate(key))
        if kind == Kind.MODE:
            return fingerprints.of_mode(self._locate(key))
        if kind == Kind.TREE:
            return fingerprint_of_tree(self._locate(key), file=self.fingerprint_file)
        if kind == Kind.IMPORT:
            folder, _, names = key.rpartition("::")
            return fingerprints.of_import(self._locate(folder), names.split(","))
        if kind == Kind.INSTALLED:
            return fingerprints.of_installed(self._locate(key), part=self.fingerprint_file)
        if kind == Kind.LIBRARIES:
            return self._libraries.fingerprint(Dependency(kind, key, ""))
        if kind == Kind.INTERPRETER:
            return self._fingerprint_interpreter(key)
        return self._fingerprint_variable(kind, key, around) if around is not None else ""

    def find_changed_variables(self, row: Dependency) -> dict[str, str]:
        """Return the names of a row about several variables that differ now, each with new, gone or changed."""
        # The row does not say whose it is. Compared with the variables of another agent, every name differs.
        answers = {self.answer(Question(row.kind, row.key, around)) for around in tuple(self._effective)}
        found = [fingerprints.find_changed_variables(row.fingerprint, answer) for answer in answers]
        return min(found, key=len, default={})

    def find_changed_library_files(self, row: Dependency) -> list[str]:
        """Return the edited files of installed libraries that a row notices, each from the name of its package."""
        return find_changed_files(row.fingerprint, self.answer(Question(row.kind, row.key, None)))

    def _fingerprint_variable(self, kind: str, key: str, around: Surroundings) -> str:
        secret = fingerprints.derive_secret(around.target_path)
        files = [self._locate(file) for file in around.env_files]
        effective = self._effective.get(around)
        if effective is None:
            effective = self._effective[around] = dotenv.effective(files, self._environment)
        if kind != Kind.VARIABLES:
            return fingerprints.of_variable(secret, effective.get(key))
        named = dotenv.effective(files, {})
        return fingerprints.of_variables(secret, fingerprints.select_variables(key, effective, defined=named))

    def _read_blocks(self, path: str) -> Blocks | BrokenSource | None:
        """Return the blocks of a source file; None if it does not exist."""
        path = self._locate(path)
        fingerprint = self.fingerprint_file(path)
        if fingerprint in (fingerprints.ABSENT, "folder"):
            return None
        known = self._blocks.get(path)
        if known is None or known[0] != fingerprint:
            known = self._blocks[path] = (fingerprint, _read_source(path, self._find_newer_interpreters))
        return known[1]

    def _find_newer_interpreters(self) -> Iterable[str]:
        for interpreter in self._interpreters:
            version = self._get_version(interpreter).split(".")
            if [int(part) for part in version if part.isdecimal()] > list(sys.version_info[:2]):
                yield interpreter

    def _fingerprint_interpreter(self, path: str) -> str:
        if path == sys.executable:
            return fingerprints.of_interpreter()
        version = self._get_version(path)
        return version if version == fingerprints.ABSENT else f"{version};{fingerprints.FORMAT}"

    def _get_version(self, interpreter: str) -> str:
        look = _stat_file(interpreter)
        if look is None:
            return fingerprints.ABSENT
        known = self._versions.get((interpreter, look))
        if known is None:
            known = self._versions[interpreter, look] = _read_version(interpreter)
        return known

    def _get_leftovers(self) -> AgentWrittenFiles:
        if self._leftovers is None:
            self._leftovers = self._find_leftovers()
        return self._leftovers


# Imports that were added to a module. If the imported modules only define names, no case notices.


class AddedImports:
    """Decides whether imports that were added since a case ran change nothing for it.

    The modules of such an import and all that they import must exist where the case itself imported from, only define
    names, and not lead back to the module. The case must not have looked for them in their packages.
    """

    def __init__(self, state: Snapshot, rows: Iterable[Dependency]) -> None:
        """`rows` are all rows of the case."""
        self._state = state
        self._roots: dict[str, set[str]] = {}
        self._import_path: set[str] = set()
        self._requested: set[str] = set()
        self._sought: set[tuple[str, str]] = set()
        found: list[tuple[str, str]] = []
        for row in rows:
            if row.kind == Kind.IMPORT:
                folder, _, names = row.key.rpartition("::")
                states = dict(zip(names.split(","), row.fingerprint.split(","), strict=False))
                found += [(name, folder) for name, state in states.items() if state in ("package", "module")]
                self._sought.update((folder, name) for name in states)
                if states.keys() >= _LOOKED_UP_AT_TOP:
                    self._import_path.add(folder)
            elif row.kind in (Kind.NAME, Kind.MODULE) and not row.key.endswith("?"):
                self._requested.add(row.key.removesuffix("()"))
        for name, folder in found:
            if folder in self._import_path:
                self._roots.setdefault(name, set()).add(folder)

    def find_sources(self, path: str, added: Iterable[ProjectImport]) -> set[str] | None:
        """Return the sources that these imports in a module run if that changes nothing, else None."""
        pure: set[str] = set()
        is_harmless = all(each.binds_alone and self._is_harmless(each, (path,), pure) for each in added)
        return pure if is_harmless else None

    def _is_harmless(self, added: ProjectImport, stack: tuple[str, ...], pure: set[str]) -> bool:
        """Return True if an import in the last module of `stack` succeeds and only defines names."""
        if added.module is None:
            return all(self._find_pure(tuple(name.split(".")), stack, pure) for name in added.names)
        package = self._find_package(stack[-1], added.level)
        if package is None:
            return False
        parts = (*package, *filter(None, added.module.split(".")))
        source = self._find_pure(parts, stack, pure) if parts else None
        blocks = None if source is None else self._state.read_blocks(source)
        if source is None or blocks is None:
            return False
        for name in added.names:
            if blocks.binds(name):
                if _is_around(source, stack[0]):  # it may not be bound yet
                    return False
            elif self._find_pure((*parts, name), stack, pure) is None:
                return False
        return True

    def _find_package(self, path: str, level: int) -> tuple[str, ...] | None:
        """Return the package that a relative import in a module starts from; empty for an absolute import."""
        if not level:
            return ()
        home = Path(path).parent
        for name, roots in self._roots.items():
            root = Path(next(iter(roots)))
            if len(roots) != 1 or not home.is_relative_to(root / name):
                continue
            inside = home.relative_to(root).parts
            around = {str(root.joinpath(*inside[:count])) for count in range(1, len(inside) + 1)}
            is_clear = self._import_path.isdisjoint(around) and level <= len(inside)
            return inside[: len(inside) - level + 1] if is_clear else None
        return None

    def _find_pure(self, parts: tuple[str, ...], stack: tuple[str, ...], pure: set[str]) -> str | None:
        """Return the source of a module if importing it and its packages succeeds and only defines names."""
        roots = self._roots.get(parts[0], set())
        if len(roots) != 1:
            return None
        (folder,) = map(Path, roots)
        source: str | None = None
        for position, part in enumerate(parts, 1):
            if source is not None and not self._can_be_bound(source, part):
                return None
            found = self._state.answer(Question(Kind.IMPORT, f"{folder}::{part}", None))
            is_new = position > 1 and (str(folder), part) not in self._sought
            folder /= part
            if found == "namespace" and is_new and position < len(parts):  # requests from it are not recorded
                source = None
                continue
            if found == "package":
                source = str(folder / "__init__.py")
            elif found == "module" and position == len(parts):
                source = f"{folder}.py"
            else:
                return None
            if not (_is_around(source, stack[0]) or self._is_pure(source, stack, pure)):
                return None
        return source

    def _can_be_bound(self, package: str, name: str) -> bool:
        """Return True if the case does not notice that a module becomes an attribute of its package.

        A package that may bind any name counts as a whole, and is requested.
        """
        blocks = self._state.read_blocks(package)
        if blocks is None or any(map(blocks.binds, (name, "__path__", "__getattr__"))):
            return False
        return self._requested.isdisjoint((package, f"{package}::{name}"))

    def _is_pure(self, source: str, stack: tuple[str, ...], pure: set[str]) -> bool:
        if source in pure:
            return True
        blocks = None if source in stack else self._state.read_blocks(source)
        if blocks is None or not blocks.is_pure:
            return False
        if all(self._is_harmless(each, (*stack, source), pure) for each in blocks.imports):
            pure.add(source)
            return True
        return False


def _is_around(source: str, path: str) -> bool:
    """Return True for the `__init__.py` of a package that contains a module: it began to run before the module."""
    found = Path(source)
    return found.name == "__init__.py" and Path(path).is_relative_to(found.parent)


class _FileStat(NamedTuple):
    modified_ns: int
    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class _KnownFile:
    look: _FileStat | None
    fingerprint: str
    is_settled: bool


def _stat_file(path: str) -> _FileStat | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of them
    except (OSError, ValueError):
        return None
    return _FileStat(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _read_source(path: str, newer_interpreters: Callable[[], Iterable[str]]) -> Blocks | BrokenSource:
    """Return the blocks of a source file, read by a newer interpreter if ours does not know its syntax."""
    found = _read_source_here(path)
    if isinstance(found, BrokenSource):
        for interpreter in newer_interpreters():
            found = _read_source_elsewhere(interpreter, path) or found
            if isinstance(found, Blocks):
                break
    return found


def _read_source_elsewhere(interpreter: str, path: str) -> Blocks | BrokenSource | None:
    output = _run_program(interpreter, _READ_SOURCE, _WORKER, path)
    if not output:
        return None
    written: dict[str, Any] = json.loads(output)
    return BrokenSource(path, written["line"], written["message"]) if "line" in written else Blocks.from_json(written)


def _read_source_here(path: str) -> Blocks | BrokenSource:
    """Parse and compile a file: some errors, such as `return` outside a function, appear only when it is compiled."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            source = stream.read()
        blocks = read_blocks(source, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # running the code shows them
            compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return BrokenSource(path, error.lineno or None, error.msg)
    except (OSError, ValueError, OverflowError, RecursionError, MemoryError, SystemError) as error:
        return BrokenSource(path, None, str(error) or type(error).__name__)
    return blocks


def _find_fingerprint(blocks: Blocks, kind: str, name: str) -> str:
    if kind in (Kind.BLOCK, Kind.BRANCH):
        return blocks.bodies.get(name, fingerprints.ABSENT)
    if kind == Kind.NAME:
        return blocks.name(name)
    return blocks.module if kind == Kind.MODULE else blocks.rest.fingerprint


def _fingerprint_missing(found: BrokenSource | None) -> str:
    return fingerprints.ABSENT if found is None else _UNPARSABLE


def _read_version(interpreter: str) -> str:
    output = _run_program(interpreter, _ASK_VERSION)
    return fingerprints.ABSENT if output is None else output.strip()


def _run_program(interpreter: str, program: str, *arguments: str) -> str | None:
    """Run a program under another interpreter without site packages; return its output, None if it cannot run."""
    command = [interpreter, "-I", "-S", "-B", "-c", program, *arguments]
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=10, check=False).stdout
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
