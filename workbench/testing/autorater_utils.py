"""The agreement of a judge with people: `evaluate_autorater` computes it from a table with both ratings."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from workbench.testing.metrics import (
    AutoraterConfig,
    EvaluationError,
    PairwiseMetric,
    PointwiseMetric,
    read_records,
    to_frame,
)

__all__ = ["AutoraterConfig", "AutoraterEvalResult", "evaluate_autorater", "tune_autorater"]

_MOST_LABELS = 10  # of a confusion matrix


class AutoraterEvalResult:
    """The agreement of a judge with people: `eval_result` has a dict for each metric.

    Further arguments of `evaluate_autorater` are attributes.
    """

    def __init__(
        self,
        eval_result: list[dict[str, Any]] | None,
        eval_dataset_metadata: dict[str, Any] | None,
        autorater_config: Any,
        **kwargs: Any,
    ) -> None:
        self.eval_result = eval_result
        self.eval_dataset_metadata = eval_dataset_metadata
        self.autorater_config = autorater_config
        self.__dict__.update(kwargs)


def evaluate_autorater(
    *,
    evaluate_autorater_input: Any,
    eval_metrics: Sequence[PointwiseMetric | PairwiseMetric],
    autorater_config: Any = None,
    eval_dataset_metadata: dict[str, Any] | None = None,
    **kwargs: Any,
) -> AutoraterEvalResult:
    """Compare the ratings of a judge with those of people, metric by metric.

    `evaluate_autorater_input` is a pandas frame, or rows as dicts, with the columns `metric/score` and
    `metric/human_rating`, or `metric/pairwise_choice` and `metric/human_pairwise_choice`. Rows in which one is
    missing are left out. A result has `metric`, `accuracy_balanced` (the mean recall of the labels of people),
    `f1_score_balanced` (F1 weighted by their number), `row_count`, and for at most 10 labels `confusion_matrix`
    (rows: people) with `confusion_matrix_labels`.
    Raises EvaluationError if a column is missing or no row has both ratings.
    """
    rows = read_records(to_frame(evaluate_autorater_input, name="evaluate_autorater_input"))
    results = [_compare(metric, rows) for metric in eval_metrics]
    return AutoraterEvalResult(results, eval_dataset_metadata, autorater_config, **kwargs)


def tune_autorater(**kwargs: Any) -> NoReturn:
    """Raises EvaluationError: judges are not trained here."""
    del kwargs
    raise EvaluationError(
        "tune_autorater: found a training job of Vertex AI, expected work that runs here; train the model there and "
        "name it in AutoraterConfig(autorater_model=)"
    )


def _compare(metric: PointwiseMetric | PairwiseMetric, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    is_pairwise = isinstance(metric, PairwiseMetric)
    names = ("pairwise_choice", "human_pairwise_choice") if is_pairwise else ("score", "human_rating")
    judge_column, human_column = (f"{metric.metric_name}/{name}" for name in names)
    for column in (judge_column, human_column):
        if rows and column not in rows[0]:
            raise EvaluationError(f"evaluate_autorater_input: found no column {column!r}, expected one")
    ratings = [
        (_read_label(row[human_column], is_pairwise), _read_label(row[judge_column], is_pairwise)) for row in rows
    ]
    pairs = [(human, judge) for human, judge in ratings if human is not None and judge is not None]
    if not pairs:
        raise EvaluationError(
            f"evaluate_autorater_input: found no row with both {judge_column!r} and {human_column!r}, expected some"
        )
    labels = sorted({label for pair in pairs for label in pair})
    counts = Counter(pairs)
    result: dict[str, Any] = {
        "metric": metric.metric_name,
        "accuracy_balanced": _compute_balanced_accuracy(counts, labels),
        "f1_score_balanced": _compute_weighted_f1(counts, labels),
        "row_count": len(pairs),
    }
    if len(labels) > _MOST_LABELS:
        warnings.warn(f"{metric.metric_name}: no confusion matrix of {len(labels)} labels", stacklevel=3)
        return result
    matrix = [[counts[human, judge] for judge in labels] for human in labels]
    return result | {"confusion_matrix": matrix, "confusion_matrix_labels": labels}


def _read_label(value: Any, is_pairwise: bool) -> str | None:
    """Return a rating as text, so that 1 and 1.0 are equal; None if there is none."""
    if value is None or (isinstance(value, str) and value.lower() in ("nan", "error", "")):
        return None
    if is_pairwise:
        return str(value)
    try:
        return str(float(value))
    except (TypeError, ValueError):
        raise EvaluationError(f"evaluate_autorater_input: found the rating {value!r}, expected a number") from None


def _compute_balanced_accuracy(counts: Counter[tuple[str, str]], labels: Sequence[str]) -> float:
    totals = {label: sum(counts[label, judge] for judge in labels) for label in labels}
    recalls = [counts[label, label] / total for label, total in totals.items() if total]
    return sum(recalls) / len(recalls)


def _compute_weighted_f1(counts: Counter[tuple[str, str]], labels: Sequence[str]) -> float:
    total = sum(counts.values())
    score = 0.0
    for label in labels:
        by_people = sum(counts[label, other] for other in labels)
        by_judge = sum(counts[other, label] for other in labels)
        if by_people:
            score += by_people / total * (2 * counts[label, label] / (by_people + by_judge))
    return score
