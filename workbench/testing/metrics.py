"""The metrics of a task and what configures them, its result and its errors. Names and arguments are those of the SDK.

`metric_criteria` converts metrics to criteria of the engine.
"""

from __future__ import annotations

import html
import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from workbench.model.installation import install_command
from workbench.model.text import neutralise, one_line, pluralise, suggest_name

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.model.criteria import JudgeMetric

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
        self,
        summary_metrics: Mapping[str, float],
        metrics_table: DataFrame | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """A result of other origin, for the helpers of notebooks. Without a table it has no rows."""
        self.summary_metrics = dict(summary_metrics)
        self.metadata = dict(metadata or {})
        self.problems: tuple[Problem, ...] = ()
        self._frame: Any = None
        self.__dict__["metrics_table"] = metrics_table

    @classmethod
    def from_rows(
        cls,
        summary_metrics: Mapping[str, float],
        rows: list[dict[str, Any]],
        *,
        columns: Sequence[str],
        problems: Iterable[Problem],
        frame: Any,
        metadata: Mapping[str, str],
    ) -> EvalResult:
        """Make the result of an evaluation. Every row has all `columns`.

        `frame` has the unchanged columns of the pandas frame from which the rows came, if there was one.
        """
        result = cls(summary_metrics, metadata=metadata)
        result.problems = tuple(problems)
        result.rows, result._columns, result._frame = rows, columns, frame
        del result.__dict__["metrics_table"]
        return result

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        frame = self.__dict__["metrics_table"]
        return [] if frame is None else read_records(frame)

    @cached_property
    def metrics_table(self) -> DataFrame | None:
        """The rows as a pandas frame, with the index of the dataset if it is a frame.

        Raises EvaluationError if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            hint = install_command("pandas")
            raise EvaluationError(
                f"metrics_table needs pandas ({hint}); `rows` has the same data without pandas"
            ) from None
        positions = {} if self._frame is None else {str(name): place for place, name in enumerate(self._frame.columns)}
        columns = {
            # Arrays, because pandas would align a series by its index, which may have duplicates.
            name: self._frame.iloc[:, positions[name]].array if name in positions else [row[name] for row in self.rows]
            for name in self._columns
        }
        return pd.DataFrame(columns, index=None if self._frame is None else self._frame.index)

    def __repr__(self) -> str:
        lines = [f"EvalResult of {pluralise(len(self.rows), 'row')}{self._metadata_text()}"]
        lines += [f"  {name}: {format_number(value)}" for name, value in self.summary_metrics.items()]
        lines += [f"  {line}" for line in self._problem_lines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return two tables for notebooks: the numbers and the first rows. All text is escaped."""
        summary = format_html_table(
            ("metric", "value"), ((n, format_number(v)) for n, v in self.summary_metrics.items())
        )
        rows = format_html_table(
            self._columns, ([row[name] for name in self._columns] for row in self.rows[:_ROWS_SHOWN])
        )
        hidden_rows = len(self.rows) - _ROWS_SHOWN
        more = f"<p>and {pluralise(hidden_rows, 'row')} more, in <code>rows</code></p>" if hidden_rows > 0 else ""
        problems = "".join(f"<li>{escape_html(line)}</li>" for line in self._problem_lines())
        heading = escape_html(f"{pluralise(len(self.rows), 'row')}{self._metadata_text()}")
        return f"<div><p>{heading}</p>{summary}{rows}{more}<ul>{problems}</ul></div>"

    @cached_property
    def _columns(self) -> Sequence[str]:
        return list(self.rows[0]) if self.rows else []

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


def format_number(value: float) -> str:
    return "not computed" if math.isnan(value) else f"{value:g}"


def format_html_table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table of HTML. All text is escaped, and long cells are cut."""
    head = "".join(f"<th>{escape_html(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_format_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return escape_html(text if len(text) <= _CELL_WIDTH else text[: _CELL_WIDTH - 1] + "…")


def escape_html(text: str) -> str:
    """Escape text for HTML, and neutralise its control characters."""
    return html.escape(neutralise(text))


def to_frame(value: Any, *, name: str) -> DataFrame:
    """Return a pandas frame of rows or columns; a frame itself. Raises EvaluationError for other values."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return value
    if isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(row, Mapping) for row in value)):
        import pandas as pd

        return pd.DataFrame(value)
    raise EvaluationError(f"{name}: found a {type(value).__name__}, expected a pandas DataFrame or a list of rows")


