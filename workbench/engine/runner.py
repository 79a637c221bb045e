"""Runs the jobs of a plan, judges them, and stores the results."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal
from weakref import proxy

from workbench.agents.agent_host import AgentHost, LeftByAgents
from workbench.engine.case_run import Attempt, CaseListener, execute
from workbench.engine.history_recorder import HistoryRecorder, find_versions, new_run_id
from workbench.engine.plan import RESUME_ADVICE, Plan, PlannedCase, create_user, explain_turn_limit, set_quarantine
from workbench.engine.run import Holds, Run
from workbench.engine.run_resources import Resources, RunJudges, RunServices
from workbench.engine.verdict_index import StoredVerdicts, add_watched, fingerprint_watched_paths
from workbench.llm.model_replay import CaseRequests, case_requests
from workbench.llm.model_types import Ask
from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import MetricServices, judge_case
from workbench.metrics.registry import PreparedCriteria
from workbench.model.evalset import Content
from workbench.model.facts import make_fast_constructor, pause_gc
from workbench.model.identity import Dependency, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    MetricResult,
    ModelSpending,
    TurnResult,
    decide_case_status,
    has_outage,
    merge_by_model,
)
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CasePlaced,
    CaseScored,
    CaseStarted,
    InvocationFinished,
    ModelsAsked,
    Notice,
    QuotaWait,
    RunEvent,
    RunFinished,
    RunStarted,
    RunSummary,
    SpanFinished,
    UserSpoke,
)
from workbench.model.target import AgentKind, Target
from workbench.model.text import pluralise
from workbench.model.trace import Span
from workbench.simulation.replayed_models import RunModels
from workbench.simulation.simulated_tools import CaseTools
from workbench.store.errors import StoreError
from workbench.store.model_answers import add_recording, sort_recording
from workbench.store.settings import JudgeSettings

# Results and events of jobs.

_finished = make_fast_constructor(CaseFinished, CaseFinished.model_fields.keys() - {"kind"})


def drop_dependencies(result: CaseResult) -> CaseResult:
    """Drop the dependencies of a result to save memory: they are in the history."""
    if result.execution.dependencies is None:
        return result
    metrics = tuple(
        [m if m.dependencies is None else m.model_copy(update={"dependencies": None}) for m in result.metrics]
    )
    execution = result.execution.model_copy(update={"dependencies": None})
    return result.model_copy(update={"execution": execution, "metrics": metrics})


def make_finished_event(
    key: JobKey, result: CaseResult, *, source: Literal["executed", "stored"], in_history: bool, is_judged: bool
) -> CaseFinished:
    return _finished(
        {
            "case": key.case,
            "repeat": key.repeat,
            "status": result.status,
            "duration_seconds": result.duration_seconds,
            "failure": result.failure,
            "result": result,
            "source": source,
            "in_history": in_history,
            "is_judged": is_judged,
        }
    )


def make_unexecuted_result(
    planned: PlannedCase, key: JobKey, status: CaseStatus, failure: Failure | None = None
) -> CaseResult:
    facts: dict[str, Any] = {"failure": failure, "execution": Execution(failure=failure)}
    facts["quarantine"] = planned.current_quarantine
    if failure is not None:  # without a failure, nothing is shown
        facts["expected_by_row"] = planned.expected_by_row
    return CaseResult(case=key.case, eval_set_id=planned.eval_set_id, repeat=key.repeat, status=status, **facts)


# The buffer of results: stored together first, then shown.

_TOGETHER_SECONDS = 0.01

# A batch is stored at this size, or after this time so that listeners need not wait.
_ENOUGH = 1024
_LONG_SECONDS = 0.2

Ended = tuple[JobKey, PlannedCase, CaseResult]


class ResultBuffer:
    """The results of one run until they are stored. Used on the engine's loop."""

    def __init__(self, run: Run, recorder: HistoryRecorder) -> None:
        self._run = run
        self._recorder = recorder
        self._ended: list[Ended] = []
        self._unjudged: dict[JobKey, tuple[PlannedCase, CaseResult]] = {}
        self._stored_at = time.perf_counter()

    def add(self, key: JobKey, planned: PlannedCase, result: CaseResult) -> None:
        """Add the result of a job, which is stored soon."""
        self._store_soon()
        self._ended.append((key, planned, result))

    def add_unjudged(self, key: JobKey, planned: PlannedCase, result: CaseResult) -> None:
        """Add an execution before it is judged, so that it is not lost if judging is interrupted."""
        self._store_soon()
        self._unjudged[key] = planned, result

    def add_batch(self, ended: Iterable[Ended]) -> None:
        """Add many results. Call `store` after the last batch."""
        self._ended += ended
        if len(self._ended) >= _ENOUGH or time.perf_counter() - self._stored_at > _LONG_SECONDS:
            self.store()

    def store(self) -> None:
        """Store the buffered results, then send their events."""
        self._stored_at = time.perf_counter()
        ended, self._ended = self._ended, []
        if self._unjudged:
            self._store_unjudged({key for key, _, result in ended if result.status is not CaseStatus.CANCELLED})
        if not ended:
            return
        are_kept: Sequence[bool] = [False] * len(ended)
        try:
            are_kept = self._recorder.keep(ended)
        except Exception as error:  # a bug of workbench must not hide the verdicts
            self._run.report_lost_results(f"results could not be stored because workbench itself failed: {error!r}")
        is_judged = self._run.plan.options.scores
        results = [(key, drop_dependencies(result)) for key, _, result in ended]
        self._run.add_results(results)
        self._run.log.extend(
            [
                make_finished_event(key, result, source="executed", in_history=is_kept, is_judged=is_judged)
                for (key, result), is_kept in zip(results, are_kept, strict=True)
            ]
        )

    def _store_soon(self) -> None:
        """Schedule a transaction for everything of the next few milliseconds."""
        if not self._ended and not self._unjudged:
            asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self.store)

    def _store_unjudged(self, judged: Collection[JobKey]) -> None:
        unjudged, self._unjudged = self._unjudged, {}
        left = [noted for key, noted in unjudged.items() if key not in judged]
        if left:
            try:
                self._recorder.keep_unjudged(left)
            except Exception as error:  # as in `store`
                self._run.report_lost_results(
                    f"the answers of agents could not be stored because workbench itself failed: {error!r}"
                )


