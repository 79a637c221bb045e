"""Every verdict that may still hold, with what each depended on: read from the history once, then kept up by runs.

Rows are numbered: thousands of cases depend on the same ones, and sets of numbers are small.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from workbench.engine.leftovers import LeftFiles, Leftovers
from workbench.model.dependencies import Dependencies, Dependency, DependencyKind
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.store.garbage import without_collecting
from workbench.store.history import History, LeftFile, StoredVerdict
from workbench.store.history.retention import TRACES_OF_A_VARIANT

_NOTHING: array[int] = array("L")
_JUDGEMENTS = 10
"""How many verdicts on one execution are kept: whoever edits criteria comes back to those of a moment ago."""
_LATELY_USED = 1_000  # sets
_LEFT = frozenset({DependencyKind.STATE, DependencyKind.WRITTEN})
_NO_VERDICTS: list[StoredVerdict] = []


class Asked(NamedTuple):
    """What an agent was asked: executions that were asked the same are samples of the same thing."""

    target: str
    execution_key: str
    repeat: int


class Verdicts:
    """The newest verdicts of a project, by what was asked. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._by_asked: dict[Asked, list[StoredVerdict]] = {}
        self._newest: dict[JobKey, StoredVerdict] = {}
        self._rows: list[Dependency] = []
        self._numbers: dict[Dependency, int] = {}
        self._sets: dict[int, array[int]] = {}
        self._uses: Counter[int] = Counter()  # of sets
        self._unused: deque[int] = deque()
        self._offset = 0  # of the numbers of sets and executions, from those of the history
        self._highest = 0  # of these numbers
        self._left = LeftFiles()
        self._listed: set[str] = set()  # folders that something depends on as a list of names

    @classmethod
    def read(cls, history: History) -> Verdicts:
        """What the history holds. Raises StoreError."""
        verdicts = cls()
        with without_collecting():
            stored = history.last_verdicts()
            for verdict in reversed(stored):
                verdicts._add(verdict)
            found: dict[int, list[int]] = {}
            for number, row in history.dependencies(verdicts._uses.keys()):
                found.setdefault(number, []).append(verdicts._number(row))
            verdicts._sets = {number: array("L", rows) for number, rows in found.items()}
            verdicts._left.add(history.left_by_agents())
        return verdicts

    def take_in(self, history: History) -> None:
        """Add what other processes have stored since. Raises StoreError."""
        with self._lock:
            known = {_place(verdict) for verdicts in self._by_asked.values() for verdict in verdicts}
            new = [verdict for verdict in reversed(history.last_verdicts()) if _place(verdict) not in known]
            found: dict[int, set[int]] = {}
            for number, row in history.dependencies({number for verdict in new for number in _sets_of(verdict)}):
                found.setdefault(number, set()).add(self._number(row))
            former = {number: self._sets.get(number + self._offset) for number in found}
            if any(rows is not None and {*rows} != found[number] for number, rows in former.items()):
                self._offset = self._highest + 1  # the file was deleted and begun anew, where numbers start from 1
            for number, numbers in found.items():
                self._sets.setdefault(number + self._offset, array("L", sorted(numbers)))
            for verdict in new:
                self._add(_renumbered(verdict, self._offset))
            self._left.add(history.left_by_agents())

    def add(self, stored: StoredVerdict, result: CaseResult) -> None:
        """A run has stored a result."""
        told = result.execution.dependencies
        with self._lock:
            if self._is_of_another_history(stored, told):
                self._offset = self._highest + 1
            stored = _renumbered(stored, self._offset)
            self._add(stored)
            if stored.dependencies is not None and told is not None:
                self._learn(stored.dependencies, told.rows)
                self._left.add(_left_by(told, stored))
            if stored.scored_with is not None:
                told_by = [metric.dependencies for metric in result.metrics if metric.dependencies is not None]
                self._learn(stored.scored_with, frozenset().union(*(each.rows for each in told_by)))
                for each in told_by:
                    self._left.add(_left_by(each, stored))

    def of(self, asked: Asked) -> Sequence[StoredVerdict]:
        """The verdicts on what was asked, the newest first."""
        return self._by_asked.get(asked, _NO_VERDICTS)[::-1]  # a copy, made at once

    def for_job(self, job: JobKey, asked: Asked) -> Sequence[StoredVerdict]:
        """The same, and at the end the job's own newest where so many others asked the same that it is not there."""
        with self._lock:
            known, own = self.of(asked), self._newest.get(job)
        if own is None or (known and known[0] is own):  # nearly always
            return known
        if _asked(own) != asked or any(each is own for each in known):
            return known
        return [*known, own]

    def newest(self, job: JobKey) -> StoredVerdict | None:
        """The newest verdict on a case, whatever was asked then."""
        with self._lock:
            return self._newest.get(job)

    def rows_of(self, number: int) -> Sequence[int]:
        """The numbers of the rows in a set; none where the set has been forgotten."""
        with self._lock:
            return self._sets.get(number, _NOTHING)

    def has_set(self, number: int) -> bool:
        """Whether a set has not been forgotten."""
        return number in self._sets

    def row(self, number: int) -> Dependency:
        """A row by its number."""
        return self._rows[number]

    @property
    def row_count(self) -> int:
        """Rows are numbered from 0 up to this, without it. Numbers never change."""
        return len(self._rows)

    def goes_on(self, path: str, *, left: str, now: str, since: float) -> bool:
        """See `LeftFiles`."""
        with self._lock:
            return self._left.goes_on(path, left=left, now=now, since=since)

    def last_left(self, path: str) -> str | None:
        """The state in which an agent left a file last; None where none has written it."""
        with self._lock:
            return self._left.newest(path)

    def leftovers(self) -> Leftovers:
        """What agents have left, as it is now."""
        with self._lock:
            return Leftovers(self._left.are_there())

    @property
    def listed(self) -> Collection[str]:
        """The folders that something depends on as a list of names."""
        with self._lock:
            return frozenset(self._listed)

    def _is_of_another_history(self, stored: StoredVerdict, told: Dependencies | None) -> bool:
        """Whether numbers mean others than they did: the file was deleted and begun anew, where they start from 1."""
        stored = _renumbered(stored, self._offset)
        if stored.execution is not None and stored.execution < self._highest - _LATELY_USED:
            return all(each.execution != stored.execution for each in self.of(_asked(stored)))
        known = None if stored.dependencies is None else self._sets.get(stored.dependencies)
        return known is not None and told is not None and {*known} != {*map(self._number, told.rows)}

    def _add(self, stored: StoredVerdict) -> None:
        self._highest = max(self._highest, stored.execution or 0, *_sets_of(stored))
        job = stored.job
        former = self._newest.get(job.key)
        self._newest[job.key] = stored
        asked = _asked(stored)
        known = self._by_asked.setdefault(asked, [])
        for number in _sets_of(stored):
            self._uses[number] += 2  # as the newest of its job, and as one of those on what was asked
        if former is not None:
            self._let_go(_sets_of(former))
        gone = _outdated(known, stored) if len(known) >= TRACES_OF_A_VARIANT else _NO_VERDICTS
        if gone:
            known = self._by_asked[asked] = [each for each in known if each not in gone]
            for each in gone:
                self._let_go(_sets_of(each))
        known.append(stored)

    def _let_go(self, sets: Iterable[int]) -> None:
        """Forget sets that nothing uses any more; a while later, as somebody may just be looking at them."""
        self._uses.subtract(sets)
        self._unused.extend(number for number in sets if not self._uses[number])
        while len(self._unused) > _LATELY_USED:
            number = self._unused.popleft()
            if not self._uses[number]:
                del self._uses[number]
                self._sets.pop(number, None)

    def _learn(self, number: int, rows: Collection[Dependency]) -> None:
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


