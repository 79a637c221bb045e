"""The tables of the history, and how an older file becomes a newer one.

A `job` is a case of a run; its `execution` is what the agent did, its `score` how that was judged. Scores stand apart
so that an execution can be scored again. `blob` holds turns and spans of an execution as JSON, compressed where it is
long; `metrics` of a score is such JSON too. What an execution depended on is a `dependency_set`, shared by all
executions that depended on the same; `dependency` are its members. `unjudged` are executions whose job has not ended:
their judges are being asked, or were when the run was stopped. A job `lacks_baseline` that was to be compared with the
run before it, when there was none; it `is_forgotten` once retention has deleted its execution. It `misses_samples` if a
verdict on it rests on fewer samples of a judge than were asked for; jobs of older formats do not say so, and their
`agent_seconds` are NULL. Times are seconds since 1970 in UTC.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from workbench.store.errors import StoreError

_FIRST = (
    """
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        record TEXT NOT NULL,
        summary TEXT,
        duration_seconds REAL,
        interrupted INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE job (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES run (id),
        target TEXT NOT NULL,
        eval_set TEXT NOT NULL,
        eval_id TEXT NOT NULL,
        occurrence INTEGER NOT NULL,
        repeat INTEGER NOT NULL,
        eval_set_id TEXT NOT NULL,
        status TEXT NOT NULL,
        duration_seconds REAL NOT NULL,
        failure TEXT,
        finished_at REAL NOT NULL,
        execution_key TEXT NOT NULL,
        scoring_key TEXT NOT NULL,
        execution INTEGER REFERENCES execution (id),
        score INTEGER REFERENCES score (id),
        UNIQUE (run, target, eval_set, eval_id, occurrence, repeat)
    )
    """,
    "CREATE INDEX job_of_case ON job (eval_set, eval_id, target, occurrence)",
    """
    CREATE TABLE execution (
        id INTEGER PRIMARY KEY,
        target_variant TEXT NOT NULL,
        execution_key TEXT NOT NULL,
        repeat INTEGER NOT NULL,
        finished_at REAL NOT NULL,
        environment TEXT,
        tainted INTEGER NOT NULL DEFAULT 0,
        opaque INTEGER NOT NULL DEFAULT 0,
        dependency_set INTEGER REFERENCES dependency_set (id),
        blob INTEGER REFERENCES blob (id)
    )
    """,
    "CREATE INDEX execution_of_variant ON execution (target_variant, execution_key, repeat)",
    """
    CREATE TABLE score (
        id INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL REFERENCES execution (id),
        scoring_key TEXT NOT NULL,
        dependency_set INTEGER REFERENCES dependency_set (id),
        metrics BLOB NOT NULL
    )
    """,
    "CREATE INDEX score_of_execution ON score (execution)",
    "CREATE TABLE dependency_set (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE)",
    """
    CREATE TABLE dependency (
        dependency_set INTEGER NOT NULL REFERENCES dependency_set (id),
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        PRIMARY KEY (dependency_set, kind, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX dependency_on ON dependency (kind, key)",
    "CREATE TABLE blob (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
)

_SECOND = (
    """
    CREATE TABLE unjudged (
        run INTEGER NOT NULL REFERENCES run (id),
        target TEXT NOT NULL,
        eval_set TEXT NOT NULL,
        eval_id TEXT NOT NULL,
        occurrence INTEGER NOT NULL,
        repeat INTEGER NOT NULL,
        eval_set_id TEXT NOT NULL,
        duration_seconds REAL NOT NULL,
        finished_at REAL NOT NULL,
        execution_key TEXT NOT NULL,
        execution INTEGER NOT NULL REFERENCES execution (id),
        UNIQUE (run, target, eval_set, eval_id, occurrence, repeat)
    )
    """,
)

_THIRD = ("ALTER TABLE job ADD COLUMN lacks_baseline INTEGER NOT NULL DEFAULT 0",)

# Nothing changes but that short JSON is not compressed any more, which an older program could not read.
_FOURTH: tuple[str, ...] = ()

# Retention used to leave references to executions and scores that it had deleted.
_FIFTH = (
    "ALTER TABLE job ADD COLUMN is_forgotten INTEGER NOT NULL DEFAULT 0",
    "UPDATE job SET execution = NULL, is_forgotten = 1 WHERE execution NOT IN (SELECT id FROM execution)",
    "UPDATE job SET score = NULL WHERE score NOT IN (SELECT id FROM score)",
    "UPDATE execution SET blob = NULL WHERE blob NOT IN (SELECT id FROM blob)",
    "DELETE FROM unjudged WHERE execution NOT IN (SELECT id FROM execution)",
    "DELETE FROM score WHERE execution NOT IN (SELECT id FROM execution)",
    "CREATE INDEX job_of_execution ON job (execution)",
)

_SIXTH = (
    "ALTER TABLE job ADD COLUMN agent_seconds REAL",
    "ALTER TABLE unjudged ADD COLUMN agent_seconds REAL",
    "ALTER TABLE job ADD COLUMN misses_samples INTEGER NOT NULL DEFAULT 0",
)

MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH)
"""The statements that lead from version n to n + 1. Only ever append: files of all versions are out there."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a database up to date, an empty one included. Raises StoreError where it is newer than this program."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[_known_version(connection, path) :]:  # another process may have been faster
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:  # Ctrl-C too: half a migration must not stay
        if connection.in_transaction:  # SQLite itself ends a transaction after an error of the disk
            connection.execute("ROLLBACK")
        raise


def _known_version(connection: sqlite3.Connection, path: Path) -> int:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise StoreError(
            path,
            f"was written by a newer version of workbench (format {version}; this one knows up to {len(MIGRATIONS)}): "
            "update workbench, or move the file away",
        )
    return version


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
