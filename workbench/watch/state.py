"""How things are now: the fingerprint that each row of a dependency would have if it were recorded at this moment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workbench.agents.worker import dotenv
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import Blocks, read_blocks
from workbench.engine.leftovers import Leftovers
from workbench.engine.trees import fingerprint_of_tree
from workbench.model.dependencies import Dependency, DependencyKind

_SETTLED = 2.0  # seconds after which a file with the same times and size holds the same: clocks of disks are coarse
_ASK_VERSION = "import sys; print('.'.join(str(part) for part in sys.version_info[:3]))"
_UNPARSABLE = "unparsable"

Kind = DependencyKind
OF_SOURCE = frozenset({Kind.MODULE, Kind.REST, Kind.NAME, Kind.BLOCK})
"""What is about Python source that can be compiled."""
_OF_ENVIRONMENT = frozenset({Kind.VARIABLE, Kind.VARIABLES, Kind.EARLY_VARIABLE})


@dataclass(frozen=True)
class Surroundings:
    """What the rows about variables need besides themselves: the target's folder, and its `.env` files in order."""

    target_path: str
    env_files: tuple[str, ...]


class Question(NamedTuple):
    """A row without its fingerprint. `around` only where the answer depends on it."""

    kind: str
    key: str
    around: Surroundings | None


class BrokenSource(NamedTuple):
    """A source file that cannot be compiled. `line` counts from 1; None where that is not known."""

    path: str
    line: int | None
    message: str


def question_of(row: Dependency, around: Surroundings) -> Question:
    """What to ask to learn whether a row still holds."""
    return Question(row.kind, row.key, around if row.kind in _OF_ENVIRONMENT else None)


