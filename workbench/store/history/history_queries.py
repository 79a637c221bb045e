"""Queries of the history, and the facts that their rows give."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AwareDatetime, Field

from workbench.model.base import Fact
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, MetricResult
from workbench.model.run_events import RunSummary
from workbench.store.history import history_codec

# What goes into the history and what comes out, apart from the results themselves.

SCORES_OPTION = "scores"
"""The option of a run that says whether anything was to judge what its agents did. Older runs do not have it."""


class RunRecord(Fact):
    """What a run set out to do: known when it begins, kept with it for good.

    `criteria` are by eval set (its path relative to `root`), `versions` by what they are versions of, `total` counts
    jobs (cases times repeats).
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
    """A run with how it came out so far.

    `ended` is false for a run that goes on, or whose process died; its `summary` then counts the jobs that are stored,
    and `duration_seconds` is None. A run that went on began when it first did, and took the time of all its parts.
    """

    summary: RunSummary = RunSummary()
    duration_seconds: float | None = None
    interrupted: bool = False
    ended: bool = False


class FinishedJob(NamedTuple):
    """A result to store, with the hashes by which a later run knows whether it still holds.

    `execution_key` covers what reaches the agent; empty where the case could not even be read. `scoring_key` covers
    what it was judged by. `target_variant` tells apart executions of one case by different versions of a target; by
    default the target's name does. `is_rescored`: the agent did not run, what it did once is judged anew; `recorded`:
    so it is, and `execution_key` covers what the agent did and what was expected besides.
    `lacks_baseline`: it was to be compared with an earlier run, and there was none.
    """

    result: CaseResult
    execution_key: str = ""
    scoring_key: str = ""
    target_variant: str | None = None
    is_rescored: bool = False
    is_recorded: bool = False
    lacks_baseline: bool = False


class StoredJob(NamedTuple):
    """A result without its metrics and execution: enough for lists, and cheap by the ten thousand.

    Times are those of `CaseResult`, keys and `lacks_baseline` those of `FinishedJob`. `failed_in_play`: it is an ERROR
    of a run that judged nothing. `misses_samples`: a verdict on it rests on fewer samples of a judge than were asked
    for.
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

    @property
    def case(self) -> CaseKey:
        """The case of the job."""
        return self.key.case

    @property
    def hashes(self) -> tuple[str, str]:
        """Of what reached the agent, and of what it was judged by besides."""
        return self.execution_key, self.scoring_key

    @property
    def is_only_played(self) -> bool:
        """Whether the agent ran and nothing judged it, as `workbench simulate` leaves it."""
        return self.status is CaseStatus.NOT_EVALUATED and not self.scoring_key

    @property
    def is_from_unscored_run(self) -> bool:
        """Whether nothing was to judge it, whether the agent came to the end or failed."""
        return self.is_only_played or self.failed_in_play


class StoredVerdict(NamedTuple):
    """A result with the numbers of the sets of rows that what the agent did, and how it was judged, depended on.

    None is: nothing is known of what the agent did; the judging depended on nothing but its criteria. `is_certain` is
    false where the rows are not all, or something changed while the agent ran. `execution` is the number of what the
    agent did, the same for all that judge it; None where it did nothing. `started_at` is when the agent began (seconds
    since 1970, UTC; 0 where it did nothing). Without `is_judged` the job has not ended: what the agent did is stored,
    its judges have not spoken yet, and never will where the run was stopped meanwhile.
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
    """A job with its metrics: enough to compare runs. `metrics` is empty where they have been forgotten."""

    job: StoredJob
    metrics: tuple[MetricResult, ...]


class RunPart(NamedTuple):
    """A run, and how the part of it came out that was asked for; `summary` counts jobs and has no metrics."""

    run: StoredRun
    summary: RunSummary


# Rows of the tables as facts, and back: which columns a query asks for, and what becomes of them.

