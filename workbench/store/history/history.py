"""`History`: the runs of a project and their results, stored and read."""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from workbench.model.evalset import Quarantine
from workbench.model.facts import pause_gc
from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricScores
from workbench.model.run_events import RunSummary
from workbench.model.text import one_line
from workbench.store.errors import StoreError
from workbench.store.history import history_codec
from workbench.store.history.history_queries import (
    COPY_JOB,
    DURATIONS,
    IS_CASE,
    IS_JOB,
    JOB,
    LATEST_VERDICTS,
    MIXED_VERDICTS,
    NEWEST,
    NEWEST_OF_DATASETS,
    NEWEST_SCORED,
    RENAMES,
    REPEATED_CASES,
    RESULT,
    RUN,
    RUNS_WITH_PREFIX,
    SCORES,
    SET_QUARANTINE,
    USED_NAMES,
    VERDICT,
    AgentWrittenFile,
    ResultToStore,
    RunPart,
    RunRecord,
    StoredJob,
    StoredRun,
    StoredScores,
    StoredVerdict,
    UsedName,
    key_to_sql,
    read_case_key,
    read_job,
    read_numbers,
    read_result,
    read_scores,
    read_verdict,
    select_jobs,
    select_newest,
    select_newest_of_case,
)
from workbench.store.history.history_schema import Database, open_database
from workbench.store.history.history_writer import (
    ResultWriter,
    copy_results,
    delete_old_results,
    read_agent_written_files,
    read_dependencies,
    read_folder_dependencies,
)

LATEST = "latest"

_RUNS_SEEN = 500  # of a target, of which a reader accepts some


