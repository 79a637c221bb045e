"""The database of the history: connection, schema, migrations and views."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from workbench.store.errors import DamagedFile, StoreError, os_errors, shown_path
from workbench.store.files import PRIVATE, check_writable, make_private_folder

# Tables, and the migration of older files

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

# Only short JSON is no longer compressed, which older programs could not read.
_FOURTH: tuple[str, ...] = ()

# Retention used to leave references to deleted executions and scores.
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

_SEVENTH = ("ALTER TABLE job ADD COLUMN is_replayed INTEGER NOT NULL DEFAULT 0",)

_EIGHTH = ("ALTER TABLE job ADD COLUMN quarantine TEXT",)

_NINTH = (
    """
    CREATE TABLE renamed_case (
        eval_set TEXT NOT NULL,
        former_id TEXT NOT NULL,
        eval_id TEXT NOT NULL,
        PRIMARY KEY (eval_set, former_id)
    ) WITHOUT ROWID
    """,
)

MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH, _NINTH)
"""The statements from version n to n + 1. Only append: files of all versions are in use."""


SCORES_OPTION = "scores"
"""The option of a run that says whether it scores what its agents do. Older runs do not have it."""

SELECTIONS_OPTION = "selections"
"""The option of a run with what was selected: `eval_set`, and its `cases` (null: all). Older runs do not have it."""

SHARD_OPTION = "shard"
"""The option of a run that is one of several shards; see `workbench.engine.shards`."""

# Views of the connection, not of the file: they change with the program, without a new version of the format.
_VIEWS = (
    # Without joins, which SQLite does not leave out of an aggregate query. `has_run` is false for jobs that say nothing
    # about their case. `is_unscored`: nothing was to score the job. After an outage of a judge, an ERROR of a run with
    # scoring has no scoring key either; only the options of the run differ.
    f"""
    CREATE TEMP VIEW job_state AS
    SELECT *, status NOT IN ('SKIPPED', 'CANCELLED') AS has_run,
        CASE WHEN scoring_key != '' THEN 0 WHEN status = 'NOT_EVALUATED' THEN 1 ELSE EXISTS (
            SELECT 1 FROM run WHERE run.id = job.run
                AND CASE WHEN json_valid(run.record) THEN json_extract(run.record, '$.options.{SCORES_OPTION}') END = 0
        ) END AS is_unscored
    FROM job
    """,
    """
    CREATE TEMP VIEW job_detail AS
    SELECT job.id, job.run, run.run_id, job.target, job.eval_set, job.eval_id, job.occurrence, job.repeat,
        job.eval_set_id, job.status, job.duration_seconds,
        coalesce(job.agent_seconds, job.duration_seconds) AS agent_seconds, job.failure, job.finished_at,
        job.execution_key, job.scoring_key, job.lacks_baseline, job.misses_samples, job.is_replayed, job.quarantine,
        job.is_forgotten,
        job.has_run, job.is_unscored, job.execution, execution.dependency_set,
        score.dependency_set AS scoring_dependency_set, execution.tainted,
        execution.finished_at - job.duration_seconds AS started_at, execution.blob, score.metrics, blob.data
    FROM job_state AS job
        JOIN run ON run.id = job.run
        LEFT JOIN score ON score.id = job.score
        LEFT JOIN execution ON execution.id = job.execution
        LEFT JOIN blob ON blob.id = execution.blob
    """,
    """
    CREATE TEMP VIEW unjudged_detail AS
    SELECT job.run, run.run_id, job.target, job.eval_set, job.eval_id, job.occurrence, job.repeat, job.eval_set_id,
        'NOT_EVALUATED' AS status, job.duration_seconds,
        coalesce(job.agent_seconds, job.duration_seconds) AS agent_seconds, NULL AS failure, job.finished_at,
        job.execution_key, '' AS scoring_key, 0 AS lacks_baseline, 0 AS misses_samples, 0 AS is_replayed,
        NULL AS quarantine,
        0 AS is_unscored, job.execution, execution.dependency_set, NULL AS scoring_dependency_set, execution.tainted,
        execution.finished_at - job.duration_seconds AS started_at, NULL AS metrics, blob.data
    FROM unjudged AS job
        JOIN run ON run.id = job.run
        JOIN execution ON execution.id = job.execution
        JOIN blob ON blob.id = execution.blob
    """,
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate a database, also an empty one. Raises StoreError if it is newer than this program."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[
            _known_version(connection, path) :
        ]:  # another process may have migrated it meanwhile
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:  # also on Ctrl-C: a partial migration must not stay
        if connection.in_transaction:  # SQLite itself ends a transaction after a disk error
            connection.execute("ROLLBACK")
        raise


def _known_version(connection: sqlite3.Connection, path: Path) -> int:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise StoreError(
            path,
            f"was written by a newer version of workbench (format {version}; this one reads up to {len(MIGRATIONS)}): "
            "update workbench, or move the file away",
        )
    return version


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


# The database file: opening, damage, and errors as sentences

_FOLDER = ".workbench"
_FILE_NAME = "history.db"

_SUFFIXES = ("-wal", "-shm")  # suffixes of other files of the same database

_BUSY_SECONDS = 10.0
_NEARLY_FULL = 64 * 1024  # bytes
_CACHE_KB = 16_000  # SQLite's 2,000 do not hold the indexes of 100,000 results, so that pages are read again
_LOG_PAGES = 4_000  # of the log file; SQLite's 1,000 wait for the disk four times as often
_LONGEST_PATH = 504  # bytes; SQLite has room for 512, and adds the suffix of a journal
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DENIED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)  # the second: a file in memory cannot grow
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_SENTENCES = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "no permission to write in its folder",
    sqlite3.SQLITE_PERM: "no permission to write it",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
}


def get_history_path(root: Path) -> Path:
    """Return the path of a project's history. This does not create it, unlike opening it."""
    return root / _FOLDER / _FILE_NAME


