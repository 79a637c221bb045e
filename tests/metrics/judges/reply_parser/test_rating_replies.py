"""Ratings and choices in the replies of judges."""

from __future__ import annotations

import pytest

from workbench.metrics.judges.reply_parser import read_choice, read_grade, read_rating


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 400, "true", "null"])
def test_a_value_that_is_not_a_finite_number_is_not_a_grade(number: str) -> None:
    opinion = read_rating(f'{{"score": {number}, "explanation": "e"}}', ratings=None)

    assert opinion.score is None
    assert opinion.problem is not None


def test_any_finite_number_is_a_grade_without_a_rubric() -> None:
    assert read_rating('{"score": "72.5"}', ratings=None).score == 72.5


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        *(
            ("4", 4),
            ("4/5", 4),
            ("4 - good", 4),
            ("4 (good)", 4),
            ("**4**: good", 4),
            ("4 of 5", 4),
            ("4 because of it", 4),
        ),
        *(("3-4", None), ("3 or 4", None), ("3 to 4", None), ("4.5", None), ("4, 5", None), ("none", None)),
    ],
)
def test_a_grade_with_an_explanation_is_read(text: str, grade: int | None) -> None:
    for reply in (f'{{"grade": "{text}"}}', f"Grade: {text}", f"**Score:** {text}"):
        assert read_grade(reply, lowest=1, highest=5).score == grade
        assert (
            read_rating(reply.replace("grade", "rating").replace("Grade", "Rating"), ratings=(1, 2, 3, 4, 5)).score
            == grade
        )


@pytest.mark.parametrize("reply", ['{"score": 2} {"score": 4}', '{"score": 2, "score": 4}', "Score: 2\nScore: 4"])
def test_two_grades_in_one_reply_give_no_score(reply: str) -> None:
    assert read_grade(reply, lowest=1, highest=5).score is None
    assert read_rating(reply, ratings=None).score is None


def test_a_grade_in_truncated_reasoning_gives_no_score() -> None:
    reply = '{"reasoning": "Score: 2 would be too'

    assert read_grade(reply, lowest=1, highest=5).score is None
    assert read_rating(reply, ratings=None).score is None
    assert read_rating('{"explanation": "cut off behind it", "score": 2', ratings=None).score == 2


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *(("A", "BASELINE"), ("B - more polite", "CANDIDATE"), ("**B** (clearer)", "CANDIDATE"), ("✅ A", "BASELINE")),
        *(
            ("SAME: both are right", "TIE"),
            ("a tie", "TIE"),
            ("Response A, as it is short", "BASELINE"),
        ),
        *(("A/B", ""), ("A or B", ""), ("A better answer is B", ""), ("unclear", "")),
    ],
)
def test_a_choice_with_an_explanation_is_read(text: str, label: str) -> None:
    for reply in (f'{{"pairwise_choice": "{text}"}}', f"Choice: {text}"):
        assert read_choice(reply, flipped=False).label == label


def test_two_choices_in_one_reply_give_no_score() -> None:
    assert read_choice('{"choice": "A"} no: {"choice": "B"}', flipped=False).score is None
