"""Calls that watch the project, and that check which verdicts are current."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.engine.plan import PlanError, RunOptions, Selection, set_quarantine
from workbench.model.identity import CaseKey, DependencyKind, JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished
from workbench.model.target import ModelMode
from workbench.model.text import pluralise
from workbench.store.errors import StoreError
from workbench.store.files import is_inside, real_path
from workbench.store.history.history_schema import get_history_path
from workbench.tui.backend.project_calls import WorkspaceCall, is_history_dataset, run_in_own_thread
from workbench.tui.state.browser_list import CheckedVerdicts, CurrentVerdict, VerdictLocations
from workbench.tui.state.case_status import ResultLocation
from workbench.tui.state.watch_state import AffectedJob, CaseStates, ReusedVerdict, ScreenEvent

if TYPE_CHECKING:
    from workbench.engine.plan import PlannedCase
    from workbench.engine.workspace import Workspace
    from workbench.store.settings import WatchSettings
    from workbench.watch.selector import Decision, Reason, VerdictKey
    from workbench.watch.watch_events import DecisionsMade
    from workbench.watch.watch_session import WatchSession


# Watch mode: a watch of all cases that the screen lists.

T = TypeVar("T")

_MAX_REASONS = 3  # of one case
_MAX_REACHES = 5  # of one change


class WatchCalls:
    """Starts watches of the project at one path."""

    def __init__(self, path: Path, call: WorkspaceCall) -> None:
        self._path = real_path(path)
        self._call = call

    async def open(
        self,
        *,
        shown: Mapping[JobKey, ResultLocation],
        priority: Callable[[JobKey], float],
        on_event: Callable[[], None],
    ) -> Watch:
        """Start a watch. Nothing runs before a change; then the jobs with the smallest `priority` start first.

        `shown` are the verdicts on the screen. `on_event` is called after each event, and when the watch has ended.
        Raises StoreError if the history cannot be read.
        """

        def make(workspace: Workspace) -> Watch:
            from workbench.watch.selector import VerdictKey
            from workbench.watch.watch_session import WatchSession

            options = RunOptions(command="workbench (watch)", models_by_default=ModelMode.AUTO)
            session = WatchSession(
                workspace, self._select, options, off_loop=self._off_loop, catches_up=False, priority=priority
            )
            session.note_shown({job: place.run_id for job, place in shown.items()})
            keys = {job: VerdictKey(*place) for job, place in shown.items()}
            return Watch(session, workspace, self._call, shown=keys, on_event=on_event)

        watch = await self._call(make)
        watch.start()
        return watch

    def _select(self, workspace: Workspace) -> Sequence[Selection]:
        """Select all cases that the screen lists and that have an agent."""
        entries = (entry for entry in workspace.project.eval_sets if entry.target)
        return [Selection(eval_set=each.relative) for each in entries if is_inside(each.path, self._path)]

    async def _off_loop(self, function: Callable[[], T]) -> T:
        return await self._call(lambda _: function())


class Watch:
    """A watch in progress, from `start` to `close`. Other methods, and those of its `session`, return at once."""

    def __init__(
        self,
        session: WatchSession,
        workspace: Workspace,
        call: WorkspaceCall,
        *,
        shown: dict[JobKey, VerdictKey],
        on_event: Callable[[], None],
    ) -> None:
        self.events: deque[ScreenEvent] = deque()
        """Events that the screen has not processed yet."""
        self.session = session
        """What the watch does: it can pause, and learns of the runs of the user here."""
        self._workspace = workspace
        self._call = call
        self._shown = shown  # the verdicts that the screen shows, or will once it has processed `events`
        self._on_event = on_event
        self._task: asyncio.Task[None] | None = None
        self._unplanned: dict[CaseKey, list[JobKey]] = {}  # shown repeats beyond those that the watch runs

    @property
    def settings(self) -> WatchSettings:
        """`[watch]` in the settings."""
        return self._workspace.settings.watch

    def start(self) -> None:
        self._task = asyncio.create_task(self._listen())
        self._task.add_done_callback(lambda _: self._on_event())

    def find_failure(self) -> str:
        """Return why the watch has ended by itself, or an empty string. Raises errors that are our own fault."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return ""
        try:
            self._task.result()
        except (PlanError, StoreError, OSError) as error:
            return str(error)
        return ""

    def note_results(self, shown: Mapping[JobKey, str]) -> None:
        """Note that the screen shows results of these manual runs; report which of them are current."""
        from workbench.watch.selector import VerdictKey

        for job, run_id in shown.items():
            self._forget_unplanned(job.case, run_id)
            self._shown[job] = VerdictKey(run_id, job)
        self.session.note_shown(shown)
        self.session.refresh_verdicts()

    async def close(self) -> None:
        if self._task is not None:
            if not self._task.done() and not self._task.cancelling():
                self._task.cancel()
            await asyncio.wait({self._task})

    async def _listen(self) -> None:
        from workbench.watch.watch_events import DecisionsMade, WatchRunEvent

        async with aclosing(self.session.events()) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, DecisionsMade):
                    self.events.extend(await self._call(lambda workspace, e=event: self._describe(workspace, e)))  # type: ignore[misc]
                    self._on_event()
                    continue
                if isinstance(event, WatchRunEvent) and isinstance(event.event, CaseFinished):
                    self._note_shown(event.run_id, event.event)
                self.events.append(event)
                self._on_event()

    def _note_shown(self, run_id: str, event: CaseFinished) -> None:
        from workbench.watch.selector import VerdictKey

        if event.status is not CaseStatus.CANCELLED:
            job = JobKey(case=event.case, repeat=event.repeat)
            self._forget_unplanned(event.case, run_id)
            self._shown[job] = VerdictKey(run_id, job)
            self.session.note_shown({job: run_id})

    def _forget_unplanned(self, case: CaseKey, run_id: str) -> None:
        """Forget the further repeats of a case that another run had: the screen shows this one instead."""
        for job in self._unplanned.pop(case, ()):
            if self._shown[job].run_id != run_id:
                del self._shown[job]

    def _describe(self, workspace: Workspace, made: DecisionsMade) -> Sequence[ScreenEvent]:
        """Describe decisions for the screen. Belongs on the workspace thread: it reads files and the history."""
        words = ReasonWords(self.session, workspace.root)
        verdicts = workspace.verdicts
        further = self._decide_unplanned(made.decisions)
        reused = self._find_reused(workspace, made)
        states = CaseStates(
            root=workspace.root,
            files=self.session.files,
            total=len(made.decisions),
            stale={
                each.job: words.describe_reasons(each)
                for each in (*made.decisions, *further)
                if each.action != "nothing"
                and not _is_unjudged(each)
                # Else its execution is no longer stored, and an identical case has the verdict of a shown case.
                and (verdicts.newest(each.job) is not None or (each.verdict is not None and each.job in self._shown))
            },
            affected=[
                AffectedJob(each.job, words.describe_first(each), is_judged=each.action == "judge")
                for each in made.work
            ],
            reaches=words.describe_reaches(made.work, made.decisions),
            broken=made.broken,
            held=made.held,
            reused=sum(
                JobKey(case=each.result.case, repeat=each.result.repeat) not in made.requarantined for each in reused
            ),
        )
        return [states, *reused]

    def _decide_unplanned(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        """Decide on shown repeats that the watch does not run, and forget those of cases that the screen has forgotten.

        Cases with planned repeats to run are stale anyway, and these runs will replace the further repeats.
        """
        jobs = self._shown.keys() - {each.job for each in decisions}
        self._unplanned = {}
        if not jobs:
            return ()
        planned = {each.job.case: each.planned for each in decisions}
        to_run = {each.job.case for each in decisions if each.action != "nothing"}
        for job in jobs:
            if job.case in planned:
                self._unplanned.setdefault(job.case, []).append(job)
            else:
                del self._shown[job]
        further = {job: planned[case] for case, jobs in self._unplanned.items() if case not in to_run for job in jobs}
        return self.session.decide_unplanned(further, self._shown)

    def _find_reused(self, workspace: Workspace, made: DecisionsMade) -> list[ReusedVerdict]:
        """Return the current verdicts of jobs for which the screen shows others."""
        from workbench.watch.selector import get_verdict_key, read_results

        for job in made.requarantined:
            self._shown.pop(job, None)
        others = {
            each.job: (each.planned, each.verdict)
            for each in made.decisions
            if each.action == "nothing"
            and each.verdict is not None
            and self._shown.get(each.job) != get_verdict_key(each.verdict)
        }
        if not others:
            return []
        found: list[ReusedVerdict] = []
        # On a full disk it may not even be opened; the run that cannot store its results reports it.
        with suppress(StoreError), workspace.history() as history:
            for job, result in read_results(history, {job: verdict for job, (_, verdict) in others.items()}):
                planned, verdict = others[job]
                key = self._shown[job] = get_verdict_key(verdict)
                hashes = (planned.execution_hash, planned.scoring_hash)
                present = set_quarantine(result, planned)
                found.append(ReusedVerdict(present, verdict.job.finished_at, hashes, ResultLocation(*key)))
        return found


def _is_unjudged(decision: Decision) -> bool:
    """Return True if a case was only played: there is no verdict that could be stale."""
    from workbench.watch.selector import Why

    return any(reason.why is Why.NEVER_JUDGED for reason in decision.reasons)


class ReasonWords:
    """Reasons in words, each computed once."""

    def __init__(self, session: WatchSession, root: Path) -> None:
        self._session = session
        self._root = root
        self._known: dict[Reason, str] = {}

    def describe_reasons(self, decision: Decision) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._describe(reason) for reason in decision.reasons[:_MAX_REASONS]))

    def describe_first(self, decision: Decision) -> str:
        return self._describe(decision.reasons[0]) if decision.reasons else ""

    def describe_reaches(self, work: Iterable[Decision], decisions: Sequence[Decision]) -> tuple[str, ...]:
        """Describe the most frequent reasons, each with how many cases it affects."""
        from workbench.watch.watch_events import describe_reach

        counts: Counter[tuple[object, ...]] = Counter()
        reasons: dict[tuple[object, ...], Reason] = {}
        for reason in (each.reasons[0] for each in work if each.reasons):
            what: tuple[object, ...] = (reason.why,) if reason.row is None else (reason.row.kind, reason.row.key)
            counts[what] += 1
            reasons.setdefault(what, reason)
        reaches = []
        for what, count in counts.most_common(_MAX_REACHES):
            row = reasons[what].row
            if row is None:
                reaches.append(f"{self._describe(reasons[what])}: {count} of {pluralise(len(decisions), 'case')}")
            else:
                state = self._session.state
                reaches.append(describe_reach(row, decisions, total=len(decisions), root=self._root, state=state))
        return tuple(reaches)

    def _describe(self, reason: Reason) -> str:
        from workbench.watch.watch_events import describe_reason

        if reason not in self._known:
            self._known[reason] = describe_reason(reason, root=self._root, state=self._session.state)
        return self._known[reason]