# Reused results of an earlier judgement.

_SLOW_NEEDS = frozenset({"judge", "service", "worker"})


def has_slow_judges(criteria: PreparedCriteria) -> bool:
    """Whether a model, a service or a function of the project judges, which takes long."""
    return not criteria.needs.isdisjoint(_SLOW_NEEDS)


def criteria_to_judge(planned: PlannedCase) -> PreparedCriteria:
    """Return the criteria of a case without those with reused results."""
    return (
        planned.criteria.exclude({metric.name for metric in planned.reused_results})
        if planned.reused_results
        else planned.criteria
    )


def merge_reused_results(metrics: tuple[MetricResult, ...], planned: PlannedCase) -> tuple[MetricResult, ...]:
    """Merge new and reused results in the order of the criteria, with additional measures last."""
    if not planned.reused_results:
        return metrics
    places = {criterion.metric: place for place, criterion in enumerate(planned.config.criteria)}

    def place(metric: MetricResult) -> int:
        # A criterion names several results `name(detail)` or `name/detail`.
        name = next(
            (name for name in places if metric.name == name or metric.name.startswith((f"{name}(", f"{name}/"))), ""
        )
        return places.get(name, len(places))

    return tuple(sorted((*metrics, *planned.reused_results), key=place))


# The runner: runs jobs in parallel lanes, retries after infrastructure errors, and judges each finished job.

_result = make_fast_constructor(CaseResult, {*CaseResult.model_fields})

_SPENDING_DELAY = 0.25
_SLOW_IMPORT = 0.5  # seconds until an import is reported

_MOST_MACHINES = 5
"""Machines that a case may lose: then it counts as the cause."""

# Small, so that cancelling and other tasks on the loop do not wait.
_RECORDINGS_AT_ONCE = 256


