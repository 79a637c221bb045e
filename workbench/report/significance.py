"""Significance: whether a difference between two runs is more than chance, and how certain a share, mean or kappa is.

A case is the unit of all statistics: its repeats, turns and rubrics are not independent of each other. Nothing here
needs scipy: the exact test is a sum of binomial coefficients, and the bootstrap needs only numpy, which rouge-score
installs. The tests compare all results with scipy and statsmodels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, comb, erfc, isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from workbench.model.text import format_mean, pluralise

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

ALPHA = 0.05
"""A difference is significant if chance alone makes one as large less often than this."""

SMALLEST_DIFFERENCE = 0.05
"""A difference of pass rates below this is called no difference: 5 points."""

_Z = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations
_Z_OF_POWER = 0.8416212335729143  # 80 % of a normal distribution lie below this
_RESAMPLES = 2_000
_FLIPS = 9_999
_MOST_EXACT = 12  # differences, whose signs are then all tried: 4,096 ways
_MOST_FLIPPED = 500  # differences, whose signs are then flipped
_SEED = 20_240_229  # the same runs always give the same interval
_CHUNK = 1_000_000  # random numbers that are made at once
_SAME = 1e-9  # differences below this are errors of rounding
_FEWEST_PAIRS = 5  # cases for an interval of verdicts
_FEWEST = 10  # cases for an interval of the bootstrap, which is too narrow for fewer
_MOST_DRAWN = 200  # cases for the bootstrap of a mean; for more, it has a normal distribution
_MOST_EXACT_REPEATS = 400  # executions of changed cases whose distribution is computed exactly
_FEWEST_CHANGED = 6  # cases that the exact test needs to find a difference
_LARGEST_SQUARED = 1e100  # squares of much larger numbers are infinite
_LARGEST_SHARE = 0.02  # of one difference in the sum of squares, for a normal distribution of the sum


_Item = TypeVar("_Item", bound=Hashable)


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float

    def lies_within(self, margin: float) -> bool:
        """Return True if all of it is closer to 0 than `margin`."""
        return -margin < self.low and self.high < margin

    def of_any(self, k: int) -> Interval:
        """Return the interval of pass@k, that one of `k` repeats passes, if this is the interval of the pass rate."""
        return Interval(1.0 - (1.0 - self.low) ** k, 1.0 - (1.0 - self.high) ** k)

    def of_all(self, k: int) -> Interval:
        """Return the interval of pass^k, that all of `k` repeats pass, if this is the interval of the pass rate."""
        return Interval(self.low**k, self.high**k)


class Significance(StrEnum):
    """The result of a test."""

    HIGHER = "higher"
    LOWER = "lower"
    NO_DIFFERENCE = "no difference"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """The test of one quantity of the same cases in two runs.

    `before` and `after` are means over the `cases`. `p_value` is the probability of a difference at least as large if
    both runs were alike; for several quantities, corrected by `correct_for_many`. `interval` is that of the difference,
    None for few cases. `needed` are the additional cases with which a difference of `visible` (a share) would be seen
    in about 4 of 5 comparisons; None if there are enough, or if the quantity has no such scale.
    """

    cases: int
    before: float
    after: float
    p_value: float
    interval: Interval | None
    needed: int | None = None
    visible: float | None = None
    margin: float | None = None  # differences below this do not count; None: every difference counts

    @property
    def difference(self) -> float:
        """By how much the mean rose."""
        return self.after - self.before

    @property
    def finding(self) -> Significance:
        """The result, by the p-value, then by the interval."""
        if self.p_value < ALPHA:
            return Significance.HIGHER if self.difference > 0 else Significance.LOWER
        if self.margin is not None and self.interval is not None and self.interval.lies_within(self.margin):
            return Significance.NO_DIFFERENCE
        return Significance.CANNOT_TELL


class Count(NamedTuple):
    """How many repeats of a case have a verdict, and how many of them passed."""

    passed: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedTest:
    """The test whether these very cases pass more or less often, from the repeats within each case.

    Unlike a `PairedTest`, it says nothing of other cases: with many repeats, one case suffices. `changed` counts the
    cases whose repeats did not all end in the same way. `before` and `after` are means over the cases.
    """

    cases: int
    changed: int
    before: float
    after: float
    p_value: float

    @property
    def finding(self) -> Significance:
        """The result, by the p-value."""
        if self.p_value >= ALPHA:
            return Significance.CANNOT_TELL
        return Significance.HIGHER if self.after > self.before else Significance.LOWER


# Tests of the same cases in two runs.


def compare_pass_rates(pairs: Sequence[tuple[float, float]]) -> PairedTest | None:
    """Test the share of passed repeats of each case, before and after. Return None without cases.

    With one repeat on both sides this is the exact test of McNemar. Its interval is that of D. G. Bonett and
    R. M. Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on paired data",
    Journal of Educational and Behavioral Statistics 37 (2012): one case that got better and one that got worse are
    added, so that runs without any changed verdict are not taken for certainly equal. With several repeats the same
    cases are added before the bootstrap.
    """
    if not pairs:
        return None
    differences = _subtract(pairs)
    cases = len(pairs)
    if all(abs(each) in (0.0, 1.0) for each in differences):
        mean = sum(differences) / (cases + 2)
        variance = (sum(each * each for each in differences) + 2) / (cases + 2)
        half = _Z * sqrt((variance - mean * mean) / (cases + 2))
        interval: Interval | None = Interval(max(mean - half, -1.0), min(mean + half, 1.0))
    else:
        interval = _bootstrap_mean([*differences, 1.0, -1.0])
    visible = max(SMALLEST_DIFFERENCE, abs(sum(differences)) / cases)
    return PairedTest(
        cases=cases,
        before=sum(before for before, _ in pairs) / cases,
        after=sum(after for _, after in pairs) / cases,
        p_value=compute_p_value(differences),
        interval=interval if cases >= _FEWEST_PAIRS else None,
        needed=_count_needed_cases(differences, visible),
        visible=visible,
        margin=SMALLEST_DIFFERENCE,
    )


def compare_repeats(pairs: Sequence[tuple[Count, Count]]) -> StratifiedTest | None:
    """Test the repeats of each case, before and after. Return None if no case has several repeats.

    Within a case, each assignment of its repeats to the two runs is equally likely if both runs are alike. The sum over
    cases is exact for up to 400 executions of changed cases (for single repeats it is McNemar's test); for more it is
    the test of N. Mantel and W. Haenszel, "Statistical aspects of the analysis of data from retrospective studies of
    disease", Journal of the National Cancer Institute 22 (1959), without correction of continuity.
    """
    pairs = [(before, after) for before, after in pairs if before.total and after.total]
    if not any(before.total > 1 or after.total > 1 for before, after in pairs):
        return None
    changed = [
        (before, after) for before, after in pairs if 0 < before.passed + after.passed < before.total + after.total
    ]
    return StratifiedTest(
        cases=len(pairs),
        changed=len(changed),
        before=sum(before.passed / before.total for before, _ in pairs) / len(pairs),
        after=sum(after.passed / after.total for _, after in pairs) / len(pairs),
        p_value=_compute_stratified(changed) if changed else 1.0,
    )


def compare_scores(pairs: Sequence[tuple[float, float]]) -> PairedTest:
    """Test the scores of each case, the mean of its repeats, before and after. There is at least one.

    The interval is that of the bootstrap: B. Efron and R. Tibshirani, "An Introduction to the Bootstrap" (1993),
    section 13.3, percentile interval.
    """
    differences = _subtract(pairs)
    return PairedTest(
        cases=len(pairs),
        before=sum(before for before, _ in pairs) / len(pairs),
        after=sum(after for _, after in pairs) / len(pairs),
        p_value=compute_p_value(differences),
        interval=_bootstrap_mean(differences) if len(pairs) >= _FEWEST else None,
    )


def compute_p_value(differences: Sequence[float]) -> float:
    """Return the p-value, two-sided, of the hypothesis that each difference is as likely as its opposite.

    If all differences that are not 0 have the same size, this is the exact sign test (for verdicts: McNemar's). Else
    the signs are flipped: in all ways for up to 12 differences, in 9,999 random ways for up to 500. For more, their sum
    has a normal distribution, unless a few of them are much larger than the others.
    """
    changed = [each for each in differences if abs(each) > _SAME]
    if not changed:
        return 1.0
    sizes = [abs(each) for each in changed]
    if max(sizes) - min(sizes) <= _SAME:
        return _compute_sign_test(sum(each > 0 for each in changed), len(changed))
    return _flip_signs(changed)


def correct_for_many(tests: Mapping[str, PairedTest]) -> dict[str, PairedTest]:
    """Correct the p-values of several tests, of which one may be significant by chance.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    ordered = sorted(tests, key=lambda name: tests[name].p_value)
    corrected: dict[str, float] = {}
    highest = 0.0
    for place, name in enumerate(ordered):
        highest = max(highest, min(tests[name].p_value * (len(ordered) - place), 1.0))
        corrected[name] = highest
    return {name: replace(test, p_value=corrected[name]) for name, test in tests.items()}


def _compute_sign_test(better: int, total: int) -> float:
    """Return the probability of a split at least as uneven, if both sides are equally likely."""
    ways = ways_of_one = 1
    for each in range(min(better, total - better)):
        ways_of_one = ways_of_one * (total - each) // (each + 1)  # comb(total, each + 1), without starting anew
        ways += ways_of_one
    return float(min(2 * ways / 2**total, 1.0))


def _compute_stratified(pairs: Sequence[tuple[Count, Count]]) -> float:
    """Return the probability of a sum of passed repeats after at least as far from its mean; margins are fixed."""
    mean = variance = 0.0
    for before, after in pairs:
        total, passed = before.total + after.total, before.passed + after.passed
        mean += after.total * passed / total
        variance += before.total * after.total * passed * (total - passed) / (total * total * (total - 1))
    distance = abs(sum(after.passed for _, after in pairs) - mean)
    if sum(before.total + after.total for before, after in pairs) > _MOST_EXACT_REPEATS:
        return erfc(distance / sqrt(2 * variance))
    sums = [1.0]  # the probability of each number of passed repeats after
    for before, after in pairs:
        ways = _list_hypergeometric(before, after)
        combined = [0.0] * (len(sums) + len(ways) - 1)
        for place, probability in enumerate(sums):
            for count, share in enumerate(ways):
                combined[place + count] += probability * share
        sums = combined
    reached = (probability for count, probability in enumerate(sums) if abs(count - mean) >= distance - _SAME)
    return min(sum(reached), 1.0)


def _list_hypergeometric(before: Count, after: Count) -> list[float]:
    """Return the probability of each number of passed repeats after, if all assignments are equally likely."""
    passed, ways = before.passed + after.passed, comb(before.total + after.total, after.total)
    failed = before.total + after.total - passed
    return [
        comb(passed, count) * comb(failed, after.total - count) / ways if count <= passed else 0.0
        for count in range(after.total + 1)
    ]


def _flip_signs(changed: Sequence[float]) -> float:
    import numpy as np

    largest = max(map(abs, changed))
    if largest > _LARGEST_SQUARED:
        changed = [each / largest for each in changed]
    sizes = np.abs(np.asarray(changed, dtype=float))
    count = len(changed)
    # Sums that are equal but for rounding count as equally large.
    observed = abs(sum(changed)) * (1 - 1e-12) - 1e-12
    if count <= _MOST_EXACT:
        ways = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float(np.mean(np.abs((2 * ways - 1) @ sizes) >= observed))
    small, large = _split_by_size((sizes * sizes).tolist()) if count > _MOST_FLIPPED else ([], [])
    if small and not large:
        # The sum of so many random signs has a normal distribution.
        return erfc(abs(sum(changed)) / sqrt(2 * float(sizes @ sizes)))
    generator = np.random.default_rng(_SEED)

    def flip_randomly(numbers: NDArray[float64]) -> NDArray[float64]:
        random_bytes = generator.integers(0, 256, (_FLIPS, ceil(len(numbers) / 8)), dtype=np.uint8)
        positive: NDArray[float64] = np.unpackbits(random_bytes, axis=1, count=len(numbers)).astype(float) @ numbers
        return 2 * positive - float(numbers.sum())

    if small:  # only their sum has a normal distribution, around each sum of the large ones
        spread = sqrt(2 * float(sizes[small] @ sizes[small]))
        chances = [erfc((observed - each) / spread) for each in flip_randomly(sizes[large]).tolist()]
        return float(min(sum(chances) / len(chances), 1.0))  # of one side, doubled: the other one is its mirror image
    reached = int(np.count_nonzero(np.abs(flip_randomly(sizes)) >= observed))
    return (reached + 1) / (_FLIPS + 1)  # the observed signs are one of the ways


def _split_by_size(squares: Sequence[float]) -> tuple[list[int], list[int]]:
    """Split many squared numbers, by position, into small ones and the few that are too large for a normal sum.

    The sum of the small ones, with random signs or drawn at random, has a normal distribution. Both lists are empty if
    the small ones are few.
    """
    order = sorted(range(len(squares)), key=squares.__getitem__)
    total, count = 0.0, 0
    for place, position in enumerate(order, start=1):
        total += squares[position]
        if squares[position] < _LARGEST_SHARE * total or not total:
            count = place
    return (order[:count], order[count:]) if count > _MOST_DRAWN else ([], [])


def _subtract(pairs: Sequence[tuple[float, float]]) -> list[float]:
    differences = [after - before for before, after in pairs]
    return [each if abs(each) > _SAME else 0.0 for each in differences]


def _count_needed_cases(differences: Sequence[float], visible: float) -> int | None:
    """Return how many more cases show such a difference in about 4 of 5 comparisons; None if there are enough.

    R. J. Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43
    (1987). A difference of 5 points needs a variance of at least 0.05.
    """
    cases = len(differences)
    spread = max(sum(each * each for each in differences) / cases, visible)
    power = _Z * sqrt(spread) + _Z_OF_POWER * sqrt(max(spread - visible**2, 0.0))
    missing = max(ceil((power / visible) ** 2), _FEWEST_CHANGED) - cases
    return missing if missing > 0 else None


# Intervals of one run.


def wilson_interval(passed: int, total: int) -> Interval:
    """Return the 95 % confidence interval of the pass rate (Wilson's score interval). `total` is at least 1."""
    rate, square = passed / total, _Z * _Z
    centre = (rate + square / (2 * total)) / (1 + square / total)
    half = _Z / (1 + square / total) * sqrt(rate * (1 - rate) / total + square / (4 * total * total))
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0))


