"""What executions and scores depended on, as the history keeps it: sets of rows, each stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator

from workbench.model.dependencies import Dependencies, Dependency, DependencyKind
from workbench.store.history import codec
from workbench.store.history.database import Database
from workbench.store.history.records import LeftFile

_AT_ONCE = 500
_LEFT = """
    SELECT DISTINCT written.key, written.fingerprint, told_at, told_at - seconds, found.fingerprint
    FROM dependency AS written JOIN (
        SELECT execution.dependency_set, max(execution.finished_at) AS told_at, max(job.duration_seconds) AS seconds
        FROM job JOIN execution ON execution.id = job.execution
        WHERE execution.dependency_set IS NOT NULL GROUP BY execution.dependency_set
        UNION ALL
        SELECT score.dependency_set, max(job.finished_at), max(job.duration_seconds)
        FROM job JOIN score ON score.id = job.score
        WHERE score.dependency_set IS NOT NULL GROUP BY score.dependency_set
    ) AS used ON used.dependency_set = written.dependency_set
    LEFT JOIN dependency AS found
        ON found.dependency_set = written.dependency_set AND found.kind = ? AND found.key = written.key
    WHERE written.kind IN (?, ?) ORDER BY told_at
"""


class DependencySets:
    """The sets of one database. Remembers which are stored already."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[frozenset[Dependency], int] = {}

    def store(self, dependencies: Dependencies) -> int:
        """The number of the set with these rows, stored now where it is new. For use inside a transaction."""
        known = self._known.get(dependencies.rows)
        if known is not None:
            return known
        execute, name = self._database.execute, _hash(dependencies.rows)
        row = execute("SELECT id FROM dependency_set WHERE hash = ?", (name,)).fetchone()
        if row is None:
            number = int(execute("INSERT INTO dependency_set (hash) VALUES (?)", (name,)).lastrowid or 0)
            for kind, key, value in dependencies.rows:
                execute("INSERT INTO dependency VALUES (?, ?, ?, ?)", (number, kind, codec.name_to_sql(key), value))
        else:
            number = int(row[0])
        if len(self._known) >= _AT_ONCE:  # what comes next is most likely like what came last
            self._known.clear()
        self._known[dependencies.rows] = number
        return number

    def forget(self) -> None:
        """Sets may have been deleted, or not stored after all."""
        self._known.clear()


def rows_of(database: Database, sets: Collection[int]) -> Iterator[tuple[int, Dependency]]:
    """The rows of these sets, with the set of each."""
    wanted = sorted(sets)
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        marks = ",".join("?" * len(part))
        query = f"SELECT dependency_set, kind, key, fingerprint FROM dependency WHERE dependency_set IN ({marks})"
        for number, kind, key, fingerprint in database.execute(query, part):
            yield number, Dependency(kind, codec.name_from_sql(key), fingerprint)


def left_by_agents(database: Database) -> Iterator[LeftFile]:
    """Every state in which an agent, or a custom metric, left a file, of all that are stored."""
    kinds = (DependencyKind.FOUND.value, DependencyKind.STATE.value, DependencyKind.WRITTEN.value)
    for key, *state in database.execute(_LEFT, kinds):
        yield LeftFile(codec.name_from_sql(key), *state)


def listed_folders(database: Database) -> Iterator[str]:
    """Every folder that something stored depends on as a list of names."""
    query = "SELECT DISTINCT key FROM dependency WHERE kind = ?"
    for (key,) in database.execute(query, (DependencyKind.FOLDER.value,)):
        yield codec.name_from_sql(key)


def _hash(rows: Iterable[Dependency]) -> str:
    digest = hashlib.sha256()
    for row in sorted(rows):
        for part in row:
            digest.update(part.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
    return digest.hexdigest()
