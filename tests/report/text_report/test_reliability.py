"""Pass rates of repeats: confidence interval, and probabilities for k repeats."""

from __future__ import annotations

import pytest

from workbench.report.text_report import estimate_pass_all_k, estimate_pass_at_k, wilson_interval


@pytest.mark.parametrize(
    ("passed", "total", "interval"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (10, 10, (0.7225, 1.0)), (1, 1, (0.2065, 1.0))],
)
def test_the_interval_is_the_wilson_interval(passed: int, total: int, interval: tuple[float, float]) -> None:
    assert wilson_interval(passed, total) == pytest.approx(interval, abs=1e-4)


def test_probabilities_of_k_repeats_assume_draws_without_replacement() -> None:
    assert estimate_pass_at_k(1, passed=2, total=4) == estimate_pass_all_k(1, passed=2, total=4) == 0.5
    assert estimate_pass_at_k(2, passed=2, total=4) == pytest.approx(5 / 6)
    assert estimate_pass_all_k(2, passed=2, total=4) == pytest.approx(1 / 6)
    assert (estimate_pass_at_k(4, passed=1, total=4), estimate_pass_all_k(4, passed=3, total=4)) == (1.0, 0.0)
