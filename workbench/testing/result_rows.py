"""The rows of a task, the table of a result, and result files."""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import re
import secrets
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from workbench.agents.worker.wire import describe
from workbench.metrics.judges.transcript import format_value
from workbench.model.facts import cache_by_identity
from workbench.model.results import CaseResult, FailureKind, Judgement, MetricResult, MetricStatus
from workbench.model.run_events import MetricSummary, RunSummary
from workbench.model.text import mask_named_secrets, pluralise, redact, suggest_name
from workbench.model.trace import get_trajectory
from workbench.store.datasets.dataset_files import (
    Recorded,
    dataset_from_columns,
    dataset_from_frame,
    dataset_from_rows,
    make_recorded_cases,
    read_dataset,
)
from workbench.store.datasets.dataset_rows import Dataset, Row
from workbench.store.datasets.remote_data import check_address, is_address, join_address, put
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import EVAL_SET_SUFFIXES, make_folder, write_atomic
from workbench.testing.metric_criteria import TaskMetric
from workbench.testing.metrics import EvaluationError, Problem, PromptTemplate, read_records
from workbench.testing.notebook_utils import NotebookSection, show

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.testing.metrics import EvalResult


RESPONSE, TRAJECTORY, LATENCY, FAILURE = "response", "predicted_trajectory", "latency_in_seconds", "failure"
RUBRICS = "rubrics"
"""The column of the questions that a model wrote about the prompt."""

# The rows of a task: from any dataset, with prompts, and as cases for the engine.

OUTPUTS = (RESPONSE, LATENCY, FAILURE, TRAJECTORY)
"""The columns that an agent fills, in the order of tables."""

_IN_MEMORY = "dataset"


@dataclass(frozen=True)
class Rows:
    """The rows to judge. `source` names the dataset in messages. `frame` is the pandas frame from which the rows came,
    if there was one, without the columns that have changed."""

    source: Path | str
    rows: tuple[Row, ...]
    frame: Any = None

    @cached_property
    def columns(self) -> dict[str, None]:
        """The names of all columns, in the order in which they appear."""
        return dict.fromkeys(name for row in self.rows for name in row.columns)

    @property
    def name(self) -> str:
        return PurePath(self.source).name

    @property
    def place(self) -> str:
        """The place of the dataset for messages."""
        return "in memory" if self.source == _IN_MEMORY else shown_path(self.source)

    def with_prompts(self, template: PromptTemplate) -> Rows:
        """Return rows with prompts from a template. Raises EvaluationError for a variable that is no column."""
        columns = self.columns
        variables = sorted(template.variables)
        for variable in variables:
            if variable not in columns:
                expected = f"a column of the dataset{suggest_name(variable, columns)}"
                raise EvaluationError(f"prompt_template: found the variable {variable!r}, expected {expected}")
        rows = tuple(_fill_prompt(row, template, variables, self.source) for row in self.rows)
        return replace(self, rows=rows, frame=_drop_columns(self.frame, ["prompt"]))

    def without_answers(self) -> Rows:
        """Return rows without the answers of agents. Raises EvaluationError if they have no prompts."""
        if "prompt" not in self.columns:
            names = ", ".join(list(self.columns)[:8]) or "none"
            expected = "'prompt', or a prompt_template"
            raise EvaluationError(f"{self.source}: found the columns {names}, expected {expected}")
        rows = tuple(_drop_answers(row, self.source) for row in self.rows)
        return replace(self, rows=rows, frame=_drop_columns(self.frame, OUTPUTS))

    def without_scores(self, metrics: Collection[str]) -> Rows:
        """Return rows without the columns of these metrics, which the table of an earlier result has."""
        prefixes = tuple(f"{metric}/" for metric in metrics)
        scores = [name for name in self.columns if name.startswith(prefixes)]
        if not scores:
            return self
        rows = tuple(
            row._replace(columns={name: value for name, value in row.columns.items() if name not in scores})
            for row in self.rows
        )
        return replace(self, rows=rows, frame=_drop_columns(self.frame, scores))

    def with_column(self, name: str, values: Sequence[Any]) -> Rows:
        """Return rows with one more column."""
        pairs = zip(self.rows, values, strict=True)
        rows = tuple(row._replace(columns={**row.columns, name: value}) for row, value in pairs)
        return replace(self, rows=rows, frame=_drop_columns(self.frame, [name]))

    def to_recorded(self) -> Recorded:
        return Recorded(self.source, self.name, make_recorded_cases(Dataset(self.source, self.rows)))


