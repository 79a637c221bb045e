"""All metrics by name, prepared criteria, presets, and which metrics fit a case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import NamedTuple

from workbench.metrics import (
    measures,
    response,
    trajectory,
)
from workbench.metrics import metric_types as option_reading
from workbench.metrics.judges import (
    hallucinations,
    response_judges,
    rubrics,
    user_quality,
)
from workbench.metrics.judges import judge_calls as judge_options
from workbench.metrics.judges.templated import find_unknown_inputs, make_judge_metric_info, prepare_judge_metric
from workbench.metrics.metric_types import (
    Definition,
    Judge,
    MetricInfo,
    ModelJudge,
    Options,
    Rule,
    TextJudge,
    TurnJudge,
)
from workbench.model.criteria import (
    DEFAULT_CRITERIA,
    Criterion,
    CustomMetricFunction,
    EvalConfig,
    InvalidConfig,
    JudgeMetric,
)
from workbench.model.evalset import EvalCase

# Metrics by name, and prepared criteria.


@cache
def _collect_definitions() -> Mapping[str, Definition]:
    families = (
        trajectory.METRICS,
        response.METRICS,
        response_judges.MATCH_METRICS,
        rubrics.METRICS,
        hallucinations.METRICS,
        response_judges.METRICS,
        rubrics.CONVERSATION_METRICS,
        user_quality.METRICS,
        measures.STATE_METRICS,
        measures.METRICS,
    )
    return {definition.info.name: definition for family in families for definition in family}


@cache
def known_metrics() -> Mapping[str, MetricInfo]:
    """Return every built-in metric by name. A config may name its own metrics, too."""
    return MappingProxyType({name: definition.info for name, definition in _collect_definitions().items()})


def find_nearest_metric(name: str, other_names: Iterable[str] = ()) -> str | None:
    """Return the known metric, or name in `other_names`, that is most similar to `name`; None if none is close."""
    return option_reading.find_nearest(name, (*known_metrics(), *other_names))


@dataclass(frozen=True, kw_only=True)
class PreparedCriterion:
    """A criterion that is ready to judge.

    It has judges, each with the rule for its results, or a custom metric, or a `reason` why it cannot judge. `info` is
    None for custom and unknown metrics. `rule` is for results of the criterion as a whole. `waits`: judging needs
    another process or a thread.
    """

    criterion: Criterion
    rule: Rule
    info: MetricInfo | None = None
    judges: Sequence[tuple[Judge, Rule]] = ()
    custom: CustomMetricFunction | None = None
    reason: str | None = None
    problems: Sequence[InvalidConfig] = ()
    waits: bool = False


class AskedModel(NamedTuple):
    """A judge of a criterion, and the name of the model that it asks."""

    metric: str
    judge: ModelJudge
    model: str


@dataclass(frozen=True)
class PreparedCriteria:
    """The criteria of a config, ready to judge: in their order, followed by the measures that are always reported.

    A plan prepares each of its configs once; all its cases share the result.
    """

    config: EvalConfig
    criteria: Sequence[PreparedCriterion] = field(compare=False)

    @cached_property
    def needs(self) -> frozenset[str]:
        return collect_needs(self.config)

    @cached_property
    def waits(self) -> bool:
        """True if judging by one of the criteria needs another process or a thread."""
        return any(prepared.waits for prepared in self.criteria)

    @cached_property
    def asked_models(self) -> Sequence[AskedModel]:
        """The judges that ask a model, in the order of the criteria."""
        return tuple(
            AskedModel(prepared.criterion.metric, judge, judge.options.model or self.config.judge)
            for prepared in self.criteria
            for judge, _ in prepared.judges
            if isinstance(judge, ModelJudge)
        )

    @property
    def judge_models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(asked.model for asked in self.asked_models))

    def find_problems(self) -> list[InvalidConfig]:
        """Report unknown metrics, unknown or wrong options, and judge metrics with the name of a built-in metric.

        The live mode is refused: the agent would be tested in another mode than the one that is configured.
        """
        name_clashes = [
            InvalidConfig(place=f"judge_metrics.{name}", found="the name of a built-in metric", expected="another name")
            for name in self.config.judge_metrics
            if name in known_metrics()
        ]
        live = InvalidConfig(
            place="live_model_config",
            found="the live mode of google-adk",
            expected="none: workbench does not run agents in live mode; `adk eval` does",
        )
        modes = [] if self.config.live_model_config is None else [live]
        return [*modes, *name_clashes, *(problem for prepared in self.criteria for problem in prepared.problems)]

    def exclude(self, metrics: Collection[str]) -> PreparedCriteria:
        """Return the same criteria without those of some metrics."""
        criteria = tuple(each for each in self.criteria if each.criterion.metric not in metrics)
        return replace(self, criteria=criteria)


def prepare(config: EvalConfig) -> PreparedCriteria:
    """Make the criteria of a config ready to judge. Never raises: a criterion that cannot judge says why."""
    prepared = [_prepare_criterion(criterion, config) for criterion in config.criteria]
    criterion_names = {criterion.metric for criterion in config.criteria}
    measure_criteria = [Criterion(metric=measure.info.name) for measure in measures.ALWAYS_REPORTED]
    prepared += [
        _prepare_criterion(measure, config) for measure in measure_criteria if measure.metric not in criterion_names
    ]
    return PreparedCriteria(config, tuple(prepared))


def check_criteria(config: EvalConfig) -> list[InvalidConfig]:
    return prepare(config).find_problems()


def collect_needs(config: EvalConfig) -> frozenset[str]:
    """Collect what the criteria need besides the turns (see MetricInfo.needs), so that it can be started early."""
    needs: set[str] = set()
    for criterion in config.criteria:
        info = find_info(criterion.metric, config)
        if info is not None:
            needs |= info.needs
        elif criterion.metric in config.custom_metrics:
            needs.add("worker")
    return frozenset(needs)


def with_judge(config: EvalConfig, model: str) -> EvalConfig:
    """Return the config with a default judge model; unchanged if no criterion needs a judge."""
    return config.model_copy(update={"judge": model}) if "judge" in collect_needs(config) else config


def find_info(metric: str, config: EvalConfig) -> MetricInfo | None:
    """Return the info of a metric that this config names; None for custom and unknown metrics."""
    judge_metric = config.judge_metrics.get(metric)
    if judge_metric is not None:
        return make_judge_metric_info(metric, judge_metric)
    return None if metric in config.custom_metrics else known_metrics().get(metric)


def check_inputs(config: EvalConfig, columns: Collection[str]) -> list[InvalidConfig]:
    """Find the inputs of judge metrics that cases with these columns do not have. Only datasets have columns."""
    judge_metrics = [(each.metric, config.judge_metrics.get(each.metric)) for each in config.criteria]
    return [
        problem
        for name, metric in judge_metrics
        if metric is not None
        for problem in find_unknown_inputs(name, metric, columns)
    ]


def with_scorer(config: EvalConfig, scorer: str) -> EvalConfig:
    """Set the default scorer, judge model or service, of the metrics that have a choice.

    A criterion that names its scorer, or has options for a judge model, is unchanged.
    """
    if scorer == judge_options.SCORERS[0]:  # it is the default
        return config
    return config.model_copy(update={"criteria": tuple(_set_scorer(each, config, scorer) for each in config.criteria)})


def _set_scorer(criterion: Criterion, config: EvalConfig, scorer: str) -> Criterion:
    info = find_info(criterion.metric, config)
    if info is None or judge_options.SCORER not in info.options:
        return criterion
    if Options(criterion).collect(judge_options.SCORER, judge_options.OPTION):
        return criterion
    return criterion.model_copy(update={"options": {**criterion.options, judge_options.SCORER: scorer}})


def _prepare_criterion(criterion: Criterion, config: EvalConfig) -> PreparedCriterion:
    rule = Rule(name=criterion.metric, threshold=criterion.threshold)
    judge_metric = config.judge_metrics.get(criterion.metric)
    if judge_metric is not None:
        options = Options(criterion, judge=config.judge)
        judges = prepare_judge_metric(criterion.metric, judge_metric, options)
        return _build_prepared(criterion, make_judge_metric_info(criterion.metric, judge_metric), judges, options)
    custom = config.custom_metrics.get(criterion.metric)
    if custom is not None:  # as in ADK, a custom metric hides a built-in one of the same name
        problems = option_reading.find_misspelt_threshold(criterion)
        problems += option_reading.check_threshold_range(criterion, custom.lowest, custom.highest)
        return PreparedCriterion(criterion=criterion, rule=rule, custom=custom, problems=problems, waits=True)
    info = known_metrics().get(criterion.metric)
    if info is None:
        problem = _report_unknown(criterion.metric, (*config.custom_metrics, *config.judge_metrics))
        return PreparedCriterion(criterion=criterion, rule=rule, reason=str(problem), problems=[problem])
    options = Options(criterion, judge=config.judge)
    return _build_prepared(criterion, info, _collect_definitions()[info.name].prepare(options), options)


def _build_prepared(
    criterion: Criterion, info: MetricInfo, judges: Sequence[Judge], options: Options
) -> PreparedCriterion:
    rule = Rule(name=criterion.metric, threshold=criterion.threshold)
    problems = [*options.finish(), *option_reading.check_threshold_range(criterion, info.lowest, info.highest)]
    if problems:
        reason = "; ".join(map(str, problems))
        return PreparedCriterion(criterion=criterion, rule=rule, info=info, reason=reason, problems=problems)
    return PreparedCriterion(
        criterion=criterion,
        rule=rule,
        info=info,
        judges=[(judge, _make_rule(judge, criterion, info)) for judge in judges],
        waits=any(isinstance(judge, TextJudge | ModelJudge) or _is_slow(judge) for judge in judges),
    )


def _is_slow(judge: Judge) -> bool:
    return isinstance(judge, TurnJudge) and judge.may_take_long


def _make_rule(judge: Judge, criterion: Criterion, info: MetricInfo) -> Rule:
    rule = Rule(name=judge.name, threshold=criterion.threshold, lower_is_better=info.lower_is_better)
    if isinstance(judge, TurnJudge):
        return replace(rule, missing_is_zero=judge.missing_is_zero, details=judge.details)
    return rule


def _report_unknown(name: str, configured_names: Iterable[str]) -> InvalidConfig:
    guess = find_nearest_metric(name, configured_names)
    if guess is not None:
        expected = f"{guess!r} (did you mean that?)"
    else:
        known_names = ", ".join(info.name for info in known_metrics().values() if not info.informational)
        expected = f"a name of custom_metrics or judge_metrics, or one of {known_names}"
    return InvalidConfig(place=f"criteria.{name}", found=f"the unknown metric {name!r}", expected=expected)


# Presets: criteria for a purpose, for users who do not know the metrics yet.


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Criteria for a purpose. `purpose` is one sentence, short enough for a line of a list."""

    name: str
    purpose: str
    criteria: tuple[Criterion, ...]


