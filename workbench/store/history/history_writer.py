"""Results and their dependencies, written; and retention."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from workbench.model.identity import Dependencies, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, Execution, has_missing_samples
from workbench.store.history import history_codec
from workbench.store.history.history_queries import (
    IS_CASE,
    AgentWrittenFile,
    ResultToStore,
    StoredJob,
    StoredVerdict,
    key_to_sql,
)
from workbench.store.history.history_schema import SCORES_OPTION, SELECTIONS_OPTION, Database

# Dependency sets of executions and scores, each stored once

_AT_ONCE = 500
_AGENT_WRITTEN_FILES = """
    SELECT DISTINCT written.key, written.fingerprint, recorded_at, recorded_at - seconds, found.fingerprint
    FROM dependency AS written JOIN (
        SELECT execution.dependency_set, max(execution.finished_at) AS recorded_at, max(job.duration_seconds) AS seconds
        FROM job JOIN execution ON execution.id = job.execution
        WHERE execution.dependency_set IS NOT NULL GROUP BY execution.dependency_set
        UNION ALL
        SELECT score.dependency_set, max(job.finished_at), max(job.duration_seconds)
        FROM job JOIN score ON score.id = job.score
        WHERE score.dependency_set IS NOT NULL GROUP BY score.dependency_set
    ) AS used ON used.dependency_set = written.dependency_set
    LEFT JOIN dependency AS found
        ON found.dependency_set = written.dependency_set AND found.kind = ? AND found.key = written.key
    WHERE written.kind IN (?, ?) ORDER BY recorded_at
"""


class DependencySets:
    """The dependency sets of one database, with a cache of those already stored."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[frozenset[Dependency], int] = {}

    def store(self, dependencies: Dependencies) -> int:
        """Return the id of the set with these rows, and store it if it is new. Use it inside a transaction."""
        known = self._known.get(dependencies.rows)
        if known is not None:
            return known
        execute, name = self._database.execute, _hash_rows(dependencies.rows)
        row = execute("SELECT id FROM dependency_set WHERE hash = ?", (name,)).fetchone()
        if row is None:
            number = int(execute("INSERT INTO dependency_set (hash) VALUES (?)", (name,)).lastrowid or 0)
            for kind, key, value in dependencies.rows:
                execute(
                    "INSERT INTO dependency VALUES (?, ?, ?, ?)", (number, kind, history_codec.name_to_sql(key), value)
                )
        else:
            number = int(row[0])
        if len(self._known) >= _AT_ONCE:  # recent sets are the most likely ones
            self._known.clear()
        self._known[dependencies.rows] = number
        return number

    def clear_cache(self) -> None:
        """Clear the cache after sets were deleted or a transaction was rolled back."""
        self._known.clear()


def read_dependencies(database: Database, sets: Collection[int]) -> Iterator[tuple[int, Dependency]]:
    """Yield the rows of these sets, each with the id of its set."""
    wanted = sorted(sets)
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        marks = ",".join("?" * len(part))
        query = f"SELECT dependency_set, kind, key, fingerprint FROM dependency WHERE dependency_set IN ({marks})"
        for number, kind, key, fingerprint in database.execute(query, part):
            yield number, Dependency(kind, history_codec.name_from_sql(key), fingerprint)


def read_agent_written_files(database: Database) -> Iterator[AgentWrittenFile]:
    """Yield the states in which stored executions and custom metrics left files."""
    kinds = (DependencyKind.FOUND.value, DependencyKind.STATE.value, DependencyKind.WRITTEN.value)
    for key, *state in database.execute(_AGENT_WRITTEN_FILES, kinds):
        yield AgentWrittenFile(history_codec.name_from_sql(key), *state)


def read_folder_dependencies(database: Database) -> Iterator[str]:
    """Yield the folders whose list of names a stored result depends on."""
    query = "SELECT DISTINCT key FROM dependency WHERE kind = ?"
    for (key,) in database.execute(query, (DependencyKind.FOLDER.value,)):
        yield history_codec.name_from_sql(key)


