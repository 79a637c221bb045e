"""Names and arguments are those of the installed SDK, name by name."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

import workbench.testing

pytestmark = pytest.mark.needs_vertex

PREVIEW = "vertexai.preview.evaluation"
NAMES = {
    "AutoraterConfig": f"{PREVIEW}.AutoraterConfig",
    "CustomMetric": f"{PREVIEW}.CustomMetric",
    "CustomOutputConfig": f"{PREVIEW}.CustomOutputConfig",
    "EvalResult": f"{PREVIEW}.EvalResult",
    "EvalTask": f"{PREVIEW}.EvalTask",
    "MetricPromptTemplateExamples": f"{PREVIEW}.MetricPromptTemplateExamples",
    "PairwiseMetric": f"{PREVIEW}.PairwiseMetric",
    "PairwiseMetricPromptTemplate": f"{PREVIEW}.PairwiseMetricPromptTemplate",
    "PointwiseMetric": f"{PREVIEW}.PointwiseMetric",
    "PointwiseMetricPromptTemplate": f"{PREVIEW}.PointwiseMetricPromptTemplate",
    "PredefinedRubricMetrics": f"{PREVIEW}.PredefinedRubricMetrics",
    "PromptTemplate": f"{PREVIEW}.PromptTemplate",
    "RubricBasedMetric": f"{PREVIEW}.RubricBasedMetric",
    "RubricGenerationConfig": f"{PREVIEW}.RubricGenerationConfig",
    "Rouge": f"{PREVIEW}.metrics.Rouge",
    "TrajectorySingleToolUse": f"{PREVIEW}.metrics.TrajectorySingleToolUse",
    "Comet": "vertexai.evaluation.metrics.pointwise_metric.Comet",
    "MetricX": "vertexai.evaluation.metrics.pointwise_metric.MetricX",
    "autorater_utils.AutoraterEvalResult": f"{PREVIEW}.autorater_utils.AutoraterEvalResult",
    "autorater_utils.evaluate_autorater": f"{PREVIEW}.autorater_utils.evaluate_autorater",
    "autorater_utils.tune_autorater": f"{PREVIEW}.autorater_utils.tune_autorater",
    "notebook_utils.display_bar_plot": f"{PREVIEW}.notebook_utils.display_bar_plot",
    "notebook_utils.display_eval_result": f"{PREVIEW}.notebook_utils.display_eval_result",
    "notebook_utils.display_explanations": f"{PREVIEW}.notebook_utils.display_explanations",
    "notebook_utils.display_radar_plot": f"{PREVIEW}.notebook_utils.display_radar_plot",
    "notebook_utils.generate_uuid": f"{PREVIEW}.notebook_utils.generate_uuid",
    "notebook_utils.is_ipython_available": f"{PREVIEW}.notebook_utils.is_ipython_available",
    "utils.parse_pairwise_rubric_result": f"{PREVIEW}.utils.parse_pairwise_rubric_result",
    "utils.parse_pointwise_rubric_result": f"{PREVIEW}.utils.parse_pointwise_rubric_result",
    "utils.parse_question": f"{PREVIEW}.utils.parse_question",
    "utils.parse_question_blocks": f"{PREVIEW}.utils.parse_question_blocks",
    "utils.parse_rubrics": f"{PREVIEW}.utils.parse_rubrics",
    "utils.parse_verdict": f"{PREVIEW}.utils.parse_verdict",
    "Client": "agentplatform.Client",
    "types.EvalCase": "agentplatform.types.EvalCase",
    "types.EvalCaseMetricResult": "agentplatform.types.EvalCaseMetricResult",
    "types.EvalCaseResult": "agentplatform.types.EvalCaseResult",
    "types.EvaluationDataset": "agentplatform.types.EvaluationDataset",
    "types.LLMMetric": "agentplatform.types.LLMMetric",
    "types.Metric": "agentplatform.types.Metric",
    "types.MetricPromptBuilder": "agentplatform.types.MetricPromptBuilder",
    "types.ResponseCandidate": "agentplatform.types.ResponseCandidate",
    "types.ResponseCandidateResult": "agentplatform.types.ResponseCandidateResult",
    "types.WinRateStats": "agentplatform.types.WinRateStats",
    "types.Evals": "agentplatform._genai.evals.Evals",
}
MISSING = {
    # Arguments that are refused or not needed here.
    "types.Metric": {"metric_resource_name", "result_parsing_function", "judge_model_step_configs"},
    "types.LLMMetric": {"metric_resource_name", "result_parsing_function", "judge_model_step_configs"},
}
METHODS = {
    "EvalTask": {"evaluate", "display_runs", "dataset", "metrics", "autorater_config", "experiment"},
    "MetricPromptTemplateExamples": {"get_prompt_template", "list_example_metric_names"},
    "PairwiseMetricPromptTemplate": {"assemble", "prompt_data", "__str__"},
    "PointwiseMetric": {"metric_name", "__str__"},
    "PointwiseMetricPromptTemplate": {"assemble", "prompt_data", "__str__"},
    "PromptTemplate": {"assemble", "__str__", "__repr__"},
    "RubricBasedMetric": {"generate_rubrics", "metric_name", "__str__"},
    "types.EvaluationDataset": {"show"},
    "types.Evals": {"run_inference", "evaluate", "generate_rubrics"},
}


def find(path: str) -> Any:
    """Return an object by its dotted path."""
    module, *names = path.split(".")
    found: Any = import_module(module)
    for name in names:
        try:
            found = getattr(found, name)
        except AttributeError:
            found = import_module(f"{found.__name__}.{name}")
    return found


def list_arguments(thing: Any) -> dict[str, inspect.Parameter]:
    """Return the arguments of a class or function, without those of any name."""
    fields = getattr(thing, "model_fields", None)
    if fields is not None:  # a pydantic model
        return {name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in fields}
    if hasattr(thing, "pb"):  # a message of proto-plus
        return {
            name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in thing.meta.fields
        }
    return {
        name: each
        for name, each in inspect.signature(thing).parameters.items()
        if each.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL) and name != "self"
    }


def check_arguments(ours: Any, theirs: Any, *, but: set[str]) -> None:
    """Check that every call of theirs is a call of ours."""
    known, wanted = list_arguments(ours), list_arguments(theirs)
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in inspect.signature(ours).parameters.values())
    assert takes_any or set(wanted) - but <= set(known)
    for name, each in wanted.items():
        if name in known:
            assert each.default is inspect.Parameter.empty or known[name].default is not inspect.Parameter.empty, name
    positional = [name for name, each in wanted.items() if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert [name for name, each in known.items() if each.kind is not inspect.Parameter.KEYWORD_ONLY][
        : len(positional)
    ] == positional
    extra = [name for name, each in known.items() if name not in wanted and each.default is inspect.Parameter.empty]
    assert extra == []


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_those_of_the_sdk(name: str) -> None:
    ours, theirs = find(f"workbench.testing.{name}"), find(NAMES[name])

    if name not in ("types.Evals", "MetricPromptTemplateExamples", "PredefinedRubricMetrics"):
        check_arguments(ours, theirs, but=MISSING.get(name, set()))
    for method in METHODS.get(name, ()):
        found, wanted = getattr(ours, method, None), getattr(theirs, method)
        if callable(wanted) and not method.startswith("__"):
            check_arguments(found, wanted, but=set())
        else:
            assert found is not None or method in list_arguments(ours)


def test_names_of_metrics_and_columns_are_those_of_the_sdk() -> None:
    for kind in ("Metric", "MetricResult", "Dataset"):
        ours = find(f"workbench.testing.constants.{kind}")
        theirs = find(f"{PREVIEW}.constants.{kind}")
        names = {name for name in vars(ours) if name.isupper()}
        assert names
        assert {name: getattr(ours, name) for name in names} == {name: getattr(theirs, name) for name in names}


def test_examples_have_the_names_of_the_sdk() -> None:
    ours = workbench.testing.MetricPromptTemplateExamples.list_example_metric_names()
    theirs = find(f"{PREVIEW}.MetricPromptTemplateExamples").list_example_metric_names()

    assert set(theirs) <= set(ours)


@pytest.mark.parametrize("kind", ["Pointwise", "Pairwise"])
def test_predefined_rubric_metrics_have_the_columns_of_the_sdk(kind: str) -> None:
    ours = getattr(workbench.testing.PredefinedRubricMetrics, kind)
    theirs = getattr(find(f"{PREVIEW}.PredefinedRubricMetrics"), kind)

    for name in ("INSTRUCTION_FOLLOWING", "TEXT_QUALITY"):
        assert getattr(ours, name).metric_name == getattr(theirs, name).metric_name


def test_every_predefined_metric_of_the_sdk_is_known_or_refused() -> None:
    loader = type(find("agentplatform.types.RubricMetric"))
    names = [name for name in vars(loader) if name.isupper()]

    assert names
    for name in names:
        try:
            metric = getattr(workbench.testing.types.RubricMetric, name)
        except workbench.testing.EvaluationError as error:
            assert "found a metric of" in str(error)
        else:
            assert metric.name


def test_every_method_of_the_client_is_known_or_refused() -> None:
    evals = workbench.testing.Client().evals
    for name in vars(find("agentplatform._genai.evals.Evals")):
        if not name.startswith("_"):
            try:
                assert callable(getattr(evals, name))
            except workbench.testing.EvaluationError as error:
                assert "found a job of the Vertex AI service" in str(error)