def estimate_pass_at_k(k: int, *, passed: int, total: int) -> float:
    """Return the unbiased estimate that at least one of `k` repeats passes (pass@k). `k` is at most `total`."""
    return 1.0 - comb(total - passed, k) / comb(total, k)


def estimate_pass_all_k(k: int, *, passed: int, total: int) -> float:
    """Return the unbiased estimate that all of `k` repeats pass (pass^k). `k` is at most `total`."""
    return comb(passed, k) / comb(total, k)


def bootstrap_statistic(
    clusters: Sequence[Sequence[_Item]], statistic: Callable[[Mapping[_Item, int]], float | None]
) -> Interval | None:
    """Return the 95 % interval of a statistic of counted items, such as pairs of ratings.

    The items of a cluster (the turns and rubrics of a case) are drawn together. `statistic` gets how often each item
    was drawn. None for fewer than 10 clusters, or if the statistic is undefined in most draws or the same in all.
    """
    import numpy as np

    items = list(dict.fromkeys(item for cluster in clusters for item in cluster))
    if len(clusters) < _FEWEST or len(items) < 2:
        return None
    counts = np.zeros((len(clusters), len(items)), dtype=np.int64)
    column = {item: place for place, item in enumerate(items)}
    for row, cluster in enumerate(clusters):
        for item, count in Counter(cluster).items():
            counts[row, column[item]] = count
    drawn = np.concatenate([weights @ counts for weights in _draw_weights(len(clusters))])
    values = [statistic(dict(zip(items, map(int, row), strict=True))) for row in drawn]
    defined = [value for value in values if value is not None]
    return _take_percentiles(defined) if len(defined) > len(values) / 2 else None