def _hash_rows(rows: Iterable[Dependency]) -> str:
    digest = hashlib.sha256()
    for row in sorted(rows):
        for part in row:
            digest.update(part.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
    return digest.hexdigest()


# Results: execution, score and job are written in the order of their references

_DELETE_UNJUDGED = f"DELETE FROM unjudged WHERE {IS_CASE} AND repeat = ? AND run <= ?"
_EXECUTIONS = """
    SELECT blob.data, execution.id, dependency_set, tainted = 0, finished_at
    FROM execution JOIN blob ON blob.id = execution.blob
    WHERE target_variant = ? AND execution_key = ? AND repeat = ? ORDER BY execution.id DESC
"""
_OF_KEYS = """
    execution.id IN (
        SELECT max(id) FROM execution
        WHERE target_variant = ? AND execution_key IN (SELECT value FROM json_each(?)) GROUP BY execution_key, repeat
    )
"""
_NEWEST = f"""
    SELECT blob.data, execution.id, dependency_set, tainted = 0, finished_at, execution_key, repeat
    FROM execution JOIN blob ON blob.id = execution.blob WHERE {_OF_KEYS}
"""
_NEWEST_RECORDED = f"""
    SELECT NULL, id, dependency_set, tainted = 0, finished_at, execution_key, repeat
    FROM execution WHERE {_OF_KEYS} AND blob IS NOT NULL
"""
_ADD_BLOB = "INSERT INTO blob (id, data) VALUES (?, ?)"
_ADD_EXECUTION = """
    INSERT INTO execution
        (id, target_variant, execution_key, repeat, finished_at, tainted, opaque, dependency_set, blob)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_SCORE = "INSERT INTO score (id, execution, scoring_key, dependency_set, metrics) VALUES (?, ?, ?, ?, ?)"
_ADD_JOB = """
    INSERT OR REPLACE INTO job (run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, status,
        duration_seconds, agent_seconds, failure, finished_at, execution_key, scoring_key, lacks_baseline,
        misses_samples, is_replayed, quarantine, execution, score)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_UNJUDGED = "INSERT OR REPLACE INTO unjudged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_NOTHING = Execution()

_Identity = tuple[str | bytes, str, int]
"""The variant, key and repeat of an execution. Several executions may have the same."""


class _ExecutionRow(NamedTuple):
    number: int | None = None
    dependencies: int | None = None
    is_certain: bool = False
    finished_at: float = 0.0


class ResultWriter:
    """Writes results inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sets = DependencySets(database)

    def insert(self, run_id: str, run: int, jobs: Iterable[ResultToStore], now: float) -> Iterator[StoredVerdict]:
        """Store results of a run, whose row is `run`. The verdicts are built as they are iterated."""
        jobs = list(jobs)
        executions = self._store_executions(jobs, now)
        verdicts, scores, rows = [], [], []
        score_number = self._get_last_id("score")
        for job, execution in zip(jobs, executions, strict=True):
            result = job.result
            score = scoring_dependencies = None
            if result.metrics:
                score = score_number = score_number + 1
                scoring_dependencies = self._store_scoring_dependencies(result)
                metrics = history_codec.metrics_to_blob(result.metrics)
                scores.append((score, execution.number, job.scoring_key, scoring_dependencies, metrics))
            rows.append(
                (
                    run,
                    *key_to_sql(result.case),
                    result.repeat,
                    history_codec.name_to_sql(result.eval_set_id),
                    result.status.value,
                    result.duration_seconds,
                    result.agent_seconds,
                    history_codec.failure_to_text(result.failure),
                    now,
                    job.execution_key,
                    job.scoring_key,
                    job.lacks_baseline,
                    has_missing_samples(result.metrics),
                    result.execution.is_replayed,
                    None if result.quarantine is None else history_codec.fact_to_text(result.quarantine),
                    execution.number,
                    score,
                )
            )
            verdicts.append((job, execution, scoring_dependencies))
        self._database.execute_many(_ADD_SCORE, scores)
        self._database.execute_many(_ADD_JOB, rows)
        # Checked once, not for each of thousands of results.
        if self._database.execute("SELECT 1 FROM unjudged LIMIT 1").fetchone() is not None:
            judged = [(*key_to_sql(job.result.case), job.result.repeat, run) for job in jobs]
            self._database.execute_many(_DELETE_UNJUDGED, judged)
        return (
            _make_verdict(run_id, job, done, now, scoring_dependencies=scoring_dependencies)
            for job, done, scoring_dependencies in verdicts
        )

    def insert_unjudged(
        self, run_id: str, run: int, jobs: Iterable[ResultToStore], now: float
    ) -> Iterator[StoredVerdict]:
        """Store executions of jobs before their judges are asked. `insert` of a job replaces them."""
        jobs = list(jobs)
        executions = self._store_executions(jobs, now)
        rows = [
            (
                run,
                *key_to_sql(job.result.case),
                job.result.repeat,
                history_codec.name_to_sql(job.result.eval_set_id),
                job.result.duration_seconds,
                execution.finished_at,
                job.execution_key,
                execution.number,
                job.result.agent_seconds,
            )
            for job, execution in zip(jobs, executions, strict=True)
        ]
        self._database.execute_many(_ADD_UNJUDGED, rows)
        return (
            _make_verdict(run_id, job, execution, now)._replace(is_judged=False)
            for job, execution in zip(jobs, executions, strict=True)
        )

    def clear_cache(self) -> None:
        """Clear the cache after a transaction was rolled back or old results were deleted."""
        self._sets.clear_cache()

    def _store_executions(self, jobs: Sequence[ResultToStore], now: float) -> list[_ExecutionRow]:
        """Store the executions, unless they are stored already or have nothing to score."""
        identities = [_get_identity(job) for job in jobs]
        newest = self._find_newest_executions(jobs, identities)
        written: dict[tuple[Any, ...], _ExecutionRow] = {}
        blobs: list[tuple[Any, ...]] = []
        executions: list[tuple[Any, ...]] = []
        blob_number, number = self._get_last_id("blob"), self._get_last_id("execution")
        found = []
        for job, asked in zip(jobs, identities, strict=True):
            result = job.result
            dependencies = result.execution.dependencies
            if not result.metrics and dependencies is None and _is_empty(result):
                found.append(_ExecutionRow())
                continue
            there = newest.get(asked)
            if job.is_recorded and there is not None:
                found.append(there[1])
                continue
            data = history_codec.to_blob(history_codec.execution_to_json(result.execution, result.expected_by_row))
            same = (*asked, data)
            known = written.get(same) if job.is_rescored else None
            if known is None and job.is_rescored and there is not None:
                known = self._find_stored(asked, data, *there)
            if known is None:
                is_certain = dependencies is not None and dependencies.complete and dependencies.tainted is None
                rows = None if dependencies is None else self._sets.store(dependencies)
                # Scoring takes time: files that other agents wrote meanwhile are newer than this execution.
                finished_at = (dependencies.recorded_at if dependencies is not None else 0.0) or now
                opaque = dependencies is not None and dependencies.is_opaque
                number, blob_number = number + 1, blob_number + 1
                blobs.append((blob_number, data))
                executions.append((number, *asked, finished_at, not is_certain, opaque, rows, blob_number))
                known = written[same] = _ExecutionRow(number, rows, is_certain, finished_at)
            found.append(known)
        self._database.execute_many(_ADD_BLOB, blobs)
        self._database.execute_many(_ADD_EXECUTION, executions)
        return found

    def _find_newest_executions(
        self, jobs: Sequence[ResultToStore], identities: Sequence[_Identity]
    ) -> dict[_Identity, tuple[bytes, _ExecutionRow]]:
        """Return the newest stored executions that these jobs score again, by variant, key and repeat."""
        keys: dict[tuple[str, str | bytes], list[str]] = {}
        for job, (variant, key, _) in zip(jobs, identities, strict=True):
            if job.is_rescored:
                query = _NEWEST_RECORDED if job.is_recorded else _NEWEST
                keys.setdefault((query, variant), []).append(key)
        return {
            (variant, key, repeat): (blob, _ExecutionRow(number, dependencies, bool(is_certain), finished_at))
            for (query, variant), of_variant in keys.items()
            for blob, number, dependencies, is_certain, finished_at, key, repeat in self._database.execute(
                query, (variant, json.dumps(of_variant))
            )
        }

    def _find_stored(self, asked: _Identity, data: bytes, newest: bytes, known: _ExecutionRow) -> _ExecutionRow | None:
        """Find this execution among those of a variant, key and repeat; it is nearly always the newest.

        An older program may have encoded it differently.
        """
        if newest == data:
            return known
        rows = self._database.execute(_EXECUTIONS, asked).fetchall()
        for is_same in (bytes.__eq__, history_codec.is_same_execution):
            for blob, number, dependencies, is_certain, finished_at in rows:
                if is_same(blob, data):
                    return _ExecutionRow(number, dependencies, bool(is_certain), finished_at)
        return None

    def _store_scoring_dependencies(self, result: CaseResult) -> int | None:
        """Store the dependencies of custom metrics; return the id of the set."""
        recorded = [metric.dependencies for metric in result.metrics if metric.dependencies is not None]
        if not recorded:
            return None
        return self._sets.store(Dependencies(rows=frozenset().union(*(each.rows for each in recorded))))

    def _get_last_id(self, table: str) -> int:
        """Return the highest id of a table; no other process writes during the transaction."""
        return int(self._database.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])


def _is_empty(result: CaseResult) -> bool:
    return result.expected_by_row is None and result.execution == _NOTHING


def _get_identity(job: ResultToStore) -> _Identity:
    variant = job.target_variant
    return (
        history_codec.name_to_sql(job.result.case.target) if variant is None else variant,
        job.execution_key or f"unread {job.result.case!r}",
        job.result.repeat,
    )


def _make_verdict(
    run_id: str, job: ResultToStore, execution: _ExecutionRow, now: float, *, scoring_dependencies: int | None = None
) -> StoredVerdict:
    result = job.result
    stored = StoredJob(
        run_id=run_id,
        key=JobKey(case=result.case, repeat=result.repeat),
        status=result.status,
        duration_seconds=result.duration_seconds,
        agent_seconds=result.agent_seconds,
        failure=result.failure,
        finished_at=datetime.fromtimestamp(now, UTC),
        execution_key=job.execution_key,
        scoring_key=job.scoring_key,
        lacks_baseline=job.lacks_baseline,
        misses_samples=has_missing_samples(result.metrics),
        is_replayed=result.execution.is_replayed,
        quarantine=result.quarantine,
    )
    number, dependencies, is_certain, finished_at = execution
    started_at = 0.0 if number is None else finished_at - result.duration_seconds
    return StoredVerdict(stored, number, dependencies, scoring_dependencies, is_certain, started_at)


# Results of another history, which is attached as `source`. Rows get new ids, after those that are there.

_COPIED_JOBS = "SELECT * FROM source.job WHERE run = (SELECT id FROM source.run WHERE run_id = :run_id)"
_COPIED_UNJUDGED = "SELECT * FROM source.unjudged WHERE run = (SELECT id FROM source.run WHERE run_id = :run_id)"
_COPIED_EXECUTIONS = f"""
    SELECT * FROM source.execution WHERE id IN (
        SELECT execution FROM ({_COPIED_JOBS}) UNION SELECT execution FROM ({_COPIED_UNJUDGED})
    )
"""
_COPIED_SCORES = f"SELECT * FROM source.score WHERE id IN (SELECT score FROM ({_COPIED_JOBS}))"
_COPIED_SETS = f"""
    SELECT * FROM source.dependency_set WHERE id IN (
        SELECT dependency_set FROM ({_COPIED_EXECUTIONS}) UNION SELECT dependency_set FROM ({_COPIED_SCORES})
    )
"""
_NEW_SET = """
    (SELECT new.id FROM main.dependency_set AS new JOIN source.dependency_set AS old USING (hash)
     WHERE old.id = {table}.dependency_set)
"""
_COPY_RESULTS = (
    f"INSERT OR IGNORE INTO main.dependency_set (hash) SELECT hash FROM ({_COPIED_SETS})",
    f"""
    INSERT OR IGNORE INTO main.dependency (dependency_set, kind, key, fingerprint)
    SELECT new.id, kind, key, fingerprint
    FROM ({_COPIED_SETS}) AS old JOIN main.dependency_set AS new USING (hash)
        JOIN source.dependency ON source.dependency.dependency_set = old.id
    """,
    f"""
    INSERT INTO main.blob (id, data)
    SELECT id + :blobs, data FROM source.blob WHERE id IN (SELECT blob FROM ({_COPIED_EXECUTIONS}))
    """,
    f"""
    INSERT INTO main.execution
        (id, target_variant, execution_key, repeat, finished_at, environment, tainted, opaque, dependency_set, blob)
    SELECT id + :executions, target_variant, execution_key, repeat, finished_at, environment, tainted, opaque,
        {_NEW_SET.format(table="copied")}, blob + :blobs
    FROM ({_COPIED_EXECUTIONS}) AS copied
    """,
    f"""
    INSERT INTO main.score (id, execution, scoring_key, dependency_set, metrics)
    SELECT id + :scores, execution + :executions, scoring_key, {_NEW_SET.format(table="copied")}, metrics
    FROM ({_COPIED_SCORES}) AS copied
    """,
    f"""
    INSERT INTO main.job (run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, status, duration_seconds,
        agent_seconds, failure, finished_at, execution_key, scoring_key, lacks_baseline, misses_samples, is_replayed,
        quarantine, is_forgotten, execution, score)
    SELECT :run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, status, duration_seconds, agent_seconds,
        failure, finished_at, execution_key, scoring_key, lacks_baseline, misses_samples, is_replayed, quarantine,
        is_forgotten, execution + :executions, score + :scores
    FROM ({_COPIED_JOBS}) ORDER BY id
    """,
    f"""
    INSERT INTO main.unjudged (run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, duration_seconds,
        finished_at, execution_key, execution, agent_seconds)
    SELECT :run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, duration_seconds, finished_at,
        execution_key, execution + :executions, agent_seconds
    FROM ({_COPIED_UNJUDGED})
    """,
)


def copy_results(database: Database, run_id: str, run: int) -> None:
    """Copy the results of a run in the attached `source` into the run here whose row is `run`. Use it in a transaction.

    Traces, scores and dependencies are copied with them.
    """
    values: dict[str, str | int] = {"run_id": run_id, "run": run}
    for name, table in (("blobs", "blob"), ("executions", "execution"), ("scores", "score")):
        values[name] = database.execute(f"SELECT coalesce(max(id), 0) FROM main.{table}").fetchone()[0]
    for statement in _COPY_RESULTS:
        database.execute(statement, values)


# Retention: the newest traces of each variant and the newest scores are kept

MAX_TRACES_PER_VARIANT = 5
MAX_SCORED_EXECUTIONS = 10_000
MAX_SCORED_RUNS = 2
"""The newest runs of the same selection keep their scores, so that they can be compared whatever their size."""
MAX_EXECUTIONS = 200_000
"""Beyond this number of executions, even the newest scores of a case are deleted: its dataset may be gone."""
_MAX_RUNS_SEEN = 20_000
_MAX_RECORDS_READ = 32_000_000  # characters of the records of these runs; some name thousands of selected cases

_SCORE_COMMAND = "workbench score "

# Only variants of this run can have grown, and few of thousands exceed the limit.
_OLD_TRACES = """
    SELECT id FROM (
        SELECT id, blob, row_number() OVER (
            PARTITION BY target_variant, execution_key, repeat ORDER BY id DESC
        ) AS age
        FROM execution
        WHERE (target_variant, execution_key, repeat) IN (
            SELECT this.target_variant, this.execution_key, this.repeat
            FROM job JOIN execution AS this ON this.id = job.execution
            WHERE job.run = :run AND EXISTS (
                SELECT 1 FROM execution AS other
                WHERE other.target_variant = this.target_variant AND other.execution_key = this.execution_key
                AND other.repeat = this.repeat LIMIT 1 OFFSET :kept
            )
        )
    ) AS old WHERE age > :kept AND blob IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM job WHERE job.execution = old.id AND NOT EXISTS (
            SELECT 1 FROM job AS later
            WHERE later.eval_set = job.eval_set AND later.eval_id = job.eval_id AND later.target = job.target
            AND later.occurrence = job.occurrence AND later.repeat = job.repeat
            AND later.execution_key = job.execution_key AND later.execution IS NOT NULL AND later.id > job.id
        )
    )
