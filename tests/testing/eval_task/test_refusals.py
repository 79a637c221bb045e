"""Tasks that cannot be evaluated: one clear message for each error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.testing.evaluation.evaluated import PROMPTS
from workbench.testing import CustomMetric, EvalTask, EvaluationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["trajectory_single_tool_use"]}, "expected TrajectorySingleToolUse"),
        ({"metrics": ["trajectory_precison"]}, "'trajectory_precision' (did you mean that?)"),
        ({"metrics": ["bleu", "bleu"]}, "found 'bleu' twice"),
        ({"metrics": []}, "expected a list of metrics"),
        ({"metrics": [7]}, "found an int (7)"),
    ],
)
def test_invalid_metrics_are_refused_with_one_clear_message(options: Any, message: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        EvalTask(dataset=PROMPTS, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        ({"prompt": ["a"], "reference": []}, {}, "reference: found 0 rows, expected 1 row, as in prompt"),
        ([], {}, "found no rows"),
        (7, {}, "expected a file, a pandas DataFrame"),
        ("gone.jsonl", {}, "gone.jsonl: cannot read it"),
        ({"question": ["a"]}, {"runnable": str}, "expected 'prompt', or a prompt_template"),
        (PROMPTS, {"runnable": 7}, "expected a function f(prompt)"),
        (PROMPTS, {"runnable": str, "model": str}, "expected one of them"),
        (
            [{"prompt": "a", "response": "b"}],
            {"model": str},
            "model: found one beside responses in the column 'response'",
        ),
        (PROMPTS, {"runnable": str, "prompt_template": "{promt}"}, "did you mean 'prompt'?"),
        (PROMPTS, {"experiment_run_name": "r"}, "expected EvalTask(experiment=)"),
        (PROMPTS, {"timeout_seconds": 0}, "expected a number above 0"),
    ],
)
def test_an_invalid_task_is_refused_with_one_clear_message(dataset: Any, options: Any, message: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate(**options)
    assert message in str(raised.value)


def test_a_dataset_without_columns_for_any_metric_is_refused_with_expectations() -> None:
    task = EvalTask(
        dataset={"question": ["a"], "response": ["b"]}, metrics=["exact_match", "bleu", "trajectory_recall"]
    )

    with pytest.raises(EvaluationError) as raised:
        task.evaluate()

    assert str(raised.value).startswith(
        "dataset: found the columns question, response, expected reference for exact_match, bleu; "
        "predicted_trajectory and reference_trajectory for trajectory_recall"
    )


def test_a_comparison_without_a_baseline_is_refused_with_the_missing_column() -> None:
    task = EvalTask(dataset={"prompt": ["a"], "response": ["b"]}, metrics=["pairwise_fluency"])

    with pytest.raises(EvaluationError) as raised:
        task.evaluate()

    assert str(raised.value) == (
        "dataset: found the columns prompt, response, expected baseline_model_response for pairwise_fluency "
        "(use metric_column_mapping if they have other names)"
    )


def test_a_comparison_without_a_baseline_affects_no_other_metric() -> None:
    dataset = {"prompt": ["a"], "response": ["a"], "reference": ["a"]}
    task = EvalTask(dataset=dataset, metrics=["exact_match", "pairwise_fluency"])

    with pytest.warns(UserWarning, match="expected baseline_model_response for pairwise_fluency"):
        result = task.evaluate()

    assert result.summary_metrics["exact_match/mean"] == 1.0
    assert result.rows[0]["pairwise_fluency/pairwise_choice"] is None


def test_metrics_without_their_columns_are_a_warning_and_others_are_scored() -> None:
    task = EvalTask(dataset={"prompt": ["a"], "reference": ["a"]}, metrics=["exact_match", "trajectory_recall"])

    with pytest.warns(UserWarning, match="expected reference_trajectory for trajectory_recall") as caught:
        result = task.evaluate(runnable=str)

    assert [Path(warning.filename).name for warning in caught] == ["test_refusals.py"]
    assert result.summary_metrics["exact_match/mean"] == 1.0


def test_a_custom_metric_requires_no_column() -> None:
    result = EvalTask(dataset={"question": ["a"]}, metrics=[CustomMetric("one", lambda row: 1)]).evaluate()

    assert result.summary_metrics["one/mean"] == 1.0
