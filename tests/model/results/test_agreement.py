"""Agreement of judge samples; kappas against published numbers and their properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.model.results import (
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    RubricScore,
    SentenceScore,
    cohen_kappa,
    fleiss_kappa,
    is_unsure,
    measure_agreement,
    observed_agreement,
    weighted_kappa,
)

RATINGS = st.sampled_from(["yes", "no", "maybe"])


def judgement_of_scores(
    *scores: float | None, spread: float | None = None, rubrics: tuple[RubricScore, ...] = ()
) -> Judgement:
    samples = tuple(JudgeSample(score=score) for score in scores)
    return Judgement(model="m", prompt="p", samples=samples, spread=spread, rubrics=rubrics)


def metric(*judgements: Judgement, threshold: float | None = 0.5) -> MetricResult:
    turns = tuple(InvocationScore(score=1.0, judgement=judgement) for judgement in judgements)
    return MetricResult(
        name="m", score=1.0, threshold=threshold, status=MetricStatus.PASSED, per_invocation=turns, total=len(turns)
    )


def test_agreement_is_the_share_of_samples_in_the_majority() -> None:
    agreement = measure_agreement(judgement_of_scores(1.0, 1.0, 1.0, 0.0, None))

    assert agreement is not None
    assert (agreement.share, agreement.votes, agreement.spread) == (0.75, 4, None)


def test_ratings_have_a_spread() -> None:
    agreement = measure_agreement(judgement_of_scores(3.0, 5.0, 4.0, 4.0, spread=0.8))

    assert agreement is not None
    assert (agreement.share, agreement.votes, agreement.spread) == (0.5, 4, 0.8)


def test_each_verdict_on_a_sentence_is_a_vote() -> None:
    votes = [{"supported": 2, "not_applicable": 1}, {"unsupported": 2, "supported": 1}]
    sentences = tuple(SentenceScore(sentence="s", response=1, score=None, votes=each) for each in votes)
    judgement = judgement_of_scores(1.0, 0.5, 0.5).model_copy(update={"sentences": sentences})

    agreement = measure_agreement(judgement)

    assert agreement is not None
    assert (agreement.share, agreement.votes) == (5 / 6, 6)


def test_each_verdict_on_a_rubric_is_a_vote() -> None:
    rubrics = (
        RubricScore(rubric_id="a", text="a", score=1.0, yes=3, no=0),
        RubricScore(rubric_id="b", text="b", score=0.0, yes=1, no=2),
    )
    agreement = measure_agreement(judgement_of_scores(None, None, None, rubrics=rubrics))

    assert agreement is not None
    assert (agreement.share, agreement.votes) == (5 / 6, 6)
    assert is_unsure(metric(judgement_of_scores(rubrics=rubrics)))
    assert not is_unsure(metric(judgement_of_scores(rubrics=rubrics[:1])))


@pytest.mark.parametrize("scores", [(), (1.0,), (None, None), (1.0, None)])
def test_a_single_vote_has_no_agreement(scores: tuple[float | None, ...]) -> None:
    assert measure_agreement(judgement_of_scores(*scores)) is None
    assert not is_unsure(metric(judgement_of_scores(*scores)))


def test_a_metric_is_unsure_if_the_samples_of_any_turn_disagree() -> None:
    sure, disagreeing = judgement_of_scores(1.0, 1.0), judgement_of_scores(1.0, 1.0, 0.0)

    assert not is_unsure(metric(sure, sure))
    assert is_unsure(metric(sure, disagreeing))


def test_ratings_disagree_if_the_threshold_is_between_them() -> None:
    ratings = judgement_of_scores(3.0, 4.0, 5.0, spread=1.0)

    assert not is_unsure(metric(ratings, threshold=3.0))
    assert is_unsure(metric(ratings, threshold=3.5))
    assert is_unsure(metric(ratings, threshold=None))


def test_cohens_kappa_matches_a_known_table() -> None:
    # 45, 15, 25, 15 of 100: observed 0.60, expected by chance 0.54.
    pairs = [*[("y", "y")] * 45, *[("y", "n")] * 15, *[("n", "y")] * 25, *[("n", "n")] * 15]

    assert cohen_kappa(pairs) == pytest.approx((0.60 - 0.54) / 0.46)


def test_fleiss_kappa_matches_a_known_table() -> None:
    # The example of the Wikipedia article: 10 items, 14 raters, 5 categories; 0.210.
    table = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    items = [tuple(category for category, count in enumerate(row) for _ in range(count)) for row in table]

    assert fleiss_kappa(items) == pytest.approx(0.210, abs=0.001)
    assert observed_agreement(items) == pytest.approx(0.378, abs=0.001)


@pytest.mark.parametrize("pairs", [[], [("y", "y")], [("y", "y")] * 5])
def test_kappa_is_undefined_if_chance_explains_everything(pairs: list[tuple[str, str]]) -> None:
    assert cohen_kappa(pairs) is None
    assert fleiss_kappa(pairs) is None


@given(st.lists(st.tuples(RATINGS, RATINGS), min_size=1))
def test_kappas_of_two_raters_are_bounded_and_symmetric(pairs: list[tuple[str, str]]) -> None:
    kappa, fleiss = cohen_kappa(pairs), fleiss_kappa(pairs)
    swapped = [(other, one) for one, other in pairs]

    assert kappa is None or -1.0 <= kappa <= 1.0
    assert (kappa is None) == (len({rating for pair in pairs for rating in pair}) == 1)
    assert cohen_kappa(swapped) == (None if kappa is None else pytest.approx(kappa))
    assert kappa is None or (kappa == 1.0) == all(one == other for one, other in pairs)
    # Fleiss assumes equal habits of all raters, so its kappa is never above Cohen's.
    assert kappa is None or (fleiss is not None and fleiss <= kappa + 1e-9)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1))
def test_the_weighted_kappa_of_two_ratings_equals_the_plain_one(pairs: list[tuple[float, float]]) -> None:
    kappa = cohen_kappa(pairs)

    assert weighted_kappa(pairs) == (None if kappa is None else pytest.approx(kappa))


def test_a_larger_difference_lowers_the_weighted_kappa_more() -> None:
    base = [(1.0, 1.0), (3.0, 3.0), (5.0, 5.0)]
    near, far = weighted_kappa([*base, (1.0, 2.0)]), weighted_kappa([*base, (1.0, 5.0)])

    assert near is not None and far is not None
    assert far < near < 1.0
    assert weighted_kappa(base) == 1.0
    assert weighted_kappa([]) is None


@given(st.integers(2, 5).flatmap(lambda raters: st.lists(st.tuples(*[RATINGS] * raters), min_size=1)))
def test_observed_agreement_is_the_share_of_agreeing_pairs_of_raters(items: list[tuple[str, ...]]) -> None:
    raters = range(len(items[0]))
    same = [item[one] == item[other] for item in items for one in raters for other in raters if one < other]

    assert observed_agreement(items) == pytest.approx(sum(same) / len(same))
