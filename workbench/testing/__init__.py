"""The Python API: evaluation tasks in the manner of the Vertex AI SDK, and what tests are written with.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.testing.agent_evaluator.evaluator import AgentEvaluator
    from workbench.testing.agent_evaluator.verdicts import EvaluationIncomplete
    from workbench.testing.evaluation.examples import MetricPromptTemplateExamples
    from workbench.testing.evaluation.metrics import (
        AutoraterConfig,
        CustomMetric,
        PairwiseMetric,
        PairwiseMetricPromptTemplate,
        PointwiseMetric,
        PointwiseMetricPromptTemplate,
        PromptTemplate,
        Rouge,
        TrajectorySingleToolUse,
    )
    from workbench.testing.evaluation.problems import EvaluationError, Problem
    from workbench.testing.evaluation.result import EvalResult
    from workbench.testing.evaluation.task import EvalTask

_MODULES = {
    "AgentEvaluator": "agent_evaluator.evaluator",
    "AutoraterConfig": "evaluation.metrics",
    "CustomMetric": "evaluation.metrics",
    "EvalResult": "evaluation.result",
    "EvalTask": "evaluation.task",
    "EvaluationError": "evaluation.problems",
    "EvaluationIncomplete": "agent_evaluator.verdicts",
    "MetricPromptTemplateExamples": "evaluation.examples",
    "PairwiseMetric": "evaluation.metrics",
    "PairwiseMetricPromptTemplate": "evaluation.metrics",
    "PointwiseMetric": "evaluation.metrics",
    "PointwiseMetricPromptTemplate": "evaluation.metrics",
    "Problem": "evaluation.problems",
    "PromptTemplate": "evaluation.metrics",
    "Rouge": "evaluation.metrics",
    "TrajectorySingleToolUse": "evaluation.metrics",
}

__all__ = [
    "AgentEvaluator",
    "AutoraterConfig",
    "CustomMetric",
    "EvalResult",
    "EvalTask",
    "EvaluationError",
    "EvaluationIncomplete",
    "MetricPromptTemplateExamples",
    "PairwiseMetric",
    "PairwiseMetricPromptTemplate",
    "PointwiseMetric",
    "PointwiseMetricPromptTemplate",
    "Problem",
    "PromptTemplate",
    "Rouge",
    "TrajectorySingleToolUse",
]


def __getattr__(name: str) -> Any:
    """A name of the API, imported now."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """What can be imported from here."""
    return sorted(__all__)
