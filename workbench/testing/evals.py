"""The newer API of the SDK: `Client().evals` with `run_inference`, `evaluate` and `generate_rubrics`, and its types.

`workbench.testing.types` is a name of this module. Rows are answered and judged as by `EvalTask`, in the project around
the working directory. Requests that need the service of Vertex AI are refused with the reason.
"""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, NoReturn

from workbench.agents.worker.wire import describe
from workbench.model.text import one_line, suggest_name
from workbench.store.errors import StoreError
from workbench.testing.callables import ModelAgent, make_agent, make_model_agent
from workbench.testing.eval_task import EvalTask, RubricBasedMetric, make_author, make_rubric_metric
from workbench.testing.evaluation import NO_LIMITS, infer, write_rubrics
from workbench.testing.metric_criteria import TaskMetric, read_generation_config
from workbench.testing.metrics import (
    AutoraterConfig,
    CustomMetric,
    CustomOutputConfig,
    EvalResult,
    EvaluationError,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
    PromptTemplate,
    RubricGenerationConfig,
    named_metrics,
)
from workbench.testing.result_rows import (
    FAILURE,
    RESPONSE,
    RUBRICS,
    TRAJECTORY,
    USE_EVAL_SETS,
    AggregatedMetricResult,
    EvalCase,
    EvalCaseMetricResult,
    EvalCaseResult,
    EvaluationDataset,
    EvaluationResult,
    ResponseCandidate,
    ResponseCandidateResult,
    Rows,
    WinRateStats,
    build_from_dict,
    check_output,
    read_rows,
    write_result,
    write_rows,
)

GROUPS = "rubric_groups"
"""The column of the rubrics of each prompt, by the name of their group."""

GROUPS_FAILURE = "rubric_groups_failure"
"""The column of the reasons why rubrics could not be written, by the name of their group."""

FAILURE_REASON = "failure_reason"
"""The column of the reasons why rows have no response."""

_PROMPT_WIDTH = 80  # characters of a prompt in a message
_VERBOSITY = "verbosity"
"""The metric whose best rating is 0: negative ratings are too short, positive ones too long."""

_MOST_SAMPLES = 32  # replies of a judge for each row, as in the SDK

# Metrics.


@dataclass(kw_only=True)
class Metric:
    """A metric by its name, a function `f(row)`, or a judge with a `prompt_template`.

    `custom_function` returns a number, or a dict with `score` and perhaps `explanation`. `remote_custom_function` is
    source code that defines `evaluate(instance)`. It runs in this process, with the texts of the row as contents of the
    Gemini API, as in the service. `parse_and_reduce_fn` reads the replies of a judge.
    `aggregate_summary_fn` returns values for the summary from the results of all rows.
    """

    name: str | None = None
    custom_function: Callable[..., Any] | str | None = None
    prompt_template: Any = None
    judge_model_system_instruction: str | None = None
    return_raw_output: bool | None = None
    parse_and_reduce_fn: Callable[..., Any] | None = None
    aggregate_summary_fn: Callable[..., Any] | None = None
    remote_custom_function: str | None = None
    judge_model: str | None = None
    judge_model_generation_config: Any = None
    judge_model_sampling_count: int | None = None
    rubric_group_name: str | None = None
    metric_spec_parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Names are lower case, as in the SDK. Raises EvaluationError for a metric without a name."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise EvaluationError(f"{type(self).__name__}: found {self.name!r} as name, expected a text")
        self.name = self.name.lower()


@dataclass(kw_only=True)
class LLMMetric(Metric):
    """A judge with a `prompt_template`: a text with `{column}`, or a `MetricPromptBuilder`."""

    def __post_init__(self) -> None:
        """Raises EvaluationError for a metric without a template, or with a count outside the limits of the SDK."""
        super().__post_init__()
        if self.prompt_template is None or not str(self.prompt_template).strip():
            raise EvaluationError(f"LLMMetric {self.name}: found no prompt_template, expected one")
        count = self.judge_model_sampling_count
        if count is not None and not 1 <= count <= _MOST_SAMPLES:
            expected = f"expected 1 to {_MOST_SAMPLES}"
            raise EvaluationError(f"LLMMetric {self.name}: found {count} as judge_model_sampling_count, {expected}")


