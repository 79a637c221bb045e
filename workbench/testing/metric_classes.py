"""The classes of the SDK: metrics, and the result of an evaluation with its errors and problems."""

from __future__ import annotations

import html
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workbench.model.text import neutralise, one_line, pluralise

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.testing.result_rows import Table

# Metrics of a task. `metric_criteria` converts them to criteria of the engine.


@dataclass(frozen=True)
class TrajectorySingleToolUse:
    """1 if the agent called this tool at all, else 0."""

    tool_name: str


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """ROUGE under the column `rouge/score`: `rouge_type` is rouge1, rouge2, rougeL or rougeLsum.

    The metrics `rouge_1`, `rouge_2`, `rouge_l` and `rouge_l_sum` are equivalent. `split_summaries` is not supported
    with rougeLsum, which takes each line as a sentence.
    """

    rouge_type: str
    use_stemmer: bool = False
    split_summaries: bool = False


@dataclass(frozen=True)
class CustomMetric:
    """A function of the caller: `f(row)` returns a number, or a dict with a number under `name` and perhaps others.

    The row is a copy: a dict of the dataset's columns, with `prompt`, `response`, `predicted_trajectory`, `reference`
    and `reference_trajectory` if they are known. Further values of the dict become columns `name/key`. A value under
    `score` is ignored if there is one under `name`, because the column `name/score` has the score of the metric. The
    function may be `async`. It is not called for rows whose agent failed.
    """

    name: str
    metric_function: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class AutoraterConfig:
    """The options of a judge model: `sampling_count` samples; `flip_enabled` swaps the two responses of a comparison in
    every second sample. None: as in the settings of the project and in the metric."""

    sampling_count: int | None = None
    flip_enabled: bool | None = None
    autorater_model: str | None = None


@dataclass(frozen=True, kw_only=True)
class _JudgePrompt:
    """The parts of a judge prompt. `input_variables` are columns beside the response; None: the prompt, if the dataset
    has it."""

    criteria: Mapping[str, str]
    rating_rubric: Mapping[str, str]
    input_variables: Sequence[str] | None = None
    instruction: str | None = None
    metric_definition: str | None = None
    evaluation_steps: Mapping[str, str] | None = None
    few_shot_examples: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class PointwiseMetricPromptTemplate(_JudgePrompt):
    """The prompt of a judge that rates a response. The ratings of the rubric are numbers as text."""


@dataclass(frozen=True, kw_only=True)
class PairwiseMetricPromptTemplate(_JudgePrompt):
    """The prompt of a judge that compares two responses. The rubric defines A, SAME and B."""


@dataclass(frozen=True, kw_only=True)
class PointwiseMetric:
    """A judge model rates each response. The template may be a text with `{column}` where a value belongs."""

    metric: str
    metric_prompt_template: PointwiseMetricPromptTemplate | str
    system_instruction: str | None = None
    autorater_config: Any = None


