"""Metrics and templates with the names, texts and arguments of the SDK."""

from __future__ import annotations

import pytest

from workbench.testing import (
    CustomMetric,
    EvalTask,
    EvaluationError,
    MetricPromptTemplateExamples,
    PairwiseMetricPromptTemplate,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
    PromptTemplate,
    Rouge,
    TrajectorySingleToolUse,
    metrics,
)

PASS_OR_FAIL = PointwiseMetricPromptTemplate(
    criteria={"Short": "Is it short?"}, rating_rubric={"pass": "it is", "fail": "it is not"}
)


def test_a_template_is_filled_in_parts_and_values_are_not_read_as_variables() -> None:
    template = PromptTemplate('{{"a": 1}} {name}: {text}')

    partly = template.assemble(name="{text}")
    wholly = partly.assemble(text=3)

    assert template.variables == {"name", "text"}
    assert str(template) == template.template == '{{"a": 1}} {name}: {text}'
    assert (str(partly), partly.variables) == ('{{"a": 1}} {text}: {text}', {"text"})
    assert (str(wholly), wholly.variables) == ('{"a": 1} {text}: 3', set())
    with pytest.raises(EvaluationError, match="found 'nam', expected a variable of the template: name, text"):
        template.assemble(nam="x")


@pytest.mark.parametrize(
    ("template", "variables"),
    [
        (PASS_OR_FAIL, {"prompt", "response"}),
        (
            PairwiseMetricPromptTemplate(criteria={"c": "d"}, rating_rubric={"A": "a", "SAME": "s", "B": "b"}),
            {"prompt", "response", "baseline_model_response"},
        ),
    ],
)
def test_a_judge_template_is_its_prompt(template: PointwiseMetricPromptTemplate, variables: set[str]) -> None:
    assert str(template) == template.prompt_data
    assert template.variables == variables
    assert "## Rating Rubric" in template.prompt_data
    assert "hello" in str(template.assemble(prompt="hello"))


def test_pass_and_fail_are_ratings() -> None:
    assert "1: pass: it is" in PASS_OR_FAIL.prompt_data
    assert "0: fail: it is not" in PASS_OR_FAIL.prompt_data
    EvalTask(dataset={}, metrics=[PointwiseMetric(metric="m", metric_prompt_template=PASS_OR_FAIL)])


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (TrajectorySingleToolUse("t"), "trajectory_single_tool_use"),
        (Rouge(rouge_type="rouge1"), "rouge"),
        (CustomMetric("mine", len), "mine"),
        (PointwiseMetric(metric="m", metric_prompt_template="{response}"), "m"),
        (MetricPromptTemplateExamples.Pairwise.FLUENCY, "pairwise_fluency"),
    ],
)
def test_a_metric_is_printed_as_its_name(metric: CustomMetric, name: str) -> None:
    assert (str(metric), metric.metric_name) == (name, name)


def test_rouge_compares_groups_of_up_to_nine_words() -> None:
    dataset = {"response": ["a b c d e f g h i x"], "reference": ["a b c d e f g h i y"]}

    def score(metric: Rouge | str) -> float:
        return EvalTask(dataset=dataset, metrics=[metric], history=False).evaluate().summary_metrics["rouge/mean"]

    assert score("rouge") == score(Rouge(rouge_type="rouge1")) == pytest.approx(0.9)
    assert score(Rouge(rouge_type="rouge3")) == pytest.approx(7 / 8)
    assert score(Rouge(rouge_type="rouge9")) == pytest.approx(1 / 2)


@pytest.mark.parametrize("name", ["Comet", "MetricX"])
def test_metrics_that_need_the_service_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(EvaluationError, match=f"{name}: .*needs a neural model"):
        getattr(metrics.pointwise_metric, name)(version="V", source_language="en", target_language="fr")