def make_history_folder(root: Path) -> Path:
    """Create the folder of a project's history, ignored by Git, unless it exists. Raises StoreError."""
    if not root.is_dir():  # deleted: a history must not create it again
        raise StoreError(root, "the folder of the project is gone")
    folder = root / _FOLDER
    make_private_folder(folder)
    _write_gitignore(folder)
    return folder


_damaged: dict[Path, Path | None] = {}
"""Damaged files of this process that are not reported yet, and where each was moved to, if known."""


def list_damaged_histories() -> frozenset[Path]:
    """Return the damaged histories of this process that are not reported yet."""
    return frozenset(path for path in _damaged if path.name == _FILE_NAME)


def pop_notices(paths: Iterable[Path]) -> list[str]:
    """Return once that these files were damaged, and where they were moved to."""
    return [_pop_notice(path) for path in paths if path in _damaged]


def _pop_notice(path: Path) -> str:
    aside = _damaged.pop(path)
    moved = "another process has moved it" if aside is None else f"it was moved to {aside.name}"
    return f"{shown_path(path)} was damaged: {moved}, and a new one was created"


class Database:
    """One connection. Any thread may use it, but only one at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, write_problem: StoreError | None = None) -> None:
        """`write_problem` says why the file is only read; every transaction raises it."""
        self.path = path
        self._write_problem = write_problem
        self._moves_damaged = write_problem is None
        self._connection = connection
        self._opened = _get_identity(path)
        self.execute = connection.execute
        self.execute_many = connection.executemany

    @property
    def is_gone(self) -> bool:
        """True if the file was deleted, moved or replaced since it was opened, so that writes would be lost."""
        return self._opened is None or _get_identity(self.path) != self._opened

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction: everything is stored or nothing. Raises StoreError."""
        if self._write_problem is not None:
            raise self._write_problem
        with self.translate_errors():
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of the database as StoreError. A damaged file is closed and moved aside."""
        try:
            yield
        except sqlite3.Error as error:
            if _get_result_code(error) not in _DAMAGED:
                raise _to_store_error(self.path, error) from error
            is_gone = self.is_gone
            self.close()
            if is_gone:  # another process has moved it, and this path is a new file
                _damaged.setdefault(self.path)
                raise DamagedFile(self.path, "the file was damaged and has been moved away") from error
            if not self._moves_damaged:
                raise DamagedFile(self.path, "the file is damaged") from error
            aside = _damaged[self.path] = _move_aside(self.path)
            raise DamagedFile(self.path, f"the file was damaged and has been moved to {aside.name}") from error

    def keep_damaged_file(self) -> None:
        """Leave the file in place if it is damaged: its next user moves and reports it."""
        self._moves_damaged = False

    def pop_notice(self) -> str | None:
        """Return once that the file was damaged and where it was moved to; None if there is nothing to report."""
        return _pop_notice(self.path) if self.path in _damaged else None

    def close(self) -> None:
        """Close the connection; the last one to close merges the log file into the database."""
        with contextlib.suppress(sqlite3.Error):  # everything is stored already
            self._connection.close()


Prepare = Callable[[sqlite3.Connection, Path], None]
"""Migrates a file, also a new one, and checks that it can be read."""


def _prepare_history(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path)
    for view in _VIEWS:
        connection.execute(view)
    connection.execute("SELECT count(*) FROM run").fetchone()


def open_database(root: Path, *, file_name: str = _FILE_NAME, prepare: Prepare = _prepare_history) -> Database:
    """Open the history of a project, or another database beside it; create or migrate it if needed.

    A damaged file is moved aside as `history.db.corrupt-1` (2, 3 ...) and a new one is created. A file that cannot be
    written, such as on a full disk, is opened for reading. Raises StoreError.
    """
    path = root / _FOLDER / file_name
    try:
        make_history_folder(root)
        return _open_or_replace(path, prepare)
    except StoreError as error:
        if not _is_unwritable(error) or (database := _open_for_reading(path, prepare, error)) is None:
            raise
        return database


def find_write_problem(root: Path) -> StoreError | None:
    """Return why the history of a project cannot store results now; None if it can. Nothing is created."""
    path = get_history_path(root)
    try:
        check_writable(path.parent if path.parent.exists() else root)
        if path.exists():
            with contextlib.closing(open_database(root)) as database, database.transaction():
                database.execute("DELETE FROM run WHERE FALSE")  # an error if the file is read-only
    except StoreError as error:
        return error
    return None


def _open_or_replace(path: Path, prepare: Prepare) -> Database:
    """Open a file for reading and writing; replace a damaged one. Raises StoreError."""
    found = _get_identity(path)
    try:
        try:
            return _connect(path, prepare)
        except sqlite3.DatabaseError as error:
            if _get_result_code(error) not in _DAMAGED:
                raise
        if _get_identity(path) == found:  # otherwise another process has moved it
            _damaged[path] = _move_aside(path)
        return _connect(path, prepare)
    except sqlite3.Error as error:
        raise _to_store_error(path, error) from error


def _open_for_reading(path: Path, prepare: Prepare, problem: StoreError) -> Database | None:
    """Open a file that cannot be written because of `problem`; None if it cannot be read either, or has an old format.

    SQLite cannot create the file of locks that readers of a log need. A log with content was left by a process that was
    killed: it is read without locks. The option for a database without a log ignores one.
    """
    try:
        has_log = path.with_name(path.name + "-wal").stat().st_size > 0
    except OSError:
        has_log = False
    try:
        address = f"{path.absolute().as_uri()}?mode=ro&{'vfs=unix-none' if has_log else 'immutable=1'}"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    except sqlite3.Error:
        return None
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # the index of the log is in memory
        connection.execute("PRAGMA temp_store = MEMORY")  # the other disk may be full as well
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        prepare(connection, path)
    except (sqlite3.Error, StoreError):
        connection.close()
        return None
    except BaseException:  # also on Ctrl-C
        connection.close()
        raise
    return Database(path, connection, write_problem=problem)


def _is_unwritable(error: StoreError) -> bool:
    """True if a file or its folder could not be written, whether or not it can be read."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        code = _get_result_code(cause)
        if code == sqlite3.SQLITE_CANTOPEN:  # or too many files are open
            return not os.access(Path(error.path).parent, os.W_OK)
        return code in (*_FULL, *_DENIED)
    return isinstance(cause, OSError) and cause.errno in _UNWRITABLE


