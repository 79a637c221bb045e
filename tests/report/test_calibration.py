"""Labels of people: which words and numbers a judge could have given."""

from __future__ import annotations

import pytest

from workbench.report.calibration import Bounds, Kind, normalise_label, validate_label


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [("Yes", "verdict", "pass"), (0.0, "verdict", "fail"), ("Same", "choice", "TIE"), (4.0, "rating", "4")],
)
def test_words_and_numbers_are_classes(value: str | float, kind: Kind, name: str) -> None:
    assert validate_label(value, kind, Bounds(0.0, 5.0), name="quality") is None
    assert normalise_label(value, kind) == name


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("good", "rating", "a number, like the other labels"),
        (6.0, "rating", "a rating from 1 to 5, the scale of quality"),
        ("maybe", "verdict", "a number, or one of pass, passed"),
        ("pass", "choice", "CANDIDATE, BASELINE or TIE"),
    ],
)
def test_a_label_that_the_judge_cannot_give_is_refused(value: str | float, kind: Kind, expected: str) -> None:
    problem = validate_label(value, kind, Bounds(1.0, 5.0), name="quality")

    assert problem is not None
    assert problem.startswith(expected)
