"""The runs of a history: how one is named, how it begins and ends, and what is told of it without its results."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any

from workbench.model.events import RunSummary
from workbench.model.text import one_line
from workbench.store.errors import StoreError
from workbench.store.history import codec
from workbench.store.history.database import Database
from workbench.store.history.records import RunPart, RunRecord, StoredRun
from workbench.store.history.rows import HAS_JUDGED, HAS_JUDGED_OF_RUN, RUN, RUNS_THAT_BEGIN

LATEST = "latest"


class RunTable:
    """The table of runs. Every method raises StoreError where it cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[str, int] = {}

    def begin(self, record: RunRecord) -> None:
        """Store a run before its first job. A run that goes on after an interruption keeps its jobs."""
        with self._database.writing():
            execute, name = self._database.execute, (record.run_id,)
            before = execute("SELECT record FROM run WHERE run_id = ?", name).fetchone()
            if before is not None:
                with contextlib.suppress(*codec.UNREADABLE):  # whoever wants to see that run is told
                    began = datetime.fromisoformat(codec.fact_data(before[0])["started_at"])
                    record = record.model_copy(update={"started_at": began})
            execute(
                "INSERT INTO run (run_id, record) VALUES (?, ?) ON CONFLICT (run_id) DO UPDATE SET "
                "record = excluded.record, summary = NULL, interrupted = 0",
                (*name, codec.fact_to_text(record)),
            )

    def end(self, row: int, summary: RunSummary, *, duration_seconds: float, interrupted: bool) -> None:
        """Store how a run came out."""
        with self._database.writing():
            self._database.execute(
                "UPDATE run SET summary = ?, duration_seconds = coalesce(duration_seconds, 0) + ?, interrupted = ? "
                "WHERE id = ?",
                (codec.fact_to_text(summary), duration_seconds, interrupted, row),
            )

    def row(self, run_id: str) -> int:
        """The row of a run by its id, the start of its id, or "latest". StoreError: that names none or several."""
        known = self._rows.get(run_id)
        if known is not None:
            return known
        rows = self._named(run_id)
        if not rows:
            missing = "there are no runs yet" if run_id == LATEST else f"there is no run {one_line(run_id, width=60)!r}"
            raise StoreError(self._database.path, missing)
        if len(rows) > 1:
            names = ", ".join(name for _, name in rows[:5]) + (", …" if len(rows) > 5 else "")
            problem = f"{one_line(run_id, width=60)!r} begins the ids of several runs: {names}"
            raise StoreError(self._database.path, problem)
        row, name = rows[0]
        if name == run_id:
            self._rows[run_id] = row
        return int(row)

    def run(self, row: int) -> StoredRun:
        """The run in a row that there is."""
        with self._database.reading():
            return self._stored(*self._database.execute(f"{RUN} WHERE id = ?", (row,)).fetchone())

    def newest(self, limit: int) -> list[StoredRun]:
        """The newest runs, newest first."""
        with self._database.reading():
            rows = self._database.execute(f"{RUN} ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
            return [self._stored(*row) for row in rows]

    def before(self, row: int) -> StoredRun | None:
        """The newest run before the one in this row that judged cases of one of its sets by the same target."""
        return self._newest_where(f"id < ? AND {HAS_JUDGED_OF_RUN}", (row, row))

    def newest_judged(self) -> StoredRun | None:
        """The newest run that judged a case; None if there is none."""
        return self._newest_where(HAS_JUDGED, ())

    def parts_of(self, target: str, eval_set: str | None, *, limit: int) -> list[RunPart]:
        """The newest runs that had cases of a target (of one of its sets), newest first, counting only those cases."""
        names = [codec.name_to_sql(name) for name in (target, eval_set) if name is not None]
        part = "target = ?" if eval_set is None else "target = ? AND eval_set = ?"
        with self._database.reading():
            rows = self._database.execute(
                f"{RUN} WHERE EXISTS (SELECT 1 FROM job WHERE job.run = run.id AND {part}) ORDER BY id DESC LIMIT ?",
                (*names, limit),
            ).fetchall()
            parts = []
            for row in rows:
                counts = self._counts(f"run = ? AND {part}", (row[0], *names))
                parts.append(RunPart(self._stored(*row), RunSummary.model_validate(counts)))
            return parts

    def _newest_where(self, condition: str, values: tuple[int, ...]) -> StoredRun | None:
        with self._database.reading():
            query = f"{RUN} WHERE {condition} ORDER BY id DESC LIMIT 1"
            found = self._database.execute(query, values).fetchone()
            return None if found is None else self._stored(*found)

    def _named(self, run_id: str) -> list[tuple[int, str]]:
        execute = self._database.execute
        with self._database.reading():
            if run_id == LATEST:
                return execute("SELECT id, run_id FROM run ORDER BY id DESC LIMIT 1").fetchall()
            values = {"name": codec.name_to_sql(run_id)}
            exact = execute("SELECT id, run_id FROM run WHERE run_id = :name", values).fetchall()
            return exact or execute(RUNS_THAT_BEGIN, values).fetchall()

    def _stored(
        self, row: int, record: str, summary: str | None, duration_seconds: float | None, interrupted: int
    ) -> StoredRun:
        try:
            data = codec.fact_data(record)
            outcome: dict[str, Any] = (
                {**self._counts("run = ?", (row,)), "total": data["total"]}
                if summary is None
                else codec.fact_data(summary)
            )
            return StoredRun.model_validate(
                {
                    **data,
                    "summary": outcome,
                    "duration_seconds": None if summary is None else duration_seconds,
                    "interrupted": bool(interrupted),
                    "ended": summary is not None,
                }
            )
        except codec.UNREADABLE as error:
            raise StoreError(self._database.path, f"a run cannot be read: {error}") from error

    def _counts(self, which: str, values: tuple[Any, ...]) -> dict[str, int]:
        """The jobs of which this is true, for a RunSummary."""
        query = f"SELECT lower(status), count(*), sum(misses_samples) FROM job WHERE {which} GROUP BY status"
        rows = self._database.execute(query, values).fetchall()
        total, partly_judged = sum(count for _, count, _ in rows), sum(missing for _, _, missing in rows)
        return {**{status: count for status, count, _ in rows}, "total": total, "partly_judged": partly_judged}
