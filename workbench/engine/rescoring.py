"""Plans that score executions of an earlier run again, without running agents.

After a change of expectations or criteria, verdicts of judge models are reused if nothing that they depend on changed.
Otherwise the criterion has no score, as asking the model again would cost. A new judgement asks the models again and
reuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.engine.plan import Plan, PlanError, PlannedCase, RunOptions, Selection
from workbench.engine.planner import Planner
from workbench.engine.recorded_data import make_recorded_target
from workbench.metrics.registry import PreparedCriteria, find_info, prepare
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, MetricResult, MetricStatus
from workbench.model.trace import get_trajectory
from workbench.store.datasets.dataset_reader import Recorded, RecordedCase
from workbench.store.history.history_queries import StoredRun

COMMAND = "scored again"
"""The command in the history of a run that only scored."""

JUDGEMENT = "judgement"
"""The option of a run with the number of its judgement of the same answers."""

_NOT_ASKED = (
    "not scored again: its criterion, or what it compares with, is not what was judged by, and asking anew costs; "
    "run the case to have it scored"
)


def plan_rescoring(
    planner: Planner,
    results: Sequence[CaseResult],
    *,
    judged: Mapping[CaseKey, EvalCase],
    criteria: Mapping[str, EvalConfig],
) -> Plan:
    """Plan to score these results by the current cases and criteria.

    `judged` are the cases, and `criteria` (by set) the criteria, of the last judgement, as far as they are known.
    Results without a stored execution are left out. Raises PlanError, also if none remain.
    """
    plan, pairs = _plan_results(planner, results, RunOptions(runs=1, command=COMMAND, adk_results=False))
    former = {name: prepare(config) for name, config in criteria.items()}
    planned = [
        _plan_result(case, result, judged=judged.get(result.case), former=former.get(result.case.eval_set))
        for case, result in pairs
    ]
    return _restrict_plan(plan, planned)


def plan_judging(planner: Planner, run: StoredRun, results: Sequence[CaseResult], options: RunOptions) -> Plan:
    """Plan a new judgement of these results by the criteria of their run, or by those of the options.

    Only judgements by the same criteria can be compared. A run without criteria is judged by the current ones. Results
    without a stored execution are left out. Rows of a dataset are judged as stored. Raises PlanError, also if none
    remain or no criterion asks a model.
    """
    usual = {name: config for name, config in run.criteria.items() if config.criteria}
    gone = sorted({result.case.eval_set for result in results} - planner.eval_sets)
    if gone and all(result.is_row for result in results) and len({result.case.eval_set for result in results}) == 1:
        plan = _plan_stored_rows(planner, results, options, config=usual.get(gone[0]))
        planned = plan.cases
    elif gone:
        why = "is no eval set of this project, and the run has no rows of a dataset to judge again"
        raise PlanError(*(f"{name}: {why}" for name in gone))
    else:
        plan, pairs = _plan_results(planner, results, options, usual=usual)
        planned = tuple(_set_execution(case, result) for case, result in pairs)
    if not any("judge" in case.criteria.needs for case in planned):
        raise PlanError("nothing to judge again: none of the criteria asks a judge model")
    return _restrict_plan(plan, planned)


def make_judging_options(run: StoredRun, options: RunOptions, *, time: int) -> RunOptions:
    """Make the options of a new judgement, numbered after the earlier ones."""
    judgement = int(run.options.get(JUDGEMENT, 0)) + time
    return options.model_copy(
        update={"runs": 1, "adk_results": False, "judges_again": run.run_id, JUDGEMENT: judgement}
    )


def _plan_results(
    planner: Planner,
    results: Sequence[CaseResult],
    options: RunOptions,
    *,
    usual: Mapping[str, EvalConfig] | None = None,
) -> tuple[Plan, Sequence[tuple[PlannedCase, CaseResult]]]:
    """Plan the cases of these results, and pair each case with its result. Raises PlanError."""
    usable = {(result.case, result.repeat): result for result in results if _can_be_judged(result)}
    if not usable:
        raise PlanError("nothing to score again: what the agent did is no longer stored")
    ids: dict[str, list[str]] = {}
    for key, _ in usable:
        ids.setdefault(key.eval_set, []).append(key.eval_id)
    selections = [Selection(eval_set=name, cases=tuple(cases)) for name, cases in ids.items()]
    plan = planner.plan(selections, options, usual=usual)
    cases = {case.key: case for case in plan.cases}
    return plan, [(cases[result.case], result) for result in usable.values() if result.case in cases]


def _plan_stored_rows(
    planner: Planner, results: Sequence[CaseResult], options: RunOptions, *, config: EvalConfig | None
) -> Plan:
    """Plan to judge stored rows of one dataset, by the criteria of the options or else `config`.

    Unknown columns are not stored; if a judge metric needs one, raises PlanError.
    """
    if options.config is not None:
        config = planner.read_config(options.config)
    if config is None:
        raise PlanError("nothing to judge again: the criteria of the run are not stored; name some by --config")
    usable = [result for result in results if result.execution.turns]
    if not usable:
        raise PlanError("nothing to judge again: what was recorded is no longer stored")
    rows = tuple(
        RecordedCase(
            eval_id=result.case.eval_id,
            occurrence=result.case.occurrence,
            case=result.expected_by_row,
            execution=result.execution,
            columns=_restore_columns(result),
        )
        for result in usable
    )
    name = usable[0].case.eval_set
    recorded = Recorded(name, usable[0].eval_set_id, rows)
    return planner.plan_rows(recorded, options, target=make_recorded_target(name, root=planner.root), config=config)


def _restore_columns(result: CaseResult) -> Mapping[str, Any]:
    """Restore the stored columns of a row: texts and calls."""
    said = result.execution.turns[0].invocation
    sides = {"predicted_trajectory": ("response", said)}
    if result.expected_by_row is not None and result.expected_by_row.conversation:
        sides["reference_trajectory"] = ("reference", result.expected_by_row.conversation[0])
    columns: dict[str, Any] = {"prompt": said.user_content.text()} if said.user_content.parts else {}
    for trajectory, (text, turn) in sides.items():
        if turn.final_response is not None:
            columns[text] = turn.final_response.text()
        if turn.intermediate_data is not None:
            columns[trajectory] = [{"tool_name": call.name, "tool_input": call.args} for call in get_trajectory(turn)]
    return columns


def _restrict_plan(plan: Plan, planned: Sequence[PlannedCase]) -> Plan:
    """Restrict the plan to these cases, each with its repeat."""
    repeats = 1 + max((case.repeat or 0 for case in planned), default=0)
    limits = plan.limits.model_copy(update={"runs": repeats})
    return replace(plan, cases=tuple(planned), limits=limits, whole_sets=frozenset(), selections=())


def _can_be_judged(result: CaseResult) -> bool:
    return bool(result.execution.turns) or result.execution.failure is not None


def _plan_result(
    case: PlannedCase, result: CaseResult, *, judged: EvalCase | None, former: PreparedCriteria | None
) -> PlannedCase:
    if case.problem is not None or case.is_recorded:
        return _set_execution(case, result)
    return replace(
        _set_execution(case, result), reused_results=tuple(_reuse_results(case, result, judged=judged, former=former))
    )


def _set_execution(case: PlannedCase, result: CaseResult) -> PlannedCase:
    """Return the case with the execution of its result."""
    if case.problem is not None or case.is_recorded:
        return replace(case, repeat=result.repeat)
    return replace(case, executed=result.execution, repeat=result.repeat)


def _reuse_results(
    case: PlannedCase, result: CaseResult, *, judged: EvalCase | None, former: PreparedCriteria | None
) -> Iterator[MetricResult]:
    """For each criterion that asks a model, yield the old result, or an undefined one with the reason."""
    before = {metric.name: metric for metric in result.metrics}
    for criterion in case.config.criteria:
        info = find_info(criterion.metric, case.config)
        if info is None or "judge" not in info.needs or criterion.metric not in before:
            continue
        old = before[criterion.metric]
        is_same = not info.needs_reference or (judged is not None and judged == case.case)
        metric = criterion.metric
        if (
            is_same
            and former is not None
            and _describe_judgement(metric, former) == _describe_judgement(metric, case.criteria)
        ):
            yield old
            # The further results of a metric are reused with it.
            yield from (other for name, other in before.items() if name.startswith(f"{old.name}/"))
        else:
            yield MetricResult(
                name=old.name,
                score=None,
                threshold=criterion.threshold,
                status=MetricStatus.UNDEFINED,
                reason=_NOT_ASKED,
                total=old.total,
            )


def _describe_judgement(metric: str, prepared: PreparedCriteria) -> tuple[object, ...]:
    """Return everything that shapes the judgement of a metric: criterion, definition, models and quorum."""
    config = prepared.config
    criteria = tuple(criterion for criterion in config.criteria if criterion.metric == metric)
    models = tuple(dict.fromkeys(asked.model for asked in prepared.asked_models if asked.metric == metric))
    return criteria, config.judge_metrics.get(metric), models, config.quorum
