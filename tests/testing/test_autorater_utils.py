"""The agreement of a judge with people."""

from __future__ import annotations

import pytest

from workbench.testing import EvaluationError, PairwiseMetric, PointwiseMetric
from workbench.testing.autorater_utils import evaluate_autorater, tune_autorater

pd = pytest.importorskip("pandas")

POINTWISE = PointwiseMetric(metric="short", metric_prompt_template="{response}")
PAIRWISE = PairwiseMetric(metric="better", metric_prompt_template="{response} {baseline_model_response}")


def test_rows_may_be_dicts() -> None:
    rows = [{"short/score": 1, "short/human_rating": 1}]

    (result,) = evaluate_autorater(evaluate_autorater_input=rows, eval_metrics=[POINTWISE]).eval_result or []

    assert result["row_count"] == 1
    with pytest.raises(EvaluationError, match="found a str, expected a pandas DataFrame or a list of rows"):
        evaluate_autorater(evaluate_autorater_input="x", eval_metrics=[POINTWISE])


def test_agreement_is_computed_from_the_rows_with_both_ratings() -> None:
    frame = pd.DataFrame(
        {
            "short/score": [1, 1, 0, 0, None, 1],
            "short/human_rating": [1.0, 0.0, 0.0, 0.0, 1.0, None],
            "better/pairwise_choice": ["CANDIDATE", "TIE", "Error", "TIE", "BASELINE", "TIE"],
            "better/human_pairwise_choice": ["CANDIDATE", "TIE", "TIE", "BASELINE", "BASELINE", "TIE"],
        }
    )

    result = evaluate_autorater(evaluate_autorater_input=frame, eval_metrics=[POINTWISE, PAIRWISE], note="n")

    short, better = result.eval_result or []
    assert result.note == "n"  # type: ignore[attr-defined]
    assert short["row_count"] == 4
    assert short["accuracy_balanced"] == pytest.approx((1 + 2 / 3) / 2)
    assert short["f1_score_balanced"] == pytest.approx(0.75 * 0.8 + 0.25 * 2 / 3)
    assert short["confusion_matrix_labels"] == ["0.0", "1.0"]
    assert short["confusion_matrix"] == [[2, 1], [0, 1]]
    assert better["accuracy_balanced"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert better["row_count"] == 5


def test_numbers_are_those_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    ours, theirs = [1, 2, 3, 1, 2, 2, 5], [1, 2, 2, 1, 3, 2, 1]
    frame = pd.DataFrame({"short/score": ours, "short/human_rating": theirs})

    ((result),) = evaluate_autorater(evaluate_autorater_input=frame, eval_metrics=[POINTWISE]).eval_result or []

    assert result["accuracy_balanced"] == pytest.approx(sklearn.balanced_accuracy_score(theirs, ours))
    assert result["f1_score_balanced"] == pytest.approx(sklearn.f1_score(theirs, ours, average="weighted"))
    assert result["confusion_matrix"] == sklearn.confusion_matrix(theirs, ours).tolist()


def test_missing_ratings_are_refused() -> None:
    with pytest.raises(EvaluationError, match="found no column 'short/human_rating'"):
        evaluate_autorater(evaluate_autorater_input=pd.DataFrame({"short/score": [1]}), eval_metrics=[POINTWISE])
    frame = pd.DataFrame({"short/score": [1], "short/human_rating": [None]})
    with pytest.raises(EvaluationError, match="found no row with both"):
        evaluate_autorater(evaluate_autorater_input=frame, eval_metrics=[POINTWISE])
    with pytest.raises(EvaluationError, match="tune_autorater: found a training job"):
        tune_autorater(base_model="m")
