"""The index of stored verdicts, and the files that agents write."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workbench.agents.agent_host import LeftByAgents
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.model.facts import pause_gc
from workbench.model.identity import CaseKey, Dependencies, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import Target
from workbench.store.errors import StoreError
from workbench.store.files import Signature, read_signature
from workbench.store.history.history import History
from workbench.store.history.history_queries import AgentWrittenFile, StoredVerdict
from workbench.store.history.history_schema import get_history_path
from workbench.store.history.history_writer import MAX_TRACES_PER_VARIANT

# Files written by agents. Folder listings ignore them unless something else changes them.

_LATELY = 64  # recent executions, checked for overlap


class _FileStates:
    """The states in which agents left one file, connected if one was derived from another."""

    __slots__ = ("_lately", "_parents", "blind", "left_at")

    def __init__(self) -> None:
        self.left_at: dict[str, float] = {}
        """By state, the last time an agent left the file in it."""
        self.blind: set[str] = set()
        """States that were written without reading the file before."""
        self._parents: dict[str, str] = {}
        self._lately: deque[AgentWrittenFile] = deque(maxlen=_LATELY)

    def add(self, left: AgentWrittenFile) -> None:
        state = left.fingerprint
        self.left_at[state] = max(left.recorded_at, self.left_at.get(state, 0.0))
        if left.previous_fingerprint is None:
            self.blind.add(state)
        else:
            self._join(left.previous_fingerprint, state)
        for other in self._lately:  # parallel agents may have seen each other's states
            if other.recorded_at >= left.started_at and other.started_at <= left.recorded_at:
                self._join(other.fingerprint, state)
        self._lately.append(left)

    def is_connected(self, one: str, other: str) -> bool:
        return self._root(one) == self._root(other)

    def _join(self, one: str, other: str) -> None:
        self._parents[self._root(one)] = self._root(other)

    def _root(self, state: str) -> str:
        while (parent := self._parents.get(state, state)) != state:
            self._parents[state] = self._parents.get(parent, parent)
            state = parent
        return state


class LeftFiles:
    """The states in which agents left files, with times."""

    def __init__(self) -> None:
        self._work: dict[str, _FileStates] = {}

    def add(self, left: Iterable[AgentWrittenFile]) -> None:
        """Add states, in the order in which they were reported."""
        for each in left:
            self._work.setdefault(each.path, _FileStates()).add(each)

    def is_agent_change(self, path: str, *, left: str, now: str, since: float) -> bool:
        """True if the state `now` descends from `left` through writes of agents only.

        The execution that left it began at `since`. Such changes do not make verdicts stale. A change from elsewhere
        does, even if agents modify the file afterwards, unless an agent replaced it without reading.
        """
        work = self._work.get(path)
        if work is None or work.left_at.get(now, -1.0) < since:
            return False
        return now in work.blind or work.is_connected(left, now)

    def newest(self, path: str) -> str | None:
        """Return the state in which an agent left the file last; None if none has written it."""
        work = self._work.get(path)
        return None if work is None else max(work.left_at, key=work.left_at.__getitem__)

    def list_presence(self) -> dict[str, bool]:
        """For each file written by agents, return whether it existed when an agent last left it."""
        return {path: self.newest(path) != ABSENT for path in self._work}


class AgentFileNames(NamedTuple):
    """Names of files that agents left in a folder: those that exist, and those that were deleted since."""

    there: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


class AgentWrittenFiles:
    """The files written by agents as they are now. Reads each folder once."""

    def __init__(self, are_there: Mapping[str, bool]) -> None:
        """`are_there`: see `LeftFiles.list_presence`."""
        self._by_folder: dict[str, list[tuple[str, bool]]] = {}
        for path, is_there in are_there.items():
            folder, name = os.path.split(path)
            self._by_folder.setdefault(folder, []).append((name, is_there))
        self._names: dict[str, AgentFileNames] = {}

    def names(self, folder: str) -> AgentFileNames:
        """Return the names to ignore in a folder, and the names that count as deleted."""
        known = self._names.get(folder)
        if known is None:
            there, gone = set(), set()
            for name, was_left in self._by_folder.get(folder, ()):
                is_there = os.path.lexists(os.path.join(folder, name))  # noqa: PTH118 - thousands of them
                if is_there == was_left:
                    there.add(name)
                elif was_left:
                    gone.add(name)
            known = self._names[folder] = AgentFileNames(frozenset(there), frozenset(gone))
        return known

    def list_written(self, folder: str) -> frozenset[str]:
        """Return the names of all files that agents ever wrote in a folder."""
        return frozenset(name for name, _ in self._by_folder.get(folder, ()))

    def summarise(self, listed: Collection[str], *, most: int) -> LeftByAgents:
        """Return at most `most` names, first those in folders that are known to be `listed`."""
        there: dict[str, tuple[str, ...]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        left = most
        for folder in sorted(self._by_folder, key=lambda each: (each not in listed, each)):
            if left <= 0:
                break
            found = self.names(folder)
            for names, known in ((found.gone, gone), (found.there, there)):
                if names and left > 0:
                    known[folder] = tuple(sorted(names)[:left])
                    left -= len(names)
        return LeftByAgents(there, gone)


# All verdicts that may be current, with their dependencies: read from the history once, then updated by runs.

_NOTHING: array[int] = array("L")
_JUDGEMENTS = 10
"""Verdicts to keep for one execution, as users may undo edits of criteria."""
_LATELY_USED = 1_000  # sets
_LEFT = frozenset({DependencyKind.STATE, DependencyKind.WRITTEN})
_NO_VERDICTS: list[StoredVerdict] = []


class Asked(NamedTuple):
    """The input of an execution. Executions with equal input are samples of the same distribution."""

    target: str
    execution_key: str
    repeat: int


class Verdicts:
    """The newest verdicts of a project, by input of the agent. Thread-safe."""

    def __init__(self, *, most: int = MAX_TRACES_PER_VARIANT) -> None:
        """`most` is the maximum number of executions to keep for one input."""
        self._most = most
        self._lock = threading.RLock()
        self._by_asked: dict[Asked, list[StoredVerdict]] = {}
        self._newest: dict[JobKey, StoredVerdict] = {}
        self._rows: list[Dependency] = []
        self._numbers: dict[Dependency, int] = {}
        self._sets: dict[int, array[int]] = {}
        self._uses: Counter[int] = Counter()  # of sets
        self._unused: deque[int] = deque()
        self._offset = 0  # added to the numbers of sets and executions in the history
        self._highest = 0  # of these numbers
        self._left = LeftFiles()
        self._listed: set[str] = set()  # folders whose listing is a dependency

    @classmethod
    def read(cls, history: History) -> Verdicts:
        """Read the verdicts of a history. Raises StoreError."""
        return cls._read(cls(), history, history.last_verdicts())

    @classmethod
    def read_case(cls, history: History, case: CaseKey) -> Verdicts:
        """Read all verdicts of one case, also those whose traces are deleted. Raises StoreError."""
        return cls._read(cls(most=sys.maxsize), history, history.list_verdicts(case))

    @staticmethod
    def _read(verdicts: Verdicts, history: History, stored: Sequence[StoredVerdict]) -> Verdicts:
        """Add verdicts, given newest first, with their dependencies."""
        with pause_gc():
            for verdict in reversed(stored):
                verdicts._add(verdict)
            found: dict[int, list[int]] = {}
            for number, row in history.dependencies(verdicts._uses.keys()):
                found.setdefault(number, []).append(verdicts._number(row))
            verdicts._sets = {number: array("L", rows) for number, rows in found.items()}
            verdicts._left.add(history.list_agent_written_files())
        return verdicts

    def add_new(self, history: History) -> bool:
        """Add verdicts that other processes have stored since. Return True if there are any. Raises StoreError."""
        with self._lock:
            known = {_place(verdict) for verdicts in self._by_asked.values() for verdict in verdicts}
            new = [verdict for verdict in reversed(history.last_verdicts()) if _place(verdict) not in known]
            found: dict[int, set[int]] = {}
            for number, row in history.dependencies({number for verdict in new for number in _list_sets(verdict)}):
                found.setdefault(number, set()).add(self._number(row))
            former = {number: self._sets.get(number + self._offset) for number in found}
            if any(rows is not None and {*rows} != found[number] for number, rows in former.items()):
                self._offset = self._highest + 1  # a new file, with numbers from 1
            for number, numbers in found.items():
                self._sets.setdefault(number + self._offset, array("L", sorted(numbers)))
            for verdict in new:
                self._add(_renumber(verdict, self._offset))
            self._left.add(history.list_agent_written_files())
            return bool(new)

    def add(self, stored: StoredVerdict, result: CaseResult) -> None:
        """Add a result that a run has stored."""
        recorded = result.execution.dependencies
        with self._lock:
            if self._is_of_another_history(stored, recorded):
                self._offset = self._highest + 1
            stored = _renumber(stored, self._offset)
            self._add(stored)
            if stored.dependencies is not None and recorded is not None:
                self._store_rows(stored.dependencies, recorded.rows)
                self._left.add(_find_left_files(recorded, stored))
            if stored.scoring_dependencies is not None:
                of_metrics = [metric.dependencies for metric in result.metrics if metric.dependencies is not None]
                self._store_rows(stored.scoring_dependencies, frozenset().union(*(each.rows for each in of_metrics)))
                for each in of_metrics:
                    self._left.add(_find_left_files(each, stored))

    def has_status(self, status: CaseStatus) -> bool:
        with self._lock:
            return any(each.job.status is status for known in self._by_asked.values() for each in known)

    def find(self, asked: Asked) -> Sequence[StoredVerdict]:
        """Return the verdicts for an input, the newest first."""
        return self._by_asked.get(asked, _NO_VERDICTS)[::-1]  # a copy, made atomically

    def for_job(self, job: JobKey, asked: Asked) -> Sequence[StoredVerdict]:
        """As `find`, but always with the newest verdict of the job, last if many other jobs had the same input."""
        known = self.find(asked)
        if len(known) < self._most:  # `_add` has never dropped one of so few
            return known
        with self._lock:
            known, own = self.find(asked), self._newest.get(job)
        if own is None or _make_question(own) != asked or any(each is own for each in known):
            return known
        return [*known, own]

    def newest(self, job: JobKey) -> StoredVerdict | None:
        """Return the newest verdict of a job, whatever its input was."""
        with self._lock:
            return self._newest.get(job)

    def list_jobs(self) -> Sequence[JobKey]:
        """Return the jobs with a verdict, whatever their input was."""
        with self._lock:
            return [*self._newest]

    def list_rows(self, number: int) -> Sequence[int]:
        """List the numbers of the rows in a set; empty if the set was forgotten."""
        with self._lock:
            return self._sets.get(number, _NOTHING)

    def has_set(self, number: int) -> bool:
        return number in self._sets

    def row(self, number: int) -> Dependency:
        return self._rows[number]

    @property
    def row_count(self) -> int:
        """The number of rows. They are numbered from 0, and numbers never change."""
        return len(self._rows)

    def is_agent_change(self, path: str, *, left: str, now: str, since: float) -> bool:
        with self._lock:
            return self._left.is_agent_change(path, left=left, now=now, since=since)

    def find_last_state(self, path: str) -> str | None:
        """Return the state in which an agent left a file last; None if none has written it."""
        with self._lock:
            return self._left.newest(path)

    def list_agent_files(self) -> AgentWrittenFiles:
        """Return the files written by agents, as they are now."""
        with self._lock:
            return AgentWrittenFiles(self._left.list_presence())

    @property
    def listed_folders(self) -> Collection[str]:
        with self._lock:
            return frozenset(self._listed)

    def _is_of_another_history(self, stored: StoredVerdict, recorded: Dependencies | None) -> bool:
        """Whether the file was deleted and created again, so that numbers start from 1 and mean others."""
        stored = _renumber(stored, self._offset)
        if stored.execution is not None and stored.execution < self._highest - _LATELY_USED:
            return all(each.execution != stored.execution for each in self.find(_make_question(stored)))
        known = None if stored.dependencies is None else self._sets.get(stored.dependencies)
        return known is not None and recorded is not None and {*known} != {*map(self._number, recorded.rows)}

    def _add(self, stored: StoredVerdict) -> None:
        self._highest = max(self._highest, stored.execution or 0, *_list_sets(stored))
        job = stored.job
        former = self._newest.get(job.key)
        self._newest[job.key] = stored
        asked = _make_question(stored)
        known = self._by_asked.setdefault(asked, [])
        for number in _list_sets(stored):
            self._uses[number] += 2  # as the newest of its job, and by its input
        if former is not None:
            self._release(_list_sets(former))
        gone = _find_outdated(known, stored) if len(known) >= self._most else _NO_VERDICTS
        if gone:
            known = self._by_asked[asked] = [each for each in known if each not in gone]
            for each in gone:
                self._release(_list_sets(each))
        known.append(stored)

    def _release(self, sets: Iterable[int]) -> None:
        """Forget unused sets, with a delay because another thread may be reading them."""
        self._uses.subtract(sets)
        self._unused.extend(number for number in sets if not self._uses[number])
        while len(self._unused) > _LATELY_USED:
            number = self._unused.popleft()
            if not self._uses[number]:
                del self._uses[number]
                self._sets.pop(number, None)

    def _store_rows(self, number: int, rows: Collection[Dependency]) -> None:
        if number not in self._sets:
            self._sets[number] = array("L", [self._number(row) for row in rows])

    def _number(self, row: Dependency) -> int:
        number = self._numbers.get(row)
        if number is None:
            number = self._numbers[row] = len(self._rows)
            self._rows.append(row)
            if row.kind == DependencyKind.FOLDER:
                self._listed.add(row.key)
        return number


def _find_left_files(recorded: Dependencies, stored: StoredVerdict) -> Iterator[AgentWrittenFile]:
    found = {row.key: row.fingerprint for row in recorded.rows if row.kind == DependencyKind.FOUND}
    for row in recorded.rows:
        if row.kind in _LEFT:
            yield AgentWrittenFile(
                row.key, row.fingerprint, recorded.recorded_at, stored.started_at, found.get(row.key)
            )


def _place(verdict: StoredVerdict) -> tuple[str, JobKey, bool]:
    return verdict.job.run_id, verdict.job.key, verdict.is_judged


def _make_question(verdict: StoredVerdict) -> Asked:
    job = verdict.job
    return Asked(job.case.target, job.execution_key, job.key.repeat)


def _renumber(verdict: StoredVerdict, offset: int) -> StoredVerdict:
    if not offset:
        return verdict
    numbers = (verdict.execution, verdict.dependencies, verdict.scoring_dependencies)
    execution, dependencies, scoring_dependencies = (None if number is None else number + offset for number in numbers)
    return verdict._replace(execution=execution, dependencies=dependencies, scoring_dependencies=scoring_dependencies)


def _list_sets(verdict: StoredVerdict) -> list[int]:
    return [number for number in (verdict.dependencies, verdict.scoring_dependencies) if number is not None]


def _find_outdated(known: Sequence[StoredVerdict], new: StoredVerdict) -> list[StoredVerdict]:
    """Find verdicts on old executions, and old verdicts on the newest execution."""
    executions = sorted({each.execution for each in (*known, new) if each.execution is not None})
    kept = (*executions[-MAX_TRACES_PER_VARIANT:], None)
    judged = [each for each in known if each.execution == new.execution]
    return [*judged[: 1 - _JUDGEMENTS], *(each for each in known if each.execution not in kept)]


# The verdicts of a project, read on first use; and the files that its agents wrote.

_MOST_LEFT = 2_000  # names for each session


class StoredVerdicts:
    """The verdicts of one project. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._verdicts: Verdicts | None = None
        self._own_runs: set[str] = set()
        self._seen_files: list[Signature] = []
        self._seen_result: int | None = None  # the newest one of another process
        self._lock = threading.Lock()

    def read(self) -> Verdicts:
        """Return the verdicts that may be current. Raises StoreError if they cannot be read."""
        with self._lock:
            if self._verdicts is None:
                if get_history_path(self._root).exists():
                    with History.open(self._root) as history:
                        self._seen_result = history.find_newest_result(self._own_runs)
                        self._verdicts = Verdicts.read(history)
                else:
                    self._verdicts = Verdicts()
            return self._verdicts

    def read_new(self) -> bool:
        """Add verdicts that other processes have stored. Return True if there are any.

        An unreadable history adds nothing.
        """
        verdicts = self.read()
        with contextlib.suppress(StoreError), History.open(self._root) as history:
            return verdicts.add_new(history)
        return False

    def look_for_new(self) -> bool:
        """As `read_new`, but read little if no other process has stored a result since the last call."""
        path = get_history_path(self._root)
        files = [read_signature(path), read_signature(path.with_name(f"{path.name}-wal"))]
        if not files[0] or files == self._seen_files:
            return False
        self._seen_files, verdicts = files, self.read()
        with contextlib.suppress(StoreError), History.open(self._root) as history:
            with self._lock:
                own_runs = frozenset(self._own_runs)
            newest = history.find_newest_result(own_runs)
            if newest != self._seen_result:
                self._seen_result = newest
                return verdicts.add_new(history)
        return False

    def note(self, stored: Iterable[tuple[StoredVerdict, CaseResult]]) -> None:
        """Add stored verdicts of this process."""
        with self._lock:  # a concurrent read has them already, or they are added now
            for verdict, result in stored:
                self._own_runs.add(verdict.job.run_id)
                if self._verdicts is not None:
                    self._verdicts.add(verdict, result)

    def left_by_agents(self) -> LeftByAgents:
        """Return the files written by agents so far; empty if the history is unreadable."""
        with self._lock:
            verdicts = self._verdicts
        if verdicts is not None:
            return verdicts.list_agent_files().summarise(verdicts.listed_folders, most=_MOST_LEFT)
        if not get_history_path(self._root).exists():
            return LeftByAgents()
        files = LeftFiles()
        try:
            with History.open(self._root) as history:
                files.add(history.list_agent_written_files())
                return AgentWrittenFiles(files.list_presence()).summarise(
                    history.list_folder_dependencies(), most=_MOST_LEFT
                )
        except StoreError:  # the run itself will report it
            return LeftByAgents()


