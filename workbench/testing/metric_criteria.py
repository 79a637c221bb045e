"""Conversion of the metrics of a task to criteria of the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.agents.worker.wire import describe
from workbench.metrics.judges.judge_calls import SAMPLES
from workbench.metrics.registry import find_nearest_metric, known_metrics
from workbench.model.criteria import Criterion, EvalConfig, JudgeMetric
from workbench.model.criteria import CustomMetricFunction as CustomCriterion
from workbench.model.text import suggest_name
from workbench.testing.metrics import (
    CustomMetric,
    EvaluationError,
    Metric,
    PairwiseMetric,
    PointwiseMetric,
    PromptTemplate,
    Rouge,
    TrajectorySingleToolUse,
    build_judge,
    format_prompt,
    named_metrics,
)
from workbench.testing.utils import Dataset, parse_pairwise_rubric_result, parse_pointwise_rubric_result

# Criteria of the engine, and the columns of their results.

SOURCE = "EvalTask"
"""The source of the criteria in messages."""

_SINGLE_TOOL = "trajectory_single_tool_use"
_RESERVED = frozenset({"latency", "failure"})
_ROUGE_TYPES = {
    "rouge1": ("rouge_1", 0),
    **{f"rouge{words}": ("rouge_2", words) for words in range(2, 10)},
    "rougeL": ("rouge_l", 0),
    "rougeLsum": ("rouge_l_sum", 0),
}
_DEFAULT_ROUGE = "rouge1"  # what the newer client of the SDK sends for "rouge"

MetricKind = Literal["computed", "custom", "parsed", "pointwise", "pairwise"]
"""`parsed`: a judge whose replies the caller's own function reads."""


@dataclass(frozen=True)
class TaskMetric:
    """A metric with its column name: `name/score`, and others by its kind. `result` is its name in the engine."""

    name: str
    kind: MetricKind
    result: str


@dataclass(frozen=True, kw_only=True)
class ParsedJudge:
    """A judge model whose replies are read by `parse`, a function of the caller, or returned as text if it is None.

    `model` is None for the judge of the settings. `questions` is the column with the questions; a reply must answer all
    of them. A reply that was cut off is read only if `may_be_cut`.
    """

    name: str
    template: PromptTemplate
    system: str | None
    model: str | None
    config: Mapping[str, Any]
    samples: int
    parse: Callable[[list[str]], dict[str, Any]] | None
    questions: str | None = None
    may_be_cut: bool = True


@dataclass(frozen=True)
class TaskCriteria:
    """The metrics of a task for the engine and the table.

    `functions` are the functions of custom metrics by name, `parsed` the judges whose replies the caller reads.
    """

    config: EvalConfig
    metrics: tuple[TaskMetric, ...]
    functions: Mapping[str, Callable[..., Any]]
    parsed: Mapping[str, ParsedJudge]


@dataclass
class _Reading:
    criteria: list[Criterion] = field(default_factory=list)
    metrics: list[TaskMetric] = field(default_factory=list)
    custom: dict[str, CustomCriterion] = field(default_factory=dict)
    judges: dict[str, JudgeMetric] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    parsed: dict[str, ParsedJudge] = field(default_factory=dict)

    def add(self, criterion: Criterion, kind: MetricKind, *, name: str = "") -> None:
        """Add a criterion; its columns may have another `name`. Raises EvaluationError for a duplicate name."""
        metric = TaskMetric(name or criterion.metric, kind, criterion.metric)
        for other in self.metrics:
            if metric.name == other.name:
                raise EvaluationError(f"metrics: found {metric.name!r} twice, expected metrics of different names")
            if metric.result == other.result:
                names = f"{other.name!r} and {metric.name!r}"
                raise EvaluationError(f"metrics: found {names}, which are both {metric.result}, expected one of them")
        self.criteria.append(criterion)
        self.metrics.append(metric)


def read_criteria(metrics: Sequence[Metric], *, autorater_config: Any, columns: Collection[str]) -> TaskCriteria:
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
        elif metric == "rouge":
            _add_rouge(reading, Rouge(rouge_type=_DEFAULT_ROUGE))
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
    return TaskCriteria(config, tuple(reading.metrics), reading.functions, reading.parsed)


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
    name_and_words = _ROUGE_TYPES.get(metric.rouge_type) if isinstance(metric.rouge_type, str) else None
    if name_and_words is None:
        expected = f"one of {', '.join(_ROUGE_TYPES)}"
        raise EvaluationError(f"Rouge: found {_describe_value(metric.rouge_type)} as rouge_type, expected {expected}")
    name, words = name_and_words
    if metric.split_summaries and name == "rouge_l_sum":
        raise EvaluationError("Rouge: found split_summaries, expected texts with one sentence per line instead")
    options: dict[str, Any] = {"stemmer": True} if metric.use_stemmer else {}
    if words > 2:
        options["words"] = words
    reading.add(Criterion(metric=name, options=options), name=metric.metric_name, kind="computed")


