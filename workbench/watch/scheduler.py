"""What runs now, what is held back, and whose run brings which verdict."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from workbench.engine.plan import PlanError, PlannedCase
from workbench.engine.planner import with_baselines
from workbench.engine.run import Holds, Run
from workbench.engine.workspace import Workspace
from workbench.model.identity import DependencyKind, JobKey
from workbench.model.results import CaseStatus, MetricScores
from workbench.model.run_events import CaseFinished, CaseStarted, Notice, RunEvent, RunFinished
from workbench.model.text import pluralise
from workbench.store.errors import StoreError
from workbench.store.history.history_queries import StoredVerdict
from workbench.store.settings import WatchSettings
from workbench.watch.selector import (
    Action,
    Decision,
    Selector,
    VerdictKey,
    Why,
    get_verdict_key,
    plan_decisions,
    read_scores,
)
from workbench.watch.watch_events import WatchReporter, WatchRunEvent, WatchRunStarted
from workbench.watch.watch_plan import WatchPlanner

# How much a change may cost by itself: what is more waits until the user wants it.


def beyond_cap(work: Sequence[Decision], settings: WatchSettings) -> str:
    """How running the agents of these is more than is wanted for one change, in words; empty where it is not.

    Judging again what an agent did costs nothing. A case counts once, the turns of all its repeats; one whose turns a
    simulated user decides counts as one turn.
    """
    ran = [each for each in work if each.action is not Action.JUDGE and each.planned.needs_agent]
    cases = len({each.job.case for each in ran})
    if settings.max_cases_per_change is not None and cases > settings.max_cases_per_change:
        return f"{pluralise(cases, 'case')}, more than max_cases_per_change = {settings.max_cases_per_change:,}"
    if settings.max_turns_per_change is None:
        return ""
    turns = sum(1 if (known := each.planned.turns) is None else known for each in ran)
    if turns > settings.max_turns_per_change:
        return f"{pluralise(turns, 'turn')}, more than max_turns_per_change = {settings.max_turns_per_change:,}"
    return ""


# What the watch is running now, and how things were when that began.

_LATELY = 1.0  # seconds in which the watcher tells of what was written
_DYING = 0.1  # seconds in which processes end, and the clock of a disk may be late


@dataclass(frozen=True)
class LiveJob:
    """A job that is running, and how things were when it began."""

    run: Run
    planned: PlannedCase
    signature: int | None
    saved_at: float | None

    def goes_on(self, decision: Decision, selector: Selector) -> bool:
        """Whether it may end, by what is decided now: nothing that it is known to need has changed since it began."""
        same_question = self.planned.execution_hash == decision.planned.execution_hash
        return same_question and self.signature == selector.compute_signature(decision)

    @property
    def ends_with_its_processes(self) -> bool:
        """Whether nothing of it can write any more once it has ended."""
        return self.run.plan.limits.isolation == "case" and self.planned.target.runs_in_worker


@dataclass(frozen=True)
class _End:
    """When a job ended, by the clock of files, and whether its processes did."""

    at: float
    is_of_processes: bool


def job_of(event: CaseStarted | CaseFinished) -> JobKey:
    """The job that an event is about."""
    return JobKey(case=event.case, repeat=event.repeat)


class Live:
    """The jobs that run for the watch, by generation: a change makes a new one."""

    def __init__(self) -> None:
        self.generation = 0
        self._jobs: dict[JobKey, LiveJob] = {}
        self._waiting: set[JobKey] = set()  # of them, those that have not begun
        self._ran_in: dict[VerdictKey, int] = {}
        self._ended: dict[JobKey, _End] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, job: JobKey) -> bool:
        return job in self._jobs

    def get(self, job: JobKey) -> LiveJob | None:
        """The job as it runs; None where it does not."""
        return self._jobs.get(job)

    def begin(self, job: JobKey, live: LiveJob) -> None:
        """It waits in a run, and runs."""
        self._jobs[job] = live
        self._waiting.add(job)
        self.note_run(live.run.run_id, [job])

    def note_begun(self, run: Run, job: JobKey) -> None:
        """A job of a run waits no longer."""
        live = self._jobs.get(job)
        if live is not None and live.run is run:
            self._waiting.discard(job)

    def is_waiting(self, job: JobKey) -> bool:
        """Whether it is to run and has not begun."""
        return job in self._waiting

    def end(self, job: JobKey) -> None:
        """It does not run any longer, or nobody waits for what it says."""
        live = self._jobs.pop(job, None)
        self._waiting.discard(job)
        self._ended[job] = _End(time.time(), is_of_processes=live is not None and live.ends_with_its_processes)

    def may_have_written(self, job: JobKey, written_at: float | None) -> bool:
        """Whether a change may be the work of a job: it runs, or ended so lately that it is only seen now.

        `written_at` is when the last of it was written, None where that is not known.
        """
        ended = self._ended.get(job)
        if job in self._jobs or ended is None:
            return job in self._jobs
        if ended.is_of_processes and written_at is not None and written_at > ended.at + _DYING:
            return False
        return time.time() - ended.at < _LATELY

    def cancel(self) -> None:
        """Stop all of it."""
        for live in self._jobs.values():
            live.run.cancel()

    def change_came(self) -> None:
        """From now on how things were when something began is not known to be how they are."""
        self.generation += 1
        self._ran_in.clear()

    def note_run(self, run_id: str, jobs: Iterable[JobKey]) -> None:
        """A run begins, of the watch or not: what it will say is about how things are now."""
        self._ran_in.update((VerdictKey(run_id, job), self.generation) for job in jobs)

    def is_current(self, verdict: StoredVerdict) -> bool:
        """Whether nothing at all has changed since it began to run."""
        return self._ran_in.get(get_verdict_key(verdict)) == self.generation


# Which of what is decided the watch is to do now: what is let be, what is held back, what goes on too long.

_MOST_IN_A_ROW = 3
"""How often a case is run again because something changed while it ran, before its verdict is shown all the same."""

_WORK = (Action.RUN, Action.JUDGE)


class Work:
    """What is to be done of what is decided. Knows what was asked of it before, and touches nothing that runs."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        selector: Selector,
        live: Live,
        news: WatchReporter,
        first: Callable[[JobKey], float],
    ) -> None:
        """`first` sorts jobs that wait: the smallest come first, after those that did not pass last time."""
        self._workspace = workspace
        self._selector = selector
        self._live = live
        self._news = news
        self._first = first
        self._let_be: dict[JobKey, tuple[object, ...]] = {}
        self._left: dict[JobKey, int] = {}
        self._in_a_row: dict[JobKey, int] = {}
        self._written_at: float | None = None
        self.held: set[JobKey] = set()
        """What is more than the user wants to spend on one change."""

    def change_came(self, written_at: float | None) -> None:
        """Allow as many runs as before, but not to what runs or has just ended: the change may be its own work.

        `written_at` is when the last of it was written, None where that is not known.
        """
        self._written_at = written_at
        kept = [job for job in self._in_a_row if self._live.may_have_written(job, written_at)]
        self._in_a_row = {job: self._in_a_row[job] for job in kept}

    def let_be(self, decisions: Iterable[Decision]) -> None:
        """Do nothing about these before a change concerns them."""
        self._let_be.update((each.job, self._question(each)) for each in decisions)

    def leave(self, decisions: Iterable[Decision]) -> None:
        """Do nothing about these before anything changes."""
        self._left.update((each.job, self._live.generation) for each in decisions)

    def take_up(self, decisions: Iterable[Decision]) -> None:
        """These are being done."""
        for each in decisions:
            self._let_be.pop(each.job, None)

    def of(self, decisions: Iterable[Decision], *, all_of_it: bool) -> list[Decision]:
        """What is to be run or judged of these, with `all_of_it` also what no edit can help, but for what runs."""
        return [each for each in decisions if each.job not in self._live and self._is_work(each, all_of_it=all_of_it)]

    def not_of_its_own(self, work: Iterable[Decision]) -> list[Decision]:
        """Leave out cases that any change concerns, and that have run too often because of changes of their own.

        A program that an agent starts may write a file: the next run would write it again.
        """

        def may_be_its_own(decision: Decision) -> bool:
            return _any_change_counts(decision) and self._live.may_have_written(decision.job, self._written_at)

        return [each for each in work if not may_be_its_own(each) or self.may_run(each)]

    def outside_changes(self, decisions: Iterable[Decision]) -> list[Decision]:
        """What needs doing of these, whether or not a change concerns them."""
        return [each for each in decisions if each.action in _WORK]

    def in_order(self, decisions: Iterable[Decision]) -> list[Decision]:
        """These, in the order in which they are wanted."""
        return sorted(decisions, key=lambda each: (self._passed(each.job), self._first(each.job)))

    def hold_back(self, work: Sequence[Decision]) -> str:
        """Keep back what runs agents where that is more than the user wants by itself; why, empty where it is not."""
        self.held.difference_update(each.job for each in work)
        beyond = beyond_cap(work, self._workspace.settings.watch)
        if beyond:
            agents = [each for each in work if each.action is not Action.JUDGE]
            self.held.update(each.job for each in agents)
            self.let_be(agents)
        return beyond

    def may_run(self, decision: Decision) -> bool:
        """Whether a job may be run once more though no save made work of it; says where that has gone on too long."""
        count = self._in_a_row[decision.job] = self._in_a_row.get(decision.job, 0) + 1
        if count == _MOST_IN_A_ROW + 1:
            words = self._news.reason([decision])
            self._news.tell(Notice(severity="warning", message=f"{decision.job.case} is never up to date: {words}"))
        return count <= _MOST_IN_A_ROW

    def _is_work(self, decision: Decision, *, all_of_it: bool) -> bool:
        if decision.action not in _WORK and (
            decision.action is not Action.LEAVE or (decision.job in self._news.known and not all_of_it)
        ):
            return False
        if self._left.get(decision.job) == self._live.generation:
            return False
        return self._let_be.get(decision.job) != self._question(decision)

    def _question(self, decision: Decision) -> tuple[object, ...]:
        """What a job is about: the same as long as no change has concerned it."""
        planned = decision.planned
        generation = self._live.generation if _any_change_counts(decision) else None
        now = (
            self._selector.compute_signature(decision),
            self._selector.compute_judging_signature(decision),
            generation,
        )
        return planned.execution_hash, planned.scoring_hash, *now

    def _passed(self, job: JobKey) -> bool:
        newest = self._workspace.verdicts.newest(job)
        return newest is not None and newest.job.status is CaseStatus.PASSED