def read_rows(dataset: Any, mapping: Mapping[str, str]) -> Rows:
    """Read the rows of a file, a pandas frame, a dict of columns or a list of rows.

    `mapping` maps columns with a meaning to their names in the dataset. Raises EvaluationError.
    """
    columns = {known: name for known, name in mapping.items() if known != name}
    try:
        if isinstance(dataset, str | Path):
            return _make_rows(_read_source(dataset, columns))
        if hasattr(dataset, "iloc") and hasattr(dataset, "columns"):
            rows = _make_rows(dataset_from_frame(dataset, columns=columns, name=_IN_MEMORY))
            return replace(rows, frame=_drop_columns(dataset.copy(deep=False), columns))
        if isinstance(dataset, Mapping):
            return _make_rows(dataset_from_columns(_to_lists(dataset), columns=columns, name=_IN_MEMORY))
        if isinstance(dataset, Sequence):
            return _make_rows(dataset_from_rows(dataset, columns=columns, name=_IN_MEMORY))
    except StoreError as error:
        raise EvaluationError(str(error)) from None
    expected = "a file, a pandas DataFrame, a dict of columns or a list of rows"
    raise EvaluationError(f"dataset: found a {type(dataset).__name__}, expected {expected}")


def _read_source(source: str | Path, columns: Mapping[str, str]) -> Dataset:
    if isinstance(source, str) and is_address(source):
        return read_dataset(source, columns=columns)
    path = Path(source)
    if path.name.endswith(EVAL_SET_SUFFIXES):
        raise StoreError(path, "is an eval set, expected a dataset; `workbench run` runs eval sets")
    return read_dataset(path, columns=columns)


def _make_rows(dataset: Dataset) -> Rows:
    if not dataset.rows:
        raise EvaluationError(f"{dataset.source}: found no rows, expected at least one")
    return Rows(dataset.source, dataset.rows)