@dataclass(frozen=True, kw_only=True)
class PairwiseMetric:
    """A judge model compares the response with that of a baseline.

    The baseline answers the same prompts; without `baseline_model` the dataset has its answers in the column
    `baseline_model_response`.
    """

    metric: str
    metric_prompt_template: PairwiseMetricPromptTemplate | str
    baseline_model: Any = None
    system_instruction: str | None = None
    autorater_config: Any = None


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with `{column}` for the value of a column. Two braces are an escaped brace."""

    template: str

    def assemble(self, **values: str) -> str:
        """Fill the template in one pass, without reading variables in values. Raises KeyError for a missing value."""
        from workbench.metrics.judges.transcript import fill_template

        return fill_template(self.template, values)


Metric = str | TrajectorySingleToolUse | Rouge | CustomMetric | PointwiseMetric | PairwiseMetric


# The model-based metrics that the Vertex AI SDK has by name, worded by the workbench.

PAIRWISE = "pairwise_"
"""The prefix of the names of comparisons."""


@cache
def named_metrics() -> Mapping[str, PointwiseMetric | PairwiseMetric]:
    """Return all named metrics, such as `fluency` and `pairwise_fluency`; comparisons come last."""
    definitions = tomllib.loads(files(__package__).joinpath("named_metrics.toml").read_text(encoding="utf-8"))
    metrics: Mapping[str, Any] = definitions["metrics"]
    named: dict[str, PointwiseMetric | PairwiseMetric] = {}
    named |= {name: _make_pointwise(name, parts) for name, parts in metrics.items()}
    named |= {
        f"{PAIRWISE}{name}": _make_pairwise(f"{PAIRWISE}{name}", parts, definitions["comparison"])
        for name, parts in metrics.items()
    }
    return MappingProxyType(named)


def _make_pointwise(name: str, parts: Mapping[str, Any]) -> PointwiseMetric:
    template = PointwiseMetricPromptTemplate(rating_rubric=parts["rating"], **_read_common_parts(parts))
    return PointwiseMetric(metric=name, metric_prompt_template=template)


def _make_pairwise(name: str, parts: Mapping[str, Any], comparison: Mapping[str, Any]) -> PairwiseMetric:
    template = PairwiseMetricPromptTemplate(
        rating_rubric=comparison["choices"], evaluation_steps=comparison["steps"], **_read_common_parts(parts)
    )
    return PairwiseMetric(metric=name, metric_prompt_template=template)


def _read_common_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "criteria": parts["weighs"],
        "metric_definition": parts["definition"],
        "input_variables": tuple(parts.get("inputs", ("prompt",))),
    }


# Errors of a task, and reasons for empty cells of a result.


class EvaluationError(ValueError):
    """A task cannot be evaluated. The message has a sentence for each problem."""


class Problem(NamedTuple):
    """Why a cell of a result is empty.

    `row` counts from 1 in the order of the dataset, as in all messages: row 2 is `rows[1]` of the result, and `row_2`
    if rows have no ids. ERROR: work failed. UNDEFINED: the value does not exist, such as the precision of an agent that
    called no tool.
    """

    row: int
    column: str
    status: Literal["ERROR", "UNDEFINED"]
    reason: str


# The result of a task.

_ROWS_SHOWN = 20
_PROBLEMS_SHOWN = 5
_CELL_WIDTH = 200


class EvalResult:
    """The result of `EvalTask.evaluate`.

    `summary_metrics` has `row_count` and for each metric `<metric>/mean` and `<metric>/std` (sample deviation), NaN
    if no row has the number. `rows` has a dict for each row of the dataset, with None for missing values; `problems`
    has the reasons. `metadata` has the run in the history, and the experiment.
    """

    def __init__(
        self, *, summary_metrics: Mapping[str, float], table: Table, frame: Any, metadata: Mapping[str, str]
    ) -> None:
        """`frame` has the unchanged columns of the pandas frame from which the rows came, if there was one."""
        self.summary_metrics = dict(summary_metrics)
        self.rows = table.rows
        self.problems: tuple[Problem, ...] = tuple(table.problems)
        self.metadata = dict(metadata)
        self._columns = table.columns
        self._frame = frame

    @cached_property
    def metrics_table(self) -> DataFrame:
        """The rows as a pandas frame, with the index of the dataset if it is a frame.

        Raises EvaluationError if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            hint = "pip install 'agent-eval-workbench[pandas]'"
            raise EvaluationError(
                f"metrics_table needs pandas ({hint}); `rows` has the same data without pandas"
            ) from None
        given = {} if self._frame is None else {str(name): place for place, name in enumerate(self._frame.columns)}
        columns = {
            # Arrays, because pandas would align a series by its index, which may have duplicates.
            name: self._frame.iloc[:, given[name]].array if name in given else [row[name] for row in self.rows]
            for name in self._columns
        }
        return pd.DataFrame(columns, index=None if self._frame is None else self._frame.index)

    def __repr__(self) -> str:
        lines = [f"EvalResult of {pluralise(len(self.rows), 'row')}{self._metadata_text()}"]
        lines += [f"  {name}: {_number_text(value)}" for name, value in self.summary_metrics.items()]
        lines += [f"  {line}" for line in self._problem_lines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return two tables for notebooks: the numbers and the first rows. All text is escaped."""
        summary = _html_table(("metric", "value"), ((n, _number_text(v)) for n, v in self.summary_metrics.items()))
        rows = _html_table(self._columns, ([row[name] for name in self._columns] for row in self.rows[:_ROWS_SHOWN]))
        left = len(self.rows) - _ROWS_SHOWN
        more = f"<p>and {pluralise(left, 'row')} more, in <code>rows</code></p>" if left > 0 else ""
        problems = "".join(f"<li>{_escape(line)}</li>" for line in self._problem_lines())
        heading = _escape(f"{pluralise(len(self.rows), 'row')}{self._metadata_text()}")
        return f"<div><p>{heading}</p>{summary}{rows}{more}<ul>{problems}</ul></div>"

    def _metadata_text(self) -> str:
        names = [f"{name.replace('_', ' ')} {value}" for name, value in self.metadata.items()]
        return f" ({one_line(', '.join(names))})" if names else ""

    def _problem_lines(self) -> Iterable[str]:
        """Yield the reasons for empty cells, with the number of rows for each column and reason."""
        counts: dict[tuple[str, str, str], int] = {}
        for problem in self.problems:
            key = problem.column, problem.status, problem.reason
            counts[key] = counts.get(key, 0) + 1
        shown = sorted(counts.items(), key=lambda item: -item[1])[:_PROBLEMS_SHOWN]
        for (column, status, reason), count in shown:
            yield one_line(f"{status} {column}: {pluralise(count, 'row')}: {reason}", width=_CELL_WIDTH)
        if len(counts) > len(shown):
            yield f"and {len(counts) - len(shown)} more reasons, in `problems`"


def _number_text(value: float) -> str:
    return "not computed" if math.isnan(value) else f"{value:g}"


def _html_table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return _escape(text if len(text) <= _CELL_WIDTH else text[: _CELL_WIDTH - 1] + "…")


def _escape(text: str) -> str:
    return html.escape(neutralise(text))