# Watched paths of a target (`watch = [...]`), which all of its cases depend on.


def fingerprint_watched_paths(target: Target) -> frozenset[Dependency]:
    """Return a dependency for each watched path, with its current fingerprint."""
    paths = list_watched_paths(target)
    return frozenset(Dependency(DependencyKind.TREE.value, path, fingerprint_of_tree(path)) for path in paths)


def list_watched_paths(target: Target) -> frozenset[str]:
    """Return the watched paths, absolute."""
    return frozenset(os.path.normpath(target.path / path) for path in target.watch)


def add_watched(recorded: Dependencies | None, watched: frozenset[Dependency]) -> Dependencies | None:
    """Add watched paths to the dependencies of a case."""
    if recorded is None or not watched:
        return recorded
    return recorded.model_copy(update={"rows": recorded.rows | watched})


def fingerprint_of_tree(path: str, *, file: Callable[[str], str] = fingerprints.of_file) -> str:
    """Fingerprint a file, or all files below a folder with their names. `file` fingerprints one file."""
    if not os.path.isdir(path):  # noqa: PTH112 - thousands of them
        return file(path)
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in fingerprints.IGNORED)
        within = os.path.relpath(folder, path)
        found += [f"{within}/{name}\0{file(os.path.join(folder, name))}" for name in sorted(names)]  # noqa: PTH118
    return fingerprints.digest("\0".join(found).encode("utf-8", "surrogateescape"))
