"""The offers of pickers: values of options, presets, and the metrics that fit the cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workbench.metrics.registry import PRESETS, CaseFacts, Fit, check_criteria, compute_fit, known_metrics
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.evalset import EvalCase

# Options without a fixed list of values.
_FREE = {"args_match", "ignore_tools", "words", "tool_name", "ignore", "judge_model_options", "rubrics", "stop_signal"}


def list_problems(metric: str, options: dict[str, Any]) -> list[str]:
    options = {"tool_name": "x", **options} if metric == "trajectory_single_tool_use" else options
    criterion = Criterion(metric=metric, threshold=0.5, options=options)
    return [str(problem) for problem in check_criteria(EvalConfig(criteria=(criterion,), source="test"))]


def test_options_with_fixed_values_list_exactly_the_accepted_ones() -> None:
    for name, info in known_metrics().items():
        assert set(info.choices) == set(info.options) - _FREE, name
        for option, values in info.choices.items():
            assert not [problem for value in values for problem in list_problems(name, {option: value})]
            assert list_problems(name, {option: "none of them"})


def test_the_first_value_is_the_default_in_the_description() -> None:
    for info in known_metrics().values():
        for option, values in info.choices.items():
            default = json.dumps(values[0]).strip('"')
            assert f"default {default}" in info.options[option] or f"{default} (default)" in info.options[option]


def test_presets_have_valid_criteria() -> None:
    assert [preset.name for preset in PRESETS] == [
        "CI",
        "trusted reference",
        "no reference",
        "tool use",
        "grounding",
        "safety",
    ]
    for preset in PRESETS:
        assert not check_criteria(EvalConfig(criteria=preset.criteria, source=preset.name))


def test_presets_have_the_values_of_the_documentation() -> None:
    """Check the thresholds and options of its `test_config.json` and `eval_config.json`."""
    criteria = {criterion.metric: criterion for preset in PRESETS for criterion in preset.criteria}

    assert criteria["tool_trajectory_avg_score"].threshold == 1.0
    assert criteria["response_match_score"].threshold == 0.8
    assert criteria["hallucinations_v1"].threshold == 0.5
    assert criteria["hallucinations_v1"].options == {"evaluate_intermediate_nl_responses": True}
    assert criteria["safety_v1"].threshold == 0.8


def make_case(**data: Any) -> EvalCase:
    return EvalCase.model_validate({"eval_id": "a", **data})


HELLO = {"user_content": {"parts": [{"text": "hello"}]}, "final_response": {"parts": [{"text": "hi"}]}}
MUTE = {"user_content": {"parts": [{"text": "hello"}]}}
SCENARIO = {"starting_prompt": "hello", "conversation_plan": "greet"}


@pytest.mark.parametrize(
    ("metric", "fit"),
    [
        ("response_match_score", Fit(1, "an expected response in every turn")),
        ("tool_trajectory_avg_score", Fit(2, "a fixed conversation")),
        ("final_session_state_match", Fit(1, "an expected final state")),
        ("per_turn_user_simulator_quality_v1", Fit(1, "a scenario")),
        ("latency", Fit(3, "anything to judge")),
    ],
)
def test_a_metric_fits_the_cases_that_have_the_data_it_needs(metric: str, fit: Fit) -> None:
    cases = [
        make_case(conversation=[HELLO]),
        make_case(conversation=[HELLO, MUTE], final_session_state={"a": 1}),
        make_case(conversation_scenario=SCENARIO),
    ]

    facts = sum(map(CaseFacts.from_case, cases), CaseFacts())

    assert (facts.cases, facts.conversations, facts.scenarios) == (3, 2, 1)
    assert compute_fit(known_metrics()[metric], facts) == fit
