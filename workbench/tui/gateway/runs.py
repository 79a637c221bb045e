"""Runs: planned and started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.engine.plan import RunOptions, Selection
from workbench.model.keys import JobKey
from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace

_COMMAND = "workbench (screen)"


class Runs:
    """What can be run. Methods raise PlanError and StoreError."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def start(
        self, selections: Sequence[Selection], options: RunOptions | None = None
    ) -> tuple[Run, Sequence[JobKey]]:
        """Plan and start a run of the jobs that are returned with it."""

        def start(workspace: Workspace) -> tuple[Run, Sequence[JobKey]]:
            plan = workspace.plan(selections, options or RunOptions(command=_COMMAND))
            return workspace.start(plan), [job for job, _ in plan.jobs]

        return await self._call(start)