class State:
    """Answers questions, each once until `forget`. Reads files again only where their times or sizes changed."""

    def __init__(
        self,
        *,
        leftovers: Callable[[], Leftovers] = lambda: Leftovers({}),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`leftovers` gives what does not count in listings; `environment` is ours by default."""
        self._look_at_leftovers = leftovers
        self._environment = os.environ if environment is None else environment
        self._answers: dict[Question, str] = {}
        self._files: dict[str, _Known] = {}
        self._blocks: dict[str, tuple[str, Blocks | BrokenSource]] = {}  # by path, with the fingerprint of the file
        self._effective: dict[Surroundings, dict[str, str]] = {}
        self._versions: dict[tuple[str, _Look], str] = {}
        self._leftovers: Leftovers | None = None
        self._names: dict[str, str] = {}
        self._listings: dict[str, str] = {}

    def forget(self) -> None:
        """Anything may have changed: look again when asked."""
        self._answers.clear()
        self._effective.clear()
        self._names.clear()
        self._leftovers = None

    def answer(self, question: Question) -> str:
        """The fingerprint now; of a kind that has none, or that nobody knows, an empty text."""
        known = self._answers.get(question)
        if known is None:
            known = self._answers[question] = self._answer(question)
        return known

    def broken(self, path: str) -> BrokenSource | None:
        """Why a source file cannot be compiled; None where it can, or is not there."""
        found = self._blocks_of(path)
        return found if isinstance(found, BrokenSource) else None

    def file(self, path: str) -> str:
        """The fingerprint of what a file holds."""
        now = _look(path)
        known = self._files.get(path)
        if known is not None and known.look == now and known.is_settled:
            return known.fingerprint
        fingerprint = fingerprints.of_file(path)
        is_settled = now is not None and time.time() - max(now.changed_ns, now.modified_ns) / 1e9 > _SETTLED
        self._files[path] = _Known(now, fingerprint, is_settled=is_settled)
        return fingerprint

    def names(self, folder: str) -> str:
        """What a folder lists, without all that agents ever wrote there, deleted since or not."""
        known = self._names.get(folder)
        if known is None:
            known = fingerprints.of_folder(folder, without=self._left().written(folder))
            self._names[folder] = known
        return known

    def has_same_names(self, folder: str) -> bool:
        """Whether a folder lists what it did when this was asked last, but for what agents wrote; False at first."""
        before, now = self._listings.get(folder), self.names(folder)
        self._listings[folder] = now
        return now == before and now != fingerprints.ABSENT

    def _answer(self, question: Question) -> str:
        kind, key, around = question
        if kind in OF_SOURCE:
            path, _, name = key.rpartition("::") if kind in (Kind.BLOCK, Kind.NAME) else (key, "", "")
            blocks = self._blocks_of(path)
            return _part_of(blocks, kind, name) if isinstance(blocks, Blocks) else _missing(blocks)
        if kind in (Kind.FILE, Kind.STATE):
            return self.file(key)
        if kind == Kind.FOLDER:
            left = self._left().names(key)
            return fingerprints.of_folder(key, without=left.there, gone=left.gone)
        if kind == Kind.PROBE:
            return fingerprints.of_probe(key)
        if kind == Kind.TIME:
            return fingerprints.of_time(key)
        if kind == Kind.MODE:
            return fingerprints.of_mode(key)
        if kind == Kind.TREE:
            return fingerprint_of_tree(key, file=self.file)
        if kind == Kind.IMPORT:
            folder, _, names = key.rpartition("::")
            return fingerprints.of_import(folder, names.split(","))
        if kind == Kind.INSTALLED:
            return fingerprints.of_installed(key, part=self.file)
        if kind == Kind.INTERPRETER:
            return self._interpreter(key)
        return self._variable(kind, key, around) if around is not None else ""

    def _variable(self, kind: str, key: str, around: Surroundings) -> str:
        secret = fingerprints.secret_of(around.target_path)
        effective = self._effective.get(around)
        if effective is None:
            effective = self._effective[around] = dotenv.effective(around.env_files, self._environment)
        if kind != Kind.VARIABLES:
            return fingerprints.of_variable(secret, effective.get(key))
        named = dotenv.effective(around.env_files, {})
        return fingerprints.of_variables(secret, fingerprints.which_count(key, effective, defined=named))

    def _blocks_of(self, path: str) -> Blocks | BrokenSource | None:
        """The blocks of a source file as it is; None where there is none."""
        fingerprint = self.file(path)
        if fingerprint in (fingerprints.ABSENT, "folder"):
            return None
        known = self._blocks.get(path)
        if known is None or known[0] != fingerprint:
            known = self._blocks[path] = (fingerprint, _read_source(path))
        return known[1]

    def _interpreter(self, path: str) -> str:
        if path == sys.executable:
            return fingerprints.of_interpreter()
        look = _look(path)
        if look is None:
            return fingerprints.ABSENT
        known = self._versions.get((path, look))
        if known is None:
            known = self._versions[path, look] = _version_of(path)
        return f"{known};{fingerprints.FORMAT}"

    def _left(self) -> Leftovers:
        if self._leftovers is None:
            self._leftovers = self._look_at_leftovers()
        return self._leftovers


class _Look(NamedTuple):
    modified_ns: int
    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class _Known:
    look: _Look | None
    fingerprint: str
    is_settled: bool


def _look(path: str) -> _Look | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of them
    except (OSError, ValueError):
        return None
    return _Look(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _read_source(path: str) -> Blocks | BrokenSource:
    """The blocks of a source file. Some errors, such as `return` outside a function, only show when it is compiled."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            source = stream.read()
        blocks = read_blocks(source, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever runs the code is told
            compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return BrokenSource(path, error.lineno, error.msg)
    except (OSError, ValueError, OverflowError, RecursionError, MemoryError, SystemError) as error:
        return BrokenSource(path, None, str(error) or type(error).__name__)
    return blocks


def _part_of(blocks: Blocks, kind: str, name: str) -> str:
    if kind == Kind.BLOCK:
        return blocks.bodies.get(name, fingerprints.ABSENT)
    if kind == Kind.NAME:
        return blocks.name(name)
    return blocks.module if kind == Kind.MODULE else blocks.rest.fingerprint


def _missing(found: BrokenSource | None) -> str:
    return fingerprints.ABSENT if found is None else _UNPARSABLE


def _version_of(interpreter: str) -> str:
    try:
        asked = subprocess.run(
            [interpreter, "-I", "-S", "-c", _ASK_VERSION], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return fingerprints.ABSENT
    return asked.stdout.strip()
