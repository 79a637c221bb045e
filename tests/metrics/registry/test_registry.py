"""The known metrics, and the problems that they report in a config."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.metrics.registry import check_criteria, collect_needs, find_nearest_metric, known_metrics
from workbench.model.criteria import default_config

ADK_NAMES = (
    "tool_trajectory_avg_score response_evaluation_score response_match_score safety_v1 final_response_match_v2 "
    "rubric_based_final_response_quality_v1 hallucinations_v1 rubric_based_tool_use_quality_v1 "
    "per_turn_user_simulator_quality_v1 multi_turn_task_success_v1 multi_turn_trajectory_quality_v1 "
    "multi_turn_tool_use_quality_v1 rubric_based_multi_turn_trajectory_quality_v1 tool_call_count_v1 "
    "inference_call_count_v1 token_usage_v1 invocation_duration_v1"
)


def test_every_metric_of_adk_is_known() -> None:
    assert set(ADK_NAMES.split()) <= set(known_metrics())


@pytest.mark.needs_adk
def test_no_metric_of_the_installed_adk_is_unknown() -> None:
    from google.adk.evaluation.eval_metrics import PrebuiltMetrics

    assert {metric.value for metric in PrebuiltMetrics} <= set(known_metrics())


def test_every_metric_has_the_facts_that_a_picker_needs() -> None:
    for name, info in known_metrics().items():
        assert info.name == name
        assert info.family
        assert info.purpose.endswith(".")
        assert info.when.endswith(".")
        assert info.needs <= {"text", "worker", "judge"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tool_trajectory_avg_scor", "tool_trajectory_avg_score"),
        ("Response_Match_Score", "response_match_score"),
        ("rouge1", "rouge_1"),
        ("trajectory_exact", "trajectory_exact_match"),
        ("my_metrik", "my_metric"),
        ("zzz", None),
    ],
)
def test_the_nearest_name_is_found(name: str, expected: str | None) -> None:
    assert find_nearest_metric(name, other_names=["my_metric"]) == expected


def test_an_unknown_metric_is_a_problem_with_the_nearest_name(config: Any) -> None:
    (problem,) = check_criteria(config({"tool_trajectory_avg": 1.0}, check=False))

    assert str(problem) == (
        "criteria.tool_trajectory_avg: found the unknown metric 'tool_trajectory_avg', "
        "expected 'tool_trajectory_avg_score' (did you mean that?)"
    )


def test_without_a_near_name_the_known_names_are_listed(config: Any) -> None:
    (problem,) = check_criteria(config({"zzz": 1.0}, check=False))

    assert "exact_match" in problem.expected
    assert "latency" not in problem.expected


def test_custom_metrics_are_known_and_suggested_for_misspelt_names(config: Any) -> None:
    custom = {"polite": {"code_config": {"name": "checks.polite"}}}

    assert check_criteria(config({"polite": 1.0}, custom=custom)) == []
    (problem,) = check_criteria(config({"polit": 1.0}, custom=custom, check=False))
    assert problem.expected == "'polite' (did you mean that?)"


@pytest.mark.parametrize(
    ("criteria", "place"),
    [
        ({"rouge_1": {"stemer": True}}, "criteria.rouge_1.stemer"),
        ({"rouge_1": {"tokenizer": "char"}}, "criteria.rouge_1.tokenizer"),
        ({"bleu": {"effective_order": 1}}, "criteria.bleu.effective_order"),
        ({"response_match_score": {"match_type": "EXACT"}}, "criteria.response_match_score.match_type"),
        ({"trajectory_single_tool_use": 1.0}, "criteria.trajectory_single_tool_use.tool_name"),
        ({"trajectory_single_tool_use": {"tool_name": []}}, "criteria.trajectory_single_tool_use.tool_name"),
        ({"trajectory_single_tool_use": {"tool_name": [1]}}, "criteria.trajectory_single_tool_use.tool_name"),
        ({"trajectory_recall": {"membership": "yes"}}, "criteria.trajectory_recall.membership"),
        ({"final_session_state_match": {"match": "loose"}}, "criteria.final_session_state_match.match"),
        ({"latency": {"limit": 3}}, "criteria.latency.limit"),
    ],
)
def test_a_wrong_option_is_one_problem_with_its_place(criteria: Any, place: str, config: Any) -> None:
    (problem,) = check_criteria(config(criteria, check=False))

    assert problem.place == place


@pytest.mark.parametrize("metric", ["rouge_1", "polite"])
def test_a_misspelt_threshold_is_a_problem_because_the_metric_could_not_fail(metric: str, config: Any) -> None:
    custom = {"polite": "checks.polite"}

    (problem,) = check_criteria(config({metric: {"treshold": 0.5}}, custom=custom, check=False))

    assert problem.place == f"criteria.{metric}.treshold"
    assert problem.expected == "'threshold' (did you mean that?)"


def test_a_custom_metric_may_have_any_options(config: Any) -> None:
    criteria = {"polite": {"threshold": 0.5, "thresholds": [1, 2], "tone": "warm"}, "kind": {"tone": "warm"}}

    assert check_criteria(config(criteria, custom={"polite": "checks.polite", "kind": "checks.kind"})) == []


def test_options_that_adk_allows_on_every_metric_are_accepted(config: Any) -> None:
    options = {"threshold": 0.5, "includeIntermediateResponsesInFinal": True, "judge_model_options": {}}

    assert check_criteria(config({"response_match_score": options})) == []


def test_the_services_that_a_config_needs_are_known_before_a_run(config: Any) -> None:
    assert collect_needs(default_config()) == {"text"}
    assert collect_needs(config({"tool_trajectory_avg_score": 1})) == set()
    assert collect_needs(config({"mine": 1}, custom={"mine": "checks.mine"})) == {"worker"}


@pytest.mark.parametrize(
    ("metric", "threshold", "expected"),
    [
        ("tool_trajectory_avg_score", 80, "a number from 0 to 1, the range of the metric"),
        ("rouge_1", 1.01, "a number from 0 to 1, the range of the metric"),
        ("rouge_1", -0.1, "a number from 0 to 1, the range of the metric"),
        ("safety_v1", 5, "a number from 0 to 1, the range of the metric"),
        ("response_evaluation_score", 5.5, "a number from 1 to 5, the range of the metric"),
        ("failure", 2, "a number from 0 to 1, the range of the metric"),
        ("latency", -1, "a number of at least 0"),
    ],
)
def test_a_threshold_outside_the_range_of_the_metric_is_an_error(
    config: Any, metric: str, threshold: float, expected: str
) -> None:
    for criterion in (threshold, {"threshold": threshold}):
        problems = check_criteria(config({metric: criterion}, check=False))

        assert [(problem.place, problem.found, problem.expected) for problem in problems] == [
            (f"criteria.{metric}.threshold", f"the threshold {threshold:g}", expected)
        ]


@pytest.mark.parametrize(
    ("metric", "threshold"),
    [("rouge_1", 0), ("rouge_1", 1), ("response_evaluation_score", 5), ("safety_v1", 0.5), ("latency", 80)],
)
def test_a_threshold_within_the_range_is_accepted(config: Any, metric: str, threshold: float) -> None:
    assert check_criteria(config({metric: threshold}, check=False)) == []


def test_a_custom_metric_declares_its_own_range(config: Any) -> None:
    def list_problems(**interval: float) -> list[str]:
        info = {"metric_name": "own", "metric_value_info": {"interval": interval}}
        custom = {"own": {"code_config": {"name": "own.f"}, "metric_info": info}}
        return [str(problem) for problem in check_criteria(config({"own": 80}, custom=custom, check=False))]

    assert list_problems(min_value=0, max_value=100) == list_problems() == []
    assert list_problems(min_value=0, max_value=10) == [
        "criteria.own.threshold: found the threshold 80, expected a number from 0 to 10, the range of the metric"
    ]


@pytest.mark.parametrize(
    ("model", "full_name"),
    [
        ("gpt-4o", "openai/gpt-4o"), ("o3-mini", "openai/o3-mini"), ("o1", "openai/o1"), ("GPT-5", "openai/GPT-5"),
        ("ft:gpt-4o:x", "openai/ft:gpt-4o:x"),
        ("claude-sonnet-4", "anthropic/claude-sonnet-4"), ("mistral-large-latest", "mistral/mistral-large-latest"),
        ("models/gpt-4o", "openai/gpt-4o"), ("models/claude-sonnet-4", "anthropic/claude-sonnet-4"),
    ],
)  # fmt: skip
def test_a_model_of_another_vendor_needs_its_provider(config: Any, model: str, full_name: str) -> None:
    criterion = {"threshold": 0.5, "judge_model_options": {"judge_model": model}}

    (problem,) = check_criteria(config({"safety_v1": criterion}, check=False))

    expected = f"{full_name!r}: models of vendors other than Google are named provider/model"
    assert (problem.place, problem.found, problem.expected) == (
        "criteria.safety_v1.judge_model_options.judge_model",
        repr(model),
        expected,
    )


@pytest.mark.parametrize(
    "model", ["gemini-flash-latest", "gemma-3-27b-it", "openai/gpt-4o", "models/gpt-tuned", "my-judge"]
)
def test_other_model_names_are_accepted(config: Any, model: str) -> None:
    criterion = {"threshold": 0.5, "judge_model_options": {"judge_model": model}}

    assert check_criteria(config({"safety_v1": criterion}, check=False)) == []