PRESETS = (
    Preset(
        name="CI",
        purpose="Expected calls, nearly the expected words.",
        criteria=DEFAULT_CRITERIA,
    ),
    Preset(
        name="trusted reference",
        purpose="The expected response, in any words.",
        criteria=(Criterion(metric="final_response_match_v2", threshold=0.8),),
    ),
    Preset(
        name="no reference",
        purpose="Rubrics say what a good response has.",
        criteria=(Criterion(metric="rubric_based_final_response_quality_v1", threshold=0.8),),
    ),
    Preset(
        name="tool use",
        purpose="Rubrics say what good use of the tools is.",
        criteria=(Criterion(metric="rubric_based_tool_use_quality_v1", threshold=0.8),),
    ),
    Preset(
        name="grounding",
        purpose="The response follows from its context.",
        criteria=(
            Criterion(metric="hallucinations_v1", threshold=0.5, options={"evaluate_intermediate_nl_responses": True}),
        ),
    ),
    Preset(
        name="safety",
        purpose="No response may do harm, whatever is asked.",
        criteria=(Criterion(metric="safety_v1", threshold=0.8),),
    ),
)
"""Sorted by cost, the cheapest first."""


# Requirements of metrics: expected responses, a fixed conversation, columns of rows.


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """Numbers of cases by what they have. The facts of parts can be added.

    `responses` counts cases with an expected response in every turn, `rubrics` those with their own rubrics.
    """

    cases: int = 0
    conversations: int = 0
    scenarios: int = 0
    responses: int = 0
    states: int = 0
    rubrics: int = 0

    @classmethod
    def from_case(cls, case: EvalCase) -> CaseFacts:
        turns = case.conversation or ()
        return cls(
            cases=1,
            conversations=int(case.conversation is not None),
            scenarios=int(case.conversation_scenario is not None),
            responses=int(bool(turns) and all(turn.final_response is not None for turn in turns)),
            states=int(case.final_session_state is not None),
            rubrics=int(bool(case.rubrics) or any(turn.rubrics for turn in turns)),
        )

    def __add__(self, other: CaseFacts) -> CaseFacts:
        return CaseFacts(**{name: count + getattr(other, name) for name, count in vars(self).items()})


