"""Judging all but what is kept: results of an earlier judgement that still hold, beside those that are made anew."""

from __future__ import annotations

from workbench.engine.plan import PlannedCase
from workbench.metrics.registry import needs_of
from workbench.model.by_identity import by_identity
from workbench.model.criteria import EvalConfig
from workbench.model.results import MetricResult

_ASKED = frozenset({"judge", "service", "worker"})


@by_identity(at_most=64)
def asks_somebody(config: EvalConfig) -> bool:
    """Whether somebody is asked to judge, a model, a service, or a function that may ask one: that takes its time."""
    return bool(needs_of(config) & _ASKED)


def criteria_to_judge(planned: PlannedCase) -> EvalConfig:
    """The criteria of a planned case without those whose results are kept."""
    kept = {metric.name for metric in planned.kept}
    if not kept:
        return planned.config
    return planned.config.model_copy(
        update={"criteria": tuple(one for one in planned.config.criteria if one.metric not in kept)}
    )


def with_kept(metrics: tuple[MetricResult, ...], planned: PlannedCase) -> tuple[MetricResult, ...]:
    """Results with those that were kept, in the order of the criteria; measures that nobody asked for come last."""
    if not planned.kept:
        return metrics
    places = {criterion.metric: place for place, criterion in enumerate(planned.config.criteria)}

    def place(metric: MetricResult) -> int:
        # A criterion with several results calls them `name(detail)` or `name/detail`.
        name = next(
            (name for name in places if metric.name == name or metric.name.startswith((f"{name}(", f"{name}/"))), ""
        )
        return places.get(name, len(places))

    return tuple(sorted((*metrics, *planned.kept), key=place))
