"""What a report says of a judge: what cost points, how samples voted, and why."""

from __future__ import annotations

import pytest

from workbench.model.results import InvocationScore, Judgement, JudgeSample, MetricResult, MetricStatus, SentenceScore
from workbench.report.run_report import failed_judging_lines, judging_lines, sample_lines


def result(*turns: InvocationScore) -> MetricResult:
    return MetricResult(name="m", score=0.5, threshold=1.0, status=MetricStatus.FAILED, per_invocation=turns)


def judged(score: float | None, *samples: JudgeSample, best: float = 1.0, **more: object) -> InvocationScore:
    judgement = Judgement.model_validate({"model": "m", "prompt": "p", "samples": samples, "best": best, **more})
    return InvocationScore(score=score, judgement=judgement)


def test_sentences_that_may_not_stand_are_told_with_label_votes_reason_and_evidence() -> None:
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

    lines = list(judging_lines(result(judged(0.5, sentences=sentences))))

    assert lines == ["“It is free.”: contradictory (2 of 3): It has a price. [price: 12]"]


@pytest.mark.parametrize(
    ("score", "grades", "line"),
    [
        (1.0, [1.0, 1.0], "the judge: 1, 1 of 5: because 1"),  # the worst grade, which is no full score
        (3.5, [2.0, 4.0, 4.0], "the judge: 2, 4, 4 of 5: because 4"),
    ],
)
def test_grades_are_told_with_the_reason_of_the_sample_that_is_nearest(
    score: float, grades: list[float], line: str
) -> None:
    samples = [JudgeSample(score=grade, rationale=f"because {grade:g}") for grade in grades]

    assert list(judging_lines(result(judged(score, *samples, best=5.0)))) == [line]


def test_votes_are_told_with_the_reason_of_the_majority() -> None:
    samples = [
        JudgeSample(score=1.0, rationale="fine"),
        JudgeSample(score=0.0, rationale="harm"),
        JudgeSample(problem="?"),
    ]

    lines = list(judging_lines(result(judged(1.0, samples[0]), judged(0.0, *samples))))

    assert lines == ["turn 2: the judge: 1 of 2 approve (1 gave no verdict): harm"]


def test_the_best_grade_costs_nothing() -> None:
    assert list(judging_lines(result(judged(5.0, JudgeSample(score=5.0), best=5.0)))) == []


def test_of_several_judges_each_reason_names_its_criterion() -> None:
    vote = judged(0.0, JudgeSample(score=0.0, rationale="too long"))
    one = result(vote)
    other = one.model_copy(update={"name": "n", "status": MetricStatus.PASSED})
    plain = one.model_copy(update={"name": "p", "per_invocation": ()})

    assert list(failed_judging_lines([one, plain])) == ["the judge: 0 of 1 approve: too long"]
    assert list(failed_judging_lines([one, other, plain])) == ["m: the judge: 0 of 1 approve: too long"]


def test_each_sample_is_a_line_with_what_it_said() -> None:
    samples = (
        JudgeSample(score=1.0, rationale="fine", cached=True),
        JudgeSample(problem="503", outage=True),
        JudgeSample(score=0.5, label="TIE", rationale="same"),
        JudgeSample(reply="Verdict: yes"),
    )

    assert list(sample_lines(result(judged(1.0, *samples)))) == [
        "m: samples of m:",
        "sample 1: 1 (cached): fine",
        "sample 2: no verdict: 503",
        "sample 3: TIE: same",
        "sample 4: on parts: Verdict: yes",
    ]
