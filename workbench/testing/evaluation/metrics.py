"""Metrics as a task names them. They say what is wanted; `criteria` makes of them what the engine judges by.

Names and fields are those of the Vertex AI SDK, "vertexai.preview.evaluation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
        from workbench.metrics.judges.variables import fill_in

        return fill_in(self.template, values)


Metric = str | TrajectorySingleToolUse | Rouge | CustomMetric | PointwiseMetric | PairwiseMetric