def is_denied(error: StoreError) -> bool:
    """True if a file could not be written for lack of permission, or on a read-only file system."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return _get_result_code(cause) in _DENIED and not Path(error.path).is_dir()
    return isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def _connect(path: Path, prepare: Prepare) -> Database:
    # Only a new file: closing an existing one would release the locks that SQLite holds on it in this process. The
    # other files take its mode. Errors are left to SQLite, whose messages are better.
    with contextlib.suppress(OSError):
        if not path.exists():  # these belong to a deleted file, which may still be open
            for suffix in _SUFFIXES:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _retry_while_locked(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        prepare(connection, path)
    except BaseException:  # also on Ctrl-C: the caller gets no connection to close
        connection.close()
        raise
    return Database(path, connection)


def _retry_while_locked(action: Callable[[], object]) -> None:
    """Retry while another process has locked the file: SQLite itself does not wait for this change."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            if _get_result_code(error) not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _get_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _move_aside(path: Path) -> Path:
    """Rename the file and its other files; return the new path."""
    number = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    with os_errors("write", path):
        path.rename(aside)
        for suffix in _SUFFIXES:
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
    return aside


def _write_gitignore(folder: Path) -> None:
    ignore = folder / ".gitignore"
    if not ignore.exists():
        with os_errors("write", ignore):
            ignore.write_text("*\n", encoding="utf-8")
            ignore.chmod(PRIVATE)


def _to_store_error(path: Path, error: sqlite3.Error) -> StoreError:
    code = _get_result_code(error)
    if code in _BUSY:
        return StoreError(path, f"another process has locked it for more than {_BUSY_SECONDS:g} s")
    if code == sqlite3.SQLITE_CANTOPEN and os.path.isdir(path):  # noqa: PTH112 - never raises
        return StoreError(path, "it is a folder, expected a file")
    if code == sqlite3.SQLITE_CANTOPEN and os.path.exists(path) and not os.access(path, os.R_OK):  # noqa: PTH110
        return StoreError(path, "cannot be used: no permission to read it")
    length = len(os.fsencode(path.absolute()))
    if code == sqlite3.SQLITE_CANTOPEN and length > _LONGEST_PATH:
        return StoreError(path, f"cannot be used: its path has {length:,} bytes, and SQLite opens {_LONGEST_PATH}")
    if code == sqlite3.SQLITE_IOERR and _is_full(path.parent):
        code = sqlite3.SQLITE_FULL  # a memory-mapped file cannot grow
    return StoreError(path, f"cannot be used: {_SENTENCES.get(code, str(error))}")


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _NEARLY_FULL
    except OSError:
        return False


def _get_result_code(error: sqlite3.Error) -> int:
    """Return the primary result code; extended codes only name a place in SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
