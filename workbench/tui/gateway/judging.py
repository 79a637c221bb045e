"""Judging again: the stored answers of a case, judged by opinions of their own; no agent runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.engine.plan import Plan, PlanError, RunOptions
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult
from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace

_COMMAND = "workbench (screen): judged again"


@dataclass(frozen=True, slots=True)
class PlannedJudging:
    """What judging a case again will do: `calls` of judges. It `asks` to be confirmed as the settings say."""

    plan: Plan
    run_id: str
    results: Sequence[CaseResult]
    calls: int
    asks: bool


@dataclass(frozen=True, slots=True)
class BegunJudging:
    """The run that judges again, with its jobs and what it was planned from."""

    run: Run
    jobs: Sequence[JobKey]
    planned: PlannedJudging


class Judging:
    """Judges the newest results of cases again. Methods raise PlanError and StoreError."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def plan(self, case: CaseKey) -> PlannedJudging:
        """Plan to judge all repeats of the newest run of a case."""

        def plan(workspace: Workspace) -> PlannedJudging:
            from workbench.engine.cost import cost_of  # with the metrics: not before the first run

            with workspace.history() as history:
                newest = history.executions_of(case, limit=1)
                if not newest:
                    raise PlanError("there is no stored answer of this case to judge")
                run = history.run(newest[0].job.run_id)
                results = history.latest_results([case]).get(case, [])
            made = workspace.plan_judging(run, results, RunOptions(command=_COMMAND))
            cost = cost_of(made)
            asks = workspace.settings.run.confirm != "never"
            return PlannedJudging(made, run.run_id, results, sum(cost.judge_calls.values()), asks)

        return await self._call(plan)

    async def start(self, planned: PlannedJudging) -> BegunJudging:
        """Start it."""
        run = await self._call(lambda workspace: workspace.start(planned.plan))
        return BegunJudging(run, [job for job, _ in planned.plan.jobs], planned)

    async def outcome(self, begun: BegunJudging) -> str | None:
        """How far the new judgement agrees with the one before, when it has ended; None where it was stopped."""
        from workbench.report.judge_agreement import Judgements, agreements, outcome_text

        async for _ in begun.run.events():
            pass
        if begun.run.interrupted:
            return None
        both = Judgements([begun.planned.run_id, begun.run.run_id], [begun.planned.results, begun.run.results()])
        return outcome_text(agreements(both))
