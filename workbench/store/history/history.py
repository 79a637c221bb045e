"""`History`: runs and their results, stored and read."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from workbench.model.base import pause_gc
from workbench.model.identity import CaseKey, Dependency, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricScores
from workbench.model.run_events import RunSummary
from workbench.model.text import one_line
from workbench.store.errors import StoreError
from workbench.store.history import history_codec
from workbench.store.history.history_queries import (
    FULL,
    HAS_JUDGED,
    HAS_JUDGED_OF_RUN,
    IS_CASE,
    LIGHT,
    NEWEST_JUDGED,
    NEWEST_JUDGED_OF_ONE,
    NEWEST_OF_DATASETS,
    NEWEST_OF_ONE,
    ONE,
    RAN,
    RUN,
    RUNS_THAT_BEGIN,
    SCORES,
    TAKE_OVER,
    UNJUDGED_RESULTS,
    UNJUDGED_VERDICTS,
    WITH_RESULT,
    WITH_RUN,
    WITH_SCORE,
    AgentWrittenFile,
    FinishedJob,
    RunPart,
    RunRecord,
    StoredJob,
    StoredRun,
    StoredScores,
    StoredVerdict,
    key_to_sql,
    read_case_key,
    read_job,
    read_result,
    read_scores,
    read_verdict,
    select_latest_verdicts,
    select_newest,
)
from workbench.store.history.history_schema import Database, open_database
from workbench.store.history.history_writer import (
    ResultWriter,
    delete_old_results,
    read_agent_written_files,
    read_dependencies,
    read_folder_dependencies,
)

# The runs of a history: how one is named, how it begins and ends, and what is told of it without its results.

LATEST = "latest"


class RunTable:
    """The table of runs. Every method raises StoreError where it cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[str, int] = {}

    def begin(self, record: RunRecord) -> None:
        """Store a run before its first job. A run that goes on after an interruption keeps its jobs."""
        with self._database.transaction():
            execute, name = self._database.execute, (record.run_id,)
            before = execute("SELECT record FROM run WHERE run_id = ?", name).fetchone()
            if before is not None:
                with contextlib.suppress(*history_codec.UNREADABLE):  # whoever wants to see that run is told
                    began = datetime.fromisoformat(history_codec.load_fact(before[0])["started_at"])
                    record = record.model_copy(update={"started_at": began})
            execute(
                "INSERT INTO run (run_id, record) VALUES (?, ?) ON CONFLICT (run_id) DO UPDATE SET "
                "record = excluded.record, summary = NULL, interrupted = 0",
                (*name, history_codec.fact_to_text(record)),
            )

    def end(self, row: int, summary: RunSummary, *, duration_seconds: float, interrupted: bool) -> None:
        """Store how a run came out."""
        with self._database.transaction():
            self._database.execute(
                "UPDATE run SET summary = ?, duration_seconds = coalesce(duration_seconds, 0) + ?, interrupted = ? "
                "WHERE id = ?",
                (history_codec.fact_to_text(summary), duration_seconds, interrupted, row),
            )

    def row(self, run_id: str) -> int:
        """The row of a run by its id, the start of its id, or "latest". StoreError: that names none or several."""
        known = self._rows.get(run_id)
        if known is not None:
            return known
        rows = self._find_rows(run_id)
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
        with self._database.translate_errors():
            return self._make_stored_run(*self._database.execute(f"{RUN} WHERE id = ?", (row,)).fetchone())

    def newest(self, limit: int) -> list[StoredRun]:
        """The newest runs, newest first."""
        with self._database.translate_errors():
            rows = self._database.execute(f"{RUN} ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
            return [self._make_stored_run(*row) for row in rows]

    def get_previous_run(self, row: int) -> StoredRun | None:
        """The newest run before the one in this row that judged cases of one of its sets by the same target."""
        return self._find_newest(f"id < ? AND {HAS_JUDGED_OF_RUN}", (row, row))

    def newest_judged(self) -> StoredRun | None:
        """The newest run that judged a case; None if there is none."""
        return self._find_newest(HAS_JUDGED, ())

    def list_runs_of_target(self, target: str, eval_set: str | None, *, limit: int) -> list[RunPart]:
        """The newest runs that had cases of a target (of one of its sets), newest first, counting only those cases."""
        names = [history_codec.name_to_sql(name) for name in (target, eval_set) if name is not None]
        part = "target = ?" if eval_set is None else "target = ? AND eval_set = ?"
        with self._database.translate_errors():
            rows = self._database.execute(
                f"{RUN} WHERE EXISTS (SELECT 1 FROM job WHERE job.run = run.id AND {part}) ORDER BY id DESC LIMIT ?",
                (*names, limit),
            ).fetchall()
            parts = []
            for row in rows:
                counts = self._count_jobs(f"run = ? AND {part}", (row[0], *names))
                parts.append(RunPart(self._make_stored_run(*row), RunSummary.model_validate(counts)))
            return parts

    def _find_newest(self, condition: str, values: tuple[int, ...]) -> StoredRun | None:
        with self._database.translate_errors():
            query = f"{RUN} WHERE {condition} ORDER BY id DESC LIMIT 1"
            found = self._database.execute(query, values).fetchone()
            return None if found is None else self._make_stored_run(*found)

    def _find_rows(self, run_id: str) -> list[tuple[int, str]]:
        execute = self._database.execute
        with self._database.translate_errors():
            if run_id == LATEST:
                return execute("SELECT id, run_id FROM run ORDER BY id DESC LIMIT 1").fetchall()
            values = {"name": history_codec.name_to_sql(run_id)}
            exact = execute("SELECT id, run_id FROM run WHERE run_id = :name", values).fetchall()
            return exact or execute(RUNS_THAT_BEGIN, values).fetchall()

    def _make_stored_run(
        self, row: int, record: str, summary: str | None, duration_seconds: float | None, interrupted: int
    ) -> StoredRun:
        try:
            data = history_codec.load_fact(record)
            outcome: dict[str, Any] = (
                {**self._count_jobs("run = ?", (row,)), "total": data["total"]}
                if summary is None
                else history_codec.load_fact(summary)
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
        except history_codec.UNREADABLE as error:
            raise StoreError(self._database.path, f"a run cannot be read: {error}") from error

    def _count_jobs(self, which: str, values: tuple[Any, ...]) -> dict[str, int]:
        """The jobs of which this is true, for a RunSummary."""
        query = f"SELECT lower(status), count(*), sum(misses_samples) FROM job WHERE {which} GROUP BY status"
        rows = self._database.execute(query, values).fetchall()
        total, partly_judged = sum(count for _, count, _ in rows), sum(missing for _, _, missing in rows)
        return {**{status: count for status, count, _ in rows}, "total": total, "partly_judged": partly_judged}


# Runs and results: written once, by the engine, as they happen; read by everyone.

_VERDICTS_KEPT = 5
_COPIED_TOGETHER = 200
_DECIDED = (CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED)


class History:
    """The history of one project.

    One thread at a time may use an instance. Another process may write at the same time. Every method raises
    StoreError where the file cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = ResultWriter(database)
        self._runs = RunTable(database)

    @classmethod
    def open(cls, root: Path) -> History:
        """Open the history of a project, a new one where there is none. Raises StoreError."""
        return cls(open_database(root))

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    def pop_notice(self) -> str | None:
        """Return once what the user should know: that the file was damaged, and where it is kept.

        It may have proved so to an earlier reader in this process, which continued without the history.
        """
        return self._database.pop_notice()

    @property
    def is_gone(self) -> bool:
        """True if the file was deleted, moved or replaced since it was opened: nothing written here would be found."""
        return self._database.is_gone

    def begin_run(self, record: RunRecord) -> None:
        """Store a run before its first job. One that goes on keeps its jobs, when it began, and how long it took."""
        self._runs.begin(record)

    def finish_job(
        self,
        run_id: str,
        result: CaseResult,
        *,
        execution_key: str = "",
        scoring_key: str = "",
        target_variant: str | None = None,
    ) -> None:
        """Store one result; of a job that is finished twice the second counts. See FinishedJob for the keys."""
        self.finish_jobs(run_id, [FinishedJob(result, execution_key, scoring_key, target_variant)])

    def finish_jobs(self, run_id: str, jobs: Iterable[FinishedJob]) -> Iterator[StoredVerdict]:
        """Store results in one transaction: for results that come by the thousand.

        Gives them as they are stored, each when it is asked for: not everybody wants to know.
        """
        return self._write_jobs(run_id, jobs, self._writer.insert)

    def copy_jobs(self, source: History, run_id: str) -> None:
        """Store the jobs of a run of another history here, where that run has begun.

        What they depended on is not copied, so that none of them counts as up to date.
        """
        jobs = {job.key: job for job in source.jobs(run_id)}
        with_keys = (
            FinishedJob(result, job.execution_key, job.scoring_key, lacks_baseline=job.lacks_baseline)
            for result in source.results(run_id)
            if (job := jobs.get(JobKey(case=result.case, repeat=result.repeat))) is not None
        )
        while batch := list(itertools.islice(with_keys, _COPIED_TOGETHER)):
            self.finish_jobs(run_id, batch)

    def store_unjudged(self, run_id: str, jobs: Iterable[FinishedJob]) -> Iterator[StoredVerdict]:
        """Store what agents did before their judges are asked, so that it is not lost with what interrupts those.

        No verdict and no job of the run before `finish_jobs` has it.
        """
        return self._write_jobs(run_id, jobs, self._writer.insert_unjudged)

    def list_unjudged_jobs(self, run_id: str) -> dict[JobKey, str]:
        """The jobs of a run of which only what the agent did is stored, each with what had reached the agent."""
        query = f"{UNJUDGED_VERDICTS} WHERE job.run = ?"
        with self._database.translate_errors():
            found = [read_verdict(*row) for row in self._database.execute(query, (self._runs.row(run_id),))]
        return {each.job.key: each.job.execution_key for each in found}

    def get_unjudged_result(self, run_id: str, job: JobKey) -> CaseResult | None:
        """What the agent did in one of these jobs; it is not evaluated, and has no metrics."""
        return next(self._results(f"{UNJUDGED_RESULTS} {ONE}", self._get_job_values(run_id, job)), None)

    @property
    def has_unjudged(self) -> bool:
        """Whether there is any such job."""
        with self._database.translate_errors():
            return self._database.execute("SELECT 1 FROM unjudged LIMIT 1").fetchone() is not None

    def reuse_results(self, run_id: str, jobs: Mapping[JobKey, tuple[str, JobKey]]) -> None:
        """Count results of earlier runs (each by its run and job) in this one too, as the jobs that they are keyed by.

        What is not there any more is left out.
        """
        run = self._runs.row(run_id)
        with self._database.transaction():
            for job, (earlier, source) in jobs.items():
                target, eval_set, eval_id, occurrence = key_to_sql(job.case)
                named = (run, target, eval_set, eval_id, occurrence, job.repeat)
                place = (*key_to_sql(source.case), source.repeat, history_codec.name_to_sql(earlier))
                self._database.execute(TAKE_OVER, (*named, *place))

    def end_run(self, run_id: str, summary: RunSummary, *, duration_seconds: float, interrupted: bool) -> None:
        """Store how a run came out. `duration_seconds` is how long it took this time, where it went on."""
        self._runs.end(self._runs.row(run_id), summary, duration_seconds=duration_seconds, interrupted=interrupted)

    def delete_old_results(self, run_id: str) -> None:
        """Forget what the rules of retention do not keep after this run, the newest.

        Nothing is read afterwards and errors are not reported: a file that proves damaged stays where it is.
        """
        self._database.keep_damaged_file()
        delete_old_results(self._database, self._runs.row(run_id))
        self._writer.clear_cache()

    def runs(self, limit: int = 50) -> list[StoredRun]:
        """The newest runs, newest first."""
        return self._runs.newest(limit)

    def run(self, run_id: str) -> StoredRun:
        """A run by its id, the start of its id, or "latest". Raises StoreError where that names none or several."""
        return self._runs.run(self._runs.row(run_id))

    def get_previous_run(self, run_id: str) -> StoredRun | None:
        """The newest run before this one that judged cases of one of its sets by the same target."""
        return self._runs.get_previous_run(self._runs.row(run_id))

    def get_newest_judged_run(self) -> StoredRun | None:
        """The newest run that judged a case; None if there is none."""
        return self._runs.newest_judged()

    def jobs(self, run_id: str) -> list[StoredJob]:
        """The jobs of a run in the order in which they ended, without metrics and executions."""
        return self._jobs(f"{LIGHT} {WITH_RUN} WHERE job.run = ? ORDER BY job.id", (self._runs.row(run_id),))

    def results(self, run_id: str) -> Iterator[CaseResult]:
        """The results of a run in the order in which they ended.

        A result whose trace has been forgotten has an execution without turns; one whose scores are, no metrics.
        """
        run = self._runs.row(run_id)
        return self._results(f"{FULL} {WITH_RESULT} WHERE job.run = ? ORDER BY job.id", (run,))

    def result(self, run_id: str, job: JobKey) -> CaseResult | None:
        """One result of a run; None where the run has none of that job."""
        return next(self._results(f"{FULL} {WITH_RESULT} {ONE}", self._get_job_values(run_id, job)), None)

    def metric_scores(self, run_id: str, job: JobKey) -> MetricScores:
        """What the metrics of one job of a run scored, without what its agent did. Nothing where they are forgotten."""
        query = f"SELECT score.metrics FROM job {WITH_SCORE} {ONE}"
        with self._database.translate_errors():
            (metrics,) = self._database.execute(query, self._get_job_values(run_id, job)).fetchone() or (None,)
        try:
            return () if metrics is None else history_codec.scores_from_blob(metrics)
        except history_codec.UNREADABLE as error:
            raise StoreError(self.path, f"the scores of {job.case} cannot be read: {error}") from error

    def scores(self, run_id: str) -> Iterator[StoredScores]:
        """The jobs of a run with their metrics, without what the agents did."""
        query = f"{SCORES} {WITH_RUN} {WITH_SCORE} WHERE job.run = ? ORDER BY job.id"
        return self._scores(query, (self._runs.row(run_id),))

    def get_scores(self, run_id: str, job: JobKey) -> StoredScores | None:
        """One job of a run with its metrics; None where the run has none of that job."""
        return next(self._scores(f"{SCORES} {WITH_RUN} {WITH_SCORE} {ONE}", self._get_job_values(run_id, job)), None)

    def latest_scores(self, target: str, eval_set: str | None = None) -> Iterator[StoredScores]:
        """For every case of a target (of one of its sets) the jobs of the newest run that judged it, with metrics.

        Of a case that no run has judged, those of the newest in which it was played.
        """
        names = [history_codec.name_to_sql(name) for name in (target, eval_set) if name is not None]
        part = "job.target = ?" if eval_set is None else "job.target = ? AND job.eval_set = ?"
        query = f"{SCORES} {WITH_RUN} {WITH_SCORE} {select_newest(part, of=NEWEST_JUDGED)} ORDER BY job.id"
        return self._scores(query, tuple(names))

    def list_executions(self, case: CaseKey, limit: int = 100) -> list[StoredScores]:
        """What became of one case in every run and repeat, newest first."""
        query = f"{SCORES} {WITH_RUN} {WITH_SCORE} WHERE {IS_CASE} ORDER BY +job.id DESC LIMIT ?"
        return list(self._scores(query, (*key_to_sql(case), limit)))

    def list_dataset_runs(self, limit: int = 50) -> list[tuple[str, StoredRun]]:
        """The names of datasets that were judged by themselves, each with its newest run that says something of a row.

        They are their own target and set: see `plan_recordings`. Newest first.
        """
        with self._database.translate_errors():
            found = self._database.execute(NEWEST_OF_DATASETS, (limit,)).fetchall()
            return [(history_codec.name_from_sql(name), self._runs.run(run)) for name, run in found]

    def list_runs_of_target(self, target: str, eval_set: str | None = None, *, limit: int = 50) -> list[RunPart]:
        """The newest runs that had cases of a target (of one of its sets), newest first, counting only those cases."""
        return self._runs.list_runs_of_target(target, eval_set, limit=limit)

    def earlier_statuses(self, case: CaseKey, run_id: str, *, limit: int = 10) -> list[list[CaseStatus]]:
        """How the repeats of a case ended in the runs before this one that ran it, the newest of them first."""
        rows = self._list_statuses(case, self._runs.row(run_id), limit)
        return [[CaseStatus(status) for status in statuses.split(",")] for (statuses,) in rows]

    def finished_jobs(self, run_id: str) -> set[JobKey]:
        """The jobs of a run that need not run again: those with a verdict. ERROR is none."""
        return {job.key for job in self.jobs(run_id) if job.status in _DECIDED}

    def latest_jobs(self) -> dict[CaseKey, list[StoredJob]]:
        """For every case the jobs of the newest run in which it ran, by repeat, without metrics and executions."""
        return self._latest_jobs(select_newest())

    def latest_judged_jobs(self) -> dict[CaseKey, list[StoredJob]]:
        """The same of the newest run that judged it; of a case that no run has judged, of the newest that played it."""
        return self._latest_jobs(select_newest(of=NEWEST_JUDGED))

    def latest_results(self, keys: Collection[CaseKey] | None = None) -> dict[CaseKey, list[CaseResult]]:
        """For every case (of `keys`) its results, by repeat, in the newest run in which it ran."""
        found: dict[CaseKey, list[CaseResult]] = {}
        if keys is None:
            with pause_gc():
                for result in self._results(f"{FULL} {WITH_RESULT} {select_newest()} ORDER BY job.repeat, job.id", ()):
                    found.setdefault(result.case, []).append(result)
            return found
        return self._get_latest_results(keys, NEWEST_OF_ONE)

    def latest_judged_results(self, keys: Collection[CaseKey]) -> dict[CaseKey, list[CaseResult]]:
        """For every case of `keys` its results, by repeat, in the newest run that judged it.

        Of a case that no run has judged, those of the newest in which it was played.
        """
        return self._get_latest_results(keys, NEWEST_JUDGED_OF_ONE)

    def last_verdicts(self) -> list[StoredVerdict]:
        """For every case, what reaches its agent and what judges it, the newest results; newest first.

        What is not judged yet stands before them: whatever judges it or comes after it takes its place.
        """
        with self._database.translate_errors():
            unjudged = [read_verdict(*row) for row in self._database.execute(UNJUDGED_VERDICTS)]
            judged = [read_verdict(*row) for row in self._database.execute(select_latest_verdicts(_VERDICTS_KEPT))]
            return [*(each._replace(is_judged=False) for each in unjudged), *judged]

    def dependencies(self, sets: Collection[int]) -> Iterator[tuple[int, Dependency]]:
        """The rows of sets by their numbers (see StoredVerdict), with the number of each."""
        with self._database.translate_errors():
            yield from read_dependencies(self._database, sets)

    def list_agent_written_files(self) -> list[AgentWrittenFile]:
        """In which states executions and custom metrics that are stored have left files, and when."""
        with self._database.translate_errors():
            return list(read_agent_written_files(self._database))

    def list_folder_dependencies(self) -> frozenset[str]:
        """The folders in which anything stored depends on the names."""
        with self._database.translate_errors():
            return frozenset(read_folder_dependencies(self._database))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get_job_values(self, run_id: str, job: JobKey) -> tuple[Any, ...]:
        """What ONE takes."""
        return (self._runs.row(run_id), *key_to_sql(job.case), job.repeat)

    def _write_jobs(
        self,
        run_id: str,
        jobs: Iterable[FinishedJob],
        insert: Callable[[str, int, Iterable[FinishedJob], float], Iterator[StoredVerdict]],
    ) -> Iterator[StoredVerdict]:
        """Write jobs of a run in one transaction."""
        run = self._runs.row(run_id)
        now = time.time()
        try:
            with self._database.transaction():
                return insert(run_id, run, jobs, now)
        except BaseException:  # whatever undid it: the sets of this transaction are not there after all
            self._writer.clear_cache()
            raise

    def _jobs(self, query: str, values: tuple[Any, ...]) -> list[StoredJob]:
        with self._database.translate_errors():
            return [read_job(*row) for row in self._database.execute(query, values)]

    def _latest_jobs(self, which: str) -> dict[CaseKey, list[StoredJob]]:
        found: dict[CaseKey, list[StoredJob]] = {}
        for job in self._jobs(f"{LIGHT} {WITH_RUN} {which} ORDER BY job.repeat, job.id", ()):
            found.setdefault(job.case, []).append(job)
        return found

    def _get_latest_results(self, keys: Collection[CaseKey], which: str) -> dict[CaseKey, list[CaseResult]]:
        found = {}
        for key in keys:
            names = key_to_sql(key)
            results = list(self._results(f"{FULL} {WITH_RESULT} {which} ORDER BY job.repeat", (*names, *names)))
            if results:
                found[key] = results
        return found

    def _list_statuses(self, case: CaseKey, before: int, limit: int) -> list[tuple[str]]:
        query = f"SELECT group_concat(status) FROM job WHERE {IS_CASE} AND {RAN} AND +run < ? GROUP BY run"
        with self._database.translate_errors():
            return self._database.execute(
                f"{query} ORDER BY run DESC LIMIT ?", (*key_to_sql(case), before, limit)
            ).fetchall()

    def _scores(self, query: str, values: tuple[Any, ...]) -> Iterator[StoredScores]:
        with self._database.translate_errors():
            for row in self._database.execute(query, values):
                try:
                    yield read_scores(*row)
                except history_codec.UNREADABLE as error:
                    raise StoreError(
                        self.path, f"the scores of {read_case_key(*row[:4])} cannot be read: {error}"
                    ) from error

    def _results(self, query: str, values: tuple[Any, ...]) -> Iterator[CaseResult]:
        with self._database.translate_errors():
            for row in self._database.execute(query, values):
                try:
                    yield read_result(*row)
                except history_codec.UNREADABLE as error:
                    case = read_case_key(*row[:4])
                    raise StoreError(self.path, f"the result of {case} cannot be read: {error}") from error
