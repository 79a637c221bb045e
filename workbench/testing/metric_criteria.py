"""Conversion of metric classes to criteria of the engine, and `MetricPromptTemplateExamples`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from workbench.agents.worker.wire import describe
from workbench.metrics.judges.templated import format_template
from workbench.metrics.registry import find_nearest_metric, known_metrics
from workbench.model.criteria import (
    BASELINE_COLUMN,
    Criterion,
    EvalConfig,
    InvalidConfig,
    JudgeMetric,
    read_judge_metric,
)
from workbench.model.criteria import CustomMetric as CustomCriterion
from workbench.model.text import suggest_name
from workbench.testing.metric_classes import (
    PAIRWISE,
    CustomMetric,
    EvaluationError,
    Metric,
    PairwiseMetric,
    PointwiseMetric,
    Rouge,
    TrajectorySingleToolUse,
    named_metrics,
)

# Criteria of the engine, and the columns of their results.

SOURCE = "EvalTask"
"""The source of the criteria in messages."""

_SINGLE_TOOL = "trajectory_single_tool_use"
_RESERVED = frozenset({"latency", "failure"})
_ROUGE_TYPES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l", "rougeLsum": "rouge_l_sum"}

MetricKind = Literal["computed", "custom", "pointwise", "pairwise"]


@dataclass(frozen=True)
class TaskMetric:
    """A metric with its column name: `name/score`, and others by its kind. `result` is its name in the engine."""

    name: str
    kind: MetricKind
    result: str


@dataclass(frozen=True)
class Criteria:
    """The metrics of a task for the engine and the table. `functions` are the functions of custom metrics by name."""

    config: EvalConfig
    metrics: tuple[TaskMetric, ...]
    functions: Mapping[str, Callable[..., Any]]


@dataclass
class _Reading:
    criteria: list[Criterion] = field(default_factory=list)
    metrics: list[TaskMetric] = field(default_factory=list)
    custom: dict[str, CustomCriterion] = field(default_factory=dict)
    judges: dict[str, JudgeMetric] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def add(self, criterion: Criterion, kind: MetricKind, *, name: str = "") -> None:
        """Add a criterion; its columns may have another `name`. Raises EvaluationError for a duplicate name."""
        asked = TaskMetric(name or criterion.metric, kind, criterion.metric)
        for known in self.metrics:
            if asked.name == known.name:
                raise EvaluationError(f"metrics: found {asked.name!r} twice, expected metrics of different names")
            if asked.result == known.result:
                both = f"{known.name!r} and {asked.name!r}"
                raise EvaluationError(f"metrics: found {both}, which are both {asked.result}, expected one of them")
        self.criteria.append(criterion)
        self.metrics.append(asked)


def read_criteria(metrics: Sequence[Metric], *, autorater_config: Any, columns: Collection[str]) -> Criteria:
    """Convert metrics to criteria for a dataset with these columns. Raises EvaluationError."""
    if isinstance(metrics, str) or not isinstance(metrics, Sequence) or not metrics:
        found = "no metric" if metrics == [] else _describe_value(metrics)
        raise EvaluationError(f"metrics: found {found}, expected a list of metrics")
    reading = _Reading()
    tools = list(dict.fromkeys(metric.tool_name for metric in metrics if isinstance(metric, TrajectorySingleToolUse)))
    for metric in metrics:
        if isinstance(metric, TrajectorySingleToolUse):
            _add_tools(reading, tools)
        elif isinstance(metric, Rouge):
            _add_rouge(reading, metric)
        elif isinstance(metric, CustomMetric):
            _add_custom(reading, metric)
        elif isinstance(metric, PointwiseMetric | PairwiseMetric):
            _add_judge(reading, metric, autorater_config=autorater_config, columns=columns)
        elif isinstance(metric, str) and metric in named_metrics():
            _add_judge(reading, named_metrics()[metric], autorater_config=autorater_config, columns=columns)
        else:
            _add_known(reading, metric)
    config = EvalConfig(
        criteria=tuple(reading.criteria),
        custom_metrics=reading.custom,
        judge_metrics=reading.judges,
        source=SOURCE,
    )
    return Criteria(config, tuple(reading.metrics), reading.functions)


def _add_tools(reading: _Reading, tools: Sequence[str]) -> None:
    """Add one criterion for all tools. Of several tools, each has its own result, named by the tool."""
    if any(criterion.metric == _SINGLE_TOOL for criterion in reading.criteria):
        return
    for tool in tools:
        if not isinstance(tool, str) or not tool:
            raise EvaluationError(f"TrajectorySingleToolUse: found {tool!r} as tool_name, expected the name of a tool")
    options = {"tool_name": tools[0] if len(tools) == 1 else list(tools)}
    reading.criteria.append(Criterion(metric=_SINGLE_TOOL, options=options))
    names = [_SINGLE_TOOL] if len(tools) == 1 else [f"{_SINGLE_TOOL}({tool})" for tool in tools]
    reading.metrics.extend(TaskMetric(name, "computed", name) for name in names)


def _add_rouge(reading: _Reading, metric: Rouge) -> None:
    name = _ROUGE_TYPES.get(metric.rouge_type) if isinstance(metric.rouge_type, str) else None
    if name is None:
        expected = f"one of {', '.join(_ROUGE_TYPES)}"
        raise EvaluationError(f"Rouge: found {_describe_value(metric.rouge_type)} as rouge_type, expected {expected}")
    if metric.split_summaries and name == "rouge_l_sum":
        raise EvaluationError("Rouge: found split_summaries, expected texts with one sentence per line instead")
    reading.add(
        Criterion(metric=name, options={"stemmer": True} if metric.use_stemmer else {}), name="rouge", kind="computed"
    )


def _add_custom(reading: _Reading, metric: CustomMetric) -> None:
    function = metric.metric_function
    _check_name(metric.name)
    if not callable(function):
        raise EvaluationError(f"metrics: {metric.name}: found {_describe_value(function)}, expected a function f(row)")
    reading.add(Criterion(metric=metric.name), "custom")
    path = (
        f"{getattr(function, '__module__', None) or '?'}.{getattr(function, '__qualname__', type(function).__name__)}"
    )
    reading.custom[metric.name] = CustomCriterion(path=path)
    reading.functions[metric.name] = function


def _add_judge(
    reading: _Reading, metric: PointwiseMetric | PairwiseMetric, *, autorater_config: Any, columns: Collection[str]
) -> None:
    _check_name(metric.metric)
    rater = {**_read_rater(autorater_config), **_read_rater(metric.autorater_config)}
    judge = _build_judge(metric, columns, flip=rater.get("flip_enabled"))
    options = {"num_samples": rater.get("sampling_count"), "judge_model": rater.get("autorater_model")}
    given = {name: value for name, value in options.items() if value is not None}
    criterion = Criterion(metric=metric.metric, options={"judge_model_options": given} if given else {})
    reading.add(criterion, judge.kind)
    reading.judges[metric.metric] = judge


def _build_judge(
    metric: PointwiseMetric | PairwiseMetric, columns: Collection[str], *, flip: bool | None
) -> JudgeMetric:
    kind = "pairwise" if isinstance(metric, PairwiseMetric) else "pointwise"
    definition = _build_definition(metric, columns) | {"kind": kind, "system_instruction": metric.system_instruction}
    if isinstance(metric, PairwiseMetric):
        definition |= {"baseline": {"column": BASELINE_COLUMN}, "flip": flip}
    try:
        return read_judge_metric(metric.metric, definition)
    except InvalidConfig as error:
        raise EvaluationError(str(error)) from None


def format_prompt(metric: PointwiseMetric | PairwiseMetric) -> str:
    """Return the judge prompt of a metric, with `{column}` for the value of a column. Raises EvaluationError."""
    return format_template(_build_judge(metric, ("prompt",), flip=None))


def _build_definition(metric: PointwiseMetric | PairwiseMetric, columns: Collection[str]) -> dict[str, Any]:
    template = metric.metric_prompt_template
    if isinstance(template, str):
        return {"metric_prompt_template": template}
    variables = template.input_variables
    if variables is None:
        variables = ["prompt"] if "prompt" in columns else []
    return {
        "criteria": template.criteria,
        "rating_rubric": template.rating_rubric,
        "input_variables": list(variables),
        "instruction": template.instruction,
        "metric_definition": template.metric_definition,
        "evaluation_steps": template.evaluation_steps or None,
        "few_shot_examples": template.few_shot_examples or None,
    }


def _read_rater(config: Any) -> dict[str, Any]:
    """Read the fields of a config for judges. It may have any type with these fields."""
    fields = ("sampling_count", "flip_enabled", "autorater_model")
    values = {name: getattr(config, name, None) for name in fields}
    return {name: value for name, value in values.items() if value not in (None, "")}


def _add_known(reading: _Reading, metric: Any) -> None:
    if not isinstance(metric, str):
        kinds = "the name of a metric, TrajectorySingleToolUse, Rouge, CustomMetric, PointwiseMetric or PairwiseMetric"
        raise EvaluationError(f"metrics: found {describe(metric)}, expected {kinds}, imported from workbench.testing")
    if metric == _SINGLE_TOOL:
        raise EvaluationError(f"metrics: found {metric!r}, expected TrajectorySingleToolUse(tool_name=...)")
    if metric in _RESERVED:
        raise EvaluationError(f"metrics: found {metric!r}, which is always measured, expected other metrics")
    info = known_metrics().get(metric)
    if info is None:
        guess = find_nearest_metric(metric, also=named_metrics())
        expected = f"{guess!r} (did you mean that?)" if guess else "the name of a known metric"
        raise EvaluationError(f"metrics: found {metric!r}, expected {expected}")
    reading.add(Criterion(metric=metric), "pointwise" if "judge" in info.needs else "computed")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or name in _RESERVED:
        raise EvaluationError(f"metrics: found {name!r} as the name of a metric, expected another name")


def _describe_value(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"


# The named metrics as in the Vertex AI SDK: as objects, and as the text of the prompt.


def _make_namespace(kind: type[PointwiseMetric | PairwiseMetric]) -> SimpleNamespace:
    metrics = {name: metric for name, metric in named_metrics().items() if isinstance(metric, kind)}
    return SimpleNamespace(**{name.removeprefix(PAIRWISE).upper(): metric for name, metric in metrics.items()})


class MetricPromptTemplateExamples:
    """The model-based metrics that have names, such as `MetricPromptTemplateExamples.Pointwise.FLUENCY`.

    `Pairwise` has the same metrics as comparisons with the column `baseline_model_response`. The prompts are those of
    the workbench, so scores may differ from those of the Vertex AI SDK.
    """

    Pointwise = _make_namespace(PointwiseMetric)
    Pairwise = _make_namespace(PairwiseMetric)

    @classmethod
    def list_example_metric_names(cls) -> list[str]:
        """Return the names. Each can be used in `metrics` of a task."""
        return list(named_metrics())

    @classmethod
    def get_prompt_template(cls, metric_name: str) -> str:
        """Return the judge prompt of a metric, with `{column}` for the value of a column.

        You can change it, and pass it to a PointwiseMetric or PairwiseMetric. Raises EvaluationError for another name.
        """
        metric = named_metrics().get(metric_name)
        if metric is None:
            names = cls.list_example_metric_names()
            expected = f"one of {', '.join(names)}{suggest_name(str(metric_name), names)}"
            raise EvaluationError(f"metric_name: found {metric_name!r}, expected {expected}")
        return format_prompt(metric)
