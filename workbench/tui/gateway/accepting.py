"""Accepting: edits of expectations, and the runs that score anew what they are about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.engine.plan import Plan, PlanError
from workbench.model.keys import JobKey
from workbench.tui.gateway.documents import Documents
from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.acceptances import Acceptance
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that only scores again, with its jobs."""

    run: Run
    jobs: Sequence[JobKey]


class Accepting:
    """Turns what an agent did into what is expected of it."""

    def __init__(self, call: Call, documents: Documents) -> None:
        self._call = call
        self._documents = documents
        self._accepted: set[str] = set()  # eval sets that were accepted into

    async def accept(self, wanted: Acceptance, *, label: str) -> Begun | str:
        """Edit and save the case, and score its result anew; why that could not be done, where the edit was made.

        Raises Refused, FileChanged and StoreError where it was not.
        """

        def accept(workspace: Workspace) -> Begun | str:
            workspace.acceptances.accept(wanted, label=label)
            try:
                plan = workspace.acceptances.plan_rescoring(wanted.result, judged=wanted.shown)
            except PlanError as error:
                return str(error)
            return _begin(workspace, plan)

        try:
            begun = await self._call(accept)
        finally:
            self._documents.changes += 1
        self._accepted.add(wanted.result.case.eval_set)
        return begun

    async def score_undone(self, eval_sets: Collection[str]) -> Sequence[Begun]:
        """Score results anew in these sets where accepting them was undone, or done again, since they were scored."""
        if self._accepted.isdisjoint(eval_sets):
            return []

        def score(workspace: Workspace) -> Sequence[Begun]:
            return [_begin(workspace, plan) for plan in workspace.acceptances.plans_after_undo(eval_sets)]

        return await self._call(score)


def _begin(workspace: Workspace, plan: Plan) -> Begun:
    from workbench.engine.run import Holds

    return Begun(workspace.start(plan, holds=Holds.VERDICTS), [job for job, _ in plan.jobs])
