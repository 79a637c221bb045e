"""Criteria and judge metrics as eval configs define them."""

from __future__ import annotations

from workbench.metrics.registry import check_criteria
from workbench.model.criteria import read_config


def test_a_judge_metric_must_not_have_the_name_of_a_builtin_metric() -> None:
    own = {"exact_match": {"metric_prompt_template": "Rate {response}"}}
    config = read_config({"criteria": {"exact_match": 1}, "judge_metrics": own}, source="test_config.json")

    (problem,) = check_criteria(config)

    assert str(problem) == "judge_metrics.exact_match: found the name of a built-in metric, expected another name"
