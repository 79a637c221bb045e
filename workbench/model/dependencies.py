"""What a verdict depended on: rows that are compared with how things are now.

A worker process records them while a case runs. A verdict still holds exactly when every row would be the same today.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from workbench.model.base import Fact


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
    trusted: something changed while it ran. `told_at` is when the last of it was told, in seconds since 1970 (UTC).
    """

    rows: frozenset[Dependency] = frozenset()
    complete: bool = False
    tainted: str | None = None
    told_at: float = 0.0

    def with_rows(
        self, rows: Iterable[Dependency], *, complete: bool, tainted: str | None, told_at: float
    ) -> Dependencies:
        """These and what was told later."""
        return Dependencies.trusted(
            rows=self.rows.union(rows), complete=complete, tainted=self.tainted or tainted, told_at=told_at
        )

    def closed(self) -> Dependencies:
        """The same when nothing more will come: if the record is not complete, any change may matter."""
        if self.complete:
            return self
        unknown = Dependency(DependencyKind.OPAQUE.value, "its process ended early", "-")
        return self.with_rows([unknown], complete=True, tainted=None, told_at=self.told_at)

    @property
    def is_opaque(self) -> bool:
        """Whether it did something that cannot be followed: any change may matter."""
        return any(row.kind == DependencyKind.OPAQUE for row in self.rows)
