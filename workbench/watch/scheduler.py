"""What the watch runs: active jobs, decisions, the scheduler, and cooperation with manual runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from workbench.agents.worker.recording.fingerprints import is_library_folder
from workbench.engine.plan import PlanError, PlannedCase
from workbench.engine.planner import add_baselines
from workbench.engine.run import Holds, Run
from workbench.engine.verdict_index import Verdicts
from workbench.engine.workspace import Workspace
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus, MetricScores
from workbench.model.run_events import CaseFinished, CaseStarted, Notice, RunEvent, RunFinished
from workbench.model.text import pluralise
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredVerdict
from workbench.store.settings import WatchSettings
from workbench.watch.file_watcher import FileChange
from workbench.watch.selector import (
    Action,
    Decision,
    Reason,
    Selector,
    VerdictKey,
    Why,
    get_path,
    get_verdict_key,
    plan_decisions,
    read_scores,
)
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import WatchReporter, WatchRunEvent, WatchRunStarted
from workbench.watch.watch_plan import WatchPlanner

T = TypeVar("T")


class OffLoop(Protocol):
    """Calls a function outside the event loop, on the thread that may use the workspace."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


# Limits for one change.


def explain_excess(work: Sequence[Decision], settings: WatchSettings) -> str:
    """Return which limit for one change this work exceeds; empty if none.

    Only work that runs agents counts. All repeats of a case are one case, and their turns are added. A conversation of
    unknown length, with a simulated user, counts as one turn.
    """
    running = [each for each in work if each.action is not Action.JUDGE and each.planned.needs_agent]
    cases = len({each.job.case for each in running})
    if settings.max_cases_per_change is not None and cases > settings.max_cases_per_change:
        return f"{pluralise(cases, 'case')}, more than max_cases_per_change = {settings.max_cases_per_change:,}"
    if settings.max_turns_per_change is None:
        return ""
    turns = sum(1 if (known := each.planned.turns) is None else known for each in running)
    if turns > settings.max_turns_per_change:
        return f"{pluralise(turns, 'turn')}, more than max_turns_per_change = {settings.max_turns_per_change:,}"
    return ""


# Active jobs of the watch.

_REPORT_DELAY = 1.0  # seconds until the watcher has reported what a job wrote
_LATE_REPORT_DELAY = 10.0  # the same on a busy machine, for a change whose time is known
_EXIT_DELAY = 0.1  # seconds for processes to end, and for the clock of a disk to lag


@dataclass(frozen=True)
class ActiveJob:
    """A job that runs or waits in a run of the watch. `signature` is the state of its dependencies at the start."""

    run: Run
    planned: PlannedCase
    signature: int | None
    saved_at: float | None

    def is_current(self, decision: Decision, selector: Selector) -> bool:
        """Return True if no known dependency of the job has changed since it started."""
        has_same_input = self.planned.execution_hash == decision.planned.execution_hash
        return has_same_input and self.signature == selector.compute_signature(decision)

    @property
    def ends_with_processes(self) -> bool:
        """Whether the processes of the job end with it, so that nothing of it can write afterwards."""
        return self.run.plan.limits.isolation == "case" and self.planned.target.runs_in_worker


@dataclass(frozen=True)
class _JobEnd:
    """When a job ended, by the clock of files, and whether its processes ended too."""

    at: float
    includes_processes: bool


def get_job(event: CaseStarted | CaseFinished) -> JobKey:
    """Return the job of an event."""
    return JobKey(case=event.case, repeat=event.repeat)


