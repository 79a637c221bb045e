"""How far several judgements agree: what counts as one verdict, and what is left out."""

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


def judged(
    *scores: float | None, threshold: float | None = 0.5, rubrics: tuple[tuple[str, float | None], ...] = ()
) -> CaseResult:
    """A case whose turns have these scores, by a judge, and one metric that asked nobody."""
    made = tuple(RubricScore(rubric_id=name, text=name, score=score) for name, score in rubrics)
    turns = tuple(
        InvocationScore(score=score, judgement=Judgement(model="m", prompt="p", rubrics=made)) for score in scores
    )
    given = [score for score in scores if score is not None]
    mean = sum(given) / len(given) if len(given) == len(scores) else None
    status = MetricStatus.ERROR if mean is None else MetricStatus.INFORMATIONAL
    if mean is not None and threshold is not None:
        status = MetricStatus.PASSED if mean >= threshold else MetricStatus.FAILED
    asked = MetricResult(name="own", score=mean, threshold=threshold, status=status, per_invocation=turns)
    free = MetricResult(name="free", score=1.0, threshold=1.0, status=MetricStatus.PASSED)
    return CaseResult(
        case=CaseKey(target="t", eval_set="s", eval_id="c"),
        eval_set_id="s",
        status=CaseStatus.PASSED,
        metrics=(asked, free),
    )


def agreement(*results: CaseResult) -> CriterionAgreement:
    (found,) = compute_agreements(
        Judgements([f"run {number}" for number in range(len(results))], [[each] for each in results])
    )
    return found


def test_every_turn_is_a_verdict_and_only_criteria_that_ask_a_model_are_compared() -> None:
    found = agreement(judged(1.0, 1.0, 0.0, 0.0), judged(1.0, 0.0, 0.0, 0.0))

    assert (found.metric, found.compared, found.agreement) == ("own", 4, 0.75)
    assert found.kappa == pytest.approx(0.5)
    assert found.kappa_name == "Cohen"
    assert [flip.verdicts for flip in found.flips] == [["PASSED", "FAILED"]]


def test_of_rubrics_each_is_a_verdict() -> None:
    found = agreement(
        judged(0.5, rubrics=(("a", 1.0), ("b", 0.0))),
        judged(0.5, rubrics=(("a", 0.0), ("b", 1.0))),
        judged(0.5, rubrics=(("a", 1.0), ("b", None))),
    )

    assert (found.judgements, found.compared, found.unjudged) == (3, 1, 1)
    assert found.agreement == pytest.approx(1 / 3)
    assert found.kappa_name == "Fleiss"
    assert found.flips == []


def test_rubrics_of_a_turn_below_the_quorum_are_no_verdicts() -> None:
    found = agreement(judged(1.0, rubrics=(("a", 1.0),)), judged(None, rubrics=(("a", 0.0),)))

    assert (found.compared, found.unjudged) == (0, 1)


def test_grades_count_by_whether_they_are_enough_and_have_a_spread() -> None:
    found = agreement(judged(4.0, 2.0, threshold=3), judged(5.0, 2.0, threshold=3))

    assert found.agreement == 1.0
    assert found.spread == pytest.approx((0.5**0.5) / 2)


def test_without_a_threshold_grades_are_rounded() -> None:
    found = agreement(judged(3.8, threshold=None), judged(4.2, threshold=None), judged(2.0, threshold=None))

    assert found.agreement == pytest.approx(1 / 3)
    assert [flip.verdicts for flip in found.flips] == [["4", "4", "2"]]


def test_a_judgement_that_failed_is_no_verdict() -> None:
    found = agreement(judged(1.0, 1.0), judged(1.0, None))

    assert (found.compared, found.unjudged, found.agreement) == (1, 1, 1.0)
    assert found.kappa is None
    assert found.no_kappa_reason == "all verdicts are equal, so kappa is undefined"
    assert not found.flips  # that nobody judged it says nothing about the judge