def _left_by(told: Dependencies, stored: StoredVerdict) -> Iterator[LeftFile]:
    found = {row.key: row.fingerprint for row in told.rows if row.kind == DependencyKind.FOUND}
    for row in told.rows:
        if row.kind in _LEFT:
            yield LeftFile(row.key, row.fingerprint, told.told_at, stored.began_at, found.get(row.key))


def _place(verdict: StoredVerdict) -> tuple[str, JobKey, bool]:
    return verdict.job.run_id, verdict.job.key, verdict.is_judged


def _asked(verdict: StoredVerdict) -> Asked:
    job = verdict.job
    return Asked(job.case.target, job.execution_key, job.key.repeat)


def _renumbered(verdict: StoredVerdict, offset: int) -> StoredVerdict:
    if not offset:
        return verdict
    numbers = (verdict.execution, verdict.dependencies, verdict.scored_with)
    execution, dependencies, scored_with = (None if number is None else number + offset for number in numbers)
    return verdict._replace(execution=execution, dependencies=dependencies, scored_with=scored_with)


def _sets_of(verdict: StoredVerdict) -> list[int]:
    return [number for number in (verdict.dependencies, verdict.scored_with) if number is not None]


def _outdated(known: Sequence[StoredVerdict], new: StoredVerdict) -> list[StoredVerdict]:
    """Verdicts on what the agent did in executions that are about to be forgotten, and old ones on the newest."""
    executions = sorted({each.execution for each in (*known, new) if each.execution is not None})
    kept = (*executions[-TRACES_OF_A_VARIANT:], None)
    judged = [each for each in known if each.execution == new.execution]
    return [*judged[: 1 - _JUDGEMENTS], *(each for each in known if each.execution not in kept)]