class ActiveJobs:
    """The active jobs of the watch, and the generation of files they run on. Every change starts a new generation."""

    def __init__(self) -> None:
        self.generation = 0
        self._jobs: dict[JobKey, ActiveJob] = {}
        self._waiting: set[JobKey] = set()  # active, but not started yet
        self._generations: dict[VerdictKey, int] = {}  # in which a job of a run was added
        self._ends: dict[JobKey, _JobEnd] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, job: JobKey) -> bool:
        return job in self._jobs

    def get(self, job: JobKey) -> ActiveJob | None:
        """Return an active job, or None."""
        return self._jobs.get(job)

    def add(self, job: JobKey, active: ActiveJob) -> None:
        """Add a job of a run of the watch; it waits until `mark_started`."""
        self._jobs[job] = active
        self._waiting.add(job)
        self.note_generation(active.run.run_id, [job])

    def mark_started(self, run: Run, job: JobKey) -> None:
        """Note that a job of this run no longer waits."""
        active = self._jobs.get(job)
        if active is not None and active.run is run:
            self._waiting.discard(job)

    def is_unreported(self, job: JobKey, run_id: str) -> bool:
        """Return True if the verdict of a job in this run of the watch is stored, and its end will report it."""
        active = self._jobs.get(job)
        return active is not None and active.run.run_id == run_id

    def is_waiting(self, job: JobKey) -> bool:
        """Return True if the job is active and has not started."""
        return job in self._waiting

    def remove(self, job: JobKey) -> None:
        """Remove a job that ended or whose result is no longer needed."""
        active = self._jobs.pop(job, None)
        self._waiting.discard(job)
        includes_processes = active is not None and active.ends_with_processes
        self._ends[job] = _JobEnd(time.time(), includes_processes)

    def may_have_written(self, job: JobKey, last_write_time: float | None) -> bool:
        """Return True if a job may have caused a change: it is active, or ended just before the change was reported.

        `last_write_time` is that of the change, None if unknown.
        """
        end = self._ends.get(job)
        if job in self._jobs or end is None:
            return job in self._jobs
        since_end = time.time() - end.at
        if last_write_time is None:
            return since_end < _REPORT_DELAY
        delay = _EXIT_DELAY if end.includes_processes else _REPORT_DELAY
        return last_write_time - end.at <= delay and since_end < _LATE_REPORT_DELAY

    def cancel_all(self) -> None:
        """Cancel the runs of all active jobs."""
        for active in self._jobs.values():
            active.run.cancel()

    def start_generation(self) -> None:
        """Note that files changed: results of earlier generations are no longer current by age alone."""
        self.generation += 1
        self._generations.clear()

    def note_generation(self, run_id: str, jobs: Iterable[JobKey]) -> None:
        """Note that these jobs of a run, of the watch or manual, run on the current generation."""
        self._generations.update((VerdictKey(run_id, job), self.generation) for job in jobs)

    def is_current(self, verdict: StoredVerdict) -> bool:
        """Return True if no file at all has changed since the job of this verdict started."""
        return self._generations.get(get_verdict_key(verdict)) == self.generation


# Decisions on the jobs of the plan.


class DecisionService:
    """Decides on the jobs of the plan. The methods belong on the thread of the workspace; a lock serialises them."""

    def __init__(
        self,
        verdicts: Verdicts,
        snapshot: Snapshot,
        active: ActiveJobs,
        *,
        shown: Mapping[JobKey, VerdictKey],
        rejects_replays: bool = False,
    ) -> None:
        """`shown` are the verdicts that were reported last. If several are current, these are preferred.

        With `rejects_replays`, verdicts on replayed answers are stale.
        """
        self.snapshot = snapshot
        self.selector = Selector(
            verdicts,
            snapshot,
            is_current=active.is_current,
            is_busy=lambda: bool(active),
            rejects_replays=rejects_replays,
        )
        self.jobs: dict[JobKey, PlannedCase] = {}
        self._verdicts = verdicts
        self._shown = shown
        self._lock = threading.Lock()

    def decide_all(self, *, prefers_shown: bool = True) -> list[Decision]:
        """Decide on every job, looking at all files again. Without `prefers_shown`, the newest current verdicts win."""
        shown = self._shown if prefers_shown else {}
        with self._lock:
            self.selector.forget()
            return [self.selector.decide(job, planned, shown=shown) for job, planned in self.jobs.items()]

    def decide(self, jobs: Iterable[JobKey]) -> list[Decision]:
        """Decide on those of these jobs that are in the plan, by the last look at the files."""
        with self._lock:
            return [self._decide(job, self.jobs[job]) for job in jobs if job in self.jobs]

    def decide_unplanned(
        self, jobs: Mapping[JobKey, PlannedCase], shown: Mapping[JobKey, VerdictKey]
    ) -> list[Decision]:
        """Decide on further repeats of planned cases, which a manual run had, by the last look at the files."""
        with self._lock:
            return [self.selector.decide(job, planned, shown=shown) for job, planned in jobs.items()]

    def decide_one(self, job: JobKey) -> Decision | None:
        """Decide on a job; None if it is not in the plan."""
        return next(iter(self.decide([job])), None)

    def decide_finished(self, job: JobKey) -> Decision | None:
        """Decide on a job that has just ended, as if its result was shown already; None if it is not in the plan.

        If it seems to be stale, look at the files again: the job may have made a folder that was missing before.
        """
        with self._lock:
            planned = self.jobs.get(job)
            if planned is None:
                return None
            found = self.selector.decide(job, planned)
            if found.action is not Action.NOTHING:
                self.selector.forget()
                found = self.selector.decide(job, planned)
            return found

    def is_self_inflicted(self, change: FileChange) -> bool:
        """Return True if agents wrote all of a change while they ran."""
        if change.everything:
            return False
        with self._lock:
            self.snapshot.forget()
            written = [self._is_agent_written(str(path)) for path in change.paths]  # updates the names of each folder
        return all(written)

    def _is_agent_written(self, path: str) -> bool:
        if is_library_folder(path):  # reported for more than its names
            return False
        written = self._verdicts.find_last_state(path)
        if written is None:
            return self.snapshot.has_unchanged_names(path)
        return self.snapshot.fingerprint_file(path) == written

    def _decide(self, job: JobKey, planned: PlannedCase) -> Decision:
        return self.selector.decide(job, planned, shown=self._shown)


