"""Judge metrics defined in a configuration: a rating of the response, or a comparison with a baseline.

Facts: Vertex AI documentation, PointwiseMetric and PairwiseMetric. The prompt has instruction, definition, criteria,
rubric, steps, examples, inputs and responses, in this order. Differences here: inputs are sorted, a value is never read
as a variable, and `prompt` is the default input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.judge_calls import (
    SAMPLES,
    by_majority_of_two,
    by_mean,
    by_preference,
    describe_judge_options,
    read_judge_options,
)
from workbench.metrics.judges.judge_prompts import PROMPTS
from workbench.metrics.judges.reply_parser import read_choice, read_rating
from workbench.metrics.judges.transcript import (
    VARIABLES,
    fill_template,
    find_value,
    find_values,
    find_variables,
    format_response,
)
from workbench.metrics.metric_types import (
    Conclusion,
    Judge,
    MetricInfo,
    ModelJudge,
    ModelQuestion,
    Opinion,
    Options,
    find_nearest,
)
from workbench.model.criteria import BASELINE_COLUMN, CHOICES, InvalidConfig, JudgeMetric
from workbench.model.results import Score

PAIRWISE_SAMPLES = 4
"""Default number of samples of a pairwise metric: even, because half of them are flipped."""

_RESPONSE = "response"
_REFERENCE_INPUTS = frozenset({"reference", "reference_trajectory"})
_NO_BASELINE = Score.undefined("no earlier run has a response of this case to compare with")


def make_judge_metric_info(name: str, metric: JudgeMetric) -> MetricInfo:
    """Describe a metric of a configuration."""
    ratings = metric.ratings
    pairwise = metric.kind == "pairwise"
    return MetricInfo(
        name=name,
        family="judge",
        purpose=metric.description or metric.metric_definition or "A judge metric of this configuration.",
        when="0.5 is as good as the baseline." if pairwise else "",
        lowest=ratings[0] if ratings else None,
        highest=ratings[-1] if ratings else None,
        needs_reference=False,
        needs=frozenset({"judge"}),
        fits_scenarios=not _REFERENCE_INPUTS.intersection(list_inputs(metric)),
        options=describe_judge_options(samples=PAIRWISE_SAMPLES if pairwise else SAMPLES),
    )


def prepare_judge_metric(name: str, metric: JudgeMetric, options: Options) -> Sequence[Judge]:
    """Make the judge of a configured metric. Problems are added to `options`."""
    pairwise = metric.kind == "pairwise"
    judge = read_judge_options(options, samples=PAIRWISE_SAMPLES if pairwise else SAMPLES)
    if metric.flip and judge.samples % 2:
        options.refuse(
            "judge_model_options.num_samples",
            found=str(judge.samples),
            expected='an even number, because half of the samples swap the two answers (or "flip": false)',
        )
    options.problems.extend(_check_template(name, metric))
    ask = partial(ask_for_preference if pairwise else ask_for_rating, name=name, metric=metric)
    return [ModelJudge(name=name, options=judge, ask=ask, has_win_rates=pairwise)]


def find_unknown_inputs(name: str, metric: JudgeMetric, columns: Collection[str]) -> Iterator[InvalidConfig]:
    """Find the variables of a metric that cases with these columns do not have. Only datasets have columns.

    A dataset without the default baseline column is not a mistake of the metric: see `registry.find_missing_columns`.
    """
    known_variables = sorted({*VARIABLES, *columns})
    baseline = metric.baseline.column if metric.baseline is not None else None
    for variable in list_inputs(metric):
        if variable not in known_variables:
            place = "input_variables" if metric.template is None else "metric_prompt_template"
            yield _report_unknown(
                f"judge_metrics.{name}.{place}", f"the unknown variable {variable!r}", variable, known_variables
            )
    if baseline is not None and baseline not in columns:
        found = f"the column {baseline!r}, which the cases do not have"
        if columns and baseline != BASELINE_COLUMN:
            yield _report_unknown(f"judge_metrics.{name}.baseline", found, baseline, sorted(columns))
        elif not columns:
            expected = 'a dataset with that column, or "baseline": {"run": "latest"}'
            yield InvalidConfig(place=f"judge_metrics.{name}.baseline", found=found, expected=expected)


def ask_for_rating(turn: Turn, view: CaseView, *, name: str, metric: JudgeMetric) -> ModelQuestion | Score:
    """Build the question how good the response of a turn is."""
    del name
    values = find_values(list_inputs(metric), turn, view)
    if isinstance(values, Score):
        return values
    ratings = metric.ratings
    prompt = _render_prompt(metric, values, response=values.pop(_RESPONSE, ""), baseline=None)
    return ModelQuestion(
        prompt=prompt,
        system=metric.system_instruction,
        reply_schema=_make_schema("score", {"type": "number"}),
        read=partial(read_rating, ratings=ratings),
        conclude=_choose_conclusion(ratings),
        lowest=ratings[0] if ratings else None,
        best=ratings[-1] if ratings else None,
    )


def ask_for_preference(turn: Turn, view: CaseView, *, name: str, metric: JudgeMetric) -> ModelQuestion | Score:
    """Build the question whether the response of a turn is better than the baseline; with `flip`, in both orders."""
    baseline = _find_baseline(turn, view, name=name, metric=metric)
    if isinstance(baseline, Score):
        return baseline
    values = find_values((each for each in list_inputs(metric) if each != BASELINE_COLUMN), turn, view)
    if isinstance(values, Score):
        return values
    response = values.pop(_RESPONSE, "")
    straight = _build_pairwise_question(metric, values, candidate=response, baseline=baseline, flipped=False)
    if not metric.flip:
        return straight
    return replace(
        straight, flipped=_build_pairwise_question(metric, values, candidate=response, baseline=baseline, flipped=True)
    )


def _build_pairwise_question(
    metric: JudgeMetric, values: Mapping[str, str], *, candidate: str, baseline: str, flipped: bool
) -> ModelQuestion:
    first, second = (candidate, baseline) if flipped else (baseline, candidate)
    return ModelQuestion(
        prompt=_render_prompt(metric, values, response=second, baseline=first),
        system=metric.system_instruction,
        reply_schema=_make_schema("pairwise_choice", {"type": "string", "enum": list(CHOICES)}),
        read=partial(read_choice, flipped=flipped),
        conclude=by_preference,
    )


def format_template(metric: JudgeMetric) -> str:
    """Return the prompt of a metric with `{variable}` in the place of each value."""
    values = {name: f"{{{name}}}" for name in list_inputs(metric) if name != _RESPONSE}
    baseline = f"{{{BASELINE_COLUMN}}}" if metric.kind == "pairwise" else None
    return _render_prompt(metric, values, response=f"{{{_RESPONSE}}}", baseline=baseline)


def _render_prompt(metric: JudgeMetric, values: Mapping[str, str], *, response: str, baseline: str | None) -> str:
    """Render the prompt. If there is a `baseline`, it comes first and `response` second."""
    template = metric.template
    if template is not None:
        template = fill_template(
            template, {**values, _RESPONSE: response, **({} if baseline is None else {BASELINE_COLUMN: baseline})}
        )
    return PROMPTS.render(
        "templated",
        template=template,
        instruction=metric.instruction,
        metric_definition=metric.metric_definition,
        criteria=metric.criteria,
        rating_rubric=metric.rating_rubric,
        ratings=list(metric.rating_rubric),
        evaluation_steps=metric.evaluation_steps,
        few_shot_examples=metric.few_shot_examples,
        inputs=values,
        response=response,
        baseline=baseline,
    )


def list_inputs(metric: JudgeMetric) -> Sequence[str]:
    """Return the variables of the prompt, sorted."""
    variables = {*metric.input_variables, _RESPONSE} if metric.template is None else {*find_variables(metric.template)}
    return sorted(variables - {BASELINE_COLUMN} if metric.kind == "pairwise" else variables)


def _find_baseline(turn: Turn, view: CaseView, *, name: str, metric: JudgeMetric) -> str | Score:
    """Find the response to compare with."""
    assert metric.baseline is not None
    if metric.baseline.column is not None:
        text = find_value(metric.baseline.column, turn, view)
        return Score.undefined(f"the row has no {metric.baseline.column}") if text is None else text
    subject = view.subject
    number = next(index for index, each in enumerate(view.turns) if each is turn)
    for execution in subject.baselines.get(name, ()):
        if execution.turns == subject.execution.turns:
            continue  # this is the judged execution itself
        if number >= len(execution.turns):
            return Score.undefined(f"the earlier run has no turn {number + 1}")
        return format_response(execution.turns[number].invocation)
    return _NO_BASELINE


def _check_template(name: str, metric: JudgeMetric) -> Iterator[InvalidConfig]:
    """Yield a problem if the template lacks a variable without which the judge would not see the response."""
    if metric.template is None:
        return
    needed = {_RESPONSE, BASELINE_COLUMN} if metric.kind == "pairwise" else {_RESPONSE}
    missing = sorted(needed - set(find_variables(metric.template)))
    if metric.kind == "pointwise" and not find_variables(metric.template):
        found = "a template without a variable"
    elif metric.kind == "pairwise" and missing:
        found = f"a template without {{{missing[0]}}}"
    else:
        return
    place = f"judge_metrics.{name}.metric_prompt_template"
    yield InvalidConfig(place=place, found=found, expected=f"{{{missing[0]}}} where the text belongs")


def _report_unknown(place: str, found: str, name: str, known_names: Sequence[str]) -> InvalidConfig:
    guess = find_nearest(name, known_names)
    expected = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(known_names)}"
    return InvalidConfig(place=place, found=found, expected=expected)


def _choose_conclusion(ratings: Sequence[float] | None) -> Callable[[Sequence[Opinion]], Conclusion]:
    """Choose the majority for two possible ratings, the mean for more."""
    if ratings is None or len(ratings) > 2:
        return by_mean
    return partial(by_majority_of_two, low=ratings[0], high=ratings[-1])


def _make_schema(key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {"explanation": {"type": "string"}, key: dict(value)},
        "required": ["explanation", key],
    }
