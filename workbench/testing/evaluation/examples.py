"""The named metrics as the Vertex AI SDK hands them out: as objects, and as the text that a judge is asked."""

from __future__ import annotations

from types import SimpleNamespace

from workbench.model.text import did_you_mean
from workbench.testing.evaluation.criteria import prompt_text
from workbench.testing.evaluation.metrics import PairwiseMetric, PointwiseMetric
from workbench.testing.evaluation.named_metrics import PAIRWISE, named_metrics
from workbench.testing.evaluation.problems import EvaluationError


def _attributes(kind: type[PointwiseMetric | PairwiseMetric]) -> SimpleNamespace:
    metrics = {name: metric for name, metric in named_metrics().items() if isinstance(metric, kind)}
    return SimpleNamespace(**{name.removeprefix(PAIRWISE).upper(): metric for name, metric in metrics.items()})


class MetricPromptTemplateExamples:
    """The model-based metrics that have names, such as `MetricPromptTemplateExamples.Pointwise.FLUENCY`.

    `Pairwise` has the same ones as comparisons with the column `baseline_model_response`. What judges are asked is in
    the words of the workbench: scores are not comparable digit by digit with those of the Vertex AI SDK.
    """

    Pointwise = _attributes(PointwiseMetric)
    Pairwise = _attributes(PairwiseMetric)

    @classmethod
    def list_example_metric_names(cls) -> list[str]:
        """The names, each of which may stand among the metrics of a task as it is."""
        return list(named_metrics())

    @classmethod
    def get_prompt_template(cls, metric_name: str) -> str:
        """What the judge of a metric is asked, with `{column}` where a value belongs.

        It may be changed, and given to a PointwiseMetric or PairwiseMetric. Raises EvaluationError for another name.
        """
        metric = named_metrics().get(metric_name)
        if metric is None:
            names = cls.list_example_metric_names()
            expected = f"one of {', '.join(names)}{did_you_mean(str(metric_name), names)}"
            raise EvaluationError(f"metric_name: found {metric_name!r}, expected {expected}")
        return prompt_text(metric)