def mean_interval(cases: Sequence[tuple[float, int]]) -> Interval | None:
    """Return the 95 % interval of the mean of all scores, given the sum and the number of scores of each case.

    The scores of a case are drawn together. None for fewer than 10 cases, or if the mean is the same in all draws.
    """
    if len(cases) < _FEWEST:
        return None
    return _bootstrap_ratio([total for total, _ in cases], [count for _, count in cases])


def _bootstrap_mean(values: Sequence[float]) -> Interval | None:
    return _bootstrap_ratio(values, [1] * len(values))


def _bootstrap_ratio(totals: Sequence[float], counts: Sequence[int]) -> Interval | None:
    """Return the interval of the ratio of two sums over cases.

    For many cases the ratio has a normal distribution, unless a few of them decide: then it is computed, not drawn.
    """
    ratio = sum(totals) / sum(counts)
    distances = [total - ratio * count for total, count in zip(totals, counts, strict=True)]
    squares = [each * each for each in distances]  # infinite for 1e200, while `**` raises
    if not isfinite(sum(squares)) or 2 * max(map(abs, distances)) <= _SAME:  # the second: all draws are equal
        return None
    if len(totals) > _MOST_DRAWN and max(squares) < _LARGEST_SHARE * sum(squares):
        half = _Z * sqrt(sum(squares)) / sum(counts)
        return Interval(ratio - half, ratio + half) if half > _SAME else None
    small, large = _split_by_size(squares)
    if small:
        return _take_percentiles(_draw_large(totals, counts, small, large))
    import numpy as np

    numerators, denominators = np.asarray(totals, dtype=float), np.asarray(counts, dtype=float)
    return _take_percentiles(
        np.concatenate([(weights @ numerators) / (weights @ denominators) for weights in _draw_weights(len(totals))])
    )