@dataclass(frozen=True)
class Fit:
    """The number of cases that a metric can score. The others do not have the `requirement`."""

    usable: int
    requirement: str


def compute_fit(info: MetricInfo, facts: CaseFacts) -> Fit:
    """Count the cases that a metric can score.

    A case without expected tool calls expects none, so trajectory metrics need only a conversation. Rubrics are no
    requirement: a criterion may bring its own.
    """
    if info.family == "state":
        return Fit(facts.states, "an expected final state")
    if info.name == "per_turn_user_simulator_quality_v1":
        return Fit(facts.scenarios, "a scenario")
    if info.needs_reference and info.family != "trajectory":
        return Fit(facts.responses, "an expected response in every turn")
    if not info.fits_scenarios:
        return Fit(facts.conversations, "a fixed conversation")
    return Fit(facts.cases, "anything to judge")


_FAMILY_COLUMNS = {
    "trajectory": ("predicted_trajectory", "reference_trajectory"),
    "response": ("response", "reference"),
    "judge": ("response", "reference"),
}
"""The actual and the expected column that metrics of a family compare."""

_ROW_INPUTS = frozenset({"prompt", "response", "reference", "predicted_trajectory", "reference_trajectory", "history"})
"""Inputs of judges that every case has. A dataset row has them only as columns."""