"""
# The newest runs of each selection that ended and judged something. Runs of a watch have no selection. Those that score
# a dataset have none either, but a command that names it.
_NEWEST_RUNS = f"""
    SELECT id FROM (
        SELECT id, row_number() OVER (
            PARTITION BY targets, selections, CASE selections WHEN '[]' THEN command END ORDER BY id DESC
        ) AS age FROM (
            SELECT id, json_extract(record, '$.targets') AS targets, json_extract(record, '$.command') AS command,
                json_extract(record, '$.options.{SELECTIONS_OPTION}') AS selections
            FROM (
                SELECT id, summary, interrupted,
                    CASE WHEN size <= {_MAX_RECORDS_READ} AND json_valid(record) THEN record ELSE '{{}}' END AS record
                FROM (
                    SELECT *, sum(length(record)) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS size
                    FROM run ORDER BY id DESC LIMIT {_MAX_RUNS_SEEN}
                )
            )
            WHERE summary IS NOT NULL AND NOT interrupted
                AND json_extract(record, '$.options.{SCORES_OPTION}') IS NOT 0
        )
        WHERE selections != '[]' OR substr(command, 1, {len(_SCORE_COMMAND)}) = '{_SCORE_COMMAND}'
    ) WHERE age <= {MAX_SCORED_RUNS}