def _any_change_counts(decision: Decision) -> bool:
    """Whether what it depends on is not known, or cannot be followed."""
    return any(
        reason.why is Why.UNKNOWN or (reason.row is not None and reason.row.kind == DependencyKind.OPAQUE)
        for reason in decision.reasons
    )


# Decisions on the jobs of a watch, one look at a time.


class Deciding:
    """Holds every job against how things are. For the thread on which the workspace may be used."""

    def __init__(self, selector: Selector, *, shown: Mapping[JobKey, VerdictKey]) -> None:
        """`shown` are the verdicts that were told last: of several that hold, those."""
        self._selector = selector
        self._shown = shown
        self.jobs: dict[JobKey, PlannedCase] = {}
        self.lock = threading.Lock()

    def all(self) -> list[Decision]:
        """Decide on every job anew: anything may have changed."""
        with self.lock:
            self._selector.forget()
            return [self._decide(job, planned) for job, planned in self.jobs.items()]

    def some(self, jobs: Iterable[JobKey]) -> list[Decision]:
        """Decide on those of these jobs that there still are, by what was seen last."""
        with self.lock:
            return [self._decide(job, self.jobs[job]) for job in jobs if job in self.jobs]

    def one(self, job: JobKey) -> Decision | None:
        """The same for one job; None where it is gone."""
        return next(iter(self.some([job])), None)

    def _decide(self, job: JobKey, planned: PlannedCase) -> Decision:
        return self._selector.decide(job, planned, shown=self._shown.get(job))