def _draw_large(
    totals: Sequence[float], counts: Sequence[int], small: Sequence[int], large: Sequence[int]
) -> NDArray[float64]:
    """Draw the ratio of two sums over cases. Only the large cases are drawn: the sums of the others are normal."""
    import numpy as np

    generator = np.random.default_rng(_SEED)
    totals_and_counts = np.asarray([totals, counts], dtype=float)
    shares = [1 / len(totals)] * len(large)
    drawn = generator.multinomial(len(totals), [*shares, 1 - sum(shares)], _RESAMPLES)
    small_counts = drawn[:, -1:]
    mean, covariance = totals_and_counts[:, small].mean(axis=1), np.cov(totals_and_counts[:, small], bias=True)
    noise = generator.multivariate_normal([0.0, 0.0], covariance, _RESAMPLES, method="eigh")
    sums = drawn[:, :-1] @ totals_and_counts[:, large].T + small_counts * mean + np.sqrt(small_counts) * noise
    ratios: NDArray[float64] = sums[:, 0] / sums[:, 1]
    return ratios


def _draw_weights(count: int) -> Iterator[NDArray[int64]]:
    """Draw `count` things with replacement, again and again: how often each was drawn, a row for each draw."""
    import numpy as np

    generator = np.random.default_rng(_SEED)
    most = max(_CHUNK // count, 1)
    for start in range(0, _RESAMPLES, most):
        rows = min(most, _RESAMPLES - start)
        drawn = generator.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        yield np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)


