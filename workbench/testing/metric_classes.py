"""The metric classes of the SDK, and the errors and problems of an evaluation."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

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
