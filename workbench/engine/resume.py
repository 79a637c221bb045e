"""Going on with an earlier run: which of its results still count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.engine.plan import Plan
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.store.history import History


def resumed(plan: Plan, history: History, *, run_id: str) -> Plan:
    """The plan without the jobs that the run has a verdict of, for the same case, criteria and target.

    Raises StoreError where there is no such run.
    """
    hashes = {case.key: (case.execution_hash, case.scoring_hash) for case in plan.cases}
    wanted = {key for key, _ in plan.jobs}
    decided = history.finished_jobs(run_id)
    unchanged = {
        job.key
        for job in history.jobs(run_id)
        if job.key in wanted and job.key in decided and (job.execution_key, job.scoring_key) == hashes[job.case]
    }
    stored: Mapping[JobKey, CaseResult] = {
        key: result
        for result in history.results(run_id)
        if (key := JobKey(case=result.case, repeat=result.repeat)) in unchanged
    }
    notice = f"run {history.run(run_id).run_id} goes on: {len(stored)} of {plan.total} results are taken from it"
    return replace(plan, stored=dict(stored), notices=(*plan.notices, notice))