"""
_OF_NEWEST_RUNS = f"""
    SELECT execution FROM job WHERE run IN ({_NEWEST_RUNS})
    AND execution > coalesce((SELECT id FROM execution ORDER BY id DESC LIMIT 1 OFFSET :newest), 0)
"""
# The run that has just ended is kept completely.
_OLD_EXECUTIONS = """
    SELECT id, blob IS NOT NULL FROM execution AS old
    WHERE id <= coalesce((SELECT id FROM execution ORDER BY id DESC LIMIT 1 OFFSET :kept), 0)
    AND id NOT IN (SELECT execution FROM job WHERE run = :run AND execution IS NOT NULL)
    AND (
        id <= coalesce((SELECT id FROM execution ORDER BY id DESC LIMIT 1 OFFSET :newest), 0)
        OR NOT EXISTS (
            SELECT 1 FROM job WHERE job.execution = old.id AND NOT EXISTS (
                SELECT 1 FROM job AS later
                WHERE later.eval_set = job.eval_set AND later.eval_id = job.eval_id AND later.target = job.target
                AND later.occurrence = job.occurrence AND later.repeat = job.repeat
                AND later.execution IS NOT NULL AND later.id > job.id
            )
        )
    )
"""
# Each run of an unchanged dataset scores the same executions again, for which no agent ran. The newest scores of each
# case by its criteria stay.
_OLD_SCORES = f"""
    SELECT old.id FROM score AS old
    WHERE old.execution IN (
        SELECT execution.id FROM job JOIN execution ON execution.id = job.execution
        WHERE job.run = :run AND job.score IS NOT NULL AND execution.dependency_set IS NULL
    )
    AND old.id <= coalesce((SELECT id FROM score ORDER BY id DESC LIMIT 1 OFFSET :kept), 0)
    AND old.id NOT IN (
        SELECT score FROM job WHERE score IS NOT NULL AND (run = :run OR run IN ({_NEWEST_RUNS}))
    )
    AND NOT EXISTS (
        SELECT 1 FROM job WHERE job.execution = old.execution AND job.score = old.id AND NOT EXISTS (
            SELECT 1 FROM job AS later
            WHERE later.eval_set = job.eval_set AND later.eval_id = job.eval_id AND later.target = job.target
            AND later.occurrence = job.occurrence AND later.repeat = job.repeat
            AND later.scoring_key = job.scoring_key AND later.score IS NOT NULL AND later.id > job.id
        )
    )
