"""What pairwise judge metrics compare with: what agents did in earlier runs, put beside the cases of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from workbench.engine.plan import PlanError, PlannedCase
from workbench.model.criteria import EvalConfig
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, Execution, MetricStatus
from workbench.store.errors import StoreError
from workbench.store.history import History
from workbench.store.history.runs import LATEST

OpenHistory = Callable[[], History | None]
"""Opens the history of a project, for the caller to close; None where there is none yet."""

_Place = tuple[str, str, int]
_Repeats = Sequence[Execution]  # what was done in the repeats of a case in one run, the first one first
_Executions = Mapping[_Place, Sequence[_Repeats]]

_RUNS_LOOKED_AT = 20
_MOST_RUNS = 1_000
_KEPT = 2
"""Of how many runs the executions of a case are kept: the newest may be the one that is judged."""


def with_baselines(
    cases: Sequence[PlannedCase], open_history: OpenHistory, *, before: str | None = None
) -> tuple[PlannedCase, ...]:
    """The cases with what the judge metrics of their criteria compare with; "latest" is a run older than `before`.

    A case is the same whichever agent ran it, and its first repeat stands for all; what was done in one run is never
    compared with itself. Raises PlanError for a run that is not there, and StoreError.
    """
    wanted = {id(case.config): _runs_of(case.config) for case in cases}
    names = {run: metric for runs in wanted.values() for metric, run in runs.items()}
    if not names:
        return tuple(cases)
    history = open_history()
    try:
        places = {_place(case.key) for case in cases}
        found = {run: _executions(history, run, metric, places, before) for run, metric in names.items()}
    finally:
        if history is not None:
            history.close()
    return tuple(
        replace(case, baselines={m: _others(case, found[run]) for m, run in wanted[id(case.config)].items()})
        for case in cases
    )


def _others(case: PlannedCase, found: _Executions) -> Sequence[Execution]:
    """What was done in other runs than the one whose execution is to be judged, where that is known."""
    runs = found.get(_place(case.key), ())
    if case.executed is not None:
        runs = [run for run in runs if all(each.turns != case.executed.turns for each in run)]
    return [run[0] for run in runs]


def lacks_baseline(case: PlannedCase, result: CaseResult) -> bool:
    """Whether a metric was to compare with the latest run and found none: the verdict counts until there is one."""
    if not case.config.judge_metrics:  # nearly always, and of ten thousand cases each is asked
        return False
    latest = {metric for metric, run in _runs_of(case.config).items() if run == LATEST}
    for metric in result.metrics:
        if metric.name not in latest or metric.status is not MetricStatus.UNDEFINED:
            continue
        found = case.baselines.get(metric.name, ())
        if metric in case.kept or all(each.turns == result.execution.turns for each in found):
            return True
    return False


def _runs_of(config: EvalConfig) -> Mapping[str, str]:
    """The run that each metric compares with, of those that the criteria name and that compare with a run."""
    runs: dict[str, str] = {}
    for criterion in config.criteria:
        metric = config.judge_metrics.get(criterion.metric)
        if metric is not None and metric.baseline is not None and metric.baseline.run is not None:
            runs[criterion.metric] = metric.baseline.run
    return runs


def _executions(history: History | None, run: str, metric: str, places: set[_Place], before: str | None) -> _Executions:
    if history is None:
        if run == LATEST:
            return {}
        raise PlanError(
            f"judge_metrics.{metric}.baseline: found the run {run!r}, expected one of the history: it is empty"
        )
    try:
        ids = _newest(history, before) if run == LATEST else [history.run(run).run_id]
    except StoreError as error:
        raise PlanError(f"judge_metrics.{metric}.baseline: {error}") from error
    found: dict[_Place, list[_Repeats]] = {place: [] for place in places}
    open_places = set(places)
    for run_id in ids:
        if not open_places:
            break
        repeats: dict[_Place, list[Execution]] = {}
        for result in sorted(history.results(run_id), key=lambda result: result.repeat):
            place = _place(result.case)
            if place in open_places and result.execution.turns:
                repeats.setdefault(place, []).append(result.execution)
        for place, done in repeats.items():
            known = [each.turns for run in found[place] for each in run]
            if all(each.turns not in known for each in done):  # judged again, it is the same execution in another run
                found[place].append(done)
        open_places = {place for place in open_places if len(found[place]) < _KEPT}
    return found


def _newest(history: History, before: str | None) -> Sequence[str]:
    """The ids of the newest runs, of those that are older than `before` where that is given; the newest first."""
    if before is None:
        return [run.run_id for run in history.runs(limit=_RUNS_LOOKED_AT)]
    ids = [run.run_id for run in history.runs(limit=_MOST_RUNS)]
    first = ids.index(before) + 1 if before in ids else 0
    return ids[first : first + _RUNS_LOOKED_AT]


def _place(key: CaseKey) -> _Place:
    return key.eval_set, key.eval_id, key.occurrence
