"""The verdict check: the shown verdicts are compared with how code, cases and criteria are now. Nothing runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.model.keys import CaseKey, JobKey
from workbench.store.history.database import file_of
from workbench.tui.gateway.kept import is_kept
from workbench.tui.gateway.thread import Call, aside
from workbench.tui.state.verdict_check import CheckedVerdicts, CurrentVerdict, ShownVerdicts

if TYPE_CHECKING:
    from workbench.engine.plan import PlannedCase
    from workbench.engine.workspace import Workspace
    from workbench.watch.selection import Decision, Reason

_AT_ONCE = 100  # cases that are planned before others may use the thread
_MOST_REASONS = 3  # of one case


class VerdictCheck:
    """Checks verdicts, a few at a time, without keeping others from the thread of the workspace for long."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def check(self, shown: ShownVerdicts) -> AsyncIterator[CheckedVerdicts]:
        """Check these verdicts. Cases that cannot be planned are left out. Raises StoreError."""
        workspace = await self._call(lambda workspace: workspace)
        if not file_of(workspace.root).exists():
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
        from workbench.watch.selection import Selector
        from workbench.watch.state import State

        self._root = workspace.root
        self._verdicts = workspace.verdicts
        self._state = State(leftovers=self._verdicts.leftovers)
        self._selector = Selector(self._verdicts, self._state)

    def check(self, jobs: Sequence[tuple[JobKey, PlannedCase]], shown: ShownVerdicts) -> CheckedVerdicts:
        from workbench.watch.selection import Action, Place, place_of

        stale: dict[CaseKey, Sequence[str]] = {}
        current: dict[CaseKey, dict[int, CurrentVerdict]] = {}
        missing: set[CaseKey] = set()  # they show no verdict, and have none for one of their repeats
        for job, case in jobs:
            places = shown[case.key]
            place = places.get(job.repeat)
            decision = self._selector.decide(job, case, shown=None if place is None else Place(*place))
            verdict = decision.verdict
            if decision.action is not Action.NOTHING:
                if not places:
                    missing.add(case.key)
                elif why := self._why_stale(decision):
                    stale.setdefault(case.key, why)
            elif verdict is not None and (not places or (place is not None and place_of(verdict) != Place(*place))):
                hashes = (case.execution_hash, case.scoring_hash)
                current.setdefault(case.key, {})[job.repeat] = CurrentVerdict(verdict.job, hashes)
        held = {key: verdicts for key, verdicts in current.items() if key not in missing}
        return CheckedVerdicts(list({case.key: None for _, case in jobs}), stale, held)

    def _why_stale(self, decision: Decision) -> Sequence[str]:
        """Why the verdict does not hold; nothing if it is only unknown whether it does, or on what it was given."""
        from workbench.watch.reasons import words_of

        newest = self._verdicts.newest(decision.job)  # None: forgotten, and cases that asked the same say how it stands
        if newest is not None and not newest.job.execution_key:
            return ()
        known = islice((reason for reason in decision.reasons if _is_known(reason)), _MOST_REASONS)
        return tuple(dict.fromkeys(words_of(reason, root=self._root, state=self._state) for reason in known))


def _is_known(reason: Reason) -> bool:
    """Return False for reasons to run a case again that say nothing about the verdict that it has."""
    from workbench.model.dependencies import DependencyKind
    from workbench.watch.selection import Why

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
