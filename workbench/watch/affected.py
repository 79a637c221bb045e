"""Decisions as a plan: what still holds is taken from the history, the rest is judged again or run."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from workbench.engine.baselines import with_baselines
from workbench.engine.plan import Plan, PlannedCase, with_executed
from workbench.engine.workspace import Workspace
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult, Execution, MetricScores
from workbench.store.errors import StoreError
from workbench.store.history import History, StoredJob, StoredVerdict
from workbench.store.history.database import file_of
from workbench.watch.selection import Action, Decision, Place, Selector, place_of
from workbench.watch.state import State

_TO_RUN = frozenset({Action.RUN, Action.WAIT, Action.LEAVE})


def affected_part(workspace: Workspace, plan: Plan) -> Plan:
    """The plan with every verdict that still holds taken from the history.

    Raises StoreError, and PlanError for a run to compare with that is gone.
    """
    decisions = decide_plan(workspace, plan)
    with workspace.history() as history:
        part = plan_of(plan, decisions, runs=_TO_RUN, history=history, with_stored=True)
    part = replace(part, cases=with_baselines(part.cases, workspace.history))  # now that it is known what is judged
    left = [case for job, case in part.jobs if job not in part.stored]
    judged = sum(case.executed is not None or case.is_recorded for case in left)
    again = f", {judged} only judged" if judged else ""
    notice = f"affected: {part.total - len(part.stored)} of {part.total}{again}; the other verdicts still hold"
    return replace(part, notices=(*part.notices, notice))


def with_unjudged(workspace: Workspace, plan: Plan) -> Plan:
    """The plan with what agents did and nobody has judged: earlier runs were stopped meanwhile, or only simulated.

    Where an agent would do the same again, that is judged and the agent does not run. A history that cannot be read
    knows of nothing: the run itself will say so, and go on without.
    """
    executed: dict[JobKey, Execution] = {}
    if file_of(workspace.root).exists():  # opening the history would make one
        with contextlib.suppress(StoreError), workspace.history() as history:
            if history.has_unjudged or any(case.turns is None for case in plan.cases):
                executed = {job: result.execution for job, result in results_of(history, _unjudged(workspace, plan))}
    if not executed:
        return plan
    what = "case is" if len(executed) == 1 else "cases are"
    notice = f"{len(executed)} {what} only judged: an earlier run has what the agent did, and no verdict on it"
    return with_executed(replace(plan, notices=(*plan.notices, notice)), executed)


def _unjudged(workspace: Workspace, plan: Plan) -> Mapping[JobKey, StoredVerdict]:
    verdicts = workspace.verdicts
    selector = Selector(verdicts, State(leftovers=verdicts.leftovers))
    found = {job: selector.unjudged(job, planned) for job, planned in plan.jobs}
    return {job: verdict for job, verdict in found.items() if verdict is not None}


def decide_plan(workspace: Workspace, plan: Plan) -> list[Decision]:
    """What has to be done about each job of a plan. Raises StoreError where the history cannot be read."""
    verdicts = workspace.verdicts
    selector = Selector(verdicts, State(leftovers=verdicts.leftovers))
    return [selector.decide(job, planned) for job, planned in plan.jobs]


def held_verdicts(workspace: Workspace, plan: Plan) -> dict[CaseKey, Sequence[StoredJob]]:
    """The verdicts that hold, by case: where one of a repeat does not, the case has none. Raises StoreError."""
    held: dict[CaseKey, list[StoredJob]] = {}
    without: set[CaseKey] = set()
    for each in decide_plan(workspace, plan):
        if each.action is Action.NOTHING and each.verdict is not None:
            held.setdefault(each.job.case, []).append(each.verdict.job._replace(key=each.job))
        else:
            without.add(each.job.case)
    return {case: jobs for case, jobs in held.items() if case not in without}


def plan_of(
    plan: Plan, decisions: Sequence[Decision], *, runs: Collection[Action], history: History, with_stored: bool
) -> Plan:
    """The part of a plan that these decisions leave: cases whose action is in `runs`, and those to be judged again.

    With `with_stored` the verdicts that hold are part of it, so that it is about every case still, its summary too. An
    execution that is no longer stored is run again. Raises StoreError.
    """
    actions = {Action.JUDGE, *runs, *([Action.NOTHING] if with_stored else [])}
    wanted = [each for each in decisions if each.action in actions]
    needed = {
        each.job: each.verdict
        for each in wanted
        if each.verdict is not None
        and (each.action is Action.NOTHING or (each.action is Action.JUDGE and not each.planned.is_recorded))
    }
    stored = dict(results_of(history, needed))
    cases: list[PlannedCase] = []
    kept: dict[JobKey, CaseResult] = {}
    taken_from: dict[JobKey, Place] = {}
    for decision in wanted:
        result = stored.get(decision.job)
        case = replace(decision.planned, repeat=decision.job.repeat)
        if decision.action is Action.NOTHING and result is not None and decision.verdict is not None:
            kept[decision.job] = result.model_copy(update={"eval_set_id": case.eval_set_id})
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


def results_of(history: History, verdicts: Mapping[JobKey, StoredVerdict]) -> Iterator[tuple[JobKey, CaseResult]]:
    """The results of these verdicts with what the agents did, each named as the job that its verdict holds for.

    Those that are still stored, one after the other: all of them at once may be more than anybody wants to hold.
    """
    for job, verdict in verdicts.items():
        with contextlib.suppress(StoreError):  # the history may have been deleted, with all or some of its runs
            read = history.result if verdict.is_judged else history.unjudged_result
            result = read(verdict.job.run_id, verdict.job.key)
            if result is not None:
                yield job, result.model_copy(update={"case": job.case, "repeat": job.repeat})


def scores_of(history: History, verdicts: Mapping[JobKey, StoredVerdict]) -> dict[JobKey, MetricScores]:
    """What the metrics of these verdicts scored: those that are still stored."""
    found: dict[JobKey, MetricScores] = {}
    for job, verdict in verdicts.items():
        with contextlib.suppress(StoreError):  # as above
            found[job] = history.metric_scores(verdict.job.run_id, verdict.job.key)
    return found


def _can_be_judged(result: CaseResult) -> bool:
    return bool(result.execution.turns) or result.execution.failure is not None
