"""Judge metrics that a configuration defines: how good a response is by a rating rubric, or whether it is better.

Facts: Vertex AI documentation, PointwiseMetric and PairwiseMetric. As there the prompt has instruction, definition,
criteria, rubric, steps, examples, inputs and responses in this order. Unlike there the inputs always have the same
order, what a value says is never taken for a variable, and the prompt is an input where nobody says which are.
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
    describe_options,
    read_judge_options,
)
from workbench.metrics.judges.judge_prompts import render
from workbench.metrics.judges.reply_parser import read_choice, read_rating
from workbench.metrics.judges.transcript import VARIABLES, fill_in, names_in, response_of, value_of, values_of
from workbench.metrics.metric_types import (
    Conclusion,
    Judge,
    MetricInfo,
    ModelJudge,
    ModelQuestion,
    Opinion,
    Options,
    nearest,
)
from workbench.model.criteria import BASELINE_COLUMN, CHOICES, InvalidConfig, JudgeMetric
from workbench.model.results import Score

PAIRWISE_SAMPLES = 4
"""How often the judge of a pairwise metric is asked where nothing else is said: an even number, half of it flipped."""

_RESPONSE = "response"
_OF_EXPECTED = frozenset({"reference", "reference_trajectory"})
_NO_EARLIER = Score.undefined("no earlier run has a response of this case to compare with")


def info_of_judge_metric(name: str, metric: JudgeMetric) -> MetricInfo:
    """What people need to know about a metric of a configuration."""
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
        fits_scenarios=not _OF_EXPECTED.intersection(inputs_of(metric)),
        options=describe_options(samples=PAIRWISE_SAMPLES if pairwise else SAMPLES),
    )


def prepare_judge_metric(name: str, metric: JudgeMetric, options: Options) -> Sequence[Judge]:
    """The judge of a metric of a configuration; mistakes are kept in `options`."""
    pairwise = metric.kind == "pairwise"
    judge = read_judge_options(options, samples=PAIRWISE_SAMPLES if pairwise else SAMPLES)
    if metric.flip and judge.samples % 2:
        options.refuse(
            "judge_model_options.num_samples",
            found=str(judge.samples),
            expected='an even number, as half of the samples are asked the other way round (or "flip": false)',
        )
    options.problems.extend(_problems_of_template(name, metric))
    ask = partial(ask_which_is_better if pairwise else ask_for_rating, name=name, metric=metric)
    return [ModelJudge(name=name, options=judge, ask=ask, tells_wins=pairwise)]


def unknown_inputs(name: str, metric: JudgeMetric, columns: Collection[str]) -> Iterator[InvalidConfig]:
    """The variables of a metric that nothing stands for in cases with these columns, which are none but in datasets.

    That a dataset lacks the usual column of a baseline is no mistake of the metric: see `fitting.lacking_columns`.
    """
    known = sorted({*VARIABLES, *columns})
    baseline = metric.baseline.column if metric.baseline is not None else None
    for variable in inputs_of(metric):
        if variable not in known:
            place = "input_variables" if metric.template is None else "metric_prompt_template"
            yield _unknown(f"judge_metrics.{name}.{place}", f"the unknown variable {variable!r}", variable, known)
    if baseline is not None and baseline not in columns:
        found = f"the column {baseline!r}, which the cases do not have"
        if columns and baseline != BASELINE_COLUMN:
            yield _unknown(f"judge_metrics.{name}.baseline", found, baseline, sorted(columns))
        elif not columns:
            expected = 'a dataset with that column, or "baseline": {"run": "latest"}'
            yield InvalidConfig(place=f"judge_metrics.{name}.baseline", found=found, expected=expected)


def ask_for_rating(turn: Turn, view: CaseView, *, name: str, metric: JudgeMetric) -> ModelQuestion | Score:
    """The question how good the response of a turn is."""
    del name
    values = values_of(inputs_of(metric), turn, view)
    if isinstance(values, Score):
        return values
    ratings = metric.ratings
    prompt = _prompt(metric, values, response=values.pop(_RESPONSE, ""), baseline=None)
    return ModelQuestion(
        prompt=prompt,
        system=metric.system_instruction,
        reply_schema=_schema("score", {"type": "number"}),
        read=partial(read_rating, ratings=ratings),
        conclude=_concluding(ratings),
        lowest=ratings[0] if ratings else None,
        best=ratings[-1] if ratings else None,
    )


def ask_which_is_better(turn: Turn, view: CaseView, *, name: str, metric: JudgeMetric) -> ModelQuestion | Score:
    """The question whether the response of a turn is better than the baseline, both ways round where that is wanted."""
    baseline = _baseline(turn, view, name=name, metric=metric)
    if isinstance(baseline, Score):
        return baseline
    values = values_of((each for each in inputs_of(metric) if each != BASELINE_COLUMN), turn, view)
    if isinstance(values, Score):
        return values
    response = values.pop(_RESPONSE, "")
    straight = _pairwise_question(metric, values, candidate=response, baseline=baseline, flipped=False)
    if not metric.flip:
        return straight
    return replace(
        straight, flipped=_pairwise_question(metric, values, candidate=response, baseline=baseline, flipped=True)
    )


def _pairwise_question(
    metric: JudgeMetric, values: Mapping[str, str], *, candidate: str, baseline: str, flipped: bool
) -> ModelQuestion:
    first, second = (candidate, baseline) if flipped else (baseline, candidate)
    return ModelQuestion(
        prompt=_prompt(metric, values, response=second, baseline=first),
        system=metric.system_instruction,
        reply_schema=_schema("pairwise_choice", {"type": "string", "enum": list(CHOICES)}),
        read=partial(read_choice, flipped=flipped),
        conclude=by_preference,
    )


def template_of(metric: JudgeMetric) -> str:
    """What the judge of a metric is asked, with `{variable}` where a value belongs."""
    values = {name: f"{{{name}}}" for name in inputs_of(metric) if name != _RESPONSE}
    baseline = f"{{{BASELINE_COLUMN}}}" if metric.kind == "pairwise" else None
    return _prompt(metric, values, response=f"{{{_RESPONSE}}}", baseline=baseline)


def _prompt(metric: JudgeMetric, values: Mapping[str, str], *, response: str, baseline: str | None) -> str:
    """The prompt; `response` is the second of two where there is a `baseline`."""
    template = metric.template
    if template is not None:
        template = fill_in(
            template, {**values, _RESPONSE: response, **({} if baseline is None else {BASELINE_COLUMN: baseline})}
        )
    return render(
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


def inputs_of(metric: JudgeMetric) -> Sequence[str]:
    """The variables that the prompt shows, in alphabetical order."""
    named = {*metric.input_variables, _RESPONSE} if metric.template is None else {*names_in(metric.template)}
    return sorted(named - {BASELINE_COLUMN} if metric.kind == "pairwise" else named)


def _baseline(turn: Turn, view: CaseView, *, name: str, metric: JudgeMetric) -> str | Score:
    """The response that this one is compared with."""
    assert metric.baseline is not None
    if metric.baseline.column is not None:
        text = value_of(metric.baseline.column, turn, view)
        return Score.undefined(f"the row has no {metric.baseline.column}") if text is None else text
    subject = view.subject
    number = next(index for index, each in enumerate(view.turns) if each is turn)
    for execution in subject.baselines.get(name, ()):
        if execution.turns == subject.execution.turns:
            continue  # that is what is judged
        if number >= len(execution.turns):
            return Score.undefined(f"the earlier run did not come to turn {number + 1}")
        return response_of(execution.turns[number].invocation)
    return _NO_EARLIER


def _problems_of_template(name: str, metric: JudgeMetric) -> Iterator[InvalidConfig]:
    """What makes a template useless: the judge would not see what it is to judge."""
    if metric.template is None:
        return
    needed = {_RESPONSE, BASELINE_COLUMN} if metric.kind == "pairwise" else {_RESPONSE}
    missing = sorted(needed - set(names_in(metric.template)))
    if metric.kind == "pointwise" and not names_in(metric.template):
        found = "a template without a variable"
    elif metric.kind == "pairwise" and missing:
        found = f"a template without {{{missing[0]}}}"
    else:
        return
    place = f"judge_metrics.{name}.metric_prompt_template"
    yield InvalidConfig(place=place, found=found, expected=f"{{{missing[0]}}} where the text belongs")


def _unknown(place: str, found: str, name: str, known: Sequence[str]) -> InvalidConfig:
    guess = nearest(name, known)
    expected = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(known)}"
    return InvalidConfig(place=place, found=found, expected=expected)


def _concluding(ratings: Sequence[float] | None) -> Callable[[Sequence[Opinion]], Conclusion]:
    """Of two ratings the majority counts; where there are more they are grades."""
    if ratings is None or len(ratings) > 2:
        return by_mean
    return partial(by_majority_of_two, low=ratings[0], high=ratings[-1])


def _schema(key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {"explanation": {"type": "string"}, key: dict(value)},
        "required": ["explanation", key],
    }
