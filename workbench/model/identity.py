"""What identifies a case, a job and a dependency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workbench.model.base import Fact

# How a case is known: to the scheduler, the store, the front ends and the files they write.

CaseInSet = tuple[str, int]
"""A case within its set: its id, and its occurrence as in `CaseKey`."""


def format_case_name(eval_id: str, occurrence: int) -> str:
    """What a case is called among those of its set: its id, of the second with the same id `id#2`."""
    return f"{eval_id}#{occurrence + 1}" if occurrence else eval_id


def group_cases_by_name(cases: Iterable[CaseInSet]) -> Mapping[str, Set[CaseInSet]]:
    """The cases of a set by what people may call them: an id means all that have it, `id#2` the second of them.

    Where a case has `id#2` for its id, that one is meant.
    """
    cases = list(cases)
    named: dict[str, set[CaseInSet]] = {}
    for case in cases:
        named.setdefault(case[0], set()).add(case)
    for eval_id, occurrence in cases:
        named.setdefault(format_case_name(eval_id, occurrence), {(eval_id, occurrence)})
    return named


class CaseKey(Fact):
    """One case of one set as one target runs it.

    `eval_set` is the path of the file relative to the project root, with forward slashes. `occurrence` tells apart
    cases of one set that share an id: 0 for the first.
    """

    target: str
    eval_set: str
    eval_id: str
    occurrence: int = 0

    def __str__(self) -> str:
        return f"{self.eval_set}:{self.name}"

    @property
    def name(self) -> str:
        """What it is called among the cases of its set."""
        return format_case_name(self.eval_id, self.occurrence)


@dataclass(frozen=True, slots=True)
class JobKey:
    """One repeat of one case: what a run schedules. Repeats count from 0. No format has it."""

    case: CaseKey
    repeat: int = 0

    def __eq__(self, other: object) -> bool:
        """Whether it is the same repeat of the same case; what nearly always differs is compared first."""
        if not isinstance(other, JobKey):
            return NotImplemented
        mine, its = self.case, other.case
        return self.repeat == other.repeat and (
            mine is its
            or (
                mine.eval_id == its.eval_id
                and mine.occurrence == its.occurrence
                and mine.eval_set == its.eval_set
                and mine.target == its.target
            )
        )

    def __hash__(self) -> int:
        """Of what nearly always differs, without asking the case for its own: it is looked up all the time."""
        case = self.case
        return hash((case.eval_id, case.occurrence, case.eval_set, self.repeat))


# What a verdict depended on: rows that are compared with how things are now.


class DependencyKind(StrEnum):
    """What a row is about. `agents/PROTOCOL.md` says for each kind what its key and its fingerprint are."""

    MODULE = "module"
    REST = "rest"
    NAME = "name"
    BLOCK = "block"
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
    INTERPRETER = "interpreter"
    STATE = "state"
    WRITTEN = "written"
    FOUND = "found"
    OPAQUE = "opaque"
    TREE = "tree"


class Dependency(NamedTuple):
    """One row. `key` says what was depended on, `fingerprint` how it was then; equal fingerprints mean equal effect."""

    kind: str  # a DependencyKind: a worker of another version may know others, of which nothing is assumed
    key: str
    fingerprint: str


class Dependencies(Fact):
    """All that is known of what one execution, or one custom metric, depended on.

    `complete` is false where the process ended before it could tell everything. `tainted` says why the rows cannot be
    trusted: something changed while it ran. `recorded_at` is when the last of it was told, in seconds since 1970 (UTC).
    """

    rows: frozenset[Dependency] = frozenset()
    complete: bool = False
    tainted: str | None = None
    recorded_at: float = 0.0

    def add_rows(
        self, rows: Iterable[Dependency], *, complete: bool, tainted: str | None, recorded_at: float
    ) -> Dependencies:
        """These and what was told later."""
        return Dependencies.construct_unvalidated(
            rows=self.rows.union(rows), complete=complete, tainted=self.tainted or tainted, recorded_at=recorded_at
        )

    def close(self) -> Dependencies:
        """The same when nothing more will come: if the record is not complete, any change may matter."""
        if self.complete:
            return self
        unknown = Dependency(DependencyKind.OPAQUE.value, "its process ended early", "-")
        return self.add_rows([unknown], complete=True, tainted=None, recorded_at=self.recorded_at)

    @property
    def is_opaque(self) -> bool:
        """Whether it did something that cannot be followed: any change may matter."""
        return any(row.kind == DependencyKind.OPAQUE for row in self.rows)