@dataclass(kw_only=True)
class CodeExecutionMetric(Metric):
    """A function as source code, which defines `evaluate(instance)` with the texts of the row by name."""


@dataclass(kw_only=True)
class MetricPromptBuilder:
    """The parts of a judge prompt, or its `text`. `rating_scores` explains each rating."""

    criteria: Mapping[str, str] = field(default_factory=dict)
    rating_scores: Mapping[str, str] = field(default_factory=dict)
    instruction: str | None = None
    metric_definition: str | None = None
    evaluation_steps: Mapping[str, str] | None = None
    few_shot_examples: Sequence[str] | None = None
    text: str | None = None

    def __str__(self) -> str:
        return self.text or self.to_template().prompt_data

    def to_template(self) -> PointwiseMetricPromptTemplate:
        return PointwiseMetricPromptTemplate(
            criteria=self.criteria,
            rating_rubric=self.rating_scores,
            instruction=self.instruction,
            metric_definition=self.metric_definition,
            evaluation_steps=self.evaluation_steps,
            few_shot_examples=self.few_shot_examples,
        )


_BY_RUBRICS = frozenset({"general_quality", "instruction_following", "text_quality"})
_BY_ENGINE = {"final_response_match": "final_response_match_v2", "grounding": "groundedness"}
_BY_EVAL_SETS = frozenset(
    {
        "final_response_quality",
        "final_response_reference_free",
        "hallucination",
        "multi_turn_general_quality",
        "multi_turn_text_quality",
        "multi_turn_task_success",
        "multi_turn_tool_use_quality",
        "multi_turn_trajectory_quality",
        "tool_use_quality",
    }
)
_OF_IMAGES = frozenset({"gecko_text2image", "gecko_text2video"})
_PREDEFINED = _BY_RUBRICS | _BY_ENGINE.keys() | _BY_EVAL_SETS | _OF_IMAGES
_DEFAULT_RUBRICS = "general_quality"


@dataclass(frozen=True)
class PredefinedMetric:
    """A metric with a name of the SDK. Call it to change its options."""

    name: str
    rubric_group_name: str | None = None

    def __call__(self, *, version: str | None = None, rubric_group_name: str | None = None) -> PredefinedMetric:
        """Return the metric with other options. There is only one version of each here."""
        del version
        return replace(self, rubric_group_name=rubric_group_name)


class _PredefinedMetrics:
    """The metrics with a name of the SDK, such as `RubricMetric.GENERAL_QUALITY`."""

    def __getattr__(self, name: str) -> PredefinedMetric:
        metric_name = name.lower()
        if metric_name == "groundedness":
            metric_name = "grounding"
        if name.startswith("_"):
            raise AttributeError(name)
        if metric_name in _BY_EVAL_SETS:
            raise EvaluationError(
                f"RubricMetric.{name}: found a metric of agents, expected one of rows; {USE_EVAL_SETS}"
            )
        if metric_name in _OF_IMAGES:
            raise EvaluationError(
                f"RubricMetric.{name}: found a metric of images and videos, expected one of texts: workbench sends "
                "only text to models"
            )
        if metric_name not in _BY_RUBRICS and metric_name not in _BY_ENGINE and metric_name not in named_metrics():
            names = [*_BY_RUBRICS, *_BY_ENGINE, *named_metrics()]
            raise EvaluationError(
                f"RubricMetric: found {name}, expected a known metric{suggest_name(metric_name, names)}"
            )
        return PredefinedMetric(metric_name)


RubricMetric = PrebuiltMetric = _PredefinedMetrics()


# The client.

