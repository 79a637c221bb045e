"""Begins the runs of a watch, and tells the verdicts that they bring, unless a change has overtaken those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from workbench.engine.baselines import with_baselines
from workbench.engine.plan import PlanError
from workbench.engine.run import Holds, Run
from workbench.engine.workspace import Workspace
from workbench.model.events import CaseFinished, CaseStarted, Notice, RunFinished
from workbench.model.keys import JobKey
from workbench.model.results import CaseStatus
from workbench.store.errors import StoreError
from workbench.watch.affected import plan_of
from workbench.watch.deciding import Deciding
from workbench.watch.events import RunBegun, RunTold
from workbench.watch.live import Live, LiveJob, job_of
from workbench.watch.news import News
from workbench.watch.planning import Planning
from workbench.watch.selection import Action, Decision, Place, Selector
from workbench.watch.stored import OffLoop
from workbench.watch.work import Work


class Runs:
    """The runs of one watch."""

    def __init__(
        self,
        workspace: Workspace,
        planning: Planning,
        *,
        selector: Selector,
        deciding: Deciding,
        live: Live,
        work: Work,
        news: News,
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
            self._live.begin(each.job, LiveJob(run, each.planned, self._selector.signature(each), saved_at))
        self._work.take_up(ordered)
        self._news.tell(RunBegun(run, tuple(each.job for each in ordered), self._news.reason(ordered)))
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
            self._news.tell(RunTold(run.run_id, event))

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
        plan = self._planning.named(self._news.reason(decisions))
        with self._workspace.history() as history:
            part = plan_of(plan, decisions, runs=frozenset(Action), history=history, with_stored=False)
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
        elif event.result.met_outage:  # to judge again at once would be to hammer at what is out
            self._work.let_be([decision])
        elif decision.action in (Action.RUN, Action.JUDGE) and self._work.may_run(decision):
            self._run_soon(job)
            return
        place = Place(run.run_id, job)
        holds = decision.action is Action.NOTHING and event.in_history
        self._news.verdict(decision.planned, event.result, saved_at=live.saved_at, place=place, holds=holds)

    async def _on_cancelled(self, job: JobKey) -> None:
        """Somebody else stopped it, who does not want it back before a change concerns it again."""
        decision = await self._off_loop(lambda: self._deciding.one(job))
        if decision is not None:
            self._work.let_be([decision])
        self._live.end(job)