class RunTable:
    """The runs of a history, without their results. Every method raises StoreError if the file cannot be used.

    A run is named by its id, a prefix of its id, or "latest".
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[str, int] = {}

    def begin_run(self, record: RunRecord) -> None:
        """Store a run before its first job. A resumed run keeps its jobs, its first start and its duration so far."""
        with self._database.transaction():
            execute, name = self._database.execute, (record.run_id,)
            before = execute("SELECT record FROM run WHERE run_id = ?", name).fetchone()
            if before is not None:
                with contextlib.suppress(*history_codec.UNREADABLE):  # reading that run reports it
                    started = datetime.fromisoformat(history_codec.load_fact(before[0])["started_at"])
                    record = record.model_copy(update={"started_at": started})
            execute(
                "INSERT INTO run (run_id, record) VALUES (?, ?) ON CONFLICT (run_id) DO UPDATE SET "
                "record = excluded.record, summary = NULL, interrupted = 0",
                (*name, history_codec.fact_to_text(record)),
            )

    def end_run(self, run_id: str, summary: RunSummary, *, duration_seconds: float, interrupted: bool) -> None:
        """Store the outcome of a run. `duration_seconds` is that since it began or was resumed."""
        row = self._find_row(run_id)
        with self._database.transaction():
            self._database.execute(
                "UPDATE run SET summary = ?, duration_seconds = coalesce(duration_seconds, 0) + ?, interrupted = ? "
                "WHERE id = ?",
                (history_codec.fact_to_text(summary), duration_seconds, interrupted, row),
            )

    def run(self, run_id: str) -> StoredRun:
        """Return one run. Raises StoreError if no run or several runs match."""
        return self._get_run(self._find_row(run_id))

    def runs(self, limit: int = 50) -> list[StoredRun]:
        """Return the newest runs, newest first."""
        with self._database.translate_errors():
            rows = self._database.execute(f"{RUN} ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
            return [self._make_stored_run(*row) for row in rows]

    @property
    def has_runs(self) -> bool:
        with self._database.translate_errors():
            return self._database.execute("SELECT 1 FROM run LIMIT 1").fetchone() is not None

    def get_previous_run(self, run_id: str) -> StoredRun | None:
        """Return the newest run before this one that scored cases of one of its sets with the same target."""
        row = self._find_row(run_id)
        same = "(target, eval_set) IN (SELECT DISTINCT target, eval_set FROM job WHERE run = ?)"
        return self._find_newest_scored(f"{same} AND run < ?", (row, row))

    def get_newest_judged_run(self) -> StoredRun | None:
        """Return the newest run that scored a case; None if no run did."""
        return self._find_newest_scored("TRUE", ())

    def list_runs_of_target(
        self,
        target: str,
        eval_set: str | None = None,
        *,
        limit: int = 50,
        unless_command: str | None = None,
        accept: Callable[[StoredRun], bool] = lambda _: True,
    ) -> list[RunPart]:
        """Return the newest runs with cases of a target (of one of its sets), newest first; only these are counted.

        Runs whose command begins with `unless_command` are left out. Of the others, only runs that `accept` accepts are
        counted and returned, at most `limit`.
        """
        part, names = _select_part(target, eval_set)
        is_wanted = f"EXISTS (SELECT 1 FROM job WHERE job.run = run.id AND {part})"
        values = [*names]
        if unless_command is not None:
            is_wanted += " AND NOT (json_valid(record) AND instr(json_extract(record, '$.command'), ?) IS 1)"
            values.append(unless_command)
        with self._database.translate_errors():
            rows = self._database.execute(f"{RUN} WHERE {is_wanted} ORDER BY id DESC", values)
            parts: list[RunPart] = []
            for row in itertools.islice(rows, _RUNS_SEEN):
                run = self._make_stored_run(*row)
                if accept(run):
                    counts = self._count_jobs(f"run = ? AND {part}", (row[0], *names))
                    parts.append(RunPart(run, RunSummary.model_validate(counts)))
                if len(parts) == limit:
                    break
            return parts

    def list_dataset_runs(self, limit: int = 50) -> list[tuple[str, StoredRun]]:
        """Return the names of recorded datasets, each with its newest run that has a result of a row, newest first."""
        with self._database.translate_errors():
            found = self._database.execute(NEWEST_OF_DATASETS, (limit,)).fetchall()
            return [(history_codec.name_from_sql(name), self._get_run(row)) for name, row in found]

    def _find_row(self, run_id: str) -> int:
        """Return the row id of a run. Raises StoreError if no run or several runs match."""
        known = self._rows.get(run_id)
        if known is not None:
            return known
        rows = self._find_rows(run_id)
        if not rows:
            missing = "there are no runs yet" if run_id == LATEST else f"there is no run {one_line(run_id, width=60)!r}"
            raise StoreError(self._database.path, missing)
        if len(rows) > 1:
            names = ", ".join(name for _, name in rows[:5]) + (", …" if len(rows) > 5 else "")
            problem = f"{one_line(run_id, width=60)!r} matches several runs: {names}"
            raise StoreError(self._database.path, problem)
        row, name = rows[0]
        if name == run_id:
            self._rows[run_id] = row
        return int(row)

    def _find_rows(self, run_id: str) -> list[tuple[int, str]]:
        execute = self._database.execute
        with self._database.translate_errors():
            if run_id == LATEST:
                return execute("SELECT id, run_id FROM run ORDER BY id DESC LIMIT 1").fetchall()
            values = {"name": history_codec.name_to_sql(run_id)}
            exact = execute("SELECT id, run_id FROM run WHERE run_id = :name", values).fetchall()
            return exact or execute(RUNS_WITH_PREFIX, values).fetchall()

    def _find_newest_scored(self, condition: str, values: tuple[int, ...]) -> StoredRun | None:
        """Return the newest run with a scored job that meets the condition."""
        scored = f"EXISTS (SELECT 1 FROM job_state WHERE run = run_row AND NOT is_unscored AND {condition})"
        query = f"SELECT run_row FROM (SELECT id AS run_row FROM run) WHERE {scored} ORDER BY run_row DESC LIMIT 1"
        with self._database.translate_errors():
            found = self._database.execute(query, values).fetchone()
            return None if found is None else self._get_run(found[0])

    def _get_run(self, row: int) -> StoredRun:
        with self._database.translate_errors():
            return self._make_stored_run(*self._database.execute(f"{RUN} WHERE id = ?", (row,)).fetchone())

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

    def _count_jobs(self, condition: str, values: tuple[Any, ...]) -> dict[str, int]:
        """Count jobs by status, as data of a RunSummary."""
        in_quarantine = "status = 'FAILED' AND json_extract(quarantine, '$.is_expired') IS 0"
        word = f"CASE WHEN {in_quarantine} THEN 'quarantined' ELSE lower(status) END"
        query = f"SELECT {word}, count(*), sum(misses_samples) FROM job WHERE {condition} GROUP BY 1"
        rows = self._database.execute(query, values).fetchall()
        total, partly_judged = sum(count for _, count, _ in rows), sum(missing for _, _, missing in rows)
        return {**{status: count for status, count, _ in rows}, "total": total, "partly_judged": partly_judged}


def _select_part(target: str, eval_set: str | None) -> tuple[str, tuple[str | bytes, ...]]:
    """Return the condition for jobs of a target, or of one of its sets, with its values."""
    if eval_set is None:
        return "target = ?", (history_codec.name_to_sql(target),)
    return "target = ? AND eval_set = ?", (history_codec.name_to_sql(target), history_codec.name_to_sql(eval_set))


_VERDICTS_KEPT = 5
_JOBS_PER_COPY = 200
_JOBS_PER_QUERY = 20  # with their traces; more take no less time
_DURATIONS_OF_CASE = 20
_Read = TypeVar("_Read")
_DECIDED = (CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED)


class History(RunTable):
    """The history of one project.

    One thread at a time may use an instance; another process may write at the same time.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._writer = ResultWriter(database)

    @classmethod
    def open(cls, root: Path) -> History:
        """Open the history of a project, and create it if it does not exist. Raises StoreError."""
        return cls(open_database(root))

    @property
    def path(self) -> Path:
        return self._database.path

    def pop_notice(self) -> str | None:
        """Return once what the user should know: that the file was damaged, and where it was moved to.

        An earlier reader in this process, which continued without the history, may have found the damage.
        """
        return self._database.pop_notice()

    @property
    def is_gone(self) -> bool:
        """True if the file was deleted, moved or replaced since it was opened, so that writes would be lost."""
        return self._database.is_gone

    # Writing

    def finish_job(
        self,
        run_id: str,
        result: CaseResult,
        *,
        execution_key: str = "",
        scoring_key: str = "",
        target_variant: str | None = None,
    ) -> None:
        """Store one result; it replaces an earlier one of the same job. See ResultToStore for the keys."""
        self.finish_jobs(run_id, [ResultToStore(result, execution_key, scoring_key, target_variant)])

    def finish_jobs(self, run_id: str, jobs: Iterable[ResultToStore]) -> Iterator[StoredVerdict]:
        """Store results in one transaction, for thousands of them. The verdicts are built as they are iterated."""
        return self._write_jobs(run_id, jobs, self._writer.insert)

    def copy_jobs(self, source: History, run_id: str) -> None:
        """Copy the jobs of a run from another history into the same run here, which must exist.

        Dependencies are not copied, so that no copied result counts as current.
        """
        jobs = {job.key: job for job in source.jobs(run_id)}
        with_keys = (
            ResultToStore(result, job.execution_key, job.scoring_key, lacks_baseline=job.lacks_baseline)
            for result in source.results(run_id)
            if (job := jobs.get(JobKey(case=result.case, repeat=result.repeat))) is not None
        )
        while batch := list(itertools.islice(with_keys, _JOBS_PER_COPY)):
            self.finish_jobs(run_id, batch)

    def copy_run(self, source: Path, run_id: str, new_run_id: str) -> None:
        """Copy the results of a run in another history into a run here, with traces and dependencies.

        `source` must have the current format, and may be open.
        """
        self._database.execute("ATTACH ? AS source", (str(source),))
        try:
            with self._database.transaction():
                copy_results(self._database, run_id, self._find_row(new_run_id))
        finally:
            self._writer.clear_cache()
            self._database.execute("DETACH source")

    def store_unjudged(self, run_id: str, jobs: Iterable[ResultToStore]) -> Iterator[StoredVerdict]:
        """Store executions before their judges are asked, so that an interruption does not lose them.

        They have no verdict, and are no jobs of the run before `finish_jobs`.
        """
        return self._write_jobs(run_id, jobs, self._writer.insert_unjudged)

    def reuse_results(self, run_id: str, jobs: Mapping[JobKey, tuple[str, JobKey]]) -> None:
        """Add results of earlier runs to this run. `jobs` has the earlier run and job for each job of this run.

        Results that no longer exist are left out.
        """
        run = self._find_row(run_id)
        with self._database.transaction():
            for job, (earlier, source) in jobs.items():
                new = (run, *key_to_sql(job.case), job.repeat)
                old = (*key_to_sql(source.case), source.repeat, history_codec.name_to_sql(earlier))
                self._database.execute(COPY_JOB, (*new, *old))

    def set_quarantines(self, run_id: str, quarantines: Mapping[JobKey, Quarantine | None]) -> None:
        """Set the quarantine of stored results of a run, which counts from now on."""
        run = self._find_row(run_id)
        with self._database.transaction():
            for job, quarantine in quarantines.items():
                text = None if quarantine is None else history_codec.fact_to_text(quarantine)
                self._database.execute(SET_QUARANTINE, (text, run, *key_to_sql(job.case), job.repeat))

    def store_renames(self, eval_set: str, renames: Iterable[tuple[str, str]]) -> None:
        """Store that cases of a set got other ids: pairs of the old and the new one, in this order."""
        to_sql = history_codec.name_to_sql
        with self._database.transaction():
            for names in renames:
                values = to_sql(eval_set), *map(to_sql, names)
                self._database.execute("DELETE FROM renamed_case WHERE eval_set = ?1 AND former_id = ?3", values)
                self._database.execute("INSERT OR REPLACE INTO renamed_case VALUES (?1, ?2, ?3)", values)

    def delete_old_results(self, run_id: str) -> None:
        """Delete what the rules of retention do not keep after this run, the newest.

        Nothing is read afterwards and errors are not reported, so a damaged file stays where it is.
        """
        self._database.keep_damaged_file()
        delete_old_results(self._database, self._find_row(run_id))
        self._writer.clear_cache()

    # Reading one run

    def jobs(self, run_id: str) -> list[StoredJob]:
        """Return the jobs of a run in the order in which they ended, without metrics and executions."""
        query = f"SELECT {JOB} FROM job_detail WHERE run = ? ORDER BY id"
        return self._read_rows(query, (self._find_row(run_id),), read_job)

    def finished_jobs(self, run_id: str) -> set[JobKey]:
        """Return the jobs of a run that have a verdict and need no rerun. ERROR is no verdict."""
        return {job.key for job in self.jobs(run_id) if job.status in _DECIDED}

    def results(self, run_id: str) -> Iterator[CaseResult]:
        """Yield the results of a run in the order in which they ended.

        If retention has deleted the trace, the execution has no turns; if it has deleted the scores, no metrics.
        """
        query = f"SELECT {RESULT} FROM job_detail WHERE run = ? ORDER BY id"
        return self._iterate_results(query, (self._find_row(run_id),))

    def result(self, run_id: str, job: JobKey) -> CaseResult | None:
        """Return one result of a run; None if the run has no such job."""
        query = f"SELECT {RESULT} FROM job_detail WHERE {IS_JOB}"
        return next(self._iterate_results(query, self._get_job_values(run_id, job)), None)

    def find_results(self, jobs: Sequence[tuple[str, JobKey]]) -> Iterator[CaseResult | None]:
        """Yield the results of many jobs, each given with its run; None if it is not stored or cannot be read."""
        return (self._read_found(row, read_result) for row in self._find_jobs(RESULT, "job_detail", jobs))

    def find_execution_data(
        self, jobs: Sequence[tuple[str, JobKey]], *, is_judged: bool = True
    ) -> Iterator[Mapping[str, Any] | None]:
        """Yield the JSON data of executions without building them, which takes a fifth of the time.

        None if an execution is not stored or cannot be read.
        """
        view = "job_detail" if is_judged else "unjudged_detail"

        def read(blob: bytes | None) -> Mapping[str, Any] | None:
            return None if blob is None else history_codec.data_from_blob(blob)

        return (self._read_found(row, read) for row in self._find_jobs("data", view, jobs))

    def find_metric_scores(self, jobs: Sequence[tuple[str, JobKey]]) -> Iterator[MetricScores | None]:
        """Yield only the scores of many jobs; None also if retention has deleted them."""

        def read(metrics: bytes | None) -> MetricScores | None:
            return None if metrics is None else history_codec.scores_from_blob(metrics)

        return (self._read_found(row, read) for row in self._find_jobs("metrics", "job_detail", jobs))

    def scores(self, run_id: str) -> Iterator[StoredScores]:
        """Yield the jobs of a run with their metrics, without executions."""
        query = f"SELECT {SCORES} FROM job_detail WHERE run = ? ORDER BY id"
        return self._iterate_rows(query, (self._find_row(run_id),), read_scores)

    def numbers(self, run_id: str) -> Iterator[tuple[StoredJob, Sequence[history_codec.MetricNumbers]]]:
        """Yield the jobs of a run, each with the score, threshold and status of its metrics."""
        query = f"SELECT {SCORES} FROM job_detail WHERE run = ? ORDER BY id"
        return self._iterate_rows(query, (self._find_row(run_id),), read_numbers)

    def get_scores(self, run_id: str, job: JobKey) -> StoredScores | None:
        """Return one job of a run with its metrics; None if the run has no such job."""
        query = f"SELECT {SCORES} FROM job_detail WHERE {IS_JOB}"
        return next(self._iterate_rows(query, self._get_job_values(run_id, job), read_scores), None)

    def list_unjudged_jobs(self, run_id: str) -> dict[JobKey, str]:
        """Return the jobs of a run with an execution and no verdict yet, with their execution keys."""
        query = f"SELECT {VERDICT} FROM unjudged_detail WHERE run = ?"
        found = self._read_rows(query, (self._find_row(run_id),), read_verdict)
        return {each.job.key: each.job.execution_key for each in found}

    def find_unjudged_results(self, jobs: Sequence[tuple[str, JobKey]]) -> Iterator[CaseResult | None]:
        """Yield these jobs as results that are not evaluated and have no metrics; None if it is not such a job."""
        return (self._read_found(row, read_result) for row in self._find_jobs(RESULT, "unjudged_detail", jobs))

    @property
    def has_unjudged(self) -> bool:
        """True if any run has such a job."""
        with self._database.translate_errors():
            return self._database.execute("SELECT 1 FROM unjudged LIMIT 1").fetchone() is not None

    # Reading over all runs

    def latest_jobs(self) -> dict[CaseKey, list[StoredJob]]:
        """Return for every case the jobs of its newest run, by repeat, without metrics and executions."""
        return self._get_latest_jobs(select_newest(JOB))

    def latest_jobs_by_source(self, *, is_replayed: bool) -> dict[CaseKey, list[StoredJob]]:
        """Return the same of jobs that rest on recorded answers of models, or of those that asked them live."""
        return self._get_latest_jobs(select_newest(JOB, is_replayed=is_replayed))

    def latest_judged_jobs(self) -> dict[CaseKey, list[StoredJob]]:
        """Return the same from the newest run that scored the case, else from its newest run without scoring."""
        return self._get_latest_jobs(select_newest(JOB, prefers_scored=True))

    def latest_scores(self, target: str, eval_set: str | None = None) -> Iterator[StoredScores]:
        """Yield for every case of a target (of one of its sets) the jobs of the newest run that scored it.

        For a case that no run scored, yield those of its newest run without scoring.
        """
        part, names = _select_part(target, eval_set)
        query = f"{select_newest(SCORES, part=part, prefers_scored=True)} ORDER BY id"
        return self._iterate_rows(query, names, read_scores)

    def latest_results(self, keys: Collection[CaseKey] | None = None) -> dict[CaseKey, list[CaseResult]]:
        """Return for every case (of `keys`) the results of its newest run, by repeat."""
        if keys is not None:
            return self._get_latest_results(keys, NEWEST)
        found: dict[CaseKey, list[CaseResult]] = {}
        with pause_gc():
            for result in self._iterate_results(f"{select_newest(RESULT)} ORDER BY repeat, id", ()):
                found.setdefault(result.case, []).append(result)
        return found

    def latest_judged_results(self, keys: Collection[CaseKey]) -> dict[CaseKey, list[CaseResult]]:
        """Return for every case of `keys` the results of the newest run that scored it, by repeat.

        For a case that no run scored, return those of its newest run without scoring.
        """
        return self._get_latest_results(keys, NEWEST_SCORED)

    def list_executions(self, case: CaseKey, limit: int = 100) -> list[StoredScores]:
        """Return the jobs of one case in all runs and repeats with their metrics, newest first."""
        query = f"SELECT {SCORES} FROM job_detail WHERE {IS_CASE} ORDER BY +id DESC LIMIT ?"
        return list(self._iterate_rows(query, (*key_to_sql(case), limit), read_scores))

    def list_used_names(self, target: str, eval_set: str) -> dict[CaseKey, UsedName]:
        """Return the names under which cases of a set ran, with their inputs."""
        found: dict[CaseKey, UsedName] = {}
        values = history_codec.name_to_sql(target), history_codec.name_to_sql(eval_set)
        with self._database.translate_errors():
            for *name, execution_key, scoring_key, first, last in self._database.execute(USED_NAMES, values):
                key = read_case_key(*name)
                known = found.get(key, UsedName(frozenset(), first, last))
                hashes = known.hashes | {(execution_key, scoring_key)}
                found[key] = UsedName(hashes, min(known.first, first), max(known.last, last))
        return found

    def get_renames(self, eval_set: str) -> dict[str, str]:
        """Return the new ids of cases of a set that were renamed, by their former ids."""
        from_sql, values = history_codec.name_from_sql, (history_codec.name_to_sql(eval_set),)
        with self._database.translate_errors():
            return {from_sql(old): from_sql(new) for old, new in self._database.execute(RENAMES, values)}

    def compute_durations(self) -> dict[CaseKey, float]:
        """Return the median duration of every case in its last runs, in seconds.

        Shards do not count: their results are in this file on some machines and not on others.
        """
        found: dict[CaseKey, list[float]] = {}
        with self._database.translate_errors():
            for *name, seconds in self._database.execute(DURATIONS, (_DURATIONS_OF_CASE,)):
                found.setdefault(read_case_key(*name), []).append(seconds)
        return {case: statistics.median(seconds) for case, seconds in found.items()}

    def earlier_statuses(self, case: CaseKey, run_id: str, *, limit: int = 10) -> list[list[CaseStatus]]:
        """Return the statuses of a case, by repeat, in the earlier runs that ran it, newest run first."""
        query = f"""
            SELECT group_concat(status) FROM job_state WHERE {IS_CASE} AND has_run AND +run < ?
            GROUP BY run ORDER BY run DESC LIMIT ?
        """
        values = (*key_to_sql(case), self._find_row(run_id), limit)
        with self._database.translate_errors():
            rows = self._database.execute(query, values).fetchall()
        return [[CaseStatus(status) for status in statuses.split(",")] for (statuses,) in rows]

    def last_verdicts(self) -> list[StoredVerdict]:
        """Return the newest results of every case by execution key and scoring key, newest first.

        Executions that are not judged yet come before them: a verdict on them, or a later one, takes precedence.
        """
        unjudged = self._read_rows(f"SELECT {VERDICT} FROM unjudged_detail", (), read_verdict)
        judged = self._read_rows(LATEST_VERDICTS, (_VERDICTS_KEPT,), read_verdict)
        return [*(each._replace(is_judged=False) for each in unjudged), *judged]

    def find_newest_result(self, ignored_runs: Collection[str]) -> int | None:
        """Return the number of the newest result, those of the ignored runs left out; None if there is none."""
        query = """
            SELECT id FROM job WHERE run NOT IN (SELECT id FROM run WHERE run_id IN (SELECT value FROM json_each(?)))
            ORDER BY id DESC LIMIT 1
        """
        with self._database.translate_errors():
            found = self._database.execute(query, (json.dumps([*ignored_runs]),)).fetchone()
        return None if found is None else found[0]

    def list_verdicts(self, case: CaseKey) -> list[StoredVerdict]:
        """Return all results of a case that were scored and have not been forgotten, newest first."""
        query = f"""
            SELECT {VERDICT} FROM job_detail
            WHERE {IS_CASE} AND has_run AND NOT is_forgotten AND NOT is_unscored ORDER BY {NEWEST}
        """
        return self._read_rows(query, key_to_sql(case), read_verdict)

    def list_mixed_verdicts(self) -> list[StoredVerdict]:
        """Return the verdicts on cases that passed and failed with equal input and criteria, newest first.

        Verdicts on replayed executions are left out.
        """
        return self._read_rows(MIXED_VERDICTS, (), read_verdict)

    def count_repeated_cases(self) -> int:
        """Return how many cases have several verdicts with equal input and criteria, replayed ones left out."""
        with self._database.translate_errors():
            return int(self._database.execute(REPEATED_CASES).fetchone()[0])

    def get_newest_verdict(self, case: CaseKey) -> StoredVerdict | None:
        """Return the newest job of a case that ran, whatever its status; None if it never ran."""
        query = f"SELECT {VERDICT} FROM job_detail WHERE {IS_CASE} AND has_run ORDER BY {NEWEST} LIMIT 1"
        return next(iter(self._read_rows(query, key_to_sql(case), read_verdict)), None)

    def dependencies(self, sets: Collection[int]) -> Iterator[tuple[int, Dependency]]:
        """Yield the rows of dependency sets (see StoredVerdict), each with the id of its set."""
        with self._database.translate_errors():
            yield from read_dependencies(self._database, sets)

    def list_dependencies(self, run_id: str, kinds: Collection[DependencyKind]) -> set[Dependency]:
        """Return the dependencies of some kinds of all executions of a run."""
        with self._database.translate_errors():
            query = "SELECT DISTINCT dependency_set FROM job_detail WHERE run = ? AND dependency_set IS NOT NULL"
            sets = [row[0] for row in self._database.execute(query, (self._find_row(run_id),))]
            return {row for _, row in read_dependencies(self._database, sets) if row.kind in kinds}

    def list_agent_written_files(self) -> list[AgentWrittenFile]:
        """Return the states in which stored executions and custom metrics left files."""
        with self._database.translate_errors():
            return list(read_agent_written_files(self._database))

    def list_folder_dependencies(self) -> frozenset[str]:
        """Return the folders whose list of names any stored result depends on."""
        with self._database.translate_errors():
            return frozenset(read_folder_dependencies(self._database))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get_job_values(self, run_id: str, job: JobKey) -> tuple[Any, ...]:
        """Return the values that IS_JOB takes."""
        return (self._find_row(run_id), *key_to_sql(job.case), job.repeat)

    def _find_jobs(
        self, columns: str, view: str, jobs: Sequence[tuple[str, JobKey]]
    ) -> Iterator[tuple[Any, ...] | None]:
        """Yield the columns of each job; None if it is not stored.

        Only a few rows are in memory, and no query is open while the caller works.
        """
        for start in range(0, len(jobs), _JOBS_PER_QUERY):
            part = jobs[start : start + _JOBS_PER_QUERY]
            values = [
                value
                for position, (run_id, job) in enumerate(part)
                for value in (position, history_codec.name_to_sql(run_id), *key_to_sql(job.case), job.repeat)
            ]
            with self._database.translate_errors():
                rows = self._database.execute(select_jobs(columns, view, count=len(part)), values).fetchall()
            found = {position: row for position, *row in rows}
            yield from (found.get(position) for position in range(len(part)))

    @staticmethod
    def _read_found(row: tuple[Any, ...] | None, read: Callable[..., _Read | None]) -> _Read | None:
        """Read a row; None if there is none, or if it cannot be read."""
        try:
            return None if row is None else read(*row)
        except history_codec.UNREADABLE:
            return None

    def _write_jobs(
        self,
        run_id: str,
        jobs: Iterable[ResultToStore],
        insert: Callable[[str, int, Iterable[ResultToStore], float], Iterator[StoredVerdict]],
    ) -> Iterator[StoredVerdict]:
        """Write jobs of a run in one transaction."""
        run = self._find_row(run_id)
        now = time.time()
        try:
            with self._database.transaction():
                return insert(run_id, run, jobs, now)
        except BaseException:  # the transaction was rolled back, and with it new dependency sets
            self._writer.clear_cache()
            raise

    def _read_rows(self, query: str, values: tuple[Any, ...], read: Callable[..., _Read]) -> list[_Read]:
        """Read all rows of a query. Raises StoreError."""
        with self._database.translate_errors():
            try:
                return [read(*row) for row in self._database.execute(query, values)]
            except history_codec.UNREADABLE as error:
                raise self._make_error("a verdict", error) from error

    def _make_error(self, what: str, error: Exception) -> StoreError:
        """Make the error of stored data that this program did not write."""
        return StoreError(self._database.path, f"{what} cannot be read: {one_line(str(error), width=200)}")

    def _get_latest_jobs(self, query: str) -> dict[CaseKey, list[StoredJob]]:
        found: dict[CaseKey, list[StoredJob]] = {}
        for job in self._read_rows(f"{query} ORDER BY repeat, id", (), read_job):
            found.setdefault(job.case, []).append(job)
        return found

    def _get_latest_results(self, keys: Collection[CaseKey], order: str) -> dict[CaseKey, list[CaseResult]]:
        query = select_newest_of_case(RESULT, order)
        found = {}
        for key in keys:
            names = key_to_sql(key)
            if results := list(self._iterate_results(query, (*names, *names))):
                found[key] = results
        return found

    def _iterate_results(self, query: str, values: tuple[Any, ...]) -> Iterator[CaseResult]:
        return self._iterate_rows(query, values, read_result, what="the result")

    def _iterate_rows(
        self, query: str, values: tuple[Any, ...], read: Callable[..., _Read], *, what: str = "the scores"
    ) -> Iterator[_Read]:
        """Read rows that begin with the columns of a case, one after the other."""
        with self._database.translate_errors():
            for row in self._database.execute(query, values):
                try:
                    yield read(*row)
                except history_codec.UNREADABLE as error:
                    raise self._make_error(f"{what} of {read_case_key(*row[:4])}", error) from error
