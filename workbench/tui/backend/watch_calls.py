"""Calls that watch the project, and that check which verdicts are current."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished, Notice, RunEvent
from workbench.model.text import pluralise
from workbench.store.errors import StoreError
from workbench.store.history.history_schema import get_history_path
from workbench.tui.backend.project_calls import is_kept
from workbench.tui.backend.workspace_thread import Call, aside
from workbench.tui.state.browser_list import CheckedVerdicts, CurrentVerdict, ShownVerdicts
from workbench.tui.state.case_board import ResultPlace
from workbench.tui.state.watch_state import (
    Began,
    Begun,
    Broken,
    BrokenTold,
    Changed,
    Concerned,
    Ended,
    Executed,
    HoldsAgain,
    OfRun,
    Quiet,
    Standings,
    WatchNews,
)

if TYPE_CHECKING:
    from workbench.engine.plan import PlannedCase
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace
    from workbench.store.settings import WatchSettings
    from workbench.watch.selector import Decision, Reason, VerdictKey
    from workbench.watch.snapshot import BrokenSource
    from workbench.watch.watch_events import DecisionsMade, SourceBroken, WatchEvent, WatchRunEvent
    from workbench.watch.watch_session import WatchSession


# Watch mode: a watch over all cases of the screen, and what it tells in the words of the screen.

T = TypeVar("T")

_MOST_REASONS = 3  # of one case
_MOST_CHAINS = 5  # of one change


class Watching:
    """Begins watches over what there is at one path."""

    def __init__(self, path: Path, call: Call) -> None:
        self._path = path.resolve()
        self._call = call

    async def open(self, *, shown: Mapping[JobKey, ResultPlace], first: Callable[[JobKey], float]) -> Watch:
        """Begin to watch. Nothing runs before something is saved; then the jobs with the smallest `first` do.

        `shown` says where the verdicts are that the screen shows. Raises StoreError where the history cannot be read.
        """

        def make(workspace: Workspace) -> Watch:
            from workbench.watch.selector import VerdictKey
            from workbench.watch.watch_session import open_watch

            options = RunOptions(command="workbench (watch)", adk_results=False)
            session = open_watch(
                workspace, self._cases, options, off_loop=self._off_loop, catches_up=False, first=first
            )
            session.note_shown({job: place.run_id for job, place in shown.items()})
            return Watch(
                session, workspace, self._call, shown={job: VerdictKey(*place) for job, place in shown.items()}
            )

        watch = await self._call(make)
        watch.begin()
        return watch

    def _cases(self, workspace: Workspace) -> Sequence[Selection]:
        """All that the screen lists and that has an agent."""
        entries = (entry for entry in workspace.project.eval_sets if entry.target)
        return [Selection(eval_set=each.relative) for each in entries if each.path.resolve().is_relative_to(self._path)]

    async def _off_loop(self, function: Callable[[], T]) -> T:
        return await self._call(lambda _: function())


class Watch:
    """A watch that goes on, from `begin` to `close`. `take` gives what it has told; all else returns at once."""

    def __init__(
        self, session: WatchSession, workspace: Workspace, call: Call, *, shown: dict[JobKey, VerdictKey]
    ) -> None:
        self._session = session
        self._workspace = workspace
        self._call = call
        self._shown = shown  # where the verdicts are that the screen has been told
        self._news: deque[WatchNews] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def settings(self) -> WatchSettings:
        """What `[watch]` says now."""
        return self._workspace.settings.watch

    def begin(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._listen())

    def take(self) -> Sequence[WatchNews]:
        """What was told since the last time. Raises what ended the watch, where that is a fault of our own."""
        news = [self._news.popleft() for _ in range(len(self._news))]
        if not news and self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
        return news

    def pause(self) -> None:
        """Run nothing because of changes; what runs goes on."""
        self._session.pause()

    def resume(self) -> None:
        """Make up for what changed meanwhile."""
        self._session.resume()

    def run_held(self) -> None:
        """Run what was more than a change may run by itself."""
        self._session.run_held()

    def note_run(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """A run of the user's goes on, and these jobs of it have not begun."""
        self._session.note_run(run, jobs)

    def note_events(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """What such a run has told since the last time."""
        self._session.note_events(run_id, events)

    def note_results(self, shown: Mapping[JobKey, str]) -> None:
        """The screen shows results of these runs of the user's: look which of them hold."""
        from workbench.watch.selector import VerdictKey

        self._shown.update((job, VerdictKey(run_id, job)) for job, run_id in shown.items())
        self._session.note_shown(shown)
        self._session.refresh_verdicts()

    async def close(self) -> None:
        """End it, and what it runs. Nothing of it is left then."""
        if self._task is not None:
            if not self._task.done() and not self._task.cancelling():
                self._task.cancel()
            await asyncio.wait({self._task})

    async def _listen(self) -> None:
        try:
            async with aclosing(self._session.events()) as events:  # type: ignore[type-var]
                async for event in events:
                    self._news.extend(await self._news_of(event))
        except (PlanError, StoreError, OSError) as error:
            self._news.append(Ended(str(error)))

    async def _news_of(self, event: WatchEvent) -> Sequence[WatchNews]:
        from workbench.watch import watch_events as told

        match event:
            case told.WatchStarted():
                return [Began(event.reason)]
            case told.DecisionsMade():
                return await self._call(lambda workspace: self._standings(workspace, event))
            case told.ChangeSeen():
                gone = await self._call(lambda workspace: _gone(workspace.root, event.paths))
                counts = (event.run, event.judged, event.waiting, event.total)
                return [Changed(event.at, event.paths, gone, *counts, event.reason, event.held)]
            case told.VerdictKnown():
                return [Executed(event.result, event.seconds_since_save, event.holds)]
            case told.VerdictsReused():  # they are found by what is decided, and by what the screen shows
                return []
            case told.SourceBroken():
                return [BrokenTold(self._broken(event), event.cases)]
            case told.WatchRunStarted():
                return [Begun(event.run, event.jobs, event.reason)]
            case told.WatchRunEvent():
                self._note_shown(event)  # notices of runs are told by themselves too
                return [] if isinstance(event.event, Notice) else [OfRun(event.run_id, event.event)]
            case told.AllKnown():
                return [Quiet()]
            case Notice():
                return [event]

    def _note_shown(self, told: WatchRunEvent) -> None:
        from workbench.watch.selector import VerdictKey

        event = told.event
        if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
            job = JobKey(case=event.case, repeat=event.repeat)
            self._shown[job] = VerdictKey(told.run_id, job)
            self._session.note_shown({job: told.run_id})

    def _broken(self, source: SourceBroken | BrokenSource) -> Broken:
        path = self._workspace.root / source.path
        shown = path.relative_to(self._workspace.root) if path.is_relative_to(self._workspace.root) else path
        return Broken(path, shown.as_posix(), source.line, source.message)

    def _standings(self, workspace: Workspace, decided: DecisionsMade) -> Sequence[WatchNews]:
        """On the backend's thread: it looks at the disk, and reads verdicts that hold again."""
        words = _Words(self._session, workspace.root)
        verdicts = workspace.verdicts
        jobs = {each.job for each in decided.decisions}
        for job in set(self._shown).difference(jobs):  # the screen has forgotten these
            self._shown.pop(job, None)
        again = self._held_again(workspace, decided.decisions)
        standings = Standings(
            files=self._session.files,
            total=len(decided.decisions),
            stale={
                each.job: words.reasons_of(each)
                for each in decided.decisions
                if each.action != "nothing" and (verdicts.newest(each.job) is not None or self._is_forgotten(each))
            },
            concerned=[
                Concerned(each.job, words.first_of(each), is_judged=each.action == "judge") for each in decided.work
            ],
            chains=words.chains_of(decided.work, decided.decisions),
            broken=[self._broken(each) for each in decided.broken],
            held=decided.held,
            again=len(again),
        )
        return [standings, *again]

    def _is_forgotten(self, decision: Decision) -> bool:
        """Whether what its agent did is forgotten, and verdicts of cases that asked the same say how it stands."""
        return decision.verdict is not None and decision.job in self._shown

    def _held_again(self, workspace: Workspace, decisions: Iterable[Decision]) -> list[WatchNews]:
        """The verdicts that hold where the screen shows others."""
        from workbench.watch.selector import get_verdict_key, read_results

        other = {
            each.job: (each.planned, each.verdict)
            for each in decisions
            if each.action == "nothing"
            and each.verdict is not None
            and self._shown.get(each.job) != get_verdict_key(each.verdict)
        }
        if not other:
            return []
        found: list[WatchNews] = []
        with workspace.history() as history:
            for job, result in read_results(history, {job: verdict for job, (_, verdict) in other.items()}):
                planned, verdict = other[job]
                self._shown[job] = get_verdict_key(verdict)
                hashes = (planned.execution_hash, planned.scoring_hash)
                found.append(
                    HoldsAgain(result, verdict.job.finished_at, hashes, ResultPlace(*get_verdict_key(verdict)))
                )
        return found


def _gone(root: Path, paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path for path in paths if not (root / path).exists())


class _Words:
    """Reasons in words, each looked up once."""

    def __init__(self, session: WatchSession, root: Path) -> None:
        self._session = session
        self._root = root
        self._known: dict[Reason, str] = {}

    def reasons_of(self, decision: Decision) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._words(reason) for reason in decision.reasons[:_MOST_REASONS]))

    def first_of(self, decision: Decision) -> str:
        return self._words(decision.reasons[0]) if decision.reasons else ""

    def chains_of(self, work: Iterable[Decision], decisions: Sequence[Decision]) -> tuple[str, ...]:
        """How far the most frequent reasons reach."""
        from workbench.watch.watch_events import describe_reach

        counts = Counter(each.reasons[0] for each in work if each.reasons)
        chains = []
        for reason, count in counts.most_common(_MOST_CHAINS):
            if reason.row is None:
                chains.append(f"{self._words(reason)}: {count} of {pluralise(len(decisions), 'case')}")
            else:
                state = self._session.state
                chains.append(describe_reach(reason.row, decisions, total=len(decisions), root=self._root, state=state))
        return tuple(chains)

    def _words(self, reason: Reason) -> str:
        from workbench.watch.watch_events import describe_reason

        if reason not in self._known:
            self._known[reason] = describe_reason(reason, root=self._root, state=self._session.state)
        return self._known[reason]