def _to_lists(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Convert columns of any iterable type, such as a pandas series, to lists."""
    listed = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise EvaluationError(
                f"dataset: {name}: found a {type(values).__name__}, expected a list with a value for each row"
            )
        listed[str(name)] = list(values)
    return listed


def _drop_columns(frame: Any, names: Iterable[str]) -> Any:
    return None if frame is None else frame.drop(columns=list(names), errors="ignore")


def _fill_prompt(row: Row, template: PromptTemplate, variables: Sequence[str], source: Path | str) -> Row:
    missing_names = [name for name in variables if row.columns.get(name) is None]
    if missing_names:
        error = StoreError(source, place=f"row {row.number}: {missing_names[0]}", found="nothing", expected="a value")
        return row._replace(problems=(*row.problems, error))
    prompt = template.assemble(**{name: format_value(row.columns[name]) for name in variables}).template
    return row._replace(prompt=prompt, columns={**row.columns, "prompt": prompt})


def _drop_answers(row: Row, source: Path | str) -> Row:
    problems = row.problems
    if row.prompt is None and not problems:
        problems = (StoreError(source, place=f"row {row.number}: prompt", found="nothing", expected="text"),)
    columns = {name: value for name, value in row.columns.items() if name not in OUTPUTS}
    return row._replace(response=None, predicted_trajectory=None, columns=columns, problems=problems)


# Rows as objects of the newer API.

_Built = TypeVar("_Built")

USE_EVAL_SETS = "to judge conversations and tool calls, use an eval set and its criteria, see docs/criteria.md"
_ONLY_OF_THE_SERVICE = ("agent_data", "interactions_data_source", "user_scenario")
_TEXTS = frozenset({"prompt", RESPONSE, "reference"})


@dataclass(kw_only=True)
class ResponseCandidate:
    """One response: a text, or a content of the Gemini API."""

    response: Any = None


class EvalCase:
    """One row as an object. Texts may be contents of the Gemini API. Further arguments are further columns."""

    def __init__(
        self,
        *,
        prompt: Any = None,
        responses: Sequence[Any] | None = None,
        reference: Any = None,
        eval_case_id: str | None = None,
        **columns: Any,
    ) -> None:
        """Raises EvaluationError for arguments that only the service can read, and for several responses."""
        for name in _ONLY_OF_THE_SERVICE:
            if columns.get(name) is not None:
                raise EvaluationError(f"EvalCase: found {name}, expected prompt and responses; {USE_EVAL_SETS}")
        if isinstance(responses, str) or not isinstance(responses, Sequence | None):
            raise EvaluationError(f"EvalCase: found {describe(responses)} as responses, expected a list")
        if len(responses or ()) > 1:
            raise EvaluationError(
                f"EvalCase: found {len(responses or ())} responses, expected one; to compare candidates, pass a "
                "dataset for each: evaluate(dataset=[first, second])"
            )
        self.prompt = prompt
        self.responses = [ResponseCandidate(response=_unwrap_response(each)) for each in responses or ()]
        self.reference = reference
        self.eval_case_id = eval_case_id
        self.columns = {name: value for name, value in columns.items() if value is not None}

    def to_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"prompt": _read_text(self.prompt)}
        for candidate in self.responses:
            row[RESPONSE] = _read_text(candidate.response)
        if self.reference is not None:
            row["reference"] = _read_text(_unwrap_response(self.reference))
        return {**row, **{name: _read_value(value) for name, value in self.columns.items()}}


class EvaluationDataset:
    """Rows to evaluate: a pandas frame or `EvalCase` objects. `candidate_name` is the model or agent that answered."""

    def __init__(
        self,
        *,
        eval_cases: Sequence[EvalCase | Mapping[str, Any]] | None = None,
        eval_dataset_df: DataFrame | None = None,
        candidate_name: str | None = None,
        bigquery_source: Any = None,
        gcs_source: Any = None,
    ) -> None:
        """Raises EvaluationError unless there are either cases or a frame."""
        if bigquery_source is not None or gcs_source is not None:
            raise EvaluationError(
                "EvaluationDataset: found a source of the service, expected eval_dataset_df or eval_cases; an address "
                "such as gs://bucket/rows.jsonl can be passed as src or dataset"
            )
        if (eval_cases is None) == (eval_dataset_df is None):
            found = "neither" if eval_cases is None else "both"
            raise EvaluationError(f"EvaluationDataset: found {found}, expected eval_cases or eval_dataset_df")
        self.eval_cases = None if eval_cases is None else [_read_case(case) for case in eval_cases]
        self.eval_dataset_df = eval_dataset_df
        self.candidate_name = candidate_name

    @property
    def rows(self) -> list[dict[str, Any]]:
        if self.eval_cases is not None:
            return [case.to_row() for case in self.eval_cases]
        return [
            {name: (_read_text if name in _TEXTS else _read_value)(value) for name, value in row.items()}
            for row in read_records(self.eval_dataset_df)
        ]

    def show(self) -> None:
        """Show the rows: in a notebook as a table, else as text."""
        show([self._make_section()])

    def _make_section(self) -> NotebookSection:
        rows = self.rows
        columns = list(dict.fromkeys(name for row in rows for name in row))
        title = f"{pluralise(len(rows), 'row')}{f' of {self.candidate_name}' if self.candidate_name else ''}"
        return NotebookSection(title, columns, [[row.get(name) for name in columns] for row in rows])

    def _repr_html_(self) -> str:
        return self._make_section().to_html()


def build_from_dict(kind: type[_Built], values: Mapping[Any, Any]) -> _Built:
    """Build an object from its fields. Raises EvaluationError for a field that it does not have."""
    parameters = list(inspect.signature(kind).parameters)
    for name in values:
        if name not in parameters:
            expected = f"one of {', '.join(parameters)}"
            raise EvaluationError(f"{kind.__name__}: found the key {name!r}, expected {expected}")
    return kind(**values)


def _read_case(value: Any) -> EvalCase:
    if isinstance(value, EvalCase):
        return value
    if isinstance(value, Mapping):
        return EvalCase(**value)
    raise EvaluationError(f"eval_cases: found {describe(value)}, expected EvalCase objects")


def _unwrap_response(value: Any) -> Any:
    """Return the response of a candidate: an object or a dict with `response`, or else the value itself."""
    if isinstance(value, Mapping) and "parts" not in value:
        return value.get("response", value)
    return getattr(value, "response", value)


def _read_text(value: Any) -> Any:
    """Return the text of a content of the Gemini API, without thoughts; None if it has no text.

    A content with files and other values are unchanged.
    """
    value = _read_value(value)
    parts = value.get("parts") if isinstance(value, Mapping) else None
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts) or has_file(parts):
        return value
    texts = [str(part["text"]) for part in parts if part.get("text") is not None and not part.get("thought")]
    return "".join(texts) if texts else None


def _read_value(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


_FILE = re.compile(
    r"""\b(?:file_?data|inline_?data)["']?\s*:?\s*\{\s*["']?(?:file_?uri|mime_?type|display_?name|data)\b""",
    re.IGNORECASE,
)
"""A file in a content of the Gemini API, as JSON or as text of a protocol buffer."""


def has_file(value: Any) -> bool:
    """True if a value has a file in the form of the Gemini API. A text that only mentions one has none."""
    return _FILE.search(value if isinstance(value, str) else format_value(value)) is not None


# The table of a result, with the columns that the SDK documents.

_CHOICES = {1.0: "CANDIDATE", 0.5: "TIE", 0.0: "BASELINE"}


class Table:
    """Rows with their results, and the reasons for empty cells.

    `rows` has a dict for each row of the dataset, all with the same `columns`; a missing value is None.
    """

    def __init__(
        self,
        rows: Rows,
        results: Sequence[CaseResult],
        metrics: Sequence[TaskMetric],
        *,
        has_agent: bool,
        missing_reasons: Mapping[tuple[int, str], str],
    ) -> None:
        """`missing_reasons` says why cells of the rows are empty, by row number and column. Scores of a row are empty
        for the same reason."""
        self.problems: list[Problem] = []
        self._metrics = [
            (metric, f"{metric.name}/{'pairwise_choice' if metric.kind == 'pairwise' else 'score'}")
            for metric in metrics
        ]
        make_score_cells = cache_by_identity(maxsize=256)(self._score_cells)
        cells_by_row: list[dict[str, Any]] = []
        for row, result in zip(rows.rows, results, strict=True):
            cells = dict(row.columns)
            if has_agent:
                cells.update(_answer_cells(result))
            cells.update(make_score_cells(result.metrics))
            cells_by_row.append(cells)
        dataset_columns = rows.columns
        other_columns = dict.fromkeys(
            name for cells in cells_by_row for name in cells if name not in dataset_columns and name not in OUTPUTS
        )
        outputs = [
            name for name in OUTPUTS if name not in dataset_columns and any(name in cells for cells in cells_by_row)
        ]
        self.columns = (*dataset_columns, *outputs, *_order_columns(other_columns, metrics))
        self.rows = [
            cells if (*cells,) == self.columns else {name: cells.get(name) for name in self.columns}
            for cells in cells_by_row
        ]
        if has_agent:
            self._explain_answers(results)
        self._explain_scores(results, missing_reasons)

    def _explain_answers(self, results: Sequence[CaseResult]) -> None:
        """Add the reasons for empty cells of the agent."""
        for number, (cells, result) in enumerate(zip(self.rows, results, strict=True), start=1):
            reason = None if result.failure is None else result.failure.message
            for name in OUTPUTS:
                if name in self.columns and cells[name] is None:
                    explanation = reason or f"the agent gave no {name}"
                    self.problems.append(Problem(number, name, "ERROR" if reason else "UNDEFINED", explanation))

    def _explain_scores(self, results: Sequence[CaseResult], missing_reasons: Mapping[tuple[int, str], str]) -> None:
        """Add the reasons for empty cells of metrics."""
        columns = [
            (name, task_metric)
            for task_metric, _ in self._metrics
            for name in self.columns
            if _is_metric_column(name, task_metric)
        ]
        for number, (cells, result) in enumerate(zip(self.rows, results, strict=True), start=1):
            empty = [(name, task_metric) for name, task_metric in columns if cells[name] is None]
            if empty:
                found = {metric.name: metric for metric in result.metrics}
                for name, task_metric in empty:
                    status, reason = _explain_empty(found.get(task_metric.result), result)
                    places = (number, RESPONSE), (number, reason.removeprefix("the row has no "))
                    causes = [missing_reasons[place] for place in places if place in missing_reasons]
                    self.problems.append(Problem(number, name, *(("ERROR", causes[0]) if causes else (status, reason))))

    def _score_cells(self, metrics: tuple[MetricResult, ...]) -> dict[str, Any]:
        results = {metric.name: metric for metric in metrics}
        cells: dict[str, Any] = {}
        for task_metric, main in self._metrics:
            metric = results.get(task_metric.result)
            score = None if metric is None else metric.score
            cells[main] = (
                _CHOICES[_round_preference(score)] if task_metric.kind == "pairwise" and score is not None else score
            )
            if task_metric.kind in ("pairwise", "pointwise"):
                cells[f"{task_metric.name}/explanation"] = None if metric is None else _find_explanation(metric)
            if task_metric.kind in ("custom", "parsed") and metric is not None:
                prefix = f"{task_metric.name}/"
                extra_cells = {name: other.score for name, other in results.items() if name.startswith(prefix)}
                extra_cells |= {prefix + name: value for name, value in metric.details.items() if name != "traceback"}
                cells |= {name: value for name, value in extra_cells.items() if name != main}
                if task_metric.kind == "parsed" and score is None and extra_cells:
                    del cells[main]  # the function of the caller reads no score
        return cells


def _answer_cells(result: CaseResult) -> Iterator[tuple[str, Any]]:
    """Yield the cells of the agent. There is a trajectory only if it is known which calls it made."""
    turn = result.execution.turns[0] if result.execution.turns else None
    answer = None if turn is None else turn.invocation.final_response
    yield RESPONSE, None if answer is None else answer.text()
    yield LATENCY, None if turn is None else turn.duration_seconds
    was_asked = result.failure is None or result.failure.kind is not FailureKind.FILE
    yield FAILURE, int(turn is None) if was_asked else None
    if turn is not None and turn.invocation.intermediate_data is not None and turn.calls_unknown is None:
        calls = get_trajectory(turn.invocation)
        yield TRAJECTORY, [{"tool_name": call.name, "tool_input": call.args} for call in calls]


def build_summary(
    summary: RunSummary, metrics: Sequence[TaskMetric], *, row_count: int, measures: Sequence[str]
) -> dict[str, float]:
    """Return the numbers of a run under their documented names; NaN if there is none. `measures` are latency and
    failure, if they are known."""
    numbers: dict[str, float] = {"row_count": row_count}
    for metric in metrics:
        if metric.kind == "pairwise":
            for side in ("candidate", "baseline"):
                name = f"{metric.name}/{side}_model_win_rate"
                numbers[name] = _read_number(summary.metrics.get(name), "mean")
        elif metric.kind != "parsed" or not math.isnan(_read_number(summary.metrics.get(metric.result), "mean")):
            numbers |= _mean_and_std(metric.name, summary.metrics.get(metric.result))
    engine_names = {LATENCY: "latency", FAILURE: "failure"}
    for measure in measures:
        numbers |= _mean_and_std(measure, summary.metrics.get(engine_names[measure]))
    return numbers


def count_wins(rows: Sequence[Mapping[str, Any]], metrics: Sequence[TaskMetric]) -> dict[str, float]:
    """Return the win rates of comparisons whose choices the caller reads: the share of the rows that have a choice."""
    rates: dict[str, float] = {}
    for metric in metrics:
        choices = [row.get(f"{metric.name}/pairwise_choice") for row in rows] if metric.kind == "parsed" else []
        texts = [choice.lower() for choice in choices if isinstance(choice, str)]
        for side in ("candidate", "baseline") if texts else ():
            rates[f"{metric.name}/{side}_model_win_rate"] = sum(text.startswith(side) for text in texts) / len(texts)
    return rates


def _mean_and_std(name: str, summary: MetricSummary | None) -> dict[str, float]:
    return {f"{name}/mean": _read_number(summary, "mean"), f"{name}/std": _read_number(summary, "std")}


def _read_number(summary: MetricSummary | None, statistic: Literal["mean", "std"]) -> float:
    value: float | None = None if summary is None else getattr(summary, statistic)
    return math.nan if value is None else value


def _order_columns(names: dict[str, None], metrics: Sequence[TaskMetric]) -> Iterator[str]:
    """Yield the columns grouped by metric: a later row may have more numbers than the first."""
    remaining = dict(names)
    for metric in metrics:
        for name in [name for name in remaining if _is_metric_column(name, metric)]:
            del remaining[name]
            yield name


def _round_preference(score: float) -> float:
    """Return the preferred side of a comparison. The mean of several samples may lie between the sides."""
    return 0.5 if score == 0.5 else float(score > 0.5)


def _explain_empty(metric: MetricResult | None, result: CaseResult) -> tuple[Literal["ERROR", "UNDEFINED"], str]:
    """Return status and reason of an empty cell of a metric."""
    if result.failure is not None:
        return "ERROR", result.failure.message
    if metric is None:
        return "ERROR", f"the row was not judged: it is {result.status.value}"
    if metric.score is not None:
        return "UNDEFINED", "the metric gave no such value for this row"
    return "ERROR" if metric.status is MetricStatus.ERROR else "UNDEFINED", metric.reason or "the metric gave no score"


def _is_metric_column(column: str, metric: TaskMetric) -> bool:
    return column.startswith(f"{metric.name}/")


def _find_explanation(metric: MetricResult) -> str | None:
    """Return the rationale of the first sample with the final score, else the first rationale."""
    judgement: Judgement | None = next(
        (score.judgement for score in metric.per_invocation if score.judgement is not None), None
    )
    if judgement is None:
        return None
    explained = [sample for sample in judgement.samples if sample.rationale]
    matching = [sample for sample in explained if sample.score == metric.score]
    return next((sample.rationale for sample in (*matching, *explained)), None)


# Results as objects of the newer API.


@dataclass(kw_only=True)
class EvalCaseMetricResult:
    """The result of one metric for one response. Without a `score` it has an `error_message`."""

    metric_name: str | None = None
    score: float | None = None
    explanation: str | None = None
    rubric_verdicts: Any = None
    raw_output: list[str] | None = None
    error_message: str | None = None


@dataclass(kw_only=True)
class ResponseCandidateResult:
    """The results for one response, by metric."""

    response_index: int | None = None
    metric_results: dict[str, EvalCaseMetricResult] = field(default_factory=dict)


@dataclass(kw_only=True)
class EvalCaseResult:
    """The results for one row, by candidate."""

    eval_case_index: int | None = None
    response_candidate_results: list[ResponseCandidateResult] = field(default_factory=list)


class AggregatedMetricResult:
    """One metric over all rows and candidates. None: no row has a score. Values of `aggregate_summary_fn` are further
    attributes."""

    def __init__(self, *, metric_name: str, results: Sequence[EvalCaseMetricResult]) -> None:
        scores = [result.score for result in results if result.score is not None]
        self.metric_name = metric_name
        self.num_cases_total = len(results)
        self.num_cases_valid = len(scores)
        self.num_cases_error = len(results) - len(scores)
        self.mean_score = statistics.fmean(scores) if scores else None
        self.stdev_score = statistics.stdev(scores) if len(scores) > 1 else None

    def __repr__(self) -> str:
        return f"AggregatedMetricResult({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass(kw_only=True)
class WinRateStats:
    """How often each candidate has the best score of all, and how often several have it."""

    win_rates: list[float] = field(default_factory=list)
    tie_rate: float | None = None


@dataclass(kw_only=True, repr=False, eq=False)
class EvaluationResult:
    """The result of `evaluate`. `results` has the `EvalResult` of each candidate."""

    eval_case_results: list[EvalCaseResult]
    summary_metrics: list[AggregatedMetricResult]
    win_rates: dict[str, WinRateStats] | None
    evaluation_dataset: list[EvaluationDataset]
    results: list[EvalResult]
    candidate_names: list[str]

    def show(self, candidate_names: Sequence[str] | None = None) -> None:
        """Show the summary, the comparison of candidates and the rows: in a notebook as tables, else as text."""
        show(self._make_sections(candidate_names))

    def _repr_html_(self) -> str:
        return "".join(section.to_html() for section in self._make_sections(None))

    def _make_sections(self, candidate_names: Sequence[str] | None) -> list[NotebookSection]:
        candidates = self._choose_candidates(candidate_names)
        names = [name for _, name in candidates]
        numbers = [
            [each.metric_name, each.mean_score, each.stdev_score, each.num_cases_valid, each.num_cases_error]
            for each in self.summary_metrics
        ]
        sections = [
            NotebookSection("Summary", ["metric", "mean", "deviation", "rows with a score", "without"], numbers)
        ]
        if self.win_rates:
            rows = [
                [metric, *(stats.win_rates[index] for index, _ in candidates), stats.tie_rate]
                for metric, stats in self.win_rates.items()
            ]
            sections.append(NotebookSection("Win rates", ["metric", *names, "tie"], rows))
        for index, name in candidates:
            table = self.results[index].rows
            sections.append(NotebookSection(name, list(table[0]), [list(row.values()) for row in table]))
        return sections

    def _choose_candidates(self, names: Sequence[str] | None) -> list[tuple[int, str]]:
        """Return the places and names of the candidates to show: some of them, or all by other names.

        Raises EvaluationError.
        """
        all_names = self.candidate_names
        if names is None or (len(names) == len(all_names) and not {*names} <= {*all_names}):
            return list(enumerate(names or all_names))
        for name in names:
            if name not in all_names:
                raise EvaluationError(f"candidate_names: found {name!r}, expected some of {', '.join(all_names)}")
        return [(all_names.index(name), name) for name in names]


# Result files, local or remote: the table as JSONL or CSV, and the numbers as JSON.

_SUMMARY = "summary_metrics.json"


def check_output(folder: str, *, file_name: str | None) -> None:
    """Check that `write_result` can write, before anything runs. Raises EvaluationError."""
    if is_address(folder):
        try:
            check_address(folder)
        except StoreError as error:
            raise EvaluationError(f"output_uri_prefix: {error}") from None
    if file_name and PurePath(file_name).suffix not in (".jsonl", ".csv"):
        raise EvaluationError(f"output_file_name: found {file_name!r}, expected a name that ends in .jsonl or .csv")


def write_result(result: EvalResult, folder: str, *, file_name: str | None) -> None:
    """Write the table as `NAME/NAME.csv`, or `.jsonl`, and the numbers beside it, as the Vertex AI SDK does.

    `file_name` is the file of the table; without one its name has the time. `folder` is a path or an address. Cells
    with other values than text and numbers are JSON. Secrets are redacted. Raises StoreError.
    """
    named = PurePath(file_name or f"eval_results_{datetime.now():%Y-%m-%d-%H-%M-%S}-{secrets.token_hex(2)}.csv")
    table = named.with_suffix("") / named.name
    text = _to_csv(result) if table.suffix == ".csv" else _dump_lines(result.rows)
    numbers = {name: None if math.isnan(value) else value for name, value in result.summary_metrics.items()}
    _write(folder, table, text.encode("utf-8", "backslashreplace"))
    summary = json.dumps({"summary_metrics": numbers}, indent=2) + "\n"
    _write(folder, table.with_name(_SUMMARY), summary.encode())


def write_rows(rows: Sequence[Mapping[str, Any]], folder: str, file_name: str) -> None:
    """Write rows as JSONL to a folder or its address. Secrets are redacted. Raises EvaluationError."""
    try:
        _write(folder, PurePath(file_name), _dump_lines(rows).encode("utf-8", "backslashreplace"))
    except StoreError as error:
        raise EvaluationError(str(error)) from None


def _write(folder: str, name: PurePath, data: bytes) -> None:
    if is_address(folder):
        put(join_address(folder, name.as_posix()), data)
        return
    path = Path(folder) / name
    make_folder(path.parent)
    write_atomic(path, data)


def _dump_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(redact(json.dumps(mask_named_secrets(row), ensure_ascii=False)) + "\n" for row in rows)


def _to_csv(result: EvalResult) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)  # line ends as in RFC 4180: with "\n" a "\r" in a cell would not be quoted
    columns = list(result.rows[0])
    writer.writerow(map(redact, columns))
    writer.writerows([_cell(row[name]) for name in columns] for row in result.rows)
    return out.getvalue()


def _cell(value: Any) -> str | int | float:
    """Format a value as datasets are read. Text is unchanged, even if a spreadsheet would read it as a formula."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return redact(value if isinstance(value, str) else json.dumps(mask_named_secrets(value), ensure_ascii=False))