# The verdict check: compares the shown verdicts with present code, cases and criteria. Nothing runs.

_BATCH_SIZE = 100  # cases that are planned before others may use the thread


class VerdictCheck:
    """Checks verdicts in batches, so that other calls of the workspace thread do not wait long."""

    def __init__(self, call: WorkspaceCall) -> None:
        self._call = call

    async def read_new(self) -> bool:
        """Read the verdicts that other processes have stored since the last call. Return True if there are any.

        Raises StoreError.
        """
        workspace = await self._call(lambda workspace: workspace)
        return await run_in_own_thread(workspace.look_for_new_verdicts)

    async def check(self, shown: VerdictLocations) -> AsyncIterator[CheckedVerdicts]:
        """Check these verdicts. Skip cases that cannot be planned. Raises StoreError."""
        workspace = await self._call(lambda workspace: workspace)
        if not get_history_path(workspace.root).exists():
            return
        checker: _Checker | None = None
        for eval_set, cases in _by_set(shown).items():
            waiting = iter(cases)
            while some := list(islice(waiting, _BATCH_SIZE)):
                jobs = await self._call(lambda workspace, e=eval_set, s=some: _jobs(workspace, e, s, shown))  # type: ignore[misc]
                if not jobs:
                    break
                checker = checker or await run_in_own_thread(lambda: _Checker(workspace))
                yield await run_in_own_thread(lambda c=checker, j=jobs: c.check(j, shown))  # type: ignore[misc]