_KEY = "job.target, job.eval_set, job.eval_id, job.occurrence, job.repeat"
_AGENT_SECONDS = "coalesce(job.agent_seconds, job.duration_seconds)"
_JOB = f"{_KEY}, job.status, job.duration_seconds, {_AGENT_SECONDS}, job.failure"
_OF_PLAYING = f"""
    EXISTS (
        SELECT 1 FROM run WHERE run.id = job.run
            AND CASE WHEN json_valid(run.record) THEN json_extract(run.record, '$.options.{SCORES_OPTION}') END = 0
    )
"""
# After an outage of a judge an ERROR of a run that was to judge has no key either: only the run tells the two apart.
_PLAYED = f"(job.scoring_key = '' AND (job.status = 'NOT_EVALUATED' OR {_OF_PLAYING}))"
"""Of jobs that nothing was to judge."""
_KEPT = f"""
    job.execution_key, job.scoring_key, job.lacks_baseline, (job.status = 'ERROR' AND {_PLAYED}), job.misses_samples
"""
LIGHT = f"SELECT {_JOB}, run.run_id, job.finished_at, {_KEPT} FROM job"
"""For `read_job`; to be joined WITH_RUN."""
FULL = f"SELECT {_JOB}, job.eval_set_id, score.metrics, blob.data FROM job"
"""For `read_result`; to be joined WITH_RESULT."""
SCORES = f"{LIGHT.removesuffix(' FROM job')}, score.metrics FROM job"
"""For `read_scores`; to be joined WITH_RUN and WITH_SCORE."""
_BEGAN = "execution.finished_at - job.duration_seconds"
_SETS = f"execution.id, execution.dependency_set, score.dependency_set, execution.tainted, {_BEGAN}"
VERDICTS = f"{LIGHT.removesuffix(' FROM job')}, {_SETS}"
"""For `read_verdict`; see `last_verdicts`."""
_UNJUDGED = f"""
    SELECT job.target, job.eval_set, job.eval_id, job.occurrence, job.repeat, 'NOT_EVALUATED', job.duration_seconds,
        {_AGENT_SECONDS}, NULL, {{}} FROM unjudged AS job JOIN run ON run.id = job.run
        JOIN execution ON execution.id = job.execution JOIN blob ON blob.id = execution.blob
"""
UNJUDGED_VERDICTS = _UNJUDGED.format(
    "run.run_id, job.finished_at, job.execution_key, '', 0, 0, 0, execution.id, execution.dependency_set, NULL, "
    f"execution.tainted, {_BEGAN}"
)
"""For `read_verdict`: executions whose judges have not spoken yet."""
UNJUDGED_RESULTS = _UNJUDGED.format("job.eval_set_id, NULL, blob.data")
"""For `read_result`: the same with what the agents did, and no metrics."""
WITH_RUN = "JOIN run ON run.id = job.run"
WITH_SCORE = "LEFT JOIN score ON score.id = job.score"
WITH_RESULT = f"""
    {WITH_SCORE}
    LEFT JOIN execution ON execution.id = job.execution
    LEFT JOIN blob ON blob.id = execution.blob
"""
RAN = "job.status NOT IN ('SKIPPED', 'CANCELLED')"
"""Of jobs that say something about their case."""
IS_CASE = "job.target = ? AND job.eval_set = ? AND job.eval_id = ? AND job.occurrence = ?"
"""Takes what `key_to_sql` gives."""
_HAS_ALL = "(execution.blob IS NOT NULL OR job.execution IS NULL AND NOT job.is_forgotten)"
"""Nothing of the job was forgotten; a case whose file is wrong has no execution."""
TAKE_OVER = f"""
    INSERT OR REPLACE INTO job (run, target, eval_set, eval_id, occurrence, repeat, eval_set_id, status,
        duration_seconds, agent_seconds, failure, finished_at, execution_key, scoring_key, lacks_baseline,
        misses_samples, execution, score)
    SELECT ?, ?, ?, ?, ?, ?, eval_set_id, status, duration_seconds, agent_seconds, failure, finished_at,
        execution_key, scoring_key, lacks_baseline, misses_samples, execution, score
    FROM job WHERE {IS_CASE} AND repeat = ? AND run = (SELECT id FROM run WHERE run_id = ?)
"""
"""Makes a job of one run count as a job of another."""
RUN = "SELECT id, record, summary, duration_seconds, interrupted FROM run"
HAS_JUDGED = f"EXISTS (SELECT 1 FROM job WHERE job.run = run.id AND NOT {_PLAYED})"
"""True for a run with a job that was not only played."""
HAS_JUDGED_OF_RUN = f"""
    EXISTS (
        SELECT 1 FROM job WHERE job.run = run.id AND NOT {_PLAYED}
            AND (target, eval_set) IN (SELECT DISTINCT target, eval_set FROM job AS other WHERE other.run = ?)
    )
"""
"""True for a run with such a job of a set that another run has, by the same target."""
RUNS_THAT_BEGIN = """
    SELECT id, run_id FROM run WHERE substr(run_id, 1, length(:name)) = :name ORDER BY id DESC LIMIT 6
"""
ONE = f"WHERE job.run = ? AND {IS_CASE} AND job.repeat = ?"
"""One job of a run."""
_NEWEST_OF_ONE = f"""
    WHERE {IS_CASE} AND {RAN}
        AND job.run = (SELECT job.run FROM job WHERE {IS_CASE} AND {RAN} ORDER BY {{}} LIMIT 1)
"""
# The plus keeps SQLite from walking all jobs in the order that is asked for, instead of the few of the case.
NEWEST_OF_ONE = _NEWEST_OF_ONE.format("+job.id DESC")
"""Takes twice what `key_to_sql` gives: all repeats of the newest run of a case."""
NEWEST_JUDGED_OF_ONE = _NEWEST_OF_ONE.format(f"{_PLAYED}, +job.id DESC")
"""The same of the newest run that judged it, else of the newest in which it was played."""

NEWEST_OF_DATASETS = f"""
    SELECT job.target, max(job.run) FROM job WHERE job.target = job.eval_set AND {RAN}
    GROUP BY job.target ORDER BY max(job.run) DESC LIMIT ?
"""
"""Of what is its own target and set, the newest run with something of it."""
NEWEST = "max(job.id)"
NEWEST_JUDGED = f"""
    coalesce(max(job.id) FILTER (WHERE NOT {_PLAYED}), {NEWEST})
"""
"""Of which `newest` takes the run: of what was judged, else of what was only played."""


