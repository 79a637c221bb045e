"""Results on their way into the tables: execution, score and job, in the order in which they refer to each other.

Rows of each table are written together: a statement for each row and table is most of what storing thousands costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from workbench.model.dependencies import Dependencies
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult, Execution, misses_samples
from workbench.store.history import codec
from workbench.store.history.database import Database
from workbench.store.history.dependencies import DependencySets
from workbench.store.history.records import FinishedJob, StoredJob, StoredVerdict
from workbench.store.history.rows import IS_CASE, key_to_sql

_FORGET_UNJUDGED = f"DELETE FROM unjudged AS job WHERE {IS_CASE} AND repeat = ? AND run <= ?"
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
        misses_samples, execution, score)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_UNJUDGED = "INSERT OR REPLACE INTO unjudged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


_NOTHING = Execution()


class _ExecutionRow(NamedTuple):
    number: int | None = None
    dependencies: int | None = None
    is_certain: bool = False
    finished_at: float = 0.0


class ResultWriter:
    """Writes results inside of a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sets = DependencySets(database)

    def insert(self, run_id: str, run: int, jobs: Iterable[FinishedJob], now: float) -> Iterator[StoredVerdict]:
        """Store results of the run with this id, whose row is `run`. Verdicts are made as they are asked for."""
        jobs = list(jobs)
        executions = self._executions(jobs, now)
        verdicts, scores, rows = [], [], []
        score_number = self._last("score")
        for job, execution in zip(jobs, executions, strict=True):
            result = job.result
            score = scored_with = None
            if result.metrics:
                score = score_number = score_number + 1
                scored_with = self._scored_with(result)
                metrics = codec.metrics_to_blob(result.metrics)
                scores.append((score, execution.number, job.scoring_key, scored_with, metrics))
            rows.append(
                (
                    run,
                    *key_to_sql(result.case),
                    result.repeat,
                    codec.name_to_sql(result.eval_set_id),
                    result.status.value,
                    result.duration_seconds,
                    result.agent_seconds,
                    codec.failure_to_text(result.failure),
                    now,
                    job.execution_key,
                    job.scoring_key,
                    job.lacks_baseline,
                    misses_samples(result.metrics),
                    execution.number,
                    score,
                )
            )
            verdicts.append((job, execution, scored_with))
        self._database.execute_many(_ADD_SCORE, scores)
        self._database.execute_many(_ADD_JOB, rows)
        # Looked at once, and not for each of the thousands of results that may come.
        if self._database.execute("SELECT 1 FROM unjudged LIMIT 1").fetchone() is not None:
            judged = [(*key_to_sql(job.result.case), job.result.repeat, run) for job in jobs]
            self._database.execute_many(_FORGET_UNJUDGED, judged)
        return (_verdict(run_id, job, done, now, scored_with=scored_with) for job, done, scored_with in verdicts)

    def insert_unjudged(
        self, run_id: str, run: int, jobs: Iterable[FinishedJob], now: float
    ) -> Iterator[StoredVerdict]:
        """Store what agents did in jobs whose judges are yet to be asked. `insert` of a job takes its place."""
        jobs = list(jobs)
        executions = self._executions(jobs, now)
        rows = [
            (
                run,
                *key_to_sql(job.result.case),
                job.result.repeat,
                codec.name_to_sql(job.result.eval_set_id),
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
            _verdict(run_id, job, execution, now)._replace(is_judged=False)
            for job, execution in zip(jobs, executions, strict=True)
        )

    def forget(self) -> None:
        """What was written may be gone: a transaction was undone, or old results were deleted."""
        self._sets.forget()

    def _executions(self, jobs: Sequence[FinishedJob], now: float) -> list[_ExecutionRow]:
        """Store what the agents did, unless it is stored already, or nothing that could be judged."""
        newest = self._newest(jobs)
        written: dict[tuple[Any, ...], _ExecutionRow] = {}
        blobs: list[tuple[Any, ...]] = []
        executions: list[tuple[Any, ...]] = []
        blob_number, number = self._last("blob"), self._last("execution")
        found = []
        for job in jobs:
            result = job.result
            dependencies = result.execution.dependencies
            if not result.metrics and dependencies is None and _says_nothing(result):
                found.append(_ExecutionRow())
                continue
            asked = _variant_of(job), _key_of(job), result.repeat
            there = newest.get(asked)
            if job.recorded and there is not None:
                found.append(there[1])
                continue
            data = codec.to_blob(codec.execution_to_json(result.execution, result.expected_by_row))
            same = (*asked, data)
            known = written.get(same) if job.judged_again else None
            if known is None and job.judged_again and there is not None:
                known = self._stored(asked, data, *there)
            if known is None:
                is_certain = dependencies is not None and dependencies.complete and dependencies.tainted is None
                rows = None if dependencies is None else self._sets.store(dependencies)
                # Judging takes its time: what other agents wrote meanwhile came after this one.
                finished_at = (dependencies.told_at if dependencies is not None else 0.0) or now
                opaque = dependencies is not None and dependencies.is_opaque
                number, blob_number = number + 1, blob_number + 1
                blobs.append((blob_number, data))
                executions.append((number, *asked, finished_at, not is_certain, opaque, rows, blob_number))
                known = written[same] = _ExecutionRow(number, rows, is_certain, finished_at)
            found.append(known)
        self._database.execute_many(_ADD_BLOB, blobs)
        self._database.execute_many(_ADD_EXECUTION, executions)
        return found

    def _newest(self, jobs: Sequence[FinishedJob]) -> dict[tuple[Any, ...], tuple[bytes, _ExecutionRow]]:
        """What was stored last, by variant, key and repeat, as far as these jobs judge it again."""
        keys: dict[tuple[str, str | bytes], list[str]] = {}
        for job in jobs:
            if job.judged_again:
                query = _NEWEST_RECORDED if job.recorded else _NEWEST
                keys.setdefault((query, _variant_of(job)), []).append(_key_of(job))
        return {
            (variant, key, repeat): (blob, _ExecutionRow(number, dependencies, bool(is_certain), finished_at))
            for (query, variant), of_variant in keys.items()
            for blob, number, dependencies, is_certain, finished_at, key, repeat in self._database.execute(
                query, (variant, json.dumps(of_variant))
            )
        }

    def _stored(self, asked: tuple[Any, ...], data: bytes, newest: bytes, known: _ExecutionRow) -> _ExecutionRow | None:
        """The newest of the few executions of a variant, key and repeat that is this one; nearly always the last.

        An older program may have written the same in other bytes.
        """
        if newest == data:
            return known
        rows = self._database.execute(_EXECUTIONS, asked).fetchall()
        for is_same in (bytes.__eq__, codec.tell_the_same):
            for blob, number, dependencies, is_certain, finished_at in rows:
                if is_same(blob, data):
                    return _ExecutionRow(number, dependencies, bool(is_certain), finished_at)
        return None

    def _scored_with(self, result: CaseResult) -> int | None:
        """The set of what custom metrics depended on."""
        told = [metric.dependencies for metric in result.metrics if metric.dependencies is not None]
        if not told:
            return None
        return self._sets.store(Dependencies(rows=frozenset().union(*(each.rows for each in told))))

    def _last(self, table: str) -> int:
        """The highest number in a table; nobody else writes until the end of the transaction."""
        return int(self._database.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])


def _says_nothing(result: CaseResult) -> bool:
    return result.expected_by_row is None and result.execution == _NOTHING


def _variant_of(job: FinishedJob) -> str | bytes:
    return codec.name_to_sql(job.result.case.target) if job.target_variant is None else job.target_variant


def _key_of(job: FinishedJob) -> str:
    return job.execution_key or f"unread {job.result.case!r}"


def _verdict(
    run_id: str, job: FinishedJob, execution: _ExecutionRow, now: float, *, scored_with: int | None = None
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
        misses_samples=misses_samples(result.metrics),
    )
    number, dependencies, is_certain, finished_at = execution
    began_at = 0.0 if number is None else finished_at - result.duration_seconds
    return StoredVerdict(stored, number, dependencies, scored_with, is_certain, began_at)