"""


def delete_old_results(database: Database, run: int) -> None:
    """Apply the rules after a run, given by the id of its row. Raises StoreError."""
    limits = {"run": run, "kept": MAX_SCORED_EXECUTIONS, "newest": MAX_EXECUTIONS}
    with database.translate_errors():
        traces = [row[0] for row in database.execute(_OLD_TRACES, {"run": run, "kept": MAX_TRACES_PER_VARIANT})]
        has_trace = {number: bool(has) for number, has in database.execute(_OLD_EXECUTIONS, limits)}
        held = {row[0] for row in database.execute(_OF_NEWEST_RUNS, limits)} if has_trace else set()
        scores = [row[0] for row in database.execute(_OLD_SCORES, {"run": run, "kept": MAX_SCORED_EXECUTIONS})]
    executions = [number for number in has_trace if number not in held]
    traces += [number for number, has in has_trace.items() if has and number in held]
    for ids in _split_ids(traces):
        with database.transaction():
            _delete_traces(database, ids)
    for ids in _split_ids(scores):
        with database.transaction():
            marks = _make_placeholders(ids)
            database.execute(
                "UPDATE job SET score = NULL, is_forgotten = 1 "
                f"WHERE execution IN (SELECT execution FROM score WHERE id IN ({marks})) AND score IN ({marks})",
                [*ids, *ids],
            )
            database.execute(f"DELETE FROM score WHERE id IN ({marks})", ids)
    for ids in _split_ids(executions):
        with database.transaction():
            _delete_traces(database, ids)
            marks = _make_placeholders(ids)
            database.execute(
                f"UPDATE job SET execution = NULL, score = NULL, is_forgotten = 1 WHERE execution IN ({marks})", ids
            )
            database.execute(f"DELETE FROM unjudged WHERE execution IN ({marks})", ids)
            database.execute(f"DELETE FROM score WHERE execution IN ({marks})", ids)
            database.execute(f"DELETE FROM execution WHERE id IN ({marks})", ids)
    with database.transaction():
        database.execute(
            "DELETE FROM unjudged WHERE execution NOT IN (SELECT id FROM execution WHERE blob IS NOT NULL)"
        )
    if executions or scores:
        with database.transaction():
            for table in ("dependency", "dependency_set"):
                column = "id" if table == "dependency_set" else "dependency_set"
                database.execute(
                    f"DELETE FROM {table} WHERE {column} NOT IN ("
                    "SELECT dependency_set FROM execution WHERE dependency_set IS NOT NULL UNION "
                    "SELECT dependency_set FROM score WHERE dependency_set IS NOT NULL)"
                )


def _delete_traces(database: Database, ids: Sequence[int]) -> None:
    marks = _make_placeholders(ids)
    database.execute(f"DELETE FROM blob WHERE id IN (SELECT blob FROM execution WHERE id IN ({marks}))", ids)
    database.execute(f"UPDATE execution SET blob = NULL WHERE id IN ({marks})", ids)


def _split_ids(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]


def _make_placeholders(ids: Sequence[int]) -> str:
    return ",".join("?" * len(ids))
