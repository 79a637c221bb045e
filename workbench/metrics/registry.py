"""All metrics by name, what there is to know about them, and the criteria of a config made ready to judge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from workbench.metrics import (
    measures,
    response,
    state,
    tool_calls_vertex,
    trajectory_adk,
    trajectory_agentevals,
    trajectory_vertex,
)
from workbench.metrics import options as option_reading
from workbench.metrics.definition import Definition, Judge, MetricInfo, ModelJudge, TextJudge, TurnJudge
from workbench.metrics.judges import (
    hallucinations,
    multi_turn,
    response_match,
    rubrics,
    service,
    single_turn,
    user_quality,
)
from workbench.metrics.judges import options as judge_options
from workbench.metrics.judges.templated import info_of_judge_metric, prepare_judge_metric, unknown_inputs
from workbench.metrics.options import Options
from workbench.metrics.outcome import Rule
from workbench.model.criteria import Criterion, CustomMetric, EvalConfig, InvalidConfig

__all__ = [
    "MetricInfo",
    "PreparedCriterion",
    "check_criteria",
    "check_inputs",
    "info_of",
    "known_metrics",
    "nearest",
    "needs_of",
    "prepare",
    "with_judge",
    "with_scorer",
]


@cache
def _definitions() -> Mapping[str, Definition]:
    judged = (response_match, rubrics, hallucinations, single_turn, multi_turn, user_quality)
    families = (
        trajectory_adk,
        trajectory_vertex,
        trajectory_agentevals,
        response,
        tool_calls_vertex,
        *judged,
        state,
        measures,
    )
    return {definition.info.name: definition for family in families for definition in family.METRICS}


@cache
def known_metrics() -> Mapping[str, MetricInfo]:
    """Every metric that a config may name besides its own custom ones, by name."""
    return MappingProxyType({name: definition.info for name, definition in _definitions().items()})


def nearest(name: str, also: Iterable[str] = ()) -> str | None:
    """The known metric, or name of `also`, that `name` was most likely meant to be; None where none is close."""
    return option_reading.nearest(name, (*known_metrics(), *also))


@dataclass(frozen=True, kw_only=True)
class PreparedCriterion:
    """A criterion ready to judge.

    It has judges, each with the rule for its results, or is a custom metric, or has a `reason` why it cannot judge.
    `info` is None for a custom metric and for a name that nobody knows. `rule` is for results of the criterion as such.
    `waits`: judging it takes another process or a thread.
    """

    criterion: Criterion
    rule: Rule
    info: MetricInfo | None = None
    judges: Sequence[tuple[Judge, Rule]] = ()
    custom: CustomMetric | None = None
    reason: str | None = None
    problems: Sequence[InvalidConfig] = ()
    waits: bool = False


def prepare(config: EvalConfig) -> Sequence[PreparedCriterion]:
    """The criteria of a config in their order, followed by the measures that are always reported."""
    prepared = [_prepare_criterion(criterion, config) for criterion in config.criteria]
    named = {criterion.metric for criterion in config.criteria}
    always = [Criterion(metric=measure.info.name) for measure in measures.ALWAYS_REPORTED]
    prepared += [_prepare_criterion(measure, config) for measure in always if measure.metric not in named]
    return tuple(prepared)


def check_criteria(config: EvalConfig) -> list[InvalidConfig]:
    """What is wrong with the criteria of a config, each with its place: unknown metrics, unknown or wrong options, and
    judge metrics that are called like ours, so that nobody could tell which one scored."""
    taken = [
        InvalidConfig(
            place=f"judge_metrics.{name}", found="the name of a built-in metric", expected="a name of its own"
        )
        for name in config.judge_metrics
        if name in known_metrics()
    ]
    return [*taken, *(problem for prepared in prepare(config) for problem in prepared.problems)]


def needs_of(config: EvalConfig) -> frozenset[str]:
    """What the criteria need besides the turns (see MetricInfo.needs), so that it can be started early."""
    needs: set[str] = set()
    for prepared in prepare(config):
        if prepared.info is not None:
            needs |= prepared.info.needs
        elif prepared.custom is not None:
            needs.add("worker")
    return frozenset(needs)


def with_judge(config: EvalConfig, model: str) -> EvalConfig:
    """The config with the model that judges where a criterion names none; as it is where nothing needs a judge."""
    return config.model_copy(update={"judge": model}) if "judge" in needs_of(config) else config


def info_of(metric: str, config: EvalConfig) -> MetricInfo | None:
    """What is known of a metric that a criterion of this config names; None for custom and unknown ones."""
    own = config.judge_metrics.get(metric)
    if own is not None:
        return info_of_judge_metric(metric, own)
    return None if metric in config.custom_metrics else known_metrics().get(metric)


def check_inputs(config: EvalConfig, columns: Collection[str]) -> list[InvalidConfig]:
    """What judge metrics that the criteria name want to see, and cases with these columns do not have.

    Only cases of datasets have columns.
    """
    named = [(each.metric, config.judge_metrics.get(each.metric)) for each in config.criteria]
    return [
        problem for name, metric in named if metric is not None for problem in unknown_inputs(name, metric, columns)
    ]


def with_scorer(config: EvalConfig, scorer: str) -> EvalConfig:
    """The config with what scores those metrics that more than one thing can score, where a criterion leaves it open.

    A criterion that has options for a judge model wants that.
    """
    if scorer == service.SCORERS[0]:  # it is the default
        return config
    return config.model_copy(update={"criteria": tuple(_with_scorer(each, config, scorer) for each in config.criteria)})


def _with_scorer(criterion: Criterion, config: EvalConfig, scorer: str) -> Criterion:
    info = info_of(criterion.metric, config)
    if info is None or service.SCORER not in info.options:
        return criterion
    if Options(criterion).given(service.SCORER, judge_options.NAME):
        return criterion
    return criterion.model_copy(update={"options": {**criterion.options, service.SCORER: scorer}})


def _prepare_criterion(criterion: Criterion, config: EvalConfig) -> PreparedCriterion:
    rule = Rule(name=criterion.metric, threshold=criterion.threshold)
    own = config.judge_metrics.get(criterion.metric)
    if own is not None:
        options = Options(criterion, judge=config.judge)
        judges = prepare_judge_metric(criterion.metric, own, options)
        return _prepared(criterion, info_of_judge_metric(criterion.metric, own), judges, options)
    custom = config.custom_metrics.get(criterion.metric)
    if custom is not None:  # as in ADK, a config's own metric goes before ours of the same name
        problems = option_reading.misspelt_threshold(criterion)
        problems += option_reading.threshold_out_of_range(criterion, custom.lowest, custom.highest)
        return PreparedCriterion(criterion=criterion, rule=rule, custom=custom, problems=problems, waits=True)
    info = known_metrics().get(criterion.metric)
    if info is None:
        problem = _unknown(criterion.metric, (*config.custom_metrics, *config.judge_metrics))
        return PreparedCriterion(criterion=criterion, rule=rule, reason=str(problem), problems=[problem])
    options = Options(criterion, judge=config.judge)
    return _prepared(criterion, info, _definitions()[info.name].prepare(options), options)


def _prepared(criterion: Criterion, info: MetricInfo, judges: Sequence[Judge], options: Options) -> PreparedCriterion:
    rule = Rule(name=criterion.metric, threshold=criterion.threshold)
    problems = [*options.finish(), *option_reading.threshold_out_of_range(criterion, info.lowest, info.highest)]
    if problems:
        reason = "; ".join(map(str, problems))
        return PreparedCriterion(criterion=criterion, rule=rule, info=info, reason=reason, problems=problems)
    return PreparedCriterion(
        criterion=criterion,
        rule=rule,
        info=info,
        judges=[(judge, _rule_of(judge, criterion, info)) for judge in judges],
        waits=any(isinstance(judge, TextJudge | ModelJudge) or _takes_long(judge) for judge in judges),
    )


def _takes_long(judge: Judge) -> bool:
    return isinstance(judge, TurnJudge) and judge.may_take_long


def _rule_of(judge: Judge, criterion: Criterion, info: MetricInfo) -> Rule:
    rule = Rule(name=judge.name, threshold=criterion.threshold, lower_is_better=info.lower_is_better)
    if isinstance(judge, TurnJudge):
        return replace(rule, missing_is_zero=judge.missing_is_zero, details=judge.details)
    return rule


def _unknown(name: str, custom: Iterable[str]) -> InvalidConfig:
    guess = nearest(name, custom)
    if guess is not None:
        expected = f"{guess!r} (did you mean that?)"
    else:
        known = ", ".join(info.name for info in known_metrics().values() if not info.informational)
        expected = f"a name of custom_metrics or judge_metrics, or one of {known}"
    return InvalidConfig(place=f"criteria.{name}", found=f"the unknown metric {name!r}", expected=expected)
