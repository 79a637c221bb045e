"""The metric classes of the SDK, and what is wrong with an evaluation."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

# Metrics as a task names them. They say what is wanted; `criteria` makes of them what the engine judges by.


@dataclass(frozen=True)
class TrajectorySingleToolUse:
    """1 where the agent called this tool at all, else 0."""

    tool_name: str


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """ROUGE under the column `rouge/score`: `rouge_type` is rouge1, rouge2, rougeL or rougeLsum.

    The metrics `rouge_1`, `rouge_2`, `rouge_l` and `rouge_l_sum` are the same by name. `split_summaries` cannot be had:
    rougeLsum takes each line for a sentence.
    """

    rouge_type: str
    use_stemmer: bool = False
    split_summaries: bool = False


@dataclass(frozen=True)
class CustomMetric:
    """A function of the caller: `f(row)` gives a number, or a dict with a number under `name` and maybe others.

    The row is a dict of the dataset's columns, with `prompt`, `response`, `predicted_trajectory`, `reference` and
    `reference_trajectory` as far as they are known; it is a copy. Further values of the dict become columns `name/key`,
    but for one under `score` beside that under `name`: the column `name/score` has the score of the metric. The
    function may be `async`. It is not called for rows whose agent failed.
    """

    name: str
    metric_function: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class AutoraterConfig:
    """How the judge model is asked: `sampling_count` times, `flip_enabled` with the two responses of a comparison in
    the other order every second time. None: as the project's settings and the metric say."""

    sampling_count: int | None = None
    flip_enabled: bool | None = None
    autorater_model: str | None = None


@dataclass(frozen=True, kw_only=True)
class _JudgePrompt:
    """The parts that the prompt of a judge is put together of. `input_variables` are columns that it is shown besides
    the response; None: the prompt, where the dataset has it."""

    criteria: Mapping[str, str]
    rating_rubric: Mapping[str, str]
    input_variables: Sequence[str] | None = None
    instruction: str | None = None
    metric_definition: str | None = None
    evaluation_steps: Mapping[str, str] | None = None
    few_shot_examples: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class PointwiseMetricPromptTemplate(_JudgePrompt):
    """What a judge is asked that rates a response: the ratings of the rubric are numbers as text."""


@dataclass(frozen=True, kw_only=True)
class PairwiseMetricPromptTemplate(_JudgePrompt):
    """What a judge is asked that compares two responses: the rubric says what A, SAME and B mean."""


@dataclass(frozen=True, kw_only=True)
class PointwiseMetric:
    """A judge model rates each response. The template may be a text with `{column}` where a value belongs."""

    metric: str
    metric_prompt_template: PointwiseMetricPromptTemplate | str
    system_instruction: str | None = None
    autorater_config: Any = None


@dataclass(frozen=True, kw_only=True)
class PairwiseMetric:
    """A judge model says which is better, the response or that of a baseline.

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
    """A prompt with `{column}` where the value of a column belongs; two braces stand for one."""

    template: str

    def assemble(self, **values: str) -> str:
        """The template filled in, in one go: what a value says is never looked at. Raises KeyError for a gap."""
        from workbench.metrics.judges.transcript import fill_template

        return fill_template(self.template, values)


Metric = str | TrajectorySingleToolUse | Rouge | CustomMetric | PointwiseMetric | PairwiseMetric


# The model-based metrics that the Vertex AI SDK has by name, worded by the workbench.

PAIRWISE = "pairwise_"
"""How the names of comparisons begin."""


@cache
def named_metrics() -> Mapping[str, PointwiseMetric | PairwiseMetric]:
    """All of them by name, such as `fluency` and `pairwise_fluency`; those that compare come last."""
    told = tomllib.loads(files(__package__).joinpath("named_metrics.toml").read_text(encoding="utf-8"))
    metrics: Mapping[str, Any] = told["metrics"]
    named: dict[str, PointwiseMetric | PairwiseMetric] = {}
    named |= {name: _make_pointwise(name, parts) for name, parts in metrics.items()}
    named |= {
        f"{PAIRWISE}{name}": _make_pairwise(f"{PAIRWISE}{name}", parts, told["comparison"])
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


# What cannot be evaluated: a task that makes no sense, and cells of a result that stay empty, each with its reason.


class EvaluationError(ValueError):
    """A task cannot be evaluated as it is. The message is one sentence for each thing that is wrong."""


class Problem(NamedTuple):
    """Why a cell of a result is empty.

    `row` counts from 1 in the order of the dataset, as messages do everywhere: row 2 is `rows[1]` of the result, and
    `row_2` where rows have no ids. An ERROR is work that could not be done, UNDEFINED a value that
    does not exist, such as the precision of an agent that called no tool.
    """

    row: int
    column: str
    status: Literal["ERROR", "UNDEFINED"]
    reason: str
