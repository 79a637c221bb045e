"""Runs: planned with what they cost, started, and told what to do while they go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.engine.plan import RunOptions, Selection
from workbench.model.criteria import EvalConfig
from workbench.model.keys import JobKey
from workbench.store.history.database import file_of
from workbench.tui.gateway.thread import Call
from workbench.tui.state.project import StoppedRun
from workbench.tui.state.run.planned import PlannedRun

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace

_COMMAND = "workbench (screen)"


class Runs:
    """What can be run. Methods raise PlanError and StoreError."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._runs: dict[str, Run] = {}  # that may be told something

    async def plan(
        self,
        selections: Sequence[Selection],
        options: RunOptions | None = None,
        config: EvalConfig | None = None,
        *,
        ask: bool = False,
        only_plays: bool = False,
    ) -> PlannedRun:
        """Plan a run, judged by `config` where one is given. It asks to be seen as the settings say, or with `ask`.

        With `only_plays` the scenarios among the cases are played, and nothing is judged.
        """
        options = options or RunOptions(command=_COMMAND, scores=not only_plays)

        def plan(workspace: Workspace) -> PlannedRun:
            from workbench.engine.cost import cost_of  # with the metrics: not before the first run
            from workbench.engine.users import scenarios_of
            from workbench.watch.affected import with_unjudged

            made = workspace.plan(selections, options, config=config)
            if not options.scores:
                made = scenarios_of(made)
            elif options.resume is None:  # a resumed run has taken that up already
                made = with_unjudged(workspace, made)
            confirm = workspace.settings.run.confirm
            cost = cost_of(made)
            asks = ask or confirm == "always" or (confirm == "costly" and cost.is_costly)
            if asks:
                cost = workspace.estimate(made)
            return PlannedRun(selections, options, config, made, cost, asks, folder=_current_folder(workspace.root))

        return await self._call(plan)

    async def stopped(self) -> StoppedRun | None:
        """The newest run, if it was stopped before its end. Raises StoreError."""

        def find(workspace: Workspace) -> StoppedRun | None:
            from workbench.engine.resume import find_stopped_run, selections_of

            if not file_of(workspace.root).exists():
                return None  # opening it would make one, and looking at a project must not write to it
            with workspace.history() as history:
                run = find_stopped_run(history)
            if run is None:
                return None
            return StoppedRun(selections_of(run), RunOptions(command=_COMMAND, resume=run.run_id))

        return await self._call(find)

    async def start(self, planned: PlannedRun) -> tuple[Run, Sequence[JobKey]]:
        """Start a run of the jobs that are returned with it."""

        def start(workspace: Workspace) -> tuple[Run, Sequence[JobKey]]:
            from workbench.engine.run import Holds

            run = workspace.start(planned.plan, holds=Holds.VERDICTS)
            return run, [job for job, _ in planned.plan.jobs]

        run, jobs = await self._call(start)
        self.adopt(run)
        return run, jobs

    def adopt(self, run: Run) -> None:
        """A run goes on that may be told something, whoever has started it."""
        self._runs = {name: other for name, other in self._runs.items() if not other.is_over}
        self._runs[run.run_id] = run

    def cancel(self, run_id: str, job: JobKey) -> None:
        """Stop one job of a run that goes on; it ends CANCELLED."""
        if run_id in self._runs:
            self._runs[run_id].cancel(job)

    def requeue(self, run_id: str, jobs: Iterable[JobKey]) -> None:
        """Run jobs of a run again, as part of it; nothing happens once it is over."""
        if run_id in self._runs:
            self._runs[run_id].requeue(jobs)


def _current_folder(root: Path) -> Path:
    try:
        return Path.cwd()
    except OSError:  # it is gone; paths are whole then, and `root` does as well
        return root
