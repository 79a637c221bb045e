"""Accepting: edits of expectations, and the runs that score anew what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.engine.plan import Plan, PlanError
from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult
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
        self._judged: dict[CaseKey, EvalCase] = {}  # cases that were accepted into, as they were scored last

    async def accept(self, wanted: Acceptance, *, label: str) -> Begun | str:
        """Edit and save the case, and score its result anew; why that could not be done, where the edit was made.

        Raises Refused, FileChanged and StoreError where it was not.
        """

        def accept(workspace: Workspace) -> tuple[EvalCase, Begun | str]:
            after = workspace.acceptances.accept(wanted, label=label)
            try:
                plan = workspace.acceptances.plan_rescoring(wanted.result, judged=wanted.shown)
            except PlanError as error:
                return after, str(error)
            return after, _begin(workspace, plan)

        try:
            after, begun = await self._call(accept)
        finally:
            self._documents.changes += 1
        self._judged[wanted.result.case] = after
        return begun

    async def score_if_undone(self, result: CaseResult, now: EvalCase) -> Begun | None:
        """Score a result anew where accepting it was undone, or done again, since it was scored; else None."""
        judged = self._judged.get(result.case)
        if judged is None or judged == now:
            return None
        self._judged[result.case] = now

        def score(workspace: Workspace) -> Begun | None:
            plan = workspace.acceptances.plan_after_undo(result, now=now, judged=judged)
            return None if plan is None else _begin(workspace, plan)

        return await self._call(score)


def _begin(workspace: Workspace, plan: Plan) -> Begun:
    return Begun(workspace.start(plan), [job for job, _ in plan.jobs])
