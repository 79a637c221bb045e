"""Queries of the history, and the facts that their rows become."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AwareDatetime, Field

from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Quarantine
from workbench.model.facts import Fact, make_fast_constructor
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, MetricResult
from workbench.model.run_events import RunSummary
from workbench.store.history import history_codec
from workbench.store.history.history_schema import SHARD_OPTION

# Facts of the history, apart from the results themselves


class RunRecord(Fact):
    """The start of a run: all that is known before its first job.

    `criteria` are by eval set (its path relative to `root`), `versions` by package or program. `total` counts jobs
    (cases times repeats).
    """

    run_id: str
    started_at: AwareDatetime
    root: Path
    command: str = ""
    targets: tuple[str, ...] = ()
    criteria: dict[str, EvalConfig] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    total: int = 0


class StoredRun(RunRecord):
    """A run with its outcome so far.

    `ended` is false for a run that is still running, or whose process died. Its `summary` then counts the stored jobs,
    and `duration_seconds` is None. A resumed run keeps its first start, and its duration is the sum of all parts.
    """

    summary: RunSummary = RunSummary()
    duration_seconds: float | None = None
    interrupted: bool = False
    ended: bool = False


class ResultToStore(NamedTuple):
    """A result to store, with the hashes by which a later run knows whether it is current.

    `execution_key` covers the input of the agent; it is empty if the case could not be read. `scoring_key` covers the
    criteria. `target_variant` separates executions by different versions of a target (default: the target's name).
    `is_rescored`: the agent did not run, a stored execution is scored again. `is_recorded`: the same for recorded
    data, whose `execution_key` also covers what the agent did and what was expected. `lacks_baseline`: there was no
    earlier run to compare with.
    """

    result: CaseResult
    execution_key: str = ""
    scoring_key: str = ""
    target_variant: str | None = None
    is_rescored: bool = False
    is_recorded: bool = False
    lacks_baseline: bool = False


class StoredJob(NamedTuple):
    """A result without its metrics and execution, for lists of ten thousands.

    Times are those of `CaseResult`, keys and `lacks_baseline` those of `ResultToStore`. `failed_in_play`: an ERROR of a
    run without scoring. `misses_samples`: a verdict has fewer samples of a judge than requested. `is_replayed`: it
    rests on recorded answers of the agent's models. `quarantine` is that of `CaseResult`.
    """

    run_id: str
    key: JobKey
    status: CaseStatus
    duration_seconds: float
    agent_seconds: float
    failure: Failure | None
    finished_at: datetime
    execution_key: str
    scoring_key: str
    lacks_baseline: bool = False
    failed_in_play: bool = False
    misses_samples: bool = False
    is_replayed: bool = False
    quarantine: Quarantine | None = None

    @property
    def case(self) -> CaseKey:
        return self.key.case

    @property
    def hashes(self) -> tuple[str, str]:
        """The execution key and the scoring key."""
        return self.execution_key, self.scoring_key

    @property
    def is_only_played(self) -> bool:
        """True if the agent finished in a run without scoring, such as `workbench simulate`."""
        return self.status is CaseStatus.NOT_EVALUATED and not self.scoring_key

    @property
    def is_from_unscored_run(self) -> bool:
        """True if its run had no scoring, whether the agent finished or failed."""
        return self.is_only_played or self.failed_in_play


class UsedName(NamedTuple):
    """A name under which a case ran: its execution and scoring keys, and the ids of the first and the last job."""

    hashes: frozenset[tuple[str, str]]
    first: int
    last: int


class StoredVerdict(NamedTuple):
    """A result with the ids of its dependency sets.

    `execution` is the id of the execution, shared by all results that score it; None if the agent did not run.
    `dependencies` is the set of the execution; None means unknown. `scoring_dependencies` is the set of custom
    metrics; None means that scoring depended on the criteria only. `is_certain` is false if the record is incomplete or
    something changed while the agent ran. `started_at` is the start of the agent (seconds since 1970, UTC; 0 if it did
    not run). Without `is_judged` the execution is stored and its judges have not answered; they never will if the run
    was stopped.
    """

    job: StoredJob
    execution: int | None
    dependencies: int | None
    scoring_dependencies: int | None
    is_certain: bool
    started_at: float = 0.0
    is_judged: bool = True


class AgentWrittenFile(NamedTuple):
    """A file as an agent or custom metric left it.

    `started_at` and `recorded_at` are when the agent started and when its report arrived (seconds since 1970, UTC).
    `previous_fingerprint` is the state in which it read the file before; None if it wrote without reading.
    """

    path: str
    fingerprint: str
    recorded_at: float
    started_at: float
    previous_fingerprint: str | None = None


class StoredScores(NamedTuple):
    """A job with its metrics, to compare runs. `metrics` is empty if retention has deleted them."""

    job: StoredJob
    metrics: tuple[MetricResult, ...]


class RunPart(NamedTuple):
    """A run with the outcome of one target or set in it; `summary` counts jobs and has no metrics."""

    run: StoredRun
    summary: RunSummary


# Queries of the views (see `history_schema`), and the facts that their rows become

JOB = """
    target, eval_set, eval_id, occurrence, repeat, status, duration_seconds, agent_seconds, failure, run_id,
    finished_at, execution_key, scoring_key, lacks_baseline, status = 'ERROR' AND is_unscored, misses_samples,
    is_replayed, quarantine
"""
"""The columns of `read_job`."""
SCORES = f"{JOB}, metrics"
"""The columns of `read_scores`."""
VERDICT = f"{JOB}, execution, dependency_set, scoring_dependency_set, tainted, started_at"
"""The columns of `read_verdict`."""
RESULT = """
    target, eval_set, eval_id, occurrence, repeat, status, duration_seconds, agent_seconds, failure, eval_set_id,
    quarantine, metrics, data
"""
"""The columns of `read_result`."""
RUN = "SELECT id, record, summary, duration_seconds, interrupted FROM run"

IS_CASE = "target = ? AND eval_set = ? AND eval_id = ? AND occurrence = ?"
"""Takes the values of `key_to_sql`."""
IS_JOB = f"run = ? AND {IS_CASE} AND repeat = ?"
_WANTED_COLUMNS = "in_run, of_target, of_eval_set, of_eval_id, of_occurrence, of_repeat"
COPY_JOB = f"""
    INSERT OR REPLACE INTO job (run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, status,
        duration_seconds, agent_seconds, failure, finished_at, execution_key, scoring_key, lacks_baseline,
        misses_samples, is_replayed, quarantine, is_forgotten, execution, score)
    SELECT ?, ?, ?, ?, ?, ?, eval_set_id, status, duration_seconds, agent_seconds, failure, finished_at, execution_key,
        scoring_key, lacks_baseline, misses_samples, is_replayed, quarantine, is_forgotten, execution, score
    FROM job WHERE {IS_CASE} AND repeat = ? AND run = (SELECT id FROM run WHERE run_id = ?)
"""
"""Adds a job of one run to another run."""
SET_QUARANTINE = f"UPDATE job SET quarantine = ? WHERE {IS_JOB} AND quarantine IS NOT ?1"
RUNS_WITH_PREFIX = """
    SELECT id, run_id FROM run WHERE substr(run_id, 1, length(:name)) = :name ORDER BY id DESC LIMIT 6
"""
USED_NAMES = """
    SELECT target, eval_set, eval_id, occurrence, execution_key, scoring_key, min(id), max(id) FROM job
    WHERE target = ? AND eval_set = ? AND execution_key != '' GROUP BY eval_id, occurrence, execution_key, scoring_key
"""
"""The names and inputs of the cases that ran in a set."""
RENAMES = "SELECT former_id, eval_id FROM renamed_case WHERE eval_set = ?"
"""The former and the new ids of the cases of a set that were renamed."""
DURATIONS = f"""
    SELECT target, eval_set, eval_id, occurrence, duration_seconds FROM (
        SELECT job.*, row_number() OVER (
            PARTITION BY eval_set, eval_id, target, occurrence ORDER BY job.id DESC
        ) AS age
        FROM job_state AS job JOIN run ON run.id = job.run
        WHERE has_run AND NOT is_unscored AND CASE
            WHEN json_valid(run.record) THEN json_extract(run.record, '$.options.{SHARD_OPTION}') IS NULL END
    ) WHERE age <= ?
"""
"""The durations of the last scored jobs of each case in runs that are no shards."""
_IS_SAMPLE = "status IN ('PASSED', 'FAILED') AND NOT is_replayed AND execution_key != ''"
REPEATED_CASES = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM job WHERE {_IS_SAMPLE}
        GROUP BY target, eval_set, eval_id, occurrence, execution_key, scoring_key HAVING count(*) > 1
    )
"""
"""The number of cases that have several verdicts with equal input and criteria."""
MIXED_VERDICTS = f"""
    SELECT {VERDICT} FROM job_detail AS job WHERE id IN (
        SELECT job.id FROM job JOIN (
            SELECT target, eval_set, eval_id, occurrence, execution_key, scoring_key FROM job
            WHERE {_IS_SAMPLE} GROUP BY 1, 2, 3, 4, 5, 6 HAVING min(status) != max(status)
        ) USING (target, eval_set, eval_id, occurrence, execution_key, scoring_key)
        WHERE {_IS_SAMPLE}
    ) ORDER BY id DESC
"""
"""The verdicts on executions that asked models, of cases that passed and failed with equal input and criteria."""
NEWEST_OF_DATASETS = """
    SELECT target, max(run) FROM job_state WHERE target = eval_set AND has_run
    GROUP BY target ORDER BY max(run) DESC LIMIT ?
"""
"""The newest run of each dataset: a dataset is its own target and set."""
# The plus keeps SQLite from walking all jobs in this order instead of the few jobs of the case.
NEWEST = "+id DESC"
NEWEST_SCORED = "is_unscored, +id DESC"
"""Orders of jobs: the newest first, and the newest scored one before all unscored ones."""
LATEST_VERDICTS = f"""
    SELECT {VERDICT} FROM job_detail JOIN (
        SELECT id AS ranked, row_number() OVER (
            PARTITION BY target, execution_key, scoring_key, repeat ORDER BY id DESC
        ) AS age, row_number() OVER (
            PARTITION BY eval_set, eval_id, target, occurrence, repeat, execution_key ORDER BY id DESC
        ) AS age_in_case FROM job WHERE id IN (
            SELECT max(id) FROM job_state WHERE has_run AND NOT is_forgotten
            GROUP BY target, execution_key, scoring_key, repeat, coalesce(execution, -id)
        )
    ) ON id = ranked
    WHERE (age <= ? OR age_in_case = 1) AND (blob IS NOT NULL OR execution IS NULL AND NOT is_forgotten)
    ORDER BY id DESC
"""
"""The newest results by execution key and scoring key, newest first; at least the newest of each case.

Results without their trace are left out: they cannot be shown or scored again. A job without execution is a case that
could not be read. Of results that later runs reuse, only the last job counts.
"""


def select_jobs(columns: str, view: str, *, count: int) -> str:
    """Select several jobs of any runs. Each row begins with the position of its job.

    Takes for each job its position, the id of its run, the values of `key_to_sql` and its repeat.
    """
    jobs = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * count)
    return f"""
        WITH wanted (position, {_WANTED_COLUMNS}) AS (VALUES {jobs})
        SELECT position, {columns} FROM wanted CROSS JOIN {view}
        WHERE (run_id, target, eval_set, eval_id, occurrence, repeat) = ({_WANTED_COLUMNS})
    """


