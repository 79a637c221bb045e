"""Agreement of several judgements: the unit of a verdict, and excluded verdicts."""

from __future__ import annotations

import pytest

from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    InvocationScore,
    Judgement,
    MetricResult,
    MetricStatus,
    RubricScore,
)
from workbench.report.judge_agreement import CriterionAgreement, Judgements, compute_agreements


def judge_case(
    *scores: float | None, threshold: float | None = 0.5, rubrics: tuple[tuple[str, float | None], ...] = ()
) -> CaseResult:
    """Build a case with these judge scores per turn, and a second metric without a judge."""
    rubric_scores = tuple(RubricScore(rubric_id=name, text=name, score=score) for name, score in rubrics)
    turns = tuple(
        InvocationScore(score=score, judgement=Judgement(model="m", prompt="p", rubrics=rubric_scores))
        for score in scores
    )
    known_scores = [score for score in scores if score is not None]
    mean = sum(known_scores) / len(known_scores) if len(known_scores) == len(scores) else None
    status = MetricStatus.ERROR if mean is None else MetricStatus.INFORMATIONAL
    if mean is not None and threshold is not None:
        status = MetricStatus.PASSED if mean >= threshold else MetricStatus.FAILED
    judge_metric = MetricResult(name="own", score=mean, threshold=threshold, status=status, per_invocation=turns)
    other_metric = MetricResult(name="free", score=1.0, threshold=1.0, status=MetricStatus.PASSED)
    return CaseResult(
        case=CaseKey(target="t", eval_set="s", eval_id="c"),
        eval_set_id="s",
        status=CaseStatus.PASSED,
        metrics=(judge_metric, other_metric),
    )


def compute_agreement(*results: CaseResult) -> CriterionAgreement:
    (found,) = compute_agreements(
        Judgements([f"run {number}" for number in range(len(results))], [[each] for each in results])
    )
    return found


def test_every_turn_is_a_verdict_and_only_judge_criteria_are_compared() -> None:
    found = compute_agreement(judge_case(1.0, 1.0, 0.0, 0.0), judge_case(1.0, 0.0, 0.0, 0.0))

    assert (found.metric, found.compared, found.agreement) == ("own", 4, 0.75)
    assert found.kappa == pytest.approx(0.5)
    assert found.kappa_name == "Cohen"
    assert [flip.verdicts for flip in found.flips] == [["PASSED", "FAILED"]]


def test_every_rubric_is_a_verdict() -> None:
    found = compute_agreement(
        judge_case(0.5, rubrics=(("a", 1.0), ("b", 0.0))),
        judge_case(0.5, rubrics=(("a", 0.0), ("b", 1.0))),
        judge_case(0.5, rubrics=(("a", 1.0), ("b", None))),
    )

    assert (found.judgements, found.compared, found.unjudged) == (3, 1, 1)
    assert found.agreement == pytest.approx(1 / 3)
    assert found.kappa_name == "Fleiss"
    assert found.flips == []


def test_rubrics_of_a_turn_below_the_quorum_are_not_verdicts() -> None:
    found = compute_agreement(judge_case(1.0, rubrics=(("a", 1.0),)), judge_case(None, rubrics=(("a", 0.0),)))

    assert (found.compared, found.unjudged) == (0, 1)


def test_ratings_agree_on_the_same_side_of_the_threshold_and_have_a_spread() -> None:
    found = compute_agreement(judge_case(4.0, 2.0, threshold=3), judge_case(5.0, 2.0, threshold=3))

    assert found.agreement == 1.0
    assert found.spread == pytest.approx((0.5**0.5) / 2)


def test_ratings_without_a_threshold_are_rounded() -> None:
    found = compute_agreement(
        judge_case(3.8, threshold=None), judge_case(4.2, threshold=None), judge_case(2.0, threshold=None)
    )

    assert found.agreement == pytest.approx(1 / 3)
    assert [flip.verdicts for flip in found.flips] == [["4", "4", "2"]]


def test_a_failed_judgement_is_not_a_verdict() -> None:
    found = compute_agreement(judge_case(1.0, 1.0), judge_case(1.0, None))

    assert (found.compared, found.unjudged, found.agreement) == (1, 1, 1.0)
    assert found.kappa is None
    assert found.no_kappa_reason == "all verdicts are equal, so kappa is undefined"
    assert not found.flips  # a missing verdict is not a changed verdict
