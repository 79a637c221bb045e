"""The Python API: evaluation tasks like those of the Vertex AI SDK, and helpers of tests.

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
    from workbench.testing.eval_task import (
        EvalTask,
        PredefinedRubricMetrics,
        RubricBasedMetric,
        create_graph_trajectory_llm_as_judge,
    )
    from workbench.testing.evals import Client
    from workbench.testing.metrics import (
        AutoraterConfig,
        Comet,
        CustomMetric,
        CustomOutputConfig,
        EvalResult,
        EvaluationError,
        MetricPromptTemplateExamples,
        MetricX,
        PairwiseMetric,
        PairwiseMetricPromptTemplate,
        PointwiseMetric,
        PointwiseMetricPromptTemplate,
        Problem,
        PromptTemplate,
        Rouge,
        RubricGenerationConfig,
        TrajectorySingleToolUse,
    )
    from workbench.testing.result_rows import EvaluationDataset, EvaluationResult

_MODULES = {
    "AgentEvaluator": "agent_evaluator",
    "AutoraterConfig": "metrics",
    "Client": "evals",
    "Comet": "metrics",
    "CustomMetric": "metrics",
    "CustomOutputConfig": "metrics",
    "EvalResult": "metrics",
    "EvalTask": "eval_task",
    "EvaluationDataset": "result_rows",
    "EvaluationError": "metrics",
    "EvaluationIncomplete": "agent_evaluator",
    "EvaluationResult": "result_rows",
    "MetricPromptTemplateExamples": "metrics",
    "MetricX": "metrics",
    "PairwiseMetric": "metrics",
    "PairwiseMetricPromptTemplate": "metrics",
    "PointwiseMetric": "metrics",
    "PointwiseMetricPromptTemplate": "metrics",
    "PredefinedRubricMetrics": "eval_task",
    "Problem": "metrics",
    "PromptTemplate": "metrics",
    "Rouge": "metrics",
    "RubricBasedMetric": "eval_task",
    "RubricGenerationConfig": "metrics",
    "TrajectorySingleToolUse": "metrics",
    "create_graph_trajectory_llm_as_judge": "eval_task",
}
_TRAJECTORY_FUNCTIONS = frozenset(
    {
        "aextract_langgraph_trajectory_from_thread",
        "create_trajectory_match_evaluator",
        "extract_langgraph_trajectory_from_snapshots",
        "extract_langgraph_trajectory_from_thread",
        "graph_trajectory_strict_match",
    }
)
"""Functions of `workbench.metrics.trajectory`."""

_SUBMODULES = {
    "autorater_utils": "autorater_utils",
    "constants": "utils",
    "metrics": "metrics",
    "notebook_utils": "notebook_utils",
    "types": "evals",
    "utils": "utils",
}
"""The submodules of the SDK, and the modules that have their names."""

__all__ = [
    "AgentEvaluator",
    "AutoraterConfig",
    "Client",
    "Comet",
    "CustomMetric",
    "CustomOutputConfig",
    "EvalResult",
    "EvalTask",
    "EvaluationDataset",
    "EvaluationError",
    "EvaluationIncomplete",
    "EvaluationResult",
    "MetricPromptTemplateExamples",
    "MetricX",
    "PairwiseMetric",
    "PairwiseMetricPromptTemplate",
    "PointwiseMetric",
    "PointwiseMetricPromptTemplate",
    "PredefinedRubricMetrics",
    "Problem",
    "PromptTemplate",
    "Rouge",
    "RubricBasedMetric",
    "RubricGenerationConfig",
    "TrajectorySingleToolUse",
    "aextract_langgraph_trajectory_from_thread",
    "create_graph_trajectory_llm_as_judge",
    "create_trajectory_match_evaluator",
    "extract_langgraph_trajectory_from_snapshots",
    "extract_langgraph_trajectory_from_thread",
    "graph_trajectory_strict_match",
]


def __getattr__(name: str) -> Any:
    """Import a name of the API. Raises ImportError with the reason for modules that only the SDK has."""
    if name == "metric_utils":
        raise ImportError(
            "workbench.testing has no metric_utils, which reads the files of the service: "
            "judge metrics are kept in test_config.json, see docs/judges.md"
        )
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{_SUBMODULES[name]}")
    if name in _TRAJECTORY_FUNCTIONS:
        return getattr(import_module("workbench.metrics.trajectory"), name)
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """Return the names that can be imported."""
    return sorted([*__all__, *_SUBMODULES])