_SCHEMAS = ("FLATTEN", "GEMINI", "OPENAI")
"""What rows may be: columns, or requests to a model and its replies. Rows are recognised without their name."""

_OF_THE_SERVICE = ("batch_", "create_", "delete_", "evaluate_", "generate_", "get_", "import_", "list_", "update_")
"""How the names of methods begin that only the service has."""


class Client:
    """A client with `evals`. Its arguments are accepted and not used: models are asked with the keys and the project in
    the environment."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        credentials: Any = None,
        project: str | None = None,
        location: str | None = None,
        debug_config: Any = None,
        http_options: Any = None,
    ) -> None:
        del api_key, credentials, project, location, debug_config, http_options
        self.evals = Evals()


class Evals:
    """Evaluations in the project around the working directory."""

    def __getattr__(self, name: str) -> NoReturn:
        """Raises EvaluationError for methods that only the service has."""
        if name.startswith(_OF_THE_SERVICE):
            raise EvaluationError(
                f"evals.{name}: found a job of the Vertex AI service, expected run_inference, evaluate or "
                "generate_rubrics; runs are in the history of the project (`workbench history`)"
            )
        raise AttributeError(f"evals has no {name!r}")

    def run_inference(
        self,
        *,
        src: Any,
        model: Any = None,
        agent: Any = None,
        location: str | None = None,
        config: Any = None,
    ) -> EvaluationDataset:
        """Let a model or an agent answer the prompts of `src`: a frame, a file, an address, or an `EvaluationDataset`.

        `model` is a name, a function or an object, `agent` an agent as for `EvalTask.evaluate(runnable=)`. `config`
        has `prompt_template`, `generate_content_config` and `dest`, a folder for the rows. If rows fail, a warning
        gives the reasons, and the columns `failure` (1 or 0) and `failure_reason` are added: `evaluate` gives such a
        row no score. Raises EvaluationError.
        """
        del location
        options = _read_options(config, ("prompt_template", "generate_content_config", "dest"))
        rows = _read_rows(src)
        if (template := options.get("prompt_template")) is not None:
            rows = rows.with_prompts(PromptTemplate(template))
        respondent = _make_respondent(model, agent)
        if (generation := options.get("generate_content_config")) is not None:
            if not isinstance(respondent, ModelAgent):
                raise EvaluationError("generate_content_config: found it without the name of a model, expected one")
            respondent = replace(respondent, config=read_generation_config(generation))
        result = infer(rows, respondent, limits=NO_LIMITS)
        columns = {*rows.columns, "prompt", RESPONSE, TRAJECTORY} - {FAILURE, FAILURE_REASON}
        answer_columns = [name for name in result.rows[0] if name in columns]
        answers = [{name: row[name] for name in answer_columns} for row in result.rows]
        reasons = {each.row: each.reason for each in result.problems if each[1:3] == (RESPONSE, "ERROR")}
        if reasons:
            answers = [
                {**row, FAILURE: int(number in reasons), FAILURE_REASON: reasons.get(number)}
                for number, row in enumerate(answers, start=1)
            ]
        if (folder := options.get("dest")) is not None:
            write_rows(answers, str(folder), "inference_results.jsonl")
        return _make_dataset(answers, name=respondent.name)

    def generate_rubrics(
        self,
        *,
        src: Any,
        rubric_group_name: str,
        prompt_template: str | None = None,
        generator_model_config: Any = None,
        rubric_content_type: Any = None,
        rubric_type_ontology: Any = None,
        predefined_spec_name: Any = None,
        metric_spec_parameters: Any = None,
        metric: Any = None,
        config: Any = None,
    ) -> EvaluationDataset:
        """Let a model write questions about each prompt, as the group of this name in the column `rubric_groups`.

        `predefined_spec_name` or `metric` is a metric with rubrics, by default GENERAL_QUALITY; `prompt_template`
        replaces its prompt. `generator_model_config` may name the model. Raises EvaluationError.
        """
        del rubric_content_type, rubric_type_ontology, metric_spec_parameters, config
        spec = predefined_spec_name or metric or _DEFAULT_RUBRICS
        name = _get_rubric_name(spec)
        rater = generator_model_config or {}
        model = rater.get("autorater_model") if isinstance(rater, Mapping) else getattr(rater, "autorater_model", None)
        generation = make_rubric_metric(name, kind="pointwise").generation_config
        author = RubricGenerationConfig(prompt_template or generation.prompt_template, model=model)
        rows = _read_rows(src)
        rubric_columns, reasons = write_rubrics(rows, make_author(author))
        records = []
        for number, (row, rubrics) in enumerate(zip(rows.rows, rubric_columns[RUBRICS], strict=True), start=1):
            record = {**row.columns, GROUPS: {**_get_group(row.columns, GROUPS), rubric_group_name: rubrics}}
            if reasons:
                failures = _get_group(row.columns, GROUPS_FAILURE)
                record[GROUPS_FAILURE] = {**failures, rubric_group_name: reasons.get(number)}
            records.append(record)
        return _make_dataset(records, name=None)

    def evaluate(
        self,
        *,
        dataset: Any,
        metrics: Sequence[Any] | None = None,
        agent: str | None = None,
        location: str | None = None,
        config: Any = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Judge the responses of one dataset, or of several that answer the same prompts, which are compared.

        `metrics` are `Metric` objects, members of `RubricMetric`, and metrics of `EvalTask`; default GENERAL_QUALITY.
        Each dataset is a run in the history. `config` may have `dest`, a folder for the tables. Raises EvaluationError.
        """
        del location
        if agent is not None or kwargs:
            found = ", ".join(["agent"] * (agent is not None) + list(kwargs))
            raise EvaluationError(f"evaluate: found {found}, expected responses in the dataset; {USE_EVAL_SETS}")
        options = _read_options(config, ("dest", "evaluation_service_qps", "dataset_schema", "http_options"))
        schema = str(options.get("dataset_schema") or "FLATTEN").rpartition(".")[2].upper()
        if schema not in _SCHEMAS:
            raise EvaluationError(f"dataset_schema: found {schema!r}, expected one of {', '.join(_SCHEMAS)}")
        is_comparison = isinstance(dataset, list) and not any(_is_row(each) for each in dataset)
        folder = str(options.get("dest", ""))
        if folder:
            check_output(folder, file_name=None)
        datasets = [_to_dataset(each) for each in (dataset if is_comparison else [dataset])]
        tables = [[dict(row.columns) for row in _read_rows(each).rows] if each.rows else [] for each in datasets]
        if not tables or len({len(rows) for rows in tables}) != 1:
            counts = ", ".join(str(len(rows)) for rows in tables) or "no dataset"
            raise EvaluationError(f"dataset: found {counts} rows, expected datasets with the same number of rows")
        names = _name_candidates(datasets)
        _check_prompts(tables, names)
        resolved = [
            _resolve(metric, tables) for metric in ([RubricMetric.GENERAL_QUALITY] if metrics is None else metrics)
        ]
        missing_reasons = {place: reason for each in resolved for place, reason in each.missing_reasons.items()}
        tasks = [
            EvalTask(
                dataset=rows,
                metrics=[each.metric for each in resolved],
                experiment=name,
                missing={**missing_reasons, **_find_failures(rows)},
            )
            for rows, name in zip(tables, names, strict=True)
        ]
        results: list[EvalResult] = []
        for number, task in enumerate(tasks, start=1):
            results.append(task.evaluate(evaluation_service_qps=options.get("evaluation_service_qps")))
            if folder:
                _write_candidate(results[-1], folder, number=number)
        return _combine(results, tasks[0].task_metrics, resolved, datasets, names)


