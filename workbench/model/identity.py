"""The identity of cases, jobs and dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from workbench.model.facts import Fact

# Keys of cases and jobs: for the scheduler, the store, the front ends and their files

CaseInSet = tuple[str, int]
"""A case within its set: its id and its occurrence, see `CaseKey`."""


def format_case_name(eval_id: str, occurrence: int) -> str:
    """Return the name of a case within its set: its id, or `id#2` for the second case with this id."""
    return f"{eval_id}#{occurrence + 1}" if occurrence else eval_id


def group_cases_by_name(cases: Iterable[CaseInSet]) -> Mapping[str, Set[CaseInSet]]:
    """Group the cases of a set by the names that users may type: an id means all cases with it, `id#2` the second.

    If a case has the id `id#2`, this case is meant.
    """
    cases = list(cases)
    cases_by_name: dict[str, set[CaseInSet]] = {}
    for case in cases:
        cases_by_name.setdefault(case[0], set()).add(case)
    for eval_id, occurrence in cases:
        cases_by_name.setdefault(format_case_name(eval_id, occurrence), {(eval_id, occurrence)})
    return cases_by_name


class CaseKey(Fact):
    """One case of one set, run by one target.

    `eval_set` is the path of the file relative to the project root, with forward slashes. `occurrence` separates cases
    of one set with the same id: 0 for the first.
    """

    target: str
    eval_set: str
    eval_id: str
    occurrence: int = 0

    def __str__(self) -> str:
        return f"{self.eval_set}:{self.name}"

    def __eq__(self, other: object) -> bool:
        """Compare first what nearly always differs."""
        if self is other:
            return True
        if not isinstance(other, CaseKey):
            return NotImplemented
        return (
            self.eval_id == other.eval_id
            and self.occurrence == other.occurrence
            and self.eval_set == other.eval_set
            and self.target == other.target
        )

    def __hash__(self) -> int:
        """Hash the fields directly: tables of cases are looked up all the time."""
        return hash((self.eval_id, self.occurrence, self.eval_set, self.target))

    @property
    def name(self) -> str:
        """Its name within the set."""
        return format_case_name(self.eval_id, self.occurrence)


@dataclass(frozen=True, slots=True)
class JobKey:
    """One repeat of one case, the unit that a run schedules. Repeats count from 0. No format contains it."""

    case: CaseKey
    repeat: int = 0
    _hash: int = field(init=False, repr=False)
    """The hash of what nearly always differs, computed once: jobs are looked up all the time."""

    def __post_init__(self) -> None:
        case = self.case
        object.__setattr__(self, "_hash", hash((case.eval_id, case.occurrence, case.eval_set, self.repeat)))

    def __eq__(self, other: object) -> bool:
        """Compare first what nearly always differs."""
        if not isinstance(other, JobKey):
            return NotImplemented
        return self.repeat == other.repeat and self.case == other.case

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[JobKey], tuple[CaseKey, int]]:
        """Copy without the hash: those of other processes differ."""
        return JobKey, (self.case, self.repeat)


# Dependencies of a verdict, which are compared with the current state


class DependencyKind(StrEnum):
    """The kind of a dependency. `agents/PROTOCOL.md` describes its key and fingerprint."""

    MODULE = "module"
    REST = "rest"
    NAME = "name"
    BLOCK = "block"
    BRANCH = "branch"
    FILE = "file"
    FOLDER = "folder"
    PROBE = "probe"
    TIME = "time"
    MODE = "mode"
    IMPORT = "import"
    VARIABLE = "variable"
    VARIABLES = "variables"
    EARLY_VARIABLE = "early_variable"
    ENV_FILES = "env_files"
    INSTALLED = "installed"
    LIBRARIES = "libraries"
    INTERPRETER = "interpreter"
    STATE = "state"
    WRITTEN = "written"
    FOUND = "found"
    OPAQUE = "opaque"
    TREE = "tree"


ENDED_EARLY = "its process ended early"
"""The key of an opaque row of a case whose process died before it had reported everything."""


class Dependency(NamedTuple):
    """One dependency. `key` identifies it, `fingerprint` is its state; equal fingerprints have the same effect."""

    kind: str  # a DependencyKind; workers of other versions may send unknown kinds, about which nothing is assumed
    key: str
    fingerprint: str


class Dependencies(Fact):
    """The dependencies of one execution or custom metric.

    `complete` is false if the process ended before it had reported everything. `tainted` says why the rows are
    unreliable: something changed during the execution. `recorded_at` is when the last report arrived (seconds since
    1970, UTC).
    """

    rows: frozenset[Dependency] = frozenset()
    complete: bool = False
    tainted: str | None = None
    recorded_at: float = 0.0

    def add_rows(
        self, rows: Iterable[Dependency], *, complete: bool, tainted: str | None, recorded_at: float
    ) -> Dependencies:
        """Return these rows and a later report."""
        return Dependencies.construct_unvalidated(
            rows=self.rows.union(rows), complete=complete, tainted=self.tainted or tainted, recorded_at=recorded_at
        )

    def close(self) -> Dependencies:
        """Return the final record: if it is incomplete, any change may matter."""
        if self.complete:
            return self
        opaque_row = Dependency(DependencyKind.OPAQUE.value, ENDED_EARLY, "-")
        return self.add_rows([opaque_row], complete=True, tainted=None, recorded_at=self.recorded_at)

    @property
    def is_opaque(self) -> bool:
        """True if it did something that cannot be tracked, so that any change may matter."""
        return any(row.kind == DependencyKind.OPAQUE for row in self.rows)
