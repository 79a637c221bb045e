"""The ways to watch that the proof holds against the truth: the decisions alone, a watch, and `run --affected`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from tests.watch.generated.harness import Claims
from tests.watch.generated.outcomes import Outcome, outcome_of
from tests.watch.generated.packages import CRITERIA, EVAL_SET
from tests.watch.watched import Watched, watching
from workbench.cli.run_commands import open_workspace, select_cases
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import DependencyKind
from workbench.model.results import CaseResult
from workbench.store.history.history import History
from workbench.watch.selector import (
    Action,
    Decision,
    Selector,
    Why,
    decide_plan,
    plan_decisions,
    read_results,
    select_affected,
)
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import AllKnown, ChangeSeen, DecisionsMade, VerdictKnown, VerdictsReused, WatchEvent

_TO_RUN = frozenset({Action.RUN, Action.WAIT, Action.LEAVE})
_OPTIONS = RunOptions(adk_results=False, retries=0)
_NOTICED = 3.0  # seconds in which a watch says that something was saved
_QUIET = 0.2
_QUIET_FOR_SURE = 2.5
_PATIENCE = 120.0


class Affected:
    """Runs what the selection says, without a watcher: the same decisions and runs, no waiting for events."""

    def __init__(self) -> None:
        self._workspace: Workspace | None = None
        self._selector: Selector | None = None
        self.decisions: list[Decision] = []

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._workspace = Workspace.open(project)
        verdicts = self._workspace.verdicts
        self._selector = Selector(verdicts, Snapshot(leftovers=verdicts.list_agent_files))
        _results(self._workspace, self._plan(self._workspace))

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        assert self._workspace is not None
        assert self._selector is not None
        workspace = self._workspace
        workspace.refresh()
        plan = self._plan(workspace)
        self._selector.forget()
        self.decisions = [self._selector.decide(job, planned) for job, planned in plan.jobs]
        with workspace.history() as history:
            part = plan_decisions(plan, self.decisions, runs=_TO_RUN, history=history, with_stored=True)
        return _claims(self.decisions, _results(workspace, part), project)

    async def close(self) -> None:
        """See Strategy."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _plan(self, workspace: Workspace) -> Plan:
        return workspace.plan([Selection(eval_set=EVAL_SET)], _OPTIONS)


class RunAffected:
    """What `workbench run --affected` does, each time with all of it made anew."""

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        await asyncio.to_thread(self._run, project)

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        return await asyncio.to_thread(self._run, project)

    async def close(self) -> None:
        """See Strategy."""

    def _run(self, project: Path) -> Claims:
        with contextlib.chdir(project):
            workspace, named = open_workspace((), target=None)
            with workspace:
                plan = workspace.plan(select_cases(workspace, named, cases=()), _OPTIONS)
                decisions = decide_plan(workspace, plan)  # to say why; what is run is decided on once more
                return _claims(decisions, _results(workspace, select_affected(workspace, plan)), project)