def select_newest_of_case(columns: str, order: str) -> str:
    """All repeats of a case in its newest run by `order`. Takes the values of `key_to_sql` twice."""
    return f"""
        SELECT {columns} FROM job_detail WHERE {IS_CASE} AND has_run
            AND run = (SELECT run FROM job_state WHERE {IS_CASE} AND has_run ORDER BY {order} LIMIT 1)
        ORDER BY repeat
    """


def select_newest(
    columns: str, *, part: str = "TRUE", prefers_scored: bool = False, is_replayed: bool | None = None
) -> str:
    """All repeats of each case in its newest run; `prefers_scored`: in its newest run that scored it, if any.

    `is_replayed`: only those that rest on recorded answers of models, or only the others.
    """
    sort = "TRUE" if is_replayed is None else f"is_replayed = {int(is_replayed)}"
    newest = "coalesce(max(id) FILTER (WHERE NOT is_unscored), max(id))" if prefers_scored else "max(id)"
    return f"""
        SELECT {columns} FROM (
            SELECT {newest} AS newest_id FROM job_state WHERE has_run AND {part} AND {sort}
            GROUP BY eval_set, eval_id, target, occurrence
        )
        JOIN (
            SELECT id AS last_id, run AS last_run, target AS last_target, eval_set AS last_eval_set,
                eval_id AS last_eval_id, occurrence AS last_occurrence
            FROM job
        ) ON last_id = newest_id
        JOIN job_detail ON run = last_run AND target = last_target AND eval_set = last_eval_set
            AND eval_id = last_eval_id AND occurrence = last_occurrence
        WHERE has_run AND {sort}
    """