# The verdict check: the shown verdicts are compared with how code, cases and criteria are now. Nothing runs.

_AT_ONCE = 100  # cases that are planned before others may use the thread


class VerdictCheck:
    """Checks verdicts, a few at a time, without keeping others from the thread of the workspace for long."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def check(self, shown: ShownVerdicts) -> AsyncIterator[CheckedVerdicts]:
        """Check these verdicts. Cases that cannot be planned are left out. Raises StoreError."""
        workspace = await self._call(lambda workspace: workspace)
        if not get_history_path(workspace.root).exists():
            return
        checker: _Checker | None = None
        for eval_set, cases in _by_set(shown).items():
            waiting = iter(cases)
            while some := list(islice(waiting, _AT_ONCE)):
                jobs = await self._call(lambda workspace, e=eval_set, s=some: _jobs(workspace, e, s, shown))  # type: ignore[misc]
                if not jobs:
                    break
                checker = checker or await aside(lambda: _Checker(workspace))
                yield await aside(lambda c=checker, j=jobs: c.check(j, shown))  # type: ignore[misc]


class _Checker:
    """Decides on threads of its own. What it has looked up on the disk counts for the whole check."""

    def __init__(self, workspace: Workspace) -> None:
        from workbench.watch.selector import Selector
        from workbench.watch.snapshot import Snapshot

        self._root = workspace.root
        self._verdicts = workspace.verdicts
        self._state = Snapshot(leftovers=self._verdicts.leftovers)
        self._selector = Selector(self._verdicts, self._state)

    def check(self, jobs: Sequence[tuple[JobKey, PlannedCase]], shown: ShownVerdicts) -> CheckedVerdicts:
        from workbench.watch.selector import Action, VerdictKey, get_verdict_key

        stale: dict[CaseKey, Sequence[str]] = {}
        current: dict[CaseKey, dict[int, CurrentVerdict]] = {}
        missing: set[CaseKey] = set()  # they show no verdict, and have none for one of their repeats
        for job, case in jobs:
            places = shown[case.key]
            place = places.get(job.repeat)
            decision = self._selector.decide(job, case, shown=None if place is None else VerdictKey(*place))
            verdict = decision.verdict
            if decision.action is not Action.NOTHING:
                if not places:
                    missing.add(case.key)
                elif why := self._why_stale(decision):
                    stale.setdefault(case.key, why)
            elif verdict is not None and (
                not places or (place is not None and get_verdict_key(verdict) != VerdictKey(*place))
            ):
                hashes = (case.execution_hash, case.scoring_hash)
                current.setdefault(case.key, {})[job.repeat] = CurrentVerdict(verdict.job, hashes)
        held = {key: verdicts for key, verdicts in current.items() if key not in missing}
        return CheckedVerdicts(list({case.key: None for _, case in jobs}), stale, held)

    def _why_stale(self, decision: Decision) -> Sequence[str]:
        """Why the verdict does not hold; nothing if it is only unknown whether it does, or on what it was given."""
        from workbench.watch.watch_events import describe_reason

        newest = self._verdicts.newest(decision.job)  # None: forgotten, and cases that asked the same say how it stands
        if newest is not None and not newest.job.execution_key:
            return ()
        known = islice((reason for reason in decision.reasons if _is_known(reason)), _MOST_REASONS)
        return tuple(dict.fromkeys(describe_reason(reason, root=self._root, state=self._state) for reason in known))


def _is_known(reason: Reason) -> bool:
    """Return False for reasons to run a case again that say nothing about the verdict that it has."""
    from workbench.model.identity import DependencyKind
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
    workspace: Workspace, eval_set: str, cases: Sequence[CaseKey], shown: ShownVerdicts
) -> Sequence[tuple[JobKey, PlannedCase]]:
    """The repeats that are shown of these cases, as a run would have them; of a case that shows none, those of a run.

    None where the set cannot run, or is not read by itself.
    """
    unread = {entry.relative for entry in workspace.project.eval_sets if entry.address is not None}
    wanted = set(cases)
    if eval_set in unread or is_kept(workspace, cases[0]):
        return ()
    try:
        selection = Selection(eval_set=eval_set, cases=tuple({case.eval_id: None for case in cases}))
        plan = workspace.plan([selection], RunOptions())
    except PlanError:  # a case is gone, or a file is wrong: that is said among the problems
        return ()
    repeats = range(plan.limits.runs)
    return [
        (JobKey(case=case.key, repeat=repeat), case)
        for case in plan.cases
        if case.key in wanted
        for repeat in shown[case.key] or repeats
    ]
