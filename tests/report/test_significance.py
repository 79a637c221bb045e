"""Significance of differences between runs, and intervals: equal to those of scipy and statsmodels.

Both are imported where they are used: the import takes longer than the tests.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from workbench.model.results import cohen_kappa
from workbench.report.significance import (
    Count,
    PairedTest,
    Significance,
    bootstrap_statistic,
    compare_pass_rates,
    compare_repeats,
    compare_scores,
    compute_p_value,
    correct_for_many,
    estimate_pass_all_k,
    estimate_pass_at_k,
    explain_pass_rates,
    explain_scores,
    format_p_value,
    format_points,
    mean_interval,
    wilson_interval,
)

TABLES = 1_000
EXACT = 1e-9


def make_pairs(*, better: int, worse: int, passed: int = 0, failed: int = 0) -> list[tuple[float, float]]:
    """Build the pass rates of cases with one repeat."""
    return [(0.0, 1.0)] * better + [(1.0, 0.0)] * worse + [(1.0, 1.0)] * passed + [(0.0, 0.0)] * failed


def require(test: PairedTest | None) -> PairedTest:
    assert test is not None
    return test


def test_verdicts_of_single_repeats_are_compared_by_the_exact_test_of_mcnemar() -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    generator = random.Random(1)
    for _ in range(TABLES):
        better, worse, passed, failed = (generator.randint(0, 30) for _ in range(4))
        test = compare_pass_rates(make_pairs(better=better, worse=worse, passed=passed, failed=failed))
        if test is not None and better + worse:
            expected = mcnemar([[passed, worse], [better, failed]], exact=True).pvalue
            assert test.p_value == pytest.approx(min(expected, 1.0), abs=EXACT)


def test_a_few_large_differences_among_very_many_are_drawn_and_flipped_themselves() -> None:
    generator = np.random.default_rng(3)
    values = generator.lognormal(0, 2.2, 1_000) * generator.choice([-1, 1.3], 1_000)

    test = compare_scores([(0.0, value) for value in values.tolist()])

    means = values[generator.integers(0, 1_000, (20_000, 1_000))].mean(axis=1)
    sums = generator.choice([-1, 1], (20_000, 1_000)) @ np.abs(values)
    assert test.interval is not None
    assert test.interval == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=0.1 * means.std())
    assert test.p_value == pytest.approx(np.mean(np.abs(sums) >= abs(values.sum())), abs=0.015)


def test_ten_thousand_differences_of_which_one_decides_take_little_time() -> None:
    start = time.process_time()

    test = compare_scores([(0.0, 1e-5 * (number % 7)) for number in range(9_999)] + [(0.0, 1.0)])

    assert test.interval is not None
    assert time.process_time() - start < 1.0  # 20,000,000 draws took three seconds


def test_the_signs_of_few_differences_are_flipped_in_all_ways() -> None:
    from scipy import stats

    generator = random.Random(2)
    for _ in range(100):
        differences = [generator.choice([-1.0, -0.5, 0.0, 0.25, 1.0]) for _ in range(generator.randint(2, 10))]
        expected = stats.permutation_test(
            (differences,), lambda values, axis: abs(values.mean(axis=axis)), permutation_type="samples",
            n_resamples=10_000, alternative="greater",
        )  # fmt: skip
        assert compute_p_value(differences) == pytest.approx(expected.pvalue if any(differences) else 1.0, abs=EXACT)


@pytest.mark.parametrize("count", [13, 100, 499, 501, 5_000])
def test_the_p_value_of_many_differences_is_close_to_that_of_the_t_test(count: int) -> None:
    from scipy import stats

    generator = random.Random(count)
    differences = [generator.gauss(2.0, 1.0 * count**0.5) for _ in range(count)]

    assert compute_p_value(differences) == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue, abs=0.02)


def test_a_small_p_value_of_random_flips_is_never_zero() -> None:
    assert compute_p_value([1.0 + each / 100 for each in range(100)]) == pytest.approx(1e-4)


def test_p_values_of_several_metrics_are_corrected_by_holms_method() -> None:
    from statsmodels.stats.multitest import multipletests

    generator = random.Random(3)
    base = require(compare_pass_rates(make_pairs(better=1, worse=0)))
    for _ in range(TABLES):
        p_values = [generator.random() ** 3 for _ in range(generator.randint(1, 8))]
        tests = {
            f"{place}": PairedTest(cases=base.cases, before=0.0, after=1.0, p_value=p_value, interval=None)
            for place, p_value in enumerate(p_values)
        }
        corrected = [test.p_value for test in correct_for_many(tests).values()]
        assert corrected == pytest.approx(multipletests(p_values, method="holm")[1].tolist(), abs=EXACT)


def test_the_interval_of_a_pass_rate_is_that_of_wilson() -> None:
    from statsmodels.stats.proportion import proportion_confint

    generator = random.Random(4)
    for _ in range(TABLES):
        total = generator.randint(1, 200)
        passed = generator.randint(0, total)
        expected = proportion_confint(passed, total, method="wilson")
        assert wilson_interval(passed, total) == pytest.approx(expected, abs=EXACT)


def test_the_interval_of_a_difference_is_that_of_bonett_and_price() -> None:
    # 7 of 21 cases got better and 1 got worse: (7 + 1) / 23 - (1 + 1) / 23, and its standard error 0.1263.
    interval = require(compare_pass_rates(make_pairs(better=7, worse=1, passed=1, failed=12))).interval

    assert interval == pytest.approx((6 / 23 - 1.96 * 0.12627, 6 / 23 + 1.96 * 0.12627), abs=1e-4)


def test_the_interval_contains_the_true_difference_in_95_of_100_comparisons() -> None:
    generator = random.Random(5)
    hits = 0
    for _ in range(400):
        draws = generator.choices([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], weights=[60, 20, 10, 10], k=60)
        interval = require(compare_pass_rates(draws)).interval
        assert interval is not None
        hits += interval.low <= -0.1 <= interval.high
    assert 0.92 < hits / 400 < 0.98


@pytest.mark.parametrize("has_repeats", [False, True])
def test_runs_without_a_changed_verdict_are_not_certainly_equal(has_repeats: bool) -> None:
    rates = [(1.0, 1.0)] * 10 + ([(0.5, 0.5), (0.5, 1.0), (1.0, 0.5)] if has_repeats else [])
    interval = require(compare_pass_rates(rates)).interval

    assert interval is not None
    assert interval.low < -0.1
    assert interval.high > 0.1


def test_the_bootstrap_is_close_to_that_of_scipy() -> None:
    from scipy import stats

    generator = random.Random(6)
    values = [generator.random() ** 2 for _ in range(80)]
    expected = stats.bootstrap((values,), lambda drawn, axis: drawn.mean(axis=axis), method="percentile", rng=1)

    interval = compare_scores([(0.0, value) for value in values]).interval
    assert interval == pytest.approx(tuple(expected.confidence_interval), abs=0.01)


def test_the_bootstrap_draws_the_items_of_a_case_together() -> None:
    generator = random.Random(7)

    def rate(counts: Mapping[Any, int]) -> float:
        return counts[("yes", "yes")] / sum(counts.values())

    cases = [generator.choice([[("yes", "yes")] * 10, [("yes", "no")] * 10]) for _ in range(30)]
    items = [[item] for case in cases for item in case]
    together, alone = bootstrap_statistic(cases, rate), bootstrap_statistic(items, rate)

    assert together is not None
    assert alone is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_the_interval_of_kappa_contains_kappa() -> None:
    generator = random.Random(8)
    pairs = [(first, first if generator.random() < 0.8 else "no") for first in generator.choices(["yes", "no"], k=60)]
    interval = bootstrap_statistic([[pair] for pair in pairs], cohen_kappa)
    kappa = cohen_kappa(pairs)

    assert interval is not None
    assert kappa is not None
    assert 0 < interval.low < kappa < interval.high < 1


@pytest.mark.parametrize("values", [[0.5], [number / 9 for number in range(9)], [0.5] * 20], ids=len)
def test_too_few_or_equal_values_have_no_interval(values: Sequence[float]) -> None:
    assert compare_scores([(0.0, value) for value in values]).interval is None
    assert bootstrap_statistic([[value] for value in values], lambda _: 0.5) is None


def test_a_statistic_that_is_the_same_in_all_draws_has_no_interval() -> None:
    assert bootstrap_statistic([[("y", "y")], [("n", "n")]] * 8, cohen_kappa) is None


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (make_pairs(better=0, worse=15, passed=100), "worse: the pass rate fell by 13.0 points over 115 cases (95 %"),
        (make_pairs(better=15, worse=1, passed=100), "better: the pass rate rose by 12.1 points over 116 cases (95 %"),
        (make_pairs(better=2, worse=2, passed=400), "no difference of 5 points or more: the pass rate changed by +0.0"),
        (make_pairs(better=1, worse=4, passed=95), "cannot tell: the pass rate changed by -3.0 points over 100 cases"),
        (make_pairs(better=0, worse=1), "cannot tell: the pass rate changed by -100.0 points over 1 case (p = 1); 5"),
    ],
)  # fmt: skip
def test_the_verdict_comes_first_in_words(pairs: list[tuple[float, float]], words: str) -> None:
    assert explain_pass_rates(require(compare_pass_rates(pairs))).startswith(words)


def test_with_the_named_number_of_cases_a_difference_of_5_points_is_mostly_seen() -> None:
    # One in ten verdicts changes.
    seen = require(compare_pass_rates(make_pairs(better=5, worse=5, passed=90)))
    assert seen.needed is not None
    assert f"{seen.needed} more cases would be needed to see 5 points" in explain_pass_rates(seen)
    generator = random.Random(9)
    found = 0
    for _ in range(400):
        draws = generator.choices([(1.0, 1.0), (0.0, 1.0), (1.0, 0.0)], weights=[900, 25, 75], k=100 + seen.needed)
        found += require(compare_pass_rates(draws)).finding is Significance.LOWER
    assert 0.7 < found / 400 < 0.9


def test_repeats_of_a_case_do_not_count_as_independent() -> None:
    # One case of four lost all of its 10 repeats: no evidence, though 10 of 40 executions changed.
    assert require(compare_pass_rates([(1.0, 0.0), (1.0, 1.0), (1.0, 1.0), (0.9, 0.9)])).p_value == 1.0


def test_scores_are_compared_case_by_case() -> None:
    generator = random.Random(10)
    before = [generator.random() for _ in range(40)]
    test = compare_scores([(score, score - 0.02 - generator.random() / 50) for score in before])

    assert test.finding is Significance.LOWER
    assert test.interval is not None
    assert -0.04 < test.interval.low < test.difference < test.interval.high < -0.02
    assert explain_scores(test).startswith("lower (95 % -0.03")
    assert explain_scores(compare_scores([(0.5, 0.5)] * 9)) == "unchanged"


def test_the_same_runs_always_give_the_same_numbers() -> None:
    generator = random.Random(11)
    pairs = [(generator.random(), generator.random()) for _ in range(60)]

    assert compare_scores(pairs) == compare_scores(pairs)


def test_the_bounds_of_the_pass_rate_give_those_of_pass_at_k() -> None:
    interval = wilson_interval(5, 10)

    assert interval.of_any(1) == pytest.approx(interval)
    assert interval.of_all(1) == interval
    assert interval.of_any(2) == pytest.approx((1 - 0.7634**2, 1 - 0.2366**2), abs=1e-4)
    assert interval.of_all(2) == pytest.approx((0.2366**2, 0.7634**2), abs=1e-4)


def test_probabilities_of_k_repeats_assume_draws_without_replacement() -> None:
    assert estimate_pass_at_k(1, passed=2, total=4) == estimate_pass_all_k(1, passed=2, total=4) == 0.5
    assert estimate_pass_at_k(2, passed=2, total=4) == pytest.approx(5 / 6)
    assert estimate_pass_all_k(2, passed=2, total=4) == pytest.approx(1 / 6)
    assert (estimate_pass_at_k(4, passed=1, total=4), estimate_pass_all_k(4, passed=3, total=4)) == (1.0, 0.0)


def test_errors_of_rounding_are_no_differences() -> None:
    test = compare_scores([(0.1 + 0.2, 0.3)] * 12)

    assert (test.p_value, explain_scores(test)) == (1.0, "unchanged")


def test_a_single_large_difference_among_many_small_ones_is_not_significant() -> None:
    generator = random.Random(12)
    differences = [100.0, *(-generator.random() / 100 for _ in range(600))]

    assert compute_p_value(differences) > 0.9


@pytest.mark.parametrize(("p_value", "text"), [(0.0499, "p = 0.0499"), (0.0504, "p = 0.0504"), (0.0451, "p = 0.045")])
def test_a_p_value_is_not_rounded_to_the_limit(p_value: float, text: str) -> None:
    assert format_p_value(p_value) == text


def test_a_small_negative_share_is_not_written_as_minus_zero() -> None:
    assert format_points(-0.0001) == "+0.0"


def draw_counts(generator: random.Random, *, cases: int, most: int) -> list[tuple[Count, Count]]:
    totals = [(generator.randint(1, most), generator.randint(1, most)) for _ in range(cases)]
    return [(Count(generator.randint(0, m), m), Count(generator.randint(0, n), n)) for m, n in totals]


def is_changed(before: Count, after: Count) -> bool:
    return 0 < before.passed + after.passed < before.total + after.total


def test_the_test_of_many_repeats_is_that_of_mantel_and_haenszel() -> None:
    from statsmodels.stats.contingency_tables import StratifiedTable

    generator = random.Random(11)
    for _ in range(100):
        pairs = draw_counts(generator, cases=250, most=5)
        tables = [
            [[after.passed, after.total - after.passed], [before.passed, before.total - before.passed]]
            for before, after in pairs
            if is_changed(before, after)
        ]
        test = compare_repeats(pairs)

        assert test is not None
        expected = StratifiedTable(tables).test_null_odds(correction=False).pvalue
        assert test.p_value == pytest.approx(expected, abs=EXACT)


def test_the_test_of_few_repeats_counts_all_assignments_to_the_runs() -> None:
    generator = random.Random(12)
    for _ in range(TABLES):
        pairs = draw_counts(generator, cases=3, most=3)
        if not any(is_changed(*pair) for pair in pairs) or all(each.total == 1 for pair in pairs for each in pair):
            continue
        sums = [sum(found) for found in product(*(list(_list_sums(*pair)) for pair in pairs))]
        mean, seen = sum(sums) / len(sums), sum(after.passed for _, after in pairs)
        expected = sum(abs(each - mean) >= abs(seen - mean) - EXACT for each in sums) / len(sums)
        test = compare_repeats(pairs)

        assert test is not None
        assert test.p_value == pytest.approx(expected, abs=EXACT)


def _list_sums(before: Count, after: Count) -> list[int]:
    passed = before.passed + after.passed
    repeats = [1] * passed + [0] * (before.total + after.total - passed)
    return [sum(chosen) for chosen in combinations(repeats, after.total)]


def test_one_case_that_lost_all_its_repeats_is_worse_but_says_nothing_of_others() -> None:
    repeats = compare_repeats([(Count(10, 10), Count(0, 10)), *[(Count(10, 10), Count(10, 10))] * 3])

    assert repeats is not None
    assert (repeats.finding, repeats.changed, repeats.cases) == (Significance.LOWER, 1, 4)
    assert require(compare_pass_rates([(1.0, 0.0), *[(1.0, 1.0)] * 3])).finding is Significance.CANNOT_TELL


def test_single_repeats_are_not_tested_within_cases() -> None:
    assert compare_repeats([(Count(1, 1), Count(0, 1))] * 10) is None
    assert compare_repeats([(Count(0, 0), Count(0, 3))]) is None


def test_the_interval_of_a_mean_of_many_cases_is_close_to_the_bootstrap() -> None:
    from scipy import stats

    generator = random.Random(13)
    values = [generator.random() ** 2 for _ in range(400)]
    expected = stats.bootstrap((values,), lambda drawn, axis: drawn.mean(axis=axis), method="percentile", rng=1)

    assert mean_interval([(value, 1) for value in values]) == pytest.approx(
        tuple(expected.confidence_interval), abs=0.005
    )
    alike = stats.norm.interval(
        0.95, sum(values) / 400, (sum((v - sum(values) / 400) ** 2 for v in values)) ** 0.5 / 400
    )
    assert mean_interval([(value, 1) for value in values]) == pytest.approx(alike, abs=EXACT)


def test_a_mean_that_one_case_decides_has_no_symmetric_interval() -> None:
    interval = mean_interval([(1.0, 1)] * 299 + [(0.0, 1)])

    assert interval is not None
    assert interval.high == 1.0


def test_the_scores_of_a_case_are_drawn_together() -> None:
    together = mean_interval([(10.0 * (place % 2), 10) for place in range(40)])
    alone = mean_interval([(float(place % 2), 1) for place in range(400)])

    assert together is not None
    assert alone is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert mean_interval([(float("inf"), 1)] * 10) is None


@pytest.mark.parametrize("scores", [[1.0] * 600, [0.1 + 0.2, 0.3] * 10])
def test_equal_scores_have_no_interval_and_do_not_load_numpy(
    scores: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)  # an import of it then fails

    assert mean_interval([(score, 1) for score in scores]) is None


@pytest.mark.parametrize("count", [10, 40, 600])
def test_differences_whose_squares_are_infinite_are_tested_as_smaller_ones(count: int) -> None:
    small = [(0.0, 1.0 + place / count) for place in range(count)]
    large = [(before, after * 1e200) for before, after in small]

    test = compare_scores(large)

    assert test.p_value == pytest.approx(compare_scores(small).p_value)
    assert test.p_value < 0.01
    assert test.interval is None