class _Checker:
    """Decides on separate threads, with one snapshot of the files for the whole check."""

    def __init__(self, workspace: Workspace) -> None:
        from workbench.watch.selector import Selector, make_snapshot

        self._root = workspace.root
        self._verdicts = workspace.verdicts
        self._state = make_snapshot(workspace)
        self._selector = Selector(self._verdicts, self._state)

    def check(self, jobs: Sequence[tuple[JobKey, PlannedCase]], shown: VerdictLocations) -> CheckedVerdicts:
        from workbench.watch.selector import Action, VerdictKey, get_verdict_key

        stale: dict[CaseKey, Sequence[str]] = {}
        current: dict[CaseKey, dict[int, CurrentVerdict]] = {}
        missing: set[CaseKey] = set()  # no verdict is shown, and some repeat has no current one
        for job, case in jobs:
            places = shown[case.key]
            place = places.get(job.repeat)
            decision = self._selector.decide(job, case, shown={} if place is None else {job: VerdictKey(*place)})
            verdict = decision.verdict
            if decision.action is not Action.NOTHING:
                if not places:
                    missing.add(case.key)
                elif job.repeat in places and (why := self._why_stale(decision)):
                    stale.setdefault(case.key, why)
            elif verdict is not None and (
                job.repeat not in places or (place is not None and get_verdict_key(verdict) != VerdictKey(*place))
            ):
                hashes = (case.execution_hash, case.scoring_hash)
                stored = verdict.job._replace(quarantine=case.current_quarantine)  # it may be that of an equal case
                current.setdefault(case.key, {})[job.repeat] = CurrentVerdict(stored, hashes)
        held = {key: verdicts for key, verdicts in current.items() if key not in missing}
        return CheckedVerdicts(list({case.key: None for _, case in jobs}), stale, held)

    def _why_stale(self, decision: Decision) -> Sequence[str]:
        """Return why a verdict is stale; empty if that is unknown, or if its dependencies are."""
        from workbench.watch.watch_events import describe_reason

        newest = self._verdicts.newest(decision.job)  # None: no longer stored, but an identical case has one
        if newest is not None and not newest.job.execution_key:
            return ()
        known = islice((reason for reason in decision.reasons if _is_known(reason)), _MAX_REASONS)
        return tuple(dict.fromkeys(describe_reason(reason, root=self._root, state=self._state) for reason in known))


