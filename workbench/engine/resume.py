"""Going on with an earlier run: which one is meant, what it was to do, and which of its results still count."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.engine.plan import Plan, PlanError, RunOptions, Selection, with_executed
from workbench.model.keys import JobKey
from workbench.model.results import CaseStatus
from workbench.model.text import counted
from workbench.store.history import History, StoredJob, StoredRun
from workbench.store.sessions import SESSION, is_running, session_mark

LATEST = "latest"

_ASKED = "asked"  # options that change what happens, as they were given
_KEPT = (
    "config",
    "simulate_tools",
    "replay_tools",
    "replay_calls",
    "max_model_calls",
    "max_model_cost",
    "require_all_samples",
)
_SELECTIONS = "selections"  # in the options that a run keeps, beside the mark of the process that carries it out


def resumable_options(plan: Plan) -> dict[str, Any]:
    """What a run must keep besides its limits to be gone on with."""
    options = plan.options.model_dump(include={*_KEPT, "unrecorded"}, exclude_none=True)
    given = {name: str(value.resolve()) if isinstance(value, Path) else value for name, value in options.items()}
    selections = [selection.model_dump() for selection in plan.selections]
    return {_SELECTIONS: selections, _ASKED: given, **session_mark()}


def run_to_resume(history: History, name: str, *, eval_sets: Collection[str]) -> StoredRun:
    """The run that is meant by `name`: its id or the start of it, or "latest".

    The latest one is the newest that was interrupted, whose process died, or whose judges could not all be asked; with
    `eval_sets` one that had any of them.
    Raises PlanError where there is none, or where it is still going on, and StoreError for an unknown id.
    """
    if name != LATEST:
        run = history.run(name)
        if _goes_on(run):
            raise PlanError(f"run {run.run_id} has not ended: it can be resumed when it has")
        return run
    for run in history.runs():
        had = {selection.eval_set for selection in selections_of(run)}
        is_meant = had and (not eval_sets or had & set(eval_sets))
        if is_meant and (_was_stopped(run) or (run.ended and _lacks_verdicts(history, run))):
            return run
    of_these = " of these eval sets" if eval_sets else ""
    raise PlanError(
        f"nothing to resume: no run{of_these} was interrupted, or has cases that were not judged (`--failed` runs what "
        "did not pass)"
    )


def _lacks_verdicts(history: History, run: StoredRun) -> bool:
    """Whether a judge could not be asked about some of its cases."""
    return run.summary.error > 0 and any(_may_lack_verdict(job) for job in history.jobs(run.run_id))


def _may_lack_verdict(job: StoredJob) -> bool:
    """Whether its agent came to the end and its judges did not: such results are stored without a scoring key."""
    return job.status is CaseStatus.ERROR and job.failure is None and not job.scoring_key


def find_stopped_run(history: History) -> StoredRun | None:
    """The newest run of eval cases, if it was interrupted or its process died; None if it ended or goes on."""
    newest = next((run for run in history.runs() if selections_of(run)), None)
    return newest if newest is not None and _was_stopped(newest) else None


def selections_of(run: StoredRun) -> Sequence[Selection]:
    """What a run was to do; nothing where it judged recordings."""
    return [Selection.model_validate(kept) for kept in run.options.get(_SELECTIONS, ())]


def as_before(options: RunOptions, run: StoredRun) -> RunOptions:
    """The options with those of the run that is gone on with, where they say nothing else: no tool is called for real
    that was simulated before."""
    kept = run.options.get(_ASKED, {})
    told = {name: kept[name] for name in _KEPT if name in kept and getattr(options, name) is None}
    if "replay_tools" in told and "unrecorded" in kept:
        told["unrecorded"] = kept["unrecorded"]
    return RunOptions.model_validate({**options.model_dump(), **told}) if told else options


def resumed(plan: Plan, history: History, run: StoredRun) -> Plan:
    """The plan as a continuation of a run: without the jobs that it has a verdict of, on the same case and criteria.

    Where the run was stopped while judges were being asked, or they could not be asked, what the agent had done by then
    is judged.
    """
    hashes = {case.key: (case.execution_hash, case.scoring_hash) for case in plan.cases}
    decided, jobs = history.finished_jobs(run.run_id), history.jobs(run.run_id)
    unchanged = {
        job.key for job in jobs if job.key in decided and hashes.get(job.case) == (job.execution_key, job.scoring_key)
    }
    wanted = unchanged & {key for key, _ in plan.jobs}
    results = ((JobKey(case=result.case, repeat=result.repeat), result) for result in history.results(run.run_id))
    stored = {key: result for key, result in results if key in wanted}
    unjudged = [
        job
        for job, execution_key in history.unjudged(run.run_id).items()
        if job not in stored and job.case in hashes and hashes[job.case][0] == execution_key
    ]
    results_of = ((job, history.unjudged_result(run.run_id, job)) for job in unjudged)
    executed = {job: result.execution for job, result in results_of if result is not None}
    for job in jobs:
        if _may_lack_verdict(job) and hashes.get(job.case, ("",))[0] == job.execution_key:
            result = history.result(run.run_id, job.key)
            if result is not None and result.met_outage and result.execution.turns:
                executed[job.key] = result.execution
    again = f", and what agents did in {len(executed)} more is judged" if executed else ""
    notice = f"run {run.run_id} goes on: {len(stored)} of {counted(plan.total, 'result')} taken from it{again}"
    going_on = replace(plan, resumes=run.run_id, stored=stored, notices=(*plan.notices, notice))
    return with_executed(going_on, executed)


def _was_stopped(run: StoredRun) -> bool:
    return (run.interrupted or not run.ended) and not _goes_on(run)


def _goes_on(run: StoredRun) -> bool:
    """Whether the process that carries the run out is still there."""
    return not run.ended and run.options.get("session") != SESSION and is_running(run.options)
