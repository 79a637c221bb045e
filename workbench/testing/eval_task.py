"""`EvalTask`: a dataset and metrics, evaluated with an agent or with the answers in the dataset."""

from __future__ import annotations

import asyncio
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from workbench.model.text import one_line
from workbench.testing.metrics import (
    PAIRWISE,
    AutoraterConfig,
    CustomOutputConfig,
    EvaluationError,
    Metric,
    PairwiseMetric,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
    PromptTemplate,
    RubricGenerationConfig,
    read_definitions,
    to_frame,
)
from workbench.testing.utils import (
    parse_named_rubric_result,
    parse_pairwise_rubric_result,
    parse_pointwise_rubric_result,
    parse_rubrics,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.metrics.registry import MissingColumns
    from workbench.metrics.trajectory import EvaluatorResult
    from workbench.testing.callables import Agent, ModelAgent
    from workbench.testing.evaluation import Author, Evaluation, EvaluationLimits
    from workbench.testing.metrics import EvalResult
    from workbench.testing.result_rows import Rows


class EvalTask:
    """A dataset with the metrics that judge it.

    `dataset` is a pandas DataFrame, a dict of columns, a list of rows, or a file or an address as for `workbench
    score`. `metrics` are names of known metrics and the metric types of this package. `metric_column_mapping` maps
    columns with a meaning (`prompt`, `response`, `reference`, ...) to their names in the dataset. `autorater_config` is
    the default for judges whose metric has none.

    Results are stored in the history of the project around the working directory, under the name of the `experiment`,
    unless `history` is false. `output_uri_prefix` is a folder, or its address, to which results are also written.
    `missing` has reasons for empty cells of the dataset, by row number (from 1) and column: the result repeats them.
    `task_metrics` are the metrics with the names of their columns.
    """

    def __init__(
        self,
        *,
        dataset: Any,
        metrics: Sequence[Metric | RubricBasedMetric],
        experiment: str | None = None,
        metric_column_mapping: Mapping[str, str] | None = None,
        output_uri_prefix: str | None = "",
        autorater_config: Any = None,
        history: bool = True,
        missing: Mapping[tuple[int, str], str] | None = None,
    ) -> None:
        """Raises EvaluationError for unknown or wrong metrics, and if no installed package can write to
        `output_uri_prefix`."""
        from workbench.testing.metric_criteria import read_criteria

        self._author, resolved = _split_rubric_metric(metrics)
        self.task_metrics = read_criteria(resolved, autorater_config=autorater_config, columns=()).metrics
        self.dataset = dataset
        self.metrics = list(metrics)
        self.experiment = experiment
        self._resolved_metrics = resolved
        self._mapping = dict(metric_column_mapping or {})
        self._output_prefix = output_uri_prefix or ""
        self.autorater_config = autorater_config
        self._history = history
        self._missing_reasons = missing or {}
        self._check_output(None)

    def evaluate(
        self,
        *,
        model: Any = None,
        runnable: Any = None,
        prompt_template: str | PromptTemplate | None = None,
        experiment_run_name: str | None = None,
        response_column_name: str | None = None,
        baseline_model_response_column_name: str | None = None,
        evaluation_service_qps: float | None = None,
        retry_timeout: float | None = None,
        output_file_name: str | None = None,
        concurrency: int | None = None,
        timeout_seconds: float | None = None,
    ) -> EvalResult:
        """Judge every row. If there is a `runnable` or `model`, it first answers the prompt of the row.

        `runnable` is a function `f(prompt)`, plain or async, that returns a text or a dict with `response` and
        `predicted_trajectory`; or an object with `query(input=)`, a Runnable of LangChain (an AgentExecutor, a compiled
        graph), or an agent or app of google-adk. `model` is the name of a model, which workbench asks as it asks
        judges, a function, or an object with `generate_content(prompt)`. They run in this process, `concurrency` at a
        time, each row for at most `timeout_seconds`. A failure affects only its row.

        `prompt_template` makes the prompts, with `{column}` for the value of a column. `response_column_name` and
        `baseline_model_response_column_name` override `metric_column_mapping` for these two columns.
        `evaluation_service_qps` limits the requests per second to a judge model, `retry_timeout` the seconds of one.

        Works in notebooks with a running event loop. Raises EvaluationError if nothing can be evaluated.
        """
        self._check_output(output_file_name)
        evaluation = self._prepare_evaluation(
            model=model,
            runnable=runnable,
            prompt_template=prompt_template,
            experiment_run_name=experiment_run_name,
            columns={
                "response": response_column_name,
                "baseline_model_response": baseline_model_response_column_name,
            },
            limits=_read_limits(concurrency, timeout_seconds, evaluation_service_qps, retry_timeout),
            loop=None,
        )
        return self._write(evaluation.run(), output_file_name)

    async def evaluate_async(
        self,
        *,
        model: Any = None,
        runnable: Any = None,
        prompt_template: str | PromptTemplate | None = None,
        experiment_run_name: str | None = None,
        response_column_name: str | None = None,
        baseline_model_response_column_name: str | None = None,
        evaluation_service_qps: float | None = None,
        retry_timeout: float | None = None,
        output_file_name: str | None = None,
        concurrency: int | None = None,
        timeout_seconds: float | None = None,
    ) -> EvalResult:
        """Do as `evaluate`, for callers with an event loop: asynchronous agents and metrics run on that loop."""
        self._check_output(output_file_name)
        evaluation = await asyncio.to_thread(
            self._prepare_evaluation,
            model=model,
            runnable=runnable,
            prompt_template=prompt_template,
            experiment_run_name=experiment_run_name,
            columns={
                "response": response_column_name,
                "baseline_model_response": baseline_model_response_column_name,
            },
            limits=_read_limits(concurrency, timeout_seconds, evaluation_service_qps, retry_timeout),
            loop=asyncio.get_running_loop(),
        )
        running = asyncio.ensure_future(asyncio.to_thread(evaluation.run))
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            evaluation.cancel()
            await asyncio.wait([running])
            running.exception()  # retrieve the exception so that asyncio does not warn
            raise
        return await asyncio.to_thread(self._write, result, output_file_name)

    def _prepare_evaluation(
        self,
        *,
        model: Any,
        runnable: Any,
        prompt_template: str | PromptTemplate | None,
        experiment_run_name: str | None,
        columns: Mapping[str, str | None],
        limits: EvaluationLimits,
        loop: asyncio.AbstractEventLoop | None,
    ) -> Evaluation:
        from workbench.metrics.registry import find_missing_columns
        from workbench.model.criteria import BASELINE_COLUMN
        from workbench.testing.evaluation import Evaluation, Respondents, RunNames
        from workbench.testing.metric_criteria import read_criteria
        from workbench.testing.result_rows import OUTPUTS, RUBRICS, read_rows

        if experiment_run_name and not self.experiment:
            raise EvaluationError("experiment_run_name: found a name and no experiment, expected EvalTask(experiment=)")
        agent = _choose_agent(model=model, runnable=runnable)
        column_names = {**self._mapping, **{known: name for known, name in columns.items() if name}}
        mapping = {known: name for known, name in column_names.items() if agent is None or known not in OUTPUTS}
        rows = read_rows(self.dataset, mapping)
        answers = column_names.get("response", "response")
        if model is not None and any(row.columns.get(answers) is not None for row in rows.rows):
            raise EvaluationError(
                f"model: found one beside responses in the column {answers!r}, expected one of them: leave out model "
                "to judge these responses, or drop the column"
            )
        if prompt_template is not None:
            rows = rows.with_prompts(PromptTemplate(prompt_template))
        baseline = self._find_baseline()
        author = None if self._author is None or RUBRICS in rows.columns else make_author(self._author)
        answered_columns = [
            *(OUTPUTS if agent is not None else ()),
            *([BASELINE_COLUMN] if baseline is not None else ()),
            *([RUBRICS] if author is not None else ()),
        ]
        all_columns = {**rows.columns, **dict.fromkeys(answered_columns)}
        criteria = read_criteria(self._resolved_metrics, autorater_config=self.autorater_config, columns=all_columns)
        _check_columns(find_missing_columns(criteria.config, all_columns), rows, has_agent=agent is not None)
        metrics = [metric.name for metric in criteria.metrics]
        return Evaluation(
            rows.without_scores(metrics),
            criteria,
            Respondents(agent=agent, baseline=baseline, author=author),
            names=RunNames(experiment=self.experiment, run=experiment_run_name, dataset=rows.place, metrics=metrics),
            limits=limits,
            history=self._history,
            loop=loop,
            missing_reasons=self._missing_reasons,
        )

    def display_runs(self) -> None:
        """Show the runs of the experiment in the history with their mean scores, newest first.

        Raises EvaluationError without an experiment.
        """
        if not self.experiment:
            raise EvaluationError("display_runs: found no experiment, expected EvalTask(experiment=)")
        from workbench.testing.notebook_utils import display_experiment

        display_experiment(self.experiment)

    def _find_baseline(self) -> Agent | ModelAgent | None:
        """Return the baseline agent of all comparisons: only one, because its answers are one column."""
        from workbench.testing.callables import make_model_agent

        models = [metric.baseline_model for metric in self._resolved_metrics if isinstance(metric, PairwiseMetric)]
        different = [model for number, model in enumerate(models) if not any(model == one for one in models[:number])]
        if len(different) > 1:
            raise EvaluationError("metrics: found comparisons with different baseline models, expected one for all")
        return None if not different or different[0] is None else make_model_agent(different[0])

    def _write(self, result: EvalResult, file_name: str | None) -> EvalResult:
        """Write the result to the output of the task, and return it. A failure is only a warning."""
        if self._output_prefix:
            from workbench.store.errors import StoreError
            from workbench.testing.result_rows import write_result

            try:
                write_result(result, self._output_prefix, file_name=file_name)
            except StoreError as error:
                warnings.warn(one_line(f"the result was not written: {error}"), stacklevel=3)
        return result

    def _check_output(self, file_name: str | None) -> None:
        """Check that the result can be written to this name. Raises EvaluationError."""
        if self._output_prefix:
            from workbench.testing.result_rows import check_output

            check_output(self._output_prefix, file_name=file_name)


def _choose_agent(*, model: Any, runnable: Any) -> Agent | ModelAgent | None:
    from workbench.testing.callables import make_agent, make_model_agent

    if model is not None and runnable is not None:
        raise EvaluationError("found both model and runnable, expected one of them")
    if runnable is not None:
        return make_agent(runnable)
    return None if model is None else make_model_agent(model)


def _check_columns(missing: MissingColumns, rows: Rows, *, has_agent: bool) -> None:
    """Warn of metrics whose columns no row has.

    Raises EvaluationError if there is no other metric and no agent: there would be no result.
    """
    if not missing.missing:
        return
    hint = "use metric_column_mapping if they have other names"
    message = one_line(f"{rows.source}: {missing.describe(list(rows.columns))} ({hint})")
    if missing.covers_all_metrics and not has_agent:
        raise EvaluationError(message)
    warnings.warn(f"{message}: without them there is no score", stacklevel=4)


def _read_limits(
    concurrency: int | None, timeout_seconds: float | None, per_second: float | None, judge_seconds: float | None
) -> EvaluationLimits:
    from workbench.testing.evaluation import EvaluationLimits

    numbers = {
        "concurrency": concurrency,
        "timeout_seconds": timeout_seconds,
        "evaluation_service_qps": per_second,
        "retry_timeout": judge_seconds,
    }
    for name, value in numbers.items():
        wrong_kind = value is not None and (isinstance(value, bool) or not isinstance(value, int | float))
        if wrong_kind or (value is not None and not (math.isfinite(value) and value > 0)):
            raise EvaluationError(f"{name}: found {value!r}, expected a number above 0")
    return EvaluationLimits(
        concurrency=concurrency,
        timeout_seconds=timeout_seconds,
        judges_per_second=per_second,
        judge_seconds=judge_seconds,
    )


# Metrics whose judge answers questions that a model wrote about the prompt.

_NAMED_RUBRIC_METRIC = "rubric_based_instruction_following"
"""The rubric-based metric that can be used by its name."""


@dataclass(frozen=True, kw_only=True)
class RubricBasedMetric:
    """A model writes questions about each prompt (the column `rubrics`), and a judge answers them for the response."""

    generation_config: RubricGenerationConfig
    critique_metric: PointwiseMetric | PairwiseMetric

    @property
    def metric_name(self) -> str:
        """The part of its column names before the slash."""
        return self.critique_metric.metric

    def __str__(self) -> str:
        return self.metric_name

    def generate_rubrics(self, eval_dataset: DataFrame | list[dict[str, Any]]) -> DataFrame:
        """Return a copy of a frame, or of rows as dicts, with the column `rubrics`; the frame itself if it has one.

        Asks a model for each row. A row whose questions cannot be generated has None, and a warning gives the reason.
        Raises EvaluationError.
        """
        from workbench.testing.evaluation import write_rubrics
        from workbench.testing.result_rows import RUBRICS, read_rows

        eval_dataset = to_frame(eval_dataset, name="eval_dataset")
        if RUBRICS in eval_dataset.columns:
            return eval_dataset
        rubric_columns, _ = write_rubrics(read_rows(eval_dataset, {}), make_author(self.generation_config))
        copy = eval_dataset.copy()
        for name, values in rubric_columns.items():
            copy[name] = values
        return copy


class _RubricMetrics:
    """The predefined metrics of one kind, made on first use."""

    def __init__(self, kind: Literal["pointwise", "pairwise"]) -> None:
        self._kind: Literal["pointwise", "pairwise"] = kind

    @property
    def INSTRUCTION_FOLLOWING(self) -> RubricBasedMetric:  # noqa: N802 - these are names of the SDK
        """Whether the response does what the prompt asks for."""
        return make_rubric_metric("instruction_following", kind=self._kind)

    @property
    def TEXT_QUALITY(self) -> RubricBasedMetric:  # noqa: N802
        """Whether the response is a good text for the prompt."""
        return make_rubric_metric("text_quality", kind=self._kind)

    @property
    def MULTIMODAL_UNDERSTANDING(self) -> NoReturn:  # noqa: N802
        """Raises EvaluationError: judges see text."""
        raise EvaluationError(
            "MULTIMODAL_UNDERSTANDING: found a metric of images and videos, expected one of texts: workbench sends "
            "only text to models"
        )


class PredefinedRubricMetrics:
    """The rubric-based metrics of the SDK, such as `PredefinedRubricMetrics.Pointwise.INSTRUCTION_FOLLOWING`.

    The prompts are those of the workbench, so scores may differ from those of the Vertex AI SDK.
    """

    Pointwise = _RubricMetrics("pointwise")
    Pairwise = _RubricMetrics("pairwise")


def make_rubric_metric(name: str, *, kind: Literal["pointwise", "pairwise"], metric: str = "") -> RubricBasedMetric:
    """Make a predefined metric. `metric` is the name of its columns, by default that of the SDK."""
    rubrics = read_definitions()["rubrics"]
    critique: PointwiseMetric | PairwiseMetric
    if kind == "pointwise":
        critique = PointwiseMetric(
            metric=metric or f"rb_{name}",
            metric_prompt_template=rubrics["pointwise"],
            custom_output_config=CustomOutputConfig(
                return_raw_output=True,
                parsing_fn=parse_named_rubric_result if metric else parse_pointwise_rubric_result,
            ),
        )
    else:
        critique = PairwiseMetric(
            metric=metric or f"{PAIRWISE}rb_{name}",
            metric_prompt_template=rubrics["pairwise"],
            custom_output_config=CustomOutputConfig(return_raw_output=True, parsing_fn=parse_pairwise_rubric_result),
            autorater_config=AutoraterConfig(sampling_count=1),
        )
    template = rubrics["generation"].replace("{about}", rubrics["about"][name])
    return RubricBasedMetric(
        generation_config=RubricGenerationConfig(prompt_template=template), critique_metric=critique
    )


def make_author(config: RubricGenerationConfig) -> Author:
    """Make the author of rubrics. Raises EvaluationError."""
    from workbench.testing.callables import make_model_agent
    from workbench.testing.evaluation import Author

    agent = None if config.model is None else make_model_agent(config.model)
    return Author(
        agent=agent, template=PromptTemplate(config.prompt_template), parse=config.parsing_fn or parse_rubrics
    )


def _split_rubric_metric(metrics: Any) -> tuple[RubricGenerationConfig | None, Any]:
    """Return how the rubrics are written, if a metric needs them, and the metrics with their judges in its place.

    Raises EvaluationError.
    """
    if not isinstance(metrics, Sequence) or isinstance(metrics, str):
        return None, metrics
    split = [
        make_rubric_metric("instruction_following", kind="pointwise", metric=_NAMED_RUBRIC_METRIC)
        if metric == _NAMED_RUBRIC_METRIC
        else metric
        for metric in metrics
    ]
    authors = [metric.generation_config for metric in split if isinstance(metric, RubricBasedMetric)]
    if len(authors) > 1:
        raise EvaluationError(
            f"metrics: found {len(authors)} rubric-based metrics, expected one: each fills the column rubrics"
        )
    resolved = [_get_critique(metric) if isinstance(metric, RubricBasedMetric) else metric for metric in split]
    return (authors[0] if authors else None), resolved


def _get_critique(metric: RubricBasedMetric) -> PointwiseMetric | PairwiseMetric:
    """Return the judge of a rubric-based metric. Its replies are text, also if the metric does not say so."""
    config = metric.critique_metric.custom_output_config or CustomOutputConfig()
    return replace(metric.critique_metric, custom_output_config=replace(config, return_raw_output=True))


# The judge of agentevals for graph trajectories, as a task of one row.

_GRAPH_ACCURACY = "graph_trajectory_accuracy"
_GRAPH_INSTRUCTION = """\
You grade the way that an agent took. The agent is a graph: each step is a node that it visited. `__start__` is the
entry of a turn. `__interrupt__` means that the agent stopped and waited for an answer of the user, and the input
`__resuming__` that it got this answer."""
_GRAPH_CRITERIA = {
    "Logic": "Each step follows from the input and from the steps before it.",
    "Progress": "The steps lead to the result.",
    "Efficiency": "There are few needless steps. The way need not be the shortest.",
}
_GRAPH_REFERENCE = {
    "Equivalence": "The way has the same meaning as the reference. Differences of detail do not matter."
}
_GRAPH_RATINGS = {"1": "All criteria are met.", "0": "At least one criterion is not met."}


def create_graph_trajectory_llm_as_judge(
    *, model: str | None = None, feedback_key: str = _GRAPH_ACCURACY, sampling_count: int | None = None
) -> Callable[..., EvaluatorResult]:
    """Make an evaluator that asks a judge model whether a graph took a good way.

    It takes `outputs`, and optionally `inputs` and `reference_outputs`, in the shapes of
    `graph_trajectory_strict_match`. Without `model` the judge is that of the settings of the project. The comment of
    the result is the reason. Raises EvaluationError if there is no verdict.
    """

    def evaluate(*, outputs: Any, inputs: Any = None, reference_outputs: Any = None, **_more: Any) -> EvaluatorResult:
        row = {"response": _format_thread(outputs, inputs, "outputs")}
        criteria, variables = _GRAPH_CRITERIA, []
        if reference_outputs is not None:
            row["reference"] = _format_thread(reference_outputs, None, "reference_outputs")
            criteria, variables = {**_GRAPH_CRITERIA, **_GRAPH_REFERENCE}, ["reference"]
        template = PointwiseMetricPromptTemplate(
            criteria=criteria, rating_rubric=_GRAPH_RATINGS, input_variables=variables, instruction=_GRAPH_INSTRUCTION
        )
        metric = PointwiseMetric(metric=feedback_key, metric_prompt_template=template)
        config = AutoraterConfig(autorater_model=model, sampling_count=sampling_count)
        result = EvalTask(dataset=[row], metrics=[metric], autorater_config=config, history=False).evaluate()
        score, comment = (result.rows[0][f"{feedback_key}/{name}"] for name in ("score", "explanation"))
        if score is None:
            raise EvaluationError("; ".join(problem.reason for problem in result.problems) or "the judge gave no score")
        return {"key": feedback_key, "score": score >= 0.5, "comment": comment, "metadata": None}

    return evaluate


def _format_thread(trajectory: Any, inputs: Any, place: str) -> str:
    """Return the turns of a graph trajectory as text. Raises ValueError."""
    from workbench.metrics.trajectory import read_graph_trajectory

    graph = read_graph_trajectory(trajectory, place)
    turn_inputs = (inputs.get("inputs") if isinstance(inputs, Mapping) else inputs) or graph["inputs"]
    results, steps = graph["results"], graph["steps"]
    if not len(turn_inputs) == len(results) == len(steps):
        counts = f"{len(turn_inputs)} inputs, {len(results)} results and {len(steps)} lists of steps"
        raise ValueError(f"{place}: found {counts}, expected one of each for each turn")
    turns = zip(turn_inputs, results, steps, strict=True)
    return "\n\n".join(
        f"Input: {_format(message)}\nSteps: {' -> '.join(map(str, visited))}\nResult: {_format(result)}"
        for message, result, visited in turns
    )


def _format(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