_STATUSES = {status.value: status for status in CaseStatus}  # in a third of the time


def read_verdict(*row: Any) -> StoredVerdict:
    """Read the columns of VERDICT."""
    *job, execution, dependencies, scoring_dependencies, tainted, started_at = row
    return StoredVerdict(read_job(*job), execution, dependencies, scoring_dependencies, tainted == 0, started_at or 0.0)


def read_job(*row: Any) -> StoredJob:
    """Read the columns of JOB."""
    target, eval_set, eval_id, occurrence, repeat, status, duration_seconds, agent_seconds, failure, *rest = row
    (
        run_id, finished_at, execution_key, scoring_key, lacks_baseline, failed_in_play, misses_samples, is_replayed,
        quarantine,
    ) = rest  # fmt: skip
    return StoredJob(
        run_id=run_id,
        key=JobKey(case=read_case_key(target, eval_set, eval_id, occurrence), repeat=repeat),
        status=_STATUSES.get(status) or CaseStatus(status),
        duration_seconds=duration_seconds,
        agent_seconds=agent_seconds,
        failure=history_codec.failure_from_text(failure),
        finished_at=datetime.fromtimestamp(finished_at, UTC),
        execution_key=execution_key,
        scoring_key=scoring_key,
        lacks_baseline=bool(lacks_baseline),
        failed_in_play=bool(failed_in_play),
        misses_samples=bool(misses_samples),
        is_replayed=bool(is_replayed),
        quarantine=history_codec.quarantine_from_text(quarantine),
    )


