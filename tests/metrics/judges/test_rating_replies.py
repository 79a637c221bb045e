"""Ratings in replies: numbers that are none are no ratings."""

from __future__ import annotations

import pytest

from workbench.metrics.judges.rating_replies import read_rating


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 400, "true", "null"])
def test_what_is_no_finite_number_is_no_grade(number: str) -> None:
    opinion = read_rating(f'{{"score": {number}, "explanation": "e"}}', ratings=None)

    assert opinion.score is None
    assert opinion.problem is not None


def test_a_number_is_a_grade_where_there_is_no_rubric() -> None:
    assert read_rating('{"score": "72.5"}', ratings=None).score == 72.5
