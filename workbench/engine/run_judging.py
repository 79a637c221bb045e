"""Access to the models of a run, and resumed runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine.plan import (
    Plan,
    PlanError,
    RunOptions,
    Selection,
    read_environment,
    set_executions,
)
from workbench.engine.plan_cost import build_prices
from workbench.llm.model_replay import Recording, Replay, Script, read_script
from workbench.llm.model_types import Ask, ModelError, ModelReply, ModelRequest, Trouble
from workbench.llm.models import Account, Budget, Cache, ModelOptions, Models
from workbench.metrics.judges.judge_calls import MOST_SAMPLES
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus, ModelSpending
from workbench.model.target import Target
from workbench.model.text import pluralise
from workbench.store.errors import StoreError
from workbench.store.files import SESSION, is_running, make_session_mark
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredJob, StoredRun
from workbench.store.settings import JudgeSettings

if TYPE_CHECKING:
    from workbench.engine.run import Run


# The models of a workspace, reached with the keys of each target. Replies are cached in the project.


class Judges:
    """Access to models, shared by all runs. Used on the engine's loop."""

    def __init__(self, root: Path, *, warn: Callable[[str], None]) -> None:
        self._cache = Cache(root, warn=warn)
        self._models: dict[tuple[frozenset[tuple[str, str]], ModelOptions, Script | None], Models] = {}

    def models_for(self, target: Target, settings: JudgeSettings) -> Models:
        """Return the models with the environment of a target. Raises StoreError if its script cannot be read."""
        options = ModelOptions(
            concurrency=settings.concurrency,
            per_minute=settings.requests_per_minute,
            tries=settings.tries,
            timeout_seconds=settings.timeout_seconds,
        )
        environment = read_environment(target)
        script = None if target.scripted_models is None else read_script(target.scripted_models)
        key = frozenset(environment.items()), options, script
        if key not in self._models:
            self._models[key] = Models(environment, options, replies=self._cache, script=script)
        return self._models[key]

    async def close(self) -> None:
        """Close connections and the cache."""
        models, self._models = list(self._models.values()), {}
        await asyncio.gather(*(each.close() for each in models))
        await self._cache.close()


class RunJudges:
    """The models of one run: with its account, and with recording or replay of calls."""

    def __init__(
        self,
        plan: Plan,
        settings: JudgeSettings,
        *,
        judges: Callable[[], Judges],
        changed: Callable[[], None],
        warn: Callable[[str], None],
        waits: Callable[[str, float], None],
    ) -> None:
        """`changed` is called after each call, `waits` with a model and the seconds it waits for its quota.

        Raises StoreError if the file of calls cannot be used.
        """
        budget = Budget(calls=plan.limits.max_model_calls, cost=plan.limits.max_model_cost)
        self._account = Account(
            build_prices(settings), budget, before=plan.spent, changed=changed, stopped=warn, waits=waits
        )
        self._settings = settings
        self._use_cache = plan.options.use_cache
        self._judgement = plan.options.judgement
        self._judges = judges
        record, replay = plan.options.record_calls, plan.options.replay_calls
        self._recording = None if record is None else Recording(record)
        self._replay = None if replay is None else Replay(replay)

    def get_ask(self, target: Target) -> Ask:
        """Return the function that asks the models of a target."""
        if self._replay is not None:
            return _number_samples(self._ask_replay(self._replay), self._judgement)
        models = self._judges().models_for(target, self._settings)
        ask = partial(models.ask, use_cache=self._use_cache, account=self._account)
        return _number_samples(ask if self._recording is None else self._recording.wrap(ask), self._judgement)

    def list_spending(self) -> tuple[ModelSpending, ...]:
        """List the calls of this run, without the earlier spending of the plan."""
        return self._account.list_spending()

    def _ask_replay(self, replay: Replay) -> Ask:
        async def ask(request: ModelRequest) -> ModelReply:
            reply = await replay.ask(request)
            if not request.renewed:  # a renewed request counts once
                self._account.book_cached(request.model)
            return reply

        return ask


def _number_samples(ask: Ask, judgement: int) -> Ask:
    """Return `ask` with the sample numbers of a judgement, so that each judgement has its own cached replies."""

    async def ask_numbered(request: ModelRequest) -> ModelReply:
        return await ask(request.model_copy(update={"sample": request.sample + judgement * MOST_SAMPLES}))

    return ask_numbered if judgement else ask


# Access to models inside and outside runs.


def open_lazily(open_models: Callable[[], Ask]) -> Ask:
    """Return a function that calls `open_models` for the first request.

    A StoreError of `open_models` becomes a ModelError.
    """
    opened: Ask | None = None

    async def ask(request: ModelRequest) -> ModelReply:
        nonlocal opened
        if opened is None:
            try:
                opened = open_models()
            except StoreError as error:
                raise ModelError(Trouble.NOT_RECORDED, str(error)) from error
        return await opened(request)

    return ask


def open_standalone_ask(target: Target, settings: JudgeSettings, *, judges: Callable[[], Judges]) -> Ask:
    """Return a function that asks the models of a target, with its own budget from the settings."""
    account = Account(build_prices(settings), Budget(calls=settings.max_calls, cost=settings.max_cost))
    return open_lazily(lambda: partial(judges().models_for(target, settings).ask, account=account))


