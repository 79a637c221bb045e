"""What is forgotten: traces beyond the newest few of each variant, scores beyond the newest many.

Of cases that ask the same, each keeps its newest trace: what a case shows of its last run is its own. Each case keeps
its newest scores, too, so that a watch never runs a case only because many others have run since.

A run and the verdicts of its jobs stay. Runs once a run has ended, in small transactions, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.store.history.database import Database

TRACES_OF_A_VARIANT = 5
SCORED_EXECUTIONS = 10_000
NEWEST_OF_CASES = 200_000
"""Beyond so many executions even the newest scores of a case are forgotten: its dataset may be gone."""

_AT_ONCE = 500

# Only variants that this run has executed can have grown, and most of thousands have not grown beyond the limit.
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
# The run that has just ended is kept whole, however large.
_OLD_EXECUTIONS = """
    SELECT id FROM execution AS old
    WHERE id <= coalesce((SELECT id FROM execution ORDER BY id DESC LIMIT 1 OFFSET :kept), 0)
    AND id < coalesce((SELECT min(execution) FROM job WHERE run = :run), 9e18)
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


def forget_old(database: Database, run: int) -> None:
    """Apply the rules after `run` (the id of its row). Raises StoreError."""
    limits = {"run": run, "kept": SCORED_EXECUTIONS, "newest": NEWEST_OF_CASES}
    with database.reading():
        traces = [row[0] for row in database.execute(_OLD_TRACES, {"run": run, "kept": TRACES_OF_A_VARIANT})]
        executions = [row[0] for row in database.execute(_OLD_EXECUTIONS, limits)]
    for ids in _chunks(traces):
        with database.writing():
            _forget_traces(database, ids)
    for ids in _chunks(executions):
        with database.writing():
            _forget_traces(database, ids)
            marks = _marks(ids)
            database.execute(
                f"UPDATE job SET execution = NULL, score = NULL, is_forgotten = 1 WHERE execution IN ({marks})", ids
            )
            database.execute(f"DELETE FROM unjudged WHERE execution IN ({marks})", ids)
            database.execute(f"DELETE FROM score WHERE execution IN ({marks})", ids)
            database.execute(f"DELETE FROM execution WHERE id IN ({marks})", ids)
    with database.writing():
        database.execute(
            "DELETE FROM unjudged WHERE execution NOT IN (SELECT id FROM execution WHERE blob IS NOT NULL)"
        )
    if executions:
        with database.writing():
            for table in ("dependency", "dependency_set"):
                column = "id" if table == "dependency_set" else "dependency_set"
                database.execute(
                    f"DELETE FROM {table} WHERE {column} NOT IN ("
                    "SELECT dependency_set FROM execution WHERE dependency_set IS NOT NULL UNION "
                    "SELECT dependency_set FROM score WHERE dependency_set IS NOT NULL)"
                )


def _forget_traces(database: Database, ids: Sequence[int]) -> None:
    marks = _marks(ids)
    database.execute(f"DELETE FROM blob WHERE id IN (SELECT blob FROM execution WHERE id IN ({marks}))", ids)
    database.execute(f"UPDATE execution SET blob = NULL WHERE id IN ({marks})", ids)


def _chunks(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]


def _marks(ids: Sequence[int]) -> str:
    return ",".join("?" * len(ids))