# The scheduler.

_MAX_RERUNS = 3
"""Reruns of a case because files changed while it ran, before its result is reported anyway. The last one waits until
nothing changes: then others do not save any more, and what changes during it is the work of the case itself."""
_SHORTEST_QUIET = 1.0
"""Seconds without a change before that last rerun. It is as long as the case if that is longer."""
_LONGEST_QUIET = 30.0
"""Maximum of these seconds."""
_MAX_RESTARTS = 3
"""Restarts of a running case for changes that it may have made itself, before it is left to end."""
_MAX_NEW_PLACES = 3
"""Reruns of a case that do not count, because each time something changed that it had not changed before."""

_WORK = (Action.RUN, Action.JUDGE)


class Scheduler:
    """Turns decisions into runs of the watch, and reports the verdicts of these runs."""

    def __init__(
        self,
        workspace: Workspace,
        planner: WatchPlanner,
        decisions: DecisionService,
        active: ActiveJobs,
        reporter: WatchReporter,
        *,
        off_loop: OffLoop,
        priority: Callable[[JobKey], float],
        rerun: Callable[[JobKey], None],
        rerun_when_quiet: Callable[[JobKey], None],
    ) -> None:
        """`rerun` decides on a job again soon, and runs it if necessary; `rerun_when_quiet` does so when nothing has
        changed for the time of `get_quiet_end`.

        Jobs that did not pass last time start first, then those with the smallest `priority`.
        """
        self._workspace = workspace
        self._planner = planner
        self._decisions = decisions
        self._selector = decisions.selector
        self._active = active
        self._reporter = reporter
        self._off_loop = off_loop
        self._priority = priority
        self._rerun = rerun
        self._rerun_when_quiet = rerun_when_quiet
        self._postponed: dict[JobKey, float] = {}  # jobs that wait until nothing changes, with the monotonic time
        self._durations: dict[JobKey, float] = {}  # of the last run, in seconds
        self._suppressed: dict[JobKey, tuple[object, ...]] = {}  # with the state in which they are suppressed
        self._unanswered: dict[JobKey, VerdictKey] = {}  # with the last run for which they were suppressed
        self._skipped: dict[JobKey, int] = {}  # with the generation in which they are skipped
        self._reruns: dict[JobKey, int] = {}
        self._restarts: dict[JobKey, int] = {}
        self._own_paths: dict[JobKey, set[Path]] = {}  # of the changes that a job may have caused
        self._new_places: dict[JobKey, int] = {}
        self._last_paths: frozenset[Path] = frozenset()
        self._last_write_time: float | None = None
        self._last_error = ""  # the last reported reason why results are not stored
        self._remarks: set[str] = set()  # of plans, such as that no criteria are configured
        self.held: set[JobKey] = set()
        """Jobs that exceed the limits for one change and wait for the user."""

    def note_change(self, paths: frozenset[Path], last_write_time: float | None) -> None:
        """Allow reruns again, except of jobs that may have caused this change.

        `last_write_time` is that of the change, None if unknown.
        """
        self._last_paths = paths
        self._last_write_time = last_write_time
        tables: tuple[dict[JobKey, Any], ...] = (self._reruns, self._restarts, self._own_paths, self._new_places)
        for table in tables:
            for job in [job for job in table if not self._active.may_have_written(job, last_write_time)]:
                del table[job]

    @property
    def has_postponed(self) -> bool:
        """Whether jobs wait until nothing changes."""
        return bool(self._postponed)

    def get_quiet_end(self, job: JobKey, last_change: float) -> float | None:
        """Return when a postponed job may run if nothing changes after `last_change`; None if it is not postponed.

        Both are monotonic times.
        """
        if job not in self._postponed:
            return None
        quiet = min(max(_SHORTEST_QUIET, self._durations.get(job, 0.0)), _LONGEST_QUIET)
        return max(self._postponed[job], last_change) + quiet

    def take_postponed(self, job: JobKey) -> None:
        """Note that a postponed job waits no longer."""
        self._postponed.pop(job, None)

    def add_delayed(self, work: Sequence[Decision], decisions: Iterable[Decision]) -> list[Decision]:
        """Add to the work for the last change what runs later or already: when the job has ended, when nothing changes,
        or since the file was saved."""
        jobs = {each.job for each in work}
        stale = [each for each in decisions if each.action in _WORK and each.job not in jobs]
        return [*work, *filter(self._is_delayed, stale)]

    def _is_delayed(self, decision: Decision) -> bool:
        active = self._active.get(decision.job)
        if active is None:
            return decision.job in self._postponed
        paths = {Path(get_path(each.row)) for each in decision.reasons if each.row is not None}
        return not active.is_current(decision, self._selector) or not paths.isdisjoint(self._last_paths)

    def suppress(self, decisions: Iterable[Decision]) -> None:
        """Skip these jobs until a change affects them."""
        self._suppressed.update((each.job, self._summarise_state(each)) for each in decisions)

    def suppress_unanswered(self, decisions: Iterable[Decision]) -> None:
        """Skip jobs whose last run, of the user or another program, got no answer from the agent or a judge."""
        for each in decisions:
            is_unanswered = each.action is Action.LEAVE or Reason(Why.JUDGE_OUTAGE) in each.reasons
            key = None if each.verdict is None else get_verdict_key(each.verdict)
            if is_unanswered and key is not None and self._unanswered.get(each.job) != key:
                self._unanswered[each.job] = key
                self.suppress([each])

    def select_work(self, decisions: Iterable[Decision], *, retries: bool) -> list[Decision]:
        """Return the decisions to carry out; jobs that are active are not among them.

        With `retries`, also run jobs again that got no answer, which no edit can help.
        """
        return [each for each in decisions if self._is_work(each, retries=retries) and each.job not in self._active]

    def drop_self_inflicted(self, work: Iterable[Decision], restarted: Collection[JobKey]) -> list[Decision]:
        """Drop jobs that any change affects, may have caused this one, and have run too often, unless `restarted`.

        A program that an agent starts may write a file: the next run would write it again. A change where the job has
        changed nothing so far is more likely an edit, unless this happens again and again. All writes of other jobs are
        recorded, so that this change is an edit for them.
        """
        work = list(work)
        for each in work:
            if not self._selector.is_affected_by_any(each):
                self._reruns.pop(each.job, None)
        return [
            each
            for each in work
            if each.job in restarted
            or not self._may_be_cause(each)
            or self._note_new_place(each.job)
            or self.may_rerun(each)
        ]

    def select_forced(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Return the decisions to carry out, suppressed ones included."""
        return [each for each in decisions if each.action in _WORK]

    def hold_excess(self, work: Sequence[Decision]) -> str:
        """Hold work that runs agents if it exceeds the limits for one change; return why, or an empty string."""
        self.held.difference_update(each.job for each in work)
        excess = explain_excess(work, self._workspace.settings.watch)
        if excess:
            running = [each for each in work if each.action is not Action.JUDGE]
            self.held.update(each.job for each in running)
            self.suppress(running)
        return excess

    def may_rerun(self, decision: Decision) -> bool:
        """Count a rerun that no save caused. Return False if it waits until nothing changes.

        Also return False, with a warning once, if there were too many.
        """
        if decision.job in self._postponed:
            return False
        count = self._reruns[decision.job] = self._reruns.get(decision.job, 0) + 1
        if count == _MAX_RERUNS:
            self._postponed[decision.job] = time.monotonic()
            self._rerun_when_quiet(decision.job)
        elif count == _MAX_RERUNS + 1:
            words = self._reporter.summarise([decision])
            self._reporter.report(
                Notice(severity="warning", message=f"{decision.job.case} is stale after every run: {words}")
            )
        return count < _MAX_RERUNS

    async def report_reused(self, decisions: Iterable[Decision]) -> None:
        """Report verdicts of earlier runs that are current, except those that were reported last."""
        reused = {
            each.job: each
            for each in decisions
            if each.action is Action.NOTHING
            and each.verdict is not None
            and self._reporter.shown.get(each.job) != get_verdict_key(each.verdict)
            and not self._active.is_unreported(each.job, each.verdict.job.run_id)
        }
        if not reused:
            return
        verdicts = {job: each.verdict for job, each in reused.items() if each.verdict is not None}
        self._reporter.report_reused(verdicts, {job: each.planned for job, each in reused.items()})
        self._reporter.count_verdicts(verdicts, await self._off_loop(lambda: self._read_scores(verdicts)))

    async def start(self, decisions: Sequence[Decision], *, saved_at: float | None) -> Run | None:
        """Start a run of these decisions; report why and return None if it cannot start."""
        ordered = sorted(decisions, key=lambda each: (self._has_passed(each.job), self._priority(each.job)))
        try:
            run = await self._off_loop(lambda: self._start_run(ordered))
        except (PlanError, StoreError) as error:
            self._skip_generation(ordered)
            self._report_once(Notice(severity="error", message=str(error)))
            return None
        for each in ordered:
            active = ActiveJob(run, each.planned, self._selector.compute_signature(each), saved_at)
            self._active.add(each.job, active)
            self._suppressed.pop(each.job, None)
            if each.job in self._postponed:  # a change came first, so that its next rerun waits again
                del self._postponed[each.job]
                self._reruns[each.job] = min(self._reruns.get(each.job, 0), _MAX_RERUNS - 1)
        reason = self._reporter.summarise(ordered)
        self._reporter.report(WatchRunStarted(run, tuple(each.job for each in ordered), reason))
        return run

    async def follow(self, run: Run) -> None:
        """Process the events of a run until it ends."""
        async for event in run.events():
            if isinstance(event, Notice):
                self._report_once(event)
            elif isinstance(event, CaseStarted):
                self._active.mark_started(run, get_job(event))
            elif isinstance(event, CaseFinished):
                await self._on_finished(run, event)
            elif isinstance(event, RunFinished):
                self._reporter.add_spending(event.summary)
            self._reporter.report(WatchRunEvent(run.run_id, event))

    def cancel_outdated(self, decisions: Sequence[Decision]) -> set[JobKey]:
        """Cancel active jobs that no longer need to run, or whose dependencies changed: these must start again.

        Return the cancelled jobs.
        """
        cancelled = set()
        for decision in decisions if self._active else ():
            active = self._active.get(decision.job)
            if active is None:
                continue
            is_needed = decision.action not in (Action.NOTHING, Action.WAIT)
            if is_needed and (active.is_current(decision, self._selector) or not self._may_restart(decision, active)):
                continue
            active.run.cancel(decision.job)
            self._active.remove(decision.job)
            cancelled.add(decision.job)
        return cancelled

    def _may_be_cause(self, decision: Decision) -> bool:
        """Return True if a job may have caused the last change, in a way that is not recorded."""
        is_untracked = self._selector.is_affected_by_any(decision)
        return is_untracked and self._active.may_have_written(decision.job, self._last_write_time)

    def _note_new_place(self, job: JobKey) -> bool:
        """Return True if earlier changes that the job may have caused all lack a path of the last change.

        A new name in a folder where it changed names before is no new place: a program may write a new file each time.
        It may also rewrite another file each time: only the first new places count as such.
        """
        known = self._own_paths.setdefault(job, set())

        def is_known(path: Path) -> bool:
            return path in known or (path.parent in self._last_paths and is_known(path.parent))

        is_new = bool(known) and not all(map(is_known, self._last_paths))
        known.update(self._last_paths)
        if is_new:
            self._new_places[job] = self._new_places.get(job, 0) + 1
        return is_new and self._new_places[job] <= _MAX_NEW_PLACES

    def _may_restart(self, decision: Decision, active: ActiveJob) -> bool:
        """Count a restart. Return False if the job may have caused the change and was restarted too often.

        Without a limit a case that changes a file which it has read would never end.
        """
        is_edited = active.planned.execution_hash != decision.planned.execution_hash
        if is_edited or not self._may_be_cause(decision):
            return True
        count = self._restarts[decision.job] = self._restarts.get(decision.job, 0) + 1
        return count <= _MAX_RESTARTS

    def _start_run(self, decisions: Sequence[Decision]) -> Run:
        plan = self._planner.make_run_plan(self._reporter.summarise(decisions))
        with self._open_history() as history:
            part = plan_decisions(plan, decisions, runs=frozenset(Action), history=history, with_stored=False)
        cases = add_baselines(part.cases, self._workspace.history)  # newer than those in the plan of the watch
        return self._workspace.start(replace(part, cases=cases), holds=Holds.VERDICTS)

    async def _on_finished(self, run: Run, event: CaseFinished) -> None:
        """Report a verdict, unless a change has made it stale."""
        job = get_job(event)
        active = self._active.get(job)
        if active is None or active.run is not run:
            return
        if event.status is CaseStatus.CANCELLED:
            await self._on_cancelled(job)
            return
        self._active.remove(job)
        self._durations[job] = event.duration_seconds
        decision = await self._off_loop(lambda: self._decisions.decide_finished(job))
        if decision is None or job in self._active:  # no longer planned, or restarted by a change meanwhile
            return
        if event.in_history:
            self._last_error = ""
        if not event.in_history:  # the disk may be full: a rerun at once would not help
            self._skip_generation([decision])
        elif event.result.has_outage:  # do not ask a service again at once that is out
            self._unanswered[job] = VerdictKey(run.run_id, job)
            self.suppress([decision])
        elif decision.action in _WORK and self.may_rerun(decision):
            self._rerun(job)
            return
        if job in self._postponed:
            return
        holds = decision.action is Action.NOTHING and event.in_history
        self._reporter.report_verdict(
            decision.planned, event.result, saved_at=active.saved_at, key=VerdictKey(run.run_id, job), holds=holds
        )

    async def _on_cancelled(self, job: JobKey) -> None:
        """Suppress a job that the user cancelled."""
        decision = await self._off_loop(lambda: self._decisions.decide_one(job))
        if decision is not None:
            self.suppress([decision])
        self._active.remove(job)

    def _report_once(self, notice: Notice) -> None:
        """Report a notice, but not the same error again before a result could be stored, and no remark twice."""
        if notice.message != self._last_error and notice.message not in self._remarks:
            self._reporter.report(notice)
        if notice.severity == "error":
            self._last_error = notice.message
        elif notice.severity == "information":
            self._remarks.add(notice.message)

    def _skip_generation(self, decisions: Iterable[Decision]) -> None:
        """Skip these jobs until anything changes."""
        self._skipped.update((each.job, self._active.generation) for each in decisions)

    def _is_work(self, decision: Decision, *, retries: bool) -> bool:
        if decision.action not in _WORK and (
            decision.action is not Action.LEAVE or (decision.job in self._reporter.verdicts and not retries)
        ):
            return False
        if self._skipped.get(decision.job) == self._active.generation:
            return False
        return self._suppressed.get(decision.job) != self._summarise_state(decision)

    def _summarise_state(self, decision: Decision) -> tuple[object, ...]:
        """Return a value that is the same as long as no change affects the job."""
        planned = decision.planned
        generation = self._active.generation if self._selector.is_affected_by_any(decision) else None
        signatures = (self._selector.compute_signature(decision), self._selector.compute_judging_signature(decision))
        return planned.execution_hash, planned.scoring_hash, *signatures, generation

    def _has_passed(self, job: JobKey) -> bool:
        newest = self._workspace.verdicts.newest(job)
        return newest is not None and newest.job.status is CaseStatus.PASSED

    def _read_scores(self, verdicts: Mapping[JobKey, StoredVerdict]) -> dict[JobKey, MetricScores]:
        with self._open_history() as history:
            return {} if history is None else read_scores(history, verdicts)

    def _open_history(self) -> AbstractContextManager[History | None]:
        """Open the history; None if that fails, as on a full disk. The run that cannot store its results reports it."""
        try:
            return self._workspace.history()
        except StoreError:
            return nullcontext()


# Manual runs: the watch never runs a case that a run of the user covers.


@dataclass
class _ManualRun:
    """The jobs of a manual run: waiting ones will run on the files of that time, running ones have a signature."""

    planned: Mapping[JobKey, PlannedCase]
    waiting: set[JobKey]
    running: dict[JobKey, int | None] = field(default_factory=dict)

    def covers(self, decision: Decision, selector: Selector) -> bool:
        """Return True if the run will bring a current verdict on the job."""
        job = decision.job
        if job not in self.waiting and job not in self.running:
            return False
        if self.planned[job].execution_hash != decision.planned.execution_hash:
            return False
        return job in self.waiting or self.running[job] == selector.compute_signature(decision)


class ManualRuns:
    """The manual runs in progress, and the verdicts that the watch expects from them."""

    def __init__(
        self,
        decisions: DecisionService,
        active: ActiveJobs,
        reporter: WatchReporter,
        *,
        off_loop: OffLoop,
        rerun: Callable[[JobKey], None],
        suppress_unanswered: Callable[[Sequence[Decision]], None],
    ) -> None:
        """`rerun` decides on a job again soon, and runs it if necessary. `suppress_unanswered`: see `Scheduler`."""
        self._decisions = decisions
        self._active = active
        self._reporter = reporter
        self._off_loop = off_loop
        self._rerun = rerun
        self._suppress_unanswered = suppress_unanswered
        self._runs: dict[str, _ManualRun] = {}
        self._expected: dict[JobKey, float | None] = {}  # with the time of the save that made the job stale
        self._order = asyncio.Lock()

    def __bool__(self) -> bool:
        """Whether the watch expects a verdict."""
        return bool(self._expected)

    def add(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """Add a run in which these jobs wait. Jobs that are only scored again cover nothing."""
        planned = {job: each for job, each in run.plan.jobs if each.executed is None}
        self._runs[run.run_id] = _ManualRun(planned, {job for job in jobs if job in planned})

    async def process_events(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """Process new events of a run, one batch at a time."""
        async with self._order:
            started = [get_job(event) for event in events if isinstance(event, CaseStarted)]
            decisions = await self._off_loop(lambda: self._decisions.decide(started))
            if (run := self._runs.get(run_id)) is not None:
                for each in (each for each in decisions if each.job in run.planned):
                    run.waiting.discard(each.job)
                    run.running[each.job] = self._decisions.selector.compute_signature(each)
            for event in events:
                if isinstance(event, CaseFinished):
                    await self._on_finished(run_id, event)
                elif isinstance(event, RunFinished):
                    self._runs.pop(run_id, None)
                    self._rerun_lost()

    def drop_covered(self, work: Sequence[Decision], *, saved_at: float | None) -> list[Decision]:
        """Return the work that no manual run covers, and expect the verdicts of the rest.

        `saved_at` is the monotonic time of the save that caused the work, or None.
        """
        uncovered = []
        for each in work:
            if any(run.covers(each, self._decisions.selector) for run in self._runs.values()):
                self._expected[each.job] = saved_at or self._expected.get(each.job)
            else:
                self._expected.pop(each.job, None)
                uncovered.append(each)
        return uncovered

    def expect_only(self, jobs: Iterable[JobKey]) -> None:
        """Expect verdicts on no other jobs than these."""
        self._expected = {job: self._expected[job] for job in jobs if job in self._expected}

    async def _on_finished(self, run_id: str, event: CaseFinished) -> None:
        """Report a verdict that was expected; run the case after all if the verdict is stale."""
        job = get_job(event)
        if (run := self._runs.get(run_id)) is not None:
            run.waiting.discard(job)
            run.running.pop(job, None)
        if job not in self._expected and event.status is not CaseStatus.ERROR:
            return
        decision = await self._off_loop(lambda: self._decisions.decide_finished(job))
        if decision is not None and event.status is CaseStatus.ERROR:
            self._suppress_unanswered([decision])
        if decision is None or job not in self._expected or job in self._active:
            return  # a change came meanwhile
        saved_at, key = self._expected.pop(job), VerdictKey(run_id, job)
        is_work = decision.action in _WORK and not event.result.has_outage
        if event.status is CaseStatus.CANCELLED or is_work:
            self._rerun(job)
        elif decision.verdict is not None and get_verdict_key(decision.verdict) == key:
            holds = decision.action is Action.NOTHING
            self._reporter.report_verdict(decision.planned, event.result, saved_at=saved_at, key=key, holds=holds)

    def _rerun_lost(self) -> None:
        """Run expected jobs that are in no manual run any more."""
        present = {job for run in self._runs.values() for job in (*run.waiting, *run.running)}
        for job in [job for job in self._expected if job not in present]:
            del self._expected[job]
            self._rerun(job)