def _is_known(reason: Reason) -> bool:
    """Return False for reasons to run a case again that do not make its verdict stale."""
    from workbench.watch.selector import Why

    if reason.row is not None:
        return reason.row.kind != DependencyKind.OPAQUE
    return reason.why not in (Why.UNKNOWN, Why.ALWAYS, Why.NO_ANSWER, Why.PROBLEM, Why.NEVER_RAN, Why.NEVER_JUDGED)


def _by_set(cases: Iterable[CaseKey]) -> Mapping[str, list[CaseKey]]:
    found: dict[str, list[CaseKey]] = {}
    for case in cases:
        found.setdefault(case.eval_set, []).append(case)
    return found


def _jobs(
    workspace: Workspace, eval_set: str, cases: Sequence[CaseKey], shown: VerdictLocations
) -> Sequence[tuple[JobKey, PlannedCase]]:
    """Return the jobs of the shown repeats of these cases, and all jobs of a run.

    Return nothing if the set cannot run or is not read automatically.
    """
    unread = {entry.relative for entry in workspace.project.eval_sets if entry.address is not None}
    wanted = set(cases)
    if eval_set in unread or is_history_dataset(workspace, cases[0]):
        return ()
    try:
        selection = Selection(eval_set=eval_set, cases=tuple({case.eval_id: None for case in cases}))
        plan = workspace.plan([selection], RunOptions())
    except PlanError:  # a case or file is missing or wrong, which the problems list
        return ()
    repeats = range(plan.limits.runs)
    return [
        (JobKey(case=case.key, repeat=repeat), case)
        for case in plan.cases
        if case.key in wanted
        for repeat in sorted({*shown[case.key], *repeats})
    ]