def read_records(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a pandas frame as dicts, with None for missing values."""
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) is True else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


# Metrics that compute.


class _NamedMetric:
    """A metric with the name under which its columns are found."""

    @property
    def metric_name(self) -> str:
        """The part of its column names before the slash."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.metric_name


@dataclass(frozen=True)
class TrajectorySingleToolUse(_NamedMetric):
    """1 if the agent called this tool at all, else 0."""

    tool_name: str
    metric_name = "trajectory_single_tool_use"


@dataclass(frozen=True, kw_only=True)
class Rouge(_NamedMetric):
    """ROUGE under the column `rouge/score`: `rouge_type` is rouge1 to rouge9, rougeL or rougeLsum.

    The metrics `rouge_1`, `rouge_2`, `rouge_l` and `rouge_l_sum` are equivalent. `split_summaries` is not supported
    with rougeLsum, which takes each line as a sentence.
    """

    rouge_type: str
    use_stemmer: bool = False
    split_summaries: bool = False
    metric_name = "rouge"


@dataclass(frozen=True)
class CustomMetric(_NamedMetric):
    """A function of the caller: `f(row)` returns a number, or a dict with a number under `name` and perhaps others.

    The row is a copy: a dict of the dataset's columns, with `prompt`, `response`, `predicted_trajectory`, `reference`
    and `reference_trajectory` if they are known. Further values of the dict become columns `name/key`. A value under
    `score` is ignored if there is one under `name`, because the column `name/score` has the score of the metric. The
    function may be `async`. It is not called for rows whose agent failed.
    """

    name: str
    metric_function: Callable[[dict[str, Any]], Any]

    @property
    def metric_name(self) -> str:
        return self.name


class _UnavailableMetric:
    """A metric of the SDK that nothing here can compute."""

    def __init__(
        self, *, version: str = "", source_language: str | None = None, target_language: str | None = None
    ) -> NoReturn:
        """Raises EvaluationError with the reason."""
        del version, source_language, target_language
        name = type(self).__name__
        raise EvaluationError(
            f"{name}: found a metric of the Vertex AI service, expected one that runs here: it needs a neural model "
            "that workbench does not have; use a CustomMetric that calls your copy of it, or 'bleu'"
        )


class Comet(_UnavailableMetric):
    """COMET, which only the service computes."""


class MetricX(_UnavailableMetric):
    """MetricX, which only the service computes."""


# Templates of prompts.


class PromptTemplate:
    """A prompt with `{column}` for the value of a column. Two braces are an escaped brace."""

    def __init__(self, template: str | PromptTemplate) -> None:
        """A template with values keeps them."""
        self._text: str = template._text if isinstance(template, PromptTemplate) else str(template)
        self._values: dict[str, str] = dict(template._values) if isinstance(template, PromptTemplate) else {}

    @property
    def template(self) -> str:
        """The text, with the values that were filled in."""
        from workbench.metrics.judges.transcript import fill_template

        variables = self.variables
        if not self._values:
            return self._text
        if not variables:
            return fill_template(self._text, self._values)
        return self._fill(self._values)

    @property
    def escaped(self) -> str:
        """The text with the values, to be read as a template again: braces of values are escaped."""
        if not self._values:
            return self._text
        return self._fill({name: _double_braces(value) for name, value in self._values.items()})

    def _fill(self, values: Mapping[str, str]) -> str:
        """Return the text with values, in which escaped braces stay escaped."""
        from workbench.metrics.judges.transcript import fill_template

        text = self._text.replace("{{", "{{{{").replace("}}", "}}}}")
        return fill_template(text, {**{name: f"{{{name}}}" for name in self.variables}, **values})

    @property
    def variables(self) -> set[str]:
        """The names of the variables that have no value yet."""
        from workbench.metrics.judges.transcript import find_variables

        return set(find_variables(self._text)) - self._values.keys()

    def assemble(self, **kwargs: Any) -> PromptTemplate:
        """Return the template with values for some or all variables. Variables in a value are not read.

        Raises EvaluationError for a name that is no variable of the template.
        """
        variables = self.variables
        for name in kwargs:
            if name not in variables:
                expected = ", ".join(sorted(variables)) or "no variable"
                raise EvaluationError(
                    f"assemble: found {name!r}, expected a variable of the template: {expected}"
                    f"{suggest_name(name, variables)}"
                )
        filled = PromptTemplate(self._text)
        filled._values = {**self._values, **{name: str(value) for name, value in kwargs.items()}}
        return filled

    def __str__(self) -> str:
        return self.template

    def __repr__(self) -> str:
        return f"PromptTemplate({self.template!r})"


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


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

    @property
    def prompt_data(self) -> str:
        """The text of the prompt, with `{column}` for the value of a column. Raises EvaluationError."""
        raise NotImplementedError

    @property
    def variables(self) -> set[str]:
        return PromptTemplate(self.prompt_data).variables

    def assemble(self, **kwargs: Any) -> PromptTemplate:
        return PromptTemplate(self.prompt_data).assemble(**kwargs)

    def __str__(self) -> str:
        return self.prompt_data


@dataclass(frozen=True, kw_only=True)
class PointwiseMetricPromptTemplate(_JudgePrompt):
    """The prompt of a judge that rates a response. The ratings of the rubric are numbers as text, or `pass` and `fail`,
    which are 1 and 0."""

    @property
    def prompt_data(self) -> str:
        return format_prompt(PointwiseMetric(metric="metric", metric_prompt_template=self))


@dataclass(frozen=True, kw_only=True)
class PairwiseMetricPromptTemplate(_JudgePrompt):
    """The prompt of a judge that compares two responses. The rubric defines A, SAME and B."""

    @property
    def prompt_data(self) -> str:
        return format_prompt(PairwiseMetric(metric="metric", metric_prompt_template=self))


# Metrics that ask a judge model.


@dataclass(frozen=True, kw_only=True)
class AutoraterConfig:
    """The options of a judge model: `sampling_count` samples; `flip_enabled` swaps the two responses of a comparison in
    every second sample; `generation_config` as in the Gemini API. None: as in the settings of the project and in the
    metric."""

    sampling_count: int | None = None
    flip_enabled: bool | None = None
    autorater_model: str | None = None
    generation_config: Any = None


@dataclass(frozen=True)
class CustomOutputConfig:
    """How replies of a judge are read: `return_raw_output` keeps them as text, and `parsing_fn` makes a dict of the
    replies to one row.

    Its values become columns `metric/key`; a number under `score` is the score.
    """

    return_raw_output: bool = False
    parsing_fn: Callable[[list[str]], dict[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class _JudgeMetric(_NamedMetric):
    metric: str
    metric_prompt_template: Any
    system_instruction: str | None = None
    autorater_config: Any = None
    custom_output_config: CustomOutputConfig | None = None

    @property
    def metric_name(self) -> str:
        return self.metric


@dataclass(frozen=True, kw_only=True)
class PointwiseMetric(_JudgeMetric):
    """A judge model rates each response. The template may be a text with `{column}` where a value belongs."""

    metric_prompt_template: PointwiseMetricPromptTemplate | PromptTemplate | str


@dataclass(frozen=True, kw_only=True)
class PairwiseMetric(_JudgeMetric):
    """A judge model compares the response with that of a baseline.

    The baseline answers the same prompts; without `baseline_model` the dataset has its answers in the column
    `baseline_model_response`.
    """

    metric_prompt_template: PairwiseMetricPromptTemplate | PromptTemplate | str
    baseline_model: Any = None


@dataclass(frozen=True)
class RubricGenerationConfig:
    """How questions about a prompt are written: `prompt_template` with `{prompt}`, by `model`.

    `model` is the name of a model (None: that of judges), a function or an object with `generate_content`. `parsing_fn`
    reads its reply, by default as `utils.parse_rubrics`.
    """

    prompt_template: str
    model: Any = None
    parsing_fn: Callable[[str], Any] | None = None


Metric = str | TrajectorySingleToolUse | Rouge | CustomMetric | PointwiseMetric | PairwiseMetric


# Definitions of judge metrics for the engine.

_WORDS = {"pass": "1", "fail": "0"}  # ratings that are words


def build_judge(
    metric: PointwiseMetric | PairwiseMetric, columns: Collection[str], *, flip: bool | None = None
) -> JudgeMetric:
    """Build the definition of a judge metric for a dataset with these columns. Raises EvaluationError."""
    from workbench.model.criteria import BASELINE_COLUMN, InvalidConfig, read_judge_metric

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
    from workbench.metrics.judges.templated import format_template

    return format_template(build_judge(metric, ("prompt",)))


def _build_definition(metric: PointwiseMetric | PairwiseMetric, columns: Collection[str]) -> dict[str, Any]:
    template = metric.metric_prompt_template
    if not isinstance(template, _JudgePrompt):
        return {"metric_prompt_template": PromptTemplate(template).escaped}
    variables = template.input_variables
    if variables is None:
        variables = ["prompt"] if "prompt" in columns else []
    return {
        "criteria": template.criteria,
        "rating_rubric": _number_ratings(template.rating_rubric),
        "input_variables": list(variables),
        "instruction": template.instruction,
        "metric_definition": template.metric_definition,
        "evaluation_steps": template.evaluation_steps or None,
        "few_shot_examples": template.few_shot_examples or None,
    }


def _number_ratings(rubric: Mapping[str, str]) -> Mapping[str, str]:
    """Replace the ratings `pass` and `fail` by numbers. Other rubrics are unchanged."""
    if not isinstance(rubric, Mapping) or {str(rating).lower() for rating in rubric} != _WORDS.keys():
        return rubric
    return {_WORDS[rating.lower()]: f"{rating}: {text}" for rating, text in rubric.items()}


# The model-based metrics that the Vertex AI SDK has by name, worded by the workbench.

PAIRWISE = "pairwise_"
"""The prefix of the names of comparisons."""


@cache
def read_definitions() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("named_metrics.toml").read_text(encoding="utf-8"))


@cache
def named_metrics() -> Mapping[str, PointwiseMetric | PairwiseMetric]:
    """Return all named metrics, such as `fluency` and `pairwise_fluency`; comparisons come last."""
    definitions = read_definitions()
    metrics: Mapping[str, Any] = definitions["metrics"]
    by_name: dict[str, PointwiseMetric | PairwiseMetric] = {}
    by_name |= {name: _make_pointwise(name, parts) for name, parts in metrics.items()}
    by_name |= {
        f"{PAIRWISE}{name}": _make_pairwise(f"{PAIRWISE}{name}", parts, definitions["comparison"])
        for name, parts in metrics.items()
    }
    return MappingProxyType(by_name)


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


class MetricPromptTemplateExamples:
    """The model-based metrics that have names, such as `MetricPromptTemplateExamples.Pointwise.FLUENCY`.

    `Pairwise` has the same metrics as comparisons with the column `baseline_model_response`. The prompts are those of
    the workbench, so scores may differ from those of the Vertex AI SDK.
    """

    Pointwise = SimpleNamespace(
        **{name.upper(): metric for name, metric in named_metrics().items() if isinstance(metric, PointwiseMetric)}
    )
    Pairwise = SimpleNamespace(
        **{
            name.removeprefix(PAIRWISE).upper(): metric
            for name, metric in named_metrics().items()
            if isinstance(metric, PairwiseMetric)
        }
    )

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


# Submodules of the SDK that programs import from here.

pointwise_metric = SimpleNamespace(PointwiseMetric=PointwiseMetric, Comet=Comet, MetricX=MetricX)
pairwise_metric = SimpleNamespace(PairwiseMetric=PairwiseMetric)