def select_newest(part: str = "TRUE", *, of: str = NEWEST) -> str:
    """All repeats that the newest run of a case has of it; a job that never ran says nothing about its case."""
    return f"""
        JOIN (
            SELECT {of} AS id FROM job WHERE {RAN} AND {part}
            GROUP BY job.eval_set, job.eval_id, job.target, job.occurrence
        ) AS newest
        JOIN job AS last ON last.id = newest.id
        WHERE job.run = last.run AND job.eval_set = last.eval_set AND job.eval_id = last.eval_id
            AND job.target = last.target AND job.occurrence = last.occurrence AND {RAN}
    """


def select_latest_verdicts(count: int) -> str:
    """The newest results of each case, by what reached the agent and what it was judged by; newest first.

    Of cases that ask the same, at least the newest of each. Without those of which what the agent did has been
    forgotten: nothing could be shown of them, or judged again. Of those that were taken over into later runs, the last.
    """
    return f"""
        {VERDICTS} FROM (
            SELECT id, row_number() OVER (
                PARTITION BY target, execution_key, scoring_key, repeat ORDER BY id DESC
            ) AS age, row_number() OVER (
                PARTITION BY eval_set, eval_id, target, occurrence, repeat, execution_key ORDER BY id DESC
            ) AS age_in_case FROM job WHERE id IN (
                SELECT max(id) FROM job WHERE {RAN} AND NOT is_forgotten
                GROUP BY target, execution_key, scoring_key, repeat, coalesce(execution, -id)
            )
        ) AS ranked JOIN job ON job.id = ranked.id
        {WITH_RUN} {WITH_SCORE} LEFT JOIN execution ON execution.id = job.execution
        WHERE (age <= {count} OR age_in_case = 1) AND {_HAS_ALL} ORDER BY job.id DESC
    """


def read_verdict(*row: Any) -> StoredVerdict:
    """From the columns of VERDICTS."""
    *job, execution, dependencies, scored_with, tainted, began_at = row
    return StoredVerdict(read_job(*job), execution, dependencies, scored_with, tainted == 0, began_at or 0.0)


def read_job(*row: Any) -> StoredJob:
    """From the columns of LIGHT."""
    target, eval_set, eval_id, occurrence, repeat, status, duration_seconds, agent_seconds, failure, *rest = row
    run_id, finished_at, execution_key, scoring_key, lacks_baseline, failed_in_play, misses_samples = rest
    return StoredJob(
        run_id=run_id,
        key=JobKey(case=read_case_key(target, eval_set, eval_id, occurrence), repeat=repeat),
        status=CaseStatus(status),
        duration_seconds=duration_seconds,
        agent_seconds=agent_seconds,
        failure=history_codec.failure_from_text(failure),
        finished_at=datetime.fromtimestamp(finished_at, UTC),
        execution_key=execution_key,
        scoring_key=scoring_key,
        lacks_baseline=bool(lacks_baseline),
        failed_in_play=bool(failed_in_play),
        misses_samples=bool(misses_samples),
    )


def read_scores(*row: Any) -> StoredScores:
    """From the columns of SCORES."""
    *job, metrics = row
    return StoredScores(read_job(*job), () if metrics is None else history_codec.metrics_from_blob(metrics))


def read_result(*row: Any) -> CaseResult:
    """From the columns of FULL."""
    target, eval_set, eval_id, occurrence, repeat, status, duration_seconds, agent_seconds, failure, *rest = row
    eval_set_id, metrics, blob = rest
    key = read_case_key(target, eval_set, eval_id, occurrence)
    execution, expected = (
        (Execution(), None) if blob is None else history_codec.execution_from_blob(blob, eval_id=key.eval_id)
    )
    return CaseResult.construct_unvalidated(
        case=key,
        eval_set_id=history_codec.name_from_sql(eval_set_id),
        repeat=repeat,
        status=CaseStatus(status),
        duration_seconds=duration_seconds,
        agent_seconds=agent_seconds,
        failure=history_codec.failure_from_text(failure),
        metrics=() if metrics is None else history_codec.metrics_from_blob(metrics),
        execution=execution,
        expected_by_row=expected,
    )


def key_to_sql(case: CaseKey) -> tuple[str | bytes, str | bytes, str | bytes, int]:
    """The values that IS_CASE takes."""
    to_sql = history_codec.name_to_sql
    return to_sql(case.target), to_sql(case.eval_set), to_sql(case.eval_id), case.occurrence


def read_case_key(target: str | bytes, eval_set: str | bytes, eval_id: str | bytes, occurrence: int) -> CaseKey:
    """From the first four columns of every query."""
    from_sql = history_codec.name_from_sql
    return CaseKey.construct_unvalidated(
        target=from_sql(target), eval_set=from_sql(eval_set), eval_id=from_sql(eval_id), occurrence=occurrence
    )
