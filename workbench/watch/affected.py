"""Decisions as a plan: what still holds is taken from the history, the rest is judged again or run."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from workbench.engine.plan import Plan, PlannedCase
from workbench.engine.workspace import Workspace
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.store.errors import StoreError
from workbench.store.history import History, StoredVerdict
from workbench.watch.selection import Action, Decision, Place, Selector, place_of
from workbench.watch.state import State

_TO_RUN = frozenset({Action.RUN, Action.WAIT, Action.LEAVE})


def affected_part(workspace: Workspace, plan: Plan) -> Plan:
    """The plan with every verdict that still holds taken from the history. Raises StoreError."""
    decisions = decide_plan(workspace, plan)
    with workspace.history() as history:
        part = plan_of(plan, decisions, runs=_TO_RUN, history=history, with_stored=True)
    left = [case for job, case in part.jobs if job not in part.stored]
    judged = sum(case.executed is not None or case.recorded is not None for case in left)
    again = f", {judged} only judged" if judged else ""
    notice = f"affected: {part.total - len(part.stored)} of {part.total}{again}; the other verdicts still hold"
    return replace(part, notices=(*part.notices, notice))


def decide_plan(workspace: Workspace, plan: Plan) -> list[Decision]:
    """What has to be done about each job of a plan. Raises StoreError where the history cannot be read."""
    verdicts = workspace.verdicts
    selector = Selector(verdicts, State(leftovers=verdicts.leftovers))
    return [selector.decide(job, planned) for job, planned in plan.jobs]


def plan_of(
    plan: Plan, decisions: Sequence[Decision], *, runs: Collection[Action], history: History, with_stored: bool
) -> Plan:
    """The part of a plan that these decisions leave: cases whose action is in `runs`, and those to be judged again.

    With `with_stored` the verdicts that hold are part of it, so that it is about every case still, its summary too. An
    execution that is no longer stored is run again. Raises StoreError.
    """
    actions = {Action.JUDGE, *runs, *([Action.NOTHING] if with_stored else [])}
    wanted = [each for each in decisions if each.action in actions]
    needed = [
        each.verdict
        for each in wanted
        if each.action is Action.NOTHING or (each.action is Action.JUDGE and each.planned.recorded is None)
    ]
    stored = results_of(history, [verdict for verdict in needed if verdict is not None])
    cases: list[PlannedCase] = []
    kept: dict[JobKey, CaseResult] = {}
    taken_from: dict[JobKey, Place] = {}
    for decision in wanted:
        result = None if decision.verdict is None else stored.get(place_of(decision.verdict))
        case = replace(decision.planned, repeat=decision.job.repeat)
        if decision.action is Action.NOTHING and result is not None and decision.verdict is not None:
            named = {"case": decision.job.case, "repeat": decision.job.repeat}
            kept[decision.job] = result.model_copy(update={**named, "eval_set_id": case.eval_set_id})
            taken_from[decision.job] = place_of(decision.verdict)
        elif decision.action is Action.JUDGE and result is not None and _can_be_judged(result):
            case = replace(case, executed=result.execution)
        cases.append(case)
    # One repeat of one case each; repeats count from 0 in the plan that the decisions were made on.
    runs_needed = 1 + max((case.repeat or 0 for case in cases), default=0)
    return replace(
        plan,
        cases=tuple(cases),
        limits=plan.limits.model_copy(update={"runs": runs_needed}),
        stored=kept,
        taken_from=taken_from,
        whole_sets=plan.whole_sets if with_stored else frozenset(),
        selections=plan.selections if with_stored else (),
    )


def results_of(history: History, verdicts: Iterable[StoredVerdict]) -> dict[Place, CaseResult]:
    """The results of these verdicts with what the agents did, by run and job: those that are still stored."""
    wanted: dict[str, set[JobKey]] = {}
    for verdict in verdicts:
        wanted.setdefault(verdict.job.run_id, set()).add(verdict.job.key)
    found: dict[Place, CaseResult] = {}
    for run_id, jobs in wanted.items():
        with contextlib.suppress(StoreError):  # the history may have been deleted, with all or some of its runs
            found |= _results_of_run(history, run_id, jobs)
    return found


def _results_of_run(history: History, run_id: str, jobs: Collection[JobKey]) -> dict[Place, CaseResult]:
    if len(jobs) == 1:
        (job,) = jobs
        result = history.result(run_id, job)
        return {} if result is None else {Place(run_id, job): result}
    results = ((JobKey.model_construct(case=each.case, repeat=each.repeat), each) for each in history.results(run_id))
    return {Place(run_id, job): result for job, result in results if job in jobs}


def _can_be_judged(result: CaseResult) -> bool:
    return bool(result.execution.turns) or result.execution.failure is not None