def _write_candidate(result: EvalResult, folder: str, *, number: int) -> None:
    """Write the table and the numbers of a candidate. A failure is only a warning."""
    try:
        write_result(result, folder, file_name=f"{number}.jsonl")
    except StoreError as error:
        warnings.warn(one_line(f"the result was not written: {error}"), stacklevel=3)


def _get_group(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    groups = row.get(column)
    return dict(groups) if isinstance(groups, Mapping) else {}


def _check_prompts(tables: Sequence[Sequence[Mapping[str, Any]]], names: Sequence[str]) -> None:
    """Check that datasets have the same prompts in the same order. Raises EvaluationError."""
    for rows, name in zip(tables[1:], names[1:], strict=True):
        for number, (first, other) in enumerate(zip(tables[0], rows, strict=True), start=1):
            first_prompt, other_prompt = first.get("prompt"), other.get("prompt")
            if first_prompt is not None and other_prompt is not None and first_prompt != other_prompt:
                other_prompt, first_prompt = (
                    one_line(repr(prompt), width=_PROMPT_WIDTH) for prompt in (other_prompt, first_prompt)
                )
                raise EvaluationError(
                    f"dataset: row {number}: found the prompt {other_prompt} in {name}, expected {first_prompt} as in "
                    f"{names[0]}: candidates are compared row by row"
                )


def _find_failures(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], str]:
    """Return why rows have no response, as `run_inference` noted it."""
    reasons = ((number, row.get(FAILURE_REASON), row) for number, row in enumerate(rows, start=1))
    return {(number, RESPONSE): str(why) for number, why, row in reasons if why and row.get(RESPONSE) is None}