def read_scores(*row: Any) -> StoredScores:
    """Read the columns of SCORES."""
    *job, metrics = row
    return StoredScores(read_job(*job), () if metrics is None else history_codec.metrics_from_blob(metrics))


def read_numbers(*row: Any) -> tuple[StoredJob, Sequence[history_codec.MetricNumbers]]:
    """Read the columns of SCORES, without the turns and details of metrics."""
    *job, metrics = row
    return read_job(*job), () if metrics is None else history_codec.numbers_from_blob(metrics)


def read_result(*row: Any) -> CaseResult:
    """Read the columns of RESULT."""
    target, eval_set, eval_id, occurrence, repeat, status, duration_seconds, agent_seconds, failure, *rest = row
    eval_set_id, quarantine, metrics, blob = rest
    key = read_case_key(target, eval_set, eval_id, occurrence)
    execution, expected = (
        (Execution(), None) if blob is None else history_codec.execution_from_blob(blob, eval_id=key.eval_id)
    )
    return CaseResult.construct_unvalidated(
        case=key,
        eval_set_id=history_codec.name_from_sql(eval_set_id),
        repeat=repeat,
        status=_STATUSES.get(status) or CaseStatus(status),
        duration_seconds=duration_seconds,
        agent_seconds=agent_seconds,
        failure=history_codec.failure_from_text(failure),
        metrics=() if metrics is None else history_codec.metrics_from_blob(metrics),
        execution=execution,
        expected_by_row=expected,
        quarantine=history_codec.quarantine_from_text(quarantine),
    )


def key_to_sql(case: CaseKey) -> tuple[str | bytes, str | bytes, str | bytes, int]:
    """Return the values that IS_CASE takes."""
    target, eval_set, eval_id = case.target, case.eval_set, case.eval_id
    if target.isascii() and eval_set.isascii() and eval_id.isascii():  # nearly always, and three times as fast
        return target, eval_set, eval_id, case.occurrence
    to_sql = history_codec.name_to_sql
    return to_sql(target), to_sql(eval_set), to_sql(eval_id), case.occurrence


def read_case_key(target: str | bytes, eval_set: str | bytes, eval_id: str | bytes, occurrence: int) -> CaseKey:
    """Read the first four columns of every query."""
    from_sql = history_codec.name_from_sql
    return _make_case_key(
        {
            "target": from_sql(target),
            "eval_set": from_sql(eval_set),
            "eval_id": from_sql(eval_id),
            "occurrence": occurrence,
        }
    )


_make_case_key = make_fast_constructor(CaseKey, set(CaseKey.model_fields))