def _take_percentiles(values: Sequence[float] | NDArray[float64]) -> Interval | None:
    """Return the middle 95 % of the values; None if they are equal, which would claim certainty."""
    import numpy as np

    low, high = map(float, np.percentile(values, [2.5, 97.5]))
    return Interval(low, high) if high - low > _SAME else None


# The findings in words.


def format_points(share: float) -> str:
    """Format a difference of shares in percentage points: `+3.5`."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"  # + 0.0 makes 0.0 of -0.0


def explain_pass_rates(test: PairedTest) -> str:
    """Say in a sentence, its verdict first, how the pass rate changed."""
    interval = test.interval
    bounds = "" if interval is None else f"95 % from {format_points(interval.low)} to {format_points(interval.high)}, "
    numbers = f"over {pluralise(test.cases, 'case')} ({bounds}{format_p_value(test.p_value)})"
    points = f"{100 * SMALLEST_DIFFERENCE:.0f} points"
    match test.finding:
        case Significance.HIGHER:
            return f"better: the pass rate rose by {100 * test.difference:.1f} points {numbers}"
        case Significance.LOWER:
            return f"worse: the pass rate fell by {-100 * test.difference:.1f} points {numbers}"
    changed = f"the pass rate changed by {format_points(test.difference)} points {numbers}"
    if test.finding is Significance.NO_DIFFERENCE:
        return f"no difference of {points} or more: {changed}"
    if test.needed is None:
        return f"cannot tell: {changed}"
    assert test.visible is not None
    more = "1 more case" if test.needed == 1 else f"{test.needed:,} more cases"
    return f"cannot tell: {changed}; {more} would be needed to see {100 * test.visible:.0f} points"


def explain_repeats(test: StratifiedTest) -> str:
    """Say in a sentence how often these very cases passed."""
    word = "more" if test.finding is Significance.HIGHER else "less"
    points, p_value = format_points(test.after - test.before), format_p_value(test.p_value)
    return f"these very cases pass {word} often, by {points} points ({p_value}, within their repeats)"


def explain_scores(test: PairedTest, metric: str = "") -> str:
    """Return the verdict on a criterion in words: `lower (95 % -0.21 to -0.03, p = 0.004)`."""
    if abs(test.difference) <= _SAME and test.p_value == 1.0:
        return "unchanged"
    bounds = ""
    if test.interval is not None:
        low, high = (format_mean(metric, each, digits=2, sign="+") for each in test.interval)
        bounds = f"95 % {low} to {high}, "
    return f"{test.finding} ({bounds}{format_p_value(test.p_value)})"


def format_interval(interval: Interval | None, form: str) -> str:
    """Format an interval to follow its number: ` (95 % 0.61 to 0.87)`; empty if there is none."""
    return "" if interval is None else f" (95 % {interval.low:{form}} to {interval.high:{form}})"


def format_p_value(p_value: float) -> str:
    """Format a p-value: `p = 0.034`."""
    if p_value < 0.001:
        return "p < 0.001"
    text = f"{p_value:.2g}"
    return f"p = {p_value:.4f}" if float(text) == ALPHA else f"p = {text}"  # on which side it is decides
