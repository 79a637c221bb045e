"""Plans that continue from an earlier run: its executions are scored again, or the run is resumed."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.engine.plan import (
    Plan,
    PlanError,
    PlannedCase,
    RunOptions,
    Selection,
    set_executions,
)
from workbench.engine.planner import Planner, add_quarantines
from workbench.engine.recorded_data import make_recorded_target
from workbench.metrics.registry import PreparedCriteria, find_info, prepare
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus
from workbench.model.text import pluralise
from workbench.model.trace import get_trajectory
from workbench.store.datasets.dataset_files import Recorded, RecordedCase
from workbench.store.files import SESSION, is_running, make_session_mark, real_path
from workbench.store.history.history import LATEST, History
from workbench.store.history.history_queries import StoredJob, StoredRun, UsedName
from workbench.store.history.history_schema import SELECTIONS_OPTION

# Executions of an earlier run that are scored again, without running agents.
#
# After a change of expectations or criteria, verdicts of judge models are reused if nothing that they depend on
# changed. Otherwise the criterion has no score, as asking the model again would cost. A new judgement asks the models
# again and reuses nothing.

COMMAND = "scored again"
"""The command in the history of a run that only scored."""

JUDGEMENT = "judgement"
"""The option of a run with the number of its judgement of the same answers."""

_NOT_ASKED = (
    "not rescored: its criterion or expectation changed, and a new judgement costs model calls; run the case to score "
    "it"
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
        why = "is not an eval set of this project, and the run has no dataset rows to judge again"
        raise PlanError(*(f"{name}: {why}" for name in gone))
    else:
        plan, pairs = _plan_results(planner, results, options, usual=usual)
        planned = tuple(_set_execution(case, result) for case, result in pairs)
    if not any("judge" in case.criteria.needs for case in planned):
        raise PlanError("nothing to judge again: none of the criteria uses a judge model")
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
        raise PlanError("nothing to rescore: the answers of the agent are no longer stored")
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
        raise PlanError("nothing to judge again: the criteria of the run are not stored; name them with --config")
    usable = [result for result in results if result.execution.turns]
    if not usable:
        raise PlanError("nothing to judge again: the recorded answers are no longer stored")
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
    plan = planner.plan_rows(recorded, options, target=make_recorded_target(name, root=planner.root), config=config)
    quarantines = {each.case.name: each.quarantine for each in usable if each.quarantine is not None}
    return replace(plan, cases=tuple(add_quarantines(plan.cases, quarantines)))


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


# Resumed runs: the run, its options, and its current results.

_ASKED = "asked"  # the key of stored options
_ANSWERS = ("models", "fresh", "record", "record_calls", "record_tools", "replay", "replay_calls", "replay_tools")
"""What answers models and tools, and what records them: all of the resumed run, or all as given now."""
_KEPT = (
    "config",
    "runs",
    "timeout_seconds",
    "simulate_tools",
    *_ANSWERS,
    "max_model_calls",
    "max_model_cost",
    "require_all_samples",
)
SELECTIONS = SELECTIONS_OPTION
"""The option of a run with its selections."""


def dump_resume_options(plan: Plan) -> dict[str, Any]:
    """Dump the selections and options that a run needs to be resumed."""
    names = {name for name in _KEPT if _is_given(plan.options, name)}
    options = plan.options.model_dump(include={*names, "unrecorded"})
    given = {name: str(real_path(value)) if isinstance(value, Path) else value for name, value in options.items()}
    selections = [selection.model_dump() for selection in plan.selections]
    return {SELECTIONS: selections, _ASKED: given, **make_session_mark()}


def find_run_to_resume(history: History, name: str, *, eval_sets: Collection[str]) -> StoredRun:
    """Find a run by its id, the start of its id, or "latest".

    "latest" is the newest run that was interrupted, whose process died, or that lacks verdicts of judges. With
    `eval_sets`, it must contain one of them. Raises PlanError if there is none or it is still running, and StoreError
    for an unknown id.
    """
    if name != LATEST:
        run = history.run(name)
        if _is_ongoing(run):
            raise PlanError(f"run {run.run_id} has not ended; resume it after it has ended")
        return run
    for run in history.runs():
        had = {selection.eval_set for selection in get_selections(run)}
        is_meant = had and (not eval_sets or had & set(eval_sets))
        if is_meant and (_was_stopped(run) or (run.ended and _lacks_verdicts(history, run))):
            return run
    of_these = " of these eval sets" if eval_sets else ""
    raise PlanError(
        f"nothing to resume: no run{of_these} was interrupted or has unjudged cases (`--failed` runs cases that did "
        "not pass)"
    )


def _lacks_verdicts(history: History, run: StoredRun) -> bool:
    """Whether some cases lack a verdict because a judge could not be asked."""
    return run.summary.error > 0 and any(_may_lack_verdict(job) for job in history.jobs(run.run_id))


def _may_lack_verdict(job: StoredJob) -> bool:
    """Whether the agent finished but not its judges. Such results have no scoring key."""
    return job.status is CaseStatus.ERROR and job.failure is None and not job.scoring_key


def find_stopped_run(history: History) -> StoredRun | None:
    """Find the newest run of eval cases if it was interrupted or its process died; None if it ended or is running."""
    newest = next((run for run in history.runs() if get_selections(run)), None)
    return newest if newest is not None and _was_stopped(newest) else None


def get_selections(run: StoredRun) -> Sequence[Selection]:
    """Return the selections of a run; empty if it judged recordings."""
    return [Selection.model_validate(kept) for kept in run.options.get(SELECTIONS, ())]


def get_replay_file(run: StoredRun) -> Path | None:
    """Return the file whose recordings answered the run; None if there was none."""
    given = run.options.get(_ASKED, {}).get("replay")
    return None if given is None else Path(given)


def restore_options(options: RunOptions, run: StoredRun) -> RunOptions:
    """Complete options with those of the resumed run, so that simulated tools stay simulated."""
    kept = run.options.get(_ASKED, {})
    left_out = _ANSWERS if any(_is_given(options, name) for name in _ANSWERS) else ()
    names = [name for name in _KEPT if name in kept and name not in left_out]
    earlier_values = {name: kept[name] for name in names if not _is_given(options, name)}
    if "replay_tools" in earlier_values and "unrecorded" in kept:
        earlier_values["unrecorded"] = kept["unrecorded"]
    return RunOptions.model_validate({**options.model_dump(), **earlier_values}) if earlier_values else options


def _is_given(options: RunOptions, name: str) -> bool:
    value = getattr(options, name)
    return bool(value) if name == "fresh" else value is not None


def resume_plan(plan: Plan, history: History, run: StoredRun, *, rejects_replays: bool = False) -> Plan:
    """Return the plan that resumes a run: its current verdicts are reused, and unjudged executions are judged.

    With `rejects_replays`, cases whose models were replayed run again.
    """
    hashes = {case.key: (case.execution_hash, case.scoring_hash) for case in plan.cases}
    decided, jobs = history.finished_jobs(run.run_id), history.jobs(run.run_id)
    unchanged = {
        job.key for job in jobs if job.key in decided and hashes.get(job.case) == (job.execution_key, job.scoring_key)
    }
    wanted = unchanged & {key for key, _ in plan.jobs}
    results = ((JobKey(case=result.case, repeat=result.repeat), result) for result in history.results(run.run_id))
    current = {key: result for key, result in results if key in wanted}
    stored = {key: result for key, result in current.items() if not (rejects_replays and result.execution.is_replayed)}
    unjudged = [
        job
        for job, execution_key in history.list_unjudged_jobs(run.run_id).items()
        if job not in current and job.case in hashes and hashes[job.case][0] == execution_key
    ]
    results_of = history.find_unjudged_results([(run.run_id, job) for job in unjudged])
    executed = {job: each.execution for job, each in zip(unjudged, results_of, strict=True) if each is not None}
    for job in jobs:
        if _may_lack_verdict(job) and hashes.get(job.case, ("",))[0] == job.execution_key:
            result = history.result(run.run_id, job.key)
            if result is not None and result.has_outage and result.execution.turns:
                executed[job.key] = result.execution
    if rejects_replays:
        executed = {job: execution for job, execution in executed.items() if not execution.is_replayed}
    more = f"; {len(executed)} more only need judging" if executed else ""
    if left_out := len(current) - len(stored):
        more += f"; run again because their models were replayed: {left_out}"
    notice = f"resuming run {run.run_id}: {len(stored)} of {pluralise(plan.total, 'result')} reused{more}"
    going_on = replace(plan, resumes=run.run_id, stored=stored, notices=(*plan.notices, notice))
    return set_executions(going_on, executed)


# Renamed cases. The history has the new ids of those that were renamed on the screen. Of others, the input shows under
# which names they ran before: the id of a case is part of neither of its hashes.

_MOST_NAMES = 20  # of one case


class FormerNames:
    """Finds the names under which cases of one set ran before they were renamed."""

    def __init__(
        self, used: Mapping[CaseKey, UsedName], gone: Collection[CaseKey], renames: Mapping[str, str] | None = None
    ) -> None:
        """Make it from all names under which cases ran, and those of them that no case has now.

        `renames` has the new ids of renamed cases by the former ones.
        """
        self._used = used
        self._names: dict[str | tuple[str, str], list[CaseKey]] = {}  # by execution key and by both keys, oldest first
        self._renamed: dict[str, list[CaseKey]] = {}  # by the id that the case has now, oldest first
        for name in sorted(gone, key=self._get_end):
            if name.occurrence == 0:
                self._renamed.setdefault(_follow_renames(name.eval_id, renames or {}), []).append(name)
            hashes = used[name].hashes
            keys: set[str | tuple[str, str]] = {*hashes, *(execution_key for execution_key, _ in hashes)}
            for key in keys:
                self._names.setdefault(key, []).append(name)

    def find(self, case: CaseKey, hashes: tuple[str, str]) -> list[CaseKey]:
        """Return the former names of a case with these hashes, the newest first.

        A former name was changed on the screen or ran with an input of the case, and it ran no longer after the case
        ran under the next name. Of several inputs, one with the same expectations and criteria is preferred.
        """
        ids = {case.eval_id}
        known: set[tuple[str, str]] = {hashes}
        before: float = math.inf
        if case in self._used:
            known |= self._used[case].hashes
            before = self._used[case].first
        found: list[CaseKey] = []
        while len(found) < _MOST_NAMES:
            name = (
                self._find_newest(self._renamed, ids, before)
                or self._find_newest(self._names, known, before)
                or self._find_newest(self._names, {key for key, _ in known}, before)
            )
            if name is None:
                break
            found.append(name)
            ids.add(name.eval_id)
            known |= self._used[name].hashes
            before = self._used[name].first
        return found

    def _find_newest(
        self, names_by_key: Mapping[Any, Sequence[CaseKey]], keys: Collection[Any], before: float
    ) -> CaseKey | None:
        """Return the name that ran last, before this job, with one of these keys."""
        near: list[CaseKey] = []
        for key in keys:
            names = names_by_key.get(key, ())
            count = bisect_left(names, before, key=self._get_end)
            near += names[max(count - 1, 0) : count]
        return max(near, key=self._get_end, default=None)

    def _get_end(self, name: CaseKey) -> int:
        return self._used[name].last


def _follow_renames(eval_id: str, renames: Mapping[str, str]) -> str:
    """Return the id that a case has after all renames."""
    seen = {eval_id}
    while eval_id in renames and renames[eval_id] not in seen:
        eval_id = renames[eval_id]
        seen.add(eval_id)
    return eval_id


def _was_stopped(run: StoredRun) -> bool:
    return (run.interrupted or not run.ended) and not _is_ongoing(run)


def _is_ongoing(run: StoredRun) -> bool:
    """Whether the process of the run is still alive."""
    return not run.ended and run.options.get("session") != SESSION and is_running(run.options)