class Live:
    """A watch with the real watcher, as the command and the screen begin it, that hears of edits from the system.

    With a `pause` (seconds) nobody edits right after runs of cases that any change concerns: where cases share
    processes such a change may be the work of one of them, and after some of these the watch waits for another.
    """

    def __init__(self, *, pause: float = 0.0) -> None:
        self._pause = pause
        self._watch = contextlib.AsyncExitStack()
        self._results: dict[str, CaseResult] = {}
        self._decisions: dict[str, Decision] = {}
        self._unfollowed: set[str] = set()

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._results.clear()
        self._watched = await self._watch.enter_async_context(watching(project, retries=0))
        await self._until_quiet(self._watched, project, has_begun=True)

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        ran: set[str] = set()
        rescored: set[str] = set()

        async def claims(*, is_sure: bool) -> Claims:
            for eval_id, action in await self._until_quiet(self._watched, project, has_begun=False, is_sure=is_sure):
                (rescored if action is Action.JUDGE else ran).add(eval_id)
            known = {eval_id: self._results[eval_id] for eval_id in self._decisions if eval_id in self._results}
            return Claims(
                ran=frozenset(ran),
                rescored=frozenset(rescored - ran),
                outcomes=_outcomes(known.items(), project),
                waiting=frozenset(i for i, each in self._decisions.items() if each.action is Action.WAIT),
                unfollowed=frozenset(ran & self._unfollowed),
                later=None if is_sure else lambda: claims(is_sure=True),
            )

        self._unfollowed.clear()
        found = await claims(is_sure=False)
        if found.unfollowed:
            await asyncio.sleep(self._pause)
        return found

    async def close(self) -> None:
        """See Strategy."""
        await self._watch.aclose()

    async def _until_quiet(
        self, watched: Watched, project: Path, *, has_begun: bool, is_sure: bool = False
    ) -> list[tuple[str, Action]]:
        """Take up what is told until there is nothing more to do; the cases that got new verdicts, and why.

        That something was saved is waited for, unless it `has_begun`, but not for ever.
        """
        found: list[tuple[str, Action]] = []
        began = heard = time.monotonic()
        is_known = not has_begun
        while time.monotonic() - began < _PATIENCE:
            told, watched.events[:] = list(watched.events), []
            for event in told:
                has_begun |= isinstance(event, ChangeSeen)
                is_known = isinstance(event, AllKnown)
                found += self._take(event, project)
            now = time.monotonic()
            if told:
                heard = now
            quiet = _QUIET_FOR_SURE if is_sure else _QUIET if has_begun else _NOTICED
            if is_known and now - heard > quiet:
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"the watch has not come to rest in {_PATIENCE:g} s")

    def _take(self, event: WatchEvent, project: Path) -> Iterable[tuple[str, Action]]:
        if isinstance(event, DecisionsMade):
            self._decisions = {each.job.case.eval_id: each for each in event.decisions}
            self._unfollowed |= _unfollowed(event.decisions)
        elif isinstance(event, VerdictsReused):
            with History.open(project) as history:
                self._results.update((job.case.eval_id, each) for job, each in read_results(history, event.verdicts))
        elif isinstance(event, VerdictKnown):
            eval_id = event.result.case.eval_id
            self._results[eval_id] = event.result
            decided = self._decisions.get(eval_id)
            return [(eval_id, Action.RUN if decided is None else decided.action)]
        return ()


def _results(workspace: Workspace, plan: Plan) -> list[CaseResult]:
    run = workspace.start(plan)
    for _ in run.iter_events():
        pass
    return run.results()


def _claims(decisions: Iterable[Decision], results: Iterable[CaseResult], project: Path) -> Claims:
    """What was claimed after these decisions, which were carried out."""
    decisions = list(decisions)
    ran = frozenset(each.job.case.eval_id for each in decisions if each.action in _TO_RUN)
    return Claims(
        ran=ran,
        rescored=frozenset(each.job.case.eval_id for each in decisions if each.action is Action.JUDGE),
        outcomes=_outcomes(((result.case.eval_id, result) for result in results), project),
        unfollowed=ran & _unfollowed(decisions),
    )


def _unfollowed(decisions: Iterable[Decision]) -> frozenset[str]:
    """Cases that run after any change: what they use is not known, or they had no answer the last time."""
    return frozenset(each.job.case.eval_id for each in decisions if _is_unfollowed(each))


def _is_unfollowed(decision: Decision) -> bool:
    return decision.action is Action.LEAVE or any(
        reason.why is Why.UNKNOWN or (reason.row is not None and reason.row.kind == DependencyKind.OPAQUE)
        for reason in decision.reasons
    )


def _outcomes(results: Iterable[tuple[str, CaseResult]], project: Path) -> dict[str, Outcome]:
    criteria = json.loads((project / CRITERIA).read_text())["criteria"]
    return {eval_id: outcome_of(result, root=project, criteria=criteria) for eval_id, result in results}