# Problems of the cache of replies, which all runs of a project share.


class CacheWarnings:
    """Reports problems of the shared cache to the current run, or else to the next run that asks models."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._pending: list[str] = []

    def report(self, message: str) -> None:
        """Report a problem to the current run, or keep it for the next."""
        if self._run is None or self._run.is_over:
            self._pending.append(message)
        else:
            self._run.warn(message)

    def attach(self, run: Run) -> None:
        """Set the current run, and report pending problems to it."""
        self._run = run
        pending, self._pending = self._pending, []
        for message in pending:
            run.warn(message)


# Resumed runs: the run, its options, and its current results.

LATEST = "latest"

_ASKED = "asked"  # the key of stored options
_KEPT = (
    "config",
    "simulate_tools",
    "replay_tools",
    "replay_calls",
    "max_model_calls",
    "max_model_cost",
    "require_all_samples",
)
_SELECTIONS = "selections"  # the key of stored selections


def dump_resume_options(plan: Plan) -> dict[str, Any]:
    """Dump the selections and options that a run needs to be resumed."""
    options = plan.options.model_dump(include={*_KEPT, "unrecorded"}, exclude_none=True)
    given = {name: str(value.resolve()) if isinstance(value, Path) else value for name, value in options.items()}
    selections = [selection.model_dump() for selection in plan.selections]
    return {_SELECTIONS: selections, _ASKED: given, **make_session_mark()}


def find_run_to_resume(history: History, name: str, *, eval_sets: Collection[str]) -> StoredRun:
    """Find a run by its id, the start of its id, or "latest".

    "latest" is the newest run that was interrupted, whose process died, or that lacks verdicts of judges. With
    `eval_sets`, it must contain one of them. Raises PlanError if there is none or it is still running, and StoreError
    for an unknown id.
    """
    if name != LATEST:
        run = history.run(name)
        if _is_ongoing(run):
            raise PlanError(f"run {run.run_id} has not ended: it can be resumed when it has")
        return run
    for run in history.runs():
        had = {selection.eval_set for selection in get_selections(run)}
        is_meant = had and (not eval_sets or had & set(eval_sets))
        if is_meant and (_was_stopped(run) or (run.ended and _lacks_verdicts(history, run))):
            return run
    of_these = " of these eval sets" if eval_sets else ""
    raise PlanError(
        f"nothing to resume: no run{of_these} was interrupted, or has cases that were not judged (`--failed` runs what "
        "did not pass)"
    )


def _lacks_verdicts(history: History, run: StoredRun) -> bool:
    """Whether some cases lack a verdict because a judge could not be asked."""
    return run.summary.error > 0 and any(_may_lack_verdict(job) for job in history.jobs(run.run_id))


def _may_lack_verdict(job: StoredJob) -> bool:
    """Whether the agent finished but not its judges. Such results have no scoring key."""
    return job.status is CaseStatus.ERROR and job.failure is None and not job.scoring_key


def find_stopped_run(history: History) -> StoredRun | None:
    """Find the newest run of eval cases if it was interrupted or its process died; None if it ended or is running."""
    newest = next((run for run in history.runs() if get_selections(run)), None)
    return newest if newest is not None and _was_stopped(newest) else None


def get_selections(run: StoredRun) -> Sequence[Selection]:
    """Return the selections of a run; empty if it judged recordings."""
    return [Selection.model_validate(kept) for kept in run.options.get(_SELECTIONS, ())]


def restore_options(options: RunOptions, run: StoredRun) -> RunOptions:
    """Complete options with those of the resumed run, so that simulated tools stay simulated."""
    kept = run.options.get(_ASKED, {})
    told = {name: kept[name] for name in _KEPT if name in kept and getattr(options, name) is None}
    if "replay_tools" in told and "unrecorded" in kept:
        told["unrecorded"] = kept["unrecorded"]
    return RunOptions.model_validate({**options.model_dump(), **told}) if told else options


def resume_plan(plan: Plan, history: History, run: StoredRun) -> Plan:
    """Return the plan that resumes a run: its current verdicts are reused, and unjudged executions are judged."""
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
        for job, execution_key in history.list_unjudged_jobs(run.run_id).items()
        if job not in stored and job.case in hashes and hashes[job.case][0] == execution_key
    ]
    results_of = ((job, history.get_unjudged_result(run.run_id, job)) for job in unjudged)
    executed = {job: result.execution for job, result in results_of if result is not None}
    for job in jobs:
        if _may_lack_verdict(job) and hashes.get(job.case, ("",))[0] == job.execution_key:
            result = history.result(run.run_id, job.key)
            if result is not None and result.has_outage and result.execution.turns:
                executed[job.key] = result.execution
    again = f", and what agents did in {len(executed)} more is judged" if executed else ""
    notice = f"run {run.run_id} goes on: {len(stored)} of {pluralise(plan.total, 'result')} taken from it{again}"
    going_on = replace(plan, resumes=run.run_id, stored=stored, notices=(*plan.notices, notice))
    return set_executions(going_on, executed)


def _was_stopped(run: StoredRun) -> bool:
    return (run.interrupted or not run.ended) and not _is_ongoing(run)


def _is_ongoing(run: StoredRun) -> bool:
    """Whether the process of the run is still alive."""
    return not run.ended and run.options.get("session") != SESSION and is_running(run.options)
