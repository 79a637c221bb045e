"""The model-based metrics that the Vertex AI SDK has by name, worded by the workbench.

Names, rating scales and the columns that a judge sees are those of the SDK; what the judge is told is in
`named_metrics.toml`, in our own words. Scores can be compared with one another, but not digit by digit with the SDK's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from workbench.testing.evaluation.metrics import (
    PairwiseMetric,
    PairwiseMetricPromptTemplate,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
)

PAIRWISE = "pairwise_"
"""How the names of comparisons begin."""


@cache
def named_metrics() -> Mapping[str, PointwiseMetric | PairwiseMetric]:
    """All of them by name, such as `fluency` and `pairwise_fluency`; those that compare come last."""
    told = tomllib.loads(files(__package__).joinpath("named_metrics.toml").read_text(encoding="utf-8"))
    metrics: Mapping[str, Any] = told["metrics"]
    named: dict[str, PointwiseMetric | PairwiseMetric] = {}
    named |= {name: _pointwise(name, parts) for name, parts in metrics.items()}
    named |= {
        f"{PAIRWISE}{name}": _pairwise(f"{PAIRWISE}{name}", parts, told["comparison"])
        for name, parts in metrics.items()
    }
    return MappingProxyType(named)


def _pointwise(name: str, parts: Mapping[str, Any]) -> PointwiseMetric:
    template = PointwiseMetricPromptTemplate(rating_rubric=parts["rating"], **_shared(parts))
    return PointwiseMetric(metric=name, metric_prompt_template=template)


def _pairwise(name: str, parts: Mapping[str, Any], comparison: Mapping[str, Any]) -> PairwiseMetric:
    template = PairwiseMetricPromptTemplate(
        rating_rubric=comparison["choices"], evaluation_steps=comparison["steps"], **_shared(parts)
    )
    return PairwiseMetric(metric=name, metric_prompt_template=template)


def _shared(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "criteria": parts["weighs"],
        "metric_definition": parts["definition"],
        "input_variables": tuple(parts.get("inputs", ("prompt",))),
    }