# Verdicts of earlier runs that hold, told where others are shown or none.

T = TypeVar("T")


class OffLoop(Protocol):
    """Calls a function where it does not hold up the event loop, and where the workspace may be used."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


async def show_stored(
    decisions: Iterable[Decision], news: WatchReporter, workspace: Workspace, *, off_loop: OffLoop
) -> None:
    """Tell the verdicts that hold and are not the ones that were told last."""
    held = {
        each.job: each
        for each in decisions
        if each.action is Action.NOTHING
        and each.verdict is not None
        and news.shown.get(each.job) != get_verdict_key(each.verdict)
    }
    if not held:
        return
    verdicts = {job: each.verdict for job, each in held.items() if each.verdict is not None}
    news.verdicts_hold(verdicts, {job: each.planned for job, each in held.items()})
    news.count(verdicts, await off_loop(lambda: _scores(workspace, verdicts)))


def _scores(workspace: Workspace, verdicts: Mapping[JobKey, StoredVerdict]) -> dict[JobKey, MetricScores]:
    with workspace.history() as history:
        return read_scores(history, verdicts)


# Begins the runs of a watch, and tells the verdicts that they bring, unless a change has overtaken those.


class Runs:
    """The runs of one watch."""

    def __init__(
        self,
        workspace: Workspace,
        planning: WatchPlanner,
        *,
        selector: Selector,
        deciding: Deciding,
        live: Live,
        work: Work,
        news: WatchReporter,
        off_loop: OffLoop,
        run_soon: Callable[[JobKey], None],
    ) -> None:
        """`run_soon` has a case decided on once more, and run where that is needed."""
        self._workspace = workspace
        self._planning = planning
        self._selector = selector
        self._deciding = deciding
        self._live = live
        self._work = work
        self._news = news
        self._off_loop = off_loop
        self._run_soon = run_soon
        self._told_last = ""  # why results are not stored

    async def begin(self, decisions: Sequence[Decision], *, saved_at: float | None) -> Run | None:
        """Begin a run of what has to be run or judged; None where it cannot begin, which is told."""
        ordered = self._work.in_order(decisions)
        try:
            run = await self._off_loop(lambda: self._start(ordered))
        except (PlanError, StoreError) as error:
            self._work.leave(ordered)
            self._tell_once(Notice(severity="error", message=str(error)))
            return None
        for each in ordered:
            self._live.begin(each.job, LiveJob(run, each.planned, self._selector.compute_signature(each), saved_at))
        self._work.take_up(ordered)
        self._news.tell(WatchRunStarted(run, tuple(each.job for each in ordered), self._news.reason(ordered)))
        return run

    async def follow(self, run: Run) -> None:
        """Take up what a run tells until it is over."""
        async for event in run.events():
            if isinstance(event, Notice):
                self._tell_once(event)
            elif isinstance(event, CaseStarted):
                self._live.note_begun(run, job_of(event))
            elif isinstance(event, CaseFinished):
                await self._on_finished(run, event)
            elif isinstance(event, RunFinished):
                self._news.spent(event.summary.models)
            self._news.tell(WatchRunEvent(run.run_id, event))

    def _tell_once(self, notice: Notice) -> None:
        """Tell it, unless it is what was told last and no result has been stored since."""
        if notice.message != self._told_last:
            self._news.tell(notice)
        if notice.severity == "error":
            self._told_last = notice.message

    def stop_overtaken(self, decisions: Sequence[Decision]) -> None:
        """Stop what runs on what is no more."""
        if not self._live:
            return
        for decision in decisions:
            live = self._live.get(decision.job)
            if live is None:
                continue
            is_wanted = decision.action not in (Action.NOTHING, Action.WAIT)
            if not is_wanted or not live.goes_on(decision, self._selector):
                live.run.cancel(decision.job)
                self._live.end(decision.job)

    def _start(self, decisions: Sequence[Decision]) -> Run:
        plan = self._planning.make_run_plan(self._news.reason(decisions))
        with self._workspace.history() as history:
            part = plan_decisions(plan, decisions, runs=frozenset(Action), history=history, with_stored=False)
        # Runs have come since the plan was made: what was the latest then is no longer.
        cases = with_baselines(part.cases, self._workspace.history)
        return self._workspace.start(replace(part, cases=cases), holds=Holds.VERDICTS)

    async def _on_finished(self, run: Run, event: CaseFinished) -> None:
        """Tell a verdict, unless a change has overtaken it."""
        job = job_of(event)
        live = self._live.get(job)
        if live is None or live.run is not run:
            return
        if event.status is CaseStatus.CANCELLED:
            await self._on_cancelled(job)
            return
        self._live.end(job)
        decision = await self._off_loop(lambda: self._deciding.one(job))
        if decision is None or job in self._live:  # it is gone, or a change has begun it again meanwhile
            return
        if event.in_history:
            self._told_last = ""
        if not event.in_history:  # the disk may be full: to run it again at once would not help
            self._work.leave([decision])
        elif event.result.has_outage:  # to judge again at once would be to hammer at what is out
            self._work.let_be([decision])
        elif decision.action in (Action.RUN, Action.JUDGE) and self._work.may_run(decision):
            self._run_soon(job)
            return
        place = VerdictKey(run.run_id, job)
        holds = decision.action is Action.NOTHING and event.in_history
        self._news.verdict(decision.planned, event.result, saved_at=live.saved_at, place=place, holds=holds)

    async def _on_cancelled(self, job: JobKey) -> None:
        """Somebody else stopped it, who does not want it back before a change concerns it again."""
        decision = await self._off_loop(lambda: self._deciding.one(job))
        if decision is not None:
            self._work.let_be([decision])
        self._live.end(job)


# What the user runs beside the watch: a case whose verdict comes from there is not run by the watch too.


@dataclass
class _OtherRun:
    """The jobs of a run: those that wait will run on how things are then, the others began with a signature."""

    planned: Mapping[JobKey, PlannedCase]
    waiting: set[JobKey]
    running: dict[JobKey, int | None] = field(default_factory=dict)

    def brings(self, decision: Decision, selector: Selector) -> bool:
        """Whether it will say what is asked, on how things are now."""
        job = decision.job
        if job not in self.waiting and job not in self.running:
            return False
        if self.planned[job].execution_hash != decision.planned.execution_hash:
            return False
        return job in self.waiting or self.running[job] == selector.compute_signature(decision)


class Elsewhere:
    """The user's runs that go on, as far as one is told of them, and which of their verdicts the watch waits for."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._runs: dict[str, _OtherRun] = {}
        self._awaited: dict[JobKey, float | None] = {}

    def __bool__(self) -> bool:
        """Whether the watch waits for anything."""
        return bool(self._awaited)

    def begin(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """A run goes on in which these jobs wait; those that only judge again bring nothing on the agent."""
        planned = {job: each for job, each in run.plan.jobs if each.executed is None}
        self._runs[run.run_id] = _OtherRun(planned, {job for job in jobs if job in planned})

    def started(self, run_id: str, decisions: Iterable[Decision]) -> None:
        """Jobs of a run have begun, on how things are now."""
        run = self._runs.get(run_id)
        if run is None:
            return
        for each in decisions:
            if each.job in run.planned:
                run.waiting.discard(each.job)
                run.running[each.job] = self._selector.compute_signature(each)

    def ended(self, run_id: str, job: JobKey) -> None:
        """A job of a run has ended, however it did."""
        run = self._runs.get(run_id)
        if run is not None:
            run.waiting.discard(job)
            run.running.pop(job, None)

    def over(self, run_id: str) -> None:
        """A run is over."""
        self._runs.pop(run_id, None)

    def ours(self, work: Sequence[Decision], *, saved_at: float | None) -> list[Decision]:
        """Of this work, what no such run is about to say. For the rest the watch waits; a save made work of it then."""
        ours = []
        for each in work:
            if any(run.brings(each, self._selector) for run in self._runs.values()):
                self._awaited[each.job] = saved_at or self._awaited.get(each.job)
            else:
                self._awaited.pop(each.job, None)
                ours.append(each)
        return ours

    def expect_only(self, jobs: Iterable[JobKey]) -> None:
        """All others need no verdict any longer."""
        self._awaited = {job: self._awaited[job] for job in jobs if job in self._awaited}

    def awaits(self, job: JobKey) -> bool:
        """Whether the watch waits for a verdict on a job."""
        return job in self._awaited

    def take(self, job: JobKey) -> float | None:
        """A verdict that was waited for has come, or will not: when the save was seen that made work of it."""
        return self._awaited.pop(job)

    def lost(self) -> list[JobKey]:
        """What the watch waits for though no run has it any longer."""
        there = {job for run in self._runs.values() for job in (*run.waiting, *run.running)}
        return [job for job in self._awaited if job not in there]


class ElsewhereTold:
    """Takes up what the user's runs tell, in the order in which it was told."""

    def __init__(
        self,
        elsewhere: Elsewhere,
        deciding: Deciding,
        live: Live,
        news: WatchReporter,
        *,
        off_loop: OffLoop,
        run_soon: Callable[[JobKey], None],
    ) -> None:
        """`run_soon` has a case decided on once more, and run where that is needed."""
        self._elsewhere = elsewhere
        self._deciding = deciding
        self._live = live
        self._news = news
        self._off_loop = off_loop
        self._run_soon = run_soon
        self._order = asyncio.Lock()

    async def take_up(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """What a run has told since the last time."""
        async with self._order:
            jobs = [job_of(event) for event in events if isinstance(event, CaseStarted)]
            self._elsewhere.started(run_id, await self._off_loop(lambda: self._deciding.some(jobs)))
            for event in events:
                if isinstance(event, CaseFinished):
                    await self._on_finished(run_id, event)
                elif isinstance(event, RunFinished):
                    self._elsewhere.over(run_id)
                    for job in self._elsewhere.lost():
                        self._elsewhere.take(job)
                        self._run_soon(job)

    async def _on_finished(self, run_id: str, event: CaseFinished) -> None:
        """Tell a verdict that was waited for; where it is none on how things are now, the case is run after all."""
        job, place = job_of(event), VerdictKey(run_id, job_of(event))
        self._elsewhere.ended(run_id, job)
        if not self._elsewhere.awaits(job):
            return
        decision = await self._off_loop(lambda: self._deciding.one(job))
        if decision is None or not self._elsewhere.awaits(job) or job in self._live:
            return  # a change has come meanwhile
        saved_at = self._elsewhere.take(job)
        if event.status is CaseStatus.CANCELLED or decision.action in (Action.RUN, Action.JUDGE):
            self._run_soon(job)
        elif decision.verdict is not None and get_verdict_key(decision.verdict) == place:
            holds = decision.action is Action.NOTHING
            self._news.verdict(decision.planned, event.result, saved_at=saved_at, place=place, holds=holds)