_COLUMNS_SHOWN = 8


@dataclass(frozen=True)
class MissingColumns:
    """The metrics that have no score in any row of a dataset, each with its missing columns.

    `covers_all_metrics`: no other metric is left, so that judging would give no score at all.
    """

    missing: Mapping[str, tuple[str, ...]]
    covers_all_metrics: bool

    def describe(self, columns: Sequence[str]) -> str:
        """Return a message with the columns that were found, and those that the metrics need."""
        metrics: dict[tuple[str, ...], list[str]] = {}
        for metric, names in self.missing.items():
            metrics.setdefault(names, []).append(metric)
        expected = "; ".join(
            f"{' and '.join(names)} for {', '.join(metric_names)}" for names, metric_names in metrics.items()
        )
        more = ", …" if len(columns) > _COLUMNS_SHOWN else ""
        return f"found the columns {', '.join(columns[:_COLUMNS_SHOWN])}{more}, expected {expected}"


def find_missing_columns(config: EvalConfig, columns: Collection[str]) -> MissingColumns:
    """Find the columns that the criteria of a config need and a dataset does not have.

    The inputs of custom metrics are unknown.
    """
    missing: dict[str, tuple[str, ...]] = {}
    for metric in dict.fromkeys(criterion.metric for criterion in config.criteria):
        judge, info = config.judge_metrics.get(metric), find_info(metric, config)
        if judge is not None:
            missing[metric] = _find_missing_inputs(judge, columns)
        else:
            missing[metric] = () if info is None else _find_missing_columns(info, columns)
    lacking = {metric: names for metric, names in missing.items() if names}
    return MissingColumns(lacking, covers_all_metrics=bool(lacking) and len(lacking) == len(missing))


def _find_missing_inputs(metric: JudgeMetric, columns: Collection[str]) -> tuple[str, ...]:
    from workbench.metrics.judges.templated import list_inputs

    needed = [name for name in list_inputs(metric) if name in _ROW_INPUTS]
    if metric.baseline is not None and metric.baseline.column is not None:
        needed.append(metric.baseline.column)
    return tuple(name for name in needed if name not in columns)


def _find_missing_columns(info: MetricInfo, columns: Collection[str]) -> tuple[str, ...]:
    if info.family not in _FAMILY_COLUMNS:
        return ()
    if info.family == "judge" and not info.needs_reference:  # such a metric names its columns
        return () if not info.columns or any(name in columns for name in info.columns) else (info.columns[0],)
    actual, expected = _FAMILY_COLUMNS[info.family]
    needed = (actual, expected) if info.needs_reference else (actual,)
    return tuple(name for name in needed if name not in columns)
