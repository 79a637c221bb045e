"""Judge details in reports: reasons for lost points, votes of samples, and rationales."""

from __future__ import annotations

import pytest

from workbench.model.results import InvocationScore, Judgement, JudgeSample, MetricResult, MetricStatus, SentenceScore
from workbench.report.run_report import failed_judging_lines, judging_lines, sample_lines


def result(*turns: InvocationScore) -> MetricResult:
    return MetricResult(name="m", score=0.5, threshold=1.0, status=MetricStatus.FAILED, per_invocation=turns)


def score_turn(score: float | None, *samples: JudgeSample, best: float = 1.0, **more: object) -> InvocationScore:
    judgement = Judgement.model_validate({"model": "m", "prompt": "p", "samples": samples, "best": best, **more})
    return InvocationScore(score=score, judgement=judgement)


def test_unsupported_sentences_are_listed_with_label_votes_reason_and_evidence() -> None:
    sentences = (
        SentenceScore(sentence="It is red.", response=1, score=1.0, label="supported", votes={"supported": 2}),
        SentenceScore(
            sentence="It is free.",
            response=1,
            score=0.0,
            label="contradictory",
            rationale="It has a price.",
            evidence="price: 12",
            votes={"contradictory": 2, "supported": 1},
        ),
    )

    lines = list(judging_lines(result(score_turn(0.5, sentences=sentences))))

    assert lines == ["“It is free.”: contradictory (2 of 3): It has a price. [price: 12]"]


@pytest.mark.parametrize(
    ("score", "grades", "line"),
    [
        (1.0, [1.0, 1.0], "the judge: 1, 1 of 5: because 1"),  # the worst rating
        (3.5, [2.0, 4.0, 4.0], "the judge: 2, 4, 4 of 5: because 4"),
    ],
)
def test_ratings_are_listed_with_the_rationale_of_the_nearest_sample(
    score: float, grades: list[float], line: str
) -> None:
    samples = [JudgeSample(score=grade, rationale=f"because {grade:g}") for grade in grades]

    assert list(judging_lines(result(score_turn(score, *samples, best=5.0)))) == [line]


def test_votes_are_listed_with_a_rationale_of_the_majority() -> None:
    samples = [
        JudgeSample(score=1.0, rationale="fine"),
        JudgeSample(score=0.0, rationale="harm"),
        JudgeSample(problem="?"),
    ]

    lines = list(judging_lines(result(score_turn(1.0, samples[0]), score_turn(0.0, *samples))))

    assert lines == ["turn 2: the judge: 1 of 2 approve (1 gave no verdict): harm"]


def test_the_best_rating_has_no_lines() -> None:
    assert list(judging_lines(result(score_turn(5.0, JudgeSample(score=5.0), best=5.0)))) == []


def test_reasons_of_several_judges_name_their_criterion() -> None:
    turn_score = score_turn(0.0, JudgeSample(score=0.0, rationale="too long"))
    one = result(turn_score)
    other = one.model_copy(update={"name": "n", "status": MetricStatus.PASSED})
    plain = one.model_copy(update={"name": "p", "per_invocation": ()})

    assert list(failed_judging_lines([one, plain])) == ["the judge: 0 of 1 approve: too long"]
    assert list(failed_judging_lines([one, other, plain])) == ["m: the judge: 0 of 1 approve: too long"]


def test_each_sample_has_a_line_with_score_and_rationale() -> None:
    samples = (
        JudgeSample(score=1.0, rationale="fine", cached=True),
        JudgeSample(problem="503", outage=True),
        JudgeSample(score=0.5, label="TIE", rationale="same"),
        JudgeSample(reply="Verdict: yes"),
    )

    assert list(sample_lines(result(score_turn(1.0, *samples)))) == [
        "m: samples of m:",
        "sample 1: 1 (cached): fine",
        "sample 2: no verdict: 503",
        "sample 3: TIE: same",
        "sample 4: on parts: Verdict: yes",
    ]
