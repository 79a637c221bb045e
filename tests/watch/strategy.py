"""Watch mode without the watcher, as a strategy for the proof: the same decisions and runs, no waiting for events."""

from __future__ import annotations

import json
from pathlib import Path

from tests.watch.generated.harness import Claims
from tests.watch.generated.outcomes import Outcome, outcome_of
from tests.watch.generated.packages import CRITERIA, EVAL_SET
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult
from workbench.watch.affected import plan_of
from workbench.watch.selection import Action, Decision, Selector
from workbench.watch.state import State

_TO_RUN = frozenset({Action.RUN, Action.WAIT, Action.LEAVE})


class Affected:
    """Runs what the selection says. `mutate` may break what is known, to see that the proof notices."""

    def __init__(self) -> None:
        self._workspace: Workspace | None = None
        self._selector: Selector | None = None
        self.decisions: list[Decision] = []

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._workspace = Workspace.open(project)
        verdicts = self._workspace.verdicts
        self._selector = Selector(verdicts, State(leftovers=verdicts.leftovers))
        self._run(self._workspace, self._plan(self._workspace))

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
            part = plan_of(plan, self.decisions, runs=_TO_RUN, history=history, with_stored=True)
        results = self._run(workspace, part)
        criteria = json.loads((project / CRITERIA).read_text())["criteria"]
        return Claims(
            ran=frozenset(each.job.case.eval_id for each in self.decisions if each.action in _TO_RUN),
            rescored=frozenset(each.job.case.eval_id for each in self.decisions if each.action is Action.JUDGE),
            outcomes={result.case.eval_id: _outcome(result, project, criteria) for result in results},
        )

    async def close(self) -> None:
        """See Strategy."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _plan(self, workspace: Workspace) -> Plan:
        return workspace.plan([Selection(eval_set=EVAL_SET)], RunOptions(adk_results=False, retries=0))

    def _run(self, workspace: Workspace, plan: Plan) -> list[CaseResult]:
        run = workspace.start(plan)
        for _ in run.iter_events():
            pass
        return run.results()


def _outcome(result: CaseResult, project: Path, criteria: dict[str, object]) -> Outcome:
    return outcome_of(result, root=project, criteria=criteria)