def _make_respondent(model: Any, agent: Any) -> Any:
    if (model is None) == (agent is None):
        raise EvaluationError(f"found {'neither' if model is None else 'both'} model and agent, expected one of them")
    if isinstance(agent, str):
        raise EvaluationError(
            f"agent: found {agent!r}, expected an agent in this process; for one on Agent Engine add a target of kind "
            "agent_engine, see docs/agents/agent-engine.md"
        )
    return make_model_agent(model) if agent is None else make_agent(agent)


def _read_options(config: Any, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the options of a config: a mapping, or an object of the SDK. Raises EvaluationError for unknown ones."""
    values = config if isinstance(config, Mapping) else vars(config) if hasattr(config, "__dict__") else {}
    options = {name: value for name, value in values.items() if value is not None and not name.startswith("_")}
    for name in options:
        if name not in allowed:
            raise EvaluationError(f"config: found {name!r}, expected one of {', '.join(allowed)}")
    return options


def _read_rows(src: Any) -> Rows:
    return read_rows(src.rows if isinstance(src, EvaluationDataset) else src, {})


def _is_row(value: Any) -> bool:
    """True for a row as a dict; False for a dataset, also as a dict."""
    return isinstance(value, Mapping) and not {"eval_cases", "eval_dataset_df"} & value.keys()


def _to_dataset(value: Any) -> EvaluationDataset:
    if isinstance(value, EvaluationDataset):
        return value
    if isinstance(value, Mapping) and not _is_row(value):
        return build_from_dict(EvaluationDataset, value)
    return _make_dataset([row.columns for row in read_rows(value, {}).rows], name=None)


def _make_dataset(records: Sequence[Mapping[str, Any]], *, name: str | None) -> EvaluationDataset:
    """Make a dataset of rows: a frame if pandas is installed, else cases."""
    try:
        import pandas as pd
    except ImportError:
        cases = [
            EvalCase(
                responses=[ResponseCandidate(response=row[RESPONSE])] if RESPONSE in row else None,
                **{key: value for key, value in row.items() if key != RESPONSE},
            )
            for row in records
        ]
        return EvaluationDataset(eval_cases=cases, candidate_name=name)
    return EvaluationDataset(eval_dataset_df=pd.DataFrame(records, dtype=object), candidate_name=name)


def _name_candidates(datasets: Sequence[EvaluationDataset]) -> list[str]:
    """Return a different name for each dataset."""
    names: list[str] = []
    for number, dataset in enumerate(datasets, start=1):
        name = dataset.candidate_name or f"candidate_{number}"
        names.append(name if name not in names else f"{name} #{number}")
    return names


# Metrics as those of a task.


@dataclass(frozen=True)
class _ResolvedMetric:
    """A metric of a task, the function that summarises its results, and why inputs are missing, by row and column."""

    metric: Any
    name: str
    summarise: Callable[..., Any] | None = None
    missing_reasons: Mapping[tuple[int, str], str] = field(default_factory=dict)


def _resolve(metric: Any, tables: Sequence[Sequence[dict[str, Any]]]) -> _ResolvedMetric:
    """Return the metric of a task for one of the newer API. Writes rubrics into rows that have none."""
    if isinstance(metric, Mapping):
        metric = build_from_dict(Metric, metric)
    if isinstance(metric, PredefinedMetric):
        if metric.name in _BY_RUBRICS:
            return _resolve_rubrics(metric.name, metric.rubric_group_name, tables)
        return _ResolvedMetric(_BY_ENGINE.get(metric.name, metric.name), _BY_ENGINE.get(metric.name, metric.name))
    if isinstance(metric, CustomMetric):
        return _ResolvedMetric(replace(metric, metric_function=_skip_unanswered(metric.metric_function)), metric.name)
    if not isinstance(metric, Metric):
        _check_bare_name(metric)
        return _ResolvedMetric(metric, str(metric))
    name = str(metric.name)
    if metric.remote_custom_function is not None:
        resolved: Any = _make_custom(name, _compile(name, metric.remote_custom_function, _make_instance))
    elif isinstance(metric.custom_function, str):
        resolved = _make_custom(name, _compile(name, metric.custom_function, dict))
    elif metric.custom_function is not None:
        resolved = _make_custom(name, metric.custom_function)
    elif metric.prompt_template is not None:
        resolved = _make_judge(metric, name)
    elif (known := re.sub(r"_v\d+$", "", name)) in _PREDEFINED:
        predefined = getattr(RubricMetric, known.upper())(rubric_group_name=metric.rubric_group_name)
        return replace(_resolve(predefined, tables), summarise=metric.aggregate_summary_fn)
    else:
        resolved = name
    return _ResolvedMetric(resolved, str(resolved) if isinstance(resolved, str) else name, metric.aggregate_summary_fn)


def _check_bare_name(name: Any) -> None:
    """Refuse a name that only a member of `RubricMetric` can have. Raises EvaluationError."""
    if isinstance(name, str) and name in _BY_RUBRICS | _BY_ENGINE.keys() and name not in named_metrics():
        raise EvaluationError(f"metrics: found {name!r}, expected types.RubricMetric.{name.upper()}")


def _make_custom(name: str, function: Callable[..., Any]) -> CustomMetric:
    return CustomMetric(name, _skip_unanswered(function))


def _skip_unanswered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is not called for rows that failed or have no response: they have no score."""
    if not callable(function):
        return function
    no_score = {"score": None, "explanation": f"the row has no {RESPONSE}"}
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_later(row: dict[str, Any]) -> Any:
            return no_score if _is_unanswered(row) else await function(row)

        return call_later

    @wraps(function)
    def call(row: dict[str, Any]) -> Any:
        return no_score if _is_unanswered(row) else function(row)

    return call


def _is_unanswered(row: Mapping[str, Any]) -> bool:
    return row.get(RESPONSE) is None and (bool(row.get(FAILURE)) or not row.get(TRAJECTORY))


def _make_judge(metric: Metric, name: str) -> PointwiseMetric:
    template = metric.prompt_template
    if isinstance(template, MetricPromptBuilder):
        template = template.text or template.to_template()
    parse = metric.parse_and_reduce_fn
    output = None
    if parse is not None or metric.return_raw_output:
        output = CustomOutputConfig(return_raw_output=True, parsing_fn=parse)
    return PointwiseMetric(
        metric=name,
        metric_prompt_template=template,
        system_instruction=metric.judge_model_system_instruction,
        autorater_config=AutoraterConfig(
            sampling_count=metric.judge_model_sampling_count,
            autorater_model=metric.judge_model,
            generation_config=metric.judge_model_generation_config,
        ),
        custom_output_config=output,
    )


def _get_rubric_name(spec: Any) -> str:
    name = str(getattr(spec, "name", spec)).lower()
    if name not in _BY_RUBRICS:
        expected = f"one of {', '.join(sorted(_BY_RUBRICS))}"
        raise EvaluationError(f"generate_rubrics: found {name!r}, expected {expected}")
    return name


def _resolve_rubrics(name: str, group: str | None, tables: Sequence[Sequence[dict[str, Any]]]) -> _ResolvedMetric:
    """Return the judge that answers the rubrics of a group, or else rubrics that are written now for all candidates."""
    column = f"{RUBRICS}_{name}"
    rubric_metric: RubricBasedMetric = make_rubric_metric(name, kind="pointwise", metric=name)
    first_table = tables[0]
    if group is not None:
        rubrics = [_get_group(row, GROUPS).get(group) for row in first_table]
        failures = [_get_group(row, GROUPS_FAILURE).get(group) for row in first_table]
        reasons = {number: str(reason) for number, reason in enumerate(failures, start=1) if reason}
        if not any(rubrics) and not reasons:
            raise EvaluationError(f"{name}: found no rubrics of the group {group!r}, expected some in {GROUPS}")
    else:
        prompts = read_rows([{"prompt": row.get("prompt")} for row in first_table], {})
        rubric_columns, reasons = write_rubrics(prompts, make_author(rubric_metric.generation_config))
        rubrics = rubric_columns[RUBRICS]
    for rows in tables:
        for row, questions in zip(rows, rubrics, strict=True):
            row[column] = questions
    critique = rubric_metric.critique_metric
    template = str(critique.metric_prompt_template).replace(f"{{{RUBRICS}}}", f"{{{column}}}")
    missing = {(number, column): reason for number, reason in reasons.items()}
    return _ResolvedMetric(replace(critique, metric_prompt_template=template), name, missing_reasons=missing)


def _compile(
    name: str, code: str, make_instance: Callable[[Mapping[str, Any]], Any]
) -> Callable[[dict[str, Any]], Any]:
    """Return the function `evaluate` of source code of the caller. Raises EvaluationError."""
    names: dict[str, Any] = {}
    try:
        exec(compile(code, f"<metric {name}>", "exec"), names)
    except (Exception, SystemExit) as error:  # code of the caller
        raise EvaluationError(f"{name}: found code that raises {type(error).__name__}: {error}") from None
    function = names.get("evaluate")
    if not callable(function):
        raise EvaluationError(f"{name}: found code without evaluate, expected a function evaluate(instance)")
    return lambda row: function(make_instance(row))


def _make_instance(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in the form of the service: each text as a content of the Gemini API."""
    return {name: _make_content(value) for name, value in row.items() if value is not None}


def _make_content(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return {"text": text, "contents": {"gemini_contents": [{"parts": [{"text": text}]}]}}


# Results of a task as those of the newer API.


def _combine(
    results: Sequence[EvalResult],
    metrics: Sequence[TaskMetric],
    resolved: Sequence[_ResolvedMetric],
    datasets: list[EvaluationDataset],
    names: Sequence[str],
) -> EvaluationResult:
    cells = [_read_results(result, [each.name for each in metrics]) for result in results]
    summarise = {each.name: each.summarise for each in resolved}
    cases = [
        EvalCaseResult(
            eval_case_index=number,
            response_candidate_results=[
                ResponseCandidateResult(response_index=index, metric_results=metric_results[number])
                for index, metric_results in enumerate(cells)
            ],
        )
        for number in range(len(results[0].rows))
    ]
    summary = []
    for each in metrics:
        metric_results = [row[each.name] for candidate in cells for row in candidate]
        total = AggregatedMetricResult(metric_name=each.name, results=metric_results)
        if (function := summarise.get(each.name)) is not None:
            vars(total).update(_summarise(each.name, function, metric_results))
        summary.append(total)
    zeros = {str(each.metric) for each in resolved if each.metric in (_VERBOSITY, named_metrics()[_VERBOSITY])}
    wins = {
        each.name: _count_wins(cells, each.name, best_is_zero=each.name in zeros)
        for each in (metrics if len(results) > 1 else ())
    }
    return EvaluationResult(
        eval_case_results=cases,
        summary_metrics=summary,
        win_rates={name: stats for name, stats in wins.items() if stats is not None} or None,
        evaluation_dataset=datasets,
        results=list(results),
        candidate_names=list(names),
    )


def _summarise(name: str, function: Callable[..., Any], results: list[EvalCaseMetricResult]) -> Mapping[str, Any]:
    """Return the values of `aggregate_summary_fn` for the results; empty, with a warning, if it fails."""
    try:
        values = function(results)
    except (Exception, SystemExit) as error:  # code of the caller: the scores do not depend on it
        problem = f"raised {type(error).__name__}: {error}"
    else:
        if isinstance(values, Mapping):
            return {str(key): value for key, value in values.items()}
        problem = f"returned {describe(values)}, expected a dict"
    warnings.warn(one_line(f"{name}: aggregate_summary_fn {problem}"), stacklevel=4)
    return {}


_PREFERENCES = {"CANDIDATE": 1.0, "TIE": 0.5, "BASELINE": 0.0}
"""The scores of the choices of comparisons with a baseline."""


def _read_results(result: EvalResult, names: Sequence[str]) -> list[dict[str, EvalCaseMetricResult]]:
    """Return the results of metrics by name, for each row."""
    reasons = {(problem.row, problem.column): problem.reason for problem in result.problems}
    row_results = []
    for number, row in enumerate(result.rows, start=1):
        cells = {}
        for name in names:
            score = row.get(f"{name}/score")
            choice = row.get(f"{name}/pairwise_choice")
            if score is None and isinstance(choice, str):
                score = _PREFERENCES.get(choice.upper())
            columns = [f"{name}/{main}" for main in ("score", "pairwise_choice")]
            reason = next((reasons[number, column] for column in columns if (number, column) in reasons), None)
            cells[name] = EvalCaseMetricResult(
                metric_name=name,
                score=score,
                explanation=row.get(f"{name}/explanation"),
                rubric_verdicts=row.get(f"{name}/rubric_verdict_pairs"),
                raw_output=row.get(f"{name}/raw_outputs") or row.get(f"{name}/raw_output"),
                error_message=None if score is not None else reason or "the metric gave no score",
            )
        row_results.append(cells)
    return row_results


def _count_wins(
    cells: Sequence[Sequence[Mapping[str, EvalCaseMetricResult]]], name: str, *, best_is_zero: bool
) -> WinRateStats | None:
    """Count the rows in which all candidates have a score; None if there is none."""
    wins = [0] * len(cells)
    ties = total = 0
    for row in zip(*cells, strict=True):
        scores = [candidate[name].score for candidate in row]
        values = [-abs(score) if best_is_zero else score for score in scores if score is not None]
        if len(values) < len(scores):
            continue
        total += 1
        best = max(values)
        if values.count(best) > 1:
            ties += 1
        else:
            wins[values.index(best)] += 1
    return WinRateStats(win_rates=[count / total for count in wins], tie_rate=ties / total) if total else None


_REFUSED = frozenset({"evals", "ObservabilityEvalCase", "InteractionsDataSource", "GeminiAgentConfig"})


def __getattr__(name: str) -> NoReturn:
    """Raises EvaluationError for types that only the service uses."""
    if name in _REFUSED:
        raise EvaluationError(f"types.{name}: found a type of the Vertex AI service, expected rows; {USE_EVAL_SETS}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
