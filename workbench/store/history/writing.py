"""Results on their way into the tables: execution, score and job, in the order in which they refer to each other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from workbench.model.dependencies import Dependencies
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.store.history import codec
from workbench.store.history.database import Database
from workbench.store.history.dependencies import DependencySets
from workbench.store.history.records import FinishedJob, StoredJob, StoredVerdict
from workbench.store.history.rows import IS_CASE, key_to_sql

_FORGET_UNJUDGED = f"DELETE FROM unjudged AS job WHERE {IS_CASE} AND repeat = ? AND run <= ?"
_SAME_EXECUTION = """
    SELECT execution.id, dependency_set, tainted = 0, finished_at FROM execution JOIN blob ON blob.id = execution.blob
    WHERE target_variant = ? AND execution_key = ? AND repeat = ? AND blob.data = ?
    ORDER BY execution.id DESC LIMIT 1
"""


class _ExecutionRow(NamedTuple):
    number: int | None = None
    dependencies: int | None = None
    is_certain: bool = False
    finished_at: float = 0.0


class ResultWriter:
    """Writes results inside of a transaction."""

    def __init__(self, database: Database) -> None:
        self._execute = database.execute
        self._sets = DependencySets(database)
        self._has_unjudged = False

    def begin(self) -> None:
        """A transaction has begun: nobody else writes until its end."""
        # Looked at once, and not for each of the thousands of results that may come.
        self._has_unjudged = self._execute("SELECT 1 FROM unjudged LIMIT 1").fetchone() is not None

    def insert(self, run_id: str, run: int, job: FinishedJob, now: float) -> StoredVerdict:
        """Store a result of the run with this id, whose row is `run`."""
        result = job.result
        target, eval_set, eval_id, occurrence = key_to_sql(result.case)
        execution = self._execution(job, target, now)
        score = scored_with = None
        if result.metrics:
            scored_with = self._scored_with(result)
            score = self._execute(
                "INSERT INTO score (execution, scoring_key, dependency_set, metrics) VALUES (?, ?, ?, ?)",
                (execution.number, job.scoring_key, scored_with, codec.metrics_to_blob(result.metrics)),
            ).lastrowid
        self._execute(
            "INSERT OR REPLACE INTO job (run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, status, "
            "duration_seconds, failure, finished_at, execution_key, scoring_key, lacks_baseline, execution, score) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                run,
                target,
                eval_set,
                eval_id,
                occurrence,
                result.repeat,
                codec.name_to_sql(result.eval_set_id),
                result.status.value,
                result.duration_seconds,
                codec.failure_to_text(result.failure),
                now,
                job.execution_key,
                job.scoring_key,
                job.lacks_baseline,
                execution.number,
                score,
            ),
        )
        if self._has_unjudged:
            self._execute(_FORGET_UNJUDGED, (target, eval_set, eval_id, occurrence, result.repeat, run))
        return _verdict(run_id, job, execution, now, scored_with=scored_with)

    def insert_unjudged(self, run_id: str, run: int, job: FinishedJob, now: float) -> StoredVerdict:
        """Store what the agent did in a job whose judges are yet to be asked. `insert` of that job takes its place."""
        result = job.result
        execution = self._execution(job, key_to_sql(result.case)[0], now)
        values = (
            run,
            *key_to_sql(result.case),
            result.repeat,
            codec.name_to_sql(result.eval_set_id),
            result.duration_seconds,
            execution.finished_at,
            job.execution_key,
            execution.number,
        )
        self._execute(f"INSERT OR REPLACE INTO unjudged VALUES ({','.join('?' * len(values))})", values)
        return _verdict(run_id, job, execution, now)._replace(is_judged=False)

    def forget(self) -> None:
        """What was written may be gone: a transaction was undone, or old results were deleted."""
        self._sets.forget()

    def _execution(self, job: FinishedJob, target: str | bytes, now: float) -> _ExecutionRow:
        """Store what the agent did, unless it is stored already, or nothing that could be judged."""
        result = job.result
        text = codec.execution_to_text(result.execution)
        dependencies = result.execution.dependencies
        if not result.metrics and text == codec.EMPTY_EXECUTION and dependencies is None:
            return _ExecutionRow()
        variant = target if job.target_variant is None else job.target_variant
        key, data = job.execution_key or f"unread {result.case!r}", codec.compress(text)
        if job.judged_again:
            known = self._execute(_SAME_EXECUTION, (variant, key, result.repeat, data)).fetchone()
            if known is not None:
                return _ExecutionRow(known[0], known[1], bool(known[2]), known[3])
        is_certain = dependencies is not None and dependencies.complete and dependencies.tainted is None
        rows = None if dependencies is None else self._sets.store(dependencies)
        # Judging takes its time: what other agents wrote meanwhile came after this one.
        finished_at = (dependencies.told_at if dependencies is not None else 0.0) or now
        number = self._execute(
            "INSERT INTO execution (target_variant, execution_key, repeat, finished_at, tainted, opaque, "
            "dependency_set, blob) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                variant,
                key,
                result.repeat,
                finished_at,
                not is_certain,
                dependencies is not None and dependencies.is_opaque,
                rows,
                self._execute("INSERT INTO blob (data) VALUES (?)", (data,)).lastrowid,
            ),
        ).lastrowid
        return _ExecutionRow(number, rows, is_certain, finished_at)

    def _scored_with(self, result: CaseResult) -> int | None:
        """The set of what custom metrics depended on."""
        told = [metric.dependencies for metric in result.metrics if metric.dependencies is not None]
        if not told:
            return None
        return self._sets.store(Dependencies(rows=frozenset().union(*(each.rows for each in told))))


def _verdict(
    run_id: str, job: FinishedJob, execution: _ExecutionRow, now: float, *, scored_with: int | None = None
) -> StoredVerdict:
    result = job.result
    stored = StoredJob(
        run_id=run_id,
        key=JobKey.model_construct(case=result.case, repeat=result.repeat),
        status=result.status,
        duration_seconds=result.duration_seconds,
        failure=result.failure,
        finished_at=datetime.fromtimestamp(now, UTC),
        execution_key=job.execution_key,
        scoring_key=job.scoring_key,
        lacks_baseline=job.lacks_baseline,
    )
    number, dependencies, is_certain, finished_at = execution
    began_at = 0.0 if number is None else finished_at - result.duration_seconds
    return StoredVerdict(stored, number, dependencies, scored_with, is_certain, began_at)