class Runner:
    """One run on the engine's loop."""

    def __init__(
        self,
        run: Run,
        *,
        host_of: Callable[[Target], AgentHost],
        services_of: Callable[[Target], MetricServices],
        recorder: HistoryRecorder,
        prepare: Callable[[Plan], None],
        look_at_leftovers: Callable[[], LeftByAgents] = LeftByAgents,
        spending: Callable[[], tuple[ModelSpending, ...]] = lambda: (),
        keep_requests: Callable[[CaseRequests, bool], Awaitable[None]] | None = None,
        load: Callable[[Plan], None] = lambda _: None,
    ) -> None:
        """`look_at_leftovers` returns the files that agents wrote in earlier runs.

        `load` imports in a thread what `prepare` and judging need, so that the event loop is not blocked. `spending`
        returns the calls to models so far. Call `schedule_spending_report` when they change. `keep_requests` writes
        the calls to models for a repeat, if they are recorded, and whether they replace all earlier ones.
        """
        self._run = run
        self._plan = run.plan
        self._host_of = host_of
        self._services_of = services_of
        self._recorder = recorder
        self._prepare = prepare
        # Ordered dictionaries, because thousands may be removed from the middle.
        self._recordings: OrderedDict[JobKey, PlannedCase] = OrderedDict()
        self._waiting: OrderedDict[JobKey, PlannedCase] = OrderedDict()
        stored = run.plan.stored
        for key, planned in run.plan.jobs:
            if not stored or key not in stored:
                waits = planned.needs_agent or has_slow_judges(planned.criteria)
                (self._waiting if waits else self._recordings)[key] = planned
        self._models = None if run.plan.models is None else RunModels(run.plan.models, run.plan.root, warn=run.warn)
        self._running: dict[JobKey, asyncio.Task[None]] = {}
        self._to_run_again: set[JobKey] = set()
        self._lanes = 0  # until jobs may start
        self._all_have_ended = asyncio.Event()
        self._results = ResultBuffer(run, recorder)
        self._look_at_leftovers = look_at_leftovers
        self._spending = spending
        self._keep_requests = keep_requests
        self._load = load
        self._will_report_spending = False
        self._not_judged: set[JobKey] = set()
        self.left_by_agents = LeftByAgents()
        """The files that agents had written before the run."""
        self._watched: Mapping[Target, frozenset[Dependency]] = {}
        self._opening: dict[JobKey, tuple[str, float]] = {}  # sessions being opened: their target and start time
        self._importing: tuple[str, ...] = ()  # as last reported

    async def run(self) -> None:
        """Run every job. Sends RunFinished in any case."""
        started = time.perf_counter()
        try:
            await asyncio.to_thread(self._read_watched_files)
            self._begin()
            await self._run_all()
        except Exception as error:  # a bug of workbench must be visible, and listeners need the last event
            self._run.warn(f"the run ended early because workbench itself failed: {error!r}")
            self._run.interrupted = True
        finally:
            try:
                await self._wind_up()
            except Exception as error:  # as above
                self._run.report_lost_results(f"the run did not end well because workbench itself failed: {error!r}")
            finished = RunFinished(
                run_id=self._run.run_id,
                summary=self._summarise(),
                duration_seconds=time.perf_counter() - started,
                interrupted=self._run.interrupted,
            )
            try:
                self._recorder.end(self._run, finished)
            except Exception as error:  # as above
                self._run.report_lost_results(
                    f"the end of the run could not be stored because workbench itself failed: {error!r}"
                )
            self._send(finished)
            with contextlib.suppress(Exception):  # as above, after the last event
                self._recorder.tidy()
            self._run.detach()

    async def _wind_up(self) -> None:
        self._results.store()
        if self._models is not None:
            await self._models.close()
            self._run.model_calls = self._models.counts
            self._warn_of_live_models(self._models)
        await self._sort_recordings()
        self._report_spending()
        self._report_not_judged()

    def _summarise(self) -> RunSummary:
        """Return the summary of the run; without scores if a bug prevents their summary."""
        try:
            return self._run.summary()
        except Exception as error:  # as above
            self._run.report_lost_results(f"scores are not summarised because workbench itself failed: {error!r}")
            self._run.drop_scores()
            return self._run.summary()

    @cached_property
    def _planned(self) -> Mapping[JobKey, PlannedCase]:
        return dict(self._plan.jobs)

    def schedule_spending_report(self) -> None:
        """Report calls to models soon, together with those that follow until then."""
        if not self._will_report_spending:
            self._will_report_spending = True
            asyncio.get_running_loop().call_later(_SPENDING_DELAY, self._report_spending)

    def _report_spending(self) -> None:
        if self._will_report_spending:
            self._will_report_spending = False
            self._run.models = merge_by_model((*self._plan.spent, *self._spending()))
            self._send(ModelsAsked(models=self._run.models))

    def _report_not_judged(self) -> None:
        """Report the cases that were not judged, and how to judge them."""
        if not self._not_judged:
            return
        command = self._plan.options.command
        how = "run them again to judge them"
        if self._plan.selections and self._plan.options.history:
            how = RESUME_ADVICE
        elif command.startswith("watch"):
            how = "`workbench run --affected` judges them"
        elif command.startswith("workbench "):
            how = f"run `{command}` again to judge them"
        self._run.warn(f"{pluralise(len(self._not_judged), 'case')} not judged; {how}")

    def _warn_of_live_models(self, models: RunModels) -> None:
        """Warn of agents whose model calls should be recorded or replayed, and were not seen."""
        if not models.is_strict:
            return
        for target in dict.fromkeys(planned.target for planned in self._plan.cases if planned.needs_agent):
            if not target.has_recorded_models:
                self._run.warn(
                    f"models of {target.name} are live if it asks any: workbench can neither record nor replay what an "
                    f"agent of kind {target.kind.value} asks"
                )
            elif models.is_silent(target.name) and target.kind is AgentKind.COMMAND:
                self._run.warn(
                    f"no model call of {target.name} passed workbench's proxy: if it asks models, they are live (see "
                    "docs/recorded-models.md, Programs)"
                )
            elif models.is_silent(target.name) and models.has_calls(target.name):
                self._run.warn(
                    f"no model call of {target.name} was seen: if it asks models in another process, or with a library "
                    "that is not covered, they are live (see docs/recorded-models.md, What is recorded)"
                )

    async def _sort_recordings(self) -> None:
        """Sort the files that got calls, so that the order in which cases end does not show in them."""
        options = self._plan.options
        for path in {options.record, options.record_tools, options.judge_record} - {None}:
            try:
                if path is not None and path.exists():
                    await asyncio.to_thread(sort_recording, path)
            except StoreError as error:
                self._run.warn(f"recorded calls are not sorted: {error}")

    def _read_watched_files(self) -> None:
        """Fingerprint watched files before any case runs, so that later changes make verdicts stale."""
        self._load(self._plan)
        targets = {planned.target for planned in self._plan.cases if planned.needs_agent and planned.target.watch}
        self._watched = {target: fingerprint_watched_paths(target) for target in targets}
        if any(planned.needs_agent for planned in self._plan.cases):
            self.left_by_agents = self._look_at_leftovers()

    def _begin(self) -> None:
        self._recorder.begin(self._run)
        self._send(RunStarted(run_id=self._run.run_id, total=self._plan.total, at=datetime.now(UTC)))
        for message in self._plan.notices:
            self._send(Notice(message=message))
        for message in self._plan.problems:
            self._send(Notice(severity="error", message=message))
        for key, stored in self._plan.stored.items():
            result = set_quarantine(stored, self._planned.get(key))
            self._run.add_results([(key, result)])
            self._send(make_finished_event(key, result, source="stored", in_history=True, is_judged=True))
        self._prepare(self._plan)

    def cancel(self, job: JobKey | None) -> None:
        if job is None:
            self._run.interrupted = self._run.interrupted or bool(self._recordings or self._waiting or self._running)
            self._to_run_again.clear()
        for key in [job] if job is not None else [*self._recordings, *self._waiting, *self._running]:
            if key in self._running:
                self._running[key].cancel()
                continue
            queue = next((queue for queue in (self._recordings, self._waiting) if key in queue), None)
            if queue is not None:
                planned = queue.pop(key)
                self._results.add(key, planned, make_unexecuted_result(planned, key, CaseStatus.CANCELLED))
        self._fill_lanes()

    def requeue(self, jobs: Iterable[JobKey]) -> None:
        for key in jobs:
            if key in self._running:
                self._to_run_again.add(key)
                self._running[key].cancel()
            elif key in self._planned and key not in self._waiting:
                self._waiting[key] = self._planned[key]
        self._fill_lanes()

    async def _run_all(self) -> None:
        await self._judge_recordings()
        self._lanes = self._plan.limits.concurrency
        self._fill_lanes()
        while self._waiting or self._running:
            self._all_have_ended.clear()
            await self._all_have_ended.wait()

    def _fill_lanes(self) -> None:
        """Start jobs on free lanes, without waiting for the next round of the loop."""
        while self._waiting and len(self._running) < self._lanes:
            key, _ = self._waiting.popitem(last=False)
            task = asyncio.get_running_loop().create_task(self._run_job(key))
            self._running[key] = task
            task.add_done_callback(lambda task, key=key: self._handle_job_end(key, task))  # type: ignore[misc]
        if not self._waiting and not self._running:
            self._all_have_ended.set()

    async def _judge_recordings(self) -> None:
        """Judge recordings with fast metrics in batches: a task and a transaction for each row would be slow."""
        with pause_gc():
            while self._recordings:
                count = min(_RECORDINGS_AT_ONCE, len(self._recordings))
                batch = [self._recordings.popitem(last=False) for _ in range(count)]
                self._results.add_batch(
                    [(key, planned, await self._produce_result(planned, key)) for key, planned in batch]
                )
                await asyncio.sleep(0)  # lets cancellation run
                await self._run.log.let_listener_catch_up()  # printing is slower than judging
            self._results.store()

    def _handle_job_end(self, key: JobKey, task: asyncio.Task[None]) -> None:
        del self._running[key]
        if key in self._to_run_again:
            self._to_run_again.discard(key)
            self._waiting[key] = self._planned[key]
        else:
            self._finish_failed_job(key, task)
        self._fill_lanes()

    def _finish_failed_job(self, key: JobKey, task: asyncio.Task[None]) -> None:
        """Add the result of a job that was cancelled, or that failed by a bug of workbench."""
        planned = self._planned[key]
        if task.cancelled():
            self._results.add(key, planned, make_unexecuted_result(planned, key, CaseStatus.CANCELLED))
        elif (error := task.exception()) is not None:
            # A bug of workbench fails only this case, visibly.
            failure = Failure(kind=FailureKind.CRASH, message=f"workbench itself failed: {error!r}")
            self._results.add(key, planned, make_unexecuted_result(planned, key, CaseStatus.ERROR, failure))

    async def _run_job(self, key: JobKey) -> None:
        planned = self._planned[key]
        requests = CaseRequests(key)
        case_requests.set(requests)
        result = await self._produce_result(planned, key)
        if self._keep_requests is not None:
            try:
                await self._keep_requests(requests, self._is_whole(planned, result))
            except StoreError as error:
                self._run.warn(f"calls of judges are not recorded: {error}")
        self._results.add(key, planned, result)

    def _is_whole(self, planned: PlannedCase, result: CaseResult) -> bool:
        """Return True if all that the result of a case needs was asked: simulated users and tools, and every judge.

        In Python, several tests may judge the same case.
        """
        is_new = (planned.needs_agent or planned.is_recorded) and not planned.reused_results
        is_command = self._plan.options.command.startswith("workbench ")
        return is_command and is_new and result.failure is None and not has_outage(result.metrics)

    async def _produce_result(self, planned: PlannedCase, key: JobKey) -> CaseResult:
        if planned.problem is not None:
            return make_unexecuted_result(planned, key, CaseStatus.ERROR, planned.problem)
        execution = planned.recorded or planned.executed
        if execution is None:
            execution = await self._execute(planned, key)
            if (why := explain_turn_limit(key.case, execution)) is not None:
                self._run.warn(why)
            if execution.failure is None and has_slow_judges(planned.criteria):
                self._store_before_judging(planned, key, execution)
        return await self._judge(planned, key, execution)

    async def _judge(self, planned: PlannedCase, key: JobKey, execution: Execution) -> CaseResult:
        case = planned.case  # may be lazy: compute it once
        metrics = await judge_case(
            JudgedCase(
                case=case,
                expected=() if case is None else case.conversation or (),
                execution=execution,
                columns=planned.columns,
                baselines=planned.baselines,
                recorded=planned.is_recorded,
            ),
            criteria_to_judge(planned),
            self._services_of(planned.target),
        )
        metrics = merge_reused_results(metrics, planned)
        self._note_outage(key, metrics)
        if not planned.is_recorded:
            self._send(CaseScored(case=key.case, repeat=key.repeat, metrics=metrics))
        return _result(
            {
                "case": key.case,
                "eval_set_id": planned.eval_set_id,
                "repeat": key.repeat,
                "status": decide_case_status(metrics, failure=execution.failure),
                "duration_seconds": execution.duration_seconds,
                "agent_seconds": execution.agent_seconds,
                "failure": execution.failure,
                "metrics": metrics,
                "execution": execution,
                "expected_by_row": case if planned.columns else None,
                "quarantine": planned.current_quarantine,
            }
        )

    def _note_outage(self, key: JobKey, metrics: tuple[MetricResult, ...]) -> None:
        is_answered_from_file = self._plan.options.judge_replay is not None
        if has_outage(metrics) and not is_answered_from_file:
            self._not_judged.add(key)
        elif self._not_judged:
            self._not_judged.discard(key)  # an earlier attempt may have added it

    async def _execute(self, planned: PlannedCase, key: JobKey) -> Execution:
        """Run the agent. Retry after infrastructure errors, and alone if another case broke the shared process.

        If the machine of the case was lost, it runs again on another one at once.
        """
        tries = 1
        attempt = await self._attempt(planned, key, number=tries, alone=False)
        while (failure := attempt.execution.failure) is not None:
            if attempt.retry_alone:
                tries += 1
                return (await self._attempt(planned, key, number=tries, alone=True)).execution
            if not attempt.retry_elsewhere or tries > _MOST_MACHINES:
                if failure.kind is not FailureKind.INFRASTRUCTURE or tries > self._plan.limits.retries:
                    break
                await asyncio.sleep(_backoff_seconds(tries))
            tries += 1
            attempt = await self._attempt(planned, key, number=tries, alone=False)
        return attempt.execution

    async def _attempt(self, planned: PlannedCase, key: JobKey, *, number: int, alone: bool) -> Attempt:
        expected = planned.case  # may be lazy: compute it once
        assert expected is not None
        case, repeat = key.case, key.repeat
        self._send(CaseStarted(case=case, repeat=repeat, turns=planned.turns, attempt=number))
        if (requests := case_requests.get()) is not None:
            requests.calls.clear()  # of an earlier attempt

        def turn_finished(turn: int, result: TurnResult) -> None:
            self._send(InvocationFinished(case=case, repeat=repeat, turn=turn, result=result))

        def span_finished(span: Span) -> None:
            self._send(SpanFinished(case=case, repeat=repeat, span=span))

        def user_spoke(turn: int, content: Content) -> None:
            self._send(UserSpoke(case=case, repeat=repeat, turn=turn, content=content))

        def opened(node: str | None = None) -> None:
            if node is not None:
                self._send(CasePlaced(case=case, repeat=repeat, node=node))
            if self._opening.pop(key, None) is not None:
                if models is not None:
                    models.opened_at = time.perf_counter()
                self._report_importing()

        self._opening[key] = (planned.target.name, time.monotonic())
        asyncio.get_running_loop().call_later(_SLOW_IMPORT, self._report_importing)
        tools = None
        if planned.tools is not None:
            tools = CaseTools(planned.tools, key, ask=self._services_of(planned.target).ask)
        models = None
        if self._models is not None and planned.target.has_recorded_models:
            models = self._models.open(key)
        listener = CaseListener(
            user_spoke=user_spoke, turn_finished=turn_finished, span_finished=span_finished, opened=opened
        )
        try:
            attempt = await execute(
                expected,
                create_user(planned, repeat=repeat, ask=self._services_of(planned.target).ask),
                self._host_of(planned.target),
                target=planned.target,
                timeout_seconds=self._plan.limits.timeout_seconds,
                alone=alone,
                listener=listener,
                left=self.left_by_agents,
                tools=tools,
                models=models,
                instructions=self._plan.instructions,
            )
        finally:
            opened()
        if models is not None and self._models is not None:
            self._models.keep(models, attempt.execution.failure)
            spans = models.complete_trace(attempt.execution.spans)
            calls = models.counts.model_copy(update={"recording": models.identify_recording()})
            execution = attempt.execution.model_copy(update={"model_calls": calls, "spans": spans})
            attempt = replace(attempt, execution=execution)
        if tools is not None:
            await self._record_tools(planned, tools, attempt.execution.failure)
        watched = self._watched.get(planned.target)
        if watched is None:
            return attempt
        dependencies = add_watched(attempt.execution.dependencies, watched)
        return replace(attempt, execution=attempt.execution.model_copy(update={"dependencies": dependencies}))

    def _report_importing(self) -> None:
        """Report slow imports of agents if they changed."""
        slow = time.monotonic() - _SLOW_IMPORT * 0.99
        importing = tuple(sorted({name for name, since in self._opening.values() if since < slow}))
        if importing != self._importing:
            self._importing = importing
            self._send(AgentsImporting(targets=importing))

    def _store_before_judging(self, planned: PlannedCase, key: JobKey, execution: Execution) -> None:
        """Store an execution before it is judged, so that it is not lost if judging is interrupted."""
        result = make_unexecuted_result(planned, key, CaseStatus.NOT_EVALUATED)
        done = {
            "execution": execution,
            "duration_seconds": execution.duration_seconds,
            "agent_seconds": execution.agent_seconds,
            "expected_by_row": planned.expected_by_row,
        }
        self._results.add_unjudged(key, planned, result.model_copy(update=done))

    async def _record_tools(self, planned: PlannedCase, tools: CaseTools, failure: Failure | None) -> None:
        """Record tool calls if the plan says so, except those of an incomplete attempt."""
        path = None if planned.tools is None else planned.tools.record
        if path is None or (failure is not None and failure.kind is not FailureKind.AGENT):
            return
        try:
            await asyncio.to_thread(add_recording, path, tools.build_recording())
        except StoreError as error:
            self._run.warn(f"tool calls are not recorded: {error}")

    def _send(self, event: RunEvent) -> None:
        self._run.log.append(event)


