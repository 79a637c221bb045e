"""The strategies that the proof checks: the decisions alone, a live watch, and `run --affected`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.watch.generated.harness import Claims
from tests.watch.generated.outcomes import Outcome, make_outcome
from tests.watch.generated.packages import CRITERIA, EVAL_SET
from tests.watch.watched import WatchListener, watch_project
from workbench.cli.run_commands import open_workspace, select_cases
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.verdict_index import Verdicts
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
_NOTICE_SECONDS = 3.0  # a watch reports a save within this time
_QUIET_SECONDS = 0.2
_LONG_QUIET_SECONDS = 2.5
_PATIENCE_SECONDS = 120.0


class DecisionsOnly:
    """Makes the decisions of a watch and runs them, but waits for no file events."""

    def __init__(self) -> None:
        self._workspace: Workspace | None = None
        self._selector: Selector | None = None
        self.decisions: list[Decision] = []

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._workspace = Workspace.open(project)
        verdicts = self._workspace.verdicts
        self._selector = Selector(verdicts, Snapshot(leftovers=verdicts.list_agent_files))
        _run_plan(self._workspace, self._plan(self._workspace))

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
        opaque_cases = _find_opaque_cases(self.decisions, workspace.verdicts)  # before the verdicts of the run
        return _make_claims(self.decisions, opaque_cases, _run_plan(workspace, part), project)

    async def close(self) -> None:
        """See Strategy."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _plan(self, workspace: Workspace) -> Plan:
        return workspace.plan([Selection(eval_set=EVAL_SET)], _OPTIONS)


class RunAffected:
    """Runs `workbench run --affected` after each edit, with a new workspace each time."""

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
            workspace, project_selection = open_workspace((), target=None)
            with workspace:
                plan = workspace.plan(select_cases(workspace, project_selection, cases=()), _OPTIONS)
                decisions = decide_plan(workspace, plan)  # for the reasons; `select_affected` decides again
                opaque_cases = _find_opaque_cases(decisions, workspace.verdicts)
                results = _run_plan(workspace, select_affected(workspace, plan))
                return _make_claims(decisions, opaque_cases, results, project)


class LiveWatch:
    """A watch with the real watcher, as the command and the screen start it. File events report the edits.

    `pause`: seconds without an edit after runs of cases with opaque dependencies. Such cases run after any change. If
    cases share processes, a change right after a run may be their own work, and after a few of these the watch waits.
    """

    def __init__(self, *, pause: float = 0.0) -> None:
        self._pause = pause
        self._watch = contextlib.AsyncExitStack()
        self._results: dict[str, CaseResult] = {}
        self._decisions: dict[str, Decision] = {}
        self._opaque_cases: set[str] = set()

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._results.clear()
        self._listener = await self._watch.enter_async_context(watch_project(project, retries=0))
        await self._until_quiet(self._listener, project, has_begun=True)

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        reruns: set[str] = set()
        rescorings: set[str] = set()

        async def claims(*, is_final: bool) -> Claims:
            for eval_id, action in await self._until_quiet(self._listener, project, has_begun=False, is_final=is_final):
                (rescorings if action is Action.JUDGE else reruns).add(eval_id)
            known = {eval_id: self._results[eval_id] for eval_id in self._decisions if eval_id in self._results}
            return Claims(
                reruns=frozenset(reruns),
                rescorings=frozenset(rescorings - reruns),
                outcomes=_make_outcomes(known.items(), project),
                waiting_cases=frozenset(i for i, each in self._decisions.items() if each.action is Action.WAIT),
                opaque_reruns=frozenset(reruns & self._opaque_cases),
                claim_later=None if is_final else lambda: claims(is_final=True),
            )

        self._opaque_cases.clear()
        found = await claims(is_final=False)
        if found.opaque_reruns:
            await asyncio.sleep(self._pause)
        return found

    async def close(self) -> None:
        """See Strategy."""
        await self._watch.aclose()

    async def _until_quiet(
        self, listener: WatchListener, project: Path, *, has_begun: bool, is_final: bool = False
    ) -> list[tuple[str, Action]]:
        """Process events until the watch is idle. Return the cases with new verdicts, and the action of each.

        Unless the round `has_begun`, wait a limited time for the save to be noticed.
        """
        found: list[tuple[str, Action]] = []
        began_at = last_event_at = time.monotonic()
        is_known = not has_begun
        while time.monotonic() - began_at < _PATIENCE_SECONDS:
            events, listener.events[:] = list(listener.events), []
            for event in events:
                has_begun |= isinstance(event, ChangeSeen)
                is_known = isinstance(event, AllKnown)
                found += self._record(event, project)
            now = time.monotonic()
            if events:
                last_event_at = now
            quiet = _LONG_QUIET_SECONDS if is_final else _QUIET_SECONDS if has_begun else _NOTICE_SECONDS
            if is_known and now - last_event_at > quiet:
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"the watch has not come to rest in {_PATIENCE_SECONDS:g} s")

    def _record(self, event: WatchEvent, project: Path) -> Iterable[tuple[str, Action]]:
        if isinstance(event, DecisionsMade):
            self._decisions = {each.job.case.eval_id: each for each in event.decisions}
            self._opaque_cases |= _find_opaque_cases(event.decisions, self._listener.workspace.verdicts)
        elif isinstance(event, VerdictsReused):
            with History.open(project) as history:
                self._results.update((job.case.eval_id, each) for job, each in read_results(history, event.verdicts))
        elif isinstance(event, VerdictKnown):
            eval_id = event.result.case.eval_id
            self._results[eval_id] = event.result
            decision = self._decisions.get(eval_id)
            return [(eval_id, Action.RUN if decision is None else decision.action)]
        return ()


def _run_plan(workspace: Workspace, plan: Plan) -> list[CaseResult]:
    run = workspace.start(plan)
    for _ in run.iter_events():
        pass
    return run.results()


def _make_claims(
    decisions: Sequence[Decision], opaque_cases: frozenset[str], results: Iterable[CaseResult], project: Path
) -> Claims:
    """Return the claims after these decisions were carried out."""
    reruns = frozenset(each.job.case.eval_id for each in decisions if each.action in _TO_RUN)
    return Claims(
        reruns=reruns,
        rescorings=frozenset(each.job.case.eval_id for each in decisions if each.action is Action.JUDGE),
        outcomes=_make_outcomes(((result.case.eval_id, result) for result in results), project),
        opaque_reruns=reruns & opaque_cases,
    )


def _find_opaque_cases(decisions: Iterable[Decision], verdicts: Verdicts) -> frozenset[str]:
    """Find the cases that run after any change, also a change that is taken back.

    Their dependencies are unknown or cannot all be followed, or they got no answer in the last run.
    """
    return frozenset(each.job.case.eval_id for each in decisions if _is_opaque(each, verdicts))


def _is_opaque(decision: Decision, verdicts: Verdicts) -> bool:
    if decision.action is Action.LEAVE or any(reason.why is Why.UNKNOWN for reason in decision.reasons):
        return True
    number = None if decision.verdict is None else decision.verdict.dependencies
    rows = () if number is None else verdicts.list_rows(number)
    return any(verdicts.row(row).kind == DependencyKind.OPAQUE for row in rows)


def _make_outcomes(results: Iterable[tuple[str, CaseResult]], project: Path) -> dict[str, Outcome]:
    criteria = json.loads((project / CRITERIA).read_text())["criteria"]
    return {eval_id: make_outcome(result, root=project, criteria=criteria) for eval_id, result in results}