def _add_custom(reading: _Reading, metric: CustomMetric) -> None:
    function = metric.metric_function
    _check_name(metric.name)
    if not callable(function):
        raise EvaluationError(f"metrics: {metric.name}: found {_describe_value(function)}, expected a function f(row)")
    reading.add(Criterion(metric=metric.name), "custom")
    reading.custom[metric.name] = CustomCriterion(path=_get_path(function))
    reading.functions[metric.name] = function


def _get_path(function: Any) -> str:
    """Return the dotted path of a function for messages."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def _add_judge(
    reading: _Reading, metric: PointwiseMetric | PairwiseMetric, *, autorater_config: Any, columns: Collection[str]
) -> None:
    _check_name(metric.metric)
    rater = {**_read_rater(autorater_config), **_read_rater(metric.autorater_config)}
    if metric.custom_output_config is not None and metric.custom_output_config.return_raw_output:
        _add_parsed_judge(reading, metric, rater, columns=columns)
        return
    flip = rater.get("flip_enabled")
    if flip is None and rater.get("sampling_count", 0) % 2:
        flip = False  # half of the samples cannot be swapped
    judge = build_judge(metric, columns, flip=flip)
    options = {
        "num_samples": rater.get("sampling_count"),
        "judge_model": rater.get("autorater_model"),
        "judge_model_config": rater.get("generation_config"),
    }
    judge_options = {name: value for name, value in options.items() if value is not None}
    criterion = Criterion(metric=metric.metric, options={"judge_model_options": judge_options} if judge_options else {})
    reading.add(criterion, judge.kind)
    reading.judges[metric.metric] = judge


def _add_parsed_judge(
    reading: _Reading,
    metric: PointwiseMetric | PairwiseMetric,
    rater: Mapping[str, Any],
    *,
    columns: Collection[str],
) -> None:
    """Add a judge whose replies are not ratings but text: for the engine it is a function of the caller."""
    name = metric.metric
    prompt = metric.metric_prompt_template
    template = PromptTemplate(prompt if isinstance(prompt, str | PromptTemplate) else format_prompt(metric))
    if rater.get("flip_enabled"):
        raise EvaluationError(
            f"{name}: found flip_enabled with return_raw_output, expected one of them: parsing_fn cannot know which "
            "replies swap the two responses"
        )
    config = metric.custom_output_config
    parse = None if config is None else config.parsing_fn
    if parse is not None and not callable(parse):
        raise EvaluationError(f"{name}: found {_describe_value(parse)} as parsing_fn, expected a function f(replies)")
    unknown_variables = sorted(template.variables - {*columns}) if columns else []
    if unknown_variables:
        expected = f"a column of the dataset{suggest_name(unknown_variables[0], columns)}"
        raise EvaluationError(f"{name}: found the variable {unknown_variables[0]!r}, expected {expected}")
    judge = ParsedJudge(
        name=name,
        template=template,
        system=metric.system_instruction,
        model=rater.get("autorater_model"),
        config=rater.get("generation_config") or {},
        samples=rater.get("sampling_count") or SAMPLES,
        parse=parse,
        questions=_find_questions(name, template) if parse is parse_pointwise_rubric_result else None,
        may_be_cut=parse not in (parse_pointwise_rubric_result, parse_pairwise_rubric_result),
    )
    reading.add(Criterion(metric=name), "parsed")
    reading.custom[name] = CustomCriterion(path=_get_path(judge.parse or judge))
    reading.parsed[name] = judge


def _find_questions(name: str, template: PromptTemplate) -> str | None:
    """Return the column of the questions in the template of a judge that answers rubrics."""
    columns = (Dataset.RUBRICS_COLUMN, f"{Dataset.RUBRICS_COLUMN}_{name}")
    return next((column for column in columns if column in template.variables), None)


def _read_rater(config: Any) -> dict[str, Any]:
    """Read the fields of a config for judges. It may have any type with these fields."""
    fields = ("sampling_count", "flip_enabled", "autorater_model", "generation_config")
    values = {name: getattr(config, name, None) for name in fields}
    if values["generation_config"] is not None:
        values["generation_config"] = read_generation_config(values["generation_config"]) or None
    return {name: value for name, value in values.items() if value not in (None, "")}


def read_generation_config(config: Any) -> dict[str, Any]:
    """Return the settings of a generation configuration: a mapping, or an object of a library of Google.

    Raises EvaluationError.
    """
    if hasattr(config, "model_dump"):
        values: Any = config.model_dump(mode="json", exclude_none=True)
    elif hasattr(config, "to_dict"):
        values = config.to_dict()
    else:
        values = config
    if not isinstance(values, Mapping):
        expected = "a mapping such as {'temperature': 0}"
        raise EvaluationError(f"generation config: found {_describe_value(config)}, expected {expected}")
    return dict(values)


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
        guess = find_nearest_metric(metric, other_names=named_metrics())
        expected = f"{guess!r} (did you mean that?)" if guess else "the name of a known metric"
        raise EvaluationError(f"metrics: found {metric!r}, expected {expected}")
    reading.add(Criterion(metric=metric), "pointwise" if "judge" in info.needs else "computed")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or name in _RESERVED:
        raise EvaluationError(f"metrics: found {name!r} as the name of a metric, expected another name")


def _describe_value(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"