def _backoff_seconds(tries: int) -> float:
    """Return 1, 2, 4 ... s, at most 30, varied by a quarter so that failed cases do not retry together."""
    return min(2.0 ** (tries - 1), 30.0) * random.uniform(0.75, 1.25)


# The start of a run, from the shared resources of a project.


OpenHost = Callable[[Callable[[Target, bool], Ask]], AgentHost]
"""Opens a host of the caller. Its argument returns what asks the models of a target within the budget of the run: with
True always the model, else the cache first."""


def start_run(
    plan: Plan,
    *,
    holds: Holds,
    host: OpenHost | None,
    root: Path,
    judge: JudgeSettings,
    resources: Resources,
    verdicts: StoredVerdicts,
) -> Run:
    """Start a run of a plan in the project at `root`. See `Workspace.start`, also for errors."""
    run = Run(plan.resumes or new_run_id(datetime.now()), plan, call_engine=resources.thread.call, holds=holds)

    own_host = None if host is None else host(lambda target, live: judges().get_ask(target, live=live))

    def host_of(target: Target) -> AgentHost:
        return own_host or resources.hosts.get_plan_host(target, plan)

    def prepare(plan: Plan) -> None:
        resources.prepare_text(plan)
        if host is None:
            resources.hosts.prepare(plan)

    def open_judges() -> RunJudges:
        resources.cache_warnings.attach(run)
        return RunJudges(plan, judge, judges=resources.open_judges, changed=changed, warn=run.warn, waits=waits)

    def waits(model: str, seconds: float) -> None:
        run.log.append(QuotaWait(model=model, seconds=seconds))

    def changed() -> None:
        with suppress(ReferenceError):  # the run is over
            running.schedule_spending_report()

    async def keep_requests(requests: CaseRequests, replaces: bool) -> None:
        await judges().keep(requests, replaces=replaces)

    judges = cache(open_judges)
    runner = Runner(
        run,
        host_of=host_of,
        services_of=cache(
            lambda target: RunServices(
                resources.text,
                lambda: host_of(target),
                timeout_seconds=plan.limits.timeout_seconds,
                left=lambda: running.left_by_agents,
                ask=lambda: judges().get_ask(target),
            )
        ),
        recorder=HistoryRecorder(root, warn=run.warn, lose=run.report_lost_results, stored=verdicts.note),
        prepare=prepare,
        look_at_leftovers=verdicts.left_by_agents,
        spending=lambda: judges().list_spending(),
        keep_requests=None if plan.options.judge_record is None else keep_requests,
        load=_load,
    )
    # A weak reference avoids a cycle: runs are large, and garbage collection is late.
    running = proxy(runner)
    if plan.options.judge_record is not None or plan.options.judge_replay is not None:
        judges()  # reports an unusable file before anything runs
    run.attach(runner, resources.thread.submit(runner.run()))
    return run


def _load(plan: Plan) -> None:
    """Import what a run of the plan needs. Blocking."""
    find_versions()
    if any(case.needs_agent for case in plan.cases):
        from workbench.agents.worker_host import preload_host_modules

        preload_host_modules()
