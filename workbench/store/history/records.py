"""What goes into the history and what comes out, apart from the results themselves."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AwareDatetime, Field

from workbench.model.base import Fact
from workbench.model.criteria import EvalConfig
from workbench.model.events import RunSummary
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, Failure, MetricResult

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
    default the target's name does. `judged_again`: the agent did not run, what it did once is judged anew; `recorded`:
    so it is, and `execution_key` covers what the agent did and what was expected besides.
    `lacks_baseline`: it was to be compared with an earlier run, and there was none.
    """

    result: CaseResult
    execution_key: str = ""
    scoring_key: str = ""
    target_variant: str | None = None
    judged_again: bool = False
    recorded: bool = False
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
    def was_only_played(self) -> bool:
        """Whether the agent ran and nothing judged it, as `workbench simulate` leaves it."""
        return self.status is CaseStatus.NOT_EVALUATED and not self.scoring_key

    @property
    def was_of_playing(self) -> bool:
        """Whether nothing was to judge it, whether the agent came to the end or failed."""
        return self.was_only_played or self.failed_in_play


class StoredVerdict(NamedTuple):
    """A result with the numbers of the sets of rows that what the agent did, and how it was judged, depended on.

    None is: nothing is known of what the agent did; the judging depended on nothing but its criteria. `is_certain` is
    false where the rows are not all, or something changed while the agent ran. `execution` is the number of what the
    agent did, the same for all that judge it; None where it did nothing. `began_at` is when the agent began (seconds
    since 1970, UTC; 0 where it did nothing). Without `is_judged` the job has not ended: what the agent did is stored,
    its judges have not spoken yet, and never will where the run was stopped meanwhile.
    """

    job: StoredJob
    execution: int | None
    dependencies: int | None
    scored_with: int | None
    is_certain: bool
    began_at: float = 0.0
    is_judged: bool = True


class LeftFile(NamedTuple):
    """A state in which an agent left a file that it had written.

    `began_at` and `told_at` are when it began and when this was told (seconds since 1970, UTC). `found` is the state in
    which it read the file before; None where it wrote without.
    """

    path: str
    fingerprint: str
    told_at: float
    began_at: float
    found: str | None = None


class StoredScores(NamedTuple):
    """A job with its metrics: enough to compare runs. `metrics` is empty where they have been forgotten."""

    job: StoredJob
    metrics: tuple[MetricResult, ...]


class RunPart(NamedTuple):
    """A run, and how the part of it came out that was asked for; `summary` counts jobs and has no metrics."""

    run: StoredRun
    summary: RunSummary
