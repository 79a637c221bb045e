"""The Python API: evaluation tasks in the manner of the Vertex AI SDK, and what tests are written with.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.metrics.trajectory import (
        aextract_langgraph_trajectory_from_thread,
        create_trajectory_match_evaluator,
        extract_langgraph_trajectory_from_snapshots,
        extract_langgraph_trajectory_from_thread,
        graph_trajectory_strict_match,
    )
    from workbench.testing.agent_evaluator import AgentEvaluator, EvaluationIncomplete
    from workbench.testing.eval_task import EvalTask, create_graph_trajectory_llm_as_judge
    from workbench.testing.metric_classes import (
        AutoraterConfig,
        CustomMetric,
        EvalResult,
        EvaluationError,
        PairwiseMetric,
        PairwiseMetricPromptTemplate,
        PointwiseMetric,
        PointwiseMetricPromptTemplate,
        Problem,
        PromptTemplate,
        Rouge,
        TrajectorySingleToolUse,
    )
    from workbench.testing.metric_criteria import MetricPromptTemplateExamples

_MODULES = {
    "AgentEvaluator": "agent_evaluator",
    "AutoraterConfig": "metric_classes",
    "CustomMetric": "metric_classes",
    "EvalResult": "metric_classes",
    "EvalTask": "eval_task",
    "EvaluationError": "metric_classes",
    "EvaluationIncomplete": "agent_evaluator",
    "MetricPromptTemplateExamples": "metric_criteria",
    "PairwiseMetric": "metric_classes",
    "PairwiseMetricPromptTemplate": "metric_classes",
    "PointwiseMetric": "metric_classes",
    "PointwiseMetricPromptTemplate": "metric_classes",
    "Problem": "metric_classes",
    "PromptTemplate": "metric_classes",
    "Rouge": "metric_classes",
    "TrajectorySingleToolUse": "metric_classes",
    "create_graph_trajectory_llm_as_judge": "eval_task",
}
_OF_METRICS = frozenset(
    {
        "aextract_langgraph_trajectory_from_thread",
        "create_trajectory_match_evaluator",
        "extract_langgraph_trajectory_from_snapshots",
        "extract_langgraph_trajectory_from_thread",
        "graph_trajectory_strict_match",
    }
)
"""Functions of `workbench.metrics.trajectory`."""

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
    "aextract_langgraph_trajectory_from_thread",
    "create_graph_trajectory_llm_as_judge",
    "create_trajectory_match_evaluator",
    "extract_langgraph_trajectory_from_snapshots",
    "extract_langgraph_trajectory_from_thread",
    "graph_trajectory_strict_match",
]


def __getattr__(name: str) -> Any:
    """A name of the API, imported now."""
    if name in _OF_METRICS:
        return getattr(import_module("workbench.metrics.trajectory"), name)
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """What can be imported from here."""
    return sorted(__all__)
